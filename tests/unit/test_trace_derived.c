/* Order, lanes, nesting, links, flows and projection: by hand and against simple, slow versions. */
#include "trace/trace.h"

#include "building.h"

#include <pthread.h>

static uint32_t thread(kt_builder *b, int64_t tid)
{
    return kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, tid);
}

static uint32_t stream(kt_builder *b, int64_t id)
{
    return kt_track(b, kt_process(b, true, 0, 0), KINETO_TRACK_STREAM, id);
}

static kineto_row slice(kt_builder *b, uint32_t track, int64_t start, int64_t end)
{
    return kt_append(b, &(kt_row){.start_ns = start, .end_ns = end, .track = track});
}

/* ---- order and lanes ------------------------------------------------------------------------- */

static bool before(const kineto_activity *a, const kineto_activity *b)
{
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns;
    return a->row < b->row;
}

static kineto_activity get(const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(t, row, &a);
    return a;
}

static void equal_starts_come_longer_first(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    slice(b, track, 5, 6);
    slice(b, track, 5, 9);
    slice(b, track, 1, 20);
    slice(b, track, 5, 9);
    kineto_trace *t = finish(b);
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    const kineto_row wanted[] = {2, 1, 3, 0};
    assert_memory_equal(rows, wanted, sizeof wanted);
    assert_memory_equal(kineto_trace_time_order(t), wanted, sizeof wanted);
    assert_int_equal(kineto_trace_parent(t, 0), 3);
    assert_int_equal(kineto_trace_parent(t, 3), 1);
    assert_int_equal(kineto_trace_self_ns(t, 2), 15);
    assert_null(kineto_trace_track_rows(t, 1));
    kineto_trace_release(t);
}

/* A clock of coarse steps gives ranges of recorders the same times; they are put down when they
 * end. */
static void what_a_writer_put_down_later_encloses_what_takes_as_long(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    const struct {
        int64_t start, end;
        uint32_t writer;
    } in[] = {{5, 9, 1}, {5, 9, 1}, {5, 9, 2}, {5, 9, 2},
              {5, 9, 0}, {3, 3, 1}, {3, 3, 1}, {5, 6, 1}};
    for (size_t i = 0; i < KB_COUNT(in); i++)
        kt_append(b, &(kt_row){.start_ns = in[i].start,
                               .end_ns = in[i].end,
                               .track = track,
                               .flags = KT_WRITER(in[i].writer)});
    kineto_trace *t = finish(b);
    const kineto_row wanted[] = {5, 6, 1, 0, 3, 2, 4, 7};
    assert_memory_equal(kineto_trace_track_rows(t, track), wanted, sizeof wanted);
    assert_memory_equal(kineto_trace_time_order(t), wanted, sizeof wanted);
    assert_int_equal(kineto_trace_parent(t, 0), 1);
    assert_int_equal(kineto_trace_parent(t, 3), 0);
    assert_int_equal(get(t, 0).flags, 0);
    kineto_trace_release(t);
}

/* A moment at the end of a range is inside if it was put down before that end. */
static void a_moment_before_the_end_is_inside(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kt_row moment = {.start_ns = 9, .end_ns = 9, .track = track, .flags = KT_WRITER(1)};
    moment.form = KINETO_FORM_INSTANT;
    kt_append(b, &moment);
    kt_append(b, &(kt_row){.start_ns = 5, .end_ns = 9, .track = track, .flags = KT_WRITER(1)});
    kt_append(b, &moment);
    moment.flags = 0;
    kt_append(b, &moment);
    kineto_trace *t = finish(b);
    assert_int_equal(kineto_trace_parent(t, 0), 1);
    assert_int_equal(kineto_trace_parent(t, 2), KINETO_NO_ROW);
    assert_int_equal(kineto_trace_parent(t, 3), KINETO_NO_ROW);
    kineto_trace_release(t);
}

/* What takes as long, among short runs, enough of them for the track to be sorted. */
static void writers_are_minded_where_a_track_is_sorted(void **state)
{
    (void)state;
    enum { PAIRS = 20000 };
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    for (int64_t i = PAIRS; i > 0; i--)
        for (int twice = 0; twice < 2; twice++)
            kt_append(b, &(kt_row){.start_ns = 10 * i,
                                   .end_ns = 10 * i + 5,
                                   .track = track,
                                   .flags = KT_WRITER(1)});
    kineto_trace *t = finish(b);
    for (kineto_row row = 0; row < 2 * PAIRS; row++)
        assert_int_equal(kineto_trace_parent(t, row), row % 2 ? KINETO_NO_ROW : row + 1);
    kineto_trace_release(t);
}

static void partial_overlap_opens_a_lane(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = stream(b, 7);
    slice(b, track, 0, 10);  /* lane 0 */
    slice(b, track, 5, 15);  /* lane 1 */
    slice(b, track, 6, 9);   /* nests in lane 0 */
    slice(b, track, 8, 12);  /* not in lane 0 (6..9), nests in lane 1 */
    slice(b, track, 11, 20); /* lane 0 again: disjoint */
    slice(b, track, 15, 16); /* inside the last */
    kt_append(b,
              &(kt_row){.start_ns = 8, .end_ns = 8, .track = track, .form = KINETO_FORM_INSTANT});
    kineto_trace *t = finish(b);
    const uint32_t lanes[] = {0, 1, 0, 1, 0, 0, 0};
    for (kineto_row row = 0; row < 7; row++)
        assert_int_equal(kineto_trace_lane(t, row), lanes[row]);
    kineto_track k;
    kineto_trace_track(t, track, &k);
    assert_int_equal(k.lane_count, 2);
    assert_int_equal(k.count, 7);
    assert_int_equal(kineto_trace_parent(t, 3), 1);
    assert_int_equal(kineto_trace_parent(t, 5), 4);
    assert_int_equal(kineto_trace_parent(t, 6), 3);
    assert_true(kineto_trace_parent(t, 1) == KINETO_NO_ROW);
    assert_int_equal(kineto_trace_parent(t, 2), 1); /* also in 0..10, which began before */
    /* What runs on a queue at the same time takes no time from each other. */
    assert_int_equal(kineto_trace_self_ns(t, 0), 10);
    assert_int_equal(kineto_trace_self_ns(t, 1), 10 - 6);
    kineto_trace_release(t);
}

/* The lanes as their definition says, slowly: the first lane in which no running row is cut. */
static void check_lanes(const kineto_trace *t, uint32_t track)
{
    kineto_track k;
    kineto_trace_track(t, track, &k);
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    for (uint64_t i = 0; i < k.count; i++) {
        kineto_activity a = get(t, rows[i]);
        if (i > 0) {
            kineto_activity last = get(t, rows[i - 1]);
            assert_true(before(&last, &a));
        }
        uint32_t lane = 0;
        for (bool fits = false; !fits; lane += !fits) {
            fits = true;
            for (uint64_t j = 0; j < i && fits; j++) {
                kineto_activity o = get(t, rows[j]);
                if (kineto_trace_lane(t, rows[j]) == lane)
                    fits = o.end_ns <= a.start_ns || o.end_ns >= a.end_ns;
            }
        }
        assert_int_equal(kineto_trace_lane(t, rows[i]), lane);
        assert_true(lane < k.lane_count);
    }
}

/* Add a moment to the rows that own it: of a thread the one that began last of those that are open, of a
 * queue all that are open and are no ancestor of another one that is. */
static void own_moment(const kineto_trace *t, const kineto_row *rows, uint64_t count, int64_t ns,
                       bool is_queue, int64_t *own)
{
    bool is_ancestor[512] = {false};
    kineto_row last = KINETO_NO_ROW;
    for (uint64_t j = count; j-- > 0;) {
        kineto_activity o = get(t, rows[j]);
        if (o.start_ns > ns || o.end_ns <= ns)
            continue;
        own[rows[j]] += is_queue ? !is_ancestor[rows[j]] : last == KINETO_NO_ROW;
        last = rows[j];
        for (kineto_row p = kineto_trace_parent(t, last); p != KINETO_NO_ROW; p = kineto_trace_parent(t, p))
            is_ancestor[p] = true;
    }
}

static kineto_row innermost_around(const kineto_trace *t, const kineto_row *rows, uint64_t i)
{
    kineto_row around = KINETO_NO_ROW;
    kineto_activity a = get(t, rows[i]);
    for (uint64_t j = 0; j < i; j++) {
        kineto_activity o = get(t, rows[j]);
        if (o.end_ns > a.start_ns && o.end_ns >= a.end_ns)
            around = rows[j];
    }
    return around;
}

/* Containment and own times as their definition says, slowly: moment by moment. */
static void check_nesting(const kineto_trace *t, uint32_t track)
{
    kineto_track k;
    int64_t own[512] = {0};
    kineto_trace_track(t, track, &k);
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    for (int64_t ns = 0; ns < 400; ns++)
        own_moment(t, rows, k.count, ns, k.type == KINETO_TRACK_STREAM, own);
    for (uint64_t i = 0; i < k.count; i++) {
        assert_true(kineto_trace_parent(t, rows[i]) == innermost_around(t, rows, i));
        assert_int_equal(kineto_trace_self_ns(t, rows[i]), own[rows[i]]);
    }
}

static void random_tracks_match_the_definition(void **state)
{
    (void)state;
    uint64_t random = 42;
    for (int round = 0; round < 60; round++) {
        kt_builder *b = builder();
        uint32_t tracks[3] = {thread(b, 1), thread(b, 2), stream(b, 1)};
        uint64_t span = 1 + next_random(&random) % 300, length = 1 + next_random(&random) % 60;
        for (int i = 0; i < 150; i++) {
            int64_t start = (int64_t)(next_random(&random) % span);
            int64_t end = start + (int64_t)(next_random(&random) % length);
            slice(b, tracks[next_random(&random) % 3], start, end);
        }
        kineto_trace *t = finish(b);
        for (uint32_t i = 0; i < 3; i++) {
            check_lanes(t, tracks[i]);
            check_nesting(t, tracks[i]);
        }
        kineto_trace_release(t);
    }
}

static void ten_thousand_lanes_are_no_trouble(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = stream(b, 1);
    const int64_t count = 10000;
    for (int64_t i = 0; i < 2 * count; i++) /* a staircase, twice */
        slice(b, track, i, i + count);
    kineto_trace *t = finish(b);
    kineto_track k;
    kineto_trace_track(t, track, &k);
    assert_int_equal(k.lane_count, count);
    assert_int_equal(kineto_trace_lane(t, (kineto_row)count - 1), count - 1);
    assert_int_equal(kineto_trace_lane(t, (kineto_row)count), 0);
    assert_true(kineto_trace_parent(t, 1) == KINETO_NO_ROW);
    kineto_trace_release(t);
}

static void extreme_times_do_not_confuse_lanes(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = stream(b, 1);
    slice(b, track, INT64_MIN, INT64_MAX);
    slice(b, track, INT64_MAX, INT64_MAX);
    slice(b, track, -5, INT64_MAX);
    slice(b, track, INT64_MIN, 0);
    slice(b, track, -10, 10);
    kineto_trace *t = finish(b);
    kineto_track k;
    kineto_trace_track(t, track, &k);
    assert_int_equal(k.lane_count, 3);
    assert_int_equal(kineto_trace_lane(t, 2), 2);
    assert_int_equal(kineto_trace_parent(t, 3), 0);
    kineto_trace_release(t);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static int compare_activities(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a);
}

enum { RUN_TRACKS = 4, RUN_ROWS = FEWER(20000, 4000) };

/* Of each track runs of another length: times only grow, with ties, until a run is over. */
static kineto_trace *make_runs(uint64_t seed)
{
    static const uint64_t longest[RUN_TRACKS] = {2, 40, 700, UINT32_MAX};
    kt_builder *b = builder();
    uint32_t tracks[RUN_TRACKS];
    int64_t now[RUN_TRACKS] = {0}, length = 10;
    for (uint32_t i = 0; i < RUN_TRACKS; i++)
        tracks[i] = thread(b, i + 1);
    for (uint64_t row = 0; row < RUN_ROWS; row++) {
        uint64_t i = next_random(&seed) % RUN_TRACKS;
        if (next_random(&seed) % longest[i] == 0)
            now[i] = (int64_t)(next_random(&seed) % RUN_ROWS);
        bool tie = next_random(&seed) % 4 == 0;
        now[i] += tie ? 0 : (int64_t)(next_random(&seed) % 9);
        length = tie ? length : (int64_t)(next_random(&seed) % 50);
        slice(b, tracks[i], now[i], now[i] + length);
    }
    return finish(b);
}

static void rows_that_come_in_runs_are_put_in_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        kineto_trace *t = make_runs(seed);
        kineto_activity *all = calloc(RUN_ROWS, sizeof *all);
        assert_non_null(all);
        for (kineto_row row = 0; row < RUN_ROWS; row++)
            all[row] = get(t, row);
        qsort(all, RUN_ROWS, sizeof *all, compare_activities);
        const kineto_row *order = kineto_trace_time_order(t);
        uint64_t seen[RUN_TRACKS] = {0};
        for (size_t i = 0; i < RUN_ROWS; i++) {
            assert_int_equal(order[i], all[i].row);
            uint32_t track = all[i].track;
            assert_int_equal(kineto_trace_track_rows(t, track)[seen[track]++], all[i].row);
        }
        free(all);
        kineto_trace_release(t);
    }
}

/* ---- readers at once ------------------------------------------------------------------------- */

static void *read_derived(void *context)
{
    const kineto_trace *t = context;
    uint64_t sum = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        sum += kineto_trace_parent(t, row) ^ kineto_trace_lane(t, row);
        sum += (uint64_t)kineto_trace_self_ns(t, row) + kineto_trace_launch(t, row);
        sum += kineto_trace_time_order(t)[row];
    }
    return (void *)(uintptr_t)sum;
}

static void many_threads_see_the_same(void **state)
{
    (void)state;
    uint64_t random = 1;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    for (int i = 0; i < 5000; i++) {
        int64_t start = (int64_t)(next_random(&random) % 1000);
        slice(b, track, start, start + (int64_t)(next_random(&random) % 100));
    }
    kineto_trace *t = finish(b);
    pthread_t threads[4];
    void *sums[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_derived, t), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], &sums[i]);
    for (int i = 1; i < 4; i++)
        assert_ptr_equal(sums[i], sums[0]);
    kineto_trace_release(t);
}

/* ---- links, flows ---------------------------------------------------------------------------- */

static kineto_row call(kt_builder *b, uint32_t track, int64_t at, uint64_t id)
{
    return kt_append(b, &(kt_row){.start_ns = at,
                                  .end_ns = at + 5,
                                  .track = track,
                                  .kind = KINETO_KIND_RUNTIME,
                                  .correlation_id = id});
}

static kineto_row kernel(kt_builder *b, uint32_t track, int64_t at, uint64_t id)
{
    return kt_append(b, &(kt_row){.start_ns = at,
                                  .end_ns = at + 10,
                                  .track = track,
                                  .kind = KINETO_KIND_CONCURRENT_KERNEL,
                                  .correlation_id = id});
}

static void launches_are_found_both_ways(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t host = thread(b, 1), device = stream(b, 1);
    kineto_row late = kernel(b, device, 50, 9);
    kineto_row early = kernel(b, device, 30, 9);
    kineto_row launch = call(b, host, 20, 9);
    kineto_row again = call(b, host, 100, 9); /* the id is used again */
    kineto_row second = kernel(b, device, 120, 9);
    kineto_row lonely = kernel(b, device, 200, 10);
    kineto_row before_launch = kernel(b, device, 90, 11);
    kineto_row skewed = call(b, host, 95, 11);
    kineto_row plain = kernel(b, device, 300, 0);
    kineto_trace *t = finish(b);
    assert_int_equal(kineto_trace_launch(t, late), launch);
    assert_int_equal(kineto_trace_launch(t, early), launch);
    assert_int_equal(kineto_trace_launch(t, second), again);
    assert_int_equal(kineto_trace_launched(t, launch), early);
    assert_int_equal(kineto_trace_launched(t, again), second);
    assert_int_equal(kineto_trace_launch(t, before_launch), skewed);
    assert_true(kineto_trace_launch(t, lonely) == KINETO_NO_ROW);
    assert_true(kineto_trace_launch(t, plain) == KINETO_NO_ROW);
    assert_true(kineto_trace_launched(t, lonely) == KINETO_NO_ROW);
    assert_true(kineto_trace_launch(t, 12345) == KINETO_NO_ROW);
    kineto_trace_release(t);
}

static void expect_flows(kineto_trace *t, const kineto_flow *wanted, uint64_t count)
{
    assert_int_equal(kineto_trace_flow_count(t), count);
    for (uint64_t i = 0; i < count; i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        assert_int_equal(f.type, wanted[i].type);
        assert_int_equal(f.id, wanted[i].id);
        assert_int_equal(f.from, wanted[i].from);
        assert_int_equal(f.to, wanted[i].to);
    }
    kineto_trace_release(t);
}

static void flows_join_by_type_and_id(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kineto_row rows[8];
    for (int i = 0; i < 8; i++)
        rows[i] = slice(b, track, 10 * i, 10 * i + 5);
    kt_flow(b, 2, 1, rows[3], false); /* stated before its start */
    kt_flow(b, 2, 1, rows[0], true);
    kt_flow(b, 2, 1, rows[4], false); /* a second finish */
    kt_flow(b, 1, 1, rows[1], true);  /* same id, other type: nothing follows */
    kt_flow(b, 3, 7, rows[2], false); /* never started */
    kt_flow(b, 2, 1, rows[5], true);  /* the id is used again */
    kt_flow(b, 2, 1, rows[6], false);
    kt_flow(b, 2, 1, 999, true); /* no such row */
    kineto_trace *t = finish(b);
    static const kineto_flow wanted[] = {{1, 1, 1, KINETO_NO_ROW},
                                         {2, 1, 0, 3},
                                         {2, 1, 0, 4},
                                         {2, 1, 5, 6},
                                         {3, 7, KINETO_NO_ROW, 2}};
    expect_flows(t, wanted, KB_COUNT(wanted));
}

static void flows_pass_through_rows(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    kineto_row rows[6];
    for (int i = 0; i < 6; i++)
        rows[i] = slice(b, track, 10 * i, 10 * i + 5);
    kineto_row same = slice(b, thread(b, 2), 10, 12);
    kt_flow(b, 3, 1, rows[0], true);
    kt_flow(b, 3, 1, rows[1], false); /* it ends and starts again: a step */
    kt_flow(b, 3, 1, rows[1], true);
    kt_flow(b, 3, 1, same, false); /* at the same time another, of which the step starts */
    kt_flow(b, 3, 1, rows[2], false);
    kt_flow(b, 3, 2, rows[3], false); /* a step alone */
    kt_flow(b, 3, 2, rows[3], true);
    kt_flow(b, 3, 3, rows[4], true); /* an arrow to where it starts */
    kt_flow(b, 3, 3, rows[4], false);
    kt_flow(b, 3, 4, rows[4], false); /* a step before its start, by a clock that is not exact */
    kt_flow(b, 3, 4, rows[4], true);
    kt_flow(b, 3, 4, rows[5], true);
    static const kineto_flow wanted[] = {{3, 1, 0, 1},
                                         {3, 1, 1, 6},
                                         {3, 1, 1, 2},
                                         {3, 2, KINETO_NO_ROW, 3},
                                         {3, 2, 3, KINETO_NO_ROW},
                                         {3, 3, 4, 4},
                                         {3, 4, 5, 4},
                                         {3, 4, 4, KINETO_NO_ROW}};
    expect_flows(finish(b), wanted, KB_COUNT(wanted));
}

/* ---- projection ------------------------------------------------------------------------------ */

static kineto_row note(kt_builder *b, uint32_t track, const char *name, int64_t start, int64_t end)
{
    return kt_append(b, &(kt_row){.start_ns = start,
                                  .end_ns = end,
                                  .track = track,
                                  .name = kt_string(b, kb_string(name)),
                                  .external_id = (uint64_t)start + 1,
                                  .kind = KINETO_KIND_USER_ANNOTATION});
}

static void annotations_cover_what_they_launched(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t host = thread(b, 1), other = thread(b, 2);
    uint32_t one = stream(b, 1), two = stream(b, 2);
    note(b, host, "outer", 0, 100);
    note(b, host, "inner", 10, 50);
    note(b, host, "idle", 60, 70);
    note(b, other, "elsewhere", 0, 1000);
    call(b, host, 12, 1);
    call(b, host, 20, 2);
    call(b, host, 80, 3);
    call(b, host, 300, 4);
    kernel(b, one, 200, 1);
    kernel(b, two, 205, 2);
    kernel(b, one, 250, 3);
    kernel(b, one, 400, 4);
    uint64_t rows = 12;
    kt_project_user_annotations(b);
    kineto_trace *t = finish(b);
    static const struct {
        const char *name;
        uint32_t stream;
        int64_t start, end;
    } wanted[] = {{"outer", 2, 205, 215},
                  {"outer", 1, 200, 260},
                  {"inner", 2, 205, 215},
                  {"inner", 1, 200, 210}};
    assert_int_equal(kineto_trace_count(t), rows + KB_COUNT(wanted));
    for (size_t i = 0; i < KB_COUNT(wanted); i++) {
        bool found = false;
        for (kineto_row row = rows; row < kineto_trace_count(t); row++) {
            kineto_activity a = get(t, row);
            found |= kb_string_equal(a.name, kb_string(wanted[i].name)) &&
                     a.track == (wanted[i].stream == 1 ? one : two) &&
                     a.start_ns == wanted[i].start && a.end_ns == wanted[i].end &&
                     a.kind == KINETO_KIND_GPU_USER_ANNOTATION;
        }
        if (!found)
            fail_msg("%s on stream %u is missing", wanted[i].name, wanted[i].stream);
    }
    kineto_track k;
    kineto_trace_track(t, one, &k);
    assert_int_equal(k.lane_count, 1); /* outer > inner > kernels */
    kineto_trace_release(t);
}

/* Every (annotation, stream) against a search through all launches. */
static void random_projections_match_a_search(void **state)
{
    (void)state;
    uint64_t random = 7;
    for (int round = 0; round < 20; round++) {
        kt_builder *b = builder();
        uint32_t host = thread(b, 1), streams[2] = {stream(b, 1), stream(b, 2)};
        kineto_row notes[40], calls[60], kernels[60];
        int note_count = 0;
        for (int64_t at = 0; at < 400; at += 100) /* nested, three deep */
            for (int depth = 0; depth < 3; depth++)
                notes[note_count++] = note(b, host, "n", at + 10 * depth, at + 95 - 10 * depth);
        for (uint64_t i = 0; i < 60; i++) {
            calls[i] = call(b, host, (int64_t)(next_random(&random) % 400), i + 1);
            kernels[i] = kernel(b, streams[next_random(&random) % 2],
                                500 + (int64_t)(next_random(&random) % 1000), i + 1);
        }
        kineto_row first = kernels[59] + 1;
        kt_project_user_annotations(b);
        kineto_trace *t = finish(b);
        uint64_t expected = 0;
        for (int n = 0; n < note_count; n++)
            for (int s = 0; s < 2; s++) {
                kineto_activity a = get(t, notes[n]);
                int64_t start = INT64_MAX, end = INT64_MIN;
                for (int i = 0; i < 60; i++) {
                    kineto_activity c = get(t, calls[i]), k = get(t, kernels[i]);
                    if (k.track != streams[s] || c.start_ns < a.start_ns || c.start_ns >= a.end_ns)
                        continue;
                    start = KB_MIN(start, k.start_ns);
                    end = KB_MAX(end, k.end_ns);
                }
                if (start == INT64_MAX)
                    continue;
                expected++;
                bool found = false;
                for (kineto_row row = first; row < kineto_trace_count(t); row++) {
                    kineto_activity p = get(t, row);
                    found |= p.track == streams[s] && p.start_ns == start && p.end_ns == end &&
                             p.external_id == a.external_id;
                }
                assert_true(found);
            }
        assert_int_equal(kineto_trace_count(t), first + expected);
        kineto_trace_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_starts_come_longer_first),
        cmocka_unit_test(what_a_writer_put_down_later_encloses_what_takes_as_long),
        cmocka_unit_test(a_moment_before_the_end_is_inside),
        cmocka_unit_test(writers_are_minded_where_a_track_is_sorted),
        cmocka_unit_test(partial_overlap_opens_a_lane),
        cmocka_unit_test(random_tracks_match_the_definition),
        cmocka_unit_test(ten_thousand_lanes_are_no_trouble),
        cmocka_unit_test(extreme_times_do_not_confuse_lanes),
        cmocka_unit_test(rows_that_come_in_runs_are_put_in_order),
        cmocka_unit_test(many_threads_see_the_same),
        cmocka_unit_test(launches_are_found_both_ways),
        cmocka_unit_test(flows_join_by_type_and_id),
        cmocka_unit_test(flows_pass_through_rows),
        cmocka_unit_test(annotations_cover_what_they_launched),
        cmocka_unit_test(random_projections_match_a_search),
    };
    return RUN_TESTS(tests);
}
