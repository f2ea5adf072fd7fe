/* JSON lines: an object on each line, its "type" says of what. First the trace, its header and its
 * tables, then the activities in the order of rows, then flows and the ledger. Times are whole
 * nanoseconds; "offset_ns" is the one that readers with doubles only can trust. */
#include "export/rows.h"

typedef struct lines {
    const ke_job *job;
    const kineto_trace *trace;
    kb_sink *sink;
    kb_json json;
    ke_rows rows;
    ke_text text; /* JSON on one line */
    bool ok;
} lines;

static kb_json *begin(lines *l, const char *type)
{
    kb_json_object_begin(&l->json);
    kb_json_put_string(&l->json, "type", kb_string(type));
    return &l->json;
}

static void end(lines *l)
{
    uint64_t replaced = l->json.replaced_bytes;
    kb_json_object_end(&l->json);
    kb_sink_write(l->sink, "\n", 1);
    kb_json_init(&l->json, l->sink);
    l->json.replaced_bytes = replaced;
}

static void put_some(kb_json *j, const char *key, kineto_string text)
{
    if (text.size)
        kb_json_put_string(j, key, text);
}

static void put_raw(lines *l, const char *key, kineto_string json)
{
    l->text.count = 0;
    l->ok = l->ok && ke_text_compact(&l->text, json, &l->rows.replaced);
    kb_json_key_z(&l->json, key);
    kb_json_raw(&l->json, (kineto_string){l->text.data, l->text.count});
}

/* A number, or the text that stands for it. */
static void put_number_or_text(kb_json *j, const char *key, kineto_string text, int64_t number)
{
    if (text.data)
        kb_json_put_string(j, key, text);
    else
        kb_json_put_int(j, key, number);
}

/* ---- tables ------------------------------------------------------------------------------------- */

static void put_trace(lines *l)
{
    int64_t start, stop;
    kb_json *j = begin(l, "trace");
    kineto_trace_window(l->trace, &start, &stop);
    kb_json_put_string(j, "format", kb_string("ckineto.jsonl"));
    kb_json_put_uint(j, "version", 1);
    kb_json_put_string(j, "name", kb_string(l->job->trace_name));
    kb_json_put_int(j, "window_start_ns", start);
    kb_json_put_int(j, "window_end_ns", stop);
    kb_json_put_int(j, "base_ns", l->job->census.start_ns);
    kb_json_put_uint(j, "activities", l->job->census.activities);
    kb_json_put_uint(j, "flows", l->job->census.flows + l->job->census.half_flows);
    end(l);
}

static void put_metadata(lines *l)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(l->trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(l->trace, i, &key, &value);
        kb_json *j = begin(l, "metadata");
        kb_json_put_string(j, "key", key);
        put_raw(l, "value", value);
        end(l);
    }
}

static void put_process(lines *l, uint32_t index)
{
    kineto_process p;
    kineto_trace_process(l->trace, index, &p);
    kb_json *j = begin(l, "process");
    kb_json_put_uint(j, "process", index);
    kb_json_put_bool(j, "device", p.is_device);
    put_number_or_text(j, "pid", kt_process_text_of(l->trace, index), p.pid);
    if (p.ppid)
        kb_json_put_int(j, "ppid", p.ppid);
    kb_json_put_string(j, "name", p.name);
    put_some(j, "label", p.label);
    kb_json_put_int(j, "sort_index", p.sort_index);
    if (p.rank >= 0)
        kb_json_put_int(j, "rank", p.rank);
    put_some(j, "host", p.host);
    if (p.properties_json.size)
        put_raw(l, "properties", p.properties_json);
    end(l);
}

static void put_track(lines *l, uint32_t index)
{
    const ke_place_view *p = &l->rows.places[index];
    kb_json *j = begin(l, "track");
    kb_json_put_uint(j, "track", index);
    kb_json_put_uint(j, "process", p->track.process);
    kb_json_put_string(j, "track_type", kb_string(ke_track_type_name(p->track.type)));
    put_number_or_text(j, "track_id", p->track_text, p->track.id);
    kb_json_put_string(j, "name", p->track.name);
    kb_json_put_int(j, "sort_index", p->track.sort_index);
    kb_json_put_uint(j, "activities", p->track.count);
    kb_json_put_uint(j, "lanes", p->track.lane_count);
    end(l);
}

static void put_own_kinds(lines *l)
{
    for (uint32_t i = 0; i < kt_own_kind_count(l->trace); i++) {
        uint32_t kind = 0;
        kineto_string category = kt_own_kind_at(l->trace, i, &kind);
        kb_json *j = begin(l, "own_kind");
        kb_json_put_string(j, "category", category);
        kb_json_put_string(j, "kind", kb_string(kineto_kind_name(kind)));
        end(l);
    }
}

static void put_snapshots(lines *l)
{
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(l->trace); i++) {
        kineto_clock_snapshot s;
        kineto_trace_snapshot(l->trace, i, &s);
        kb_json *j = begin(l, "clock_snapshot");
        ke_put_snapshot(j, &s);
        end(l);
    }
}

static void put_flows(lines *l)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(l->trace); i++) {
        kineto_flow f;
        kineto_trace_flow(l->trace, i, &f);
        kb_json *j = begin(l, "flow");
        kb_json_put_string(j, "flow_type", kb_string(ke_flow_type_name(f.type)));
        kb_json_put_uint(j, "id", f.id);
        if (f.from != KINETO_NO_ROW)
            kb_json_put_uint(j, "from", f.from);
        if (f.to != KINETO_NO_ROW)
            kb_json_put_uint(j, "to", f.to);
        end(l);
    }
}

static void put_ledger(lines *l)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(l->trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(l->trace, i, &line);
        kb_json *j = begin(l, "ledger");
        ke_put_ledger_line(j, &line);
        put_some(j, "detail", line.detail);
        end(l);
    }
}

/* ---- activities --------------------------------------------------------------------------------- */

/* `,"process":…` up to the track's name: the same for all rows of a track, so made once. */
static bool make_place(lines *l, uint32_t track)
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
    put_some(&j, "process_name", p->process.name);
    kb_json_put_bool(&j, "device", p->process.is_device);
    kb_json_put_uint(&j, "track", track);
    kb_json_put_string(&j, "track_type", kb_string(ke_track_type_name(p->track.type)));
    put_number_or_text(&j, "track_id", p->track_text, p->track.id);
    put_some(&j, "track_name", p->track.name);
    bool ok = kb_sink_take(memory, &data, &size, NULL) == KINETO_OK;
    ok = kb_sink_close(memory, NULL) == KINETO_OK && ok;
    if (ok)
        data[0] = ','; /* was the brace */
    p->text = (kineto_string){data, ok ? size : 0};
    return ok;
}

static void put_row_number(kb_json *j, const char *key, kineto_row row)
{
    if (row != KINETO_NO_ROW)
        kb_json_put_uint(j, key, row);
}

static void put_id(kb_json *j, const char *key, uint64_t id)
{
    if (id)
        kb_json_put_uint(j, key, id);
}

static void put_flags(kb_json *j, uint32_t flags)
{
    if (!(flags & 15))
        return;
    kb_json_key_z(j, "flags");
    kb_json_array_begin(j);
    for (size_t i = 0; i < KB_COUNT(ke_flag_names); i++)
        if (flags >> i & 1)
            kb_json_string_z(j, ke_flag_names[i]);
    kb_json_array_end(j);
}

static void put_times(kb_json *j, const lines *l, const kineto_activity *a)
{
    kb_json_put_int(j, "start_ns", a->start_ns);
    kb_json_put_int(j, "end_ns", a->end_ns);
    kb_json_put_uint(j, "duration_ns", (uint64_t)a->end_ns - (uint64_t)a->start_ns);
    kb_json_put_uint(j, "offset_ns", (uint64_t)a->start_ns - (uint64_t)l->job->census.start_ns);
    kb_json_put_uint(j, "self_ns", (uint64_t)kineto_trace_self_ns(l->trace, a->row));
}

static void put_activity(lines *l)
{
    const kineto_activity *a = &l->rows.activity;
    kb_json *j = begin(l, "activity");
    kb_json_put_uint(j, "row", a->row);
    kb_json_put_string(j, "name", a->name);
    kb_json_put_string(j, "kind", kb_string(kineto_kind_name(a->kind)));
    kb_json_put_string(j, "category", kineto_trace_string(l->trace, a->category));
    kb_json_put_string(j, "form", kb_string(ke_form_name(a->form)));
    put_times(j, l, a);
    kb_sink_write(l->sink, l->rows.place->text.data, l->rows.place->text.size);
    kb_json_put_uint(j, "lane", kineto_trace_lane(l->trace, a->row));
    put_row_number(j, "parent", kineto_trace_parent(l->trace, a->row));
    put_row_number(j, "launch", kineto_trace_launch(l->trace, a->row));
    put_id(j, "correlation_id", a->correlation_id);
    put_id(j, "external_id", a->external_id);
    if (a->form == KINETO_FORM_ASYNC)
        kb_json_put_uint(j, "async_id", a->async_id);
    put_flags(j, a->flags);
    if (l->rows.args.count) {
        kb_json_key_z(j, "args");
        kb_json_raw(j, (kineto_string){l->rows.args.data, l->rows.args.count});
    }
    end(l);
}

static void put_activities(lines *l)
{
    for (uint32_t i = 0; l->ok && i < l->rows.place_count; i++)
        l->ok = make_place(l, i);
    for (uint64_t row = 0; l->ok && row < l->job->census.activities && !kb_sink_failed(l->sink);
         row++) {
        l->ok = ke_rows_load(&l->rows, (kineto_row)row);
        if (l->ok)
            put_activity(l);
    }
}

/* ---- the file ----------------------------------------------------------------------------------- */

static void account(const lines *l)
{
    kineto_export_result *r = l->job->result;
    ke_result_count_all(l->job);
    r->records = l->job->census.activities;
    r->record_noun = "lines";
    r->replaced_bytes = l->json.replaced_bytes + l->rows.replaced;
}

kineto_status ke_jsonl_write(ke_job *job, kineto_error *err)
{
    lines l = {.job = job, .trace = job->trace, .sink = job->sink};
    kb_json_init(&l.json, job->sink);
    l.ok = ke_rows_begin(&l.rows, job);
    put_trace(&l);
    put_metadata(&l);
    for (uint32_t i = 0; i < kineto_trace_process_count(job->trace); i++)
        put_process(&l, i);
    for (uint32_t i = 0; l.ok && i < l.rows.place_count; i++)
        put_track(&l, i);
    put_own_kinds(&l);
    put_activities(&l);
    put_flows(&l);
    put_ledger(&l);
    put_snapshots(&l);
    account(&l);
    ke_rows_end(&l.rows);
    kb_vec_free(&l.text);
    return l.ok ? KINETO_OK : ke_fail_memory(job, err);
}
