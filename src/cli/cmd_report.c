/* ckineto report: findings, tables and the timeline of a trace as one HTML page, or as text. The
 * report itself is made by src/cli/report, which `view` uses as well. */
#include "cli/report/report.h"
#include "cli/open_many.h"

static const char *output, *title, *streams, *rules, *before, *flame;
static uint64_t row_limit, activity_limit, threads, width;
static bool text;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "the page; - is the standard output"},
    {"text", 't', KC_FLAG, &text, NULL, "print text with bars on the standard output instead"},
    {"width", 0, KC_NUMBER, &width, "N",
     "columns of the text, 60 to 400 (0: those of the terminal, or 100)"},
    {"before", 'b', KC_TEXT, &before, "TRACE",
     "compare with this trace: the page gets a part with the\ndifferences, as 'ckineto diff' "
     "prints them"},
    {"flame", 0, KC_TEXT, &flame, "FILE", "write a flame graph as SVG, in addition or only"},
    {"title", 0, KC_TEXT, &title, "TEXT", "title of the page (the name of the trace)"},
    KC_STEP_OPTION,
    {"stream", 0, KC_TEXT, &streams, "ID[,...]", "only these streams of devices"},
    {"rules", 0, KC_TEXT, &rules, "FILE",
     "more rules for names of kernels: docs/reference/kernel-rules.md"},
    {"row-limit", 0, KC_NUMBER, &row_limit, "N", "show N rows of each table (5000)"},
    {"activity-limit", 0, KC_NUMBER, &activity_limit, "N",
     "omit the timeline if there are more activities (2000000)"},
    {"threads", 0, KC_NUMBER, &threads, "N", "use N threads; the page does not depend on it"},
    KC_READING_OPTIONS,
};
static const kc_options options = {
    "report",
    "TRACE... -o FILE | --text [options]",
    "Write findings, all tables and the timeline as one HTML page without external resources:\n"
    "it opens from the disk, and can be sent to others. Several files, and those in a\n"
    "directory, are ranks.\n"
    "Example: ckineto report trace.json -o report.html",
    option_list,
    KB_COUNT(option_list),
    false};

/* Refuses combinations of options that exclude each other, before any trace is read. */
static kineto_status check_report_options(void)
{
    if (output && text)
        return kc_usage_error("report", "-o cannot be used with --text");
    if (!output && !text && !flame)
        return kc_usage_error("report", "no output given, for example -o report.html or --text");
    if (before && !output)
        return kc_usage_error("report", "--before needs -o; 'ckineto diff' prints differences");
    if (width && (width < KC_MIN_WIDTH || width > KC_MAX_WIDTH))
        return kc_usage_error("report", "--width is from %d to %d, not %llu", KC_MIN_WIDTH,
                              KC_MAX_WIDTH, (unsigned long long)width);
    return KINETO_OK;
}

/* Page, text and flame graph are made one after the other; each reads the traces again.
 * is_read distinguishes errors of the input from those of the output. */
int kc_report(int argc, char **argv)
{
    int operands;
    kineto_error err = {0};
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("report", 0);
    if (!status && !operands)
        status = kc_usage_error("report", "no trace given");
    if (!status)
        status = check_report_options();
    const char *written[] = {output, flame};
    if (!status)
        status = kc_check_outputs("report", argv + 1, operands, written, KB_COUNT(written), false);
    if (!status && before)
        status = kc_check_outputs("report", &(char *){(char *)(uintptr_t)before}, 1, written,
                                  KB_COUNT(written), false);
    if (status)
        return KC_EXIT_USAGE;
    bool is_read = true;
    kc_report_page page = {.paths = argv + 1,
                           .count = operands,
                           .title = title,
                           .before = before,
                           .row_limit = row_limit,
                           .activity_limit = activity_limit,
                           .analyze = {.size = sizeof page.analyze,
                                       .streams = streams,
                                       .rules = rules,
                                       .step_pattern = kc_step_pattern,
                                       .threads = (uint32_t)KB_MIN(threads, (uint64_t)UINT32_MAX)},
                           .is_read = &is_read};
    if (text)
        status = kc_report_print_text(&page, width, stdout, &err);
    if (output && !status)
        status = kc_report_save_page(&page, output, &err);
    if (flame && !status)
        status = kc_report_save_flame(&page, flame, &err);
    if (status)
        kc_complain_of("report", &err);
    return kc_finish_stdout("report", kc_exit_of(status, is_read));
}
