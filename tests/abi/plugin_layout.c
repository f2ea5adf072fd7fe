/* The published layout of the accelerator plug-in interface, number by number. Plug-ins are built
 * elsewhere and at other times: a change here breaks them, so nothing here is ever edited, only
 * lines for appended members are added. */
#include <ckineto/plugin.h>

#include <stdio.h>

#if UINTPTR_MAX == UINT64_MAX

static unsigned faults;

static void expect(const char *what, size_t is, size_t should_be)
{
    if (is != should_be) {
        printf("%s is %zu, must be %zu\n", what, is, should_be);
        faults++;
    }
}

#define OFFSET(type, member, offset)                                                               \
    expect("offset of " #type "." #member, offsetof(KinetoPlugin_##type, member), (offset))
#define WIDTH(type, member, bytes)                                                                 \
    expect("bytes of " #type "." #member, sizeof(((KinetoPlugin_##type *)0)->member), (bytes))
#define MEMBER(type, member, offset, bytes)                                                        \
    (OFFSET(type, member, offset), WIDTH(type, member, bytes))
#define UNPADDED(type, last, bytes)                                                                \
    expect("unpadded size of " #type, KINETO_PLUGIN_SIZE(KinetoPlugin_##type, last), (bytes))
#define EVENT(name, number)                                                                        \
    expect("event type " #name, (size_t)KINETO_PLUGIN_PROFILE_EVENT_TYPE_##name, (number))

static void check_registry(void)
{
    MEMBER(Registry, unpaddedStructSize, 0, 8);
    MEMBER(Registry, pRegistryHandle, 8, 8);
    MEMBER(Registry, registerProfiler, 16, 8);
    UNPADDED(Registry, registerProfiler, 24);
}

static void check_interface(void)
{
    MEMBER(ProfilerInterface, unpaddedStructSize, 0, 8);
    MEMBER(ProfilerInterface, profilerCreate, 8, 8);
    MEMBER(ProfilerInterface, profilerDestroy, 16, 8);
    MEMBER(ProfilerInterface, profilerQuery, 24, 8);
    MEMBER(ProfilerInterface, profilerStart, 32, 8);
    MEMBER(ProfilerInterface, profilerStop, 40, 8);
    MEMBER(ProfilerInterface, profilerPushCorrelationId, 48, 8);
    MEMBER(ProfilerInterface, profilerPopCorrelationId, 56, 8);
    MEMBER(ProfilerInterface, profilerPushUserCorrelationId, 64, 8);
    MEMBER(ProfilerInterface, profilerPopUserCorrelationId, 72, 8);
    MEMBER(ProfilerInterface, profilerProcessEvents, 80, 8);
    UNPADDED(ProfilerInterface, profilerProcessEvents, 88);
}

static void check_life(void)
{
    MEMBER(ProfilerCreate_Params, pProfilerHandle, 8, 8);
    MEMBER(ProfilerCreate_Params, pEnabledActivityTypes, 16, 8);
    MEMBER(ProfilerCreate_Params, enabledActivityTypesMaxLen, 24, 8);
    UNPADDED(ProfilerCreate_Params, enabledActivityTypesMaxLen, 32);
    MEMBER(ProfilerDestroy_Params, pProfilerHandle, 8, 8);
    UNPADDED(ProfilerDestroy_Params, pProfilerHandle, 16);
    MEMBER(ProfilerQuery_Params, pProfilerHandle, 8, 8);
    MEMBER(ProfilerQuery_Params, pProfilerName, 16, 8);
    MEMBER(ProfilerQuery_Params, profilerNameMaxLen, 24, 8);
    MEMBER(ProfilerQuery_Params, pSupportedActivityTypes, 32, 8);
    MEMBER(ProfilerQuery_Params, supportedActivityTypesMaxLen, 40, 8);
    UNPADDED(ProfilerQuery_Params, supportedActivityTypesMaxLen, 48);
    MEMBER(ProfilerStart_Params, pProfilerHandle, 8, 8);
    UNPADDED(ProfilerStart_Params, pProfilerHandle, 16);
    MEMBER(ProfilerStop_Params, pProfilerHandle, 8, 8);
    UNPADDED(ProfilerStop_Params, pProfilerHandle, 16);
    MEMBER(ProfilerProcessEvents_Params, pProfilerHandle, 8, 8);
    MEMBER(ProfilerProcessEvents_Params, pTraceBuilder, 16, 8);
    UNPADDED(ProfilerProcessEvents_Params, pTraceBuilder, 24);
}

static void check_correlation(void)
{
    MEMBER(ProfilerPushCorrelationId_Params, correlationId, 8, 8);
    MEMBER(ProfilerPushCorrelationId_Params, pProfilerHandle, 16, 8);
    UNPADDED(ProfilerPushCorrelationId_Params, pProfilerHandle, 24);
    MEMBER(ProfilerPushUserCorrelationId_Params, userCorrelationId, 8, 8);
    MEMBER(ProfilerPushUserCorrelationId_Params, pProfilerHandle, 16, 8);
    UNPADDED(ProfilerPushUserCorrelationId_Params, pProfilerHandle, 24);
    MEMBER(ProfilerPopCorrelationId_Params, pProfilerHandle, 8, 8);
    UNPADDED(ProfilerPopCorrelationId_Params, pProfilerHandle, 16);
    MEMBER(ProfilerPopUserCorrelationId_Params, pProfilerHandle, 8, 8);
    UNPADDED(ProfilerPopUserCorrelationId_Params, pProfilerHandle, 16);
}

static void check_builder(void)
{
    MEMBER(TraceBuilder, pTraceBuilderHandle, 8, 8);
    MEMBER(TraceBuilder, addEvent, 16, 8);
    MEMBER(TraceBuilder, setLastEventName, 24, 8);
    MEMBER(TraceBuilder, setLastEventFlow, 32, 8);
    MEMBER(TraceBuilder, addLastEventMetadata, 40, 8);
    MEMBER(TraceBuilder, addDeviceInfo, 48, 8);
    MEMBER(TraceBuilder, addResourceInfo, 56, 8);
    UNPADDED(TraceBuilder, addResourceInfo, 64);
}

static void check_events(void)
{
    MEMBER(ProfileEvent, eventType, 8, 4);
    MEMBER(ProfileEvent, startTimeUtcNs, 16, 8);
    MEMBER(ProfileEvent, endTimeUtcNs, 24, 8);
    MEMBER(ProfileEvent, eventId, 32, 8);
    MEMBER(ProfileEvent, deviceId, 40, 4);
    MEMBER(ProfileEvent, processId, 40, 4);
    MEMBER(ProfileEvent, resourceId, 44, 4);
    MEMBER(ProfileEvent, threadId, 44, 4);
    UNPADDED(ProfileEvent, resourceId, 48);
    MEMBER(ProfileEventFlow, flowType, 8, 4);
    MEMBER(ProfileEventFlow, flowId, 12, 4);
    MEMBER(ProfileEventFlow, isStartPoint, 16, 1);
    UNPADDED(ProfileEventFlow, isStartPoint, 17);
    MEMBER(ProfileDeviceInfo, deviceId, 8, 8);
    MEMBER(ProfileDeviceInfo, sortIndex, 16, 8);
    MEMBER(ProfileDeviceInfo, pName, 24, 8);
    MEMBER(ProfileDeviceInfo, pLabel, 32, 8);
    UNPADDED(ProfileDeviceInfo, pLabel, 40);
    MEMBER(ProfileResourceInfo, deviceId, 8, 4);
    MEMBER(ProfileResourceInfo, processId, 8, 4);
    MEMBER(ProfileResourceInfo, resourceId, 12, 4);
    MEMBER(ProfileResourceInfo, threadId, 12, 4);
    MEMBER(ProfileResourceInfo, displayOrder, 16, 4);
    MEMBER(ProfileResourceInfo, pName, 24, 8);
    UNPADDED(ProfileResourceInfo, pName, 32);
}

static void check_event_types(void)
{
    EVENT(INVALID, 0);
    EVENT(CPU_OP, 1);
    EVENT(USER_ANNOTATION, 2);
    EVENT(GPU_USER_ANNOTATION, 3);
    EVENT(GPU_MEMCPY, 4);
    EVENT(GPU_MEMSET, 5);
    EVENT(CONCURRENT_KERNEL, 6);
    EVENT(EXTERNAL_CORRELATION, 7);
    EVENT(CUDA_RUNTIME, 8);
    EVENT(CUDA_DRIVER, 9);
    EVENT(CPU_INSTANT_EVENT, 10);
    EVENT(PYTHON_FUNCTION, 11);
    EVENT(OVERHEAD, 12);
    EVENT(MTIA_RUNTIME, 13);
    EVENT(MTIA_CCP_EVENTS, 14);
    EVENT(MTIA_INSIGHT, 15);
    EVENT(CUDA_SYNC, 16);
    EVENT(GLOW_RUNTIME, 17);
    EVENT(CUDA_PROFILER_RANGE, 18);
    EVENT(HPU_OP, 19);
    EVENT(XPU_RUNTIME, 20);
    EVENT(COLLECTIVE_COMM, 21);
    EVENT(GPU_PM_COUNTER, 22);
    EVENT(PRIVATEUSE1_RUNTIME, 23);
    EVENT(PRIVATEUSE1_DRIVER, 24);
    EVENT(CUDA_EVENT, 25);
    EVENT(COUNT, 26);
    expect("flow type FWD_BWD", KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_FWD_BWD, 1);
    expect("flow type ASYNC_CPU_GPU", KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU, 2);
}

/* Appended since; the same promise holds. Start's members also give every revision of the proposal
 * its handle: at 8, or after an empty list at 24. */
static void check_appended(void)
{
    MEMBER(ProfilerStart_Params, reservedZero, 16, 8);
    MEMBER(ProfilerStart_Params, pProfilerHandleAgain, 24, 8);
    MEMBER(ProfilerStart_Params, pLiveBuilder, 32, 8);
    MEMBER(TraceBuilder, emit, 64, 8);
    MEMBER(TraceBuilder, addDeviceProperties, 72, 8);
    MEMBER(TraceBuilder, registerClock, 80, 8);
    MEMBER(TraceBuilder, addClockSample, 88, 8);
    MEMBER(TraceBuilder, hostTicks, 96, 8);
    MEMBER(TraceBuilder, addCounts, 104, 8);
    MEMBER(TraceBuilder, addHeaderMetadata, 112, 8);
    MEMBER(Metadata, pKey, 0, 8);
    MEMBER(Metadata, valueType, 8, 4);
    MEMBER(Metadata, count, 12, 4);
    MEMBER(Metadata, pointer, 16, 8);
    MEMBER(Activity, event, 8, 48);
    MEMBER(Activity, clock, 56, 4);
    MEMBER(Activity, nameSize, 60, 4);
    MEMBER(Activity, pName, 64, 8);
    MEMBER(Activity, externalId, 72, 8);
    MEMBER(Activity, flowType, 80, 4);
    MEMBER(Activity, flowId, 84, 4);
    MEMBER(Activity, flowIsStart, 88, 4);
    MEMBER(Activity, metadataCount, 92, 4);
    MEMBER(Activity, pMetadata, 96, 8);
    MEMBER(Activity, metadataSet, 104, 4);
    UNPADDED(Activity, pMetadata, 104);
    UNPADDED(Activity, metadataSet, 108);
    MEMBER(Counts, requested, 8, 8);
    MEMBER(Counts, dropped, 16, 8);
    UNPADDED(Counts, dropped, 24);
}

/* Appended to the structs of the proposal by version 0.1. */
static void check_appended_members(void)
{
    MEMBER(Registry, registerActivityTypes, 24, 8);
    MEMBER(Registry, pHostVersion, 32, 8);
    MEMBER(ProfilerInterface, profilerToggleCollection, 88, 8);
    MEMBER(ProfilerInterface, profilerErrorText, 96, 8);
    MEMBER(ProfilerCreate_Params, pCustomConfig, 32, 8);
    MEMBER(ProfilerQuery_Params, pVendorName, 48, 8);
    MEMBER(ProfilerQuery_Params, vendorNameMaxLen, 56, 8);
    MEMBER(TraceBuilder, setLastEventIds, 120, 8);
    MEMBER(TraceBuilder, addLastEventValues, 128, 8);
    MEMBER(TraceBuilder, registerCounters, 136, 8);
    MEMBER(TraceBuilder, addCounterSamples, 144, 8);
    MEMBER(TraceBuilder, registerMetadataSet, 152, 8);
    MEMBER(TraceBuilder, addLedgerLine, 160, 8);
}

/* Structs of our own of version 0.1. */
static void check_appended_structs(void)
{
    MEMBER(ProfilerToggleCollection_Params, pProfilerHandle, 8, 8);
    MEMBER(ProfilerToggleCollection_Params, enable, 16, 4);
    UNPADDED(ProfilerToggleCollection_Params, enable, 20);
    MEMBER(ProfilerErrorText_Params, pProfilerHandle, 8, 8);
    MEMBER(ProfilerErrorText_Params, pText, 16, 8);
    MEMBER(ProfilerErrorText_Params, textMaxLen, 24, 8);
    UNPADDED(ProfilerErrorText_Params, textMaxLen, 32);
    MEMBER(RegisterActivityTypes_Params, pTypes, 8, 8);
    MEMBER(RegisterActivityTypes_Params, count, 16, 8);
    MEMBER(RegisterActivityTypes_Params, firstEventType, 24, 4);
    UNPADDED(RegisterActivityTypes_Params, firstEventType, 28);
    MEMBER(CounterSet, pName, 8, 8);
    MEMBER(CounterSet, eventType, 16, 4);
    MEMBER(CounterSet, deviceId, 20, 4);
    MEMBER(CounterSet, valueType, 24, 4);
    MEMBER(CounterSet, seriesCount, 28, 4);
    MEMBER(CounterSet, pSeriesNames, 32, 8);
    MEMBER(CounterSet, pUnits, 40, 8);
    UNPADDED(CounterSet, pUnits, 48);
    MEMBER(CounterSamples, set, 8, 4);
    MEMBER(CounterSamples, clock, 12, 4);
    MEMBER(CounterSamples, count, 16, 8);
    MEMBER(CounterSamples, pTimes, 24, 8);
    MEMBER(CounterSamples, pValues, 32, 8);
    UNPADDED(CounterSamples, pValues, 40);
}

/* Elements of arrays: what follows them must not move. */
static void check_elements(void)
{
    expect("bytes of Metadata", sizeof(KinetoPlugin_Metadata), 24);
    expect("bytes of ActivityTypeInfo", sizeof(KinetoPlugin_ActivityTypeInfo), 16);
    MEMBER(ActivityTypeInfo, pName, 0, 8);
    MEMBER(ActivityTypeInfo, likeEventType, 8, 4);
    MEMBER(ActivityTypeInfo, enabledByDefault, 12, 4);
}

#define VALUE(name, number)                                                                        \
    expect("value type " #name, (size_t)KINETO_PLUGIN_VALUE_##name, (number))
#define CLOCK(name, number) expect("clock " #name, (size_t)KINETO_PLUGIN_CLOCK_##name, (number))

static void check_appended_numbers(void)
{
    VALUE(INT, 1);
    VALUE(UINT, 2);
    VALUE(DOUBLE, 3);
    VALUE(BOOL, 4);
    VALUE(STRING, 5);
    VALUE(INTS, 6);
    VALUE(STRINGS, 7);
    VALUE(JSON, 8);
    CLOCK(UTC, 0);
    CLOCK(MONOTONIC, 1);
    CLOCK(MONOTONIC_RAW, 2);
    CLOCK(BOOTTIME, 3);
    CLOCK(TICKS, 4);
    CLOCK(DEVICE, 5);
    EVENT(RUNTIME, 8);
    EVENT(DRIVER, 9);
    EVENT(OWN_FIRST, 1024);
    expect("most series", KINETO_PLUGIN_MAX_SERIES, 64);
}

int main(void)
{
    check_registry();
    check_interface();
    check_life();
    check_correlation();
    check_builder();
    check_events();
    check_event_types();
    check_appended();
    check_appended_members();
    check_appended_structs();
    check_elements();
    check_appended_numbers();
    return faults != 0;
}

#else

int main(void)
{
    puts("the layout is published for 64-bit machines only");
    return 77;
}

#endif
