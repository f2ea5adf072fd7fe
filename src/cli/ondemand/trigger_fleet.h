/* ckineto trigger on many hosts: what trigger_fleet.c and trigger_fleet_show.c share. */
#ifndef KC_TRIGGER_FLEET_H
#define KC_TRIGGER_FLEET_H

#include "cli/ondemand/trigger.h"

#define KC_ANY_USER (-1) /* the daemon does not report the user */

/* A process on another host. A pid alone does not identify it: containers, which have users of
 * their own, have pids of their own. */
typedef struct kc_remote {
    int32_t pid;
    int64_t user, job;
    kc_target_state state;
    /* FAILED: the reason; owned by kc_host.refusals unless constant */
    const char *why;
    uint64_t bytes;
} kc_remote;

typedef struct kc_host {
    const char *name;
    ko_rpc_daemon daemon;
    bool reached;
    /* the daemon is ckineto's, and lists processes */
    bool lists;
    /* why it was not reached */
    kineto_error error;
    KB_VEC(kc_remote) processes;
    /* more than --limit match: the others get no request */
    bool over_limit;
    /* the daemon's texts; `why` of processes points to them */
    kc_names refusals;
    /* of its traces, without the pid */
    char path[KO_REQUEST_PATH_BYTES];
    bool clock_known;
    /* how far its clock is ahead of ours */
    int64_t clock_ns;
    /* half of the round trip */
    int64_t clock_doubt_ns;
} kc_host;

typedef struct kc_fleet {
    const kc_request *request;
    KB_VEC(kc_host) hosts;
    int64_t start_ns, asked_real_ns;
    /* requests were sent: no process is added any more */
    bool asked;
} kc_fleet;

size_t kc_host_count(const kc_host *host, kc_target_state state);

/* trigger_fleet_show.c */
/** Report hosts on which more processes match than --limit allows. */
void kc_fleet_show_limits(const kc_fleet *fleet);
/** Report hosts whose clocks differ so much that the windows would not coincide. */
void kc_fleet_show_clocks(const kc_fleet *fleet);
/** @return the exit status. */
int kc_fleet_show(const kc_fleet *fleet, bool interrupted);
#endif
