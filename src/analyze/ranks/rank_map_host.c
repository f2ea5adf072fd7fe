/* Makes the rows of a rank that communicates without a device: a chain of computation on the host, cut where
 * it calls. What the host does between its waits is its work, whether it computes, loads data or sleeps.
 *
 * Rows are as on a device (rank_facts.h), but without launches: computation ends where the call begins. "Without a
 * device" in ranks.md has the definitions. */
#include "analyze/ranks/host_calls.h"

uint32_t ka_keep_host_text(ka_host_calls *h, kineto_string text)
{
    uint32_t id = kb_intern_id(&h->out->texts, text);
    h->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

uint32_t ka_keep_host_group(ka_host_calls *h, const ka_comm_group *g)
{
    bool created;
    uint64_t *at = kb_map_insert(&h->group_at, g->id, h->out->groups.count, &created);
    if (!at || (created && !kb_vec_push(&h->out->groups, (*g)))) {
        h->no_memory = true;
        return 0;
    }
    return (uint32_t)*at;
}

void ka_put_host_call(ka_host_calls *h, const ka_host_call *c) { h->no_memory |= !kb_vec_push(&h->list, (*c)); }

/* ---- what the host waited -------------------------------------------------------------------- */

typedef struct open_wait {
    uint32_t row;
    int64_t to_ns;
} open_wait;

typedef struct host_map {
    ka_host_calls calls;
    ka_spans waits;         /* of the program, united */
    size_t cursor;          /* of waits: those before the part are done */
    kb_map counts;          /* group and step → calls so far, of those without numbers */
    kb_map last_of;         /* thread → its last row */
    KB_VEC(open_wait) open; /* rows that the host waited for, and that no part has ended with yet */
} host_map;

/* The times in which the program waited, united: work is what lies between them. False: out of memory. */
static bool list_waits(host_map *m)
{
    for (size_t i = 0; i < m->calls.list.count; i++) {
        const ka_host_call *c = &m->calls.list.data[i];
        if (c->waited_from_ns < c->waited_to_ns &&
            !kb_vec_push(&m->waits, ((ka_span){c->waited_from_ns, c->waited_to_ns})))
            return false;
    }
    ka_spans_unite(&m->waits);
    return true;
}

/* Time of [start, end) that is no waiting; not before the part that `cursor` is at. */
static int64_t measure_work(const host_map *m, size_t *cursor, int64_t start_ns, int64_t end_ns)
{
    if (end_ns <= start_ns)
        return 0;
    return kb_length_ns(start_ns, end_ns) - ka_spans_within(&m->waits, start_ns, end_ns, cursor);
}

/* What ended in the part before a row is what the part waited for. The rest of the part is from the end of the
 * wait, which may be before that of what was waited for. */
static void end_host_waits(host_map *m, const ka_comm *row, uint32_t index)
{
    ka_comm *rows = m->calls.out->rows.data;
    size_t kept = 0;
    for (size_t i = 0; i < m->open.count; i++) {
        open_wait open = m->open.data[i];
        ka_comm *of = &rows[open.row];
        size_t cursor = m->cursor;
        if (open.to_ns > row->ready_ns) {
            m->open.data[kept++] = m->open.data[i];
            continue;
        }
        of->wait_row = (int32_t)index;
        of->wait_ns = measure_work(m, &cursor, open.to_ns, row->ready_ns) - kb_length_ns(open.to_ns, KB_MAX(of->end_ns, open.to_ns));
    }
    m->open.count = kept;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The number of the step that a moment is in; UINT32_MAX: it is in none. */
static uint32_t find_step_number(const ka_dataset *s, int64_t ns)
{
    uint32_t low = 0, high = s->step_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (s->steps[middle].start_ns <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low && ns < s->steps[low - 1].end_ns ? (uint32_t)KB_MIN(s->steps[low - 1].number, UINT32_MAX - 1) : UINT32_MAX;
}

/* A number by order: among calls of the same kind and size, since threads of one group may begin in another
 * order than that of issue. The number is a hash of kind, size and count: it identifies the call within
 * group and step, and has no order. */
static uint32_t count_host_call(host_map *m, const ka_host_call *c, uint32_t step)
{
    uint64_t op = ka_is_message(c->op) ? KA_OP_SEND_RECV : c->op, key[] = {c->group, step, op, c->elements};
    uint64_t *count = kb_map_insert(&m->counts, kb_hash(key, sizeof key), 0, NULL);
    m->calls.no_memory |= !count;
    uint64_t number[] = {op, c->elements, count ? (*count)++ : 0};
    return (uint32_t)(kb_hash(number, sizeof number) % KA_NO_SEQUENCE);
}

/* The row before on the thread that executes it, which it waits for; KA_NO_COMM: there is none, or no other thread. */
static int32_t follow_thread(host_map *m, uint32_t thread, uint32_t index)
{
    bool created;
    uint64_t *last = thread == KA_NONE ? NULL : kb_map_insert(&m->last_of, thread, index, &created);
    m->calls.no_memory |= thread != KA_NONE && !last;
    if (!last || created)
        return KA_NO_COMM;
    int32_t before = (int32_t)*last;
    *last = index;
    return before;
}

/* Appends a row, and ends the part before it.
 * @param waited_to_ns when the program went on after it; INT64_MIN: it did not wait. */
static void append_host_row(host_map *m, ka_comm *row, int64_t waited_to_ns)
{
    bool is_waited = waited_to_ns > INT64_MIN;
    ka_rank_facts *f = m->calls.out;
    uint32_t index = (uint32_t)f->rows.count;
    row->late_ns = KA_UNKNOWN_NUMBER;
    row->after = row->wait_row = row->sync_row = KA_NO_COMM;
    row->flags |= KA_COMM_NO_LAUNCH | (is_waited ? KA_COMM_WAITED : 0);
    end_host_waits(m, row, index);
    if (index)
        row->work_ns = measure_work(m, &m->cursor, f->rows.data[index - 1].ready_ns, row->ready_ns);
    m->calls.no_memory |= !kb_vec_push(&f->rows, (*row)) ||
                          (is_waited && !kb_vec_push(&m->open, ((open_wait){index, waited_to_ns})));
}

static void append_host_call(host_map *m, const ka_host_call *c)
{
    const ka_rank_facts *f = m->calls.out;
    uint32_t step = find_step_number(m->calls.s, c->issued_ns);
    bool is_counted = c->group != KA_NONE && c->sequence == KA_NO_SEQUENCE;
    ka_comm row = {.start_ns = KB_MAX(c->start_ns, c->issued_ns),
                   .end_ns = c->end_ns,
                   .ready_ns = c->issued_ns,
                   .host_at_ns = c->issued_ns,
                   .elements = c->elements,
                   .group = c->group,
                   .sequence = is_counted ? count_host_call(m, c, step) : c->sequence,
                   .previous = follow_thread(m, c->thread, (uint32_t)f->rows.count),
                   .step = step,
                   .op = c->op,
                   .flags = c->flags};
    append_host_row(m, &row, c->flags & KA_COMM_PART ? INT64_MIN : c->waited_to_ns);
}

/* Begin and end of the rank's work: no collectives. */
static void append_edge(host_map *m, int64_t ns, uint8_t flags)
{
    ka_comm row = {.start_ns = ns, .end_ns = ns, .ready_ns = ns, .host_at_ns = ns, .group = KA_NONE,
                   .sequence = KA_NO_SEQUENCE, .previous = KA_NO_COMM, .step = UINT32_MAX, .flags = flags};
    append_host_row(m, &row, INT64_MIN);
}

static int compare_host_calls(const void *left, const void *right)
{
    const ka_host_call *a = left, *b = right;
    if (a->issued_ns != b->issued_ns)
        return a->issued_ns < b->issued_ns ? -1 : 1;
    return (a->nth > b->nth) - (a->nth < b->nth);
}

static void sort_host_calls(ka_host_calls *h)
{
    for (size_t i = 0; i < h->list.count; i++)
        h->list.data[i].nth = (uint32_t)i;
    qsort(h->list.data, h->list.count, sizeof *h->list.data, compare_host_calls);
}

/* Without steps, from the first call to the end of the last one: how long a program takes to start and to exit is
 * not compared. */
static void append_host_rows(host_map *m)
{
    ka_rank_facts *f = m->calls.out;
    const ka_host_call *list = m->calls.list.data;
    size_t count = m->calls.list.count;
    int64_t end = INT64_MIN;
    for (uint32_t i = 0; i < m->calls.s->step_count; i++)
        end = KB_MAX(end, m->calls.s->steps[i].end_ns);
    append_edge(m, m->calls.s->step_count ? KB_MIN(f->begin_ns, list[0].issued_ns) : list[0].issued_ns, 0);
    for (size_t i = 0; i < count && !m->calls.no_memory; i++) {
        append_host_call(m, &list[i]);
        end = KB_MAX(end, list[i].end_ns);
    }
    append_edge(m, end, KA_COMM_LAST);
    f->start_ns = f->rows.data[0].start_ns;
    f->end_ns = end;
}

bool ka_map_host(const ka_dataset *s, ka_rank_facts *out)
{
    host_map m = {.calls = {.s = s, .out = out}};
    ka_list_mpi_calls(&m.calls);
    if (!m.calls.list.count)
        ka_list_gloo_calls(&m.calls);
    if (m.calls.list.count && !m.calls.no_memory) {
        out->on_host = true;
        sort_host_calls(&m.calls);
        m.calls.no_memory |= !list_waits(&m);
        append_host_rows(&m);
        m.calls.no_memory = m.calls.no_memory || !ka_measure_typical_work(&m.calls, &m.waits);
    }
    kb_vec_free(&m.calls.list);
    kb_vec_free(&m.calls.operators);
    kb_vec_free(&m.calls.apart);
    kb_map_free(&m.calls.group_at);
    kb_vec_free(&m.waits);
    kb_map_free(&m.counts);
    kb_map_free(&m.last_of);
    kb_vec_free(&m.open);
    return !m.calls.no_memory;
}
