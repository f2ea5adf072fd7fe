/* The layer between a scripted driver and a scripted host: what a real device does not do on
 * demand. */
#include "fake_cl.h"
#include "fake_host.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const cl_icd_dispatch *cl; /* what the program sees */
static cl_command_queue queue;

static void set_up_with(fake_cl_behaviour behaviour)
{
    cl_uint entries = 0;

    fake_cl_reset(&behaviour);
    assert_int_equal(
        clInitLayer(sizeof(cl_icd_dispatch) / sizeof(void *), fake_cl_table(), &entries, &cl),
        CL_SUCCESS);
    fake_host_clear();
    assert_true(fake_host_open());
    cl_int status = 0;
    queue = cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(), 0, &status);
    assert_non_null(queue);
}

#define SET_UP(...) set_up_with((fake_cl_behaviour){__VA_ARGS__})

static int tear_down(void **state)
{
    (void)state;
    fake_host_close();
    fake_cl_finish();
    assert_int_equal(fake_cl_misuses(), 0);
    assert_int_equal(fake_host_late_calls(), 0);
    return 0;
}

static void launch(cl_event *event)
{
    const size_t n = 64, local = 8;

    assert_int_equal(cl->clEnqueueNDRangeKernel(queue, fake_cl_kernel("work"), 1, NULL, &n, &local,
                                                0, NULL, event),
                     CL_SUCCESS);
}

static void launch_many(int n)
{
    for (int i = 0; i < n; i++)
        launch(NULL);
}

static void assert_counts(uint64_t requested, uint64_t delivered, uint64_t dropped)
{
    assert_int_equal(fake_host_requested(), requested);
    assert_int_equal(fake_host_activities(), delivered);
    assert_int_equal(fake_host_dropped(), dropped);
}

/* ---- delivery -------------------------------------------------------------------------------- */

static void every_command_is_delivered_once(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    launch_many(5);
    assert_int_equal(cl->clEnqueueWriteBuffer(queue, NULL, CL_TRUE, 0, 4096, NULL, 0, NULL, NULL),
                     CL_SUCCESS);
    fake_host_close();
    assert_counts(6, 6, 0);
    assert_int_equal(fake_cl_events(), 0);
    const fake_activity *kernel = fake_host_activity(4), *copy = fake_host_activity(5);
    assert_string_equal(kernel->name, "work");
    assert_int_equal(kernel->type, KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL);
    assert_int_equal(kernel->grid[0], 8); /* 64 items in groups of 8 */
    assert_int_equal(kernel->grid[2], 1);
    assert_true(kernel->has_block);
    assert_int_equal(kernel->flow, kernel->correlation);
    assert_string_equal(copy->name, "Memcpy HtoD (clEnqueueWriteBuffer)");
    assert_int_equal(copy->bytes, 4096);
    assert_true(copy->has_bandwidth);
    assert_true(copy->correlation > kernel->correlation);
}

static void nothing_happens_while_no_window_is_open(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    fake_host_close();
    launch_many(5);
    assert_counts(0, 0, 0);
    assert_int_equal(fake_cl_events_made(), 0);
    assert_true(fake_host_open());
    launch_many(5);
    fake_host_close();
    assert_counts(5, 5, 0);
}

static void refused_calls_are_not_commands(void **state)
{
    const size_t n = 64;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    assert_int_equal(cl->clEnqueueNDRangeKernel(queue, NULL, 1, NULL, &n, NULL, 0, NULL, NULL),
                     CL_INVALID_KERNEL);
    assert_int_equal(
        cl->clEnqueueNDRangeKernel(NULL, fake_cl_kernel("x"), 1, NULL, &n, NULL, 0, NULL, NULL),
        CL_INVALID_COMMAND_QUEUE);
    fake_host_close();
    assert_counts(0, 0, 0);
}

static void failed_commands_are_lost_and_counted(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .end_status = CL_OUT_OF_RESOURCES);
    launch_many(5);
    fake_host_close();
    assert_counts(5, 0, 5);
    assert_int_equal(fake_cl_events(), 0);
}

static void commands_without_times_are_lost_and_counted(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .no_times = true);
    launch_many(5);
    fake_host_close();
    assert_counts(5, 0, 5);
}

static void reversed_times_become_zero_length(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .reversed_times = true);
    launch_many(4);
    fake_host_close();
    assert_counts(4, 4, 0);
    assert_true(fake_host_activity(3)->bad_timestamps);
    assert_int_equal(fake_host_activity(3)->start, fake_host_activity(3)->end);
}

static void without_callbacks_commands_are_lost_and_counted(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .refuse_callbacks = true);
    launch_many(5);
    fake_host_close();
    assert_counts(5, 0, 5);
    assert_int_equal(fake_cl_events(), 0);
}

static void long_and_empty_kernel_names_survive(void **state)
{
    static char name[5000];
    const size_t n = 1;

    (void)state;
    memset(name, 'k', sizeof name - 1);
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    launch_many(3);
    cl->clEnqueueNDRangeKernel(queue, fake_cl_kernel(name), 1, NULL, &n, NULL, 0, NULL, NULL);
    cl->clEnqueueNDRangeKernel(queue, fake_cl_kernel(""), 1, NULL, &n, NULL, 0, NULL, NULL);
    fake_host_close();
    assert_counts(5, 5, 0);
    assert_memory_equal(fake_host_activity(3)->name, name, 90);
    assert_string_equal(fake_host_activity(4)->name, "");
    assert_false(fake_host_activity(4)->has_block);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

static void check_clock(int clock, int32_t number)
{
    SET_UP(.clock = clock);
    launch_many(40);
    fake_host_close();
    assert_counts(40, 40, 0);
    for (uint32_t i = 0; i < 40; i++)
        assert_int_equal(fake_host_activity(i)->clock, number);
    assert_int_equal(fake_host_samples(), 0);
}

static void clocks_of_the_host_are_recognized(void **state)
{
    (void)state;
    check_clock(CLOCK_MONOTONIC_RAW, KINETO_PLUGIN_CLOCK_MONOTONIC_RAW);
    check_clock(CLOCK_MONOTONIC, KINETO_PLUGIN_CLOCK_MONOTONIC);
    check_clock(CLOCK_REALTIME, KINETO_PLUGIN_CLOCK_UTC);
}

static void one_command_is_enough_when_the_window_closes(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_REALTIME);
    launch(NULL);
    assert_int_equal(fake_host_activities(), 0);
    fake_host_close();
    assert_counts(1, 1, 0);
    assert_int_equal(fake_host_activity(0)->clock, KINETO_PLUGIN_CLOCK_UTC);
}

static void a_clock_of_the_device_is_sampled(void **state)
{
    (void)state;
    SET_UP(.clock = -1);
    launch_many(1);
    usleep(15000);
    launch_many(10);
    usleep(15000);
    launch_many(10);
    fake_host_close();
    assert_counts(21, 21, 0);
    assert_true(fake_host_samples() >= 2);
    for (uint32_t i = 0; i < 21; i++)
        assert_int_equal(fake_host_activity(i)->clock, KINETO_PLUGIN_CLOCK_DEVICE);
    /* What was said of the device's time is true: invert the fake clock's formula. */
    for (uint32_t i = 0; i < fake_host_samples(); i++) {
        const fake_sample *s = fake_host_sample(i);
        int64_t raw = (int64_t)((double)(s->device_ns - 77000000000) / 1.0001);
        assert_true(raw >= (int64_t)s->before - 1000 && raw <= (int64_t)s->after + 1000);
    }
}

static void a_new_window_gets_its_own_device_clock(void **state)
{
    (void)state;
    SET_UP(.clock = -1);
    launch_many(4);
    fake_host_close();
    fake_host_clear();
    assert_true(fake_host_open());
    usleep(12000);
    launch_many(4);
    fake_host_close();
    assert_counts(4, 4, 0);
    assert_true(fake_host_samples() >= 1);
    assert_int_equal(fake_host_activity(3)->clock, fake_host_sample(0)->clock);
}

static void a_driver_that_reads_both_clocks_decides_at_once(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_REALTIME, .has_timer = true);
    launch(NULL);
    assert_counts(1, 1, 0);
    fake_host_close();
    SET_UP(.clock = -1, .has_timer = true);
    launch(NULL);
    assert_counts(1, 1, 0);
    assert_true(fake_host_samples() >= 1);
}

/* ---- the end of a window --------------------------------------------------------------------- */

static void running_commands_are_lost_when_the_window_closes(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch_many(5);
    fake_host_close();
    assert_counts(5, 0, 5);
    fake_cl_finish(); /* late: nothing more may be said */
    assert_counts(5, 0, 5);
    assert_int_equal(fake_cl_events(), 0);
    assert_true(fake_host_open());
    fake_cl_finish();
    assert_counts(5, 0, 5);
}

static void finished_commands_do_not_wait_for_their_callback(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .late_callbacks = true);
    launch_many(5);
    fake_host_close();
    assert_counts(5, 5, 0);
    fake_cl_finish();
    assert_counts(5, 5, 0);
    assert_int_equal(fake_cl_events(), 0);
}

static void what_has_finished_can_be_collected_in_between(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .late_callbacks = true);
    launch(NULL);
    assert_counts(1, 0, 0);
    fake_host_collect();
    assert_counts(1, 1, 0);
    fake_cl_finish();
    launch_many(3);
    fake_host_close();
    assert_counts(4, 4, 0);
    fake_cl_finish();
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch_many(2);
    fake_host_collect();
    assert_counts(2, 0, 0);
    fake_cl_finish();
    fake_host_close();
    assert_counts(2, 2, 0);
}

static void *finish_soon(void *argument)
{
    (void)argument;
    usleep(10000);
    fake_cl_finish();
    return NULL;
}

static void closing_waits_a_moment_for_running_commands(void **state)
{
    pthread_t thread;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch_many(5);
    pthread_create(&thread, NULL, finish_soon, NULL);
    fake_host_close();
    pthread_join(thread, NULL);
    assert_int_equal(fake_host_requested(), 5);
    assert_int_equal(fake_host_activities() + fake_host_dropped(), 5);
    assert_int_equal(fake_cl_events(), 0);
}

static void too_many_commands_are_lost_and_counted(void **state)
{
    const int limit = 131072, over = 1000;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch_many(limit + over);
    assert_int_equal(fake_cl_events_made(), limit);
    fake_cl_finish();
    fake_host_close();
    assert_counts((uint64_t)(limit + over), (uint64_t)limit, (uint64_t)over);
    assert_int_equal(fake_cl_events(), 0);
}

static atomic_bool done;

static void *launch_until_done(void *argument)
{
    (void)argument;
    for (int i = 0; i < 20000 && !atomic_load(&done); i++)
        launch(NULL);
    return NULL;
}

static void windows_open_and_close_while_threads_enqueue(void **state)
{
    pthread_t threads[4];

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    atomic_store(&done, false);
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, launch_until_done, NULL);
    for (int i = 0; i < 50; i++) {
        fake_host_close();
        usleep(500);
        fake_host_open();
        usleep(1000);
    }
    atomic_store(&done, true);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    fake_host_close();
    assert_int_equal(fake_host_requested(), fake_host_activities() + fake_host_dropped());
    assert_int_equal(fake_cl_events(), 0);
}

/* ---- what the program sees ------------------------------------------------------------------- */

static cl_uint references(cl_event event)
{
    cl_uint count = 99;

    assert_int_equal(
        cl->clGetEventInfo(event, CL_EVENT_REFERENCE_COUNT, sizeof count, &count, NULL),
        CL_SUCCESS);
    return count;
}

static void our_references_are_hidden(void **state)
{
    cl_event event = NULL;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch(&event);
    assert_int_equal(references(event), 1);
    cl->clRetainEvent(event);
    assert_int_equal(references(event), 2);
    fake_cl_finish();
    assert_int_equal(references(event), 2);
    cl->clReleaseEvent(event);
    cl->clReleaseEvent(event);
    assert_int_equal(fake_cl_events(), 0);
}

static void the_program_may_release_its_event_early(void **state)
{
    cl_event event = NULL;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch(&event);
    cl->clReleaseEvent(event);
    fake_cl_finish();
    fake_host_close();
    assert_counts(1, 1, 0);
    assert_int_equal(fake_cl_events(), 0);
}

static cl_command_queue_properties get_properties(cl_command_queue q)
{
    cl_command_queue_properties properties = 99;

    assert_int_equal(
        cl->clGetCommandQueueInfo(q, CL_QUEUE_PROPERTIES, sizeof properties, &properties, NULL),
        CL_SUCCESS);
    return properties;
}

static void profiling_is_forced_and_hidden(void **state)
{
    cl_event event = NULL;
    cl_ulong time = 0;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    assert_int_equal(fake_cl_queue_properties(), CL_QUEUE_PROFILING_ENABLE);
    assert_int_equal(get_properties(queue), 0);
    launch(&event);
    assert_int_equal(
        cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
        CL_PROFILING_INFO_NOT_AVAILABLE);
    cl->clReleaseEvent(event);
    queue = cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(), CL_QUEUE_PROFILING_ENABLE,
                                     NULL);
    assert_int_equal(get_properties(queue), CL_QUEUE_PROFILING_ENABLE);
    launch(&event);
    assert_int_equal(
        cl->clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof time, &time, NULL),
        CL_SUCCESS);
    cl->clReleaseEvent(event);
}

static void a_refusal_of_profiling_leaves_the_program_its_queue(void **state)
{
    cl_int status = 99;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .refuse_profiling = true);
    assert_int_equal(fake_cl_queue_properties(), 0);
    launch_many(3);
    const size_t n = 64;
    assert_int_equal(/* no command, no loss */
                     cl->clEnqueueNDRangeKernel(queue, NULL, 1, NULL, &n, NULL, 0, NULL, NULL),
                     CL_INVALID_KERNEL);
    assert_counts(3, 0, 3);
    queue =
        cl->clCreateCommandQueueWithProperties(fake_cl_context(), fake_cl_device(), NULL, &status);
    assert_int_equal(status, CL_SUCCESS);
    assert_int_equal(fake_cl_queue_properties(), 0);
    assert_null(cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(),
                                         CL_QUEUE_PROFILING_ENABLE, &status));
    assert_int_equal(status, CL_INVALID_QUEUE_PROPERTIES);
}

static void a_handle_that_is_given_out_again_is_a_new_queue(void **state)
{
    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    cl_command_queue old = queue;
    cl->clReleaseCommandQueue(queue);
    fake_cl_reuse_queue();
    queue = cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(), CL_QUEUE_PROFILING_ENABLE,
                                     NULL);
    assert_ptr_equal(queue, old);
    assert_int_equal(get_properties(queue), CL_QUEUE_PROFILING_ENABLE);
    launch_many(4);
    fake_host_close();
    assert_counts(4, 4, 0);
}

/* Drivers need not give handles out again. */
static void queues_that_come_and_go_are_known_however_many_there_were(void **state)
{
    enum { QUEUES = 10000 };

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < QUEUES; i++) {
        cl->clReleaseCommandQueue(queue);
        queue = cl->clCreateCommandQueue(fake_cl_context(), fake_cl_device(), 0, NULL);
        assert_int_equal(get_properties(queue), 0);
        launch(NULL);
    }
    fake_host_close();
    assert_counts(QUEUES, QUEUES, 0);
}

static void a_shorter_table_is_respected(void **state)
{
    cl_uint entries = 0;
    const cl_icd_dispatch *table = NULL;
    const fake_cl_behaviour plain = {.clock = CLOCK_MONOTONIC_RAW};

    (void)state;
    fake_cl_reset(&plain);
    assert_int_equal(clInitLayer(20, fake_cl_table(), &entries, &table), CL_SUCCESS);
    assert_int_equal(entries, 20);
    assert_null(table->clEnqueueNDRangeKernel);
    assert_null(table->clGetPlatformIDs);
    assert_non_null(table->clCreateCommandQueue);
    assert_int_equal(clInitLayer(20, NULL, &entries, &table), CL_INVALID_VALUE);
}

static void a_forked_child_forgets_what_is_its_parents(void **state)
{
    int status = 0;

    (void)state;
    SET_UP(.clock = CLOCK_MONOTONIC_RAW, .deferred = true);
    launch_many(5);
    pid_t child = fork();
    if (child == 0) {
        fake_host_close();
        _exit((int)(fake_host_activities() + fake_host_dropped()));
    }
    waitpid(child, &status, 0);
    assert_int_equal(WEXITSTATUS(status), 0);
    fake_cl_finish();
    fake_host_close();
    assert_counts(5, 5, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(every_command_is_delivered_once),
        TEST(nothing_happens_while_no_window_is_open),
        TEST(refused_calls_are_not_commands),
        TEST(failed_commands_are_lost_and_counted),
        TEST(commands_without_times_are_lost_and_counted),
        TEST(reversed_times_become_zero_length),
        TEST(without_callbacks_commands_are_lost_and_counted),
        TEST(long_and_empty_kernel_names_survive),
        TEST(clocks_of_the_host_are_recognized),
        TEST(one_command_is_enough_when_the_window_closes),
        TEST(a_clock_of_the_device_is_sampled),
        TEST(a_new_window_gets_its_own_device_clock),
        TEST(a_driver_that_reads_both_clocks_decides_at_once),
        TEST(running_commands_are_lost_when_the_window_closes),
        TEST(finished_commands_do_not_wait_for_their_callback),
        TEST(what_has_finished_can_be_collected_in_between),
        TEST(closing_waits_a_moment_for_running_commands),
        TEST(too_many_commands_are_lost_and_counted),
        TEST(windows_open_and_close_while_threads_enqueue),
        TEST(our_references_are_hidden),
        TEST(the_program_may_release_its_event_early),
        TEST(profiling_is_forced_and_hidden),
        TEST(a_refusal_of_profiling_leaves_the_program_its_queue),
        TEST(a_handle_that_is_given_out_again_is_a_new_queue),
        TEST(queues_that_come_and_go_are_known_however_many_there_were),
        TEST(a_shorter_table_is_respected),
        TEST(a_forked_child_forgets_what_is_its_parents),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
