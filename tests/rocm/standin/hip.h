/* The calls of the fake HIP, RCCL and ROCTX that the client makes. Their parameters are those of the
 * stand-in, not of AMD. */
#ifndef ROCM_STANDIN_HIP_H
#define ROCM_STANDIN_HIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HIP_API __attribute__((visibility("default")))
HIP_API int hipLaunchKernel(int kernel, unsigned grid, unsigned block, uintptr_t stream);
HIP_API int hipMemcpyAsync(int direction, unsigned long bytes);
HIP_API int hipMalloc(void **out, size_t bytes);
HIP_API int hipFree(void *memory);
HIP_API int hipGraphLaunch(unsigned graph, unsigned kernels);
HIP_API int hipGetDevice(int *out);
HIP_API int hipSetDevice(int device);
HIP_API int hipStreamQuery(void *stream);
HIP_API int hipDeviceSynchronize(void);
HIP_API int ncclAllReduce(void);
HIP_API void roctxMarkA(const char *text);
HIP_API int roctxRangePushA(const char *text);
HIP_API int roctxRangePop(void);
HIP_API uint64_t roctxRangeStartA(const char *text);
HIP_API void roctxRangeStop(uint64_t id);

#endif
