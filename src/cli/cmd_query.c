/* ckineto query: query a trace in SQL. The tables read the trace directly (src/export/sql*.c);
 * nothing is copied. Results are written by src/cli/query. Statements run one after the other, and
 * the first error ends the command. */
#include "cli/query/query.h"
#include "cli/open_many.h"

#include <errno.h>
#include <unistd.h>

static const char *format_name, *output_path, *query_file, *rank;
static bool schema, as_json;
static uint64_t width = 60;
static const kc_option option_list[] = {
    {"format", 0, KC_TEXT, &format_name, "FORMAT",
     "table, csv, json (the rows alone, as a list), jsonl, markdown or\nobject; default: from the ending of --output, else table"},
    {"json", 'j', KC_FLAG, &as_json, NULL,
     "one JSON object for all rows of a statement, with its schema and\ncolumns (--format object)"},
    {"output", 'o', KC_TEXT, &output_path, "FILE", "write there instead of the standard output"},
    {"file", 'f', KC_TEXT, &query_file, "FILE", "read the query from a file; '-': standard input"},
    {"width", 0, KC_NUMBER, &width, "N", "columns of a text in a table (60); 0: never cut"},
    KC_RANK_OPTION(rank),
    KC_ALIGN_OPTION,
    KC_READING_OPTIONS,
    {"schema", 0, KC_FLAG, &schema, NULL, "list the tables, their columns and the functions"},
};
static const kc_options options = {
    "query",
    "[options] TRACE... SQL",
    "Query a trace in SQL. Nothing is copied or written: the tables are the trace.\n"
    "Times are nanoseconds. Several statements may follow each other.",
    "ckineto query trace.json \"SELECT kind, count(*) FROM activities GROUP BY kind\"\n"
    "ckineto query --schema",
    option_list,
    KB_COUNT(option_list),
    false};

/* ---- the text of a query --------------------------------------------------------------------- */

typedef KB_VEC(char) query_text;

/* Append the text of a stream to `out`, up to MAX_BYTES. */
static kineto_status read_query_stream(FILE *in, const char *name, query_text *out,
                                       kineto_error *err)
{
    enum { CHUNK_BYTES = 16384, MAX_BYTES = 64 << 20 };
    size_t n = 1;
    while (n > 0 && out->count <= MAX_BYTES) {
        if (!kb_vec_reserve(out, out->count + CHUNK_BYTES))
            return kb_fail(err, KINETO_E_MEMORY, "query in %s: out of memory", name);
        n = fread(out->data + out->count, 1, CHUNK_BYTES, in);
        out->count += n;
    }
    if (ferror(in))
        return kb_fail_os(err, errno, "cannot read %s", name);
    return out->count > MAX_BYTES ? kb_fail(err, KINETO_E_LIMIT, "%s is too long for a query", name)
                                  : KINETO_OK;
}

/* "-" is the standard input. */
static kineto_status read_query_file(const char *path, query_text *out, kineto_error *err)
{
    if (strcmp(path, "-") == 0)
        return read_query_stream(stdin, "the standard input", out, err);
    FILE *in = fopen(path, "re");
    if (!in)
        return kb_fail_os(err, errno, "cannot open '%s'", path);
    kineto_status status = read_query_stream(in, path, out, err);
    fclose(in);
    return status;
}

/* ---- running --------------------------------------------------------------------------------- */

/* Prepare and run the first statement of `rest`. A mistake is explained within the text of all
 * statements. @param used  receives the bytes of the statement. */
static kineto_status run_statement(ke_sql *sql, kineto_string all, kineto_string rest,
                                   kc_query_output *out, size_t *used, kineto_error *err)
{
    ke_sql_query *query = NULL;
    kineto_status status = ke_sql_prepare(sql, rest, used, &query, err);
    if (status) {
        kc_query_explain(all, rest, err);
        return status;
    }
    kc_query_watch_statement(true);
    if (query) /* NULL: only blanks or a comment */
        status = kc_query_write(query, out, err);
    kc_query_watch_statement(false);
    kb_sink_flush(out->sink); /* the next statement may take long */
    if (status) {
        err->offset = UINT64_MAX; /* errors of execution have no place in the text */
        kc_query_explain(all, rest, err);
    }
    ke_sql_finish(query);
    return status;
}

/* An interrupt between two statements: the next one is named as the place. */
static kineto_status fail_interrupted(kineto_string all, kineto_string rest, kineto_error *err)
{
    kb_fail(err, KINETO_E_STATE, "the query was interrupted");
    kc_query_explain(all, rest, err);
    return err->code;
}

/* Run the statements of `all` one after the other. @param exit  receives the exit status of an
 *    error, which was reported. */
static kineto_status run_statements(ke_sql *sql, kineto_string all, kc_query_output *out, int *exit)
{
    kineto_string rest = all;
    kineto_error err = {0};
    kineto_status status = KINETO_OK;
    while (rest.size && status == KINETO_OK && !kb_sink_failed(out->sink)) {
        size_t used = 0;
        status = kc_query_interrupted() ? fail_interrupted(all, rest, &err)
                                        : run_statement(sql, all, rest, out, &used, &err);
        KB_ASSERT(used <= rest.size);
        rest = (kineto_string){rest.data + used, rest.size - used};
    }
    if (status == KINETO_E_ARGUMENT || status == KINETO_E_PERMISSION)
        *exit = KC_EXIT_USAGE;
    else if (status)
        *exit = KC_EXIT_FAILURE;
    return status;
}

/* Close the output, or abort an output file after an error. @return the exit status. */
static int finish_query_output(kc_query_output *out, kineto_status status, int exit)
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
        kc_complain("query: %s %s of names that are not UTF-8 became U+FFFD; csv keeps them",
                    kc_count(out->replaced).s, kc_noun(out->replaced, "part", "parts"));
    return exit ? exit : closed ? KC_EXIT_FAILURE : 0;
}

/* Open the trace, the connection and the output, and run all statements. @return the exit status.
 */
static int run_query(char *const *paths, int count, kineto_string sql_text, kc_query_format format)
{
    kineto_error err = {0};
    kineto_trace *trace = NULL;
    ke_sql *sql = NULL;
    ka_coverage coverage = {0};
    kc_query_output out = {.format = format, .width = (size_t)width, .coverage = &coverage};
    int exit = 0;
    int32_t of_rank;
    if (kc_parse_rank("query", rank, &of_rank))
        return KC_EXIT_USAGE;
    kineto_status status = kc_open_covered_traces(paths, count, of_rank, format == KC_QUERY_OBJECT ? &coverage : NULL,
                                                  &trace, &err);
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
        exit = finish_query_output(&out, status, exit);
        kc_query_watch_end();
    }
    ke_sql_close(sql);
    ka_coverage_free(&coverage);
    kineto_trace_release(trace);
    return kc_query_end_as_interrupted(exit);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static bool has_ending(const char *path, const char *ending)
{
    size_t size = strlen(path), wanted = strlen(ending);
    return size >= wanted && strcmp(path + size - wanted, ending) == 0;
}

/* --format, else by the ending of --output, else a table. */
static kineto_status choose_query_format(kc_query_format *format)
{
    static const char *const endings[] = {NULL, ".csv", ".json", ".jsonl", ".md", NULL};
    *format = as_json ? KC_QUERY_OBJECT : KC_QUERY_TABLE;
    if (as_json)
        return format_name ? kc_usage_error("query", "--json is a format: it does not go with --format")
                           : KINETO_OK;
    for (size_t i = 0; i < KC_QUERY_FORMATS; i++)
        if (format_name ? strcmp(format_name, kc_query_format_names[i]) == 0
                        : endings[i] && output_path && has_ending(output_path, endings[i])) {
            *format = (kc_query_format)i;
            return KINETO_OK;
        }
    return format_name ? kc_usage_error("query",
                                        "--format is table, csv, json, jsonl, markdown or object, not '%s'",
                                        format_name)
                       : KINETO_OK;
}

/* Without SQLite the schema is empty, and the error of opening explains why. */
static int print_query_schema(void)
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

/* All operands but the query are traces. A query without quotes appears as several traces. */
static kineto_status check_query_operands(int operands, char **argv)
{
    int traces = query_file ? operands : operands - 1;
    if (operands < 1)
        return kc_usage_error("query", "no trace given: name the trace, then the query");
    if (!traces)
        return kc_usage_error("query", "no query given: name it after '%s', or with --file",
                              argv[1]);
    if (access(argv[1], F_OK) != 0 && strchr(argv[1], ' '))
        return kc_usage_error("query", "'%s' does not exist: the trace comes first, then the query",
                              argv[1]);
    for (int i = 2; i <= traces; i++)
        if (access(argv[i], F_OK) != 0)
            return kc_usage_error(
                "query", "'%s' does not exist: the query is one argument, in quotes", argv[i]);
    return KINETO_OK;
}

/* Where the query comes from: a file, "-" for the standard input, or NULL: the last operand
 * itself. */
static const char *find_query_file(const char *last_operand)
{
    if (query_file)
        return query_file;
    return strcmp(last_operand, "-") == 0 ? last_operand : NULL;
}

/* All checks of the command line that need no trace.
 * @param traces  the number of trace operands. */
static kineto_status check_query_options(int operands, int traces, char **argv,
                                         kc_query_format *format)
{
    kineto_status status = check_query_operands(operands, argv);
    if (status)
        return status;
    status = choose_query_format(format);
    if (status)
        return status;
    const char *path = find_query_file(argv[operands]);
    if (path && strcmp(path, "-") == 0 && strcmp(argv[1], "-") == 0)
        return kc_usage_error("query", "the standard input is the trace or the query, not both");
    return kc_check_outputs("query", argv + 1, traces, &output_path, 1, false);
}

int kc_query(int argc, char **argv)
{
    int operands, exit = KC_EXIT_USAGE;
    query_text from_file = {0};
    kineto_error err = {0};
    kc_query_format format;
    kineto_status status = kc_parse_options(&options, argc, argv, &operands);
    if (status == KINETO_E_NOT_FOUND)
        return kc_finish_stdout("query", 0);
    if (status)
        return KC_EXIT_USAGE;
    if (schema)
        return print_query_schema();
    int traces = query_file ? operands : operands - 1;
    if (check_query_options(operands, traces, argv, &format))
        return KC_EXIT_USAGE;
    const char *path = find_query_file(argv[operands]);
    kineto_string sql_text = kb_string(argv[operands]);
    if (path && read_query_file(path, &from_file, &err) != KINETO_OK) {
        kc_complain_of("query", &err);
    } else {
        if (path)
            sql_text = (kineto_string){from_file.data, from_file.count};
        exit = run_query(argv + 1, traces, sql_text, format);
    }
    kb_vec_free(&from_file);
    return exit;
}
