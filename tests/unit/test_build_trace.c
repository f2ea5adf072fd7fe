/* From a recording to a trace: times, windows, rows, tables, flows, ledger. */
#include "unit.h"

#include "../helpers/kf_write.h"
#include "trace/trace.h"

#define T(n) (KW_TICKS + (n))

typedef struct fixture {
    kw_recording w;
    uint32_t op, note, launch, process; /* sites, process */
} fixture;

static fixture make(uint32_t chunks)
{
    fixture f;
    assert_true(kw_create(&f.w, chunks, 65536));
    f.process = kw_process(&f.w, 10, "prog", "/usr/bin/prog --flag /a/b");
    f.op = kw_site(&f.w, "op", KINETO_KIND_CPU_OP, NULL, 0);
    f.note = kw_site(&f.w, "note", KINETO_KIND_USER_ANNOTATION, NULL, 0);
    f.launch = kw_site(&f.w, "clEnqueue", KINETO_KIND_RUNTIME, NULL, 0);
    return f;
}

static void start(fixture *f, uint32_t cursor, uint32_t tid)
{
    kw_segment(&f->w, cursor, 0, f->process, 10, tid, T(0), 0);
}

static kineto_trace *build_with(fixture *f, const kt_build_options *options)
{
    kineto_trace *t = NULL;
    kineto_error err = {.code = KINETO_OK};
    kineto_status status = kt_build(&f->w.input, f->w.pool.control, options, &t, &err);
    if (status)
        fail_msg("%s", err.message);
    return t;
}

static kineto_trace *build(fixture *f)
{
    kt_build_options all = {.kinds = KINETO_KINDS_ALL};
    return build_with(f, &all);
}

static void text_is(kineto_string s, const char *text)
{
    char copy[512];
    snprintf(copy, sizeof copy, "%.*s", (int)s.size, s.data);
    assert_string_equal(copy, text);
}

/* The only row of this name. */
static kineto_activity row_named(const kineto_trace *t, const char *name)
{
    kineto_activity a, found = {.row = KINETO_NO_ROW};
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_trace_get(t, r, &a);
        if (kb_string_equal(a.name, kb_string(name))) {
            assert_true(found.row == KINETO_NO_ROW);
            found = a;
        }
    }
    if (found.row == KINETO_NO_ROW)
        fail_msg("no row %s", name);
    return found;
}

static kineto_track track_of(const kineto_trace *t, const char *name)
{
    kineto_track track;
    kineto_trace_track(t, row_named(t, name).track, &track);
    return track;
}

static kineto_process process_of(const kineto_trace *t, const char *name)
{
    kineto_process p;
    kineto_trace_process(t, track_of(t, name).process, &p);
    return p;
}

/* Count of a ledger line; -1 if there is none. */
static int64_t ledger(const kineto_trace *t, const char *source, const char *reason)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &line);
        if (kb_string_equal(line.source, kb_string(source)) &&
            kb_string_equal(line.reason, kb_string(reason)))
            return (int64_t)line.count;
    }
    return -1;
}

static int64_t ns(const kineto_activity *a) { return a->start_ns - KW_EPOCH; }
static int64_t end_ns(const kineto_activity *a) { return a->end_ns - KW_EPOCH; }

/* ---- rows ---- */

static void ranges_become_slices_on_named_threads_of_a_named_process(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 10);
    kw_begin(&f.w, 0, f.op, T(5));
    kw_end(&f.w, 0, T(15));
    kw_segment(&f.w, 2, 0, f.process, 10, 77, T(0), 0);
    kw_record(&f.w, KF_THREAD_NAME, 0, kw_string(&f.w, "loader"), T(1), NULL, 0);
    kw_begin(&f.w, 0, f.note, T(20));
    kw_end(&f.w, 0, T(30));
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), 2);
    kineto_activity a = row_named(t, "op");
    assert_int_equal(ns(&a), 5);
    assert_int_equal(end_ns(&a), 15);
    assert_int_equal(a.kind, KINETO_KIND_CPU_OP);
    assert_int_equal(a.form, KINETO_FORM_SLICE);
    text_is(kineto_trace_string(t, a.category), "cpu_op");
    text_is(track_of(t, "op").name, "thread 10 (prog)");
    text_is(track_of(t, "note").name, "thread 77 (loader)");
    assert_int_equal(track_of(t, "note").id, 77);
    kineto_process p = process_of(t, "op");
    text_is(p.name, "prog");
    text_is(p.label, "CPU");
    assert_int_equal(p.pid, 10);
    assert_int_equal(p.ppid, 1);
    assert_int_equal(p.sort_index, 10);
    assert_int_equal(kineto_trace_process_count(t), 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void the_other_forms_find_their_tracks(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t types[] = {KINETO_ARG_INT, KINETO_ARG_DOUBLE};
    uint32_t load = kw_site(&f.w, "load", KINETO_KIND_COUNTER, types, 2);
    uint64_t id = 9, memory[] = {0xabc, (uint64_t)-64, 100, 200, kf_pair(1, (uint32_t)-1)};
    double half = 0.5;
    uint64_t values[2] = {3};
    memcpy(&values[1], &half, 8);
    start(&f, 1, 10);
    kw_record(&f.w, KF_INSTANT, 0, f.op, T(1), NULL, 0);
    kw_record(&f.w, KF_COUNTER, 0, load, T(2), values, 2);
    kw_record(&f.w, KF_MEMORY, 0, 0, T(3), memory, 5);
    kw_record(&f.w, KF_ASYNC_BEGIN, 0, f.note, T(4), &id, 1);
    kw_record(&f.w, KF_ASYNC_END, 0, f.note, T(40), &id, 1);
    kineto_trace *t = build(&f);
    kineto_arg arg;
    assert_int_equal(row_named(t, "op").form, KINETO_FORM_INSTANT);
    assert_int_equal(track_of(t, "load").type, KINETO_TRACK_COUNTER);
    assert_true(kineto_args_find(t, row_named(t, "load").row, "a1", &arg));
    assert_true(arg.type == KINETO_ARG_DOUBLE && arg.d == 0.5);
    kineto_activity m = row_named(t, "[memory]");
    text_is(kineto_trace_string(t, m.category), "cpu_instant_event");
    assert_int_equal(m.kind, KINETO_KIND_MEMORY);
    assert_true(kineto_args_find(t, m.row, "Bytes", &arg) && arg.i == -64);
    assert_true(kineto_args_find(t, m.row, "Addr", &arg) && arg.u == 0xabc);
    assert_true(kineto_args_find(t, m.row, "Device Type", &arg) && arg.i == 1);
    assert_true(kineto_args_find(t, m.row, "Device Id", &arg) && arg.i == -1);
    kineto_activity a = row_named(t, "note");
    assert_int_equal(a.form, KINETO_FORM_ASYNC);
    assert_int_equal(a.async_id, 9);
    assert_int_equal(end_ns(&a), 40);
    assert_int_equal(track_of(t, "note").type, KINETO_TRACK_ASYNC);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void arguments_keep_their_types_and_lists_become_json(void **state)
{
    (void)state;
    fixture f = make(1);
    const uint8_t types[] = {KINETO_ARG_INTS, KINETO_ARG_STRINGS, KINETO_ARG_SHAPES,
                             KINETO_ARG_JSON, KINETO_ARG_JSON,    KINETO_ARG_BOOL};
    uint32_t site = kw_site(&f.w, "s", KINETO_KIND_CPU_OP, types, 6);
    uint32_t more = kw_site(&f.w, "more", KINETO_KIND_CPU_OP, types + 5, 1); /* also named a0 */
    uint64_t w[40], one = 1;
    uint32_t n = 0;
    w[n++] = 2, w[n++] = 8, w[n++] = (uint64_t)-9;
    w[n++] = 2;
    n += kw_text(w + n, "x\"\xff");
    n += kw_text(w + n, "");
    w[n++] = 3, w[n++] = 2 | UINT64_C(1) << 32, w[n++] = 3, w[n++] = 4, w[n++] = 5;
    n += kw_text(w + n, "{\"k\": [1]}");
    n += kw_text(w + n, "{broken");
    w[n++] = 1;
    start(&f, 1, 10);
    kw_begin_args(&f.w, 0, site, T(1), KF_PROP_ARGS, w, n);
    kw_record(&f.w, KF_ARGS, 0, more, T(2), &one, 1);
    kw_end(&f.w, 0, T(3));
    kineto_trace *t = build(&f);
    kineto_row row = row_named(t, "s").row;
    kineto_arg arg;
    const char *expected[] = {"[8,-9]", "[\"x\\\"\xef\xbf\xbd\",\"\"]", "[[3,4],[],[5]]",
                              "{\"k\": [1]}", "{broken"};
    for (int i = 0; i < 5; i++) {
        char key[4] = {'a', (char)('0' + i), 0, 0};
        assert_true(kineto_args_find(t, row, key, &arg));
        text_is(arg.text, expected[i]);
        assert_int_equal(arg.type, i == 4 ? KINETO_ARG_STRING : types[i]);
    }
    assert_true(kineto_args_find(t, row, "a5", &arg) && arg.u == 1 && arg.type == KINETO_ARG_BOOL);
    uint32_t count = 0;
    kineto_args_iterator it;
    kineto_args_begin(t, row, &it);
    while (kineto_args_next(&it, &arg))
        count++;
    assert_int_equal(count, 6); /* one of each name */
    assert_int_equal(ledger(t, "recording", "arguments were not JSON, quoted"), 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- window ---- */

static void a_window_cuts_and_flags_what_reaches_over_its_edges(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t names[6];
    const char *const texts[] = {"before", "left", "inside", "right", "around", "after"};
    for (int i = 0; i < 6; i++)
        names[i] = kw_site(&f.w, texts[i], KINETO_KIND_CPU_OP, NULL, 0);
    const uint64_t times[6][2] = {{10, 20},   {50, 150}, {120, 130},
                                  {180, 250}, {30, 300}, {210, 220}};
    for (uint32_t i = 0; i < 6; i++) {
        start(&f, i + 1, i + 1);
        kw_begin(&f.w, 0, names[i], T(times[i][0]));
        kw_end(&f.w, 0, T(times[i][1]));
    }
    start(&f, 9, 9);
    kw_begin(&f.w, 0, f.note, T(40)); /* its thread does nothing more */
    kt_build_options o = {
        .kinds = KINETO_KINDS_ALL, .start_ticks = T(100), .end_ticks = T(200), .clip_open = true};
    kineto_trace *t = build_with(&f, &o);
    assert_int_equal(kineto_trace_count(t), 5);
    const struct {
        const char *name;
        int64_t start, end;
        uint32_t flags;
    } expected[] = {{"left", 100, 150, KINETO_ACTIVITY_OPEN_START},
                    {"inside", 120, 130, 0},
                    {"right", 180, 200, KINETO_ACTIVITY_OPEN_END},
                    {"around", 100, 200, KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END},
                    {"note", 100, 200, KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END}};
    for (size_t i = 0; i < KB_COUNT(expected); i++) {
        kineto_activity a = row_named(t, expected[i].name);
        assert_int_equal(ns(&a), expected[i].start);
        assert_int_equal(end_ns(&a), expected[i].end);
        assert_int_equal(a.flags, expected[i].flags);
    }
    assert_int_equal(ledger(t, "program", "outside the window"), 2);
    assert_int_equal(ledger(t, "program", "delivered"), 5);
    assert_int_equal(kineto_trace_lost(t), 0);
    int64_t from, to;
    kineto_trace_window(t, &from, &to);
    assert_int_equal(from, KW_EPOCH + 100);
    assert_int_equal(to, KW_EPOCH + 200);
    kineto_trace_release(t);
    o.clip_open = false; /* what is still open then ends at the last known moment */
    t = build_with(&f, &o);
    assert_int_equal(kineto_trace_count(t), 4);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void kinds_and_thread_choose_rows(void **state)
{
    (void)state;
    fixture f = make(1);
    for (uint32_t i = 1; i <= 2; i++) {
        start(&f, i, 40 + i);
        kw_begin(&f.w, 0, i == 1 ? f.op : f.note, T(i));
        kw_end(&f.w, 0, T(i + 1));
    }
    kt_build_options o = {.kinds = KINETO_KIND_BIT(KINETO_KIND_CPU_OP)};
    kineto_trace *t = build_with(&f, &o);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_int_equal(row_named(t, "op").row, 0);
    kineto_trace_release(t);
    const kt_build_thread_span span = {.tid = 42};
    o = (kt_build_options){.kinds = KINETO_KINDS_ALL, .threads = &span, .thread_count = 1};
    t = build_with(&f, &o);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_int_equal(row_named(t, "note").row, 0);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- processes ---- */

static void two_producers_of_a_process_are_one_and_two_images_of_a_pid_are_two(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t copy = kw_process(&f.w, 10, "prog", "/usr/bin/prog --flag /a/b");
    kf_process_entry exec = {.pid = 10, .ppid = 1, .start_time = 110, .exec_id = 8};
    uint32_t image = kw_entry(&f.w, KF_ENTRY_PROCESS, &exec, sizeof exec, "other", "other", NULL);
    uint32_t silent = kw_process(&f.w, 11, "silent", "silent");
    kw_entry(&f.w, KF_ENTRY_PROCESS_NAME, &image, sizeof image, "my name", NULL, NULL);
    const uint32_t processes[] = {f.process, copy, image, 0};
    const char *const sites[] = {"p0", "p1", "p2", "p3"};
    for (uint32_t i = 0; i < 4; i++) {
        kw_segment(&f.w, i + 1, 0, processes[i], 10, 10, T(0), 0);
        kw_record(&f.w, KF_INSTANT, 0, kw_site(&f.w, sites[i], KINETO_KIND_CPU_OP, NULL, 0), T(1),
                  NULL, 0);
    }
    kineto_trace *t = build(&f);
    assert_int_not_equal(silent, 0);
    assert_int_equal(kineto_trace_process_count(t), 2);
    assert_int_equal(row_named(t, "p0").track, row_named(t, "p1").track);
    assert_int_not_equal(track_of(t, "p0").process, track_of(t, "p2").process);
    assert_int_equal(track_of(t, "p2").process, track_of(t, "p3").process); /* known by pid */
    text_is(process_of(t, "p2").name, "my name");
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void ids_of_two_processes_do_not_meet(void **state)
{
    (void)state;
    fixture f = make(1);
    uint32_t other = kw_process(&f.w, 20, "other", "other"), source = 1;
    uint32_t kernel = kw_string(&f.w, "kernel"), kernel2 = kw_string(&f.w, "kernel2");
    uint32_t launch2 = kw_site(&f.w, "clEnqueue2", KINETO_KIND_RUNTIME, NULL, 0);
    uint64_t five = 5;
    for (uint32_t i = 0; i < 2; i++) {
        kw_segment(&f.w, i + 1, 0, i ? other : f.process, i ? 20 : 10, i ? 20 : 10, T(0), 0);
        kw_begin_args(&f.w, 0, i ? launch2 : f.launch, T(1), KF_PROP_CORRELATION, &five, 1);
        kw_end(&f.w, 0, T(2));
        kw_device_record(&f.w,
                         &(kw_device){.kind = KINETO_KIND_CONCURRENT_KERNEL,
                                      .clock = KINETO_PLUGIN_CLOCK_TICKS,
                                      .name = i ? kernel2 : kernel,
                                      .source = source,
                                      .start = T(10),
                                      .end = T(20),
                                      .correlation = 5,
                                      .resource = 7},
                         NULL, 0);
    }
    kineto_trace *t = build(&f);
    kineto_activity one = row_named(t, "kernel"), two = row_named(t, "kernel2");
    assert_int_equal(one.correlation_id, 5);
    assert_true(two.correlation_id == ((UINT64_C(1) << 48) | 5));
    assert_int_equal(kineto_trace_launch(t, one.row), row_named(t, "clEnqueue").row);
    assert_int_equal(kineto_trace_launch(t, two.row), row_named(t, "clEnqueue2").row);
    /* One device, but each process has streams of its own. */
    assert_int_equal(track_of(t, "kernel").process, track_of(t, "kernel2").process);
    assert_int_not_equal(one.track, two.track);
    text_is(track_of(t, "kernel").name, "stream 7");
    text_is(track_of(t, "kernel2").name, "stream 7 (process 20)");
    assert_int_equal(kineto_trace_flow_count(t), 2);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- devices ---- */

static void add_device(fixture *f, uint32_t source, const char *source_name, int64_t device,
                       const char *name)
{
    kf_source_entry s = {f->process, source};
    kf_device_entry d = {f->process, source, device, 42};
    kw_entry(&f->w, KF_ENTRY_SOURCE, &s, sizeof s, source_name, NULL, NULL);
    kw_entry(&f->w, KF_ENTRY_DEVICE, &d, sizeof d, name, "Label", NULL);
}

static void device_event(fixture *f, uint32_t source, const char *name, int32_t device)
{
    kw_device_record(&f->w,
                     &(kw_device){.kind = KINETO_KIND_GPU_MEMCPY,
                                  .clock = KINETO_PLUGIN_CLOCK_UTC,
                                  .name = kw_string(&f->w, name),
                                  .source = source,
                                  .start = (uint64_t)KW_EPOCH + 7,
                                  .end = (uint64_t)KW_EPOCH + 9,
                                  .device = device,
                                  .resource = 3},
                     NULL, 0);
}

static void devices_are_distinguished_by_source_and_carry_their_properties(void **state)
{
    (void)state;
    fixture f = make(1);
    add_device(&f, 1, "opencl", 0, "PoCL \"x\"");
    add_device(&f, 2, "cuda", 0, "H100");
    add_device(&f, 3, "opencl", 0, "PoCL \"x\""); /* the same source in a child */
    kf_device_entry d = {f.process, 1, 0, 0};
    uint64_t props[8] = {kf_loose_word(kw_string(&f.w, "units"), KINETO_ARG_UINT, 0), 16,
                         kf_loose_word(kw_string(&f.w, "id"), KINETO_ARG_UINT, 0), 99,
                         kf_loose_word(kw_string(&f.w, "vendor"), KINETO_ARG_STRING, 0)};
    uint32_t n = 5 + kw_text(props + 5, "a\"b");
    kf_part parts[] = {{&d, sizeof d}, {props, n * 8}};
    kf_dictionary_add(&f.w.pool, KF_ENTRY_DEVICE_PROPS, parts, 2);
    kf_resource_entry r = {f.process, 1, 0, 3, 12, 0};
    kw_entry(&f.w, KF_ENTRY_RESOURCE, &r, sizeof r, "queue 3 (in order)", NULL, NULL);
    start(&f, 1, 10);
    device_event(&f, 1, "copy1", 0);
    device_event(&f, 2, "copy2", 0);
    device_event(&f, 3, "copy3", 0);
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_process_count(t), 2);
    kineto_process p = process_of(t, "copy1");
    assert_true(p.is_device);
    text_is(p.name, "PoCL \"x\"");
    text_is(p.label, "Label");
    assert_int_equal(p.sort_index, 42);
    text_is(p.properties_json,
            "{\"id\":0,\"name\":\"PoCL \\\"x\\\"\",\"units\":16,\"vendor\":\"a\\\"b\"}");
    text_is(process_of(t, "copy2").name, "H100");
    text_is(process_of(t, "copy2").properties_json, "{\"id\":0,\"name\":\"H100\"}");
    assert_int_equal(row_named(t, "copy1").track, row_named(t, "copy3").track);
    kineto_track track = track_of(t, "copy1");
    text_is(track.name, "queue 3 (in order)");
    assert_int_equal(track.sort_index, 12);
    assert_int_equal(track.type, KINETO_TRACK_STREAM);
    text_is(track_of(t, "copy2").name, "stream 3");
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void every_clock_ends_on_the_same_time_line(void **state)
{
    (void)state;
    fixture f = make(1);
    static const struct {
        uint32_t clock;
        uint64_t time;
    } clocks[] = {{KINETO_PLUGIN_CLOCK_UTC, (uint64_t)KW_EPOCH + 1000},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC, UINT64_C(5000000000) + 1000},
                  {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, UINT64_C(7000000000) + 1000},
                  {KINETO_PLUGIN_CLOCK_BOOTTIME, UINT64_C(9000000000) + 1000},
                  {KINETO_PLUGIN_CLOCK_TICKS, T(1000)},
                  {5, 600},   /* a device clock of 100 ns units that began at 50000 - 10 */
                  {6, 1000}}; /* one that was never compared */
    kf_clock_entry five = {f.process, 5}, six = {f.process, 6};
    kw_entry(&f.w, KF_ENTRY_CLOCK, &five, sizeof five, "timer", NULL, NULL);
    kw_entry(&f.w, KF_ENTRY_CLOCK, &six, sizeof six, "silent", NULL, NULL);
    start(&f, 1, 10);
    for (uint32_t i = 0; i < KB_COUNT(clocks); i++)
        kw_device_record(&f.w,
                         &(kw_device){.kind = KINETO_KIND_CONCURRENT_KERNEL,
                                      .clock = clocks[i].clock,
                                      .name = kw_string(&f.w, "k"),
                                      .source = 1,
                                      .start = clocks[i].time,
                                      .end = clocks[i].time,
                                      .resource = (int32_t)i},
                         NULL, 0);
    for (uint64_t i = 0; i < 9; i++) { /* brackets of different width; the tight ones are exact */
        uint64_t ns_now = i * 1000000, width = i % 4 ? 4000 : 20;
        uint64_t sample[] = {T(ns_now + width / 2 + (i % 4 ? 900 : 0)), 590 + ns_now / 100};
        kw_record(&f.w, KF_CLOCK_SAMPLE, 0, 5, T(ns_now) - width / 2, sample, 2);
    }
    kineto_trace *t = build(&f);
    assert_int_equal(kineto_trace_count(t), 6);
    for (kineto_row r = 0; r < 6; r++) {
        kineto_activity a;
        kineto_trace_get(t, r, &a);
        assert_int_equal(ns(&a), 1000);
    }
    assert_int_equal(ledger(t, "recording", "events of a device clock that was never compared"), 1);
    assert_int_equal(kineto_trace_lost(t), 1);
    assert_true(ledger(t, "timer", "residual [ns]") >= 0);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void host_activities_of_a_source_lie_on_the_threads_they_name(void **state)
{
    (void)state;
    fixture f = make(1);
    kf_resource_entry r = {f.process, 1, 10, 33, 0, 0};
    kw_entry(&f.w, KF_ENTRY_RESOURCE, &r, sizeof r, "submitter", NULL, NULL);
    start(&f, 1, 10);
    kw_device_record(&f.w,
                     &(kw_device){.kind = KINETO_KIND_RUNTIME,
                                  .name = kw_string(&f.w, "call"),
                                  .source = 1,
                                  .start = (uint64_t)KW_EPOCH + 1,
                                  .end = (uint64_t)KW_EPOCH + 5,
                                  .device = 10,
                                  .resource = 33},
                     NULL, 0);
    kw_device_record(&f.w,
                     &(kw_device){.kind = KINETO_KIND_GPU_PM_COUNTER,
                                  .name = kw_string(&f.w, "sm busy"),
                                  .source = 1,
                                  .start = (uint64_t)KW_EPOCH + 1,
                                  .end = (uint64_t)KW_EPOCH + 5},
                     NULL, 0);
    kineto_trace *t = build(&f);
    text_is(track_of(t, "call").name, "thread 33 (submitter)");
    assert_false(process_of(t, "call").is_device);
    assert_int_equal(row_named(t, "sm busy").form, KINETO_FORM_COUNTER);
    assert_int_equal(track_of(t, "sm busy").type, KINETO_TRACK_COUNTER);
    assert_true(process_of(t, "sm busy").is_device);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- flows ---- */

static void launches_point_at_what_they_launched_unless_the_source_drew_arrows(void **state)
{
    (void)state;
    fixture f = make(1);
    uint64_t id = 5;
    start(&f, 1, 10);
    kw_begin_args(&f.w, 0, f.launch, T(1), KF_PROP_CORRELATION, &id, 1);
    kw_end(&f.w, 0, T(2));
    kw_device d = {.kind = KINETO_KIND_CONCURRENT_KERNEL,
                   .clock = KINETO_PLUGIN_CLOCK_TICKS,
                   .source = 1,
                   .start = T(10),
                   .end = T(20),
                   .correlation = 5};
    d.name = kw_string(&f.w, "k1");
    kw_device_record(&f.w, &d, NULL, 0);
    d.name = kw_string(&f.w, "k2");
    d.start = T(30), d.end = T(40);
    kw_device_record(&f.w, &d, NULL, 0);
    d.name = kw_string(&f.w, "k3"); /* has an arrow from a range of the program */
    d.flow_type = KINETO_FLOW_USER, d.flow_id = 8;
    kw_device_record(&f.w, &d, NULL, 0);
    id = 8;
    kw_begin(&f.w, 0, f.note, T(3));
    kw_record(&f.w, KF_FLOW, KINETO_FLOW_USER | 0x100, 0, T(4), &id, 1);
    kw_end(&f.w, 0, T(5));
    kineto_trace *t = build(&f);
    uint32_t derived = 0, drawn = 0;
    assert_int_equal(kineto_trace_flow_count(t), 3);
    for (uint64_t i = 0; i < 3; i++) {
        kineto_flow flow;
        kineto_trace_flow(t, i, &flow);
        if (flow.type == KINETO_FLOW_USER) {
            drawn++;
            assert_int_equal(flow.id, 8);
            assert_int_equal(flow.from, row_named(t, "note").row);
            assert_int_equal(flow.to, row_named(t, "k3").row);
        } else {
            derived++;
            assert_int_equal(flow.type, KINETO_FLOW_ASYNC_CPU_GPU);
            assert_int_equal(flow.id, 5);
            assert_int_equal(flow.from, row_named(t, "clEnqueue").row);
            assert_true(flow.to == row_named(t, "k1").row || flow.to == row_named(t, "k2").row);
        }
    }
    assert_int_equal(derived, 2);
    assert_int_equal(drawn, 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* ---- ledger and header ---- */

static void counters_and_the_collectors_findings_are_lines_of_the_ledger(void **state)
{
    (void)state;
    fixture f = make(1);
    kf_control *c = f.w.pool.control;
    kf_source_entry s = {f.process, 2};
    kf_ledger_entry l = {0, 1, 3, 0};
    kw_entry(&f.w, KF_ENTRY_SOURCE, &s, sizeof s, "opencl", NULL, NULL);
    kw_entry(&f.w, KF_ENTRY_LEDGER, &l, sizeof l, "processes", "not attached", "32-bit program");
    c->counters[0][KF_REASON_NO_ROOM] = 11;
    c->counters[2][KF_REASON_REQUESTED] = 5;
    c->counters[2][KF_REASON_SOURCE_DROPPED] = 5;
    kineto_trace *t = build(&f);
    assert_int_equal(ledger(t, "program", "buffer full"), 11);
    assert_int_equal(ledger(t, "opencl", "requested"), 5);
    assert_int_equal(ledger(t, "opencl", "delivered"), 0);
    assert_int_equal(ledger(t, "opencl", "lost by the device or driver"), 5);
    assert_int_equal(ledger(t, "processes", "not attached"), 3);
    assert_true(ledger(t, "clock", "residual [ns]") >= 0);
    assert_int_equal(ledger(t, "clock", "wall clock steps"), -1);
    assert_int_equal(kineto_trace_lost(t), 11 + 5); /* processes are not events */
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_wall_clock_that_was_set_is_reported_and_moves_nothing(void **state)
{
    (void)state;
    fixture f = make(1);
    f.w.pool.control->snapshots[2].realtime_ns += 3600000000000;
    start(&f, 1, 10);
    kw_record(&f.w, KF_INSTANT, 0, f.op, T(1500000000), NULL, 0);
    kineto_trace *t = build(&f);
    kineto_activity a = row_named(t, "op");
    assert_int_equal(ns(&a), 1500000000);
    assert_int_equal(ledger(t, "clock", "wall clock steps"), 1);
    assert_int_equal(kineto_trace_snapshot_count(t), 3);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void what_the_decoder_found_is_reported(void **state)
{
    (void)state;
    fixture f = make(1);
    start(&f, 1, 10);
    kw_record(&f.w, KF_INSTANT, 0, 12345678, T(1), NULL, 0);
    kw_end(&f.w, 0, T(2));
    kw_begin(&f.w, 0, f.op, T(3));
    kw_segment(&f.w, 1, 5, f.process, 10, 10, T(4), 0);
    kw_record(&f.w, KF_BEGIN, 0, f.op, T(4), (uint64_t[]){1}, 1);
    kineto_trace *t = build(&f);
    assert_int_equal(ledger(t, "recording", "segments missing"), 4);
    assert_int_equal(ledger(t, "recording", "ends without a begin"), 1);
    assert_int_equal(ledger(t, "recording", "ranges without an end"), 1);
    assert_int_equal(ledger(t, "recording", "malformed entries of the name table"), 1);
    assert_int_equal(
        ledger(t, "recording", "malformed records, the rest of their segment was skipped"), 1);
    assert_int_equal(row_named(t, "op").flags, KINETO_ACTIVITY_OPEN_END);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void metadata_reaches_the_header_and_bad_json_is_quoted(void **state)
{
    (void)state;
    fixture f = make(1);
    kw_meta(&f.w, f.process, 0, "good", "{\"a\": 1}");
    kw_meta(&f.w, f.process, 0, "bad", "no json");
    kineto_trace *t = build(&f);
    kineto_string key, value;
    assert_int_equal(kineto_trace_metadata_count(t), 2);
    kineto_trace_metadata(t, 0, &key, &value);
    text_is(key, "bad");
    text_is(value, "\"no json\"");
    kineto_trace_metadata(t, 1, &key, &value);
    text_is(value, "{\"a\": 1}");
    assert_int_equal(ledger(t, "recording", "metadata was not JSON, quoted"), 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void metadata_is_in_traces_of_the_time_when_it_was_set(void **state)
{
    (void)state;
    fixture f = make(1);
    kt_build_options second = {
        .kinds = KINETO_KINDS_ALL, .start_ticks = T(20), .end_ticks = T(30), .stated_from = T(15)};
    kw_meta(&f.w, f.process, T(14), "of the first", "1");
    kw_meta(&f.w, f.process, T(16), "between", "2");
    kw_meta(&f.w, f.process, T(30), "of the second", "3");
    kw_meta(&f.w, f.process, T(31), "later", "4");
    kw_meta(&f.w, f.process, 0, "of all", "5");
    kw_entry(&f.w, KF_ENTRY_META, &f.process, 4, NULL, NULL, NULL); /* too short */
    kineto_trace *t = build_with(&f, &second);
    kineto_string key, value;
    const char *const expected[] = {"between", "of all", "of the second"};
    assert_int_equal(kineto_trace_metadata_count(t), KB_COUNT(expected));
    for (uint32_t i = 0; i < KB_COUNT(expected); i++) {
        kineto_trace_metadata(t, i, &key, &value);
        text_is(key, expected[i]);
    }
    assert_int_equal(ledger(t, "recording", "malformed entries of the name table"), 1);
    kineto_trace_release(t);
    t = build(&f);
    assert_int_equal(kineto_trace_metadata_count(t), 5);
    kineto_trace_release(t);
    kw_free(&f.w);
}

/* Two ticks are a nanosecond there, which nothing of this machine says. */
static void the_clocks_of_another_boot_are_those_of_the_recording(void **state)
{
    (void)state;
    fixture f = make(1);
    kf_control *c = f.w.pool.control;
    memset(c->boot_id, 'x', sizeof c->boot_id - 1);
    c->snapshot_count = 1;
    c->snapshots[0].monotonic_raw_ns = KW_TICKS / 2;
    start(&f, 1, 10);
    kw_begin(&f.w, 0, f.op, T(1000));
    kw_end(&f.w, 0, T(5000));
    kineto_trace *t = build(&f);
    kineto_activity a = row_named(t, "op");
    assert_int_equal(a.end_ns - a.start_ns, 2000);
    assert_int_equal(ledger(t, "clock", "rate from one reading"), 1);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void a_recording_without_clock_or_with_a_mad_one_is_refused_with_a_reason(void **state)
{
    (void)state;
    fixture f = make(1);
    kt_build_options all = {.kinds = KINETO_KINDS_ALL};
    kineto_trace *t = NULL;
    kineto_error err;
    f.w.pool.control->snapshot_count = 0;
    assert_int_equal(kt_build(&f.w.input, f.w.pool.control, &all, &t, &err), KINETO_E_FORMAT);
    assert_non_null(strstr(err.message, "snapshot"));
    assert_null(t);
    f.w.pool.control->snapshot_count = UINT32_MAX; /* more than there are */
    kineto_status status = kt_build(&f.w.input, f.w.pool.control, &all, &t, &err);
    assert_true(status == KINETO_OK || status == KINETO_E_FORMAT);
    kineto_trace_release(t);
    kw_free(&f.w);
}

static void clock_snapshots_that_lie_do_no_harm(void **state)
{
    (void)state;
    fixture f = make(1);
    kt_build_options all = {.kinds = KINETO_KINDS_ALL};
    uint64_t seed = 1;
    start(&f, 1, 10);
    kw_begin(&f.w, 0, f.op, T(1));
    kw_end(&f.w, 0, T(9));
    for (int i = 0; i < 100; i++) {
        kineto_trace *t = NULL;
        uint64_t words[3 * sizeof(kb_clock_snapshot) / 8];
        for (size_t k = 0; k < KB_COUNT(words); k++)
            words[k] = next_random(&seed) >> next_random(&seed) % 64;
        memcpy(f.w.pool.control->snapshots, words, sizeof words);
        kineto_status status = kt_build(&f.w.input, f.w.pool.control, &all, &t, NULL);
        assert_true(status == KINETO_OK || status == KINETO_E_FORMAT);
        if (t) {
            kineto_activity a = row_named(t, "op");
            assert_true(a.end_ns >= a.start_ns);
        }
        kineto_trace_release(t);
    }
    kw_free(&f.w);
}

static void the_same_recording_gives_the_same_trace(void **state)
{
    (void)state;
    fixture f = make(4);
    uint64_t id = 3;
    for (uint32_t chunk = 0; chunk < 4; chunk++) {
        kw_chunk(&f.w, chunk);
        for (uint32_t i = 0; i < 20; i++) {
            kw_segment(&f.w, 1 + (i + chunk) % 5, chunk * 20 + i, f.process, 10, 1 + i % 5,
                       T(chunk * 1000 + i * 10), 0);
            kw_begin(&f.w, 0, f.op, T(chunk * 1000 + i * 10 + 1));
            kw_record(&f.w, i % 3 ? KF_ASYNC_BEGIN : KF_ASYNC_END, 0, f.note, T(i), &id, 1);
            kw_end(&f.w, 0, T(chunk * 1000 + i * 10 + 5));
        }
    }
    kineto_trace *a = build(&f), *b = build(&f);
    assert_int_equal(kineto_trace_count(a), kineto_trace_count(b));
    for (kineto_row r = 0; r < kineto_trace_count(a); r++) {
        kineto_activity x, y;
        kineto_trace_get(a, r, &x);
        kineto_trace_get(b, r, &y);
        assert_true(x.start_ns == y.start_ns && x.end_ns == y.end_ns && x.name_id == y.name_id &&
                    x.track == y.track && x.flags == y.flags);
    }
    kineto_trace_release(a);
    kineto_trace_release(b);
    kw_free(&f.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_become_slices_on_named_threads_of_a_named_process),
        cmocka_unit_test(the_other_forms_find_their_tracks),
        cmocka_unit_test(arguments_keep_their_types_and_lists_become_json),
        cmocka_unit_test(a_window_cuts_and_flags_what_reaches_over_its_edges),
        cmocka_unit_test(kinds_and_thread_choose_rows),
        cmocka_unit_test(two_producers_of_a_process_are_one_and_two_images_of_a_pid_are_two),
        cmocka_unit_test(ids_of_two_processes_do_not_meet),
        cmocka_unit_test(devices_are_distinguished_by_source_and_carry_their_properties),
        cmocka_unit_test(every_clock_ends_on_the_same_time_line),
        cmocka_unit_test(host_activities_of_a_source_lie_on_the_threads_they_name),
        cmocka_unit_test(launches_point_at_what_they_launched_unless_the_source_drew_arrows),
        cmocka_unit_test(counters_and_the_collectors_findings_are_lines_of_the_ledger),
        cmocka_unit_test(a_wall_clock_that_was_set_is_reported_and_moves_nothing),
        cmocka_unit_test(what_the_decoder_found_is_reported),
        cmocka_unit_test(metadata_reaches_the_header_and_bad_json_is_quoted),
        cmocka_unit_test(metadata_is_in_traces_of_the_time_when_it_was_set),
        cmocka_unit_test(a_recording_without_clock_or_with_a_mad_one_is_refused_with_a_reason),
        cmocka_unit_test(the_clocks_of_another_boot_are_those_of_the_recording),
        cmocka_unit_test(clock_snapshots_that_lie_do_no_harm),
        cmocka_unit_test(the_same_recording_gives_the_same_trace),
    };
    return RUN_TESTS(tests);
}
