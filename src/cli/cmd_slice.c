/* ckineto slice: select a part of a trace and write it as a trace of its own. Options become one
 * kineto_selection, whose conditions must all hold. Only --time needs the trace for parsing,
 * because it may be relative to the window. */
#include "cli/open_many.h"
#include "cli/page.h"
#include "cli/written.h"
#include "cli/time_range.h"
#include "trace/bytes/json_text.h"
#include "trace/files/identity.h"

static const char *output, *time_range, *steps, *kinds, *name, *rank, *process, *track;
static const char *min_duration, *top_per, *under, *around, *after, *before;
static uint64_t top = UINT64_MAX; /* not given */
static bool clip, with_launches, with_parents, quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "the new trace; its extension determines the format"},
    {"time", 't', KC_TEXT, &time_range, "A:B",
     "activities that overlap the time from A to B: +1.5s from the\n"
     "start of the trace, -200ms from its end, 10% of it, or a time\n"
     "since 1970; the unit is ns, us, ms or s (ns); A and B may be\n"
     "omitted"},
    {"steps", 's', KC_TEXT, &steps, "N..M", "steps N to M, or one step N (ProfilerStep#N)"},
    KC_STEP_OPTION,
    KC_ALIAS_OPTION("step", "steps"),
    {"kinds", 'k', KC_TEXT, &kinds, "KIND[,...]", "kinds of activities, for example kernel,gpu_memcpy"},
    KC_ALIAS_OPTION("kind", "kinds"),
    {"name", 'n', KC_TEXT, &name, "RE",
     "names that match this extended regular expression;\n"
     "^ and $ match the ends"},
    KC_RANK_OPTION(rank),
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    {"process", 'p', KC_TEXT, &process, "PID", "this process and device work it launched"},
    {"track", 0, KC_TEXT, &track, "N|RE",
     "threads, streams … by number, or by a regular expression\n"
     "that matches the name"},
    {"under", 0, KC_TEXT, &under, "RE",
     "ranges whose name matches, everything in them, and the device\n"
     "work that they launched"},
    {"around", 0, KC_TEXT, &around, "RE", "such ranges and the ranges that enclose them"},
    {"after", 0, KC_TEXT, &after, "RE",
     "activities that begin or were launched after the first such range"},
    {"before", 0, KC_TEXT, &before, "RE",
     "activities that ended or were launched before the first such range"},
    {"min-duration", 0, KC_TEXT, &min_duration, "TIME",
     "ranges of at least this duration, for example 10us"},
    {"top", 0, KC_NUMBER, &top, "N", "of the selected activities only the N longest"},
    {"per", 0, KC_TEXT, &top_per, "WHAT", "the N longest of each kind, track or name"},
    {"clip", 0, KC_FLAG, &clip, NULL, "cut activities at the edges of --time"},
    {"with-launches", 0, KC_FLAG, &with_launches, NULL,
     "also select the launches of selected device work"},
    {"with-parents", 0, KC_FLAG, &with_parents, NULL,
     "also select the ranges that enclose selected activities"},
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "slice",
    "[options] TRACE... -o FILE",
    "Write the activities of a trace that match all options, with their flows, names,\n"
    "header and ledger. Several files, and those in a directory, become one trace.",
    "ckineto slice trace.json --steps 3..5 -o part.json\n"
    "ckineto slice trace.json --kinds kernel --top 100 -o longest.json",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- options ----------------------------------------------------------------------------------- */

/* --time: relative times need the window of the trace. */
static kineto_status select_time(const kineto_trace *trace, kineto_selection *how)
{
    if (!time_range)
        return KINETO_OK;
    how->use |= KINETO_SELECT_TIME;
    if (!kc_parse_time_range(time_range, trace, &how->start_ns, &how->end_ns))
        return kc_usage_error(
            "slice", "--time needs %s, not '%s'", KC_TIME_RANGE_FORM, time_range);
    if (how->end_ns <= how->start_ns)
        return kc_usage_error("slice", "--time %s ends before it starts", time_range);
    return KINETO_OK;
}

/* --steps: N, or N..M. */
static kineto_status select_steps(kineto_selection *how)
{
    if (!steps)
        return kc_step_pattern ? kc_usage_error("slice", "--step-pattern needs --steps") : KINETO_OK;
    how->use |= KINETO_SELECT_STEPS;
    how->step_pattern = kc_step_pattern;
    if (!kc_parse_number_range(steps, &how->first_step, &how->last_step))
        return kc_usage_error("slice", "--steps needs N or N..M, not '%s'", steps);
    return KINETO_OK;
}

/* --rank, --process and --track. */
static kineto_status select_rank_and_process(kineto_selection *how)
{
    int64_t number = 0;
    if (rank) {
        how->use |= KINETO_SELECT_RANK;
        if (!kt_json_int(kb_string(rank), &number) || number < 0 || number > INT32_MAX)
            return kc_usage_error("slice", "--rank needs a rank, not '%s'", rank);
        how->rank = (int32_t)number;
    }
    if (process) {
        how->use |= KINETO_SELECT_PROCESS;
        if (!kt_json_int(kb_string(process), &how->pid))
            return kc_usage_error("slice", "--process needs a process id, not '%s'", process);
    }
    how->track = track;
    return KINETO_OK;
}

/* --top and --per. */
static kineto_status select_longest(kineto_selection *how)
{
    static const char *const per[] = {"trace", "kind", "track", "name"};
    if (!top)
        return kc_usage_error("slice", "--top needs a number from 1 on");
    how->top = top == UINT64_MAX ? 0 : top;
    if (!top_per)
        return KINETO_OK;
    if (!how->top)
        return kc_usage_error("slice", "--per needs --top");
    for (uint32_t i = 0; i < KB_COUNT(per); i++) {
        if (strcmp(top_per, per[i]) == 0) {
            how->top_per = i;
            return KINETO_OK;
        }
    }
    return kc_usage_error("slice", "--per needs kind, track or name, not '%s'", top_per);
}

/* Without --kinds, how->kinds stays 0: all kinds. */
static kineto_status select_kinds(kineto_selection *how)
{
    kineto_error err = {.message = ""};
    if (kinds && kineto_kinds_parse(kinds, &how->kinds, &err) != KINETO_OK)
        return kc_usage_error("slice", "--kinds: %s", err.message);
    return KINETO_OK;
}

/* All options that need no trace. */
static kineto_status parse_selection(kineto_selection *how)
{
    kineto_status status = select_steps(how);
    if (status == KINETO_OK)
        status = select_rank_and_process(how);
    if (status == KINETO_OK)
        status = select_longest(how);
    if (status == KINETO_OK)
        status = select_kinds(how);
    if (status == KINETO_OK && min_duration &&
        !kc_parse_duration(kb_string(min_duration), &how->min_duration_ns))
        status = kc_usage_error(
            "slice", "--min-duration needs a duration, for example 10us, not '%s'", min_duration);
    if (status == KINETO_OK && clip && !time_range)
        status = kc_usage_error("slice", "--clip needs --time");
    how->name = name;
    how->under = under;
    how->around = around;
    how->after = after;
    how->before = before;
    how->use |= (clip ? KINETO_SELECT_CLIP : 0) | (with_launches ? KINETO_SELECT_LAUNCHES : 0) |
                (with_parents ? KINETO_SELECT_PARENTS : 0);
    return status;
}

/* ---- output ---------------------------------------------------------------------------------- */

/* Before a long trace is read. */
static kineto_status check_slice_output(char *const *paths, int count)
{
    if (!output)
        return kc_usage_error("slice", "no output given, for example -o part.json");
    kineto_status status = kc_check_trace_name("slice", output);
    return status ? status : kc_check_outputs("slice", paths, count, &output, 1, true);
}

/* The selecting options as they were given; "": none. */
static void format_selectors(char *text, size_t size)
{
    char longest[24];
    kb_snprintf(longest, sizeof longest, "%llu", (unsigned long long)top);
    const struct {
        const char *option, *value;
    } rows[] = {{"--time", time_range},
                {"--steps", steps},
                {"--kinds", kinds},
                {"--name", name},
                {"--rank", rank},
                {"--process", process},
                {"--track", track},
                {"--under", under},
                {"--around", around},
                {"--after", after},
                {"--before", before},
                {"--min-duration", min_duration},
                {"--top", top != UINT64_MAX ? longest : NULL}};
    size_t at = 0;
    *text = '\0';
    for (size_t i = 0; i < KB_COUNT(rows) && at < size; i++)
        if (rows[i].value)
            at += (size_t)kb_snprintf(text + at, size - at, "%s%s %s", at ? " " : "",
                                      rows[i].option, rows[i].value);
}

/* ": 0, 1": the existing ranks, if --rank names none of them; else "". */
static void format_ranks(const kineto_trace *trace, char *text, size_t size)
{
    kt_ranks ranks = {0};
    bool is_there =
        !kt_add_trace_ranks(&ranks, trace) || !kt_add_rank(&ranks, kt_header_rank(trace));
    for (size_t i = 0; i < ranks.count; i++)
        is_there |= strtol(rank, NULL, 10) == ranks.data[i];
    *text = '\0';
    if (!is_there && size > 2) {
        kt_format_ranks(&ranks, text + 2, size - 2);
        memcpy(text, ": ", 2);
    }
    kb_vec_free(&ranks);
}

/* An empty part is an error, because it is most often caused by a mistaken option. */
static kineto_status check_not_empty(const kineto_trace *from, const kineto_trace *to,
                                     kineto_error *err)
{
    char selectors[320], ranks[160] = "";
    format_selectors(selectors, sizeof selectors);
    if (kineto_trace_count(to) || !*selectors)
        return KINETO_OK;
    if (rank)
        format_ranks(from, ranks, sizeof ranks);
    return kb_fail(err, KINETO_E_NOT_FOUND, "none of %s %s matches %s%s",
                   kc_count(kineto_trace_count(from)).s,
                   kc_noun(kineto_trace_count(from), "activity", "activities"), selectors, ranks);
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Numbers of kept and dropped activities and flows. */
static void report_slice(const kineto_trace *from, const kineto_trace *to)
{
    uint64_t kept = kineto_trace_count(to), all = kineto_trace_count(from);
    uint64_t flows = kineto_trace_flow_count(to), all_flows = kineto_trace_flow_count(from);
    int64_t start, end;
    kineto_trace_window(to, &start, &end);
    kc_page whole;
    FILE *page = kc_page_begin(&whole, stderr);
    fprintf(page, "ckineto: kept %s of %s %s, dropped %s", kc_count(kept).s, kc_count(all).s,
            kc_noun(all, "activity", "activities"), kc_count(all - kept).s);
    if (all_flows)
        fprintf(page, "; kept %s of %s %s", kc_count(flows).s, kc_count(all_flows).s,
                kc_noun(all_flows, "flow", "flows"));
    fprintf(page, "; %s\n", kb_duration(kb_length_ns(start, end)).s);
    kc_page_end(&whole);
    kc_print_written_trace(output, kept);
}

/* Opens, selects and writes. --time is evaluated only here, since relative times need the
 * window of the trace. Returns KC_EXIT_USAGE for mistakes in options and for traces that
 * cannot be read. */
static int slice_trace(char *const *paths, int count, kineto_selection *how)
{
    kineto_error err = {.message = ""};
    kineto_trace *trace = NULL, *selected = NULL;
    int result = KC_EXIT_USAGE;
    if (kc_open_traces(paths, count, -1, &trace, &err) != KINETO_OK)
        goto done;
    if (select_time(trace, how) != KINETO_OK) {
        kineto_trace_release(trace);
        return KC_EXIT_USAGE;
    }
    kineto_status status = kineto_trace_select(trace, how, &selected, &err);
    result = status == KINETO_E_ARGUMENT ? KC_EXIT_USAGE : KC_EXIT_FAILURE;
    if (status != KINETO_OK || check_not_empty(trace, selected, &err) != KINETO_OK ||
        kineto_trace_save(selected, output, &err) != KINETO_OK)
        goto done;
    if (!quiet)
        report_slice(trace, selected);
    result = 0;
done:
    if (result)
        kc_complain("slice: %s", err.message);
    kineto_trace_release(selected);
    kineto_trace_release(trace);
    return result;
}

/* All options that need no trace are checked before it is read. */
int kc_slice(int argc, char **argv)
{
    int operands;
    kineto_selection how = {.size = sizeof how};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("slice", 0);
    if (status == KINETO_OK && !operands)
        status = kc_usage_error("slice", "no trace given");
    if (status == KINETO_OK)
        status = check_slice_output(argv + 1, operands);
    if (status == KINETO_OK)
        status = parse_selection(&how);
    return status ? KC_EXIT_USAGE : slice_trace(argv + 1, operands, &how);
}
