/* What libckineto-rt exports to libckineto (src/session and above) under a private symbol version:
 * attaching this process to a pool, plug-ins, counters, stacks, iterations. Not for users; the
 * public interface is <ckineto/record.h> and its neighbours. */
#ifndef KR_RECORD_H
#define KR_RECORD_H

#include "base/base.h"
#include "format/format.h"

/** The pool this process records into, NULL if none. */
KINETO_API const kf_pool *kineto_rt_pool(void);
/** Record into a formatted mapping from now on, for the life of the process.
 *  KINETO_E_STATE if there is a pool already. */
KINETO_API kineto_status kineto_rt_adopt(void *map, size_t bytes, kineto_error *err);
/** Attach to the pool file at path (what CKINETO_SESSION names). */
KINETO_API kineto_status kineto_rt_attach(const char *path, kineto_error *err);
/** Dictionary id of this process, attaching it if it was forked since. 0 if the table is full. */
KINETO_API uint32_t kineto_rt_process(void);
/** Announce a kind of a plug-in's own: in the pool if there is one, else for the one to come.
 *  @return its kind; 0: the name is not valid, or the table is full. */
KINETO_API uint32_t kineto_rt_own_kind(const char *name, uint32_t like, bool by_default);
/** The table of this process' pool, or of the pool to come. */
KINETO_API const kf_own_kind *kineto_rt_own_kinds(void);
/** Called by the first session of a process: load the plug-ins that the environment names and those
 *  that are installed, once; forward PrivateUse1. */
KINETO_API void kineto_rt_plugins_prepare(bool privateuse1);
/** The calling thread joins the session with this window, or leaves it; has it joined? */
KINETO_API void kineto_rt_join(uint32_t window, bool in);
KINETO_API bool kineto_rt_joined(uint32_t window);
/** Before operators are recorded with native stacks: load the unwinder, record the list of
 *  modules. */
KINETO_API kineto_status kineto_rt_stacks_prepare(kineto_error *err);
/** Record the list again if a stack went through a module that is not in it; `anyway`: in any
 *  case. */
KINETO_API void kineto_rt_modules_note(bool anyway);
/** The hardware counters to read, and where they come from: the same for all threads. */
#define KR_PERF_MAX 4u
typedef struct kr_perf_plan {
    uint32_t count;
    uint8_t event[KR_PERF_MAX];  /* row in the table of names */
    uint8_t source[KR_PERF_MAX]; /* kr_perf_source */
} kr_perf_plan;
/** See kr_perf_prepare. */
KINETO_API kineto_status kineto_rt_counters_prepare(const char *const *names, size_t count,
                                                    kr_perf_plan *out, kineto_error *absent,
                                                    kineto_error *err);
/** Read these counters around operators, until as many calls of _end.
 *  @return KINETO_E_BUSY while another session reads other counters. */
KINETO_API kineto_status kineto_rt_counters_begin(const kr_perf_plan *plan, kineto_error *err);
KINETO_API void kineto_rt_counters_end(void);
/** Record an operator that a backend reports after its end, on this thread; times in Unix ns. */
KINETO_API void kineto_rt_backend_event(int64_t start_ns, int64_t end_ns, int64_t debug_handle,
                                        uint32_t scope, const char *name, const char *backend);
/** Add a line to the ledger of what is recorded here; detail may be NULL. */
KINETO_API void kineto_rt_note(const char *source, const char *reason, uint64_t count, bool is_loss,
                               const char *detail);
/** Add the system's names of all threads that have records to the dictionary, if they changed.
 *  Reads /proc. threads: any. */
KINETO_API void kineto_rt_thread_names(void);
/** Windows changed: create and start, or stop, collect and destroy the registered profilers so that
 *  they match the gate. */
KINETO_API void kineto_rt_profilers_update(void);
/** Let profilers without incremental delivery deliver what they have (they are stopped, collected
 *  and started again). */
KINETO_API void kineto_rt_profilers_collect(void);
/** Called in each kineto_step_mark, on its thread, with the iteration that begins and its time in ticks;
 *  NULL: none. There is one hook at most; it must be as quick as a step. */
typedef void kr_step_hook(uint64_t step, uint64_t ticks);
KINETO_API void kineto_rt_step_hook(kr_step_hook *hook);
/** A profile that marks iterations itself begins or ends; meanwhile kineto_step_mark does not mark them.
 *  Calls nest. */
KINETO_API void kineto_rt_steps_marked(bool begins);
/** The client of this process that asks a daemon for requests: NULL means libckineto's (the
 *  default). Set it before libckineto is loaded, or later. The first name is copied and stays.
 *  threads: any; one sets it. */
KINETO_API void kineto_rt_daemon_client_set(const char *other);
KINETO_API const char *kineto_rt_daemon_client(void);
/** libckineto, when it is loaded, writes no messages unless KINETO_LOG_LEVEL or KINETO_LOG_FILE is
 *  set. threads: any. */
KINETO_API void kineto_rt_quiet_set(void);
KINETO_API bool kineto_rt_quiet(void);
/** Iterations of this process that began; `ticks` (may be NULL) receives when the last of them did,
 *  at index i % KF_STEP_TIMES. */
KINETO_API uint64_t kineto_rt_steps(uint64_t ticks[KF_STEP_TIMES]);
#endif
