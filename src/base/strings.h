/* Characters and string views (kineto_string: bytes with a size, not NUL-terminated). Included by
 * base.h; everything here is inline and needs nothing but libc. Letters are those of ASCII whatever
 * the program's locale is, so that names and files mean the same in every program. */
#ifndef KB_STRINGS_H
#define KB_STRINGS_H

#include <ckineto/base.h>

#include <string.h>

/* ---- characters ---------------------------------------------------------------------------------- */

static inline bool kb_is_digit(char c) { return (unsigned char)(c - '0') < 10; }
static inline bool kb_is_lower(char c) { return c >= 'a' && c <= 'z'; }
static inline bool kb_is_upper(char c) { return c >= 'A' && c <= 'Z'; }
static inline bool kb_is_letter(char c) { return kb_is_lower(c) || kb_is_upper(c); }
static inline bool kb_is_letter_or_digit(char c) { return kb_is_letter(c) || kb_is_digit(c); }
/** Separates words of a line that people write: a space, a tab, or the '\r' before a line's end. */
static inline bool kb_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
static inline char kb_lower(char c) { return kb_is_upper(c) ? (char)(c - 'A' + 'a') : c; }
/** 0 to 15; -1 for any other character. */
static inline int kb_hex_value(char c)
{
    char lower = kb_lower(c);
    if (kb_is_digit(c))
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}
static inline bool kb_is_hex_digit(char c) { return kb_hex_value(c) >= 0; }

/* ---- views of strings ---------------------------------------------------------------------------- */

/** View of a NUL-terminated string; NULL gives the empty one. */
static inline kineto_string kb_string(const char *s)
{
    return (kineto_string){s ? s : "", s ? strlen(s) : 0};
}
static inline bool kb_string_equal(kineto_string a, kineto_string b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.data, b.data, a.size) == 0);
}
static inline bool kb_string_is(kineto_string s, const char *text)
{
    return kb_string_equal(s, kb_string(text));
}
static inline bool kb_string_starts_with(kineto_string s, const char *with)
{
    size_t n = strlen(with);
    return s.size >= n && (n == 0 || memcmp(s.data, with, n) == 0);
}
static inline bool kb_string_ends_with(kineto_string s, const char *with)
{
    size_t n = strlen(with);
    return s.size >= n && (n == 0 || memcmp(s.data + s.size - n, with, n) == 0);
}
/** Does `part` occur in it? The empty part occurs in every string. */
static inline bool kb_string_contains(kineto_string s, const char *part)
{
    return memmem(s.data ? s.data : "", s.size, part, strlen(part)) != NULL;
}
/** The rest after its first `bytes` bytes, of which it has at least that many. */
static inline kineto_string kb_string_skip(kineto_string s, size_t bytes)
{
    return (kineto_string){s.data + bytes, s.size - bytes};
}
static inline bool kb_string_is_one_of(kineto_string s, const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_is(s, texts[i]))
            return true;
    return false;
}
/** Equality that ignores the case of letters; the second string is in lower case already. */
static inline bool kb_string_is_ignoring_case(kineto_string s, const char *lower_case)
{
    size_t i = 0;
    while (i < s.size && lower_case[i] && kb_lower(s.data[i]) == lower_case[i])
        i++;
    return i == s.size && !lower_case[i];
}
/** Does `lower_case` occur in it, ignoring the case of letters? */
static inline bool kb_string_contains_ignoring_case(kineto_string s, const char *lower_case)
{
    size_t size = strlen(lower_case);
    for (size_t at = 0; at + size <= s.size; at++)
        if (kb_string_is_ignoring_case((kineto_string){s.data + at, size}, lower_case))
            return true;
    return false;
}
/** The string without blanks at both ends. */
static inline kineto_string kb_string_trimmed(kineto_string s)
{
    while (s.size && kb_is_blank(s.data[0]))
        s.data++, s.size--;
    while (s.size && kb_is_blank(s.data[s.size - 1]))
        s.size--;
    return s;
}

#endif
