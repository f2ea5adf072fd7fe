/* Definitions of other tools, to compare results with theirs: HolisticTraceAnalysis 0.6.1 (HTA) and,
 * for what HTA does not have, the TensorBoard plug-in 0.4.3. They reproduce the tools' formulas with
 * those mistakes that are choices of definition; docs/reference/analyze.md lists the mistakes left out.
 *
 * Reached by KINETO_DEFINITIONS_HTA (--definitions hta) through ka_all_definitions (compat.c) alone:
 * no other module includes this folder, and no other module imitates a tool. */
#ifndef KA_COMPAT_H
#define KA_COMPAT_H

#include "analyze/dataset/attribution.h"
#include "analyze/facts/analyses.h"

/* ---- dataset_hta.c, tensorboard.c: what the tools keep of a trace ---- */
kineto_status ka_hta_fill_dataset(ka_dataset *s, kineto_error *err);
bool ka_plugin_fill_attribution(ka_attribution *v, uint32_t parts);

/* ---- names.c ---- */
/** What HTA takes work of a name for. */
ka_type ka_type_hta(kineto_string name);
kineto_string ka_hta_copy_label(kineto_string name);
/** Calls whose work stands in HTA's queues, in its tables and its critical path. */
bool ka_hta_counts_launch(kineto_string name);
/** Calls that HTA's table of launches counts, and its counters of operators. */
bool ka_hta_is_counted_launch(kineto_string name);
bool ka_hta_is_kernel_launch(kineto_string name);
/** Operators that the plug-in says may use tensor cores; kernels that it says do. */
bool ka_plugin_eligible(kineto_string op);
bool ka_plugin_tensor(kineto_string kernel);

/* ---- functions of ka_definitions: facts_hta.c, calls_hta.c, stragglers_hta.c, critical_hta.c,
 *      diff_hta.c ---- */
bool ka_hta_find_op_launches(const ka_dataset *s, ka_op_launches *out);
bool ka_hta_collect_queues(const ka_dataset *s, ka_queue_changes *by_stream);
bool ka_hta_sum_idle(const ka_dataset *s, ka_stream_idle *by_stream);
bool ka_hta_sort_copies(ka_copy_change *changes, size_t count);
bool ka_hta_attribute_annotations(const ka_dataset *s, uint32_t *range_of_work);
bool ka_hta_nest_calls(const ka_dataset *s, ka_calls *c);
bool ka_hta_visit_sequences(const ka_dataset *s, ka_slice_filter *matches,
                            ka_sequence_visitor *visit, void *context);
bool ka_hta_is_straggler_mark(const ka_dataset *s, const ka_work *w);
void ka_hta_score_stragglers(ka_straggler_scores *scores);
kineto_status ka_hta_build_path(struct ka_path *p, kineto_error *err);
#define KA_HTA_PATH_CLASS_COUNT 6
#define KA_HTA_EDGE_TYPE_COUNT  5
extern const char *const ka_hta_path_classes[KA_HTA_PATH_CLASS_COUNT];
extern const char *const ka_hta_edge_types[KA_HTA_EDGE_TYPE_COUNT];
kineto_status ka_hta_compare_traces(const kineto_trace *before, const kineto_trace *after,
                                    const kineto_diff_options *options, kineto_analysis *facts,
                                    kineto_error *err);
#endif
