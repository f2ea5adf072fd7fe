/* The sets of definitions, by kineto_definitions. */
#include "analyze/compat/compat.h"

static const ka_definitions hta_definitions = {
    .usual_steps = KINETO_STEPS_DROP_LAST,
    .fill_dataset = ka_hta_fill_dataset,
    .fill_attribution = ka_plugin_fill_attribution,
    .fills_all_parts = true,
    .is_eligible = ka_plugin_eligible,
    .type_of_work = ka_type_hta,
    .plain_step_names = true,
    .calls_of_shown_operators = true,
    .device_ranges_are_slices = true,

    .count_nested_calls = true,
    .operators_without_flops = true,
    .memory_of_all_steps = true,
    .operators_exclude_end = true,
    .shares_of_operators_only = true,
    .no_operator_name = "CallTreeRoot",
    .omit_other_work = true,
    .rows_without_time = true,
    .rows_by_name = true,

    .ignore_default_stream = true,
    .is_counted_launch = ka_hta_is_counted_launch,
    .is_kernel_launch = ka_hta_is_kernel_launch,
    .find_op_launches = ka_hta_find_op_launches,
    .first_work_only = true,
    .delay_from_call_start = true,
    .collect_queues = ka_hta_collect_queues,
    .sum_idle = ka_hta_sum_idle,

    .copy_label = ka_hta_copy_label,
    .reported_bandwidth_only = true,
    .shortest_copy_ns = 1000, /* HTA's clock: whole microseconds */
    .sort_copies = ka_hta_sort_copies,
    .keep_rounding = true,

    .attribute_annotations = ka_hta_attribute_annotations,
    .nest_calls = ka_hta_nest_calls,
    .visit_sequences = ka_hta_visit_sequences,
    .sequences_by_count = true,

    .collectives_by_order = true,
    .unite_collectives = true,
    .is_straggler_mark = ka_hta_is_straggler_mark,
    .score_stragglers = ka_hta_score_stragglers,
    .no_straggler_marks = "HolisticTraceAnalysis compares kernels named ncclKernel* (NCCL before 2.19) in steps from number 1 on, "
                          "and there are none; 'ckineto analyze --only rank_causes' compares all collectives",

    .instances_in_file_order = true,
    .events_need_record = true,
    .first_of_equal_paths = true,
    .leave_unexplained = true,
    .build_path = ka_hta_build_path,
    .path_classes = ka_hta_path_classes,
    .edge_types = ka_hta_edge_types,
    .path_class_count = KA_HTA_PATH_CLASS_COUNT,
    .edge_type_count = KA_HTA_EDGE_TYPE_COUNT,

    .compare_traces = ka_hta_compare_traces,
    .diff_table = KA_TABLE_diff_hta,
};

const ka_definitions *const ka_all_definitions[] = {
    [KINETO_DEFINITIONS_EXACT] = &ka_exact_definitions,
    [KINETO_DEFINITIONS_HTA] = &hta_definitions,
};
const uint32_t ka_definitions_count = KB_COUNT(ka_all_definitions);
