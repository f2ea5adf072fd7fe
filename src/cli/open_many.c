/* Opening one trace from several files and directories, progress on a terminal, checks of output
 * files, and findings about sets of files. */
#include "cli/open_many.h"
#include "analyze/saved/facts_paths.h"
#include "cli/style.h"
#include "export/export.h"

#include "trace/bytes/json_text.h"
#include "trace/import/import.h"

#include <ckineto/analyze.h>

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

kineto_open_options kc_reading = {.size = sizeof kc_reading};
const char *kc_step_pattern;
bool kc_no_align;

/* From 0 to INT32_MAX. */
kineto_status kc_parse_rank(const char *verb, const char *text, int32_t *rank)
{
    int64_t number;
    *rank = -1;
    if (!text)
        return KINETO_OK;
    if (!kt_json_int(kb_string(text), &number) || number < 0 || number > INT32_MAX)
        return kc_usage_error(verb, "--rank needs a rank, not '%s'", text);
    *rank = (int32_t)number;
    return KINETO_OK;
}

/* A directory of traces. "-" is the standard input; a recording of another tool can be a directory. */
static bool is_directory_path(const char *path)
{
    struct stat st;
    return strcmp(path, "-") != 0 && stat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
           !kt_directory_importer_find(path);
}

bool kc_is_one_file(char *const *paths, int count)
{
    return count == 1 && !is_directory_path(paths[0]);
}

/* ---- progress, on terminals only ------------------------------------------------------------- */

/* Quiet for the first half second, then at most ten times per second. */
void kc_show_reading(uint32_t index, uint32_t count, const char *path)
{
    enum { QUIET_NS = 500000000, BETWEEN_NS = 100000000 };
    static uint64_t started_ns, shown_ns;
    static bool is_there;
    if (!isatty(STDERR_FILENO))
        return;
    uint64_t now = kb_monotonic_ns();
    if (!path) {
        if (is_there)
            fputs("\r\033[K", stderr);
        started_ns = shown_ns = 0;
        is_there = false;
        return;
    }
    started_ns = started_ns ? started_ns : now;
    if (now - started_ns < QUIET_NS || now - shown_ns < BETWEEN_NS)
        return;
    int used = fprintf(stderr, "\rckineto: reading %u of %u: ", index + 1, count);
    kc_put_path(stderr, path, (size_t)KB_MAX(used, 0) + 2);
    fputs(" …\033[K", stderr);
    shown_ns = now;
    is_there = true;
}

/* The callback of kineto_trace_open_many. */
static void show_opening_progress(uint32_t index, uint32_t count, const char *path, void *user)
{
    (void)user;
    kc_show_reading(index, count, path);
}

/* ---- damaged files ---------------------------------------------------------------------------- */

static bool has_bad_files;
static kb_map reported; /* hashes of the findings that were printed: some verbs open their files twice */

/* The sentence about a file that cannot be read begins with its name. */
static void print_files_finding(const kineto_files_finding *f, const kineto_survey *survey)
{
    kineto_survey_file first;
    bool is_new = true;
    kineto_survey_file_at(survey, f->file_count ? f->files[0] : 0, &first);
    (void)kb_map_insert(&reported, kb_hash(f->sentence.data, f->sentence.size) ^ kb_hash(first.path, strlen(first.path)),
                        1, &is_new);
    if (!is_new)
        return;
    fputs("ckineto: ", stderr);
    if (f->kind != KINETO_FILES_UNREADABLE)
        fprintf(stderr, "%s: ", f->meaning);
    kc_put_name(stderr, f->sentence, 0);
    fputc('\n', stderr);
}

void kc_report_bad_files(const kineto_survey *survey)
{
    enum { MAX_REPEATED = 10 }; /* ranks: of two runs all are */
    kineto_files_finding f;
    uint32_t repeated = 0;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++) {
        if (!ka_is_bad_files_finding(&f, survey))
            continue;
        has_bad_files = true;
        repeated += f.kind == KINETO_FILES_RANK_REPEATED;
        if (f.kind != KINETO_FILES_RANK_REPEATED || repeated <= MAX_REPEATED)
            print_files_finding(&f, survey);
    }
    if (repeated > MAX_REPEATED)
        fprintf(stderr, "ckineto: … and %u more ranks have several traces\n", repeated - MAX_REPEATED);
}

int kc_exit_with_bad_files(int status)
{
    return status == 0 && has_bad_files ? KC_EXIT_INCOMPLETE : status;
}

void kc_forget_bad_files(void)
{
    has_bad_files = false;
    kb_map_free(&reported);
}

void kc_print_coverage(const ka_coverage *coverage, const char *label, FILE *out)
{
    char text[400];
    if (ka_coverage_is_whole(coverage) && !coverage->facts_left_out)
        return;
    ka_coverage_describe(coverage, text, sizeof text);
    if (*text)
        fprintf(out, "%s: %s\n", label, text);
}

bool kc_report_missing_ranks(const ka_coverage *coverage, uint32_t file_count)
{
    if (file_count < 2)
        return false;
    kc_print_coverage(coverage, "ckineto", stderr);
    return ka_coverage_missing(coverage) > 0;
}

/* Adds the row of a file. *is_repeated: an earlier one is the same. */
static kineto_status add_to_survey(kc_file_set *set, const char *path, const kineto_trace *trace,
                                   const kineto_error *why, bool *is_repeated, kineto_error *err)
{
    kineto_identity identity = {.size = sizeof identity, .rank = -1, .pid = -1};
    set->survey = set->survey ? set->survey : kt_survey_create();
    if (trace)
        kineto_trace_identity(trace, path, &identity);
    if (!set->survey || !kt_survey_add(set->survey, path, trace, &identity, why))
        return kb_fail_memory(err, NULL);
    *is_repeated = kt_survey_last_is_repeated(set->survey, trace);
    return KINETO_OK;
}

/* If no file can be read, the error of the last one ends the command: this names the others. */
static void report_other_errors(const kineto_survey *survey, const char *last)
{
    kineto_survey_file f;
    for (uint32_t i = 0; kineto_survey_file_at(survey, i, &f); i++)
        if (f.status && strcmp(f.error, last) != 0)
            kc_put_message(stderr, "ckineto: ", f.error);
}

kineto_status kc_file_set_open(kc_file_set *set, const kineto_files *files, uint32_t index, kineto_trace **out,
                               kineto_error *err)
{
    const char *path = kineto_files_path(files, index);
    bool is_repeated = false;
    *out = NULL;
    kineto_status status = kineto_trace_open_with(path, &kc_reading, out, err);
    set->count++;
    set->unreadable += status != KINETO_OK;
    if (status && set->unreadable == kineto_files_count(files))
        report_other_errors(set->survey, err->message);
    if (status == KINETO_E_MEMORY || (status && set->unreadable == kineto_files_count(files)))
        return status;
    status = add_to_survey(set, path, *out, err, &is_repeated, err);
    if (status || is_repeated) {
        kineto_trace_release(*out);
        *out = NULL;
    }
    return status;
}

kineto_status kc_file_set_end(kc_file_set *set, const kineto_files *files, ka_coverage *const *coverages, size_t count,
                              kineto_error *err)
{
    if (!set->survey)
        return KINETO_OK;
    bool fits = kt_survey_settle(set->survey, files, false);
    for (size_t i = 0; i < count && fits; i++)
        fits = ka_coverage_add_bad_files(coverages[i], set->survey);
    return fits ? KINETO_OK : kb_fail_memory(err, NULL);
}

void kc_file_set_report(kc_file_set *set)
{
    kc_report_bad_files(set->survey);
    kineto_survey_destroy(set->survey);
    *set = (kc_file_set){0};
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Warnings about files that do not belong together. */
static void print_merge_warnings(const kineto_survey *survey)
{
    kineto_files_finding f;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++)
        if (f.severity > KINETO_SEVERITY_NOTE && !ka_is_bad_files_finding(&f, survey))
            print_files_finding(&f, survey);
}

/* What a survey says about files that were opened as one trace. Those of one rank are no job. */
static kineto_status note_survey(const kineto_survey *survey, uint32_t facts_left_out, int32_t rank, ka_coverage *coverage,
                                 kineto_error *err)
{
    ka_coverage own = {0}, *c = coverage ? coverage : &own;
    c->facts_left_out = facts_left_out;
    bool fits = ka_coverage_add_surveyed(c, survey) && ka_coverage_add_bad_files(c, survey);
    if (fits && !coverage && rank < 0)
        kc_print_coverage(c, "ckineto", stderr);
    if (fits) {
        kc_report_bad_files(survey);
        print_merge_warnings(survey);
    }
    ka_coverage_free(&own);
    return fits ? KINETO_OK : kb_fail_memory(err, NULL);
}

static kineto_status open_many(char *const *paths, int count, int32_t rank, ka_trace_clocks *clocks,
                               ka_coverage *coverage, kineto_trace **out, kineto_error *err)
{
    char refused[320];
    kineto_survey *survey = NULL;
    const ka_open_hooks hooks = {clocks, &survey, refused, sizeof refused};
    kineto_open_many_options how = {.size = sizeof how,
                                    .open = &kc_reading,
                                    .only_rank = rank >= 0,
                                    .rank = rank,
                                    .progress = show_opening_progress,
                                    .align = !kc_no_align};
    kineto_status status = ka_open_many((const char *const *)paths, (size_t)count, &how, &hooks, out, err);
    kc_show_reading(0, 0, NULL);
    if (refused[0])
        fprintf(stderr, "ckineto: %s\n", refused);
    if (status == KINETO_OK && *out && !kc_is_one_file(paths, count))
        status = note_survey(survey, ka_count_facts_left_out(paths, count), rank, coverage, err);
    if (status) {
        report_other_errors(survey, err->message);
        kineto_trace_release(*out);
        *out = NULL;
    }
    kineto_survey_destroy(survey);
    return status;
}

kineto_status kc_open_aligned(char *const *paths, int count, ka_trace_clocks *clocks, ka_coverage *coverage, kineto_trace **out,
                              kineto_error *err)
{
    return open_many(paths, count, -1, clocks, coverage, out, err);
}

/* A single file without --rank is opened directly, without a merge. */
kineto_status kc_open_covered_traces(char *const *paths, int count, int32_t rank, ka_coverage *coverage,
                                     kineto_trace **out, kineto_error *err)
{
    if (kc_is_one_file(paths, count) && rank < 0)
        return kineto_trace_open_with(paths[0], &kc_reading, out, err);
    return open_many(paths, count, rank, NULL, coverage, out, err);
}

kineto_status kc_open_traces(char *const *paths, int count, int32_t rank, kineto_trace **out,
                             kineto_error *err)
{
    return kc_open_covered_traces(paths, count, rank, NULL, out, err);
}

/* The rank that the trace or its path names, else the place of the file. */
int32_t kc_trace_rank(const kineto_trace *trace, const char *path, uint32_t index)
{
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace_identity(trace, path, &identity);
    return identity.rank >= 0 ? identity.rank : (int32_t)index;
}

/* By device and inode: links and different spellings of a path are the same file. False if one
 * does not exist. */
bool kc_is_same_file(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

/* False also for what does not exist; pipes and terminals cannot be overwritten. */
static bool is_regular_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

/* Directories among the inputs are searched, too. */
static bool would_overwrite_input(char *const *paths, int count, const char *output)
{
    kineto_files *files;
    bool would = false;
    if (!is_regular_file(output) ||
        kineto_files_find((const char *const *)paths, (size_t)count, &files, NULL) != KINETO_OK)
        return false;
    for (uint32_t i = 0; i < kineto_files_count(files) && !would; i++)
        would = kc_is_same_file(kineto_files_path(files, i), output);
    kineto_files_destroy(files);
    return would;
}

/* By its first bytes: enough to catch an output that is named like a trace, a likely mistake. */
bool kc_is_trace_file(const char *path)
{
    enum { HEAD_BYTES = 1 << 16 };
    static const char key[] = "\"traceEvents\"";
    struct stat st;
    bool is = false;
    char *head = malloc(HEAD_BYTES);
    if (head && stat(path, &st) == 0 && S_ISREG(st.st_mode)) {
        size_t size = kb_os_read_file(path, head, HEAD_BYTES);
        size_t blank = size ? strspn(head, " \t\r\n") : 0;
        is = blank < size && head[blank] == '{' && memmem(head, size, key, sizeof key - 1);
    }
    free(head);
    return is;
}

/* "-" twice is the same output, too. */
static bool is_same_output(const char *one, const char *other)
{
    return strcmp(one, other) == 0 || (is_regular_file(one) && kc_is_same_file(one, other));
}

/* No two outputs may be the same file. */
static kineto_status check_distinct_outputs(const char *verb, const char *const *outputs,
                                            size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; outputs[i] && k < i; k++)
            if (outputs[k] && is_same_output(outputs[i], outputs[k]))
                return kc_usage_error(verb,
                                      "%s would be written twice; give each output its own file",
                                      strcmp(outputs[i], "-") ? outputs[i] : "standard output");
    return KINETO_OK;
}

/* Checked before anything is read or written. */
kineto_status kc_check_outputs(const char *verb, char *const *paths, int count,
                               const char *const *outputs, size_t output_count, bool are_traces)
{
    for (size_t i = 0; i < output_count; i++) {
        if (!outputs[i])
            continue;
        if (would_overwrite_input(paths, count, outputs[i]))
            return kc_usage_error(verb, "%s would overwrite the trace that is read", outputs[i]);
        if (!are_traces && kc_is_trace_file(outputs[i]))
            return kc_usage_error(
                verb, "%s is a trace and would be overwritten; name another output file",
                outputs[i]);
    }
    return check_distinct_outputs(verb, outputs, output_count);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

void kc_put_surveyed_coverage(const kineto_survey *survey, kb_json *j)
{
    ka_coverage coverage = {0};
    if (ka_coverage_add_surveyed(&coverage, survey) && ka_coverage_add_bad_files(&coverage, survey))
        ke_put_coverage(j, &coverage);
    ka_coverage_free(&coverage);
}

/* ---- findings -------------------------------------------------------------------------------- */

/* The highest severity; -1 without findings. */
int kc_worst_finding(const kineto_survey *survey)
{
    kineto_files_finding f;
    int worst = -1;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++)
        worst = KB_MAX(worst, (int)f.severity);
    return worst;
}

int kc_print_findings(const kineto_survey *survey, uint32_t least, FILE *out)
{
    kineto_files_finding f;
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++) {
        char first[80];
        if (f.severity < least)
            continue;
        snprintf(first, sizeof first, "  %s%-7s%s %s: ", kc_paint(out, kc_severity_style(f.severity)),
                 kineto_severity_name(f.severity), kc_paint(out, KC_PLAIN), f.id);
        kc_put_wrapped(out, kc_page_width(out), first, "          ", 0, f.sentence);
    }
    return kc_worst_finding(survey);
}

/* With the names of the files that each finding concerns. */
int kc_put_findings(const kineto_survey *survey, kb_json *j)
{
    kineto_files_finding f;
    kb_json_key_z(j, "findings");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_survey_finding(survey, i, &f); i++) {
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "id", kb_string(f.id));
        kb_json_put_string(j, "severity", kb_string(kineto_severity_name(f.severity)));
        kb_json_put_string(j, "meaning", kb_string(f.meaning));
        kb_json_put_string(j, "sentence", f.sentence);
        kb_json_put_uint(j, "total", f.total);
        kb_json_key_z(j, "files");
        kb_json_array_begin(j);
        for (uint32_t k = 0; k < f.file_count; k++) {
            kineto_survey_file file;
            kineto_survey_file_at(survey, f.files[k], &file);
            kb_json_string_z(j, file.name);
        }
        kb_json_array_end(j);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    return kc_worst_finding(survey);
}
