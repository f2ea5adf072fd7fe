/** @file
 *  The front end: PyTorch's profiler for any program. What PyTorch spreads over its observer and
 *  Kineto headers is here under one roof, with statuses instead of exceptions and with the numbers
 *  of its enumerations.
 *
 *      kineto_profiler_config config;
 *      kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
 *      config.report_input_shapes = true;
 *      kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err);
 *      ...                                              // operators: <ckineto/function.h>
 *      kineto_profiler_disable(&result, &err);
 *      kineto_result_save(result, "trace.json", &err);
 *      kineto_result_release(result);
 *
 *  Beneath is a handle, kineto_profiler: with it several may run at once, on threads of their own,
 *  and any thread may stop one. The functions without a handle keep one for each thread, and one
 * for all threads, as PyTorch does. What comes out is a trace (<ckineto/trace.h>) like any other.
 */
#ifndef CKINETO_PROFILER_H
#define CKINETO_PROFILER_H

#include <ckineto/function.h>
#include <ckineto/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- states and configuration ------------------------------------------------------------------- */

/** What kind of profiler: X(NAME, PyTorch's number). */
#define KINETO_STATE_MAP(X)                                                                        \
    X(DISABLED, 0)                                                                                 \
    X(CPU, 1)                                                                                      \
    X(CUDA, 2)                                                                                     \
    X(NVTX, 3)                                                                                     \
    X(ITT, 4)                                                                                      \
    X(PRIVATEUSE1, 5)                                                                              \
    X(KINETO, 6)                                                                                   \
    X(KINETO_GPU_FALLBACK, 7)                                                                      \
    X(KINETO_PRIVATEUSE1_FALLBACK, 8)                                                              \
    X(KINETO_ONDEMAND, 9)                                                                          \
    X(KINETO_PRIVATEUSE1, 10)

/** DISABLED: none. CPU: host activities, whatever is asked for. CUDA: those and CUDA's. NVTX, ITT:
 *  operators become ranges of the tool that is attached. PRIVATEUSE1: a registered observer is told
 *  (<ckineto/stubs.h>). KINETO: what is asked for. The FALLBACKs time operators on the device by
 *  events of its stubs besides. ONDEMAND: all threads, for who drives it from outside.
 *  KINETO_PRIVATEUSE1: KINETO with the registered PrivateUse1 profiler (<ckineto/host.h>), which
 *  stays out of it until then; once let in, it takes part in what follows until unregistered. */
typedef enum kineto_profiler_state {
#define KINETO_X(name, value) KINETO_STATE_##name = (value),
    KINETO_STATE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_NUM_PROFILER_STATES = 11
} kineto_profiler_state;

/** What is active on a thread. LEGACY: states CPU and CUDA. */
typedef enum kineto_active_profiler {
    KINETO_ACTIVE_NONE = 0,
    KINETO_ACTIVE_LEGACY = 1,
    KINETO_ACTIVE_KINETO = 2,
    KINETO_ACTIVE_NVTX = 3,
    KINETO_ACTIVE_ITT = 4,
    KINETO_ACTIVE_PRIVATEUSE1 = 5,
    KINETO_NUM_ACTIVE_PROFILERS = 6
} kineto_active_profiler;

/** Groups of activities that are asked for together: X(NAME, PyTorch's number). */
#define KINETO_ACTIVITY_TYPE_MAP(X)                                                                \
    X(CPU, 0) X(XPU, 1) X(CUDA, 2) X(HPU, 3) X(MTIA, 4) X(PRIVATEUSE1, 5)

typedef enum kineto_activity_type {
#define KINETO_X(name, value) KINETO_ACTIVITY_TYPE_##name = (value),
    KINETO_ACTIVITY_TYPE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_NUM_ACTIVITY_TYPES = 6
} kineto_activity_type;

/** A set of one group; sets are joined by |. */
#define KINETO_ACTIVITY_SET(name) (UINT32_C(1) << KINETO_ACTIVITY_TYPE_##name)

/** "CPU", "XPU", "CUDA", "HPU", "MTIA", "PrivateUse1"; "KINETO" and so on; "unknown". Static
 *  storage. threads: hot. */
KINETO_API const char *kineto_activity_type_name(kineto_activity_type type);
KINETO_API const char *kineto_profiler_state_name(kineto_profiler_state state);

/** Kinds of activities that a set of groups stands for: a mask of KINETO_KIND_BIT. threads: hot. */
KINETO_API uint64_t kineto_activity_kinds(uint32_t activities);

/** Rarely needed wishes; all zero is none. Borrowed until the profiler is prepared. It lies inside of
 *  a config and never grows: what is new comes at the config's end. */
typedef struct kineto_experimental_config {
    /** Ranges of the device's performance counters: their names, handed to plug-ins. */
    const char *const *profiler_metrics;
    size_t profiler_metric_count;
    bool profiler_measure_per_kernel; /**< a range for each kernel, not one for all */
    bool verbose; /**< with_stack: native stacks also of operators that the program hands one in of
                   */
    /** Counters of the processor for each operator, up to 4: cycles, instructions, pagefaults,
     *  backend-stall-cycles, frontend-stall-cycles and those of docs/reference/stacks.md */
    const char *const *performance_events;
    size_t performance_event_count;
    bool enable_cuda_sync_events; /**< also waits for the device */
    bool adjust_profiler_step;    /**< a step begins where the function of Python around it does */
    bool disable_external_correlation;  /**< plug-ins are not told which operator launches what */
    bool profile_all_threads;           /**< not only the calling thread and those that join */
    bool capture_overload_names;        /**< names are "aten::add.Tensor" */
    bool record_python_gc_info;         /**< garbage collections that are reported */
    bool expose_kineto_event_metadata;  /**< kineto_event_metadata_json gives all arguments */
    const char *custom_profiler_config; /**< text for plug-ins, up to 1023 bytes */
    bool adjust_timestamps; /**< operators last at least as long as those inside of them */
    bool trace_only;        /**< the trace is all that is wanted: no list of events, no tree */
} kineto_experimental_config;

/** What to profile, and how. Fill with kineto_profiler_config_init. Texts are borrowed until the
 *  profiler is prepared. */
typedef struct kineto_profiler_config {
    size_t size;              /**< sizeof(kineto_profiler_config) */
    uint32_t state;           /**< kineto_profiler_state */
    bool report_input_shapes; /**< sizes, types, values of inputs */
    bool profile_memory;      /**< allocations and releases that are reported */
    bool with_stack;   /**< call stacks of operators: what the program hands in, else native */
    bool with_flops;   /**< operations, for summaries; needs shapes: they are recorded too */
    bool with_modules; /**< module hierarchies that the program hands in */
    kineto_experimental_config experimental;
    const char *trace_id;   /**< NULL: none */
    size_t buffer_bytes;    /**< budget; 0: 64 MiB */
    uint32_t retention;     /**< kineto_retention: what to keep when the budget is spent */
    bool record_tensor_ids; /**< ids of tensors and their memory, outputs: execution traces */
} kineto_profiler_config;

/** Defaults for a state. threads: hot. */
static inline void kineto_profiler_config_init(kineto_profiler_config *config,
                                               kineto_profiler_state state)
{
    /* not in the library: the size is that of the program that is compiled */
    kineto_experimental_config none = {NULL,  0,     false, false, NULL,  0,    false, false,
                                       false, false, false, false, false, NULL, false, false};
    kineto_profiler_config zero = {sizeof zero, (uint32_t)state, false, false, false, false, false,
                                   none,        NULL,            0,     0,     false};
    *config = zero;
}
/** Is it DISABLED; for all threads by its state; by its state or by wish? threads: hot. */
KINETO_API bool kineto_profiler_config_disabled(const kineto_profiler_config *config);
KINETO_API bool kineto_profiler_config_global(const kineto_profiler_config *config);
KINETO_API bool kineto_profiler_config_push_global_callbacks(const kineto_profiler_config *config);
/** Are there metrics? threads: hot. */
KINETO_API bool kineto_experimental_config_is_set(const kineto_experimental_config *config);

/** The part that PyTorch hands to other processes: {state, shapes, memory}. threads: hot. */
#define KINETO_CONFIG_VALUES 3
KINETO_API void kineto_profiler_config_to_values(const kineto_profiler_config *config,
                                                 int64_t values[KINETO_CONFIG_VALUES]);
/** And back; all else is the default.
 *  @param config  must state its size, as kineto_profiler_config_init does: no more is written.
 *  @return KINETO_E_ARGUMENT unless there are exactly three values, the first of them a state.
 *  threads: any. */
KINETO_API kineto_status kineto_profiler_config_from_values(const int64_t *values, size_t count,
                                                            kineto_profiler_config *config,
                                                            kineto_error *err);

/* ---- results ------------------------------------------------------------------------------------ */

/** What was profiled. Immutable; any number of owners. */
typedef struct kineto_profiler_result kineto_profiler_result;

/** One more owner; returns its argument. threads: any. */
KINETO_API kineto_profiler_result *kineto_result_retain(kineto_profiler_result *result);
/** One owner less; the last frees. NULL is fine. threads: any. */
KINETO_API void kineto_result_release(kineto_profiler_result *result);
/** The trace, borrowed. NULL for the empty result of a profiler that records nothing itself (NVTX,
 *  ITT, PRIVATEUSE1, ONDEMAND). threads: any. */
KINETO_API const kineto_trace *kineto_result_trace(const kineto_profiler_result *result);
/** When recording began; 0 for an empty result. threads: any. */
KINETO_API int64_t kineto_result_start_ns(const kineto_profiler_result *result);
/** Write the trace, as often as one likes: see kineto_trace_save.
 *  @return KINETO_E_STATE for an empty result, and what writing meets. threads: any. */
KINETO_API kineto_status kineto_result_save(const kineto_profiler_result *result, const char *path,
                                            kineto_error *err);

/* ---- profilers by handle ------------------------------------------------------------------------ */

typedef struct kineto_profiler kineto_profiler;

/** Called for each operator and backend event when the profiler stops, on the thread that stops it:
 * may say what the program's own tables know of `debug_handle`. */
typedef struct kineto_post_event kineto_post_event;
typedef void (*kineto_post_process)(int64_t debug_handle, kineto_post_event *event, void *user);
/** Append a frame to the event's stack, a module to its hierarchy. Copied. threads: owner, which is the
 *  call. */
KINETO_API void kineto_post_event_add_frame(kineto_post_event *event, const char *frame);
KINETO_API void kineto_post_event_add_module(kineto_post_event *event, const char *module);

/** Get everything ready: reserve and touch the buffer, initialise device profilers. Slow.
 *  @param activities  KINETO_ACTIVITY_SET(…); may be 0 for NVTX, ITT and PRIVATEUSE1.
 *  @param scopes      mask of 1 << kineto_scope of operators; 0: all.
 *  @param out         receives a profiler to destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT for a config that makes no sense, KINETO_E_STATE where something that
 * it needs is not registered, KINETO_E_NOT_FOUND where no tool is attached, KINETO_E_MEMORY,
 *          KINETO_E_LIMIT. threads: any. */
KINETO_API kineto_status kineto_profiler_create(const kineto_profiler_config *config,
                                                uint32_t activities, uint32_t scopes,
                                                kineto_profiler **out, kineto_error *err);
/** Record from here on: the calling thread, those that join, or all if asked for.
 *  KINETO_E_STATE if it does already, or if what it needs is registered no more. threads: owner. */
KINETO_API kineto_status kineto_profiler_start(kineto_profiler *profiler, kineto_error *err);
/** Until here. It may be started again.
 *  @param out  receives a result to release; may be NULL. NULL on failure.
 *  @return KINETO_E_STATE if it does not record, KINETO_E_MEMORY. threads: owner; also another
 * thread than the one that started it. */
KINETO_API kineto_status kineto_profiler_stop(kineto_profiler *profiler,
                                              kineto_profiler_result **out, kineto_error *err);
/** Ask to be called for each event when it stops. NULL: no more. threads: owner. */
KINETO_API void kineto_profiler_set_post_process(kineto_profiler *profiler,
                                                 kineto_post_process process, void *user);
/** Pause and go on; several times. Pausing groups one by one is not possible: what they caused
 * would be without its causes, so that any set pauses all. KINETO_E_STATE if it does not record.
 * threads: owner. */
KINETO_API kineto_status kineto_profiler_pause(kineto_profiler *profiler, bool paused,
                                               kineto_error *err);
/** The calling thread takes part from here on; no more.
 *  @return KINETO_E_STATE if the profiler is one of all threads, or what kineto_session_join, or
 *          kineto_session_leave, returns; KINETO_E_LIMIT, of NVTX, ITT and the FALLBACKs, for more
 *          than 1024 threads that have not ended. threads: any. */
KINETO_API kineto_status kineto_profiler_join(kineto_profiler *profiler, kineto_error *err);
KINETO_API kineto_status kineto_profiler_leave(kineto_profiler *profiler, kineto_error *err);
/** Stops and discards if need be. NULL is fine. threads: owner. */
KINETO_API void kineto_profiler_destroy(kineto_profiler *profiler);

/* ---- profilers by thread, as PyTorch has them ---------------------------------------------------- */

/** Get ready for an enable to follow on this thread, before it ends, or on any for a config of all
 *  threads.
 *  @return KINETO_E_UNSUPPORTED for states that are no Kineto; KINETO_OK at once for NVTX and ITT.
 *  threads: any. */
KINETO_API kineto_status kineto_profiler_prepare(const kineto_profiler_config *config,
                                                 uint32_t activities, kineto_error *err);
/** Start the profiler of this thread, or the one of all threads if the config is such. Prepares, if
 *  that was not done.
 *  @return KINETO_E_STATE: "Profiler is already enabled on this thread."; else what
 *          kineto_profiler_create returns. threads: any. */
KINETO_API kineto_status kineto_profiler_enable(const kineto_profiler_config *config,
                                                uint32_t activities, uint32_t scopes,
                                                kineto_error *err);
/** The same with a function to be called for each event at the end. KINETO_E_UNSUPPORTED for NVTX,
 *  ITT, PRIVATEUSE1 and ONDEMAND. threads: any. */
KINETO_API kineto_status kineto_profiler_enable_with_post_process(
    const kineto_profiler_config *config, uint32_t activities, kineto_post_process process,
    void *user, uint32_t scopes, kineto_error *err);
/** Stop the profiler of all threads, else the one of this thread, else the last one whose thread has
 *  ended, else, if there is only one, the one of another thread.
 *  @param out  receives a result to release, which may be an empty one; may be NULL.
 *  @return KINETO_E_STATE: "Can't disable Kineto profiler when it's not running". threads: any. */
KINETO_API kineto_status kineto_profiler_disable(kineto_profiler_result **out, kineto_error *err);
/** Pause it and go on. KINETO_E_STATE if there is none; KINETO_E_ARGUMENT for no activities.
 * threads: any. */
KINETO_API kineto_status kineto_profiler_toggle_collection_dynamic(bool enable, uint32_t activities,
                                                                   kineto_error *err);
/** Does some thread profile its host activities, so that others may join? threads: hot. */
KINETO_API bool kineto_profiler_is_enabled_in_main_thread(void);
/** The calling thread joins the profiler of the main thread, that is the one enabled last; and
 * leaves.
 *  @return KINETO_E_STATE: "Profiler is not enabled in main thread.", "Profiler is already enabled
 * in this thread.", "Can't disable Kineto profiler when it's not running in this thread";
 * KINETO_E_LIMIT, see kineto_profiler_join. threads: any. */
KINETO_API kineto_status kineto_profiler_enable_in_child_thread(kineto_error *err);
KINETO_API kineto_status kineto_profiler_disable_in_child_thread(kineto_error *err);

/** Is a profiler active for the calling thread; which; with what config? The config's texts are the
 *  profiler's. KINETO_E_STATE if there is none. threads: any.
 *  @param out  must state its size, as kineto_profiler_config_init does: no more is written. */
KINETO_API bool kineto_profiler_enabled(void);
KINETO_API kineto_active_profiler kineto_profiler_type(void);
KINETO_API kineto_status kineto_profiler_get_config(kineto_profiler_config *out, kineto_error *err);

/** An operator that a backend ran as a whole, on this thread, reported afterwards. Nothing without
 * a profiler. Times are nanoseconds since the Unix epoch (PyTorch's are microseconds).
 *  @param backend  becomes the argument "Backend". Both texts are copied. threads: any. */
KINETO_API void kineto_profiler_report_backend_event_ns(int64_t start_ns, int64_t end_ns,
                                                        int64_t debug_handle, kineto_scope scope,
                                                        const char *name, const char *backend);
/** Begin and end of a garbage collection on this thread, where the profiler wants them. threads:
 * hot. */
KINETO_API void kineto_profiler_report_gc(bool begin);

/** Memory: see kineto_memory and kineto_out_of_memory in <ckineto/record.h>. */

/* Switches of the process, for profilers that are prepared from then on. threads: any. */
KINETO_API void kineto_profiler_set_record_concrete_inputs(bool on); /**< at first on */
KINETO_API bool kineto_profiler_get_record_concrete_inputs(void);
KINETO_API void kineto_profiler_set_fwd_bwd(bool on); /**< links forward to backward; at first on */
KINETO_API bool kineto_profiler_get_fwd_bwd(void);
KINETO_API void kineto_profiler_set_cuda_sync(bool on); /**< at first off */
KINETO_API bool kineto_profiler_get_cuda_sync(void);
KINETO_API void kineto_profiler_set_record_tensor_ids(bool on); /**< at first off */
KINETO_API bool kineto_profiler_get_record_tensor_ids(void);

/* ---- on demand ---------------------------------------------------------------------------------- */

/** kineto_step of <ckineto/record.h>: the program begins another iteration. Requests by iteration count
 *  them. threads: hot, but for the step in which a window begins or ends. */
KINETO_API void kineto_profiler_step(void);
KINETO_API uint64_t kineto_profiler_step_count(void);

/** Receives what a profiler of state KINETO_ONDEMAND recorded, when it ends; borrowed. */
typedef void (*kineto_ondemand_ready)(const kineto_trace *trace, void *user);
/** Who drives such profilers. NULL: their traces are discarded. threads: any. */
KINETO_API void kineto_ondemand_set_ready(kineto_ondemand_ready ready, void *user);
/** Prepare, start, stop the profiler of state KINETO_ONDEMAND with {CPU} and the scopes FUNCTION,
 *  USER_SCOPE, BACKWARD_FUNCTION, for a controller of the program's own. What <ckineto/control.h> records
 *  is in this state, too, and `ready` sees it, but it is nobody else's to stop. KINETO_E_STATE out of
 *  order, or if another profiler of all threads runs; else what creating, starting and stopping one
 *  returns. threads: any.
 *
 *  A profiler of the program itself comes first: when one that records is started, a trace that is under
 *  way for somebody outside is dropped, and until it stops requests are refused as busy. Sessions
 *  (<ckineto/session.h>) and traces for others overlap freely. */
KINETO_API kineto_status kineto_ondemand_prepare(const kineto_profiler_config *config,
                                                 kineto_error *err);
KINETO_API kineto_status kineto_ondemand_start(kineto_error *err);
KINETO_API kineto_status kineto_ondemand_stop(kineto_error *err);

/* ---- memory profiles ---------------------------------------------------------------------------- */

/** Follow all allocations and releases that are reported, until stopped; what is exported is as of
 *  the stop, or of now.
 *  @return KINETO_E_STATE: it runs already, it does not run, there never was one; what a session
 *          returns. threads: any. */
KINETO_API kineto_status kineto_memory_profile_start(kineto_error *err);
KINETO_API kineto_status kineto_memory_profile_stop(kineto_error *err);
/** A JSON file: live blocks with where they were allocated, the peak, and totals by place.
 *  @return KINETO_E_STATE: there never was one; what writing it met. threads: any. */
KINETO_API kineto_status kineto_memory_profile_export(const char *path, kineto_error *err);

/* ---- events ------------------------------------------------------------------------------------- */

/** One activity as PyTorch's KinetoEvent: a view of a row, of any trace. */
typedef struct kineto_event {
    const kineto_trace *trace;
    const kineto_profiler_result *result; /**< NULL: of a trace alone */
    kineto_row row;
    kineto_activity activity;
} kineto_event;

/** Events of a result, by their starts, and one of them; false past the end. threads: any. */
KINETO_API uint64_t kineto_result_event_count(const kineto_profiler_result *result);
KINETO_API bool kineto_result_event(const kineto_profiler_result *result, uint64_t index,
                                    kineto_event *out);
/** The event of a row; false if there is no such row. threads: any. */
KINETO_API bool kineto_event_of(const kineto_trace *trace, kineto_row row, kineto_event *out);

/* Accessors, in PyTorch's order and by its names. Texts and JSON borrow from the trace, and are
 * valid until the thread looks at the arguments of 7 other rows. threads: any. */
KINETO_API uint64_t
kineto_event_start_thread_id(const kineto_event *e); /**< as kineto_function_thread_id; 0 unknown */
KINETO_API uint64_t kineto_event_end_thread_id(const kineto_event *e);
KINETO_API uint32_t kineto_event_activity_type(const kineto_event *e); /**< kineto_kind */
KINETO_API uint64_t kineto_event_fwd_thread_id(const kineto_event *e); /**< 0: none */
KINETO_API bool kineto_event_has_shapes(const kineto_event *e);
KINETO_API kineto_string kineto_event_shapes(const kineto_event *e);  /**< JSON: [[2,3],[]] */
KINETO_API kineto_string kineto_event_strides(const kineto_event *e); /**< JSON */
KINETO_API bool kineto_event_has_types(const kineto_event *e);
KINETO_API kineto_string kineto_event_dtypes(const kineto_event *e); /**< JSON: ["float",""] */
KINETO_API bool kineto_event_has_concrete_inputs(const kineto_event *e);
KINETO_API kineto_string kineto_event_concrete_inputs(const kineto_event *e); /**< JSON: ["","1"] */
KINETO_API bool kineto_event_has_kwinputs(const kineto_event *e);
/** The n-th argument that is none of PyTorch's own: inputs with a keyword. False past the end.
 *  threads: any. */
KINETO_API bool kineto_event_kwinput(const kineto_event *e, uint32_t n, kineto_arg *out);
KINETO_API bool kineto_event_is_hidden(const kineto_event *e);
KINETO_API uint64_t kineto_event_flops(const kineto_event *e);      /**< 0: unknown */
KINETO_API int64_t kineto_event_sequence_nr(const kineto_event *e); /**< -1: none */
KINETO_API bool kineto_event_has_stack(const kineto_event *e);
KINETO_API kineto_string kineto_event_stack(const kineto_event *e); /**< "inner;outer;" */
KINETO_API kineto_scope kineto_event_scope(const kineto_event *e);
KINETO_API bool kineto_event_has_module_hierarchy(const kineto_event *e);
KINETO_API kineto_string kineto_event_module_hierarchy(const kineto_event *e); /**< "A.B." */
KINETO_API int64_t kineto_event_debug_handle(const kineto_event *e);           /**< -1: none */
KINETO_API kineto_string kineto_event_name(const kineto_event *e); /**< without the overload */
KINETO_API kineto_string kineto_event_overload_name(const kineto_event *e);
KINETO_API uint32_t kineto_event_device_type(const kineto_event *e); /**< kineto_device_type */
/** Of an allocation its device; else the process, or the number of the device. threads: any. */
KINETO_API int64_t kineto_event_device_index(const kineto_event *e);
KINETO_API int64_t kineto_event_nbytes(const kineto_event *e); /**< bytes of an allocation */
KINETO_API int64_t kineto_event_start_ns(const kineto_event *e);
KINETO_API int64_t kineto_event_end_ns(const kineto_event *e);
KINETO_API int64_t kineto_event_duration_ns(const kineto_event *e);
KINETO_API bool kineto_event_is_async(const kineto_event *e);
KINETO_API uint64_t kineto_event_correlation_id(const kineto_event *e);
KINETO_API uint64_t
kineto_event_linked_correlation_id(const kineto_event *e); /**< of device work: its operator's */
KINETO_API int64_t kineto_event_device_resource_id(const kineto_event *e); /**< thread or stream */
KINETO_API kineto_string kineto_event_backend(const kineto_event *e);
KINETO_API bool kineto_event_is_python_function(const kineto_event *e);
KINETO_API bool kineto_event_is_user_annotation(const kineto_event *e);
KINETO_API int64_t kineto_event_cuda_elapsed_us(const kineto_event *e); /**< fallback; -1: none */
KINETO_API int64_t
kineto_event_privateuse1_elapsed_us(const kineto_event *e); /**< fallback; -1: none */
/** The n-th of the counters that were asked for; false past the end. threads: any. */
KINETO_API bool kineto_event_perf_counter(const kineto_event *e, uint32_t n, kineto_string *name,
                                          uint64_t *value);
/** An argument by name; what PyTorch calls extra_meta. False: there is none. threads: any. */
KINETO_API bool kineto_event_extra_meta(const kineto_event *e, const char *key, kineto_arg *out);
/** All arguments, one JSON object, if the config exposes them; else empty. The caller frees it; NULL:
 *  out of memory. threads: any. */
KINETO_API char *kineto_event_metadata_json(const kineto_event *e);
KINETO_API uint64_t kineto_event_flow_id(const kineto_event *e);   /**< 0: none */
KINETO_API uint32_t kineto_event_flow_type(const kineto_event *e); /**< KINETO_FLOW_… */
KINETO_API bool kineto_event_flow_start(const kineto_event *e);
KINETO_API uint64_t kineto_event_external_id(const kineto_event *e);
KINETO_API int64_t kineto_event_python_id(const kineto_event *e); /**< -1: none */
KINETO_API int64_t kineto_event_python_parent_id(const kineto_event *e);
KINETO_API int64_t kineto_event_python_module_id(const kineto_event *e);

/* ---- the tree of events ------------------------------------------------------------------------- */

/** Operators, what they called, and the device work that they caused: the parent of a kernel is the
 *  call that launched it. Built on first use. KINETO_NO_ROW: none, or out of memory. threads: any.
 */
KINETO_API kineto_row kineto_result_tree_root(const kineto_profiler_result *result, uint64_t index);
KINETO_API uint64_t kineto_result_tree_root_count(const kineto_profiler_result *result);
KINETO_API kineto_row kineto_result_tree_parent(const kineto_profiler_result *result,
                                                kineto_row row);
KINETO_API kineto_row kineto_result_tree_first_child(const kineto_profiler_result *result,
                                                     kineto_row row);
KINETO_API kineto_row kineto_result_tree_next_sibling(const kineto_profiler_result *result,
                                                      kineto_row row);

#ifdef __cplusplus
}
#endif
#endif
