/* A stand-in for CUPTI's PM sampling: a hardware buffer that a test fills with samples, and calls
 * that fail when a test wants. */
#ifndef TESTS_CUDA_FAKE_PM_H
#define TESTS_CUDA_FAKE_PM_H

#include "pm_api.h"

#include <stdatomic.h>

enum {
#define CP_X(member, symbol, type, last, needed) FAKE_PM_##member,
    CP_PM_MAP(CP_X)
#undef CP_X
        FAKE_PM_CALLS
};

typedef struct fake_pm {
    atomic_int fails[FAKE_PM_CALLS]; /* what each call gives; 0: it works */
    atomic_int calls[FAKE_PM_CALLS];
    atomic_int wrong;       /* calls with a struct of the wrong size, or out of order */
    atomic_int passes;      /* that all metrics need; 0: one */
    atomic_llong available; /* samples in the hardware buffer */
    atomic_int endless;     /* the buffer never becomes empty */
    atomic_int overflow;    /* what decode says of it */
    atomic_llong first_ns;  /* start of sample 0 */
    atomic_llong step_ns;   /* length of each */
    atomic_ullong interval; /* as configured last */
    atomic_int trigger, append, device;
    atomic_int hosts, samplers, running; /* not yet ended */
} fake_pm;
#define FAKE_PM_SYMBOL "fake_pm_control"

/* A metric that begins with this is not known. Metric m of sample i has the value 100 i + m. */
#define FAKE_PM_UNKNOWN "no__"

#endif
