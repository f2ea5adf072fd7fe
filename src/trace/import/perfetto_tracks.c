/* Tracks of a Perfetto trace: descriptions, and the process, thread, stream or counter that they become.
 *
 * A track of a process or thread is that one's. Another one is below the process or thread that it descends from, as a
 * row of its own; one without such an ancestor is a row of the process that its topmost ancestor stands for, or, if
 * its name says so (rocprofv3), of a device. */
#include "trace/import/perfetto_read.h"

#define MAX_ANCESTORS 64u

/* Events may come before the description of their track, so that finding adds it. */
uint32_t pf_track_find(kt_perfetto *p, uint64_t uuid)
{
    bool created;
    uint64_t *at = kb_map_insert(&p->track_of_uuid, uuid, p->tracks.count, &created);
    const kineto_string none = {"", 0};
    pf_track fresh = {.uuid = uuid, .multiplier = 1, .name = none, .unit = none, .thread_name = none};
    if (!at || (created && (p->tracks.count >= PF_NONE || !kb_vec_push(&p->tracks, fresh)))) {
        p->no_memory = true;
        return PF_NONE;
    }
    return (uint32_t)*at;
}

/* ---- descriptions ----------------------------------------------------------------------------- */

/* Of several labels the first is kept. */
static void describe_process(kt_perfetto *p, pf_track *t, kineto_string bytes)
{
    kineto_process process = {.rank = -1};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_PROCESS_PID, KT_WIRE_VARINT))
            t->pid = (int64_t)f.n;
        else if (kt_field_is(&f, PF_PROCESS_NAME, KT_WIRE_BYTES))
            process.name = f.bytes;
        else if (kt_field_is(&f, PF_PROCESS_SORT, KT_WIRE_VARINT))
            process.sort_index = (int32_t)f.n;
        else if (kt_field_is(&f, PF_PROCESS_LABEL, KT_WIRE_BYTES) && !process.label.size)
            process.label = f.bytes;
    }
    process.name = process.name.size ? process.name : t->name;
    if (!p->is_own)
        kt_process_set(p->m.b, kt_process(p->m.b, false, t->pid, 0), &process);
}

/* A thread descriptor makes a thread of the track, also if it has a parent. */
static void describe_thread(pf_track *t, kineto_string bytes)
{
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_THREAD_PID, KT_WIRE_VARINT))
            t->pid = (int64_t)f.n;
        else if (kt_field_is(&f, PF_THREAD_TID, KT_WIRE_VARINT))
            t->tid = (int64_t)f.n;
        else if (kt_field_is(&f, PF_THREAD_NAME, KT_WIRE_BYTES))
            t->thread_name = f.bytes;
    }
}

/* A name of a unit is preferred to a unit of Perfetto's own. */
static void describe_counter(pf_track *t, kineto_string bytes)
{
    static const char *const units[] = {"", "ns", "count", "bytes"};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    t->is_counter = true;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, PF_COUNTER_UNIT_NAME, KT_WIRE_BYTES))
            t->unit = f.bytes;
        else if (kt_field_is(&f, PF_COUNTER_UNIT, KT_WIRE_VARINT) && !t->unit.size && f.n < KB_COUNT(units))
            t->unit = kb_string(units[f.n]);
        else if (kt_field_is(&f, PF_COUNTER_MULTIPLIER, KT_WIRE_VARINT) && f.n)
            t->multiplier = (int64_t)f.n;
        else if (kt_field_is(&f, PF_COUNTER_INCREMENTAL, KT_WIRE_VARINT))
            t->is_incremental = f.n != 0;
    }
}

/* A track cannot be its own parent; longer circles end by the bound of find_root. */
static void note_parent(kt_perfetto *p, uint32_t index, uint64_t uuid)
{
    uint32_t parent = uuid == p->tracks.data[index].uuid ? PF_NONE : pf_track_find(p, uuid);
    if (parent == PF_NONE)
        return;
    p->tracks.data[index].parent = uuid;
    p->tracks.data[parent].has_children = true;
}

/* The fields that name other messages, once the track is known. */
static void describe_fields(kt_perfetto *p, uint32_t index, kineto_string descriptor)
{
    kt_wire w = kt_wire_of(descriptor);
    kt_field f;
    pf_track *t = &p->tracks.data[index];
    t->is_described = true;
    while (kt_wire_next(&w, &f)) {
        t = &p->tracks.data[index];
        if (kt_field_is(&f, PF_TRACK_PARENT, KT_WIRE_VARINT))
            note_parent(p, index, f.n);
        else if (kt_field_is(&f, PF_TRACK_RANK, KT_WIRE_VARINT))
            t->rank = (int32_t)f.n;
        else if (f.wire != KT_WIRE_BYTES)
            continue;
        else if (f.id == PF_TRACK_NAME || f.id == PF_TRACK_STATIC_NAME || f.id == PF_TRACK_ATRACE_NAME)
            t->name = f.bytes;
        else if (f.id == PF_TRACK_PROCESS)
            describe_process(p, t, f.bytes);
        else if (f.id == PF_TRACK_THREAD)
            describe_thread(t, f.bytes);
        else if (f.id == PF_TRACK_COUNTER)
            describe_counter(t, f.bytes);
    }
}

/* The uuid is found first, as fields may be in any order. Descriptions add up. */
void pf_describe_track(kt_perfetto *p, kineto_string descriptor)
{
    kt_wire w = kt_wire_of(descriptor);
    kt_field f;
    uint64_t uuid = 0;
    while (kt_wire_next(&w, &f))
        if (kt_field_is(&f, PF_TRACK_UUID, KT_WIRE_VARINT))
            uuid = f.n;
    uint32_t index = pf_track_find(p, uuid);
    if (index != PF_NONE)
        describe_fields(p, index, descriptor);
}

/* ---- the tree of processes -------------------------------------------------------------------- */

enum { TREE_PROCESS = 1, TREE_THREAD = 2, TREE_PID = 1, TREE_PPID = 2, TREE_COMMAND = 3, TREE_TID = 1, TREE_THREAD_NAME = 2, TREE_TGID = 3 };

/* The first word of the command line is the name of the process. */
static void describe_tree_process(kt_perfetto *p, kineto_string bytes)
{
    kineto_process process = {.rank = -1};
    int64_t pid = 0;
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, TREE_PID, KT_WIRE_VARINT))
            pid = (int32_t)f.n;
        else if (kt_field_is(&f, TREE_PPID, KT_WIRE_VARINT))
            process.ppid = (int32_t)f.n;
        else if (kt_field_is(&f, TREE_COMMAND, KT_WIRE_BYTES) && !process.name.size)
            process.name = f.bytes;
    }
    uint64_t *at = pid > 0 ? kb_map_insert(&p->tgid_of_tid, (uint64_t)pid, (uint64_t)pid, NULL) : NULL;
    if (at)
        kt_process_set(p->m.b, kt_process(p->m.b, false, pid, 0), &process);
}

/* Also tells the process of a thread for the scheduler's events. */
static void describe_tree_thread(kt_perfetto *p, kineto_string bytes)
{
    int64_t tid = 0, pid = 0;
    kineto_string name = {"", 0};
    kt_wire w = kt_wire_of(bytes);
    kt_field f;
    while (kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, TREE_TID, KT_WIRE_VARINT))
            tid = (int32_t)f.n;
        else if (kt_field_is(&f, TREE_TGID, KT_WIRE_VARINT))
            pid = (int32_t)f.n;
        else if (kt_field_is(&f, TREE_THREAD_NAME, KT_WIRE_BYTES))
            name = f.bytes;
    }
    if (tid <= 0 || pid <= 0)
        return;
    p->no_memory |= !kb_map_insert(&p->tgid_of_tid, (uint64_t)tid, (uint64_t)pid, NULL);
    if (name.size)
        kt_import_name_thread(&p->m, pid, tid, name);
}

/* Own files have their processes in the table. */
void pf_describe_tree(kt_perfetto *p, kineto_string process_tree)
{
    kt_wire w = kt_wire_of(process_tree);
    kt_field f;
    while (!p->is_own && kt_wire_next(&w, &f)) {
        if (kt_field_is(&f, TREE_PROCESS, KT_WIRE_BYTES))
            describe_tree_process(p, f.bytes);
        else if (kt_field_is(&f, TREE_THREAD, KT_WIRE_BYTES))
            describe_tree_thread(p, f.bytes);
    }
}

/* ---- places ----------------------------------------------------------------------------------- */

/* The number in the next brackets of a name; -1: none. `name` becomes the rest after them. */
static int64_t take_number_in_brackets(kineto_string *name)
{
    const char *at = name->size ? memchr(name->data, '[', name->size) : NULL, *end = name->data + name->size;
    int64_t n = 0;
    if (!at || ++at == end || !kb_is_digit(*at))
        return -1;
    for (; at < end && kb_is_digit(*at) && n < INT32_MAX; at++)
        n = 10 * n + (*at - '0');
    *name = (kineto_string){at, (size_t)(end - at)};
    return n;
}

/* A stream by the name that rocprofv3 gives it, such as "COMPUTE GPU [4] STREAM [1] (GPU)": the device is in the first
 * brackets, the stream or queue in the second ones. */
static bool find_named_stream(kineto_string name, int64_t *device, int64_t *stream)
{
    bool is_of_gpu = kb_string_contains(name, "GPU") &&
                     (kb_string_starts_with(name, "COMPUTE ") || kb_string_starts_with(name, "COPY "));
    *device = take_number_in_brackets(&name);
    *stream = take_number_in_brackets(&name);
    return is_of_gpu && *device >= 0 && *stream >= 0;
}

/* "THREAD 1 (4711)": the thread 4711; -1: another name. */
static int64_t find_named_thread(kineto_string name)
{
    const char *at = kb_string_starts_with(name, "THREAD ") ? memchr(name.data, '(', name.size) : NULL;
    int64_t tid = 0;
    for (at = at ? at + 1 : NULL; at && at < name.data + name.size && kb_is_digit(*at) && tid < INT32_MAX; at++)
        tid = 10 * tid + (*at - '0');
    return tid ? tid : -1;
}

/* The only process that was described; 0: none, or several. */
static int64_t find_only_pid(const kt_perfetto *p)
{
    int64_t pid = 0;
    for (size_t i = 0; i < p->tracks.count; i++) {
        int64_t other = p->tracks.data[i].pid;
        if (other && pid && other != pid)
            return 0;
        pid = other ? other : pid;
    }
    return pid;
}

/* The nearest ancestor with a process, or the topmost one; the track itself may be it. */
static const pf_track *find_root(const kt_perfetto *p, const pf_track *t)
{
    for (uint32_t i = 0; i < MAX_ANCESTORS && !t->pid && t->parent; i++) {
        const uint64_t *at = kb_map_find(&p->track_of_uuid, t->parent);
        if (!at)
            break;
        t = &p->tracks.data[*at];
    }
    return t;
}

/* *device receives its number, or -1. */
static bool is_device_root(const pf_track *root, int64_t *device)
{
    if (kt_is_device_name(root->name, device))
        return true;
    /* "GPU 0 (0)": a device in files that ckineto wrote before it wrote tables. */
    const char *end = memchr(root->name.data ? root->name.data : "", '(', root->name.size);
    kineto_string name = {root->name.data, end ? (size_t)(end - root->name.data) : 0};
    return end && kt_is_device_name(kb_string_trimmed(name), device);
}

/* The process row of a track without a thread of its own. */
static uint32_t find_process_row(kt_perfetto *p, const pf_track *t, const pf_track *root)
{
    kt_builder *b = p->m.b;
    int64_t device = -1, only = root->pid || root != t ? 0 : find_only_pid(p);
    if (root->pid || only)
        return kt_process(b, false, root->pid ? root->pid : only, 0);
    if (is_device_root(root, &device))
        return kt_process(b, true, KB_MAX(device, 0), 0);
    uint32_t process = kt_process_text(b, root->name.size ? root->name : kb_string("tracks"));
    kt_process_set(b, process, &(kineto_process){.name = root->name, .rank = -1});
    return process;
}

/* A row with this text; where another track of the process has it, with a number. */
static uint32_t make_text_track(kt_perfetto *p, uint32_t process, kineto_string name)
{
    char text[200];
    bool created = false;
    for (uint32_t n = 1; n < 100000 && !created; n++) {
        int size = kb_snprintf(text, sizeof text, n > 1 ? "%.*s (%u)" : "%.*s", (int)KB_MIN(name.size, (size_t)160),
                               name.size ? name.data : "", n);
        uint64_t key[] = {process, kb_hash(text, (size_t)size)};
        if (!kb_map_insert(&p->names_of_tracks, kb_hash(key, sizeof key), 1, &created)) {
            p->no_memory = true;
            break;
        }
    }
    return kt_track_text(p->m.b, process, kb_string(text));
}

/* The number that ends a name, such as "stream 7", of the rows of a device; -1: none. */
static int64_t number_at_end(kineto_string name)
{
    size_t at = name.size;
    int64_t n = 0;
    while (at && kb_is_digit(name.data[at - 1]))
        at--;
    for (size_t i = at; i < name.size && n < INT32_MAX; i++)
        n = 10 * n + (name.data[i] - '0');
    return at < name.size ? n : -1;
}

/* Tracks of rocprofv3 are told by their names; all others by where they are in the tree. */
static uint32_t make_plain_track(kt_perfetto *p, const pf_track *t)
{
    const pf_track *root = find_root(p, t);
    int64_t device, stream, tid = find_named_thread(t->name);
    if (root == t && find_named_stream(t->name, &device, &stream)) {
        uint32_t track = kt_import_stream(&p->m, device, stream);
        return track;
    }
    if (root == t && tid > 0 && find_only_pid(p))
        return kt_import_thread(&p->m, find_only_pid(p), tid);
    uint32_t process = find_process_row(p, t, root);
    if (root != t && !root->pid && is_device_root(root, &device) && (stream = number_at_end(t->name)) >= 0)
        return kt_track(p->m.b, process, KINETO_TRACK_STREAM, stream);
    kineto_string name = t->name.size ? t->name : kb_string(t->pid ? "process" : "track");
    return make_text_track(p, process, name);
}

/* "value [unit]", as writers of ckineto split it again. */
static uint32_t make_counter_key(kt_perfetto *p, const pf_track *t)
{
    char key[120] = "value";
    if (t->unit.size)
        kb_snprintf(key, sizeof key, "value [%.*s]", (int)KB_MIN(t->unit.size, (size_t)80), t->unit.data);
    return kt_string(p->m.b, kb_string(key));
}

/* All counters of a process share one track of the trace; their names tell them apart. */
static uint32_t make_counter_track(kt_perfetto *p, pf_track *t)
{
    const pf_track *root = find_root(p, t);
    t->name_id = kt_string(p->m.b, t->name.size ? t->name : kb_string("counter"));
    t->key_id = make_counter_key(p, t);
    return kt_track(p->m.b, find_process_row(p, t, root), KINETO_TRACK_COUNTER, 0);
}

/* The name of the descriptor, else that of the track. */
static uint32_t make_thread_track(kt_perfetto *p, const pf_track *t)
{
    uint32_t track = kt_import_thread(&p->m, t->pid, t->tid);
    kt_track_set(p->m.b, track, t->thread_name.size ? t->thread_name : t->name, 0);
    return track;
}

/* A lane of a track of ckineto is that track. */
static bool place_own_lane(kt_perfetto *p, pf_track *t)
{
    const uint64_t *at = p->is_own && t->parent ? kb_map_find(&p->track_of_uuid, t->parent) : NULL;
    if (!at || !p->tracks.data[*at].is_placed)
        return false;
    t->track = p->tracks.data[*at].track;
    return true;
}

/* Once for each track: at its first event. */
void pf_track_place(kt_perfetto *p, uint32_t index)
{
    pf_track *t = &p->tracks.data[index];
    if (t->is_placed)
        return;
    t->is_placed = true;
    if (place_own_lane(p, t))
        return;
    t->track = t->is_counter      ? make_counter_track(p, t)
               : t->pid && t->tid ? make_thread_track(p, t)
                                  : make_plain_track(p, t);
}

/* The default track, the thread of an old descriptor, or the track of the whole trace. */
uint32_t pf_track_of_sequence(kt_perfetto *p, const pf_sequence *s)
{
    if (s->has_track)
        return pf_track_find(p, s->track);
    if (!s->tid)
        return pf_track_find(p, 0);
    uint64_t key[] = {(uint64_t)s->pid, (uint64_t)s->tid};
    uint32_t index = pf_track_find(p, kb_hash(key, sizeof key));
    if (index != PF_NONE) {
        p->tracks.data[index].pid = s->pid;
        p->tracks.data[index].tid = s->tid;
    }
    return index;
}
