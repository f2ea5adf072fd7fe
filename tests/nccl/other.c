/* Another profiler plug-in: exports the tables of all versions up to OTHER, writes a line for each call to OTHER_LOG, and
 * asks for OTHER_MASK. Its handles are odd numbers, and it complains about those that are not its own. */
#include "abi.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HANDLES 100000
static atomic_int next_handle;
static atomic_uchar state_of[HANDLES]; /* 1: open, 2: stopped */
static int *mask_pointer;

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    static FILE *log;
    va_list args;
    if (!log && getenv("OTHER_LOG"))
        log = fopen(getenv("OTHER_LOG"), "ae");
    if (!log)
        return;
    va_start(args, format);
    vfprintf(log, format, args);
    va_end(args);
    fflush(log);
}

static int number_of(void *handle)
{
    size_t n = (size_t)handle;
    return n % 2 && n / 2 < HANDLES && state_of[n / 2] ? (int)(n / 2) : -1;
}

static int begin_any(void **context, int *mask)
{
    const char *wanted = getenv("OTHER_MASK");
    if (getenv("OTHER_FAILS"))
        return 3;
    *context = &next_handle;
    mask_pointer = mask;
    __atomic_store_n(mask, wanted ? atoi(wanted) : 0xfff, __ATOMIC_RELAXED);
    return 0;
}

#define MAY_BE_UNUSED __attribute__((unused))

static int begin_1(void **context, int *mask)
{
    say("init\n");
    return begin_any(context, mask);
}
MAY_BE_UNUSED static int begin_4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank, nc_logger log)
{
    say("init %llx %s %d %d %d\n", (unsigned long long)id, name ? name : "-", nodes, ranks, rank);
    (void)log;
    return begin_any(context, mask);
}
MAY_BE_UNUSED static int begin_5(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank, nc_logger log)
{
    return begin_4(context, mask, name, id, nodes, ranks, rank, log);
}

static int end_any(void *context)
{
    say("finalize %d\n", context == &next_handle);
    return 0;
}

static int stop_any(void *handle)
{
    int n = number_of(handle);
    say("stop %d%s\n", n, n < 0 ? " foreign" : state_of[n] == 2 ? " again" : "");
    if (n >= 0)
        state_of[n] = 2;
    return 0;
}

static int record_any(void *handle, int state, const void *values)
{
    say("state %d %d %s\n", number_of(handle), state, values ? "values" : "-");
    return 0;
}

static int open_any(void **handle, unsigned type, void *parent, const char *text)
{
    int n = atomic_fetch_add(&next_handle, 1) + 1;
    if (n >= HANDLES)
        return 0;
    state_of[n] = 1;
    *handle = (void *)((size_t)n * 2 + 1);
    say("start %d type %u parent %d %s\n", n, type, parent ? number_of(parent) : 0, text);
    return 0;
}

static int start_1(void *context, void **handle, const void *descriptor)
{
    const nc_descriptor_1 *d = descriptor;
    char text[128] = "";
    (void)context;
    if (d->type == NC_COLL)
        snprintf(text, sizeof text, "func %u dtype %u comm %llx seq %llu", d->coll.func, d->coll.type,
                 (unsigned long long)d->coll.comm, (unsigned long long)d->coll.sequence);
    return open_any(handle, d->type, d->parent, text);
}
MAY_BE_UNUSED static int start_2(void *context, void **handle, const void *descriptor)
{
    const nc_descriptor_2 *d = descriptor;
    char text[128] = "";
    (void)context;
    if (d->type == NC_COLL)
        snprintf(text, sizeof text, "func %s dtype %s algo %s seq %llu", d->coll.func, d->coll.type, d->coll.algorithm,
                 (unsigned long long)d->coll.sequence);
    return open_any(handle, d->type, d->parent, text);
}
MAY_BE_UNUSED static int start_3(void *context, void **handle, const void *descriptor)
{
    const nc_descriptor_3 *d = descriptor;
    char text[128] = "";
    (void)context;
    if (d->type == NC_COLL)
        snprintf(text, sizeof text, "func %s dtype %s algo %s seq %llu", d->coll.func, d->coll.type, d->coll.algorithm,
                 (unsigned long long)d->coll.sequence);
    if (d->type == NC_KERNEL_CH)
        snprintf(text, sizeof text, "channel %u", d->kernel_ch.channel);
    return open_any(handle, d->type, d->parent, text);
}
MAY_BE_UNUSED static int start_4(void *context, void **handle, const void *descriptor)
{
    const nc_descriptor_4 *d = descriptor;
    char text[128] = "";
    (void)context;
    if (d->type == NC_COLL)
        snprintf(text, sizeof text, "func %s dtype %s algo %s seq %llu", d->coll.func, d->coll.type, d->coll.algorithm,
                 (unsigned long long)d->coll.sequence);
    if (d->type == NC_KERNEL_CH)
        snprintf(text, sizeof text, "channel %u timed %d", d->kernel_ch.channel, d->kernel_ch.timer != 0);
    return open_any(handle, d->type, d->parent, text);
}
MAY_BE_UNUSED static int start_5(void *context, void **handle, const void *descriptor)
{
    const nc_descriptor_6 *d = descriptor;
    char text[128] = "";
    (void)context;
    if (d->type == NC_COLL)
        snprintf(text, sizeof text, "func %s dtype %s algo %s seq %llu group %d", d->coll.func, d->coll.type,
                 d->coll.algorithm, (unsigned long long)d->coll.sequence, number_of(d->coll.parent_group) > 0);
    if (d->type == NC_COLL_API)
        snprintf(text, sizeof text, "func %s count %zu", d->coll_api.func, d->coll_api.count);
    return open_any(handle, (unsigned)d->type, d->parent, text);
}

#define EXPORT __attribute__((visibility("default")))
#define TABLE(v, member, begin, start_)                                                                                \
    EXPORT extern const nc_table ncclProfiler_v##v;                                                                    \
    const nc_table ncclProfiler_v##v = {                                                                               \
        .name = "other", .member = begin, .start = start_, .stop = stop_any, .record = record_any, .finalize = end_any};
TABLE(1, init_1, begin_1, start_1)
#if OTHER >= 2
TABLE(2, init_1, begin_1, start_2)
#endif
#if OTHER >= 3
TABLE(3, init_1, begin_1, start_3)
#endif
#if OTHER >= 4
TABLE(4, init_4, begin_4, start_4)
#endif
#if OTHER >= 5
TABLE(5, init_5, begin_5, start_5)
#endif
#if OTHER >= 6
TABLE(6, init_5, begin_5, start_5)
#endif
