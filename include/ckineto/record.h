/** @file
 *  Record ranges, instants, counters, flows and memory events of the running program.
 *
 *  A *site* is a static description of one place in the program: a name, a kind, the names and
 *  types of its arguments. It is copied into the recording on first use; afterwards a record is a
 *  few words in a prefaulted buffer. While nothing records, a site costs two loads and a branch.
 *
 *      KINETO_SITE(step, KINETO_KIND_USER_ANNOTATION, "step");
 *      kineto_range r = kineto_range_begin(&step);
 *      ...
 *      kineto_range_end(r);
 *
 *  These functions may be called from any thread and from signal handlers; they never block, lock, allocate from
 *  the heap or report a failure. Events that cannot be recorded are counted, by reason, in the ledger of the trace.
 *  Only libckineto-rt is needed, which depends on libc alone. threads: hot, unless stated otherwise.
 */
#ifndef CKINETO_RECORD_H
#define CKINETO_RECORD_H

#include <ckineto/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What produced a range, in the numbering of PyTorch's RecordScope. */
typedef enum kineto_scope {
    KINETO_SCOPE_FUNCTION = 0,
    KINETO_SCOPE_BACKWARD_FUNCTION = 1,
    KINETO_SCOPE_TORCHSCRIPT_FUNCTION = 2,
    KINETO_SCOPE_KERNEL_FUNCTION_DTYPE = 3,
    KINETO_SCOPE_CUSTOM_CLASS = 4,
    KINETO_SCOPE_BUILD_FEATURE = 5,
    KINETO_SCOPE_LITE_INTERPRETER = 6,
    KINETO_SCOPE_USER_SCOPE = 7,
    KINETO_SCOPE_STATIC_RUNTIME_OP = 8,
    KINETO_SCOPE_STATIC_RUNTIME_MODEL = 9,
    KINETO_NUM_SCOPES = 10
} kineto_scope;

/** Type of an argument: X(NAME, value, member of kineto_value). Append only. */
#define KINETO_ARG_MAP(X)                                                                          \
    X(INT, 1, i)                                                                                   \
    X(UINT, 2, u)                                                                                  \
    X(DOUBLE, 3, d)                                                                                \
    X(BOOL, 4, u)                                                                                  \
    X(STRING, 5, s)                                                                                \
    X(INTS, 6, ints)                                                                               \
    X(STRINGS, 7, strings)                                                                         \
    X(JSON, 8, s)                                                                                  \
    X(SHAPES, 9, shapes)

typedef enum kineto_arg_type {
#define KINETO_X(name, value, member) KINETO_ARG_##name = (value),
    KINETO_ARG_MAP(KINETO_X)
#undef KINETO_X
    KINETO_ARG_TYPE_COUNT = 10
} kineto_arg_type;

/** Lists that an argument may point to. Borrowed for the duration of the call. */
typedef struct kineto_ints {
    const int64_t *data;
    size_t count;
} kineto_ints;
typedef struct kineto_strings {
    const char *const *data; /**< NUL-terminated each */
    size_t count;
} kineto_strings;
typedef struct kineto_shape {
    const int64_t *dims;
    uint32_t rank; /**< number of dims; 0 is a scalar */
} kineto_shape;
typedef struct kineto_shapes {
    const kineto_shape *data;
    size_t count;
} kineto_shapes;

/** Value of one argument; the site says which member is read. A NULL pointer reads as empty. */
typedef union kineto_value {
    int64_t i;
    uint64_t u; /**< UINT; BOOL: 0 or not */
    double d;
    const char *s; /**< STRING: any bytes up to NUL; JSON: one JSON value */
    const kineto_ints *ints;
    const kineto_strings *strings;
    const kineto_shapes *shapes;
} kineto_value;

/** Name and type of one argument of a site. Static storage. */
typedef struct kineto_arg_desc {
    const char *name;
    uint32_t type; /**< kineto_arg_type */
} kineto_arg_desc;

#define KINETO_SITE_MAX_ARGS 64

/** One place in the program. Must have static storage (the library writes `id` into it and may
 *  read it as long as its code is loaded). Fill with KINETO_SITE… only. */
typedef struct kineto_site {
    uint32_t id;        /**< 0 until first use; written by the library */
    uint8_t kind;       /**< kineto_kind */
    uint8_t scope;      /**< kineto_scope */
    uint8_t arg_count;  /**< at most KINETO_SITE_MAX_ARGS */
    uint8_t flags;      /**< written by the library */
    const char *name;   /**< NUL-terminated, any bytes */
    const kineto_arg_desc *args;
} kineto_site;

/** Define a static site without arguments. */
#define KINETO_SITE(var, kind, name)                                                               \
    static kineto_site var = {0, (uint8_t)(kind), KINETO_SCOPE_FUNCTION, 0, 0, (name), NULL}

/** Define a static site with arguments: KINETO_SITE_ARGS(s, kind, "mm", {"m", KINETO_ARG_INT}, …). */
#define KINETO_SITE_ARGS(var, kind, name, ...)                                                     \
    static const kineto_arg_desc var##_args[] = {__VA_ARGS__};                                     \
    static kineto_site var = {0,                                                                   \
                              (uint8_t)(kind),                                                     \
                              KINETO_SCOPE_FUNCTION,                                               \
                              (uint8_t)(sizeof var##_args / sizeof var##_args[0]),                 \
                              0,                                                                   \
                              (name),                                                              \
                              var##_args}

/** Points to the mask of kinds that are being recorded. Read through kineto_enabled(). */
KINETO_API extern const uint64_t *kineto_gate;

static inline uint64_t kineto__kinds(void)
{
#if defined(__GNUC__)
    const uint64_t *gate = __atomic_load_n(&kineto_gate, __ATOMIC_RELAXED);
    return __atomic_load_n(gate, __ATOMIC_RELAXED);
#else
    return *(const volatile uint64_t *)kineto_gate;
#endif
}

/** True if this kind, or any kind, is being recorded now. threads: hot. */
static inline bool kineto_enabled(uint32_t kind)
{
    return (kineto__kinds() & KINETO_KIND_BIT(kind)) != 0;
}
static inline bool kineto_enabled_any(void) { return kineto__kinds() != 0; }

/** An open range of the calling thread; 0 is "not recorded" and may be passed anywhere. */
typedef uint32_t kineto_range;

/** Optional properties of a range or instant. Zero means absent. */
typedef struct kineto_props {
    size_t size;              /**< sizeof(kineto_props) */
    const char *name;         /**< replaces the site's name for this event; any bytes; copied */
    size_t name_size;         /**< bytes in name; with name set and 0 here, name is NUL-terminated */
    uint64_t correlation_id;  /**< joins a launch with the device work it caused */
    uint64_t external_id;     /**< id of the operator that the event belongs to */
    const kineto_value *values; /**< arg_count values, or NULL */
} kineto_props;
KINETO_INIT_FUNCTION(kineto_props)

/* The functions that the inline functions below call. Other languages than C and C++ call these directly, if the
 * mask that kineto_gate points to has the bit of the site's kind. */
KINETO_API kineto_range kineto_record_begin(kineto_site *site);
KINETO_API kineto_range kineto_record_begin_args(kineto_site *site, const kineto_value *values);
KINETO_API kineto_range kineto_record_begin_props(kineto_site *site, const kineto_props *props);
KINETO_API void kineto_record_end(kineto_range range);
KINETO_API void kineto_record_args(kineto_range range, kineto_site *site,
                                   const kineto_value *values);
KINETO_API void kineto_record_instant(kineto_site *site, const kineto_props *props);
KINETO_API void kineto_record_async(kineto_site *site, uint64_t id, bool begin,
                                    const kineto_props *props);
KINETO_API void kineto_record_counter(kineto_site *site, const kineto_value *values);
KINETO_API void kineto_record_flow(uint32_t type, uint64_t id, bool start);

/** The clock that records are stamped with, in ticks of no stated unit. */
KINETO_API uint64_t kineto_record_ticks(void);
/** Record a finished range of the calling thread in one record, from `began` (kineto_record_ticks) until now. It
 *  need not nest with the open ranges, so this suits callers that are notified of begins and ends, such as hooks of
 *  an interpreter. If the process dies before this call, the range is missing (but see kineto_blocking_begin). Call
 *  it if the gate has the bit of the site's kind.
 *  @param values  arg_count values, or NULL. */
KINETO_API void kineto_record_past(kineto_site *site, uint64_t began, const kineto_value *values);
/** The same for a range that ended at `ended` (kineto_record_ticks), which is not later than now: for callers that
 *  are notified late. */
KINETO_API void kineto_record_span(kineto_site *site, uint64_t began, uint64_t ended,
                                   const kineto_value *values);

/** A library that keeps a stack of ranges of its own on each thread, so that its ranges may cross those of another
 *  such library. Its functions are called on the thread whose range ends. */
typedef struct kineto_range_stack {
    size_t size; /**< sizeof(kineto_range_stack) */
    /** The calling thread's open range with the smallest token above `after`; 0: there is none. */
    kineto_range (*next)(kineto_range after);
    /** The range ended in the recording, because one outside of it ended: begin it again, with a new token. */
    void (*begin_again)(kineto_range range);
} kineto_range_stack;
/** Announce a stack, which stays. @return false if there are eight already. threads: any. */
KINETO_API bool kineto_range_stack_add(const kineto_range_stack *stack);
/** Has no other stack an open range on the calling thread? */
KINETO_API bool kineto_range_is_alone(const kineto_range_stack *stack);
/** End a range, and begin those again that are open within it and belong to a stack. */
KINETO_API void kineto_range_end_crossing(kineto_range range);

/** A call that may block its thread for long, as kineto_blocking_begin began it. */
typedef struct kineto_blocking {
    uint64_t ticks;    /**< when it began (kineto_record_ticks) */
    uint64_t outer[5]; /**< internal: the call within which it began, in a signal handler */
} kineto_blocking;
/** Announce a call that may block. If it does not end before the recording or the thread does, the trace has it as an
 *  activity that had not ended, if it lasted `least_us` or longer; otherwise the announcement leaves no trace, and the
 *  caller records the call by kineto_record_past if it is to be. Costs a few stores. Call it if the gate has the bit
 *  of the site's kind.
 *  @param site    at most two arguments, of types INT, UINT, DOUBLE or BOOL.
 *  @param values  arg_count values, or NULL. */
KINETO_API void kineto_blocking_begin(kineto_blocking *call, kineto_site *site, uint32_t least_us,
                                      const kineto_value *values);
/** The call has ended, and its record, if any, is written. By the thread that began it. */
KINETO_API void kineto_blocking_end(const kineto_blocking *call);

/** Report that an argument of the next events is an address of code, so that the recording has the file which the
 *  address belongs to, and its function can be named afterwards. Cheap if the address was reported before; otherwise
 *  the list of the process's files may be read. threads: any, not in a signal handler. */
KINETO_API void kineto_code_note(const void *address);

/** Open a range on the calling thread. Ranges of a thread nest. */
static inline kineto_range kineto_range_begin(kineto_site *site)
{
    return kineto_enabled(site->kind) ? kineto_record_begin(site) : 0;
}

/** Same, with the site's arguments: arg_count values, copied. */
static inline kineto_range kineto_range_begin_args(kineto_site *site, const kineto_value *values)
{
    return kineto_enabled(site->kind) ? kineto_record_begin_args(site, values) : 0;
}

/** Same, with a name made at run time, ids, or arguments. Everything is copied. */
static inline kineto_range kineto_range_begin_props(kineto_site *site, const kineto_props *props)
{
    return kineto_enabled(site->kind) ? kineto_record_begin_props(site, props) : 0;
}

/** Close a range, and all ranges inside it that are still open (longjmp, exceptions). Works independently of the
 *  gate; a range of another process is ignored. */
static inline void kineto_range_end(kineto_range range)
{
    if (range)
        kineto_record_end(range);
}

/** Attach further arguments, such as results, to an open range. `site` only describes them. */
static inline void kineto_range_args(kineto_range range, kineto_site *site,
                                     const kineto_value *values)
{
    if (range)
        kineto_record_args(range, site, values);
}

/** Record an instant event, of a site of kind KINETO_KIND_CPU_INSTANT_EVENT. `values` may be NULL for a site without
 *  arguments. */
static inline void kineto_instant_mark(kineto_site *site, const kineto_value *values)
{
    if (kineto_enabled(site->kind)) {
        kineto_props props = {sizeof props, NULL, 0, 0, 0, values};
        kineto_record_instant(site, values ? &props : NULL);
    }
}
static inline void kineto_instant_mark_props(kineto_site *site, const kineto_props *props)
{
    if (kineto_enabled(site->kind))
        kineto_record_instant(site, props);
}

/** A range with an id of the caller's: may end on another thread, need not nest. The pair is
 *  matched by (site, id) within the process. */
static inline void kineto_async_begin(kineto_site *site, uint64_t id, const kineto_props *props)
{
    if (kineto_enabled(site->kind))
        kineto_record_async(site, id, true, props);
}
static inline void kineto_async_end(kineto_site *site, uint64_t id)
{
    if (kineto_enabled(site->kind))
        kineto_record_async(site, id, false, NULL);
}

/** Sample counters, of a site of kind KINETO_KIND_COUNTER: each argument of the site is one series (INT, UINT or DOUBLE). A unit may
 *  stand in the series name, as "used [bytes]". */
static inline void kineto_counter_sample(kineto_site *site, const kineto_value *values)
{
    if (kineto_enabled(site->kind))
        kineto_record_counter(site, values);
}

/** Flow types, in Kineto's numbers. */
enum { KINETO_FLOW_FWD_BWD = 1, KINETO_FLOW_ASYNC_CPU_GPU = 2, KINETO_FLOW_USER = 3 };

/** Begin or end a flow, which viewers draw as an arrow, at the innermost open range of this thread. `id` is unique per
 *  type. Without an open range the flow is dropped, and counted in the ledger. */
static inline void kineto_flow_begin(uint32_t type, uint64_t id)
{
    if (kineto_enabled_any())
        kineto_record_flow(type, id, true);
}
static inline void kineto_flow_end(uint32_t type, uint64_t id)
{
    if (kineto_enabled_any())
        kineto_record_flow(type, id, false);
}

/** Stacks of ids: those of operators, and those of the user's annotations. */
enum { KINETO_CORRELATION = 0, KINETO_CORRELATION_USER = 1 };
/** Not NULL while a plug-in consumes ids, also during a pause. Read by the functions below only. */
KINETO_API extern const void *kineto_listeners;
static inline bool kineto__heard(void)
{
#if defined(__GNUC__)
    return __atomic_load_n(&kineto_listeners, __ATOMIC_RELAXED) != NULL;
#else
    return *(const void *const volatile *)&kineto_listeners != NULL;
#endif
}
KINETO_API void kineto_record_push_id(uint32_t stack, uint64_t id);
KINETO_API void kineto_record_pop_id(uint32_t stack);
/** Device work that this thread launches between a push and the matching pop belongs to the operator `id`: plug-ins
 *  attach the id to it. Ids of user annotations have a separate stack. Ids should be unique in the process and not
 *  0; up to 64 nest. A pop is passed to a plug-in if the push was. */
static inline void kineto_correlation_push(uint64_t id)
{
    if (kineto__heard())
        kineto_record_push_id(KINETO_CORRELATION, id);
}
static inline void kineto_correlation_pop(void)
{
    if (kineto__heard())
        kineto_record_pop_id(KINETO_CORRELATION);
}
static inline void kineto_user_correlation_push(uint64_t id)
{
    if (kineto__heard())
        kineto_record_push_id(KINETO_CORRELATION_USER, id);
}
static inline void kineto_user_correlation_pop(void)
{
    if (kineto__heard())
        kineto_record_pop_id(KINETO_CORRELATION_USER);
}

/** One allocation or release. Device types are those of PyTorch (0 CPU, 1 CUDA, …); index -1 if none. */
typedef struct kineto_memory_event {
    size_t size;                /**< sizeof(kineto_memory_event) */
    uint64_t address;
    int64_t bytes;              /**< negative on release */
    uint64_t total_allocated_bytes;
    uint64_t total_reserved_bytes;
    int32_t device_type;
    int32_t device_index;
} kineto_memory_event;
KINETO_INIT_FUNCTION(kineto_memory_event)
/** Report an allocation or release. It is recorded if the kind MEMORY is enabled. */
KINETO_API void kineto_record_memory(const kineto_memory_event *event);
static inline void kineto_memory_report(const kineto_memory_event *event)
{
    if (kineto_enabled(KINETO_KIND_MEMORY))
        kineto_record_memory(event);
}

/** Report that an allocation of `bytes` failed. */
KINETO_API void kineto_record_out_of_memory(const kineto_memory_event *event);
static inline void kineto_memory_report_failure(const kineto_memory_event *event)
{
    if (kineto_enabled(KINETO_KIND_MEMORY))
        kineto_record_out_of_memory(event);
}

/** Mark the begin of the next iteration of the program's main loop; the first call begins iteration 0. Call it at
 *  the top of the loop, or between iterations. Windows by iteration count these calls (`ckineto trigger
 *  --iterations`). If user annotations are recorded, the iteration that ended becomes a range "ProfilerStep#N" of
 *  this thread, unless a run of <ckineto/profile_run.h> marks its own steps. Iterations are also counted while
 *  nothing is recorded. The child of a fork counts from 0. threads: hot; meant for one thread at a time. */
KINETO_API void kineto_step_mark(void);

/** For plug-ins: time the work that they do in the program's threads besides recording, such as calls of a driver.
 *  The trace reports it as part of the cost of recording. Pass the result of the first call to the second. Useful
 *  for work of some hundred nanoseconds and more. threads: hot. */
KINETO_API uint64_t kineto_overhead_begin(void);
KINETO_API void kineto_overhead_end(uint64_t begun);

/** Name the calling thread in the trace; the first 63 bytes are copied. The last call applies, also if nothing was
 *  being recorded at the time. threads: hot. */
KINETO_API void kineto_thread_set_name(const char *name);
/** Name the process, its first 255 bytes; the same otherwise. threads: any. */
KINETO_API void kineto_process_set_name(const char *name);

/** Add a key and a JSON value to the header of the trace ("my_key": {...}). Applies to all sessions of this process
 *  that are recording, or to the next one if none is. Recordings from outside (`ckineto record`, on-demand windows)
 *  and sessions that keep the newest events receive all metadata added until they end. The last value of a key
 *  applies. Copied. A value that is not valid JSON is written as a string and counted.
 *  @param key         NUL-terminated, any bytes.
 *  @param json_value  NUL-terminated, one JSON value: a text with its quotes.
 *  @return KINETO_OK; KINETO_E_ARGUMENT for NULL, KINETO_E_MEMORY, KINETO_E_LIMIT when the recording's
 *          table of texts is full. threads: any. */
KINETO_API kineto_status kineto_metadata_add(const char *key, const char *json_value);
/** The same for the process: the key is in the header of every later trace. For names and settings that do not
 *  change from session to session. */
KINETO_API kineto_status kineto_process_set_metadata(const char *key, const char *json_value);

/** Add a line to the ledger of the trace: `count` events of a source ("my_library") with a reason ("buffer full").
 *  Texts are copied; `detail`, a sentence, may be NULL. With is_loss the events are missing: the line appears in the
 *  traces that kineto_metadata_add would apply to; without, in every later trace. For rare events only: the
 *  recording keeps each call.
 *  @return KINETO_OK; KINETO_E_ARGUMENT, KINETO_E_MEMORY, KINETO_E_LIMIT when the recording's table
 *          of texts is full. threads: any. */
KINETO_API kineto_status kineto_ledger_add(const char *source, const char *reason, uint64_t count,
                                           bool is_loss, const char *detail);

/** Record from here to the end of the enclosing block, whatever way it is left (return, break,
 *  goto, exception): { KINETO_SCOPED("load"); … }. Needs GCC or Clang. */
#if defined(__GNUC__)
static inline void kineto__range_cleanup(const kineto_range *range) { kineto_range_end(*range); }
#define KINETO_CONCAT_(a, b) a##b
#define KINETO_CONCAT(a, b) KINETO_CONCAT_(a, b)
#define KINETO_SCOPED_(name, id)                                                                   \
    KINETO_SITE(id##_site, KINETO_KIND_USER_ANNOTATION, name);                                     \
    __attribute__((cleanup(kineto__range_cleanup), unused)) kineto_range id =                      \
        kineto_range_begin(&id##_site)
#define KINETO_SCOPED_ID_(name, id) KINETO_SCOPED_(name, id)
#define KINETO_SCOPED(name) KINETO_SCOPED_ID_(name, KINETO_CONCAT(kineto_range_, __LINE__))
#endif

#ifdef __cplusplus
}
#endif

#define CKINETO_RECORD_DECLARED
#include <ckineto/deprecated.h>
#endif
