/* Checks that a text is exactly one JSON value (RFC 8259), for text that callers pass in and that
 * is written verbatim. */
#include "base/base.h"

#define MAX_DEPTH 128u

/* The unread rest of the text. The skip_… functions advance `at` past one token, never past `end`,
 * and return false if the token is not there. */
typedef struct scan {
    const char *at, *end;
} scan;

static char peek_json_char(const scan *s) { return s->at < s->end ? *s->at : '\0'; }

static bool skip_json_char(scan *s, char c)
{
    if (s->at == s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

static bool skip_json_literal(scan *s, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

static void skip_json_space(scan *s)
{
    while (s->at < s->end && (*s->at == ' ' || *s->at == '\t' || *s->at == '\n' || *s->at == '\r'))
        s->at++;
}

static bool skip_json_digits(scan *s)
{
    const char *begin = s->at;
    while (s->at < s->end && kb_is_digit(*s->at))
        s->at++;
    return s->at > begin;
}

static bool skip_json_number(scan *s)
{
    (void)skip_json_char(s, '-');
    if (!skip_json_char(s, '0') && !skip_json_digits(s))
        return false;
    if (skip_json_char(s, '.') && !skip_json_digits(s))
        return false;
    if (!skip_json_char(s, 'e') && !skip_json_char(s, 'E'))
        return true;
    if (!skip_json_char(s, '+'))
        (void)skip_json_char(s, '-');
    return skip_json_digits(s);
}

/* The part of an escape after its backslash. */
static bool skip_json_escape(scan *s)
{
    if (s->at == s->end)
        return false;
    char c = *s->at++;
    if (c != 'u')
        return c != '\0' && strchr("\"\\/bfnrt", c) != NULL;
    for (int i = 0; i < 4; i++, s->at++) {
        if (!kb_is_hex_digit(peek_json_char(s)))
            return false;
    }
    return true;
}

/* Over bytes that mean nothing in a string, eight at a time: ASCII without controls, quotes and
 * backslashes. */
static void skip_plain_chars(scan *s)
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

static bool skip_json_string(scan *s)
{
    if (!skip_json_char(s, '"'))
        return false;
    while (skip_plain_chars(s), s->at < s->end) {
        unsigned char c = (unsigned char)*s->at;
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return false;
        if (c == '\\') {
            s->at++;
            if (!skip_json_escape(s))
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

static bool skip_json_scalar(scan *s)
{
    switch (peek_json_char(s)) {
    case '"':
        return skip_json_string(s);
    case 't':
        return skip_json_literal(s, "true");
    case 'f':
        return skip_json_literal(s, "false");
    case 'n':
        return skip_json_literal(s, "null");
    default:
        return skip_json_number(s);
    }
}

static bool skip_json_key(scan *s)
{
    skip_json_space(s);
    if (!skip_json_string(s))
        return false;
    skip_json_space(s);
    return skip_json_char(s, ':');
}

/* Without recursion: what is open is a stack of closing brackets. */
bool kb_json_valid(kineto_string text)
{
    scan s = {text.data, text.size ? text.data + text.size : text.data};
    char open[MAX_DEPTH];
    uint32_t depth = 0;
    for (;;) {
        skip_json_space(&s);
        char c = peek_json_char(&s);
        if (c == '{' || c == '[') {
            s.at++;
            if (depth == MAX_DEPTH)
                return false;
            open[depth++] = c == '{' ? '}' : ']';
            skip_json_space(&s);
            if (peek_json_char(&s) != open[depth - 1]) {
                if (c == '{' && !skip_json_key(&s))
                    return false;
                continue;
            }
        } else if (!skip_json_scalar(&s)) {
            return false;
        }
        KB_ASSERT(depth <= MAX_DEPTH && s.at <= s.end);
        /* A value ends here: close the containers that it completes, or continue after a comma. */
        for (;;) {
            skip_json_space(&s);
            if (depth == 0)
                return s.at == s.end;
            if (skip_json_char(&s, ',')) {
                if (open[depth - 1] == '}' && !skip_json_key(&s))
                    return false;
                break;
            }
            if (!skip_json_char(&s, open[depth - 1]))
                return false;
            depth--;
        }
    }
}
