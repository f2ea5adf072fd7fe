/* ckineto verify: check whether traces are sound. The rules are in src/analyze/verify. A trace that
 * cannot be read does not prevent the check of the others; the worst result is the exit status. */
#include "cli/facts/facts_health.h"
#include "cli/names.h"
#include "cli/open_many.h"
#include "cli/style.h"
#include "cli/verify_text.h"
#include "analyze/facts/analyses.h"
#include "analyze/saved/facts_paths.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/ranks/rank_warnings.h"
#include "cli/print_facts.h"
#include "export/export.h"
#include "trace/files/identity.h"
#include "trace/import/import.h"
#include <ckineto/analyze.h>

#include <errno.h>

static bool quiet, list_rules, verbose;
static kc_verify_text text;
static kineto_analysis *dumps; /* what dumps of the flight recorder show when they are compared; NULL: there are none */
static kineto_analysis *ranks; /* the same of traces of several ranks */
static kc_texts rules;
static uint64_t max_places;
static const kc_option option_list[] = {
    KC_JSON_OPTION,
    {"rule", 'r', KC_TEXTS, &rules, "CHECK", "only this rule, or all rules below ID (repeatable)"},
    {"list", 'l', KC_FLAG, &list_rules, NULL, "list the rules with their meanings"},
    {"evidence", 'm', KC_NUMBER, &max_places, "N", "show N places for each finding (3)"},
    KC_ALIAS_OPTION("max", "evidence"),
    KC_READING_OPTIONS,
    KC_COLOR_OPTION,
    KC_VERBOSE_OPTION(verbose, "also notes, which are no defects, and traces that are sound"),
    {"quiet", 'q', KC_FLAG, &quiet, NULL, "print nothing; see the exit status"},
};
static const kc_options options = {
    "verify",
    "[options] TRACE...",
    "Check whether traces are sound: complete, consistent, and possible. The exit status is 0\n"
    "if they are, 1 if there are errors or warnings (notes do not count) or some of several\n"
    "traces are damaged or cannot be read, 2 if none can be read or the output cannot be\n"
    "written. For a directory, check all traces in it, and whether they belong together.",
    "ckineto verify trace.json\n"
    "ckineto verify run/",
    option_list,
    KB_COUNT(option_list),
    false};

/* Exit statuses of verify, in rising order of severity: the worst of all traces is the result. */
enum { EXIT_SOUND = 0, EXIT_FINDINGS = 1, EXIT_UNREADABLE = 2 };

/* ---- rules ----------------------------------------------------------------------------------- */

/* All rules with severity, meaning, reason and remedy, for --list. */
static void print_verify_rules(void)
{
    kineto_verify_rule rule;
    for (uint32_t i = 0; kineto_verify_rule_get(i, &rule); i++)
        printf("%-24s %s%-8s%s %s\n%33s %s\n%33s %s\n", rule.id,
               kc_paint(stdout, kc_severity_style(rule.severity)), kineto_severity_name(rule.severity),
               kc_paint(stdout, KC_PLAIN), rule.meaning, "why:", rule.why, "do:", rule.remedy);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Members that do not apply to the place are omitted. */
static void put_finding_place(kb_json *j, const kineto_verify_place *place)
{
    kb_json_object_begin(j);
    if (place->row != KINETO_NO_ROW) {
        kb_json_put_uint(j, "row", place->row);
        kb_json_put_uint(j, "track", place->track);
        kb_json_put_int(j, "start_ns", place->start_ns);
        kb_json_put_int(j, "end_ns", place->end_ns);
        kb_json_put_string(j, "name", place->name);
        kb_json_put_string(j, "where", place->where);
    }
    if (place->text.size)
        kb_json_put_string(j, "text", place->text);
    if (place->offset != KINETO_NO_OFFSET)
        kb_json_put_uint(j, "offset", place->offset);
    kb_json_object_end(j);
}

/* A finding with the texts of its rule, so that readers need no second file. */
static void put_verify_finding(kb_json *j, const kineto_verify_report *report, uint32_t index)
{
    kineto_verify_finding f;
    kineto_verify_rule rule;
    kineto_verify_place place;
    kineto_verify_report_finding(report, index, &f);
    kineto_verify_rule_get(f.rule, &rule);
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "rule", kb_string(rule.id));
    kb_json_put_string(j, "severity", kb_string(kineto_severity_name(f.severity)));
    kb_json_put_uint(j, "count", f.count);
    kb_json_put_string(j, "sentence", f.sentence);
    kb_json_put_string(j, "why", kb_string(rule.why));
    kb_json_put_string(j, "remedy", kb_string(rule.remedy));
    kb_json_key_z(j, "places");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_verify_report_place(report, index, i, &place); i++)
        put_finding_place(j, &place);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* The verdict, numbers by severity, and all findings. */
static void put_verify_report(kb_json *j, const kineto_verify_report *report)
{
    static const char *const keys[] = {"notes", "warnings", "errors"};
    uint32_t counts[KB_COUNT(keys)];
    for (uint32_t s = 0; s < KB_COUNT(keys); s++)
        counts[s] = kineto_verify_report_severity_count(report, s);
    kb_json_put_bool(j, "sound",
                     !counts[KINETO_SEVERITY_WARNING] && !counts[KINETO_SEVERITY_ERROR]);
    for (uint32_t s = KB_COUNT(keys); s-- > 0;)
        kb_json_put_uint(j, keys[s], counts[s]);
    kb_json_key_z(j, "findings");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_verify_report_count(report); i++)
        put_verify_finding(j, report, i);
    kb_json_array_end(j);
}

/* Why a trace could not be read; the offset only for errors of the format. */
static void put_trace_error(kb_json *j, const kineto_error *err)
{
    kb_json_key_z(j, "error");
    kb_json_object_begin(j);
    kb_json_put_string(j, "status", kb_string(kineto_status_name(err->code)));
    kb_json_put_string(j, "message", kb_string(err->message));
    if (err->code == KINETO_E_FORMAT)
        kb_json_put_uint(j, "offset", err->offset);
    kb_json_object_end(j);
}

static void put_verify_rules(kb_json *j)
{
    kineto_verify_rule rule;
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_verify_rule_get(i, &rule); i++) {
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "id", kb_string(rule.id));
        kb_json_put_string(j, "severity", kb_string(kineto_severity_name(rule.severity)));
        kb_json_put_string(j, "meaning", kb_string(rule.meaning));
        kb_json_put_string(j, "why", kb_string(rule.why));
        kb_json_put_string(j, "remedy", kb_string(rule.remedy));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* ---- files ----------------------------------------------------------------------------------- */

/* @param j NULL: as text. @return EXIT_FINDINGS if there are errors or warnings. */
static int output_report(const char *path, const kineto_trace *trace,
                         const kineto_verify_report *report, kb_json *j)
{
    if (j)
        put_verify_report(j, report);
    else
        kc_verify_text_add(&text, path, trace, report);
    return kineto_verify_report_severity_count(report, KINETO_SEVERITY_ERROR) ||
                   kineto_verify_report_severity_count(report, KINETO_SEVERITY_WARNING)
               ? EXIT_FINDINGS
               : EXIT_SOUND;
}

/* @param trace NULL: it could not be opened, for the reason in err. */
static int verify_opened(const char *path, const kineto_trace *trace, kineto_error *err,
                         const kineto_verify_options *how, kb_json *j)
{
    kineto_verify_report *report = NULL;
    int result = EXIT_UNREADABLE;
    if (j) {
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "trace", kb_string(path));
    }
    kineto_status status = trace ? kineto_verify_run(trace, how, &report, err) : err->code;
    if (status == KINETO_OK)
        result = output_report(path, trace, report, j);
    else if (j)
        put_trace_error(j, err);
    if (status != KINETO_OK && (trace || !text.is_set)) /* those of a set are named at the end */
        kc_complain_of("verify", err);
    if (j)
        kb_json_object_end(j);
    kineto_verify_report_destroy(report);
    return result;
}

/* ---- ranks that are compared ------------------------------------------------------------------- */

/* Adds a file to the dumps, or to the traces. */
static kineto_status add_rank(kineto_analysis **to, const kineto_trace *trace, const char *path, uint32_t index, kineto_error *err)
{
    int32_t rank = kc_trace_rank(trace, path, index);
    kineto_analysis_options o = {.size = sizeof o, .rank = &rank};
    kineto_analysis *own;
    kineto_status status = ka_analyze_tables(trace, &o, KA_TABLE_BIT(KA_TABLE_rank_damage), &own, err);
    if (status)
        return status;
    if (!*to) {
        *to = own;
        ka_facts_defer(*to);
        return KINETO_OK;
    }
    status = kineto_analysis_add(*to, own, err);
    kineto_analysis_destroy(own);
    return status;
}

/* Hosts that have too little in common, or collectives that end at different times everywhere, are no defect. */
static bool warn_of_unsound_clocks(const ka_rank_view *v, char *sentence, size_t size)
{
    return !v->model.is_no_defect && ka_warn_of_clocks(v, sentence, size);
}

typedef bool warn_of_ranks(const ka_rank_view *v, char *sentence, size_t size);
static const struct rank_check {
    const char *id;
    warn_of_ranks *warn;
} rank_checks[] = {{"ranks.collectives", ka_warn_of_mismatches}, {"ranks.clocks", warn_of_unsound_clocks}};

static void put_rank_warning(const char *id, const char *sentence, kb_json *j)
{
    if (j) {
        kb_json_object_begin(j);
        kb_json_put_string(j, "id", kb_string(id));
        kb_json_put_string(j, "severity", kb_string(kineto_severity_name(KINETO_SEVERITY_WARNING)));
        kb_json_put_string(j, "sentence", kb_string(sentence));
        kb_json_object_end(j);
        return;
    }
    char first[80];
    snprintf(first, sizeof first, "  %s%-7s%s %s: ", kc_paint(stdout, kc_severity_style(KINETO_SEVERITY_WARNING)),
             kineto_severity_name(KINETO_SEVERITY_WARNING), kc_paint(stdout, KC_PLAIN), id);
    kc_put_wrapped(stdout, kc_page_width(stdout), first, "          ", 0, kb_string(sentence));
}

/* Do ranks call different collectives, or cannot be compared? @param set  of at least two. @param j  NULL: as text.
 * @return the worst result. */
static int report_rank_warnings(ka_rank_set *set, kb_json *j, int result)
{
    char sentence[400];
    bool is_first = true;
    const ka_rank_view *v = ka_rank_set_view(set);
    if (j) {
        kb_json_key_z(j, "ranks");
        kb_json_array_begin(j);
    }
    for (size_t i = 0; v && i < KB_COUNT(rank_checks); i++) {
        if (!rank_checks[i].warn(v, sentence, sizeof sentence))
            continue;
        if (!j && !quiet && is_first)
            kc_put_styled(stdout, KC_BOLD, "ranks, compared with each other:"), fputc('\n', stdout);
        if (j || !quiet)
            put_rank_warning(rank_checks[i].id, sentence, j);
        result = KB_MAX(result, (int)EXIT_FINDINGS);
        is_first = false;
    }
    if (j)
        kb_json_array_end(j);
    if (!v)
        kc_complain("verify: out of memory");
    return v ? result : EXIT_UNREADABLE;
}

static int finish_ranks(kb_json *j, int result)
{
    if (ranks && ranks->ranks && ranks->ranks->ranks.count > 1)
        result = report_rank_warnings(ranks->ranks, j, result);
    kineto_analysis_destroy(ranks);
    ranks = NULL;
    return result;
}

/* Compares the dumps: do they show a collective that differs, or is missing on a rank? @param j  NULL: as text. */
static int finish_dumps(kb_json *j, int result)
{
    kineto_error err = {0};
    kineto_fact_table table;
    if (!dumps)
        return result;
    if (ka_facts_complete(dumps, &err))
        kc_complain_of("verify", &err);
    kineto_analysis_table(dumps, 0, &table);
    if (j)
        kb_json_key_z(j, "dumps");
    if (j)
        ke_put_analysis(j, dumps, 0, NULL);
    else if (!quiet)
        kc_facts_print(dumps, 0, false, stdout);
    kineto_analysis_destroy(dumps);
    dumps = NULL;
    return table.row_count ? KB_MAX(result, (int)EXIT_FINDINGS) : result;
}

/* ---- several files ------------------------------------------------------------------------------ */

/* State of a survey: options, output (NULL: text), the worst result so far, and how many were readable. */
typedef struct verify_visitor {
    const kineto_verify_options *how;
    kb_json *j;
    int worst;
    uint32_t readable;
} verify_visitor;

/* Called for each file of a survey. @return true: continue. */
static bool visit_file(const kineto_visit *visit, void *user)
{
    verify_visitor *v = user;
    kineto_error err = *visit->error;
    int result = verify_opened(visit->path, visit->trace, &err, v->how, v->j);
    v->worst = KB_MAX(v->worst, visit->trace || !text.is_set ? result : (int)EXIT_FINDINGS);
    bool is_dump = visit->trace && kt_is_of_flight_recorder(visit->trace), is_rank = text.is_set && !rules.count;
    if (visit->trace && (is_dump || is_rank) &&
        add_rank(is_dump ? &dumps : &ranks, visit->trace, visit->path, v->readable, &err))
        kc_complain_of("verify", &err);
    v->readable += visit->trace != NULL;
    return true;
}

/* Opens and checks one trace, and adds its row. */
static kineto_status verify_file(const char *path, verify_visitor *v, kineto_survey *survey, kineto_error *err)
{
    kineto_error why = {0};
    kineto_trace *trace = NULL;
    kineto_identity identity = {.size = sizeof identity, .rank = -1, .pid = -1};
    if (kineto_trace_open_with(path, &kc_reading, &trace, &why) == KINETO_OK)
        kineto_trace_identity(trace, path, &identity);
    (void)visit_file(&(kineto_visit){.path = path, .trace = trace, .identity = &identity, .error = &why}, v);
    bool kept = kt_survey_add(survey, path, trace, &identity, &why);
    kineto_trace_release(trace);
    return kept ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* Files that are named one by one need not belong together: in the order of the command line. */
static kineto_status verify_named_files(int count, char **paths, verify_visitor *v, kineto_survey **survey,
                                        kineto_error *err)
{
    *survey = kt_survey_create();
    kineto_status status = *survey ? KINETO_OK : kb_fail_memory(err, NULL);
    for (int i = 0; i < count && !status; i++)
        status = verify_file(paths[i], v, *survey, err);
    return status || kt_survey_settle(*survey, NULL, false) ? status : kb_fail_memory(err, NULL);
}

static bool names_directory(int count, char **paths)
{
    for (int i = 0; i < count; i++)
        if (!kc_is_one_file(&paths[i], 1))
            return true;
    return false;
}

/* Each trace, and if a directory is among the paths, whether they belong together. @param survey  receives the survey of
 * all files; NULL if that failed. @return the worst result. */
static int verify_files(int count, char **paths, const kineto_verify_options *how, kb_json *j,
                        kineto_survey **survey)
{
    kineto_error err = {0};
    kineto_files *files = NULL;
    verify_visitor v = {.how = how, .j = j, .worst = EXIT_SOUND};
    kineto_survey_options o = {.size = sizeof o, .open = &kc_reading, .visit = visit_file, .user = &v};
    kineto_status status = KINETO_OK;
    if (!names_directory(count, paths))
        status = verify_named_files(count, paths, &v, survey, &err);
    else
        status = kineto_files_find((const char *const *)paths, (size_t)count, &files, &err);
    if (status == KINETO_OK && files)
        status = kineto_files_survey(files, &o, survey, &err);
    kineto_files_destroy(files);
    if (status)
        kc_complain_of("verify", &err);
    return status || !v.readable ? EXIT_UNREADABLE : v.worst;
}

/* Findings about the set count like findings of a trace. */
static int raise_result(int result, int severity)
{
    return severity > KINETO_SEVERITY_NOTE ? KB_MAX(result, (int)EXIT_FINDINGS) : result;
}

/* Names damaged files of a set on stderr. */
static int end_verify(kineto_survey *survey, int result)
{
    if (text.is_set && survey) {
        kc_report_bad_files(survey);
        result = result == EXIT_SOUND && kc_exit_with_bad_files(0) ? (int)EXIT_FINDINGS : result;
    }
    kc_verify_text_free(&text);
    kineto_survey_destroy(survey);
    return result;
}

/* What was found in the traces, then findings about the set, then what could not be read. */
static int verify_as_text(int count, char **paths, const kineto_verify_options *how)
{
    kineto_survey *survey = NULL;
    text.has_notes = verbose || rules.count || kc_option_given(&max_places);
    text.has_note_places = kc_option_given(&max_places);
    text.is_verbose = verbose;
    int result = verify_files(count, paths, how, NULL, &survey);
    bool is_job = names_directory(count, paths);
    (void)ka_coverage_add_bad_files(&text.coverage, survey);
    text.coverage.facts_left_out = ka_count_facts_left_out(paths, count);
    if (is_job)
        result = raise_result(result, kc_worst_finding(survey));
    if (!quiet)
        kc_verify_text_print(&text, is_job ? survey : NULL, stdout);
    return end_verify(survey, finish_dumps(NULL, finish_ranks(NULL, result)));
}

/* All traces, or the list of rules, as one object on the standard output. */
static int verify_as_json(int count, char **paths, const kineto_verify_options *how)
{
    kb_sink *sink;
    kb_json j;
    kineto_error err = {0};
    kineto_survey *survey = NULL;
    int result = EXIT_SOUND;
    bool is_job = names_directory(count, paths);
    kineto_status status = kb_sink_open_file(kc_json_path, kb_compression_of(kc_json_path), &sink, &err);
    if (status == KINETO_OK) {
        kb_json_init(&j, sink);
        kb_json_document_begin(&j, list_rules ? "ckineto.verify_rules/1" : "ckineto.verify/1");
        kb_json_put_string(&j, "version", kb_string(kineto_version()));
        if (list_rules) {
            put_verify_rules(&j);
        } else {
            kb_json_key_z(&j, "traces");
            kb_json_array_begin(&j);
            result = verify_files(count, paths, how, &j, &survey);
            kb_json_array_end(&j);
            if (is_job)
                result = raise_result(result, kc_put_findings(survey, &j));
            if (text.is_set)
                kc_put_surveyed_coverage(survey, &j);
            result = finish_dumps(&j, finish_ranks(&j, result));
        }
        kb_json_object_end(&j);
        kb_sink_write(sink, "\n", 1);
        status = kb_sink_close(sink, &err);
    }
    if (status != KINETO_OK && err.os_error != EPIPE) {
        kc_complain_of("verify", &err);
        result = KC_EXIT_USAGE;
    }
    return end_verify(survey, result);
}

/* An output that could not be written is not 1, which means errors or warnings. */
static int finish_verify_output(int result)
{
    return kc_finish_stdout("verify", 0) ? KC_EXIT_USAGE : result;
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* Compares the ranks of facts as those of traces. */
static kineto_status compare_facts(const ka_facts_set *facts, int *result, kineto_error *err)
{
    kineto_analysis_options o = {.size = sizeof o};
    if (ka_facts_set_count(facts) < 2)
        return KINETO_OK;
    /* rank_skew_kinds: no file of a run has it, so that the ranks themselves are compared */
    ka_table_set tables = KA_TABLE_BIT(KA_TABLE_rank_damage) | KA_TABLE_BIT(KA_TABLE_rank_skew_kinds);
    kineto_status status = ka_facts_set_analyze(facts, &o, tables, &ranks, err);
    if (!status)
        *result = finish_ranks(NULL, *result);
    return status;
}

/* What verify found when the facts were made, then findings about the set. */
static int show_facts_health(const ka_facts_set *facts, kc_file_set *set, kineto_error *err)
{
    kc_health health = {.lost = 0};
    kineto_status status = kc_add_facts_health(facts, &health, set, err);
    bool is_sound = !health.findings[KINETO_SEVERITY_WARNING] && !health.findings[KINETO_SEVERITY_ERROR];
    if (!status && !quiet) {
        kc_health_print(&health, stdout);
        kc_print_findings(set->survey, verbose ? KINETO_SEVERITY_NOTE : KINETO_SEVERITY_WARNING, stdout);
    }
    kc_health_free(&health);
    int result = is_sound ? EXIT_SOUND : EXIT_FINDINGS;
    if (!status)
        status = compare_facts(facts, &result, err);
    return status ? EXIT_UNREADABLE : result;
}

static int verify_facts(int count, char **paths)
{
    kineto_error err = {.message = ""};
    ka_facts_set *facts = NULL;
    kc_file_set set = {0};
    if (kc_json_path || rules.count || kc_option_given(&max_places)) {
        (void)kc_usage_error("verify", "--json, --rule and --evidence need the traces themselves, not their facts");
        return KC_EXIT_USAGE;
    }
    kineto_status status = ka_facts_open_paths(paths, count, &facts, &err);
    int result = status ? EXIT_UNREADABLE : show_facts_health(facts, &set, &err);
    if (status || result == EXIT_UNREADABLE)
        kc_complain_of("verify", &err);
    else
        result = raise_result(result, kc_worst_finding(set.survey));
    ka_facts_set_destroy(facts);
    kc_file_set_report(&set);
    return finish_verify_output(result);
}

/* ---- the command line ------------------------------------------------------------------------ */

/* The rules of --rule as one list, to be freed; NULL: none, or out of memory. */
static char *join_rule_names(void)
{
    size_t bytes = 1;
    for (size_t i = 0; i < rules.count; i++)
        bytes += strlen(rules.data[i]) + 1;
    char *all = rules.count ? calloc(bytes, 1) : NULL, *end = all;
    for (size_t i = 0; all && i < rules.count; i++)
        end = stpcpy(stpcpy(end, i ? "," : ""), rules.data[i]);
    return all;
}

static kineto_status report_unknown_rule(const char *name, size_t size)
{
    char word[81];
    snprintf(word, sizeof word, "%.*s", (int)KB_MIN(size, sizeof word - 1), name);
    return kc_usage_error("verify", "unknown rule '%s'%s (see --list)", word,
                          kc_did_you_mean(kc_list_checks, word).s);
}

/* An unknown rule is a mistake on the command line, whatever the files contain. */
static kineto_status check_rule_names(const char *list)
{
    for (const char *at = list; at && *at;) {
        size_t size = strcspn(at, ",");
        kineto_verify_rule rule;
        bool known = size == 0;
        for (uint32_t i = 0; !known && kineto_verify_rule_get(i, &rule); i++)
            known = strncmp(rule.id, at, size) == 0 && (!rule.id[size] || rule.id[size] == '.');
        if (!known)
            return report_unknown_rule(at, size);
        at += size + (at[size] == ',');
    }
    return KINETO_OK;
}

/* @return the exit status. */
static int run_verify(int count, char **paths)
{
    char *list = join_rule_names();
    kineto_verify_options how = {
        .size = sizeof how, .rules = list, .places = (uint32_t)KB_MIN(max_places, 1000u)};
    int result = EXIT_UNREADABLE;
    text.is_set = !kc_is_one_file(paths, count);
    if (rules.count && !list)
        kc_complain("verify: out of memory");
    else if (check_rule_names(list) != KINETO_OK)
        result = KC_EXIT_USAGE;
    else if (kc_json_path)
        result = verify_as_json(count, paths, &how);
    else if (list_rules)
        result = (print_verify_rules(), 0);
    else
        result = verify_as_text(count, paths, &how);
    free(list);
    return kc_json_path ? result : finish_verify_output(result);
}

/* --list needs no trace. An output that cannot be written is KC_EXIT_USAGE, as 1 would mean
 * findings. */
int kc_verify(int argc, char **argv)
{
    int operands;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return finish_verify_output(0);
    if (status == KINETO_OK && !operands && !list_rules)
        status = kc_usage_error("verify", "no trace given");
    if (status == KINETO_OK)
        status = kc_check_outputs("verify", argv + 1, operands, &kc_json_path, 1, false);
    ka_operands_kind kind = KA_OPERANDS_TRACES;
    if (status == KINETO_OK && operands && ka_find_facts(argv + 1, operands, &kind, NULL, NULL))
        kind = KA_OPERANDS_TRACES; /* reading them reports it */
    if (status)
        return KC_EXIT_USAGE;
    return kind == KA_OPERANDS_TRACES ? run_verify(operands, argv + 1) : verify_facts(operands, argv + 1);
}
