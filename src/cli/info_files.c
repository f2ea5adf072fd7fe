/* ckineto info of several files: a table of them, and findings about the set. Files are opened one
 * after the other by kineto_files_survey, so that only one is in memory. Unreadable files are rows
 * with an error. */
#include "cli/open_many.h"
#include "analyze/saved/facts_paths.h"
#include "cli/style.h"
#include "cli/page.h"

#include <ckineto/analyze.h>

#include "trace/files/identity.h"

/* ---- text ------------------------------------------------------------------------------------ */

static FILE *page; /* the text, which is wrapped when it is complete */

/* Sums over all readable files, and the window that contains theirs. */
typedef struct survey_totals {
    uint64_t activities, lost, unreadable;
    int64_t start_ns, end_ns;
    bool any;
    size_t host_columns;
} survey_totals;

/* Files without activities do not extend the window. */
static survey_totals sum_files(const kineto_survey *survey)
{
    enum { MAX_COLUMNS = 32 };
    survey_totals sum = {.host_columns = 4};
    kineto_survey_file f;
    for (uint32_t i = 0; kineto_survey_file_at(survey, i, &f); i++) {
        size_t host = KB_MIN(strlen(f.identity->host), (size_t)MAX_COLUMNS);
        sum.host_columns = KB_MAX(sum.host_columns, host);
        sum.unreadable += f.status != KINETO_OK;
        sum.activities += f.activities;
        sum.lost += f.lost;
        if (f.status != KINETO_OK || !f.activities)
            continue;
        sum.start_ns = sum.any ? KB_MIN(sum.start_ns, f.window_start_ns) : f.window_start_ns;
        sum.end_ns = sum.any ? KB_MAX(sum.end_ns, f.window_end_ns) : f.window_end_ns;
        sum.any = true;
    }
    return sum;
}

static void print_number_or_dash(int64_t number, int columns, bool known)
{
    if (known)
        fprintf(page, "%*lld  ", columns, (long long)number);
    else
        fprintf(page, "%*s  ", columns, "-");
}

/* Rank, host and process, then activities, start and length, then the name. */
static void print_file_row(const kineto_survey_file *f, const survey_totals *sum)
{
    const kineto_identity *id = f->identity;
    if (id->rank_count > 1)
        fprintf(page, "  %5s  ", "many");
    else
        print_number_or_dash(id->rank, 7, id->rank >= 0);
    kc_put_name(page, kb_string(id->host[0] ? id->host : "-"), sum->host_columns);
    fputs("  ", page);
    print_number_or_dash(id->pid, 10, id->pid >= 0);
    if (f->status == KINETO_OK)
        fprintf(page, "%12s  %12s  %12s  ", kc_count(f->activities).s,
               f->activities ? kb_duration(kb_length_ns(sum->start_ns, f->window_start_ns)).s : "-",
               kb_duration(kb_length_ns(f->window_start_ns, f->window_end_ns)).s);
    else
        fprintf(page, "%s%12s%s  %12s  %12s  ", kc_paint(page, KC_RED), "unreadable", kc_paint(page, KC_PLAIN), "-", "-");
    kc_put_name(page, kb_string(f->name), 0);
    if (f->lost || f->is_cut)
        fprintf(page, " (%s lost)", kc_lost_text(f->lost, f->is_cut).s);
    fputc('\n', page);
}

/* "63 of 64 ranks; missing: 50."; nothing of whole sets. */
static void print_ranks(const kineto_survey *survey)
{
    ka_coverage coverage = {0};
    char text[400] = "";
    if (ka_coverage_add_surveyed(&coverage, survey) && ka_coverage_add_bad_files(&coverage, survey) &&
        !ka_coverage_is_whole(&coverage))
        ka_coverage_describe(&coverage, text, sizeof text);
    if (*text)
        fprintf(page, "%s\n", text);
    ka_coverage_free(&coverage);
}

/* Which ranks there are, a head line, a row for each file, and the findings. */
static void print_survey(const kineto_survey *survey, uint64_t skipped)
{
    kc_page whole;
    page = kc_page_begin(&whole, stdout);
    uint32_t count = kineto_survey_count(survey);
    survey_totals sum = sum_files(survey);
    kineto_survey_file f;
    print_ranks(survey);
    fprintf(page, "%u %s, %s %s in %s", count, kc_noun(count, "trace", "traces"),
           kc_count(sum.activities).s, kc_noun(sum.activities, "activity", "activities"),
           kb_duration(kb_length_ns(sum.start_ns, sum.end_ns)).s);
    if (skipped)
        fprintf(page, "; %s other %s skipped", kc_count(skipped).s,
               kc_noun(skipped, "file was", "files were"));
    fputc('\n', page);
    if (sum.any)
        fprintf(page, "  windows from %s\n", kc_format_utc(sum.start_ns).s);
    fputs("\n  ", page);
    kc_put_styled(page, KC_BOLD, "%5s  %-*s  %10s  %12s  %12s  %12s  %s", "rank", (int)sum.host_columns, "host",
                  "process", "activities", "from", "length", "file");
    fputc('\n', page);
    for (uint32_t i = 0; kineto_survey_file_at(survey, i, &f); i++)
        print_file_row(&f, &sum);
    if (kineto_survey_finding_count(survey))
        fputc('\n', page);
    kc_page_end(&whole);
    kc_print_findings(survey, KINETO_SEVERITY_NOTE, stdout);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Where a member of the identity comes from; nothing if it is unknown. */
static void put_learned_source(kb_json *j, const char *key, uint8_t learned)
{
    if (learned)
        kb_json_put_string(j, key, kb_string(kineto_learned_name(learned)));
}

/* The identity, and where each member of it comes from. */
static void put_file_identity(kb_json *j, const kineto_identity *id)
{
    kt_put_identity(j, id);
    if (id->rank_count > 1)
        kb_json_put_uint(j, "ranks", id->rank_count);
    kb_json_key_z(j, "learned");
    kb_json_object_begin(j);
    put_learned_source(j, "rank", id->rank_learned);
    put_learned_source(j, "world_size", id->world_size_learned);
    put_learned_source(j, "host", id->host_learned);
    put_learned_source(j, "pid", id->pid_learned);
    put_learned_source(j, "backend", id->backend_learned);
    kb_json_object_end(j);
    if (id->conflict[0])
        kb_json_put_string(j, "conflict", kb_string(id->conflict));
}

/* An unreadable file has an error in place of its numbers. */
static void put_surveyed_file(kb_json *j, const kineto_survey_file *f)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "trace", kb_string(f->path));
    kb_json_put_string(j, "name", kb_string(f->name));
    if (f->status == KINETO_OK) {
        put_file_identity(j, f->identity);
        kb_json_put_uint(j, "activities", f->activities);
        kb_json_put_uint(j, "lost", f->lost);
        kb_json_put_int(j, "window_start_ns", f->window_start_ns);
        kb_json_put_int(j, "window_end_ns", f->window_end_ns);
        kb_json_put_uint(j, "text_bytes", f->text_bytes);
    } else {
        kb_json_put_string(j, "error", kb_string(f->error));
    }
    kb_json_object_end(j);
}

typedef struct survey_document {
    const kineto_survey *survey;
    uint64_t skipped;
} survey_document;

/* The JSON object of a set of files: `other_things` counts files that are not traces. */
static void put_survey(kb_json *j, const void *what)
{
    const survey_document *all = what;
    kineto_survey_file f;
    kb_json_document_begin(j, "ckineto.info_files/1");
    kb_json_key_z(j, "traces");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_survey_file_at(all->survey, i, &f); i++)
        put_surveyed_file(j, &f);
    kb_json_array_end(j);
    kb_json_put_uint(j, "other_things", all->skipped);
    kc_put_findings(all->survey, j);
    kc_put_surveyed_coverage(all->survey, j);
    kb_json_object_end(j);
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Progress on a terminal; the survey itself keeps the numbers. */
static bool show_surveyed_file(const kineto_visit *visit, void *user)
{
    (void)user;
    kc_show_reading(visit->index, visit->count, visit->path);
    return true;
}

/* Of facts, what they say of their traces. */
static kineto_status survey_facts(char *const *paths, int count, kineto_survey **survey, kineto_error *err)
{
    ka_facts_set *facts = NULL;
    kineto_status status = ka_facts_open_paths(paths, count, &facts, err);
    if (!status)
        status = ka_facts_set_survey(facts, survey, err);
    ka_facts_set_destroy(facts);
    return status;
}

/* Files are opened one after the other by the survey. If none can be read, the exit status is KC_EXIT_USAGE. */
int kc_info_files(char *const *paths, int count)
{
    kineto_error err = {0};
    kineto_files *files = NULL;
    kineto_survey *survey = NULL;
    kineto_survey_options how = {
        .size = sizeof how, .open = &kc_reading, .visit = show_surveyed_file};
    bool unreadable = false;
    ka_operands_kind kind;
    kineto_status status = ka_find_facts(paths, count, &kind, NULL, &err);
    if (!status && kind != KA_OPERANDS_TRACES)
        status = survey_facts(paths, count, &survey, &err);
    else if (!status)
        status = kineto_files_find((const char *const *)paths, (size_t)count, &files, &err);
    if (!status && files)
        status = kineto_files_survey(files, &how, &survey, &err);
    kc_show_reading(0, 0, NULL);
    if (status == KINETO_OK) {
        unreadable = sum_files(survey).unreadable == kineto_survey_count(survey);
        if (kc_json_path)
            status = kc_put_json(put_survey,
                                 &(survey_document){survey, kineto_files_skipped(files)}, &err);
        else
            print_survey(survey, kineto_files_skipped(files));
    }
    if (status)
        kc_complain_of("info", &err);
    else
        kc_report_bad_files(survey);
    int code = status || !unreadable ? kc_exit_of(status, survey != NULL) : KC_EXIT_USAGE;
    kineto_survey_destroy(survey);
    kineto_files_destroy(files);
    return kc_finish_stdout("info", code);
}
