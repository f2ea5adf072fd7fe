/* Profilers and threads: several at once, stopped by others, joined and left, paused amid
 * operators, with more operators than there is room. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

/* ---- stopping -------------------------------------------------------------------------------------- */

static void *disable_it(void *unused)
{
    (void)unused;
    return disabled();
}

static void any_thread_may_disable(void **state)
{
    (void)state;
    enable_plain();
    run_op("aten::mm");
    kineto_profiler_result *r = on_thread(disable_it, NULL);
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
    assert_false(kineto_profiler_enabled());
    assert_int_equal(run_op("aten::after"), 0);
    enable_plain(); /* this thread is free again */
    kineto_profiler_result_release(disabled());
}

static void *enable_and_end(void *unused)
{
    enable_plain();
    run_op("aten::gone");
    return unused;
}

static void a_thread_may_end_with_its_profiler_enabled(void **state)
{
    (void)state;
    on_thread(enable_and_end, NULL);
    assert_false(kineto_profiler_enabled()); /* not for this thread */
    assert_true(kineto_profiler_is_enabled_in_main_thread());
    kineto_profiler_result *r = disabled();
    (void)event_named(r, "aten::gone");
    kineto_profiler_result_release(r);
}

static void *enable_under_a_name(void *name)
{
    enable_plain();
    run_op(name);
    return NULL;
}

static pthread_barrier_t gate;
static void *enable_and_stay(void *unused)
{
    enable_under_a_name((char[]){"stays"});
    (void)pthread_barrier_wait(&gate); /* enabled */
    (void)pthread_barrier_wait(&gate); /* the others' are gone */
    kineto_profiler_result *r = disabled();
    (void)event_named(r, "stays");
    kineto_profiler_result_release(r);
    return unused;
}

static void what_threads_that_ended_left_enabled_can_be_stopped(void **state)
{
    (void)state;
    kineto_profiler_result *r = NULL;
    assert_int_equal(pthread_barrier_init(&gate, NULL, 2), 0);
    on_thread(enable_under_a_name, (char[]){"first"});
    pthread_t thread = start_thread(enable_and_stay, NULL);
    (void)pthread_barrier_wait(&gate);
    on_thread(enable_under_a_name, (char[]){"second"});
    enable_under_a_name((char[]){"own"});
    static const char *const names[] = {"own", "second", "first"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        r = disabled();
        (void)event_named(r, names[i]);
        assert_int_equal(kineto_profiler_result_event_count(r), 1);
        kineto_profiler_result_release(r);
    }
    (void)pthread_barrier_wait(&gate);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(pthread_barrier_destroy(&gate), 0);
}

static double resident_bytes(const char *key)
{
    char text[8192];
    unsigned long long kib = 0;
    assert_true(read_whole("/proc/self/status", text, sizeof text) > 0);
    const char *at = strstr(text, key);
    if (at)
        (void)sscanf(at + strlen(key), ": %llu", &kib);
    return (double)kib * 1024;
}

static void *prepare_much(void *unused)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = (size_t)64 << 20;
    assert_int_equal(kineto_profiler_prepare(&c, ONLY(CPU), NULL), KINETO_OK);
    assert_true(resident_bytes("VmRSS") > 64e6);
    return unused;
}

/* No other thread can enable it. */
static void what_a_thread_prepared_goes_when_it_ends(void **state)
{
    (void)state;
    double before = resident_bytes("VmRSS");
    on_thread(prepare_much, NULL);
    assert_true(SANITIZED || resident_bytes("VmRSS") < before + 32e6);
}

static void *stop_handle(void *p)
{
    kineto_profiler_result *r = NULL;
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    return r;
}

static void any_thread_may_stop_a_handle_within_an_operator(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    kineto_function f;
    KINETO_OPERATOR(site, "aten::open");
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    kineto_function_begin(&f, &site, NULL, 0);
    kineto_profiler_result *r = on_thread(stop_handle, p);
    kineto_function_end(&f);
    kineto_event e = event_named(r, "aten::open");
    assert_true(e.activity.flags & KINETO_ACTIVITY_OPEN_END);
    (void)trace_of(r);
    kineto_profiler_result_release(r);
    kineto_profiler_destroy(p);
}

static void *try_disable(void *won)
{
    kineto_profiler_result *r = NULL;
    kineto_status status = kineto_profiler_disable(&r, NULL);
    assert_true(status == KINETO_OK || status == KINETO_E_STATE);
    assert_int_equal(r != NULL, status == KINETO_OK);
    if (r)
        __atomic_add_fetch((int *)won, 1, __ATOMIC_RELAXED);
    kineto_profiler_result_release(r);
    return NULL;
}

static void of_those_that_disable_at_once_one_does(void **state)
{
    (void)state;
    for (int round = 0; round < 20; round++) {
        pthread_t threads[4];
        int won = 0;
        enable_plain();
        for (int i = 0; i < 4; i++)
            threads[i] = start_thread(try_disable, &won);
        for (int i = 0; i < 4; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(won, 1);
    }
}

static void *try_enable(void *line)
{
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.profile_all_threads = true;
    (void)pthread_barrier_wait(line);
    kineto_status status = kineto_profiler_enable(&c, ONLY(CPU), 0, NULL);
    assert_true(status == KINETO_OK || status == KINETO_E_STATE);
    return status ? NULL : line;
}

static void of_those_that_enable_one_of_all_threads_at_once_one_does(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pthread_t threads[2];
        pthread_barrier_t line;
        int won = 0;
        assert_int_equal(pthread_barrier_init(&line, NULL, 2), 0);
        for (int i = 0; i < 2; i++)
            threads[i] = start_thread(try_enable, &line);
        for (int i = 0; i < 2; i++) {
            void *mine = NULL;
            assert_int_equal(pthread_join(threads[i], &mine), 0);
            won += mine != NULL;
        }
        assert_int_equal(won, 1);
        run_op("aten::mm");
        kineto_profiler_result *r = disabled();
        assert_int_equal(kineto_profiler_result_event_count(r), 1);
        kineto_profiler_result_release(r);
        assert_int_equal(run_op("aten::after"), 0); /* the one that lost records no more */
        assert_int_equal(pthread_barrier_destroy(&line), 0);
    }
}

/* ---- several at once --------------------------------------------------------------------------------- */

enum { PROFILERS = 6, CYCLES = 8 };
static void *own_cycles(void *which)
{
    char name[24];
    (void)snprintf(name, sizeof name, "of %d", (int)(intptr_t)which);
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = (size_t)8 << 20;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        enable_with(&c, ONLY(CPU));
        for (int i = 0; i < 100 + cycle; i++)
            run_op(name);
        kineto_profiler_result *r = disabled();
        if (kineto_profiler_result_event_count(r) != (uint64_t)(100 + cycle) ||
            events_named(r, name) != (uint64_t)(100 + cycle))
            fail_msg("%s, cycle %d: %llu events", name, cycle,
                     (unsigned long long)kineto_profiler_result_event_count(r));
        kineto_profiler_result_release(r);
        run_op("between");
    }
    return NULL;
}

static void profilers_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    pthread_t threads[PROFILERS];
    for (intptr_t i = 0; i < PROFILERS; i++)
        threads[i] = start_thread(own_cycles, (void *)i);
    for (int i = 0; i < PROFILERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void *one_op(void *name)
{
    run_op(name);
    return NULL;
}

/* Overlapping in all ways: each has what happened while it ran, on its threads. */
static void handles_overlap_freely(void **state)
{
    (void)state;
    kineto_profiler_config own = config_of(KINETO_STATE_KINETO), all = own;
    all.experimental.profile_all_threads = true;
    kineto_profiler *a = NULL, *b = NULL, *g = NULL;
    kineto_profiler_result *ra = NULL, *rb = NULL, *rg = NULL;
    assert_int_equal(kineto_profiler_create(&own, ONLY(CPU), 0, &a, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_create(&own, ONLY(CPU), 0, &b, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_create(&all, ONLY(CPU), 0, &g, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_start(a, NULL), KINETO_OK);
    run_op("1 a");
    assert_int_equal(kineto_profiler_start(g, NULL), KINETO_OK);
    run_op("2 ag");
    on_thread(one_op, (char[]){"3 g"});
    assert_int_equal(kineto_profiler_start(b, NULL), KINETO_OK);
    run_op("4 abg");
    assert_int_equal(kineto_profiler_stop(a, &ra, NULL), KINETO_OK);
    run_op("5 bg");
    assert_int_equal(kineto_profiler_stop(g, &rg, NULL), KINETO_OK);
    run_op("6 b");
    assert_int_equal(kineto_profiler_stop(b, &rb, NULL), KINETO_OK);
    run_op("7");
    assert_int_equal(kineto_profiler_result_event_count(ra), 3);
    (void)event_named(ra, "1 a"), (void)event_named(ra, "2 ag"), (void)event_named(ra, "4 abg");
    assert_int_equal(kineto_profiler_result_event_count(rg), 4);
    (void)event_named(rg, "2 ag"), (void)event_named(rg, "3 g");
    (void)event_named(rg, "4 abg"), (void)event_named(rg, "5 bg");
    assert_int_equal(kineto_profiler_result_event_count(rb), 3);
    (void)event_named(rb, "4 abg"), (void)event_named(rb, "5 bg"), (void)event_named(rb, "6 b");
    kineto_profiler_result_release(ra);
    kineto_profiler_result_release(rb);
    kineto_profiler_result_release(rg);
    kineto_profiler_destroy(a);
    kineto_profiler_destroy(b);
    kineto_profiler_destroy(g);
}

/* Shapes are for who asked for them, though another profiler has them recorded. */
static void each_sees_what_it_asked_for(void **state)
{
    (void)state;
    kineto_profiler_config plain = config_of(KINETO_STATE_KINETO), shapes = plain;
    shapes.report_input_shapes = true;
    shapes.experimental.profile_all_threads = true;
    enable_with(&plain, ONLY(CPU));
    enable_with(&shapes, ONLY(CPU));
    kineto_input in = kineto_input_int(5);
    kineto_function_info info;
    kineto_function_info_init(&info);
    info.inputs = &in;
    info.input_count = 1;
    run_op_with("aten::relu", &info);
    kineto_profiler_result *with = disabled(), *without = disabled();
    kineto_event e = event_named(with, "aten::relu");
    assert_true(kineto_event_has_shapes(&e));
    e = event_named(without, "aten::relu");
    assert_false(kineto_event_has_shapes(&e));
    kineto_profiler_result_release(with);
    kineto_profiler_result_release(without);
}

/* ---- joining ------------------------------------------------------------------------------------------ */

static void *join_and_end(void *unused)
{
    kineto_error err;
    if (kineto_profiler_enable_in_child_thread(&err))
        fail_msg("%s", err.message);
    run_op("aten::child");
    return unused; /* does not leave */
}

static void threads_come_and_go(void **state)
{
    (void)state;
    enum { MANY = 300 };
    enable_plain();
    for (int i = 0; i < MANY; i++)
        on_thread(join_and_end, NULL);
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "aten::child"), MANY);
    assert_nothing_lost(trace_of(r));
    kineto_profiler_result_release(r);
}

static void *join_handle(void *p)
{
    assert_int_equal(kineto_profiler_join(p, NULL), KINETO_OK);
    run_op("aten::joined");
    assert_int_equal(kineto_profiler_leave(p, NULL), KINETO_OK);
    run_op("aten::left");
    return NULL;
}

static void a_thread_may_be_in_two_profilers(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    kineto_profiler *p = NULL;
    kineto_profiler_result *r = NULL;
    assert_int_equal(kineto_profiler_create(&c, ONLY(CPU), 0, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_start(p, NULL), KINETO_OK);
    enable_plain();
    on_thread(join_handle, p);
    run_op("aten::both");
    kineto_profiler_result *own = disabled();
    assert_int_equal(kineto_profiler_stop(p, &r, NULL), KINETO_OK);
    assert_int_equal(kineto_profiler_result_event_count(own), 1);
    assert_int_equal(kineto_profiler_result_event_count(r), 2);
    (void)event_named(r, "aten::joined");
    kineto_profiler_result_release(own);
    kineto_profiler_result_release(r);
    kineto_profiler_destroy(p);
}

static void one_of_all_threads_cannot_be_joined(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.experimental.profile_all_threads = true;
    enable_with(&c, ONLY(CPU));
    expect(KINETO_E_STATE, "already enabled in this thread",
           kineto_profiler_enable_in_child_thread(&err));
    expect(KINETO_E_STATE, "", kineto_profiler_disable_in_child_thread(&err));
    kineto_profiler_result_release(disabled());
}

/* ---- pausing ------------------------------------------------------------------------------------------ */

static void operators_are_cut_by_pauses_not_lost(void **state)
{
    (void)state;
    kineto_function before, within;
    KINETO_OPERATOR(site_before, "aten::before");
    KINETO_OPERATOR(site_within, "aten::within");
    enable_plain();
    kineto_function_begin(&before, &site_before, NULL, 0);
    assert_int_equal(kineto_profiler_pause_collection(true, ONLY(CPU), NULL), KINETO_OK);
    run_op("aten::unseen");
    kineto_function_begin(&within, &site_within, NULL, 0);
    kineto_function_end(&before); /* also ends what is inside */
    assert_int_equal(kineto_profiler_pause_collection(false, ONLY(CPU), NULL), KINETO_OK);
    kineto_function_end(&within);
    run_op("aten::seen");
    kineto_profiler_result *r = disabled();
    (void)event_named(r, "aten::before"), (void)event_named(r, "aten::seen");
    assert_int_equal(events_named(r, "aten::unseen"), 0);
    (void)trace_of(r);
    kineto_profiler_result_release(r);
}

static int busy, busy_threads;
static void *keep_busy(void *unused)
{
    assert_int_equal(kineto_profiler_enable_in_child_thread(NULL), KINETO_OK);
    __atomic_add_fetch(&busy_threads, 1, __ATOMIC_RELEASE);
    KINETO_OPERATOR(outer, "aten::outer");
    KINETO_OPERATOR(inner, "aten::inner");
    while (__atomic_load_n(&busy, __ATOMIC_RELAXED)) {
        kineto_function a, b;
        kineto_function_begin(&a, &outer, NULL, 0);
        kineto_function_begin(&b, &inner, NULL, 0);
        kineto_function_end(&b);
        kineto_function_end(&a);
        usleep(10);
    }
    return unused;
}

static void pauses_race_with_operators(void **state)
{
    (void)state;
    pthread_t threads[3];
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = (size_t)32 << 20;
    enable_with(&c, ONLY(CPU));
    __atomic_store_n(&busy, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        threads[i] = start_thread(keep_busy, NULL);
    while (__atomic_load_n(&busy_threads, __ATOMIC_ACQUIRE) < 3) /* they need the profiler to be there */
        usleep(100);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(kineto_profiler_pause_collection(!(i & 1), ONLY(CPU), NULL),
                         KINETO_OK);
        usleep(200);
    }
    kineto_profiler_result *r = disabled();
    __atomic_store_n(&busy, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(kineto_profiler_result_event_count(r) > 0);
    assert_nothing_lost(trace_of(r));
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r);
         i++) { /* none from within another's end */
        kineto_event e;
        assert_true(kineto_profiler_result_event(r, i, &e));
        assert_true(text_is(e.activity.name, "aten::outer") ||
                    text_is(e.activity.name, "aten::inner"));
    }
    kineto_profiler_result_release(r);
}

/* ---- forked children ------------------------------------------------------------------------------------ */

static void a_forked_child_does_no_harm(void **state)
{
    (void)state;
    enable_plain();
    run_op("aten::parent");
    pid_t pid = fork();
    if (pid == 0) {
        kineto_profiler_result *r = NULL;
        run_op("aten::child");
        (void)kineto_profiler_enabled();
        (void)kineto_profiler_pause_collection(true, ONLY(CPU), NULL);
        kineto_status status = kineto_profiler_disable(&r, NULL);
        kineto_profiler_result_release(r);
        (void)status; /* the recording is the parent's: any status, but no crash */
        _exit(0);
    }
    assert_exit(pid, 0);
    run_op("aten::parent");
    kineto_profiler_result *r = disabled();
    assert_int_equal(events_named(r, "aten::parent"), 2);
    kineto_profiler_result_release(r);
    enable_plain();
    run_op("aten::again");
    r = disabled();
    assert_int_equal(kineto_profiler_result_event_count(r), 1);
    kineto_profiler_result_release(r);
}

/* ---- much -------------------------------------------------------------------------------------------- */

enum { HEAVY = 8 };
static long per_thread;
static void *many_with_shapes(void *unused)
{
    int64_t dims[4] = {32, 512, 512, 128};
    kineto_tensor a = {.sizes = dims, .rank = 2, .dtype = KINETO_DTYPE_FLOAT}, b = a;
    b.sizes += 2;
    KINETO_OPERATOR(site, "aten::mm");
    for (long i = 0; i < per_thread; i++) {
        kineto_function f;
        dims[0] = i;
        kineto_input in[2] = {kineto_input_tensor(&a), kineto_input_tensor(&b)};
        kineto_function_begin(&f, &site, in, 2);
        kineto_function_end(&f);
    }
    return unused;
}

static kineto_profiler_result *run_heavy(size_t buffer_bytes, uint32_t retention)
{
    pthread_t threads[HEAVY];
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    c.buffer_bytes = buffer_bytes;
    c.retention = retention;
    c.report_input_shapes = true;
    c.experimental.profile_all_threads = true;
    enable_with(&c, ONLY(CPU));
    for (int i = 0; i < HEAVY; i++)
        threads[i] = start_thread(many_with_shapes, NULL);
    for (int i = 0; i < HEAVY; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    return disabled();
}

static void a_million_operators_of_8_threads_all_arrive_within_256_MB(void **state)
{
    (void)state;
    per_thread = FEWER(125000, 12500);
    kineto_profiler_result *r = run_heavy((size_t)256 << 20, KINETO_RETAIN_OLDEST);
    const kineto_trace *t = kineto_profiler_result_trace(r);
    assert_nothing_lost(t);
    assert_int_equal(kineto_profiler_result_event_count(r), HEAVY * per_thread);
    int64_t next[64] = {0};
    uint32_t tracks = kineto_trace_track_count(t);
    assert_in_range(tracks, HEAVY, 64);
    for (uint64_t i = 0; i < kineto_profiler_result_event_count(r); i++) { /* each thread's, in its order */
        kineto_event e;
        char expected[64];
        assert_true(kineto_profiler_result_event(r, i, &e));
        if (i % 97 && next[e.activity.track] % 97) { /* a sample: texts are slow to look at */
            next[e.activity.track]++;
            continue;
        }
        (void)snprintf(expected, sizeof expected, "[[%lld,512],[512,128]]",
                       (long long)next[e.activity.track]++);
        assert_text(kineto_event_shapes(&e), expected);
    }
    kineto_profiler_result_release(r);
}

static void memory_is_bounded_and_what_is_dropped_is_counted(void **state)
{
    (void)state;
    per_thread = FEWER(60000, 12500);
    for (int newest = 0; newest < 2; newest++) {
        double before = resident_bytes("VmRSS");
        kineto_profiler_result *r =
            run_heavy((size_t)4 << 20, newest ? KINETO_RETAIN_NEWEST : KINETO_RETAIN_OLDEST);
        double peak = resident_bytes("VmRSS") - before;
        const kineto_trace *t = trace_of(r);
        assert_true(kineto_trace_lost(t) > 0);
        assert_int_equal(kineto_trace_lost(t) + kineto_trace_count(t), HEAVY * per_thread);
        if (!SANITIZED)
            assert_true(peak < 40e6);
        kineto_profiler_result_release(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(any_thread_may_disable),
        ROW(a_thread_may_end_with_its_profiler_enabled),
        ROW(what_threads_that_ended_left_enabled_can_be_stopped),
        ROW(what_a_thread_prepared_goes_when_it_ends),
        ROW(any_thread_may_stop_a_handle_within_an_operator),
        ROW(of_those_that_disable_at_once_one_does),
        ROW(of_those_that_enable_one_of_all_threads_at_once_one_does),
        ROW(profilers_of_several_threads_do_not_mix),
        ROW(handles_overlap_freely),
        ROW(each_sees_what_it_asked_for),
        ROW(threads_come_and_go),
        ROW(a_thread_may_be_in_two_profilers),
        ROW(one_of_all_threads_cannot_be_joined),
        ROW(operators_are_cut_by_pauses_not_lost),
        ROW(pauses_race_with_operators),
        ROW(a_forked_child_does_no_harm),
        ROW(memory_is_bounded_and_what_is_dropped_is_counted),
        ROW(a_million_operators_of_8_threads_all_arrive_within_256_MB),
    };
    return RUN_TESTS(tests);
}
