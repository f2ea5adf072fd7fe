/* The asking end of dyno's JSON-RPC: what `ckineto trigger` and `ckineto ps` say to a daemon, ours
 * or Dynolog's, over TCP. One connection per question, a frame each way: i32 length in the order of
 * the machine, then JSON. Every call here is bounded in time and may be made by any thread. */
#ifndef KO_RPC_CLIENT_H
#define KO_RPC_CLIENT_H

#include "base/base.h"

#define KO_RPC_PORT        1778u /* that of Dynolog */
#define KO_RPC_LIMIT_MS    5000u
#define KO_RPC_HOST_BYTES  256u
#define KO_RPC_TOKEN_BYTES 513u /* with the NUL */

/** Whom to ask, and how long to wait for it. */
typedef struct ko_rpc_daemon {
    char host[KO_RPC_HOST_BYTES]; /* name or address; "": 127.0.0.1 */
    uint16_t port;                /* 0: KO_RPC_PORT */
    const char *token;            /* NULL: none. Only to daemons that ask for one */
    uint32_t limit_ms; /* for all of a question, name look-up apart; 0: KO_RPC_LIMIT_MS */
} ko_rpc_daemon;

/** HOST, HOST:PORT, :PORT, [IPV6]:PORT or an IPv6 address alone; `out` keeps its token and limit,
 *  and where none is said its port, if that is not 0. */
kineto_status ko_rpc_parse_address(const char *text, ko_rpc_daemon *out, kineto_error *err);
/** The first line of a file that only we (or root) may read.
 *  @return KINETO_E_PERMISSION if others may; KINETO_E_FORMAT if it is no token: 16 to 512 visible
 *          ASCII characters. */
kineto_status ko_rpc_read_token(const char *path, char token[KO_RPC_TOKEN_BYTES],
                                kineto_error *err);

typedef KB_VEC(int32_t) ko_rpc_pids;

/** "setKinetOnDemandRequest". */
typedef struct ko_rpc_request {
    int64_t job; /* 0: processes without a SLURM_JOB_ID */
    const int32_t *pids;
    uint32_t pid_count; /* 0: all of the job */
    int64_t limit;      /* of processes to trigger; negative: none */
    kineto_string config;
} ko_rpc_request;
typedef struct ko_rpc_result {
    ko_rpc_pids matched, triggered;
    uint64_t busy; /* matched, but they have not fetched an earlier one yet */
} ko_rpc_result;
/** @return KINETO_E_NOT_FOUND: nobody listens there; KINETO_E_BUSY: no answer in time;
 *          KINETO_E_PERMISSION: refused (token, user), with what the daemon says; KINETO_E_FORMAT:
 * it is no such daemon; KINETO_E_UNSUPPORTED: it closed without an answer, as Dynolog does with
 * what it does not know; KINETO_E_ARGUMENT: the daemon refused what was asked, with its words.
 * `out` is empty then. */
kineto_status ko_rpc_trigger(const ko_rpc_daemon *d, const ko_rpc_request *request,
                             ko_rpc_result *out, kineto_error *err);
void ko_rpc_result_free(ko_rpc_result *r);

/** "listProcesses", which Dynolog has not: KINETO_E_UNSUPPORTED there. */
typedef struct ko_rpc_process {
    int64_t job;
    uint32_t user;
    int32_t pid;                 /* as it said itself */
    uint32_t pids_at, pid_count; /* into pids of the list: it and its ancestors, ascending */
    uint64_t seen_ms_ago;
    bool waits; /* a request waits for it to ask */
} ko_rpc_process;
typedef struct ko_rpc_list {
    KB_VEC(ko_rpc_process) processes;
    ko_rpc_pids pids;
} ko_rpc_list;
kineto_status ko_rpc_list_processes(const ko_rpc_daemon *d, ko_rpc_list *out, kineto_error *err);
void ko_rpc_list_free(ko_rpc_list *l);

/** "getStatus": 1 where there is no DCGM. */
kineto_status ko_rpc_status(const ko_rpc_daemon *d, int64_t *status, kineto_error *err);
/** "getVersion": "ckineto 0.1.0", "0.6.0" of Dynolog. */
kineto_status ko_rpc_version(const ko_rpc_daemon *d, char version[64], kineto_error *err);
/** "getTime": what its clock says, ns since 1970, never below 0; KINETO_E_UNSUPPORTED of Dynolog,
 *  which has none. */
kineto_status ko_rpc_time(const ko_rpc_daemon *d, int64_t *time_ns, kineto_error *err);

/* ---- rpc_client.c, for rpc_calls.c ------------------------------------------------------------- */
#define KO_RPC_MAX_BYTES (1u << 20) /* of a request; a daemon refuses longer ones */
/** Send one request over a connection of its own and wait for the reply.
 *  @param answer  receives the JSON text, NUL-terminated, to be freed. */
kineto_status ko_rpc_exchange(const ko_rpc_daemon *d, kineto_string question, char **answer,
                              size_t *bytes, kineto_error *err);
#endif
