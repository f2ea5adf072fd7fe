/* A program that records itself. */
#include <ckineto/ckineto.h>
#include <stdio.h>

int main(void)
{
    kineto_session *session;
    kineto_trace *trace;
    if (kineto_session_create(NULL, &session, NULL) != KINETO_OK)
        return 1;
    kineto_session_start(session, NULL);
    for (int i = 0; i < 3; i++) {
        KINETO_SCOPED("step");
        printf("step %d\n", i);
    }
    kineto_session_stop(session, &trace, NULL);
    kineto_session_destroy(session);
    kineto_status status = kineto_trace_save(trace, "self_record.json", NULL);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : 1;
}
