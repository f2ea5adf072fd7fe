/* Times of devices: see clock_line.h. Times may be far from 0, as nanoseconds since 1970 are: they
 * are subtracted as integers, a double would round them to some hundred nanoseconds. */
#include "base/clock_line.h"

#include <math.h>
#include <stdlib.h>

/* Pairs are looked at among the surest point of each group, so that many points take no longer. */
enum { MOST_GROUPS = 64 };

/* A shorter line tells no more of a clock that seems to count nanoseconds. */
#define SHORT_NS 1e6

static int by_host_time(const void *left, const void *right)
{
    const kb_clock_point *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->device > b->device) - (a->device < b->device);
}

static const kb_clock_point *surest(const kb_clock_point *points, size_t count)
{
    const kb_clock_point *best = points;
    for (size_t i = 1; i < count; i++)
        if (points[i].doubt_ns < best->doubt_ns)
            best = &points[i];
    return best;
}

static size_t surest_of_groups(const kb_clock_point *points, size_t count,
                               const kb_clock_point *out[MOST_GROUPS])
{
    size_t groups = KB_MIN(count, MOST_GROUPS);
    for (size_t g = 0; g < groups; g++) {
        size_t from = count * g / groups, to = count * (g + 1) / groups;
        out[g] = surest(points + from, to - from);
    }
    return groups;
}

/* Doubt of the rate between two points; a nanosecond more, which is what times are rounded to. */
static double doubt_of_rate(const kb_clock_point *a, const kb_clock_point *b)
{
    double length = (double)kb_length_ns(a->ns, b->ns);
    return length > 0 ? (a->doubt_ns + b->doubt_ns + 1) / length : INFINITY;
}

static double device_units(int64_t from, int64_t to) { return (double)kb_length_ns(from, to); }

void kb_clock_line_fit(kb_clock_line *line, kb_clock_point *points, size_t count)
{
    const kb_clock_point *best[MOST_GROUPS];
    qsort(points, count, sizeof *points, by_host_time);
    size_t groups = surest_of_groups(points, count, best);
    const kb_clock_point *a = surest(points, count), *b = a;
    for (size_t i = 0; i < groups; i++)
        for (size_t j = i + 1; j < groups; j++)
            if (doubt_of_rate(best[i], best[j]) < doubt_of_rate(a, b)) {
                a = best[i];
                b = best[j];
            }
    double host = (double)kb_length_ns(a->ns, b->ns), device = device_units(a->device, b->device);
    double doubt = a->doubt_ns + b->doubt_ns;
    *line = (kb_clock_line){a->device, a->ns, 1.0, KB_MAX(device, 0), a->doubt_ns, b->doubt_ns};
    bool told = device > 0 && (host >= SHORT_NS || fabs(host - device) > doubt);
    if (told && host / device > 1e-6 && host / device < 1e9) /* what a clock can have */
        line->rate = host / device;
    line->doubt1_ns += device > 0 ? fabs(host - device * line->rate) : 0;
}

int64_t kb_clock_line_ns(const kb_clock_line *line, int64_t device)
{
    double distance = device_units(line->device0, device) * line->rate;
    if (!(fabs(distance) < 4e18))
        return distance < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
    int64_t rounded = (int64_t)(distance + (distance < 0 ? -0.5 : 0.5));
    return (int64_t)((uint64_t)line->ns0 + (uint64_t)rounded);
}

double kb_clock_line_off_ns(const kb_clock_line *line, const kb_clock_point *point)
{
    return fabs((double)kb_length_ns(point->ns, kb_clock_line_ns(line, point->device)));
}

/* Little between the two points, and the more the further outside. */
double kb_clock_line_doubt_ns(const kb_clock_line *line, int64_t device)
{
    double part = line->length > 0 ? device_units(line->device0, device) / line->length : 0;
    return fabs(1 - part) * line->doubt0_ns + fabs(part) * line->doubt1_ns;
}
