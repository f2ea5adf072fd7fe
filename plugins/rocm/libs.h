/* What libs.c offers to the files that open libraries of ROCm. */
#ifndef RP_LIBS_H
#define RP_LIBS_H

#include "rocm.h"

#define RP_OLDEST_VERSION 500u

/** The library "stem.so…" that the program has loaded; NULL: it has not. */
void *rp_open_loaded(const char *stem);

/* ---- idle.c ---------------------------------------------------------------------------------- */
/** Wait until the default stream has no work, a few seconds at most. False: it is still busy. */
bool rp_wait_for_device(void);

#endif
