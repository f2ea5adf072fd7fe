/** @file
 *  The accelerator plug-in interface, between a source of device activities and its host.
 *
 *  Binary compatible with the C interface that was proposed for Kineto (its last revision), grown
 *  by appended members only. The rule of growth: every struct begins with `unpaddedStructSize`, the
 *  offset of its last member plus the size of that member, as the side that fills the struct knows it. Members are
 *  never removed, reordered or resized. A reader checks the size before it accesses an appended member
 *  (KINETO_PLUGIN_HAS).
 *
 *  Life of a profiler: register → query (handle NULL) for name and kinds → per session, if any
 *  enabled kind is supported: create → start → (push/pop correlation ids) → stop → processEvents →
 *  destroy. All functions return 0 on success. The host copies all arguments before a call returns. No allocated
 *  memory crosses the boundary. After a failed create no function is called, after a failed start only destroy; after a
 *  failed stop processEvents and destroy are called as usual.
 *
 *  Appended members are marked. Each is optional in both directions: a plug-in checks the size before it uses a member
 *  that a host may not have, the host checks the size that a plug-in filled.
 *
 *  For a profiler that delivers through `pLiveBuilder->emit`, processEvents may be called several times in a session,
 *  also before stop: it delivers the events that are complete.
 *
 *  Threads: create, start, stop, processEvents and destroy of one session are called one after the
 *  other, on any thread. push/pop are called on the thread they concern, between start and stop; a
 *  pop is only called for a push that this session has seen. `pLiveBuilder->emit` may be called on any
 *  thread between start's entry and stop's return. No function of the host may be called from a
 *  signal handler.
 */
#ifndef CKINETO_PLUGIN_H
#define CKINETO_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Size of a struct up to and including `member`. */
#define KINETO_PLUGIN_SIZE(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))

/** Does the struct at `p` (filled by the other side) have `member`? */
#define KINETO_PLUGIN_HAS(p, type, member)                                                         \
    ((p)->unpaddedStructSize >= KINETO_PLUGIN_SIZE(type, member))

/** Activity types, in the numbering of the proposal's last revision, which ends at 24. */
typedef enum KinetoPlugin_ProfileEventType {
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_INVALID = 0,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CPU_OP = 1,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_USER_ANNOTATION = 2,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_USER_ANNOTATION = 3,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY = 4,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET = 5,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL = 6,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_EXTERNAL_CORRELATION = 7,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_RUNTIME = 8,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_RUNTIME = 8, /**< neutral name of the same number */
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_DRIVER = 9,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_DRIVER = 9, /**< neutral name of the same number */
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CPU_INSTANT_EVENT = 10,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_PYTHON_FUNCTION = 11,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_OVERHEAD = 12,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_MTIA_RUNTIME = 13,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_MTIA_CCP_EVENTS = 14,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_MTIA_INSIGHT = 15,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC = 16,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GLOW_RUNTIME = 17,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_PROFILER_RANGE = 18,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_HPU_OP = 19,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_XPU_RUNTIME = 20,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM = 21,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER = 22,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_RUNTIME = 23,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_PRIVATEUSE1_DRIVER = 24,
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_EVENT = 25, /**< appended by ckineto */
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT = 26,
    /** Kinds of plug-ins' own start here: see registerActivityTypes. */
    KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST = 1024
} KinetoPlugin_ProfileEventType;

typedef enum KinetoPlugin_ProfileEventFlowType {
    KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_INVALID = 0,
    KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_FWD_BWD = 1,
    KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_ASYNC_CPU_GPU = 2,
    KINETO_PLUGIN_PROFILE_EVENT_FLOW_TYPE_COUNT = 3
} KinetoPlugin_ProfileEventFlowType;

/** Opaque objects: ProfilerHandle belongs to the plug-in, the others to the host. */
typedef struct KinetoPlugin_ProfilerHandle KinetoPlugin_ProfilerHandle;
typedef struct KinetoPlugin_TraceBuilderHandle KinetoPlugin_TraceBuilderHandle;
typedef struct KinetoPlugin_RegistryHandle KinetoPlugin_RegistryHandle;

/** One event. Times are nanoseconds since the Unix epoch. */
typedef struct KinetoPlugin_ProfileEvent {
    size_t unpaddedStructSize;
    int32_t eventType; /**< KinetoPlugin_ProfileEventType */
    int64_t startTimeUtcNs;
    int64_t endTimeUtcNs;
    int64_t eventId; /**< joins this event with its launch; 0 if none */
    union {
        int32_t deviceId;  /**< device activities */
        int32_t processId; /**< host activities */
    };
    union {
        int32_t resourceId; /**< device activities: stream or queue */
        int32_t threadId;   /**< host activities */
    };
} KinetoPlugin_ProfileEvent;

typedef struct KinetoPlugin_ProfileEventFlow {
    size_t unpaddedStructSize;
    int32_t flowType; /**< KinetoPlugin_ProfileEventFlowType */
    uint32_t flowId;
    bool isStartPoint;
} KinetoPlugin_ProfileEventFlow;

/** A device as a row group of the trace. Strings are copied. */
typedef struct KinetoPlugin_ProfileDeviceInfo {
    size_t unpaddedStructSize;
    int64_t deviceId;
    int64_t sortIndex;
    const char *pName;
    const char *pLabel;
} KinetoPlugin_ProfileDeviceInfo;

/** A stream, queue or thread as a row of the trace. The name is copied. */
typedef struct KinetoPlugin_ProfileResourceInfo {
    size_t unpaddedStructSize;
    union {
        int32_t deviceId;
        int32_t processId;
    };
    union {
        int32_t resourceId;
        int32_t threadId;
    };
    int32_t displayOrder;
    const char *pName;
} KinetoPlugin_ProfileResourceInfo;

/* ---- appended by ckineto ------------------------------------------------------------------- */

/** Type of a typed metadata value; the numbers of kineto_arg_type. */
typedef enum KinetoPlugin_ValueType {
    KINETO_PLUGIN_VALUE_INT = 1,     /**< i */
    KINETO_PLUGIN_VALUE_UINT = 2,    /**< u */
    KINETO_PLUGIN_VALUE_DOUBLE = 3,  /**< d */
    KINETO_PLUGIN_VALUE_BOOL = 4,    /**< u */
    KINETO_PLUGIN_VALUE_STRING = 5,  /**< pointer: bytes, count: their number */
    KINETO_PLUGIN_VALUE_INTS = 6,    /**< pointer: const int64_t[count] */
    KINETO_PLUGIN_VALUE_STRINGS = 7, /**< pointer: const char *const[count], NUL-terminated each */
    KINETO_PLUGIN_VALUE_JSON = 8     /**< pointer: one JSON value, count: its bytes */
} KinetoPlugin_ValueType;

/** One key and typed value. Array element: never grows. */
typedef struct KinetoPlugin_Metadata {
    const char *pKey; /**< NUL-terminated; keys should be few and repeat */
    int32_t valueType; /**< KinetoPlugin_ValueType */
    uint32_t count;
    union {
        int64_t i;
        uint64_t u;
        double d;
        const void *pointer;
    };
} KinetoPlugin_Metadata;

/** Clocks that the host knows. Numbers from KINETO_PLUGIN_CLOCK_DEVICE on are handed out by
 *  registerClock. */
typedef enum KinetoPlugin_Clock {
    KINETO_PLUGIN_CLOCK_UTC = 0,           /**< ns since the Unix epoch */
    KINETO_PLUGIN_CLOCK_MONOTONIC = 1,     /**< CLOCK_MONOTONIC ns */
    KINETO_PLUGIN_CLOCK_MONOTONIC_RAW = 2, /**< CLOCK_MONOTONIC_RAW ns */
    KINETO_PLUGIN_CLOCK_BOOTTIME = 3,      /**< CLOCK_BOOTTIME ns */
    KINETO_PLUGIN_CLOCK_TICKS = 4,         /**< the host's recording clock (hostTicks) */
    KINETO_PLUGIN_CLOCK_DEVICE = 5         /**< first device clock; at most 15 is handed out */
} KinetoPlugin_Clock;

/** A whole event in one call, for incremental delivery. `event` times are in `clock`. */
typedef struct KinetoPlugin_Activity {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfileEvent event;
    int32_t clock;           /**< KinetoPlugin_Clock */
    uint32_t nameSize;       /**< bytes in pName */
    const char *pName;       /**< any bytes */
    uint64_t externalId;     /**< operator this belongs to; 0 if none */
    int32_t flowType;        /**< KinetoPlugin_ProfileEventFlowType; INVALID (0) for none */
    uint32_t flowId;
    uint32_t flowIsStart;    /**< 0 or 1 */
    uint32_t metadataCount;
    const KinetoPlugin_Metadata *pMetadata;
    /** From registerMetadataSet; 0: none. Its values come first; an event with a number that was
     *  not given out is refused. */
    uint32_t metadataSet;
} KinetoPlugin_Activity;

/** Counts of seen and lost events, for the ledger of the trace. They are added to those of the session. */
typedef struct KinetoPlugin_Counts {
    size_t unpaddedStructSize;
    uint64_t requested; /**< events that the program caused, delivered or not */
    uint64_t dropped;   /**< of these, known to be lost */
} KinetoPlugin_Counts;

/** Counters that are sampled together: the series of one row. */
typedef struct KinetoPlugin_CounterSet {
    size_t unpaddedStructSize;
    const char *pName;   /**< of the row: "memory" */
    int32_t eventType;   /**< GPU_PM_COUNTER, or a kind of the plug-in's own that is like it */
    int32_t deviceId;
    int32_t valueType;   /**< of all values: KINETO_PLUGIN_VALUE_INT, _UINT or _DOUBLE */
    uint32_t seriesCount; /**< 1 to KINETO_PLUGIN_MAX_SERIES */
    const char *const *pSeriesNames;
    const char *const *pUnits; /**< NULL, or one per series, NULL for none: "W", "bytes", "%" */
} KinetoPlugin_CounterSet;
#define KINETO_PLUGIN_MAX_SERIES 64

/** Samples of one set, in any number: a sampler hands over what it has gathered. */
typedef struct KinetoPlugin_CounterSamples {
    size_t unpaddedStructSize;
    int32_t set;   /**< from registerCounters */
    int32_t clock; /**< KinetoPlugin_Clock of pTimes */
    size_t count;
    const int64_t *pTimes; /**< [count] */
    /** int64_t, uint64_t or double [count * seriesCount]: all series of the first time, of the second … */
    const void *pValues;
} KinetoPlugin_CounterSamples;

/** A kind of a plug-in's own. Array element: never grows. */
typedef struct KinetoPlugin_ActivityTypeInfo {
    /** Its category in the trace, and what lists of kinds call it: 1 to 39 of a-z, 0-9 and _ */
    const char *pName;
    /** The type to use in tools that do not know this one: a KinetoPlugin_ProfileEventType < COUNT */
    int32_t likeEventType;
    int32_t enabledByDefault; /**< recorded when the user did not choose: 0 or 1 */
} KinetoPlugin_ActivityTypeInfo;

/** [in] kinds to announce, [out] the number of the first; the others follow. */
typedef struct KinetoPlugin_RegisterActivityTypes_Params {
    size_t unpaddedStructSize;
    const KinetoPlugin_ActivityTypeInfo *pTypes;
    size_t count;
    int32_t firstEventType; /**< [out] >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST */
} KinetoPlugin_RegisterActivityTypes_Params;

/* -------------------------------------------------------------------------------------------- */

/** Functions of the host through which a plug-in delivers. The setLast… and addLast… functions
 *  are about the event added last through the same builder on the same thread. */
typedef struct KinetoPlugin_TraceBuilder {
    size_t unpaddedStructSize;
    KinetoPlugin_TraceBuilderHandle *pTraceBuilderHandle;
    int (*addEvent)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_ProfileEvent *);
    int (*setLastEventName)(KinetoPlugin_TraceBuilderHandle *, const char *pName);
    int (*setLastEventFlow)(KinetoPlugin_TraceBuilderHandle *,
                            const KinetoPlugin_ProfileEventFlow *);
    /** pValue is JSON text; what is not valid JSON is quoted, escaped and counted. */
    int (*addLastEventMetadata)(KinetoPlugin_TraceBuilderHandle *, const char *pKey,
                                const char *pValue);
    int (*addDeviceInfo)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_ProfileDeviceInfo *);
    int (*addResourceInfo)(KinetoPlugin_TraceBuilderHandle *,
                           const KinetoPlugin_ProfileResourceInfo *);
    /* appended by ckineto */
    /** Deliver one whole event. Any thread, not in a signal handler; does not block. */
    int (*emit)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_Activity *);
    /** Properties of a device for the header of the trace, typed. "id" is added by the host. */
    int (*addDeviceProperties)(KinetoPlugin_TraceBuilderHandle *, int64_t deviceId,
                               const KinetoPlugin_Metadata *, size_t count);
    /** Announce a device clock; *pClock receives its number. The same name gives the same number
     *  again, also in later sessions: it is one clock, which may not be set back. */
    int (*registerClock)(KinetoPlugin_TraceBuilderHandle *, const char *pName, int32_t *pClock);
    /** State that device time `deviceTime` of `clock` fell between the two host readings. */
    int (*addClockSample)(KinetoPlugin_TraceBuilderHandle *, int32_t clock, int64_t deviceTime,
                          uint64_t hostTicksBefore, uint64_t hostTicksAfter);
    /** Read the host's recording clock. Any thread, at any time, also when the session has ended (a
     *  driver may keep it as its clock): the handle is ignored and may be NULL. */
    uint64_t (*hostTicks)(KinetoPlugin_TraceBuilderHandle *);
    /** Add to the ledger's counts of this plug-in. Any thread. */
    int (*addCounts)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_Counts *);
    /** Key and JSON value for the header of this trace, and of all later ones of the process until the key is set
     *  again: a value of one session only must be set in each session. */
    int (*addHeaderMetadata)(KinetoPlugin_TraceBuilderHandle *, const char *pKey,
                             const char *pJsonValue);
    /** The launch that the event belongs to, and the operator; 0: none. */
    int (*setLastEventIds)(KinetoPlugin_TraceBuilderHandle *, uint64_t correlationId,
                           uint64_t externalId);
    /** Typed metadata, without JSON text. */
    int (*addLastEventValues)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_Metadata *,
                              size_t count);
    /** Announce counters; *pSet receives the number to give with samples. The same name, device and
     *  series give the same number again, also in later sessions. Samples of a kind that is not
     *  enabled are dropped and counted. */
    int (*registerCounters)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_CounterSet *,
                            int32_t *pSet);
    /** Deliver samples. Any thread, not in a signal handler; does not block. */
    int (*addCounterSamples)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_CounterSamples *);
    /** Values that many events share, stored once: *pSet receives a number > 0 to give with them
     *  (KinetoPlugin_Activity.metadataSet). The same values give the same number again; numbers hold
     *  for this session. Non-zero: the table is full; pass the values with each event instead. */
    int (*registerMetadataSet)(KinetoPlugin_TraceBuilderHandle *, const KinetoPlugin_Metadata *,
                               size_t count, uint32_t *pSet);
    /** A line of the trace's ledger: what happened, how often, and whether events are lost by it.
     *  @param pReason  in few words, the same ones each time: lines with equal ones are summed.
     *  @param pDetail  a sentence for the user, or NULL. */
    int (*addLedgerLine)(KinetoPlugin_TraceBuilderHandle *, const char *pReason, uint64_t count,
                         int32_t isLoss, const char *pDetail);
} KinetoPlugin_TraceBuilder;

typedef struct KinetoPlugin_ProfilerCreate_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle; /**< [out] */
    const int32_t *pEnabledActivityTypes; /**< [in] KinetoPlugin_ProfileEventType */
    size_t enabledActivityTypesMaxLen;
    /* appended by ckineto */
    const char *pCustomConfig; /**< [in] text that the user gave for plug-ins; "" if none */
} KinetoPlugin_ProfilerCreate_Params;

typedef struct KinetoPlugin_ProfilerDestroy_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerDestroy_Params;

typedef struct KinetoPlugin_ProfilerQuery_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle; /**< NULL: before create */
    char *pProfilerName;          /**< [in/out] buffer */
    size_t profilerNameMaxLen;    /**< without the terminating NUL */
    int32_t *pSupportedActivityTypes; /**< [in/out] filled with INVALID by the host */
    size_t supportedActivityTypesMaxLen;
    /* appended by ckineto */
    /** [in/out] buffer for the vendor's short name in lower case ("xpu", "spyre"). Calls of the
     *  kinds RUNTIME and DRIVER get its spelling in the trace where tools know one
     *  ("xpu_runtime"), else plain "runtime". A plug-in that names none is taken for one of the
     *  proposal's time: RUNTIME, its CUDA_RUNTIME, is written "cuda_runtime". */
    char *pVendorName;
    size_t vendorNameMaxLen; /**< without the terminating NUL */
} KinetoPlugin_ProfilerQuery_Params;

typedef struct KinetoPlugin_ProfilerStart_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
    /* appended by ckineto; the first two serve plug-ins built for a short-lived revision */
    size_t reservedZero;
    KinetoPlugin_ProfilerHandle *pProfilerHandleAgain;
    /** Usable from now until stop returns, on any thread. */
    const KinetoPlugin_TraceBuilder *pLiveBuilder;
} KinetoPlugin_ProfilerStart_Params;

typedef struct KinetoPlugin_ProfilerStop_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerStop_Params;

typedef struct KinetoPlugin_ProfilerPushCorrelationId_Params {
    size_t unpaddedStructSize;
    uint64_t correlationId;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerPushCorrelationId_Params;

typedef struct KinetoPlugin_ProfilerPopCorrelationId_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerPopCorrelationId_Params;

typedef struct KinetoPlugin_ProfilerPushUserCorrelationId_Params {
    size_t unpaddedStructSize;
    uint64_t userCorrelationId;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerPushUserCorrelationId_Params;

typedef struct KinetoPlugin_ProfilerPopUserCorrelationId_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
} KinetoPlugin_ProfilerPopUserCorrelationId_Params;

typedef struct KinetoPlugin_ProfilerProcessEvents_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
    const KinetoPlugin_TraceBuilder *pTraceBuilder;
} KinetoPlugin_ProfilerProcessEvents_Params;

/** Recording pauses (0) or goes on (1), and the profiler with its buffers stays. A profiler without
 *  this function is stopped and destroyed instead, and created again. */
typedef struct KinetoPlugin_ProfilerToggleCollection_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
    int32_t enable;
} KinetoPlugin_ProfilerToggleCollection_Params;

/** Why the last call that failed did, as a sentence for the user. The handle is NULL after a query or
 *  create that failed. */
typedef struct KinetoPlugin_ProfilerErrorText_Params {
    size_t unpaddedStructSize;
    KinetoPlugin_ProfilerHandle *pProfilerHandle;
    char *pText;       /**< [in/out] buffer */
    size_t textMaxLen; /**< without the terminating NUL */
} KinetoPlugin_ProfilerErrorText_Params;

/** Functions of a plug-in. The four push/pop may be NULL. */
typedef struct KinetoPlugin_ProfilerInterface {
    size_t unpaddedStructSize;
    int (*profilerCreate)(KinetoPlugin_ProfilerCreate_Params *);
    int (*profilerDestroy)(KinetoPlugin_ProfilerDestroy_Params *);
    int (*profilerQuery)(KinetoPlugin_ProfilerQuery_Params *);
    int (*profilerStart)(KinetoPlugin_ProfilerStart_Params *);
    int (*profilerStop)(KinetoPlugin_ProfilerStop_Params *);
    int (*profilerPushCorrelationId)(KinetoPlugin_ProfilerPushCorrelationId_Params *);
    int (*profilerPopCorrelationId)(KinetoPlugin_ProfilerPopCorrelationId_Params *);
    int (*profilerPushUserCorrelationId)(KinetoPlugin_ProfilerPushUserCorrelationId_Params *);
    int (*profilerPopUserCorrelationId)(KinetoPlugin_ProfilerPopUserCorrelationId_Params *);
    int (*profilerProcessEvents)(KinetoPlugin_ProfilerProcessEvents_Params *);
    /* appended by ckineto; may be NULL */
    int (*profilerToggleCollection)(KinetoPlugin_ProfilerToggleCollection_Params *);
    int (*profilerErrorText)(KinetoPlugin_ProfilerErrorText_Params *);
} KinetoPlugin_ProfilerInterface;

typedef struct KinetoPlugin_Registry {
    size_t unpaddedStructSize;
    KinetoPlugin_RegistryHandle *pRegistryHandle;
    /** The interface must stay valid until the profiler is withdrawn. */
    int (*registerProfiler)(KinetoPlugin_RegistryHandle *, const KinetoPlugin_ProfilerInterface *);
    /* appended by ckineto */
    /** Announce kinds of the plug-in's own; call before registerProfiler, and name them among the
     *  supported kinds in query. A name that is there already gets its old number. */
    int (*registerActivityTypes)(KinetoPlugin_RegistryHandle *,
                                 KinetoPlugin_RegisterActivityTypes_Params *);
    const char *pHostVersion; /**< "ckineto 0.1.0" */
} KinetoPlugin_Registry;

/** The function that a plug-in library exports; called once per load. Non-zero: refused, library closed. */
typedef int (*KinetoPlugin_registerFn)(const KinetoPlugin_Registry *);

/** Optional second export, for `ckineto plugin check`: make the device do about `count` small pieces of
 *  work of all kinds that it supports, and wait for them. 0 on success. */
typedef int (*KinetoPlugin_exerciseFn)(uint32_t count);

#define KINETO_PLUGIN_REGISTER_SYMBOL "KinetoPlugin_register"
#define KINETO_PLUGIN_EXERCISE_SYMBOL "KinetoPlugin_exercise"

/** The host's registry, for a plug-in that is part of the program or was loaded by someone else:
 *  call its register function with this. Static storage; works before and during sessions (a
 *  profiler registered while a session runs is created and started at once). threads: any. */
__attribute__((visibility("default"))) const KinetoPlugin_Registry *kineto_plugin_registry(void);

/** Withdraw a profiler: ends its session, if any. 0, or non-zero if it was not registered.
 *  threads: any. */
__attribute__((visibility("default"))) int
kineto_plugin_unregister(const KinetoPlugin_ProfilerInterface *profiler);

#ifdef __cplusplus
}
#endif

#if defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define KINETO_PLUGIN_ASSERT(cond, text) _Static_assert(cond, text)
#elif defined(__cplusplus)
#define KINETO_PLUGIN_ASSERT(cond, text) static_assert(cond, text)
#else
#define KINETO_PLUGIN_ASSERT(cond, text)
#endif
#if UINTPTR_MAX == UINT64_MAX
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_Registry, registerProfiler) == 24, "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerInterface, profilerProcessEvents) == 88,
                     "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addResourceInfo) == 64, "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEvent, resourceId) == 48, "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileEventFlow, isStartPoint) == 17, "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileDeviceInfo, pLabel) == 40, "layout");
KINETO_PLUGIN_ASSERT(KINETO_PLUGIN_SIZE(KinetoPlugin_ProfileResourceInfo, pName) == 32, "layout");
#endif
#endif
