/* Differences between minor versions of PyTorch, as their headers have them; no other file of the
 * bridge depends on the version. CKINETO_TORCH_MINOR is set by the build
 * (python/ckineto_attach/build.py): 200 + N for 2.N, 113 for 1.13. A bridge is loaded into the
 * minor it was built for only. */
#ifndef CKINETO_TORCH_FACTS_H
#define CKINETO_TORCH_FACTS_H

#ifndef CKINETO_TORCH_MINOR
#error "CKINETO_TORCH_MINOR is not set: build with python/ckineto_attach/build.py"
#endif
#ifndef NDEBUG
#error "NDEBUG is not set: RecordFunction would have another layout than in PyTorch's libraries"
#endif

/* libkineto's headers are installed, and its symbols are in libtorch_cpu.so. Some distributions
 * build PyTorch without libkineto. */
#ifndef CKINETO_TORCH_HAS_KINETO
#define CKINETO_TORCH_HAS_KINETO 1
#endif

/* ---- libkineto ---- */
/* registerLoggerFactory: output protocols of other libraries; finalizeTrace without a map of
 * metadata. */
#define CKT_HAS_LOGGER_FACTORY (CKINETO_TORCH_MINOR >= 214)
/* ActivityProfilerInterface::isStopped. */
#define CKT_HAS_IS_STOPPED (CKINETO_TORCH_MINOR >= 213)
/* IActivityProfilerSession: getDeviceProperties, getMetadata, toggleCollectionDynamic. */
#define CKT_HAS_SESSION_PROPERTIES (CKINETO_TORCH_MINOR >= 206)
#define CKT_HAS_SESSION_METADATA (CKINETO_TORCH_MINOR >= 208)
#define CKT_HAS_SESSION_TOGGLE (CKINETO_TORCH_MINOR >= 214)
/* Values of counters are numbers of an activity, and not its metadata. */
#define CKT_HAS_COUNTER_VALUES (CKINETO_TORCH_MINOR >= 212)
/* Activities without an end are written with "finished": false (2.6 does not, 2.8 does). */
#define CKT_MARKS_UNFINISHED (CKINETO_TORCH_MINOR >= 208)
/* Metadata of an activity are variants and may be visited; before, pairs of (text, is quoted). */
#define CKT_HAS_TYPED_METADATA (CKINETO_TORCH_MINOR >= 214)
/* ActivityType::HARDWARE_COUNTERS: until then no type stands for samples of counters. */
#define CKT_HAS_COUNTER_TYPE (CKINETO_TORCH_MINOR >= 215)

/* DeviceInfo, ResourceInfo are aggregates; before, ResourceInfo's constructor took the device
 * first. */
#define CKT_HAS_AGGREGATE_INFO (CKINETO_TORCH_MINOR >= 213)
/* Time of ActivityLogger::handleDeviceInfo. */
#if CKINETO_TORCH_MINOR >= 212
#define CKT_DEVICE_INFO_TIME int64_t
#else
#define CKT_DEVICE_INFO_TIME uint64_t
#endif
/* ActivityLogger: properties of devices in handleTraceStart; finalizeMemoryTrace. */
#define CKT_HAS_START_PROPERTIES (CKINETO_TORCH_MINOR >= 206)
#define CKT_HAS_MEMORY_TRACE (CKINETO_TORCH_MINOR >= 208)
/* systemThreadId and processId take whether a cached number will do. */
#define CKT_HAS_CACHED_IDS (CKINETO_TORCH_MINOR >= 206)

/* ---- RecordFunction, collectives ---- */
#define CKT_HAS_OVERLOAD_NAME (CKINETO_TORCH_MINOR >= 207)
/* at::kParamCommsCallName; ParamCommsDebugInfo with the group's size and ranks, counts of
 * elements. */
#define CKT_HAS_PARAM_COMMS (CKINETO_TORCH_MINOR >= 205)
#define CKT_HAS_GROUP_DESCRIPTION (CKINETO_TORCH_MINOR >= 205)
/* ParamCommsDebugInfo: isAsynchronizedOp, getSequenceNumber, getIsP2P. */
#define CKT_HAS_SEQUENCE_INFO (CKINETO_TORCH_MINOR >= 212)
/* ProfilerStateBase::getTLS in place of get. */
#define CKT_HAS_STATE_TLS (CKINETO_TORCH_MINOR >= 214)
#endif
