/* Making a report: read the traces one after the other, analyse each as a rank, add up facts and
 * findings, and write the page, text or flame graph. Only one trace is in memory at a time, besides
 * the first one, which the timeline may show. */
#include "cli/facts/facts_health.h"
#include "cli/report/report.h"
#include "analyze/overview/overview.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/tables/table.h"
#include "cli/open_many.h"

#include <ckineto/diff.h>
#include <ckineto/export.h>
#include <ckineto/files.h>
#include <ckineto/overview.h>

#include <unistd.h>

/* ---- ranks ----------------------------------------------------------------------------------- */

/* State of one report. The first trace stays open for the timeline; all others are released
 * when their facts were added. */
typedef struct report_work {
    const kc_report_page *page;
    kineto_analysis_options analyze;
    kineto_overview *seen; /* of all ranks so far */
    kineto_trace *first;
    kc_health health;
    kineto_files *files;
    kc_file_set set;
    KB_VEC(char *) readable; /* borrowed from `files` */
    ka_trace_clocks clocks;        /* of these */
    bool wants_health;
    uint64_t activities; /* of all */
    uint32_t count;
} report_work;

/* The overview of one trace as a rank, added to that of the ranks before it. */
static kineto_status analyze_trace(report_work *w, kineto_trace *trace, const char *path,
                                   uint32_t index, kineto_error *err)
{
    int32_t rank = kc_trace_rank(trace, path, index);
    kineto_overview *seen;
    w->analyze.rank = &rank;
    kineto_status status = kineto_overview_create(trace, &w->analyze, &seen, err);
    w->analyze.rank = NULL;
    w->activities += kineto_trace_count(trace);
    if (!status && w->wants_health)
        kc_health_add(&w->health, trace, w->count > 1 ? rank : -1);
    if (status)
        return status;
    if (!w->seen) {
        w->seen = seen;
        return KINETO_OK;
    }
    status = kineto_overview_add(w->seen, seen, err);
    kineto_overview_destroy(seen);
    return status;
}

/* Only the first trace stays open. */
static kineto_status analyze_files(report_work *w, const kineto_files *files, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    w->count = kineto_files_count(files);
    for (uint32_t i = 0; i < w->count && !status; i++) {
        const char *path = kineto_files_path(files, i);
        kineto_trace *trace = NULL;
        kc_show_reading(i, w->count, path);
        status = kc_file_set_open(&w->set, files, i, &trace, err);
        if (!trace)
            continue;
        status = analyze_trace(w, trace, path, i, err);
        if (!status && !w->first)
            w->first = kineto_trace_retain(trace);
        if (!kb_vec_push(&w->readable, (char *)(uintptr_t)path) ||
            !ka_trace_clocks_add(&w->clocks, path, kc_trace_rank(trace, path, i)))
            status = kb_fail_memory(err, NULL);
        kineto_trace_release(trace);
    }
    kc_show_reading(0, 0, NULL);
    ka_coverage *coverages[] = {&w->health.coverage, w->seen ? &w->seen->coverage : NULL};
    for (size_t i = 0; i < KB_COUNT(coverages) && coverages[i]; i++)
        coverages[i]->facts_left_out = ka_count_facts_left_out(w->page->paths, w->page->count);
    return status ? status : kc_file_set_end(&w->set, files, coverages, w->seen ? 2 : 1, err);
}

/* ---- the page -------------------------------------------------------------------------------- */

static void show_page_progress(uint64_t done, uint64_t all, void *user)
{
    (void)user;
    if (isatty(STDERR_FILENO) && all > 500000)
        fprintf(stderr, "\rckineto: writing the page: %llu %%\033[K%s",
                (unsigned long long)(100 * done / all), done + 4096 >= all ? "\r\033[K" : "");
}

/* --title, else the name of the first file, and how many more. */
static const char *choose_title(const kc_report_page *page, char *text, size_t size)
{
    const char *slash = strrchr(page->paths[0], '/');
    const char *name = slash && slash[1] ? slash + 1 : page->paths[0];
    if (page->count > 1)
        snprintf(text, size, "%s and %d more", name, page->count - 1);
    else
        snprintf(text, size, "%s", name);
    return page->title ? page->title : text;
}

/* By what was found when they were compared. */
static void align_clocks(report_work *w)
{
    const kineto_analysis *facts = kineto_overview_facts(w->seen);
    const ka_rank_view *v = facts && facts->ranks && !kc_no_align ? ka_rank_set_view(facts->ranks) : NULL;
    if (v && v->model.clocks.count > 1)
        ka_trace_clocks_set(&w->clocks, &v->model);
}

/* The timeline shows all ranks next to each other, if they have at most activity_limit activities;
 * else only the first rank. */
static kineto_status open_timeline_trace(report_work *w, kineto_trace **out, kineto_error *err)
{
    uint64_t limit = w->page->activity_limit ? w->page->activity_limit : 2000000;
    if (w->readable.count > 1 && w->activities <= limit) {
        align_clocks(w);
        return kc_open_aligned(w->readable.data, (int)w->readable.count, &w->clocks, NULL, out, err);
    }
    if (w->activities > limit)
        fprintf(stderr,
                "ckineto: %s activities: the page has %s; slice the trace, or "
                "--activity-limit\n",
                kc_count(w->activities).s,
                kineto_trace_count(w->first) > limit ? "no timeline"
                                                     : "the timeline of the first rank only");
    *out = kineto_trace_retain(w->first);
    return KINETO_OK;
}

/* The caller need not ask for it. */
static void store_is_read(const kc_report_page *page, bool is_read)
{
    if (page->is_read)
        *page->is_read = is_read;
}

/* Find the files and analyse them. */
static kineto_status read_report_traces(report_work *w, kineto_error *err)
{
    kineto_status status = kineto_files_find((const char *const *)w->page->paths,
                                             (size_t)w->page->count, &w->files, err);
    return status ? status : analyze_files(w, w->files, err);
}

/* Also after a failure, with members that are NULL. */
static void free_work(report_work *w)
{
    kc_file_set_report(&w->set);
    kineto_overview_destroy(w->seen);
    kineto_trace_release(w->first);
    kc_health_free(&w->health);
    kb_vec_free(&w->readable);
    ka_trace_clocks_free(&w->clocks);
    kineto_files_destroy(w->files);
}

/* The first trace compared with --before. */
static kineto_status compare_with_before(const report_work *w, kineto_analysis **diff,
                                         kineto_error *err)
{
    kineto_diff_options o = {.size = sizeof o, .analyze = &w->page->analyze, .findings = true};
    kineto_trace *before = NULL;
    kineto_status status = kineto_trace_open_with(w->page->before, &kc_reading, &before, err);
    if (!status)
        status = kineto_diff_run(before, w->first, &o, diff, err);
    kineto_trace_release(before);
    return status;
}

/* is_read is set before the page is written, so that an error of the output is distinguished from
 * one of the input. */
static kineto_status make_page(report_work *w, const char *output, kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_analysis *diff = NULL;
    char title[400];
    store_is_read(w->page, false);
    kineto_status status = read_report_traces(w, err);
    if (!status && w->page->before)
        status = compare_with_before(w, &diff, err);
    if (!status)
        status = open_timeline_trace(w, &trace, err);
    store_is_read(w->page, !status);
    kineto_report_options o = {.size = sizeof o,
                               .title = choose_title(w->page, title, sizeof title),
                               .facts = kineto_overview_facts(w->seen),
                               .findings = kineto_overview_findings(w->seen),
                               .diff = diff,
                               .row_limit = w->page->row_limit,
                               .activity_limit = w->page->activity_limit,
                               .progress = show_page_progress,
                               .step_pattern = w->page->analyze.step_pattern,
                               .overview = w->seen};
    if (!status)
        status = kineto_report_save(trace, &o, output, err);
    kineto_analysis_destroy(diff);
    kineto_trace_release(trace);
    return status;
}

kineto_status kc_report_save_page(const kc_report_page *page, const char *output, kineto_error *err)
{
    report_work w = {.page = page, .analyze = page->analyze};
    kineto_status status = make_page(&w, output, err);
    free_work(&w);
    return status;
}

/* From facts that have an overview: with all tables that are there. */
static kineto_status read_report_facts(report_work *w, kineto_error *err)
{
    ka_facts_set *s = NULL;
    ka_table_set tables = 0;
    kineto_status status = ka_facts_open_paths(w->page->paths, w->page->count, &s, err);
    uint32_t count = s ? ka_facts_set_count(s) : 0;
    if (!status)
        status = kc_add_facts_health(s, &w->health, &w->set, err);
    if (!status)
        status = ka_facts_set_tables(s, &tables, err);
    tables = (tables | ka_reducible_tables(tables)) & ~ka_tables_with(KA_HIDDEN | KA_DIFF);
    if (!status && count)
        status = ka_facts_set_overview(s, tables, &w->seen, err);
    ka_facts_set_destroy(s);
    return status;
}

/* Also needs the health of the traces. */
kineto_status kc_report_print_text(const kc_report_page *page, uint64_t width, FILE *out,
                                   kineto_error *err)
{
    report_work w = {.page = page, .analyze = page->analyze, .wants_health = true};
    ka_operands_kind kind;
    kineto_status status = ka_find_facts(page->paths, page->count, &kind, NULL, err);
    if (!status)
        status = kind == KA_OPERANDS_TRACES ? read_report_traces(&w, err) : read_report_facts(&w, err);
    store_is_read(page, !status);
    if (!status)
        kc_report_print(&w.health, kineto_overview_facts(w.seen), kineto_overview_findings(w.seen),
                        width, out);
    free_work(&w);
    return status;
}

/* From all files as one trace. */
kineto_status kc_report_save_flame(const kc_report_page *page, const char *output,
                                   kineto_error *err)
{
    kineto_trace *trace = NULL;
    char title[400];
    kineto_export_options o = {
        .size = sizeof o, .format = "flame", .trace_name = choose_title(page, title, sizeof title)};
    kineto_status status = kc_open_traces(page->paths, page->count, -1, &trace, err);
    store_is_read(page, !status);
    if (!status)
        status = kineto_trace_export(trace, output, &o, NULL, err);
    kineto_trace_release(trace);
    return status;
}
