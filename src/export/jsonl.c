/* JSON lines: one object per line, whose "type" names its kind. The trace, its header and tables
 * come first, then the activities in the order of rows, then flows and the ledger. Times are whole
 * nanoseconds; readers that only have doubles should use "offset_ns", which is small enough to be
 * exact. */
#include "export/export.h"

#define FLAGS_WRITTEN 15u /* those with a name in ke_flag_names */

typedef struct jsonl_writer {
    const ke_job *job;
    const kineto_trace *trace;
    kb_sink *sink;
    kb_json json;
    ke_rows rows;
    ke_text text; /* JSON on one line */
    bool ok;
} jsonl_writer;

/* Opens the object of a line with its "type". */
static kb_json *begin_line(jsonl_writer *l, const char *type)
{
    kb_json_object_begin(&l->json);
    kb_json_put_string(&l->json, "type", kb_string(type));
    return &l->json;
}

/* Starts a new JSON state for the next line; the count of replaced bytes carries over. */
static void end_line(jsonl_writer *l)
{
    uint64_t replaced = l->json.replaced_bytes;
    kb_json_object_end(&l->json);
    kb_sink_write(l->sink, "\n", 1);
    kb_json_init(&l->json, l->sink);
    l->json.replaced_bytes = replaced;
}

/* Empty texts are left out. */
static void put_text_if_any(kb_json *j, const char *key, kineto_string text)
{
    if (text.size)
        kb_json_put_string(j, key, text);
}

/* JSON of the trace may span lines; the object of a line must not. */
static void put_compact_json(jsonl_writer *l, const char *key, kineto_string json)
{
    l->text.count = 0;
    l->ok = l->ok && ke_text_compact(&l->text, json, &l->rows.replaced);
    kb_json_key_z(&l->json, key);
    kb_json_raw(&l->json, (kineto_string){l->text.data, l->text.count});
}

/* A number, or the text that the file has instead. */
static void put_number_or_text(kb_json *j, const char *key, kineto_string text, int64_t number)
{
    if (text.data)
        kb_json_put_string(j, key, text);
    else
        kb_json_put_int(j, key, number);
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* The first line: format, version, window and counts. */
static void put_trace_line(jsonl_writer *l)
{
    int64_t start, stop;
    kb_json *j = begin_line(l, "trace");
    kineto_trace_window(l->trace, &start, &stop);
    kb_json_put_string(j, "format", kb_string("ckineto.jsonl"));
    kb_json_put_uint(j, "version", 1);
    kb_json_put_string(j, "name", kb_string(l->job->trace_name));
    kb_json_put_int(j, "window_start_ns", start);
    kb_json_put_int(j, "window_end_ns", stop);
    kb_json_put_int(j, "base_ns", l->job->census.start_ns);
    kb_json_put_uint(j, "activities", l->job->census.activities);
    kb_json_put_uint(j, "flows", l->job->census.flows + l->job->census.half_flows);
    end_line(l);
}

static void put_metadata_lines(jsonl_writer *l)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(l->trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(l->trace, i, &key, &value);
        kb_json *j = begin_line(l, "metadata");
        kb_json_put_string(j, "key", key);
        put_compact_json(l, "value", value);
        end_line(l);
    }
}

static void put_process_line(jsonl_writer *l, uint32_t index)
{
    kineto_process p;
    kineto_trace_process(l->trace, index, &p);
    kb_json *j = begin_line(l, "process");
    kb_json_put_uint(j, "process", index);
    kb_json_put_bool(j, "device", p.is_device);
    put_number_or_text(j, "pid", kt_process_text_of(l->trace, index), p.pid);
    if (p.ppid)
        kb_json_put_int(j, "ppid", p.ppid);
    kb_json_put_string(j, "name", p.name);
    put_text_if_any(j, "label", p.label);
    kb_json_put_int(j, "sort_index", p.sort_index);
    if (p.rank >= 0)
        kb_json_put_int(j, "rank", p.rank);
    put_text_if_any(j, "host", p.host);
    if (p.properties_json.size)
        put_compact_json(l, "properties", p.properties_json);
    end_line(l);
}

static void put_track_line(jsonl_writer *l, uint32_t index)
{
    const ke_place_view *p = &l->rows.places[index];
    kb_json *j = begin_line(l, "track");
    kb_json_put_uint(j, "track", index);
    kb_json_put_uint(j, "process", p->track.process);
    kb_json_put_string(j, "track_type", kb_string(ke_track_type_name(p->track.type)));
    put_number_or_text(j, "track_id", p->track_text, p->track.id);
    kb_json_put_string(j, "name", p->track.name);
    kb_json_put_int(j, "sort_index", p->track.sort_index);
    kb_json_put_uint(j, "activities", p->track.count);
    kb_json_put_uint(j, "lanes", p->track.lane_count);
    end_line(l);
}

/* Categories of plug-ins and their kinds. */
static void put_plugin_kind_lines(jsonl_writer *l)
{
    for (uint32_t i = 0; i < kt_own_kind_count(l->trace); i++) {
        uint32_t kind = 0;
        kineto_string category = kt_own_kind_at(l->trace, i, &kind);
        kb_json *j = begin_line(l, "own_kind");
        kb_json_put_string(j, "category", category);
        kb_json_put_string(j, "kind", kb_string(kineto_kind_name(kind)));
        end_line(l);
    }
}

static void put_snapshot_lines(jsonl_writer *l)
{
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(l->trace); i++) {
        kineto_clock_snapshot s;
        kineto_trace_snapshot(l->trace, i, &s);
        kb_json *j = begin_line(l, "clock_snapshot");
        ke_put_snapshot(j, &s);
        end_line(l);
    }
}

static void put_flow_lines(jsonl_writer *l)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(l->trace); i++) {
        kineto_flow f;
        kineto_trace_flow(l->trace, i, &f);
        kb_json *j = begin_line(l, "flow");
        kb_json_put_string(j, "flow_type", kb_string(ke_flow_type_name(f.type)));
        kb_json_put_uint(j, "id", f.id);
        if (f.from != KINETO_NO_ROW)
            kb_json_put_uint(j, "from", f.from);
        if (f.to != KINETO_NO_ROW)
            kb_json_put_uint(j, "to", f.to);
        end_line(l);
    }
}

static void put_ledger_lines(jsonl_writer *l)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(l->trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(l->trace, i, &line);
        kb_json *j = begin_line(l, "ledger");
        ke_put_ledger_line(j, &line);
        put_text_if_any(j, "detail", line.detail);
        end_line(l);
    }
}

/* ---- activities ------------------------------------------------------------------------------ */

/* Formats the members from "process" to the track's name, which are the same for all rows of a
 * track, once. */
static bool format_track_members(jsonl_writer *l, uint32_t track)
{
    ke_place_view *p = &l->rows.places[track];
    kb_sink *memory;
    kb_json j;
    char *data = NULL;
    size_t size = 0;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &memory, NULL))
        return false;
    kb_json_init(&j, memory);
    kb_json_object_begin(&j);
    kb_json_put_uint(&j, "process", p->track.process);
    put_number_or_text(&j, "pid", p->process_text, p->process.pid);
    put_text_if_any(&j, "process_name", p->process.name);
    kb_json_put_bool(&j, "device", p->process.is_device);
    kb_json_put_uint(&j, "track", track);
    kb_json_put_string(&j, "track_type", kb_string(ke_track_type_name(p->track.type)));
    put_number_or_text(&j, "track_id", p->track_text, p->track.id);
    put_text_if_any(&j, "track_name", p->track.name);
    bool ok = kb_sink_take(memory, &data, &size, NULL) == KINETO_OK;
    ok = kb_sink_close(memory, NULL) == KINETO_OK && ok;
    if (ok)
        data[0] = ','; /* instead of the opening brace */
    p->text = (kineto_string){data, ok ? size : 0};
    return ok;
}

/* KINETO_NO_ROW is left out. */
static void put_row_if_any(kb_json *j, const char *key, kineto_row row)
{
    if (row != KINETO_NO_ROW)
        kb_json_put_uint(j, key, row);
}

static void put_id_if_any(kb_json *j, const char *key, uint64_t id)
{
    if (id)
        kb_json_put_uint(j, key, id);
}

static void put_flag_names(kb_json *j, uint32_t flags)
{
    if (!(flags & FLAGS_WRITTEN))
        return;
    kb_json_key_z(j, "flags");
    kb_json_array_begin(j);
    for (size_t i = 0; i < KB_COUNT(ke_flag_names); i++)
        if (flags >> i & 1)
            kb_json_string_z(j, ke_flag_names[i]);
    kb_json_array_end(j);
}

static void put_activity_times(kb_json *j, const jsonl_writer *l, const kineto_activity *a)
{
    kb_json_put_int(j, "start_ns", a->start_ns);
    kb_json_put_int(j, "end_ns", a->end_ns);
    kb_json_put_uint(j, "duration_ns", (uint64_t)a->end_ns - (uint64_t)a->start_ns);
    kb_json_put_uint(j, "offset_ns", (uint64_t)a->start_ns - (uint64_t)l->job->census.start_ns);
    kb_json_put_uint(j, "self_ns", (uint64_t)kineto_trace_self_ns(l->trace, a->row));
}

/* One line with everything about a row; members that do not apply are left out. */
static void put_activity_line(jsonl_writer *l)
{
    const kineto_activity *a = &l->rows.activity;
    kb_json *j = begin_line(l, "activity");
    kb_json_put_uint(j, "row", a->row);
    kb_json_put_string(j, "name", a->name);
    kb_json_put_string(j, "kind", kb_string(kineto_kind_name(a->kind)));
    kb_json_put_string(j, "category", kineto_trace_string(l->trace, a->category));
    kb_json_put_string(j, "form", kb_string(ke_form_name(a->form)));
    put_activity_times(j, l, a);
    kb_sink_write(l->sink, l->rows.place->text.data, l->rows.place->text.size);
    kb_json_put_uint(j, "lane", kineto_trace_lane(l->trace, a->row));
    put_row_if_any(j, "parent", kineto_trace_parent(l->trace, a->row));
    put_row_if_any(j, "launch", kineto_trace_launch(l->trace, a->row));
    put_id_if_any(j, "correlation_id", a->correlation_id);
    put_id_if_any(j, "external_id", a->external_id);
    if (a->form == KINETO_FORM_ASYNC)
        kb_json_put_uint(j, "async_id", a->async_id);
    put_flag_names(j, a->flags);
    if (l->rows.args.count) {
        kb_json_key_z(j, "args");
        kb_json_raw(j, (kineto_string){l->rows.args.data, l->rows.args.count});
    }
    end_line(l);
}

/* Formats the members of all tracks first, then writes the rows in their order. */
static void put_activity_lines(jsonl_writer *l)
{
    for (uint32_t i = 0; l->ok && i < l->rows.place_count; i++)
        l->ok = format_track_members(l, i);
    for (uint64_t row = 0; l->ok && row < l->job->census.activities && !kb_sink_failed(l->sink);
         row++) {
        l->ok = ke_rows_load(&l->rows, (kineto_row)row);
        if (l->ok)
            put_activity_line(l);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static void account_jsonl(const jsonl_writer *l)
{
    kineto_export_result *r = l->job->result;
    ke_result_count_all(l->job);
    r->records = l->job->census.activities;
    r->record_noun = "lines";
    r->replaced_bytes = l->json.replaced_bytes + l->rows.replaced;
}

kineto_status ke_jsonl_write(ke_job *job, kineto_error *err)
{
    jsonl_writer l = {.job = job, .trace = job->trace, .sink = job->sink};
    kb_json_init(&l.json, job->sink);
    l.ok = ke_rows_begin(&l.rows, job);
    put_trace_line(&l);
    put_metadata_lines(&l);
    for (uint32_t i = 0; i < kineto_trace_process_count(job->trace); i++)
        put_process_line(&l, i);
    for (uint32_t i = 0; l.ok && i < l.rows.place_count; i++)
        put_track_line(&l, i);
    put_plugin_kind_lines(&l);
    put_activity_lines(&l);
    put_flow_lines(&l);
    put_ledger_lines(&l);
    put_snapshot_lines(&l);
    account_jsonl(&l);
    ke_rows_end(&l.rows);
    kb_vec_free(&l.text);
    return l.ok ? KINETO_OK : ke_fail_memory(job, err);
}
