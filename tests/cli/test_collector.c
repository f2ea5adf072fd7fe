/* The collector against writers that use the pool by hand: everything is copied out exactly once,
 * whatever the writers do. */
#include "unit/unit.h"

#include "session/session.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

typedef struct fixture {
    ks_collector *collector;
    kf_pool pool;
    void *map;
    size_t bytes;
    char directory[256], output[300];
} fixture;

static void create(fixture *f, const ks_collector_options *more)
{
    ks_collector_options options = *more;
    kineto_error err = {0};
    options.kinds = KINETO_KINDS_ALL;
    options.output_path = f->output;
    if (ks_collector_create(&options, &f->collector, &err))
        fail_msg("%s", err.message);
    assert_int_equal(ks_collector_start(f->collector, NULL), KINETO_OK);
    f->map = kb_os_map_open(ks_collector_pool_path(f->collector), &f->bytes, NULL);
    assert_non_null(f->map);
    assert_int_equal(kf_pool_open(f->map, f->bytes, &f->pool, NULL), KINETO_OK);
}

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_non_null(make_directory(f->directory, sizeof f->directory));
    snprintf(f->output, sizeof f->output, "%s/t.json", f->directory);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ks_collector_destroy(f->collector, false);
    kb_os_unmap(f->map, f->bytes);
    assert_int_equal(rmdir(f->directory), 0); /* nothing was left in it */
    free(f);
    return 0;
}

static uint64_t self(void) { return (uint64_t)kb_os_pid() << 32 | kb_os_tid(); }

static uint32_t add_site(const kf_pool *pool, const char *name)
{
    kf_site_entry entry = {KINETO_KIND_CPU_OP, 0, 0, 0};
    uint32_t size = (uint32_t)strlen(name);
    kf_part parts[] = {{&entry, sizeof entry}, {&size, sizeof size}, {name, size}};
    return kf_dictionary_add(pool, KF_ENTRY_SITE, parts, 3);
}

/* A writer as simple as can be: a chunk gets its keyframe and ranges until it is full. */
typedef struct writer {
    const kf_pool *pool;
    uint32_t site, cursor, seq;
    uint64_t written, dropped;
} writer;

static void write_word(uint64_t *chunk, uint32_t *at, uint64_t word)
{
    kb_store_release(&chunk[(*at)++], word);
}

static uint32_t write_segment(writer *w, uint64_t *chunk, uint32_t at, uint32_t pairs)
{
    uint64_t now = kb_ticks(w->pool->control->ticks_clock);
    chunk[at + 1] = now;
    chunk[at + 2] = self() >> 32 | self() << 32;
    chunk[at + 3] = (uint64_t)w->seq++ << 32;
    chunk[at + 4] = 0;
    kb_store_release(&chunk[at], kf_header(KF_KEYFRAME, KF_KEYFRAME_WORDS, 0, w->cursor));
    at += KF_KEYFRAME_WORDS;
    for (uint32_t i = 0; i < pairs && at + 3 <= KF_CHUNK_WORDS; i++) {
        chunk[at + 1] = now + i;
        kb_store_release(&chunk[at], kf_header(KF_BEGIN, 2, 0, w->site));
        at += 2;
        write_word(chunk, &at, kf_end(0, now + i + 1));
        w->written++;
    }
    return at;
}

/* One chunk, full, sealed. */
static bool write_chunk(writer *w)
{
    uint32_t used, index = kf_chunk_claim(w->pool, self(), &used);
    if (index == UINT32_MAX)
        return false;
    uint32_t end = write_segment(w, kf_pool_chunk(w->pool, index), used, UINT32_MAX);
    kf_chunk_seal(w->pool, index, end, kb_ticks(w->pool->control->ticks_clock));
    return true;
}

static uint64_t finish_and_count(fixture *f, uint64_t *lost)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    if (ks_collector_finish(f->collector, &trace, &err))
        fail_msg("%s", err.message);
    uint64_t count = kineto_trace_count(trace);
    if (lost)
        *lost = kineto_trace_lost(trace);
    kineto_trace_release(trace);
    return count;
}

static void full_chunks_are_copied_out_and_given_back(void **state)
{
    fixture *f = *state;
    create(f, &(ks_collector_options){.buffer_bytes = 16 * KF_CHUNK_BYTES});
    writer w = {&f->pool, add_site(&f->pool, "op"), 1, 0, 0, 0};
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 16; i++)
            assert_true(write_chunk(&w));
        assert_false(write_chunk(&w));
        (void)ks_collector_poll(f->collector);
    }
    assert_int_equal(finish_and_count(f, NULL), w.written);
}

static void live_and_left_chunks_are_in_the_trace(void **state)
{
    fixture *f = *state;
    create(f, &(ks_collector_options){.buffer_bytes = 16 * KF_CHUNK_BYTES});
    writer w = {&f->pool, add_site(&f->pool, "op"), 1, 0, 0, 0};
    uint32_t used, live = kf_chunk_claim(&f->pool, self(), &used);
    write_segment(&w, kf_pool_chunk(&f->pool, live), used, 10);
    uint32_t left = kf_chunk_claim(&f->pool, self(), &used);
    uint32_t end = write_segment(&w, kf_pool_chunk(&f->pool, left), used, 20);
    kf_chunk_leave(&f->pool, left, end, 1);
    (void)ks_collector_poll(f->collector);
    assert_int_equal(finish_and_count(f, NULL), 30);
}

static void chunks_of_the_dead_are_reclaimed_with_what_they_hold(void **state)
{
    fixture *f = *state;
    create(f, &(ks_collector_options){.buffer_bytes = 4 * KF_CHUNK_BYTES});
    writer w = {&f->pool, add_site(&f->pool, "op"), 0, 0, 0, 0};
    for (uint32_t i = 1; i <= 12; i++) {
        pid_t child = fork();
        if (child == 0) {
            w.cursor = i;
            uint32_t used, index = kf_chunk_claim(&f->pool, self(), &used);
            if (index == UINT32_MAX)
                _exit(1);
            if (i % 3)
                write_segment(&w, kf_pool_chunk(&f->pool, index), used, 5);
            _exit(0);
        }
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        for (int k = 0; k < 200 && kf_claim_owner(f->pool.descriptors[0].claim); k++) {
            (void)ks_collector_poll(f->collector);
            usleep(2000);
        }
    }
    assert_int_equal(finish_and_count(f, NULL), 8 * 5);
}

typedef struct stress {
    writer w;
    uint32_t target_chunks;
} stress;

static void *write_many(void *argument)
{
    stress *s = argument;
    for (uint32_t i = 0; i < s->target_chunks;) {
        if (write_chunk(&s->w))
            i++;
        else
            sched_yield();
    }
    return NULL;
}

static void nothing_is_lost_or_doubled_while_writers_run(void **state)
{
    fixture *f = *state;
    enum { THREADS = 4, CHUNKS = 400 };
    create(f, &(ks_collector_options){.buffer_bytes = 8 * KF_CHUNK_BYTES});
    uint32_t site = add_site(&f->pool, "op");
    pthread_t threads[THREADS];
    stress s[THREADS];
    uint64_t written = 0, lost = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        s[i] = (stress){{&f->pool, site, i + 1, 0, 0, 0}, CHUNKS};
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &s[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        while (pthread_tryjoin_np(threads[i], NULL) != 0)
            (void)ks_collector_poll(f->collector);
    for (uint32_t i = 0; i < THREADS; i++)
        written += s[i].w.written;
    assert_int_equal(finish_and_count(f, &lost), written);
    assert_int_equal(lost, 0);
}

static void check_policy(fixture *f, ks_policy policy)
{
    uint64_t lost = 0;
    create(f, &(ks_collector_options){.buffer_bytes = 16 * KF_CHUNK_BYTES,
                                      .policy = policy,
                                      .keep_bytes = 10 * KF_CHUNK_BYTES});
    writer w = {&f->pool, add_site(&f->pool, "op"), 1, 0, 0, 0};
    for (int i = 0; i < 47; i++) {
        assert_true(write_chunk(&w));
        if (i % 5 == 0)
            (void)ks_collector_poll(f->collector);
    }
    uint64_t count = finish_and_count(f, &lost);
    assert_int_equal(count + lost, w.written);
    assert_in_range(count, w.written / 47 * 9, w.written / 47 * 11);
}

static void oldest_counts_what_it_does_not_keep(void **state)
{
    check_policy(*state, KS_POLICY_OLDEST);
}

static void ring_counts_what_it_overwrites(void **state) { check_policy(*state, KS_POLICY_RING); }

static void notes_and_metadata_reach_the_trace(void **state)
{
    fixture *f = *state;
    create(f, &(ks_collector_options){.buffer_bytes = 4 * KF_CHUNK_BYTES});
    ks_collector_note(f->collector, "a source", "a reason", 5, false, "a detail");
    ks_collector_metadata(f->collector, "key", "[1,2]");
    kineto_trace *trace = NULL;
    assert_int_equal(ks_collector_finish(f->collector, &trace, NULL), KINETO_OK);
    bool found = false;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (kb_string_equal(line.source, kb_string("a source")))
            found = line.count == 5 && kb_string_equal(line.detail, kb_string("a detail"));
    }
    assert_true(found);
    found = false;
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(trace, i, &key, &value);
        if (kb_string_equal(key, kb_string("key")))
            found = kb_string_equal(value, kb_string("[1,2]"));
    }
    assert_true(found);
    kineto_trace_release(trace);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(full_chunks_are_copied_out_and_given_back),
        TEST(live_and_left_chunks_are_in_the_trace),
        TEST(chunks_of_the_dead_are_reclaimed_with_what_they_hold),
        TEST(nothing_is_lost_or_doubled_while_writers_run),
        TEST(oldest_counts_what_it_does_not_keep),
        TEST(ring_counts_what_it_overwrites),
        TEST(notes_and_metadata_reach_the_trace),
    };
    return RUN_TESTS(tests);
}
