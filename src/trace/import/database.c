/* Reads tables of untrusted SQLite databases; see database.h. */
#include "trace/import/database.h"

#define SQLITE_MAGIC "SQLite format 3"
#define MAX_TABLES   4096u
/* The least that a row takes in a table: two bytes in the list of cells, four in the cell. A table with more
 * rows than that has room for goes in circles. */
#define MIN_ROW_BYTES 6u
#define WAL_BYTE 18u /* of the header: 2 if the database has a write-ahead log */

/* ---- opening ---------------------------------------------------------------------------------- */

/* The first damage is told in words. */
static void note_damage(kt_database *d, const char *table, const char *problem, const char *column)
{
    kt_database_table *found = table ? kt_database_find(d, table) : NULL;
    kineto_string name = kb_utf8_cut(kb_string(table ? table : "of tables"), 80);
    if (!d->damages)
        kb_snprintf(d->damage, sizeof d->damage, "the table %.*s %s%s", (int)name.size, name.data, problem, column);
    if (!found || !found->is_damaged)
        d->damages++;
    if (found)
        found->is_damaged = true;
}

/* Notes damage; always false, so that callers can return it. */
static bool fail_database(kt_database *d, int code, const char *table)
{
    if (code == SQLITE_NOMEM && !d->status)
        d->status = kb_fail_memory(&d->error, "read an SQLite database");
    note_damage(d, table, code == SQLITE_CORRUPT || code == SQLITE_NOTADB ? "is damaged, or its end is missing"
                                                                          : sqlite3_errstr(code), "");
    return false;
}

/* Nothing that the file defines is trusted, and little memory is used. A file without its end is read as far as it
 * goes with a "writable" schema; nothing is written. */
static void restrict_database(sqlite3 *db)
{
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_exec(db, "PRAGMA writable_schema=ON; PRAGMA cell_size_check=ON; PRAGMA cache_size=-2048; PRAGMA query_only=ON", NULL, NULL,
                 NULL);
}

/* The bytes stay where they are; SQLite reads pages of them. */
static void open_bytes(kt_database *d, kineto_string bytes)
{
    int code = sqlite3_open_v2(":memory:", &d->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) /* read where they are: SQLite writes nothing with this flag */
        code = sqlite3_deserialize(d->db, "main", (unsigned char *)(uintptr_t)bytes.data, (int64_t)bytes.size,
                                   (int64_t)bytes.size, SQLITE_DESERIALIZE_READONLY);
    if (code != SQLITE_OK)
        fail_database(d, code, NULL);
    else
        restrict_database(d->db);
}

/* Only ordinary tables: a virtual table would run code. */
static void list_tables(kt_database *d)
{
    sqlite3_stmt *s = NULL;
    int code = sqlite3_prepare_v2(d->db,
                                  "SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE "
                                  "VIRTUAL%' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY rowid",
                                  -1, &s, NULL);
    while (code == SQLITE_OK && (code = sqlite3_step(s)) == SQLITE_ROW && d->tables.count < MAX_TABLES) {
        const char *name = (const char *)sqlite3_column_text(s, 0);
        kt_database_table t = {.name = name ? kb_arena_copy(&d->arena, name, strlen(name)) : NULL};
        code = name && (!t.name || !kb_vec_push(&d->tables, t)) ? SQLITE_NOMEM : SQLITE_OK;
    }
    if (code != SQLITE_DONE && code != SQLITE_ROW)
        fail_database(d, code, NULL);
    sqlite3_finalize(s);
}

static kineto_status fail_damaged(const kt_database *d, kineto_error *err)
{
    return kb_fail(err, KINETO_E_FORMAT, "the SQLite database cannot be read: %s; 'sqlite3 FILE .recover' may save a part of a damaged one",
                   d->damage);
}

kineto_status kt_database_open(kt_database *d, const kt_import_source *source, kineto_error *err)
{
    kineto_string bytes = source->bytes;
    *d = (kt_database){.file_bytes = bytes.size};
    if (bytes.size < 100 || memcmp(bytes.data, SQLITE_MAGIC, sizeof SQLITE_MAGIC) != 0)
        return kb_fail(err, KINETO_E_FORMAT, "the header of the SQLite database is damaged");
    if (bytes.data[WAL_BYTE] == 2 || bytes.data[WAL_BYTE + 1] == 2)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "the SQLite database has a write-ahead log, in another file; join them with 'sqlite3 FILE "
                       "\"PRAGMA journal_mode=DELETE\"'");
    open_bytes(d, bytes);
    if (!d->damages)
        list_tables(d);
    if (d->damages && !d->tables.count)
        return fail_damaged(d, err);
    return d->status;
}

void kt_database_close(kt_database *d)
{
    sqlite3_close(d->db);
    kb_arena_free(&d->arena);
    kb_vec_free(&d->tables);
}

kineto_status kt_database_finish(kt_database *d, kt_import *m, kineto_trace **out, kineto_error *err)
{
    if (d->status) {
        if (err)
            *err = d->error;
        return d->status;
    }
    if (d->damages && !m->b->trace->count)
        return fail_damaged(d, err);
    kt_import_lost(m, "tables that are damaged or lack a column, whose rest was not read", d->damages, kb_string(d->damage));
    return kt_import_finish(m, out, err);
}

/* ---- tables ----------------------------------------------------------------------------------- */

kt_database_table *kt_database_find(const kt_database *d, const char *name)
{
    for (size_t i = 0; i < d->tables.count; i++)
        if (strcmp(d->tables.data[i].name, name) == 0)
            return &d->tables.data[i];
    return NULL;
}

void kt_database_list(const kt_database *d, char *out, size_t room)
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < d->tables.count && i < 6 && used + 48 < room; i++) {
        kineto_string name = kb_utf8_cut(kb_string(d->tables.data[i].name), 40);
        used += (size_t)kb_snprintf(out + used, room - used, "%s%.*s", i ? ", " : "", (int)name.size, name.data);
    }
}

uint64_t kt_database_count(kt_database *d, const char *table)
{
    static const char *const none[] = {NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, d, table, none))
        while (kt_rows_next(&rows))
            ;
    kt_rows_close(&rows);
    return rows.count;
}

/* A statement with a name of the file in it, as an identifier. */
static sqlite3_stmt *prepare(kt_database *d, const char *table, char *text)
{
    sqlite3_stmt *s = NULL;
    int code = text ? sqlite3_prepare_v2(d->db, text, -1, &s, NULL) : SQLITE_NOMEM;
    sqlite3_free(text);
    if (code != SQLITE_OK)
        fail_database(d, code, table);
    return s;
}

/* The columns of the list that the table has; their order. */
static void find_columns(kt_database *d, const char *table, const char *const *columns, bool *is_here)
{
    sqlite3_stmt *s = prepare(d, table, sqlite3_mprintf("PRAGMA table_info(\"%w\")", table));
    while (s && sqlite3_step(s) == SQLITE_ROW) {
        const char *name = (const char *)sqlite3_column_text(s, 1);
        for (size_t i = 0; name && columns[i]; i++)
            is_here[i] |= sqlite3_stricmp(columns[i] + (columns[i][0] == '!'), name) == 0;
    }
    sqlite3_finalize(s);
}

bool kt_database_has_column(kt_database *d, const char *table, const char *column)
{
    bool is_here[1] = {false};
    if (!d->status && kt_database_find(d, table))
        find_columns(d, table, (const char *const[]){column, NULL}, is_here);
    return is_here[0];
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* "SELECT "start",NULL,… FROM "table"". */
static char *select_text(const kt_rows *rows)
{
    sqlite3_str *text = sqlite3_str_new(rows->database->db);
    sqlite3_str_appendall(text, "SELECT ");
    for (size_t i = 0; rows->columns[i]; i++) {
        const char *name = rows->columns[i] + (rows->columns[i][0] == '!');
        if (rows->is_here[i])
            sqlite3_str_appendf(text, "\"%w\",", name);
        else
            sqlite3_str_appendall(text, "NULL,");
    }
    sqlite3_str_appendf(text, "1 FROM \"%w\" NOT INDEXED", rows->table);
    return sqlite3_str_finish(text);
}

bool kt_rows_open(kt_rows *rows, kt_database *d, const char *table, const char *const *columns)
{
    *rows = (kt_rows){.database = d, .table = table, .columns = columns,
                      .limit = d->file_bytes / MIN_ROW_BYTES};
    kt_database_table *found = kt_database_find(d, table);
    if (!found || d->status)
        return false;
    found->is_read = true;
    find_columns(d, table, columns, rows->is_here);
    for (size_t i = 0; columns[i]; i++)
        if (columns[i][0] == '!' && !rows->is_here[i]) {
            note_damage(d, table, "has no column ", columns[i] + 1);
            return false;
        }
    rows->statement = prepare(d, table, select_text(rows));
    return rows->statement != NULL;
}

bool kt_rows_next(kt_rows *rows)
{
    kt_database *d = rows->database;
    int code = d->status || !rows->statement || rows->has_ended ? SQLITE_DONE : sqlite3_step(rows->statement);
    if (code == SQLITE_ROW && rows->count++ < rows->limit)
        return true;
    rows->has_ended = true; /* SQLite would begin anew */
    return code == SQLITE_DONE ? false
                               : fail_database(d, code == SQLITE_ROW ? SQLITE_CORRUPT : code, rows->table);
}

void kt_rows_close(kt_rows *rows)
{
    sqlite3_finalize(rows->statement);
    rows->statement = NULL;
}

void kt_rows_skip(kt_rows *rows) { rows->bad++; }

bool kt_rows_int(const kt_rows *rows, int column, int64_t *value)
{
    if (sqlite3_column_type(rows->statement, column) != SQLITE_INTEGER)
        return false;
    *value = sqlite3_column_int64(rows->statement, column);
    return true;
}

int64_t kt_rows_int_or(const kt_rows *rows, int column, int64_t otherwise)
{
    int64_t value;
    return kt_rows_int(rows, column, &value) ? value : otherwise;
}

bool kt_rows_number(const kt_rows *rows, int column, double *value)
{
    int type = sqlite3_column_type(rows->statement, column);
    if (type != SQLITE_INTEGER && type != SQLITE_FLOAT)
        return false;
    *value = sqlite3_column_double(rows->statement, column);
    return true;
}

kineto_string kt_rows_text(const kt_rows *rows, int column)
{
    if (sqlite3_column_type(rows->statement, column) != SQLITE_TEXT)
        return (kineto_string){"", 0};
    const char *text = (const char *)sqlite3_column_text(rows->statement, column);
    return text ? (kineto_string){text, (size_t)sqlite3_column_bytes(rows->statement, column)}
                : (kineto_string){"", 0};
}

/* ---- texts with numbers ----------------------------------------------------------------------- */

/* Finding a row is fast only if the column is the key of the table. */
static bool is_row_key(kt_database *d, const char *table, const char *column)
{
    const char *type = NULL;
    int is_key = 0;
    return sqlite3_table_column_metadata(d->db, NULL, table, column, &type, NULL, NULL, &is_key, NULL) ==
               SQLITE_OK &&
           is_key && type && sqlite3_stricmp(type, "INTEGER") == 0;
}

/* Texts of the file are kept by their id, also if there is none. */
static uint32_t keep_text(kt_texts *texts, int64_t id, kineto_string text)
{
    uint32_t string = kt_string(texts->b, text);
    uint64_t *slot = kb_map_insert(&texts->known, (uint64_t)id, 0, NULL);
    if (!slot)
        texts->b->status = KINETO_E_MEMORY;
    else
        *slot = (uint64_t)string + 1;
    return string;
}

void kt_texts_open(kt_texts *texts, kt_database *d, kt_builder *b, const char *table, const char *id,
                   const char *value)
{
    const char *const columns[] = {id, value, NULL};
    kt_rows rows;
    int64_t number;
    const kt_database_table *found = kt_database_find(d, table);
    *texts = (kt_texts){.database = d, .b = b, .table = found ? found->name : NULL};
    if (!kt_rows_open(&rows, d, table, columns))
        return;
    if (rows.is_here[0] && rows.is_here[1] && is_row_key(d, table, id))
        texts->find = prepare(d, table, sqlite3_mprintf("SELECT \"%w\" FROM \"%w\" WHERE \"%w\"=?1", value, table, id));
    else
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &number))
                keep_text(texts, number, kt_rows_text(&rows, 1));
    kt_rows_close(&rows);
}

void kt_texts_close(kt_texts *texts)
{
    sqlite3_finalize(texts->find);
    kb_map_free(&texts->known);
}

uint32_t kt_texts_find(kt_texts *texts, int64_t id)
{
    const uint64_t *known = kb_map_find(&texts->known, (uint64_t)id);
    if (known || !texts->find || texts->database->status)
        return known && *known ? (uint32_t)(*known - 1) : 0;
    kt_rows found = {.database = texts->database, .statement = texts->find};
    sqlite3_bind_int64(texts->find, 1, id);
    int code = sqlite3_step(texts->find);
    uint32_t string = keep_text(texts, id, code == SQLITE_ROW ? kt_rows_text(&found, 0) : (kineto_string){"", 0});
    if (code != SQLITE_ROW && code != SQLITE_DONE)
        fail_database(texts->database, code, texts->table);
    sqlite3_reset(texts->find);
    return string;
}

/* ---- the formats ------------------------------------------------------------------------------ */

/* Tables without a time have no events. */
void kt_import_unread_tables(kt_import *m, kt_database *d)
{
    char reason[120];
    for (size_t i = 0; i < d->tables.count && !d->status; i++) {
        const char *name = d->tables.data[i].name;
        if (d->tables.data[i].is_read)
            continue;
        uint64_t rows = kt_database_count(d, name);
        bool has_events = kt_database_has_column(d, name, "start") || kt_database_has_column(d, name, "timestamp");
        kineto_string shown = kb_utf8_cut(kb_string(name), 80);
        kb_snprintf(reason, sizeof reason, "rows of the table %.*s: not read", (int)shown.size, shown.data);
        if (has_events)
            kt_import_lost(m, reason, rows, kb_string(""));
        else
            kt_import_note(m, reason, rows, kb_string(""));
    }
}

/* Databases of RocmProfileData have the same prefix, and other tables. */
static bool is_rpd(const kt_database *d)
{
    return kt_database_find(d, "rocpd_api") && kt_database_find(d, "rocpd_op");
}

/* The tables tell the format. */
static kineto_status import_tables(kt_database *d, const kt_import_source *source, kineto_trace **out,
                                   kineto_error *err)
{
    char names[320];
    if (kt_is_nsys(d))
        return kt_import_nsys(d, source, out, err);
    if (is_rpd(d))
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "an SQLite database of RPD; convert it with 'rpd2tracing.py FILE FILE.json'");
    if (kt_is_rocpd(d))
        return kt_import_rocpd(d, source, out, err);
    if (kt_is_own_database(d))
        return kt_import_own_database(d, source, out, err);
    kt_database_list(d, names, sizeof names);
    return kb_fail(err, KINETO_E_FORMAT,
                   "expected an export of Nsight Systems, or a database of rocprofv3 or ckineto, and this is an SQLite database "
                   "with %s%s", names[0] ? "the tables " : "no tables", names);
}

bool kt_is_database(kineto_string head) { return kb_string_starts_with(head, SQLITE_MAGIC); }

kineto_status kt_import_database(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    kt_database d;
    kineto_status status = kt_database_open(&d, source, err);
    if (!status)
        status = import_tables(&d, source, out, err);
    kt_database_close(&d);
    return status;
}
