/* The header of a Chrome trace: all members except "traceEvents". Metadata is taken while
 * the outline is walked; lists of processes, tracks and devices ("deviceProperties", and
 * ckineto's own member "ckineto", which export/chrome writes) are applied by kt_read_apply
 * at the end, when all events are committed. Values that do not make sense are ignored,
 * because a file may come from anywhere. */
#include "trace/read/read.h"

static bool header_text_is(kineto_string a,
                           const char *b) { return kb_string_equal(a, kb_string(b)); }

/* The largest base time: an hour of times must fit after it. */
#define LAST_BASE_NS (INT64_MAX - INT64_C(3600000000000))

bool kt_read_base(kineto_string value, int64_t *base_ns)
{
    int64_t ns;
    kineto_string number = kt_json_is_string(value) ? kt_json_inside(value) : value;
    if (!number.size || !kt_json_scaled(number, 0, &ns) || ns > LAST_BASE_NS)
        return false;
    *base_ns = ns;
    return true;
}

/* Takes "baseTimeNanoseconds". */
static kineto_status take_base_time(kt_reader *r, kineto_string value)
{
    if (kt_read_base(value, &r->base_ns))
        return KINETO_OK;
    if (r->strict)
        return kt_read_fail(r, value.data, "\"baseTimeNanoseconds\" must be an integer");
    kt_ledger_add(r->b, kb_string("reader"),
                  kb_string("invalid base time: ignored, times count from 1970"), 1,
                  false, value.size <= 64 ? value : kb_string(""));
    return KINETO_OK;
}

kineto_status kt_read_header(kt_reader *r, kineto_string raw_key, kineto_string value)
{
    if (header_text_is(raw_key, "traceName")) /* the name of the file itself */
        return KINETO_OK;
    if (header_text_is(raw_key, "baseTimeNanoseconds"))
        return take_base_time(r, value);
    kt_metadata(r->b, kb_intern_get(&r->b->trace->strings, kt_read_text(r, raw_key)), value);
    return KINETO_OK;
}

/* ---- lists of objects ------------------------------------------------------------------------ */

static bool next_list_item(kt_scan *scan, bool *first, kineto_string *item)
{
    return kt_scan_more(scan, first, '[') && kt_scan_value(scan, item);
}

static bool open_header_list(kt_scan *scan, kineto_string array)
{
    *scan = kt_scan_of(array);
    return array.size && kt_scan_open(scan, '[');
}

static bool get_int_member(kineto_string object, const char *key, int64_t *value)
{
    return kt_value_whole(kt_member_of(object, key), value);
}

static uint64_t get_uint_member(kineto_string object, const char *key)
{
    uint64_t value = 0;
    kt_json_uint(kt_member_of(object, key), &value);
    return value;
}

static kineto_string get_text_member(kt_reader *r, kineto_string object, const char *key)
{
    kineto_string raw = kt_member_of(object, key);
    if (!kt_json_is_string(raw))
        return (kineto_string){"", 0};
    return kb_intern_get(&r->b->trace->strings, kt_read_string(r, raw));
}

/* ---- processes and devices ------------------------------------------------------------------- */

/* The rank of a process in ckineto's list; -1: none. */
static int32_t get_rank_member(kineto_string object)
{
    int64_t rank = -1;
    get_int_member(object, "rank", &rank);
    return (int32_t)KB_MAX(-1, KB_MIN(rank, INT32_MAX));
}

/* Sets properties of a process with a text instead of a pid. It must exist: index < known. */
static void read_text_process_item(kt_reader *r, kineto_string item, kt_process_row *final,
                                   size_t known)
{
    if (!final)
        return;
    uint32_t index = kt_process_text(r->b, get_text_member(r, item, "text"));
    if (index >= known)
        return;
    final[index].rank = get_rank_member(item);
    final[index].host = kt_string(r->b, get_text_member(r, item, "host"));
    final[index].is_device = header_text_is(kt_member_of(item, "device"), "true");
    get_int_member(item, "id", &final[index].number);
}

/* Reads ckineto's list of processes. Processes are found by their pid in the file, so their
 * rows may not change while the list is read: a first pass without `final` creates missing
 * ones, and a second pass changes only the copies in `final`, which has `known` rows. */
static void read_process_list(kt_reader *r, kineto_string array, kt_process_row *final,
                              size_t known)
{
    kt_scan scan;
    bool first = true;
    kineto_string item;
    for (bool ok = open_header_list(&scan, array); ok && next_list_item(&scan, &first, &item);) {
        int64_t pid, id, ppid = 0;
        uint64_t place;
        if (kt_member_of(item, "text").size) {
            read_text_process_item(r, item, final, known);
            continue;
        }
        if (!get_int_member(item, "pid", &pid) || !get_int_member(item, "id", &id))
            continue;
        uint32_t index = kt_process(r->b, false, pid, 0);
        if (!final)
            continue;
        get_int_member(item, "ppid", &ppid);
        final[index].rank = get_rank_member(item);
        final[index].ppid = ppid;
        final[index].host = kt_string(r->b, get_text_member(r, item, "host"));
        final[index].is_device = header_text_is(kt_member_of(item, "device"), "true");
        final[index].pid = id;
        if (kt_json_uint(kt_member_of(item, "properties"), &place) &&
            !kb_map_insert(&r->properties, place, index, NULL))
            r->b->status = KINETO_E_MEMORY;
    }
}

/* Fills the map from ids to devices; of several devices with one id, the first. */
static void map_devices_by_id(kt_reader *r, kb_map *by_id)
{
    const kineto_trace *t = r->b->trace;
    for (uint32_t i = 0; i < t->processes.count; i++)
        if (t->processes.data[i].is_device &&
            !kb_map_insert(by_id, (uint64_t)kt_process_number(&t->processes.data[i]), i, NULL))
            r->b->status = KINETO_E_MEMORY;
}

/* The device with an id, created on first use. */
static uint32_t find_or_add_device(kt_reader *r, kb_map *by_id, int64_t id)
{
    const uint64_t *known = kb_map_find(by_id, (uint64_t)id);
    if (known)
        return (uint32_t)*known;
    uint32_t index = kt_process(r->b, true, id, 0);
    if (!kb_map_insert(by_id, (uint64_t)id, index, NULL))
        r->b->status = KINETO_E_MEMORY;
    return index;
}

/* In merged files each rank has a device with the same id, known by a text: all get its
 * properties. */
static void copy_properties_to_merged(kt_reader *r, const kb_map *by_id)
{
    kineto_trace *t = r->b->trace;
    for (uint32_t i = 0; i < t->processes.count; i++) {
        kt_process_row *p = &t->processes.data[i];
        bool is_merged = p->is_device && !p->properties && kt_process_text_of(t, i).data;
        const uint64_t *first =
            is_merged ? kb_map_find(by_id, (uint64_t)kt_process_number(p)) : NULL;
        if (first)
            p->properties = t->processes.data[*first].properties;
    }
}

/* Reads "deviceProperties". */
static void read_device_list(kt_reader *r, kineto_string array)
{
    kt_scan scan;
    bool first = true;
    kineto_string item;
    uint64_t place = 0;
    kb_map by_id = {0};
    map_devices_by_id(r, &by_id);
    for (bool ok = open_header_list(&scan, array); ok &&
         next_list_item(&scan, &first, &item); place++) {
        int64_t id;
        const uint64_t *placed = kb_map_find(&r->properties, place);
        if (!placed && !kt_event_number(kt_member_of(item, "id"), &id)) {
            r->nameless_devices++;
            continue;
        }
        kineto_process p = {.rank = -1, .properties_json = item};
        uint32_t device = placed ? (uint32_t)*placed : find_or_add_device(r, &by_id, id);
        kt_process_set(r->b, device, &p);
        if (device < r->b->trace->processes.count)
            r->b->trace->processes.data[device].place = (uint32_t)KB_MIN(place + 1, UINT32_MAX);
    }
    copy_properties_to_merged(r, &by_id);
    kb_map_free(&by_id);
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* Names of kineto_track_type in ckineto's list. */
static const char *const types[] = {"thread", "stream", "counter", "async", "other"};

/* Reads ckineto's list of tracks whose tid is not their id, into `wanted`, which is indexed
 * by track. */
static void read_track_list(kt_reader *r, kineto_string array, kt_track_row *wanted)
{
    kt_scan scan;
    bool first = true;
    kineto_string item;
    uint32_t known = (uint32_t)r->b->trace->tracks.count;
    for (bool ok = open_header_list(&scan, array); ok && next_list_item(&scan, &first, &item);) {
        int64_t pid, tid, id;
        uint32_t type = 0;
        kineto_string name = get_text_member(r, item, "type");
        while (type < KB_COUNT(types) && !header_text_is(name, types[type]))
            type++;
        bool by_number = get_int_member(item, "pid", &pid);
        if (type == KB_COUNT(types) || !get_int_member(item, "tid", &tid) ||
            !get_int_member(item, "id", &id) ||
            (!by_number && !kt_json_is_string(kt_member_of(item, "text"))))
            continue;
        bool shares = type == KINETO_TRACK_COUNTER || type == KINETO_TRACK_ASYNC;
        uint32_t process = by_number ? kt_process(r->b, false, pid, 0)
                                     : kt_process_text(r->b, get_text_member(r, item, "text"));
        uint32_t read_as = by_number ? KINETO_TRACK_THREAD : KINETO_TRACK_OTHER;
        uint32_t track = kt_track(r->b, process, shares ? type : read_as, tid);
        if (track >= known)
            continue; /* no event is on it: an empty track, or hostile input */
        wanted[track].type = type;
        wanted[track].id = id;
        wanted[track].has_other_tid = id != tid;
        wanted[track].name = kt_string(r->b, get_text_member(r, item, "name"));
    }
}

/* Decides type and id of all tracks, and renumbers them. */
static void resolve_tracks(kt_reader *r, kineto_string own, const kt_process_row *processes)
{
    kineto_trace *t = r->b->trace;
    size_t count = t->tracks.count;
    kt_track_row *wanted = malloc((count + 1) * sizeof *wanted);
    uint32_t *new_index = malloc((count + 1) * sizeof *new_index);
    if (!wanted || !new_index) {
        r->b->status = KINETO_E_MEMORY;
        goto done;
    }
    for (size_t i = 0; i < count; i++) {
        wanted[i] = t->tracks.data[i];
        wanted[i].type = kt_track_type_of(t, (uint32_t)i, &processes[wanted[i].process]);
    }
    read_track_list(r, kt_member_of(own, "tracks"), wanted);
    t->tracks.count = count;
    kt_replace_tracks(r->b, wanted, new_index);
    for (size_t i = 0; i < r->late.count; i++)
        r->late.data[i].track = new_index[r->late.data[i].track];
done:
    free(wanted);
    free(new_index);
}

/* Counters without a category count a device if they are in its process row. */
static void resolve_counter_kinds(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    size_t next = 0;
    bool any = false;
    for (size_t i = 0; i < t->tracks.count; i++)
        any |= t->tracks.data[i].type == KINETO_TRACK_COUNTER;
    if (!any)
        return;
    for (kineto_row row = 0; row < t->count; row++) {
        if (next < r->host_counters.count && r->host_counters.data[next] == row)
            next++;
        else if (kt_form(t, row) == KINETO_FORM_COUNTER && kt_kind(t, row) == KINETO_KIND_COUNTER &&
                 kt_process_counts_device(t, t->tracks.data[kt_row_track(t, row)].process))
            kt_row_set_kind(r->b, row, KINETO_KIND_GPU_PM_COUNTER);
    }
}

/* Decides properties of processes, types of tracks, and kinds of rows, in this order: each
 * step depends on the one before it. */
static void resolve_processes_and_rows(kt_reader *r, kineto_string own)
{
    kineto_trace *t = r->b->trace;
    kineto_string listed = kt_member_of(own, "processes");
    read_process_list(r, listed, NULL, 0);
    size_t count = t->processes.count;
    kt_process_row *final = malloc((count + 1) * sizeof *final);
    if (!final) {
        r->b->status = KINETO_E_MEMORY;
        return;
    }
    if (count)
        memcpy(final, t->processes.data, count * sizeof *final);
    if (listed.size)
        read_process_list(r, listed, final, count);
    else
        kt_find_device_rows(r->b, final);
    resolve_tracks(r, own, final);
    if (count)
        memcpy(t->processes.data, final, count * sizeof *final);
    free(final);
    resolve_counter_kinds(r);
    kt_set_device_work(r->b);
    if (!listed.size)
        kt_read_ranks(r);
}

/* ---- kinds ----------------------------------------------------------------------------------- */

void kt_read_own_kinds(kt_reader *r, kineto_string own)
{
    kineto_string kinds = kt_member_of(own, "kinds"), key, value;
    kt_scan scan = kt_scan_of(kinds);
    bool first = true;
    if (!kinds.size || !kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        int kind = kb_kind_parse(kt_value_text(value, kt_text_room(value.size)));
        kineto_string quoted = {key.data - 1, key.size + 2};
        if (kind >= 0)
            kt_own_kind(r->b, kb_intern_get(&r->b->trace->strings, kt_read_string(r, quoted)),
                        (uint32_t)kind);
    }
}

/* ---- ledger, clock, window ------------------------------------------------------------------- */

static void read_ledger_list(kt_reader *r, kineto_string array)
{
    kt_scan scan;
    bool first = true;
    kineto_string item;
    for (bool ok = open_header_list(&scan, array); ok && next_list_item(&scan, &first, &item);)
        kt_ledger_add(r->b, get_text_member(r, item, "source"), get_text_member(r, item, "reason"),
                      get_uint_member(item, "count"),
                      header_text_is(kt_member_of(item, "loss"), "true"),
                      get_text_member(r, item, "detail"));
}

static void read_snapshot_list(kt_reader *r, kineto_string array)
{
    kt_scan scan;
    bool first = true;
    kineto_string item;
    for (bool ok = open_header_list(&scan, array); ok && next_list_item(&scan, &first, &item);) {
        kb_clock_snapshot s = {.ticks = get_uint_member(item, "ticks"),
                               .width_ticks = get_uint_member(item, "width_ticks")};
        if (get_int_member(item, "monotonic_ns", &s.monotonic_ns) &&
            get_int_member(item, "monotonic_raw_ns", &s.monotonic_raw_ns) &&
            get_int_member(item, "realtime_ns", &s.realtime_ns) &&
            get_int_member(item, "boottime_ns", &s.boottime_ns))
            kt_snapshot(r->b, &s);
    }
}

/* True if this may be the window of the activities: it does not begin before the base time,
 * which the writer chose so, and some activity overlaps it. */
static bool window_matches_rows(const kt_reader *r, int64_t start_ns, int64_t end_ns)
{
    const kineto_trace *t = r->b->trace;
    bool touched = t->count == 0;
    for (size_t i = 0; i < t->blocks.count && !touched; i++)
        touched =
            t->blocks.data[i]->min_start_ns <= end_ns && t->blocks.data[i]->max_end_ns >= start_ns;
    return touched && start_ns >= r->base_ns && start_ns <= end_ns;
}

void kt_read_ignore_window(kt_reader *r)
{
    kt_ledger_add(r->b, kb_string("reader"),
                  kb_string("window does not match the activities: ignored"), 1, false,
                  kb_string(""));
}

static void read_stated_window(kt_reader *r, kineto_string array)
{
    kt_scan scan;
    bool first = true;
    kineto_string start, end;
    int64_t start_ns, end_ns;
    if (!open_header_list(&scan, array) || !next_list_item(&scan, &first, &start) ||
        !next_list_item(&scan, &first, &end) || !kt_json_int(start, &start_ns) ||
        !kt_json_int(end, &end_ns))
        return;
    r->has_window = window_matches_rows(r, start_ns, end_ns);
    if (r->has_window) {
        r->window_start_ns = start_ns;
        r->window_end_ns = end_ns;
    } else {
        kt_read_ignore_window(r);
    }
}

/* The version of ckineto that wrote the file, reduced to harmless characters. */
static void read_writer_version(kt_reader *r, kineto_string version)
{
    char *out = r->b->trace->writer_version;
    size_t room = sizeof r->b->trace->writer_version - 1;
    for (size_t i = 0; i < version.size && room; i++) {
        char c = version.data[i];
        bool plain = kb_is_digit(c) || kb_is_lower(c) || c == '.' || c == '-';
        if (plain && room--)
            *out++ = c;
    }
}

void kt_read_apply(kt_reader *r, kineto_string devices, kineto_string own)
{
    resolve_processes_and_rows(r, own);
    read_device_list(r, devices);
    read_ledger_list(r, kt_member_of(own, "ledger"));
    read_snapshot_list(r, kt_member_of(kt_member_of(own, "clock"), "snapshots"));
    read_stated_window(r, kt_member_of(own, "window"));
    read_writer_version(r, kt_member_of(own, "version"));
}
