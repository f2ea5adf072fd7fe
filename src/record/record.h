/* The record room for the session room: attaching this process to a pool.
 * Exported by libckineto-rt under a private version; not for users. */
#ifndef KR_RECORD_H
#define KR_RECORD_H

#include "base/base.h"
#include "format/format.h"

/** The pool this process records into, NULL if none. */
KINETO_API const kf_pool *kineto_rt_pool(void);
/** Record into a formatted mapping from now on, for the life of the process.
 *  KINETO_E_STATE if there is a pool already. */
KINETO_API kineto_status kineto_rt_adopt(void *map, size_t bytes, kineto_error *err);
/** Attach to the pool file at path (what CKINETO_SESSION names). */
KINETO_API kineto_status kineto_rt_attach(const char *path, kineto_error *err);
/** Dictionary id of this process, attaching it if it was forked since. 0 if the table is full. */
KINETO_API uint32_t kineto_rt_process(void);
/** Windows changed: create and start, or stop, collect and destroy the registered profilers so that
 *  they match the gate. */
KINETO_API void kineto_rt_profilers_update(void);
/** Let profilers without incremental delivery hand over what they have (they are stopped, collected
 *  and started again). */
KINETO_API void kineto_rt_profilers_collect(void);
#endif
