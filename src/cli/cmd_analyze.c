/* ckineto analyze: where the time went, of one rank or of many. Traces are read one after the
 * other and released again; facts or findings of each are added to those of the ranks before
 * it, and what compares ranks is computed once, after the last. The exit status is 1 if a gate
 * failed or the output could not be written, 2 if options are wrong or a trace cannot be read. */
#include "cli/open_many.h"

#include "cli/facts/facts_health.h"
#include "cli/names.h"
#include "cli/time_range.h"
#include "cli/what_if_option.h"
#include "cli/print_facts.h"
#include "cli/print_findings.h"
#include "cli/print_overview.h"
#include "cli/print_table.h"
#include "analyze/facts/analyses.h"
#include "analyze/findings/finding.h"
#include "analyze/overview/overview.h"
#include "export/export.h"
#include "trace/trace.h"

#include <ckineto/analyze.h>
#include <ckineto/export.h>
#include <ckineto/files.h>

static const char *only, *steps = "usual", *streams, *definitions = "exact", *rules, *json, *csv;
static const char *sequence_operator, *execution_trace, *memory_timeline, *overlay;
static bool list, series, every, findings, verbose, brief;
static kc_texts gates;
static uint64_t evidence;
static uint64_t sequence_min, sequence_top;
static const char *annotation, *rank_text;
static kc_texts what_if;
static uint64_t threads, row_limit = 10, instance;

static const kc_option option_list[] = {
    {"only", 0, KC_TEXT, &only, "TABLE[,...]",
     "only these tables, or the findings of these rules; --list and\n--findings --list have their names"},
    {"list", 0, KC_FLAG, &list, NULL,
     "list the tables, with --findings the rules; with --json also what they\nare and their "
     "columns"},
    {"findings", 'f', KC_FLAG, &findings, NULL,
     "report findings instead of tables: bottlenecks, savings and advice"},
    {"gate", 0, KC_TEXTS, &gates, "RULE[=LIMIT]",
     "exit with 1 if this is found, or saves more than LIMIT (5%, 2ms) of\na step; 'copy' "
     "stands "
     "for all 'copy.…', 'all' for every rule"},
    {"evidence", 0, KC_NUMBER, &evidence, "N", "show N places for each finding (5)"},
    {"all", 'a', KC_FLAG, &every, NULL, "print every table, not only the most useful ones"},
    {"series", 0, KC_FLAG, &series, NULL, "also tables with a row for each event"},
    {"steps", 0, KC_TEXT, &steps, "all|drop-last|N..M",
     "steps to analyze: all (the default), all before the last one, or\nsteps N to M"},
    KC_STEP_OPTION,
    {"stream", 0, KC_TEXT, &streams, "ID[,...]", "only these streams of devices"},
    {"definitions", 0, KC_TEXT, &definitions, "exact|hta",
     "exact (the default), or as HolisticTraceAnalysis counts, to compare"},
    {"rules", 0, KC_TEXT, &rules, "FILE",
     "more rules for names of kernels: docs/reference/kernel-rules.md"},
    {"annotation", 0, KC_TEXT, &annotation, "TEXT",
     "the critical path of one range whose name contains TEXT, not of the\nwhole trace"},
    {"instance", 0, KC_NUMBER, &instance, "N", "which one, if several ranges match; counts from 0"},
    {"what-if", 0, KC_TEXTS, &what_if, "SCALE",
     "estimate instead the time with parts scaled:\nkernel:, copy:, op:, class: or "
     "launch: with a pattern and =FACTOR\n(kernel:gemm=0.5); may be repeated"},
    {"operator", 0, KC_TEXT, &sequence_operator, "TEXT",
     "sequences of kernels under ranges whose name contains this (the\noutermost operators)"},
    {"min-length", 0, KC_NUMBER, &sequence_min, "N", "sequences of at least N kernels (3)"},
    {"sequences", 0, KC_NUMBER, &sequence_top, "N", "find the N longest sequences (5)"},
    {"execution-trace", 0, KC_TEXT, &execution_trace, "FILE",
     "also the table execution_trace: schemas and values of operators, from\nPyTorch's execution "
     "trace of the same run"},
    {"memory-timeline", 0, KC_TEXT, &memory_timeline, "FILE",
     "also the table memory_timeline, of what PyTorch's\nexport_memory_timeline wrote as "
     ".raw.json.gz; needs no trace"},
    {"overlay", 0, KC_TEXT, &overlay, "FILE",
     "write the trace with queue lengths and bandwidths as counters, and\nsequences and the "
     "critical path as rows: what --only names of\nqueue_length_series, bandwidth_series, "
     "sequences, "
     "critical_path_edges"},
    {"json", 'j', KC_JSON_WORD, &json, "[=FILE]",
     "write all tables as JSON, to FILE or the standard output; ten rows of\neach, but those that --only, --all or --series choose"},
    {"brief", 0, KC_FLAG, &brief, NULL,
     "the first answer as JSON of at most 4 KB, to FILE of --json or the\nstandard output"},
    {"csv", 0, KC_TEXT, &csv, "DIR", "write each table as DIR/NAME.csv"},
    KC_TOP_OPTION(row_limit, "10"),
    KC_ALIAS_OPTION("row-limit", "top"),
    {"threads", 0, KC_NUMBER, &threads, "N",
     "use N threads (with --mem one); the facts do not depend on it"},
    KC_VERBOSE_OPTION(verbose, "also which rules were skipped and why, and what is doubtful in the\n"
                               "trace"),
    KC_RANK_OPTION(rank_text),
    KC_ABSOLUTE_OPTION,
    KC_COLOR_OPTION,
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "analyze",
    "[options] TRACE...",
    "Report where the time went, on one rank or on many. Several files, or those in a directory,\n"
    "are read one after the other; each is a rank. 'ckineto TRACE' is the same.",
    "ckineto analyze trace.json\n"
    "ckineto analyze --findings run/",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- options --------------------------------------------------------------------------------- */

/* Sets the choice of steps from --steps; "usual", the default, is left to the definitions. */
static kineto_status parse_steps(kineto_analysis_options *o)
{
    if (strcmp(steps, "usual") == 0)
        return KINETO_OK;
    o->steps = strcmp(steps, "all") == 0         ? KINETO_STEPS_ALL
               : strcmp(steps, "drop-last") == 0 ? KINETO_STEPS_DROP_LAST
                                                 : KINETO_STEPS_RANGE;
    if (o->steps == KINETO_STEPS_RANGE && !kc_parse_number_range(steps, &o->first_step, &o->last_step))
        return kc_usage_error("analyze", "--steps is all, drop-last or N..M, not '%s'", steps);
    return KINETO_OK;
}

/* Tables besides those of --only: without any option those that say most, and those that are made
 * of files that are named. 0: the library's choice. */
static ka_table_set choose_tables(void)
{
    ka_table_set set = only ? 0 : ka_tables_with(KA_SHOWN_BY_DEFAULT);
    if (!only && (every || series || csv || json))
        return 0;
    if (execution_trace)
        set |= KA_TABLE_BIT(KA_TABLE_execution_trace);
    if (memory_timeline)
        set |= KA_TABLE_BIT(KA_TABLE_memory_timeline);
    return set;
}

/* Options of the analysis that all ranks share; --only may name rules instead of tables, which
 * the caller of the analysis distinguishes. */
static kineto_status parse_analyze_options(kineto_analysis_options *o)
{
    *o = (kineto_analysis_options){.size = sizeof *o,
                                  .tables = only,
                                  .series = series || csv,
                                  .streams = streams,
                                  .rules = rules,
                                  .sequence_operator = sequence_operator,
                                  .sequence_min = sequence_min,
                                  .sequence_top = sequence_top || !kc_option_given(&row_limit) ? sequence_top : row_limit,
                                  .execution_trace = execution_trace,
                                  .memory_timeline = memory_timeline,
                                  .annotation = annotation,
                                  .instance = (uint32_t)KB_MIN(instance, (uint64_t)UINT32_MAX),
                                  .step_pattern = kc_step_pattern,
                                  .threads = (uint32_t)KB_MIN(threads, (uint64_t)UINT32_MAX)};
    if (!threads && kc_reading.memory_bytes) /* each would take memory of its own */
        o->threads = 1;
    if (strcmp(definitions, "hta") == 0)
        o->definitions = KINETO_DEFINITIONS_HTA;
    else if (strcmp(definitions, "exact") != 0)
        return kc_usage_error("analyze", "--definitions is exact or hta, not '%s'", definitions);
    return parse_steps(o);
}

/* Rows of each table of the JSON output: those of a terminal, but all of the tables that options name. */
static uint64_t choose_json_rows(void)
{
    return only || every || series ? kc_option_given(&row_limit) ? row_limit : 0 : row_limit;
}

static int print_tables(void)
{
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++)
        printf("%s%s\n", kineto_fact_table_name(i),
               kineto_fact_table_is_series(i) ? " (a row for each event)" : "");
    return kc_finish_stdout("analyze", 0);
}

/* Tables, or rules of findings: their names, or as JSON all that is declared of them. */
static int print_list(void)
{
    kineto_error err = {0};
    if (!json)
        return findings ? kc_finding_rules_print() : print_tables();
    if (findings ? ke_save_rule_list(json, &err) : ke_save_table_list(json, &err)) {
        kc_complain_of("analyze", &err);
        return KC_EXIT_FAILURE;
    }
    return kc_finish_stdout("analyze", 0);
}

/* ---- one rank after the other ---------------------------------------------------------------- */

/* State of one command. With --what-if neither facts nor findings are kept: each trace is
 * printed at once. */
typedef struct work {
    kineto_analysis_options options;
    bool overview;          /* what is made: an overview, findings, or facts */
    kineto_overview *seen;  /* of all ranks so far; or … */
    kineto_analysis *facts;
    kineto_findings *found;
    kc_health health;
    uint32_t facts_left_out; /* as in ka_coverage */
    kc_file_set set;
    char *text; /* of --what-if, for each trace */
    size_t text_size;
    FILE *lines;
    bool many;    /* traces: what compares them is made when all are there */
    bool is_read; /* all that was named could be */
} work;

/* Findings of one trace, with its health for the first lines of the output. */
static kineto_status add_findings(work *w, const kineto_trace *trace, int32_t rank,
                                  kineto_error *err)
{
    kineto_findings_options o = {.size = sizeof o,
                             .rules = only,
                             .evidence = (uint32_t)KB_MIN(evidence, (uint64_t)1000),
                             .analyze = &w->options};
    kineto_findings *found;
    kineto_status status = kineto_findings_find(trace, &o, &found, err);
    if (status)
        return status;
    kc_health_add(&w->health, trace, w->many ? rank : -1);
    if (!w->found) {
        w->found = found;
        if (w->many)
            ka_findings_defer(found);
        return KINETO_OK;
    }
    status = kineto_findings_add(w->found, found, err);
    kineto_findings_destroy(found);
    return status;
}

/* The overview of one trace, with its health. */
static kineto_status add_overview(work *w, const kineto_trace *trace, int32_t rank,
                                  kineto_error *err)
{
    kineto_overview *seen;
    kineto_analysis_options o = w->options;
    o.tables = "steps"; /* none but those that are shown */
    kineto_status status = kineto_overview_create(trace, &o, &seen, err);
    if (status)
        return status;
    kc_health_add(&w->health, trace, w->many ? rank : -1);
    if (!w->seen) {
        w->seen = seen;
        return KINETO_OK;
    }
    status = kineto_overview_add(w->seen, seen, err);
    kineto_overview_destroy(seen);
    return status;
}

/* Tables of one trace. With several traces the reductions are deferred until all were added. */
static kineto_status add_facts(work *w, const kineto_trace *trace, int32_t rank, kineto_error *err)
{
    kineto_analysis *facts;
    kineto_status status =
        ka_analyze_tables(trace, &w->options, choose_tables(), &facts, err);
    if (status)
        return status;
    kc_health_add(&w->health, trace, w->many ? rank : -1);
    if (!w->facts) {
        w->facts = facts;
        if (w->many)
            ka_facts_defer(facts);
        return KINETO_OK;
    }
    status = kineto_analysis_add(w->facts, facts, err);
    kineto_analysis_destroy(facts);
    return status;
}

/* Lines of one trace: they are printed after the line that says which ranks there are. */
static kineto_status add_what_if(work *w, const kineto_trace *trace, int32_t rank, kineto_error *err)
{
    w->lines = w->lines ? w->lines : open_memstream(&w->text, &w->text_size);
    if (!w->lines || !ka_coverage_add(&w->health.coverage, trace, &rank))
        return kb_fail_memory(err, NULL);
    if (w->many)
        fprintf(w->lines, "rank %d:\n", rank);
    return kc_what_if(trace, &w->options, &what_if, w->lines, err);
}

/* The rank comes from the trace, else from the place of the file in the list. */
static kineto_status add_rank(work *w, const kineto_trace *trace, const char *path, uint32_t index,
                              kineto_error *err)
{
    int32_t rank = kc_trace_rank(trace, path, index);
    w->options.rank = &rank;
    kineto_status status = what_if.count ? add_what_if(w, trace, rank, err)
                           : w->overview ? add_overview(w, trace, rank, err)
                           : findings    ? add_findings(w, trace, rank, err)
                                         : add_facts(w, trace, rank, err);
    w->options.rank = NULL;
    return status;
}

/* Writes the trace with facts drawn into it. Only one trace can be named with --overlay. */
static kineto_status write_overlay(const work *w, const kineto_trace *trace, kineto_error *err)
{
    kineto_analysis_options o = w->options;
    kineto_trace *drawn = NULL;
    o.tables = only;
    o.rank = NULL; /* that of the analysis is gone */
    kineto_status status = kineto_analysis_overlay(trace, &o, &drawn, err);
    if (!status)
        status = kineto_trace_save(drawn, overlay, err);
    kineto_trace_release(drawn);
    return status;
}

/* w->is_read distinguishes errors of the input from those of the output: it is false as long
 * as the last trace could not be read. */
static kineto_status add_files(work *w, const kineto_files *files, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    w->many = kineto_files_count(files) > 1;
    for (uint32_t i = 0; i < kineto_files_count(files) && !status; i++) {
        const char *path = kineto_files_path(files, i);
        kineto_trace *trace = NULL;
        kc_show_reading(i, kineto_files_count(files), path);
        status = kc_file_set_open(&w->set, files, i, &trace, err);
        if (!status && !trace)
            continue;
        if (!status)
            status = add_rank(w, trace, path, i, err);
        w->is_read = !status;
        if (!status && overlay)
            status = write_overlay(w, trace, err);
        kineto_trace_release(trace);
    }
    kc_show_reading(0, 0, NULL);
    ka_coverage *coverages[] = {&w->health.coverage, w->seen ? &w->seen->coverage : NULL};
    if (!status)
        status = kc_file_set_end(&w->set, files, coverages, w->seen ? 2 : 1, err);
    for (size_t i = 0; i < KB_COUNT(coverages) && coverages[i]; i++)
        coverages[i]->facts_left_out = w->facts_left_out;
    if (!status && w->facts)
        status = ka_facts_complete(w->facts, err);
    if (!status && w->found)
        status = ka_findings_complete(w->found, err);
    return status;
}

/* --rank: one trace, of one of several files or a part of a merged one. */
static kineto_status add_one_rank(work *w, char *const *paths, int count, kineto_error *err)
{
    kineto_trace *trace = NULL;
    int32_t rank = (int32_t)strtol(rank_text, NULL, 10); /* checked before */
    kineto_status status = kc_open_traces(paths, count, rank, &trace, err);
    w->is_read = !status;
    if (!status)
        status = add_rank(w, trace, paths[0], (uint32_t)rank, err);
    if (!status && overlay)
        status = write_overlay(w, trace, err);
    kineto_trace_release(trace);
    return status;
}

static void put_findings(kb_json *j, const void *what)
{
    const work *w = what;
    ke_put_findings(j, w->found, &w->health.coverage);
}

static kineto_status show_findings(const work *w, kineto_error *err)
{
    if (json)
        return kc_save_json(json, put_findings, w, err);
    kc_health_print(&w->health, stdout);
    kc_print_rank_warnings(w->found->across, stdout);
    kc_findings_print(w->found, KB_MIN(kc_page_width(stdout), KC_FINDINGS_WIDTH), stdout);
    return KINETO_OK;
}

static kineto_status show_overview(const work *w, const char *path, kineto_error *err)
{
    if (brief)
        return ke_save_overview(w->seen, true, kc_command_word(path, 160), json ? json : "-", err);
    kc_overview_page page = {.health = &w->health, .path = path, .verbose = verbose};
    kc_overview_print(w->seen, &page, stdout);
    return KINETO_OK;
}

/* Is the first answer wanted? Any option about tables or findings asks for more. */
static bool is_overview_wanted(void)
{
    const void *const others[] = {&only, &every, &series, &csv, &overlay, &execution_trace,
                                  &memory_timeline, &sequence_operator, &sequence_min, &sequence_top,
                                  &annotation, &instance, &row_limit, &definitions};
    for (size_t i = 0; i < KB_COUNT(others); i++)
        if (kc_option_given(others[i]))
            return false;
    return !findings && !what_if.count && (brief || !json);
}

static void put_facts(kb_json *j, const void *what)
{
    const work *w = what;
    ke_put_analysis(j, w->facts, choose_json_rows(), &w->health.coverage);
}

static kineto_status show_what_ifs(work *w, kineto_error *err)
{
    char coverage[400];
    if (w->lines && fclose(w->lines) != 0)
        return kb_fail_memory(err, NULL);
    w->lines = NULL;
    ka_coverage_describe(&w->health.coverage, coverage, sizeof coverage);
    if (*coverage)
        puts(coverage);
    fwrite(w->text, 1, w->text_size, stdout);
    return KINETO_OK;
}

/* Writes all requested outputs. The terminal gets tables only if no file was requested. Rows
 * of several ranks are sorted by weight, except under definitions that fix the order of
 * HolisticTraceAnalysis. */
static kineto_status show_results(work *w, const char *path, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (what_if.count)
        return show_what_ifs(w, err);
    if (w->overview)
        return show_overview(w, path, err);
    if (findings)
        return show_findings(w, err);
    if (json)
        status = kc_save_json(json, put_facts, w, err);
    if (csv && !status)
        status = kineto_analysis_save_csv(w->facts, csv, err);
    if (csv)
        kc_print_coverage(&w->health.coverage, "ckineto", stderr);
    if (!json && !csv) {
        kc_health_print(&w->health, stdout);
        kc_facts_print(w->facts, row_limit,
                       w->health.coverage.rank_count > 1 && w->options.definitions != KINETO_DEFINITIONS_HTA,
                       stdout);
    }
    return status;
}

/* --memory-timeline without a trace: the table needs only its own file, so that an empty trace
 * is analysed. */
static kineto_status analyze_memory(work *w, kineto_error *err)
{
    kt_builder *b = NULL;
    kineto_trace *none = NULL;
    w->options.tables = NULL;
    kineto_status status = kt_builder_create(&b, err);
    if (!status)
        status = kt_builder_finish(b, &none, err);
    kt_builder_destroy(b);
    if (!status)
        status = ka_analyze_tables(none, &w->options, KA_TABLE_BIT(KA_TABLE_memory_timeline),
                                   &w->facts, err);
    kineto_trace_release(none);
    return status ? status : show_results(w, NULL, err);
}

/* ---- facts ----------------------------------------------------------------------------------- */

/* Options about events, or that change what is measured. */
static kineto_status check_facts_options(kineto_error *err)
{
    const struct {
        const void *option;
        const char *name;
    } of_traces[] = {{&steps, "steps"},         {&kc_step_pattern, "step-pattern"},
                     {&streams, "stream"},      {&definitions, "definitions"},
                     {&rules, "rules"},         {&annotation, "annotation"},
                     {&instance, "instance"},   {&what_if, "what-if"},
                     {&series, "series"},       {&sequence_operator, "operator"},
                     {&sequence_min, "min-length"}, {&sequence_top, "sequences"},
                     {&execution_trace, "execution-trace"}, {&memory_timeline, "memory-timeline"},
                     {&overlay, "overlay"},     {&rank_text, "rank"},
                     {&evidence, "evidence"},   {&kc_reading.ts_unit_ns, "ts-unit"}};
    for (size_t i = 0; i < KB_COUNT(of_traces); i++)
        if (kc_option_given(of_traces[i].option))
            return kb_fail(err, KINETO_E_ARGUMENT, "--%s needs the traces themselves, not their facts",
                           of_traces[i].name);
    return KINETO_OK;
}

/* The tables that the facts have; without options those that say most. */
static kineto_status analyze_fact_tables(work *w, const ka_facts_set *s, bool *lacks_some, kineto_error *err)
{
    ka_table_set usual = choose_tables(), tables = 0;
    kineto_status status = only ? KINETO_OK : ka_facts_set_tables(s, &tables, err);
    if (!only) {
        ka_table_set there = (tables | ka_reducible_tables(tables)) & ~ka_tables_with(KA_HIDDEN | KA_DIFF);
        if (!usual) /* all; bits beyond the last table are not set */
            usual = (KA_TABLE_BIT(KA_TABLE_COUNT) - 1) & ~ka_tables_with(KA_HIDDEN | KA_DIFF | KA_PER_EVENT);
        *lacks_some = (usual & ~there) != 0;
        tables = usual & there;
        if (!status && !tables)
            status = ka_facts_fail_without_tables(err);
    }
    return status ? status : ka_facts_set_analyze(s, &w->options, tables, &w->facts, err);
}

static kineto_status analyze_fact_set(work *w, const ka_facts_set *s, bool *lacks_some, kineto_error *err)
{
    ka_rule_set chosen = UINT64_MAX;
    if (findings) {
        kineto_status status = ka_parse_rules(only, &chosen, err);
        return status ? status : ka_facts_set_find(s, chosen, &w->found, err);
    }
    w->overview = w->overview && (brief || ka_facts_set_has_overview(s));
    if (!w->overview)
        return analyze_fact_tables(w, s, lacks_some, err);
    kineto_status status = ka_facts_set_overview(s, 0, &w->seen, err);
    if (!status && !ka_coverage_copy_bad_files(&w->seen->coverage, &w->health.coverage))
        status = kb_fail_memory(err, NULL);
    return status;
}

/* Files of facts in place of traces: the same answers, as far as they go. */
static kineto_status analyze_facts(work *w, char *const *paths, int count, kineto_error *err)
{
    ka_facts_set *s = NULL;
    bool lacks_some = false;
    kineto_status status = check_facts_options(err);
    if (!status)
        status = ka_facts_open_paths(paths, count, &s, err);
    if (status)
        return status;
    ka_facts_set_limit_memory(s, kc_reading.memory_bytes);
    w->many = ka_facts_set_count(s) > 1;
    status = kc_add_facts_health(s, &w->health, &w->set, err);
    if (!status)
        status = analyze_fact_set(w, s, &lacks_some, err);
    w->is_read = !status;
    ka_facts_set_destroy(s);
    if (!status)
        status = show_results(w, paths[0], err);
    if (!status && lacks_some && !json && !csv)
        fputs("\nThese are the tables that the facts have: 'ckineto facts --all' keeps the others and the overview, "
              "'--findings' findings of each trace.\n", stdout);
    return status;
}

/* ---- traces ---------------------------------------------------------------------------------- */

/* Files and directories are searched for traces first; options that concern one trace refuse
 * several. */
static kineto_status analyze_files(work *w, char *const *paths, int count, kineto_error *err)
{
    kineto_files *files;
    ka_operands_kind kind;
    kineto_status status = ka_find_facts(paths, count, &kind, NULL, err);
    if (status || kind != KA_OPERANDS_TRACES)
        return status ? status : analyze_facts(w, paths, count, err);
    status = kineto_files_find((const char *const *)paths, (size_t)count, &files, err);
    if (status)
        return status;
    w->facts_left_out = ka_count_facts_left_out(paths, count);
    bool of_one = overlay || execution_trace || memory_timeline;
    if (of_one && !rank_text && kineto_files_count(files) != 1)
        status = kb_fail(err, KINETO_E_ARGUMENT,
                         "--overlay, --execution-trace and --memory-timeline are of one trace; %u "
                         "were named",
                         kineto_files_count(files));
    if (!status)
        status = rank_text ? add_one_rank(w, paths, count, err) : add_files(w, files, err);
    kineto_files_destroy(files);
    return status ? status : show_results(w, paths[0], err);
}

/* A failed gate is KC_EXIT_FAILURE; a wrong argument that was found only while reading is a
 * usage error. */
static int exit_status(const work *w, kineto_status status, bool passed)
{
    if (!status && !passed)
        return KC_EXIT_FAILURE;
    return kc_exit_of(status, w->is_read && status != KINETO_E_ARGUMENT);
}

/* Options that --findings would ignore are refused. */
static kineto_status check_findings(void)
{
    const struct {
        const void *option;
        const char *name;
    } of_tables[] = {{&csv, "csv"},
                     {&series, "series"},
                     {&overlay, "overlay"},
                     {&what_if, "what-if"},
                     {&every, "all"},
                     {&row_limit, "top"},
                     {&definitions, "definitions"},
                     {&annotation, "annotation"},
                     {&instance, "instance"},
                     {&sequence_operator, "operator"},
                     {&sequence_min, "min-length"},
                     {&sequence_top, "sequences"}};
    if (!findings && kc_option_given(&evidence))
        return kc_usage_error("analyze", "--evidence is about --findings");
    for (size_t i = 0; i < KB_COUNT(of_tables) && findings; i++)
        if (kc_option_given(of_tables[i].option))
            return kc_usage_error("analyze",
                                  "--findings and --gate go with --json, not with --%s, which is "
                                  "about tables",
                                  of_tables[i].name);
    return KINETO_OK;
}

static bool is_table(const char *name)
{
    for (uint32_t i = 0; i < kineto_fact_table_count(); i++)
        if (strcmp(kineto_fact_table_name(i), name) == 0)
            return true;
    return false;
}

static bool is_rule(const char *name)
{
    ka_rule_set rule_set;
    kineto_error err;
    return ka_parse_rules(name, &rule_set, &err) == KINETO_OK;
}

/* The next name of a list with commas; false: there is none. */
static bool read_name(const char **at, char *name, size_t size)
{
    size_t length = *at ? strcspn(*at, ",") : 0;
    if (!*at || !**at)
        return false;
    snprintf(name, size, "%.*s", (int)KB_MIN(length, size - 1), *at);
    *at += length + ((*at)[length] == ',');
    return true;
}

/* Does --only name nothing but rules? Then findings are wanted. The first words of some are rules only with
 * --findings: "kernel" is more likely a mistyped table. */
static bool names_only_rules(void)
{
    const char *at = only;
    char name[81];
    while (read_name(&at, name, sizeof name))
        if (!strchr(name, '.') || !is_rule(name))
            return false;
    return only && *only;
}

/* What --only may name. */
static void list_tables_and_rules(kc_name_receiver *add, void *user)
{
    kc_list_tables(add, user);
    kc_list_rules(add, user);
}

static kineto_status report_unknown_name(const char *name)
{
    kb_text meant = kc_did_you_mean(findings ? kc_list_rules : list_tables_and_rules, name);
    if (findings ? is_table(name) : is_rule(name) && (strchr(name, '.') || !*meant.s))
        return kc_usage_error("analyze", "'%s' is %s: name either tables, or rules with --findings", name,
                              findings ? "a table" : "of rules");
    return kc_usage_error("analyze", "unknown %s '%s'%s ('ckineto analyze %s--list' lists them)",
                          findings ? "rule" : "table", name, meant.s, findings ? "--findings " : "");
}

/* --only, before a trace is read: tables, or with --findings rules or the first words of some. */
static kineto_status check_names(void)
{
    const char *at = only;
    char name[81];
    while (read_name(&at, name, sizeof name)) {
        if (findings ? is_rule(name) : is_table(name))
            continue;
        return report_unknown_name(name);
    }
    return KINETO_OK;
}

/* --brief with options that ask for something else: name the command that writes that. */
static kineto_status check_brief(bool is_overview)
{
    if (!brief || is_overview)
        return KINETO_OK;
    return findings ? kc_usage_error("analyze", "--brief is the first answer, without the evidence of findings: for all "
                                                "findings 'ckineto analyze --findings --json TRACE'")
                    : kc_usage_error("analyze", "--brief is the first answer: for tables 'ckineto analyze --json TRACE', "
                                                "with --only, --top and the other options about tables");
}

/* Combinations whose outputs have nothing in common. */
static kineto_status check_exclusive_options(void)
{
    if (what_if.count && (json || csv || series || every || (only && !overlay)))
        return kc_usage_error("analyze",
                              "--what-if prints a line for each trace and no tables: for --json, "
                              "--csv, --series, --all\nor --only run 'ckineto analyze' again "
                              "without --what-if");
    if ((findings || what_if.count) && (execution_trace || memory_timeline))
        return kc_usage_error("analyze", "--execution-trace and --memory-timeline are for tables, "
                                         "not for --findings, --gate or --what-if");
    return KINETO_OK;
}

/* Outputs overwrite neither an input nor another output. */
static kineto_status check_outputs(char *const *paths, int count)
{
    const char *const written[] = {json, overlay};
    const char *const inputs[] = {execution_trace, memory_timeline, rules};
    kineto_status status = kc_check_outputs("analyze", paths, count, written, 2, true);
    if (!status)
        status = kc_check_outputs("analyze", paths, count, &json, 1, false);
    for (size_t i = 0; i < 6 && !status; i++)
        if (written[i % 2] && inputs[i / 2] && kc_is_same_file(written[i % 2], inputs[i / 2]))
            status =
                kc_usage_error("analyze", "%s would overwrite a file that is read", written[i % 2]);
    return status;
}

/* All checks that need no trace come first, so that a mistake is reported before a long read. */
int kc_analyze(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    work w = {0};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("analyze", 0);
    findings |= gates.count > 0 || names_only_rules();
    if (status == KINETO_OK && list)
        return print_list();
    if (status == KINETO_OK)
        status = check_findings();
    if (status == KINETO_OK)
        status = check_exclusive_options();
    if (status == KINETO_OK)
        status = check_names();
    w.overview = is_overview_wanted();
    if (status == KINETO_OK)
        status = check_brief(w.overview);
    int32_t rank;
    if (status == KINETO_OK)
        status = kc_parse_rank("analyze", rank_text, &rank);
    if (status == KINETO_OK)
        status = kc_gates_check(&gates);
    if (status == KINETO_OK)
        status = check_outputs(argv + 1, operands);
    if (status == KINETO_OK && !operands && (!memory_timeline || overlay || execution_trace))
        status = kc_usage_error("analyze", "name the trace to analyze");
    if (status || parse_analyze_options(&w.options))
        return KC_EXIT_USAGE;
    status = operands ? analyze_files(&w, argv + 1, operands, &err) : analyze_memory(&w, &err);
    bool passed = status || kc_gates_pass(w.found, &gates, &status, &err);
    if (status)
        kc_complain_of("analyze", &err);
    kineto_overview_destroy(w.seen);
    kineto_analysis_destroy(w.facts);
    kineto_findings_destroy(w.found);
    kc_health_free(&w.health);
    if (w.lines)
        (void)fclose(w.lines);
    free(w.text);
    kc_file_set_report(&w.set);
    return kc_finish_stdout("analyze", exit_status(&w, status, passed));
}
