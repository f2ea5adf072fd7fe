/* A program that uses what is installed: records itself and writes the file of its argument. */
#include <ckineto/ckineto.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    kineto_session *session = NULL;
    kineto_trace *trace = NULL;
    kineto_error error = {KINETO_OK, 0, 0, ""};

    if (argc != 2 || strcmp(kineto_version(), KINETO_VERSION) != 0)
        return 2;
    if (kineto_session_create(NULL, &session, &error) == KINETO_OK &&
        kineto_session_start(session, &error) == KINETO_OK) {
        for (int i = 0; i < 5; i++) {
            KINETO_SCOPED("a step");
        }
        if (kineto_session_stop(session, &trace, &error) == KINETO_OK)
            kineto_trace_save(trace, argv[1], &error);
    }
    if (error.code != KINETO_OK)
        fprintf(stderr, "consumer: %s\n", error.message);
    else
        printf("%d activities\n", (int)kineto_trace_count(trace));
    kineto_trace_release(trace);
    kineto_session_destroy(session);
    return error.code == KINETO_OK ? 0 : 1;
}
