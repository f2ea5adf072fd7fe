/* Begin, states and end of events. An event that the session does not want and that the other plug-in did not ask for has
 * no handle, so that NCCL does not call again about it. */
#include "nccl.h"

#include <time.h>

/* ---- begin ------------------------------------------------------------------------------------ */

/* What a part has of its collective: channels, operations of the proxy, and their steps. */
static void inherit_facts(const nc_event *e, nc_facts *f)
{
    nc_facts parent;
    if (!nc_slot_read(e->parent, &parent) || parent.comm != f->comm)
        return;
    f->parent = e->parent;
    f->func = parent.func;
    f->sequence = parent.sequence;
    f->its_sequence = parent.its_sequence;
    f->launched = parent.launched;
    f->is_captured |= parent.is_captured;
    if (parent.session == f->session)
        f->set = parent.set;
    if (e->type == NC_PROXY_STEP || e->type == NC_NET_PLUGIN) {
        f->peer = parent.peer;
        f->is_send = parent.is_send;
        f->channel = parent.channel;
    }
}

/* The last moment of which is known that the kernel was not running: the begin of its launch, or the collective before it,
 * or the begin of the communicator. Kernels of graphs run in another order than they are reported. */
static uint64_t find_launch(const nc_facts *f)
{
    uint64_t launch = nc_get(&f->comm->last_launch), before = nc_get(&f->comm->last_begin);
    return launch > before || f->is_captured ? launch : before;
}

/* Collectives and messages as they are launched. */
static void describe_task(const nc_event *e, nc_facts *f)
{
    nc_comm *c = f->comm;
    bool is_channelled = nc_session_mask() & NC_KERNEL_CH && c->version >= 3;
    f->func = nc_keep_text(e->func);
    f->its_sequence = e->sequence;
    f->launched = find_launch(f);
    f->channels = is_channelled ? e->channels : 0;
    f->peer = e->peer;
    nc_set(&c->last_begin, f->begin);
    if (f->session)
        f->set = nc_register_values(c, e, f->func);
}

/* What is kept of events that are no tasks; `count` and `value` mean what rows.c writes for the type. */
static void describe_other(const nc_event *e, nc_facts *f)
{
    switch (e->type) {
    case NC_COLL_API:
    case NC_P2P_API:
        f->func = nc_keep_text(e->func);
        f->value = (uint64_t)(uintptr_t)e->stream;
        break;
    case NC_KERNEL_LAUNCH:
        f->value = (uint64_t)(uintptr_t)e->stream;
        nc_set(&f->comm->last_launch, f->begin);
        break;
    case NC_PROXY_OP:
        f->peer = e->peer;
        f->is_send = e->is_send;
        f->count = (uint64_t)(int64_t)e->steps;
        f->value = (uint64_t)(int64_t)e->chunk_bytes;
        break;
    case NC_PROXY_STEP:
        f->count = (uint64_t)(int64_t)e->step;
        break;
    case NC_NET_PLUGIN:
        f->value = (uint64_t)e->net_id;
        break;
    case NC_CE_SYNC:
        f->count = (uint64_t)(int64_t)e->ranks;
        break;
    case NC_CE_BATCH:
        f->count = (uint64_t)(int64_t)e->operations;
        f->value = e->bytes;
        break;
    default:
        break;
    }
}

/* Those that become ranges of their thread. */
#define ON_THREADS (NC_COLL | NC_P2P | NC_GROUP_API | NC_COLL_API | NC_P2P_API | NC_KERNEL_LAUNCH)

static void describe_event(const nc_event *e, nc_facts *f)
{
    f->begin = kineto_record_ticks();
    f->func = nc_keep_text(NULL);
    f->type = e->type;
    f->comm_number = f->comm->number;
    f->thread = e->type & ON_THREADS ? nc_thread_id() : 0;
    f->peer = -1;
    f->channel = e->channel;
    f->count = e->count;
    f->timer = e->timer;
    f->is_captured = e->is_captured;
    f->is_foreign = e->type == NC_PROXY_OP && e->pid != (int64_t)nc_process_id();
    if (e->parent && !f->is_foreign)
        inherit_facts(e, f);
    if (e->type == NC_COLL || e->type == NC_P2P || e->type == NC_CE_COLL)
        describe_task(e, f);
    else
        describe_other(e, f);
}

/* Called for every collective, also while nothing records: its number, by which ranks agree. */
static uint64_t number_event(nc_comm *c, const nc_event *e)
{
    if (e->type != NC_COLL)
        return NC_NO_SEQUENCE;
    nc_comm_learn(c, e);
    return atomic_fetch_add_explicit(&c->sequence, 1, memory_order_relaxed);
}

/* The kernel of a channel is running or has run: a time of the GPU between two of the host. */
static void sample_clock(const nc_facts *f)
{
    if (f->type == NC_KERNEL_CH && f->timer && f->launched && f->session)
        nc_gpu_clock_sample(f->comm->gpu, f->timer, f->launched, f->begin);
}

/* Without a slot the event is lost; the other plug-in's is ended at once, so that it is not left open. */
static void open_event(nc_facts *f, bool is_passed_on, void **handle)
{
    nc_slot *slot = nc_slot_open(f, handle);
    if (slot) {
        sample_clock(f);
        if (f->session && (f->type == NC_COLL || f->type == NC_P2P))
            nc_launch_add(f);
        return;
    }
    if (f->session)
        nc_count(NC_TALLY_NO_SLOT);
    if (is_passed_on) {
        nc_count(NC_TALLY_NEXT_LOST);
        nc_next_stop(f->comm, f->next);
    }
}

/* The number is given in any case, since other ranks count, too. */
void nc_event_start(nc_comm *c, const nc_event *e, void **handle)
{
    uint64_t sequence = number_event(c, e);
    uint32_t session = nc_session();
    if (c->next)
        nc_mask_check(c);
    bool is_recorded = session && ((uint32_t)nc_session_mask() & e->type);
    bool is_passed_on = nc_next_wants(c, e->type);
    if (!is_recorded && !is_passed_on) {
        /* NCCL before version 5 starts collectives only in groups that have a handle. */
        *handle = e->type == NC_GROUP ? NC_NO_EVENT : NULL;
        return;
    }
    nc_facts f = {.comm = c, .session = is_recorded ? session : 0, .sequence = sequence};
    describe_event(e, &f);
    if (e->type == NC_COLL)
        f.sequence = sequence;
    if (is_passed_on)
        f.next = nc_next_start(c, e);
    if (is_recorded || f.next)
        open_event(&f, is_passed_on, handle);
    else if (e->type == NC_GROUP)
        *handle = NC_NO_EVENT;
}

/* ---- states ----------------------------------------------------------------------------------- */

/* For durations in the network only. */
static uint64_t now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Ends the stay in the network that record_step has noted, if any. */
static void add_waited(nc_slot *slot, uint64_t now)
{
    uint64_t from = atomic_exchange_explicit(&slot->waits_from, 0, memory_order_relaxed);
    if (from && now > from)
        atomic_fetch_add_explicit(&slot->waited, now - from, memory_order_relaxed);
}

/* Steps: bytes, and the time in the network (states 9 and 10). */
static void record_step(nc_slot *slot, const nc_state *s)
{
    uint64_t now = now_ns();
    add_waited(slot, now);
    if (s->value)
        nc_set(&slot->value, s->value);
    if (s->number == 9 || s->number == 10)
        nc_set(&slot->waits_from, now);
}

/* States that change what is recorded; the others are only passed on. */
static void record_state(nc_slot *slot, const nc_brief *f, const nc_state *s)
{
    if (f->type == NC_PROXY_STEP)
        record_step(slot, s);
    else if (f->type == NC_KERNEL_CH && s->number == NC_STATE_KERNEL_CH_STOP)
        nc_set(&slot->last_timer, s->value);
    else if (f->type == NC_PROXY_CTRL)
        nc_set(&slot->value, (uint64_t)(int64_t)s->number);
}

/* Passed on also while nothing records. */
void nc_event_record(unsigned version, void *handle, int number, const void *values)
{
    nc_brief f;
    nc_state s;
    if (!handle || handle == NC_NO_EVENT)
        return;
    nc_slot *slot = nc_slot_peek(handle, &f);
    if (!slot)
        return;
    nc_read_state(version, number, values, &s);
    if (f.session)
        record_state(slot, &f, &s);
    nc_next_record(f.comm, f.next, &s);
}

/* ---- end -------------------------------------------------------------------------------------- */

/* The span of a collective's channels, which may end on several threads at once. */
static void widen_span(nc_slot *slot, uint64_t first, uint64_t last)
{
    uint64_t there = nc_get(&slot->first_timer);
    while (first && (!there || first < there) &&
           !atomic_compare_exchange_weak(&slot->first_timer, &there, first))
        ;
    there = nc_get(&slot->last_timer);
    while (last > there && !atomic_compare_exchange_weak(&slot->last_timer, &there, last))
        ;
}

/* The last channel of a collective that was stopped before ends it. */
static void end_channel(const nc_facts *channel, uint64_t timer, uint64_t now)
{
    nc_brief parent;
    nc_facts f;
    nc_slot *slot = channel->parent ? nc_slot_peek(channel->parent, &parent) : NULL;
    if (!slot || (parent.type != NC_COLL && parent.type != NC_P2P) ||
        !atomic_load_explicit(&slot->channels_left, memory_order_relaxed))
        return;
    widen_span(slot, channel->timer, timer);
    if (!nc_slot_end_channel(slot) || !nc_slot_read(channel->parent, &f))
        return;
    nc_deliver(slot, &f, now, false);
    nc_slot_close(slot);
}

/* The event's slot is in CLOSING: no other thread delivers it. */
static void end_recorded(nc_slot *slot, const nc_facts *f)
{
    uint64_t now = kineto_record_ticks();
    if (f->type == NC_PROXY_STEP)
        add_waited(slot, now_ns());
    if (f->type == NC_KERNEL_LAUNCH)
        nc_launch_end(f, now);
    else
        nc_deliver(slot, f, now, false);
    if (f->type == NC_KERNEL_CH)
        end_channel(f, nc_get(&slot->last_timer), now);
    if (f->type == NC_GROUP)
        nc_launch_flush(f->comm);
}

/* Events that no other has as a parent. */
#define LEAVES (NC_KERNEL_CH | NC_NET_PLUGIN | NC_PROXY_CTRL | NC_KERNEL_LAUNCH | NC_CE_SYNC | NC_CE_BATCH)

void nc_event_stop(void *handle)
{
    nc_facts f;
    if (!handle || handle == NC_NO_EVENT)
        return;
    nc_slot *slot = nc_slot_stop(handle, &f);
    if (!slot) {
        if (nc_session())
            nc_count(NC_TALLY_STALE); /* NCCL stops some again, while masks change */
        return;
    }
    nc_next_stop(f.comm, f.next);
    bool is_recorded = f.session && f.session == nc_session();
    if (is_recorded && f.comm->version < 5 && (f.type == NC_COLL || f.type == NC_P2P))
        nc_deliver_task_range(slot, &f, kineto_record_ticks());
    if (is_recorded && f.channels && nc_slot_await_channels(slot))
        return;
    if (is_recorded)
        end_recorded(slot, &f);
    if (f.type & LEAVES)
        nc_slot_recycle(slot);
    else
        nc_slot_close(slot);
}

/* ---- the end of a session --------------------------------------------------------------------- */

/* At the end of a session an event stays open, for NCCL and for the other plug-in. */
static void deliver_open(nc_slot *slot, const nc_facts *f)
{
    if (!f->session || f->session != nc_session())
        return;
    nc_deliver(slot, f, kineto_record_ticks(), true);
    nc_count(NC_TALLY_OPEN);
}

void nc_events_flush(void)
{
    nc_comms_visit(nc_launch_flush);
    nc_slots_visit(nc_session(), deliver_open);
}

/* NCCL has promised to call no more about them. */
void nc_events_end(nc_comm *comm)
{
    nc_launch_flush(comm);
    nc_slots_release(comm, deliver_open);
}
