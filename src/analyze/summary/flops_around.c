/* FLOPs of convolutions whose own inputs do not say enough, by what is around them.
 *
 * Before PyTorch 2.1 traces have sizes, but no values. Then
 * - the gradient of a weight knows the weight's sizes as numbers only: the call that it is in has
 * the weight itself;
 * - the output of a convolution has sizes that depend on stride, padding and dilation: the backward
 *   call of the same sequence number, input and weight gets a gradient of just these sizes. */
#include "analyze/summary/flops.h"
#include "trace/bytes/json_value.h"
#include "trace/trace.h"

#define AMBIGUOUS UINT64_MAX
#define MOST_TEXT 200u /* of the sizes of a tensor */

typedef struct around {
    const kineto_trace *trace;
    uint64_t *flops, *unusable;
    kb_intern texts;
    kb_map gradients; /* of process and sequence number: id of the text of its sizes */
    bool listed, no_memory;
} around;

/* What is asked of a row's arguments; 0 of `dims` is no text, -1 of `sequence` no number. */
typedef struct said {
    int64_t sequence;
    uint32_t dims;
} said;

static uint32_t keep(around *a, kineto_string text)
{
    uint32_t id = kb_intern_id(&a->texts, text);
    a->no_memory |= id == KB_INTERN_NONE;
    return id == KB_INTERN_NONE ? 0 : id;
}

/* In one spelling, since those of different rows are compared. */
static uint32_t keep_sizes(around *a, kineto_string raw)
{
    char *room = kt_text_room(2 * raw.size);
    a->no_memory |= !room;
    return room ? keep(a, (kineto_string){room, kt_sizes_text(raw, room)}) : 0;
}

static said said_of(around *a, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    said s = {-1, 0};
    kineto_args_begin(a->trace, row, &it);
    while (kineto_args_next(&it, &arg)) {
        if (arg.type > KINETO_ARG_STRING && kb_string_equal(arg.key, kb_string("Input Dims")))
            s.dims = keep_sizes(a, arg.text);
        else if (kb_string_equal(arg.key, kb_string("Sequence number")) &&
                 !kt_arg_whole(&arg, &s.sequence))
            s.sequence = -1;
    }
    return s;
}

static kineto_string member(kineto_string list, int index)
{
    return index < 0 ? (kineto_string){"", 0} : kt_item_at(list, (uint32_t)index);
}

/* A convolution and its backward: the same sequence number, sizes of the input and of the weight.
 */
static uint64_t key_of(const around *a, kineto_row row, int64_t sequence, kineto_string input,
                       kineto_string weight)
{
    kineto_activity activity;
    kineto_track track;
    kineto_trace_get(a->trace, row, &activity);
    kineto_trace_track(a->trace, activity.track, &track);
    uint64_t key[] = {track.process, (uint64_t)sequence, kb_hash(input.data, input.size),
                      kb_hash(weight.data, weight.size)};
    return kb_hash(key, sizeof key);
}

static void tell(around *a, kineto_row row, uint64_t flops)
{
    a->flops[row] = flops;
    a->unusable[row / 64] &= ~(UINT64_C(1) << row % 64);
}

/* ---- gradients of outputs -------------------------------------------------------------------- */

/* Backward calls have no sequence number themselves: the node that they are in has it. */
#define MOST_AROUND 4
static int64_t sequence_around(around *a, kineto_row row)
{
    for (int n = 0; n < MOST_AROUND && row != KINETO_NO_ROW; n++) {
        said s = said_of(a, row);
        if (s.sequence >= 0)
            return s.sequence;
        row = kineto_trace_parent(a->trace, row);
    }
    return -1;
}

static void list_gradient(around *a, kineto_row row, const ka_flops_rule *rule)
{
    ka_flops_backward_inputs at = ka_flops_backward_inputs_of(rule);
    kineto_string dims = kb_intern_get(&a->texts, said_of(a, row).dims),
                  sizes = member(dims, at.gradient);
    int64_t sequence = sizes.size > 2 && sizes.data[0] == '[' ? sequence_around(a, row) : -1;
    bool created = false;
    if (sequence < 0)
        return;
    uint64_t key = key_of(a, row, sequence, member(dims, at.input), member(dims, at.weight));
    uint32_t id = keep(a, sizes);
    uint64_t *known = kb_map_insert(&a->gradients, key, id, &created);
    a->no_memory |= !known;
    if (known && !created && *known != id)
        *known = AMBIGUOUS;
}

static void list_gradients(around *a)
{
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
                list_gradient(a, k * KT_BLOCK_ROWS + i, rules[block->name[i]]);
    }
    free(rules);
}

/* As if the output were convolved backwards, which takes as much: the formula checks that its sizes
 * and those of the weight fit together. */
static void forward(around *a, kineto_row row, int weight)
{
    said s = said_of(a, row);
    if (!a->listed)
        list_gradients(a);
    if (s.sequence < 0 || !s.dims || a->no_memory)
        return;
    kineto_string dims = kb_intern_get(&a->texts, s.dims), kernel = member(dims, weight);
    uint64_t key = key_of(a, row, s.sequence, member(dims, 0), kernel), flops;
    const uint64_t *id = kb_map_find(&a->gradients, key);
    if (!id || *id == AMBIGUOUS || kernel.size > MOST_TEXT)
        return;
    kineto_string out = kb_intern_get(&a->texts, (uint32_t)*id);
    char text[2 * MOST_TEXT + 8];
    int size = snprintf(text, sizeof text, "[%.*s, %.*s]", (int)KB_MIN(out.size, MOST_TEXT),
                        out.data, (int)kernel.size, kernel.data);
    ka_flops_rule gradient = ka_flops_gradient_rule(0, 1);
    if (ka_flops_texts(&gradient, (kineto_string){text, (size_t)size}, (kineto_string){"", 0},
                       &flops) == KA_FLOPS_COUNTED)
        tell(a, row, flops);
}

/* ---- gradients of weights -------------------------------------------------------------------- */

static void backward(around *a, kineto_row row)
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
    kineto_string dims = kb_intern_get(&a->texts, said_of(a, parent).dims);
    if (ka_flops_texts(&one, dims, (kineto_string){"", 0}, &flops) == KA_FLOPS_COUNTED)
        tell(a, row, flops);
}

/* ---- all rows -------------------------------------------------------------------------------- */

static void look_around(around *a, kineto_row row)
{
    const kt_block *block = kt_block_at(a->trace, row / KT_BLOCK_ROWS);
    const ka_flops_rule *rule;
    (void)ka_flops_needs_of(kineto_trace_string(a->trace, block->name[row % KT_BLOCK_ROWS]), &rule);
    int weight = rule ? ka_flops_forward_weight(rule) : -1;
    if (weight >= 0)
        forward(a, row, weight);
    else if (rule && ka_flops_lacks_weight(rule))
        backward(a, row);
}

bool ka_flops_around(const kineto_trace *trace, uint64_t *flops, uint64_t *unusable)
{
    around a = {.trace = trace, .flops = flops, .unusable = unusable};
    size_t words = ((size_t)kineto_trace_count(trace) + 63) / 64;
    (void)keep(&a, kb_string(""));
    for (size_t w = 0; w < words && !a.no_memory; w++)
        for (uint64_t bits = unusable[w]; bits && !a.no_memory; bits &= bits - 1)
            look_around(&a, (kineto_row)(w * 64 + (size_t)__builtin_ctzll(bits)));
    kb_intern_free(&a.texts);
    kb_map_free(&a.gradients);
    return !a.no_memory;
}
