/* What recording costs, and what a budget leaves out: the decisions, by themselves; and sites that are
 * left out, ranges counted exactly. */
#include "unit.h"

#include "record/record.h"
#include "session/self_cost.h"
#include "../helpers/sessions.h"
#include <ckineto/ckineto.h>

#define MS UINT64_C(1000000)

/* ---- decisions ------------------------------------------------------------------------------- */

/* A program of one processor that is recorded: what it costs at each level, in ppm. */
typedef struct model {
    ks_cost_limit budget;
    ks_cost cost;
    ks_tally tally;
    uint64_t now_ns;
    double ppm_at[KS_LEVELS];
    uint32_t changes;
} model;

static void run(model *m, uint32_t looks)
{
    for (uint32_t i = 0; i < looks; i++) {
        uint64_t own_ns = 20 * MS;
        uint64_t hooks_ns = (uint64_t)(m->ppm_at[m->budget.level] * 1e-6 * (double)own_ns);
        m->now_ns += own_ns + hooks_ns;
        m->cost.estimated_ns += hooks_ns;
        m->cost.program_ns += own_ns + hooks_ns;
        m->tally.bytes += hooks_ns;
        m->changes += ks_cost_limit_update(&m->budget, m->now_ns, &m->cost, &m->tally);
    }
}

static void a_cheap_recording_is_left_alone(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000}, .ppm_at = {9000, 0, 0, 0, 0, 0}};
    run(&m, 1000);
    assert_int_equal(m.changes, 0);
    assert_int_equal(m.budget.period_count, 0);
}

static void a_dear_one_goes_up_as_far_as_it_must(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000}, .ppm_at = {30000, 30000, 30000, 9000, 100, 10}};
    run(&m, 40);
    assert_int_equal(m.budget.level, 3);
    run(&m, 1000); /* 9000 of 10000: no reason to go down, nor up */
    assert_int_equal(m.budget.level, 3);
    assert_int_equal(m.changes, 3);
}

static void what_is_much_too_dear_goes_up_at_once(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000},
               .ppm_at = {900000, 900000, 900000, 200000, 200000, 100}};
    run(&m, 2);
    assert_true(m.budget.level >= 4);
    run(&m, 3);
    assert_int_equal(m.budget.level, 5);
}

/* Where the estimate says that recording took more than the program took in all. */
static void a_program_that_only_records_is_over_its_budget(void **state)
{
    (void)state;
    ks_cost_limit b = {.ppm = 10000};
    ks_cost cost = {0};
    ks_tally tally = {0};
    for (uint64_t look = 1; look <= 3; look++) {
        cost.program_ns += 20 * MS;
        cost.estimated_ns += 23 * MS;
        assert_int_equal(ks_cost_limit_update(&b, 20 * MS * look, &cost, &tally), look <= 2);
    }
    assert_int_equal(b.level, 5);
    assert_true(ks_cost_share_ppm(&cost) > 1e8);
    cost.estimated_ns = cost.program_ns;
    assert_true(ks_cost_share_ppm(&cost) == 1e8);
    assert_true(ks_cost_share_ppm(&(ks_cost){0}) == 0); /* nothing ran, nothing is over */
}

/* It is tried again and again, but only with what is left over. */
static void in_the_long_run_the_budget_is_kept(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000}, .ppm_at = {800000, 800000, 800000, 300000, 250000, 500}};
    run(&m, 20000);
    assert_true(ks_cost_share_ppm(&m.cost) <= 10000);
    assert_true(m.changes < 200);
    ks_cost_limit_end(&m.budget, m.now_ns);
    for (uint32_t i = 0; i < m.budget.period_count; i++)
        assert_true(m.budget.periods[i].from_ns < m.budget.periods[i].until_ns);
}

static void it_comes_down_when_the_program_calms_down(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000}, .ppm_at = {100000, 100000, 100000, 80000, 60000, 500}};
    run(&m, 100);
    assert_int_equal(m.budget.level, 5);
    for (uint32_t i = 0; i < KS_LEVELS; i++)
        m.ppm_at[i] = 200;
    run(&m, 20000);
    assert_int_equal(m.budget.level, 0);
}

/* The recorder has a price of its own, whatever is recorded. */
static void what_cannot_be_helped_is_not_a_reason(void **state)
{
    (void)state;
    model m = {.budget = {.ppm = 10000}};
    for (uint32_t i = 0; i < 500; i++) {
        m.cost.recorder_ns += MS;
        run(&m, 1);
    }
    assert_int_equal(m.changes, 0);
}

static void levels_leave_out_ever_more(void **state)
{
    (void)state;
    const uint64_t never = KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) |
                           KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_MEMCPY) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_MEMSET) |
                           KINETO_KIND_BIT(KINETO_KIND_GPU_USER_ANNOTATION);
    for (uint32_t i = 0; i < KS_LEVELS; i++) {
        assert_false((ks_levels[i].kinds | ks_levels[i].mute) & never);
        if (i == 0)
            continue;
        assert_int_equal(ks_levels[i - 1].kinds & ~ks_levels[i].kinds, 0);
        assert_int_equal(ks_levels[i - 1].wants & ~ks_levels[i].wants, 0);
    }
}

/* ---- sites ----------------------------------------------------------------------------------- */

KINETO_SITE(brief, KINETO_KIND_CPU_OP, "brief");
KINETO_SITE(spared, KINETO_KIND_USER_ANNOTATION, "spared");

static uint64_t brief_count, spared_count;

static void record_ranges(uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        kineto_range outer = kineto_range_begin(&spared);
        kineto_range r = kineto_range_begin(&brief);
        kineto_range_end(r);
        kineto_range_end(outer);
    }
    brief_count += count;
    spared_count += count;
}

static uint64_t count_named(const kineto_trace *trace, const char *name)
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(trace); row++) {
        kineto_activity a;
        kineto_trace_get(trace, row, &a);
        count += a.name.size == strlen(name) && memcmp(a.name.data, name, a.name.size) == 0;
    }
    return count;
}

static uint64_t ledger_of(const kineto_trace *trace, const char *reason)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (line.reason.size == strlen(reason) &&
            memcmp(line.reason.data, reason, line.reason.size) == 0)
            return line.count;
    }
    return 0;
}

static void ranges_of_sites_are_left_out_and_counted(void **state)
{
    kineto_session *session;
    kineto_trace *trace;
    const kf_throttle throttled = {.mute = KINETO_KIND_BIT(KINETO_KIND_CPU_OP), .short_ticks = UINT32_MAX,
                          .epoch = 1};
    (void)state;
    assert_int_equal(begin_session(NULL, &session, NULL), KINETO_OK);
    kf_control *control = kineto_rt_pool()->control;
    record_ranges(2000);
    kf_throttle_set(control, &throttled);
    record_ranges(20000);
    uint32_t id = brief.id;
    assert_int_equal(id, 0); /* it is left out now */
    kf_throttle_set(control, NULL);
    record_ranges(2000);
    assert_int_not_equal(brief.id, 0);
    assert_int_equal(end_session(session, &trace, NULL), KINETO_OK);
    uint64_t kept = count_named(trace, "brief");
    uint64_t left_out = ledger_of(trace, "left out to stay within the budget");
    assert_int_equal(count_named(trace, "spared"), spared_count);
    assert_true(left_out > 10000);
    assert_int_equal(kept + left_out, brief_count);
    assert_int_equal(kineto_trace_lost(trace), left_out);
    kineto_trace_release(trace);
}

static void records_have_a_price(void **state)
{
    const kf_control *control = kineto_rt_pool()->control;
    (void)state;
    assert_true(control->unit_costs[KF_UNIT_PAIR] > 0);
    assert_true(control->unit_costs[KF_UNIT_SINGLE] > 0);
    assert_true(control->cost_calls[KF_COST_CHUNK] > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_cheap_recording_is_left_alone),
        cmocka_unit_test(a_dear_one_goes_up_as_far_as_it_must),
        cmocka_unit_test(what_is_much_too_dear_goes_up_at_once),
        cmocka_unit_test(a_program_that_only_records_is_over_its_budget),
        cmocka_unit_test(in_the_long_run_the_budget_is_kept),
        cmocka_unit_test(it_comes_down_when_the_program_calms_down),
        cmocka_unit_test(what_cannot_be_helped_is_not_a_reason),
        cmocka_unit_test(levels_leave_out_ever_more),
        cmocka_unit_test(ranges_of_sites_are_left_out_and_counted),
        cmocka_unit_test(records_have_a_price),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
