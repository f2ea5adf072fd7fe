/* Typical calls of several runs: a change of every call is found although other programs delay some calls of each run,
 * and runs of one program rarely differ. */
#include "analyzing.h"

#include "analyze/diff/diff.h"

#include <math.h>

static uint64_t state;

static double uniform(void)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return ((double)(state >> 11) + 0.5) / 9007199254740992.0;
}

static double normal(void)
{
    return sqrt(-2 * log(uniform())) * cos(6.283185307179586 * uniform());
}

enum { STEPS = 24, RUNS = 3 };

/* A call of 1 % noise; a share of the calls of a run, which differs from run to run, is delayed by several times its
 * length, as by other programs. */
static double draw_call(double us, double delayed)
{
    double length = us * (1 + 0.01 * normal());
    return uniform() < delayed ? length * (1 + 3 * uniform()) : length;
}

/* Steps of "load" and "compute", with 1 % noise between runs. */
static kineto_trace *draw_run(double load_us, double delayed)
{
    maker m = make();
    double at = 0, of_run = 1 + 0.01 * normal();
    for (uint32_t i = 0; i < STEPS; i++) {
        double load = draw_call(load_us * of_run, delayed), compute = draw_call(4000 * of_run, delayed);
        put_range(&m, "step", at, at + load + compute);
        put_range(&m, "load", at, at + load);
        put_range(&m, "compute", at + load, at + load + compute);
        at += load + compute + 1;
    }
    return finish(m.b);
}

/* Of RUNS traces a side, which are released if `release`. */
static kineto_analysis *compare_sides(kineto_trace *sides[2][RUNS], bool medians, bool release)
{
    const kineto_trace *runs[2][RUNS];
    kineto_analysis *facts = NULL;
    kineto_diff_options o = {.size = sizeof o, .draws = 300, .medians = medians};
    for (uint32_t i = 0; i < 2 * RUNS; i++)
        runs[i / RUNS][i % RUNS] = sides[i / RUNS][i % RUNS];
    assert_int_equal(kineto_diff_runs(runs[0], RUNS, runs[1], RUNS, &o, &facts, NULL), KINETO_OK);
    for (uint32_t i = 0; i < 2 * RUNS && release; i++)
        kineto_trace_release(sides[i / RUNS][i % RUNS]);
    return facts;
}

static kineto_analysis *compare(double change, bool medians)
{
    kineto_trace *sides[2][RUNS];
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < RUNS; i++)
            sides[side][i] = draw_run(2000 * (side ? 1 + change : 1), 0.4 * uniform());
    return compare_sides(sides, medians, true);
}

static kineto_diff_verdict evaluate(const kineto_analysis *d, const char *gate)
{
    kineto_diff_verdict v = {.size = sizeof v};
    assert_int_equal(kineto_diff_gate(d, gate, false, &v, NULL), KINETO_OK);
    return v;
}

/* The rows of diff_calls, of a name. */
static uint64_t count_calls(const kineto_analysis *d, const char *name)
{
    const ka_table *t = &d->tables[KA_TABLE_diff_calls];
    uint64_t count = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        count += kb_string_equal(ka_text_at(t, row, KA_COL_diff_calls_name), kb_string(name));
    return count;
}

typedef struct rates {
    double found, other, failed, inconclusive; /* in percent of the pairs */
} rates;

static rates draw_pairs(double change, uint64_t seed)
{
    enum { PAIRS = FEWER(300, 20) };
    rates r = {0};
    state = seed;
    for (int i = 0; i < PAIRS; i++) {
        kineto_analysis *d = compare(change, i % 2);
        r.found += 100.0 / PAIRS * (double)count_calls(d, "load");
        r.other += 100.0 / PAIRS * (double)count_calls(d, "compute");
        r.failed += 100.0 / PAIRS * (evaluate(d, "function:load>3%").outcome == KINETO_DIFF_FAILED);
        r.inconclusive += 100.0 / PAIRS * (evaluate(d, "function:load>3%").outcome == KINETO_DIFF_INCONCLUSIVE);
        kineto_analysis_destroy(d);
    }
    print_message("change of %2.0f %%: load found in %.1f %%, compute in %.1f %%; gate failed in %.1f %%, "
                  "inconclusive in %.1f %%\n", 100 * change, r.found, r.other, r.failed, r.inconclusive);
    return r;
}

/* Two-sided 5 % are nominal; of the gate 2.5 %. The rest is the chance of the sample. */
static void runs_of_one_program_rarely_differ(void **unused)
{
    (void)unused;
    rates r = draw_pairs(0, 1);
    assert_true(r.found <= 7 && r.other <= 7);
    assert_true(r.failed <= 5);
}

static void a_change_of_every_call_is_found(void **unused)
{
    (void)unused;
    rates small = draw_pairs(0.1, 2), large = draw_pairs(0.5, 3);
    assert_true(small.found >= 80 && small.failed >= 80);
    assert_true(large.found >= 99 && large.failed >= 99);
    assert_true(large.other <= 7);
}

/* The step is named by its ranges, the change has its size for a call and a step, and its share of the difference. */
static void the_row_says_what_changed_by_how_much(void **unused)
{
    (void)unused;
    state = 4;
    kineto_analysis *d = compare(0.5, false);
    const ka_table *t = &d->tables[KA_TABLE_diff_calls];
    assert_int_equal(count_calls(d, "step"), 1);
    assert_int_equal(count_calls(d, "load"), 1);
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        if (!kb_string_equal(ka_text_at(t, row, KA_COL_diff_calls_name), kb_string("load")))
            continue;
        assert_true(fabs(ka_cell_at(t, row, KA_COL_diff_calls_delta_us).d - 1000) < 100);
        assert_true(fabs(ka_cell_at(t, row, KA_COL_diff_calls_after_calls).d - 1) < 1e-9);
        assert_true(fabs(ka_cell_at(t, row, KA_COL_diff_calls_orders).d - 20) < 1e-9);
        assert_true(fabs(ka_cell_at(t, row, KA_COL_diff_calls_share_pct).d - 100) < 40);
    }
    kineto_diff_verdict v = evaluate(d, "step>3%");
    assert_int_equal(v.outcome, KINETO_DIFF_FAILED);
    assert_int_equal(evaluate(d, "step>100%").outcome, KINETO_DIFF_PASSED);
    kineto_analysis_destroy(d);
}

/* A run of 24 steps with pauses between them, so that they cover less of the time than steps that are recognised. */
static kineto_trace *draw_run_with_pauses(const char *name, double pause_us)
{
    maker m = make();
    for (uint32_t i = 0; i < STEPS; i++) {
        double at = i * (6000 + pause_us);
        put_range(&m, name, at, at + 6000 * (1 + 0.001 * normal()));
    }
    return finish(m.b);
}

static int64_t count_steps(const char *name, double pause_us)
{
    kineto_trace *sides[2][RUNS];
    state = 6;
    for (uint32_t i = 0; i < 2 * RUNS; i++)
        sides[i / RUNS][i % RUNS] =
            i == 4 ? draw_run_with_pauses(name, pause_us) : draw_run_with_pauses("step", 10);
    kineto_analysis *d = compare_sides(sides, false, true);
    int64_t steps = ka_cell_at(&d->tables[KA_TABLE_diff_runs], 0, KA_COL_diff_runs_steps).i;
    kineto_analysis_destroy(d);
    return steps;
}

/* One run before is as long as none after, but noise makes the interval useless. */
static void runs_that_are_all_longer_fail_whatever_their_noise(void **unused)
{
    (void)unused;
    const double lengths[2][RUNS] = {{1700, 2300, 138000}, {307000, 311000, 364000}};
    kineto_trace *sides[2][RUNS];
    for (uint32_t i = 0; i < 2 * RUNS; i++) {
        maker m = make();
        put_range(&m, "all", 0, lengths[i / RUNS][i % RUNS]);
        sides[i / RUNS][i % RUNS] = finish(m.b);
    }
    kineto_analysis *d = compare_sides(sides, false, true);
    kineto_diff_verdict v = evaluate(d, "step>50%");
    assert_int_equal(v.outcome, KINETO_DIFF_FAILED);
    assert_non_null(strstr(v.sentence, "in each run after"));
    assert_int_equal(evaluate(d, "step>200%").outcome, KINETO_DIFF_INCONCLUSIVE);
    kineto_analysis_destroy(d);
}

/* Whether a run has recognised steps must not depend on its pauses, and steps are not compared with whole runs. */
static void all_runs_have_the_same_kind_of_steps(void **unused)
{
    (void)unused;
    assert_int_equal(count_steps("step", 10), STEPS);
    assert_int_equal(count_steps("step", 3000), STEPS);
    assert_int_equal(count_steps("iteration", 10), 0);
    assert_int_equal(count_steps("iteration", 3000), 0);
}

/* Typical calls that differ from run to run by 30 % cannot decide about 3 %; a fall is within the limit of a rise. */
static void noise_beyond_the_limit_is_inconclusive(void **unused)
{
    (void)unused;
    const double lengths[2][RUNS] = {{1000, 1300, 1700}, {1100, 1500, 1600}};
    kineto_trace *sides[2][RUNS];
    state = 5;
    for (uint32_t i = 0; i < 2 * RUNS; i++)
        sides[i / RUNS][i % RUNS] = draw_run(3 * lengths[i / RUNS][i % RUNS], 0);
    for (int swapped = 0; swapped < 2; swapped++) {
        kineto_analysis *d = compare_sides(sides, false, swapped);
        kineto_diff_verdict v = evaluate(d, "function:load>3%");
        assert_string_equal(kineto_diff_outcome_name(v.outcome), swapped ? "passed" : "inconclusive");
        assert_non_null(strstr(v.sentence, "3 runs a side show changes above"));
        kineto_analysis_destroy(d);
        for (uint32_t i = 0; i < RUNS; i++) {
            kineto_trace *before = sides[0][i];
            sides[0][i] = sides[1][i];
            sides[1][i] = before;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_one_program_rarely_differ),
        cmocka_unit_test(a_change_of_every_call_is_found),
        cmocka_unit_test(the_row_says_what_changed_by_how_much),
        cmocka_unit_test(runs_that_are_all_longer_fail_whatever_their_noise),
        cmocka_unit_test(all_runs_have_the_same_kind_of_steps),
        cmocka_unit_test(noise_beyond_the_limit_is_inconclusive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
