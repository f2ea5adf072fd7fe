/* Ranks that others wait for. Each rank notes its collectives; the reduction compares them.
 *
 * Exact: a collective takes each rank from when it comes to when all are done. Who came last took
 * the shortest; what the others took more was waiting for it. Only durations are compared, so that
 * clocks of different hosts need not agree. A rank's score is its share of all the waiting.
 *
 * HTA's: of the collective whose durations differ most between ranks, in how many steps a rank was
 * one of the two that began it last; it compares clocks. */
#include "analyze/facts/analyses.h"

#include <math.h>


/* ---- one rank -------------------------------------------------------------------------------- */

static bool is_marked(const ka_dataset *s, const ka_work *w)
{
    kineto_string name = ka_name(s, w->name);
    if (s->hta)
        return name.size >= 10 && memcmp(name.data, "ncclKernel", 10) == 0 && w->step >= 0 &&
               s->steps[w->step].number > 0 && s->streams[w->stream].id > 0;
    return w->type == KA_TYPE_COMMUNICATION && w->kind == KINETO_KIND_CONCURRENT_KERNEL;
}

static double mean_step_us(const ka_dataset *s)
{
    double sum = 0;
    for (uint32_t i = 0; i < s->step_count; i++)
        sum += ka_us(kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
    return s->step_count ? sum / s->step_count : 0;
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
        ka_put_text(t, ka_name(s, w->name));
        ka_put_ns(t, w->start_ns);
        ka_put_ns(t, ka_work_ns(w));
        ka_put_number(t, step_us);
    }
    return KINETO_OK;
}

/* ---- all ranks ------------------------------------------------------------------------------- */

/* A mark, and which of its kind it is on its rank. */
typedef struct mark {
    int64_t rank, stream, step, name, start_ns, dur_ns, nth;
} mark;

typedef struct rank_score {
    int64_t rank;
    double score;
} rank_score;

typedef struct comparing {
    KB_VEC(mark) marks;
    KB_VEC(rank_score) ranks; /* by rank */
    double mean_step_us;
    bool no_memory;
} comparing;

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

static void number_them(comparing *c)
{
    mark *m = c->marks.data;
    qsort(m, c->marks.count, sizeof *m, compare_of_rank);
    for (size_t i = 1; i < c->marks.count; i++)
        if (!compare_kinds(&m[i - 1], &m[i]) && m[i - 1].rank == m[i].rank)
            m[i].nth = m[i - 1].nth + 1;
    qsort(m, c->marks.count, sizeof *m, compare_of_collective);
}

/* The n-th ones of a step on all ranks; a rank has at most one of them. */
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

/* Collectives that some ranks had more often cannot be matched. */
static size_t same_kind(const comparing *c, size_t first)
{
    size_t end = first;
    while (end < c->marks.count && !compare_kinds(&c->marks.data[first], &c->marks.data[end]))
        end++;
    return end;
}

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

/* ---- HTA's ----------------------------------------------------------------------------------- */

static int compare_chosen(const mark *a, const mark *b)
{
    int by = compare_numbers(a->stream, b->stream);
    by = by ? by : compare_numbers(a->name, b->name);
    return by;
}

static int compare_for_hta(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    int by = compare_chosen(a, b);
    by = by ? by : compare_numbers(a->step, b->step);
    by = by ? by : compare_numbers(a->rank, b->rank);
    return by ? by : compare_numbers(a->start_ns, b->start_ns);
}

static bool same_of_rank(const mark *a, const mark *b)
{
    return !compare_chosen(a, b) && a->step == b->step && a->rank == b->rank;
}

/* Long ones only, and of one rank and step the last. */
static void keep_last(comparing *c)
{
    size_t kept = 0;
    mark *m = c->marks.data;
    for (size_t i = 0; i < c->marks.count; i++)
        if (ka_us(m[i].dur_ns) >= 0.01 * c->mean_step_us)
            m[kept++] = m[i];
    c->marks.count = kept;
    if (kept)
        qsort(m, kept, sizeof *m, compare_for_hta);
    kept = 0;
    for (size_t i = 0; i < c->marks.count; i++)
        if (i + 1 == c->marks.count || !same_of_rank(&m[i], &m[i + 1]))
            m[kept++] = m[i];
    c->marks.count = kept;
}

static size_t end_of_step(const comparing *c, size_t first)
{
    const mark *m = c->marks.data;
    size_t end = first;
    while (end < c->marks.count && !compare_chosen(&m[first], &m[end]) &&
           m[first].step == m[end].step)
        end++;
    return end;
}

static double end_deviation(const mark *m, size_t count, double step_us)
{
    double mean = 0, sum = 0;
    for (size_t i = 0; i < count; i++)
        mean += ka_us(m[i].dur_ns) / step_us / (double)count;
    for (size_t i = 0; i < count; i++) {
        double d = ka_us(m[i].dur_ns) / step_us - mean;
        sum += d * d;
    }
    return count > 1 ? sqrt(sum / (double)(count - 1)) : 0;
}

/* First and past the last mark of the collective whose durations differ most. */
static void most_different(const comparing *c, size_t *first, size_t *end_of_range)
{
    double most = -1;
    for (size_t i = 0, end; i < c->marks.count; i = end) {
        double sum = 0;
        size_t steps = 0;
        for (end = i;
             end < c->marks.count && !compare_chosen(&c->marks.data[i], &c->marks.data[end]);
             steps++) {
            size_t next = end_of_step(c, end);
            sum += end_deviation(&c->marks.data[end], next - end, c->mean_step_us);
            end = next;
        }
        if (sum / (double)steps > most) {
            most = sum / (double)steps;
            *first = i;
            *end_of_range = end;
        }
    }
}

#define CANDIDATES 2u

static int compare_latest(const void *left, const void *right)
{
    const mark *a = left, *b = right;
    int by = compare_numbers(b->start_ns, a->start_ns);
    return by ? by : compare_numbers(a->rank, b->rank);
}

static void score_hta(comparing *c)
{
    size_t first = 0, end_of_range = 0;
    keep_last(c);
    most_different(c, &first, &end_of_range);
    for (size_t i = first, next; i < end_of_range; i = next) {
        next = KB_MIN(end_of_step(c, i), end_of_range);
        qsort(&c->marks.data[i], next - i, sizeof *c->marks.data, compare_latest);
        for (size_t k = i; k < next && k < i + CANDIDATES; k++)
            rank_at(c, c->marks.data[k].rank)->score++;
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

static int compare_scores(const void *left, const void *right)
{
    const rank_score *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return compare_numbers(a->rank, b->rank);
}

static void put_scores(comparing *c, ka_table *t, bool hta)
{
    if (c->ranks.count)
        qsort(c->ranks.data, c->ranks.count, sizeof *c->ranks.data, compare_scores);
    for (size_t i = 0; i < c->ranks.count && (!hta || i < CANDIDATES); i++) {
        if (hta && !(c->ranks.data[i].score > 0))
            break;
        ka_put_int(t, c->ranks.data[i].rank);
        ka_put_number(t, c->ranks.data[i].score);
    }
}

void ka_reduce_stragglers(kineto_analysis *a)
{
    ka_table *t = ka_table_of(a, KA_TABLE_stragglers),
             *marks = ka_table_of(a, KA_TABLE_straggler_marks);
    bool hta = a->definitions == KINETO_DEFINITIONS_HTA;
    comparing c = {0};
    if (!t || !marks)
        return;
    t->cells.count = 0;
    t->note[0] = 0;
    collect_marks(&c, marks);
    if (!marks->cells.count)
        ka_note(t, "no kernels that communicate in the trace");
    else if (c.ranks.count < 2)
        ka_note(t, "one rank cannot be compared: name the traces of several");
    else if (!c.no_memory && hta)
        score_hta(&c);
    else if (!c.no_memory && score_exact(&c) <= 0)
        ka_note(t, "no collective was the same on several ranks");
    ka_note_ranks(a, marks, t);
    if (c.ranks.count > 1)
        put_scores(&c, t, hta);
    t->no_memory |= c.no_memory;
    kb_vec_free(&c.marks);
    kb_vec_free(&c.ranks);
}
