/* The tables collectives and collective_groups: size, bandwidth and exposed time of each
 * collective.
 *
 * algbw = bytes / duration; busbw = algbw times the factor of the collective and the number of
 * ranks, as nccl-tests define it. */
#include "analyze/dataset/collective_args.h"
#include "analyze/dataset/sums.h"
#include "analyze/facts/analyses.h"

typedef struct collective {
    const ka_work *work; /* NULL: a call of MPI */
    int64_t ns, exposed_ns;
    ka_collective_args args;
} collective;

typedef struct gathering {
    ka_collective_reader reader;
    const ka_dataset *s;
    KB_VEC(collective) all;
    ka_sums *computing; /* by stream: the first of a device has it */
    uint32_t *first_of; /* by stream: the first of its device */
    bool no_memory;
} gathering;

/* From algorithm bandwidth to bus bandwidth, with which collectives of all kinds compare with the
 * bandwidth of a link (nccl-tests, doc/PERFORMANCE.md). 0: not known. */
static double bus_factor(ka_collective_op op, int64_t ranks)
{
    double n = (double)ranks;
    switch (op) {
    case KA_OP_SEND_RECV:
    case KA_OP_SEND:
    case KA_OP_RECV:
    case KA_OP_BROADCAST:
    case KA_OP_REDUCE:
        return 1;
    case KA_OP_ALL_REDUCE:
    case KA_OP_BARRIER:
        return ranks < 1 ? 0 : 2 * (n - 1) / n;
    case KA_OP_OTHER:
        return 0;
    default:
        return ranks < 1 ? 0 : (n - 1) / n;
    }
}

/* ---- what computation hides ------------------------------------------------------------------ */

/* Unions of computation by device, stored at the device's first stream (g->first_of). False:
 * out of memory. */
static bool find_computing(gathering *g)
{
    const ka_dataset *s = g->s;
    ka_spans *spans = calloc((size_t)s->stream_count + 1, sizeof *spans);
    kb_map first = {0};
    bool ok = spans != NULL;
    for (uint32_t i = 0; ok && i < s->stream_count; i++) {
        uint64_t key = (uint64_t)s->streams[i].process << 32 | (uint32_t)s->streams[i].device;
        uint64_t *at = kb_map_insert(&first, key, i, NULL);
        ok = at != NULL;
        g->first_of[i] = at ? (uint32_t)*at : i;
    }
    for (uint32_t i = 0; ok && i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (w->type == KA_TYPE_COMPUTATION)
            ok = kb_vec_push(&spans[g->first_of[w->stream]], (ka_span){w->start_ns, w->end_ns});
    }
    for (uint32_t i = 0; ok && i < s->stream_count; i++)
        ok = ka_sums_make(&g->computing[i], &spans[i]);
    for (uint32_t i = 0; spans && i < s->stream_count; i++)
        kb_vec_free(&spans[i]);
    free(spans);
    kb_map_free(&first);
    return ok;
}

/* Exposed time is the part of the kernel during which its device computed nothing. */
static void add_collective(gathering *g, const ka_work *w)
{
    int64_t hidden_ns =
        ka_sums_within(&g->computing[g->first_of[w->stream]], w->start_ns, w->end_ns);
    collective c = {.work = w,
                    .ns = ka_work_ns(w),
                    .exposed_ns = ka_work_ns(w) - hidden_ns,
                    .args = ka_read_collective(&g->reader, w)};
    g->no_memory |= !kb_vec_push(&g->all, c);
}

/* A collective of MPI: its thread computes nothing meanwhile. */
static void add_mpi_collective_row(gathering *g, const ka_slice *s)
{
    collective c = {.ns = ka_slice_ns(s),
                    .exposed_ns = ka_slice_ns(s),
                    .args = ka_read_collective_call(&g->reader, s)};
    g->no_memory |= !kb_vec_push(&g->all, c);
}

/* Work first, by start: rules walk over it and these rows together. */
static bool gather_collective(gathering *g)
{
    const ka_dataset *s = g->s;
    g->computing = calloc((size_t)s->stream_count + 1, sizeof *g->computing);
    g->first_of = calloc((size_t)s->stream_count + 1, sizeof *g->first_of);
    ka_collective_reader_create(&g->reader, s);
    if (!g->computing || !g->first_of || !find_computing(g))
        return false;
    for (uint32_t i = 0; i < s->work_count && !g->no_memory; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        if (w->type == KA_TYPE_COMMUNICATION)
            add_collective(g, w);
    }
    for (uint32_t i = 0; i < s->slice_count && !g->no_memory; i++)
        if (s->slices[i].kind == KINETO_KIND_COLLECTIVE_COMM)
            add_mpi_collective_row(g, &s->slices[i]);
    return !g->no_memory && !g->reader.no_memory;
}

static void gathering_free(gathering *g)
{
    for (uint32_t i = 0; g->computing && i < g->s->stream_count; i++)
        ka_sums_free(&g->computing[i]);
    free(g->computing);
    free(g->first_of);
    kb_vec_free(&g->all);
    ka_collective_reader_free(&g->reader);
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_int_or_none(ka_table *t, int64_t v)
{
    if (v == KA_UNKNOWN_NUMBER)
        ka_put_none(t);
    else
        ka_put_int(t, v);
}

static void put_positive_or_none(ka_table *t, double v)
{
    if (v > 0)
        ka_put_number(t, v);
    else
        ka_put_none(t);
}

/* algbw in GB/s: 10^9 bytes a second are one byte a nanosecond. 0: not known. */
static double bandwidth_gbps(const collective *c)
{
    int64_t ns = c->ns;
    return c->args.bytes != KA_UNKNOWN_NUMBER && ns > 0 ? (double)c->args.bytes / (double)ns : 0;
}

/* Rows of all collectives are in the order of time: findings rely on it. */
static void put_collective(const gathering *g, ka_table *t, const collective *c)
{
    ka_put_int(t, g->s->rank);
    ka_put_text(t, kb_intern_get(&g->reader.texts, c->args.name));
    ka_put_text(t, kb_intern_get(&g->reader.texts, c->args.group));
    put_int_or_none(t, c->args.sequence);
    put_int_or_none(t, c->args.bytes);
    ka_put_text(t, kb_intern_get(&g->reader.texts, c->args.dtype));
    ka_put_ns(t, c->ns);
    put_positive_or_none(t, bandwidth_gbps(c));
    put_positive_or_none(t, bandwidth_gbps(c) * bus_factor(c->args.op, c->args.ranks));
    ka_put_ns(t, c->exposed_ns);
}

/* Below 64 KiB the cost of a collective is mostly its latency, not its transfer. */
#define SMALL_BYTES 65536
/* Collectives of one name and group. sized_ns and bus_ns are the durations of those whose
 * bytes, or factor too, are known: bandwidths are over these only. */
typedef struct sums {
    uint32_t group, name;
    int64_t count, small_count, bytes, sized_ns, ns, exposed_ns, small_ns;
    double bus_bytes;
    int64_t bus_ns; /* of those whose factor is known */
} sums;

static void add_to(sums *to, const collective *c)
{
    int64_t ns = c->ns;
    double factor = bus_factor(c->args.op, c->args.ranks);
    to->count++;
    to->ns = ka_add_ns(to->ns, ns);
    to->exposed_ns = ka_add_ns(to->exposed_ns, c->exposed_ns);
    if (c->args.bytes == KA_UNKNOWN_NUMBER)
        return;
    to->bytes = ka_add_ns(to->bytes, c->args.bytes);
    to->sized_ns = ka_add_ns(to->sized_ns, ns);
    if (factor > 0) {
        to->bus_bytes += (double)c->args.bytes * factor;
        to->bus_ns = ka_add_ns(to->bus_ns, ns);
    }
    if (c->args.bytes < SMALL_BYTES) {
        to->small_count++;
        to->small_ns = ka_add_ns(to->small_ns, ns);
    }
}

static void put_group_sums(const gathering *g, ka_table *t, const sums *s)
{
    ka_put_int(t, g->s->rank);
    ka_put_text(t, kb_intern_get(&g->reader.texts, s->group));
    ka_put_text(t, kb_intern_get(&g->reader.texts, s->name));
    ka_put_int(t, s->count);
    put_int_or_none(t, s->sized_ns ? s->bytes : KA_UNKNOWN_NUMBER);
    ka_put_ns(t, s->ns);
    ka_put_ns(t, s->exposed_ns);
    put_positive_or_none(t, s->sized_ns > 0 ? (double)s->bytes / (double)s->sized_ns : 0);
    put_positive_or_none(t, s->bus_ns > 0 ? s->bus_bytes / (double)s->bus_ns : 0);
    ka_put_int(t, s->small_count);
    ka_put_ns(t, s->small_ns);
}

/* A row for each pair of group and name. False: out of memory. */
static bool put_collective_groups(const gathering *g, ka_table *t)
{
    KB_VEC(sums) all = {0};
    kb_map index = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < g->all.count; i++) {
        const collective *c = &g->all.data[i];
        bool created;
        uint64_t *at =
            kb_map_insert(&index, (uint64_t)c->args.group << 32 | c->args.name, all.count, &created);
        ok = at && (!created || kb_vec_push(&all, (sums){.group = c->args.group, .name = c->args.name}));
        if (ok)
            add_to(&all.data[*at], c);
    }
    for (size_t i = 0; ok && i < all.count; i++)
        put_group_sums(g, t, &all.data[i]);
    KA_SORT(t, KA_UP(collective_groups, rank), KA_UP(collective_groups, group),
            KA_DOWN(collective_groups, sum_us), KA_UP(collective_groups, name));
    kb_vec_free(&all);
    kb_map_free(&index);
    return ok;
}

static void note_none(const ka_dataset *s, ka_table *t)
{
    if (!s->work_count)
        ka_note_no_device(t);
    else
        ka_note(t, "nothing communicated");
}

/* Tables collectives and collective_groups. Collectives are read in the order of starts;
 * arguments of each only once. */
kineto_status ka_analyze_collectives(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *each = ka_table_of(a, KA_TABLE_collectives),
             *groups = ka_table_of(a, KA_TABLE_collective_groups);
    gathering g = {.s = s};
    bool ok = gather_collective(&g);
    for (size_t i = 0; ok && each && i < g.all.count; i++)
        put_collective(&g, each, &g.all.data[i]);
    if (ok && groups)
        ok = put_collective_groups(&g, groups);
    if (ok && !g.all.count) {
        note_none(s, each);
        note_none(s, groups);
    }
    gathering_free(&g);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
