/* Where the events of a sound text are, found a byte at a time: what the reader is compared with.
 */
#include "damage.h"

#include <stdlib.h>
#include <string.h>

typedef struct walk {
    const char *at, *end;
} walk;

static void skip_string(walk *w)
{
    for (w->at++; w->at < w->end && *w->at != '"'; w->at++)
        if (*w->at == '\\')
            w->at++;
    w->at++;
}

/* Anything up to the comma or bracket after it. */
static void skip_value(walk *w)
{
    int depth = 0;
    while (w->at < w->end) {
        char c = *w->at;
        if (c == '"') {
            skip_string(w);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']'))
            return;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        w->at++;
        if (depth == 0 && (c == '}' || c == ']'))
            return;
    }
}

static void skip_blanks(walk *w)
{
    while (w->at < w->end && strchr(" \t\r\n,:", *w->at) && *w->at)
        w->at++;
}

static bool is(const char *begin, const char *end, const char *text)
{
    return (size_t)(end - begin) == strlen(text) && memcmp(begin, text, strlen(text)) == 0;
}

/* One event: what it is, from its "ph" and "name". */
static element take_element(walk *w, const char *text)
{
    element e = {(size_t)(w->at - text), 0, false};
    char phase = 0;
    bool window_end = false;
    for (w->at++, skip_blanks(w); w->at < w->end && *w->at == '"'; skip_blanks(w)) {
        const char *key = w->at;
        skip_string(w);
        const char *key_end = w->at;
        skip_blanks(w);
        const char *value = w->at;
        skip_value(w);
        if (is(key, key_end, "\"ph\"") && w->at - value == 3)
            phase = value[1];
        if (is(key, key_end, "\"name\""))
            window_end = is(value, w->at, "\"Record Window End\"");
    }
    w->at++;
    e.end = (size_t)(w->at - text);
    e.is_row = phase && strchr("XBbSnTCiI", phase) && !(window_end && (phase | 32) == 'i');
    return e;
}

static bool take_array(walk *w, const char *text, outline *out)
{
    size_t room = out->count;
    for (w->at++, skip_blanks(w); w->at < w->end && *w->at == '{'; skip_blanks(w)) {
        if (out->count >= room) {
            room = room ? room * 2 : 1024;
            element *more = realloc(out->elements, room * sizeof *more);
            if (!more)
                return false;
            out->elements = more;
        }
        out->elements[out->count++] = take_element(w, text);
    }
    w->at++;
    return true;
}

bool outline_of(bytes text, outline *out)
{
    walk w = {text.data, text.data + text.size};
    *out = (outline){NULL, 0};
    skip_blanks(&w);
    if (w.at < w.end && *w.at == '[')
        return take_array(&w, text.data, out);
    for (w.at++, skip_blanks(&w); w.at < w.end && *w.at == '"'; skip_blanks(&w)) {
        const char *key = w.at;
        skip_string(&w);
        bool events = is(key, w.at, "\"traceEvents\"");
        skip_blanks(&w);
        if (!events)
            skip_value(&w);
        else if (!take_array(&w, text.data, out))
            return false;
    }
    return true;
}

size_t rows_before(const outline *o, size_t offset, bool *inside)
{
    size_t rows = 0;
    *inside = false;
    for (size_t i = 0; i < o->count && o->elements[i].begin < offset; i++) {
        *inside = o->elements[i].end > offset;
        rows += !*inside && o->elements[i].is_row;
    }
    return rows;
}
