/* SipHash-2-4: a keyed hash of 64 bits. Who does not have the key learns nothing of the bytes from
 * it, not even by trying texts. After Aumasson and Bernstein, "SipHash: a fast short-input PRF". */
#include "base/base.h"

typedef struct state {
    uint64_t a, b, c, d;
} state;

static uint64_t left(uint64_t word, int by) { return word << by | word >> (64 - by); }

static void mix(state *s, int rounds)
{
    while (rounds-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = left(s->b, 13) ^ s->a;
        s->d = left(s->d, 16) ^ s->c;
        s->a = left(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = left(s->b, 17) ^ s->c;
        s->d = left(s->d, 21) ^ s->a;
        s->c = left(s->c, 32);
    }
}

/* Up to eight bytes, lowest first on any machine. */
static uint64_t word_of(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static void take(state *s, uint64_t word)
{
    s->d ^= word;
    mix(s, 2);
    s->a ^= word;
}

uint64_t kb_siphash(const uint64_t key[2], const void *data, size_t bytes)
{
    /* "somepseudorandomlygeneratedbytes" */
    state s = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
               key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = data;
    size_t rest = bytes;
    for (; rest >= 8; rest -= 8, at += 8)
        take(&s, word_of(at, 8));
    take(&s, word_of(at, rest) | (uint64_t)(bytes & 0xff) << 56);
    s.c ^= 0xff;
    mix(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}
