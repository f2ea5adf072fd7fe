/* Names of kernels without what changes from build to build, so that those of two builds can be
 * recognised as the same. */
#include "analyze/diff/diff.h"

/* Longer names are cut. */
static void append_char(ka_text *out, char c)
{
    if (out->size < sizeof out->s)
        out->s[out->size++] = c;
}

/* Longer names are cut. */
static void append_chars(ka_text *out, const char *s, size_t size)
{
    size = KB_MIN(size, sizeof out->s - out->size);
    memcpy(out->s + out->size, s, size);
    out->size += size;
}

static kineto_string text_of(const ka_text *t) { return (kineto_string){t->s, t->size}; }

/* ---- mangled names -------------------------------------------------------------------------- */

/* "12foo…": a word after its length. */
static kineto_string read_mangled_word(kineto_string *rest)
{
    size_t size = 0, digits = 0;
    while (digits < rest->size && digits < 6 && kb_is_digit(rest->data[digits]))
        size = size * 10 + (size_t)(rest->data[digits++] - '0');
    if (!digits || !size || size > rest->size - digits)
        return (kineto_string){"", 0};
    kineto_string word = {rest->data + digits, size};
    *rest = (kineto_string){word.data + size, rest->size - digits - size};
    return word;
}

/* Removes a prefix; false: the text does not begin with it. */
static bool skip_prefix(kineto_string *rest, const char *with)
{
    if (!kb_string_starts_with(*rest, with))
        return false;
    rest->data += strlen(with);
    rest->size -= strlen(with);
    return true;
}

/* What the function is nested in and its own name, of the Itanium C++ ABI: up to template
 * arguments. False: it is not mangled, or in an unknown way. */
static bool read_mangled(kineto_string name, ka_text *out)
{
    kineto_string rest = name, word;
    out->size = 0;
    if (!skip_prefix(&rest, "_Z"))
        return false;
    bool nested = skip_prefix(&rest, "N");
    while (nested &&
           (skip_prefix(&rest, "K") || skip_prefix(&rest, "V") || skip_prefix(&rest, "r")))
        ;
    if (skip_prefix(&rest, "St"))
        append_chars(out, "std", 3);
    do {
        (void)skip_prefix(&rest, "L"); /* of one file */
        word = read_mangled_word(&rest);
        if (!word.size)
            break;
        if (kb_string_starts_with(word, "_GLOBAL__N"))
            continue;
        if (out->size)
            append_chars(out, "::", 2);
        append_chars(out, word.data, word.size);
    } while (nested);
    return out->size > 0;
}

/* ---- names as C++ writes them --------------------------------------------------------------- */

/* Brackets of all kinds; "->" and "operator<" are in no kernel's name. */
static int depth_change(char c)
{
    return c == '<' || c == '(' || c == '{' || c == '['   ? 1
           : c == '>' || c == ')' || c == '}' || c == ']' ? -1
                                                          : 0;
}

/* Spellings of the anonymous namespace by GCC, Clang, NVCC and others. */
static bool is_anonymous(kineto_string rest)
{
    return kb_string_starts_with(rest, "(anonymous namespace)") || kb_string_starts_with(rest, "<unnamed>") ||
           kb_string_starts_with(rest, "{anonymous}");
}

/* Length of an anonymous namespace at the beginning of the text. */
static size_t anonymous_size(kineto_string rest)
{
    size_t i = 1;
    while (i < rest.size && depth_change(rest.data[i]) >= 0)
        i++;
    return i + 1;
}

/* The text from an index on. */
static kineto_string rest_from(kineto_string s, size_t at)
{
    return (kineto_string){s.data + at, s.size - at};
}

/* Where parameters begin, or " [clone …]", or the end. */
static size_t end_of_name(kineto_string name)
{
    int depth = 0;
    for (size_t i = 0; i < name.size; i++) {
        char c = name.data[i];
        kineto_string rest = rest_from(name, i);
        if (is_anonymous(rest)) {
            i += anonymous_size(rest) - 1;
            continue;
        }
        if (i && depth == 0 && (c == '(' || kb_string_starts_with(rest, " [clone")))
            return i;
        depth = KB_MAX(depth + depth_change(c), 0);
    }
    return name.size;
}

/* Past the return type: the last space outside of brackets. */
static size_t begin_of_name(kineto_string name)
{
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i < name.size; i++) {
        kineto_string rest = rest_from(name, i);
        if (is_anonymous(rest)) {
            i += anonymous_size(rest) - 1;
            continue;
        }
        depth = KB_MAX(depth + depth_change(name.data[i]), 0);
        if (depth == 0 && name.data[i] == ' ')
            begin = i + 1;
    }
    return begin;
}

/* Mangled names are read up to template arguments; other names keep all but type, parameters and
 * clone. */
void ka_spell_kernel(kineto_string name, ka_text *out)
{
    if (read_mangled(name, out))
        return;
    out->size = 0;
    name.size = end_of_name(name);
    name = rest_from(name, begin_of_name(name));
    for (size_t i = 0; i < name.size; i++) {
        kineto_string rest = rest_from(name, i);
        if (is_anonymous(rest)) {
            i += anonymous_size(rest) - 1;
            if (kb_string_starts_with(rest_from(name, KB_MIN(i + 1, name.size)), "::"))
                i += 2;
        } else if (name.data[i] != ' ') {
            append_char(out, name.data[i]);
        }
    }
    if (kb_string_ends_with(text_of(out), ".kd")) /* AMD's descriptors */
        out->size -= 3;
}

/* Drops everything inside of brackets. */
void ka_skeleton_of(kineto_string name, ka_text *out)
{
    ka_text spelled;
    int depth = 0;
    ka_spell_kernel(name, &spelled);
    out->size = 0;
    for (size_t i = 0; i < spelled.size; i++) {
        int change = depth_change(spelled.s[i]);
        if (depth == 0 && change == 0)
            append_char(out, spelled.s[i]);
        depth = KB_MAX(depth + change, 0);
    }
}

/* After the last ':'. */
void ka_last_component_of(kineto_string name, ka_text *out)
{
    ka_text skeleton;
    ka_skeleton_of(name, &skeleton);
    size_t from = skeleton.size;
    while (from && skeleton.s[from - 1] != ':')
        from--;
    out->size = 0;
    append_chars(out, skeleton.s + from, skeleton.size - from);
}

/* Each run of digits becomes one '#'. */
void ka_numberless(kineto_string name, ka_text *out)
{
    ka_text last;
    ka_last_component_of(name, &last);
    out->size = 0;
    for (size_t i = 0; i < last.size; i++) {
        bool digit = kb_is_digit(last.s[i]);
        if (!digit)
            append_char(out, last.s[i]);
        else if (!out->size || out->s[out->size - 1] != '#')
            append_char(out, '#');
    }
}
