/* The tables of the Arrow stream: their columns and how a batch of them is filled. Most columns of
 * activities are the trace's own memory and are not copied; docs/arrow.md describes the columns. */
#include "export/arrow.h"

/* Rows per batch of tables that are not stored in blocks. */
#define BATCH_ROWS KT_BLOCK_ROWS

/* ---- activities ------------------------------------------------------------------------------ */

enum {
    ACT_ROW,
    ACT_START,
    ACT_DURATION,
    ACT_NAME,
    ACT_CATEGORY,
    ACT_KIND,
    ACT_FORM,
    ACT_TRACK,
    ACT_PROCESS,
    ACT_CORRELATION,
    ACT_EXTERNAL,
    ACT_ASYNC,
    ACT_FLAGS,
    ACT_ARGS
};
static const ke_arrow_spec activity_columns[] = {
    [ACT_ROW] = {"row", "I", false, KE_ARROW_NO_DICTIONARY},
    [ACT_START] = {"start_ns", "l", false, KE_ARROW_NO_DICTIONARY},
    [ACT_DURATION] = {"dur_ns", "l", false, KE_ARROW_NO_DICTIONARY},
    [ACT_NAME] = {"name", "i", false, KE_ARROW_STRINGS},
    [ACT_CATEGORY] = {"category", "S", false, KE_ARROW_CATEGORIES},
    [ACT_KIND] = {"kind", "C", false, KE_ARROW_KINDS},
    [ACT_FORM] = {"form", "C", false, KE_ARROW_FORMS},
    [ACT_TRACK] = {"track", "I", false, KE_ARROW_NO_DICTIONARY},
    [ACT_PROCESS] = {"process", "I", false, KE_ARROW_NO_DICTIONARY},
    [ACT_CORRELATION] = {"correlation", "L", false, KE_ARROW_NO_DICTIONARY},
    [ACT_EXTERNAL] = {"external_id", "L", false, KE_ARROW_NO_DICTIONARY},
    [ACT_ASYNC] = {"async_id", "L", false, KE_ARROW_NO_DICTIONARY},
    [ACT_FLAGS] = {"flags", "C", false, KE_ARROW_NO_DICTIONARY},
    [ACT_ARGS] = {"args", "U", true, KE_ARROW_NO_DICTIONARY},
};

/* Saturates: times of any file may be far apart. */
static int64_t slice_duration(const kt_block *k, uint32_t i)
{
    return kb_length_ns(k->start_ns[i], k->end_ns[i]);
}

static uint32_t process_of_track(const kineto_trace *trace, uint32_t track)
{
    kineto_track view;
    kineto_trace_track(trace, track, &view);
    return view.process;
}

/* Columns that have the same layout in the trace. */
static void borrow_activity_columns(ke_arrow_batch *b, const kt_block *k)
{
    int64_t count = k->count;
    ke_arrow_borrow(b, ACT_START, k->start_ns, count);
    ke_arrow_borrow(b, ACT_NAME, k->name, count);
    ke_arrow_borrow(b, ACT_CATEGORY, k->category, count);
    ke_arrow_borrow(b, ACT_KIND, k->kind, count);
    ke_arrow_borrow(b, ACT_FORM, k->form, count);
    ke_arrow_borrow(b, ACT_TRACK, k->track, count);
    ke_arrow_borrow(b, ACT_CORRELATION, k->correlation_id, count);
    ke_arrow_borrow(b, ACT_EXTERNAL, k->external_id, count);
}

/* Columns that are computed row by row. */
static void compute_activity_columns(ke_arrow_batch *b, const kt_block *k, kineto_row first)
{
    uint32_t track = UINT32_MAX, process = 0;
    for (uint32_t i = 0; i < k->count && !b->failed; i++) {
        if (k->track[i] != track)
            process = process_of_track(b->trace, track = k->track[i]);
        bool async = k->form[i] == KINETO_FORM_ASYNC;
        ke_arrow_put_u32(b, ACT_ROW, first + i);
        ke_arrow_put_i64(b, ACT_DURATION, slice_duration(k, i));
        ke_arrow_put_u32(b, ACT_PROCESS, process);
        ke_arrow_put_u64(b, ACT_ASYNC, async ? kt_async_id(b->trace, first + i) : 0);
        ke_arrow_put_u8(b, ACT_FLAGS, (uint8_t)(k->flags[i] & 0xff));
    }
}

/* Args as a JSON object; null if there are none. */
static void put_activity_args(ke_arrow_batch *b, kineto_row row)
{
    uint64_t replaced = 0;
    if (!ke_args_json(b->trace, row, &b->text, &replaced))
        b->failed = true;
    else if (b->text.count)
        ke_arrow_put_text(b, ACT_ARGS, (kineto_string){b->text.data, b->text.count});
    else
        ke_arrow_put_null(b, ACT_ARGS);
}

/* The table "events": activities without args, which is cheaper by far. */
static void fill_events(ke_arrow_batch *b, uint64_t *next, bool *done)
{
    *done = *next >= kt_block_count(b->trace);
    if (*done)
        return;
    const kt_block *k = kt_block_at(b->trace, (uint32_t)*next);
    borrow_activity_columns(b, k);
    compute_activity_columns(b, k, (kineto_row)(*next * KT_BLOCK_ROWS));
    b->count = k->count;
    *done = ++*next >= kt_block_count(b->trace);
}

/* As fill_events, with args. */
static void fill_activities(ke_arrow_batch *b, uint64_t *next, bool *done)
{
    kineto_row first = (kineto_row)(*next * KT_BLOCK_ROWS);
    fill_events(b, next, done);
    for (uint32_t i = 0; i < b->count && !b->failed; i++)
        put_activity_args(b, first + i);
}

/* ---- counters -------------------------------------------------------------------------------- */

enum { CTR_ROW, CTR_TRACK, CTR_PROCESS, CTR_TIME, CTR_NAME, CTR_SERIES, CTR_UNIT, CTR_VALUE };
static const ke_arrow_spec counter_columns[] = {
    [CTR_ROW] = {"row", "I", false, KE_ARROW_NO_DICTIONARY},
    [CTR_TRACK] = {"track", "I", false, KE_ARROW_NO_DICTIONARY},
    [CTR_PROCESS] = {"process", "I", false, KE_ARROW_NO_DICTIONARY},
    [CTR_TIME] = {"time_ns", "l", false, KE_ARROW_NO_DICTIONARY},
    [CTR_NAME] = {"name", "i", false, KE_ARROW_STRINGS},
    [CTR_SERIES] = {"series", "u", false, KE_ARROW_NO_DICTIONARY},
    [CTR_UNIT] = {"unit", "u", true, KE_ARROW_NO_DICTIONARY},
    [CTR_VALUE] = {"value", "g", false, KE_ARROW_NO_DICTIONARY},
};

/* One row for each number; the unit is part of the arg's key. */
static void put_counter_value(ke_arrow_batch *b, const kineto_activity *a, const kineto_arg *arg)
{
    kineto_string series, unit;
    ke_split_unit(arg->key, &series, &unit);
    ke_arrow_put_u32(b, CTR_ROW, a->row);
    ke_arrow_put_u32(b, CTR_TRACK, a->track);
    ke_arrow_put_u32(b, CTR_PROCESS, process_of_track(b->trace, a->track));
    ke_arrow_put_i64(b, CTR_TIME, a->start_ns);
    ke_arrow_put_u32(b, CTR_NAME, a->name_id);
    ke_arrow_put_text(b, CTR_SERIES, series);
    if (unit.size)
        ke_arrow_put_text(b, CTR_UNIT, unit);
    else
        ke_arrow_put_null(b, CTR_UNIT);
    ke_arrow_put_f64(b, CTR_VALUE,
                     arg->type == KINETO_ARG_DOUBLE ? arg->d
                     : arg->type == KINETO_ARG_INT  ? (double)arg->i
                                                    : (double)arg->u);
    b->count++;
}

/* Only args that are numbers are samples. */
static void put_counter_values(ke_arrow_batch *b, kineto_row row)
{
    kineto_activity a;
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_trace_get(b->trace, row, &a);
    kineto_args_begin(b->trace, row, &it);
    while (!b->failed && kineto_args_next(&it, &arg))
        if (arg.type >= KINETO_ARG_INT && arg.type <= KINETO_ARG_BOOL)
            put_counter_value(b, &a, &arg);
}

/* Samples of counters, one row for each value; *next: the row of the trace. */
static void fill_counters(ke_arrow_batch *b, uint64_t *next, bool *done)
{
    uint64_t rows = kineto_trace_count(b->trace);
    for (; *next < rows && b->count < BATCH_ROWS && !b->failed; ++*next) {
        const kt_block *k = kt_block_at(b->trace, (uint32_t)(*next / KT_BLOCK_ROWS));
        if (k->form[*next % KT_BLOCK_ROWS] == KINETO_FORM_COUNTER)
            put_counter_values(b, (kineto_row)*next);
    }
    *done = *next >= rows;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void put_arrow_label(ke_arrow_batch *b, uint32_t column, const ke_label *label)
{
    ke_arrow_put_text(b, column, (kineto_string){label->text, label->size});
}

enum {
    TRK_TRACK,
    TRK_PROCESS,
    TRK_TYPE,
    TRK_ID,
    TRK_NAME,
    TRK_LABEL,
    TRK_SORT,
    TRK_COUNT,
    TRK_LANES
};
static const ke_arrow_spec track_columns[] = {
    [TRK_TRACK] = {"track", "I", false, KE_ARROW_NO_DICTIONARY},
    [TRK_PROCESS] = {"process", "I", false, KE_ARROW_NO_DICTIONARY},
    [TRK_TYPE] = {"type", "u", false, KE_ARROW_NO_DICTIONARY},
    [TRK_ID] = {"id", "l", false, KE_ARROW_NO_DICTIONARY},
    [TRK_NAME] = {"name", "u", false, KE_ARROW_NO_DICTIONARY},
    [TRK_LABEL] = {"label", "u", false, KE_ARROW_NO_DICTIONARY},
    [TRK_SORT] = {"sort_index", "l", false, KE_ARROW_NO_DICTIONARY},
    [TRK_COUNT] = {"count", "L", false, KE_ARROW_NO_DICTIONARY},
    [TRK_LANES] = {"lanes", "I", false, KE_ARROW_NO_DICTIONARY},
};

static void put_arrow_track(ke_arrow_batch *b, uint64_t index)
{
    kineto_track t;
    ke_label label = ke_track_label(b->trace, (uint32_t)index);
    kineto_trace_track(b->trace, (uint32_t)index, &t);
    ke_arrow_put_u32(b, TRK_TRACK, (uint32_t)index);
    ke_arrow_put_u32(b, TRK_PROCESS, t.process);
    ke_arrow_put_text(b, TRK_TYPE, kb_string(ke_track_type_name(t.type)));
    ke_arrow_put_i64(b, TRK_ID, t.id);
    ke_arrow_put_text(b, TRK_NAME, t.name);
    put_arrow_label(b, TRK_LABEL, &label);
    ke_arrow_put_i64(b, TRK_SORT, t.sort_index);
    ke_arrow_put_u64(b, TRK_COUNT, t.count);
    ke_arrow_put_u32(b, TRK_LANES, t.lane_count);
}

enum {
    PRC_PROCESS,
    PRC_DEVICE,
    PRC_PID,
    PRC_PPID,
    PRC_NAME,
    PRC_LABEL,
    PRC_SORT,
    PRC_RANK,
    PRC_HOST,
    PRC_PROPERTIES
};
static const ke_arrow_spec process_columns[] = {
    [PRC_PROCESS] = {"process", "I", false, KE_ARROW_NO_DICTIONARY},
    [PRC_DEVICE] = {"is_device", "b", false, KE_ARROW_NO_DICTIONARY},
    [PRC_PID] = {"pid", "l", false, KE_ARROW_NO_DICTIONARY},
    [PRC_PPID] = {"ppid", "l", false, KE_ARROW_NO_DICTIONARY},
    [PRC_NAME] = {"name", "u", false, KE_ARROW_NO_DICTIONARY},
    [PRC_LABEL] = {"label", "u", false, KE_ARROW_NO_DICTIONARY},
    [PRC_SORT] = {"sort_index", "l", false, KE_ARROW_NO_DICTIONARY},
    [PRC_RANK] = {"rank", "i", true, KE_ARROW_NO_DICTIONARY},
    [PRC_HOST] = {"host", "u", false, KE_ARROW_NO_DICTIONARY},
    [PRC_PROPERTIES] = {"properties", "U", true, KE_ARROW_NO_DICTIONARY},
};

/* Properties of devices are JSON text. */
static void put_arrow_process(ke_arrow_batch *b, uint64_t index)
{
    kineto_process p;
    ke_label label = ke_process_label(b->trace, (uint32_t)index);
    kineto_trace_process(b->trace, (uint32_t)index, &p);
    ke_arrow_put_u32(b, PRC_PROCESS, (uint32_t)index);
    ke_arrow_put_bool(b, PRC_DEVICE, p.is_device);
    ke_arrow_put_i64(b, PRC_PID, p.pid);
    ke_arrow_put_i64(b, PRC_PPID, p.ppid);
    ke_arrow_put_text(b, PRC_NAME, p.name);
    put_arrow_label(b, PRC_LABEL, &label);
    ke_arrow_put_i64(b, PRC_SORT, p.sort_index);
    if (p.rank < 0)
        ke_arrow_put_null(b, PRC_RANK);
    else
        ke_arrow_put_i32(b, PRC_RANK, p.rank);
    ke_arrow_put_text(b, PRC_HOST, p.host);
    if (p.properties_json.size)
        ke_arrow_put_text(b, PRC_PROPERTIES, p.properties_json);
    else
        ke_arrow_put_null(b, PRC_PROPERTIES);
}

enum { FLW_FLOW, FLW_TYPE, FLW_ID, FLW_FROM, FLW_TO };
static const ke_arrow_spec flow_columns[] = {
    [FLW_FLOW] = {"flow", "L", false, KE_ARROW_NO_DICTIONARY},
    [FLW_TYPE] = {"type", "u", false, KE_ARROW_NO_DICTIONARY},
    [FLW_ID] = {"id", "L", false, KE_ARROW_NO_DICTIONARY},
    [FLW_FROM] = {"from_row", "I", true, KE_ARROW_NO_DICTIONARY},
    [FLW_TO] = {"to_row", "I", true, KE_ARROW_NO_DICTIONARY},
};

/* Null: this end of the flow was not recorded. */
static void put_row_or_null(ke_arrow_batch *b, uint32_t column, kineto_row row)
{
    if (row == KINETO_NO_ROW)
        ke_arrow_put_null(b, column);
    else
        ke_arrow_put_u32(b, column, row);
}

static void put_arrow_flow(ke_arrow_batch *b, uint64_t index)
{
    kineto_flow f;
    kineto_trace_flow(b->trace, index, &f);
    ke_arrow_put_u64(b, FLW_FLOW, index);
    ke_arrow_put_text(b, FLW_TYPE, kb_string(ke_flow_type_name(f.type)));
    ke_arrow_put_u64(b, FLW_ID, f.id);
    put_row_or_null(b, FLW_FROM, f.from);
    put_row_or_null(b, FLW_TO, f.to);
}

enum { LDG_SOURCE, LDG_REASON, LDG_COUNT, LDG_LOSS, LDG_DETAIL };
static const ke_arrow_spec ledger_columns[] = {
    [LDG_SOURCE] = {"source", "u", false, KE_ARROW_NO_DICTIONARY},
    [LDG_REASON] = {"reason", "u", false, KE_ARROW_NO_DICTIONARY},
    [LDG_COUNT] = {"count", "L", false, KE_ARROW_NO_DICTIONARY},
    [LDG_LOSS] = {"is_loss", "b", false, KE_ARROW_NO_DICTIONARY},
    [LDG_DETAIL] = {"detail", "u", false, KE_ARROW_NO_DICTIONARY},
};

static void put_arrow_ledger(ke_arrow_batch *b, uint64_t index)
{
    kineto_ledger_line line;
    kineto_trace_ledger(b->trace, (uint32_t)index, &line);
    ke_arrow_put_text(b, LDG_SOURCE, line.source);
    ke_arrow_put_text(b, LDG_REASON, line.reason);
    ke_arrow_put_u64(b, LDG_COUNT, line.count);
    ke_arrow_put_bool(b, LDG_LOSS, line.is_loss);
    ke_arrow_put_text(b, LDG_DETAIL, line.detail);
}

static const ke_arrow_spec metadata_columns[] = {
    {"key", "u", false, KE_ARROW_NO_DICTIONARY},
    {"value", "U", false, KE_ARROW_NO_DICTIONARY},
};

static void put_arrow_metadata(ke_arrow_batch *b, uint64_t index)
{
    kineto_string key, value;
    kineto_trace_metadata(b->trace, (uint32_t)index, &key, &value);
    ke_arrow_put_text(b, 0, key);
    ke_arrow_put_text(b, 1, value);
}

/* Tables with one row per item; *next: its index. */
static void fill_arrow_rows(ke_arrow_batch *b, uint64_t *next, bool *done, uint64_t count,
                            void (*put)(ke_arrow_batch *, uint64_t))
{
    for (; *next < count && b->count < BATCH_ROWS && !b->failed; ++*next, b->count++)
        put(b, *next);
    *done = *next >= count;
}

#define FILL(what, total)                                                                          \
    static void fill_##what##_rows(ke_arrow_batch *b, uint64_t *next, bool *done)                  \
    {                                                                                              \
        fill_arrow_rows(b, next, done, total(b->trace), put_arrow_##what);                         \
    }
FILL(track, kineto_trace_track_count)
FILL(process, kineto_trace_process_count)
FILL(flow, kineto_trace_flow_count)
FILL(ledger, kineto_trace_ledger_count)
FILL(metadata, kineto_trace_metadata_count)

static const ke_arrow_table tables[] = {
    {"activities", KB_COUNT(activity_columns), activity_columns, fill_activities, true},
    {"events", ACT_ARGS, activity_columns, fill_events, true},
    {"counters", KB_COUNT(counter_columns), counter_columns, fill_counters, true},
    {"tracks", KB_COUNT(track_columns), track_columns, fill_track_rows, false},
    {"processes", KB_COUNT(process_columns), process_columns, fill_process_rows, false},
    {"flows", KB_COUNT(flow_columns), flow_columns, fill_flow_rows, false},
    {"ledger", KB_COUNT(ledger_columns), ledger_columns, fill_ledger_rows, false},
    {"metadata", KB_COUNT(metadata_columns), metadata_columns, fill_metadata_rows, false},
};

const ke_arrow_table *ke_arrow_table_at(size_t index)
{
    return index < KB_COUNT(tables) ? &tables[index] : NULL;
}
