/* The end of `ckineto record`: the trace is built and written, or what remains of it is named; the summary,
 * what is slow, and advice if the program used nothing that is recorded. */
#include "cli/launch/record_result.h"
#include "cli/launch/cost_advice.h"
#include "cli/launch/environment.h"
#include "cli/launch/job.h"
#include "cli/launch/perf_maps.h"
#include "cli/launch/remedies.h"
#include "cli/launch/watch.h"
#include "cli/print_findings.h"
#include "cli/summary/summary.h"
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

static void print_memory_table(const kineto_trace *trace)
{
    kc_memory m;
    kineto_error err;
    if (kc_memory_make(trace, &m, &err))
        return;
    kc_memory_print(&m, trace, stderr);
    kc_memory_free(&m);
}

/* The format that ckineto and viewers of traces read. */
static bool is_chrome_file(const char *path)
{
    kb_compression compression;
    bool needs_file;
    const char *format = ke_format_by_ending(path, &compression, &needs_file);
    return format && strcmp(format, "chrome") == 0;
}

/* Activities that the program or its devices delivered, not the recorder that watched it. */
static uint64_t count_own_activities(const kc_summary *s)
{
    return s->activities - s->kinds[KINETO_KIND_THREAD_STATE] - s->kinds[KINETO_KIND_CPU_SAMPLE];
}

/* Why sources that should have recorded did not, if the ledger has it. NULL: it has nothing. */
static const char *find_reason_in_ledger(const kc_record_report *r, const kineto_trace *trace)
{
    if (ks_children_has_unrecorded(trace))
        return "the ledger above names the processes, and the reasons.";
    if (kt_ledger_has(trace, "PyTorch", NULL) || kt_ledger_has(trace, "Python functions", NULL))
        return "see the ledger lines of PyTorch and Python above.";
    if (r->python && kt_ledger_has(trace, KC_NO_PYTHON, NULL))
        return "--python needs ckineto's Python package: see the ledger above.";
    return NULL;
}

/* What would record more, from what the program had in memory. */
static void print_remedies(const kc_record_report *r, const kineto_trace *trace, bool has_threads)
{
    if (r->is_attached) {
        fputs("nothing can be loaded into a program that runs already.\n"
              "  Started with 'ckineto record -- PROGRAM', all sources record it.\n",
              stderr);
        return;
    }
    fputs("the program used nothing that ckineto or a plug-in records.\n", stderr);
    if (kc_remedies_print(r->remedies, 0, stderr))
        return;
    if (kt_ledger_has(trace, "cpu", KC_COUNTERS_NO_SAMPLES)) {
        fputs("  --cpu-timers samples the program where the kernel refuses its events, --waits records what threads\n"
              "  wait for, --memory allocations. Ranges of your own are a few lines: docs/how-to/languages.md.\n",
              stderr);
        return;
    }
    fputs(has_threads ? "  --waits records what its threads wait for, --off-cpu where they are blocked, --memory\n"
                        "  allocations. Ranges of your own are a few lines: docs/how-to/languages.md.\n"
                      : "  See 'ckineto doctor' for what can be recorded here.\n",
          stderr);
}

/* The most likely reason for a trace without activities of the program. */
static void explain_empty_trace(const kc_record_report *r, const kineto_trace *trace,
                                const kc_summary *s)
{
    const char *reason = find_reason_in_ledger(r, trace);
    fprintf(stderr, "\n  %s: ",
            s->kinds[KINETO_KIND_CPU_SAMPLE] ? "Only threads and CPU samples were recorded"
            : s->activities                  ? "Only states of threads were recorded"
                                             : "Nothing was recorded");
    if (reason)
        fprintf(stderr, "%s\n", reason);
    else if (r->python)
        fputs("--python was given, and the program does not run Python.\n", stderr);
    else
        print_remedies(r, trace, s->activities != 0);
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

/* More take too long to look at for the end of a recording; `analyze` has no limit. */
#define MAX_FINDING_ACTIVITIES UINT64_C(2000000)

/* What is slow, for programs without work of devices: those are for `analyze --findings`, which looks at
 * steps. */
static void print_findings(const kineto_trace *trace, const kc_summary *s)
{
    kineto_findings_options o = {.size = sizeof o, .evidence = 1};
    kineto_findings *found = NULL;
    if (s->devices.count || s->activities > MAX_FINDING_ACTIVITIES ||
        !(s->kinds[KINETO_KIND_THREAD_STATE] || s->kinds[KINETO_KIND_BLOCKING_CALL]) ||
        kineto_findings_find(trace, &o, &found, NULL))
        return;
    kc_findings_print_brief(found, KB_MIN(kc_terminal_columns(stderr), KC_FINDINGS_WIDTH), stderr);
    kineto_findings_destroy(found);
}

/* Ranks of a job have a trace each, which are analysed together; one of them prints that. */
static void print_next_command(const kc_record_report *r)
{
    char directory[KS_PATH_BYTES];
    find_directory(r->output, directory);
    if (kc_job_size() < 2 || kc_job_rank() < 0)
        kc_print(stderr, "         or try: ckineto info %s\n", r->output);
    else if (kc_job_rank() == 0)
        kc_print(stderr, "         or, for all ranks: ckineto analyze --findings %s/\n", directory);
}

/* Prints the summary and the path of the trace on stderr: stdout belongs to the program. */
static void report_trace(const kc_record_report *r, const kineto_trace *trace)
{
    kc_summary s;
    kineto_error err;
    fputs("ckineto: ", stderr);
    if (kc_summary_make(trace, &s, &err)) {
        fprintf(stderr, "no summary: %s\n", err.message);
    } else if (r->no_summary) {
        fprintf(stderr, "%s %s\n", kc_count(s.activities).s,
                kc_noun(s.activities, "activity", "activities"));
    } else {
        kc_summary_print(&s, trace, stderr);
        if (r->memory) /* a program may have memory events of its own */
            print_memory_table(trace);
        if (s.kinds[KINETO_KIND_BLOCKING_CALL])
            kc_locks_print(trace, stderr);
        print_findings(trace, &s);
        if (count_own_activities(&s) == 0)
            explain_empty_trace(r, trace, &s);
        fputc('\n', stderr);
    }
    kc_summary_free(&s);
    kc_cost_advice_print(trace, stderr);
    print_unused_python_names(trace);
    bool reads_back = is_chrome_file(r->output);
    kc_print(stderr, "ckineto: the trace is in %s%s\n", r->output,
             reads_back ? "; open it in ui.perfetto.dev or Chrome's DevTools (Performance)," : "");
    if (reads_back)
        print_next_command(r);
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
                    kc_bytes(stats.bytes).s);
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

/* Other failures, for example a full disk, leave the raw recording where it is. */
static kineto_status save_trace(kc_record_report *r, ks_collector *c, const kineto_trace *trace,
                                kineto_error *err)
{
    kineto_error ignored;
    kineto_status status = kineto_trace_save(trace, r->output, err);
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
