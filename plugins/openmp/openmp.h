/* The OpenMP source: parallel regions, the work and the waiting of each thread in them, tasks, and locks.
 * Two libraries are made of it, one for each way in:
 *
 *   ompt.c       ckineto-openmp.so, a tool of OMPT (LLVM's and Intel's runtime), which they load
 *   gomp.c       libckineto-gomp.so, preloaded: functions of GCC's runtime, which has no tool interface
 *   gomp_next.c  the same: finds the function that is called instead of ours
 *   gomp_loops.c, gomp_tasks.c  the same: loops and sections; explicit tasks
 *   threads.c    both: a block for each thread, with its regions and what is open on it
 *   constructs.c both: kinds of constructs, their sites and records
 *   tally.c      both: notes in the ledger
 *
 * A construct is recorded when it ends, as one record. Only a region is recorded from its begin, so that a
 * program that dies has the one that it was in.
 *
 * Threads of a team learn late that their region ended: they wait at its end, and leave with the begin of
 * the next region. The thread that began the region therefore stores the time of its end in it, and the
 * others end at that time.
 *
 * While no session records, an event costs a load and a branch. While one does, it takes no lock and,
 * but for the first event of a thread, no memory.
 */
#ifndef CT_OPENMP_H
#define CT_OPENMP_H

#include <ckineto/record.h>

#include <stdatomic.h>

#define CT_COLD       __attribute__((noinline, cold))
#define CT_COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define CT_EXPORT     __attribute__((visibility("default")))
#if defined(__GLIBC__) && defined(__GNUC__)
#define CT_TLS __attribute__((tls_model("initial-exec")))
#else
#define CT_TLS
#endif

static inline bool ct_recording(void) { return kineto_enabled(KINETO_KIND_OPENMP); }

/* ---- constructs.c ---------------------------------------------------------------------------- */

/** Constructs: X(NAME, name of its rows, args after code and region). Locks come last, from CRITICAL on. */
#define CT_CONSTRUCT_MAP(X)                                                                        \
    X(IMPLICIT_TASK, "omp implicit task", TEAM)                                                    \
    X(BARRIER, "omp barrier", NONE)                                                                \
    X(IMPLICIT_BARRIER, "omp implicit barrier", NONE)                                              \
    X(TASKWAIT, "omp taskwait", NONE)                                                              \
    X(TASKGROUP, "omp taskgroup", NONE)                                                            \
    X(TASKGROUP_WAIT, "omp taskgroup wait", NONE)                                                  \
    X(REDUCTION, "omp reduction wait", NONE)                                                       \
    X(TASK, "omp task", TASK)                                                                      \
    X(LOOP, "omp for", NONE)                                                                       \
    X(SECTIONS, "omp sections", NONE)                                                              \
    X(SINGLE, "omp single", NONE)                                                                  \
    X(WORKSHARE, "omp workshare", NONE)                                                            \
    X(DISTRIBUTE, "omp distribute", NONE)                                                          \
    X(TASKLOOP, "omp taskloop", NONE)                                                              \
    X(SCOPE, "omp scope", NONE)                                                                    \
    X(MASKED, "omp masked", NONE)                                                                  \
    X(CRITICAL, "omp critical", LOCK)                                                              \
    X(CRITICAL_WAIT, "omp critical wait", LOCK)                                                    \
    X(ORDERED, "omp ordered", LOCK)                                                                \
    X(ORDERED_WAIT, "omp ordered wait", LOCK)                                                      \
    X(ATOMIC, "omp atomic", LOCK)                                                                  \
    X(ATOMIC_WAIT, "omp atomic wait", LOCK)                                                        \
    X(LOCK, "omp lock", LOCK)                                                                      \
    X(LOCK_WAIT, "omp lock wait", LOCK)
typedef enum ct_construct {
#define CT_X(name, text, args) CT_##name,
    CT_CONSTRUCT_MAP(CT_X)
#undef CT_X
        CT_CONSTRUCT_COUNT
} ct_construct;

/** A parallel region that runs, or that threads of its team have not left yet. */
typedef struct ct_region {
    atomic_uint users; /* the thread that began it, and the threads of its team; 0: free */
    uint32_t threads;  /* of the team */
    uint32_t requested;
    kineto_range range;
    uint64_t id; /* in the process, from 1 */
    uintptr_t code;
    atomic_uint_fast64_t ended; /* ticks; 0: it has not */
} ct_region;

/** A construct that is open on a thread. */
typedef struct ct_open {
    uint8_t what;       /* ct_construct */
    uint32_t number;    /* IMPLICIT_TASK: number of the thread in its team */
    uint64_t began;     /* ticks; 0: nothing was recorded at the time */
    uint64_t key;       /* task or lock */
    uintptr_t code;     /* 0: that of the region */
    ct_region *region;  /* the innermost one of the thread; NULL: none */
} ct_open;

#define CT_MAX_OPEN    256u
#define CT_MAX_REGIONS 256u
typedef struct ct_thread {
    atomic_bool in_use;
    bool named;
    uint32_t count; /* of open */
    uint32_t last_region;
    uint64_t next_task, tasks_end; /* task numbers of this thread */
    ct_region *region;             /* the innermost one */
    ct_region *left;               /* GOMP: the region at whose end it waits, since left_at */
    uint64_t left_at;
    ct_open open[CT_MAX_OPEN];
    ct_region regions[CT_MAX_REGIONS]; /* those that this thread begins */
} ct_thread;

/** Begin a region. NULL: it is not recorded. */
ct_region *ct_begin_region(uintptr_t code, uint32_t requested);
/** End it, by the thread that began it. */
void ct_end_region(ct_region *region);
/** The thread begins, or ends, its part of a region. `number` is its number in the team. */
void ct_begin_implicit_task(ct_region *region, uint32_t threads, uint32_t number);
void ct_end_implicit_task(void);

/** Open a construct on the calling thread. */
void ct_open_construct(ct_construct what, uint64_t key, uintptr_t code);
/** Close the innermost open one that matches, and record it. */
void ct_close_construct(ct_construct what, uint64_t key);
/** Record a construct of the innermost region that is not on the stack. `ended` 0: now. */
void ct_record_construct(const ct_open *open, uint64_t ended);

/** A number for a task, which its creation by `code` is recorded with; 0: nothing is recorded. */
uint64_t ct_create_task(uintptr_t code);
/** The address that a task was created with. */
uintptr_t ct_code_of_task(uint64_t task);

/* ---- threads.c ------------------------------------------------------------------------------- */

extern __thread ct_thread *ct_this_thread CT_TLS;
/** The block of the calling thread, made at its first use; NULL: no memory (counted). */
ct_thread *ct_attach_thread(void);
/** Name the calling thread, a worker of the runtime, in the trace. */
void ct_name_worker(ct_thread *t);
/** A free region of the thread; NULL: all are used (counted). */
ct_region *ct_claim_region(ct_thread *t);
void ct_release_region(ct_region *region);

/** pthread_atfork, in programs of any libc. */
void ct_register_fork(void (*before)(void), void (*parent)(void), void (*child)(void));

/* ---- tally.c --------------------------------------------------------------------------------- */

/** Notes in the ledger: X(NAME, 1 if events are lost, "reason", "detail"). */
#define CT_TALLY_MAP(X)                                                                            \
    X(NO_THREAD, 1, "events of threads without memory", "no memory for what is open on a thread")  \
    X(TOO_DEEP, 1, "constructs nested too deeply", "256 are open on a thread at most")             \
    X(NO_REGION, 1, "regions begun while too many are being left",                                 \
      "256 regions that a thread began are kept until the last thread of their teams has left")    \
    X(OLD_OMPT, 0, "runtime too old", "its tool interface is older than that of OpenMP 5.0")            \
    X(OLD_GOMP, 1, "regions of a compiler before GCC 4.9",                                         \
      "GOMP_parallel_start and GOMP_parallel_end are passed on and not recorded")                  \
    X(NO_NEXT, 0, "calls without a runtime",                                                       \
      "the runtime of a caller was not found by its libraries, another one of the process was called")
typedef enum ct_tally {
#define CT_X(name, loss, reason, detail) CT_TALLY_##name,
    CT_TALLY_MAP(CT_X)
#undef CT_X
        CT_TALLY_COUNT
} ct_tally;
/** Count one. The line is written for the first and whenever the count has doubled. */
void ct_count(ct_tally what);
void ct_tally_forked(void);
#endif
