/* The memory source: interposes malloc and free of an unmodified program and records a sample of
 * its allocations.
 *
 *   hooks.c     the interposed functions
 *   next_allocator.c      the next allocator, and memory for allocations made while it is being found
 *   sample.c    which allocations are recorded, and the totals
 *   tracked_blocks.c  the table of recorded blocks, so that their release is recorded, too
 *   lifecycle.c      start, threads, forks, the ledger
 *
 * Nothing here allocates, blocks, or changes errno. A call within another one of the same thread
 * (an allocator that calls itself by name, a recorder that allocates) goes straight to the next
 * allocator: cm_thread.inside marks such threads.
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
#define CM_NOINLINE __attribute__((noinline))
#define CM_COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* ---- next_allocator.c ---------------------------------------------------------------------------------- */

/* The next allocator's functions. All are set once cm_state is not CM_UNRESOLVED; functions that no
 * library provides fail with ENOMEM. */
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
    /* malloc_usable_size, or a function that returns 0 if that belongs to another allocator. */
    size_t (*size_of)(void *);
} cm_functions;
extern cm_functions cm_next;

/* Modes of the source, in this order; only CM_IDLE may be skipped. */
typedef enum cm_mode {
    CM_UNRESOLVED, /* before the first call */
    CM_STARTING,   /* until our constructor has run: totals are kept, nothing is recorded */
    CM_IDLE,       /* no session has recorded memory yet: calls are passed on */
    CM_ON          /* totals are kept, and a sample is recorded while the gate is open */
} cm_mode;
extern _Atomic(cm_mode) cm_state;

/** Find the next allocator's functions. */
void cm_resolve(void);
/** True if the allocator reports the sizes of its blocks. */
bool cm_has_block_sizes(void);

/* Memory for calls that arrive while the next allocator is being found. Never freed. */
#define CM_EARLY_BYTES 65536u
extern char cm_early_memory[CM_EARLY_BYTES];
void *cm_early_alloc(size_t bytes, size_t align);
size_t cm_early_size(const void *block);
static inline bool cm_is_early(const void *block)
{
    return (uintptr_t)block - (uintptr_t)cm_early_memory < CM_EARLY_BYTES;
}

/* ---- tracked_blocks.c ------------------------------------------------------------------------------ */

#define CM_FILTER_BITS 14
extern _Atomic(uint16_t) cm_filter[1 << CM_FILTER_BITS];

/* Counters by hash of recorded blocks: a Bloom filter with one hash function. */
static inline uint64_t cm_hash(const void *block)
{
    uint64_t h = ((uint64_t)(uintptr_t)block >> 4) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 32;
}
/** False: the block is certainly not followed. The only check that nearly every release makes. */
static inline bool cm_is_maybe_tracked(const void *block)
{
    return atomic_load_explicit(&cm_filter[cm_hash(block) & (CM_COUNT(cm_filter) - 1)],
                                memory_order_relaxed) != 0;
}
/** Add a block and its size (> 0); false: the table is full. Any thread, lock-free. */
bool cm_track_block(const void *block, uint64_t bytes);
/** Remove a block and return its size; 0: it was not followed. */
uint64_t cm_untrack_block(const void *block);
/** Blocks that the table can hold at most. */
uint64_t cm_track_capacity(void);
/** Map the first table, so that the first recorded allocation does not pay for it. */
void cm_track_prepare(void);

/* ---- sample.c -------------------------------------------------------------------------------- */

#define CM_INTERVAL_BYTES (UINT64_C(512) << 10) /* the default */
/* Bytes that a thread may hold back from the total, to spare it an atomic addition per call. */
#define CM_PENDING_BYTES 65536

typedef struct cm_thread {
    /* The allocation that makes it negative is recorded. */
    int64_t countdown_bytes;
    int64_t pending_bytes; /* not in the total yet */
    int64_t pending_limit; /* 0 unless a destructor flushes when the thread ends */
    uint64_t random;
    uint8_t inside; /* in one of our functions */
    uint8_t begun;  /* cm_thread_init has run */
    /* Calls of the thread's destructor; from CM_MAX_DESTRUCTOR_CALLS on nothing is recorded. */
    uint8_t endings;
} cm_thread;
/* PTHREAD_DESTRUCTOR_ITERATIONS: rounds of destructors that POSIX guarantees. */
#define CM_MAX_DESTRUCTOR_CALLS 4
extern __thread cm_thread cm_me CM_TLS;

/** Mean bytes between samples; 0 or 1: every allocation. */
extern uint64_t cm_interval_bytes;
/** Parse the setting, a size as on the command line: 4096, 64K, 64KiB. Else the default. */
uint64_t cm_parse_interval(const char *text);

/** Random number of bytes to the next sample: exponential with this mean, rounded down. */
int64_t cm_draw_gap(uint64_t *random, uint64_t mean_bytes);
/** -ln(u), 0 < u <= 1. */
double cm_minus_ln(double u);

void cm_count_allocation_slow(cm_thread *me, void *block, uint64_t bytes);
uint64_t cm_count_release_slow(cm_thread *me, void *block);
/** Undo cm_count_release for a block that was not released; `followed` is its result. */
void cm_undo_release(cm_thread *me, void *block, uint64_t followed);
/** Add the pending bytes to the total; returns the total. */
int64_t cm_flush_pending(cm_thread *me);

/** Count an allocation that succeeded. `asked`: the requested bytes, for allocators without
 * sizes. */
static inline void cm_count_allocation(cm_thread *me, void *block, size_t asked)
{
    size_t size = cm_next.size_of(block);
    uint64_t bytes = size ? size : asked ? asked : 1;
    me->pending_bytes += (int64_t)size;
    me->countdown_bytes -= (int64_t)bytes;
    if (KINETO_UNLIKELY(me->countdown_bytes < 0 || me->pending_bytes > me->pending_limit))
        cm_count_allocation_slow(me, block, bytes);
}

/** Count a release, before it happens. @return the block's size if it was followed, else 0. */
static inline uint64_t cm_count_release(cm_thread *me, void *block)
{
    me->pending_bytes -= (int64_t)cm_next.size_of(block);
    if (KINETO_UNLIKELY(cm_is_maybe_tracked(block) || me->pending_bytes < -me->pending_limit))
        return cm_count_release_slow(me, block);
    return 0;
}

/* ---- lifecycle.c ---------------------------------------------------------------------------------- */

/* Reasons why calls were not recorded: X(NAME, is a loss, reason in the ledger, its detail). */
#define CM_MISS_MAP(X)                                                                             \
    X(TABLE_FULL, true, "no room to follow more blocks",                                           \
      "more sampled blocks were allocated at a time than can be followed; a larger "               \
      "--memory=BYTES "                                                                            \
      "samples fewer")                                                                             \
    X(THREAD_END, true, "in threads that had ended",                                               \
      "sampled in threads that the recorder had already left")                                     \
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
/** Count one. The first loss is written to the ledger at once, the rest when the process ends. */
void cm_count_miss(cm_miss what);
/** First use by a thread. */
void cm_thread_init(cm_thread *me);
/** Count a call that arrives before our constructor has run. */
void cm_count_early_call(void);
/** Switch from CM_IDLE to CM_ON: the first session of the process records memory. */
void cm_switch_on(void);
#endif
