/* Thrift's compact protocol, as far as Parquet's headers and footers need it. */
#include "export/parquet_impl.h"

void ke_bytes_put_low(ke_bytes *b, uint64_t value, size_t bytes)
{
    char low[8];
    for (size_t i = 0; i < bytes; i++)
        low[i] = (char)(value >> 8 * i & 0xff);
    ke_bytes_put(b, low, bytes);
}

void ke_bytes_put_varint(ke_bytes *b, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        ke_bytes_put_byte(b, (uint8_t)(value | 0x80));
    ke_bytes_put_byte(b, (uint8_t)value);
}

/* The type of a field, and its number as the difference to the field before it. */
static void put_field_header(ke_thrift *t, int16_t field, uint8_t type)
{
    int16_t *last = &t->last[t->depth];
    KB_ASSERT(field > *last && field - *last < 16);
    ke_bytes_put_byte(t->out, (uint8_t)((field - *last) << 4 | type));
    *last = field;
}

void ke_thrift_bool(ke_thrift *t, int16_t field, bool value)
{
    put_field_header(t, field, value ? 1 : 2);
}

void ke_thrift_i8(ke_thrift *t, int16_t field, int8_t value)
{
    put_field_header(t, field, 3);
    ke_bytes_put_byte(t->out, (uint8_t)value);
}

void ke_thrift_i32(ke_thrift *t, int16_t field, int32_t value)
{
    put_field_header(t, field, KE_THRIFT_I32);
    ke_bytes_put_varint(t->out, ke_zigzag(value));
}

void ke_thrift_i64(ke_thrift *t, int16_t field, int64_t value)
{
    put_field_header(t, field, KE_THRIFT_I64);
    ke_bytes_put_varint(t->out, ke_zigzag(value));
}

void ke_thrift_text(ke_thrift *t, int16_t field, kineto_string value)
{
    put_field_header(t, field, KE_THRIFT_BINARY);
    ke_thrift_item_text(t, value);
}

void ke_thrift_begin(ke_thrift *t, int16_t field)
{
    if (field)
        put_field_header(t, field, KE_THRIFT_STRUCT);
    KB_ASSERT(t->depth + 1 < KB_COUNT(t->last));
    t->last[++t->depth] = 0;
}

void ke_thrift_end(ke_thrift *t)
{
    KB_ASSERT(t->depth > 0);
    ke_bytes_put_byte(t->out, 0);
    t->depth--;
}

void ke_thrift_list(ke_thrift *t, int16_t field, uint8_t type, size_t count)
{
    put_field_header(t, field, KE_THRIFT_LIST);
    ke_bytes_put_byte(t->out, (uint8_t)(KB_MIN(count, (size_t)15) << 4 | type));
    if (count >= 15)
        ke_bytes_put_varint(t->out, count);
}

void ke_thrift_item_i32(ke_thrift *t, int32_t value) { ke_bytes_put_varint(t->out, ke_zigzag(value)); }
void ke_thrift_item_i64(ke_thrift *t, int64_t value) { ke_bytes_put_varint(t->out, ke_zigzag(value)); }

void ke_thrift_item_text(ke_thrift *t, kineto_string value)
{
    ke_bytes_put_varint(t->out, value.size);
    ke_bytes_put(t->out, value.data, value.size);
}
