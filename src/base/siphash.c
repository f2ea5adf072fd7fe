/* SipHash-2-4: a keyed hash of 64 bits. Without the key, the hash reveals nothing about the bytes,
 * not even to an attacker who tries candidate texts. After Aumasson and Bernstein, "SipHash: a fast
 * short-input PRF"; the names of the state's words are a, b, c, d for v0, v1, v2, v3. */
#include "base/base.h"

typedef struct sip_state {
    uint64_t a, b, c, d;
} sip_state;

static uint64_t rotate_left(uint64_t word, int by) { return word << by | word >> (64 - by); }

static void run_sip_rounds(sip_state *s, int rounds)
{
    while (rounds-- > 0) {
        s->a += s->b;
        s->c += s->d;
        s->b = rotate_left(s->b, 13) ^ s->a;
        s->d = rotate_left(s->d, 16) ^ s->c;
        s->a = rotate_left(s->a, 32);
        s->c += s->b;
        s->a += s->d;
        s->b = rotate_left(s->b, 17) ^ s->c;
        s->d = rotate_left(s->d, 21) ^ s->a;
        s->c = rotate_left(s->c, 32);
    }
}

/* Up to eight bytes, lowest first on any machine. */
static uint64_t load_sip_word(const uint8_t *at, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)at[i] << 8 * i;
    return word;
}

static void absorb_sip_word(sip_state *s, uint64_t word)
{
    s->d ^= word;
    run_sip_rounds(s, 2);
    s->a ^= word;
}

uint64_t kb_siphash(const uint64_t key[2], const void *data, size_t bytes)
{
    /* "somepseudorandomlygeneratedbytes" */
    sip_state s = {key[0] ^ UINT64_C(0x736f6d6570736575), key[1] ^ UINT64_C(0x646f72616e646f6d),
                   key[0] ^ UINT64_C(0x6c7967656e657261), key[1] ^ UINT64_C(0x7465646279746573)};
    const uint8_t *at = data;
    size_t rest = bytes;
    for (; rest >= 8; rest -= 8, at += 8)
        absorb_sip_word(&s, load_sip_word(at, 8));
    absorb_sip_word(&s, load_sip_word(at, rest) | (uint64_t)(bytes & 0xff) << 56);
    s.c ^= 0xff;
    run_sip_rounds(&s, 4);
    return s.a ^ s.b ^ s.c ^ s.d;
}
