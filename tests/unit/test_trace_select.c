/* Selections: what is kept of rows, flows, tracks and tables, and that nothing else changes. */
#include "trace/transform/copy.h"
#include "trace/transform/select.h"

#include "building.h"

#define BASE INT64_C(1700000000000000000)
#define STEP INT64_C(1000)

static kineto_row add(kt_builder *b, uint32_t track, uint32_t kind, const char *name, int64_t start,
                      int64_t length, uint64_t correlation)
{
    kt_row row = {.start_ns = BASE + start,
                  .end_ns = BASE + start + length,
                  .name = kt_string(b, kb_string(name)),
                  .track = track,
                  .kind = kind,
                  .correlation_id = correlation};
    return kt_append(b, &row);
}

/* Three steps of 1000 ns: a step has an operator with a launch in it, and a kernel that runs half a
 * step later, so that the last part of it is in the next step's time. */
static kineto_trace *training(void)
{
    kt_builder *b;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t host = kt_process(b, false, 100, 0), device = kt_process(b, true, 0, 0);
    uint32_t unused = kt_process(b, true, 1, 0);
    kineto_process p = {.rank = 3, .name = kb_string("python"), .host = kb_string("node7")};
    kineto_process d = {.rank = -1, .properties_json = kb_string("{\"name\":\"X\"}")};
    kt_process_set(b, host, &p);
    kt_process_set(b, device, &d);
    kt_process_set(b, unused, &d);
    uint32_t thread = kt_track(b, host, KINETO_TRACK_THREAD, 7);
    uint32_t stream = kt_track(b, device, KINETO_TRACK_STREAM, 13);
    uint32_t counter = kt_track(b, host, KINETO_TRACK_COUNTER, 0);
    uint32_t async = kt_track(b, host, KINETO_TRACK_ASYNC, 0);
    kt_track_set(b, thread, kb_string("main thread"), 0);
    for (int64_t n = 1; n <= 3; n++) {
        char name[32];
        int64_t at = (n - 1) * STEP;
        snprintf(name, sizeof name, "ProfilerStep#%d", (int)n);
        add(b, thread, KINETO_KIND_USER_ANNOTATION, name, at, STEP, 0);
        kt_args_put_string(b, kt_string(b, kb_string("note")), kb_string("of step"));
        add(b, thread, KINETO_KIND_CPU_OP, "aten::mm", at + 100, 300, 0);
        kineto_row launch =
            add(b, thread, KINETO_KIND_RUNTIME, "cudaLaunchKernel", at + 200, 50, (uint64_t)n);
        kt_args_verbatim(b, kb_string("{\"grid\":[1,2,3],\"device\":0}"));
        kineto_row kernel =
            add(b, stream, KINETO_KIND_CONCURRENT_KERNEL, "gemm", at + 600, 500, (uint64_t)n);
        kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, (uint64_t)n, launch, true);
        kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, (uint64_t)n, kernel, false);
        add(b, stream, KINETO_KIND_GPU_USER_ANNOTATION, name, at + 600, 500, 0);
        add(b, stream, KINETO_KIND_GPU_USER_ANNOTATION, "phase", at + 600, 500, 0);
    }
    kt_row sample = {.start_ns = BASE + 1500,
                     .end_ns = BASE + 1500,
                     .track = counter,
                     .kind = KINETO_KIND_COUNTER,
                     .form = KINETO_FORM_COUNTER,
                     .name = kt_string(b, kb_string("queue"))};
    kt_args_put_int(b, kt_string(b, kb_string("length")), 4);
    kt_append(b, &sample);
    kt_row wait = {.start_ns = BASE + 50,
                   .end_ns = BASE + 2500,
                   .track = async,
                   .async_id = 77,
                   .kind = KINETO_KIND_USER_ANNOTATION,
                   .form = KINETO_FORM_ASYNC,
                   .name = kt_string(b, kb_string("wait"))};
    kt_append(b, &wait);
    kt_metadata(b, kb_string("world"), kb_string("{\"a\":1}"));
    kt_ledger_add(b, kb_string("program"), kb_string("buffer full"), 5, true, kb_string("d"));
    kt_own_kind(b, kb_string("npu_op"), KINETO_KIND_CPU_OP);
    kt_snapshot(b, &(kb_clock_snapshot){.ticks = 1, .realtime_ns = BASE});
    kt_window(b, BASE, BASE + 3 * STEP + 100);
    return finish(b);
}

static kineto_trace *select_from(const kineto_trace *t, kineto_selection how)
{
    kineto_trace *out;
    kineto_error err = {.message = ""};
    how.size = sizeof how;
    if (kineto_trace_select(t, &how, &out, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return out;
}

static uint64_t count_kind(const kineto_trace *t, uint32_t kind)
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        count += a.kind == kind;
    }
    return count;
}

static bool has_row(const kineto_trace *t, const char *name, int64_t start)
{
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        if (kb_string_equal(a.name, kb_string(name)) && a.start_ns == BASE + start)
            return true;
    }
    return false;
}

static void save(const kineto_trace *t, const char *path)
{
    kineto_error err = {.message = ""};
    if (kineto_trace_save(t, path, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

/* Every flow joins rows that are there, and every kernel its own launch. */
static void assert_consistent(const kineto_trace *t)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow f;
        kineto_activity from, to;
        kineto_trace_flow(t, i, &f);
        assert_true(f.from < kineto_trace_count(t) && f.to < kineto_trace_count(t));
        kineto_trace_get(t, f.from, &from);
        kineto_trace_get(t, f.to, &to);
        assert_true(from.correlation_id == to.correlation_id);
        assert_int_equal(kineto_trace_launch(t, f.to), f.from);
    }
    uint64_t rows = 0;
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_track k;
        kineto_trace_track(t, i, &k);
        assert_true(k.process < kineto_trace_process_count(t));
        rows += k.count;
    }
    assert_int_equal(rows, kineto_trace_count(t));
}

static void selecting_nothing_in_particular_gives_the_trace_itself(void **state)
{
    (void)state;
    kineto_trace *t = training(), *same = select_from(t, (kineto_selection){0});
    assert_ptr_equal(same, t);
    kineto_trace_release(same);
    kineto_trace_release(t);
}

static void a_copy_of_all_rows_is_written_byte_for_byte_the_same(void **state)
{
    (void)state;
    static char one[1 << 16], two[1 << 16];
    char directory[128], path[160];
    kineto_trace *t = training(), *copy;
    kt_builder *b;
    kt_copy c;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    assert_true(kt_copy_begin(&c, b, t));
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++)
        kt_copy_process(&c, i);
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        assert_int_equal(kt_copy_row(&c, row), row);
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        kt_copy_flow(&c, i, &f, f.from, f.to);
    }
    kt_copy_own_kinds(&c);
    kt_copy_snapshots(&c);
    kt_copy_metadata(&c);
    kt_copy_ledger(&c);
    kt_copy_window(&c);
    kt_copy_free(&c);
    copy = finish(b);
    assert_consistent(copy);
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/t.json", directory);
    save(t, path);
    size_t size = read_whole(path, one, sizeof one);
    save(copy, path);
    assert_int_equal(read_whole(path, two, sizeof two), size);
    assert_memory_equal(one, two, size);
    unlink(path);
    rmdir(directory);
    kineto_trace_release(copy);
    kineto_trace_release(t);
}

static void processes_that_look_alike_stay_apart(void **state)
{
    (void)state;
    kt_builder *b;
    kt_copy c;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    for (uint64_t exec = 0; exec < 200; exec++)
        add(b, kt_track(b, kt_process(b, false, 9, exec), KINETO_TRACK_THREAD, 1), 0, "x",
            (int64_t)exec, 1, 0);
    kineto_trace *t = finish(b);
    for (uint32_t i = 0; i < 200; i++)
        t->processes.data[i].exec = 0; /* as a reader of files has them */
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    assert_true(kt_copy_begin(&c, b, t));
    for (kineto_row row = 0; row < 200; row++)
        kt_copy_row(&c, row);
    kt_copy_free(&c);
    kineto_trace *copy = finish(b);
    assert_int_equal(kineto_trace_process_count(copy), 200);
    assert_int_equal(kineto_trace_track_count(copy), 200);
    kineto_trace_release(copy);
    kineto_trace_release(t);
}

static void copies_of_two_sources_share_nothing(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kt_builder *b;
    kt_copy c;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    for (uint64_t n = 0; n < 2; n++) {
        assert_true(kt_copy_begin(&c, b, t));
        c.first_process = (uint32_t)b->trace->processes.count;
        c.first_id = 1000 * n;
        for (kineto_row row = 0; row < kineto_trace_count(t); row++)
            kt_copy_row(&c, row);
        kt_copy_free(&c);
    }
    kineto_trace *both = finish(b);
    kineto_activity a;
    assert_int_equal(kineto_trace_count(both), 2 * kineto_trace_count(t));
    assert_int_equal(kineto_trace_track_count(both), 2 * kineto_trace_track_count(t));
    kineto_trace_get(both, (kineto_row)kineto_trace_count(t) + 3, &a);
    assert_int_equal(a.correlation_id, 1001);
    kineto_trace_release(both);
    kineto_trace_release(t);
}

static void time_keeps_what_touches_it(void **state)
{
    (void)state;
    static const struct {
        int64_t from, to;
        bool step1, kernel1, op2, counter;
    } rows[] = {
        {0, 1, true, false, false, false},        {999, 1000, true, true, false, false},
        {1000, 1001, false, true, false, false},  {1099, 1100, false, true, false, false},
        {1100, 1101, false, false, true, false},  {1399, 1500, false, false, true, false},
        {1400, 1501, false, false, false, true},  {1500, 1501, false, false, false, true},
        {1501, 1600, false, false, false, false},
    };
    kineto_trace *t = training();
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        kineto_trace *part = select_from(t, (kineto_selection){.use = KINETO_SELECT_TIME,
                                                               .start_ns = BASE + rows[i].from,
                                                               .end_ns = BASE + rows[i].to});
        int64_t start, end;
        kineto_trace_window(part, &start, &end);
        assert_int_equal(start, BASE + rows[i].from);
        assert_int_equal(end, BASE + rows[i].to);
        assert_int_equal(has_row(part, "ProfilerStep#1", 0), rows[i].step1);
        assert_int_equal(has_row(part, "gemm", 600), rows[i].kernel1);
        assert_int_equal(has_row(part, "aten::mm", 1100), rows[i].op2);
        assert_int_equal(has_row(part, "queue", 1500), rows[i].counter);
        assert_consistent(part);
        kineto_trace_release(part);
    }
    kineto_trace_release(t);
}

static void clipped_rows_end_at_the_edges_and_say_so(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_trace *part =
        select_from(t, (kineto_selection){.use = KINETO_SELECT_TIME | KINETO_SELECT_CLIP,
                                          .start_ns = BASE + 150,
                                          .end_ns = BASE + 250});
    kineto_activity a;
    for (kineto_row row = 0; row < kineto_trace_count(part); row++) {
        kineto_trace_get(part, row, &a);
        assert_true(a.start_ns >= BASE + 150 && a.end_ns <= BASE + 250);
        bool launch = a.kind == KINETO_KIND_RUNTIME;
        assert_int_equal(a.flags & KINETO_ACTIVITY_OPEN_START ? 1 : 0, !launch);
        assert_int_equal(a.flags & KINETO_ACTIVITY_OPEN_END ? 1 : 0, !launch);
    }
    kineto_trace_release(part);
    kineto_trace_release(t);
}

/* Also in a file that has what ends first first. */
static void what_is_clipped_stays_inside_of_what_encloses_it(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    add(b, track, KINETO_KIND_CPU_OP, "inner", 10, 10, 0);
    add(b, track, KINETO_KIND_CPU_OP, "outer", 5, 20, 0);
    kineto_trace *t = finish(b);
    kineto_trace *part =
        select_from(t, (kineto_selection){.use = KINETO_SELECT_TIME | KINETO_SELECT_CLIP,
                                          .start_ns = BASE + 12,
                                          .end_ns = BASE + 14});
    kineto_activity a;
    assert_int_equal(kineto_trace_count(part), 2);
    for (kineto_row row = 0; row < 2; row++) {
        kineto_trace_get(part, row, &a);
        bool inner = kb_string_equal(a.name, kb_string("inner"));
        assert_true((kineto_trace_parent(part, row) == KINETO_NO_ROW) == !inner);
    }
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void extremes_of_time_are_times(void **state)
{
    (void)state;
    kt_builder *b;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    kt_append(b, &(kt_row){.start_ns = INT64_MIN, .end_ns = INT64_MAX, .track = track});
    kt_append(b, &(kt_row){.start_ns = INT64_MAX, .end_ns = INT64_MAX, .track = track});
    kt_append(b, &(kt_row){.start_ns = INT64_MIN, .end_ns = INT64_MIN, .track = track});
    kineto_trace *t = finish(b);
    kineto_selection how = {
        .use = KINETO_SELECT_TIME | KINETO_SELECT_CLIP, .start_ns = INT64_MIN, .end_ns = INT64_MAX};
    kineto_trace *part = select_from(t, how);
    assert_int_equal(kineto_trace_count(part), 2);
    kineto_trace_release(part);
    part = select_from(t, (kineto_selection){.top = 1, .use = KINETO_SELECT_PARENTS});
    assert_int_equal(kineto_trace_count(part), 1);
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void steps_keep_device_work_that_they_launched(void **state)
{
    (void)state;
    kineto_trace *t = training();
    uint64_t all = 0;
    for (uint64_t n = 1; n <= 3; n++) {
        int64_t start, end, at = ((int64_t)n - 1) * STEP;
        kineto_trace *part = select_from(
            t, (kineto_selection){.use = KINETO_SELECT_STEPS, .first_step = n, .last_step = n});
        assert_consistent(part);
        assert_true(has_row(part, "gemm", at + 600));
        assert_int_equal(count_kind(part, KINETO_KIND_CONCURRENT_KERNEL), 1);
        assert_int_equal(count_kind(part, KINETO_KIND_RUNTIME), 1);
        assert_int_equal(count_kind(part, KINETO_KIND_GPU_USER_ANNOTATION), 2);
        assert_int_equal(kineto_trace_flow_count(part), 1);
        kineto_trace_window(part, &start, &end);
        assert_int_equal(start, BASE + at + (n > 1 ? 100 : 0)); /* the kernel of the step before ends then */
        assert_int_equal(end, BASE + at + 1100);
        all += kineto_trace_count(part);
        kineto_trace_release(part);
    }
    assert_int_equal(all, kineto_trace_count(t));
    kineto_trace_release(t);
}

static void steps_that_are_not_there_are_named(void **state)
{
    (void)state;
    kineto_trace *t = training(), *out;
    kineto_error err;
    kineto_selection how = {
        .size = sizeof how, .use = KINETO_SELECT_STEPS, .first_step = 9, .last_step = 10};
    assert_int_equal(kineto_trace_select(t, &how, &out, &err), KINETO_E_NOT_FOUND);
    assert_null(out);
    assert_non_null(strstr(err.message, "1..3"));
    kineto_trace_release(t);
}

static void names_of_steps_are_strict(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool is;
    } rows[] = {{"ProfilerStep#0", true},
                {"ProfilerStep # 12", true},
                {"ProfilerStep#", false},
                {"ProfilerStep#1x", false},
                {"ProfilerSteps#1", false},
                {"ProfilerStep", false},
                {"ProfilerStep#18446744073709551616", false}};
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        uint64_t number;
        assert_int_equal(kt_step_number(kb_string(rows[i].name), &number), rows[i].is);
    }
}

static void flows_need_both_ends(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_selection how = {.kinds = KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL)};
    kineto_trace *part = select_from(t, how);
    assert_int_equal(kineto_trace_count(part), 3);
    assert_int_equal(kineto_trace_flow_count(part), 0);
    kineto_ledger_line line;
    kineto_trace_ledger(part, kineto_trace_ledger_count(part) - 1, &line);
    assert_true(kb_string_equal(line.reason, kb_string("flows left out by selection")));
    assert_int_equal(line.count, 3);
    assert_false(line.is_loss);
    assert_int_equal(kineto_trace_lost(part), kineto_trace_lost(t));
    kineto_trace_release(part);
    how.use = KINETO_SELECT_LAUNCHES;
    part = select_from(t, how);
    assert_int_equal(kineto_trace_count(part), 6);
    assert_int_equal(kineto_trace_flow_count(part), 3);
    assert_consistent(part);
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void names_and_tracks_by_regular_expression(void **state)
{
    (void)state;
    kineto_trace *t = training();
    static const struct {
        const char *name, *track;
        uint64_t count;
    } rows[] = {{"^aten::", NULL, 3},
                {"mm$|^gemm$", NULL, 6},
                {"Step#[12]", NULL, 4},
                {NULL, "^main", 9},
                {NULL, "7", 9},
                {NULL, "13", 9},
                {NULL, "1", 0},
                {NULL, "stream 1[0-9]", 9},
                {"nothing", NULL, 0},
                {"^$", NULL, 0},
                {"gemm", "main thread", 0}};
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        kineto_trace *part =
            select_from(t, (kineto_selection){.name = rows[i].name, .track = rows[i].track});
        assert_int_equal(kineto_trace_count(part), rows[i].count);
        assert_consistent(part);
        kineto_trace_release(part);
    }
    kineto_trace_release(t);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    kineto_trace *t = training(), *out;
    kineto_error err = {.message = ""};
    kineto_selection rows[] = {{.name = "a("},
                               {.track = "["},
                               {.use = 1u << 20},
                               {.top_per = 99, .top = 1},
                               {.use = KINETO_SELECT_CLIP},
                               {.use = KINETO_SELECT_TIME, .start_ns = 5, .end_ns = 5},
                               {.use = KINETO_SELECT_STEPS, .first_step = 5, .last_step = 4}};
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        rows[i].size = sizeof rows[i];
        assert_int_equal(kineto_trace_select(t, &rows[i], &out, &err), KINETO_E_ARGUMENT);
        assert_null(out);
        assert_true(strlen(err.message) > 10);
    }
    assert_int_equal(kineto_trace_select(t, &rows[0], &out, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "'a('"));
    assert_int_equal(kineto_trace_select(NULL, &rows[0], &out, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_select(t, &(kineto_selection){0}, &out, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

static void ranks_and_processes_have_their_device_work(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_trace *part = select_from(t, (kineto_selection){.use = KINETO_SELECT_RANK, .rank = 3});
    /* Annotations on the device say nothing of their rank; the device worked for this one only. */
    assert_int_equal(count_kind(part, KINETO_KIND_GPU_USER_ANNOTATION), 6);
    assert_int_equal(count_kind(part, KINETO_KIND_CONCURRENT_KERNEL), 3);
    assert_int_equal(kineto_trace_flow_count(part), 3);
    kineto_trace_release(part);
    part = select_from(t, (kineto_selection){.use = KINETO_SELECT_PROCESS, .pid = 100});
    assert_int_equal(count_kind(part, KINETO_KIND_CONCURRENT_KERNEL), 3);
    kineto_trace_release(part);
    part = select_from(t, (kineto_selection){.use = KINETO_SELECT_RANK, .rank = 4});
    assert_int_equal(kineto_trace_count(part), 0);
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void the_longest_and_what_encloses_them(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_trace *part = select_from(t, (kineto_selection){.top = 4});
    assert_int_equal(kineto_trace_count(part), 4);
    assert_true(has_row(part, "wait", 50)); /* 2450 ns, then the steps */
    assert_int_equal(count_kind(part, KINETO_KIND_USER_ANNOTATION), 4);
    kineto_trace_release(part);
    part = select_from(t, (kineto_selection){.top = 1, .top_per = KINETO_TOP_PER_NAME});
    assert_int_equal(kineto_trace_count(part), 8);
    kineto_trace_release(part);
    kineto_selection launches = {.kinds = KINETO_KIND_BIT(KINETO_KIND_RUNTIME), .top = 2};
    part = select_from(t, launches);
    assert_int_equal(kineto_trace_count(part), 2);
    kineto_trace_release(part);
    launches.use = KINETO_SELECT_PARENTS;
    part = select_from(t, launches);
    assert_int_equal(kineto_trace_count(part), 6);
    kineto_trace_release(part);
    part = select_from(t, (kineto_selection){.min_duration_ns = 1000});
    assert_int_equal(kineto_trace_count(part), 4);
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void an_empty_part_is_a_trace(void **state)
{
    (void)state;
    char directory[128], path[160];
    kineto_trace *t = training(), *part = select_from(t, (kineto_selection){.name = "nothing"});
    kineto_trace *back;
    kineto_string key, value;
    assert_int_equal(kineto_trace_count(part), 0);
    kineto_trace_metadata(part, 0, &key, &value);
    assert_true(kb_string_equal(key, kb_string("world")));
    assert_int_equal(kineto_trace_snapshot_count(part), 1);
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/t.json", directory);
    save(part, path);
    assert_int_equal(kineto_trace_open(path, &back, NULL), KINETO_OK);
    assert_int_equal(kineto_trace_lost(back), 5);
    unlink(path);
    rmdir(directory);
    kineto_trace_release(back);
    kineto_trace_release(part);
    kineto_trace_release(t);
}

static void a_part_of_a_part_is_the_part_of_both(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_selection time = {
        .use = KINETO_SELECT_TIME, .start_ns = BASE + 900, .end_ns = BASE + 2200};
    kineto_selection ops = {.kinds = KINETO_KIND_BIT(KINETO_KIND_CPU_OP) |
                                     KINETO_KIND_BIT(KINETO_KIND_RUNTIME)};
    kineto_selection both = time;
    both.kinds = ops.kinds;
    kineto_trace *first = select_from(t, time), *second = select_from(first, ops);
    kineto_trace *once = select_from(t, both);
    assert_int_equal(kineto_trace_count(second), kineto_trace_count(once));
    for (kineto_row row = 0; row < kineto_trace_count(once); row++) {
        kineto_activity a, b;
        kineto_trace_get(second, row, &a);
        kineto_trace_get(once, row, &b);
        assert_true(kb_string_equal(a.name, b.name));
        assert_int_equal(a.start_ns, b.start_ns);
    }
    assert_consistent(second);
    kineto_trace_release(once);
    kineto_trace_release(second);
    kineto_trace_release(first);
    kineto_trace_release(t);
}

static void the_ledger_says_what_was_selected(void **state)
{
    (void)state;
    kineto_trace *t = training();
    kineto_trace *part = select_from(
        t, (kineto_selection){.kinds = KINETO_KIND_BIT(KINETO_KIND_CPU_OP), .name = "mm"});
    kineto_ledger_line line;
    assert_int_equal(kineto_trace_ledger_count(part), 3);
    kineto_trace_ledger(part, 1, &line);
    assert_int_equal(line.count, kineto_trace_count(t) - 3);
    assert_non_null(memmem(line.detail.data, line.detail.size, "cpu_op", 6));
    assert_non_null(memmem(line.detail.data, line.detail.size, "'mm'", 4));
    kineto_trace_release(part);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(selecting_nothing_in_particular_gives_the_trace_itself),
        cmocka_unit_test(a_copy_of_all_rows_is_written_byte_for_byte_the_same),
        cmocka_unit_test(processes_that_look_alike_stay_apart),
        cmocka_unit_test(copies_of_two_sources_share_nothing),
        cmocka_unit_test(time_keeps_what_touches_it),
        cmocka_unit_test(clipped_rows_end_at_the_edges_and_say_so),
        cmocka_unit_test(what_is_clipped_stays_inside_of_what_encloses_it),
        cmocka_unit_test(extremes_of_time_are_times),
        cmocka_unit_test(steps_keep_device_work_that_they_launched),
        cmocka_unit_test(steps_that_are_not_there_are_named),
        cmocka_unit_test(names_of_steps_are_strict),
        cmocka_unit_test(flows_need_both_ends),
        cmocka_unit_test(names_and_tracks_by_regular_expression),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(ranks_and_processes_have_their_device_work),
        cmocka_unit_test(the_longest_and_what_encloses_them),
        cmocka_unit_test(an_empty_part_is_a_trace),
        cmocka_unit_test(a_part_of_a_part_is_the_part_of_both),
        cmocka_unit_test(the_ledger_says_what_was_selected),
    };
    return RUN_TESTS(tests);
}
