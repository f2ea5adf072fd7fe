/* Probes of `ckineto doctor`: each tests one property of this machine and gives a verdict with a
 * reason. */
#ifndef KC_PROBES_H
#define KC_PROBES_H

#include "base/base.h"

typedef enum kc_probe_verdict {
    KC_PROBE_OK,
    KC_PROBE_ABSENT,
    KC_PROBE_BROKEN,
    KC_PROBE_NOTE
} kc_probe_verdict;

typedef struct kc_probe_result {
    kc_probe_verdict verdict;
    char text[500];
} kc_probe_result;

typedef struct kc_probe {
    const char *name;
    void (*run)(kc_probe_result *f);
    /* recording does not work without it */
    bool needed;
    /* runs foreign code, which may crash or hang: that is a verdict, too */
    bool in_child;
} kc_probe;

extern const kc_probe kc_probes[];
extern const size_t kc_probe_count;
/** The probe of Vulkan (doctor_vulkan.c). */
void kc_probe_vulkan(kc_probe_result *f);
/** Set the verdict and its text. */
void kc_probe_answer(kc_probe_result *f, kc_probe_verdict verdict, const char *fmt, ...)
    KINETO_PRINTF(3, 4);
#endif
