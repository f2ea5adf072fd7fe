/* Clocks of devices. Now and then a device's time is known to have been that of a moment of the
 * host's, to within a doubt; a line through two of these points turns device times into the host's.
 */
#ifndef KB_CLOCK_LINE_H
#define KB_CLOCK_LINE_H
#include "base/base.h"

typedef struct kb_clock_point {
    int64_t device, ns; /* the device's unit; the host's time */
    double doubt_ns;    /* of ns, to either side */
} kb_clock_point;
typedef KB_VEC(kb_clock_point) kb_clock_points;

typedef struct kb_clock_line {
    int64_t device0, ns0;        /* it goes through here */
    double rate;                 /* ns per unit of the device */
    double length;               /* units from there to the other point; 0: there is none */
    double doubt0_ns, doubt1_ns; /* at the two points */
} kb_clock_line;

/** Through the two points that leave the least doubt of the rate, of at least one. A clock whose
 *  points do not tell its rate is taken to count nanoseconds.
 *  @param points  are put in order of the host's time */
void kb_clock_line_fit(kb_clock_line *line, kb_clock_point *points, size_t count);
int64_t kb_clock_line_ns(const kb_clock_line *line, int64_t device);
/** How far from the line a point is. */
double kb_clock_line_off_ns(const kb_clock_line *line, const kb_clock_point *point);
/** How far the line itself may be off at a time of the device. */
double kb_clock_line_doubt_ns(const kb_clock_line *line, int64_t device);
#endif
