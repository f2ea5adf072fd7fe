/* Comma-separated values as RFC 4180 has them: a head line, then a line for each activity, in the
 * order of rows. Names keep their bytes; a field is quoted where it must be. */
#include "export/rows.h"

/* In the order of put_row(), below. */
static const char head[] =
    "row,name,kind,category,form,start_ns,end_ns,duration_ns,self_ns,process,pid,process_name,"
    "track,track_type,track_id,track_name,lane,parent,launch,correlation_id,external_id,async_id,"
    "flags,args\r\n";

#define NUMBER_ROOM 512u /* bytes of all numbers of a line, with their commas */

static bool must_quote(kineto_string s)
{
    if (s.size && (s.data[0] == ' ' || s.data[s.size - 1] == ' '))
        return true;
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] == '"' || s.data[i] == ',' || s.data[i] == '\n' || s.data[i] == '\r')
            return true;
    return false;
}

static bool is_number(kineto_string s)
{
    char text[40], *end;
    if (s.size >= sizeof text)
        return false;
    memcpy(text, s.data, s.size);
    text[s.size] = '\0';
    (void)strtod(text, &end);
    return end != text && !*end;
}

/* Spreadsheets compute what begins so: a name from elsewhere is not to become a formula. What has the mark
 * already gets another one, so that it can be taken away. */
static bool looks_like_formula(kineto_string s)
{
    size_t marks = 0;
    while (marks < s.size && s.data[marks] == '\'')
        marks++;
    return marks < s.size && s.data[marks] && strchr("=+-@\t\r", s.data[marks]) &&
           (marks || !is_number(s));
}

void ke_csv_text(kb_sink *sink, kineto_string s)
{
    const char *mark = looks_like_formula(s) ? "'" : "";
    if (!must_quote(s)) {
        kb_sink_write(sink, mark, strlen(mark));
        kb_sink_write(sink, s.data, s.size);
        return;
    }
    kb_sink_write(sink, "\"", 1);
    kb_sink_write(sink, mark, strlen(mark));
    while (s.size) {
        const char *quote = memchr(s.data, '"', s.size);
        size_t n = quote ? (size_t)(quote - s.data) + 1 : s.size;
        kb_sink_write(sink, s.data, n);
        if (quote)
            kb_sink_write(sink, "\"", 1);
        s = (kineto_string){s.data + n, s.size - n};
    }
    kb_sink_write(sink, "\"", 1);
}

static void put_text_field(kb_sink *sink, kineto_string s)
{
    ke_csv_text(sink, s);
    kb_sink_write(sink, ",", 1);
}

static char *number(char *out, int64_t v)
{
    out = kb_json_format_int(out, v);
    *out++ = ',';
    return out;
}

/* Ids are empty where there is none. */
static char *id(char *out, uint64_t v)
{
    if (v)
        out = kb_json_format_uint(out, v);
    *out++ = ',';
    return out;
}

static char *row_number(char *out, kineto_row row)
{
    if (row != KINETO_NO_ROW)
        out = kb_json_format_uint(out, row);
    *out++ = ',';
    return out;
}

static void put_times(kb_sink *sink, const kineto_trace *t, const kineto_activity *a)
{
    char *out = kb_sink_reserve(sink, NUMBER_ROOM), *at = out;
    at = number(at, a->start_ns);
    at = number(at, a->end_ns);
    at = kb_json_format_uint(at, (uint64_t)a->end_ns - (uint64_t)a->start_ns);
    *at++ = ',';
    at = kb_json_format_uint(at, (uint64_t)kineto_trace_self_ns(t, a->row));
    *at++ = ',';
    kb_sink_advance(sink, (size_t)(at - out));
}

/* Where a row is; the same for all of its track, so made once. */
static bool make_place(ke_rows *rows, uint32_t track)
{
    ke_place_view *p = &rows->places[track];
    kb_sink *memory;
    char buf[24];
    size_t size;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &memory, NULL))
        return false;
    kb_sink_write(memory, buf, (size_t)(number(buf, p->track.process) - buf));
    if (p->process_text.data)
        put_text_field(memory, p->process_text);
    else
        kb_sink_write(memory, buf, (size_t)(number(buf, p->process.pid) - buf));
    put_text_field(memory, p->process.name);
    kb_sink_write(memory, buf, (size_t)(number(buf, track) - buf));
    put_text_field(memory, kb_string(ke_track_type_name(p->track.type)));
    if (p->track_text.data)
        put_text_field(memory, p->track_text);
    else
        kb_sink_write(memory, buf, (size_t)(number(buf, p->track.id) - buf));
    put_text_field(memory, p->track.name);
    char *data = NULL;
    bool ok = kb_sink_take(memory, &data, &size, NULL) == KINETO_OK;
    ok = kb_sink_close(memory, NULL) == KINETO_OK && ok;
    p->text = (kineto_string){data, ok ? size : 0};
    return ok;
}

static void put_links(kb_sink *sink, const kineto_trace *t, const kineto_activity *a)
{
    char *out = kb_sink_reserve(sink, NUMBER_ROOM), *at = out;
    at = number(at, kineto_trace_lane(t, a->row));
    at = row_number(at, kineto_trace_parent(t, a->row));
    at = row_number(at, kineto_trace_launch(t, a->row));
    at = id(at, a->correlation_id);
    at = id(at, a->external_id);
    at = id(at, a->form == KINETO_FORM_ASYNC ? a->async_id : 0);
    kb_sink_advance(sink, (size_t)(at - out));
}

/* Words with blanks between them. */
static void put_flags(kb_sink *sink, uint32_t flags)
{
    const char *separator = "";
    for (size_t i = 0; flags && i < KB_COUNT(ke_flag_names); i++) {
        if (!(flags >> i & 1))
            continue;
        kb_sink_write_z(sink, separator);
        kb_sink_write_z(sink, ke_flag_names[i]);
        separator = " ";
    }
    kb_sink_write(sink, ",", 1);
}

static void put_row(kb_sink *sink, const ke_rows *rows)
{
    const kineto_trace *t = rows->job->trace;
    const kineto_activity *a = &rows->activity;
    char *out = kb_sink_reserve(sink, NUMBER_ROOM);
    kb_sink_advance(sink, (size_t)(number(out, a->row) - out));
    put_text_field(sink, a->name);
    put_text_field(sink, kb_string(kineto_kind_name(a->kind)));
    put_text_field(sink, kineto_trace_string(t, a->category));
    put_text_field(sink, kb_string(ke_form_name(a->form)));
    put_times(sink, t, a);
    kb_sink_write(sink, rows->place->text.data, rows->place->text.size);
    put_links(sink, t, a);
    put_flags(sink, a->flags);
    ke_csv_text(sink, (kineto_string){rows->args.data, rows->args.count});
    kb_sink_write(sink, "\r\n", 2);
}

static void account(const ke_job *job, const ke_rows *rows)
{
    const kineto_trace *t = job->trace;
    const char *reason = "a table of activities has no place for them";
    kineto_export_result *r = job->result;
    ke_result_all(job);
    r->flows = 0;
    r->records = job->census.activities;
    r->record_noun = "lines";
    r->replaced_bytes = rows->replaced;
    ke_omit(r, "flows", reason, job->census.flows + job->census.half_flows);
    ke_omit(r, "metadata entries", reason, kineto_trace_metadata_count(t));
    ke_omit(r, "ledger lines", reason, kineto_trace_ledger_count(t));
}

kineto_status ke_csv_write(ke_job *job, kineto_error *err)
{
    ke_rows rows;
    bool ok = ke_rows_begin(&rows, job);
    for (uint32_t i = 0; ok && i < rows.place_count; i++)
        ok = make_place(&rows, i);
    kb_sink_write(job->sink, head, sizeof head - 1);
    for (uint64_t row = 0; ok && row < job->census.activities && !kb_sink_failed(job->sink);
         row++) {
        ok = ke_rows_look(&rows, (kineto_row)row);
        if (ok)
            put_row(job->sink, &rows);
    }
    account(job, &rows);
    ke_rows_end(&rows);
    return ok ? KINETO_OK : ke_no_memory(job, err);
}
