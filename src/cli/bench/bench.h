/* `ckineto bench`: runs of one or two commands, recorded each (bench_runs.c), and what their times are
 * (bench_print.c). The comparison is that of `ckineto diff --runs`. */
#ifndef KC_BENCH_H
#define KC_BENCH_H

#include "cli/diff/diff.h"

/* One or two commands, and where their traces are. */
typedef struct kc_bench_runs {
    const char *directory;
    /* arguments of each command, NULL at the end; the second is unused with one command */
    char *const *commands[2];
    uint32_t command_count, repeat, warm_up;
    /* options of `ckineto record` */
    const kc_texts *record_options;
    bool ignore_failures, show_output;
    /* paths of the traces; set by kc_bench_record */
    char *traces[2][KC_MAX_RUNS];
} kc_bench_runs;

/** Run everything: warm-up without recording, then the commands in turn. Progress goes to a terminal.
 *  @param b  to be freed, also on failure. @return KINETO_E_STATE if a command failed. */
kineto_status kc_bench_record(kc_bench_runs *b, kineto_error *err);
void kc_bench_free(kc_bench_runs *b);

/** A line for each command, what recording took, and with two commands which is faster. */
void kc_bench_print(const kc_bench_runs *b, const kc_diff_output *d, FILE *out);
#endif
