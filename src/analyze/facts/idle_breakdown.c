/* The table idle_breakdown: gaps of a stream by whether the work after them had been launched
 * when they began (kernel_wait) or not (host_wait), as HolisticTraceAnalysis defines it. */
#include "analyze/facts/analyses.h"

typedef enum reason { HOST_WAIT, KERNEL_WAIT, OTHER, REASON_COUNT } reason;
static const char *const reason_names[] = {"host_wait", "kernel_wait", "other"};

/* The device needs about this long from one activity to the next. */
#define KERNEL_WAIT_NS 30000

typedef struct idle {
    int64_t ns[REASON_COUNT], all_ns;
    bool any[REASON_COUNT]; /* HTA: the first of a stream counts, with nothing */
} idle;

/* The host launched it after the gap had begun: nothing was there to run. */
static reason gap_category(const ka_slice *call, int64_t from_ns, int64_t gap_ns)
{
    if (call && call->start_ns > from_ns)
        return HOST_WAIT;
    return gap_ns < KERNEL_WAIT_NS ? KERNEL_WAIT : OTHER;
}

static void add_idle_reason(idle *sum, reason why, int64_t ns)
{
    sum->ns[why] = ka_add_ns(sum->ns[why], ns);
    sum->all_ns = ka_add_ns(sum->all_ns, ns);
    sum->any[why] = true;
}

static idle idle_of(const ka_dataset *s, const ka_stream *stream)
{
    idle sum = {0};
    int64_t end_ns = INT64_MAX;
    for (uint32_t i = stream->first; i < stream->first + stream->count; i++) {
        const ka_work *w = &s->work[i];
        if (end_ns < w->start_ns) {
            int64_t gap_ns = kb_length_ns(end_ns, w->start_ns);
            const ka_slice *call = w->call == KA_NONE ? NULL : &s->slices[w->call];
            add_idle_reason(&sum, gap_category(call, end_ns, gap_ns), gap_ns);
        }
        end_ns = end_ns == INT64_MAX ? w->end_ns : KB_MAX(end_ns, w->end_ns);
    }
    return sum;
}

/* ---- as HTA ---------------------------------------------------------------------------------- */

static bool is_hta_kind(const ka_dataset *s, const ka_work *w)
{
    static const char *const categories[] = {"kernel",     "Kernel", "gpu_memset",     "Memset",
                                             "gpu_memcpy", "Memcpy", "mtia_ccp_events"};
    kineto_activity activity;
    kineto_trace_get(s->trace, w->row, &activity);
    kineto_string category = kineto_trace_string(s->trace, activity.category);
    return kb_string_is_one_of(category, categories, KB_COUNT(categories));
}

/* The first range of the file stands for launches that are missing. */
static const ka_slice *call_hta(const ka_dataset *s, const ka_work *w, const ka_slice *first)
{
    if (w->call != KA_NONE)
        return &s->slices[w->call];
    const kt_block *b = kt_block_at(s->trace, w->row / KT_BLOCK_ROWS);
    return b->correlation_id[w->row % KT_BLOCK_ROWS] ? first : NULL;
}

static const ka_slice *first_of_file(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].row == 0)
            return &s->slices[i];
    return NULL;
}

typedef KB_VEC(const ka_work *) works;

static int compare_work_rows(const void *left, const void *right)
{
    const ka_work *a = *(const ka_work *const *)left, *b = *(const ka_work *const *)right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* From the end of the one before, even when an earlier one still ran: gaps may be negative. */
static bool idle_of_hta(const ka_dataset *s, const ka_stream *stream, const ka_slice *first,
                        idle *sum)
{
    works list = {0};
    *sum = (idle){0};
    bool ok = true;
    for (uint32_t i = stream->first; ok && i < stream->first + stream->count; i++)
        if (is_hta_kind(s, &s->work[i]))
            ok = kb_vec_push(&list, &s->work[i]);
    if (list.count)
        qsort(list.data, list.count, sizeof *list.data, compare_work_rows);
    for (size_t i = 0; i < list.count; i++) {
        int64_t end_ns = i ? list.data[i - 1]->end_ns : INT64_MAX;
        int64_t gap_ns = i ? kb_length_ns(end_ns, list.data[i]->start_ns) : 0;
        add_idle_reason(sum, i ? gap_category(call_hta(s, list.data[i], first), end_ns, gap_ns) : OTHER, gap_ns);
    }
    kb_vec_free(&list);
    return ok;
}

/* ---- table ----------------------------------------------------------------------------------- */

static void put_idle_categories(const ka_dataset *s, ka_table *t, const ka_stream *stream,
                                const idle *sum)
{
    for (int why = 0; why < REASON_COUNT; why++) {
        if (!sum->any[why])
            continue;
        ka_put_int(t, s->rank);
        ka_put_int(t, stream->id);
        ka_put_text(t, kb_string(reason_names[why]));
        ka_put_ns(t, sum->ns[why]);
        if (sum->all_ns)
            ka_put_number(t, ka_percent((double)sum->ns[why], (double)sum->all_ns));
        else
            ka_put_none(t);
    }
}

/* Table idle_breakdown, stream by stream. */
kineto_status ka_analyze_idle(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_idle_breakdown);
    if (!s->work_count)
        ka_note_no_device(t);
    const ka_slice *first = s->hta ? first_of_file(s) : NULL;
    for (uint32_t i = 0; i < s->stream_count; i++) {
        idle sum;
        if (!s->hta)
            sum = idle_of(s, &s->streams[i]);
        else if (!idle_of_hta(s, &s->streams[i], first, &sum))
            return kb_fail(err, KINETO_E_MEMORY, "out of memory");
        put_idle_categories(s, t, &s->streams[i], &sum);
    }
    if (s->work_count && !ka_table_rows(t))
        ka_note(t, "no stream was idle between its first and its last activity");
    return KINETO_OK;
}
