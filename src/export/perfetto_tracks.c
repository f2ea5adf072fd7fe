/* Tracks of the Perfetto writer: a tree of process or device, then threads, streams and counters,
 * then lanes; and the clocks. Perfetto identifies processes and threads by numbers of 31 bits; rows
 * without such a number, or with one that is taken, become plain tracks at the same place in the
 * tree. */
#include "export/perfetto.h"

#define FIRST_SEQUENCE 1u /* the sequence of clocks, processes and tracks */

/* ---- identities ------------------------------------------------------------------------------ */

/* *claimed: the number if it is valid and free in `space`, else 0. False: out of memory. */
static bool claim_perfetto_id(kb_map *taken, uint64_t space, int64_t number, int64_t *claimed)
{
    uint64_t key[2] = {space, (uint64_t)number};
    bool created = false;
    *claimed = 0;
    if (number <= 0 || number > INT32_MAX)
        return true;
    if (!kb_map_insert(taken, kb_hash(key, sizeof key), 1, &created))
        return false;
    *claimed = created ? number : 0;
    return true;
}

/* Devices and rows that are known by a text never are processes for Perfetto. */
static bool plan_process_identity(ke_perfetto *w, uint32_t index, kb_map *taken)
{
    ke_pf_process *p = &w->processes[index];
    kineto_trace_process(w->trace, index, &p->view);
    p->uuid = ++w->next_uuid;
    bool known = !p->view.is_device && !kt_process_text_of(w->trace, index).data;
    return !known || claim_perfetto_id(taken, 0, p->view.pid, &p->pid);
}

/* Only threads of processes that Perfetto knows are threads. False: out of memory. */
static bool plan_track_identity(ke_perfetto *w, uint32_t index, kb_map *taken)
{
    ke_pf_track *t = &w->tracks[index];
    kineto_trace_track(w->trace, index, &t->view);
    t->uuid = ++w->next_uuid;
    if (t->view.count && !t->view.lane_count)
        return false; /* no memory for lanes */
    const ke_pf_process *p = &w->processes[t->view.process];
    bool known =
        t->view.type == KINETO_TRACK_THREAD && p->pid && !kt_track_text_of(w->trace, index).data;
    return !known || claim_perfetto_id(taken, 1 + (uint64_t)t->view.process, t->view.id, &t->tid);
}

/* The earliest time, not before 1970. */
static void plan_perfetto_base(ke_perfetto *w)
{
    int64_t earliest, end;
    kineto_trace_window(w->trace, &earliest, &end);
    for (uint32_t i = 0; i < kt_block_count(w->trace); i++)
        earliest = KB_MIN(earliest, kt_block_at(w->trace, i)->min_start_ns);
    w->base_ns = ke_pf_time(earliest);
}

bool ke_pf_plan(ke_perfetto *w)
{
    uint32_t processes = kineto_trace_process_count(w->trace);
    uint32_t tracks = kineto_trace_track_count(w->trace);
    kb_map taken = {0};
    plan_perfetto_base(w);
    w->processes = calloc((size_t)processes + 1, sizeof *w->processes);
    w->tracks = calloc((size_t)tracks + 1, sizeof *w->tracks);
    bool ok = w->processes && w->tracks;
    for (uint32_t i = 0; ok && i < processes; i++)
        ok = plan_process_identity(w, i, &taken);
    for (uint32_t i = 0; ok && i < tracks; i++)
        ok = plan_track_identity(w, i, &taken);
    kb_map_free(&taken);
    return ok;
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* The clock of a sequence is incremental: its times are distances from one packet to the next. */
static void put_clock_reading(ke_proto *p, uint32_t id, int64_t ns)
{
    size_t mark = ke_proto_begin(p, KE_PF_CLOCKS_CLOCK);
    ke_proto_uint(p, KE_PF_CLOCK_ID, id);
    ke_proto_int(p, KE_PF_CLOCK_TIME, ns);
    if (id == KE_PF_CLOCK_OWN)
        ke_proto_bool(p, KE_PF_CLOCK_INCREMENTAL, true);
    ke_proto_end(p, mark);
}

/* Readings before the start of the host do not exist, and are omitted. */
static void put_host_clock_reading(ke_perfetto *w, uint32_t id, int64_t realtime_minus_clock_ns)
{
    int64_t ns;
    if (!__builtin_sub_overflow(w->base_ns, realtime_minus_clock_ns, &ns) && ns > 0)
        put_clock_reading(&w->packets, id, ns);
}

/* Relates the times to those of other traces of the same host. */
static void write_clock_packet(ke_perfetto *w)
{
    kb_clock_fit fit;
    size_t packet = ke_pf_begin_packet(w);
    ke_proto_uint(&w->packets, KE_PF_PACKET_FLAGS, KE_PF_STATE_CLEARED);
    size_t mark = ke_proto_begin(&w->packets, KE_PF_PACKET_CLOCK_SNAPSHOT);
    ke_proto_uint(&w->packets, KE_PF_CLOCKS_PRIMARY, KE_PF_CLOCK_REALTIME);
    put_clock_reading(&w->packets, KE_PF_CLOCK_REALTIME, w->base_ns);
    if (kt_clock_fit(w->trace, &fit)) {
        put_host_clock_reading(w, KE_PF_CLOCK_MONOTONIC, fit.realtime_minus_monotonic_ns);
        put_host_clock_reading(w, KE_PF_CLOCK_BOOTTIME, fit.realtime_minus_boottime_ns);
    } else if (w->runs.count) {
        put_clock_reading(&w->packets, KE_PF_CLOCK_BOOTTIME, w->base_ns);
    }
    ke_proto_end(&w->packets, mark);
    ke_pf_end_packet(w, packet);
}

/* Begins a sequence with an incremental clock; the caller adds defaults, and ends both. */
typedef struct sequence_marks {
    size_t packet, defaults;
} sequence_marks;

static sequence_marks begin_sequence_packet(ke_perfetto *w)
{
    KB_ASSERT(!w->open.count && !w->interned.count);
    w->sequence++;
    w->last_ns = w->base_ns;
    w->names.next = w->categories.next = w->keys.next = 0;
    sequence_marks m = {.packet = ke_pf_begin_packet(w)};
    ke_proto_uint(&w->packets, KE_PF_PACKET_FLAGS, KE_PF_STATE_CLEARED);
    m.defaults = ke_proto_begin(&w->packets, KE_PF_PACKET_DEFAULTS);
    ke_proto_uint(&w->packets, KE_PF_DEFAULTS_CLOCK, KE_PF_CLOCK_OWN);
    return m;
}

static void end_sequence_packet(ke_perfetto *w, sequence_marks m)
{
    ke_proto *p = &w->packets;
    ke_proto_end(p, m.defaults);
    size_t clocks = ke_proto_begin(p, KE_PF_PACKET_CLOCK_SNAPSHOT);
    put_clock_reading(p, KE_PF_CLOCK_REALTIME, w->base_ns);
    put_clock_reading(p, KE_PF_CLOCK_OWN, 0);
    ke_proto_end(p, clocks);
    ke_pf_end_packet(w, m.packet);
}

void ke_pf_begin_sequence(ke_perfetto *w, uint64_t uuid)
{
    sequence_marks m = begin_sequence_packet(w);
    size_t event = ke_proto_begin(&w->packets, KE_PF_DEFAULTS_EVENT);
    ke_proto_uint(&w->packets, KE_PF_EVENT_TRACK, uuid);
    ke_proto_end(&w->packets, event);
    end_sequence_packet(w, m);
}

void ke_pf_begin_samples(ke_perfetto *w, uint64_t period_ns)
{
    sequence_marks m = begin_sequence_packet(w);
    size_t sample = ke_proto_begin(&w->packets, KE_PF_DEFAULTS_SAMPLE);
    size_t timebase = ke_proto_begin(&w->packets, KE_PF_SAMPLE_DEFAULTS_TIMEBASE);
    ke_proto_uint(&w->packets, KE_PF_TIMEBASE_PERIOD, period_ns);
    ke_proto_uint(&w->packets, KE_PF_TIMEBASE_COUNTER, KE_PF_COUNTER_TASK_CLOCK);
    ke_proto_end(&w->packets, timebase);
    ke_proto_end(&w->packets, sample);
    end_sequence_packet(w, m);
}

/* ---- descriptions ---------------------------------------------------------------------------- */

/* Perfetto's indices have 32 bits. */
static int32_t clamp_sort_index(int64_t index)
{
    return (int32_t)KB_MAX(KB_MIN(index, INT32_MAX), INT32_MIN);
}

static kineto_string label_text(const ke_label *label)
{
    return (kineto_string){label->text, label->size};
}

/* Marks of an open packet and of the description in it. */
typedef struct description_marks {
    size_t packet, track;
} description_marks;

static description_marks begin_track_description(ke_perfetto *w, uint64_t uuid, uint64_t parent)
{
    description_marks d = {.packet = ke_pf_begin_packet(w)};
    d.track = ke_proto_begin(&w->packets, KE_PF_PACKET_TRACK);
    ke_proto_uint(&w->packets, KE_PF_TRACK_UUID, uuid);
    if (parent)
        ke_proto_uint(&w->packets, KE_PF_TRACK_PARENT, parent);
    return d;
}

static void end_track_description(ke_perfetto *w, description_marks d)
{
    ke_proto_end(&w->packets, d.track);
    ke_pf_end_packet(w, d.packet);
}

/* The name and the rank among siblings; tracks of the same name are not merged. */
static void put_track_name(ke_perfetto *w, kineto_string name, int64_t rank)
{
    ke_proto_string(&w->packets, KE_PF_TRACK_NAME, name);
    ke_proto_int(&w->packets, KE_PF_TRACK_RANK, clamp_sort_index(rank));
    ke_proto_uint(&w->packets, KE_PF_TRACK_MERGING, KE_PF_MERGING_NONE);
}

/* Labels appear next to the process name: host and rank. */
static void put_process_label(ke_perfetto *w, const char *what, kineto_string value)
{
    char text[320];
    value = kb_utf8_cut(value, 256);
    int size = snprintf(text, sizeof text, "%s %.*s", what, (int)value.size, value.data);
    ke_proto_string(&w->packets, KE_PF_PROCESS_LABEL, (kineto_string){text, (size_t)size});
}

/* A process that Perfetto knows by its pid. */
static void put_process_descriptor(ke_perfetto *w, const ke_pf_process *p)
{
    ke_proto *out = &w->packets;
    size_t mark = ke_proto_begin(out, KE_PF_TRACK_PROCESS);
    ke_proto_uint(out, KE_PF_PROCESS_PID, (uint64_t)p->pid);
    ke_proto_int(out, KE_PF_PROCESS_SORT_INDEX, clamp_sort_index(p->view.sort_index));
    if (p->view.name.size)
        ke_proto_string(out, KE_PF_PROCESS_NAME, p->view.name);
    if (p->view.label.size)
        ke_proto_string(out, KE_PF_PROCESS_LABEL, p->view.label);
    if (p->view.host.size)
        put_process_label(w, "host", p->view.host);
    if (p->view.rank >= 0) {
        char rank[16];
        snprintf(rank, sizeof rank, "%d", (int)p->view.rank);
        put_process_label(w, "rank", kb_string(rank));
    }
    ke_proto_end(out, mark);
}

/* Describes a process or device, with explicit order of its children. */
static void write_process_description(ke_perfetto *w, uint32_t index)
{
    const ke_pf_process *p = &w->processes[index];
    description_marks d = begin_track_description(w, p->uuid, 0);
    if (p->pid) {
        put_process_descriptor(w, p);
    } else {
        ke_label label = ke_process_label(w->trace, index);
        put_track_name(w, label_text(&label), p->view.sort_index);
        if (p->view.name.size)
            ke_proto_string(&w->packets, KE_PF_TRACK_DESCRIPTION, p->view.name);
    }
    ke_proto_uint(&w->packets, KE_PF_TRACK_CHILD_ORDER, KE_PF_CHILDREN_EXPLICIT);
    end_track_description(w, d);
}

/* A thread that Perfetto knows by its pid and tid. */
static void put_thread_descriptor(ke_perfetto *w, int64_t pid, int64_t tid, int64_t sort_index,
                                  kineto_string name)
{
    ke_proto *out = &w->packets;
    size_t mark = ke_proto_begin(out, KE_PF_TRACK_THREAD);
    ke_proto_uint(out, KE_PF_THREAD_PID, (uint64_t)pid);
    ke_proto_uint(out, KE_PF_THREAD_TID, (uint64_t)tid);
    ke_proto_int(out, KE_PF_THREAD_SORT_INDEX, clamp_sort_index(sort_index));
    if (name.size)
        ke_proto_string(out, KE_PF_THREAD_NAME, name);
    ke_proto_end(out, mark);
}

void ke_pf_describe_watched(ke_perfetto *w, uint32_t index)
{
    const ke_pf_watched *t = &w->watched.data[index];
    const ke_pf_process *p = &w->processes[t->process];
    description_marks d = begin_track_description(w, t->uuid, p->uuid);
    put_thread_descriptor(w, p->pid, t->tid, t->tid, ke_cpu_thread_name(&t->label));
    ke_proto_uint(&w->packets, KE_PF_TRACK_CHILD_ORDER, KE_PF_CHILDREN_EXPLICIT);
    end_track_description(w, d);
}

void ke_pf_describe_track(ke_perfetto *w, uint32_t index)
{
    ke_pf_track *t = &w->tracks[index];
    if (t->described)
        return;
    t->described = true;
    uint64_t above =
        t->watched ? w->watched.data[t->watched - 1].uuid : w->processes[t->view.process].uuid;
    description_marks d = begin_track_description(w, t->uuid, above);
    if (t->tid) {
        put_thread_descriptor(w, w->processes[t->view.process].pid, t->tid, t->view.sort_index,
                              t->view.name);
    } else {
        ke_label label = ke_track_label(w->trace, index);
        /* "samples 42" is below the thread 42. */
        const char *number = t->watched ? memchr(label.text, ' ', label.size) : NULL;
        label.size = number ? (size_t)(number - label.text) : label.size;
        put_track_name(w, label_text(&label), t->view.sort_index);
    }
    ke_proto_uint(&w->packets, KE_PF_TRACK_CHILD_ORDER, KE_PF_CHILDREN_EXPLICIT);
    end_track_description(w, d);
}

uint64_t ke_pf_describe_lane(ke_perfetto *w, uint32_t index, uint32_t lane)
{
    ke_label label = ke_track_label(w->trace, index);
    char name[sizeof label.text + 32];
    memcpy(name, label.text, label.size);
    int more = snprintf(name + label.size, 32, " (lane %u)", lane + 1);
    uint64_t uuid = ++w->next_uuid;
    description_marks d = begin_track_description(w, uuid, w->tracks[index].uuid);
    put_track_name(w, (kineto_string){name, label.size + (size_t)more}, lane);
    end_track_description(w, d);
    return uuid;
}

/* "name key", as Perfetto names the series of other formats. */
static void put_counter_name(ke_perfetto *w, kineto_string name, kineto_string key)
{
    size_t size = name.size + key.size + 1;
    char *text = kb_arena_alloc(&w->arena, size, 1);
    if (!text) {
        w->out_of_memory = true;
        return;
    }
    memcpy(text, name.data, name.size);
    text[name.size] = ' ';
    memcpy(text + name.size + 1, key.data, key.size);
    bool both = name.size && key.size;
    kineto_string whole = {name.size ? text : text + 1, both ? size : size - 1};
    put_track_name(w, whole, 0);
}

/* Keeps what the series is of, for the table of ckineto. */
static void note_series(ke_perfetto *w, uint64_t uuid, uint32_t track, kineto_string name, kineto_string key)
{
    ke_pf_series s = {.uuid = uuid, .track = track, .name = name, .key = key, .kind = w->counter_kind,
                      .category = w->counter_category};
    s.key.data = kb_arena_copy(&w->arena, key.data, key.size);
    if (!s.key.data || !kb_vec_push(&w->series_list, s))
        w->out_of_memory = true;
}

uint64_t ke_pf_series_track(ke_perfetto *w, uint32_t track, kineto_string name, kineto_string key)
{
    uint64_t identity[3] = {track, kb_hash(name.data, name.size), kb_hash(key.data, key.size)};
    kineto_string series, unit;
    bool created = false;
    uint64_t *found =
        kb_map_insert(&w->series, kb_hash(identity, sizeof identity), w->next_uuid + 1, &created);
    if (!found) {
        w->out_of_memory = true;
        return 0;
    }
    if (!created)
        return *found;
    uint64_t uuid = ++w->next_uuid;
    note_series(w, uuid, track, name, key);
    description_marks d =
        begin_track_description(w, uuid, w->processes[w->tracks[track].view.process].uuid);
    put_counter_name(w, name, key);
    size_t mark = ke_proto_begin(&w->packets, KE_PF_TRACK_COUNTER);
    ke_split_unit(key, &series, &unit);
    if (unit.size)
        ke_proto_string(&w->packets, KE_PF_COUNTER_UNIT_NAME, unit);
    ke_proto_end(&w->packets, mark);
    end_track_description(w, d);
    return uuid;
}

/* Tracks of counters are described when a series is written for the first time. */
void ke_pf_write_tables(ke_perfetto *w)
{
    w->sequence = FIRST_SEQUENCE;
    write_clock_packet(w);
    for (uint32_t i = 0; i < kineto_trace_process_count(w->trace); i++)
        write_process_description(w, i);
    for (uint32_t i = 0; i < kineto_trace_track_count(w->trace); i++)
        if (w->tracks[i].view.type != KINETO_TRACK_COUNTER && !w->tracks[i].is_sched)
            ke_pf_describe_track(w, i);
}
