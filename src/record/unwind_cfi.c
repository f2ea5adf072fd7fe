/* Evaluates the unwinder's tables (DWARF call frame information in .eh_frame) for one return
 * address, in the simple case that most functions without a frame pointer are in: the caller's
 * frame is at a constant distance from the stack pointer. Everything else (expressions, other
 * registers, tables of other versions) is refused, and the unwinder itself finds the caller
 * (unwind.c). The tables are those that the process runs with, so they are trusted as much as the
 * unwinder trusts them; still nothing is read past an entry's end.
 *
 * Names and numbers: DWARF 5 sections 6.4 and 7.24, and the Linux Standard Base for .eh_frame. An
 * entry is a CIE (common information entry) or an FDE (frame description entry) that refers to
 * one. */
#include "record/unwind.h"

#if defined(__x86_64__)

/* The standard's names, as in elfutils' <dwarf.h>, which is not needed to build this library. */
enum {
    DW_CFA_nop = 0x00,
    DW_CFA_advance_loc1 = 0x02,
    DW_CFA_advance_loc2 = 0x03,
    DW_CFA_advance_loc4 = 0x04,
    DW_CFA_offset_extended = 0x05,
    DW_CFA_restore_extended = 0x06,
    DW_CFA_undefined = 0x07,
    DW_CFA_same_value = 0x08,
    DW_CFA_register = 0x09,
    DW_CFA_remember_state = 0x0a,
    DW_CFA_restore_state = 0x0b,
    DW_CFA_def_cfa = 0x0c,
    DW_CFA_def_cfa_register = 0x0d,
    DW_CFA_def_cfa_offset = 0x0e,
    DW_CFA_def_cfa_expression = 0x0f,
    DW_CFA_expression = 0x10,
    DW_CFA_offset_extended_sf = 0x11,
    DW_CFA_def_cfa_sf = 0x12,
    DW_CFA_def_cfa_offset_sf = 0x13,
    DW_CFA_val_offset = 0x14,
    DW_CFA_val_offset_sf = 0x15,
    DW_CFA_val_expression = 0x16,
    DW_CFA_GNU_args_size = 0x2e,
    /* The upper two bits of an opcode; its lower six are an operand. */
    DW_CFA_advance_loc = 0x40,
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0,
};
enum { DW_CFA_HIGH_MASK = 0xc0, DW_CFA_LOW_MASK = 0x3f };

/* Encodings of addresses; the format is in the low four bits. */
enum {
    DW_EH_PE_absptr = 0x00,
    DW_EH_PE_udata2 = 0x02,
    DW_EH_PE_udata4 = 0x03,
    DW_EH_PE_udata8 = 0x04,
    DW_EH_PE_sdata2 = 0x0a,
    DW_EH_PE_sdata4 = 0x0b,
    DW_EH_PE_sdata8 = 0x0c,
};
enum { DW_EH_PE_FORMAT_MASK = 0x0f };

/* DWARF numbers of registers on x86-64. */
enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RETURN_ADDRESS = 16 };

/* A reader of a table. `bad` is set by anything that is not understood here, and by the end. */
typedef struct cfi_reader {
    const uint8_t *at, *end;
    bool bad;
} cfi_reader;

/* An unsigned number of `size` bytes; 0 and `bad` past the end. */
static uint64_t read_cfi_bytes(cfi_reader *r, uint32_t size)
{
    uint64_t value = 0;
    KB_ASSERT(r->at <= r->end && size <= sizeof value);
    if ((size_t)(r->end - r->at) < size) {
        r->bad = true;
        return 0;
    }
    memcpy(&value, r->at, size);
    r->at += size;
    return value;
}

static int64_t read_leb128(cfi_reader *r, bool is_signed)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 63; shift += 7) {
        uint8_t byte = (uint8_t)read_cfi_bytes(r, 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (is_signed && (byte & 0x40))
            value |= ~UINT64_C(0) << (shift + 7);
        return (int64_t)value;
    }
    r->bad = true;
    return 0;
}
static int64_t read_uleb128(cfi_reader *r) { return read_leb128(r, false); }
static int64_t read_sleb128(cfi_reader *r) { return read_leb128(r, true); }

/* Skip a size and that many bytes: an expression, or augmentation data. */
static void skip_cfi_block(cfi_reader *r)
{
    int64_t size = read_uleb128(r);
    if (size < 0 || size > r->end - r->at)
        r->bad = true;
    else
        r->at += size;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* What an FDE needs of its CIE. */
typedef struct cie {
    int64_t code_align, data_align;
    uint8_t encoding;   /* of addresses in the FDE: DW_EH_PE_… */
    cfi_reader initial; /* instructions that come before those of the FDE */
} cie;

/* Bytes of an encoded address; 0: an encoding without a fixed size. */
static uint32_t encoded_address_bytes(uint8_t encoding)
{
    switch (encoding & DW_EH_PE_FORMAT_MASK) {
    case DW_EH_PE_udata2:
    case DW_EH_PE_sdata2:
        return 2;
    case DW_EH_PE_udata4:
    case DW_EH_PE_sdata4:
        return 4;
    case DW_EH_PE_absptr:
    case DW_EH_PE_udata8:
    case DW_EH_PE_sdata8:
        return 8;
    default:
        return 0;
    }
}

/* A reader of an entry's contents, which follow its length. 64-bit DWARF entries are `bad`. */
static cfi_reader open_entry(const uint8_t *at)
{
    uint32_t size;
    memcpy(&size, at, sizeof size);
    cfi_reader r = {at + sizeof size, at + sizeof size, size == 0 || size == UINT32_MAX};
    if (!r.bad)
        r.end += size;
    return r;
}

/* The letters of an augmentation after 'z', and the data that belongs to each. */
static void read_augmentation(cfi_reader *r, const char *letters, cie *c)
{
    for (; *letters && !r->bad; letters++) {
        uint8_t encoding = *letters == 'B' ? 0 : (uint8_t)read_cfi_bytes(r, 1);
        if (*letters == 'R') /* encoding of the FDE's addresses */
            c->encoding = encoding;
        else if (*letters == 'P' && encoded_address_bytes(encoding)) /* personality routine */
            read_cfi_bytes(r, encoded_address_bytes(encoding));
        else if (*letters != 'L') /* 'L': language-specific data; 'S', a signal frame, is refused */
            r->bad = true;
    }
}

/* False: not a CIE of a known version, or one with another return address register. */
static bool read_cie(const uint8_t *at, cie *c)
{
    cfi_reader r = open_entry(at);
    if (read_cfi_bytes(&r, 4) != 0) /* 0 marks a CIE in .eh_frame */
        return false;
    uint8_t version = (uint8_t)read_cfi_bytes(&r, 1);
    const char *letters = (const char *)r.at;
    size_t count = strnlen(letters, (size_t)(r.end - r.at));
    r.at += KB_MIN(count + 1, (size_t)(r.end - r.at));
    c->code_align = read_uleb128(&r);
    c->data_align = read_sleb128(&r);
    int64_t address = version == 1 ? (int64_t)read_cfi_bytes(&r, 1) : read_uleb128(&r);
    if (r.bad || (version != 1 && version != 3) || address != DWARF_RETURN_ADDRESS ||
        letters[0] != 'z')
        return false;
    int64_t size = read_uleb128(&r);
    if (r.bad || size < 0 || size > r.end - r.at)
        return false;
    cfi_reader augmentation = {r.at, r.at + size, false};
    read_augmentation(&augmentation, letters + 1, c);
    c->initial = (cfi_reader){r.at + size, r.end, false};
    return !augmentation.bad;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* A row of the table: how the caller's frame (CFA) is found, a register plus a distance; and where
 * rbp and the return address are saved, as distances from the CFA (0: not saved). */
typedef struct cfa_row {
    int64_t base, distance, frame, address;
} cfa_row;

typedef struct cfa_machine {
    const cie *common;
    cfa_row now, initial, saved[8];
    uint32_t depth;    /* rows in `saved` */
    uint64_t location; /* address from which the row `now` is valid */
} cfa_machine;

/* DWARF's rules for other registers do not matter here and are ignored. */
static void set_saved_register(cfa_row *row, int64_t number, int64_t at)
{
    if (number == DWARF_RBP)
        row->frame = at;
    else if (number == DWARF_RETURN_ADDRESS)
        row->address = at;
}

static void restore_register(cfa_machine *m, int64_t number)
{
    if (number == DWARF_RBP)
        m->now.frame = m->initial.frame;
    else if (number == DWARF_RETURN_ADDRESS)
        m->now.address = m->initial.address;
}

/* The register is saved in a way that is not evaluated here: bad if the register matters. */
static void refuse_register(int64_t number, cfi_reader *r)
{
    r->bad |= number == DWARF_RBP || number == DWARF_RETURN_ADDRESS;
}

/* Instructions with an operand in the opcode. False: `op` is not one of them. */
static bool run_packed_instruction(cfa_machine *m, uint8_t op, cfi_reader *r)
{
    uint8_t low = op & DW_CFA_LOW_MASK;
    switch (op & DW_CFA_HIGH_MASK) {
    case DW_CFA_advance_loc:
        m->location += low * (uint64_t)m->common->code_align;
        return true;
    case DW_CFA_offset:
        set_saved_register(&m->now, low, read_uleb128(r) * m->common->data_align);
        return true;
    case DW_CFA_restore:
        restore_register(m, low);
        return true;
    default:
        return false;
    }
}

/* Instructions that save or restore a whole row. */
static void run_state_instruction(cfa_machine *m, uint8_t op, cfi_reader *r)
{
    KB_ASSERT(m->depth <= KB_COUNT(m->saved));
    if (op == DW_CFA_remember_state && m->depth < KB_COUNT(m->saved))
        m->saved[m->depth++] = m->now;
    else if (op == DW_CFA_restore_state && m->depth > 0)
        m->now = m->saved[--m->depth];
    else
        r->bad = true;
}

/* Instructions that define the CFA. */
static void run_cfa_instruction(cfa_machine *m, uint8_t op, cfi_reader *r)
{
    cfa_row *row = &m->now;
    switch (op) {
    case DW_CFA_def_cfa:
        row->base = read_uleb128(r);
        row->distance = read_uleb128(r);
        break;
    case DW_CFA_def_cfa_sf:
        row->base = read_uleb128(r);
        row->distance = read_sleb128(r) * m->common->data_align;
        break;
    case DW_CFA_def_cfa_register:
        row->base = read_uleb128(r);
        break;
    case DW_CFA_def_cfa_offset:
        row->distance = read_uleb128(r);
        break;
    case DW_CFA_def_cfa_offset_sf:
        row->distance = read_sleb128(r) * m->common->data_align;
        break;
    default: /* DW_CFA_def_cfa_expression */
        row->base = -1;
        skip_cfi_block(r);
    }
}

/* Instructions about one register, whose number comes first. */
static void run_register_instruction(cfa_machine *m, uint8_t op, cfi_reader *r)
{
    int64_t number = read_uleb128(r);
    switch (op) {
    case DW_CFA_offset_extended:
        set_saved_register(&m->now, number, read_uleb128(r) * m->common->data_align);
        break;
    case DW_CFA_offset_extended_sf:
        set_saved_register(&m->now, number, read_sleb128(r) * m->common->data_align);
        break;
    case DW_CFA_restore_extended:
        restore_register(m, number);
        break;
    case DW_CFA_same_value:
        set_saved_register(&m->now, number, 0);
        break;
    case DW_CFA_expression:
    case DW_CFA_val_expression:
        skip_cfi_block(r);
        refuse_register(number, r);
        break;
    case DW_CFA_register:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
        read_uleb128(r);
        refuse_register(number, r);
        break;
    default: /* DW_CFA_undefined: in the outermost function of a thread */
        refuse_register(number, r);
    }
}

static void run_instruction(cfa_machine *m, cfi_reader *r)
{
    uint8_t op = (uint8_t)read_cfi_bytes(r, 1);
    if (run_packed_instruction(m, op, r))
        return;
    switch (op) {
    case DW_CFA_nop:
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        m->location +=
            read_cfi_bytes(r, 1u << (op - DW_CFA_advance_loc1)) * (uint64_t)m->common->code_align;
        break;
    case DW_CFA_remember_state:
    case DW_CFA_restore_state:
        run_state_instruction(m, op, r);
        break;
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_register:
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_expression:
    case DW_CFA_def_cfa_sf:
    case DW_CFA_def_cfa_offset_sf:
        run_cfa_instruction(m, op, r);
        break;
    case DW_CFA_offset_extended:
    case DW_CFA_restore_extended:
    case DW_CFA_undefined:
    case DW_CFA_same_value:
    case DW_CFA_register:
    case DW_CFA_expression:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_val_offset:
    case DW_CFA_val_offset_sf:
    case DW_CFA_val_expression:
        run_register_instruction(m, op, r);
        break;
    case DW_CFA_GNU_args_size: /* bytes of pushed arguments: the CFA's distance includes them */
        read_uleb128(r);
        break;
    default:
        r->bad = true;
    }
}

/* Run the CIE's instructions, then those of the FDE up to the address; the last row is the
 * result. */
bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    cie c = {.code_align = 0};
    cfi_reader r = open_entry(entry);
    const uint8_t *field = r.at;
    uint64_t distance_to_cie = read_cfi_bytes(&r, 4);
    if (r.bad || !read_cie(field - distance_to_cie, &c) || !encoded_address_bytes(c.encoding))
        return false;
    read_cfi_bytes(&r, encoded_address_bytes(c.encoding)); /* the function's start: `start` */
    read_cfi_bytes(&r, encoded_address_bytes(c.encoding)); /* and its size */
    skip_cfi_block(&r);
    cfa_machine m = {.common = &c, .now = {.base = -1}, .location = start};
    while (c.initial.at < c.initial.end && !c.initial.bad)
        run_instruction(&m, &c.initial);
    m.initial = m.now;
    while (r.at < r.end && !r.bad && !c.initial.bad && m.location <= address)
        run_instruction(&m, &r);
    out->bytes = (uint64_t)m.now.distance;
    out->frame_at = (uint64_t)-m.now.frame;
    return !r.bad && !c.initial.bad && m.now.base == DWARF_RSP && m.now.distance > 0 &&
           m.now.address == -8 && m.now.frame <= 0;
}
#else
bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    (void)entry, (void)start, (void)address, (void)out;
    return false;
}
#endif
