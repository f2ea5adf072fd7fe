/* Reading protocol buffers: the fields of one message after the other, in the order of the bytes. Nothing is
 * allocated and nothing recurses: a message inside is another walk over its bytes. A walk stops at the first
 * byte that is no field, and says so. */
#ifndef KT_WIRE_H
#define KT_WIRE_H

#include "base/base.h"

enum { KT_WIRE_VARINT = 0, KT_WIRE_FIXED64 = 1, KT_WIRE_BYTES = 2, KT_WIRE_FIXED32 = 5 };

/* A position in a message. */
typedef struct kt_wire {
    const uint8_t *at, *end;
    bool is_bad; /* what is at `at` is no field */
} kt_wire;

/* A field: its number, how it is written, and its value. A number that is signed or real has the same 64 bits. */
typedef struct kt_field {
    uint32_t id, wire;
    uint64_t n;          /* of numbers */
    kineto_string bytes; /* of KT_WIRE_BYTES */
} kt_field;

/** Begins a walk over the fields of a message. */
static inline kt_wire kt_wire_of(kineto_string message)
{
    const uint8_t *at = (const uint8_t *)(message.data ? message.data : "");
    return (kt_wire){at, at + message.size, false};
}

/** The number that follows; at most ten bytes. */
KB_INLINE bool kt_wire_varint(kt_wire *w, uint64_t *n)
{
    const uint8_t *at = w->at;
    uint64_t value = 0;
    if (KINETO_LIKELY(at < w->end && *at < 0x80)) {
        *n = *at;
        w->at = at + 1;
        return true;
    }
    for (uint32_t shift = 0; at < w->end && shift < 70; shift += 7) {
        uint8_t byte = *at++;
        value |= (uint64_t)(byte & 0x7f) << (shift & 63);
        if (byte < 0x80) {
            *n = value;
            w->at = at;
            return true;
        }
    }
    w->is_bad = true;
    return false;
}

/** The number of four or eight bytes that follows, the lowest byte first. */
static inline bool kt_wire_fixed(kt_wire *w, size_t size, uint64_t *n)
{
    *n = 0;
    w->is_bad = (size_t)(w->end - w->at) < size;
    for (size_t i = 0; !w->is_bad && i < size; i++)
        *n |= (uint64_t)w->at[i] << (8 * i);
    w->at += w->is_bad ? 0 : size;
    return !w->is_bad;
}

/** The next field. False: the message is over, or `is_bad`. */
KB_INLINE bool kt_wire_next(kt_wire *w, kt_field *f)
{
    const uint8_t *before = w->at;
    uint64_t tag, size = 0;
    if (w->at == w->end || w->is_bad || !kt_wire_varint(w, &tag))
        return false;
    f->id = (uint32_t)(tag >> 3);
    f->wire = (uint32_t)tag & 7;
    f->n = 0;
    f->bytes = (kineto_string){"", 0};
    if (tag >> 3 == 0 || tag >> 32 != 0)
        w->is_bad = true;
    else if (f->wire == KT_WIRE_VARINT)
        (void)kt_wire_varint(w, &f->n);
    else if (f->wire == KT_WIRE_FIXED64 || f->wire == KT_WIRE_FIXED32)
        (void)kt_wire_fixed(w, f->wire == KT_WIRE_FIXED64 ? 8 : 4, &f->n);
    else if (f->wire != KT_WIRE_BYTES || !kt_wire_varint(w, &size) || size > (uint64_t)(w->end - w->at))
        w->is_bad = true;
    if (w->is_bad) {
        w->at = before;
        return false;
    }
    if (f->wire == KT_WIRE_BYTES) {
        f->bytes = (kineto_string){(const char *)w->at, (size_t)size};
        w->at += size;
    }
    return true;
}

/** Does this field have a number, or bytes? A field of another type than is expected is as if it were not there. */
static inline bool kt_field_is(const kt_field *f, uint32_t id, uint32_t wire)
{
    return f->id == id && f->wire == wire;
}

/** The real number of a field of eight bytes. */
static inline double kt_field_double(const kt_field *f)
{
    double value;
    memcpy(&value, &f->n, sizeof value);
    return value;
}

/** The next number of a repeated field: a packed list, or one number. @param list  kt_wire_of the bytes of `f`. */
static inline bool kt_wire_item(kt_wire *list, uint64_t *n)
{
    return list->at != list->end && !list->is_bad && kt_wire_varint(list, n);
}

/** Is the whole message readable, without looking inside of its messages? */
static inline bool kt_wire_is_whole(kineto_string message)
{
    kt_wire w = kt_wire_of(message);
    kt_field f;
    while (kt_wire_next(&w, &f))
        continue;
    return !w.is_bad;
}

/* A value of an argument as JSON text, built piece by piece. Texts that a file refers to by number may be repeated
 * often, so that the length is limited: a longer one is not complete. */
#define KT_JSON_TEXT_BYTES ((size_t)8 << 20)
typedef struct kt_json_text {
    KB_VEC(char) text;
    bool no_memory, is_too_long;
} kt_json_text;

/** Begins the next value; the room of the last one is used again. */
static inline void kt_json_text_begin(kt_json_text *j)
{
    j->text.count = 0;
    j->is_too_long = false;
}

/** Appends text that is JSON already. */
void kt_json_text_put(kt_json_text *j, kineto_string raw);
/** Appends a text, escaped and in quotes. */
void kt_json_text_string(kt_json_text *j, kineto_string text);
/** Appends a number. */
void kt_json_text_int(kt_json_text *j, int64_t n);
void kt_json_text_uint(kt_json_text *j, uint64_t n);
void kt_json_text_double(kt_json_text *j, double n);
/** What was built so far; valid until more is appended. */
static inline kineto_string kt_json_text_of(const kt_json_text *j)
{
    return (kineto_string){j->text.data ? j->text.data : "", j->text.count};
}
#endif
