/* Writes Perfetto's trace format: packets, events of each lane, and the file as a whole. */
#include "export/perfetto.h"

#define FLUSH_BYTES 32768u /* packets go to the sink in pieces of about this size */

/* ---- packets --------------------------------------------------------------------------------- */

size_t ke_pf_begin_packet(ke_perfetto *w)
{
    size_t mark = ke_proto_begin(&w->packets, KE_PF_TRACE_PACKET);
    ke_proto_uint(&w->packets, KE_PF_PACKET_SEQUENCE, w->sequence);
    return mark;
}

void ke_pf_end_packet(ke_perfetto *w, size_t mark)
{
    if (w->interned.count) {
        kineto_string texts = {w->interned.data, w->interned.count};
        ke_proto_bytes(&w->packets, KE_PF_PACKET_INTERNED, texts);
        w->interned.count = 0;
    }
    ke_proto_end(&w->packets, mark);
    if (w->packets.count > FLUSH_BYTES)
        ke_proto_flush(&w->packets, w->sink);
}

/* The time since the previous packet of the sequence, whose clock is incremental. */
static uint64_t advance_clock(ke_perfetto *w, int64_t ns)
{
    int64_t time = ke_pf_time(ns);
    uint64_t step = (uint64_t)time - (uint64_t)w->last_ns;
    w->last_ns = time;
    return step;
}

/* Marks of an open packet and of the event in it. */
typedef struct event_marks {
    size_t packet, event;
} event_marks;

/* Starts a packet with an event at this time; end_event_packet closes both. */
static event_marks begin_event_packet(ke_perfetto *w, int64_t ns, uint32_t type)
{
    event_marks e = {.packet = ke_proto_begin(&w->packets, KE_PF_TRACE_PACKET)};
    ke_proto_uint(&w->packets, KE_PF_PACKET_TIMESTAMP, advance_clock(w, ns));
    ke_proto_uint(&w->packets, KE_PF_PACKET_SEQUENCE, w->sequence);
    ke_proto_uint(&w->packets, KE_PF_PACKET_FLAGS, KE_PF_STATE_NEEDED);
    e.event = ke_proto_begin(&w->packets, KE_PF_PACKET_TRACK_EVENT);
    ke_proto_uint(&w->packets, KE_PF_EVENT_TYPE, type);
    return e;
}

static void end_event_packet(ke_perfetto *w, event_marks e)
{
    ke_proto_end(&w->packets, e.event);
    ke_pf_end_packet(w, e.packet);
    w->all.records++;
}

/* ---- interning ------------------------------------------------------------------------------- */

/* Makes room for an index; new entries are 0. False: out of memory. */
static bool grow_interned_ids(ke_perfetto *w, ke_pf_ids *ids, uint32_t index)
{
    size_t old = ids->given.count, count = (size_t)index + 1;
    if (!kb_vec_reserve(&ids->given, count)) {
        w->out_of_memory = true;
        return false;
    }
    memset(ids->given.data + old, 0, (count - old) * sizeof *ids->given.data);
    ids->given.count = count;
    return true;
}

uint32_t ke_pf_intern_id(ke_perfetto *w, ke_pf_ids *ids, uint32_t index, bool *fresh)
{
    *fresh = false;
    if (KINETO_UNLIKELY(index >= ids->given.count) && !grow_interned_ids(w, ids, index))
        return 0;
    uint64_t *given = &ids->given.data[index];
    if (KINETO_LIKELY(*given >> 32 == w->sequence))
        return (uint32_t)*given;
    *fresh = true;
    *given = (uint64_t)w->sequence << 32 | ++ids->next;
    return (uint32_t)*given;
}

void ke_pf_intern_text(ke_perfetto *w, uint32_t field, uint32_t number, kineto_string text)
{
    size_t mark = ke_proto_begin(&w->interned, field);
    ke_proto_uint(&w->interned, KE_PF_INTERNED_IID, number);
    ke_proto_string(&w->interned, KE_PF_INTERNED_TEXT, text);
    ke_proto_end(&w->interned, mark);
}

/* Name and category as interned numbers; their texts are written at the first use. */
static void put_event_names(ke_perfetto *w, const kt_block *b, uint32_t i)
{
    bool fresh;
    uint32_t name = ke_pf_intern_id(w, &w->names, b->name[i], &fresh);
    if (fresh)
        ke_pf_intern_text(w, KE_PF_INTERNED_NAME, name, kineto_trace_string(w->trace, b->name[i]));
    ke_proto_uint(&w->packets, KE_PF_EVENT_NAME, name);
    uint32_t category = ke_pf_intern_id(w, &w->categories, b->category[i], &fresh);
    if (fresh)
        ke_pf_intern_text(w, KE_PF_INTERNED_CATEGORY, category,
                          kt_category_string(w->trace, b->category[i]));
    ke_proto_uint(&w->packets, KE_PF_EVENT_CATEGORY, category);
}

bool ke_pf_has_usual_kind(ke_perfetto *w, const kt_block *b, uint32_t i)
{
    uint32_t category = b->category[i];
    while (w->category_kinds.count <= category)
        if (!kb_vec_push(&w->category_kinds, 0)) {
            w->out_of_memory = true;
            return true;
        }
    int16_t *known = &w->category_kinds.data[category];
    if (KINETO_UNLIKELY(!*known)) {
        int kind = kb_kind_parse(kt_category_string(w->trace, b->category[i]));
        *known = (int16_t)(kind < 0 ? -1 : kind + 1);
    }
    return *known == b->kind[i] + 1;
}

/* ---- events ---------------------------------------------------------------------------------- */

/* The begin of a slice or an instant, on the fast path if possible. */
static void write_event_packet(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row,
                               uint32_t type)
{
    if (KINETO_LIKELY(ke_pf_put_fast(w, b, i, row, type))) {
        w->all.records++;
        if (w->packets.count > FLUSH_BYTES)
            ke_proto_flush(&w->packets, w->sink);
        return;
    }
    event_marks e = begin_event_packet(w, b->start_ns[i], type);
    put_event_names(w, b, i);
    if (!ke_pf_has_usual_kind(w, b, i))
        ke_proto_uint(&w->packets, KE_PF_EVENT_KIND, b->kind[i]);
    ke_pf_put_args(w, b, i, row);
    if (w->flow_first)
        ke_pf_put_flows(w, row);
    end_event_packet(w, e);
}

/* The end of a slice has only a time. Half of all packets are such ends, so they are written
 * without the helpers. */
static void write_slice_end(ke_perfetto *w, int64_t ns)
{
    if (!ke_proto_reserve(&w->packets, 32))
        return;
    char *packet = w->packets.data + w->packets.count, *out = packet + 2;
    *out++ = (char)(KE_PF_PACKET_TIMESTAMP << 3 | KE_WIRE_VARINT);
    out = ke_proto_put_varint(out, advance_clock(w, ns));
    *out++ = (char)(KE_PF_PACKET_SEQUENCE << 3 | KE_WIRE_VARINT);
    out = ke_proto_put_varint(out, w->sequence);
    *out++ = (char)(KE_PF_PACKET_FLAGS << 3 | KE_WIRE_VARINT);
    *out++ = KE_PF_STATE_NEEDED;
    *out++ = (char)(KE_PF_PACKET_TRACK_EVENT << 3 | KE_WIRE_BYTES);
    *out++ = 2;
    *out++ = (char)(KE_PF_EVENT_TYPE << 3 | KE_WIRE_VARINT);
    *out++ = KE_PF_TYPE_END;
    packet[0] = (char)(KE_PF_TRACE_PACKET << 3 | KE_WIRE_BYTES);
    packet[1] = (char)(out - packet - 2);
    KB_ASSERT(out - packet - 2 < 0x80);
    w->packets.count += (size_t)(out - packet);
    w->all.records++;
}

static void write_counter_sample(ke_perfetto *w, uint64_t uuid, int64_t ns, const kineto_arg *arg)
{
    event_marks e = begin_event_packet(w, ns, KE_PF_TYPE_COUNTER);
    ke_proto_uint(&w->packets, KE_PF_EVENT_TRACK, uuid);
    if (arg->type == KINETO_ARG_DOUBLE)
        ke_proto_double(&w->packets, KE_PF_EVENT_DOUBLE, arg->d);
    else if (arg->type == KINETO_ARG_UINT && arg->u > INT64_MAX)
        ke_proto_double(&w->packets, KE_PF_EVENT_DOUBLE, (double)arg->u);
    else
        ke_proto_int(&w->packets, KE_PF_EVENT_INTEGER, arg->i);
    end_event_packet(w, e);
}

/* Every series is a track of its own. Args that are not numbers become annotations of one
 * instant. */
static void write_counter_row(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row)
{
    kineto_string name = kineto_trace_string(w->trace, b->name[i]);
    bool numbers_only = !b->correlation_id[i] && !b->external_id[i] && !(b->flags[i] & 0xff);
    uint32_t samples = 0;
    w->counter_kind = b->kind[i];
    w->counter_category = b->category[i];
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_args_begin(w->trace, row, &it);
    while (kineto_args_next(&it, &arg)) {
        bool number = arg.type >= KINETO_ARG_INT && arg.type <= KINETO_ARG_BOOL;
        uint64_t uuid = number ? ke_pf_series_track(w, b->track[i], name, arg.key) : 0;
        numbers_only &= number;
        samples += number;
        if (uuid)
            write_counter_sample(w, uuid, b->start_ns[i], &arg);
    }
    if (!numbers_only || !samples) {
        ke_pf_describe_track(w, b->track[i]);
        write_event_packet(w, b, i, row, KE_PF_TYPE_INSTANT);
    }
}

/* ---- lanes ----------------------------------------------------------------------------------- */

/* Writes the ends of slices that have ended by `ns`. */
static void close_slices_until(ke_perfetto *w, int64_t ns)
{
    while (w->open.count && w->open.data[w->open.count - 1] <= ns)
        write_slice_end(w, w->open.data[--w->open.count]);
}

static void write_lane_row(ke_perfetto *w, const kt_block *b, uint32_t i, kineto_row row)
{
    KB_ASSERT(b->start_ns[i] >= w->base_ns || b->start_ns[i] < 0);
    close_slices_until(w, b->start_ns[i]);
    w->clamped += b->start_ns[i] < 0;
    switch (b->form[i]) {
    case KINETO_FORM_COUNTER:
        write_counter_row(w, b, i, row);
        w->all.counters++;
        return;
    case KINETO_FORM_INSTANT:
        write_event_packet(w, b, i, row, KE_PF_TYPE_INSTANT);
        w->all.instants++;
        return;
    case KINETO_FORM_ASYNC:
        w->all.asyncs++;
        break;
    default:
        w->all.slices++;
    }
    write_event_packet(w, b, i, row, KE_PF_TYPE_BEGIN);
    if (!kb_vec_push(&w->open, b->end_ns[i]))
        w->out_of_memory = true;
}

/* `rows` are in the order of (start, longer first), so open slices nest. */
static void write_lane_sequence(ke_perfetto *w, uint64_t uuid, const kineto_row *rows,
                                uint64_t count)
{
    const kt_block *b = NULL;
    uint32_t block = UINT32_MAX;
    ke_pf_begin_sequence(w, uuid);
    for (uint64_t n = 0; n < count && !w->out_of_memory; n++) {
        if (rows[n] / KT_BLOCK_ROWS != block) {
            block = (uint32_t)(rows[n] / KT_BLOCK_ROWS);
            b = kt_block_at(w->trace, block);
        }
        write_lane_row(w, b, (uint32_t)(rows[n] % KT_BLOCK_ROWS), rows[n]);
    }
    close_slices_until(w, INT64_MAX);
    w->all.activities += count;
}

/* Sorts the rows of a track by lane into `sorted`, keeping their order (counting sort). first[lane
 * + 1] becomes the end of a lane. */
static bool sort_track_by_lane(ke_perfetto *w, const kineto_row *rows, const kineto_track *track,
                               uint64_t *first)
{
    w->sorted.count = 0;
    if (!kb_vec_reserve(&w->sorted, track->count))
        return false;
    for (uint64_t n = 0; n < track->count; n++)
        first[KB_MIN(kineto_trace_lane(w->trace, rows[n]), track->lane_count - 1) + 2]++;
    for (uint32_t lane = 0; lane < track->lane_count; lane++)
        first[lane + 2] += first[lane + 1];
    for (uint64_t n = 0; n < track->count; n++) {
        uint32_t lane = KB_MIN(kineto_trace_lane(w->trace, rows[n]), track->lane_count - 1);
        w->sorted.data[first[lane + 1]++] = rows[n];
    }
    return true;
}

static void write_all_lanes(ke_perfetto *w, uint32_t index, const kineto_row *rows)
{
    const ke_pf_track *track = &w->tracks[index];
    uint64_t *first = calloc((size_t)track->view.lane_count + 2, sizeof *first);
    if (!first || !sort_track_by_lane(w, rows, &track->view, first)) {
        w->out_of_memory = true;
        free(first);
        return;
    }
    for (uint32_t lane = 0; lane < track->view.lane_count; lane++) {
        uint64_t uuid = lane ? ke_pf_describe_lane(w, index, lane) : track->uuid;
        write_lane_sequence(w, uuid, w->sorted.data + first[lane], first[lane + 1] - first[lane]);
    }
    free(first);
}

/* States that are the scheduler's events: only those with more args are slices too. */
static void write_states_track(ke_perfetto *w, uint32_t index, const kineto_row *rows)
{
    const ke_pf_track *track = &w->tracks[index];
    w->sorted.count = 0;
    for (uint64_t i = 0; i < track->view.count; i++)
        if (ke_pf_state_is_slice(w, rows[i]) && !kb_vec_push(&w->sorted, rows[i]))
            w->out_of_memory = true;
    uint64_t others = track->view.count - w->sorted.count;
    w->all.slices += others;
    w->all.activities += others;
    if (!w->sorted.count || w->out_of_memory)
        return;
    ke_pf_describe_track(w, index);
    write_lane_sequence(w, track->uuid, w->sorted.data, w->sorted.count);
}

static void write_perfetto_track(ke_perfetto *w, uint32_t index)
{
    const ke_pf_track *track = &w->tracks[index];
    const kineto_row *rows = kineto_trace_track_rows(w->trace, index);
    if (track->view.count == 0)
        return;
    if (!rows)
        w->out_of_memory = true;
    else if (track->is_sched)
        write_states_track(w, index, rows);
    else if (track->view.lane_count > 1)
        write_all_lanes(w, index, rows);
    else
        write_lane_sequence(w, track->uuid, rows, track->view.count);
}

/* ---- the file -------------------------------------------------------------------------------- */

static void free_perfetto(ke_perfetto *w)
{
    ke_proto_free(&w->packets);
    ke_proto_free(&w->interned);
    free(w->processes);
    free(w->tracks);
    kb_vec_free(&w->watched);
    kb_vec_free(&w->runs);
    kb_vec_free(&w->category_kinds);
    kb_map_free(&w->series);
    kb_vec_free(&w->series_list);
    kb_vec_free(&w->names.given);
    kb_vec_free(&w->categories.given);
    kb_vec_free(&w->keys.given);
    kb_intern_free(&w->raw_keys);
    kb_vec_free(&w->raw_info);
    kb_vec_free(&w->unescaped);
    free(w->flow_first);
    free(w->flow_ends);
    kb_vec_free(&w->open);
    kb_vec_free(&w->sorted);
    kb_arena_free(&w->arena);
}

static void report_perfetto(ke_perfetto *w, uint64_t bytes, kineto_export_result *result)
{
    uint64_t flows = kineto_trace_flow_count(w->trace);
    w->all.bytes = bytes;
    w->all.replaced_bytes = w->packets.replaced + w->interned.replaced;
    w->all.record_noun = "packets";
    ke_omit(&w->all, "flows", "one end was not recorded", flows - w->all.flows);
    ke_omit(&w->all, "flow directions", "arrows that end before they begin point the other way",
            w->backward_flows);
    w->all.activities -= w->first_states;
    w->all.slices -= w->first_states;
    ke_omit(&w->all, "activities", "states of threads before they ran for the first time",
            w->first_states);
    ke_omit(&w->all, "samples", "more than a program can have", w->dropped_samples);
    ke_omit(&w->all, "times", "before 1970, moved there", w->clamped);
    ke_result_copy_out(&w->all, result);
}

static void write_perfetto_file(ke_perfetto *w, const char *trace_name)
{
    ke_pf_write_tables(w);
    ke_pf_write_sched(w);
    for (uint32_t i = 0; i < kineto_trace_track_count(w->trace) && !w->out_of_memory; i++)
        write_perfetto_track(w, i);
    ke_pf_write_samples(w);
    ke_pf_write_metadata(w, trace_name);
    ke_proto_flush(&w->packets, w->sink);
}

/* Plans identities, keys and flows first, because events refer to them. */
kineto_status ke_perfetto_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                                kineto_export_result *result, kineto_error *err)
{
    ke_perfetto w = {.trace = trace, .sink = sink, .all = {.format = "perfetto"}};
    uint64_t before = kb_sink_bytes(sink);
    bool ok = ke_pf_plan(&w) && ke_pf_plan_args(&w) && ke_pf_plan_flows(&w) &&
              ke_pf_plan_sched(&w);
    if (ok)
        write_perfetto_file(&w, trace_name);
    ok = ok && !w.out_of_memory && !w.packets.failed && !w.interned.failed;
    if (ok)
        report_perfetto(&w, kb_sink_bytes(sink) - before, result);
    free_perfetto(&w);
    if (!ok)
        return kb_fail(err, KINETO_E_MEMORY, "write a trace of %llu activities: out of memory",
                       (unsigned long long)kineto_trace_count(trace));
    return KINETO_OK; /* errors of the sink are reported when it is closed */
}
