/** @file
 *  PyTorch's profiler interface for any program: the functions of its observer and Kineto headers, with statuses
 *  instead of exceptions and with the numbers of its enumerations.
 *
 *      kineto_profiler_config config;
 *      kineto_profiler_config_init(&config, KINETO_STATE_KINETO);
 *      config.report_input_shapes = true;
 *      kineto_profiler_enable(&config, KINETO_ACTIVITY_SET(CPU), 0, &err);
 *      ...                                              // operators: <ckineto/function.h>
 *      kineto_profiler_disable(&result, &err);
 *      kineto_profiler_result_save(result, "trace.json", &err);
 *      kineto_profiler_result_release(result);
 *
 *  With a handle, kineto_profiler, several profilers may run at once, on separate threads, and any thread may stop
 *  one. The functions without a handle keep one profiler for each thread and one for all threads, as PyTorch does.
 *  The result is a trace (<ckineto/trace.h>).
 */
#ifndef CKINETO_PROFILER_H
#define CKINETO_PROFILER_H

#include <ckineto/function.h>
#include <ckineto/session.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- states and configuration ------------------------------------------------------------------- */

/** States of a profiler: X(NAME, PyTorch's number). */
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

/** DISABLED: none. CPU: host activities only. CUDA: those and CUDA's. NVTX, ITT: operators become ranges of the
 *  attached tool. PRIVATEUSE1: a registered observer is called (<ckineto/stubs.h>). KINETO: the requested activities.
 *  The FALLBACKs also time operators on the device by events of its stubs. ONDEMAND: all threads, driven from
 *  outside. KINETO_PRIVATEUSE1: KINETO with the registered PrivateUse1 profiler (<ckineto/host.h>), which also takes
 *  part in later sessions until it is unregistered. */
typedef enum kineto_profiler_state {
#define KINETO_X(name, value) KINETO_STATE_##name = (value),
    KINETO_STATE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_NUM_PROFILER_STATES = 11
} kineto_profiler_state;

/** The profiler that is active on a thread. LEGACY: states CPU and CUDA. */
typedef enum kineto_active_profiler {
    KINETO_ACTIVE_NONE = 0,
    KINETO_ACTIVE_LEGACY = 1,
    KINETO_ACTIVE_KINETO = 2,
    KINETO_ACTIVE_NVTX = 3,
    KINETO_ACTIVE_ITT = 4,
    KINETO_ACTIVE_PRIVATEUSE1 = 5,
    KINETO_NUM_ACTIVE_PROFILERS = 6
} kineto_active_profiler;

/** Groups of activities: X(NAME, PyTorch's number). */
#define KINETO_ACTIVITY_TYPE_MAP(X)                                                                \
    X(CPU, 0) X(XPU, 1) X(CUDA, 2) X(HPU, 3) X(MTIA, 4) X(PRIVATEUSE1, 5)

typedef enum kineto_activity_type {
#define KINETO_X(name, value) KINETO_ACTIVITY_TYPE_##name = (value),
    KINETO_ACTIVITY_TYPE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_NUM_ACTIVITY_TYPES = 6
} kineto_activity_type;

/** A set of one group; combine sets with |. */
#define KINETO_ACTIVITY_SET(name) (UINT32_C(1) << KINETO_ACTIVITY_TYPE_##name)

/** "CPU", "XPU", "CUDA", "HPU", "MTIA", "PrivateUse1"; "KINETO" and so on; "unknown". Static
 *  storage. threads: hot. */
KINETO_API const char *kineto_activity_type_name(kineto_activity_type type);
KINETO_API const char *kineto_profiler_state_name(kineto_profiler_state state);

/** The activity kinds of a set of groups: a mask of KINETO_KIND_BIT. threads: hot. */
KINETO_API uint64_t kineto_activity_kinds(uint32_t activities);

/** Less common options; all zero by default. Borrowed until the profiler is created. Part of a config, so it never
 *  grows: new options are appended to the config. */
typedef struct kineto_experimental_config {
    /** Names of performance counters of the device, passed to plug-ins. */
    const char *const *profiler_metrics;
    size_t profiler_metric_count;
    bool profiler_measure_per_kernel; /**< a range for each kernel, not one for all */
    bool verbose; /**< with_stack: native stacks also for operators with a stack from the program */
    /** Counters of the processor for each operator, up to 4: cycles, instructions, pagefaults,
     *  backend-stall-cycles, frontend-stall-cycles and those of docs/reference/stacks.md */
    const char *const *performance_events;
    size_t performance_event_count;
    bool enable_cuda_sync_events; /**< also record waits for the device */
    bool adjust_profiler_step;    /**< a step begins with the Python function that encloses it */
    bool disable_external_correlation;  /**< do not pass ids of operators to plug-ins */
    bool profile_all_threads;           /**< not only the calling thread and those that join */
    bool capture_overload_names;        /**< names are "aten::add.Tensor" */
    bool record_python_gc_info;         /**< garbage collections that are reported */
    bool expose_kineto_event_metadata;  /**< kineto_event_metadata_json gives all arguments */
    const char *custom_profiler_config; /**< text for plug-ins, up to 1023 bytes */
    bool adjust_timestamps; /**< operators last at least as long as their children */
    bool trace_only;        /**< build only the trace: no list of events, no tree */
} kineto_experimental_config;

/** Options of a profiler. Fill with kineto_profiler_config_init. Texts are borrowed until the profiler is created. */
typedef struct kineto_profiler_config {
    size_t size;              /**< sizeof(kineto_profiler_config) */
    uint32_t state;           /**< kineto_profiler_state */
    bool report_input_shapes; /**< sizes, types, values of inputs */
    bool profile_memory;      /**< allocations and releases that are reported */
    bool with_stack;   /**< call stacks of operators: from the program, else native */
    bool with_flops;   /**< operations, for summaries; implies recording shapes */
    bool with_modules; /**< module hierarchies from the program */
    kineto_experimental_config experimental;
    const char *trace_id;   /**< NULL: none */
    size_t buffer_bytes;    /**< 0: 64 MiB */
    uint32_t retention;     /**< kineto_retention: which events a full buffer keeps */
    bool record_tensor_ids; /**< ids of tensors and their memory, outputs: execution traces */
} kineto_profiler_config;

/** Defaults for a state. threads: hot. */
static inline void kineto_profiler_config_init(kineto_profiler_config *config,
                                               kineto_profiler_state state)
{
    /* inline, so that the size is that of the caller's header */
    kineto_experimental_config none = {NULL,  0,     false, false, NULL,  0,    false, false,
                                       false, false, false, false, false, NULL, false, false};
    kineto_profiler_config zero = {sizeof zero, (uint32_t)state, false, false, false, false, false,
                                   none,        NULL,            0,     0,     false};
    *config = zero;
}
/** True if the state is DISABLED; if the state implies all threads; if state or options imply them. threads: hot. */
KINETO_API bool kineto_profiler_config_disabled(const kineto_profiler_config *config);
KINETO_API bool kineto_profiler_config_global(const kineto_profiler_config *config);
KINETO_API bool kineto_profiler_config_push_global_callbacks(const kineto_profiler_config *config);
/** True if profiler_metrics are set. threads: hot. */
KINETO_API bool kineto_experimental_config_is_set(const kineto_experimental_config *config);

/** The part that PyTorch passes to other processes: {state, shapes, memory}. threads: hot. */
#define KINETO_CONFIG_VALUES 3
KINETO_API void kineto_profiler_config_to_values(const kineto_profiler_config *config,
                                                 int64_t values[KINETO_CONFIG_VALUES]);
/** The inverse; the other options get their defaults.
 *  @param config  must have its size set, as kineto_profiler_config_init does; no more is written.
 *  @return KINETO_E_ARGUMENT unless there are exactly three values, the first of them a state.
 *  threads: any. */
KINETO_API kineto_status kineto_profiler_config_from_values(const int64_t *values, size_t count,
                                                            kineto_profiler_config *config,
                                                            kineto_error *err);

/* ---- results ------------------------------------------------------------------------------------ */

/** Result of a profiler. Immutable; reference-counted. */
typedef struct kineto_profiler_result kineto_profiler_result;

/** Add an owner; returns its argument. threads: any. */
KINETO_API kineto_profiler_result *kineto_profiler_result_retain(kineto_profiler_result *result);
/** Remove an owner; the last one frees the result. NULL is ignored. threads: any. */
KINETO_API void kineto_profiler_result_release(kineto_profiler_result *result);
/** The trace, borrowed. NULL for the empty result of a profiler that does not record (NVTX, ITT, PRIVATEUSE1,
 *  ONDEMAND). threads: any. */
KINETO_API const kineto_trace *kineto_profiler_result_trace(const kineto_profiler_result *result);
/** When recording began; 0 for an empty result. threads: any. */
KINETO_API int64_t kineto_profiler_result_start_ns(const kineto_profiler_result *result);
/** Write the trace, any number of times: see kineto_trace_save.
 *  @return KINETO_E_STATE for an empty result, or an error of writing. threads: any. */
KINETO_API kineto_status kineto_profiler_result_save(const kineto_profiler_result *result, const char *path,
                                            kineto_error *err);

/* ---- profilers by handle ------------------------------------------------------------------------ */

typedef struct kineto_profiler kineto_profiler;

/** Called for each operator and backend event when the profiler stops, by the thread that stops it. It may add a stack
 *  and modules that the program knows for `debug_handle`. */
typedef struct kineto_post_event kineto_post_event;
typedef void (*kineto_post_process)(int64_t debug_handle, kineto_post_event *event, void *user);
/** Append a frame to the event's stack, a module to its hierarchy. Copied. threads: owner, within the callback. */
KINETO_API void kineto_post_event_add_frame(kineto_post_event *event, const char *frame);
KINETO_API void kineto_post_event_add_module(kineto_post_event *event, const char *module);

/** Create a profiler that does not record yet: reserve and prefault the buffer, initialise device profilers. Slow.
 *  @param activities  KINETO_ACTIVITY_SET(…); may be 0 for NVTX, ITT and PRIVATEUSE1.
 *  @param scopes      mask of 1 << kineto_scope of operators; 0: all.
 *  @param out         receives a profiler to destroy. NULL on failure.
 *  @return KINETO_E_ARGUMENT for an invalid config, KINETO_E_STATE if stubs or an observer that it needs are not
 *          registered, KINETO_E_NOT_FOUND if no tool is attached, KINETO_E_MEMORY, KINETO_E_LIMIT. threads: any. */
KINETO_API kineto_status kineto_profiler_create(const kineto_profiler_config *config,
                                                uint32_t activities, uint32_t scopes,
                                                kineto_profiler **out, kineto_error *err);
/** Start recording the calling thread and those that join, or all threads if the config says so.
 *  @return KINETO_E_STATE if it is recording, or if stubs or an observer that it needs have been removed.
 *          threads: owner. */
KINETO_API kineto_status kineto_profiler_start(kineto_profiler *profiler, kineto_error *err);
/** Stop recording. The profiler may be started again.
 *  @param out  receives a result to release; may be NULL. NULL on failure.
 *  @return KINETO_E_STATE if it is not recording, KINETO_E_MEMORY. threads: owner; also by another thread than the
 *          one that started it. */
KINETO_API kineto_status kineto_profiler_stop(kineto_profiler *profiler,
                                              kineto_profiler_result **out, kineto_error *err);
/** Set a function to be called for each event when the profiler stops.
 *  @param process  NULL: none. threads: owner. */
KINETO_API void kineto_profiler_set_post_process(kineto_profiler *profiler,
                                                 kineto_post_process process, void *user);
/** Pause or resume, any number of times. Groups of activities cannot be paused separately, since device work would
 *  lose its launches. @return KINETO_E_STATE if it is not recording. threads: owner. */
KINETO_API kineto_status kineto_profiler_pause(kineto_profiler *profiler, bool paused,
                                               kineto_error *err);
/** Add or remove the calling thread.
 *  @return KINETO_E_STATE if the profiler records all threads, or an error of kineto_session_join or
 *          kineto_session_leave; for NVTX, ITT and the FALLBACKs KINETO_E_LIMIT with more than 1024 threads that have
 *          not ended. threads: any. */
KINETO_API kineto_status kineto_profiler_join(kineto_profiler *profiler, kineto_error *err);
KINETO_API kineto_status kineto_profiler_leave(kineto_profiler *profiler, kineto_error *err);
/** Free the profiler; a recording in progress is discarded. NULL is ignored. threads: owner. */
KINETO_API void kineto_profiler_destroy(kineto_profiler *profiler);

/* ---- profilers by thread, as PyTorch has them ---------------------------------------------------- */

/** Prepare a profiler for a following kineto_profiler_enable on this thread, or on any thread for a config of all
 *  threads.
 *  @return KINETO_E_UNSUPPORTED for states other than the KINETO ones; KINETO_OK without effect for NVTX and ITT.
 *          threads: any. */
KINETO_API kineto_status kineto_profiler_prepare(const kineto_profiler_config *config,
                                                 uint32_t activities, kineto_error *err);
/** Start the profiler of this thread, or the one of all threads, as the config says. Prepares it if necessary.
 *  @return KINETO_E_STATE: "Profiler is already enabled on this thread."; or an error of kineto_profiler_create.
 *          threads: any. */
KINETO_API kineto_status kineto_profiler_enable(const kineto_profiler_config *config,
                                                uint32_t activities, uint32_t scopes,
                                                kineto_error *err);
/** The same with a function that is called for each event when it stops. KINETO_E_UNSUPPORTED for NVTX, ITT,
 *  PRIVATEUSE1 and ONDEMAND.
 *  @param process  NULL: none. threads: any. */
KINETO_API kineto_status kineto_profiler_enable_with_post_process(
    const kineto_profiler_config *config, uint32_t activities, kineto_post_process process,
    void *user, uint32_t scopes, kineto_error *err);
/** Stop the profiler of all threads, else the one of this thread, else the last one whose thread has ended, else the
 *  one of another thread if there is exactly one.
 *  @param out  receives a result to release, which may be an empty one; may be NULL.
 *  @return KINETO_E_STATE: "Can't disable Kineto profiler when it's not running". threads: any. */
KINETO_API kineto_status kineto_profiler_disable(kineto_profiler_result **out, kineto_error *err);
/** Pause or resume the profiler that kineto_profiler_disable would stop; any activities pause all of them. PyTorch calls
 *  this toggleCollectionDynamic, with the opposite sense.
 *  @return KINETO_E_STATE if there is none; KINETO_E_ARGUMENT without activities. threads: any. */
KINETO_API kineto_status kineto_profiler_pause_collection(bool paused, uint32_t activities,
                                                                   kineto_error *err);
/** True if a thread profiles its host activities, so that other threads may join. threads: hot. */
KINETO_API bool kineto_profiler_is_enabled_in_main_thread(void);
/** Let the calling thread join, or leave, the profiler of the main thread, which is the one enabled last.
 *  @return KINETO_E_STATE: "Profiler is not enabled in main thread.", "Profiler is already enabled
 * in this thread.", "Can't disable Kineto profiler when it's not running in this thread";
 * KINETO_E_LIMIT, see kineto_profiler_join. threads: any. */
KINETO_API kineto_status kineto_profiler_enable_in_child_thread(kineto_error *err);
KINETO_API kineto_status kineto_profiler_disable_in_child_thread(kineto_error *err);

/** Whether a profiler is active for the calling thread, its type, its config. Texts of the config are borrowed from the
 *  profiler.
 *  @param out  must have its size set, as kineto_profiler_config_init does; no more is written.
 *  @return false if there is none; the config also if its size is not set. threads: any. */
KINETO_API bool kineto_profiler_enabled(void);
KINETO_API kineto_active_profiler kineto_profiler_type(void);
KINETO_API bool kineto_profiler_config_get(kineto_profiler_config *out);

/** Report a finished operator that a backend ran on this thread. No effect without a profiler. Times are nanoseconds
 *  since the Unix epoch (PyTorch's are microseconds).
 *  @param backend  becomes the argument "Backend". Both texts are copied. threads: any. */
KINETO_API void kineto_profiler_report_backend_event_ns(int64_t start_ns, int64_t end_ns,
                                                        int64_t debug_handle, kineto_scope scope,
                                                        const char *name, const char *backend);
/** Report begin and end of a garbage collection on this thread. threads: hot. */
KINETO_API void kineto_profiler_report_gc(bool begin);

/** Memory: see kineto_memory_report and kineto_memory_report_failure in <ckineto/record.h>. */

/* Process-wide defaults for profilers created later. threads: any. */
KINETO_API void kineto_profiler_set_record_concrete_inputs(bool on); /**< initially on */
KINETO_API bool kineto_profiler_get_record_concrete_inputs(void);
KINETO_API void kineto_profiler_set_fwd_bwd(bool on); /**< links forward to backward; initially on */
KINETO_API bool kineto_profiler_get_fwd_bwd(void);
KINETO_API void kineto_profiler_set_cuda_sync(bool on); /**< initially off */
KINETO_API bool kineto_profiler_get_cuda_sync(void);
KINETO_API void kineto_profiler_set_record_tensor_ids(bool on); /**< initially off */
KINETO_API bool kineto_profiler_get_record_tensor_ids(void);

/* ---- on demand ---------------------------------------------------------------------------------- */

/** kineto_step_mark of <ckineto/record.h>: mark the begin of the next iteration; and the number of iterations. Requests
 *  by iteration count these calls. threads: hot, except for the step in which a window begins or ends. */
KINETO_API void kineto_profiler_step(void);
KINETO_API uint64_t kineto_profiler_step_count(void);

/** Receives the trace of a profiler of state KINETO_ONDEMAND when it stops; borrowed. */
typedef void (*kineto_ondemand_ready)(const kineto_trace *trace, void *user);
/** Set the receiver. NULL: traces are discarded. threads: any. */
KINETO_API void kineto_ondemand_set_ready(kineto_ondemand_ready ready, void *user);
/** Prepare, start, stop the profiler of state KINETO_ONDEMAND with {CPU} and the scopes FUNCTION, USER_SCOPE,
 *  BACKWARD_FUNCTION, for a controller of the program itself. Traces of <ckineto/control.h> are recorded in this state
 *  too and passed to `ready`, but these functions do not stop them. KINETO_E_STATE if called out of order or while
 *  another profiler of all threads runs, or an error of creating, starting and stopping one. threads: any.
 *
 *  A profiler of the program has priority: when it starts recording, an on-demand trace in progress is dropped, and
 *  requests are refused as busy until it stops. Sessions (<ckineto/session.h>) and on-demand traces may overlap. */
KINETO_API kineto_status kineto_ondemand_prepare(const kineto_profiler_config *config,
                                                 kineto_error *err);
KINETO_API kineto_status kineto_ondemand_start(kineto_error *err);
KINETO_API kineto_status kineto_ondemand_stop(kineto_error *err);

/* ---- memory profiles ---------------------------------------------------------------------------- */

/** Start and stop recording all reported allocations and releases. The export is as of the stop, or of now.
 *  @return KINETO_E_STATE if it is running (start), if it is not (stop); or an error of a session. threads: any. */
KINETO_API kineto_status kineto_memory_profile_start(kineto_error *err);
KINETO_API kineto_status kineto_memory_profile_stop(kineto_error *err);
/** A JSON file: live blocks with where they were allocated, the peak, and totals by place.
 *  @return KINETO_E_STATE if none was started; or an error of writing. threads: any. */
KINETO_API kineto_status kineto_memory_profile_export(const char *path, kineto_error *err);

/* ---- events ------------------------------------------------------------------------------------- */

/** One activity as PyTorch's KinetoEvent: a view of a row of any trace. */
typedef struct kineto_event {
    const kineto_trace *trace;
    const kineto_profiler_result *result; /**< NULL: of a trace alone */
    kineto_row row;
    kineto_activity activity;
} kineto_event;

/** Number of events of a result, and one of them in the order of their starts; false past the end. threads: any. */
KINETO_API uint64_t kineto_profiler_result_event_count(const kineto_profiler_result *result);
KINETO_API bool kineto_profiler_result_event(const kineto_profiler_result *result, uint64_t index,
                                    kineto_event *out);
/** The event of a row; false if there is no such row. threads: any. */
KINETO_API bool kineto_event_of(const kineto_trace *trace, kineto_row row, kineto_event *out);

/* Accessors, in PyTorch's order and with its names. Texts and JSON are borrowed from the trace and valid until the thread
 * reads the arguments of 8 other rows. threads: any. */
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
/** The n-th keyword input: an argument that is not one of PyTorch's own. False past the end. threads: any. */
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
/** The n-th of the requested performance counters; false past the end. threads: any. */
KINETO_API bool kineto_event_perf_counter(const kineto_event *e, uint32_t n, kineto_string *name,
                                          uint64_t *value);
/** An argument by name (PyTorch's extra_meta); false if absent. threads: any. */
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

/** The tree of operators, their callees and their device work: the parent of a kernel is the call that launched it.
 *  Built on first use. KINETO_NO_ROW: none, or out of memory. threads: any. */
KINETO_API kineto_row kineto_profiler_result_tree_root(const kineto_profiler_result *result, uint64_t index);
KINETO_API uint64_t kineto_profiler_result_tree_root_count(const kineto_profiler_result *result);
KINETO_API kineto_row kineto_profiler_result_tree_parent(const kineto_profiler_result *result,
                                                kineto_row row);
KINETO_API kineto_row kineto_profiler_result_tree_first_child(const kineto_profiler_result *result,
                                                     kineto_row row);
KINETO_API kineto_row kineto_profiler_result_tree_next_sibling(const kineto_profiler_result *result,
                                                      kineto_row row);

#ifdef __cplusplus
}
#endif

#define CKINETO_PROFILER_DECLARED
#include <ckineto/deprecated.h>
#endif
