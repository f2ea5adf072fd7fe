/* Repair of numbers and words. */
#include "trace/repair/repair_impl.h"

static size_t digits(kineto_string s, size_t at)
{
    size_t from = at;
    while (at < s.size && s.data[at] >= '0' && s.data[at] <= '9')
        at++;
    return at - from;
}

/* "-5.-10": microseconds and the nanoseconds below them, each with its sign. */
static bool signed_fraction(kt_fix *f, kineto_string token)
{
    size_t minus = token.size && token.data[0] == '-';
    size_t whole = digits(token, minus), point = minus + whole;
    size_t below = point + 2 <= token.size ? digits(token, point + 2) : 0;
    if (!whole || !below || below > 3 || point + 2 + below != token.size ||
        memcmp(token.data + point, ".-", 2) != 0 || (whole > 1 && token.data[minus] == '0'))
        return false;
    kt_fix_put_z(f, "-");
    kt_fix_put(f, token.data + minus, whole);
    kt_fix_put(f, ".000", 4 - below);
    kt_fix_put(f, token.data + point + 2, below);
    return true;
}

/* A decimal number of another language: "+5", ".5", "5.", "007". */
static bool loose_number(kt_fix *f, kineto_string s)
{
    size_t at = s.size && (s.data[0] == '-' || s.data[0] == '+');
    size_t whole = at;
    at += digits(s, at);
    while (whole + 1 < at && s.data[whole] == '0')
        whole++;
    size_t whole_end = at, fraction = 0, tail;
    if (at < s.size && s.data[at] == '.') {
        fraction = digits(s, ++at);
        at += fraction;
    }
    tail = at;
    if (whole_end == whole && !fraction)
        return false;
    if (at < s.size && (s.data[at] | 32) == 'e') {
        at++;
        at += at < s.size && (s.data[at] == '-' || s.data[at] == '+');
        size_t exponent = digits(s, at);
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

static const char *not_finite(kineto_string token)
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
        if (kb_string_is_word(token, known[i].token))
            return known[i].text;
    return NULL;
}

static const char *word_of(kineto_string token)
{
    static const struct {
        const char *token, *text;
    } known[] = {{"true", "true"}, {"false", "false"},    {"null", "null"},
                 {"none", "null"}, {"undefined", "null"}, {"nil", "null"}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_is_word(token, known[i].token))
            return known[i].text;
    return NULL;
}

static void count_token(kt_fix *f, kt_repair_kind kind, kineto_string token)
{
    kt_fix_count(f, kind, (size_t)(token.data - f->text), token.size);
}

static void write_broken(kt_fix *f, kineto_string token)
{
    const char *text = not_finite(token);
    bool number = memchr("+-.0123456789", token.data[0], 13) != NULL;
    if (text) {
        count_token(f, KT_REPAIR_NAN_INF, token);
        kt_fix_copy(f, 0, 0, 0);
        f->out->count -= f->no_memory ? 0 : 1; /* inside its quotes */
        kt_fix_put_z(f, text);
        kt_fix_put_z(f, "\"");
        return;
    }
    text = word_of(token);
    count_token(f, number ? KT_REPAIR_BAD_NUMBER : KT_REPAIR_BAD_LITERAL, token);
    if (text)
        kt_fix_put_z(f, text);
    else if (!number || (!signed_fraction(f, token) && !loose_number(f, token)))
        kt_fix_copy(f, f->at, f->at + token.size, 0);
}

/* Bytes up to what ends a value. */
static kineto_string token_at(kt_fix *f)
{
    size_t end = f->at;
    for (int c = kt_fix_byte(f, end); c > ' ' && !strchr(",]}[{\"'/", c);
         c = kt_fix_byte(f, ++end)) {
    }
    return (kineto_string){f->text + f->at, end - f->at};
}

static bool is_strict(kineto_string token)
{
    return memchr("-0123456789tfn", token.data[0], 14) && kb_json_valid(token);
}

kt_fixed kt_fix_scalar(kt_fix *f)
{
    kineto_string token = token_at(f);
    if (f->at + token.size >= f->size) { /* a number could go on */
        f->at = f->size;
        return KT_FIX_CUT;
    }
    bool follows = kt_look_end(f, f->at + token.size, f->depth) != KT_NO;
    if (!token.size) {
        if (!follows || f->open[f->depth - 1] == '[')
            return KT_FIX_FAILED;
        kt_fix_count(f, KT_REPAIR_NO_VALUE, f->at, 0);
        kt_fix_put_z(f, "null");
        return KT_FIXED;
    }
    if (is_strict(token))
        kt_fix_put(f, token.data, token.size);
    else if (follows)
        write_broken(f, token);
    else
        return KT_FIX_FAILED;
    f->at += token.size;
    return KT_FIXED;
}
