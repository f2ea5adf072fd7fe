/* The selected part of a trace as arrays, built once and shared by all analyses of it.
 *
 * A dataset is an index over the trace, not a second trace. Rows of the trace are in the order of the
 * file and in blocks by column; analyses walk them by stream, by thread or by time and follow links.
 * So ka_work and ka_slice copy what such walks compare for each row (start, end, name, kind) and add
 * the links between rows; all else is read from the trace through `row` (arguments, category, ids).
 * With definitions that count in other units the copied times are theirs, still as nanoseconds.
 *
 * Layers over it refer to it and to the trace by index: what operators, devices and steps amount to
 * (attribution.h), the graph of the critical path (analyze/critical), the tree of calls (ka_calls).
 *
 * Everything is immutable once ka_dataset_create returned, but for the layers in ka_dataset_memory,
 * which are made when first needed, under its lock. */
#ifndef KA_DATASET_H
#define KA_DATASET_H

#include "analyze/classes/classes.h"
#include "analyze/dataset/definitions.h"
#include "analyze/dataset/known_names.h"
#include "analyze/dataset/watched_threads.h"
#include "analyze/tables/table.h"
#include "trace/trace.h"
#include "trace/model/steps.h"

/** No index: of work, slices, steps … */
#define KA_NONE UINT32_MAX

typedef struct ka_span {
    int64_t start_ns, end_ns;
} ka_span;

/** An activity of a device: a kernel, copy or memset. In the order of (stream, start, longer first,
 *  row). */
typedef struct ka_work {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;   /* string id; its class is class_of[name] */
    uint32_t stream; /* index of streams */
    uint32_t call;   /* index of slices: the call that launched it; KA_NONE: not known */
    int32_t step;    /* index of steps; -1: none */
    uint8_t kind;    /* kineto_kind */
    uint8_t type;    /* ka_type */
} ka_work;

/** A range of a host thread: an operator, annotation, call of a runtime or driver, function of Python
 *  … In the order of (thread, start, longer first, row), so the slices it encloses follow it. */
typedef struct ka_slice {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;       /* string id */
    uint32_t thread;     /* index of threads */
    uint32_t parent;     /* index of slices: the innermost that encloses it; KA_NONE: outermost */
    uint32_t around;     /* the innermost operator or call that encloses it, however annotations and
                            functions cross it; KA_NONE */
    uint32_t next;       /* first slice after all that it encloses */
    uint32_t first_work; /* index of launched: the work it launched itself, by start … */
    uint32_t work_count; /* … and how much */
    int32_t step;        /* index of steps; -1: none */
    uint16_t depth;      /* 0: outermost */
    uint8_t kind;        /* kineto_kind */
} ka_slice;

/** A stream of a device that has work. */
typedef struct ka_stream {
    uint32_t track, process;
    int64_t device, id;    /* -1: not known */
    uint32_t first, count; /* of work */
} ka_stream;

/** A host thread that has slices. */
typedef struct ka_thread {
    uint32_t track, process;
    int64_t id;
    uint32_t first, count; /* of slices */
} ka_thread;

/** A step of the program. All are there, selected or not, by start. */
typedef struct ka_step {
    int64_t start_ns, end_ns;
    uint64_t number;
    uint32_t slice; /* KA_NONE: it is not among the selected ones */
    uint32_t process;
} ka_step;

typedef struct ka_dataset {
    const kineto_trace *trace;
    const kineto_analysis_options *options; /* complete: no choice is left at 0 */
    const ka_definitions *definitions;
    int32_t rank;
    int64_t start_ns, end_ns; /* first start and last end of work and slices */
    const ka_work *work;
    uint32_t work_count;
    const uint32_t *by_time; /* indexes of work by (start, longer first, row) */
    const ka_slice *slices;
    uint32_t slice_count;
    const uint32_t *launched; /* indexes of work by the slice that launched it, then start */
    const ka_stream *streams;
    uint32_t stream_count;
    const ka_thread *threads;
    uint32_t thread_count;
    const ka_step *steps;
    uint32_t step_count;
    const ka_class *class_of; /* by string id; set for names of work only */
    uint32_t name_count;
    int64_t series_origin_ns;   /* time 0 of time series in tables */
    uint32_t attribution_parts; /* KA_VIEW_…: the parts that the wanted tables need */
    struct ka_dataset_memory *memory;
} ka_dataset;

/** @param options, rules  must outlive the dataset (rules: this call).
 *  @param dataset         to be freed with ka_dataset_free, also on failure.
 *  @return KINETO_E_NOT_FOUND without the steps that were selected; KINETO_E_MEMORY. */
kineto_status ka_dataset_create(const kineto_trace *trace, const kineto_analysis_options *options,
                                const ka_rules *rules, ka_dataset *dataset, kineto_error *err);
void ka_dataset_free(ka_dataset *dataset);
/** Threads that were watched from outside, of the whole trace; lives as long as the dataset. NULL: out of
 *  memory. */
const ka_watched *ka_dataset_watched(const ka_dataset *s);

static inline int64_t ka_work_ns(const ka_work *w) { return kb_length_ns(w->start_ns, w->end_ns); }
static inline int64_t ka_slice_ns(const ka_slice *s)
{
    return kb_length_ns(s->start_ns, s->end_ns);
}
/** The innermost operator that encloses a slice; KA_NONE: none, or more than KA_MAX_CALLS_AROUND calls lie
 *  in between, which no program nests. */
#define KA_MAX_CALLS_AROUND 64
static inline uint32_t ka_operator_around(const ka_dataset *s, uint32_t slice)
{
    uint32_t at = s->slices[slice].around;
    for (uint32_t left = KA_MAX_CALLS_AROUND;
         at != KA_NONE && s->slices[at].kind != KINETO_KIND_CPU_OP; left--)
        at = left ? s->slices[at].around : KA_NONE;
    return at;
}
/** Start and end of a row as the trace has them. */
static inline ka_span ka_row_span(const kineto_trace *t, kineto_row row)
{
    const kt_block *block = kt_block_at(t, row / KT_BLOCK_ROWS);
    return (ka_span){block->start_ns[row % KT_BLOCK_ROWS], block->end_ns[row % KT_BLOCK_ROWS]};
}
static inline uint32_t ka_row_name(const kineto_trace *t, kineto_row row)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->name[row % KT_BLOCK_ROWS];
}
static inline kineto_string ka_name(const ka_dataset *s, uint32_t name)
{
    return kineto_trace_string(s->trace, name);
}
/** The name of the ranges that are the steps because they repeat like steps; empty: the steps have other names. */
kineto_string ka_repeated_step_name(const ka_dataset *s);
/** Is a row of this name one of the steps, selected or not? */
bool ka_is_step_row(const ka_dataset *s, kineto_row row, uint32_t name);
static inline bool ka_is_step(const ka_dataset *s, uint32_t slice)
{
    return ka_is_step_row(s, s->slices[slice].row, s->slices[slice].name);
}
/** For qsort_r, of indexes of slices, with ka_dataset.slices as the context: by start and row. The second
 *  one by start, the longer first, and row. */
int ka_compare_starts(const void *left, const void *right, void *slices);
int ka_compare_slices(const void *left, const void *right, void *slices);
/** A sum that saturates: times come from files and may be anything. */
static inline int64_t ka_add_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}
static inline double ka_us(int64_t ns) { return (double)ns / 1000; }
static inline double ka_percent(double part, double whole)
{
    return whole != 0 ? 100 * part / whole : 0;
}

/* ---- for functions that fill a dataset (ka_definitions.fill_dataset) ---- */
/** What a dataset owns; ka_dataset has read-only pointers to it. */
typedef struct ka_dataset_memory {
    KB_VEC(ka_work) work;
    KB_VEC(ka_slice) slices;
    KB_VEC(ka_stream) streams;
    KB_VEC(ka_thread) threads;
    KB_VEC(ka_step) steps;
    KB_VEC(uint32_t) by_time, launched;
    kt_step_list step_rows;
    ka_class *class_of;
    pthread_mutex_t lock; /* guards the members below, which are made when first needed */
    struct ka_attribution *attribution;
    uint32_t attribution_parts;
    ka_watched *watched; /* of the trace, whatever steps are selected */
    bool no_memory;
} ka_dataset_memory;
/** Append a row. Name and kind are taken from the trace, the depth of a slice is its parent's and one.
 *  False: out of memory. */
bool ka_dataset_put_work(ka_dataset_memory *m, const kineto_trace *trace, ka_work w);
bool ka_dataset_put_slice(ka_dataset_memory *m, const kineto_trace *trace, ka_slice s);
/** For qsort, of ka_step: by start and slice. */
int ka_compare_steps(const void *left, const void *right);
/** ka_definitions.fill_dataset of the exact definitions. */
kineto_status ka_dataset_fill(ka_dataset *s, kineto_error *err);
/** Is the stream among those that options.streams selects? */
bool ka_stream_wanted(const kineto_analysis_options *options, int64_t id);
/** Writes a note to `text` if the trace has streams but none of the selected ones; else "". `streams` may
 *  be NULL: all. False: out of memory. */
bool ka_streams_missing(const kineto_trace *t, const char *streams, int64_t rank, char *text,
                        size_t size);
/* ---- spans.c: sets of time spans ---- */
typedef KB_VEC(ka_span) ka_spans; /* sorted, disjoint, not touching once united */
/** Sort and unite, in place. */
void ka_spans_unite(ka_spans *spans);
int64_t ka_spans_ns(const ka_spans *spans);
/** The time in both sets; in `a` but not in `b`. `out` is cleared first. False: out of memory. */
bool ka_spans_both(const ka_spans *a, const ka_spans *b, ka_spans *out);
bool ka_spans_without(const ka_spans *a, const ka_spans *b, ka_spans *out);
/** How much of [start, end) lies in united spans. `cursor`, 0 at first, makes queries with rising starts
 *  linear. */
int64_t ka_spans_within(const ka_spans *spans, int64_t start_ns, int64_t end_ns, size_t *cursor);

/* ---- dtype.c ---- */
/** An element type of tensors; 0 bytes: unknown. */
typedef struct ka_dtype {
    uint8_t bytes, precision;
} ka_dtype;
/** By a name as traces have it: "c10::BFloat16", "BFloat16", "torch.bfloat16"; quoted or not. */
ka_dtype ka_dtype_of(kineto_string spelling);

/* ---- stats.c ---- */
typedef struct ka_describe {
    uint64_t count;
    double mean, std, min, p25, p50, p75,
        max; /* std: of a sample (n - 1), 0 of one; linear quantiles */
} ka_describe;
/** Sorts `values`. All zero without any. */
ka_describe ka_describe_values(double *values, size_t count);
/** Quantile 0 … 1 of sorted values, linear between two. */
double ka_quantile(const double *sorted, size_t count, double q);
/** Median and median absolute deviation; sorts. */
double ka_median(double *values, size_t count);
double ka_mad(double *values, size_t count, double median);

/** Count, sum, maximum, minimum, mean and deviation of a group of durations. */
typedef struct ka_tally_ns {
    uint64_t count;
    int64_t sum_ns, min_ns, max_ns;
    double mean, m2; /* running, in us (Welford) */
} ka_tally_ns;
void ka_tally_ns_add(ka_tally_ns *t, int64_t ns);
/** Put them as six cells, in that order. */
void ka_put_tally(ka_table *t, const ka_tally_ns *tally);
#endif
