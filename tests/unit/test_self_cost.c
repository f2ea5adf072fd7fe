/* Every trace states what it cost: sessions of the program, snapshots, parts of a longer recording,
 * forked children, threads of the library. Times are compared with times of the same run only. */
#include "unit.h"

#include "../helpers/cost.h"
#include "../helpers/recording.h"

#include "base/base.h"
#include "record/record.h"
#include "session/self_cost.h"

#include <sys/resource.h>
#include <time.h>

#define MS UINT64_C(1000000)

KINETO_SITE(plain, KINETO_KIND_CPU_OP, "plain");
KINETO_SITE(marker, KINETO_KIND_CPU_INSTANT_EVENT, "marker");

static void make_ranges(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        kineto_range_end(kineto_range_begin(&plain));
}

static void burn(uint64_t ns)
{
    uint64_t until = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (kb_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
        ;
}

/* ---- traces -------------------------------------------------------------------------------------- */

static void a_session_states_its_cost(void **state)
{
    (void)state;
    kineto_session *s = record();
    uint64_t begun = kb_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    make_ranges(5000);
    kineto_instant_mark(&marker, NULL);
    burn(5 * MS);
    uint64_t burnt = kb_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - begun;
    kineto_trace *t = finish(s);
    assert_int_equal(cost_lines(t), 2);
    assert_int_equal(cost_said(t, "ranges"), 5000);
    assert_int_equal(cost_said(t, "instants"), 1);
    assert_true(cost_said(t, "bytes") >= 5000 * 24);
    assert_true(cost_said(t, "program_cpu_ns") >= (double)burnt);
    assert_true(cost_said(t, "in_program_estimated_ns") > 0);
    assert_true(cost_said(t, "build_cpu_ns") > 0);
    assert_true(cost_said(t, "percent") > 0);
    assert_true(cost_said(t, "recorder_cpu_ns") == 0);
    kineto_trace_release(t);
}

static void each_part_of_a_recording_states_its_own(void **state)
{
    (void)state;
    kineto_session *all = record();
    make_ranges(700);
    kineto_session *part = record();
    make_ranges(50);
    kineto_trace *of_part = finish(part);
    make_ranges(3);
    kineto_trace *so_far = snapshot(all);
    make_ranges(20);
    kineto_trace *of_all = finish(all);
    assert_int_equal(cost_said(of_part, "ranges"), 50);
    assert_int_equal(cost_said(so_far, "ranges"), 753);
    assert_int_equal(cost_said(of_all, "ranges"), 773);
    assert_true(cost_said(of_part, "program_cpu_ns") < cost_said(so_far, "program_cpu_ns"));
    assert_true(cost_said(so_far, "program_cpu_ns") < cost_said(of_all, "program_cpu_ns"));
    kineto_trace_release(of_part);
    kineto_trace_release(so_far);
    kineto_trace_release(of_all);
}

static void a_session_that_starts_again_begins_anew(void **state)
{
    (void)state;
    kineto_session *s;
    kineto_trace *first, *second;
    assert_int_equal(begin_session(NULL, &s, NULL), KINETO_OK);
    make_ranges(40);
    assert_int_equal(kineto_session_stop(s, &first, NULL), KINETO_OK);
    burn(20 * MS);
    assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
    make_ranges(2);
    assert_int_equal(end_session(s, &second, NULL), KINETO_OK);
    assert_int_equal(cost_said(first, "ranges"), 40);
    assert_int_equal(cost_said(second, "ranges"), 2);
    assert_true(cost_said(second, "program_cpu_ns") < (double)(20 * MS));
    kineto_trace_release(first);
    kineto_trace_release(second);
}

/* Chunks that were overwritten count as full. */
static void a_ring_states_what_it_cost_since_it_began(void **state)
{
    (void)state;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 256 << 10, KINETO_RETAIN_NEWEST);
    make_ranges(100000);
    kineto_trace *t = finish(s);
    double estimated = cost_said(t, "in_program_estimated_ns"), range = cost_said(t, "range");
    assert_true(cost_said(t, "ranges") < 50000);
    assert_true(estimated > 90000 * range && estimated < 110000 * range);
    kineto_trace_release(t);
}

static void children_that_were_waited_for_are_part_of_the_program(void **state)
{
    (void)state;
    struct rusage before, after;
    int status;
    getrusage(RUSAGE_CHILDREN, &before);
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        make_ranges(30);
        burn(30 * MS);
        _exit(0);
    }
    make_ranges(7);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    getrusage(RUSAGE_CHILDREN, &after);
    kineto_trace *t = finish(s);
    double took = 1e9 * (double)(after.ru_utime.tv_sec - before.ru_utime.tv_sec) +
                  1e3 * (double)(after.ru_utime.tv_usec - before.ru_utime.tv_usec);
    assert_int_equal(cost_said(t, "ranges"), 37);
    assert_true(cost_said(t, "program_cpu_ns") >= took);
    kineto_trace_release(t);
}

/* ---- threads of the library ---------------------------------------------------------------------- */

static void *burn_a_little(void *took)
{
    burn(5 * MS);
    *(uint64_t *)took = kb_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

static void threads_of_the_library_are_distinguished(void **state)
{
    (void)state;
    pthread_t threads[3];
    uint64_t took[3], before = kb_threads_cpu_ns(), sum = 0;
    kineto_session *s = record();
    make_ranges(10);
    for (uint32_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(kb_thread_start(&threads[i], burn_a_little, &took[i]), 0);
    for (uint32_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        sum += took[i];
    }
    assert_true(kb_threads_cpu_ns() - before >= sum);
    kineto_trace *t = finish(s);
    assert_true(cost_said(t, "helper_threads_cpu_ns") >= (double)sum);
    assert_true(cost_said(t, "in_program_timed_ns") >= (double)sum);
    kineto_trace_release(t);
}

/* ---- the account --------------------------------------------------------------------------------- */

static void records_of_a_part_are_counted_by_their_times(void **state)
{
    (void)state;
    const uint64_t chunk[] = {
        kf_header(KF_KEYFRAME, 5, 0, 1),
        100,
        0,
        0,
        0,
        kf_header(KF_BEGIN, 2, 0, 7),
        110,
        kf_end(0, 120),
        kf_header(KF_BEGIN, 2, 0, 7),
        200,
        kf_end(0, 210),
        kf_header(KF_ARGS, 4, 0, 0),
        210,
        0,
        0,
        kf_header(KF_INSTANT, 2, 0, 8),
        300,
    };
    const ks_part part = {150, 250};
    ks_tally all = {0}, some = {0};
    ks_tally_chunk(&all, chunk, COUNT_OF(chunk), NULL);
    ks_tally_chunk(&some, chunk, COUNT_OF(chunk), &part);
    assert_int_equal(all.records[KF_BEGIN], 2);
    assert_int_equal(all.records[KF_INSTANT], 1);
    assert_int_equal(all.bytes, sizeof chunk);
    assert_int_equal(some.records[KF_BEGIN], 1);
    assert_int_equal(some.records[KF_ARGS], 1);
    assert_int_equal(some.records[KF_INSTANT], 0);
    assert_int_equal(some.bytes, 7 * sizeof *chunk);
}

/* ---- what is said -------------------------------------------------------------------------------- */

static char said_detail[512];

static void keep_share(void *context, const char *source, const char *reason, uint64_t count,
                       bool is_loss, const char *detail)
{
    (void)context;
    (void)source;
    (void)count;
    (void)is_loss;
    if (strncmp(reason, "CPU time", strlen("CPU time")) == 0)
        snprintf(said_detail, sizeof said_detail, "%s", detail);
}

/* What a report says of a recorder and a program with these times. */
static const char *share_said(uint64_t program_ns, uint64_t lasted_ns, uint64_t recorder_ns)
{
    static kf_control control;
    static char json[KS_COST_JSON_BYTES];
    const ks_account account = {.by = recorder_ns ? KS_BY_RECORDER : KS_BY_PROGRAM};
    const ks_cost_summary said = {.account = &account,
                               .control = &control,
                               .cost = {.recorder_ns = recorder_ns, .program_ns = program_ns,
                                        .estimated_ns = MS / 10},
                               .lasted_ns = lasted_ns};
    ks_cost_report(&said, keep_share, NULL, json);
    assert_true((strstr(json, "\"percent\": null") == NULL) ==
                (strstr(said_detail, "that the program took by itself") != NULL));
    assert_non_null(strstr(json, "\"percent_of_elapsed\": "));
    return said_detail;
}

static void a_program_that_sleeps_is_not_compared_with(void **state)
{
    (void)state;
    assert_non_null(strstr(share_said(100 * MS, 1000 * MS, 8 * MS),
                           "8.11 % of the 99.900 ms that the program took by itself"));
    assert_non_null(strstr(share_said(4 * MS, 4000 * MS, 8 * MS - MS / 10),
                           "0.20 % of one processor for 4.000 s; the program took 3.900 ms by "
                           "itself"));
    assert_non_null(strstr(share_said(50 * MS, 10000 * MS, 8 * MS), "of one processor"));
    assert_non_null(strstr(share_said(5 * MS, 6 * MS, 8 * MS), "of one processor"));
    assert_null(strstr(share_said(5 * MS, 6 * MS, 0), "of one processor"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_states_its_cost),
        cmocka_unit_test(each_part_of_a_recording_states_its_own),
        cmocka_unit_test(a_session_that_starts_again_begins_anew),
        cmocka_unit_test(a_ring_states_what_it_cost_since_it_began),
        cmocka_unit_test(children_that_were_waited_for_are_part_of_the_program),
        cmocka_unit_test(threads_of_the_library_are_distinguished),
        cmocka_unit_test(records_of_a_part_are_counted_by_their_times),
        cmocka_unit_test(a_program_that_sleeps_is_not_compared_with),
    };
    return RUN_TESTS(tests);
}
