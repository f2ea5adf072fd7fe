/* Commands between enqueue and completion. Each has a record from a fixed pool; the driver's
 * completion callback gets it as its argument and returns it to the pool. The thread that moves a
 * record out of PENDING delivers the command: the callback, or a drain (at the end of the session
 * or process). `state` decides all races; its transitions are listed below. */
#include "opencl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLAB_COMMANDS 512u
#define MAX_SLABS     256u
/* Time between clock samples of a device with a clock of its own. */
#define SAMPLE_INTERVAL_NS 10000000
#define NO_COMMAND         UINT32_MAX

/* FREE → PREPARED → PENDING, then either CALLED → DELIVERED (the callback came first) or DRAINING →
 * DELIVERED (a drain came first; ORPHAN if the callback came during the drain), then RELEASING →
 * FREE. */
enum command_state {
    COMMAND_FREE,
    /* Owned by the wrapper that enqueues it. */
    COMMAND_PREPARED,
    /* Enqueued; a callback or a drain may take it. */
    COMMAND_PENDING,
    /* A drain has it; the callback has not come. */
    COMMAND_DRAINING,
    /* A drain has it and must release it: its callback has come. */
    COMMAND_ORPHAN,
    /* Its callback has it and has not delivered it yet. */
    COMMAND_CALLED,
    /* Delivered; its callback must still release it. */
    COMMAND_DELIVERED,
    COMMAND_RELEASING /* its event is being released */
};

struct co_command {
    atomic_uint state;
    atomic_uint next; /* free list: index, or NONE */
    uint32_t index;
    /* The program requested no event: we hold the only reference. */
    bool own;
    _Atomic(cl_event) event;
    co_work work;
};

static _Atomic(co_command *) slabs[MAX_SLABS];
static atomic_uint slab_count;
/* Treiber stack: serial << 32 | index. The serial changes with each operation, against ABA. */
static atomic_ullong free_list = NO_COMMAND;
static pthread_mutex_t slabs_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint last_correlation;
static atomic_uint active_callbacks;

/* ---- pool ------------------------------------------------------------------------------------ */

static co_command *command_at(uint32_t index)
{
    co_command *slab = atomic_load_explicit(&slabs[index / SLAB_COMMANDS], memory_order_acquire);

    return &slab[index % SLAB_COMMANDS];
}

/* Returns a command to the pool. */
static void push_free_command(co_command *c)
{
    unsigned long long head = atomic_load(&free_list), next;

    atomic_store(&c->state, COMMAND_FREE);
    do {
        atomic_store_explicit(&c->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | c->index;
    } while (!atomic_compare_exchange_weak(&free_list, &head, next));
}

/* Takes a command from the pool; NULL: none is free. */
static co_command *pop_free_command(void)
{
    unsigned long long head = atomic_load(&free_list), next;
    co_command *c;

    do {
        if ((uint32_t)head == NO_COMMAND)
            return NULL;
        c = command_at((uint32_t)head);
        next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&c->next, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&free_list, &head, next));
    return c;
}

/* Adds a slab to the pool; returns its first command to the caller. NULL: the pool is at its
 * limit. */
static co_command *grow_pool(void)
{
    co_command *slab = NULL;

    pthread_mutex_lock(&slabs_lock);
    co_command *mine = pop_free_command();
    uint32_t count = atomic_load(&slab_count);
    if (!mine && count < MAX_SLABS && (slab = calloc(SLAB_COMMANDS, sizeof *slab)) != NULL) {
        for (uint32_t i = 0; i < SLAB_COMMANDS; i++)
            slab[i].index = count * SLAB_COMMANDS + i;
        atomic_store_explicit(&slabs[count], slab, memory_order_release);
        atomic_store_explicit(&slab_count, count + 1, memory_order_release);
        for (uint32_t i = 1; i < SLAB_COMMANDS; i++)
            push_free_command(&slab[i]);
        mine = &slab[0];
    }
    pthread_mutex_unlock(&slabs_lock);
    return mine;
}

void co_commands_after_fork(void)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS;

    pthread_mutex_init(&slabs_lock, NULL);
    atomic_store(&active_callbacks, 0);
    atomic_store(&free_list, NO_COMMAND);
    /* The parent delivers what it enqueued. Events are not released: they belong to the driver's
     * state in the parent. */
    for (uint32_t i = 0; i < commands; i++)
        push_free_command(command_at(i));
}

/* ---- completion ------------------------------------------------------------------------------ */

/* Moves a command from one state to another; false: it is in another state by now. */
static bool change_state(co_command *c, unsigned from, unsigned to)
{
    return atomic_compare_exchange_strong(&c->state, &from, to);
}

/* Releases our reference to the event and returns the command to the pool. RELEASING is seen by
 * co_commands_hold, which must not count the reference. */
static void release_command(co_command *c)
{
    atomic_store(&c->state, COMMAND_RELEASING);
    (void)co_next.clReleaseEvent(atomic_load_explicit(&c->event, memory_order_relaxed));
    atomic_store_explicit(&c->event, NULL, memory_order_relaxed);
    push_free_command(c);
}

/* Delivers a command that its callback has claimed. If the session has ended meanwhile, the drain
 * has counted it. */
static void deliver_claimed(co_command *c, cl_int status)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    if (!builder)
        return;
    if (change_state(c, COMMAND_CALLED, COMMAND_DELIVERED))
        co_deliver(builder, &c->work, atomic_load_explicit(&c->event, memory_order_relaxed),
                   status);
    co_builder_leave();
}

/* The driver's completion callback, on any thread. */
static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *user)
{
    co_command *c = user;

    uint64_t begun = kineto_overhead_begin();
    (void)event;
    atomic_fetch_add(&active_callbacks, 1);
    if (change_state(c, COMMAND_PENDING, COMMAND_CALLED)) {
        deliver_claimed(c, status);
        release_command(c);
    } else if (!change_state(c, COMMAND_DRAINING, COMMAND_ORPHAN)) {
        release_command(c);
    }
    atomic_fetch_sub(&active_callbacks, 1);
    kineto_overhead_end(begun);
}

/* Ends the drain of one command: its callback releases it later, or has come already. */
static void finish_drained(co_command *c)
{
    if (!change_state(c, COMMAND_DRAINING, COMMAND_DELIVERED))
        release_command(c);
}

enum drain_pass {
    DRAIN_COLLECT, /* leave commands that still run */
    DRAIN_GIVE_UP, /* count commands that still run as lost */
    DRAIN_BLIND    /* count all as lost: the driver must not be called any more */
};

/* CL_QUEUED, "still running", if the driver fails. */
static cl_int query_event_status(cl_event event)
{
    cl_int status = CL_QUEUED;

    if (co_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               NULL) != CL_SUCCESS)
        return CL_QUEUED;
    return status;
}

/* Delivers one pending command. True: it still runs and was left. */
static bool drain_command(co_command *c, enum drain_pass pass)
{
    if (atomic_load(&c->state) != COMMAND_PENDING ||
        !change_state(c, COMMAND_PENDING, COMMAND_DRAINING))
        return false;
    cl_event event = atomic_load_explicit(&c->event, memory_order_relaxed);
    cl_int status = pass == DRAIN_BLIND ? CL_QUEUED : query_event_status(event);
    if (status > CL_COMPLETE && pass == DRAIN_COLLECT) {
        if (change_state(c, COMMAND_DRAINING, COMMAND_PENDING))
            return true;
        /* The callback came just now and left the command to this drain. */
        status = query_event_status(event);
        status = status > CL_COMPLETE ? CL_COMPLETE : status;
    }
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    if (builder) {
        co_deliver(builder, &c->work, event, status);
        co_builder_leave();
    }
    finish_drained(c);
    return false;
}

/* One pass over all commands; returns how many still run. */
static uint32_t drain_commands(enum drain_pass pass)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS, running = 0;

    for (uint32_t i = 0; i < commands; i++)
        running += drain_command(command_at(i), pass);
    return running;
}

static void sleep_half_millisecond(void)
{
    struct timespec t = {0, 500000};

    (void)nanosleep(&t, NULL);
}

/* Counts commands as lost whose callbacks did not get the processor in all this time. The callbacks
 * see the changed state and only release them. */
static void lose_claimed_commands(void)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS;
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    for (uint32_t i = 0; builder && i < commands; i++)
        if (atomic_load(&command_at(i)->state) == COMMAND_CALLED &&
            change_state(command_at(i), COMMAND_CALLED, COMMAND_DELIVERED))
            co_deliver(builder, &command_at(i)->work, NULL, CL_QUEUED);
    if (builder)
        co_builder_leave();
}

void co_commands_drain(int wait_ms)
{
    int64_t start = co_now_ns(CLOCK_MONOTONIC), limit = start + wait_ms * INT64_C(1000000);

    while (wait_ms != CO_DRAIN_BLIND && drain_commands(DRAIN_COLLECT) &&
           co_now_ns(CLOCK_MONOTONIC) < limit)
        sleep_half_millisecond();
    (void)drain_commands(wait_ms == CO_DRAIN_BLIND ? DRAIN_BLIND : DRAIN_GIVE_UP);
    /* Wait for callbacks that claimed a command before the drain. */
    limit = co_now_ns(CLOCK_MONOTONIC) + INT64_C(100000000);
    while (atomic_load(&active_callbacks) && co_now_ns(CLOCK_MONOTONIC) < limit)
        sleep_half_millisecond();
    lose_claimed_commands();
}

void co_commands_collect(void) { (void)drain_commands(DRAIN_COLLECT); }

uint32_t co_commands_hold(cl_event event)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS, held = 0;

    for (uint32_t i = 0; i < commands; i++) {
        co_command *c = command_at(i);
        if (atomic_load_explicit(&c->event, memory_order_relaxed) != event)
            continue;
        while (atomic_load(&c->state) == COMMAND_RELEASING)
            sched_yield();
        unsigned state = atomic_load(&c->state);
        held += atomic_load_explicit(&c->event, memory_order_relaxed) == event &&
                state >= COMMAND_PENDING && state <= COMMAND_DELIVERED;
    }
    return held;
}

/* ---- enqueue --------------------------------------------------------------------------------- */

static uint32_t next_correlation_id(void)
{
    uint32_t id;

    do
        id = atomic_fetch_add_explicit(&last_correlation, 1, memory_order_relaxed) + 1;
    while (id == 0);
    return id;
}

/* Counts a command that was enqueued but could not be taken up. */
static void count_lost_command(co_loss why)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    if (!builder)
        return;
    co_count_requested(builder);
    co_count_lost(builder, why);
    co_builder_leave();
}

/* Sets the members that every command has; the description adds the rest. */
static void init_work(co_work *work, const co_queue *queue, int32_t type, uint32_t session)
{
    work->type = type;
    work->session = session;
    work->device = queue->device;
    work->queue = queue->number;
    work->context = queue->context;
    work->dims = 0;
    work->kernels = 0;
    work->bytes = 0;
    work->has_local = work->has_offset = false;
    work->bracket.used = false;
}

/* True if the clocks shall be read around this call: always while the device's clock is undecided,
 * every 10 ms for a clock of its own, never for a host clock. */
static bool wants_bracket(co_device *device)
{
    int state = atomic_load_explicit(&device->clock_state, memory_order_relaxed);

    if (state != CO_CLOCK_DEVICE)
        return state == CO_CLOCK_UNDECIDED;
    int64_t now = co_now_ns(CLOCK_MONOTONIC);
    long long due = atomic_load_explicit(&device->next_sample_ns, memory_order_relaxed);
    return now >= due && atomic_compare_exchange_strong(&device->next_sample_ns, &due,
                                                        (long long)now + SAMPLE_INTERVAL_NS);
}

/* Reads the clocks at one end of a bracket, with the host's ticks if a session is active. */
static void read_bracket(co_work *work,
                         void (*read)(co_bracket *, const KinetoPlugin_TraceBuilder *))
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    read(&work->bracket, builder);
    if (builder)
        co_builder_leave();
}

/* A command for the call; NULL: none is taken up, with the reason in *why if that is a loss. */
static co_command *prepare_command(cl_command_queue handle, int32_t type, co_loss *why)
{
    uint32_t session = co_session_wants(type);
    co_queue *queue = session ? co_queue_of(handle) : NULL;

    if (!queue)
        return NULL;
    if (!queue->timed) {
        *why = CO_LOSS_UNTIMED_QUEUE;
        return NULL;
    }
    co_command *c = pop_free_command();
    if (!c && !(c = grow_pool())) {
        *why = CO_LOSS_TOO_MANY;
        return NULL;
    }
    atomic_store_explicit(&c->state, COMMAND_PREPARED, memory_order_relaxed);
    init_work(&c->work, queue, type, session);
    return c;
}

void co_launch_begin(co_launch *launch, kineto_site *site, cl_command_queue queue, int32_t type,
                     cl_event **event)
{
    uint64_t begun = kineto_overhead_begin();
    kineto_props props = {.size = sizeof props};

    launch->lost = CO_LOSS_COUNT;
    co_command *c = prepare_command(queue, type, &launch->lost);
    launch->own = NULL;
    launch->command = c;
    if (c) {
        c->work.correlation_id = next_correlation_id();
        props.correlation_id = c->work.correlation_id;
        c->own = *event == NULL;
        if (c->own)
            *event = &launch->own;
    }
    kineto_overhead_end(begun);
    launch->range = kineto_range_begin_props(site, &props);
    if (c && wants_bracket(c->work.device))
        read_bracket(&c->work, co_bracket_open);
}

co_work *co_launch_end(co_launch *launch, cl_int status, cl_event *event)
{
    co_command *c = launch->command;

    if (c && c->work.bracket.used)
        read_bracket(&c->work, co_bracket_close);
    kineto_range_end(launch->range);
    if (!c && launch->lost != CO_LOSS_COUNT && status == CL_SUCCESS)
        count_lost_command(launch->lost);
    if (!c)
        return NULL;
    if (status != CL_SUCCESS || !*event) {
        push_free_command(c);
        return NULL;
    }
    atomic_store_explicit(&c->event, *event, memory_order_relaxed);
    return &c->work;
}

/* Makes an enqueued command PENDING: from here on it can complete. False: the session has ended. */
static bool make_pending(co_command *c, cl_event event)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    bool accepted = builder && co_session_accepts(c->work.session);

    if (accepted) {
        co_count_requested(builder);
        if (!c->own)
            (void)co_next.clRetainEvent(event);
        atomic_store(&c->state, COMMAND_PENDING);
    }
    if (builder)
        co_builder_leave();
    return accepted;
}

/* Makes the command pending and sets its callback. Without a callback it is delivered as lost at
 * once. */
static void submit_launch(const co_launch *launch)
{
    co_command *c = launch->command;
    cl_event event = atomic_load_explicit(&c->event, memory_order_relaxed);

    if (!make_pending(c, event)) {
        if (c->own)
            (void)co_next.clReleaseEvent(event);
        atomic_store_explicit(&c->event, NULL, memory_order_relaxed);
        push_free_command(c);
        return;
    }
    if (!co_next.clSetEventCallback ||
        co_next.clSetEventCallback(event, CL_COMPLETE, on_complete, c) != CL_SUCCESS)
        on_complete(event, CO_STATUS_NO_CALLBACK, c);
}

void co_launch_submit(co_launch *launch)
{
    uint64_t begun = kineto_overhead_begin();

    submit_launch(launch);
    kineto_overhead_end(begun);
}
