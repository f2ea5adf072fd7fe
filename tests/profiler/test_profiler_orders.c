/* Calls in wrong orders, and with nothing: each is a status with a text, and harmless. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

#include <ckineto/host.h>
#include <ckineto/stubs.h>

#include <stddef.h>
#include <sys/mman.h>

static kineto_profiler *created(void)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    kineto_error err = {0};
    if (kineto_profiler_create(&c, ONLY(CPU), 0, &p, &err))
        fail_msg("not created: %s", err.message);
    return p;
}

static void a_handle_is_started_and_stopped_in_turn(void **state)
{
    (void)state;
    kineto_profiler *p = created();
    kineto_profiler_result *r = NULL;
    expect(KINETO_E_STATE, "not running", kineto_profiler_stop(p, &r, &err));
    assert_null(r);
    expect(KINETO_E_STATE, "not running", kineto_profiler_pause(p, true, &err));
    expect(KINETO_E_STATE, "not running", kineto_profiler_join(p, &err));
    expect(KINETO_E_STATE, "not running", kineto_profiler_leave(p, &err));
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    expect(KINETO_E_STATE, "running already", kineto_profiler_start(p, &err));
    expect(KINETO_E_STATE, "", kineto_profiler_join(p, &err)); /* is in already */
    assert_int_equal(kineto_profiler_leave(p, NULL), KINETO_OK);
    expect(KINETO_E_STATE, "", kineto_profiler_leave(p, &err));
    assert_int_equal(kineto_profiler_join(p, NULL), KINETO_OK);
    run_op("one");
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
    expect(KINETO_E_STATE, "not running", kineto_profiler_stop(p, &r, &err));
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK); /* again */
    run_op("two");
    run_op("three");
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    kineto_profiler_destroy(p); /* while it runs */
    assert_int_equal(run_op("after"), 0);
}

static void nothing_is_an_argument(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    kineto_profiler_result *r = NULL;
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_create(&c, ONLY(CPU), 0, NULL, &err));
    expect(KINETO_E_ARGUMENT, "config", kineto_profiler_create(NULL, ONLY(CPU), 0, &p, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_start(NULL, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_stop(NULL, &r, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_pause(NULL, true, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_join(NULL, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_leave(NULL, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_prepare(NULL, ONLY(CPU), &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_enable(NULL, ONLY(CPU), 0, &err));
    expect(KINETO_E_ARGUMENT, "NULL",
           kineto_profiler_enable_with_post_process(NULL, ONLY(CPU), NULL, NULL, 0, &err));
    assert_false(kineto_profiler_config_get(NULL));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_ondemand_prepare(NULL, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_memory_profile_export(NULL, &err));
    expect(KINETO_E_ARGUMENT, "NULL", kineto_profiler_result_save(NULL, "/tmp/x.json", &err));
    expect(KINETO_E_ARGUMENT, "values", kineto_profiler_config_from_values(NULL, 3, &c, &err));
    kineto_profiler_set_post_process(NULL, NULL, NULL);
    kineto_post_event_add_frame(NULL, "x");
    kineto_post_event_add_module(NULL, NULL);
    kineto_profiler_destroy(NULL);
    kineto_profiler_report_backend_event_ns(0, 1, 0, KINETO_SCOPE_FUNCTION, NULL, NULL);
    kineto_profiler_report_backend_event_ns(0, 1, 0, KINETO_NUM_SCOPES, "x", "y");
    assert_null(kineto_profiler_result_retain(NULL));
    assert_null(kineto_profiler_result_trace(NULL));
    assert_int_equal(kineto_profiler_result_tree_parent(NULL, 0), KINETO_NO_ROW);
    assert_int_equal(kineto_profiler_result_tree_first_child(NULL, 0), KINETO_NO_ROW);
    assert_int_equal(kineto_profiler_result_tree_next_sibling(NULL, 0), KINETO_NO_ROW);
}

static void a_config_must_make_sense(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    c.size = 0;
    expect(KINETO_E_ARGUMENT, "kineto_profiler_config_init",
           kineto_profiler_create(&c, ONLY(CPU), 0, &p, &err));
    c = config_of(KINETO_STATE_KINETO);
    c.retention = 77;
    expect(KINETO_E_ARGUMENT, "", kineto_profiler_create(&c, ONLY(CPU), 0, &p, &err));
    assert_null(p);
    c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = SIZE_MAX;
    assert_int_not_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    assert_null(p);
    struct {
        kineto_profiler_config config;
        uint64_t more;
    } newer = {.config = config_of(KINETO_STATE_KINETO), .more = 0};
    newer.config.size = sizeof newer;
    assert_int_equal(kineto_profiler_create(&newer.config, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    kineto_profiler_destroy(p);
    newer.more = 1;
    expect(KINETO_E_UNSUPPORTED, "newer",
           kineto_profiler_create(&newer.config, ONLY(CPU), 0, &p, &err));
    static const char *const events[] = {"cycles", NULL};
    c = config_of(KINETO_STATE_KINETO);
    c.experimental.performance_events = events;
    c.experimental.performance_event_count = 2;
    assert_int_not_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    c.experimental.performance_event_count = SIZE_MAX / 2;
    assert_int_not_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    assert_null(p);
}

/* A post process of a profiler that is switched off, of one that is replaced. */
static void never(int64_t handle, kineto_post_event *event, void *user)
{
    (void)handle, (void)event, (void)user;
    fail();
}

/* Of another version: what they have ends at the end of a page before an inaccessible one. */
static void configs_are_read_and_written_within_their_size_only(void **state)
{
    (void)state;
    static const size_t sizes[] = {offsetof(kineto_profiler_config, experimental),
                                   offsetof(kineto_profiler_config, trace_id)};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(pages, MAP_FAILED);
    assert_int_equal(mprotect(pages + page, page, PROT_NONE), 0);
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
        kineto_profiler_config *older = (kineto_profiler_config *)(pages + page - sizes[i]);
        c.size = sizes[i];
        c.with_flops = true;
        memcpy(older, &c, c.size);
        assert_int_equal(kineto_profiler_prepare(older, ONLY(CPU), NULL), KINETO_OK);
        enable_with(older, ONLY(CPU));
        expect(KINETO_E_STATE, "already", kineto_profiler_enable(older, ONLY(CPU), 0, &err));
        older->with_flops = false;
        assert_true(kineto_profiler_config_get(older));
        assert_true(older->with_flops && older->size == sizes[i]);
        kineto_profiler_result_release(disabled());
        static const int64_t values[] = {KINETO_STATE_KINETO, 1, 1};
        memset(&older->state, 0xff, sizes[i] - sizeof older->size);
        assert_int_equal(kineto_profiler_config_from_values(values, 3, older, NULL), KINETO_OK);
        assert_true(older->size == sizes[i] && older->report_input_shapes && !older->with_flops);
        expect(KINETO_E_UNSUPPORTED, "",
               (older->state = KINETO_STATE_NVTX,
                kineto_profiler_enable_with_post_process(older, 0, never, NULL, 0, &err)));
    }
    assert_int_equal(munmap(pages, 2 * page), 0);
    kineto_profiler_config none = {.size = 0};
    assert_false(kineto_profiler_config_get(&none));
    expect(KINETO_E_ARGUMENT, "size",
           kineto_profiler_config_from_values((const int64_t[]){6, 0, 0}, 3, &none, &err));
    expect(KINETO_E_ARGUMENT, "config_init", kineto_profiler_enable(&none, ONLY(CPU), 0, &err));
}

static void without_a_profiler_there_is_a_status(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    expect(KINETO_E_STATE, "not running", kineto_profiler_disable(NULL, &err));
    expect(KINETO_E_STATE, "no profiler",
           kineto_profiler_pause_collection(false, ONLY(CPU), &err));
    expect(KINETO_E_ARGUMENT, "No activities",
           kineto_profiler_pause_collection(false, 0, &err));
    expect(KINETO_E_ARGUMENT, "No activities",
           kineto_profiler_pause_collection(false, 1u << 20, &err));
    expect(KINETO_E_STATE, "not enabled in main thread",
           kineto_profiler_enable_in_child_thread(&err));
    expect(KINETO_E_STATE, "not running in this thread",
           kineto_profiler_disable_in_child_thread(&err));
    assert_false(kineto_profiler_config_get(&c));
    expect(KINETO_E_STATE, "not prepared", kineto_ondemand_start(&err));
    expect(KINETO_E_STATE, "not running", kineto_ondemand_stop(&err));
    expect(KINETO_E_STATE, "no memory profile", kineto_memory_profile_stop(&err));
    assert_false(kineto_profiler_enabled());
    kineto_profiler_report_gc(true);
    kineto_profiler_report_gc(false);
    kineto_profiler_step();
}

/* Also without an error argument. */
static void errors_may_be_left_out(void **state)
{
    (void)state;
    assert_int_equal(kineto_profiler_disable(NULL, NULL), KINETO_E_STATE);
    assert_int_equal(kineto_profiler_enable(NULL, 0, 0, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profiler_stop(NULL, NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_ondemand_start(NULL), KINETO_E_STATE);
    enable_plain();
    assert_int_equal(kineto_profiler_disable(NULL, NULL), KINETO_OK); /* discards */
}

/* What was prepared is used only for what it was prepared for. */
static void another_config_than_the_prepared_one_holds(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_site *site = kineto_function_site("aten::add", "Tensor", KINETO_SCOPE_FUNCTION);
    kineto_function f;
    assert_int_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK); /* again */
    c.experimental.capture_overload_names = true;
    enable_with(&c, ONLY(CPU));
    kineto_function_begin(&f, site, NULL, 0);
    kineto_function_end(&f);
    kineto_profiler_result *r = disabled();
    (void)event_named(r, "aten::add.Tensor");
    kineto_profiler_result_release(r);

    assert_int_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK);
    c.experimental.capture_overload_names = false;
    assert_int_equal(kineto_profiler_enable(&c, ONLY(CPU), 1u << KINETO_SCOPE_USER_SCOPE, NULL),
                     KINETO_OK);
    run_op("none");
    run_scoped("user", KINETO_SCOPE_USER_SCOPE);
    r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
}

static void states_that_do_not_record_cannot_be_prepared(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_NVTX);
    assert_int_equal(kineto_profiler_prepare(&c, 0, NULL), KINETO_OK); /* quietly, as PyTorch */
    c.state = KINETO_STATE_ITT;
    assert_int_equal(kineto_profiler_prepare(&c, 0, NULL), KINETO_OK);
    static const uint32_t others[] = {KINETO_STATE_DISABLED, KINETO_STATE_CPU, KINETO_STATE_CUDA,
                                      KINETO_STATE_PRIVATEUSE1, KINETO_STATE_KINETO_ONDEMAND};
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        c.state = others[i];
        expect(KINETO_E_UNSUPPORTED, "Supported only in Kineto profiler",
               kineto_profiler_prepare(&c, ONLY(CPU), &err));
    }
    c.state = 1000;
    assert_int_not_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK);
}

static void count(int64_t handle, kineto_post_event *event, void *user)
{
    (void)handle;
    ++*(int *)user;
    kineto_post_event_add_frame(event, NULL);
    kineto_post_event_add_frame(event, "");
    kineto_post_event_add_module(event, "m\"\n\xff");
}
static void a_post_process_can_be_changed_and_may_say_nothing(void **state)
{
    (void)state;
    int n = 0;
    kineto_profiler *p = created();
    kineto_profiler_result *r = NULL;
    kineto_profiler_set_post_process(p, never, NULL);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    run_op("a"), run_op("b");
    kineto_profiler_report_backend_event_ns(now_realtime_ns(), now_realtime_ns() + 10, 5,
                                            KINETO_SCOPE_FUNCTION, "c", "backend");
    usleep(100);
    kineto_profiler_set_post_process(p, count, &n);
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    assert_int_equal(n, 3); /* operators and the backend's */
    kineto_event e = event_named(r, "c");
    assert_text(kineto_event_module_hierarchy(&e), "m\"\n\xff.");
    assert_false(kineto_event_has_stack(&e));
    kineto_profiler_result_release(r);
    kineto_profiler_set_post_process(p, NULL, NULL);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    run_op("a");
    assert_int_equal(kineto_profiler_stop(p, NULL, NULL), KINETO_OK);
    assert_int_equal(n, 3);
    kineto_profiler_destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(a_handle_is_started_and_stopped_in_turn),
        ROW(nothing_is_an_argument),
        ROW(a_config_must_make_sense),
        ROW(configs_are_read_and_written_within_their_size_only),
        ROW(without_a_profiler_there_is_a_status),
        ROW(errors_may_be_left_out),
        ROW(another_config_than_the_prepared_one_holds),
        ROW(states_that_do_not_record_cannot_be_prepared),
        ROW(a_post_process_can_be_changed_and_may_say_nothing),
    };
    return RUN_TESTS(tests);
}
