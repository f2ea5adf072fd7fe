/* The text of an operator's range in the format of PyTorch (getNvtxStr in
 * torch/csrc/profiler/util.cpp), written into a buffer of fixed size on the hot path of
 * emission. */
#include "profiler/emit.h"

typedef struct range_text {
    char *at, *end; /* one byte after `end` is reserved for the NUL */
    bool full;
} range_text;

/* Appends the part of `s` that fits, cut between UTF-8 sequences, and ends the text: all later
 * appends do nothing. */
static KB_COLD void append_cut(range_text *t, const char *s, size_t size)
{
    size_t room = (size_t)(t->end - t->at);
    if (size > room)
        for (size = room; size > 0 && ((unsigned char)s[size] & 0xc0) == 0x80;)
            size--;
    if (size > 0)
        memcpy(t->at, s, size);
    t->at += size;
    t->end = t->at;
    t->full = true;
}

KB_INLINE void append_bytes(range_text *t, const char *s, size_t size)
{
    if (KINETO_UNLIKELY(size > (size_t)(t->end - t->at))) {
        append_cut(t, s, size);
        return;
    }
    memcpy(t->at, s, size);
    t->at += size;
}
KB_INLINE void append_chars(range_text *t, const char *s) { append_bytes(t, s, strlen(s)); }

/* A number is written whole or not at all: a part of it would be another number. */
static void append_digits(range_text *t, const char *digits, const char *end)
{
    size_t size = (size_t)(end - digits);
    if (size <= (size_t)(t->end - t->at))
        append_bytes(t, digits, size);
    else
        append_cut(t, "", 0);
}
/* Formats in place if there is room for any number. */
static void append_int(range_text *t, int64_t v)
{
    char digits[24];
    if ((size_t)(t->end - t->at) >= sizeof digits)
        t->at = kb_json_format_int(t->at, v);
    else
        append_digits(t, digits, kb_json_format_int(digits, v));
}
static void append_uint(range_text *t, uint64_t v)
{
    char digits[24];
    if ((size_t)(t->end - t->at) >= sizeof digits)
        t->at = kb_json_format_uint(t->at, v);
    else
        append_digits(t, digits, kb_json_format_uint(digits, v));
}

/* The sizes of one tensor as "[2, 3]"; a missing tensor is "[]". */
static void append_tensor_sizes(range_text *t, const kineto_tensor *tensor, bool *first)
{
    append_chars(t, *first ? "[" : ", [");
    *first = false;
    for (uint32_t i = 0; tensor && tensor->sizes && i < tensor->rank && !t->full; i++) {
        if (i > 0)
            append_chars(t, ", ");
        append_int(t, tensor->sizes[i]);
    }
    append_chars(t, "]");
}

static void append_all_sizes(range_text *t, const kp_range_info *info)
{
    bool first = true;
    append_chars(t, ", sizes = [");
    for (uint32_t i = 0; i < info->input_count && !t->full; i++) {
        const kineto_input *in = &info->inputs[i];
        bool is_list = in->type == KINETO_INPUT_TENSORS && in->count > 0 && in->tensor;
        if (!is_list)
            append_tensor_sizes(t, in->type == KINETO_INPUT_TENSOR ? in->tensor : NULL, &first);
        for (uint32_t k = 0; is_list && k < in->count && !t->full; k++)
            append_tensor_sizes(t, &in->tensor[k], &first);
    }
    append_chars(t, "]");
}

static void append_producers(range_text *t, const kp_range_info *info)
{
    append_chars(t, ", input_op_ids = [");
    for (uint32_t i = 0; i < info->producer_count && !t->full; i++) {
        append_chars(t, i > 0 ? ", (" : "(");
        append_uint(t, info->producers[i].op_id);
        append_chars(t, ",");
        append_int(t, info->producers[i].output);
        append_chars(t, ")");
    }
    append_chars(t, "]");
}

size_t kp_range_text(char *out, size_t bytes, const kp_range_info *info)
{
    if (bytes == 0)
        return 0;
    range_text t = {out, out + bytes - 1, false};
    append_chars(&t, info->name ? info->name : "");
    if (info->sequence_number >= 0) {
        append_chars(&t, ", seq = ");
        append_int(&t, info->sequence_number);
    }
    if (info->op_id > 0) {
        append_chars(&t, ", op_id = ");
        append_uint(&t, info->op_id);
    }
    if (info->inputs && info->input_count > 0)
        append_all_sizes(&t, info);
    if (info->producers && info->producer_count > 0)
        append_producers(&t, info);
    KB_ASSERT(t.at >= out && t.at <= t.end);
    *t.at = '\0';
    return (size_t)(t.at - out);
}
