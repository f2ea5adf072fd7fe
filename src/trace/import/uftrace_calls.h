/* Functions of the threads that uftrace watched, as ranges, and its records of the scheduler as states
 * of threads. Used by the readers of its directories and of the text of its dump.
 *
 * Of each thread the entries and exits are reported in order, one thread after the other; the events of
 * the scheduler in any order after that. */
#ifndef KT_UFTRACE_CALLS_H
#define KT_UFTRACE_CALLS_H

#include "trace/import/timeline.h"

/* A function that has not returned. */
typedef struct kt_uftrace_call {
    uint32_t name;  /* 0: unknown, it was entered before the first record */
    uint32_t track;
    uint64_t start_ns;
} kt_uftrace_call;

/* An event of the scheduler, or of the life of a thread. */
typedef struct kt_uftrace_event {
    uint64_t time_ns;
    uint32_t pid, tid, cpu;
    enum { KT_UFTRACE_SWITCH_OUT, KT_UFTRACE_PREEMPTED, KT_UFTRACE_SWITCH_IN, KT_UFTRACE_NAME,
           KT_UFTRACE_EXIT } what;
    kineto_string name; /* NAME: borrowed until kt_uftrace_finish */
} kt_uftrace_event;

typedef struct kt_uftrace_calls {
    kt_timeline timeline;
    kb_map last_of_track; /* time of the last record, by track */
    kt_timeline_thread *thread;  /* whose functions are reported */
    uint32_t track;
    KB_VEC(kt_uftrace_call) open; /* of that thread, the outermost first */
    KB_VEC(kt_uftrace_call) unfinished; /* of all threads before */
    KB_VEC(kt_uftrace_event) events;
    uint64_t first_ns, last_ns;
    uint64_t too_deep, without_begin, abandoned, lost;
} kt_uftrace_calls;

kineto_status kt_uftrace_create(kt_uftrace_calls *u, kineto_error *err);
void kt_uftrace_free(kt_uftrace_calls *u);
/** The thread whose functions follow. */
void kt_uftrace_select(kt_uftrace_calls *u, kt_timeline_thread *thread);
/** `depth`: the number of functions that enclose it, in its last ten bits, as uftrace counts them. */
void kt_uftrace_enter(kt_uftrace_calls *u, uint32_t name, uint32_t depth, uint64_t time_ns);
void kt_uftrace_leave(kt_uftrace_calls *u, uint32_t name, uint32_t depth, uint64_t time_ns);
/** A moment of the thread. */
void kt_uftrace_mark(kt_uftrace_calls *u, uint32_t name, uint64_t time_ns);
void kt_uftrace_add_event(kt_uftrace_calls *u, kt_uftrace_event event);
/** Applies the events, ends what is open, and adds rows of states, names, window and ledger. */
void kt_uftrace_finish(kt_uftrace_calls *u);
/** Adds a line to the ledger, unless count is 0. */
void kt_uftrace_count(kt_uftrace_calls *u, const char *reason, uint64_t count, bool is_loss);
#endif
