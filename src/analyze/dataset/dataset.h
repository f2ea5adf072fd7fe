/* What analyses look at: the chosen part of a trace as arrays, made once for all of them.
 *
 * With exact definitions times are the trace's, in nanoseconds. With HTA's (dataset_hta.c) the arrays
 * hold what HTA would have kept, with its whole microseconds, still as nanoseconds: what remains
 * different in a formula asks `hta`. Everything is immutable once made. */
#ifndef KA_DATASET_H
#define KA_DATASET_H

#include "analyze/classes/classes.h"
#include "analyze/dataset/definitions.h"
#include "analyze/tables/table.h"
#include "trace/transform/steps.h"
#include "trace/trace.h"

#define KA_NONE UINT32_MAX

/** Something a device did: a kernel, copy or memset. In the order of (stream, start, longer first,
 *  row). */
typedef struct ka_work {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;   /* string id; its class is class_of[name] */
    uint32_t stream; /* index of streams */
    uint32_t call;   /* index of slices: what launched it; KA_NONE: not known */
    int32_t step;    /* index of steps; -1: none */
    uint8_t kind;    /* kineto_kind */
    uint8_t type;    /* ka_type */
} ka_work;

/** A range of a host thread: operator, annotation, call of a runtime or driver, function of Python
 * … In the order of (thread, start, longer first, row): what it encloses follows it. */
typedef struct ka_slice {
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;       /* string id */
    uint32_t thread;     /* index of threads */
    uint32_t parent;     /* index of slices: the innermost that encloses it; KA_NONE: outermost */
    uint32_t around;     /* the innermost operator or call that encloses it, however annotations and
                            functions cross it; KA_NONE */
    uint32_t next;       /* first slice behind all that it encloses */
    uint32_t first_work; /* index of launched: what it launched itself, in the order of starts … */
    uint32_t work_count; /* … and how much */
    int32_t step;
    uint16_t depth;
    uint8_t kind;
} ka_slice;

typedef struct ka_stream {
    uint32_t track, process;
    int64_t device, id;    /* -1: not known */
    uint32_t first, count; /* of work */
} ka_stream;

/** A host thread. */
typedef struct ka_thread {
    uint32_t track, process;
    int64_t id;
    uint32_t first, count; /* of slices */
} ka_thread;

/** By start. */
typedef struct ka_step {
    int64_t start_ns, end_ns;
    uint64_t number;
    uint32_t slice; /* KA_NONE: it was left out with what is not looked at */
    uint32_t process;
} ka_step;

typedef struct ka_dataset {
    const kineto_trace *trace;
    const kineto_analyze_options *options; /* all of them are set */
    const ka_definitions *definitions;
    int32_t rank;
    int64_t start_ns, end_ns; /* of all that is in it */
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
    const ka_class *class_of; /* by string id; of names of work only */
    uint32_t name_count;
    int64_t min_ts_ns;   /* HTA's series begin there; exact: 0 */
    uint32_t view_parts; /* KA_VIEW_…: what the wanted tables need, see view.h */
    struct ka_dataset_memory *memory;
} ka_dataset;

/** @param dataset  to be freed with ka_dataset_free, also on failure. */
kineto_status ka_dataset_create(const kineto_trace *trace, const kineto_analyze_options *options,
                              const ka_rules *rules, ka_dataset *dataset, kineto_error *err);
void ka_dataset_free(ka_dataset *dataset);

static inline int64_t ka_work_ns(const ka_work *w) { return kb_length_ns(w->start_ns, w->end_ns); }
static inline int64_t ka_slice_ns(const ka_slice *s)
{
    return kb_length_ns(s->start_ns, s->end_ns);
}
/** The innermost operator that encloses a slice; KA_NONE: none, or more calls lie in between than nest
 *  in a program. */
static inline uint32_t ka_operator_around(const ka_dataset *s, uint32_t slice)
{
    uint32_t at = s->slices[slice].around;
    for (uint32_t left = 64; at != KA_NONE && s->slices[at].kind != KINETO_KIND_CPU_OP; left--)
        at = left ? s->slices[at].around : KA_NONE;
    return at;
}
static inline kineto_string ka_name(const ka_dataset *s, uint32_t name)
{
    return kineto_trace_string(s->trace, name);
}
/** Can the call not have waited for what it launched? So it is with copies and memsets whose call is
 *  Async, unless they move pageable memory: copies within a device or between devices, and from and to
 *  pinned memory, as far as their names say so. */
bool ka_never_waits(const ka_dataset *s, uint32_t slice);
/** Is a row of this name one of the steps, chosen or not? */
bool ka_is_step_row(const ka_dataset *s, kineto_row row, uint32_t name);
static inline bool ka_is_step(const ka_dataset *s, uint32_t slice)
{
    return ka_is_step_row(s, s->slices[slice].row, s->slices[slice].name);
}
/** For qsort_r, of indexes of slices, which are the context: by start and row; the other one by
 *  start, the longer first, and row. */
int ka_compare_starts(const void *left, const void *right, void *slices);
int ka_compare_slices(const void *left, const void *right, void *slices);
/** Sums of times that come from files. */
static inline int64_t ka_add_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? (b > 0 ? INT64_MAX : INT64_MIN) : sum;
}
static inline double ka_us(int64_t ns) { return (double)ns / 1000; }
static inline double ka_percent(double part, double whole)
{
    return whole ? 100 * part / whole : 0;
}

/* ---- for functions that fill a dataset (ka_definitions.fill_dataset) ---- */
typedef struct ka_dataset_memory {
    KB_VEC(ka_work) work;
    KB_VEC(ka_slice) slices;
    KB_VEC(ka_stream) streams;
    KB_VEC(ka_thread) threads;
    KB_VEC(ka_step) steps;
    KB_VEC(uint32_t) by_time, launched;
    kt_step_list step_rows;
    ka_class *class_of;
    pthread_mutex_t lock; /* of what follows: made when it is first needed */
    struct ka_view *view;
    uint32_t view_parts;
    bool no_memory;
} ka_dataset_memory;
/** Put a row behind the others: its name and kind are the trace's, a slice's depth its parent's and
 *  one. False: out of memory. */
bool ka_dataset_put_work(ka_dataset_memory *m, const kineto_trace *trace, ka_work w);
bool ka_dataset_put_slice(ka_dataset_memory *m, const kineto_trace *trace, ka_slice s);
/** For qsort, of ka_step: by start and slice. */
int ka_compare_steps(const void *left, const void *right);
/** ka_definitions.fill_dataset of the exact definitions. */
kineto_status ka_dataset_fill(ka_dataset *s, kineto_error *err);
/* ---- streams.c ---- */
/** Is the stream among those that were asked for? */
bool ka_stream_wanted(const kineto_analyze_options *options, int64_t id);
/** Says so, if the trace has streams and none of those that were asked for; else nothing. `streams`
 *  may be NULL: all. False: out of memory. */
bool ka_streams_missing(const kineto_trace *t, const char *streams, int64_t rank, char *text,
                        size_t size);
/* ---- spans.c: sets of moments ---- */
typedef struct ka_span {
    int64_t start_ns, end_ns;
} ka_span;
typedef KB_VEC(ka_span) ka_spans; /* sorted, disjoint, not touching once united */
/** Sort and unite, in place. */
void ka_spans_unite(ka_spans *spans);
int64_t ka_spans_ns(const ka_spans *spans);
/** What is in both; in `a` but not in `b`. False: out of memory. `out` is emptied before. */
bool ka_spans_both(const ka_spans *a, const ka_spans *b, ka_spans *out);
bool ka_spans_without(const ka_spans *a, const ka_spans *b, ka_spans *out);
/** How much of [start, end) is in united spans; `cursor` (first 0) makes rising queries linear. */
int64_t ka_spans_within(const ka_spans *spans, int64_t start_ns, int64_t end_ns, size_t *cursor);

/* ---- dtype.c ---- */
/** A type of elements; 0 bytes: it is not known. */
typedef struct ka_dtype {
    uint8_t bytes, precision;
} ka_dtype;
/** By what traces call it: "c10::BFloat16", "BFloat16", "torch.bfloat16"; in quotes or not. */
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

/** count, sum, max, min, mean and deviation of durations that have something in common. */
typedef struct ka_tally_ns {
    uint64_t count;
    int64_t sum_ns, min_ns, max_ns;
    double mean, m2; /* running, in us (Welford) */
} ka_tally_ns;
void ka_tally_ns_add(ka_tally_ns *t, int64_t ns);
/** Cells count, sum, max, min, mean and deviation. */
void ka_put_tally(ka_table *t, const ka_tally_ns *tally);
#endif
