/* What libs.c offers to the files that open libraries of ROCm. */
#ifndef RP_LIBS_H
#define RP_LIBS_H

#include "rocm.h"

#define RP_OLDEST_VERSION 500u


/* ---- idle.c ---------------------------------------------------------------------------------- */
/** Wait until the default stream has no work, a few seconds at most. False: it is still busy. */
bool rp_wait_for_device(void);

#endif
