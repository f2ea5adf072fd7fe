/* Track events of a Perfetto trace as rows: slices, instants, samples of counters, flows; and the events of older
 * programs of Chrome, which have a phase as in JSON. Begins and ends are joined at the end, in the order of time, as
 * packets of different sequences are in no order. */
#include "trace/import/perfetto_read.h"

/* A track event, as far as it is not read at once. */
typedef struct pf_event {
    uint32_t type, name, category, first_category;
    bool has_name, has_track, has_value, is_real;
    uint64_t track;
    int64_t integer;
    double real;
    kineto_string legacy;
    uint32_t annotations, flows;
    uint32_t kind; /* + 1, as ckineto states it; 0: not stated */
} pf_event;

/* The members that events had in JSON. */
typedef struct pf_legacy {
    uint32_t phase, flow_direction;
    int64_t duration_us;
    uint64_t id, bind_id;
    bool has_id, has_duration;
} pf_legacy;

/* ---- kinds ------------------------------------------------------------------------------------ */

/* Categories of other tools' device work, where Kineto has none. */
static const struct {
    const char *category;
    uint32_t kind;
} foreign_kinds[] = {{"kernel_dispatch", KINETO_KIND_CONCURRENT_KERNEL}, {"memory_copy", KINETO_KIND_GPU_MEMCPY},
                     {"hip_api", KINETO_KIND_RUNTIME},                   {"hip_runtime_api", KINETO_KIND_RUNTIME},
                     {"hip_compiler_api", KINETO_KIND_RUNTIME},          {"hsa_api", KINETO_KIND_DRIVER}};

/* Kineto's categories first, in any vendor's spelling. */
uint32_t pf_kind_of_category(kineto_string category, uint32_t otherwise)
{
    int kind = kb_kind_parse(category);
    for (size_t i = 0; kind < 0 && i < KB_COUNT(foreign_kinds); i++)
        if (kb_string_is(category, foreign_kinds[i].category))
            kind = (int)foreign_kinds[i].kind;
    return kind < 0 ? otherwise : (uint32_t)kind;
}

/* Blocked states with arguments are slices in ckineto's files, and switches as well. */
static void note_own_state(kt_perfetto *p, const kt_row *row)
{
    uint64_t key[] = {row->track, (uint64_t)row->start_ns};
    p->no_memory |= !kb_map_insert(&p->own_states, kb_hash(key, sizeof key), 1, NULL);
}

/* Kind and category, as the reader of JSON determines them. Later the rows of devices without a category of Kineto may
 * get another kind (kt_set_device_work). */
static void classify_row(kt_perfetto *p, const pf_event *e, kt_row *row)
{
    bool is_instant = row->form == KINETO_FORM_INSTANT;
    kineto_string category = kineto_trace_string(p->m.b->trace, e->category);
    int own = kt_own_kind_find(p->m.b, category);
    uint32_t otherwise = is_instant ? KINETO_KIND_CPU_INSTANT_EVENT : KINETO_KIND_USER_ANNOTATION;
    row->kind = own >= 0 ? (uint32_t)own : pf_kind_of_category(category, otherwise);
    if (is_instant && kb_string_is(kineto_trace_string(p->m.b->trace, e->name), "[memory]"))
        row->kind = KINETO_KIND_MEMORY;
    if (p->is_own && e->kind)
        row->kind = e->kind - 1;
    if (p->is_own && row->kind == KINETO_KIND_THREAD_STATE)
        note_own_state(p, row);
    bool is_usual = kb_string_is(category, kineto_kind_name(row->kind));
    row->category = is_usual ? 0 : e->category ? e->category : KT_NO_CATEGORY;
}

/* ---- fields ----------------------------------------------------------------------------------- */

/* Several categories are joined by commas, as viewers show them. */
static void add_category(kt_perfetto *p, pf_event *e, uint32_t id)
{
    kineto_string first = kineto_trace_string(p->m.b->trace, e->category), next = kineto_trace_string(p->m.b->trace, id);
    if (!first.size || first.size + next.size > 4096) {
        e->category = first.size ? e->category : id;
        return;
    }
    char joined[4100];
    int size = kb_snprintf(joined, sizeof joined, "%.*s,%.*s", (int)first.size, first.data, (int)next.size, next.data);
    e->category = kt_string(p->m.b, (kineto_string){joined, (size_t)size});
}

/* A number that was not interned is counted: the recording lacks the packet that had the text. */
static void take_interned(kt_perfetto *p, const pf_sequence *s, pf_event *e, const kt_field *f)
{
    uint32_t id;
    bool is_name = f->id == PF_EVENT_NAME_IID;
    bool is_known = pf_text(s, is_name ? PF_TEXT_NAME : PF_TEXT_CATEGORY, f->n, &id);
    p->lost_state += !is_known;
    if (is_name) {
        e->name = id;
        e->has_name = is_known;
    } else if (is_known) {
        add_category(p, e, id);
    }
}

/* Fields of numbers. False: it is none that is read. */
static bool take_number(kt_perfetto *p, const pf_sequence *s, pf_event *e, const kt_field *f)
{
    switch (f->id) {
    case PF_EVENT_TYPE: e->type = (uint32_t)f->n; return true;
    case PF_EVENT_NAME_IID: case PF_EVENT_CATEGORY_IID: take_interned(p, s, e, f); return true;
    case PF_EVENT_TRACK:
        e->track = f->n;
        e->has_track = true;
        return true;
    case PF_EVENT_INTEGER:
        e->integer = (int64_t)f->n;
        e->has_value = true;
        return true;
    case PF_EVENT_FLOW_OLD: case PF_EVENT_FLOW_END_OLD: e->flows++; return true;
    case PF_EVENT_KIND: e->kind = f->n < KINETO_KIND_COUNT ? (uint32_t)f->n + 1 : 0; return true;
    case PF_EVENT_EXTRA_VALUES: case PF_EVENT_EXTRA_TRACKS: return true;
    default: return false;
    }
}

/* Fields of eight bytes: values of counters, and flows of today's files. */
static bool take_fixed(pf_event *e, const kt_field *f)
{
    if (f->id == PF_EVENT_DOUBLE) {
        e->real = kt_field_double(f);
        e->has_value = e->is_real = true;
    } else if (f->id == PF_EVENT_FLOW || f->id == PF_EVENT_FLOW_END) {
        e->flows++;
    } else {
        return false;
    }
    return true;
}

/* Texts in place, and messages that are read elsewhere. */
static bool take_bytes(kt_perfetto *p, pf_event *e, const kt_field *f)
{
    switch (f->id) {
    case PF_EVENT_ANNOTATION: e->annotations++; return true;
    case PF_EVENT_LEGACY: e->legacy = f->bytes; return true;
    case PF_EVENT_CATEGORY: add_category(p, e, kt_string(p->m.b, f->bytes)); return true;
    case PF_EVENT_NAME:
        e->name = kt_string(p->m.b, f->bytes);
        e->has_name = true;
        return true;
    case PF_EVENT_FLOW: case PF_EVENT_FLOW_END: case PF_EVENT_FLOW_OLD: case PF_EVENT_FLOW_END_OLD: /* packed */
        e->flows++;
        return true;
    case PF_EVENT_EXTRA_VALUES: case PF_EVENT_EXTRA_TRACKS: return true;
    default: return false;
    }
}

/* Fields that are read elsewhere (arguments, flows) are only counted here. */
static bool read_event_fields(kt_perfetto *p, const pf_sequence *s, kineto_string bytes, pf_event *e)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        bool is_read = f.wire == KT_WIRE_VARINT    ? take_number(p, s, e, &f)
                       : f.wire == KT_WIRE_FIXED64 ? take_fixed(e, &f)
                       : f.wire == KT_WIRE_BYTES   ? take_bytes(p, e, &f)
                                                   : false;
        if (KINETO_UNLIKELY(!is_read))
            pf_count_unread(p, &p->unread_event_fields, f.id);
    }
    return !w.is_bad;
}

/* ---- arguments and flows ---------------------------------------------------------------------- */

/* Arguments in the order of the file, which is the order in which they are shown. */
static void stage_annotations(kt_perfetto *p, const pf_sequence *s, kineto_string event, kt_row *row)
{
    kt_wire w = kt_wire_of(event);
    kt_field f;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PF_EVENT_ANNOTATION, KT_WIRE_BYTES))
            pf_put_annotation(p, s, f.bytes, row);
}

/* Flows are joined at the end, since their events may be in different sequences. */
static void add_flow_end(kt_perfetto *p, uint64_t id, bool is_end, const pf_flow_end *at)
{
    pf_flow_end end = *at;
    end.id = id;
    end.is_end = is_end;
    p->no_memory |= !kb_vec_push(&p->flow_ends, end);
}

/* Flow ids of an event: a number each, or a packed list of either width. */
static void read_flows(kt_perfetto *p, kineto_string event, const pf_flow_end *at)
{
    kt_wire w = kt_wire_of(event);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        bool is_end = f.id == PF_EVENT_FLOW_END || f.id == PF_EVENT_FLOW_END_OLD;
        bool is_wide = f.id == PF_EVENT_FLOW || f.id == PF_EVENT_FLOW_END;
        uint64_t id;
        if (!is_end && !is_wide && f.id != PF_EVENT_FLOW_OLD)
            continue;
        if (f.wire != KT_WIRE_BYTES) {
            add_flow_end(p, f.n, is_end, at);
            continue;
        }
        kt_wire list = kt_wire_of(f.bytes);
        while (list.at != list.end && (is_wide ? kt_wire_fixed(&list, 8, &id) : kt_wire_varint(&list, &id)))
            add_flow_end(p, id, is_end, at);
    }
}

/* ---- counters --------------------------------------------------------------------------------- */

/* Appends the row that collected the series of one moment. */
void pf_flush_counter(kt_perfetto *p)
{
    pf_counter_row *c = &p->counter;
    if (!c->is_open)
        return;
    kt_row row = {.start_ns = c->ns, .end_ns = c->ns, .name = c->name, .track = c->track, .kind = c->kind,
                  .category = c->category, .form = KINETO_FORM_COUNTER};
    c->is_open = false;
    (void)kt_append(p->m.b, &row);
}

/* A value of a series, as a whole number where it is one. */
static void stage_sample(kt_perfetto *p, uint32_t key, const pf_event *e)
{
    if (e->is_real)
        kt_args_put_double(p->m.b, key, e->real);
    else
        kt_args_put_int(p->m.b, key, e->integer);
}

/* ckineto writes the series of one row one after the other. */
static void add_own_sample(kt_perfetto *p, const pf_series *s, const pf_event *e, int64_t ns)
{
    pf_counter_row *c = &p->counter;
    if (c->is_open && (c->track != s->track || c->name != s->name || c->ns != ns))
        pf_flush_counter(p);
    if (!c->is_open)
        *c = (pf_counter_row){true, s->track, s->name, s->kind, s->category, ns};
    stage_sample(p, s->key, e);
}

/* The value in units of one; an incremental counter states differences. */
static bool scale_sample(pf_track *t, pf_event *e)
{
    if (e->is_real) {
        e->real *= (double)t->multiplier;
        return true;
    }
    if (__builtin_mul_overflow(e->integer, t->multiplier, &e->integer))
        return false;
    if (!t->is_incremental)
        return true;
    if (__builtin_add_overflow(t->sum, e->integer, &t->sum))
        return false;
    e->integer = t->sum;
    return true;
}

/* Samples of a track that was not described as a counter have the name of their event. */
static void add_sample(kt_perfetto *p, uint32_t index, pf_event *e, int64_t ns)
{
    pf_track *t = &p->tracks.data[index];
    pf_track_place(p, index);
    if (t->series) {
        add_own_sample(p, &p->series.data[t->series - 1], e, ns);
        return;
    }
    if (!t->name_id) {
        t->name_id = e->name ? e->name : kt_string(p->m.b, t->name.size ? t->name : kb_string("counter"));
        t->key_id = p->value_key;
    }
    if (!scale_sample(t, e)) {
        p->bad_counters++;
        return;
    }
    kt_row row = {.start_ns = ns, .end_ns = ns, .name = t->name_id, .track = t->track, .kind = KINETO_KIND_COUNTER,
                  .category = KT_NO_CATEGORY, .form = KINETO_FORM_COUNTER};
    stage_sample(p, t->key_id, e);
    (void)kt_append(p->m.b, &row);
}

/* Values of counters that come with another event: times of its thread, for example. */
static void read_extra_samples(kt_perfetto *p, const pf_packet *packet, kineto_string event)
{
    uint64_t uuids[8], values[8], n;
    uint32_t tracks = 0, count = 0;
    kt_wire w = kt_wire_of(event);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        bool is_value = f.id == PF_EVENT_EXTRA_VALUES;
        uint32_t *to = is_value ? &count : &tracks;
        if (!is_value && f.id != PF_EVENT_EXTRA_TRACKS)
            continue;
        kt_wire list = kt_wire_of(f.bytes);
        if (f.wire == KT_WIRE_VARINT && *to < 8)
            (is_value ? values : uuids)[(*to)++] = f.n;
        while (f.wire == KT_WIRE_BYTES && *to < 8 && kt_wire_item(&list, &n))
            (is_value ? values : uuids)[(*to)++] = n;
    }
    for (uint32_t i = 0; i < count; i++) {
        pf_event e = {.integer = (int64_t)values[i]};
        bool has_track = tracks ? i < tracks : i < packet->sequence->counter_count;
        uint32_t index = has_track ? pf_track_find(p, tracks ? uuids[i] : packet->sequence->counters[i]) : PF_NONE;
        if (index != PF_NONE)
            add_sample(p, index, &e, packet->ns);
        p->bad_counters += index == PF_NONE;
    }
}

/* ---- slices ----------------------------------------------------------------------------------- */

/* In ckineto's files the events of a lane are in the order of time, one lane after the other: ends match at once. */
static void join_own_edge(kt_perfetto *p, pf_edge edge)
{
    const pf_edge *open = p->open_edges.count ? &p->open_edges.data[p->open_edges.count - 1] : NULL;
    if (!edge.is_end) {
        p->no_memory |= !kb_vec_push(&p->open_edges, edge);
        return;
    }
    if (!open || open->slot != edge.slot) {
        p->unmatched_ends++;
        return;
    }
    const kt_block *block = kt_block_of(p->m.b->trace, open->value);
    bool is_open = (block->flags[open->value % KT_BLOCK_ROWS] & KINETO_ACTIVITY_OPEN_END) != 0;
    kt_row_close(p->m.b, open->value, edge.ns, is_open);
    p->open_edges.count--;
}

/* Kept for the end of other writers' files, where packets are in no order. */
static void add_edge(kt_perfetto *p, pf_edge edge)
{
    if (p->is_own)
        join_own_edge(p, edge);
    else
        p->no_memory |= p->edges.count >= PF_NONE || !kb_vec_push(&p->edges, edge);
}

/* A row at the time of the packet; its arguments may set columns, so that they come before. */
static kineto_row append_event(kt_perfetto *p, const pf_packet *packet, const pf_event *e, kineto_string event, kt_row *row)
{
    row->name = e->name;
    row->start_ns = packet->ns;
    row->end_ns = KB_MAX(row->end_ns, packet->ns);
    if (e->annotations)
        stage_annotations(p, packet->sequence, event, row);
    classify_row(p, e, row);
    kineto_row at = kt_append(p->m.b, row);
    if (e->flows && at != KINETO_NO_ROW)
        read_flows(p, event, &(pf_flow_end){.ns = packet->ns, .row = (uint32_t)at});
    return at;
}

/* The row lasts until its end is found; its end is its begin for now. */
static void begin_slice(kt_perfetto *p, const pf_packet *packet, const pf_event *e, kineto_string event, uint32_t slot,
                        kt_row row)
{
    kineto_row at = append_event(p, packet, e, event, &row);
    if (at != KINETO_NO_ROW)
        add_edge(p, (pf_edge){.ns = packet->ns, .slot = slot, .value = (uint32_t)at});
}

/* Arguments of an end are kept as a set, which is joined with those of the slice. */
static void end_slice(kt_perfetto *p, const pf_packet *packet, const pf_event *e, kineto_string event, uint32_t slot)
{
    kt_row unused = {.form = KINETO_FORM_SLICE};
    uint32_t set = 0;
    if (e->annotations) {
        stage_annotations(p, packet->sequence, event, &unused);
        set = kt_args_make_set(p->m.b);
    }
    if (e->flows)
        read_flows(p, event, &(pf_flow_end){.ns = packet->ns, .row = (uint32_t)p->edges.count, .of_edge = 1});
    add_edge(p, (pf_edge){.ns = packet->ns, .slot = slot, .value = set, .is_end = true});
}

/* ---- events of older programs ----------------------------------------------------------------- */

/* Members of an event as JSON had them. Several kinds of ids exist; a file uses one for an event. */
static pf_legacy read_legacy(const pf_sequence *s, kineto_string bytes, pf_event *e)
{
    pf_legacy l = {0};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    uint32_t id;
    while (kt_wire_next(&w, &f)) {
        if (f.wire != KT_WIRE_VARINT)
            continue;
        if (f.id == PF_LEGACY_PHASE)
            l.phase = (uint32_t)f.n;
        else if (f.id == PF_LEGACY_DURATION) {
            l.duration_us = (int64_t)f.n;
            l.has_duration = true;
        } else if (f.id == PF_LEGACY_ID || f.id == PF_LEGACY_LOCAL_ID || f.id == PF_LEGACY_GLOBAL_ID) {
            l.id = f.n;
            l.has_id = true;
        } else if (f.id == PF_LEGACY_BIND_ID)
            l.bind_id = f.n;
        else if (f.id == PF_LEGACY_FLOW_DIRECTION)
            l.flow_direction = (uint32_t)f.n;
        else if (f.id == PF_LEGACY_NAME_IID && !e->has_name && pf_text(s, PF_TEXT_NAME, f.n, &id))
            e->name = id;
    }
    return l;
}

/* What asynchronous ends match: begins of the same id, category and name. Numbers follow those of tracks. */
static uint32_t find_async_slot(kt_perfetto *p, const pf_event *e, const pf_legacy *l)
{
    uint64_t key[] = {l->id, e->category, e->name};
    uint64_t *at = kb_map_insert(&p->async_slots, kb_hash(key, sizeof key), p->async_count, NULL);
    p->no_memory |= !at;
    if (!at)
        return PF_NONE;
    p->async_count += *at == p->async_count;
    return (uint32_t)(*at | UINT32_C(1) << 31);
}

/* Arrows of this form are told apart by a hash from those of the newer one, as both may be in a file. */
static void add_legacy_flow(kt_perfetto *p, const pf_legacy *l, const pf_packet *packet)
{
    enum { INTO = 1, OUT = 2 };
    uint64_t key[] = {l->bind_id, UINT64_C(0x6c656761)};
    if (l->flow_direction && p->m.b->trace->count)
        add_flow_end(p, kb_hash(key, sizeof key), l->flow_direction == INTO,
                     &(pf_flow_end){.ns = packet->ns, .row = (uint32_t)(p->m.b->trace->count - 1)});
}

/* Other phases, such as those of objects and of memory dumps, are counted by letter. */
static void read_legacy_event(kt_perfetto *p, const pf_packet *packet, pf_event *e, kineto_string event, uint32_t index)
{
    pf_legacy l = read_legacy(packet->sequence, e->legacy, e);
    kt_row row = {.track = p->tracks.data[index].track, .form = KINETO_FORM_SLICE};
    int64_t length;
    switch (l.phase) {
    case 'B': begin_slice(p, packet, e, event, index, row); break;
    case 'E': end_slice(p, packet, e, event, index); return;
    case 'X':
        row.flags = l.has_duration ? 0 : KINETO_ACTIVITY_OPEN_END;
        if (l.duration_us < 0 || __builtin_mul_overflow(l.duration_us, KB_MICROSECOND_NS, &length) ||
            __builtin_add_overflow(packet->ns, length, &row.end_ns))
            row.end_ns = packet->ns;
        (void)append_event(p, packet, e, event, &row);
        break;
    case 'b': case 'S':
        row.form = KINETO_FORM_ASYNC;
        row.async_id = l.id;
        begin_slice(p, packet, e, event, find_async_slot(p, e, &l), row);
        break;
    case 'e': case 'F': end_slice(p, packet, e, event, find_async_slot(p, e, &l)); return;
    case 'i': case 'I': case 'n': case 'R':
        row.form = KINETO_FORM_INSTANT;
        (void)append_event(p, packet, e, event, &row);
        break;
    default: pf_count_unread(p, &p->unread_phases, l.phase); return;
    }
    add_legacy_flow(p, &l, packet);
}

/* ---- one event -------------------------------------------------------------------------------- */

/* An event without a type is one of an older program, or of no meaning. */
void pf_read_event(kt_perfetto *p, const pf_packet *packet, kineto_string event)
{
    pf_event e = {0};
    if (!packet->has_time || !read_event_fields(p, packet->sequence, event, &e)) {
        p->bad_events++;
        return;
    }
    uint32_t index = e.has_track ? pf_track_find(p, e.track) : pf_track_of_sequence(p, packet->sequence);
    if (index == PF_NONE)
        return;
    if (p->counter.is_open && e.type != PF_TYPE_COUNTER)
        pf_flush_counter(p);
    if (e.type == PF_TYPE_COUNTER) {
        p->bad_counters += !e.has_value;
        if (e.has_value)
            add_sample(p, index, &e, packet->ns);
        return;
    }
    pf_track_place(p, index);
    kt_row row = {.track = p->tracks.data[index].track, .form = KINETO_FORM_SLICE};
    if (e.type == PF_TYPE_BEGIN)
        begin_slice(p, packet, &e, event, index, row);
    else if (e.type == PF_TYPE_END)
        end_slice(p, packet, &e, event, index);
    else if (e.type == PF_TYPE_INSTANT) {
        row.form = KINETO_FORM_INSTANT;
        (void)append_event(p, packet, &e, event, &row);
    } else if (e.legacy.size)
        read_legacy_event(p, packet, &e, event, index);
    else
        p->bad_events++;
    if (packet->sequence->counter_count && !p->is_own)
        read_extra_samples(p, packet, event);
}
