/* Repair of values: what stands between them, arrays, strings, keys. */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/json_text.h"

/* ---- between values -------------------------------------------------------------------------- */

void kt_fix_space(kt_fix *f)
{
    for (;;) {
        int c = kt_fix_byte(f, f->at);
        size_t end = c == '/' ? kt_look_comment(f, f->at) : f->at + (c >= 0 && c <= ' ');
        if (end == f->at)
            return;
        if (c == '/')
            kt_fix_count(f, KT_REPAIR_COMMENT, f->at, end - f->at);
        else if (c != ' ' && c != '\n' && c != '\r' && c != '\t')
            kt_fix_count(f, KT_REPAIR_GARBAGE, f->at, 1);
        f->at = end;
    }
}

int kt_fix_next_item(kt_fix *f, bool first, bool *comma)
{
    size_t last = 0;
    *comma = false;
    for (;;) {
        kt_fix_space(f);
        int c = kt_fix_byte(f, f->at);
        bool closes = c == '}' || c == ']';
        if (c != ',') {
            if (closes && *comma && !first)
                kt_fix_count(f, KT_REPAIR_TRAILING_COMMA, last, 1);
            return c;
        }
        if (*comma || first)
            kt_fix_count(f, KT_REPAIR_TRAILING_COMMA, f->at, 1);
        last = f->at++;
        *comma = true;
    }
}

bool kt_fix_push(kt_fix *f, char bracket, kt_level level)
{
    f->too_deep = f->too_deep || f->depth == KT_FIX_DEPTH;
    if (f->depth == KT_FIX_DEPTH)
        return false;
    f->open[f->depth] = bracket;
    f->level[f->depth++] = (uint8_t)level;
    return true;
}

/* ---- arrays ---------------------------------------------------------------------------------- */

/* An item whose end is not certain makes the places of all others uncertain. */
static kt_fixed array_item(kt_fix *f)
{
    kt_text_end end = {0, KT_SURE, false};
    kt_fixed status = kt_fix_value(f, 0, KT_LEVEL_INNER, &end);
    return status == KT_FIXED && end.damaged && end.sure != KT_SURE &&
                   kt_fix_byte(f, kt_look_space(f, f->at)) != ']'
               ? KT_FIX_FAILED
               : status;
}

static kt_fixed fix_array(kt_fix *f)
{
    if (!kt_fix_push(f, '[', KT_LEVEL_INNER))
        return KT_FIX_FAILED;
    kt_fix_put_z(f, "[");
    f->at++;
    for (bool first = true, comma;; first = false) {
        size_t before = f->at;
        int c = kt_fix_next_item(f, first, &comma);
        if (c < 0)
            return KT_FIX_CUT;
        if (c == ']')
            break;
        if (c == '}')
            return KT_FIX_FAILED;
        if (!first && !comma)
            kt_fix_count(f, KT_REPAIR_MISSING_COMMA, before, 0);
        if (!first)
            kt_fix_put_z(f, ",");
        kt_fixed status = array_item(f);
        if (status != KT_FIXED)
            return status;
    }
    kt_fix_put_z(f, "]");
    f->at++;
    f->depth--;
    return KT_FIXED;
}

/* ---- any value ------------------------------------------------------------------------------- */

static kt_fixed fix_string(kt_fix *f, size_t least, kt_text_end *end)
{
    char quote = f->text[f->at];
    size_t from = f->at;
    kt_fixed status = kt_fix_text_end(f, from, least, end);
    if (status != KT_FIXED)
        return status;
    if (quote == '\'')
        kt_fix_count(f, KT_REPAIR_SINGLE_QUOTES, from, end->at + 1 - from);
    kt_fix_copy(f, from + 1, end->at, quote);
    f->at = end->at + 1;
    return KT_FIXED;
}

kt_fixed kt_fix_value(kt_fix *f, size_t least, kt_level object, kt_text_end *end)
{
    kt_fix_space(f);
    int c = kt_fix_byte(f, f->at);
    *end = (kt_text_end){0, KT_SURE, false};
    switch (c) {
    case -1:
        return KT_FIX_CUT;
    case '"':
    case '\'':
        return fix_string(f, least, end);
    case '{': /* an event is never part of another */
        return kt_look_event(f, f->at) ? KT_FIX_FAILED : kt_fix_object(f, object);
    case '[':
        return fix_array(f);
    default:
        return kt_fix_scalar(f);
    }
}

/* A key without quotes, which has its colon at once. */
static kt_fixed bare_key(kt_fix *f)
{
    size_t from = f->at, end = from;
    while (end - from < 128 && kt_bare_char(kt_fix_byte(f, end), end == from))
        end++;
    int c = kt_fix_byte(f, kt_look_space(f, end));
    if (end == from || c != ':')
        return c < 0 ? KT_FIX_CUT : KT_FIX_FAILED;
    kt_fix_count(f, KT_REPAIR_BARE_KEY, from, end - from);
    kt_fix_copy(f, from, end, 0);
    f->at = end;
    return KT_FIXED;
}

/* "tid: or tid": of a known key. */
static bool half_quoted_key(kt_fix *f)
{
    kineto_string key;
    size_t from = f->at;
    size_t end = kt_look_half_quoted(f, from, (kt_level)f->level[f->depth - 1], &key);
    if (!end)
        return false;
    kt_fix_count(f, KT_REPAIR_BARE_KEY, from, end - from);
    kt_fix_copy(f, (size_t)(key.data - f->text), (size_t)(key.data - f->text) + key.size, 0);
    f->at = end;
    return true;
}

/* The key that was written last, without escapes if it needs none. */
static void unescape_key(kt_fix *f, size_t from)
{
    char room[KT_PLAIN_KEY_BYTES];
    if (f->no_memory)
        return;
    kineto_string raw = {f->out->data + from + 1, f->out->count - from - 2};
    kineto_string plain = kt_json_plain_key(raw, room);
    bool needs_none = plain.data == room;
    for (size_t i = 0; needs_none && i < plain.size; i++)
        needs_none = kt_bare_char(plain.data[i], false) || plain.data[i] == ' ';
    if (!needs_none)
        return;
    f->out->count = from + 1;
    kt_fix_put(f, plain.data, plain.size);
    kt_fix_put_z(f, "\"");
}

/* A key in quotes, up to *end. */
static void put_key(kt_fix *f, const kt_text_end *end)
{
    size_t from = f->at, out_from = f->out->count;
    char quote = f->text[from];
    if (quote == '\'')
        kt_fix_count(f, KT_REPAIR_SINGLE_QUOTES, from, end->at + 1 - from);
    kt_fix_copy(f, from + 1, end->at, quote);
    unescape_key(f, out_from);
    f->at = end->at + 1;
}

kt_fixed kt_fix_key(kt_fix *f, kt_text_end *end)
{
    size_t from = f->at;
    char quote = f->text[from];
    *end = (kt_text_end){from, KT_SURE, false};
    if (quote != '"' && quote != '\'')
        return half_quoted_key(f) ? KT_FIXED : bare_key(f);
    bool ends = kt_fix_key_end(f, from, end);
    bool whole = ends && kt_fix_byte(f, kt_look_space(f, end->at + 1)) == ':';
    size_t reached = f->at;
    f->at = from;
    if (!whole && half_quoted_key(f)) {
        *end = (kt_text_end){from, KT_SURE, false};
        return KT_FIXED;
    }
    f->at = reached;
    if (!ends)
        return KT_FIX_FAILED;
    f->at = from;
    put_key(f, end);
    return KT_FIXED;
}
