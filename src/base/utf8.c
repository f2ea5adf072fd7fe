/* UTF-8: finding valid and invalid parts of a text, replacing the invalid ones by U+FFFD, cutting
 * texts between characters; and escaping text for XML. */
#include "base/base.h"

/* What may follow a lead byte: how many continuation bytes, and the range of the first of them
 * (narrower than 80..BF where overlong forms, surrogates or > U+10FFFF would begin). */
typedef struct lead_rule {
    uint8_t follow, first_low, first_high;
} lead_rule;

static inline lead_rule rule_of_lead_byte(unsigned char c)
{
    if (c < 0xc2 || c > 0xf4)
        return (lead_rule){0, 0, 0};
    if (c < 0xe0)
        return (lead_rule){1, 0x80, 0xbf};
    if (c < 0xf0)
        return (lead_rule){2, c == 0xe0 ? 0xa0 : 0x80, c == 0xed ? 0x9f : 0xbf};
    return (lead_rule){3, c == 0xf0 ? 0x90 : 0x80, c == 0xf4 ? 0x8f : 0xbf};
}

/* How many bytes after the lead byte belong to it, at most rule.follow. */
static inline size_t count_continuation_bytes(const unsigned char *p, size_t bytes, lead_rule rule)
{
    size_t n = 0;
    if (rule.follow == 0 || bytes < 2 || p[1] < rule.first_low || p[1] > rule.first_high)
        return 0;
    for (n = 1; n < rule.follow && n + 1 < bytes && (p[n + 1] & 0xc0) == 0x80; n++) {
    }
    return n;
}

size_t kb_utf8_length(const char *s, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)s;
    if (bytes == 0)
        return 0;
    if (p[0] < 0x80)
        return 1;
    lead_rule rule = rule_of_lead_byte(p[0]);
    return rule.follow > 0 && count_continuation_bytes(p, bytes, rule) == rule.follow
               ? (size_t)rule.follow + 1
               : 0;
}

size_t kb_utf8_bad_length(const char *s, size_t bytes)
{
    const unsigned char *p = (const unsigned char *)s;
    return bytes == 0 ? 0 : 1 + count_continuation_bytes(p, bytes, rule_of_lead_byte(p[0]));
}

static size_t ascii_prefix_bytes(const char *s, size_t bytes)
{
    size_t n = 0;
    for (uint64_t word; bytes - n >= 8; n += 8) {
        memcpy(&word, s + n, 8);
        if (word & UINT64_C(0x8080808080808080))
            break;
    }
    while (n < bytes && (unsigned char)s[n] < 0x80)
        n++;
    return n;
}

size_t kb_utf8_valid_prefix(const char *s, size_t bytes)
{
    size_t at = 0;
    while (at < bytes) {
        at += ascii_prefix_bytes(s + at, bytes - at);
        if (at == bytes)
            break;
        size_t n = kb_utf8_length(s + at, bytes - at);
        if (n == 0)
            break;
        at += n;
    }
    return at;
}

kineto_string kb_utf8_next(kineto_string *rest, uint64_t *replaced)
{
    if (rest->size == 0)
        return (kineto_string){"", 0};
    kineto_string piece = {rest->data, kb_utf8_valid_prefix(rest->data, rest->size)};
    size_t used = piece.size;
    if (used == 0) {
        used = kb_utf8_bad_length(rest->data, rest->size);
        piece = (kineto_string){"\xef\xbf\xbd", 3};
        if (replaced)
            ++*replaced;
    }
    rest->data += used;
    rest->size -= used;
    return piece;
}

kineto_string kb_utf8_cut(kineto_string s, size_t most)
{
    size_t size = KB_MIN(s.size, most);
    if (size == s.size)
        return s;
    while (size > 0 && most - size < 3 && ((unsigned char)s.data[size] & 0xc0) == 0x80)
        size--;
    /* No character has more than three continuation bytes: the text is not UTF-8 here. */
    if (((unsigned char)s.data[size] & 0xc0) == 0x80)
        size = most;
    return (kineto_string){s.data, size};
}

char *kb_utf8_clean(char *out, kineto_string s, uint64_t *replaced)
{
    for (kineto_string piece; (piece = kb_utf8_next(&s, replaced)).size;) {
        memcpy(out, piece.data, piece.size);
        out += piece.size;
    }
    return out;
}

/* The replacement for the bytes at `at`, whose number *size receives; NULL: they need none. */
static const char *xml_entity(const char *at, const char *end, size_t *size)
{
    *size = 1;
    switch (*at) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\x7f':
        return "?";
    case '\xef': /* U+FFFE and U+FFFF */
        *size = 3;
        return end - at >= 3 && at[1] == '\xbf' && (unsigned char)at[2] >= 0xbe ? "\xef\xbf\xbd" : NULL;
    default:
        return (unsigned char)*at < ' ' ? "?" : NULL;
    }
}

void kb_xml_put(kineto_string text, void (*put)(void *to, const char *bytes, size_t size), void *to)
{
    for (kineto_string piece; (piece = kb_utf8_next(&text, NULL)).size;) {
        const char *from = piece.data, *end = from + piece.size;
        size_t size;
        for (const char *at = from; at < end; at += size) {
            const char *entity = xml_entity(at, end, &size);
            if (!entity)
                continue;
            put(to, from, (size_t)(at - from));
            put(to, entity, strlen(entity));
            from = at + size;
        }
        put(to, from, (size_t)(end - from));
    }
}
