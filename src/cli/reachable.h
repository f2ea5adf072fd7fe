/* Processes that can be asked for a trace now: those with a control socket of their own, and those
 * that ask a daemon. */
#ifndef KC_REACHABLE_H
#define KC_REACHABLE_H

#include "ondemand/wire/control_wire.h"
#include "ondemand/dynolog/rpc_client.h"

typedef struct kc_process {
    int64_t pid;
    uint32_t user;
    char name[64]; /* "": unknown */
    /* Its control socket: */
    bool has_socket, answers, is_recorder, ring;
    char state[24];
    int64_t iteration; /* -1: none */
    uint64_t traces;
    /* The daemon: */
    bool has_daemon, waits;
    char daemon_client[48]; /* what answers it in place of ckineto; "": ckineto, or unknown */
    int64_t job;
    uint64_t seen_ms_ago;
    int32_t pids[64]; /* whom a request to it may name */
    uint32_t pid_count;
} kc_process;

typedef struct kc_reachable {
    KB_VEC(kc_process) processes; /* by pid */
    char daemon[KO_RPC_HOST_BYTES + 16]; /* HOST:PORT */
    char version[64];                    /* "": it did not answer */
    kineto_error daemon_error;           /* why there is no list */
} kc_reachable;

/** Control sockets of this user (root: its own, too). What one process does not answer is no
 * failure. */
kineto_status kc_reach_sockets(kc_reachable *r, kineto_error *err);
/** What a daemon knows. @param is_here  its processes are of this machine: look up their names.
 *  @return KINETO_E_MEMORY; what the daemon met is in daemon_error. */
kineto_status kc_reach_daemon(kc_reachable *r, const ko_rpc_daemon *daemon, bool is_here,
                              kineto_error *err);
void kc_reachable_free(kc_reachable *r);
/** The secret that a daemon asks for, from the file of --token-file; NULL: none, token stays.
 *  @return what kc_usage_error does if it cannot be read. */
kineto_status kc_read_token(const char *verb, const char *file, char token[KO_RPC_TOKEN_BYTES]);
/** Is this a name of the machine itself? */
bool kc_is_here(const char *host);
#endif
