/* Meanings of names that frameworks and vendors give their activities. */
#ifndef KA_KNOWN_NAMES_H
#define KA_KNOWN_NAMES_H

#include "base/base.h"

#include <ckineto/trace.h>

struct ka_dataset;

/** A wait for the next batch: "enumerate(DataLoader)#….__next__". */
bool ka_is_dataloader(kineto_string name);
/** Operators that multiply matrices, convolve, attend or are recurrent, whatever their library. */
bool ka_is_eligible(kineto_string op);
/** Can the call not have waited for what it launched? True of copies and memsets whose call is Async,
 *  unless they move pageable memory: copies within a device or between devices, and from and to pinned
 *  memory, as far as their names show. */
bool ka_cannot_block(const struct ka_dataset *s, uint32_t slice);
#endif
