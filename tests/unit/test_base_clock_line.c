/* Lines through samples of a device's clock. */
#include "unit.h"

#include "base/device_clock_line.h"

#include <time.h>

#define EPOCH INT64_C(1700000000000000000)

/* A device that counts half nanoseconds since 1970, looked at when the host's clock shows ns. */
static kb_clock_point halves(int64_t ns, double doubt_ns)
{
    return (kb_clock_point){2 * (EPOCH + ns), EPOCH + ns, doubt_ns};
}

static int64_t placed(const kb_clock_line *line, int64_t ns)
{
    return kb_clock_line_ns(line, 2 * (EPOCH + ns)) - EPOCH;
}

/* What a program that was not let run for a while leaves: one sample, and the others much later all
 * at once. */
static void samples_in_a_bunch_do_not_tell_the_rate(void **state)
{
    (void)state;
    kb_clock_point p[9] = {halves(17146, 50)};
    for (int i = 1; i < 9; i++)
        p[i] = halves(23558000 + 550 * i, i == 1 ? 110 : 15);
    kb_clock_line line;
    kb_clock_line_fit(&line, p, 9);
    assert_in_range(placed(&line, 0) + 10, 0, 20);
    assert_in_range(placed(&line, 23560000) - 23560000 + 10, 0, 20);
    for (int i = 0; i < 9; i++)
        assert_true(kb_clock_line_off_ns(&line, &p[i]) <= 1);
}

/* A double has 53 bits: nanoseconds since 1970 would be rounded to 256 of them. */
static void times_far_from_zero_are_exact(void **state)
{
    (void)state;
    kb_clock_point p[] = {halves(0, 10), halves(1000001, 10)};
    kb_clock_line line;
    kb_clock_line_fit(&line, p, 2);
    assert_true(line.rate > 0.4999999 && line.rate < 0.5000001);
    assert_in_range(placed(&line, 1000000000) - 1000000000 + 2, 0, 4);
}

static void a_sample_that_says_little_moves_nothing(void **state)
{
    (void)state;
    kb_clock_line line;
    kb_clock_point p[42] = {{7, 0, 8e17}}; /* "between 1970 and now" */
    for (int i = 1; i < 42; i++)
        p[i] = halves(i * INT64_C(1000000), i % 7 ? 900000 : 20);
    p[41].doubt_ns = 2e6;
    kb_clock_line_fit(&line, p, 42);
    assert_true(line.doubt0_ns == 20 && line.doubt1_ns == 20);
    assert_in_range(placed(&line, 41000000) - 41000000 + 2, 0, 4);
}

static void doubt_grows_outside(void **state)
{
    (void)state;
    kb_clock_line line;
    kb_clock_point p[] = {halves(0, 10), halves(10000000, 30)};
    kb_clock_line_fit(&line, p, 2);
    assert_true(kb_clock_line_doubt_ns(&line, p[0].device) == 10);
    assert_true(kb_clock_line_doubt_ns(&line, p[1].device) == 30);
    assert_true(kb_clock_line_doubt_ns(&line, halves(5000000, 0).device) == 20);
    assert_true(kb_clock_line_doubt_ns(&line, halves(20000000, 0).device) == 70);
    assert_true(kb_clock_line_doubt_ns(&line, halves(-10000000, 0).device) == 50);
}

static double rate_of(kb_clock_point *points, size_t count)
{
    kb_clock_line line;
    kb_clock_line_fit(&line, points, count);
    return line.rate;
}

/* Nanoseconds are kept where the samples do not contradict them: of two samples in a busy program, hundred us wide and 20 ms
 * apart, the line would be wrong by a percent. */
static void nanoseconds_are_kept_unless_samples_contradict(void **state)
{
    (void)state;
    kb_clock_point may_be[] = {{1000, EPOCH, 40}, {5000, EPOCH + 3930, 40}};
    kb_clock_point cannot_be[] = {{1000, EPOCH, 40}, {5000, EPOCH + 2000, 40}};
    kb_clock_point longer[] = {{1000, EPOCH, 40}, {5001000, EPOCH + 4999990, 40}};
    kb_clock_point drifting[] = {{1000, EPOCH, 40}, {5001000, EPOCH + 4999900, 9}};
    assert_true(rate_of(may_be, 2) == 1);
    assert_true(rate_of(cannot_be, 2) == 0.5);
    assert_true(rate_of(longer, 2) == 1);
    assert_true(rate_of(drifting, 2) == 4999900.0 / 5000000.0);
}

static void points_that_are_nonsense_are_harmless(void **state)
{
    (void)state;
    kb_clock_point same[] = {{5, 100, 1}, {5, 100, 1}}, stuck[] = {{5, 100, 1}, {5, INT64_MAX, 1}};
    kb_clock_point back[] = {{9, 100, 1}, {5, 5000000, 1}};
    kb_clock_point far[] = {{INT64_MIN, INT64_MIN, 1}, {INT64_MAX, INT64_MAX, 0}};
    kb_clock_point fast[] = {{INT64_MIN, 0, 1}, {INT64_MAX, 2, 0}}, one[] = {{7, 70, 3}};
    assert_true(rate_of(same, 2) == 1);
    assert_true(rate_of(stuck, 2) == 1);
    assert_true(rate_of(back, 2) == 1);
    assert_true(rate_of(fast, 2) == 1);
    assert_true(rate_of(far, 2) == 1);
    kb_clock_line line;
    kb_clock_line_fit(&line, one, 1);
    assert_true(kb_clock_line_ns(&line, 8) == 71 && kb_clock_line_doubt_ns(&line, 8) == 3);
    kb_clock_line_fit(&line, stuck, 2);
    assert_true(kb_clock_line_off_ns(&line, &stuck[1]) > 1e18);
    line.rate = 1e9;
    assert_int_equal(kb_clock_line_ns(&line, INT64_MAX), INT64_MAX / 2);
    assert_int_equal(kb_clock_line_ns(&line, INT64_MIN), INT64_MIN / 2);
}

/* As many as a day of recording brings. */
static void many_points_take_no_time(void **state)
{
    (void)state;
    enum { MANY = 1000000 };
    kb_clock_point *p = malloc(MANY * sizeof *p);
    assert_non_null(p);
    for (int64_t i = 0; i < MANY; i++)
        p[i] = halves(i * 86400000, i == 5 || i == MANY - 7 ? 9 : 100);
    kb_clock_line line;
    kb_clock_line_fit(&line, p, MANY);
    assert_true(line.doubt0_ns == 9 && line.doubt1_ns == 9 && line.rate == 0.5);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_in_a_bunch_do_not_tell_the_rate),
        cmocka_unit_test(times_far_from_zero_are_exact),
        cmocka_unit_test(a_sample_that_says_little_moves_nothing),
        cmocka_unit_test(doubt_grows_outside),
        cmocka_unit_test(nanoseconds_are_kept_unless_samples_contradict),
        cmocka_unit_test(points_that_are_nonsense_are_harmless),
        cmocka_unit_test(many_points_take_no_time),
    };
    return RUN_TESTS(tests);
}
