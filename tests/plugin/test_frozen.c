/* A plug-in that uses all of the interface of version 0.1 delivers exactly what it did then. Runs
 * with the binary that was built on that day, and with its source built against the header of
 * today. test_frozen FILE */
#include "plugin_tests.h"
#include "../helpers/sessions.h"

#include <time.h>

static char *file;

static void check_ids(const kineto_activity *a, uint64_t correlation, uint64_t external)
{
    assert_int_equal(a->correlation_id, correlation);
    assert_int_equal(a->external_id, external);
}

static void check_values(const kineto_trace *t, kineto_row row)
{
    assert_int_equal(arg_of(t, row, "int").i, -5);
    assert_true(arg_of(t, row, "uint").u == UINT64_MAX);
    assert_true(arg_of(t, row, "double").d == 0.5);
    assert_int_equal(arg_of(t, row, "bool").type, KINETO_ARG_BOOL);
    assert_int_equal(arg_of(t, row, "bool").u, 1);
    assert_text(arg_of(t, row, "string").text, "bytes");
    assert_text(arg_of(t, row, "ints").text, "[1,-2,3]");
    assert_text(arg_of(t, row, "strings").text, "[\"one\",\"two \\\"quoted\\\"\"]");
    assert_text(arg_of(t, row, "json").text, "{\"a\":1}");
}

static void check_place(const kineto_trace *t, kineto_row row)
{
    kineto_process p = process_of(t, row);
    assert_true(p.is_device);
    assert_int_equal(p.pid, 1);
    assert_text(p.name, "Frozen device");
    assert_text(p.label, "FROZEN 1");
    assert_int_equal(p.sort_index, 31);
    assert_non_null(memmem(p.properties_json.data, p.properties_json.size, "\"int\":-5", 8));
    if (row_at(t, row).form == KINETO_FORM_COUNTER)
        return;
    kineto_track track = track_of(t, row);
    assert_int_equal(track.id, 2);
    assert_text(track.name, "frozen queue");
    assert_int_equal(track.sort_index, 32);
}

static int64_t check_kernel(const kineto_trace *t)
{
    kineto_activity a = find_only(t, "frozen kernel");
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_text(kineto_trace_string(t, a.category), "kernel");
    assert_int_equal(a.end_ns - a.start_ns, 100);
    check_ids(&a, 501, 71);
    check_values(t, a.row);
    check_place(t, a.row);
    return a.start_ns - 200;
}

static void check_launch(const kineto_trace *t, int64_t base)
{
    kineto_activity a = find_only(t, "frozenLaunch");
    assert_int_equal(a.kind, KINETO_KIND_RUNTIME);
    assert_text(kineto_trace_string(t, a.category), "xpu_runtime");
    assert_int_equal(a.start_ns, base + 100);
    assert_int_equal(a.end_ns, base + 150);
    check_ids(&a, 501, 71);
    assert_false(process_of(t, a.row).is_device);
    assert_int_equal(track_of(t, a.row).id, gettid());
    assert_int_equal(kineto_trace_launch(t, find_only(t, "frozen kernel").row), a.row);
    for (uint64_t i = 0; i < kineto_trace_flow_count(t); i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        if (f.from == a.row && f.to == find_only(t, "frozen kernel").row && f.id == 9)
            return;
    }
    fail_msg("no arrow leads from the launch to the kernel");
}

static void check_stepwise(const kineto_trace *t, int64_t base)
{
    kineto_activity a = find_only(t, "frozen stepwise");
    assert_int_equal(a.start_ns, base + 400);
    assert_int_equal(a.end_ns, base + 500);
    check_ids(&a, 502, 72);
    assert_text(arg_of(t, a.row, "text").text, "\"json\"");
    assert_int_equal(arg_of(t, a.row, "int").i, -5);
    assert_true(arg_of(t, a.row, "uint").u == UINT64_MAX);
    check_place(t, a.row);
}

/* By the host's own clock, and by a device's that is compared with it. */
static void check_clocks(const kineto_trace *t, int64_t before, int64_t after)
{
    kineto_activity copy = find_only(t, "frozen copy"), step = find_only(t, "frozen step");
    assert_int_equal(copy.kind, KINETO_KIND_GPU_MEMCPY);
    assert_int_equal(step.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_text(kineto_trace_string(t, step.category), "frozen_step");
    assert_true(before <= copy.start_ns && copy.start_ns < copy.end_ns && copy.end_ns <= after);
    assert_true(before <= step.start_ns && step.start_ns < step.end_ns && step.end_ns <= after);
    check_place(t, copy.row);
    check_place(t, step.row);
}

static void check_counters(const kineto_trace *t, int64_t base)
{
    for (uint32_t i = 0; i < 3; i++) {
        kineto_activity a = find_nth(t, "frozen sensors", i);
        assert_int_equal(a.form, KINETO_FORM_COUNTER);
        assert_int_equal(a.kind, KINETO_KIND_GPU_PM_COUNTER);
        assert_int_equal(a.start_ns, base + 100 + 100 * i);
        assert_true(arg_of(t, a.row, "power [W]").d == 10.5 + 10 * i);
        assert_true(arg_of(t, a.row, "heat").d == 40 + i);
        check_place(t, a.row);
    }
}

static void check_header(const kineto_trace *t)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string key, value;
        kineto_trace_metadata(t, i, &key, &value);
        if (text_is(key, "frozen_version") && text_is(value, "\"0.1\""))
            return;
    }
    fail_msg("the header has no frozen_version");
}

/* The fit of the clocks may be off by less than that. */
#define MARGIN_NS 1000000

static int64_t utc_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void it_delivers_exactly_what_it_did(void **state)
{
    (void)state;
    load(file, NULL);
    for (int round = 0; round < 3; round++) {
        int64_t before = utc_ns() - MARGIN_NS;
        kineto_session *s = record();
        kineto_correlation_push(71);
        kineto_user_correlation_push(72);
        kineto_user_correlation_pop();
        kineto_correlation_pop();
        usleep(2000);
        kineto_trace *t = finish(s);
        int64_t after = utc_ns() + MARGIN_NS;
        verify(t);
        int64_t base = check_kernel(t);
        assert_true(before <= base && base <= after);
        check_launch(t, base);
        check_stepwise(t, base);
        check_clocks(t, before, after);
        check_counters(t, base);
        check_header(t);
        assert_int_equal(kineto_trace_count(t), 5 + 3);
        assert_int_equal(ledger(t, "frozen", "requested"), 8);
        assert_int_equal(ledger(t, "frozen", "lost by the device or driver"), 1);
        assert_int_equal(kineto_trace_lost(t), 1);
        kineto_trace_release(t);
    }
}

static void it_says_who_it_is(void **state)
{
    (void)state;
    load(file, NULL);
    kineto_plugin_info info = info_of(file);
    assert_string_equal(info.name, "frozen");
    assert_string_equal(info.vendor, "xpu");
    assert_string_equal(info.revision, "b");
    assert_int_equal(info.type_count, 5);
    assert_true(info.types[4] >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST);
    assert_string_equal(kineto_plugin_type_name(info.types[4]), "frozen_step");
    uint64_t mask = 0;
    assert_int_equal(kineto_kinds_parse("frozen_step", &mask, NULL), KINETO_OK);
    assert_true(mask && (info.kinds & mask) == mask);
}

static void its_own_kind_is_asked_for_alone(void **state)
{
    (void)state;
    uint64_t mask = 0;
    load(file, NULL);
    assert_int_equal(kineto_kinds_parse("frozen_step", &mask, NULL), KINETO_OK);
    kineto_session *s = session_of(mask, 1 << 20, 0);
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 1);
    (void)find_only(t, "frozen step");
    assert_int_equal(ledger(t, "frozen", "kind not enabled"), 0);
    assert_int_equal(ledger(t, "frozen", "plug-in call failed"), 0);
    kineto_trace_release(t);
}

static void it_is_paused_and_not_ended(void **state)
{
    (void)state;
    load(file, NULL);
    int (*toggles)(void);
    *(void **)&toggles = function_of(file, "frozen_toggles");
    kineto_session *s = record();
    int before = toggles();
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    assert_int_equal(toggles(), before + 2);
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "frozen kernel"), 1);
    kineto_trace_release(t);
}

static void its_reason_is_in_the_ledger(void **state)
{
    (void)state;
    load(file, NULL);
    kineto_session_options options;
    kineto_session_options_init(&options);
    options.custom_config = "!";
    kineto_session *s = NULL;
    assert_int_equal(begin_session(&options, &s, NULL), KINETO_OK);
    kineto_trace *t = finish(s);
    bool found = false;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line l;
        kineto_trace_ledger(t, i, &l);
        found |= text_is(l.source, "frozen") && text_is(l.reason, "create failed") &&
                 memmem(l.detail.data, l.detail.size, "told to fail", 12) != NULL;
    }
    if (!found)
        print_ledger(t);
    assert_true(found);
    kineto_trace_release(t);
}

#define TEST(name) cmocka_unit_test_teardown(name, unload_all)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(it_delivers_exactly_what_it_did), TEST(it_says_who_it_is),
        TEST(its_own_kind_is_asked_for_alone), TEST(it_is_paused_and_not_ended),
        TEST(its_reason_is_in_the_ledger),
    };
    if (argc != 2) {
        puts("usage: test_frozen FILE");
        return 2;
    }
    file = realpath(argv[1], NULL);
    if (!file) {
        printf("%s: there is no such file\n", argv[1]);
        return 2;
    }
#if !defined(__x86_64__) || !defined(__LP64__)
    if (strstr(file, "x86_64")) {
        puts("the frozen plug-in is a binary for x86-64");
        return 77;
    }
#endif
    int failed = RUN_TESTS(tests);
    free(file);
    return failed;
}
