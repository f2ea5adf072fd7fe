/** @file
 *  On-demand tracing: a running program is triggered from outside, by `ckineto trigger`, Dynolog, a signal or a
 *  file. docs/how-to/on-demand.md describes requests and their life.
 *
 *  A program that is linked with this library needs no code for that: KINETO_USE_DAEMON and CKINETO_CONTROL in its
 *  environment enable it (a statically linked program must call a function of this header). With code:
 *
 *      kineto_control_options o;
 *      kineto_control_options_init(&o);
 *      o.socket = true;
 *      kineto_control_start(&o, &err);
 *      for (…) { …; kineto_profiler_step(); }
 *
 *  Cost: one thread that sleeps until a request arrives.
 */
#ifndef CKINETO_CONTROL_H
#define CKINETO_CONTROL_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/** All zero but the size: no listener. Texts are copied. */
typedef struct kineto_control_options {
    size_t size;
    bool socket;              /**< the process' own control socket: `ckineto trigger`, `ckineto ps` */
    bool daemon;              /**< poll Dynolog, or `ckineto daemon`, every few seconds */
    int signal;               /**< a signal (such as SIGUSR2) triggers a trace; 0: none */
    const char *trigger_file; /**< writing or touching it triggers a trace; NULL: none */
    /* The ring: record continuously, keep the newest events, write them on request. */
    double ring_seconds;      /**< 0: no ring */
    size_t ring_bytes;        /**< buffer; 0: 64 MiB */
    uint64_t ring_kinds;      /**< mask of KINETO_KIND_BIT; 0: KINETO_KINDS_DEFAULT */
    bool dump_on_crash;       /**< SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT; the program's handlers run after */
    double dump_on_slow_step; /**< a step takes N times its usual duration; 0: never */
    double dump_on_hang_seconds; /**< no step for N seconds; 0: never */
    const char *dump_path;    /**< NULL: ckineto_ring_PID_N.json in the allowed directory; else it gets
                                   "_PID_N" before its ending, too */
    uint32_t dump_limit;      /**< maximum number of automatic dumps; 0: 10 */
} kineto_control_options;
KINETO_INIT_FUNCTION(kineto_control_options)

/** Start listening. Options of the environment (CKINETO_CONTROL, CKINETO_RING, KINETO_USE_DAEMON) are added.
 *  @param options  NULL: those of the environment alone.
 *  @return KINETO_E_STATE if it is listening already (perhaps started by the environment: stop it first),
 *          KINETO_E_ARGUMENT, KINETO_E_PERMISSION, or an error of the system. threads: any. */
KINETO_API kineto_status kineto_control_start(const kineto_control_options *options,
                                              kineto_error *err);
/** Stop listening; a trace in progress is written. No effect if it is not listening. threads: any. */
KINETO_API void kineto_control_stop(void);
/** True if it is listening. threads: any. */
KINETO_API bool kineto_control_running(void);

/** Request a trace from within the program, with the text of an outside request; any path is allowed, also "fd:" and
 *  "exec:". Starts the control thread if necessary.
 *  @param ticket  receives the number of the request for observers; may be NULL.
 *  @return KINETO_E_ARGUMENT for a malformed text, KINETO_E_BUSY with the reason. threads: any. */
KINETO_API kineto_status kineto_control_request(const char *config, uint64_t *ticket,
                                                kineto_error *err);
/** End the trace in progress; the collected events are written. threads: any. */
KINETO_API void kineto_control_cancel(void);
/** Write the events in the ring; returns when they are written.
 *  @param path  NULL: as in the options.
 *  @return KINETO_E_STATE without a ring, or an error of writing. threads: any, but not from an observer. */
KINETO_API kineto_status kineto_control_dump(const char *path, kineto_error *err);

/* ---- observers ------------------------------------------------------------------------------------- */

/** Stages of a request, in this order; it ends with one of the last three or REFUSED: X(NAME, number). */
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
    const char *text;                      /**< the reason, or how the request was changed; "" */
    const char *path;                      /**< ACCEPTED, WRITTEN: path of the trace; else "" */
    uint64_t bytes;                        /**< WRITTEN */
} kineto_stage_event;
/** Called on any thread; must not block or call functions of this header. Everything is borrowed. */
typedef void (*kineto_stage_observer)(const kineto_stage_event *event, void *user);
/** Add and remove an observer of requests. @return KINETO_E_LIMIT beyond 8. threads: any. */
KINETO_API kineto_status kineto_control_add_observer(kineto_stage_observer observer, void *user,
                                                     kineto_error *err);
KINETO_API void kineto_control_remove_observer(kineto_stage_observer observer, void *user);

/** A program that records data of its own while a trace is collected (Kineto's client interface). Called on the
 *  control thread or in kineto_profiler_step; members may be NULL. */
typedef struct kineto_control_client {
    size_t size;
    void *user;
    void (*prepare)(bool shapes, bool memory, bool stack, bool flops, bool modules, void *user);
    void (*start)(void *user);
    void (*stop)(void *user);
    /** For PROFILE_MEMORY, instead of kineto_memory_profile_start, _stop and _export. */
    void (*memory_start)(void *user);
    void (*memory_stop)(void *user);
    kineto_status (*memory_export)(const char *path, void *user, kineto_error *err);
} kineto_control_client;
KINETO_INIT_FUNCTION(kineto_control_client)
/** Set the client, or remove it (NULL). Copied. KINETO_E_STATE while a trace is in progress. threads: any. */
KINETO_API kineto_status kineto_control_set_client(const kineto_control_client *client,
                                                   kineto_error *err);

/* ---- outputs --------------------------------------------------------------------------------------- */

/** Writes a trace to a URL "PROTOCOL:rest" (ACTIVITIES_LOG_FILE of a request, or kineto_output_save). Its status and
 *  error are those of the request. */
typedef kineto_status (*kineto_output)(const kineto_trace *trace, const char *url, void *user,
                                       kineto_error *err);
/** Register a protocol ("s3"): letters, digits, "+", "-", "."; case is ignored. `file`, `fd` and `exec` are built in.
 *  @param from_requests  true if requests of other processes may use it.
 *  @return KINETO_E_ARGUMENT, KINETO_E_STATE if it is registered, KINETO_E_LIMIT beyond 16. threads: any. */
KINETO_API kineto_status kineto_output_register(const char *protocol, kineto_output output,
                                                void *user, bool from_requests, kineto_error *err);
KINETO_API void kineto_output_unregister(const char *protocol);
/** kineto_trace_save to a path or a URL of any protocol.
 *  @return as kineto_trace_save, or the status of the output; KINETO_E_ARGUMENT for an unknown protocol.
 *  threads: any. */
KINETO_API kineto_status kineto_output_save(const kineto_trace *trace, const char *path_or_url,
                                            kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_CONTROL_DECLARED
#include <ckineto/deprecated.h>
#endif
