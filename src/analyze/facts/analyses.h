/* Analyses: which there are, what runs them, and what they share with one another. */
#ifndef KA_ANALYSES_H
#define KA_ANALYSES_H

#include "analyze/dataset/attribution.h"

/* ---- analyses and reductions, as tables.def declares them ------------------------------------ */
/** Fills the tables of its name that are wanted (ka_table_of) from one trace. Analyses run on
 * several threads at once; each table belongs to one of them. */
typedef kineto_status ka_analysis(const ka_dataset *s, kineto_analysis *a, kineto_error *err);
/** Computes a table from another one that has the rows of all ranks; again after each addition. */
typedef void ka_reduction(kineto_analysis *a);
#define ANALYSIS(name)          ka_analysis ka_analyze_##name;
#define REDUCTION(name, source) ka_reduction ka_reduce_##name;
#define DIFF
#define TABLE(id, made_by, ...) made_by
#include "analyze/tables/tables.def"
#undef ANALYSIS
#undef REDUCTION
#undef DIFF

/* Notes on `t` which ranks have no device activity, no rows in `marks` (its first column is
 * the rank), or several traces. Does nothing for fewer than two traces. */
void ka_note_ranks(const kineto_analysis *a, const ka_table *marks, ka_table *t);
/** rank_tables.c: the comparison of all ranks for a table that is made anew. NULL: it stays empty, with a note. */
const struct ka_rank_view *ka_compare_ranks_for(kineto_analysis *a, ka_table *t);
/** Notes why ranks, or those of different hosts, are not compared, and what durations alone show. Nothing if they are. */
void ka_note_refused(const struct ka_rank_view *v, ka_table *t);
/** The same for tables that need all rows. */
const struct ka_rank_view *ka_compare_rows_for(kineto_analysis *a, ka_table *t);
/** Note in tables of what hosts did that these activities, of no rank, are not in them. */
void ka_note_without_rank(kineto_analysis *a, uint64_t without);
/* ---- analysis.c: facts of many traces -------------------------------------------------------- */
/** Without rows; destroyed with kineto_analysis_destroy. */
kineto_status ka_facts_create(kineto_analysis **out, kineto_error *err);
/** From now on kineto_analysis_add does not run reductions: run again for each of N ranks they
 * would take N times as long. ka_facts_complete runs them once. */
void ka_facts_defer(kineto_analysis *a);
kineto_status ka_facts_complete(kineto_analysis *a, kineto_error *err);

/** Without rows, for facts that were computed before: these tables are wanted, or those of options->tables, and what they
 * are made of. */
kineto_status ka_facts_create_for(const kineto_analysis_options *options, ka_table_set tables, kineto_analysis **out,
                                  kineto_error *err);
/** The tables that are wanted. */
ka_table_set ka_wanted_tables(const kineto_analysis *a);
/** All tables that are made of others. */
ka_table_set ka_reduced_tables(void);
/** Tables that are made of others, all of which are in `of`. */
ka_table_set ka_reducible_tables(ka_table_set of);

/* ---- analysis.c: a dataset with its facts, for callers that need both ----------------------- */
typedef struct ka_measured {
    ka_rules *rules;
    kineto_analysis_options options;
    ka_dataset dataset;
    kineto_analysis *facts;
} ka_measured;
/** @param m  to be freed with ka_measured_free, also on failure. */
kineto_status ka_measure(const kineto_trace *trace, const kineto_analysis_options *options,
                         ka_measured *m, kineto_error *err);
/** The same with tables chosen by the caller, in addition to those of options->tables. Neither:
 * all that are not per event. */
kineto_status ka_measure_tables(const kineto_trace *trace, const kineto_analysis_options *options,
                                ka_table_set tables, ka_measured *m, kineto_error *err);
/** kineto_analysis_run with such a choice. */
kineto_status ka_analyze_tables(const kineto_trace *trace, const kineto_analysis_options *options,
                                ka_table_set tables, kineto_analysis **out, kineto_error *err);
void ka_measured_free(ka_measured *m);
/** Options with all members of this version, NULL too; refused if a choice is none. */
kineto_status ka_options_read(const kineto_analysis_options *options, kineto_analysis_options *out,
                              kineto_error *err);
/** The same, with what stands in place of 0. */
kineto_status ka_options_complete(const kineto_analysis_options *options,
                                  kineto_analysis_options *out, kineto_error *err);

/* ---- calls.c: the tree of calls of a dataset ------------------------------------------------- */
/** The tree: what encloses a range (nesting.c), or as definitions nest (nest_calls). Arrays are by
 * index of slices. */
typedef struct ka_calls {
    uint32_t count;   /* of `order` */
    uint32_t *order;  /* slices; what encloses another one on its thread comes before it */
    uint32_t *end_of; /* by place in `order`: first place after what it encloses on its thread */
    uint32_t *parent; /* slice; KA_NONE */
    uint32_t *depth, *height, *kernels;
    int64_t *kernel_ns;
} ka_calls;

/** False: out of memory. To be freed in any case. */
bool ka_calls_create(const ka_dataset *s, ka_calls *c);
void ka_calls_free(ka_calls *c);
/** Does it count as launched by its call? */
static inline bool ka_calls_have(const ka_dataset *s, const ka_work *w)
{
    return w->call != KA_NONE &&
           (!s->definitions->ignore_default_stream || s->streams[w->stream].id > 0);
}

/* ---- sequences.c: where sequences of kernels that come back are ------------------------------ */
/** One time that an operator launched a sequence. */
typedef struct ka_occurrence {
    uint32_t slice;    /* the operator */
    uint32_t sequence; /* 0: the one with the most time on the device */
    uint32_t kernels;
} ka_occurrence;
typedef KB_VEC(ka_occurrence) ka_occurrence_list;

/** Those of the sequences that the table shows. False: out of memory. */
bool ka_sequences_find(const ka_dataset *s, ka_occurrence_list *out);

/* ---- idle_breakdown.c ------------------------------------------------------------------------ */
/** Count a gap of `ns`. */
void ka_stream_idle_add(ka_stream_idle *sum, ka_stream_idle_reason why, int64_t ns);
/** The same; the reason is found by the call that launched the work after the gap (NULL: not
 * known). */
void ka_stream_idle_add_before(ka_stream_idle *sum, const ka_slice *call, int64_t from_ns,
                               int64_t ns);

/* ---- queue.c --------------------------------------------------------------------------------- */
/** How much work waits in a stream from a moment on. */
typedef void ka_queue_point(void *context, const ka_stream *stream, int64_t ns, int64_t length);
/** By exact definitions, one stream after the other. False: out of memory. */
bool ka_queue_points(const ka_dataset *s, ka_queue_point *point, void *context);

/* ---- step_statistics.c ----------------------------------------------------------------------- */
typedef struct ka_durations {
    double *us;     /* of the selected steps */
    uint32_t *step; /* index of steps of each … */
    int32_t *place; /* … and by that index: which it is; -1: left out */
    uint32_t count, warm_up;
    double median, mad; /* of those after the warm-up */
} ka_durations;
/** @param d        to be freed, also on failure (no memory).
 *  @param process  only its steps; KA_NONE: of all processes */
bool ka_durations_make(ka_durations *d, const ka_dataset *s, uint32_t process);
void ka_durations_free(ka_durations *d);

/* ---- kernels (gpu_summary.c, kernel_use.c) --------------------------------------------------- */
#define KA_NOT_RECORDED (-1.0)
typedef struct ka_kernel {
    const ka_attributed_work *work;
    double blocks, occupancy; /* KA_NOT_RECORDED */
    uint32_t launch;          /* id in `launches` */
} ka_kernel;
typedef struct ka_kernels {
    KB_VEC(ka_kernel) list; /* by start */
    kb_intern launches;     /* "grid|block|registers|shared memory" */
    bool any_blocks, any_occupancy;
} ka_kernels;
bool ka_put_kernel_use(const ka_attribution *v, const ka_kernels *kernels, ka_table *t);
bool ka_put_kernel_operators(const ka_attribution *v, const ka_kernels *kernels, ka_table *t);

/* ---- memory.c -------------------------------------------------------------------------------- */
/** "GPU0", "CPU": a device as memory events number it. */
kb_text ka_memory_device(int64_t type, int64_t index);
/** What follows that name, before the number of the process, where several have memory. */
#define KA_MEMORY_PROCESS ", process "

/* ---- roofline.c ------------------------------------------------------------------------------ */
/** FLOPs of operators less those of operators inside them, by slice; `own` must be zeroed. Needs a
 * view with KA_ATTRIBUTION_FLOPS. @param unusable  receives how many operators that have a
 * formula lack usable shapes. False: out of memory. */
bool ka_own_flops(const ka_dataset *s, const ka_operator_calls *in, uint64_t *own,
                  uint64_t *unusable);

/* ---- roofline_peaks.c: what devices can do at most, by name ---------------------------------- */
typedef struct ka_peaks {
    const char *words;                        /* NULL: the device is not in the table */
    double fp64, fp32, tf32, fp16, bf16, fp8; /* TFLOPS */
    double memory_gbps, link_gbps;
} ka_peaks;

/** By its name, else by the compute capability (major, minor) of a device of NVIDIA's. */
const ka_peaks *ka_peaks_of(kineto_string name, int64_t major, int64_t minor);
/** TFLOPS of a precision (ka_precision); 0: none known. */
double ka_peak_tflops(const ka_peaks *p, uint32_t precision);
/** By process: how many devices it used, of those whose launches are known. False: out of memory.
 */
bool ka_devices_by_process(const ka_dataset *s, uint32_t *devices);
/** Of the device that did most of the dataset's work; name may be empty. */
const ka_peaks *ka_peaks_of_dataset(const ka_dataset *s, kineto_string *name, uint32_t *devices);
#endif
