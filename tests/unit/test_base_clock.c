/* Clock snapshots and the fit from ticks to nanoseconds. */
#include "unit.h"

#include "base/base.h"

#include <time.h>

#define SECOND INT64_C(1000000000)
#define HOUR   (3600 * SECOND)
#define EPOCH  (INT64_C(1700000000) * SECOND)

/* Snapshots of a machine whose ticks run at exactly num / den per nanosecond of MONOTONIC_RAW. */
typedef struct machine {
    uint64_t num, den;
    int64_t realtime_offset; /* against raw */
    int64_t slew_ppm;        /* of MONOTONIC, REALTIME and BOOTTIME against raw */
} machine;

static kb_clock_snapshot at(const machine *m, int64_t raw)
{
    int64_t slewed = raw + (int64_t)((__int128)raw * m->slew_ppm / 1000000);
    return (kb_clock_snapshot){
        .ticks = 123456789 + (uint64_t)((__int128)raw * m->num / m->den),
        .monotonic_raw_ns = 5 * SECOND + raw,
        .monotonic_ns = 6 * SECOND + slewed,
        .boottime_ns = 9 * SECOND + slewed,
        .realtime_ns = EPOCH + slewed + m->realtime_offset,
        .width_ticks = 60,
    };
}

static void snapshots_move_forward(void **state)
{
    (void)state;
    uint32_t clocks[] = {kb_ticks_clock(), KB_TICKS_MONOTONIC_RAW};
    for (size_t i = 0; i < KB_COUNT(clocks); i++) {
        kb_clock_snapshot a, b;
        kb_clock_snapshot_take(clocks[i], &a);
        kb_clock_snapshot_take(clocks[i], &b);
        assert_true(b.ticks > a.ticks);
        assert_true(b.monotonic_ns >= a.monotonic_ns);
        assert_true(b.monotonic_raw_ns > a.monotonic_raw_ns);
        assert_true(b.boottime_ns >= a.boottime_ns);
        assert_true(a.realtime_ns > SECOND);
    }
}

static void a_snapshot_lies_between_reads_around_it(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) {
        kb_clock_snapshot s;
        int64_t before[4], after[4];
        const int ids[] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, CLOCK_REALTIME};
        uint64_t ticks_before = kb_ticks(kb_ticks_clock());
        for (int k = 0; k < 3; k++)
            before[k] = (int64_t)kb_clock_ns(ids[k]);
        kb_clock_snapshot_take(kb_ticks_clock(), &s);
        for (int k = 0; k < 3; k++)
            after[k] = (int64_t)kb_clock_ns(ids[k]);
        assert_true(s.ticks > ticks_before && s.ticks < kb_ticks(kb_ticks_clock()));
        assert_true(s.monotonic_ns >= before[0] && s.monotonic_ns <= after[0]);
        assert_true(s.monotonic_raw_ns >= before[1] && s.monotonic_raw_ns <= after[1]);
        assert_true(s.boottime_ns >= before[2] && s.boottime_ns <= after[2]);
    }
}

static void real_snapshots_fit_within_their_own_doubt(void **state)
{
    (void)state;
    kb_clock_snapshot s[4];
    kb_clock_fit fit;
    const struct timespec wait = {0, 3000000};
    for (int i = 0; i < 4; i++) {
        kb_clock_snapshot_take(kb_ticks_clock(), &s[i]);
        nanosleep(&wait, NULL);
    }
    assert_int_equal(kb_clock_fit_make(s, 4, &fit, NULL), KINETO_OK);
    double doubt = 0;
    for (int i = 0; i < 4; i++)
        doubt +=
            (double)(s[i].width_ticks + 1) * fit.ns_per_tick; /* arm64 ticks every 16 to 42 ns */
    assert_true(fit.residual_ns <= doubt + 2);
    assert_int_equal(kb_clock_fit_ns(&fit, s[0].ticks), s[0].realtime_ns);
}

static void fit_of(const machine *m, int64_t duration, kb_clock_fit *fit)
{
    kb_clock_snapshot s[3] = {at(m, 0), at(m, duration / 3), at(m, duration)};
    assert_int_equal(kb_clock_fit_make(s, 3, fit, NULL), KINETO_OK);
}

static void a_fit_is_exact_to_a_nanosecond_over_hours(void **state)
{
    (void)state;
    const machine machines[] = {{2999999, 1000000, 17, 0},      {24, 1000, 0, 0}, {1, 1, -5, 0},
                                {3700000001, 1000000000, 3, 0}, {1, 1000, 0, 0},  {100, 1, 0, 0}};
    for (size_t i = 0; i < KB_COUNT(machines); i++) {
        const machine *m = &machines[i];
        kb_clock_fit fit;
        fit_of(m, 10 * HOUR, &fit);
        int64_t grain = (int64_t)(m->den / m->num) + 2; /* one tick, in ns, and rounding */
        uint64_t seed = 3;
        for (int k = 0; k < 2000; k++) {
            int64_t raw = (int64_t)(next_random(&seed) % (uint64_t)(12 * HOUR)) - HOUR;
            kb_clock_snapshot s = at(m, raw);
            int64_t wrong = kb_clock_fit_ns(&fit, s.ticks) - (EPOCH + m->realtime_offset + raw);
            assert_true(wrong <= grain && wrong >= -grain);
        }
        assert_true(fit.residual_ns <= (double)grain);
        assert_int_equal(fit.realtime_step_ns, 0);
    }
}

static void the_origin_is_exact_and_order_is_kept_across_it(void **state)
{
    (void)state;
    const machine m = {2999999, 1000000, 0, 0};
    kb_clock_fit fit;
    fit_of(&m, HOUR, &fit);
    assert_int_equal(kb_clock_fit_ns(&fit, fit.ticks0), fit.ns0);
    int64_t last = INT64_MIN;
    for (uint64_t t = fit.ticks0 - 20000; t != fit.ticks0 + 20000; t++) {
        int64_t ns = kb_clock_fit_ns(&fit, t);
        assert_true(ns >= last && (last == INT64_MIN || ns - last <= 1));
        last = ns;
    }
}

static void a_clock_that_was_set_is_reported_and_moves_nothing(void **state)
{
    (void)state;
    const machine m = {3, 1, 0, 0};
    const int64_t steps[] = {2 * SECOND, -5 * SECOND, 3000000};
    for (size_t i = 0; i < KB_COUNT(steps); i++) {
        machine after = m;
        after.realtime_offset = steps[i];
        kb_clock_snapshot s[4] = {at(&m, 0), at(&m, SECOND), at(&after, 2 * SECOND),
                                  at(&after, 3 * SECOND)};
        kb_clock_fit fit;
        assert_int_equal(kb_clock_fit_make(s, 4, &fit, NULL), KINETO_OK);
        assert_int_equal(fit.realtime_step_ns, steps[i]);
        assert_int_equal(kb_clock_fit_ns(&fit, s[3].ticks), EPOCH + 3 * SECOND);
    }
}

static void a_bent_clock_is_not_a_step_and_is_bent_back(void **state)
{
    (void)state;
    const machine m = {3, 1, 0, 300};
    kb_clock_fit fit;
    fit_of(&m, HOUR, &fit);
    assert_int_equal(fit.realtime_step_ns, 0);
    for (int64_t raw = 0; raw < HOUR; raw += 97 * SECOND) {
        kb_clock_snapshot s = at(&m, raw);
        const int64_t truth = EPOCH + raw;
        const int64_t found[] = {
            kb_clock_fit_ns(&fit, s.ticks),
            kb_clock_fit_from_clock(&fit, CLOCK_MONOTONIC_RAW, s.monotonic_raw_ns),
            kb_clock_fit_from_clock(&fit, CLOCK_MONOTONIC, s.monotonic_ns),
            kb_clock_fit_from_clock(&fit, CLOCK_BOOTTIME, s.boottime_ns),
            kb_clock_fit_from_clock(&fit, CLOCK_REALTIME, s.realtime_ns),
        };
        for (size_t k = 0; k < KB_COUNT(found); k++)
            assert_true(found[k] - truth <= 2 && truth - found[k] <= 2);
    }
}

static void an_outlier_shows_in_the_residual(void **state)
{
    (void)state;
    const machine m = {3, 1, 0, 0};
    kb_clock_snapshot s[3] = {at(&m, 0), at(&m, SECOND), at(&m, 2 * SECOND)};
    kb_clock_fit fit;
    s[1].monotonic_raw_ns += 5000;
    assert_int_equal(kb_clock_fit_make(s, 3, &fit, NULL), KINETO_OK);
    assert_true(fit.residual_ns >= 4999 && fit.residual_ns <= 5001);
}

static void one_snapshot_of_this_machine_is_enough(void **state)
{
    (void)state;
    uint32_t clocks[] = {kb_ticks_clock(), KB_TICKS_MONOTONIC_RAW};
    for (size_t i = 0; i < KB_COUNT(clocks); i++) {
        kb_clock_snapshot first, later;
        kb_clock_fit fit;
        kb_clock_snapshot_take(clocks[i], &first);
        assert_int_equal(kb_clock_fit_make(&first, 1, &fit, NULL), KINETO_OK);
        kb_clock_snapshot_take(clocks[i], &later);
        double by_ticks = (double)(kb_clock_fit_ns(&fit, later.ticks) - first.realtime_ns);
        double by_raw = (double)(later.monotonic_raw_ns - first.monotonic_raw_ns);
        assert_true(by_ticks > by_raw * 0.99 - 1000 && by_ticks < by_raw * 1.01 + 1000);
    }
}

static void snapshots_of_elsewhere_are_not_compared_with_now(void **state)
{
    (void)state;
    const machine m = {3, 1, 0, 0};
    kb_clock_snapshot s[2] = {at(&m, 5 * SECOND), at(&m, 5 * SECOND + 2000)};
    kb_clock_fit first, second;
    assert_int_equal(kb_clock_fit_again(s, 2, &first), KINETO_OK);
    assert_true(first.residual_ns <= 1);
    usleep(1000);
    assert_int_equal(kb_clock_fit_again(s, 2, &second), KINETO_OK);
    assert_memory_equal(&first, &second, sizeof first);
    assert_int_equal(kb_clock_fit_again(s, 1, &first), KINETO_OK);
    assert_true(first.residual_ns == 0);
}

static void hostile_snapshots_are_refused_or_harmless(void **state)
{
    (void)state;
    kb_clock_fit fit;
    kineto_error err;
    kb_clock_snapshot future = {.ticks = UINT64_MAX - 5, .monotonic_raw_ns = INT64_MAX - 5};
    assert_int_equal(kb_clock_fit_make(NULL, 0, &fit, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kb_clock_fit_make(&future, 1, &fit, &err), KINETO_E_FORMAT);
    uint64_t seed = 11;
    for (int i = 0; i < 50; i++) {
        kb_clock_snapshot s[3];
        for (int k = 0; k < 3; k++) {
            s[k] = (kb_clock_snapshot){next_random(&seed),          (int64_t)next_random(&seed),
                                       (int64_t)next_random(&seed), (int64_t)next_random(&seed),
                                       (int64_t)next_random(&seed), next_random(&seed)};
        }
        if (kb_clock_fit_make(s, 3, &fit, &err) != KINETO_OK)
            continue;
        int64_t last = INT64_MIN;
        for (int64_t t = -4; t <= 4; t++) {
            int64_t ns = kb_clock_fit_ns(&fit, fit.ticks0 + (uint64_t)(t * (INT64_MAX / 5)));
            assert_true(ns >= last);
            last = ns;
        }
        kb_clock_fit_from_clock(&fit, CLOCK_MONOTONIC, INT64_MIN);
        kb_clock_fit_from_clock(&fit, CLOCK_BOOTTIME, INT64_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(snapshots_move_forward),
        cmocka_unit_test(a_snapshot_lies_between_reads_around_it),
        cmocka_unit_test(real_snapshots_fit_within_their_own_doubt),
        cmocka_unit_test(a_fit_is_exact_to_a_nanosecond_over_hours),
        cmocka_unit_test(the_origin_is_exact_and_order_is_kept_across_it),
        cmocka_unit_test(a_clock_that_was_set_is_reported_and_moves_nothing),
        cmocka_unit_test(a_bent_clock_is_not_a_step_and_is_bent_back),
        cmocka_unit_test(an_outlier_shows_in_the_residual),
        cmocka_unit_test(one_snapshot_of_this_machine_is_enough),
        cmocka_unit_test(snapshots_of_elsewhere_are_not_compared_with_now),
        cmocka_unit_test(hostile_snapshots_are_refused_or_harmless),
    };
    return RUN_TESTS(tests);
}
