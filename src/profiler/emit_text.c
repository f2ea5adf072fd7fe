/* What a range of an operator is called, in the words of PyTorch. */
#include "profiler/emit.h"

typedef struct text {
    char *at, *end; /* one byte behind is kept for the NUL */
    bool full;
} text;

/* What does not fit is left out, and all that would come after it. */
static KB_COLD void put_cut(text *t, const char *s, size_t size)
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

KB_INLINE void put(text *t, const char *s, size_t size)
{
    if (KINETO_UNLIKELY(size > (size_t)(t->end - t->at))) {
        put_cut(t, s, size);
        return;
    }
    memcpy(t->at, s, size);
    t->at += size;
}
KB_INLINE void put_z(text *t, const char *s) { put(t, s, strlen(s)); }

/* A number is shown whole or not at all: half of it would be another one. */
static void put_digits(text *t, const char *digits, const char *end)
{
    size_t size = (size_t)(end - digits);
    if (size <= (size_t)(t->end - t->at))
        put(t, digits, size);
    else
        put_cut(t, "", 0);
}
static void put_int(text *t, int64_t v)
{
    char digits[24];
    if ((size_t)(t->end - t->at) >= sizeof digits)
        t->at = kb_json_format_int(t->at, v);
    else
        put_digits(t, digits, kb_json_format_int(digits, v));
}
static void put_uint(text *t, uint64_t v)
{
    char digits[24];
    if ((size_t)(t->end - t->at) >= sizeof digits)
        t->at = kb_json_format_uint(t->at, v);
    else
        put_digits(t, digits, kb_json_format_uint(digits, v));
}

static void put_sizes(text *t, const kineto_tensor *tensor, bool *first)
{
    put_z(t, *first ? "[" : ", [");
    *first = false;
    for (uint32_t i = 0; tensor && tensor->sizes && i < tensor->rank && !t->full; i++) {
        if (i > 0)
            put_z(t, ", ");
        put_int(t, tensor->sizes[i]);
    }
    put_z(t, "]");
}

static void put_all_sizes(text *t, const kp_range_info *info)
{
    bool first = true;
    put_z(t, ", sizes = [");
    for (uint32_t i = 0; i < info->input_count && !t->full; i++) {
        const kineto_input *in = &info->inputs[i];
        bool is_list = in->type == KINETO_INPUT_TENSORS && in->count > 0 && in->tensor;
        if (!is_list)
            put_sizes(t, in->type == KINETO_INPUT_TENSOR ? in->tensor : NULL, &first);
        for (uint32_t k = 0; is_list && k < in->count && !t->full; k++)
            put_sizes(t, &in->tensor[k], &first);
    }
    put_z(t, "]");
}

static void put_producers(text *t, const kp_range_info *info)
{
    put_z(t, ", input_op_ids = [");
    for (uint32_t i = 0; i < info->producer_count && !t->full; i++) {
        put_z(t, i > 0 ? ", (" : "(");
        put_uint(t, info->producers[i].op_id);
        put_z(t, ",");
        put_int(t, info->producers[i].output);
        put_z(t, ")");
    }
    put_z(t, "]");
}

size_t kp_range_text(char *out, size_t bytes, const kp_range_info *info)
{
    if (bytes == 0)
        return 0;
    text t = {out, out + bytes - 1, false};
    put_z(&t, info->name ? info->name : "");
    if (info->sequence_number >= 0) {
        put_z(&t, ", seq = ");
        put_int(&t, info->sequence_number);
    }
    if (info->op_id > 0) {
        put_z(&t, ", op_id = ");
        put_uint(&t, info->op_id);
    }
    if (info->inputs && info->input_count > 0)
        put_all_sizes(&t, info);
    if (info->producers && info->producer_count > 0)
        put_producers(&t, info);
    *t.at = '\0';
    return (size_t)(t.at - out);
}
