/* The tables temporal_breakdown, kernel_types and overlap: idle, computing and other time of
 * devices; which kinds of work run at once; and how much of communication overlaps with
 * computation. */
#include "analyze/facts/analyses.h"

/* Moments at which work of each type ran; OTHER is in `all` only. */
typedef struct busy {
    ka_spans all, of[4]; /* by ka_type */
} busy;

static bool collect_busy(const ka_dataset *s, busy *b)
{
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        ka_span span = {w->start_ns, w->end_ns};
        if (!kb_vec_push(&b->all, span) || !kb_vec_push(&b->of[w->type], span))
            return false;
    }
    ka_spans_unite(&b->all);
    for (uint32_t t = 0; t < KB_COUNT(b->of); t++)
        ka_spans_unite(&b->of[t]);
    return true;
}

static void busy_free(busy *b)
{
    kb_vec_free(&b->all);
    for (uint32_t t = 0; t < KB_COUNT(b->of); t++)
        kb_vec_free(&b->of[t]);
}

/* ---- breakdown ------------------------------------------------------------------------------- */

static void put_breakdown(const ka_dataset *s, const busy *b, ka_table *t)
{
    int64_t whole = kb_length_ns(b->all.data[0].start_ns, b->all.data[b->all.count - 1].end_ns);
    int64_t idle = whole - ka_spans_ns(&b->all), compute = ka_spans_ns(&b->of[KA_TYPE_COMPUTATION]);
    int64_t rest = whole - idle - compute, parts[] = {idle, compute, rest};
    ka_put_int(t, s->rank);
    for (int i = 0; i < 3; i++)
        ka_put_ns(t, parts[i]);
    ka_put_ns(t, whole);
    for (int i = 0; i < 3; i++)
        ka_put_number(t, ka_percent((double)parts[i], (double)whole));
}

static kineto_status put_overlap(const ka_dataset *s, const busy *b, ka_table *t, kineto_error *err)
{
    const ka_spans *communication = &b->of[KA_TYPE_COMMUNICATION];
    ka_spans both = {0};
    bool ok = ka_spans_both(communication, &b->of[KA_TYPE_COMPUTATION], &both);
    ka_put_int(t, s->rank);
    if (communication->count)
        ka_put_number(t,
                      ka_percent((double)ka_spans_ns(&both), (double)ka_spans_ns(communication)));
    else
        ka_put_none(t);
    kb_vec_free(&both);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* ---- kinds at the same time ------------------------------------------------------------------ */

typedef struct edge {
    int64_t ns;
    int8_t type, change;
} edge;

static int compare_edges(const void *left, const void *right)
{
    const edge *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->change < b->change) - (a->change > b->change); /* begins first */
}

/* Edges of the unions of all types, in the order of time; the caller frees *out. False: out of
 * memory. */
static bool collect_edges(const busy *b, bool omit_other, edge **out, size_t *count)
{
    KB_VEC(edge) edges = {0};
    bool ok = true;
    for (int8_t type = KA_TYPE_OTHER; type < (int8_t)KB_COUNT(b->of); type++)
        for (size_t i = 0; ok && (type != KA_TYPE_OTHER || !omit_other) && i < b->of[type].count;
             i++)
            ok = kb_vec_push(&edges, (edge){b->of[type].data[i].start_ns, type, 1}) &&
                 kb_vec_push(&edges, (edge){b->of[type].data[i].end_ns, type, -1});
    if (edges.count)
        qsort(edges.data, edges.count, sizeof *edges.data, compare_edges);
    *out = edges.data;
    *count = edges.count;
    return ok;
}

/* `types` has a bit for each type that ran at the same time; never 0. */
static void put_kind_row(ka_table *t, uint32_t types, int64_t ns, int64_t all)
{
    static const char *const names[] = {[KA_TYPE_OTHER] = "OTHER",
                                        [KA_TYPE_COMPUTATION] = "COMPUTATION",
                                        [KA_TYPE_COMMUNICATION] = "COMMUNICATION",
                                        [KA_TYPE_MEMORY] = "MEMORY"};
    static const uint8_t order[] = {KA_TYPE_COMPUTATION, KA_TYPE_COMMUNICATION, KA_TYPE_MEMORY,
                                    KA_TYPE_OTHER};
    char text[80];
    size_t n = 0;
    KB_ASSERT(types != 0 && types >> KB_COUNT(names) == 0);
    for (size_t i = 0; i < KB_COUNT(order); i++)
        if (types >> order[i] & 1)
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " overlapping " : "",
                                  names[order[i]]);
    ka_put_text(t, (kineto_string){text, n});
    ka_put_ns(t, ns);
    ka_put_number(t, ka_percent((double)ns, (double)all));
}

static kineto_status put_kind_rows(const ka_dataset *s, const busy *b, ka_table *t,
                                   kineto_error *err)
{
    int64_t sums[16] = {0}, all = 0;
    uint32_t seen = 0; /* types that have a row though they took no time together */
    int now = 0; /* a bit for each type; ranges that end before they start borrow from others */
    edge *edges = NULL;
    size_t count = 0;
    bool ok = collect_edges(b, s->definitions->omit_other_work, &edges, &count);
    for (size_t i = 0; ok && i < count; i++) {
        if (now > 0 && now < (int)KB_COUNT(sums)) {
            sums[now] = ka_add_ns(sums[now], kb_length_ns(edges[i - 1].ns, edges[i].ns));
            seen |= s->definitions->rows_without_time ? 1u << now : 0;
        }
        now += edges[i].change * (1 << edges[i].type);
    }
    for (uint32_t types = 1; types < KB_COUNT(sums); types++)
        all = ka_add_ns(all, sums[types]);
    for (uint32_t types = 1; types < KB_COUNT(sums); types++)
        if (sums[types] || seen >> types & 1)
            put_kind_row(t, types, sums[types], all);
    KA_SORT(t, KA_DOWN(kernel_types, sum_us), KA_UP(kernel_types, kernel_type));
    free(edges);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

/* Tables temporal_breakdown, kernel_types and overlap, from the unions of work by type. */
kineto_status ka_analyze_temporal(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *breakdown = ka_table_of(a, KA_TABLE_temporal_breakdown),
             *kinds = ka_table_of(a, KA_TABLE_kernel_types),
             *overlap = ka_table_of(a, KA_TABLE_overlap);
    busy b = {0};
    kineto_status status = KINETO_OK;
    if (!s->work_count) {
        ka_note_no_device(breakdown);
        ka_note_no_device(kinds);
        ka_note_no_device(overlap);
        return KINETO_OK;
    }
    if (!collect_busy(s, &b))
        status = kb_fail_memory(err, NULL);
    if (!status && breakdown)
        put_breakdown(s, &b, breakdown);
    if (!status && overlap)
        status = put_overlap(s, &b, overlap, err);
    if (!status && kinds)
        status = put_kind_rows(s, &b, kinds, err);
    busy_free(&b);
    return status;
}
