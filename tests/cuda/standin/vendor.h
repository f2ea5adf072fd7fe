/* NVIDIA's headers where the build has some, else our own words for what the stand-in uses of them:
 * the functions are the same to the linker, and with real headers the compiler compares them. */
#ifndef SI_VENDOR_H
#define SI_VENDOR_H

#ifdef SI_REAL_HEADERS
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cupti.h>
#else
#include <stddef.h>
#include <stdint.h>

/* ---- the driver ---- */
typedef int CUresult, CUdevice, CUdevice_attribute, CUstreamCaptureMode;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUuuid_st {
    char bytes[16];
} CUuuid;

/* ---- the runtime ---- */
typedef int cudaError_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
typedef struct CUgraph_st *cudaGraph_t;
typedef struct CUgraphExec_st *cudaGraphExec_t;
enum cudaMemcpyKind { cudaMemcpyHostToHost };
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };
typedef struct dim3 {
    unsigned x, y, z;
} dim3;

/* ---- CUPTI ---- */
typedef int32_t CUptiResult;
typedef uint32_t CUpti_ActivityKind, CUpti_ActivityAttribute, CUpti_ActivityThreadIdType,
    CUpti_ExternalCorrelationKind, CUpti_CallbackDomain, CUpti_CallbackId;
typedef struct CUpti_Activity {
    uint32_t kind;
} CUpti_Activity;
typedef struct CUpti_Subscriber_st *CUpti_SubscriberHandle;
typedef void (*CUpti_BuffersCallbackRequestFunc)(uint8_t **, size_t *, size_t *);
typedef void (*CUpti_BuffersCallbackCompleteFunc)(CUcontext, uint32_t, uint8_t *, size_t, size_t);
typedef uint64_t (*CUpti_TimestampCallbackFunc)(void);
typedef void (*CUpti_CallbackFunc)(void *, CUpti_CallbackDomain, CUpti_CallbackId, const void *);
#endif

#endif
