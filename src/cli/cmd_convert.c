/* ckineto convert: write a trace in another format. The writers are in src/export; convert.c writes
 * the file and accounts for every activity. All options are checked before the trace is read, which
 * may take long. */
#include "cli/convert.h"
#include "export/export.h"

static const char *output, *format, *by, *unit, *weight, *rank;
static bool split_lanes, list, quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "OUT", "the new file; - is the standard output"},
    {"to", 't', KC_TEXT, &format, "FORMAT",
     "the format (see --list), if the name of OUT does not\nend in it; FORMAT.gz, FORMAT.zst"},
    {"by", 'b', KC_TEXT, &by, "ROOTS",
     "folded, flame, pprof: first frame of stacks: track\n(the default), kind, or none: tracks are "
     "merged"},
    {"unit", 'u', KC_TEXT, &unit, "UNIT", "folded: unit of weights: ns (the default), us, ms"},
    {"weight", 'w', KC_TEXT, &weight, "WEIGHT",
     "folded, flame, pprof: time (the default: CPU time of CPU\nsamples, of a trace without them own "
     "time of ranges), cpu\nand samples (CPU samples only), off-cpu (blocked threads),\nor wall (own time "
     "of ranges only)"},
    {"split-lanes", 's', KC_FLAG, &split_lanes, NULL,
     "chrome: activities of a thread or stream that overlap\nwithout nesting get thread ids of "
     "their own"},
    {"rank", 'r', KC_TEXT, &rank, "N", "use only this rank, of several files or of a merged trace"},
    KC_READING_OPTIONS,
    {"list", 'l', KC_FLAG, &list, NULL, "list the formats"},
    {"quiet", 'q', KC_FLAG, &quiet, NULL, "print only errors"},
};
static const kc_options options = {
    "convert",
    "TRACE... -o OUT [options]",
    "Write a trace of ckineto, Kineto or PyTorch in another format, by default the one\n"
    "that the name of OUT ends in, and print the numbers of activities that were written and\n"
    "that the format cannot hold. A TRACE of - is the standard input. Several files, and\n"
    "those in a directory, become one trace.\n"
    "Example: ckineto convert trace.json.gz -o trace.pftrace",
    option_list,
    KB_COUNT(option_list),
    false};

/* --by: the first frame of stacks. */
static kineto_status parse_roots(kineto_export_options *o)
{
    static const char *const names[] = {"track", "kind", "none"};
    for (uint32_t i = 0; by && i < KB_COUNT(names); i++) {
        if (strcmp(by, names[i]) == 0) {
            o->roots = i;
            return KINETO_OK;
        }
    }
    return by ? kc_usage_error("convert", "--by is track, kind or none, not '%s'", by) : KINETO_OK;
}

/* --weight: of stacks. */
static kineto_status parse_weight(kineto_export_options *o)
{
    static const char *const names[] = {"time", "cpu", "samples", "off-cpu", "wall"};
    for (uint32_t i = 0; weight && i < KB_COUNT(names); i++) {
        if (strcmp(weight, names[i]) == 0) {
            o->weight = i;
            return KINETO_OK;
        }
    }
    return weight ? kc_usage_error("convert", "--weight is time, cpu, samples, off-cpu or wall, "
                                              "not '%s'",
                                   weight)
                  : KINETO_OK;
}

/* --unit: the unit of weights. */
static kineto_status parse_unit(kineto_export_options *o)
{
    static const struct {
        const char *name;
        uint32_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}};
    for (size_t i = 0; unit && i < KB_COUNT(units); i++) {
        if (strcmp(unit, units[i].name) == 0) {
            o->weight_ns = units[i].ns;
            return KINETO_OK;
        }
    }
    return unit ? kc_usage_error("convert", "--unit is ns, us or ms, not '%s'", unit) : KINETO_OK;
}

/* Before a long trace is read. */
static kineto_status check_convert_output(char *const *inputs, int count)
{
    kineto_error err;
    if (!output)
        return kc_usage_error("convert", "no output given, for example -o trace.pftrace");
    if (!format && strcmp(output, "-") == 0)
        return kc_usage_error("convert", "the standard output needs --to FORMAT");
    if (ke_check_format(output, format, &err))
        return kc_usage_error("convert", "%s", err.message);
    return kc_check_outputs("convert", inputs, count, &output, 1, true);
}

/* Everything that can be checked before the trace is read. */
static kineto_status check_convert_options(int operands, char **argv, kineto_export_options *o)
{
    if (operands == 0)
        return kc_usage_error("convert", "no trace given");
    kineto_status status = parse_roots(o);
    if (status == KINETO_OK)
        status = parse_unit(o);
    if (status == KINETO_OK)
        status = parse_weight(o);
    return status ? status : check_convert_output(argv + 1, operands);
}

/* --list needs no trace. A trace that cannot be read is KC_EXIT_USAGE, an output that cannot
 * be written KC_EXIT_FAILURE. */
int kc_convert(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    kineto_export_options o = {.size = sizeof o};
    int32_t of_rank = -1;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("convert", 0);
    if (status == KINETO_OK && list && operands == 0) {
        kc_print_formats();
        return kc_finish_stdout("convert", 0);
    }
    if (status || check_convert_options(operands, argv, &o) ||
        kc_parse_rank("convert", rank, &of_rank) ||
        kc_convert_open("convert", argv + 1, operands, of_rank, &trace, &err))
        return KC_EXIT_USAGE;
    o.format = format;
    o.split_lanes = split_lanes;
    o.trace_name = strcmp(output, "-") ? NULL : "trace";
    int exit_status = kc_convert_write("convert", trace, output, &o, quiet);
    kineto_trace_release(trace);
    return exit_status;
}
