/* Regions, barriers, locks and "single" of programs that GCC compiled, by functions that are defined here and
 * pass their calls on to libgomp.
 *
 * A region's body is replaced by run_team_thread, which each thread of the team calls: it records the
 * implicit task. libgomp does not tell when a thread leaves the region's last barrier: a worker waits there
 * until its next region begins, and records the wait then, up to the time when the region ended. */
#include "gomp.h"

#include <string.h>

/* ---- regions --------------------------------------------------------------------------------- */

typedef struct region_call {
    void *first; /* what the data begins with, which GOMP_parallel_reductions reads */
    ct_body *fn;
    void *data;
    const ct_gomp *next;
    ct_region *region;
    uint64_t arrived; /* ticks when the thread that began it came to its end */
    ct_construct work; /* its threads begin with this; CT_CONSTRUCT_COUNT: nothing */
} region_call;

/* Records the wait at the end of the last region of this thread. */
static void leave_region(ct_thread *t)
{
    ct_open wait = {.what = CT_IMPLICIT_BARRIER, .began = t->left_at, .region = t->left};
    if (!t->left)
        return;
    uint64_t ended = atomic_load_explicit(&t->left->ended, memory_order_acquire);
    if (ended)
        ct_record_construct(&wait, ended);
    ct_release_region(t->left);
    t->left = NULL;
}

/* The thread has done its part of the region. */
static void arrive_at_end(region_call *call, uint32_t number)
{
    ct_thread *t = ct_this_thread;
    ct_end_implicit_task();
    if (number == 0) {
        call->arrived = kineto_record_ticks();
    } else if (t) {
        atomic_fetch_add_explicit(&call->region->users, 1, memory_order_relaxed);
        t->left = call->region;
        t->left_at = kineto_record_ticks();
    }
}

/* The body of every region, on each thread of the team. */
static void run_team_thread(void *data)
{
    region_call *call = data;
    ct_thread *t = ct_this_thread ? ct_this_thread : ct_attach_thread();
    uint32_t number = (uint32_t)call->next->omp_get_thread_num();
    if (t && number)
        ct_name_worker(t);
    if (t)
        leave_region(t);
    ct_begin_implicit_task(call->region, (uint32_t)call->next->omp_get_num_threads(), number);
    if (call->work != CT_CONSTRUCT_COUNT)
        ct_open_construct(call->work, 0, 0);
    ct_running_body outer = ct_exchange_body((ct_running_body){call->fn, call->next});
    call->fn(call->data);
    (void)ct_exchange_body(outer);
    arrive_at_end(call, number);
}

/* Begins a region. False: it is not recorded, and called as it is. */
static bool begin_region_call(region_call *call, ct_body *fn, void *data, unsigned threads,
                              const ct_gomp *next, ct_construct work)
{
    if (next->has_tool || !ct_recording())
        return false;
    /* The symbol of the body is found by the return address of a call in it. */
    *call = (region_call){.fn = fn,
                          .data = data,
                          .next = next,
                          .region = ct_begin_region((uintptr_t)fn + 1, threads),
                          .work = work};
    return call->region != NULL;
}

static void end_region_call(const region_call *call)
{
    ct_open wait = {
        .what = CT_IMPLICIT_BARRIER, .began = call->arrived, .region = call->region};
    if (call->arrived)
        ct_record_construct(&wait, 0);
    ct_end_region(call->region);
}

/* A function that begins a region and returns when it has ended. `call` passes `body` and `body_data` on in place
 * of `fn` and `data`. */
#define REGION(name, parameters, work, call)                                                       \
    void name parameters                                                                           \
    {                                                                                              \
        const ct_gomp *next = CT_NEXT_OF(fn);                                                      \
        region_call made;                                                                          \
        bool is_recorded = begin_region_call(&made, fn, data, threads, next, work);                \
        ct_body *body = is_recorded ? run_team_thread : fn;                                        \
        void *body_data = is_recorded ? &made : data;                                              \
        next->call;                                                                                \
        if (is_recorded)                                                                           \
            end_region_call(&made);                                                                \
    }

REGION(GOMP_parallel, (ct_body * fn, void *data, unsigned threads, unsigned flags),
       CT_CONSTRUCT_COUNT, GOMP_parallel(body, body_data, threads, flags))
REGION(GOMP_parallel_sections,
       (ct_body * fn, void *data, unsigned threads, unsigned count, unsigned flags), CT_SECTIONS,
       GOMP_parallel_sections(body, body_data, threads, count, flags))
#define CT_X(schedule)                                                                             \
    REGION(GOMP_parallel_loop_##schedule,                                                          \
           (ct_body * fn, void *data, unsigned threads, long start, long end, long step,           \
            long chunk, unsigned flags),                                                           \
           CT_LOOP,                                                                                \
           GOMP_parallel_loop_##schedule(body, body_data, threads, start, end, step, chunk, flags))
CT_CHUNK_REGIONS(CT_X)
#undef CT_X
#define CT_X(schedule)                                                                             \
    REGION(GOMP_parallel_loop_##schedule,                                                          \
           (ct_body * fn, void *data, unsigned threads, long start, long end, long step,           \
            unsigned flags),                                                                       \
           CT_LOOP,                                                                                \
           GOMP_parallel_loop_##schedule(body, body_data, threads, start, end, step, flags))
CT_RUNTIME_REGIONS(CT_X)
#undef CT_X

unsigned GOMP_parallel_reductions(ct_body *fn, void *data, unsigned threads, unsigned flags)
{
    const ct_gomp *next = CT_NEXT_OF(fn);
    region_call made;
    if (!begin_region_call(&made, fn, data, threads, next, CT_CONSTRUCT_COUNT))
        return next->GOMP_parallel_reductions(fn, data, threads, flags);
    memcpy(&made.first, data, sizeof made.first);
    unsigned team = next->GOMP_parallel_reductions(run_team_thread, &made, threads, flags);
    end_region_call(&made);
    return team;
}

void GOMP_parallel_start(ct_body *fn, void *data, unsigned threads)
{
    const ct_gomp *next = CT_NEXT_OF(fn);
    if (!next->has_tool && ct_recording())
        ct_count(CT_TALLY_OLD_GOMP);
    next->GOMP_parallel_start(fn, data, threads);
}

/* ---- barriers and "single" ------------------------------------------------------------------- */

/* libgomp does not tell when "single" ends: at the thread's next barrier at the latest. */
void GOMP_barrier(void)
{
    const ct_gomp *next = CT_NEXT;
    ct_close_of(next, CT_SINGLE, 0);
    ct_open_of(next, CT_BARRIER, 0, CT_CALLER);
    next->GOMP_barrier();
    ct_close_of(next, CT_BARRIER, 0);
}

bool GOMP_barrier_cancel(void)
{
    const ct_gomp *next = CT_NEXT;
    ct_close_of(next, CT_SINGLE, 0);
    ct_open_of(next, CT_BARRIER, 0, CT_CALLER);
    bool is_cancelled = next->GOMP_barrier_cancel();
    ct_close_of(next, CT_BARRIER, 0);
    return is_cancelled;
}

bool GOMP_single_start(void)
{
    const ct_gomp *next = CT_NEXT;
    bool is_ours = next->GOMP_single_start();
    if (is_ours)
        ct_open_of(next, CT_SINGLE, 0, CT_CALLER);
    return is_ours;
}

void *GOMP_single_copy_start(void)
{
    const ct_gomp *next = CT_NEXT;
    void *copied = next->GOMP_single_copy_start();
    if (!copied) /* this thread executes it */
        ct_open_of(next, CT_SINGLE, 0, CT_CALLER);
    return copied;
}

void GOMP_single_copy_end(void *data)
{
    const ct_gomp *next = CT_NEXT;
    ct_close_of(next, CT_SINGLE, 0);
    next->GOMP_single_copy_end(data);
}

/* ---- locks ----------------------------------------------------------------------------------- */

#define LOCK_WAIT(call, wait, held, key)                                                           \
    do {                                                                                           \
        const ct_gomp *next = CT_NEXT;                                                             \
        ct_open_of(next, wait, key, CT_CALLER);                                                    \
        next->call;                                                                                \
        ct_close_of(next, wait, key);                                                              \
        ct_open_of(next, held, key, CT_CALLER);                                                    \
    } while (0)
#define LOCK_RELEASE(call, held, key)                                                              \
    do {                                                                                           \
        const ct_gomp *next = CT_NEXT;                                                             \
        next->call;                                                                                \
        ct_close_of(next, held, key);                                                              \
    } while (0)

void GOMP_critical_start(void)
{
    LOCK_WAIT(GOMP_critical_start(), CT_CRITICAL_WAIT, CT_CRITICAL, 0);
}
void GOMP_critical_end(void) { LOCK_RELEASE(GOMP_critical_end(), CT_CRITICAL, 0); }
void GOMP_critical_name_start(void **lock)
{
    LOCK_WAIT(GOMP_critical_name_start(lock), CT_CRITICAL_WAIT, CT_CRITICAL, (uintptr_t)lock);
}
void GOMP_critical_name_end(void **lock)
{
    LOCK_RELEASE(GOMP_critical_name_end(lock), CT_CRITICAL, (uintptr_t)lock);
}
void GOMP_ordered_start(void)
{
    LOCK_WAIT(GOMP_ordered_start(), CT_ORDERED_WAIT, CT_ORDERED, 0);
}
void GOMP_ordered_end(void) { LOCK_RELEASE(GOMP_ordered_end(), CT_ORDERED, 0); }
void omp_set_lock(void *lock)
{
    LOCK_WAIT(omp_set_lock(lock), CT_LOCK_WAIT, CT_LOCK, (uintptr_t)lock);
}
void omp_unset_lock(void *lock) { LOCK_RELEASE(omp_unset_lock(lock), CT_LOCK, (uintptr_t)lock); }
