/* FLOPs of convolutions whose own inputs do not suffice, derived from other calls. Before PyTorch
 * 2.1 traces have the sizes of inputs but no values. Then (1) the gradient of a weight has the
 * sizes of the weight only as values, but the enclosing call has the weight itself; (2) the sizes
 * of a convolution's output depend on stride, padding and dilation, but the backward call with the
 * same sequence number, input and weight has a gradient of exactly these sizes. */
#include "analyze/summary/flops.h"
#include "trace/bytes/json_value.h"
#include "trace/trace.h"

/* Value in `gradients` of a key for which there are gradients of different sizes. */
#define AMBIGUOUS      UINT64_MAX
#define MAX_SIZES_TEXT 200u /* bytes of the sizes of a tensor, as text */

/* The state of one pass over a trace. `listed`: `gradients` was filled, which happens when the
 * first row needs it. */
typedef struct conv_context {
    const kineto_trace *trace;
    uint64_t *flops, *unusable;
    kb_intern texts;
    kb_map gradients; /* by make_conv_key: id in `texts` of the sizes of the gradient */
    bool listed, no_memory;
} conv_context;

/* The arguments of a row that matter here: the sequence number, -1: none; id of the sizes, 0:
 * none. */
typedef struct row_args {
    int64_t sequence;
    uint32_t dims;
} row_args;

/* 0, the empty text, if out of memory, which sets no_memory. */
static uint32_t intern_text(conv_context *a, kineto_string text)
{
    uint32_t id = kb_intern_id(&a->texts, text);
    a->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

/* Sizes in one spelling, since those of different rows are compared. */
static uint32_t intern_sizes(conv_context *a, kineto_string raw)
{
    char *room = kt_text_room(2 * raw.size);
    a->no_memory |= !room;
    return room ? intern_text(a, (kineto_string){room, kt_sizes_text(raw, room)}) : 0;
}

static row_args read_row_args(conv_context *a, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    row_args s = {-1, 0};
    kineto_args_begin(a->trace, row, &it);
    while (kineto_args_next(&it, &arg)) {
        if (arg.type > KINETO_ARG_STRING && kb_string_equal(arg.key, kb_string("Input Dims")))
            s.dims = intern_sizes(a, arg.text);
        else if (kb_string_equal(arg.key, kb_string("Sequence number")) &&
                 !kt_arg_whole(&arg, &s.sequence))
            s.sequence = -1;
    }
    return s;
}

static kineto_string get_list_member(kineto_string list, int index)
{
    return index < 0 ? (kineto_string){"", 0} : kt_item_at(list, (uint32_t)index);
}

/* The key that a convolution and its backward have in common: process, sequence number, sizes of
 * the * input and of the weight. */
static uint64_t make_conv_key(const conv_context *a, kineto_row row, int64_t sequence,
                              kineto_string input, kineto_string weight)
{
    kineto_activity activity;
    kineto_track track;
    kineto_trace_get(a->trace, row, &activity);
    kineto_trace_track(a->trace, activity.track, &track);
    uint64_t key[] = {track.process, (uint64_t)sequence, kb_hash(input.data, input.size),
                      kb_hash(weight.data, weight.size)};
    return kb_hash(key, sizeof key);
}

/* Sets the number of a row, which is no longer unusable. */
static void set_row_flops(conv_context *a, kineto_row row, uint64_t flops)
{
    KB_ASSERT(a->unusable[row / 64] >> row % 64 & 1);
    a->flops[row] = flops;
    a->unusable[row / 64] &= ~(UINT64_C(1) << row % 64);
}

/* ---- gradients of outputs -------------------------------------------------------------------- */

/* Backward calls have no sequence number themselves: the enclosing node of the engine has it. */
#define MAX_ENCLOSING 4
static int64_t find_enclosing_sequence(conv_context *a, kineto_row row)
{
    for (int n = 0; n < MAX_ENCLOSING && row != KINETO_NO_ROW; n++) {
        row_args s = read_row_args(a, row);
        if (s.sequence >= 0)
            return s.sequence;
        row = kineto_trace_parent(a->trace, row);
    }
    return -1;
}

/* Adds the sizes of the output's gradient of one backward convolution. */
static void index_gradient(conv_context *a, kineto_row row, const ka_flops_rule *rule)
{
    ka_flops_backward_inputs at = ka_flops_backward_inputs_of(rule);
    kineto_string dims = kb_intern_get(&a->texts, read_row_args(a, row).dims),
                  sizes = get_list_member(dims, at.gradient);
    int64_t sequence =
        sizes.size > 2 && sizes.data[0] == '[' ? find_enclosing_sequence(a, row) : -1;
    bool created = false;
    if (sequence < 0)
        return;
    uint64_t key = make_conv_key(a, row, sequence, get_list_member(dims, at.input),
                                 get_list_member(dims, at.weight));
    uint32_t id = intern_text(a, sizes);
    uint64_t *known = kb_map_insert(&a->gradients, key, id, &created);
    a->no_memory |= !known;
    if (known && !created && *known != id)
        *known = AMBIGUOUS;
}

/* Finds all backward convolutions, by the id of their name. */
static void index_gradients(conv_context *a)
{
    KB_ASSERT(!a->listed);
    uint32_t names = kineto_trace_string_count(a->trace);
    const ka_flops_rule **rules = calloc((size_t)names + 1, sizeof *rules);
    a->listed = true;
    a->no_memory |= !rules;
    for (uint32_t i = 0; rules && i < names; i++) {
        (void)ka_flops_needs_of(kineto_trace_string(a->trace, i), &rules[i]);
        if (rules[i] && ka_flops_backward_inputs_of(rules[i]).input < 0)
            rules[i] = NULL;
    }
    for (uint32_t k = 0; rules && k < kt_block_count(a->trace) && !a->no_memory; k++) {
        const kt_block *block = kt_block_at(a->trace, k);
        for (uint32_t i = 0; i < block->count; i++)
            if (rules[block->name[i]])
                index_gradient(a, k * KT_BLOCK_ROWS + i, rules[block->name[i]]);
    }
    free(rules);
}

/* A forward convolution, counted as one gradient of it, which takes as many operations. That
 * formula checks that the sizes of output and weight fit together. */
static void count_forward(conv_context *a, kineto_row row, int weight)
{
    row_args s = read_row_args(a, row);
    if (!a->listed)
        index_gradients(a);
    if (s.sequence < 0 || !s.dims || a->no_memory)
        return;
    kineto_string dims = kb_intern_get(&a->texts, s.dims), kernel = get_list_member(dims, weight);
    uint64_t key = make_conv_key(a, row, s.sequence, get_list_member(dims, 0), kernel), flops;
    const uint64_t *id = kb_map_find(&a->gradients, key);
    if (!id || *id == AMBIGUOUS || kernel.size > MAX_SIZES_TEXT)
        return;
    kineto_string out = kb_intern_get(&a->texts, (uint32_t)*id);
    char text[2 * MAX_SIZES_TEXT + 8];
    int size = snprintf(text, sizeof text, "[%.*s, %.*s]", (int)KB_MIN(out.size, MAX_SIZES_TEXT),
                        out.data, (int)kernel.size, kernel.data);
    ka_flops_rule gradient = ka_flops_gradient_rule(0, 1);
    if (ka_flops_texts(&gradient, (kineto_string){text, (size_t)size}, (kineto_string){"", 0},
                       &flops) == KA_FLOPS_COUNTED)
        set_row_flops(a, row, flops);
}

/* ---- gradients of weights -------------------------------------------------------------------- */

/* The gradient of a weight, from the inputs of the call around it. */
static void count_backward(conv_context *a, kineto_row row)
{
    const ka_flops_rule *rule;
    kineto_activity outer;
    kineto_row parent = kineto_trace_parent(a->trace, row);
    uint64_t flops;
    if (parent == KINETO_NO_ROW)
        return;
    kineto_trace_get(a->trace, parent, &outer);
    (void)ka_flops_needs_of(outer.name, &rule);
    ka_flops_backward_inputs at =
        rule ? ka_flops_backward_inputs_of(rule) : (ka_flops_backward_inputs){-1, -1, -1, true};
    if (at.gradient < 0 || at.weight < 0 || at.may_be_transposed)
        return;
    ka_flops_rule one = ka_flops_gradient_rule(at.gradient, at.weight);
    kineto_string dims = kb_intern_get(&a->texts, read_row_args(a, parent).dims);
    if (ka_flops_texts(&one, dims, (kineto_string){"", 0}, &flops) == KA_FLOPS_COUNTED)
        set_row_flops(a, row, flops);
}

/* ---- all rows -------------------------------------------------------------------------------- */

/* Tries both ways for one row whose own inputs do not suffice. */
static void count_by_context(conv_context *a, kineto_row row)
{
    const kt_block *block = kt_block_at(a->trace, row / KT_BLOCK_ROWS);
    const ka_flops_rule *rule;
    (void)ka_flops_needs_of(kineto_trace_string(a->trace, block->name[row % KT_BLOCK_ROWS]), &rule);
    int weight = rule ? ka_flops_forward_weight(rule) : -1;
    if (weight >= 0)
        count_forward(a, row, weight);
    else if (rule && ka_flops_lacks_weight(rule))
        count_backward(a, row);
}

bool ka_flops_around(const kineto_trace *trace, uint64_t *flops, uint64_t *unusable)
{
    conv_context a = {.trace = trace, .flops = flops, .unusable = unusable};
    size_t words = ((size_t)kineto_trace_count(trace) + 63) / 64;
    (void)intern_text(&a, kb_string(""));
    for (size_t w = 0; w < words && !a.no_memory; w++)
        for (uint64_t bits = unusable[w]; bits && !a.no_memory; bits &= bits - 1)
            count_by_context(&a, (kineto_row)(w * 64 + (size_t)__builtin_ctzll(bits)));
    kb_intern_free(&a.texts);
    kb_map_free(&a.gradients);
    return !a.no_memory;
}
