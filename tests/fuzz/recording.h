/* Bytes of a fuzzer as a recording: a dictionary and up to four chunks, each in memory of its own
 * size so that a sanitizer sees every step over an end.
 *
 * Layout: chunk count - 1 (u8, modulo 4) | options (u8) | dictionary words (u16) | words of each
 * chunk (u16 × 4) | what is wanted of operators (u32) | the dictionary's words | the chunks' words. What is missing at
 * the end is missing. */
#ifndef TESTS_FUZZ_RECORDING_H
#define TESTS_FUZZ_RECORDING_H

#include "format/format.h"

#define FUZZ_CHUNKS       4u
#define FUZZ_HEADER_BYTES 16u

typedef struct fuzz_recording {
    kf_input input;
    uint8_t options;
    uint32_t wants;
    uint64_t *dictionary, *chunks[FUZZ_CHUNKS];
    uint32_t words[FUZZ_CHUNKS];
} fuzz_recording;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline const uint64_t *fuzz_get(void *context, uint32_t index, uint32_t *words,
                                       kineto_error *err)
{
    fuzz_recording *r = context;
    (void)err;
    *words = r->words[index];
    return r->chunks[index];
}

static inline uint16_t fuzz_u16(const uint8_t *at) { return (uint16_t)(at[0] | at[1] << 8); }

/* Up to `words` words of what is left. */
static inline uint64_t *fuzz_take(const uint8_t **data, size_t *size, uint32_t *words)
{
    *words = (uint32_t)KB_MIN(*words, *size / 8);
    uint64_t *copy = malloc(*words ? *words * 8u : 1u);
    if (copy && *words)
        memcpy(copy, *data, *words * 8u);
    *data += *words * 8u;
    *size -= *words * 8u;
    return copy;
}

static inline bool fuzz_open(fuzz_recording *r, const uint8_t *data, size_t size)
{
    memset(r, 0, sizeof *r);
    if (size < FUZZ_HEADER_BYTES)
        return false;
    const uint8_t *at = data + FUZZ_HEADER_BYTES;
    size_t left = size - FUZZ_HEADER_BYTES;
    r->options = data[1];
    memcpy(&r->wants, data + 12, sizeof r->wants);
    r->input = (kf_input){.dictionary_words = fuzz_u16(data + 2),
                          .chunk_count = data[0] % FUZZ_CHUNKS + 1u,
                          .get = fuzz_get,
                          .context = r};
    r->dictionary = fuzz_take(&at, &left, &r->input.dictionary_words);
    r->input.dictionary = r->dictionary;
    bool ok = r->dictionary != NULL;
    for (uint32_t i = 0; i < r->input.chunk_count; i++) {
        r->words[i] = fuzz_u16(data + 4 + 2 * i);
        r->chunks[i] = fuzz_take(&at, &left, &r->words[i]);
        ok = ok && r->chunks[i];
    }
    return ok;
}

static inline void fuzz_close(fuzz_recording *r)
{
    free(r->dictionary);
    for (uint32_t i = 0; i < FUZZ_CHUNKS; i++)
        free(r->chunks[i]);
}

/* Every byte of a string, so that a sanitizer objects to wrong ones. */
static inline uint64_t fuzz_touch(const void *data, size_t size)
{
    const unsigned char *at = data;
    uint64_t sum = 0;
    for (size_t i = 0; i<size; i += size> 4096 ? 512 : 1)
        sum += at[i];
    return size ? sum + at[size - 1] : sum;
}
#endif
