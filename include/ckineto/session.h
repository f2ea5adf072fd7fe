/** @file
 *  Sessions: record the running program and get a trace.
 *
 *  A session is a *window* over the one recorder of the process: which kinds, which threads, from
 *  when to when, what to keep. Any number may be open at once, they overlap freely, and a program
 *  that runs under `ckineto record` may use them too: each gets its own trace.
 *
 *      kineto_session *s; kineto_trace *t;
 *      kineto_session_create(NULL, &s, NULL);
 *      kineto_session_start(s, NULL);
 *      ...
 *      kineto_session_stop(s, &t, NULL);
 *      kineto_session_destroy(s);
 *      kineto_trace_save(t, "trace.json", NULL);
 *      kineto_trace_release(t);
 *
 *  kineto_session_warm_up before the start keeps the cost of switching sources on out of the window.
 *
 *  Child processes made by fork while a session is open are recorded into it.
 */
#ifndef CKINETO_SESSION_H
#define CKINETO_SESSION_H

#include <ckineto/function.h>
#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_session kineto_session;

/** Which events a full buffer keeps. */
typedef enum kineto_retention {
    KINETO_RETAIN_OLDEST = 0, /**< stop recording, count what is dropped */
    KINETO_RETAIN_NEWEST = 1  /**< overwrite the oldest: a flight recorder */
} kineto_retention;

typedef enum kineto_threads {
    KINETO_THREADS_ALL = 0,
    /** only the thread that starts the session, and threads that call kineto_session_join */
    KINETO_THREADS_CALLER = 1
} kineto_threads;

/* Flags for recording operators; the first four are in <ckineto/function.h>. */
/** drop call stacks and module names that the program passes in; they are recorded by default */
#define KINETO_OPERATORS_NO_TEXTS 16u
/** do not pass the ids of operators to plug-ins, unless another session needs that */
#define KINETO_OPERATORS_NO_CORRELATION 32u
#define KINETO_OPERATORS_OVERLOADS 64u /**< names are "name.overload" */
/** with STACK: also where the program passes in a stack, as a second argument "Native stack" */
#define KINETO_OPERATORS_BOTH_STACKS 128u

/** Zero is the default of every member but `size`. Fill with kineto_session_options_init. */
typedef struct kineto_session_options {
    size_t size;           /**< sizeof(kineto_session_options) */
    uint64_t kinds;        /**< mask of KINETO_KIND_BIT; 0: KINETO_KINDS_DEFAULT */
    size_t buffer_bytes;   /**< 0: 64 MiB. The largest of all sessions applies */
    uint32_t retention;    /**< kineto_retention */
    uint32_t threads;      /**< kineto_threads */
    const char *custom_config; /**< text for plug-ins, up to 1023 bytes; NULL: none. Copied. Plug-ins
                                    that are running already do not receive it */
    uint32_t operators;    /**< KINETO_OPERATORS_… */
    uint32_t scopes;       /**< of operators: mask of 1 << kineto_scope; 0: all */
} kineto_session_options;
KINETO_INIT_FUNCTION(kineto_session_options)


/** Create a session that does not record yet: reserve and prefault the buffer, create device profilers. Slow.
 *  @param options  NULL for defaults; copied.
 *  @param out      receives a session; free it with kineto_session_destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT, KINETO_E_MEMORY, KINETO_E_LIMIT (too many sessions).
 *  threads: any. */
KINETO_API kineto_status kineto_session_create(const kineto_session_options *options,
                                                kineto_session **out, kineto_error *err);

/** Switch on the sources of a session ahead of kineto_session_start, which is then cheap: a vendor's profiling library
 *  may need 50 ms to begin. What is recorded meanwhile is not in the trace and takes no room in it, nor is device work
 *  that begins before the start. A session of KINETO_THREADS_CALLER begins with the thread that calls this.
 *  @return KINETO_E_STATE if the session is recording or warms up already, KINETO_E_LIMIT, KINETO_E_MEMORY.
 *  threads: owner. */
KINETO_API kineto_status kineto_session_warm_up(kineto_session *session, kineto_error *err);

/** Start recording. KINETO_E_STATE if the session is recording already. threads: owner. */
KINETO_API kineto_status kineto_session_start(kineto_session *session, kineto_error *err);

/** Stop recording and build the trace; the session may be started again. Threads with open ranges are not
 *  disturbed; their open ranges are cut at the end of the window and flagged.
 *  @param out  receives a trace to release, which may outlive the session; NULL on failure. May itself be NULL: the
 *              recording is discarded.
 *  @return KINETO_E_STATE if the session is not recording, KINETO_E_MEMORY.
 *  threads: owner. */
KINETO_API kineto_status kineto_session_stop(kineto_session *session, kineto_trace **out,
                                             kineto_error *err);

/** Add the calling thread to a session of KINETO_THREADS_CALLER, or remove it. A thread that ends is removed.
 *  @return KINETO_E_STATE if the session is not recording or records all threads, or if the thread has joined
 *          already (join) or has not joined (leave). threads: any. */
KINETO_API kineto_status kineto_session_join(kineto_session *session, kineto_error *err);
KINETO_API kineto_status kineto_session_leave(kineto_session *session, kineto_error *err);

/** Pause or resume recording. Events during a pause are in no trace, nor in its ledger, which has a line with
 *  the number and the length of pauses; a flow with one end in a
 *  pause has one end only; plug-ins that support it keep their buffers.
 *  Pausing a paused session has no effect.
 *  @return KINETO_E_STATE if the session is not recording. threads: owner. */
KINETO_API kineto_status kineto_session_pause(kineto_session *session, bool paused, kineto_error *err);

/** Build a trace of what the buffer holds now, while recording continues.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_STATE if the session is not recording, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_session_snapshot(kineto_session *session, kineto_trace **out,
                                                 kineto_error *err);

/** Free the session; a recording that is in progress is discarded. NULL is ignored. threads: owner. */
KINETO_API void kineto_session_destroy(kineto_session *session);


#ifdef __cplusplus
}
#endif

#define CKINETO_SESSION_DECLARED
#include <ckineto/deprecated.h>
#endif
