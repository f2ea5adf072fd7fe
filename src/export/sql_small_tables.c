/* The short SQL tables: tracks, processes, devices, flows, header and ledger. Their cells are read
 * from the trace one at a time. */
#include "export/export.h"
#include "export/sql_impl.h"

/* ---- tracks ---------------------------------------------------------------------------------- */

enum { T_TRACK, T_PROCESS, T_TYPE, T_ID, T_NAME, T_SORT, T_ACTIVITIES, T_LANES, T_COUNT };

static const ke_sql_column track_columns[] = {
    [T_TRACK] = {"track", "INTEGER", "number of the track, from 0", KE_SQL_ROW, false},
    [T_PROCESS] = {"process", "INTEGER", "processes.process", KE_SQL_INDEX_FEW, false},
    [T_TYPE] = {"type", "TEXT", "thread, stream, counter, async, other", KE_SQL_SCAN, false},
    [T_ID] = {"id", "", "tid, or number of the stream; a text where the file has one", KE_SQL_SCAN,
              false},
    [T_NAME] = {"name", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [T_SORT] = {"sort_index", "INTEGER", "place that viewers give it", KE_SQL_SCAN, false},
    [T_ACTIVITIES] = {"activities", "INTEGER", "how many it has", KE_SQL_SCAN, false},
    [T_LANES] = {"lanes", "INTEGER", "how many it needs so that nothing overlaps", KE_SQL_SCAN,
                 false},
};

static uint64_t count_sql_tracks(const ke_sql *sql) { return kineto_trace_track_count(sql->trace); }

/* A number, or the text that the file has instead. */
static void put_number_or_text_cell(sqlite3_context *out, int64_t number, kineto_string text)
{
    if (text.data)
        ke_sql_put(out, text);
    else
        ke_sql_put_int(out, number);
}

/* Cells that are not set are NULL. */
static void put_track_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_track t;
    kineto_trace_track(sql->trace, row, &t);
    switch (column) {
    case T_TRACK:
        ke_sql_put_int(out, row);
        break;
    case T_PROCESS:
        ke_sql_put_int(out, t.process);
        break;
    case T_TYPE:
        ke_sql_put(out, kb_string(ke_track_type_name(t.type)));
        break;
    case T_ID:
        put_number_or_text_cell(out, t.id, kt_track_text_of(sql->trace, row));
        break;
    case T_NAME:
        ke_sql_put_text(out, t.name);
        break;
    case T_SORT:
        ke_sql_put_int(out, t.sort_index);
        break;
    case T_ACTIVITIES:
        ke_sql_put_int(out, (int64_t)t.count);
        break;
    default:
        ke_sql_put_int(out, t.lane_count);
    }
}

/* Only the process has an index. */
static bool track_key_of_row(const ke_sql *sql, uint32_t row, int column, uint64_t *key)
{
    kineto_track t;
    (void)column;
    kineto_trace_track(sql->trace, row, &t);
    *key = t.process;
    return true;
}

static const ke_sql_ops track_ops = {
    .rows = count_sql_tracks, .cell = put_track_cell, .key = track_key_of_row, .time_column = -1};
const ke_sql_table ke_sql_tracks = {
    "tracks", "threads, streams of devices, counters: the rows of the timeline", track_columns,
    T_COUNT, &track_ops};

/* ---- processes and devices ------------------------------------------------------------------- */

enum { P_PROCESS, P_DEVICE, P_PID, P_PPID, P_NAME, P_LABEL, P_SORT, P_RANK, P_HOST, P_COUNT };

static const ke_sql_column process_columns[] = {
    [P_PROCESS] = {"process", "INTEGER", "number of the process, from 0", KE_SQL_ROW, false},
    [P_DEVICE] = {"is_device", "INTEGER", "1: a device", KE_SQL_SCAN, false},
    [P_PID] = {"pid", "", "pid, or number of the device; a text where the file has one",
               KE_SQL_SCAN, false},
    [P_PPID] = {"ppid", "INTEGER", "NULL: unknown", KE_SQL_SCAN, false},
    [P_NAME] = {"name", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [P_LABEL] = {"label", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [P_SORT] = {"sort_index", "INTEGER", "place that viewers give it", KE_SQL_SCAN, false},
    [P_RANK] = {"rank", "INTEGER", "of distributed training; NULL: unknown", KE_SQL_SCAN, false},
    [P_HOST] = {"host", "TEXT", "NULL: unknown", KE_SQL_SCAN, false},
};

static uint64_t count_sql_processes(const ke_sql *sql)
{
    return kineto_trace_process_count(sql->trace);
}

static void put_process_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_process p;
    kineto_trace_process(sql->trace, row, &p);
    switch (column) {
    case P_PROCESS:
        ke_sql_put_int(out, row);
        break;
    case P_DEVICE:
        ke_sql_put_int(out, p.is_device);
        break;
    case P_PID:
        put_number_or_text_cell(out, p.pid, kt_process_text_of(sql->trace, row));
        break;
    case P_PPID:
        if (p.ppid)
            ke_sql_put_int(out, p.ppid);
        break;
    case P_NAME:
        ke_sql_put_text(out, p.name);
        break;
    case P_LABEL:
        ke_sql_put_text(out, p.label);
        break;
    case P_SORT:
        ke_sql_put_int(out, p.sort_index);
        break;
    case P_RANK:
        if (p.rank >= 0)
            ke_sql_put_int(out, p.rank);
        break;
    default:
        ke_sql_put_text(out, p.host);
    }
}

static const ke_sql_ops process_ops = {
    .rows = count_sql_processes, .cell = put_process_cell, .time_column = -1};
const ke_sql_table ke_sql_processes = {"processes", "processes, and devices, which have their own",
                                       process_columns, P_COUNT, &process_ops};

enum { D_PROCESS, D_DEVICE, D_NAME, D_LABEL, D_PROPERTIES, D_COUNT };

static const ke_sql_column device_columns[] = {
    [D_PROCESS] = {"process", "INTEGER", "processes.process", KE_SQL_SCAN, false},
    [D_DEVICE] = {"device", "INTEGER", "its number", KE_SQL_SCAN, false},
    [D_NAME] = {"name", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [D_LABEL] = {"label", "TEXT", "NULL: none", KE_SQL_SCAN, false},
    [D_PROPERTIES] = {"properties", "TEXT", "a JSON object; NULL: none", KE_SQL_SCAN, false},
};

/* Lists the processes that are devices, once. False: out of memory. */
static bool collect_devices(ke_sql *sql)
{
    uint32_t count = kineto_trace_process_count(sql->trace);
    for (uint32_t i = 0; i < count && !sql->has_devices; i++) {
        kineto_process p;
        kineto_trace_process(sql->trace, i, &p);
        if (p.is_device && !kb_vec_push(&sql->devices, i)) {
            kb_vec_free(&sql->devices);
            return false;
        }
    }
    return sql->has_devices = true;
}

static uint64_t count_sql_devices(const ke_sql *sql) { return sql->devices.count; }

/* `row` is a position in the list of devices. */
static void put_device_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_process p;
    uint32_t process = sql->devices.data[row];
    kineto_trace_process(sql->trace, process, &p);
    switch (column) {
    case D_PROCESS:
        ke_sql_put_int(out, process);
        break;
    case D_DEVICE:
        ke_sql_put_int(out, p.pid);
        break;
    case D_NAME:
        ke_sql_put_text(out, p.name);
        break;
    case D_LABEL:
        ke_sql_put_text(out, p.label);
        break;
    default:
        ke_sql_put_text(out, p.properties_json);
    }
}

static const ke_sql_ops device_ops = {.prepare = collect_devices,
                                      .rows = count_sql_devices,
                                      .cell = put_device_cell,
                                      .time_column = -1};
const ke_sql_table ke_sql_devices = {"devices", "devices and what is known of them", device_columns,
                                     D_COUNT, &device_ops};

/* ---- flows ----------------------------------------------------------------------------------- */

enum { F_FLOW, F_TYPE, F_ID, F_FROM, F_TO, F_COUNT };

static const ke_sql_column flow_columns[] = {
    [F_FLOW] = {"flow", "INTEGER", "number of the arrow, from 0", KE_SQL_ROW, false},
    [F_TYPE] = {"type", "TEXT", "ac2g (launch to device), fwdbwd (forward to backward), user",
                KE_SQL_SCAN, false},
    [F_ID] = {"id", "INTEGER", "of the file", KE_SQL_INDEX_FEW, false},
    [F_FROM] = {"from_row", "INTEGER", "activities.row; NULL: not recorded", KE_SQL_INDEX_FEW,
                false},
    [F_TO] = {"to_row", "INTEGER", "activities.row; NULL: not recorded", KE_SQL_INDEX_FEW, false},
};

/* Rows of SQL tables are numbers of 32 bits. */
static uint64_t count_sql_flows(const ke_sql *sql)
{
    return KB_MIN(kineto_trace_flow_count(sql->trace), (uint64_t)UINT32_MAX);
}

static void put_flow_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_flow f;
    kineto_trace_flow(sql->trace, row, &f);
    switch (column) {
    case F_FLOW:
        ke_sql_put_int(out, row);
        break;
    case F_TYPE:
        ke_sql_put(out, kb_string(ke_flow_type_name(f.type)));
        break;
    case F_ID:
        ke_sql_put_int(out, (int64_t)f.id);
        break;
    case F_FROM:
        ke_sql_put_row(out, f.from);
        break;
    default:
        ke_sql_put_row(out, f.to);
    }
}

/* A row that was not recorded is NULL. */
static bool flow_key_of_row(const ke_sql *sql, uint32_t row, int column, uint64_t *key)
{
    kineto_flow f;
    kineto_trace_flow(sql->trace, row, &f);
    *key = column == F_ID ? f.id : column == F_FROM ? f.from : f.to;
    return column == F_ID || *key != KINETO_NO_ROW;
}

static const ke_sql_ops flow_ops = {
    .rows = count_sql_flows, .cell = put_flow_cell, .key = flow_key_of_row, .time_column = -1};
const ke_sql_table ke_sql_flows = {"flows", "arrows between activities", flow_columns, F_COUNT,
                                   &flow_ops};

/* ---- header and ledger ----------------------------------------------------------------------- */

enum { M_KEY, M_VALUE, M_COUNT };

static const ke_sql_column metadata_columns[] = {
    [M_KEY] = {"key", "TEXT", "name of the member", KE_SQL_SCAN, false},
    [M_VALUE] = {"value", "TEXT", "JSON; value ->> '$' is a text or number", KE_SQL_SCAN, false},
};

static uint64_t count_sql_metadata(const ke_sql *sql)
{
    return kineto_trace_metadata_count(sql->trace);
}

static void put_metadata_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_string key, value;
    kineto_trace_metadata(sql->trace, row, &key, &value);
    ke_sql_put(out, column == M_KEY ? key : value);
}

static const ke_sql_ops metadata_ops = {
    .rows = count_sql_metadata, .cell = put_metadata_cell, .time_column = -1};
const ke_sql_table ke_sql_metadata = {"metadata", "header of the file", metadata_columns, M_COUNT,
                                      &metadata_ops};

enum { L_SOURCE, L_REASON, L_EVENTS, L_LOSS, L_DETAIL, L_COUNT };

static const ke_sql_column ledger_columns[] = {
    [L_SOURCE] = {"source", "TEXT", "program, plug-in, reader …", KE_SQL_SCAN, false},
    [L_REASON] = {"reason", "TEXT", "what happened", KE_SQL_SCAN, false},
    [L_EVENTS] = {"count", "INTEGER", "to how many events", KE_SQL_SCAN, false},
    [L_LOSS] = {"is_loss", "INTEGER", "1: they are missing from the trace", KE_SQL_SCAN, false},
    [L_DETAIL] = {"detail", "TEXT", "NULL: none", KE_SQL_SCAN, false},
};

static uint64_t count_sql_ledger(const ke_sql *sql)
{
    return kineto_trace_ledger_count(sql->trace);
}

static void put_ledger_cell(ke_sql *sql, uint32_t row, int column, sqlite3_context *out)
{
    kineto_ledger_line line;
    kineto_trace_ledger(sql->trace, row, &line);
    switch (column) {
    case L_SOURCE:
        ke_sql_put(out, line.source);
        break;
    case L_REASON:
        ke_sql_put(out, line.reason);
        break;
    case L_EVENTS:
        ke_sql_put_int(out, (int64_t)KB_MIN(line.count, (uint64_t)INT64_MAX));
        break;
    case L_LOSS:
        ke_sql_put_int(out, line.is_loss);
        break;
    default:
        ke_sql_put_text(out, line.detail);
    }
}

static const ke_sql_ops ledger_ops = {
    .rows = count_sql_ledger, .cell = put_ledger_cell, .time_column = -1};
const ke_sql_table ke_sql_ledger = {"ledger", "what was delivered, lost and repaired",
                                    ledger_columns, L_COUNT, &ledger_ops};
