/** @file
 *  On demand: a running program is asked from outside for a trace of itself, by `ckineto trigger`,
 *  by Dynolog, by a signal or by a file. docs/how-to/on-demand.md says what a request may ask for and what
 *  then happens.
 *
 *  A program that is linked with this library needs no code for that: KINETO_USE_DAEMON and
 *  CKINETO_CONTROL in its environment switch it on (a program that is linked statically has to call
 *  something of this header). With code:
 *
 *      kineto_control_options o = KINETO_CONTROL_OPTIONS_INIT;
 *      o.socket = true;
 *      kineto_control_start(&o, &err);
 *      for (…) { …; kineto_profiler_step(); }
 *
 *  What it costs: one thread that sleeps until somebody asks.
 */
#ifndef CKINETO_CONTROL_H
#define CKINETO_CONTROL_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** All zero but the size: nothing is listened to. Texts are copied. */
typedef struct kineto_control_options {
    size_t size;
    bool socket;              /**< the process' own control socket: `ckineto trigger`, `ckineto ps` */
    bool daemon;              /**< ask Dynolog, or `ckineto daemon`, every few seconds */
    int signal;               /**< a signal (SIGUSR2, say) asks for a trace; 0: none */
    const char *trigger_file; /**< writing or touching it asks for a trace; NULL: none */
    /* The ring: always record, keep the newest, hand it out when asked. */
    double ring_seconds;      /**< 0: no ring */
    size_t ring_bytes;        /**< budget; 0: 64 MiB */
    uint64_t ring_kinds;      /**< mask of KINETO_KIND_BIT; 0: KINETO_KINDS_DEFAULT */
    bool dump_on_crash;       /**< SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT; the program's handlers run after */
    double dump_on_slow_step; /**< a step takes so many times the usual; 0: never */
    double dump_on_hang_seconds; /**< no step for so long; 0: never */
    const char *dump_path;    /**< NULL: ckineto_ring_PID_N.json in the allowed directory; else it gets
                                   "_PID_N" in front of its ending, too */
    uint32_t dump_limit;      /**< at most so many that nobody asked for; 0: 10 */
} kineto_control_options;
#define KINETO_CONTROL_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(kineto_control_options), false, false, 0, NULL, 0, 0, 0, false, 0, 0, NULL, 0       \
    }

/** Listen. Options of the environment (CKINETO_CONTROL, CKINETO_RING, KINETO_USE_DAEMON) are added.
 *  @param options  NULL: those of the environment alone.
 *  @return KINETO_E_STATE if it listens already (the environment may have switched it on: stop it first),
 *          KINETO_E_ARGUMENT, KINETO_E_PERMISSION, what the system says. threads: any. */
KINETO_API kineto_status kineto_control_start(const kineto_control_options *options,
                                              kineto_error *err);
/** No more; what is under way is written. Nothing if it does not listen. threads: any. */
KINETO_API void kineto_control_stop(void);
/** Is somebody listened to? threads: any. */
KINETO_API bool kineto_control_running(void);

/** Ask for a trace as from outside, with the same text; paths may lie anywhere, and "fd:", "exec:"
 *  are possible. Starts what it needs. @param ticket  receives its number for observers; may be NULL.
 *  @return KINETO_E_ARGUMENT for the text, KINETO_E_BUSY with the reason. threads: any. */
KINETO_API kineto_status kineto_control_request(const char *config, uint64_t *ticket,
                                                kineto_error *err);
/** End the one under way; what was collected is written. threads: any. */
KINETO_API void kineto_control_cancel(void);
/** Write what the ring holds; returns when it is written. KINETO_E_STATE without a ring.
 *  @param path  NULL: as in the options. threads: any, but no observer. */
KINETO_API kineto_status kineto_control_dump(const char *path, kineto_error *err);

/* ---- observers ------------------------------------------------------------------------------------- */

/** What becomes of a request, in this order; the last four end it: X(NAME). */
#define KINETO_STAGE_MAP(X)                                                                        \
    X(ACCEPTED, 0) X(REFUSED, 1) X(WARMUP, 2) X(COLLECT, 3) X(PROCESS, 4) X(WRITTEN, 5)            \
    X(FAILED, 6) X(CANCELLED, 7)
typedef enum kineto_stage {
#define KINETO_X(name, value) KINETO_STAGE_##name = (value),
    KINETO_STAGE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_NUM_STAGES = 8
} kineto_stage;
/** "accepted", "warm-up" … Static storage. threads: hot. */
KINETO_API const char *kineto_stage_name(kineto_stage stage);

typedef struct kineto_stage_event {
    size_t size;
    uint64_t ticket;
    kineto_stage stage;
    int64_t time_ns; /**< COLLECT, PROCESS: when the window began, ended; else when it happened */
    const char *trace_id, *group_trace_id; /**< of the request; "" */
    const char *text;                      /**< why, or what is done otherwise than was asked; "" */
    const char *path;                      /**< ACCEPTED, WRITTEN: of the trace; else "" */
    uint64_t bytes;                        /**< WRITTEN */
} kineto_stage_event;
/** Called on whatever thread; must not block, nor call this header. Everything is borrowed. */
typedef void (*kineto_stage_observer)(const kineto_stage_event *event, void *user);
/** @return KINETO_E_LIMIT beyond 8. threads: any. */
KINETO_API kineto_status kineto_control_add_observer(kineto_stage_observer observer, void *user,
                                                     kineto_error *err);
KINETO_API void kineto_control_remove_observer(kineto_stage_observer observer, void *user);

/** A program that records something of its own for the time of a trace (what Kineto calls its client).
 *  Called on the control thread, or in kineto_profiler_step; members may be NULL. */
typedef struct kineto_control_client {
    size_t size;
    void *user;
    void (*prepare)(bool shapes, bool memory, bool stack, bool flops, bool modules, void *user);
    void (*start)(void *user);
    void (*stop)(void *user);
    /** For PROFILE_MEMORY, in place of kineto_memory_profile_start and its kin. */
    void (*memory_start)(void *user);
    void (*memory_stop)(void *user);
    kineto_status (*memory_export)(const char *path, void *user, kineto_error *err);
} kineto_control_client;
/** One; NULL: none. Copied. KINETO_E_STATE while a trace is under way. threads: any. */
KINETO_API kineto_status kineto_control_set_client(const kineto_control_client *client,
                                                   kineto_error *err);

/* ---- outputs --------------------------------------------------------------------------------------- */

/** Where traces may go besides files: "PROTOCOL:rest" in ACTIVITIES_LOG_FILE, or in the name given
 *  to kineto_output_save. Receives the whole trace; its status and error are those of the request. */
typedef kineto_status (*kineto_output)(const kineto_trace *trace, const char *url, void *user,
                                       kineto_error *err);
/** Register a protocol ("s3"); letters, digits, "+", "-", "."; case does not count. `file`, `fd` and
 *  `exec` are there already.
 *  @param from_requests  may requests of other processes name it?
 *  @return KINETO_E_ARGUMENT, KINETO_E_STATE if it is there, KINETO_E_LIMIT beyond 16. threads: any. */
KINETO_API kineto_status kineto_output_register(const char *protocol, kineto_output output,
                                                void *user, bool from_requests, kineto_error *err);
KINETO_API void kineto_output_unregister(const char *protocol);
/** kineto_trace_save, to a path or a URL of any protocol.
 *  @return what that returns, or the output's own; KINETO_E_ARGUMENT for a protocol that is not there.
 *  threads: any. */
KINETO_API kineto_status kineto_output_save(const kineto_trace *trace, const char *path_or_url,
                                            kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
