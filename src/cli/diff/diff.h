/* The comparison of `diff` and `bench` (diff_sides.c), and its output: on a terminal (diff_print.c,
 * whose first line is in diff_verdict.c), for programs (diff_files.c), and as a comment of a pull request
 * (diff_markdown.c). Cells of tables are found by column name. */
#ifndef KC_DIFF_H
#define KC_DIFF_H

#include "analyze/overview/coverage.h"
#include "cli/options.h"
#include "cli/print.h"

#include <ckineto/diff.h>

typedef struct kc_gate {
    const char *text;
    kineto_diff_verdict verdict;
} kc_gate;

#define KC_MAX_RUNS 32

typedef struct kc_diff_output {
    /* before, after: names of the runs, one unless --runs or bench has several */
    char *const *paths[2];
    uint32_t run_count[2];
    uint64_t activities[2], lost[2];
    /* the end of the file is missing */
    bool is_cut[2];
    ka_coverage coverage[2]; /* which ranks there are */
    kineto_trace *traces[2][KC_MAX_RUNS];
    kineto_analysis *facts;
    kc_gate gates[64];
    size_t gate_count;
    /* a gate failed; a gate could not be evaluated */
    bool failed, not_judged;
} kc_diff_output;

/* ---- diff_sides.c ---------------------------------------------------------------------------- */
/** Open the traces of both sides, and compare them. @param rank  only this rank; -1: all.
 *  @param d  paths and run_count are set, all else is 0; to be freed, also on failure. */
kineto_status kc_diff_compare(kc_diff_output *d, int32_t rank, const kineto_diff_options *options,
                              kineto_error *err);
/** Evaluate gates in the order of the command line; a malformed gate is an error. Gates that could
 *  not be evaluated are counted apart from those that failed. */
kineto_status kc_diff_evaluate_gates(kc_diff_output *d, const kc_texts *gates, bool without_noise,
                                     kineto_error *err);
void kc_diff_free(kc_diff_output *d);
/** Of the gates: KC_EXIT_FAILURE if one failed, KC_EXIT_USAGE if one was skipped or is inconclusive. */
int kc_diff_exit_status(const kc_diff_output *d);

/* ---- diff_print.c ---------------------------------------------------------------------------- */
void kc_diff_print(const kc_diff_output *d, uint64_t row_limit, bool all, FILE *out);
/** What differs across ranks, without the origin, the largest first. */
void kc_diff_print_ranks(const kineto_analysis *a, FILE *out);
/** After a comparison that found changes: the command that makes a gate of it. */
void kc_diff_print_next(const kc_diff_output *d, FILE *out);
/** A cell by column name; NaN, or "", if it is empty or the column is unknown. */
double kc_fact_number(const kineto_analysis *a, uint32_t table, uint64_t row, const char *column);
kineto_string kc_fact_text(const kineto_analysis *a, uint32_t table, uint64_t row,
                           const char *column);
uint64_t kc_fact_rows(const kineto_analysis *a, uint32_t table);
/** "1.234 ms"; with `sign`, "+1.234 ms". */
kb_text kc_us(double us, bool sign);
/** "step", or "run" if no trace has steps: what times are of. */
const char *kc_diff_unit(const kineto_analysis *a);
/** "mean", or "median" with --medians: what the row of the step compares. */
const char *kc_diff_middle(const kineto_analysis *a);
/** "steps" or "runs": what values are of. */
const char *kc_diff_values_are(const kineto_analysis *a);
/** "+12.4 %"; from ten times on "370 x"; empty if it is not finite. */
kb_text kc_relative_change(double pct);
/** Is a row of diff_findings about other programs on the machine, not about a change of this one? */
bool kc_is_circumstance(const kineto_analysis *a, uint32_t table, uint64_t row);
/** Do the savings of a row of diff_findings differ by less than changes of the step that the steps or runs can show? */
bool kc_is_finding_in_noise(const kineto_analysis *a, uint32_t table, uint64_t row);
/** Writes the typical call of a row of diff_calls before and after, and what it explains. */
void kc_put_typical_call(const kineto_analysis *a, uint32_t table, uint64_t row, FILE *out);
/** "95 % interval +1.2 … +3.4 %", or the reason why there is none. */
kb_text kc_interval(const kineto_analysis *a, uint32_t table, uint64_t row);

/* ---- diff_verdict.c -------------------------------------------------------------------------- */
/** Writes the origin if it is known, then one sentence, and an empty line: slower, faster, or no difference beyond noise. */
void kc_diff_print_verdict(const kc_diff_output *d, FILE *out);
/** Is the first row of diff_ranks the origin of a difference: a rank or link that makes one run longer than the other? */
bool kc_diff_has_origin(const kineto_analysis *a);
/** Writes its sentence, as a line. */
void kc_diff_print_origin(const kineto_analysis *a, FILE *out);
/** Does the origin explain half or more of a difference of the runs, in us? Then this is a consequence of it. */
bool kc_diff_is_consequence(const kineto_analysis *a, double run_delta_us);
/** The same of a difference of a step. */
bool kc_diff_is_step_consequence(const kineto_analysis *a, double step_delta_us);
/** The smallest change of the step, in percent, that its noise does not hide; NaN: not known. */
double kc_smallest_shown_pct(const kineto_analysis *a);

/* ---- diff_files.c, diff_markdown.c ----------------------------------------------------------- */
typedef kineto_status kc_diff_save(const kc_diff_output *d, const char *path, kineto_error *err);
kc_diff_save kc_diff_save_json, kc_diff_save_junit, kc_diff_save_sarif, kc_diff_save_markdown;
/** The output of `put` as a file that appears complete or not at all; "-" is the standard
 * output. */
kineto_status kc_save_text(const kc_diff_output *d, void (*put)(const kc_diff_output *d, FILE *out),
                           const char *path, kineto_error *err);
#endif
