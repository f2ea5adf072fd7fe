/* The driver of a recorder (`ckineto record --on-demand`): windows and ring of its collector, for
 * the programs below it; and its watchdog. */
#ifndef KO_RECORDER_H
#define KO_RECORDER_H

#include "ondemand/controller/controller.h"
#include "session/session.h"

typedef struct ko_recorder ko_recorder;
typedef struct ko_recorder_options {
    ks_collector *collector; /* on_demand, started; borrowed */
    uint64_t kinds;          /* of requests that name none */
    uint64_t ring_ns;        /* the collector's; 0: no ring */
    /* Automatic dumps: */
    double slow_step; /* when a step takes this many times the usual length; 0: never */
    uint64_t hang_ns; /* when no step begins for this long; 0: never */
} ko_recorder_options;
kineto_status ko_recorder_create(const ko_recorder_options *options, ko_recorder **out,
                                 kineto_error *err);
/** After the controller whose driver it was. NULL is fine. */
void ko_recorder_destroy(ko_recorder *r);
void ko_recorder_driver(ko_recorder *r, ko_driver *out);
/** A listener that checks the programs' steps and requests dumps. NULL without an error: the
 *  options enable neither. */
ko_listener *ko_recorder_watchdog_create(const ko_recorder_options *options, kineto_error *err);
#endif
