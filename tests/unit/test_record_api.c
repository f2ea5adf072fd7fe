/* Every function of <ckineto/record.h>: what is said is what the trace holds, byte for byte. */
#include "unit.h"

#include "../helpers/recording.h"
#include "record/cursor.h"

KINETO_SITE(site_outer, KINETO_KIND_USER_ANNOTATION, "outer");
KINETO_SITE(site_inner, KINETO_KIND_CPU_OP, "inner");

/* ---- ranges ------------------------------------------------------------------------------------ */

static void nested_ranges_have_parents_and_order(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_range a = kineto_range_begin(&site_outer);
    for (int i = 0; i < 3; i++) {
        kineto_range b = kineto_range_begin(&site_inner);
        kineto_range_end(b);
    }
    kineto_range_end(a);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 4);
    kineto_activity outer = find_only(t, "outer");
    assert_int_equal(outer.kind, KINETO_KIND_USER_ANNOTATION);
    assert_int_equal(outer.form, KINETO_FORM_SLICE);
    assert_int_equal(outer.flags, 0);
    assert_true(kineto_trace_parent(t, outer.row) == KINETO_NO_ROW);
    int64_t last = outer.start_ns;
    for (uint64_t i = 0; i < 3; i++) {
        kineto_activity inner = find_nth(t, "inner", i);
        assert_int_equal(inner.kind, KINETO_KIND_CPU_OP);
        assert_int_equal(kineto_trace_parent(t, inner.row), outer.row);
        assert_true(inner.start_ns >= last);
        last = inner.end_ns;
    }
    assert_int_equal(process_of(t, outer.row).pid, getpid());
    assert_int_equal(track_of(t, outer.row).id, getpid()); /* the first thread */
    assert_int_equal(ledger(t, "program", "delivered"), 4);
    kineto_trace_release(t);
}

static void an_outer_end_closes_what_is_open_inside(void **state)
{
    (void)state;
    KINETO_SITE(after, KINETO_KIND_USER_ANNOTATION, "after");
    kineto_session *s = record();
    kineto_range a = kineto_range_begin(&site_outer);
    kineto_range b = kineto_range_begin(&site_inner);
    (void)kineto_range_begin(&site_inner);
    kineto_range_end(a);
    kineto_range_end(b); /* closed already: nothing happens */
    kineto_range_end(kineto_range_begin(&after));
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 4);
    kineto_activity outer = find_only(t, "outer");
    for (uint64_t i = 0; i < 2; i++) {
        kineto_activity inner = find_nth(t, "inner", i);
        assert_int_equal(inner.flags, 0);
        assert_true(inner.end_ns == outer.end_ns);
    }
    assert_true(kineto_trace_parent(t, find_only(t, "after").row) == KINETO_NO_ROW);
    kineto_trace_release(t);
}

static void a_range_that_was_not_recorded_may_be_passed_anywhere(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(more, KINETO_KIND_CPU_OP, "more", {"x", KINETO_ARG_INT});
    kineto_range none = kineto_range_begin(&site_outer); /* no session records */
    assert_int_equal(none, 0);
    kineto_value v = {.i = 1};
    kineto_session *s = record();
    kineto_range_args(none, &more, &v);
    kineto_range_end(none);
    kineto_record_end(none); /* as other languages do */
    kineto_record_args(none, &more, &v);
    kineto_range_end(12345); /* of a depth that is not open */
    kineto_range_end(kineto_range_begin(&site_inner));
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 1);
    (void)find_only(t, "inner");
    kineto_trace_release(t);
}

/* Nothing but the words of ENDs is left in the chunk. */
static void fill_chunk(kr_cursor *c)
{
    uint32_t words = (uint32_t)(c->limit - c->at), n;
    for (; words; words -= n, c->at += n) {
        n = words < 1000 ? words : 1000;
        *c->at = kf_header(KF_PAD, n, 0, 0);
    }
}

/* An END has 48 bits of its time: at 3 GHz a day. A day later they come to mean an earlier time,
 * unless the time is said in full before: in this chunk, or by the keyframe of the next. */
static void an_end_after_days_of_sleep_says_its_time_in_full(void **state)
{
    (void)state;
    KINETO_SITE(asleep, KINETO_KIND_USER_ANNOTATION, "asleep");
    kineto_session *s = record();
    for (int full = 0; full < 2; full++) {
        kineto_range range = kineto_range_begin(&asleep);
        kr_cursor *c = kr_me;
        uint64_t *chunk = c->base, begun = c->base[c->open[range - 1] + 1];
        assert_int_equal(c->epoch, kr_epoch_of(begun));
        c->epoch -= 4; /* as if it had begun so long ago */
        if (full)
            fill_chunk(c);
        kineto_range_end(range);
        assert_int_equal(c->epoch, kr_epoch_of(begun));
        assert_true((c->base != chunk) == full);
        if (!full)
            assert_true(kf_header_type(c->at[-3]) == KF_ARGS && c->at[-2] >= begun);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (uint64_t i = 0; i < 2; i++) {
        kineto_activity a = find_nth(t, "asleep", i);
        assert_int_equal(a.flags, 0);
        assert_int_equal(ledger(t, "recording", "flows and arguments without a range"), 0);
    }
    kineto_trace_release(t);
}

static int leave_by_return(void)
{
    KINETO_SCOPED("by return");
    return 7;
}

static void scoped_ranges_end_however_the_block_is_left(void **state)
{
    (void)state;
    kineto_session *s = record();
    assert_int_equal(leave_by_return(), 7);
    for (int i = 0; i < 5; i++) {
        KINETO_SCOPED("by break");
        if (i == 2)
            break;
    }
    for (int i = 0; i < 4; i++) {
        KINETO_SCOPED("by continue");
        if (i & 1)
            continue;
        KINETO_SCOPED("second");
    }
    {
        KINETO_SCOPED("by goto");
        goto out;
    }
out:;
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "by return"), 1);
    assert_int_equal(count_named(t, "by break"), 3);
    assert_int_equal(count_named(t, "by continue"), 4);
    assert_int_equal(count_named(t, "second"), 2);
    assert_int_equal(count_named(t, "by goto"), 1);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++)
        assert_int_equal(row_at(t, r).flags, 0);
    kineto_trace_release(t);
}

static void scopes_reach_the_recording(void **state)
{
    (void)state;
    static kineto_site sites[KINETO_NUM_SCOPES];
    kineto_session *s = record();
    for (uint32_t i = 0; i < KINETO_NUM_SCOPES; i++) {
        sites[i] = (kineto_site){0, KINETO_KIND_CPU_OP, (uint8_t)i, 0, 0, "scope", NULL};
        kineto_range_end(kineto_range_begin(&sites[i]));
    }
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "scope"), KINETO_NUM_SCOPES);
    kineto_trace_release(t);
}

/* ---- names and ids ----------------------------------------------------------------------------- */

static void names_made_at_run_time_arrive_byte_for_byte(void **state)
{
    (void)state;
    static char big[65536];
    static const size_t sizes[] = {0, 1, 7, 8, 9, 1023, 1024, 1025, 2048, 2049, 65535, 65536};
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = (char)(1 + i * 7 % 255); /* any byte but NUL, mostly invalid UTF-8 */
    kineto_session *s = record();
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        kineto_props props = {
            .size = sizeof props, .name = sizes[i] ? big : "", .name_size = sizes[i]};
        kineto_range_end(kineto_range_begin_props(&site_inner, &props));
        kineto_instant_mark_props(&site_inner, &props);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 2 * COUNT_OF(sizes));
    for (size_t i = 0; i < 2 * COUNT_OF(sizes); i++) {
        kineto_string name = row_at(t, i).name;
        assert_int_equal(name.size, sizes[i / 2]);
        if (name.size)
            assert_memory_equal(name.data, big, name.size);
    }
    kineto_trace_release(t);
}

static void names_hold_nul_bytes_and_site_names_anything_else(void **state)
{
    (void)state;
    static const char with_nul[] = "a\0b\"\\\n\xff\xfe";
    KINETO_SITE(odd, KINETO_KIND_CPU_OP, "\xc3\x28 \"quoted\" \\ \x01\x7f");
    KINETO_SITE(empty, KINETO_KIND_CPU_OP, "");
    kineto_session *s = record();
    kineto_props props = {.size = sizeof props, .name = with_nul, .name_size = sizeof with_nul};
    kineto_range_end(kineto_range_begin_props(&site_inner, &props));
    kineto_range_end(kineto_range_begin(&odd));
    kineto_range_end(kineto_range_begin(&empty));
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(row_at(t, 0).name.size, sizeof with_nul);
    assert_memory_equal(row_at(t, 0).name.data, with_nul, sizeof with_nul);
    assert_text(row_at(t, 1).name, "\xc3\x28 \"quoted\" \\ \x01\x7f");
    assert_int_equal(row_at(t, 2).name.size, 0);
    kineto_trace_release(t);
}

static void the_same_long_text_takes_room_once(void **state)
{
    (void)state;
    static char text[60000];
    memset(text, 'n', sizeof text - 1);
    kineto_session *s = record();
    for (int i = 0; i < 500; i++) { /* 30 MB, were it stored each time */
        kineto_props props = {.size = sizeof props, .name = text};
        kineto_instant_mark_props(&site_inner, &props);
    }
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(ledger(t, "program", "text shortened"), 0);
    assert_int_equal(count_named(t, text), 500);
    kineto_trace_release(t);
}

static void correlation_and_external_ids_become_columns(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_props props = {.size = sizeof props, .correlation_id = 77, .external_id = 1u << 30};
    kineto_range_end(kineto_range_begin_props(&site_outer, &props));
    props.correlation_id = 0;
    kineto_instant_mark_props(&site_inner, &props);
    kineto_trace *t = finish(s);
    assert_int_equal(find_only(t, "outer").correlation_id, 77);
    assert_int_equal(find_only(t, "outer").external_id, 1u << 30);
    assert_int_equal(find_only(t, "inner").correlation_id, 0);
    assert_int_equal(find_only(t, "inner").external_id, 1u << 30);
    kineto_trace_release(t);
}

/* ---- instants, async, counters, flows, memory ---------------------------------------------------- */

static void instants_are_moments_with_args(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(mark, KINETO_KIND_CPU_INSTANT_EVENT, "mark", {"n", KINETO_ARG_INT});
    KINETO_SITE(plain, KINETO_KIND_CPU_INSTANT_EVENT, "plain");
    kineto_session *s = record();
    for (int i = 0; i < 10; i++) {
        kineto_value v = {.i = i};
        kineto_instant_mark(&mark, &v);
    }
    kineto_instant_mark(&plain, NULL);
    kineto_instant_mark_props(&plain, NULL);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "plain"), 2);
    for (uint64_t i = 0; i < 10; i++) {
        kineto_activity a = find_nth(t, "mark", i);
        assert_int_equal(a.form, KINETO_FORM_INSTANT);
        assert_true(a.start_ns == a.end_ns);
        assert_int_equal(arg_of(t, a.row, "n").i, i);
    }
    kineto_trace_release(t);
}

KINETO_SITE_ARGS(site_async, KINETO_KIND_USER_ANNOTATION, "request", {"bytes", KINETO_ARG_INT});

static void *end_all(void *argument)
{
    for (uint64_t id = *(uint64_t *)argument; id > 0; id--)
        kineto_async_end(&site_async, id);
    return NULL;
}

static void async_ranges_end_on_another_thread(void **state)
{
    (void)state;
    kineto_session *s = record();
    uint64_t count = 100;
    for (uint64_t id = 1; id <= count; id++) {
        kineto_value v = {.i = (int64_t)id * 10};
        kineto_props props = {.size = sizeof props, .values = &v};
        kineto_async_begin(&site_async, id, &props);
    }
    kineto_async_begin(&site_async, 1000, NULL); /* never ends */
    pthread_join(start_thread(end_all, &count), NULL);
    kineto_async_end(&site_async, 2000); /* never began */
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_lost(t), 0);
    assert_int_equal(count_named(t, "request"), count + 2);
    bool seen[101] = {false};
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a = row_at(t, r);
        assert_int_equal(a.form, KINETO_FORM_ASYNC);
        if (a.async_id == 1000) {
            assert_int_equal(a.flags, KINETO_ACTIVITY_OPEN_END);
        } else if (a.async_id == 2000) {
            assert_int_equal(a.flags, KINETO_ACTIVITY_OPEN_START);
        } else {
            assert_true(a.async_id >= 1 && a.async_id <= count && !seen[a.async_id]);
            seen[a.async_id] = true;
            assert_int_equal(a.flags, 0);
            assert_int_equal(arg_of(t, a.row, "bytes").i, (int64_t)a.async_id * 10);
        }
    }
    kineto_trace_release(t);
}

static void counters_have_a_value_per_series(void **state)
{
    (void)state;
    KINETO_SITE_ARGS(load, KINETO_KIND_COUNTER, "load", {"int", KINETO_ARG_INT},
                     {"uint [bytes]", KINETO_ARG_UINT}, {"double", KINETO_ARG_DOUBLE});
    kineto_session *s = record();
    for (int i = 0; i < 5; i++) {
        kineto_value v[] = {{.i = -i}, {.u = UINT64_MAX - (uint64_t)i}, {.d = i / 4.0}};
        kineto_counter_sample(&load, v);
    }
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    for (int i = 0; i < 5; i++) {
        kineto_activity a = find_nth(t, "load", (uint64_t)i);
        assert_int_equal(a.form, KINETO_FORM_COUNTER);
        assert_int_equal(track_of(t, a.row).type, KINETO_TRACK_COUNTER);
        assert_int_equal(arg_of(t, a.row, "int").i, -i);
        assert_true(arg_of(t, a.row, "uint [bytes]").u == UINT64_MAX - (uint64_t)i);
        assert_true(arg_of(t, a.row, "double").d == i / 4.0);
    }
    kineto_trace_release(t);
}

static void flows_join_the_innermost_open_ranges(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_range a = kineto_range_begin(&site_outer), b = kineto_range_begin(&site_inner);
    kineto_flow_begin(KINETO_FLOW_USER, 5);
    kineto_flow_begin(KINETO_FLOW_FWD_BWD, 5); /* ids are per type */
    kineto_range_end(b);
    kineto_flow_end(KINETO_FLOW_USER, 5);
    kineto_range_end(a);
    a = kineto_range_begin(&site_outer);
    kineto_flow_end(KINETO_FLOW_FWD_BWD, 5);
    kineto_range_end(a);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_flow_count(t), 2);
    for (uint64_t i = 0; i < 2; i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        assert_int_equal(f.id, 5);
        assert_text(row_at(t, f.from).name, "inner");
        assert_text(row_at(t, f.to).name, "outer");
        /* rows come in the order of ends: the first "outer" before the second */
        uint64_t which = f.type == KINETO_FLOW_USER ? 0 : 1;
        assert_int_equal(f.to, find_nth(t, "outer", which).row);
    }
    kineto_trace_release(t);
}

static void memory_events_keep_every_number(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_memory_event e = {.size = sizeof e,
                             .address = UINT64_C(0xfffffffffffffff0),
                             .bytes = -4096,
                             .total_allocated_bytes = UINT64_C(1) << 40,
                             .total_reserved_bytes = UINT64_C(1) << 41,
                             .device_type = 1,
                             .device_index = -1};
    kineto_memory_report(&e);
    kineto_trace *t = finish(s);
    verify(t);
    kineto_activity a = find_only(t, "[memory]");
    assert_int_equal(a.kind, KINETO_KIND_MEMORY);
    assert_int_equal(a.form, KINETO_FORM_INSTANT);
    assert_true(arg_of(t, a.row, "Addr").u == e.address);
    assert_int_equal(arg_of(t, a.row, "Bytes").i, -4096);
    assert_true(arg_of(t, a.row, "Total Allocated").u == e.total_allocated_bytes);
    assert_true(arg_of(t, a.row, "Total Reserved").u == e.total_reserved_bytes);
    assert_int_equal(arg_of(t, a.row, "Device Type").i, 1);
    assert_int_equal(arg_of(t, a.row, "Device Id").i, -1);
    kineto_trace_release(t);
}

/* What was not there is no allocation: sums of memory must not have it, nor those of the file. */
static void lack_of_memory_is_not_an_allocation(void **state)
{
    (void)state;
    kineto_session *s = record();
    kineto_memory_event e = {
        .size = sizeof e, .address = 0x7f00, .bytes = 512, .device_type = 1, .device_index = 0};
    kineto_memory_report(&e);
    kineto_memory_report_failure(&e);
    kineto_trace *t = finish(s), *again;
    verify(t);
    assert_int_equal(kineto_trace_save(t, "no_memory.json", NULL), KINETO_OK);
    assert_int_equal(kineto_trace_open("no_memory.json", &again, NULL), KINETO_OK);
    unlink("no_memory.json");
    for (int i = 0; i < 2; i++) {
        kineto_trace *of = i ? again : t;
        kineto_activity a = find_only(of, "[memory]"), lack = find_only(of, "[OutOfMemory]");
        assert_int_equal(a.kind, KINETO_KIND_MEMORY);
        assert_int_equal(lack.kind, KINETO_KIND_CPU_INSTANT_EVENT);
        assert_int_equal(lack.form, KINETO_FORM_INSTANT);
        assert_int_equal(arg_of(of, lack.row, "Bytes").i, 512);
    }
    kineto_trace_release(again);
    kineto_trace_release(t);
}

/* ---- kinds ------------------------------------------------------------------------------------- */

static void each_kind_is_recorded_only_when_enabled(void **state)
{
    (void)state;
    static kineto_site sites[KINETO_KIND_COUNT];
    for (uint32_t kind = 0; kind < KINETO_KIND_COUNT; kind++) {
        kineto_session *s = session_of(KINETO_KIND_BIT(kind), 1 << 20, KINETO_RETAIN_OLDEST);
        for (uint32_t k = 0; k < KINETO_KIND_COUNT; k++) {
            if (!sites[k].name)
                sites[k] = (kineto_site){0, (uint8_t)k, 0, 0, 0, "kind", NULL};
            kineto_range r = kineto_range_begin(&sites[k]);
            assert_int_equal(r != 0, k == kind);
            assert_int_equal(kineto_enabled(k), k == kind);
            kineto_range_end(r);
            kineto_instant_mark(&sites[k], NULL);
            kineto_async_begin(&sites[k], 1, NULL);
            kineto_async_end(&sites[k], 1);
        }
        kineto_trace *t = finish(s);
        verify(t);
        uint64_t rows = 0; /* annotations over device work are derived, not recorded */
        for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
            assert_int_equal(row_at(t, r).kind, kind);
            rows++;
        }
        assert_int_equal(rows, 3);
        kineto_trace_release(t);
    }
    for (uint32_t k = 0; k < 64; k++)
        assert_false(kineto_enabled(k));
}

/* ---- names of threads and processes, metadata ------------------------------------------------------ */

static void *named_thread(void *argument)
{
    kineto_thread_set_name(argument);
    kineto_instant_mark(&site_inner, NULL);
    return NULL;
}

static bool has_track_named(const kineto_trace *t, const char *part)
{
    char name[256];
    for (uint32_t i = 0; i < kineto_trace_track_count(t); i++) {
        kineto_track track;
        kineto_trace_track(t, i, &track);
        snprintf(name, sizeof name, "%.*s", (int)track.name.size, track.name.data);
        if (strstr(name, part))
            return true;
    }
    return false;
}

static void threads_and_processes_bear_the_names_given_last(void **state)
{
    (void)state;
    char long_name[101], odd_name[] = "worker \xff\"x\"";
    memset(long_name, 'L', 100);
    long_name[100] = 0;
    kineto_thread_set_name("said before");
    kineto_process_set_name("process before");
    kineto_session *s = record();
    kineto_instant_mark(&site_outer, NULL);
    kineto_thread_set_name("first name");
    kineto_thread_set_name("last name");
    kineto_process_set_name("process last");
    pthread_join(start_thread(named_thread, odd_name), NULL);
    pthread_join(start_thread(named_thread, long_name), NULL);
    kineto_thread_set_name(NULL);
    kineto_process_set_name(NULL);
    kineto_process_set_name("process last");
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_true(has_track_named(t, "last name"));
    assert_false(has_track_named(t, "first name"));
    assert_true(has_track_named(t, odd_name));
    long_name[63] = 0;
    assert_true(has_track_named(t, long_name));
    assert_false(
        has_track_named(t, "LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL"));
    assert_text(process_of(t, find_only(t, "outer").row).name, "process last");
    kineto_trace_release(t);
}

static void names_said_before_any_session_are_remembered(void **state)
{
    (void)state;
    kineto_thread_set_name("early bird");
    kineto_session *s = record();
    kineto_instant_mark(&site_outer, NULL);
    kineto_trace *t = finish(s);
    assert_true(has_track_named(t, "early bird"));
    kineto_trace_release(t);
}

static void metadata_reaches_the_header_and_bad_json_is_quoted(void **state)
{
    (void)state;
    assert_int_equal(kineto_metadata_add(NULL, "1"), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_metadata_add("k", NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_metadata_add("early", "{\"a\":[1,2]}"), KINETO_OK);
    kineto_session *s = record();
    assert_int_equal(kineto_metadata_add("late", "1.5"), KINETO_OK);
    assert_int_equal(kineto_metadata_add("late", "2.5"), KINETO_OK);
    assert_int_equal(kineto_metadata_add("bad", "{oops\"}"), KINETO_OK);
    kineto_trace *t = finish(s);
    assert_text(header_of(t, "early"), "{\"a\":[1,2]}");
    assert_text(header_of(t, "late"), "2.5");
    assert_text(header_of(t, "bad"), "\"{oops\\\"}\"");
    assert_int_equal(ledger(t, "recording", "metadata was not JSON, quoted"), 1);
    kineto_trace_release(t);
}

static void lines_of_a_program_reach_the_ledger(void **state)
{
    (void)state;
    assert_int_equal(kineto_ledger_add(NULL, "r", 1, false, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_ledger_add("s", NULL, 1, false, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_ledger_add("mine", "said early", 3, false, "a sentence"), KINETO_OK);
    kineto_session *s = record();
    assert_int_equal(kineto_ledger_add("mine", "lost \xff", 5, true, NULL), KINETO_OK);
    kineto_trace *t = finish(s);
    assert_int_equal(ledger(t, "mine", "said early"), 3);
    assert_int_equal(ledger(t, "mine", "lost \xff"), 5);
    assert_int_equal(kineto_trace_lost(t), 5);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* first: what is said before there is anything to record into */
        cmocka_unit_test(names_said_before_any_session_are_remembered),
        cmocka_unit_test(metadata_reaches_the_header_and_bad_json_is_quoted),
        cmocka_unit_test(nested_ranges_have_parents_and_order),
        cmocka_unit_test(an_outer_end_closes_what_is_open_inside),
        cmocka_unit_test(a_range_that_was_not_recorded_may_be_passed_anywhere),
        cmocka_unit_test(an_end_after_days_of_sleep_says_its_time_in_full),
        cmocka_unit_test(scoped_ranges_end_however_the_block_is_left),
        cmocka_unit_test(scopes_reach_the_recording),
        cmocka_unit_test(names_made_at_run_time_arrive_byte_for_byte),
        cmocka_unit_test(names_hold_nul_bytes_and_site_names_anything_else),
        cmocka_unit_test(the_same_long_text_takes_room_once),
        cmocka_unit_test(correlation_and_external_ids_become_columns),
        cmocka_unit_test(instants_are_moments_with_args),
        cmocka_unit_test(async_ranges_end_on_another_thread),
        cmocka_unit_test(counters_have_a_value_per_series),
        cmocka_unit_test(flows_join_the_innermost_open_ranges),
        cmocka_unit_test(memory_events_keep_every_number),
        cmocka_unit_test(lack_of_memory_is_not_an_allocation),
        cmocka_unit_test(each_kind_is_recorded_only_when_enabled),
        cmocka_unit_test(threads_and_processes_bear_the_names_given_last),
        cmocka_unit_test(lines_of_a_program_reach_the_ledger), /* last: they stay in the pool */
    };
    return RUN_TESTS(tests);
}
