/* Processes that can be traced now: those with a control socket of their own, and those that poll a
 * daemon. */
#ifndef KC_TRACEABLE_H
#define KC_TRACEABLE_H

#include "ondemand/wire/control_wire.h"
#include "ondemand/dynolog/rpc_client.h"

typedef struct kc_process {
    int64_t pid;
    uint32_t user;
    char name[64]; /* "": unknown */
    /* From its control socket; valid if has_socket: */
    bool has_socket, answers, is_recorder, ring;
    char state[24];
    int64_t iteration; /* -1: none */
    uint64_t traces;
    /* From the daemon; valid if has_daemon: */
    bool has_daemon, waits;
    /* The profiler that answers the daemon in place of ckineto; "": ckineto, or unknown. */
    char daemon_client[48];
    int64_t job;
    uint64_t seen_ms_ago;
    /* pids that a request to it may name */
    int32_t pids[64];
    uint32_t pid_count;
} kc_process;

typedef struct kc_traceable {
    KB_VEC(kc_process) processes;        /* by pid */
    char daemon[KO_RPC_HOST_BYTES + 16]; /* HOST:PORT */
    /* of the daemon; "": it did not answer */
    char version[64];
    /* why it gave no list */
    kineto_error daemon_error;
} kc_traceable;

/** Query the control sockets of this user (of root: root's). A process that does not answer is not
 * a failure. */
kineto_status kc_traceable_add_sockets(kc_traceable *r, kineto_error *err);
/** Query a daemon. @param is_here  its processes are on this machine: resolve their names.
 *  @return KINETO_E_MEMORY or OK; errors of the daemon are in daemon_error. */
kineto_status kc_traceable_add_daemon(kc_traceable *r, const ko_rpc_daemon *daemon, bool is_here,
                                      kineto_error *err);
void kc_traceable_free(kc_traceable *r);
/** Read the daemon's secret from the file of --token-file. @param file  NULL: none, token stays.
 *  @return the result of kc_usage_error if it cannot be read. */
kineto_status kc_read_token(const char *verb, const char *file, char token[KO_RPC_TOKEN_BYTES]);
/** Does this name mean the local host? */
bool kc_is_local_host(const char *host);
#endif
