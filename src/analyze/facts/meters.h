/* Sampled counters of devices by time: power, energy, clocks, and whether clocks are held down. The names are those that all
 * sources of ckineto write (docs/how-to/accelerators.md). */
#ifndef KA_METERS_H
#define KA_METERS_H

#include "analyze/dataset/dataset.h"

enum {
    KA_METER_ENERGY,        /* "energy [J]", which grows */
    KA_METER_POWER,         /* "power [W]" */
    KA_METER_CLOCK,         /* "SM clock [MHz]" */
    KA_METER_SLOW_POWER,    /* "slow for power": 1 while clocks are held down */
    KA_METER_SLOW_HEAT,     /* "slow for heat" */
    KA_METER_SLOW_HARDWARE, /* "slow for hardware" */
    KA_METER_SERIES
};

typedef struct ka_sample {
    int64_t ns;
    double value;
} ka_sample;
typedef KB_VEC(ka_sample) ka_samples;

/** One device: a process row that has such counters. */
typedef struct ka_meter {
    uint32_t process;                   /* index in the trace */
    ka_samples series[KA_METER_SERIES]; /* by time; each may be empty */
    bool restarted;                     /* its energy fell: the counter began anew */
} ka_meter;
typedef KB_VEC(ka_meter) ka_meters;

/** All meters of the dataset's trace; free them in any case. Energy goes on from where it was when
 *  its counter restarted. False: out of memory. */
bool ka_meters_read(const ka_dataset *s, ka_meters *out);
void ka_meters_free(ka_meters *all);
/** Index of the first sample at or after `ns`; the count if there is none. */
size_t ka_samples_find(const ka_samples *all, int64_t ns);
/** On the line between two samples; a moment outside of them has the value of the nearest. `all` is
 *  not empty. */
double ka_samples_at(const ka_samples *all, int64_t ns);
/** Are there samples from before the middle of a time to after it? Else nothing is known of it. */
bool ka_samples_are_around(const ka_samples *all, int64_t start_ns, int64_t end_ns);
/** What a device used from start to end: of its counter of energy, which misses no peak between
 *  samples, else the area below its power. False: no samples are around. */
bool ka_meter_joules(const ka_meter *m, int64_t start_ns, int64_t end_ns, double *joules);
#endif
