/* Repair of values and keys: where a string with quotes inside ends, strict spelling of strings,
 * numbers and words, arrays, and white space between values. */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/json_text.h"

/* ---- the end of a string --------------------------------------------------------------------- */

/* Finds the first quote without a backslash before it, *at. False: another event begins or the text
 * ends before. */
static bool find_first_quote(kt_fix *f, size_t from, char quote, size_t *at)
{
    size_t limit = quote == '"' ? f->size : from + KT_REPAIR_REACH_BYTES;
    for (*at = from; *at < limit; ++*at) {
        int c = kt_fix_byte(f, *at);
        if (c < 0 || (c == '{' && kt_peek_event(f, *at)))
            return false;
        if (c == quote)
            return true;
        *at += c == '\\';
    }
    *at = KB_MIN(*at, f->size);
    f->ran_out = f->ran_out || *at == f->size;
    return false;
}

/* True if the comma in a string precedes what looks like the next member: then the quote before it
 * is missing. */
static bool next_member_follows(kt_fix *f, size_t comma, char quote)
{
    size_t before = comma;
    while (before > 0 && (unsigned char)f->text[before - 1] <= ' ')
        before--;
    if (before > 0 && f->text[before - 1] == quote)
        return false; /* that quote has been checked */
    return f->open[f->depth - 1] == '{' &&
           kt_peek_key(f, kt_peek_space_end(f, comma + 1), (kt_level)f->level[f->depth - 1]) !=
               KT_IMPOSSIBLE;
}

/* JSON that was put into a string without escaping ends with its balanced brackets. */
static bool find_embedded_json_end(kt_fix *f, size_t at, size_t min_end, kt_text_end *end)
{
    int first = kt_fix_byte(f, at + 1);
    if (first != '{' && first != '[')
        return false;
    size_t close = kt_peek_balanced_end(f, at + 1);
    if (!close || close < min_end || kt_fix_byte(f, close) != f->text[at] ||
        kt_peek_value_end(f, close + 1, f->depth) == KT_IMPOSSIBLE)
        return false;
    *end = (kt_text_end){close, KT_CERTAIN, true};
    return true;
}

/* The state of a search for the closing quote. */
typedef struct quote_search {
    size_t i;       /* position of the search */
    size_t min_end; /* quotes before do not count */
    /* First quote that could be the end inside brackets; 0: none. */
    size_t fallback;
    uint32_t nested;
    char quote;
} quote_search;

/* True if the quote at s->i is the end. Inside brackets of the string it has to be certain. */
static bool is_string_end(kt_fix *f, quote_search *s, kt_text_end *end)
{
    kt_certainty certainty =
        s->i < s->min_end ? KT_IMPOSSIBLE : kt_peek_value_end(f, s->i + 1, f->depth);
    if (certainty == KT_POSSIBLE && s->nested) {
        s->fallback = s->fallback ? s->fallback : s->i;
        return false;
    }
    *end = (kt_text_end){s->i, certainty, true};
    return certainty != KT_IMPOSSIBLE;
}

/* Checks one byte of the string. False: the search is over; *found: with an end. */
static bool step_quote_search(kt_fix *f, quote_search *s, kt_text_end *end, bool *found)
{
    int c = kt_fix_byte(f, s->i);
    if (c == '\\')
        c = kt_fix_byte(f, ++s->i) == s->quote ? s->quote : ' ';
    if (c < 0)
        return false;
    if (c == s->quote) {
        *found = is_string_end(f, s, end);
        return !*found;
    }
    if (c == '{' && kt_peek_event(f, s->i))
        return false;
    s->nested += c == '{' || c == '[';
    s->nested -= s->nested && (c == '}' || c == ']');
    return c != ',' || s->nested || !next_member_follows(f, s->i, s->quote);
}

/* Searches for the end of a string whose first quote is not its end. */
static kt_fixed find_damaged_end(kt_fix *f, size_t at, size_t min_end, kt_text_end *end)
{
    quote_search s = {at + 1, min_end, 0, 0, f->text[at]};
    bool found = false;
    if (find_embedded_json_end(f, at, min_end, end))
        return KT_FIXED;
    while (s.i < at + KT_REPAIR_REACH_BYTES && step_quote_search(f, &s, end, &found))
        s.i++;
    if (found)
        return KT_FIXED;
    if (s.fallback) {
        *end = (kt_text_end){s.fallback, KT_POSSIBLE, true};
        return KT_FIXED;
    }
    f->at = KB_MIN(s.i, f->size);
    return KT_FIX_FAILED;
}

kt_fixed kt_fix_text_end(kt_fix *f, size_t at, size_t min_end, kt_text_end *end)
{
    size_t quote;
    if (!find_first_quote(f, at + 1, f->text[at], &quote)) {
        f->at = quote;
        return KT_FIX_FAILED;
    }
    *end = (kt_text_end){quote, KT_IMPOSSIBLE, false};
    if (quote >= min_end)
        end->certainty = kt_peek_value_end(f, quote + 1, f->depth);
    return end->certainty != KT_IMPOSSIBLE ? KT_FIXED : find_damaged_end(f, at, min_end, end);
}

bool kt_fix_key_end(kt_fix *f, size_t at, kt_text_end *end)
{
    char quote = f->text[at];
    *end = (kt_text_end){at, KT_CERTAIN, false};
    if (!find_first_quote(f, at + 1, quote, &end->at)) {
        f->at = end->at;
        return false;
    }
    if (kt_fix_byte(f, kt_peek_space_end(f, end->at + 1)) == ':')
        return true;
    for (size_t i = at + 1; i < at + 256; i++) {
        int c = kt_fix_byte(f, i);
        if (c < ' ' || (c != quote && strchr(",{}[]", c)))
            break;
        if (c == quote && i > end->at && kt_fix_byte(f, kt_peek_space_end(f, i + 1)) == ':') {
            *end = (kt_text_end){i, KT_POSSIBLE, true};
            return true;
        }
    }
    return true; /* the colon is missing: the caller finds out */
}

/* ---- writing strings ------------------------------------------------------------------------- */

/* Length of the valid escape at `at`; 0: it is not valid. */
static size_t valid_escape_bytes(const kt_fix *f, size_t at, size_t to)
{
    if (at + 1 >= to)
        return 0;
    char c = f->text[at + 1];
    if (c != 'u')
        return c && strchr("\"\\/bfnrt", c) ? 2 : 0;
    for (size_t i = at + 2; i < at + 6; i++)
        if (i >= to || !kb_is_hex_digit(f->text[i]))
            return 0;
    return 6;
}

static size_t copy_backslash(kt_fix *f, size_t at, size_t to, char quote)
{
    size_t bytes = valid_escape_bytes(f, at, to);
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

static size_t copy_control_chars(kt_fix *f, size_t at, size_t to)
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

/* Copies one character, or a run of bytes that are not UTF-8, which is counted. */
static size_t copy_non_ascii(kt_fix *f, size_t at, size_t to)
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

/* Copies a byte that needs an escape or a check. Returns how many bytes were consumed. */
static size_t copy_special_byte(kt_fix *f, size_t at, size_t to, char quote)
{
    unsigned char c = (unsigned char)f->text[at];
    if (c == '\\')
        return copy_backslash(f, at, to, quote);
    if (c < 0x20)
        return copy_control_chars(f, at, to);
    if (c >= 0x80)
        return copy_non_ascii(f, at, to);
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
        at += copy_special_byte(f, at, to, quote);
        plain = at;
    }
    kt_fix_put(f, f->text + plain, to - plain);
    kt_fix_put_z(f, "\"");
}

/* ---- numbers and words ----------------------------------------------------------------------- */

static size_t count_digits(kineto_string s, size_t at)
{
    size_t from = at;
    while (at < s.size && kb_is_digit(s.data[at]))
        at++;
    return at - from;
}

/* Corrects "-5.-10": microseconds and the nanoseconds below them, each with its sign. */
static bool put_signed_fraction(kt_fix *f, kineto_string token)
{
    size_t minus = token.size && token.data[0] == '-';
    size_t whole = count_digits(token, minus), point = minus + whole;
    size_t below = point + 2 <= token.size ? count_digits(token, point + 2) : 0;
    if (!whole || !below || below > 3 || point + 2 + below != token.size ||
        memcmp(token.data + point, ".-", 2) != 0 || (whole > 1 && token.data[minus] == '0'))
        return false;
    kt_fix_put_z(f, "-");
    kt_fix_put(f, token.data + minus, whole);
    kt_fix_put(f, ".000", 4 - below);
    kt_fix_put(f, token.data + point + 2, below);
    return true;
}

/* Corrects decimal numbers of other languages: "+5", ".5", "5.", "007". False: another form;
 * nothing is written. */
static bool put_loose_number(kt_fix *f, kineto_string s)
{
    size_t at = s.size && (s.data[0] == '-' || s.data[0] == '+');
    size_t whole = at;
    at += count_digits(s, at);
    while (whole + 1 < at && s.data[whole] == '0')
        whole++;
    size_t whole_end = at, fraction = 0, tail;
    if (at < s.size && s.data[at] == '.') {
        fraction = count_digits(s, ++at);
        at += fraction;
    }
    tail = at;
    if (whole_end == whole && !fraction)
        return false;
    if (at < s.size && (s.data[at] | 32) == 'e') {
        at++;
        at += at < s.size && (s.data[at] == '-' || s.data[at] == '+');
        size_t exponent = count_digits(s, at);
        at = exponent ? at + exponent : s.size + 1;
    }
    if (at != s.size)
        return false;
    kt_fix_put(f, "-", s.data[0] == '-');
    kt_fix_put_z(f, whole_end == whole ? "0" : "");
    kt_fix_put(f, s.data + whole, whole_end - whole);
    kt_fix_put(f, s.data + whole_end, fraction ? fraction + 1 : 0);
    kt_fix_put(f, s.data + tail, s.size - tail);
    return true;
}

/* "nan", "inf" or "-inf" for the spellings of numbers that JSON does not have; NULL: another
 * token. */
static const char *text_of_not_finite(kineto_string token)
{
    static const struct {
        const char *token, *text;
    } known[] = {{"nan", "nan"},       {"-nan", "nan"},       {"+nan", "nan"},
                 {"-nan(ind)", "nan"}, {"nan(ind)", "nan"},   {"inf", "inf"},
                 {"+inf", "inf"},      {"-inf", "-inf"},      {"infinity", "inf"},
                 {"+infinity", "inf"}, {"-infinity", "-inf"}, {"1.#inf", "inf"},
                 {"-1.#inf", "-inf"},  {"1.#qnan", "nan"},    {"1.#ind", "nan"},
                 {"-1.#ind", "nan"},   {"-1.#qnan", "nan"}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_is_ignoring_case(token, known[i].token))
            return known[i].text;
    return NULL;
}

/* The JSON word for its spellings in other languages; NULL: unknown. */
static const char *json_word_for(kineto_string token)
{
    static const struct {
        const char *token, *text;
    } known[] = {{"true", "true"}, {"false", "false"},    {"null", "null"},
                 {"none", "null"}, {"undefined", "null"}, {"nil", "null"}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_is_ignoring_case(token, known[i].token))
            return known[i].text;
    return NULL;
}

static void count_token_repair(kt_fix *f, kt_repair_kind kind, kineto_string token)
{
    kt_fix_count(f, kind, (size_t)(token.data - f->text), token.size);
}

/* Writes a token that is not strict JSON: corrected, or as a string. */
static void put_broken_token(kt_fix *f, kineto_string token)
{
    const char *text = text_of_not_finite(token);
    bool number = memchr("+-.0123456789", token.data[0], 13) != NULL;
    if (text) {
        count_token_repair(f, KT_REPAIR_NAN_INF, token);
        kt_fix_copy(f, 0, 0, 0);
        f->out->count -= f->no_memory ? 0 : 1; /* the text goes inside the quotes */
        kt_fix_put_z(f, text);
        kt_fix_put_z(f, "\"");
        return;
    }
    text = json_word_for(token);
    count_token_repair(f, number ? KT_REPAIR_BAD_NUMBER : KT_REPAIR_BAD_LITERAL, token);
    if (text)
        kt_fix_put_z(f, text);
    else if (!number || (!put_signed_fraction(f, token) && !put_loose_number(f, token)))
        kt_fix_copy(f, f->at, f->at + token.size, 0);
}

/* The bytes up to the next one that ends a value. */
static kineto_string token_at_position(kt_fix *f)
{
    size_t end = f->at;
    for (int c = kt_fix_byte(f, end); c > ' ' && !strchr(",]}[{\"'/", c);
         c = kt_fix_byte(f, ++end)) {
    }
    return (kineto_string){f->text + f->at, end - f->at};
}

static bool is_strict_token(kineto_string token)
{
    return memchr("-0123456789tfn", token.data[0], 14) && kb_json_valid(token);
}

kt_fixed kt_fix_scalar(kt_fix *f)
{
    kineto_string token = token_at_position(f);
    if (f->at + token.size >= f->size) { /* more digits could follow */
        f->at = f->size;
        return KT_FIX_CUT;
    }
    bool follows = kt_peek_value_end(f, f->at + token.size, f->depth) != KT_IMPOSSIBLE;
    if (!token.size) {
        if (!follows || f->open[f->depth - 1] == '[')
            return KT_FIX_FAILED;
        kt_fix_count(f, KT_REPAIR_NO_VALUE, f->at, 0);
        kt_fix_put_z(f, "null");
        return KT_FIXED;
    }
    if (is_strict_token(token))
        kt_fix_put(f, token.data, token.size);
    else if (follows)
        put_broken_token(f, token);
    else
        return KT_FIX_FAILED;
    f->at += token.size;
    return KT_FIXED;
}

/* ---- between values -------------------------------------------------------------------------- */

void kt_fix_space(kt_fix *f)
{
    for (;;) {
        int c = kt_fix_byte(f, f->at);
        size_t end = c == '/' ? kt_peek_comment_end(f, f->at) : f->at + (c >= 0 && c <= ' ');
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

/* Consumes an item. An item whose end is not certain would shift all later ones: the array
 * fails. */
static kt_fixed fix_array_item(kt_fix *f)
{
    kt_text_end end = {0, KT_CERTAIN, false};
    kt_fixed status = kt_fix_value(f, 0, KT_LEVEL_INNER, &end);
    return status == KT_FIXED && end.damaged && end.certainty != KT_CERTAIN &&
                   kt_fix_byte(f, kt_peek_space_end(f, f->at)) != ']'
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
        kt_fixed status = fix_array_item(f);
        if (status != KT_FIXED)
            return status;
    }
    kt_fix_put_z(f, "]");
    f->at++;
    KB_ASSERT(f->depth > 0 && f->open[f->depth - 1] == '[');
    f->depth--;
    return KT_FIXED;
}

/* ---- any value ------------------------------------------------------------------------------- */

static kt_fixed fix_string(kt_fix *f, size_t min_end, kt_text_end *end)
{
    char quote = f->text[f->at];
    size_t from = f->at;
    kt_fixed status = kt_fix_text_end(f, from, min_end, end);
    if (status != KT_FIXED)
        return status;
    if (quote == '\'')
        kt_fix_count(f, KT_REPAIR_SINGLE_QUOTES, from, end->at + 1 - from);
    kt_fix_copy(f, from + 1, end->at, quote);
    f->at = end->at + 1;
    return KT_FIXED;
}

kt_fixed kt_fix_value(kt_fix *f, size_t min_end, kt_level object, kt_text_end *end)
{
    kt_fix_space(f);
    int c = kt_fix_byte(f, f->at);
    *end = (kt_text_end){0, KT_CERTAIN, false};
    switch (c) {
    case -1:
        return KT_FIX_CUT;
    case '"':
    case '\'':
        return fix_string(f, min_end, end);
    case '{': /* an event is never a value of another one */
        return kt_peek_event(f, f->at) ? KT_FIX_FAILED : kt_fix_object(f, object);
    case '[':
        return fix_array(f);
    default:
        return kt_fix_scalar(f);
    }
}

/* A key without quotes; its colon has to follow. */
static kt_fixed fix_bare_key(kt_fix *f)
{
    size_t from = f->at, end = from;
    while (end - from < 128 && kt_bare_char(kt_fix_byte(f, end), end == from))
        end++;
    int c = kt_fix_byte(f, kt_peek_space_end(f, end));
    if (end == from || c != ':')
        return c < 0 ? KT_FIX_CUT : KT_FIX_FAILED;
    kt_fix_count(f, KT_REPAIR_BARE_KEY, from, end - from);
    kt_fix_copy(f, from, end, 0);
    f->at = end;
    return KT_FIXED;
}

/* A known key with one quote: "tid: or tid": */
static bool fix_half_quoted_key(kt_fix *f)
{
    kineto_string key;
    size_t from = f->at;
    size_t end = kt_peek_half_quoted(f, from, (kt_level)f->level[f->depth - 1], &key);
    if (!end)
        return false;
    kt_fix_count(f, KT_REPAIR_BARE_KEY, from, end - from);
    kt_fix_copy(f, (size_t)(key.data - f->text), (size_t)(key.data - f->text) + key.size, 0);
    f->at = end;
    return true;
}

/* Removes unnecessary escapes from the key that was written last, so that known keys are
 * recognised. */
static void unescape_written_key(kt_fix *f, size_t from)
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

/* Writes the key in quotes that ends at *end. */
static void put_quoted_key(kt_fix *f, const kt_text_end *end)
{
    size_t from = f->at, out_from = f->out->count;
    char quote = f->text[from];
    KB_ASSERT(end->at > from);
    if (quote == '\'')
        kt_fix_count(f, KT_REPAIR_SINGLE_QUOTES, from, end->at + 1 - from);
    kt_fix_copy(f, from + 1, end->at, quote);
    unescape_written_key(f, out_from);
    f->at = end->at + 1;
}

kt_fixed kt_fix_key(kt_fix *f, kt_text_end *end)
{
    size_t from = f->at;
    char quote = f->text[from];
    *end = (kt_text_end){from, KT_CERTAIN, false};
    if (quote != '"' && quote != '\'')
        return fix_half_quoted_key(f) ? KT_FIXED : fix_bare_key(f);
    bool ends = kt_fix_key_end(f, from, end);
    bool whole = ends && kt_fix_byte(f, kt_peek_space_end(f, end->at + 1)) == ':';
    size_t reached = f->at;
    f->at = from;
    if (!whole && fix_half_quoted_key(f)) {
        *end = (kt_text_end){from, KT_CERTAIN, false};
        return KT_FIXED;
    }
    f->at = reached;
    if (!ends)
        return KT_FIX_FAILED;
    f->at = from;
    put_quoted_key(f, end);
    return KT_FIXED;
}
