/* The scripted host: loads a profiler plug-in as NCCL does, and makes the descriptors of each version. */
#include "host.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- loading, as NCCL does ---------------------------------------------------------------------- */

void host_load(host *h, unsigned newest)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN");
    void *library = name ? dlopen(name, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "host: %s\n", name ? dlerror() : "NCCL_PROFILER_PLUGIN is not set");
        exit(3);
    }
    char symbol[32];
    for (h->version = newest; h->version && !h->table; h->version -= !h->table) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%u", h->version);
        h->table = dlsym(library, symbol);
    }
    if (!h->table) {
        fprintf(stderr, "host: no table in %s\n", name);
        exit(3);
    }
}

int host_mask(host *h) { return __atomic_load_n(&h->mask, __ATOMIC_RELAXED); }

static void check(host *h, int result)
{
    if (result)
        atomic_fetch_add(&h->errors, 1);
}

static void log_nothing(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    (void)level, (void)flags, (void)file, (void)line, (void)format;
}

comm comm_begin(host *h, uint64_t id, const char *name, int ranks, int rank)
{
    comm c = {.h = h, .id = id, .name = name, .rank = rank, .ranks = ranks};
    if (h->version <= 3)
        check(h, h->table->init_1(&c.context, &h->mask));
    else if (h->version == 4)
        check(h, h->table->init_4(&c.context, &h->mask, name, id, 1, ranks, rank, log_nothing));
    else
        check(h, h->table->init_5(&c.context, id, &h->mask, name, 1, ranks, rank, log_nothing));
    return c;
}

void comm_end(comm *c) { check(c->h, c->h->table->finalize(c->context)); }

/* ---- descriptors -------------------------------------------------------------------------------- */

static uint8_t number_of(const char *text, const char *const *names, uint8_t count)
{
    for (uint8_t i = 0; i < count; i++)
        if (strcmp(text, names[i]) == 0)
            return i;
    return count;
}
static const char *const funcs[] = {"Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv", "Send", "Recv"};
static const char *const dtypes[] = {"ncclInt8", "ncclUint8", "ncclInt32", "ncclUint32", "ncclInt64", "ncclUint64", "ncclFloat16", "ncclFloat32"};

typedef union descriptor {
    nc_descriptor_1 v1;
    nc_descriptor_2 v2;
    nc_descriptor_3 v3;
    nc_descriptor_4 v4;
    nc_descriptor_6 v6;
} descriptor;

static nc_proxy_op op_of(const task *t)
{
    return (nc_proxy_op){.pid = (pid_t)(t->pid ? t->pid : getpid()), .channel = (uint8_t)t->channel, .peer = t->peer, .steps = 2,
                         .chunk_bytes = 1 << 17, .is_send = t->is_send};
}

static void fill_1(descriptor *d, const comm *c, const task *t)
{
    d->v1.type = (uint8_t)t->type;
    d->v1.parent = t->type == NC_COLL || t->type == NC_P2P ? t->group : t->parent;
    d->v1.rank = c->rank;
    if (t->type == NC_COLL) {
        d->v1.coll.name = c->name;
        d->v1.coll.comm = c->id;
        d->v1.coll.sequence = t->sequence;
        d->v1.coll.func = number_of(t->func, funcs, 8);
        d->v1.coll.count = t->count;
        d->v1.coll.root = t->root;
        d->v1.coll.type = number_of(t->dtype, dtypes, 8);
        d->v1.coll.channels = (uint8_t)t->channels;
        d->v1.coll.algorithm = 1;
        d->v1.coll.protocol = 2;
    } else if (t->type == NC_P2P) {
        d->v1.p2p.name = c->name;
        d->v1.p2p.comm = c->id;
        d->v1.p2p.func = number_of(t->func, funcs, 8);
        d->v1.p2p.count = t->count;
        d->v1.p2p.type = number_of(t->dtype, dtypes, 8);
        d->v1.p2p.peer = t->peer;
    } else if (t->type == NC_PROXY_OP) {
        d->v1.proxy_op = op_of(t);
    } else if (t->type == NC_PROXY_STEP) {
        d->v1.proxy_step.step = t->step;
    }
}

#define FILL_COLL(v, c, t)                                                                                             \
    do {                                                                                                               \
        (v).coll.sequence = (t)->sequence;                                                                             \
        (v).coll.func = (t)->func;                                                                                     \
        (v).coll.count = (t)->count;                                                                                   \
        (v).coll.root = (t)->root;                                                                                     \
        (v).coll.type = (t)->dtype;                                                                                    \
        (v).coll.channels = (uint8_t)(t)->channels;                                                                    \
        (v).coll.algorithm = "RING";                                                                                   \
        (v).coll.protocol = "SIMPLE";                                                                                  \
    } while (0)
#define FILL_P2P(v, t)                                                                                                 \
    do {                                                                                                               \
        (v).p2p.func = (t)->func;                                                                                      \
        (v).p2p.count = (t)->count;                                                                                    \
        (v).p2p.type = (t)->dtype;                                                                                     \
        (v).p2p.peer = (t)->peer;                                                                                      \
    } while (0)

static void fill_2_or_3(descriptor *d, const comm *c, const task *t)
{
    bool is_2 = c->h->version == 2;
    d->v2.type = (uint8_t)t->type;
    d->v2.parent = t->type == NC_COLL || t->type == NC_P2P ? t->group : t->parent;
    d->v2.rank = c->rank;
    if (t->type == NC_COLL && is_2)
        FILL_COLL(d->v2, c, t);
    else if (t->type == NC_COLL)
        FILL_COLL(d->v3, c, t);
    else if (t->type == NC_P2P)
        FILL_P2P(d->v3, t);
    else if (t->type == NC_PROXY_OP)
        d->v3.proxy_op = op_of(t);
    else if (t->type == NC_PROXY_STEP)
        d->v3.proxy_step.step = t->step;
    else if (t->type == NC_KERNEL_CH)
        d->v3.kernel_ch.channel = (uint8_t)t->channel;
    if (t->type == NC_COLL || t->type == NC_P2P) { /* name and comm of both are at the same offsets */
        d->v3.p2p.name = c->name;
        d->v3.p2p.comm = c->id;
    }
}

static void fill_4(descriptor *d, const comm *c, const task *t)
{
    d->v4.type = (uint8_t)t->type;
    d->v4.parent = t->type == NC_COLL || t->type == NC_P2P ? t->group : t->parent;
    d->v4.rank = c->rank;
    if (t->type == NC_COLL) {
        FILL_COLL(d->v4, c, t);
    } else if (t->type == NC_P2P) {
        FILL_P2P(d->v4, t);
        d->v4.p2p.channels = (uint8_t)t->channels;
    } else if (t->type == NC_PROXY_OP) {
        d->v4.proxy_op = op_of(t);
    } else if (t->type == NC_PROXY_STEP) {
        d->v4.proxy_step.step = t->step;
    } else if (t->type == NC_KERNEL_CH) {
        d->v4.kernel_ch.channel = (uint8_t)t->channel;
        d->v4.kernel_ch.timer = t->timer;
    } else if (t->type == NC_NET_PLUGIN) {
        d->v4.net.id = 1 << 16;
    }
}

static void fill_call(nc_descriptor_6 *d, const task *t)
{
    if (t->type == NC_GROUP_API) {
        d->group_api.depth = 1;
        d->group_api.is_captured = t->is_captured;
    } else if (t->type == NC_COLL_API) {
        d->coll_api.func = t->func;
        d->coll_api.count = t->count;
        d->coll_api.type = t->dtype;
        d->coll_api.stream = t->stream;
        d->coll_api.is_captured = t->is_captured;
    } else if (t->type == NC_P2P_API) {
        d->p2p_api.func = t->func;
        d->p2p_api.count = t->count;
        d->p2p_api.type = t->dtype;
        d->p2p_api.stream = t->stream;
    } else if (t->type == NC_KERNEL_LAUNCH) {
        d->kernel_launch.stream = t->stream;
    } else if (t->type == NC_CE_COLL) {
        d->ce_coll.sequence = t->sequence;
        d->ce_coll.func = t->func;
        d->ce_coll.count = t->count;
        d->ce_coll.type = t->dtype;
        d->ce_coll.sync_strategy = "MC";
    } else if (t->type == NC_CE_SYNC) {
        d->ce_sync.ranks = 8;
    } else if (t->type == NC_CE_BATCH) {
        d->ce_batch.operations = 3;
        d->ce_batch.bytes = 4096;
    }
}

static void fill_6(descriptor *d, const comm *c, const task *t)
{
    d->v6.type = (uint64_t)(unsigned)t->type;
    d->v6.parent = t->parent;
    d->v6.rank = c->rank;
    if (t->type == NC_COLL) {
        FILL_COLL(d->v6, c, t);
        d->v6.coll.parent_group = t->group;
    } else if (t->type == NC_P2P) {
        FILL_P2P(d->v6, t);
        d->v6.p2p.channels = (uint8_t)t->channels;
        d->v6.p2p.parent_group = t->group;
    } else if (t->type == NC_PROXY_OP) {
        d->v6.proxy_op = op_of(t);
    } else if (t->type == NC_PROXY_STEP) {
        d->v6.proxy_step.step = t->step;
    } else if (t->type == NC_KERNEL_CH) {
        d->v6.kernel_ch.channel = (uint8_t)t->channel;
        d->v6.kernel_ch.timer = t->timer;
    } else if (t->type == NC_NET_PLUGIN) {
        d->v6.net.id = 1 << 16;
    } else {
        fill_call(&d->v6, t);
    }
}

/* Types by version: 6 from the beginning, the others as they came. */
static bool version_has(unsigned version, int type)
{
    int newest = version >= 6 ? NC_CE_BATCH : version == 5 ? NC_KERNEL_LAUNCH : version >= 3 ? NC_NET_PLUGIN : NC_PROXY_CTRL;
    return type <= newest;
}

#define PARTS (NC_PROXY_OP | NC_PROXY_STEP | NC_KERNEL_CH | NC_NET_PLUGIN)

/* NCCL starts what the mask has, and what that needs as parents. */
static int bits_for(int type)
{
    static const struct {
        int type, bits;
    } parents[] = {{NC_GROUP, NC_COLL | NC_P2P | PARTS}, {NC_COLL, PARTS}, {NC_P2P, PARTS},
                   {NC_PROXY_OP, NC_PROXY_STEP | NC_NET_PLUGIN}, {NC_PROXY_STEP, NC_NET_PLUGIN},
                   {NC_GROUP_API, ~NC_PROXY_CTRL}, {NC_COLL_API, NC_COLL | PARTS | NC_CE_COLL | NC_CE_SYNC | NC_CE_BATCH},
                   {NC_P2P_API, NC_P2P | PARTS}};
    for (size_t i = 0; i < sizeof parents / sizeof *parents; i++)
        if (parents[i].type == type)
            return type | parents[i].bits;
    return type;
}

static bool is_wanted(host *h, int type)
{
    return version_has(h->version, type) && (host_mask(h) & bits_for(type)) != 0;
}

void *start(comm *c, const task *t)
{
    descriptor d;
    void *handle = NULL;
    if (!is_wanted(c->h, t->type))
        return NULL;
    memset(&d, 0, sizeof d);
    if (c->h->version == 1)
        fill_1(&d, c, t);
    else if (c->h->version <= 3)
        fill_2_or_3(&d, c, t);
    else if (c->h->version == 4)
        fill_4(&d, c, t);
    else
        fill_6(&d, c, t);
    check(c->h, c->h->table->start(c->context, &handle, &d));
    return handle;
}

void stop(host *h, void *handle)
{
    if (handle)
        check(h, h->table->stop(handle));
}

void record_state(host *h, void *handle, int state, uint64_t value)
{
    nc_state_1 old = {.proxy_op = {.bytes = value}};
    nc_state_4 now = {.timer = value};
    if (handle)
        check(h, h->table->record(handle, state, h->version <= 3 ? (const void *)&old : &now));
}

/* ---- what NCCL does ------------------------------------------------------------------------------- */

/* ns, from another zero than any clock of the host, and 30 ppm too fast. */
uint64_t gpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    uint64_t ns = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return ns + ns / 33333 + 7000000000000000u;
}

void run_channels(comm *c, void *parent, int channels, uint64_t duration_ns)
{
    for (int i = 0; i < channels; i++) {
        uint64_t began = gpu_now();
        void *channel = start(c, &(task){.type = NC_KERNEL_CH, .parent = parent, .channel = i, .timer = began});
        while (gpu_now() < began + duration_ns)
            ;
        if (channel && c->h->version >= 4)
            record_state(c->h, channel, NC_STATE_KERNEL_CH_STOP, gpu_now());
        stop(c->h, channel);
    }
}

void *collective(comm *c, const char *func, uint64_t count, int channels, void (*launch)(void))
{
    host *h = c->h;
    void *stream = (void *)0x7000;
    void *api = start(c, &(task){.type = NC_GROUP_API});
    void *call = start(c, &(task){.type = NC_COLL_API, .parent = api, .func = func, .count = count, .dtype = "ncclFloat32", .stream = stream});
    stop(h, call);
    void *launched = start(c, &(task){.type = NC_KERNEL_LAUNCH, .parent = api, .stream = stream});
    if (launch)
        launch();
    stop(h, launched);
    void *group = start(c, &(task){.type = NC_GROUP});
    bool started = h->version >= 5 || group; /* before version 5 a group without a handle has no tasks */
    task t = {.type = NC_COLL, .parent = call, .group = group, .func = func, .count = count, .dtype = "ncclFloat32",
              .channels = channels, .sequence = c->sequence[strcmp(func, "AllReduce") != 0]++};
    void *coll = started ? start(c, &t) : NULL;
    stop(h, coll);
    stop(h, group);
    stop(h, api);
    return coll;
}
