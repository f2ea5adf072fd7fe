/* Numbers as JSON text, fast and independent of the locale of the program. */
#include "base/base.h"

#include <math.h>

/* Two digits at a time. */
#define ROW(t) t "0" t "1" t "2" t "3" t "4" t "5" t "6" t "7" t "8" t "9"
static const char pairs[] =
    ROW("0") ROW("1") ROW("2") ROW("3") ROW("4") ROW("5") ROW("6") ROW("7") ROW("8") ROW("9");
#undef ROW

static inline char *put_2_digits(char *out, uint32_t v)
{
    memcpy(out, pairs + 2 * (size_t)v, 2);
    return out + 2;
}

static inline char *put_4_digits(char *out, uint32_t v)
{
    out = put_2_digits(out, v / 100);
    return put_2_digits(out, v % 100);
}

static inline char *put_8_digits(char *out, uint32_t v)
{
    out = put_4_digits(out, v / 10000);
    return put_4_digits(out, v % 10000);
}

/* 0..9999 without leading zeros. */
static inline char *put_up_to_4(char *out, uint32_t v)
{
    if (v >= 1000)
        return put_4_digits(out, v);
    if (v >= 100) {
        *out++ = (char)('0' + v / 100);
        return put_2_digits(out, v % 100);
    }
    if (v >= 10)
        return put_2_digits(out, v);
    *out = (char)('0' + v);
    return out + 1;
}

static inline char *put_up_to_8(char *out, uint32_t v)
{
    if (v < 10000)
        return put_up_to_4(out, v);
    out = put_up_to_4(out, v / 10000);
    return put_4_digits(out, v % 10000);
}

static inline char *put_decimal(char *out, uint64_t v)
{
    const uint64_t e8 = 100000000, e16 = e8 * e8;
    if (v < e8)
        return put_up_to_8(out, (uint32_t)v);
    if (v < e16) {
        out = put_up_to_8(out, (uint32_t)(v / e8));
    } else {
        out = put_up_to_4(out, (uint32_t)(v / e16));
        v %= e16;
        out = put_8_digits(out, (uint32_t)(v / e8));
    }
    return put_8_digits(out, (uint32_t)(v % e8));
}

char *kb_json_format_uint(char *out, uint64_t v) { return put_decimal(out, v); }

/* The distance from 0, also of INT64_MIN. */
static inline uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

char *kb_json_format_int(char *out, int64_t v)
{
    if (v < 0)
        *out++ = '-';
    return put_decimal(out, magnitude(v));
}

char *kb_json_format_us(char *out, int64_t ns)
{
    if (ns < 0)
        *out++ = '-';
    uint64_t v = magnitude(ns), us = v / 1000;
    uint32_t rest = (uint32_t)(v - us * 1000);
    out = put_decimal(out, us);
    *out++ = '.';
    *out++ = (char)('0' + rest / 100);
    return put_2_digits(out, rest % 100);
}

/* ---- doubles ----------------------------------------------------------------------------------
 */

/* Numbers that people write: at most six decimals and fifteen digits. When digits / 10^k, both
 * exact as doubles, divides to v, then that decimal reads back as v, because reading rounds the
 * same quotient. NULL if v is not of this form. */
static char *try_few_decimals(char *out, double v)
{
    static const double powers[] = {1, 10, 100, 1000, 1e4, 1e5, 1e6};
    for (uint32_t k = 1; k < KB_COUNT(powers); k++) {
        double scaled = v * powers[k];
        if (!(fabs(scaled) < 1e15))
            return NULL;
        int64_t digits = (int64_t)scaled;
        /* The product may have been rounded to either side of the integer that is meant. */
        double fraction = scaled - (double)digits;
        if (fraction > 0.5)
            digits++;
        else if (fraction < -0.5)
            digits--;
        if ((double)digits / powers[k] != v)
            continue;
        if (v < 0)
            *out++ = '-';
        uint64_t all = magnitude(digits), whole = all / (uint64_t)powers[k];
        out = put_decimal(out, whole);
        *out++ = '.';
        uint64_t rest = all - whole * (uint64_t)powers[k];
        for (uint32_t i = k; i-- > 0; rest /= 10)
            out[i] = (char)('0' + rest % 10);
        return out + k;
    }
    return NULL;
}

/* printf writes the decimal point of the locale, JSON has one point only. Also makes sure that the
 * text reads as a double and not as an integer. */
static char *put_printed(char *out, const char *text)
{
    bool is_double = false;
    while (*text) {
        if (kb_is_digit(*text) || *text == '-' || *text == '+') {
            *out++ = *text++;
        } else if (*text == 'e') {
            is_double = true;
            *out++ = *text++;
        } else {
            is_double = true;
            *out++ = '.';
            while (*text && *text != 'e' && !kb_is_digit(*text))
                text++;
        }
    }
    if (!is_double) {
        memcpy(out, ".0", 2);
        out += 2;
    }
    return out;
}

static char *put_shortest(char *out, double v)
{
    char text[48];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof(text), "%.*g", precision, v);
        if (precision == 17 || strtod(text, NULL) == v)
            break;
    }
    return put_printed(out, text);
}

static char *put_constant_text(char *out, const char *text)
{
    size_t n = strlen(text);
    memcpy(out, text, n);
    return out + n;
}

char *kb_json_format_double(char *out, double v)
{
    const double exact_integers = 9007199254740992.0; /* 2^53 */
    if (isnan(v))
        return put_constant_text(out, "\"nan\"");
    if (isinf(v))
        return put_constant_text(out, v < 0 ? "\"-inf\"" : "\"inf\"");
    if (v == 0)
        return put_constant_text(out, signbit(v) ? "-0.0" : "0.0");
    if (fabs(v) < exact_integers && v == (double)(int64_t)v)
        return put_constant_text(kb_json_format_int(out, (int64_t)v), ".0");
    char *end = try_few_decimals(out, v);
    return end ? end : put_shortest(out, v);
}
