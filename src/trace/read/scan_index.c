/* Stage one of parsing JSON (see scan_index.h), by bit masks of 64 bytes: a portable
 * implementation, and one with AVX2 and carry-less multiplication, chosen by the features
 * of the processor. Both share everything but the classification of bytes and the prefix
 * xor. */
#include "trace/read/scan_index.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define WITH_AVX2 1
#endif

/* One bit for each byte of a block, the first byte in bit 0. */
typedef struct masks {
    uint64_t quote, backslash, op, space, control, high;
} masks;

/* ---- strings --------------------------------------------------------------------------------- */

/* True if `s`, the text after a backslash, is the rest of a valid escape. */
static bool is_valid_escape(const char *s)
{
    if (*s == 'u')
        return kb_is_hex_digit(s[1]) && kb_is_hex_digit(s[2]) && kb_is_hex_digit(s[3]) &&
               kb_is_hex_digit(s[4]);
    return *s && strchr("\"\\/bfnrt", *s) != NULL;
}

/* The bytes that are escaped by a backslash. Backslashes are rare, so they are handled one
 * by one. */
static KB_COLD uint64_t find_escaped_set(const char *text, uint64_t backslash,
                                         kt_index_state *state, uint64_t *bad)
{
    uint64_t escaped = state->escaped;
    uint64_t rest = backslash & ~escaped;
    state->escaped = false;
    while (rest) {
        unsigned i = (unsigned)__builtin_ctzll(rest);
        rest &= rest - 1;
        if (!is_valid_escape(text + i + 1))
            *bad |= UINT64_C(1) << i;
        if (i == 63) {
            state->escaped = true;
            break;
        }
        escaped |= UINT64_C(2) << i;
        rest &= ~(UINT64_C(2) << i);
    }
    return escaped;
}

/* Each bit of the result is the parity of the bits up to it: from quotes, the inside of strings. */
KB_INLINE uint64_t prefix_xor_portable(uint64_t bits)
{
    bits ^= bits << 1;
    bits ^= bits << 2;
    bits ^= bits << 4;
    bits ^= bits << 8;
    bits ^= bits << 16;
    return bits ^ bits << 32;
}

/* ---- one block ------------------------------------------------------------------------------- */

/* The structural positions. `in_string` is 1 from an opening quote to the byte before the
 * closing one. */
KB_INLINE uint64_t find_structure(const masks *m, uint64_t quotes, uint64_t in_string,
                                  kt_index_state *state)
{
    uint64_t scalar = ~(m->op | m->space);
    uint64_t plain = scalar & ~quotes; /* letters and digits, and everything inside strings */
    uint64_t starts = scalar & ~(plain << 1 | (uint64_t)state->in_scalar);
    state->in_scalar = plain >> 63;
    return (m->op | starts) & ~(in_string ^ quotes);
}

/* Appends the position of each set bit, eight at a time: `out` may be written 7 positions
 * further. */
KB_INLINE uint32_t *append_positions(uint32_t *out, uint64_t bits, uint32_t base)
{
    unsigned count = (unsigned)__builtin_popcountll(bits);
    for (unsigned done = 0; done < count; done += 8)
        for (unsigned i = 0; i < 8; i++) {
            out[done + i] = base + (uint32_t)__builtin_ctzll(bits | UINT64_C(1) << 63);
            bits &= bits - 1;
        }
    return out + count;
}

/* Records the first invalid character. */
KB_INLINE void record_bad_byte(kt_index_result *result, const char *text, uint64_t bad)
{
    if (KINETO_UNLIKELY(bad != 0) && !result->bad)
        result->bad = text + __builtin_ctzll(bad);
}

/* The quotes that begin or end strings. */
KB_INLINE uint64_t find_unescaped_quotes(const char *text, const masks *m, kt_index_state *state,
                                         uint64_t *bad)
{
    if (KINETO_LIKELY(!m->backslash && !state->escaped))
        return m->quote;
    return m->quote & ~find_escaped_set(text, m->backslash, state, bad);
}

/* Processes one classified block; `parity` is the prefix xor of its quotes. */
KB_INLINE uint32_t *index_masked_block(const char *text, uint32_t base, const masks *m,
                                       uint64_t quotes,
                                uint64_t parity, uint64_t bad, kt_index_state *state, uint32_t *out,
                                       kt_index_result *result)
{
    uint64_t in_string = parity ^ state->in_string;
    state->in_string = (uint64_t)((int64_t)in_string >> 63);
    record_bad_byte(result, text, (bad & in_string) | (m->control & in_string));
    result->non_ascii |= m->high != 0;
    return append_positions(out, find_structure(m, quotes, in_string, state), base);
}

/* ---- portable -------------------------------------------------------------------------------- */

/* Classes of bytes as bits, in the order of struct masks. */
enum { QUOTE = 1, BACKSLASH = 2, OP = 4, SPACE = 8, CONTROL = 16, HIGH = 32 };

static uint8_t byte_class(unsigned c)
{
    return (uint8_t)((c == '"' ? QUOTE : 0) | (c == '\\' ? BACKSLASH : 0) |
                     (c && c < 128 && strchr(":,{}[]", (int)c) ? OP : 0) |
                     (c == ' ' || c == '\t' || c == '\n' || c == '\r' ? SPACE : 0) |
                     (c < 32 ? CONTROL : 0) | (c > 127 ? HIGH : 0));
}

static void classify_portable(const char *text, const uint8_t *classes, masks *m)
{
    memset(m, 0, sizeof *m);
    for (unsigned i = 0; i < 64; i++) {
        uint64_t c = classes[(uint8_t)text[i]];
        m->quote |= (c & 1) << i;
        m->backslash |= (c >> 1 & 1) << i;
        m->op |= (c >> 2 & 1) << i;
        m->space |= (c >> 3 & 1) << i;
        m->control |= (c >> 4 & 1) << i;
        m->high |= (c >> 5 & 1) << i;
    }
}

static kt_index_result index_portable(const char *text, size_t blocks, kt_index_state *state,
                                      uint32_t *out)
{
    kt_index_result result = {0, false, NULL};
    uint32_t *at = out;
    uint8_t classes[256];
    for (unsigned c = 0; c < 256; c++)
        classes[c] = byte_class(c);
    for (size_t i = 0; i < blocks; i++, text += 64) {
        masks m;
        uint64_t bad = 0;
        classify_portable(text, classes, &m);
        uint64_t quotes = find_unescaped_quotes(text, &m, state, &bad);
        at = index_masked_block(text, (uint32_t)(i * 64), &m, quotes, prefix_xor_portable(quotes),
                                bad, state, at, &result);
    }
    result.count = (size_t)(at - out);
    return result;
}

/* ---- AVX2 ------------------------------------------------------------------------------------ */

#ifdef WITH_AVX2
#define AVX2 __attribute__((target("avx2,pclmul,bmi,bmi2,popcnt,lzcnt")))

AVX2 KB_INLINE uint64_t join_masks(__m256i low, __m256i high)
{
    return (uint32_t)_mm256_movemask_epi8(low) | (uint64_t)(uint32_t)_mm256_movemask_epi8(high)
                                                     << 32;
}

#define EACH(operation, ...) join_masks(operation(low, __VA_ARGS__), operation(high, __VA_ARGS__))

/* Bytes that equal the table's entry for their low nibble. */
AVX2 KB_INLINE __m256i equals_table_entry(__m256i bytes, __m256i lookup, __m256i table)
{
    return _mm256_cmpeq_epi8(bytes, _mm256_shuffle_epi8(table, lookup));
}

AVX2 KB_INLINE __m256i is_at_most(__m256i bytes, __m256i limit)
{
    return _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, limit), bytes);
}

AVX2 KB_INLINE masks classify_avx2(__m256i low, __m256i high)
{
    /* [ ] and { } differ in bit 5 only; : and , have it set. Nibbles: : a, [ { b, comma c, ] } d */
    const __m256i ops = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ':', '{', ',', '}', 1, 1));
    const __m256i spaces = _mm256_broadcastsi128_si256(
        _mm_setr_epi8(' ', 0, 0, 0, 0, 0, 0, 0, 0, '\t', '\n', 0, 0, '\r', 0, 0));
    const __m256i bit5 = _mm256_set1_epi8(0x20);
    masks m;
    m.quote = EACH(_mm256_cmpeq_epi8, _mm256_set1_epi8('"'));
    m.backslash = EACH(_mm256_cmpeq_epi8, _mm256_set1_epi8('\\'));
    m.control = EACH(is_at_most, _mm256_set1_epi8(0x1f));
    m.high = join_masks(low, high);
    __m256i low5 = _mm256_or_si256(low, bit5), high5 = _mm256_or_si256(high, bit5);
    m.op = join_masks(equals_table_entry(low5, low, ops), equals_table_entry(high5, high, ops));
    m.space = join_masks(equals_table_entry(low, low, spaces),
                         equals_table_entry(high, high, spaces));
    m.op &= ~m.control; /* 0x0c and 0x1a have the same low bits as ',' and ':' */
    return m;
}

AVX2 KB_INLINE uint64_t prefix_xor_clmul(uint64_t bits)
{
    __m128i all = _mm_set1_epi8((char)0xff);
    return (uint64_t)_mm_cvtsi128_si64(
        _mm_clmulepi64_si128(_mm_set_epi64x(0, (long long)bits), all, 0));
}

AVX2 static kt_index_result index_avx2(const char *text, size_t blocks, kt_index_state *state,
                                       uint32_t *out)
{
    kt_index_result result = {0, false, NULL};
    uint32_t *at = out;
    for (size_t i = 0; i < blocks; i++, text += 64) {
        masks m = classify_avx2(_mm256_loadu_si256((const __m256i *)text),
                                _mm256_loadu_si256((const __m256i *)(text + 32)));
        uint64_t bad = 0, quotes = find_unescaped_quotes(text, &m, state, &bad);
        at = index_masked_block(text, (uint32_t)(i * 64), &m, quotes, prefix_xor_clmul(quotes), bad,
                                state, at, &result);
    }
    result.count = (size_t)(at - out);
    return result;
}
#endif

/* ---- choice ---------------------------------------------------------------------------------- */

kt_index_fn *kt_index_at(size_t i, const char **name)
{
#ifdef WITH_AVX2
    bool has = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("pclmul") &&
               __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt");
    if (has && i-- == 0) {
        *name = "avx2";
        return index_avx2;
    }
#endif
    *name = i == 0 ? "portable" : NULL;
    return i == 0 ? index_portable : NULL;
}

kt_index_fn *kt_index_best(void)
{
    const char *name;
    return kt_index_at(0, &name);
}
