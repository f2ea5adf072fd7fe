/* Parts of kernel names: which bytes of a name, demangled or not, are the function's own name, and
 * where its words begin and end. Rules for libraries' own kernels rely on it: what stands in the
 * template arguments of a kernel says nothing about the library that the kernel is from. */
#include "analyze/classes/classes_rules.h"

/* ---- mangled names ("_ZN2at6native13reduce_kernelILi512E…") ---------------------------------- */

/* The decimal length at `*at`, which moves past it; at most what is left of the name, 0 if
 * there is no digit. */
static size_t parse_length(kineto_string name, size_t *at)
{
    size_t length = 0;
    while (*at < name.size && kb_is_digit(name.data[*at]) && length <= name.size)
        length = length * 10 + (size_t)(name.data[(*at)++] - '0');
    return KB_MIN(length, name.size - *at);
}

/* The identifiers of a mangled name (Itanium C++ ABI): from the first length to the end of the
 * last identifier that follows without anything between. The whole name if it has none. */
static kineto_string own_mangled_name(kineto_string name)
{
    size_t at = 2, begin = 0, end = 0;
    while (at < name.size && !kb_is_digit(name.data[at]) && at < 8) /* N, K, L, St, S_ */
        at++;
    begin = at;
    while (at < name.size && kb_is_digit(name.data[at])) {
        size_t length = parse_length(name, &at);
        end = at += length;
    }
    return end > begin ? (kineto_string){name.data + begin, end - begin} : name;
}

/* ---- demangled names ------------------------------------------------------------------------- */

static const char anonymous[] = "(anonymous namespace)";

/* Does the text begin at that index of the name? */
static bool begins_at(kineto_string name, size_t at, const char *text, size_t size)
{
    return size <= name.size - at && memcmp(name.data + at, text, size) == 0;
}

/* "void ", or "std::enable_if<…>::type ": what is before the last blank outside of brackets, up to
 * the parameters. */
static kineto_string own_demangled_name(kineto_string name)
{
    size_t begin = 0, end = name.size, depth = 0, at = 0;
    for (; at < name.size; at++) {
        char c = name.data[at];
        if (!depth && begins_at(name, at, anonymous, sizeof anonymous - 1)) {
            at += sizeof anonymous - 2;
            continue;
        }
        if (!depth && c == '(')
            break;
        if (!depth && c == ' ' && at + 1 < name.size) {
            begin = at + 1;
            end = name.size;
        }
        if (c == '<' && !depth++ && end == name.size)
            end = at;
        else if (c == '>' && depth)
            depth--;
    }
    end = KB_MIN(end, at);
    return end > begin ? (kineto_string){name.data + begin, end - begin} : name;
}

kineto_string ka_own_name(kineto_string name)
{
    return kb_string_starts_with(name, "_Z") ? own_mangled_name(name) : own_demangled_name(name);
}

/* ---- words ----------------------------------------------------------------------------------- */

enum { PUNCTUATION, DIGIT, SMALL, CAPITAL };

/* Classes of bytes; a word ends where the class changes. */
static int kind_of_byte(char c)
{
    return kb_is_lower(c)   ? SMALL
           : kb_is_upper(c) ? CAPITAL
           : kb_is_digit(c) ? DIGIT
                            : PUNCTUATION;
}

bool ka_word_edge(kineto_string name, size_t at)
{
    if (at == 0 || at >= name.size)
        return true;
    int before = kind_of_byte(name.data[at - 1]), after = kind_of_byte(name.data[at]);
    if (before == CAPITAL && after == SMALL) /* "AllReduce": the capital is of this word */
        return false;
    if (before == CAPITAL && after == CAPITAL) /* "NCCLKernel" */
        return at + 1 < name.size && kind_of_byte(name.data[at + 1]) == SMALL;
    return before != after || before == PUNCTUATION;
}
