/* Probes: one question each about this machine, answered with a reason. */
#ifndef KC_PROBES_H
#define KC_PROBES_H

#include "base/base.h"

typedef enum kc_verdict { KC_OK, KC_ABSENT, KC_BROKEN, KC_NOTE } kc_verdict;

typedef struct kc_finding {
    kc_verdict verdict;
    char text[500];
} kc_finding;

typedef struct kc_probe {
    const char *name;
    void (*ask)(kc_finding *f);
    bool needed;   /* recording does not work without */
    bool in_child; /* runs code of others, which may crash or hang: that is an answer, too */
} kc_probe;

extern const kc_probe kc_probes[];
extern const size_t kc_probe_count;
void kc_find(kc_finding *f, kc_verdict verdict, const char *fmt, ...) KINETO_PRINTF(3, 4);
#endif
