/* The tables of a recording (processes, threads, devices, streams) as rows of a trace, and
 * the entries of its dictionary that fill them. A row is created with its first event, so
 * tables without events leave no empty rows. Entries come before events (see the passes in
 * build.c) and are untrusted: a malformed one is counted and skipped. */
#include "trace/from_recording/build.h"
#include "trace/bytes/json_text.h"

/* ---- processes ------------------------------------------------------------------------------- */

/* Adds a process without a row; its index. 0 and s->out_of_memory on failure. */
static uint32_t add_process_entry(kt_build_state *s, kt_build_process p)
{
    p.row = p.number = KT_NONE;
    if (!kb_vec_push(&s->processes, p)) {
        s->out_of_memory = true;
        return 0;
    }
    return (uint32_t)s->processes.count - 1;
}

/* The process of an entry, added on first use. Each recorder of a process (a preloaded one
 * and a static copy) announces it. */
static uint32_t find_or_add_process(kt_build_state *s, const kf_process_entry *e)
{
    for (uint32_t i = 0; i < s->processes.count; i++) {
        const kt_build_process *p = &s->processes.data[i];
        if (p->pid == e->pid && p->start_time == e->start_time && p->exec_id == e->exec_id)
            return i;
    }
    return add_process_entry(
        s, (kt_build_process){
               .pid = e->pid, .start_time = e->start_time, .exec_id = e->exec_id, .ppid = e->ppid});
}

/* The process of an event, by its entry, or else the latest process with its pid. */
static uint32_t process_of_event(kt_build_state *s, uint32_t entry, uint32_t pid)
{
    const uint64_t *known = entry ? kb_map_find(&s->process_of_entry, entry) : NULL;
    if (known && s->processes.data[*known].pid == pid)
        return (uint32_t)*known;
    for (size_t i = s->processes.count; i > 0; i--)
        if (s->processes.data[i - 1].pid == pid)
            return (uint32_t)i - 1;
    return add_process_entry(s, (kt_build_process){.pid = pid});
}

/* The name to show: the one that the program set, else the file name of its command, else
 * its short name. */
static kineto_string shown_process_name(const kt_build_process *p)
{
    kineto_string name = p->command;
    const char *end = memchr(name.data ? name.data : "", ' ', name.size);
    if (end)
        name.size = (size_t)(end - name.data);
    for (size_t i = name.size; i > 0; i--) {
        if (name.data[i - 1] != '/')
            continue;
        name.data += i;
        name.size -= i;
        break;
    }
    if (p->given_name.size)
        return p->given_name;
    return name.size ? name : p->name;
}

/* The rank in a recorded place in a job; -1: none. */
static int32_t parse_rank_object(kineto_string object)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true;
    uint64_t rank;
    if (!object.size || !kt_scan_open(&scan, '{'))
        return -1;
    while (kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            return -1;
        if (kb_string_equal(key, kb_string("rank")))
            return kt_json_uint(value, &rank) && rank <= INT32_MAX ? (int32_t)rank : -1;
    }
    return -1;
}

uint32_t kt_build_process_row(kt_build_state *s, uint32_t process)
{
    kt_build_process *p = &s->processes.data[process];
    KB_ASSERT(process < s->processes.count);
    if (p->row != KT_NONE)
        return p->row;
    uint64_t image[2] = {p->start_time, p->exec_id};
    p->row = kt_process(s->b, false, p->pid, kb_hash(image, sizeof image));
    kineto_process row = {.pid = p->pid,
                          .ppid = p->ppid,
                          .name = shown_process_name(p),
                          .label = {"CPU", 3},
                          .sort_index = p->pid,
                          .rank = parse_rank_object(p->rank)};
    kt_process_set(s->b, p->row, &row);
    return p->row;
}

/* True if the process is `root` or a descendant of it, by recorded parents, up to the first
 * parent that is not in the recording. */
static bool is_descendant(const kt_build_state *s, uint32_t process, uint32_t root)
{
    for (size_t steps = 0; steps <= s->processes.count; steps++) {
        const kt_build_process *p = &s->processes.data[process];
        if (p->pid == root)
            return true;
        uint32_t parent = KT_NONE;
        for (uint32_t i = 0; i < s->processes.count && parent == KT_NONE; i++)
            if (s->processes.data[i].pid == p->ppid)
                parent = i;
        if (parent == KT_NONE)
            return p->ppid == root;
        process = parent;
    }
    return false;
}

bool kt_build_below_root(kt_build_state *s)
{
    kt_build_process *p = &s->processes.data[s->here];
    if (!p->below)
        p->below = is_descendant(s, s->here, s->options.root_pid) ? 1 : 2;
    return p->below == 1;
}

/* ---- threads --------------------------------------------------------------------------------- */

/* Index of the thread, added on first use; 0 and s->out_of_memory on failure. */
static uint32_t find_or_add_thread(kt_build_state *s, uint32_t process, uint32_t tid)
{
    bool created;
    uint64_t *slot =
        kb_map_insert(&s->thread_of_key, (uint64_t)process << 32 | tid, s->threads.count, &created);
    kt_build_thread thread = {.process = process, .tid = tid, .track = KT_NONE};
    KB_ASSERT(s->out_of_memory || process < s->processes.count);
    if (slot && !created)
        return (uint32_t)*slot;
    if (!slot || !kb_vec_push(&s->threads, thread)) {
        s->out_of_memory = true;
        return 0;
    }
    return (uint32_t)s->threads.count - 1;
}

/* The number of a recorder of the process (KT_WRITER), by its dictionary entry: a program
 * and its libraries may have copies of the recorder. All after the second share number 3. */
static uint32_t writer_number(kt_build_process *p, uint32_t entry)
{
    for (uint32_t i = 0; i < KB_COUNT(p->writers); i++) {
        if (!p->writers[i])
            p->writers[i] = entry;
        if (p->writers[i] == entry)
            return i + 1;
    }
    return KB_COUNT(p->writers) + 1;
}

void kt_build_change_thread(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid)
{
    s->last_process = process;
    s->last_pid = pid;
    s->last_tid = tid;
    s->here = process_of_event(s, process, pid);
    s->here_thread = find_or_add_thread(s, s->here, tid);
    s->here_writer = s->out_of_memory ? 1 : writer_number(&s->processes.data[s->here], process);
    s->here_valid = true;
    KB_ASSERT(s->out_of_memory || s->here_thread < s->threads.count);
}

void kt_build_select_watcher(kt_build_state *s, uint32_t process, uint32_t pid, uint32_t tid)
{
    s->here = process_of_event(s, process, pid);
    s->here_thread = find_or_add_thread(s, s->here, tid);
    s->here_valid = false; /* the next event of a program selects its thread anew */
}

uint32_t kt_build_new_thread_track(kt_build_state *s)
{
    kt_build_thread *t = &s->threads.data[s->here_thread];
    uint32_t row = kt_build_process_row(s, t->process);
    KB_ASSERT(t->track == KT_NONE); /* a thread gets its track once */
    t->track = kt_track(s->b, row, KINETO_TRACK_THREAD, t->tid);
    return t->track;
}

kineto_status kt_build_thread_name(void *state, uint32_t process, uint32_t pid, uint32_t tid,
                                   kineto_string name, bool of_system)
{
    kt_build_state *s = state;
    kt_build_select_thread(s, process, pid, tid);
    if (s->out_of_memory)
        return KINETO_E_MEMORY;
    kt_build_thread *t = &s->threads.data[s->here_thread];
    *(of_system ? &t->system_name : &t->name) = name;
    return KINETO_OK;
}

/* True if a system name is that of the process, which a thread inherits until it gets its
 * own. The system truncates names. */
static bool is_inherited_name(const kt_build_process *p, kineto_string name)
{
    return name.size <= p->name.size && memcmp(name.data, p->name.data, name.size) == 0 &&
           (name.size == p->name.size || name.size == KB_OS_THREAD_NAME_BYTES - 1);
}

/* The name to show: the one that the program set, else the system's; the first thread has
 * the short name of its process. */
static kineto_string shown_thread_name(const kt_build_process *p, const kt_build_thread *t)
{
    if (t->name.size)
        return t->name;
    if (t->system_name.size && !is_inherited_name(p, t->system_name))
        return t->system_name;
    return t->tid == p->pid ? p->name : t->name;
}

kineto_string kt_build_thread_name_of(const kt_build_state *s, uint32_t thread)
{
    const kt_build_thread *t = &s->threads.data[thread];
    return shown_thread_name(&s->processes.data[t->process], t);
}

/* Sets the name of a thread's track: "thread 42 (worker)". */
static void set_thread_track_name(kt_build_state *s, const kt_build_thread *t)
{
    kineto_string name = shown_thread_name(&s->processes.data[t->process], t);
    KB_ASSERT(t->track != KT_NONE);
    char text[160];
    int n = name.size ? snprintf(text, sizeof text, "thread %u (%.*s)", t->tid,
                                 (int)KB_MIN(name.size, (size_t)120), name.data)
                      : snprintf(text, sizeof text, "thread %u", t->tid);
    kt_track_set(s->b, t->track, (kineto_string){text, (size_t)n},
                 t->order ? t->order : (int64_t)t->tid);
}

void kt_build_name_threads(kt_build_state *s)
{
    for (size_t i = 0; i < s->threads.count; i++)
        if (s->threads.data[i].track != KT_NONE)
            set_thread_track_name(s, &s->threads.data[i]);
}

/* ---- devices --------------------------------------------------------------------------------- */

kineto_string kt_build_source_name(const kt_build_state *s, uint32_t source)
{
    if (source < KF_MAX_SOURCES && s->source_names[source].size)
        return s->source_names[source];
    return kb_string(source == KF_SOURCE_API ? "program" : "unnamed source");
}

/* True if two sources are the same vendor's: device 0 of a vendor is the same device in
 * every process. */
static bool is_same_source(const kt_build_state *s, uint32_t a, uint32_t b)
{
    return a == b || kb_string_equal(kt_build_source_name(s, a), kt_build_source_name(s, b));
}

static kt_build_device *find_announced_device(kt_build_state *s, uint32_t source, int64_t device)
{
    for (size_t i = 0; i < s->devices.count; i++)
        if (s->devices.data[i].device == device &&
            is_same_source(s, s->devices.data[i].source, source))
            return &s->devices.data[i];
    return NULL;
}

/* The announced device, added if it is new; NULL: out of memory. */
static kt_build_device *find_or_add_announced_device(kt_build_state *s, uint32_t source,
                                                     int64_t device)
{
    kt_build_device *d = find_announced_device(s, source, device);
    if (d)
        return d;
    if (kb_vec_push(&s->devices, (kt_build_device){.source = source, .device = device}))
        return &s->devices.data[s->devices.count - 1];
    s->out_of_memory = true;
    return NULL;
}

/* Sort index of devices, after all processes, unless the source sets one. */
#define DEVICE_SORT_INDEX 5000000

uint32_t kt_build_device_row(kt_build_state *s, uint32_t source, int64_t device)
{
    kineto_string source_name = kt_build_source_name(s, source);
    size_t known = s->b->trace->processes.count;
    uint32_t row = kt_process(s->b, true, device, kb_hash(source_name.data, source_name.size));
    if (s->b->trace->processes.count == known)
        return row;
    const kt_build_device *d = find_announced_device(s, source, device);
    char label[48];
    int n = snprintf(label, sizeof label, "device %lld", (long long)device);
    kineto_process p = {.is_device = true,
                        .pid = device,
                        .name = d && d->name.size ? d->name : source_name,
                        .label = d && d->label.size ? d->label : (kineto_string){label, (size_t)n},
                        .sort_index = d && d->sort_index ? d->sort_index
                                                         : DEVICE_SORT_INDEX + (device & 0xffff),
                        .rank = -1};
    kt_process_set(s->b, row, &p);
    return row;
}

void kt_build_devices(kt_build_state *s)
{
    for (size_t i = 0; i < s->devices.count; i++) {
        const kt_build_device *d = &s->devices.data[i];
        uint32_t row = kt_build_device_row(s, d->source, d->device);
        kf_args props = {d->props, d->prop_words, NULL};
        kineto_process p = {.rank = -1};
        p.properties_json = kt_build_object(s, d->device, d->name, &props);
        kt_process_set(s->b, row, &p);
    }
}

/* ---- streams --------------------------------------------------------------------------------- */

/* The last entry about a stream; entries of the current process take precedence. NULL: none. */
static const kt_build_resource *find_resource(const kt_build_state *s, uint32_t source,
                                              int32_t device, int32_t resource)
{
    const kt_build_resource *found = NULL;
    for (size_t i = 0; i < s->resources.count; i++) {
        const kt_build_resource *r = &s->resources.data[i];
        bool same =
            r->device == device && r->resource == resource && is_same_source(s, r->source, source);
        if (same && (!found || r->process == s->here || found->process != s->here))
            found = r;
    }
    return found;
}

/* Sets name and sort index of a stream's track; `foreign`: the stream is not of the first
 * process. */
static void set_stream_track_name(kt_build_state *s, uint32_t track, uint32_t source,
                                  int32_t device, int32_t resource, bool foreign)
{
    const kt_build_resource *r = find_resource(s, source, device, resource);
    char name[300], suffix[32] = "";
    int n;
    if (foreign)
        snprintf(suffix, sizeof suffix, " (process %u)", s->processes.data[s->here].pid);
    if (r && r->name.size)
        n = snprintf(name, sizeof name, "%.*s%s", (int)KB_MIN(r->name.size, (size_t)255),
                     r->name.data, suffix);
    else
        n = snprintf(name, sizeof name, "stream %d%s", resource, suffix);
    kt_track_set(s->b, track, (kineto_string){name, (size_t)n},
                 r && r->order ? r->order : resource);
}

/* Track of a stream. Streams of several processes with one number are different: the upper
 * half of the id is the number of the process. */
static uint32_t find_or_add_stream_track(kt_build_state *s, uint32_t source, int32_t device,
                                         int32_t resource)
{
    uint32_t row = kt_build_device_row(s, source, device);
    int64_t number = kt_build_number(s);
    size_t known = s->b->trace->tracks.count;
    int64_t id = number == 0 ? resource : number << 32 | (uint32_t)resource;
    uint32_t track = kt_track(s->b, row, KINETO_TRACK_STREAM, id);
    if (s->b->trace->tracks.count != known)
        set_stream_track_name(s, track, source, device, resource, number != 0);
    return track;
}

uint32_t kt_build_stream_track(kt_build_state *s, uint32_t source, int32_t device, int32_t resource)
{
    uint32_t place = ((uint32_t)resource ^ (uint32_t)device * 5 ^ source * 3) % KT_BUILD_STREAMS;
    if (s->streams[place].valid && s->streams[place].source == source &&
        s->streams[place].device == device && s->streams[place].resource == resource &&
        s->streams[place].here == s->here)
        return s->streams[place].track;
    uint32_t track = find_or_add_stream_track(s, source, device, resource);
    s->streams[place].source = source;
    s->streams[place].device = device;
    s->streams[place].resource = resource;
    s->streams[place].here = s->here;
    s->streams[place].track = track;
    s->streams[place].valid = true;
    return track;
}

/* ---- entries ----------------------------------------------------------------------------------
 * A handler of an entry returns false if the entry is malformed. */

static bool read_process_entry(kt_build_state *s, uint32_t id, const uint8_t *payload, size_t size)
{
    kf_process_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    uint32_t index = find_or_add_process(s, &e);
    if (s->out_of_memory || !kb_map_insert(&s->process_of_entry, id, index, NULL)) {
        s->out_of_memory = true;
        return true;
    }
    kt_build_process *p = &s->processes.data[index];
    size_t at = sizeof e;
    p->name = kf_entry_text(payload, size, &at);
    p->command = kf_entry_text(payload, size, &at);
    return true;
}

static bool read_process_name_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    uint32_t process;
    if (size < sizeof process)
        return false;
    memcpy(&process, payload, sizeof process);
    const uint64_t *index = kb_map_find(&s->process_of_entry, process);
    size_t at = sizeof process;
    if (index)
        s->processes.data[*index].given_name = kf_entry_text(payload, size, &at);
    return true;
}

static bool read_thread_name_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_thread_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    size_t at = sizeof e;
    uint32_t thread = find_or_add_thread(s, process_of_event(s, 0, e.pid), e.tid);
    if (!s->out_of_memory)
        s->threads.data[thread].system_name = kf_entry_text(payload, size, &at);
    return true;
}

static bool read_source_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_source_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    size_t at = sizeof e;
    if (e.source < KF_MAX_SOURCES && !s->source_names[e.source].size)
        s->source_names[e.source] = kf_entry_text(payload, size, &at);
    return e.source < KF_MAX_SOURCES;
}

static bool read_clock_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_clock_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    size_t at = sizeof e;
    kt_build_add_clock(s, e.process, e.clock, kf_entry_text(payload, size, &at));
    return true;
}

static bool read_device_entry(kt_build_state *s, kf_entry_type type, const uint8_t *payload,
                              size_t size)
{
    kf_device_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    kt_build_device *d = find_or_add_announced_device(s, e.source, e.device);
    if (!d)
        return true;
    size_t at = sizeof e;
    if (type == KF_ENTRY_DEVICE_PROPS) {
        d->props = (const uint64_t *)(const void *)(payload + sizeof e);
        d->prop_words = (uint32_t)((size - sizeof e) / sizeof(uint64_t));
        return true;
    }
    d->sort_index = e.sort_index;
    d->name = kf_entry_text(payload, size, &at);
    d->label = kf_entry_text(payload, size, &at);
    return true;
}

static bool read_resource_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_resource_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    const uint64_t *process = kb_map_find(&s->process_of_entry, e.process);
    size_t at = sizeof e;
    kineto_string name = kf_entry_text(payload, size, &at);
    if (process && s->processes.data[*process].pid == (uint32_t)e.device) { /* names a thread */
        uint32_t thread = find_or_add_thread(s, (uint32_t)*process, (uint32_t)e.resource);
        if (!s->out_of_memory) {
            s->threads.data[thread].name = name;
            s->threads.data[thread].order = e.order;
        }
        return true;
    }
    kt_build_resource r = {.source = e.source,
                           .process = process ? (uint32_t)*process : KT_NONE,
                           .device = e.device,
                           .resource = e.resource,
                           .order = e.order,
                           .name = name};
    s->out_of_memory |= !kb_vec_push(&s->resources, r);
    return true;
}

/* True if an entry was recorded in the time of this trace. Ticks 0: it is valid at any time. */
static bool is_entry_of_this_trace(const kt_build_state *s, uint64_t from, uint64_t ticks)
{
    const kt_build_options *o = &s->options;
    uint64_t until = o->stated_until ? o->stated_until : o->end_ticks;
    return !ticks || (ticks >= from && (!until || ticks <= until));
}

/* Metadata key of the place of a process in a job: a JSON object with "rank" and
 * "world_size". It is a property of the process; the header gets the members that all
 * processes share. */
#define RANK_KEY "ckineto_rank"

/* Stores the place of a process. */
static void store_process_rank(kt_build_state *s, uint32_t entry, kineto_string value)
{
    const uint64_t *process = kb_map_find(&s->process_of_entry, entry);
    if (process && kb_json_valid(value))
        s->processes.data[*process].rank = value;
}

/* The first member of a JSON object with this key; size 0: none. */
static kineto_string find_json_member(kineto_string object, kineto_string wanted)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true;
    if (!object.size || !kt_scan_open(&scan, '{'))
        return (kineto_string){"", 0};
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        if (kb_string_equal(key, wanted))
            return value;
    return (kineto_string){"", 0};
}

/* True if all processes with a recorded place have the same value for this member. */
static bool is_shared_by_ranks(const kt_build_state *s, kineto_string key, kineto_string value)
{
    for (size_t i = 0; i < s->processes.count; i++)
        if (s->processes.data[i].rank.size &&
            !kb_string_equal(find_json_member(s->processes.data[i].rank, key), value))
            return false;
    return true;
}

/* Adds "distributedInfo" with the members that all ranks share: with one rank all of them,
 * else without "rank". */
static void add_shared_rank_members(kt_build_state *s, kineto_string object)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true, any = false;
    s->text.count = 0;
    kt_build_append_text(s, kb_string("{"));
    if (!kt_scan_open(&scan, '{'))
        return;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        if (!is_shared_by_ranks(s, key, value))
            continue;
        kt_build_append_text(s, kb_string(any ? ",\"" : "\""));
        kt_build_append_text(s, key);
        kt_build_append_text(s, kb_string("\":"));
        kt_build_append_text(s, value);
        any = true;
    }
    kt_build_append_text(s, kb_string("}"));
    if (any)
        kt_metadata(s->b, kb_string("distributedInfo"),
                    (kineto_string){s->text.data, s->text.count});
}

void kt_build_rank(kt_build_state *s)
{
    if (kt_build_header_has(s, "distributedInfo"))
        return;
    for (size_t i = 0; i < s->processes.count; i++)
        if (s->processes.data[i].rank.size) {
            add_shared_rank_members(s, s->processes.data[i].rank);
            return;
        }
}

static bool read_meta_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_meta_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    if (s->options.stated_from && !is_entry_of_this_trace(s, s->options.stated_from, e.ticks))
        return true;
    size_t at = sizeof e;
    kineto_string key = kf_entry_text(payload, size, &at);
    kineto_string value = kf_entry_text(payload, size, &at);
    if (kb_string_equal(key, kb_string(RANK_KEY))) {
        store_process_rank(s, e.process, value);
        return true;
    }
    s->bad_json_meta += !kb_json_valid(value);
    kt_metadata(s->b, key, value);
    return true;
}

static bool read_module_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_module_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    size_t at = sizeof e;
    kt_module module = {
        .start = e.start, .end = e.end, .file_offset = e.file_offset, .is_gone = e.is_gone != 0};
    module.path = kf_entry_text(payload, size, &at);
    module.build_id = kf_entry_text(payload, size, &at);
    const uint64_t *process = kb_map_find(&s->process_of_entry, e.process);
    if (!process)
        return false;
    kt_build_process *p = &s->processes.data[*process];
    if (!p->symbols)
        p->symbols = kt_build_create_symbols(s, p->pid, true);
    if (!p->symbols) {
        s->out_of_memory = true;
        return true;
    }
    kineto_status status = kt_symbols_add(p->symbols, &module, NULL);
    s->out_of_memory |= status == KINETO_E_MEMORY;
    return status != KINETO_E_ARGUMENT;
}

/* Saturating addition. */
static void add_saturating(uint64_t *sum, uint64_t count)
{
    if (__builtin_add_overflow(*sum, count, sum))
        *sum = UINT64_MAX;
}

/* Adds a ledger entry, or sums it with the line that has the same texts: sources write a
 * line again when its count has grown. */
static void sum_ledger_entry(kt_build_state *s, const kf_ledger_entry *e,
                             const kineto_string *texts)
{
    uint64_t about[4] = {e->is_loss != 0};
    for (size_t i = 0; i < 3; i++)
        about[i + 1] = kt_string(s->b, texts[i]);
    size_t next = s->b->trace->ledger.count;
    bool created;
    uint64_t *line =
        kb_map_insert(&s->ledger_of_text, kb_hash(about, sizeof about), next, &created);
    KB_ASSERT(!line || created || *line < s->b->trace->ledger.count);
    if (!line || created)
        kt_ledger_add(s->b, texts[0], texts[1], e->count, e->is_loss != 0, texts[2]);
    else
        add_saturating(&s->b->trace->ledger.data[*line].count, e->count);
    s->out_of_memory |= !line;
}

static bool read_ledger_entry(kt_build_state *s, const uint8_t *payload, size_t size)
{
    kf_ledger_entry e;
    if (size < sizeof e)
        return false;
    memcpy(&e, payload, sizeof e);
    const kt_build_options *o = &s->options;
    if (!is_entry_of_this_trace(s, o->stated_from ? o->stated_from : o->start_ticks, e.ticks))
        return true;
    size_t at = sizeof e;
    kineto_string texts[3]; /* source, reason, detail */
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        texts[i] = kf_entry_text(payload, size, &at);
    sum_ledger_entry(s, &e, texts);
    return true;
}

static bool dispatch_entry(kt_build_state *s, uint32_t id, kf_entry_type type,
                           const uint8_t *payload, size_t size)
{
    switch (type) {
    case KF_ENTRY_PROCESS:
    case KF_ENTRY_WATCHED_PROCESS:
        return read_process_entry(s, id, payload, size);
    case KF_ENTRY_PROCESS_NAME:
        return read_process_name_entry(s, payload, size);
    case KF_ENTRY_THREAD_NAME:
        return read_thread_name_entry(s, payload, size);
    case KF_ENTRY_SOURCE:
        return read_source_entry(s, payload, size);
    case KF_ENTRY_CLOCK:
        return read_clock_entry(s, payload, size);
    case KF_ENTRY_DEVICE:
    case KF_ENTRY_DEVICE_PROPS:
        return read_device_entry(s, type, payload, size);
    case KF_ENTRY_RESOURCE:
        return read_resource_entry(s, payload, size);
    case KF_ENTRY_META:
        return read_meta_entry(s, payload, size);
    case KF_ENTRY_LEDGER:
        return read_ledger_entry(s, payload, size);
    case KF_ENTRY_MODULE:
        return read_module_entry(s, payload, size);
    default:
        return true;
    }
}

kineto_status kt_build_entry(void *state, uint32_t id, kf_entry_type type, const uint8_t *payload,
                             size_t size)
{
    kt_build_state *s = state;
    if (!dispatch_entry(s, id, type, payload, size))
        s->bad_entries++;
    return s->out_of_memory ? KINETO_E_MEMORY : KINETO_OK;
}
