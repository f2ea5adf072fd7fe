/* Common functions of the FLOPs formulas: shapes that come from files, and arithmetic that
 * saturates instead of wrapping around. */
#include "analyze/summary/flops.h"
#include "trace/bytes/json_text.h"

const kineto_flops_input *ka_flops_tensor(const kineto_flops_inputs *in, int index)
{
    if (index < 0 || (size_t)index >= in->count || !in->data[index].dims)
        return NULL;
    return &in->data[index];
}

uint64_t ka_flops_multiply(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool ka_flops_product(const int64_t *dims, uint32_t count, uint64_t *product)
{
    bool is_empty = false; /* a size of 0 makes 0, even if the others saturate */
    *product = 1;
    for (uint32_t i = 0; i < count; i++) {
        if (dims[i] < 0)
            return false;
        is_empty |= dims[i] == 0;
        *product = ka_flops_multiply(*product, (uint64_t)dims[i]);
    }
    if (is_empty)
        *product = 0;
    return true;
}

/* Size i counted from the right, of a shape that is padded with ones on the left. */
static int64_t size_from_right(const int64_t *dims, uint32_t rank, uint32_t i)
{
    return i < rank ? dims[rank - 1 - i] : 1;
}

bool ka_flops_broadcast(const int64_t *a, uint32_t a_rank, const int64_t *b, uint32_t b_rank,
                        uint64_t *elements)
{
    bool is_empty = false;
    *elements = 1;
    for (uint32_t i = 0; i < KB_MAX(a_rank, b_rank); i++) {
        int64_t x = size_from_right(a, a_rank, i), y = size_from_right(b, b_rank, i);
        if (x < 0 || y < 0 || (x != y && x != 1 && y != 1))
            return false;
        int64_t dim = x == 1 ? y : x;
        is_empty |= dim == 0;
        *elements = ka_flops_multiply(*elements, (uint64_t)dim);
    }
    if (is_empty)
        *elements = 0;
    return true;
}

static kineto_string trim_blanks(kineto_string s)
{
    while (s.size && (*s.data == ' ' || *s.data == '\t'))
        s.data++, s.size--;
    while (s.size && (s.data[s.size - 1] == ' ' || s.data[s.size - 1] == '\t'))
        s.size--;
    return s;
}

/* A whole number or a truth value, which PyTorch prints as Python or as C++ does. */
static bool parse_flops_number(kineto_string word, int64_t *value)
{
    static const char *const words[] = {"False", "True", "false", "true"};
    for (int i = 0; i < 4; i++) {
        if (kb_string_equal(word, kb_string(words[i]))) {
            *value = i & 1;
            return true;
        }
    }
    return word.size > 0 && kt_json_int(word, value);
}

bool ka_flops_numbers(kineto_string text, int64_t *values, uint32_t limit, uint32_t *count)
{
    *count = 0;
    text = trim_blanks(text);
    if (text.size >= 2 && text.data[0] == '[' && text.data[text.size - 1] == ']') {
        text = trim_blanks((kineto_string){text.data + 1, text.size - 2});
        if (!text.size)
            return true;
    }
    for (;;) {
        const char *comma = text.size ? memchr(text.data, ',', text.size) : NULL;
        size_t size = comma ? (size_t)(comma - text.data) : text.size;
        if (*count >= limit ||
            !parse_flops_number(trim_blanks((kineto_string){text.data, size}), values))
            return false;
        values++;
        ++*count;
        if (!comma)
            return true;
        text = (kineto_string){comma + 1, text.size - size - 1};
    }
}
