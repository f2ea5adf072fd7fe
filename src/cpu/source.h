/* The source "cpu": what the threads of a program did, watched from outside (docs/reference/cpu.md).
 * Nothing is loaded into the program. Its states and sampled stacks become records in the pool of the
 * recording, so that windows, rings, spools and recovery hold for them as for all other records. */
#ifndef KU_SOURCE_H
#define KU_SOURCE_H

#include "cpu/timers.h"
#include "format/format.h"

#define KU_DEFAULT_HZ 99u
#define KU_MAX_HZ     10000u
#define KU_READING_NS (120 * (uint64_t)KB_MILLISECOND_NS) /* events are read within that time */
#define KU_POLLING_MS 50u /* between two readings of counters, where there are no events */

typedef struct ku_source_options {
    uint32_t pid;     /* the program */
    bool at_exec;     /* it is a child of this process that will execute the program; else it runs, and its
                       * threads and descendants are watched, too */
    bool off_cpu;     /* also the stacks of threads that get blocked, where the user may see them */
    bool page_faults; /* also page faults, with stacks */
    uint32_t hz;      /* samples for each second of CPU time; 0: states only */
    double max_cost_ppm; /* of the program's CPU time, for samples: a lower rate keeps it. 0: no limit */
    uint64_t progress_ns; /* write what goes on so often, for who looks at it meanwhile; 0: only what has ended */
    uint64_t kinds;   /* KINETO_KIND_CPU_SAMPLE, THREAD_STATE, of page faults CPU_INSTANT_EVENT */
    /* Samples come from there, and the kernel's events are not tried. Borrowed; NULL: no timers. */
    ku_timers *timers;
} ku_source_options;

/** May programs of this user be watched here? @param sees_kernel  also what they do inside the kernel.
 *  @return KINETO_E_PERMISSION, KINETO_E_UNSUPPORTED with the reason. */
kineto_status ku_source_probe(bool *sees_kernel, kineto_error *err);

typedef struct ku_source ku_source;
/** Watch a program from now on. The reading thread begins at once.
 *  @param pool  borrowed until destroyed.
 *  @return KINETO_E_PERMISSION, KINETO_E_UNSUPPORTED: it cannot be watched here, err says why, neither
 *  by events nor by polling; KINETO_E_NOT_FOUND: there is no such process. */
kineto_status ku_source_create(const ku_source_options *options, const kf_pool *pool,
                               ku_source **out, kineto_error *err);
/** Why the kernel's events are not used, but counters that are polled; NULL: they are used. With timers
 *  the caller knows why: "". threads: any. */
const char *ku_source_refusal(const ku_source *s);
/** Are the registers of this kind of processor known, so that samples have callers? threads: any. */
bool ku_source_sees_callers(const ku_source *s);
/** Are stacks of blocked threads recorded? threads: any. */
bool ku_source_sees_off_cpu(const ku_source *s);
/** Is it known who wakes threads? threads: any. */
bool ku_source_sees_wakeups(const ku_source *s);
/** The present rate of samples: less than asked for where max_cost_ppm asks for it. threads: any. */
uint32_t ku_source_hz(const ku_source *s);
/** After ku_source_finish: processes that were not sampled, because the library of timers could not be
 *  loaded into them. 0 without timers. */
uint64_t ku_source_without_timers(const ku_source *s);
/** After ku_source_finish: did the program have a file of code in memory whose name begins like this? */
bool ku_source_has_file(const ku_source *s, const char *beginning);
/** Write what has come until now, and what is still open; then stop. Once. NULL is fine. */
void ku_source_finish(ku_source *s);
void ku_source_destroy(ku_source *s); /* NULL is fine */
#endif
