/* Clocks of devices. A clock point pairs a device's time with the host's time at the same moment,
 * with an uncertainty (doubt); a line through two of these points converts device times into host
 * times. */
#ifndef KB_CLOCK_LINE_H
#define KB_CLOCK_LINE_H
#include "base/base.h"

typedef struct kb_clock_point {
    int64_t device, ns; /* the device's unit; the host's time */
    double doubt_ns;    /* of ns, to either side */
} kb_clock_point;
typedef KB_VEC(kb_clock_point) kb_clock_points;

typedef struct kb_clock_line {
    int64_t device0, ns0;        /* the first of its two points */
    double rate;                 /* ns per unit of the device */
    double length;               /* units from there to the other point; 0: there is none */
    double doubt0_ns, doubt1_ns; /* at the two points */
} kb_clock_line;

/** Through the two points, of at least one, that give the most certain rate. Without a usable rate
 *  the clock is assumed to count nanoseconds.
 *  @param points  are put in order of the host's time */
void kb_clock_line_fit(kb_clock_line *line, kb_clock_point *points, size_t count);
int64_t kb_clock_line_ns(const kb_clock_line *line, int64_t device);
/** Distance of a point from the line. */
double kb_clock_line_off_ns(const kb_clock_line *line, const kb_clock_point *point);
/** Uncertainty of the line at a device time. */
double kb_clock_line_doubt_ns(const kb_clock_line *line, int64_t device);
#endif
