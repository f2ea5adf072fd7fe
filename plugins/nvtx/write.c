/* Values of payloads that have no type of their own (lists of doubles and of structs, unions), as
 * JSON. What does not fit is left out whole: the text is always valid. */
#include "nvtx.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_JSON   2048u
#define MAX_LEVELS 8u

typedef struct writer {
    cn_reader *reader;
    char *at, *end; /* end: of what may be used, closing brackets not counted */
    bool full;
} writer;

static void put(writer *w, const char *text, size_t size)
{
    if (w->full || size > (size_t)(w->end - w->at)) {
        w->full = true;
        return;
    }
    memcpy(w->at, text, size);
    w->at += size;
}
static void put_text(writer *w, const char *text) { put(w, text, strlen(text)); }

static void put_quoted(writer *w, const char *text)
{
    put_text(w, "\"");
    for (; *text; text++) {
        char escaped[8];
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            escaped[0] = '\\';
            escaped[1] = (char)c;
            put(w, escaped, 2);
        } else if (c < 0x20) {
            put(w, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", c));
        } else {
            put(w, text, 1);
        }
    }
    put_text(w, "\"");
}

/* The shortest that reads back the same; the program's locale may have another point. */
static void put_double(writer *w, double value)
{
    char text[40];
    if (value - value != 0) {
        put_text(w, "null"); /* JSON has no infinity */
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
    put_text(w, text);
}

static void put_number(writer *w, const cn_field *f, const cn_view *view, size_t at)
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
    put_text(w, text);
}

static void put_field(writer *w, const cn_struct *s, const cn_field *f, const cn_extent *where,
                      unsigned level);

static void put_struct(writer *w, const cn_schema *schema, cn_view view, size_t base,
                       unsigned level)
{
    cn_struct s;
    char number[16];
    bool first = true;
    cn_struct_begin(&s, schema, view, base);
    put_text(w, "{");
    for (uint32_t i = 0; i < schema->count; i++) {
        const cn_field *f = &schema->fields[i];
        cn_extent where;
        if (f->class == CN_CLASS_NONE || !cn_struct_next(w->reader, &s, i, &where))
            continue;
        (void)snprintf(number, sizeof number, "%u", i);
        put_text(w, first ? "" : ",");
        put_quoted(w, f->name ? f->name : number);
        put_text(w, ":");
        put_field(w, &s, f, &where, level + 1);
        first = false;
    }
    put_text(w, "}");
}

/* The member that an earlier entry selects, under its name. */
static void put_union(writer *w, const cn_struct *s, const cn_field *f, const cn_extent *where,
                      unsigned level)
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
        put_text(w, "null");
        return;
    }
    const cn_field *chosen = &f->nested->fields[selected];
    put_text(w, "{");
    put_quoted(w, chosen->name ? chosen->name : "");
    put_text(w, ":");
    put_field(w, &members, chosen, &member, level + 1);
    put_text(w, "}");
}

static void put_enum(writer *w, const cn_field *f, const cn_view *view, size_t at)
{
    char text[256];
    uint64_t value;
    (void)cn_read_unsigned(view, at, f->size, &value);
    (void)cn_enum_name(f->nested, value, text, sizeof text);
    put_quoted(w, text);
}

static void put_handle(writer *w, const cn_field *f, const cn_view *view, size_t at)
{
    uint64_t handle;
    (void)cn_read_unsigned(view, at, f->size, &handle);
    const cn_name *name = cn_name_of((cn_handle)(uintptr_t)handle);
    put_quoted(w, name ? name->text : "");
}

static void put_element(writer *w, const cn_struct *s, const cn_field *f, const cn_extent *where,
                        size_t at, unsigned level)
{
    double d;
    switch (f->class) {
    case CN_CLASS_FLOAT:
        (void)cn_read_float(&where->view, at, f, &d);
        put_double(w, d);
        break;
    case CN_CLASS_NESTED:
        put_struct(w, f->nested, where->view, at, level);
        break;
    case CN_CLASS_UNION:
        put_union(w, s, f, where, level);
        break;
    case CN_CLASS_ENUM:
        put_enum(w, f, &where->view, at);
        break;
    case CN_CLASS_HANDLE:
        put_handle(w, f, &where->view, at);
        break;
    default:
        put_number(w, f, &where->view, at);
    }
}

static void put_field(writer *w, const cn_struct *s, const cn_field *f, const cn_extent *where,
                      unsigned level)
{
    if (level > MAX_LEVELS) {
        put_text(w, "null");
        return;
    }
    bool text =
        f->class == CN_CLASS_TEXT || (f->class == CN_CLASS_CHARS && (f->array || f->is_pointer));
    if (text) {
        put_quoted(w, cn_read_text(w->reader, f, where));
        return;
    }
    if (!f->array) {
        put_element(w, s, f, where, where->at, level);
        return;
    }
    put_text(w, "[");
    for (size_t i = 0; i < where->count && !w->full; i++) {
        put_text(w, i ? "," : "");
        put_element(w, s, f, where, where->at + i * f->size, level);
    }
    put_text(w, "]");
}

const char *cn_field_json(cn_reader *r, const cn_struct *s, const cn_field *f,
                          const cn_extent *where)
{
    char json[MAX_JSON];
    writer w = {r, json, json + sizeof json, false};
    put_field(&w, s, f, where, 0);
    if (w.full || (size_t)(w.at - json) >= sizeof r->scratch->bytes - r->scratch->used) {
        r->scratch->cut = true;
        return "null";
    }
    return cn_scratch_text(r->scratch, json, (size_t)(w.at - json));
}
