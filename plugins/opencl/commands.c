/* Commands between enqueue and completion. Each has a record from a fixed pool; the driver's
 * completion callback gets it as its argument and gives it back. Whoever moves the record out of
 * PENDING delivers the command: the callback, or a drain (the session stops, the process ends). */
#include "opencl.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLAB_COMMANDS 512u
#define MAX_SLABS     256u
#define NONE          UINT32_MAX

enum state {
    FREE,
    PREPARED,  /* in the wrapper that enqueues it */
    PENDING,   /* enqueued; up for grabs */
    DRAINING,  /* a drain has it; the callback has not come */
    ORPHAN,    /* a drain has it; the callback came and left the rest to the drain */
    CALLED,    /* its callback has it, and has not handed it over yet */
    DELIVERED, /* waits for its callback */
    RELEASING
};

struct co_command {
    atomic_uint state;
    atomic_uint next; /* free list: index, or NONE */
    uint32_t index;
    bool own; /* the event is ours alone */
    _Atomic(cl_event) event;
    co_work work;
};

static _Atomic(co_command *) slabs[MAX_SLABS];
static atomic_uint slab_count;
static atomic_ullong free_list = NONE; /* serial << 32 | index */
static pthread_mutex_t slabs_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint last_correlation;
static atomic_uint delivering; /* callbacks at work */

/* ---- pool --------------------------------------------------------------------------------------
 */

static co_command *at(uint32_t index)
{
    co_command *slab = atomic_load_explicit(&slabs[index / SLAB_COMMANDS], memory_order_acquire);

    return &slab[index % SLAB_COMMANDS];
}

static void push(co_command *c)
{
    unsigned long long head = atomic_load(&free_list), next;

    atomic_store(&c->state, FREE);
    do {
        atomic_store_explicit(&c->next, (uint32_t)head, memory_order_relaxed);
        next = ((head >> 32) + 1) << 32 | c->index;
    } while (!atomic_compare_exchange_weak(&free_list, &head, next));
}

static co_command *pop(void)
{
    unsigned long long head = atomic_load(&free_list), next;
    co_command *c;

    do {
        if ((uint32_t)head == NONE)
            return NULL;
        c = at((uint32_t)head);
        next = ((head >> 32) + 1) << 32 | atomic_load_explicit(&c->next, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak(&free_list, &head, next));
    return c;
}

/* One more slab; the first command of it is the caller's. */
static co_command *grow(void)
{
    co_command *slab = NULL;

    pthread_mutex_lock(&slabs_lock);
    co_command *mine = pop();
    uint32_t count = atomic_load(&slab_count);
    if (!mine && count < MAX_SLABS && (slab = calloc(SLAB_COMMANDS, sizeof *slab)) != NULL) {
        for (uint32_t i = 0; i < SLAB_COMMANDS; i++)
            slab[i].index = count * SLAB_COMMANDS + i;
        atomic_store_explicit(&slabs[count], slab, memory_order_release);
        atomic_store_explicit(&slab_count, count + 1, memory_order_release);
        for (uint32_t i = 1; i < SLAB_COMMANDS; i++)
            push(&slab[i]);
        mine = &slab[0];
    }
    pthread_mutex_unlock(&slabs_lock);
    return mine;
}

void co_commands_after_fork(void)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS;

    pthread_mutex_init(&slabs_lock, NULL);
    atomic_store(&delivering, 0);
    atomic_store(&free_list, NONE);
    /* The parent delivers what it enqueued. The driver's memory is left alone. */
    for (uint32_t i = 0; i < commands; i++)
        push(at(i));
}

/* ---- completion ------------------------------------------------------------------------------ */

static bool claim(co_command *c, unsigned from, unsigned to)
{
    return atomic_compare_exchange_strong(&c->state, &from, to);
}

static void let_go(co_command *c)
{
    atomic_store(&c->state, RELEASING);
    (void)co_next.clReleaseEvent(atomic_load_explicit(&c->event, memory_order_relaxed));
    atomic_store_explicit(&c->event, NULL, memory_order_relaxed);
    push(c);
}

/* Where the session has ended meanwhile, it was counted. */
static void hand_over(co_command *c, cl_int status)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    if (!builder)
        return;
    if (claim(c, CALLED, DELIVERED))
        co_deliver(builder, &c->work, atomic_load_explicit(&c->event, memory_order_relaxed),
                   status);
    co_builder_leave();
}

static void CL_CALLBACK on_complete(cl_event event, cl_int status, void *user)
{
    co_command *c = user;

    uint64_t begun = kineto_overhead_begin();
    (void)event;
    atomic_fetch_add(&delivering, 1);
    if (claim(c, PENDING, CALLED)) {
        hand_over(c, status);
        let_go(c);
    } else if (!claim(c, DRAINING, ORPHAN)) {
        let_go(c);
    }
    atomic_fetch_sub(&delivering, 1);
    kineto_overhead_end(begun);
}

/* The drain is through with a command it delivered. */
static void drained(co_command *c)
{
    if (!claim(c, DRAINING, DELIVERED))
        let_go(c);
}

enum pass {
    LOOK,    /* leave alone what still runs */
    GIVE_UP, /* what still runs is lost */
    BLIND    /* all is lost: the driver must not be asked any more */
};

static cl_int status_of(cl_event event)
{
    cl_int status = CL_QUEUED;

    if (co_next.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status,
                               NULL) != CL_SUCCESS)
        return CL_QUEUED;
    return status;
}

/* True if the command still runs. */
static bool drain_one(co_command *c, enum pass pass)
{
    if (atomic_load(&c->state) != PENDING || !claim(c, PENDING, DRAINING))
        return false;
    cl_event event = atomic_load_explicit(&c->event, memory_order_relaxed);
    cl_int status = pass == BLIND ? CL_QUEUED : status_of(event);
    if (status > CL_COMPLETE && pass == LOOK) {
        if (claim(c, DRAINING, PENDING))
            return true;
        /* The callback came just now, and left it to us. */
        status = status_of(event);
        status = status > CL_COMPLETE ? CL_COMPLETE : status;
    }
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    if (builder) {
        co_deliver(builder, &c->work, event, status);
        co_builder_leave();
    }
    drained(c);
    return false;
}

static uint32_t drain_pass(enum pass pass)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS, running = 0;

    for (uint32_t i = 0; i < commands; i++)
        running += drain_one(at(i), pass);
    return running;
}

static void pause_briefly(void)
{
    struct timespec t = {0, 500000};

    (void)nanosleep(&t, NULL);
}

/* Callbacks whose threads did not get the processor in all this time: what they have is lost, and
 * they will see that. */
static void lose_called(void)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS;
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    for (uint32_t i = 0; builder && i < commands; i++)
        if (atomic_load(&at(i)->state) == CALLED && claim(at(i), CALLED, DELIVERED))
            co_deliver(builder, &at(i)->work, NULL, CL_QUEUED);
    if (builder)
        co_builder_leave();
}

void co_commands_drain(int wait_ms)
{
    int64_t start = co_now_ns(CLOCK_MONOTONIC), limit = start + wait_ms * INT64_C(1000000);

    while (wait_ms != CO_DRAIN_BLIND && drain_pass(LOOK) && co_now_ns(CLOCK_MONOTONIC) < limit)
        pause_briefly();
    (void)drain_pass(wait_ms == CO_DRAIN_BLIND ? BLIND : GIVE_UP);
    /* Callbacks that had claimed a command before us: let them finish. */
    limit = co_now_ns(CLOCK_MONOTONIC) + INT64_C(100000000);
    while (atomic_load(&delivering) && co_now_ns(CLOCK_MONOTONIC) < limit)
        pause_briefly();
    lose_called();
}

void co_commands_collect(void) { (void)drain_pass(LOOK); }

uint32_t co_commands_hold(cl_event event)
{
    uint32_t commands = atomic_load(&slab_count) * SLAB_COMMANDS, held = 0;

    for (uint32_t i = 0; i < commands; i++) {
        co_command *c = at(i);
        if (atomic_load_explicit(&c->event, memory_order_relaxed) != event)
            continue;
        while (atomic_load(&c->state) == RELEASING)
            sched_yield();
        unsigned state = atomic_load(&c->state);
        held += atomic_load_explicit(&c->event, memory_order_relaxed) == event &&
                state >= PENDING && state <= DELIVERED;
    }
    return held;
}

/* ---- enqueue --------------------------------------------------------------------------------- */

static uint32_t next_correlation(void)
{
    uint32_t id;

    do
        id = atomic_fetch_add_explicit(&last_correlation, 1, memory_order_relaxed) + 1;
    while (id == 0);
    return id;
}

static void lose(co_loss why)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    if (!builder)
        return;
    co_count_requested(builder);
    co_count_lost(builder, why);
    co_builder_leave();
}

static void fill(co_work *work, const co_queue *queue, int32_t type, uint32_t session)
{
    work->type = type;
    work->session = session;
    work->device = queue->device;
    work->queue = queue->number;
    work->context = queue->context;
    work->dims = 0;
    work->bytes = 0;
    work->has_local = work->has_offset = false;
    work->bracket.used = false;
}

/* Is a reading of the clocks around this call worth its price? */
static bool wants_bracket(co_device *device)
{
    int state = atomic_load_explicit(&device->clock_state, memory_order_relaxed);

    if (state != CO_CLOCK_DEVICE)
        return state == CO_CLOCK_UNDECIDED;
    int64_t now = co_now_ns(CLOCK_MONOTONIC);
    long long due = atomic_load_explicit(&device->next_sample_ns, memory_order_relaxed);
    return now >= due &&
           atomic_compare_exchange_strong(&device->next_sample_ns, &due, (long long)now + 10000000);
}

static void bracket(co_work *work, void (*read)(co_bracket *, const KinetoPlugin_TraceBuilder *))
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();

    read(&work->bracket, builder);
    if (builder)
        co_builder_leave();
}

/* NULL: it is not taken up; *why it will be missing, if it is a command at all. */
static co_command *prepare(cl_command_queue handle, int32_t type, co_loss *why)
{
    uint32_t session = co_session_wants(type);
    co_queue *queue = session ? co_queue_of(handle) : NULL;

    if (!queue)
        return NULL;
    if (!queue->timed) {
        *why = CO_LOSS_UNTIMED_QUEUE;
        return NULL;
    }
    co_command *c = pop();
    if (!c && !(c = grow())) {
        *why = CO_LOSS_TOO_MANY;
        return NULL;
    }
    atomic_store_explicit(&c->state, PREPARED, memory_order_relaxed);
    fill(&c->work, queue, type, session);
    return c;
}

void co_launch_begin(co_launch *launch, kineto_site *site, cl_command_queue queue, int32_t type,
                     cl_event **event)
{
    uint64_t begun = kineto_overhead_begin();
    kineto_props props = {.size = sizeof props};

    launch->lost = CO_LOSS_COUNT;
    co_command *c = prepare(queue, type, &launch->lost);
    launch->own = NULL;
    launch->command = c;
    if (c) {
        c->work.correlation_id = next_correlation();
        props.correlation_id = c->work.correlation_id;
        c->own = *event == NULL;
        if (c->own)
            *event = &launch->own;
    }
    kineto_overhead_end(begun);
    launch->range = kineto_range_begin_props(site, &props);
    if (c && wants_bracket(c->work.device))
        bracket(&c->work, co_bracket_open);
}

co_work *co_launch_end(co_launch *launch, cl_int status, cl_event *event)
{
    co_command *c = launch->command;

    if (c && c->work.bracket.used)
        bracket(&c->work, co_bracket_close);
    kineto_range_end(launch->range);
    if (!c && launch->lost != CO_LOSS_COUNT && status == CL_SUCCESS)
        lose(launch->lost);
    if (!c)
        return NULL;
    if (status != CL_SUCCESS || !*event) {
        push(c);
        return NULL;
    }
    atomic_store_explicit(&c->event, *event, memory_order_relaxed);
    return &c->work;
}

/* The command is enqueued: from here on it can complete. False: the session has gone. */
static bool submit(co_command *c, cl_event event)
{
    const KinetoPlugin_TraceBuilder *builder = co_builder_enter();
    bool accepted = builder && co_session_accepts(c->work.session);

    if (accepted) {
        co_count_requested(builder);
        if (!c->own)
            (void)co_next.clRetainEvent(event);
        atomic_store(&c->state, PENDING);
    }
    if (builder)
        co_builder_leave();
    return accepted;
}

static void launch_submit(const co_launch *launch)
{
    co_command *c = launch->command;
    cl_event event = atomic_load_explicit(&c->event, memory_order_relaxed);

    if (!submit(c, event)) {
        if (c->own)
            (void)co_next.clReleaseEvent(event);
        atomic_store_explicit(&c->event, NULL, memory_order_relaxed);
        push(c);
        return;
    }
    if (!co_next.clSetEventCallback ||
        co_next.clSetEventCallback(event, CL_COMPLETE, on_complete, c) != CL_SUCCESS)
        on_complete(event, CO_STATUS_NO_CALLBACK, c);
}

void co_launch_submit(co_launch *launch)
{
    uint64_t begun = kineto_overhead_begin();

    launch_submit(launch);
    kineto_overhead_end(begun);
}
