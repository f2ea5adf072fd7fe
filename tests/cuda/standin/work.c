/* Simulated work: each stream does one thing after the other; what is complete becomes a record. */
#include "standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Guarded by si_lock. */
static si_work *queued;
static uint32_t shuffle_state;

/* ---- time as records have it ---------------------------------------------------------------- */

typedef struct pair {
    uint64_t ns, ticks;
} pair;
static _Atomic(void *) callback; /* a uint64_t (*)(void) */
static pair first_pair;          /* of the callback; guarded by si_lock */

/* The callback's clock against ours: the closest of a few readings. */
static pair read_pair(uint64_t (*now)(void))
{
    pair best = {0, 0};
    uint64_t closest = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = si_now_ns(), ticks = now(), after = si_now_ns();
        if (after - before < closest) {
            closest = after - before;
            best = (pair){before + (after - before) / 2, ticks};
        }
    }
    return best;
}

void si_stamp_callback(uint64_t (*now)(void))
{
    pair p = now ? read_pair(now) : (pair){0, 0};
    pthread_mutex_lock(&si_lock);
    first_pair = p;
    pthread_mutex_unlock(&si_lock);
    callback = (void *)(uintptr_t)now;
}

static uint64_t own_minus_monotonic(void)
{
    static _Atomic uint64_t offset; /* one for ever: CUPTI's clock is not set back */
    struct timespec t;
    if (offset)
        return offset;
    uint64_t expected = 0;
    clock_gettime((clockid_t)si_plan.options.own_clock, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec - si_now_ns();
    atomic_compare_exchange_strong(&offset, &expected, now);
    return offset;
}

si_clock si_clock_read(void)
{
    si_clock c = {.now = (uint64_t(*)(void))(uintptr_t)callback};
    if (!c.now)
        return c;
    pair last = read_pair(c.now);
    c.last_ns = last.ns;
    c.last = last.ticks;
    pthread_mutex_lock(&si_lock);
    c.first_ns = first_pair.ns;
    c.first = first_pair.ticks;
    pthread_mutex_unlock(&si_lock);
    return c;
}

uint64_t si_stamp(const si_clock *c, uint64_t ns)
{
    if (!c->now)
        return ns + own_minus_monotonic() + si_plan.options.skew_ns;
    if (c->last_ns <= c->first_ns)
        return c->last;
    long double rate = (long double)(c->last - c->first) / (long double)(c->last_ns - c->first_ns);
    return (uint64_t)((long double)c->last + ((long double)ns - (long double)c->last_ns) * rate);
}

uint64_t si_stamp_now(void)
{
    si_clock c = {.now = (uint64_t(*)(void))(uintptr_t)callback};
    return c.now ? c.now() : si_stamp(&c, si_now_ns());
}

void si_work_wait_ns(uint64_t end_ns)
{
    uint64_t now;
    while ((now = si_now_ns()) < end_ns) {
        uint64_t left = end_ns - now;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
        nanosleep(&t, NULL);
    }
}

/* ---- queueing ------------------------------------------------------------------------------- */

static uint64_t duration(const si_work *w)
{
    if (w->duration_ns)
        return w->duration_ns;
    return w->what == SI_WORK_KERNEL  ? si_plan.options.kernel_ns
           : w->what == SI_WORK_EVENT ? 1
                                      : si_plan.options.copy_ns;
}

static uint32_t kind_of(int what)
{
    switch (what) {
    case SI_WORK_COPY:
        return 1;
    case SI_WORK_SET:
        return 2;
    case SI_WORK_PEER_COPY:
        return 22;
    case SI_WORK_EVENT:
        return 36;
    case SI_WORK_GRAPH:
        return 51;
    default:
        return si_kind_on(10) ? 10 : 3;
    }
}

/* With si_lock: places the work on its stream's timeline. */
static void place(si_stream *s, si_work *w, uint32_t correlation)
{
    uint64_t soonest = si_now_ns() + si_plan.options.latency_ns;
    w->start_ns = s->busy_ns > soonest ? s->busy_ns : soonest;
    w->end_ns = w->start_ns + duration(w);
    s->busy_ns = w->end_ns;
    w->device = (uint32_t)s->context->device;
    w->context = s->context->id;
    w->stream = s->id;
    w->correlation = correlation;
    w->kind = kind_of(w->what);
}

static void capture(si_stream *s, const si_work *work)
{
    si_graph *g = s->capture;
    if (g->count == SI_COUNT(g->nodes))
        return;
    g->nodes[g->count] = *work;
    g->nodes[g->count].graph_id = g->id;
    g->nodes[g->count].node_id = ((uint64_t)g->id << 32) | g->count;
    g->count++;
}

void si_work_add(si_stream *stream, const si_work *work, uint32_t correlation)
{
    si_work *w = malloc(sizeof *w);
    if (!w)
        abort();
    *w = *work;
    pthread_mutex_lock(&si_lock);
    if (stream->capture) {
        capture(stream, work);
        free(w);
    } else {
        place(stream, w, correlation);
        if (si_kind_on(w->kind)) {
            w->next = queued;
            queued = w;
        } else {
            free(w);
        }
    }
    pthread_mutex_unlock(&si_lock);
}

/* One record of the whole where the tool wants these, else one of each node. */
bool si_graph_begin(si_stream *s)
{
    si_graph *g = calloc(1, sizeof *g);
    if (!g)
        return false;
    g->id = si_number();
    pthread_mutex_lock(&si_lock);
    s->capture = g;
    pthread_mutex_unlock(&si_lock);
    return true;
}

si_graph *si_graph_end(si_stream *s)
{
    pthread_mutex_lock(&si_lock);
    si_graph *g = s->capture;
    s->capture = NULL;
    pthread_mutex_unlock(&si_lock);
    return g;
}

si_graph *si_graph_instantiate(const si_graph *g)
{
    si_graph *instance = malloc(sizeof *instance);
    if (instance)
        memcpy(instance, g, sizeof *instance);
    return instance;
}

void si_graph_launch(const si_graph *g, si_stream *s, uint32_t correlation)
{
    if (!si_kind_on(51)) {
        for (size_t i = 0; i < g->count; i++)
            si_work_add(s, &g->nodes[i], correlation);
        return;
    }
    si_work whole = {.what = SI_WORK_GRAPH, .graph_id = g->id, .duration_ns = 1};
    for (size_t i = 0; i < g->count; i++)
        whole.duration_ns += duration(&g->nodes[i]);
    si_work_add(s, &whole, correlation);
}

uint64_t si_work_next_ns(void)
{
    uint64_t next = UINT64_MAX;
    pthread_mutex_lock(&si_lock);
    for (const si_work *w = queued; w; w = w->next)
        next = w->end_ns < next ? w->end_ns : next;
    pthread_mutex_unlock(&si_lock);
    return next;
}

/* ---- work → records ------------------------------------------------------------------------- */

typedef struct target {
    uint8_t bytes[SI_MAX_RECORD];
    const si_layout *layout;
} target;

static void set(target *t, const char *field, uint64_t value)
{
    si_set(t->bytes, t->layout, field, value);
}

static void set_kernel(target *t, const si_work *w)
{
    static const char *const grid[] = {"gridX", "gridY", "gridZ"}, *const block[] = {"blockX",
                                                                                     "blockY",
                                                                                     "blockZ"};
    for (int i = 0; i < 3; i++) {
        set(t, grid[i], w->grid[i]);
        set(t, block[i], w->block[i]);
    }
    set(t, "name", (uint64_t)(uintptr_t)w->name);
    set(t, "registersPerThread", 32);
    set(t, "dynamicSharedMemory", w->shared_bytes);
    set(t, "channelID", 8);
    set(t, "channelType", 1);
}

static void set_copy(target *t, const si_work *w)
{
    set(t, "bytes", w->bytes);
    set(t, "copyKind", w->copy_kind);
    set(t, "srcKind", w->from_kind);
    set(t, "dstKind", w->to_kind);
    set(t, "value", w->value);
    set(t, "memoryKind", w->to_kind);
    if (w->peer) {
        set(t, "srcDeviceId", w->device);
        set(t, "srcContextId", w->context);
        set(t, "dstDeviceId", (uint64_t)w->peer->device);
        set(t, "dstContextId", w->peer->id);
    }
}

static void write_work(const si_work *w, const si_clock *clock)
{
    target t = {.layout = si_layout_for(w->kind, si_plan.options.version)};
    if (!t.layout)
        return;
    set(&t, "kind", w->kind);
    set(&t, "start", si_stamp(clock, w->start_ns));
    set(&t, "end", si_stamp(clock, w->end_ns));
    set(&t, "deviceId", w->device);
    set(&t, "contextId", w->context);
    set(&t, "streamId", w->stream);
    set(&t, "correlationId", w->correlation);
    set(&t, "graphId", w->graph_id);
    set(&t, "graphNodeId", w->node_id);
    set(&t, "endDeviceId", w->device);
    set(&t, "endContextId", w->context);
    set(&t, "eventId", w->event_id);
    set(&t, "deviceTimestamp", si_stamp(clock, w->end_ns));
    if (w->what == SI_WORK_KERNEL)
        set_kernel(&t, w);
    else if (w->what != SI_WORK_EVENT && w->what != SI_WORK_GRAPH)
        set_copy(&t, w);
    si_write(t.bytes, t.layout->size, false);
}

/* With si_lock: complete work, out of the queue; earliest first. */
static si_work *take_complete(uint64_t now)
{
    si_work *list = NULL;
    for (si_work **at = &queued; *at;) {
        si_work *w = *at;
        if (w->end_ns > now) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        si_work **to = &list;
        while (*to && (*to)->end_ns < w->end_ns)
            to = &(*to)->next;
        w->next = *to;
        *to = w;
    }
    return list;
}

/* One of the list: the first, or any if the script wants them shuffled. */
static si_work *pick(si_work **list)
{
    uint32_t skip = 0;
    if (si_plan.options.shuffle_seed) {
        if (!shuffle_state)
            shuffle_state = si_plan.options.shuffle_seed;
        shuffle_state = shuffle_state * 1664525 + 1013904223;
        skip = shuffle_state >> 28;
    }
    for (; skip && (*list)->next; skip--)
        list = &(*list)->next;
    si_work *w = *list;
    *list = w->next;
    return w;
}

void si_work_collect(void)
{
    /* One at a time: a flush has to find what the thread is just writing. */
    static pthread_mutex_t collecting = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&collecting);
    uint64_t now = si_now_ns();
    pthread_mutex_lock(&si_lock);
    si_work *list = take_complete(now);
    pthread_mutex_unlock(&si_lock);
    si_clock clock = list ? si_clock_read() : (si_clock){0};
    while (list) {
        si_work *w = pick(&list);
        write_work(w, &clock);
        free(w);
    }
    pthread_mutex_unlock(&collecting);
}
