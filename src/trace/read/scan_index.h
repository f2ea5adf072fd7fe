/* Stage one of parsing JSON: the positions of structural characters, after the design of
 * simdjson.
 *
 * Text is classified 64 bytes at a time, one bit per byte. The result is a list of
 * positions: of brackets, braces, colons and commas outside of strings, of the opening
 * quote of each string, and of the first character of each number or word. The inside of
 * strings (escapes, control characters) is checked here; stage two (scan.h) checks the
 * grammar over the positions. */
#ifndef KT_SCAN_INDEX_H
#define KT_SCAN_INDEX_H

#include "base/base.h"

/* State that one block of 64 bytes passes to the next. */
typedef struct kt_index_state {
    uint64_t in_string; /* all ones: the block ended inside a string; else 0 */
    bool escaped;       /* the next byte is escaped */
    bool in_scalar;     /* the last byte was part of a number or word */
} kt_index_state;

typedef struct kt_index_result {
    size_t count;
    bool non_ascii;  /* the text has non-ASCII bytes, to be checked as UTF-8 */
    const char *bad; /* first control character in a string, or invalid escape; NULL: none */
} kt_index_result;

/** Indexes `blocks` blocks of 64 bytes; they and 6 bytes after them are readable. Positions
 *  are relative to `text`; `out` has room for 64 per block, and 8 more. */
typedef kt_index_result kt_index_fn(const char *text, size_t blocks, kt_index_state *state,
                                    uint32_t *out);

/** The fastest implementation for this processor. All give the same results. */
kt_index_fn *kt_index_best(void);
/** The implementations for this processor, with their names; NULL past the end. For tests
 *  and benchmarks. */
kt_index_fn *kt_index_at(size_t i, const char **name);
#endif
