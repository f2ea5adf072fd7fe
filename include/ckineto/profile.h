/** @file
 *  The profiler of a long run: some steps are skipped, others recorded, and each recorded cycle is
 *  handed over. What torch.profiler.profile is, on top of <ckineto/profiler.h>.
 *
 *      kineto_schedule s = KINETO_SCHEDULE_INIT;
 *      s.wait = 10; s.warmup = 1; s.active = 3;
 *      kineto_profile_options o = KINETO_PROFILE_OPTIONS_INIT;
 *      o.schedule = &s;
 *      o.on_trace_ready = kineto_tensorboard_handler;
 *      o.user = &(kineto_tensorboard){sizeof(kineto_tensorboard), "log", NULL, true};
 *      kineto_profile_create(&o, &profile, &err);
 *      kineto_profile_start(profile, &err);
 *      for (…) {
 *          …
 *          kineto_profile_step(profile, &err);
 *      }
 *      kineto_profile_stop(profile, &err);
 *      kineto_profile_destroy(profile);
 *
 *  Each step is an annotation "ProfilerStep#7" that lies within what is recorded. Without a
 *  schedule everything from start to stop is one cycle, and steps are only counted.
 */
#ifndef CKINETO_PROFILE_H
#define CKINETO_PROFILE_H

#include <ckineto/profiler.h>
#include <ckineto/schedule.h>
#include <ckineto/summary.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kineto_profile kineto_profile;

/** Called when a cycle is over, by the thread that called step or stop, once it is recorded no
 *  more: kineto_profile_result is that of the cycle. What it returns is what step or stop returns.
 *  It cannot start, step or stop the profile: KINETO_E_STATE. If it destroys it, that is done when
 *  step or stop returns. */
typedef kineto_status (*kineto_profile_ready)(kineto_profile *profile, void *user,
                                              kineto_error *err);
/** What to do in a step: a schedule of one's own. */
typedef kineto_action (*kineto_profile_action_of)(uint64_t step, void *user);
/** Write an id for the next trace, a text that ends with NUL, into `out`. */
typedef void (*kineto_profile_make_id)(char *out, size_t bytes, void *user);

#define KINETO_TRACE_ID_BYTES 128

/** All zero but the size records this thread with the defaults: KINETO_PROFILE_OPTIONS_INIT.
 *  Everything is copied but `user`. */
typedef struct kineto_profile_options {
    size_t size;                          /**< sizeof(kineto_profile_options) */
    const kineto_profiler_config *config; /**< NULL: the defaults of KINETO_STATE_KINETO */
    uint32_t activities;                  /**< KINETO_ACTIVITY_SET(…); 0: all that there are */
    uint32_t scopes;                      /**< of operators: mask of 1 << kineto_scope; 0: all */
    const kineto_schedule *schedule;      /**< NULL: one cycle */
    kineto_profile_action_of action;      /**< in place of a schedule; NULL */
    kineto_profile_ready on_trace_ready;  /**< NULL: nobody is told */
    kineto_profile_make_id make_trace_id; /**< NULL: 32 random hexadecimal digits */
    void *user;                           /**< for the three */
    bool acc_events; /**< keep the cycles before the last one: summaries are of all of them */
} kineto_profile_options;
#define KINETO_PROFILE_OPTIONS_INIT                                                                \
    {                                                                                              \
        sizeof(kineto_profile_options), NULL, 0, 0, NULL, NULL, NULL, NULL, NULL, false            \
    }

/** A profile that does not run yet.
 *  @param options  NULL: the defaults.
 *  @param out      receives a profile to destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT for a schedule that is not possible, a schedule and an action, or a
 *          config that makes no sense; KINETO_E_MEMORY. A schedule without a warm-up is a
 *          warning in the log. threads: any. */
KINETO_API kineto_status kineto_profile_create(const kineto_profile_options *options,
                                               kineto_profile **out, kineto_error *err);
/** What runs is discarded. NULL is fine. To be called by the thread that started it: see
 *  kineto_profile_step. threads: owner. */
KINETO_API void kineto_profile_destroy(kineto_profile *profile);

/** Begin, with the step that it is at. KINETO_E_STATE if it runs already; else what
 *  kineto_profiler_create and kineto_profiler_start return: then it does not run. threads: owner.
 */
KINETO_API kineto_status kineto_profile_start(kineto_profile *profile, kineto_error *err);
/** A step is over and the next one begins: to be called by the thread that started it, which
 *  is the one that is recorded unless all are. From another thread it does all but end the
 *  annotation of the step, which lasts until this profile is called by its own thread again.
 *  @return KINETO_E_STATE if it does not run; the first failure of what the schedule asks for, or
 * of on_trace_ready. The step counts all the same, and the schedule goes on. threads: owner.
 */
KINETO_API kineto_status kineto_profile_step(kineto_profile *profile, kineto_error *err);
/** The run is over; a cycle that has recorded something is handed over. It may be started again.
 *  @return as kineto_profile_step. threads: owner. */
KINETO_API kineto_status kineto_profile_stop(kineto_profile *profile, kineto_error *err);

/** The step that it is at, from 0; what is done in it. threads: owner. */
/** Pause the cycle that is recorded, and go on: what happens meanwhile is not in it. A pause ends with its
 *  cycle. @return KINETO_E_STATE if no cycle is recorded; as kineto_profiler_pause. threads: owner. */
KINETO_API kineto_status kineto_profile_pause(kineto_profile *profile, bool paused,
                                              kineto_error *err);
KINETO_API uint64_t kineto_profile_step_number(const kineto_profile *profile);
KINETO_API kineto_action kineto_profile_current_action(const kineto_profile *profile);
/** Id of the cycle that is prepared or recorded, else of the last one: "trace_id" of its header. ""
 *  before the first. Valid until the next is prepared. threads: owner. */
KINETO_API const char *kineto_profile_trace_id(const kineto_profile *profile);
/** Events of cycles that the schedule ended before they were complete: they are in no result. The
 *  next trace has them in its ledger. threads: owner. */
KINETO_API uint64_t kineto_profile_discarded(const kineto_profile *profile);

/** The last cycle that was handed over, borrowed: retain it to keep it beyond the next one. NULL
 *  before the first. threads: owner. */
KINETO_API kineto_profiler_result *kineto_profile_result(const kineto_profile *profile);
/** How many cycles are kept (at most one unless acc_events), and one of them; NULL for an index out
 *  of range. Borrowed likewise. threads: owner. */
KINETO_API uint32_t kineto_profile_cycle_count(const kineto_profile *profile);
KINETO_API kineto_profiler_result *kineto_profile_cycle(const kineto_profile *profile,
                                                        uint32_t index);

/* ---- the header of the trace --------------------------------------------------------------------- */

/** Put a key with a text, or a JSON value, into the header of the cycle that is recorded or else of
 *  the next one; or of all from now on. The last one said of a key counts.
 *  @return KINETO_E_ARGUMENT for what is not one JSON value, KINETO_E_MEMORY. threads: owner. */
KINETO_API kineto_status kineto_profile_add_metadata(kineto_profile *profile, const char *key,
                                                     const char *text, kineto_error *err);
KINETO_API kineto_status kineto_profile_add_metadata_json(kineto_profile *profile, const char *key,
                                                          const char *json_value,
                                                          kineto_error *err);
KINETO_API kineto_status kineto_profile_preset_metadata_json(kineto_profile *profile,
                                                             const char *key,
                                                             const char *json_value,
                                                             kineto_error *err);

/* ---- what comes out ------------------------------------------------------------------------------ */

/* Of the last cycle; those of <ckineto/summary.h>, if cycles are kept, of all of them together.
 * KINETO_E_STATE before the first one, and for states that record nothing. threads: owner. */

/** Write the trace of the last cycle, as often as one likes. The format follows the extension. */
KINETO_API kineto_status kineto_profile_export_chrome_trace(const kineto_profile *profile,
                                                            const char *path, kineto_error *err);
/** Function events, to be released. With device times from events around operators, where there
 *  are such. */
KINETO_API kineto_status kineto_profile_events(const kineto_profile *profile,
                                               kineto_function_events **out, kineto_error *err);
/** Averages, to be released; `options` may be NULL. */
KINETO_API kineto_status kineto_profile_key_averages(const kineto_profile *profile,
                                                     const kineto_averages_options *options,
                                                     kineto_averages **out, kineto_error *err);
/** Folded stacks, of a metric by PyTorch's name; NULL: "self_cpu_time_total". KINETO_E_STATE unless
 *  the config has with_stack. */
KINETO_API kineto_status kineto_profile_export_stacks(const kineto_profile *profile,
                                                      const char *path, const char *metric,
                                                      kineto_error *err);
/** Memory of the last cycle over time, see kineto_memory_timeline_save; `device` may be NULL.
 *  KINETO_E_STATE unless the config has profile_memory. */
KINETO_API kineto_status kineto_profile_export_memory_timeline(const kineto_profile *profile,
                                                               const char *path, const char *device,
                                                               kineto_error *err);
/** Operators of the last cycle as a graph, see kineto_execution_trace_save. */
KINETO_API kineto_status kineto_profile_export_execution_trace(const kineto_profile *profile,
                                                               const char *path, kineto_error *err);

/** Where TensorBoard's plug-in finds traces: a directory with
 *  "<worker>.<nanoseconds since the epoch>.pt.trace.json", and ".gz". */
typedef struct kineto_tensorboard {
    size_t size;           /**< sizeof(kineto_tensorboard) */
    const char *directory; /**< made, if it is not there, with those above it */
    const char *worker;    /**< NULL: "<host>_<pid>" */
    bool gzip;
} kineto_tensorboard;
/** Write the last cycle there.
 *  @param path   receives the path, which ends with NUL; may be NULL with 0 bytes.
 *  @return KINETO_E_ARGUMENT for a worker with a slash or a path that is too long, "Can't create
 *          directory: …" with the status of that, and what writing met. threads: owner. */
KINETO_API kineto_status kineto_profile_save_tensorboard(const kineto_profile *profile,
                                                         const kineto_tensorboard *where,
                                                         char *path, size_t bytes,
                                                         kineto_error *err);
/** The same as on_trace_ready, with the kineto_tensorboard as `user`. */
KINETO_API kineto_status kineto_tensorboard_handler(kineto_profile *profile, void *where,
                                                    kineto_error *err);

#ifdef __cplusplus
}
#endif
#endif
