/* The end of `ckineto record`: the trace is built and written, or what remains of it is named; and what
 * to type next. record_summary.c has the summary before it. */
#include "cli/launch/record_result.h"
#include "cli/launch/cost_advice.h"
#include "cli/launch/environment.h"
#include "cli/launch/job.h"
#include "cli/launch/perf_maps.h"
#include "cli/cli.h"
#include "cli/launch/record_summary.h"
#include "cli/written.h"
#include "export/export.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* "." without a slash. */
static void find_directory(const char *path, char directory[KS_PATH_BYTES])
{
    const char *slash = strrchr(path, '/');
    int n = slash ? (int)KB_MAX(slash - path, 1) : 1;
    snprintf(directory, KS_PATH_BYTES, "%.*s", n, slash ? path : ".");
}

/* A mistake in the name of the output must be reported before the program runs. */
kineto_status kc_record_check_output(const char *path, kineto_error *err)
{
    struct stat st;
    char directory[KS_PATH_BYTES];
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is a directory: name a file", path);
    kineto_status status = ke_check_path(path, err);
    if (status || (stat(path, &st) == 0 && !S_ISREG(st.st_mode)))
        return status; /* for example /dev/null: no temporary file is made next to it */
    find_directory(path, directory);
    if (stat(directory, &st) != 0)
        return kb_fail_os(err, errno, "cannot write to '%s'", directory);
    if (!S_ISDIR(st.st_mode))
        return kb_fail(err, KINETO_E_ARGUMENT, "'%s' is not a directory", directory);
    if (access(directory, W_OK) != 0)
        return kb_fail_os(err, errno, "cannot write to '%s'", directory);
    return KINETO_OK;
}

/* A name without a known format creates nothing. */
kineto_status kc_record_prepare_output(const char *path, bool quiet, kineto_error *err)
{
    struct stat st;
    char directory[KS_PATH_BYTES];
    find_directory(path, directory);
    if (stat(directory, &st) != 0 && errno == ENOENT && ke_check_path(path, err) == KINETO_OK) {
        kineto_status status = kb_os_make_directories(directory, err);
        if (status)
            return status;
        if (!quiet)
            kc_complain("record: created the directory '%s'", directory);
    }
    return kc_record_check_output(path, err);
}

/* ---- results --------------------------------------------------------------------------------- */

void kc_record_report_end(const kc_child *child, bool one_trace)
{
    char text[KC_CHILD_END_BYTES];
    kc_child_describe_end(child, text);
    if (child->status)
        fprintf(stderr, "ckineto: %s%s\n", text,
                WIFSIGNALED(child->status) && one_trace
                    ? "; the trace holds what was recorded up to then"
                    : "");
}

void kc_record_note_end(ks_collector *c, const kc_child *child)
{
    char text[KC_CHILD_END_BYTES], json[6 * KC_CHILD_END_BYTES + 3];
    kc_child_describe_end(child, text);
    *kb_json_escape(json, kb_string(text), NULL) = 0;
    ks_collector_metadata(c, "ckineto_dump_reason", json);
}

/* Lines that the recorder of Python functions writes for each name of --python-only, in each process. */
#define PYTHON_SOURCE "Python functions"
#define NAME_USED     "selected by --python-only"
#define NAME_UNUSED   "--python-only: no function of it ran"

static bool has_python_line(const kineto_trace *trace, const char *reason, kineto_string detail)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_trace_ledger(trace, i, &line);
        if (kb_string_is(line.source, PYTHON_SOURCE) && kb_string_is(line.reason, reason) &&
            kb_string_equal(line.detail, detail))
            return true;
    }
    return false;
}

/* Names of --python-only that no process had a function of. */
static void print_unused_python_names(const kineto_trace *trace)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_trace_ledger(trace, i, &line);
        if (!kb_string_is(line.source, PYTHON_SOURCE) || !kb_string_is(line.reason, NAME_UNUSED) ||
            has_python_line(trace, NAME_USED, line.detail))
            continue;
        fputs("ckineto: --python-only: no function of '", stderr);
        kc_put_name(stderr, line.detail, 0);
        fputs("' ran; give the name of a package or module as it is imported, or __main__\n", stderr);
    }
}

/* What to type next. Ranks of a job have a trace each, which are analysed together; one of them prints that. */
static void print_next_command(const kc_record_report *r)
{
    char directory[KS_PATH_BYTES];
    find_directory(r->output, directory);
    if (!kc_can_be_read(r->output))
        return;
    if (kc_job_size() < 2 || kc_job_rank() < 0)
        kc_print(stderr, "; next: ckineto %s", r->output);
    else if (kc_job_rank() == 0)
        kc_print(stderr, "; next, for all ranks: ckineto %s/", directory);
}

/* Prints the summary and the path of the trace on stderr: stdout belongs to the program. */
static void report_trace(const kc_record_report *r, const kineto_trace *trace)
{
    kc_record_summary_print(r, trace, stderr);
    kc_cost_advice_print(trace, stderr);
    print_unused_python_names(trace);
    kc_print(stderr, "ckineto: the trace is in %s", r->output);
    print_next_command(r);
    fputc('\n', stderr);
}

/* The trace could not be written: print what remains, and how to recover it. */
static void report_rescue(ks_collector *c, const kc_child *child, const char *why)
{
    ks_collector_stats stats;
    kc_complain("record: %s", why);
    ks_collector_stats_get(c, &stats);
    bool is_whole = ks_collector_find_spool(c) || stats.bytes == 0;
    if (!is_whole)
        kc_complain("%s: removed while recording: its %s are lost", ks_collector_spool_path(c),
                    kb_bytes(stats.bytes).s);
    kc_complain("the %s is not lost. When the problem is solved, run:\n"
                "  ckineto recover -o FILE.json --remove %s",
                is_whole ? "recording" : "rest", ks_collector_pool_path(c));
    if (child->status)
        kc_record_report_end(child, true);
}

/* ---- where the trace goes -------------------------------------------------------------------- */

/* The n-th alternative to the requested path: its directory, if that was renamed; then TMPDIR, the
 * current directory and /tmp, with the pid in the name. False: it cannot be used. */
static bool choose_fallback_path(const char *output, ks_collector *c, uint32_t n,
                                 char path[KS_PATH_BYTES])
{
    const char *slash = strrchr(output, '/'), *name = slash ? slash + 1 : output;
    const char *directories[] = {NULL, kb_setting("TMPDIR"), ".", "/tmp"};
    if (n > 0 && directories[n]) {
        int size =
            snprintf(path, KS_PATH_BYTES, "%s/ckineto-%u-%s", directories[n], kb_os_pid(), name);
        return size > 0 && (size_t)size < KS_PATH_BYTES && access(path, F_OK) != 0;
    }
    if (n > 0 || !ks_collector_find_spool(c))
        return false;
    const char *spool = ks_collector_spool_path(c);
    int size = snprintf(path, KS_PATH_BYTES, "%.*s%s", (int)(strrchr(spool, '/') + 1 - spool),
                        spool, name);
    return size > 0 && (size_t)size < KS_PATH_BYTES;
}

/* The directory of the output may have been removed or replaced while the program ran. */
static kineto_status save_to_fallback(kc_record_report *r, ks_collector *c,
                                      const kineto_trace *trace, kineto_error *why)
{
    enum { FALLBACKS = 4 };
    static char path[KS_PATH_BYTES];
    kineto_error err;
    for (uint32_t n = 0; n < FALLBACKS; n++)
        if (choose_fallback_path(r->output, c, n, path) && kineto_trace_save(trace, path, &err) == KINETO_OK) {
            kc_complain("record: %s; the trace is in %s", why->message, path);
            r->output = path;
            return KINETO_OK;
        }
    return why->code;
}

/* A trace of an earlier run becomes NAME.old, as perf does. A link holds it meanwhile, so that there is a trace of the
 * name at every moment, and NAME.old changes only when the new trace is complete. */
static bool hold_previous(const kc_record_report *r, char held[KS_PATH_BYTES])
{
    struct stat st;
    int n = snprintf(held, KS_PATH_BYTES, "%s.old~", r->output);
    if (!r->keeps_old || stat(r->output, &st) != 0 || !S_ISREG(st.st_mode) || n < 0 || (size_t)n >= KS_PATH_BYTES)
        return false;
    (void)unlink(held);
    return link(r->output, held) == 0;
}

static void keep_previous(const kc_record_report *r, const char *held, bool is_replaced)
{
    char old[KS_PATH_BYTES];
    snprintf(old, sizeof old, "%.*s", (int)strlen(held) - 1, held);
    if (!is_replaced || rename(held, old) != 0)
        (void)unlink(held);
    else if (r->verbose)
        kc_complain("record: the trace that was in %s is now in %s", r->output, old);
}

/* Other failures, for example a full disk, leave the raw recording where it is. */
static kineto_status save_trace(kc_record_report *r, ks_collector *c, const kineto_trace *trace,
                                kineto_error *err)
{
    kineto_error ignored;
    char held[KS_PATH_BYTES];
    bool holds = hold_previous(r, held);
    kineto_status status = kineto_trace_save(trace, r->output, err);
    if (holds)
        keep_previous(r, held, status == KINETO_OK);
    return status && kc_record_check_output(r->output, &ignored) ? save_to_fallback(r, c, trace, err)
                                                           : status;
}

/* The whole recording, or with a live view the window that lasted as long. */
static kineto_status finish_collecting(ks_collector *c, ks_window **whole, kineto_trace **out,
                                       kineto_error *err)
{
    ks_window_cut cut = {0};
    if (!*whole)
        return ks_collector_finish(c, out, err);
    ks_collector_program_ended(c);
    ks_window_stop(c, *whole);
    kineto_status status = ks_window_build(c, *whole, &cut, out, err);
    ks_window_release(c, *whole);
    *whole = NULL;
    return status;
}

int kc_record_write(kc_record_report *r, ks_collector *c, ks_window **whole, const kc_child *child,
                    bool *keep)
{
    kineto_trace *trace = NULL;
    kineto_error err = {0};
    ks_collector_stats stats;
    if (WIFSIGNALED(child->status))
        kc_record_note_end(c, child);
    kineto_status status = finish_collecting(c, whole, &trace, &err);
    if (status == KINETO_OK)
        status = save_trace(r, c, trace, &err);
    if (status) {
        *keep = true;
        report_rescue(c, child, err.message);
    } else if (!r->quiet) {
        kc_record_report_end(child, true);
        ks_collector_stats_get(c, &stats);
        if (stats.spool_failed)
            kc_complain("warning: %s", stats.spool_error);
        report_trace(r, trace);
    }
    if (status == KINETO_OK)
        kc_perf_maps_remove(trace);
    kineto_trace_release(trace);
    return status ? KC_EXIT_OWN_FAILURE : kc_child_exit_status(child);
}
