/* A Perfetto trace as a trace: recognises the file, and walks over its packets.
 *
 * Files are streams of packets of many sequences, in no order of time. What is damaged is left out: a packet that cannot be
 * read is counted, and so is an event whose time cannot be known. Nothing recurses but values in values, which are
 * bounded, and packets in a compressed packet, which may not be compressed again. Memory is that of the rows, of the file
 * and of what is unpacked, which is bounded by the size of the file. */
#include "trace/import/perfetto_read.h"

#include "trace/import/perfetto_unpack.h"

#define MAX_GROWTH   1100u /* bytes unpacked for one of the file: zlib makes no more */
#define MAX_SEQUENCES 1000000u

/* ---- recognising ------------------------------------------------------------------------------ */

/* Fields that only packets of Perfetto have, with a number or a message. */
static bool is_packet_field(const kt_field *f)
{
    static const uint8_t numbers[] = {PF_PACKET_UID, PF_PACKET_TIMESTAMP, PF_PACKET_SEQUENCE, PF_PACKET_FLAGS,
                                      PF_PACKET_STATE_CLEARED, PF_PACKET_CLOCK_ID};
    static const uint8_t messages[] = {PF_PACKET_CLOCKS, PF_PACKET_TRACK_EVENT, PF_PACKET_INTERNED, 33, 35, 36, 45,
                                       PF_PACKET_THREAD, PF_PACKET_PROCESS, PF_PACKET_COMPRESSED, PF_PACKET_DEFAULTS,
                                       PF_PACKET_TRACK, PF_PACKET_ZSTD};
    const uint8_t *known = f->wire == KT_WIRE_BYTES ? messages : numbers;
    size_t count = f->wire == KT_WIRE_BYTES ? KB_COUNT(messages) : KB_COUNT(numbers);
    for (size_t i = 0; i < count; i++)
        if (f->id == known[i])
            return true;
    return false;
}

/* Also of a first packet that is longer than the head. */
bool kt_is_perfetto(kineto_string head)
{
    kt_wire w = kt_wire_of(head);
    kt_field f;
    uint64_t tag, size;
    if (!head.size || head.data[0] != (PF_TRACE_PACKET << 3 | KT_WIRE_BYTES))
        return false;
    (void)kt_wire_varint(&w, &tag);
    if (!kt_wire_varint(&w, &size) || !size)
        return false;
    bool is_cut = size > (uint64_t)(w.end - w.at);
    kt_wire packet = {w.at, is_cut ? w.end : w.at + size, false};
    bool is_known = false;
    while (kt_wire_next(&packet, &f))
        is_known |= is_packet_field(&f);
    return is_known && (is_cut || !packet.is_bad);
}

/* ---- what is not read ------------------------------------------------------------------------- */

/* Lists are short: files have few kinds of what is not read. Beyond a bound nothing is added, so that a damaged file
 * cannot fill the ledger. */
void pf_count_unread(kt_perfetto *p, pf_unread_list *list, uint32_t id)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->data[i].id == id) {
            list->data[i].count++;
            return;
        }
    if (list->count < 512)
        p->no_memory |= !kb_vec_push(list, (pf_unread){id, 1});
}

/* ---- packets ---------------------------------------------------------------------------------- */

/* The fields of a packet that are read before its events, wherever they are in it. */
typedef struct packet_fields {
    uint64_t timestamp;
    uint32_t sequence, clock;
    bool has_time, is_cleared, is_dropped;
    kineto_string interned, defaults, clocks, event;
    kineto_string others[4]; /* further payload */
    uint32_t other_ids[4], other_count;
} packet_fields;

/* Facts about the file and the recorder, which a trace has no place for. */
static bool is_of_recorder(uint32_t id)
{
    static const uint8_t ids[] = {33, 34, 35, 36, 45, 46, 67, 69, 72, 79, 82, 87, 89, 90, 98, 107, 113, 124, 126};
    for (size_t i = 0; i < KB_COUNT(ids); i++)
        if (id == ids[i])
            return true;
    return id == PF_PACKET_UID;
}

/* Numbers that apply to the packet as a whole. */
static void take_packet_number(packet_fields *k, const kt_field *f)
{
    enum { CLEARED = 1 };
    switch (f->id) {
    case PF_PACKET_TIMESTAMP:
        k->timestamp = f->n;
        k->has_time = true;
        break;
    case PF_PACKET_SEQUENCE: k->sequence = (uint32_t)KB_MIN(f->n, UINT32_MAX); break;
    case PF_PACKET_CLOCK_ID: k->clock = (uint32_t)KB_MIN(f->n, UINT32_MAX); break;
    case PF_PACKET_FLAGS: k->is_cleared |= (f->n & CLEARED) != 0; break;
    case PF_PACKET_STATE_CLEARED: k->is_cleared |= f->n != 0; break;
    case PF_PACKET_DROPPED: k->is_dropped = f->n != 0; break;
    default: break;
    }
}

/* Messages; a packet has one payload, and sometimes state of its sequence with it. */
static void take_packet_bytes(packet_fields *k, const kt_field *f)
{
    switch (f->id) {
    case PF_PACKET_INTERNED: k->interned = f->bytes; break;
    case PF_PACKET_DEFAULTS: k->defaults = f->bytes; break;
    case PF_PACKET_CLOCKS: k->clocks = f->bytes; break;
    case PF_PACKET_TRACK_EVENT: k->event = f->bytes; break;
    default:
        if (k->other_count < KB_COUNT(k->others)) {
            k->other_ids[k->other_count] = f->id;
            k->others[k->other_count++] = f->bytes;
        }
    }
}

/* False: the packet is damaged. Then nothing of it is used. */
static bool read_packet_fields(kineto_string bytes, packet_fields *k)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    memset(k, 0, sizeof *k);
    while (kt_wire_next(&w, &f)) {
        if (f.wire == KT_WIRE_VARINT)
            take_packet_number(k, &f);
        else if (f.wire == KT_WIRE_BYTES)
            take_packet_bytes(k, &f);
    }
    return !w.is_bad;
}

static void walk_packets(kt_perfetto *p, kineto_string bytes, uint32_t depth);

/* Packets in a packet. They are unpacked in the first pass and kept. */
static void walk_unpacked(kt_perfetto *p, kineto_string packed, bool is_zstd, uint32_t depth)
{
    size_t limit = p->file_bytes * MAX_GROWTH + (1u << 20);
    if (depth > 0) {
        p->bad_packets++;
        return;
    }
    if (p->is_first_pass) {
        bool is_whole = false;
        kineto_string bytes = kt_decompress_part(packed, is_zstd, limit - KB_MIN(limit, p->unpacked_bytes), &p->arena, &is_whole,
                                        &p->no_memory);
        p->unpacked_bytes += bytes.size;
        p->bad_packets += !is_whole;
        p->no_memory |= !kb_vec_push(&p->unpacked, bytes);
        if (!p->no_memory)
            walk_packets(p, bytes, depth + 1);
    } else if (p->unpacked_at < p->unpacked.count) {
        kineto_string bytes = p->unpacked.data[p->unpacked_at++];
        walk_packets(p, bytes, depth + 1);
    }
}

/* Kept until the end of the first pass, since the table of ckineto's own files comes last. */
static void keep_description(kt_perfetto *p, kineto_string bytes, bool is_tree)
{
    pf_description d = {bytes, is_tree};
    p->no_memory |= !kb_vec_push(&p->descriptions, d);
}

/* What other packets may refer to before it comes. */
static void read_first(kt_perfetto *p, const packet_fields *k, uint32_t depth)
{
    if (k->clocks.size)
        p->no_memory |= !pf_clocks_add(p, k->clocks, k->sequence);
    for (uint32_t i = 0; i < k->other_count; i++) {
        kineto_string bytes = k->others[i];
        switch (k->other_ids[i]) {
        case PF_PACKET_TRACK: keep_description(p, bytes, false); break;
        case PF_PACKET_PROCESS_TREE: keep_description(p, bytes, true); break;
        case PF_PACKET_CHROME_EVENTS: pf_read_metadata(p, bytes); break;
        case PF_PACKET_COMPRESSED: case PF_PACKET_ZSTD:
            walk_unpacked(p, bytes, k->other_ids[i] == PF_PACKET_ZSTD, depth);
            break;
        default: break;
        }
    }
}

/* The thread of a sequence, in files of older programs. */
static void set_sequence_thread(pf_sequence *s, kineto_string descriptor)
{
    kt_wire w = kt_wire_of(descriptor);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_THREAD_PID, KT_WIRE_VARINT))
            s->pid = (int32_t)f.n;
        else if (kt_field_is(&f, PF_THREAD_TID, KT_WIRE_VARINT))
            s->tid = (int64_t)f.n;
    }
}

/* What a packet is about, other than a track event. Kinds that are not read are counted by name. */
static void read_payload(kt_perfetto *p, const pf_packet *packet, uint32_t id, kineto_string bytes, uint32_t depth)
{
    switch (id) {
    case PF_PACKET_COMPRESSED: case PF_PACKET_ZSTD: walk_unpacked(p, bytes, id == PF_PACKET_ZSTD, depth); break;
    case PF_PACKET_FTRACE: pf_read_ftrace(p, packet, bytes); break;
    case PF_PACKET_GPU_STAGE: pf_read_gpu_stage(p, packet, bytes); break;
    case PF_PACKET_GPU_COUNTER: pf_read_gpu_counter(p, packet, bytes); break;
    case PF_PACKET_THREAD: set_sequence_thread(packet->sequence, bytes); break;
    case PF_PACKET_SAMPLE: p->samples++; break;
    case PF_PACKET_TRACK: case PF_PACKET_PROCESS_TREE: case PF_PACKET_CHROME_EVENTS: case PF_PACKET_PROCESS: break;
    default:
        if (!is_of_recorder(id))
            pf_count_unread(p, &p->unread_packets, id);
    }
}

/* The state of the sequence first, then the time, then what the packet is about. */
static void read_second(kt_perfetto *p, const packet_fields *k, uint32_t depth)
{
    pf_packet packet = {.sequence = pf_sequence_find(p, k->sequence)};
    if (!packet.sequence || p->sequences.count > MAX_SEQUENCES)
        return;
    p->dropped_packets += k->is_dropped && packet.sequence->has_packets;
    packet.sequence->has_packets = true;
    if (k->is_cleared)
        pf_sequence_clear(packet.sequence);
    if (k->defaults.size)
        pf_set_defaults(packet.sequence, k->defaults);
    if (k->interned.size)
        pf_intern(p, packet.sequence, k->interned);
    if (k->has_time)
        packet.has_time = pf_clocks_convert(p, k->sequence, k->clock ? k->clock : packet.sequence->clock, k->timestamp,
                                            &packet.ns);
    if (k->clocks.size)
        pf_clocks_restart(p, k->clocks, k->sequence);
    if (k->event.size)
        pf_read_event(p, &packet, k->event);
    for (uint32_t i = 0; i < k->other_count; i++)
        read_payload(p, &packet, k->other_ids[i], k->others[i], depth);
}

/* Both passes. A damaged packet is skipped: its length is known from the one before its fields. */
static void walk_packets(kt_perfetto *p, kineto_string bytes, uint32_t depth)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    packet_fields k;
    while (kt_wire_next(&w, &f) && !p->no_memory) {
        if (!kt_field_is(&f, PF_TRACE_PACKET, KT_WIRE_BYTES) || !read_packet_fields(f.bytes, &k)) {
            p->bad_packets += p->is_first_pass;
            continue;
        }
        if (p->is_first_pass)
            read_first(p, &k, depth);
        else
            read_second(p, &k, depth);
    }
    p->is_cut |= w.is_bad;
}

/* ---- the ledger ------------------------------------------------------------------------------- */

/* Names of what is not read, as the format has them. Others are told by the number of their field, which the
 * definition of the format lists. */
static const struct {
    uint32_t id;
    const char *name;
} packet_names[] = {
    {4, "inode_file_map"}, {7, "sys_stats"}, {9, "process_stats"}, {37, "profile_packet"}, {38, "battery"},
    {39, "android_log"}, {40, "power_rails"}, {47, "packages_list"}, {49, "perfetto_metatrace"},
    {51, "chrome_metadata"}, {54, "streaming_profile_packet"}, {56, "heap_graph"}, {57, "graphics_frame_event"},
    {61, "module_symbols"}, {62, "vulkan_memory_event"}, {63, "gpu_log"}, {65, "vulkan_api_event"},
    {71, "gpu_mem_total_event"}, {73, "memory_tracker_snapshot"}, {76, "frame_timeline_event"}, {88, "network_packet"},
    {95, "etw_events"}, {128, "gpu_info"}, {135, "stack_sample"}},
  event_field_names[] = {
    {1, "timestamp_delta_us"}, {2, "thread_time_delta_us"}, {5, "task_execution"}, {16, "timestamp_absolute_us"},
    {17, "thread_time_absolute_us"}, {20, "thread_instruction_count_absolute"}, {21, "log_message"},
    {33, "source_location"}, {34, "source_location_iid"}, {45, "extra_double_counter_track_uuids"},
    {46, "extra_double_counter_values"}, {52, "correlation_id"}, {53, "correlation_id_str"},
    {54, "correlation_id_str_iid"}, {55, "callstack"}, {56, "callstack_iid"}},
  ftrace_names[] = {{3, "print"}, {11, "cpu_frequency"}, {13, "cpu_idle"}, {235, "task_newtask"}, {236, "task_rename"},
    {238, "sched_process_exit"}, {240, "sched_process_free"}};

/* A line for each number of a list. */
static void add_unread_lines(kt_perfetto *p, const pf_unread_list *list, const char *what, const void *names, size_t count,
                             bool is_loss)
{
    const __typeof__(packet_names[0]) *table = names;
    for (size_t i = 0; i < list->count; i++) {
        char reason[120], number[24];
        kb_snprintf(number, sizeof number, "field %u", list->data[i].id);
        const char *name = number;
        for (size_t k = 0; k < count; k++)
            name = table[k].id == list->data[i].id ? table[k].name : name;
        kb_snprintf(reason, sizeof reason, "%s: %s", what, name);
        (is_loss ? kt_import_lost : kt_import_note)(&p->m, reason, list->data[i].count, kb_string(""));
    }
}

/* Phases are letters in files of Chrome; other numbers come from damaged ones. */
static void add_phase_lines(kt_perfetto *p)
{
    for (size_t i = 0; i < p->unread_phases.count; i++) {
        char reason[60];
        uint32_t phase = p->unread_phases.data[i].id;
        kb_snprintf(reason, sizeof reason, phase > ' ' && phase < 127 ? "events of phase %c not read" : "events of phase %u not read",
                    phase);
        kt_import_lost(&p->m, reason, p->unread_phases.data[i].count, kb_string(""));
    }
}

/* Lost are events; what is missing of an event that was kept, and what was assumed, are notes. */
static void fill_ledger(kt_perfetto *p)
{
    kt_import *m = &p->m;
    kineto_string none = {"", 0};
    add_unread_lines(p, &p->unread_packets, "packets not read", packet_names, KB_COUNT(packet_names), true);
    add_unread_lines(p, &p->unread_ftrace, "events of the kernel not read", ftrace_names, KB_COUNT(ftrace_names), true);
    add_unread_lines(p, &p->unread_event_fields, "field of an event not read", event_field_names,
                     KB_COUNT(event_field_names), false);
    add_unread_lines(p, &p->unread_gpu_fields, "field of GPU work not read", NULL, 0, false);
    add_unread_lines(p, &p->unread_chrome, "legacy events of Chrome not read", NULL, 0, true);
    add_phase_lines(p);
    kt_import_lost(m, "samples of call stacks not read", p->is_own ? 0 : p->samples, none);
    kt_import_lost(m, "the file ends early", p->is_cut, kb_string("it was read up to there"));
    kt_import_lost(m, "packets that cannot be read", p->bad_packets, none);
    kt_import_lost(m, "events that cannot be read, or have no time", p->bad_events, none);
    kt_import_lost(m, "packets with a clock that no snapshot has", p->clocks.unknown, none);
    kt_import_lost(m, "samples of counters without a value or a track", p->bad_counters, none);
    kt_import_lost(m, "ends without a begin", p->unmatched_ends, none);
    kt_import_lost(m, "arrows with one end", p->lone_flows, none);
    kt_import_note(m, "values nested too deep: not kept", p->deep_values, none);
    kt_import_note(m, "values that are too long: not kept", p->long_values, none);
    kt_import_note(m, "values of a type of the program's own: not kept", p->proto_values, none);
    kt_import_lost(m, "places where the recorder lost packets", p->dropped_packets, none);
    kt_import_note(m, "texts that were interned before the recording began: empty", p->lost_state, none);
    kt_import_note(m, "slices without an end: they last to the last known time", p->open_slices, none);
    if (!p->clocks.has_unix && p->m.b->trace->count)
        kt_import_note(m, "no snapshot has the time of day: times count from the start of the machine", 1, none);
}

/* ---- the file --------------------------------------------------------------------------------- */

/* Everything but the trace, which the caller has by then. */
static void free_perfetto(kt_perfetto *p)
{
    for (size_t i = 0; i < p->sequences.count; i++)
        pf_sequence_free(p->sequences.data[i]);
    kb_vec_free(&p->sequences);
    pf_clocks_free(&p->clocks);
    kb_map *maps[] = {&p->sequence_of_id, &p->track_of_uuid, &p->names_of_tracks, &p->async_slots, &p->launch_flows,
                      &p->thread_of_tid, &p->tgid_of_tid, &p->gpu_names, &p->own_states};
    for (size_t i = 0; i < KB_COUNT(maps); i++)
        kb_map_free(maps[i]);
    pf_unread_list *lists[] = {&p->unread_packets, &p->unread_event_fields, &p->unread_phases, &p->unread_ftrace,
                               &p->unread_gpu_fields, &p->unread_chrome};
    for (size_t i = 0; i < KB_COUNT(lists); i++)
        kb_vec_free(lists[i]);
    kb_vec_free(&p->unpacked);
    kb_vec_free(&p->tracks);
    kb_vec_free(&p->edges);
    kb_vec_free(&p->open_edges);
    kb_vec_free(&p->flow_ends);
    kb_vec_free(&p->json.text);
    kb_vec_free(&p->own_processes);
    kb_vec_free(&p->own_tracks);
    kb_vec_free(&p->own_described);
    kb_vec_free(&p->series);
    kb_vec_free(&p->entries);
    kb_vec_free(&p->descriptions);
    kb_vec_free(&p->threads);
    kb_vec_free(&p->cpus);
    kb_vec_free(&p->switches);
    kb_arena_free(&p->arena);
    kt_import_free(&p->m);
}

/* Keys of columns, so that an annotation is compared by number and not by text. */
static void intern_keys(kt_perfetto *p)
{
    static const char *const texts[] = {"correlation", "External id", "finished", "started", "arguments lost", "async id",
                                        "value", "corr_id"};
    uint32_t *const keys[] = {&p->correlation_key, &p->external_key, &p->finished_key, &p->started_key, &p->lost_key,
                              &p->async_key, &p->value_key, &p->corr_key};
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        *keys[i] = kt_string(p->m.b, kb_string(texts[i]));
}

/* After the table of an own file, whose identities count. */
static void read_descriptions(kt_perfetto *p)
{
    for (size_t i = 0; i < p->descriptions.count && !p->no_memory; i++)
        (p->descriptions.data[i].is_tree ? pf_describe_tree : pf_describe_track)(p, p->descriptions.data[i].bytes);
}

/* Threads of tracks, for the scheduler's events, which have no process. */
static void note_threads(kt_perfetto *p)
{
    for (size_t i = 0; i < p->tracks.count; i++)
        if (p->tracks.data[i].pid && p->tracks.data[i].tid)
            p->no_memory |= !kb_map_insert(&p->tgid_of_tid, (uint64_t)p->tracks.data[i].tid,
                                           (uint64_t)p->tracks.data[i].pid, NULL);
}

/* The order matters: own tables before descriptions, descriptions and clocks before events, and joining when all
 * events are known. */
static void read_passes(kt_perfetto *p, kineto_string bytes)
{
    p->is_first_pass = true;
    walk_packets(p, bytes, 0);
    p->is_first_pass = false;
    pf_read_own(p);
    read_descriptions(p);
    note_threads(p);
    if (p->no_memory || !pf_clocks_settle(p))
        return;
    walk_packets(p, bytes, 0);
    pf_flush_counter(p);
    pf_join_events(p);
    pf_make_states(p);
}

/* ckineto's own files have their arrows and kinds already. */
static kineto_status finish_perfetto(kt_perfetto *p, kineto_trace **out)
{
    fill_ledger(p);
    if (p->no_memory)
        return kb_fail_memory(p->err, "Perfetto trace");
    if (p->is_own)
        return kt_builder_finish(p->m.b, out, p->err);
    kt_set_device_work(p->m.b);
    return kt_import_finish(&p->m, out, p->err);
}

/* The bytes of the file have to stay until the end: descriptions and packets are used in place. */
kineto_status kt_import_perfetto(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    kt_perfetto *p = calloc(1, sizeof *p);
    if (!p)
        return kb_fail_memory(err, "Perfetto trace");
    p->err = err;
    p->file_bytes = source->bytes.size;
    kineto_status status = kt_import_begin(&p->m, source, "perfetto", err);
    if (!status) {
        intern_keys(p);
        read_passes(p, source->bytes);
        status = finish_perfetto(p, out);
    }
    free_perfetto(p);
    free(p);
    return status;
}
