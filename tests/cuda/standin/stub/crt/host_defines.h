/* CUDA's headers want this one of the compiler's package, which the tests do without: for a plain C
 * compiler it has nothing to say but these. */
#ifndef SI_HOST_DEFINES_H
#define SI_HOST_DEFINES_H
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define __host__
#define __device__
#define __global__
#define __shared__
#define __constant__
#define __managed__
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __align__(n)         __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __specialization_static
#define __CUDA_ARCH_HAS_FEATURE__(feature) 0
#endif
