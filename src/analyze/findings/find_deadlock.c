/* Deadlocks: threads that wait for each other's locks in a circle until the recording ends. They are read
 * from the calls of recordings with --waits that had not ended ("finished": false), each with the thread
 * that held the lock when the wait began.
 *
 * A thread waits for at most one lock, so each thread leads to at most one other, and a circle is found
 * by following these links. */
#include "analyze/findings/find_waits.h"

#include "analyze/dataset/blocking_calls.h"

#include <inttypes.h>

#define MAX_NAMED 4u /* threads that the sentence lists */

/* A thread whose last call waits for a lock and had not ended. */
typedef struct waiter {
    int64_t thread_id, holder, start_ns, end_ns;
    kineto_row row;
    uint32_t process;
    uint32_t walk; /* number of the walk that came to it first; 0: none yet */
} waiter;

typedef struct waiters {
    KB_VEC(waiter) list; /* by (process, thread_id) */
} waiters;

/* Adds the call if it had not ended. Of calls of one thread the later one, which is within the other,
 * counts. */
static bool add_waiter(ka_finder *f, waiters *w, const ka_blocking_call *call)
{
    kineto_activity a;
    kineto_trace_get(f->s->trace, call->row, &a);
    int64_t holder = ka_blocking_call_holder(f->s->trace, call->row);
    if (!(a.flags & KINETO_ACTIVITY_OPEN_END) || a.kind != KINETO_KIND_BLOCKING_CALL || holder < 0)
        return true;
    waiter it = {call->thread_id, holder, call->start_ns, call->end_ns, call->row, call->process, 0};
    waiter *last = w->list.count ? &w->list.data[w->list.count - 1] : NULL;
    if (last && last->process == it.process && last->thread_id == it.thread_id) {
        *last = it;
        return true;
    }
    return kb_vec_push(&w->list, it);
}

static waiter *find_waiter(const waiters *w, uint32_t process, int64_t thread_id)
{
    size_t at = 0;
    KB_LOWER_BOUND(at, w->list.count,
                   w->list.data[at].process < process ||
                       (w->list.data[at].process == process &&
                        w->list.data[at].thread_id < thread_id));
    waiter *it = at < w->list.count ? &w->list.data[at] : NULL;
    return it && it->process == process && it->thread_id == thread_id ? it : NULL;
}

static waiter *follow_waiter(const waiters *w, const waiter *it)
{
    return find_waiter(w, it->process, it->holder);
}

/* The first thread of a circle that this walk closes; NULL: it ends, or comes to an earlier walk. */
static waiter *walk_to_circle(const waiters *w, waiter *from, uint32_t walk)
{
    waiter *at = from;
    while (at && !at->walk) {
        at->walk = walk;
        at = follow_waiter(w, at);
    }
    return at && at->walk == walk ? at : NULL;
}

/* "thread 7 is waiting for lock 0x40 held by thread 8; thread 8 is ..." */
static void list_circle(const ka_finder *f, const waiters *w, const waiter *first, char *text,
                        size_t size)
{
    const waiter *at = first;
    size_t used = 0;
    for (uint32_t i = 0; i < MAX_NAMED && (i == 0 || at != first); i++) {
        kb_text words = ka_blocking_call_words(f->s->trace, at->row);
        int n = snprintf(text + used, size - used, "%sthread %" PRId64 " is %s", i ? "; " : "",
                         at->thread_id, words.s);
        used = n > 0 ? KB_MIN(used + (size_t)n, size - 1) : used;
        at = follow_waiter(w, at);
    }
}

static void report_circle(ka_finder *f, const waiters *w, const waiter *first, void *context)
{
    (void)context;
    const waiter *at = first;
    int64_t since_ns = first->start_ns, until_ns = first->end_ns;
    uint32_t threads = 0;
    char text[768], subject[64];
    do {
        since_ns = KB_MAX(since_ns, at->start_ns);
        until_ns = KB_MIN(until_ns, at->end_ns);
        threads++;
        at = follow_waiter(w, at);
    } while (at != first);
    int64_t ns = kb_length_ns(since_ns, KB_MAX(since_ns, until_ns));
    snprintf(subject, sizeof subject, "thread %" PRId64, first->thread_id);
    ka_found *x = ka_open_finding(f, ns, threads == 1 ? 0.9 : 0.7, kb_string(subject));
    if (!x)
        return;
    x->count = threads;
    x->comes_first = true; /* other waits are mostly for these threads */
    x->whole_ns = KB_MAX(ns, f->whole_ns);
    ka_set_severity(x, KINETO_FINDING_HIGH);
    list_circle(f, w, first, text, sizeof text);
    ka_say(f, x, "Deadlock of %u thread%s for %s, until the recording ended: %s%s", threads,
           threads == 1 ? " with itself" : "s", kb_duration(ns).s, text,
           threads > MAX_NAMED ? "; and so on" : "");
    do {
        ka_show_row(f, x, at->row, kb_length_ns(at->start_ns, at->end_ns), "a wait that did not end");
        at = follow_waiter(w, at);
    } while (at != first);
}

/* Calls `take` with one thread of each circle. */
static void each_circle(ka_finder *f, void (*take)(ka_finder *f, const waiters *w, const waiter *first, void *context),
                        void *context)
{
    ka_blocking_calls calls;
    waiters w = {0};
    bool ok = ka_blocking_calls_make(f->s->trace, &calls);
    for (size_t i = 0; i < calls.list.count && ok; i++)
        ok = add_waiter(f, &w, &calls.list.data[i]);
    for (size_t i = 0; i < w.list.count && ok; i++) {
        const waiter *first = walk_to_circle(&w, &w.list.data[i], (uint32_t)i + 1);
        if (first)
            take(f, &w, first, context);
    }
    f->no_memory |= !ok;
    kb_vec_free(&w.list);
    ka_blocking_calls_free(&calls);
}

static void add_rows_of_circle(ka_finder *f, const waiters *w, const waiter *first, void *context)
{
    ka_wait_rows *rows = context;
    const waiter *at = first;
    do {
        f->no_memory |= !kb_vec_push(rows, at->row);
        at = follow_waiter(w, at);
    } while (at != first && !f->no_memory);
}

void ka_deadlock_waits(ka_finder *f, ka_wait_rows *rows)
{
    bool any = false;
    for (size_t i = 0; i < f->out->found.count; i++)
        any |= f->out->found.data[i].rule == KA_FIND_deadlock;
    if (any)
        each_circle(f, add_rows_of_circle, rows);
}

void ka_find_deadlock(ka_finder *f)
{
    if (!ka_has_rows_of(f->s->trace, KINETO_KIND_BLOCKING_CALL))
        ka_skip_rule(f, "the trace has no blocking calls: record with ckineto record --waits");
    each_circle(f, report_circle, NULL);
}
