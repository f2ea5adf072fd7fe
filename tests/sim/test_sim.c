/* The software accelerator and its plug-in: the device does the requested work, today's host gets
 * what the device did, and hosts of the interface's first revisions receive an error. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fake_host.h"
#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

extern int KinetoPlugin_register(const KinetoPlugin_Registry *registry);
extern int KinetoPlugin_exercise(uint32_t count);

enum {
    MEMCPY = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY,
    KERNEL = KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL,
    CALL = KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME,
    COUNTER = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
    FLOW = KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU
};

static void nothing(void *arguments, uint32_t item) { (void)arguments, (void)item; }

static int today(void **state)
{
    (void)state;
    unsetenv("CKINETO_SIM_FAULT");
    return fake_register(FAKE_TODAY, KinetoPlugin_register) == NULL;
}
/* ---- the device ------------------------------------------------------------------------------------ */

static void append(void *list, uint32_t item)
{
    uint32_t *numbers = list;
    numbers[++numbers[0]] = item;
}

static void a_queue_does_its_work_in_order(void **state)
{
    static uint32_t numbers[301];
    (void)state;
    numbers[0] = 0;
    for (uint32_t i = 0; i < 100; i++)
        sim_launch(1, "append", 3, append, numbers);
    sim_synchronize(1);
    assert_int_equal(numbers[0], 300);
    for (uint32_t i = 0; i < 300; i++)
        assert_int_equal(numbers[i + 1], i % 3);
}

static void copies_move_bytes(void **state)
{
    static const char from[] = "abcdefghijkl";
    char copied[13] = "", moved[13] = "";
    (void)state;
    assert_int_equal(sim_copy(SIM_COPIES, copied, from, sizeof from), 0);
    assert_int_equal(sim_copy(SIM_DMA_ENGINE, moved, from, sizeof from), 0);
    sim_synchronize(SIM_COPIES);
    sim_synchronize(SIM_DMA_ENGINE);
    assert_string_equal(copied, from);
    assert_string_equal(moved, from);
}

static int64_t raw_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void the_devices_clock_runs_from_another_moment_and_too_fast(void **state)
{
    (void)state;
    int64_t before = raw_ns(), device = sim_time(), after = raw_ns();
    assert_true(device - after > 1000000000);
    /* 40 ppm of all that the host's clock has counted: between what the two readings say. */
    int64_t offset = device - before - before / 25000;
    int64_t late = device - after - after / 25000;
    assert_true(late - 1 <= 7000000000000000 && 7000000000000000 <= offset + 1);
}

/* ---- today's host ---------------------------------------------------------------------------------- */

static void it_supports_calls_work_counters_and_a_kind_of_its_own(void **state)
{
    char name[8] = "", vendor[4] = "xxx";
    int32_t types[8] = {0};
    KinetoPlugin_ProfilerQuery_Params p = {SIZE_MAX, NULL, name,   sizeof name - 1,
                                           types,    8,    vendor, 2};
    (void)state;
    p.unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen);
    const KinetoPlugin_ProfilerInterface *i = fake_register(FAKE_TODAY, KinetoPlugin_register);
    assert_int_equal(i->profilerQuery(&p), 0);
    assert_string_equal(name, "Sim");
    assert_string_equal(vendor, "si"); /* no further than the room */
    assert_int_equal(types[0], KERNEL);
    assert_int_equal(types[1], MEMCPY);
    assert_int_equal(types[2], FAKE_OWN_TYPE);
    assert_int_equal(types[3], CALL);
    assert_int_equal(types[4], COUNTER);
    assert_int_equal(types[5], 0);
    memset(types, 0, sizeof types);
    p.supportedActivityTypesMaxLen = 2;
    assert_int_equal(i->profilerQuery(&p), 0);
    assert_int_equal(types[1], MEMCPY);
    assert_int_equal(types[2], 0);
}

static void a_launch_and_its_work_are_joined_by_id_and_arrow(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    fake_push(77);
    sim_launch(1, "multiply", 12, nothing, NULL);
    sim_synchronize(1);
    fake_pop();
    assert_int_equal(fake_count(KERNEL), 1); /* there before the session is over */
    assert_int_equal(fake_end(), 0);
    const fake_event *kernel = fake_find(KERNEL, 0), *call = fake_find(CALL, 0);
    assert_string_equal(kernel->name, "multiply");
    assert_string_equal(call->name, "simLaunch");
    assert_int_equal(kernel->event.eventId, call->event.eventId);
    assert_int_not_equal(kernel->event.eventId, 0);
    assert_int_equal(kernel->flow_type, FLOW);
    assert_int_equal(call->flow_type, FLOW);
    assert_int_equal(kernel->flow_id, call->flow_id);
    assert_true(call->flow_start && !kernel->flow_start);
    assert_int_equal(kernel->external_id, 77);
    assert_int_equal(call->external_id, 77);
    assert_int_equal(kernel->clock, FAKE_DEVICE_CLOCK);
    assert_int_equal(call->clock, KINETO_PLUGIN_CLOCK_MONOTONIC_RAW);
    assert_int_equal(kernel->event.deviceId, 0);
    assert_int_equal(kernel->event.resourceId, 1);
    assert_int_equal(call->event.processId, getpid());
    assert_int_equal(call->event.threadId, gettid());
    assert_string_equal(kernel->key, "grid");
    assert_string_equal(kernel->json, "12");
    assert_true(kernel->event.startTimeUtcNs <= kernel->event.endTimeUtcNs);
    assert_true(call->event.startTimeUtcNs <= call->event.endTimeUtcNs);
}

static void rows_clock_and_properties_are_announced(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.device_count, 1);
    assert_string_equal(seen.device_name, "Sim accelerator");
    assert_string_equal(seen.device_label, "sim 0");
    assert_int_equal(seen.sort_index, 7000);
    assert_int_equal(seen.row_count, SIM_QUEUES);
    assert_string_equal(seen.row_names[2], "copy");
    assert_int_equal(seen.display_order[2], 12);
    assert_int_equal(seen.property_count, 1);
    assert_true(seen.clock_sample_count >= 2); /* at the start and at the stop */
    assert_true(seen.clock_samples[0] < seen.clock_samples[1]);
    assert_int_equal(seen.event_count, 0);
}

static void power_is_sampled_when_work_ends(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    sim_launch(0, "k", 1, nothing, NULL);
    sim_synchronize(0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.sample_count, 3); /* at the start and at the stop, too */
    assert_string_equal(seen.samples[1].name, "power");
    assert_string_equal(seen.samples[1].unit, "W");
    assert_int_equal(seen.samples[1].value, 75); /* one queue is at work */
    assert_true(seen.samples[1].time >= fake_find(KERNEL, 0)->event.endTimeUtcNs);
    assert_true(seen.samples[0].time < seen.samples[1].time);
    assert_true(seen.samples[1].time < seen.samples[2].time);
}

static void the_custom_config_turns_power_off(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, "other=1 sim.power=0"), 0);
    sim_launch(0, "k", 1, nothing, NULL);
    sim_synchronize(0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.sample_count, 0);
    assert_int_equal(seen.event_count, 2);
}

static void only_enabled_kinds_are_delivered(void **state)
{
    static const int32_t kinds[] = {KERNEL, MEMCPY, FAKE_OWN_TYPE, CALL, COUNTER};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        int32_t wanted[] = {0, kinds[i], 999};
        assert_int_equal(fake_begin(wanted, 3, NULL), 0);
        assert_int_equal(KinetoPlugin_exercise(12), 0);
        assert_int_equal(fake_end(), 0);
        assert_int_equal(fake_count(kinds[i]), seen.event_count);
        assert_int_equal(seen.event_count, kinds[i] == COUNTER ? 0 : kinds[i] == CALL ? 12 : 4);
        assert_int_equal(seen.sample_count, kinds[i] == COUNTER ? 12 + 2 : 0);
        assert_int_equal(seen.requested, seen.event_count + seen.sample_count);
        assert_int_equal(seen.dropped, 0);
        for (size_t n = 0; n < seen.event_count; n++) /* an arrow needs both ends */
            assert_int_equal(seen.events[n].flow_type, 0);
    }
}

static void an_empty_list_of_kinds_delivers_nothing(void **state)
{
    static const int32_t none[1];
    (void)state;
    assert_int_equal(fake_begin(none, 0, NULL), 0);
    assert_int_equal(KinetoPlugin_exercise(12), 0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.event_count + seen.sample_count, 0);
}

static void toggled_off_nothing_is_recorded(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    assert_int_equal(KinetoPlugin_exercise(3), 0);
    size_t before = seen.event_count;
    assert_int_equal(fake_toggle(false), 0);
    assert_int_equal(KinetoPlugin_exercise(3), 0);
    assert_int_equal(seen.event_count, before);
    assert_int_equal(fake_toggle(true), 0);
    assert_int_equal(KinetoPlugin_exercise(3), 0);
    assert_int_equal(seen.event_count, 2 * before);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.requested, seen.event_count + seen.sample_count);
}

static void wait_until_set(void *flag, uint32_t item)
{
    (void)item;
    while (!atomic_load((atomic_bool *)flag))
        usleep(1000);
}

static void work_that_is_not_finished_is_counted_as_lost(void **state)
{
    static atomic_bool go;
    (void)state;
    atomic_store(&go, false);
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    sim_launch(0, "endless", 1, wait_until_set, &go);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(fake_count(KERNEL), 0);
    assert_int_equal(seen.event_count, 0);
    assert_int_equal(seen.requested, 2 + seen.sample_count);
    assert_int_equal(seen.dropped, 2); /* the call comes with its work */
    atomic_store(&go, true);
    sim_synchronize(0);
    assert_int_equal(seen.late_count, 0);
    /* Nor does it come up in the next session. */
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(seen.event_count, 0);
}

static void calls_out_of_order_are_refused_with_a_reason(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    assert_int_not_equal(fake_create(NULL, 0, NULL), 0);
    assert_string_equal(fake_error_text(), "there is a session already");
    assert_int_equal(fake_end(), 0);
    assert_int_not_equal(fake_stop(), 0);
    assert_string_equal(fake_error_text(), "not started");
    assert_int_not_equal(fake_destroy(), 0);
    assert_string_equal(fake_error_text(), "no such session");
}

static void parameters_that_are_too_short_are_refused(void **state)
{
    const KinetoPlugin_ProfilerInterface *i = fake_register(FAKE_TODAY, KinetoPlugin_register);
    KinetoPlugin_ProfilerQuery_Params query = {.unpaddedStructSize = 40};
    KinetoPlugin_ProfilerCreate_Params create = {.unpaddedStructSize = 8};
    KinetoPlugin_Registry registry = {.unpaddedStructSize = 16};
    (void)state;
    assert_int_not_equal(i->profilerQuery(&query), 0);
    assert_int_not_equal(i->profilerCreate(&create), 0);
    assert_int_not_equal(i->profilerCreate(NULL), 0);
    assert_int_not_equal(KinetoPlugin_register(&registry), 0);
    assert_int_not_equal(KinetoPlugin_register(NULL), 0);
}

/* ---- threads --------------------------------------------------------------------------------------- */

static void *launch_as(void *number)
{
    uint64_t id = (uint64_t)(uintptr_t)number;
    for (uint64_t i = 0; i < 100; i++) {
        fake_push(id);
        fake_push(id + 1000);
        sim_launch((uint32_t)id, "inner", 1, nothing, NULL);
        fake_pop();
        sim_launch((uint32_t)id, "outer", 1, nothing, NULL);
        fake_pop();
        sim_launch((uint32_t)id, "none", 1, nothing, NULL);
    }
    sim_synchronize((uint32_t)id);
    return NULL;
}

static void each_thread_has_operators_of_its_own(void **state)
{
    pthread_t threads[4];
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_as, (void *)i), 0);
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(fake_count(KERNEL), 1200);
    for (size_t i = 0; i < 1200; i++) {
        const fake_event *e = fake_find(KERNEL, i);
        uint64_t id = (uint64_t)e->event.resourceId;
        uint64_t expected = e->name[0] == 'i' ? id + 1000 : e->name[0] == 'o' ? id : 0;
        assert_int_equal(e->external_id, expected);
    }
    assert_int_equal(seen.requested, seen.event_count + seen.sample_count);
}

static atomic_bool enough;

static void *launch_until_enough(void *queue)
{
    while (!atomic_load(&enough)) {
        sim_launch((uint32_t)(uintptr_t)queue, "k", 1, nothing, NULL);
        usleep(50);
    }
    return NULL;
}

static void sessions_come_and_go_while_queues_work(void **state)
{
    pthread_t threads[SIM_QUEUES];
    uint64_t delivered = 0;
    (void)state;
    atomic_store(&enough, false);
    for (size_t i = 0; i < SIM_QUEUES; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, launch_until_enough, (void *)i), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(fake_begin(NULL, 0, NULL), 0);
        usleep(300);
        assert_int_equal(fake_toggle(i % 3 != 0), 0);
        assert_int_equal(fake_toggle(true), 0);
        usleep(300);
        assert_int_equal(fake_end(), 0);
        assert_int_equal(seen.requested, seen.event_count + seen.sample_count + seen.dropped);
        assert_int_equal(seen.late_count, 0);
        delivered += seen.event_count;
    }
    atomic_store(&enough, true);
    for (size_t i = 0; i < SIM_QUEUES; i++)
        pthread_join(threads[i], NULL);
    assert_true(delivered > 0);
}

static void nested_too_deep_the_innermost_known_operator_counts(void **state)
{
    (void)state;
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    for (uint64_t i = 1; i <= 40; i++)
        assert_int_equal(fake_push(i), 0);
    sim_launch(0, "deep", 1, nothing, NULL);
    for (uint64_t i = 1; i <= 40; i++)
        assert_int_equal(fake_pop(), 0);
    assert_int_not_equal(fake_pop(), 0);
    sim_synchronize(0);
    assert_int_equal(fake_end(), 0);
    assert_int_equal(fake_find(KERNEL, 0)->external_id, 32);
}

/* ---- old hosts ------------------------------------------------------------------------------------- */

static void hosts_of_the_first_revisions_are_refused(void **state)
{
    (void)state;
    assert_null(fake_register(FAKE_REVISION_B, KinetoPlugin_register));
    assert_null(fake_register(FAKE_REVISION_0, KinetoPlugin_register));
}

static void a_start_without_a_live_builder_fails_and_says_why(void **state)
{
    static const fake_revision old[] = {FAKE_REVISION_B, FAKE_REVISION_0};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(old); i++) {
        assert_int_equal(fake_begin_with_start_of(old[i]), -1);
        assert_string_equal(fake_error_text(),
                            "this host is too old: it has no live delivery");
        assert_int_equal(KinetoPlugin_exercise(3), 0);
        assert_int_equal(fake_destroy(), 0);
        assert_int_equal(seen.event_count + seen.late_count, 0);
    }
    assert_int_equal(fake_begin(NULL, 0, NULL), 0); /* it is none the worse for it */
    assert_int_equal(fake_end(), 0);
}

/* ---- faults ---------------------------------------------------------------------------------------- */

static void misbehave(const char *faults)
{
    setenv("CKINETO_SIM_FAULT", faults, 1);
    assert_int_equal(fake_begin(NULL, 0, NULL), 0);
    assert_int_equal(KinetoPlugin_exercise(48), 0);
    assert_int_equal(fake_end(), 0);
    unsetenv("CKINETO_SIM_FAULT");
}

static void fault_drop_loses_and_does_not_say_so(void **state)
{
    (void)state;
    misbehave("drop");
    assert_int_equal(seen.requested, 48 + 48 + seen.sample_count);
    assert_int_equal(seen.event_count, 36 + 48);
    assert_int_equal(seen.dropped, 0);
}

static void fault_drop_counted_says_what_it_loses(void **state)
{
    (void)state;
    misbehave("drop-counted");
    assert_int_equal(seen.event_count, 36 + 48);
    assert_int_equal(seen.requested, seen.event_count + seen.sample_count + seen.dropped);
}

static void fault_late_comes_when_the_session_is_over(void **state)
{
    (void)state;
    misbehave("late");
    assert_int_equal(seen.late_count, 1);
}

static void fault_metadata_is_not_json(void **state)
{
    (void)state;
    misbehave("metadata");
    assert_string_equal(fake_find(KERNEL, 0)->json, "{");
}

static void fault_clock_jump_sets_the_device_back(void **state)
{
    (void)state;
    misbehave("clock-jump");
    assert_true(seen.clock_samples[seen.clock_sample_count - 1] < seen.clock_samples[0]);
}

static void fault_error_refuses_to_start(void **state)
{
    (void)state;
    setenv("CKINETO_SIM_FAULT", "error", 1);
    assert_int_not_equal(fake_begin(NULL, 0, NULL), 0);
    assert_string_equal(fake_error_text(), "the device is busy");
    assert_int_equal(fake_destroy(), 0);
    unsetenv("CKINETO_SIM_FAULT");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_queue_does_its_work_in_order),
        cmocka_unit_test(copies_move_bytes),
        cmocka_unit_test(the_devices_clock_runs_from_another_moment_and_too_fast),
        cmocka_unit_test(hosts_of_the_first_revisions_are_refused),
        cmocka_unit_test_setup(a_start_without_a_live_builder_fails_and_says_why, today),
        cmocka_unit_test_setup(it_supports_calls_work_counters_and_a_kind_of_its_own, today),
        cmocka_unit_test_setup(a_launch_and_its_work_are_joined_by_id_and_arrow, today),
        cmocka_unit_test_setup(rows_clock_and_properties_are_announced, today),
        cmocka_unit_test_setup(power_is_sampled_when_work_ends, today),
        cmocka_unit_test_setup(the_custom_config_turns_power_off, today),
        cmocka_unit_test_setup(only_enabled_kinds_are_delivered, today),
        cmocka_unit_test_setup(an_empty_list_of_kinds_delivers_nothing, today),
        cmocka_unit_test_setup(toggled_off_nothing_is_recorded, today),
        cmocka_unit_test_setup(work_that_is_not_finished_is_counted_as_lost, today),
        cmocka_unit_test_setup(calls_out_of_order_are_refused_with_a_reason, today),
        cmocka_unit_test_setup(parameters_that_are_too_short_are_refused, today),
        cmocka_unit_test_setup(each_thread_has_operators_of_its_own, today),
        cmocka_unit_test_setup(sessions_come_and_go_while_queues_work, today),
        cmocka_unit_test_setup(nested_too_deep_the_innermost_known_operator_counts, today),
        cmocka_unit_test_setup(fault_drop_loses_and_does_not_say_so, today),
        cmocka_unit_test_setup(fault_drop_counted_says_what_it_loses, today),
        cmocka_unit_test_setup(fault_late_comes_when_the_session_is_over, today),
        cmocka_unit_test_setup(fault_metadata_is_not_json, today),
        cmocka_unit_test_setup(fault_clock_jump_sets_the_device_back, today),
        cmocka_unit_test_setup(fault_error_refuses_to_start, today),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
