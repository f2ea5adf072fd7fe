/* FLOPs of operators: the table of known operators with their formulas, and the computation for
 * rows of a trace. docs/reference/summaries.md describes the formulas. All of this is pure but the registry of
 * functions that users add, which has a lock of its own. */
#ifndef KA_FLOPS_H
#define KA_FLOPS_H

#include "base/base.h"
#include <ckineto/flops.h>
#include <ckineto/trace.h>

/* ---- the table (flops_rules.c) --------------------------------------------------------------- */

/* Inputs that a formula may refer to. */
#define KA_FLOPS_ARGS     6
#define KA_FLOPS_NO_INPUT (-1) /* the operator has no such input */
/* One operator of the table. */
typedef struct ka_flops_rule {
    const char *name;
    bool (*count)(const struct ka_flops_rule *rule, const kineto_flops_inputs *in, uint64_t *flops);
    int8_t at[KA_FLOPS_ARGS]; /* input indices; each formula defines their meaning */
} ka_flops_rule;

/* The rule of exactly this name; NULL: none. */
const ka_flops_rule *ka_flops_rule_find(kineto_string name);
/* All rules, in order of their names. */
const ka_flops_rule *ka_flops_rules(size_t *count);

/* ---- common functions of formulas (flops_math.c) --------------------------------------------- */

/* Input `index`; NULL if the call has no such input or it is not a single tensor. */
const kineto_flops_input *ka_flops_tensor(const kineto_flops_inputs *in, int index);
/* a * b, saturated to UINT64_MAX. */
uint64_t ka_flops_multiply(uint64_t a, uint64_t b);
/* Product of sizes; false if one is negative. */
bool ka_flops_product(const int64_t *dims, uint32_t count, uint64_t *product);
/* Number of elements of the shape that two shapes broadcast to; false if they are incompatible. */
bool ka_flops_broadcast(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank,
                        uint64_t *elements);
/* Whole numbers of a text "[1, 2]", "3", "[True, False]"; false if the text has another form or
 * more than `limit` numbers. */
bool ka_flops_numbers(kineto_string text, int64_t *values, uint32_t limit, uint32_t *count);

/* Formulas of convolutions (flops_conv.c). */
bool ka_flops_conv(const ka_flops_rule *rule, const kineto_flops_inputs *in, uint64_t *flops);
bool ka_flops_conv_backward(const ka_flops_rule *rule, const kineto_flops_inputs *in,
                            uint64_t *flops);

/* For flops_context.c: index of the weight of a forward convolution that is never transposed; -1:
 * the rule is another one. */
int ka_flops_forward_weight(const ka_flops_rule *rule);
/* True for the gradient of a weight that is given only by its sizes. */
bool ka_flops_lacks_weight(const ka_flops_rule *rule);
/* Input indices of a backward convolution: the gradient of the output, the input and the weight;
 * -1: it has none, or the rule is not a backward convolution. */
typedef struct ka_flops_backward_inputs {
    int gradient, input, weight;
    bool may_be_transposed;
} ka_flops_backward_inputs;
ka_flops_backward_inputs ka_flops_backward_inputs_of(const ka_flops_rule *rule);
/* A rule that counts one gradient from these inputs. */
ka_flops_rule ka_flops_gradient_rule(int gradient, int weight);

/* ---- rows of a trace (flops.c) --------------------------------------------------------------- */

typedef enum ka_flops_result {
    KA_FLOPS_UNKNOWN = 0,  /* neither the table nor the user knows the operator */
    KA_FLOPS_UNUSABLE = 1, /* its inputs are missing or do not suffice */
    KA_FLOPS_COUNTED = 2
} ka_flops_result;

/* Operations of a row's call, including those of its children; 0 unless COUNTED. threads: any. */
ka_flops_result ka_flops_row(const kineto_trace *trace, kineto_row row, uint64_t *flops);
static inline bool ka_flops(const kineto_trace *trace, kineto_row row, uint64_t *flops)
{
    return ka_flops_row(trace, row, flops) == KA_FLOPS_COUNTED;
}

/* Which data of a call its FLOPs depend on: nothing, because the operator is unknown; the sizes of
 * its inputs; sizes and values; or anything in the row, for functions that a user registered. */
typedef enum ka_flops_needs {
    KA_FLOPS_NEEDS_NOTHING,
    KA_FLOPS_NEEDS_SIZES,
    KA_FLOPS_NEEDS_VALUES,
    KA_FLOPS_NEEDS_ROW
} ka_flops_needs;
/* rule: NULL unless sizes are needed. threads: any. */
ka_flops_needs ka_flops_needs_of(kineto_string op, const ka_flops_rule **rule);
/* ka_flops_row for the JSON texts "Input Dims" and "Concrete Inputs" of a row, which may be empty.
 * threads: any. */
ka_flops_result ka_flops_texts(const ka_flops_rule *rule, kineto_string dims, kineto_string values,
                               uint64_t *flops);

/* Convolutions whose FLOPs follow only from other calls (flops_context.c): rows whose bit is set in
 * `unusable` get their number and lose the bit. False: out of memory. */
bool ka_flops_around(const kineto_trace *trace, uint64_t *flops, uint64_t *unusable);
#endif
