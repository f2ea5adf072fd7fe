/* Writing protocol buffers in tests: messages grow in a buffer, and are closed by their mark. */
#ifndef CKINETO_TESTS_WIRE_WRITE_H
#define CKINETO_TESTS_WIRE_WRITE_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct ww {
    uint8_t data[1 << 16];
    size_t size;
} ww;

static inline void ww_varint(ww *w, uint64_t n)
{
    assert(w->size + 10 <= sizeof w->data);
    for (; n >= 0x80; n >>= 7)
        w->data[w->size++] = (uint8_t)(n | 0x80);
    w->data[w->size++] = (uint8_t)n;
}
static inline void ww_uint(ww *w, uint32_t field, uint64_t n)
{
    ww_varint(w, (uint64_t)field << 3);
    ww_varint(w, n);
}
static inline void ww_bytes(ww *w, uint32_t field, const void *data, size_t size)
{
    ww_varint(w, (uint64_t)field << 3 | 2);
    ww_varint(w, size);
    assert(w->size + size <= sizeof w->data);
    memcpy(w->data + w->size, data, size);
    w->size += size;
}
static inline void ww_text(ww *w, uint32_t field, const char *text) { ww_bytes(w, field, text, strlen(text)); }
static inline void ww_fixed64(ww *w, uint32_t field, uint64_t n)
{
    ww_varint(w, (uint64_t)field << 3 | 1);
    memcpy(w->data + w->size, &n, sizeof n);
    w->size += sizeof n;
}
static inline void ww_double(ww *w, uint32_t field, double value)
{
    uint64_t n;
    memcpy(&n, &value, sizeof n);
    ww_fixed64(w, field, n);
}
/** Begins a message; its length has two bytes, so that it may have 16 KiB. */
static inline size_t ww_open(ww *w, uint32_t field)
{
    ww_varint(w, (uint64_t)field << 3 | 2);
    w->size += 2;
    return w->size;
}
static inline void ww_close(ww *w, size_t mark)
{
    size_t size = w->size - mark;
    assert(size < 1 << 14);
    w->data[mark - 2] = (uint8_t)(size | 0x80);
    w->data[mark - 1] = (uint8_t)(size >> 7);
}
#endif
