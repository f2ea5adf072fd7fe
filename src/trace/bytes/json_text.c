/* The pull parser of json_text.h, and conversions of JSON strings and numbers without loss:
 * escapes, whole numbers, decimal times. Relies on nothing but the span; it never reads at
 * or after `end`. */
#include "trace/bytes/json_text.h"

/* Records the first problem; always false, so that callers can return it. */
static bool set_scan_problem(kt_scan *s, const char *problem)
{
    if (!s->problem)
        s->problem = problem;
    return false;
}

static void skip_scan_space(kt_scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t'))
        s->at++;
}

char kt_scan_peek(kt_scan *s)
{
    skip_scan_space(s);
    return s->at < s->end ? *s->at : '\0';
}

bool kt_scan_open(kt_scan *s, char bracket)
{
    if (kt_scan_peek(s) != bracket)
        return set_scan_problem(s, bracket == '{' ? "expected an object" : "expected an array");
    s->at++;
    return true;
}

bool kt_scan_more(kt_scan *s, bool *first, char bracket)
{
    char next = kt_scan_peek(s);
    if (s->problem)
        return false;
    if (next == bracket + 2 && next) { /* ASCII: ']' is '[' + 2, '}' is '{' + 2 */
        s->at++;
        return false;
    }
    if (*first) {
        *first = false;
        return next ? true : set_scan_problem(s, "the text ends inside a list");
    }
    if (next != ',')
        return set_scan_problem(s, "expected a comma or a closing bracket");
    s->at++;
    return true;
}

/* True if four hexadecimal digits follow; the caller has checked that four characters do. */
static bool scan_hex(const char *at)
{
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
            return false;
    }
    return true;
}

/* Steps over an escape; s->at is the character after the backslash. */
static bool scan_escape(kt_scan *s)
{
    if (s->at == s->end)
        return set_scan_problem(s, "the text ends inside a string");
    char c = *s->at;
    if (c == 'u') {
        if (s->end - s->at < 5 || !scan_hex(s->at + 1))
            return set_scan_problem(s, "\\u needs four hexadecimal digits");
        s->at += 5;
        return true;
    }
    if (!c || !strchr("\"\\/bfnrt", c))
        return set_scan_problem(s, "unknown escape in a string");
    s->at++;
    return true;
}

static bool scan_string(kt_scan *s)
{
    if (kt_scan_peek(s) != '"')
        return set_scan_problem(s, "expected a string");
    s->at++;
    while (s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return set_scan_problem(s, "control character in a string");
        s->at++;
        if (c == '\\' && !scan_escape(s))
            return false;
    }
    return set_scan_problem(s, "the text ends inside a string");
}

/* Steps over digits and returns their number. */
static size_t scan_digits(kt_scan *s)
{
    const char *from = s->at;
    while (s->at < s->end && kb_is_digit(*s->at))
        s->at++;
    return (size_t)(s->at - from);
}

static bool scan_number(kt_scan *s)
{
    if (*s->at == '-')
        s->at++;
    const char *first = s->at;
    size_t digits = scan_digits(s);
    if (!digits || (digits > 1 && *first == '0'))
        return set_scan_problem(s, "malformed number");
    if (s->at < s->end && *s->at == '.') {
        s->at++;
        if (!scan_digits(s))
            return set_scan_problem(s, "malformed number");
    }
    if (s->at < s->end && (*s->at == 'e' || *s->at == 'E')) {
        s->at++;
        if (s->at < s->end && (*s->at == '+' || *s->at == '-'))
            s->at++;
        if (!scan_digits(s))
            return set_scan_problem(s, "malformed number");
    }
    return true;
}

static bool scan_word(kt_scan *s, const char *word)
{
    size_t size = strlen(word);
    if ((size_t)(s->end - s->at) < size || memcmp(s->at, word, size) != 0)
        return set_scan_problem(s, "expected a value");
    s->at += size;
    return true;
}

static bool scan_any(kt_scan *s, uint32_t depth);

/* An object or array, s->at is its bracket. Recursion is limited by KT_JSON_MAX_DEPTH. */
static bool scan_list(kt_scan *s, char bracket, uint32_t depth)
{
    if (depth >= KT_JSON_MAX_DEPTH)
        return set_scan_problem(s, "nested too deep");
    s->at++;
    bool first = true;
    kineto_string key;
    while (kt_scan_more(s, &first, bracket))
        if ((bracket == '{' && !kt_scan_key(s, &key)) || !scan_any(s, depth + 1))
            return false;
    return !s->problem;
}

static bool scan_any(kt_scan *s, uint32_t depth)
{
    char c = kt_scan_peek(s);
    switch (c) {
    case '"':
        return scan_string(s);
    case '{':
    case '[':
        return scan_list(s, c, depth);
    case 't':
        return scan_word(s, "true");
    case 'f':
        return scan_word(s, "false");
    case 'n':
        return scan_word(s, "null");
    default:
        if (c == '-' || kb_is_digit(c))
            return scan_number(s);
        return set_scan_problem(s, s->at == s->end ? "the text ends early" : "expected a value");
    }
}

bool kt_scan_key(kt_scan *s, kineto_string *raw)
{
    skip_scan_space(s);
    const char *from = s->at;
    if (!scan_string(s))
        return false;
    *raw = (kineto_string){from + 1, (size_t)(s->at - from) - 2};
    if (kt_scan_peek(s) != ':')
        return set_scan_problem(s, "expected a colon");
    s->at++;
    return true;
}

bool kt_scan_value(kt_scan *s, kineto_string *raw)
{
    skip_scan_space(s);
    const char *from = s->at;
    if (!scan_any(s, 0))
        return false;
    *raw = (kineto_string){from, (size_t)(s->at - from)};
    return true;
}

bool kt_scan_end(kt_scan *s)
{
    skip_scan_space(s);
    return s->at == s->end || set_scan_problem(s, "text after the end");
}

/* ---- strings --------------------------------------------------------------------------------- */

/* The value of four hexadecimal digits that scan_hex has accepted. */
static uint32_t parse_hex4(const char *at)
{
    uint32_t value = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        value = value * 16 + (uint32_t)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
    }
    return value;
}

/* Appends a code point, U+0000 to U+10FFFF, as 1 to 4 bytes of UTF-8. */
static char *append_utf8(char *out, uint32_t c)
{
    if (c < 0x80) {
        *out++ = (char)c;
        return out;
    }
    int tail = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
    static const unsigned char lead[] = {0, 0xc0, 0xe0, 0xf0};
    *out++ = (char)(lead[tail] | c >> 6 * tail);
    while (tail-- > 0)
        *out++ = (char)(0x80 | (c >> 6 * tail & 0x3f));
    return out;
}

/* Converts a \u escape, and the low surrogate after a high one; `at` is after the u.
 * Returns the end. */
static const char *unescape_unit(const char *at, const char *end, char **out, uint64_t *replaced)
{
    uint32_t c = parse_hex4(at);
    at += 4;
    if (c >= 0xd800 && c < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
        uint32_t low = parse_hex4(at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            *out = append_utf8(*out, 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00));
            return at + 6;
        }
    }
    if (c >= 0xd800 && c < 0xe000) {
        c = 0xfffd;
        ++*replaced;
    }
    *out = append_utf8(*out, c);
    return at;
}

char *kt_json_unescape(char *out, kineto_string raw, uint64_t *replaced)
{
    const char *at = raw.data, *end = raw.data + raw.size;
    while (at < end) {
        const char *escape = memchr(at, '\\', (size_t)(end - at));
        size_t plain = (size_t)((escape ? escape : end) - at);
        memcpy(out, at, plain);
        out += plain;
        if (!escape)
            break;
        char c = escape[1];
        at = escape + 2;
        if (c == 'u') {
            at = unescape_unit(at, end, &out, replaced);
            continue;
        }
        static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
        const char *known = strchr(from, c);
        *out++ = known ? to[known - from] : c;
    }
    return out;
}

kineto_string kt_json_plain_key(kineto_string raw, char room[KT_PLAIN_KEY_BYTES])
{
    uint64_t replaced = 0;
    if (!raw.size || raw.size > KT_PLAIN_KEY_BYTES || !memchr(raw.data, '\\', raw.size))
        return raw;
    return (kineto_string){room, (size_t)(kt_json_unescape(room, raw, &replaced) - room)};
}

bool kt_text_is(kineto_string inside, kineto_string plain)
{
    char text[256];
    uint64_t replaced = 0;
    if (!inside.size || !memchr(inside.data, '\\', inside.size))
        return kb_string_equal(inside, plain);
    if (inside.size < plain.size || inside.size > sizeof text)
        return false;
    char *end = kt_json_unescape(text, inside, &replaced);
    return kb_string_equal((kineto_string){text, (size_t)(end - text)}, plain);
}

bool kt_json_is_key(kineto_string raw, const char *text)
{
    return kt_text_is(raw, kb_string(text));
}

/* ---- numbers --------------------------------------------------------------------------------- */

kineto_string kt_json_whole_part(kineto_string number)
{
    const char *point = number.size ? memchr(number.data, '.', number.size) : NULL;
    size_t end = number.size;
    while (point && end && number.data[end - 1] == '0')
        end--;
    bool only_zeros_follow = point && end < number.size && number.data + end == point + 1;
    bool has_digits = point > number.data;
    return only_zeros_follow && has_digits ? (kineto_string){number.data, end - 1} : number;
}

bool kt_json_is_not_finite(kineto_string word)
{
    bool minus = word.size && word.data[0] == '-';
    kineto_string name = {word.data + minus, word.size - minus};
    return kb_string_is_ignoring_case(name, "nan") || kb_string_is_ignoring_case(name, "inf") ||
           kb_string_is_ignoring_case(name, "infinity");
}

bool kt_json_uint(kineto_string raw, uint64_t *value)
{
    uint64_t v = 0;
    if (!raw.size)
        return false;
    for (size_t i = 0; i < raw.size; i++) {
        unsigned digit = (unsigned)(raw.data[i] - '0');
        if (digit > 9 || __builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *value = v;
    return true;
}

bool kt_json_int(kineto_string raw, int64_t *value)
{
    uint64_t magnitude;
    if (!raw.size)
        return false; /* there may be no data, either */
    bool negative = raw.data[0] == '-';
    kineto_string digits = {raw.data + negative, raw.size - negative};
    if (!kt_json_uint(digits, &magnitude) || magnitude > (uint64_t)INT64_MAX + negative)
        return false;
    *value = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

/* The digits of a decimal number read so far: value × 10^shift. Point and exponent change
 * the shift only. */
typedef struct decimal {
    uint64_t value;
    int64_t shift; /* power of ten of the last digit in value */
    int round;     /* first digit that did not fit into value, -1: none */
} decimal;

/* Applies the shift to the value and rounds half up by the first dropped digit. False: it
 * overflows. */
static bool scale_decimal(decimal *d)
{
    while (d->shift > 0 && d->value) {
        if (__builtin_mul_overflow(d->value, 10, &d->value))
            return false;
        d->shift--;
    }
    for (; d->shift < 0; d->shift++) {
        if (!d->value && d->shift < -1)
            d->shift = -1;
        d->round = (int)(d->value % 10);
        d->value /= 10;
    }
    d->value += d->round >= 5;
    return true;
}

/* The exponent after 'e', clamped to about 10^6, which any 64-bit value over- or underflows by. */
static int64_t parse_exponent(const char *at, const char *end)
{
    bool negative = at < end && *at == '-';
    int64_t e = 0;
    for (; at < end; at++)
        if (kb_is_digit(*at) && e < 100000)
            e = e * 10 + (*at - '0');
    return negative ? -e : e;
}

bool kt_json_scaled(kineto_string raw, int shift, int64_t *value)
{
    const char *at = raw.data, *end = raw.data + raw.size;
    bool negative = at < end && *at == '-', fraction = false, any = false;
    decimal d = {0, shift, -1};
    for (at += negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            fraction = true;
            continue;
        }
        unsigned digit = (unsigned)(*at - '0');
        if (digit > 9)
            return false;
        any = true;
        if (d.value > (UINT64_MAX - 9) / 10) { /* more digits than matter */
            d.round = d.round < 0 ? (int)digit : d.round;
            d.shift += !fraction;
            continue;
        }
        d.value = d.value * 10 + digit;
        d.shift -= fraction;
    }
    if (at < end)
        d.shift += parse_exponent(at + 1, end);
    if (!any || !scale_decimal(&d) || d.value > (uint64_t)INT64_MAX)
        return false;
    *value = negative ? -(int64_t)d.value : (int64_t)d.value;
    return true;
}
