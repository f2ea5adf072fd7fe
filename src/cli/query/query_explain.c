/* The schema of the tables, and explanations of mistakes in a query: the line with a mark below the
 * place, and the tables, columns or functions that exist. */
#include "cli/names.h"
#include "cli/query/query.h"


/* ---- the schema ------------------------------------------------------------------------------ */

/* Columns with their types; hidden ones are not part of *. */
static void print_table_schema(const ke_sql_table *table, FILE *out)
{
    fprintf(out, "%s: %s\n", table->name, table->about);
    for (size_t i = 0; i < table->count; i++) {
        const ke_sql_column *c = &table->columns[i];
        fprintf(out, "  %-15s %-8s %s%s\n", c->name, c->type[0] ? c->type : "any", c->about,
                c->hidden ? "; not in *" : "");
    }
    fputc('\n', out);
}

/* Tables, then functions. */
void kc_query_print_schema(FILE *out)
{
    size_t tables, functions;
    const ke_sql_table *const *table = ke_sql_schema(&tables);
    const ke_sql_function *function = ke_sql_functions(&functions);
    for (size_t i = 0; i < tables; i++)
        print_table_schema(table[i], out);
    fputs("Functions, in addition to those of SQLite:\n", out);
    for (size_t i = 0; i < functions; i++)
        fprintf(out, "  %-22s %s\n", function[i].call, function[i].about);
}

/* ---- the place ------------------------------------------------------------------------------- */

/* The line that contains `place`, shortened at both sides, and a mark below the place. */
static void print_marked_line(kineto_string text, size_t place)
{
    enum { SIDE = 60 };
    size_t from = place, to = place, line = 1;
    for (size_t i = 0; i < place; i++)
        line += text.data[i] == '\n';
    while (from > 0 && text.data[from - 1] != '\n' && place - from < SIDE)
        from--;
    while (to < text.size && text.data[to] != '\n' && to - place < SIDE)
        to++;
    char head[40];
    int n = snprintf(head, sizeof head, "  line %zu: ", line);
    fputs(head, stderr);
    kc_put_name(stderr, (kineto_string){text.data + from, to - from}, 0);
    fprintf(stderr, "\n%*s^\n",
            n + (int)kc_name_columns((kineto_string){text.data + from, place - from}), "");
}

/* ---- names that exist ------------------------------------------------------------------------ */

static bool is_word_character(char c) { return kb_is_letter_or_digit(c) || c == '_'; }

/* Does the text contain this name as a whole word? */
static bool does_text_mention(kineto_string text, const char *name)
{
    size_t size = strlen(name);
    for (size_t at = 0; at + size <= text.size; at++)
        if (strncasecmp(text.data + at, name, size) == 0 &&
            (at == 0 || !is_word_character(text.data[at - 1])) &&
            (at + size == text.size || !is_word_character(text.data[at + size])))
            return true;
    return false;
}

static void print_column_names(const ke_sql_table *table, FILE *out)
{
    fprintf(out, "%s has", table->name);
    for (size_t i = 0; i < table->count; i++)
        fprintf(out, "%s %s", i ? "," : "", table->columns[i].name);
    fputc('\n', out);
}

static void print_table_names(FILE *out)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    fputs("tables are", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s %s", i ? "," : "", tables[i]->name);
    fputc('\n', out);
}

/* Columns of the tables that the statement names. */
static void print_mentioned_tables(kineto_string statement, FILE *out)
{
    size_t count;
    const ke_sql_table *const *tables = ke_sql_schema(&count);
    for (size_t i = 0; i < count; i++)
        if (does_text_mention(statement, tables[i]->name))
            print_column_names(tables[i], out);
}

static void print_function_names(FILE *out)
{
    size_t count;
    const ke_sql_function *functions = ke_sql_functions(&count);
    fputs("in addition to those of SQLite there are", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s %s", i ? "," : "", functions[i].call);
    fputc('\n', out);
}

/* The names that exist, for the kind of name that is unknown. */
/* SQLite's messages end in ": NAME". */
static void print_suggestion(const char *message, kc_name_list *list, FILE *out)
{
    const char *colon = strrchr(message, ':');
    kb_text text = colon ? kc_did_you_mean(list, colon + 2) : (kb_text){""};
    if (*text.s)
        fprintf(out, "%s\n", text.s + 2);
}

void kc_query_print_known_names(FILE *out, kineto_string statement, const kineto_error *err)
{
    if (strstr(err->message, "no such table")) {
        print_suggestion(err->message, kc_list_sql_tables, out);
        print_table_names(out);
    } else if (strstr(err->message, "no such column")) {
        print_suggestion(err->message, kc_list_sql_columns, out);
        print_mentioned_tables(statement, out);
    } else if (strstr(err->message, "no such function"))
        print_function_names(out);
}

/* The message and the known names as one text, to be freed; NULL: out of memory. */
char *kc_query_explanation(kineto_string statement, const kineto_error *err)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    fprintf(out, "%s; ", err->message);
    kc_query_print_known_names(out, statement, err);
    if (fclose(out)) {
        free(text);
        return NULL;
    }
    while (size && strchr("; \n", text[size - 1]))
        text[--size] = '\0';
    return text;
}

/* In the text of all statements, if the error has one; KC_NO_PLACE: none. */
static uint64_t find_error_place(kineto_string text, kineto_string statement, const kineto_error *err)
{
    return err->offset <= statement.size ? (uint64_t)(statement.data - text.data) + err->offset
                                         : KC_NO_PLACE;
}

void kc_query_explain(kineto_string text, kineto_string statement, const kineto_error *err)
{
    uint64_t place = find_error_place(text, statement, err);
    if (kc_errors_are_json()) {
        char *all = kc_query_explanation(statement, err);
        kc_complain_at("query", err->code, place, all ? all : err->message);
        free(all);
        return;
    }
    kc_complain_of("query", err);
    if (place != KC_NO_PLACE)
        print_marked_line(text, (size_t)place);
    kc_query_print_known_names(stderr, statement, err);
}
