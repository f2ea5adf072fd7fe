/* The functions of GCC's OpenMP runtime (libgomp) that the library libckineto-gomp.so defines instead, as
 * GCC's compilers call them, and the table of those that they pass their calls on to. */
#ifndef CT_GOMP_H
#define CT_GOMP_H

#include "openmp.h"

typedef unsigned long long ct_ull;
typedef void ct_body(void *data); /* the function of a construct's body */

/* Schedules, in the names of functions that have a chunk size, and of those that have none. */
#define CT_CHUNK_LOOPS(X)                                                                          \
    X(static)                                                                                      \
    X(dynamic)                                                                                     \
    X(guided)                                                                                      \
    X(nonmonotonic_dynamic)                                                                        \
    X(nonmonotonic_guided)                                                                         \
    X(ordered_static)                                                                              \
    X(ordered_dynamic)                                                                             \
    X(ordered_guided)
#define CT_RUNTIME_LOOPS(X)                                                                        \
    X(runtime)                                                                                     \
    X(nonmonotonic_runtime)                                                                        \
    X(maybe_nonmonotonic_runtime)                                                                  \
    X(ordered_runtime)
#define CT_CHUNK_REGIONS(X)                                                                        \
    X(static)                                                                                      \
    X(dynamic)                                                                                     \
    X(guided)                                                                                      \
    X(nonmonotonic_dynamic)                                                                        \
    X(nonmonotonic_guided)
#define CT_RUNTIME_REGIONS(X)                                                                      \
    X(runtime)                                                                                     \
    X(nonmonotonic_runtime)                                                                        \
    X(maybe_nonmonotonic_runtime)

/* X(result, name, parameters) */
#define CT_GOMP_MAP(X)                                                                             \
    X(void, GOMP_parallel, (ct_body * fn, void *data, unsigned threads, unsigned flags))           \
    X(unsigned, GOMP_parallel_reductions,                                                          \
      (ct_body * fn, void *data, unsigned threads, unsigned flags))                                \
    X(void, GOMP_parallel_sections,                                                                \
      (ct_body * fn, void *data, unsigned threads, unsigned count, unsigned flags))                \
    X(void, GOMP_parallel_start, (ct_body * fn, void *data, unsigned threads))                     \
    X(void, GOMP_barrier, (void))                                                                  \
    X(bool, GOMP_barrier_cancel, (void))                                                           \
    X(void, GOMP_critical_start, (void))                                                           \
    X(void, GOMP_critical_end, (void))                                                             \
    X(void, GOMP_critical_name_start, (void **lock))                                               \
    X(void, GOMP_critical_name_end, (void **lock))                                                 \
    X(void, GOMP_ordered_start, (void))                                                            \
    X(void, GOMP_ordered_end, (void))                                                              \
    X(bool, GOMP_single_start, (void))                                                             \
    X(void *, GOMP_single_copy_start, (void))                                                      \
    X(void, GOMP_single_copy_end, (void *data))                                                    \
    X(void, GOMP_loop_end, (void))                                                                 \
    X(void, GOMP_loop_end_nowait, (void))                                                          \
    X(bool, GOMP_loop_end_cancel, (void))                                                          \
    X(unsigned, GOMP_sections_start, (unsigned count))                                             \
    X(void, GOMP_sections_end, (void))                                                             \
    X(void, GOMP_sections_end_nowait, (void))                                                      \
    X(bool, GOMP_sections_end_cancel, (void))                                                      \
    X(void, GOMP_task,                                                                             \
      (ct_body * fn, void *data, void (*copy)(void *, void *), long size, long align,              \
       bool deferred, unsigned flags, void **depend, int priority, void *detach))                  \
    X(void, GOMP_taskwait, (void))                                                                 \
    X(void, GOMP_taskwait_depend, (void **depend))                                                 \
    X(void, GOMP_taskgroup_start, (void))                                                          \
    X(void, GOMP_taskgroup_end, (void))                                                            \
    X(void, GOMP_taskloop,                                                                         \
      (ct_body * fn, void *data, void (*copy)(void *, void *), long size, long align,              \
       unsigned flags, unsigned long tasks, int priority, long start, long end, long step))        \
    X(void, GOMP_taskloop_ull,                                                                     \
      (ct_body * fn, void *data, void (*copy)(void *, void *), long size, long align,              \
       unsigned flags, unsigned long tasks, int priority, ct_ull start, ct_ull end, ct_ull step))  \
    X(void, omp_set_lock, (void *lock))                                                            \
    X(void, omp_unset_lock, (void *lock))
/* These are called, and not defined. */
#define CT_GOMP_QUERY_MAP(X)                                                                       \
    X(int, omp_get_thread_num, (void))                                                             \
    X(int, omp_get_num_threads, (void))

typedef bool ct_chunk_loop(long start, long end, long step, long chunk, long *from, long *to);
typedef bool ct_runtime_loop(long start, long end, long step, long *from, long *to);
typedef bool ct_chunk_loop_ull(bool up, ct_ull start, ct_ull end, ct_ull step, ct_ull chunk,
                               ct_ull *from, ct_ull *to);
typedef bool ct_runtime_loop_ull(bool up, ct_ull start, ct_ull end, ct_ull step, ct_ull *from,
                                 ct_ull *to);
typedef void ct_chunk_region(ct_body *fn, void *data, unsigned threads, long start, long end,
                             long step, long chunk, unsigned flags);
typedef void ct_runtime_region(ct_body *fn, void *data, unsigned threads, long start, long end,
                               long step, unsigned flags);

#define CT_X(result, name, parameters) CT_EXPORT result name parameters;
CT_GOMP_MAP(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    CT_EXPORT ct_chunk_loop GOMP_loop_##schedule##_start;                                          \
    CT_EXPORT ct_chunk_loop_ull GOMP_loop_ull_##schedule##_start;
CT_CHUNK_LOOPS(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    CT_EXPORT ct_runtime_loop GOMP_loop_##schedule##_start;                                        \
    CT_EXPORT ct_runtime_loop_ull GOMP_loop_ull_##schedule##_start;
CT_RUNTIME_LOOPS(CT_X)
#undef CT_X
#define CT_X(schedule) CT_EXPORT ct_chunk_region GOMP_parallel_loop_##schedule;
CT_CHUNK_REGIONS(CT_X)
#undef CT_X
#define CT_X(schedule) CT_EXPORT ct_runtime_region GOMP_parallel_loop_##schedule;
CT_RUNTIME_REGIONS(CT_X)
#undef CT_X

/* The functions of one runtime. */
typedef struct ct_gomp {
    const void *base;   /* of its library */
    bool has_tool;      /* it is LLVM's or Intel's, which OMPT records: calls are passed on only */
#define CT_X(result, name, parameters) result(*name) parameters;
    CT_GOMP_MAP(CT_X) CT_GOMP_QUERY_MAP(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    ct_chunk_loop *GOMP_loop_##schedule##_start;                                                   \
    ct_chunk_loop_ull *GOMP_loop_ull_##schedule##_start;
    CT_CHUNK_LOOPS(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    ct_runtime_loop *GOMP_loop_##schedule##_start;                                                 \
    ct_runtime_loop_ull *GOMP_loop_ull_##schedule##_start;
    CT_RUNTIME_LOOPS(CT_X)
#undef CT_X
#define CT_X(schedule) ct_chunk_region *GOMP_parallel_loop_##schedule;
    CT_CHUNK_REGIONS(CT_X)
#undef CT_X
#define CT_X(schedule) ct_runtime_region *GOMP_parallel_loop_##schedule;
    CT_RUNTIME_REGIONS(CT_X)
#undef CT_X
} ct_gomp;

/** The runtime of a caller, by an address in its library: that of a body, which is in the caller's library
 *  also where the call is the last thing that a function does, else the return address. */
const ct_gomp *ct_find_gomp(uintptr_t address);
#define CT_CALLER      ((uintptr_t)__builtin_return_address(0))
#define CT_NEXT        ct_find_gomp(CT_CALLER)
#define CT_NEXT_OF(fn) ct_find_gomp((uintptr_t)(fn))

typedef struct ct_running_body {
    ct_body *fn;
    const ct_gomp *next; /* runs it */
} ct_running_body;

/** Sets the body that this thread is about to call, and returns the one around it, to be set again afterwards. */
ct_running_body ct_exchange_body(ct_running_body body);
/** The place of a construct in the program, by its return address: the body where it was a jump at the end of one. */
uintptr_t ct_construct_place(uintptr_t caller);

/* Open a construct that is recorded for this runtime, and close it. */
static inline void ct_open_of(const ct_gomp *next, ct_construct what, uint64_t key,
                              uintptr_t caller)
{
    if (!next->has_tool)
        ct_open_construct(what, key, ct_construct_place(caller));
}
static inline void ct_close_of(const ct_gomp *next, ct_construct what, uint64_t key)
{
    if (!next->has_tool)
        ct_close_construct(what, key);
}
#endif
