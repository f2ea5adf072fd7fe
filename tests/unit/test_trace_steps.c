/* Which ranges are steps of a trace that has no ProfilerStep#N: those of one name that repeat on one thread and cover
 * its time. */
#include "analyzing.h"

#include "trace/model/steps.h"

/* How many steps the trace has, and their name; the trace is released. */
static size_t count_steps(maker *m, const char *name)
{
    kt_step_list list;
    kineto_trace *t = finish(m->b);
    assert_true(kt_step_list_make(t, NULL, true, &list));
    size_t count = list.rows.count;
    if (count)
        assert_true(kb_string_equal(kineto_trace_string(t, list.repeated_name), kb_string(name)));
    kt_step_list_free(&list);
    assert_true(kt_step_list_make(t, NULL, false, &list)); /* plain names of steps only */
    assert_int_equal(list.rows.count, 0);
    kt_step_list_free(&list);
    kineto_trace_release(t);
    return count;
}

/* `count` ranges of 100 us, of which `covered` us are in them, on a track. */
static void put_ranges(maker *m, uint32_t track, const char *name, uint32_t count, double covered)
{
    for (uint32_t i = 0; i < count; i++)
        put_row(m, track, KINETO_KIND_USER_ANNOTATION, name, 100.0 * i, 100.0 * i + covered, 0);
}

static void ranges_that_repeat_and_cover_their_time_are_steps(void **unused)
{
    (void)unused;
    maker m = make();
    put_ranges(&m, m.thread, "load", 60, 90); /* within the steps */
    put_ranges(&m, m.thread, "step", 60, 95);
    assert_int_equal(count_steps(&m, "step"), 60);
}

static void a_range_around_all_of_them_does_not_matter(void **unused)
{
    (void)unused;
    maker m = make();
    put_range(&m, "main", 0, 2000);
    put_ranges(&m, m.thread, "step", 5, 100);
    assert_int_equal(count_steps(&m, "step"), 5);
}

static void ranges_around_some_of_them_do(void **unused)
{
    (void)unused;
    maker m = make();
    put_ranges(&m, m.thread, "step", 10, 100);
    put_range(&m, "epoch", 0, 500);
    put_range(&m, "epoch", 500, 1000);
    assert_int_equal(count_steps(&m, ""), 0);
}

static void few_short_and_overlapping_ranges_are_none(void **unused)
{
    (void)unused;
    maker few = make(), apart = make(), overlapping = make();
    put_ranges(&few, few.thread, "step", 4, 100);
    assert_int_equal(count_steps(&few, ""), 0);
    put_ranges(&apart, apart.thread, "step", 60, 70);
    assert_int_equal(count_steps(&apart, ""), 0);
    put_ranges(&overlapping, overlapping.thread, "step", 60, 110);
    assert_int_equal(count_steps(&overlapping, ""), 0);
}

static void tasks_on_several_threads_are_none(void **unused)
{
    (void)unused;
    maker m = make();
    put_ranges(&m, m.thread, "task", 60, 95);
    put_ranges(&m, m.second_thread, "task", 60, 95);
    assert_int_equal(count_steps(&m, ""), 0);
}

static void other_threads_may_do_other_things(void **unused)
{
    (void)unused;
    maker m = make();
    put_ranges(&m, m.thread, "step", 60, 95);
    put_ranges(&m, m.second_thread, "write", 60, 10);
    assert_int_equal(count_steps(&m, "step"), 60);
}

static void steps_of_the_profiler_come_first(void **unused)
{
    (void)unused;
    maker m = make();
    kt_step_list list;
    put_ranges(&m, m.thread, "step", 60, 95);
    put_range(&m, "ProfilerStep#1", 0, 3000);
    kineto_trace *t = finish(m.b);
    assert_true(kt_step_list_make(t, NULL, true, &list));
    assert_int_equal(list.rows.count, 1);
    assert_int_equal(list.repeated_name, KB_INTERN_NONE);
    kt_step_list_free(&list);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_that_repeat_and_cover_their_time_are_steps),
        cmocka_unit_test(a_range_around_all_of_them_does_not_matter),
        cmocka_unit_test(ranges_around_some_of_them_do),
        cmocka_unit_test(few_short_and_overlapping_ranges_are_none),
        cmocka_unit_test(tasks_on_several_threads_are_none),
        cmocka_unit_test(other_threads_may_do_other_things),
        cmocka_unit_test(steps_of_the_profiler_come_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
