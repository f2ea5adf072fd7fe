/* The pool: layout, claiming and returning chunks, windows, snapshots, dictionary. */
#include "unit.h"

#include "../helpers/kf_write.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

#define OWNER(n) ((UINT64_C(1) << 32) | (n))

static kw_recording make(uint32_t chunks)
{
    kw_recording w;
    assert_true(kw_create(&w, chunks, 4096));
    return w;
}

/* ---- layout ---- */

static void a_formatted_pool_opens_and_its_parts_do_not_overlap(void **state)
{
    (void)state;
    for (uint32_t chunks = 1; chunks < 300; chunks += 37) {
        kw_recording w = make(chunks);
        const kf_pool *p = &w.pool;
        const char *base = w.map;
        assert_int_equal(p->chunk_count, chunks);
        assert_true((const char *)p->descriptors >= base + sizeof(kf_control));
        assert_true((char *)p->free_map >= (char *)(p->descriptors + chunks));
        assert_true((char *)p->dictionary >= (char *)(p->partial_map + (chunks + 63) / 64));
        assert_true((char *)p->chunks >= (char *)(p->dictionary + p->dictionary_words));
        assert_int_equal((uintptr_t)p->chunks % 4096, 0);
        assert_int_equal((const char *)kf_pool_chunk(p, chunks) - base, p->bytes);
        assert_int_equal(p->bytes, kf_pool_size((size_t)chunks * KF_CHUNK_BYTES, 4096));
        kw_free(&w);
    }
}

static void refused(kw_recording *w, size_t bytes)
{
    kf_pool pool;
    kineto_error err = {.code = KINETO_OK};
    assert_int_equal(kf_pool_open(w->map, bytes, &pool, &err), KINETO_E_FORMAT);
    assert_int_equal(err.code, KINETO_E_FORMAT);
    assert_true(strlen(err.message) > 10);
}

static void a_damaged_header_is_refused(void **state)
{
    (void)state;
    kw_recording w = make(4);
    size_t bytes = w.pool.bytes;
    kf_control good = *w.pool.control, *c = w.pool.control;
    refused(&w, 100);
    refused(&w, bytes - 1);
#define WITH(member, value)                                                                        \
    do {                                                                                           \
        c->member = (value);                                                                       \
        refused(&w, bytes);                                                                        \
        *c = good;                                                                                 \
    } while (0)
    WITH(magic, 0);
    WITH(magic, __builtin_bswap64(KF_MAGIC));
    WITH(version, 99);
    WITH(header_bytes, 8);
    WITH(chunk_bytes, 4096);
    WITH(chunk_count, 0);
    WITH(chunk_count, 5);
    WITH(chunk_count, UINT32_MAX);
    WITH(dictionary_bytes, 0);
    WITH(dictionary_bytes, 4097);
    WITH(dictionary_bytes, UINT32_MAX - 7);
    WITH(chunks_offset, UINT64_MAX - 8);
    WITH(descriptors_offset, 0);
    WITH(maps_offset, good.maps_offset + 8);
    WITH(dictionary_offset, good.dictionary_offset - 64);
    WITH(pool_bytes, UINT64_MAX);
#undef WITH
    kf_pool pool;
    assert_int_equal(kf_pool_open(w.map, bytes, &pool, NULL), KINETO_OK);
    kw_free(&w);
}

/* ---- chunks ---- */

static void the_lowest_free_chunk_is_claimed_until_none_is_left(void **state)
{
    (void)state;
    kw_recording w = make(70);
    uint32_t words;
    for (uint32_t i = 0; i < 70; i++) {
        assert_int_equal(kf_chunk_claim(&w.pool, OWNER(i + 1), &words), i);
        assert_int_equal(words, 0);
    }
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(99), &words), UINT32_MAX);
    kf_chunk_seal(&w.pool, 66, 10, 1);
    kf_chunk_seal(&w.pool, 3, 10, 1);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(99), &words), UINT32_MAX);
    kf_chunk_free(&w.pool, 66, kf_chunk_claim_of(&w.pool, 66));
    kf_chunk_free(&w.pool, 3, kf_chunk_claim_of(&w.pool, 3));
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(99), &words), 3);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(99), &words), 66);
    kw_free(&w);
}

static void chunks_beyond_the_limit_stay_untouched(void **state)
{
    (void)state;
    kw_recording w = make(8);
    uint32_t words;
    w.pool.control->chunk_limit = 2;
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), 0);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), 1);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), UINT32_MAX);
    w.pool.control->chunk_limit = UINT32_MAX; /* hostile: more than there are */
    for (uint32_t i = 2; i < 8; i++)
        assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), i);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), UINT32_MAX);
    kw_free(&w);
}

static void a_freed_chunk_is_zero_and_has_a_new_serial(void **state)
{
    (void)state;
    kw_recording w = make(1);
    uint32_t words;
    kf_chunk_claim(&w.pool, OWNER(1), &words);
    uint32_t serial = w.pool.descriptors[0].serial;
    memset(w.pool.chunks, 0xff, 100 * 8);
    kf_chunk_seal(&w.pool, 0, 100, 5);
    kf_chunk_free(&w.pool, 0, kf_chunk_claim_of(&w.pool, 0));
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(w.pool.chunks[i], 0);
    kf_chunk_claim(&w.pool, OWNER(1), &words);
    assert_int_not_equal(w.pool.descriptors[0].serial, serial);
    kf_chunk_free(
        &w.pool, 0,
        kf_chunk_claim_of(&w.pool, 0)); /* LIVE, as of a dead owner: how far it came is unknown */
    kf_chunk_free(&w.pool, 0, kf_chunk_claim_of(&w.pool, 0)); /* free already: nothing happens */
    assert_int_equal(kf_claim_owner(w.pool.descriptors[0].claim), 0);
    kw_free(&w);
}

static void a_chunk_left_half_full_goes_to_the_next_thread(void **state)
{
    (void)state;
    kw_recording w = make(3);
    uint32_t words;
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(1), &words), 0);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(2), &words), 1);
    uint32_t serial = w.pool.descriptors[1].serial;
    kf_chunk_leave(&w.pool, 1, 700, 5);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(3), &words), 1);
    assert_int_equal(words, 700);
    assert_int_equal(w.pool.descriptors[1].serial, serial); /* its contents go on */
    kf_chunk_leave(&w.pool, 1, KF_CHUNK_WORDS - 10, 5);     /* too full to be reused */
    assert_int_equal(kf_chunk_state_of(&w.pool.descriptors[1]), KF_CHUNK_SEALED);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(3), &words), 2);
    assert_int_equal(words, 0);
    kw_free(&w);
}

static void stale_bits_of_the_maps_are_harmless(void **state)
{
    (void)state;
    kw_recording w = make(4);
    uint32_t words;
    for (uint32_t i = 0; i < 4; i++)
        kf_chunk_claim(&w.pool, OWNER(i + 1), &words);
    kf_chunk_seal(&w.pool, 2, 8, 1);
    w.pool.free_map[0] = w.pool.partial_map[0] = UINT64_MAX;
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(9), &words), UINT32_MAX);
    kf_chunk_free(&w.pool, 2, kf_chunk_claim_of(&w.pool, 2));
    w.pool.partial_map[0] = UINT64_MAX; /* a free chunk found through the wrong map is fine */
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(9), &words), 2);
    assert_int_equal(words, 0);
    kw_free(&w);
}

static void a_ring_overwrites_sealed_chunks_and_counts_what_they_held(void **state)
{
    (void)state;
    kw_recording w = make(2);
    uint32_t words;
    kf_chunk_claim(&w.pool, OWNER(1), &words);
    kf_chunk_claim(&w.pool, OWNER(2), &words);
    kw_chunk(&w, 1);
    kw_segment(&w, 1, 0, 0, 1, 1, 10, 0);
    kw_begin(&w, 0, 5, 11);
    kw_end(&w, 0, 12);
    kw_device_record(&w, &(kw_device){.kind = 5, .source = 3}, NULL, 0);
    kw_device_record(&w, &(kw_device){.kind = 5, .source = 3}, NULL, 0);
    kf_chunk_seal(&w.pool, 1, w.at, 12);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(3), &words), UINT32_MAX);
    w.pool.control->full_policy = KF_FULL_RING;
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(3), &words), 1);
    assert_int_equal(words, 0);
    assert_int_equal(kf_pool_chunk(&w.pool, 1)[0], 0);
    assert_int_equal(w.pool.control->counters[0][KF_REASON_EVICTED], 1);
    assert_int_equal(w.pool.control->counters[3][KF_REASON_EVICTED], 2);
    assert_int_equal(kf_chunk_claim(&w.pool, OWNER(4), &words), UINT32_MAX); /* all live */
    kw_free(&w);
}

#define CLAIMERS 4
#define ROUNDS   20000

static uint32_t born, living;

static void *claim_and_return(void *context)
{
    const kf_pool *pool = context;
    static uint32_t next = 100;
    uint64_t seed = kb_add_relaxed(&next, 1), owner = OWNER(seed);
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t words, index = kf_chunk_claim(pool, owner, &words);
        if (index == UINT32_MAX)
            continue;
        uint64_t *chunk = kf_pool_chunk(pool, index);
        /* No other thread may be here: our words must still be there afterwards. */
        uint32_t at = words < 1000 ? words : 1000;
        for (int k = 0; k < 16; k++)
            chunk[at + (uint32_t)k] = owner;
        for (int k = 0; k < 16; k++)
            if (chunk[at + (uint32_t)k] != owner)
                return (void *)1;
        if (next_random(&seed) % 2) {
            kf_chunk_leave(pool, index, at + 16, 1);
        } else {
            kf_chunk_seal(pool, index, at + 16, 1);
            if (pool->control->full_policy == KF_FULL_DROP)
                kf_chunk_free(pool, index, kf_chunk_claim_of(pool, index));
        }
    }
    return NULL;
}

static void contend(uint32_t policy)
{
    kw_recording w = make(3);
    w.pool.control->full_policy = policy;
    pthread_t threads[CLAIMERS];
    void *result;
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_return, &w.pool), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    for (uint32_t i = 0; i < 3; i++) /* none got lost */
        assert_int_not_equal(kf_chunk_state_of(&w.pool.descriptors[i]), KF_CHUNK_LIVE);
    kw_free(&w);
}

static void threads_that_contend_never_share_a_chunk(void **state)
{
    (void)state;
    contend(KF_FULL_DROP);
    contend(KF_FULL_RING);
}

static void *free_what_was_left(void *context)
{
    const kf_pool *pool = context;
    while (kb_load_relaxed(&living)) {
        for (uint32_t i = 0; i < pool->chunk_count; i++) {
            uint64_t claim = kf_chunk_claim_of(pool, i);
            if (kf_claim_state(claim) == KF_CHUNK_PARTIAL)
                (void)kf_chunk_free(pool, i, claim); /* a thread may have gone on in it by now */
        }
    }
    return NULL;
}

static void leftover_chunks_are_freed_only_if_unused(void **state)
{
    (void)state;
    kw_recording w = make(3);
    pthread_t threads[CLAIMERS], freer;
    void *result;
    living = 1;
    assert_int_equal(pthread_create(&freer, NULL, free_what_was_left, &w.pool), 0);
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_return, &w.pool), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    kb_store_relaxed(&living, 0u);
    pthread_join(freer, NULL);
    kw_free(&w);
}

static void who_died_before_it_wrote_takes_nothing_away(void **state)
{
    (void)state;
    kw_recording w = make(1);
    uint32_t words;
    kf_chunk_claim(&w.pool, OWNER(1), &words);
    assert_true(kf_chunk_free(&w.pool, 0, kf_chunk_claim_of(&w.pool, 0)));
    assert_int_equal(w.pool.control->forgotten_ticks, 0);
    kf_chunk_claim(&w.pool, OWNER(2), &words);
    uint64_t seen = kf_chunk_claim_of(&w.pool, 0);
    w.pool.chunks[0] = kf_header(KF_PAD, 2, 0, 0);
    assert_true(kf_chunk_free(&w.pool, 0, seen));
    assert_true(w.pool.control->forgotten_ticks > 0); /* what it wrote is lost */
    assert_false(kf_chunk_free(&w.pool, 0, seen));
    kw_free(&w);
}

/* Each claim has an owner of its own, who is dead once the chunk is sealed. */
#define MORTALS (CLAIMERS * ROUNDS)
static uint8_t dead[MORTALS];

static void *claim_and_die(void *context)
{
    const kf_pool *pool = context;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t words, mortal = kb_add_relaxed(&born, 1u);
        uint64_t owner = OWNER(mortal + 1);
        uint32_t index = kf_chunk_claim(pool, owner, &words);
        if (index == UINT32_MAX)
            continue;
        uint64_t *chunk = kf_pool_chunk(pool, index);
        for (int k = 0; k < 16; k++)
            kb_store_relaxed(&chunk[k], owner);
        for (int k = 0; k < 16; k++)
            if (kb_load_relaxed(&chunk[k]) != owner)
                goto shared;
        kf_chunk_seal(pool, index, 16, mortal + 1);
        kb_store_release(&dead[mortal], (uint8_t)1);
    }
    kb_sub_relaxed(&living, 1u);
    return NULL;
shared:
    kb_sub_relaxed(&living, 1u);
    return (void *)1;
}

static void inherit_from_the_dead(const kf_pool *pool)
{
    for (uint32_t i = 0; i < pool->chunk_count; i++) {
        const kf_descriptor *d = &pool->descriptors[i];
        uint64_t claim = kb_load_acquire(&d->claim), mortal = kf_claim_owner(claim) - OWNER(1);
        bool live = kf_claim_state(claim) == KF_CHUNK_LIVE;
        if (live && mortal < MORTALS && kb_load_acquire(&dead[mortal]) &&
            kf_chunk_inherit(pool, i, claim))
            kf_chunk_seal(pool, i, 16, kb_load_relaxed(&born));
    }
}

/* A writer that takes a dead one's chunk over may be stopped in the middle. */
static void the_heirs_of_the_dead_and_writers_never_share_a_chunk(void **state)
{
    (void)state;
    kw_recording w = make(3);
    w.pool.control->full_policy = KF_FULL_RING;
    pthread_t threads[CLAIMERS];
    void *result;
    living = CLAIMERS;
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, claim_and_die, &w.pool), 0);
    while (kb_load_relaxed(&living))
        inherit_from_the_dead(&w.pool);
    for (int i = 0; i < CLAIMERS; i++) {
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    kw_free(&w);
}

static void chunks_of_killed_processes_come_back(void **state)
{
    (void)state;
    enum { CHUNKS = 8 };
    size_t bytes = kf_pool_size(CHUNKS * KF_CHUNK_BYTES, 4096);
    void *map = kb_os_map_shared(bytes, NULL);
    kf_pool pool;
    assert_non_null(map);
    kf_pool_format(map, CHUNKS * KF_CHUNK_BYTES, 4096);
    assert_int_equal(kf_pool_open(map, bytes, &pool, NULL), KINETO_OK);
    for (int round = 0; round < 20; round++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            uint32_t words;
            for (;;) {
                uint32_t i = kf_chunk_claim(&pool, (uint64_t)getpid() << 32 | 1, &words);
                if (i == UINT32_MAX)
                    continue;
                memset(kf_pool_chunk(&pool, i), 1, KF_CHUNK_BYTES / 2);
                kf_chunk_leave(&pool, i, words / 2, 1);
            }
        }
        usleep(500);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        for (uint32_t i = 0; i < CHUNKS; i++)
            kf_chunk_free(&pool, i, kf_chunk_claim_of(&pool, i));
    }
    uint32_t words, claimed = 0;
    while (kf_chunk_claim(&pool, OWNER(1), &words) != UINT32_MAX)
        claimed++;
    assert_int_equal(claimed, CHUNKS);
    kb_os_unmap(map, bytes);
}

/* ---- windows ---- */

static void the_gate_is_the_union_of_the_open_windows(void **state)
{
    (void)state;
    kw_recording w = make(1);
    kf_control *c = w.pool.control;
    uint32_t a = kf_window_open(c, 1, 10), b = kf_window_open(c, 6, 20);
    assert_int_equal(c->gate, 7);
    assert_int_equal(c->windows[a].start_ticks, 10);
    kf_window_set_kinds(c, b, 8);
    assert_int_equal(c->gate, 9);
    kf_window_close(c, a, 30);
    assert_int_equal(c->gate, 8);
    kf_window_close(c, a, 30); /* twice is harmless */
    kf_window_close(c, b, 30);
    kf_window_close(c, KF_MAX_WINDOWS + 5, 30);
    assert_int_equal(c->gate, 0);
    for (uint32_t i = 0; i < KF_MAX_WINDOWS; i++)
        assert_int_not_equal(kf_window_open(c, 1, 1), UINT32_MAX);
    assert_int_equal(kf_window_open(c, 1, 1), UINT32_MAX);
    kw_free(&w);
}

static void a_window_of_a_dead_process_closes(void **state)
{
    (void)state;
    size_t bytes = kf_pool_size(KF_CHUNK_BYTES, 4096);
    void *map = kb_os_map_shared(bytes, NULL);
    kf_pool pool;
    assert_non_null(map);
    kf_pool_format(map, KF_CHUNK_BYTES, 4096);
    assert_int_equal(kf_pool_open(map, bytes, &pool, NULL), KINETO_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kf_window_open(pool.control, 16, 1);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    assert_int_equal(pool.control->gate, 16);
    uint32_t slot = kf_window_open(pool.control, 1, 2);
    assert_int_equal(pool.control->gate, 1);
    kf_window_close(pool.control, slot, 3);
    kb_os_unmap(map, bytes);
}

static void *open_and_close(void *context)
{
    kf_control *c = context;
    static uint32_t next;
    uint64_t kind = UINT64_C(1) << kb_add_relaxed(&next, 1) % 16;
    uintptr_t lost = 0;
    for (int i = 0; i < 300; i++) {
        uint32_t slot = kf_window_open(c, kind, 1);
        lost += !(kb_load_acquire(&c->gate) & kind); /* ours is open, so the gate must be, too */
        lost += slot >= KF_MAX_WINDOWS;
        kf_window_close(c, slot, 2);
    }
    return (void *)lost;
}

static void the_gate_is_right_when_many_change_it_at_once(void **state)
{
    (void)state;
    kw_recording w = make(1);
    uint32_t lasting = kf_window_open(w.pool.control, UINT64_C(1) << 40, 1);
    pthread_t threads[CLAIMERS];
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, open_and_close, w.pool.control), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        void *lost;
        pthread_join(threads[i], &lost);
        assert_null(lost);
    }
    assert_int_equal(w.pool.control->gate, UINT64_C(1) << 40);
    kf_window_close(w.pool.control, lasting, 2);
    assert_int_equal(w.pool.control->gate, 0);
    kw_free(&w);
}

/* ---- snapshots ---- */

static void a_full_table_of_snapshots_keeps_the_first_and_the_last(void **state)
{
    (void)state;
    kw_recording w = make(1);
    kf_control *c = w.pool.control;
    c->snapshot_count = 0;
    for (uint64_t i = 1; i <= 1000; i++) {
        kb_clock_snapshot s = {.ticks = i};
        kf_snapshot_add(c, &s);
        assert_in_range(c->snapshot_count, 1, KF_MAX_SNAPSHOTS);
        assert_int_equal(c->snapshots[0].ticks, 1);
        assert_int_equal(c->snapshots[c->snapshot_count - 1].ticks, i);
        for (uint32_t k = 1; k < c->snapshot_count; k++)
            assert_true(c->snapshots[k].ticks > c->snapshots[k - 1].ticks);
    }
    assert_int_equal(c->window_lock, 0);
    kw_free(&w);
}

/* ---- dictionary ---- */

static void entries_are_concatenated_parts_and_ids_are_word_offsets(void **state)
{
    (void)state;
    kw_recording w = make(1);
    kf_part parts[] = {{"abc", 3}, {NULL, 0}, {"defghijkl", 9}};
    uint32_t a = kf_dictionary_add(&w.pool, KF_ENTRY_STRING, parts, 3);
    uint32_t b = kf_dictionary_add(&w.pool, KF_ENTRY_META, parts, 1);
    uint32_t empty = kf_dictionary_add(&w.pool, KF_ENTRY_STRING, parts, 0);
    assert_int_equal(a, 1);
    assert_int_equal(b, 4);
    assert_int_equal(empty, 6);
    assert_true(w.pool.dictionary[a] == kf_entry_header(KF_ENTRY_STRING, 3, 12));
    assert_memory_equal(&w.pool.dictionary[a + 1], "abcdefghijkl\0\0\0\0", 16);
    assert_true(w.pool.dictionary[empty] == kf_entry_header(KF_ENTRY_STRING, 1, 0));
    assert_int_equal(w.pool.control->dictionary_used, 7);
    kw_free(&w);
}

static void a_full_dictionary_says_so_and_its_end_stays_put(void **state)
{
    (void)state;
    kw_recording w = make(1);
    uint32_t added = 0;
    while (kw_string(&w, "twenty-four bytes text!!"))
        added++;
    assert_int_equal(added, (4096 / 8 - 1) / 4);
    for (int i = 0; i < 100000; i++)
        assert_int_equal(kw_string(&w, "twenty-four bytes text!!"), 0);
    assert_in_range(w.pool.control->dictionary_used, 1, 4096 / 8);
    assert_int_not_equal(kw_string(&w, "small"), 0); /* the rest is still of use */
    kf_part huge = {"", (size_t)1 << 40};
    assert_int_equal(kf_dictionary_add(&w.pool, KF_ENTRY_STRING, &huge, 1), 0);
    kw_free(&w);
}

static void an_adder_that_died_is_stepped_over(void **state)
{
    (void)state;
    kw_recording w = make(1);
    kf_control *c = w.pool.control;
    uint32_t first = kw_string(&w, "first");
    /* It reserved four words, and neither moved the end nor committed. */
    w.pool.dictionary[c->dictionary_used] = kf_entry_header(KF_ENTRY_NONE, 4, 0);
    uint32_t second = kw_string(&w, "second");
    assert_int_equal(second, first + 2 + 4);
    w.pool.dictionary[c->dictionary_used] = 1; /* no length: damaged, nothing can follow */
    assert_int_equal(kw_string(&w, "third"), 0);
    c->dictionary_used = UINT32_MAX;
    assert_int_equal(kw_string(&w, "fourth"), 0);
    kw_free(&w);
}

static void *add_strings(void *context)
{
    const kf_pool *pool = context;
    uint32_t *ids = calloc(1000, sizeof *ids);
    for (uint32_t i = 0; ids && i < 1000; i++) {
        uint64_t text[3] = {i, (uintptr_t)ids, ~(uint64_t)i};
        kf_part part = {text, 8 + i % 3 * 8};
        ids[i] = kf_dictionary_add(pool, KF_ENTRY_STRING, &part, 1);
    }
    return ids;
}

static void concurrent_adders_get_entries_of_their_own(void **state)
{
    (void)state;
    kw_recording w;
    assert_true(kw_create(&w, 1, 1 << 20));
    pthread_t threads[CLAIMERS];
    for (int i = 0; i < CLAIMERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, add_strings, &w.pool), 0);
    for (int i = 0; i < CLAIMERS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        uint32_t *ids = result;
        assert_non_null(ids);
        for (uint32_t k = 0; k < 1000; k++) {
            const uint64_t *entry = w.pool.dictionary + ids[k];
            assert_int_not_equal(ids[k], 0);
            assert_true(kb_load_acquire(&entry[0]) ==
                        kf_entry_header(KF_ENTRY_STRING, 2 + k % 3, 8 + k % 3 * 8));
            assert_int_equal(entry[1], k);
            assert_true(k % 3 == 0 || entry[2] == (uintptr_t)ids);
        }
        free(ids);
    }
    kw_free(&w);
}

static void every_reason_has_a_text(void **state)
{
    (void)state;
    for (uint32_t r = 0; r < KF_REASON_COUNT; r++)
        assert_true(strlen(kf_reason_text(r)) > 3);
    assert_true(kf_reason_is_drop(KF_REASON_NO_ROOM));
    assert_false(kf_reason_is_drop(KF_REASON_DELIVERED));
    assert_string_equal(kf_reason_text(1000), "unknown");
    assert_false(kf_reason_is_drop(1000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_formatted_pool_opens_and_its_parts_do_not_overlap),
        cmocka_unit_test(a_damaged_header_is_refused),
        cmocka_unit_test(the_lowest_free_chunk_is_claimed_until_none_is_left),
        cmocka_unit_test(chunks_beyond_the_limit_stay_untouched),
        cmocka_unit_test(a_freed_chunk_is_zero_and_has_a_new_serial),
        cmocka_unit_test(a_chunk_left_half_full_goes_to_the_next_thread),
        cmocka_unit_test(stale_bits_of_the_maps_are_harmless),
        cmocka_unit_test(a_ring_overwrites_sealed_chunks_and_counts_what_they_held),
        cmocka_unit_test(threads_that_contend_never_share_a_chunk),
        cmocka_unit_test(leftover_chunks_are_freed_only_if_unused),
        cmocka_unit_test(who_died_before_it_wrote_takes_nothing_away),
        cmocka_unit_test(the_heirs_of_the_dead_and_writers_never_share_a_chunk),
        cmocka_unit_test(chunks_of_killed_processes_come_back),
        cmocka_unit_test(the_gate_is_the_union_of_the_open_windows),
        cmocka_unit_test(a_window_of_a_dead_process_closes),
        cmocka_unit_test(the_gate_is_right_when_many_change_it_at_once),
        cmocka_unit_test(a_full_table_of_snapshots_keeps_the_first_and_the_last),
        cmocka_unit_test(entries_are_concatenated_parts_and_ids_are_word_offsets),
        cmocka_unit_test(a_full_dictionary_says_so_and_its_end_stays_put),
        cmocka_unit_test(an_adder_that_died_is_stepped_over),
        cmocka_unit_test(concurrent_adders_get_entries_of_their_own),
        cmocka_unit_test(every_reason_has_a_text),
    };
    return RUN_TESTS(tests);
}
