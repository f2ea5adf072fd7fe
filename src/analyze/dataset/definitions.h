/* In what sets of definitions differ: one constant structure for each set, chosen by
 * kineto_analysis_options.definitions and reached through ka_dataset.definitions.
 *
 * The exact definitions (ka_exact_definitions, dataset_fill.c) leave every policy false and every
 * function that may be NULL at NULL; then the analysis computes its own formula. Other sets, which
 * exist to be compared with other tools, are in analyze/compat. No analysis asks which set it has:
 * it asks for the policy it is about. */
#ifndef KA_DEFINITIONS_H
#define KA_DEFINITIONS_H

#include "analyze/classes/classes.h"
#include "analyze/tables/table.h"

#include <ckineto/diff.h>
#include <ckineto/trace.h>

struct ka_calls;
struct ka_dataset;
struct ka_path;
struct ka_slice;
struct ka_attribution;
struct ka_work;

/* ---- data that analyses and the functions of definitions exchange ---- */

/** A queue became longer (by 1: a launch) or shorter (by -1: work began). */
typedef struct ka_queue_change {
    int64_t ns;
    int32_t by;
} ka_queue_change;
typedef KB_VEC(ka_queue_change) ka_queue_changes;

/** A copy or fill begins or ends: how the bandwidth of its label changes. */
typedef struct ka_copy_change {
    int64_t ns;
    double by;      /* GB/s, which is bytes per nanosecond */
    uint32_t label; /* the analysis's */
    bool begins;
    kineto_row row;
} ka_copy_change;

/** A call that launched work, and the operator it belongs to: indexes of slices. */
typedef struct ka_op_launch {
    uint32_t op, call;
} ka_op_launch;
typedef KB_VEC(ka_op_launch) ka_op_launches;

/** Idle time of a stream by reason. A reason has a row if `any` is set, also with 0 ns. */
typedef enum ka_stream_idle_reason {
    KA_STREAM_IDLE_HOST_WAIT,
    KA_STREAM_IDLE_KERNEL_WAIT,
    KA_STREAM_IDLE_OTHER,
    KA_STREAM_IDLE_REASON_COUNT
} ka_stream_idle_reason;
typedef struct ka_stream_idle {
    int64_t ns[KA_STREAM_IDLE_REASON_COUNT], all_ns;
    bool any[KA_STREAM_IDLE_REASON_COUNT];
} ka_stream_idle;

/** A collective of a rank. */
typedef struct ka_straggler_mark {
    int64_t rank, stream, step, name, start_ns, dur_ns;
} ka_straggler_mark;
typedef struct ka_rank_score {
    int64_t rank;
    double score;
} ka_rank_score;
typedef struct ka_straggler_scores {
    KB_VEC(ka_straggler_mark) marks;
    KB_VEC(ka_rank_score) ranks; /* by rank */
    double mean_step_us;
    bool no_memory;
} ka_straggler_scores;

/** Does a slice match the operator whose sequences are wanted? */
typedef bool ka_slice_filter(void *context, const struct ka_slice *slice);
/** An operator with all slices under it, itself included, for which kernels form one sequence. */
typedef void ka_sequence_visitor(void *context, uint32_t op, const uint32_t *slices,
                                 uint32_t count);

typedef struct ka_definitions {
    /* ---- the dataset: never NULL ---- */
    /** What KINETO_STEPS_USUAL stands for. */
    uint32_t usual_steps;
    /** Fill steps, slices (without first_work, work_count), threads, work, streams. */
    kineto_status (*fill_dataset)(struct ka_dataset *s, kineto_error *err);
    /** Fill an attribution (attribution.h). With `fills_all_parts` all of it, whatever the parts. */
    bool (*fill_attribution)(struct ka_attribution *v, uint32_t parts);
    bool fills_all_parts;
    /** May kernels of an operator of this name use tensor cores? */
    bool (*is_eligible)(kineto_string op);
    /** Type of work by its name. NULL: by rules and kind (ka_classify). */
    ka_type (*type_of_work)(kineto_string name);
    /** Steps are ranges named ProfilerStep#N only, and what is left of a step that a profiler
     *  stopped in is one, too. */
    bool plain_step_names;
    /** Calls of operators are the operators shown in the tree, without their stacks. Otherwise they
     *  are the slices of kind cpu_op. */
    bool calls_of_shown_operators;
    /** Annotations of devices are slices. Otherwise they are rows of the tracks of streams. */
    bool device_ranges_are_slices;

    /* ---- operators, memory, kernels ---- */
    /** An operator that calls itself counts again: its inclusive time is in the sum twice. */
    bool count_nested_calls;
    bool operators_without_flops;
    /** Memory of all steps counts, whichever are selected. */
    bool memory_of_all_steps;
    /** Memory that is allocated when an operator ends is not that operator's. */
    bool operators_exclude_end;
    /** The share of tensor cores is that among kernels of known operators. */
    bool shares_of_operators_only;
    /** The operator of kernels that no operator launched. */
    const char *no_operator_name;
    /** Work of type KA_TYPE_OTHER has no rows. */
    bool omit_other_work;
    /** What took no time altogether has a row, too. */
    bool rows_without_time;
    /** Rows of kernels and annotations are in the order of names, not the longest first. */
    bool rows_by_name;

    /* ---- launches, queues, idle time ---- */
    /** Work on stream 0 does not belong to the call that launched it. */
    bool ignore_default_stream;
    /** Which calls, by name, launch_stats counts. NULL: all that launched work. */
    bool (*is_counted_launch)(kineto_string name);
    /** Which calls of a runtime launch a kernel. NULL: *Launch*Kernel*. */
    bool (*is_kernel_launch)(kineto_string name);
    /** Launches and the operators they belong to. NULL: the innermost operator around each. False:
     *  out of memory. */
    bool (*find_op_launches)(const struct ka_dataset *s, ka_op_launches *out);
    /** Of several works of a call only the first counts. */
    bool first_work_only;
    /** The delay of a launch begins when its call begins, not when it ends. */
    bool delay_from_call_start;
    /** Changes of each stream's queue, by stream, in the order they are counted in. NULL: by time.
     *  False: out of memory. */
    bool (*collect_queues)(const struct ka_dataset *s, ka_queue_changes *by_stream);
    /** Idle time by stream. NULL: since all earlier work had ended. False: out of memory. */
    bool (*sum_idle)(const struct ka_dataset *s, ka_stream_idle *by_stream);

    /* ---- bandwidth ---- */
    /** Label of a copy, a part of its name or a constant. NULL: the name before " (". */
    kineto_string (*copy_label)(kineto_string name);
    /** Copies move what their source reported; without a report nothing, but they still count. */
    bool reported_bandwidth_only;
    /** Work that took no time counts as this long. */
    int64_t shortest_copy_ns;
    /** Sort the changes that are summed up. NULL: by time, ends first. False: out of memory. */
    bool (*sort_copies)(ka_copy_change *changes, size_t count);
    /** What rounding left of a sum stays when no copy runs. */
    bool keep_rounding;

    /* ---- annotations, calls, sequences ---- */
    /** The annotation each work belongs to, as an index of slices (KA_NONE before). NULL: the
     *  innermost around its launch. False: out of memory. */
    bool (*attribute_annotations)(const struct ka_dataset *s, uint32_t *range_of_work);
    /** Fill order, end_of, parent, depth and count. NULL: as the dataset nests slices. False: out of
     *  memory. */
    bool (*nest_calls)(const struct ka_dataset *s, struct ka_calls *c);
    /** Visit the operators whose kernels form sequences. NULL: the outermost that match. False: out
     *  of memory. */
    bool (*visit_sequences)(const struct ka_dataset *s, ka_slice_filter *matches,
                            ka_sequence_visitor *visit, void *context);
    /** The sequences that came most often go first, not those with the most time. */
    bool sequences_by_count;

    /* ---- several ranks ---- */
    /** The n-th collective of one rank is the n-th of the others, whatever its step and name. */
    bool collectives_by_order;
    /** Times of collectives are the time that any of them ran, not sums of durations. */
    bool unite_collectives;
    /** Is work a collective that ranks are compared by? NULL: rank facts are compared (analyze/ranks). */
    bool (*is_straggler_mark)(const struct ka_dataset *s, const struct ka_work *w);
    /** Score the ranks that others waited for, drop and sort them. NULL: stragglers are causes of rank facts. */
    void (*score_stragglers)(ka_straggler_scores *scores);
    /** What is_straggler_mark asks for, as the note of a table without any. */
    const char *no_straggler_marks;

    /* ---- the critical path ---- */
    /** Instances of an annotation are in the order of the file, not of their starts. */
    bool instances_in_file_order;
    /** An event is waited for only if the call that recorded it is known. */
    bool events_need_record;
    /** Of several equally long paths the one whose edges were made first. */
    bool first_of_equal_paths;
    /** Moments without a cause stay without an edge. */
    bool leave_unexplained;
    /** Build and finish a path, of a graph of its own. NULL: what-if and overlay know the graph. */
    kineto_status (*build_path)(struct ka_path *p, kineto_error *err);
    /** Names of further classes and types of edges of such a graph, after the common ones. */
    const char *const *path_classes, *const *edge_types;
    uint32_t path_class_count, edge_type_count;

    /* ---- comparison of two traces ---- */
    /** Fill `diff_table`, the only table then. NULL: all tables of two traces that no other
     *  definitions have. */
    kineto_status (*compare_traces)(const kineto_trace *before, const kineto_trace *after,
                                    const kineto_diff_options *options, kineto_analysis *facts,
                                    kineto_error *err);
    ka_table_id diff_table;
} ka_definitions;

extern const ka_definitions ka_exact_definitions;

/* All sets, by kineto_definitions. Defined in analyze/compat, the only module that knows the others. */
extern const ka_definitions *const ka_all_definitions[];
extern const uint32_t ka_definitions_count;

static inline const ka_definitions *ka_definitions_of(uint32_t definitions)
{
    KB_ASSERT(definitions < ka_definitions_count);
    return ka_all_definitions[definitions];
}
#endif
