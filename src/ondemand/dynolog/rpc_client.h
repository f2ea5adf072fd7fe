/* Client of dyno's JSON-RPC: how `ckineto trigger` and `ckineto ps` call a daemon, ours or
 * Dynolog's, over TCP. One connection per call, one frame each way: an int32 length in the byte
 * order of the machine, then JSON. Every call has a timeout and may be made by any thread. */
#ifndef KO_RPC_CLIENT_H
#define KO_RPC_CLIENT_H

#include "base/base.h"

#define KO_RPC_PORT        1778u /* that of Dynolog */
#define KO_RPC_LIMIT_MS    5000u
#define KO_RPC_HOST_BYTES  256u
#define KO_RPC_TOKEN_BYTES 513u /* with the NUL */

/** The daemon to call, and the timeout. */
typedef struct ko_rpc_daemon {
    char host[KO_RPC_HOST_BYTES]; /* name or address; "": 127.0.0.1 */
    uint16_t port;                /* 0: KO_RPC_PORT */
    const char *token;            /* NULL: none. Only for daemons that require one */
    uint32_t limit_ms; /* for the whole call except resolving the name; 0: KO_RPC_LIMIT_MS */
} ko_rpc_daemon;

/** HOST, HOST:PORT, :PORT, [IPV6]:PORT or an IPv6 address alone; `out` keeps its token and limit,
 *  and its port if the text gives none and it is not 0. */
kineto_status ko_rpc_parse_address(const char *text, ko_rpc_daemon *out, kineto_error *err);
/** The first line of a file that only we (or root) may read.
 *  @return KINETO_E_PERMISSION if others may; KINETO_E_FORMAT if it is not a token of 16 to 512
 *           visible ASCII characters. */
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
/** @return KINETO_E_NOT_FOUND: no daemon listens there; KINETO_E_BUSY: timeout;
 *           KINETO_E_PERMISSION: refused (token, user), with the daemon's text; KINETO_E_FORMAT:
 *           malformed reply; KINETO_E_UNSUPPORTED: it closed without a reply, as Dynolog does for
 *           unknown functions; KINETO_E_ARGUMENT: the daemon rejected the request, with its text.
 *           `out` is empty then. */
kineto_status ko_rpc_trigger(const ko_rpc_daemon *d, const ko_rpc_request *request,
                             ko_rpc_result *out, kineto_error *err);
void ko_rpc_result_free(ko_rpc_result *r);

/** "listProcesses", which Dynolog does not have: KINETO_E_UNSUPPORTED. */
typedef struct ko_rpc_process {
    int64_t job;
    uint32_t user;
    int32_t pid;                 /* as reported by itself */
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

/** "getStatus": 1 without DCGM. */
kineto_status ko_rpc_status(const ko_rpc_daemon *d, int64_t *status, kineto_error *err);
/** "getVersion": "ckineto 0.1.0", "0.6.0" of Dynolog. */
kineto_status ko_rpc_version(const ko_rpc_daemon *d, char version[64], kineto_error *err);
/** "getTime": the daemon's clock, ns since 1970, never negative; KINETO_E_UNSUPPORTED for Dynolog,
 *  which does not have it. */
kineto_status ko_rpc_time(const ko_rpc_daemon *d, int64_t *time_ns, kineto_error *err);

/* ---- rpc_client.c, for rpc_calls.c ----------------------------------------------------------- */
#define KO_RPC_MAX_BYTES (1u << 20) /* of a request; a daemon refuses longer ones */
/** Send one request over a connection of its own and wait for the reply.
 *  @param answer  receives the JSON text, NUL-terminated, to be freed. */
kineto_status ko_rpc_exchange(const ko_rpc_daemon *d, kineto_string question, char **answer,
                              size_t *bytes, kineto_error *err);
#endif
