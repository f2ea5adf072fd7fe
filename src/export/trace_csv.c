/* CSV as in RFC 4180: a head line, then a line for each activity, in the order of rows. Names keep
 * their bytes; a field is quoted only if it has to be. Texts that spreadsheets would evaluate as
 * formulas are marked with an apostrophe. */
#include "export/export.h"

/* The order of write_csv_row below. */
static const char csv_head[] =
    "row,name,kind,category,form,start_ns,end_ns,duration_ns,self_ns,process,pid,process_name,"
    "track,track_type,track_id,track_name,lane,parent,launch,correlation_id,external_id,async_id,"
    "flags,args\r\n";

#define NUMBER_ROOM 512u /* bytes of all numbers of a line with their commas, at most */

/* Quotes, commas and line ends need it; so do spaces at the ends, which some readers trim. */
static bool csv_needs_quotes(kineto_string s)
{
    if (s.size && (s.data[0] == ' ' || s.data[s.size - 1] == ' '))
        return true;
    for (size_t i = 0; i < s.size; i++)
        if (s.data[i] == '"' || s.data[i] == ',' || s.data[i] == '\n' || s.data[i] == '\r')
            return true;
    return false;
}

/* Numbers may begin with a sign without being a formula. */
static bool is_csv_number(kineto_string s)
{
    char text[40], *end;
    if (s.size >= sizeof text)
        return false;
    memcpy(text, s.data, s.size);
    text[s.size] = '\0';
    (void)strtod(text, &end);
    return end != text && !*end;
}

/* Spreadsheets evaluate fields that begin with one of these characters; a name from an untrusted
 * trace must not become a formula. A field that begins with the mark already gets a second one, so
 * that removing one mark restores every field. */
static bool is_formula_like(kineto_string s)
{
    size_t marks = 0;
    while (marks < s.size && s.data[marks] == '\'')
        marks++;
    return marks < s.size && s.data[marks] && strchr("=+-@\t\r", s.data[marks]) &&
           (marks || !is_csv_number(s));
}

void ke_csv_text(kb_sink *sink, kineto_string s)
{
    const char *mark = is_formula_like(s) ? "'" : "";
    if (!csv_needs_quotes(s)) {
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

static void write_csv_field(kb_sink *sink, kineto_string s)
{
    ke_csv_text(sink, s);
    kb_sink_write(sink, ",", 1);
}

static char *format_csv_int(char *out, int64_t v)
{
    out = kb_json_format_int(out, v);
    *out++ = ',';
    return out;
}

/* Ids that are 0 become empty fields. */
static char *format_csv_id(char *out, uint64_t v)
{
    if (v)
        out = kb_json_format_uint(out, v);
    *out++ = ',';
    return out;
}

static char *format_csv_row(char *out, kineto_row row)
{
    if (row != KINETO_NO_ROW)
        out = kb_json_format_uint(out, row);
    *out++ = ',';
    return out;
}

/* start, end, duration and self time in nanoseconds; the difference of two times may need all 64
 * bits. */
static void write_csv_times(kb_sink *sink, const kineto_trace *t, const kineto_activity *a)
{
    char *out = kb_sink_reserve(sink, NUMBER_ROOM), *at = out;
    at = format_csv_int(at, a->start_ns);
    at = format_csv_int(at, a->end_ns);
    at = kb_json_format_uint(at, (uint64_t)a->end_ns - (uint64_t)a->start_ns);
    *at++ = ',';
    at = kb_json_format_uint(at, (uint64_t)kineto_trace_self_ns(t, a->row));
    *at++ = ',';
    KB_ASSERT((size_t)(at - out) <= NUMBER_ROOM);
    kb_sink_advance(sink, (size_t)(at - out));
}

/* Formats the fields that all rows of a track share, once per track. */
static bool format_track_fields(ke_rows *rows, uint32_t track)
{
    ke_place_view *p = &rows->places[track];
    kb_sink *memory;
    char buf[24];
    size_t size;
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &memory, NULL))
        return false;
    kb_sink_write(memory, buf, (size_t)(format_csv_int(buf, p->track.process) - buf));
    if (p->process_text.data)
        write_csv_field(memory, p->process_text);
    else
        kb_sink_write(memory, buf, (size_t)(format_csv_int(buf, p->process.pid) - buf));
    write_csv_field(memory, p->process.name);
    kb_sink_write(memory, buf, (size_t)(format_csv_int(buf, track) - buf));
    write_csv_field(memory, kb_string(ke_track_type_name(p->track.type)));
    if (p->track_text.data)
        write_csv_field(memory, p->track_text);
    else
        kb_sink_write(memory, buf, (size_t)(format_csv_int(buf, p->track.id) - buf));
    write_csv_field(memory, p->track.name);
    char *data = NULL;
    bool ok = kb_sink_take(memory, &data, &size, NULL) == KINETO_OK;
    ok = kb_sink_close(memory, NULL) == KINETO_OK && ok;
    p->text = (kineto_string){data, ok ? size : 0};
    return ok;
}

/* Lane, parent, launch and ids of a row. */
static void write_csv_links(kb_sink *sink, const kineto_trace *t, const kineto_activity *a)
{
    char *out = kb_sink_reserve(sink, NUMBER_ROOM), *at = out;
    at = format_csv_int(at, kineto_trace_lane(t, a->row));
    at = format_csv_row(at, kineto_trace_parent(t, a->row));
    at = format_csv_row(at, kineto_trace_launch(t, a->row));
    at = format_csv_id(at, a->correlation_id);
    at = format_csv_id(at, a->external_id);
    at = format_csv_id(at, a->form == KINETO_FORM_ASYNC ? a->async_id : 0);
    KB_ASSERT((size_t)(at - out) <= NUMBER_ROOM);
    kb_sink_advance(sink, (size_t)(at - out));
}

/* Names of flags, separated by spaces. */
static void write_csv_flags(kb_sink *sink, uint32_t flags)
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

/* The fields of csv_head in their order, then the end of the line as RFC 4180 wants it. */
static void write_csv_row(kb_sink *sink, const ke_rows *rows)
{
    const kineto_trace *t = rows->job->trace;
    const kineto_activity *a = &rows->activity;
    char *out = kb_sink_reserve(sink, NUMBER_ROOM);
    kb_sink_advance(sink, (size_t)(format_csv_int(out, a->row) - out));
    write_csv_field(sink, a->name);
    write_csv_field(sink, kb_string(kineto_kind_name(a->kind)));
    write_csv_field(sink, kineto_trace_string(t, a->category));
    write_csv_field(sink, kb_string(ke_form_name(a->form)));
    write_csv_times(sink, t, a);
    kb_sink_write(sink, rows->place->text.data, rows->place->text.size);
    write_csv_links(sink, t, a);
    write_csv_flags(sink, a->flags);
    ke_csv_text(sink, (kineto_string){rows->args.data, rows->args.count});
    kb_sink_write(sink, "\r\n", 2);
}

/* Tables of the trace have no place in a table of activities. */
static void account_csv(const ke_job *job, const ke_rows *rows)
{
    const kineto_trace *t = job->trace;
    const char *reason = "a table of activities has no place for them";
    kineto_export_result *r = job->result;
    ke_result_count_all(job);
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
        ok = format_track_fields(&rows, i);
    kb_sink_write(job->sink, csv_head, sizeof csv_head - 1);
    for (uint64_t row = 0; ok && row < job->census.activities && !kb_sink_failed(job->sink);
         row++) {
        ok = ke_rows_load(&rows, (kineto_row)row);
        if (ok)
            write_csv_row(job->sink, &rows);
    }
    account_csv(job, &rows);
    ke_rows_end(&rows);
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}
