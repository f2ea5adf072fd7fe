/* Writes protocol buffers. Lengths take as few bytes as possible: a message begins with one byte
 * for its length and is moved if it needs more, so equal data gives equal bytes. */
#include "export/proto.h"

#define FIRST_BYTES 4096u

void ke_proto_free(ke_proto *p)
{
    free(p->data);
    *p = (ke_proto){0};
}

/* Grows geometrically, from FIRST_BYTES on, so that the cost per byte is constant. */
bool ke_proto_grow(ke_proto *p, size_t bytes)
{
    void *data = p->data;
    bool ok = !p->failed && bytes <= SIZE_MAX / 2 - p->count &&
              kb_vec_grow(&data, &p->capacity, KB_MAX(p->count + bytes, (size_t)FIRST_BYTES), 1);
    if (ok)
        p->data = data;
    p->failed |= !ok;
    return ok;
}

void ke_proto_flush(ke_proto *p, kb_sink *sink)
{
    if (!p->failed)
        kb_sink_write(sink, p->data, p->count);
    p->count = 0;
}

/* Field number and wire type precede every value. */
static void put_proto_tag(ke_proto *p, uint32_t field, uint32_t wire)
{
    ke_proto_item(p, (uint64_t)field << 3 | wire);
}

void ke_proto_fixed64(ke_proto *p, uint32_t field, uint64_t v)
{
    put_proto_tag(p, field, KE_WIRE_FIXED64);
    if (!ke_proto_reserve(p, sizeof v))
        return;
    for (size_t i = 0; i < sizeof v; i++)
        p->data[p->count++] = (char)(v >> 8 * i);
}

void ke_proto_double(ke_proto *p, uint32_t field, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    ke_proto_fixed64(p, field, bits);
}

/* Appends raw bytes; nothing if memory runs out. */
static void put_proto_bytes(ke_proto *p, const char *data, size_t bytes)
{
    if (bytes == 0 || !ke_proto_reserve(p, bytes))
        return;
    memcpy(p->data + p->count, data, bytes);
    p->count += bytes;
}

void ke_proto_bytes(ke_proto *p, uint32_t field, kineto_string s)
{
    put_proto_tag(p, field, KE_WIRE_BYTES);
    ke_proto_item(p, s.size);
    put_proto_bytes(p, s.data, s.size);
}

/* Valid texts are the common case and are copied in one piece. */
void ke_proto_string(ke_proto *p, uint32_t field, kineto_string s)
{
    if (KINETO_LIKELY(kb_utf8_valid_prefix(s.data, s.size) == s.size)) {
        ke_proto_bytes(p, field, s);
        return;
    }
    size_t mark = ke_proto_begin(p, field);
    for (kineto_string piece; (piece = kb_utf8_next(&s, &p->replaced)).size;)
        put_proto_bytes(p, piece.data, piece.size);
    ke_proto_end(p, mark);
}

size_t ke_proto_begin(ke_proto *p, uint32_t field)
{
    put_proto_tag(p, field, KE_WIRE_BYTES);
    ke_proto_item(p, 0);
    return p->count;
}

/* Moves the message by the bytes that its length needs beyond the one that was reserved. */
void ke_proto_end(ke_proto *p, size_t mark)
{
    char length[10];
    if (p->failed)
        return;
    KB_ASSERT(mark > 0 && mark <= p->count);
    size_t bytes = p->count - mark;
    size_t need = (size_t)(ke_proto_put_varint(length, bytes) - length);
    if (bytes > UINT32_MAX) { /* beyond the limit of readers */
        p->failed = true;
        return;
    }
    if (need > 1) {
        if (!ke_proto_reserve(p, need - 1))
            return;
        memmove(p->data + mark + need - 1, p->data + mark, bytes);
        p->count += need - 1;
    }
    memcpy(p->data + mark - 1, length, need);
}
