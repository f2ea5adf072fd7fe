/* Inside of the summaries: function events, what is read from their arguments, averages. */
#ifndef KP_SUMMARY_H
#define KP_SUMMARY_H

#include "base/base.h"
#include "trace/trace.h"
#include <ckineto/function.h>
#include <ckineto/summary.h>

/* ---- names: what an event is grouped by ------------------------------------------------------- */

typedef struct kp_names {
    kb_intern texts;
    uint32_t *key, *overload; /* by string id of the trace: ids in `texts`; UINT32_MAX: not asked */
} kp_names;

/* ---- function events ---------------------------------------------------------------------------- */

/* Columns, in the order of starts. 46 bytes an event, 16 more with memory, 8 with a device. */
struct kineto_function_events {
    uint32_t references;
    kineto_trace *trace;
    bool as_torch;
    uint32_t count;
    int64_t *start_ns, *end_ns;
    uint32_t *row, *track, *name; /* name: string id of the trace */
    uint32_t *parent, *first_child, *next_sibling, *kernel;
    uint8_t *flags;     /* KINETO_FUNCTION_… */
    uint8_t *kind;      /* kineto_kind */
    int64_t *shared_ns; /* what crossing events change in its own time; NULL: none cross */
    int64_t *device_ns; /* caused by it and its callees; NULL: no device in the trace */
    int64_t *cpu_bytes, *device_bytes; /* NULL: no memory in the trace */
    kp_names names;
    const char *device_name;
    uint32_t device_type;
};

/* Numbers of one event or of a group. */
typedef struct kp_sums {
    int64_t cpu_ns, self_cpu_ns, device_ns, self_device_ns;
    int64_t cpu_bytes, self_cpu_bytes, device_bytes, self_device_bytes;
} kp_sums;

/* A memory record while events are made. */
typedef struct kp_memory {
    kineto_row row;
    int64_t bytes;
    bool on_device;
} kp_memory;
typedef KB_VEC(kp_memory) kp_memory_list;

static inline uint64_t kp_bytes(uint64_t count, size_t each) { return KB_MAX(count, 1u) * each; }
/* Sums of what stands in files stop at what a number holds. */
static inline int64_t kp_sum(int64_t a, int64_t b)
{
    int64_t sum;
    if (!__builtin_add_overflow(a, b, &sum))
        return sum;
    return b > 0 ? INT64_MAX : INT64_MIN;
}
static inline uint64_t kp_sum_u(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}
static inline int64_t kp_difference(int64_t a, int64_t b) { return kb_length_ns(b, a); }
static inline int64_t kp_length(const kineto_function_events *e, uint32_t i)
{
    return kb_length_ns(e->start_ns[i], e->end_ns[i]);
}

/* memory_sample.c: what the arguments of a memory row say. */
typedef struct kp_memory_args {
    uint64_t address;
    int64_t bytes;                     /* negative: released */
    int64_t device_type, device_index; /* index -1: not told */
    int64_t total_bytes;
    bool has_bytes, has_total;
} kp_memory_args;
void kp_memory_args_read(const kineto_trace *t, kineto_row row, kp_memory_args *out);
/* CPU, MKLDNN and IDEEP are memory of the host. */
static inline bool kp_is_host_memory(int64_t device_type)
{
    return device_type == KINETO_DEVICE_CPU || device_type == KINETO_DEVICE_MKLDNN ||
           device_type == KINETO_DEVICE_IDEEP;
}

/* A sample of allocations is known by its mean distance in the header, 0 or 1: all
 * are there; and what the size of a recorded one stands for. */
uint64_t kp_memory_sampling(const kineto_trace *t);
/* How many blocks a recorded one stands for; its bytes times that. */
double kp_memory_weight(uint64_t sampling_bytes, uint64_t bytes);
int64_t kp_memory_scaled(uint64_t sampling_bytes, int64_t bytes);
/* function_memory.c: give records of memory to events, and take those out of the list that some
 * function used. */
bool kp_attribute_memory(kineto_function_events *e, const kp_memory_list *records);
/* function_tree.c: callers and callees, double names, device work, device times. */
bool kp_build_tree(kineto_function_events *e, const kineto_function_events_options *options);
/* function_names.c */
bool kp_names_create(kp_names *names, const kineto_trace *t);
/** Steps by a pattern, if one is given, are one by its text. */
bool kp_names_add(kp_names *names, const kineto_trace *t, uint32_t name, uint32_t kind,
                  const char *step_pattern);
void kp_names_free(kp_names *names);
static inline kineto_string kp_name_key(const kineto_function_events *e, uint32_t i)
{
    return kb_intern_get(&e->names.texts, e->names.key[e->name[i]]);
}
/* The engine calls each backward function from a frame of its own, which has its name behind a
 * text: that name; data is NULL for other names. */
kineto_string kp_framed_name(kineto_string name);
/* Operators that PyTorch shows nowhere. */
bool kp_is_dropped_name(kineto_string name);
/* The name of a device by PyTorch's number; NULL: none. */
const char *kp_device_type_name(uint32_t type);
/* The device that a category ("cuda_runtime") or a label ("NPU 0") names, and PyTorch's number for it;
 * NULL: any. */
const char *kp_device_name(kineto_string text, uint32_t *type);
void kp_events_retain(kineto_function_events *e);
void kp_event_sums(const kineto_function_events *e, uint32_t i, kp_sums *out);

/* ---- what arguments say (function_args.c) -------------------------------------------------------- */

/* A stack, or a piece of one: its outer frames are those of `parent`. 0 is the empty one. */
typedef struct kp_frame {
    uint32_t parent, text, depth;
} kp_frame;

/* Frames that hang together: each chain is there once. */
typedef struct kp_stacks {
    kb_intern texts;
    KB_VEC(kp_frame) frames;
    kb_map by_key;
} kp_stacks;

bool kp_stacks_create(kp_stacks *s);
void kp_stacks_free(kp_stacks *s);
/* The chain of `parent` with one more frame; UINT32_MAX: out of memory. */
uint32_t kp_stacks_push(kp_stacks *s, uint32_t parent, uint32_t text);

#define KP_WANT_SHAPES 1u
#define KP_WANT_STACKS 2u
#define KP_WANT_FLOPS  4u

/* Columns over events, of what was wanted. */
typedef struct kp_arguments {
    uint32_t want;
    kb_intern shape_texts;
    uint32_t *shapes; /* ids in shape_texts */
    kp_stacks stacks;
    uint32_t *stack; /* frame, the innermost */
    uint64_t *flops;
    int64_t *sequence; /* with stacks: -1 none */
    uint32_t *forward; /* the same: number of the forward thread, 0 none */
} kp_arguments;

kineto_status kp_arguments_read(const kineto_function_events *e, uint32_t want, kp_arguments *out,
                                kineto_error *err);
void kp_arguments_free(kp_arguments *a);
/* function_stacks.c: stacks of backward operators are those of their forward ones; without texts in
 * the trace, functions of Python around an event are its stack. */
bool kp_stacks_of_python(const kineto_function_events *e, kp_arguments *a);
bool kp_stacks_of_backward(const kineto_function_events *e, kp_arguments *a);
bool kp_stack_shows(kineto_string frame);

/* ---- averages ------------------------------------------------------------------------------------ */

/* Sums of one group, and what it has in common. */
typedef struct kp_group {
    uint32_t key, overload, shapes, stack, first;
    uint8_t flags;
    uint64_t count, flops;
    kp_sums sums;
} kp_group;

struct kineto_averages {
    kineto_function_events *events;
    kineto_averages_options options;
    KB_VEC(kp_group) groups;
    kp_arguments arguments;
    kp_stacks tops; /* innermost frame first: what groups by stack have */
    bool has_memory, has_flops;
};

/* metrics.c: PyTorch's names for numbers. */
typedef enum kp_metric {
    KP_CPU_TIME,
    KP_CPU_TIME_TOTAL,
    KP_SELF_CPU_TIME_TOTAL,
    KP_DEVICE_TIME,
    KP_DEVICE_TIME_TOTAL,
    KP_SELF_DEVICE_TIME_TOTAL,
    KP_CPU_MEMORY,
    KP_SELF_CPU_MEMORY,
    KP_DEVICE_MEMORY,
    KP_SELF_DEVICE_MEMORY,
    KP_COUNT,
    KP_FLOPS,
    KP_METRIC_COUNT
} kp_metric;
kineto_status kp_metric_parse(const char *text, kp_metric *metric, kineto_error *err);
/* Microseconds, bytes or a count. */
double kp_metric_of(const kineto_average *row, kp_metric metric);

/* table.c, table_text.c, table_rows.c: rows in their order, and the three ways to write them. */
typedef struct kp_table {
    const kineto_averages *averages;
    kineto_table_options options;
    uint32_t *order;
    uint32_t count; /* rows that are shown */
} kp_table;
bool kp_table_write_text(const kp_table *t, kb_sink *sink);
void kp_table_write_csv(const kp_table *t, kb_sink *sink);
void kp_table_write_json(const kp_table *t, kb_sink *sink);

/* cells.c: numbers as PyTorch spells them, and texts with their width. */
kb_text kp_time_text(double us, uint32_t unit);
kb_text kp_share_text(double part, double whole);
kb_text kp_memory_text(int64_t bytes);
kb_text kp_flops_text(uint64_t flops, uint32_t thousands);
uint32_t kp_flops_thousands(uint64_t smallest);
extern const char *const kp_flops_units[6];

typedef struct kp_cell {
    KB_VEC(char) text;
    size_t columns;
    bool no_memory;
} kp_cell;
/* Without what would disturb a terminal. */
void kp_cell_set(kp_cell *cell, kineto_string text);
void kp_cell_add(kp_cell *cell, const char *text, size_t bytes, size_t columns);
void kp_cell_keep_front(kp_cell *cell, size_t columns);
void kp_cell_keep_back(kp_cell *cell, size_t columns);
size_t kp_columns(kineto_string text); /* that it will have */

/* ---- memory over time (memory_timeline.c, memory_page.c) ------------------------------------------- */

typedef enum kp_memory_action {
    KP_MEMORY_BEFORE = 1, /* was there before the trace */
    KP_MEMORY_COMES = 2,
    KP_MEMORY_GOES = 4
} kp_memory_action;

/* One change. `owner` is the name that allocated it, `function` the event, of what came. */
typedef struct kp_memory_change {
    int64_t time_ns, bytes; /* bytes > 0 */
    uint32_t owner, function;
    uint8_t action, category;
} kp_memory_change;

typedef struct kp_timeline {
    const kineto_function_events *e;
    KB_VEC(kp_memory_change) before, changes; /* changes in the order of time */
    kineto_memory_timeline_result result;
    bool by_category; /* the page */
} kp_timeline;

/* memory_category.c: what memory is for. */
typedef struct kp_memory_places {
    const kineto_function_events *e;
    const kineto_memory_rule *rules;
    size_t rule_count;
    uint32_t *rule_of_name; /* by name key: category and one more; NULL: no rules */
    uint8_t *place;         /* by event: what was found of it */
    uint32_t *outermost;    /* operator around it, where place is known; */
    uint32_t *ruled;        /* the innermost event around it that has a rule */
} kp_memory_places;
bool kp_memory_places_create(kp_memory_places *p, const kineto_function_events *e,
                             const kineto_memory_timeline_options *options);
void kp_memory_places_free(kp_memory_places *p);
/* Some memory came or went in an event; to be said of all before _find. */
void kp_memory_places_want(kp_memory_places *p, uint32_t event);
void kp_memory_places_find(kp_memory_places *p);
/* Of what came in an event and went in another, or KINETO_NO_EVENT. */
uint8_t kp_memory_category(const kp_memory_places *p, uint32_t came, uint32_t went);

bool kp_memory_write_page(const kp_timeline *t, const char *title, kb_sink *sink);

#endif
