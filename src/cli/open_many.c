/* Opening one trace from several files and directories, progress on a terminal, checks of output
 * files, and findings about sets of files. */
#include "cli/open_many.h"
#include "cli/clocks.h"
#include "cli/style.h"

#include "trace/bytes/json_text.h"
#include "trace/import/import.h"

#include <ckineto/analyze.h>

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

kineto_open_options kc_reading = {.size = sizeof kc_reading};
const char *kc_step_pattern;

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

/* ---- opening --------------------------------------------------------------------------------- */

/* Ledger lines from `from` on that report files which do not belong together. */
static void print_merge_warnings(const kineto_trace *trace, uint32_t from)
{
    static const struct {
        const char *meaning;
        uint32_t severity;
    } known[] = {
#define KINETO_X(name, value, id, level, text) {text, level},
        KINETO_FILES_FINDING_MAP(KINETO_X)
#undef KINETO_X
    };
    for (uint32_t i = from; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        for (size_t k = 0; k < KB_COUNT(known); k++) {
            if (known[k].severity == KINETO_SEVERITY_NOTE ||
                !kb_string_equal(line.source, kb_string("merge")) ||
                !kb_string_equal(line.reason, kb_string(known[k].meaning)))
                continue;
            fprintf(stderr, "ckineto: %s: ", known[k].meaning);
            kc_put_name(stderr, line.detail, 0);
            fputc('\n', stderr);
        }
    }
}

/* The ledger line of the last merge: its warnings follow it. The line count if there is none. */
static uint32_t find_last_merge(const kineto_trace *trace)
{
    uint32_t at = kineto_trace_ledger_count(trace);
    for (uint32_t i = at; i-- > 0;) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (kb_string_equal(line.source, kb_string("merge")) &&
            kb_string_equal(line.reason, kb_string("traces merged")))
            return i;
    }
    return at;
}

/* Gives up at the second host, unless clocks need no alignment. */
typedef struct host_watch {
    char first[256]; /* as kineto_identity.host */
    bool several;
} host_watch;

/* A kt_open_hooks.opened. Merged traces are as they were merged. */
static bool watch_hosts(void *context, const kineto_identity *identity)
{
    host_watch *w = context;
    if (!identity->host[0] || identity->rank_count > 1)
        return true;
    w->several = w->first[0] && strcmp(w->first, identity->host) != 0;
    if (!w->first[0])
        snprintf(w->first, sizeof w->first, "%s", identity->host);
    return !w->several;
}

static kineto_status open_many(char *const *paths, int count, int32_t rank, const kt_open_hooks *hooks, kineto_trace **out,
                               kineto_error *err)
{
    kineto_open_many_options how = {.size = sizeof how,
                                    .open = &kc_reading,
                                    .only_rank = rank >= 0,
                                    .rank = rank,
                                    .progress = show_opening_progress};
    kineto_status status = kt_open_many((const char *const *)paths, (size_t)count, &how, hooks, out, err);
    kc_show_reading(0, 0, NULL);
    if (status == KINETO_OK && *out && !kc_is_one_file(paths, count))
        print_merge_warnings(*out, find_last_merge(*out));
    return status;
}

kineto_status kc_open_aligned(char *const *paths, int count, kc_clocks *clocks, kineto_trace **out, kineto_error *err)
{
    kt_open_hooks hooks = {.clocks = clocks && clocks->note[0] ? &clocks->merge : NULL};
    if (hooks.clocks && clocks->is_refused)
        fprintf(stderr, "ckineto: %s\n", clocks->note);
    return open_many(paths, count, -1, &hooks, out, err);
}

/* A single file without --rank is opened directly, without a merge. */
kineto_status kc_open_traces(char *const *paths, int count, int32_t rank, kineto_trace **out,
                             kineto_error *err)
{
    host_watch watch = {0};
    kc_clocks clocks = {0};
    kt_open_hooks hooks = {.opened = rank < 0 && !kc_no_align ? watch_hosts : NULL, .context = &watch};
    if (kc_is_one_file(paths, count) && rank < 0)
        return kineto_trace_open_with(paths[0], &kc_reading, out, err);
    kineto_status status = open_many(paths, count, rank, &hooks, out, err);
    if (status || !watch.several)
        return status;
    status = kc_clocks_compare(&clocks, paths, count, err);
    if (!status)
        status = kc_open_aligned(paths, count, &clocks, out, err);
    kc_clocks_free(&clocks);
    return status;
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

/* ---- files that cannot be read --------------------------------------------------------------- */

kineto_status kc_unread_add(kc_unread *u, kineto_error *err, uint32_t of)
{
    size_t size = strlen(err->message);
    if (of < 2 || err->code == KINETO_E_MEMORY)
        return err->code;
    u->status = err->code;
    if (++u->count == of) /* none can be read */
        return err->code;
    if (kb_vec_reserve(&u->text, u->text.count + size + 1)) {
        memcpy(u->text.data + u->text.count, err->message, size);
        u->text.data[u->text.count + size] = '\n';
        u->text.count += size + 1;
    }
    *err = (kineto_error){0};
    return KINETO_OK;
}

int kc_unread_finish(kc_unread *u, const char *verb, int exit_status)
{
    for (size_t at = 0; at < u->text.count;) {
        size_t size = strcspn(u->text.data + at, "\n");
        kc_complain("%s: %.*s", verb, (int)size, u->text.data + at);
        at += size + 1;
    }
    bool any = u->count > 0;
    kb_vec_free(&u->text);
    return any && exit_status == 0 ? KC_EXIT_FAILURE : exit_status;
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
