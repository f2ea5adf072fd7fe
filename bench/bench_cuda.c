/* Benchmark of converting CUPTI's records to activities: a million kernels from buffers, through
 * one pass, to the recorder, and on into a trace. CUPTI is replaced by an iterator over buffers
 * that were written before. The floor is that iteration, which reads each record. */
#include "bench.h"
#include "null_plugin.h"

#include "../tests/helpers/cuda_records.h"

#include "record/record.h"
#include "session/session.h"
#include "../tests/helpers/sessions.h"

#include <ckineto/host.h>
#include <ckineto/session.h>

#define KERNELS      1000000u
#define ROUNDS       5
#define PER_BUFFER   (CP_BUFFER_BYTES / 208u)
#define NAMES        64u
#define SHAPES       200u /* configurations that a step of training launches */
#define VERSION      22u  /* CUDA 12.4 */
#define BUFFER_BYTES ((size_t)80 << 20)

cp_cupti_api cp_cupti;

const cp_device *cp_device_of(uint32_t id) { return id == 0 ? &cuda_a100 : NULL; }

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_cuda: %s: %s\n", what, err ? err->message : "");
    exit(1);
}

/* ---- buffers -------------------------------------------------------------------------------------- */

static char names[NAMES][128];
static uint8_t *buffer; /* one, written anew for each reading */
static uint32_t record_bytes;

static cp_result next_record(uint8_t *from, size_t valid, uint8_t **record)
{
    uint8_t *next = *record ? *record + record_bytes : from;
    if (next + record_bytes > from + valid)
        return CP_ERROR_MAX_LIMIT_REACHED;
    *record = next;
    return CP_SUCCESS;
}

static void write_kernel(uint8_t *r, uint32_t i, uint64_t start)
{
    uint32_t shape = i % SHAPES, kind = CP_KIND_CONCURRENT_KERNEL;
    memset(r, 0, record_bytes);
    memcpy(r, &kind, sizeof kind);
    put_kernel_registers(r, (uint16_t)(32 + shape % 7 * 16));
    put_kernel_start(r, start);
    put_kernel_end(r, start + 100);
    put_kernel_context(r, 1);
    put_kernel_stream(r, 7);
    put_kernel_grid_x(r, (int32_t)(1 + shape));
    put_kernel_grid_y(r, 4);
    put_kernel_grid_z(r, 1);
    put_kernel_block_x(r, 128);
    put_kernel_block_y(r, 1);
    put_kernel_block_z(r, 1);
    put_kernel_shared_dynamic(r, 4096);
    put_kernel_correlation(r, i + 1);
    put_kernel_name(r, names[shape % NAMES]);
    put_kernel_channel(r, 8);
    put_kernel_channel_type(r, 1);
}

static size_t write_buffer(uint32_t first, uint64_t start)
{
    uint32_t n = 0;
    for (; n < PER_BUFFER && first + n < KERNELS; n++)
        write_kernel(buffer + (size_t)n * record_bytes, first + n, start + n);
    return (size_t)n * record_bytes;
}

/* ---- a plug-in that only receives its host ------------------------------------------------------ */

static const KinetoPlugin_ProfilerInterface plugin = {NULL_PLUGIN};

/* ---- measuring ------------------------------------------------------------------------------------------- */

static double time_walk(size_t valid)
{
    static volatile uint64_t sum;
    uint8_t *record = NULL;
    double begin = bench_thread_ns();
    while (cp_cupti.next_record(buffer, valid, &record) == CP_SUCCESS)
        sum += cp_kernel_start(VERSION, record);
    return bench_thread_ns() - begin;
}

typedef struct round_times {
    double walk, decode, build; /* ns each, of a kernel */
    double bytes;               /* of the buffer that is recorded to */
} round_times;

static uint64_t words_in_pool(void)
{
    const kf_pool *pool = kineto_rt_pool();
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->control->chunk_high; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

static kineto_session *session_begin(void)
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

static round_times measure_round(void)
{
    round_times t = {0};
    cp_decoder d;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kineto_session *s = session_begin();
    uint64_t before = words_in_pool();
    uint64_t now = builder->hostTicks(builder->pTraceBuilderHandle);
    if (!cp_decoder_init(&d, builder, UINT64_MAX, VERSION, KINETO_PLUGIN_CLOCK_TICKS))
        exit_with_error("out of memory", NULL);
    for (uint32_t first = 0; first < KERNELS; first += PER_BUFFER) {
        size_t valid = write_buffer(first, now + first);
        t.walk += time_walk(valid);
        double begin = bench_thread_ns();
        cp_decoder_read(&d, buffer, valid);
        t.decode += bench_thread_ns() - begin;
    }
    double begin = bench_process_ns();
    cp_decoder_finish(&d);
    t.bytes = (double)(words_in_pool() - before) * 8 / KERNELS;
    if (end_session(s, &trace, &err))
        exit_with_error("end", &err);
    t.build = (bench_process_ns() - begin) / KERNELS;
    if (kineto_trace_count(trace) != KERNELS || kineto_trace_lost(trace))
        exit_with_error("kernels are missing", NULL);
    kineto_trace_release(trace);
    cp_decoder_free(&d);
    t.walk /= KERNELS;
    t.decode /= KERNELS;
    return t;
}

int main(void)
{
    static bench_series walk, decode, build, all;
    double bytes = 0;
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    cp_cupti.next_record = next_record;
    record_bytes = cp_record_bytes(CP_KIND_CONCURRENT_KERNEL, VERSION);
    buffer = malloc(CP_BUFFER_BYTES);
    if (!buffer || registry->registerProfiler(registry->pRegistryHandle, &plugin))
        exit_with_error("cannot begin", NULL);
    for (uint32_t i = 0; i < NAMES; i++)
        (void)snprintf(
            names[i], sizeof names[i],
            "_ZN2at6native29vectorized_elementwise_kernelILi%uEfNS0_11FillFunctorIfEEEEviT0_", i);
    for (int round = 0; round < ROUNDS; round++) {
        round_times t = measure_round();
        bench_add(&walk, t.walk);
        bench_add(&decode, t.decode);
        bench_add(&build, t.build);
        bench_add(&all, t.decode + t.build);
        bytes = t.bytes;
    }
    bench_print("cuda_kernel_decoded", "ns/kernel", &decode, &walk);
    bench_print("cuda_kernel_built", "ns/kernel", &build, &walk);
    bench_print("cuda_kernel_in_all", "ns/kernel", &all, &walk);
    bench_line("cuda_kernel_recorded", bytes, "bytes", record_bytes, 1);
    return 0;
}
