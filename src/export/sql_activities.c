/* The SQL table "activities": the rows of the trace, read from its blocks. Parents, launches, lanes
 * and depths come from indices of the trace, which are built at first use. */
#include "export/export.h"
#include "export/sql_impl.h"

enum {
    A_ROW,
    A_START,
    A_END,
    A_DUR,
    A_SELF,
    A_NAME,
    A_CATEGORY,
    A_KIND,
    A_FORM,
    A_TRACK,
    A_PROCESS,
    A_LANE,
    A_DEPTH,
    A_PARENT,
    A_CORRELATION,
    A_EXTERNAL,
    A_ASYNC,
    A_LAUNCH,
    A_LAUNCHED,
    A_OPEN_START,
    A_OPEN_END,
    A_ARGS,
    A_COUNT
};

static const ke_sql_column activity_columns[] = {
    [A_ROW] = {"row", "INTEGER", "number of the activity, from 0", KE_SQL_ROW, false},
    [A_START] = {"start_ns", "INTEGER", "ns since the Unix epoch", KE_SQL_SCAN, false},
    [A_END] = {"end_ns", "INTEGER", "start_ns + dur_ns", KE_SQL_SCAN, false},
    [A_DUR] = {"dur_ns", "INTEGER", "0 for instants and counters", KE_SQL_SCAN, false},
    [A_SELF] = {"self_ns", "INTEGER", "dur_ns less that of its children", KE_SQL_SCAN, false},
    [A_NAME] = {"name", "TEXT", "bytes as they are in the trace", KE_SQL_INDEX_FEW, false},
    [A_CATEGORY] = {"category", "TEXT", "\"cat\" of the file", KE_SQL_INDEX_MANY, false},
    [A_KIND] = {"kind", "TEXT", "cpu_op, kernel, runtime …: the same for all vendors",
                KE_SQL_INDEX_MANY, false},
    [A_FORM] = {"form", "TEXT", "slice, async, instant, counter", KE_SQL_INDEX_MANY, false},
    [A_TRACK] = {"track", "INTEGER", "tracks.track", KE_SQL_INDEX_MANY, false},
    [A_PROCESS] = {"process", "INTEGER", "processes.process", KE_SQL_INDEX_MANY, false},
    [A_LANE] = {"lane", "INTEGER", "part of the track without overlaps, from 0", KE_SQL_SCAN,
                false},
    [A_DEPTH] = {"depth", "INTEGER", "how many activities enclose it", KE_SQL_SCAN, false},
    [A_PARENT] = {"parent", "INTEGER", "row of the one that encloses it", KE_SQL_INDEX_FEW, false},
    [A_CORRELATION] = {"correlation_id", "INTEGER", "joins launches with device work",
                       KE_SQL_INDEX_FEW, false},
    [A_EXTERNAL] = {"external_id", "INTEGER", "joins operators with launches and device work",
                    KE_SQL_INDEX_FEW, false},
    [A_ASYNC] = {"async_id", "INTEGER", "of asynchronous ranges", KE_SQL_INDEX_FEW, false},
    [A_LAUNCH] = {"launch", "INTEGER", "row of the call that launched this device activity",
                  KE_SQL_INDEX_FEW, false},
    [A_LAUNCHED] = {"launched", "INTEGER", "row of the first device activity of this launch",
                    KE_SQL_SCAN, false},
    [A_OPEN_START] = {"open_start", "INTEGER", "1: began before the window", KE_SQL_SCAN, false},
    [A_OPEN_END] = {"open_end", "INTEGER", "1: had not ended", KE_SQL_SCAN, false},
    [A_ARGS] = {"args", "TEXT", "all arguments as a JSON object", KE_SQL_SCAN, true},
};

/* Rows are stored in blocks of KT_BLOCK_ROWS. */
static const kt_block *block_of_activity(const ke_sql *sql, uint32_t row)
{
    return kt_block_at(sql->trace, row / KT_BLOCK_ROWS);
}

static uint32_t process_of_activity_track(const ke_sql *sql, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(sql->trace, track, &t);
    return t.process;
}

/* String id of the category; the block has an index into the categories. */
static uint32_t category_of_activity(const ke_sql *sql, uint32_t row)
{
    kineto_activity a;
    kineto_trace_get(sql->trace, row, &a);
    return a.category;
}

static uint64_t count_activities(const ke_sql *sql) { return kineto_trace_count(sql->trace); }

static const uint32_t *activities_by_time(const ke_sql *sql)
{
    return kineto_trace_time_order(sql->trace);
}

/* The columns that most queries read. */
static void prefetch_activity(const ke_sql *sql, uint32_t row)
{
    const kt_block *b = block_of_activity(sql, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    __builtin_prefetch(&b->start_ns[i]);
    __builtin_prefetch(&b->end_ns[i]);
    __builtin_prefetch(&b->name[i]);
}

static int64_t activity_time(const ke_sql *sql, uint32_t row)
{
    return block_of_activity(sql, row)->start_ns[row % KT_BLOCK_ROWS];
}

/* ---- cells ----------------------------------------------------------------------------------- */

static int64_t activity_duration(const kt_block *b, uint32_t i)
{
    return kb_length_ns(b->start_ns[i], b->end_ns[i]);
}

/* In the order of time an enclosing activity precedes those in it, so its depth is known. False:
 * out of memory. */
static bool compute_depths(ke_sql *sql)
{
    uint64_t count = kineto_trace_count(sql->trace);
    const kineto_row *rows_by_time = kineto_trace_time_order(sql->trace);
    sql->depths = rows_by_time ? calloc(count + 1, sizeof *sql->depths) : NULL;
    for (uint64_t i = 0; i < count && sql->depths; i++) {
        kineto_row parent = kineto_trace_parent(sql->trace, rows_by_time[i]);
        if (parent != KINETO_NO_ROW)
            sql->depths[rows_by_time[i]] = sql->depths[parent] + 1;
    }
    return sql->depths != NULL;
}

/* Depths are computed when a statement reads one for the first time. */
static void put_depth_cell(ke_sql *sql, kineto_row row, sqlite3_context *out)
{
    if (sql->depths || compute_depths(sql))
        ke_sql_put_int(out, sql->depths[row]);
    else
        sqlite3_result_error_nomem(out);
}

static void put_id_or_null(sqlite3_context *out, uint64_t id)
{
    if (id)
        ke_sql_put_int(out, (int64_t)id);
}

/* The args are formatted per row, so the column is hidden from "*". */
static void put_args_cell(const ke_sql *sql, uint32_t row, sqlite3_context *out)
{
    ke_text text = {0};
    uint64_t replaced = 0;
    if (!ke_args_json(sql->trace, row, &text, &replaced))
        sqlite3_result_error_nomem(out);
    else if (text.count)
        sqlite3_result_text64(out, text.data, text.count, SQLITE_TRANSIENT, SQLITE_UTF8);
    kb_vec_free(&text);
}

/* Values that are not columns of the block. */
static void put_derived_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    switch (column) {
    case A_SELF:
        ke_sql_put_int(out, kineto_trace_self_ns(sql->trace, row));
        break;
    case A_CATEGORY:
        ke_sql_put(out, kineto_trace_string(sql->trace, category_of_activity(sql, row)));
        break;
    case A_LANE:
        ke_sql_put_int(out, kineto_trace_lane(sql->trace, row));
        break;
    case A_DEPTH:
        put_depth_cell(sql, row, out);
        break;
    case A_PARENT:
        ke_sql_put_row(out, kineto_trace_parent(sql->trace, row));
        break;
    case A_ASYNC:
        put_id_or_null(out, kt_async_id(sql->trace, row));
        break;
    case A_LAUNCH:
        ke_sql_put_row(out, kineto_trace_launch(sql->trace, row));
        break;
    case A_LAUNCHED:
        ke_sql_put_row(out, kineto_trace_launched(sql->trace, row));
        break;
    case A_ARGS:
        put_args_cell(sql, row, out);
        break;
    default:
        break;
    }
}

/* Columns of the block directly, all others through put_derived_cell. */
static void put_activity_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    const kt_block *b = block_of_activity(sql, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    switch (column) {
    case A_ROW:
        ke_sql_put_int(out, row);
        break;
    case A_START:
        ke_sql_put_int(out, b->start_ns[i]);
        break;
    case A_END:
        ke_sql_put_int(out, b->end_ns[i]);
        break;
    case A_DUR:
        ke_sql_put_int(out, activity_duration(b, i));
        break;
    case A_NAME:
        ke_sql_put(out, kineto_trace_string(sql->trace, b->name[i]));
        break;
    case A_KIND:
        ke_sql_put(out, kb_string(kineto_kind_name(b->kind[i])));
        break;
    case A_FORM:
        ke_sql_put(out, kb_string(ke_form_name(b->form[i])));
        break;
    case A_TRACK:
        ke_sql_put_int(out, b->track[i]);
        break;
    case A_PROCESS:
        ke_sql_put_int(out, process_of_activity_track(sql, b->track[i]));
        break;
    case A_CORRELATION:
        put_id_or_null(out, b->correlation_id[i]);
        break;
    case A_EXTERNAL:
        put_id_or_null(out, b->external_id[i]);
        break;
    case A_OPEN_START:
        ke_sql_put_int(out, (b->flags[i] & KINETO_ACTIVITY_OPEN_START) != 0);
        break;
    case A_OPEN_END:
        ke_sql_put_int(out, (b->flags[i] & KINETO_ACTIVITY_OPEN_END) != 0);
        break;
    default:
        put_derived_cell(sql, row, column, out);
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* A number for the value of an indexed column, also if it is NULL in SQL. */
static uint64_t activity_key_number(const ke_sql *sql, uint32_t row, int column)
{
    const kt_block *b = block_of_activity(sql, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    switch (column) {
    case A_NAME:
        return b->name[i];
    case A_CATEGORY:
        return category_of_activity(sql, row);
    case A_KIND:
        return KB_MIN(b->kind[i], KINETO_KIND_COUNT);
    case A_FORM:
        return b->form[i];
    case A_TRACK:
        return b->track[i];
    case A_PROCESS:
        return process_of_activity_track(sql, b->track[i]);
    case A_PARENT:
        return kineto_trace_parent(sql->trace, row);
    case A_CORRELATION:
        return b->correlation_id[i];
    case A_EXTERNAL:
        return b->external_id[i];
    case A_ASYNC:
        return kt_async_id(sql->trace, row);
    default:
        return kineto_trace_launch(sql->trace, row);
    }
}

/* Ids of 0 and missing rows are NULL in SQL, so they have no key. */
static bool activity_key(const ke_sql *sql, uint32_t row, int column, uint64_t *out)
{
    *out = activity_key_number(sql, row, column);
    if (column == A_PARENT || column == A_LAUNCH)
        return *out != KINETO_NO_ROW;
    bool is_id = column == A_CORRELATION || column == A_EXTERNAL || column == A_ASYNC;
    return !is_id || *out != 0;
}

/* Kinds and forms are searched by their names, all other texts in the strings of the trace. */
static bool activity_key_of_text(ke_sql *sql, int column, kineto_string text, uint64_t *out)
{
    uint32_t id;
    if (column == A_KIND) {
        for (*out = 0; *out <= KINETO_KIND_COUNT; ++*out)
            if (kb_string_equal(text, kb_string(kineto_kind_name((uint32_t)*out))))
                return true;
        return false;
    }
    if (column == A_FORM) {
        for (*out = 0; *out <= KINETO_FORM_COUNTER; ++*out)
            if (kb_string_equal(text, kb_string(ke_form_name((uint32_t)*out))))
                return true;
        return false;
    }
    bool found = ke_sql_find_string(sql, text, &id);
    *out = id;
    return found;
}

static const ke_sql_ops activity_ops = {.rows = count_activities,
                                        .cell = put_activity_cell,
                                        .key = activity_key,
                                        .key_of_text = activity_key_of_text,
                                        .time_column = A_START,
                                        .order = activities_by_time,
                                        .time = activity_time,
                                        .prefetch = prefetch_activity};

const ke_sql_table ke_sql_activities = {"activities", "what happened: one line for each activity",
                                        activity_columns, A_COUNT, &activity_ops};
