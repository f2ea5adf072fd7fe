/* Stage two of scanning JSON: a grammar over the positions that stage one finds.
 *
 * A cursor gives the places where something begins, one after the other. Where the text ends, it
 * gives the zero byte behind it, again and again, so that every check fails by itself. */
#ifndef KT_SCAN_H
#define KT_SCAN_H

#include "trace/bytes/input.h"
#include "trace/bytes/json_value.h"
#include "trace/read/scan_index.h"

#ifndef KT_WINDOW_BYTES
#define KT_WINDOW_BYTES 16384u /* indexed at once: positions and text stay in the cache */
#endif

#define KT_OTHER_MEMBERS 16u

typedef struct kt_cursor {
    const uint32_t *at, *end; /* positions that are left */
    const char *window;       /* what they count from */
    const char *bad;          /* first place that stage one objects to; NULL: none yet */
    const char *problem;      /* what is wrong, at problem_at */
    const char *problem_at;
    kt_input *input;
    size_t next;    /* offset where the next window begins */
    size_t checked; /* up to here the text is valid UTF-8 or has not been looked at */
    kt_index_fn *index;
    bool lenient; /* a length may be a text such as "nan" */
    int8_t unit_shift;   /* times are in units of 10^unit_shift microseconds */
    uint8_t other_count; /* members of the event that no reader knows; see `others` */
    kt_index_state state;
    size_t begun; /* where it was started */
    uint32_t positions[KT_WINDOW_BYTES + 8];
    kineto_string others[KT_OTHER_MEMBERS]; /* keys of such members */
} kt_cursor;

/** Begin at an offset that is outside of strings. */
void kt_cursor_start(kt_cursor *c, kt_input *input, size_t offset);
/** The next window; false at the end of the text. */
bool kt_cursor_refill(kt_cursor *c);

static inline const char *kt_cursor_end(kt_cursor *c)
{
    return c->input->base + kb_load_acquire(&c->input->ready_bytes);
}
static inline size_t kt_cursor_offset(const kt_cursor *c, const char *p)
{
    return (size_t)(p - c->input->base);
}

KB_INLINE const char *kt_next(kt_cursor *c)
{
    if (KINETO_UNLIKELY(c->at == c->end) && !kt_cursor_refill(c))
        return kt_cursor_end(c);
    return c->window + *c->at++;
}
/** The same without stepping over it. */
KB_INLINE const char *kt_peek(kt_cursor *c)
{
    if (KINETO_UNLIKELY(c->at == c->end) && !kt_cursor_refill(c))
        return kt_cursor_end(c);
    return c->window + *c->at;
}

/** How many places can be stepped onto without another window. */
KB_INLINE size_t kt_ahead(const kt_cursor *c) { return (size_t)(c->end - c->at); }

/* What stage one objects to; which of them, a slower look tells. */
#define KT_BAD_TEXT "invalid UTF-8"
/** State what is wrong (the first time counts); returns false. */
static inline bool kt_object(kt_cursor *c, const char *at, const char *problem)
{
    if (!c->problem) {
        c->problem = problem;
        c->problem_at = at;
    }
    return false;
}

/* ---- words: up to eight bytes at once. Behind every text eight bytes may be read. ---- */

KB_INLINE uint64_t kt_word(const char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}
/** Mask of the first `bytes` (1…8) in memory. */
KB_INLINE uint64_t kt_first_bytes(size_t bytes)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return UINT64_MAX << (64 - 8 * bytes);
#else
    return UINT64_MAX >> (64 - 8 * bytes);
#endif
}
KB_INLINE bool kt_same_bytes(const char *a, const char *b, size_t size)
{
    for (; size > 8; a += 8, b += 8, size -= 8)
        if (kt_word(a) != kt_word(b))
            return false;
    return !size || !((kt_word(a) ^ kt_word(b)) & kt_first_bytes(size));
}

static inline bool kt_is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/** The closing quote of the string at `p`, given the position behind it. */
KB_INLINE const char *kt_string_end(const char *p, const char *behind)
{
    const char *end = behind - 1;
    while (KINETO_UNLIKELY(kt_is_space(*end)))
        end--;
    return *end == '"' && end > p ? end : NULL;
}

/** Skip and check one value that begins at `p` (already stepped onto); its end, NULL with a
 * problem. */
const char *kt_skip_value(kt_cursor *c, const char *p);
/** A plain number of up to seven digits: behind it, NULL if it is something else. */
KB_INLINE const char *kt_skip_digits(const char *p)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word = kt_word(p);
    uint64_t other =
        ((word - 0x3030303030303030u) | (word + 0x4646464646464646u) | word) & 0x8080808080808080u;
    /* Borrows and carries reach only bytes behind the first that is no digit. */
    unsigned digits = other ? (unsigned)__builtin_ctzll(other) / 8 : 8;
    const char *end = p + digits;
    bool plain =
        digits - 1 < 7 && (*p != '0' || digits == 1) && (*end == ',' || *end == '}' || *end == ']');
    return plain ? end : NULL;
#else
    (void)p;
    return NULL;
#endif
}
/** A key at `p` (stepped onto) and its colon: `key` is what is between the quotes. */
KB_INLINE bool kt_take_key(kt_cursor *c, const char *p, kineto_string *key)
{
    const char *colon = kt_next(c);
    if (KINETO_UNLIKELY(*p != '"' || *colon != ':'))
        return kt_object(c, *p == '"' ? colon : p, *p == '"' ? "expected ':'" : "expected a key");
    const char *end = kt_string_end(p, colon);
    if (KINETO_UNLIKELY(!end))
        return kt_object(c, p, "expected a key");
    *key = (kineto_string){p + 1, (size_t)(end - p - 1)};
    return true;
}
#endif
