/* Processes and threads of an imported recording: follows what they do in order of time, and puts it
 * into the state from which rows of thread states and of sampled functions are made
 * (from_recording/build_watched.c, build_samples.c). Used by the readers of perf's files. */
#ifndef KT_TIMELINE_H
#define KT_TIMELINE_H

#include "trace/from_recording/build.h"
#include "trace/unwind/unwind.h"

/* The image of a process between two executions of programs. */
typedef struct kt_timeline_process {
    uint32_t index; /* in the state's processes */
    bool has_samples;
    ku_address_space space;
} kt_timeline_process;

typedef struct kt_timeline_thread {
    uint32_t pid, tid, process; /* process: index in kt_timeline.processes */
    uint32_t index;             /* in the state's threads */
    uint32_t cpu;
    uint64_t on_ns;             /* when it got its CPU; 0: it has none, or that is unknown */
    uint64_t born_ns;           /* or was seen first */
    bool is_born_here, has_runs;
    kt_build_sample before;     /* its stack when it lost its CPU last; count 0: unknown */
} kt_timeline_thread;

typedef struct kt_timeline {
    kt_build_state *s;
    KB_VEC(kt_timeline_process *) processes;
    KB_VEC(kt_timeline_thread *) threads;
    kb_map process_of_pid, thread_of_tid; /* the latest with this number → index + 1; 0: ended */
    uint64_t image_count;
    size_t copied_mappings;
    bool has_states; /* switches were recorded */
} kt_timeline;

kineto_status kt_timeline_create(kt_timeline *t, kineto_error *err);
void kt_timeline_free(kt_timeline *t);

/** The thread, which is added if it is not known; NULL: out of memory, or no thread of a program. */
kt_timeline_thread *kt_timeline_find_thread(kt_timeline *t, uint32_t pid, uint32_t tid,
                                            uint64_t time_ns);
/** The process of a thread. */
static inline kt_timeline_process *kt_timeline_process_of(const kt_timeline *t,
                                                          const kt_timeline_thread *thread)
{
    return t->processes.data[thread->process];
}
/** The thread with this number, of whatever process; NULL: unknown. */
kt_timeline_thread *kt_timeline_known_thread(const kt_timeline *t, uint32_t tid);
/** The current image of a process, which is added if it is not known; NULL: out of memory. */
kt_timeline_process *kt_timeline_find_process(kt_timeline *t, uint32_t pid);

/** A thread or process was created. time_ns 0: it was there before. */
void kt_timeline_fork(kt_timeline *t, uint32_t pid, uint32_t tid, uint32_t parent_pid,
                      uint64_t time_ns);
void kt_timeline_exit(kt_timeline *t, uint32_t tid, uint64_t time_ns);
/** A thread got a name, which is copied; by_exec: it executed a program. */
void kt_timeline_name(kt_timeline *t, kt_timeline_thread *thread, kineto_string name, bool by_exec,
                      uint64_t time_ns);
void kt_timeline_switch_in(kt_timeline_thread *thread, uint32_t cpu, uint64_t time_ns);
void kt_timeline_switch_out(kt_timeline *t, kt_timeline_thread *thread, bool is_preempted,
                            uint64_t time_ns);
/** A thread can run again. */
void kt_timeline_wake(kt_timeline *t, const kt_timeline_thread *thread, uint64_t time_ns);
/** A stack; its addresses are copied. blocked: of a thread that loses its CPU next. */
void kt_timeline_sample(kt_timeline *t, kt_timeline_thread *thread, kt_build_sample sample,
                        bool is_blocked);
/** Closes what is open at the end. */
void kt_timeline_finish(kt_timeline *t, uint64_t time_ns);
#endif
