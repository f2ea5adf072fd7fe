/* The events of a Chrome trace: strict, one after the other. Times are parsed as integers. */
#include "trace/read.h"

/* Members of one event, as they stand in the text; size 0: absent. */
typedef struct event {
    const char *at;
    kineto_string ph, name, cat, pid, tid, ts, dur, id, id2, s, args;
} event;

static kineto_status fail(kt_reader *r, const event *e, const char *problem)
{
    return kt_read_fail(r, e->at, problem);
}

/* ---- values ---------------------------------------------------------------------------------- */

static kineto_status time_of(kt_reader *r, const event *e, kineto_string raw, int64_t base,
                             int64_t *ns)
{
    int64_t value;
    if (!raw.size)
        return fail(r, e, "an event without \"ts\"");
    if (!kt_json_scaled(raw, 3, &value) || __builtin_add_overflow(base, value, ns))
        return kt_read_fail(r, raw.data, "a time that is no number or does not fit");
    return KINETO_OK;
}

/* The number that a text is, as in "25738" or, in traces of PyTorch 1.8, "stream 7". */
static bool number_of(kineto_string raw, int64_t *number)
{
    if (!kt_json_is_string(raw))
        return kt_json_int(raw, number);
    kineto_string s = kt_json_inside(raw);
    if (s.size > 7 && memcmp(s.data, "stream ", 7) == 0)
        s = (kineto_string){s.data + 7, s.size - 7};
    return kt_json_int(s, number);
}

static kineto_string or_empty(kineto_string raw)
{
    return raw.size ? raw : (kineto_string){"\"\"", 2};
}

static kineto_string text_of(kt_reader *r, kineto_string raw)
{
    return kb_intern_get(&r->b->trace->strings, kt_read_string(r, raw));
}

/* As kt_track_text, but counters and asynchronous ranges stay what they are. */
static uint32_t text_track(kt_reader *r, uint32_t process, kineto_track_type type, uint32_t text)
{
    return kt_track_intern(
        r->b, &(kt_track_row){.process = process,
                              .type = type == KINETO_TRACK_THREAD ? KINETO_TRACK_OTHER : type,
                              .id = INT64_MIN + (int64_t)text,
                              .name = text,
                              .text = text});
}

static kineto_status track_of(kt_reader *r, const event *e, kineto_track_type type,
                              uint32_t *process, uint32_t *track)
{
    kineto_string pid = or_empty(e->pid), tid = or_empty(e->tid);
    int64_t number;
    bool named = !number_of(pid, &number);
    if ((named && !kt_json_is_string(pid)) || pid.size > 1024 || tid.size > 1024)
        return kt_read_fail(r, pid.data, "\"pid\" and \"tid\" must be integers or short texts");
    *process = named ? kt_process_text(r->b, text_of(r, pid)) : kt_process(r->b, false, number, 0);
    if (!track)
        return KINETO_OK;
    type = named && type == KINETO_TRACK_THREAD ? KINETO_TRACK_OTHER : type;
    if (type == KINETO_TRACK_COUNTER && !e->tid.size)
        number = 0; /* counters belong to their process */
    else if (!number_of(tid, &number))
        number = INT64_MIN;
    if (number != INT64_MIN)
        *track = kt_track(r->b, *process, type, number);
    else if (kt_json_is_string(tid))
        *track = text_track(r, *process, type, kt_read_string(r, tid));
    else
        return kt_read_fail(r, tid.data, "\"pid\" and \"tid\" must be integers or short texts");
    return KINETO_OK;
}

/* An id is a number, a text of one, or any text. */
static uint64_t id_of(const event *e)
{
    kineto_string raw = e->id;
    uint64_t id = 0;
    if (e->id2.size) {
        raw = kt_read_member(e->id2, "local");
        raw = raw.size ? raw : kt_read_member(e->id2, "global");
    }
    if (!raw.size || kt_json_uint(raw, &id))
        return id;
    kineto_string s = kt_json_is_string(raw) ? kt_json_inside(raw) : raw;
    if (kt_json_uint(s, &id))
        return id;
    if (s.size > 2 && s.size <= 18 && s.data[0] == '0' && s.data[1] == 'x') {
        for (size_t i = 2; i < s.size; i++) {
            static const char digits[] = "0123456789abcdef";
            const char *digit = strchr(digits, s.data[i] | (s.data[i] >= 'A' ? 32 : 0));
            if (!digit || !*digit)
                return kb_hash(s.data, s.size);
            id = id << 4 | (uint64_t)(digit - digits);
        }
        return id;
    }
    return kb_hash(s.data, s.size);
}

/* ---- args ------------------------------------------------------------------------------------ */

static bool is(kineto_string raw, const char *text)
{
    return kb_string_equal(raw, kb_string(text));
}

/* Columns and flags out of the args; *others: is there anything else in them? */
static void read_args(kt_reader *r, kineto_string args, kt_row *row, bool *others)
{
    kt_scan scan = kt_scan_of(args);
    bool first = true, has_id = false;
    kineto_string key, value;
    uint64_t id;
    kt_scan_open(&scan, '{');
    while (kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            return;
        if (memchr(key.data, '\\', key.size))
            key = text_of(r, (kineto_string){key.data - 1, key.size + 2});
        if (is(key, "correlation") && kt_json_uint(value, &id)) {
            row->correlation_id = id;
        } else if (is(key, "External id") && kt_json_uint(value, &id)) {
            row->external_id = id;
            has_id = true;
        } else if (is(key, "external id") && kt_json_uint(value, &id)) {
            row->external_id = has_id ? row->external_id : id;
        } else if (is(key, "finished") && is(value, "false")) {
            row->flags |= KINETO_ACTIVITY_OPEN_END;
        } else if (is(key, "started") && is(value, "false")) {
            row->flags |= KINETO_ACTIVITY_OPEN_START;
        } else if (is(key, "arguments lost") && is(value, "true")) {
            row->flags |= KINETO_ACTIVITY_ARGS_LOST;
        } else {
            *others = true;
        }
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Kind and category. What has no category of Kineto's is the program's own range, or a row of
 * another tool. */
static void classify(kt_reader *r, const event *e, kt_row *row)
{
    kineto_string cat = text_of(r, or_empty(e->cat));
    int kind = kb_kind_parse(cat);
    kind = kind < 0 ? kt_own_kind_find(r->b, cat) : kind;
    bool memory = row->form == KINETO_FORM_INSTANT && is(e->name, "\"[memory]\"");
    row->category = kt_string(r->b, cat);
    if (memory) {
        row->kind = KINETO_KIND_MEMORY;
        row->category = is(cat, "cpu_instant_event") ? 0 : row->category;
    } else if (kind >= 0) {
        row->kind = (uint32_t)kind;
    } else if (row->form == KINETO_FORM_COUNTER) {
        row->kind = KINETO_KIND_COUNTER;
    } else if (row->form == KINETO_FORM_INSTANT) {
        row->kind = KINETO_KIND_CPU_INSTANT_EVENT;
    } else {
        uint32_t type = r->b->trace->tracks.data[row->track].type;
        row->kind = type == KINETO_TRACK_OTHER ? KINETO_KIND_OVERHEAD : KINETO_KIND_USER_ANNOTATION;
    }
}

static kineto_status add_row(kt_reader *r, const event *e, kineto_form form)
{
    static const kineto_track_type types[] = {KINETO_TRACK_THREAD, KINETO_TRACK_ASYNC,
                                              KINETO_TRACK_THREAD, KINETO_TRACK_COUNTER};
    kt_row row = {.form = form};
    bool others = false;
    uint32_t process;
    int64_t duration = 0;
    if (!kt_json_is_string(e->name))
        return fail(r, e, "an event without \"name\"");
    kineto_status status = track_of(r, e, types[form], &process, &row.track);
    if (status == KINETO_OK)
        status = time_of(r, e, e->ts, r->base_ns, &row.start_ns);
    if (status == KINETO_OK && form == KINETO_FORM_SLICE && e->dur.size)
        status = time_of(r, e, e->dur, 0, &duration);
    if (status != KINETO_OK)
        return status;
    if (__builtin_add_overflow(row.start_ns, duration, &row.end_ns))
        return kt_read_fail(r, e->dur.data, "a duration that does not fit");
    row.name = kt_read_string(r, e->name);
    row.async_id = form == KINETO_FORM_ASYNC ? id_of(e) : 0;
    if (form == KINETO_FORM_INSTANT && is(e->s, "\"g\""))
        row.flags |= KINETO_ACTIVITY_GLOBAL;
    if (e->args.size)
        read_args(r, e->args, &row, &others);
    if (others)
        kt_args_verbatim(r->b, e->args);
    classify(r, e, &row);
    r->last_row = kt_append(r->b, &row);
    if (form == KINETO_FORM_COUNTER && row.kind == KINETO_KIND_COUNTER && row.category &&
        !kb_vec_push(&r->host_counters, r->last_row))
        return kb_fail(r->err, KINETO_E_MEMORY, "no memory to read a trace");
    r->last_track = row.track;
    r->last_start_ns = row.start_ns;
    r->last_open_end = row.flags & KINETO_ACTIVITY_OPEN_END;
    return KINETO_OK;
}

/* What a begin and its end have in common. */
static kineto_status match_key(kt_reader *r, const event *e, uint64_t *hash)
{
    uint32_t process, track = 0;
    uint64_t key[5] = {0};
    bool async = e->ph.data[1] == 'b' || e->ph.data[1] == 'e';
    kineto_track_type type = async ? KINETO_TRACK_ASYNC : KINETO_TRACK_THREAD;
    kineto_status status = track_of(r, e, type, &process, &track);
    key[0] = async ? process : UINT64_C(1) << 32 | track;
    if (async) {
        key[1] = id_of(e);
        key[2] = kt_read_string(r, or_empty(e->cat));
        key[3] = kt_read_string(r, or_empty(e->name));
        key[4] = 1;
    }
    *hash = kb_hash(key, sizeof key);
    return status;
}

static kineto_status begin(kt_reader *r, const event *e, kineto_form form)
{
    uint64_t hash, *top;
    kineto_status status = add_row(r, e, form);
    if (status == KINETO_OK)
        status = match_key(r, e, &hash);
    if (status != KINETO_OK)
        return status;
    top = kb_map_insert(&r->open, hash, 0, NULL);
    if (!top || !kb_vec_push(&r->pending, (kt_pending){r->last_row, *top, false, r->last_open_end}))
        return kb_fail(r->err, KINETO_E_MEMORY, "no memory to read a trace");
    *top = r->pending.count;
    return KINETO_OK;
}

static kineto_status end(kt_reader *r, const event *e)
{
    uint64_t hash, *top;
    int64_t ns = 0;
    kineto_status status = match_key(r, e, &hash);
    if (status == KINETO_OK)
        status = time_of(r, e, e->ts, r->base_ns, &ns);
    if (status != KINETO_OK)
        return status;
    top = kb_map_find(&r->open, hash);
    if (!top || !*top) {
        r->unmatched_ends++;
        return KINETO_OK;
    }
    kt_pending *p = &r->pending.data[*top - 1];
    if (e->args.size) {
        kt_row unused = {0};
        bool others = false;
        read_args(r, e->args, &unused, &others);
        r->end_args += others;
    }
    kt_row_close(r->b, p->row, ns, p->open_end);
    p->closed = true;
    *top = p->below;
    return KINETO_OK;
}

/* ---- metadata, flows ------------------------------------------------------------------------- */

static kineto_status metadata(kt_reader *r, const event *e)
{
    uint32_t process, track = 0;
    bool of_thread = is(e->name, "\"thread_name\"") || is(e->name, "\"thread_sort_index\"");
    kineto_status status = track_of(r, e, KINETO_TRACK_THREAD, &process, of_thread ? &track : NULL);
    if (status != KINETO_OK)
        return status;
    kineto_process p = {.rank = -1};
    int64_t sort = 0;
    kt_json_int(kt_read_member(e->args, "sort_index"), &sort);
    if (is(e->name, "\"process_name\""))
        p.name = text_of(r, or_empty(kt_read_member(e->args, "name")));
    else if (is(e->name, "\"process_labels\""))
        p.label = text_of(r, or_empty(kt_read_member(e->args, "labels")));
    else if (is(e->name, "\"process_sort_index\""))
        p.sort_index = sort;
    else if (of_thread)
        kt_track_set(r->b, track, text_of(r, or_empty(kt_read_member(e->args, "name"))), sort);
    else
        r->other_metadata++;
    kt_process_set(r->b, process, &p);
    return KINETO_OK;
}

static uint32_t flow_type(kineto_string cat, kineto_string name)
{
    static const char *const device[] = {"\"ac2g\"", "\"async_cpu_to_gpu\"", "\"async\""};
    static const char *const backward[] = {"\"fwdbwd\"", "\"forward_backward\""};
    for (size_t i = 0; i < KB_COUNT(device); i++)
        if (is(cat, device[i]) || is(name, device[i]))
            return KINETO_FLOW_ASYNC_CPU_GPU;
    for (size_t i = 0; i < KB_COUNT(backward); i++)
        if (is(cat, backward[i]) || is(name, backward[i]))
            return KINETO_FLOW_FWD_BWD;
    return KINETO_FLOW_USER;
}

/* Kineto writes a flow right behind the row it belongs to. Else the row is looked for later. */
static kineto_status flow(kt_reader *r, const event *e)
{
    uint32_t process, track;
    int64_t ns = 0;
    kineto_status status = track_of(r, e, KINETO_TRACK_THREAD, &process, &track);
    if (status == KINETO_OK)
        status = time_of(r, e, e->ts, r->base_ns, &ns);
    if (status != KINETO_OK)
        return status;
    bool known = r->last_row != KINETO_NO_ROW && r->last_start_ns == ns &&
                 r->b->trace->tracks.data[r->last_track].id == r->b->trace->tracks.data[track].id &&
                 r->b->trace->tracks.data[r->last_track].process == process;
    kt_flow_end stated = {flow_type(e->cat, e->name), e->ph.data[1] != 'f', id_of(e),
                          known ? r->last_row : KINETO_NO_ROW};
    for (int ends = e->ph.data[1] == 't' ? 2 : 1; ends > 0; ends--) { /* a step ends and starts */
        stated.start = e->ph.data[1] == 't' ? ends == 1 : stated.start;
        kt_late_flow late = {track, ns, r->ends.count};
        if (!kb_vec_push(&r->ends, stated) || (!known && !kb_vec_push(&r->late, late)))
            return kb_fail(r->err, KINETO_E_MEMORY, "no memory to read a trace");
    }
    return KINETO_OK;
}

/* ---- one event ------------------------------------------------------------------------------- */

static kineto_status instant(kt_reader *r, const event *e)
{
    if (!is(e->name, "\"Record Window End\""))
        return add_row(r, e, KINETO_FORM_INSTANT);
    r->has_window_end = true;
    return time_of(r, e, e->ts, r->base_ns, &r->window_end_ns);
}

static kineto_status dispatch(kt_reader *r, const event *e)
{
    if (e->ph.size != 3)
        return fail(r, e, "an event without \"ph\", or with one that is no single letter");
    switch (e->ph.data[1]) {
    case 'X':
        return add_row(r, e, KINETO_FORM_SLICE);
    case 'C':
        return add_row(r, e, KINETO_FORM_COUNTER);
    case 'i':
    case 'I':
        return instant(r, e);
    case 'B':
        return begin(r, e, KINETO_FORM_SLICE);
    case 'b':
        return begin(r, e, KINETO_FORM_ASYNC);
    case 'E':
    case 'e':
        return end(r, e);
    case 'M':
        return metadata(r, e);
    case 's':
    case 't':
    case 'f':
        return flow(r, e);
    default:
        r->other_phases++;
        return KINETO_OK;
    }
}

static kineto_status read_event(kt_reader *r, kt_scan *scan)
{
    static const struct {
        const char *key;
        size_t offset;
    } members[] = {{"ph", offsetof(event, ph)},    {"name", offsetof(event, name)},
                   {"cat", offsetof(event, cat)},  {"pid", offsetof(event, pid)},
                   {"tid", offsetof(event, tid)},  {"ts", offsetof(event, ts)},
                   {"dur", offsetof(event, dur)},  {"id", offsetof(event, id)},
                   {"id2", offsetof(event, id2)},  {"s", offsetof(event, s)},
                   {"args", offsetof(event, args)}};
    event e = {.at = scan->at};
    bool first = true;
    kineto_string key, value;
    if (!kt_scan_open(scan, '{'))
        return kt_read_fail(r, scan->at, scan->problem);
    while (kt_scan_more(scan, &first, '{')) {
        if (!kt_scan_key(scan, &key) || !kt_scan_value(scan, &value))
            break;
        for (size_t i = 0; i < KB_COUNT(members); i++)
            if (is(key, members[i].key))
                memcpy((char *)&e + members[i].offset, &value, sizeof value);
    }
    if (scan->problem)
        return kt_read_fail(r, scan->at, scan->problem);
    if (e.args.size && e.args.data[0] != '{')
        return kt_read_fail(r, e.args.data, "\"args\" must be an object");
    if ((e.cat.size && !kt_json_is_string(e.cat)) || (e.ph.size && !kt_json_is_string(e.ph)))
        return fail(r, &e, "\"ph\" and \"cat\" must be texts");
    return dispatch(r, &e);
}

kineto_status kt_read_events(kt_reader *r, kineto_string array)
{
    kt_scan scan = kt_scan_of(array);
    bool first = true;
    r->last_row = KINETO_NO_ROW;
    if (!kt_scan_open(&scan, '['))
        return kt_read_fail(r, scan.at, scan.problem);
    while (kt_scan_more(&scan, &first, '[')) {
        kt_scan_peek(&scan);
        kineto_status status = read_event(r, &scan);
        if (status != KINETO_OK)
            return status;
    }
    return scan.problem ? kt_read_fail(r, scan.at, scan.problem) : KINETO_OK;
}
