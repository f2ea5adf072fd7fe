/* Is a difference more than noise? A bootstrap over steps: studentised and symmetric for means,
 * percentiles for medians. docs/reference/diff.md says how that was chosen. */
#include "analyze/diff/diff.h"

#include <float.h>

#define USUAL_DRAWS 2000u
#define MAX_DRAWS   100000u
#define LEVEL       0.95
#define MIN_ERROR   0.2
#define MIN_MEANS   3u /* steps a side below which an interval would hold everything … */
#define MIN_MEDIANS 5u /* … or too often miss */

/* splitmix64: small, and good enough to draw steps with. */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* At least 100 draws, at most MAX_DRAWS. */
bool ka_chance_make(ka_chance *c, uint64_t seed, uint32_t draws, bool medians)
{
    *c = (ka_chance){.seed = seed,
                     .draws = KB_MIN(draws ? KB_MAX(draws, 100u) : USUAL_DRAWS, MAX_DRAWS),
                     .medians = medians};
    c->room = malloc(c->draws * sizeof *c->room);
    return c->room != NULL;
}

void ka_chance_free(ka_chance *c)
{
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t n = 0; n <= KA_MAX_BLOCKS; n++)
            free(c->times[side][n]);
    free(c->room);
    *c = (ka_chance){0};
}

/* How often each of n values is in each draw. */
static const uint8_t *times_of(ka_chance *c, uint32_t side, uint32_t n)
{
    uint8_t **times = &c->times[side][n];
    uint64_t state = c->seed ^ (uint64_t)(side + 1) << 32 ^ n;
    if (*times)
        return *times;
    *times = calloc((size_t)c->draws, n);
    c->no_memory |= !*times;
    for (uint32_t d = 0; *times && d < c->draws; d++)
        for (uint32_t i = 0; i < n; i++)
            (*times)[(size_t)d * n + (size_t)((next_random(&state) >> 32) * n >> 32)]++;
    return *times;
}

/* ---- means ---------------------------------------------------------------------------------- */

/* The mean of a sample and the variance of that mean. */
typedef struct moments {
    double mean, variance; /* of the mean */
} moments;

/* Mean and its variance, of the values or of one draw of them. */
static moments moments_of(const double *values, const uint8_t *times, uint32_t n)
{
    double sum = 0, squares = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += times ? times[i] * values[i] : values[i];
    double mean = sum / n;
    for (uint32_t i = 0; i < n; i++) {
        double off = values[i] - mean;
        squares += (times ? times[i] : 1) * off * off;
    }
    return (moments){mean, n > 1 ? squares / (n - 1.0) / n : 0};
}

/* A difference and its standard error: of logarithms where all values are positive, so that it is as sure of a
 * fall as of the rise the other way round. */
typedef struct difference {
    double value, error;
} difference;

/* Errors of logarithms by the delta method. */
static difference subtract_means(moments a, moments b, bool logarithms)
{
    if (!logarithms)
        return (difference){b.mean - a.mean, sqrt(a.variance + b.variance)};
    return (difference){log(b.mean) - log(a.mean),
                        sqrt(a.variance / (a.mean * a.mean) + b.variance / (b.mean * b.mean))};
}

/* How many standard errors a draw is off. A draw of equal steps has none, and one of nearly equal
 * steps hardly any: a fifth of that of the whole is the least. */
static double studentise_draw(difference draw, difference whole)
{
    double off = fabs(draw.value - whole.value),
           t = off / KB_MAX(draw.error, MIN_ERROR * whole.error);
    return isfinite(t) ? t : (double)INFINITY;
}

/* Hoare's selection. */
double ka_select_kth(double *room, uint32_t count, uint32_t k)
{
    KB_ASSERT(count > 0);
    uint32_t low = 0, high = count - 1;
    k = KB_MIN(k, high);
    while (low < high) {
        double pivot = room[low + (high - low) / 2];
        uint32_t i = low, j = high;
        for (;; i++, j--) {
            while (room[i] < pivot)
                i++;
            while (room[j] > pivot)
                j--;
            if (i >= j)
                break;
            double swap = room[i];
            room[i] = room[j];
            room[j] = swap;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
    return room[k];
}

/* Two samples and, once drawn, how often each value is in each draw. */
typedef struct sides {
    const double *a, *b;
    uint32_t n, m;
    const uint8_t *ta, *tb;
} sides;

/* Studentised bootstrap, symmetric. False: no finite interval. */
static bool interval_of_means(ka_chance *c, const sides *s, bool logarithms, double *low,
                              double *high)
{
    moments a = moments_of(s->a, NULL, s->n), b = moments_of(s->b, NULL, s->m);
    difference whole = subtract_means(a, b, logarithms);
    if (!(whole.error > 0)) { /* all steps are equal: no noise */
        *low = *high = whole.value;
        return isfinite(whole.value);
    }
    for (uint32_t d = 0; d < c->draws; d++)
        c->room[d] = studentise_draw(
            subtract_means(moments_of(s->a, s->ta + (size_t)d * s->n, s->n),
                           moments_of(s->b, s->tb + (size_t)d * s->m, s->m), logarithms),
            whole);
    double t = ka_select_kth(c->room, c->draws, (uint32_t)(LEVEL * c->draws));
    *low = whole.value - t * whole.error;
    *high = whole.value + t * whole.error;
    return isfinite(*low) && isfinite(*high);
}

/* ---- medians -------------------------------------------------------------------------------- */

/* The median of a draw, without sorting it: counts run along the sorted values. */
static double median_of(const double *sorted, const uint8_t *times, uint32_t n)
{
    uint32_t seen = 0, i = 0, lower = (n - 1) / 2, upper = n / 2;
    while (seen + times[i] <= lower)
        seen += times[i++];
    double first = sorted[i];
    while (seen + times[i] <= upper)
        seen += times[i++];
    return (first + sorted[i]) / 2;
}

/* Percentile bootstrap. False: no finite interval. */
static bool interval_of_medians(ka_chance *c, const sides *s, bool logarithms, double *low,
                                double *high)
{
    double a[KA_MAX_BLOCKS], b[KA_MAX_BLOCKS];
    memcpy(a, s->a, s->n * sizeof *a);
    memcpy(b, s->b, s->m * sizeof *b);
    qsort(a, s->n, sizeof *a, kb_compare_doubles);
    qsort(b, s->m, sizeof *b, kb_compare_doubles);
    for (uint32_t d = 0; d < c->draws; d++) {
        double before = median_of(a, s->ta + (size_t)d * s->n, s->n),
               after = median_of(b, s->tb + (size_t)d * s->m, s->m);
        c->room[d] = logarithms ? log(after / before) : after - before;
    }
    *low = ka_select_kth(c->room, c->draws, (uint32_t)((1 - LEVEL) / 2 * c->draws));
    *high = ka_select_kth(c->room, c->draws, (uint32_t)((1 + LEVEL) / 2 * c->draws));
    return isfinite(*low) && isfinite(*high);
}

/* ---- both ----------------------------------------------------------------------------------- */

double ka_middle_of(const double *values, uint32_t n, bool median)
{
    double room[KA_MAX_BLOCKS], sum = 0;
    if (!n)
        return 0;
    memcpy(room, values, n * sizeof *room);
    if (median)
        return ka_median(room, n);
    for (uint32_t i = 0; i < n; i++)
        sum += values[i];
    return sum / n;
}

/* False for NAN, too. */
static bool are_at_least(const double *values, uint32_t n, double least)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(values[i] >= least))
            return false;
    return true;
}

/* Orders two samples by their number and values, so that the draws do not depend on which is before. */
static int compare_samples(const sides *s)
{
    if (s->n != s->m)
        return s->n < s->m ? -1 : 1;
    for (uint32_t i = 0; i < s->n; i++)
        if (s->a[i] != s->b[i])
            return s->a[i] < s->b[i] ? -1 : 1;
    return 0;
}

/* The interval the other way round is the mirrored one. */
static bool find_interval(ka_chance *c, sides s, bool logarithms, double *low, double *high)
{
    bool swapped = compare_samples(&s) > 0;
    if (swapped)
        s = (sides){.a = s.b, .b = s.a, .n = s.m, .m = s.n};
    s.ta = times_of(c, 0, s.n);
    s.tb = times_of(c, 1, s.m);
    if (!s.ta || !s.tb ||
        !(c->medians ? interval_of_medians : interval_of_means)(c, &s, logarithms, low, high))
        return false;
    if (swapped) {
        double mirrored = -*high;
        *high = -*low;
        *low = mirrored;
    }
    return true;
}

/* None if it has no end, or there is no memory. */
static void add_interval(ka_chance *c, const sides *s, ka_estimate *e)
{
    bool logarithms = are_at_least(s->a, s->n, DBL_MIN) && are_at_least(s->b, s->m, DBL_MIN);
    double low, high, whole = fabs(e->before);
    if (!find_interval(c, *s, logarithms, &low, &high))
        return;
    e->sure = low > 0 || high < 0;
    if (whole == 0)
        return;
    e->low_pct = 100 * (logarithms ? expm1(low) : low / whole);
    e->high_pct = 100 * (logarithms ? expm1(high) : high / whole);
    if (are_at_least(s->a, s->n, 0) && are_at_least(s->b, s->m, 0))
        e->low_pct = KB_MAX(e->low_pct, -100); /* nothing becomes less than nothing */
}

#define NORMAL_95 1.959964

/* As of means: in logarithms where both are positive. */
static void add_interval_of_sums(ka_estimate *e, double before_variance, double after_variance,
                                 double chance)
{
    bool logarithms = e->before >= DBL_MIN && e->after >= DBL_MIN;
    difference d = subtract_means((moments){e->before, before_variance},
                                  (moments){e->after, after_variance}, logarithms);
    double off = NORMAL_95 * d.error + (logarithms ? 2 * chance / (e->before + e->after) : chance);
    double low = d.value - off, high = d.value + off;
    if (!isfinite(low) || !isfinite(high))
        return;
    e->sure = low > 0 || high < 0;
    if (e->before == 0)
        return;
    e->low_pct = 100 * (logarithms ? expm1(low) : KB_MAX(low / fabs(e->before), -1));
    e->high_pct = 100 * (logarithms ? expm1(high) : high / fabs(e->before));
}

ka_estimate ka_compare_sums(double before, double before_variance, double after,
                            double after_variance, double chance)
{
    ka_estimate e = {.before = before,
                     .after = after,
                     .delta = after - before,
                     .pct = before == 0 ? (double)NAN : 100 * (after - before) / fabs(before),
                     .low_pct = (double)NAN,
                     .high_pct = (double)NAN,
                     .sure = -1};
    if (before_variance >= 0 && after_variance >= 0)
        add_interval_of_sums(&e, before_variance, after_variance, chance);
    return e;
}

ka_estimate ka_compare_means(ka_chance *c, const double *before, uint32_t before_count, const double *after,
                             uint32_t after_count)
{
    bool medians = c->medians;
    c->medians = false;
    ka_estimate e = ka_compare(c, before, before_count, after, after_count);
    c->medians = medians;
    return e;
}

/* Estimates both sides and their difference; intervals only with enough steps. */
ka_estimate ka_compare(ka_chance *c, const double *before, uint32_t before_count,
                       const double *after, uint32_t after_count)
{
    sides s = {
        before, after, KB_MIN(before_count, KA_MAX_BLOCKS), KB_MIN(after_count, KA_MAX_BLOCKS),
        NULL,   NULL};
    ka_estimate e = {.before = ka_middle_of(before, s.n, c->medians),
                     .after = ka_middle_of(after, s.m, c->medians),
                     .low_pct = (double)NAN,
                     .high_pct = (double)NAN,
                     .sure = -1};
    uint32_t least = c->medians ? MIN_MEDIANS : MIN_MEANS;
    e.delta = e.after - e.before;
    e.pct = e.before == 0 ? (double)NAN : 100 * e.delta / fabs(e.before);
    if (s.n < least || s.m < least)
        return e;
    add_interval(c, &s, &e);
    if (e.sure <= 0)
        e.shift = ka_shift_by_ranks(c, before, s.n, after, s.m, e.delta < 0);
    return e;
}

/* ---- medians of steps, drawn in blocks ------------------------------------------------------- */

double ka_median_of_times(const ka_step_times *sorted)
{
    size_t n = sorted->count;
    return n ? (sorted->data[(n - 1) / 2].us + sorted->data[n / 2].us) / 2 : 0;
}

/* The median of the steps of a draw of blocks. */
static double median_of_drawn(const ka_step_times *sorted, const uint8_t *times)
{
    size_t total = 0, seen = 0, i = 0;
    for (size_t k = 0; k < sorted->count; k++)
        total += times[sorted->data[k].block];
    size_t lower = (total - 1) / 2, upper = total / 2;
    for (seen = times[sorted->data[0].block]; seen <= lower;)
        seen += times[sorted->data[++i].block];
    double first = sorted->data[i].us;
    while (seen <= upper)
        seen += times[sorted->data[++i].block];
    return (first + sorted->data[i].us) / 2;
}

/* Which side has the first draws does not depend on which is before. */
static bool are_times_swapped(const ka_step_times *before, const ka_step_times *after)
{
    if (before->count != after->count)
        return before->count > after->count;
    for (size_t i = 0; i < before->count; i++)
        if (before->data[i].us != after->data[i].us)
            return before->data[i].us > after->data[i].us;
    return false;
}

void ka_compare_step_medians(ka_chance *c, const ka_step_times *before, uint32_t n, const ka_step_times *after,
                             uint32_t m, ka_estimate *e)
{
    if (!before->count || !after->count || (before->count <= n && after->count <= m))
        return;
    e->before = ka_median_of_times(before);
    e->after = ka_median_of_times(after);
    e->delta = e->after - e->before;
    e->pct = e->before == 0 ? (double)NAN : 100 * e->delta / fabs(e->before);
    if (e->sure < 0 || !(before->data[0].us > 0) || !(after->data[0].us > 0))
        return;
    uint32_t swapped = are_times_swapped(before, after);
    const uint8_t *of_before = times_of(c, swapped, n), *of_after = times_of(c, !swapped, m);
    for (uint32_t d = 0; of_before && of_after && d < c->draws; d++)
        c->room[d] = log(median_of_drawn(after, of_after + (size_t)d * m) /
                         median_of_drawn(before, of_before + (size_t)d * n));
    if (!of_before || !of_after)
        return;
    double low = ka_select_kth(c->room, c->draws, (uint32_t)((1 - LEVEL) / 2 * c->draws)),
           high = ka_select_kth(c->room, c->draws, (uint32_t)((1 + LEVEL) / 2 * c->draws));
    e->low_pct = 100 * expm1(low);
    e->high_pct = 100 * expm1(high);
    e->sure = low > 0 || high < 0;
}
