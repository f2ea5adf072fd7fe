/* Values in the names of trace files: the forms that PyTorch, libkineto, Dynolog and launchers use.
 * Users name files as they like, so everything found here is a hint; the header of a trace takes
 * precedence (identity.c). */
#include "trace/files/identity.h"

/* `end` is in lower case; the case of `s` does not matter. */
static bool name_ends_with(kineto_string s, const char *end)
{
    size_t size = strlen(end);
    if (s.size < size)
        return false;
    for (size_t i = 0; i < size; i++)
        if (kb_lower(s.data[s.size - size + i]) != end[i])
            return false;
    return true;
}

static bool drop_name_end(kineto_string *s, const char *end)
{
    bool is = name_ends_with(*s, end);
    s->size -= is ? strlen(end) : 0;
    return is;
}

/* A number of at most 18 digits; -1 if there is none or more. */
static int64_t parse_name_number(const char *at, const char *end)
{
    int64_t value = 0;
    if (at == end || end - at > 18)
        return -1;
    for (; at < end; at++) {
        if (!kb_is_digit(*at))
            return -1;
        value = value * 10 + (*at - '0');
    }
    return value;
}

/* ---- ranks ----------------------------------------------------------------------------------- */

/* True if the word before "rank" at `at` limits it to a group: "local_rank3", "tp_rank1". */
static bool is_partial_rank(const char *begin, const char *at)
{
    static const char *const words[] = {"local", "node", "group", "tp", "dp", "pp", "ep", "cp"};
    kineto_string before = {begin, (size_t)(at - begin)};
    if (before.size && (at[-1] == '_' || at[-1] == '-'))
        before.size--;
    for (size_t i = 0; i < KB_COUNT(words); i++) {
        size_t size = strlen(words[i]);
        if (name_ends_with(before, words[i]) &&
            (before.size == size || !kb_is_letter(before.data[before.size - size - 1])))
            return true;
    }
    return before.size > 0 && kb_is_letter(before.data[before.size - 1]) &&
           before.size == (size_t)(at - begin);
}

/* Parses the number after the word "rank". *at: the end of that word; it moves past the number. -1:
 * no rank follows. */
static int32_t parse_rank_after(const char **at, const char *end)
{
    const char *digits = *at;
    if (digits < end && *digits && strchr("_-=:[. ", *digits))
        digits++; /* a single one: "rank_-1" does not count */
    *at = digits;
    while (*at < end && kb_is_digit(**at))
        ++*at;
    int64_t rank = parse_name_number(digits, *at);
    return rank >= 0 && rank <= INT32_MAX ? (int32_t)rank : -1;
}

/* The last rank in a component of a path: "trace_rank-3", "dp0_tp1_rank9", "Rank[3]". `at_end`: the
 * component has to end with it; that is required of directories, which may have any name. */
static int32_t last_rank_in(kineto_string part, bool at_end)
{
    static const char word[] = "rank";
    const char *end = part.data + part.size;
    int32_t found = -1;
    for (const char *at = part.data; (size_t)(end - at) >= sizeof word; at++) {
        const char *after = at + sizeof word - 1;
        if (!name_ends_with((kineto_string){at, sizeof word - 1}, word) ||
            is_partial_rank(part.data, at))
            continue;
        int32_t rank = parse_rank_after(&after, end);
        if (after < end && *after == ']')
            after++;
        if (rank >= 0 && (after == end || !at_end))
            found = rank;
    }
    return found;
}

/* ---- hosts and processes --------------------------------------------------------------------- */

/* The process id after the last '_' of a name without its endings, cut off; -1: there is none. */
static int64_t take_pid_at_end(kineto_string *stem)
{
    const char *end = stem->data + stem->size, *at = end;
    while (at > stem->data && kb_is_digit(at[-1]))
        at--;
    int64_t pid = parse_name_number(at, end);
    if (pid <= 0 || at == stem->data || at[-1] != '_')
        return -1;
    stem->size = (size_t)(at - 1 - stem->data);
    return pid;
}

/* "host_pid.1694128201545.pt.trace.json": the form of PyTorch's handler for TensorBoard, whose
 * users may choose any other worker name. */
static void facts_of_worker(kineto_string stem, kt_name_facts *out)
{
    size_t digits = 0;
    enum { TIMESTAMP_DIGITS = 10 }; /* seconds since 1970 have at least these */
    while (digits < stem.size && kb_is_digit(stem.data[stem.size - 1 - digits]))
        digits++;
    if (digits >= TIMESTAMP_DIGITS && digits < stem.size &&
        stem.data[stem.size - 1 - digits] == '.')
        stem.size -= digits + 1;
    out->pid = take_pid_at_end(&stem);
    out->pid_is_guess = true;
    if (out->pid > 0)
        out->host = stem;
}

static void facts_of_name(kineto_string name, kt_name_facts *out)
{
    static const char *const libkineto[] = {"libkineto_trace", "libkineto_activities"};
    out->rank = last_rank_in(name, false);
    if (!drop_name_end(&name, ".gz"))
        drop_name_end(&name, ".zst");
    drop_name_end(&name, ".json");
    drop_name_end(&name, ".trace");
    if (drop_name_end(&name, ".pt")) {
        facts_of_worker(name, out);
        return;
    }
    out->pid = take_pid_at_end(&name);
    out->pid_is_guess = !kb_string_is_one_of(name, libkineto, KB_COUNT(libkineto));
}

/* ---- paths ----------------------------------------------------------------------------------- */

static size_t file_name_start(kineto_string path)
{
    size_t at = path.size;
    while (at > 0 && path.data[at - 1] != '/')
        at--;
    return at;
}

void kt_name_facts_of(const char *path, kt_name_facts *out)
{
    kineto_string rest = kb_string(path);
    *out = (kt_name_facts){.rank = -1, .directory_rank = -1, .host = {"", 0}, .pid = -1};
    size_t start = file_name_start(rest);
    facts_of_name((kineto_string){rest.data + start, rest.size - start}, out);
    /* The nearest directory with a rank counts. */
    while (start > 0 && out->directory_rank < 0) {
        rest.size = start - 1;
        start = file_name_start(rest);
        out->directory_rank =
            last_rank_in((kineto_string){rest.data + start, rest.size - start}, true);
    }
}

/* Compares two runs of digits of any length as numbers; of equal numbers the shorter spelling sorts
 * first. Moves both pointers past the digits. */
static int compare_digits(const char **a, const char **b)
{
    const char *x = *a, *y = *b;
    while (*x == '0')
        x++;
    while (*y == '0')
        y++;
    size_t m = strspn(x, "0123456789"), n = strspn(y, "0123456789");
    int order = m != n ? (m < n ? -1 : 1) : memcmp(x, y, m);
    size_t zeros_a = (size_t)(x - *a), zeros_b = (size_t)(y - *b);
    *a = x + m;
    *b = y + n;
    return order ? order : (zeros_a > zeros_b) - (zeros_a < zeros_b);
}

int kt_compare_names(const char *a, const char *b)
{
    const char *all_a = a, *all_b = b;
    while (*a && *b) {
        int order = 0;
        if (kb_is_digit(*a) && kb_is_digit(*b)) {
            order = compare_digits(&a, &b);
        } else {
            order = (int)(unsigned char)*a - (int)(unsigned char)*b;
            a++;
            b++;
        }
        if (order)
            return order;
    }
    return *a || *b ? (*a ? 1 : -1) : strcmp(all_a, all_b);
}

size_t kt_common_directory(const char *const *paths, size_t count)
{
    size_t common = count ? strlen(paths[0]) : 0;
    for (size_t i = 1; i < count; i++) {
        size_t same = 0;
        while (same < common && paths[i][same] == paths[0][same])
            same++; /* ends at the NUL of the shorter one */
        common = same;
    }
    while (common > 0 && paths[0][common - 1] != '/')
        common--;
    return common;
}
