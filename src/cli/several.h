/* Several files and directories where a verb takes a trace. */
#ifndef KC_SEVERAL_H
#define KC_SEVERAL_H

#include "cli/cli.h"

#include <ckineto/files.h>

/** How traces are read, as options said. */
extern kineto_open_options kc_reading;
#define KC_MEMORY_OPTION                                                                           \
    {                                                                                              \
        "mem", 0, KC_SIZE, &kc_reading.memory_bytes, "SIZE",                                       \
            "hold at most SIZE in memory (512M, 2G); the rest goes to\na temporary file in "       \
            "$TMPDIR or /var/tmp"                                                                  \
    }
#define KC_TS_UNIT_OPTION                                                                          \
    {                                                                                              \
        "ts-unit", 0, KC_TS_UNIT, &kc_reading.ts_unit_ns, "ns|us|ms|s",                            \
            "unit of \"ts\" and \"dur\" in the file (us)"                                          \
    }
/** How a trace is read: of every verb that reads some. */
#define KC_READING_OPTIONS KC_MEMORY_OPTION, KC_TS_UNIT_OPTION
/** Names of steps, as --step-pattern said; NULL: the usual ones. */
extern const char *kc_step_pattern;
#define KC_STEP_OPTION                                                                             \
    {                                                                                              \
        "step-pattern", 0, KC_TEXT, &kc_step_pattern, "PATTERN",                                   \
            "steps are ranges with names like this: a * stands for any\ntext, | is between "       \
            "alternatives (ProfilerStep#N, or what\nSGLang and vLLM mark)"                         \
    }
/** What --rank was given; *rank -1: nothing. A mistake is explained on stderr. */
kineto_status kc_parse_rank(const char *verb, const char *text, int32_t *rank);
/** Whose trace this is; what the file does not tell is its place among the others. */
int32_t kc_rank_of(const kineto_trace *trace, const char *path, uint32_t index);
/** Are these one file, and not a directory or several? */
bool kc_is_one_file(char *const *paths, int count);
/** One trace of all that was named; of one rank if `rank` >= 0. Shows a terminal what is read when
 * that takes long. What is odd about several files goes to stderr, notes left out. On failure
 * nothing has been said. */
kineto_status kc_open_traces(char *const *paths, int count, int32_t rank, kineto_trace **out,
                      kineto_error *err);
/** Do both names lead to one file that is there? */
bool kc_is_same_file(const char *one, const char *other);
/** Would writing these replace a file that is read, or each other, or, where what is written is no
 *  trace itself, any trace? NULLs are left out. KINETO_E_ARGUMENT: yes, and it was said. */
kineto_status kc_check_outputs(const char *verb, char *const *paths, int count,
                               const char *const *outputs, size_t output_count, bool are_traces);
/** Tell a terminal which file is being read, when it takes long; `path` NULL: it is over. */
void kc_show_reading(uint32_t index, uint32_t count, const char *path);

/** The worst severity of all findings; -1: there are none. */
int kc_worst_finding(const kineto_survey *survey);
/** Findings, as lines or as the member "findings". @return the worst severity, -1: there are none.
 */
int kc_print_findings(const kineto_survey *survey, FILE *out);
int kc_put_findings(const kineto_survey *survey, kb_json *j);

/* ---- info_files.c ---------------------------------------------------------------------------- */
/** `info` of several files: a table of them, and what is odd. @return the exit status. */
int kc_info_files(char *const *paths, int count, bool as_json);
#endif
