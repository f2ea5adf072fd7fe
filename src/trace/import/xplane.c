/* A profile of XLA (JAX, TensorFlow, PyTorch/XLA) as a trace: .xplane.pb, a message XSpace. Its planes are hosts and
 * devices, their lines threads and streams. The lines of a device that repeat others (steps, modules, name scopes) and
 * kinds of its work are recognised as in XLA's JSON (model/devices.c).
 *
 * Times have picoseconds. Begin and end are each rounded down to a nanosecond: ranges that touch or nest still do, and a
 * length may differ by one nanosecond.
 *
 * Events refer to types, types and events to stats, by numbers of their plane. Tables are read before lines, wherever they
 * are in the file. What is damaged is left out and counted; memory is that of the rows and tables. */
#include "trace/import/activities.h"
#include "trace/import/wire.h"

/* Fields of messages: the space, its planes, their lines, events, stats, and entries of the tables of a plane. Values of
 * metadata of types and of stats have the name in the same field. */
enum {
    SPACE_PLANE = 1, SPACE_ERROR = 2, SPACE_WARNING = 3, SPACE_HOST = 4,
    PLANE_ID = 1, PLANE_NAME = 2, PLANE_LINE = 3, PLANE_EVENTS = 4, PLANE_STATS = 5, PLANE_STAT = 6,
    LINE_ID = 1, LINE_NAME = 2, LINE_TIME = 3, LINE_EVENT = 4, LINE_DISPLAY_NAME = 11,
    EVENT_METADATA = 1, EVENT_OFFSET = 2, EVENT_DURATION = 3, EVENT_STAT = 4, EVENT_OCCURRENCES = 5,
    STAT_METADATA = 1, STAT_DOUBLE = 2, STAT_UINT = 3, STAT_INT = 4, STAT_STRING = 5, STAT_BYTES = 6, STAT_REFERENCE = 7,
    STAT_COMPRESSED = 8,
    ENTRY_KEY = 1, ENTRY_VALUE = 2, METADATA_NAME = 2, METADATA_BYTES = 3, METADATA_STAT = 5, METADATA_CHILD = 6
};

/* What all events of a type have in common. */
typedef struct x_type {
    uint32_t name;
    uint32_t set; /* of arguments; 0: none */
    uint64_t correlation_id;
} x_type;

/* An event at one end of a link: a producer, or a consumer of what it made. */
typedef struct x_end {
    uint64_t key;
    kineto_row row;
    bool is_consumer;
} x_end;

/* The plane that is read, with its tables. */
typedef struct x_plane {
    kineto_string bytes, name;
    bool is_device;
    uint32_t process;
    kb_map type_of_id, stat_of_id; /* → index in types; → string id of the name */
    KB_VEC(x_type) types;
} x_plane;

/* The whole profile. */
typedef struct x_space {
    kt_import m;
    x_plane plane;
    kineto_string host;
    int64_t host_pid, start_ns; /* start_ns: Unix time at which times of 0 are; 0: unknown */
    uint32_t next_track;
    KB_VEC(x_end) ends;
    uint32_t correlation_key;
    bool no_memory;
    uint64_t bytes_values, aggregated, unknown_types, bad_times, bad_messages, metadata_bytes, children, lone_links;
} x_space;

/* ---- recognising ------------------------------------------------------------------------------ */

/* A plane has a name, and no field that it cannot have. */
static bool is_plane_name(kineto_string name)
{
    for (size_t i = 0; i < name.size; i++)
        if ((unsigned char)name.data[i] < ' ' || name.data[i] == 0x7f)
            return false;
    return name.size > 0 && name.size < 512 && kb_utf8_valid_prefix(name.data, name.size) == name.size;
}

/* The first plane may be longer than the head, and is then checked as far as it is there. */
bool kt_is_xplane(kineto_string head)
{
    kt_wire w = kt_wire_of(head);
    kt_field f;
    uint64_t tag, size;
    bool has_name = false;
    if (!head.size || head.data[0] != (SPACE_PLANE << 3 | KT_WIRE_BYTES))
        return false;
    (void)kt_wire_varint(&w, &tag);
    if (!kt_wire_varint(&w, &size) || !size)
        return false;
    bool is_cut = size > (uint64_t)(w.end - w.at);
    kt_wire plane = {w.at, is_cut ? w.end : w.at + size, false};
    while (kt_wire_next(&plane, &f)) {
        bool is_id = f.id == PLANE_ID && f.wire == KT_WIRE_VARINT;
        bool is_other = f.id > PLANE_ID && f.id <= PLANE_STAT && f.wire == KT_WIRE_BYTES;
        if (!is_id && !is_other)
            return false;
        if (f.id == PLANE_NAME && !(has_name = is_plane_name(f.bytes)))
            return false;
    }
    return has_name && (is_cut || !plane.is_bad);
}

/* ---- arguments -------------------------------------------------------------------------------- */

/* A stat: its name, and the field with its value. */
typedef struct x_stat {
    uint32_t name; /* string id; 0: none */
    kt_field value;
    bool has_value;
} x_stat;

/* The value is kept as its field: its number tells the type. */
static x_stat read_stat(x_space *x, kineto_string bytes)
{
    x_stat s = {0};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, STAT_METADATA, KT_WIRE_VARINT)) {
            const uint64_t *at = kb_map_find(&x->plane.stat_of_id, f.n);
            s.name = at ? (uint32_t)*at : 0;
        } else if (f.id >= STAT_DOUBLE && f.id <= STAT_COMPRESSED) {
            s.value = f;
            s.has_value = true;
        }
    }
    x->bad_messages += w.is_bad;
    return s;
}

/* One argument of the next row, or of a type. Bytes are serialized messages of XLA, and are counted. */
static void stage_stat(x_space *x, const x_stat *s)
{
    kt_builder *b = x->m.b;
    const kt_field *f = &s->value;
    const uint64_t *text;
    if (!s->name || !s->has_value)
        return;
    switch (f->id << 3 | f->wire) {
    case STAT_DOUBLE << 3 | KT_WIRE_FIXED64: kt_args_put_double(b, s->name, kt_field_double(f)); return;
    case STAT_UINT << 3 | KT_WIRE_VARINT: kt_args_put_number(b, s->name, f->n); return;
    case STAT_INT << 3 | KT_WIRE_VARINT:
        f->n >> 63 ? kt_args_put_int(b, s->name, (int64_t)f->n) : kt_args_put_number(b, s->name, f->n);
        return;
    case STAT_STRING << 3 | KT_WIRE_BYTES: kt_args_put_string(b, s->name, f->bytes); return;
    case STAT_REFERENCE << 3 | KT_WIRE_VARINT:
        text = kb_map_find(&x->plane.stat_of_id, f->n);
        kt_args_put_shared(b, s->name, KINETO_ARG_STRING, text ? (uint32_t)*text : 0);
        return;
    default: x->bytes_values++;
    }
}

/* ---- tables of a plane ------------------------------------------------------------------------ */

/* An entry of a map: its key and its value. */
static kineto_string read_entry(kineto_string entry, uint64_t *key)
{
    kt_wire w = kt_wire_of(entry);
    kt_field f;
    kineto_string value = {"", 0};
    *key = 0;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, ENTRY_KEY, KT_WIRE_VARINT))
            *key = f.n;
        else if (kt_field_is(&f, ENTRY_VALUE, KT_WIRE_BYTES))
            value = f.bytes;
    }
    return value;
}

/* Names of stats, and texts that stats refer to, are in one table. */
static void read_stat_metadata(x_space *x, kineto_string entry)
{
    uint64_t key;
    kt_wire w = kt_wire_of(read_entry(entry, &key));
    kt_field f;
    uint32_t name = 0;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, METADATA_NAME, KT_WIRE_BYTES))
            name = kt_string(x->m.b, f.bytes);
    x->no_memory |= !kb_map_insert(&x->plane.stat_of_id, key, name, NULL);
}

/* The stats of a type become a set, which all its events share. */
static void read_event_metadata(x_space *x, kineto_string entry)
{
    x_type type = {0};
    uint64_t key;
    kt_wire w = kt_wire_of(read_entry(entry, &key));
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, METADATA_NAME, KT_WIRE_BYTES))
            type.name = kt_string(x->m.b, f.bytes);
        else if (kt_field_is(&f, METADATA_STAT, KT_WIRE_BYTES)) {
            x_stat s = read_stat(x, f.bytes);
            stage_stat(x, &s);
        } else if (f.id == METADATA_BYTES)
            x->metadata_bytes++;
        else if (f.id == METADATA_CHILD)
            x->children++;
    }
    type.set = kt_args_make_set(x->m.b);
    x->no_memory |= !kb_map_insert(&x->plane.type_of_id, key, x->plane.types.count, NULL) ||
                    !kb_vec_push(&x->plane.types, type);
}

/* Tables follow the lines in the file, and are read first: names of stats before types, which refer to them. */
static void read_plane_tables(x_space *x)
{
    kt_wire w = kt_wire_of(x->plane.bytes);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PLANE_STATS, KT_WIRE_BYTES))
            read_stat_metadata(x, f.bytes);
    w = kt_wire_of(x->plane.bytes);
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PLANE_EVENTS, KT_WIRE_BYTES))
            read_event_metadata(x, f.bytes);
        else if (kt_field_is(&f, PLANE_NAME, KT_WIRE_BYTES))
            x->plane.name = f.bytes;
    x->bad_messages += w.is_bad;
}

/* Numbers of one plane mean nothing in the next. */
static void clear_plane(x_space *x)
{
    kb_map_free(&x->plane.type_of_id);
    kb_map_free(&x->plane.stat_of_id);
    kb_vec_free(&x->plane.types);
    x->plane = (x_plane){.name = {"", 0}};
}

/* ---- the whole space -------------------------------------------------------------------------- */

/* Facts of a plane that all others need, and those for the header. */
static void take_plane_stat(x_space *x, const x_stat *s)
{
    kineto_string name = kineto_trace_string(x->m.b->trace, s->name);
    bool is_number = s->value.wire == KT_WIRE_VARINT && s->value.id != STAT_REFERENCE;
    if (!s->has_value)
        return;
    if (is_number && kb_string_is(name, "profile_start_time") && s->value.n <= INT64_MAX)
        x->start_ns = (int64_t)s->value.n;
    else if (is_number && kb_string_is(name, "process_id") && s->value.n && s->value.n <= INT32_MAX)
        x->host_pid = (int64_t)s->value.n;
    else if (s->value.id == STAT_STRING && kb_string_ends_with(name, "_version"))
        kt_import_header(&x->m, name.data, s->value.bytes);
}

/* The time at which the profile began is in a plane of its own, at the end of the file. */
static void read_plane_stats(x_space *x, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    x->plane.bytes = bytes;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PLANE_STATS, KT_WIRE_BYTES))
            read_stat_metadata(x, f.bytes);
    w = kt_wire_of(bytes);
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PLANE_STAT, KT_WIRE_BYTES)) {
            x_stat s = read_stat(x, f.bytes);
            take_plane_stat(x, &s);
        }
    clear_plane(x);
}

/* A pass over all planes without their lines. */
static void read_space_facts(x_space *x, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f) && !x->no_memory) {
        if (f.wire != KT_WIRE_BYTES)
            continue;
        if (f.id == SPACE_PLANE)
            read_plane_stats(x, f.bytes);
        else if (f.id == SPACE_ERROR || f.id == SPACE_WARNING)
            kt_import_note(&x->m, f.id == SPACE_ERROR ? "errors of the profiler" : "warnings of the profiler", 1, f.bytes);
        else if (f.id == SPACE_HOST && !x->host.size)
            x->host = f.bytes;
    }
    if (w.is_bad)
        kt_import_lost(&x->m, "the file ends early", 1, kb_string("it was read up to there"));
}

/* ---- events ----------------------------------------------------------------------------------- */

/* Stats by which an event is linked with others. */
typedef struct x_links {
    uint64_t producer_type, producer, consumer_type, consumer, correlation;
    bool is_producer, is_consumer;
} x_links;

/* Names of links have two or three characters, so that other stats are passed over quickly. */
static void take_link(x_space *x, const x_stat *s, x_links *l)
{
    kineto_string name = kineto_trace_string(x->m.b->trace, s->name);
    if (s->value.wire != KT_WIRE_VARINT || !s->has_value)
        return;
    if (s->name == x->correlation_key) {
        l->correlation = s->value.n;
    } else if (name.size && name.size <= 3 && name.data[0] == '_') {
        l->producer_type = kb_string_is(name, "_pt") ? s->value.n : l->producer_type;
        l->consumer_type = kb_string_is(name, "_ct") ? s->value.n : l->consumer_type;
        if (kb_string_is(name, "_p")) {
            l->producer = s->value.n;
            l->is_producer = true;
        } else if (kb_string_is(name, "_c")) {
            l->consumer = s->value.n;
            l->is_consumer = true;
        }
    }
}

/* Ids are unique within their type only. */
static void add_link(x_space *x, uint64_t type, uint64_t id, kineto_row row, bool is_consumer)
{
    uint64_t key[] = {type, id};
    x_end end = {kb_hash(key, sizeof key), row, is_consumer};
    x->no_memory |= !kb_vec_push(&x->ends, end);
}

/* Calls that launch work, Python functions, and ranges of the program. */
static uint32_t kind_of_host_event(kineto_string name, bool is_correlated)
{
    if (kb_string_starts_with(name, "$"))
        return KINETO_KIND_PYTHON_FUNCTION;
    if (!is_correlated)
        return KINETO_KIND_USER_ANNOTATION;
    if (kb_string_starts_with(name, "cuda") || kb_string_starts_with(name, "hip"))
        return KINETO_KIND_RUNTIME;
    return kb_string_starts_with(name, "cu") ? KINETO_KIND_DRIVER : KINETO_KIND_USER_ANNOTATION;
}

/* The numbers of an event. */
typedef struct x_event {
    uint64_t type, offset_ps, duration_ps;
    bool is_aggregated, has_stats;
} x_event;

/* False: the event is damaged. */
static bool read_event_fields(kineto_string bytes, x_event *e)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    *e = (x_event){0};
    while (kt_wire_next(&w, &f)) {
        if (f.id == EVENT_STAT)
            e->has_stats = true;
        if (f.wire != KT_WIRE_VARINT)
            continue;
        if (f.id == EVENT_METADATA)
            e->type = f.n;
        else if (f.id == EVENT_OFFSET)
            e->offset_ps = f.n;
        else if (f.id == EVENT_DURATION)
            e->duration_ps = f.n;
        else if (f.id == EVENT_OCCURRENCES)
            e->is_aggregated = true;
    }
    return !w.is_bad;
}

/* False: the times do not fit 64 bits. */
static bool place_event(const x_event *e, int64_t base_ns, kt_row *row)
{
    int64_t offset = (int64_t)e->offset_ps, end;
    if (e->duration_ps > INT64_MAX || __builtin_add_overflow(offset, (int64_t)e->duration_ps, &end))
        return false;
    int64_t start_ns = offset / 1000 - (offset % 1000 < 0), end_ns = end / 1000 - (end % 1000 < 0);
    return !__builtin_add_overflow(base_ns, start_ns, &row->start_ns) &&
           !__builtin_add_overflow(base_ns, end_ns, &row->end_ns);
}

/* Links are arguments as well, as in XLA's JSON. */
static void stage_event_stats(x_space *x, kineto_string event, x_links *links)
{
    kt_wire w = kt_wire_of(event);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, EVENT_STAT, KT_WIRE_BYTES)) {
            x_stat s = read_stat(x, f.bytes);
            take_link(x, &s, links);
            stage_stat(x, &s);
        }
}

/* An event of a host without a length is a moment. */
static void classify_event(const x_space *x, const x_event *e, const x_type *type, kt_row *row)
{
    kineto_string name = kineto_trace_string(x->m.b->trace, type->name);
    bool is_moment = !x->plane.is_device && !e->duration_ps;
    row->form = is_moment ? KINETO_FORM_INSTANT : KINETO_FORM_SLICE;
    row->kind = is_moment             ? KINETO_KIND_CPU_INSTANT_EVENT
                : x->plane.is_device ? KINETO_KIND_USER_ANNOTATION
                                     : kind_of_host_event(name, row->correlation_id != 0);
    row->category = row->kind == KINETO_KIND_USER_ANNOTATION || is_moment ? KT_NO_CATEGORY : 0;
}

/* Events of a type that is not described have no name, and are counted. */
static void read_event(x_space *x, uint32_t track, int64_t base_ns, kineto_string bytes)
{
    x_event e;
    x_links links = {0};
    kt_row row = {.track = track};
    if (!read_event_fields(bytes, &e)) {
        x->bad_messages++;
        return;
    }
    const uint64_t *at = kb_map_find(&x->plane.type_of_id, e.type);
    x->aggregated += e.is_aggregated;
    x->unknown_types += !at;
    bool is_placed = place_event(&e, base_ns, &row);
    x->bad_times += !is_placed;
    if (e.is_aggregated || !is_placed)
        return;
    const x_type *type = at ? &x->plane.types.data[*at] : &(x_type){0};
    kt_args_put_set(x->m.b, type->set);
    if (e.has_stats)
        stage_event_stats(x, bytes, &links);
    row.name = type->name;
    row.correlation_id = links.correlation;
    classify_event(x, &e, type, &row);
    kineto_row appended = kt_append(x->m.b, &row);
    if (links.is_producer)
        add_link(x, links.producer_type, links.producer, appended, false);
    if (links.is_consumer)
        add_link(x, links.consumer_type, links.consumer, appended, true);
}

/* ---- lines ------------------------------------------------------------------------------------ */

/* What tells the track of a line. */
typedef struct x_line {
    int64_t id, time_ns;
    kineto_string name;
} x_line;

/* The name for display is preferred, as viewers show it. */
static x_line read_line_fields(kineto_string bytes)
{
    x_line l = {.name = {"", 0}};
    kineto_string name = {"", 0};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, LINE_ID, KT_WIRE_VARINT))
            l.id = (int64_t)f.n;
        else if (kt_field_is(&f, LINE_TIME, KT_WIRE_VARINT))
            l.time_ns = (int64_t)f.n;
        else if (kt_field_is(&f, LINE_NAME, KT_WIRE_BYTES))
            name = f.bytes;
        else if (kt_field_is(&f, LINE_DISPLAY_NAME, KT_WIRE_BYTES))
            l.name = f.bytes;
    }
    l.name = l.name.size ? l.name : name;
    return l;
}

/* Ids that are no numbers of threads (hashes) are replaced by numbers of the trace's own. */
static uint32_t find_line_track(x_space *x, const x_line *l)
{
    enum { FIRST_OWN = 1000000000 };
    bool created = true;
    uint64_t key[] = {x->plane.process, (uint64_t)l->id};
    int64_t id = l->id;
    if (id < 0 || id > INT32_MAX) {
        uint64_t *at = kb_map_insert(&x->m.scopes, kb_hash(key, sizeof key), x->next_track, &created);
        x->next_track += at && created;
        id = FIRST_OWN + (at ? (int64_t)*at : 0);
    }
    uint32_t track = kt_track(x->m.b, x->plane.process, x->plane.is_device ? KINETO_TRACK_STREAM : KINETO_TRACK_THREAD, id);
    kt_track_set(x->m.b, track, l->name, 0);
    return track;
}

/* Times of a line are since 1970, or in newer files since the start of the profile. */
static void read_line(x_space *x, kineto_string bytes)
{
    x_line l = read_line_fields(bytes);
    int64_t base_ns = l.time_ns;
    if (x->start_ns && base_ns < x->start_ns && __builtin_add_overflow(base_ns, x->start_ns, &base_ns))
        base_ns = l.time_ns;
    uint32_t track = find_line_track(x, &l);
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f) && !x->no_memory)
        if (kt_field_is(&f, LINE_EVENT, KT_WIRE_BYTES))
            read_event(x, track, base_ns, f.bytes);
    x->bad_messages += w.is_bad;
}

/* All planes of the host are one process. */
static void make_process(x_space *x)
{
    int64_t number = -1;
    kineto_process p = {.rank = -1, .host = x->host};
    x->plane.is_device = kt_is_device_name(x->plane.name, &number);
    p.name = x->plane.name;
    x->plane.process = kt_process(x->m.b, x->plane.is_device, x->plane.is_device ? KB_MAX(number, 0) : x->host_pid, 0);
    bool is_named = kineto_trace_string(x->m.b->trace, x->m.b->trace->processes.data[x->plane.process].name).size > 0;
    if (is_named && !kb_string_is(x->plane.name, "/host:CPU") && !x->plane.is_device)
        p.name = (kineto_string){"", 0};
    kt_process_set(x->m.b, x->plane.process, &p);
}

/* A plane without lines, such as one of metadata, makes no process. */
static void read_plane(x_space *x, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    bool has_lines = false;
    x->plane.bytes = bytes;
    read_plane_tables(x);
    while (kt_wire_next(&w, &f) && !x->no_memory) {
        if (!kt_field_is(&f, PLANE_LINE, KT_WIRE_BYTES))
            continue;
        if (!has_lines)
            make_process(x);
        has_lines = true;
        read_line(x, f.bytes);
    }
    clear_plane(x);
}

/* ---- links ------------------------------------------------------------------------------------ */

/* Producers come before consumers of their key. */
static int compare_ends(const void *left, const void *right)
{
    const x_end *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return a->is_consumer != b->is_consumer ? (a->is_consumer ? 1 : -1) : KB_COMPARE(a->row, b->row);
}

/* From the first producer of a key to each of its consumers. */
static void link_events(x_space *x)
{
    const x_end *producer = NULL;
    uint64_t number = 0;
    if (x->ends.count)
        qsort(x->ends.data, x->ends.count, sizeof *x->ends.data, compare_ends);
    for (size_t i = 0; i < x->ends.count; i++) {
        const x_end *e = &x->ends.data[i];
        if (!producer || producer->key != e->key)
            producer = e->is_consumer ? NULL : e;
        else if (e->is_consumer && e->row != producer->row) {
            kt_flow(x->m.b, KINETO_FLOW_USER, ++number, producer->row, true);
            kt_flow(x->m.b, KINETO_FLOW_USER, number, e->row, false);
        }
        x->lone_links += e->is_consumer && !producer;
    }
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Lost are events; values that were not kept of an event are notes. */
static void fill_ledger(x_space *x)
{
    kineto_string none = {"", 0};
    kt_import_lost(&x->m, "aggregated events, which have no time", x->aggregated, none);
    kt_import_lost(&x->m, "events whose times do not fit", x->bad_times, none);
    kt_import_lost(&x->m, "messages that cannot be read", x->bad_messages, none);
    kt_import_note(&x->m, "events of a type that the file does not describe: without a name", x->unknown_types, none);
    kt_import_note(&x->m, "values of bytes not read", x->bytes_values, none);
    kt_import_note(&x->m, "serialized metadata of types not read", x->metadata_bytes, none);
    kt_import_note(&x->m, "lists of children of types not read", x->children, none);
    kt_import_note(&x->m, "consumers without a producer in the file", x->lone_links, none);
    if (!x->start_ns && x->m.b->trace->count && x->m.b->trace->blocks.data[0]->min_start_ns < KB_DAY_NS * 365)
        kt_import_note(&x->m, "no time of day in the file: times count from the start of the profile", 1, none);
}

/* In the order of the file, which is the order of the processes in the trace. */
static void read_planes(x_space *x, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f) && !x->no_memory)
        if (kt_field_is(&f, SPACE_PLANE, KT_WIRE_BYTES))
            read_plane(x, f.bytes);
}

/* Two passes: facts about the whole profile, then the planes one after the other. */
kineto_status kt_import_xplane(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    x_space *x = calloc(1, sizeof *x);
    kineto_status status = x ? kt_import_begin(&x->m, source, "xplane", err) : kb_fail_memory(err, "profile of XLA");
    if (!status) {
        x->correlation_key = kt_string(x->m.b, kb_string("correlation_id"));
        read_space_facts(x, source->bytes);
        read_planes(x, source->bytes);
        fill_ledger(x);
        link_events(x);
        kt_set_device_work(x->m.b);
        status = x->no_memory ? kb_fail_memory(err, "profile of XLA") : kt_import_finish(&x->m, out, err);
    }
    if (x) {
        clear_plane(x);
        kb_vec_free(&x->ends);
        kt_import_free(&x->m);
    }
    free(x);
    return status;
}
