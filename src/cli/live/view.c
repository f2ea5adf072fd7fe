/* Makes the lines of a live view: a head, then tables of threads, sampled functions, ranges and calls, devices
 * and counters. The rows of the terminal are divided among the tables that have something to show. */
#include "cli/live/view.h"
#include "cli/print.h"
#include "cli/summary/summary.h"
#include "trace/trace.h"

const char *const kc_view_sorts[KC_SORT_COUNT] = {"running", "waiting", "blocked", "name"};

#define HEAD_ROWS  2u
#define MIN_ROWS   3u  /* of a table: a blank line, its heading, one row */
#define MANY_ROWS  12u /* of a table where the number of rows is not limited */
#define NAME_WIDTH 40u

typedef struct live_view {
    const kineto_trace *trace;
    const kc_view_options *options;
    FILE *out;
    kc_summary summary;
    kc_counters counters;
    ka_watched_thread *threads; /* those of the summary, sorted as asked for */
    ka_sampled *functions;
} live_view;

/* One table: how many rows it has, and how one of them is written. */
typedef struct view_table {
    const char *heading;
    size_t (*count)(const live_view *v);
    void (*put)(const live_view *v, size_t row);
} view_table;

static double percent_of(int64_t ns, int64_t all_ns)
{
    return all_ns > 0 ? 100.0 * (double)ns / (double)all_ns : 0;
}

/* ---- threads --------------------------------------------------------------------------------- */

static int compare_live_threads(const void *left, const void *right, void *context)
{
    const kc_view_sort *sort = context;
    const ka_watched_thread *a = left, *b = right;
    if (*sort == KC_SORT_NAME) {
        int by_bytes = memcmp(a->name.data, b->name.data, KB_MIN(a->name.size, b->name.size));
        return by_bytes ? by_bytes : KB_COMPARE(a->name.size, b->name.size);
    }
    int64_t x = a->ns[*sort], y = b->ns[*sort];
    return x != y ? KB_COMPARE(y, x) : KB_COMPARE(a->track, b->track);
}

static size_t count_threads(const live_view *v) { return v->summary.watched.threads.count; }

/* A bar of ten places: '=' running, '.' waiting for a CPU. */
static void put_bar(FILE *out, double running, double waiting)
{
    int run = (int)(running / 10 + 0.5), wait = (int)((running + waiting) / 10 + 0.5) - run;
    for (int i = 0; i < 10; i++)
        fputc(i < run ? '=' : i < run + wait ? '.' : ' ', out);
}

static void put_thread(const live_view *v, size_t row)
{
    const ka_watched_thread *t = &v->threads[row];
    double share[KA_STATE_COUNT];
    for (size_t i = 0; i < KA_STATE_COUNT; i++)
        share[i] = percent_of(t->ns[i], v->options->interval_ns);
    kc_put_name(v->out, t->name, NAME_WIDTH);
    fprintf(v->out, " %8.1f %8.1f %8.1f  ", share[0], share[1], share[2]);
    put_bar(v->out, share[0], share[1]);
}

/* ---- functions ------------------------------------------------------------------------------- */

static int compare_totals(const void *left, const void *right)
{
    const ka_sampled *a = left, *b = right;
    return a->total_ns != b->total_ns ? KB_COMPARE(b->total_ns, a->total_ns)
                                      : KB_COMPARE(a->name, b->name);
}

static size_t count_functions(const live_view *v) { return v->summary.watched.of_all.count; }

static void put_function(const live_view *v, size_t row)
{
    const ka_sampled *f = &v->functions[row];
    kc_put_name(v->out, kineto_trace_string(v->trace, f->name), NAME_WIDTH);
    fprintf(v->out, " %8.1f %8.1f", percent_of(f->self_ns, v->options->interval_ns),
            percent_of(f->total_ns, v->options->interval_ns));
}

static size_t count_blocked(const live_view *v) { return v->summary.watched.blocked_of_all.count; }

static void put_blocked(const live_view *v, size_t row)
{
    const ka_blocked *b = &v->summary.watched.blocked_of_all.data[row];
    kc_put_name(v->out, ka_watched_text(&v->summary.watched, b->function), NAME_WIDTH);
    fprintf(v->out, " %8s %12s %12s", kc_count(b->count).s, kb_duration(b->ns).s,
            kb_duration(b->ns / (int64_t)KB_MAX(b->count, 1u)).s);
}

/* ---- ranges, devices, counters --------------------------------------------------------------- */

static void put_stat(const live_view *v, const kc_stat *s)
{
    kc_put_name(v->out, kineto_trace_string(v->trace, s->name_id), NAME_WIDTH);
    fprintf(v->out, " %8s %12s %12s", kc_count(s->count).s, kb_duration(s->total_ns).s,
            kb_duration(kc_mean_ns(s)).s);
}

static size_t count_host(const live_view *v) { return v->summary.host.count; }

static void put_host(const live_view *v, size_t row) { put_stat(v, &v->summary.host.data[row]); }

static size_t count_kernels(const live_view *v) { return v->summary.kernels.count; }

static void put_kernel(const live_view *v, size_t row) { put_stat(v, &v->summary.kernels.data[row]); }

static size_t count_devices(const live_view *v) { return v->summary.devices.count; }

static void put_device(const live_view *v, size_t row)
{
    const kc_device *d = &v->summary.devices.data[row];
    kc_put_process(v->out, v->trace, d->process);
    fprintf(v->out, ": %.1f %%, %s %s", percent_of(d->busy_ns, v->options->interval_ns),
            kc_count(d->count).s, kc_noun(d->count, "kernel or copy", "kernels, copies and memsets"));
}

static size_t count_counters(const live_view *v) { return v->counters.list.count; }

static void put_counter(const live_view *v, size_t row)
{
    const kc_counter *c = &v->counters.list.data[row];
    kc_put_name(v->out, kineto_trace_string(v->trace, c->name_id), NAME_WIDTH);
    fputc(' ', v->out);
    kc_put_name(v->out, c->series, 16);
    fprintf(v->out, " %12g ", c->last);
    kc_put_name(v->out, c->unit, 0);
}

static const view_table view_tables[] = {
    {"threads                                   running  waiting  blocked  [% of the interval]",
     count_threads, put_thread},
    {"functions, sampled                           self    total  [% of one CPU]", count_functions,
     put_function},
    {"threads blocked in                          count        total         mean", count_blocked,
     put_blocked},
    {"ranges and calls                            count        total         mean", count_host, put_host},
    {"kernels                                     count        total         mean", count_kernels,
     put_kernel},
    {"devices: time with kernels, copies or memsets  [% of the interval]", count_devices, put_device},
    {"counters, newest value", count_counters, put_counter},
};

/* ---- the whole ------------------------------------------------------------------------------- */

static int64_t sum_running_ns(const live_view *v)
{
    int64_t sum = 0;
    for (size_t i = 0; i < v->summary.watched.threads.count; i++)
        sum = kc_sum_ns(sum, v->summary.watched.threads.data[i].ns[0]);
    return sum;
}

static void put_head(const live_view *v)
{
    const kc_view_options *o = v->options;
    uint64_t lost = kineto_trace_lost(v->trace);
    if (o->is_paused)
        fputs("PAUSED  ", v->out);
    fprintf(v->out, "%s", kb_duration((int64_t)o->passed_ns).s);
    if (count_threads(v))
        fprintf(v->out, "  CPU %.0f %% of %u00 %%, %zu threads",
                percent_of(sum_running_ns(v), o->interval_ns), kb_os_cpus(), count_threads(v));
    if (lost)
        fprintf(v->out, "  %s lost", kc_count(lost).s);
    fputs("  ", v->out);
    kc_put_name(v->out, kb_string(o->title), 0); /* last: a narrow terminal cuts it off */
    fputc('\n', v->out);
    if (o->keys)
        fprintf(v->out, "%s; threads by: %s\n", o->keys, kc_view_sorts[o->sort]);
}

/* Rows for each table, without its heading: first one for each that has any, then in turn. */
static void divide_rows(const live_view *v, size_t rows, size_t shares[KB_COUNT(view_tables)])
{
    size_t wanted[KB_COUNT(view_tables)];
    for (size_t i = 0; i < KB_COUNT(view_tables); i++) {
        wanted[i] = view_tables[i].count(v);
        shares[i] = wanted[i] && rows >= MIN_ROWS;
        rows -= shares[i] ? MIN_ROWS : 0;
    }
    for (bool is_given = true; rows && is_given;) {
        is_given = false;
        for (size_t i = 0; i < KB_COUNT(view_tables) && rows; i++)
            if (shares[i] && shares[i] < wanted[i]) {
                shares[i]++;
                rows--;
                is_given = true;
            }
    }
}

static void put_tables(const live_view *v)
{
    size_t shares[KB_COUNT(view_tables)], head = HEAD_ROWS, rows = v->options->rows;
    divide_rows(v, rows > head ? rows - head : MANY_ROWS * KB_COUNT(view_tables), shares);
    for (size_t i = 0; i < KB_COUNT(view_tables); i++) {
        if (!shares[i])
            continue;
        fprintf(v->out, "\n%s\n", view_tables[i].heading);
        for (size_t row = 0; row < shares[i]; row++) {
            view_tables[i].put(v, row);
            fputc('\n', v->out);
        }
    }
    if (!count_threads(v) && !count_host(v) && !count_devices(v))
        fputs("\nnothing was recorded in this interval\n", v->out);
}

/* Copy text, with lines cut to the terminal's width. */
static void put_cut_lines(const char *text, size_t columns, FILE *out)
{
    for (; *text; text += *text == '\n') {
        size_t size = strcspn(text, "\n");
        kineto_string line = {text, size};
        for (size_t at = 0, used = 0; at < size;) {
            size_t bytes = KB_MAX(kc_printable_bytes(line, at), 1u);
            used += kc_character_columns(text + at, bytes);
            if (columns && used > columns)
                break;
            fwrite(text + at, 1, bytes, out);
            at += bytes;
        }
        fputc('\n', out);
        text += size;
    }
}

static void write_lines(live_view *v)
{
    char *text;
    size_t size;
    FILE *out = v->out;
    kc_view_sort sort = v->options->sort;
    v->threads = v->summary.watched.threads.data;
    v->functions = v->summary.watched.of_all.data;
    if (count_threads(v))
        qsort_r(v->threads, count_threads(v), sizeof *v->threads, compare_live_threads, &sort);
    if (v->options->by_total && count_functions(v))
        qsort(v->functions, count_functions(v), sizeof *v->functions, compare_totals);
    v->out = open_memstream(&text, &size);
    if (!v->out)
        return;
    put_head(v);
    put_tables(v);
    if (fclose(v->out) == 0)
        put_cut_lines(text, v->options->columns, out);
    free(text);
}

kineto_status kc_view_write(const kineto_trace *trace, const kc_view_options *options, FILE *out,
                            kineto_error *err)
{
    live_view v = {.trace = trace, .options = options, .out = out};
    kineto_status status = kc_summary_make(trace, &v.summary, err);
    if (status)
        return status;
    status = kc_counters_make(trace, &v.counters, err);
    if (status == KINETO_OK)
        write_lines(&v);
    kc_counters_free(&v.counters);
    kc_summary_free(&v.summary);
    return status;
}
