/* A bounded reader of call frame information, for cfi.c and cfi_expression.c. */
#ifndef KB_CFI_READER_H
#define KB_CFI_READER_H

#include "base/cfi.h"

/* `bad` is set by anything that is not supported, and by reading past the end. */
typedef struct kb_cfi_reader {
    const uint8_t *at, *end;
    bool bad;
} kb_cfi_reader;

/** An unsigned number of `size` bytes; 0 and `bad` past the end. */
uint64_t kb_cfi_read(kb_cfi_reader *r, uint32_t size);
int64_t kb_cfi_read_uleb128(kb_cfi_reader *r);
int64_t kb_cfi_read_sleb128(kb_cfi_reader *r);
#endif
