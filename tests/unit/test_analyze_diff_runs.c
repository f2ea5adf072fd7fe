/* Comparing several runs of each side: noise between runs counts, so that runs of one program are no regression
 * although the steps within each run agree; and a change of the program is found. */
#include "analyzing.h"
#include "unit.h"

#include "analyze/diff/diff.h"

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

enum { STEPS = 4, MAX_RUNS = 6 };

/* A run: all of its steps have a length and a kernel in common, which differ from run to run. */
static kineto_trace *run_of(uint32_t steps, double step_us, double kernel_us, const char *kernel)
{
    maker m = make();
    double at = 0;
    for (uint32_t i = 0; i < steps; i++) {
        double length = step_us * (1 + 0.001 * normal());
        char step[32];
        snprintf(step, sizeof step, "ProfilerStep#%u", i);
        put_range(&m, step, at, at + length);
        put_op(&m, "aten::add", at + 1, at + 20);
        put_call(&m, "cudaLaunchKernel", at + 2, at + 5, i + 1);
        put_kernel(&m, m.stream, kernel, at + 10, at + 10 + kernel_us * (1 + 0.001 * normal()), i + 1);
        at += length;
    }
    return finish(m.b);
}

typedef struct side {
    kineto_trace *runs[MAX_RUNS];
    uint32_t count;
} side;

/* Runs whose steps are by so much slower, with 2 % noise between runs. */
static side make_side(uint32_t count, double change)
{
    side s = {.count = count};
    for (uint32_t i = 0; i < count; i++) {
        double noise = 1 + 0.02 * normal();
        s.runs[i] = run_of(STEPS, 1000 * (1 + change) * noise, 300 * (1 + change) * noise, "k");
    }
    return s;
}

static void release(side *s)
{
    for (uint32_t i = 0; i < s->count; i++)
        kineto_trace_release(s->runs[i]);
}

static kineto_status compare(const side *a, const side *b, bool medians, kineto_analysis **out, kineto_error *err)
{
    kineto_diff_options o = {.size = sizeof o, .draws = 500, .medians = medians};
    return kineto_diff_runs((const kineto_trace *const *)a->runs, a->count, (const kineto_trace *const *)b->runs,
                            b->count, &o, out, err);
}

static kineto_analysis *compared(const side *a, const side *b, bool medians)
{
    kineto_analysis *facts = NULL;
    kineto_error err = {.message = ""};
    if (compare(a, b, medians, &facts, &err))
        print_error("%s\n", err.message);
    assert_non_null(facts);
    return facts;
}

static uint32_t outcome_of(const kineto_analysis *d, const char *gate)
{
    kineto_diff_verdict v = {.size = sizeof v};
    assert_int_equal(kineto_diff_gate(d, gate, false, &v, NULL), KINETO_OK);
    return v.outcome;
}

static kineto_fact cell_of(const kineto_analysis *a, const char *table, uint64_t row, const char *column)
{
    uint32_t t = kineto_analysis_find_table(a, table);
    kineto_fact_column c;
    kineto_fact f = {0};
    assert_true(t != UINT32_MAX);
    for (uint32_t i = 0; kineto_analysis_column(a, t, i, &c); i++)
        if (kb_string_equal(c.name, kb_string(column)))
            assert_true(kineto_analysis_fact(a, t, row, i, &f));
    return f;
}

/* How often a gate of 0.5 % fails, in percent. */
static double percent_failed(uint32_t runs, double change, bool medians, uint64_t seed, const char *gate)
{
    enum { PAIRS = FEWER(200, 20) };
    int failed = 0;
    state = seed;
    for (int i = 0; i < PAIRS; i++) {
        side a = make_side(runs, 0), b = make_side(runs, change);
        kineto_analysis *d = compared(&a, &b, medians);
        failed += outcome_of(d, gate) == KINETO_DIFF_FAILED;
        kineto_analysis_destroy(d);
        release(&a);
        release(&b);
    }
    return 100.0 * failed / PAIRS;
}

/* One-sided, of an interval of 95 %: 2.5 % are expected; twice that, and the chance of the sample. */
static void runs_of_one_program_rarely_fail(void **unused)
{
    (void)unused;
    enum { MOST = FEWER(6, 15) }; /* of few pairs two may fail by chance */
    for (uint32_t runs = 3; runs <= MAX_RUNS; runs += 3) {
        assert_true(percent_failed(runs, 0, false, 1, "step>0.5%") <= MOST);
        assert_true(percent_failed(runs, 0, false, 2, "kernel:k>0.5%") <= MOST);
    }
    assert_true(percent_failed(5, 0, true, 3, "step>0.5%") <= MOST + 2);
}

static void a_change_of_the_program_is_found(void **unused)
{
    (void)unused;
    assert_true(percent_failed(3, 0.15, false, 4, "step>0.5%") >= 90);
    assert_true(percent_failed(6, 0.08, false, 5, "step>0.5%") >= 95);
    assert_true(percent_failed(6, 0.08, false, 6, "category:part.kernel>0.5%") >= 95);
}

/* Steps of one run a side agree far better than runs do: that is why runs are compared. */
static void steps_of_single_runs_mistake_noise_between_runs_for_a_change(void **unused)
{
    (void)unused;
    assert_true(percent_failed(1, 0, false, 7, "step>0.5%") >= 25);
}

static void values_are_means_of_runs(void **unused)
{
    (void)unused;
    side a = {.count = 3}, b = {.count = 3};
    double sum[2] = {0};
    for (uint32_t i = 0; i < 3; i++) {
        a.runs[i] = run_of(STEPS, 1000 + 10 * i, 300, "k");
        b.runs[i] = run_of(STEPS + 2 * i, 2000 - 10 * i, 300, i == 1 ? "another" : "k");
    }
    kineto_analysis *d = compared(&a, &b, false);
    for (uint32_t i = 0; i < 6; i++)
        sum[i / 3] += cell_of(d, "diff_runs", i, "step_us").d;
    assert_true(fabs(cell_of(d, "diff_steps", 0, "before_us").d - sum[0] / 3) < 1e-6);
    assert_true(fabs(cell_of(d, "diff_steps", 0, "after_us").d - sum[1] / 3) < 1e-6);
    assert_int_equal(cell_of(d, "diff_steps", 0, "after_steps").i, 3 * STEPS + 6);
    /* In the one run in which it has another name, the kernel is the same one of the operator. */
    assert_true(fabs(cell_of(d, "diff_kernels", 0, "after_us").d - 300) < 2);
    kineto_analysis_destroy(d);
    release(&a);
    release(&b);
}

static void exchanged_sides_have_the_opposite_difference(void **unused)
{
    (void)unused;
    state = 8;
    side a = make_side(4, 0), b = make_side(5, 0.1);
    kineto_analysis *d = compared(&a, &b, false), *e = compared(&b, &a, false);
    assert_true(fabs(cell_of(d, "diff_steps", 0, "delta_us").d + cell_of(e, "diff_steps", 0, "delta_us").d) < 1e-6);
    double high = cell_of(d, "diff_steps", 0, "ci_high_pct").d, low = cell_of(e, "diff_steps", 0, "ci_low_pct").d;
    assert_true(fabs(100 * (1 / (1 + high / 100) - 1) - low) < 1e-6);
    kineto_analysis_destroy(d);
    kineto_analysis_destroy(e);
    release(&a);
    release(&b);
}

static void two_runs_a_side_have_no_interval(void **unused)
{
    (void)unused;
    state = 9;
    side a = make_side(2, 0), b = make_side(2, 0.5);
    kineto_analysis *d = compared(&a, &b, false);
    kineto_diff_verdict v = {.size = sizeof v};
    assert_int_equal(kineto_diff_gate(d, "step>3%", false, &v, NULL), KINETO_OK);
    assert_int_equal(v.outcome, KINETO_DIFF_SKIPPED);
    assert_non_null(strstr(v.sentence, "too few runs"));
    kineto_analysis_destroy(d);
    release(&a);
    release(&b);
}

static void runs_without_and_with_steps_are_refused(void **unused)
{
    (void)unused;
    side a = make_side(3, 0), b = make_side(3, 0);
    maker m = make();
    kineto_error err = {.message = ""};
    kineto_analysis *d = NULL;
    put_op(&m, "aten::add", 0, 100);
    kineto_trace_release(b.runs[1]);
    b.runs[1] = finish(m.b);
    assert_int_equal(compare(&a, &b, false, &d, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "run 2"));
    kineto_trace_release(a.runs[0]);
    a.runs[0] = NULL;
    assert_int_equal(compare(&a, &b, false, &d, &err), KINETO_E_ARGUMENT);
    a.count = 0;
    assert_int_equal(compare(&a, &b, false, &d, &err), KINETO_E_ARGUMENT);
    assert_null(d);
    a.count = 3;
    release(&a);
    release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_of_one_program_rarely_fail),
        cmocka_unit_test(a_change_of_the_program_is_found),
        cmocka_unit_test(steps_of_single_runs_mistake_noise_between_runs_for_a_change),
        cmocka_unit_test(values_are_means_of_runs),
        cmocka_unit_test(exchanged_sides_have_the_opposite_difference),
        cmocka_unit_test(two_runs_a_side_have_no_interval),
        cmocka_unit_test(runs_without_and_with_steps_are_refused),
    };
    return RUN_TESTS(tests);
}
