/* Opening one trace from several files and directories, the options of reading that all such verbs
 * share, and checks of output files. */
#ifndef KC_OPEN_MANY_H
#define KC_OPEN_MANY_H

#include "analyze/facts/trace_clocks.h"
#include "analyze/overview/coverage.h"
#include "cli/cli.h"

#include <ckineto/files.h>

/** How traces are read, as set by KC_READING_OPTIONS. */
extern kineto_open_options kc_reading;
#define KC_MEMORY_OPTION                                                                           \
    {                                                                                              \
        "mem", 0, KC_SIZE, &kc_reading.memory_bytes, "SIZE",                                       \
            "keep at most SIZE in memory (512M, 2G); the rest goes to\na temporary file in "       \
            "$TMPDIR or /var/tmp"                                                                  \
    }
#define KC_TS_UNIT_OPTION                                                                          \
    {                                                                                              \
        "ts-unit", 0, KC_TS_UNIT, &kc_reading.ts_unit_ns, "ns|us|ms|s",                            \
            "unit of \"ts\" and \"dur\" in the file (us)"                                          \
    }
/** The options of every verb that reads traces. */
#define KC_READING_OPTIONS KC_MEMORY_OPTION, KC_TS_UNIT_OPTION
/** Names of steps, as set by KC_STEP_OPTION; NULL: the default ones. */
extern const char *kc_step_pattern;
#define KC_STEP_OPTION                                                                             \
    {"step-pattern",                                                                               \
     0,                                                                                            \
     KC_TEXT,                                                                                      \
     &kc_step_pattern,                                                                             \
     "PATTERN",                                                                                    \
     "names of the ranges that are steps: a * matches any text,\n| separates "                     \
     "alternatives (ProfilerStep#N, or the steps of\nSGLang and vLLM, or ranges that repeat)"}
/** Set by KC_ALIGN_OPTION: the clocks of several hosts are left as they are recorded. */
extern bool kc_no_align;
#define KC_ALIGN_OPTION                                                                            \
    {                                                                                              \
        "no-align", 0, KC_FLAG, &kc_no_align, NULL,                                                \
            "leave the clocks of several hosts as they are recorded"                               \
    }
/** Parse the value of --rank. @param text  NULL: not given, *rank is -1. A mistake is reported. */
kineto_status kc_parse_rank(const char *verb, const char *text, int32_t *rank);
/** The rank of a trace; if the file does not contain it, `index`. */
int32_t kc_trace_rank(const kineto_trace *trace, const char *path, uint32_t index);
/** Is this exactly one file, and not a directory? */
bool kc_is_one_file(char *const *paths, int count);
/** Open all files as one trace; only of one rank if `rank` >= 0. A terminal shows the progress. Files that cannot be
 * read are left out. Traces of several hosts are put on one clock, but for kc_no_align; if that is not possible,
 * a warning says why. Which ranks there are, and errors and warnings of the merge, are printed on stderr. On failure
 * nothing was printed. */
kineto_status kc_open_traces(char *const *paths, int count, int32_t rank, kineto_trace **out,
                      kineto_error *err);
/** The same for a verb that shows the ranks itself: they are added to *coverage, and not printed. */
kineto_status kc_open_covered_traces(char *const *paths, int count, int32_t rank, ka_coverage *coverage,
                                     kineto_trace **out, kineto_error *err);
/** The same with clocks that are known already; without a note, times are as recorded. */
kineto_status kc_open_aligned(char *const *paths, int count, ka_trace_clocks *clocks, ka_coverage *coverage,
                              kineto_trace **out, kineto_error *err);
/** Do both paths lead to the same existing file? */
bool kc_is_same_file(const char *one, const char *other);
/** Is this a JSON file with a list of trace events? Looks at its first bytes only. */
bool kc_is_trace_file(const char *path);
/** Check that writing the outputs does not replace an input, another output or, unless the outputs
 * are traces, any trace. NULLs are skipped. KINETO_E_ARGUMENT: it would, and was reported. */
kineto_status kc_check_outputs(const char *verb, char *const *paths, int count,
                               const char *const *outputs, size_t output_count, bool are_traces);
/** The files of one answer, read one after the other. Damaged ones do not end the command: they are named at its end,
 * and its exit status is KC_EXIT_INCOMPLETE. All 0: no file yet. */
typedef struct kc_file_set {
    kineto_survey *survey;
    uint32_t count, unreadable;
} kc_file_set;
/** Read a file of several. @param out  receives a trace to release; NULL with KINETO_OK: it cannot be read, or it is the
 *  same as an earlier one, which is noted. @return the error if it is the last of files that all cannot be read. */
kineto_status kc_file_set_open(kc_file_set *set, const kineto_files *files, uint32_t index, kineto_trace **out,
                               kineto_error *err);
/** After the last file: add those that are damaged to each coverage. */
kineto_status kc_file_set_end(kc_file_set *set, const kineto_files *files, ka_coverage *const *coverages, size_t count,
                              kineto_error *err);
/** Name damaged files on stderr, and free the set. */
void kc_file_set_report(kc_file_set *set);
/** Name the files of a survey that are damaged on stderr, and let the command end with KC_EXIT_INCOMPLETE. */
void kc_report_bad_files(const kineto_survey *survey);
/** "LABEL: 63 of 64 ranks; missing: 50."; nothing if no rank is missing and no file damaged. */
void kc_print_coverage(const ka_coverage *coverage, const char *label, FILE *out);
/** For verbs that keep what they make of all ranks: the same on stderr. A single file is no run.
 *  @return are ranks missing? Then the exit status is KC_EXIT_INCOMPLETE. */
bool kc_report_missing_ranks(const ka_coverage *coverage, uint32_t file_count);
/** The exit status of a command that would end with `status`, if no file was damaged. */
int kc_exit_with_bad_files(int status);
/** The member "coverage" of a survey, as ke_put_coverage writes it. */
void kc_put_surveyed_coverage(const kineto_survey *survey, kb_json *j);
/** For a server, whose answers have no exit status. */
void kc_forget_bad_files(void);
/** Show on a terminal which file is being read, if it takes long. @param path  NULL: reading has
 *    ended. */
void kc_show_reading(uint32_t index, uint32_t count, const char *path);

/** The highest severity of all findings; -1: none. */
int kc_worst_finding(const kineto_survey *survey);
/** Print findings of at least this severity as lines, or all as the member "findings". @return the highest severity;
 *  -1: none. */
int kc_print_findings(const kineto_survey *survey, uint32_t least, FILE *out);
int kc_put_findings(const kineto_survey *survey, kb_json *j);

/* ---- info_files.c ---------------------------------------------------------------------------- */
/** `info` of several files: a table of them, and findings. @return the exit status. */
int kc_info_files(char *const *paths, int count);
#endif
