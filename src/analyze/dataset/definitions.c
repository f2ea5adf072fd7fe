/* The exact definitions: all of the trace, in nanoseconds, by this library's own formulas. */
#include "analyze/dataset/definitions.h"

#include "analyze/dataset/attribution.h"

const ka_definitions ka_exact_definitions = {
    .usual_steps = KINETO_STEPS_ALL,
    .fill_dataset = ka_dataset_fill,
    .fill_attribution = ka_attribution_fill,
    .is_eligible = ka_is_eligible,
    .no_operator_name = "",
    .shortest_copy_ns = 1,
    .diff_table = KA_TABLE_COUNT,
};
