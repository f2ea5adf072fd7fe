/* Packs rows. A row is a word with the sizes of its numbers, 3 bits each, and their bytes; no branch depends on a size.
 *
 * Each number is written as a whole word, and the next one begins where its bytes end: what is written beyond them is
 * overwritten. Reading masks the bytes that are not of the number. So 8 bytes follow the last number. */
#include "analyze/saved/packed_rows.h"
#include "analyze/saved/byte_coding.h"

/* Numbers of a row; 3 bits of each fit into the word. */
enum { NUMBERS = 20, WORD_BYTES = 8, ROW_BYTES_MAX = WORD_BYTES * (NUMBERS + 1) };

/* Little-endian on every machine; compilers make one instruction of it. */
static void put_word(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < WORD_BYTES; i++)
        p[i] = (uint8_t)(v >> 8 * i);
}

static uint64_t get_word(const uint8_t *p)
{
    return (uint64_t)p[0] | (uint64_t)p[1] << 8 | (uint64_t)p[2] << 16 | (uint64_t)p[3] << 24 | (uint64_t)p[4] << 32 |
           (uint64_t)p[5] << 40 | (uint64_t)p[6] << 48 | (uint64_t)p[7] << 56;
}

/* ---- numbers --------------------------------------------------------------------------------- */

/* The bytes of a row. Sizes of 0 … 6 bytes have this code, 7 stands for 8. */
typedef struct packed_numbers {
    uint8_t *at;
    uint64_t codes; /* of the numbers so far */
} packed_numbers;

static inline void put_number(packed_numbers *n, uint32_t index, uint64_t v)
{
    uint32_t bytes = v ? (71 - (uint32_t)__builtin_clzll(v)) / 8 : 0, code = bytes > 6 ? 7 : bytes;
    put_word(n->at, v);
    n->at += code + (code == 7);
    n->codes |= (uint64_t)code << 3 * index;
}

static inline void put_signed(packed_numbers *n, uint32_t index, int64_t v, int64_t from)
{
    put_number(n, index, ka_zigzag((int64_t)((uint64_t)v - (uint64_t)from)));
}

typedef struct unpacked_numbers {
    const uint8_t *at;
    uint64_t codes; /* of those that follow */
} unpacked_numbers;

static inline uint64_t get_number(unpacked_numbers *n)
{
    static const uint64_t masks[] = {0,          0xff,         0xffff,         0xffffff,
                                     0xffffffff, 0xffffffffff, 0xffffffffffff, UINT64_MAX};
    uint32_t code = n->codes & 7;
    uint64_t v = get_word(n->at) & masks[code];
    n->at += code + (code == 7);
    n->codes >>= 3;
    return v;
}

static inline int64_t get_signed(unpacked_numbers *n, int64_t from)
{
    return (int64_t)((uint64_t)ka_unzigzag(get_number(n)) + (uint64_t)from);
}

/* ---- a row as numbers, small where it is like the one before -------------------------------- */

static uint8_t *pack_row(uint8_t *room, const ka_comm *c, const ka_comm *before, uint32_t number)
{
    packed_numbers n = {.at = room + WORD_BYTES};
    put_signed(&n, 0, c->start_ns, before->end_ns);
    put_signed(&n, 1, c->end_ns, c->start_ns);
    put_signed(&n, 2, c->ready_ns, c->start_ns);
    put_signed(&n, 3, c->host_at_ns, before->host_at_ns);
    put_signed(&n, 4, c->work_ns, 0);
    put_number(&n, 5, c->late_ns == KA_UNKNOWN_NUMBER ? 0 : ka_zigzag(c->late_ns) + 1);
    put_signed(&n, 6, c->late_rest_ns, before->late_rest_ns);
    put_signed(&n, 7, c->host_ns, 0);
    put_signed(&n, 8, c->sync_ns, 0);
    put_signed(&n, 9, c->wait_ns, 0);
    put_signed(&n, 10, (int64_t)c->elements, (int64_t)before->elements);
    put_signed(&n, 11, (int64_t)c->received, (int64_t)before->received);
    put_number(&n, 12, (uint32_t)(c->group + 1));
    put_signed(&n, 13, c->sequence, before->sequence);
    put_signed(&n, 14, c->previous, before->previous);
    put_signed(&n, 15, c->after, before->after);
    put_number(&n, 16, c->wait_row == KA_NO_COMM ? 0 : ka_zigzag((int64_t)c->wait_row - number) + 1);
    put_signed(&n, 17, c->sync_row, before->sync_row);
    put_signed(&n, 18, c->step, before->step);
    put_number(&n, 19, (uint64_t)(c->op ^ before->op) << 8 | (uint64_t)(c->flags ^ before->flags));
    put_word(room, n.codes);
    return n.at;
}

static const uint8_t *unpack_row(const uint8_t *bytes, ka_comm *c, const ka_comm *before, uint32_t number)
{
    unpacked_numbers n = {.at = bytes + WORD_BYTES, .codes = get_word(bytes)};
    c->start_ns = get_signed(&n, before->end_ns);
    c->end_ns = get_signed(&n, c->start_ns);
    c->ready_ns = get_signed(&n, c->start_ns);
    c->host_at_ns = get_signed(&n, before->host_at_ns);
    c->work_ns = get_signed(&n, 0);
    uint64_t late = get_number(&n);
    c->late_ns = late ? ka_unzigzag(late - 1) : KA_UNKNOWN_NUMBER;
    c->late_rest_ns = get_signed(&n, before->late_rest_ns);
    c->host_ns = get_signed(&n, 0);
    c->sync_ns = get_signed(&n, 0);
    c->wait_ns = get_signed(&n, 0);
    c->elements = (uint64_t)get_signed(&n, (int64_t)before->elements);
    c->received = (uint64_t)get_signed(&n, (int64_t)before->received);
    c->group = (uint32_t)get_number(&n) - 1;
    c->sequence = (uint32_t)get_signed(&n, before->sequence);
    c->previous = (int32_t)get_signed(&n, before->previous);
    c->after = (int32_t)get_signed(&n, before->after);
    uint64_t wait = get_number(&n);
    c->wait_row = wait ? (int32_t)(ka_unzigzag(wait - 1) + number) : KA_NO_COMM;
    c->sync_row = (int32_t)get_signed(&n, before->sync_row);
    c->step = (uint32_t)get_signed(&n, before->step);
    uint64_t kind = get_number(&n);
    c->op = (uint8_t)(kind >> 8 ^ before->op);
    c->flags = (uint8_t)(kind ^ before->flags);
    return n.at;
}

/* ---- rows ------------------------------------------------------------------------------------ */

size_t ka_packed_rows_room(uint32_t count) { return (size_t)count * ROW_BYTES_MAX + WORD_BYTES; }

bool ka_pack_rows(ka_packed_rows *p, const ka_comm *rows, uint32_t first, uint32_t count, uint8_t *room)
{
    uint8_t *end = room;
    ka_packed_rows_free(p);
    for (uint32_t i = 0; i < count; i++)
        end = pack_row(end, &rows[i], i ? &rows[i - 1] : &p->before, first + i);
    size_t size = (size_t)(end - room) + WORD_BYTES; /* words are read beyond the last number */
    p->bytes = malloc(size);
    if (!p->bytes)
        return false;
    memset(end, 0, WORD_BYTES);
    memcpy(p->bytes, room, size);
    p->first = first;
    p->count = count;
    return true;
}

void ka_unpack_rows(ka_packed_rows *p, uint32_t count, ka_comm *out)
{
    KB_ASSERT(count <= p->count);
    const uint8_t *at = p->bytes + p->at;
    for (uint32_t i = 0; i < count; i++)
        at = unpack_row(at, &out[i], i ? &out[i - 1] : &p->before, p->first + i);
    p->at = (size_t)(at - p->bytes);
    p->first += count;
    p->count -= count;
    if (!p->count)
        ka_packed_rows_free(p);
    else if (count)
        p->before = out[count - 1];
}

void ka_packed_rows_free(ka_packed_rows *p)
{
    free(p->bytes);
    *p = (ka_packed_rows){.bytes = NULL};
}
