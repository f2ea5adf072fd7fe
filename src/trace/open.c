/* kineto_trace_open: a Chrome trace file, strictly read. */
#include "trace/read.h"

kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem)
{
    size_t offset = (size_t)(at - r->text.data);
    kineto_status status =
        kb_fail(r->err, KINETO_E_FORMAT, "%s (byte %zu)", problem ? problem : "bad JSON", offset);
    if (r->err)
        r->err->offset = offset;
    return status;
}

uint32_t kt_read_string(kt_reader *r, kineto_string raw)
{
    kineto_string inside = kt_json_inside(raw);
    if (!memchr(inside.data, '\\', inside.size))
        return kt_string(r->b, inside);
    char *bytes = malloc(inside.size);
    if (!bytes) {
        r->b->status = KINETO_E_MEMORY;
        return 0;
    }
    char *end = kt_json_unescape(bytes, inside, &r->lone_surrogates);
    uint32_t id = kt_string(r->b, (kineto_string){bytes, (size_t)(end - bytes)});
    free(bytes);
    return id;
}

/* ---- the file's outline ---------------------------------------------------------------------- */

typedef struct outline {
    kineto_string events, devices, own;
} outline;

static kineto_status read_outline(kt_reader *r, kt_scan *scan, outline *o)
{
    bool first = true;
    kineto_string key, value;
    kineto_status status = KINETO_OK;
    if (!kt_scan_open(scan, '{'))
        return kt_read_fail(r, scan->at, scan->problem);
    while (status == KINETO_OK && kt_scan_more(scan, &first, '{')) {
        if (!kt_scan_key(scan, &key) || !kt_scan_value(scan, &value))
            break;
        if (kb_string_equal(key, kb_string("traceEvents"))) {
            if (o->events.size) /* readers differ in which one they take: none is the truth */
                return kt_read_fail(r, value.data, "a second \"traceEvents\"");
            o->events = value;
        } else if (kb_string_equal(key, kb_string("deviceProperties"))) {
            o->devices = value;
        } else if (kb_string_equal(key, kb_string("ckineto"))) {
            o->own = value;
        } else {
            status = kt_read_header(r, key, value);
        }
    }
    if (status == KINETO_OK && scan->problem)
        status = kt_read_fail(r, scan->at, scan->problem);
    if (status == KINETO_OK && !o->events.size)
        status = kt_read_fail(r, scan->at, "no \"traceEvents\": this is no Chrome trace");
    return status;
}

static kineto_status read_text(kt_reader *r, outline *o)
{
    if (r->text.size == 0)
        return kt_read_fail(r, r->text.data, "the file is empty");
    size_t valid = kb_utf8_valid_prefix(r->text.data, r->text.size);
    if (valid < r->text.size)
        return kt_read_fail(r, r->text.data + valid, "invalid UTF-8");
    kt_scan scan = kt_scan_of(r->text);
    kineto_status status = KINETO_OK;
    if (kt_scan_peek(&scan) != '[')
        status = read_outline(r, &scan, o);
    else if (!kt_scan_value(&scan, &o->events))
        status = kt_read_fail(r, scan.at, scan.problem);
    if (status == KINETO_OK && !kt_scan_end(&scan))
        status = kt_read_fail(r, scan.at, scan.problem);
    kt_read_own_kinds(r, o->own);
    return status == KINETO_OK ? kt_read_events(r, o->events) : status;
}

/* ---- the end --------------------------------------------------------------------------------- */

static void state_window(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (size_t i = 0; i < t->blocks.count; i++) {
        start = KB_MIN(start, t->blocks.data[i]->min_start_ns);
        end = KB_MAX(end, t->blocks.data[i]->max_end_ns);
    }
    end = r->has_window_end ? r->window_end_ns : end;
    /* Begins without an end last to the last known moment. */
    for (size_t i = 0; i < r->pending.count; i++) {
        if (r->pending.data[i].closed)
            continue;
        kineto_row row = r->pending.data[i].row;
        kt_row_close(r->b, row, KB_MAX(end, kt_start(t, row)), true);
        r->unclosed++;
    }
    if (r->has_window)
        kt_window(r->b, r->window_start_ns, r->window_end_ns);
    else if (r->has_window_end)
        kt_window(r->b, KB_MIN(start, end), end);
}

static void state_ledger(kt_reader *r)
{
    const struct {
        uint64_t count;
        const char *reason;
        bool is_loss;
    } lines[] = {{r->other_phases, "event of an unsupported phase", true},
                 {r->unmatched_ends, "end without a begin", true},
                 {r->end_args, "arguments of an end event", false},
                 {r->unclosed, "begin without an end", false},
                 {r->other_metadata, "unknown metadata event", false},
                 {r->lone_surrogates, "half a surrogate pair replaced by U+FFFD", false}};
    for (size_t i = 0; i < KB_COUNT(lines); i++)
        if (lines[i].count)
            kt_ledger_add(r->b, kb_string("reader"), kb_string(lines[i].reason), lines[i].count,
                          lines[i].is_loss, kb_string(""));
}

/* The innermost row of the track around a moment. */
static kineto_row row_at(const kineto_trace *t, uint32_t track, int64_t ns)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    size_t low = 0, high = rows ? t->tracks.data[track].count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kt_start(t, rows[middle]) <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    kineto_row row = low ? rows[low - 1] : KINETO_NO_ROW;
    while (row != KINETO_NO_ROW && kt_end(t, row) < ns)
        row = kineto_trace_parent(t, row);
    return row;
}

static bool join_flows(kt_reader *r, kineto_trace *t)
{
    uint64_t nowhere = 0;
    for (size_t i = 0; i < r->late.count; i++) {
        const kt_late_flow *late = &r->late.data[i];
        kineto_row row = row_at(t, late->track, late->ts_ns);
        r->ends.data[late->end].row = row;
        nowhere += row == KINETO_NO_ROW;
    }
    if (nowhere) {
        kt_ledger_row line = {.source = kb_intern_id(&t->strings, kb_string("reader")),
                              .reason = kb_intern_id(&t->strings, kb_string("flow without a row")),
                              .is_loss = true,
                              .count = nowhere};
        if (line.source == KB_INTERN_NONE || line.reason == KB_INTERN_NONE ||
            !kb_vec_push(&t->ledger, line))
            return false;
    }
    return kt_join_flows(t, r->ends.data, r->ends.count);
}

static kineto_status finish(kt_reader *r, const outline *o, kineto_trace **out)
{
    kt_read_apply(r, o->devices, o->own);
    state_window(r);
    state_ledger(r);
    kineto_status status = kt_builder_finish(r->b, out, r->err);
    if (status != KINETO_OK || join_flows(r, *out))
        return status;
    kineto_trace_release(*out);
    *out = NULL;
    return kb_fail(r->err, KINETO_E_MEMORY, "no memory to read a trace");
}

static void release(kt_reader *r)
{
    kt_builder_destroy(r->b);
    kb_map_free(&r->open);
    kb_vec_free(&r->pending);
    kb_vec_free(&r->ends);
    kb_vec_free(&r->late);
    kb_vec_free(&r->host_counters);
}

/* The message gets the file's name in front. */
static kineto_status name_file(kineto_status status, const char *path, kineto_error *err)
{
    if (status == KINETO_OK || !err)
        return status;
    kineto_error inner = *err;
    kb_fail(err, status, "%s: %s", path, inner.message);
    err->offset = inner.offset;
    return status;
}

kineto_status kineto_trace_open(const char *path, kineto_trace **out, kineto_error *err)
{
    if (!path || !out)
        return kb_fail(err, KINETO_E_ARGUMENT, "a path is needed to open a trace");
    *out = NULL;
    char *data;
    size_t size;
    kineto_status status = kt_read_file(path, &data, &size, err);
    if (status != KINETO_OK)
        return status;
    kt_reader r = {.err = err, .text = {data, size}};
    outline o = {{NULL, 0}, {NULL, 0}, {NULL, 0}};
    status = kt_builder_create(&r.b, err);
    if (status == KINETO_OK)
        status = read_text(&r, &o);
    if (status == KINETO_OK)
        status = finish(&r, &o, out);
    release(&r);
    free(data);
    return name_file(status, path, err);
}
