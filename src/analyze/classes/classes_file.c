/* Reads rules for names of kernels, from a file of the user and the built-in list, and builds the
 * index by grams. docs/reference/kernel-rules.md defines the syntax. The built-in rules alone are
 * parsed once per process and shared. */
#include "analyze/classes/classes_rules.h"

#include <errno.h>

#define MAX_BYTES ((size_t)1 << 20)

static const char *const built_in[] = {
#include "analyze/classes/kernel_rules.def"
};

/* Where a line stands, for messages. */
typedef struct place {
    const char *file;
    unsigned line;
} place;

/* "FILE:LINE: what 'text'; advice". */
static kineto_status fail_at_line(const place *at, kineto_error *err, const char *what,
                                  kineto_string text, const char *advice)
{
    return kb_fail(err, KINETO_E_FORMAT, "%s:%u: %s '%.*s'; %s", at->file, at->line, what,
                   (int)KB_MIN(text.size, (size_t)60), text.data ? text.data : "", advice);
}

/* The same message for every allocation of this file. */
static kineto_status fail_rules_memory(kineto_error *err)
{
    return kb_fail_memory(err, "rules about kernels");
}

/* ---- pieces of text -------------------------------------------------------------------------- */

/* The text before the separator; *rest is the text after it, or has no data if there is no
 * separator. */
static kineto_string split_at(kineto_string s, const char *separator, kineto_string *rest)
{
    size_t size = strlen(separator);
    const char *at = s.size ? memmem(s.data, s.size, separator, size) : NULL;
    if (!at) {
        *rest = (kineto_string){NULL, 0};
        return s;
    }
    *rest = (kineto_string){at + size, s.size - (size_t)(at - s.data) - size};
    return (kineto_string){s.data, (size_t)(at - s.data)};
}

/* ---- attributes ------------------------------------------------------------------------------ */

/* An attribute by its word, and the names of its values. */
typedef struct attribute {
    const char *word;
    const char *(*name)(uint32_t value);
    uint32_t count;
} attribute;
#define KA_X(name, word, names, count) {word, names, count},
static const attribute attributes[] = {KA_ATTRIBUTE_MAP(KA_X)};
#undef KA_X

/* The number of a word; a->count: unknown word. */
static uint32_t attribute_number(const attribute *a, kineto_string text)
{
    uint32_t v = 0;
    while (v < a->count && !kb_string_equal(text, kb_string(a->name(v))))
        v++;
    return v;
}

/* "known are: …" with the names of the values, cut where `size` ends. */
static const char *known_values(const attribute *a, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "known are:");
    for (uint32_t v = 0; v < a->count && used < size; v++)
        used += (size_t)snprintf(text + used, size - used, " %s", a->name(v));
    return text;
}

/* "family=gemm" */
static kineto_status read_attribute(kineto_string item, ka_name_rule *rule, const place *at,
                                    kineto_error *err)
{
    kineto_string value, key = split_at(item, "=", &value);
    for (uint32_t i = 0; i < KA_ATTRIBUTE_COUNT; i++) {
        if (!kb_string_equal(key, kb_string(attributes[i].word)))
            continue;
        uint32_t v = attribute_number(&attributes[i], value);
        char text[400];
        if (v == attributes[i].count)
            return fail_at_line(at, err, "unknown value", item,
                                known_values(&attributes[i], text, sizeof text));
        rule->value[i] = (uint8_t)v;
        return KINETO_OK;
    }
    return fail_at_line(at, err, "unknown attribute", item,
                        "write type=, family=, precision=, tensor= or library=");
}

/* "family=gemm library=cublas": attributes that are not named stay KA_UNSET. */
static kineto_status read_attributes(kineto_string text, ka_name_rule *rule, const place *at,
                                     kineto_error *err)
{
    memset(rule->value, KA_UNSET, sizeof rule->value);
    for (text = kb_string_trimmed(text); text.size;) {
        size_t size = 0;
        while (size < text.size && !kb_is_blank(text.data[size]))
            size++;
        kineto_status s = read_attribute((kineto_string){text.data, size}, rule, at, err);
        if (s != KINETO_OK)
            return s;
        text = kb_string_trimmed((kineto_string){text.data + size, text.size - size});
    }
    return KINETO_OK;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/* Ends the piece that begins at *begin, unless it is empty. False: out of memory. */
static bool end_piece(ka_rules *r, ka_name_pattern *p, uint32_t *begin)
{
    uint32_t end = (uint32_t)r->text.count;
    if (end > *begin) {
        if (!kb_vec_push(&r->pieces, (ka_name_piece){*begin, end - *begin}))
            return false;
        p->count++;
    }
    *begin = end;
    return true;
}

/* Appends the pieces between stars to r->pieces. A backslash takes the next byte as it is. A
 * star at an end makes that end open: the piece there need not begin, or end, a word. False:
 * out of memory. */
static bool read_pieces(ka_rules *r, ka_name_pattern *p, kineto_string text)
{
    uint32_t begin = (uint32_t)r->text.count;
    p->first = (uint32_t)r->pieces.count;
    for (size_t i = 0; i < text.size; i++) {
        char c = text.data[i];
        if (c == '*') {
            if (!end_piece(r, p, &begin))
                return false;
            p->open_end = i + 1 == text.size;
            p->open_start |= i == 0;
            p->to_end = p->to_end && !p->open_end;
            p->from_start = p->from_start && i > 0;
            continue;
        }
        if (c == '\\' && i + 1 < text.size)
            c = text.data[++i];
        if (!kb_vec_push(&r->text, p->any_case ? kb_lower(c) : c))
            return false;
    }
    return end_piece(r, p, &begin);
}

/* Does the text end with a '$' that is not escaped? An even number of backslashes before it
 * escapes itself. */
static bool ends_with_anchor(kineto_string s)
{
    size_t slashes = 0;
    if (!s.size || s.data[s.size - 1] != '$')
        return false;
    while (slashes + 1 < s.size && s.data[s.size - 2 - slashes] == '\\')
        slashes++;
    return slashes % 2 == 0;
}

/* "@~^pieces*of text$": '@' restricts the pattern to the function's own name, '~' ignores
 * case, '^' and '$' anchor it. The pattern belongs to the rule that was appended last. */
static kineto_status read_pattern(ka_rules *r, kineto_string text, const place *at,
                                  kineto_error *err)
{
    ka_name_pattern p = {.rule = (uint32_t)r->rules.count - 1};
    kineto_string rest = text;
    if (rest.size && rest.data[0] == '@')
        p.own = true, rest.data++, rest.size--;
    if (rest.size && rest.data[0] == '~')
        p.any_case = true, rest.data++, rest.size--;
    if (rest.size && rest.data[0] == '^')
        p.from_start = true, rest.data++, rest.size--;
    if (ends_with_anchor(rest))
        p.to_end = true, rest.size--;
    if (!read_pieces(r, &p, rest))
        return fail_rules_memory(err);
    if (!p.count)
        return fail_at_line(at, err, "no text in the pattern", text, "it would match every name");
    if (r->patterns.count == KA_MOST_PATTERNS)
        return kb_fail(err, KINETO_E_LIMIT,
                       "%s:%u: more than %u patterns; join some with '*', or leave some out",
                       at->file, at->line, KA_MOST_PATTERNS);
    return kb_vec_push(&r->patterns, p) ? KINETO_OK : fail_rules_memory(err);
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* "family=gemm library=cublas : pattern | pattern" */
static kineto_status parse_rule_line(ka_rules *r, kineto_string line, const place *at,
                                     kineto_error *err)
{
    kineto_string patterns, attributes_text;
    ka_name_rule rule;
    line = kb_string_trimmed(line);
    if (!line.size || line.data[0] == '#')
        return KINETO_OK;
    attributes_text = split_at(line, " : ", &patterns);
    if (!patterns.data)
        return fail_at_line(at, err, "no ' : ' in", line,
                            "write 'family=gemm : pattern | pattern'");
    kineto_status s = read_attributes(attributes_text, &rule, at, err);
    if (s == KINETO_OK && !kb_vec_push(&r->rules, rule))
        s = fail_rules_memory(err);
    while (s == KINETO_OK && patterns.data) {
        kineto_string pattern = split_at(patterns, " | ", &patterns);
        s = read_pattern(r, kb_string_trimmed(pattern), at, err);
    }
    return s;
}

/* Lines of a file; errors name the line. */
static kineto_status parse_rule_text(ka_rules *r, const char *path, kineto_string text,
                                     kineto_error *err)
{
    place at = {.file = path};
    kineto_status s = KINETO_OK;
    while (s == KINETO_OK && text.data) {
        kineto_string line = split_at(text, "\n", &text);
        at.line++;
        s = parse_rule_line(r, line, &at, err);
    }
    return s;
}

/* Built-in rules go through the same parser as a file: a mistake in them is an error of every
 * analysis. */
static kineto_status read_built_in(ka_rules *r, kineto_error *err)
{
    kineto_status s = KINETO_OK;
    for (unsigned i = 0; s == KINETO_OK && i < KB_COUNT(built_in); i++)
        s = parse_rule_line(r, kb_string(built_in[i]), &(place){"built-in rules", i + 1}, err);
    return s;
}

/* Parses the rules of a file. KINETO_E_LIMIT: it is longer than MAX_BYTES. */
static kineto_status read_rules_file(ka_rules *r, const char *path, kineto_error *err)
{
    kineto_status s = KINETO_OK;
    char *text = malloc(MAX_BYTES + 1);
    FILE *f = text ? fopen(path, "rbe") : NULL;
    if (!f) {
        s = text ? kb_fail_os(err, errno, "cannot open the rules %s", path)
                 : fail_rules_memory(err);
        free(text);
        return s;
    }
    size_t size = fread(text, 1, MAX_BYTES + 1, f);
    if (ferror(f))
        s = kb_fail_os(err, errno, "cannot read the rules %s", path);
    else if (size > MAX_BYTES)
        s = kb_fail(err, KINETO_E_LIMIT, "the rules %s are longer than 1 MiB; shorten them", path);
    else
        s = parse_rule_text(r, path, (kineto_string){text, size}, err);
    fclose(f);
    free(text);
    return s;
}

/* ---- the index by grams ---------------------------------------------------------------------- */

/* The gram of the first KA_GRAM bytes. */
static uint32_t gram_at(const char *text)
{
    uint32_t gram = 0;
    for (size_t i = 0; i < KA_GRAM; i++)
        gram = ka_next_gram(gram, text[i]);
    return gram;
}

/* Text that many names of kernels contain. Its grams count a thousand times, so that no
 * pattern is found by them if it has another gram. */
static const char usual[] = "void at::native::(anonymous "
                            "namespace)::vectorized_elementwise_kernel<4, float, unsigned long> "
                            "at::native::unrolled_elementwise_kernel<at::native::gpu_kernel_impl_"
                            "nocast<(at::TensorIteratorBase&)"
                            "::{lambda()#1}::operator()() const::{lambda(float, bool)#1}, "
                            "at::detail::Array<char*, 3> >(int, "
                            "at::native::memory::LoadWithoutCast, TrivialOffsetCalculator<1, "
                            "unsigned int> std::array<char*, 2ul>"
                            "_ZN2at6native27vectorized_elementwise_kernelILi4EZZZNS0_23_kernel_"
                            "cudaERNS_18TensorIteratorBaseE"
                            "ENKUlvE_clEvENKUlvE0_clEvEUlfE_St5arrayIPcLm2EEEEviT0_T1_ "
                            "__nv_bfloat16 const*, long long, double, "
                            "c10::Half, c10::BFloat16, at::GenericPackedTensorAccessor<float, 1ul, "
                            "at::RestrictPtrTraits, long>"
                            "at::native::BinaryFunctor<float, "
                            "at::native::binary_internal::MulFunctor<float> >, c10::complex";

/* Counts saturate. */
static void count_gram(uint16_t *counts, const char *text, unsigned weight)
{
    uint16_t *n = &counts[ka_gram_hash(gram_at(text))];
    *n = (uint16_t)KB_MIN(*n + weight, (unsigned)UINT16_MAX);
}

/* Counts grams by hash: those of all patterns once, those of `usual` a thousand times. */
static void count_grams(const ka_rules *r, uint16_t *counts)
{
    for (size_t i = 0; i < r->pieces.count; i++)
        for (uint32_t at = 0; at + KA_GRAM <= r->pieces.data[i].size; at++)
            count_gram(counts, r->text.data + r->pieces.data[i].at + at, 1);
    for (size_t at = 0; at + KA_GRAM < sizeof usual; at++)
        count_gram(counts, usual + at, 1000);
}

/* Sets the pattern's gram to the rarest of its grams, by `counts`. False: no piece is long
 * enough to have a gram. */
static bool choose_gram(const ka_rules *r, ka_name_pattern *p, const uint16_t *counts)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < p->count; i++) {
        const ka_name_piece *piece = &r->pieces.data[p->first + i];
        for (uint32_t at = 0; at + KA_GRAM <= piece->size; at++) {
            uint32_t gram = gram_at(r->text.data + piece->at + at);
            if (counts[ka_gram_hash(gram)] >= least)
                continue;
            least = counts[ka_gram_hash(gram)];
            p->gram = gram;
            p->gram_at = at;
        }
    }
    return least != UINT32_MAX;
}

/* Chains patterns by the hash of their rarest gram. Those without a gram are tried for every
 * name. */
static kineto_status index_patterns(ka_rules *r, kineto_error *err)
{
    uint16_t *counts = calloc((size_t)1 << KA_GRAM_BITS, sizeof *counts);
    bool good = counts != NULL;
    if (good)
        count_grams(r, counts);
    for (size_t i = 0; good && i < r->patterns.count; i++) {
        ka_name_pattern *p = &r->patterns.data[i];
        if (!choose_gram(r, p, counts)) {
            good = kb_vec_push(&r->short_ones, (uint16_t)i);
            continue;
        }
        uint16_t *head = &r->head[ka_gram_hash(p->gram)];
        p->next = *head;
        *head = (uint16_t)(i + 1);
    }
    free(counts);
    return good ? KINETO_OK : fail_rules_memory(err);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Not for the shared rules, which other traces use. */
static void free_rules(ka_rules *r)
{
    kb_vec_free(&r->rules);
    kb_vec_free(&r->patterns);
    kb_vec_free(&r->pieces);
    kb_vec_free(&r->text);
    kb_vec_free(&r->short_ones);
    free(r);
}

/* The built-in rules are the same for all traces and never change: they are made once, and
 * stay. shared_rules is written with the lock held, and read without it. */
static kb_lock built_in_lock;
static ka_rules *shared_rules; /* atomic */

/* Rules of the user come first, as the first rule wins. *out is NULL on failure. */
static kineto_status make_rules(const char *path, ka_rules **out, kineto_error *err)
{
    ka_rules *r = calloc(1, sizeof *r);
    *out = NULL;
    kineto_status s = r ? KINETO_OK : fail_rules_memory(err);
    if (s == KINETO_OK && path)
        s = read_rules_file(r, path, err);
    size_t own = s == KINETO_OK ? r->patterns.count : 0;
    if (s == KINETO_OK)
        s = read_built_in(r, err);
    if (s == KINETO_E_LIMIT && own)
        s = kb_fail(err, s,
                    "%s: %zu patterns and those that are built in are more than %u; join some with "
                    "'*', or leave some out",
                    path, own, KA_MOST_PATTERNS);
    if (s == KINETO_OK)
        s = index_patterns(r, err);
    if (s == KINETO_OK)
        *out = r;
    else if (r)
        free_rules(r);
    return s;
}

/* Double-checked: after the first call without a file no lock is taken. */
kineto_status ka_rules_create(const char *path, ka_rules **out, kineto_error *err)
{
    if (path)
        return make_rules(path, out, err);
    ka_rules *shared = kb_load_acquire(&shared_rules);
    kineto_status status = KINETO_OK;
    if (!shared) {
        (void)kb_lock_take(&built_in_lock, kb_os_self());
        shared = kb_load_acquire(&shared_rules);
        if (!shared)
            status = make_rules(NULL, &shared, err);
        kb_store_release(&shared_rules, shared);
        kb_lock_drop(&built_in_lock);
    }
    *out = shared;
    return status;
}

/* The shared rules stay. */
void ka_rules_free(ka_rules *r)
{
    if (r && r != kb_load_acquire(&shared_rules))
        free_rules(r);
}
