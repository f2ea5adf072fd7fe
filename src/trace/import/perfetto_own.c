/* Header entries of a Perfetto trace, and the table by which ckineto's own files keep the identities of processes,
 * tracks and counters (export/perfetto_own.c writes it), so that reading one gives the trace that was written. */
#include "trace/import/perfetto_read.h"

#include "trace/bytes/json_value.h"

enum { BUNDLE_METADATA = 2, METADATA_NAME = 1, METADATA_STRING = 2, METADATA_BOOL = 3, METADATA_INT = 4, METADATA_JSON = 5 };
#define OWN_NAME "ckineto"

/* Entries are kept, since whether the file is ckineto's own is known when all were read. */
static void keep_entry(kt_perfetto *p, kineto_string metadata)
{
    pf_entry e = {.name = {"", 0}};
    kt_wire w = kt_wire_of(metadata);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, METADATA_NAME, KT_WIRE_BYTES))
            e.name = f.bytes;
        else if (kt_field_is(&f, METADATA_JSON, KT_WIRE_BYTES)) {
            e.text = f.bytes;
            e.is_json = true;
        } else if (kt_field_is(&f, METADATA_STRING, KT_WIRE_BYTES))
            e.text = f.bytes;
        else if (kt_field_is(&f, METADATA_INT, KT_WIRE_VARINT) || kt_field_is(&f, METADATA_BOOL, KT_WIRE_VARINT)) {
            e.number = f.n;
            e.field = f.id;
        }
    }
    if (kb_string_is(e.name, OWN_NAME) && e.is_json && kb_json_valid(e.text)) {
        p->own = e.text;
        p->is_own = true;
    } else if (e.name.size) {
        p->no_memory |= !kb_vec_push(&p->entries, e);
    }
}

/* Bundles of Chrome may also have events as JSON, which are counted and not read. */
void pf_read_metadata(kt_perfetto *p, kineto_string bundle)
{
    kt_wire w = kt_wire_of(bundle);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, BUNDLE_METADATA, KT_WIRE_BYTES))
            keep_entry(p, f.bytes);
        else
            pf_count_unread(p, &p->unread_chrome, f.id);
    }
}

/* ---- the header ------------------------------------------------------------------------------- */

/* Entries that ckineto's writer derives for viewers have such names. */
static bool begins_with_one_of(kineto_string name, const char *const *begins, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_starts_with(name, begins[i]))
            return true;
    return false;
}

/* A text, a number or a truth value becomes JSON; JSON stays as it is. */
static void put_header_entry(kt_perfetto *p, const pf_entry *e)
{
    char number[24];
    kineto_string text = e->text;
    if (e->is_json) {
        kt_metadata(p->m.b, e->name, text);
        return;
    }
    kt_json_text_begin(&p->json);
    if (e->field) {
        kb_snprintf(number, sizeof number, e->field == METADATA_BOOL ? (e->number ? "true" : "false") : "%lld",
                    (long long)e->number);
        kt_json_text_put(&p->json, kb_string(number));
    } else {
        kt_json_text_string(&p->json, text);
    }
    if (!p->json.is_too_long)
        kt_metadata(p->m.b, e->name, kt_json_text_of(&p->json));
}

/* Lists of properties are in the order of the processes that have some. */
static void put_properties(kt_perfetto *p, kineto_string properties)
{
    if (p->own_properties >= p->own_described.count)
        return;
    kineto_process process = {.rank = -1, .properties_json = properties};
    kt_process_set(p->m.b, p->own_described.data[p->own_properties++], &process);
}

/* Of ckineto's own files only what was the header; the rest is in the table. */
static void put_header(kt_perfetto *p)
{
    static const char *const derived[] = {"ledger: ", "written: "};
    for (size_t i = 0; i < p->entries.count; i++) {
        const pf_entry *e = &p->entries.data[i];
        bool is_properties = kb_string_starts_with(e->name, "device ") && kb_string_ends_with(e->name, " properties");
        if (p->is_own && is_properties && e->is_json)
            put_properties(p, e->text);
        else if (!p->is_own || (!begins_with_one_of(e->name, derived, KB_COUNT(derived)) &&
                                !(kb_string_is(e->name, "trace name") && !e->is_json)))
            put_header_entry(p, e);
    }
}

/* ---- the table -------------------------------------------------------------------------------- */

/* A whole number of the table, or the default. */
static int64_t number_of(kineto_string object, const char *key, int64_t otherwise)
{
    int64_t n;
    return kt_value_whole(kt_member_of(object, key), &n) ? n : otherwise;
}

/* A text of the table, without escapes; it stays valid as a string of the trace. */
static kineto_string text_of(kt_perfetto *p, kineto_string object, const char *key)
{
    kineto_string raw = kt_member_of(object, key);
    char *room = raw.size ? malloc(raw.size) : NULL;
    kineto_string text = room ? kt_value_text(raw, room) : (kineto_string){"", 0};
    text = kineto_trace_string(p->m.b->trace, kt_string(p->m.b, text));
    free(room);
    return text;
}

/* A row that has a text instead of a number keeps the number that the text tells beside it. */
static void read_own_process(kt_perfetto *p, kineto_string item)
{
    kineto_string name_of_row = text_of(p, item, "text");
    bool is_device = kb_string_is(kt_member_of(item, "device"), "true");
    kineto_process process = {.name = text_of(p, item, "name"), .label = text_of(p, item, "label"),
                              .host = text_of(p, item, "host"), .rank = (int32_t)number_of(item, "rank", -1),
                              .ppid = number_of(item, "ppid", 0), .sort_index = number_of(item, "sort", 0)};
    uint32_t index = kt_member_of(item, "text").size
                         ? kt_process_text(p->m.b, name_of_row)
                         : kt_process(p->m.b, is_device, number_of(item, "pid", 0), (uint64_t)number_of(item, "exec", 0));
    kt_process_set(p->m.b, index, &process);
    kt_process_row *row = index < p->m.b->trace->processes.count ? &p->m.b->trace->processes.data[index] : NULL;
    if (row && kt_member_of(item, "text").size) {
        row->is_device = is_device;
        row->number = number_of(item, "pid", -1);
    }
    if (row)
        row->place = (uint32_t)number_of(item, "place", 0);
    p->no_memory |= !kb_vec_push(&p->own_processes, index);
    if (kb_string_is(kt_member_of(item, "properties"), "true"))
        p->no_memory |= !kb_vec_push(&p->own_described, index);
}

/* Its uuid is placed at once, so that events find it, whatever describes the track besides. */
static void read_own_track(kt_perfetto *p, kineto_string item)
{
    int64_t process = number_of(item, "process", -1), type = number_of(item, "type", KINETO_TRACK_OTHER);
    uint64_t uuid = (uint64_t)number_of(item, "uuid", 0);
    if (process < 0 || (uint64_t)process >= p->own_processes.count || type < 0 || type > KINETO_TRACK_OTHER)
        return;
    uint32_t row = p->own_processes.data[process], index = pf_track_find(p, uuid);
    uint32_t track = kt_member_of(item, "text").size
                         ? kt_track_text(p->m.b, row, text_of(p, item, "text"))
                         : kt_track(p->m.b, row, (kineto_track_type)type, number_of(item, "id", 0));
    kt_track_set(p->m.b, track, text_of(p, item, "name"), number_of(item, "sort", 0));
    if (kb_string_is(kt_member_of(item, "other_tid"), "true") && track < p->m.b->trace->tracks.count)
        p->m.b->trace->tracks.data[track].has_other_tid = true;
    p->no_memory |= index == PF_NONE || !kb_vec_push(&p->own_tracks, track);
    if (index != PF_NONE) {
        p->tracks.data[index].is_placed = true;
        p->tracks.data[index].track = track;
    }
}

/* Samples of this uuid are a key of a row with this name. */
static void read_own_series(kt_perfetto *p, kineto_string item)
{
    int64_t track = number_of(item, "track", -1);
    uint32_t index = pf_track_find(p, (uint64_t)number_of(item, "uuid", 0));
    if (index == PF_NONE || track < 0 || (uint64_t)track >= p->own_tracks.count)
        return;
    kineto_string category = text_of(p, item, "category");
    pf_series s = {.track = p->own_tracks.data[track],
                   .name = kt_string(p->m.b, text_of(p, item, "name")),
                   .key = kt_string(p->m.b, text_of(p, item, "key")),
                   .kind = (uint32_t)number_of(item, "kind", KINETO_KIND_COUNTER)};
    bool is_usual = kb_string_is(category, kineto_kind_name(s.kind));
    s.category = is_usual ? 0 : category.size ? kt_string(p->m.b, category) : KT_NO_CATEGORY;
    p->no_memory |= !kb_vec_push(&p->series, s);
    p->tracks.data[index].is_placed = true;
    p->tracks.data[index].track = s.track;
    p->tracks.data[index].series = (uint32_t)p->series.count;
}

/* Kinds of plug-ins, before any event: they decide how rows are classified. */
static void read_own_kind(kt_perfetto *p, kineto_string item)
{
    int64_t kind = number_of(item, "kind", -1);
    if (kind >= 0 && kind < KINETO_KIND_COUNT)
        kt_own_kind(p->m.b, text_of(p, item, "category"), (uint32_t)kind);
}

/* A line of the ledger of the trace that was written. */
static void read_own_line(kt_perfetto *p, kineto_string item)
{
    int64_t count = number_of(item, "count", 0);
    kt_ledger_add(p->m.b, text_of(p, item, "source"), text_of(p, item, "reason"), (uint64_t)KB_MAX(count, 0),
                  kb_string_is(kt_member_of(item, "loss"), "true"), text_of(p, item, "detail"));
}

/* Readings of clocks of the recording, which other tools' recordings are aligned by. */
static void read_own_snapshot(kt_perfetto *p, kineto_string item)
{
    kb_clock_snapshot s = {.ticks = (uint64_t)number_of(item, "ticks", 0),
                           .width_ticks = (uint64_t)number_of(item, "width_ticks", 0),
                           .monotonic_ns = number_of(item, "monotonic_ns", 0),
                           .monotonic_raw_ns = number_of(item, "monotonic_raw_ns", 0),
                           .realtime_ns = number_of(item, "realtime_ns", 0),
                           .boottime_ns = number_of(item, "boottime_ns", 0)};
    kt_snapshot(p->m.b, &s);
}

/* Stops early only where memory is out. A list that is not there has no items. */
static void for_each_item(kt_perfetto *p, const char *list, void (*read)(kt_perfetto *p, kineto_string item))
{
    kt_items items = kt_items_of(kt_member_of(p->own, list));
    kineto_string item;
    while (kt_items_next(&items, &item) && !p->no_memory)
        read(p, item);
}

/* A window that ends before it begins is none. */
static void read_own_window(kt_perfetto *p)
{
    kineto_string window = kt_member_of(p->own, "window");
    int64_t start, end;
    if (kt_value_whole(kt_item_at(window, 0), &start) && kt_value_whole(kt_item_at(window, 1), &end) && start <= end)
        kt_window(p->m.b, start, end);
}

/* Between the passes. Files are not trusted: every index is checked where it is used. */
void pf_read_own(kt_perfetto *p)
{
    if (p->is_own) {
        for_each_item(p, "processes", read_own_process);
        for_each_item(p, "tracks", read_own_track);
        for_each_item(p, "kinds", read_own_kind);
        for_each_item(p, "series", read_own_series);
        for_each_item(p, "ledger", read_own_line);
        for_each_item(p, "snapshots", read_own_snapshot);
        read_own_window(p);
        p->m.b->trace->was_read = kb_string_is(kt_member_of(p->own, "read"), "true");
        p->m.b->trace->file_base_ns = number_of(p->own, "base", 0);
    }
    put_header(p);
}
