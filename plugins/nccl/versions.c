/* The tables that NCCL looks up, ncclProfiler_v1 … v6, and what they make of descriptors and states. NCCL takes the newest
 * table that it knows; all lead to the same events. */
#include "nccl.h"

#include <errno.h>

size_t nc_descriptor_bytes(unsigned version)
{
    static const size_t bytes[NC_VERSIONS + 1] = {
        0,   sizeof(nc_descriptor_1), sizeof(nc_descriptor_2), sizeof(nc_descriptor_3), sizeof(nc_descriptor_4),
        112, sizeof(nc_descriptor_6)};
    return version <= NC_VERSIONS ? bytes[version] : 0;
}

/* ---- numbers of version 1 --------------------------------------------------------------------- */

static const char *const funcs_1[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
static const char *const types_1[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                      "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                      "ncclFloat64", "ncclBfloat16"};
static const char *const algorithms_1[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE", "PAT"};
static const char *const protocols_1[] = {"LL", "LL128", "SIMPLE"};
#define NAME_OF(table, number) ((number) < NC_COUNT(table) ? (table)[number] : NULL)

/* ---- descriptors ------------------------------------------------------------------------------ */

/* The same in all versions. */
static void read_proxy_op(const nc_proxy_op *p, nc_event *e)
{
    e->pid = p->pid;
    e->channel = p->channel;
    e->peer = p->peer;
    e->steps = p->steps;
    e->chunk_bytes = p->chunk_bytes;
    e->is_send = p->is_send != 0;
}

/* Functions, types, algorithms and protocols are numbers of the NCCL of that time. Each reader returns false for a type
 * that its version does not have. */
static bool read_descriptor_1(const nc_descriptor_1 *d, nc_event *e)
{
    switch (e->type) {
    case NC_COLL:
        e->comm_name = d->coll.name;
        e->comm_id = d->coll.comm;
        e->sequence = d->coll.sequence;
        e->func = NAME_OF(funcs_1, d->coll.func);
        e->send = d->coll.send;
        e->receive = d->coll.receive;
        e->count = d->coll.count;
        e->root = d->coll.root;
        e->dtype = NAME_OF(types_1, d->coll.type);
        e->channels = d->coll.channels;
        e->warps = d->coll.warps;
        e->algorithm = NAME_OF(algorithms_1, d->coll.algorithm);
        e->protocol = NAME_OF(protocols_1, d->coll.protocol);
        return true;
    case NC_P2P:
        e->comm_name = d->p2p.name;
        e->comm_id = d->p2p.comm;
        e->func = NAME_OF(funcs_1, d->p2p.func);
        e->receive = d->p2p.buffer;
        e->dtype = NAME_OF(types_1, d->p2p.type);
        e->count = d->p2p.count;
        e->peer = d->p2p.peer;
        return true;
    case NC_PROXY_OP:
        read_proxy_op(&d->proxy_op, e);
        return true;
    case NC_PROXY_STEP:
        e->step = d->proxy_step.step;
        return true;
    default:
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
}

/* Versions 2 and 3 differ by one member in the middle of collectives. */
#define READ_COLL(d, e)                                                                                                \
    do {                                                                                                               \
        (e)->sequence = (d)->coll.sequence;                                                                            \
        (e)->func = (d)->coll.func;                                                                                    \
        (e)->send = (d)->coll.send;                                                                                    \
        (e)->receive = (d)->coll.receive;                                                                              \
        (e)->count = (d)->coll.count;                                                                                  \
        (e)->root = (d)->coll.root;                                                                                    \
        (e)->dtype = (d)->coll.type;                                                                                   \
        (e)->channels = (d)->coll.channels;                                                                            \
        (e)->warps = (d)->coll.warps;                                                                                  \
        (e)->algorithm = (d)->coll.algorithm;                                                                          \
        (e)->protocol = (d)->coll.protocol;                                                                            \
    } while (0)

/* Messages of versions 2 and 3. */
static void read_p2p_old(const nc_p2p_old *p, nc_event *e)
{
    e->comm_name = p->name;
    e->comm_id = p->comm;
    e->func = p->func;
    e->receive = p->buffer;
    e->dtype = p->type;
    e->count = p->count;
    e->peer = p->peer;
}

static bool read_descriptor_2(const nc_descriptor_2 *d, nc_event *e)
{
    if (e->type == NC_COLL) {
        READ_COLL(d, e);
        e->comm_name = d->coll.name;
        e->comm_id = d->coll.comm;
    } else if (e->type == NC_P2P) {
        read_p2p_old(&d->p2p, e);
    } else if (e->type == NC_PROXY_OP) {
        read_proxy_op(&d->proxy_op, e);
    } else if (e->type == NC_PROXY_STEP) {
        e->step = d->proxy_step.step;
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* Version 3 added channels of kernels and events of network plug-ins. */
static bool read_descriptor_3(const nc_descriptor_3 *d, nc_event *e)
{
    if (e->type == NC_COLL) {
        READ_COLL(d, e);
        e->comm_name = d->coll.name;
        e->comm_id = d->coll.comm;
    } else if (e->type == NC_P2P) {
        read_p2p_old(&d->p2p, e);
    } else if (e->type == NC_PROXY_OP) {
        read_proxy_op(&d->proxy_op, e);
    } else if (e->type == NC_PROXY_STEP) {
        e->step = d->proxy_step.step;
    } else if (e->type == NC_KERNEL_CH) {
        e->channel = d->kernel_ch.channel;
    } else if (e->type == NC_NET_PLUGIN) {
        e->net_id = d->net.id;
        e->data = d->net.data;
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* Since version 4 channels have the time of the GPU. */
static void read_channel(const nc_channel *c, nc_event *e)
{
    e->channel = c->channel;
    e->timer = c->timer;
}

/* Version 4 moved name and id of the communicator to init. */
static bool read_descriptor_4(const nc_descriptor_4 *d, nc_event *e)
{
    if (e->type == NC_COLL) {
        READ_COLL(d, e);
    } else if (e->type == NC_P2P) {
        e->func = d->p2p.func;
        e->receive = d->p2p.buffer;
        e->dtype = d->p2p.type;
        e->count = d->p2p.count;
        e->peer = d->p2p.peer;
        e->channels = d->p2p.channels;
    } else if (e->type == NC_PROXY_OP) {
        read_proxy_op(&d->proxy_op, e);
    } else if (e->type == NC_PROXY_STEP) {
        e->step = d->proxy_step.step;
    } else if (e->type == NC_KERNEL_CH) {
        read_channel(&d->kernel_ch, e);
    } else if (e->type == NC_NET_PLUGIN) {
        e->net_id = d->net.id;
        e->data = d->net.data;
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* Calls of the program, since version 5. */
static bool read_call(const nc_descriptor_6 *d, nc_event *e)
{
    switch (e->type) {
    case NC_GROUP_API:
        e->is_captured = d->group_api.is_captured;
        e->depth = d->group_api.depth;
        return true;
    case NC_COLL_API:
        e->func = d->coll_api.func;
        e->count = d->coll_api.count;
        e->dtype = d->coll_api.type;
        e->root = d->coll_api.root;
        e->stream = d->coll_api.stream;
        e->is_captured = d->coll_api.is_captured;
        return true;
    case NC_P2P_API:
        e->func = d->p2p_api.func;
        e->count = d->p2p_api.count;
        e->dtype = d->p2p_api.type;
        e->stream = d->p2p_api.stream;
        e->is_captured = d->p2p_api.is_captured;
        return true;
    case NC_KERNEL_LAUNCH:
        e->stream = d->kernel_launch.stream;
        return true;
    default:
        return false;
    }
}

/* Copy engines, since version 6. */
static bool read_copy_engine(const nc_descriptor_6 *d, nc_event *e)
{
    switch (e->type) {
    case NC_CE_COLL:
        e->sequence = d->ce_coll.sequence;
        e->func = d->ce_coll.func;
        e->count = d->ce_coll.count;
        e->root = d->ce_coll.root;
        e->dtype = d->ce_coll.type;
        e->sync_strategy = d->ce_coll.sync_strategy;
        e->is_synced = d->ce_coll.is_synced_in_batch;
        e->batch_size = d->ce_coll.batch_size;
        e->batches = d->ce_coll.batches;
        e->ce_sequence = d->ce_coll.ce_sequence;
        e->stream = d->ce_coll.stream;
        return true;
    case NC_CE_SYNC:
        e->is_synced = d->ce_sync.is_complete;
        e->ranks = d->ce_sync.ranks;
        return true;
    case NC_CE_BATCH:
        e->operations = d->ce_batch.operations;
        e->bytes = d->ce_batch.bytes;
        e->is_synced = d->ce_batch.is_synced;
        return true;
    default:
        return false;
    }
}

/* Versions 5 and 6: the type is a word, and tasks have two parents, the call of the program and the group. */
static bool read_descriptor_6(const nc_descriptor_6 *d, nc_event *e)
{
    if (e->type == NC_COLL) {
        READ_COLL(d, e);
        e->parent_group = d->coll.parent_group;
    } else if (e->type == NC_P2P) {
        e->func = d->p2p.func;
        e->receive = d->p2p.buffer;
        e->dtype = d->p2p.type;
        e->count = d->p2p.count;
        e->peer = d->p2p.peer;
        e->channels = d->p2p.channels;
        e->parent_group = d->p2p.parent_group;
    } else if (e->type == NC_PROXY_OP) {
        read_proxy_op(&d->proxy_op, e);
    } else if (e->type == NC_PROXY_STEP) {
        e->step = d->proxy_step.step;
    } else if (e->type == NC_KERNEL_CH) {
        read_channel(&d->kernel_ch, e);
    } else if (e->type == NC_NET_PLUGIN) {
        e->net_id = d->net.id;
        e->data = d->net.data;
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL || read_call(d, e);
    }
    return true;
}

bool nc_read_descriptor(unsigned version, const void *descriptor, nc_event *e)
{
    const nc_descriptor_6 *d = descriptor; /* `parent` and `rank` are at the same offsets in all versions */
    uint64_t type = version >= 5 ? d->type : *(const uint8_t *)descriptor;
    *e = (nc_event){.raw = descriptor, .rank = d->rank, .parent = d->parent, .peer = -1, .root = -1};
    if (type > NC_CE_BATCH)
        return false;
    e->type = (uint32_t)type;
    switch (version) {
    case 1:
        return read_descriptor_1(descriptor, e);
    case 2:
        return read_descriptor_2(descriptor, e);
    case 3:
        return read_descriptor_3(descriptor, e);
    case 4:
        return read_descriptor_4(descriptor, e);
    default:
        return read_descriptor_6(d, e) || (version >= 6 && read_copy_engine(d, e));
    }
}

/* NCCL passes no values with some states. */
void nc_read_state(unsigned version, int number, const void *values, nc_state *out)
{
    const nc_state_1 *old = values;
    const nc_state_4 *now = values;
    bool is_ctrl = number >= NC_STATE_CTRL_FIRST && number <= NC_STATE_CTRL_LAST;
    *out = (nc_state){.number = number, .raw = values};
    if (!values)
        return;
    if (version <= 3) {
        out->value = is_ctrl ? (uint64_t)(int64_t)old->proxy_ctrl.appended : old->proxy_op.bytes;
        out->steps = is_ctrl ? 0 : old->proxy_op.steps;
    } else {
        out->value = is_ctrl ? (uint64_t)(int64_t)now->appended : now->timer;
    }
}

/* ---- tables ----------------------------------------------------------------------------------- */

/* What all versions of init do. The mask is set when the other plug-in has set its own. */
static NC_COLD void begin_comm(unsigned version, void **context, const nc_comm_facts *facts, nc_logger log)
{
    int saved = errno;
    nc_profiler_register();
    nc_comm *comm = nc_comm_add(version, facts);
    if (comm) {
        nc_next_init(comm, facts->name, log);
        nc_comm_open(comm);
    } else {
        nc_count(NC_TALLY_COMMS);
    }
    *context = comm;
    errno = saved;
}

/* Nothing records, and no other plug-in asked for it: only collectives are counted. */
static bool is_ignored(const nc_comm *comm, unsigned version, const void *descriptor, void **handle)
{
    uint64_t type = version >= 5 ? ((const nc_descriptor_6 *)descriptor)->type : *(const uint8_t *)descriptor;
    if (type == NC_COLL || comm->next || nc_session())
        return false;
    *handle = type == NC_GROUP ? NC_NO_EVENT : NULL;
    return true;
}

/* Always 0, and *handle is always set: NCCL reads it whatever is returned. */
static int start_event(unsigned version, void *context, void **handle, const void *descriptor)
{
    nc_comm *comm = nc_comm_of(context);
    nc_event e;
    if (!handle)
        return 0;
    *handle = NULL;
    if (!comm || !descriptor || is_ignored(comm, version, descriptor, handle))
        return 0;
    int saved = errno;
    if (nc_read_descriptor(version, descriptor, &e))
        nc_event_start(comm, &e, handle);
    else
        nc_count(NC_TALLY_UNKNOWN_TYPE);
    errno = saved;
    return 0;
}

static int stop_event(void *handle)
{
    int saved = errno;
    nc_event_stop(handle);
    errno = saved;
    return 0;
}

static int record_event(unsigned version, void *handle, int state, const void *values)
{
    int saved = errno;
    nc_event_record(version, handle, state, values);
    errno = saved;
    return 0;
}

/* Later calls with this context find that it is not open any more. */
static int finalize_comm(void *context)
{
    int saved = errno;
    nc_comm *comm = nc_comm_of(context);
    if (comm) {
        nc_events_end(comm);
        nc_next_finalize(comm);
        nc_comm_remove(comm);
    }
    errno = saved;
    return 0;
}

#define INIT_OF_1(v)                                                                                                   \
    static int init_##v(void **context, int *mask)                                                                     \
    {                                                                                                                  \
        nc_comm_facts facts = {.mask = mask, .nodes = -1, .ranks = -1, .rank = -1};                                    \
        if (context && mask)                                                                                           \
            begin_comm(v, context, &facts, NULL);                                                                      \
        return 0;                                                                                                      \
    }
#define INIT_OF_5(v)                                                                                                   \
    static int init_##v(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks, int rank,      \
                        nc_logger log)                                                                                 \
    {                                                                                                                  \
        nc_comm_facts facts = {mask, name, id, nodes, ranks, rank};                                                    \
        if (context && mask)                                                                                           \
            begin_comm(v, context, &facts, log);                                                                       \
        return 0;                                                                                                      \
    }
INIT_OF_1(1)
INIT_OF_1(2)
INIT_OF_1(3)
INIT_OF_5(5)
INIT_OF_5(6)
static int init_4(void **context, int *mask, const char *name, uint64_t id, int nodes, int ranks, int rank,
                  nc_logger log)
{
    nc_comm_facts facts = {mask, name, id, nodes, ranks, rank};
    if (context && mask)
        begin_comm(4, context, &facts, log);
    return 0;
}

#define TABLE(v, member)                                                                                               \
    static int start_##v(void *context, void **handle, const void *descriptor)                                         \
    {                                                                                                                  \
        return start_event(v, context, handle, descriptor);                                                            \
    }                                                                                                                  \
    static int record_##v(void *handle, int state, const void *values)                                                 \
    {                                                                                                                  \
        return record_event(v, handle, state, values);                                                                 \
    }                                                                                                                  \
    NC_EXPORT extern const nc_table ncclProfiler_v##v;                                                                 \
    const nc_table ncclProfiler_v##v = {.name = "ckineto",                                                             \
                                        .member = init_##v,                                                            \
                                        .start = start_##v,                                                            \
                                        .stop = stop_event,                                                            \
                                        .record = record_##v,                                                          \
                                        .finalize = finalize_comm};
TABLE(1, init_1)
TABLE(2, init_1)
TABLE(3, init_1)
TABLE(4, init_4)
TABLE(5, init_5)
TABLE(6, init_5)
