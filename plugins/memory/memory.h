/* The memory source: stands in front of malloc and free of an unchanged program and records a
 * sample of its allocations.
 *
 *   hooks.c     what the program calls instead of its allocator
 *   next.c      the allocator behind us, and memory for whoever allocates while we look for it
 *   sample.c    which allocations are recorded, and the totals
 *   followed.c  the blocks that were recorded, so that their release is recorded too
 *   life.c      start, threads, forks, what the ledger says
 *
 * Nothing here allocates, blocks, or changes errno. A call that comes while another one of the same
 * thread is under way (an allocator that calls itself by name, a recorder that allocates after
 * all) goes straight to the next allocator: that is `inside`.
 */
#ifndef CM_MEMORY_H
#define CM_MEMORY_H

#include <ckineto/record.h>

#include <stdatomic.h>

#if defined(__GLIBC__) && defined(__GNUC__)
#define CM_TLS __attribute__((tls_model("initial-exec")))
#else
#define CM_TLS
#endif
#define CM_COLD     __attribute__((noinline, cold))
#define CM_APART    __attribute__((noinline))
#define CM_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- next.c ---------------------------------------------------------------------------------- */

/* The functions behind ours. All are set once cm_mode is not CM_UNRESOLVED; those that nobody has
 * answer as if there were no memory. */
typedef struct cm_functions {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    size_t (*malloc_usable_size)(void *);
    size_t (*size_of)(void *); /* the same, or 0 if it does not belong to this malloc */
} cm_functions;
extern cm_functions cm_next;

typedef enum cm_mode {
    CM_UNRESOLVED, /* before the first call */
    CM_STARTING,   /* before our constructor: totals are kept, nothing is recorded */
    CM_IDLE,       /* nobody has recorded yet: calls are passed on */
    CM_ON          /* totals are kept, and a sample is recorded while the gate is open */
} cm_mode;
extern _Atomic(cm_mode) cm_state;

/** Find the functions behind ours. */
void cm_resolve(void);
/** Does the allocator tell the size of a block? */
bool cm_sizes_known(void);

/* For calls that arrive while the next allocator is being looked for. Never given back. */
#define CM_EARLY_BYTES 65536u
extern char cm_early_memory[CM_EARLY_BYTES];
void *cm_early_alloc(size_t bytes, size_t align);
size_t cm_early_size(const void *block);
static inline bool cm_is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)cm_early_memory < CM_EARLY_BYTES;
}

/* ---- followed.c ------------------------------------------------------------------------------ */

#define CM_FILTER_BITS 14
extern _Atomic(uint16_t) cm_filter[1 << CM_FILTER_BITS];

static inline uint64_t cm_hash(const void *block)
{
    uint64_t h = ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}
/** False: it is surely not followed. What nearly every release asks. */
static inline bool cm_maybe_followed(const void *block)
{
    return atomic_load_explicit(&cm_filter[cm_hash(block) & (CM_COUNT(cm_filter) - 1)],
                                memory_order_relaxed) != 0;
}
/** Remember a block and its size (> 0); false: no room. Any thread, lock-free. */
bool cm_follow(const void *block, uint64_t bytes);
/** Its size, and it is forgotten; 0: it was not followed. */
uint64_t cm_forget(const void *block);
/** Blocks that have room at most. */
uint64_t cm_follow_capacity(void);
/** Make what the first blocks need ready. */
void cm_follow_prepare(void);

/* ---- sample.c -------------------------------------------------------------------------------- */

#define CM_INTERVAL_BYTES (UINT64_C(512) << 10) /* the default */
#define CM_PENDING_BYTES  65536                 /* what a thread keeps from the total at most */

typedef struct cm_thread {
    int64_t countdown_bytes; /* the allocation that makes it negative is recorded */
    int64_t pending_bytes;   /* not in the total yet */
    int64_t pending_limit;   /* 0 until somebody tells us when the thread ends */
    uint64_t random;
    uint8_t inside;
    uint8_t begun;
    uint8_t endings; /* calls of the thread's destructor; from CM_ENDINGS on it records no more */
} cm_thread;
#define CM_ENDINGS 4 /* rounds that POSIX promises */
extern __thread cm_thread cm_me CM_TLS;

/** Mean bytes between samples; 0 or 1: every allocation. */
extern uint64_t cm_interval_bytes;
/** Of a setting, written as sizes are on the command line: 4096, 64K, 64KiB. Else the default. */
uint64_t cm_interval_of(const char *text);

/** Bytes to the next sample: exponential with this mean, rounded down. */
int64_t cm_gap(uint64_t *random, uint64_t mean_bytes);
/** -ln(u), 0 < u <= 1. */
double cm_minus_ln(double u);

void cm_took_slow(cm_thread *me, void *block, uint64_t bytes);
uint64_t cm_gives_slow(cm_thread *me, void *block);
/** It was not released after all; `followed` is what cm_gives said. */
void cm_keeps(cm_thread *me, void *block, uint64_t followed);
/** Add what is pending to the total; returns the total. */
int64_t cm_flush(cm_thread *me);

/** An allocation succeeded. */
static inline void cm_took(cm_thread *me, void *block, size_t asked)
{
    size_t size = cm_next.size_of(block);
    uint64_t bytes = size ? size : asked ? asked : 1;
    me->pending_bytes += (int64_t)size;
    me->countdown_bytes -= (int64_t)bytes;
    if (KINETO_UNLIKELY(me->countdown_bytes < 0 || me->pending_bytes > me->pending_limit))
        cm_took_slow(me, block, bytes);
}

/** A block is about to be released. @return its size if it was followed, else 0. */
static inline uint64_t cm_gives(cm_thread *me, void *block)
{
    me->pending_bytes -= (int64_t)cm_next.size_of(block);
    if (KINETO_UNLIKELY(cm_maybe_followed(block) || me->pending_bytes < -me->pending_limit))
        return cm_gives_slow(me, block);
    return 0;
}

/* ---- life.c ---------------------------------------------------------------------------------- */

/* What was not recorded: X(NAME, is a loss, the ledger's words, its sentence). */
#define CM_MISS_MAP(X)                                                                             \
    X(TABLE_FULL, true, "no room to follow more blocks",                                           \
      "more sampled blocks were allocated at a time than can be followed; a larger "               \
      "--memory=BYTES "                                                                            \
      "samples fewer")                                                                             \
    X(THREAD_END, true, "in threads that had ended",                                               \
      "sampled where the recorder had left the thread already")                                    \
    X(NESTED, false, "calls inside of others",                                                     \
      "an allocator that calls itself by name, or a signal handler that interrupted it: passed "   \
      "on, "                                                                                       \
      "and in no total")                                                                           \
    X(EARLY, false, "served before the allocator was found",                                       \
      "from memory of the recorder, never given back")
typedef enum cm_miss {
#define CM_X(name, is_loss, reason, detail) CM_MISS_##name,
    CM_MISS_MAP(CM_X)
#undef CM_X
        CM_MISS_COUNT
} cm_miss;
/** Count one. The first is told to the ledger at once, the others when the process ends. */
void cm_missed(cm_miss what);
/** First use by a thread. */
void cm_thread_begins(cm_thread *me);
/** A call before our constructor. */
void cm_starting_call(void);
/** Somebody records for the first time: from CM_IDLE to CM_ON. */
void cm_switch_on(void);
#endif
