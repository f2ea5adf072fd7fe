/* What `ckineto record` says when it has ended. The page is written into memory first, with fewer and fewer rows of its
 * tables until it has few enough lines. */
#include "cli/launch/record_summary.h"
#include "cli/launch/cost_advice.h"
#include "cli/launch/watch.h"
#include "cli/launch/environment.h"
#include "cli/launch/remedies.h"
#include "cli/print_findings.h"
#include "cli/print.h"
#include "cli/style.h"
#include "cli/summary/summary.h"

#include <ckineto/overview.h>

/* More take too long to look at for the end of a recording (1.4 s per million for the overview); `analyze` has no
 * limit. */
#define MAX_OVERVIEW_ACTIVITIES UINT64_C(100000)
#define MAX_FINDING_ACTIVITIES  UINT64_C(2000000)

#define MIN_ROWS 3u /* of each table */

/* A summary that is being written. */
typedef struct page {
    const kc_record_report *report;
    const kineto_trace *trace;
    const kc_summary *summary;
    kineto_overview *overview;    /* NULL: the trace is too large */
    const kineto_findings *found; /* NULL: the same */
    FILE *out;
    size_t width;
} page;

static void print_memory_table(const kineto_trace *trace, FILE *out)
{
    kc_memory m;
    kineto_error err;
    if (kc_memory_make(trace, &m, &err))
        return;
    kc_memory_print(&m, trace, out);
    kc_memory_free(&m);
}

/* ---- what is missing ------------------------------------------------------------------------- */

/* Activities that the program or its devices delivered, not the recorder that watched it. */
static uint64_t count_own_activities(const kc_summary *s)
{
    return s->activities - s->kinds[KINETO_KIND_THREAD_STATE] - s->kinds[KINETO_KIND_CPU_SAMPLE];
}

/* Why sources that should have recorded did not, if the ledger has it. NULL: it has nothing. */
static const char *find_reason_in_ledger(const kc_record_report *r, const kineto_trace *trace)
{
    if (ks_children_has_unrecorded(trace))
        return "the ledger names the processes, and the reasons (-v shows it).";
    if (kt_ledger_has(trace, "PyTorch", NULL) || kt_ledger_has(trace, "Python functions", NULL))
        return "see the ledger lines of PyTorch and Python (-v shows them).";
    if (r->python && kt_ledger_has(trace, KC_NO_PYTHON, NULL))
        return "--python needs ckineto's Python package: see the ledger (-v).";
    return NULL;
}

/* The program as it was started; "PROGRAM" for one that a shell would split, or that is long. */
static void format_program(char *const *program, char *text, size_t size)
{
    size_t at = 0;
    bool is_plain = program && *program;
    for (size_t i = 0; is_plain && program[i]; i++) {
        is_plain = at < size && strcmp(kc_command_word(program[i], size), program[i]) == 0;
        if (is_plain)
            at += (size_t)kb_snprintf(text + at, size - at, "%s%s", at ? " " : "", program[i]);
    }
    if (!is_plain || at >= size)
        kb_snprintf(text, size, "PROGRAM");
}

/* What would record more, from what the program had in memory, and the command that does it. */
static void print_remedies(const page *p, bool has_threads)
{
    enum { MAX_PROGRAM_BYTES = 60 };
    const kc_record_report *r = p->report;
    bool has_samples = !kt_ledger_has(p->trace, "cpu", KC_COUNTERS_NO_SAMPLES);
    char found[120], program[MAX_PROGRAM_BYTES], text[400];
    kc_remedies_print(r->remedies, 0, p->width, p->out);
    kc_remedies_options(r->remedies, 0, found, sizeof found);
    if (!has_threads && !*found) {
        fputs("  See 'ckineto doctor' for what can be recorded here.\n", p->out);
        return;
    }
    if (has_threads)
        kc_put_wrapped(p->out, p->width, "  - ", "    ", 0,
                       kb_string(has_samples ? "--waits records what its threads wait for (locks, sleeps, files), "
                                               "--off-cpu where they are blocked, --memory allocations"
                                             : "--cpu-timers samples the program where the kernel refuses its events, "
                                               "--waits records what its threads wait for, --memory allocations"));
    format_program(r->program, program, sizeof program);
    snprintf(text, sizeof text, "ckineto record%s%s%s -- %s", has_samples ? "" : " --cpu-timers", found,
             has_threads ? " --waits" : "", program);
    kc_put_wrapped(p->out, p->width, "  record more: ", "    ", 0, kb_string(text));
}

/* The most likely reason for a trace without activities of the program. */
static void explain_empty_trace(const page *p)
{
    const kc_record_report *r = p->report;
    bool has_threads = p->summary->activities != 0;
    const char *reason = find_reason_in_ledger(r, p->trace);
    char text[400];
    if (!reason && r->python)
        reason = "--python was given, and the program does not run Python.";
    bool is_open = !reason && !r->is_attached;
    if (!reason && r->is_attached)
        reason = "nothing can be loaded into a program that runs already. Started with 'ckineto record -- PROGRAM', "
                 "all sources record it.";
    snprintf(text, sizeof text, "%s%s:%s %s", kc_paint(p->out, KC_YELLOW),
             !has_threads ? "Nothing was recorded"
             : kt_ledger_has(p->trace, "cpu", KC_COUNTERS_NO_SAMPLES)
                 ? "Only states of threads were recorded"
                 : "Only threads and CPU samples were recorded",
             kc_paint(p->out, KC_PLAIN), is_open ? "the program used nothing else that ckineto or a plug-in records without an option." : reason);
    fputc('\n', p->out);
    kc_put_wrapped_styled(p->out, p->width, "  ", "  ", kb_string(text));
    if (is_open)
        print_remedies(p, has_threads);
}

/* ---- the account ----------------------------------------------------------------------------- */

/* CPU time of recording; a program that was short gets no percentage, which would be of next to nothing. */
static void print_overhead(const page *p)
{
    enum { SHORT_NS = 500000000 };
    kineto_ledger_line line;
    double window_ns = (double)kb_length_ns(p->summary->start_ns, p->summary->end_ns);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(p->trace); i++) {
        kineto_trace_ledger(p->trace, i, &line);
        if (!kb_string_is(line.source, "self-cost") ||
            !kb_string_equal(line.reason, kb_string(KT_REASON_RECORDING_COST)))
            continue;
        double cost_ns = 1000.0 * (double)line.count;
        if (window_ns >= SHORT_NS)
            fprintf(p->out, "overhead %.1f %% of one core; ", 100 * cost_ns / window_ns);
        else
            fprintf(p->out, "overhead %s of CPU time; ", kb_short_duration((int64_t)cost_ns).s);
        return;
    }
}

/* The first line with this reason. */
static uint32_t find_reason(const kineto_trace *trace, kineto_string reason)
{
    kineto_ledger_line line;
    for (uint32_t i = 0;; i++) {
        kineto_trace_ledger(trace, i, &line);
        if (kt_ledger_line_is_gap(&line) && kb_string_equal(line.reason, reason))
            return i;
    }
}

static void put_gap_line(const page *p, kineto_string text)
{
    fputs(kc_paint(p->out, KC_YELLOW), p->out);
    kc_put_wrapped(p->out, p->width, "  ", "    ", 2, text);
    fputs(kc_paint(p->out, KC_PLAIN), p->out);
}

/* "plug-in not found: opencl, cuda, nvtx", or the detail of the only one. */
static void print_gap(const page *p, uint32_t first, const kineto_ledger_line *gap)
{
    char *text = NULL;
    size_t size = 0, sources = 0;
    kineto_ledger_line line;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    kc_put_name(out, gap->reason, 0);
    for (uint32_t i = first; i < kineto_trace_ledger_count(p->trace); i++) {
        kineto_trace_ledger(p->trace, i, &line);
        if (!kt_ledger_line_is_gap(&line) || !kb_string_equal(line.reason, gap->reason))
            continue;
        fputs(sources++ ? ", " : ": ", out);
        kc_put_name(out, line.source, 0);
    }
    if (sources == 1 && gap->detail.size) {
        fputs(": ", out);
        kc_put_name(out, gap->detail, 0);
    } else if (sources > 1) {
        fputs(" ('ckineto doctor' says why)", out);
    }
    if (fclose(out) == 0)
        put_gap_line(p, (kineto_string){text, size});
    free(text);
}

/* Is it the first line of a gap with its reason? */
static bool is_new_gap(const page *p, uint32_t i, kineto_ledger_line *line)
{
    kineto_trace_ledger(p->trace, i, line);
    return kt_ledger_line_is_gap(line) && find_reason(p->trace, line->reason) == i;
}

/* What no source recorded: a line for each reason. */
static void print_gaps(const page *p)
{
    enum { MAX_GAPS = 2 };
    kineto_ledger_line line;
    uint64_t gaps = 0, printed = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(p->trace); i++)
        gaps += is_new_gap(p, i, &line);
    uint64_t shown = kc_count_shown(gaps, MAX_GAPS);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(p->trace); i++)
        if (is_new_gap(p, i, &line) && printed++ < shown)
            print_gap(p, i, &line);
    if (gaps > shown)
        fprintf(p->out, "  … and %s more (-v)\n", kc_count(gaps - shown).s);
}

/* The file of the plug-in with this profiler; NULL: unknown. */
static const char *find_plugin_file(const kc_plugins *all, kineto_string profiler)
{
    for (size_t i = 0; all && i < all->list.count; i++)
        for (size_t k = 0; k < all->list.data[i].profilers.count; k++)
            if (kb_string_is(profiler, all->list.data[i].profilers.data[k].name))
                return all->list.data[i].path;
    return NULL;
}

/* Events of `source` that end before they begin: nothing is lost, but tables and findings show them as no time. */
static void print_bad_times(const page *p, kineto_string source, uint64_t bad)
{
    enum { MAX_PATH_BYTES = 200 };
    char *text = NULL;
    size_t size = 0;
    uint64_t of = 0;
    kineto_ledger_line line;
    const char *file = find_plugin_file(p->report->plugins, source);
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(p->trace); i++) {
        kineto_trace_ledger(p->trace, i, &line);
        if (kb_string_equal(line.source, source) && kb_string_is(line.reason, kf_reason_text(KF_REASON_DELIVERED)))
            of += line.count;
    }
    fprintf(out, "%s of %s %s of ", kc_count(bad).s, kc_count(KB_MAX(of, bad)).s, kc_noun(KB_MAX(of, bad), "event", "events"));
    kc_put_name(out, source, 0);
    fprintf(out, " %s, and %s shown without length", kc_noun(bad, "ends before it begins", "end before they begin"),
            kc_noun(bad, "is", "are"));
    if (file)
        fprintf(out, ": ckineto plugin check %s", kc_command_word(kc_relative_path(file), MAX_PATH_BYTES));
    if (fclose(out) == 0)
        put_gap_line(p, (kineto_string){text, size});
    free(text);
}

/* A line for each source with such events. */
static void print_all_bad_times(const page *p)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(p->trace); i++) {
        kineto_trace_ledger(p->trace, i, &line);
        if (line.count && kb_string_is(line.reason, kf_reason_text(KF_REASON_BAD_TIME)))
            print_bad_times(p, line.source, line.count);
    }
}

/* Recorded calls take longer, and those of short functions by the largest part of their time. */
static void print_python_cost(const page *p)
{
    enum { MIN_PERCENT = 20 };
    uint64_t calls = p->summary->kinds[KINETO_KIND_PYTHON_FUNCTION];
    kc_python_cost cost;
    char text[400];
    if (!kc_estimate_python_cost(p->trace, calls, &cost) || cost.percent < MIN_PERCENT)
        return;
    kb_snprintf(text, sizeof text,
                "recording %s calls of Python functions took about %s of CPU time, %.0f %% of what the program takes by "
                "itself: functions with many short calls look longer than they are (--python-only records fewer)",
                kc_count(calls).s, kb_short_duration((int64_t)cost.ns).s, cost.percent);
    fputs(kc_paint(p->out, KC_YELLOW), p->out);
    kc_put_wrapped(p->out, p->width, "  ", "    ", 0, kb_string(text));
    fputs(kc_paint(p->out, KC_PLAIN), p->out);
}

/* One line, unless something was lost. */
static void print_account(const page *p)
{
    fputs("\n  ", p->out);
    print_overhead(p);
    bool lost = kineto_trace_lost(p->trace) || kt_ledger_lost(p->trace, KT_LOSS_PROCESSES) ||
                kt_ledger_is_cut(p->trace);
    kc_put_styled(p->out, lost ? KC_RED : KC_GREEN, "%s", lost ? "not everything was recorded:" : "nothing was lost");
    fputc('\n', p->out);
    if (lost)
        kc_ledger_print_losses(p->trace, p->out);
    kc_ring_print(p->trace, "  the ring: ", p->out);
    print_gaps(p);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void print_headline(const page *p)
{
    char text[1200];
    const kc_summary *s = p->summary;
    if (p->overview && s->activities)
        snprintf(text, sizeof text, "%s", kineto_overview_headline(p->overview));
    else
        snprintf(text, sizeof text, "%s %s in a window of %s", kc_count(s->activities).s,
                 kc_noun(s->activities, "activity", "activities"),
                 kb_duration(kb_length_ns(s->start_ns, s->end_ns)).s);
    fprintf(p->out, "%sckineto:%s ", kc_paint(p->out, KC_BOLD), kc_paint(p->out, KC_PLAIN));
    kc_put_wrapped(p->out, p->width, "", "         ", 0, kb_string(text));
}

static void print_page(const page *p)
{
    enum { SHORT_FINDINGS = 2, ALL_FINDINGS = 6 };
    const kc_record_report *r = p->report;
    print_headline(p);
    kc_summary_tables(p->summary, p->trace, p->out);
    if (r->memory) /* a program may have memory events of its own */
        print_memory_table(p->trace, p->out);
    if (p->summary->kinds[KINETO_KIND_BLOCKING_CALL])
        kc_locks_print(p->trace, p->out);
    if (r->verbose)
        kc_ledger_print(p->trace, false, p->out);
    else
        print_account(p);
    print_python_cost(p);
    print_all_bad_times(p);
    if (p->found && p->summary->activities)
        kc_findings_print_brief(p->found, r->verbose ? ALL_FINDINGS : SHORT_FINDINGS, p->width, p->out);
    if (count_own_activities(p->summary) == 0)
        explain_empty_trace(p);
    fputc('\n', p->out);
}

static size_t count_lines(const char *text, size_t size)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Fewer rows until it fits, MIN_ROWS at least. */
static void print_fitting(page *p, FILE *out)
{
    uint32_t least = p->report->verbose ? KC_TOP : MIN_ROWS;
    for (kc_shown_rows = KC_TOP; kc_shown_rows >= least; kc_shown_rows--) {
        char *text = NULL;
        size_t size = 0;
        p->out = open_memstream(&text, &size);
        if (!p->out)
            break;
        print_page(p);
        bool is_last = fclose(p->out) == 0 &&
                       (kc_shown_rows == least || count_lines(text, size) <= KC_SUMMARY_LINES);
        if (is_last)
            fwrite(text, 1, size, out);
        free(text);
        if (is_last)
            break;
    }
    kc_shown_rows = KC_TOP;
}

/* The findings of the overview, or only these if it takes too long. @param own  receives findings to destroy. */
static void find_for_page(page *p, kineto_findings **own)
{
    kineto_findings_options o = {.size = sizeof o, .evidence = 1};
    kineto_analysis_options shown = {.size = sizeof shown, .tables = "steps"}; /* those of the overview, and no others */
    const kc_summary *s = p->summary;
    if (s->activities <= MAX_OVERVIEW_ACTIVITIES && kineto_overview_create(p->trace, &shown, &p->overview, NULL) == KINETO_OK)
        p->found = kineto_overview_findings(p->overview);
    else if (!s->devices.count && s->activities <= MAX_FINDING_ACTIVITIES && s->kinds[KINETO_KIND_THREAD_STATE] &&
             kineto_findings_find(p->trace, &o, own, NULL) == KINETO_OK)
        p->found = *own;
}

void kc_record_summary_print(const kc_record_report *r, const kineto_trace *trace, FILE *out)
{
    kc_summary s;
    kineto_error err;
    kineto_findings *own = NULL;
    page p = {.report = r, .trace = trace, .summary = &s, .width = kc_page_width(out)};
    if (kc_summary_make(trace, &s, &err)) {
        fprintf(out, "ckineto: no summary: %s\n", err.message);
        return;
    }
    if (r->no_summary) {
        fprintf(out, "ckineto: %s %s\n", kc_count(s.activities).s,
                kc_noun(s.activities, "activity", "activities"));
    } else {
        find_for_page(&p, &own);
        kc_memory_stream = out;
        print_fitting(&p, out);
        kc_memory_stream = NULL;
    }
    kineto_findings_destroy(own);
    kineto_overview_destroy(p.overview);
    kc_summary_free(&s);
}
