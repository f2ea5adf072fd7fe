/* The source "energy" in `ckineto record`: the option --energy (docs/reference/cpu.md). */
#ifndef KC_ENERGY_H
#define KC_ENERGY_H

#include "session/session.h"

typedef struct kc_energy {
    bool is_wanted; /* --energy, or CKINETO_ENERGY=on */
    struct ku_energy *source;
} kc_energy;

/** Where sysfs is. */
const char *kc_energy_sysfs(void);
/** KINETO_E_ARGUMENT: the setting is wrong, which was reported. */
kineto_status kc_energy_parse(kc_energy *e, const char *verb);
/** Read the counters from now on. That they cannot be read goes into the ledger. */
void kc_energy_start(kc_energy *e, ks_collector *c);
/** The program has ended: read them once more. Before the collector finishes. */
void kc_energy_finish(kc_energy *e, ks_collector *c);
#endif
