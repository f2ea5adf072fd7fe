/* Counters of the processor and the kernel for the calling thread (perf_event_open), read at the
 * beginning and the end of an operator. What a machine or container does not provide is reported as
 * absent; a substitute is used only under another name. */
#ifndef KR_PERF_H
#define KR_PERF_H

#include "record/record.h"

/** Where a counter comes from. */
typedef enum kr_perf_source {
    KR_PERF_NONE = 0,      /* not available here: it reads 0, and has no name */
    KR_PERF_PROCESSOR = 1, /* its counters, by perf_event_open */
    KR_PERF_KERNEL = 2,    /* counted by the kernel, by perf_event_open */
    KR_PERF_USAGE = 3 /* getrusage and the thread's clock, because perf_event_open is refused */
} kr_perf_source;

/** Find out which of these can be counted here. Names are PyTorch's (cycles, instructions,
 * pagefaults, backend-stall-cycles, frontend-stall-cycles) and those of the kernel's own counters
 * (task-clock, page-faults, minor-faults, major-faults, context-switches, cpu-migrations).
 *  @param out     on success at least one can be counted.
 *  @param absent  may be NULL; on success it receives, for those that cannot be counted or only by
 *                 other means, the reason and what to do. Untouched if there are none.
 *  @return KINETO_E_ARGUMENT for an unknown name, or one stated twice; KINETO_E_LIMIT for more than
 *          KR_PERF_MAX; if none can be counted KINETO_E_PERMISSION or KINETO_E_UNSUPPORTED, with
 * what to do. threads: any. */
kineto_status kr_perf_prepare(const char *const *names, size_t count, kr_perf_plan *out,
                              kineto_error *absent, kineto_error *err);
/** The name to show for counter i: for USAGE with " (getrusage)" appended; NULL for NONE.
 * Static. */
const char *kr_perf_name(const kr_perf_plan *plan, uint32_t i);

/** Counters of one thread; zeroed: none. Not passed on to a fork's child. */
typedef struct kr_perf_thread {
    kr_perf_plan plan;
    int32_t file[KR_PERF_MAX]; /* descriptor + 1; 0: none */
    uint8_t slot[KR_PERF_MAX]; /* place in what a read of the first one gives */
    uint8_t leader;            /* + 1; 0: no file at all */
    uint8_t in_user;           /* all can be read without entering the kernel */
    void *page[KR_PERF_MAX];
} kr_perf_thread;

/** Begin to count for the calling thread. On an error t is zeroed. threads: any.
 */
kineto_status kr_perf_open(kr_perf_thread *t, const kr_perf_plan *plan, kineto_error *err);
void kr_perf_close(kr_perf_thread *t);

/** One reading; only differences mean something. */
typedef struct kr_perf_values {
    uint64_t value[KR_PERF_MAX];
    uint64_t wanted_ns, counted_ns; /* they grow alike, unless others used the counters meanwhile */
} kr_perf_values;
/** Read all, of the calling thread's own t: with RDPMC where the kernel lets the program (some 10
 * ns a counter), else by a system call. threads: hot. */
void kr_perf_read(const kr_perf_thread *t, kr_perf_values *out);
/** end - begin, in place in *end. Where counted_ns is less than wanted_ns the processor counted
 * something else for part of the time, and the numbers are too small. Never scaled up: an operator
 * is too short for that. */
void kr_perf_since(const kr_perf_values *begin, kr_perf_values *end);

/** For tests: stands in for perf_event_open; returns a descriptor, or -1 with errno. NULL: the
 * kernel. */
struct perf_event_attr;
extern int (*kr_perf_open_instead)(struct perf_event_attr *attr, int group);
#endif
