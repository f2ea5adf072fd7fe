/* Facts files: rows come back as they were, whatever they are; damage anywhere is an error, never a wrong answer; files
 * with sections that this version does not know, and files of version 1, can be read. */
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/facts_file.h"
#include "analyze/saved/packed_rows.h"
#include "analyze/saved/row_blocks.h"
#include "unit.h"

#include <ckineto/facts.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- rows ------------------------------------------------------------------------------------ */

static int64_t any_time(uint64_t *state)
{
    uint64_t kind = next_random(state) % 8, v = next_random(state);
    return kind == 0 ? (int64_t)v : kind == 1 ? INT64_MIN : kind == 2 ? INT64_MAX : (int64_t)(v % 1000000);
}

static int32_t any_earlier(uint64_t *state, uint32_t row)
{
    return row && next_random(state) % 3 ? (int32_t)(next_random(state) % row) : KA_NO_COMM;
}

/* Sound rows with any numbers in them. */
static ka_rank_facts *make_rank(uint32_t rows, uint64_t state)
{
    ka_rank_facts *f = calloc(1, sizeof *f);
    assert_non_null(f);
    atomic_init(&f->references, 1);
    f->rank = 3;
    f->world_size = 8;
    (void)kb_intern_id(&f->texts, kb_string(""));
    f->host = kb_intern_id(&f->texts, kb_string("node7"));
    f->start_ns = -5;
    f->end_ns = INT64_MAX;
    f->latency_ns = (int64_t)(next_random(&state) % 5000);
    f->on_host = next_random(&state) % 2;
    f->unmatched = (uint8_t)(next_random(&state) % 3);
    for (uint32_t i = 0; i < 70; i++)
        assert_true(kb_vec_push(&f->groups, (ka_comm_group){.id = next_random(&state), .name = f->host, .size = i}));
    for (uint32_t i = 0; i < rows; i++) {
        bool is_last = i + 1 == rows;
        ka_comm c = {.start_ns = any_time(&state), .end_ns = any_time(&state), .ready_ns = any_time(&state),
                     .host_at_ns = any_time(&state), .work_ns = any_time(&state), .late_ns = any_time(&state),
                     .late_rest_ns = any_time(&state), .host_ns = any_time(&state), .sync_ns = any_time(&state),
                     .wait_ns = any_time(&state), .elements = next_random(&state) >> next_random(&state) % 64,
                     .received = next_random(&state) >> next_random(&state) % 64,
                     .group = is_last ? UINT32_MAX : (uint32_t)(next_random(&state) % 70),
                     .sequence = (uint32_t)next_random(&state), .previous = any_earlier(&state, i),
                     .after = any_earlier(&state, i), .sync_row = any_earlier(&state, i), .wait_row = KA_NO_COMM,
                     .step = (uint32_t)next_random(&state), .op = (uint8_t)(next_random(&state) % KA_OP_COUNT),
                     .flags = (uint8_t)((next_random(&state) & ~(uint64_t)KA_COMM_LAST) | (is_last ? KA_COMM_LAST : 0))};
        if (!is_last && next_random(&state) % 2)
            c.wait_row = (int32_t)(i + 1 + next_random(&state) % (rows - i - 1));
        assert_true(kb_vec_push(&f->rows, c));
    }
    return f;
}

static void assert_same_row(const ka_comm *a, const ka_comm *b)
{
    const int64_t one[] = {a->start_ns, a->end_ns, a->ready_ns, a->host_at_ns, a->work_ns, a->late_ns, a->late_rest_ns,
                           a->host_ns, a->sync_ns, a->wait_ns, (int64_t)a->elements, (int64_t)a->received, a->group,
                           a->sequence, a->previous, a->after, a->wait_row, a->sync_row, a->step, a->op, a->flags};
    const int64_t other[] = {b->start_ns, b->end_ns, b->ready_ns, b->host_at_ns, b->work_ns, b->late_ns, b->late_rest_ns,
                             b->host_ns, b->sync_ns, b->wait_ns, (int64_t)b->elements, (int64_t)b->received, b->group,
                             b->sequence, b->previous, b->after, b->wait_row, b->sync_row, b->step, b->op, b->flags};
    for (size_t i = 0; i < KB_COUNT(one); i++)
        assert_int_equal(one[i], other[i]);
}

/* Any rows, also such that the equations of rank_facts.h do not hold for. */
static void test_blocks_come_back(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed < 60; seed++) {
        uint32_t count = 1 + (uint32_t)(seed * 37 % KA_BLOCK_ROWS), first = seed % 2 ? 0 : 11;
        ka_rank_facts *f = make_rank(first + count, seed);
        ka_byte_writer w = {.no_memory = false};
        ka_comm rows[KA_BLOCK_ROWS];
        ka_encode_rows(f, first, count, &w);
        assert_true(ka_decode_rows(w.bytes.data, w.bytes.count, ((ka_row_coding){f->latency_ns, f->on_host}), first, count, rows));
        for (uint32_t i = 0; i < count; i++)
            assert_same_row(&f->rows.data[first + i], &rows[i]);
        for (size_t cut = 0; cut < w.bytes.count; cut += 1 + cut / 16) /* cut off: refused */
            assert_false(ka_decode_rows(w.bytes.data, cut, ((ka_row_coding){f->latency_ns, f->on_host}), first, count, rows));
        ka_byte_writer_free(&w);
        ka_rank_facts_release(f);
    }
}

/* Calls alone are those of the rows. */
static void test_calls_are_those_of_rows(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed < 60; seed++) {
        uint32_t count = 1 + (uint32_t)(seed * 53 % KA_BLOCK_ROWS);
        ka_rank_facts *f = make_rank(count, seed);
        ka_byte_writer w = {.no_memory = false};
        ka_comm calls[KA_BLOCK_ROWS];
        ka_encode_rows(f, 0, count, &w);
        assert_true(ka_decode_calls(w.bytes.data, w.bytes.count, count, calls));
        for (uint32_t i = 0; i < count; i++) {
            const ka_comm *c = &f->rows.data[i];
            const ka_comm expected = {.elements = c->elements, .group = c->group, .sequence = c->sequence, .step = c->step,
                                      .op = c->op, .flags = c->flags};
            assert_same_row(&expected, &calls[i]);
        }
        ka_byte_writer_free(&w);
        ka_rank_facts_release(f);
    }
}

/* Any rows, taken out in parts of any size. */
static void test_packed_rows_come_back(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed < 60; seed++) {
        uint64_t state = seed;
        uint32_t count = 1 + (uint32_t)(seed * 41 % KA_BLOCK_ROWS), first = (uint32_t)(seed * 7);
        ka_rank_facts *f = make_rank(first + count, seed);
        uint8_t *room = malloc(ka_packed_rows_room(count));
        ka_packed_rows packed = {.bytes = NULL};
        ka_comm rows[KA_BLOCK_ROWS];
        for (int round = 0; round < 2; round++) { /* the second one replaces what is left */
            assert_true(ka_pack_rows(&packed, f->rows.data + first, first, count, room));
            for (uint32_t done = 0, n; done < count && !(round == 0 && done > count / 2); done += n) {
                n = 1 + (uint32_t)(next_random(&state) % (count - done));
                assert_int_equal(packed.first, first + done);
                assert_int_equal(packed.count, count - done);
                ka_unpack_rows(&packed, n, rows + done);
                for (uint32_t i = done; i < done + n; i++)
                    assert_same_row(&f->rows.data[first + i], &rows[i]);
            }
        }
        assert_null(packed.bytes);
        free(room);
        ka_rank_facts_release(f);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static char path[64];

static void write_file(const void *data, size_t size)
{
    FILE *out = fopen(path, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(data, 1, size, out), size);
    assert_int_equal(fclose(out), 0);
}

/* A file of one trace, with tables and rows; its bytes, to be freed. */
static char *make_file(uint32_t rows, size_t *size)
{
    kb_sink *sink;
    kineto_error err = {.message = ""};
    kineto_analysis *a;
    char *data;
    const kineto_analysis_options usual = {.size = sizeof usual};
    ka_trace_facts facts = {.source = {.version = kb_string("0.1.0"), .path = kb_string("/run/rank3.json"),
                                       .options = kb_string("default"), .rank = 3, .world_size = 8, .bytes = 1234,
                                       .modified_ns = 77, .pid = -1, .host = kb_string("node7"),
                                       .backend = kb_string("nccl"), .conflict = kb_string("")},
                            .message = ""};
    assert_int_equal(ka_facts_create_for(&usual, KA_TABLE_BIT(KA_TABLE_rank_marks) | KA_TABLE_BIT(KA_TABLE_steps), &a, &err), 0);
    assert_true(ka_rank_set_put(&a->ranks, make_rank(rows, 5)));
    ka_put_int(ka_table_of(a, KA_TABLE_rank_marks), 3);
    ka_put_int(ka_table_of(a, KA_TABLE_rank_marks), rows - 1);
    assert_true(kb_vec_push(&a->seen, ((ka_seen){3, -9, true})));
    assert_true(kb_vec_push(&facts.health.coverage.traces, ((ka_covered_trace){.rank = 3})));
    facts.health.coverage.rank_count = 1;
    facts.analysis = a;
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, &err), 0);
    ka_facts_file_write(sink, &facts, NULL);
    assert_int_equal(kb_sink_take(sink, &data, size, &err), 0);
    assert_int_equal(kb_sink_close(sink, &err), 0);
    kineto_analysis_destroy(a);
    ka_trace_health_free(&facts.health);
    return data;
}

/* Read all of it. KINETO_OK, and the rows are those that were written; or an error that names the file. */
static kineto_status read_all(uint32_t rows)
{
    ka_facts_file *f;
    ka_facts_set *s = NULL;
    kineto_error err = {.message = ""};
    kineto_analysis *a = NULL;
    ka_trace_health health;
    const kineto_analysis_options usual = {.size = sizeof usual};
    kineto_status status = ka_facts_file_open(path, &f, &err);
    if (status) {
        assert_non_null(strstr(err.message, path));
        return status;
    }
    if (!status)
        status = ka_facts_file_check(f, &err);
    if (!status)
        status = ka_facts_file_health(f, 0, &health, &err);
    if (!status)
        ka_trace_health_free(&health);
    if (!status)
        status = ka_facts_create_for(&usual, KA_TABLE_BIT(KA_TABLE_rank_marks), &a, &err);
    if (!status)
        status = ka_facts_file_load(f, 0, a, &err);
    if (!status) {
        ka_rank_facts *expected = make_rank(rows, 5);
        assert_int_equal(a->ranks->ranks.count, 1);
        assert_int_equal(a->ranks->ranks.data[0].facts->rows.count, rows);
        for (uint32_t i = 0; i < rows; i++)
            assert_same_row(&expected->rows.data[i], &a->ranks->ranks.data[0].facts->rows.data[i]);
        ka_rank_facts_release(expected);
    } else {
        assert_non_null(strstr(err.message, path));
    }
    kineto_analysis_destroy(a);
    ka_facts_file_close(f);
    assert_int_equal(ka_facts_set_open((const char *const[]){path}, 1, &s, &err), 0); /* damage is left out */
    ka_facts_set_destroy(s);
    return status;
}

static void test_windows_of_rows(void **unused)
{
    (void)unused;
    enum { ROWS = 1000 };
    size_t size;
    ka_facts_file *f;
    kineto_error err = {.message = ""};
    static ka_comm rows[ROWS];
    char *data = make_file(ROWS, &size);
    ka_rank_facts *expected = make_rank(ROWS, 5);
    write_file(data, size);
    assert_int_equal(read_all(ROWS), 0);
    assert_int_equal(ka_facts_file_open(path, &f, &err), 0);
    assert_int_equal(ka_facts_file_rank_count(f), 1);
    for (uint32_t first = 0; first < ROWS; first += 97)
        for (uint32_t count = 0; count <= ROWS - first; count += 1 + count * 3) {
            assert_int_equal(ka_facts_file_rows(f, 0, first, count, rows, &err), 0);
            for (uint32_t i = 0; i < count; i++)
                assert_same_row(&expected->rows.data[first + i], &rows[i]);
        }
    assert_int_equal(ka_facts_file_rows(f, 0, 1, ROWS, rows, &err), KINETO_E_ARGUMENT);
    assert_int_equal(ka_facts_file_rows(f, 1, 0, 1, rows, &err), KINETO_E_ARGUMENT);
    ka_facts_file_close(f);
    ka_rank_facts_release(expected);
    free(data);
}

/* What is compared in windows: rows in growing parts, in several passes, by any lane. */
static void test_sources_of_rows(void **unused)
{
    (void)unused;
    enum { ROWS = 1500 };
    size_t size;
    ka_facts_file *f;
    kineto_error err = {.message = ""};
    kineto_analysis *a;
    static ka_comm rows[ROWS];
    const kineto_analysis_options usual = {.size = sizeof usual};
    char *data = make_file(ROWS, &size);
    ka_rank_facts *expected = make_rank(ROWS, 5);
    ka_row_reader *reader = ka_row_reader_create();
    write_file(data, size);
    free(data);
    assert_int_equal(ka_facts_file_open(path, &f, &err), 0);
    ka_facts_file_keep_rows(f, reader);
    assert_int_equal(ka_facts_create_for(&usual, KA_TABLE_BIT(KA_TABLE_rank_marks), &a, &err), 0);
    assert_int_equal(ka_facts_file_load(f, 0, a, &err), 0);
    const ka_rank_source *s = &a->ranks->ranks.data[0].source;
    assert_int_equal(s->row_count, ROWS);
    for (uint64_t seed = 1; seed < 40; seed++) {
        uint64_t state = seed;
        uint32_t most = 1 + (uint32_t)(next_random(&state) % 600), last = ROWS / 2 * (1 + (uint32_t)seed % 2);
        for (uint32_t at = 0, n; at < last; at += n) { /* a pass may end early */
            n = 1 + (uint32_t)(next_random(&state) % most);
            n = KB_MIN(n, last - at);
            if (next_random(&state) % 4 == 0)
                assert_int_equal(s->read_calls(s->context, (uint32_t)(next_random(&state) % KA_LANES), at, n, rows, &err), 0);
            assert_int_equal(s->read(s->context, (uint32_t)(next_random(&state) % KA_LANES), at, n, rows, &err), 0);
            for (uint32_t i = 0; i < n; i++)
                assert_same_row(&expected->rows.data[at + i], &rows[i]);
        }
    }
    kineto_analysis_destroy(a);
    ka_facts_file_close(f);
    ka_row_reader_destroy(reader);
    ka_rank_facts_release(expected);
}

static void test_facts_are_known_from_their_files(void **state)
{
    (void)state;
    char name[] = "/tmp/ckineto-facts-XXXXXX";
    int fd = mkstemp(name);
    size_t size;
    char *data = make_file(10, &size);
    kineto_facts *facts = NULL;
    kineto_error err = {.message = ""};
    assert_true(fd >= 0);
    assert_false(kineto_facts_are_at(name)); /* empty */
    assert_false(kineto_facts_are_at("/nowhere"));
    assert_int_equal(write(fd, data, size), size);
    close(fd);
    assert_true(kineto_facts_are_at(name));
    assert_int_equal(kineto_facts_open((const char *const[]){name}, 1, 0, &facts, &err), KINETO_OK);
    kineto_facts_destroy(facts);
    free(data);
    unlink(name);
}

/* Each byte is covered by a checksum. */
static void test_damage_is_found(void **unused)
{
    (void)unused;
    enum { ROWS = 40 };
    size_t size;
    char *data = make_file(ROWS, &size);
    for (size_t at = 0; at < size; at++) {
        data[at] = (char)(data[at] ^ (1 << at % 8));
        write_file(data, size);
        assert_int_not_equal(read_all(ROWS), 0);
        data[at] = (char)(data[at] ^ (1 << at % 8));
    }
    for (size_t cut = 0; cut < size; cut++) {
        write_file(data, cut);
        assert_int_not_equal(read_all(ROWS), 0);
    }
    write_file(data, size);
    assert_int_equal(read_all(ROWS), 0);
    free(data);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* The file with another section after the source, or with a section of another version. */
static char *change_file(const char *data, size_t size, uint32_t id, uint16_t version, bool inserts, size_t *new_size)
{
    char *out = malloc(size + 100);
    size_t at = KA_FILE_HEAD_BYTES, used = at;
    uint64_t count = 0;
    memcpy(out, data, at);
    while (at < size) {
        ka_section_head head;
        ka_byte_writer w = {.no_memory = false};
        assert_true(ka_read_section_head(data + at, &head));
        if (head.id == KA_SECTION_END) {
            uint8_t number = (uint8_t)count;
            head.crc = ka_crc32c(0, &number, 1);
            ka_write_section_head(&head, &w);
            ka_write_bytes(&w, &number, 1);
        } else {
            if (head.id == id && !inserts)
                head.version = version;
            ka_write_section_head(&head, &w);
            ka_write_bytes(&w, data + at + KA_SECTION_HEAD_BYTES, head.stored_bytes);
            count++;
            if (inserts && head.id == KA_SECTION_SOURCE) {
                ka_section_head other = {.id = id, .version = version, .bytes = 3, .stored_bytes = 3,
                                         .crc = ka_crc32c(0, "new", 3)};
                ka_write_section_head(&other, &w);
                ka_write_bytes(&w, "new", 3);
                count++;
            }
        }
        memcpy(out + used, w.bytes.data, w.bytes.count);
        used += w.bytes.count;
        at += KA_SECTION_HEAD_BYTES + head.stored_bytes;
        ka_byte_writer_free(&w);
    }
    *new_size = used;
    return out;
}

static void test_versions(void **unused)
{
    (void)unused;
    enum { ROWS = 300 };
    static const uint32_t needed[] = {KA_SECTION_SOURCE, KA_SECTION_HEALTH, KA_SECTION_RANK, KA_SECTION_ROWS,
                                      KA_SECTION_TABLES};
    size_t size, changed_size;
    char *data = make_file(ROWS, &size);
    char *changed = change_file(data, size, KA_SECTION_ID('N', 'E', 'W', '!'), 9, true, &changed_size);
    write_file(changed, changed_size);
    free(changed);
    assert_int_equal(read_all(ROWS), 0); /* unknown: skipped */
    for (size_t i = 0; i < KB_COUNT(needed); i++) {
        changed = change_file(data, size, needed[i], 2, false, &changed_size);
        write_file(changed, changed_size);
        free(changed);
        assert_int_equal(read_all(ROWS), KINETO_E_UNSUPPORTED);
    }
    data[8] = 2; /* the format itself */
    ka_byte_writer crc = {.no_memory = false};
    ka_write_fixed(&crc, ka_crc32c(0, data, 12), 4);
    memcpy(data + 12, crc.bytes.data, 4);
    ka_byte_writer_free(&crc);
    write_file(data, size);
    assert_int_equal(read_all(ROWS), KINETO_E_UNSUPPORTED);
    free(data);
}

/* As it is on any processor, wherever the bytes begin and end, and in parts. */
static void test_checksums(void **unused)
{
    (void)unused;
    uint8_t bytes[96];
    uint64_t state = 7;
    assert_int_equal(ka_crc32c(0, "123456789", 9), 0xe3069283);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)next_random(&state);
    for (size_t first = 0; first < 9; first++)
        for (size_t size = 0; first + size <= sizeof bytes; size++) {
            uint32_t crc = ka_crc32c_portable(0, bytes + first, size), half = ka_crc32c(0, bytes + first, size / 2);
            assert_int_equal(ka_crc32c(0, bytes + first, size), crc);
            assert_int_equal(ka_crc32c(half, bytes + first + size / 2, size - size / 2), crc);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_blocks_come_back),
        cmocka_unit_test(test_calls_are_those_of_rows),
        cmocka_unit_test(test_packed_rows_come_back),
        cmocka_unit_test(test_windows_of_rows),
        cmocka_unit_test(test_sources_of_rows),
        cmocka_unit_test(test_facts_are_known_from_their_files),
        cmocka_unit_test(test_damage_is_found),
        cmocka_unit_test(test_versions),
    };
    snprintf(path, sizeof path, "test_analyze_saved.%d.ckfacts", (int)getpid());
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
