/* Deep nesting: across chunks, with arguments and names, and beyond what can be recorded. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/cursor.h"

KINETO_SITE_ARGS(site_level, KINETO_KIND_CPU_OP, "level", {"n", KINETO_ARG_INT});
KINETO_SITE_ARGS(site_leaf, KINETO_KIND_CPU_OP, "leaf", {"n", KINETO_ARG_INT});
KINETO_SITE(site_plain, KINETO_KIND_CPU_OP, "plain");

enum { LIMIT = 256 };

static kineto_range open_level(int n)
{
    kineto_value v = {.i = n};
    return kineto_range_begin_args(&site_level, &v);
}

/* Level n encloses level n + 1, for all that were recorded. */
static void check_levels(const kineto_trace *t, int count)
{
    kineto_row rows[LIMIT + 1];
    assert_int_equal(count_named(t, "level"), count);
    for (uint64_t i = 0; i < (uint64_t)count; i++) {
        kineto_activity a = find_nth(t, "level", i);
        int64_t n = arg_of(t, a.row, "n").i;
        assert_true(n >= 0 && n < count);
        rows[n] = a.row;
    }
    for (int n = 1; n < count; n++)
        assert_int_equal(kineto_trace_parent(t, rows[n]), rows[n - 1]);
    assert_true(kineto_trace_parent(t, rows[0]) == KINETO_NO_ROW);
}

static void depth_256_is_recorded_whole(void **state)
{
    (void)state;
    kineto_range r[LIMIT];
    kineto_session *s = record();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < LIMIT; i++)
            assert_true((r[i] = open_level(i)) != 0);
        for (int i = LIMIT; i > 0; i--)
            kineto_range_end(r[i - 1]);
        if (round)
            break;
        kineto_trace *t = snapshot(s);
        verify(t);
        assert_nothing_lost(t);
        check_levels(t, LIMIT);
        kineto_trace_release(t);
    }
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "level"), 2 * LIMIT);
    kineto_trace_release(t);
}

/* What the memory is shared with writes into it: where the records of open ranges go when the chunk
 * is full is ours to say all the same. */
static void headers_that_others_change_move_nothing(void **state)
{
    (void)state;
    const uint32_t lies[] = {0, 1, 1023};
    kineto_session *s = record();
    kineto_range r[COUNT_OF(lies)];
    for (size_t i = 0; i < COUNT_OF(lies); i++)
        r[i] = open_level((int)i);
    kr_cursor *c = kr_me;
    uint32_t chunk = c->chunk;
    while (c->limit - c->at > 300) /* then one record more is too much for those that lie */
        kineto_range_end(kineto_range_begin(&site_plain));
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        uint64_t *header = &c->base[c->open[i]];
        *header = (*header & ~(UINT64_C(1023) << 6)) | (uint64_t)lies[i] << 6;
    }
    while (c->chunk == chunk)
        kineto_range_end(kineto_range_begin(&site_plain));
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        uint32_t words = kf_header_words(c->base[c->open[i]]);
        assert_true(words >= 2);
        if (i)
            assert_true(c->open[i] >= c->open[i - 1] + 2);
        assert_true(c->base + c->open[i] + words <= c->at);
    }
    for (size_t i = COUNT_OF(lies); i > 0; i--)
        kineto_range_end(r[i - 1]);
    kineto_trace_release(finish(s));
}

static void deeper_ranges_are_counted_and_the_rest_is_intact(void **state)
{
    (void)state;
    kineto_range r[300];
    kineto_session *s = record();
    for (int i = 0; i < 300; i++) {
        r[i] = open_level(i);
        assert_int_equal(r[i] != 0, i < LIMIT);
        if (i >= LIMIT) { /* instants and counters need no depth */
            kineto_value v = {.i = i};
            kineto_instant_mark(&site_leaf, &v);
        }
    }
    assert_int_equal(kineto_range_begin(&site_plain), 0);
    for (int i = 300; i > 0; i--)
        kineto_range_end(r[i - 1]);
    kineto_range_end(kineto_range_begin(&site_plain));
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(ledger(t, "program", "nested too deep"), 300 - LIMIT + 1);
    assert_int_equal(kineto_trace_lost(t), 300 - LIMIT + 1);
    check_levels(t, LIMIT);
    assert_int_equal(count_named(t, "leaf"), 300 - LIMIT);
    assert_int_equal(count_named(t, "plain"), 1);
    assert_true(kineto_trace_parent(t, find_only(t, "plain").row) == KINETO_NO_ROW);
    kineto_trace_release(t);
}

/* Open ranges with names and arguments of their own are carried through hundreds of chunks. */
static void open_ranges_survive_many_chunks(void **state)
{
    (void)state;
    enum { DEPTH = 40, LEAVES = FEWER(200000, 40000) };
    kineto_range r[DEPTH];
    char name[64], text[200];
    KINETO_SITE_ARGS(rich, KINETO_KIND_USER_ANNOTATION, "rich", {"n", KINETO_ARG_INT},
                     {"text", KINETO_ARG_STRING}, {"d", KINETO_ARG_DOUBLE});
    KINETO_SITE_ARGS(late, KINETO_KIND_USER_ANNOTATION, "late", {"late", KINETO_ARG_INT});
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "run-time name %d", i);
        memset(text, 'A' + i % 26, sizeof text);
        text[100 + i] = 0;
        kineto_value v[] = {{.i = i}, {.s = text}, {.d = i / 8.0}};
        kineto_props props = {.size = sizeof props,
                              .name = name,
                              .correlation_id = 1000 + (uint64_t)i,
                              .external_id = 2000 + (uint64_t)i,
                              .values = v};
        r[i] = kineto_range_begin_props(&rich, &props);
        kineto_value more = {.i = -i};
        kineto_range_args(r[i], &late, &more);
        for (int k = 0; k < LEAVES / DEPTH; k++) {
            kineto_value leaf = {.i = i * (LEAVES / DEPTH) + k};
            kineto_range_end(kineto_range_begin_args(&site_leaf, &leaf));
        }
    }
    for (int i = DEPTH; i > 0; i--)
        kineto_range_end(r[i - 1]);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), LEAVES + DEPTH);
    kineto_row rows[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "run-time name %d", i);
        kineto_activity a = find_only(t, name);
        rows[i] = a.row;
        assert_int_equal(a.flags, 0);
        assert_int_equal(a.correlation_id, 1000 + i);
        assert_int_equal(a.external_id, 2000 + i);
        assert_int_equal(arg_of(t, a.row, "n").i, i);
        assert_int_equal(arg_of(t, a.row, "late").i, -i);
        assert_true(arg_of(t, a.row, "d").d == i / 8.0);
        kineto_string got = arg_of(t, a.row, "text").text;
        assert_int_equal(got.size, 100 + i);
        memset(text, 'A' + i % 26, sizeof text);
        assert_memory_equal(got.data, text, got.size);
        assert_true(kineto_trace_parent(t, a.row) == (i ? rows[i - 1] : KINETO_NO_ROW));
    }
    int64_t n = 0; /* leaves: all, in order, below the right range */
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        if (!text_is(row_at(t, row).name, "leaf"))
            continue;
        assert_int_equal(arg_of(t, row, "n").i, n);
        assert_int_equal(kineto_trace_parent(t, row), rows[n / (LEAVES / DEPTH)]);
        n++;
    }
    assert_int_equal(n, LEAVES);
    kineto_trace_release(t);
}

/* However much is open, and however large the copies of it are, the largest record finds its place
 * in a fresh chunk. */
static void a_large_record_fits_below_any_open_ranges(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(list, KINETO_KIND_CPU_OP, "list", {"list", KINETO_ARG_INTS});
    static int64_t numbers[1000];
    kineto_ints large = {numbers, 1000};
    kineto_range r[LIMIT];
    kineto_session *s = session_of(KINETO_KINDS_ALL, 64u << 20, KINETO_RETAIN_OLDEST);
    uint64_t rows = 0;
    for (int depth = 1; depth <= LIMIT - 1; depth += 3)
        for (size_t words = 1; words < 12; words += 2) {
            kineto_ints small = {numbers, words};
            kineto_value v = {.ints = &small}, big = {.ints = &large};
            for (int i = 0; i < depth; i++)
                r[i] = kineto_range_begin_args(&list, &v);
            kineto_range_end(kineto_range_begin_args(&list, &big));
            kineto_range_end(r[0]);
            rows += (uint64_t)depth + 1;
        }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "list"), rows);
    kineto_trace_release(t);
}

static void ends_of_every_depth_find_room_in_a_full_buffer(void **state)
{
    (void)state;
    kineto_range r[LIMIT];
    kineto_session *s = session_of(KINETO_KINDS_ALL, 65536, KINETO_RETAIN_OLDEST);
    uint64_t calls = 0, opened = 0;
    for (int i = 0; i < LIMIT; i++) /* the deeper, the more leaves: full at about half */
        for (int k = 0; k < i; k++, calls++) {
            kineto_range leaf = kineto_range_begin(&site_plain);
            opened += leaf != 0;
            kineto_range_end(leaf);
            if (k == 0) {
                r[i] = open_level(i);
                opened += r[i] != 0;
                calls++;
            }
        }
    for (int i = LIMIT; i > 1; i--)
        kineto_range_end(r[i - 1]);
    kineto_trace *t = finish(s);
    verify(t);
    assert_true(opened < calls);
    assert_int_equal(kineto_trace_count(t), opened);
    assert_int_equal(ledger(t, "program", "buffer full"), calls - opened);
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        assert_int_equal(row_at(t, row).flags & KINETO_ACTIVITY_OPEN_END, 0);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(depth_256_is_recorded_whole),
        cmocka_unit_test(deeper_ranges_are_counted_and_the_rest_is_intact),
        cmocka_unit_test(open_ranges_survive_many_chunks),
        cmocka_unit_test(a_large_record_fits_below_any_open_ranges),
        cmocka_unit_test(ends_of_every_depth_find_room_in_a_full_buffer),
        cmocka_unit_test(headers_that_others_change_move_nothing), /* last: it leaves damage */
    };
    return RUN_TESTS(tests);
}
