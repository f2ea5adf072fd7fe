/* A program that records itself, even if others record it: COUNT ranges before, in and after a
 * session of its own, and as many in a child during it. Exit status: which check failed. */
#include <ckineto/ckineto.h>
#include "../helpers/sessions.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

KINETO_SITE_ARGS(site_range, KINETO_KIND_CPU_OP, "range", {"n", KINETO_ARG_INT});

static int64_t next;

static void record_ranges(int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        kineto_value v = {.i = next++};
        kineto_range_end(kineto_range_begin_args(&site_range, &v));
        if (i % 2000 == 0)
            usleep(2000); /* the recorder outside copies out meanwhile */
    }
}

static int check(const kineto_trace *t, int64_t from, int64_t count)
{
    uint64_t rows = 0;
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a;
        kineto_track track;
        kineto_process p;
        kineto_arg arg;
        kineto_trace_get(t, r, &a);
        kineto_trace_track(t, a.track, &track);
        kineto_trace_process(t, track.process, &p);
        if (p.pid != getpid())
            continue;
        if (!kineto_args_find(t, r, "n", &arg) || arg.i != from + (int64_t)rows)
            return 20;
        rows++;
    }
    if (kineto_trace_lost(t))
        return 21;
    if (rows != (uint64_t)count)
        return 22;
    return kineto_trace_count(t) == 2 * (uint64_t)count ? 0 : 23;
}

int main(int argc, char **argv)
{
    int64_t count = argc > 1 ? atoll(argv[1]) : 1000;
    kineto_session *s;
    kineto_trace *t;
    int status = 1;
    record_ranges(count);
    if (begin_session(NULL, &s, NULL))
        return 10;
    pid_t pid = fork();
    if (pid == 0) {
        record_ranges(count);
        _exit(0);
    }
    record_ranges(count);
    if (waitpid(pid, &status, 0) != pid || status)
        return 11;
    if (kineto_session_snapshot(s, &t, NULL))
        return 12;
    int result = check(t, count, count);
    kineto_trace_release(t);
    if (end_session(s, &t, NULL))
        return 13;
    if (!result)
        result = check(t, count, count);
    kineto_trace_release(t);
    record_ranges(count);
    return result;
}
