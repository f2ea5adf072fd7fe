/* ckineto trigger: what its parts share. One command asks some processes for traces, each by the
 * first way there is: its own control socket, a daemon's RPC, or Dynolog's socket, bound by us. */
#ifndef KC_TRIGGER_H
#define KC_TRIGGER_H

#include "cli/cli.h"
#include "ondemand/wire/control_wire.h"
#include "ondemand/dynolog/rpc_client.h"
#include "ondemand/dynolog/dyno.h"
#include "ondemand/request/request.h"

#include <time.h>

#define KC_SECOND_NS UINT64_C(1000000000)
#define KC_MS_NS     UINT64_C(1000000)

/* Of processes that ask Dynolog's socket, by upstream's usual values. */
#define KC_POLL_NS UINT64_C(5500000000) /* between two questions: 5 s, and a tenth */
/* … of those that found no daemon: libkineto may be 5.1 s from its next try, and takes an answer to
 * its last one 5 s later; ours waits up to 10 s, and a tenth. */
#define KC_RETURN_NS (2 * KC_POLL_NS)
#define KC_TICK_NS   KC_SECOND_NS       /* how often libkineto looks whether it is time */
#define KC_SLACK_NS  (2 * KC_SECOND_NS) /* it refuses a start that leaves less */
#define KC_WARMUP_NS (5 * KC_SECOND_NS) /* if nothing is said */

/* ---- what was asked for ------------------------------------------------------------------------ */

typedef KB_VEC(int32_t) kc_pids;

/* Numbers that were not given are KC_NOT_GIVEN. */
#define KC_NOT_GIVEN UINT64_MAX
typedef struct kc_ask {
    kc_pids pids;                  /* of processes, or of their ancestors */
    int64_t job;                   /* SLURM_JOB_ID; with has_job */
    bool has_job, all;             /* one of pids, has_job and all is there */
    bool dump, cancel, separately; /* separately: each as soon as it can */
    bool has_wait, json;
    uint64_t duration_ms, iterations, start_iteration, roundup, warmup_ms, warmup_iterations;
    uint64_t snapshot_ms;   /* of memory, in place of a trace */
    int64_t start_ns;       /* since 1970; 0: not said */
    const char *activities; /* NULL: the usual */
    bool shapes, memory, stack, flops, modules;
    kc_texts set;                  /* KEY=VALUE */
    uint64_t limit;                /* of processes */
    uint64_t retry;                /* with has_wait: so often again, after a trace of nothing; 0: nor
                                    * is anything waited for that is not there yet */
    uint64_t wait_ns, discover_ns; /* wait_ns 0: by what was asked for */
    bool has_discover;             /* it was said: also those are awaited that seem never to ask */
    char out[KO_REQUEST_PATH_BYTES]; /* absolute */
    bool has_out;
    const char *socket_directory; /* NULL: abstract */
    const char *host;             /* of the daemon; NULL: of this machine */
    uint16_t port;                /* of daemons that are named without one; 0: the usual */
    const char *hosts, *slurm;    /* many of them; NULL */
    bool remote;                  /* by daemons that may be elsewhere, and by nothing else */
    const char *token_file;
    char token[KO_RPC_TOKEN_BYTES]; /* "": none */
    char group[32];                 /* REQUEST_GROUP_TRACE_ID: of all that this command asks */
} kc_ask;

/** By iteration: only the program's steps say when it is over. */
static inline bool kc_by_iteration(const kc_ask *ask) { return ask->iterations != KC_NOT_GIVEN; }
static inline bool kc_is_snapshot(const kc_ask *ask) { return ask->snapshot_ms != KC_NOT_GIVEN; }

/** How long to try again while no daemon listens at the address that was given, or no process is there at all. */
static inline uint64_t kc_absence_ns(const kc_ask *ask)
{
    uint64_t most_ns = ask->wait_ns ? ask->wait_ns : ask->discover_ns;
    return ask->has_wait && ask->retry ? most_ns : 0;
}

static inline const char *kc_default_name(const kc_ask *ask)
{
    return kc_is_snapshot(ask) ? "memory_snapshot.pickle" : "trace.json";
}

/* ---- trigger_ask.c: texts of requests, names of files --------------------------------------------- */

/* How it is said to one process. */
typedef struct kc_wording {
    const char *path; /* ACTIVITIES_LOG_FILE */
    int64_t start_ns; /* since 1970; 0: as soon as may be */
    bool plain; /* for libkineto: no quotes, its usual warm-up unless another one is asked for */
} kc_wording;
/** The text of a request, to be freed. KINETO_E_ARGUMENT, with what is wrong: a mistake in --set,
 * or what libkineto cannot read. */
kineto_status kc_ask_text(const kc_ask *ask, const kc_wording *how, char **out, kineto_error *err);
/** Read it as a process would, so that mistakes are told before anybody is asked. */
kineto_status kc_ask_check(const kc_ask *ask, kineto_error *err);
/** How long before its window a process has to know of it, on Dynolog's wire and on its own socket.
 */
int64_t kc_ask_lead_ns(const kc_ask *ask, bool wire);
/** When it ought to be over, from its start on; by iteration a guess. */
uint64_t kc_ask_length_ns(const kc_ask *ask);
/** An absolute path, without "." and "..", links on the way resolved. */
kineto_status kc_absolute(const char *path, char out[KO_REQUEST_PATH_BYTES], kineto_error *err);
bool kc_is_beneath(const char *path, const char *directory);
/** `path` with "_TEXT" where Kineto puts the number of a process. */
bool kc_name_with(const char *path, const char *text, char out[KO_REQUEST_PATH_BYTES]);
bool kc_name_of(const char *path, uint32_t pid, char out[KO_REQUEST_PATH_BYTES]);

/* ---- processes that are asked ----------------------------------------------------------------------- */

/** CLOCK_MONOTONIC: what waits and limits count. */
static inline uint64_t kc_now_ns(void) { return kb_clock_ns(CLOCK_MONOTONIC); }

typedef enum kc_via { KC_VIA_NONE, KC_VIA_SOCKET, KC_VIA_DAEMON, KC_VIA_OURS } kc_via;
typedef enum kc_state {
    KC_FOUND, /* nothing was said to it yet */
    KC_ASKED, /* a daemon has the request, or its socket */
    KC_TAKEN, /* it has it */
    KC_WARMUP,
    KC_COLLECT, /* or only: it is busy, as Dynolog's wire tells */
    KC_PROCESS,
    KC_DONE, /* its file is there; or it was asked, if nobody waits for more */
    KC_FAILED
} kc_state;
const char *kc_state_word(kc_state state);

typedef struct kc_target {
    uint32_t pid;  /* as it says itself */
    uint64_t born; /* its start time; 0: it cannot be seen from here */
    int64_t job;
    char name[32];
    kc_via via;
    kc_state state, shown; /* shown: the one that was told, if said */
    bool said;
    char asked_path[KO_REQUEST_PATH_BYTES]; /* in the request, without the pid */
    char path[KO_REQUEST_PATH_BYTES];       /* of the file that it writes; then of the final one */
    char wanted[KO_REQUEST_PATH_BYTES];     /* where that is brought; "": it stays */
    char why[1024];                         /* FAILED; else what it does otherwise than was asked */
    uint64_t bytes;
    ko_control_peer *peer;         /* SOCKET */
    uint32_t also[64], also_count; /* SOCKET: whom a request to it may name, itself first */
    uint64_t asked_ns;             /* CLOCK_MONOTONIC */
    int64_t asked_real_ns;
    /* OURS: when it last came back after it had been handed the request, as one that is busy, and
     * as one that could take another. 0: never */
    uint64_t busy_ns, idle_ns;
    uint64_t activities; /* of its trace, once it was opened; KC_NOT_GIVEN: it was not */
    uint32_t tries;      /* requests before this one, to which it gave a trace of nothing */
    uint64_t more_ns;    /* to wait longer, for those that followed */
} kc_target;

typedef struct kc_endpoint {
    uint32_t pid; /* 0: cannot be seen */
    uint64_t inode;
} kc_endpoint;

typedef struct kc_run {
    const kc_ask *ask;
    KB_VEC(kc_target *) targets;
    KB_VEC(kc_endpoint) endpoints; /* who is there to ask Dynolog's socket, and is wanted */
    size_t hidden;                 /* endpoints of processes that cannot be seen */
    int64_t start_ns;              /* of all windows, since 1970; 0: each its own */
    uint64_t begun_ns, look_until_ns, wait_until_ns; /* CLOCK_MONOTONIC */
    uint64_t look_again_ns;
    kc_pids tried; /* control sockets that were connected to */
    int peers;     /* epoll of the control sockets */
    ko_dyno_daemon *ours;
    uint64_t bind_again_ns;
    kineto_error bind_error; /* why we do not have Dynolog's name */
    bool has_daemon, lists;  /* a daemon answers; it is ours, and lists processes */
    bool daemon_is_absent;   /* no process listens at its address */
    ko_rpc_daemon daemon;
    uint64_t daemon_again_ns, files_again_ns;
    bool over_limit;
} kc_run;

/** The one that has this number, or answers for it: a recorder for its programs. */
kc_target *kc_target_find(const kc_run *run, uint32_t pid);
/** Another one, for which names of files are chosen; NULL: out of memory, or too many (said). */
kc_target *kc_target_add(kc_run *run, uint32_t pid, int64_t job, kc_via via);
KINETO_PRINTF(2, 3) void kc_target_fail(kc_target *t, const char *fmt, ...);
static inline bool kc_target_over(const kc_target *t) { return t->state >= KC_DONE; }
/** Is this process wanted? `pids`: it and its ancestors. */
bool kc_wanted(const kc_ask *ask, const int32_t *pids, uint32_t count, int64_t job);

/* ---- trigger_find.c: who is there --------------------------------------------------------------------- */
/** A variable of another process' environment; false: not set, or it cannot be seen. */
bool kc_process_setting(uint32_t pid, const char *name, char *out, size_t size);
/** Is there a control socket of that number, whether somebody listens or not? */
bool kc_has_socket(uint32_t pid);
/** Whose process is it? False: there is none. */
bool kc_process_user(uint32_t pid, uint32_t *user);
/** May this process, or one that it started, come and ask yet? By what /proc tells: its environment
 *  says that it will, it has just begun, or it has a socket for that. */
bool kc_may_ask(const kc_run *run, uint32_t pid);
/** Of a process with this start time, as kb_os_start_time gives it. */
double kc_age_s(uint64_t born);
int64_t kc_process_job(uint32_t pid);
bool kc_process_wanted(const kc_ask *ask, uint32_t pid);
/** Those that have sockets to ask Dynolog with, into run->endpoints. */
void kc_find_endpoints(kc_run *run);
/** What could be asked, to somebody who named nothing. */
void kc_print_reachable(const kc_ask *ask, FILE *out);

/* ---- the ways. Each finds, asks, and follows ------------------------------------------------------------ */
/* trigger_socket.c */
/** Those among the control sockets that were not tried before. */
void kc_socket_find(kc_run *run);
void kc_socket_ask(kc_run *run);
void kc_socket_turn(kc_run *run);
/* trigger_daemon.c */
/** HOST, HOST:PORT, …; where no port is said, that of --port. */
kineto_status kc_daemon_parse(const kc_ask *ask, const char *text, ko_rpc_daemon *out,
                              kineto_error *err);
/** Is there one? Then those are found whom it knows and are wanted. Else it is said why, of an absent one once. */
void kc_daemon_find(kc_run *run);
void kc_daemon_ask(kc_run *run);
/** Look again, at times: who has come, who has fetched. */
void kc_daemon_turn(kc_run *run);
/* trigger_ours.c */
/** Bind Dynolog's name, or try again later. */
void kc_ours_begin(kc_run *run);
/** Serve for at most so long, or until a control socket says something. */
void kc_ours_turn(kc_run *run, int64_t wait_ms);
/** Has everybody who was handed a request come back once? */
bool kc_ours_settled(const kc_run *run);

/* ---- trigger_files.c ------------------------------------------------------------------------------------- */
/** Choose what it is asked to write, and where that is brought. False, and failed, if it may not
 *  write there. */
bool kc_files_choose(const kc_run *run, kc_target *t, bool wire);
/** Look for traces of those that cannot tell; bring what is complete where it was wanted. */
void kc_files_turn(kc_run *run);
/** Its trace is at t->path: bring it, open it, and be done; or have it asked again (state FOUND). */
void kc_files_done(const kc_run *run, kc_target *t);

/* ---- trigger_check.c -------------------------------------------------------------------------------------- */
/** Open the trace of a target that is DONE and count its activities. One of nothing is FAILED, or, as often as
 *  --retry says, FOUND again: then another request has to go to it, which begins at once. */
void kc_trace_check(const kc_run *run, kc_target *t);
/** When the window of the next request to it begins, since 1970; 0: as soon as may be. */
static inline int64_t kc_start_of(const kc_run *run, const kc_target *t)
{
    return t->tries ? 0 : run->start_ns;
}

/* ---- trigger_show.c ---------------------------------------------------------------------------------------- */
void kc_show_begin(const kc_run *run);
/** What has changed; on a terminal one line that is written over. */
void kc_show_turn(const kc_run *run);
void kc_show_note(const char *fmt, ...) KINETO_PRINTF(1, 2);
/** Files on stdout, reasons on stderr, or all as JSON. @return the exit status. */
int kc_show_end(const kc_run *run, bool interrupted);

/* ---- trigger_run.c ------------------------------------------------------------------------------------------- */
/** For the signals that end a command, except those that are ignored; the second time they end it.
 */
void kc_catch_signals(void (*handler)(int number));
/** @return the exit status. */
int kc_trigger_here(const kc_ask *ask);

/* ---- trigger_fleet.c, trigger_hosts.c ------------------------------------------------------------------------ */
int kc_fleet(kc_ask *ask);
typedef KB_VEC(char *) kc_names;
void kc_names_free(kc_names *names);
/** "a,b:1778" or "@FILE". */
kineto_status kc_hosts_parse(const char *text, kc_names *out, kineto_error *err);
/** The hosts of a job, by squeue and scontrol; its number. */
kineto_status kc_slurm_hosts(const char *job, kc_names *out, int64_t *number, kineto_error *err);
#endif
