/* ckineto report: findings, tables and the timeline of a trace as one HTML page, or as text. The
 * report itself is made by src/cli/report, which `view` uses as well. */
#include "analyze/saved/facts_paths.h"
#include "cli/report/report.h"
#include "cli/open_many.h"
#include "cli/written.h"
#include "cli/style.h"
#include "export/report.h"

#include <unistd.h>

static const char *output, *title, *streams, *rules, *before, *flame;
static uint64_t row_limit, activity_limit, threads, width;
static bool text, quiet;
static const kc_option option_list[] = {
    {"output", 'o', KC_TEXT, &output, "FILE", "the page (NAME.html); - is the standard output"},
    {"text", 't', KC_FLAG, &text, NULL, "print text with bars on the standard output instead"},
    {"width", 0, KC_NUMBER, &width, "N",
     "columns of the text, 60 to 400 (0: those of the terminal, or 100)"},
    {"before", 'b', KC_TEXT, &before, "TRACE",
     "compare with this trace, no directory: the page gets a part\nwith the differences, as 'ckineto diff' "
     "prints them"},
    {"flame", 0, KC_TEXT, &flame, "FILE", "write a flame graph as SVG, in addition or only"},
    {"title", 0, KC_TEXT, &title, "TEXT", "title of the page (the name of the trace)"},
    KC_STEP_OPTION,
    {"stream", 0, KC_TEXT, &streams, "ID[,...]", "only these streams of devices"},
    {"rules", 0, KC_TEXT, &rules, "FILE",
     "more rules for names of kernels: docs/reference/kernel-rules.md"},
    KC_TOP_OPTION(row_limit, "5000"),
    KC_ALIAS_OPTION("row-limit", "top"),
    {"activity-limit", 0, KC_NUMBER, &activity_limit, "N",
     "omit the timeline if there are more activities (2000000)"},
    {"threads", 0, KC_NUMBER, &threads, "N", "use N threads; the page does not depend on it"},
    KC_COLOR_OPTION,
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    KC_QUIET_OPTION(quiet),
};
static const kc_options options = {
    "report",
    "TRACE... [options]",
    "Write findings, all tables and the timeline as one HTML page without external resources:\n"
    "it opens from the disk, and can be sent to others. Without -o the page of NAME.json is\n"
    "NAME.html in the current directory. Several files, and those in a directory, are ranks.",
    "ckineto report trace.json\n"
    "ckineto report run/ -o report.html",
    option_list,
    KB_COUNT(option_list),
    false};

/* Refuses combinations of options that exclude each other, before any trace is read. */
static kineto_status check_report_options(void)
{
    if (output && text)
        return kc_usage_error("report", "-o cannot be used with --text");
    if (before && text)
        return kc_usage_error("report", "--before is for a page; 'ckineto diff' prints differences");
    if (width && (width < KC_MIN_WIDTH || width > KC_MAX_WIDTH))
        return kc_usage_error("report", "--width is from %d to %d, not %llu", KC_MIN_WIDTH,
                              KC_MAX_WIDTH, (unsigned long long)width);
    return KINETO_OK;
}

/* Names of traces and pages are this long at most. */
#define MAX_NAME_BYTES 250

/* Is there a file of this name that is no page of ckineto? It is not replaced without -o. */
static bool is_foreign_file(const char *path)
{
    char head[1024];
    if (access(path, F_OK) != 0)
        return false;
    size_t size = kb_os_read_file(path, head, sizeof head);
    return !size || !memmem(head, size, KE_REPORT_MARK, strlen(KE_REPORT_MARK));
}

/* "dir/step.json.gz" → "step.html", "run/" → "run.html", "-" and ".." → "report.html". */
static kineto_status choose_page_name(const char *trace)
{
    static char name[MAX_NAME_BYTES + sizeof ".html"];
    static const char *const endings[] = {".gz", ".zst", ".json", ".pftrace", ".trace"};
    size_t size = strlen(trace);
    while (size > 1 && trace[size - 1] == '/')
        size--;
    const char *slash = memrchr(trace, '/', size), *begin = slash ? slash + 1 : trace;
    size -= (size_t)(begin - trace);
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        size_t length = strlen(endings[i]);
        if (size > length && memcmp(begin + size - length, endings[i], length) == 0)
            size -= length;
    }
    bool is_name = size && *begin != '.' && *begin != '-' && size <= MAX_NAME_BYTES;
    snprintf(name, sizeof name, "%.*s.html", is_name ? (int)size : 6, is_name ? begin : "report");
    if (is_foreign_file(name))
        return kc_usage_error("report", "%s exists and is no page of ckineto; name the page with -o", name);
    output = name;
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
    if (!status && before && !kc_is_one_file(&(char *){(char *)(uintptr_t)before}, 1))
        status = kc_usage_error("report", "--before names one trace, but %s is a directory; name a trace of it, or compare the "
                                          "directories with 'ckineto diff'", before);
    ka_operands_kind kind = KA_OPERANDS_TRACES;
    if (!status && ka_find_facts(argv + 1, operands, &kind, NULL, &err))
        kind = KA_OPERANDS_TRACES; /* reading them reports it */
    if (!status && kind != KA_OPERANDS_TRACES && (!text || output || flame || before))
        status = kc_usage_error("report", "the timeline of a page and the flame graph need the traces, not their facts; "
                                          "'ckineto analyze' prints what the facts have");
    bool is_chosen_here = !output && !text && (!flame || before);
    if (!status && is_chosen_here)
        status = choose_page_name(argv[1]);
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
    if (output && !status && !quiet && strcmp(output, "-") != 0)
        kc_print_written_page(output);
    if (flame && !status)
        status = kc_report_save_flame(&page, flame, &err);
    if (status)
        kc_complain_of("report", &err);
    return kc_finish_stdout("report", kc_exit_of(status, is_read));
}
