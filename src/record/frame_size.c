/* What the unwinder's tables say of one return address, where that is simple: code without frame
 * pointer keeps its stack pointer at a constant distance from its caller's, in most functions. The
 * tables are those that the process runs with, which its unwinder believes too. */
#include "record/stack.h"

#if defined(__x86_64__)

#define RBP    6
#define RSP    7
#define RETURN 16

/* A cursor in the tables. */
typedef struct bytes {
    const uint8_t *at, *end;
    bool bad; /* something that is not understood here, or the end was passed */
} bytes;

static uint64_t take(bytes *b, uint32_t size)
{
    uint64_t value = 0;
    if ((size_t)(b->end - b->at) < size) {
        b->bad = true;
        return 0;
    }
    memcpy(&value, b->at, size);
    b->at += size;
    return value;
}

/* LEB128; sign: as a signed number. */
static int64_t take_leb(bytes *b, bool sign)
{
    uint64_t value = 0;
    for (uint32_t shift = 0; shift < 63; shift += 7) {
        uint8_t byte = (uint8_t)take(b, 1);
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (sign && (byte & 0x40))
            value |= ~UINT64_C(0) << (shift + 7);
        return (int64_t)value;
    }
    b->bad = true;
    return 0;
}
static int64_t take_unsigned(bytes *b) { return take_leb(b, false); }
static int64_t take_signed(bytes *b) { return take_leb(b, true); }

static void skip_block(bytes *b)
{
    int64_t size = take_unsigned(b);
    if (size < 0 || size > b->end - b->at)
        b->bad = true;
    else
        b->at += size;
}

/* ---- entries --------------------------------------------------------------------------------- */

typedef struct common {
    int64_t code_align, data_align;
    uint8_t encoding; /* of addresses */
    bytes initial;
} common;

static uint32_t encoded_bytes(uint8_t encoding)
{
    switch (encoding & 0x0f) {
    case 0x02:
    case 0x0a:
        return 2;
    case 0x03:
    case 0x0b:
        return 4;
    case 0x00:
    case 0x04:
    case 0x0c:
        return 8;
    default:
        return 0;
    }
}

/* An entry's bytes, behind its length. */
static bytes entry_of(const uint8_t *at)
{
    uint32_t size;
    memcpy(&size, at, sizeof size);
    bytes b = {at + sizeof size, at + sizeof size, size == 0 || size == UINT32_MAX};
    if (!b.bad)
        b.end += size;
    return b;
}

/* The letters of an augmentation and what belongs to each. */
static void take_augmentation(bytes *b, const char *letters, common *c)
{
    for (; *letters && !b->bad; letters++) {
        uint8_t encoding = *letters == 'B' ? 0 : (uint8_t)take(b, 1);
        if (*letters == 'R')
            c->encoding = encoding;
        else if (*letters == 'P' && encoded_bytes(encoding))
            take(b, encoded_bytes(encoding));
        else if (*letters != 'L') /* 'S': the frame of a signal */
            b->bad = true;
    }
}

static bool read_common(const uint8_t *at, common *c)
{
    bytes b = entry_of(at);
    if (take(&b, 4) != 0)
        return false;
    uint8_t version = (uint8_t)take(&b, 1);
    const char *letters = (const char *)b.at;
    size_t count = strnlen(letters, (size_t)(b.end - b.at));
    b.at += KB_MIN(count + 1, (size_t)(b.end - b.at));
    c->code_align = take_unsigned(&b);
    c->data_align = take_signed(&b);
    int64_t address = version == 1 ? (int64_t)take(&b, 1) : take_unsigned(&b);
    if (b.bad || (version != 1 && version != 3) || address != RETURN || letters[0] != 'z')
        return false;
    int64_t size = take_unsigned(&b);
    if (b.bad || size < 0 || size > b.end - b.at)
        return false;
    bytes more = {b.at, b.at + size, false};
    take_augmentation(&more, letters + 1, c);
    c->initial = (bytes){b.at + size, b.end, false};
    return !more.bad;
}

/* ---- instructions ---------------------------------------------------------------------------- */

/* Of the caller's frame (CFA): register and distance; where it keeps rbp and the return address, as
 * distances from it (0: not kept). */
typedef struct row {
    int64_t base, distance, frame, address;
} row;

static void set_register(row *r, int64_t number, int64_t at)
{
    if (number == RBP)
        r->frame = at;
    else if (number == RETURN)
        r->address = at;
}

/* Kept in a way that is not followed here. */
static void odd_register(int64_t number, bytes *b) { b->bad |= number == RBP || number == RETURN; }

typedef struct machine {
    const common *common;
    row now, initial, saved[8];
    uint32_t depth;
    uint64_t location;
} machine;

static void restore(machine *m, int64_t number)
{
    if (number == RBP)
        m->now.frame = m->initial.frame;
    else if (number == RETURN)
        m->now.address = m->initial.address;
}

/* Instructions of the upper kind: two bits of opcode. False: it is none. */
static bool step_short(machine *m, uint8_t op, bytes *b)
{
    uint8_t low = op & 0x3f;
    switch (op >> 6) {
    case 1:
        m->location += low * (uint64_t)m->common->code_align;
        return true;
    case 2:
        set_register(&m->now, low, take_unsigned(b) * m->common->data_align);
        return true;
    case 3:
        restore(m, low);
        return true;
    default:
        return false;
    }
}

static void step_state(machine *m, uint8_t op, bytes *b)
{
    if (op == 0x0a && m->depth < KB_COUNT(m->saved))
        m->saved[m->depth++] = m->now;
    else if (op == 0x0b && m->depth > 0)
        m->now = m->saved[--m->depth];
    else
        b->bad = true;
}

static void step_cfa(machine *m, uint8_t op, bytes *b)
{
    row *r = &m->now;
    if (op == 0x0c || op == 0x0d || op == 0x12)
        r->base = take_unsigned(b);
    if (op == 0x0c || op == 0x0e)
        r->distance = take_unsigned(b);
    if (op == 0x12 || op == 0x13)
        r->distance = take_signed(b) * m->common->data_align;
    if (op == 0x0f) {
        r->base = -1;
        skip_block(b);
    }
}

static void step_register(machine *m, uint8_t op, bytes *b)
{
    int64_t number = take_unsigned(b);
    switch (op) {
    case 0x05:
        set_register(&m->now, number, take_unsigned(b) * m->common->data_align);
        break;
    case 0x11:
        set_register(&m->now, number, take_signed(b) * m->common->data_align);
        break;
    case 0x06:
        restore(m, number);
        break;
    case 0x08:
        set_register(&m->now, number, 0);
        break;
    case 0x10:
    case 0x16:
        skip_block(b);
        odd_register(number, b);
        break;
    case 0x09:
    case 0x14:
    case 0x15:
        take_unsigned(b);
        odd_register(number, b);
        break;
    default:
        odd_register(number, b); /* 0x07: undefined, where a thread begins */
    }
}

static void step(machine *m, bytes *b)
{
    uint8_t op = (uint8_t)take(b, 1);
    if (step_short(m, op, b))
        return;
    switch (op) {
    case 0x00:
        break;
    case 0x02:
    case 0x03:
    case 0x04:
        m->location += take(b, 1u << (op - 2)) * (uint64_t)m->common->code_align;
        break;
    case 0x0a:
    case 0x0b:
        step_state(m, op, b);
        break;
    case 0x0c:
    case 0x0d:
    case 0x0e:
    case 0x0f:
    case 0x12:
    case 0x13:
        step_cfa(m, op, b);
        break;
    case 0x05:
    case 0x06:
    case 0x07:
    case 0x08:
    case 0x09:
    case 0x10:
    case 0x11:
    case 0x14:
    case 0x15:
    case 0x16:
        step_register(m, op, b);
        break;
    case 0x2e: /* bytes of arguments on the stack: the distance has them */
        take_unsigned(b);
        break;
    default:
        b->bad = true;
    }
}

bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    common c = {.code_align = 0};
    bytes b = entry_of(entry);
    const uint8_t *field = b.at;
    uint64_t back = take(&b, 4);
    if (b.bad || !read_common(field - back, &c) || !encoded_bytes(c.encoding))
        return false;
    take(&b, encoded_bytes(c.encoding)); /* where it starts: known */
    take(&b, encoded_bytes(c.encoding));
    skip_block(&b);
    machine m = {.common = &c, .now = {.base = -1}, .location = start};
    while (c.initial.at < c.initial.end && !c.initial.bad)
        step(&m, &c.initial);
    m.initial = m.now;
    while (b.at < b.end && !b.bad && !c.initial.bad && m.location <= address)
        step(&m, &b);
    out->bytes = (uint64_t)m.now.distance;
    out->frame_at = (uint64_t)-m.now.frame;
    return !b.bad && !c.initial.bad && m.now.base == RSP && m.now.distance > 0 &&
           m.now.address == -8 && m.now.frame <= 0;
}
#else
bool kr_frame_size_of(const void *entry, uint64_t start, uint64_t address, kr_frame_size *out)
{
    (void)entry, (void)start, (void)address, (void)out;
    return false;
}
#endif
