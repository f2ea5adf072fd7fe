/* ckineto history list: which runs a data set has, in the order in which regress compares them. Only facts.json of each run is
 * read (history_files.c), no trace. */
#include "cli/history/history.h"

#include "cli/style.h"

static const char *data_set;
static uint64_t row_limit;
static const kc_option option_list[] = {
    {"dataset", 'd', KC_TEXT, &data_set, "DIR", "the data set that 'ckineto history add' wrote"},
    KC_TOP_OPTION(row_limit, "0"),
    KC_JSON_OPTION,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "history list",
    "-d DIR [options]",
    "List the runs of a history " KC_HISTORY_ORDER ", the latest last: commit, ranks, steps of a rank,\n"
    "and the median step. With --top, these are the latest ones.",
    "ckineto history list -d history/\n"
    "ckineto history list -d history/ --top 5 --json",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- printing --------------------------------------------------------------------------------- */

/* The first run that is shown. */
static size_t find_first_shown(const kc_history *h)
{
    size_t count = h->runs.count;
    return row_limit && row_limit < count ? count - (size_t)row_limit : 0;
}

/* Columns of text; their widths are those of the longest text in them. */
static const char *const titles[] = {"run", "commit", "label"};

/* @param column  index of titles. */
static kineto_string text_of_column(const kc_history_run *run, size_t column)
{
    const char *const texts[KB_COUNT(titles)] = {run->name, run->commit, run->label};
    return kb_string(texts[column]);
}

/* Columns on the terminal for the longest text that is shown. */
static size_t measure_column(const kc_history *h, size_t column)
{
    enum { MAX_COLUMNS = 40 };
    size_t columns = strlen(titles[column]);
    for (size_t i = find_first_shown(h); i < h->runs.count; i++)
        columns = KB_MAX(columns, kc_name_columns(text_of_column(&h->runs.data[i], column)));
    return KB_MIN(columns, (size_t)MAX_COLUMNS);
}

/* @param columns  widths of the columns of text, on the terminal. */
static void print_run(const kc_history_run *run, const size_t *columns)
{
    printf("  %-23s", kc_format_utc(run->time_ns).s);
    for (size_t k = 0; k < KB_COUNT(titles); k++) {
        fputs("  ", stdout);
        kc_put_name(stdout, text_of_column(run, k), columns[k]);
    }
    printf("  %6llu  %6llu  %10s\n", (unsigned long long)run->ranks, (unsigned long long)run->steps,
           kb_short_duration((int64_t)run->step_ns).s);
}

static void print_runs_text(const kc_history *h)
{
    size_t columns[KB_COUNT(titles)], first = find_first_shown(h);
    printf("%zu %s in %s, ordered " KC_HISTORY_ORDER "\n", h->runs.count, kc_noun(h->runs.count, "run", "runs"), data_set);
    if (!h->runs.count)
        return;
    printf("  %-23s", "time");
    for (size_t k = 0; k < KB_COUNT(titles); k++) {
        columns[k] = measure_column(h, k);
        printf("  %-*s", (int)columns[k], titles[k]);
    }
    printf("  %6s  %6s  %10s\n", "ranks", "steps", "step");
    if (first)
        printf("  … and %zu earlier %s: --top 0\n", first, kc_noun(first, "run", "runs"));
    for (size_t i = first; i < h->runs.count; i++)
        print_run(&h->runs.data[i], columns);
}

/* docs/history_list.schema.json. All runs, or as many as --top says. */
static void put_json_runs(kb_json *j, const void *what)
{
    const kc_history *h = what;
    kb_json_document_begin(j, "ckineto.history_list/1");
    kb_json_put_string(j, "order", kb_string(KC_HISTORY_ORDER));
    kb_json_put_uint(j, "unreadable", h->bad);
    kb_json_key_z(j, "runs");
    kb_json_array_begin(j);
    for (size_t i = find_first_shown(h); i < h->runs.count; i++) {
        const kc_history_run *run = &h->runs.data[i];
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "run", kb_string(run->name));
        kb_json_put_string(j, "commit", kb_string(run->commit));
        kb_json_put_string(j, "label", kb_string(run->label));
        kb_json_put_int(j, "time_ns", run->time_ns);
        kb_json_put_uint(j, "index", i);
        kb_json_put_uint(j, "ranks", run->ranks);
        kb_json_put_uint(j, "steps", run->steps);
        kb_json_put_double(j, "step_ns", run->step_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* ---- the verb --------------------------------------------------------------------------------- */

/* Exit status: KC_EXIT_INCOMPLETE if a file of a run cannot be read, KC_EXIT_USAGE if there is no history. */
int kc_history_list(int argc, char **argv)
{
    kineto_error err = {0};
    kc_history history = {0};
    kineto_status status = kc_history_parse("history list", &options, argc, argv, &data_set);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("history list", 0);
    if (status)
        return KC_EXIT_USAGE;
    status = kc_history_load(data_set, &history, &err);
    bool is_read = !status;
    if (!status && kc_json_path)
        status = kc_put_json(put_json_runs, &history, &err);
    else if (!status)
        print_runs_text(&history);
    if (status)
        kc_complain_of("history list", &err);
    uint32_t bad = history.bad;
    kc_history_free(&history);
    if (status)
        return kc_exit_of(status, is_read);
    return kc_finish_stdout("history list", bad ? KC_EXIT_INCOMPLETE : 0);
}
