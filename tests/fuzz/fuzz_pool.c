/* A pool whose control page, descriptors and maps hold anything: opening refuses it, or everything
 * that is done with it stays inside the mapping. */
#include "recording.h"

#define CHUNKS           4u
#define DICTIONARY_BYTES 512u

static void use(const kf_pool *pool)
{
    kf_part part = {"some text", 9};
    uint32_t words;
    for (int i = 0; i < 8; i++) {
        uint32_t index = kf_chunk_claim(pool, 1, &words);
        if (index == UINT32_MAX)
            break;
        if (index >= pool->chunk_count || words > KF_CHUNK_WORDS)
            abort();
        memset(kf_pool_chunk(pool, index) + words, 1, (KF_CHUNK_WORDS - words) * 8);
        if (i % 2)
            kf_chunk_seal(pool, index, KF_CHUNK_WORDS, 1);
        else
            kf_chunk_leave(pool, index, words, 1);
    }
    for (uint32_t i = 0; i < pool->chunk_count; i++)
        kf_chunk_free(pool, i, kf_chunk_claim_of(pool, i));
    for (int i = 0; i < 40; i++) {
        uint32_t id = kf_dictionary_add(pool, KF_ENTRY_STRING, &part, 1);
        if (id >= pool->dictionary_words)
            abort();
    }
    kf_snapshot_add(pool->control, &(kb_clock_snapshot){.ticks = 1});
    if (pool->control->snapshot_count > KF_MAX_SNAPSHOTS && !pool->control->window_lock)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t bytes = kf_pool_size(CHUNKS * KF_CHUNK_BYTES, DICTIONARY_BYTES);
    unsigned char *map = aligned_alloc(64, bytes);
    if (!map)
        return 0;
    memset(map, 0, bytes);
    kf_pool_format(map, CHUNKS * KF_CHUNK_BYTES, DICTIONARY_BYTES);
    /* Each input byte triple {offset, value} changes a byte in front of the chunks. */
    size_t front = bytes - CHUNKS * KF_CHUNK_BYTES;
    for (size_t i = 0; i + 3 <= size; i += 3)
        map[(data[i] | (size_t)data[i + 1] << 8) % front] = data[i + 2];
    kf_pool pool;
    if (kf_pool_open(map, bytes, &pool, NULL) == KINETO_OK)
        use(&pool);
    free(map);
    return 0;
}
