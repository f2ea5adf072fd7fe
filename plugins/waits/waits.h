/* The waits source: interposes the functions of libc in which threads wait for each other, for
 * files, sockets, other processes or for time, and records each call that took long.
 *
 *   functions.def     the functions
 *   next_functions.c  finds those that would be called without us
 *   hooks_threads.c   locks, conditions, barriers, semaphores, joins, sleep
 *   hooks_io.c        files, sockets, poll, processes
 *   hooks_kernel.c    futexes of programs that call the kernel by number; confinement
 *   hooks_jumps.c     longjmp, which ends an announced call
 *   call_sites.c      writes the records
 *   short_calls.c     counts calls below the threshold
 *   descriptor.c      which file or peer a descriptor is
 *   lock_holder.c     which thread holds a lock
 *   lock_names.c      which variable a lock is, at the end of the process
 *   start.c           settings, which callers are the recorder's own
 *
 * A hook calls the next function exactly once with unchanged arguments, and returns its result and
 * errno. (A mutex is tried first, and only then waited for.) It holds nothing while the next
 * function runs, so the call may be cancelled, or left by longjmp: it is not recorded then. A call
 * that never ends is in the trace because it was announced (<ckineto/record.h>, kineto_blocking). Nothing
 * here allocates, locks or waits, so hooks may run in signal handlers, at any time of a process'
 * life, and in a child of fork.
 */
#ifndef CW_WAITS_H
#define CW_WAITS_H

#include <ckineto/record.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>

#define CW_COLD   __attribute__((noinline, cold))
#if defined(__GLIBC__) && defined(__GNUC__)
#define CW_TLS __attribute__((tls_model("initial-exec")))
#else
#define CW_TLS
#endif

/* ---- next_functions.c ------------------------------------------------------------------------ */

/* Never NULL: before they are found, members point to functions that find them. */
typedef struct cw_functions {
#define FUNCTION(type, name, missing, parameters, arguments) type(*name) parameters;
#define TRIER(type, name, missing, parameters, arguments)    type(*name) parameters;
#define VARIADIC(type, name, parameters, arguments, declared) type(*name) declared;
#include "functions.def"
} cw_functions;
extern cw_functions cw_next;
/** Find all functions. Several threads may do so at once, with the same result. */
void cw_find_functions(void);

/* ---- call_sites.c ---------------------------------------------------------------------------- */

/** Functions as they are named in the trace, by the arguments of their records:
 *  X(NAME, arguments). */
#define CW_SITE_MAP(X)                                                                             \
    X(pthread_mutex_lock, LOCK)                                                                    \
    X(pthread_mutex_timedlock, LOCK)                                                               \
    X(pthread_mutex_clocklock, LOCK)                                                               \
    X(mtx_lock, LOCK)                                                                              \
    X(mtx_timedlock, LOCK)                                                                         \
    X(pthread_rwlock_rdlock, LOCK)                                                                 \
    X(pthread_rwlock_wrlock, LOCK)                                                                 \
    X(pthread_rwlock_timedrdlock, LOCK)                                                            \
    X(pthread_rwlock_timedwrlock, LOCK)                                                            \
    X(pthread_rwlock_clockrdlock, LOCK)                                                            \
    X(pthread_rwlock_clockwrlock, LOCK)                                                            \
    X(pthread_cond_wait, CONDITION)                                                                \
    X(pthread_cond_timedwait, CONDITION)                                                           \
    X(pthread_cond_clockwait, CONDITION)                                                           \
    X(cnd_wait, CONDITION)                                                                         \
    X(cnd_timedwait, CONDITION)                                                                    \
    X(pthread_barrier_wait, ADDRESS)                                                               \
    X(sem_wait, ADDRESS)                                                                           \
    X(sem_timedwait, ADDRESS)                                                                      \
    X(sem_clockwait, ADDRESS)                                                                      \
    X(futex, ADDRESS)                                                                              \
    X(pthread_join, PLAIN)                                                                         \
    X(pthread_timedjoin_np, PLAIN)                                                                 \
    X(pthread_clockjoin_np, PLAIN)                                                                 \
    X(thrd_join, PLAIN)                                                                            \
    X(sleep, PLAIN)                                                                                \
    X(usleep, PLAIN)                                                                               \
    X(nanosleep, PLAIN)                                                                            \
    X(clock_nanosleep, PLAIN)                                                                      \
    X(thrd_sleep, PLAIN)                                                                           \
    X(read, TRANSFER)                                                                              \
    X(pread, TRANSFER)                                                                             \
    X(readv, TRANSFER)                                                                             \
    X(write, TRANSFER)                                                                             \
    X(pwrite, TRANSFER)                                                                            \
    X(writev, TRANSFER)                                                                            \
    X(sendfile, TRANSFER)                                                                          \
    X(recv, TRANSFER)                                                                              \
    X(recvfrom, TRANSFER)                                                                          \
    X(recvmsg, TRANSFER)                                                                           \
    X(send, TRANSFER)                                                                              \
    X(sendto, TRANSFER)                                                                            \
    X(sendmsg, TRANSFER)                                                                           \
    X(fsync, FILE)                                                                                 \
    X(fdatasync, FILE)                                                                             \
    X(flock, FILE)                                                                                 \
    X(open, FILE)                                                                                  \
    X(openat, FILE)                                                                                \
    X(close, FILE)                                                                                 \
    X(connect, FILE)                                                                               \
    X(accept, FILE)                                                                                \
    X(accept4, FILE)                                                                               \
    X(poll, POLL)                                                                                  \
    X(ppoll, POLL)                                                                                 \
    X(select, POLL)                                                                                \
    X(pselect, POLL)                                                                               \
    X(epoll_wait, POLL)                                                                            \
    X(epoll_pwait, POLL)                                                                           \
    X(epoll_pwait2, POLL)                                                                          \
    X(wait, CHILD)                                                                                 \
    X(waitpid, CHILD)                                                                              \
    X(wait4, CHILD)                                                                                \
    X(waitid, CHILD)
typedef enum cw_site {
#define CW_X(name, arguments) CW_##name,
    CW_SITE_MAP(CW_X)
#undef CW_X
        CW_SITE_COUNT
} cw_site;

/** A call that is under way. */
typedef struct cw_call {
    kineto_blocking open; /* its announcement, and when it began */
    uint64_t ns;          /* the same, CLOCK_MONOTONIC */
    bool is_recorder;     /* by code of the recorder: neither announced nor recorded */
} cw_call;

static inline bool cw_is_recording(void) { return kineto_enabled(KINETO_KIND_BLOCKING_CALL); }
static inline uint64_t cw_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
/** Begin a call: announce it, with the arguments that are known before it ends (args_open_… in
 *  call_sites.c). errno stays. */
cw_call cw_begin(cw_site site, uint64_t first, uint64_t second, const void *caller);
/** Did the call take long? Then it is to be recorded by cw_record; else it is over, and counted. */
bool cw_is_long(cw_site site, const cw_call *call, int64_t bytes);
/** Write the record of a long call. `values`: by the site's arguments, in the order of
 *  call_sites.c. */
void cw_record(cw_site site, const cw_call *call, const kineto_value *values);

/* ---- short_calls.c --------------------------------------------------------------------------- */
/** Map the counters. */
void cw_short_calls_start(void);
/** Count a call that was shorter than the threshold, and write the counters once a second. */
void cw_count_short_call(cw_site site, uint64_t ns, int64_t bytes, uint64_t now_ns);
/** Write all counters of this process that are not 0. */
void cw_write_short_calls(void);

/* ---- descriptor.c ---------------------------------------------------------------------------- */
#define CW_FILE_BYTES 512u
/** "/path", "pipe:[7]", "tcp 127.0.0.1:80", "unix /run/socket"; "" if it is not known. */
void cw_describe_descriptor(int fd, char text[CW_FILE_BYTES]);
/** The same of a socket of this type that has (or would have) this peer. */
void cw_describe_address(int fd, const struct sockaddr *address, socklen_t size, const char *word,
                         char text[CW_FILE_BYTES]);
void cw_copy_text(char *out, size_t size, const char *text);

/* ---- lock_holder.c --------------------------------------------------------------------------- */
/** Find out which libc this process has. */
void cw_lock_holder_start(void);
/** Thread (gettid) that holds the lock now; 0: not known. */
int64_t cw_holder_of_mutex(const pthread_mutex_t *m);
int64_t cw_holder_of_rwlock(const pthread_rwlock_t *m);
/** glibc's: not 0 as long as the process has one thread. NULL: not known. */
extern const char *cw_single_threaded;
/** Nobody can hold a free mutex of a process with one thread when it is locked, unless processes share it.
 *  glibc then locks without an atomic instruction, which trying it first would add. */
static inline bool cw_is_surely_free(const pthread_mutex_t *m)
{
#ifdef __GLIBC__
    const int process_shared = 128; /* in __kind */
    return cw_single_threaded && *(const volatile char *)cw_single_threaded && !m->__data.__lock &&
           !(m->__data.__kind & process_shared);
#else
    (void)m;
    return false;
#endif
}

/* ---- lock_names.c ---------------------------------------------------------------------------- */
/** Remember an address that is to be named at the end; some of more than 256 are not. */
void cw_note_address(const void *address);
/** Write the names of all variables among them to the header of the trace. */
void cw_write_names(void);

/* ---- hooks_kernel.c -------------------------------------------------------------------------- */
/** The process has restricted its system calls (seccomp), so that a call that it does not make
 *  itself might kill it: nothing is looked up any more. */
bool cw_is_confined(void);

/* ---- hooks_jumps.c --------------------------------------------------------------------------- */
void cw_find_jumps(void);

/* ---- start.c --------------------------------------------------------------------------------- */
#define CW_THRESHOLD_US 20u /* the default */
extern uint32_t cw_threshold_us;
extern uint64_t cw_threshold_ns; /* the same */
/** Is it code of the recorder, whose waits are not the program's? */
bool cw_is_recorder(const void *caller);

static inline uint64_t cw_address(const volatile void *address) { return (uintptr_t)address; }

/* A hook that hands the call to `record`, an expression of `result`. `site`, `first`, `second`: of
 * cw_begin. */
#define CW_HOOK(type, name, parameters, arguments, site, first, second, record)                    \
    KINETO_API type name parameters                                                                \
    {                                                                                              \
        if (KINETO_LIKELY(!cw_is_recording()))                                                     \
            return cw_next.name arguments;                                                         \
        cw_call call = cw_begin(site, first, second, __builtin_return_address(0));                 \
        type result = cw_next.name arguments;                                                      \
        record;                                                                                    \
        return result;                                                                             \
    }
#endif
