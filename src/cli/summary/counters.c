/* Counters of a trace: the samples of each series, summarised. Series are found through a hash of
 * process, counter and key; equal hashes are resolved by probing the following values. */
#include "cli/style.h"
#include "cli/summary/summary.h"
#include "export/export.h"
#include "trace/trace.h"

#include <math.h>

/* ---- collecting ------------------------------------------------------------------------------ */

static bool is_same_counter(const kc_counter *c, uint32_t process, uint32_t name, kineto_string key)
{
    return c->process == process && c->name_id == name && kb_string_equal(c->key, key);
}

/* NULL: out of memory. The key is copied. */
static kc_counter *find_or_add_counter(kc_counters *all, uint32_t process, uint32_t name,
                                       kineto_string key)
{
    uint64_t identity[3] = {process, name, kb_hash(key.data, key.size)};
    for (uint64_t hash = kb_hash(identity, sizeof identity);; hash++) {
        bool created = false;
        uint64_t *at = kb_map_insert(&all->by_key, hash, all->list.count, &created);
        if (at && !created && !is_same_counter(&all->list.data[*at], process, name, key))
            continue;
        if (at && !created)
            return &all->list.data[*at];
        char *copy = at ? kb_arena_copy(&all->keys, key.data, key.size) : NULL;
        kc_counter c = {.process = process,
                        .name_id = name,
                        .number = all->list.count,
                        .key = {copy, key.size}};
        if (!copy)
            return NULL;
        ke_split_unit(c.key, &c.series, &c.unit);
        return kb_vec_push(&all->list, c) ? &all->list.data[all->list.count - 1] : NULL;
    }
}

/* The mean is updated incrementally, so that no sum can overflow a double. */
static void add_counter_sample(kc_counter *c, double value)
{
    KB_ASSERT(c->finite <= c->samples);
    c->samples++;
    c->last = value;
    if (!isfinite(value))
        return;
    c->finite++;
    c->min = c->finite == 1 || value < c->min ? value : c->min;
    c->max = c->finite == 1 || value > c->max ? value : c->max;
    c->mean += value / (double)c->finite - c->mean / (double)c->finite;
}

/* Each numeric argument is a sample of a series. False: out of memory. */
static bool add_counter_row(kc_counters *all, const kineto_trace *trace, const kineto_activity *a,
                            uint32_t process)
{
    kineto_args_iterator it;
    kineto_arg arg;
    double value;
    kineto_args_begin(trace, a->row, &it);
    while (kineto_args_next(&it, &arg)) {
        if (!kt_arg_number(&arg, &value))
            continue;
        kc_counter *c = find_or_add_counter(all, process, a->name_id, arg.key);
        if (!c)
            return false;
        add_counter_sample(c, value);
    }
    return true;
}

/* Rows of a track are in order of time, so the last sample is the latest. False: out of memory. */
static bool add_counter_track(kc_counters *all, const kineto_trace *trace, uint32_t index)
{
    kineto_track track;
    kineto_activity a;
    kineto_trace_track(trace, index, &track);
    if (track.type != KINETO_TRACK_COUNTER)
        return true;
    const kineto_row *rows = kineto_trace_track_rows(trace, index);
    bool ok = rows || !track.count;
    for (uint64_t i = 0; i < track.count && ok; i++) {
        kineto_trace_get(trace, rows[i], &a);
        ok = a.form != KINETO_FORM_COUNTER || add_counter_row(all, trace, &a, track.process);
    }
    return ok;
}

static int compare_counters(const void *left, const void *right)
{
    const kc_counter *a = left, *b = right;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

/* Sorted by process at the end, in order of appearance within one. */
kineto_status kc_counters_make(const kineto_trace *trace, kc_counters *out, kineto_error *err)
{
    uint32_t tracks = kineto_trace_track_count(trace);
    bool ok = true;
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < tracks && ok; i++)
        ok = add_counter_track(out, trace, i);
    kb_map_free(&out->by_key);
    if (ok && out->list.count)
        qsort(out->list.data, out->list.count, sizeof *out->list.data, compare_counters);
    if (ok)
        return KINETO_OK;
    kc_counters_free(out);
    return kb_fail_memory(err, NULL);
}

void kc_counters_free(kc_counters *c)
{
    kb_vec_free(&c->list);
    kb_map_free(&c->by_key);
    kb_arena_free(&c->keys);
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Whole numbers as such, others with six significant digits. */
static kb_text format_number(double value)
{
    kb_text t;
    bool whole = fabs(value) < 1e15 && (double)(int64_t)value == value;
    snprintf(t.s, sizeof t.s, whole ? "%.0f" : "%.6g", value);
    return t;
}

#define MAX_LINES 200

/* A head for the series of one process. */
static void print_counter_head(const kineto_trace *trace, uint32_t process, FILE *out)
{
    fputs("\n  counters of ", out);
    kc_put_process(out, trace, process);
    fputs("\n  ", out);
    kc_put_styled(out, KC_BOLD, "%-20s %-14s %-6s %8s %10s %10s %10s %10s", "counter", "series", "unit", "samples",
                  "min", "mean", "max", "last");
    fputc('\n', out);
}

/* At most MAX_LINES rows, with a head for each process. */
void kc_counters_print(const kc_counters *all, const kineto_trace *trace, FILE *out)
{
    size_t count = kc_count_shown(all->list.count, MAX_LINES);
    for (size_t i = 0; i < count; i++) {
        const kc_counter *c = &all->list.data[i];
        if (i == 0 || c->process != all->list.data[i - 1].process)
            print_counter_head(trace, c->process, out);
        fputs("  ", out);
        kc_put_name(out, kineto_trace_string(trace, c->name_id), 20);
        fputc(' ', out);
        kc_put_name(out, c->series, 14);
        fputc(' ', out);
        kc_put_name(out, c->unit, 6);
        fprintf(out, " %8s", kc_count(c->samples).s);
        if (c->finite)
            fprintf(out, " %10s %10s %10s", format_number(c->min).s, format_number(c->mean).s,
                    format_number(c->max).s);
        else
            fprintf(out, " %10s %10s %10s", "-", "-", "-");
        fprintf(out, " %10s\n", format_number(c->last).s);
    }
    if (count < all->list.count)
        kc_put_more(out, all->list.count - count);
}

/* All series, without a limit. */
void kc_counters_json(const kc_counters *all, const kineto_trace *trace, kb_json *j)
{
    kb_json_key_z(j, "counters");
    kb_json_array_begin(j);
    for (size_t i = 0; i < all->list.count; i++) {
        const kc_counter *c = &all->list.data[i];
        kineto_process p;
        kineto_trace_process(trace, c->process, &p);
        kb_json_object_begin(j);
        kb_json_put_string(j, "process", p.name);
        if (p.pid > INT64_MIN / 2) /* smaller numbers stand for texts in the file */
            kb_json_put_int(j, "pid", p.pid);
        kb_json_put_bool(j, "device", p.is_device);
        kb_json_put_string(j, "name", kineto_trace_string(trace, c->name_id));
        kb_json_put_string(j, "series", c->series);
        kb_json_put_string(j, "unit", c->unit);
        kb_json_put_uint(j, "samples", c->samples);
        if (c->finite) {
            kb_json_put_double(j, "min", c->min);
            kb_json_put_double(j, "mean", c->mean);
            kb_json_put_double(j, "max", c->max);
        }
        kb_json_put_double(j, "last", c->last);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}
