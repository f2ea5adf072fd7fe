/* Call frame information: the unwinder's tables (.eh_frame). For each address of a program they say
 * where the caller's frame is and where its registers were saved.
 *
 * Used in two places: by the recorder inside a program, for its own stack (record/unwind_cfi.c), and
 * by the recording command, for copied stacks of other programs (trace/unwind/unwind.c).
 *
 * Names and numbers: DWARF 5 sections 6.4 and 7.24, and the Linux Standard Base for .eh_frame. */
#ifndef KB_CFI_H
#define KB_CFI_H

#include "base/base.h"

/* Registers have DWARF's numbers; higher ones (of vectors) are ignored. */
#define KB_CFI_REGISTERS 33u
#if defined(__aarch64__)
enum { KB_CFI_FRAME = 29, KB_CFI_LINK = 30, KB_CFI_STACK = 31 };
#else
enum { KB_CFI_FRAME = 6, KB_CFI_STACK = 7, KB_CFI_RETURN = 16 };
#endif

/* How a value is found; `value` is a number of bytes, a register, or the offset of an expression. */
typedef enum kb_cfi_by {
    KB_CFI_SAME = 0,       /* it was not changed */
    KB_CFI_UNDEFINED,      /* it cannot be found; of the return address: there is no caller */
    KB_CFI_OFFSET,         /* saved at CFA + value */
    KB_CFI_VAL_OFFSET,     /* it is CFA + value */
    KB_CFI_REGISTER,       /* it is in register `value` */
    KB_CFI_EXPRESSION,     /* saved at the address that the expression yields */
    KB_CFI_VAL_EXPRESSION, /* the expression yields it */
} kb_cfi_by;

typedef struct kb_cfi_rule {
    int32_t value; /* of an expression: where it begins, bytes from `entry`; its size comes first */
    uint8_t by;    /* kb_cfi_by */
} kb_cfi_rule;

/* The row of the table for one address. */
typedef struct kb_cfi_row {
    /* The CFA, canonical frame address: the stack pointer's value before the call. By VAL_EXPRESSION:
     * cfa_value is where the expression begins; else it is the value of cfa_register + cfa_value. */
    int32_t cfa_value;
    uint8_t cfa_register;
    uint8_t cfa_by;          /* KB_CFI_OFFSET or KB_CFI_VAL_EXPRESSION */
    uint8_t return_register; /* whose rule finds the return address */
    bool is_signal_frame;    /* the address is that of an instruction, not of the one after a call */
    kb_cfi_rule rules[KB_CFI_REGISTERS];
} kb_cfi_row;

/* A part of memory with the entries; all reading stays inside. */
typedef struct kb_cfi_bounds {
    const uint8_t *begin, *end;
} kb_cfi_bounds;

/** Addresses that an entry (an FDE) is for, as it states them: of the encoding `pcrel`, relative to
 *  `field_address`, the address of the entry's byte 8 where it is loaded.
 *  @return false: malformed, or an encoding that is not supported. threads: hot. */
bool kb_cfi_range(const uint8_t *entry, kb_cfi_bounds bounds, uint64_t field_address,
                  uint64_t *start, uint64_t *size);
/** The row for `address`, of the function that begins at `start`.
 *  @param entry  its FDE. @return false: malformed, or it uses what is not supported. threads: hot. */
bool kb_cfi_row_at(const uint8_t *entry, kb_cfi_bounds bounds, uint64_t start, uint64_t address,
                   kb_cfi_row *row);

/** What an expression or rule reads while it is evaluated. */
typedef struct kb_cfi_machine {
    const uint64_t *registers; /* KB_CFI_REGISTERS */
    bool (*read)(void *context, uint64_t address, uint64_t *word);
    void *context;
} kb_cfi_machine;
/** Evaluate the expression at `entry` + `at`, with `first` on the stack (NULL: nothing).
 *  @return false: malformed, not supported, or memory that cannot be read. threads: hot. */
bool kb_cfi_evaluate(const uint8_t *entry, kb_cfi_bounds bounds, int32_t at,
                     const kb_cfi_machine *m, const uint64_t *first, uint64_t *value);
#endif
