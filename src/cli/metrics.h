/* `ckineto daemon --metrics`: the rings of this user's programs as text for Prometheus. */
#ifndef KC_METRICS_H
#define KC_METRICS_H

#include "base/base.h"

#include <sys/types.h>

/* Processes that collect and serve; 0: none. */
typedef struct kc_metrics {
    pid_t collector, server;
    uint16_t port; /* that is served */
    char directory[64]; /* of temporary files; "": none */
} kc_metrics;

/** Read all rings every `seconds`, and write their numbers.
 *  @param target  a file, or a port of 127.0.0.1 that serves /metrics.
 *  @return KINETO_E_BUSY if the port is in use. */
kineto_status kc_metrics_start(kc_metrics *m, const char *target, uint64_t seconds, kineto_error *err);
void kc_metrics_stop(kc_metrics *m);
#endif
