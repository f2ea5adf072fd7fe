/* Atomics with the order in the name, so that every use can be reviewed. A closed list. */
#ifndef KB_ATOMIC_H
#define KB_ATOMIC_H

#define kb_load_relaxed(p) __atomic_load_n((p), __ATOMIC_RELAXED)
#define kb_load_acquire(p) __atomic_load_n((p), __ATOMIC_ACQUIRE)
#define kb_store_relaxed(p, v) __atomic_store_n((p), (v), __ATOMIC_RELAXED)
#define kb_store_release(p, v) __atomic_store_n((p), (v), __ATOMIC_RELEASE)
#define kb_add_relaxed(p, v) __atomic_fetch_add((p), (v), __ATOMIC_RELAXED)
#define kb_sub_relaxed(p, v) __atomic_fetch_sub((p), (v), __ATOMIC_RELAXED)
#define kb_add_acqrel(p, v) __atomic_fetch_add((p), (v), __ATOMIC_ACQ_REL)
#define kb_or_release(p, v) __atomic_fetch_or((p), (v), __ATOMIC_RELEASE)
#define kb_and_acqrel(p, v) __atomic_fetch_and((p), (v), __ATOMIC_ACQ_REL)
#define kb_exchange_acqrel(p, v) __atomic_exchange_n((p), (v), __ATOMIC_ACQ_REL)
/** Acquire on success and failure; release on success. */
#define kb_cas_acqrel(p, expected, desired)                                                        \
    __atomic_compare_exchange_n((p), (expected), (desired), 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)
/** Orders this thread against its own signal handlers only: no instruction. */
#define kb_signal_fence() __atomic_signal_fence(__ATOMIC_SEQ_CST)
/* GCC's thread sanitizer rejects fences; it accepts a full barrier. */
#if defined(__SANITIZE_THREAD__)
#define kb_fence_seqcst() __sync_synchronize()
#else
#define kb_fence_seqcst() __atomic_thread_fence(__ATOMIC_SEQ_CST)
#endif

#endif
