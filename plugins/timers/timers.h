/* Sampled stacks where the kernel's events are refused (record --cpu-timers, docs/reference/cpu.md):
 * each thread gets a timer of its CPU time, whose signal interrupts it; the handler copies registers
 * and the top of the stack into memory that the recorder shares, and the recorder unwinds them.
 *
 *   sample.c   the signal handler
 *   threads.c  timers of threads: start and end of threads, fork
 *   hooks.c    the interposed functions: creation of threads, use of signals
 *   start.c    the shared memory, the choice of a signal, the cost of a sample
 *
 * The handler allocates nothing, takes no lock, preserves errno, and calls only functions that POSIX
 * allows in signal handlers. Registers are copied rather than followed here, because the unwinder of
 * libgcc may lock, and because so one unwinder serves both kinds of samples. */
#ifndef CS_TIMERS_H
#define CS_TIMERS_H

#include <ckineto/base.h>

#include "../../src/format/timers.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <threads.h>

#if defined(__GLIBC__) && defined(__GNUC__)
#define CS_TLS __attribute__((tls_model("initial-exec")))
#else
#define CS_TLS
#endif

/* ---- start.c --------------------------------------------------------------------------------- */

extern kf_timers *cs_memory; /* NULL: this process is not sampled */
extern int cs_signal;
/** Is the recorder in this pid namespace? Else it would take this process for another one. */
bool cs_is_in_namespace_of(const kf_timers *m);
/** Are threads of this process sampled now? Async-signal-safe. */
bool cs_is_on(void);
/** The program uses our signal itself: delete all timers, for good. Async-signal-safe. */
void cs_stand_aside(void);
void cs_count(kf_timers_counter what, uint64_t count);

/* ---- sample.c -------------------------------------------------------------------------------- */

/** The slot to be filled, or NULL: none is free. */
kf_slot *cs_slot_claim(kf_slot_type type);
void cs_slot_publish(const kf_slot *slot);
/** The signal handler. */
void cs_handle_signal(int number, siginfo_t *info, void *context);

/* ---- threads.c ------------------------------------------------------------------------------- */

typedef struct cs_thread {
    uint32_t tid;
    uint32_t entry;     /* + 1: of the list of timers; 0: it has no timer */
    int timer;          /* the kernel's id */
    uint64_t period_ns; /* that it was set to */
    bool is_measuring;  /* the handler's cost: samples are not published */
} cs_thread;
extern __thread cs_thread cs_me CS_TLS;

/** Begin to sample the calling thread. */
void cs_thread_begin(void);
/** Stop. Async-signal-safe. */
void cs_thread_end(void);
/** Set the calling thread's timer to the recorder's rate. Async-signal-safe. */
void cs_thread_set_period(uint64_t period_ns, uint64_t first_ns);
/** Delete the timers of all threads. Async-signal-safe. */
void cs_timers_delete_all(void);
bool cs_threads_init(void);

/* ---- hooks.c --------------------------------------------------------------------------------- */

/* The functions that would be called without us. */
typedef struct cs_functions {
    int (*pthread_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int (*thrd_create)(thrd_t *, thrd_start_t, void *);
    void (*(*signal)(int, void (*)(int)))(int);
    void (*(*sysv_signal)(int, void (*)(int)))(int);
    int (*sigaction)(int, const struct sigaction *, struct sigaction *);
    int (*pthread_sigmask)(int, const sigset_t *, sigset_t *);
    int (*sigprocmask)(int, const sigset_t *, sigset_t *);
} cs_functions;
/** Found on first use. Several threads may do so at once, with the same result. */
const cs_functions *cs_next(void);
/** Does it have all real-time signals? Then the program means all signals, and not this one. */
bool cs_is_set_of_all(const sigset_t *set);
#endif
