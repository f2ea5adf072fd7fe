/* Repair of values: what stands between them, arrays, strings, keys. */
#include "trace/repair/repair_impl.h"

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

kt_fixed kt_fix_key(kt_fix *f, kt_text_end *end)
{
    size_t from = f->at;
    char quote = f->text[from];
    *end = (kt_text_end){from, KT_SURE, false};
    if (quote != '"' && quote != '\'')
        return bare_key(f);
    if (!kt_fix_key_end(f, from, end))
        return KT_FIX_FAILED;
    if (quote == '\'')
        kt_fix_count(f, KT_REPAIR_SINGLE_QUOTES, from, end->at + 1 - from);
    kt_fix_copy(f, from + 1, end->at, quote);
    f->at = end->at + 1;
    return KT_FIXED;
}
