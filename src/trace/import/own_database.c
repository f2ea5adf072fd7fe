/* Databases that ckineto itself wrote (ckineto convert FILE -o FILE.sqlite, export/sql_file.c): the tables are those
 * of ckineto query. */
#include "trace/import/database.h"

typedef struct own_database {
    kt_database *d;
    kt_import m;
    KB_VEC(uint32_t) processes, tracks; /* by the file's number */
    kt_rows args;
    bool has_arg; /* a row of `args` that belongs to a later activity */
    bool has_moved; /* rows have other numbers than in the file: flows cannot be joined */
    uint64_t bad;
} own_database;

bool kt_is_own_database(const kt_database *d)
{
    return kt_database_find(d, "activities") && kt_database_find(d, "tracks") && kt_database_find(d, "processes");
}

/* Texts of a row live until the next one: interned they stay. */
static uint32_t intern_text(own_database *o, const kt_rows *rows, int column)
{
    return kt_string(o->m.b, kt_rows_text(rows, column));
}

/* The index of a word in a list; `count`: it is none of them. */
static uint32_t find_word(kineto_string text, const char *const *words, uint32_t count)
{
    uint32_t i = 0;
    while (i < count && !kb_string_is(text, words[i]))
        i++;
    return i;
}

/* ---- processes and tracks -------------------------------------------------------------------- */

/* Processes of one number are told apart by their place in the file. */
static void read_own_processes(own_database *o)
{
    static const char *const columns[] = {"!process", "!is_device", "!pid", "ppid", "name", "label", "sort_index", "rank", "host", NULL};
    kt_rows rows;
    int64_t number;
    if (kt_rows_open(&rows, o->d, "processes", columns))
        while (kt_rows_next(&rows)) {
            if (!kt_rows_int(&rows, 0, &number) || number != (int64_t)o->processes.count)
                continue;
            bool is_device = kt_rows_int_or(&rows, 1, 0) != 0;
            uint32_t process = kt_rows_int(&rows, 2, &number) ? kt_process(o->m.b, is_device, number, (uint64_t)o->processes.count)
                                                              : kt_process_text(o->m.b, kt_rows_text(&rows, 2));
            kineto_process p = {.ppid = kt_rows_int_or(&rows, 3, 0), .sort_index = kt_rows_int_or(&rows, 6, 0),
                                .rank = (int32_t)kt_rows_int_or(&rows, 7, -1)};
            p.name = kineto_trace_string(o->m.b->trace, intern_text(o, &rows, 4));
            p.label = kineto_trace_string(o->m.b->trace, intern_text(o, &rows, 5));
            p.host = kineto_trace_string(o->m.b->trace, intern_text(o, &rows, 8));
            kt_process_set(o->m.b, process, &p);
            if (!kb_vec_push(&o->processes, process))
                o->m.b->status = KINETO_E_MEMORY;
        }
    kt_rows_close(&rows);
}

static void read_own_devices(own_database *o)
{
    static const char *const columns[] = {"!process", "properties", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, o->d, "devices", columns))
        while (kt_rows_next(&rows)) {
            uint64_t process = (uint64_t)kt_rows_int_or(&rows, 0, -1);
            kineto_string properties = kt_rows_text(&rows, 1);
            if (process < o->processes.count && kb_json_valid(properties))
                kt_process_set(o->m.b, o->processes.data[process], &(kineto_process){.properties_json = properties, .rank = -1});
        }
    kt_rows_close(&rows);
}

static void read_own_tracks(own_database *o)
{
    static const char *const columns[] = {"!track", "!process", "!type", "!id", "name", "sort_index", NULL};
    static const char *const types[] = {"thread", "stream", "counter", "async", "other"};
    static const kineto_track_type values[] = {KINETO_TRACK_THREAD, KINETO_TRACK_STREAM, KINETO_TRACK_COUNTER, KINETO_TRACK_ASYNC, KINETO_TRACK_OTHER};
    kt_rows rows;
    int64_t number;
    if (kt_rows_open(&rows, o->d, "tracks", columns))
        while (kt_rows_next(&rows)) {
            uint64_t process = (uint64_t)kt_rows_int_or(&rows, 1, -1);
            uint32_t type = find_word(kt_rows_text(&rows, 2), types, KB_COUNT(types));
            if (!kt_rows_int(&rows, 0, &number) || number != (int64_t)o->tracks.count || process >= o->processes.count || type == KB_COUNT(types))
                continue;
            uint32_t in = o->processes.data[process];
            uint32_t track = kt_rows_int(&rows, 3, &number) ? kt_track(o->m.b, in, values[type], number)
                                                            : kt_track_text(o->m.b, in, kt_rows_text(&rows, 3));
            kt_track_set(o->m.b, track, kt_rows_text(&rows, 4), kt_rows_int_or(&rows, 5, 0));
            if (!kb_vec_push(&o->tracks, track))
                o->m.b->status = KINETO_E_MEMORY;
        }
    kt_rows_close(&rows);
}

/* ---- activities ------------------------------------------------------------------------------- */

enum { ARG_ROW, ARG_KEY, ARG_TYPE, ARG_VALUE };

/* Lists and objects are JSON text, numbers beyond 64 bits with sign are decimal text. */
static void put_own_arg(own_database *o)
{
    static const char *const types[] = {"none", "int", "uint", "double", "bool", "string", "ints", "strings", "json", "shapes"};
    static const kineto_arg_type values[] = {KINETO_ARG_JSON, KINETO_ARG_INT, KINETO_ARG_UINT, KINETO_ARG_DOUBLE, KINETO_ARG_BOOL,
                                             KINETO_ARG_STRING, KINETO_ARG_INTS, KINETO_ARG_STRINGS, KINETO_ARG_JSON, KINETO_ARG_SHAPES};
    const kt_rows *rows = &o->args;
    kt_builder *b = o->m.b;
    uint32_t key = kt_string(b, kt_rows_text(rows, ARG_KEY)), type = find_word(kt_rows_text(rows, ARG_TYPE), types, KB_COUNT(types));
    kineto_string text = kt_rows_text(rows, ARG_VALUE);
    int64_t whole;
    double number;
    if (type == KB_COUNT(types))
        o->bad++;
    else if (kt_rows_int(rows, ARG_VALUE, &whole) && values[type] == KINETO_ARG_BOOL)
        kt_args_put_bool(b, key, whole != 0);
    else if (kt_rows_int(rows, ARG_VALUE, &whole) && values[type] != KINETO_ARG_DOUBLE)
        kt_args_put_int(b, key, whole);
    else if (kt_rows_number(rows, ARG_VALUE, &number))
        kt_args_put_double(b, key, number);
    else if (values[type] == KINETO_ARG_UINT)
        kt_args_put_uint(b, key, strtoull(kt_rows_is_null(rows, ARG_VALUE) ? "0" : text.data, NULL, 10));
    else if (values[type] == KINETO_ARG_STRING)
        kt_args_put_string(b, key, text);
    else
        kt_args_put_json(b, key, KINETO_ARG_JSON, kb_json_valid(text) ? text : kb_string("null"));
}

/* Both tables are in the order of rows. */
static void put_own_args(own_database *o, int64_t row)
{
    while (o->has_arg || (o->args.statement && kt_rows_next(&o->args))) {
        int64_t of = kt_rows_int_or(&o->args, ARG_ROW, -1);
        o->has_arg = of > row;
        if (o->has_arg)
            return;
        if (of == row)
            put_own_arg(o);
        else
            o->bad++;
    }
}

enum { ROW, START, END, NAME, CATEGORY, KIND, FORM, TRACK, CORRELATION, EXTERNAL, ASYNC, OPEN_START, OPEN_END };

/* False: a value is missing, or of a wrong type. */
static bool read_own_row(own_database *o, const kt_rows *rows, kt_row *row)
{
    static const char *const forms[] = {"slice", "async", "instant", "counter"};
    static const kineto_form values[] = {KINETO_FORM_SLICE, KINETO_FORM_ASYNC, KINETO_FORM_INSTANT, KINETO_FORM_COUNTER};
    uint64_t track = (uint64_t)kt_rows_int_or(rows, TRACK, -1);
    int kind = kb_kind_parse(kt_rows_text(rows, KIND));
    uint32_t form = find_word(kt_rows_text(rows, FORM), forms, KB_COUNT(forms)), category = intern_text(o, rows, CATEGORY);
    if (!kt_rows_int(rows, START, &row->start_ns) || !kt_rows_int(rows, END, &row->end_ns) || track >= o->tracks.count ||
        kind < 0 || form == KB_COUNT(forms))
        return false;
    row->track = o->tracks.data[track];
    row->kind = (uint32_t)kind;
    row->form = values[form];
    row->name = intern_text(o, rows, NAME);
    row->category = category ? category : KT_NO_CATEGORY;
    row->correlation_id = (uint64_t)kt_rows_int_or(rows, CORRELATION, 0);
    row->external_id = (uint64_t)kt_rows_int_or(rows, EXTERNAL, 0);
    row->async_id = (uint64_t)kt_rows_int_or(rows, ASYNC, 0);
    row->flags = (kt_rows_int_or(rows, OPEN_START, 0) ? KINETO_ACTIVITY_OPEN_START : 0) |
                 (kt_rows_int_or(rows, OPEN_END, 0) ? KINETO_ACTIVITY_OPEN_END : 0);
    return true;
}

static void read_own_activities(own_database *o)
{
    static const char *const columns[] = {"!row", "!start_ns", "!end_ns", "!name", "category", "!kind", "!form", "!track", "correlation_id",
                                          "external_id", "async_id", "open_start", "open_end", NULL};
    static const char *const arg_columns[] = {"!row", "!key", "!type", "!value", NULL};
    kt_rows rows;
    (void)kt_rows_open(&o->args, o->d, "args", arg_columns);
    if (kt_rows_open(&rows, o->d, "activities", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {0};
            int64_t number = kt_rows_int_or(&rows, ROW, -1);
            if (!read_own_row(o, &rows, &row)) {
                o->bad++;
                continue;
            }
            put_own_args(o, number);
            o->has_moved |= kt_append(o->m.b, &row) != (uint64_t)number;
        }
    kt_rows_close(&rows);
    kt_rows_close(&o->args);
}

/* ---- the rest --------------------------------------------------------------------------------- */

/* The type of a flow is a word; ends without a row are left out. */
static void read_own_flows(own_database *o)
{
    static const char *const columns[] = {"!type", "!id", "!from_row", "!to_row", NULL};
    static const char *const types[] = {"user", "fwdbwd", "ac2g"};
    static const uint32_t values[] = {KINETO_FLOW_USER, KINETO_FLOW_FWD_BWD, KINETO_FLOW_ASYNC_CPU_GPU};
    kt_rows rows;
    int64_t row;
    if (!o->has_moved && kt_rows_open(&rows, o->d, "flows", columns)) {
        while (kt_rows_next(&rows)) {
            uint32_t type = values[find_word(kt_rows_text(&rows, 0), types, KB_COUNT(types)) % KB_COUNT(types)];
            for (int end = 0; end < 2; end++)
                if (kt_rows_int(&rows, 2 + end, &row) && row >= 0 && (uint64_t)row < o->m.b->trace->count)
                    kt_flow(o->m.b, type, (uint64_t)kt_rows_int_or(&rows, 1, 0), (kineto_row)row, end == 0);
        }
        kt_rows_close(&rows);
    }
}

/* Header and ledger of the trace that was written. */
static void read_own_header(own_database *o)
{
    static const char *const pairs[] = {"!key", "!value", NULL};
    static const char *const lines[] = {"!source", "!reason", "!count", "is_loss", "detail", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, o->d, "metadata", pairs))
        while (kt_rows_next(&rows))
            kt_metadata(o->m.b, kt_rows_text(&rows, 0), kt_rows_text(&rows, 1));
    kt_rows_close(&rows);
    if (kt_rows_open(&rows, o->d, "ledger", lines))
        while (kt_rows_next(&rows))
            kt_ledger_add(o->m.b, kt_rows_text(&rows, 0), kt_rows_text(&rows, 1), (uint64_t)kt_rows_int_or(&rows, 2, 0),
                          kt_rows_int_or(&rows, 3, 0) != 0, kt_rows_text(&rows, 4));
    kt_rows_close(&rows);
}

/* Tables that are made of the others. */
static void skip_derived(kt_database *d)
{
    static const char *const names[] = {"counters", "steps", "flows"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        kt_database_table *t = kt_database_find(d, names[i]);
        if (t)
            t->is_read = true;
    }
}

kineto_status kt_import_own_database(kt_database *d, const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    own_database o = {.d = d};
    kineto_status status = kt_import_begin(&o.m, source, "ckineto database", err);
    if (!status) {
        o.m.has_flows = true;
        read_own_processes(&o);
        read_own_devices(&o);
        read_own_tracks(&o);
        read_own_activities(&o);
        read_own_flows(&o);
        read_own_header(&o);
        kt_import_note(&o.m, "flows of activities whose rows have other numbers: not read", o.has_moved, kb_string(""));
        skip_derived(d);
        kt_import_unread_tables(&o.m, d);
        kt_import_lost(&o.m, "rows with a value that is missing or of a wrong type: left out", o.bad, kb_string(""));
        status = kt_database_finish(d, &o.m, out, err);
    }
    kb_vec_free(&o.processes);
    kb_vec_free(&o.tracks);
    kt_import_free(&o.m);
    return status;
}
