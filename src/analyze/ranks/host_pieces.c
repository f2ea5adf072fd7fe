/* What the work of a host typically takes.
 *
 * Processes that share processors take turns, so that the work between two calls lasts longer whenever another process
 * ran. Its pieces are short: operators, and the times between them. Each is counted with what the same piece takes in
 * nearly all steps: the n-th of its name, or between two names, in its step. Where it was interrupted, it took more. What
 * a rank has to do in each step remains.
 */
#include "analyze/ranks/host_calls.h"

#define INTERRUPTED_PARTS 8u /* one of this many pieces is taken to be whole: the shortest ones */

typedef struct host_piece {
    int64_t start_ns, end_ns;
    int64_t work_ns, typical_ns; /* without what is apart */
    uint64_t key;                /* equal for the same piece of other steps */
} host_piece;

typedef struct piece_list {
    const ka_dataset *s;
    const ka_spans *apart; /* waits, and calls: no work */
    size_t apart_at; /* of them: those before are done */
    uint32_t step;   /* index of steps: those before have ended */
    kb_map counts;   /* step and names → pieces so far */
    KB_VEC(host_piece) list;
    bool no_memory;
} piece_list;

/* The time of a piece without waits and calls, ns. `at` only moves forward: pieces come in the order of time. */
static int64_t measure_piece(const ka_spans *apart, size_t *at, int64_t start_ns, int64_t end_ns)
{
    return kb_length_ns(start_ns, end_ns) - ka_spans_within(apart, start_ns, end_ns, at);
}

/* @param before  name of the operator before a time between two; KA_NONE: it is an operator. */
static void put_piece(piece_list *p, int64_t start_ns, int64_t end_ns, uint32_t before, uint32_t name)
{
    const ka_dataset *s = p->s;
    if (start_ns >= end_ns)
        return;
    while (p->step < s->step_count && s->steps[p->step].end_ns <= start_ns)
        p->step++;
    uint64_t in_step[] = {p->step, before, name};
    uint64_t *count = kb_map_insert(&p->counts, kb_hash(in_step, sizeof in_step), 0, NULL);
    uint64_t same[] = {before, name, count ? (*count)++ : 0};
    host_piece piece = {.start_ns = start_ns,
                        .end_ns = end_ns,
                        .work_ns = measure_piece(p->apart, &p->apart_at, start_ns, end_ns),
                        .key = kb_hash(same, sizeof same)};
    p->no_memory |= !count || !kb_vec_push(&p->list, piece);
}

static int compare_operators(const void *left, const void *right)
{
    const ka_host_operator *a = left, *b = right;
    return a->start_ns != b->start_ns ? KB_COMPARE(a->start_ns, b->start_ns) : KB_COMPARE(a->end_ns, b->end_ns);
}

/* Operators of several threads may overlap: what is left of a later one counts. */
static void list_pieces(piece_list *p, ka_host_calls *h, int64_t begin_ns, int64_t end_ns)
{
    int64_t at = begin_ns;
    uint32_t before = UINT32_MAX - 1;
    qsort(h->operators.data, h->operators.count, sizeof *h->operators.data, compare_operators);
    for (size_t i = 0; i < h->operators.count && !p->no_memory; i++) {
        const ka_host_operator *o = &h->operators.data[i];
        if (o->end_ns <= at || o->start_ns >= end_ns)
            continue;
        put_piece(p, at, o->start_ns, before, o->name);
        put_piece(p, KB_MAX(at, o->start_ns), KB_MIN(o->end_ns, end_ns), KA_NONE, o->name);
        at = o->end_ns;
        before = o->name;
    }
    put_piece(p, at, end_ns, before, UINT32_MAX - 1);
}

static int compare_pieces(const void *left, const void *right, void *context)
{
    const host_piece *list = context, *a = &list[*(const uint32_t *)left], *b = &list[*(const uint32_t *)right];
    return a->key != b->key ? KB_COMPARE(a->key, b->key) : KB_COMPARE(a->work_ns, b->work_ns);
}

/* Sorts the pieces of each key by their work, and sets for all of them what the shortest eighth takes: of 8 steps the
 * shortest one, of 16 the second. A piece is interrupted in some steps, but rarely in seven of eight. */
static void find_typical(piece_list *p)
{
    size_t count = p->list.count;
    host_piece *list = p->list.data;
    uint32_t *order = malloc((count + 1) * sizeof *order);
    p->no_memory |= !order;
    for (uint32_t i = 0; order && i < count; i++)
        order[i] = i;
    if (order && count)
        qsort_r(order, count, sizeof *order, compare_pieces, list);
    for (size_t i = 0, next; order && i < count; i = next) {
        for (next = i + 1; next < count && list[order[next]].key == list[order[i]].key; next++)
            ;
        for (size_t k = i; k < next; k++)
            list[order[k]].typical_ns = list[order[i + (next - i - 1) / INTERRUPTED_PARTS]].work_ns;
    }
    free(order);
}

/* A piece in which the host calls belongs to both sides, as its work does. */
static int64_t typical_within(const piece_list *p, const host_piece *piece, int64_t start_ns, int64_t end_ns)
{
    size_t at = 0;
    if (start_ns <= piece->start_ns && end_ns >= piece->end_ns)
        return piece->typical_ns;
    int64_t from = KB_MAX(start_ns, piece->start_ns), to = KB_MIN(end_ns, piece->end_ns);
    if (from >= to || !piece->work_ns)
        return 0;
    KB_LOWER_BOUND(at, p->apart->count, p->apart->data[at].end_ns <= from);
    double share = (double)measure_piece(p->apart, &at, from, to) / (double)piece->work_ns;
    return (int64_t)((double)piece->typical_ns * share);
}

/* host_ns of a row: the typical work from when the row before it was ready until it was ready itself. */
static void set_rows(const piece_list *p, ka_rank_facts *f)
{
    size_t first = 0;
    for (size_t i = 1; i < f->rows.count; i++) {
        int64_t from = f->rows.data[i - 1].ready_ns, to = f->rows.data[i].ready_ns, sum = 0;
        while (first < p->list.count && p->list.data[first].end_ns <= from)
            first++;
        for (size_t k = first; k < p->list.count && p->list.data[k].start_ns < to; k++)
            sum = ka_add_ns(sum, typical_within(p, &p->list.data[k], from, to));
        f->rows.data[i].host_ns = sum;
    }
}

bool ka_measure_typical_work(ka_host_calls *h, const ka_spans *waits)
{
    ka_rank_facts *f = h->out;
    piece_list p = {.s = h->s, .apart = &h->apart};
    if (!h->operators.count || !h->s->step_count || f->rows.count < 2)
        return true;
    for (size_t i = 0; i < waits->count; i++)
        if (!kb_vec_push(&h->apart, waits->data[i]))
            return false;
    ka_spans_unite(&h->apart);
    list_pieces(&p, h, f->rows.data[0].ready_ns, f->rows.data[f->rows.count - 1].ready_ns);
    if (!p.no_memory)
        find_typical(&p);
    if (!p.no_memory)
        set_rows(&p, f);
    kb_map_free(&p.counts);
    kb_vec_free(&p.list);
    return !p.no_memory;
}
