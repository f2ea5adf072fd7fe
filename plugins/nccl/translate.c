/* Descriptors and states for a plug-in of an older version than NCCL's, as NCCL itself translates them: the plug-in gets
 * what NCCL would give it without ours. Versions 1 to 3 also get the communicator, which NCCL no longer tells them. */
#include "nccl.h"

#include <string.h>
#include <strings.h>

/* ---- numbers of version 1 --------------------------------------------------------------------- */

/* The number that NCCL itself gives where a text is unknown to version 1: `otherwise`. */
static uint8_t find_nccl_code(const char *text, const char *const *names, size_t count, uint8_t otherwise)
{
    for (size_t i = 0; text && i < count; i++)
        if (names[i] && strcasecmp(text, names[i]) == 0)
            return (uint8_t)i;
    return otherwise;
}

static uint8_t func_number(const char *text)
{
    static const char *const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                        "AllReduce", "SendRecv", "Send",      "Recv"};
    return find_nccl_code(text, names, NC_COUNT(names), 6);
}

static uint8_t type_number(const char *text)
{
    static const char *const names[] = {"ncclInt8",    "ncclUint8",   "ncclInt32",   "ncclUint32",
                                        "ncclInt64",   "ncclUint64",  "ncclFloat16", "ncclFloat32",
                                        "ncclFloat64", "ncclBfloat16"};
    return find_nccl_code(text, names, NC_COUNT(names), 8);
}

static uint8_t algorithm_number(const char *text)
{
    static const char *const names[] = {"TREE", "RING", "COLLNET_DIRECT", "COLLNET_CHAIN", "NVLS", "NVLS_TREE"};
    return find_nccl_code(text, names, NC_COUNT(names), 6);
}

static uint8_t protocol_number(const char *text)
{
    static const char *const names[] = {"LL", "LL128"};
    return find_nccl_code(text, names, NC_COUNT(names), 2);
}

/* ---- descriptors ------------------------------------------------------------------------------ */

/* Writers return false for types that their version does not have: the plug-in does not get these events. */
static nc_proxy_op proxy_op_of(const nc_event *e)
{
    return (nc_proxy_op){.pid = (pid_t)e->pid,
                         .channel = e->channel,
                         .peer = e->peer,
                         .steps = e->steps,
                         .chunk_bytes = e->chunk_bytes,
                         .is_send = e->is_send};
}

/* What version 1 has no member for is left out; what later NCCL does not report is 0. */
static bool write_1(const nc_event *e, nc_descriptor_1 *d)
{
    switch (e->type) {
    case NC_COLL:
        d->coll.name = e->comm_name;
        d->coll.comm = e->comm_id;
        d->coll.sequence = e->sequence;
        d->coll.func = func_number(e->func);
        d->coll.send = e->send;
        d->coll.receive = e->receive;
        d->coll.count = e->count;
        d->coll.root = e->root;
        d->coll.type = type_number(e->dtype);
        d->coll.channels = e->channels;
        d->coll.warps = e->warps;
        d->coll.algorithm = algorithm_number(e->algorithm);
        d->coll.protocol = protocol_number(e->protocol);
        return true;
    case NC_P2P:
        d->p2p.name = e->comm_name;
        d->p2p.comm = e->comm_id;
        d->p2p.func = func_number(e->func);
        d->p2p.buffer = e->receive;
        d->p2p.type = type_number(e->dtype);
        d->p2p.count = e->count;
        d->p2p.peer = e->peer;
        return true;
    case NC_PROXY_OP:
        d->proxy_op = proxy_op_of(e);
        return true;
    case NC_PROXY_STEP:
        d->proxy_step.step = e->step;
        return true;
    default:
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
}

#define WRITE_COLL(d, e)                                                                                               \
    do {                                                                                                               \
        (d)->coll.sequence = (e)->sequence;                                                                            \
        (d)->coll.func = (e)->func;                                                                                    \
        (d)->coll.send = (e)->send;                                                                                    \
        (d)->coll.receive = (e)->receive;                                                                              \
        (d)->coll.count = (e)->count;                                                                                  \
        (d)->coll.root = (e)->root;                                                                                    \
        (d)->coll.type = (e)->dtype;                                                                                   \
        (d)->coll.channels = (e)->channels;                                                                            \
        (d)->coll.warps = (e)->warps;                                                                                  \
        (d)->coll.algorithm = (e)->algorithm;                                                                          \
        (d)->coll.protocol = (e)->protocol;                                                                            \
    } while (0)

static nc_p2p_old p2p_of(const nc_event *e)
{
    return (nc_p2p_old){.name = e->comm_name,
                        .comm = e->comm_id,
                        .func = e->func,
                        .buffer = e->receive,
                        .type = e->dtype,
                        .count = e->count,
                        .peer = e->peer};
}

/* Texts are NCCL's own, valid during the call. */
static bool write_2(const nc_event *e, nc_descriptor_2 *d)
{
    if (e->type == NC_COLL) {
        WRITE_COLL(d, e);
        d->coll.name = e->comm_name;
        d->coll.comm = e->comm_id;
    } else if (e->type == NC_P2P) {
        d->p2p = p2p_of(e);
    } else if (e->type == NC_PROXY_OP) {
        d->proxy_op = proxy_op_of(e);
    } else if (e->type == NC_PROXY_STEP) {
        d->proxy_step.step = e->step;
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* Version 3 has channels without times. */
static bool write_3(const nc_event *e, nc_descriptor_3 *d)
{
    if (e->type == NC_COLL) {
        WRITE_COLL(d, e);
        d->coll.name = e->comm_name;
        d->coll.comm = e->comm_id;
    } else if (e->type == NC_P2P) {
        d->p2p = p2p_of(e);
    } else if (e->type == NC_PROXY_OP) {
        d->proxy_op = proxy_op_of(e);
    } else if (e->type == NC_PROXY_STEP) {
        d->proxy_step.step = e->step;
    } else if (e->type == NC_KERNEL_CH) {
        d->kernel_ch.channel = e->channel;
    } else if (e->type == NC_NET_PLUGIN) {
        d->net = (nc_net){e->net_id, e->data};
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* Version 4 knows the communicator from init. */
static bool write_4(const nc_event *e, nc_descriptor_4 *d)
{
    if (e->type == NC_COLL) {
        WRITE_COLL(d, e);
    } else if (e->type == NC_P2P) {
        d->p2p.func = e->func;
        d->p2p.buffer = e->receive;
        d->p2p.type = e->dtype;
        d->p2p.count = e->count;
        d->p2p.peer = e->peer;
        d->p2p.channels = e->channels;
    } else if (e->type == NC_PROXY_OP) {
        d->proxy_op = proxy_op_of(e);
    } else if (e->type == NC_PROXY_STEP) {
        d->proxy_step.step = e->step;
    } else if (e->type == NC_KERNEL_CH) {
        d->kernel_ch.channel = e->channel;
        d->kernel_ch.timer = e->timer;
    } else if (e->type == NC_NET_PLUGIN) {
        d->net = (nc_net){e->net_id, e->data};
    } else {
        return e->type == NC_GROUP || e->type == NC_PROXY_CTRL;
    }
    return true;
}

/* The parents of versions 5 and 6, which have one layout. */
static void write_groups(const nc_event *e, nc_descriptor_6 *d)
{
    if (e->type == NC_COLL)
        d->coll.parent_group = e->parent_group;
    if (e->type == NC_P2P)
        d->p2p.parent_group = e->parent_group;
}

/* Since version 5 groups are beside the calls of the program; before, they were the parents. */
static void *old_parent(const nc_event *e, unsigned from)
{
    bool is_task = e->type == NC_COLL || e->type == NC_P2P;
    return is_task && from >= 5 ? e->parent_group : e->parent;
}

bool nc_write_descriptor(const nc_event *e, unsigned from, unsigned to, nc_descriptor *out)
{
    memset(out, 0, sizeof *out);
    if (from == to || to >= 5) {
        if (to == 5 && e->type >= NC_CE_COLL)
            return false;
        memcpy(out, e->raw, nc_descriptor_bytes(to));
        out->v6.parent = e->parent;
        if (to >= 5)
            write_groups(e, &out->v6);
        return true;
    }
    if (e->type > UINT8_MAX)
        return false;
    out->v1.type = (uint8_t)e->type;
    out->v1.parent = old_parent(e, from);
    out->v1.rank = e->rank;
    switch (to) {
    case 1:
        return write_1(e, &out->v1);
    case 2:
        return write_2(e, &out->v2);
    case 3:
        return write_3(e, &out->v3);
    default:
        return write_4(e, &out->v4);
    }
}

/* ---- states ----------------------------------------------------------------------------------- */

static bool is_between(int number, int first, int last) { return number >= first && number <= last; }

/* States that NCCL gives to versions 1 to 3, and those of version 4. */
static bool has_state(int number, unsigned version)
{
    bool always = is_between(number, NC_STATE_STEP_FIRST, NC_STATE_STEP_LAST) ||
                  is_between(number, NC_STATE_CTRL_FIRST, NC_STATE_CTRL_LAST);
    return always || (version >= 4 && is_between(number, NC_STATE_OP_IN_PROGRESS, NC_STATE_KERNEL_CH_STOP));
}

/* Values of versions that share a layout are copied; others get what they can hold. */
bool nc_write_state(const nc_state *s, unsigned from, unsigned to, nc_state_values *out)
{
    bool is_ctrl = is_between(s->number, NC_STATE_CTRL_FIRST, NC_STATE_CTRL_LAST);
    bool is_same = from == to || (from <= 3 && to <= 3) || (from >= 5 && to >= 5);
    memset(out, 0, sizeof *out);
    if (!is_same && !has_state(s->number, to))
        return false;
    if (s->raw && (is_same || to >= 4))
        memcpy(out, s->raw, to >= 4 ? sizeof out->v4 : sizeof out->v1);
    else if (is_ctrl)
        out->v1.proxy_ctrl.appended = (int)s->value;
    return true;
}
