/* Values of payloads that do not fit a single argument (lists of doubles and of structs, unions),
 * as JSON. If a value does not fit, null is written instead, so that the text is always valid. */
#include "nvtx.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_JSON   2048u
#define MAX_LEVELS 8u

/* The text is written to a buffer on the stack and copied to the scratch space of the event when it
 * is complete (cn_field_json). */
typedef struct json_writer {
    cn_reader *reader;
    /* The next byte; the end of the buffer. */
    char *at, *end;
    bool full;
} json_writer;

/* Appends a piece whole or not at all; the first that does not fit ends the text. */
static void append_json(json_writer *w, const char *text, size_t size)
{
    if (w->full || size > (size_t)(w->end - w->at)) {
        w->full = true;
        return;
    }
    memcpy(w->at, text, size);
    w->at += size;
}
static void append_json_text(json_writer *w, const char *text)
{
    append_json(w, text, strlen(text));
}

/* A text as a JSON string with escapes. */
static void append_json_quoted(json_writer *w, const char *text)
{
    append_json_text(w, "\"");
    for (; *text; text++) {
        char escaped[8];
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            append_json(w, escaped, 2);
        } else if (c < 0x20) {
            append_json(w, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        } else {
            append_json(w, text, 1);
        }
    }
    append_json_text(w, "\"");
}

/* The shortest form that reads back as the same number. The program's locale may have another
 * decimal point, which is replaced. */
static void append_json_double(json_writer *w, double value)
{
    char text[40];
    if (value - value != 0) {
        append_json_text(w, "null"); /* JSON has no infinity */
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        double back = strtod(text, NULL);
        if (!(back < value) && !(back > value))
            break;
    }
    for (char *c = text; *c; c++)
        if (!strchr("0123456789+-e.", *c))
            *c = '.';
    append_json_text(w, text);
}

/* An integer of any size, signed or not. */
static void append_json_number(json_writer *w, const cn_field *f, const cn_view *view, size_t at)
{
    char text[24];
    int64_t i = 0;
    uint64_t u = 0;
    if (f->class == CN_CLASS_UINT) {
        (void)cn_read_unsigned(view, at, f->size, &u);
        (void)snprintf(text, sizeof text, "%llu", (unsigned long long)u);
    } else {
        (void)cn_read_signed(view, at, f->size, &i);
        (void)snprintf(text, sizeof text, "%lld", (long long)i);
    }
    append_json_text(w, text);
}

static void append_json_field(json_writer *w, const cn_struct *s, const cn_field *f,
                              const cn_extent *where, unsigned level);

/* An object with a member per field; fields without a name get their number. */
static void append_json_struct(json_writer *w, const cn_schema *schema, cn_view view, size_t base,
                               unsigned level)
{
    cn_struct s;
    char number[16];
    bool first = true;
    cn_struct_begin(&s, schema, view, base);
    append_json_text(w, "{");
    for (uint32_t i = 0; i < schema->count; i++) {
        const cn_field *f = &schema->fields[i];
        cn_extent where;
        if (f->class == CN_CLASS_NONE || !cn_struct_next(w->reader, &s, i, &where))
            continue;
        (void)snprintf(number, sizeof number, "%u", i);
        append_json_text(w, first ? "" : ",");
        append_json_quoted(w, f->name ? f->name : number);
        append_json_text(w, ":");
        append_json_field(w, &s, f, &where, level + 1);
        first = false;
    }
    append_json_text(w, "}");
}

/* {"name": value} of the member that an earlier field selects; null if the selector is invalid. */
static void append_json_union(json_writer *w, const cn_struct *s, const cn_field *f,
                              const cn_extent *where, unsigned level)
{
    uint64_t selected;
    const cn_field *selector = &s->schema->fields[f->detail];
    cn_struct members;
    cn_extent member;
    cn_struct_begin(&members, f->nested, where->view, where->at);
    bool there = cn_read_unsigned(&s->view, s->offsets[f->detail], selector->size, &selected) &&
                 selected < f->nested->count &&
                 f->nested->fields[selected].class != CN_CLASS_NONE &&
                 f->nested->fields[selected].array != CN_ARRAY_LENGTH_INDEX &&
                 f->nested->fields[selected].class != CN_CLASS_UNION &&
                 cn_struct_next(w->reader, &members, (uint32_t)selected, &member);
    if (!there) {
        append_json_text(w, "null");
        return;
    }
    const cn_field *chosen = &f->nested->fields[selected];
    append_json_text(w, "{");
    append_json_quoted(w, chosen->name ? chosen->name : "");
    append_json_text(w, ":");
    append_json_field(w, &members, chosen, &member, level + 1);
    append_json_text(w, "}");
}

/* The name of an enumerator; its number if it has none. */
static void append_json_enum(json_writer *w, const cn_field *f, const cn_view *view, size_t at)
{
    char text[256];
    uint64_t value;
    (void)cn_read_unsigned(view, at, f->size, &value);
    (void)cn_enum_name(f->nested, value, text, sizeof text);
    append_json_quoted(w, text);
}

/* The text of a registered string; empty if the handle is invalid. */
static void append_json_handle(json_writer *w, const cn_field *f, const cn_view *view, size_t at)
{
    uint64_t handle;
    (void)cn_read_unsigned(view, at, f->size, &handle);
    const cn_name *name = cn_name_from_handle((cn_handle)(uintptr_t)handle);
    append_json_quoted(w, name ? name->text : "");
}

/* One element of a field by its class. */
static void append_json_element(json_writer *w, const cn_struct *s, const cn_field *f,
                                const cn_extent *where, size_t at, unsigned level)
{
    double d;
    switch (f->class) {
    case CN_CLASS_FLOAT:
        (void)cn_read_float(&where->view, at, f, &d);
        append_json_double(w, d);
        break;
    case CN_CLASS_NESTED:
        append_json_struct(w, f->nested, where->view, at, level);
        break;
    case CN_CLASS_UNION:
        append_json_union(w, s, f, where, level);
        break;
    case CN_CLASS_ENUM:
        append_json_enum(w, f, &where->view, at);
        break;
    case CN_CLASS_HANDLE:
        append_json_handle(w, f, &where->view, at);
        break;
    default:
        append_json_number(w, f, &where->view, at);
    }
}

/* A field of any class. Nesting beyond MAX_LEVELS becomes null. */
static void append_json_field(json_writer *w, const cn_struct *s, const cn_field *f,
                              const cn_extent *where, unsigned level)
{
    if (level > MAX_LEVELS) {
        append_json_text(w, "null");
        return;
    }
    bool text =
        f->class == CN_CLASS_TEXT || (f->class == CN_CLASS_CHARS && (f->array || f->is_pointer));
    if (text) {
        append_json_quoted(w, cn_read_text(w->reader, f, where));
        return;
    }
    if (!f->array) {
        append_json_element(w, s, f, where, where->at, level);
        return;
    }
    append_json_text(w, "[");
    for (size_t i = 0; i < where->count && !w->full; i++) {
        append_json_text(w, i ? "," : "");
        append_json_element(w, s, f, where, where->at + i * f->size, level);
    }
    append_json_text(w, "]");
}

const char *cn_field_json(cn_reader *r, const cn_struct *s, const cn_field *f,
                          const cn_extent *where)
{
    char json[MAX_JSON];
    json_writer w = {r, json, json + sizeof json, false};
    append_json_field(&w, s, f, where, 0);
    if (w.full || (size_t)(w.at - json) >= sizeof r->scratch->bytes - r->scratch->used) {
        r->scratch->cut = true;
        return "null";
    }
    return cn_scratch_text(r->scratch, json, (size_t)(w.at - json));
}
