/* The source "cpu" in `ckineto record`: the option --cpu, and watching the program from its start. */
#ifndef KC_WATCH_H
#define KC_WATCH_H

#include "cli/launch/child.h"
#include "cli/options.h"
#include "session/session.h"

/** Reason in the ledger, source "cpu": the kernel refuses its events. */
#define KC_COUNTERS_NO_SAMPLES KT_REASON_COUNTERS " [ms], no samples"

typedef struct kc_watch {
    const char *option; /* of --cpu: "off", samples for each second of CPU time; NULL: the default */
    bool off_cpu, page_faults; /* --off-cpu, --page-faults */
    kc_optional_text timers_option; /* --cpu-timers: "always", or where the kernel's events are refused */
    struct ku_timers *timers;       /* NULL: not used */
    char refusal[256];              /* why they are used */
    uint32_t hz;
    bool is_on;
    double max_cost_ppm; /* of the program's CPU time, for samples; 0: no limit */
    uint64_t progress_ns; /* write what goes on so often, for a live view; 0: only what has ended */
    uint64_t kinds; /* of those to record, the ones that this source delivers */
    uint32_t remedies; /* see remedies.h; when it has finished */
    ks_collector *collector;
    struct ku_source *source;
} kc_watch;

/** Read the option. KINETO_E_ARGUMENT: it is wrong, which was reported. */
kineto_status kc_watch_parse(kc_watch *w);
/** With --cpu-timers, where they are needed: the memory for samples of the program's own timers.
 *  @param path  receives what the program opens; NULL: timers are not used. */
kineto_status kc_watch_prepare_timers(kc_watch *w, uint64_t kinds, const char **path, kineto_error *err);
/** Let the child be watched from its first instruction. That it cannot be goes into the ledger. */
void kc_watch_prepare(kc_watch *w, ks_collector *c, uint64_t kinds, kc_child *child);
/** Watch a program that runs already, and what it has started.
 *  @return KINETO_E_PERMISSION, … : it cannot be watched; err says why. */
kineto_status kc_watch_attach(kc_watch *w, ks_collector *c, uint64_t kinds, uint32_t pid,
                              kineto_error *err);
/** The program has ended: write the rest. Before the collector finishes. */
void kc_watch_finish(kc_watch *w);
#endif
