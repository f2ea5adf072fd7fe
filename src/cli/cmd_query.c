/* ckineto query: ask a trace questions in SQL. */
#include "cli/query/query.h"
#include "cli/several.h"

#include <errno.h>
#include <unistd.h>

static const char *format_name, *output_path, *query_file, *rank;
static bool schema;
static uint64_t width = 60;
static const kc_option option_list[] = {
    {"format", 0, KC_TEXT, &format_name, "FORMAT",
     "table, csv, json, jsonl or markdown; default: as the\nending of --output says, else table"},
    {"output", 'o', KC_TEXT, &output_path, "FILE", "write there instead of the standard output"},
    {"file", 'f', KC_TEXT, &query_file, "FILE", "read the query from a file; '-': standard input"},
    {"width", 0, KC_NUMBER, &width, "N", "columns of a text in a table, 60; 0: never cut"},
    {"rank", 'r', KC_TEXT, &rank, "N", "of several files, or of one with several ranks: this one"},
    KC_READING_OPTIONS,
    {"schema", 0, KC_FLAG, &schema, NULL, "list the tables, their columns and the functions"},
};
static const kc_options options = {
    "query",
    "[options] TRACE... SQL",
    "Ask a trace questions in SQL. Nothing is copied or written: the tables are the trace.\n"
    "Times are nanoseconds. Several statements may follow each other.\n"
    "Example: ckineto query t.json \"SELECT name, sum(dur_ns) FROM activities\n"
    "                               WHERE kind = 'kernel' GROUP BY name ORDER BY 2 DESC\"",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- the text of a query --------------------------------------------------------------------- */

typedef KB_VEC(char) text;

static kineto_status read_stream(FILE *in, const char *name, text *out, kineto_error *err)
{
    enum { PIECE = 16384, MOST = 64 << 20 };
    size_t n = 1;
    while (n > 0 && out->count <= MOST) {
        if (!kb_vec_reserve(out, out->count + PIECE))
            return kb_fail(err, KINETO_E_MEMORY, "no memory for the query in %s", name);
        n = fread(out->data + out->count, 1, PIECE, in);
        out->count += n;
    }
    if (ferror(in))
        return kb_fail_os(err, errno, "cannot read %s", name);
    return out->count > MOST
               ? kb_fail(err, KINETO_E_LIMIT, "%s is longer than any query can be", name)
               : KINETO_OK;
}

static kineto_status read_query(const char *path, text *out, kineto_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_stream(stdin, "the standard input", out, err);
    FILE *in = fopen(path, "re");
    if (!in)
        return kb_fail_os(err, errno, "cannot open '%s'", path);
    kineto_status status = read_stream(in, path, out, err);
    fclose(in);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

static kineto_status run_statements(ke_sql *sql, kineto_string all, kc_query_output *out, int *exit)
{
    kineto_string rest = all;
    kineto_error err = {0};
    kineto_status status = KINETO_OK;
    while (rest.size && status == KINETO_OK && !kb_sink_failed(out->sink)) {
        ke_sql_query *query;
        size_t used;
        if (kc_query_interrupted())
            status = kb_fail(&err, KINETO_E_STATE, "the query was interrupted");
        else
            status = ke_sql_prepare(sql, rest, &used, &query, &err);
        bool prepared = status == KINETO_OK;
        kc_query_watch_statement(prepared);
        if (prepared && query)
            status = kc_query_write(query, out, &err);
        kc_query_watch_statement(false);
        kb_sink_flush(out->sink); /* the next one may take long */
        if (status) {
            bool wrong = status == KINETO_E_ARGUMENT || status == KINETO_E_PERMISSION;
            *exit = wrong ? KC_EXIT_USAGE : KC_EXIT_FAILURE;
            err.offset = prepared ? UINT64_MAX : err.offset;
            kc_query_explain(all, rest, &err);
        }
        if (prepared)
            ke_sql_finish(query);
        rest = prepared ? (kineto_string){rest.data + used, rest.size - used} : rest;
    }
    return status;
}

static int finish(kc_query_output *out, kineto_status status, int exit)
{
    kineto_error err = {0};
    if (status && output_path) {
        kb_sink_abort(out->sink);
        return exit;
    }
    kineto_status closed = kb_sink_close(out->sink, &err);
    if (closed && !(err.os_error == EPIPE && !output_path))
        kc_complain_of("query", &err);
    if (out->replaced)
        kc_complain("query: %s %s of names that are no UTF-8 became U+FFFD; csv keeps them",
                    kc_count(out->replaced).s, kc_noun(out->replaced, "part", "parts"));
    return exit ? exit : closed ? KC_EXIT_FAILURE : 0;
}

static int query(char *const *paths, int count, kineto_string sql_text, kc_query_format format)
{
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    ke_sql *sql = NULL;
    kc_query_output out = {.format = format, .width = (size_t)width};
    int exit = 0;
    int32_t of_rank;
    if (kc_parse_rank("query", rank, &of_rank))
        return KC_EXIT_USAGE;
    kineto_status status = kc_open_traces(paths, count, of_rank, &trace, &err);
    if (status == KINETO_OK)
        status = ke_sql_open(trace, &sql, &err);
    const char *target = output_path ? output_path : "-";
    if (status == KINETO_OK)
        status = kb_sink_open_file(target, kb_compression_of(target), &out.sink, &err);
    if (status) {
        kc_complain_of("query", &err);
        exit = trace ? KC_EXIT_FAILURE : KC_EXIT_USAGE;
    } else {
        kc_query_watch_begin(sql, &out, !output_path);
        status = run_statements(sql, sql_text, &out, &exit);
        exit = finish(&out, status, exit);
        kc_query_watch_end();
    }
    ke_sql_close(sql);
    kineto_trace_release(trace);
    return kc_query_end_as_interrupted(exit);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *ending)
{
    size_t size = strlen(path), wanted = strlen(ending);
    return size >= wanted && strcmp(path + size - wanted, ending) == 0;
}

static kineto_status choose_format(kc_query_format *format)
{
    static const char *const endings[] = {"", ".csv", ".json", ".jsonl", ".md"};
    *format = KC_QUERY_TABLE;
    for (size_t i = 0; i < KC_QUERY_FORMATS; i++)
        if (format_name ? strcmp(format_name, kc_query_format_names[i]) == 0
                        : i > 0 && output_path && ends_with(output_path, endings[i])) {
            *format = (kc_query_format)i;
            return KINETO_OK;
        }
    return format_name ? kc_usage_error("query",
                                        "--format is table, csv, json, jsonl or markdown, not '%s'",
                                        format_name)
                       : KINETO_OK;
}

static int print_schema(void)
{
    kineto_error err = {0};
    size_t count;
    ke_sql *sql;
    if (ke_sql_schema(&count))
        kc_query_print_schema(stdout);
    else if (ke_sql_open(NULL, &sql, &err))
        kc_complain_of("query", &err);
    return kc_finish_stdout("query", err.code ? KC_EXIT_FAILURE : 0);
}

/* All but the last are traces; a query in pieces, for want of quotes, looks like more of them. */
static kineto_status check_operands(int operands, char **argv)
{
    int traces = query_file ? operands : operands - 1;
    if (operands < 1)
        return kc_usage_error("query", "name the trace to ask, then the query");
    if (!traces)
        return kc_usage_error("query", "what is the query? Give it behind '%s', or with --file",
                              argv[1]);
    if (access(argv[1], F_OK) != 0 && strchr(argv[1], ' '))
        return kc_usage_error("query", "'%s' is no file: the trace comes first, then the query",
                              argv[1]);
    for (int i = 2; i <= traces; i++)
        if (access(argv[i], F_OK) != 0)
            return kc_usage_error("query", "'%s' is no file: the query is one argument, in quotes",
                                  argv[i]);
    return KINETO_OK;
}

int kc_query(int argc, char **argv)
{
    int operands, exit = KC_EXIT_USAGE;
    text from_file = {0};
    kineto_error err = {0};
    kc_query_format format;
    kineto_status status = kc_parse(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("query", 0);
    if (status == KINETO_OK && schema)
        return print_schema();
    if (status == KINETO_OK)
        status = check_operands(operands, argv);
    if (status == KINETO_OK)
        status = choose_format(&format);
    if (status == KINETO_OK)
        status = kc_check_outputs("query", argv + 1, query_file ? operands : operands - 1,
                                  &output_path, 1, false);
    if (status)
        return KC_EXIT_USAGE;
    const char *last = argv[operands];
    const char *path = query_file ? query_file : strcmp(last, "-") == 0 ? last : NULL;
    if (path && strcmp(path, "-") == 0 && strcmp(argv[1], "-") == 0) {
        kc_usage_error("query", "the standard input is the trace or the query, not both");
        return KC_EXIT_USAGE;
    }
    if (path && read_query(path, &from_file, &err) != KINETO_OK)
        kc_complain_of("query", &err);
    else
        exit = query(argv + 1, query_file ? operands : operands - 1,
                     path ? (kineto_string){from_file.data, from_file.count} : kb_string(last),
                     format);
    kb_vec_free(&from_file);
    return exit;
}
