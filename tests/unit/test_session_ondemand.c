/* On-demand tracing: windows, refusals and what interrupts them, one by one, and then at random
 * against a slow model of the same rules. */
#include "ondemand/controller/state_machine.h"

#include "unit.h"

#define MS             INT64_C(1000000)
#define SEC            (1000 * MS)
#define T0             (INT64_C(1700000000) * SEC)
#define IN_STATE(m, s) assert_string_equal(ko_ondemand_state_name((m)->state), s)

static ko_request request_of(int64_t duration_ns)
{
    ko_request r;
    memset(&r, 0, sizeof r);
    r.enabled = true;
    r.duration_ns = duration_ns;
    r.iterations = r.warmup_ns = r.warmup_iterations = -1;
    r.start_iteration = r.start_iteration_roundup = r.memory_snapshot_ns = -1;
    return r;
}

static ko_request iterations_of(int64_t start, int64_t count, int64_t warmup, int64_t roundup)
{
    ko_request r = request_of(-1);
    r.iterations = count;
    r.start_iteration = start;
    r.warmup_iterations = warmup;
    r.start_iteration_roundup = roundup;
    return r;
}

static ko_ondemand_answer at(ko_ondemand *m, ko_ondemand_event event, int64_t now)
{
    return ko_ondemand_step(m, event, now, NULL);
}

static ko_ondemand_answer ask(ko_ondemand *m, int64_t now, const ko_request *r)
{
    return ko_ondemand_step(m, KO_EVENT_REQUEST, now, r);
}

/* Iterations begin until this one has. */
static ko_ondemand_answer step_to(ko_ondemand *m, int64_t iteration, int64_t now)
{
    ko_ondemand_answer a = {0};
    while (m->iteration < iteration)
        a = at(m, KO_EVENT_STEP, now);
    return a;
}

static void assert_says(const ko_ondemand_answer *a, const char *text)
{
    if (!strstr(a->reason, text))
        fail_msg("\"%s\" is not in \"%s\"", text, a->reason);
}

/* A machine in each state, with 1 s of warm-up and 1 s of window from T0 on. */
static void bring(ko_ondemand *m, ko_ondemand_state state)
{
    ko_request r = request_of(SEC);
    ko_ondemand_init(m);
    r.warmup_ns = SEC;
    r.start_time_ns = T0 + (state == KO_ONDEMAND_PENDING ? 5 : 1) * SEC;
    r.memory_snapshot = state == KO_ONDEMAND_SNAPSHOT;
    if (state == KO_ONDEMAND_WAIT)
        return;
    (void)ask(m, T0, &r);
    if (state >= KO_ONDEMAND_COLLECT)
        (void)at(m, KO_EVENT_TICK, T0 + SEC);
    if (state == KO_ONDEMAND_PROCESS)
        (void)at(m, KO_EVENT_TICK, T0 + 2 * SEC);
    assert_int_equal(m->state, state);
}

/* ---- by time ------------------------------------------------------------------------------------- */

static void test_without_warm_up_a_window_begins_with_the_request(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(10 * MS);
    r.warmup_ns = 0;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_PREPARE | KO_ACT_START);
    assert_int_equal(m.window_start_ns, T0);
    assert_int_equal(a.wake_ns, T0 + 10 * MS);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_STOP | KO_ACT_WRITE);
    assert_int_equal(m.window_end_ns, T0 + 10 * MS);
    assert_int_equal(a.wake_ns, INT64_MAX);
    assert_int_equal(at(&m, KO_EVENT_PROCESSED, T0 + SEC).actions, 0);
    IN_STATE(&m, "wait");
}

static void test_what_a_request_does_not_say_is_what_libkineto_does(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(-1);
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_PREPARE);
    assert_string_equal(a.reason, "");
    assert_int_equal(a.wake_ns, T0 + 5 * SEC);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_START);
    assert_int_equal(a.wake_ns, T0 + 5 * SEC + 500 * MS);
}

static void test_a_start_time_is_met_exactly_however_late_the_call(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    r.warmup_ns = 2 * SEC;
    r.start_time_ns = T0 + 7 * SEC + 1;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT);
    assert_int_equal(a.wake_ns, T0 + 5 * SEC + 1);
    a = at(&m, KO_EVENT_TICK, a.wake_ns - 1);
    assert_int_equal(a.actions, 0);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_PREPARE);
    a = at(&m, KO_EVENT_TICK, a.wake_ns + 30 * MS);
    assert_int_equal(a.actions, KO_ACT_START);
    assert_int_equal(m.window_start_ns, r.start_time_ns);
    a = at(&m, KO_EVENT_TICK, a.wake_ns + 30 * MS);
    assert_int_equal(m.window_end_ns, r.start_time_ns + SEC);
}

static void test_a_start_time_without_warm_up_is_prepared_before(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    r.warmup_ns = 0;
    r.start_time_ns = T0 + SEC;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.wake_ns, r.start_time_ns - KO_ONDEMAND_ARM_NS);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_PREPARE);
    assert_int_equal(a.wake_ns, r.start_time_ns);
}

static void test_nobody_called_until_after_the_start_the_window_is_as_long_as_asked(void **state)
{
    (void)state;
    ko_ondemand m;
    bring(&m, KO_ONDEMAND_PENDING);
    ko_ondemand_answer a = at(&m, KO_EVENT_TICK, T0 + 5 * SEC + 300 * MS);
    assert_int_equal(a.actions, KO_ACT_PREPARE | KO_ACT_START);
    assert_int_equal(m.window_start_ns, T0 + 5 * SEC + 300 * MS);
    assert_int_equal(a.wake_ns, m.window_start_ns + SEC);
}

static void test_a_late_request_warms_up_less_and_says_so(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    r.start_time_ns = T0 + 3 * SEC;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_PREPARE);
    assert_says(&a, "3.000 s instead of 5.000 s");
    assert_int_equal(a.wake_ns, r.start_time_ns);
}

static void test_start_times_in_the_past_or_absurdly_far_ahead_are_refused(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    const int64_t starts[] = {T0 - 1, T0 - 12 * SEC, 1, T0 + KO_ONDEMAND_MAX_AHEAD_NS + 1,
                              INT64_MAX};
    for (size_t i = 0; i < KB_COUNT(starts); i++) {
        r.start_time_ns = starts[i];
        ko_ondemand_answer a = ask(&m, T0, &r);
        assert_int_equal(a.actions, KO_ACT_REFUSE);
        assert_says(&a, i < 3 ? "too late" : "ahead");
        IN_STATE(&m, "wait");
    }
    r.start_time_ns = T0;
    assert_int_equal(ask(&m, T0, &r).actions, KO_ACT_ACCEPT | KO_ACT_PREPARE | KO_ACT_START);
}

static void test_a_request_for_no_trace_is_refused(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    r.enabled = false;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_REFUSE);
    assert_says(&a, "ACTIVITIES_ENABLED");
    assert_int_equal(ko_ondemand_step(&m, KO_EVENT_REQUEST, T0, NULL).actions, 0);
}

/* ---- by iteration -------------------------------------------------------------------------------- */

static void test_iterations_are_recorded_from_their_beginning_to_that_of_the_next(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 3, T0);
    ko_request r = iterations_of(10, 2, 3, -1);
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT);
    assert_int_equal(step_to(&m, 6, T0 + 1).actions, 0);
    assert_int_equal(step_to(&m, 7, T0 + 2).actions, KO_ACT_PREPARE);
    assert_int_equal(step_to(&m, 9, T0 + 3).actions, 0);
    assert_int_equal(step_to(&m, 10, T0 + 4).actions, KO_ACT_START);
    assert_int_equal(step_to(&m, 11, T0 + 5).actions, 0);
    assert_int_equal(step_to(&m, 12, T0 + 6).actions, KO_ACT_STOP | KO_ACT_WRITE);
    assert_int_equal(m.window_start_ns, T0 + 4);
    assert_int_equal(m.window_end_ns, T0 + 6);
}

static void test_without_warm_up_iterations_are_prepared_one_before(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 0, T0);
    ko_request r = iterations_of(5, 1, -1, -1);
    assert_int_equal(ask(&m, T0, &r).actions, KO_ACT_ACCEPT);
    assert_int_equal(step_to(&m, 4, T0).actions, KO_ACT_PREPARE);
    assert_int_equal(step_to(&m, 5, T0).actions, KO_ACT_START);
    ko_request soon = iterations_of(0, 1, 0, 1);
    ko_ondemand_init(&m);
    (void)step_to(&m, 8, T0);
    ko_ondemand_answer a = ask(&m, T0, &soon);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_PREPARE);
    assert_string_equal(a.reason, "");
    assert_int_equal(step_to(&m, 9, T0).actions, KO_ACT_START);
}

static void test_processes_a_few_iterations_apart_round_up_to_the_same_one(void **state)
{
    (void)state;
    ko_request r = iterations_of(0, 3, 5, 100);
    for (int64_t i = 100; i < 200; i++) {
        ko_ondemand m;
        ko_ondemand_init(&m);
        (void)step_to(&m, i, T0);
        ko_ondemand_answer a = ask(&m, T0, &r);
        assert_int_equal(m.start_iteration, 200);
        assert_int_equal(a.actions, KO_ACT_ACCEPT | (i >= 195 ? KO_ACT_PREPARE : 0));
        if (i > 194)
            assert_says(&a, "iterations instead of 5");
        assert_int_equal(step_to(&m, 200, T0).actions, KO_ACT_START);
    }
}

static void test_an_iteration_that_is_past_begins_as_soon_as_it_is_warm(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 50, T0);
    ko_request r = iterations_of(20, 1, 2, -1);
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_says(&a, "iteration 20 is past, begins at 53");
    assert_int_equal(step_to(&m, 51, T0).actions, KO_ACT_PREPARE);
    assert_int_equal(step_to(&m, 53, T0).actions, KO_ACT_START);
}

static void test_iterations_with_only_a_start_time_go_by_time(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 1, T0);
    ko_request r = iterations_of(-1, 3, -1, -1);
    r.start_time_ns = T0 + 20 * SEC;
    (void)ask(&m, T0, &r);
    assert_false(m.by_iteration);
    ko_ondemand_init(&m);
    (void)step_to(&m, 1, T0);
    r.start_iteration = 10;
    (void)ask(&m, T0, &r);
    assert_true(m.by_iteration);
}

static void test_a_program_that_never_steps_is_traced_by_time_instead(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = iterations_of(0, 3, 1, 1);
    r.warmup_ns = 0;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_PREPARE | KO_ACT_START);
    assert_says(&a, "has not reported a step: traced for 500.000 ms instead of 3 iterations");
    assert_int_equal(a.wake_ns, T0 + 500 * MS);
}

static void test_by_iteration_a_duration_is_a_second_bound(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 0, T0);
    ko_request r = iterations_of(1, 5, 0, -1);
    r.duration_ns = SEC;
    (void)ask(&m, T0, &r);
    ko_ondemand_answer a = step_to(&m, 1, T0 + MS);
    assert_int_equal(a.wake_ns, T0 + MS + SEC);
    a = step_to(&m, 3, T0 + 2 * MS);
    assert_int_equal(a.wake_ns, T0 + MS + SEC);
    a = at(&m, KO_EVENT_STEP, T0 + 3 * SEC); /* after the bound: no second stop */
    assert_int_equal(a.actions, KO_ACT_STOP | KO_ACT_WRITE);
    assert_int_equal(m.window_end_ns, T0 + MS + SEC);
    assert_says(&a, "3 iterations before");
}

static void test_a_program_that_stops_stepping_within_its_window_gets_its_trace(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 0, T0);
    ko_request r = iterations_of(1, 5, 0, -1);
    (void)ask(&m, T0, &r);
    (void)step_to(&m, 1, T0 + SEC);
    ko_ondemand_answer a = step_to(&m, 2, T0 + 60 * SEC);
    assert_int_equal(a.wake_ns, T0 + 60 * SEC + KO_ONDEMAND_STALL_NS);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_STOP | KO_ACT_WRITE);
}

static void test_a_program_that_stops_stepping_before_its_window_is_traced_by_time(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_request r = iterations_of(9, 5, 4, -1);
    r.warmup_ns = 2 * SEC;
    for (int64_t reached = 1; reached < 9; reached++) {
        bool warm = reached >= 5;
        ko_ondemand_init(&m);
        (void)step_to(&m, 0, T0);
        (void)ask(&m, T0, &r);
        ko_ondemand_answer a = step_to(&m, reached, T0 + SEC);
        int64_t since = T0 + SEC + KO_ONDEMAND_STALL_NS;
        assert_int_equal(a.wake_ns, since);
        a = at(&m, KO_EVENT_TICK, since);
        assert_says(&a, "no step for 600 s");
        assert_int_equal(a.actions, warm ? KO_ACT_START : KO_ACT_PREPARE);
        if (!warm)
            a = at(&m, KO_EVENT_TICK, a.wake_ns);
        assert_int_equal(m.window_start_ns, since + (warm ? 0 : 2 * SEC));
        (void)at(&m, KO_EVENT_STEP, a.wake_ns - 1); /* means nothing any more */
        IN_STATE(&m, "collect");
        assert_int_equal(a.wake_ns, m.window_start_ns + 500 * MS);
    }
}

/* ---- what comes in between ----------------------------------------------------------------------- */

static void test_a_request_meanwhile_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    for (uint32_t s = KO_ONDEMAND_PENDING; s <= KO_ONDEMAND_SNAPSHOT; s++) {
        ko_ondemand m, same;
        ko_request r = request_of(7 * MS);
        const char *why;
        bring(&m, s);
        (void)at(&m, KO_EVENT_TICK, m.last_ns);
        same = m;
        ko_ondemand_answer before = at(&same, KO_EVENT_TICK, m.last_ns);
        ko_ondemand_answer a = ask(&m, m.last_ns, &r);
        assert_int_equal(a.actions, KO_ACT_REFUSE);
        assert_says(&a, s == KO_ONDEMAND_PENDING ? "pending" : "busy");
        assert_int_equal(a.wake_ns, before.wake_ns);
        assert_memory_equal(&m, &same, sizeof m);
        assert_false(ko_ondemand_can_accept(&m, &why));
        assert_string_equal(why, a.reason);
    }
}

static void test_cancelling_writes_what_was_collected(void **state)
{
    (void)state;
    static const uint32_t actions[] = {
        0, 0, KO_ACT_DROP, KO_ACT_STOP | KO_ACT_WRITE, 0, KO_ACT_SNAPSHOT_STOP};
    static const char *const after[] = {"wait", "wait", "wait", "process", "process", "process"};
    for (uint32_t s = 0; s <= KO_ONDEMAND_SNAPSHOT; s++) {
        ko_ondemand m;
        bring(&m, s);
        int64_t now = s == KO_ONDEMAND_WAIT ? T0 : m.last_ns + 10;
        ko_ondemand_answer a = at(&m, KO_EVENT_CANCEL, now);
        assert_int_equal(a.actions, actions[s]);
        IN_STATE(&m, after[s]);
        assert_int_equal(a.wake_ns, INT64_MAX);
        if (s == KO_ONDEMAND_COLLECT || s == KO_ONDEMAND_SNAPSHOT)
            assert_int_equal(m.window_end_ns, now);
        assert_int_equal(at(&m, KO_EVENT_CANCEL, now).actions, 0);
        (void)at(&m, KO_EVENT_PROCESSED, now);
        assert_true(ko_ondemand_can_accept(&m, NULL));
    }
}

static void test_the_programs_own_profile_drops_what_is_under_way(void **state)
{
    (void)state;
    for (uint32_t s = 0; s <= KO_ONDEMAND_SNAPSHOT; s++) {
        ko_ondemand m;
        ko_request r = request_of(SEC);
        bring(&m, s);
        bool open =
            s == KO_ONDEMAND_WARMUP || s == KO_ONDEMAND_COLLECT || s == KO_ONDEMAND_SNAPSHOT;
        int64_t now = T0 + SEC + 10;
        if (s == KO_ONDEMAND_WARMUP)
            now = T0 + 10;
        ko_ondemand_answer a = at(&m, KO_EVENT_PREEMPT, now);
        assert_int_equal(a.actions, open ? KO_ACT_DROP : 0);
        IN_STATE(&m, s == KO_ONDEMAND_PROCESS ? "process" : "wait");
        assert_int_equal(at(&m, KO_EVENT_PROCESSED, T0 + 3 * SEC).actions, 0);
        a = ask(&m, T0 + 3 * SEC, &r);
        assert_int_equal(a.actions, KO_ACT_REFUSE);
        assert_says(&a, "busy: the program itself");
        assert_int_equal(at(&m, KO_EVENT_RELEASE, T0 + 3 * SEC).actions, 0);
        assert_true(ask(&m, T0 + 3 * SEC, &r).actions & KO_ACT_ACCEPT);
    }
}

static void test_what_could_not_be_started_is_dropped_and_the_next_one_taken(void **state)
{
    (void)state;
    for (uint32_t s = 0; s <= KO_ONDEMAND_SNAPSHOT; s++) {
        ko_ondemand m;
        bring(&m, s);
        ko_ondemand_answer a = at(&m, KO_EVENT_FAILED, s == 0 ? T0 : m.last_ns);
        bool begun = s >= KO_ONDEMAND_WARMUP;
        assert_int_equal(a.actions, begun ? KO_ACT_DROP : 0);
        IN_STATE(&m, s == KO_ONDEMAND_PENDING ? "pending" : "wait");
    }
}

static void test_what_was_to_begin_in_the_same_call_does_not_begin(void **state)
{
    (void)state;
    static const ko_ondemand_event events[] = {KO_EVENT_CANCEL, KO_EVENT_PREEMPT};
    for (size_t i = 0; i < KB_COUNT(events); i++) {
        ko_ondemand m;
        bring(&m, KO_ONDEMAND_PENDING);
        assert_int_equal(at(&m, events[i], T0 + 5 * SEC).actions, 0);
        IN_STATE(&m, "wait");
    }
    ko_ondemand m;
    bring(&m, KO_ONDEMAND_WARMUP);
    assert_int_equal(at(&m, KO_EVENT_PREEMPT, T0 + SEC).actions, KO_ACT_DROP);
}

static void test_an_old_end_of_writing_does_not_end_the_next(void **state)
{
    (void)state;
    ko_ondemand m;
    bring(&m, KO_ONDEMAND_COLLECT);
    ko_ondemand_answer a = at(&m, KO_EVENT_PROCESSED, T0 + 9 * SEC);
    assert_int_equal(a.actions, KO_ACT_STOP | KO_ACT_WRITE);
    IN_STATE(&m, "process");
}

static void test_a_memory_snapshot_lasts_as_long_as_it_says(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(-1);
    r.memory_snapshot = true;
    ko_ondemand_answer a = ask(&m, T0, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT | KO_ACT_SNAPSHOT_START);
    assert_int_equal(a.wake_ns, T0 + SEC);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_SNAPSHOT_STOP);
    (void)at(&m, KO_EVENT_PROCESSED, T0 + SEC);
    r.memory_snapshot_ns = 30 * MS;
    r.start_time_ns = T0 + 2 * SEC;
    a = ask(&m, T0 + SEC, &r);
    assert_int_equal(a.actions, KO_ACT_ACCEPT);
    a = at(&m, KO_EVENT_TICK, a.wake_ns + 3 * MS);
    assert_int_equal(a.actions, KO_ACT_SNAPSHOT_START);
    assert_int_equal(m.window_start_ns, T0 + 2 * SEC + 3 * MS);
    assert_int_equal(a.wake_ns, m.window_start_ns + 30 * MS);
}

/* ---- the clock ----------------------------------------------------------------------------------- */

static void test_a_clock_that_is_set_back_does_not_lengthen_a_window(void **state)
{
    (void)state;
    ko_ondemand m;
    bring(&m, KO_ONDEMAND_COLLECT);
    int64_t back = 3600 * SEC;
    ko_ondemand_answer a = at(&m, KO_EVENT_TICK, T0 + SEC + 400 * MS);
    a = at(&m, KO_EVENT_TICK, T0 + SEC + 400 * MS - back);
    assert_int_equal(a.actions, 0);
    assert_int_equal(a.wake_ns, T0 + 2 * SEC - back);
    a = at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(a.actions, KO_ACT_STOP | KO_ACT_WRITE);
    assert_int_equal(m.window_end_ns, T0 + 2 * SEC);
}

static void test_a_clock_that_is_set_back_moves_only_what_is_not_of_the_clock(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    ko_request r = request_of(SEC);
    ko_ondemand_answer a = ask(&m, T0, &r);
    a = at(&m, KO_EVENT_TICK, T0 - 60 * SEC);
    assert_int_equal(a.wake_ns, T0 - 55 * SEC);
    (void)at(&m, KO_EVENT_TICK, a.wake_ns);
    assert_int_equal(m.window_start_ns, T0 - 55 * SEC);
    bring(&m, KO_ONDEMAND_PENDING);
    a = at(&m, KO_EVENT_TICK, T0 - 60 * SEC);
    assert_int_equal(a.wake_ns, T0 + 4 * SEC);
    (void)at(&m, KO_EVENT_TICK, a.wake_ns);
    (void)at(&m, KO_EVENT_TICK, T0 + 5 * SEC);
    assert_int_equal(m.window_start_ns, T0 + 5 * SEC);
}

static void test_a_clock_that_is_set_back_twice_does_not_lengthen_a_window(void **state)
{
    (void)state;
    ko_ondemand m;
    bring(&m, KO_ONDEMAND_COLLECT);
    (void)at(&m, KO_EVENT_TICK, T0 + SEC + 400 * MS);
    (void)at(&m, KO_EVENT_TICK, T0 - 10 * SEC);
    (void)at(&m, KO_EVENT_TICK, T0 - 10 * SEC + 100 * MS);
    ko_ondemand_answer a = at(&m, KO_EVENT_TICK, T0 - 20 * SEC);
    assert_int_equal(a.wake_ns, T0 - 20 * SEC + 500 * MS);
    (void)at(&m, KO_EVENT_CANCEL, T0 - 20 * SEC + 200 * MS);
    assert_int_equal(m.window_end_ns, T0 + SEC + 700 * MS);
}

static void test_by_iteration_a_start_time_means_nothing(void **state)
{
    (void)state;
    ko_ondemand m;
    ko_ondemand_init(&m);
    (void)step_to(&m, 0, T0);
    ko_request r = iterations_of(9, 1, 0, -1);
    r.start_time_ns = T0 - 60 * SEC;
    assert_int_equal(ask(&m, T0, &r).actions, KO_ACT_ACCEPT);
    (void)at(&m, KO_EVENT_TICK, T0 + KO_ONDEMAND_STALL_NS); /* goes by time, warms up */
    ko_ondemand_answer a = at(&m, KO_EVENT_TICK, T0);
    assert_int_equal(a.wake_ns, T0 + 5 * SEC);
}

static void test_states_have_names(void **state)
{
    (void)state;
    assert_string_equal(ko_ondemand_state_name(KO_ONDEMAND_WARMUP), "warm-up");
    assert_string_equal(ko_ondemand_state_name(99), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_warm_up_a_window_begins_with_the_request),
        cmocka_unit_test(test_what_a_request_does_not_say_is_what_libkineto_does),
        cmocka_unit_test(test_a_start_time_is_met_exactly_however_late_the_call),
        cmocka_unit_test(test_a_start_time_without_warm_up_is_prepared_before),
        cmocka_unit_test(test_nobody_called_until_after_the_start_the_window_is_as_long_as_asked),
        cmocka_unit_test(test_a_late_request_warms_up_less_and_says_so),
        cmocka_unit_test(test_start_times_in_the_past_or_absurdly_far_ahead_are_refused),
        cmocka_unit_test(test_a_request_for_no_trace_is_refused),
        cmocka_unit_test(test_iterations_are_recorded_from_their_beginning_to_that_of_the_next),
        cmocka_unit_test(test_without_warm_up_iterations_are_prepared_one_before),
        cmocka_unit_test(test_processes_a_few_iterations_apart_round_up_to_the_same_one),
        cmocka_unit_test(test_an_iteration_that_is_past_begins_as_soon_as_it_is_warm),
        cmocka_unit_test(test_iterations_with_only_a_start_time_go_by_time),
        cmocka_unit_test(test_a_program_that_never_steps_is_traced_by_time_instead),
        cmocka_unit_test(test_by_iteration_a_duration_is_a_second_bound),
        cmocka_unit_test(test_a_program_that_stops_stepping_within_its_window_gets_its_trace),
        cmocka_unit_test(test_a_program_that_stops_stepping_before_its_window_is_traced_by_time),
        cmocka_unit_test(test_a_request_meanwhile_is_refused_and_changes_nothing),
        cmocka_unit_test(test_cancelling_writes_what_was_collected),
        cmocka_unit_test(test_the_programs_own_profile_drops_what_is_under_way),
        cmocka_unit_test(test_what_could_not_be_started_is_dropped_and_the_next_one_taken),
        cmocka_unit_test(test_what_was_to_begin_in_the_same_call_does_not_begin),
        cmocka_unit_test(test_an_old_end_of_writing_does_not_end_the_next),
        cmocka_unit_test(test_a_memory_snapshot_lasts_as_long_as_it_says),
        cmocka_unit_test(test_a_clock_that_is_set_back_does_not_lengthen_a_window),
        cmocka_unit_test(test_a_clock_that_is_set_back_moves_only_what_is_not_of_the_clock),
        cmocka_unit_test(test_a_clock_that_is_set_back_twice_does_not_lengthen_a_window),
        cmocka_unit_test(test_by_iteration_a_start_time_means_nothing),
        cmocka_unit_test(test_states_have_names),
    };
    return RUN_TESTS(tests);
}
