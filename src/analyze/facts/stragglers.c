/* Ranks that others wait for. Each rank notes its collectives; the reduction compares them.
 *
 * Exact: a collective takes each rank from when it comes to when all are done. Who came last took
 * the shortest; what the others took more was waiting for it. Only durations are compared, so that
 * clocks of different hosts need not agree. A rank's score is its share of all the waiting.
 * Other definitions score by their own rule (score_stragglers). */
#include "analyze/facts/analyses.h"

/* ---- one rank -------------------------------------------------------------------------------- */

/* Does this work count as a collective? By the definitions' own rule if they have one. */
static bool is_marked(const ka_dataset *s, const ka_work *w)
{
    if (s->definitions->is_straggler_mark)
        return s->definitions->is_straggler_mark(s, w);
    return w->type == KA_TYPE_COMMUNICATION && w->kind == KINETO_KIND_CONCURRENT_KERNEL;
}

static double mean_step_us(const ka_dataset *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->step_count; i++)
        sum += ka_us(kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
    return s->step_count ? sum / s->step_count : 0;
}

/* Collectives of MPI, on threads. */
static void put_mpi_marks(const ka_dataset *s, ka_table *t, double step_us)
{
    for (uint32_t i = 0; i < s->slice_count && !s->definitions->is_straggler_mark; i++) {
        const ka_slice *slice = &s->slices[i];
        if (slice->kind != KINETO_KIND_COLLECTIVE_COMM || !ka_is_mpi_collective(s, i))
            continue;
        kb_text name;
        kineto_string function = ka_name(s, slice->name), group = ka_mpi_group(s, i);
        kb_snprintf(name.s, sizeof name.s, "%.*s %.*s", (int)function.size, function.data,
                    (int)group.size, group.data);
        ka_put_int(t, s->rank);
        ka_put_int(t, -1);
        ka_put_int(t,
                   slice->step < 0 ? -1 : (int64_t)KB_MIN(s->steps[slice->step].number, INT64_MAX));
        ka_put_text(t, kb_string(name.s));
        ka_put_ns(t, slice->start_ns);
        ka_put_ns(t, ka_slice_ns(slice));
        ka_put_number(t, step_us);
    }
}

/* With its process group: what other groups call is another collective. */
static void put_name(const ka_dataset *s, const ka_work *w, ka_table *t)
{
    kb_text name;
    int64_t ranks;
    kineto_string kernel = ka_name(s, w->name), group = {"", 0};
    if (!s->definitions->is_straggler_mark)
        group = ka_device_group(s, w->row, &ranks);
    if (!group.size) {
        ka_put_text(t, kernel);
        return;
    }
    kb_snprintf(name.s, sizeof name.s, "%.*s %.*s", (int)group.size, group.data, (int)kernel.size, kernel.data);
    ka_put_text(t, kb_string(name.s));
}

/* Table straggler_marks: the collectives of this rank, which ka_reduce_stragglers compares with
 * those of the others. */
kineto_status ka_analyze_stragglers(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_straggler_marks);
    double step_us = mean_step_us(s);
    (void)err;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (!is_marked(s, w))
            continue;
        ka_put_int(t, s->rank);
        ka_put_int(t, s->streams[w->stream].id);
        ka_put_int(t, w->step < 0 ? -1 : (int64_t)KB_MIN(s->steps[w->step].number, INT64_MAX));
        put_name(s, w, t);
        ka_put_ns(t, w->start_ns);
        ka_put_ns(t, ka_work_ns(w));
        ka_put_number(t, step_us);
    }
    put_mpi_marks(s, t, step_us);
    return KINETO_OK;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

typedef ka_straggler_mark mark;
typedef ka_rank_score rank_score;
typedef ka_straggler_scores comparing;

static int compare_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

static int compare_rank_marks(const void *left, const void *right)
{
    return compare_numbers(((const rank_score *)left)->rank, ((const rank_score *)right)->rank);
}

static rank_score *rank_at(comparing *c, int64_t rank)
{
    rank_score key = {.rank = rank};
    return bsearch(&key, c->ranks.data, c->ranks.count, sizeof key, compare_rank_marks);
}

/* A rank once, whose traces came apart, too. */
static void sort_ranks(comparing *c)
{
    size_t kept = 0;
    rank_score *r = c->ranks.data;
    if (c->ranks.count)
        qsort(r, c->ranks.count, sizeof *r, compare_rank_marks);
    for (size_t i = 0; i < c->ranks.count; i++)
        if (!kept || r[kept - 1].rank != r[i].rank)
            r[kept++] = r[i];
    c->ranks.count = kept;
}

/* Rows are in the order of traces' addition, so those of a trace are together. */
static void collect_marks(comparing *c, const ka_table *t)
{
    double sum = 0;
    for (uint64_t r = 0; r < ka_table_rows(t) && !c->no_memory; r++) {
        mark m = {.rank = ka_cell_at(t, r, KA_COL_straggler_marks_rank).i,
                  .stream = ka_cell_at(t, r, KA_COL_straggler_marks_stream).i,
                  .step = ka_cell_at(t, r, KA_COL_straggler_marks_step).i,
                  .name = ka_cell_at(t, r, KA_COL_straggler_marks_name).i,
                  .start_ns = ka_cell_at(t, r, KA_COL_straggler_marks_start_us).i,
                  .dur_ns = ka_cell_at(t, r, KA_COL_straggler_marks_dur_us).i};
        c->no_memory |= !kb_vec_push(&c->marks, m);
        if (r && m.rank == ka_cell_at(t, r - 1, KA_COL_straggler_marks_rank).i)
            continue;
        c->no_memory |= !kb_vec_push(&c->ranks, ((rank_score){m.rank, 0}));
        sum += ka_cell_at(t, r, KA_COL_straggler_marks_step_us).d;
    }
    c->mean_step_us = c->ranks.count ? sum / (double)c->ranks.count : 0;
    sort_ranks(c);
}

/* ---- exact ----------------------------------------------------------------------------------- */

static int compare_kinds(const mark *a, const mark *b)
{
    int by = compare_numbers(a->step, b->step);
    return by ? by : compare_numbers(a->name, b->name);
}

static int compare_of_rank(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    int by = compare_kinds(a, b);
    by = by ? by : compare_numbers(a->rank, b->rank);
    by = by ? by : compare_numbers(a->start_ns, b->start_ns);
    by = by ? by : compare_numbers(a->dur_ns, b->dur_ns);
    return by ? by : compare_numbers(a->stream, b->stream);
}

static int compare_of_collective(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    int by = compare_kinds(a, b);
    by = by ? by : compare_numbers(a->nth, b->nth);
    return by ? by : compare_numbers(a->rank, b->rank);
}

/* Numbers collectives of one name and step on each rank (`nth`), and leaves the marks in the
 * order (step, name, nth, rank), in which those of one collective are together. */
static void number_them(comparing *c)
{
    mark *m = c->marks.data;
    qsort(m, c->marks.count, sizeof *m, compare_of_rank);
    for (size_t i = 1; i < c->marks.count; i++)
        if (!compare_kinds(&m[i - 1], &m[i]) && m[i - 1].rank == m[i].rank)
            m[i].nth = m[i - 1].nth + 1;
    qsort(m, c->marks.count, sizeof *m, compare_of_collective);
}

/* `m` are the marks of one collective, at most one per rank. Adds what the other ranks waited
 * to the score of the rank that came last, and returns it. */
static double waited_for_ns(comparing *c, const mark *m, size_t count)
{
    const mark *last = m;
    double sum = 0;
    if (count < 2)
        return 0;
    for (size_t i = 1; i < count; i++)
        if (m[i].dur_ns < last->dur_ns)
            last = &m[i];
    for (size_t i = 0; i < count; i++)
        sum += (double)m[i].dur_ns - (double)last->dur_ns;
    rank_at(c, last->rank)->score += sum;
    return sum;
}

/* End of the marks of the same step and name as those at `first`. */
static size_t same_kind(const comparing *c, size_t first)
{
    size_t end = first;
    while (end < c->marks.count && !compare_kinds(&c->marks.data[first], &c->marks.data[end]))
        end++;
    return end;
}

/* Did all ranks that have this name in the step have it equally often? Else its calls cannot
 * be matched. */
static bool all_took_part(const comparing *c, size_t first, size_t end)
{
    const mark *m = c->marks.data;
    size_t ranks = 0;
    while (first + ranks < end && m[first + ranks].nth == 0)
        ranks++;
    return (end - first) % ranks == 0 && (size_t)m[end - 1].nth + 1 == (end - first) / ranks;
}

static double score_exact(comparing *c)
{
    double all = 0;
    number_them(c);
    for (size_t first = 0, end; first < c->marks.count; first = end) {
        end = same_kind(c, first);
        if (!all_took_part(c, first, end))
            continue;
        for (size_t i = first, next; i < end; i = next) {
            for (next = i; next < end && c->marks.data[next].nth == c->marks.data[i].nth; next++)
                ;
            all += waited_for_ns(c, &c->marks.data[i], next - i);
        }
    }
    for (size_t i = 0; i < c->ranks.count; i++)
        c->ranks.data[i].score = ka_percent(c->ranks.data[i].score, all);
    return all;
}

/* ---- the table ------------------------------------------------------------------------------- */

static int compare_scores(const void *left, const void *right)
{
    const rank_score *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return compare_numbers(a->rank, b->rank);
}

static void put_scores(comparing *c, ka_table *t)
{
    if (c->ranks.count)
        qsort(c->ranks.data, c->ranks.count, sizeof *c->ranks.data, compare_scores);
    for (size_t i = 0; i < c->ranks.count; i++) {
        ka_put_int(t, c->ranks.data[i].rank);
        ka_put_number(t, c->ranks.data[i].score);
    }
}

void ka_reduce_stragglers(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_stragglers),
             *marks = ka_table_of(a, KA_TABLE_straggler_marks);
    void (*score)(ka_straggler_scores *) = ka_definitions_of(a->definitions)->score_stragglers;
    comparing c = {0};
    if (!t || !marks)
        return;
    t->cells.count = 0;
    t->note[0] = 0;
    collect_marks(&c, marks);
    bool several = c.ranks.count > 1;
    if (!marks->cells.count)
        ka_note(t, "no collectives in the trace");
    else if (!several)
        ka_note(t, "one rank cannot be compared: name the traces of several");
    else if (!c.no_memory && score)
        score(&c);
    else if (!c.no_memory && score_exact(&c) <= 0)
        ka_note(t, "no collective was the same on several ranks");
    ka_note_ranks(a, marks, t);
    if (several)
        put_scores(&c, t);
    t->no_memory |= c.no_memory;
    kb_vec_free(&c.marks);
    kb_vec_free(&c.ranks);
}
