/* The tables memory_bandwidth and bandwidth_series: the bandwidth of copies and memsets by kind
 * of copy.
 *
 * Each copy adds its bandwidth at its start and subtracts it at its end; the values between two
 * changes are those of the table, not weighted with time, as in HolisticTraceAnalysis. The
 * bandwidth is the argument "memory bandwidth (GB/s)", else bytes / duration. */
#include "analyze/facts/analyses.h"

#include <math.h>

typedef KB_VEC(ka_copy_change) changes;

typedef struct counting {
    const ka_dataset *s;
    ka_table *summary, *series;
    changes list;
    kb_intern labels;   /* "Memcpy HtoD" */
    uint32_t *label_of; /* by name; 0: not checked yet, else its label + 1 */
    bool no_memory;
} counting;

/* ---- what a copy is called, and how fast it was ---------------------------------------------- */

/* "Memcpy HtoD" of "Memcpy HtoD (Pageable -> Device)": copies of all kinds of memory are one
 * row. */
static kineto_string label_exact(kineto_string name)
{
    const char *at = memmem(name.data, name.size, " (", 2);
    return at ? (kineto_string){name.data, (size_t)(at - name.data)} : name;
}

static uint32_t label_of(counting *c, uint32_t name)
{
    if (!c->label_of[name]) {
        kineto_string text = ka_name(c->s, name);
        kineto_string (*label)(kineto_string) = c->s->definitions->copy_label;
        uint32_t id = kb_intern_id(&c->labels, label ? label(text) : label_exact(text));
        c->no_memory |= id == KB_INTERN_NONE;
        c->label_of[name] = id + 1;
    }
    return c->label_of[name] - 1;
}

static double parse_bandwidth(const kineto_arg *arg)
{
    double value;
    return kt_arg_number(arg, &value) && isfinite(value) ? value : 0;
}

/* As the source says; else from its bytes. 0: not known. */
static double bandwidth_of(const ka_dataset *s, const ka_work *w)
{
    kineto_args_iterator it;
    kineto_arg arg;
    double bytes = 0;
    kineto_args_begin(s->trace, w->row, &it);
    while (kineto_args_next(&it, &arg)) {
        if (kb_string_equal(arg.key, kb_string("memory bandwidth (GB/s)")))
            return parse_bandwidth(&arg);
        if (kb_string_equal(arg.key, kb_string("bytes")))
            bytes = parse_bandwidth(&arg);
    }
    int64_t ns = ka_work_ns(w);
    return s->definitions->reported_bandwidth_only || ns <= 0 ? 0 : bytes / (double)ns;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* What took no time takes the least there is. */
static int64_t copy_end_ns(const ka_dataset *s, const ka_work *w)
{
    if (w->end_ns != w->start_ns)
        return w->end_ns;
    int64_t least_ns = s->definitions->shortest_copy_ns;
    return w->end_ns > INT64_MAX - least_ns ? w->end_ns : w->end_ns + least_ns;
}

/* Values of 10^12 GB/s and more come from broken durations, and are left out unless the
 * definitions take what is reported. */
static void add_change(counting *c, const ka_work *w)
{
    double by = bandwidth_of(c->s, w);
    if (!(by > 0 && by < 1e12) && !c->s->definitions->reported_bandwidth_only)
        return;
    uint32_t label = label_of(c, w->name);
    c->no_memory |=
        !kb_vec_push(&c->list, ((ka_copy_change){w->start_ns, by, label, true, w->row})) ||
        !kb_vec_push(&c->list, ((ka_copy_change){copy_end_ns(c->s, w), -by, label, false, w->row}));
}

/* Ends first: copies one right after the other do not add up. */
static int compare_exact(const void *left, const void *right)
{
    const ka_copy_change *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    if (a->begins != b->begins)
        return a->begins ? 1 : -1;
    return a->row < b->row ? -1 : a->row > b->row;
}

static void collect_changes(counting *c)
{
    for (uint32_t i = 0; i < c->s->work_count && !c->no_memory; i++)
        if (c->s->work[i].type == KA_TYPE_MEMORY)
            add_change(c, &c->s->work[i]);
    if (c->no_memory || !c->list.count)
        return;
    if (c->s->definitions->sort_copies)
        c->no_memory |= !c->s->definitions->sort_copies(c->list.data, c->list.count);
    else
        qsort(c->list.data, c->list.count, sizeof *c->list.data, compare_exact);
}

/* ---- sums ------------------------------------------------------------------------------------ */

/* Sum of the bandwidths of copies that run, of one label; `values` are its values above 0. */
typedef struct running {
    double sum;
    uint32_t now; /* how many run */
    KB_VEC(double) values;
} running;

static void put_point(counting *c, const ka_copy_change *at, double sum)
{
    ka_put_int(c->series, c->s->rank);
    ka_put_text(c->series, kb_intern_get(&c->labels, at->label));
    ka_put_ns(c->series, kb_length_ns(c->s->series_origin_ns, at->ns));
    ka_put_number(c->series, sum);
}

/* When nothing runs the sum is nothing, without what rounding left of it. */
static void apply_bandwidth_change(counting *c, running *r, const ka_copy_change *at)
{
    r->sum += at->by;
    r->now += at->begins ? 1 : UINT32_MAX;
    if (!r->now && !c->s->definitions->keep_rounding)
        r->sum = 0;
    if (r->sum > 0)
        c->no_memory |= !kb_vec_push(&r->values, r->sum);
    if (c->series)
        put_point(c, at, r->sum);
}

static void put_bandwidth_summary(counting *c, uint32_t label, running *r)
{
    ka_describe d = ka_describe_values(r->values.data, r->values.count);
    const double numbers[] = {d.mean, d.std, d.min, d.p25, d.p50, d.p75, d.max};
    if (!d.count)
        return;
    ka_put_int(c->summary, c->s->rank);
    ka_put_text(c->summary, kb_intern_get(&c->labels, label));
    ka_put_int(c->summary, (int64_t)d.count);
    for (size_t i = 0; i < KB_COUNT(numbers); i++)
        ka_put_number(c->summary, numbers[i]);
}

static void count_bandwidth(counting *c)
{
    size_t labels = c->labels.strings.count;
    running *of = calloc(labels + 1, sizeof *of);
    c->no_memory |= !of;
    for (size_t i = 0; !c->no_memory && i < c->list.count; i++)
        apply_bandwidth_change(c, &of[c->list.data[i].label], &c->list.data[i]);
    for (uint32_t i = 0; of && i < labels; i++) {
        if (c->summary && !c->no_memory)
            put_bandwidth_summary(c, i, &of[i]);
        kb_vec_free(&of[i].values);
    }
    free(of);
    if (c->summary)
        KA_SORT(c->summary, KA_UP(memory_bandwidth, name));
}

static void note_no_bandwidth(const counting *c, ka_table *t)
{
    if (!c->s->work_count)
        ka_note_no_device(t);
    else if (t && !ka_table_rows(t))
        ka_note(t, "no copy or fill of a device has its bytes or its bandwidth recorded");
}

/* Tables memory_bandwidth and bandwidth_series, from one list of changes that is sorted by
 * time. */
kineto_status ka_analyze_bandwidth(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    counting c = {.s = s,
                  .summary = ka_table_of(a, KA_TABLE_memory_bandwidth),
                  .series = ka_table_of(a, KA_TABLE_bandwidth_series),
                  .label_of = calloc((size_t)s->name_count + 1, sizeof *c.label_of)};
    c.no_memory = !c.label_of;
    if (!c.no_memory)
        collect_changes(&c);
    if (!c.no_memory)
        count_bandwidth(&c);
    note_no_bandwidth(&c, c.summary);
    note_no_bandwidth(&c, c.series);
    kb_vec_free(&c.list);
    kb_intern_free(&c.labels);
    free(c.label_of);
    return c.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}
