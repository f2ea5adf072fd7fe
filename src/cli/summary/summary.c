/* A trace in numbers: one pass over all activities in order of time adds up totals by name, busy
 * times of devices and kinds; then the ledger. Tables are printed with KC_TOP rows. */
#include "cli/summary/summary.h"
#include "cli/style.h"
#include "format/format.h"
#include "session/session.h"
#include "trace/model/steps.h"
#include "trace/transform/merged_part.h"

/* ---- counting -------------------------------------------------------------------------------- */

typedef enum summary_table {
    TABLE_NONE,
    TABLE_HOST,
    TABLE_PYTHON, /* by self time, because functions may be recursive */
    TABLE_KERNELS,
    TABLE_OTHER,
    TABLE_COUNT
} summary_table;

typedef struct summary_build {
    kc_summary *s;
    const kineto_trace *trace;
    /* name id → index in the table */
    kb_map by_name[TABLE_COUNT];
    /* string id → 1 + index in the list; 0: the category of a kind */
    kb_map categories;
    /* index in devices, or UINT32_MAX */
    uint32_t *track_device;
    kt_step_list step_rows;
    bool failed;
} summary_build;

/* The table of an activity; TABLE_NONE for activities that are derived from others or have no
 * duration. */
static summary_table choose_table(const kineto_activity *a, bool on_device)
{
    if (a->form != KINETO_FORM_SLICE || a->kind == KINETO_KIND_GPU_USER_ANNOTATION ||
        a->kind == KINETO_KIND_OVERHEAD)
        return TABLE_NONE;
    if (a->kind == KINETO_KIND_CONCURRENT_KERNEL)
        return TABLE_KERNELS;
    if (on_device || a->kind == KINETO_KIND_GPU_MEMCPY || a->kind == KINETO_KIND_GPU_MEMSET)
        return TABLE_OTHER;
    return a->kind == KINETO_KIND_PYTHON_FUNCTION ? TABLE_PYTHON : TABLE_HOST;
}

/* Not for TABLE_NONE. */
static kc_stat_list *get_table_list(kc_summary *s, summary_table t)
{
    kc_stat_list *const lists[TABLE_COUNT] = {[TABLE_HOST] = &s->host,
                                              [TABLE_PYTHON] = &s->python,
                                              [TABLE_KERNELS] = &s->kernels,
                                              [TABLE_OTHER] = &s->other_device};
    return lists[t];
}

/* The map from names to rows is extended as needed; a failure sets c->failed. */
static void add_to_stat(summary_build *c, summary_table t, const kineto_activity *a, int64_t ns)
{
    kc_stat_list *list = get_table_list(c->s, t);
    bool created = false;
    uint64_t *at = kb_map_insert(&c->by_name[t], a->name_id, list->count, &created);
    if (!at || (created && !kb_vec_push(list, (kc_stat){a->name_id, 0, 0, ns, ns}))) {
        c->failed = true;
        return;
    }
    KB_ASSERT(*at < list->count);
    kc_stat *stat = &list->data[*at];
    stat->count++;
    stat->total_ns = kc_sum_ns(stat->total_ns, ns);
    stat->min_ns = KB_MIN(stat->min_ns, ns);
    stat->max_ns = KB_MAX(stat->max_ns, ns);
}

/* A Python function is in the calls of libc in which it waits: their time stays its own. */
static void add_blocked_time(summary_build *c, kineto_row row)
{
    kineto_activity around = {.kind = KINETO_KIND_BLOCKING_CALL};
    int64_t ns = kineto_trace_self_ns(c->trace, row);
    while (around.kind == KINETO_KIND_BLOCKING_CALL && (row = kineto_trace_parent(c->trace, row)) != KINETO_NO_ROW)
        kineto_trace_get(c->trace, row, &around);
    const uint64_t *at = around.kind == KINETO_KIND_PYTHON_FUNCTION
                             ? kb_map_find(&c->by_name[TABLE_PYTHON], around.name_id)
                             : NULL;
    if (at)
        c->s->python.data[*at].total_ns = kc_sum_ns(c->s->python.data[*at].total_ns, ns);
}

/* Activities come in order of their start, so the union of intervals grows only at its end. */
static void add_busy_time(kc_device *d, const kineto_activity *a)
{
    int64_t from = KB_MAX(a->start_ns, d->busy_until_ns);
    d->count++;
    d->from_ns = KB_MIN(d->from_ns, a->start_ns);
    d->to_ns = KB_MAX(d->to_ns, a->end_ns);
    if (a->end_ns > from) {
        d->busy_ns = kc_sum_ns(d->busy_ns, kb_length_ns(from, a->end_ns));
        d->busy_until_ns = a->end_ns;
    }
}

/* Each category is parsed once. */
static void count_category(summary_build *c, uint32_t category)
{
    bool created = false;
    uint64_t *at = kb_map_insert(&c->categories, category, 0, &created);
    kineto_string name = kineto_trace_string(c->trace, category);
    if (at && created && name.size && kb_kind_parse(name) < 0) {
        *at = c->s->categories.count + 1;
        c->failed |= !kb_vec_push(&c->s->categories, (kc_category){category, 0});
    }
    c->failed |= !at;
    if (!c->failed && *at)
        c->s->categories.data[*at - 1].count++;
}

/* By kind, category, table and device. */
static void count_activity(summary_build *c, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(c->trace, row, &a);
    c->s->kinds[KB_MIN(a.kind, (uint32_t)KINETO_KIND_COUNT)]++;
    count_category(c, a.category);
    if (a.kind == KINETO_KIND_THREAD_STATE || a.kind == KINETO_KIND_CPU_SAMPLE)
        return; /* see threads.c */
    uint32_t device = c->track_device[a.track];
    summary_table t = choose_table(&a, device != UINT32_MAX);
    if (t == TABLE_NONE)
        return;
    c->s->first_ns = KB_MIN(c->s->first_ns, a.start_ns);
    c->s->last_ns = KB_MAX(c->s->last_ns, a.end_ns);
    add_to_stat(c, t, &a,
                t == TABLE_PYTHON ? kineto_trace_self_ns(c->trace, row)
                                  : kb_length_ns(a.start_ns, a.end_ns));
    if (a.kind == KINETO_KIND_BLOCKING_CALL)
        add_blocked_time(c, row);
    if (device != UINT32_MAX && kt_kind_is_work(a.kind))
        add_busy_time(&c->s->devices.data[device], &a);
    c->s->steps += t == TABLE_HOST && kt_step_list_find(&c->step_rows, row, a.name_id);
}

/* A package of the host's processor, which has counters of energy (src/cpu/energy.c), but does no work of a device. */
static bool is_processor(const kineto_process *p) { return kb_string_is(p->label, "CPU"); }

/* Fill track_device and the list of devices. False: out of memory. */
static bool map_tracks_to_devices(summary_build *c)
{
    uint32_t tracks = kineto_trace_track_count(c->trace);
    kb_map by_process = {0};
    bool ok = true;
    c->track_device = malloc((tracks + 1u) * sizeof *c->track_device);
    for (uint32_t i = 0; i < tracks && c->track_device && ok; i++) {
        kineto_track track;
        kineto_process process;
        kineto_trace_track(c->trace, i, &track);
        kineto_trace_process(c->trace, track.process, &process);
        c->track_device[i] = UINT32_MAX;
        if (!process.is_device || is_processor(&process))
            continue;
        bool created = false;
        uint64_t *at = kb_map_insert(&by_process, track.process, c->s->devices.count, &created);
        ok = at && (!created ||
                    kb_vec_push(&c->s->devices,
                                (kc_device){track.process, 0, 0, INT64_MIN, INT64_MAX, INT64_MIN}));
        if (ok)
            c->track_device[i] = (uint32_t)*at;
    }
    kb_map_free(&by_process);
    return ok && c->track_device && kt_step_list_make(c->trace, NULL, true, &c->step_rows);
}

/* Each rank of a merged trace has its own window, because their clocks are not aligned. */
static void set_device_windows(const kineto_trace *trace, kc_summary *s)
{
    for (size_t i = 0; i < s->devices.count; i++) {
        kc_device *d = &s->devices.data[i];
        kineto_process process;
        kt_merged_part part;
        kineto_trace_process(trace, d->process, &process);
        bool is_part = d->count && kt_merged_part_of(trace, process.rank, &part);
        d->from_ns = KB_MIN(d->from_ns, is_part ? part.start_ns : s->first_ns);
        d->to_ns = KB_MAX(d->to_ns, is_part ? part.end_ns : s->last_ns);
    }
}

static int compare_stats(const void *left, const void *right)
{
    const kc_stat *a = left, *b = right;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    return a->name_id < b->name_id ? -1 : a->name_id > b->name_id;
}

/* By type, and those with an unrecorded end. */
static void count_flows(kc_summary *s, const kineto_trace *trace)
{
    uint64_t count = kineto_trace_flow_count(trace);
    for (uint64_t i = 0; i < count; i++) {
        kineto_flow f;
        kineto_trace_flow(trace, i, &f);
        s->flows[KB_MIN(f.type, (uint32_t)KB_COUNT(s->flows) - 1)]++;
        s->dangling_flows += f.from == KINETO_NO_ROW || f.to == KINETO_NO_ROW;
    }
}

/* One pass over all activities in order of time; on failure *out is freed. */
kineto_status kc_summary_make(const kineto_trace *trace, kc_summary *out, kineto_error *err)
{
    memset(out, 0, sizeof *out);
    summary_build c = {.s = out, .trace = trace};
    out->activities = kineto_trace_count(trace);
    kineto_trace_window(trace, &out->start_ns, &out->end_ns);
    out->first_ns = out->start_ns;
    out->last_ns = out->end_ns;
    const kineto_row *order = kineto_trace_time_order(trace);
    c.failed = !map_tracks_to_devices(&c) || (!order && out->activities) ||
               !ka_watched_make(trace, &out->watched) ||
               !kc_folded_make(trace, &out->watched, &out->folded);
    for (uint64_t i = 0; i < out->activities && !c.failed; i++)
        count_activity(&c, order[i]);
    for (summary_table t = TABLE_HOST; t < TABLE_COUNT; t++) {
        kc_stat_list *list = get_table_list(out, t);
        if (list->count)
            qsort(list->data, list->count, sizeof *list->data, compare_stats);
        kb_map_free(&c.by_name[t]);
    }
    kb_map_free(&c.categories);
    set_device_windows(trace, out);
    count_flows(out, trace);
    free(c.track_device);
    kt_step_list_free(&c.step_rows);
    if (!c.failed)
        return KINETO_OK;
    kc_summary_free(out);
    return kb_fail_memory(err, NULL);
}

void kc_summary_free(kc_summary *s)
{
    kb_vec_free(&s->host);
    kb_vec_free(&s->python);
    ka_watched_free(&s->watched);
    kc_folded_free(&s->folded);
    kb_vec_free(&s->kernels);
    kb_vec_free(&s->other_device);
    kb_vec_free(&s->devices);
    kb_vec_free(&s->categories);
}

double kc_busy_percent(const kc_device *device)
{
    int64_t all = kb_length_ns(device->from_ns, device->to_ns);
    return all > 0 ? 100.0 * (double)device->busy_ns / (double)all : 0.0;
}

int64_t kc_mean_ns(const kc_stat *s)
{
    KB_ASSERT(s->count > 0);
    int64_t count = (int64_t)s->count, rest = s->total_ns % count;
    return s->total_ns / count + (rest >= count - rest);
}

uint32_t kc_shown_rows = KC_TOP;

/* ---- showing --------------------------------------------------------------------------------- */

void kc_put_table_head(FILE *out, const char *title, const char *a, const char *b, const char *c)
{
    fputs("\n  ", out);
    kc_put_styled(out, KC_BOLD, "%-40s %10s %12s %12s", title, a, b, c);
    fputc('\n', out);
}

void kc_put_more(FILE *out, uint64_t count)
{
    fputs("  ", out);
    kc_put_styled(out, KC_DIM, "… and %s more", kc_count(count).s);
    fputc('\n', out);
}

/* The first KC_TOP rows, and the number of the others. */
static void print_stat_table(const char *title, const kc_stat *stats, size_t count,
                             const kineto_trace *trace, FILE *out)
{
    if (count == 0)
        return;
    kc_put_table_head(out, title, "count", "total", "mean");
    uint64_t shown = kc_count_shown(count, kc_shown_rows);
    for (size_t i = 0; i < shown; i++) {
        char buffer[256];
        fputs("  ", out);
        kc_put_name(out, kb_drop_address(kineto_trace_string(trace, stats[i].name_id), buffer, sizeof buffer), 40);
        fprintf(out, " %10s %12s %12s\n", kc_count(stats[i].count).s,
                kb_duration(stats[i].total_ns).s, kb_duration(kc_mean_ns(&stats[i])).s);
    }
    if (count > shown)
        kc_put_more(out, count - shown);
}

/* Other tools write texts in place of pids, and mostly the same text as the name, which is then
 * printed once. */
void kc_put_process(FILE *out, const kineto_trace *trace, uint32_t process)
{
    kineto_process p;
    kineto_trace_process(trace, process, &p);
    kineto_string text = kt_process_text_of(trace, process);
    fputs(p.is_device && p.pid != KT_OVERHEAD_NUMBER ? "device" : "process", out);
    if (!text.data)
        fprintf(out, " %lld", (long long)p.pid);
    const kineto_string names[] = {kb_string_equal(text, p.name) ? kb_string("") : text, p.name};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (names[i].size) {
            fputc(' ', out);
            kc_put_name(out, names[i], 0);
        }
    if (p.label.size) {
        fputs(" (", out);
        kc_put_name(out, p.label, 0);
        fputc(')', out);
    }
    char rank[24];
    snprintf(rank, sizeof rank, "rank %d", p.rank);
    if (p.rank >= 0 &&
        !kb_string_contains(p.label, rank)) /* the label of a merged trace contains it */
        fprintf(out, ", %s", rank);
}

/* Devices without work are omitted. */
static void print_devices(const kc_summary *s, const kineto_trace *trace, FILE *out)
{
    const char *indent = "\n  ";
    for (size_t i = 0; i < s->devices.count; i++) {
        const kc_device *d = &s->devices.data[i];
        if (!d->count)
            continue;
        fputs(indent, out);
        indent = "  ";
        kc_put_process(out, trace, d->process);
        fprintf(out, ": %s %s %s, %.1f %% of the recorded %s\n", kc_count(d->count).s,
                kc_noun(d->count, "kernel or copy covers", "kernels, copies and memsets cover"),
                kb_duration(d->busy_ns).s, kc_busy_percent(d), kb_duration(kb_length_ns(d->from_ns, d->to_ns)).s);
    }
}

/* "LOST" marks lines that count lost events. */
static void print_ledger_line(const kineto_ledger_line *line, FILE *out)
{
    bool is_lost = line->is_loss && line->count;
    fputs("  ", out);
    if (is_lost)
        kc_put_styled(out, KC_RED, "LOST");
    fputs(is_lost ? "  " : "      ", out);
    kc_put_name(out, line->source, 0);
    fputs(": ", out);
    kc_put_name(out, line->reason, 0);
    fprintf(out, ": %s", kc_count(line->count).s);
    if (line->detail.size) {
        fputs(" (", out);
        kc_put_name(out, line->detail, 0);
        fputc(')', out);
    }
    fputc('\n', out);
}

/* Processes were not recorded, so the number of their events is unknown. */
static bool has_unrecorded_processes(const kineto_trace *trace)
{
    return kt_ledger_has(trace, NULL, kf_reason_text(KF_REASON_NOT_ENDED)) ||
           ks_children_has_unrecorded(trace);
}

/* A headline, then the lines. Lines with a count of 0 are shown only with `all`. */
void kc_ledger_print(const kineto_trace *trace, bool all, FILE *out)
{
    uint32_t count = kineto_trace_ledger_count(trace);
    uint64_t processes = kt_ledger_lost(trace, KT_LOSS_PROCESSES), lost = kineto_trace_lost(trace);
    const char *headline =
        has_unrecorded_processes(trace)
            ? "no recorded event was lost; processes that were not recorded are listed here\n"
            : "nothing was lost\n";
    fputs("\n  ", out);
    kc_put_styled(out, KC_BOLD, "ledger:");
    fprintf(out, " %s", lost || processes ? "" : headline);
    if (kt_ledger_is_cut(trace))
        fprintf(out, "the file ends early: the number of missing events is unknown%s",
                processes ? ", and " : "\n");
    else if (lost)
        fprintf(out, "%s %s missing from this trace%s", kc_count(lost).s,
                kc_noun(lost, "event is", "events are"), processes ? ", and " : "\n");
    if (processes)
        fprintf(out, "events of %s %s missing%s\n", kc_count(processes).s,
                kc_noun(processes, "process are", "processes are"), lost ? "" : " from this trace");
    for (uint32_t i = 0; i < count; i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        if (all || line.count)
            print_ledger_line(&line, out);
    }
}

void kc_ledger_print_losses(const kineto_trace *trace, FILE *out)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_trace_ledger(trace, i, &line);
        if (line.is_loss && line.count)
            print_ledger_line(&line, out);
    }
}

void kc_ring_print(const kineto_trace *trace, const char *before, FILE *out)
{
    kineto_ledger_line line;
    uint64_t overwritten = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_trace_ledger(trace, i, &line);
        if (kb_string_contains(line.reason, "overwritten in the ring"))
            overwritten += line.count;
        if (!kb_string_is(line.source, "ring") || !kb_string_is(line.reason, "shorter than asked for"))
            continue;
        fputs(before, out);
        kc_put_name(out, line.detail, 0);
        fputc('\n', out);
    }
    if (overwritten)
        fprintf(out, "%s%s %s overwritten in the ring\n", before, kc_count(overwritten).s,
                kc_noun(overwritten, "event was", "events were"));
}

void kc_clocks_print(const kineto_trace *trace, const char *before, FILE *out)
{
    kineto_ledger_line line;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_trace_ledger(trace, i, &line);
        if (kb_string_is(line.source, "merge") && kb_string_starts_with(line.detail, "clocks of "))
            fprintf(out, "%s%.*s\n", before, (int)line.detail.size, line.detail.data);
    }
}

void kc_losses_print(const kineto_trace *trace, FILE *out)
{
    if (kineto_trace_lost(trace) || kt_ledger_lost(trace, KT_LOSS_PROCESSES))
        kc_ledger_print(trace, false, out);
}

/* Empty tables are omitted. */
void kc_summary_tables(const kc_summary *s, const kineto_trace *trace, FILE *out)
{
    print_stat_table("host calls", s->host.data, s->host.count, trace, out);
    kc_threads_print(&s->watched, &s->folded, out);
    print_stat_table("Python functions, self time", s->python.data, s->python.count, trace, out);
    print_stat_table("kernels", s->kernels.data, s->kernels.count, trace, out);
    print_stat_table("copies, waits and other on devices", s->other_device.data,
                     s->other_device.count, trace, out);
    print_devices(s, trace, out);
}
