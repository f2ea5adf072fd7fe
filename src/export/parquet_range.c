/* The smallest and largest values of pages and column chunks, by which readers skip what a query
 * cannot need. Long texts are cut: the smaller one stays a prefix, the larger one gets a higher last
 * character, so that all values are between them. */
#include "export/parquet_impl.h"

#define MAX_TEXT_BYTES 64u /* of a text in statistics */

/* Encoded values are of this machine's byte order, which is that of Parquet. */
static kineto_string encode_value(ke_parquet *w, const ke_parquet_column *c, int64_t value)
{
    size_t size = c->spec->type == KE_PARQUET_BOOL ? 1 : c->spec->type == KE_PARQUET_INT32 ? 4 : 8;
    char *copy = kb_arena_copy(&w->arena, &value, size);
    if (!copy)
        ke_parquet_fail_memory(w);
    return (kineto_string){copy, copy ? size : 0};
}

static double as_double(int64_t bits)
{
    double d;
    memcpy(&d, &bits, sizeof d);
    return d;
}

static int64_t as_bits(double d)
{
    int64_t bits;
    memcpy(&bits, &d, sizeof bits);
    return bits;
}

static void find_int_range(ke_parquet *w, const ke_parquet_column *c, const int64_t *values, size_t count,
                           ke_parquet_range *out)
{
    int64_t least = values[0], largest = values[0];
    for (size_t i = 1; i < count; i++) {
        least = KB_MIN(least, values[i]);
        largest = KB_MAX(largest, values[i]);
    }
    *out = (ke_parquet_range){true, true, true, encode_value(w, c, least), encode_value(w, c, largest)};
}

/* NaN is in no order, so that it is left out; zeros have both signs, as the format wants it. */
static void find_double_range(ke_parquet *w, const ke_parquet_column *c, const int64_t *values, size_t count,
                              ke_parquet_range *out)
{
    double least = 0, largest = 0;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        double d = as_double(values[i]);
        if (d != d)
            continue;
        least = any ? KB_MIN(least, d) : d;
        largest = any ? KB_MAX(largest, d) : d;
        any = true;
    }
    if (!any)
        return;
    least = least == 0 ? -0.0 : least;
    largest = largest == 0 ? 0.0 : largest;
    *out = (ke_parquet_range){true, true, true, encode_value(w, c, as_bits(least)),
                              encode_value(w, c, as_bits(largest))};
}

/* A text that is larger than all that begin like this one, as short as possible; the whole text if there is none. */
static kineto_string raise_prefix(ke_parquet *w, kineto_string text, bool *is_exact)
{
    size_t at = MAX_TEXT_BYTES;
    *is_exact = true;
    if (text.size <= MAX_TEXT_BYTES)
        return text;
    while (at > 0 && (unsigned char)text.data[at - 1] >= 0x7f)
        at--;
    if (!at)
        return text;
    char *copy = kb_arena_copy(&w->arena, text.data, at);
    if (!copy) {
        ke_parquet_fail_memory(w);
        return text;
    }
    copy[at - 1]++;
    *is_exact = false;
    return (kineto_string){copy, at};
}

static int compare_range_texts(kineto_string a, kineto_string b)
{
    size_t common = KB_MIN(a.size, b.size);
    int order = common ? memcmp(a.data, b.data, common) : 0;
    return order ? order : KB_COMPARE(a.size, b.size);
}

static kineto_string copy_text(ke_parquet *w, kineto_string text)
{
    char *copy = kb_arena_copy(&w->arena, text.data, text.size);
    if (!copy)
        ke_parquet_fail_memory(w);
    return (kineto_string){copy, copy ? text.size : 0};
}

static void find_text_range(ke_parquet *w, const ke_parquet_column *c, const int64_t *values, size_t count,
                            ke_parquet_range *out)
{
    int64_t least = values[0], largest = values[0], last = values[0];
    for (size_t i = 1; i < count; i++) {
        if (values[i] == last)
            continue;
        last = values[i];
        kineto_string text = kb_intern_get(&c->texts, (uint32_t)last);
        if (compare_range_texts(text, kb_intern_get(&c->texts, (uint32_t)least)) < 0)
            least = last;
        else if (compare_range_texts(text, kb_intern_get(&c->texts, (uint32_t)largest)) > 0)
            largest = last;
    }
    kineto_string min = kb_intern_get(&c->texts, (uint32_t)least);
    kineto_string cut = kb_utf8_cut(min, MAX_TEXT_BYTES);
    out->is_known = true;
    out->is_min_exact = cut.size == min.size;
    out->min = copy_text(w, cut);
    kineto_string max = raise_prefix(w, kb_intern_get(&c->texts, (uint32_t)largest), &out->is_max_exact);
    out->max = copy_text(w, max);
}

void ke_parquet_find_range(ke_parquet *w, const ke_parquet_column *c, const int64_t *values, size_t count,
                           ke_parquet_range *out)
{
    *out = (ke_parquet_range){0};
    if (!count || c->spec->type == KE_PARQUET_JSON)
        return;
    if (c->spec->type == KE_PARQUET_TEXT)
        find_text_range(w, c, values, count, out);
    else if (c->spec->type == KE_PARQUET_DOUBLE)
        find_double_range(w, c, values, count, out);
    else
        find_int_range(w, c, values, count, out);
}

static int64_t decode_value(kineto_string encoded)
{
    int64_t value = 0;
    int32_t narrow = 0;
    if (encoded.size == sizeof narrow) {
        memcpy(&narrow, encoded.data, sizeof narrow);
        return narrow;
    }
    memcpy(&value, encoded.data, KB_MIN(encoded.size, sizeof value));
    return value;
}

int ke_parquet_compare(const ke_parquet_column *c, kineto_string a, kineto_string b)
{
    if (c->spec->type == KE_PARQUET_TEXT)
        return compare_range_texts(a, b);
    int64_t one = decode_value(a), other = decode_value(b);
    if (c->spec->type == KE_PARQUET_DOUBLE)
        return KB_COMPARE(as_double(one), as_double(other));
    return KB_COMPARE(one, other);
}

void ke_parquet_widen_range(const ke_parquet_column *c, ke_parquet_range *range, const ke_parquet_range *more)
{
    if (!more->is_known)
        return;
    if (!range->is_known) {
        *range = *more;
        return;
    }
    if (ke_parquet_compare(c, more->min, range->min) < 0) {
        range->min = more->min;
        range->is_min_exact = more->is_min_exact;
    }
    if (ke_parquet_compare(c, more->max, range->max) > 0) {
        range->max = more->max;
        range->is_max_exact = more->is_max_exact;
    }
}
