/* Stage two of parsing JSON: a grammar over the positions of structural characters that
 * stage one finds (scan_index.h), after the design of simdjson.
 *
 * A cursor returns the positions one after the other. At the end of the text it returns the
 * zero byte after it, again and again, so that every check of the grammar fails without a
 * test for the end. The text is indexed in windows of KT_WINDOW_BYTES; kt_cursor_refill
 * waits for text that is not ready yet. */
#ifndef KT_SCAN_H
#define KT_SCAN_H

#include "trace/bytes/input.h"
#include "trace/bytes/json_value.h"
#include "trace/read/scan_index.h"

#ifndef KT_WINDOW_BYTES
#define KT_WINDOW_BYTES 16384u /* text indexed at once, so that text and positions stay in cache */
#endif

/* Unknown members that are recorded for one event; others are not counted. */
#define KT_OTHER_MEMBERS 16u

typedef struct kt_cursor {
    const uint32_t *at, *end; /* positions of the window that are left */
    const char *window;       /* begin of the window: positions are relative to it */
    const char *bad;          /* first invalid character that stage one found; NULL: none */
    const char *problem;      /* first problem, at problem_at; NULL: none */
    const char *problem_at;
    kt_input *input;
    size_t next;    /* offset of the next window */
    size_t checked; /* UTF-8 is checked up to this offset */
    kt_index_fn *index;
    bool lenient;        /* a duration may be a text such as "nan" */
    int8_t unit_shift;   /* times are in units of 10^unit_shift microseconds */
    uint8_t other_count; /* number of `others` */
    kt_index_state state;
    size_t begun; /* offset where the cursor was started */
    uint32_t positions[KT_WINDOW_BYTES + 8];
    kineto_string others[KT_OTHER_MEMBERS]; /* keys of unknown members of the event */
} kt_cursor;

/** Starts at an offset that is not inside a string. */
void kt_cursor_start(kt_cursor *c, kt_input *input, size_t offset);
/** Indexes the next window; false: the end of the text. */
bool kt_cursor_refill(kt_cursor *c);

static inline const char *kt_cursor_end(kt_cursor *c)
{
    return c->input->base + kb_load_acquire(&c->input->ready_bytes);
}
static inline size_t kt_cursor_offset(const kt_cursor *c, const char *p)
{
    return (size_t)(p - c->input->base);
}

/** The next structural character, and a step over it; at the end of the text the zero byte
 *  after it. */
KB_INLINE const char *kt_cursor_next(kt_cursor *c)
{
    if (KINETO_UNLIKELY(c->at == c->end) && !kt_cursor_refill(c))
        return kt_cursor_end(c);
    return c->window + *c->at++;
}
/** The same without the step. */
KB_INLINE const char *kt_cursor_peek(kt_cursor *c)
{
    if (KINETO_UNLIKELY(c->at == c->end) && !kt_cursor_refill(c))
        return kt_cursor_end(c);
    return c->window + *c->at;
}

/** Number of positions left in the window. */
KB_INLINE size_t kt_cursor_ahead(const kt_cursor *c) { return (size_t)(c->end - c->at); }

/* The problem for c->bad; kt_read_explain finds a more precise one. */
#define KT_BAD_TEXT "invalid UTF-8"
/** Records a problem, unless there is one already; returns false. */
static inline bool kt_cursor_fail(kt_cursor *c, const char *at, const char *problem)
{
    if (!c->problem) {
        c->problem = problem;
        c->problem_at = at;
    }
    return false;
}

/* ---- words: up to eight bytes at once. At least eight bytes after every text may be read. ---- */

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

/** The closing quote of the string at `p`; `next` is the structural character after it.
 *  NULL: none. */
KB_INLINE const char *kt_string_end(const char *p, const char *next)
{
    const char *end = next - 1;
    while (KINETO_UNLIKELY(kt_is_space(*end)))
        end--;
    return *end == '"' && end > p ? end : NULL;
}

/** Checks and skips the value at `p`, which the cursor returned last. Returns its end;
 *  NULL: a problem in the cursor. */
const char *kt_skip_value(kt_cursor *c, const char *p);
/** The end of a number of up to seven digits that is directly followed by ',', '}' or ']';
 *  NULL: something else. */
KB_INLINE const char *kt_skip_digits(const char *p)
{
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    uint64_t word = kt_word(p);
    uint64_t other =
        ((word - 0x3030303030303030u) | (word + 0x4646464646464646u) | word) & 0x8080808080808080u;
    /* Borrows and carries only change bytes after the first non-digit. */
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
/** Parses the key at `p`, which the cursor returned last, and its colon; `key` is without
 *  quotes. */
KB_INLINE bool kt_take_key(kt_cursor *c, const char *p, kineto_string *key)
{
    const char *colon = kt_cursor_next(c);
    if (KINETO_UNLIKELY(*p != '"' || *colon != ':'))
        return kt_cursor_fail(c, *p == '"' ? colon : p,
                              *p == '"' ? "expected ':'" : "expected a key");
    const char *end = kt_string_end(p, colon);
    if (KINETO_UNLIKELY(!end))
        return kt_cursor_fail(c, p, "expected a key");
    *key = (kineto_string){p + 1, (size_t)(end - p - 1)};
    return true;
}
#endif
