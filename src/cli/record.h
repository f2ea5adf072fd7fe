/* ckineto record that is asked for traces while the program runs: record_host.c. */
#ifndef KC_RECORD_H
#define KC_RECORD_H

#include "cli/cli.h"
#include "session/session.h"

typedef struct kc_host_options {
    kc_optional_text on_demand;          /* --on-demand[=SOURCES] */
    const char *ring, *slow_step, *hang; /* as given: seconds, a factor, seconds; NULL */
    uint64_t ring_mb;
    bool crash;
    const char *output; /* --output, if it was given: what the ring holds in the end */
    uint64_t kinds;
    bool quiet;
} kc_host_options;

/** How the program ended: into the header of the trace that is built next, as ckineto_dump_reason. */
void kc_record_note_end(ks_collector *c, const kc_child *child);

/* ---- record_host.c ---- */
/** Is one of them given? */
bool kc_host_wanted(const kc_host_options *o);
/** Check them, and change what they change of the collector's options; paths live as long as the
 *  process. @return KINETO_E_ARGUMENT after the mistake was explained on stderr. */
kineto_status kc_host_read(const kc_host_options *o, ks_collector_options *c);
/** Before the program is started: what the recorder listens to, its program does not. */
kineto_status kc_host_enter(const kc_host_options *o, kineto_error *err);
/** Answer requests until the program has ended. @return whether something could not be written. */
bool kc_host_run(const kc_host_options *o, ks_collector *c, kc_child *child);
#endif
