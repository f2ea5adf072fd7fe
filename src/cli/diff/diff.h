/* The output of `diff`: on a terminal (diff_print.c), for programs (diff_files.c), and as a comment
 * of a pull request (diff_markdown.c). Cells of tables are found by column name. */
#ifndef KC_DIFF_H
#define KC_DIFF_H

#include "cli/options.h"
#include "cli/print.h"

#include <ckineto/diff.h>

typedef struct kc_gate {
    const char *text;
    kineto_diff_verdict verdict;
} kc_gate;

typedef struct kc_diff_output {
    const char *paths[2]; /* before, after */
    uint64_t activities[2], lost[2];
    /* the end of the file is missing */
    bool is_cut[2];
    const kineto_analysis *facts;
    kc_gate gates[64];
    size_t gate_count;
    /* a gate failed; a gate could not be evaluated */
    bool failed, not_judged;
} kc_diff_output;

/* ---- diff_print.c ---------------------------------------------------------------------------- */
void kc_diff_print(const kc_diff_output *d, uint64_t row_limit, bool all, FILE *out);
/** A cell by column name; NaN, or "", if it is empty or the column is unknown. */
double kc_fact_number(const kineto_analysis *a, uint32_t table, uint64_t row, const char *column);
kineto_string kc_fact_text(const kineto_analysis *a, uint32_t table, uint64_t row,
                           const char *column);
uint64_t kc_fact_rows(const kineto_analysis *a, uint32_t table);
/** "1.234 ms"; with `sign`, "+1.234 ms". */
kb_text kc_us(double us, bool sign);
/** "95 % interval +1.2 … +3.4 %", or the reason why there is none. */
kb_text kc_interval(const kineto_analysis *a, uint32_t table, uint64_t row);

/* ---- diff_files.c, diff_markdown.c ----------------------------------------------------------- */
typedef kineto_status kc_diff_save(const kc_diff_output *d, const char *path, kineto_error *err);
kc_diff_save kc_diff_save_json, kc_diff_save_junit, kc_diff_save_sarif, kc_diff_save_markdown;
/** The output of `put` as a file that appears complete or not at all; "-" is the standard
 * output. */
kineto_status kc_save_text(const kc_diff_output *d, void (*put)(const kc_diff_output *d, FILE *out),
                           const char *path, kineto_error *err);
#endif
