/* A stand-in for libnvidia-ml.so.1 with a few GPUs, whose values and failures a test sets. */
#ifndef TESTS_CUDA_FAKE_NVML_H
#define TESTS_CUDA_FAKE_NVML_H

#include "nvml_api.h"

#include <stdatomic.h>

enum { FAKE_GPUS = 3 };

/* One number per function of the table. */
enum {
#define CP_X(member, symbol, parameters, needed) FAKE_NVML_##member,
    CP_NVML_MAP(CP_X)
#undef CP_X
        FAKE_NVML_CALLS
};

typedef struct fake_nvml {
    atomic_int gpus;                        /* of the machine */
    atomic_int fails[FAKE_NVML_CALLS];      /* what each call gives; 0: it works */
    atomic_int fails_from[FAKE_NVML_CALLS]; /* only from this call on */
    atomic_int calls[FAKE_NVML_CALLS];
    atomic_int users;    /* inits without shutdown */
    atomic_int delay_us; /* that reading power takes */
} fake_nvml;
/* Exported by the library under this name. */
#define FAKE_NVML_SYMBOL "fake_nvml_control"

/* GPU i: "GPU-0000000i-1111-2222-3333-444444444444"; its instance the same with a 9 at its end. */
#define FAKE_UUID_FORMAT     "GPU-%08x-1111-2222-3333-444444444444"
#define FAKE_INSTANCE_FORMAT "MIG-%08x-1111-2222-3333-444444444449"
/* For programs that set nothing: an environment variable with the UUID of the only GPU. */
#define FAKE_NVML_FIRST_UUID "FAKE_NVML_FIRST_UUID"

#endif
