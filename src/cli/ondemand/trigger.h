/* ckineto trigger: what its parts share. One command requests traces from some processes, each by
 * the first way that is available: the control socket of the process (trigger_socket.c), the RPC
 * of a daemon (trigger_daemon.c), or Dynolog's socket, which this command binds itself while no
 * daemon has it (trigger_own_daemon.c). One thread runs all of it; trigger_run.c has the loop. */
#ifndef KC_TRIGGER_H
#define KC_TRIGGER_H

#include "cli/ondemand/timeouts.h"
#include "cli/options.h"
#include "cli/print.h"
#include "ondemand/wire/control_wire.h"
#include "ondemand/dynolog/dyno.h"
#include "ondemand/request/request.h"
#include "ondemand/dynolog/rpc_client.h"

#include <time.h>

#define KC_MS_NS     UINT64_C(1000000)

/* Periods of processes that poll Dynolog's socket, from libkineto's defaults. */
#define KC_POLL_NS UINT64_C(5500000000) /* between two polls: 5 s, and a tenth */
/* For processes that found no daemon: libkineto may be 5.1 s from its next try, and accepts a
 * reply to its last one 5 s later; ckineto waits up to 10 s, and a tenth. */
#define KC_RETURN_NS (2 * KC_POLL_NS)
#define KC_TICK_NS   KB_SECOND_NS       /* how often libkineto checks whether its start has come */
#define KC_SLACK_NS  (2 * KB_SECOND_NS) /* libkineto refuses a start that leaves less */
#define KC_WARMUP_NS (5 * KB_SECOND_NS) /* libkineto's default */

/* ---- the request ----------------------------------------------------------------------------- */

typedef KB_VEC(int32_t) kc_pids;

/* Numbers that were not given are KC_NOT_GIVEN. */
#define KC_NOT_GIVEN UINT64_MAX
typedef struct kc_request {
    /* Which processes: exactly one of pids, has_job and all. pids match their descendants, too. */
    kc_pids pids;
    /* SLURM_JOB_ID; with has_job */
    int64_t job;
    bool has_job, all;
    bool dump, cancel;
    /* each process begins as soon as it can */
    bool separately;
    bool has_wait, json;
    uint64_t duration_ms, iterations, start_iteration, roundup, warmup_ms, warmup_iterations;
    /* a memory snapshot in place of a trace */
    uint64_t snapshot_ms;
    /* since 1970; 0: not given */
    int64_t start_ns;
    /* NULL: the default */
    const char *activities;
    bool shapes, memory, stack, flops, modules;
    kc_texts set;   /* KEY=VALUE */
    uint64_t limit; /* of processes */
    /* With has_wait: requests after an empty trace. 0: processes and daemons that are absent are
     * not waited for either. */
    uint64_t retry;
    /* 0: derived from the request */
    uint64_t wait_ns;
    uint64_t discover_ns;
    /* --discover was given: processes that do not seem to poll are waited for, too. */
    bool has_discover;
    char out[KO_REQUEST_PATH_BYTES]; /* absolute */
    bool has_out;
    /* NULL: abstract sockets */
    const char *socket_directory;
    /* of the daemon; NULL: this machine */
    const char *host;
    /* of daemons that are named without one; 0: the default */
    uint16_t port;
    /* many daemons; NULL */
    const char *hosts, *slurm;
    /* use only daemons, which may be on other hosts */
    bool remote;
    const char *token_file;
    char token[KO_RPC_TOKEN_BYTES]; /* "": none */
    /* REQUEST_GROUP_TRACE_ID: the same for all processes */
    char group[32];
} kc_request;

/** By iteration: only the steps of the program determine when the trace ends. */
static inline bool kc_by_iteration(const kc_request *request)
{
    return request->iterations != KC_NOT_GIVEN;
}

static inline bool kc_is_snapshot(const kc_request *request)
{
    return request->snapshot_ms != KC_NOT_GIVEN;
}

/** How long to retry while the named daemon does not listen, or no process is found at all. */
static inline uint64_t kc_retry_ns(const kc_request *request)
{
    uint64_t max_ns = request->wait_ns ? request->wait_ns : request->discover_ns;
    return request->has_wait && request->retry ? max_ns : 0;
}

static inline const char *kc_default_name(const kc_request *request)
{
    return kc_is_snapshot(request) ? "memory_snapshot.pickle" : "trace.json";
}

/* ---- trigger_request.c: texts of requests, names of files ------------------------------------ */

/* How the request is written for one process. */
typedef struct kc_request_format {
    /* ACTIVITIES_LOG_FILE */
    const char *path;
    /* since 1970; 0: as soon as possible */
    int64_t start_ns;
    /* for libkineto: no quotes, and its default warm-up */
    bool plain;
} kc_request_format;

/** The text of a request, to be freed. KINETO_E_ARGUMENT: a mistake in --set, or a value that
 *  libkineto cannot read. */
kineto_status kc_request_text(const kc_request *request, const kc_request_format *how, char **out,
                              kineto_error *err);
/** Parse it as a process would, so that mistakes are reported before it is sent. */
kineto_status kc_request_check(const kc_request *request, kineto_error *err);
/** How long before its window a process must have the request.
 *  @param wire  it is sent over Dynolog's wire, not to a control socket. */
int64_t kc_request_lead_ns(const kc_request *request, bool wire);
/** Expected length of the window; by iteration a guess. */
uint64_t kc_request_length_ns(const kc_request *request);
/** An absolute path without "." and "..", its directory with links resolved. */
kineto_status kc_absolute_path(const char *path, char out[KO_REQUEST_PATH_BYTES],
                               kineto_error *err);
bool kc_is_below(const char *path, const char *directory);
/** `path` with "_SUFFIX" where Kineto inserts the pid. False: too long. */
bool kc_path_with_suffix(const char *path, const char *suffix, char out[KO_REQUEST_PATH_BYTES]);
bool kc_path_with_pid(const char *path, uint32_t pid, char out[KO_REQUEST_PATH_BYTES]);

/* ---- targets: the processes that receive requests -------------------------------------------- */

/** CLOCK_MONOTONIC: the clock of all waits and limits. */

typedef enum kc_via { KC_VIA_NONE, KC_VIA_SOCKET, KC_VIA_DAEMON, KC_VIA_OWN } kc_via;

/* States of a target, in the order in which they follow each other. FAILED may follow any state but
 * DONE; with --retry, FOUND follows DONE when the trace is empty. */
typedef enum kc_target_state {
    KC_FOUND, /* no request was sent to it yet */
    KC_ASKED, /* a daemon, or its socket, has the request */
    KC_TAKEN, /* the process has the request */
    KC_WARMUP,
    KC_COLLECT, /* over Dynolog's wire: the process is busy */
    KC_PROCESS,
    KC_DONE, /* its file is complete; without --wait: the request was sent */
    KC_FAILED
} kc_target_state;
const char *kc_target_state_name(kc_target_state state);

typedef struct kc_target {
    /* as the process itself reports it */
    uint32_t pid;
    /* its start time; 0: it is not visible from here */
    uint64_t born;
    int64_t job;
    char name[32];
    kc_via via;
    kc_target_state state;
    /* the state printed last; valid if is_shown */
    kc_target_state shown;
    bool is_shown;
    /* in the request, without the pid */
    char asked_path[KO_REQUEST_PATH_BYTES];
    /* the file that it writes; then the final file */
    char path[KO_REQUEST_PATH_BYTES];
    /* where the file is moved; "": it stays */
    char wanted[KO_REQUEST_PATH_BYTES];
    /* FAILED: the reason */
    char why[1024];
    uint64_t bytes;
    /* SOCKET: the connection */
    ko_control_peer *peer;
    /* SOCKET: pids that requests to it may name, its own first: a recorder serves its programs. */
    uint32_t served[64], served_count;
    uint64_t asked_ns; /* CLOCK_MONOTONIC */
    int64_t asked_real_ns;
    /* OWN: when it last polled after it had received the request: busy, or ready for another one.
     * 0: never. */
    uint64_t busy_ns, idle_ns;
    /* of its trace once that was opened; else KC_NOT_GIVEN */
    uint64_t activities;
    /* earlier requests, which gave empty traces */
    uint32_t tries;
    /* additional waiting time, for these */
    uint64_t more_ns;
} kc_target;

/* A process that polls Dynolog's socket. */
typedef struct kc_endpoint {
    /* 0: not visible to this user */
    uint32_t pid;
    uint64_t inode;
} kc_endpoint;

/* One run of the command on this host. Times ending in _ns are CLOCK_MONOTONIC, but for
 * start_ns. */
typedef struct kc_trigger_run {
    const kc_request *request;
    KB_VEC(kc_target *) targets;

    /* discovery */
    KB_VEC(kc_endpoint) endpoints; /* matching processes that poll Dynolog's socket */
    /* endpoints of processes that are not visible */
    size_t hidden;
    uint64_t discover_until_ns, discover_again_ns;
    /* more than --limit processes match */
    bool over_limit;

    /* time */
    /* of all windows, since 1970; 0: each its own */
    int64_t start_ns;
    uint64_t begun_ns, wait_until_ns;
    uint64_t files_again_ns;

    /* control sockets */
    /* pids whose sockets were connected to */
    kc_pids tried;
    /* epoll of the control sockets */
    int peers;

    /* this command as the daemon */
    ko_dyno_daemon *own_daemon;
    uint64_t bind_again_ns;
    /* why Dynolog's name could not be bound */
    kineto_error bind_error;

    /* another daemon */
    /* it answers; it is ckineto's, and lists processes */
    bool has_daemon, daemon_lists;
    /* no process listens at its address */
    bool daemon_is_absent;
    ko_rpc_daemon daemon;
    uint64_t daemon_again_ns;
} kc_trigger_run;

/** The target with this pid, or the one that serves it: a recorder serves its programs. */
kc_target *kc_target_find(const kc_trigger_run *run, uint32_t pid);
/** Append a target. NULL: out of memory, or over --limit (reported). */
kc_target *kc_target_add(kc_trigger_run *run, uint32_t pid, int64_t job, kc_via via);
KINETO_PRINTF(2, 3) void kc_target_fail(kc_target *t, const char *fmt, ...);
static inline bool kc_target_over(const kc_target *t) { return t->state >= KC_DONE; }
/** Does the request select this process? @param pids  its pid and those of its ancestors. */
bool kc_matches(const kc_request *request, const int32_t *pids, uint32_t count, int64_t job);

/* ---- trigger_processes.c: processes, as /proc shows them ------------------------------------- */
/** A variable of another process' environment; false: not set, or not visible. */
bool kc_process_setting(uint32_t pid, const char *name, char *out, size_t size);
/** Is there a control socket file for this pid, whether or not a process listens? */
bool kc_has_socket(uint32_t pid);
/** The user of a process; false: no such process. */
bool kc_process_user(uint32_t pid, uint32_t *user);
/** May this process, or a descendant, still begin to poll? True if its environment says so, if it
 * has just started, or if it has a socket for polling. */
bool kc_may_still_poll(const kc_trigger_run *run, uint32_t pid);
/** Age of a process from its start time (kb_os_start_time). */
double kc_age_s(uint64_t born);
int64_t kc_process_job(uint32_t pid);
bool kc_process_matches(const kc_request *request, uint32_t pid);
/** Find matching processes that poll Dynolog's socket, into run->endpoints. */
void kc_find_endpoints(kc_trigger_run *run);
/** List traceable processes, when no target was named. */
void kc_print_traceable(const kc_request *request, FILE *out);

/* ---- the ways: each finds targets, sends requests, and follows them -------------------------- */
/* trigger_socket.c */
/** Connect to control sockets that were not tried before; matching processes become targets. */
void kc_socket_find(kc_trigger_run *run);
void kc_socket_ask(kc_trigger_run *run);
void kc_socket_poll(kc_trigger_run *run);
/* trigger_daemon.c */
/** HOST, HOST:PORT, …; without a port, that of --port. */
kineto_status kc_daemon_parse(const kc_request *request, const char *text, ko_rpc_daemon *out,
                              kineto_error *err);
/** Contact the daemon and add the matching processes that it knows. Failures are reported; that no
 *  daemon listens, once. */
void kc_daemon_find(kc_trigger_run *run);
void kc_daemon_ask(kc_trigger_run *run);
/** At intervals: find new processes, and which ones have fetched their requests. */
void kc_daemon_poll(kc_trigger_run *run);
/* trigger_own_daemon.c */
/** Bind Dynolog's name; if another process has it, retry in a later call. */
void kc_own_daemon_start(kc_trigger_run *run);
/** Serve for at most wait_ms, or until a control socket has something to read. */
void kc_own_daemon_serve(kc_trigger_run *run, int64_t wait_ms);
/** Has every process that received a request polled once more? */
bool kc_own_daemon_settled(const kc_trigger_run *run);

/* ---- trigger_files.c ------------------------------------------------------------------------- */
/** Choose the path for the request and the final path. False: it may not write there; it is
 * FAILED. */
bool kc_files_choose(const kc_trigger_run *run, kc_target *t, bool wire);
/** Look for traces of targets that do not report completion, and move complete ones. */
void kc_files_poll(kc_trigger_run *run);
/** The trace at t->path is complete: move it, check it, and finish the target. With --retry the
 * target may become FOUND again. */
void kc_files_done(const kc_trigger_run *run, kc_target *t);

/* ---- trigger_check.c ------------------------------------------------------------------------- */
/** Open the trace of a DONE target and count its activities. If it is empty, the target becomes
 * FAILED, or as often as --retry allows FOUND: then it gets another request, which begins at
 * once. */
void kc_trace_check(const kc_trigger_run *run, kc_target *t);
/** Start of the window of its next request, since 1970; 0: as soon as possible. */
static inline int64_t kc_start_of(const kc_trigger_run *run, const kc_target *t)
{
    return t->tries ? 0 : run->start_ns;
}

/* ---- trigger_show.c -------------------------------------------------------------------------- */
void kc_show_begin(const kc_trigger_run *run);
/** Print changed states; on a terminal, update one line. */
void kc_show_progress(const kc_trigger_run *run);
void kc_show_message(const char *fmt, ...) KINETO_PRINTF(1, 2);
/** Files on stdout, reasons on stderr, or all as JSON. @return the exit status. */
int kc_show_end(const kc_trigger_run *run, bool interrupted);

/* ---- trigger_run.c --------------------------------------------------------------------------- */
/** Install a handler for the signals that end a command, except ignored ones; the second signal
 * ends the process. */
void kc_catch_signals(void (*handler)(int number));
/** @return the exit status. */
int kc_trigger_local(const kc_request *request);

/* ---- trigger_fleet.c, trigger_hosts.c -------------------------------------------------------- */
int kc_trigger_fleet(kc_request *request);
typedef KB_VEC(char *) kc_names;
void kc_names_free(kc_names *names);
/** "a,b:1778" or "@FILE". */
kineto_status kc_hosts_parse(const char *text, kc_names *out, kineto_error *err);
/** The hosts and the number of a job, from squeue and scontrol. */
kineto_status kc_slurm_hosts(const char *job, kc_names *out, int64_t *number, kineto_error *err);
#endif
