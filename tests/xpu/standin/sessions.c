/* A program that records itself: sessions with the plug-in that it loads, while it uses the fake SYCL.
 * sessions PLUGIN MODE N: "many" begins and ends N sessions, with operators; "taken" begins
 * another profiler first. */
#include "standin.h"

#include <ckineto/ckineto.h>
#include <ckineto/host.h>
#include <ckineto/record.h>
#include <ckineto/session.h>
#include <ckineto/trace.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const kineto_error *error)
{
    printf("%s: %s\n", what, error ? error->message : "");
    exit(1);
}

static bool pushes;
static unsigned operators;

static unsigned count_kernels(const kineto_trace *trace)
{
    unsigned kernels = 0;
    for (uint64_t i = 0; i < kineto_trace_count(trace); i++) {
        kineto_activity v;
        kineto_trace_get(trace, (kineto_row)i, &v);
        kernels += v.kind == KINETO_KIND_CONCURRENT_KERNEL;
        operators += v.kind == KINETO_KIND_CONCURRENT_KERNEL && v.external_id >= 1001 && v.external_id <= 1010;
    }
    return kernels;
}

static void print_ledger_lines(const kineto_trace *trace)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (line.source.size >= 3 && (memcmp(line.source.data, "XPU", 3) == 0 || memcmp(line.source.data, "plug", 4) == 0))
            printf("  %.*s: %.*s (%llu): %.*s\n", (int)line.source.size, line.source.data,
                   (int)line.reason.size, line.reason.data, (unsigned long long)line.count,
                   (int)line.detail.size, line.detail.data);
    }
}

static unsigned record_once(unsigned launches, bool prints)
{
    kineto_session_options options;
    kineto_session *session;
    kineto_trace *trace = NULL;
    kineto_error error = {0};
    kineto_session_options_init(&options);
    options.buffer_bytes = 8 << 20;
    if (kineto_session_create(&options, &session, &error) || kineto_session_start(session, &error))
        fail("start", &error);
    for (unsigned i = 0; i < launches; i++) {
        if (pushes)
            kineto_correlation_push(1001 + i);
        xs_launch(0, 1, 1);
        if (pushes)
            kineto_correlation_pop();
    }
    xs_wait(); /* what begins after the session is not in it */
    if (kineto_session_stop(session, &trace, &error))
        fail("stop", &error);
    kineto_session_destroy(session);
    unsigned kernels = count_kernels(trace);
    if (prints || kernels != launches)
        print_ledger_lines(trace);
    kineto_trace_release(trace);
    return kernels;
}

static void begin_other_profiler(void)
{
    void *library = dlopen("libkineto_standin.so", RTLD_NOW | RTLD_LOCAL);
    void *address = library ? dlsym(library, "xk_start") : NULL;
    int (*begin)(void);
    memcpy(&begin, &address, sizeof begin);
    if (!begin || begin() != 0)
        exit(1);
}

int main(int argc, char **argv)
{
    kineto_error error = {0};
    unsigned kernels = 0, rounds = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 5;
    if (argc < 3)
        return 2;
    pushes = strcmp(argv[2], "operators") == 0;
    if (strcmp(argv[2], "taken") == 0)
        begin_other_profiler();
    if (kineto_plugin_load(argv[1], NULL, &error))
        fail("load", &error);
    for (unsigned i = 0; i < rounds; i++) {
        kernels += record_once(10, strcmp(argv[2], "taken") == 0 && i == 0);
        xs_launch(0, 1, 1); /* between sessions */
        xs_wait();
    }
    printf("kernels %u of %u, operators %u\n", kernels, rounds * 10, operators);
    return 0;
}
