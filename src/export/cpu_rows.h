/* Rows of the source "cpu" for writers: which thread a track with states or samples is of, and the
 * numbers in the args of its activities (docs/reference/cpu.md). */
#ifndef KE_CPU_ROWS_H
#define KE_CPU_ROWS_H

#include "export/export.h"

typedef enum ke_cpu_row_type { KE_CPU_ROW_NONE, KE_CPU_ROW_STATE, KE_CPU_ROW_SAMPLES } ke_cpu_row_type;

/** What a track shows of a thread; *tid is its number. KE_CPU_ROW_NONE: another track. */
ke_cpu_row_type ke_cpu_track(const kineto_trace *trace, uint32_t track, uint32_t *tid);
/** "thread 42 (worker)": the name of such a track (and of no other) without what it shows. */
ke_label ke_cpu_thread_label(const kineto_trace *trace, uint32_t track);
/** The name of the thread within that label; empty if it has none. */
kineto_string ke_cpu_thread_name(const ke_label *label);

/* What a range of samples stands for. */
typedef struct ke_sampled {
    int64_t cpu_ns, samples; /* not negative */
} ke_sampled;
ke_sampled ke_sampled_of(const kineto_trace *trace, kineto_row row);

/** True if a row has this kind. */
bool ke_row_is_kind(const kineto_trace *trace, kineto_row row, uint32_t kind);

/* States of threads, by the names of their activities. */
typedef enum ke_state { KE_STATE_RUNNING, KE_STATE_WAITING, KE_STATE_BLOCKED, KE_STATE_COUNT } ke_state;
/** The state of a row of kind thread_state; KE_STATE_COUNT: its name is another one. */
ke_state ke_state_of(const kineto_trace *trace, kineto_row row);
/** The CPU of a running state. False: not recorded. */
bool ke_state_cpu(const kineto_trace *trace, kineto_row row, uint32_t *cpu);
/** The stack with which a thread was blocked, the innermost frame first, each followed by ";".
 *  Empty: not recorded. Valid until the next call for another row. */
kineto_string ke_state_stack(const kineto_trace *trace, kineto_row row);

/* A frame in the text of a stack: "file(line): function", "module!function" or "module+0x1f20". */
typedef struct ke_stack_frame {
    kineto_string function, file; /* file: of the source or, without a line, of the code */
    uint32_t line;                /* 0: not known */
} ke_stack_frame;
/** Splits the innermost frame off. False: there is none. */
bool ke_stack_next(kineto_string *stack, ke_stack_frame *frame);
#endif
