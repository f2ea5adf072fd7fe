/* Exports of Nsight Systems: what concerns the whole file. Tables are created only if they have rows, and columns
 * differ by version; so each reader asks for the columns it knows, and takes what is there. nsys_device.c and
 * nsys_host.c read the events. */
#include "trace/import/nsys.h"

#define MAX_DIAGNOSTICS 20u

static const char *const key_names[NSYS_KEYS] = {
    [NSYS_CONTEXT] = "context",
    [NSYS_REGISTERS] = "registers per thread",
    [NSYS_SHARED] = "shared memory",
    [NSYS_BLOCKS_PER_SM] = "blocks per SM",
    [NSYS_WARPS_PER_SM] = "warps per SM",
    [NSYS_GRID] = "grid",
    [NSYS_BLOCK] = "block",
    [NSYS_GRAPH] = "graph id",
    [NSYS_GRAPH_NODE] = "graph node id",
    [NSYS_BYTES] = "bytes",
    [NSYS_BANDWIDTH] = "memory bandwidth (GB/s)",
    [NSYS_SYNC_KIND] = "cuda_sync_kind",
    [NSYS_WAIT_STREAM] = "wait_on_stream",
    [NSYS_WAIT_RECORD] = "wait_on_cuda_event_record_corr_id",
    [NSYS_WAIT_EVENT] = "wait_on_cuda_event_id",
    [NSYS_STREAM] = "stream",
    [NSYS_DEVICE] = "device",
    [NSYS_RETURNS] = "returned",
    [NSYS_DOMAIN] = "domain",
    [NSYS_CATEGORY] = "category",
    [NSYS_PAYLOAD] = "payload",
    [NSYS_SIZE] = "size",
    [NSYS_PEER] = "peer",
    [NSYS_TAG] = "tag",
    [NSYS_VALUE] = "value",
    [NSYS_ADDRESS] = "Addr",
    [NSYS_DEVICE_TYPE] = "Device Type",
    [NSYS_DEVICE_ID] = "Device Id",
    [NSYS_MEMORY_BYTES] = "Bytes",
};

bool kt_is_nsys(const kt_database *d)
{
    return kt_database_find(d, "META_DATA_EXPORT") || kt_database_find(d, "TARGET_INFO_SESSION_START_TIME") ||
           kt_database_find(d, "CUPTI_ACTIVITY_KIND_KERNEL") || kt_database_find(d, "CUPTI_ACTIVITY_KIND_RUNTIME") ||
           (kt_database_find(d, "StringIds") && kt_database_find(d, "NVTX_EVENTS"));
}

bool nsys_read_span(nsys *n, kt_rows *rows, kt_row *row)
{
    bool has_end = !kt_rows_is_null(rows, NSYS_END);
    row->flags = has_end ? 0 : KINETO_ACTIVITY_OPEN_END;
    if (!kt_rows_int(rows, NSYS_START, &row->start_ns) ||
        (has_end && !kt_rows_int(rows, NSYS_END, &row->end_ns)) ||
        __builtin_add_overflow(row->start_ns, n->base_ns, &row->start_ns) ||
        (has_end && __builtin_add_overflow(row->end_ns, n->base_ns, &row->end_ns))) {
        n->bad++;
        return false;
    }
    if (!has_end)
        row->end_ns = KB_MAX(n->last_ns, row->start_ns);
    n->last_ns = KB_MAX(n->last_ns, row->end_ns);
    return true;
}

kineto_row nsys_append(nsys *n, const kt_row *row) { return kt_append(n->m.b, row); }

static uint64_t gpu_key(int64_t pid, int64_t device) { return (uint64_t)pid << 32 | (uint32_t)device; }

int64_t nsys_find_device(const nsys *n, int64_t pid, int64_t device)
{
    const uint64_t *number = kb_map_find(&n->gpus, gpu_key(pid, device));
    return number ? (int64_t)*number - 1 : device;
}

/* ---- the machine ------------------------------------------------------------------------------ */

static void read_start_time(nsys *n)
{
    static const char *const columns[] = {"utcEpochNs", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "TARGET_INFO_SESSION_START_TIME", columns) && kt_rows_next(&rows))
        n->base_ns = kt_rows_int_or(&rows, 0, 0);
    kt_rows_close(&rows);
    n->last_ns = n->base_ns;
    if (!n->base_ns)
        kt_import_note(&n->m, "the file does not tell when recording began: times count from 1970", 1,
                       kb_string(""));
}

/* Names of the columns and of the properties that Kineto writes. */
static const char *const gpu_columns[] = {"!id", "name", "totalMemory", "computeMajor", "computeMinor",
                                          "maxThreadsPerBlock", "maxRegistersPerBlock", "threadsPerWarp",
                                          "maxShmemPerBlock", "smCount", "maxRegistersPerSm",
                                          "maxShmemPerBlockOptin", "maxShmemPerSm", "maxWarpsPerSm", NULL};
static const char *const gpu_properties[] = {NULL, NULL, "totalGlobalMem", "computeMajor", "computeMinor",
                                             "maxThreadsPerBlock", "regsPerBlock", "warpSize",
                                             "sharedMemPerBlock", "numSms", "regsPerMultiprocessor",
                                             "sharedMemPerBlockOptin", "sharedMemPerMultiprocessor"};
enum { GPU_NAME = 1, GPU_WARP = 7, GPU_SMS = 9, GPU_WARPS = 13 };

static void put_gpu(const kt_rows *rows, int64_t id, kb_json *j)
{
    kb_json_object_begin(j);
    kb_json_put_int(j, "id", id);
    kb_json_put_string(j, "name", kt_rows_text(rows, GPU_NAME));
    for (int i = 2; i < (int)KB_COUNT(gpu_properties); i++)
        if (kt_rows_int_or(rows, i, -1) >= 0)
            kb_json_put_int(j, gpu_properties[i], kt_rows_int_or(rows, i, 0));
    int64_t warps = kt_rows_int_or(rows, GPU_WARPS, 0), lanes = kt_rows_int_or(rows, GPU_WARP, 0);
    if (warps > 0 && warps < 4096 && lanes > 0 && lanes < 4096)
        kb_json_put_int(j, "maxThreadsPerMultiprocessor", warps * lanes);
    kb_json_object_end(j);
}

/* Properties as in the list deviceProperties of Kineto. */
static void describe_gpu(nsys *n, const kt_rows *rows, int64_t id)
{
    kb_sink *sink = NULL;
    kb_json j;
    char *text = NULL;
    size_t size = 0;
    int64_t count = kt_rows_int_or(rows, GPU_SMS, 0);
    if (count > 0)
        (void)kb_map_insert(&n->multiprocessors, (uint64_t)id, (uint64_t)count, NULL);
    if (kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL))
        return;
    kb_json_init(&j, sink);
    put_gpu(rows, id, &j);
    if (!kb_sink_take(sink, &text, &size, NULL))
        kt_import_describe_device(&n->m, id, (kineto_string){"", 0}, (kineto_string){text, size});
    free(text);
    kb_sink_abort(sink);
}

/* CUDA numbers the devices that a process sees; the file says which of the machine each one is. */
static void read_gpus(nsys *n)
{
    static const char *const columns[] = {"!gpuId", "!cudaId", "!pid", NULL};
    kt_rows rows;
    int64_t id, cuda, pid;
    if (kt_rows_open(&rows, n->d, "TARGET_INFO_GPU", gpu_columns))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &id))
                describe_gpu(n, &rows, id);
    kt_rows_close(&rows);
    if (kt_rows_open(&rows, n->d, "TARGET_INFO_CUDA_DEVICE", columns))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &id) && kt_rows_int(&rows, 1, &cuda) && kt_rows_int(&rows, 2, &pid) && id >= 0)
                (void)kb_map_insert(&n->gpus, gpu_key(pid, cuda), (uint64_t)id + 1, NULL);
    kt_rows_close(&rows);
}

static void read_names(nsys *n)
{
    static const char *const threads[] = {"!nameId", "!globalTid", NULL};
    static const char *const processes[] = {"!globalPid", "!name", NULL};
    kt_rows rows;
    int64_t name, id;
    if (kt_rows_open(&rows, n->d, "PROCESSES", processes))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &id))
                kt_import_name_process(&n->m, nsys_pid(id), kt_rows_text(&rows, 1));
    kt_rows_close(&rows);
    if (kt_rows_open(&rows, n->d, "ThreadNames", threads))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &name) && kt_rows_int(&rows, 1, &id))
                kt_import_name_thread(&n->m, nsys_pid(id), nsys_tid(id),
                                      kineto_trace_string(n->m.b->trace, kt_texts_find(&n->texts, name)));
    kt_rows_close(&rows);
}

/* "Hostname", "NSYS_VERSION" and the like. */
static void read_facts(nsys *n, const char *table, const char *key, const char *header)
{
    static const char *const columns[] = {"!name", "!value", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, table, columns))
        while (kt_rows_next(&rows))
            if (kb_string_is(kt_rows_text(&rows, 0), key))
                kt_import_header(&n->m, header, kt_rows_text(&rows, 1));
    kt_rows_close(&rows);
}

static void read_header(nsys *n)
{
    kt_import_header(&n->m, "recorder", kb_string("Nsight Systems"));
    read_facts(n, "META_DATA_EXPORT", "EXPORT_PRODUCT_VERSION", "recorder_version");
    read_facts(n, "META_DATA_EXPORT", "EXPORT_SCHEMA_VERSION", "nsys_schema_version");
    read_facts(n, "TARGET_INFO_SYSTEM_ENV", "Hostname", "hostname");
}

/* What Nsight Systems itself says went wrong: severity 3 is an error, 2 a warning. */
static void read_diagnostics(nsys *n)
{
    static const char *const columns[] = {"severity", "!text", NULL};
    kt_rows rows;
    uint32_t left = MAX_DIAGNOSTICS;
    if (kt_rows_open(&rows, n->d, "DIAGNOSTIC_EVENT", columns))
        while (left && kt_rows_next(&rows))
            if (kt_rows_int_or(&rows, 0, 0) >= 2 && left--)
                kt_import_note(&n->m, "warning of Nsight Systems", 1, kb_utf8_cut(kt_rows_text(&rows, 1), 300));
    kt_rows_close(&rows);
}

/* Tables of names that are read where they are needed, or whose content the trace has elsewhere. */
static void skip_tables(nsys *n)
{
    static const char *const also[] = {"StringIds", "ANALYSIS_DETAILS", "META_DATA_CAPTURE", "TARGET_INFO_CUDA_STREAM",
                                       "TARGET_INFO_CUDA_CONTEXT_INFO", "TARGET_INFO_PROCESS", "EXPORT_META_DATA"};
    for (size_t i = 0; i < n->d->tables.count; i++) {
        kt_database_table *t = &n->d->tables.data[i];
        t->is_read |= kb_string_starts_with(kb_string(t->name), "ENUM_");
        for (size_t k = 0; k < KB_COUNT(also); k++)
            t->is_read |= strcmp(t->name, also[k]) == 0;
    }
}

/* ---- the file --------------------------------------------------------------------------------- */

static void read_tables(nsys *n)
{
    kt_texts_open(&n->texts, n->d, n->m.b, "StringIds", "id", "value");
    kt_texts_open(&n->copy_kinds, n->d, n->m.b, "ENUM_CUDA_MEMCPY_OPER", "id", "label");
    kt_texts_open(&n->memory_kinds, n->d, n->m.b, "ENUM_CUDA_MEM_KIND", "id", "label");
    read_header(n);
    read_start_time(n);
    read_gpus(n);
    read_names(n);
    nsys_read_device_tables(n);
    nsys_read_host_tables(n);
    read_diagnostics(n);
    skip_tables(n);
    kt_import_unread_tables(&n->m, n->d);
    kt_import_lost(&n->m, "rows with a value that is missing or of a wrong type: left out", n->bad, kb_string(""));
}

kineto_status kt_import_nsys(kt_database *d, const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    nsys n = {.d = d};
    kineto_status status = kt_import_begin(&n.m, source, "nsys", err);
    if (!status) {
        for (int i = 0; i < NSYS_KEYS; i++)
            n.keys[i] = kt_string(n.m.b, kb_string(key_names[i]));
        read_tables(&n);
        status = kt_database_finish(d, &n.m, out, err);
    }
    kt_texts_close(&n.texts);
    kt_texts_close(&n.copy_kinds);
    kt_texts_close(&n.memory_kinds);
    kb_map_free(&n.gpus);
    kb_map_free(&n.multiprocessors);
    kb_map_free(&n.kernel_args);
    kb_map_free(&n.plain_names);
    kt_import_free(&n.m);
    return status;
}
