/* The processor's counters of energy (RAPL), for `ckineto record --energy`: of each package, of its cores and graphics,
 * of its memory, and of the whole machine. In a trace each package is a row like a device, whose counter
 * "energy [J]" the table `energy` reads. */
#ifndef KU_ENERGY_H
#define KU_ENERGY_H

#include "format/format.h"

#define KU_MAX_ENERGY_COUNTERS 128u

typedef struct ku_energy_counter {
    const struct ku_energy_domain *domain;
    uint32_t package;
    char device[48]; /* "CPU package 0" */
    int32_t number;  /* of that device */
    int fd;
    bool is_text;   /* of powercap */
    double joules;  /* of one unit */
    uint64_t range; /* the highest reading, after which it is 0 again; 0: it does not wrap */
    uint64_t last;  /* reading */
    uint64_t units; /* counted since it was opened */
} ku_energy_counter;

typedef struct ku_energy_counters {
    ku_energy_counter list[KU_MAX_ENERGY_COUNTERS];
    uint32_t count;
    bool is_refused;       /* this user may not open one */
    uint64_t failed_reads;
} ku_energy_counters;

/* ---- energy_counters.c. One thread uses them --------------------------------------------------- */
/** Find and open all of them. @param sysfs  where sysfs is mounted.
 *  @return KINETO_E_PERMISSION: this user may not read them; KINETO_E_NOT_FOUND: there are none. */
kineto_status ku_energy_open(const char *sysfs, ku_energy_counters *out, kineto_error *err);
/** Read one. False: that failed, which is counted. */
bool ku_energy_read(ku_energy_counters *all, uint32_t i);
/** Names in traces: of the counter, of its series. */
const char *ku_energy_name(const ku_energy_counter *c);
const char *ku_energy_series(const ku_energy_counter *c);
/** "CPU energy (CPU package 0), …": those that have counted something, or that have not. @return how many. */
uint32_t ku_energy_list(const ku_energy_counters *all, bool have_counted, char *text, size_t size);
void ku_energy_close(ku_energy_counters *all);

/* ---- energy.c ----------------------------------------------------------------------------------- */
typedef struct ku_energy ku_energy;
/** Sample them from now on. @param pool  borrowed until destroyed. @return as ku_energy_open. */
kineto_status ku_energy_create(const char *sysfs, const kf_pool *pool, ku_energy **out, kineto_error *err);
/** Read them once more, then stop. @return what they have counted; valid until destroyed. */
const ku_energy_counters *ku_energy_finish(ku_energy *e);
void ku_energy_destroy(ku_energy *e); /* NULL is fine */
#endif
