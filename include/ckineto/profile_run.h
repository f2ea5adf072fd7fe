/** @file
 *  A profile run: the profiler of a long program that records some of its steps by a schedule and delivers the
 *  trace of each recorded cycle, as torch.profiler.profile does. Built on <ckineto/profiler.h>.
 *
 *      kineto_schedule s;
 *      kineto_schedule_init(&s);
 *      s.wait = 10; s.warmup = 1; s.active = 3;
 *      kineto_profile_run_options o;
 *      kineto_profile_run_options_init(&o);
 *      o.schedule = &s;
 *      o.on_trace_ready = kineto_tensorboard_handler;
 *      o.user = &(kineto_tensorboard){sizeof(kineto_tensorboard), "log", NULL, true};
 *      kineto_profile_run_create(&o, &profile, &err);
 *      kineto_profile_run_start(profile, &err);
 *      for (…) {
 *          …
 *          kineto_profile_run_step(profile, &err);
 *      }
 *      kineto_profile_run_stop(profile, &err);
 *      kineto_profile_run_destroy(profile);
 *
 *  Each recorded step is an annotation "ProfilerStep#7". Without a schedule everything from start to stop is one
 *  cycle, and steps are only counted.
 */
#ifndef CKINETO_PROFILE_RUN_H
#define CKINETO_PROFILE_RUN_H

#include <ckineto/profiler.h>
#include <ckineto/schedule.h>
#include <ckineto/summary.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_profile_run kineto_profile_run;

/** Called when a cycle has ended, by the thread that called step or stop, after recording has stopped:
 *  kineto_profile_run_result is the result of the cycle. Step or stop returns its status. It must not start, step or
 *  stop the run (KINETO_E_STATE). If it destroys the run, that is done when step or stop returns. */
typedef kineto_status (*kineto_profile_run_ready)(kineto_profile_run *profile, void *user,
                                              kineto_error *err);
/** A custom schedule: the action of a step. */
typedef kineto_action (*kineto_profile_run_action_of)(uint64_t step, void *user);
/** Write the id of the next trace, NUL-terminated, into `out`. */
typedef void (*kineto_profile_run_make_id)(char *out, size_t bytes, void *user);

#define KINETO_TRACE_ID_BYTES 128

/** All zero but the size records the calling thread with the defaults. Everything is copied but `user`. */
typedef struct kineto_profile_run_options {
    size_t size;                          /**< sizeof(kineto_profile_run_options) */
    const kineto_profiler_config *config; /**< NULL: the defaults of KINETO_STATE_KINETO */
    uint32_t activities;                  /**< KINETO_ACTIVITY_SET(…); 0: all that there are */
    uint32_t scopes;                      /**< of operators: mask of 1 << kineto_scope; 0: all */
    const kineto_schedule *schedule;      /**< NULL: one cycle */
    kineto_profile_run_action_of action;      /**< in place of a schedule; NULL */
    kineto_profile_run_ready on_trace_ready;  /**< NULL: no callback */
    kineto_profile_run_make_id make_trace_id; /**< NULL: 32 random hexadecimal digits */
    void *user;                           /**< passed to the three callbacks */
    bool acc_events; /**< keep all cycles: summaries cover all of them */
} kineto_profile_run_options;
KINETO_INIT_FUNCTION(kineto_profile_run_options)

/** Create a run that is not started yet.
 *  @param options  NULL: the defaults.
 *  @param out      receives a profile to destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT for an invalid schedule, both a schedule and an action, or an invalid config;
 *          KINETO_E_MEMORY. A schedule without a warm-up is a warning in the log. threads: any. */
KINETO_API kineto_status kineto_profile_run_create(const kineto_profile_run_options *options,
                                               kineto_profile_run **out, kineto_error *err);
/** Free the run; a cycle that is being recorded is discarded. NULL is ignored. To be called by the thread that
 *  started the run, see kineto_profile_run_step. threads: owner. */
KINETO_API void kineto_profile_run_destroy(kineto_profile_run *profile);

/** Start with the current step number.
 *  @return KINETO_E_STATE if the run is started already, or an error of kineto_profiler_create or
 *          kineto_profiler_start: the run is then not started. threads: owner. */
KINETO_API kineto_status kineto_profile_run_start(kineto_profile_run *profile, kineto_error *err);
/** End the current step and begin the next one. To be called by the thread that started the run, which is the
 *  recorded thread unless all are. A call by another thread does not end the annotation of the step, which then
 *  lasts until the next call by the recorded thread.
 *  @return KINETO_E_STATE if the run is not started; the first failure of an action of the schedule, or of
 *          on_trace_ready. The step is counted in any case and the schedule continues. threads: owner. */
KINETO_API kineto_status kineto_profile_run_step(kineto_profile_run *profile, kineto_error *err);
/** End the run; the trace of a cycle that is being recorded is delivered. The run may be started again.
 *  @return as kineto_profile_run_step. threads: owner. */
KINETO_API kineto_status kineto_profile_run_stop(kineto_profile_run *profile, kineto_error *err);

/** Pause or resume the cycle that is being recorded. A pause ends with its cycle.
 *  @return KINETO_E_STATE if no cycle is being recorded, or as kineto_profiler_pause. threads: owner. */
KINETO_API kineto_status kineto_profile_run_pause(kineto_profile_run *profile, bool paused,
                                              kineto_error *err);
/** The current step, from 0, and its action. threads: owner. */
KINETO_API uint64_t kineto_profile_run_step_number(const kineto_profile_run *profile);
KINETO_API kineto_action kineto_profile_run_current_action(const kineto_profile_run *profile);
/** Id of the current cycle, else of the last one: "trace_id" in its header; "" before the first. Valid until the
 *  next cycle is prepared. threads: owner. */
KINETO_API const char *kineto_profile_run_trace_id(const kineto_profile_run *profile);
/** Number of events of cycles that ended before they were complete. They are in no result; the ledger of the next
 *  trace reports them. threads: owner. */
KINETO_API uint64_t kineto_profile_run_discarded(const kineto_profile_run *profile);

/** The last delivered cycle, borrowed until the next one is delivered; NULL before the first. threads: owner. */
KINETO_API kineto_profiler_result *kineto_profile_run_result(const kineto_profile_run *profile);
/** Number of kept cycles (at most one unless acc_events), and one of them; NULL for an index out of range.
 *  Borrowed likewise. threads: owner. */
KINETO_API uint32_t kineto_profile_run_cycle_count(const kineto_profile_run *profile);
KINETO_API kineto_profiler_result *kineto_profile_run_cycle(const kineto_profile_run *profile,
                                                        uint32_t index);

/* ---- the header of the trace --------------------------------------------------------------------- */

/** Add a key with a text or a JSON value to the header of the current or else the next cycle (add), or of all
 *  further cycles (preset). The last value of a key applies.
 *  @return KINETO_E_ARGUMENT if json_value is not one JSON value, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_profile_run_add_metadata(kineto_profile_run *profile, const char *key,
                                                     const char *text, kineto_error *err);
KINETO_API kineto_status kineto_profile_run_add_metadata_json(kineto_profile_run *profile, const char *key,
                                                          const char *json_value,
                                                          kineto_error *err);
KINETO_API kineto_status kineto_profile_run_preset_metadata_json(kineto_profile_run *profile,
                                                             const char *key,
                                                             const char *json_value,
                                                             kineto_error *err);

/* ---- results ------------------------------------------------------------------------------------- */

/* Results of the last cycle; summaries cover all cycles that are kept. KINETO_E_STATE before the first cycle, and
 * for states that do not record. threads: owner. */

/** Write the trace of the last cycle, any number of times. The format follows the extension. */
KINETO_API kineto_status kineto_profile_run_export_chrome_trace(const kineto_profile_run *profile,
                                                            const char *path, kineto_error *err);
/** Function events, to be destroyed by the caller; with device times from events around operators, if any. */
KINETO_API kineto_status kineto_profile_run_events(const kineto_profile_run *profile,
                                               kineto_function_events **out, kineto_error *err);
/** Averages, to be destroyed by the caller; `options` may be NULL. */
KINETO_API kineto_status kineto_profile_run_key_averages(const kineto_profile_run *profile,
                                                     const kineto_averages_options *options,
                                                     kineto_averages **out, kineto_error *err);
/** Folded stacks. KINETO_E_STATE unless the config has with_stack.
 *  @param metric  by PyTorch's name; NULL: "self_cpu_time_total". */
KINETO_API kineto_status kineto_profile_run_export_stacks(const kineto_profile_run *profile,
                                                      const char *path, const char *metric,
                                                      kineto_error *err);
/** Memory of the last cycle over time, see kineto_memory_timeline_save; `device` may be NULL.
 *  KINETO_E_STATE unless the config has profile_memory. */
KINETO_API kineto_status kineto_profile_run_export_memory_timeline(const kineto_profile_run *profile,
                                                               const char *path, const char *device,
                                                               kineto_error *err);
/** Operators of the last cycle as an execution trace, see kineto_execution_trace_save. */
KINETO_API kineto_status kineto_profile_run_export_execution_trace(const kineto_profile_run *profile,
                                                               const char *path, kineto_error *err);

/** Files for TensorBoard's plug-in: "<worker>.<nanoseconds since the epoch>.pt.trace.json", with ".gz" if asked
 *  for, in a directory. */
typedef struct kineto_tensorboard {
    size_t size;           /**< sizeof(kineto_tensorboard) */
    const char *directory; /**< created if missing, with its parents */
    const char *worker;    /**< NULL: "<host>_<pid>" */
    bool gzip;
} kineto_tensorboard;
KINETO_INIT_FUNCTION(kineto_tensorboard)
/** Write the trace of the last cycle for TensorBoard.
 *  @param path   receives the path, which ends with NUL; may be NULL with 0 bytes.
 *  @return KINETO_E_ARGUMENT for a worker with a slash or a path that is too long, "Can't create
 *          directory: …" with its status, or an error of writing. threads: owner. */
KINETO_API kineto_status kineto_profile_run_save_tensorboard(const kineto_profile_run *profile,
                                                         const kineto_tensorboard *where,
                                                         char *path, size_t bytes,
                                                         kineto_error *err);
/** kineto_profile_run_save_tensorboard as an on_trace_ready callback; `user` is a kineto_tensorboard. */
KINETO_API kineto_status kineto_tensorboard_handler(kineto_profile_run *profile, void *where,
                                                    kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_PROFILE_RUN_DECLARED
#include <ckineto/deprecated.h>
#endif
