/* Everything in a Chrome file except the events: the header, names of rows, and the member
 * "ckineto" with ledger, clock and the identities that pids and tids cannot express. Reading it
 * back gives the same trace. */
#include "export/chrome.h"

#include "trace/bytes/json_text.h"

#define DEVICE_SORT_INDEX 5000000 /* as Kineto: viewers show devices after processes */

/* ---- header ---------------------------------------------------------------------------------- */

/* True if a strict JSON object has this member; the key is compared as written. */
static bool has_json_member(kineto_string object, const char *wanted)
{
    kt_scan scan = kt_scan_of(object);
    bool first = true, found = false;
    kineto_string key, value;
    if (!kt_scan_open(&scan, '{'))
        return false;
    while (!found && kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            return false;
        found = kb_string_equal(key, kb_string(wanted));
    }
    return found;
}

/* Properties are a JSON object of the source; "id" connects them with the rows of the device. */
static void write_device_properties(ke_chrome *c, int64_t id, kineto_string properties)
{
    kb_json *j = &c->json;
    kt_scan scan = kt_scan_of(properties);
    kineto_string key, value;
    bool first = true;
    kb_json_newline(j);
    if (!kt_scan_open(&scan, '{') || has_json_member(properties, "id")) {
        kb_json_raw(j, kb_string(""));
        ke_write_valid(c, properties);
        return;
    }
    kb_json_object_begin(j);
    kb_json_put_int(j, "id", id);
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        kineto_string quoted = {key.data - 1, key.size + 2};
        kb_json_newline(j);
        kb_json_raw(j, kb_string(""));
        ke_write_valid(c, quoted); /* the key as it was escaped */
        kb_sink_write(c->sink, ":", 1);
        ke_write_valid(c, value);
    }
    kb_json_object_end(j);
}

/* The member deviceProperties, in the order of the source's list. */
static void write_device_list(ke_chrome *c)
{
    kb_json_key_z(&c->json, "deviceProperties");
    kb_json_array_begin(&c->json);
    for (uint32_t n = 0; n < c->device_count; n++) {
        kineto_process p;
        kineto_trace_process(c->trace, c->device_order[n], &p);
        write_device_properties(c, c->pid_numbers[c->device_order[n]], p.properties_json);
    }
    kb_json_array_end(&c->json);
}

/* A key that is taken already gets a number, as repeated args do. Keys are compared as they are
 * written: two that differ only in invalid bytes are the same there. */
static void write_header_key(ke_chrome *c, kineto_string key)
{
    char *text = malloc(3 * key.size + 40);
    if (!text) {
        c->out_of_memory = true;
        return;
    }
    uint64_t replaced = 0;
    bool created = false;
    char *end = kb_utf8_clean(text, key, &replaced);
    for (uint64_t number = 2;; number++) {
        uint64_t hash = kb_hash(text, (size_t)(end - text));
        if (!kb_map_insert(&c->header_keys, hash, 1, &created))
            c->out_of_memory = created = true;
        if (created)
            break;
        end = kb_utf8_clean(text, key, NULL);
        end += snprintf(end, 40, " (%llu)", (unsigned long long)number);
    }
    kb_json_key(&c->json, (kineto_string){text, (size_t)(end - text)});
    c->replaced += replaced;
    free(text);
}

/* Members with a fixed place. A file that was read keeps its own values, or none. */
static const char *const fixed_header_keys[] = {"schemaVersion", "displayTimeUnit"};

/* Members with a fixed place are not repeated among the metadata. */
static bool is_fixed_header_key(const ke_chrome *c, kineto_string key)
{
    bool is = false;
    for (size_t i = 0; c->was_read && i < KB_COUNT(fixed_header_keys); i++)
        is |= kb_string_equal(key, kb_string(fixed_header_keys[i]));
    return is;
}

/* Writes the file's own value, or `usual` for a trace that was recorded. */
static void write_fixed_member(ke_chrome *c, const char *key, const char *usual)
{
    kineto_string value = kb_string(c->was_read ? "" : usual), name;
    for (uint32_t i = 0; c->was_read && i < kineto_trace_metadata_count(c->trace); i++) {
        kineto_string stated;
        kineto_trace_metadata(c->trace, i, &name, &stated);
        value = kb_string_equal(name, kb_string(key)) ? stated : value;
    }
    if (!value.size)
        return;
    kb_json_newline(&c->json);
    kb_json_key_z(&c->json, key);
    kb_json_raw(&c->json, value);
}

/* Members of the header. "distributedInfo" is written separately, after the events, as Kineto
 * does. */
static void write_header_metadata(ke_chrome *c, bool distributed)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(c->trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(c->trace, i, &key, &value);
        if (kb_string_equal(key, kb_string("distributedInfo")) != distributed ||
            is_fixed_header_key(c, key))
            continue;
        kb_json_newline(&c->json);
        write_header_key(c, key);
        kb_json_raw(&c->json, value);
    }
}

/* Ends after the bracket of traceEvents; the writer of events continues from there. */
void ke_write_head(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_object_begin(j);
    write_fixed_member(c, "schemaVersion", "1");
    kb_json_newline(j);
    write_device_list(c);
    write_header_metadata(c, false);
    write_fixed_member(c, "displayTimeUnit", "\"ms\"");
    kb_json_newline(j);
    kb_json_put_int(j, "baseTimeNanoseconds", c->base_ns);
    kb_json_newline(j);
    kb_json_key_z(j, "traceEvents");
    kb_json_array_begin(j);
    kb_sink_write(c->sink, "\n", 1);
}

/* ---- names of rows --------------------------------------------------------------------------- */

/* Writes {"ph":"M",…,"args":{"<key>": — the value and the end follow. */
static void begin_meta_event(ke_chrome *c, const char *name, const char *key, kineto_string pid,
                             const ke_place *place)
{
    int64_t start, end;
    char *out = kb_sink_reserve(c->sink, c->room);
    kineto_trace_window(c->trace, &start, &end);
    out += snprintf(out, 128, "{\"ph\":\"M\",\"name\":\"%s\"", name);
    if (place) {
        out = ke_copy(out, place->text, place->size);
    } else {
        KE_PUT(out, ",\"pid\":");
        memcpy(out, pid.data, pid.size);
        out += pid.size;
        KE_PUT(out, ",\"tid\":0,\"ts\":");
    }
    out = kb_json_format_us(out, (int64_t)((uint64_t)start - (uint64_t)c->base_ns));
    out += snprintf(out, 128, ",\"args\":{\"%s\":", key);
    ke_commit(c, out);
}

/* Closes args and event of begin_meta_event. */
static void end_meta_event(ke_chrome *c) { kb_sink_write(c->sink, "}},\n", 4); }

static void end_meta_with_text(ke_chrome *c, kineto_string text)
{
    ke_write_string(c, text);
    end_meta_event(c);
}

static void end_meta_with_int(ke_chrome *c, int64_t value)
{
    ke_commit(c, kb_json_format_int(kb_sink_reserve(c->sink, 32), value));
    end_meta_event(c);
}

/* The names, label and sort index of a process in the file: empty and 0 if they are not written. */
static void process_names_as_written(const ke_chrome *c, uint32_t index, kineto_process *p,
                                     kb_text *label)
{
    kineto_trace_process(c->trace, index, p);
    kineto_string text = kt_process_text_of(c->trace, index);
    bool complete = !text.data && !c->was_read;
    if (text.data && kb_string_equal(p->name, text))
        p->name.size = 0;
    if (!p->label.size && complete) {
        snprintf(label->s, sizeof label->s, p->is_device ? "GPU %lld" : "CPU", (long long)p->pid);
        p->label = kb_string(label->s);
    }
    if (!p->sort_index && complete)
        p->sort_index = p->is_device ? p->pid + DEVICE_SORT_INDEX : p->pid;
}

bool ke_process_has_names(const ke_chrome *c, uint32_t index)
{
    kineto_process p;
    kb_text label;
    process_names_as_written(c, index, &p, &label);
    return p.name.size || p.label.size || p.sort_index;
}

/* Metadata events with name, label and sort index of a process, if they are written. */
static void write_process_names(ke_chrome *c, uint32_t index)
{
    kineto_process p;
    kb_text label;
    kineto_string pid = c->pids[index];
    process_names_as_written(c, index, &p, &label);
    if (p.name.size) {
        begin_meta_event(c, "process_name", "name", pid, NULL);
        end_meta_with_text(c, p.name);
    }
    if (p.label.size) {
        begin_meta_event(c, "process_labels", "labels", pid, NULL);
        end_meta_with_text(c, p.label);
    }
    if (p.sort_index) {
        begin_meta_event(c, "process_sort_index", "sort_index", pid, NULL);
        end_meta_with_int(c, p.sort_index);
    }
}

/* "stream 7", and the lane if there are several. */
static void write_thread_name(ke_chrome *c, const ke_track *track, uint32_t lane)
{
    const char *what = track->view.type == KINETO_TRACK_STREAM ? "stream" : "thread";
    char number[48], suffix[32] = "";
    kineto_string name = track->view.name;
    if (!name.size) {
        snprintf(number, sizeof number, "%s %lld", what, (long long)track->view.id);
        name = kb_string(number);
    }
    if (lane)
        snprintf(suffix, sizeof suffix, " (lane %u)", lane + 1);
    char *full = malloc(name.size + sizeof suffix);
    if (!full) {
        c->out_of_memory = true;
        return;
    }
    memcpy(full, name.data, name.size);
    memcpy(full + name.size, suffix, strlen(suffix));
    begin_meta_event(c, "thread_name", "name", name, &track->places[lane]);
    end_meta_with_text(c, (kineto_string){full, name.size + strlen(suffix)});
    free(full);
}

/* The names that are written of a lane. */
enum { HAS_NAME = 1, HAS_SORT = 2 };

static int lane_names_as_written(const ke_chrome *c, uint32_t index, const kineto_track *view,
                                 uint32_t lane)
{
    kineto_string text = kt_track_text_of(c->trace, index);
    if (ke_shares_tid(view))
        return 0;
    bool named = view->name.size && !(text.data && kb_string_equal(view->name, text));
    bool complete = !text.data && !c->was_read;
    bool has_name = named || complete || (lane && !text.data);
    return (has_name ? HAS_NAME : 0) | (view->sort_index || complete ? HAS_SORT : 0);
}

bool ke_track_has_names(const ke_chrome *c, uint32_t index)
{
    kineto_track view;
    kineto_trace_track(c->trace, index, &view);
    return lane_names_as_written(c, index, &view,
                                 c->job->options->split_lanes && view.lane_count > 1);
}

/* Metadata events for each lane of a track. A lane beyond the first always has a name, which tells
 * the lanes apart. */
static void write_track_names(ke_chrome *c, uint32_t index)
{
    const ke_track *track = &c->tracks[index];
    kineto_string text = kt_track_text_of(c->trace, index);
    int64_t sort = track->view.sort_index;
    for (uint32_t lane = 0; lane < track->view.lane_count; lane++) {
        int names = lane_names_as_written(c, index, &track->view, lane);
        if (names & HAS_NAME)
            write_thread_name(c, track, lane);
        if (names & HAS_SORT) {
            begin_meta_event(c, "thread_sort_index", "sort_index", text, &track->places[lane]);
            end_meta_with_int(c, sort || text.data ? sort : track->view.id);
        }
    }
}

void ke_write_rows_meta(ke_chrome *c)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(c->trace); i++)
        write_process_names(c, c->process_order[i]);
    for (uint32_t i = 0; i < kineto_trace_track_count(c->trace); i++)
        write_track_names(c, c->track_order[i]);
}

/* ---- the member "ckineto" -------------------------------------------------------------------- */

static void write_chrome_ledger_line(kb_json *j, const kineto_ledger_line *line)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    ke_put_ledger_line(j, line);
    kb_json_put_string(j, "detail", line->detail);
    kb_json_object_end(j);
}

/* `replaced`: invalid bytes that will be replaced after the ledger is written. */
static void write_chrome_ledger(ke_chrome *c, uint64_t replaced)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "ledger");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(c->trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(c->trace, i, &line);
        write_chrome_ledger_line(j, &line);
    }
    replaced += c->replaced + j->replaced_bytes;
    if (replaced)
        write_chrome_ledger_line(
            j, &(kineto_ledger_line){.source = kb_string("text"),
                                     .reason = kb_string("invalid UTF-8 replaced"),
                                     .count = replaced,
                                     .detail = kb_string("")});
    kb_json_array_end(j);
}

/* The fit of the clocks and the snapshots it was computed from, so that tools can convert the
 * times. */
static void write_chrome_clock(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_clock_fit fit;
    if (!kt_clock_fit(c->trace, &fit))
        return;
    kb_json_key_z(j, "clock");
    kb_json_object_begin(j);
    kb_json_put_double(j, "residual_ns", fit.residual_ns);
    kb_json_put_int(j, "realtime_step_ns", fit.realtime_step_ns);
    kb_json_key_z(j, "snapshots");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(c->trace); i++) {
        kineto_clock_snapshot s;
        kineto_trace_snapshot(c->trace, i, &s);
        kb_json_newline(j);
        kb_json_object_begin(j);
        ke_put_snapshot(j, &s);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

/* Properties of a row of other tools, which is known by a text. */
static void write_text_process_info(ke_chrome *c, const kineto_process *p, kineto_string text)
{
    kb_json *j = &c->json;
    if (p->rank < 0 && !p->host.size && !p->is_device)
        return;
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "text", text);
    if (p->is_device) {
        kb_json_put_bool(j, "device", true);
        kb_json_put_int(j, "id", p->pid);
    }
    if (p->rank >= 0)
        kb_json_put_int(j, "rank", p->rank);
    if (p->host.size)
        kb_json_put_string(j, "host", p->host);
    kb_json_object_end(j);
}

/* Identities of processes: pid in the file, the number in the trace, parent, rank, host. */
static void write_process_info(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (uint32_t n = 0; n < kineto_trace_process_count(c->trace); n++) {
        uint32_t i = c->process_order[n];
        kineto_process p;
        kineto_trace_process(c->trace, i, &p);
        kineto_string text = kt_process_text_of(c->trace, i);
        bool has_properties = p.is_device && p.properties_json.size;
        if (text.data) {
            write_text_process_info(c, &p, text);
            continue;
        }
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_int(j, "pid", c->pid_numbers[i]);
        kb_json_put_int(j, "id", p.pid);
        kb_json_put_bool(j, "device", p.is_device);
        if (p.ppid)
            kb_json_put_int(j, "ppid", p.ppid);
        if (p.rank >= 0)
            kb_json_put_int(j, "rank", p.rank);
        if (p.host.size)
            kb_json_put_string(j, "host", p.host);
        /* Another device has its id. */
        if (has_properties && c->pid_numbers[i] != p.pid)
            kb_json_put_uint(j, "properties", c->device_place[i]);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static const char *const track_types[] = {"thread", "stream", "counter", "async", "other"};

/* True if a reader recognises the lane without further information. */
static bool is_usual_lane(const ke_chrome *c, const ke_track *track, uint32_t lane)
{
    kineto_process p;
    kineto_trace_process(c->trace, track->view.process, &p);
    bool is_text = kt_process_text_of(c->trace, track->view.process).data != NULL;
    uint32_t usual = is_text       ? KINETO_TRACK_OTHER
                     : p.is_device ? KINETO_TRACK_STREAM
                                   : KINETO_TRACK_THREAD;
    if (ke_shares_tid(&track->view))
        return !track->view.name.size;
    return lane == 0 && track->tids[0] == track->view.id && track->view.type == usual;
}

/* Identifies the process by the pid of its events, which may be a text. */
static void write_lane_info(ke_chrome *c, const ke_track *track, uint32_t lane)
{
    kb_json *j = &c->json;
    uint32_t process = track->view.process;
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_key_z(j, kt_process_text_of(c->trace, process).data ? "text" : "pid");
    kb_json_raw(j, c->pids[process]);
    kb_json_put_int(j, "tid", track->tids[lane]);
    kb_json_put_int(j, "id", track->view.id);
    kb_json_put_string(j, "type", kb_string(track_types[track->view.type]));
    kb_json_put_string(j, "name", track->view.name);
    kb_json_object_end(j);
}

/* Lanes that a reader would not recognise without help. */
static void write_track_info(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "tracks");
    kb_json_array_begin(j);
    for (uint32_t n = 0; n < kineto_trace_track_count(c->trace); n++) {
        uint32_t i = c->track_order[n];
        const ke_track *track = &c->tracks[i];
        bool is_text = kt_track_text_of(c->trace, i).data != NULL;
        bool is_written = track->view.count || ke_track_has_names(c, i);
        for (uint32_t lane = 0; lane < track->view.lane_count && is_written && !is_text; lane++)
            if (!is_usual_lane(c, track, lane))
                write_lane_info(c, track, lane);
    }
    kb_json_array_end(j);
}

/* Categories of plug-ins and the kinds that a reader shall give them. */
static void write_plugin_kinds(ke_chrome *c)
{
    uint32_t count = kt_own_kind_count(c->trace), kind;
    if (!count)
        return;
    kb_json_key_z(&c->json, "kinds");
    kb_json_object_begin(&c->json);
    for (uint32_t i = 0; i < count; i++) {
        kb_json_key(&c->json, kt_own_kind_at(c->trace, i, &kind));
        kb_json_string_z(&c->json, kineto_kind_name(kind));
    }
    kb_json_object_end(&c->json);
}

/* The member "ckineto". `replaced` as in write_chrome_ledger. */
static void write_own_member(ke_chrome *c, uint64_t replaced)
{
    kb_json *j = &c->json;
    int64_t start, end;
    kineto_trace_window(c->trace, &start, &end);
    kb_json_newline(j);
    kb_json_key_z(j, "ckineto");
    kb_json_object_begin(j);
    kb_json_put_string(j, "version", kb_string(KINETO_VERSION));
    kb_json_key_z(j, "window");
    kb_json_array_begin(j);
    kb_json_int(j, start);
    kb_json_int(j, end);
    kb_json_array_end(j);
    write_plugin_kinds(c);
    write_process_info(c);
    write_track_info(c);
    write_chrome_ledger(c, replaced);
    write_chrome_clock(c);
    kb_json_object_end(j);
}

/* "Record Window End" is the event by which Kineto marks the end of the window; it also ends the
 * list without a comma. */
void ke_write_tail(ke_chrome *c, const char *trace_name)
{
    kb_json *j = &c->json;
    int64_t start, end;
    char *out = kb_sink_reserve(c->sink, c->room);
    kineto_trace_window(c->trace, &start, &end);
    KE_PUT(out, "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\","
                "\"pid\":\"\",\"tid\":\"\",\"ts\":");
    out = kb_json_format_us(out, (int64_t)((uint64_t)end - (uint64_t)c->base_ns));
    KE_PUT(out, "}\n");
    ke_commit(c, out);
    kb_json_array_end(j);
    write_header_metadata(c, true);
    uint64_t replaced = 0; /* invalid bytes of the name, which follows the ledger */
    char *scratch = malloc(3 * strlen(trace_name) + 1);
    c->out_of_memory |= !scratch;
    if (scratch)
        kb_utf8_clean(scratch, kb_string(trace_name), &replaced);
    free(scratch);
    write_own_member(c, replaced);
    kb_json_newline(j);
    kb_json_key_z(j, "traceName");
    kb_json_string_z(j, trace_name);
    kb_json_newline(j);
    kb_json_object_end(j);
    kb_sink_write(c->sink, "\n", 1);
    c->replaced += j->replaced_bytes;
}
