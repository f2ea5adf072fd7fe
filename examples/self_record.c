/* A program that records itself. */
#include <ckineto/ckineto.h>
#include <stdio.h>

int main(void)
{
    kineto_session *session;
    kineto_trace *trace;
    if (kineto_session_begin(NULL, &session, NULL) != KINETO_OK)
        return 1;
    for (int i = 0; i < 3; i++) {
        KINETO_SCOPED("step");
        printf("step %d\n", i);
    }
    kineto_session_end(session, &trace, NULL);
    kineto_status status = kineto_trace_save(trace, "self_record.json", NULL);
    kineto_trace_release(trace);
    return status == KINETO_OK ? 0 : 1;
}
