/* The tables queue_length and queue_length_series: how much work of each stream is launched and
 * has not begun, at each launch and each beginning. */
#include "analyze/facts/analyses.h"

#define FULL_LENGTH 1024 /* what a stream of CUDA takes before launches wait */

/* ---- changes, exact -------------------------------------------------------------------------- */

typedef KB_VEC(int64_t) moments;

/* They mostly come in order. */
static void sort_moments(moments *m)
{
    for (size_t i = 1; i < m->count; i++)
        if (m->data[i - 1] > m->data[i]) {
            qsort(m->data, m->count, sizeof *m->data, kb_compare_int64);
            return;
        }
}

/* Work that clocks place before its launch has not waited. */
static bool collect_moments(const ka_dataset *s, const ka_stream *stream, moments *in, moments *out)
{
    if (!kb_vec_reserve(in, stream->count) || !kb_vec_reserve(out, stream->count))
        return false;
    for (uint32_t i = stream->first; i < stream->first + stream->count; i++) {
        const ka_work *w = &s->work[i];
        if (w->call == KA_NONE)
            continue;
        int64_t launch_ns = s->slices[w->call].start_ns;
        if (!kb_vec_push(in, launch_ns) || !kb_vec_push(out, KB_MAX(w->start_ns, launch_ns)))
            return false;
    }
    sort_moments(in);
    sort_moments(out);
    return true;
}

/* Merges launches (+1) and starts (-1); a launch comes first at the same moment, so that the
 * length never falls below 0. */
static bool merge_moments(const moments *in, const moments *out, ka_queue_changes *list)
{
    size_t i = 0, j = 0;
    KB_ASSERT(in->count == out->count);
    if (!kb_vec_reserve(list, in->count + out->count))
        return false;
    while (j < out->count) {
        bool arrives = i < in->count && in->data[i] <= out->data[j];
        ka_queue_change c =
            arrives ? (ka_queue_change){in->data[i++], 1} : (ka_queue_change){out->data[j++], -1};
        if (!kb_vec_push(list, c))
            return false;
    }
    return true;
}

/* ---- points ---------------------------------------------------------------------------------- */

typedef struct counting {
    const ka_dataset *s;
    ka_table *summary, *series;
    ka_queue_point *point; /* NULL: not needed */
    void *context;
    KB_VEC(double) lengths;
    KB_VEC(uint32_t) tally; /* how often each length that is not negative */
    bool no_memory;
} counting;

static void put_queue_summary(counting *c, const ka_stream *stream, int64_t full_ns)
{
    ka_describe d = ka_describe_values(c->lengths.data, c->lengths.count);
    const double numbers[] = {d.mean, d.std, d.min, d.p25, d.p50, d.p75, d.max};
    ka_put_int(c->summary, c->s->rank);
    ka_put_int(c->summary, stream->id);
    ka_put_int(c->summary, (int64_t)d.count);
    for (size_t i = 0; i < KB_COUNT(numbers); i++)
        ka_put_number(c->summary, numbers[i]);
    ka_put_ns(c->summary, full_ns);
}

static void put_point(counting *c, const ka_stream *stream, int64_t ns, int64_t length)
{
    if (c->point)
        c->point(c->context, stream, ns, length);
    if (!c->series)
        return;
    ka_put_int(c->series, c->s->rank);
    ka_put_int(c->series, stream->id);
    ka_put_ns(c->series, kb_length_ns(c->s->series_origin_ns, ns));
    ka_put_int(c->series, length);
}

/* Lengths are small and many: counting sorts them. */
static void sort_lengths(counting *c)
{
    size_t n = c->lengths.count, at = 0;
    double *d = c->lengths.data;
    if (!kb_vec_reserve(&c->tally, n + 1)) {
        c->no_memory = true;
        return;
    }
    memset(c->tally.data, 0, (n + 1) * sizeof *c->tally.data);
    for (size_t i = 0; i < n; i++)
        c->tally.data[(size_t)d[i]]++;
    for (size_t length = 0; length <= n; length++)
        for (uint32_t k = 0; k < c->tally.data[length]; k++)
            d[at++] = (double)length;
    KB_ASSERT(at == n);
}

/* One row of the summary, and the points, from the changes of a stream. full_ns is the time
 * during which FULL_LENGTH or more waited. */
static void put_stream(counting *c, const ka_stream *stream, const ka_queue_change *list,
                       size_t count)
{
    int64_t length = 0, full_ns = 0;
    bool negative = false;
    c->lengths.count = 0;
    for (size_t i = 0; i < count; i++) {
        length += list[i].by;
        negative |= length < 0;
        if (length >= FULL_LENGTH && i + 1 < count)
            full_ns = ka_add_ns(full_ns, kb_length_ns(list[i].ns, list[i + 1].ns));
        c->no_memory |= !kb_vec_push(&c->lengths, (double)length);
        put_point(c, stream, list[i].ns, length);
    }
    if (!negative && !c->no_memory)
        sort_lengths(c);
    if (c->summary && !c->no_memory)
        put_queue_summary(c, stream, full_ns);
}

static void count_exact(counting *c)
{
    moments in = {0}, out = {0};
    ka_queue_changes list = {0};
    for (uint32_t i = 0; i < c->s->stream_count && !c->no_memory; i++) {
        in.count = out.count = list.count = 0;
        c->no_memory |= !collect_moments(c->s, &c->s->streams[i], &in, &out) ||
                        !merge_moments(&in, &out, &list);
        if (list.count && !c->no_memory)
            put_stream(c, &c->s->streams[i], list.data, list.count);
    }
    kb_vec_free(&in);
    kb_vec_free(&out);
    kb_vec_free(&list);
}

bool ka_queue_points(const ka_dataset *s, ka_queue_point *point, void *context)
{
    counting c = {.s = s, .point = point, .context = context};
    count_exact(&c);
    kb_vec_free(&c.lengths);
    kb_vec_free(&c.tally);
    return !c.no_memory;
}

/* ---- as the definitions count ---------------------------------------------------------------- */

static void count_collected(counting *c)
{
    ka_queue_changes *by_stream = calloc((size_t)c->s->stream_count + 1, sizeof *by_stream);
    c->no_memory |= !by_stream || !c->s->definitions->collect_queues(c->s, by_stream);
    for (uint32_t i = 0; by_stream && i < c->s->stream_count; i++) {
        if (by_stream[i].count && !c->no_memory)
            put_stream(c, &c->s->streams[i], by_stream[i].data, by_stream[i].count);
        kb_vec_free(&by_stream[i]);
    }
    free(by_stream);
}

/* Tables queue_length and queue_length_series, stream by stream. */
kineto_status ka_analyze_queue(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    counting c = {.s = s,
                  .summary = ka_table_of(a, KA_TABLE_queue_length),
                  .series = ka_table_of(a, KA_TABLE_queue_length_series)};
    if (!s->work_count) {
        ka_note_no_device(c.summary);
        ka_note_no_device(c.series);
        return KINETO_OK;
    }
    if (s->definitions->collect_queues)
        count_collected(&c);
    else
        count_exact(&c);
    static const char none[] = "the trace does not record which host calls launched the work of "
                               "devices";
    if (c.summary && !ka_table_rows(c.summary))
        ka_note(c.summary, "%s", none);
    if (c.series && !ka_table_rows(c.series))
        ka_note(c.series, "%s", none);
    kb_vec_free(&c.lengths);
    kb_vec_free(&c.tally);
    return c.no_memory ? kb_fail_memory(err, NULL) : KINETO_OK;
}
