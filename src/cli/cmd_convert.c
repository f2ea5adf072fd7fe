/* ckineto convert: write a trace in another format. The writers are in src/export; convert.c writes
 * the file and accounts for every activity. All options are checked before the trace is read, which
 * may take long. */
#include "cli/written.h"
#include "cli/convert.h"
#include "cli/names.h"
#include "export/export.h"

static const char *format, *by, *unit, *weight, *rank;
static kc_texts outputs;
static bool split_lanes, list, quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXTS, &outputs, "[FORMAT:]OUT",
     "a new file; - is the standard output. Repeatable: the trace is\n"
     "read once"},
    {"to", 't', KC_TEXT, &format, "FORMAT",
     "the format (see --list) of files whose names do not end in\n"
     "theirs; FORMAT.gz, FORMAT.zst"},
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
    KC_RANK_OPTION(rank),
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    {"list", 'l', KC_FLAG, &list, NULL, "list the formats"},
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "convert",
    "TRACE... -o OUT [-o OUT...] [options]",
    "Write a trace of ckineto, Kineto or PyTorch, or of another tool (perf, uftrace, nsys\n"
    "export --type sqlite, rocprofv3, Perfetto, XLA's xplane.pb, NCCL's inspector), in another\n"
    "format, by default the one that the name of OUT ends in, and print the numbers of activities\n"
    "that were written and that the format cannot hold. A TRACE of - is the standard input. Several\n"
    "files, and those in a directory, become one trace.",
    "ckineto convert trace.json.gz -o trace.pftrace\n"
    "ckineto convert run/ -o merged.json.gz -o flame.svg -o csv:rows.txt",
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

/* An output of -o: its file, and the format if one is named. */
typedef struct convert_output {
    const char *path;
    char format[32]; /* "": by the ending of the path */
} convert_output;

/* "csv:rows.txt". A word before a colon that is no format is a part of the name. */
static convert_output parse_output(const char *text)
{
    convert_output o = {.path = text};
    kineto_export_format f = {.size = sizeof f};
    snprintf(o.format, sizeof o.format, "%s", format ? format : "");
    const char *colon = strchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : 0;
    for (uint32_t i = 0; size && colon[1] && kineto_export_format_get(i, &f); i++) {
        size_t name = strlen(f.name);
        if (strncmp(text, f.name, name) != 0 || (size != name && text[name] != '.'))
            continue;
        snprintf(o.format, sizeof o.format, "%.*s", (int)KB_MIN(size, sizeof o.format - 1), text);
        o.path = colon + 1;
    }
    return o;
}

static const char *get_format(const convert_output *o) { return *o->format ? o->format : NULL; }

/* Before a long trace is read. */
static kineto_status check_convert_outputs(char *const *inputs, int count)
{
    kineto_error err;
    const char *paths[KB_COUNT(outputs.data)];
    if (!outputs.count)
        return kc_usage_error("convert", "no output given, for example -o trace.pftrace");
    for (size_t i = 0; i < outputs.count; i++) {
        convert_output o = parse_output(outputs.data[i]);
        paths[i] = o.path;
        if (!*o.format && strcmp(o.path, "-") == 0)
            return kc_usage_error("convert", "the standard output needs --to FORMAT");
        if (!*o.format && kc_is_page_name(o.path))
            return kc_usage_error("convert", "%s would be a page: 'ckineto report TRACE -o %s' writes one", o.path, o.path);
        if (ke_check_format(o.path, get_format(&o), &err))
            return kc_usage_error("convert", "%s%s", err.message,
                                  kc_did_you_mean(kc_list_formats, o.format).s);
    }
    return kc_check_outputs("convert", inputs, count, paths, outputs.count, true);
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
    return status ? status : check_convert_outputs(argv + 1, operands);
}

/* All outputs are tried; the result is the worst exit status. */
static int write_outputs(const kineto_trace *trace, kineto_export_options *how)
{
    int result = 0;
    for (size_t i = 0; i < outputs.count; i++) {
        convert_output o = parse_output(outputs.data[i]);
        how->format = get_format(&o);
        how->trace_name = strcmp(o.path, "-") ? NULL : "trace";
        int one = kc_convert_write("convert", trace, o.path, how, quiet);
        result = KB_MAX(result, one);
    }
    return result;
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
    o.split_lanes = split_lanes;
    int exit_status = write_outputs(trace, &o);
    kineto_trace_release(trace);
    return exit_status;
}
