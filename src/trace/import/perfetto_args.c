/* Annotations of Perfetto's events as arguments: lists and dictionaries become JSON text. Names that ckineto gives the
 * columns of a row are put into these. */
#include "trace/import/perfetto_read.h"

#define MAX_VALUE_DEPTH 64u

/* ---- values inside of values, as JSON --------------------------------------------------------- */

static bool put_json_value(kt_perfetto *p, const pf_sequence *s, kineto_string value, uint32_t depth);

/* The key of an entry of a dictionary. */
static kineto_string find_key(kt_perfetto *p, const pf_sequence *s, kineto_string entry)
{
    kt_wire w = kt_wire_of(entry);
    kt_field f;
    uint32_t id;
    kineto_string key = {"", 0};
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_VALUE_KEY, KT_WIRE_BYTES))
            key = f.bytes;
        else if (kt_field_is(&f, PF_VALUE_KEY_IID, KT_WIRE_VARINT) && pf_text(s, PF_TEXT_KEY, f.n, &id))
            key = kineto_trace_string(p->m.b->trace, id);
    }
    return key;
}

/* The items of a list or the entries of a dictionary. */
static void put_json_items(kt_perfetto *p, const pf_sequence *s, kineto_string value, uint32_t field, uint32_t depth)
{
    kt_wire w = kt_wire_of(value);
    kt_field f;
    bool is_dictionary = field == PF_VALUE_ENTRY, is_first = true;
    kt_json_text_put(&p->json, kb_string(is_dictionary ? "{" : "["));
    while (kt_wire_next(&w, &f)) {
        if (!kt_field_is(&f, field, KT_WIRE_BYTES))
            continue;
        if (!is_first)
            kt_json_text_put(&p->json, kb_string(","));
        is_first = false;
        if (is_dictionary) {
            kt_json_text_string(&p->json, find_key(p, s, f.bytes));
            kt_json_text_put(&p->json, kb_string(":"));
        }
        if (!put_json_value(p, s, f.bytes, depth + 1))
            kt_json_text_put(&p->json, kb_string("null"));
    }
    kt_json_text_put(&p->json, kb_string(is_dictionary ? "}" : "]"));
}

/* ckineto writes these values, which have no type in Perfetto, as texts, and marks texts that are the same. */
static bool is_own_word(const kt_perfetto *p, kineto_string value, kineto_string text)
{
    kt_wire w = kt_wire_of(value);
    kt_field f;
    bool is_word = p->is_own && text.size <= 4 &&
                   (kb_string_is(text, "[]") || kb_string_is(text, "{}") || kb_string_is(text, "null"));
    while (is_word && kt_wire_next(&w, &f))
        is_word = f.id != PF_VALUE_IS_TEXT;
    return is_word;
}

/* A text inside of a list or dictionary. */
static void put_json_string(kt_perfetto *p, kineto_string value, kineto_string text)
{
    if (is_own_word(p, value, text))
        kt_json_text_put(&p->json, text);
    else
        kt_json_text_string(&p->json, text);
}

/* As viewers show addresses: in hexadecimal digits, as a text. */
static void put_json_pointer(kt_perfetto *p, uint64_t n)
{
    char text[24];
    kb_snprintf(text, sizeof text, "0x%llx", (unsigned long long)n);
    kt_json_text_string(&p->json, kb_string(text));
}

/* JSON that the program wrote itself; text that is none is kept as a text. */
static void put_raw_json(kt_perfetto *p, kineto_string text)
{
    if (kb_json_valid(text))
        kt_json_text_put(&p->json, text);
    else
        kt_json_text_string(&p->json, text);
}

/* The value in a field of an annotation. False: it is none. */
static bool put_json_field(kt_perfetto *p, const pf_sequence *s, kineto_string value, const kt_field *f, uint32_t depth)
{
    uint32_t id;
    switch (f->id << 3 | f->wire) {
    case PF_VALUE_BOOL << 3 | KT_WIRE_VARINT: kt_json_text_put(&p->json, kb_string(f->n ? "true" : "false")); return true;
    case PF_VALUE_UINT << 3 | KT_WIRE_VARINT: kt_json_text_uint(&p->json, f->n); return true;
    case PF_VALUE_INT << 3 | KT_WIRE_VARINT: kt_json_text_int(&p->json, (int64_t)f->n); return true;
    case PF_VALUE_DOUBLE << 3 | KT_WIRE_FIXED64: kt_json_text_double(&p->json, kt_field_double(f)); return true;
    case PF_VALUE_STRING << 3 | KT_WIRE_BYTES: put_json_string(p, value, f->bytes); return true;
    case PF_VALUE_POINTER << 3 | KT_WIRE_VARINT: put_json_pointer(p, f->n); return true;
    case PF_VALUE_JSON << 3 | KT_WIRE_BYTES: put_raw_json(p, f->bytes); return true;
    case PF_VALUE_ENTRY << 3 | KT_WIRE_BYTES:
    case PF_VALUE_ITEM << 3 | KT_WIRE_BYTES: put_json_items(p, s, value, f->id, depth); return true;
    case PF_VALUE_STRING_IID << 3 | KT_WIRE_VARINT:
        (void)pf_text(s, PF_TEXT_VALUE, f->n, &id);
        kt_json_text_string(&p->json, kineto_trace_string(p->m.b->trace, id));
        return true;
    default: return false;
    }
}

/* False: the message has no value, or it is nested too deep. */
static bool put_json_value(kt_perfetto *p, const pf_sequence *s, kineto_string value, uint32_t depth)
{
    kt_wire w = kt_wire_of(value);
    kt_field f;
    if (depth > MAX_VALUE_DEPTH) {
        p->deep_values++;
        return false;
    }
    while (kt_wire_next(&w, &f))
        if (put_json_field(p, s, value, &f, depth))
            return true;
    return false;
}

/* ---- annotations of the old form -------------------------------------------------------------- */

enum { NESTED_KEYS = 2, NESTED_VALUES = 3, NESTED_ITEMS = 4, NESTED_INT = 5, NESTED_DOUBLE = 6, NESTED_BOOL = 7, NESTED_STRING = 8 };

static void put_nested_value(kt_perfetto *p, kineto_string value, uint32_t depth);

/* Keys and values are two lists of the same length, in the same order. */
static void put_nested_dictionary(kt_perfetto *p, kineto_string value, uint32_t depth)
{
    kt_wire keys = kt_wire_of(value), values = kt_wire_of(value);
    kt_field key, f;
    bool is_first = true;
    kt_json_text_put(&p->json, kb_string("{"));
    while (kt_wire_next(&keys, &key)) {
        bool has_value = false;
        if (!kt_field_is(&key, NESTED_KEYS, KT_WIRE_BYTES))
            continue;
        while (!has_value && kt_wire_next(&values, &f))
            has_value = kt_field_is(&f, NESTED_VALUES, KT_WIRE_BYTES);
        if (!has_value)
            break;
        kt_json_text_put(&p->json, kb_string(is_first ? "" : ","));
        is_first = false;
        kt_json_text_string(&p->json, key.bytes);
        kt_json_text_put(&p->json, kb_string(":"));
        put_nested_value(p, f.bytes, depth + 1);
    }
    kt_json_text_put(&p->json, kb_string("}"));
}

/* Items of the old form of a list. */
static void put_nested_list(kt_perfetto *p, kineto_string value, uint32_t depth)
{
    kt_wire w = kt_wire_of(value);
    kt_field f;
    bool is_first = true;
    kt_json_text_put(&p->json, kb_string("["));
    while (kt_wire_next(&w, &f)) {
        if (!kt_field_is(&f, NESTED_ITEMS, KT_WIRE_BYTES))
            continue;
        kt_json_text_put(&p->json, kb_string(is_first ? "" : ","));
        is_first = false;
        put_nested_value(p, f.bytes, depth + 1);
    }
    kt_json_text_put(&p->json, kb_string("]"));
}

/* A value, which its first field of a known type makes. */
static bool put_nested_field(kt_perfetto *p, kineto_string value, const kt_field *f, uint32_t depth)
{
    switch (f->id << 3 | f->wire) {
    case NESTED_KEYS << 3 | KT_WIRE_BYTES: put_nested_dictionary(p, value, depth); return true;
    case NESTED_ITEMS << 3 | KT_WIRE_BYTES: put_nested_list(p, value, depth); return true;
    case NESTED_INT << 3 | KT_WIRE_VARINT: kt_json_text_int(&p->json, (int64_t)f->n); return true;
    case NESTED_DOUBLE << 3 | KT_WIRE_FIXED64: kt_json_text_double(&p->json, kt_field_double(f)); return true;
    case NESTED_BOOL << 3 | KT_WIRE_VARINT: kt_json_text_put(&p->json, kb_string(f->n ? "true" : "false")); return true;
    case NESTED_STRING << 3 | KT_WIRE_BYTES: kt_json_text_string(&p->json, f->bytes); return true;
    default: return false;
    }
}

/* Values of the old form, before annotations could hold each other. */
static void put_nested_value(kt_perfetto *p, kineto_string value, uint32_t depth)
{
    kt_wire w = kt_wire_of(value);
    kt_field f;
    bool has_value = false;
    while (depth <= MAX_VALUE_DEPTH && !has_value && kt_wire_next(&w, &f))
        has_value = put_nested_field(p, value, &f, depth);
    p->deep_values += depth > MAX_VALUE_DEPTH;
    if (!has_value)
        kt_json_text_put(&p->json, kb_string("null"));
}

/* ---- columns ---------------------------------------------------------------------------------- */

/* Ids and flags of a row, which ckineto's writer states as annotations. */
static bool take_column(kt_perfetto *p, uint32_t key, const kt_field *f, kt_row *row)
{
    bool is_number = f->id == PF_VALUE_UINT || f->id == PF_VALUE_INT, is_bool = f->id == PF_VALUE_BOOL;
    if (f->wire != KT_WIRE_VARINT)
        return false;
    if (is_number && f->n && key == p->correlation_key)
        row->correlation_id = f->n;
    else if (is_number && f->n && key == p->external_key)
        row->external_id = f->n;
    else if (is_bool && !f->n && key == p->finished_key)
        row->flags |= KINETO_ACTIVITY_OPEN_END;
    else if (is_bool && !f->n && key == p->started_key)
        row->flags |= KINETO_ACTIVITY_OPEN_START;
    else if (is_bool && f->n && key == p->lost_key)
        row->flags |= KINETO_ACTIVITY_ARGS_LOST;
    else if (p->is_own && is_number && key == p->async_key && row->form == KINETO_FORM_SLICE) {
        row->form = KINETO_FORM_ASYNC;
        row->async_id = f->n;
    } else
        return false;
    return true;
}

/* rocprofv3 calls the correlation id so; the argument stays. */
static void note_correlation(const kt_perfetto *p, uint32_t key, const kt_field *f, kt_row *row)
{
    if (key == p->corr_key && !row->correlation_id && f->wire == KT_WIRE_VARINT && !p->is_own)
        row->correlation_id = f->n;
}

/* ---- annotations ------------------------------------------------------------------------------ */

/* The JSON text that was built becomes the argument, unless it grew beyond its bound. */
static void put_json_argument(kt_perfetto *p, uint32_t key)
{
    p->no_memory |= p->json.no_memory;
    p->long_values += p->json.is_too_long;
    if (!p->json.is_too_long && !p->no_memory)
        kt_args_put_json(p->m.b, key, KINETO_ARG_JSON, kt_json_text_of(&p->json));
}

/* The value of a field as an argument. False: it is none. */
static bool put_argument(kt_perfetto *p, const pf_sequence *s, uint32_t key, kineto_string annotation, const kt_field *f)
{
    kt_builder *b = p->m.b;
    uint32_t id;
    kt_json_text_begin(&p->json);
    switch (f->id << 3 | f->wire) {
    case PF_VALUE_BOOL << 3 | KT_WIRE_VARINT: kt_args_put_bool(b, key, f->n != 0); return true;
    case PF_VALUE_UINT << 3 | KT_WIRE_VARINT: kt_args_put_number(b, key, f->n); return true;
    case PF_VALUE_INT << 3 | KT_WIRE_VARINT:
        f->n >> 63 ? kt_args_put_int(b, key, (int64_t)f->n) : kt_args_put_number(b, key, f->n);
        return true;
    case PF_VALUE_DOUBLE << 3 | KT_WIRE_FIXED64: kt_args_put_double(b, key, kt_field_double(f)); return true;
    case PF_VALUE_STRING << 3 | KT_WIRE_BYTES:
        if (is_own_word(p, annotation, f->bytes))
            kt_args_put_json(b, key, KINETO_ARG_JSON, f->bytes);
        else
            kt_args_put_string(b, key, f->bytes);
        return true;
    case PF_VALUE_STRING_IID << 3 | KT_WIRE_VARINT:
        (void)pf_text(s, PF_TEXT_VALUE, f->n, &id);
        kt_args_put_shared(b, key, KINETO_ARG_STRING, id);
        return true;
    case PF_VALUE_NESTED << 3 | KT_WIRE_BYTES:
        put_nested_value(p, f->bytes, 0);
        put_json_argument(p, key);
        return true;
    default:
        if (!put_json_field(p, s, annotation, f, 0))
            return false;
        put_json_argument(p, key);
        return true;
    }
}

/* The key is before the value in files of all writers; if it is not, a second walk finds it. */
static uint32_t find_key_id(kt_perfetto *p, const pf_sequence *s, kineto_string annotation)
{
    kt_wire w = kt_wire_of(annotation);
    kt_field f;
    uint32_t key = 0;
    while (!key && kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_VALUE_KEY_IID, KT_WIRE_VARINT))
            (void)pf_text(s, PF_TEXT_KEY, f.n, &key);
        else if (kt_field_is(&f, PF_VALUE_KEY, KT_WIRE_BYTES))
            key = kt_string(p->m.b, f.bytes);
    }
    return key;
}

/* An annotation has one value. If a damaged one has several, the first that can be read counts. */
void pf_put_annotation(kt_perfetto *p, const pf_sequence *s, kineto_string annotation, kt_row *row)
{
    uint32_t key = find_key_id(p, s, annotation);
    kt_wire w = kt_wire_of(annotation);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (f.id == PF_VALUE_PROTO && f.wire == KT_WIRE_BYTES)
            p->proto_values++;
        if (take_column(p, key, &f, row))
            return;
        note_correlation(p, key, &f, row);
        if (put_argument(p, s, key, annotation, &f))
            return;
    }
    p->bad_events += w.is_bad;
}
