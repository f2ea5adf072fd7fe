/* SQL: any text as a query over a trace, and every table of any trace. Nothing crashes, what is
 * refused is refused with a word, and a query that is interrupted ends. A text that begins
 * with '{' is a trace, any other one queries. */
#include "export/sql.h"
#include "read.h"

#include <string.h>

#define MOST_LOOKS 200 /* then a query is interrupted */
#define MOST_LINES 2000
#define MOST_BYTES 4096 /* of queries: SQLite's own parser has fuzzers of its own */

static const char example[] =
    "{\"schemaVersion\": 1, \"traceEvents\": [\n"
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\",\"pid\":1,\"tid\":2,\"ts\":1,\"dur\":9,"
    "\"args\":{\"External id\":3,\"Input Dims\":[[1,2],[]]}},\n"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":3,\"dur\":4,"
    "\"args\":{\"stream\":7,\"correlation\":9,\"grid\":[1,2,3]}},\n"
    "{\"ph\":\"C\",\"name\":\"c\",\"pid\":1,\"ts\":2,\"args\":{\"x\":1}}]}";

static int looks;
static bool look(void *context)
{
    (void)context;
    return ++looks < MOST_LOOKS;
}

static void touch(ke_sql_cell c)
{
    if (c.type != KE_SQL_TEXT && c.type != KE_SQL_BLOB)
        return;
    volatile char last = 0;
    for (size_t i = 0; i<c.text.size; i += c.text.size> 4096 ? 512 : 1)
        last = c.text.data[i];
    (void)last;
}

static void run(ke_sql_query *query)
{
    kineto_error err = {.message = ""};
    bool there = true;
    for (int line = 0; line < MOST_LINES; line++) {
        if (ke_sql_step(query, &there, &err) != KINETO_OK) {
            fuzz_check(err.message[0], "it failed without a word");
            return;
        }
        for (size_t i = 0; there && i < ke_sql_width(query); i++)
            touch(ke_sql_cell_at(query, i));
        if (!there)
            return;
    }
}

static void ask(ke_sql *sql, kineto_string text)
{
    while (text.size) {
        ke_sql_query *query = NULL;
        kineto_error err = {.message = ""};
        size_t used = 0;
        looks = 0;
        if (ke_sql_prepare(sql, text, &used, &query, &err) != KINETO_OK) {
            fuzz_check(err.message[0], "refused without a word");
            fuzz_check(err.offset == UINT64_MAX || err.offset <= text.size, "a place beyond it");
            return;
        }
        fuzz_check(used <= text.size, "more was taken than there is");
        if (query)
            run(query);
        ke_sql_finish(query);
        if (!query || used == 0)
            return;
        text = (kineto_string){text.data + used, text.size - used};
    }
}

static ke_sql *open_sql(const char *text, size_t size)
{
    kineto_error err;
    ke_sql *sql = NULL;
    kineto_trace *trace = fuzz_open(fuzz_file(FUZZ_IN, text, size), 1, false, &err);
    if (trace && ke_sql_open(trace, &sql, &err) == KINETO_OK)
        ke_sql_watch(sql, look, NULL);
    kineto_trace_release(trace);
    return sql;
}

static void ask_tables(ke_sql *sql)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    for (size_t i = 0; i < count; i++) {
        char text[256];
        snprintf(text, sizeof text, "SELECT * FROM %s", tables[i]->name);
        ask(sql, kb_string(text));
        for (size_t k = 0; k < tables[i]->count; k++) {
            const char *column = tables[i]->columns[k].name;
            snprintf(text, sizeof text, "SELECT count(*), min(\"%s\") FROM %s WHERE \"%s\" = 1",
                     column, tables[i]->name, column);
            ask(sql, kb_string(text));
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static ke_sql *sql;
    if (size && data[0] == '{') {
        ke_sql *other = open_sql((const char *)data, size);
        if (other)
            ask_tables(other);
        ke_sql_close(other);
        return 0;
    }
    if (!sql)
        sql = open_sql(example, sizeof example - 1);
    if (sql && size <= MOST_BYTES)
        ask(sql, (kineto_string){(const char *)data, size});
    return 0;
}
