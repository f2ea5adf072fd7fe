/* Writing a trace in another format, and the account of it: every activity is written, or counted
 * as omitted with a reason. */
#include "cli/convert.h"
#include "cli/page.h"
#include "cli/summary/summary.h"

#include <errno.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- progress, on terminals only ------------------------------------------------------------- */

/* The line on the terminal, as show_write_progress wrote it last. */
typedef struct write_progress {
    /* when the line was written last */
    uint64_t shown_ns;
    bool is_there;
} write_progress;

/* A kineto_export_options.progress: at most five times per second. */
static void show_write_progress(uint64_t done, uint64_t all, void *user)
{
    enum { BETWEEN_NS = 200000000 };
    write_progress *p = user;
    uint64_t now = kb_monotonic_ns();
    if (all == 0 || now - p->shown_ns < BETWEEN_NS)
        return;
    if (p->shown_ns || p->is_there)
        fprintf(stderr, "\rckineto: writing, %llu %%\033[K",
                (unsigned long long)(done / KB_MAX(all / 100, 1)));
    p->is_there = true; /* a fast write shows no line */
    p->shown_ns = now;
}

/* Nothing if no line was written. */
static void clear_write_progress(const write_progress *p)
{
    if (p->is_there)
        fputs("\r\033[K", stderr);
}

/* The name is shown at once, because the first part of reading shows no progress. */
kineto_status kc_convert_open(const char *verb, char *const *paths, int count, int32_t rank,
                              kineto_trace **out, kineto_error *err)
{
    bool show = isatty(STDERR_FILENO) && kc_is_one_file(paths, count);
    if (show) {
        int used = fprintf(stderr, "ckineto: reading ");
        kc_put_path(stderr, paths[0], (size_t)KB_MAX(used, 0) + 2);
        fputs(" …", stderr);
    }
    kineto_status status = kc_open_traces(paths, count, rank, out, err);
    if (show)
        fputs("\r\033[K", stderr);
    if (status)
        kc_complain("%s: %s", verb, err->message);
    return status;
}

/* ---- the account ----------------------------------------------------------------------------- */

/* Forms that do not occur are left out; *separator is what precedes the next one. */
static void print_form_count(uint64_t count, const char *one, const char *many,
                             const char **separator, FILE *page)
{
    if (!count)
        return;
    fprintf(page, "%s%s %s", *separator, kc_count(count).s, kc_noun(count, one, many));
    *separator = " + ";
}

/* Nouns of omissions are plural; the singular for a count of one. */
static const char *get_omission_noun(const kineto_export_omission *omission)
{
    static const char *const nouns[][2] = {{"activities", "activity"},
                                           {"activities' arguments", "activity's arguments"},
                                           {"flows", "flow"},
                                           {"flow directions", "flow direction"},
                                           {"ledger lines", "ledger line"},
                                           {"metadata entries", "metadata entry"},
                                           {"times", "time"}};
    for (size_t i = 0; i < KB_COUNT(nouns); i++)
        if (strcmp(omission->what, nouns[i][0]) == 0)
            return kc_noun(omission->count, nouns[i][1], nouns[i][0]);
    return omission->what;
}

/* How activities and flows were written, and what was omitted with reasons. */
static void put_account(const kineto_trace *trace, const kineto_export_result *r, FILE *page)
{
    uint64_t count = kineto_trace_count(trace), flows = kineto_trace_flow_count(trace);
    const char *separator = " → ";
    fprintf(page, "  activities %s", kc_count(count).s);
    print_form_count(r->slices, "slice", "slices", &separator, page);
    print_form_count(r->asyncs, "asynchronous range", "asynchronous ranges", &separator, page);
    print_form_count(r->instants, "instant", "instants", &separator, page);
    print_form_count(r->counters, "counter sample", "counter samples", &separator, page);
    fprintf(page, "%s", r->activities ? "" : " → 0");
    if (r->record_noun)
        fprintf(page, ", in %s %s", kc_count(r->records).s, r->record_noun);
    if (flows)
        fprintf(page, "; flows %s → %s", kc_count(flows).s, kc_count(r->flows).s);
    fputc('\n', page);
    for (uint32_t i = 0; i < r->omission_count; i++)
        fprintf(page, "  not in this file: %s %s (%s)\n", kc_count(r->omissions[i].count).s,
                get_omission_noun(&r->omissions[i]), r->omissions[i].reason);
    if (r->replaced_bytes)
        fprintf(page, "  invalid UTF-8 became U+FFFD %s %s\n", kc_count(r->replaced_bytes).s,
                kc_noun(r->replaced_bytes, "time", "times"));
}

static void print_account(const kineto_trace *trace, const kineto_export_result *r)
{
    kc_page whole;
    put_account(trace, r, kc_page_begin(&whole, stderr));
    kc_page_end(&whole);
}

/* Activities that are neither written nor counted as omitted. Not 0 is a bug of a writer. */
static int64_t count_unaccounted(const kineto_trace *trace, const kineto_export_result *r)
{
    uint64_t known = r->activities;
    for (uint32_t i = 0; i < r->omission_count; i++)
        if (strcmp(r->omissions[i].what, "activities") == 0)
            known += r->omissions[i].count;
    return (int64_t)(kineto_trace_count(trace) - known);
}

/* Print the account unless quiet. @return failure if an activity is not accounted for. */
static int report_account(const char *verb, const kineto_trace *trace, const char *path,
                          const kineto_export_result *r, bool quiet)
{
    int64_t missing = count_unaccounted(trace, r);
    if (!quiet) {
        kc_print(stderr, "ckineto: %s: %s, %s\n", strcmp(path, "-") ? path : "standard output",
                 r->format, kb_bytes(r->bytes).s);
        print_account(trace, r);
        kc_clocks_print(trace, "  ", stderr);
        kc_losses_print(trace, stderr);
    }
    if (missing)
        kc_complain("%s: %lld activities are not accounted for in %s; do not rely on it", verb,
                    (long long)missing, path);
    return missing ? KC_EXIT_FAILURE : 0;
}

/* Progress is shown only on a terminal. A closed pipe is not reported: its reader has seen enough.
 */
int kc_convert_write(const char *verb, const kineto_trace *trace, const char *path,
                     kineto_export_options *options, bool quiet)
{
    kineto_error err = {0};
    kineto_export_result result = {.size = sizeof result};
    write_progress p = {0};
    if (!quiet && isatty(STDERR_FILENO)) {
        options->progress = show_write_progress;
        options->user = &p;
    }
    kineto_status status = kineto_trace_export(trace, path, options, &result, &err);
    clear_write_progress(&p);
    options->progress = NULL;
    options->user = NULL;
    if (status == KINETO_OK)
        return report_account(verb, trace, path, &result, quiet);
    if (err.os_error != EPIPE || strcmp(path, "-") != 0) /* a closed pipe is not an error */
        kc_complain("%s: %s", verb, err.message);
    return KC_EXIT_FAILURE;
}

/* ---- list of formats ------------------------------------------------------------------------- */

/* Names, descriptions and endings of all writers, for --list. */
void kc_print_formats(void)
{
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; kineto_export_format_get(i, &f); i++) {
        printf("%-11s %s\n%-11s ", f.name, f.about, "");
        for (size_t k = 0; f.endings[k]; k++)
            printf("%s%s", k ? ", " : "", f.endings[k]);
        puts(f.compressible ? "; also with .gz or .zst" : "");
    }
}
