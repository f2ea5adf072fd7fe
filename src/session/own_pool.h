/* The pool that a process creates for its own sessions. The caller holds the sessions' lock
 * (session.c) unless a function says otherwise. */
#ifndef KS_OWN_POOL_H
#define KS_OWN_POOL_H

#include "session/session.h"

/* Initial memory of a session that grows: prefaulted in a few milliseconds on slow machines. */
#define KS_FIRST_BYTES ((size_t)4 << 20)

/* Values of kf_window.keep_newest: nothing may be overwritten, everything, or what is older than
 * the window. */
enum { KS_KEEP_OLDEST = 0, KS_KEEP_NEWEST = 1, KS_KEEP_FROM_START = 2 };

/** Create the pool if there is none, and make this much memory ready. */
kineto_status ks_own_pool_ready(size_t buffer_bytes, kineto_error *err);
/** Raise the number of chunks that may be used, and touch them now rather than while recording. */
kineto_status ks_own_pool_grow(const kf_pool *pool, size_t buffer_bytes, kineto_error *err);
/** Number of chunks that may hold records: threads keep their chunks when the limit is lowered. */
uint32_t ks_own_chunks_in_use(const kf_pool *pool);
/** Do other processes have open windows (a fork's child may have its own sessions)? Needs no lock.
 */
bool ks_has_foreign_windows(const kf_control *control);
/** Chunks that ended before `from` are free. */
void ks_own_chunks_release(const kf_pool *pool, uint64_t from);
/** The last session is gone: memory is given back, the address space stays reserved. */
void ks_own_memory_release(const kf_pool *pool);
/** Seal the chunks of processes that ended without doing so (a fork's children that called _exit).
 */
void ks_chunks_inherit_from_dead(const kf_pool *pool);
/** Windows changed: publish which chunks writers may overwrite now. */
void ks_retention_update(kf_control *control);
#endif
