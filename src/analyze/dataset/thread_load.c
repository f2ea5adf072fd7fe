/* How many watched threads were running and how many waited for a CPU, as a step function of time. */
#include "analyze/dataset/watched_threads.h"

/* A state begins or ends. */
typedef struct load_change {
    int64_t ns;
    int8_t running, waiting, blocked;
} load_change;
typedef KB_VEC(load_change) load_changes;

static int compare_changes(const void *left, const void *right)
{
    const load_change *a = left, *b = right;
    return KB_COMPARE(a->ns, b->ns);
}

static bool add_changes(const ka_watched *w, const ka_watched_thread *t, const uint8_t *marked,
                        load_changes *out)
{
    for (uint32_t i = t->first; i < t->first + t->count; i++) {
        const ka_state *s = &w->states.data[i];
        load_change at = {.ns = s->start_ns,
                          .running = s->state == KA_STATE_RUNNING,
                          .waiting = s->state == KA_STATE_WAITING,
                          .blocked = s->state == KA_STATE_BLOCKED && marked && marked[i]};
        load_change end = {s->end_ns, (int8_t)-at.running, (int8_t)-at.waiting, (int8_t)-at.blocked};
        bool counts = at.running || at.waiting || at.blocked;
        if (counts && s->end_ns > s->start_ns && (!kb_vec_push(out, at) || !kb_vec_push(out, end)))
            return false;
    }
    return true;
}

/* Sum of the running times up to a moment after a point, which is the last one before it; saturates. */
static int64_t ran_since(const ka_load_point *p, int64_t ns)
{
    int64_t more, sum;
    if (__builtin_mul_overflow(kb_length_ns(p->ns, ns), (int64_t)p->running, &more) ||
        __builtin_add_overflow(p->ran_ns, more, &sum))
        return INT64_MAX;
    return sum;
}

/* One point for all changes of one moment. */
static bool sum_changes(const load_changes *changes, ka_load *out)
{
    ka_load_point p = {0};
    int64_t running = 0, waiting = 0, blocked = 0;
    for (size_t i = 0; i < changes->count;) {
        int64_t ns = changes->data[i].ns;
        p.ran_ns = out->points.count ? ran_since(&p, ns) : 0;
        for (; i < changes->count && changes->data[i].ns == ns; i++) {
            running += changes->data[i].running;
            waiting += changes->data[i].waiting;
            blocked += changes->data[i].blocked;
        }
        KB_ASSERT(running >= 0 && waiting >= 0 && blocked >= 0);
        p.ns = ns;
        p.running = (uint32_t)running;
        p.waiting = (uint32_t)waiting;
        p.blocked = (uint32_t)blocked;
        if (!kb_vec_push(&out->points, p))
            return false;
    }
    return true;
}

bool ka_load_make(const ka_watched *w, const uint8_t *chosen, const uint8_t *marked, ka_load *out)
{
    load_changes changes = {0};
    bool ok = true;
    *out = (ka_load){0};
    for (uint32_t i = 0; ok && i < w->threads.count; i++)
        ok = (chosen && !chosen[i]) || add_changes(w, &w->threads.data[i], marked, &changes);
    if (changes.count)
        qsort(changes.data, changes.count, sizeof *changes.data, compare_changes);
    ok = ok && sum_changes(&changes, out);
    kb_vec_free(&changes);
    return ok;
}

void ka_load_free(ka_load *load) { kb_vec_free(&load->points); }

static int64_t ran_until(const ka_load *load, int64_t ns)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, load->points.count, load->points.data[after].ns <= ns);
    return after ? ran_since(&load->points.data[after - 1], ns) : 0;
}

int64_t ka_load_ran_ns(const ka_load *load, int64_t start_ns, int64_t end_ns)
{
    return end_ns > start_ns ? ran_until(load, end_ns) - ran_until(load, start_ns) : 0;
}
