/* The part of a record that makes it an operator: inputs, numbers of the autograd graph, args by
 * name. Layout: KF_FUNCTION_… in format.h. This is the general writer; function.c has a fast one
 * for frequent inputs. Writers return the end, or NULL when it would pass `limit`; the caller then
 * discards the record. */
#include "record/function.h"

/* ---- inputs ---------------------------------------------------------------------------------- */

/* Sizes or strides: a word each, or if `small` four to a word. The caller has checked the room. */
static uint64_t *write_dims(uint64_t *at, const int64_t *from, uint32_t count, bool small)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!small)
            *at++ = (uint64_t)from[i];
        else if (i % 4 == 0)
            at[i / 4] = (uint64_t)from[i];
        else
            at[i / 4] |= (uint64_t)from[i] << (i % 4 * 16);
    }
    return small ? at + (count + 3) / 4 : at;
}

static bool are_dims_small(const int64_t *from, uint32_t count)
{
    uint64_t all = 0;
    for (uint32_t i = 0; i < count; i++)
        all |= (uint64_t)from[i];
    return all <= 0xffff;
}

/* Are its strides, if any, those that follow from its sizes? Then they are not recorded. */
static bool is_tensor_contiguous(const kineto_tensor *t)
{
    uint64_t step = 1;
    for (uint32_t i = t->rank; t->strides && i-- > 0;) {
        if ((uint64_t)t->strides[i] != step)
            return false;
        step *= t->sizes[i] > 1 ? (uint64_t)t->sizes[i] : 1;
    }
    return true;
}

static uint64_t *write_tensor(uint64_t *at, const uint64_t *limit, const kineto_tensor *t,
                              uint32_t wants)
{
    uint32_t flags = 0, rank = t ? t->rank : 0;
    if (rank > KF_MAX_RANK || !kr_fits(at, limit, 4 + 2 * (size_t)rank))
        return NULL;
    uint64_t *head = at++;
    *head = kf_input_word(KINETO_INPUT_OTHER, 0, 0);
    if (!t)
        return at;
    bool strided = !is_tensor_contiguous(t);
    bool small = are_dims_small(t->sizes, rank) && (!strided || are_dims_small(t->strides, rank));
    flags |= (small ? KF_INPUT_SMALL : 0) | (strided ? KF_INPUT_STRIDES : 0);
    at = write_dims(at, t->sizes, rank, small);
    if (strided)
        at = write_dims(at, t->strides, rank, small);
    if (wants & KF_WANT_IDS) {
        flags |= KF_INPUT_IDS;
        *at++ = t->id;
        *at++ = t->storage_id;
        *at++ = (uint64_t)t->storage_offset;
    }
    *head = kr_tensor_word(t, flags);
    return at;
}

static uint64_t *write_tensor_list(uint64_t *at, const uint64_t *limit, const kineto_input *input,
                                   uint32_t wants)
{
    uint32_t count = input->tensor ? input->count : 0;
    if (!kr_fits(at, limit, 1))
        return NULL;
    bool recorded = count <= KF_MAX_INPUTS;
    *at++ =
        kf_input_word(KINETO_INPUT_TENSORS, recorded ? 0 : KF_INPUT_NOT_RECORDED, recorded ? count : 0);
    for (uint32_t i = 0; recorded && i < count && at; i++)
        at = write_tensor(at, limit, &input->tensor[i], wants);
    return at;
}

/* Longest list whose items are recorded, as in PyTorch. */
#define LIST_MAX 30u

static uint64_t *write_scalar_list(uint64_t *at, const uint64_t *limit, const kineto_input *input,
                                   uint32_t wants)
{
    bool recorded =
        (wants & KF_WANT_VALUES) && input->count <= LIST_MAX && (input->ints || !input->count);
    uint32_t count = recorded ? input->count : 0;
    if (!kr_fits(at, limit, 1 + (size_t)count))
        return NULL;
    *at++ = kf_input_word(input->type, recorded ? 0 : KF_INPUT_NOT_RECORDED, count);
    for (uint32_t i = 0; i < count; i++) {
        double d = input->type == KINETO_INPUT_DOUBLES ? input->doubles[i] : 0;
        memcpy(at, &d, sizeof d);
        if (input->type == KINETO_INPUT_INTS)
            *at = (uint64_t)input->ints[i];
        else if (input->type == KINETO_INPUT_BOOLS)
            *at = input->bools[i];
        at++;
    }
    return at;
}

static uint64_t *write_other_input(uint64_t *at, const uint64_t *limit, const kineto_input *input,
                                   uint32_t wants)
{
    switch (input->type) {
    case KINETO_INPUT_TENSORS:
        return write_tensor_list(at, limit, input, wants);
    case KINETO_INPUT_INTS:
    case KINETO_INPUT_DOUBLES:
    case KINETO_INPUT_BOOLS:
        return write_scalar_list(at, limit, input, wants);
    case KINETO_INPUT_INT:
    case KINETO_INPUT_DOUBLE:
    case KINETO_INPUT_BOOL:
        if (!kr_fits(at, limit, 2))
            return NULL;
        *at++ = kf_input_word(input->type, wants & KF_WANT_VALUES ? 0 : KF_INPUT_NOT_RECORDED, 0);
        if (wants & KF_WANT_VALUES)
            *at++ = input->type == KINETO_INPUT_BOOL ? input->u != 0 : input->u;
        return at;
    default:
        if (!kr_fits(at, limit, 1))
            return NULL;
        *at++ = kf_input_word(
            input->type < KINETO_INPUT_TYPE_COUNT ? input->type : KINETO_INPUT_OTHER, 0, 0);
        return at;
    }
}

uint64_t *kr_inputs_write(uint64_t *at, const uint64_t *limit, const kineto_input *inputs,
                          uint32_t count, uint32_t wants)
{
    for (uint32_t i = 0; i < count && at; i++) {
        if (KINETO_LIKELY(inputs[i].type == KINETO_INPUT_TENSOR))
            at = write_tensor(at, limit, inputs[i].tensor, wants);
        else
            at = write_other_input(at, limit, &inputs[i], wants);
    }
    return at;
}

/* ---- args by name ---------------------------------------------------------------------------- */

/* String id of an arg's name; 0: the dictionary is full (counted). The caller then omits the arg,
 * since the next chunk would not help. */
static uint32_t intern_arg_name(const char *key) { return kr_intern(key, strlen(key)); }

static uint64_t *write_loose_word(uint64_t *at, const uint64_t *limit, const char *key,
                                  uint32_t type, uint64_t value)
{
    uint32_t id = intern_arg_name(key);
    if (!id)
        return at;
    if (!kr_fits(at, limit, 2))
        return NULL;
    *at++ = kf_loose_word(id, type, 0);
    *at++ = value;
    return at;
}

uint64_t *kr_loose_int_write(uint64_t *at, const uint64_t *limit, const char *key, int64_t value)
{
    return write_loose_word(at, limit, key, KINETO_ARG_INT, (uint64_t)value);
}

uint64_t *kr_loose_text_write(uint64_t *at, const uint64_t *limit, const char *key,
                              const char *text)
{
    uint32_t id = text && text[0] ? intern_arg_name(key) : 0;
    if (!id)
        return at;
    if (!kr_fits(at, limit, 2))
        return NULL;
    *at++ = kf_loose_word(id, KINETO_ARG_STRING, 0);
    return kr_string_write(at, limit, text);
}

static uint64_t *write_keyword(uint64_t *at, const uint64_t *limit, const kineto_keyword *k)
{
    static const uint8_t types[KINETO_INPUT_TYPE_COUNT] = {
        [KINETO_INPUT_INT] = KINETO_ARG_INT,       [KINETO_INPUT_DOUBLE] = KINETO_ARG_DOUBLE,
        [KINETO_INPUT_BOOL] = KINETO_ARG_BOOL,     [KINETO_INPUT_INTS] = KINETO_ARG_INTS,
        [KINETO_INPUT_STRING] = KINETO_ARG_STRING,
    };
    const kineto_input *v = &k->value;
    uint32_t type = v->type < KINETO_INPUT_TYPE_COUNT ? types[v->type] : 0;
    bool listed = type == KINETO_ARG_STRING || type == KINETO_ARG_INTS;
    if (!type || !k->name)
        return at;
    if (!listed)
        return write_loose_word(at, limit, k->name, type,
                                type == KINETO_ARG_BOOL ? v->u != 0 : v->u);
    uint32_t id = intern_arg_name(k->name);
    if (!id)
        return at;
    if (!kr_fits(at, limit, 2))
        return NULL;
    *at++ = kf_loose_word(id, type, 0);
    return type == KINETO_ARG_STRING ? kr_string_write(at, limit, v->s)
                                     : kr_ints_write(at, limit, v->ints, v->ints ? v->count : 0);
}

/* Args by name: the count of their words, then the words. The caller has checked the first word. */
static uint64_t *write_operator_args(uint64_t *at, const uint64_t *limit,
                                     const kineto_function_info *info, uint32_t wants)
{
    uint64_t *count = at++;
    if (wants & KF_WANT_TEXTS)
        at = kr_loose_text_write(at, limit, "Call stack", info->stack);
    if (at && (wants & KF_WANT_TEXTS))
        at = kr_loose_text_write(at, limit, "Module Hierarchy", info->modules);
    for (uint32_t i = 0; at && (wants & KF_WANT_INPUTS) && i < info->keyword_count; i++)
        at = write_keyword(at, limit, &info->keywords[i]);
    if (at)
        *count = (uint64_t)(at - count - 1);
    return at;
}

/* ---- the part of an operator ----------------------------------------------------------------- */

typedef struct part_head {
    uint32_t parts, count;
} part_head;

/* Everything between the head and the inputs; sets the KF_FUNCTION_… bits of what it wrote. The
 * caller has checked PART_MIN words. */
static uint64_t *write_optional_parts(uint64_t *at, const uint64_t *limit, const kr_operator *op,
                                      uint32_t wants, part_head *head)
{
    const kineto_function_info *info = &op->info;
    if (info->sequence_number >= 0) {
        head->parts |= KF_FUNCTION_SEQUENCE;
        *at++ = (uint64_t)info->sequence_number;
    }
    if (info->forward_thread_id) {
        head->parts |= KF_FUNCTION_FORWARD;
        *at++ = info->forward_thread_id;
    }
    if (info->debug_handle != -1) {
        head->parts |= KF_FUNCTION_DEBUG;
        *at++ = (uint64_t)info->debug_handle;
    }
    if (op->stack_count) {
        if (!kr_fits(at, limit, 1 + (size_t)op->stack_count))
            return NULL;
        head->parts |= KF_FUNCTION_STACK;
        *at++ = op->stack_count;
        memcpy(at, op->stack, op->stack_count * sizeof *at);
        at += op->stack_count;
    }
    if ((info->stack || info->modules || info->keyword_count) && kr_fits(at, limit, 1)) {
        head->parts |= KF_FUNCTION_ARGS;
        at = write_operator_args(at, limit, info, wants);
    }
    return at;
}

#define PART_MIN 5u /* the head, and what write_optional_parts writes without checking the room */

static part_head make_part_head(const kineto_input *inputs, size_t count, uint32_t wants)
{
    part_head head = {0, 0};
    if ((wants & KF_WANT_INPUTS) && inputs) {
        head.count = (uint32_t)KB_MIN(count, (size_t)KF_MAX_INPUTS);
        head.parts = KF_FUNCTION_INPUTS | (wants & KF_WANT_VALUES ? KF_FUNCTION_VALUES : 0) |
                     (wants & KF_WANT_IDS ? KF_FUNCTION_IDS : 0) |
                     (count > KF_MAX_INPUTS ? KF_FUNCTION_CUT : 0);
    }
    return head;
}

uint64_t *kr_part_write(kr_cursor *c, uint64_t *at, const uint64_t *limit, const kr_operator *op,
                        uint32_t wants)
{
    const kineto_function_info *info = &op->info;
    if (!kr_fits(at, limit, PART_MIN))
        return NULL;
    part_head head = make_part_head(info->inputs, info->input_count, wants);
    uint64_t *end = write_optional_parts(at + 1, limit, op, wants, &head);
    if (end)
        end = kr_inputs_write(end, limit, info->inputs, head.count, wants);
    KB_ASSERT(!end || (end > at && end <= limit && end - at <= 0xffff));
    if (end)
        *at = kf_function_word(head.parts, head.count, (uint32_t)(end - at), kr_thread_number(c));
    return end;
}

/* ---- counters -------------------------------------------------------------------------------- */

/* The share of the time in which the counters counted; in the rest another user had them. */
static uint64_t *write_counted_share(uint64_t *at, const uint64_t *limit,
                                     const kr_perf_values *values)
{
    double share = (double)values->counted_ns / (double)values->wanted_ns;
    uint64_t bits;
    memcpy(&bits, &share, sizeof bits);
    return write_loose_word(at, limit, "counted share", KINETO_ARG_DOUBLE, bits);
}

uint64_t *kr_counters_write(uint64_t *at, const uint64_t *limit, const kr_perf_plan *plan,
                            const kr_perf_values *values)
{
    for (uint32_t i = 0; i < plan->count && at; i++) {
        const char *name = kr_perf_name(plan, i);
        if (name)
            at = write_loose_word(at, limit, name, KINETO_ARG_UINT, values->value[i]);
    }
    return at && values->counted_ns < values->wanted_ns ? write_counted_share(at, limit, values)
                                                        : at;
}
