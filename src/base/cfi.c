/* Reads call frame information: entries of .eh_frame, and the instructions in them that build the row
 * for an address. Nothing is read outside the bounds, so tables may come from a damaged file.
 *
 * An entry is a CIE (common information entry) or an FDE (frame description entry), which refers to
 * a CIE. 64-bit DWARF entries are not supported; compilers do not write them into .eh_frame.
 * Expressions are evaluated in cfi_expression.c. */
#include "base/cfi_reader.h"

/* The standard's names, as in elfutils' <dwarf.h>, which is not needed to build this library. */
enum {
    DW_CFA_nop = 0x00,
    DW_CFA_set_loc = 0x01,
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
    DW_CFA_AARCH64_negate_ra_state_with_pc = 0x2c,
    DW_CFA_AARCH64_negate_ra_state = 0x2d,
    DW_CFA_GNU_args_size = 0x2e,
    /* The upper two bits of an opcode; its lower six are an operand. */
    DW_CFA_advance_loc = 0x40,
    DW_CFA_offset = 0x80,
    DW_CFA_restore = 0xc0,
};
enum { DW_CFA_HIGH_MASK = 0xc0, DW_CFA_LOW_MASK = 0x3f };

/* Encodings of addresses: the format is in the low four bits, what it is relative to above. */
enum {
    DW_EH_PE_absptr = 0x00,
    DW_EH_PE_udata2 = 0x02,
    DW_EH_PE_udata4 = 0x03,
    DW_EH_PE_udata8 = 0x04,
    DW_EH_PE_sdata2 = 0x0a,
    DW_EH_PE_sdata4 = 0x0b,
    DW_EH_PE_sdata8 = 0x0c,
    DW_EH_PE_pcrel = 0x10,
};
enum { DW_EH_PE_FORMAT_MASK = 0x0f, DW_EH_PE_RELATION_MASK = 0x70 };

uint64_t kb_cfi_read(kb_cfi_reader *r, uint32_t size)
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

static int64_t read_leb128(kb_cfi_reader *r, bool is_signed)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 63; shift += 7) {
        uint8_t byte = (uint8_t)kb_cfi_read(r, 1);
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
int64_t kb_cfi_read_uleb128(kb_cfi_reader *r) { return read_leb128(r, false); }
int64_t kb_cfi_read_sleb128(kb_cfi_reader *r) { return read_leb128(r, true); }

/* Skip a size and that many bytes: an expression, or augmentation data. */
static void skip_cfi_block(kb_cfi_reader *r)
{
    int64_t size = kb_cfi_read_uleb128(r);
    if (size < 0 || size > r->end - r->at)
        r->bad = true;
    else
        r->at += size;
}

/* ---- entries --------------------------------------------------------------------------------- */

/* What an FDE needs of its CIE. */
typedef struct cie {
    int64_t code_align, data_align;
    int64_t return_register;
    uint8_t encoding; /* of addresses in the FDE: DW_EH_PE_… */
    bool is_signal_frame;
    kb_cfi_reader initial; /* instructions that come before those of the FDE */
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

/* A reader of an entry's contents, which follow its length. */
static kb_cfi_reader open_entry(const uint8_t *at, kb_cfi_bounds bounds)
{
    uint32_t size = 0;
    bool fits = at >= bounds.begin && at < bounds.end &&
                (size_t)(bounds.end - at) >= sizeof size;
    if (!fits)
        return (kb_cfi_reader){bounds.begin, bounds.begin, true};
    memcpy(&size, at, sizeof size);
    at += sizeof size;
    if (size == 0 || size == UINT32_MAX || size > (size_t)(bounds.end - at))
        return (kb_cfi_reader){at, at, true};
    return (kb_cfi_reader){at, at + size, false};
}

/* The letters of an augmentation after 'z', and the data that belongs to each. */
static void read_augmentation(kb_cfi_reader *r, const char *letters, size_t count, cie *c)
{
    for (size_t i = 1; i < count && !r->bad; i++) {
        bool has_data = letters[i] == 'R' || letters[i] == 'P' || letters[i] == 'L';
        uint8_t encoding = has_data ? (uint8_t)kb_cfi_read(r, 1) : 0;
        if (letters[i] == 'R') /* encoding of the FDE's addresses */
            c->encoding = encoding;
        else if (letters[i] == 'P') { /* personality routine */
            uint32_t bytes = encoded_address_bytes(encoding);
            r->bad |= bytes == 0;
            kb_cfi_read(r, bytes);
        } else if (letters[i] == 'S')
            c->is_signal_frame = true;
        else if (letters[i] != 'L' && letters[i] != 'B') /* language-specific data, arm64 keys */
            r->bad = true;
    }
}

/* False: not a CIE of a known version. */
static bool read_cie(const uint8_t *at, kb_cfi_bounds bounds, cie *c)
{
    kb_cfi_reader r = open_entry(at, bounds);
    if (kb_cfi_read(&r, 4) != 0 || r.bad) /* 0 marks a CIE in .eh_frame */
        return false;
    uint8_t version = (uint8_t)kb_cfi_read(&r, 1);
    const char *letters = (const char *)r.at;
    size_t count = strnlen(letters, (size_t)(r.end - r.at));
    r.at += KB_MIN(count + 1, (size_t)(r.end - r.at));
    c->code_align = kb_cfi_read_uleb128(&r);
    c->data_align = kb_cfi_read_sleb128(&r);
    c->return_register = version == 1 ? (int64_t)kb_cfi_read(&r, 1) : kb_cfi_read_uleb128(&r);
    if (r.bad || (version != 1 && version != 3) || c->return_register < 0 ||
        c->return_register >= KB_CFI_REGISTERS)
        return false;
    int64_t size = kb_cfi_read_uleb128(&r);
    if (count == 0 || letters[0] != 'z' || r.bad || size < 0 || size > r.end - r.at)
        return false;
    kb_cfi_reader augmentation = {r.at, r.at + size, false};
    read_augmentation(&augmentation, letters, count, c);
    c->initial = (kb_cfi_reader){r.at + size, r.end, false};
    return !augmentation.bad;
}

/* Open an FDE and its CIE; the reader is at its addresses. False: malformed. */
static bool open_fde(const uint8_t *entry, kb_cfi_bounds bounds, cie *c, kb_cfi_reader *r)
{
    *r = open_entry(entry, bounds);
    const uint8_t *field = r->at;
    uint64_t distance = kb_cfi_read(r, 4);
    if (r->bad || distance == 0 || distance > (size_t)(field - bounds.begin))
        return false;
    *c = (cie){.code_align = 0};
    return read_cie(field - distance, bounds, c) && encoded_address_bytes(c->encoding) != 0;
}

bool kb_cfi_range(const uint8_t *entry, kb_cfi_bounds bounds, uint64_t field_address,
                  uint64_t *start, uint64_t *size)
{
    cie c;
    kb_cfi_reader r;
    if (!open_fde(entry, bounds, &c, &r))
        return false;
    uint32_t bytes = encoded_address_bytes(c.encoding);
    uint64_t value = kb_cfi_read(&r, bytes);
    *size = kb_cfi_read(&r, bytes);
    if ((c.encoding & DW_EH_PE_FORMAT_MASK) >= DW_EH_PE_sdata2 && bytes < 8 &&
        (value >> (8 * bytes - 1) & 1))
        value |= ~UINT64_C(0) << 8 * bytes;
    uint8_t relation = c.encoding & DW_EH_PE_RELATION_MASK;
    *start = value + (relation == DW_EH_PE_pcrel ? field_address : 0);
    return !r.bad && (relation == 0 || relation == DW_EH_PE_pcrel);
}

/* ---- instructions ---------------------------------------------------------------------------- */

typedef struct cfa_machine {
    const cie *common;
    const uint8_t *entry; /* expressions are stated relative to it */
    kb_cfi_row now, initial, saved[8];
    uint32_t depth;    /* rows in `saved` */
    uint64_t location; /* address from which the row `now` is valid */
} cfa_machine;

static int32_t clamp_offset(int64_t value, kb_cfi_reader *r)
{
    r->bad |= value < INT32_MIN || value > INT32_MAX;
    return (int32_t)value;
}

static void set_rule(cfa_machine *m, int64_t number, kb_cfi_by by, int64_t value, kb_cfi_reader *r)
{
    if (number >= 0 && number < KB_CFI_REGISTERS)
        m->now.rules[number] = (kb_cfi_rule){clamp_offset(value, r), (uint8_t)by};
}

/* The expression that comes next. */
static int64_t skip_expression(cfa_machine *m, kb_cfi_reader *r)
{
    int64_t at = r->at - m->entry;
    skip_cfi_block(r);
    return at;
}

static void restore_rule(cfa_machine *m, int64_t number)
{
    if (number >= 0 && number < KB_CFI_REGISTERS)
        m->now.rules[number] = m->initial.rules[number];
}

/* Instructions with an operand in the opcode. False: `op` is not one of them. */
static bool run_packed_instruction(cfa_machine *m, uint8_t op, kb_cfi_reader *r)
{
    uint8_t low = op & DW_CFA_LOW_MASK;
    switch (op & DW_CFA_HIGH_MASK) {
    case DW_CFA_advance_loc:
        m->location += low * (uint64_t)m->common->code_align;
        return true;
    case DW_CFA_offset:
        set_rule(m, low, KB_CFI_OFFSET, kb_cfi_read_uleb128(r) * m->common->data_align, r);
        return true;
    case DW_CFA_restore:
        restore_rule(m, low);
        return true;
    default:
        return false;
    }
}

/* Instructions that save or restore a whole row. */
static void run_state_instruction(cfa_machine *m, uint8_t op, kb_cfi_reader *r)
{
    KB_ASSERT(m->depth <= KB_COUNT(m->saved));
    if (op == DW_CFA_remember_state && m->depth < KB_COUNT(m->saved))
        m->saved[m->depth++] = m->now;
    else if (op == DW_CFA_restore_state && m->depth > 0)
        m->now = m->saved[--m->depth];
    else
        r->bad = true;
}

static void set_cfa_register(kb_cfi_row *row, int64_t number, kb_cfi_reader *r)
{
    r->bad |= number < 0 || number >= KB_CFI_REGISTERS;
    row->cfa_register = (uint8_t)number;
    row->cfa_by = KB_CFI_OFFSET;
}

/* Instructions that define the CFA. */
static void run_cfa_instruction(cfa_machine *m, uint8_t op, kb_cfi_reader *r)
{
    kb_cfi_row *row = &m->now;
    switch (op) {
    case DW_CFA_def_cfa:
        set_cfa_register(row, kb_cfi_read_uleb128(r), r);
        row->cfa_value = clamp_offset(kb_cfi_read_uleb128(r), r);
        break;
    case DW_CFA_def_cfa_sf:
        set_cfa_register(row, kb_cfi_read_uleb128(r), r);
        row->cfa_value = clamp_offset(kb_cfi_read_sleb128(r) * m->common->data_align, r);
        break;
    case DW_CFA_def_cfa_register:
        set_cfa_register(row, kb_cfi_read_uleb128(r), r);
        break;
    case DW_CFA_def_cfa_offset:
        row->cfa_value = clamp_offset(kb_cfi_read_uleb128(r), r);
        break;
    case DW_CFA_def_cfa_offset_sf:
        row->cfa_value = clamp_offset(kb_cfi_read_sleb128(r) * m->common->data_align, r);
        break;
    default: /* DW_CFA_def_cfa_expression */
        row->cfa_value = clamp_offset(skip_expression(m, r), r);
        row->cfa_by = KB_CFI_VAL_EXPRESSION;
    }
}

/* Instructions about one register, whose number comes first. */
static void run_register_instruction(cfa_machine *m, uint8_t op, kb_cfi_reader *r)
{
    int64_t number = kb_cfi_read_uleb128(r), align = m->common->data_align;
    switch (op) {
    case DW_CFA_offset_extended:
        set_rule(m, number, KB_CFI_OFFSET, kb_cfi_read_uleb128(r) * align, r);
        break;
    case DW_CFA_offset_extended_sf:
        set_rule(m, number, KB_CFI_OFFSET, kb_cfi_read_sleb128(r) * align, r);
        break;
    case DW_CFA_val_offset:
        set_rule(m, number, KB_CFI_VAL_OFFSET, kb_cfi_read_uleb128(r) * align, r);
        break;
    case DW_CFA_val_offset_sf:
        set_rule(m, number, KB_CFI_VAL_OFFSET, kb_cfi_read_sleb128(r) * align, r);
        break;
    case DW_CFA_register:
        set_rule(m, number, KB_CFI_REGISTER, kb_cfi_read_uleb128(r), r);
        break;
    case DW_CFA_expression:
        set_rule(m, number, KB_CFI_EXPRESSION, skip_expression(m, r), r);
        break;
    case DW_CFA_val_expression:
        set_rule(m, number, KB_CFI_VAL_EXPRESSION, skip_expression(m, r), r);
        break;
    case DW_CFA_restore_extended:
        restore_rule(m, number);
        break;
    default:
        set_rule(m, number, op == DW_CFA_same_value ? KB_CFI_SAME : KB_CFI_UNDEFINED, 0, r);
    }
}

static void run_instruction(cfa_machine *m, kb_cfi_reader *r)
{
    uint8_t op = (uint8_t)kb_cfi_read(r, 1);
    if (run_packed_instruction(m, op, r))
        return;
    switch (op) {
    case DW_CFA_nop:
    case DW_CFA_AARCH64_negate_ra_state_with_pc:
    case DW_CFA_AARCH64_negate_ra_state: /* signatures are removed from all return addresses */
        break;
    case DW_CFA_advance_loc1:
    case DW_CFA_advance_loc2:
    case DW_CFA_advance_loc4:
        m->location +=
            kb_cfi_read(r, 1u << (op - DW_CFA_advance_loc1)) * (uint64_t)m->common->code_align;
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
        kb_cfi_read_uleb128(r);
        break;
    default: /* DW_CFA_set_loc among them */
        r->bad = true;
    }
}

/* Run the CIE's instructions, then those of the FDE up to the address; the last row is the
 * result. */
bool kb_cfi_row_at(const uint8_t *entry, kb_cfi_bounds bounds, uint64_t start, uint64_t address,
                   kb_cfi_row *row)
{
    cie c;
    kb_cfi_reader r;
    if (!open_fde(entry, bounds, &c, &r))
        return false;
    kb_cfi_read(&r, encoded_address_bytes(c.encoding)); /* the function's start: `start` */
    kb_cfi_read(&r, encoded_address_bytes(c.encoding)); /* and its size */
    skip_cfi_block(&r);
    cfa_machine m;
    m.common = &c;
    m.entry = entry;
    m.depth = 0;
    m.location = start;
    memset(&m.now, 0, sizeof m.now);
    m.now.cfa_by = KB_CFI_UNDEFINED;
    m.now.return_register = (uint8_t)c.return_register;
    m.now.is_signal_frame = c.is_signal_frame;
    while (c.initial.at < c.initial.end && !c.initial.bad)
        run_instruction(&m, &c.initial);
    m.initial = m.now;
    while (r.at < r.end && !r.bad && !c.initial.bad && m.location <= address)
        run_instruction(&m, &r);
    *row = m.now;
    return !r.bad && !c.initial.bad && m.now.cfa_by != KB_CFI_UNDEFINED;
}
