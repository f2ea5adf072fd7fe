/** @file
 *  Operators of a program: ranges with inputs, and callbacks around them. PyTorch calls this RecordFunction.
 *
 *      KINETO_OPERATOR(mm_site, "aten::mm");
 *      kineto_function f;
 *      kineto_input in[] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
 *      kineto_function_begin(&f, &mm_site, in, 2);
 *      ...
 *      kineto_function_end(&f);
 *
 *  While a profiler or `ckineto record` records the operator's kind, an operator is one record of a few words. Its id
 *  is passed to plug-ins, which attach it to device work. Callbacks that the program adds run at its begin and end.
 *  Without a recorder and callbacks, a site costs three loads and a branch.
 *
 *  Sizes and types of inputs are copied, never contents, and no pointer is kept. The options of the recording
 *  session select which properties are recorded. Only libckineto-rt is needed. threads: hot, unless stated otherwise.
 */
#ifndef CKINETO_FUNCTION_H
#define CKINETO_FUNCTION_H

#include <ckineto/record.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- inputs ---------------------------------------------------------------------------------- */

/** Type of a tensor's elements: X(NAME, number in PyTorch, how traces spell it, bytes; 0: less than
 *  one byte, or none). Append only. */
#define KINETO_DTYPE_MAP(X)                                                                        \
    X(UINT8, 0, "unsigned char", 1)                                                                \
    X(INT8, 1, "signed char", 1)                                                                   \
    X(INT16, 2, "short int", 2)                                                                    \
    X(INT32, 3, "int", 4)                                                                          \
    X(INT64, 4, "long int", 8)                                                                     \
    X(HALF, 5, "c10::Half", 2)                                                                     \
    X(FLOAT, 6, "float", 4)                                                                        \
    X(DOUBLE, 7, "double", 8)                                                                      \
    X(COMPLEX_HALF, 8, "c10::complex<c10::Half>", 4)                                               \
    X(COMPLEX_FLOAT, 9, "c10::complex<float>", 8)                                                  \
    X(COMPLEX_DOUBLE, 10, "c10::complex<double>", 16)                                              \
    X(BOOL, 11, "bool", 1)                                                                         \
    X(QINT8, 12, "c10::qint8", 1)                                                                  \
    X(QUINT8, 13, "c10::quint8", 1)                                                                \
    X(QINT32, 14, "c10::qint32", 4)                                                                \
    X(BFLOAT16, 15, "c10::BFloat16", 2)                                                            \
    X(QUINT4X2, 16, "c10::quint4x2", 1)                                                            \
    X(QUINT2X4, 17, "c10::quint2x4", 1)                                                            \
    X(BITS1X8, 18, "c10::bits1x8", 1)                                                              \
    X(BITS2X4, 19, "c10::bits2x4", 1)                                                              \
    X(BITS4X2, 20, "c10::bits4x2", 1)                                                              \
    X(BITS8, 21, "c10::bits8", 1)                                                                  \
    X(BITS16, 22, "c10::bits16", 2)                                                                \
    X(FLOAT8_E5M2, 23, "c10::Float8_e5m2", 1)                                                      \
    X(FLOAT8_E4M3FN, 24, "c10::Float8_e4m3fn", 1)                                                  \
    X(FLOAT8_E5M2FNUZ, 25, "c10::Float8_e5m2fnuz", 1)                                              \
    X(FLOAT8_E4M3FNUZ, 26, "c10::Float8_e4m3fnuz", 1)                                              \
    X(UINT16, 27, "unsigned short", 2)                                                             \
    X(UINT32, 28, "unsigned int", 4)                                                               \
    X(UINT64, 29, "unsigned long", 8)

typedef enum kineto_dtype {
#define KINETO_X(name, value, text, bytes) KINETO_DTYPE_##name = (value),
    KINETO_DTYPE_MAP(KINETO_X)
#undef KINETO_X
        KINETO_DTYPE_COUNT = 30
} kineto_dtype;

/** Where memory is, in PyTorch's numbers. */
typedef enum kineto_device_type {
    KINETO_DEVICE_CPU = 0,
    KINETO_DEVICE_CUDA = 1,
    KINETO_DEVICE_MKLDNN = 2,
    KINETO_DEVICE_IDEEP = 5,
    KINETO_DEVICE_HIP = 6,
    KINETO_DEVICE_XPU = 12,
    KINETO_DEVICE_HPU = 15,
    KINETO_DEVICE_MTIA = 19,
    KINETO_DEVICE_PRIVATEUSE1 = 20
} kineto_device_type;

/** Description of a tensor, without its contents. Borrowed for the call. */
typedef struct kineto_tensor {
    const int64_t *sizes;   /**< `rank` of them */
    const int64_t *strides; /**< in elements; NULL: contiguous */
    uint32_t rank;          /**< 0: a scalar */
    uint8_t dtype;          /**< kineto_dtype */
    uint8_t device_type;    /**< kineto_device_type */
    int16_t device_index;   /**< -1: the only one */
    uint64_t id;            /**< of the tensor; 0: unknown */
    uint64_t storage_id;    /**< of its storage, for example the address; 0: unknown */
    int64_t storage_offset; /**< in elements */
} kineto_tensor;

typedef enum kineto_input_type {
    KINETO_INPUT_NONE = 0,    /**< no value */
    KINETO_INPUT_TENSOR = 1,  /**< a NULL tensor is an undefined one */
    KINETO_INPUT_TENSORS = 2, /**< a list of `count` */
    KINETO_INPUT_INT = 3,
    KINETO_INPUT_DOUBLE = 4,
    KINETO_INPUT_BOOL = 5,
    KINETO_INPUT_INTS = 6, /**< lists of numbers: of more than 30 only their type is recorded */
    KINETO_INPUT_DOUBLES = 7,
    KINETO_INPUT_BOOLS = 8,
    KINETO_INPUT_STRING = 9, /**< recorded for keyword inputs only */
    KINETO_INPUT_OTHER = 10, /**< another type; not recorded */
    KINETO_INPUT_TYPE_COUNT = 11
} kineto_input_type;

/** One input of an operator. */
typedef struct kineto_input {
    uint32_t type;  /**< kineto_input_type */
    uint32_t count; /**< of a list */
    union {
        const kineto_tensor *tensor; /**< TENSOR; TENSORS: an array */
        int64_t i;
        double d;
        uint64_t u; /**< BOOL */
        const int64_t *ints;
        const double *doubles;
        const bool *bools;
        const char *s;
    };
} kineto_input;

/** Make an input: a tensor, a list, a number, a text. Pointers are borrowed. */
static inline kineto_input kineto_input_of(uint32_t type, uint32_t count)
{
    kineto_input input;
    input.type = type;
    input.count = count;
    input.u = 0;
    return input;
}
static inline kineto_input kineto_input_tensor(const kineto_tensor *tensor)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_TENSOR, 0);
    input.tensor = tensor;
    return input;
}
static inline kineto_input kineto_input_tensors(const kineto_tensor *tensors, uint32_t count)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_TENSORS, count);
    input.tensor = tensors;
    return input;
}
static inline kineto_input kineto_input_int(int64_t value)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_INT, 0);
    input.i = value;
    return input;
}
static inline kineto_input kineto_input_double(double value)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_DOUBLE, 0);
    input.d = value;
    return input;
}
static inline kineto_input kineto_input_bool(bool value)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_BOOL, 0);
    input.u = value;
    return input;
}
static inline kineto_input kineto_input_ints(const int64_t *values, uint32_t count)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_INTS, count);
    input.ints = values;
    return input;
}
static inline kineto_input kineto_input_string(const char *text)
{
    kineto_input input = kineto_input_of(KINETO_INPUT_STRING, 0);
    input.s = text;
    return input;
}

/** An input with a name; it becomes an argument of the activity under that name: INT, DOUBLE, BOOL,
 *  STRING or INTS. Others are left out. */
typedef struct kineto_keyword {
    const char *name;
    kineto_input value;
} kineto_keyword;

/* ---- operators ------------------------------------------------------------------------------- */

/** Define a static site of an operator, or of a range of another scope. */
#define KINETO_OPERATOR(var, name)                                                                 \
    static kineto_site var = {0, KINETO_KIND_CPU_OP, KINETO_SCOPE_FUNCTION, 0, 0, (name), NULL}
#define KINETO_FUNCTION_SITE(var, scope, name)                                                     \
    static kineto_site var = {0, KINETO_SCOPE_KIND(scope), (uint8_t)(scope), 0, 0, (name), NULL}
/** The kind of a scope: USER_SCOPE is an annotation, every other scope an operator. */
#define KINETO_SCOPE_KIND(scope)                                                                   \
    (uint8_t)((scope) == KINETO_SCOPE_USER_SCOPE ? KINETO_KIND_USER_ANNOTATION : KINETO_KIND_CPU_OP)

/* Properties of operators to record (session options; kineto_function_wants) besides names, ids and times. */
#define KINETO_OPERATORS_INPUTS 1u /**< sizes, strides and types of inputs; keywords */
#define KINETO_OPERATORS_VALUES 2u /**< with INPUTS: values of scalars and short lists */
/** with INPUTS: ids of tensors and their memory; outputs */
#define KINETO_OPERATORS_IDS 4u
#define KINETO_OPERATORS_STACK 8u /**< native call stacks */

/** The properties that recording sessions request: a mask of KINETO_OPERATORS_INPUTS, _VALUES, _IDS and _STACK, 0 if
 *  nothing records. For dispatchers that collect inputs only when needed. Includes sessions of other processes
 *  (`ckineto record`). threads: hot. */
KINETO_API uint32_t kineto_function_wants(void);

/** A site for a name that is known only at run time; the same site for the same name, overload and scope, valid until
 *  the process ends. With an overload, the name is "name.overload".
 *  @param overload  NULL: none.
 *  @return NULL: out of memory, unknown scope, or no name. threads: any. */
KINETO_API kineto_site *kineto_function_site(const char *name, const char *overload,
                                             kineto_scope scope);

/** Further properties of an operator. Start from kineto_function_info_init. Borrowed for the call. */
typedef struct kineto_function_info {
    size_t size; /**< sizeof(kineto_function_info) */
    const kineto_input *inputs;
    const kineto_keyword *keywords;
    uint32_t input_count, keyword_count;
    int64_t sequence_number;    /**< of the autograd graph; -1: none */
    uint64_t forward_thread_id; /**< of a backward operator: kineto_function_thread_id() of the
                                     thread that ran the forward one; 0: a forward operator */
    int64_t debug_handle;       /**< -1: none */
    const char *name;           /**< replaces the site's; NULL */
    const char *stack;          /**< frames, innermost first, each followed by ';'; NULL */
    const char *modules;        /**< module hierarchy, each followed by '.'; NULL */
    bool is_async;              /**< may end on another thread, need not nest */
} kineto_function_info;

/** No inputs; sequence_number and debug_handle are -1, the rest is zero. threads: hot. */
static inline void kineto_function_info_init(kineto_function_info *out)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->sequence_number = out->debug_handle = -1;
}

struct kineto_function_calls;

/** A running operator, on the caller's stack. The members are private to the library. */
typedef struct kineto_function {
    uint32_t state; /* 0: nothing to do at its end */
    kineto_range range;
    uint32_t pushed_at; /* the set of plug-ins that received its id */
    uint64_t id;
    kineto_site *site;
    struct kineto_function_calls *calls; /* callbacks to be run at its end */
} kineto_function;

/** Number of callbacks of all threads. Read by the functions below only. */
KINETO_API extern uint32_t kineto_function_watchers;
KINETO_API void kineto_function_record_begin(kineto_function *f, kineto_site *site,
                                      const kineto_input *inputs, size_t count);
KINETO_API void kineto_function_record_begin_info(kineto_function *f, kineto_site *site,
                                           const kineto_function_info *info);
KINETO_API void kineto_function_record_end(kineto_function *f);

/* By the kind, not the site: GCC 12 takes a site whose address it sees handed on through two inline
 * functions for one that is never written, and puts it into memory that cannot be. */
static inline bool kineto__kind_wanted(uint32_t kind)
{
#if defined(__GNUC__)
    uint32_t watchers = __atomic_load_n(&kineto_function_watchers, __ATOMIC_RELAXED);
#else
    uint32_t watchers = *(const volatile uint32_t *)&kineto_function_watchers;
#endif
    return KINETO_UNLIKELY((kineto__kinds() & KINETO_KIND_BIT(kind)) | watchers);
}

/** True if an operator of this site would be recorded or passed to a callback. To be called before collecting its
 *  inputs. */
static inline bool kineto_function_wanted(const kineto_site *site)
{
    return kineto__kind_wanted(site->kind);
}

/** Begin an operator. `f` is always initialised. */
static inline void kineto_function_begin(kineto_function *f, kineto_site *site,
                                         const kineto_input *inputs, size_t count)
{
    f->state = 0;
    if (kineto__kind_wanted(site->kind))
        kineto_function_record_begin(f, site, inputs, count);
}
static inline void kineto_function_begin_info(kineto_function *f, kineto_site *site,
                                              const kineto_function_info *info)
{
    f->state = 0;
    if (kineto__kind_wanted(site->kind))
        kineto_function_record_begin_info(f, site, info);
}

/** End an operator, on the thread where it began unless it is asynchronous. A second call has no effect. */
static inline void kineto_function_end(kineto_function *f)
{
    if (KINETO_UNLIKELY(f->state))
        kineto_function_record_end(f);
}

/** Set the outputs, for callbacks that need them and sessions that record ids of tensors. They must stay valid until
 *  the end of the operator. */
KINETO_API void kineto_function_set_outputs(kineto_function *f, const kineto_input *outputs,
                                            size_t count);

/** Id of a running operator, unique in the process ("External id", "Record function id"); 0 if it is neither recorded
 *  nor passed to a callback. */
static inline uint64_t kineto_function_id(const kineto_function *f) { return f->state ? f->id : 0; }

/** Number of the calling thread: 1, 2, … in the order in which threads first called this or ran a recorded operator.
 *  Numbers are not reused. */
KINETO_API uint64_t kineto_function_thread_id(void);

/* ---- callbacks ------------------------------------------------------------------------------- */

/** The operator, as passed to a callback; valid during the call. */
typedef struct kineto_function_view {
    size_t size; /**< sizeof(kineto_function_view) of the library */
    const char *name;
    const char *overload; /**< "" if there is none */
    kineto_scope scope;
    bool is_async;
    uint64_t id;             /**< 0 unless the callback needs ids */
    uint64_t thread_id;      /**< of the thread where it began */
    int64_t sequence_number; /**< -1: none */
    uint64_t forward_thread_id;
    int64_t debug_handle; /**< -1: none */
    /** for callbacks that need inputs, at enter only */
    const kineto_input *inputs;
    const kineto_keyword *keywords;
    /** for callbacks that need outputs, at exit only */
    const kineto_input *outputs;
    uint32_t input_count, keyword_count, output_count;
} kineto_function_view;

/** Called when an operator begins; the result is passed to `exit`. */
typedef void *(*kineto_function_enter)(const kineto_function_view *f, void *user);
typedef void (*kineto_function_exit)(const kineto_function_view *f, void *context, void *user);

typedef struct kineto_function_callback {
    size_t size;                 /**< sizeof(kineto_function_callback) */
    kineto_function_enter enter; /**< may be NULL */
    kineto_function_exit exit;   /**< may be NULL; called for every enter, with its context */
    void *user;
    uint32_t scopes; /**< mask of 1 << kineto_scope; 0: all */
    bool needs_inputs, needs_outputs, needs_ids;
    double probability; /**< 0 … 1: sampling probability of each operator */
} kineto_function_callback;

/** Every operator is shown: probability is 1, the rest is zero. threads: hot. */
static inline void kineto_function_callback_init(kineto_function_callback *out)
{
    memset(out, 0, sizeof *out);
    out->size = sizeof *out;
    out->probability = 1;
}

/** Handle of a callback; not reused. 0: none. */
typedef uint64_t kineto_callback;

/** Add a callback for operators of all threads (global), or of the calling thread only (local). Global callbacks are
 *  called first. Not called for operators in signal handlers, and for those that a callback itself begins. The child
 *  of a fork keeps global callbacks only.
 *  @param out  receives the handle, for kineto_function_remove; may be NULL.
 *  @return KINETO_E_ARGUMENT for a probability outside 0 … 1, a callback without functions or an unknown scope;
 *          KINETO_E_MEMORY; KINETO_E_LIMIT: there are 32 callbacks. threads: any. */
KINETO_API kineto_status kineto_function_add_global(const kineto_function_callback *callback,
                                                    kineto_callback *out, kineto_error *err);
KINETO_API kineto_status kineto_function_add_local(const kineto_function_callback *callback,
                                                   kineto_callback *out, kineto_error *err);

/** Remove a global callback, or one of the calling thread. On return no other thread is inside the callback and none
 *  will call it again: its data may be freed. `exit` is not called for operators that are still running. A callback
 *  may remove itself. Two threads that each remove a global callback from within a callback wait for each other for
 *  half a minute: remove callbacks outside of callbacks, or on one thread only.
 *  @return KINETO_E_NOT_FOUND; KINETO_E_BUSY: another thread has been inside for half a minute; the callback is
 *          removed, but its data must not be freed. threads: any. */
KINETO_API kineto_status kineto_function_remove(kineto_callback callback);
/** Disable a callback, and enable it again. KINETO_E_NOT_FOUND. threads: any. */
KINETO_API kineto_status kineto_function_disable(kineto_callback callback);
KINETO_API kineto_status kineto_function_reenable(kineto_callback callback);

/** True if there is a callback that is not disabled: global, of the calling thread, any. */
KINETO_API bool kineto_function_has_global(void);
KINETO_API bool kineto_function_has_local(void);
KINETO_API bool kineto_function_has_callbacks(void);
/** Remove all global callbacks, all of the calling thread, all of both. threads: any. */
KINETO_API void kineto_function_clear_global(void);
KINETO_API void kineto_function_clear_local(void);
KINETO_API void kineto_function_clear(void);

/** Disable (false) or enable (true, the default) callbacks and recording of operators on the calling thread.
 *  @return the previous setting. */
KINETO_API bool kineto_function_enable(bool on);
KINETO_API bool kineto_function_is_enabled(void);
#if defined(__GNUC__)
/** Disable operators of this thread from here to the end of the block. */
static inline void kineto__function_restore(const bool *was) { (void)kineto_function_enable(*was); }
#define KINETO_FUNCTIONS_DISABLED(var)                                                             \
    __attribute__((cleanup(kineto__function_restore), unused)) bool var =                          \
        kineto_function_enable(false)
#endif

/** The callbacks that apply to the next operator of a scope, with the sampling decision made. A dispatcher selects
 *  them first and does nothing if there are none. */
typedef struct kineto_function_step {
    uint32_t count; /**< of callbacks */
    uint32_t scope;
    bool needs_inputs, needs_outputs, needs_ids;
    bool recorded; /**< operators of this scope are recorded now, on this thread */
    uint64_t members;
} kineto_function_step;
/** @return true if a callback applies or the operator is recorded. */
KINETO_API bool kineto_function_step_callbacks(kineto_scope scope, kineto_function_step *out);
/** Begin an operator with the callbacks of a step that was just selected on this thread. */
KINETO_API void kineto_function_begin_step(kineto_function *f, const kineto_function_step *step,
                                           kineto_site *site, const kineto_function_info *info);

/** Seed the sampling of this thread. */
KINETO_API void kineto_function_seed(uint32_t seed);

/** Number of this process among several, as "Node ID" of tables; -1: none.
 *  @return KINETO_E_ARGUMENT for less than -1. threads: any. */
KINETO_API kineto_status kineto_function_set_node_id(int64_t node_id);
KINETO_API int64_t kineto_function_node_id(void);

/* ---- at the end of a block ------------------------------------------------------------------- */

#if defined(__GNUC__)
/** An operator from here to the end of the enclosing block, whatever way it is left; inputs are evaluated only if
 *  they are needed:
 *      KINETO_FUNCTION("aten::mm", kineto_input_tensor(&a), kineto_input_tensor(&b));
 *  and an annotation of the user's: KINETO_USER_SCOPE("forward"); */
static inline void kineto__function_cleanup(kineto_function *f) { kineto_function_end(f); }
#define KINETO_FUNCTION_(id, scope, name, ...)                                                     \
    KINETO_FUNCTION_SITE(KINETO_CONCAT(id, _site), scope, name);                                   \
    __attribute__((cleanup(kineto__function_cleanup), unused)) kineto_function id;                 \
    id.state = 0;                                                                                  \
    if (kineto__kind_wanted(KINETO_CONCAT(id, _site).kind)) {                                      \
        const kineto_input KINETO_CONCAT(id, _in)[] = {__VA_ARGS__};                               \
        kineto_function_record_begin(&id, &KINETO_CONCAT(id, _site), KINETO_CONCAT(id, _in),              \
                              sizeof KINETO_CONCAT(id, _in) / sizeof(kineto_input) - 1);           \
    }
#define KINETO_FUNCTION_ALL_(scope, ...)                                                           \
    KINETO_FUNCTION_(                                                                              \
        KINETO_CONCAT(kineto_function_, __LINE__), scope, __VA_ARGS__,                             \
        kineto_input_of(KINETO_INPUT_NONE, 0) /* not handed on: lists are never empty */)
#define KINETO_FUNCTION(...) KINETO_FUNCTION_ALL_(KINETO_SCOPE_FUNCTION, __VA_ARGS__)
#define KINETO_BACKWARD_FUNCTION(...)                                                              \
    KINETO_FUNCTION_ALL_(KINETO_SCOPE_BACKWARD_FUNCTION, __VA_ARGS__)
#define KINETO_USER_SCOPE(name) KINETO_FUNCTION_ALL_(KINETO_SCOPE_USER_SCOPE, name)
#endif

#ifdef __cplusplus
}
#endif

#define CKINETO_FUNCTION_DECLARED
#include <ckineto/deprecated.h>
#endif
