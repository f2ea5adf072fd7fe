/* Who uses the functions of a device: within the library. */
#ifndef KP_STUBS_H
#define KP_STUBS_H

#include "base/base.h"

#include <ckineto/stubs.h>

/** As kineto_stubs_get, and they stay registered until dropped. KINETO_E_STATE with "CUDA used in
 *  profiler but not enabled." if there are none, or if they say that they do not work. */
kineto_status kp_stubs_hold(kineto_stubs_slot slot, kineto_stubs *out, kineto_error *err);
void kp_stubs_drop(kineto_stubs_slot slot);

/** Tell the PrivateUse1 observer. KINETO_E_STATE if there is none. After an enable that succeeded
 *  there must be one disable. */
kineto_status kp_observer_enable(const struct kineto_profiler_config *config, uint32_t scopes,
                                 kineto_error *err);
kineto_status kp_observer_disable(kineto_error *err);

#endif
