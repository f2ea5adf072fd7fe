/* The profiler around the training loop, and the reports that are written at the end. */
#ifndef TRANSFORMER_PROFILE_H
#define TRANSFORMER_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

typedef struct profile_options {
    /* NULL: nothing is written. */
    const char *directory;
    uint64_t wait, warmup, active, repeat;
    uint64_t buffer_mib;
    bool stacks;
    /* Write the trace of each cycle, else only that of the last one. */
    bool each_cycle;
} profile_options;

/* Totals over all cycles. */
typedef struct profile_totals {
    uint64_t cycles, operators, lost;
    /* Peak memory of the process after three cycles and now. */
    uint64_t peak_kib_early, peak_kib;
} profile_totals;

/* Functions that return bool print an error before they return false. */
bool profile_start(const profile_options *options);
bool profile_step(void);
/* True if the current step is recorded and kept. */
bool profile_is_recording(void);
bool profile_stop(void);
/* Print the tables and write the files to the directory. */
bool profile_report(void);
void profile_close(void);
profile_totals profile_get_totals(void);

#endif
