/* Collectives without NCCL or a GPU, in the order in which NCCL reports them, through the table that NCCL would take. */
#include "nccl.h"

#include <string.h>
#include <time.h>

NC_EXPORT int KinetoPlugin_exercise(uint32_t count);
NC_EXPORT extern const nc_table ncclProfiler_v6;

static uint64_t gpu_time(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec + 1000000;
}

static void *begin(void *context, const nc_descriptor_6 *d)
{
    void *handle = NULL;
    (void)ncclProfiler_v6.start(context, &handle, d);
    return handle;
}

/* A kernel's channel, as NCCL's profiler thread reports it after the launch. */
static void run_channel(void *context, void *task, uint8_t channel)
{
    nc_descriptor_6 d = {.type = NC_KERNEL_CH, .parent = task, .kernel_ch = {.channel = channel, .timer = gpu_time()}};
    void *handle = begin(context, &d);
    nc_state_4 end = {.timer = gpu_time()};
    if (handle)
        (void)ncclProfiler_v6.record(handle, NC_STATE_KERNEL_CH_STOP, &end);
    (void)ncclProfiler_v6.stop(handle);
}

/* One call of the program, its launch, and the task of the launch. */
static void run_collective(void *context, uint64_t number)
{
    nc_descriptor_6 group = {.type = NC_GROUP_API, .group_api = {.depth = 1}};
    void *api = begin(context, &group);
    nc_descriptor_6 call = {
        .type = NC_COLL_API, .parent = api, .coll_api = {.func = "AllReduce", .count = 1024, .type = "ncclFloat32"}};
    void *called = begin(context, &call);
    (void)ncclProfiler_v6.stop(called);
    nc_descriptor_6 launch = {.type = NC_KERNEL_LAUNCH, .parent = api};
    (void)ncclProfiler_v6.stop(begin(context, &launch));
    nc_descriptor_6 plan = {.type = NC_GROUP};
    void *planned = begin(context, &plan);
    nc_descriptor_6 coll = {.type = NC_COLL,
                            .parent = called,
                            .coll = {.sequence = number,
                                     .func = "AllReduce",
                                     .count = 1024,
                                     .type = "ncclFloat32",
                                     .channels = 2,
                                     .algorithm = "RING",
                                     .protocol = "SIMPLE",
                                     .parent_group = planned}};
    void *task = begin(context, &coll);
    (void)ncclProfiler_v6.stop(task);
    (void)ncclProfiler_v6.stop(planned);
    run_channel(context, task, 0);
    run_channel(context, task, 1);
    (void)ncclProfiler_v6.stop(api);
}

int KinetoPlugin_exercise(uint32_t count)
{
    static int mask;
    void *context = NULL;
    if (ncclProfiler_v6.init_5(&context, UINT64_C(0x636b), &mask, "exercise", 1, 2, 0, NULL) != 0 || !context)
        return -1;
    for (uint32_t i = 0; i < count; i++)
        run_collective(context, i);
    return ncclProfiler_v6.finalize(context);
}
