/** @file
 *  Summaries of a trace, as PyTorch's profiler computes them: self and total costs of functions, grouped by name, input
 *  shapes or stack; the table; folded stacks; memory over time; execution traces.
 *
 *      kineto_function_events *events;
 *      kineto_averages *averages;
 *      kineto_function_events_create(trace, NULL, &events, &err);
 *      kineto_averages_create(events, NULL, &averages, &err);
 *      kineto_averages_save(averages, &(kineto_table_options){.size = sizeof(kineto_table_options),
 *                           .sort_by = "self_cpu_time_total"}, "-", &err);
 *
 *  Everything is computed from a const trace of any origin. docs/reference/summaries.md lists the differences from
 *  PyTorch, and the reasons. Times are nanoseconds, sizes bytes; sums saturate.
 */
#ifndef CKINETO_SUMMARY_H
#define CKINETO_SUMMARY_H

#include <ckineto/trace.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- function events --------------------------------------------------------------------------- */

/** PyTorch's events(): host and device activities in the order of their starts (the longer first), host ones as a tree.
 *  Without instants, counters and operators that PyTorch never shows (`aten::is_leaf`, the marks of
 *  record_function …); a function whose caller has the same name and no other callee is merged with it. Memory events
 *  are added to the functions in which they happened; those outside of all functions are separate events.
 *  Immutable. */
typedef struct kineto_function_events kineto_function_events;

typedef struct kineto_function_events_options {
    size_t size; /**< sizeof(kineto_function_events_options): set by kineto_function_events_options_init */
    /** PyTorch's definitions, for comparison: memory counts for every function that was running, on any thread; device
     *  work belongs only to the function with its "External id", and device time of an annotation is added to that of
     *  the kernels in it; the self time of overlapping functions is their duration minus that of callees; only the
     *  "Call stack" of the trace is a stack. */
    bool as_torch;
    uint32_t device_type; /**< PyTorch's number of the device, for its name; 0: from the trace */
    /** Returns the device time of an operator, measured from the host, for traces without it: given an "External id",
     *  sets the time and returns true. Such an event is flagged LEGACY. May be NULL. Called during the call only. */
    bool (*device_elapsed)(uint64_t external_id, int64_t *elapsed_ns, void *user);
    void *user;
    /** names of step ranges, which form one group: as step_pattern of kineto_analysis_options; NULL: ProfilerStep#N */
    const char *step_pattern;
} kineto_function_events_options;
KINETO_INIT_FUNCTION(kineto_function_events_options)

/** Make the list. @param options may be NULL.
 *  @param out  receives a list to destroy, which retains the trace. NULL on failure.
 *  @return KINETO_E_ARGUMENT without a trace, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_function_events_create(
    const kineto_trace *trace, const kineto_function_events_options *options,
    kineto_function_events **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_function_events_destroy(kineto_function_events *events);

#define KINETO_NO_EVENT UINT32_MAX

#define KINETO_FUNCTION_DEVICE 1u     /**< device work */
#define KINETO_FUNCTION_ASYNC 2u      /**< ended on another thread: has no callees and no self time */
#define KINETO_FUNCTION_ANNOTATION 4u /**< a range of the user, on host or device */
#define KINETO_FUNCTION_PYTHON 8u     /**< a function of Python */
#define KINETO_FUNCTION_MEMORY 16u    /**< memory event outside of all functions, or a failed allocation */
#define KINETO_FUNCTION_LEGACY 32u    /**< its device time was measured from the host */

/** One event, as a view that borrows from the list. */
typedef struct kineto_function_event {
    kineto_row row; /**< in the trace */
    uint32_t flags; /**< KINETO_FUNCTION_… */
    uint32_t track; /**< in the trace */
    uint32_t parent, first_child, next_sibling; /**< events, or KINETO_NO_EVENT; of the host */
    /** Of a host event: the first device event that it launched itself. Of a device event: the next one of the same
     *  host event. Or KINETO_NO_EVENT. */
    uint32_t kernel;
    uint32_t device_type;      /**< PyTorch's number; 0: the host */
    int64_t device_index;      /**< of a device event */
    kineto_string name;        /**< name for grouping: "ProfilerStep*" stands for all steps */
    kineto_string overload;    /**< overload in the name of an operator ("Tensor"); may be empty */
    kineto_string trace_name;  /**< as in the trace */
    int64_t start_ns, end_ns;
    int64_t cpu_time_total_ns, self_cpu_time_total_ns;       /**< 0 for a device event */
    int64_t device_time_total_ns, self_device_time_total_ns; /**< device work of it and its callees */
    int64_t cpu_memory_usage, self_cpu_memory_usage;         /**< bytes allocated minus bytes released */
    int64_t device_memory_usage, self_device_memory_usage;
} kineto_function_event;

/** Number of events, and one of them; false and all-zero for an index out of range. threads: any. */
KINETO_API uint32_t kineto_function_events_count(const kineto_function_events *events);
KINETO_API bool kineto_function_events_get(const kineto_function_events *events, uint32_t index,
                                           kineto_function_event *out);

/** Name of the device in tables: "cuda", "xpu", "mtia", "hpu", "privateuse1", or "device" if unknown. Static storage.
 *  threads: any. */
KINETO_API const char *kineto_function_events_device(const kineto_function_events *events);

/* ---- averages ---------------------------------------------------------------------------------- */

/** PyTorch's key_averages(): groups of events with their sums. Immutable. */
typedef struct kineto_averages kineto_averages;

/** Yes, no, or depending on the trace. */
typedef enum kineto_choice { KINETO_AUTO = 0, KINETO_YES = 1, KINETO_NO = 2 } kineto_choice;

typedef struct kineto_averages_options {
    size_t size;              /**< sizeof(kineto_averages_options): set by kineto_averages_options_init */
    bool each_event;          /**< no groups: each event is a row, as in events().table() */
    bool group_by_shape;      /**< also by shapes of inputs */
    bool group_by_overload;   /**< also by overload */
    uint32_t group_by_stack;  /**< also by the N innermost frames of the stack */
    bool python_functions;    /**< include functions of Python */
    uint32_t flops;           /**< kineto_choice: AUTO if the profiler was configured with_flops */
} kineto_averages_options;
KINETO_INIT_FUNCTION(kineto_averages_options)

/** Group events. Same name, device or host, annotation or not are always a group.
 *  @param options  may be NULL.
 *  @param out      receives averages to destroy, which retain the events. NULL on failure.
 *  @return KINETO_E_ARGUMENT without events, KINETO_E_MEMORY. threads: any. */
KINETO_API kineto_status kineto_averages_create(kineto_function_events *events,
                                                const kineto_averages_options *options,
                                                kineto_averages **out, kineto_error *err);
/** NULL is fine. threads: owner. */
KINETO_API void kineto_averages_destroy(kineto_averages *averages);

/** One group, as a view that borrows from the averages. */
typedef struct kineto_average {
    kineto_string name, overload; /**< overload is empty unless grouped by it */
    kineto_string input_shapes;   /**< "[[2, 3], []]", lists of tensors as "[]"; empty unless grouped */
    uint32_t stack_depth;         /**< frames; 0 unless grouped by stack */
    uint32_t flags;               /**< KINETO_FUNCTION_… of its first event */
    uint32_t device_type;
    uint32_t first_event;         /**< the earliest of the group */
    uint64_t count;
    int64_t cpu_time_total_ns, self_cpu_time_total_ns;
    int64_t device_time_total_ns, self_device_time_total_ns;
    int64_t cpu_memory_usage, self_cpu_memory_usage;
    int64_t device_memory_usage, self_device_memory_usage;
    uint64_t flops;               /**< 0: none, unknown or not requested */
} kineto_average;

/** Number of groups, and one of them in the order of their first events; false and all-zero for an index out of
 *  range. threads: any. */
KINETO_API uint32_t kineto_averages_count(const kineto_averages *averages);
KINETO_API bool kineto_averages_get(const kineto_averages *averages, uint32_t index,
                                    kineto_average *out);
/** A frame of a group's stack, 0 is the innermost; empty past its depth. threads: any. */
KINETO_API kineto_string kineto_averages_frame(const kineto_averages *averages, uint32_t index,
                                               uint32_t frame);
/** The sum of all groups, named "Total". Total times and memory of callers include those of their callees, so only the
 *  self times and sizes are meaningful. threads: any. */
KINETO_API void kineto_averages_total(const kineto_averages *averages, kineto_average *out);

/** A value of a group by PyTorch's name: "count", "flops", "cpu_time" (per call),
 *  "cpu_time_total", "self_cpu_time_total", "cpu_memory_usage", "self_cpu_memory_usage", and all but
 *  the first two with "device", "cuda", "xpu", "hpu", "mtia" or "privateuse1" in place of "cpu".
 *  Times are microseconds, as in PyTorch. A status, unlike other getters: the name is often a user's.
 *  @return KINETO_E_ARGUMENT for an unknown name; the message lists the names. KINETO_E_NOT_FOUND for an index out of
 *          range. threads: any. */
KINETO_API kineto_status kineto_averages_value(const kineto_averages *averages, uint32_t index,
                                               const char *attribute, double *value,
                                               kineto_error *err);

/* ---- the table --------------------------------------------------------------------------------- */

typedef enum kineto_table_format {
    KINETO_TABLE_TEXT = 0, /**< PyTorch's table */
    KINETO_TABLE_CSV = 1,  /**< all values; RFC 4180 with a header line */
    KINETO_TABLE_JSON = 2, /**< the same as an array of objects */
    KINETO_TABLE_JSON_OBJECT = 3 /**< an object with that array as "rows": docs/table.schema.json */
} kineto_table_format;

typedef enum kineto_time_unit {
    KINETO_TIME_AUTO = 0, /**< s, ms or us, chosen for each number */
    KINETO_TIME_S = 1,
    KINETO_TIME_MS = 2,
    KINETO_TIME_US = 3
} kineto_time_unit;

/** Parse "auto", "s", "ms", "us"; false for another text. threads: any. */
KINETO_API bool kineto_time_unit_parse(const char *text, uint32_t *unit);

#define KINETO_WIDTH_UNLIMITED UINT32_MAX

/** All zero but the size: PyTorch's defaults. */
typedef struct kineto_table_options {
    size_t size;           /**< sizeof(kineto_table_options): set by kineto_table_options_init */
    uint32_t format;       /**< kineto_table_format */
    uint32_t time_unit;    /**< kineto_time_unit, of the text */
    const char *sort_by;   /**< as in kineto_averages_value, the largest first; NULL: first event */
    const char *header;    /**< a line above the table; NULL: none */
    int64_t row_limit;     /**< 0: 100; negative: no limit. CSV and JSON have all unless > 0 */
    uint32_t max_name_width;   /**< characters; 0: 55 */
    uint32_t max_shapes_width; /**< 0: 80 */
    uint32_t max_source_width; /**< 0: 75 */
    bool top_level_events_only;   /**< those whose first event has no caller */
    uint32_t memory;       /**< kineto_choice: columns of memory; AUTO: where it was recorded */
} kineto_table_options;
KINETO_INIT_FUNCTION(kineto_table_options)

/** Write the rows.
 *  @param options  may be NULL.
 *  @param path     the file appears whole or not at all; "-" is the standard output.
 *  @return KINETO_E_ARGUMENT for an invalid option, KINETO_E_MEMORY, or an error of writing. threads: any. */
KINETO_API kineto_status kineto_averages_save(const kineto_averages *averages,
                                              const kineto_table_options *options,
                                              const char *path, kineto_error *err);
/** The same as bytes.
 *  @param options  may be NULL.
 *  @param text     receives memory to free(), NUL-terminated. NULL on failure.
 *  @param bytes    receives its length; may be NULL. threads: any. */
KINETO_API kineto_status kineto_averages_text(const kineto_averages *averages,
                                              const kineto_table_options *options, char **text,
                                              size_t *bytes, kineto_error *err);

/* ---- stacks ------------------------------------------------------------------------------------ */

typedef struct kineto_stacks_options {
    size_t size;        /**< sizeof(kineto_stacks_options): set by kineto_stacks_options_init */
    const char *metric; /**< "self_cpu_time_total" (NULL), "self_device_time_total", or with another
                             name of the device */
    bool merge;         /**< merge equal stacks, in the order of their first occurrence */
    bool functions;     /**< include the function itself as the innermost frame; PyTorch omits it */
} kineto_stacks_options;
KINETO_INIT_FUNCTION(kineto_stacks_options)

/** Write folded stacks for flame graphs: "outer;inner 12", with whole microseconds of an event. Blanks, tabs, line ends
 *  and semicolons in frames become "_". The stack is the "Call stack" of the trace, or else the Python functions that
 *  enclose the event. Backward operators have the stack of their forward operators.
 *  @param options  may be NULL.
 *  @param lines    receives the number of lines; may be NULL. 0: the trace has no stacks, record with_stack.
 *  @return KINETO_E_ARGUMENT for an unknown metric; the message lists the metrics. KINETO_E_MEMORY, or an error of
 *          writing. threads: any. */
KINETO_API kineto_status kineto_stacks_save(const kineto_function_events *events,
                                            const kineto_stacks_options *options, const char *path,
                                            uint64_t *lines, kineto_error *err);

/* ---- memory over time ---------------------------------------------------------------------------- */

/** Categories of memory: X(NAME, PyTorch's number, "text"). */
#define KINETO_MEMORY_CATEGORY_MAP(X)                                                              \
    X(PARAMETER, 0, "parameter")                                                                   \
    X(OPTIMIZER_STATE, 1, "optimizer_state")                                                       \
    X(INPUT, 2, "input")                                                                           \
    X(TEMPORARY, 3, "temporary")                                                                   \
    X(ACTIVATION, 4, "activation")                                                                 \
    X(GRADIENT, 5, "gradient")                                                                     \
    X(AUTOGRAD_DETAIL, 6, "autograd_detail")                                                       \
    X(UNKNOWN, 7, "unknown")

typedef enum kineto_memory_category {
#define KINETO_X(name, value, text) KINETO_MEMORY_##name = (value),
    KINETO_MEMORY_CATEGORY_MAP(KINETO_X)
#undef KINETO_X
        KINETO_MEMORY_CATEGORY_COUNT = 8
} kineto_memory_category;

/** "optimizer_state"; "unknown" for a number out of range. Static storage. threads: hot. */
KINETO_API const char *kineto_memory_category_name(uint32_t category);
/** Parse the name of a category, any case; false for an unknown one. threads: hot. */
KINETO_API bool kineto_memory_category_parse(const char *text, uint32_t *category);

/** Assigns a category to memory that is allocated in functions or annotations of this name and in their callees; the
 *  innermost rule applies. Parameters, optimizer state and inputs are memory that outlives the function; the rest of
 *  it is temporary. */
typedef struct kineto_memory_rule {
    const char *name;
    uint32_t category; /**< kineto_memory_category */
} kineto_memory_rule;

typedef struct kineto_memory_timeline_options {
    size_t size;        /**< sizeof(kineto_memory_timeline_options): set by kineto_memory_timeline_options_init */
    const char *device; /**< "cpu", "cuda:0", or a number of PyTorch's for the type, "20:1"; NULL: the
                             first device in the trace, else the CPU */
    const char *title;  /**< of the page; NULL: "Memory" */
    const kineto_memory_rule *rules;
    size_t rule_count;
    bool by_category;   /**< the page shows categories, not functions */
} kineto_memory_timeline_options;
KINETO_INIT_FUNCTION(kineto_memory_timeline_options)

/** Result of writing a memory timeline. */
typedef struct kineto_memory_timeline_result {
    size_t size; /**< sizeof(kineto_memory_timeline_result): set by kineto_memory_timeline_result_init */
    uint64_t allocations, releases;
    uint64_t unknown_releases;   /**< of memory from before the trace */
    int64_t peak_bytes, end_bytes; /**< bytes that are known to be in use */
    int64_t peak_ns;             /**< time of the peak */
    char device[32];             /**< the device */
} kineto_memory_timeline_result;
KINETO_INIT_FUNCTION(kineto_memory_timeline_result)

/** Write memory usage over time. The ending of the path selects the format, ".gz" and ".zst" may follow:
 *  ".html", a page with a picture, by functions that allocated; ".raw.json", PyTorch's list
 *  [[time_ns, action, bytes, category], …] with the actions 1 (was there before; time -1), 2 (came) and
 *  4 (went; bytes < 0); ".json", its [[time_us, …], [[0, bytes by category …], …]].
 *
 *  The category of memory depends on where it is allocated and released: TEMPORARY within one operator; else that of a
 *  matching rule; else, if allocated in a backward function, AUTOGRAD_DETAIL if also released in one and GRADIENT if
 *  not; ACTIVATION if allocated in a forward operator with a sequence number; UNKNOWN otherwise.
 *  @param options, result  may be NULL.
 *  @return KINETO_E_NOT_FOUND if the trace has no memory of the device, KINETO_E_UNSUPPORTED for
 *          another ending, KINETO_E_ARGUMENT, KINETO_E_MEMORY, or an error of writing. threads: any. */
KINETO_API kineto_status kineto_memory_timeline_save(
    const kineto_function_events *events, const kineto_memory_timeline_options *options,
    const char *path, kineto_memory_timeline_result *result, kineto_error *err);

/* ---- execution trace ----------------------------------------------------------------------------- */

/** Write the operators of a process as a graph in Chakra's schema 1.1.1, as PyTorch's ExecutionTraceObserver does: call
 *  tree, inputs with types, shapes and strides, sequence numbers. "rf_id" is the operator's "Record function id", else
 *  its "External id", which joins it with the trace. "fw_parent" of a backward function is its forward operator.
 *  Recordings with kineto_profiler_config.record_tensor_ids also have ids of tensors and storages, and outputs. Data
 *  that the trace lacks is 0 or empty, such as schemas and devices, and ids of operators with lists of more than 30
 *  tensors.
 *  @return KINETO_E_UNSUPPORTED if operators are of several processes (select one first),
 *          KINETO_E_NOT_FOUND if there are none; KINETO_E_ARGUMENT, KINETO_E_MEMORY, or an error of writing.
 *          threads: any. */
KINETO_API kineto_status kineto_execution_trace_save(const kineto_trace *trace, const char *path,
                                                     kineto_error *err);

#ifdef __cplusplus
}
#endif

#define CKINETO_SUMMARY_DECLARED
#include <ckineto/deprecated.h>
#endif
