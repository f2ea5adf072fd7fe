/* ckineto trigger on many hosts: what its two parts share. */
#ifndef KC_TRIGGER_FLEET_H
#define KC_TRIGGER_FLEET_H

#include "cli/trigger.h"

#define KC_ANY_USER (-1) /* the daemon does not say whose it is */

/* Pids alone are not enough: containers, which have users of their own, have pids of their own. */
typedef struct kc_remote {
    int32_t pid;
    int64_t user, job;
    kc_state state;
    const char *why; /* FAILED; of the host, if it is not constant */
    uint64_t bytes;
} kc_remote;

typedef struct kc_host {
    const char *name;
    ko_rpc_daemon daemon;
    bool reached, lists; /* lists: the daemon is ours */
    kineto_error error;  /* not reached: why */
    KB_VEC(kc_remote) processes;
    bool over_limit;                  /* more match: they are not asked */
    kc_names refusals;                /* the daemon's words; processes point to them */
    char path[KO_REQUEST_PATH_BYTES]; /* of its traces, without the pid */
    bool clock_known;
    int64_t clock_ns, clock_doubt_ns; /* its clock before ours; half of the way there and back */
} kc_host;

typedef struct kc_fleet_run {
    const kc_ask *ask;
    KB_VEC(kc_host) hosts;
    int64_t start_ns, asked_real_ns;
    bool asked; /* nobody is added any more */
} kc_fleet_run;

size_t kc_host_count(const kc_host *host, kc_state state);

/* trigger_fleet_show.c */
/** Hosts on which more match than --limit says. */
void kc_fleet_show_limits(const kc_fleet_run *fleet);
/** Hosts whose clocks differ by so much that windows would. */
void kc_fleet_show_clocks(const kc_fleet_run *fleet);
/** @return the exit status. */
int kc_fleet_show(const kc_fleet_run *fleet, bool interrupted);
#endif
