/* ckineto info: a summary of a trace: window, processes, kinds, longest activities, losses. The
 * numbers come from src/cli/summary. Several files are a table instead (info_files.c). */
#include "cli/page.h"
#include "cli/open_many.h"
#include "analyze/saved/facts_file.h"
#include "cli/style.h"
#include "cli/summary/summary.h"

#include "export/export.h"

#include <time.h>

static bool timing;
static const char *rank;
static const kc_option option_list[] = {
    KC_JSON_OPTION,
    {"timing", 't', KC_FLAG, &timing, NULL, "print the reading speed on the standard error"},
    KC_RANK_OPTION(rank),
    KC_READING_OPTIONS,
    KC_COLOR_OPTION,
};
static const kc_options options = {
    "info",
    "[options] TRACE...",
    "Print a summary of a trace of ckineto, Kineto, PyTorch or another tool: its window,\n"
    "processes, devices, the longest activities, and losses. Of several files, or those in a\n"
    "directory: a table with their ranks and hosts, and findings about the set.",
    "ckineto info trace.json\n"
    "ckineto info --json=facts.json run/",
    option_list,
    KB_COUNT(option_list),
    false};

static const char *const flow_names[] = {"unknown", "fwdbwd", "ac2g", "user"};

/* Types that this version does not know are "other". */
static const char *get_flow_name(size_t type)
{
    return type < KB_COUNT(flow_names) ? flow_names[type] : "other";
}

/* ---- text ------------------------------------------------------------------------------------ */

static FILE *page; /* the text, which is wrapped when it is complete */

/* The window, and how far activities reach beyond it. */
static void print_trace_window(const kc_summary *s)
{
    fprintf(page, "  window from %s", kc_format_utc(s->start_ns).s);
    if (s->first_ns < s->start_ns)
        fprintf(page, "; activities begin %s before it",
               kb_duration(kb_length_ns(s->first_ns, s->start_ns)).s);
    if (s->last_ns > s->end_ns)
        fprintf(page, "; activities end %s after it", kb_duration(kb_length_ns(s->end_ns, s->last_ns)).s);
    fputc('\n', page);
}

#define MAX_CATEGORIES 16u
#define MAX_PROCESSES  32u

/* Categories that are not the name of a kind, at most MAX_CATEGORIES: they come from plug-ins
 * and other tools. */
static void print_categories(const kc_summary *s, const kineto_trace *trace)
{
    size_t count = kc_count_shown(s->categories.count, MAX_CATEGORIES);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? " " : "  other categories: ", page);
        kc_put_name(page, kineto_trace_string(trace, s->categories.data[i].name_id), 0);
        fprintf(page, " %s;", kc_count(s->categories.data[i].count).s);
    }
    if (count < s->categories.count)
        fprintf(page, " … and %s more", kc_count(s->categories.count - count).s);
    if (count)
        fputc('\n', page);
}

/* Numbers by kind, steps, and flows by type. */
static void print_kinds(const kc_summary *s, const kineto_trace *trace)
{
    if (s->activities)
        fprintf(page, "  by kind:");
    for (uint32_t k = 0; k <= KINETO_KIND_COUNT; k++)
        if (s->kinds[k])
            fprintf(page, " %s %s;", kineto_kind_name(k), kc_count(s->kinds[k]).s);
    if (s->activities)
        fprintf(page, "\n");
    print_categories(s, trace);
    if (s->steps)
        fprintf(page, "  steps: %s\n", kc_count(s->steps).s);
    for (size_t i = 0; i < KB_COUNT(s->flows); i++)
        if (s->flows[i])
            fprintf(page, "  flows %s: %s\n", get_flow_name(i), kc_count(s->flows[i]).s);
    if (s->dangling_flows)
        fprintf(page, "  flows with one end only: %s\n", kc_count(s->dangling_flows).s);
}

/* Flags of rows that only label a device, as libkineto's "GPU 0" to "GPU 15" do: nothing of it was recorded.
 * NULL: out of memory. */
static uint8_t *find_mere_labels(const kineto_trace *trace, uint32_t *labels)
{
    uint8_t *flags = kt_find_devices(trace);
    for (uint32_t i = 0; flags && i < kineto_trace_process_count(trace); i++) {
        kineto_process p;
        kineto_trace_process(trace, i, &p);
        flags[i] = p.is_device && p.pid != KT_OVERHEAD_NUMBER && !flags[i];
        *labels += flags[i];
    }
    return flags;
}

/* Processes and devices, at most 32, and one line each for those that are folded or mere labels. */
static void print_process_list(const kineto_trace *trace, const kc_folded *folded)
{
    uint32_t labels = 0, tracks = kineto_trace_track_count(trace);
    uint8_t *is_label = find_mere_labels(trace, &labels);
    uint32_t rows = kineto_trace_process_count(trace), count = rows - labels;
    fprintf(page, "  %u %s, %u %s\n", count, kc_noun(count, "process or device", "processes and devices"),
           tracks, kc_noun(tracks, "track", "tracks"));
    uint32_t shown = 0, listed = count - folded->count;
    uint64_t limit = kc_count_shown(listed, MAX_PROCESSES);
    for (uint32_t i = 0; i < rows && shown < limit; i++) {
        if (kc_is_folded(folded, i) || (is_label && is_label[i]))
            continue;
        fputs("    ", page);
        kc_put_process(page, trace, i);
        fputc('\n', page);
        shown++;
    }
    if (listed > shown)
        fprintf(page, "    … and %u more\n", listed - shown);
    if (labels)
        fprintf(page, "    %u more %s, of which nothing was recorded\n", labels,
                kc_noun(labels, "device is labelled", "devices are labelled"));
    free(is_label);
    kc_folded_print(folded, trace, "    ", page);
}

/* Only the keys: values may be long, and can contain command lines and environments. */
static void print_metadata(const kineto_trace *trace)
{
    uint32_t count = kineto_trace_metadata_count(trace);
    for (uint32_t i = 0; i < count; i++) {
        kineto_string key, value;
        kineto_trace_metadata(trace, i, &key, &value);
        fputs(i ? ", " : "\n  header: ", page);
        kc_put_name(page, key, 0);
    }
    if (count)
        fputc('\n', page);
}

/* Everything that is printed about a trace. */
typedef struct trace_info {
    kc_summary summary;
    kc_counters counters;
    kc_memory memory;
} trace_info;

/* The whole text of one trace, in a fixed order: window, kinds, processes, tables, memory,
 * counters, header, losses. */
static void print_info(const char *path, const trace_info *f, const kineto_trace *trace)
{
    const kc_summary *s = &f->summary;
    kc_page whole;
    page = kc_page_begin(&whole, stdout);
    fputs(kc_paint(page, KC_BOLD), page);
    kc_put_name(page, kb_string(path), 0);
    fprintf(page, ":%s %s %s in a window of %s\n", kc_paint(page, KC_PLAIN), kc_count(s->activities).s,
           kc_noun(s->activities, "activity", "activities"),
           kb_duration(kb_length_ns(s->start_ns, s->end_ns)).s);
    if (s->activities)
        print_trace_window(s);
    if (*kt_writer_version(trace))
        fprintf(page, "  written by ckineto %s\n", kt_writer_version(trace));
    print_kinds(s, trace);
    print_process_list(trace, &s->folded);
    kc_summary_tables(s, trace, page);
    kc_memory_print(&f->memory, trace, page);
    if (s->kinds[KINETO_KIND_BLOCKING_CALL])
        kc_locks_print(trace, page);
    kc_counters_print(&f->counters, trace, page);
    print_metadata(trace);
    kc_ledger_print(trace, true, page);
    kc_page_end(&whole);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Numbers by kind, category and type of flow. */
static void put_kind_counts(kb_json *j, const kc_summary *s, const kineto_trace *trace)
{
    kb_json_key_z(j, "kinds");
    kb_json_object_begin(j);
    for (uint32_t k = 0; k <= KINETO_KIND_COUNT; k++)
        if (s->kinds[k])
            kb_json_put_uint(j, kineto_kind_name(k), s->kinds[k]);
    kb_json_object_end(j);
    kb_json_key_z(j, "other_categories");
    kb_json_array_begin(j); /* arbitrary names, which must not be keys */
    for (size_t i = 0; i < s->categories.count; i++) {
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kineto_trace_string(trace, s->categories.data[i].name_id));
        kb_json_put_uint(j, "count", s->categories.data[i].count);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_key_z(j, "flows");
    kb_json_object_begin(j);
    uint64_t other = 0;
    for (size_t i = 0; i < KB_COUNT(s->flows); i++) {
        if (i >= KB_COUNT(flow_names))
            other += s->flows[i];
        else if (s->flows[i])
            kb_json_put_uint(j, get_flow_name(i), s->flows[i]);
    }
    if (other)
        kb_json_put_uint(j, "other", other);
    kb_json_object_end(j);
    kb_json_put_uint(j, "dangling_flows", s->dangling_flows);
    kb_json_put_uint(j, "steps", s->steps);
}

/* The first KC_TOP rows of a table. */
static void put_stat_table(kb_json *j, const char *key, const kc_stat_list *list,
                           const kineto_trace *trace)
{
    kb_json_key_z(j, key);
    kb_json_array_begin(j);
    for (size_t i = 0; i < list->count && i < KC_TOP; i++) {
        const kc_stat *stat = &list->data[i];
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kineto_trace_string(trace, stat->name_id));
        kb_json_put_uint(j, "count", stat->count);
        kb_json_put_int(j, "total_ns", stat->total_ns);
        kb_json_put_int(j, "mean_ns", kc_mean_ns(stat));
        kb_json_put_int(j, "min_ns", stat->min_ns);
        kb_json_put_int(j, "max_ns", stat->max_ns);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* NULL: the process is not a device, or has no work. */
static const kc_device *find_device_stats(const kc_summary *s, uint32_t process)
{
    for (size_t i = 0; i < s->devices.count; i++)
        if (s->devices.data[i].process == process)
            return &s->devices.data[i];
    return NULL;
}

/* All processes; devices also have their busy time. */
static void put_process_array(kb_json *j, const kc_summary *s, const kineto_trace *trace)
{
    uint32_t count = kineto_trace_process_count(trace);
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < count; i++) {
        kineto_process p;
        kineto_trace_process(trace, i, &p);
        const kc_device *d = find_device_stats(s, i);
        kb_json_object_begin(j);
        kb_json_put_bool(j, "device", p.is_device);
        kineto_string text = kt_process_text_of(trace, i);
        if (text.data)
            kb_json_put_string(j, "pid", text);
        else
            kb_json_put_int(j, "pid", p.pid);
        kb_json_put_string(j, "name", p.name);
        kb_json_put_string(j, "label", p.label);
        if (p.rank >= 0)
            kb_json_put_int(j, "rank", p.rank);
        if (d) {
            kb_json_put_uint(j, "activities", d->count);
            kb_json_put_int(j, "busy_ns", d->busy_ns);
            kb_json_put_double(j, "busy_percent", kc_busy_percent(d));
        }
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Keys only, as in the text. */
static void put_metadata_keys(kb_json *j, const kineto_trace *trace)
{
    uint32_t count = kineto_trace_metadata_count(trace);
    kb_json_key_z(j, "metadata_keys");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < count; i++) {
        kineto_string key, value;
        kineto_trace_metadata(trace, i, &key, &value);
        kb_json_string(j, key);
    }
    kb_json_array_end(j);
}

/* The JSON document. */
typedef struct info_document {
    const char *path;
    const trace_info *facts;
    const kineto_trace *trace;
} info_document;

/* The JSON object of one trace. Keys are an interface: they may be added, never renamed. */
static void put_info(kb_json *j, const void *what)
{
    const info_document *all = what;
    const kineto_trace *trace = all->trace;
    const kc_summary *s = &all->facts->summary;
    kb_json_document_begin(j, "ckineto.info/1");
    kb_json_put_string(j, "trace", kb_string(all->path));
    if (*kt_writer_version(trace))
        kb_json_put_string(j, "ckineto_version", kb_string(kt_writer_version(trace)));
    kb_json_put_uint(j, "activities", s->activities);
    kb_json_put_int(j, "window_start_ns", s->start_ns);
    kb_json_put_int(j, "window_end_ns", s->end_ns);
    kb_json_put_uint(j, "tracks", kineto_trace_track_count(trace));
    put_kind_counts(j, s, trace);
    put_process_array(j, s, trace);
    put_stat_table(j, "host", &s->host, trace);
    put_stat_table(j, "python_self", &s->python, trace);
    put_stat_table(j, "kernels", &s->kernels, trace);
    put_stat_table(j, "other_device", &s->other_device, trace);
    kc_threads_json(&s->watched, j);
    kc_memory_json(&all->facts->memory, trace, j);
    kc_counters_json(&all->facts->counters, trace, j);
    kb_json_put_uint(j, "lost", kineto_trace_lost(trace));
    ke_put_ledger(j, trace);
    put_metadata_keys(j, trace);
    kb_json_object_end(j);
}

/* ---- timing ---------------------------------------------------------------------------------- */

static double read_time_s(void) { return (double)kb_monotonic_ns() / 1e9; }

/* Order, lanes, parents and links, which analyses need and which are computed on first use. */
static void derive_all(const kineto_trace *trace)
{
    (void)kineto_trace_track_rows(trace, 0);
    (void)kineto_trace_parent(trace, 0);
    (void)kineto_trace_launch(trace, 0);
    (void)kineto_trace_time_order(trace);
}

/* Speed in text and in activities. */
static void print_rate(const char *what, double seconds, const kineto_trace *trace)
{
    double bytes = (double)kineto_trace_text_bytes(trace);
    double rows = (double)kineto_trace_count(trace);
    fprintf(stderr, "%-32s %8.3f s %8.2f GB/s of text %8.2f M activities/s\n", what, seconds,
            bytes / seconds / 1e9, rows / seconds / 1e6);
}

/* Open the trace and, with --timing, print the speed of reading and of preparing the analysis. */
static kineto_status open_timed(char *const *paths, int count, int32_t of_rank,
                                kineto_trace **trace, kineto_error *err)
{
    double start = read_time_s();
    kineto_status status = kc_open_traces(paths, count, of_rank, trace, err);
    double opened = read_time_s();
    if (status != KINETO_OK || !timing)
        return status;
    derive_all(*trace);
    double derived = read_time_s();
    print_rate("read", opened - start, *trace);
    print_rate("order, lanes, parents, links", derived - opened, *trace);
    print_rate("total", derived - start, *trace);
    return status;
}

/* ---- the verb -------------------------------------------------------------------------------- */

/* Opens, summarises and prints one trace. Returns KC_EXIT_USAGE if it could not be read,
 * KC_EXIT_FAILURE for other errors. */
static int show_info(char *const *paths, int count, int32_t of_rank)
{
    const char *path = paths[0];
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    trace_info f = {.summary = {0}};
    kineto_status status = open_timed(paths, count, of_rank, &trace, &err);
    if (status == KINETO_OK)
        status = kc_summary_make(trace, &f.summary, &err);
    if (status == KINETO_OK)
        status = kc_counters_make(trace, &f.counters, &err);
    if (status == KINETO_OK && f.summary.kinds[KINETO_KIND_MEMORY])
        status = kc_memory_make(trace, &f.memory, &err);
    if (status == KINETO_OK && kc_json_path)
        status = kc_put_json(put_info, &(info_document){path, &f, trace}, &err);
    else if (status == KINETO_OK)
        print_info(path, &f, trace);
    if (status)
        kc_complain_of("info", &err);
    kc_memory_free(&f.memory);
    kc_counters_free(&f.counters);
    kc_summary_free(&f.summary);
    bool is_read = trace != NULL;
    kineto_trace_release(trace);
    return kc_finish_stdout("info", kc_exit_of(status, is_read));
}

/* One file, or one rank of several, is summarised; other sets of files become a table. */
int kc_info(int argc, char **argv)
{
    int operands;
    int32_t of_rank = -1;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("info", 0);
    if (status == KINETO_OK && !operands)
        status = kc_usage_error("info", "no trace given");
    if (status == KINETO_OK)
        status = kc_parse_rank("info", rank, &of_rank);
    bool table = of_rank < 0 && (!kc_is_one_file(argv + 1, operands) || ka_is_facts_file(argv[1]));
    if (status == KINETO_OK && table && timing)
        status = kc_usage_error("info", "--timing needs exactly one trace");
    if (status == KINETO_OK)
        status = kc_check_outputs("info", argv + 1, operands, &kc_json_path, 1, false);
    if (status)
        return KC_EXIT_USAGE;
    return table ? kc_info_files(argv + 1, operands)
                 : show_info(argv + 1, operands, of_rank);
}
