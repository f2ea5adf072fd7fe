/* The tables distributed_*: communication of ranks, how much of it overlaps with computation, and
 * how much of it is waiting for other ranks.
 *
 * The n-th collective of a name in a step is the same one on all ranks. It cannot transfer longer
 * than the rank needed that came last: what others needed more, they waited. */
#include "analyze/facts/analyses.h"

/* ---- one rank -------------------------------------------------------------------------------- */

/* Rows of one team of processes: time of each step that only computes, that computes and
 * communicates, that only communicates, and the rest. Without kernels, operators on the CPU
 * count as computation; with neither, all that is not in a call of MPI. */
static kineto_status put_overlap(const ka_attribution *v, size_t team, ka_table *t,
                                 kineto_error *err)
{
    const ka_spans *roles = ka_team_roles(v, team);
    const ka_spans *work = &roles[roles[KA_ROLE_KERNEL].count ? KA_ROLE_KERNEL : KA_ROLE_CPU];
    const ka_spans *talk = &roles[KA_ROLE_COMMUNICATION];
    ka_spans both = {0};
    size_t cursors[4] = {0};
    bool plain = !work->count;
    if (!ka_spans_both(work, talk, &both))
        return kb_fail_memory(err, NULL);
    for (size_t i = 0; i < v->windows.count; i++) {
        const ka_window *w = &v->windows.data[i];
        if (!ka_in_team(v, team, w))
            continue;
        kb_text name = ka_window_name(v, w);
        int64_t together = ka_spans_within(&both, w->start_ns, w->end_ns, &cursors[0]),
                working = ka_spans_within(work, w->start_ns, w->end_ns, &cursors[1]) - together,
                talking = ka_spans_within(talk, w->start_ns, w->end_ns, &cursors[2]) - together;
        if (plain)
            working = kb_length_ns(w->start_ns, w->end_ns) - talking -
                      ka_spans_within(&roles[KA_ROLE_RUNTIME], w->start_ns, w->end_ns, &cursors[3]);
        ka_put_int(t, v->dataset->rank);
        ka_put_text(t, kb_string(name.s));
        ka_put_ns(t, working);
        ka_put_ns(t, together);
        ka_put_ns(t, talking);
        int64_t left = ka_add_ns(kb_length_ns(w->start_ns, w->end_ns), -working);
        ka_put_ns(t, ka_add_ns(ka_add_ns(left, -together), -talking));
    }
    kb_vec_free(&both);
    return KINETO_OK;
}

/* "MPI_Allreduce (ranks 0-3)": what only some ranks do has another name than what all do. */
static kb_text name_with_group(kineto_string name, kineto_string group)
{
    kb_text text;
    kb_snprintf(text.s, sizeof text.s, group.size ? "%.*s (%.*s)" : "%.*s", (int)name.size,
                name.data, (int)group.size, group.data);
    return text;
}

/* One row per collective with its number among those of its name and step (or, by order, among
 * all of the rank). Parts of one collective share its number. */
static bool put_marks(const ka_attribution *v, ka_table *t)
{
    kb_map counts = {0};
    bool ok = true;
    for (size_t i = 0; i < v->communication.count && ok; i++) {
        const ka_communication *c = &v->communication.data[i];
        if (c->window == KA_NONE)
            continue;
        uint64_t seed = v->dataset->definitions->collectives_by_order
                            ? 0
                            : kb_hash_seeded(kb_hash_seeded(c->window, c->name.data, c->name.size),
                                             c->group.data, c->group.size);
        uint64_t *number = kb_map_insert(&counts, seed, 0, NULL);
        kb_text step = ka_window_name(v, &v->windows.data[c->window]);
        ok = number != NULL;
        ka_put_int(t, v->dataset->rank);
        ka_put_text(t, kb_string(step.s));
        if (ok && !c->part)
            ++*number;
        ka_put_int(t, ok ? (int64_t)*number : 0);
        ka_put_int(t, c->part);
        ka_put_text(t, kb_string(name_with_group(c->name, c->group).s));
        ka_put_ns(t, c->start_ns);
        ka_put_ns(t, c->end_ns);
        ka_put_int(t, c->bytes);
        ka_put_int(t, c->ranks);
    }
    kb_map_free(&counts);
    return ok;
}

/* Tables distributed_overlap and distributed_marks; the marks are the input of the reductions. */
kineto_status ka_analyze_distributed(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *overlap = ka_table_of(a, KA_TABLE_distributed_overlap),
             *marks = ka_table_of(a, KA_TABLE_distributed_marks);
    ka_attribution v;
    uint32_t parts =
        (overlap ? KA_ATTRIBUTION_ROLES : 0) | (marks ? KA_ATTRIBUTION_COMMUNICATION : 0);
    kineto_status status = ka_attribution_get(s, parts, &v, err);
    bool talks = v.roles[KA_ROLE_COMMUNICATION].count != 0;
    for (size_t team = 0; overlap && talks && !status && team < ka_team_count(&v); team++)
        status = put_overlap(&v, team, overlap, err);
    if (!status && overlap && !talks)
        ka_note(overlap, "no communication in the trace");
    if (!status && marks && !put_marks(&v, marks))
        status = kb_fail_memory(err, NULL);
    return status;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* A row of distributed_marks; step and name are ids in the table's texts. */
typedef struct mark {
    int64_t rank, step, name, part, start_ns, end_ns, bytes;
    int64_t least_ns; /* of all ranks */
    bool matched;     /* all ranks have it */
} mark;

/* All marks of a table with what the comparison of ranks adds to them. `ranks` is how many
 * ranks have marks, `unmatched` how many marks not all of these have. */
typedef struct marks {
    KB_VEC(mark) list; /* by (rank, step, start) */
    const ka_table *from;
    uint64_t ranks, unmatched;
} marks;

/* One collective over all ranks. Rows of a rank are together in the table, so that last_rank
 * is enough to count ranks. */
typedef struct same {
    uint64_t ranks;
    int64_t least_ns, last_rank;
} same;

static int compare_marks(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->end_ns > b->end_ns) - (a->end_ns < b->end_ns);
}

/* Identifies a collective over all ranks: by step, name and number or, under definitions that
 * match by order, by number alone. */
static uint64_t mark_key(const kineto_analysis *a, const ka_table *t, uint64_t row)
{
    int64_t key[] = {ka_cell_at(t, row, KA_COL_distributed_marks_index).i,
                     ka_cell_at(t, row, KA_COL_distributed_marks_part).i, 0, 0};
    if (!ka_definitions_of(a->definitions)->collectives_by_order) {
        key[2] = ka_cell_at(t, row, KA_COL_distributed_marks_step).i;
        key[3] = ka_cell_at(t, row, KA_COL_distributed_marks_name).i;
    }
    return kb_hash(key, sizeof key);
}

static uint64_t ranks_of(const ka_table *t)
{
    kb_map ranks = {0};
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        (void)kb_map_insert(
            &ranks, (uint64_t)ka_cell_at(t, row, KA_COL_distributed_marks_rank).i, 1, NULL);
    uint64_t count = ranks.count;
    kb_map_free(&ranks);
    return count;
}

/* Finds the marks of each collective, and its shortest duration. `numbers` receives an index
 * of the result by mark_key. The caller frees the result. NULL: out of memory. */
static same *match_marks(const kineto_analysis *a, const ka_table *t, kb_map *numbers)
{
    uint64_t rows = ka_table_rows(t);
    same *of = calloc((size_t)rows + 1, sizeof *of);
    for (uint64_t row = 0; of && row < rows; row++) {
        uint64_t *at = kb_map_insert(numbers, mark_key(a, t, row), numbers->count, NULL);
        int64_t ns = kb_length_ns(ka_cell_at(t, row, KA_COL_distributed_marks_start_us).i,
                                  ka_cell_at(t, row, KA_COL_distributed_marks_end_us).i),
                rank = ka_cell_at(t, row, KA_COL_distributed_marks_rank).i;
        if (!at) {
            free(of);
            return NULL;
        }
        same *s = &of[*at];
        s->least_ns = s->ranks ? KB_MIN(s->least_ns, ns) : ns;
        s->ranks += !s->ranks || s->last_rank != rank;
        s->last_rank = rank;
    }
    return of;
}

/* Fills `m`, sorted by rank, step and start. False: out of memory. */
static bool marks_of(const kineto_analysis *a, marks *m)
{
    const ka_table *t = m->from = &a->tables[KA_TABLE_distributed_marks];
    kb_map numbers = {0};
    same *of = match_marks(a, t, &numbers);
    bool ok = of != NULL;
    m->ranks = ranks_of(t);
    for (uint64_t row = 0; row < ka_table_rows(t) && ok; row++) {
        const same *s = &of[*kb_map_find(&numbers, mark_key(a, t, row))];
        mark one = {.rank = ka_cell_at(t, row, KA_COL_distributed_marks_rank).i,
                    .step = ka_cell_at(t, row, KA_COL_distributed_marks_step).i,
                    .name = ka_cell_at(t, row, KA_COL_distributed_marks_name).i,
                    .part = ka_cell_at(t, row, KA_COL_distributed_marks_part).i,
                    .start_ns = ka_cell_at(t, row, KA_COL_distributed_marks_start_us).i,
                    .end_ns = ka_cell_at(t, row, KA_COL_distributed_marks_end_us).i,
                    .bytes = ka_cell_at(t, row, KA_COL_distributed_marks_bytes).i,
                    .least_ns = s->least_ns};
        int64_t expected = ka_cell_at(t, row, KA_COL_distributed_marks_ranks).i;
        one.matched = s->ranks == (expected ? (uint64_t)expected : m->ranks) && m->ranks > 1;
        m->unmatched += !one.matched;
        ok = kb_vec_push(&m->list, one);
    }
    if (m->list.count)
        qsort(m->list.data, m->list.count, sizeof *m->list.data, compare_marks);
    free(of);
    kb_map_free(&numbers);
    return ok;
}

static void note_lost_marks(const marks *m, ka_table *t)
{
    if (!m->list.count)
        ka_note(t, "no communication in the traces");
    else if (m->ranks < 2)
        ka_note(t, "waiting can only be seen with the traces of several ranks");
    else if (m->unmatched)
        ka_note(t, "%llu of %llu collectives are not in the traces of all ranks: left out",
                (unsigned long long)m->unmatched, (unsigned long long)m->list.count);
}

/* The row of one step of a rank, whose collectives are in `all` (whole) and `real` (transfers,
 * at their ends); both are empty afterwards. */
static void put_wait(const marks *m, const mark *first, ka_spans *all, ka_spans *real, ka_table *t)
{
    ka_spans_unite(all);
    ka_spans_unite(real);
    int64_t transfer = ka_spans_ns(real);
    ka_put_int(t, first->rank);
    ka_put_text(t, kb_intern_get(&m->from->texts, (uint32_t)first->step));
    ka_put_ns(t, ka_add_ns(ka_spans_ns(all), -transfer));
    ka_put_ns(t, transfer);
    all->count = real->count = 0;
}

void ka_reduce_distributed_wait(kineto_analysis *a)
{
    ka_table *t = &a->tables[KA_TABLE_distributed_wait];
    marks m = {0};
    ka_spans all = {0}, real = {0};
    const mark *first = NULL;
    t->cells.count = 0;
    t->note[0] = '\0';
    t->no_memory |= !marks_of(a, &m);
    note_lost_marks(&m, t);
    ka_note_ranks(a, m.from, t);
    for (size_t i = 0; i < m.list.count; i++) {
        const mark *k = &m.list.data[i];
        if (!k->matched)
            continue;
        if (first && (first->rank != k->rank || first->step != k->step))
            put_wait(&m, first, &all, &real, t);
        first = k;
        t->no_memory |=
            !kb_vec_push(&all, (ka_span){k->start_ns, k->end_ns}) ||
            !kb_vec_push(&real, (ka_span){ka_add_ns(k->end_ns, -k->least_ns), k->end_ns});
    }
    if (first)
        put_wait(&m, first, &all, &real, t);
    kb_vec_free(&all);
    kb_vec_free(&real);
    kb_vec_free(&m.list);
}

/* ---- operators of all ranks ------------------------------------------------------------------ */

/* Collectives of one name on one rank, over all steps. */
typedef struct total {
    int64_t rank, name, calls, bytes, latency_ns, transfer_ns;
    ka_spans all, real; /* whole durations, and the transfers at their ends */
    bool matched;
} total;
typedef KB_VEC(total) total_list;

/* `at` maps (rank, name) to an index of `totals`. False: out of memory. */
static bool add_mark(total_list *totals, kb_map *at, const mark *k)
{
    int64_t key[] = {k->rank, k->name};
    total fresh = {.rank = k->rank, .name = k->name, .matched = true};
    bool created;
    uint64_t *number = kb_map_insert(at, kb_hash(key, sizeof key), totals->count, &created);
    if (!number || (created && !kb_vec_push(totals, fresh)))
        return false;
    total *t = &totals->data[*number];
    ka_span real = {ka_add_ns(k->end_ns, -k->least_ns), k->end_ns};
    t->calls += !k->part;
    t->bytes = ka_add_ns(t->bytes, k->bytes);
    t->latency_ns = ka_add_ns(t->latency_ns, kb_length_ns(k->start_ns, k->end_ns));
    t->transfer_ns = ka_add_ns(t->transfer_ns, k->least_ns);
    t->matched &= k->matched;
    return kb_vec_push(&t->all, ((ka_span){k->start_ns, k->end_ns})) && kb_vec_push(&t->real, real);
}

/* Replaces the sums of durations by the length of their union: overlapping collectives count
 * once. */
static void count_moments(total *t)
{
    ka_spans_unite(&t->all);
    ka_spans_unite(&t->real);
    t->latency_ns = ka_spans_ns(&t->all);
    t->transfer_ns = ka_spans_ns(&t->real);
}

static void free_totals(total_list *totals)
{
    for (size_t i = 0; i < totals->count; i++) {
        kb_vec_free(&totals->data[i].all);
        kb_vec_free(&totals->data[i].real);
    }
    kb_vec_free(totals);
}

/* Transfer is only shown if all marks of the row were matched with those of the other ranks. */
static void put_total(const marks *m, const total *k, ka_table *t)
{
    double calls = (double)k->calls;
    ka_put_int(t, k->rank);
    ka_put_text(t, kb_intern_get(&m->from->texts, (uint32_t)k->name));
    ka_put_int(t, k->calls);
    ka_put_int(t, k->bytes);
    ka_put_number(t, (double)k->bytes / calls);
    ka_put_ns(t, k->latency_ns);
    ka_put_number(t, ka_us(k->latency_ns) / calls);
    if (k->matched) {
        ka_put_ns(t, k->transfer_ns);
        ka_put_number(t, ka_us(k->transfer_ns) / calls);
    } else {
        ka_put_none(t);
        ka_put_none(t);
    }
}

void ka_reduce_distributed_operators(kineto_analysis *a)
{
    ka_table *t = &a->tables[KA_TABLE_distributed_operators];
    marks m = {0};
    total_list totals = {0};
    kb_map at = {0};
    t->cells.count = 0;
    t->note[0] = '\0';
    t->no_memory |= !marks_of(a, &m);
    for (size_t i = 0; i < m.list.count; i++)
        t->no_memory |= !add_mark(&totals, &at, &m.list.data[i]);
    for (size_t i = 0; i < totals.count && !t->no_memory; i++) {
        if (ka_definitions_of(a->definitions)->unite_collectives)
            count_moments(&totals.data[i]);
        put_total(&m, &totals.data[i], t);
    }
    if (!m.list.count)
        ka_note(t, "no communication in the traces");
    else if (m.unmatched)
        ka_note(t, "transfer is only known of what the traces of all ranks have");
    ka_note_ranks(a, m.from, t);
    KA_SORT(t, KA_UP(distributed_operators, rank), KA_UP(distributed_operators, name));
    kb_map_free(&at);
    free_totals(&totals);
    kb_vec_free(&m.list);
}
