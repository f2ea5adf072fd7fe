/* The table idle_breakdown: gaps of a stream by whether the work after them had been launched
 * when they began (kernel_wait) or not (host_wait), as HolisticTraceAnalysis defines it. */
#include "analyze/facts/analyses.h"

static const char *const reason_names[] = {"host_wait", "kernel_wait", "other"};

/* The device needs about this long from one activity to the next; a longer gap has another
 * cause. */
#define KERNEL_WAIT_NS 30000

/* A launch after the gap had begun: the stream waited for the host, as nothing was there to
 * run. Else a short gap is the delay of the device between kernels. `call` may be NULL. */
static ka_stream_idle_reason gap_category(const ka_slice *call, int64_t from_ns, int64_t gap_ns)
{
    if (call && call->start_ns > from_ns)
        return KA_STREAM_IDLE_HOST_WAIT;
    return gap_ns < KERNEL_WAIT_NS ? KA_STREAM_IDLE_KERNEL_WAIT : KA_STREAM_IDLE_OTHER;
}

void ka_stream_idle_add(ka_stream_idle *sum, ka_stream_idle_reason why, int64_t ns)
{
    sum->ns[why] = ka_add_ns(sum->ns[why], ns);
    sum->all_ns = ka_add_ns(sum->all_ns, ns);
    sum->any[why] = true;
}

void ka_stream_idle_add_before(ka_stream_idle *sum, const ka_slice *call, int64_t from_ns,
                               int64_t ns)
{
    ka_stream_idle_add(sum, gap_category(call, from_ns, ns), ns);
}

/* Gaps of a stream begin at the latest end so far, since work of a stream may overlap in a
 * trace. */
static ka_stream_idle idle_of(const ka_dataset *s, const ka_stream *stream)
{
    ka_stream_idle sum = {0};
    int64_t end_ns = INT64_MAX;
    for (uint32_t i = stream->first; i < stream->first + stream->count; i++) {
        const ka_work *w = &s->work[i];
        if (end_ns < w->start_ns) {
            int64_t gap_ns = kb_length_ns(end_ns, w->start_ns);
            const ka_slice *call = w->call == KA_NONE ? NULL : &s->slices[w->call];
            ka_stream_idle_add_before(&sum, call, end_ns, gap_ns);
        }
        end_ns = end_ns == INT64_MAX ? w->end_ns : KB_MAX(end_ns, w->end_ns);
    }
    return sum;
}

/* ---- table ----------------------------------------------------------------------------------- */

/* A category without any gap has no row; the share is of all idle time of the stream. */
static void put_idle_categories(const ka_dataset *s, ka_table *t, const ka_stream *stream,
                                const ka_stream_idle *sum)
{
    for (int why = 0; why < KA_STREAM_IDLE_REASON_COUNT; why++) {
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

/* By the definitions' own rule if they have one. False: out of memory. */
static bool sum_streams(const ka_dataset *s, ka_stream_idle *by_stream)
{
    if (s->definitions->sum_idle)
        return s->definitions->sum_idle(s, by_stream);
    for (uint32_t i = 0; i < s->stream_count; i++)
        by_stream[i] = idle_of(s, &s->streams[i]);
    return true;
}

/* Table idle_breakdown, stream by stream. */
kineto_status ka_analyze_idle(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_idle_breakdown);
    if (!s->work_count)
        ka_note_no_device(t);
    ka_stream_idle *by_stream = calloc((size_t)s->stream_count + 1, sizeof *by_stream);
    if (!by_stream || !sum_streams(s, by_stream)) {
        free(by_stream);
        return kb_fail_memory(err, NULL);
    }
    for (uint32_t i = 0; i < s->stream_count; i++)
        put_idle_categories(s, t, &s->streams[i], &by_stream[i]);
    free(by_stream);
    if (s->work_count && !ka_table_rows(t))
        ka_note(t, "no stream was idle between its first and its last activity");
    return KINETO_OK;
}
