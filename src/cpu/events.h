/* The kernel's events about a program (perf_event_open(2)), as one sequence in order of time. */
#ifndef KU_EVENTS_H
#define KU_EVENTS_H

#include "trace/unwind/unwind.h"

/* What the kernel lets this user see of the program, from the most to the least. */
typedef enum ku_rights {
    KU_RIGHTS_KERNEL, /* also what it does inside the kernel: CAP_PERFMON, or a low perf_event_paranoid */
    KU_RIGHTS_USER,   /* the ordinary user's */
    KU_RIGHTS_NONE    /* perf_event_open is not allowed: a container's filter, for example */
} ku_rights;

typedef enum ku_event_type {
    KU_EVENT_SAMPLE,
    KU_EVENT_STACK_BEFORE, /* of a thread that loses its CPU next: as SAMPLE, without a period */
    KU_EVENT_FAULT, /* as SAMPLE: the thread touched memory that was not mapped yet; `count` of them */
    KU_EVENT_WAKING, /* it wakes another thread, which can run from then on */
    KU_EVENT_SWITCH_IN,
    KU_EVENT_SWITCH_OUT,
    KU_EVENT_FORK, /* a thread or a process was created */
    KU_EVENT_EXIT, /* a thread ended */
    KU_EVENT_NAME, /* a thread got a name */
    KU_EVENT_EXEC, /* the same by executing a program: the memory of the process is new */
    KU_EVENT_MAP,  /* code was mapped */
    KU_EVENT_LOST /* `count` events are missing, which the kernel had no room for */
} ku_event_type;

typedef struct ku_event {
    ku_event_type type;
    uint32_t pid, tid, cpu;
    uint64_t time_ns; /* CLOCK_MONOTONIC_RAW */
    /* SAMPLE */
    uint64_t period_ns;  /* CPU time of the thread since its last sample */
    ku_stack_copy stack; /* size 0: none was copied */
    const uint64_t *kernel_frames;
    uint32_t kernel_frame_count;
    /* SWITCH_OUT: it could have gone on, but another thread got the CPU */
    bool is_preempted;
    /* FAULT: something was read for it */
    bool is_major;
    /* WAKING */
    uint32_t woken_tid;
    bool is_interrupt; /* an interrupt wakes it, on the CPU of the thread */
    /* FORK */
    uint32_t parent_pid, parent_tid;
    /* MAP */
    uint64_t start, bytes, file_offset;
    /* NAME, EXEC, MAP: the file */
    const char *name;
    /* FAULT, LOST */
    uint64_t count;
} ku_event;

#define KU_MINOR_FAULTS 64u

typedef struct ku_events_options {
    uint32_t pid;       /* the program's first thread */
    bool at_exec;       /* it is a process of this one that waits, and then executes the program */
    uint32_t hz;        /* samples for each second of CPU time; 0: none */
    bool off_cpu;       /* also STACK_BEFORE and WAKING: needs KU_RIGHTS_KERNEL */
    bool page_faults;   /* also FAULT: each major one, one of KU_MINOR_FAULTS minor ones */
    uint32_t stack_bytes; /* copied of each stack; a multiple of 8 */
    size_t ring_bytes;  /* wanted for each CPU; less is taken where the user may not lock so much */
} ku_events_options;

typedef struct ku_events ku_events;
/** Events of the first thread and all that it will start.
 *  @return KINETO_E_PERMISSION: not allowed, err says by what. KINETO_E_NOT_FOUND: it has ended.
 *  KINETO_E_UNSUPPORTED, KINETO_E_LIMIT. */
kineto_status ku_events_open(const ku_events_options *options, ku_events **out, kineto_error *err);
/** Do samples have registers and stack? Not on all kinds of processors. */
bool ku_events_have_stacks(void);
/** What was allowed. */
ku_rights ku_events_rights(const ku_events *e);
/** Is it known who wakes threads? It needs off_cpu, KU_RIGHTS_KERNEL and tracefs. */
bool ku_events_sees_wakeups(const ku_events *e);
/** Wait until much has come together, at most timeout_ms. */
void ku_events_wait(ku_events *e, int timeout_ms);
/** Pass what has come to `handle`, in order of time, but for the last moment, whose events may not
 *  all be there yet. With `all`: everything. Pointers in an event are valid during the call. */
typedef void ku_event_handler(void *context, const ku_event *event);
/** @return events up to that moment (CLOCK_MONOTONIC_RAW) have been passed. */
uint64_t ku_events_drain(ku_events *e, bool all, ku_event_handler *handle, void *context);
void ku_events_close(ku_events *e); /* NULL is fine */

/** Also the events of another thread, which was there before, and of all that it will start.
 *  @return 0 or an errno: ESRCH, EMFILE, … */
int ku_events_add_thread(ku_events *e, uint32_t tid);
/** A thread and the moment (CLOCK_MONOTONIC_RAW) since when it, and what it starts, is sampled; 0: it
 *  has ended. */
typedef struct ku_sampled_thread {
    uint32_t tid;
    uint64_t since_ns;
} ku_sampled_thread;
/** Sample at another rate. `threads` are all that there are; what they have started before `since_ns` is
 *  to be added one by one. */
void ku_events_set_hz(ku_events *e, uint32_t hz, ku_sampled_thread *threads, size_t count);
/** Sample one more thread, whose other events come already. @return 0 or an errno. */
int ku_events_add_sampler(ku_events *e, uint32_t tid);
/** CPU time that one sample takes from a sampled program, measured on the calling thread in a few
 *  milliseconds; nothing else reads these samples. @return ns; 0: it cannot be measured. */
uint64_t ku_events_measure_sample_ns(const ku_events *e);
#endif
