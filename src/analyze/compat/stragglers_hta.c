/* Stragglers as HolisticTraceAnalysis finds them: of the collective whose durations differ most
 * between ranks, in how many steps a rank was one of the two that began it last. It compares the
 * clocks of ranks. */
#include "analyze/compat/compat.h"

#include <math.h>

static int compare_numbers(int64_t a, int64_t b) { return (a > b) - (a < b); }

bool ka_hta_is_straggler_mark(const ka_dataset *s, const ka_work *w)
{
    return kb_string_starts_with(ka_name(s, w->name), "ncclKernel") && w->step >= 0 &&
           s->steps[w->step].number > 0 && s->streams[w->stream].id > 0;
}

/* Collectives are the same if stream and name are. */
static int compare_chosen(const ka_straggler_mark *a, const ka_straggler_mark *b)
{
    int by = compare_numbers(a->stream, b->stream);
    by = by ? by : compare_numbers(a->name, b->name);
    return by;
}

/* By collective, step, rank and start. */
static int compare_for_hta(const void *left, const void *right)
{
    const ka_straggler_mark *a = left, *b = right;
    int by = compare_chosen(a, b);
    by = by ? by : compare_numbers(a->step, b->step);
    by = by ? by : compare_numbers(a->rank, b->rank);
    return by ? by : compare_numbers(a->start_ns, b->start_ns);
}

/* The same collective in one step of one rank. */
static bool same_of_rank(const ka_straggler_mark *a, const ka_straggler_mark *b)
{
    return !compare_chosen(a, b) && a->step == b->step && a->rank == b->rank;
}

/* Long ones only, and of one rank and step the last. */
static void keep_last(ka_straggler_scores *c)
{
    size_t kept = 0;
    ka_straggler_mark *m = c->marks.data;
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

/* Past the last mark of the collective in that step. */
static size_t end_of_step(const ka_straggler_scores *c, size_t first)
{
    const ka_straggler_mark *m = c->marks.data;
    size_t end = first;
    while (end < c->marks.count && !compare_chosen(&m[first], &m[end]) &&
           m[first].step == m[end].step)
        end++;
    return end;
}

/* Sample deviation of the durations, as shares of a step; 0 of one. */
static double duration_deviation(const ka_straggler_mark *m, size_t count, double step_us)
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
static void most_different(const ka_straggler_scores *c, size_t *first, size_t *end_out)
{
    double most = -1;
    for (size_t i = 0, end; i < c->marks.count; i = end) {
        double sum = 0;
        size_t steps = 0;
        for (end = i;
             end < c->marks.count && !compare_chosen(&c->marks.data[i], &c->marks.data[end]);
             steps++) {
            size_t next = end_of_step(c, end);
            sum += duration_deviation(&c->marks.data[end], next - end, c->mean_step_us);
            end = next;
        }
        if (sum / (double)steps > most) {
            most = sum / (double)steps;
            *first = i;
            *end_out = end;
        }
    }
}

#define CANDIDATES 2u

/* The latest start first. */
static int compare_latest(const void *left, const void *right)
{
    const ka_straggler_mark *a = left, *b = right;
    int by = compare_numbers(b->start_ns, a->start_ns);
    return by ? by : compare_numbers(a->rank, b->rank);
}

/* The rank is among those of the marks. */
static ka_rank_score *score_of(ka_straggler_scores *c, int64_t rank)
{
    size_t i = 0;
    while (i + 1 < c->ranks.count && c->ranks.data[i].rank != rank)
        i++;
    KB_ASSERT(i < c->ranks.count && c->ranks.data[i].rank == rank);
    return &c->ranks.data[i];
}

static int compare_scores(const void *left, const void *right)
{
    const ka_rank_score *a = left, *b = right;
    if (a->score != b->score)
        return a->score > b->score ? -1 : 1;
    return compare_numbers(a->rank, b->rank);
}

/* HTA names two ranks at most, and only those that were late at least once. */
static void keep_candidates(ka_straggler_scores *c)
{
    size_t kept = 0;
    if (c->ranks.count)
        qsort(c->ranks.data, c->ranks.count, sizeof *c->ranks.data, compare_scores);
    while (kept < c->ranks.count && kept < CANDIDATES && c->ranks.data[kept].score > 0)
        kept++;
    c->ranks.count = kept;
}

/* Scores the late ranks in each step of the chosen collective, then keeps those with a score. */
void ka_hta_score_stragglers(ka_straggler_scores *c)
{
    size_t first = 0, end = 0;
    keep_last(c);
    most_different(c, &first, &end);
    for (size_t i = first, next; i < end; i = next) {
        next = KB_MIN(end_of_step(c, i), end);
        qsort(&c->marks.data[i], next - i, sizeof *c->marks.data, compare_latest);
        for (size_t k = i; k < next && k < i + CANDIDATES; k++)
            score_of(c, c->marks.data[k].rank)->score++;
    }
    keep_candidates(c);
}
