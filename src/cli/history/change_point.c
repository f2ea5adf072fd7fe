/* Where the level of a series changes. For each place the values before and after it get a level of their
 * own, and squared deviations are added up, of which one counts at most as much as that of three standard
 * deviations: a single outlier moves nothing. The place with the smallest sum is the change, if the
 * difference is more than the noise of the series explains. The noise is estimated from the same
 * deviations, so that histories need no setting. */
#include "cli/history/history.h"

#include <math.h>

enum { MIN_SIDE = 2 /* values on each side of a change */, MAX_DEVIATIONS = 3, ROUNDS = 4 };
#define FALSE_ALARMS 0.001 /* of histories without a change */

static double find_median(const double *values, size_t count, double *room)
{
    memcpy(room, values, count * sizeof *room);
    qsort(room, count, sizeof *room, kb_compare_doubles);
    return count % 2 ? room[count / 2] : (room[count / 2 - 1] + room[count / 2]) / 2;
}

/* From the median distance of neighbours, which a change of level hardly moves. */
static double estimate_noise(const double *values, size_t count, double *room)
{
    double *distances = room + count;
    for (size_t i = 1; i < count; i++)
        distances[i - 1] = fabs(values[i] - values[i - 1]);
    return find_median(distances, count - 1, room) / (0.6745 * 1.41421356);
}

/* The level of values: their mean, of which those beyond three deviations count as if they were there. */
static double find_level(const double *values, size_t count, double noise, double *room)
{
    double level = find_median(values, count, room), limit = MAX_DEVIATIONS * noise;
    for (int round = 0; round < ROUNDS && noise > 0; round++) {
        double sum = 0;
        for (size_t i = 0; i < count; i++)
            sum += KB_MAX(-limit, KB_MIN(limit, values[i] - level));
        level += sum / (double)count;
    }
    return level;
}

static double sum_deviations(const double *values, size_t count, double noise, double *room)
{
    double level = find_level(values, count, noise, room), limit = MAX_DEVIATIONS * noise, sum = 0;
    for (size_t i = 0; i < count; i++) {
        double d = fabs(values[i] - level);
        d = noise > 0 ? KB_MIN(d, limit) : d;
        sum += d * d;
    }
    return sum;
}

/* The normal quantile of 1 - p, by bisection; then Student's with so many degrees of freedom. */
static double student_quantile(double p, double freedom)
{
    double low = 0, high = 10;
    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;
        if (erfc(middle / 1.41421356) / 2 > p)
            low = middle;
        else
            high = middle;
    }
    double z = low, z2 = z * z, n = freedom;
    return z * (1 + (z2 + 1) / (4 * n) + ((5 * z2 + 16) * z2 + 3) / (96 * n * n) +
                (((3 * z2 + 19) * z2 + 17) * z2 - 15) / (384 * n * n * n));
}

void kc_place_change(const double *values, size_t from, size_t end, size_t first, size_t last, kc_change *out)
{
    const double *v = values + from;
    size_t count = end - from;
    double *room = malloc((2 * count + 2) * sizeof *room), best = INFINITY;
    *out = (kc_change){.at = first, .from = from, .end = end};
    if (!room)
        return;
    double noise = estimate_noise(v, count, room);
    for (size_t at = first; at <= last; at++) {
        size_t before = at - from;
        double sum = sum_deviations(v, before, noise, room) + sum_deviations(v + before, count - before, noise, room);
        if (sum < best) {
            best = sum;
            out->at = at;
        }
    }
    size_t before = out->at - from, after = end - out->at;
    out->before = find_median(v, before, room);
    out->after = find_median(v + before, after, room);
    out->noise = sqrt(best / (double)(count - 2));
    double difference = find_level(v + before, after, noise, room) - find_level(v, before, noise, room);
    double error = out->noise * sqrt(1 / (double)before + 1 / (double)after);
    out->score = error > 0 ? difference / error : difference ? copysign(INFINITY, difference) : 0;
    free(room);
}

bool kc_find_change(const double *values, size_t from, size_t end, kc_change *out)
{
    size_t count = end - from;
    if (count < KC_MIN_HISTORY)
        return false;
    kc_place_change(values, from, end, from + MIN_SIDE, end - MIN_SIDE, out);
    size_t places = count - 2 * MIN_SIDE + 1;
    return fabs(out->score) > student_quantile(FALSE_ALARMS / 2 / (double)places, (double)count - 2);
}
