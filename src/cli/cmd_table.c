/* ckineto table: what each function cost, as PyTorch's key_averages().table() says it. */
#include "cli/several.h"
#include "cli/summary/summary.h"

#include <ckineto/summary.h>

static bool by_shape, by_overload, each_event, top_level, python, flops, as_torch, csv, json;
static bool functions, merge;
static const char *sort_by = "self_cpu_time_total", *time_unit = "auto", *header, *stacks, *rank;
static const char *output = "-", *memory_device, *categories;
static bool memory, by_category, execution;
static uint64_t by_stack, row_limit = 100, name_width = 55, shapes_width = 80, source_width = 75;

static const kc_option option_list[] = {
    {"sort-by", 's', KC_TEXT, &sort_by, "NUMBER",
     "self_cpu_time_total (the default), cpu_time_total, cpu_time, count,\nflops, "
     "[self_]cpu_memory_usage, "
     "with device or cuda for cpu;\n'none': in the order of time"},
    {"group-by-input-shape", 0, KC_FLAG, &by_shape, NULL,
     "the same function with other shapes apart"},
    {"group-by-stack", 0, KC_NUMBER, &by_stack, "N", "also by the N innermost frames of the stack"},
    {"group-by-overload", 0, KC_FLAG, &by_overload, NULL, "overloads of an operator apart"},
    {"events", 0, KC_FLAG, &each_event, NULL, "no groups: a row for each event"},
    {"python", 0, KC_FLAG, &python, NULL, "also functions of Python"},
    {"top-level", 0, KC_FLAG, &top_level, NULL, "only functions that no other one called"},
    KC_STEP_OPTION,
    {"row-limit", 0, KC_NUMBER, &row_limit, "N", "show N rows (100 in a table); 0: all"},
    {"time-unit", 0, KC_TEXT, &time_unit, "UNIT", "s, ms or us for all times, or auto"},
    {"flops", 0, KC_FLAG, &flops, NULL,
     "count floating point operations, also where the profiler was\nnot asked to"},
    {"header", 0, KC_TEXT, &header, "TEXT", "a line above the table; with --memory, the title"},
    {"name-width", 0, KC_NUMBER, &name_width, "N", "characters of names (55); 0: all"},
    {"shapes-width", 0, KC_NUMBER, &shapes_width, "N", "characters of shapes (80); 0: all"},
    {"source-width", 0, KC_NUMBER, &source_width, "N", "characters of source lines (75); 0: all"},
    {"csv", 0, KC_FLAG, &csv, NULL, "all numbers, for a spreadsheet"},
    {"json", 'j', KC_FLAG, &json, NULL, "all numbers, as an array of objects"},
    {"stacks", 0, KC_TEXT, &stacks, "NUMBER",
     "instead of a table, folded stacks for flame graphs, of\nself_cpu_time_total or "
     "self_device_time_total"},
    {"merge", 0, KC_FLAG, &merge, NULL, "with --stacks: add equal stacks up"},
    {"functions", 0, KC_FLAG, &functions, NULL, "with --stacks: the functions are frames too"},
    {"memory", 0, KC_FLAG, &memory, NULL,
     "instead of a table, memory over time: -o FILE.html, .json\nor .raw.json"},
    {"device", 0, KC_TEXT, &memory_device, "DEVICE", "with --memory: cpu, cuda:0 …"},
    {"by-category", 0, KC_FLAG, &by_category, NULL,
     "with --memory: a page of parameters, activations … in place of\nfunctions"},
    {"category", 0, KC_TEXT, &categories, "NAME=CATEGORY[,...]",
     "with --memory: what functions and annotations of this name\nallocate is parameter, "
     "optimizer_state, input, temporary,\nactivation, gradient, autograd_detail or unknown"},
    {"execution-trace", 0, KC_FLAG, &execution, NULL,
     "instead of a table, operators as a graph in Chakra's schema:\n-o FILE.json"},
    {"as-torch", 0, KC_FLAG, &as_torch, NULL,
     "give memory and device work to functions as PyTorch does"},
    {"output", 'o', KC_TEXT, &output, "FILE", "write to FILE instead of the standard output"},
    {"rank", 'r', KC_TEXT, &rank, "N", "of several files, or of one with several ranks: this one"},
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "table",
    "[options] TRACE...",
    "Say what each function of a trace cost, itself and with what it called: the table that\n"
    "PyTorch's profiler prints, of any trace. Several files, and those in a directory, become\n"
    "one trace.",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- what was asked for ---------------------------------------------------------------------- */

static uint32_t width(uint64_t asked)
{
    return asked && asked < KINETO_WIDTH_UNLIMITED ? (uint32_t)asked : KINETO_WIDTH_UNLIMITED;
}

static kineto_averages_options averages_options(void)
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

/* Programs want all rows. */
static int64_t limit(void)
{
    bool usual = !kc_given(&row_limit) && (csv || json);
    return row_limit && !usual ? (int64_t)KB_MIN(row_limit, (uint64_t)INT64_MAX) : -1;
}

/* What is written, and which options are about it. */
enum { TEXT = 1, NUMBERS = 2, TABLES = TEXT | NUMBERS, STACKS = 4, MEMORY = 8, GRAPH = 16 };

static const struct {
    const void *option;
    const char *name;
    uint32_t forms;
} concerns[] = {
    {&sort_by, "sort-by", TABLES},
    {&by_shape, "group-by-input-shape", TABLES},
    {&by_stack, "group-by-stack", TABLES},
    {&by_overload, "group-by-overload", TABLES},
    {&each_event, "events", TABLES},
    {&python, "python", TABLES},
    {&kc_step_pattern, "step-pattern", TABLES | STACKS},
    {&top_level, "top-level", TABLES},
    {&row_limit, "row-limit", TABLES},
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
} asks[] = {
    {&csv, "csv", NUMBERS},
    {&json, "json", NUMBERS},
    {&stacks, "stacks", STACKS},
    {&memory, "memory", MEMORY},
    {&execution, "execution-trace", GRAPH},
};

/* What is asked for in place of a table, by one option; *asked: its name, NULL: by none. */
static kineto_status find_form(uint32_t *form, const char **asked)
{
    *form = TEXT;
    *asked = NULL;
    for (size_t i = 0; i < KB_COUNT(asks); i++) {
        if (!kc_given(asks[i].option))
            continue;
        if (*asked)
            return kc_usage_error("table", "--%s or --%s, not both", *asked, asks[i].name);
        *form = asks[i].form;
        *asked = asks[i].name;
    }
    return KINETO_OK;
}

static kineto_status check_concerns(void)
{
    uint32_t form;
    const char *asked;
    kineto_status status = find_form(&form, &asked);
    if (status)
        return status;
    for (size_t i = 0; i < KB_COUNT(concerns); i++) {
        if (concerns[i].forms & form || !kc_given(concerns[i].option))
            continue;
        if (asked)
            return kc_usage_error("table", "--%s means nothing with --%s", concerns[i].name, asked);
        return kc_usage_error("table", "--%s is about --%s", concerns[i].name,
                              concerns[i].forms & STACKS ? "stacks" : "memory");
    }
    return KINETO_OK;
}

static kineto_status check(uint32_t *unit)
{
    if (!kineto_time_unit_parse(time_unit, unit))
        return kc_usage_error("table", "--time-unit is s, ms, us or auto, not '%s'", time_unit);
    if (memory && strcmp(output, "-") == 0)
        return kc_usage_error("table", "--memory needs -o FILE.html, .json or .raw.json");
    return check_concerns();
}

/* ---- writing --------------------------------------------------------------------------------- */

static kineto_status write_stacks(kineto_function_events *events, kineto_error *err)
{
    kineto_stacks_options o = {
        .size = sizeof o, .metric = stacks, .merge = merge, .functions = functions};
    uint64_t lines = 0;
    kineto_status status = kineto_stacks_save(events, &o, output, &lines, err);
    if (status == KINETO_OK && !lines)
        return kb_fail(err, KINETO_E_NOT_FOUND,
                       "nothing has a stack and a time: was it recorded with stacks?");
    return status;
}

/* "NAME=CATEGORY,NAME=CATEGORY"; the names stay in `text`, which is cut up. */
static kineto_status parse_rules(char *text, kineto_memory_rule *rules, size_t *count,
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
                           "--category is NAME=CATEGORY, as in 'init=parameter', not '%s'", at);
        *equals = '\0';
        rules[(*count)++] = rule;
    }
    return KINETO_OK;
}

static kineto_status save_memory(const kineto_function_events *events,
                                 kineto_memory_timeline_result *r, kineto_error *err)
{
    kineto_memory_timeline_options o = {
        .size = sizeof o, .device = memory_device, .title = header, .by_category = by_category};
    size_t most = categories ? strlen(categories) + 1 : 1;
    char *text = strdup(categories ? categories : "");
    kineto_memory_rule *rules = calloc(most, sizeof *rules);
    kineto_status status =
        text && rules ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "out of memory");
    if (!status && categories)
        status = parse_rules(text, rules, &o.rule_count, err);
    o.rules = rules;
    if (!status)
        status = kineto_memory_timeline_save(events, &o, output, r, err);
    free(text);
    free(rules);
    return status;
}

static kineto_status write_memory(const kineto_function_events *events, kineto_error *err)
{
    kineto_memory_timeline_result r = {.size = sizeof r};
    kineto_status status = save_memory(events, &r, err);
    if (status)
        return status;
    printf("%s: at most %s at once, %s at the end;", r.device,
           kc_bytes((uint64_t)KB_MAX(r.peak_bytes, 0)).s,
           kc_bytes((uint64_t)KB_MAX(r.end_bytes, 0)).s);
    printf(" %s %s\n", kc_count(r.allocations).s,
           kc_noun(r.allocations, "allocation", "allocations"));
    return KINETO_OK;
}

static kineto_status write_table(kineto_function_events *events, uint32_t unit, kineto_error *err)
{
    kineto_averages *averages;
    kineto_averages_options grouping = averages_options();
    kineto_status status = kineto_averages_create(events, &grouping, &averages, err);
    if (status)
        return status;
    kineto_table_options o = {.size = sizeof o,
                              .format = csv    ? KINETO_TABLE_CSV
                                        : json ? KINETO_TABLE_JSON
                                               : KINETO_TABLE_TEXT,
                              .time_unit = unit,
                              .sort_by = strcmp(sort_by, "none") == 0 ? NULL : sort_by,
                              .header = header,
                              .row_limit = limit(),
                              .max_name_width = width(name_width),
                              .max_shapes_width = width(shapes_width),
                              .max_source_width = width(source_width),
                              .top_level_events_only = top_level};
    status = kineto_averages_save(averages, &o, output, err);
    if (status == KINETO_OK && !kineto_averages_count(averages))
        fputs("ckineto table: there are no functions in it\n", stderr);
    kineto_averages_release(averages);
    return status;
}

static int table(const kineto_trace *trace, uint32_t unit)
{
    kineto_error err = {0};
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
        status = stacks   ? write_stacks(events, &err)
                 : memory ? write_memory(events, &err)
                          : write_table(events, unit, &err);
    kineto_function_events_release(events);
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
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("table", 0);
    if (status == KINETO_OK && !operands)
        status = kc_usage_error("table", "name the trace to make a table of");
    if (status || check(&unit) || kc_parse_rank("table", rank, &of_rank))
        return KC_EXIT_USAGE;
    if (kc_check_outputs("table", argv + 1, operands, &output, 1, execution))
        return KC_EXIT_USAGE;
    if (kc_open_traces(argv + 1, operands, of_rank, &trace, &err)) {
        kc_complain_of("table", &err);
        return KC_EXIT_USAGE;
    }
    int exit_status = table(trace, unit);
    kineto_trace_release(trace);
    return kc_finish_stdout("table", exit_status);
}
