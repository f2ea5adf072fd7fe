/* Columns in Arrow's layout, which grow row by row: values, offsets of texts, and bitmaps of
 * validity. Errors set `failed` of the batch, which is checked once per batch. */
#include "export/arrow.h"

void ke_arrow_column_free(ke_arrow_column *c)
{
    kb_vec_free(&c->values);
    kb_vec_free(&c->offsets);
    kb_vec_free(&c->validity);
    *c = (ke_arrow_column){.count = 0};
}

/* False: out of memory, or larger than half of the address space. */
static bool append_column_bytes(ke_text *v, const void *data, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 - v->count || !kb_vec_reserve(v, v->count + bytes))
        return false;
    if (bytes > 0)
        memcpy(v->data + v->count, data, bytes);
    v->count += bytes;
    return true;
}

/* Sets the validity of row c->count. The bitmap exists only from the first null on; rows before are
 * valid. */
static bool set_validity_bit(ke_arrow_column *c, bool valid)
{
    size_t bytes = (size_t)c->count / 8 + 1;
    if (!c->validity.data && valid)
        return true;
    if (!kb_vec_reserve(&c->validity, bytes))
        return false;
    size_t old = c->validity.count;
    if (old == 0 && bytes > 0) { /* all rows before are valid */
        memset(c->validity.data, 0xff, bytes);
        c->validity.data[bytes - 1] = (char)((1u << c->count % 8) - 1);
    } else if (bytes > old) {
        c->validity.data[bytes - 1] = 0;
    }
    c->validity.count = bytes;
    if (valid)
        c->validity.data[bytes - 1] = (char)(c->validity.data[bytes - 1] | 1 << c->count % 8);
    return true;
}

static void finish_column_row(ke_arrow_batch *b, ke_arrow_column *c, bool ok, bool valid)
{
    ok = ok && set_validity_bit(c, valid);
    b->failed |= !ok;
    KB_ASSERT(c->nulls <= c->count);
    c->count++;
    c->nulls += !valid;
}

void ke_arrow_put_bytes(ke_arrow_batch *b, uint32_t column, const void *value, size_t bytes)
{
    KB_ASSERT(column < b->shared->table->column_count);
    ke_arrow_column *c = &b->columns[column];
    finish_column_row(b, c, append_column_bytes(&c->values, value, bytes), true);
}

/* Booleans are bits, least significant first. */
static bool append_column_bit(ke_arrow_column *c, bool value)
{
    char none = 0;
    if (c->count % 8 == 0 && !append_column_bytes(&c->values, &none, 1))
        return false;
    char *byte = &c->values.data[c->values.count - 1];
    *byte = (char)(*byte | (int)value << c->count % 8);
    return true;
}

void ke_arrow_put_bool(ke_arrow_batch *b, uint32_t column, bool value)
{
    ke_arrow_column *c = &b->columns[column];
    finish_column_row(b, c, !b->failed && append_column_bit(c, value), true);
}

/* Replaces invalid bytes by U+FFFD: Arrow's texts are UTF-8. */
static bool append_valid_utf8(ke_arrow_column *c, kineto_string s)
{
    bool ok = true;
    for (kineto_string piece; ok && (piece = kb_utf8_next(&s, NULL)).size;)
        ok = append_column_bytes(&c->values, piece.data, piece.size);
    return ok;
}

/* False: out of memory, or beyond 2 GiB with narrow offsets. */
static bool append_text_offset(ke_arrow_column *c, bool wide)
{
    int64_t offset = (int64_t)c->values.count;
    int32_t narrow = (int32_t)offset;
    if (wide)
        return append_column_bytes(&c->offsets, &offset, sizeof offset);
    return offset <= INT32_MAX && append_column_bytes(&c->offsets, &narrow, sizeof narrow);
}

bool ke_arrow_append_text(ke_arrow_column *c, kineto_string text, bool wide)
{
    if (c->offsets.count == 0 && !append_text_offset(c, wide))
        return false;
    return append_valid_utf8(c, text) && append_text_offset(c, wide);
}

static bool has_wide_offsets(const ke_arrow_batch *b, uint32_t column)
{
    return b->shared->table->columns[column].format[0] == 'U';
}

void ke_arrow_put_text(ke_arrow_batch *b, uint32_t column, kineto_string text)
{
    ke_arrow_column *c = &b->columns[column];
    finish_column_row(b, c, ke_arrow_append_text(c, text, has_wide_offsets(b, column)), true);
}

/* Bytes of a value by Arrow's format character. */
static size_t value_width(char format)
{
    switch (format) {
    case 'l':
    case 'L':
    case 'g':
        return 8;
    case 'i':
    case 'I':
        return 4;
    case 'S':
        return 2;
    default:
        return 1;
    }
}

void ke_arrow_put_null(ke_arrow_batch *b, uint32_t column)
{
    static const char zeros[8];
    ke_arrow_column *c = &b->columns[column];
    char format = b->shared->table->columns[column].format[0];
    bool text = format == 'u' || format == 'U';
    bool ok = text ? ke_arrow_append_text(c, (kineto_string){"", 0}, format == 'U')
                   : append_column_bytes(&c->values, zeros, value_width(format));
    finish_column_row(b, c, ok, false);
}

void ke_arrow_borrow(ke_arrow_batch *b, uint32_t column, const void *values, int64_t count)
{
    KB_ASSERT(column < b->shared->table->column_count && !b->columns[column].values.count);
    b->columns[column].borrowed = values;
    b->columns[column].count = count;
}
