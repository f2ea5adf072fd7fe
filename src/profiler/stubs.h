/* Internal use of the device functions that programs register with <ckineto/stubs.h>. */
#ifndef KP_STUBS_H
#define KP_STUBS_H

#include "base/base.h"

#include <ckineto/stubs.h>

/** kineto_stubs_slot_get, and the stubs stay registered until kp_stubs_release. KINETO_E_STATE with
 * PyTorch's "CUDA used in profiler but not enabled." if none are registered or if they report that
 * they do not work. */
kineto_status kp_stubs_acquire(kineto_stubs_slot slot, kineto_stubs *out, kineto_error *err);
void kp_stubs_release(kineto_stubs_slot slot);

/** Call the PrivateUse1 observer. KINETO_E_STATE if none is registered. Each successful enable must
 * be followed by one disable. */
kineto_status kp_observer_enable(const struct kineto_profiler_config *config, uint32_t scopes,
                                 kineto_error *err);
kineto_status kp_observer_disable(kineto_error *err);

#endif
