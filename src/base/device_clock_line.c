/* Fits a line through the clock points of a device: see device_clock_line.h. Times may be far from 0, like
 * nanoseconds since 1970, so they are subtracted as integers; a double would round them to some
 * hundred nanoseconds. */
#include "base/device_clock_line.h"

#include <math.h>
#include <stdlib.h>

/* Only the most certain point of each group takes part in the search for the best pair, so that its
 * time is bounded. */
enum { MAX_GROUPS = 64 };

static int compare_host_times(const void *left, const void *right)
{
    const kb_clock_point *a = left, *b = right;
    return a->ns != b->ns ? KB_COMPARE(a->ns, b->ns) : KB_COMPARE(a->device, b->device);
}

static const kb_clock_point *most_certain_point(const kb_clock_point *points, size_t count)
{
    const kb_clock_point *best = points;
    for (size_t i = 1; i < count; i++)
        if (points[i].doubt_ns < best->doubt_ns)
            best = &points[i];
    return best;
}

static size_t choose_group_points(const kb_clock_point *points, size_t count,
                                  const kb_clock_point *out[MAX_GROUPS])
{
    size_t groups = KB_MIN(count, MAX_GROUPS);
    for (size_t g = 0; g < groups; g++) {
        size_t from = count * g / groups, to = count * (g + 1) / groups;
        out[g] = most_certain_point(points + from, to - from);
    }
    return groups;
}

/* Doubt of the rate between two points; a nanosecond more, which is what times are rounded to. */
static double rate_doubt(const kb_clock_point *a, const kb_clock_point *b)
{
    double length = (double)kb_length_ns(a->ns, b->ns);
    return length > 0 ? (a->doubt_ns + b->doubt_ns + 1) / length : INFINITY;
}

static double device_units(int64_t from, int64_t to) { return (double)kb_length_ns(from, to); }

void kb_clock_line_fit(kb_clock_line *line, kb_clock_point *points, size_t count)
{
    const kb_clock_point *best[MAX_GROUPS];
    qsort(points, count, sizeof *points, compare_host_times);
    size_t groups = choose_group_points(points, count, best);
    const kb_clock_point *a = most_certain_point(points, count), *b = a;
    for (size_t i = 0; i < groups; i++)
        for (size_t j = i + 1; j < groups; j++)
            if (rate_doubt(best[i], best[j]) < rate_doubt(a, b)) {
                a = best[i];
                b = best[j];
            }
    double host = (double)kb_length_ns(a->ns, b->ns), device = device_units(a->device, b->device);
    double doubt = a->doubt_ns + b->doubt_ns;
    *line = (kb_clock_line){a->device, a->ns, 1.0, KB_MAX(device, 0), a->doubt_ns, b->doubt_ns};
    bool has_rate = device > 0 && fabs(host - device) > doubt; /* else nanoseconds fit both points */
    if (has_rate && host / device > 1e-6 && host / device < 1e9) /* plausible for a clock */
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

/* Small between the two points, growing with the distance outside of them. */
double kb_clock_line_doubt_ns(const kb_clock_line *line, int64_t device)
{
    double part = line->length > 0 ? device_units(line->device0, device) / line->length : 0;
    return fabs(1 - part) * line->doubt0_ns + fabs(part) * line->doubt1_ns;
}
