/* Rows of a recording of another tool; see activities.h. */
#include "trace/import/activities.h"

kineto_status kt_import_begin(kt_import *m, const kt_import_source *source, const char *tool,
                              kineto_error *err)
{
    *m = (kt_import){.tool = tool};
    kineto_status status = kt_builder_create(&m->b, err);
    if (status)
        return status;
    if (source->store)
        kt_builder_store(m->b, source->store);
    m->cuda_runtime = kt_string(m->b, kb_string("cuda_runtime"));
    m->cuda_driver = kt_string(m->b, kb_string("cuda_driver"));
    return KINETO_OK;
}

void kt_import_free(kt_import *m)
{
    kt_builder_destroy(m->b);
    kb_map_free(&m->scopes);
    kb_map_free(&m->streams);
}

/* ---- processes and tracks -------------------------------------------------------------------- */

uint32_t kt_import_thread(kt_import *m, int64_t pid, int64_t tid)
{
    return kt_track(m->b, kt_process(m->b, false, pid, 0), KINETO_TRACK_THREAD, tid);
}

void kt_import_name_process(kt_import *m, int64_t pid, kineto_string name)
{
    kt_process_set(m->b, kt_process(m->b, false, pid, 0), &(kineto_process){.name = name, .rank = -1});
}

void kt_import_name_thread(kt_import *m, int64_t pid, int64_t tid, kineto_string name)
{
    kt_track_set(m->b, kt_import_thread(m, pid, tid), name, 0);
}

/* A device gets its label when it is first used. */
static uint32_t find_device(kt_import *m, int64_t device)
{
    size_t known = m->b->trace->processes.count;
    uint32_t process = kt_process(m->b, true, device, 0);
    if (m->b->trace->processes.count == known)
        return process;
    char label[40];
    int size = kb_snprintf(label, sizeof label, "GPU %lld", (long long)device);
    kt_process_set(m->b, process, &(kineto_process){.label = {label, (size_t)size}, .rank = -1});
    return process;
}

uint32_t kt_import_stream(kt_import *m, int64_t device, int64_t stream)
{
    return kt_track(m->b, find_device(m, device), KINETO_TRACK_STREAM, stream);
}

uint32_t kt_import_stream_of(kt_import *m, int64_t pid, int64_t device, int64_t stream)
{
    int64_t key[] = {device, stream};
    uint64_t *owner = kb_map_insert(&m->streams, kb_hash(key, sizeof key), (uint64_t)pid + 1, NULL);
    if (!owner || *owner == (uint64_t)pid + 1)
        return kt_import_stream(m, device, stream);
    uint32_t track = kt_import_stream(m, device, (int64_t)((uint64_t)pid << 32 | (uint32_t)stream));
    char name[64];
    int size = kb_snprintf(name, sizeof name, "stream %lld of process %lld", (long long)stream, (long long)pid);
    kt_track_set(m->b, track, (kineto_string){name, (size_t)size}, 0);
    return track;
}

uint32_t kt_import_device_counters(kt_import *m, int64_t device)
{
    return kt_track(m->b, find_device(m, device), KINETO_TRACK_COUNTER, 0);
}

void kt_import_describe_device(kt_import *m, int64_t device, kineto_string name, kineto_string properties)
{
    kineto_process p = {.name = name, .properties_json = properties, .rank = -1};
    kt_process_set(m->b, find_device(m, device), &p);
}

uint64_t kt_import_id(kt_import *m, uint64_t scope, uint64_t id)
{
    uint64_t *number = id ? kb_map_insert(&m->scopes, scope, m->scopes.count, NULL) : NULL;
    if (!number)
        return 0;
    uint64_t key[] = {id, *number};
    return *number ? kb_hash(key, sizeof key) : id;
}

/* ---- ledger and header ----------------------------------------------------------------------- */

static void add_line(kt_import *m, const char *reason, uint64_t count, bool is_loss, kineto_string detail)
{
    if (count)
        kt_ledger_add(m->b, kb_string(m->tool), kb_string(reason), count, is_loss, detail);
}

void kt_import_lost(kt_import *m, const char *reason, uint64_t count, kineto_string detail)
{
    add_line(m, reason, count, true, detail);
}

void kt_import_note(kt_import *m, const char *reason, uint64_t count, kineto_string detail)
{
    add_line(m, reason, count, false, detail);
}

void kt_import_header(kt_import *m, const char *key, kineto_string text)
{
    uint64_t replaced = 0;
    char *room = malloc(6 * text.size + 2);
    if (!room) {
        m->b->status = KINETO_E_MEMORY;
        return;
    }
    size_t size = (size_t)(kb_json_escape(room, text, &replaced) - room);
    kt_metadata(m->b, kb_string(key), (kineto_string){room, size});
    free(room);
}

/* ---- launches -------------------------------------------------------------------------------- */

typedef struct correlated_rows {
    KB_VEC(kt_correlated) launches, work;
    bool no_memory;
} correlated_rows;

/* Rows of both sides that have a correlation id. */
static void collect_correlated_rows(const kineto_trace *t, correlated_rows *c)
{
    kineto_row row = 0;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++, row++) {
            kt_correlated item = {.id = block->correlation_id[i], .start_ns = block->start_ns[i], .row = row};
            if (item.id && kt_kind_is_launch(block->kind[i]))
                c->no_memory |= !kb_vec_push(&c->launches, item);
            else if (item.id && kt_kind_is_device(block->kind[i]))
                c->no_memory |= !kb_vec_push(&c->work, item);
        }
    }
}

/* A flow from each launch to its work, as Kineto writes it. */
static void link_launches(kt_import *m)
{
    correlated_rows c = {.no_memory = false};
    const kt_correlated *started = NULL;
    collect_correlated_rows(m->b->trace, &c);
    kt_sort_correlated(c.launches.data, c.launches.count);
    kt_sort_correlated(c.work.data, c.work.count);
    for (size_t i = 0; i < c.work.count && c.launches.count; i++) {
        const kt_correlated *to = &c.work.data[i];
        const kt_correlated *from = kt_find_launch(c.launches.data, c.launches.count, to->id, to->start_ns);
        if (!from)
            continue;
        if (from != started)
            kt_flow(m->b, KINETO_FLOW_ASYNC_CPU_GPU, from->id, from->row, true);
        started = from;
        kt_flow(m->b, KINETO_FLOW_ASYNC_CPU_GPU, to->id, to->row, false);
    }
    kb_vec_free(&c.launches);
    kb_vec_free(&c.work);
    if (c.no_memory)
        m->b->status = KINETO_E_MEMORY;
}

kineto_status kt_import_finish(kt_import *m, kineto_trace **out, kineto_error *err)
{
    if (!m->b->status && !m->has_flows)
        link_launches(m);
    return kt_builder_finish(m->b, out, err);
}
