/* The option --waits: the hook for calls in which threads wait (docs/reference/waits.md). */
#ifndef KC_WAITS_H
#define KC_WAITS_H

#include "cli/options.h"
#include "session/collector.h"

typedef struct kc_waits {
    kc_optional_text option;
    uint64_t threshold_us; /* shorter calls are only counted */
} kc_waits;
#define KC_WAITS_DEFAULT_US 20

/** Read the threshold. Complains with the name of the verb. */
kineto_status kc_waits_parse(kc_waits *w, const char *verb);
/** Write the threshold into the header of the trace. */
void kc_waits_note(const kc_waits *w, ks_collector *c);
#endif
