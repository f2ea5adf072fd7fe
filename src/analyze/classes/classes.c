/* Classifies kernels by name. Rules are patterns with a gram of KA_GRAM bytes each; a name is
 * walked once, its grams are looked up in a hash table, and only patterns whose gram occurs are
 * compared in full. The first rule that sets an attribute wins, so rules of the user come before
 * the built-in ones. */
#include "analyze/classes/classes_rules.h"

/* ---- words ----------------------------------------------------------------------------------- */

#define KA_X(name, word, ...) word,
static const char *const type_words[] = {KA_TYPE_MAP(KA_X)};
static const char *const family_words[] = {KA_FAMILY_MAP(KA_X)};
static const char *const precision_words[] = {KA_PRECISION_MAP(KA_X)};
static const char *const tensor_words[] = {KA_TENSOR_MAP(KA_X)};
static const char *const library_words[] = {KA_LIBRARY_MAP(KA_X)};
#undef KA_X
#define KA_X(name, word, type) KA_TYPE_##type,
static const uint8_t type_of_family[] = {KA_FAMILY_MAP(KA_X)};
#undef KA_X

/* "unknown" past the end. */
static const char *word_of_number(const char *const *words, size_t count, uint32_t i)
{
    return i < count ? words[i] : "unknown";
}

const char *ka_type_name(uint32_t i) { return word_of_number(type_words, KB_COUNT(type_words), i); }
const char *ka_family_name(uint32_t i)
{
    return word_of_number(family_words, KB_COUNT(family_words), i);
}
const char *ka_precision_name(uint32_t i)
{
    return word_of_number(precision_words, KB_COUNT(precision_words), i);
}
const char *ka_tensor_name(uint32_t i)
{
    return word_of_number(tensor_words, KB_COUNT(tensor_words), i);
}
const char *ka_library_name(uint32_t i)
{
    return word_of_number(library_words, KB_COUNT(library_words), i);
}

/* ---- does a pattern match? ------------------------------------------------------------------- */

/* Compares `size` bytes; with any_case the piece is in lower case already. */
static bool is_same_text(const char *name, const char *piece, size_t size, bool any_case)
{
    if (!any_case)
        return memcmp(name, piece, size) == 0;
    for (size_t i = 0; i < size; i++) /* the piece is in lower case */
        if (kb_lower(name[i]) != piece[i])
            return false;
    return true;
}

/* Where the piece begins in the name, at `from` or later; past its end if it does not. */
static size_t find_piece(kineto_string name, size_t from, const char *piece, size_t size,
                         bool any_case)
{
    if (from > name.size || size > name.size - from)
        return name.size + 1;
    if (!any_case) {
        const char *at = memmem(name.data + from, name.size - from, piece, size);
        return at ? (size_t)(at - name.data) : name.size + 1;
    }
    for (size_t last = name.size - size; from <= last; from++)
        if (is_same_text(name.data + from, piece, size, true))
            return from;
    return name.size + 1;
}

/* May piece `i` of the pattern be at `at`? The first one begins a word, and the last one ends one
 * if the pattern wants whole words. */
static bool has_edges(const ka_name_pattern *p, kineto_string name, uint32_t i, size_t at,
                      size_t size)
{
    bool begins = i == 0 && !p->open_start, ends = p->own && i + 1 == p->count && !p->open_end;
    return (!begins || ka_word_edge(name, at)) && (!ends || ka_word_edge(name, at + size));
}

/* One piece after another, each as early as it can be. */
static bool pattern_matches(const ka_rules *r, const ka_name_pattern *p, kineto_string name)
{
    size_t at = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        const ka_name_piece *piece = &r->pieces.data[p->first + i];
        const char *text = r->text.data + piece->at;
        bool first = i == 0 && p->from_start, last = i + 1 == p->count && p->to_end;
        if (piece->size > name.size - at)
            return false;
        size_t end = name.size - piece->size;
        if (first || last) {
            size_t must = last ? end : 0;
            if ((first && must != 0) ||
                !is_same_text(name.data + must, text, piece->size, p->any_case) ||
                !has_edges(p, name, i, must, piece->size))
                return false;
            at = must + piece->size;
        } else {
            while ((at = find_piece(name, at, text, piece->size, p->any_case)) <= name.size &&
                   !has_edges(p, name, i, at, piece->size))
                at++;
            at += piece->size;
            if (at > name.size)
                return false;
        }
    }
    return true;
}

/* ---- which patterns match? ------------------------------------------------------------------- */

#define WORDS (KA_MOST_PATTERNS / 64)

/* The pattern's gram ends before `end` in the name: is there all of it? */
static bool pattern_holds(const ka_rules *r, const ka_name_pattern *p, kineto_string name,
                          size_t end)
{
    const ka_name_piece *piece = &r->pieces.data[p->first];
    if (p->own)
        return pattern_matches(r, p, ka_own_name(name));
    if (p->count > 1 || p->to_end)
        return pattern_matches(r, p, name);
    size_t before = (size_t)p->gram_at + KA_GRAM;
    if (end < before || (p->from_start && end != before))
        return false;
    size_t at = end - before;
    return piece->size <= name.size - at && has_edges(p, name, 0, at, piece->size) &&
           is_same_text(name.data + at, r->text.data + piece->at, piece->size, p->any_case);
}

/* A pattern of one piece is compared wherever its gram occurs; others are tried once, in all of the
 * name, so that a name made for it does not take long. */
static void find_patterns(const ka_rules *r, kineto_string name, uint64_t found[WORDS])
{
    uint64_t done[WORDS] = {0};
    uint32_t gram = 0;
    for (size_t i = 0; i < name.size; i++) {
        gram = ka_next_gram(gram, name.data[i]);
        uint32_t next = r->head[ka_gram_hash(gram)];
        if (KINETO_LIKELY(!next) || i + 1 < KA_GRAM)
            continue;
        for (; next; next = r->patterns.data[next - 1].next) {
            size_t w = (next - 1) / 64;
            uint64_t bit = UINT64_C(1) << (next - 1) % 64;
            const ka_name_pattern *p = &r->patterns.data[next - 1];
            if (p->gram != gram || (done[w] & bit))
                continue;
            bool good = pattern_holds(r, p, name, i + 1);
            if (good)
                found[w] |= bit;
            if (good || p->own || p->count > 1 || p->to_end)
                done[w] |= bit;
        }
    }
    for (size_t i = 0; i < r->short_ones.count; i++) {
        uint16_t p = r->short_ones.data[i];
        const ka_name_pattern *pattern = &r->patterns.data[p];
        if (pattern_matches(r, pattern, pattern->own ? ka_own_name(name) : name))
            found[p / 64] |= UINT64_C(1) << p % 64;
    }
}

/* Every attribute is what the first rule says that says something about it. */
static ka_name_rule apply_patterns(const ka_rules *r, kineto_string name)
{
    uint64_t found[WORDS] = {0};
    ka_name_rule answer;
    memset(answer.value, KA_UNSET, sizeof answer.value);
    find_patterns(r, name, found);
    for (size_t w = 0; w * 64 < r->patterns.count; w++)
        for (uint64_t bits = found[w]; bits; bits &= bits - 1) {
            size_t p = w * 64 + (size_t)__builtin_ctzll(bits);
            const ka_name_rule *rule = &r->rules.data[r->patterns.data[p].rule];
            for (int a = 0; a < KA_ATTRIBUTE_COUNT; a++)
                if (answer.value[a] == KA_UNSET)
                    answer.value[a] = rule->value[a];
        }
    return answer;
}

/* The type follows from the family. */
static ka_class class_of_family(uint8_t family)
{
    return (ka_class){.type = type_of_family[family], .family = family};
}

/* 0 if no rule has set it. */
static uint8_t attribute_value(const ka_name_rule *answer, ka_attribute a)
{
    return answer->value[a] == KA_UNSET ? 0 : answer->value[a];
}

/* Unknown kernels compute; other unknown work has no class. */
static ka_class class_by_name(const ka_rules *rules, bool kernel, kineto_string name)
{
    ka_name_rule answer = apply_patterns(rules, name);
    ka_class c = {.family = attribute_value(&answer, KA_ATTRIBUTE_FAMILY),
                  .precision = attribute_value(&answer, KA_ATTRIBUTE_PRECISION),
                  .tensor = attribute_value(&answer, KA_ATTRIBUTE_TENSOR),
                  .library = attribute_value(&answer, KA_ATTRIBUTE_LIBRARY)};
    if (answer.value[KA_ATTRIBUTE_TYPE] != KA_UNSET)
        c.type = answer.value[KA_ATTRIBUTE_TYPE];
    else if (c.family || kernel) /* an unknown kernel computes */
        c.type = type_of_family[c.family];
    return c;
}

/* Copies, memsets and synchronisation are classified by kind; names decide only for kernels and
 * for kinds that plug-ins define. */
ka_class ka_classify(const ka_rules *rules, uint32_t kind, kineto_string name)
{
    switch (kind) {
    case KINETO_KIND_GPU_MEMCPY:
        return class_of_family(KA_FAMILY_MEMCPY);
    case KINETO_KIND_GPU_MEMSET:
        return class_of_family(KA_FAMILY_MEMSET);
    case KINETO_KIND_CUDA_SYNC:
        return class_of_family(KA_FAMILY_SYNCHRONIZATION);
    case KINETO_KIND_COLLECTIVE_COMM:
        return class_of_family(KA_FAMILY_COLLECTIVE);
    case KINETO_KIND_CONCURRENT_KERNEL:
        return class_by_name(rules, true, name);
    default: /* of kinds of plug-ins' own it is not known whether they compute */
        return kind >= KINETO_KIND_OWN_FIRST ? class_by_name(rules, false, name) : (ka_class){0};
    }
}
