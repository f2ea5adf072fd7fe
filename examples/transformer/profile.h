/* The profiler around the training loop, and what is written when it is over. */
#ifndef TRANSFORMER_PROFILE_H
#define TRANSFORMER_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct profile_options {
    const char *directory; /* NULL: nothing is written */
    uint64_t wait, warmup, active, repeat;
    uint64_t buffer_mib;
    bool stacks;
    bool each_cycle; /* write the trace of each cycle, else that of the last one */
} profile_options;

/* What was recorded, over all cycles. */
typedef struct profile_totals {
    uint64_t cycles, operators, lost;
    uint64_t peak_kib_early, peak_kib; /* memory of the process: after three cycles, at the end */
} profile_totals;

/* All return false after having printed what went wrong. */
bool profile_start(const profile_options *options);
bool profile_step(void);
/* Is the step that runs now one that will be kept? */
bool profile_is_recording(void);
bool profile_stop(void);
/* The tables on the standard output, the files in the directory. */
bool profile_report(void);
void profile_close(void);
profile_totals profile_get_totals(void);

#endif
