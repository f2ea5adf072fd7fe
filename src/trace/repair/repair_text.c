/* Repair of strings: where a string with quotes inside ends, and writing it strictly. */
#include "trace/repair/repair_impl.h"

/* ---- the end of a string --------------------------------------------------------------------- */

/* The first quote that no backslash precedes, *at. False: another event or the text's end is there.
 */
static bool first_quote(kt_fix *f, size_t from, char quote, size_t *at)
{
    size_t limit = quote == '"' ? f->size : from + KT_REPAIR_REACH_BYTES;
    for (*at = from; *at < limit; ++*at) {
        int c = kt_fix_byte(f, *at);
        if (c < 0 || (c == '{' && kt_look_event(f, *at)))
            return false;
        if (c == quote)
            return true;
        *at += c == '\\';
    }
    *at = KB_MIN(*at, f->size);
    f->ran_out = f->ran_out || *at == f->size;
    return false;
}

/* A comma in the string before what would be the next member: is the quote before it missing? */
static bool member_follows(kt_fix *f, size_t comma, char quote)
{
    size_t before = comma;
    while (before > 0 && (unsigned char)f->text[before - 1] <= ' ')
        before--;
    if (before > 0 && f->text[before - 1] == quote)
        return false; /* that quote was looked at */
    return f->open[f->depth - 1] == '{' &&
           kt_look_key(f, kt_look_space(f, comma + 1), (kt_level)f->level[f->depth - 1]) != KT_NO;
}

/* JSON that was put into a string without escaping it is one unit. */
static bool embedded_end(kt_fix *f, size_t at, size_t least, kt_text_end *end)
{
    int first = kt_fix_byte(f, at + 1);
    if (first != '{' && first != '[')
        return false;
    size_t close = kt_look_balanced(f, at + 1);
    if (!close || close < least || kt_fix_byte(f, close) != f->text[at] ||
        kt_look_end(f, close + 1, f->depth) == KT_NO)
        return false;
    *end = (kt_text_end){close, KT_SURE, true};
    return true;
}

/* How far the search for an end has come. */
typedef struct search {
    size_t i, least, fallback;
    uint32_t nested;
    char quote;
} search;

/* Is the quote at i the end? Inside brackets of the string only if it is certain. */
static bool ends_at(kt_fix *f, search *s, kt_text_end *end)
{
    kt_sure sure = s->i < s->least ? KT_NO : kt_look_end(f, s->i + 1, f->depth);
    if (sure == KT_MAYBE && s->nested) {
        s->fallback = s->fallback ? s->fallback : s->i;
        return false;
    }
    *end = (kt_text_end){s->i, sure, true};
    return sure != KT_NO;
}

/* One byte of the string. False: the search is over, with `found` or without. */
static bool search_step(kt_fix *f, search *s, kt_text_end *end, bool *found)
{
    int c = kt_fix_byte(f, s->i);
    if (c == '\\')
        c = kt_fix_byte(f, ++s->i) == s->quote ? s->quote : ' ';
    if (c < 0)
        return false;
    if (c == s->quote) {
        *found = ends_at(f, s, end);
        return !*found;
    }
    if (c == '{' && kt_look_event(f, s->i))
        return false;
    s->nested += c == '{' || c == '[';
    s->nested -= s->nested && (c == '}' || c == ']');
    return c != ',' || s->nested || !member_follows(f, s->i, s->quote);
}

static kt_fixed damaged_end(kt_fix *f, size_t at, size_t least, kt_text_end *end)
{
    search s = {at + 1, least, 0, 0, f->text[at]};
    bool found = false;
    if (embedded_end(f, at, least, end))
        return KT_FIXED;
    while (s.i < at + KT_REPAIR_REACH_BYTES && search_step(f, &s, end, &found))
        s.i++;
    if (found)
        return KT_FIXED;
    if (s.fallback) {
        *end = (kt_text_end){s.fallback, KT_MAYBE, true};
        return KT_FIXED;
    }
    f->at = KB_MIN(s.i, f->size);
    return KT_FIX_FAILED;
}

kt_fixed kt_fix_text_end(kt_fix *f, size_t at, size_t least, kt_text_end *end)
{
    size_t quote;
    if (!first_quote(f, at + 1, f->text[at], &quote)) {
        f->at = quote;
        return KT_FIX_FAILED;
    }
    *end = (kt_text_end){quote, KT_NO, false};
    if (quote >= least)
        end->sure = kt_look_end(f, quote + 1, f->depth);
    return end->sure != KT_NO ? KT_FIXED : damaged_end(f, at, least, end);
}

bool kt_fix_key_end(kt_fix *f, size_t at, kt_text_end *end)
{
    char quote = f->text[at];
    *end = (kt_text_end){at, KT_SURE, false};
    if (!first_quote(f, at + 1, quote, &end->at)) {
        f->at = end->at;
        return false;
    }
    if (kt_fix_byte(f, kt_look_space(f, end->at + 1)) == ':')
        return true;
    for (size_t i = at + 1; i < at + 256; i++) {
        int c = kt_fix_byte(f, i);
        if (c < ' ' || (c != quote && strchr(",{}[]", c)))
            break;
        if (c == quote && i > end->at && kt_fix_byte(f, kt_look_space(f, i + 1)) == ':') {
            *end = (kt_text_end){i, KT_MAYBE, true};
            return true;
        }
    }
    return true; /* the colon is missing, or all is wrong: seen later */
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool is_hex(int c) { return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'f'); }

/* Bytes of the valid escape at `at`, 0 if it is none. */
static size_t escape_bytes(const kt_fix *f, size_t at, size_t to)
{
    if (at + 1 >= to)
        return 0;
    char c = f->text[at + 1];
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? 2 : 0;
    for (size_t i = at + 2; i < at + 6; i++)
        if (i >= to || !is_hex((unsigned char)f->text[i]))
            return 0;
    return 6;
}

static size_t copy_escape(kt_fix *f, size_t at, size_t to, char quote)
{
    size_t bytes = escape_bytes(f, at, to);
    if (bytes) {
        kt_fix_put(f, f->text + at, bytes);
        return bytes;
    }
    if (quote == '\'' && at + 1 < to && f->text[at + 1] == '\'') {
        kt_fix_put_z(f, "'");
        return 2;
    }
    kt_fix_count(f, KT_REPAIR_BAD_ESCAPE, at, 1);
    kt_fix_put_z(f, "\\\\");
    return 1;
}

static size_t copy_controls(kt_fix *f, size_t at, size_t to)
{
    size_t end = at;
    for (; end < to && (unsigned char)f->text[end] < 0x20; end++) {
        char escaped[6];
        char *stop =
            kb_json_escape_body(escaped, (kineto_string){f->text + end, 1}, &(uint64_t){0});
        kt_fix_put(f, escaped, (size_t)(stop - escaped));
    }
    kt_fix_count(f, KT_REPAIR_CONTROL_CHAR, at, end - at);
    return end - at;
}

/* Bytes of one character, or of a run of bytes that are none. */
static size_t copy_high(kt_fix *f, size_t at, size_t to)
{
    size_t bytes = kb_utf8_length(f->text + at, to - at);
    if (!bytes) {
        while (at + bytes < to && (unsigned char)f->text[at + bytes] >= 0x80 &&
               !kb_utf8_length(f->text + at + bytes, to - at - bytes))
            bytes += kb_utf8_bad_length(f->text + at + bytes, to - at - bytes);
        kt_fix_count(f, KT_REPAIR_INVALID_UTF8, at, bytes);
    }
    kt_fix_put(f, f->text + at, bytes);
    return bytes;
}

/* A byte that cannot stand in a strict string as it is, or may not be able to. */
static size_t copy_special(kt_fix *f, size_t at, size_t to, char quote)
{
    unsigned char c = (unsigned char)f->text[at];
    if (c == '\\')
        return copy_escape(f, at, to, quote);
    if (c < 0x20)
        return copy_controls(f, at, to);
    if (c >= 0x80)
        return copy_high(f, at, to);
    if (quote == '"')
        kt_fix_count(f, KT_REPAIR_RAW_QUOTE, at, 1);
    kt_fix_put_z(f, "\\\"");
    return 1;
}

void kt_fix_copy(kt_fix *f, size_t from, size_t to, char quote)
{
    size_t plain = from;
    kt_fix_put_z(f, "\"");
    for (size_t at = from; at < to;) {
        unsigned char c = (unsigned char)f->text[at];
        if (c >= 0x20 && c < 0x80 && c != '"' && c != '\\') {
            at++;
            continue;
        }
        kt_fix_put(f, f->text + plain, at - plain);
        at += copy_special(f, at, to, quote);
        plain = at;
    }
    kt_fix_put(f, f->text + plain, to - plain);
    kt_fix_put_z(f, "\"");
}
