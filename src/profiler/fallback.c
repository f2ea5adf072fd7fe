/* Pairs of device events around operators, kept in lists of threads until the profiler stops. */
#include "profiler/fallback.h"

#define KP_CHUNK_FIRST 32u /* operators in the first chunk of a thread, the next ones double */
#define KP_CHUNK_MOST  512u
#define KP_OPS_MOST    (UINT64_MAX / 64)

/* A place is BUSY while the device is asked, so that who finishes leaves it alone. */
enum { OP_BUSY = 0, OP_BEGUN, OP_ENDED, OP_FAILED, OP_DONE };

typedef struct op {
    uint64_t id;
    void *start, *end;
    int32_t device;
    uint32_t state; /* atomic */
} op;

typedef struct chunk {
    struct chunk *next;      /* a later one; atomic */
    uint32_t capacity, used; /* used: atomic, written by the thread of the list */
    op ops[];
} chunk;

/* Of one thread; when it has ended the list stays. */
typedef struct list {
    struct list *next;
    const void *owner; /* where the thread has `my`; a later thread at that place goes on with it */
    chunk *first;      /* atomic */
    chunk *last;       /* the thread's own */
    uint64_t begun, dropped;
} list;

typedef struct timed {
    uint64_t id;
    int64_t elapsed_ns;
    int32_t device;
} timed;

struct kp_fallback {
    kineto_stubs_slot slot;
    kineto_stubs stubs;
    uint64_t generation;
    uint64_t room;     /* operators that there may still be; atomic */
    uint64_t homeless; /* operators of threads that got no list; atomic */
    list *lists;       /* atomic */
    uint32_t finished; /* atomic */
    timed *times;      /* by id */
    size_t time_count;
    kp_fallback_counts counts;
};

/* Numbers of stores, so that a thread does not take a new one at an old one's address for its own.
 */
static uint64_t generations;
static _Thread_local struct {
    uint64_t generation;
    list *list;
} my; /* the list of the store that was used last */

/* ---- while operators run --------------------------------------------------------------------- */

static list *list_find(kp_fallback *f)
{
    list *l = kb_load_acquire(&f->lists);
    while (l && l->owner != &my)
        l = l->next;
    return l;
}

static KB_COLD list *list_get(kp_fallback *f)
{
    list *l = list_find(f);
    if (!l) {
        l = calloc(1, sizeof *l);
        if (!l)
            return NULL;
        l->owner = &my;
        l->next = kb_load_acquire(&f->lists);
        while (!kb_cas_acqrel(&f->lists, &l->next, l))
            ;
    }
    my.generation = f->generation;
    my.list = l;
    return l;
}

/* Takes up to `want` from what there is room for. */
static uint32_t take_room(kp_fallback *f, uint32_t want)
{
    uint64_t room = kb_load_acquire(&f->room);
    uint32_t take;
    do
        take = (uint32_t)KB_MIN((uint64_t)want, room);
    while (take > 0 && !kb_cas_acqrel(&f->room, &room, room - take));
    return take;
}

static KB_COLD chunk *chunk_make(kp_fallback *f, list *l)
{
    chunk *last = l->last;
    uint32_t want = last ? KB_MIN(last->capacity * 2, KP_CHUNK_MOST) : KP_CHUNK_FIRST;
    uint32_t capacity = take_room(f, want);
    chunk *c = capacity > 0 ? malloc(sizeof *c + capacity * sizeof(op)) : NULL;
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

static op *op_make(kp_fallback *f, list *l, uint64_t id)
{
    chunk *c = l->last;
    if (!c || c->used == c->capacity)
        c = chunk_make(f, l);
    if (!c)
        return NULL;
    op *o = &c->ops[c->used];
    *o = (op){.id = id, .device = -1, .state = OP_BUSY};
    kb_store_release(&c->used, c->used + 1);
    return o;
}

/* False: all was finished while the device was asked; its event is ours to give back. */
static bool op_settle(op *o, uint32_t state)
{
    uint32_t was = OP_BUSY;
    return kb_cas_acqrel(&o->state, &was, state);
}

void *kp_fallback_begin(kp_fallback *f, uint64_t op_id)
{
    if (kb_load_acquire(&f->finished))
        return NULL;
    list *l = my.generation == f->generation ? my.list : list_get(f);
    if (!l) {
        (void)kb_add_relaxed(&f->homeless, 1);
        return NULL;
    }
    kb_store_relaxed(&l->begun, l->begun + 1);
    op *o = op_make(f, l, op_id);
    if (!o) {
        kb_store_relaxed(&l->dropped, l->dropped + 1);
        return NULL;
    }
    const kineto_stubs *d = &f->stubs;
    bool ok = d->record(d->context, &o->device, &o->start, NULL, NULL) == KINETO_OK;
    if (op_settle(o, ok ? OP_BEGUN : OP_FAILED))
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
    bool settled = op_settle(o, ok ? OP_ENDED : OP_FAILED);
    if (!ok || !settled)
        d->release_event(d->context, start);
    if (ok && !settled)
        d->release_event(d->context, o->end);
}

static void *enter(const kineto_function_view *view, void *user)
{
    return kp_fallback_begin(user, view->id);
}
static void leave(const kineto_function_view *view, void *context, void *user)
{
    (void)view;
    kp_fallback_end(user, context);
}

kineto_function_callback kp_fallback_callback(kp_fallback *f, uint32_t scopes)
{
    kineto_function_callback c = KINETO_FUNCTION_CALLBACK_INIT;
    c.enter = enter;
    c.exit = leave;
    c.user = f;
    c.scopes = scopes;
    c.needs_ids = true;
    return c;
}

/* ---- at the end ------------------------------------------------------------------------------ */

static void op_finish(kp_fallback *f, op *o)
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
    if (known && f->times)
        f->times[f->time_count++] = (timed){o->id, ns, o->device};
    f->counts.timed += known;
    f->counts.failed_elapsed += !known;
}

static int by_id(const void *a, const void *b)
{
    const timed *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool is_sorted(const timed *times, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (times[i].id < times[i - 1].id)
            return false;
    return true;
}

static size_t ops_used(kp_fallback *f)
{
    size_t n = 0;
    for (list *l = kb_load_acquire(&f->lists); l; l = l->next)
        for (chunk *c = kb_load_acquire(&l->first); c; c = kb_load_acquire(&c->next))
            n += kb_load_acquire(&c->used);
    return n;
}

static void finish_all(kp_fallback *f, size_t room)
{
    for (list *l = kb_load_acquire(&f->lists); l; l = l->next) {
        f->counts.begun += kb_load_relaxed(&l->begun);
        f->counts.dropped += kb_load_relaxed(&l->dropped);
        for (chunk *c = kb_load_acquire(&l->first); c; c = kb_load_acquire(&c->next)) {
            uint32_t used = kb_load_acquire(&c->used);
            for (uint32_t i = 0; i < used && room > 0; i++, room--)
                op_finish(f, &c->ops[i]);
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
    size_t room = ops_used(f);
    f->times = room > 0 ? malloc(room * sizeof *f->times) : NULL;
    if (room > 0 && !f->times)
        status =
            kb_fail(err, KINETO_E_MEMORY, "%s: no memory for the device times of %zu operators",
                    kineto_stubs_name(f->slot), room);
    /* What a device without this cannot do, elapsed_ns does one by one. */
    (void)f->stubs.synchronize(f->stubs.context, NULL);
    finish_all(f, room);
    if (!is_sorted(f->times, f->time_count)) /* several threads */
        qsort(f->times, f->time_count, sizeof *f->times, by_id);
    return status;
}

bool kp_fallback_find(const kp_fallback *f, uint64_t op_id, int64_t *elapsed_ns, int32_t *device)
{
    timed key = {.id = op_id};
    const timed *t =
        f->time_count > 0 ? bsearch(&key, f->times, f->time_count, sizeof *f->times, by_id) : NULL;
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
        return kb_fail(err, KINETO_E_MEMORY, "no memory for the device times of operators");
    kineto_status status = kp_stubs_hold(slot, &f->stubs, err);
    if (status != KINETO_OK) {
        free(f);
        return status;
    }
    f->slot = slot;
    f->room = KB_MIN(max_ops, KP_OPS_MOST);
    f->generation = kb_add_relaxed(&generations, 1) + 1;
    *out = f;
    return KINETO_OK;
}

void kp_fallback_close(kp_fallback *f)
{
    if (!f)
        return;
    (void)kp_fallback_finish(f, NULL);
    for (list *l = f->lists, *next; l; l = next) {
        next = l->next;
        for (chunk *c = l->first, *later; c; c = later) {
            later = c->next;
            free(c);
        }
        free(l);
    }
    kp_stubs_drop(f->slot);
    free(f->times);
    free(f);
}
