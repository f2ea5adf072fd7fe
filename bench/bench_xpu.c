/* Benchmark of converting PTI's records to activities: a million kernels in buffers, through one pass, to
 * the recorder, and on into a trace. The floor is a pass that reads each record's start. PTI is a function
 * that finds the next record, as its own does. */
#include "bench.h"
#include "null_plugin.h"

#include "../plugins/xpu/xpu.h"

#include "record/record.h"
#include "session/session.h"
#include "../tests/helpers/sessions.h"

#include <ckineto/host.h>
#include <ckineto/session.h>

#define KERNELS      1000000u
#define ROUNDS       5
#define PER_BUFFER   10000u
#define RECORD_BYTES 184u
#define NAMES        64u
#define QUEUES       4u
#define BUFFER_BYTES ((size_t)160 << 20)

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_xpu: %s: %s\n", what, err ? err->message : "");
    exit(1);
}

static unsigned char buffer[PER_BUFFER * RECORD_BYTES] __attribute__((aligned(64)));
static char names[NAMES][96];

static xp_status find_next(unsigned char *memory, size_t used, unsigned char **record)
{
    unsigned char *next = *record ? *record + RECORD_BYTES : memory;
    if (next >= memory + used)
        return XP_END_OF_BUFFER;
    *record = next;
    return XP_SUCCESS;
}

/* PTI reports one external record for each launch if operators are recorded; these are kernels alone. */
static void write_buffer(uint32_t first, uint64_t start)
{
    for (uint32_t i = 0; i < PER_BUFFER; i++) {
        uint32_t n = first + i;
        xp_kernel_record k = {.kind = XP_VIEW_KERNEL,
                              .queue = (void *)(uintptr_t)(0x1000 + n % QUEUES * 64),
                              .context = buffer,
                              .name = names[n % NAMES],
                              .source_file = "/src/xpu/sycl/ElementwiseKernels.cpp",
                              .source_line = n % NAMES,
                              .kernel_id = n,
                              .correlation = n + 1,
                              .thread = 77,
                              .uuid = {1},
                              .start = start + i,
                              .end = start + i + 100,
                              .sycl_queue = n % QUEUES,
                              .node = n,
                              .invocation = 1};
        memcpy(buffer + (size_t)i * RECORD_BYTES, &k, sizeof k);
    }
}

static double time_pass(void)
{
    static volatile uint64_t sum;
    double begin = bench_thread_ns();
    for (uint32_t i = 0; i < PER_BUFFER; i++)
        sum += ((const xp_kernel_record *)(const void *)(buffer + (size_t)i * RECORD_BYTES))->start;
    return bench_thread_ns() - begin;
}

static const KinetoPlugin_ProfilerInterface plugin = {NULL_PLUGIN};

static uint64_t count_pool_words(void)
{
    const kf_pool *pool = kineto_rt_pool();
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->control->chunk_high; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

static kineto_session *begin_xpu_session(void)
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
    static xp_decoder d;
    const xp_options options = {.types = UINT64_MAX};
    round_times t = {0};
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kineto_session *s = begin_xpu_session();
    uint64_t before = count_pool_words(), now = builder->hostTicks(builder->pTraceBuilderHandle);
    if (!xp_decoder_init(&d, builder, &options, XP_VERSION(1u, 2u), KINETO_PLUGIN_CLOCK_TICKS))
        exit_with_error("out of memory", NULL);
    for (uint32_t first = 0; first < KERNELS; first += PER_BUFFER) {
        write_buffer(first, now + first);
        t.pass += time_pass() / KERNELS;
        double begin = bench_thread_ns();
        xp_decoder_read(&d, buffer, sizeof buffer);
        t.decode += (bench_thread_ns() - begin) / KERNELS;
    }
    double begin = bench_process_ns();
    xp_decoder_finish(&d);
    t.bytes = (double)(count_pool_words() - before) * 8 / KERNELS;
    if (end_session(s, &trace, &err))
        exit_with_error("end", &err);
    t.build = (bench_process_ns() - begin) / KERNELS;
    if (kineto_trace_count(trace) != KERNELS || kineto_trace_lost(trace))
        exit_with_error("kernels are missing", NULL);
    kineto_trace_release(trace);
    xp_decoder_free(&d);
    return t;
}

int main(void)
{
    static bench_series pass, decode, build;
    double bytes = 0;
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    xp_pti.next_record = find_next;
    for (uint32_t i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "at::native::xpu::VectorizedElementwiseKernel<%u, float>", i);
    if (registry->registerProfiler(registry->pRegistryHandle, &plugin))
        exit_with_error("cannot begin", NULL);
    for (int round = 0; round < ROUNDS; round++) {
        round_times t = measure_round();
        bench_add(&pass, t.pass);
        bench_add(&decode, t.decode);
        bench_add(&build, t.build);
        bytes = t.bytes;
    }
    bench_print("xpu_kernel_decoded", "ns/kernel", &decode, &pass);
    bench_print("xpu_kernel_built", "ns/kernel", &build, &pass);
    bench_line("xpu_kernel_recorded", bytes, "bytes", RECORD_BYTES, 1);
    return 0;
}
