/* Evaluates the expressions of call frame information: a small stack machine (DWARF 5 section 2.5).
 * Supported is what compilers and C libraries write there: entries of the procedure linkage table,
 * functions that realign their stack, frames of signal handlers. */
#include "base/cfi_reader.h"

enum {
    DW_OP_addr = 0x03,
    DW_OP_deref = 0x06,
    DW_OP_const1u = 0x08,
    DW_OP_const1s = 0x09,
    DW_OP_const2u = 0x0a,
    DW_OP_const2s = 0x0b,
    DW_OP_const4u = 0x0c,
    DW_OP_const4s = 0x0d,
    DW_OP_const8u = 0x0e,
    DW_OP_const8s = 0x0f,
    DW_OP_constu = 0x10,
    DW_OP_consts = 0x11,
    DW_OP_dup = 0x12,
    DW_OP_drop = 0x13,
    DW_OP_swap = 0x16,
    DW_OP_and = 0x1a,
    DW_OP_minus = 0x1c,
    DW_OP_mul = 0x1e,
    DW_OP_or = 0x21,
    DW_OP_plus = 0x22,
    DW_OP_plus_uconst = 0x23,
    DW_OP_shl = 0x24,
    DW_OP_shr = 0x25,
    DW_OP_xor = 0x27,
    DW_OP_eq = 0x29,
    DW_OP_ge = 0x2a,
    DW_OP_gt = 0x2b,
    DW_OP_le = 0x2c,
    DW_OP_lt = 0x2d,
    DW_OP_ne = 0x2e,
    DW_OP_lit0 = 0x30,
    DW_OP_breg0 = 0x70,
    DW_OP_bregx = 0x92,
};
enum { DW_OP_LITERALS = 32, DW_OP_REGISTERS = 32 };

#define MAX_STACK        16u
#define MAX_INSTRUCTIONS 256u

typedef struct expression {
    kb_cfi_reader r;
    const kb_cfi_machine *m;
    uint64_t stack[MAX_STACK];
    uint32_t depth;
} expression;

static void push_value(expression *e, uint64_t value)
{
    if (e->depth < MAX_STACK)
        e->stack[e->depth++] = value;
    else
        e->r.bad = true;
}

static uint64_t pop_value(expression *e)
{
    if (e->depth > 0)
        return e->stack[--e->depth];
    e->r.bad = true;
    return 0;
}

static void push_register(expression *e, int64_t number)
{
    int64_t offset = kb_cfi_read_sleb128(&e->r);
    e->r.bad |= number < 0 || number >= KB_CFI_REGISTERS;
    if (!e->r.bad)
        push_value(e, e->m->registers[number] + (uint64_t)offset);
}

/* A constant of 1, 2, 4 or 8 bytes; signed ones have odd numbers. */
static void push_constant(expression *e, uint8_t op)
{
    uint32_t bytes = 1u << (op - DW_OP_const1u) / 2;
    uint64_t value = kb_cfi_read(&e->r, bytes);
    if ((op & 1) && bytes < 8 && (value >> (8 * bytes - 1) & 1))
        value |= ~UINT64_C(0) << 8 * bytes;
    push_value(e, value);
}

static void dereference_top(expression *e)
{
    uint64_t word = 0;
    if (!e->m->read(e->m->context, pop_value(e), &word))
        e->r.bad = true;
    push_value(e, word);
}

/* Operations on the two topmost values; comparisons are signed. */
static void combine_top(expression *e, uint8_t op)
{
    uint64_t b = pop_value(e), a = pop_value(e);
    switch (op) {
    case DW_OP_and: push_value(e, a & b); break;
    case DW_OP_minus: push_value(e, a - b); break;
    case DW_OP_mul: push_value(e, a * b); break;
    case DW_OP_or: push_value(e, a | b); break;
    case DW_OP_plus: push_value(e, a + b); break;
    case DW_OP_shl: push_value(e, b < 64 ? a << b : 0); break;
    case DW_OP_shr: push_value(e, b < 64 ? a >> b : 0); break;
    case DW_OP_xor: push_value(e, a ^ b); break;
    case DW_OP_eq: push_value(e, a == b); break;
    case DW_OP_ge: push_value(e, (int64_t)a >= (int64_t)b); break;
    case DW_OP_gt: push_value(e, (int64_t)a > (int64_t)b); break;
    case DW_OP_le: push_value(e, (int64_t)a <= (int64_t)b); break;
    case DW_OP_lt: push_value(e, (int64_t)a < (int64_t)b); break;
    case DW_OP_ne: push_value(e, a != b); break;
    default: e->r.bad = true;
    }
}

static void arrange_top(expression *e, uint8_t op)
{
    uint64_t top = pop_value(e);
    if (op == DW_OP_dup) {
        push_value(e, top);
        push_value(e, top);
    } else if (op == DW_OP_swap) {
        uint64_t below = pop_value(e);
        push_value(e, top);
        push_value(e, below);
    }
}

static void run_operation(expression *e, uint8_t op)
{
    if (op >= DW_OP_lit0 && op < DW_OP_lit0 + DW_OP_LITERALS)
        push_value(e, op - DW_OP_lit0);
    else if (op >= DW_OP_breg0 && op < DW_OP_breg0 + DW_OP_REGISTERS)
        push_register(e, op - DW_OP_breg0);
    else if (op >= DW_OP_const1u && op <= DW_OP_const8s)
        push_constant(e, op);
    else if (op == DW_OP_bregx)
        push_register(e, kb_cfi_read_uleb128(&e->r));
    else if (op == DW_OP_constu)
        push_value(e, (uint64_t)kb_cfi_read_uleb128(&e->r));
    else if (op == DW_OP_consts)
        push_value(e, (uint64_t)kb_cfi_read_sleb128(&e->r));
    else if (op == DW_OP_plus_uconst)
        push_value(e, pop_value(e) + (uint64_t)kb_cfi_read_uleb128(&e->r));
    else if (op == DW_OP_deref)
        dereference_top(e);
    else if (op == DW_OP_dup || op == DW_OP_drop || op == DW_OP_swap)
        arrange_top(e, op);
    else
        combine_top(e, op);
}

bool kb_cfi_evaluate(const uint8_t *entry, kb_cfi_bounds bounds, int32_t at,
                     const kb_cfi_machine *m, const uint64_t *first, uint64_t *value)
{
    KB_ASSERT(entry >= bounds.begin && entry < bounds.end);
    if (at < 0 || at >= bounds.end - entry)
        return false;
    expression e = {.r = {entry + at, bounds.end, false}, .m = m};
    int64_t size = kb_cfi_read_uleb128(&e.r);
    if (e.r.bad || size < 0 || size > e.r.end - e.r.at)
        return false;
    e.r.end = e.r.at + size;
    if (first)
        push_value(&e, *first);
    for (uint32_t i = 0; e.r.at < e.r.end && !e.r.bad && i < MAX_INSTRUCTIONS; i++)
        run_operation(&e, (uint8_t)kb_cfi_read(&e.r, 1));
    *value = pop_value(&e);
    return !e.r.bad && e.r.at == e.r.end;
}
