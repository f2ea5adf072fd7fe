/* Benchmark of SQL queries on a trace of one million activities: scans, groups, joins; times are
 * per activity. The floor is a plain loop over the columns that adds up durations. */
#include "bench.h"

#include "export/sql.h"
#include "trace/trace.h"

#define EVENTS 1000000u
#define ROUNDS 5

static void exit_with_error(const char *what, const kineto_error *err)
{
    fprintf(stderr, "bench_query: %s: %s\n", what, err->message);
    exit(1);
}

/* One in four is a launch, one in four its kernel. */
static kineto_trace *make_trace(void)
{
    kineto_error err;
    kt_builder *b;
    kineto_trace *t;
    if (kt_builder_create(&b, &err) != KINETO_OK)
        exit_with_error("builder", &err);
    uint32_t host = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    uint32_t stream = kt_track(b, kt_process(b, true, 0, 0), KINETO_TRACK_STREAM, 7);
    uint64_t random = 12345;
    for (uint32_t i = 0; i < EVENTS; i++) {
        char name[32];
        static const uint32_t kinds[] = {KINETO_KIND_CPU_OP, KINETO_KIND_RUNTIME,
                                         KINETO_KIND_CONCURRENT_KERNEL, KINETO_KIND_CPU_OP};
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        snprintf(name, sizeof name, "%u::%u", i % 4, (unsigned)(random >> 40) % 300);
        int64_t start = INT64_C(1732000000000000000) + (int64_t)i * 1000;
        kt_row row = {.start_ns = start,
                      .end_ns = start + (int64_t)(random >> 33 & 1023),
                      .name = kt_string(b, kb_string(name)),
                      .track = i % 4 == 2 ? stream : host,
                      .kind = kinds[i % 4],
                      .correlation_id = i % 4 == 1 || i % 4 == 2 ? i / 4 + 1 : 0};
        kt_args_put_int(b, kt_string(b, kb_string("n")), i);
        kt_append(b, &row);
    }
    if (kt_builder_finish(b, &t, &err) != KINETO_OK)
        exit_with_error("finish", &err);
    kt_builder_destroy(b);
    return t;
}

static double floor_ns(const kineto_trace *t)
{
    double begin = bench_process_ns();
    int64_t sum = 0;
    for (uint32_t i = 0; i < kt_block_count(t); i++) {
        const kt_block *b = kt_block_at(t, i);
        for (uint32_t k = 0; k < b->count; k++)
            sum += b->end_ns[k] - b->start_ns[k];
    }
    __asm__ volatile("" : : "r"(sum));
    return (bench_process_ns() - begin) / EVENTS;
}

static double query_ns(ke_sql *sql, const char *text)
{
    double begin = bench_process_ns();
    kineto_error err;
    ke_sql_query *query;
    size_t used;
    bool there = true;
    if (ke_sql_prepare(sql, kb_string(text), &used, &query, &err))
        exit_with_error(text, &err);
    while (there)
        if (ke_sql_step(query, &there, &err))
            exit_with_error(text, &err);
    ke_sql_finish(query);
    return (bench_process_ns() - begin) / EVENTS;
}

int main(void)
{
    static const struct {
        const char *name, *sql;
    } queries[] = {
        {"query_count", "SELECT count(*) FROM activities"},
        {"query_sum", "SELECT count(*), sum(dur_ns) FROM activities"},
        {"query_by_name", "SELECT name, count(*), sum(dur_ns) FROM activities GROUP BY name"},
        {"query_kind", "SELECT sum(dur_ns) FROM activities WHERE kind = 'kernel'"},
        {"query_like", "SELECT count(*) FROM activities WHERE name LIKE '%:7%'"},
        {"query_first_by_time", "SELECT * FROM activities ORDER BY start_ns LIMIT 10"},
        {"query_launches",
         "SELECT sum(k.start_ns - l.start_ns) FROM activities k JOIN activities l "
         "ON l.row = k.launch WHERE k.kind = 'kernel'"},
        {"query_correlated", "SELECT count(*) FROM activities k JOIN activities l ON "
                             "l.correlation_id = k.correlation_id WHERE k.kind = 'kernel' AND "
                             "l.kind = 'runtime'"},
        {"query_args", "SELECT count(*), sum(value) FROM args WHERE key = 'n'"}};
    kineto_error err;
    ke_sql *sql;
    kineto_trace *t = make_trace();
    if (ke_sql_open(t, &sql, &err)) {
        fprintf(stderr, "bench_query: %s: skipped\n", err.message);
        return 77;
    }
    for (size_t i = 0; i < KB_COUNT(queries); i++) {
        bench_series subject = {.count = 0}, floor = {.count = 0};
        for (int round = 0; round < ROUNDS; round++) {
            bench_add(&floor, floor_ns(t));
            bench_add(&subject, query_ns(sql, queries[i].sql));
        }
        bench_print(queries[i].name, "ns/activity", &subject, &floor);
    }
    ke_sql_close(sql);
    kineto_trace_release(t);
    return 0;
}
