/* A writer of protocol buffers: messages grow in memory and go to a sink when they are complete. */
#ifndef KE_PROTO_H
#define KE_PROTO_H

#include "base/base.h"

/* Zero-initialised. After a failed allocation all calls are ignored: check `failed` at the end. */
typedef struct ke_proto {
    char *data;
    size_t count, capacity;
    uint64_t replaced; /* invalid UTF-8 sequences in texts that became U+FFFD */
    bool failed;       /* out of memory, or a message of 4 GiB and more */
} ke_proto;

enum { KE_WIRE_VARINT = 0, KE_WIRE_FIXED64 = 1, KE_WIRE_BYTES = 2, KE_WIRE_FIXED32 = 5 };

void ke_proto_free(ke_proto *p);
/** Makes room for `bytes` more. False: out of memory. */
bool ke_proto_grow(ke_proto *p, size_t bytes);
/** Writes the buffer to the sink and clears it. No message may be open. */
void ke_proto_flush(ke_proto *p, kb_sink *sink);

KB_INLINE bool ke_proto_reserve(ke_proto *p, size_t bytes)
{
    return KINETO_LIKELY(bytes <= p->capacity - p->count) || ke_proto_grow(p, bytes);
}
/** Writes a varint of at most 10 bytes; returns its end. */
KB_INLINE char *ke_proto_put_varint(char *out, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *out++ = (char)(v | 0x80);
    *out++ = (char)v;
    return out;
}
/** A varint without a field: an item of a packed list. */
KB_INLINE void ke_proto_item(ke_proto *p, uint64_t v)
{
    if (ke_proto_reserve(p, 10))
        p->count = (size_t)(ke_proto_put_varint(p->data + p->count, v) - p->data);
}
KB_INLINE void ke_proto_uint(ke_proto *p, uint32_t field, uint64_t v)
{
    if (!ke_proto_reserve(p, 20))
        return;
    char *out = ke_proto_put_varint(p->data + p->count, (uint64_t)field << 3 | KE_WIRE_VARINT);
    p->count = (size_t)(ke_proto_put_varint(out, v) - p->data);
}
/** int64, int32, enum: negative ones take ten bytes. */
KB_INLINE void ke_proto_int(ke_proto *p, uint32_t field, int64_t v)
{
    ke_proto_uint(p, field, (uint64_t)v);
}
KB_INLINE void ke_proto_bool(ke_proto *p, uint32_t field, bool v) { ke_proto_uint(p, field, v); }
/** fixed64 or sfixed64. */
void ke_proto_fixed64(ke_proto *p, uint32_t field, uint64_t v);
void ke_proto_double(ke_proto *p, uint32_t field, double v);
/** Bytes, unchanged. */
void ke_proto_bytes(ke_proto *p, uint32_t field, kineto_string s);
/** A string. Bytes that are not UTF-8 are replaced and counted. */
void ke_proto_string(ke_proto *p, uint32_t field, kineto_string s);
/** Begins a message within this one, or a packed list; ke_proto_end ends it. They nest.
 *  @return the mark for ke_proto_end. */
size_t ke_proto_begin(ke_proto *p, uint32_t field);
void ke_proto_end(ke_proto *p, size_t mark);
#endif
