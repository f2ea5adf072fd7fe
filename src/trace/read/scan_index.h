/* Stage one of scanning JSON: where things begin.
 *
 * Text is looked at 64 bytes at a time. What comes out are positions: of brackets, braces, colons
 * and commas outside of strings, of the opening quote of each string, and of the first character of
 * each number or word. A grammar over these is all that is left to check, since the inside of
 * strings is checked here. */
#ifndef KT_SCAN_INDEX_H
#define KT_SCAN_INDEX_H

#include "base/base.h"

/* What one block of 64 bytes hands on to the next. */
typedef struct kt_index_state {
    uint64_t in_string; /* all ones inside of one */
    bool escaped;       /* the next byte is */
    bool in_scalar;     /* the last byte belonged to a number or word */
} kt_index_state;

typedef struct kt_index_result {
    size_t count;
    bool non_ascii;  /* somewhere: to be checked as UTF-8 */
    const char *bad; /* first control character in a string, or bad escape; NULL: none */
} kt_index_result;

/** Look at `blocks` blocks of 64 bytes, all readable, and 6 bytes behind them. Positions count from
 *  `text`; `out` has room for 64 a block, and 8 more. */
typedef kt_index_result kt_index_fn(const char *text, size_t blocks, kt_index_state *state,
                                    uint32_t *out);

/** The fastest one that this processor has. KINETO_… settings have no say: all give the same. */
kt_index_fn *kt_index_best(void);
/** All that this processor has, by name; NULL past the end. For tests and benchmarks. */
kt_index_fn *kt_index_at(size_t i, const char **name);
#endif
