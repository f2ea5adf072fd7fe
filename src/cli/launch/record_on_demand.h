/* ckineto record --on-demand and --ring: traces are requested while the program runs. */
#ifndef KC_RECORD_ON_DEMAND_H
#define KC_RECORD_ON_DEMAND_H

#include "cli/launch/child.h"
#include "cli/options.h"
#include "session/session.h"

typedef struct kc_on_demand_options {
    /* --on-demand[=SOURCES] */
    kc_optional_text on_demand;
    /* as given: seconds, a factor, seconds; NULL */
    const char *ring, *slow_step, *hang;
    uint64_t ring_mb;
    bool crash;
    /* --output if given: receives the ring at the end; else NULL */
    const char *output;
    uint64_t kinds;
    bool quiet;
} kc_on_demand_options;

/** Is --on-demand or --ring given? */
bool kc_on_demand_wanted(const kc_on_demand_options *o);
/** Check the options and set those of the collector that they change; paths live as long as the
 *  process. @return KINETO_E_ARGUMENT after the mistake was explained on stderr. */
kineto_status kc_on_demand_parse(const kc_on_demand_options *o, ks_collector_options *c);
/** Before the program is started: remove from its environment what the recorder itself serves. */
kineto_status kc_on_demand_prepare(const kc_on_demand_options *o, kineto_error *err);
/** Answer requests until the program has ended. @return true if a trace could not be written. */
bool kc_on_demand_run(const kc_on_demand_options *o, ks_collector *c, kc_child *child);
#endif
