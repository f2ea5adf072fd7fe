/* Comparing two traces: what noise is, gates, names of kernels, and who is matched with whom. */
#include "analyzing.h"
#include "unit.h"

#include "analyze/diff/diff.h"

/* ---- noise ---------------------------------------------------------------------------------- */

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

static void draw_steps(double *steps, uint32_t count, double mean, double noise)
{
    for (uint32_t i = 0; i < count; i++)
        steps[i] = mean * (1 + noise * normal());
}

/* One in ten takes half as long again. */
static void slow_some_down(double *steps, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (uniform() < 0.1)
            steps[i] *= 1.5;
}

static bool is_beyond_3_percent(const ka_estimate *e)
{
    return e->pct > 3 && (e->sure > 0 || e->shift.pct > 3);
}

/* Under sanitizers the arithmetic is the same, and slow. */
enum { PAIRS = FEWER(1000, 200) };

/* Of PAIRS pairs with 6 steps a side and 1 % noise: how many are beyond 3 % and no noise, and how
 * often the interval holds the truth. */
typedef struct outcome {
    int failed, held, sure;
} outcome;

static outcome judge_pairs_of(double change, bool medians, uint64_t seed, uint32_t steps,
                              bool some_slow)
{
    outcome o = {0};
    double before[KA_MAX_BLOCKS], after[KA_MAX_BLOCKS];
    ka_chance c;
    assert_true(ka_chance_make(&c, 1, 0, medians));
    state = seed;
    for (int i = 0; i < PAIRS; i++) {
        draw_steps(before, steps, 1000, 0.01);
        draw_steps(after, steps, 1000 * (1 + change), 0.01);
        if (some_slow) {
            slow_some_down(before, steps);
            slow_some_down(after, steps);
        }
        ka_estimate e = ka_compare(&c, before, steps, after, steps);
        o.failed += is_beyond_3_percent(&e);
        o.sure += e.sure > 0;
        o.held += e.low_pct <= 100 * change && 100 * change <= e.high_pct;
    }
    ka_chance_free(&c);
    return o;
}

static outcome judge_pairs(double change, bool medians, uint64_t seed, uint32_t steps)
{
    return judge_pairs_of(change, medians, seed, steps, false);
}

static void the_same_program_passes_and_one_that_is_5_percent_slower_fails(void **unused)
{
    (void)unused;
    HAS_ONE_THREAD();
    for (int medians = 0; medians < 2; medians++)
        for (uint64_t seed = 1; seed <= FEWER(2, 1); seed++) {
            outcome same = judge_pairs(0, medians, seed, 6),
                    slower = judge_pairs(0.05, medians, seed + 10, 6);
            print_message("%s, seed %d: of %d pairs %d of the same fail, %d of the slower; "
                          "the interval holds the truth in %d and %d\n",
                          medians ? "medians" : "means", (int)seed, PAIRS, same.failed,
                          slower.failed, same.held, slower.held);
            assert_true(same.failed <= PAIRS / 100);
            assert_true(slower.failed >= PAIRS * 99 / 100);
        }
}

static void the_same_program_passes_though_one_step_in_ten_is_slow(void **unused)
{
    (void)unused;
    HAS_ONE_THREAD();
    for (int medians = 0; medians < 2; medians++)
        for (uint64_t seed = 1; seed <= FEWER(2, 1); seed++) {
            outcome same = judge_pairs_of(0, medians, seed, 6, true),
                    slower = judge_pairs_of(0.1, medians, seed + 10, 6, true);
            print_message("%s, seed %d: of %d pairs %d of the same fail, %d of the slower\n",
                          medians ? "medians" : "means", (int)seed, PAIRS, same.failed,
                          slower.failed);
            assert_true(same.failed <= PAIRS / 100);
            assert_true(slower.failed >= PAIRS * 48 / 100);
        }
}

static bool fails(const double *before, const double *after, uint32_t steps)
{
    ka_chance c;
    assert_true(ka_chance_make(&c, 0, 0, false));
    ka_estimate e = ka_compare(&c, before, steps, after, steps);
    ka_chance_free(&c);
    return is_beyond_3_percent(&e);
}

static void steps_that_are_all_slower_fail_though_some_are_far_off(void **unused)
{
    (void)unused;
    static const double before[] = {75.5, 76.9, 76.2, 76.7, 78.5, 81.1},
                        uneven[] = {100.3, 122.1, 166.4, 82.0, 107.2, 166.4},
                        even[] = {100, 101, 150, 100.5, 100.7, 102},
                        one_slow[] = {76.1, 160, 77.3, 75.2, 80.9, 76.5},
                        hardly[] = {82, 160, 82.1, 81.9, 82.2, 82};
    assert_true(fails(before, uneven, 6));
    assert_true(fails(before, even, 6));
    assert_true(fails(before, even, 5)); /* without the last, still all of them */
    assert_false(fails(before, even, 4));
    assert_false(fails(before, one_slow, 6));
    assert_false(fails(one_slow, before, 6));
    assert_true(fails(before, hardly, 6)); /* all are 7 % slower */
}

/* Critical values from tables of the test, two-sided 1 %: the largest counts that are still
 * significant. */
static void ranks_prove_what_tables_of_the_test_say(void **unused)
{
    (void)unused;
    static const uint32_t known[][3] = {{5, 5, 0},  {6, 6, 2},    {7, 7, 4},     {8, 8, 7},
                                        {9, 9, 11}, {10, 10, 16}, {20, 20, 105}, {6, 4, 0}};
    for (size_t i = 0; i < KB_COUNT(known); i++) {
        assert_int_equal(ka_wrong_pairs(known[i][0], known[i][1], 0.005), known[i][2] + 1);
        assert_int_equal(ka_wrong_pairs(known[i][1], known[i][0], 0.005), known[i][2] + 1);
    }
    assert_int_equal(ka_wrong_pairs(4, 4, 0.005), 0);
    assert_int_equal(ka_wrong_pairs(1, 1, 0.005), 0);
    assert_in_range(ka_wrong_pairs(32, 32, 0.005), 315, 325); /* 512 - 2.58 * sqrt(32 * 32 * 65 / 12) */
}

static ka_shift shift_of(const double *a, const double *b)
{
    ka_chance c;
    assert_true(ka_chance_make(&c, 0, 0, false));
    ka_shift up = ka_shift_by_ranks(&c, a, 6, b, 6, false),
             down = ka_shift_by_ranks(&c, b, 6, a, 6, true);
    ka_chance_free(&c);
    assert_true(up.delta == -down.delta);
    return up;
}

static void a_shift_by_ranks_is_what_is_usual(void **unused)
{
    (void)unused;
    const double a[] = {100, 100, 100, 100, 100, 100}, b[] = {110, 110, 900, 110, 110, 110},
                 none[6] = {0}, below[] = {-9, -9, -9, -9, -9, -9};
    assert_true(shift_of(a, b).pct == 10 && shift_of(a, b).delta == 10);
    assert_true(shift_of(a, a).pct == 0 && shift_of(b, a).delta == 0);
    assert_true(isinf(shift_of(none, a).pct) && shift_of(none, a).delta == 100);
    assert_true(shift_of(none, none).pct == 0);
    assert_true(shift_of(below, none).pct == 100 && shift_of(below, none).delta == 9);
}

static void intervals_hold_the_truth_about_as_often_as_they_say(void **unused)
{
    (void)unused;
    HAS_ONE_THREAD();
    for (int medians = 0; medians < 2; medians++)
        for (uint32_t steps = medians ? 5 : 3; steps <= 24; steps *= 2) {
            outcome o = judge_pairs(0.02, medians, 7, steps);
            print_message("%s, %u steps: %d of %d\n", medians ? "medians" : "means", steps, o.held,
                          PAIRS);
            assert_true(o.held >= PAIRS * 92 / 100);
            assert_true(judge_pairs(0, medians, 8, steps).sure <= PAIRS * 8 / 100);
        }
}

static void too_few_steps_have_no_interval(void **unused)
{
    (void)unused;
    const double a[] = {100, 101}, b[] = {150, 151};
    ka_chance c;
    assert_true(ka_chance_make(&c, 0, 0, false));
    for (uint32_t n = 0; n <= 2; n++) {
        ka_estimate e = ka_compare(&c, a, n, b, n);
        assert_int_equal(e.sure, -1);
        assert_true(isnan(e.low_pct) && isnan(e.high_pct));
    }
    assert_true(ka_compare(&c, a, 1, b, 1).pct == 50);
    ka_chance_free(&c);
}

static void steps_that_are_all_the_same_have_no_noise(void **unused)
{
    (void)unused;
    const double a[] = {8, 8, 8, 8}, b[] = {9, 9, 9, 9}, none[4] = {0};
    ka_chance c;
    assert_true(ka_chance_make(&c, 0, 0, false));
    ka_estimate up = ka_compare(&c, a, 4, b, 4), same = ka_compare(&c, a, 4, a, 4),
                added = ka_compare(&c, none, 4, b, 4), gone = ka_compare(&c, a, 4, none, 4),
                empty = ka_compare(&c, none, 4, none, 4);
    assert_true(up.sure == 1 && fabs(up.low_pct - 12.5) < 1e-9 && fabs(up.high_pct - 12.5) < 1e-9);
    assert_true(same.sure == 0 && same.pct == 0);
    assert_true(added.sure == 1 && isnan(added.pct) && added.delta == 9);
    assert_true(gone.sure == 1 && gone.pct == -100);
    assert_true(empty.sure == 0 && empty.delta == 0);
    ka_chance_free(&c);
}

/* One step or two that are far off prove neither a rise nor, the other way round, a fall. */
static void a_fall_needs_as_much_proof_as_a_rise(void **unused)
{
    (void)unused;
    static const double pairs[][2][5] = {
        {{212, 531, 575, 549, 3435}, {82, 12554, 27643, 22102, 471}},
        {{144, 117, 124, 79, 75}, {68, 94, 69, 12274, 68}},
        {{0, 0, 0, 0, 0}, {0, 0, 0, 900, 0}}};
    for (int medians = 0; medians < 2; medians++)
        for (size_t i = 0; i < KB_COUNT(pairs); i++) {
            ka_chance c;
            assert_true(ka_chance_make(&c, 0, 0, medians));
            ka_estimate up = ka_compare(&c, pairs[i][0], 5, pairs[i][1], 5),
                        down = ka_compare(&c, pairs[i][1], 5, pairs[i][0], 5);
            assert_int_equal(up.sure, 0);
            assert_int_equal(down.sure, 0);
            ka_chance_free(&c);
        }
}

static double mirrored(double pct) { return 100 * (1 / (1 + pct / 100) - 1); }

/* Swapped sides have the interval mirrored, whether or not they have as many steps. */
static void the_other_way_round_is_the_mirrored_interval(void **unused)
{
    (void)unused;
    for (uint32_t i = 0; i < 40; i++) {
        double a[8], b[8];
        uint32_t n = 5 + i % 3, m = 5 + i / 3 % 3;
        ka_chance c;
        state = i + 1;
        draw_steps(a, n, 100, 0.2);
        draw_steps(b, m, 120, 0.2);
        assert_true(ka_chance_make(&c, 0, 0, i % 2));
        ka_estimate up = ka_compare(&c, a, n, b, m), down = ka_compare(&c, b, m, a, n);
        assert_int_equal(up.sure, down.sure);
        assert_true((up.shift.delta != 0) == (down.shift.delta != 0));
        assert_true(fabs(mirrored(up.low_pct) - down.high_pct) < 1e-9);
        assert_true(fabs(mirrored(up.high_pct) - down.low_pct) < 1e-9);
        ka_chance_free(&c);
    }
}

static void the_same_seed_gives_the_same_interval(void **unused)
{
    (void)unused;
    double a[6], b[6];
    state = 3;
    draw_steps(a, 6, 100, 0.05);
    draw_steps(b, 6, 110, 0.05);
    ka_estimate e[3];
    const uint64_t seeds[] = {5, 5, 6};
    for (int i = 0; i < 3; i++) {
        ka_chance c;
        assert_true(ka_chance_make(&c, seeds[i], 0, false));
        e[i] = ka_compare(&c, a, 6, b, 6);
        ka_chance_free(&c);
    }
    assert_true(e[0].low_pct == e[1].low_pct && e[0].high_pct == e[1].high_pct);
    assert_true(e[0].low_pct != e[2].low_pct);
    assert_true(fabs(e[0].low_pct - e[2].low_pct) < 2);
}

/* ---- names ---------------------------------------------------------------------------------- */

static void assert_text(void (*text_of)(kineto_string, ka_text *), const char *name,
                        const char *expected)
{
    ka_text text;
    char copy[sizeof text.s + 1];
    text_of(kb_string(name), &text);
    memcpy(copy, text.s, text.size);
    copy[text.size] = '\0';
    assert_string_equal(copy, expected);
}

static void names_lose_what_changes_from_build_to_build(void **unused)
{
    (void)unused;
    const char *adds = "void at::native::(anonymous namespace)::add_kernel<4, float, "
                       "std::array<char*, 3ul> >(int, float*) [clone .kd]";
    assert_text(ka_spell_kernel, adds, "at::native::add_kernel<4,float,std::array<char*,3ul>>");
    assert_text(ka_skeleton_of, adds, "at::native::add_kernel");
    assert_text(ka_last_component_of, adds, "add_kernel");
    assert_text(ka_skeleton_of, "_ZN2at6native12_GLOBAL__N_110add_kernelILi4EfEEviPT0_",
                "at::native::add_kernel");
    assert_text(ka_skeleton_of, "_Z6saxpy2ifPf", "saxpy2");
    assert_text(ka_spell_kernel, "Cijk_Ailk_Bljk_SB_MT64x64.kd", "Cijk_Ailk_Bljk_SB_MT64x64");
    assert_text(ka_numberless, "ampere_sgemm_128x64_tn", "ampere_sgemm_#x#_tn");
    assert_text(ka_spell_kernel, "triton_poi_fused_add_0", "triton_poi_fused_add_0");
}

static void broken_names_are_no_trouble(void **unused)
{
    (void)unused;
    static const char *const names[] = {
        "",       "_Z",     "_ZN", "_ZN9",      "_ZN99999999999999999999a", "_ZN3abE",
        ">>>)))", "<<<(((", "(",   "<unnamed>", "(anonymous namespace)",    "{anonymous}::",
        "void ",  " ",      "_Z0", "_ZN2"};
    ka_text text;
    char longest[5000];
    memset(longest, 'a', sizeof longest);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        ka_spell_kernel(kb_string(names[i]), &text);
        ka_skeleton_of(kb_string(names[i]), &text);
        ka_numberless(kb_string(names[i]), &text);
        assert_true(text.size <= sizeof text.s);
    }
    ka_numberless((kineto_string){longest, sizeof longest}, &text);
    assert_true(text.size <= sizeof text.s);
}

/* ---- traces --------------------------------------------------------------------------------- */

/* A step of 100 us in which an operator launches a kernel of that name, and so long. */
static void put_step(maker *m, uint32_t number, const char *op, const char *kernel, double us)
{
    char step[32];
    double from = number * 100.0;
    snprintf(step, sizeof step, "ProfilerStep#%u", number);
    put_range(m, step, from, from + 100);
    put_op(m, op, from + 1, from + 20);
    put_call(m, "cudaLaunchKernel", from + 2, from + 5, number + 1);
    put_kernel(m, m->stream, kernel, from + 10, from + 10 + us, number + 1);
}

static kineto_trace *steps_of(uint32_t count, const char *op, const char *kernel, double us)
{
    maker m = make();
    for (uint32_t i = 0; i < count; i++)
        put_step(&m, i, op, kernel, us + 0.1 * (i % 3));
    return finish(m.b);
}

static kineto_analysis *diff(kineto_trace *a, kineto_trace *b)
{
    kineto_analysis *facts = NULL;
    kineto_error err = {.message = ""};
    kineto_status status = kineto_diff_run(a, b, NULL, &facts, &err);
    if (status)
        print_error("%s\n", err.message);
    assert_int_equal(status, KINETO_OK);
    kineto_trace_release(a);
    kineto_trace_release(b);
    return facts;
}

static kineto_fact cell_of(const kineto_analysis *a, const char *table, uint64_t row,
                           const char *column)
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

static void assert_matched(const char *op, const char *before, const char *after, const char *how)
{
    kineto_analysis *d = diff(steps_of(6, op, before, 30), steps_of(6, op, after, 40));
    kineto_string by = cell_of(d, "diff_kernels", 0, "matched_by").text;
    assert_int_equal(by.size, strlen(how));
    assert_memory_equal(by.data, how, by.size);
    kineto_analysis_destroy(d);
}

static void kernels_are_matched_across_renames(void **unused)
{
    (void)unused;
    assert_matched("aten::add", "add_kernel", "add_kernel", "name");
    assert_matched("aten::add", "void add_kernel<4>(int, float*)", "add_kernel<4>", "spelling");
    assert_matched("aten::add", "void a::add_kernel<4, float>(int)",
                   "void a::add_kernel<8, half>()", "template arguments");
    assert_matched("aten::add", "_ZN1a10add_kernelILi4EEEvi", "void a::add_kernel<4>(int)",
                   "template arguments");
    assert_matched("aten::add", "void a::v1::add_kernel<4>(int)", "void b::add_kernel<4>(int)",
                   "namespace");
    assert_matched("aten::mm", "ampere_sgemm_128x64_tn", "ampere_sgemm_64x64_tn", "numbers");
    assert_matched("aten::mm", "ampere_sgemm_128x64_tn", "cutlass_thing", "operator and shapes");
}

static void steps_and_kernels_have_their_times(void **unused)
{
    (void)unused;
    kineto_analysis *d = diff(steps_of(6, "aten::add", "k", 30), steps_of(6, "aten::add", "k", 40));
    assert_true(cell_of(d, "diff_steps", 0, "delta_us").d == 0);
    assert_true(fabs(cell_of(d, "diff_kernels", 0, "delta_us").d - 10) < 1e-9);
    assert_true(fabs(cell_of(d, "diff_kernels", 0, "before_us").d - 30.1) < 1e-9);
    assert_true(fabs(cell_of(d, "diff_kernels", 0, "worth_pct").d - 10) < 1e-9);
    assert_true(cell_of(d, "diff_kernels", 0, "before_count").d == 1);
    kineto_analysis_destroy(d);
}

static void parts_of_the_step_add_up_to_its_difference(void **unused)
{
    (void)unused;
    kineto_analysis *d =
        diff(steps_of(40, "aten::add", "k", 30), steps_of(70, "aten::add", "k", 95));
    double sum = 0;
    kineto_fact_table info;
    kineto_analysis_table(d, kineto_analysis_find_table(d, "diff_categories"), &info);
    for (uint64_t row = 0; row < info.row_count; row++)
        if (kb_string_equal(cell_of(d, "diff_categories", row, "group").text, kb_string("part")))
            sum += cell_of(d, "diff_categories", row, "delta_us").d;
    assert_true(fabs(sum - cell_of(d, "diff_steps", 1, "delta_us").d) < 1e-6);
    kineto_analysis_destroy(d);
}

static void tables_of_two_traces_are_not_made_of_one(void **unused)
{
    (void)unused;
    kineto_trace *t = steps_of(2, "op", "k", 10);
    kineto_analysis *a = NULL;
    kineto_analysis_options o = {.size = sizeof o, .tables = "diff_steps"};
    assert_int_equal(kineto_analysis_run(t, &o, &a, NULL), KINETO_E_ARGUMENT);
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++)
        assert_true(strncmp(kineto_fact_table_name(i), "diff_", 5) != 0);
    kineto_trace_release(t);
}

/* ---- gates ---------------------------------------------------------------------------------- */

static uint32_t evaluate_gate(const kineto_analysis *d, const char *gate, bool without_noise)
{
    kineto_diff_verdict v = {.size = sizeof v};
    kineto_error err = {.message = ""};
    if (kineto_diff_gate(d, gate, without_noise, &v, &err))
        return UINT32_MAX;
    return v.outcome;
}

static void gates_fail_beyond_their_limit_only(void **unused)
{
    (void)unused;
    kineto_analysis *d = diff(steps_of(6, "aten::add", "void k<1>()", 30),
                              steps_of(6, "aten::add", "void k<1>()", 40));
    assert_int_equal(evaluate_gate(d, "kernel:void k<1>()>3%", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k<1>33%", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k>34%", false), KINETO_DIFF_PASSED);
    assert_int_equal(evaluate_gate(d, "kernel:k>9us", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k>10.5us", false), KINETO_DIFF_PASSED);
    assert_int_equal(evaluate_gate(d, "kernel:k<1%", false), KINETO_DIFF_PASSED);
    assert_int_equal(evaluate_gate(d, "category:part.kernel>3%", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "op:aten::add>3%", false), KINETO_DIFF_PASSED);
    assert_int_equal(evaluate_gate(d, "step>0%", false), KINETO_DIFF_PASSED);
    assert_int_equal(evaluate_gate(d, "kernel:nothing>3%", false), KINETO_DIFF_SKIPPED);
    assert_int_equal(evaluate_gate(d, "memory>100MB", false), KINETO_DIFF_SKIPPED);
    kineto_analysis_destroy(d);
}

static void less_fails_where_less_is_worse(void **unused)
{
    (void)unused;
    kineto_analysis *d = diff(steps_of(6, "op", "k", 40), steps_of(6, "op", "k", 30));
    assert_int_equal(evaluate_gate(d, "kernel:k<5%", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k<-5%", false), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k<30%", false), KINETO_DIFF_PASSED);
    kineto_analysis_destroy(d);
}

static void one_step_cannot_be_evaluated_unless_noise_is_not_looked_at(void **unused)
{
    (void)unused;
    kineto_analysis *d = diff(steps_of(1, "op", "k", 30), steps_of(1, "op", "k", 40));
    assert_int_equal(evaluate_gate(d, "kernel:k>3%", false), KINETO_DIFF_SKIPPED);
    assert_int_equal(evaluate_gate(d, "kernel:k>3%", true), KINETO_DIFF_FAILED);
    assert_int_equal(evaluate_gate(d, "kernel:k>50%", false), KINETO_DIFF_PASSED);
    kineto_analysis_destroy(d);
}

static void gates_that_cannot_be_understood_are_mistakes(void **unused)
{
    (void)unused;
    static const char *const gates[] = {"",           "step",       "step>",      "step>x",
                                        "step>3%%",   "step>-3%",   "steps>3%",   "kernel>3%",
                                        "kernel:>3%", "step>100MB", "memory>2ms", "step>nan%",
                                        "step>inf",   "step>1e999", "op>1%",      ">3%"};
    kineto_analysis *d = diff(steps_of(6, "op", "k", 30), steps_of(6, "op", "k", 30));
    for (size_t i = 0; i < KB_COUNT(gates); i++)
        assert_int_equal(evaluate_gate(d, gates[i], false), UINT32_MAX);
    kineto_analysis_destroy(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_program_passes_and_one_that_is_5_percent_slower_fails),
        cmocka_unit_test(the_same_program_passes_though_one_step_in_ten_is_slow),
        cmocka_unit_test(steps_that_are_all_slower_fail_though_some_are_far_off),
        cmocka_unit_test(ranks_prove_what_tables_of_the_test_say),
        cmocka_unit_test(a_shift_by_ranks_is_what_is_usual),
        cmocka_unit_test(intervals_hold_the_truth_about_as_often_as_they_say),
        cmocka_unit_test(too_few_steps_have_no_interval),
        cmocka_unit_test(steps_that_are_all_the_same_have_no_noise),
        cmocka_unit_test(a_fall_needs_as_much_proof_as_a_rise),
        cmocka_unit_test(the_other_way_round_is_the_mirrored_interval),
        cmocka_unit_test(the_same_seed_gives_the_same_interval),
        cmocka_unit_test(names_lose_what_changes_from_build_to_build),
        cmocka_unit_test(broken_names_are_no_trouble),
        cmocka_unit_test(kernels_are_matched_across_renames),
        cmocka_unit_test(steps_and_kernels_have_their_times),
        cmocka_unit_test(parts_of_the_step_add_up_to_its_difference),
        cmocka_unit_test(tables_of_two_traces_are_not_made_of_one),
        cmocka_unit_test(gates_fail_beyond_their_limit_only),
        cmocka_unit_test(less_fails_where_less_is_worse),
        cmocka_unit_test(one_step_cannot_be_evaluated_unless_noise_is_not_looked_at),
        cmocka_unit_test(gates_that_cannot_be_understood_are_mistakes),
    };
    return RUN_TESTS(tests);
}
