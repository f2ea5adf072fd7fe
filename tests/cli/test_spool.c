/* Spools: what is written comes back, damaged ones are read up to the damage, strangers refused. */
#include "unit/unit.h"

#include "helpers/kf_write.h"
#include "session/session.h"

#include <fcntl.h>
#include <sys/stat.h>

typedef struct fixture {
    kw_recording recording;
    ks_spool *spool;
    uint64_t words[KF_CHUNK_WORDS];
    char directory[256], path[300];
} fixture;

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    assert_true(kw_create(&f->recording, 8, 4096));
    assert_non_null(make_directory(f->directory, sizeof f->directory));
    snprintf(f->path, sizeof f->path, "%s/spool", f->directory);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    ks_spool_close(f->spool);
    unlink(f->path);
    rmdir(f->directory);
    kw_free(&f->recording);
    free(f);
    return 0;
}

static void create(fixture *f, uint64_t ring)
{
    assert_int_equal(
        ks_spool_create(f->path, &f->recording.pool, "/dev/shm/none.pool", ring, &f->spool, NULL),
        KINETO_OK);
}

/* A chunk whose first word says which one it is. */
static kineto_status put_chunk(fixture *f, uint64_t number, uint32_t count, ks_spool_evict *evict,
                               void *context)
{
    for (uint32_t i = 0; i < count; i++)
        f->words[i] = kf_header(KF_PAD, 1, 0, (uint32_t)number);
    ks_spool_chunk chunk = {f->words, count, (uint32_t)number, 1};
    return ks_spool_chunks(f->spool, &chunk, 1, evict, context, NULL);
}

static ks_input *open_input(fixture *f)
{
    ks_input *in = NULL;
    kineto_error err = {0};
    if (ks_input_open(f->path, NULL, &in, &err))
        print_message("%s\n", err.message);
    return in;
}

static uint32_t number_of(const ks_input *in, uint32_t index, uint32_t *words)
{
    const uint64_t *chunk = in->input.get(in->input.context, index, words, NULL);
    assert_non_null(chunk);
    return kf_header_id(chunk[0]);
}

static void chunks_and_names_come_back(void **state)
{
    fixture *f = *state;
    create(f, 0);
    uint32_t id = kw_string(&f->recording, "a name");
    const kf_pool *pool = &f->recording.pool;
    assert_int_equal(ks_spool_dictionary(f->spool, pool->dictionary, 1, 63, NULL), KINETO_OK);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(put_chunk(f, i, 1 + i * 20, NULL, NULL), KINETO_OK);
    pool->control->counters[3][2] = 77;
    assert_int_equal(ks_spool_control(f->spool, pool->control, NULL), KINETO_OK);
    ks_input *in = open_input(f);
    assert_non_null(in);
    assert_int_equal(in->input.chunk_count, 100);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t words;
        assert_int_equal(number_of(in, i, &words), i);
        assert_int_equal(words, 1 + i * 20);
    }
    assert_memory_equal(in->input.dictionary + id + 1, "a name", 6);
    assert_int_equal(in->control->counters[3][2], 77);
    ks_input_close(in);
}

static void the_newest_control_page_wins(void **state)
{
    fixture *f = *state;
    create(f, 0);
    for (uint64_t i = 1; i < 6; i++) {
        f->recording.pool.control->counters[0][0] = i;
        assert_int_equal(ks_spool_control(f->spool, f->recording.pool.control, NULL), KINETO_OK);
        ks_input *in = open_input(f);
        assert_int_equal(in->control->counters[0][0], i);
        ks_input_close(in);
    }
}

static void add_evicted(void *context, const uint64_t *words, uint32_t count)
{
    uint64_t *sum = context;
    assert_true(count > 0);
    *sum += kf_header_id(words[0]);
}

static void a_ring_keeps_the_newest_and_tells_of_the_others(void **state)
{
    fixture *f = *state;
    uint64_t evicted = 0;
    create(f, 4);
    for (uint32_t i = 1; i <= 10; i++)
        assert_int_equal(put_chunk(f, i, 5, add_evicted, &evicted), KINETO_OK);
    assert_int_equal(evicted, 1 + 2 + 3 + 4 + 5 + 6);
    ks_input *in = open_input(f);
    assert_int_equal(in->input.chunk_count, 4);
    uint32_t sum = 0, words;
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t number = number_of(in, i, &words);
        assert_in_range(number, 7, 10);
        sum += number;
        assert_int_equal(
            kf_committed_words(in->input.get(in->input.context, i, &words, NULL), words), 5);
    }
    assert_int_equal(sum, 7 + 8 + 9 + 10);
    ks_input_close(in);
}

static void a_chunk_in_both_places_is_taken_once(void **state)
{
    fixture *f = *state;
    const kf_pool *pool = &f->recording.pool;
    create(f, 0);
    uint32_t used, index = kf_chunk_claim(pool, UINT64_C(1) << 32 | 1, &used);
    uint64_t *words = kf_pool_chunk(pool, index);
    for (uint32_t i = 0; i < 50; i++)
        words[i] = kf_header(KF_PAD, 1, 0, 9);
    ks_spool_chunk chunk = {words, 30, index, pool->descriptors[index].serial};
    assert_int_equal(ks_spool_chunks(f->spool, &chunk, 1, NULL, NULL, NULL), KINETO_OK);
    ks_input *in = NULL;
    assert_int_equal(ks_input_open(f->path, pool, &in, NULL), KINETO_OK);
    uint32_t count;
    assert_int_equal(in->input.chunk_count, 1);
    assert_int_equal(number_of(in, 0, &count), 9);
    assert_int_equal(count, 50);
    ks_input_close(in);
}

static void a_cut_spool_is_read_up_to_the_cut(void **state)
{
    fixture *f = *state;
    create(f, 0);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(put_chunk(f, i, 100, NULL, NULL), KINETO_OK);
    uint64_t bytes = ks_spool_bytes(f->spool), frame = sizeof(kf_frame) + 100 * 8;
    uint64_t head = bytes - 6 * frame;
    for (uint64_t cut = bytes; cut > head; cut -= 33 < cut - head ? 33 : cut - head) {
        assert_int_equal(truncate(f->path, (off_t)cut), 0);
        ks_input *in = open_input(f);
        assert_non_null(in);
        assert_int_equal(in->input.chunk_count, (cut - head) / frame);
        ks_input_close(in);
    }
    for (uint64_t cut = head - 1; cut > sizeof(kf_spool_header); cut /= 2) {
        assert_int_equal(truncate(f->path, (off_t)cut), 0);
        ks_input *in = NULL;
        if (ks_input_open(f->path, NULL, &in, NULL) == KINETO_OK)
            ks_input_close(in);
    }
}

static void damage_anywhere_is_survived(void **state)
{
    fixture *f = *state;
    uint64_t seed = 7;
    create(f, 0);
    (void)ks_spool_dictionary(f->spool, f->recording.pool.dictionary, 0, 64, NULL);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(put_chunk(f, i, 300, NULL, NULL), KINETO_OK);
    uint64_t bytes = ks_spool_bytes(f->spool);
    int fd = open(f->path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (int round = 0; round < 2000; round++) {
        uint64_t at = next_random(&seed) % bytes, old, value = next_random(&seed);
        size_t size = 1 + next_random(&seed) % 8;
        ssize_t n = pread(fd, &old, size, (off_t)at);
        assert_true(n > 0);
        if (round % 3 == 0)
            value = UINT64_MAX;
        assert_int_equal(pwrite(fd, &value, (size_t)n, (off_t)at), n);
        ks_input *in = NULL;
        kineto_trace *trace = NULL;
        if (ks_input_open(f->path, NULL, &in, NULL) == KINETO_OK) {
            kt_build_options all = {.kinds = KINETO_KINDS_ALL, .clip_open = true};
            (void)kt_build(&in->input, in->control, &all, &trace, NULL);
            kineto_trace_release(trace);
            ks_input_close(in);
        }
        assert_int_equal(pwrite(fd, &old, (size_t)n, (off_t)at), n);
    }
    close(fd);
}

static void a_spool_of_another_recording_is_refused(void **state)
{
    fixture *f = *state;
    ks_input *in = NULL;
    create(f, 0);
    f->recording.pool.control->collector_pid += 1;
    assert_int_equal(ks_input_open(f->path, &f->recording.pool, &in, NULL), KINETO_E_FORMAT);
    assert_null(in);
}

static void what_is_not_a_spool_is_refused(void **state)
{
    fixture *f = *state;
    ks_input *in = NULL;
    kineto_error err;
    assert_int_equal(ks_input_open(f->path, NULL, &in, &err), KINETO_E_NOT_FOUND);
    assert_int_equal(ks_input_open(f->directory, NULL, &in, &err), KINETO_E_FORMAT);
    create(f, 0);
    char link[310];
    snprintf(link, sizeof link, "%s.link", f->path);
    assert_int_equal(symlink(f->path, link), 0);
    assert_int_not_equal(ks_input_open(link, NULL, &in, &err), KINETO_OK);
    unlink(link);
    ks_spool *twice = NULL;
    assert_int_not_equal(ks_spool_create(f->path, &f->recording.pool, "", 0, &twice, &err),
                         KINETO_OK);
    assert_null(twice);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(chunks_and_names_come_back),
        TEST(the_newest_control_page_wins),
        TEST(a_ring_keeps_the_newest_and_tells_of_the_others),
        TEST(a_chunk_in_both_places_is_taken_once),
        TEST(a_cut_spool_is_read_up_to_the_cut),
        TEST(damage_anywhere_is_survived),
        TEST(a_spool_of_another_recording_is_refused),
        TEST(what_is_not_a_spool_is_refused),
    };
    return RUN_TESTS(tests);
}
