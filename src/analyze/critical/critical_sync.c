/* Waits that a trace says: rows of kind cuda_sync, each of a call that made a stream wait for work
 * of another one, or the host for a stream, an event or all. */
#include "analyze/critical/critical.h"

/* Rows of kind cuda_sync may be among the work of a stream; at most this many are skipped to find other
 * work. */
#define MAX_SYNCS 64u

/* A row of kind cuda_sync with its arguments. */
typedef struct sync_row {
    kineto_row row, call; /* call: KINETO_NO_ROW if it is not in the trace */
    uint64_t record;      /* correlation of the call that recorded the event; 0 */
    int64_t start_ns, stream, wait_on, device;
    uint32_t name;
} sync_row;

/* The rows, and the calls they refer to, to be found among the slices. */
typedef struct finding {
    const ka_dataset *s;
    ka_syncs *out;
    KB_VEC(sync_row) rows;
    kb_map calls, records; /* row, correlation → slice + 1 */
    bool no_memory;
} finding;

/* A whole number among the arguments; -1: there is none. */
static int64_t int_arg(const kineto_trace *t, kineto_row row, const char *key)
{
    kineto_arg arg;
    int64_t number;
    return kineto_args_find(t, row, key, &arg) && kt_arg_whole(&arg, &number) ? number : -1;
}

/* Reads a row of kind cuda_sync and registers the calls that it refers to. */
static void append_sync_row(finding *f, kineto_row row, const kt_block *block, uint32_t i)
{
    const kineto_trace *t = f->s->trace;
    int64_t record = int_arg(t, row, "wait_on_cuda_event_record_corr_id");
    sync_row r = {.row = row,
                  .call = kineto_trace_launch(t, row),
                  .record = record > 0 ? (uint64_t)record : 0,
                  .start_ns = block->start_ns[i],
                  .stream = int_arg(t, row, "stream"),
                  .wait_on = int_arg(t, row, "wait_on_stream"),
                  .device = int_arg(t, row, "device"),
                  .name = block->name[i]};
    bool created;
    f->no_memory |= !kb_vec_push(&f->rows, r);
    if (r.call != KINETO_NO_ROW)
        f->no_memory |= !kb_map_insert(&f->calls, r.call + 1, 0, &created);
    if (r.record)
        f->no_memory |= !kb_map_insert(&f->records, r.record, 0, &created);
}

/* Blocks know which kinds they hold, so most are skipped. */
static void collect_rows(finding *f)
{
    for (uint32_t b = 0; b < kt_block_count(f->s->trace); b++) {
        const kt_block *block = kt_block_at(f->s->trace, b);
        if (!(block->kinds & KINETO_KIND_BIT(KINETO_KIND_CUDA_SYNC)))
            continue;
        for (uint32_t i = 0; i < block->count && !f->no_memory; i++)
            if (block->kind[i] == KINETO_KIND_CUDA_SYNC)
                append_sync_row(f, (kineto_row)b * KT_BLOCK_ROWS + i, block, i);
    }
}

/* Sets the slices of the calls that rows refer to, by row or by correlation id. */
static void find_slices(finding *f)
{
    for (uint32_t i = 0; i < f->s->slice_count; i++) {
        const ka_slice *slice = &f->s->slices[i];
        if (slice->kind != KINETO_KIND_RUNTIME && slice->kind != KINETO_KIND_DRIVER)
            continue;
        const kt_block *block = kt_block_at(f->s->trace, (uint32_t)(slice->row / KT_BLOCK_ROWS));
        uint64_t *call = kb_map_find(&f->calls, slice->row + 1),
                 *record =
                     kb_map_find(&f->records, block->correlation_id[slice->row % KT_BLOCK_ROWS]);
        if (call)
            *call = i + 1;
        if (record)
            *record = i + 1;
    }
}

/* The slice of a registered call; KA_NONE: it is not in the dataset. */
static uint32_t slice_of_key(const kb_map *map, uint64_t key)
{
    uint64_t *value = kb_map_find(map, key);
    return value && *value ? (uint32_t)(*value - 1) : KA_NONE;
}

/* Index of a stream by device (-1: any) and id; KA_NONE. */
static uint32_t stream_of(const ka_dataset *s, int64_t device, int64_t id)
{
    for (uint32_t i = 0; i < s->stream_count; i++)
        if (s->streams[i].id == id && (device < 0 || s->streams[i].device == device))
            return i;
    return KA_NONE;
}

/* Binary search: launches of a stream are in the order of its work. */
uint32_t ka_launched_before(const ka_dataset *s, uint32_t stream, int64_t ns)
{
    const uint32_t first = s->streams[stream].first;
    uint32_t end = first;
    KB_LOWER_BOUND(end, first + s->streams[stream].count, ka_launch_ns(s, end) < ns);
    for (uint32_t i = 0; end > first && i < MAX_SYNCS; i++, end--)
        if (s->work[end - 1].kind != KINETO_KIND_CUDA_SYNC)
            break;
    return end > first ? end - 1 : KA_NONE;
}

/* The work that was launched to the stream the event is of, before the event was recorded. */
static uint32_t source_of(const finding *f, const sync_row *r)
{
    uint32_t stream = r->wait_on < 0 ? KA_NONE : stream_of(f->s, r->device, r->wait_on),
             record = r->record ? slice_of_key(&f->records, r->record) : KA_NONE;
    if (stream == KA_NONE || (f->s->definitions->events_need_record && record == KA_NONE))
        return KA_NONE;
    return ka_launched_before(f->s, stream,
                              record != KA_NONE ? f->s->slices[record].start_ns : r->start_ns);
}

/* The next work of the stream after the call waits for the source. */
static void add_wait(finding *f, const sync_row *r, uint32_t call)
{
    uint32_t source = source_of(f, r),
             stream = r->stream < 0 ? KA_NONE : stream_of(f->s, r->device, r->stream);
    int64_t ns = call != KA_NONE ? f->s->slices[call].start_ns : r->start_ns;
    if (source == KA_NONE || stream == KA_NONE)
        return;
    const ka_stream *to = &f->s->streams[stream];
    uint32_t before = ka_launched_before(f->s, stream, ns),
             work = before == KA_NONE ? to->first : before + 1;
    for (uint32_t i = 0; work < to->first + to->count && i < MAX_SYNCS; i++, work++)
        if (f->s->work[work].kind != KINETO_KIND_CUDA_SYNC)
            break;
    if (work < to->first + to->count)
        f->no_memory |= !kb_vec_push(&f->out->waits, (ka_sync_wait){work, source});
}

/* A wait of the host: for an event, a stream, or the whole device, by the name of the row. */
static void add_sync(finding *f, const sync_row *r)
{
    kineto_string name = ka_name(f->s, r->name);
    uint32_t call = r->call == KINETO_NO_ROW ? KA_NONE : slice_of_key(&f->calls, r->call + 1);
    ka_sync_call sync = {call, KA_NONE, KA_NONE};
    if (kb_string_contains(name, "Wait Event")) {
        add_wait(f, r, call);
        return;
    }
    if (kb_string_contains(name, "Event"))
        sync.source = source_of(f, r);
    else if (kb_string_contains(name, "Stream") && r->stream >= 0)
        sync.stream = stream_of(f->s, r->device, r->stream);
    else if (!kb_string_contains(name, "Context") && !kb_string_contains(name, "Device"))
        return;
    bool known = sync.source != KA_NONE || sync.stream != KA_NONE ||
                 (!kb_string_contains(name, "Event") && !kb_string_contains(name, "Stream"));
    if (call != KA_NONE && known)
        f->no_memory |= !kb_vec_push(&f->out->calls, sync);
}

static int compare_waits(const void *left, const void *right)
{
    const ka_sync_wait *a = left, *b = right;
    if (a->work != b->work)
        return a->work < b->work ? -1 : 1;
    return a->source < b->source ? -1 : a->source > b->source;
}

static int compare_calls(const void *left, const void *right)
{
    const ka_sync_call *a = left, *b = right;
    return a->call < b->call ? -1 : a->call > b->call;
}

bool ka_syncs_find(const ka_dataset *s, ka_syncs *out)
{
    finding f = {.s = s, .out = out};
    collect_rows(&f);
    if (f.rows.count)
        find_slices(&f);
    for (size_t i = 0; i < f.rows.count && !f.no_memory; i++)
        add_sync(&f, &f.rows.data[i]);
    if (out->waits.count)
        qsort(out->waits.data, out->waits.count, sizeof *out->waits.data, compare_waits);
    if (out->calls.count)
        qsort(out->calls.data, out->calls.count, sizeof *out->calls.data, compare_calls);
    kb_vec_free(&f.rows);
    kb_map_free(&f.calls);
    kb_map_free(&f.records);
    return !f.no_memory;
}

void ka_syncs_free(ka_syncs *syncs)
{
    kb_vec_free(&syncs->waits);
    kb_vec_free(&syncs->calls);
}
