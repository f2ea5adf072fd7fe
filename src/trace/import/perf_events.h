/* What the events of a perf.data file say: which of them measure CPU time and so sample stacks, and
 * which report that a thread lost its CPU. */
#ifndef KT_PERF_EVENTS_H
#define KT_PERF_EVENTS_H

#include "trace/import/perf_file.h"

typedef enum kt_perf_role {
    KT_PERF_OTHER,       /* counted in the ledger */
    KT_PERF_CPU_TIME,    /* its samples are CPU time */
    KT_PERF_SWITCH_STACK,/* context-switches: the stack of a thread that loses its CPU */
    KT_PERF_SCHED_SWITCH,/* the kernel's tracepoint sched:sched_switch */
    KT_PERF_SCHED_WAKING /* sched:sched_waking and sched_wakeup: a thread can run again */
} kt_perf_role;

typedef struct kt_perf_event {
    kt_perf_role role;
    double ns_per_unit; /* CPU_TIME: of a sample's period */
    bool is_estimated;  /* it counts cycles or instructions, whose time was estimated */
    uint64_t samples;
} kt_perf_event;

/* Offsets in the raw data of sched:sched_switch, and of the events that wake. */
typedef struct kt_perf_sched_switch {
    uint32_t prev_pid, prev_state, next_pid;
    uint32_t woken_pid; /* of sched_waking */
} kt_perf_sched_switch;

typedef struct kt_perf_events {
    kt_perf_event *of_attr; /* by attribute */
    uint64_t samples;       /* of all */
    kt_perf_sched_switch sched_switch;
    bool has_cpu_time, has_switches; /* has_switches: threads are seen to lose their CPU */
    bool by_tracepoint;              /* the latter by sched:sched_switch */
} kt_perf_events;

/** False: out of memory. Free in any case. */
bool kt_perf_events_read(const kt_perf_file *file, kt_perf_events *out);
void kt_perf_events_free(kt_perf_events *events);
/** Raw data of sched:sched_switch. False: too short. */
bool kt_perf_sched_switch_read(const kt_perf_events *events, const kt_perf_sample *sample,
                               uint32_t *prev_tid, uint32_t *next_tid, bool *is_preempted);
/** The same of the events that wake. */
bool kt_perf_sched_waking_read(const kt_perf_events *events, const kt_perf_sample *sample,
                               uint32_t *tid);
#endif
