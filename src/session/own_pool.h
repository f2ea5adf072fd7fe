/* The pool that a process makes for its own sessions. With the sessions' lock held, but where it says
 * otherwise. */
#ifndef KS_OWN_POOL_H
#define KS_OWN_POOL_H

#include "session/session.h"

/* What a session that grows begins with: touched in a few milliseconds on the slowest machines. */
#define KS_FIRST_BYTES ((size_t)4 << 20)

/* Values of kf_window.keep_newest: nothing may be overwritten, everything, or what is older than the
 * window. */
enum { KS_KEEP_OLDEST = 0, KS_KEEP_NEWEST = 1, KS_KEEP_FROM_START = 2 };

/** Make it if there is none, and have so much of it ready. */
kineto_status ks_own_pool_ready(size_t buffer_bytes, kineto_error *err);
/** Raise the number of chunks that may be used, and touch them now rather than while recording. */
kineto_status ks_own_pool_grow(const kf_pool *pool, size_t buffer_bytes, kineto_error *err);
/** Threads keep their chunks when the limit sinks: all that may hold records. */
uint32_t ks_own_chunks_in_use(const kf_pool *pool);
/** Are there windows of other processes (a fork's child may have sessions of its own)? Any time. */
bool ks_has_foreign_windows(const kf_control *control);
/** Chunks that ended before `from` are free. */
void ks_own_chunks_release(const kf_pool *pool, uint64_t from);
/** Nobody is prepared any more: the memory goes back, the address space stays. */
void ks_own_memory_release(const kf_pool *pool);
/** Chunks of processes that are gone (a fork's children that called _exit) are full for good. */
void ks_chunks_inherit_from_dead(const kf_pool *pool);
/** Windows changed: what may be overwritten now? */
void ks_retention_update(kf_control *control);
#endif
