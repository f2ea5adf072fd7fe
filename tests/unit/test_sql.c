/* SQL over a trace: values, indexes against plain scans, what is refused, databases. */
#include "export/export.h"
#include "export/sql.h"
#include "trace/trace.h"

#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

/* ---- asking ---------------------------------------------------------------------------------------- */

/* All cells of all lines, with '|' and '\n' between; NULL is "~". The caller frees. */
static char *answer(ke_sql *sql, const char *text, kineto_status *status, kineto_error *err)
{
    ke_sql_query *query = NULL;
    char *data = NULL;
    size_t used, size;
    bool there = true;
    FILE *out = open_memstream(&data, &size);
    *status = ke_sql_prepare(sql, kb_string(text), &used, &query, err);
    while (*status == KINETO_OK && query) {
        *status = ke_sql_step(query, &there, err);
        if (*status || !there)
            break;
        for (size_t i = 0; i < ke_sql_width(query); i++) {
            ke_sql_cell c = ke_sql_cell_at(query, i);
            if (i)
                fputc('|', out);
            if (c.type == KE_SQL_INT)
                fprintf(out, "%lld", (long long)c.i);
            else if (c.type == KE_SQL_REAL)
                fprintf(out, "%.15g", c.d);
            else if (c.type == KE_SQL_NULL)
                fputc('~', out);
            else
                fwrite(c.text.data, 1, c.text.size, out);
        }
        fputc('\n', out);
    }
    ke_sql_finish(query);
    fclose(out);
    return data;
}

static char *ask(ke_sql *sql, const char *text)
{
    kineto_status status;
    kineto_error err = {0};
    char *data = answer(sql, text, &status, &err);
    if (status)
        fail_msg("%s: %s", text, err.message);
    return data;
}

static void expect(ke_sql *sql, const char *text, const char *wanted)
{
    char *data = ask(sql, text);
    if (strcmp(data, wanted) != 0)
        fail_msg("%s\n got: %s\n not: %s", text, data, wanted);
    free(data);
}

static void expect_error(ke_sql *sql, const char *text, kineto_status wanted, const char *words)
{
    kineto_status status;
    kineto_error err = {0};
    free(answer(sql, text, &status, &err));
    if (status != wanted || !strstr(err.message, words))
        fail_msg("%s: %s: %s", text, kineto_status_name(status), err.message);
}

static ke_sql *open_sql(const kineto_trace *t)
{
    ke_sql *sql;
    kineto_error err = {0};
    if (ke_sql_open(t, &sql, &err))
        fail_msg("%s", err.message);
    return sql;
}

/* ---- traces ---------------------------------------------------------------------------------------- */

static uint32_t id(kt_builder *b, const char *text) { return kt_string(b, kb_string(text)); }

static kineto_trace *finish(kt_builder *b)
{
    kineto_trace *t;
    kineto_error err = {0};
    if (kt_builder_finish(b, &t, &err))
        fail_msg("%s", err.message);
    kt_builder_destroy(b);
    return t;
}

static kineto_row add(kt_builder *b, uint32_t track, uint32_t kind, const char *name, int64_t start,
                      int64_t end)
{
    kt_row row = {
        .start_ns = start, .end_ns = end, .name = id(b, name), .track = track, .kind = kind};
    return kt_append(b, &row);
}

/* A bit of everything. */
static kineto_trace *small(void)
{
    kt_builder *b;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t host = kt_process(b, false, 10, 0), device = kt_process(b, true, 3, 0);
    kineto_process named = {.name = kb_string("train"), .rank = -1, .ppid = 9};
    kineto_process gpu = {.name = kb_string("GPU"),
                          .rank = -1,
                          .properties_json = kb_string("{\"name\":\"Sim\",\"sms\":8}")};
    kt_process_set(b, host, &named);
    kt_process_set(b, device, &gpu);
    uint32_t thread = kt_track(b, host, KINETO_TRACK_THREAD, 11);
    uint32_t stream = kt_track(b, device, KINETO_TRACK_STREAM, 7);
    uint32_t counters = kt_track(b, host, KINETO_TRACK_COUNTER, 0);
    add(b, thread, KINETO_KIND_USER_ANNOTATION, "ProfilerStep#4", 1000, 2000);
    kt_args_put_int(b, id(b, "i"), -5);
    kt_args_put_uint(b, id(b, "u"), UINT64_MAX);
    kt_args_put_double(b, id(b, "d"), 0.5);
    kt_args_put_bool(b, id(b, "b"), true);
    kt_args_put_string(b, id(b, "s"), (kineto_string){"a\0\xff", 3});
    kt_args_put_json(b, id(b, "j"), KINETO_ARG_JSON, kb_string("null"));
    add(b, thread, KINETO_KIND_CPU_OP, "op", 1100, 1900);
    kt_row launch = {.start_ns = 1200,
                     .end_ns = 1300,
                     .name = id(b, "launch"),
                     .track = thread,
                     .kind = KINETO_KIND_RUNTIME,
                     .correlation_id = 77,
                     .external_id = UINT64_MAX};
    kineto_row from = kt_append(b, &launch);
    kt_row kernel = {.start_ns = 1500,
                     .end_ns = 1700,
                     .name = id(b, "k"),
                     .track = stream,
                     .kind = KINETO_KIND_CONCURRENT_KERNEL,
                     .correlation_id = 77};
    kineto_row to = kt_append(b, &kernel);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 77, from, true);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 77, to, false);
    kt_args_put_int(b, id(b, "power [W]"), 300);
    kt_args_put_double(b, id(b, "load"), 0.25);
    kt_row sample = {.start_ns = 1600,
                     .end_ns = 1600,
                     .name = id(b, "board"),
                     .track = counters,
                     .kind = KINETO_KIND_COUNTER,
                     .form = KINETO_FORM_COUNTER};
    kt_append(b, &sample);
    kt_metadata(b, kb_string("world"), kb_string("{\"size\":2}"));
    kt_ledger_add(b, kb_string("program"), kb_string("dropped"), 3, true, kb_string(""));
    return finish(b);
}

/* Many rows with few values each, so that every index has groups of all sizes. */
static kineto_trace *random_trace(uint32_t rows)
{
    kt_builder *b;
    uint64_t state = 7;
    uint32_t track[4];
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    for (uint32_t i = 0; i < 4; i++)
        track[i] = kt_track(b, kt_process(b, i == 3, 100 + i / 2, 0), KINETO_TRACK_THREAD, i);
    for (uint32_t i = 0; i < rows; i++) {
        char name[24];
        uint64_t r = next_random(&state);
        int64_t start = (int64_t)(r % 1000) * 10;
        snprintf(name, sizeof name, "n%u", (unsigned)(r >> 20) % 50);
        kt_row row = {.start_ns = start,
                      .end_ns = start + (int64_t)(r >> 40) % 500,
                      .name = id(b, name),
                      .track = track[(r >> 30) % 4],
                      .kind = (uint32_t)((r >> 10) % KINETO_KIND_COUNT),
                      .form = (r >> 50) % 8 == 0 ? KINETO_FORM_ASYNC : KINETO_FORM_SLICE,
                      .correlation_id = (r >> 5) % 40,
                      .external_id = (r >> 7) % 30,
                      .async_id = (r >> 50) % 8 == 0 ? 1 + (r >> 9) % 20 : 0};
        kt_append(b, &row);
    }
    return finish(b);
}

/* ---- values ---------------------------------------------------------------------------------------- */

static void each_table_says_what_the_trace_has(void **state)
{
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    (void)state;
    expect(sql,
           "SELECT row, start_ns, end_ns, dur_ns, self_ns, name, kind, form, track, process, lane, "
           "depth, parent, correlation_id, external_id, async_id, launch, launched, open_start, "
           "open_end FROM activities WHERE row IN (2, 3)",
           "2|1200|1300|100|100|launch|runtime|slice|0|0|0|2|1|77|-1|~|~|3|0|0\n"
           "3|1500|1700|200|200|k|kernel|slice|1|1|0|0|~|77|~|~|2|~|0|0\n");
    expect(sql, "SELECT track, process, type, id, name, activities, lanes FROM tracks",
           "0|0|thread|11|~|3|1\n1|1|stream|7|~|1|1\n2|0|counter|0|~|1|1\n");
    expect(sql, "SELECT process, is_device, pid, ppid, name, rank, host FROM processes",
           "0|0|10|9|train|~|~\n1|1|3|~|GPU|~|~\n");
    expect(sql, "SELECT process, device, name, properties ->> '$.sms' FROM devices", "1|3|GPU|8\n");
    expect(sql, "SELECT flow, type, id, from_row, to_row FROM flows", "0|ac2g|77|2|3\n");
    expect(sql, "SELECT * FROM counters",
           "1600|2|0|board|power|W|300|4\n1600|2|0|board|load|~|0.25|4\n");
    expect(sql, "SELECT * FROM steps", "4|1000|2000|1000|0|0|0\n");
    expect(sql, "SELECT key, value ->> '$.size' FROM metadata", "world|2\n");
    expect(sql,
           "SELECT source, reason, count, is_loss, detail FROM ledger WHERE source = 'program'",
           "program|dropped|3|1|~\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void arguments_keep_their_types_and_bytes(void **state)
{
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    (void)state;
    expect(
        sql, "SELECT key, type, typeof(value) FROM args WHERE row = 1",
        "i|int|integer\nu|uint|text\nd|double|real\nb|bool|integer\ns|string|text\nj|json|null\n");
    expect(sql, "SELECT value FROM args WHERE key = 'u'", "18446744073709551615\n");
    expect(sql, "SELECT hex(CAST(value AS BLOB)) FROM args WHERE row = 1 AND key = 's'",
           "6100FF\n");
    expect(sql, "SELECT arg(1, 'i'), arg(1, 'd'), arg(1, 'none'), arg(99, 'i'), arg(-1, 'i')",
           "-5|0.5|~|~|~\n");
    expect(sql, "SELECT arg(2, 'correlation'), arg(1, 'correlation')", "77|~\n");
    expect(sql, "SELECT args ->> '$.i', args ->> '$.d' FROM activities WHERE row = 1", "-5|0.5\n");
    expect(sql, "SELECT count(*) FROM activities WHERE args IS NULL", "3\n");
    expect(sql, "SELECT count(*), count(DISTINCT row) FROM args", "8|2\n");
    expect(sql, "SELECT count(*) FROM args WHERE row = 1.5 OR row = 'x' OR row IS NULL", "0\n");
    expect(sql, "SELECT key FROM args WHERE key = 'I' COLLATE NOCASE", "i\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* What an iterator hands out lives until others are used on the same thread. */
static void cursors_over_arguments_do_not_disturb_each_other(void **state)
{
    kt_builder *b;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    for (int i = 0; i < 40; i++) {
        char text[64];
        snprintf(text, sizeof text, "{\"a\\u0062c\":\"v\\u0061lue %d\",\"n\":%d}", i, i);
        kt_args_verbatim(b, kb_string(text));
        add(b, track, KINETO_KIND_CPU_OP, "x", i, i + 1);
    }
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    expect(
        sql,
        "SELECT count(*), sum(x.value = 'value ' || x.row), sum(y.value = y.row) FROM args x, args "
        "y "
        "WHERE x.key = 'abc' AND y.key = 'n' AND arg(39 - y.row, 'abc') = 'value ' || (39 - y.row)",
        "1600|1600|1600\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void names_keep_their_bytes(void **state)
{
    static const char odd[] = "a\0b\xff\xc3(";
    kt_builder *b;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    kt_row row = {.name = kt_string(b, (kineto_string){odd, sizeof odd - 1}), .track = track};
    kt_append(b, &row);
    row.name = 0;
    kt_append(b, &row);
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    expect(sql, "SELECT hex(CAST(name AS BLOB)) FROM activities WHERE row = 0", "610062FFC328\n");
    expect(sql, "SELECT row FROM activities WHERE name = CAST(x'610062FFC328' AS TEXT)", "0\n");
    expect(sql, "SELECT row, typeof(name) FROM activities WHERE name = ''", "1|text\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void times_at_the_ends_of_what_a_number_holds(void **state)
{
    kt_builder *b;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track =
        kt_track(b, kt_process(b, false, INT64_MIN, 0), KINETO_TRACK_THREAD, INT64_MAX);
    add(b, track, KINETO_KIND_CPU_OP, "all", INT64_MIN, INT64_MAX);
    add(b, track, KINETO_KIND_CPU_OP, "first", INT64_MIN, INT64_MIN);
    add(b, track, KINETO_KIND_CPU_OP, "last", INT64_MAX, INT64_MAX);
    add(b, track, KINETO_KIND_CPU_OP, "ProfilerStep#99999999999999999999", 0, 1);
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    expect(sql, "SELECT dur_ns FROM activities WHERE name = 'all'", "9223372036854775807\n");
    expect(
        sql,
        "SELECT name FROM activities WHERE start_ns <= -9223372036854775808 ORDER BY start_ns, row",
        "all\nfirst\n");
    expect(sql, "SELECT name FROM activities WHERE start_ns >= 9223372036854775807", "last\n");
    expect(sql, "SELECT count(*) FROM activities WHERE start_ns > 1e300", "0\n");
    expect(sql, "SELECT count(*) FROM activities WHERE start_ns > -1e300", "4\n");
    expect(sql, "SELECT count(*) FROM activities WHERE start_ns < 9.3e18", "4\n");
    expect(sql, "SELECT count(*) FROM steps", "0\n");
    expect(sql, "SELECT id FROM tracks", "9223372036854775807\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void an_empty_trace_has_tables_without_lines(void **state)
{
    kt_builder *b;
    size_t count;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    for (size_t i = 0; i < count; i++) {
        char text[128];
        snprintf(text, sizeof text, "SELECT count(*) FROM %s", tables[i]->name);
        if (strcmp(tables[i]->name, "ledger") != 0)
            expect(sql, text, "0\n");
    }
    expect(sql, "SELECT * FROM activities WHERE name = 'x' AND start_ns > 5 ORDER BY start_ns", "");
    expect(sql, "SELECT kind FROM activities GROUP BY kind", "");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* ---- indexes --------------------------------------------------------------------------------------- */

/* The same with and without what the table offers: `+column` keeps it from the planner. */
static void expect_same(ke_sql *sql, const char *fast, const char *slow)
{
    char *a = ask(sql, fast), *b = ask(sql, slow);
    if (strcmp(a, b) != 0)
        fail_msg("%s\n%.500s\nbut %s\n%.500s", fast, a, slow, b);
    free(a);
    free(b);
}

static void every_index_finds_what_a_scan_finds(void **state)
{
    kineto_trace *t = random_trace(5000);
    ke_sql *sql = open_sql(t);
    size_t count;
    (void)state;
    const ke_sql_table *table = ke_sql_schema(&count)[0];
    for (size_t i = 0; i < table->count; i++) {
        const char *c = table->columns[i].name;
        char fast[400], slow[400];
        if (table->columns[i].lookup == KE_SQL_SCAN)
            continue;
        snprintf(fast, sizeof fast,
                 "WITH v AS MATERIALIZED (SELECT DISTINCT +\"%s\" AS x FROM activities) SELECT x, "
                 "count(*), sum(row * 7 %% 1001) FROM v CROSS JOIN activities a ON a.\"%s\" = x "
                 "GROUP BY x ORDER BY x LIMIT 60",
                 c, c);
        snprintf(
            slow, sizeof slow,
            "SELECT +\"%s\" AS x, count(*), sum(row * 7 %% 1001) FROM activities WHERE x IS NOT "
            "NULL GROUP BY x ORDER BY x LIMIT 60",
            c);
        expect_same(sql, fast, slow);
        snprintf(
            fast, sizeof fast,
            "SELECT x, n, s FROM (SELECT \"%s\" AS x, count(*) AS n, sum(row) AS s FROM activities "
            "GROUP BY \"%s\") ORDER BY x, n, s",
            c, c);
        snprintf(
            slow, sizeof slow,
            "SELECT +\"%s\" AS x, count(*) AS n, sum(row) AS s FROM activities GROUP BY x ORDER BY "
            "x, n, s",
            c);
        expect_same(sql, fast, slow);
        snprintf(fast, sizeof fast, "SELECT count(*) FROM (SELECT DISTINCT \"%s\" FROM activities)",
                 c);
        snprintf(slow, sizeof slow,
                 "SELECT count(*) FROM (SELECT DISTINCT +\"%s\" FROM activities)", c);
        expect_same(sql, fast, slow);
    }
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void ranges_of_time_find_what_a_scan_finds(void **state)
{
    static const char *const ranges[] = {"start_ns > 5000",          "start_ns >= 5000",
                                         "start_ns < 5000",          "start_ns <= 4999.5",
                                         "start_ns = 5000",          "start_ns BETWEEN 100 AND 200",
                                         "start_ns > '5000'",        "start_ns > 'x'",
                                         "start_ns < 'x'",           "start_ns > NULL",
                                         "start_ns BETWEEN 9 AND 1", "start_ns > 1e30",
                                         "start_ns < x'00'",         "start_ns > -1"};
    static const char *const filters[] = {"",
                                          " AND kind = 'kernel'",
                                          " AND name = 'n7'",
                                          " AND track = 2",
                                          " AND row = 55",
                                          " AND track IN (1, 3)"};
    kineto_trace *t = random_trace(3000);
    ke_sql *sql = open_sql(t);
    (void)state;
    for (size_t i = 0; i < KB_COUNT(ranges); i++) {
        for (size_t k = 0; k < KB_COUNT(filters); k++) {
            char fast[300], slow[400], range[100];
            for (int down = 0; down < 2; down++) {
                const char *order = down ? "DESC" : "";
                snprintf(range, sizeof range, "%s", ranges[i]);
                snprintf(
                    fast, sizeof fast,
                    "SELECT group_concat(start_ns), count(*), sum(row) FROM (SELECT start_ns, row "
                    "FROM activities WHERE %s%s ORDER BY start_ns %s)",
                    range, filters[k], order);
                snprintf(slow, sizeof slow,
                         "WITH a AS MATERIALIZED (SELECT * FROM activities) SELECT "
                         "group_concat(start_ns), count(*), sum(row) FROM (SELECT start_ns, row "
                         "FROM a WHERE %s%s ORDER BY start_ns %s)",
                         range, filters[k], order);
                expect_same(sql, fast, slow);
            }
        }
    }
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void texts_and_numbers_compare_as_sqlite_says(void **state)
{
    kineto_trace *t = random_trace(500);
    ke_sql *sql = open_sql(t);
    (void)state;
    static const char *const pairs[] = {"name = 'N7' COLLATE NOCASE",
                                        "track = '2'",
                                        "track = 2.0",
                                        "track = 2.5",
                                        "row = '12'",
                                        "row = 12.0",
                                        "row = -1",
                                        "row = 99999999999",
                                        "name = 5",
                                        "name = x'6e37'",
                                        "kind = 'Kernel'",
                                        "track = NULL",
                                        "kind = 'kernel' OR name = 'n3'",
                                        "row IN (5, 3, 5, 7)",
                                        "track = 2e300",
                                        "correlation_id = 0",
                                        "name IN ('n1', 'n2', 'no')"};
    for (size_t i = 0; i < KB_COUNT(pairs); i++) {
        char fast[200], slow[300], rest[100];
        snprintf(fast, sizeof fast, "SELECT count(*), sum(row) FROM activities WHERE %s", pairs[i]);
        snprintf(rest, sizeof rest, "%s", pairs[i]);
        snprintf(slow, sizeof slow,
                 "WITH a AS MATERIALIZED (SELECT * FROM activities) SELECT count(*), sum(row) FROM "
                 "a WHERE %s",
                 rest);
        expect_same(sql, fast, slow);
    }
    expect(sql, "SELECT row FROM activities ORDER BY row DESC LIMIT 2", "499\n498\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* There, '05' is 5: an index by bytes would not find it. */
static void texts_next_to_columns_of_numbers_are_numbers(void **state)
{
    static const char *const names[] = {"01", "1.0", "1", " 1 ", "x", "2"};
    kt_builder *b;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        kt_args_put_int(b, id(b, names[i]), 7);
        add(b, track, KINETO_KIND_CPU_OP, names[i], (int64_t)i * 10, (int64_t)i * 10 + 5);
    }
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    expect(sql,
           "SELECT n.row, a.name FROM activities n CROSS JOIN activities a ON a.name = n.row "
           "ORDER BY a.row",
           "1|01\n1|1.0\n1|1\n1| 1 \n2|2\n");
    expect(sql,
           "SELECT n.row, a.name FROM activities n CROSS JOIN activities a ON a.name = n.row "
           "WHERE a.start_ns > 5 ORDER BY a.start_ns DESC",
           "2|2\n1| 1 \n1|1\n1|1.0\n");
    expect(sql,
           "SELECT n.row, a.row FROM activities n CROSS JOIN args a ON a.key = n.row "
           "ORDER BY a.row",
           "1|0\n1|1\n1|2\n1|3\n2|5\n");
    expect(sql, "SELECT name FROM activities WHERE name = 1", "1\n"); /* a text: no column */
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* Were each depth counted anew, this would not end. */
static void depths_of_a_deep_nest(void **state)
{
    enum { DEEP = 200000 };
    kt_builder *b;
    (void)state;
    assert_int_equal(kt_builder_create(&b, NULL), KINETO_OK);
    uint32_t track = kt_track(b, kt_process(b, false, 1, 0), KINETO_TRACK_THREAD, 1);
    for (int i = 0; i < DEEP; i++)
        add(b, track, KINETO_KIND_CPU_OP, "x", i, 2 * DEEP - i);
    kineto_trace *t = finish(b);
    ke_sql *sql = open_sql(t);
    expect(sql, "SELECT max(depth), sum(depth = row), sum(parent = row - 1) FROM activities",
           "199999|200000|199999\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void functions_of_our_own(void **state)
{
    kineto_trace *t = random_trace(100);
    ke_sql *sql = open_sql(t);
    (void)state;
    expect(sql, "SELECT us(1500), ms(1500000), us(NULL), us('x'), us('2000')", "1.5|1.5|~|~|2\n");
    expect(sql, "SELECT 'aten::add' REGEXP '^aten::(add|mul)$', 'x' REGEXP 'y', NULL REGEXP 'x'",
           "1|0|~\n");
    expect(sql,
           "SELECT percentile(v, 50), percentile(v, 0), percentile(v, 100) FROM "
           "(SELECT value AS v FROM json_each('[5,1,4,2,3]'))",
           "3|1|5\n");
    expect(sql, /* 7 / 100 * 100 is more than 7 */
           "WITH RECURSIVE n(v) AS (SELECT 1 UNION ALL SELECT v + 1 FROM n LIMIT 100) SELECT "
           "sum(percentile = p) FROM (SELECT p.v AS p, percentile(n.v, p.v) AS percentile "
           "FROM n p CROSS JOIN n GROUP BY p.v)",
           "100\n");
    expect(sql, /* times: more than a double holds */
           "SELECT percentile(value, 50), percentile(value, 100) FROM "
           "json_each('[1700000000000000003,1700000000000000001,1700000000000000002]')",
           "1700000000000000002|1700000000000000003\n");
    expect(sql, "SELECT percentile(value, 50) FROM json_each('[9007199254740993, 0.5, 9e18]')",
           "9007199254740993\n");
    expect(sql,
           "SELECT count(*) > 10 FROM (SELECT name, percentile(dur_ns, 99) AS p FROM activities "
           "GROUP BY name) WHERE p >= 0",
           "1\n");
    expect_error(sql, "SELECT percentile(1, 101)", KINETO_E_ARGUMENT, "0 to 100");
    expect_error(sql, "SELECT percentile(dur_ns, row) FROM activities", KINETO_E_ARGUMENT,
                 "0 to 100");
    expect_error(sql, "SELECT 'x' REGEXP '('", KINETO_E_ARGUMENT, "regular expression '('");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* ---- what is refused --------------------------------------------------------------------------------- */

static void a_query_only_reads(void **state)
{
    static const char *const writes[] = {"CREATE TABLE x(a)",
                                         "CREATE TEMP TABLE x(a)",
                                         "CREATE VIEW v AS SELECT 1",
                                         "PRAGMA page_size",
                                         "CREATE VIRTUAL TABLE v USING fts5(a)",
                                         "ATTACH ':memory:' AS other",
                                         "DETACH main",
                                         "BEGIN",
                                         "VACUUM",
                                         "VACUUM INTO '/tmp/ckineto-must-not-be'",
                                         "INSERT INTO sqlite_master VALUES (1,2,3,4,5)",
                                         "ANALYZE",
                                         "SAVEPOINT x",
                                         "SELECT * FROM pragma_database_list",
                                         "SELECT load_extension('x')",
                                         "SELECT fts3_tokenizer('simple')",
                                         " /* read */ -- all\n DROP TABLE activities",
                                         "WITH x AS (SELECT 1) INSERT INTO args SELECT 1, 2, 3, 4"};
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    (void)state;
    for (size_t i = 0; i < KB_COUNT(writes); i++)
        expect_error(sql, writes[i], KINETO_E_PERMISSION, "a query only reads");
    expect_error(sql, "UPDATE activities SET name = 'x'", KINETO_E_ARGUMENT, "may not be modified");
    expect_error(sql, "DELETE FROM activities", KINETO_E_ARGUMENT, "may not be modified");
    expect_error(sql, "ALTER TABLE args RENAME TO x", KINETO_E_ARGUMENT, "may not be altered");
    assert_int_not_equal(access("/tmp/ckineto-must-not-be", F_OK), 0);
    expect(sql, "SELECT count(*) FROM activities", "5\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static void mistakes_are_named_with_their_place(void **state)
{
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    kineto_error err = {0};
    ke_sql_query *query;
    size_t used;
    (void)state;
    assert_int_equal(
        ke_sql_prepare(sql, kb_string("SELECT dur FROM activities"), &used, &query, &err),
        KINETO_E_ARGUMENT);
    assert_int_equal(err.offset, 7);
    expect_error(sql, "SELECT * FROM nowhere", KINETO_E_ARGUMENT, "no such table: nowhere");
    expect_error(sql, "SELECT 1 +", KINETO_E_ARGUMENT, "incomplete input");
    expect_error(sql, "SELECT x'", KINETO_E_ARGUMENT, "unrecognized");
    expect(sql, " -- nothing\n", "");
    assert_int_equal(ke_sql_prepare(sql, kb_string("SELECT 1; SELECT 2"), &used, &query, &err),
                     KINETO_OK);
    assert_int_equal(used, 9);
    ke_sql_finish(query);
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* Neither deep nor long: limits are errors. */
static void absurd_queries_end_with_an_error(void **state)
{
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    (void)state;
    enum { SIZE = 400000 };
    char *text = malloc(SIZE + 100);
    strcpy(text, "SELECT ");
    memset(text + 7, '(', SIZE);
    text[SIZE] = '\0';
    expect_error(sql, text, KINETO_E_ARGUMENT, "");
    memset(text, '%', SIZE);
    memcpy(text, "SELECT 'a' LIKE '", 17);
    strcpy(text + SIZE, "b'");
    expect_error(sql, text, KINETO_E_ARGUMENT, "too complex");
    free(text);
    expect_error(sql, "SELECT length(zeroblob(2000000000))", KINETO_E_LIMIT, "too big");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

static atomic_bool is_over;

/* More than once: an interrupt before the query runs has no effect. */
static void *interrupt_soon(void *sql)
{
    do {
        nanosleep(&(struct timespec){0, 50000000}, NULL);
        ke_sql_interrupt(sql);
    } while (!atomic_load(&is_over));
    return NULL;
}

static void a_query_without_end_can_be_interrupted(void **state)
{
    kineto_trace *t = small();
    ke_sql *sql = open_sql(t);
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, interrupt_soon, sql), 0);
    expect_error(
        sql,
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT count(*) FROM n",
        KINETO_E_STATE, "interrupted");
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    expect(sql, "SELECT 1", "1\n");
    ke_sql_close(sql);
    kineto_trace_release(t);
}

/* ---- databases ----------------------------------------------------------------------------------------- */

static char *whole_file(const char *path, size_t *size)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    char *data = malloc((size_t)st.st_size + 1);
    *size = read_whole(path, data, (size_t)st.st_size + 1);
    return data;
}

static void the_same_trace_gives_the_same_database(void **state)
{
    char directory[256], path[300];
    size_t sizes[2];
    char *bytes[2];
    kineto_trace *t = random_trace(2000);
    kineto_export_result result = {.size = sizeof result};
    (void)state;
    assert_non_null(make_directory(directory, sizeof directory));
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof path, "%s/%d.sqlite", directory, i);
        assert_int_equal(ke_sqlite_write_path(t, path, &result, NULL), KINETO_OK);
        bytes[i] = whole_file(path, &sizes[i]);
        unlink(path);
    }
    assert_int_equal(result.activities, 2000);
    assert_int_equal(result.bytes, sizes[1]);
    assert_int_equal(sizes[0], sizes[1]);
    assert_memory_equal(bytes[0], bytes[1], sizes[0]);
    assert_memory_equal(bytes[0], "SQLite format 3", 16);
    free(bytes[0]);
    free(bytes[1]);
    assert_int_equal(rmdir(directory), 0); /* nothing else was left */
    kineto_trace_release(t);
}

static void a_database_that_cannot_be_written_leaves_nothing(void **state)
{
    char directory[256], path[300];
    kineto_trace *t = small();
    kineto_error err = {0};
    (void)state;
    assert_non_null(make_directory(directory, sizeof directory));
    assert_int_equal(ke_sqlite_write_path(t, "-", NULL, &err), KINETO_E_UNSUPPORTED);
    assert_int_equal(ke_sqlite_write_path(t, "/dev/null", NULL, &err), KINETO_E_UNSUPPORTED);
    assert_int_equal(ke_sqlite_write_path(t, directory, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(ke_sqlite_write_path(NULL, "x", NULL, &err), KINETO_E_ARGUMENT);
    snprintf(path, sizeof path, "%s/none/t.sqlite", directory);
    assert_int_equal(ke_sqlite_write_path(t, path, NULL, &err), KINETO_E_NOT_FOUND);
    snprintf(path, sizeof path, "%s/fifo", directory);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ke_sqlite_write_path(t, path, NULL, &err), KINETO_E_UNSUPPORTED);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
    kineto_trace_release(t);
}

/* In a child: the limit is for ever, and its signal kills unless it is kept away. */
static void a_database_beyond_the_size_of_files_is_an_error_and_leaves_nothing(void **state)
{
    char directory[256], path[300];
    kineto_trace *t = random_trace(20000);
    int status;
    (void)state;
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/t.sqlite", directory);
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit limit = {65536, 65536};
        kineto_error err = {0};
        sigset_t waiting;
        (void)signal(SIGXFSZ, SIG_DFL);
        setrlimit(RLIMIT_FSIZE, &limit);
        bool reported = ke_sqlite_write_path(t, path, NULL, &err) == KINETO_E_LIMIT &&
                    err.os_error == EFBIG && strstr(err.message, path);
        sigpending(&waiting);
        _exit(reported && !sigismember(&waiting, SIGXFSZ) ? 0 : 1);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(rmdir(directory), 0);
    kineto_trace_release(t);
}

static void an_old_file_is_replaced_as_a_whole(void **state)
{
    char directory[256], path[300];
    kineto_trace *t = small();
    size_t size;
    (void)state;
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/t.db", directory);
    FILE *old = fopen(path, "w");
    fputs("not a database at all", old);
    fclose(old);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(ke_sqlite_write_path(t, path, NULL, NULL), KINETO_OK);
    char *bytes = whole_file(path, &size);
    assert_memory_equal(bytes, "SQLite format 3", 16);
    free(bytes);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
    kineto_trace_release(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_table_says_what_the_trace_has),
        cmocka_unit_test(arguments_keep_their_types_and_bytes),
        cmocka_unit_test(cursors_over_arguments_do_not_disturb_each_other),
        cmocka_unit_test(names_keep_their_bytes),
        cmocka_unit_test(times_at_the_ends_of_what_a_number_holds),
        cmocka_unit_test(an_empty_trace_has_tables_without_lines),
        cmocka_unit_test(every_index_finds_what_a_scan_finds),
        cmocka_unit_test(ranges_of_time_find_what_a_scan_finds),
        cmocka_unit_test(texts_and_numbers_compare_as_sqlite_says),
        cmocka_unit_test(texts_next_to_columns_of_numbers_are_numbers),
        cmocka_unit_test(depths_of_a_deep_nest),
        cmocka_unit_test(functions_of_our_own),
        cmocka_unit_test(a_query_only_reads),
        cmocka_unit_test(mistakes_are_named_with_their_place),
        cmocka_unit_test(absurd_queries_end_with_an_error),
        cmocka_unit_test(a_query_without_end_can_be_interrupted),
        cmocka_unit_test(the_same_trace_gives_the_same_database),
        cmocka_unit_test(a_database_that_cannot_be_written_leaves_nothing),
        cmocka_unit_test(a_database_beyond_the_size_of_files_is_an_error_and_leaves_nothing),
        cmocka_unit_test(an_old_file_is_replaced_as_a_whole),
    };
    size_t count;
    ke_sql_schema(&count);
    if (!count) {
        puts("built without SQLite: skipped");
        return 77;
    }
    return RUN_TESTS(tests);
}
