/* Benchmark of converting rocprofiler-sdk's records to activities: a million kernels in batches, through
 * one pass, to the recorder, and on into a trace. The floor is a pass that reads each record's start. */
#include "bench.h"
#include "null_plugin.h"

#include "../plugins/rocm/rocm.h"

#include "record/record.h"
#include "session/session.h"
#include "../tests/helpers/sessions.h"

#include <ckineto/host.h>
#include <ckineto/session.h>

#define KERNELS      1000000u
#define ROUNDS       5
#define PER_BATCH    10000u
#define RECORD_BYTES 184u
#define NAMES        64u
#define SHAPES       200u /* configurations that a step of training launches */
#define VERSION      10000u
#define KERNEL_KIND  11u
#define BUFFER_BYTES ((size_t)80 << 20)

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_rocm: %s: %s\n", what, err ? err->message : "");
    exit(1);
}

/* ---- the SDK ----------------------------------------------------------------------------------- */

static rp_status give_kind(uint32_t n, const char **name, uint64_t *size)
{
    static const char *const names[] = {
        [5] = "HIP_RUNTIME_API", [10] = "MEMORY_COPY", [KERNEL_KIND] = "KERNEL_DISPATCH"};
    (void)size;
    *name = n < CP_COUNT(names) ? names[n] : NULL;
    return *name ? RP_SUCCESS : 4;
}

static rp_status give_callback(uint32_t n, const char **name, uint64_t *size)
{
    (void)size;
    *name = n == 10 ? "CODE_OBJECT" : NULL;
    return *name ? RP_SUCCESS : 4;
}

static rp_status accept_context(rp_context c)
{
    (void)c;
    return RP_SUCCESS;
}
static rp_status give_context(rp_context *c)
{
    c->handle = 1;
    return RP_SUCCESS;
}
static rp_status give_buffer(rp_context c, size_t size, size_t mark, int policy, rp_buffer_fn fn, void *data,
                             rp_buffer *out)
{
    (void)c, (void)size, (void)mark, (void)policy, (void)fn, (void)data;
    out->handle = 1;
    return RP_SUCCESS;
}
static rp_status accept_service(rp_context c, uint32_t kind, const int32_t *list, size_t n, rp_buffer b)
{
    (void)c, (void)kind, (void)list, (void)n, (void)b;
    return RP_SUCCESS;
}
static rp_status accept_callback(rp_context c, uint32_t kind, const int32_t *list, size_t n, rp_callback_fn fn,
                                 void *data)
{
    (void)c, (void)kind, (void)list, (void)n, (void)fn, (void)data;
    return RP_SUCCESS;
}
static rp_status give_operations(uint32_t kind, rp_operation_fn fn, void *data)
{
    (void)kind, (void)fn, (void)data;
    return RP_SUCCESS;
}
static rp_status give_agents(int version, rp_agents_fn fn, size_t size, void *data)
{
    static rp_agent gpu = {.size = RP_AGENT_BYTES, .id = 500, .type = RP_AGENT_GPU};
    const void *list[] = {&gpu};
    (void)size;
    return fn(version, list, 1, data);
}

static void start_sdk(void)
{
    char why[CP_TEXT_BYTES];
    const rp_options options = {.types = UINT64_MAX};
    rp_sdk = (rp_sdk_api){.buffer_kind_name = give_kind,
                          .callback_kind_name = give_callback,
                          .create_context = give_context,
                          .start_context = accept_context,
                          .create_buffer = give_buffer,
                          .buffer_service = accept_service,
                          .callback_service = accept_callback,
                          .operations = give_operations,
                          .query_agents = give_agents};
    if (!rp_tracing_create(&options, why))
        exit_with_error(why, NULL);
    rp_agents_load();
    for (uint32_t i = 0; i < NAMES; i++) {
        char name[128];
        snprintf(name, sizeof name,
                 "_ZN2at6native29vectorized_elementwise_kernelILi%uEfNS0_11FillFunctorIfEEEEviT0_.kd", i);
        rp_symbols_add(&(rp_kernel_symbol){.kernel = i + 1, .name = name, .vector_registers = 64});
    }
}

/* ---- batches ----------------------------------------------------------------------------------- */

static uint8_t records[PER_BATCH][RECORD_BYTES] __attribute__((aligned(8)));
static rp_header headers[PER_BATCH], *list[PER_BATCH];

static void write_batch(uint32_t first, uint64_t start)
{
    for (uint32_t i = 0; i < PER_BATCH; i++) {
        uint32_t shape = (first + i) % SHAPES;
        rp_kernel_record k = {.head = {RECORD_BYTES, KERNEL_KIND, 2, first + i + 1, 0},
                              .start = start + i,
                              .end = start + i + 100,
                              .agent_id = 500,
                              .queue = 0xabc0 + shape % 4,
                              .kernel = shape % NAMES + 1,
                              .group_bytes = 4096,
                              .block = {128, 1, 1},
                              .grid = {128 * (1 + shape), 4, 1}};
        memcpy(records[i], &k, sizeof k);
        headers[i] = (rp_header){RP_CATEGORY_TRACING, KERNEL_KIND, records[i]};
        list[i] = &headers[i];
    }
}

/* ---- measuring --------------------------------------------------------------------------------- */

static const KinetoPlugin_ProfilerInterface plugin = {NULL_PLUGIN};

static double time_pass(void)
{
    static volatile uint64_t sum;
    double begin = bench_thread_ns();
    for (uint32_t i = 0; i < PER_BATCH; i++)
        sum += ((const rp_kernel_record *)list[i]->payload)->start;
    return bench_thread_ns() - begin;
}

static uint64_t count_pool_words(void)
{
    const kf_pool *pool = kineto_rt_pool();
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->control->chunk_high; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

static kineto_session *begin_rocm_session(void)
{
    kineto_session *s;
    kineto_error err = {0};
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.buffer_bytes = BUFFER_BYTES;
    options.retention = KINETO_RETAIN_OLDEST;
    if (begin_session(&options, &s, &err))
        exit_with_error("begin", &err);
    return s;
}

typedef struct round_times {
    double pass, decode, build, bytes; /* of a kernel: ns each, bytes recorded */
} round_times;

static round_times measure_round(void)
{
    static rp_decoder d;
    const rp_options options = {.types = UINT64_MAX};
    round_times t = {0};
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kineto_session *s = begin_rocm_session();
    uint64_t before = count_pool_words(), now = builder->hostTicks(builder->pTraceBuilderHandle);
    if (!rp_decoder_init(&d, builder, &options, VERSION, KINETO_PLUGIN_CLOCK_TICKS))
        exit_with_error("out of memory", NULL);
    for (uint32_t first = 0; first < KERNELS; first += PER_BATCH) {
        write_batch(first, now + first);
        t.pass += time_pass() / KERNELS;
        double begin = bench_thread_ns();
        rp_decoder_read(&d, list, PER_BATCH);
        t.decode += (bench_thread_ns() - begin) / KERNELS;
    }
    double begin = bench_process_ns();
    rp_decoder_finish(&d);
    t.bytes = (double)(count_pool_words() - before) * 8 / KERNELS;
    if (end_session(s, &trace, &err))
        exit_with_error("end", &err);
    t.build = (bench_process_ns() - begin) / KERNELS;
    if (kineto_trace_count(trace) != KERNELS || kineto_trace_lost(trace))
        exit_with_error("kernels are missing", NULL);
    kineto_trace_release(trace);
    rp_decoder_free(&d);
    return t;
}

int main(void)
{
    static bench_series pass, decode, build;
    double bytes = 0;
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    start_sdk();
    if (registry->registerProfiler(registry->pRegistryHandle, &plugin))
        exit_with_error("cannot begin", NULL);
    for (int round = 0; round < ROUNDS; round++) {
        round_times t = measure_round();
        bench_add(&pass, t.pass);
        bench_add(&decode, t.decode);
        bench_add(&build, t.build);
        bytes = t.bytes;
    }
    bench_print("rocm_kernel_decoded", "ns/kernel", &decode, &pass);
    bench_print("rocm_kernel_built", "ns/kernel", &build, &pass);
    bench_line("rocm_kernel_recorded", bytes, "bytes", RECORD_BYTES, 1);
    return 0;
}
