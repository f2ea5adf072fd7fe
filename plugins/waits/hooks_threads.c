/* The hooks for waits of threads for one another, and for time.
 *
 * A mutex or rwlock is tried first: if that does not return EBUSY, its result is that of the lock
 * function, for all kinds of mutexes, and nothing is timed. After EBUSY the lock function itself
 * decides, so that an error-checking mutex returns EDEADLK as ever. The functions with a time limit
 * are not tried first, since they check clock and time in an order of their own; nor are semaphores
 * and joins, which are cancellation points also if they do not wait. */
#include "waits.h"

/* ---- locks ----------------------------------------------------------------------------------- */

static CW_COLD void record_lock(cw_site site, const cw_call *call, const void *lock, int64_t holder,
                                int result)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        cw_note_address(lock);
        kineto_value values[] = {{.u = (uintptr_t)lock}, {.i = holder}, {.i = result}};
        cw_record(site, call, values);
    }
    errno = saved;
}

/* The hook of a lock function with the parameter m. */
#define LOCK_HOOK(name, parameters, arguments, holder_of)                                          \
    KINETO_API int name parameters                                                                 \
    {                                                                                              \
        if (KINETO_LIKELY(!cw_is_recording()))                                                     \
            return cw_next.name arguments;                                                         \
        int64_t holder = holder_of(m);                                                             \
        cw_call call = cw_begin(CW_##name, cw_address(m), (uint64_t)holder,                        \
                                __builtin_return_address(0));                                      \
        int result = cw_next.name arguments;                                                       \
        record_lock(CW_##name, &call, m, holder, result);                                          \
        return result;                                                                             \
    }

/* The same with a function that is tried first, unless the lock is surely free. `wait_` is apart from the hook, so that the short
 * path needs no stack frame. */
#define TRIED_LOCK_HOOK(name, type, trier, busy, holder_of, is_free)                               \
    static CW_COLD int wait_##name(type *m, const void *caller)                                    \
    {                                                                                              \
        int64_t holder = holder_of(m);                                                             \
        cw_call call = cw_begin(CW_##name, cw_address(m), (uint64_t)holder, caller);               \
        int result = cw_next.name(m);                                                              \
        record_lock(CW_##name, &call, m, holder, result);                                          \
        return result;                                                                             \
    }                                                                                              \
    KINETO_API int name(type *m)                                                                   \
    {                                                                                              \
        if (KINETO_LIKELY(!cw_is_recording()) || is_free(m))                                       \
            return cw_next.name(m);                                                                \
        int result = cw_next.trier(m);                                                             \
        return KINETO_LIKELY(result != (busy)) ? result                                            \
                                               : wait_##name(m, __builtin_return_address(0));      \
    }

/* mtx_t is pthread_mutex_t under another name, in glibc and musl. */
static int64_t find_mtx_holder(const mtx_t *m)
{
    return cw_holder_of_mutex((const pthread_mutex_t *)(const void *)m);
}

#define NOT_KNOWN(m) false
TRIED_LOCK_HOOK(pthread_mutex_lock, pthread_mutex_t, pthread_mutex_trylock, EBUSY,
                cw_holder_of_mutex, cw_is_surely_free)
TRIED_LOCK_HOOK(mtx_lock, mtx_t, mtx_trylock, thrd_busy, find_mtx_holder, NOT_KNOWN)
TRIED_LOCK_HOOK(pthread_rwlock_rdlock, pthread_rwlock_t, pthread_rwlock_tryrdlock, EBUSY,
                cw_holder_of_rwlock, NOT_KNOWN)
TRIED_LOCK_HOOK(pthread_rwlock_wrlock, pthread_rwlock_t, pthread_rwlock_trywrlock, EBUSY,
                cw_holder_of_rwlock, NOT_KNOWN)

#define UNTIL const struct timespec *until
LOCK_HOOK(pthread_mutex_timedlock, (pthread_mutex_t * m, UNTIL), (m, until), cw_holder_of_mutex)
LOCK_HOOK(pthread_mutex_clocklock, (pthread_mutex_t * m, clockid_t clock, UNTIL), (m, clock, until),
          cw_holder_of_mutex)
LOCK_HOOK(mtx_timedlock, (mtx_t * m, UNTIL), (m, until), find_mtx_holder)
LOCK_HOOK(pthread_rwlock_timedrdlock, (pthread_rwlock_t * m, UNTIL), (m, until),
          cw_holder_of_rwlock)
LOCK_HOOK(pthread_rwlock_timedwrlock, (pthread_rwlock_t * m, UNTIL), (m, until),
          cw_holder_of_rwlock)
LOCK_HOOK(pthread_rwlock_clockrdlock, (pthread_rwlock_t * m, clockid_t clock, UNTIL),
        (m, clock, until), cw_holder_of_rwlock)
LOCK_HOOK(pthread_rwlock_clockwrlock, (pthread_rwlock_t * m, clockid_t clock, UNTIL),
        (m, clock, until), cw_holder_of_rwlock)

/* ---- conditions ------------------------------------------------------------------------------ */

static CW_COLD void record_condition(cw_site site, const cw_call *call, const void *condition,
                                     const void *mutex, int result)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        cw_note_address(condition);
        kineto_value values[] = {{.u = (uintptr_t)condition}, {.u = (uintptr_t)mutex}, {.i = result}};
        cw_record(site, call, values);
    }
    errno = saved;
}

#define CONDITION_HOOK(name, parameters, arguments)                                                \
    KINETO_API int name parameters                                                                 \
    {                                                                                              \
        if (KINETO_LIKELY(!cw_is_recording()))                                                     \
            return cw_next.name arguments;                                                         \
        cw_call call = cw_begin(CW_##name, cw_address(c), cw_address(m),                           \
                                __builtin_return_address(0));                                      \
        int result = cw_next.name arguments;                                                       \
        record_condition(CW_##name, &call, c, m, result);                                          \
        return result;                                                                             \
    }

CONDITION_HOOK(pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t *m), (c, m))
CONDITION_HOOK(pthread_cond_timedwait, (pthread_cond_t * c, pthread_mutex_t *m, UNTIL),
               (c, m, until))
CONDITION_HOOK(pthread_cond_clockwait,
               (pthread_cond_t * c, pthread_mutex_t *m, clockid_t clock, UNTIL),
               (c, m, clock, until))
CONDITION_HOOK(cnd_wait, (cnd_t * c, mtx_t *m), (c, m))
CONDITION_HOOK(cnd_timedwait, (cnd_t * c, mtx_t *m, UNTIL), (c, m, until))

/* ---- barriers, semaphores, joins, sleep ------------------------------------------------------ */

static CW_COLD void record_address(cw_site site, const cw_call *call, const void *address,
                                   int error)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        cw_note_address(address);
        kineto_value values[] = {{.u = (uintptr_t)address}, {.i = error}};
        cw_record(site, call, values);
    }
    errno = saved;
}

static CW_COLD void record_plain(cw_site site, const cw_call *call, int error)
{
    int saved = errno;
    if (cw_is_long(site, call, 0)) {
        kineto_value values[] = {{.i = error}};
        cw_record(site, call, values);
    }
    errno = saved;
}

#define ERROR_OF(result) ((result) == -1 ? errno : 0)

/* Its only result that is no error is not 0 in one of the threads. */
CW_HOOK(int, pthread_barrier_wait, (pthread_barrier_t * b), (b), CW_pthread_barrier_wait,
        cw_address(b), 0, record_address(CW_pthread_barrier_wait, &call, b, result > 0 ? result : 0))
CW_HOOK(int, sem_wait, (sem_t * s), (s), CW_sem_wait,
        cw_address(s), 0, record_address(CW_sem_wait, &call, s, ERROR_OF(result)))
CW_HOOK(int, sem_timedwait, (sem_t * s, UNTIL), (s, until), CW_sem_timedwait,
        cw_address(s), 0, record_address(CW_sem_timedwait, &call, s, ERROR_OF(result)))
CW_HOOK(int, sem_clockwait, (sem_t * s, clockid_t clock, UNTIL), (s, clock, until), CW_sem_clockwait,
        cw_address(s), 0, record_address(CW_sem_clockwait, &call, s, ERROR_OF(result)))

CW_HOOK(int, pthread_join, (pthread_t thread, void **value), (thread, value), CW_pthread_join, 0, 0,
        record_plain(CW_pthread_join, &call, result))
CW_HOOK(int, pthread_timedjoin_np, (pthread_t thread, void **value, UNTIL),
        (thread, value, until), CW_pthread_timedjoin_np, 0, 0,
        record_plain(CW_pthread_timedjoin_np, &call, result))
CW_HOOK(int, pthread_clockjoin_np, (pthread_t thread, void **value, clockid_t clock, UNTIL),
        (thread, value, clock, until), CW_pthread_clockjoin_np, 0, 0,
        record_plain(CW_pthread_clockjoin_np, &call, result))
CW_HOOK(int, thrd_join, (thrd_t thread, int *value), (thread, value), CW_thrd_join, 0, 0,
        record_plain(CW_thrd_join, &call, result == thrd_success ? 0 : result))

/* sleep and thrd_sleep report an interruption by a signal in ways of their own. */
CW_HOOK(unsigned, sleep, (unsigned seconds), (seconds), CW_sleep, 0, 0,
        record_plain(CW_sleep, &call, result ? EINTR : 0))
CW_HOOK(int, usleep, (useconds_t us), (us), CW_usleep, 0, 0,
        record_plain(CW_usleep, &call, ERROR_OF(result)))
CW_HOOK(int, nanosleep, (const struct timespec *time, struct timespec *rest), (time, rest),
        CW_nanosleep, 0, 0, record_plain(CW_nanosleep, &call, ERROR_OF(result)))
CW_HOOK(int, clock_nanosleep,
        (clockid_t clock, int flags, const struct timespec *time, struct timespec *rest),
        (clock, flags, time, rest), CW_clock_nanosleep, 0, 0,
        record_plain(CW_clock_nanosleep, &call, result))
CW_HOOK(int, thrd_sleep, (const struct timespec *time, struct timespec *rest), (time, rest),
        CW_thrd_sleep, 0, 0, record_plain(CW_thrd_sleep, &call, result == -1 ? EINTR : 0))
