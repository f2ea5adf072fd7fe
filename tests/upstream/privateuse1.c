/* The registry of the backend that a framework leaves room for. The first four tests bear the names
 * that they have in PyTorch; they pass in one process, in any order. */
#include "mock.h"

#include <dlfcn.h>

/* ---- state at the begin of tests: nothing is registered --------------------------------------------------- */

static bool initialised; /* by a test that ran before in this process */

static void begin(void)
{
    (void)kineto_privateuse1_unregister();
    assert_false(kineto_privateuse1_has_profiler());
    assert_false(kineto_privateuse1_is_registered());
}

static mock *enter(int n, const char *name)
{
    mock *m = mock_reset(n, name);
    assert_int_equal(kineto_privateuse1_register(&interfaces[n]), KINETO_OK);
    return m;
}

static void initialise(void)
{
    assert_int_equal(kineto_privateuse1_init(), KINETO_OK);
    initialised = true;
}

/* Of a session with everything; the session initialises. */
static kineto_trace *one_session(void)
{
    initialised = true;
    return finish(record());
}

static void expect_session_of(const char *name, uint64_t events)
{
    kineto_trace *t = one_session();
    assert_int_equal(count_named(t, name), events);
    kineto_trace_release(t);
}

/* ---- the four ------------------------------------------------------------------------------------- */

static void *registry_of_thread(void *unused)
{
    (void)unused;
    return (void *)(uintptr_t)kineto_plugin_registry();
}

static void registry_singleton(void **state)
{
    (void)state;
    begin();
    void *other = NULL;
    pthread_t thread = start_thread(registry_of_thread, NULL);
    assert_int_equal(pthread_join(thread, &other), 0);
    assert_ptr_equal(other, kineto_plugin_registry());
    void *library = dlopen(OTHER_LIBRARY, RTLD_NOW);
    if (!library)
        fail_msg("%s", dlerror());
    const KinetoPlugin_Registry *(*their_registry)(void);
    bool (*they_have_profiler)(void);
    *(void **)&their_registry = dlsym(library, "other_registry");
    *(void **)&they_have_profiler = dlsym(library, "other_has_profiler");
    assert_ptr_equal(their_registry(), kineto_plugin_registry());
    assert_false(they_have_profiler());
    enter(0, "single");
    assert_true(they_have_profiler());
    assert_int_equal(dlclose(library), 0);
    begin();
}

static void register_factory(void **state)
{
    (void)state;
    begin();
    assert_int_equal(kineto_privateuse1_register(NULL), KINETO_E_ARGUMENT);
    assert_false(kineto_privateuse1_has_profiler());
    mock *m = enter(0, "factory");
    assert_true(kineto_privateuse1_has_profiler());
    assert_int_equal(kineto_privateuse1_is_registered(), initialised);
    assert_string_equal(m->calls, initialised ? "q" : "");
    begin();
}

static void on_kineto_init_forwarding(void **state)
{
    (void)state;
    begin();
    mock *m = enter(0, "forwarded");
    assert_int_equal(kineto_privateuse1_is_registered(), initialised);
    initialise();
    assert_true(kineto_privateuse1_is_registered());
    assert_string_equal(m->calls, "q");
    initialise(); /* once is enough */
    assert_string_equal(m->calls, "q");
    begin();
    m = enter(0, "at once"); /* as initialising is over */
    assert_true(kineto_privateuse1_is_registered());
    assert_string_equal(m->calls, "q");
    assert_false(kineto_plugin_unregister(&interfaces[0]) != 0); /* the host has it */
    begin();
}

static void end_to_end_profiling(void **state)
{
    (void)state;
    begin();
    mock *m = enter(0, "end to end");
    kineto_session *s = record();
    initialised = true;
    assert_true(kineto_privateuse1_is_registered());
    assert_string_equal(m->calls, "qcs");
    assert_int_equal(m->enabled_count, 2);
    assert_int_equal(m->enabled[0], KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    assert_int_equal(m->enabled[1], KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_RUNTIME);
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_string_equal(m->calls, "qcstpd");
    verify(t);
    assert_nothing_lost(t);
    kineto_activity a = find_only(t, "end to end");
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(a.start_ns, m->started_ns);
    assert_int_equal(ledger(t, "end to end", "delivered"), 1);
    kineto_trace_release(t);
    begin();
    assert_string_equal(m->calls, "qcstpd");
}

static const char *const the_four[] = {
    "PrivateUse1ProfilerTest.RegistrySingleton", "PrivateUse1ProfilerTest.RegisterFactory",
    "PrivateUse1ProfilerTest.OnKinetoInitForwarding", "PrivateUse1ProfilerTest.EndToEndProfiling"};

/* The n-th of the 24 orders. */
static void order_of(int n, const char *names[4])
{
    const char *left[4];
    memcpy(left, the_four, sizeof left);
    for (int count = 4; count > 0; count--) {
        int take = n % count;
        n /= count;
        names[4 - count] = left[take];
        memmove(&left[take], &left[take + 1], (size_t)(count - take - 1) * sizeof *left);
    }
}

static void the_four_pass_in_one_process_in_any_order(void **state)
{
    (void)state;
    for (int n = 0; n < 24; n++) {
        const char *names[4];
        order_of(n, names);
        pid_t pid = fork();
        if (pid == 0) {
            execl("/proc/self/exe", "privateuse1", names[0], names[1], names[2], names[3],
                  (char *)NULL);
            _exit(127);
        }
        assert_exit(pid, 0);
    }
}

/* ---- replacing ------------------------------------------------------------------------------------ */

static char log_path[64];

static bool log_says(const char *text)
{
    char log[16384];
    read_whole(log_path, log, sizeof log);
    return strstr(log, text) != NULL;
}

static void forget_log(void) { assert_int_equal(truncate(log_path, 0), 0); }

static void registering_again_replaces_and_warns(void **state)
{
    (void)state;
    begin();
    enter(0, "first");
    forget_log();
    mock *second = enter(1, "second");
    assert_true(log_says("WARNING"));
    assert_true(log_says("replaces"));
    initialise();
    assert_string_equal(second->calls, "q");
    expect_session_of("second", 1);
    expect_session_of("first", 0);
    begin();
}

static void replacing_takes_effect_at_once_while_no_session_records(void **state)
{
    (void)state;
    begin();
    initialise();
    mock *first = enter(0, "first");
    expect_session_of("first", 1);
    mock *second = enter(1, "second");
    assert_true(kineto_privateuse1_is_registered());
    assert_string_equal(second->calls, "q");
    assert_int_not_equal(kineto_plugin_unregister(&interfaces[0]), 0); /* gone already */
    expect_session_of("second", 1);
    assert_string_equal(first->calls, "qcstpd");
    begin();
}

static void replacing_while_a_session_runs_takes_effect_at_the_next(void **state)
{
    (void)state;
    begin();
    mock *first = enter(0, "first");
    kineto_session *s = record();
    mock *second = enter(1, "second");
    assert_string_equal(first->calls, "qcs");
    assert_string_equal(second->calls, "");
    assert_true(kineto_privateuse1_has_profiler());
    kineto_trace *t = finish(s);
    assert_string_equal(first->calls, "qcstpd");
    assert_int_equal(count_named(t, "first"), 1);
    assert_int_equal(count_named(t, "second"), 0);
    kineto_trace_release(t);
    assert_int_not_equal(kineto_plugin_unregister(&interfaces[0]), 0); /* gone when it ended */
    expect_session_of("second", 1);
    assert_string_equal(first->calls, "qcstpd");
    assert_string_equal(second->calls, "qcstpd");
    begin();
}

static void the_last_of_several_replacements_counts(void **state)
{
    (void)state;
    begin();
    mock *first = enter(0, "first");
    kineto_session *s = record();
    mock *second = enter(1, "second");
    assert_int_equal(kineto_privateuse1_register(&interfaces[0]), KINETO_OK); /* after all */
    kineto_trace_release(finish(s));
    expect_session_of("first", 1);
    assert_string_equal(first->calls, "qcstpdcstpd");
    assert_string_equal(second->calls, "");
    begin();
}

static void a_session_that_is_started_again_has_the_new_one(void **state)
{
    (void)state;
    begin();
    enter(0, "first");
    kineto_session *s = NULL;
    kineto_trace *t = NULL;
    assert_int_equal(kineto_session_create(NULL, &s, NULL), KINETO_OK);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
    enter(1, "second");
    assert_int_equal(kineto_session_stop(s, &t, NULL), KINETO_OK);
    assert_int_equal(count_named(t, "first"), 1);
    kineto_trace_release(t);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
    assert_int_equal(kineto_session_stop(s, &t, NULL), KINETO_OK);
    assert_int_equal(count_named(t, "first"), 0);
    assert_int_equal(count_named(t, "second"), 1);
    kineto_trace_release(t);
    kineto_session_destroy(s);
    begin();
}

/* ---- refusals ------------------------------------------------------------------------------------- */

static void interfaces_that_lack_functions_are_refused(void **state)
{
    (void)state;
    begin();
    KinetoPlugin_ProfilerInterface broken = interfaces[0];
    broken.profilerProcessEvents = NULL;
    assert_int_equal(kineto_privateuse1_register(&broken), KINETO_E_ARGUMENT);
    broken = interfaces[0];
    broken.unpaddedStructSize -= 8;
    assert_int_equal(kineto_privateuse1_register(&broken), KINETO_E_ARGUMENT);
    assert_false(kineto_privateuse1_has_profiler());
}

static void one_that_fails_is_forwarded_again_with_the_next_session(void **state)
{
    (void)state;
    begin();
    initialise();
    mock *m = mock_reset(0, "shy");
    m->refuse_query = 3;
    assert_int_equal(kineto_privateuse1_register(&interfaces[0]), KINETO_E_PLUGIN);
    assert_true(kineto_privateuse1_has_profiler());
    assert_false(kineto_privateuse1_is_registered());
    assert_int_equal(kineto_privateuse1_init(), KINETO_E_PLUGIN);
    m->refuse_query = 0;
    expect_session_of("shy", 1);
    assert_true(kineto_privateuse1_is_registered());
    begin();
}

static void one_that_fails_replaces_no_other(void **state)
{
    (void)state;
    begin();
    initialise();
    enter(0, "steady");
    mock *bad = mock_reset(1, "bad");
    bad->refuse_query = 3;
    assert_int_equal(kineto_privateuse1_register(&interfaces[1]), KINETO_E_PLUGIN);
    expect_session_of("steady", 1);
    kineto_session *s = record(); /* the same when it was to be tried after a session */
    assert_int_equal(kineto_privateuse1_register(&interfaces[1]), KINETO_OK);
    kineto_trace_release(finish(s));
    expect_session_of("steady", 1);
    begin();
}

static void a_profiler_may_not_change_the_registry_itself(void **state)
{
    (void)state;
    begin();
    initialise();
    mock *m = mock_reset(0, "meddler");
    m->meddle = true;
    assert_int_equal(kineto_privateuse1_register(&interfaces[0]), KINETO_OK);
    assert_int_equal(m->in_query, KINETO_E_STATE);
    assert_true(kineto_privateuse1_is_registered());
    begin();
}

/* ---- leaving -------------------------------------------------------------------------------------- */

static void unregistering_withdraws_from_the_host(void **state)
{
    (void)state;
    begin();
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_E_NOT_FOUND);
    mock *m = enter(0, "gone");
    initialise();
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
    assert_false(kineto_privateuse1_has_profiler());
    assert_false(kineto_privateuse1_is_registered());
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_E_NOT_FOUND);
    expect_session_of("gone", 0);
    assert_string_equal(m->calls, "q");
}

static void unregistering_ends_its_part_in_a_session_that_runs(void **state)
{
    (void)state;
    begin();
    mock *m = enter(0, "leaves");
    kineto_session *s = record();
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
    assert_string_equal(m->calls, "qcstpd");
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "leaves"), 1); /* what it had is kept */
    kineto_trace_release(t);
    assert_string_equal(m->calls, "qcstpd");
}

static void unregistering_takes_a_waiting_successor_along(void **state)
{
    (void)state;
    begin();
    mock *first = enter(0, "first");
    kineto_session *s = record();
    mock *second = enter(1, "second");
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
    assert_string_equal(first->calls, "qcstpd");
    kineto_trace_release(finish(s));
    expect_session_of("second", 0);
    assert_string_equal(second->calls, "");
}

static void who_left_may_come_again(void **state)
{
    (void)state;
    begin();
    for (int i = 0; i < 3; i++) {
        mock *m = enter(0, "again");
        expect_session_of("again", 1);
        assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
        assert_string_equal(m->calls, "qcstpd");
    }
    kineto_session *s = record(); /* also during a session: it joins at once */
    mock *m = enter(0, "again");
    assert_string_equal(m->calls, "qcs");
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "again"), 1);
    kineto_trace_release(t);
    begin();
}

/* ---- threads -------------------------------------------------------------------------------------- */

static void *come_and_go(void *which)
{
    int n = *(int *)which;
    for (int i = 0; i < 50; i++) {
        (void)kineto_privateuse1_register(&interfaces[n]);
        (void)kineto_privateuse1_is_registered();
        (void)kineto_privateuse1_init();
        if (i % 3 == 0)
            (void)kineto_privateuse1_unregister();
    }
    return NULL;
}

/* Of what a mock wrote down: every session that began has ended, in order. */
static void expect_whole_lives(const mock *m)
{
    const char *c = m->calls;
    while (*c) {
        size_t n = *c == 'q' ? 1 : 5;
        if (*c != 'q' && strncmp(c, "cstpd", 5) != 0)
            fail_msg("%s: %s", m->name, m->calls);
        c += n;
    }
}

static void threads_may_do_all_of_this_at_once(void **state)
{
    (void)state;
    begin();
    initialise();
    mock_reset(0, "left");
    mock_reset(1, "right");
    int which[2] = {0, 1};
    forget_log();
    pthread_t threads[2] = {start_thread(come_and_go, &which[0]),
                            start_thread(come_and_go, &which[1])};
    for (int i = 0; i < 5; i++)
        kineto_trace_release(one_session());
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    begin();
    expect_whole_lives(&mocks[0]);
    expect_whole_lives(&mocks[1]);
    enter(0, "left");
    expect_session_of("left", 1);
    begin();
}

static const struct CMUnitTest tests[] = {
    {"PrivateUse1ProfilerTest.RegistrySingleton", registry_singleton, NULL, NULL, NULL},
    {"PrivateUse1ProfilerTest.RegisterFactory", register_factory, NULL, NULL, NULL},
    {"PrivateUse1ProfilerTest.OnKinetoInitForwarding", on_kineto_init_forwarding, NULL, NULL, NULL},
    {"PrivateUse1ProfilerTest.EndToEndProfiling", end_to_end_profiling, NULL, NULL, NULL},
    cmocka_unit_test(the_four_pass_in_one_process_in_any_order),
    cmocka_unit_test(registering_again_replaces_and_warns),
    cmocka_unit_test(replacing_takes_effect_at_once_while_no_session_records),
    cmocka_unit_test(replacing_while_a_session_runs_takes_effect_at_the_next),
    cmocka_unit_test(the_last_of_several_replacements_counts),
    cmocka_unit_test(a_session_that_is_started_again_has_the_new_one),
    cmocka_unit_test(interfaces_that_lack_functions_are_refused),
    cmocka_unit_test(one_that_fails_is_forwarded_again_with_the_next_session),
    cmocka_unit_test(one_that_fails_replaces_no_other),
    cmocka_unit_test(a_profiler_may_not_change_the_registry_itself),
    cmocka_unit_test(unregistering_withdraws_from_the_host),
    cmocka_unit_test(unregistering_ends_its_part_in_a_session_that_runs),
    cmocka_unit_test(unregistering_takes_a_waiting_successor_along),
    cmocka_unit_test(who_left_may_come_again),
    cmocka_unit_test(threads_may_do_all_of_this_at_once),
};

int main(int argc, char **argv)
{
    snprintf(log_path, sizeof log_path, "/tmp/ckineto-privateuse1-%d.log", (int)getpid());
    setenv("KINETO_LOG_FILE", log_path, 1);
    int failed = run_named(tests, COUNT_OF(tests), argc, argv);
    (void)unlink(log_path);
    return failed;
}
