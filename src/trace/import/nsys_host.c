/* What threads did in exports of Nsight Systems: calls of CUDA, of libraries and of the system, and ranges of
 * NVTX; see nsys.c. */
#include "trace/import/nsys.h"

/* The thread of a row, with the times of its range. */
static bool read_thread_span(nsys *n, kt_rows *rows, int thread_column, kt_row *row)
{
    int64_t thread = kt_rows_int_or(rows, thread_column, 0);
    if (!nsys_read_span(n, rows, row))
        return false;
    row->track = kt_import_thread(&n->m, nsys_pid(thread), nsys_tid(thread));
    return true;
}

/* "cudaLaunchKernel" for "cudaLaunchKernel_v7000". */
static uint32_t find_plain_name(nsys *n, uint32_t name)
{
    bool is_new = false;
    uint64_t *plain = kb_map_insert(&n->plain_names, name, name, &is_new);
    if (!plain || !is_new)
        return plain ? (uint32_t)*plain : name;
    kineto_string text = kineto_trace_string(n->m.b->trace, name);
    size_t size = text.size;
    while (size > 2 && kb_is_digit(text.data[size - 1]))
        size--;
    if (size > 2 && size < text.size && text.data[size - 1] == 'v' && text.data[size - 2] == '_')
        *plain = kt_string(n->m.b, (kineto_string){text.data, size - 2});
    return (uint32_t)*plain;
}

/* ---- CUDA ------------------------------------------------------------------------------------- */

/* Calls of the driver have names like cuLaunchKernel, those of the runtime like cudaLaunchKernel. */
static bool is_driver_call(kineto_string name)
{
    return name.size > 2 && name.data[0] == 'c' && name.data[1] == 'u' && name.data[2] >= 'A' && name.data[2] <= 'Z';
}

/* Each launch has the correlation of its work. */
static void read_cuda_calls(nsys *n)
{
    static const char *const columns[] = {NSYS_SPAN, "globalTid", "correlationId", "!nameId", "returnValue", NULL};
    enum { THREAD = NSYS_FIRST, CORRELATION, NAME, RETURNS };
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "CUPTI_ACTIVITY_KIND_RUNTIME", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {0};
            if (!read_thread_span(n, &rows, THREAD, &row))
                continue;
            uint64_t pid = (uint64_t)nsys_pid(kt_rows_int_or(&rows, THREAD, 0));
            row.name = find_plain_name(n, kt_texts_find(&n->texts, kt_rows_int_or(&rows, NAME, -1)));
            bool is_driver = is_driver_call(kineto_trace_string(n->m.b->trace, row.name));
            row.kind = is_driver ? KINETO_KIND_DRIVER : KINETO_KIND_RUNTIME;
            row.category = is_driver ? n->m.cuda_driver : n->m.cuda_runtime;
            row.correlation_id = kt_import_id(&n->m, pid, (uint64_t)kt_rows_int_or(&rows, CORRELATION, 0));
            int64_t returned = kt_rows_int_or(&rows, RETURNS, 0);
            if (returned)
                kt_args_put_int(n->m.b, n->keys[NSYS_RETURNS], returned);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

/* ---- NVTX ------------------------------------------------------------------------------------- */

static const char *const nvtx_columns[] = {
    NSYS_SPAN, "eventType", "globalTid", "text", "textId", "domainId", "category", "rangeId",
    "uint64Value", "int64Value", "doubleValue", "uint32Value", "int32Value", "floatValue", NULL};
enum { TYPE = NSYS_FIRST, THREAD, TEXT, TEXT_ID, DOMAIN_ID, CATEGORY, RANGE, PAYLOADS, LAST_PAYLOAD = PAYLOADS + 5 };
/* Types of events of NVTX. */
enum { NVTX_CATEGORY = 33, NVTX_MARK = 34, NVTX_THREAD = 39, NVTX_PUSH_POP = 59, NVTX_START_END = 60, NVTX_DOMAIN = 75, NVTX_DOMAIN_END = 76 };

/* A text of its own, or a registered one. */
static uint32_t read_nvtx_text(nsys *n, const kt_rows *rows)
{
    kineto_string text = kt_rows_text(rows, TEXT);
    if (text.size)
        return kt_string(n->m.b, text);
    return kt_rows_is_null(rows, TEXT_ID) ? 0 : kt_texts_find(&n->texts, kt_rows_int_or(rows, TEXT_ID, -1));
}

static uint64_t domain_key(int64_t thread, int64_t domain) { return (uint64_t)nsys_pid(thread) << 40 ^ (uint64_t)domain; }

/* Names of domains come as events. */
static void read_domains(nsys *n, kb_map *domains)
{
    kt_rows rows;
    if (kt_rows_open(&rows, n->d, "NVTX_EVENTS", nvtx_columns))
        while (kt_rows_next(&rows)) {
            int64_t type = kt_rows_int_or(&rows, TYPE, 0), thread = kt_rows_int_or(&rows, THREAD, 0);
            uint32_t text = type == NVTX_DOMAIN || type == NVTX_THREAD ? read_nvtx_text(n, &rows) : 0;
            if (type == NVTX_DOMAIN)
                (void)kb_map_insert(domains, domain_key(thread, kt_rows_int_or(&rows, DOMAIN_ID, 0)), text, NULL);
            else if (text)
                kt_import_name_thread(&n->m, nsys_pid(thread), nsys_tid(thread), kineto_trace_string(n->m.b->trace, text));
        }
    kt_rows_close(&rows);
}

/* Domain, category and the first payload that the row has. */
static void put_nvtx_args(nsys *n, const kt_rows *rows, const kb_map *domains)
{
    kt_builder *b = n->m.b;
    int64_t domain = kt_rows_int_or(rows, DOMAIN_ID, 0), category = kt_rows_int_or(rows, CATEGORY, 0), whole;
    const uint64_t *name = domain ? kb_map_find(domains, domain_key(kt_rows_int_or(rows, THREAD, 0), domain)) : NULL;
    double number;
    if (name && *name)
        kt_args_put_shared(b, n->keys[NSYS_DOMAIN], KINETO_ARG_STRING, (uint32_t)*name);
    if (category)
        kt_args_put_int(b, n->keys[NSYS_CATEGORY], category);
    for (int i = PAYLOADS; i <= LAST_PAYLOAD; i++)
        if (kt_rows_int(rows, i, &whole)) {
            kt_args_put_int(b, n->keys[NSYS_PAYLOAD], whole);
            return;
        } else if (kt_rows_number(rows, i, &number)) {
            kt_args_put_double(b, n->keys[NSYS_PAYLOAD], number);
            return;
        }
}

/* A range that may end in another thread is asynchronous. False: not an event of its own. */
static bool set_nvtx_form(nsys *n, const kt_rows *rows, kt_row *row)
{
    int64_t type = kt_rows_int_or(rows, TYPE, NVTX_PUSH_POP), thread = kt_rows_int_or(rows, THREAD, 0);
    row->kind = KINETO_KIND_USER_ANNOTATION;
    if (type == NVTX_MARK) {
        row->kind = KINETO_KIND_CPU_INSTANT_EVENT;
        row->form = KINETO_FORM_INSTANT;
        row->end_ns = row->start_ns;
        row->flags = 0;
    } else if (type == NVTX_START_END) {
        uint32_t process = kt_process(n->m.b, false, nsys_pid(thread), 0);
        row->form = KINETO_FORM_ASYNC;
        row->track = kt_track(n->m.b, process, KINETO_TRACK_ASYNC, 0);
        row->async_id = kt_import_id(&n->m, (uint64_t)nsys_pid(thread), (uint64_t)kt_rows_int_or(rows, RANGE, 0) + 1);
    }
    return type == NVTX_MARK || type == NVTX_START_END || type == NVTX_PUSH_POP;
}

static void read_nvtx(nsys *n)
{
    kt_rows rows;
    kb_map domains = {0};
    uint64_t others = 0;
    read_domains(n, &domains);
    if (kt_rows_open(&rows, n->d, "NVTX_EVENTS", nvtx_columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {0};
            int64_t type = kt_rows_int_or(&rows, TYPE, NVTX_PUSH_POP);
            if (type == NVTX_CATEGORY || type == NVTX_THREAD || type == NVTX_DOMAIN || type == NVTX_DOMAIN_END)
                continue;
            if (!read_thread_span(n, &rows, THREAD, &row))
                continue;
            if (!set_nvtx_form(n, &rows, &row)) {
                others++;
                continue;
            }
            row.name = read_nvtx_text(n, &rows);
            put_nvtx_args(n, &rows, &domains);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
    kb_map_free(&domains);
    kt_import_lost(&n->m, "events of NVTX of another type: not read", others, kb_string(""));
}

/* ---- libraries and the system ----------------------------------------------------------------- */

/* A table of calls: times, thread, and a name in nameId or textId. */
typedef struct call_table {
    const char *table, *category; /* category NULL: that of the kind */
    uint32_t kind;
} call_table;

static const call_table call_tables[] = {
    {"OSRT_API", NULL, KINETO_KIND_BLOCKING_CALL},
    {"MPI_P2P_EVENTS", NULL, KINETO_KIND_MPI},
    {"MPI_COLLECTIVES_EVENTS", NULL, KINETO_KIND_MPI},
    {"MPI_START_WAIT_EVENTS", NULL, KINETO_KIND_MPI},
    {"MPI_OTHER_EVENTS", NULL, KINETO_KIND_MPI},
    {"CUBLAS_EVENTS", "cublas", KINETO_KIND_USER_ANNOTATION},
    {"CUDNN_EVENTS", "cudnn", KINETO_KIND_USER_ANNOTATION},
    {"PROFILER_OVERHEAD", NULL, KINETO_KIND_OVERHEAD},
};

/* Calls with the arguments that messages of MPI have. */
static void read_calls(nsys *n, const call_table *t)
{
    static const char *const columns[] = {NSYS_SPAN, "globalTid", "nameId", "textId", "size", "remoteRank", "tag", NULL};
    enum { CALLER = NSYS_FIRST, NAME, OTHER_NAME, SIZE, PEER, TAG };
    static const int keys[] = {NSYS_SIZE, NSYS_PEER, NSYS_TAG};
    kt_rows rows;
    int64_t value;
    if (kt_rows_open(&rows, n->d, t->table, columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = t->kind, .category = t->category ? kt_string(n->m.b, kb_string(t->category)) : 0};
            if (!read_thread_span(n, &rows, CALLER, &row))
                continue;
            int name = kt_rows_is_null(&rows, NAME) ? OTHER_NAME : NAME;
            row.name = find_plain_name(n, kt_texts_find(&n->texts, kt_rows_int_or(&rows, name, -1)));
            for (int i = 0; i < (int)KB_COUNT(keys); i++)
                if (kt_rows_int(&rows, SIZE + i, &value))
                    kt_args_put_int(n->m.b, n->keys[keys[i]], value);
            nsys_append(n, &row);
        }
    kt_rows_close(&rows);
}

void nsys_read_host_tables(nsys *n)
{
    read_cuda_calls(n);
    for (size_t i = 0; i < KB_COUNT(call_tables); i++)
        read_calls(n, &call_tables[i]);
    read_nvtx(n);
}
