/** @file
 *  Sessions: record the running program and get a trace.
 *
 *  A session is a *window* over the one recorder of the process: which kinds, which threads, from
 *  when to when, what to keep. Any number may be open at once, they overlap freely, and a program
 *  that runs under `ckineto record` may use them too: everyone gets their own trace.
 *
 *      kineto_session *s; kineto_trace *t;
 *      kineto_session_begin(NULL, &s, NULL);
 *      ...
 *      kineto_session_end(s, &t, NULL);
 *      kineto_trace_save(t, "trace.json", NULL);
 *      kineto_trace_release(t);
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

/** What to keep when the buffer is full. */
typedef enum kineto_retention {
    KINETO_RETAIN_OLDEST = 0, /**< stop recording, count what is dropped */
    KINETO_RETAIN_NEWEST = 1  /**< overwrite the oldest: a flight recorder */
} kineto_retention;

typedef enum kineto_threads {
    KINETO_THREADS_ALL = 0,
    /** only the thread that starts the session, and those that kineto_session_join it */
    KINETO_THREADS_CALLER = 1
} kineto_threads;

/* More of what to record of operators; the first four are in <ckineto/function.h>. */
/** call stacks and modules that the program hands in; by default they are */
#define KINETO_OPERATORS_NO_TEXTS 16u
/** do not tell plug-ins which operator launches what, if nobody else wants it */
#define KINETO_OPERATORS_NO_CORRELATION 32u
#define KINETO_OPERATORS_OVERLOADS 64u /**< names are "name.overload" */
/** with STACK: also where the program hands one in, as "Native stack" beside it */
#define KINETO_OPERATORS_BOTH_STACKS 128u

/** Zero is the default of every member. Fill with kineto_session_options_init. */
typedef struct kineto_session_options {
    size_t size;           /**< sizeof(kineto_session_options) */
    uint64_t kinds;        /**< mask of KINETO_KIND_BIT; 0: KINETO_KINDS_DEFAULT */
    size_t buffer_bytes;   /**< budget; 0: 64 MiB. The largest of all open sessions counts */
    uint32_t retention;    /**< kineto_retention */
    uint32_t threads;      /**< kineto_threads */
    const char *custom_config; /**< text for plug-ins, up to 1023 bytes; NULL: none. Copied. Plug-ins
                                    that run already do not see it */
    uint32_t operators;    /**< KINETO_OPERATORS_… */
    uint32_t scopes;       /**< of operators: mask of 1 << kineto_scope; 0: all */
} kineto_session_options;

/** All defaults. threads: hot. */
static inline void kineto_session_options_init(kineto_session_options *options)
{
    kineto_session_options zero = {sizeof zero, 0, 0, 0, 0, NULL, 0, 0};
    *options = zero;
}

/** Get ready without recording: reserve and touch the buffer, create device profilers. Slow.
 *  @param options  NULL for defaults; copied.
 *  @param out      receives a session; end with kineto_session_destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT, KINETO_E_MEMORY, KINETO_E_LIMIT (too many sessions).
 *  threads: any. */
KINETO_API kineto_status kineto_session_prepare(const kineto_session_options *options,
                                                kineto_session **out, kineto_error *err);

/** Start recording. KINETO_E_STATE if it is recording already. threads: owner. */
KINETO_API kineto_status kineto_session_start(kineto_session *session, kineto_error *err);

/** Stop recording and build the trace; the session may be started again. Threads inside a range
 *  go on undisturbed; their open ranges are cut at the window's end and flagged.
 *  @param out  receives a trace to release; NULL on failure. May itself be NULL: discard.
 *  @return KINETO_E_STATE if it is not recording, KINETO_E_MEMORY.
 *  threads: owner. */
KINETO_API kineto_status kineto_session_stop(kineto_session *session, kineto_trace **out,
                                             kineto_error *err);

/** The calling thread takes part in a session of KINETO_THREADS_CALLER from now on, and no more. A
 *  thread that ends has left. KINETO_E_STATE if it is not recording, or for all threads; if the thread
 *  is in it already, or is not. threads: any. */
KINETO_API kineto_status kineto_session_join(kineto_session *session, kineto_error *err);
KINETO_API kineto_status kineto_session_leave(kineto_session *session, kineto_error *err);

/** Pause recording (off) and go on (on), any number of times. Plug-ins that can keep their buffers;
 *  what happens meanwhile is in no trace. KINETO_E_STATE if it is not recording. threads: owner. */
KINETO_API kineto_status kineto_session_toggle(kineto_session *session, bool on, kineto_error *err);

/** A trace of what is there now, while recording goes on.
 *  @param out  receives a trace to release. NULL on failure.
 *  @return KINETO_E_STATE if it is not recording, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_session_snapshot(kineto_session *session, kineto_trace **out,
                                                 kineto_error *err);

/** End the session (discarding, if it still records) and free it. NULL is fine. threads: owner. */
KINETO_API void kineto_session_destroy(kineto_session *session);

/** prepare + start, and stop + destroy. A session that could not begin is NULL; end frees it whatever
 *  it returns.
 *  @return the errors of those (KINETO_E_…). threads: any for begin, owner for end. */
KINETO_API kineto_status kineto_session_begin(const kineto_session_options *options,
                                              kineto_session **out, kineto_error *err);
KINETO_API kineto_status kineto_session_end(kineto_session *session, kineto_trace **out,
                                            kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
