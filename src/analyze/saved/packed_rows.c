/* Packs rows. A row is a word with the sizes of its numbers, 3 bits each, and their bytes; no branch depends on a size. */
#include "analyze/saved/packed_rows.h"
#include "analyze/saved/byte_coding.h"

/* Numbers of a row; 3 bits of each fit into the word. */
enum { NUMBERS = 20, WORD_BYTES = 8, ROW_BYTES_MAX = WORD_BYTES * (NUMBERS + 1) };

/* Bytes by the code of a size, and what they can hold. */
static const uint8_t size_of_code[] = {0, 1, 2, 3, 4, 5, 6, 8};
static const uint64_t mask_of_code[] = {0,          0xff,         0xffff,         0xffffff,
                                        0xffffffff, 0xffffffffff, 0xffffffffffff, UINT64_MAX};

static uint32_t code_of(uint64_t v)
{
    uint32_t bytes = v ? (71 - (uint32_t)__builtin_clzll(v)) / 8 : 0;
    return KB_MIN(bytes, 7u);
}

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

static uint64_t differ(int64_t v, int64_t from) { return ka_zigzag((int64_t)((uint64_t)v - (uint64_t)from)); }
static int64_t restore(uint64_t v, int64_t from) { return (int64_t)((uint64_t)ka_unzigzag(v) + (uint64_t)from); }

/* ---- a row as numbers, small where it is like the one before -------------------------------- */

static void list_numbers(const ka_comm *c, const ka_comm *before, uint32_t number, uint64_t out[NUMBERS])
{
    out[0] = differ(c->start_ns, before->end_ns);
    out[1] = differ(c->end_ns, c->start_ns);
    out[2] = differ(c->ready_ns, c->start_ns);
    out[3] = differ(c->host_at_ns, before->host_at_ns);
    out[4] = ka_zigzag(c->work_ns);
    out[5] = c->late_ns == KA_UNKNOWN_NUMBER ? 0 : ka_zigzag(c->late_ns) + 1;
    out[6] = differ(c->late_rest_ns, before->late_rest_ns);
    out[7] = ka_zigzag(c->host_ns);
    out[8] = ka_zigzag(c->sync_ns);
    out[9] = ka_zigzag(c->wait_ns);
    out[10] = differ((int64_t)c->elements, (int64_t)before->elements);
    out[11] = differ((int64_t)c->received, (int64_t)before->received);
    out[12] = (uint32_t)(c->group + 1);
    out[13] = differ(c->sequence, before->sequence);
    out[14] = differ(c->previous, before->previous);
    out[15] = differ(c->after, before->after);
    out[16] = c->wait_row == KA_NO_COMM ? 0 : differ(c->wait_row, number) + 1;
    out[17] = differ(c->sync_row, before->sync_row);
    out[18] = differ(c->step, before->step);
    out[19] = (uint64_t)(c->op ^ before->op) << 8 | (uint64_t)(c->flags ^ before->flags);
}

static void read_numbers(const uint64_t in[NUMBERS], const ka_comm *before, uint32_t number, ka_comm *c)
{
    c->start_ns = restore(in[0], before->end_ns);
    c->end_ns = restore(in[1], c->start_ns);
    c->ready_ns = restore(in[2], c->start_ns);
    c->host_at_ns = restore(in[3], before->host_at_ns);
    c->work_ns = ka_unzigzag(in[4]);
    c->late_ns = in[5] ? ka_unzigzag(in[5] - 1) : KA_UNKNOWN_NUMBER;
    c->late_rest_ns = restore(in[6], before->late_rest_ns);
    c->host_ns = ka_unzigzag(in[7]);
    c->sync_ns = ka_unzigzag(in[8]);
    c->wait_ns = ka_unzigzag(in[9]);
    c->elements = (uint64_t)restore(in[10], (int64_t)before->elements);
    c->received = (uint64_t)restore(in[11], (int64_t)before->received);
    c->group = (uint32_t)in[12] - 1;
    c->sequence = (uint32_t)restore(in[13], before->sequence);
    c->previous = (int32_t)restore(in[14], before->previous);
    c->after = (int32_t)restore(in[15], before->after);
    c->wait_row = in[16] ? (int32_t)restore(in[16] - 1, number) : KA_NO_COMM;
    c->sync_row = (int32_t)restore(in[17], before->sync_row);
    c->step = (uint32_t)restore(in[18], before->step);
    c->op = (uint8_t)(in[19] >> 8 ^ before->op);
    c->flags = (uint8_t)(in[19] ^ before->flags);
}

/* ---- numbers as bytes ------------------------------------------------------------------------ */

static uint8_t *put_numbers(uint8_t *p, const uint64_t in[NUMBERS])
{
    uint8_t *sizes = p;
    uint64_t codes = 0;
    p += WORD_BYTES;
    for (uint32_t k = 0; k < NUMBERS; k++) {
        uint32_t code = code_of(in[k]);
        put_word(p, in[k]);
        p += size_of_code[code];
        codes |= (uint64_t)code << 3 * k;
    }
    put_word(sizes, codes);
    return p;
}

static const uint8_t *get_numbers(const uint8_t *p, uint64_t out[NUMBERS])
{
    uint64_t codes = get_word(p);
    p += WORD_BYTES;
    for (uint32_t k = 0; k < NUMBERS; k++) {
        uint32_t code = codes >> 3 * k & 7;
        out[k] = get_word(p) & mask_of_code[code];
        p += size_of_code[code];
    }
    return p;
}

/* ---- rows ------------------------------------------------------------------------------------ */

size_t ka_packed_rows_room(uint32_t count) { return (size_t)count * ROW_BYTES_MAX + WORD_BYTES; }

bool ka_pack_rows(ka_packed_rows *p, const ka_comm *rows, uint32_t first, uint32_t count, uint8_t *room)
{
    uint64_t numbers[NUMBERS];
    uint8_t *end = room;
    ka_packed_rows_free(p);
    for (uint32_t i = 0; i < count; i++) {
        list_numbers(&rows[i], i ? &rows[i - 1] : &p->before, first + i, numbers);
        end = put_numbers(end, numbers);
    }
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
    uint64_t numbers[NUMBERS];
    KB_ASSERT(count <= p->count);
    const uint8_t *at = p->bytes + p->at;
    for (uint32_t i = 0; i < count; i++) {
        at = get_numbers(at, numbers);
        read_numbers(numbers, i ? &out[i - 1] : &p->before, p->first + i, &out[i]);
    }
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
