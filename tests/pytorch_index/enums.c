/* The enumerations of PyTorch's index of its profiler: every value has PyTorch's number, and does
 * something. */
#include "unit/unit.h"

#include "base/base.h"

#include "profiler/profiling.h"

#include "helpers/plugins.h"

#include <ckineto/stubs.h>

#define SAME(ours, theirs) _Static_assert((ours) == (theirs), #ours)

/* ProfilerState → kineto_profiler_state. */
SAME(KINETO_STATE_DISABLED, 0);
SAME(KINETO_STATE_CPU, 1);
SAME(KINETO_STATE_CUDA, 2);
SAME(KINETO_STATE_NVTX, 3);
SAME(KINETO_STATE_ITT, 4);
SAME(KINETO_STATE_PRIVATEUSE1, 5);
SAME(KINETO_STATE_KINETO, 6);
SAME(KINETO_STATE_KINETO_GPU_FALLBACK, 7);
SAME(KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK, 8);
SAME(KINETO_STATE_KINETO_ONDEMAND, 9);
SAME(KINETO_STATE_KINETO_PRIVATEUSE1, 10);
SAME(KINETO_NUM_PROFILER_STATES, 11);
/* ActivityType → kineto_activity_type. */
SAME(KINETO_ACTIVITY_TYPE_CPU, 0);
SAME(KINETO_ACTIVITY_TYPE_XPU, 1);
SAME(KINETO_ACTIVITY_TYPE_CUDA, 2);
SAME(KINETO_ACTIVITY_TYPE_HPU, 3);
SAME(KINETO_ACTIVITY_TYPE_MTIA, 4);
SAME(KINETO_ACTIVITY_TYPE_PRIVATEUSE1, 5);
SAME(KINETO_NUM_ACTIVITY_TYPES, 6);
/* RecordScope → kineto_scope. */
SAME(KINETO_SCOPE_FUNCTION, 0);
SAME(KINETO_SCOPE_BACKWARD_FUNCTION, 1);
SAME(KINETO_SCOPE_TORCHSCRIPT_FUNCTION, 2);
SAME(KINETO_SCOPE_KERNEL_FUNCTION_DTYPE, 3);
SAME(KINETO_SCOPE_CUSTOM_CLASS, 4);
SAME(KINETO_SCOPE_BUILD_FEATURE, 5);
SAME(KINETO_SCOPE_LITE_INTERPRETER, 6);
SAME(KINETO_SCOPE_USER_SCOPE, 7);
SAME(KINETO_SCOPE_STATIC_RUNTIME_OP, 8);
SAME(KINETO_SCOPE_STATIC_RUNTIME_MODEL, 9);
SAME(KINETO_NUM_SCOPES, 10);
/* ActiveProfilerType → kineto_active_profiler. */
SAME(KINETO_ACTIVE_NONE, 0);
SAME(KINETO_ACTIVE_LEGACY, 1);
SAME(KINETO_ACTIVE_KINETO, 2);
SAME(KINETO_ACTIVE_NVTX, 3);
SAME(KINETO_ACTIVE_ITT, 4);
SAME(KINETO_ACTIVE_PRIVATEUSE1, 5);
SAME(KINETO_NUM_ACTIVE_PROFILERS, 6);

/* ---- ProfilerState ------------------------------------------------------------------------------ */

static const struct {
    kineto_profiler_state state;
    const char *name;
    kineto_active_profiler active;
} states[] = {
    {KINETO_STATE_DISABLED, "DISABLED", KINETO_ACTIVE_NONE},
    {KINETO_STATE_CPU, "CPU", KINETO_ACTIVE_LEGACY},
    {KINETO_STATE_CUDA, "CUDA", KINETO_ACTIVE_LEGACY},
    {KINETO_STATE_NVTX, "NVTX", KINETO_ACTIVE_NVTX},
    {KINETO_STATE_ITT, "ITT", KINETO_ACTIVE_ITT},
    {KINETO_STATE_PRIVATEUSE1, "PRIVATEUSE1", KINETO_ACTIVE_PRIVATEUSE1},
    {KINETO_STATE_KINETO, "KINETO", KINETO_ACTIVE_KINETO},
    {KINETO_STATE_KINETO_GPU_FALLBACK, "KINETO_GPU_FALLBACK", KINETO_ACTIVE_KINETO},
    {KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK, "KINETO_PRIVATEUSE1_FALLBACK", KINETO_ACTIVE_KINETO},
    {KINETO_STATE_KINETO_ONDEMAND, "KINETO_ONDEMAND", KINETO_ACTIVE_KINETO},
    {KINETO_STATE_KINETO_PRIVATEUSE1, "KINETO_PRIVATEUSE1", KINETO_ACTIVE_KINETO},
};

static void ProfilerState_has_a_name_for_every_value(void **state)
{
    (void)state;
    assert_int_equal(COUNT_OF(states), KINETO_NUM_PROFILER_STATES);
    for (uint32_t i = 0; i < COUNT_OF(states); i++) {
        assert_int_equal(states[i].state, i);
        assert_string_equal(kineto_profiler_state_name(states[i].state), states[i].name);
    }
    assert_string_equal(kineto_profiler_state_name(KINETO_NUM_PROFILER_STATES), "unknown");
}

/* Events of a device that is a script: the n-th is at n microseconds. */
static int64_t made;
static kineto_status make_event(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                                kineto_error *err)
{
    (void)context, (void)device, (void)cpu_ns, (void)err;
    *event = (void *)(uintptr_t)(++made * 1000);
    return KINETO_OK;
}
static kineto_status between(void *context, void *start, void *end, int64_t *ns, kineto_error *err)
{
    (void)context, (void)err;
    *ns = (int64_t)((uintptr_t)end - (uintptr_t)start);
    return KINETO_OK;
}
static void give_back(void *context, void *event) { (void)context, (void)event; }

static void register_stubs(kineto_stubs_slot slot)
{
    kineto_stubs s;
    kineto_stubs_init(&s);
    s.record = make_event;
    s.elapsed_ns = between;
    s.release_event = give_back;
    assert_int_equal(kineto_stubs_register(slot, &s, NULL), KINETO_OK);
}

static int observer_calls;
static kineto_status observer_enable(void *context, const kineto_profiler_config *config,
                                     uint32_t scopes, kineto_error *err)
{
    (void)context, (void)config, (void)scopes, (void)err;
    observer_calls++;
    return KINETO_OK;
}

static kineto_profiler_result *profiled_one(kineto_profiler_state s, uint32_t activities,
                                            kineto_active_profiler active)
{
    kineto_profiler_config c = config_of(s);
    enable_with(&c, activities);
    assert_int_equal(kineto_profiler_type(), active);
    run_op("aten::mm");
    return disabled();
}

static void ProfilerState_Disabled_cannot_be_enabled(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_DISABLED);
    assert_true(kineto_profiler_config_disabled(&c));
    expect(KINETO_E_ARGUMENT, "DISABLED", kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    c.state = KINETO_NUM_PROFILER_STATES;
    expect(KINETO_E_ARGUMENT, "unknown state", kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_NONE);
}

static bool wants(const fake *f, int32_t type)
{
    for (size_t i = 0; i < f->enabled_count; i++)
        if (f->enabled[i] == type)
            return true;
    return false;
}

static void ProfilerState_CPU_is_the_host_alone(void **state)
{
    (void)state;
    fake *f = enter(0, "device");
    kineto_profiler_result_release(profiled_one(KINETO_STATE_CPU, ONLY(CUDA), KINETO_ACTIVE_LEGACY));
    assert_false(wants(f, TYPE(CONCURRENT_KERNEL)));
    leave(0);
}

static void ProfilerState_CUDA_is_the_host_and_the_device(void **state)
{
    (void)state;
    fake *f = enter(0, "device");
    kineto_profiler_result *r = profiled_one(KINETO_STATE_CUDA, 0, KINETO_ACTIVE_LEGACY);
    assert_true(wants(f, TYPE(CONCURRENT_KERNEL)));
    (void)event_named(r, "aten::mm");
    kineto_profiler_result_release(r);
    leave(0);
}

/* With a tool attached: tests/profiler/test_profiler_tools.c. */
static void ProfilerState_NVTX_and_ITT_need_their_tools(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_NVTX);
    (void)unsetenv("NVTX_INJECTION64_PATH");
    (void)unsetenv("INTEL_LIBITTNOTIFY64");
    expect(KINETO_E_NOT_FOUND, "NVTX_INJECTION64_PATH", kineto_profiler_enable(&c, 0, 0, &err));
    c.state = KINETO_STATE_ITT;
    expect(KINETO_E_NOT_FOUND, "INTEL_LIBITTNOTIFY64", kineto_profiler_enable(&c, 0, 0, &err));
}

static void ProfilerState_PRIVATEUSE1_tells_the_observer(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_PRIVATEUSE1);
    expect(KINETO_E_STATE, "", kineto_profiler_enable(&c, 0, 0, &err)); /* PyTorch calls NULL */
    kineto_privateuse1_observer o;
    kineto_privateuse1_observer_init(&o);
    o.enable = observer_enable;
    assert_int_equal(kineto_privateuse1_observer_register(&o, NULL), KINETO_OK);
    kineto_profiler_result *r =
        profiled_one(KINETO_STATE_PRIVATEUSE1, 0, KINETO_ACTIVE_PRIVATEUSE1);
    assert_int_equal(observer_calls, 1);
    assert_null(kineto_profiler_result_trace(r));
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_privateuse1_observer_unregister(NULL), KINETO_OK);
}

static void ProfilerState_KINETO_records_what_is_asked_for(void **state)
{
    (void)state;
    fake *f = enter(0, "device");
    kineto_profiler_result *r =
        profiled_one(KINETO_STATE_KINETO, ONLY(CPU) | ONLY(CUDA), KINETO_ACTIVE_KINETO);
    assert_true(wants(f, TYPE(CONCURRENT_KERNEL)));
    (void)event_named(r, "aten::mm");
    kineto_profiler_result_release(r);
    r = profiled_one(KINETO_STATE_KINETO, ONLY(CUDA), KINETO_ACTIVE_KINETO);
    assert_int_equal(events_named(r, "aten::mm"), 0);
    kineto_profiler_result_release(r);
    leave(0);
}

static void ProfilerState_KINETO_GPU_FALLBACK_times_operators_by_events(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_GPU_FALLBACK);
    expect(KINETO_E_STATE, "CUDA used in profiler but not enabled.",
           kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    register_stubs(KINETO_STUBS_CUDA);
    kineto_profiler_result *r =
        profiled_one(KINETO_STATE_KINETO_GPU_FALLBACK, ONLY(CPU), KINETO_ACTIVE_KINETO);
    kineto_event e = event_named(r, "aten::mm");
    assert_int_equal(kineto_event_cuda_elapsed_us(&e), 1);
    assert_int_equal(kineto_event_privateuse1_elapsed_us(&e), -1);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static void ProfilerState_KINETO_PRIVATEUSE1_FALLBACK_times_operators_by_events(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK);
    expect(KINETO_E_STATE, "PrivateUse1 used in profiler but not enabled.",
           kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    register_stubs(KINETO_STUBS_PRIVATEUSE1);
    kineto_profiler_result *r =
        profiled_one(KINETO_STATE_KINETO_PRIVATEUSE1_FALLBACK, ONLY(CPU), KINETO_ACTIVE_KINETO);
    kineto_event e = event_named(r, "aten::mm");
    assert_int_equal(kineto_event_privateuse1_elapsed_us(&e), 1);
    assert_int_equal(kineto_event_cuda_elapsed_us(&e), -1);
    kineto_profiler_result_release(r);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_PRIVATEUSE1, NULL), KINETO_OK);
}

static void *one_op(void *name)
{
    run_op(name);
    return NULL;
}

static void ProfilerState_KINETO_ONDEMAND_is_of_all_threads(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_ONDEMAND);
    assert_true(kineto_profiler_config_global(&c));
    expect(KINETO_E_ARGUMENT, "Ondemand profiling must enable CPU tracing",
           kineto_profiler_enable(&c, ONLY(CUDA), 0, &err));
    enable_with(&c, ONLY(CPU));
    expect(KINETO_E_STATE, "Profiler is already enabled.",
           kineto_profiler_enable(&c, ONLY(CPU), 0, &err));
    on_thread(one_op, (char[]){"elsewhere"});
    kineto_profiler_result *r = disabled();
    assert_null(kineto_profiler_result_trace(r)); /* it went to who drives such profilers */
    kineto_profiler_result_release(r);
}

static void ProfilerState_KINETO_PRIVATEUSE1_lets_the_backend_in(void **state)
{
    (void)state;
    fake *f = make_fake(0, "backend", 0);
    assert_int_equal(kineto_privateuse1_register(&interfaces[0]), KINETO_OK);
    kineto_profiler_result_release(
        profiled_one(KINETO_STATE_KINETO, ONLY(CPU) | ONLY(PRIVATEUSE1), KINETO_ACTIVE_KINETO));
    assert_string_equal(f->calls, "");
    kineto_profiler_result_release(profiled_one(KINETO_STATE_KINETO_PRIVATEUSE1,
                                       ONLY(CPU) | ONLY(PRIVATEUSE1), KINETO_ACTIVE_KINETO));
    assert_non_null(strstr(f->calls, "cst"));
    assert_int_equal(kineto_privateuse1_unregister(), KINETO_OK);
}

/* ---- ActivityType ------------------------------------------------------------------------------- */

/* PyTorch's names are one off from HPU on. */
static void ActivityType_has_the_right_name_for_every_value(void **state)
{
    (void)state;
    static const char *const names[] = {"CPU", "XPU", "CUDA", "HPU", "MTIA", "PrivateUse1"};
    assert_int_equal(COUNT_OF(names), KINETO_NUM_ACTIVITY_TYPES);
    for (uint32_t i = 0; i < COUNT_OF(names); i++)
        assert_string_equal(kineto_activity_type_name((kineto_activity_type)i), names[i]);
    assert_string_equal(kineto_activity_type_name(KINETO_NUM_ACTIVITY_TYPES), "unknown");
}

/* Each stands for kinds; none but CPU for operators; devices do kernels. */
static void ActivityType_enables_its_kinds(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < KINETO_NUM_ACTIVITY_TYPES; i++) {
        uint64_t kinds = kineto_activity_kinds(1u << i);
        assert_int_equal((kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_OP)) != 0, i == 0);
        assert_int_equal((kinds & KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL)) != 0, i != 0);
        assert_true(kinds & KINETO_KIND_BIT(KINETO_KIND_RUNTIME));
    }
    assert_int_equal(kineto_activity_kinds(0), 0);
    assert_int_equal(kineto_activity_kinds(ONLY(CPU) | ONLY(MTIA)),
                     kineto_activity_kinds(ONLY(CPU)) | kineto_activity_kinds(ONLY(MTIA)));
    assert_true(kineto_activity_kinds(ONLY(MTIA)) & KINETO_KIND_BIT(KINETO_KIND_MTIA_INSIGHT));
    assert_false(kineto_activity_kinds(ONLY(CUDA)) & KINETO_KIND_BIT(KINETO_KIND_MTIA_INSIGHT));
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    expect(KINETO_E_ARGUMENT, "unknown bits",
           kineto_profiler_enable(&c, 1u << KINETO_NUM_ACTIVITY_TYPES, 0, &err));
}

/* ---- RecordScope -------------------------------------------------------------------------------- */

static void RecordScope_is_kept_and_chosen_by_every_value(void **state)
{
    (void)state;
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO);
    for (uint32_t scope = 0; scope < KINETO_NUM_SCOPES; scope++) {
        assert_int_equal(kineto_profiler_enable(&c, ONLY(CPU), 1u << scope, NULL), KINETO_OK);
        for (uint32_t s = 0; s < KINETO_NUM_SCOPES; s++)
            run_scoped("thing", (kineto_scope)s);
        kineto_profiler_result *r = disabled();
        kineto_event e = event_named(r, "thing");
        assert_int_equal(kineto_event_scope(&e), scope);
        kineto_profiler_result_release(r);
    }
    expect(KINETO_E_ARGUMENT, "unknown bits",
           kineto_profiler_enable(&c, ONLY(CPU), 1u << KINETO_NUM_SCOPES, &err));
    assert_null(kineto_function_site("no", NULL, KINETO_NUM_SCOPES));
}

/* ---- ActiveProfilerType -------------------------------------------------------------------------- */

/* The rows of ProfilerState assert it for each; here, that a thread sees its own only. */
static void *type_of(void *out)
{
    *(kineto_active_profiler *)out = kineto_profiler_type();
    return NULL;
}

static void ActiveProfilerType_is_that_of_the_thread(void **state)
{
    (void)state;
    kineto_active_profiler other = KINETO_NUM_ACTIVE_PROFILERS;
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_NONE);
    enable_plain();
    assert_int_equal(kineto_profiler_type(), KINETO_ACTIVE_KINETO);
    on_thread(type_of, &other);
    assert_int_equal(other, KINETO_ACTIVE_NONE);
    kineto_profiler_result_release(disabled());
    kineto_profiler_config c = config_of(KINETO_STATE_KINETO_ONDEMAND);
    enable_with(&c, ONLY(CPU));
    on_thread(type_of, &other);
    assert_int_equal(other, KINETO_ACTIVE_KINETO);
    kineto_profiler_result_release(disabled());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ROW(ProfilerState_has_a_name_for_every_value),
        ROW(ProfilerState_Disabled_cannot_be_enabled),
        ROW(ProfilerState_CPU_is_the_host_alone),
        ROW(ProfilerState_CUDA_is_the_host_and_the_device),
        ROW(ProfilerState_NVTX_and_ITT_need_their_tools),
        ROW(ProfilerState_PRIVATEUSE1_tells_the_observer),
        ROW(ProfilerState_KINETO_records_what_is_asked_for),
        ROW(ProfilerState_KINETO_GPU_FALLBACK_times_operators_by_events),
        ROW(ProfilerState_KINETO_PRIVATEUSE1_FALLBACK_times_operators_by_events),
        ROW(ProfilerState_KINETO_ONDEMAND_is_of_all_threads),
        ROW(ProfilerState_KINETO_PRIVATEUSE1_lets_the_backend_in),
        ROW(ActivityType_has_the_right_name_for_every_value),
        ROW(ActivityType_enables_its_kinds),
        ROW(RecordScope_is_kept_and_chosen_by_every_value),
        ROW(ActiveProfilerType_is_that_of_the_thread),
    };
    return RUN_TESTS(tests);
}
