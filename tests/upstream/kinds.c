/* Neutral kinds at the border to plug-ins: what a list of kinds enables in a plug-in's own numbers,
 * and what an event of each number is called in the trace. */
#include "mock.h"

#define TYPES 24 /* all published numbers, from 1 on */

static const char *vendor; /* as the plug-in names itself; NULL: not at all */
static int32_t enabled[64];
static size_t enabled_count;
static int64_t started_ns;

static int all_query(KinetoPlugin_ProfilerQuery_Params *p)
{
    strncpy(p->pProfilerName, "all kinds", p->profilerNameMaxLen);
    for (int32_t i = 0; i < TYPES; i++)
        p->pSupportedActivityTypes[i] = i + 1;
    if (vendor && KINETO_PLUGIN_HAS(p, KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen))
        strncpy(p->pVendorName, vendor, p->vendorNameMaxLen);
    return 0;
}

static int all_create(KinetoPlugin_ProfilerCreate_Params *p)
{
    enabled_count = p->enabledActivityTypesMaxLen;
    assert_in_range(enabled_count, 0, COUNT_OF(enabled));
    memcpy(enabled, p->pEnabledActivityTypes, enabled_count * sizeof *enabled);
    p->pProfilerHandle = (KinetoPlugin_ProfilerHandle *)(void *)enabled;
    return 0;
}

static int all_start(KinetoPlugin_ProfilerStart_Params *p)
{
    (void)p;
    started_ns = utc_ns();
    return 0;
}

static int all_stop(KinetoPlugin_ProfilerStop_Params *p)
{
    (void)p;
    return 0;
}

/* An event of every number, enabled or not; its name is the number. */
static int all_process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    const KinetoPlugin_TraceBuilder *b = p->pTraceBuilder;
    for (int32_t type = 1; type <= TYPES; type++) {
        char name[8];
        KinetoPlugin_ProfileEvent e = {
            .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId),
            .eventType = type,
            .startTimeUtcNs = started_ns + type,
            .endTimeUtcNs = started_ns + type};
        snprintf(name, sizeof name, "%d", type);
        (void)b->addEvent(b->pTraceBuilderHandle, &e);
        (void)b->setLastEventName(b->pTraceBuilderHandle, name);
        if (type == KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER)
            (void)b->addLastEventMetadata(b->pTraceBuilderHandle, "value", "1");
    }
    return 0;
}

static int all_destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    (void)p;
    return 0;
}

static const KinetoPlugin_ProfilerInterface all = {
    .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents),
    .profilerCreate = all_create,
    .profilerDestroy = all_destroy,
    .profilerQuery = all_query,
    .profilerStart = all_start,
    .profilerStop = all_stop,
    .profilerProcessEvents = all_process};

/* A session of these kinds with a plug-in of this vendor. */
static kineto_trace *session_with(const char *kinds, const char *of_vendor)
{
    const KinetoPlugin_Registry *host = kineto_plugin_registry();
    uint64_t mask = 0;
    vendor = of_vendor;
    enabled_count = 0;
    assert_int_equal(kineto_kinds_parse(kinds, &mask, NULL), KINETO_OK);
    assert_int_equal(host->registerProfiler(host->pRegistryHandle, &all), 0);
    kineto_session *s = session_of(mask, 1 << 20, KINETO_RETAIN_OLDEST);
    usleep(1000);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_plugin_unregister(&all), 0);
    verify(t);
    return t;
}

static void expect_enabled(const int32_t *types, size_t count)
{
    assert_int_equal(enabled_count, count);
    assert_memory_equal(enabled, types, count * sizeof *types);
}

static void asking_for_a_kind_enables_all_numbers_of_it(void **state)
{
    (void)state;
    static const int32_t runtimes[] = {8, 13, 17, 19, 20, 23}, drivers[] = {9, 24},
                         kernels[] = {6, 14}, syncs[] = {16}, counters[] = {22};
    kineto_trace *t = session_with("runtime", NULL);
    expect_enabled(runtimes, COUNT_OF(runtimes));
    assert_int_equal(kineto_trace_count(t), 6);
    assert_int_equal(ledger(t, "all kinds", "kind not enabled"), TYPES - 6);
    for (kineto_row r = 0; r < 6; r++)
        assert_int_equal(row_at(t, r).kind, KINETO_KIND_RUNTIME);
    kineto_trace_release(t);
    static const char *const aliases[] = {"cuda_runtime", "HPU_OP", "glow_runtime"};
    for (size_t i = 0; i < COUNT_OF(aliases); i++) { /* one alias asks for all of them */
        kineto_trace_release(session_with(aliases[i], NULL));
        expect_enabled(runtimes, COUNT_OF(runtimes));
    }
    kineto_trace_release(session_with("xpu_driver", NULL));
    expect_enabled(drivers, COUNT_OF(drivers));
    kineto_trace_release(session_with("kernel", NULL));
    expect_enabled(kernels, COUNT_OF(kernels));
    kineto_trace_release(session_with("xpu_sync", NULL));
    expect_enabled(syncs, COUNT_OF(syncs));
    kineto_trace_release(session_with("hardware_counters", NULL));
    expect_enabled(counters, COUNT_OF(counters));
}

static void by_default_three_kinds_are_not_enabled(void **state)
{
    (void)state;
    kineto_trace_release(session_with("default", NULL));
    assert_int_equal(enabled_count, TYPES - 3);
    for (size_t i = 0; i < enabled_count; i++) {
        assert_int_not_equal(enabled[i], KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM);
        assert_int_not_equal(enabled[i], KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER);
        assert_int_not_equal(enabled[i], KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_PROFILER_RANGE);
    }
}

static void expect_category(const kineto_trace *t, const char *number, const char *category)
{
    kineto_string is = kineto_trace_string(t, find_only(t, number).category);
    if (!text_is(is, category))
        fail_msg("number %s is '%.*s', not '%s'", number, (int)is.size, is.data, category);
}

static void a_category_is_spelled_as_its_vendor_does(void **state)
{
    (void)state;
    kineto_trace *t = session_with("default", NULL); /* as a plug-in of the proposal's time */
    expect_category(t, "8", "cuda_runtime");
    expect_category(t, "9", "cuda_driver");
    static const struct {
        const char *number, *category;
    } numbers[] = {
        {"1", "cpu_op"},        {"4", "gpu_memcpy"},          {"5", "gpu_memset"},
        {"6", "kernel"},        {"13", "mtia_runtime"},       {"14", "mtia_ccp_events"},
        {"15", "mtia_insight"}, {"16", "cuda_sync"},          {"17", "glow_runtime"},
        {"19", "hpu_op"},       {"20", "xpu_runtime"},        {"23", "privateuse1_runtime"},
        {"12", "overhead"},     {"24", "privateuse1_driver"}, {"11", "python_function"}};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        expect_category(t, numbers[i].number, numbers[i].category);
    kineto_trace_release(t);
    t = session_with("default", "xpu");
    expect_category(t, "8", "xpu_runtime");
    expect_category(t, "9", "xpu_driver");
    expect_category(t, "19", "hpu_op"); /* a number that names its vendor */
    kineto_trace_release(t);
    t = session_with("default", "spyre");
    expect_category(t, "8", "runtime");
    expect_category(t, "9", "driver");
    kineto_trace_release(t);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(asking_for_a_kind_enables_all_numbers_of_it),
    cmocka_unit_test(by_default_three_kinds_are_not_enabled),
    cmocka_unit_test(a_category_is_spelled_as_its_vendor_does),
};

int main(int argc, char **argv) { return run_named(tests, COUNT_OF(tests), argc, argv); }
