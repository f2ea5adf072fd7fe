/* Bytes into the inside of a JSON string. The hot path of every JSON writer: clean ASCII is copied
 * sixteen or eight bytes at a time; only what must be escaped is looked at byte by byte. */
#include "base/base.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* Clean: printable ASCII but quote and backslash, and DEL. */
static inline bool is_clean(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* High bit set in every byte of the word that is not clean. Only the lowest set one is exact: a
 * borrow may mark bytes above it. */
static inline uint64_t dirty_bytes(uint64_t w)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), highs = ones * 0x80;
    uint64_t quote = w ^ ones * '"', backslash = w ^ ones * '\\';
    return ((w - ones * 0x20) | (quote - ones) | (backslash - ones) | w) & highs;
}

/* Copy from the front while it is clean. May write up to 15 bytes more than it returns, never more
 * than `bytes`. */
static inline size_t copy_clean(char *out, const char *s, size_t bytes)
{
    size_t n = 0;
#if defined(__SSE2__)
    for (; bytes - n >= 16; n += 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)(s + n));
        /* As signed bytes, "below space" is control bytes and everything from 0x80 on. */
        __m128i bad = _mm_or_si128(_mm_cmplt_epi8(v, _mm_set1_epi8(0x20)),
                                   _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('"')),
                                                _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'))));
        _mm_storeu_si128((__m128i *)(void *)(out + n), v);
        unsigned mask = (unsigned)_mm_movemask_epi8(bad);
        if (mask)
            return n + (size_t)__builtin_ctz(mask);
    }
#endif
    for (uint64_t w; bytes - n >= 8; n += 8) {
        memcpy(&w, s + n, 8);
        memcpy(out + n, &w, 8);
        if (dirty_bytes(w))
            break;
    }
    for (; n < bytes && is_clean((unsigned char)s[n]); n++)
        out[n] = s[n];
    return n;
}

static char *escape_ascii(char *out, unsigned char c)
{
    static const char short_forms[] = "btn?fr"; /* for 8, 9, 10, -, 12, 13 */
    static const char hex[] = "0123456789abcdef";
    *out++ = '\\';
    if (c == '"' || c == '\\') {
        *out++ = (char)c;
    } else if (c >= 8 && c <= 13 && c != 11) {
        *out++ = short_forms[c - 8];
    } else {
        memcpy(out, "u00", 3);
        out[3] = hex[c >> 4];
        out[4] = hex[c & 15];
        out += 5;
    }
    return out;
}

/* The non-ASCII text at the front: valid sequences as they are, anything else as U+FFFD. */
static char *escape_wide(char *out, kineto_string *s, uint64_t *replaced)
{
    while (s->size > 0 && (unsigned char)s->data[0] >= 0x80) {
        size_t n = kb_utf8_length(s->data, s->size);
        if (n > 0) {
            memcpy(out, s->data, n);
            out += n;
        } else {
            n = kb_utf8_bad_length(s->data, s->size);
            memcpy(out, "\xef\xbf\xbd", 3);
            out += 3;
            if (replaced)
                ++*replaced;
        }
        s->data += n;
        s->size -= n;
    }
    return out;
}

char *kb_json_escape_body(char *out, kineto_string s, uint64_t *replaced)
{
    while (s.size > 0) {
        size_t n = copy_clean(out, s.data, s.size);
        out += n;
        s.data += n;
        s.size -= n;
        if (s.size == 0)
            break;
        unsigned char c = (unsigned char)s.data[0];
        if (c >= 0x80) {
            out = escape_wide(out, &s, replaced);
        } else {
            out = escape_ascii(out, c);
            s.data++;
            s.size--;
        }
    }
    return out;
}

char *kb_json_escape(char *out, kineto_string s, uint64_t *replaced)
{
    *out++ = '"';
    out = kb_json_escape_body(out, s, replaced);
    *out++ = '"';
    return out;
}
