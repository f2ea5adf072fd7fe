/* Threads that were watched from outside: tables of states, functions and waits, states of the launching
 * thread while a device is idle. */
#include "analyzing.h"

#define TABLES "thread_states,runqueue_waits,blocked_in,cpu_functions,thread_functions"

/* The row of states, or of samples, of a thread of the host. */
static uint32_t watched_track(maker *m, const char *what, int tid)
{
    char text[40], name[60];
    snprintf(text, sizeof text, "%s %d", what, tid);
    snprintf(name, sizeof name, "thread %d (t%d): %s", tid, tid, what);
    uint32_t track = kt_track_text(m->b, kt_process(m->b, false, 10, 0), kb_string(text));
    kt_track_set(m->b, track, kb_string(name), tid);
    return track;
}

static void put_state(maker *m, uint32_t track, const char *name, double from, double to,
                      const char *in)
{
    if (in)
        put_text(m, "in", in);
    if (strcmp(name, "running") == 0)
        put_number(m, "cpu", track % 2);
    put_row(m, track, KINETO_KIND_THREAD_STATE, name, from, to, 0);
}

static void put_sample(maker *m, uint32_t track, const char *name, double from, double to,
                       int64_t samples, const char *module)
{
    put_number(m, "samples", samples);
    put_number(m, "cpu_ns", samples * 10000);
    if (module)
        put_text(m, "module", module);
    put_row(m, track, KINETO_KIND_CPU_SAMPLE, name, from, to, 0);
}

/* Index of the row of `table` with this text; fails if there is none. */
static uint64_t row_with(const kineto_analysis *facts, const char *table, const char *column,
                         const char *text)
{
    for (uint64_t row = 0; row < rows_of(facts, table); row++)
        if (cell_is(facts, table, row, column, text))
            return row;
    fail_msg("%s has no row with %s", table, text);
    return 0;
}

static int64_t number(const kineto_analysis *facts, const char *table, uint64_t row,
                      const char *column)
{
    return cell(facts, table, row, column).i;
}

static void states_of_a_thread_add_up_to_its_life(void **state)
{
    (void)state;
    maker m = make();
    uint32_t a = watched_track(&m, "state", 21), b = watched_track(&m, "state", 22);
    put_state(&m, a, "running", 0, 100, NULL);
    put_state(&m, a, "waiting for a CPU", 100, 150, NULL);
    put_state(&m, a, "running", 150, 200, NULL);
    put_state(&m, a, "blocked", 200, 1000, "fsync");
    put_state(&m, b, "running", 0, 1000, NULL);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(rows_of(facts, "thread_states"), 2);
    uint64_t row = row_with(facts, "thread_states", "thread", "thread 21 (t21)");
    assert_int_equal(number(facts, "thread_states", row, "running_us"), 150000);
    assert_int_equal(number(facts, "thread_states", row, "waiting_us"), 50000);
    assert_int_equal(number(facts, "thread_states", row, "blocked_us"), 800000);
    assert_int_equal(number(facts, "thread_states", row, "lifetime_us"), 1000000);
    assert_int_equal(number(facts, "thread_states", row, "switches"), 2);
    assert_int_equal(number(facts, "thread_states", row, "preempted"), 1);
    assert_int_equal(number(facts, "thread_states", row, "pid"), 10);
    assert_int_equal(rows_of(facts, "runqueue_waits"), 1);
    assert_int_equal(number(facts, "runqueue_waits", 0, "wait_us"), 50000);
    assert_true(cell(facts, "runqueue_waits", 0, "program_running").d == 1);
    assert_true(cell_is(facts, "blocked_in", 0, "function", "fsync"));
    assert_int_equal(number(facts, "blocked_in", 0, "blocked_us"), 800000);
    assert_true(cell(facts, "blocked_in", 0, "blocked_pct").d == 80);
    kineto_analysis_destroy(facts);
}

/* main 100 samples > f 70 > f 20 (recursion) > leaf 20; main > leaf 10. */
static void own_time_is_without_callees_and_recursion_counts_once(void **state)
{
    (void)state;
    maker m = make();
    uint32_t a = watched_track(&m, "samples", 21), b = watched_track(&m, "samples", 22);
    put_sample(&m, a, "main", 0, 1000, 100, "app");
    put_sample(&m, a, "f", 0, 700, 70, "app");
    put_sample(&m, a, "f", 100, 300, 20, "app");
    put_sample(&m, a, "leaf", 110, 300, 20, "libleaf.so");
    put_sample(&m, a, "leaf", 800, 900, 10, "libleaf.so");
    put_sample(&m, b, "leaf", 0, 50, 5, "libother.so");
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    static const struct {
        const char *name;
        int64_t samples, self_ns, total_ns;
    } expected[] = {{"main", 100, 200000, 1000000}, {"f", 90, 500000, 700000}};
    for (size_t i = 0; i < KB_COUNT(expected); i++) {
        uint64_t row = row_with(facts, "cpu_functions", "function", expected[i].name);
        assert_int_equal(number(facts, "cpu_functions", row, "samples"), expected[i].samples);
        assert_int_equal(number(facts, "cpu_functions", row, "self_us"), expected[i].self_ns);
        assert_int_equal(number(facts, "cpu_functions", row, "total_us"), expected[i].total_ns);
    }
    uint64_t row = row_with(facts, "cpu_functions", "module", "libleaf.so");
    assert_int_equal(number(facts, "cpu_functions", row, "self_us"), 300000);
    row = row_with(facts, "thread_functions", "module", "libother.so");
    assert_true(cell_is(facts, "thread_functions", row, "thread", "thread 22 (t22)"));
    assert_true(cell(facts, "thread_functions", row, "self_pct").d == 100);
    int64_t self_ns = 0;
    for (row = 0; row < rows_of(facts, "cpu_functions"); row++)
        self_ns += number(facts, "cpu_functions", row, "self_us");
    assert_int_equal(self_ns, 1050000);
    kineto_analysis_destroy(facts);
}

static void without_such_rows_a_note_says_so(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mm", 0, 10);
    kineto_analysis *facts = analyzed(finish(m.b), TABLES);
    assert_int_equal(rows_of(facts, "thread_states"), 0);
    assert_true(notes(facts, "thread_states", "ckineto record"));
    assert_true(notes(facts, "cpu_functions", "ckineto record"));
    kineto_analysis_destroy(facts);
}

/* ---- idle devices ---------------------------------------------------------------------------- */

/* A device that is idle from 10 to 1000; thread 11 launches at 980 to 990. */
static maker idle_until_1000(void)
{
    maker m = make();
    put_call(&m, "cudaLaunchKernel", -10, -5, 1);
    put_call(&m, "cudaLaunchKernel", 980, 990, 2);
    put_kernel(&m, m.stream, "first", 0, 10, 1);
    put_kernel(&m, m.stream, "second", 1000, 1010, 2);
    return m;
}

static int64_t idle_while(const kineto_analysis *facts, const char *words)
{
    for (uint64_t row = 0; row < rows_of(facts, "idle_states"); row++)
        if (cell_is(facts, "idle_states", row, "thread_was", words))
            return number(facts, "idle_states", row, "idle_us");
    return 0;
}

static bool evidence_has(const kineto_analysis *facts, const char *part)
{
    kineto_string text = cell(facts, "idle_gaps", 0, "evidence").text;
    return memmem(text.data, text.size, part, strlen(part)) != NULL;
}

static void idle_time_says_what_the_launching_thread_did(void **state)
{
    (void)state;
    maker m = idle_until_1000();
    uint32_t t = watched_track(&m, "state", 11), other = watched_track(&m, "state", 12);
    put_state(&m, t, "running", -20, 50, NULL);
    put_state(&m, t, "waiting for a CPU", 50, 150, NULL);
    put_state(&m, t, "running", 150, 200, NULL);
    put_state(&m, t, "blocked", 200, 800, "fsync");
    put_state(&m, t, "running", 800, 2000, NULL);
    put_state(&m, other, "blocked", -20, 2000, "poll"); /* launches nothing */
    kineto_analysis *facts = analyzed(finish(m.b), "idle_states,idle_gaps");
    assert_int_equal(idle_while(facts, "running"), 40000 + 50000 + 190000);
    assert_int_equal(idle_while(facts, "waiting for a CPU"), 100000);
    assert_int_equal(idle_while(facts, "blocked in fsync"), 600000);
    assert_int_equal(idle_while(facts, "(launched already)"), 10000);
    assert_int_equal(rows_of(facts, "idle_states"), 4);
    assert_true(evidence_has(facts, "thread 11, which launched what came next, was blocked in fsync "
                                    "for 600"));
    kineto_analysis_destroy(facts);
}

static void a_lock_is_named_with_its_holder(void **state)
{
    (void)state;
    maker m = idle_until_1000();
    uint32_t t = watched_track(&m, "state", 11);
    put_number(&m, "address", 0x5581);
    put_number(&m, "holder", 12);
    put_row(&m, m.thread, KINETO_KIND_BLOCKING_CALL, "pthread_mutex_lock", 190, 500, 0);
    put_state(&m, t, "running", -20, 200, NULL);
    put_state(&m, t, "blocked", 200, 600, NULL);
    put_state(&m, t, "running", 600, 2000, NULL);
    kineto_analysis *facts = analyzed(finish(m.b), "idle_states,idle_gaps");
    assert_int_equal(idle_while(facts, "waiting for lock 0x5581 held by thread 12"), 300000);
    assert_int_equal(idle_while(facts, "blocked"), 100000);
    assert_true(evidence_has(facts, "was waiting for lock 0x5581 held by thread 12 for 300"));
    kineto_analysis_destroy(facts);
}

static void calls_count_without_states_and_nothing_is_made_up(void **state)
{
    (void)state;
    maker m = idle_until_1000();
    put_row(&m, m.thread, KINETO_KIND_BLOCKING_CALL, "fsync", 100, 300, 0);
    put_row(&m, m.second_thread, KINETO_KIND_BLOCKING_CALL, "read", 100, 300, 0);
    kineto_analysis *facts = analyzed(finish(m.b), "idle_states");
    assert_int_equal(idle_while(facts, "blocked in fsync"), 200000);
    assert_int_equal(idle_while(facts, "blocked in read"), 0);
    assert_int_equal(idle_while(facts, "(not recorded)"), 780000);
    kineto_analysis_destroy(facts);
    facts = analyzed(finish(idle_until_1000().b), "idle_states");
    assert_int_equal(rows_of(facts, "idle_states"), 0);
    kineto_analysis_destroy(facts);
}

/* ---- critical paths -------------------------------------------------------------------------- */

static int64_t class_ns(const kineto_analysis *facts, const char *class)
{
    for (uint64_t row = 0; row < rows_of(facts, "critical_path_summary"); row++)
        if (cell_is(facts, "critical_path_summary", row, "class", class))
            return number(facts, "critical_path_summary", row, "us");
    return 0;
}

static void host_time_of_the_path_is_divided_by_states(void **state)
{
    (void)state;
    maker m = make();
    put_op(&m, "aten::mm", 0, 600);
    put_op(&m, "aten::add", 700, 1000);
    uint32_t t = watched_track(&m, "state", 11), other = watched_track(&m, "state", 12);
    put_state(&m, t, "running", 0, 100, NULL);
    put_state(&m, t, "waiting for a CPU", 100, 250, NULL);
    put_state(&m, t, "running", 250, 500, NULL);
    put_state(&m, t, "blocked", 500, 650, "fsync");
    put_state(&m, t, "running", 650, 1000, NULL);
    put_state(&m, other, "blocked", 0, 1000, NULL);
    kineto_trace *trace = finish(m.b);
    kineto_critical_path *path;
    assert_int_equal(kineto_critical_path_create(trace, NULL, &path, NULL), KINETO_OK);
    static const struct {
        const char *class;
        int64_t after_us;
    } scales[] = {{"host_waiting_for_cpu", 850}, {"host_blocked", 850}};
    for (size_t i = 0; i < KB_COUNT(scales); i++) {
        kineto_what_if_scale scale = {KINETO_WHAT_IF_CLASS, scales[i].class, 0};
        kineto_what_if_result r = {.size = sizeof r};
        assert_int_equal(kineto_critical_path_what_if(path, &scale, 1, &r, NULL), KINETO_OK);
        assert_int_equal(r.after_ns, scales[i].after_us * 1000);
    }
    kineto_critical_path_destroy(path);
    kineto_analysis *facts = analyzed(trace, "critical_path_summary");
    assert_int_equal(class_ns(facts, "host_waiting_for_cpu"), 150000);
    assert_int_equal(class_ns(facts, "host_blocked"), 150000);
    assert_int_equal(class_ns(facts, "host_operator"), 650000);
    assert_int_equal(class_ns(facts, "host_between"), 50000);
    kineto_analysis_destroy(facts);
}

static int64_t on_thread_path(const kineto_analysis *facts, const char *thread, const char *words)
{
    for (uint64_t row = 0; row < rows_of(facts, "thread_path"); row++)
        if (cell_is(facts, "thread_path", row, "thread", thread) &&
            cell_is(facts, "thread_path", row, "thread_was", words))
            return number(facts, "thread_path", row, "us");
    return 0;
}

static int64_t all_thread_path(const kineto_analysis *facts)
{
    int64_t sum = 0;
    for (uint64_t row = 0; row < rows_of(facts, "thread_path"); row++)
        sum += number(facts, "thread_path", row, "us");
    return sum;
}

#define MAIN   "thread 21 (t21)"
#define WORKER "thread 22 (t22)"
#define SECOND "thread 23 (t23)"

/* Makes a worker at 50, and joins it at 100 to 910. */
static maker joined(const char *in)
{
    maker m = make();
    uint32_t main_row = watched_track(&m, "state", 21), worker = watched_track(&m, "state", 22);
    put_state(&m, main_row, "running", 0, 100, NULL);
    put_state(&m, main_row, "blocked", 100, 910, in);
    put_state(&m, main_row, "running", 910, 1000, NULL);
    put_state(&m, worker, "waiting for a CPU", 50, 150, NULL);
    put_state(&m, worker, "running", 150, 500, NULL);
    put_state(&m, worker, "blocked", 500, 600, "clock_nanosleep");
    put_state(&m, worker, "running", 600, 900, NULL);
    return m;
}

static void the_path_of_a_join_goes_through_the_thread_that_was_joined(void **state)
{
    (void)state;
    kineto_analysis *facts = analyzed(finish(joined("__pthread_clockjoin_ex").b), "thread_path");
    assert_int_equal(on_thread_path(facts, MAIN, "running"), 90000 + 50000);
    assert_int_equal(on_thread_path(facts, MAIN, "waking up"), 10000);
    assert_int_equal(on_thread_path(facts, WORKER, "running"), 650000);
    assert_int_equal(on_thread_path(facts, WORKER, "waiting for a CPU"), 100000);
    assert_int_equal(on_thread_path(facts, WORKER, "blocked in clock_nanosleep"), 100000);
    assert_int_equal(all_thread_path(facts), 1000000);
    kineto_analysis_destroy(facts);
}

static void without_a_known_reason_the_path_stays_in_the_thread(void **state)
{
    (void)state;
    static const char *const reasons[] = {NULL, "poll"};
    for (size_t i = 0; i < KB_COUNT(reasons); i++) {
        kineto_analysis *facts = analyzed(finish(joined(reasons[i]).b), "thread_path");
        assert_int_equal(on_thread_path(facts, MAIN, i ? "blocked in poll" : "blocked"), 810000);
        assert_int_equal(on_thread_path(facts, WORKER, "running"), 0);
        assert_int_equal(all_thread_path(facts), 1000000);
        kineto_analysis_destroy(facts);
    }
}

/* Thread 22 waits from 200 to 700 for a lock that thread 23 holds. */
static void the_path_of_a_lock_goes_through_its_holder(void **state)
{
    (void)state;
    for (int64_t holder = 0; holder <= 23; holder += 23) {
        maker m = make();
        uint32_t waits = watched_track(&m, "state", 22), holds = watched_track(&m, "state", 23);
        uint32_t rows =
            kt_track(m.b, kt_process(m.b, false, 10, 0), KINETO_TRACK_THREAD, 22);
        put_number(&m, "address", 0x5581);
        put_number(&m, "holder", holder);
        put_row(&m, rows, KINETO_KIND_BLOCKING_CALL, "pthread_mutex_lock", 190, 705, 0);
        put_state(&m, waits, "running", 0, 200, NULL);
        put_state(&m, waits, "blocked", 200, 700, NULL);
        put_state(&m, waits, "running", 700, 1000, NULL);
        put_state(&m, holds, "running", 0, 300, NULL);
        put_state(&m, holds, "waiting for a CPU", 300, 690, NULL);
        put_state(&m, holds, "running", 690, 800, NULL);
        kineto_analysis *facts = analyzed(finish(m.b), "thread_path");
        assert_int_equal(on_thread_path(facts, WORKER, "running"), holder ? 300000 : 500000);
        assert_int_equal(on_thread_path(facts, SECOND, "waiting for a CPU"), holder ? 390000 : 0);
        assert_int_equal(on_thread_path(facts, SECOND, "running"), holder ? 310000 : 0);
        assert_int_equal(on_thread_path(facts, WORKER, "waiting for lock 0x5581"),
                         holder ? 0 : 500000);
        assert_int_equal(all_thread_path(facts), 1000000);
        kineto_analysis_destroy(facts);
    }
}

/* Thread 22 is woken by 23 at 700, and by an interrupt at 900. */
static void the_path_goes_to_the_thread_that_woke_another_one(void **state)
{
    (void)state;
    maker m = make();
    uint32_t woken = watched_track(&m, "state", 22), wakes = watched_track(&m, "state", 23);
    put_state(&m, woken, "running", 0, 200, NULL);
    put_state(&m, woken, "blocked", 200, 700, "pthread_cond_wait");
    put_text(&m, "woken by", "thread 23 (t23)");
    put_state(&m, woken, "waiting for a CPU", 700, 750, NULL);
    put_state(&m, woken, "running", 750, 800, NULL);
    put_state(&m, woken, "blocked", 800, 900, "clock_nanosleep");
    put_text(&m, "woken by", "an interrupt");
    put_state(&m, woken, "waiting for a CPU", 900, 910, NULL);
    put_state(&m, woken, "running", 910, 1000, NULL);
    put_state(&m, wakes, "running", 0, 720, NULL);
    kineto_analysis *facts = analyzed(finish(m.b), "thread_path");
    assert_int_equal(on_thread_path(facts, SECOND, "running"), 700000);
    assert_int_equal(on_thread_path(facts, WORKER, "waiting for a CPU"), 60000);
    assert_int_equal(on_thread_path(facts, WORKER, "blocked in clock_nanosleep"), 100000);
    assert_int_equal(on_thread_path(facts, WORKER, "running"), 140000);
    assert_int_equal(all_thread_path(facts), 1000000);
    kineto_analysis_destroy(facts);
}

/* Two threads that hold what the other one waits for, by wrong data: the walk ends. */
static void threads_that_wait_for_each_other_end_the_walk(void **state)
{
    (void)state;
    maker m = make();
    uint32_t host = kt_process(m.b, false, 10, 0);
    for (int tid = 22; tid <= 23; tid++) {
        uint32_t row = watched_track(&m, "state", tid);
        put_number(&m, "address", 0x5581);
        put_number(&m, "holder", 45 - tid);
        put_row(&m, kt_track(m.b, host, KINETO_TRACK_THREAD, tid), KINETO_KIND_BLOCKING_CALL,
                "pthread_mutex_lock", 0, 1000, 0);
        put_state(&m, row, "blocked", 0, 1000, NULL);
    }
    kineto_analysis *facts = analyzed(finish(m.b), "thread_path");
    assert_int_equal(all_thread_path(facts), 1000000);
    kineto_analysis_destroy(facts);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_of_a_thread_add_up_to_its_life),
        cmocka_unit_test(own_time_is_without_callees_and_recursion_counts_once),
        cmocka_unit_test(without_such_rows_a_note_says_so),
        cmocka_unit_test(idle_time_says_what_the_launching_thread_did),
        cmocka_unit_test(a_lock_is_named_with_its_holder),
        cmocka_unit_test(calls_count_without_states_and_nothing_is_made_up),
        cmocka_unit_test(host_time_of_the_path_is_divided_by_states),
        cmocka_unit_test(the_path_of_a_join_goes_through_the_thread_that_was_joined),
        cmocka_unit_test(without_a_known_reason_the_path_stays_in_the_thread),
        cmocka_unit_test(the_path_of_a_lock_goes_through_its_holder),
        cmocka_unit_test(the_path_goes_to_the_thread_that_woke_another_one),
        cmocka_unit_test(threads_that_wait_for_each_other_end_the_walk),
    };
    return RUN_TESTS(tests);
}
