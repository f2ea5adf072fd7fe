/* Power and such and PM sampling through the real recorder: what stands in the trace. */
#include "../../unit/unit.h"

#include "../../helpers/recording.h"

#include "fake_host.h"
#include "fake_nvml.h"
#include "fake_pm.h"
#include "pm.h"

#include <ckineto/plugin.h>

#include <dlfcn.h>
#include <time.h>

#define SIZE(type, member) KINETO_PLUGIN_SIZE(KinetoPlugin_##type, member)

/* ---- a plug-in that does nothing but sample --------------------------------------------------------- */

static fake_pm *pm;

static int query(KinetoPlugin_ProfilerQuery_Params *p)
{
    snprintf(p->pProfilerName, p->profilerNameMaxLen, "counters");
    p->pSupportedActivityTypes[0] = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER;
    return 0;
}

static int create(KinetoPlugin_ProfilerCreate_Params *p)
{
    p->pProfilerHandle = (void *)&pm;
    return 0;
}

static int start(KinetoPlugin_ProfilerStart_Params *p)
{
    char why[CP_TEXT_BYTES] = "";
    cp_options options = {
        .types = UINT64_C(1) << KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
        .nvml_interval_ms = 2,
        .pm_metrics = "sm__cycles_active.avg.pct_of_peak_sustained_elapsed,dramc__read_bytes.sum",
        .pm_interval_us = 1000};
    if (cp_nvml_start(&options, p->pLiveBuilder, why) &&
        cp_pm_start(&options, p->pLiveBuilder, why))
        return 0;
    print_message("%s\n", why);
    return 1;
}

static int stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    cp_pm_stop();
    cp_nvml_stop();
    return 0;
}

static int process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    (void)p;
    return 0;
}

static int destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

static const KinetoPlugin_ProfilerInterface sampler = {
    .unpaddedStructSize = SIZE(ProfilerInterface, profilerProcessEvents),
    .profilerCreate = create,
    .profilerDestroy = destroy,
    .profilerQuery = query,
    .profilerStart = start,
    .profilerStop = stop,
    .profilerProcessEvents = process};

/* ---- the trace -------------------------------------------------------------------------------------- */

static double number(const kineto_trace *trace, kineto_row row, const char *key)
{
    kineto_arg arg = arg_of(trace, row, key);
    return arg.type == KINETO_ARG_DOUBLE ? arg.d
           : arg.type == KINETO_ARG_UINT ? (double)arg.u
                                         : (double)arg.i;
}

/* Rows of this name, all counters; the first and the last. */
static uint64_t counters(const kineto_trace *trace, const char *name, kineto_row *first,
                         kineto_row *last)
{
    uint64_t n = 0;
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        if (!text_is(a.name, name))
            continue;
        assert_int_equal(a.form, KINETO_FORM_COUNTER);
        assert_true(process_of(trace, r).is_device);
        *last = r;
        if (n++ == 0)
            *first = r;
    }
    return n;
}

static void lie_in_the_window(const kineto_trace *trace, const char *name)
{
    int64_t start_ns, end_ns;
    kineto_trace_window(trace, &start_ns, &end_ns);
    for (kineto_row r = 0; r < kineto_trace_count(trace); r++) {
        kineto_activity a = row_at(trace, r);
        if (text_is(a.name, name))
            assert_true(a.start_ns >= start_ns && a.start_ns <= end_ns);
    }
}

static int64_t realtime_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static kineto_trace *record_a_while(void)
{
    kineto_session *session = record();
    pm->first_ns = realtime_ns();
    pm->step_ns = 1000;
    pm->available = 50;
    for (int i = 0; i < 20000 && pm->available; i++)
        usleep(1000);
    usleep(30000);
    return finish(session);
}

static void open_stand_ins(void)
{
    void *library = dlopen(FAKE_PM_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    void *nvml = dlopen(FAKE_NVML_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    assert_non_null(nvml);
    void *version = dlsym(library, "cuptiGetVersion");
    memcpy(&cp_cupti.get_version, &version, sizeof version);
    pm = dlsym(library, FAKE_PM_SYMBOL);
    fake_nvml *control = dlsym(nvml, FAKE_NVML_SYMBOL);
    control->gpus = 1;
    cuda_new(1);
    setenv("CKINETO_NVML_LIBRARY", FAKE_NVML_LIBRARY, 1);
}

static void counters_stand_in_the_trace_with_their_units(void **state)
{
    (void)state;
    kineto_row first = 0, last = 0;
    open_stand_ins();
    const KinetoPlugin_Registry *registry = kineto_plugin_registry();
    assert_int_equal(registry->registerProfiler(registry->pRegistryHandle, &sampler), 0);
    kineto_trace *t = record_a_while();
    verify(t);
    assert_nothing_lost(t);
    assert_true(counters(t, "GPU power", &first, &last) >= 2);
    assert_true(number(t, first, "power [W]") == 100.5);
    assert_true(number(t, first, "power limit [W]") == 700);
    assert_true(counters(t, "GPU energy", &first, &last) >= 2);
    assert_true(number(t, last, "energy [J]") > number(t, first, "energy [J]"));
    assert_true(counters(t, "GPU memory", &first, &last) >= 2);
    assert_true(number(t, last, "memory used [bytes]") == (double)(1ull << 30));
    assert_true(counters(t, "GPU temperature", &first, &last) >= 2);
    assert_true(number(t, last, "temperature [C]") == 55);
    assert_int_equal(counters(t, "PM sampling", &first, &last), 49);
    assert_true(number(t, last, "dramc__read_bytes.sum [bytes]") == 4901);
    assert_true(number(t, first, "sm__cycles_active.avg.pct_of_peak_sustained_elapsed [%]") == 100);
    lie_in_the_window(t, "GPU energy");
    lie_in_the_window(t, "PM sampling");
    kineto_trace_release(t);
    assert_int_equal(kineto_plugin_unregister(&sampler), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_stand_in_the_trace_with_their_units)};
    return RUN_TESTS(tests);
}
