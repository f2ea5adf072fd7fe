/* JSON of rocprofv3 (--output-format json): {"rocprofiler-sdk-tool": [one object for each process]}, of which
 * "buffer_records" has lists of records, "strings" the names of kinds and operations and the texts of markers,
 * "agents" and "kernel_symbols" what the numbers of records stand for. */
#include "trace/bytes/json_value.h"
#include "trace/import/import.h"
#include "trace/import/rocm.h"

#define TOOL "rocprofiler-sdk-tool"

typedef struct rocprof {
    kt_rocm r;
    int64_t pid;
    uint64_t scope;
    kb_map gpus;    /* handle of an processor → number of the GPU + 1 */
    kb_map kernels; /* id → string id */
    kb_map markers; /* correlation → string id */
    KB_VEC(kineto_string) kinds, operations; /* by the number of the kind: name, list of names as JSON */
    kb_map operation_names; /* kind << 32 | operation → string id */
    bool has_streams;
    uint64_t unknown_releases, other_allocations, records;
} rocprof;

/* ---- values ----------------------------------------------------------------------------------- */

/* Members of an object, by the order of a list of keys; empty where it has none. */
static void find_members(kineto_string object, const char *const *keys, kineto_string *values, size_t count)
{
    kt_scan s = kt_scan_of(object);
    kineto_string key, value;
    bool first = true;
    for (size_t i = 0; i < count; i++)
        values[i] = (kineto_string){"", 0};
    if (kt_scan_peek(&s) != '{' || !kt_scan_open(&s, '{'))
        return;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value))
        for (size_t i = 0; i < count; i++)
            if (kt_json_is_key(key, keys[i]))
                values[i] = value;
}

/* 7, {"handle": 7}, "0x7". */
static int64_t read_handle(kineto_string raw, int64_t otherwise)
{
    int64_t value;
    if (raw.size && raw.data[0] == '{')
        raw = kt_member_of(raw, "handle");
    if (kt_value_whole(raw, &value))
        return value;
    if (raw.size > 4 && raw.size < 22 && raw.data[0] == '"' && raw.data[2] == 'x') {
        char text[24];
        kb_snprintf(text, sizeof text, "%.*s", (int)raw.size - 2, raw.data + 1);
        return (int64_t)strtoull(text, NULL, 16);
    }
    return otherwise;
}

/* Interns the text of a JSON string. */
static uint32_t keep_json_text(rocprof *p, kineto_string raw)
{
    char *room = raw.size ? malloc(raw.size + 1) : NULL;
    uint32_t id = room ? kt_string(p->r.m.b, kt_value_text(raw, room)) : 0;
    free(room);
    return id;
}

/* A later text of the same id replaces an earlier one. */
static void put_text(rocprof *p, kb_map *map, int64_t id, uint32_t text)
{
    uint64_t *slot = kb_map_insert(map, (uint64_t)id, 0, NULL);
    if (slot)
        *slot = text;
    else
        p->r.m.b->status = KINETO_E_MEMORY;
}

/* 0: there is none. */
static uint32_t find_text(const kb_map *map, int64_t id)
{
    const uint64_t *text = kb_map_find(map, (uint64_t)id);
    return text ? (uint32_t)*text : 0;
}

/* ---- what the numbers stand for --------------------------------------------------------------- */

/* Only GPUs are kept; their number is the one among the GPUs, or the order in the list. */
static void read_agents(rocprof *p, kineto_string list)
{
    static const char *const keys[] = {"id", "type", "name", "product_name", "cu_count", "logical_node_type_id", "node_id"};
    enum { GPU = 2 };
    kineto_string item, v[KB_COUNT(keys)];
    int64_t next = 0;
    for (kt_items items = kt_items_of(list); kt_items_next(&items, &item);) {
        char room[256];
        find_members(item, keys, v, KB_COUNT(keys));
        if (read_handle(v[1], 0) != GPU)
            continue;
        int64_t number = read_handle(v[5], next);
        kineto_string name = v[3].size > 2 ? v[3] : v[2];
        uint64_t *slot = kb_map_insert(&p->gpus, (uint64_t)read_handle(v[0], -1), 0, NULL);
        if (slot && number >= 0)
            *slot = (uint64_t)number + 1;
        if (number >= 0)
            kt_rocm_describe(&p->r, number, kt_value_text(name, name.size < sizeof room ? room : NULL), read_handle(v[4], 0));
        next++;
    }
}

/* The first name that is not empty: with parameters, else as the compiler made it. */
static void read_kernel_symbols(rocprof *p, kineto_string list)
{
    static const char *const keys[] = {"kernel_id", "formatted_kernel_name", "demangled_kernel_name", "kernel_name"};
    kineto_string item, v[KB_COUNT(keys)];
    for (kt_items items = kt_items_of(list); kt_items_next(&items, &item);) {
        find_members(item, keys, v, KB_COUNT(keys));
        size_t name = 1;
        while (name + 1 < KB_COUNT(keys) && v[name].size <= 2)
            name++;
        put_text(p, &p->kernels, read_handle(v[0], -1), keep_json_text(p, v[name]));
    }
}

/* Kinds and operations are numbered by their place; texts of markers belong to correlations. */
static void read_strings(rocprof *p, kineto_string strings)
{
    static const char *const kind_keys[] = {"kind", "operations"}, *const marker_keys[] = {"key", "value"};
    kineto_string item, v[2];
    for (kt_items items = kt_items_of(kt_member_of(strings, "buffer_records")); kt_items_next(&items, &item);) {
        find_members(item, kind_keys, v, 2);
        uint32_t name = keep_json_text(p, v[0]);
        if (!kb_vec_push(&p->kinds, kineto_trace_string(p->r.m.b->trace, name)) || !kb_vec_push(&p->operations, v[1]))
            p->r.m.b->status = KINETO_E_MEMORY;
    }
    for (kt_items items = kt_items_of(kt_member_of(strings, "marker_api")); kt_items_next(&items, &item);) {
        find_members(item, marker_keys, v, 2);
        put_text(p, &p->markers, read_handle(v[0], -1), keep_json_text(p, v[1]));
    }
}

/* The process: its number, and the last part of the path of its program. */
static void read_metadata(rocprof *p, kineto_string metadata)
{
    kineto_string program = kt_item_at(kt_member_of(metadata, "command"), 0);
    char room[512];
    p->pid = KB_MAX(read_handle(kt_member_of(metadata, "pid"), 0), 0);
    if (program.size < 2 || program.size > sizeof room)
        return;
    program = kt_value_text(program, room);
    const char *slash = memrchr(program.data, '/', program.size);
    kt_import_name_process(&p->r.m, p->pid, slash ? kb_string_skip(program, (size_t)(slash + 1 - program.data)) : program);
}

/* Names are found in the list of the kind, and kept. */
static uint32_t operation_name(rocprof *p, int64_t kind, int64_t operation)
{
    if (kind < 0 || (size_t)kind >= p->operations.count || operation < 0 || operation > 1 << 20)
        return 0;
    bool is_new = false;
    uint64_t *slot = kb_map_insert(&p->operation_names, (uint64_t)kind << 32 | (uint64_t)operation, 0, &is_new);
    if (slot && is_new)
        *slot = keep_json_text(p, kt_item_at(p->operations.data[kind], (uint32_t)operation));
    return slot ? (uint32_t)*slot : 0;
}

/* ---- records ---------------------------------------------------------------------------------- */

static const char *const record_keys[] = {"start_timestamp", "end_timestamp", "kind", "operation", "thread_id", "correlation_id",
                                          "stream_id", "dispatch_info", "bytes", "dst_agent_id", "src_agent_id", "agent_id",
                                          "address", "allocation_size"};
enum { START, END, KIND, OPERATION, THREAD, CORRELATION, STREAM, DISPATCH, BYTES, TO, FROM, PROCESSOR, ADDRESS, SIZE, RECORD_KEYS };

typedef struct record {
    kineto_string v[RECORD_KEYS];
    int64_t internal; /* correlation */
    kt_row row;
} record;

/* False: it has no times. */
static bool read_rocprof_record(rocprof *p, kineto_string item, record *r)
{
    *r = (record){.row = {.flags = 0}};
    find_members(item, record_keys, r->v, RECORD_KEYS);
    r->internal = read_handle(kt_member_of(r->v[CORRELATION], "internal"), 0);
    bool is_good = kt_json_int(r->v[START], &r->row.start_ns) && kt_json_int(r->v[END], &r->row.end_ns);
    p->r.bad += !is_good;
    p->records++;
    return is_good;
}

/* By stream of HIP, or by queue if no stream is known. */
static uint32_t stream_track(rocprof *p, const record *r, int64_t processor, kineto_string queue)
{
    int64_t stream = read_handle(p->has_streams || !queue.size ? r->v[STREAM] : queue, 0);
    uint32_t number = find_text(&p->gpus, processor);
    return kt_import_stream_of(&p->r.m, p->pid, number ? (int64_t)number - 1 : 0, stream);
}

/* {"x": 64, "y": 1, "z": 1}. */
static void read_triple(kineto_string object, int64_t *out)
{
    static const char *const keys[] = {"x", "y", "z"};
    kineto_string v[3];
    find_members(object, keys, v, 3);
    for (int i = 0; i < 3; i++)
        out[i] = read_handle(v[i], 0);
}

/* A launch: what was launched is in dispatch_info. */
static void append_kernel(rocprof *p, record *r)
{
    static const char *const keys[] = {"agent_id", "queue_id", "kernel_id", "group_segment_size", "workgroup_size", "grid_size"};
    kineto_string v[KB_COUNT(keys)];
    kt_rocm_launch launch = {.shared = -1};
    find_members(r->v[DISPATCH], keys, v, KB_COUNT(keys));
    launch.shared = read_handle(v[3], -1);
    read_triple(v[4], launch.block);
    read_triple(v[5], launch.grid);
    r->row.kind = KINETO_KIND_CONCURRENT_KERNEL;
    r->row.name = find_text(&p->kernels, read_handle(v[2], -1));
    if (!r->row.name)
        r->row.name = kt_string(p->r.m.b, kb_string("kernel without a name"));
    r->row.track = stream_track(p, r, read_handle(v[0], -1), v[1]);
    r->row.correlation_id = kt_import_id(&p->r.m, p->scope, (uint64_t)r->internal);
    kt_rocm_put_launch(&p->r, &launch);
    if (p->has_streams && v[1].size)
        kt_args_put_int(p->r.m.b, p->r.queue, read_handle(v[1], 0));
    kt_append(p->r.m.b, &r->row);
}

/* A copy belongs to the device that receives, or else sends. */
static void append_copy(rocprof *p, record *r)
{
    uint32_t operation = operation_name(p, read_handle(r->v[KIND], -1), read_handle(r->v[OPERATION], -1));
    int64_t to = read_handle(r->v[TO], -1);
    r->row.kind = KINETO_KIND_GPU_MEMCPY;
    r->row.name = kt_rocm_copy_name(&p->r, kineto_trace_string(p->r.m.b->trace, operation));
    r->row.track = stream_track(p, r, find_text(&p->gpus, to) ? to : read_handle(r->v[FROM], -1), (kineto_string){"", 0});
    r->row.correlation_id = kt_import_id(&p->r.m, p->scope, (uint64_t)r->internal);
    kt_rocm_put_copy(&p->r, read_handle(r->v[BYTES], -1), &r->row);
    kt_append(p->r.m.b, &r->row);
}

/* Memory of devices only. */
static void append_allocation(rocprof *p, record *r)
{
    uint32_t name = operation_name(p, read_handle(r->v[KIND], -1), read_handle(r->v[OPERATION], -1));
    kineto_string operation = kineto_trace_string(p->r.m.b->trace, name);
    uint32_t gpu = find_text(&p->gpus, read_handle(r->v[PROCESSOR], -1));
    bool is_release = kb_string_ends_with(operation, "FREE");
    r->row.track = kt_import_thread(&p->r.m, p->pid, read_handle(r->v[THREAD], 0));
    if ((gpu || is_release) && !kb_string_contains(operation, "VMEM"))
        p->unknown_releases += !kt_rocm_append_memory(&p->r, &r->row, gpu ? (int64_t)gpu - 1 : 0, read_handle(r->v[ADDRESS], 0),
                                                      is_release ? 0 : read_handle(r->v[SIZE], 0), is_release);
    else
        p->other_allocations++;
}

/* A call of an API, or a range or mark of ROCTx. */
static void append_call(rocprof *p, record *r)
{
    int64_t kind = read_handle(r->v[KIND], -1);
    kineto_string domain = kind >= 0 && (size_t)kind < p->kinds.count ? p->kinds.data[kind] : kb_string("unknown domain");
    bool is_marker = kt_rocm_is_marker(domain);
    kt_rocm_classify(&p->r, domain, &r->row);
    r->row.name = is_marker ? find_text(&p->markers, r->internal) : 0;
    if (!r->row.name)
        r->row.name = operation_name(p, kind, read_handle(r->v[OPERATION], -1));
    r->row.track = kt_import_thread(&p->r.m, p->pid, read_handle(r->v[THREAD], 0));
    if (kt_kind_is_launch(r->row.kind))
        r->row.correlation_id = kt_import_id(&p->r.m, p->scope, (uint64_t)r->internal);
    if (is_marker && r->row.start_ns == r->row.end_ns) {
        r->row.kind = KINETO_KIND_CPU_INSTANT_EVENT;
        r->row.form = KINETO_FORM_INSTANT;
    }
    kt_append(p->r.m.b, &r->row);
}

/* Records of one list, up to damage. */
static void read_records(rocprof *p, kineto_string list, void (*append)(rocprof *, record *))
{
    kineto_string item;
    record r;
    for (kt_items items = kt_items_of(list); kt_items_next(&items, &item);)
        if (read_rocprof_record(p, item, &r))
            append(p, &r);
}

/* Records that the trace has no rows for. */
static void count_records(rocprof *p, kineto_string key, kineto_string list)
{
    char reason[120];
    kineto_string item, name = kb_utf8_cut(key, 60);
    uint64_t count = 0;
    for (kt_items items = kt_items_of(list); kt_items_next(&items, &item);)
        count++;
    kb_snprintf(reason, sizeof reason, "records of %.*s: not read", (int)name.size, name.data);
    kt_import_lost(&p->r.m, reason, count, kb_string(""));
}

/* Streams of HIP are known if any kernel has a number but that of the default stream. */
static void find_streams(rocprof *p, kineto_string kernels)
{
    kineto_string item;
    p->has_streams = false;
    for (kt_items items = kt_items_of(kernels); !p->has_streams && kt_items_next(&items, &item);)
        p->has_streams = read_handle(kt_member_of(item, "stream_id"), 0) > 0;
}

/* Lists whose records are not calls. */
static bool is_unread_list(kineto_string key)
{
    static const char *const names[] = {"scratch_memory", "kfd", "hip_graph", "pc_sample_host_trap", "pc_sample_stochastic"};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (kb_string_is(key, names[i]))
            return true;
    return false;
}

/* ---- the document ----------------------------------------------------------------------------- */

/* The value at the scan; of a damaged one all that is left of the text. */
static kineto_string scan_value_or_rest(kt_scan *s)
{
    kineto_string value;
    (void)kt_scan_peek(s);
    const char *begin = s->at;
    return kt_scan_value(s, &value) ? value : (kineto_string){begin, (size_t)(s->end - begin)};
}

/* Lists by domain; those of callbacks are counted only. */
static void read_buffers(rocprof *p, kineto_string buffers, bool are_callbacks)
{
    kt_scan s = kt_scan_of(buffers);
    kineto_string key;
    bool first = true;
    if (kt_scan_peek(&s) != '{' || !kt_scan_open(&s, '{'))
        return;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key)) {
        kineto_string list = scan_value_or_rest(&s);
        if (are_callbacks || is_unread_list(key)) {
            count_records(p, key, list);
        } else if (kb_string_is(key, "kernel_dispatch")) {
            find_streams(p, list);
            read_records(p, list, append_kernel);
        } else {
            read_records(p, list, kb_string_is(key, "memory_copy")         ? append_copy
                                  : kb_string_is(key, "memory_allocation") ? append_allocation
                                                                           : append_call);
        }
    }
}

enum { METADATA, PROCESSORS, STRINGS, KERNELS, CALLBACKS, BUFFERS, PARTS };

/* False: it is damaged; what there is was read. */
static bool read_process(rocprof *p, kt_scan *s)
{
    static const char *const keys[PARTS] = {"metadata", "agents", "strings", "kernel_symbols", "callback_records", "buffer_records"};
    kineto_string key, part[PARTS] = {{"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}, {"", 0}};
    bool first = true;
    if (!kt_scan_open(s, '{'))
        return false;
    while (kt_scan_more(s, &first, '{') && kt_scan_key(s, &key)) {
        kineto_string value = scan_value_or_rest(s);
        for (size_t i = 0; i < PARTS; i++)
            if (kt_json_is_key(key, keys[i]))
                part[i] = value;
    }
    read_metadata(p, part[METADATA]);
    read_strings(p, part[STRINGS]);
    read_agents(p, part[PROCESSORS]);
    read_kernel_symbols(p, part[KERNELS]);
    read_buffers(p, part[CALLBACKS], true);
    read_buffers(p, part[BUFFERS], false);
    return !s->problem;
}

/* Ids of one process mean nothing in the next one. */
static void free_process(rocprof *p)
{
    kb_map_free(&p->gpus);
    kb_map_free(&p->kernels);
    kb_map_free(&p->markers);
    kb_map_free(&p->operation_names);
    kb_map_free(&p->r.allocations);
    kb_vec_free(&p->kinds);
    kb_vec_free(&p->operations);
}

/* One object, or a list of them. */
static void read_process_list(rocprof *p, kt_scan *s)
{
    bool first = true, is_good = true;
    if (kt_scan_peek(s) == '{') {
        (void)read_process(p, s);
        free_process(p);
        return;
    }
    if (!kt_scan_open(s, '['))
        return;
    while (is_good && kt_scan_more(s, &first, '[')) {
        p->scope++;
        is_good = read_process(p, s);
        free_process(p);
    }
}

/* Other members of the document are skipped. */
static void read_document(rocprof *p, kt_scan *s)
{
    kineto_string key, value;
    bool first = true;
    if (!kt_scan_open(s, '{'))
        return;
    while (kt_scan_more(s, &first, '{') && kt_scan_key(s, &key))
        if (kt_json_is_key(key, TOOL))
            read_process_list(p, s);
        else if (!kt_scan_value(s, &value))
            return;
}

/* Damage costs what follows; without any record it is an error. */
static kineto_status finish_document(rocprof *p, const kt_scan *s, kineto_error *err)
{
    char place[80];
    if (!s->problem)
        return KINETO_OK;
    if (!p->records) {
        kineto_status status = kb_fail(err, KINETO_E_FORMAT, "JSON of rocprofv3 is damaged: %s (byte %zu)", s->problem,
                                       (size_t)(s->at - s->begin));
        if (err)
            err->offset = (size_t)(s->at - s->begin);
        return status;
    }
    kb_snprintf(place, sizeof place, "%s (byte %zu)", s->problem, (size_t)(s->at - s->begin));
    kt_import_lost(&p->r.m, "the text is damaged: what follows was not read", 1, kb_string(place));
    return KINETO_OK;
}

bool kt_is_rocprof_json(kineto_string head)
{
    head.size = KB_MIN(head.size, (size_t)256);
    return kb_string_contains(head, "\"" TOOL "\"");
}

kineto_status kt_import_rocprof_json(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    rocprof p = {.pid = 0};
    kineto_status status = kt_rocm_begin(&p.r, source, "rocprofv3", err);
    if (!status) {
        kt_scan s = kt_scan_of(source->bytes);
        kt_rocm_put_header(&p.r, "rocprofv3 (JSON)");
        read_document(&p, &s);
        kt_import_note(&p.r.m, "allocations that are not memory of a device: not read", p.other_allocations, kb_string(""));
        kt_import_note(&p.r.m, "releases of memory whose allocation is not in the file: not read", p.unknown_releases,
                       kb_string(""));
        kt_import_lost(&p.r.m, "rows with a value that is missing or of a wrong type: left out", p.r.bad, kb_string(""));
        status = finish_document(&p, &s, err);
    }
    if (!status)
        status = kt_import_finish(&p.r.m, out, err);
    free_process(&p);
    kt_rocm_free(&p.r);
    return status;
}
