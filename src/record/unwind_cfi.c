/* How the recorder finds a caller's frame from the unwinder's tables (base/cfi.h), in the simple case
 * that most functions without a frame pointer are in: it is at a constant distance from the stack
 * pointer. Everything else (expressions, other registers) is refused, and the unwinder itself finds
 * the caller (unwind.c). The tables are those that the process runs with, so they are trusted as
 * much as the unwinder trusts them. */
#include "base/cfi.h"
#include "record/unwind.h"

#if defined(__x86_64__)

#define TABLES_BYTES ((uintptr_t)1 << 30) /* more than any tables have, on either side of an entry */

/* Is the register unchanged, or saved at a constant distance from the CFA? */
static bool is_kept(const kb_cfi_rule *rule)
{
    return rule->by == KB_CFI_SAME || (rule->by == KB_CFI_OFFSET && rule->value < 0);
}

bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    uintptr_t at = (uintptr_t)entry; /* the size of the tables is not known here */
    kb_cfi_bounds around = {(const uint8_t *)(at - KB_MIN(at - 1, TABLES_BYTES)),
                            (const uint8_t *)(at + KB_MIN(UINTPTR_MAX - at, TABLES_BYTES))};
    kb_cfi_row row;
    if (!kb_cfi_row_at(entry, around, start, address, &row))
        return false;
    const kb_cfi_rule *frame = &row.rules[KB_CFI_FRAME], *back = &row.rules[KB_CFI_RETURN];
    out->bytes = (uint64_t)row.cfa_value;
    out->frame_at = frame->by == KB_CFI_OFFSET ? (uint64_t)-frame->value : 0;
    return row.cfa_by == KB_CFI_OFFSET && row.cfa_register == KB_CFI_STACK && row.cfa_value > 0 &&
           row.return_register == KB_CFI_RETURN && !row.is_signal_frame && is_kept(frame) &&
           back->by == KB_CFI_OFFSET && back->value == -8;
}
#else
bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    (void)entry, (void)start, (void)address, (void)out;
    return false;
}
#endif
