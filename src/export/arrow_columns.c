/* Columns of Arrow's layout, growing row by row. */
#include "export/arrow.h"

void ke_arrow_column_free(ke_arrow_column *c)
{
    kb_vec_free(&c->values);
    kb_vec_free(&c->offsets);
    kb_vec_free(&c->validity);
    *c = (ke_arrow_column){.count = 0};
}

static bool append(ke_text *v, const void *data, size_t bytes)
{
    if (bytes > SIZE_MAX / 2 - v->count || !kb_vec_reserve(v, v->count + bytes))
        return false;
    if (bytes > 0)
        memcpy(v->data + v->count, data, bytes);
    v->count += bytes;
    return true;
}

/* Note whether the row at `count` has a value. Bits exist from the first null on. */
static bool note(ke_arrow_column *c, bool valid)
{
    size_t bytes = (size_t)c->count / 8 + 1;
    if (!c->validity.data && valid)
        return true;
    if (!kb_vec_reserve(&c->validity, bytes))
        return false;
    size_t old = c->validity.count;
    if (old == 0 && bytes > 0) { /* all before had one */
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

static void finish_row(ke_arrow_batch *b, ke_arrow_column *c, bool ok, bool valid)
{
    ok = ok && note(c, valid);
    b->failed |= !ok;
    c->count++;
    c->nulls += !valid;
}

void ke_arrow_put_bytes(ke_arrow_batch *b, uint32_t column, const void *value, size_t bytes)
{
    ke_arrow_column *c = &b->columns[column];
    finish_row(b, c, append(&c->values, value, bytes), true);
}

static bool append_bit(ke_arrow_column *c, bool value)
{
    char none = 0;
    if (c->count % 8 == 0 && !append(&c->values, &none, 1))
        return false;
    char *byte = &c->values.data[c->values.count - 1];
    *byte = (char)(*byte | (int)value << c->count % 8);
    return true;
}

void ke_arrow_put_bool(ke_arrow_batch *b, uint32_t column, bool value)
{
    ke_arrow_column *c = &b->columns[column];
    finish_row(b, c, !b->failed && append_bit(c, value), true);
}

static bool append_valid(ke_arrow_column *c, kineto_string s)
{
    bool ok = true;
    for (kineto_string piece; ok && (piece = kb_utf8_next(&s, NULL)).size;)
        ok = append(&c->values, piece.data, piece.size);
    return ok;
}

static bool append_offset(ke_arrow_column *c, bool wide)
{
    int64_t offset = (int64_t)c->values.count;
    int32_t narrow = (int32_t)offset;
    if (wide)
        return append(&c->offsets, &offset, sizeof offset);
    return offset <= INT32_MAX && append(&c->offsets, &narrow, sizeof narrow);
}

bool ke_arrow_append_text(ke_arrow_column *c, kineto_string text, bool wide)
{
    if (c->offsets.count == 0 && !append_offset(c, wide))
        return false;
    return append_valid(c, text) && append_offset(c, wide);
}

static bool is_wide(const ke_arrow_batch *b, uint32_t column)
{
    return b->shared->table->columns[column].format[0] == 'U';
}

void ke_arrow_put_text(ke_arrow_batch *b, uint32_t column, kineto_string text)
{
    ke_arrow_column *c = &b->columns[column];
    finish_row(b, c, ke_arrow_append_text(c, text, is_wide(b, column)), true);
}

static size_t width_of(char format)
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
                   : append(&c->values, zeros, width_of(format));
    finish_row(b, c, ok, false);
}

void ke_arrow_borrow(ke_arrow_batch *b, uint32_t column, const void *values, int64_t count)
{
    b->columns[column].borrowed = values;
    b->columns[column].count = count;
}
