/* ckineto export: the ranks of a run as a data set of Parquet files, read one after the other. A rank that
 * cannot be read is a line, and the others are exported. With the options "--FORMAT OUT" it is the old name
 * of `convert` with several outputs, which become "-o FORMAT:OUT". */
#include "cli/open_many.h"

#include "cli/run_name.h"
#include "export/parquet_run.h"

#include <ckineto/export.h>

static const char *parquet, *run_name, *table_names;
static bool quiet;
static const kc_option option_list[] = {
    {"parquet", 'p', KC_TEXT, &parquet, "DIR",
     "the data set: files become DIR/TABLE/run=NAME/rank=N/part.parquet;\nother runs in it stay"},
    {"run", 0, KC_TEXT, &run_name, "NAME", "the name of the run (that of the directory or file)"},
    {"tables", 0, KC_TEXT, &table_names, "TABLE[,...]",
     "only these: activities, and tables of 'ckineto analyze --list'"},
    KC_READING_OPTIONS,
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "export",
    "--parquet DIR [options] TRACE...",
    "Write the ranks of a run as Parquet files, for SQL over many runs: all activities, and every\n"
    "table of 'ckineto analyze'. Several files, or those in a directory, are read one after the\n"
    "other; each is a rank. A rank that is exported again is replaced.",
    "ckineto export --parquet fleet/ run-17/\n"
    "ckineto export --parquet fleet/ --run nightly-17 --tables steps,kernels rank0.json rank1.json",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- options ---------------------------------------------------------------------------------- */

static kineto_status add_table_name(kineto_string name, ka_table_set *tables, bool *activities)
{
    if (kb_string_equal(name, kb_string("activities"))) {
        *activities = true;
        return KINETO_OK;
    }
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (ke_parquet_tables() >> i & 1 && kb_string_equal(name, kb_string(ka_table_name((ka_table_id)i)))) {
            *tables |= KA_TABLE_BIT(i);
            return KINETO_OK;
        }
    return kc_usage_error("export", "unknown table '%.*s'; 'ckineto analyze --list' has their names, and there is activities",
                          (int)KB_MIN(name.size, (size_t)64), name.data);
}

/* --tables; without it all. */
static kineto_status parse_tables(ka_table_set *tables, bool *activities)
{
    *activities = !table_names;
    *tables = table_names ? 0 : ke_parquet_tables();
    for (const char *at = table_names; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        kineto_status status = add_table_name((kineto_string){at, strcspn(at, ",")}, tables, activities);
        if (status)
            return status;
    }
    return KINETO_OK;
}

/* ---- one rank after the other ------------------------------------------------------------------ */

/* Is it the file of a rank that is wrong, and not the data set? Then the others are exported. */
static bool is_only_of_rank(kineto_status status)
{
    return status == KINETO_E_ARGUMENT || status == KINETO_E_FORMAT || status == KINETO_E_UNSUPPORTED || status == KINETO_E_LIMIT;
}

/* @param coverage  receives its rank. @param bad  counts ranks that cannot be exported, each of which is a line. */
static kineto_status export_file(ke_parquet_run *r, const char *path, uint32_t index, ka_coverage *coverage, uint32_t *bad,
                                 kineto_error *err)
{
    kineto_trace *trace = NULL;
    kineto_status status = kineto_trace_open_with(path, &kc_reading, &trace, err);
    bool is_bad = status && status != KINETO_E_MEMORY, fits = true;
    if (!status) {
        int32_t rank = kc_trace_rank(trace, path, index);
        status = ke_parquet_run_add(r, trace, rank, err);
        is_bad = is_only_of_rank(status);
        fits = status || ka_coverage_add(coverage, trace, &rank);
    } else if (is_bad) {
        fits = ka_coverage_add_unreadable(coverage, path, err->message);
    }
    kineto_trace_release(trace);
    if (!fits)
        return kb_fail_memory(err, path);
    if (!is_bad)
        return status;
    kc_show_reading(0, 0, NULL);
    kc_complain("export: %s%s%s", strstr(err->message, path) ? "" : path, strstr(err->message, path) ? "" : ": ", err->message);
    ++*bad;
    return KINETO_OK;
}

static void print_account(const ke_parquet_run *r, const char *name, uint32_t bad)
{
    const ke_parquet_account *a = ke_parquet_run_account(r);
    if (quiet)
        return;
    fprintf(stderr, "ckineto: %s: run %s: %u %s, %s files, %s rows, %s\n", parquet, name, a->ranks,
            kc_noun(a->ranks, "rank", "ranks"), kc_count(a->files).s, kc_count(a->rows).s, kb_bytes(a->bytes).s);
    if (bad)
        fprintf(stderr, "ckineto: export: %u %s not exported\n", bad, kc_noun(bad, "file was", "files were"));
}

static int export_files(const kineto_files *files, const char *name, ka_table_set tables, bool activities)
{
    kineto_error err = {0};
    ke_parquet_run *r = NULL;
    ka_coverage coverage = {.rank_count = 0};
    uint32_t bad = 0, count = kineto_files_count(files);
    kineto_status status = ke_parquet_run_open(parquet, name, tables, activities, &r, &err);
    for (uint32_t i = 0; i < count && !status; i++) {
        kc_show_reading(i, count, kineto_files_path(files, i));
        status = export_file(r, kineto_files_path(files, i), i, &coverage, &bad, &err);
    }
    kc_show_reading(0, 0, NULL);
    if (!status)
        status = ke_parquet_run_finish(r, &err);
    if (status)
        kc_complain_of("export", &err);
    else
        print_account(r, name, bad);
    bool lacks_ranks = !status && kc_report_missing_ranks(&coverage, count);
    ke_parquet_run_free(r);
    ka_coverage_free(&coverage);
    return status ? KC_EXIT_FAILURE : bad == count ? KC_EXIT_USAGE : bad || lacks_ranks ? KC_EXIT_INCOMPLETE : 0;
}

static int run_export(int argc, char **argv)
{
    char name[KC_RUN_NAME_BYTES];
    int operands;
    ka_table_set tables;
    bool activities;
    kineto_error err = {0};
    kineto_files *files = NULL;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("export", 0);
    if (!status && !parquet)
        status = kc_usage_error("export", "no data set given, for example --parquet fleet/; for other formats see 'ckineto convert'");
    if (!status && !operands)
        status = kc_usage_error("export", "no trace given");
    if (status || parse_tables(&tables, &activities) || kc_choose_run_name("export", run_name, argv[1], name))
        return KC_EXIT_USAGE;
    status = kineto_files_find((const char *const *)(argv + 1), (size_t)operands, &files, &err);
    if (status) {
        kc_complain_of("export", &err);
        return KC_EXIT_USAGE;
    }
    int result = export_files(files, name, tables, activities);
    kineto_files_destroy(files);
    return result;
}

/* ---- the old form ------------------------------------------------------------------------------ */

/* The format that an option names; NULL: it is another option. @param value  receives what follows a '='. */
static const char *find_format_option(const char *word, const char **value)
{
    kineto_export_format f = {.size = sizeof f};
    for (uint32_t i = 0; strncmp(word, "--", 2) == 0 && kineto_export_format_get(i, &f); i++) {
        size_t size = strlen(f.name);
        if (strncmp(word + 2, f.name, size) != 0 || (word[2 + size] && word[2 + size] != '='))
            continue;
        *value = word[2 + size] ? word + 3 + size : NULL;
        return f.name;
    }
    return NULL;
}

/* Fills `to` with the arguments of `convert`. @return their number; -1: a value is missing, or out of memory. */
static int translate_arguments(int argc, char **argv, char **to)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        const char *value, *format = find_format_option(argv[i], &value);
        if (!format) {
            to[count++] = argv[i];
            continue;
        }
        if (!value && ++i == argc)
            return -1;
        if (asprintf(&to[count++], "-o%s:%s", format, value ? value : argv[i]) < 0)
            return -1;
    }
    to[count] = NULL;
    return count;
}

/* The old form: what it means now. The texts of the new arguments live as long as the process. */
static int run_convert(int argc, char **argv)
{
    char name[] = "convert", **words = calloc((size_t)argc + 2, sizeof *words);
    kc_notice_renamed("ckineto export TRACE --csv OUT", "ckineto convert TRACE -o csv:OUT");
    int count = words ? translate_arguments(argc, argv, words + 1) : -1;
    if (count < 0) {
        free(words);
        (void)kc_usage_error("convert", "the last option needs a value: OUT");
        return KC_EXIT_USAGE;
    }
    words[0] = name;
    int result = kc_convert(count + 1, words);
    free(words);
    return result;
}

int kc_export(int argc, char **argv)
{
    const char *value;
    for (int i = 1; i < argc; i++)
        if (find_format_option(argv[i], &value))
            return run_convert(argc, argv);
    return run_export(argc, argv);
}
