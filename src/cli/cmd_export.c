/* ckineto export: a trace in any number of formats at once, an option for each. */
#include "cli/convert.h"
#include "export/export.h"

enum { MOST = 32 };
static const char *outputs[MOST];
static char help_texts[MOST][160];
static bool quiet;
static const char *rank;

/* The table of formats, as options. */
static size_t make_options(kc_option *list)
{
    kineto_export_format f = {.size = sizeof f};
    size_t count = 0;
    for (; count < MOST - 4 && kineto_export_format_at((uint32_t)count, &f); count++) {
        snprintf(help_texts[count], sizeof help_texts[count], "%s", f.about);
        list[count] = (kc_option){f.name, 0, KC_TEXT, &outputs[count], "OUT", help_texts[count]};
    }
    list[count + 3] = (kc_option)KC_TS_UNIT_OPTION;
    list[count + 2] = (kc_option)KC_MEMORY_OPTION;
    list[count + 1] =
        (kc_option){"rank", 'r', KC_TEXT,
                    &rank,  "N", "of several files, or of one with several ranks: this one"};
    list[count] =
        (kc_option){"quiet", 'q', KC_FLAG, &quiet, NULL, "say nothing but what went wrong"};
    return count;
}

static kineto_status check(char *const *inputs, int input_count, const kc_option *list,
                           size_t count)
{
    kineto_error err;
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!outputs[i])
            continue;
        wanted++;
        if (ke_check_format(outputs[i], list[i].name, &err))
            return kc_usage_error("export", "%s", err.message);
    }
    if (!wanted)
        return kc_usage_error("export", "say what to write: --%s OUT, say", list[0].name);
    return kc_check_outputs("export", inputs, input_count, outputs, count, true);
}

static kineto_status check_operands(int operands)
{
    return operands ? KINETO_OK : kc_usage_error("export", "name the trace to export");
}

/* All of them are tried; one that fails makes the exit status. */
static int write_all(const kineto_trace *trace, const kc_option *list, size_t count)
{
    int exit_status = 0;
    for (size_t i = 0; i < count; i++) {
        if (!outputs[i])
            continue;
        kineto_export_options o = {.size = sizeof o, .format = list[i].name};
        int one = kc_convert_write("export", trace, outputs[i], &o, quiet);
        exit_status = KB_MAX(exit_status, one);
    }
    return exit_status;
}

int kc_export(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kc_option list[MOST];
    int32_t of_rank = -1;
    size_t count = make_options(list);
    const kc_options options = {
        "export",
        "TRACE... --FORMAT OUT …",
        "Write a trace in one or more formats, whatever the files' names end in, but for\n"
        "compression. 'ckineto convert' writes one, with more options. Several files, and those "
        "in\n"
        "a directory, become one trace.",
        list,
        count + 4,
        false};
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("export", 0);
    if (status || check_operands(operands) || check(argv + 1, operands, list, count) ||
        kc_parse_rank("export", rank, &of_rank) ||
        kc_convert_open("export", argv + 1, operands, of_rank, &trace, &err))
        return KC_EXIT_USAGE;
    int exit_status = write_all(trace, list, count);
    kineto_trace_release(trace);
    return exit_status;
}
