/* The part of a record that makes it an operator (KF_FUNCTION_… in format.h): checking, opening,
 * and walking its inputs. record/function.c and function_part.c are the writers. Untrusted like the
 * rest. */
#include "format/decode.h"

/* Words that `count` sizes or strides take. */
static uint32_t count_dim_words(uint32_t flags, uint32_t count)
{
    return flags & KF_INPUT_SMALL ? (count + 3) / 4 : count;
}

/* The members that are in an input's own word. */
static void unpack_input_word(uint64_t word, kf_input_item *item)
{
    *item = (kf_input_item){.type = (uint32_t)(word & 0xff),
                            .flags = (uint32_t)(word >> 8 & 0xff),
                            .count = (uint32_t)(word >> 16 & 0xffff),
                            .dtype = (uint32_t)(word >> 32 & 0xff),
                            .device_type = (uint32_t)(word >> 40 & 0xff),
                            .device_index = (int16_t)(uint16_t)(word >> 48)};
}

/* Words after the item's own word. A list of tensors has none: its tensors are items of their
 * own. */
static uint32_t count_input_words(const kf_input_item *item)
{
    switch (item->type) {
    case KINETO_INPUT_TENSOR:
        return count_dim_words(item->flags, item->count) *
                   (item->flags & KF_INPUT_STRIDES ? 2u : 1u) +
               (item->flags & KF_INPUT_IDS ? 3u : 0u);
    case KINETO_INPUT_INT:
    case KINETO_INPUT_DOUBLE:
    case KINETO_INPUT_BOOL:
        return item->flags & KF_INPUT_NOT_RECORDED ? 0 : 1;
    case KINETO_INPUT_INTS:
    case KINETO_INPUT_DOUBLES:
    case KINETO_INPUT_BOOLS:
        return item->flags & KF_INPUT_NOT_RECORDED ? 0 : item->count;
    default:
        return 0;
    }
}

bool kf_input_next(const uint64_t **at, const uint64_t *end, kf_input_item *item)
{
    if (*at >= end)
        return false;
    unpack_input_word(*(*at)++, item);
    uint32_t words = count_input_words(item);
    if ((size_t)(end - *at) < words || item->type >= KINETO_INPUT_TYPE_COUNT)
        return false;
    if (item->type == KINETO_INPUT_TENSOR) {
        uint32_t dims = count_dim_words(item->flags, item->count);
        item->sizes = *at;
        item->strides = item->flags & KF_INPUT_STRIDES ? *at + dims : NULL;
        item->ids = item->flags & KF_INPUT_IDS ? *at + words - 3 : NULL;
    } else if (words) {
        item->values = *at;
    }
    *at += words;
    return true;
}

int64_t kf_input_size(const kf_input_item *item, const uint64_t *words, uint32_t k)
{
    if (item->flags & KF_INPUT_SMALL)
        return (int64_t)(words[k / 4] >> (k % 4 * 16) & 0xffff);
    return (int64_t)words[k];
}

_Static_assert(KF_FUNCTION_SEQUENCE == 1 && KF_FUNCTION_FORWARD == 2 && KF_FUNCTION_DEBUG == 4,
               "the parts of one word each");
static uint32_t count_fixed_words(uint32_t parts)
{
    return 1 + (parts & 1) + (parts >> 1 & 1) + (parts >> 2 & 1);
}

/* The counted lists between the fixed parts and the inputs. */
typedef struct lists {
    const uint64_t *stack, *args, *inputs;
    uint32_t stack_count, arg_words;
} lists;

/* Read a count and that many words if `present`. False: it runs over the end. */
KB_INLINE bool read_counted_list(const uint64_t **at, const uint64_t *end, bool present,
                                 const uint64_t **items, uint32_t *count)
{
    *items = NULL;
    *count = 0;
    if (!present)
        return true;
    if (*at >= end || **at > (size_t)(end - *at) - 1)
        return false;
    *count = (uint32_t) * *at;
    *items = *at + 1;
    *at = *items + *count;
    return true;
}

/* Find the counted lists and the inputs of a part of `count` words. False: malformed. */
KB_INLINE bool split_function_part(const uint64_t *words, uint32_t count, lists *out)
{
    uint32_t parts = (uint32_t)(words[0] & 0xfff), fixed = count_fixed_words(parts);
    const uint64_t *at = words + fixed, *end = words + count;
    if (fixed > count ||
        !read_counted_list(&at, end, parts & KF_FUNCTION_STACK, &out->stack, &out->stack_count) ||
        !read_counted_list(&at, end, parts & KF_FUNCTION_ARGS, &out->args, &out->arg_words))
        return false;
    out->inputs = at;
    return true;
}

uint32_t kf_function_check(const uint64_t *words, uint32_t count)
{
    lists l;
    uint32_t own = count ? kf_function_words(words[0]) : 0;
    bool fine = own != 0 && own <= count && split_function_part(words, own, &l) &&
                (!l.args || kf_loose_args_valid(l.args, l.arg_words));
    return fine ? own : 0;
}

static uint64_t read_fixed_word(const uint64_t **at, uint32_t parts, uint32_t bit, uint64_t absent)
{
    return parts & bit ? *(*at)++ : absent;
}

kf_function kf_function_read(const uint64_t *words)
{
    lists l = {0};
    uint32_t own = kf_function_words(words[0]);
    (void)split_function_part(words, own, &l);
    KB_ASSERT(l.inputs && l.inputs <= words + own); /* kf_function_check has accepted it */
    kf_function f = {.parts = (uint32_t)(words[0] & 0xfff),
                     .input_count = (uint32_t)(words[0] >> 12 & 0xfff),
                     .thread = (uint32_t)(words[0] >> 40),
                     .inputs = l.inputs,
                     .input_words = (uint32_t)(words + own - l.inputs),
                     .stack = l.stack,
                     .stack_count = l.stack_count,
                     .args = l.args,
                     .arg_words = l.arg_words};
    const uint64_t *at = words + 1;
    f.sequence = (int64_t)read_fixed_word(&at, f.parts, KF_FUNCTION_SEQUENCE, UINT64_MAX);
    f.forward_thread = read_fixed_word(&at, f.parts, KF_FUNCTION_FORWARD, 0);
    f.debug_handle = (int64_t)read_fixed_word(&at, f.parts, KF_FUNCTION_DEBUG, UINT64_MAX);
    return f;
}
