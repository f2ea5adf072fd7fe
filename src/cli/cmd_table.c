/* ckineto table: the cost of each function, as the table of PyTorch's key_averages().table(). The
 * tables are those of ckineto/summary.h. One output form is selected by an option, and options that
 * the form does not have are refused. */
#include "cli/open_many.h"
#include "analyze/summary/summary.h"
#include "cli/names.h"
#include "cli/style.h"
#include "cli/summary/summary.h"

#include <ckineto/summary.h>

static bool by_shape, by_overload, each_event, top_level, python, flops, as_torch, csv;
static bool functions, merge;
static const char *sort_by = "self_cpu_time_total", *time_unit = "auto", *header, *stacks, *rank;
static const char *output = "-", *memory_device, *categories;
static bool memory, by_category, execution;
static uint64_t by_stack, row_limit = 100, name_width = 55, shapes_width = 80, source_width = 75;

static const kc_option option_list[] = {
    {"sort-by", 's', KC_TEXT, &sort_by, "METRIC",
     "self_cpu_time_total (the default), cpu_time_total, cpu_time, count,\nflops, "
     "[self_]cpu_memory_usage, "
     "with device or cuda for cpu;\n'none': order of time"},
    {"group-by-input-shape", 0, KC_FLAG, &by_shape, NULL,
     "separate rows for different input shapes"},
    {"group-by-stack", 0, KC_NUMBER, &by_stack, "N",
     "separate rows for different N innermost frames"},
    {"group-by-overload", 0, KC_FLAG, &by_overload, NULL,
     "separate rows for overloads of an operator"},
    {"events", 0, KC_FLAG, &each_event, NULL, "a row for each event, without groups"},
    {"python", 0, KC_FLAG, &python, NULL, "also list Python functions"},
    {"top-level", 0, KC_FLAG, &top_level, NULL, "only functions that were not called by others"},
    KC_STEP_OPTION,
    KC_TOP_OPTION(row_limit, "100"),
    KC_ALIAS_OPTION("row-limit", "top"),
    {"time-unit", 0, KC_TEXT, &time_unit, "UNIT", "unit of all times: s, ms, us or auto"},
    {"flops", 0, KC_FLAG, &flops, NULL,
     "count floating point operations even if the profiler did not\nrecord them"},
    {"header", 0, KC_TEXT, &header, "TEXT", "a line above the table; with --memory: the title"},
    {"name-width", 0, KC_NUMBER, &name_width, "N", "characters of names (55); 0: all"},
    {"shapes-width", 0, KC_NUMBER, &shapes_width, "N", "characters of shapes (80); 0: all"},
    {"source-width", 0, KC_NUMBER, &source_width, "N", "characters of source lines (75); 0: all"},
    {"csv", 0, KC_FLAG, &csv, NULL, "all columns as CSV"},
    {"json", 'j', KC_JSON, &kc_json_path, "[=FILE]",
     "write all columns as JSON, to FILE or the standard output"},
    {"stacks", 0, KC_TEXT, &stacks, "METRIC",
     "print folded stacks for flame graphs instead of a table:\nself_cpu_time_total or "
     "self_device_time_total"},
    {"merge", 0, KC_FLAG, &merge, NULL, "with --stacks: add up equal stacks"},
    {"functions", 0, KC_FLAG, &functions, NULL, "with --stacks: functions are frames, too"},
    {"memory", 0, KC_FLAG, &memory, NULL,
     "write memory over time instead of a table: -o FILE.html,\n.json or .raw.json"},
    {"device", 0, KC_TEXT, &memory_device, "DEVICE", "with --memory: cpu, cuda:0 …"},
    {"by-category", 0, KC_FLAG, &by_category, NULL,
     "with --memory: group by parameters, activations … instead of\nfunctions"},
    {"category", 0, KC_TEXT, &categories, "NAME=CATEGORY[,...]",
     "with --memory: category of allocations in functions and\nannotations of this name: "
     "parameter, "
     "optimizer_state, input,\ntemporary, activation, gradient, autograd_detail or unknown"},
    {"execution-trace", 0, KC_FLAG, &execution, NULL,
     "write operators as a graph in Chakra's schema instead of a\ntable: -o FILE.json"},
    {"as-torch", 0, KC_FLAG, &as_torch, NULL,
     "attribute memory and device work to functions like PyTorch"},
    {"output", 'o', KC_TEXT, &output, "FILE", "write to FILE instead of the standard output"},
    KC_RANK_OPTION(rank),
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "table",
    "[options] TRACE...",
    "Print the cost of each function of a trace, itself and with its callees: the table of\n"
    "PyTorch's profiler, for any trace. Several files, and those in a directory, become one\n"
    "trace.",
    "ckineto table trace.json\n"
    "ckineto table trace.json --sort-by cuda_time_total --top 20",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- options --------------------------------------------------------------------------------- */

/* 0 and very large numbers mean no limit. */
static uint32_t convert_width(uint64_t asked)
{
    return asked && asked < KINETO_WIDTH_UNLIMITED ? (uint32_t)asked : KINETO_WIDTH_UNLIMITED;
}

/* How functions are grouped. */
static kineto_averages_options make_averages_options(void)
{
    return (kineto_averages_options){.size = sizeof(kineto_averages_options),
                                     .each_event = each_event,
                                     .group_by_shape = by_shape,
                                     .group_by_overload = by_overload,
                                     .group_by_stack =
                                         (uint32_t)KB_MIN(by_stack, (uint64_t)UINT32_MAX),
                                     .python_functions = python,
                                     .flops = flops ? KINETO_YES : KINETO_AUTO};
}

/* -1: all rows, the default of CSV and JSON. */
static int64_t choose_row_limit(void)
{
    bool usual = !kc_option_given(&row_limit) && (csv || kc_json_path);
    return row_limit && !usual ? (int64_t)KB_MIN(row_limit, (uint64_t)INT64_MAX) : -1;
}

/* Forms of output, and the options that each form has. */
enum { TEXT = 1, NUMBERS = 2, TABLES = TEXT | NUMBERS, STACKS = 4, MEMORY = 8, GRAPH = 16 };

static const struct {
    const void *option;
    const char *name;
    uint32_t forms;
} option_forms[] = {
    {&sort_by, "sort-by", TABLES},
    {&by_shape, "group-by-input-shape", TABLES},
    {&by_stack, "group-by-stack", TABLES},
    {&by_overload, "group-by-overload", TABLES},
    {&each_event, "events", TABLES},
    {&python, "python", TABLES},
    {&kc_step_pattern, "step-pattern", TABLES | STACKS},
    {&top_level, "top-level", TABLES},
    {&row_limit, "top", TABLES},
    {&flops, "flops", TABLES},
    {&time_unit, "time-unit", TEXT},
    {&header, "header", TEXT | MEMORY},
    {&name_width, "name-width", TEXT},
    {&shapes_width, "shapes-width", TEXT},
    {&source_width, "source-width", TEXT},
    {&merge, "merge", STACKS},
    {&functions, "functions", STACKS},
    {&memory_device, "device", MEMORY},
    {&by_category, "by-category", MEMORY},
    {&categories, "category", MEMORY},
    {&as_torch, "as-torch", TABLES | STACKS | MEMORY},
};

static const struct {
    const void *option;
    const char *name;
    uint32_t form;
} form_options[] = {
    {&csv, "csv", NUMBERS},
    {&kc_json_path, "json", NUMBERS},
    {&stacks, "stacks", STACKS},
    {&memory, "memory", MEMORY},
    {&execution, "execution-trace", GRAPH},
};

/* The form that one of form_options selects, TEXT without any. @param asked receives the name
 * of the option; NULL: none was given. Two forms at once are an error. */
static kineto_status find_output_form(uint32_t *form, const char **asked)
{
    *form = TEXT;
    *asked = NULL;
    for (size_t i = 0; i < KB_COUNT(form_options); i++) {
        if (!kc_option_given(form_options[i].option))
            continue;
        if (*asked)
            return kc_usage_error("table", "--%s cannot be used with --%s", *asked,
                                  form_options[i].name);
        *form = form_options[i].form;
        *asked = form_options[i].name;
    }
    return KINETO_OK;
}

/* An option that the selected form does not have is an error. */
static kineto_status check_table_options(void)
{
    uint32_t form;
    const char *asked;
    kineto_status status = find_output_form(&form, &asked);
    if (status)
        return status;
    for (size_t i = 0; i < KB_COUNT(option_forms); i++) {
        if (option_forms[i].forms & form || !kc_option_given(option_forms[i].option))
            continue;
        if (asked)
            return kc_usage_error("table", "--%s cannot be used with --%s", option_forms[i].name,
                                  asked);
        return kc_usage_error("table", "--%s needs --%s", option_forms[i].name,
                              option_forms[i].forms & STACKS ? "stacks" : "memory");
    }
    return KINETO_OK;
}

/* Before the trace is read. */
static kineto_status check_metric(const char *name)
{
    ka_metric metric;
    kineto_error err;
    if (!name || strcmp(name, "none") == 0 || ka_metric_parse(name, &metric, &err) == KINETO_OK)
        return KINETO_OK;
    return kc_usage_error("table", "%s%s", err.message, kc_did_you_mean(kc_list_metrics, name).s);
}

/* The unit, and combinations of options. */
static kineto_status check_table_arguments(uint32_t *unit)
{
    if (check_metric(sort_by) || check_metric(stacks))
        return KINETO_E_ARGUMENT;
    if (!kineto_time_unit_parse(time_unit, unit))
        return kc_usage_error("table", "--time-unit is s, ms, us or auto, not '%s'", time_unit);
    if (kc_json_path && strcmp(kc_json_path, "-") != 0) {
        if (kc_option_given(&output))
            return kc_usage_error("table", "--json=FILE and -o name two files for one table");
        output = kc_json_path;
    }
    if (memory && strcmp(output, "-") == 0)
        return kc_usage_error("table", "--memory needs -o FILE.html, .json or .raw.json");
    return check_table_options();
}

/* ---- writing --------------------------------------------------------------------------------- */

/* One line for each stack. An output without lines is an error. */
static kineto_status write_folded_stacks(kineto_function_events *events, kineto_error *err)
{
    kineto_stacks_options o = {
        .size = sizeof o, .metric = stacks, .merge = merge, .functions = functions};
    uint64_t lines = 0;
    kineto_status status = kineto_stacks_save(events, &o, output, &lines, err);
    if (status == KINETO_OK && !lines)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "no function has a stack and a time; record with stacks");
    return status;
}

/* "NAME=CATEGORY,NAME=CATEGORY". `text` is cut up, and the rules point into it: it must
 * outlive them. `rules` has room for as many as there are bytes. */
static kineto_status parse_category_rules(char *text, kineto_memory_rule *rules, size_t *count,
                                          kineto_error *err)
{
    *count = 0;
    for (char *at = text, *next; at; at = next) {
        next = strchr(at, ',');
        if (next)
            *next++ = '\0';
        char *equals = strrchr(at, '=');
        kineto_memory_rule rule = {.name = at};
        if (!equals || equals == at || !kineto_memory_category_parse(equals + 1, &rule.category))
            return kb_fail(err, KINETO_E_ARGUMENT,
                           "--category needs NAME=CATEGORY, for example init=parameter, not '%s'",
                           at);
        *equals = '\0';
        rules[(*count)++] = rule;
    }
    return KINETO_OK;
}

/* Parse --category and write the timeline. */
static kineto_status save_memory_timeline(const kineto_function_events *events,
                                          kineto_memory_timeline_result *r, kineto_error *err)
{
    kineto_memory_timeline_options o = {
        .size = sizeof o, .device = memory_device, .title = header, .by_category = by_category};
    size_t max = categories ? strlen(categories) + 1 : 1;
    char *text = strdup(categories ? categories : "");
    kineto_memory_rule *rules = calloc(max, sizeof *rules);
    kineto_status status =
        text && rules ? KINETO_OK : kb_fail_memory(err, NULL);
    if (!status && categories)
        status = parse_category_rules(text, rules, &o.rule_count, err);
    o.rules = rules;
    if (!status)
        status = kineto_memory_timeline_save(events, &o, output, r, err);
    free(text);
    free(rules);
    return status;
}

/* Write the timeline, and print its peak. */
static kineto_status write_memory_timeline(const kineto_function_events *events, kineto_error *err)
{
    kineto_memory_timeline_result r = {.size = sizeof r};
    kineto_status status = save_memory_timeline(events, &r, err);
    if (status)
        return status;
    printf("%s: at most %s at once, %s at the end;", r.device,
           kb_bytes((uint64_t)KB_MAX(r.peak_bytes, 0)).s,
           kb_bytes((uint64_t)KB_MAX(r.end_bytes, 0)).s);
    printf(" %s %s\n", kc_count(r.allocations).s,
           kc_noun(r.allocations, "allocation", "allocations"));
    return KINETO_OK;
}

/* The table on the standard output; the heads of its columns, which are between two lines of dashes, are bold. */
static kineto_status print_table_text(const kineto_averages *averages, const kineto_table_options *o, kineto_error *err)
{
    char *text = NULL;
    size_t bytes = 0, rules = 0;
    kineto_status status = kineto_averages_text(averages, o, &text, &bytes, err);
    for (size_t at = 0; !status && at < bytes;) {
        const char *end = memchr(text + at, '\n', bytes - at);
        size_t size = end ? (size_t)(end - (text + at)) : bytes - at;
        bool is_rule = size && text[at] == '-';
        rules += is_rule;
        bool is_head = !is_rule && rules == 1;
        fputs(is_head ? kc_paint(stdout, KC_BOLD) : "", stdout);
        fwrite(text + at, 1, size, stdout);
        fputs(is_head ? kc_paint(stdout, KC_PLAIN) : "", stdout);
        fputs(end ? "\n" : "", stdout);
        at += size + 1;
    }
    free(text);
    return status;
}

/* Kinds of functions (samples, Python) in a trace with neither operators, ranges nor device work, whose table would show
 * calls that wait as all of the CPU time. 0: the trace has a table. */
static uint64_t find_only_functions(const kineto_trace *trace)
{
    const uint64_t wanted = KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE) | KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION);
    const uint64_t ignored = KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE) | KINETO_KIND_BIT(KINETO_KIND_BLOCKING_CALL) |
                             KINETO_KIND_BIT(KINETO_KIND_COUNTER) | KINETO_KIND_BIT(KINETO_KIND_MEMORY);
    uint64_t found = 0;
    kineto_activity a;
    for (kineto_row row = 0; row < kineto_trace_count(trace) && !(found & ~wanted); row++)
        if (kineto_trace_get(trace, row, &a))
            found |= a.kind < KINETO_KIND_COUNT ? KINETO_KIND_BIT(a.kind) & ~ignored : ~wanted;
    return found & ~wanted ? 0 : found;
}

/* In place of the table on the standard output. */
static void print_functions_advice(uint64_t kinds, const char *path)
{
    enum { MAX_PATH_BYTES = 200 };
    bool has_samples = kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE);
    bool has_python = kinds & KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION);
    printf("no operators; see: ckineto analyze --only %s%s%s %s\n", has_samples ? "cpu_functions" : "",
           has_samples && has_python ? "," : "", has_python ? "python_functions" : "",
           kc_command_word(path, MAX_PATH_BYTES));
}

/* Group the events and write the table. A trace without functions is reported. */
static kineto_status write_averages_table(kineto_function_events *events, uint32_t unit,
                                          kineto_error *err)
{
    kineto_averages *averages;
    kineto_averages_options grouping = make_averages_options();
    kineto_status status = kineto_averages_create(events, &grouping, &averages, err);
    if (status)
        return status;
    kineto_table_options o = {.size = sizeof o,
                              .format = csv    ? KINETO_TABLE_CSV
                                        : kc_json_path ? KINETO_TABLE_JSON_OBJECT
                                                       : KINETO_TABLE_TEXT,
                              .time_unit = unit,
                              .sort_by = strcmp(sort_by, "none") == 0 ? NULL : sort_by,
                              .header = header,
                              .row_limit = choose_row_limit(),
                              .max_name_width = convert_width(name_width),
                              .max_shapes_width = convert_width(shapes_width),
                              .max_source_width = convert_width(source_width),
                              .top_level_events_only = top_level};
    bool is_page = o.format == KINETO_TABLE_TEXT && strcmp(output, "-") == 0;
    status = is_page ? print_table_text(averages, &o, err) : kineto_averages_save(averages, &o, output, err);
    if (status == KINETO_OK && !kineto_averages_count(averages))
        fputs("ckineto table: the trace contains no functions\n", stderr);
    kineto_averages_destroy(averages);
    return status;
}

/* Writes the selected form of output. Arguments that turn out to be wrong only now (a metric,
 * a device) are usage errors. Returns the exit status. */
static int print_table_of(const kineto_trace *trace, const char *path, uint32_t unit)
{
    kineto_error err = {0};
    bool is_page = !execution && !stacks && !memory && !csv && !kc_json_path && strcmp(output, "-") == 0;
    uint64_t only = is_page ? find_only_functions(trace) : 0;
    if (only) {
        print_functions_advice(only, path);
        return 0;
    }
    kineto_function_events *events = NULL;
    if (execution) {
        kineto_status written = kineto_execution_trace_save(trace, output, &err);
        if (written)
            kc_complain_of("table", &err);
        return written ? KC_EXIT_FAILURE : 0;
    }
    kineto_function_events_options how = {
        .size = sizeof how, .as_torch = as_torch, .step_pattern = kc_step_pattern};
    kineto_status status = kineto_function_events_create(trace, &how, &events, &err);
    if (status == KINETO_OK)
        status = stacks   ? write_folded_stacks(events, &err)
                 : memory ? write_memory_timeline(events, &err)
                          : write_averages_table(events, unit, &err);
    kineto_function_events_destroy(events);
    if (status)
        kc_complain_of("table", &err);
    else
        kc_losses_print(trace, stderr);
    bool usage = status == KINETO_E_ARGUMENT || status == KINETO_E_UNSUPPORTED;
    return usage ? KC_EXIT_USAGE : status ? KC_EXIT_FAILURE : 0;
}

int kc_table(int argc, char **argv)
{
    int operands;
    int32_t of_rank = -1;
    uint32_t unit = 0;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("table", 0);
    if (status == KINETO_OK && !operands)
        status = kc_usage_error("table", "no trace given");
    if (status || check_table_arguments(&unit) || kc_parse_rank("table", rank, &of_rank))
        return KC_EXIT_USAGE;
    if (kc_check_outputs("table", argv + 1, operands, &output, 1, execution))
        return KC_EXIT_USAGE;
    if (kc_open_traces(argv + 1, operands, of_rank, &trace, &err)) {
        kc_complain_of("table", &err);
        return KC_EXIT_USAGE;
    }
    int exit_status = print_table_of(trace, argv[1], unit);
    kineto_trace_release(trace);
    return kc_finish_stdout("table", exit_status);
}
