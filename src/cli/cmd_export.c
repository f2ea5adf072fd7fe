/* ckineto export: write a trace in several formats at once. The option table is made at run time
 * from the list of formats in src/export, so that a new format needs no change here. The trace is
 * read once, and written once for each output. */
#include "cli/convert.h"
#include "export/export.h"

enum { MAX_FORMATS = 32 };
static const char *outputs[MAX_FORMATS];
static char help_texts[MAX_FORMATS][160];
static bool quiet;
static const char *rank;

/* An option for each format, and the common ones after them. @return the number of formats. */
static size_t make_format_options(kc_option *list)
{
    kineto_export_format f = {.size = sizeof f};
    size_t count = 0;
    for (; count < MAX_FORMATS - 4 && kineto_export_format_get((uint32_t)count, &f); count++) {
        snprintf(help_texts[count], sizeof help_texts[count], "%s", f.about);
        list[count] = (kc_option){f.name, 0, KC_TEXT, &outputs[count], "OUT", help_texts[count]};
    }
    list[count + 3] = (kc_option)KC_TS_UNIT_OPTION;
    list[count + 2] = (kc_option)KC_MEMORY_OPTION;
    list[count + 1] =
        (kc_option){"rank", 'r', KC_TEXT,
                    &rank,  "N", "use only this rank, of several files or of a merged trace"};
    list[count] = (kc_option){"quiet", 'q', KC_FLAG, &quiet, NULL, "print only errors"};
    return count;
}

/* Before the trace is read: each output must have a valid name, and at least one is needed. */
static kineto_status check_formats(char *const *inputs, int input_count, const kc_option *list,
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
        return kc_usage_error("export", "no format given, for example --%s OUT", list[0].name);
    return kc_check_outputs("export", inputs, input_count, outputs, count, true);
}

/* Any number of traces: several become one. */
static kineto_status check_export_operands(int operands)
{
    return operands ? KINETO_OK : kc_usage_error("export", "no trace given");
}

/* All formats are tried; the exit status is the worst one. */
static int write_all_formats(const kineto_trace *trace, const kc_option *list, size_t count)
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

/* The table of options is made first, since the formats are known only at run time. The exit
 * status is the worst of all outputs. */
int kc_export(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kc_option list[MAX_FORMATS];
    int32_t of_rank = -1;
    size_t count = make_format_options(list);
    const kc_options options = {
        "export",
        "TRACE... --FORMAT OUT …",
        "Write a trace in one or more formats. The endings of file names matter only for\n"
        "compression. 'ckineto convert' writes one format, with more options. Several files,\n"
        "and those in a directory, become one trace.\n"
        "Example: ckineto export trace.json --chrome out.json.gz --csv out.csv",
        list,
        count + 4,
        false};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("export", 0);
    if (status || check_export_operands(operands) ||
        check_formats(argv + 1, operands, list, count) || kc_parse_rank("export", rank, &of_rank) ||
        kc_convert_open("export", argv + 1, operands, of_rank, &trace, &err))
        return KC_EXIT_USAGE;
    int exit_status = write_all_formats(trace, list, count);
    kineto_trace_release(trace);
    return exit_status;
}
