/* Lists of kinds: every spelling in every case, the words default and all, kinds that plug-ins
 * announce, and what is said about a name that is none. */
#include "mock.h"

#include <ctype.h>

#define BIT(kind) KINETO_KIND_BIT(KINETO_KIND_##kind)

/* By hand, so that a mistake in the tables shows. */
static const struct {
    const char *name;
    uint64_t mask;
} spellings[] = {
    {"cpu_op", BIT(CPU_OP)},
    {"user_annotation", BIT(USER_ANNOTATION)},
    {"gpu_user_annotation", BIT(GPU_USER_ANNOTATION)},
    {"gpu_memcpy", BIT(GPU_MEMCPY)},
    {"gpu_memset", BIT(GPU_MEMSET)},
    {"kernel", BIT(CONCURRENT_KERNEL)},
    {"concurrent_kernel", BIT(CONCURRENT_KERNEL)},
    {"external_correlation", BIT(EXTERNAL_CORRELATION)},
    {"runtime", BIT(RUNTIME)},
    {"driver", BIT(DRIVER)},
    {"cpu_instant_event", BIT(CPU_INSTANT_EVENT)},
    {"python_function", BIT(PYTHON_FUNCTION)},
    {"overhead", BIT(OVERHEAD)},
    {"collective_comm", BIT(COLLECTIVE_COMM)},
    {"gpu_pm_counter", BIT(GPU_PM_COUNTER)},
    {"cuda_runtime", BIT(RUNTIME)},
    {"cuda_driver", BIT(DRIVER)},
    {"cuda_sync", BIT(CUDA_SYNC)},
    {"cuda_event", BIT(CUDA_EVENT)},
    {"cuda_profiler_range", BIT(CUDA_PROFILER_RANGE)},
    {"mtia_runtime", BIT(RUNTIME)},
    {"mtia_ccp_events", BIT(CONCURRENT_KERNEL)},
    {"mtia_insight", BIT(MTIA_INSIGHT)},
    {"mtia_counters", BIT(GPU_PM_COUNTER)},
    {"glow_runtime", BIT(RUNTIME)},
    {"hpu_op", BIT(RUNTIME)},
    {"xpu_runtime", BIT(RUNTIME)},
    {"xpu_driver", BIT(DRIVER)},
    {"xpu_scope_profiler", BIT(GPU_PM_COUNTER)},
    {"xpu_sync", BIT(CUDA_SYNC)},
    {"privateuse1_runtime", BIT(RUNTIME)},
    {"privateuse1_driver", BIT(DRIVER)},
    {"hardware_counters", BIT(GPU_PM_COUNTER)},
    {"counter", BIT(COUNTER)},
    {"memory", BIT(MEMORY)},
    {"cpu_sample", BIT(CPU_SAMPLE)},
    {"thread_state", BIT(THREAD_STATE)},
    {"blocking_call", BIT(BLOCKING_CALL)},
    {"openmp", BIT(OPENMP)},
    {"mpi", BIT(MPI)},
};

static uint64_t mask_of(const char *list)
{
    uint64_t mask = 0;
    kineto_error err = {0};
    if (kineto_kinds_parse(list, &mask, &err))
        fail_msg("'%s': %s", list, err.message);
    return mask;
}

/* Lower, upper, first letter, and every second letter: the same. */
static void every_spelling_in_every_case(void)
{
    for (size_t i = 0; i < COUNT_OF(spellings); i++) {
        char upper[64] = "", title[64] = "", mixed[64] = "";
        for (size_t k = 0; spellings[i].name[k]; k++) {
            char c = spellings[i].name[k];
            upper[k] = (char)toupper((unsigned char)c);
            title[k] = k ? c : upper[k];
            mixed[k] = k % 2 ? upper[k] : c;
        }
        assert_int_equal(mask_of(spellings[i].name), spellings[i].mask);
        assert_int_equal(mask_of(upper), spellings[i].mask);
        assert_int_equal(mask_of(title), spellings[i].mask);
        assert_int_equal(mask_of(mixed), spellings[i].mask);
    }
}

static void defaults(void)
{
    uint64_t expected = 0, all = 0;
    for (size_t i = 0; i < COUNT_OF(spellings); i++)
        all |= spellings[i].mask;
    expected = all & ~(BIT(COLLECTIVE_COMM) | BIT(GPU_PM_COUNTER) | BIT(CUDA_PROFILER_RANGE));
    assert_int_equal(KINETO_KINDS_NEUTRAL, all);
    assert_int_equal(KINETO_KINDS_NEUTRAL_DEFAULT, expected);
    assert_int_equal(mask_of("default"), KINETO_KINDS_DEFAULT);
    assert_int_equal(mask_of("Default") & KINETO_KINDS_NEUTRAL, expected);
    assert_int_equal(mask_of("ALL"), KINETO_KINDS_ALL);
    assert_int_equal(mask_of("default,mtia_counters"), KINETO_KINDS_DEFAULT | BIT(GPU_PM_COUNTER));
}

static void lists(void)
{
    assert_int_equal(mask_of("kernel,cpu_op"), BIT(CONCURRENT_KERNEL) | BIT(CPU_OP));
    assert_int_equal(mask_of(" kernel\t, CPU_OP ,,\n"), BIT(CONCURRENT_KERNEL) | BIT(CPU_OP));
    assert_int_equal(mask_of("cuda_runtime,xpu_runtime,hpu_op,runtime"), BIT(RUNTIME));
}

static void expect_no_kind(const char *list, const char *named, const char *hint)
{
    uint64_t mask = 99;
    kineto_error err = {0};
    assert_int_equal(kineto_kinds_parse(list, &mask, &err), KINETO_E_ARGUMENT);
    assert_int_equal(mask, 99);
    if (!strstr(err.message, named) || !strstr(err.message, hint))
        fail_msg("'%s': %s", list, err.message);
}

static void errors(void)
{
    expect_no_kind("kernel,gpu_memcopy", "'gpu_memcopy'", "'gpu_memcpy'");
    expect_no_kind("zzzz", "'zzzz'", "ckineto plugin list");
    expect_no_kind("", "", "empty");
    expect_no_kind(" , ,", "", "empty");
    expect_no_kind("kernel cpu_op", "'kernel cpu_op'", "");
    expect_no_kind("cuda_runtime\x01", "unknown activity kind", "");
    assert_int_equal(kineto_kinds_parse(NULL, NULL, NULL), KINETO_E_ARGUMENT);
}

/* A name is known from when a plug-in announces it. */
static void own_kinds(void)
{
    const KinetoPlugin_Registry *host = kineto_plugin_registry();
    assert_true(KINETO_PLUGIN_HAS(host, KinetoPlugin_Registry, registerActivityTypes));
    expect_no_kind("wave", "'wave'", "");
    const KinetoPlugin_ActivityTypeInfo types[] = {
        {"wave", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, 1},
        {"fence", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, 0}};
    KinetoPlugin_RegisterActivityTypes_Params p = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = types,
        .count = 2};
    assert_int_equal(host->registerActivityTypes(host->pRegistryHandle, &p), 0);
    assert_string_equal(kineto_plugin_type_name(p.firstEventType), "wave");
    assert_string_equal(kineto_plugin_type_name(p.firstEventType + 1), "fence");
    uint64_t wave = mask_of("wave"), fence = mask_of("Fence");
    assert_int_equal(wave & (wave - 1), 0); /* one bit each, among those kept for them */
    assert_int_equal(fence & (fence - 1), 0);
    assert_int_not_equal(wave, fence);
    assert_int_equal((wave | fence) & ~KINETO_KINDS_OWN, 0);
    assert_int_equal(mask_of("kernel,WAVE"), BIT(CONCURRENT_KERNEL) | wave);
    assert_int_equal(mask_of("all") & wave, wave);
    assert_int_equal(mask_of("default"),
                     KINETO_KINDS_DEFAULT); /* by the bit that stands for them */
}

static void activity_types(void **state)
{
    (void)state;
    every_spelling_in_every_case();
    defaults();
    lists();
    errors();
    own_kinds();
}

static const struct CMUnitTest tests[] = {
    {"ParseTest.ActivityTypes", activity_types, NULL, NULL, NULL},
};

int main(int argc, char **argv) { return run_named(tests, COUNT_OF(tests), argc, argv); }
