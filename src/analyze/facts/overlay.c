/* kineto_analysis_overlay: a copy of the trace with facts drawn into it. Counters are drawn on
 * the device they are of; occurrences of sequences are rows of a process of their own. */
#include "analyze/facts/analyses.h"

#include "trace/transform/copy.h"

enum { DRAW_QUEUES = 1, DRAW_BANDWIDTHS = 2, DRAW_SEQUENCES = 4, DRAW_PATH = 8, DRAW_USUAL = 7 };

static const struct {
    const char *table;
    uint32_t bit;
} drawable[] = {{"queue_length_series", DRAW_QUEUES},
                {"bandwidth_series", DRAW_BANDWIDTHS},
                {"sequences", DRAW_SEQUENCES},
                {"critical_path_edges", DRAW_PATH}};

/* State of one overlay: `t` is copied with `copy` into the builder `b`, then rows are
 * appended. `facts` has the tables that are drawn; NULL if only the dataset is needed. */
typedef struct drawing {
    const kineto_trace *t;
    const kineto_analysis_options *options;
    const kineto_analysis *facts;
    kt_builder *b;
    kt_copy copy;
    uint64_t drawn;
    bool no_memory;
} drawing;

/* DRAW_ bits of a list of tables with commas between; unknown names are ignored. NULL: the
 * usual ones. */
static uint32_t what_of(const char *tables)
{
    uint32_t what = 0;
    for (const char *at = tables; at && *at;) {
        size_t size = strcspn(at, ",");
        for (size_t i = 0; i < KB_COUNT(drawable); i++)
            if (kb_string_equal(kb_string(drawable[i].table), (kineto_string){at, size}))
                what |= drawable[i].bit;
        at += size + (at[size] == ',');
    }
    return tables ? what : DRAW_USUAL;
}

/* ---- counters -------------------------------------------------------------------------------- */

static uint32_t counter_track(drawing *d, uint32_t process)
{
    return kt_track(d->b, kt_copy_process(&d->copy, process), KINETO_TRACK_COUNTER, 0);
}

/* Of the first stream. NONE: there is none. */
static uint32_t first_device(const drawing *d)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(d->t); i++) {
        kineto_track k;
        kineto_trace_track(d->t, i, &k);
        if (k.type == KINETO_TRACK_STREAM && k.count)
            return k.process;
    }
    return KT_COPY_NONE;
}

/* Appends one sample of a counter `name` with the argument `key`. */
static void put_counter_sample(drawing *d, uint32_t track, uint32_t name, uint32_t key, int64_t ns,
                               double value)
{
    kt_args_put_double(d->b, key, value);
    (void)kt_append(d->b, &(kt_row){.start_ns = ns,
                                    .end_ns = ns,
                                    .name = name,
                                    .track = track,
                                    .kind = KINETO_KIND_COUNTER,
                                    .form = KINETO_FORM_COUNTER});
    d->drawn++;
}

static kineto_fact fact_at(const drawing *d, uint32_t table, uint64_t row, uint32_t column)
{
    kineto_fact f;
    (void)kineto_analysis_fact(d->facts, table, row, column, &f);
    return f;
}

/* The counter of the stream whose points are drawn: ka_queue_points visits streams one by one,
 * so that one set of ids is enough. */
typedef struct queue {
    drawing *d;
    const ka_stream *stream; /* of the point before */
    uint32_t track, name, key;
} queue;

static void draw_point(void *context, const ka_stream *stream, int64_t ns, int64_t length)
{
    queue *q = context;
    if (stream != q->stream) {
        char text[48];
        snprintf(text, sizeof text, "Queue length, stream %lld", (long long)stream->id);
        q->stream = stream;
        q->name = kt_string(q->d->b, kb_string(text));
        q->track = counter_track(q->d, stream->process);
    }
    put_counter_sample(q->d, q->track, q->name, q->key, ns, (double)length);
}

static void draw_queues(drawing *d, const ka_dataset *s)
{
    queue q = {.d = d, .key = kt_string(d->b, kb_string("length"))};
    d->no_memory |= !ka_queue_points(s, draw_point, &q);
}

/* Rows are: rank, kind of copy, moment, GB/s. */
static void draw_bandwidths(drawing *d)
{
    kineto_fact_table t = {0};
    uint32_t table = kineto_analysis_find_table(d->facts, "bandwidth_series");
    (void)kineto_analysis_table(d->facts, table, &t);
    uint32_t key = kt_string(d->b, kb_string("GB/s")), device = first_device(d), name = 0;
    for (uint64_t r = 0; r < t.row_count && device != KT_COPY_NONE; r++) {
        kineto_string kind = fact_at(d, table, r, 1).text;
        if (!r || !kb_string_equal(kind, fact_at(d, table, r - 1, 1).text)) {
            char text[160];
            snprintf(text, sizeof text, "Bandwidth, %.*s", (int)KB_MIN(kind.size, (size_t)120),
                     kind.data);
            name = kt_string(d->b, kb_string(text));
        }
        put_counter_sample(d, counter_track(d, device), name, key, fact_at(d, table, r, 2).i,
                   fact_at(d, table, r, 3).d);
    }
}

/* ---- sequences ------------------------------------------------------------------------------- */

static void put_sequence(drawing *d, const ka_dataset *s, const ka_occurrence *o, uint32_t track,
                         const uint32_t keys[3])
{
    const ka_slice *slice = &s->slices[o->slice];
    kt_args_put_uint(d->b, keys[0], o->sequence + UINT64_C(1));
    kt_args_put_uint(d->b, keys[1], o->kernels);
    kt_args_put_uint(d->b, keys[2], slice->row);
    (void)kt_append(d->b, &(kt_row){.start_ns = slice->start_ns,
                                    .end_ns = slice->end_ns,
                                    .name = kt_copy_string(&d->copy, slice->name),
                                    .track = track,
                                    .kind = KINETO_KIND_USER_ANNOTATION,
                                    .category = kt_string(d->b, kb_string("sequence"))});
    d->drawn++;
}

static void draw_sequences(drawing *d, const ka_dataset *s)
{
    ka_occurrence_list list = {0};
    d->no_memory |= !ka_sequences_find(s, &list);
    if (list.count) {
        uint32_t process = kt_process_text(d->b, kb_string("Sequences"));
        uint32_t keys[] = {kt_string(d->b, kb_string("sequence")),
                           kt_string(d->b, kb_string("kernels")),
                           kt_string(d->b, kb_string("row"))};
        for (size_t i = 0; i < list.count; i++) {
            const ka_slice *slice = &s->slices[list.data[i].slice];
            char text[48];
            snprintf(text, sizeof text, "thread %lld", (long long)s->threads[slice->thread].id);
            put_sequence(d, s, &list.data[i], kt_track_text(d->b, process, kb_string(text)), keys);
        }
    }
    kb_vec_free(&list);
}

static kineto_status draw_scope(drawing *d, uint32_t what, kineto_error *err)
{
    ka_rules *rules = NULL;
    ka_dataset dataset = {0};
    kineto_status status = ka_rules_create(d->options->rules, &rules, err);
    if (!status)
        status = ka_dataset_create(d->t, d->options, rules, &dataset, err);
    if (!status && what & DRAW_QUEUES)
        draw_queues(d, &dataset);
    if (!status && what & DRAW_SEQUENCES)
        draw_sequences(d, &dataset);
    ka_dataset_free(&dataset);
    ka_rules_free(rules);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static kineto_status analyze_series(drawing *d, uint32_t what, kineto_analysis **facts,
                                    kineto_error *err)
{
    kineto_analysis_options o = *d->options;
    o.tables = "bandwidth_series";
    return what & DRAW_BANDWIDTHS ? kineto_analysis_run(d->t, &o, facts, err) : KINETO_OK;
}

static void note_drawn_rows(drawing *d)
{
    char text[80];
    snprintf(text, sizeof text, "%llu rows were drawn into the trace",
             (unsigned long long)d->drawn);
    kt_ledger_add(d->b, kb_string("analysis"), kb_string("rows drawn"), d->drawn, false,
                  kb_string(text));
}

/* The trace is copied first: rows that are drawn come after all rows of the copy. *out is made
 * only on success. */
static kineto_status draw_tables(drawing *d, uint32_t what, kineto_trace **out, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (!kt_copy_begin(&d->copy, d->b, d->t))
        return kb_fail_memory(err, "copy a trace");
    kt_copy_all(&d->copy);
    if (what & (DRAW_QUEUES | DRAW_SEQUENCES))
        status = draw_scope(d, what, err);
    if (what & DRAW_BANDWIDTHS)
        draw_bandwidths(d);
    if (status)
        return status;
    note_drawn_rows(d);
    if (d->no_memory || d->copy.failed)
        return kb_fail_memory(err, "draw into a trace");
    return kt_builder_finish(d->b, out, err);
}

static kineto_status draw_facts(drawing *d, uint32_t what, kineto_trace **out, kineto_error *err)
{
    kineto_analysis *facts = NULL;
    kineto_status status = analyze_series(d, what, &facts, err);
    d->facts = facts;
    if (!status)
        status = kt_builder_create(&d->b, err);
    if (!status)
        status = draw_tables(d, what, out, err);
    kt_copy_free(&d->copy);
    kt_builder_destroy(d->b);
    kineto_analysis_destroy(facts);
    return status;
}

/* The path is drawn into what was drawn so far. */
static kineto_status draw_path(const kineto_analysis_options *o, kineto_trace **trace,
                               kineto_error *err)
{
    kineto_critical_path *path = NULL;
    kineto_trace *with = NULL;
    kineto_status status = kineto_critical_path_create(*trace, o, &path, err);
    if (!status)
        status = kineto_critical_path_overlay(path, &with, err);
    kineto_critical_path_destroy(path);
    kineto_trace_release(*trace);
    *trace = with;
    return status;
}

kineto_status kineto_analysis_overlay(const kineto_trace *trace,
                                     const kineto_analysis_options *options, kineto_trace **out,
                                     kineto_error *err)
{
    kineto_analysis_options o;
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    kineto_status status = ka_options_read(options, &o, err);
    if (status)
        return status;
    o.sequence_min = o.sequence_min ? o.sequence_min : 3;
    o.sequence_top = o.sequence_top ? o.sequence_top : 5;
    uint32_t what = what_of(o.tables);
    drawing d = {.t = trace, .options = &o};
    if (!what || o.definitions != KINETO_DEFINITIONS_EXACT)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "what can be drawn into a trace, with exact definitions, is "
                       "queue_length_series, bandwidth_series, sequences and critical_path_edges");
    status = draw_facts(&d, what, out, err);
    if (!status && what & DRAW_PATH)
        status = draw_path(&o, out, err);
    return status;
}
