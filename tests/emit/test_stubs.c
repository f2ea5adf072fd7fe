/* Registering a device's functions and the PrivateUse1 observer. */
#include "unit/unit.h"

#include "profiler/stubs.h"

#include <pthread.h>

static int recorded;
static kineto_status record(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                            kineto_error *err)
{
    (void)cpu_ns, (void)err;
    recorded++;
    if (device)
        *device = 3;
    *event = context;
    return KINETO_OK;
}
static kineto_status elapsed_ns(void *context, void *start, void *end, int64_t *ns,
                                kineto_error *err)
{
    (void)context, (void)start, (void)end, (void)err;
    *ns = 42;
    return KINETO_OK;
}
static bool off(void *context)
{
    (void)context;
    return false;
}

static kineto_stubs some(void)
{
    kineto_stubs s;
    kineto_stubs_init(&s);
    s.record = record;
    s.elapsed_ns = elapsed_ns;
    return s;
}

static void unregistered_stubs_say_whose_they_are(void **state)
{
    (void)state;
    const char *texts[] = {"CUDA used in profiler but not enabled.",
                           "ITT used in profiler but not enabled.",
                           "PrivateUse1 used in profiler but not enabled."};
    for (int slot = 0; slot < KINETO_STUBS_SLOT_COUNT; slot++) {
        kineto_stubs s;
        kineto_stubs_init(&s);
        kineto_error err;
        int64_t ns;
        void *event;
        assert_true(kineto_stubs_slot_get(slot, &s));
        assert_false(s.enabled(s.context));
#define REFUSES(call)                                                                              \
    memset(&err, 0, sizeof err);                                                                   \
    assert_int_equal(call, KINETO_E_UNSUPPORTED);                                                  \
    assert_string_equal(err.message, texts[slot])
        REFUSES(s.record(s.context, NULL, &event, NULL, &err));
        REFUSES(s.elapsed_ns(s.context, NULL, NULL, &ns, &err));
        REFUSES(s.mark(s.context, "m", &err));
        REFUSES(s.range_push(s.context, "r", &err));
        REFUSES(s.range_pop(s.context, &err));
        REFUSES(s.on_each_device(s.context, NULL, NULL, &err));
        REFUSES(s.synchronize(s.context, &err));
        s.release_event(s.context, NULL);
        assert_int_equal(s.mark(s.context, "m", NULL), KINETO_E_UNSUPPORTED);
        assert_int_equal(kp_stubs_acquire(slot, &s, &err), KINETO_E_STATE);
        assert_string_equal(err.message, texts[slot]);
    }
}

static void missing_functions_are_named(void **state)
{
    (void)state;
    kineto_stubs s = some(), got;
    kineto_stubs_init(&got);
    kineto_error err;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &s, NULL), KINETO_OK);
    assert_true(kineto_stubs_slot_get(KINETO_STUBS_CUDA, &got));
    assert_true(got.enabled(got.context));
    assert_int_equal(got.synchronize(got.context, &err), KINETO_E_UNSUPPORTED);
    assert_string_equal(err.message, "the registered stubs have no function synchronize");
    int64_t ns = 0;
    assert_int_equal(got.elapsed_ns(NULL, NULL, NULL, &ns, NULL), KINETO_OK);
    assert_int_equal(ns, 42);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static void wrong_calls_are_refused(void **state)
{
    (void)state;
    kineto_stubs s = some();
    kineto_error err;
    assert_int_equal(kineto_stubs_register(-1, &s, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_SLOT_COUNT, &s, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_ITT, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_stubs_unregister(77, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_ITT, &err), KINETO_E_NOT_FOUND);
    assert_false(kineto_stubs_slot_get(KINETO_STUBS_ITT, NULL));
    assert_false(kineto_stubs_slot_get(KINETO_STUBS_SLOT_COUNT, &s));
    s.size = 0;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_ITT, &s, &err), KINETO_E_ARGUMENT);
    assert_false(kineto_stubs_slot_get(KINETO_STUBS_ITT, &s));
    s = some();
    s.elapsed_ns = NULL;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_ITT, &s, &err), KINETO_E_ARGUMENT);
    assert_string_equal(kineto_stubs_name(KINETO_STUBS_PRIVATEUSE1), "PrivateUse1");
    assert_string_equal(kineto_stubs_name(-5), "unknown");
}

static void structs_of_other_sizes_are_understood(void **state)
{
    (void)state;
    struct {
        kineto_stubs known;
        void *more[4];
    } later = {.known = some()};
    later.known.size = sizeof later;
    memset(later.more, 0x55, sizeof later.more);
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_ITT, &later.known, NULL), KINETO_OK);
    assert_true(kineto_stubs_slot_get(KINETO_STUBS_ITT, &later.known));
    assert_int_equal(later.known.size, sizeof later);
    assert_non_null(later.known.synchronize);
    assert_int_equal((uintptr_t)later.more[0] & 0xff, 0x55);
    kineto_stubs earlier;
    memset(&earlier, 0x55, sizeof earlier);
    earlier.size = offsetof(kineto_stubs, mark);
    assert_true(kineto_stubs_slot_get(KINETO_STUBS_ITT, &earlier));
    assert_ptr_equal(earlier.record, record);
    assert_int_equal((uintptr_t)earlier.mark & 0xff, 0x55); /* was not there then: not written */
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_ITT, NULL), KINETO_OK);
}

static void stubs_in_use_stay(void **state)
{
    (void)state;
    kineto_stubs s = some(), held;
    kineto_error err;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &s, NULL), KINETO_OK);
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &s, &err), KINETO_E_BUSY);
    assert_int_equal(kp_stubs_acquire(KINETO_STUBS_CUDA, &held, NULL), KINETO_OK);
    assert_int_equal(kp_stubs_acquire(KINETO_STUBS_CUDA, &held, NULL), KINETO_OK);
    kp_stubs_release(KINETO_STUBS_CUDA);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, &err), KINETO_E_BUSY);
    kp_stubs_release(KINETO_STUBS_CUDA);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, &err), KINETO_OK);
    s.enabled = off; /* does not work: a held one cannot be seen */
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &s, NULL), KINETO_OK);
    assert_int_equal(kp_stubs_acquire(KINETO_STUBS_CUDA, &held, &err), KINETO_E_STATE);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, &err), KINETO_OK);
}

static void *register_often(void *won)
{
    for (int i = 0; i < 2000; i++) {
        kineto_stubs s = some(), held;
        kineto_stubs_init(&held);
        s.context = &won;
        if (kineto_stubs_register(KINETO_STUBS_ITT, &s, NULL) != KINETO_OK)
            continue;
        if (kp_stubs_acquire(KINETO_STUBS_ITT, &held, NULL) != KINETO_OK || held.context != &won)
            return NULL;
        kp_stubs_release(KINETO_STUBS_ITT);
        if (kineto_stubs_unregister(KINETO_STUBS_ITT, NULL) != KINETO_OK)
            return NULL;
        __atomic_add_fetch((int *)won, 1, __ATOMIC_RELAXED);
    }
    return won;
}

static void threads_register_one_at_a_time(void **state)
{
    (void)state;
    pthread_t threads[4];
    int won = 0;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, register_often, &won), 0);
    for (int i = 0; i < 4; i++) {
        void *fine = NULL;
        (void)pthread_join(threads[i], &fine);
        assert_non_null(fine);
    }
    assert_true(won > 0);
}

/* ---- the observer ------------------------------------------------------------------------------ */

static const struct kineto_profiler_config *seen_config;
static uint32_t seen_scopes;
static int enabled_count;
static kineto_status enable(void *context, const struct kineto_profiler_config *config,
                            uint32_t scopes, kineto_error *err)
{
    seen_config = config;
    seen_scopes = scopes;
    if (!context)
        return kb_fail(err, KINETO_E_PLUGIN, "not today");
    enabled_count++;
    return KINETO_OK;
}
static kineto_status disable(void *context, kineto_error *err)
{
    (void)context, (void)err;
    enabled_count--;
    return KINETO_OK;
}

static void an_observer_is_notified_and_stays_until_the_end(void **state)
{
    (void)state;
    kineto_privateuse1_observer o;
    kineto_privateuse1_observer_init(&o);
    const struct kineto_profiler_config *config = (const void *)state;
    kineto_error err;
    assert_int_equal(kp_observer_enable(config, 3, &err), KINETO_E_STATE);
    assert_non_null(strstr(err.message, "kineto_privateuse1_observer_register"));
    assert_int_equal(kp_observer_disable(&err), KINETO_E_STATE);
    assert_int_equal(kineto_privateuse1_observer_register(NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_privateuse1_observer_register(&o, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_privateuse1_observer_unregister(&err), KINETO_E_NOT_FOUND);
    o.enable = enable;
    o.disable = disable;
    assert_int_equal(kineto_privateuse1_observer_register(&o, &err), KINETO_OK);
    assert_int_equal(kineto_privateuse1_observer_register(&o, &err), KINETO_E_BUSY);
    assert_true(kineto_privateuse1_observer_is_registered());
    assert_int_equal(kp_observer_enable(config, 3, &err), KINETO_E_PLUGIN);
    assert_string_equal(err.message, "not today");
    assert_int_equal(kp_observer_disable(&err), KINETO_E_STATE);
    assert_int_equal(kineto_privateuse1_observer_unregister(&err), KINETO_OK);
    o.context = &o;
    assert_int_equal(kineto_privateuse1_observer_register(&o, &err), KINETO_OK);
    assert_int_equal(kp_observer_enable(config, 129, &err), KINETO_OK);
    assert_ptr_equal(seen_config, config);
    assert_int_equal(seen_scopes, 129);
    assert_int_equal(kineto_privateuse1_observer_unregister(&err), KINETO_E_BUSY);
    assert_int_equal(kp_observer_disable(&err), KINETO_OK);
    assert_int_equal(enabled_count, 0);
    assert_int_equal(kineto_privateuse1_observer_unregister(&err), KINETO_OK);
    assert_false(kineto_privateuse1_observer_is_registered());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unregistered_stubs_say_whose_they_are),
        cmocka_unit_test(missing_functions_are_named),
        cmocka_unit_test(wrong_calls_are_refused),
        cmocka_unit_test(structs_of_other_sizes_are_understood),
        cmocka_unit_test(stubs_in_use_stay),
        cmocka_unit_test(threads_register_one_at_a_time),
        cmocka_unit_test(an_observer_is_notified_and_stays_until_the_end),
    };
    return RUN_TESTS(tests);
}
