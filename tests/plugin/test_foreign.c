/* Plug-ins that were built for the published revisions of the interface by someone who never saw
 * our headers: they load, they work unchanged, and the trace holds what they delivered. */
#include "plugin_tests.h"

#define B_SO     FOREIGN_DIR "/foreign-b.so"
#define ZERO_SO  FOREIGN_DIR "/foreign-0.so"
#define A_SO     FOREIGN_DIR "/foreign-a.so"
#define EARLY_SO FOREIGN_DIR "/foreign-early.so"
#define DEVICE   5

typedef struct row_expected {
    int32_t type;
    uint32_t kind;
    const char *category;
} row_expected;

/* By the numbers of the last revision. The plug-in names no vendor: 8 and 9 are CUDA's, as then. */
static const row_expected rows_b[] = {{1, KINETO_KIND_CPU_OP, "cpu_op"},
                                      {2, KINETO_KIND_USER_ANNOTATION, "user_annotation"},
                                      {3, KINETO_KIND_GPU_USER_ANNOTATION, "gpu_user_annotation"},
                                      {4, KINETO_KIND_GPU_MEMCPY, "gpu_memcpy"},
                                      {5, KINETO_KIND_GPU_MEMSET, "gpu_memset"},
                                      {6, KINETO_KIND_CONCURRENT_KERNEL, "kernel"},
                                      {7, KINETO_KIND_EXTERNAL_CORRELATION, "external_correlation"},
                                      {8, KINETO_KIND_RUNTIME, "cuda_runtime"},
                                      {9, KINETO_KIND_DRIVER, "cuda_driver"},
                                      {10, KINETO_KIND_CPU_INSTANT_EVENT, "cpu_instant_event"},
                                      {11, KINETO_KIND_PYTHON_FUNCTION, "python_function"},
                                      {12, KINETO_KIND_OVERHEAD, "overhead"},
                                      {13, KINETO_KIND_RUNTIME, "mtia_runtime"},
                                      {14, KINETO_KIND_CONCURRENT_KERNEL, "mtia_ccp_events"},
                                      {15, KINETO_KIND_MTIA_INSIGHT, "mtia_insight"},
                                      {16, KINETO_KIND_CUDA_SYNC, "cuda_sync"},
                                      {17, KINETO_KIND_RUNTIME, "glow_runtime"},
                                      {18, KINETO_KIND_CUDA_PROFILER_RANGE, "cuda_profiler_range"},
                                      {19, KINETO_KIND_RUNTIME, "hpu_op"},
                                      {20, KINETO_KIND_RUNTIME, "xpu_runtime"},
                                      {21, KINETO_KIND_COLLECTIVE_COMM, "collective_comm"},
                                      {22, KINETO_KIND_GPU_PM_COUNTER, "gpu_pm_counter"},
                                      {23, KINETO_KIND_RUNTIME, "privateuse1_runtime"},
                                      {24, KINETO_KIND_DRIVER, "privateuse1_driver"}};

static const row_expected rows_early[] = {{6, KINETO_KIND_CONCURRENT_KERNEL, "kernel"},
                                          {8, KINETO_KIND_RUNTIME, "cuda_runtime"},
                                          {13, KINETO_KIND_CUDA_SYNC, "cuda_sync"},
                                          {14, KINETO_KIND_GPU_PM_COUNTER, "gpu_pm_counter"}};

static const row_expected rows_untold[] = {{6, KINETO_KIND_CONCURRENT_KERNEL, "kernel"},
                                           {8, KINETO_KIND_RUNTIME, "cuda_runtime"}};

/* ---- what the plug-in saw ------------------------------------------------------------------------- */

static void forget(const char *path)
{
    void (*function)(void);
    *(void **)&function = function_of(path, "foreign_forget");
    function();
}

static const char *journal(const char *path)
{
    const char *(*function)(void);
    *(void **)&function = function_of(path, "foreign_journal");
    if (strstr(function(), "FAULT"))
        fail_msg("the plug-in met what it cannot accept: %s", function());
    return function();
}

static int64_t base_ns(const char *path)
{
    int64_t (*function)(void);
    *(void **)&function = function_of(path, "foreign_base_ns");
    return function();
}

/* ---- what the trace must hold --------------------------------------------------------------------- */

static void check_args(const kineto_trace *t, kineto_row row)
{
    assert_int_equal(arg_of(t, row, "number").type, KINETO_ARG_INT);
    assert_int_equal(arg_of(t, row, "number").i, 42);
    assert_text(arg_of(t, row, "real").text, "2.50");
    assert_text(arg_of(t, row, "text").text, "\"quoted \\u00e9\"");
    assert_text(arg_of(t, row, "list").text, "[1, 2]");
    assert_int_equal(arg_of(t, row, "broken").type, KINETO_ARG_STRING);
    assert_text(arg_of(t, row, "broken").text, "{oops");
    assert_int_equal(arg_of(t, row, "bare").type, KINETO_ARG_STRING);
    assert_text(arg_of(t, row, "bare").text, "no json at all");
}

static void check_counter(const kineto_trace *t, const kineto_activity *a)
{
    assert_int_equal(a->form, KINETO_FORM_COUNTER);
    assert_int_equal(arg_of(t, a->row, "busy").i, 50);
    kineto_arg clock = arg_of(t, a->row, "clock");
    if (clock.type == KINETO_ARG_DOUBLE)
        assert_true(clock.d == 1.5);
    else
        assert_text(clock.text, "1.5");
}

static void check_device_row(const kineto_trace *t, kineto_row row, int32_t type)
{
    char name[16];
    kineto_process p = process_of(t, row);
    assert_true(p.is_device);
    assert_int_equal(p.pid, DEVICE);
    assert_text(p.name, "Foreign device");
    assert_text(p.label, "FOREIGN 5");
    assert_int_equal(p.sort_index, 55);
    if (row_at(t, row).form == KINETO_FORM_COUNTER)
        return;
    snprintf(name, sizeof name, "row %d", type);
    kineto_track track = track_of(t, row);
    assert_int_equal(track.type, KINETO_TRACK_STREAM);
    assert_int_equal(track.id, 100 + type);
    assert_text(track.name, name);
    assert_int_equal(track.sort_index, 200 + type);
}

static void check_thread_row(const kineto_trace *t, kineto_row row, int32_t type)
{
    char name[40];
    kineto_track track = track_of(t, row);
    assert_false(process_of(t, row).is_device);
    assert_int_equal(process_of(t, row).pid, getpid());
    assert_int_equal(track.type, KINETO_TRACK_THREAD);
    assert_int_equal(track.id, 100 + type);
    snprintf(name, sizeof name, "thread %d (row %d)", 100 + type, type);
    assert_text(track.name, name);
}

static bool is_host(uint32_t kind)
{
    return kind == KINETO_KIND_CPU_OP || kind == KINETO_KIND_USER_ANNOTATION ||
           kind == KINETO_KIND_EXTERNAL_CORRELATION || kind == KINETO_KIND_RUNTIME ||
           kind == KINETO_KIND_DRIVER || kind == KINETO_KIND_CPU_INSTANT_EVENT ||
           kind == KINETO_KIND_PYTHON_FUNCTION;
}

static kineto_activity check_event(const kineto_trace *t, const row_expected *e, int64_t base)
{
    char name[32];
    snprintf(name, sizeof name, "type %d \"\xc3\xa9\xff", e->type);
    kineto_activity a = find_only(t, name);
    bool instant = e->kind == KINETO_KIND_CPU_INSTANT_EVENT;
    assert_int_equal(a.kind, e->kind);
    assert_text(kineto_trace_string(t, a.category), e->category);
    assert_int_equal(a.start_ns, base + e->type * 1000);
    (is_host(e->kind) ? check_thread_row : check_device_row)(t, a.row, e->type);
    if (e->kind == KINETO_KIND_GPU_PM_COUNTER) {
        check_counter(t, &a);
        return a;
    }
    assert_int_equal(a.form, instant ? KINETO_FORM_INSTANT : KINETO_FORM_SLICE);
    assert_int_equal(a.end_ns, a.start_ns + (instant ? 0 : 500));
    assert_int_equal(a.correlation_id, 7000 + e->type);
    check_args(t, a.row);
    return a;
}

/* Exactly the rows, nothing lost; and the arrow between the launch and the kernel. */
static void check_trace(const kineto_trace *t, const char *path, const char *source,
                        const row_expected *rows, size_t count)
{
    kineto_row launch = KINETO_NO_ROW, kernel = KINETO_NO_ROW;
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), count);
    assert_int_equal(ledger(t, source, "delivered"), count);
    for (size_t i = 0; i < count; i++) {
        kineto_activity a = check_event(t, &rows[i], base_ns(path));
        kernel = rows[i].type == 6 ? a.row : kernel;
        launch = rows[i].type == 8 ? a.row : launch;
    }
    kineto_flow flow;
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &flow);
    assert_int_equal(flow.id, 77);
    assert_int_equal(flow.type, KINETO_FLOW_ASYNC_CPU_GPU);
    assert_int_equal(flow.from, launch);
    assert_int_equal(flow.to, kernel);
}

static kineto_trace *one_session(uint64_t kinds)
{
    kineto_session *s = session_of(kinds, 4u << 20, KINETO_RETAIN_OLDEST);
    usleep(1000);
    return finish(s);
}

#define LIFE_B "query;types %s;create;start;stop;process;destroy;"
#define LIFE_0 "query;create;start;stop;process;destroy;"
#define LIFE_A "query;create;types %s;start;stop;process;destroy;"

static void assert_life(const char *path, const char *life, const char *types)
{
    char expected[512];
    snprintf(expected, sizeof expected, life, types);
    assert_string_equal(journal(path), expected);
}

#define ALL_TYPES "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24"

/* ---- the revisions -------------------------------------------------------------------------------- */

static void the_last_revision_works_unchanged(void **state)
{
    (void)state;
    load(B_SO, NULL);
    kineto_trace *t = one_session(KINETO_KINDS_ALL);
    assert_life(B_SO, LIFE_B, ALL_TYPES);
    check_trace(t, B_SO, "foreign B", rows_b, COUNT_OF(rows_b));
    assert_int_equal(ledger(t, "foreign B", "metadata was not JSON, quoted"), 2 * 23);
    assert_true(has_detail(t, "loaded", "/foreign-b.so"));
    kineto_trace_release(t);
    kineto_plugin_info info = info_of(B_SO);
    assert_int_equal(info.state, KINETO_PLUGIN_LOADED);
    assert_string_equal(info.name, "foreign B");
    assert_string_equal(info.vendor, "");
    assert_string_equal(info.revision, "b");
    assert_string_equal(info.reason, "");
    assert_int_equal(info.type_count, 24);
    assert_int_equal(info.types[0], 1);
    assert_int_equal(info.types[23], 24);
    unload(B_SO);
}

static void a_plug_in_gets_the_enabled_kinds_in_its_own_numbers(void **state)
{
    (void)state;
    const struct {
        uint64_t kinds;
        const char *types;
    } cases[] = {
        {KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL), "6,14"},
        {KINETO_KIND_BIT(KINETO_KIND_RUNTIME), "8,13,17,19,20,23"},
        {KINETO_KIND_BIT(KINETO_KIND_DRIVER) | KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY), "4,9,24"},
        {KINETO_KINDS_DEFAULT, "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,19,20,23,24"}};
    load(B_SO, NULL);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char expected[256];
        forget(B_SO);
        kineto_trace *t = one_session(cases[i].kinds);
        snprintf(expected, sizeof expected, "types %s;create;start;stop;process;destroy;",
                 cases[i].types);
        assert_string_equal(journal(B_SO), expected);
        assert_nothing_lost(t);
        kineto_trace_release(t);
    }
    forget(B_SO);
    kineto_trace_release(one_session(KINETO_KIND_BIT(KINETO_KIND_MEMORY)));
    assert_string_equal(journal(B_SO), "");
    unload(B_SO);
}

static void the_first_revision_works_unchanged(void **state)
{
    (void)state;
    load(ZERO_SO, NULL);
    kineto_trace *t = one_session(KINETO_KINDS_ALL);
    assert_life(ZERO_SO, LIFE_0, "");
    check_trace(t, ZERO_SO, "foreign 0", rows_untold, COUNT_OF(rows_untold));
    kineto_trace_release(t);
    unload(ZERO_SO);
}

static void the_revision_between_works_with_its_option(void **state)
{
    (void)state;
    load(A_SO, "rev=a");
    assert_string_equal(info_of(A_SO).revision, "a");
    kineto_trace *t = one_session(KINETO_KINDS_ALL);
    assert_life(A_SO, LIFE_A, ALL_TYPES);
    check_trace(t, A_SO, "foreign A", rows_b, COUNT_OF(rows_b));
    kineto_trace_release(t);
    unload(A_SO);
}

static void the_revision_between_gets_its_handle_and_no_kinds_without(void **state)
{
    (void)state;
    load(A_SO, NULL);
    kineto_trace *t = one_session(KINETO_KINDS_ALL);
    assert_life(A_SO, LIFE_A, "");
    check_trace(t, A_SO, "foreign A", rows_untold, COUNT_OF(rows_untold));
    kineto_trace_release(t);
    unload(A_SO);
}

static void the_first_numbering_works_with_its_option(void **state)
{
    (void)state;
    load(EARLY_SO, "rev=early");
    kineto_plugin_info info = info_of(EARLY_SO);
    assert_string_equal(info.revision, "early");
    assert_true(info.kinds ==
                (KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |
                 KINETO_KIND_BIT(KINETO_KIND_RUNTIME) | KINETO_KIND_BIT(KINETO_KIND_CUDA_SYNC) |
                 KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER)));
    kineto_trace *t = one_session(KINETO_KINDS_ALL);
    assert_life(EARLY_SO, LIFE_0, "");
    check_trace(t, EARLY_SO, "foreign E", rows_early, COUNT_OF(rows_early));
    kineto_trace_release(t);
    unload(EARLY_SO);
}

static void all_revisions_work_side_by_side(void **state)
{
    (void)state;
    load(B_SO, "rev=b");
    load(ZERO_SO, "");
    load(A_SO, "rev=a");
    load(EARLY_SO, "rev=early");
    for (int i = 0; i < 3; i++) {
        kineto_trace *t = one_session(KINETO_KINDS_ALL);
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(ledger(t, "foreign B", "delivered"), 24);
        assert_int_equal(ledger(t, "foreign 0", "delivered"), 2);
        assert_int_equal(ledger(t, "foreign A", "delivered"), 24);
        assert_int_equal(ledger(t, "foreign E", "delivered"), 4);
        assert_int_equal(kineto_trace_count(t), 24 + 2 + 24 + 4);
        kineto_trace_release(t);
    }
    const char *const all[] = {B_SO, ZERO_SO, A_SO, EARLY_SO};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        (void)journal(all[i]);
        unload(all[i]);
    }
}

static void correlation_ids_reach_old_plug_ins(void **state)
{
    (void)state;
    load(B_SO, NULL);
    kineto_session *s = record();
    forget(B_SO);
    kineto_correlation_push(11);
    kineto_user_correlation_push(12);
    kineto_user_correlation_pop();
    kineto_correlation_pop();
    assert_string_equal(journal(B_SO), "11 push;12 push user;pop user;pop;");
    kineto_trace_release(finish(s));
    unload(B_SO);
}

#define TEST(name) cmocka_unit_test_teardown(name, unload_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_last_revision_works_unchanged),
        TEST(a_plug_in_gets_the_enabled_kinds_in_its_own_numbers),
        TEST(the_first_revision_works_unchanged),
        TEST(the_revision_between_works_with_its_option),
        TEST(the_revision_between_gets_its_handle_and_no_kinds_without),
        TEST(the_first_numbering_works_with_its_option),
        TEST(all_revisions_work_side_by_side),
        TEST(correlation_ids_reach_old_plug_ins),
    };
    return RUN_TESTS(tests);
}
