/* A strict pull parser for JSON text (RFC 8259), without allocation: keys and values are
 * spans of the input. For arguments, headers and other short texts; the events of a trace
 * file are parsed by read/scan.c. A scan stops at its first problem: all later calls fail. */
#ifndef KT_JSON_TEXT_H
#define KT_JSON_TEXT_H

#include "base/base.h"

#define KT_JSON_MAX_DEPTH 128u

typedef struct kt_scan {
    const char *begin, *at, *end;
    const char *problem; /* what is wrong at `at`; NULL while all is well */
} kt_scan;

static inline kt_scan kt_scan_of(kineto_string text)
{
    const char *end = text.size ? text.data + text.size : text.data; /* NULL + 0 is undefined */
    return (kt_scan){text.data, text.data, end, NULL};
}

/** Step over a bracket ('{' or '['); false with a problem if something else is there. */
bool kt_scan_open(kt_scan *s, char bracket);
/** True if another item precedes the closing bracket. Steps over the comma, or over the bracket.
 *  *first is true before the first item and cleared here. */
bool kt_scan_more(kt_scan *s, bool *first, char bracket);
/** A key and its colon; `raw` is the text between the quotes, escapes untouched. */
bool kt_scan_key(kt_scan *s, kineto_string *raw);
/** One value, checked; `raw` is its text. */
bool kt_scan_value(kt_scan *s, kineto_string *raw);
/** True if nothing but white space follows. */
bool kt_scan_end(kt_scan *s);
/** First character of the next value, '\0' at the end. */
char kt_scan_peek(kt_scan *s);

static inline bool kt_json_is_string(kineto_string raw) { return raw.size && raw.data[0] == '"'; }
/** Text of a raw string value without its quotes. */
static inline kineto_string kt_json_inside(kineto_string raw)
{
    return (kineto_string){raw.data + 1, raw.size - 2};
}
/** Resolve escapes into `out` (at least raw.size bytes); returns the end. Lone surrogates become
 *  U+FFFD and are counted. */
char *kt_json_unescape(char *out, kineto_string raw, uint64_t *replaced);
/** True if the raw text between quotes, with its escapes resolved, is `plain`. */
bool kt_text_is(kineto_string inside, kineto_string plain);
bool kt_json_is_key(kineto_string raw, const char *text);
/** The same text without escapes, in `room` if it has some; what is longer than that stays
 *  as it is. */
#define KT_PLAIN_KEY_BYTES 128u
kineto_string kt_json_plain_key(kineto_string raw, char room[KT_PLAIN_KEY_BYTES]);
/** "7.00" is 7: a number without a fraction of zeros; any other text as it is. */
kineto_string kt_json_whole_part(kineto_string number);
/** Words that stand for a number that JSON has no notation for: nan, inf, -inf, infinity. */
bool kt_json_is_not_finite(kineto_string word);
/** Number texts without fraction and exponent. False if it is none or does not fit. */
bool kt_json_uint(kineto_string raw, uint64_t *value);
bool kt_json_int(kineto_string raw, int64_t *value);
/** The power of ten that converts a unit of time, given in nanoseconds (0: a microsecond), into
 *  nanoseconds; -1: unknown unit. */
static inline int kt_ts_shift(uint64_t unit_ns)
{
    return unit_ns == 0 || unit_ns == 1000 ? 3
           : unit_ns == 1                  ? 0
           : unit_ns == 1000000            ? 6
           : unit_ns == 1000000000         ? 9
                                           : -1;
}
/** Decimal number times 10^shift, exactly, rounded to the nearest integer (half away from 0).
 *  False if it is not a number, or does not fit. */
bool kt_json_scaled(kineto_string raw, int shift, int64_t *value);
#endif
