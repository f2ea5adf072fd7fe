/* Internal interface of the summaries (analyze/summary): function events with their call tree, the
 * arguments read for them, averages over them, tables of averages, and memory over time. Function
 * events are built once and immutable afterwards; everything else belongs to one caller. FLOPs are
 * in flops.h. */
#ifndef KA_SUMMARY_H
#define KA_SUMMARY_H

#include "base/base.h"
#include "trace/trace.h"
#include <ckineto/function.h>
#include <ckineto/summary.h>

/* ---- names that events are grouped by -------------------------------------------------------- */

/* The texts of a trace's names, without overloads. */
typedef struct ka_summary_names {
    kb_intern texts;
    uint32_t *key, *overload; /* by string id of the trace: ids in `texts`; UINT32_MAX: unused */
} ka_summary_names;

/* ---- function events ------------------------------------------------------------------------- */

/* Columns, in the order of starts. 46 bytes an event, 16 more with memory, 8 with a device. */
struct kineto_function_events {
    uint32_t references;
    kineto_trace *trace;
    bool as_torch;
    uint32_t count;
    int64_t *start_ns, *end_ns;
    uint32_t *row, *track, *name; /* name: string id of the trace */
    /* Numbers of other events or KINETO_NO_EVENT: the caller, the callees in order, and the first
     * device work of a function, whose `kernel` is the next one. */
    uint32_t *parent, *first_child, *next_sibling, *kernel;
    uint8_t *flags; /* KINETO_FUNCTION_… */
    uint8_t *kind;  /* kineto_kind */
    /* Correction of the self time for events that cross each other; NULL: none do. */
    int64_t *shared_ns;
    /* Device time that it and its callees caused; NULL: the trace has no device work. */
    int64_t *device_ns;
    /* NULL: the trace has no memory rows. */
    int64_t *cpu_bytes, *device_bytes;
    ka_summary_names names;
    const char *device_name;
    uint32_t device_type;
};

/* The numbers of one event or the sums of a group. */
typedef struct ka_event_sums {
    int64_t cpu_ns, self_cpu_ns, device_ns, self_device_ns;
    int64_t cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes;
} ka_event_sums;

/* A memory row while events are built; bytes < 0: released. */
typedef struct ka_memory_record {
    kineto_row row;
    int64_t bytes;
    bool on_device;
} ka_memory_record;
typedef KB_VEC(ka_memory_record) ka_memory_record_list;

/* Bytes to allocate for a column; never 0. */
static inline uint64_t ka_column_bytes(uint64_t count, size_t each)
{
    return KB_MAX(count, 1u) * each;
}
/* Sums of numbers from files saturate instead of overflowing. */
static inline int64_t ka_add_saturated(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}
static inline uint64_t ka_add_saturated_u64(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
static inline int64_t ka_subtract_saturated(int64_t a, int64_t b) { return kb_length_ns(b, a); }
static inline int64_t ka_event_length_ns(const kineto_function_events *e, uint32_t i)
{
    return kb_length_ns(e->start_ns[i], e->end_ns[i]);
}

/* memory_sample.c: the arguments of a memory row. */
typedef struct ka_memory_args {
    uint64_t address;
    int64_t bytes;                     /* negative: released */
    int64_t device_type, device_index; /* index -1: unknown */
    int64_t total_bytes;
    bool has_bytes, has_total;
} ka_memory_args;
void ka_memory_args_read(const kineto_trace *t, kineto_row row, ka_memory_args *out);
/* True for device types whose memory is that of the host. */
static inline bool ka_is_host_memory(int64_t device_type)
{
    return device_type == KINETO_DEVICE_CPU || device_type == KINETO_DEVICE_MKLDNN ||
           device_type == KINETO_DEVICE_IDEEP;
}

/* Mean distance in bytes of sampled allocations, from the header; 0 or 1: all allocations were
 * recorded. */
uint64_t ka_memory_sampling(const kineto_trace *t);
/* Number of blocks that a recorded one of this size represents; its bytes times that number. */
double ka_memory_weight(uint64_t sampling_bytes, uint64_t bytes);
int64_t ka_memory_scaled(uint64_t sampling_bytes, int64_t bytes);
/* function_memory.c: attributes memory records to events and removes records that a function used.
 * False: out of memory. */
bool ka_attribute_memory(kineto_function_events *e, const ka_memory_record_list *records);
/* function_tree.c: sets callers and callees, folds calls with the name of their caller, links
 * device work and sums device times. False: out of memory. */
bool ka_build_call_tree(kineto_function_events *e, const kineto_function_events_options *options);
/* function_names.c */
bool ka_summary_names_create(ka_summary_names *names, const kineto_trace *t);
/** Adds the name of an event. Names that match step_pattern, if it is not NULL, are grouped under
 * its text. False: out of memory. */
bool ka_summary_names_add(ka_summary_names *names, const kineto_trace *t, uint32_t name,
                          uint32_t kind, const char *step_pattern);
void ka_summary_names_free(ka_summary_names *names);
static inline kineto_string ka_event_name_key(const kineto_function_events *e, uint32_t i)
{
    return kb_intern_get(&e->names.texts, e->names.key[e->name[i]]);
}
/* The backward function that a frame of the autograd engine calls, from the frame's name; data is
 * NULL for other names. */
kineto_string ka_engine_frame_name(kineto_string name);
/* Operators that PyTorch never shows. */
bool ka_is_hidden_operator(kineto_string name);
/* The name of a device by PyTorch's number; NULL: unknown number. */
const char *ka_device_type_name(uint32_t type);
/* The device that a category ("cuda_runtime") or a label ("NPU 0") names, and PyTorch's number for
 * it; NULL: it names no device. */
const char *ka_device_name_of(kineto_string text, uint32_t *type);
void ka_events_retain(kineto_function_events *e);
void ka_event_sums_get(const kineto_function_events *e, uint32_t i, ka_event_sums *out);

/* ---- arguments of events (function_args.c) --------------------------------------------------- */

/* A stack: its innermost frame `text`, and the outer frames, which are the stack `parent`. Number 0
 * is the empty stack. */
typedef struct ka_stack_frame {
    uint32_t parent, text, depth;
} ka_stack_frame;

/* Interned stacks: a tree of frames in which each stack exists once. */
typedef struct ka_stacks {
    kb_intern texts;
    KB_VEC(ka_stack_frame) frames;
    kb_map by_key;
} ka_stacks;

bool ka_stacks_create(ka_stacks *s);
void ka_stacks_free(ka_stacks *s);
/* The stack `parent` with one more inner frame; UINT32_MAX: out of memory. */
uint32_t ka_stacks_push(ka_stacks *s, uint32_t parent, uint32_t text);

#define KA_WANT_SHAPES 1u
#define KA_WANT_STACKS 2u
#define KA_WANT_FLOPS  4u

/* Columns by event, those that were wanted; the others are NULL. */
typedef struct ka_event_arguments {
    uint32_t want;
    kb_intern shape_texts;
    uint32_t *shapes; /* ids in shape_texts */
    ka_stacks stacks;
    uint32_t *stack; /* frame, the innermost */
    uint64_t *flops;
    int64_t *sequence; /* with stacks: -1 none */
    uint32_t *forward; /* the same: number of the forward thread, 0 none */
} ka_event_arguments;

kineto_status ka_event_arguments_read(const kineto_function_events *e, uint32_t want,
                                      ka_event_arguments *out, kineto_error *err);
void ka_event_arguments_free(ka_event_arguments *a);
/* function_stacks.c: for traces without stacks, those of the Python functions around an event; for
 * backward operators, the stacks of their forward ones. False: out of memory. */
bool ka_stacks_from_python(const kineto_function_events *e, ka_event_arguments *a);
bool ka_stacks_from_forward(const kineto_function_events *e, ka_event_arguments *a);
bool ka_is_shown_frame(kineto_string frame);

/* ---- averages -------------------------------------------------------------------------------- */

/* One group: its key, its first event and its sums. */
typedef struct ka_average_group {
    uint32_t key, overload, shapes, stack, first;
    uint8_t flags;
    uint64_t count, flops;
    ka_event_sums sums;
} ka_average_group;

struct kineto_averages {
    kineto_function_events *events;
    kineto_averages_options options;
    KB_VEC(ka_average_group) groups;
    ka_event_arguments arguments;
    ka_stacks tops; /* the innermost frames that groups by stack have, the innermost as the root */
    bool has_memory, has_flops;
};

/* metrics.c: the numbers of a group under PyTorch's names. */
typedef enum ka_metric {
    KA_METRIC_CPU_TIME,
    KA_METRIC_CPU_TIME_TOTAL,
    KA_METRIC_SELF_CPU_TIME_TOTAL,
    KA_METRIC_DEVICE_TIME,
    KA_METRIC_DEVICE_TIME_TOTAL,
    KA_METRIC_SELF_DEVICE_TIME_TOTAL,
    KA_METRIC_CPU_MEMORY,
    KA_METRIC_SELF_CPU_MEMORY,
    KA_METRIC_DEVICE_MEMORY,
    KA_METRIC_SELF_DEVICE_MEMORY,
    KA_METRIC_CALLS,
    KA_METRIC_FLOPS,
    KA_METRIC_COUNT
} ka_metric;
kineto_status ka_metric_parse(const char *text, ka_metric *metric, kineto_error *err);
/* All names; NULL past the end. */
const char *ka_metric_name(uint32_t index);
/* Microseconds, bytes or a count. */
double ka_metric_value(const kineto_average *row, ka_metric metric);

/* summary_table.c, summary_table_text.c, summary_table_rows.c: sorted rows and the three formats. */
typedef struct ka_summary_table {
    const kineto_averages *averages;
    kineto_table_options options;
    uint32_t *order;
    uint32_t count; /* rows that are shown */
} ka_summary_table;
bool ka_summary_table_write_text(const ka_summary_table *t, kb_sink *sink);
void ka_summary_table_write_csv(const ka_summary_table *t, kb_sink *sink);
void ka_summary_table_write_json(const ka_summary_table *t, kb_sink *sink);

/* text_cells.c: numbers in PyTorch's spelling, and texts with their width in characters. */
kb_text ka_time_text(double us, uint32_t unit);
kb_text ka_share_text(double part, double whole);
kb_text ka_memory_text(int64_t bytes);
kb_text ka_flops_text(uint64_t flops, uint32_t thousands);
uint32_t ka_flops_thousands(uint64_t smallest);
extern const char *const ka_flops_units[6];

typedef struct ka_text_cell {
    KB_VEC(char) text;
    size_t columns;
    bool no_memory;
} ka_text_cell;
/* Replaces the cell's text; characters that could disturb a terminal become escapes. */
void ka_text_cell_set(ka_text_cell *cell, kineto_string text);
void ka_text_cell_append(ka_text_cell *cell, const char *text, size_t bytes, size_t columns);
void ka_text_cell_keep_front(ka_text_cell *cell, size_t columns);
void ka_text_cell_keep_back(ka_text_cell *cell, size_t columns);
/* The width that ka_text_cell_set gives to a text. */
size_t ka_text_columns(kineto_string text);

/* ---- memory over time (memory_timeline.c, memory_page.c) ------------------------------------- */

/* PyTorch's numbers, torch.profiler._memory_profiler.Action. */
typedef enum ka_memory_action {
    KA_MEMORY_PREEXISTING = 1, /* allocated before the trace began */
    KA_MEMORY_CREATE = 2,
    KA_MEMORY_DESTROY = 4
} ka_memory_action;

/* One change of a size. owner and function are the name key and the event that allocated the block,
 * also for its release. */
typedef struct ka_memory_change {
    int64_t time_ns, bytes; /* bytes > 0 */
    uint32_t owner, function;
    uint8_t action, category;
} ka_memory_change;

typedef struct ka_memory_timeline {
    const kineto_function_events *e;
    KB_VEC(ka_memory_change) before, changes; /* changes in the order of time */
    kineto_memory_timeline_result result;
    bool by_category; /* areas of the page stand for categories, not functions */
} ka_memory_timeline;

/* memory_category.c: categories of memory. Order of calls: _create, _add for each event in which
 * memory was allocated or released, _run once, then ka_memory_classify. */
typedef struct ka_memory_classifier {
    const kineto_function_events *e;
    const kineto_memory_rule *rules;
    size_t rule_count;
    uint32_t *rule_of_name; /* by name key: category plus 1, 0: none; NULL: no rules */
    uint8_t *place;         /* by event: phase and rule, see memory_category.c; 0: not added */
    uint32_t *outermost;    /* by added event: the outermost operator around it */
    uint32_t *ruled;        /* by added event: the innermost event around it that has a rule */
} ka_memory_classifier;
bool ka_memory_classifier_create(ka_memory_classifier *p, const kineto_function_events *e,
                                 const kineto_memory_timeline_options *options);
void ka_memory_classifier_free(ka_memory_classifier *p);
/* Adds an event and its callers. */
void ka_memory_classifier_add(ka_memory_classifier *p, uint32_t event);
void ka_memory_classifier_run(ka_memory_classifier *p);
/* The category of memory that was allocated in one event and released in another, or
 * KINETO_NO_EVENT. */
uint8_t ka_memory_classify(const ka_memory_classifier *p, uint32_t came, uint32_t went);

bool ka_memory_write_page(const ka_memory_timeline *t, const char *title, kb_sink *sink);

#endif
