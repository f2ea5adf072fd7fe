/* Pairs of device events around operators, kept in one list per thread until the profiler stops.
 * Threads append to their own list without a lock; kp_fallback_finish walks all lists and may run
 * while a late operator still ends, which the atomic state of each operator decides. The lists
 * outlive their threads. */
#include "profiler/fallback.h"

#define KP_CHUNK_FIRST 32u /* operators in the first chunk of a thread, the next ones double */
#define KP_CHUNK_MAX   512u
/* Keeps sums of operators and sizes in bytes far from overflow. */
#define KP_OPS_MAX (UINT64_MAX / 64)

/* States of an operator: BUSY → BEGUN → BUSY → ENDED, with FAILED in place of either step that the
 * device refuses, and DONE from any of them. The thread of the operator makes all changes but the
 * one to DONE, which kp_fallback_finish makes; while a state is BUSY the events are still the
 * thread's. */
enum { OP_BUSY = 0, OP_BEGUN, OP_ENDED, OP_FAILED, OP_DONE };

typedef struct op {
    uint64_t id;
    void *start, *end;
    int32_t device;
    uint32_t state; /* atomic */
} op;

typedef struct op_chunk {
    /* The next one of the same thread; atomic. */
    struct op_chunk *next;
    uint32_t capacity;
    /* Atomic; raised by the list's thread after the operator is initialised. */
    uint32_t used;
    op ops[];
} op_chunk;

/* The operators of one thread. The list stays when the thread ends. */
typedef struct thread_list {
    struct thread_list *next;
    /* Address of the thread's `own`. A later thread whose `own` has the same address reuses the
     * list. */
    const void *owner;
    op_chunk *first; /* atomic */
    op_chunk *last;  /* used by the thread only */
    uint64_t begun, dropped;
} thread_list;

typedef struct timed_op {
    uint64_t id;
    int64_t elapsed_ns;
    int32_t device;
} timed_op;

struct kp_fallback {
    kineto_stubs_slot slot;
    kineto_stubs stubs;
    uint64_t generation;
    /* Operators that may still be stored; atomic. */
    uint64_t room;
    /* Operators of threads for which no list could be allocated; atomic. */
    uint64_t homeless;
    thread_list *lists; /* atomic */
    uint32_t finished;  /* atomic */
    timed_op *times;    /* sorted by id */
    size_t time_count;
    kp_fallback_counts counts;
};

/* Each fallback has a number of its own: a new one may get the address of a freed one, for which a
 * thread still caches its list. */
static uint64_t generations;
static _Thread_local struct {
    uint64_t generation;
    thread_list *list;
} own; /* the list of the fallback that this thread used last */

/* ---- while operators run --------------------------------------------------------------------- */

/* The list of the calling thread; NULL: it has none yet. */
static thread_list *find_thread_list(kp_fallback *f)
{
    thread_list *l = kb_load_acquire(&f->lists);
    while (l && l->owner != &own)
        l = l->next;
    return l;
}

/* The list of the calling thread, created at the first use and cached in `own`. NULL: out of
 * memory. Lists are pushed and never removed, so that compare-and-swap suffices. */
static KB_COLD thread_list *get_thread_list(kp_fallback *f)
{
    thread_list *l = find_thread_list(f);
    if (!l) {
        l = calloc(1, sizeof *l);
        if (!l)
            return NULL;
        l->owner = &own;
        l->next = kb_load_acquire(&f->lists);
        while (!kb_cas_acqrel(&f->lists, &l->next, l))
            ;
    }
    own.generation = f->generation;
    own.list = l;
    return l;
}

/* Reserves up to `want` operators of the budget; returns how many. */
static uint32_t reserve_ops(kp_fallback *f, uint32_t want)
{
    uint64_t room = kb_load_acquire(&f->room);
    uint32_t take;
    do
        take = (uint32_t)KB_MIN((uint64_t)want, room);
    while (take > 0 && !kb_cas_acqrel(&f->room, &room, room - take));
    return take;
}

/* Appends a chunk to the thread's list, twice the size of the last one. NULL: the budget is spent
 * or out of memory. */
static KB_COLD op_chunk *append_op_chunk(kp_fallback *f, thread_list *l)
{
    op_chunk *last = l->last;
    uint32_t want = last ? KB_MIN(last->capacity * 2, KP_CHUNK_MAX) : KP_CHUNK_FIRST;
    uint32_t capacity = reserve_ops(f, want);
    op_chunk *c = capacity > 0 ? malloc(sizeof *c + capacity * sizeof(op)) : NULL;
    if (!c) {
        (void)kb_add_relaxed(&f->room, capacity);
        return NULL;
    }
    c->next = NULL;
    c->capacity = capacity;
    c->used = 0;
    kb_store_release(last ? &last->next : &l->first, c);
    l->last = c;
    return c;
}

/* A new operator in state BUSY; NULL: no space. The release of `used` shows it to
 * kp_fallback_finish. */
static op *append_op(kp_fallback *f, thread_list *l, uint64_t id)
{
    op_chunk *c = l->last;
    if (!c || c->used == c->capacity)
        c = append_op_chunk(f, l);
    if (!c)
        return NULL;
    KB_ASSERT(c->used < c->capacity);
    op *o = &c->ops[c->used];
    *o = (op){.id = id, .device = -1, .state = OP_BUSY};
    kb_store_release(&c->used, c->used + 1);
    return o;
}

/* Leaves BUSY. False: kp_fallback_finish came first, so that the caller must release the events. */
static bool settle_op(op *o, uint32_t state)
{
    KB_ASSERT(state == OP_BEGUN || state == OP_ENDED || state == OP_FAILED);
    uint32_t was = OP_BUSY;
    return kb_cas_acqrel(&o->state, &was, state);
}

void *kp_fallback_begin(kp_fallback *f, uint64_t op_id)
{
    if (kb_load_acquire(&f->finished))
        return NULL;
    thread_list *l = own.generation == f->generation ? own.list : get_thread_list(f);
    if (!l) {
        (void)kb_add_relaxed(&f->homeless, 1);
        return NULL;
    }
    kb_store_relaxed(&l->begun, l->begun + 1);
    op *o = append_op(f, l, op_id);
    if (!o) {
        kb_store_relaxed(&l->dropped, l->dropped + 1);
        return NULL;
    }
    const kineto_stubs *d = &f->stubs;
    bool ok = d->record(d->context, &o->device, &o->start, NULL, NULL) == KINETO_OK;
    if (settle_op(o, ok ? OP_BEGUN : OP_FAILED))
        return ok ? o : NULL;
    if (ok)
        d->release_event(d->context, o->start);
    return NULL;
}

void kp_fallback_end(kp_fallback *f, void *begun)
{
    op *o = begun;
    const kineto_stubs *d = &f->stubs;
    uint32_t was = OP_BEGUN;
    if (!o || kb_load_acquire(&f->finished) || !kb_cas_acqrel(&o->state, &was, OP_BUSY))
        return;
    void *start = o->start;
    bool ok = d->record(d->context, NULL, &o->end, NULL, NULL) == KINETO_OK;
    bool settled = settle_op(o, ok ? OP_ENDED : OP_FAILED);
    if (!ok || !settled)
        d->release_event(d->context, start);
    if (ok && !settled)
        d->release_event(d->context, o->end);
}

static void *begin_timed_operator(const kineto_function_view *view, void *user)
{
    return kp_fallback_begin(user, view->id);
}
static void end_timed_operator(const kineto_function_view *view, void *context, void *user)
{
    (void)view;
    kp_fallback_end(user, context);
}

kineto_function_callback kp_fallback_callback(kp_fallback *f, uint32_t scopes)
{
    kineto_function_callback c;
    kineto_function_callback_init(&c);
    c.enter = begin_timed_operator;
    c.exit = end_timed_operator;
    c.user = f;
    c.scopes = scopes;
    c.needs_ids = true;
    return c;
}

/* ---- at the end ------------------------------------------------------------------------------ */

/* Takes the operator out of its thread's hands, counts it, reads its time and releases its events.
 * BUSY ones are left to their thread. */
static void finish_op(kp_fallback *f, op *o)
{
    const kineto_stubs *s = &f->stubs;
    uint32_t state = kb_exchange_acqrel(&o->state, OP_DONE);
    int64_t ns = -1;
    if (state == OP_FAILED) {
        f->counts.failed_record++;
        return;
    }
    if (state != OP_ENDED) {
        f->counts.unfinished++;
        if (state == OP_BEGUN)
            s->release_event(s->context, o->start);
        return;
    }
    bool known = s->elapsed_ns(s->context, o->start, o->end, &ns, NULL) == KINETO_OK && ns >= 0;
    s->release_event(s->context, o->start);
    s->release_event(s->context, o->end);
    /* `room` of finish_all_ops bounds the number of calls by the size of f->times. */
    if (known && f->times)
        f->times[f->time_count++] = (timed_op){o->id, ns, o->device};
    f->counts.timed += known;
    f->counts.failed_elapsed += !known;
}

static int compare_timed_ids(const void *a, const void *b)
{
    const timed_op *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_sorted_by_id(const timed_op *times, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (times[i].id < times[i - 1].id)
            return false;
    return true;
}

/* Operators in all lists now; more may come while this counts. */
static size_t count_used_ops(kp_fallback *f)
{
    size_t n = 0;
    for (thread_list *l = kb_load_acquire(&f->lists); l; l = l->next)
        for (op_chunk *c = kb_load_acquire(&l->first); c; c = kb_load_acquire(&c->next))
            n += kb_load_acquire(&c->used);
    return n;
}

/* Finishes at most `room` operators, the number that f->times was allocated for. */
static void finish_all_ops(kp_fallback *f, size_t room)
{
    for (thread_list *l = kb_load_acquire(&f->lists); l; l = l->next) {
        f->counts.begun += kb_load_relaxed(&l->begun);
        f->counts.dropped += kb_load_relaxed(&l->dropped);
        for (op_chunk *c = kb_load_acquire(&l->first); c; c = kb_load_acquire(&c->next)) {
            uint32_t used = kb_load_acquire(&c->used);
            for (uint32_t i = 0; i < used && room > 0; i++, room--)
                finish_op(f, &c->ops[i]);
        }
    }
    f->counts.begun += kb_load_relaxed(&f->homeless);
    f->counts.dropped += kb_load_relaxed(&f->homeless);
}

kineto_status kp_fallback_finish(kp_fallback *f, kineto_error *err)
{
    if (kb_exchange_acqrel(&f->finished, 1))
        return KINETO_OK;
    kineto_status status = KINETO_OK;
    size_t room = count_used_ops(f);
    f->times = room > 0 ? malloc(room * sizeof *f->times) : NULL;
    if (room > 0 && !f->times)
        status =
            kb_fail(err, KINETO_E_MEMORY, "%s: out of memory for the device times of %zu operators",
                    kineto_stubs_name(f->slot), room);
    /* Waits once for all events; for a device without this, elapsed_ns waits for each. */
    (void)f->stubs.synchronize(f->stubs.context, NULL);
    finish_all_ops(f, room);
    /* Ids rise within a thread, so that only several threads need sorting. */
    if (!is_sorted_by_id(f->times, f->time_count))
        qsort(f->times, f->time_count, sizeof *f->times, compare_timed_ids);
    return status;
}

bool kp_fallback_find(const kp_fallback *f, uint64_t op_id, int64_t *elapsed_ns, int32_t *device)
{
    timed_op key = {.id = op_id};
    const timed_op *t = f->time_count > 0 ? bsearch(&key, f->times, f->time_count, sizeof *f->times,
                                                    compare_timed_ids)
                                          : NULL;
    if (!t)
        return false;
    if (elapsed_ns)
        *elapsed_ns = t->elapsed_ns;
    if (device)
        *device = t->device;
    return true;
}

kp_fallback_counts kp_fallback_count(const kp_fallback *f) { return f->counts; }

/* ---- life ------------------------------------------------------------------------------------ */

kineto_status kp_fallback_open(kineto_stubs_slot slot, uint64_t max_ops, kp_fallback **out,
                               kineto_error *err)
{
    kp_fallback *f = calloc(1, sizeof *f);
    if (!f)
        return kb_fail_memory(err, "device times of operators");
    kineto_status status = kp_stubs_acquire(slot, &f->stubs, err);
    if (status != KINETO_OK) {
        free(f);
        return status;
    }
    f->slot = slot;
    f->room = KB_MIN(max_ops, KP_OPS_MAX);
    f->generation = kb_add_relaxed(&generations, 1) + 1;
    *out = f;
    return KINETO_OK;
}

void kp_fallback_close(kp_fallback *f)
{
    if (!f)
        return;
    (void)kp_fallback_finish(f, NULL);
    for (thread_list *l = f->lists, *next; l; l = next) {
        next = l->next;
        for (op_chunk *c = l->first, *later; c; c = later) {
            later = c->next;
            free(c);
        }
        free(l);
    }
    kp_stubs_release(f->slot);
    free(f->times);
    free(f);
}
