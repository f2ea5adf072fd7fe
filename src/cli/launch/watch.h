/* The source "cpu" in `ckineto record`: the option --cpu, and watching the program from its start. */
#ifndef KC_WATCH_H
#define KC_WATCH_H

#include "cli/launch/child.h"
#include "session/session.h"

typedef struct kc_watch {
    const char *option; /* of --cpu: "off", samples for each second of CPU time; NULL: the default */
    bool off_cpu; /* --off-cpu */
    uint32_t hz;
    bool is_on;
    uint64_t kinds; /* of those to record, the ones that this source delivers */
    ks_collector *collector;
    struct ku_source *source;
} kc_watch;

/** Read the option. KINETO_E_ARGUMENT: it is wrong, which was reported. */
kineto_status kc_watch_parse(kc_watch *w);
/** Let the child be watched from its first instruction. That it cannot be goes into the ledger. */
void kc_watch_prepare(kc_watch *w, ks_collector *c, uint64_t kinds, kc_child *child);
/** The program has ended: write the rest. Before the collector finishes. */
void kc_watch_finish(kc_watch *w);
#endif
