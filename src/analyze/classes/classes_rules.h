/* How rules about names are kept: for classes.c and classes_file.c alone. */
#ifndef KA_CLASSES_RULES_H
#define KA_CLASSES_RULES_H

#include "analyze/classes/classes.h"

/** What a rule can say: X(NAME, "word", names of its values, how many). The order is that of the
 *  bytes of ka_class. */
#define KA_ATTRIBUTE_MAP(X)                                                                        \
    X(TYPE, "type", ka_type_name, KA_TYPE_COUNT)                                                   \
    X(FAMILY, "family", ka_family_name, KA_FAMILY_COUNT)                                           \
    X(PRECISION, "precision", ka_precision_name, KA_PRECISION_COUNT)                               \
    X(TENSOR, "tensor", ka_tensor_name, KA_TENSOR_COUNT)                                           \
    X(LIBRARY, "library", ka_library_name, KA_LIBRARY_COUNT)
#define KA_X(name, ...) KA_ATTRIBUTE_##name,
typedef enum ka_attribute { KA_ATTRIBUTE_MAP(KA_X) KA_ATTRIBUTE_COUNT } ka_attribute;
#undef KA_X

#define KA_UNSET UINT8_MAX
typedef struct ka_name_rule {
    uint8_t value[KA_ATTRIBUTE_COUNT]; /* value or KA_UNSET */
} ka_name_rule;

/** Literal bytes between the stars of a pattern. */
typedef struct ka_name_piece {
    uint32_t at, size; /* in text */
} ka_name_piece;

typedef struct ka_name_pattern {
    uint32_t rule, first, count; /* its pieces */
    uint32_t gram;    /* KA_GRAM bytes, in lower case, that every name has that it matches */
    uint32_t gram_at; /* bytes from the beginning of its piece */
    uint16_t next;    /* pattern with the same hash + 1 */
    bool from_start, to_end, any_case;
    bool own;                  /* only in the kernel's own name, and whole words of it */
    bool open_start, open_end; /* there is a star at this end: it need not be the edge of a word */
} ka_name_pattern;

#define KA_GRAM          3u
#define KA_GRAM_BITS     14u
#define KA_MOST_PATTERNS 4096u
/** Patterns in the order of their rules. One pass over a name, by grams of a few bytes, finds
 * the few that can match. */
struct ka_rules {
    KB_VEC(ka_name_rule) rules;
    KB_VEC(ka_name_pattern) patterns;
    KB_VEC(ka_name_piece) pieces;
    KB_VEC(char) text;
    KB_VEC(uint16_t) short_ones;       /* patterns that are too short for a gram */
    uint16_t head[1u << KA_GRAM_BITS]; /* pattern + 1 by hash of its gram */
};

/* ---- kernel_name.c ---- */
/** The name of the function itself, with its namespaces: without the return type, template
 * arguments and parameters. Of a mangled name it is the part with its identifiers. Never empty
 * unless `name` is. */
kineto_string ka_own_name(kineto_string name);
/** Does a word begin, or end, before a byte? Words are parted by '_', by other punctuation,
 *  where a capital follows a small letter, and between letters and digits. */
bool ka_word_edge(kineto_string name, size_t at);

/** The gram that ends with a byte, from the one before. */
static inline uint32_t ka_next_gram(uint32_t gram, char c)
{
    return (gram << 8 | (uint8_t)kb_lower(c)) & ((UINT32_C(1) << 8 * KA_GRAM) - 1);
}
static inline uint32_t ka_gram_hash(uint32_t gram)
{
    return gram * UINT32_C(0x9e3779b1) >> (32 - KA_GRAM_BITS);
}
#endif
