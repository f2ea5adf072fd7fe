/* Everything in the file but the events: header, names of rows, ledger, clock; and the decision
 * which pid and tid a row gets. */
#include "export/chrome.h"

#include "trace/json_text.h"

#define SHIFT_PROCESS     1000000000u
#define SHIFT_LANE        100000000u
#define DEVICE_SORT_INDEX 5000000
/* Traces that were taken within the same three weeks get the same base, so that those of many hosts
 * can be laid over each other. It is a quarter of Kineto's three months: then times stay below 2^41
 * us, and viewers that read them as doubles get every nanosecond right; a nanosecond off, and a
 * slice that ends with what it lies in sticks out of it, and is dropped. */
#define BASE_STEP_NS (INT64_C(7889238) * 1000000000 / 4)

/* ---- pids and tids --------------------------------------------------------------------------- */

/* Tries in big steps, which a reader can see through; then any free number will do. */
#define BIG_STEPS 32

/* The first of number, number + step, … whose lower half `scope` has not handed out; *ok false: no
 * memory. */
static int64_t claim(kb_map *taken, uint64_t scope, int64_t number, uint32_t step, bool *ok)
{
    bool created = false;
    for (uint32_t tries = 0; *ok; tries++) {
        uint64_t key[2] = {scope, (uint32_t)number};
        *ok = kb_map_insert(taken, kb_hash(key, sizeof key), 1, &created) != NULL;
        if (created)
            break;
        number = (uint32_t)((uint32_t)number + (tries < BIG_STEPS ? step : 1));
    }
    return number;
}

/* A number or text as JSON, at most this long. */
#define ID_BYTES (6 * KE_LONGEST_TEXT + 64)

static size_t format_id(char *out, kineto_string text, int64_t number, uint32_t lane,
                        uint64_t *replaced)
{
    if (!text.data)
        return (size_t)(kb_json_format_int(out, number) - out);
    char *end = kb_json_escape(out, (kineto_string){text.data, KB_MIN(text.size, KE_LONGEST_TEXT)},
                               replaced);
    if (lane)
        end += snprintf(end - 1, 32, " (lane %u)\"", lane + 1) - 1;
    return (size_t)(end - out);
}

static bool plan_pids(ke_chrome *c)
{
    uint32_t count = kineto_trace_process_count(c->trace);
    kb_map taken = {0};
    bool ok = true;
    c->pids = calloc(count + 1, sizeof *c->pids);
    c->pid_numbers = calloc(count + 1, sizeof *c->pid_numbers);
    if (!c->pids || !c->pid_numbers)
        return false;
    for (uint32_t i = 0; i < 2 * count && ok; i++) { /* hosts, then devices */
        kineto_process p;
        char text[ID_BYTES];
        kineto_trace_process(c->trace, i % count, &p);
        if (p.is_device != (i >= count))
            continue;
        kineto_string name = kt_process_text_of(c->trace, i % count);
        int64_t pid = name.data ? 0 : claim(&taken, 0, p.pid, SHIFT_PROCESS, &ok);
        size_t size = format_id(text, name, pid, 0, &c->replaced);
        char *copy = kb_arena_copy(&c->arena, text, size);
        ok = ok && copy;
        c->pid_numbers[i % count] = pid;
        c->pids[i % count] = (kineto_string){copy, size};
    }
    kb_map_free(&taken);
    return ok;
}

static bool make_place(ke_chrome *c, ke_place *place, uint32_t process, kineto_string tid)
{
    kineto_string pid = c->pids[process];
    size_t room = pid.size + tid.size + 32 + KE_PIECE;
    char *out = kb_arena_alloc(&c->arena, room, 1);
    if (!out)
        return false;
    memset(out, 0, room);
    place->text = out;
    KE_PUT(out, ",\"pid\":");
    memcpy(out, pid.data, pid.size);
    out += pid.size;
    if (tid.size) {
        KE_PUT(out, ",\"tid\":");
        memcpy(out, tid.data, tid.size);
        out += tid.size;
    }
    KE_PUT(out, ",\"ts\":");
    place->size = (size_t)(out - place->text);
    c->room = KB_MAX(c->room, KE_ROOM + 2 * place->size);
    return true;
}

/* Only slices can get into each other's way. */
static bool shares_tid(const kineto_track *k)
{
    return k->type == KINETO_TRACK_COUNTER || k->type == KINETO_TRACK_ASYNC;
}

static bool plan_track(ke_chrome *c, uint32_t index, kb_map *taken)
{
    ke_track *track = &c->tracks[index];
    bool ok = true;
    kineto_trace_track(c->trace, index, &track->view);
    if (shares_tid(&track->view) && track->view.lane_count)
        track->view.lane_count = 1; /* what overlaps there has ids of its own */
    uint32_t lanes = track->view.lane_count;
    track->places = kb_arena_alloc(&c->arena, lanes * sizeof *track->places, 8);
    track->tids = kb_arena_alloc(&c->arena, lanes * sizeof *track->tids, 8);
    if (!lanes || !track->places || !track->tids)
        return false;
    bool counts_device = kt_process_counts_device(c->trace, track->view.process);
    track->counter_category = kb_string(
        kineto_kind_name(counts_device ? KINETO_KIND_GPU_PM_COUNTER : KINETO_KIND_COUNTER));
    kineto_string text = kt_track_text_of(c->trace, index);
    for (uint32_t lane = 0; lane < lanes && ok; lane++) {
        char tid[ID_BYTES];
        int64_t number = track->view.id;
        if (lane || number < 0) /* those, Perfetto would put onto the main thread */
            number = (uint32_t)((uint32_t)number + lane * SHIFT_LANE);
        if (!text.data && !shares_tid(&track->view))
            number = claim(taken, 1 + (uint64_t)track->view.process, number, SHIFT_LANE, &ok);
        track->tids[lane] = number;
        size_t size = format_id(tid, text, number, lane, &c->replaced);
        if (track->view.type == KINETO_TRACK_COUNTER && !text.data && !number)
            size = 0; /* viewers put counters into the row of their process */
        ok = ok &&
             make_place(c, &track->places[lane], track->view.process, (kineto_string){tid, size});
    }
    return ok;
}

static void plan_base(ke_chrome *c)
{
    const kineto_trace *t = c->trace;
    int64_t earliest, end;
    kineto_trace_window(t, &earliest, &end);
    for (uint32_t i = 0; i < kt_block_count(t); i++)
        earliest = KB_MIN(earliest, kt_block_at(t, i)->min_start_ns);
    int64_t rest = earliest % BASE_STEP_NS;
    if (rest < 0)
        rest += BASE_STEP_NS;
    c->base_ns = earliest < INT64_MIN + rest ? INT64_MIN : earliest - rest;
}

/* Keys of the header that are taken: ours before any of the program's. */
static bool take_own_keys(ke_chrome *c)
{
    static const char *const own[] = {
        "schemaVersion", "deviceProperties", "displayTimeUnit", "baseTimeNanoseconds",
        "traceEvents",   "ckineto",          "traceName"};
    for (size_t i = 0; i < KB_COUNT(own); i++)
        if (!kb_map_insert(&c->header_keys, kb_hash(own[i], strlen(own[i])), 1, NULL))
            return false;
    return true;
}

bool ke_plan(ke_chrome *c)
{
    uint32_t tracks = kineto_trace_track_count(c->trace);
    kb_map taken = {0};
    c->room = KE_ROOM;
    c->was_read = kt_was_read(c->trace);
    plan_base(c);
    c->tracks = calloc(tracks + 1, sizeof *c->tracks);
    bool ok = c->tracks && take_own_keys(c) && plan_pids(c);
    for (uint32_t i = 0; ok && i < tracks; i++)
        ok = plan_track(c, i, &taken);
    kb_map_free(&taken);
    return ok;
}

/* ---- header ---------------------------------------------------------------------------------- */

static bool has_member(kineto_string object, const char *wanted)
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

/* Properties are an object of the source's; "id" joins them with the device's rows. */
static void write_device(ke_chrome *c, int64_t id, kineto_string properties)
{
    kb_json *j = &c->json;
    kt_scan scan = kt_scan_of(properties);
    kineto_string key, value;
    bool first = true;
    kb_json_newline(j);
    if (!kt_scan_open(&scan, '{') || has_member(properties, "id")) {
        kb_json_raw(j, properties);
        return;
    }
    kb_json_object_begin(j);
    kb_json_key_z(j, "id");
    kb_json_int(j, id);
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        kineto_string quoted = {key.data - 1, key.size + 2};
        kb_json_newline(j);
        kb_json_raw(j, quoted); /* the key as it was escaped */
        kb_sink_write(c->sink, ":", 1);
        kb_sink_write(c->sink, value.data, value.size);
    }
    kb_json_object_end(j);
}

static void write_devices(ke_chrome *c)
{
    kb_json_key_z(&c->json, "deviceProperties");
    kb_json_array_begin(&c->json);
    for (uint32_t i = 0; i < kineto_trace_process_count(c->trace); i++) {
        kineto_process p;
        kineto_trace_process(c->trace, i, &p);
        if (p.is_device && p.properties_json.size)
            write_device(c, c->pid_numbers[i], p.properties_json);
    }
    kb_json_array_end(&c->json);
}

/* Bytes as a writer of UTF-8 shows them. */
static char *copy_valid(char *out, kineto_string s, uint64_t *replaced)
{
    while (s.size) {
        size_t good = kb_utf8_valid_prefix(s.data, s.size), skip = good;
        memcpy(out, s.data, good);
        out += good;
        if (good < s.size) {
            KE_PUT(out, "\xef\xbf\xbd");
            skip += kb_utf8_bad_length(s.data + good, s.size - good);
            if (replaced)
                ++*replaced;
        }
        s = (kineto_string){s.data + skip, s.size - skip};
    }
    return out;
}

/* A key that is taken gets a number, as repeated arguments do. Keys are compared as they are
 * written: two that differ in invalid bytes only are the same there. */
static void write_header_key(ke_chrome *c, kineto_string key)
{
    char *text = malloc(3 * key.size + 40);
    if (!text) {
        c->out_of_memory = true;
        return;
    }
    uint64_t replaced = 0;
    bool created = false;
    char *end = copy_valid(text, key, &replaced);
    for (uint64_t number = 2;; number++) {
        uint64_t hash = kb_hash(text, (size_t)(end - text));
        if (!kb_map_insert(&c->header_keys, hash, 1, &created))
            c->out_of_memory = created = true;
        if (created)
            break;
        end = copy_valid(text, key, NULL);
        end += snprintf(end, 40, " (%llu)", (unsigned long long)number);
    }
    kb_json_key(&c->json, (kineto_string){text, (size_t)(end - text)});
    c->replaced += replaced;
    free(text);
}

static void write_metadata(ke_chrome *c, bool distributed)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(c->trace); i++) {
        kineto_string key, value;
        kineto_trace_metadata(c->trace, i, &key, &value);
        if (kb_string_equal(key, kb_string("distributedInfo")) != distributed)
            continue;
        kb_json_newline(&c->json);
        write_header_key(c, key);
        kb_json_raw(&c->json, value);
    }
}

void ke_write_head(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_object_begin(j);
    kb_json_newline(j);
    kb_json_key_z(j, "schemaVersion");
    kb_json_int(j, 1);
    kb_json_newline(j);
    write_devices(c);
    write_metadata(c, false);
    kb_json_newline(j);
    kb_json_key_z(j, "displayTimeUnit");
    kb_json_string_z(j, "ms");
    kb_json_newline(j);
    kb_json_key_z(j, "baseTimeNanoseconds");
    kb_json_int(j, c->base_ns);
    kb_json_newline(j);
    kb_json_key_z(j, "traceEvents");
    kb_json_array_begin(j);
    kb_sink_write(c->sink, "\n", 1);
}

/* ---- names of rows --------------------------------------------------------------------------- */

/* {"ph":"M",…,"args":{"<key>": — the value and the end follow. */
static void begin_meta(ke_chrome *c, const char *name, const char *key, kineto_string pid,
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
    out = kb_json_format_us(out, start - c->base_ns);
    out += snprintf(out, 128, ",\"args\":{\"%s\":", key);
    ke_commit(c, out);
}

static void end_meta(ke_chrome *c) { kb_sink_write(c->sink, "}},\n", 4); }

static void end_meta_text(ke_chrome *c, kineto_string text)
{
    ke_write_string(c, text);
    end_meta(c);
}

static void end_meta_int(ke_chrome *c, int64_t value)
{
    ke_commit(c, kb_json_format_int(kb_sink_reserve(c->sink, 32), value));
    end_meta(c);
}

static void write_process_rows(ke_chrome *c, uint32_t index)
{
    kineto_process p;
    char label[48];
    kineto_trace_process(c->trace, index, &p);
    kineto_string pid = c->pids[index], text = kt_process_text_of(c->trace, index);
    bool is_text = text.data != NULL;
    if (p.name.size && !(is_text && kb_string_equal(p.name, text))) {
        begin_meta(c, "process_name", "name", pid, NULL);
        end_meta_text(c, p.name);
    }
    bool complete = !is_text && !c->was_read;
    if (!p.label.size && complete) {
        snprintf(label, sizeof label, p.is_device ? "GPU %lld" : "CPU", (long long)p.pid);
        p.label = kb_string(label);
    }
    if (p.label.size) {
        begin_meta(c, "process_labels", "labels", pid, NULL);
        end_meta_text(c, p.label);
    }
    if (!p.sort_index && complete)
        p.sort_index = p.is_device ? p.pid + DEVICE_SORT_INDEX : p.pid;
    if (p.sort_index) {
        begin_meta(c, "process_sort_index", "sort_index", pid, NULL);
        end_meta_int(c, p.sort_index);
    }
}

/* "stream 7", and behind it which lane if there are more than one. */
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
    begin_meta(c, "thread_name", "name", name, &track->places[lane]);
    end_meta_text(c, (kineto_string){full, name.size + strlen(suffix)});
    free(full);
}

static void write_track_rows(ke_chrome *c, uint32_t index)
{
    const ke_track *track = &c->tracks[index];
    kineto_string text = kt_track_text_of(c->trace, index), name = track->view.name;
    if (shares_tid(&track->view))
        return;
    bool named = name.size && !(text.data && kb_string_equal(name, text));
    int64_t sort = track->view.sort_index;
    for (uint32_t lane = 0; lane < track->view.lane_count; lane++) {
        bool complete = !text.data && (lane || !c->was_read);
        if (named || complete)
            write_thread_name(c, track, lane);
        if (sort || complete) {
            begin_meta(c, "thread_sort_index", "sort_index", text, &track->places[lane]);
            end_meta_int(c, sort || text.data ? sort : track->view.id);
        }
    }
}

void ke_write_rows_meta(ke_chrome *c)
{
    for (uint32_t i = 0; i < kineto_trace_process_count(c->trace); i++)
        write_process_rows(c, i);
    for (uint32_t i = 0; i < kineto_trace_track_count(c->trace); i++)
        write_track_rows(c, i);
}

/* ---- what only ckineto reads ----------------------------------------------------------------- */

static void write_ledger_line(kb_json *j, const kineto_ledger_line *line)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "source", line->source);
    kb_json_put_string(j, "reason", line->reason);
    kb_json_put_uint(j, "count", line->count);
    kb_json_key_z(j, "loss");
    kb_json_bool(j, line->is_loss);
    kb_json_put_string(j, "detail", line->detail);
    kb_json_object_end(j);
}

/* `replaced` is what else will be replaced behind this. */
static void write_ledger(ke_chrome *c, uint64_t replaced)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "ledger");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(c->trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(c->trace, i, &line);
        write_ledger_line(j, &line);
    }
    replaced += c->replaced + j->replaced_bytes;
    if (replaced)
        write_ledger_line(j, &(kineto_ledger_line){.source = kb_string("text"),
                                                   .reason = kb_string("invalid UTF-8 replaced"),
                                                   .count = replaced,
                                                   .detail = kb_string("")});
    kb_json_array_end(j);
}

static void write_clock(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_clock_fit fit;
    if (!kt_clock_fit(c->trace, &fit))
        return;
    kb_json_key_z(j, "clock");
    kb_json_object_begin(j);
    kb_json_key_z(j, "residual_ns");
    kb_json_double(j, fit.residual_ns);
    kb_json_put_int(j, "realtime_step_ns", fit.realtime_step_ns);
    kb_json_key_z(j, "snapshots");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(c->trace); i++) {
        kineto_clock_snapshot s;
        kineto_trace_snapshot(c->trace, i, &s);
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_uint(j, "ticks", s.ticks);
        kb_json_put_int(j, "monotonic_ns", s.monotonic_ns);
        kb_json_put_int(j, "monotonic_raw_ns", s.monotonic_raw_ns);
        kb_json_put_int(j, "realtime_ns", s.realtime_ns);
        kb_json_put_int(j, "boottime_ns", s.boottime_ns);
        kb_json_put_uint(j, "width_ticks", s.width_ticks);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kb_json_object_end(j);
}

static void write_processes(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "processes");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_process_count(c->trace); i++) {
        kineto_process p;
        kineto_trace_process(c->trace, i, &p);
        if (kt_process_text_of(c->trace, i).data)
            continue;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_int(j, "pid", c->pid_numbers[i]);
        kb_json_put_int(j, "id", p.pid);
        kb_json_key_z(j, "device");
        kb_json_bool(j, p.is_device);
        if (p.ppid)
            kb_json_put_int(j, "ppid", p.ppid);
        if (p.rank >= 0)
            kb_json_put_int(j, "rank", p.rank);
        if (p.host.size)
            kb_json_put_string(j, "host", p.host);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

static const char *const track_types[] = {"thread", "stream", "counter", "async", "other"};

/* Is this what a reader would take the row for anyway? */
static bool is_plain(const ke_chrome *c, const ke_track *track, uint32_t lane)
{
    kineto_process p;
    kineto_trace_process(c->trace, track->view.process, &p);
    uint32_t usual = p.is_device ? KINETO_TRACK_STREAM : KINETO_TRACK_THREAD;
    if (shares_tid(&track->view))
        return !track->view.name.size;
    return lane == 0 && track->tids[0] == track->view.id && track->view.type == usual;
}

static void write_tracks(ke_chrome *c)
{
    kb_json *j = &c->json;
    kb_json_key_z(j, "tracks");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_track_count(c->trace); i++) {
        const ke_track *track = &c->tracks[i];
        bool is_text = kt_track_text_of(c->trace, i).data != NULL ||
                       kt_process_text_of(c->trace, track->view.process).data != NULL;
        for (uint32_t lane = 0; lane < track->view.lane_count && !is_text; lane++) {
            if (is_plain(c, track, lane))
                continue;
            kb_json_newline(j);
            kb_json_object_begin(j);
            kb_json_put_int(j, "pid", c->pid_numbers[track->view.process]);
            kb_json_put_int(j, "tid", track->tids[lane]);
            kb_json_put_int(j, "id", track->view.id);
            kb_json_put_string(j, "type", kb_string(track_types[track->view.type]));
            kb_json_put_string(j, "name", track->view.name);
            kb_json_object_end(j);
        }
    }
    kb_json_array_end(j);
}

/* Categories of plug-ins' own: which kind a reader shall give them. */
static void write_kinds(ke_chrome *c)
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

static void write_own(ke_chrome *c, uint64_t replaced)
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
    write_kinds(c);
    write_processes(c);
    write_tracks(c);
    write_ledger(c, replaced);
    write_clock(c);
    kb_json_object_end(j);
}

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
    write_metadata(c, true);
    uint64_t replaced = 0; /* in the name that follows the ledger */
    char *scratch = malloc(3 * strlen(trace_name) + 1);
    c->out_of_memory |= !scratch;
    if (scratch)
        copy_valid(scratch, kb_string(trace_name), &replaced);
    free(scratch);
    write_own(c, replaced);
    kb_json_newline(j);
    kb_json_key_z(j, "traceName");
    kb_json_string_z(j, trace_name);
    kb_json_newline(j);
    kb_json_object_end(j);
    kb_sink_write(c->sink, "\n", 1);
    c->replaced += j->replaced_bytes;
}
