/* Benchmark of the NCCL source: a collective as NCCL reports it (eight events, of which seven are activities), a channel of
 * a kernel, both while nothing records, and the bytes of a channel's record. Compared with an event that a plug-in delivers
 * as a whole, of the same size, in the same rounds. --short: few rounds. */
#include "bench.h"
#include "null_plugin.h"

#include "../plugins/nccl/abi.h"
#include "../tests/helpers/sessions.h"
#include "record/record.h"
#include "session/session.h"

#include <dlfcn.h>
#include <libgen.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#define EVENTS 20000L

static const nc_table *table;
static void *context, *task;
static int mask;

static const KinetoPlugin_ProfilerInterface plain = {NULL_PLUGIN};

static void exit_with(const char *text)
{
    fprintf(stderr, "bench_nccl: %s\n", text);
    exit(1);
}

static void load_source(void)
{
    char self[PATH_MAX - 64], path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    (void)snprintf(path, sizeof path, "%s/../lib/ckineto/libnccl-profiler-ckineto.so", dirname(self));
    void *library = dlopen(path, RTLD_NOW);
    table = library ? dlsym(library, "ncclProfiler_v6") : NULL;
    if (!table)
        exit_with("libnccl-profiler-ckineto.so was not found: build the target ckineto-nccl");
    (void)table->init_5(&context, 1, &mask, "bench", 1, 2, 0, NULL);
}

/* ---- timed functions -------------------------------------------------------------------------- */

static void *start(const nc_descriptor_6 *d)
{
    void *handle = NULL;
    (void)table->start(context, &handle, d);
    return handle;
}

static void run_channel(long i)
{
    nc_descriptor_6 d = {.type = NC_KERNEL_CH, .parent = task, .kernel_ch = {.channel = 1, .timer = 1000000 + (uint64_t)i * 1000}};
    void *handle = start(&d);
    nc_state_4 end = {.timer = 1000500 + (uint64_t)i * 1000};
    if (handle) {
        (void)table->record(handle, NC_STATE_KERNEL_CH_STOP, &end);
        (void)table->stop(handle);
    }
}

static void run_collective(long i)
{
    nc_descriptor_6 d = {.type = NC_GROUP_API}, c = {.type = NC_COLL_API}, l = {.type = NC_KERNEL_LAUNCH};
    nc_descriptor_6 g = {.type = NC_GROUP}, t = {.type = NC_COLL};
    void *api = start(&d);
    c.parent = l.parent = api;
    c.coll_api.func = t.coll.func = "AllReduce";
    c.coll_api.type = t.coll.type = "ncclFloat32";
    t.coll.algorithm = "RING";
    t.coll.protocol = "SIMPLE";
    t.coll.sequence = (uint64_t)i;
    void *call = start(&c);
    (void)table->stop(call);
    (void)table->stop(start(&l));
    void *group = start(&g);
    t.parent = call;
    t.coll.parent_group = group;
    (void)table->stop(start(&t));
    (void)table->stop(group);
    (void)table->stop(api);
}

static void run_plain(long i)
{
    static const KinetoPlugin_Metadata metadata[] = {{"Seq", KINETO_PLUGIN_VALUE_INT, 0, {.i = 7}}};
    KinetoPlugin_Activity a = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Activity, pMetadata),
        .event = {.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
                  .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
                  .startTimeUtcNs = 1700000000000000000 + i * 1000,
                  .endTimeUtcNs = 1700000000000000500 + i * 1000,
                  .resourceId = 7},
        .nameSize = 15,
        .pName = "nccl:all_reduce",
        .metadataCount = 1,
        .pMetadata = metadata};
    builder->emit(builder->pTraceBuilderHandle, &a);
}

static double time_of(void (*run)(long), long count)
{
    double begin = bench_thread_ns();
    for (long i = 0; i < count; i++)
        run(i);
    return (bench_thread_ns() - begin) / (double)count;
}

/* ---- rounds ----------------------------------------------------------------------------------- */

static kineto_session *begin_recording(void)
{
    kineto_session *s = NULL;
    kineto_error err = {0};
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.buffer_bytes = 64u << 20;
    options.retention = KINETO_RETAIN_NEWEST;
    options.kinds = KINETO_KINDS_DEFAULT;
    if (begin_session(&options, &s, &err))
        exit_with(err.message);
    return s;
}

/* A collective whose channels are recorded: it must be open to be their parent. */
static void open_task(void)
{
    nc_descriptor_6 t = {.type = NC_COLL, .coll = {.func = "AllReduce", .type = "ncclFloat32", .algorithm = "RING", .protocol = "LL"}};
    task = start(&t);
}

static uint64_t words_in_pool(void)
{
    const kf_pool *pool = kineto_rt_pool();
    uint64_t words = 0;
    for (uint32_t i = 0; i < pool->control->chunk_high; i++)
        words += kf_committed_words(kf_pool_chunk(pool, i), KF_CHUNK_WORDS);
    return words;
}

int main(int argc, char **argv)
{
    bench_series channel = {.count = 0}, collective = {.count = 0}, event = {.count = 0}, idle = {.count = 0};
    int rounds = argc > 1 && strcmp(argv[1], "--short") == 0 ? 5 : 40;
    load_source();
    const KinetoPlugin_Registry *r = kineto_plugin_registry();
    if (r->registerProfiler(r->pRegistryHandle, &plain))
        exit_with("the plug-in was refused");
    kineto_session *s = begin_recording();
    open_task();
    uint64_t before = words_in_pool();
    (void)time_of(run_channel, EVENTS);
    double bytes = (double)(words_in_pool() - before) * 8 / (double)EVENTS;
    for (int i = 0; i < rounds; i++) {
        bench_add(&event, time_of(run_plain, EVENTS));
        bench_add(&channel, time_of(run_channel, EVENTS));
        bench_add(&collective, time_of(run_collective, EVENTS / 4));
    }
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    (void)end_session(s, &trace, &err);
    kineto_trace_release(trace);
    for (int i = 0; i < rounds; i++)
        bench_add(&idle, time_of(run_collective, EVENTS));
    bench_line("plugin_event", bench_min(&event), "ns", bench_min(&event), bench_spread(&event));
    bench_line("nccl_record", bench_min(&channel), "ns", bench_min(&event), bench_spread(&channel));
    bench_line("nccl_collective", bench_min(&collective), "ns", bench_min(&event), bench_spread(&collective));
    bench_line("nccl_idle", bench_min(&idle), "ns", bench_min(&event), bench_spread(&idle));
    bench_line("nccl_bytes", bytes, "bytes", 1, 1);
    return 0;
}
