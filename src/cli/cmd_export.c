/* ckineto export: a trace in any number of formats at once, an option for each. */
#include "cli/convert.h"
#include "export/export.h"

enum { MOST = 32 };
static const char *outputs[MOST];
static char help_texts[MOST][160];
static bool quiet;

/* The table of formats, as options. */
static size_t make_options(kc_option *list)
{
    kineto_export_format f = {.size = sizeof f};
    size_t count = 0;
    for (; count < MOST - 1 && kineto_export_format_at((uint32_t)count, &f); count++) {
        snprintf(help_texts[count], sizeof help_texts[count], "%s", f.about);
        list[count] = (kc_option){f.name, 0, KC_TEXT, &outputs[count], "OUT", help_texts[count]};
    }
    list[count] =
        (kc_option){"quiet", 'q', KC_FLAG, &quiet, NULL, "say nothing but what went wrong"};
    return count;
}

static kineto_status check(const char *input, const kc_option *list, size_t count)
{
    kineto_error err;
    size_t wanted = 0;
    for (size_t i = 0; i < count; i++) {
        if (!outputs[i])
            continue;
        wanted++;
        if (ke_check_format(outputs[i], list[i].name, &err))
            return kc_usage_error("export", "%s", err.message);
        if (kc_same_file(input, outputs[i]))
            return kc_usage_error("export", "%s would overwrite the trace that is read",
                                  outputs[i]);
    }
    return wanted ? KINETO_OK
                  : kc_usage_error("export", "say what to write: --%s OUT, say", list[0].name);
}

static kineto_status check_operands(int operands, char **argv)
{
    if (operands == 0)
        return kc_usage_error("export", "name the trace to export");
    if (operands > 1)
        return kc_usage_error("export", "one trace at a time, not '%s' as well", argv[2]);
    return KINETO_OK;
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
    size_t count = make_options(list);
    const kc_options options = {
        "export",
        "TRACE --FORMAT OUT …",
        "Write a trace in one or more formats, whatever the files' names end in, but for\n"
        "compression. 'ckineto convert' writes one, with more options.",
        list,
        count + 1,
        false};
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("export", 0);
    if (status || check_operands(operands, argv) || check(argv[1], list, count) ||
        kc_convert_open("export", argv[1], &trace, &err))
        return KC_EXIT_USAGE;
    int exit_status = write_all(trace, list, count);
    kineto_trace_release(trace);
    return exit_status;
}
