/* Work of devices in exports of Nsight Systems; see nsys.c. */
#include "trace/import/nsys.h"

/* Columns that all work has, after start and end. */
#define WORK "deviceId", "contextId", "streamId", "correlationId", "globalPid"
enum { DEVICE = NSYS_FIRST, CONTEXT, STREAM, CORRELATION, PID, WORK_COLUMNS };

/* Process, track, correlation and times of work. */
static bool read_work(nsys *n, kt_rows *rows, kt_row *row)
{
    int64_t pid = nsys_pid(kt_rows_int_or(rows, PID, 0));
    int64_t device = nsys_find_device(n, pid, kt_rows_int_or(rows, DEVICE, 0));
    if (!nsys_read_span(n, rows, row))
        return false;
    row->track = kt_import_stream_of(&n->m, pid, device, (int32_t)kt_rows_int_or(rows, STREAM, 0));
    row->correlation_id = kt_import_id(&n->m, (uint64_t)pid, (uint64_t)kt_rows_int_or(rows, CORRELATION, 0));
    return true;
}

static void put_context(nsys *n, const kt_rows *rows)
{
    int64_t context;
    if (kt_rows_int(rows, CONTEXT, &context))
        kt_args_put_int(n->m.b, n->keys[NSYS_CONTEXT], context);
}

static void put_if_positive(nsys *n, const kt_rows *rows, int column, int key)
{
    int64_t value = kt_rows_int_or(rows, column, 0);
    if (value > 0)
        kt_args_put_int(n->m.b, n->keys[key], value);
}

/* ---- kernels ---------------------------------------------------------------------------------- */

static const char *const kernel_columns[] = {
    NSYS_SPAN, WORK, "demangledName", "shortName", "mangledName", "registersPerThread", "staticSharedMemory",
    "dynamicSharedMemory", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ", "graphId", "graphNodeId", NULL};
enum { LONG_NAME = WORK_COLUMNS, SHORT_NAME, RAW_NAME, REGISTERS, STATIC, DYNAMIC, GRID, BLOCK = GRID + 3, GRAPH = BLOCK + 3, NODE };

/* "[64,2,1]", one text for all launches of that size. */
static void put_sizes(nsys *n, int key, const int64_t *size)
{
    char text[80];
    int bytes = kb_snprintf(text, sizeof text, "[%lld,%lld,%lld]", (long long)size[0], (long long)size[1],
                            (long long)size[2]);
    kt_args_put_shared(n->m.b, n->keys[key], KINETO_ARG_INTS, kt_string(n->m.b, (kineto_string){text, (size_t)bytes}));
}

typedef struct kernel_shape {
    int64_t device, context, registers, shared, grid[3], block[3];
} kernel_shape;

/* Blocks and warps for each multiprocessor, as Kineto states them. */
static void put_occupation(nsys *n, const kernel_shape *k)
{
    const uint64_t *processors = kb_map_find(&n->multiprocessors, (uint64_t)k->device);
    double blocks = (double)k->grid[0] * (double)k->grid[1] * (double)k->grid[2];
    double threads = (double)k->block[0] * (double)k->block[1] * (double)k->block[2];
    if (!processors || blocks <= 0 || threads <= 0)
        return;
    kt_args_put_double(n->m.b, n->keys[NSYS_BLOCKS_PER_SM], blocks / (double)*processors);
    kt_args_put_double(n->m.b, n->keys[NSYS_WARPS_PER_SM], blocks * (threads / 32) / (double)*processors);
}

static uint32_t make_shape_set(nsys *n, const kernel_shape *k)
{
    kt_builder *b = n->m.b;
    if (k->context >= 0)
        kt_args_put_int(b, n->keys[NSYS_CONTEXT], k->context);
    if (k->registers >= 0)
        kt_args_put_int(b, n->keys[NSYS_REGISTERS], k->registers);
    if (k->shared >= 0)
        kt_args_put_int(b, n->keys[NSYS_SHARED], k->shared);
    put_occupation(n, k);
    if (k->grid[0] > 0)
        put_sizes(n, NSYS_GRID, k->grid);
    if (k->block[0] > 0)
        put_sizes(n, NSYS_BLOCK, k->block);
    return kt_args_make_set(b);
}

/* -1: neither is known. */
static int64_t add_clamped(int64_t a, int64_t b)
{
    int64_t sum;
    return a < 0 && b < 0 ? -1 : __builtin_add_overflow(KB_MAX(a, 0), KB_MAX(b, 0), &sum) ? INT64_MAX : sum;
}

/* Launches of one shape share their arguments. */
static void put_shape(nsys *n, const kt_rows *rows)
{
    int64_t pid = nsys_pid(kt_rows_int_or(rows, PID, 0));
    kernel_shape k = {.device = nsys_find_device(n, pid, kt_rows_int_or(rows, DEVICE, 0)),
                      .context = kt_rows_int_or(rows, CONTEXT, -1),
                      .registers = kt_rows_int_or(rows, REGISTERS, -1),
                      .shared = add_clamped(kt_rows_int_or(rows, STATIC, -1), kt_rows_int_or(rows, DYNAMIC, -1))};
    for (int i = 0; i < 3; i++) {
        k.grid[i] = kt_rows_int_or(rows, GRID + i, 0);
        k.block[i] = kt_rows_int_or(rows, BLOCK + i, 0);
    }
    bool is_new = false;
    uint64_t *set = kb_map_insert(&n->kernel_args, kb_hash_seeded(kb_hash_secret(), &k, sizeof k), 0, &is_new);
    if (set && is_new)
        *set = make_shape_set(n, &k);
    if (set)
        kt_args_put_set(n->m.b, (uint32_t)*set);
}

/* The name with parameters, else the short one. */
static uint32_t read_kernel_name(nsys *n, const kt_rows *rows)
{
    uint32_t name = 0;
    for (int i = LONG_NAME; i <= RAW_NAME && !name; i++)
        if (!kt_rows_is_null(rows, i))
            name = kt_texts_find(&n->texts, kt_rows_int_or(rows, i, -1));
    return name ? name : kt_string(n->m.b, kb_string("kernel without a name"));
}

static void read_kernels(nsys *n)
{
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_KERNEL", kernel_columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_CONCURRENT_KERNEL};
            if (!read_work(n, &rows, &row))
                continue;
            row.name = read_kernel_name(n, &rows);
            put_shape(n, &rows);
            put_if_positive(n, &rows, GRAPH, NSYS_GRAPH);
            put_if_positive(n, &rows, NODE, NSYS_GRAPH_NODE);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

/* A whole graph, where its kernels were not recorded one by one. */
static void read_graphs(nsys *n)
{
    static const char *const columns[] = {NSYS_SPAN, WORK, "graphId", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_CONCURRENT_KERNEL};
            if (!read_work(n, &rows, &row))
                continue;
            row.name = kt_string(n->m.b, kb_string("CUDA graph"));
            put_context(n, &rows);
            put_if_positive(n, &rows, WORK_COLUMNS, NSYS_GRAPH);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

/* ---- copies and fills ------------------------------------------------------------------------- */

/* Kineto's words for kinds of memory, by the numbers of Nsight Systems; else the file's own word. */
static kineto_string memory_kind(nsys *n, int64_t kind)
{
    static const char *const words[] = {"Pageable", "Pinned", "Device", "Array", "Managed", "Device Static",
                                        "Managed Static"};
    uint32_t label = kt_texts_find(&n->memory_kinds, kind);
    if (label)
        return kineto_trace_string(n->m.b->trace, label);
    return kb_string(kind >= 0 && (size_t)kind < KB_COUNT(words) ? words[kind] : "Unknown");
}

static uint32_t copy_name(nsys *n, int64_t kind, int64_t from, int64_t to)
{
    static const char *const words[] = {NULL, "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH",
                                        "PtoP", "HtoD", "DtoH", "DtoD"};
    char text[160];
    kineto_string a = kb_utf8_cut(memory_kind(n, from), 40), b = kb_utf8_cut(memory_kind(n, to), 40);
    kineto_string word = kineto_trace_string(n->m.b->trace, kt_texts_find(&n->copy_kinds, kind));
    if (kind > 0 && (size_t)kind < KB_COUNT(words))
        word = kb_string(words[kind]);
    word = kb_utf8_cut(word, 40);
    int size = from < 0 ? kb_snprintf(text, sizeof text, "Memcpy %.*s", (int)word.size, word.data)
                        : kb_snprintf(text, sizeof text, "Memcpy %.*s (%.*s -> %.*s)", (int)word.size, word.data,
                                      (int)a.size, a.data, (int)b.size, b.data);
    return kt_string(n->m.b, (kineto_string){text, (size_t)size});
}

/* Bytes, and gigabytes a second. */
static void put_bytes(nsys *n, const kt_rows *rows, int column, const kt_row *row)
{
    int64_t bytes = kt_rows_int_or(rows, column, -1);
    if (bytes < 0)
        return;
    kt_args_put_int(n->m.b, n->keys[NSYS_BYTES], bytes);
    if (row->end_ns > row->start_ns)
        kt_args_put_double(n->m.b, n->keys[NSYS_BANDWIDTH], (double)bytes / (double)(row->end_ns - row->start_ns));
}

static void read_copies(nsys *n)
{
    static const char *const columns[] = {NSYS_SPAN, WORK, "bytes", "copyKind", "srcKind", "dstKind", "graphNodeId", NULL};
    enum { BYTES = WORK_COLUMNS, KIND, FROM, TO, COPY_NODE };
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_MEMCPY", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_GPU_MEMCPY};
            if (!read_work(n, &rows, &row))
                continue;
            row.name = copy_name(n, kt_rows_int_or(&rows, KIND, 0), kt_rows_int_or(&rows, FROM, -1),
                                 kt_rows_int_or(&rows, TO, -1));
            put_context(n, &rows);
            put_bytes(n, &rows, BYTES, &row);
            put_if_positive(n, &rows, COPY_NODE, NSYS_GRAPH_NODE);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

static void read_fills(nsys *n)
{
    static const char *const columns[] = {NSYS_SPAN, WORK, "bytes", "memKind", "value", NULL};
    enum { BYTES = WORK_COLUMNS, KIND, VALUE };
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_MEMSET", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_GPU_MEMSET};
            char text[64];
            if (!read_work(n, &rows, &row))
                continue;
            kineto_string kind = kb_utf8_cut(memory_kind(n, kt_rows_int_or(&rows, KIND, 2)), 40);
            int size = kb_snprintf(text, sizeof text, "Memset (%.*s)", (int)kind.size, kind.data);
            row.name = kt_string(n->m.b, (kineto_string){text, (size_t)size});
            put_context(n, &rows);
            put_bytes(n, &rows, BYTES, &row);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

/* ---- waits ------------------------------------------------------------------------------------ */

/* A record of an event, cudaEventRecord. */
typedef struct recorded_event {
    int64_t pid, event, correlation, stream;
} recorded_event;
typedef struct recorded_events {
    KB_VEC(recorded_event) list;
} recorded_events;

static int compare_recorded(const void *left, const void *right)
{
    const recorded_event *a = left, *b = right;
    int order = kb_compare_int64(&a->pid, &b->pid);
    order = order ? order : kb_compare_int64(&a->event, &b->event);
    return order ? order : kb_compare_int64(&a->correlation, &b->correlation);
}

/* Records have no times of their own; correlations of a process count up. */
static void read_recorded(nsys *n, recorded_events *out)
{
    static const char *const columns[] = {"!globalPid", "!eventId", "!correlationId", "!streamId", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", columns))
        while (kt_rows_next(&rows)) {
            recorded_event e = {nsys_pid(kt_rows_int_or(&rows, 0, 0)), kt_rows_int_or(&rows, 1, -1),
                                kt_rows_int_or(&rows, 2, 0), (int32_t)kt_rows_int_or(&rows, 3, 0)};
            if (!kb_vec_push(&out->list, e))
                n->m.b->status = KINETO_E_MEMORY;
        }
    kt_rows_close(&rows);
    if (out->list.count)
        qsort(out->list.data, out->list.count, sizeof(recorded_event), compare_recorded);
}

/* The last record of the event before the wait; NULL: none is in the file. */
static const recorded_event *find_recorded(const recorded_events *events, const recorded_event *wait)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, events->list.count, compare_recorded(&events->list.data[after], wait) < 0);
    const recorded_event *e = after ? &events->list.data[after - 1] : NULL;
    return e && e->pid == wait->pid && e->event == wait->event ? e : NULL;
}

/* What critical paths need to know of a wait, as Kineto states it. */
static void put_wait(nsys *n, const kt_rows *rows, const kt_row *row, const recorded_events *events)
{
    enum { EVENT = WORK_COLUMNS + 1 };
    kt_builder *b = n->m.b;
    const kt_track_row *track = &b->trace->tracks.data[row->track];
    recorded_event wait = {nsys_pid(kt_rows_int_or(rows, PID, 0)), kt_rows_int_or(rows, EVENT, 0),
                           kt_rows_int_or(rows, CORRELATION, 0), 0};
    const recorded_event *recorded = wait.event > 0 ? find_recorded(events, &wait) : NULL;
    kt_args_put_shared(b, n->keys[NSYS_SYNC_KIND], KINETO_ARG_STRING, row->name);
    if (wait.event > 0)
        kt_args_put_int(b, n->keys[NSYS_WAIT_EVENT], wait.event);
    if (recorded) {
        kt_args_put_int(b, n->keys[NSYS_WAIT_STREAM], recorded->stream);
        kt_args_put_uint(b, n->keys[NSYS_WAIT_RECORD],
                         kt_import_id(&n->m, (uint64_t)wait.pid, (uint64_t)recorded->correlation));
    }
    kt_args_put_int(b, n->keys[NSYS_STREAM], track->id);
    kt_args_put_int(b, n->keys[NSYS_DEVICE], b->trace->processes.data[track->process].pid);
    put_context(n, rows);
}

static void read_waits(nsys *n)
{
    static const char *const columns[] = {NSYS_SPAN, WORK, "syncType", "eventId", NULL};
    static const char *const names[] = {"Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
    recorded_events events = {.list = {0}};
    kt_rows rows;
    read_recorded(n, &events);
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_CUDA_SYNC};
            int64_t type = kt_rows_int_or(&rows, WORK_COLUMNS, 0);
            if (!read_work(n, &rows, &row))
                continue;
            row.name = kt_string(n->m.b, kb_string(names[type > 0 && (size_t)type < KB_COUNT(names) ? type : 0]));
            put_wait(n, &rows, &row, &events);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
    kb_vec_free(&events.list);
}

/* ---- memory ----------------------------------------------------------------------------------- */

/* As Kineto writes allocations, on the row of the process's first thread: the thread is not known. */
static void append_allocation(nsys *n, const kt_rows *rows, int64_t pid, kt_row *row)
{
    enum { BEGIN, PROCESS, WHERE, ADDRESS, SIZE, OPERATION };
    kt_builder *b = n->m.b;
    int64_t bytes = kt_rows_int_or(rows, SIZE, 0);
    row->track = kt_import_thread(&n->m, pid, pid);
    row->end_ns = row->start_ns;
    kt_args_put_int(b, n->keys[NSYS_DEVICE_TYPE], 1);
    kt_args_put_int(b, n->keys[NSYS_DEVICE_ID], nsys_find_device(n, pid, kt_rows_int_or(rows, WHERE, 0)));
    kt_args_put_int(b, n->keys[NSYS_ADDRESS], kt_rows_int_or(rows, ADDRESS, 0));
    kt_args_put_int(b, n->keys[NSYS_MEMORY_BYTES], kt_rows_int_or(rows, OPERATION, 0) == 1 && bytes > 0 ? -bytes : bytes);
    nsys_append(n, row);
}

static void read_memory(nsys *n)
{
    static const char *const columns[] = {"!start", "globalPid", "deviceId", "address", "bytes", "memoryOperationType", NULL};
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUDA_GPU_MEMORY_USAGE_EVENTS", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_MEMORY,
                          .form = KINETO_FORM_INSTANT,
                          .category = kt_string(n->m.b, kb_string("cpu_instant_event")),
                          .name = kt_string(n->m.b, kb_string("[memory]"))};
            if (kt_rows_int(&rows, 0, &row.start_ns) && !__builtin_add_overflow(row.start_ns, n->base_ns, &row.start_ns))
                append_allocation(n, &rows, nsys_pid(kt_rows_int_or(&rows, 1, 0)), &row);
            else
                n->bad++;
        }
    kt_rows_close(&rows);
}

/* ---- metrics ---------------------------------------------------------------------------------- */

/* The device is the lowest byte of the type, to which the names belong as well. */
static uint64_t metric_key(int64_t type, int64_t metric) { return (uint64_t)type * 1009 + (uint64_t)metric; }

static void read_metric_names(nsys *n, kb_map *names)
{
    static const char *const columns[] = {"!typeId", "!metricId", "!metricName", NULL};
    kt_rows rows;
    int64_t type, metric;
    if (kt_rows_open(&rows, n->d, "TARGET_INFO_GPU_METRICS", columns))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &type) && kt_rows_int(&rows, 1, &metric))
                (void)kb_map_insert(names, metric_key(type, metric), kt_string(n->m.b, kt_rows_text(&rows, 2)), NULL);
    kt_rows_close(&rows);
}

static void read_metrics(nsys *n)
{
    static const char *const columns[] = {"!timestamp", "!typeId", "!metricId", "!value", NULL};
    kt_rows rows;
    kb_map names = {0};
    int64_t type, metric, value;
    read_metric_names(n, &names);
    if (kt_rows_open(&rows, n->d, "GPU_METRICS", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_GPU_PM_COUNTER, .form = KINETO_FORM_COUNTER};
            if (!kt_rows_int(&rows, 0, &row.start_ns) || !kt_rows_int(&rows, 1, &type) || !kt_rows_int(&rows, 2, &metric) ||
                !kt_rows_int(&rows, 3, &value) || __builtin_add_overflow(row.start_ns, n->base_ns, &row.start_ns)) {
                n->bad++;
                continue;
            }
            const uint64_t *name = kb_map_find(&names, metric_key(type, metric));
            row.end_ns = row.start_ns;
            row.track = kt_import_device_counters(&n->m, type & 0xff);
            row.name = name && *name ? (uint32_t)*name : kt_string(n->m.b, kb_string("metric without a name"));
            kt_args_put_int(n->m.b, n->keys[NSYS_VALUE], value);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
    kb_map_free(&names);
}

void nsys_read_device_tables(nsys *n)
{
    read_kernels(n);
    read_graphs(n);
    read_copies(n);
    read_fills(n);
    read_waits(n);
    read_memory(n);
    read_metrics(n);
}
