/* Benchmark of stopping a profiler: 1 M operators with two matrices each become a trace, and so do
 * as many kernels, which a plug-in delivers with the operators' ids; all of them are linked. It
 * reports the time of disable and the memory peak. The floor is one memcpy of the recorded words;
 * the time for page faults of as much fresh memory as the trace has is reported too. */
#include "bench.h"
#include "null_plugin.h"

#include "base/base.h"

#include <ckineto/host.h>
#include <ckineto/profiler.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define OPS          1000000L
#define ROUNDS       5
#define SMALL_BUFFER ((size_t)8 << 20)
#define LARGE_BUFFER ((size_t)320 << 20)

KINETO_OPERATOR(site_mm, "aten::mm");

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_profiler: %s: %s\n", what, err->message);
    exit(1);
}

/* ---- a device: each operator has one kernel ----------------------------------------------------- */

static int push_id(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    int64_t now = (int64_t)builder->hostTicks(builder->pTraceBuilderHandle);
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                  .startTimeUtcNs = now,
                  .endTimeUtcNs = now + 10,
                  .resourceId = 7},
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .nameSize = 4,
        .pName = "gemm",
        .externalId = p->correlationId};
    return builder->emit(builder->pTraceBuilderHandle, &a);
}
static int pop_id(KinetoPlugin_ProfilerPopCorrelationId_Params *p)
{
    (void)p;
    return 0;
}

static const KinetoPlugin_ProfilerInterface device = {
    NULL_PLUGIN, .profilerPushCorrelationId = push_id, .profilerPopCorrelationId = pop_id};

/* ---- memory ------------------------------------------------------------------------------------- */

/* "VmRSS", "VmHWM" in bytes. */
static double memory_bytes(const char *key)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0)
            (void)sscanf(line + strlen(key), ": %llu", &kib);
    (void)fclose(f);
    return (double)kib * 1024;
}

static void forget_peak(void)
{
    int f = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    if (f < 0 || write(f, "5", 1) != 1)
        fprintf(stderr, "bench_profiler: the peak of memory cannot be reset here\n");
    if (f >= 0)
        (void)close(f);
}

/* ---- rounds ------------------------------------------------------------------------------------- */

static kineto_profiler_config config;
static uint32_t activities = KINETO_ACTIVITY_SET(CPU);

static void run_operators(void)
{
    int64_t dims[4] = {32, 512, 512, 128};
    kineto_tensor a = {.sizes = dims, .rank = 2, .dtype = KINETO_DTYPE_FLOAT}, b = a;
    b.sizes += 2;
    for (long i = 0; i < OPS; i++) {
        kineto_function f;
        dims[0] = i & 1023;
        kineto_input in[2] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
        kineto_function_begin(&f, &site_mm, in, 2);
        BENCH_BARRIER();
        kineto_function_end(&f);
    }
}

static void enable_profiler(size_t buffer_bytes)
{
    kineto_error err;
    config.buffer_bytes = buffer_bytes;
    if (kineto_profiler_enable(&config, activities, 0, &err))
        exit_with_error("enable", &err);
}

static kineto_profiler_result *disable_profiler(void)
{
    kineto_error err;
    kineto_profiler_result *result = NULL;
    if (kineto_profiler_disable(&result, &err))
        exit_with_error("disable", &err);
    return result;
}

/* Bytes of an operator and its kernel in a buffer, by the number that fit into a small one. */
static double recorded_bytes(void)
{
    enable_profiler(SMALL_BUFFER);
    run_operators();
    kineto_profiler_result *result = disable_profiler();
    uint64_t rows = kineto_profiler_result_event_count(result);
    uint64_t per_op = activities == KINETO_ACTIVITY_SET(CPU) ? 1 : 2;
    kineto_profiler_result_release(result);
    return (double)SMALL_BUFFER * (double)per_op / (double)(rows ? rows : 1);
}

/* Fail unless the result has every operator, and every kernel is linked to its own. */
static void check_result(const kineto_profiler_result *result)
{
    bool links = activities != KINETO_ACTIVITY_SET(CPU);
    const kineto_trace *t = kineto_profiler_result_trace(result);
    uint64_t expected = (uint64_t)OPS * (links ? 2 : 1);
    if (kineto_trace_lost(t) || kineto_trace_count(t) != expected) {
        for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
            kineto_ledger_line l;
            kineto_trace_ledger(t, i, &l);
            fprintf(stderr, "%.*s: %.*s: %llu\n", (int)l.source.size, l.source.data,
                    (int)l.reason.size, l.reason.data, (unsigned long long)l.count);
        }
        fprintf(stderr, "bench_profiler: %llu rows of %llu, %llu lost\n",
                (unsigned long long)kineto_trace_count(t), (unsigned long long)expected,
                (unsigned long long)kineto_trace_lost(t));
        exit(1);
    }
}

/* Time to touch `bytes` of new memory once, in huge pages where the system has them. */
static double fresh_memory_ms(size_t bytes)
{
    size_t huge = (size_t)2 << 20;
    bytes = (bytes + huge - 1) / huge * huge;
    char *memory =
        mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return 0;
    char *first = memory + (huge - (uintptr_t)memory % huge);
    (void)madvise(first, bytes, MADV_HUGEPAGE);
    double begin = bench_process_ns();
    for (size_t i = 0; i < bytes; i += 4096)
        first[i] = 1;
    double end = bench_process_ns();
    (void)munmap(memory, bytes + huge);
    return (end - begin) / 1e6;
}

static void measure_stop(const char *name)
{
    static bench_series own, floor, fresh;
    char line[64];
    double bytes = recorded_bytes(), before_rss = 0, peak = 0, kept = 0;
    size_t words = (size_t)(bytes * OPS);
    own.count = floor.count = fresh.count = 0;
    for (int round = 0; round < ROUNDS; round++) {
        enable_profiler(LARGE_BUFFER);
        run_operators();
        double rss = memory_bytes("VmRSS");
        forget_peak();
        double begin = bench_process_ns();
        kineto_profiler_result *result = disable_profiler();
        bench_add(&own, (bench_process_ns() - begin) / 1e6);
        if (round == 0) { /* later ones have memory of the heap that was not given back */
            peak = memory_bytes("VmHWM");
            kept = memory_bytes("VmRSS");
            before_rss = rss;
        }
        check_result(result);
        bench_add(&fresh, fresh_memory_ms((size_t)(kept - before_rss) + LARGE_BUFFER));
        kineto_profiler_result_release(result);
        char *from = malloc(words), *to = malloc(words);
        if (!from || !to)
            exit(1);
        memset(from, 1, words);
        memset(to, 2, words);
        begin = bench_process_ns();
        memcpy(to, from, words);
        BENCH_BARRIER();
        bench_add(&floor, (bench_process_ns() - begin) / 1e6);
        free(from);
        free(to);
    }
    (void)snprintf(line, sizeof line, "disable_%s", name);
    bench_print(line, "ms/Mop", &own, &floor);
    (void)snprintf(line, sizeof line, "fresh_memory_%s", name);
    bench_print(line, "ms/Mop", &fresh, &floor);
    (void)snprintf(line, sizeof line, "recorded_%s", name);
    bench_line(line, bytes, "B/op", bytes, 1);
    (void)snprintf(line, sizeof line, "peak_%s", name); /* the recorded words are in it */
    bench_line(line, (peak - before_rss) / OPS + bytes, "B/op", bytes, 1);
    (void)snprintf(line, sizeof line, "trace_%s", name);
    bench_line(line, (kept - before_rss + LARGE_BUFFER) / OPS, "B/op", bytes, 1);
}

int main(void)
{
    kineto_error err = {0};
    kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
    config.report_input_shapes = true;
    measure_stop("operators");
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    if (registry->registerProfiler(registry->pRegistryHandle, &device))
        exit_with_error("plug-in", &err);
    activities |= KINETO_ACTIVITY_SET(CUDA);
    measure_stop("operators_and_kernels");
    return 0;
}
