/* A collector whose windows come and go, with this very program as what is recorded: each window
 * has what was recorded in it and nothing else, however close they follow each other. */
#include "../unit/unit.h"

#include "../helpers/cost.h"

#include "record/record.h"
#include "session/session.h"
#include <ckineto/record.h>

#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#define KINDS    (KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION))
#define KEEP_MIB 1u

KINETO_SITE_ARGS(op, KINETO_KIND_CPU_OP, "op", {"i", KINETO_ARG_INT});

static char directory[256], output[300];
static ks_collector *collector;

static void range(int64_t i)
{
    kineto_value value = {.i = i};
    kineto_range r = kineto_range_begin_args(&op, &value);
    kineto_range_end(r);
}

static int64_t now_ns(void) { return (int64_t)kb_clock_ns(CLOCK_REALTIME); }

static ks_collector *collector_make(uint64_t ring_ns, ks_policy policy)
{
    ks_collector *c;
    kineto_error err = {0};
    ks_collector_options o = {.kinds = KINDS,
                              .buffer_bytes = 64 * KF_CHUNK_BYTES,
                              .keep_bytes = KEEP_MIB << 20,
                              .policy = policy,
                              .output_path = output,
                              .on_demand = true,
                              .ring_ns = ring_ns};
    if (ks_collector_create(&o, &c, &err) || ks_collector_start(c, &err) ||
        kineto_rt_attach(ks_collector_pool_path(c), &err))
        fail_msg("%s", err.message);
    return c;
}

/* ---- windows ------------------------------------------------------------------------------------- */

static ks_window *prepare(void)
{
    ks_window *w;
    kineto_error err = {0};
    ks_window_options o = {.kinds = KINDS, .wants = KF_WANT_USUAL};
    if (ks_window_prepare(collector, &o, &w, &err))
        fail_msg("%s", err.message);
    return w;
}

static ks_window *open_window(void)
{
    ks_window *w = prepare();
    assert_int_equal(ks_window_arm(collector, w, NULL), KINETO_OK);
    return w;
}

static kineto_trace *build(ks_window *w, int64_t from_ns, int64_t until_ns)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    ks_window_cut cut = {.from_ns = from_ns, .until_ns = until_ns};
    if (ks_window_build(collector, w, &cut, &trace, &err))
        fail_msg("%s", err.message);
    return trace;
}

/* What a trace has, and whether numbers follow each other without a hole. */
typedef struct content {
    uint64_t count, lost;
    int64_t first, last, from_ns, until_ns;
    bool whole;
} content;

static content content_of(const kineto_trace *trace)
{
    content c = {.whole = true, .first = -1, .last = -1, .from_ns = INT64_MAX};
    uint8_t *seen = calloc(1, 1 << 26);
    assert_non_null(seen);
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_activity a;
        kineto_arg arg;
        kineto_trace_get(trace, row, &a);
        c.from_ns = KB_MIN(c.from_ns, a.start_ns);
        c.until_ns = KB_MAX(c.until_ns, a.end_ns);
        if (!kineto_args_find(trace, row, "i", &arg) || arg.i < 0 || arg.i >= 1 << 26)
            continue;
        c.count++;
        c.first = c.first < 0 ? arg.i : KB_MIN(c.first, arg.i);
        c.last = KB_MAX(c.last, arg.i);
        c.whole &= !seen[arg.i];
        seen[arg.i] = 1;
    }
    for (int64_t i = c.first; i >= 0 && i <= c.last; i++)
        c.whole &= seen[i];
    free(seen);
    c.lost = kineto_trace_lost(trace);
    return c;
}

static content finish(ks_window *w)
{
    ks_window_stop(collector, w);
    kineto_trace *trace = build(w, 0, 0);
    content c = content_of(trace);
    kineto_trace_release(trace);
    ks_window_release(collector, w);
    return c;
}

static off_t spool_bytes(void)
{
    struct stat st;
    assert_int_equal(stat(ks_collector_spool_path(collector), &st), 0);
    return st.st_size;
}

static void nothing_is_recorded_without_a_window(void **state)
{
    (void)state;
    off_t empty = spool_bytes();
    range(1);
    assert_true(ks_collector_poll(collector) >= 500000000); /* it sleeps */
    content c = finish(open_window());
    assert_int_equal(c.count, 0);
    (void)ks_collector_poll(collector);
    assert_int_equal(spool_bytes(), empty);
}

static void a_window_has_what_was_recorded_in_it(void **state)
{
    (void)state;
    for (int64_t round = 0; round < 5; round++) {
        ks_window *w = open_window();
        for (int64_t i = 0; i < 1000; i++)
            range(round * 1000 + i);
        content c = finish(w);
        assert_int_equal(c.count, 1000);
        assert_int_equal(c.first, round * 1000);
        assert_true(c.whole);
        assert_int_equal(c.lost, 0);
        range(77); /* outside of all windows */
    }
}

/* Until no program wants anything, and the collector sleeps; a minute is only against hanging. */
static void poll_until_idle(void)
{
    const struct timespec pause = {0, 10000000};
    uint64_t end = kb_clock_ns(CLOCK_MONOTONIC) + UINT64_C(60000000000);
    while (ks_collector_poll(collector) < 500000000 || kineto_rt_pool()->control->gate != 0) {
        assert_true(kb_clock_ns(CLOCK_MONOTONIC) < end);
        nanosleep(&pause, NULL);
    }
}

/* A session of its own that a program in the pool did not live to end. */
static void die_recording(bool keep_newest)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        kf_control *control = kineto_rt_pool()->control;
        uint32_t slot = kf_window_open(control, KINDS, kb_ticks(control->ticks_clock));
        control->windows[slot].keep_newest = keep_newest;
        raise(SIGKILL);
    }
    waitpid(child, NULL, 0);
    assert_true(kineto_rt_pool()->control->gate != 0);
}

static void a_session_of_a_program_that_died_ends_by_itself(void **state)
{
    (void)state;
    off_t empty = spool_bytes();
    for (int keep_newest = 0; keep_newest < 2; keep_newest++) {
        die_recording(keep_newest != 0);
        poll_until_idle();
    }
    assert_int_equal(spool_bytes(), empty);
}

static void what_is_recorded_before_it_is_armed_is_thrown_away(void **state)
{
    (void)state;
    ks_window *w = prepare(), *other = open_window();
    range(1);
    assert_int_equal(ks_window_arm(collector, w, NULL), KINETO_OK);
    range(2);
    content c = finish(w), all = finish(other);
    assert_int_equal(c.count, 1);
    assert_int_equal(c.first, 2);
    assert_int_equal(all.count, 2);
}

static void one_that_is_given_up_leaves_nothing(void **state)
{
    (void)state;
    ks_window *w = open_window();
    range(1);
    ks_window_release(collector, w);
    range(2);
    content c = finish(open_window());
    assert_int_equal(c.count, 0);
    ks_window *all[8];
    uint32_t n = 0;
    ks_window_options o = {.kinds = KINDS, .wants = KF_WANT_USUAL};
    while (n < KB_COUNT(all) && ks_window_prepare(collector, &o, &all[n], NULL) == KINETO_OK)
        n++;
    assert_in_range(n, 2, KB_COUNT(all) - 1);
    while (n > 0)
        ks_window_release(collector, all[--n]);
}

static kineto_trace *stop_and_build(ks_window *w)
{
    ks_window_stop(collector, w);
    kineto_trace *trace = build(w, 0, 0);
    ks_window_release(collector, w);
    return trace;
}

static void each_states_what_it_cost(void **state)
{
    (void)state;
    range(1);
    ks_window *w = open_window();
    for (int64_t i = 0; i < 300; i++)
        range(i);
    ks_window *second = open_window();
    for (int64_t i = 0; i < 40; i++)
        range(i);
    kineto_trace *of_second = stop_and_build(second), *of_all = stop_and_build(w);
    assert_int_equal(cost_said(of_second, "ranges"), 40);
    assert_int_equal(cost_said(of_all, "ranges"), 340);
    assert_int_equal(cost_lines(of_second), 2);
    assert_int_equal(cost_lines(of_all), 2);
    assert_true(cost_said(of_all, "program_cpu_ns") > 0);
    assert_true(cost_said(of_all, "recorder_cpu_ns") > 0);
    assert_true(cost_said(of_all, "recorder_cpu_ns") > cost_said(of_second, "recorder_cpu_ns"));
    kineto_trace_release(of_second);
    kineto_trace_release(of_all);
}

/* ---- while programs record ------------------------------------------------------------------------ */

typedef struct writers {
    uint32_t over; /* atomic */
    int64_t next;  /* atomic */
} writers;

static void *write_ranges(void *argument)
{
    writers *w = argument;
    while (!kb_load_relaxed(&w->over)) {
        for (int i = 0; i < 20; i++)
            range(kb_add_relaxed(&w->next, 1));
        sched_yield();
    }
    return NULL;
}

/* For so long, and until the writer has got on, too. */
static void poll_for(const writers *w, long ms)
{
    enum { RANGES = 200 };
    uint64_t until = kb_clock_ns(CLOCK_MONOTONIC) + (uint64_t)ms * 1000000;
    uint64_t ranges = (uint64_t)kb_load_relaxed(&w->next) + RANGES;
    do {
        uint64_t ns = KB_MIN(ks_collector_poll(collector), UINT64_C(2000000));
        struct timespec t = {0, (long)ns};
        nanosleep(&t, NULL);
    } while (kb_clock_ns(CLOCK_MONOTONIC) < until || (uint64_t)kb_load_relaxed(&w->next) < ranges);
}

typedef struct building {
    ks_window *window;
    int64_t from_ns, until_ns;
    content content;
} building;

static void *build_one(void *argument)
{
    building *b = argument;
    kineto_trace *trace = build(b->window, b->from_ns, b->until_ns);
    b->content = content_of(trace);
    kineto_trace_release(trace);
    ks_window_release(collector, b->window);
    return NULL;
}

/* Each is built on a thread of its own while the next one is recorded. */
static void windows_are_exact_and_whole_while_all_goes_on(void **state)
{
    (void)state;
    writers w = {0, 0};
    pthread_t thread, builder;
    building b[4] = {{0}};
    assert_int_equal(pthread_create(&thread, NULL, write_ranges, &w), 0);
    for (size_t i = 0; i < KB_COUNT(b); i++) {
        b[i].window = open_window();
        poll_for(&w, 10);
        b[i].from_ns = now_ns();
        poll_for(&w, 30);
        b[i].until_ns = now_ns();
        poll_for(&w, 5);
        ks_window_stop(collector, b[i].window);
        if (i > 0)
            assert_int_equal(pthread_join(builder, NULL), 0);
        assert_int_equal(pthread_create(&builder, NULL, build_one, &b[i]), 0);
    }
    poll_for(&w, 5);
    assert_int_equal(pthread_join(builder, NULL), 0);
    kb_store_relaxed(&w.over, 1u);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (size_t i = 0; i < KB_COUNT(b); i++) {
        content c = b[i].content;
        assert_true(c.count > 0);
        assert_true(c.from_ns >= b[i].from_ns && c.until_ns <= b[i].until_ns);
        assert_true(c.whole || c.lost > 0); /* a machine that is very slow */
        if (i > 0)
            assert_true(c.first > b[i - 1].content.last);
    }
}

static void iterations_begin_and_end_a_window_by_themselves(void **state)
{
    (void)state;
    int64_t times_ns[KF_STEP_TIMES];
    uint32_t pid;
    kineto_step_mark();
    uint64_t steps = ks_collector_steps(collector, times_ns, &pid);
    assert_int_equal(steps, 1);
    assert_int_equal(pid, kb_os_pid());
    assert_true(kb_length_ns(times_ns[0], now_ns()) < INT64_C(60000000000));
    ks_window *w = prepare();
    assert_int_equal(ks_window_limit(collector, w, pid, 2, 4, NULL), KINETO_OK);
    for (int64_t i = 1; i < 6; i++) {
        range(10 * i - 1); /* still the iteration before */
        kineto_step_mark();
        range(10 * i);
    }
    ks_window_stop(collector, w);
    kineto_trace *trace = build(w, 0, 0);
    content c = content_of(trace);
    assert_int_equal(c.count, 4); /* 20, 29, 30, 39 */
    assert_int_equal(c.first, 20);
    assert_int_equal(c.last, 39);
    assert_int_equal(kineto_trace_count(trace), 6); /* with two iterations */
    kineto_trace_release(trace);
    ks_window_release(collector, w);
}

/* ---- the ring: in a process of its own -------------------------------------------------------------- */

static int ring_in_child(void)
{
    kineto_trace *trace = NULL;
    ks_window_cut cut = {0};
    collector = collector_make(UINT64_C(60000000000), KS_POLICY_STREAM);
    for (int64_t i = 0; i < 200000; i++) /* several times what the buffer holds */
        range(i);
    int failed = ks_ring_build(collector, &cut, &trace, NULL) != KINETO_OK;
    content c = content_of(trace);
    failed |= !c.whole || c.last != 199999 || c.count < 10000 || c.count > 100000;
    failed |= c.count + c.lost != 200000; /* all of it is of the time that was asked for */
    failed |= cost_lines(trace) != 2 || cost_said(trace, "ranges") < (double)c.count;
    failed |= cost_said(trace, "in_program_estimated_ns") < 150000 * cost_said(trace, "range");
    kineto_trace_release(trace);
    ks_window *w = open_window();
    for (int64_t i = 200000; i < 210000; i++) {
        range(i);
        if (i % 1000 == 0)
            (void)ks_collector_poll(collector);
    }
    c = finish(w);
    failed |= !c.whole || c.count != 10000 || c.first != 200000 || c.lost;
    ks_collector_destroy(collector, false);
    return failed;
}

/* Lost, but for what had to make room. */
static uint64_t lost_otherwise(const kineto_trace *trace)
{
    uint64_t lost = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (line.is_loss && !kb_string_equal(line.reason, kb_string("overwritten in the ring")))
            lost += line.count;
    }
    return lost;
}

/* Several write meanwhile, and their chunks are copied one after the other: what is in the trace
 * has no hole all the same, and nothing else counts as lost. */
#define WRITERS     3
#define NUMBER_BITS 24

static bool each_is_whole(const kineto_trace *trace)
{
    int64_t first[WRITERS], last[WRITERS], count[WRITERS] = {0};
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_arg arg;
        if (!kineto_args_find(trace, row, "i", &arg) || arg.i >> NUMBER_BITS >= WRITERS)
            continue;
        int64_t w = arg.i >> NUMBER_BITS;
        first[w] = count[w] ? KB_MIN(first[w], arg.i) : arg.i;
        last[w] = count[w] ? KB_MAX(last[w], arg.i) : arg.i;
        count[w]++;
    }
    for (uint32_t w = 0; w < WRITERS; w++)
        if (count[w] && last[w] - first[w] + 1 != count[w])
            return false;
    return true;
}

static int dumps_in_child(void)
{
    pthread_t threads[WRITERS];
    writers w[WRITERS];
    int failed = 0;
    collector = collector_make(UINT64_C(60000000000), KS_POLICY_STREAM);
    for (int64_t i = 0; i < WRITERS; i++) {
        w[i] = (writers){0, i << NUMBER_BITS};
        failed |= pthread_create(&threads[i], NULL, write_ranges, &w[i]);
    }
    for (int i = 0; i < 150; i++) {
        kineto_trace *trace = NULL;
        ks_window_cut cut = {0};
        failed |= ks_ring_build(collector, &cut, &trace, NULL) != KINETO_OK;
        failed |= !each_is_whole(trace) || lost_otherwise(trace);
        kineto_trace_release(trace);
    }
    for (uint32_t i = 0; i < WRITERS; i++) {
        kb_store_relaxed(&w[i].over, 1u);
        failed |= pthread_join(threads[i], NULL);
    }
    ks_collector_destroy(collector, false);
    return failed;
}

/* Each window may keep so much; the next one again. */
static int oldest_in_child(void)
{
    int failed = 0;
    collector = collector_make(0, KS_POLICY_OLDEST);
    for (int round = 0; round < 3; round++) {
        ks_window *w = open_window();
        for (int64_t i = 0; i < 200000; i++) {
            range(i);
            if (i % 1000 == 0)
                (void)ks_collector_poll(collector);
        }
        content c = finish(w);
        failed |= c.first != 0 || c.lost == 0 || c.count < 10000;
    }
    ks_collector_destroy(collector, false);
    return failed;
}

static void in_child(int (*test)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0)
        _exit(test());
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void a_ring_keeps_the_newest_and_gives_windows_all_of_theirs(void **state)
{
    (void)state;
    in_child(ring_in_child);
}

static void a_dump_has_no_hole_where_its_chunks_were_copied(void **state)
{
    (void)state;
    in_child(dumps_in_child);
}

static void what_a_window_may_keep_is_its_own(void **state)
{
    (void)state;
    in_child(oldest_in_child);
}

/* The children first: a process attaches once. */
int main(void)
{
    const struct CMUnitTest children[] = {
        cmocka_unit_test(a_ring_keeps_the_newest_and_gives_windows_all_of_theirs),
        cmocka_unit_test(a_dump_has_no_hole_where_its_chunks_were_copied),
        cmocka_unit_test(what_a_window_may_keep_is_its_own),
    };
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_recorded_without_a_window),
        cmocka_unit_test(a_window_has_what_was_recorded_in_it),
        cmocka_unit_test(a_session_of_a_program_that_died_ends_by_itself),
        cmocka_unit_test(what_is_recorded_before_it_is_armed_is_thrown_away),
        cmocka_unit_test(one_that_is_given_up_leaves_nothing),
        cmocka_unit_test(each_states_what_it_cost),
        cmocka_unit_test(windows_are_exact_and_whole_while_all_goes_on),
        cmocka_unit_test(iterations_begin_and_end_a_window_by_themselves),
    };
    if (!make_directory(directory, sizeof directory))
        return 1;
    snprintf(output, sizeof output, "%s/t.json", directory);
    int failed = cmocka_run_group_tests(children, NULL, NULL);
    collector = collector_make(0, KS_POLICY_STREAM);
    failed += cmocka_run_group_tests(tests, NULL, NULL);
    ks_collector_destroy(collector, false);
    return failed != 0 || rmdir(directory) != 0;
}
