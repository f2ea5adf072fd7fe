/* Sessions of tests in one call: create and start, stop and destroy. */
#ifndef TESTS_SESSIONS_H
#define TESTS_SESSIONS_H

#include <ckineto/session.h>

/* The session is NULL on failure. */
static inline kineto_status begin_session(const kineto_session_options *options, kineto_session **out,
                                          kineto_error *error)
{
    kineto_status status = kineto_session_create(options, out, error);
    if (!status)
        status = kineto_session_start(*out, error);
    if (status && out) {
        kineto_session_destroy(*out);
        *out = NULL;
    }
    return status;
}

/* The session is destroyed whatever is returned. */
static inline kineto_status end_session(kineto_session *session, kineto_trace **out,
                                        kineto_error *error)
{
    kineto_status status = kineto_session_stop(session, out, error);
    kineto_session_destroy(session);
    return status;
}

#endif
