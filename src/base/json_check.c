/* Is a text one JSON value? For text that others hand in and that we write verbatim. */
#include "base/base.h"

#define MAX_DEPTH 128u

/* Never reads at or beyond `end`. */
typedef struct scan {
    const char *at, *end;
} scan;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static char peek(const scan *s) { return s->at < s->end ? *s->at : '\0'; }

static bool take(scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool take_word(scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static void skip_blanks(scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool take_digits(scan *s)
{
    const char *begin = s->at;
    while (s->at < s->end && is_digit(*s->at))
        s->at++;
    return s->at > begin;
}

static bool take_number(scan *s)
{
    (void)take(s, '-');
    if (!take(s, '0') && !take_digits(s))
        return false;
    if (take(s, '.') && !take_digits(s))
        return false;
    if (!take(s, 'e') && !take(s, 'E'))
        return true;
    if (!take(s, '+'))
        (void)take(s, '-');
    return take_digits(s);
}

static bool is_hex(char c)
{
    return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind the backslash. */
static bool take_escape(scan *s)
{
    if (s->at == s->end)
        return false;
    char c = *s->at++;
    if (c != 'u')
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
    for (int i = 0; i < 4; i++, s->at++) {
        if (!is_hex(peek(s)))
            return false;
    }
    return true;
}

/* Over bytes that mean nothing in a string, eight at a time: ASCII without controls, quotes and
 * backslashes. */
static void skip_plain(scan *s)
{
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    while (s->end - s->at >= 8) {
        uint64_t word, quotes, escapes;
        memcpy(&word, s->at, sizeof word);
        quotes = word ^ ones * '"';
        escapes = word ^ ones * '\\';
        if (((word - ones * 0x20) | word | (quotes - ones) | (escapes - ones)) & high)
            return;
        s->at += 8;
    }
}

static bool take_string(scan *s)
{
    if (!take(s, '"'))
        return false;
    while (skip_plain(s), s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return false;
        if (c == '\\') {
            s->at++;
            if (!take_escape(s))
                return false;
            continue;
        }
        size_t n = c < 0x80 ? 1 : kb_utf8_length(s->at, (size_t)(s->end - s->at));
        if (n == 0)
            return false;
        s->at += n;
    }
    return false;
}

static bool take_scalar(scan *s)
{
    switch (peek(s)) {
    case '"':
        return take_string(s);
    case 't':
        return take_word(s, "true");
    case 'f':
        return take_word(s, "false");
    case 'n':
        return take_word(s, "null");
    default:
        return take_number(s);
    }
}

static bool take_key(scan *s)
{
    skip_blanks(s);
    if (!take_string(s))
        return false;
    skip_blanks(s);
    return take(s, ':');
}

/* Without recursion: what is open is a stack of closing brackets. */
bool kb_json_valid(kineto_string text)
{
    scan s = {text.data, text.size ? text.data + text.size : text.data};
    char open[MAX_DEPTH];
    uint32_t depth = 0;
    for (;;) {
        skip_blanks(&s);
        char c = peek(&s);
        if (c == '{' || c == '[') {
            s.at++;
            if (depth == MAX_DEPTH)
                return false;
            open[depth++] = c == '{' ? '}' : ']';
            skip_blanks(&s);
            if (peek(&s) != open[depth - 1]) {
                if (c == '{' && !take_key(&s))
                    return false;
                continue;
            }
        } else if (!take_scalar(&s)) {
            return false;
        }
        /* A value ends here: close what it ends, or go on behind a comma. */
        for (;;) {
            skip_blanks(&s);
            if (depth == 0)
                return s.at == s.end;
            if (take(&s, ',')) {
                if (open[depth - 1] == '}' && !take_key(&s))
                    return false;
                break;
            }
            if (!take(&s, open[depth - 1]))
                return false;
            depth--;
        }
    }
}
