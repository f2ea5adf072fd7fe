/* Lines and numbers of the texts that other tools write. */
#ifndef KT_TEXT_LINE_H
#define KT_TEXT_LINE_H

#include "base/base.h"

#define KT_NO_NUMBER UINT64_MAX

/** Takes the next line off a text, without its end. False: there is none. */
static inline bool kt_line_next(kineto_string *text, kineto_string *line)
{
    if (!text->size)
        return false;
    const char *end = memchr(text->data, '\n', text->size);
    size_t size = end ? (size_t)(end - text->data) : text->size;
    *line = (kineto_string){text->data, size};
    *text = kb_string_skip(*text, end ? size + 1 : size);
    if (line->size && line->data[line->size - 1] == '\r')
        line->size--;
    return true;
}

static inline kineto_string kt_line_trim(kineto_string s)
{
    while (s.size && kb_is_blank(s.data[0]))
        s = kb_string_skip(s, 1);
    while (s.size && kb_is_blank(s.data[s.size - 1]))
        s.size--;
    return s;
}

/** Takes the next word off a line; empty: there is none. */
static inline kineto_string kt_line_word(kineto_string *line)
{
    *line = kt_line_trim(*line);
    kineto_string word = {line->data, 0};
    while (word.size < line->size && !kb_is_blank(line->data[word.size]))
        word.size++;
    *line = kb_string_skip(*line, word.size);
    return word;
}

/** A decimal number of at most 18 digits, all of the text; KT_NO_NUMBER: it is none. */
static inline uint64_t kt_line_number(kineto_string s)
{
    uint64_t value = 0;
    for (size_t i = 0; i < s.size; i++) {
        if (!kb_is_digit(s.data[i]))
            return KT_NO_NUMBER;
        value = value * 10 + (uint64_t)(s.data[i] - '0');
    }
    return s.size && s.size <= 18 ? value : KT_NO_NUMBER;
}

/** "SECONDS.FRACTION", with 3 to 9 digits after the point, in ns; KT_NO_NUMBER: it is none. */
static inline uint64_t kt_line_time(kineto_string s)
{
    const char *point = s.size ? memchr(s.data, '.', s.size) : NULL;
    if (!point)
        return KT_NO_NUMBER;
    kineto_string whole = {s.data, (size_t)(point - s.data)};
    kineto_string fraction = {point + 1, s.size - whole.size - 1};
    uint64_t seconds = kt_line_number(whole), part = kt_line_number(fraction);
    if (seconds > UINT64_C(4000000000) || part == KT_NO_NUMBER || fraction.size < 3 ||
        fraction.size > 9)
        return KT_NO_NUMBER;
    for (size_t digits = fraction.size; digits < 9; digits++)
        part *= 10;
    return seconds * 1000000000u + part;
}
#endif
