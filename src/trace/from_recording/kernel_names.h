/* Names of the running kernel's functions. */
#ifndef KT_KERNEL_NAMES_H
#define KT_KERNEL_NAMES_H

#include "base/base.h"

typedef struct kt_kernel_names kt_kernel_names;
/** From /proc/kallsyms, which is read once in a process, and shows addresses only to users that may know
 *  them. @return NULL: it does not, or out of memory. threads: any. */
const kt_kernel_names *kt_kernel_names_get(void);
/** The function that contains the address; empty: none does. Static storage. threads: any. */
kineto_string kt_kernel_name(const kt_kernel_names *n, uint64_t address);
#endif
