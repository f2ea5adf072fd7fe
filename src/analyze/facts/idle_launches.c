/* Launches of work: when it was launched, whether as part of a graph, and how many launches of
 * its stream had not begun at a moment. */
#include "analyze/facts/idle.h"

bool ka_call_blocks(const ka_dataset *s, uint32_t slice)
{
    const ka_slice *call = &s->slices[slice];
    if (call->work_count != 1)
        return false;
    const ka_work *w = &s->work[s->launched[call->first_work]];
    return w->kind == KINETO_KIND_GPU_MEMCPY && w->end_ns <= call->end_ns &&
           w->start_ns >= call->start_ns && !ka_cannot_block(s, slice);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* When a call had handed its work to the device: at its end, or, for a call that waits for its
 * work, at most KA_LATENCY_NS after its start. */
static int64_t handed_over_ns(const ka_dataset *s, uint32_t call)
{
    const ka_slice *c = &s->slices[call];
    return ka_call_blocks(s, call) ? KB_MIN(c->end_ns, ka_add_ns(c->start_ns, KA_LATENCY_NS))
                                   : c->end_ns;
}

/* The name that was asked about last: calls of one name follow one another. */
typedef struct graph_name {
    uint32_t name;
    bool is_graph;
} graph_name;

/* cudaGraphLaunch, cuGraphLaunch, hipGraphLaunch; `last` caches the answer for one name. */
static bool launches_graph(const ka_dataset *s, uint32_t name, graph_name *last)
{
    if (last->name != name)
        *last = (graph_name){name, kb_string_contains(ka_name(s, name), "GraphLaunch")};
    return last->is_graph;
}

/* Fills the launches of a stream from its last work backward: a stream runs in the order of
 * launches, so that work was launched no later than what follows it. This bounds the launches
 * whose call is not known. */
static void find_calls(ka_hosts *h, const ka_stream *stream)
{
    const ka_dataset *s = h->s;
    graph_name last = {KA_NONE, false};
    int64_t bound = INT64_MAX;
    for (uint32_t i = stream->first + stream->count; i-- > stream->first;) {
        uint32_t call = s->work[i].call;
        ka_launch *l = &h->launches[i];
        *l = (ka_launch){.thread = KA_NONE, .run = 1};
        if (call != KA_NONE) {
            const ka_slice *c = &s->slices[call];
            bound = KB_MIN(bound, handed_over_ns(s, call));
            l->called_ns = c->start_ns;
            l->thread = c->thread;
            l->in_graph = launches_graph(s, c->name, &last);
            l->is_first = s->launched[c->first_work] == i;
            h->launches_known = true;
        }
        l->queued_ns = bound;
    }
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* The correlation id, which all work of one launch shares; 0: none recorded. */
static uint64_t launch_id(const ka_dataset *s, uint32_t work)
{
    kineto_row row = s->work[work].row;
    return kt_block_at(s->trace, row / KT_BLOCK_ROWS)->correlation_id[row % KT_BLOCK_ROWS];
}

/* Neighbours in a stream with the same launch id are one launch of a graph: `place` counts
 * them, `run` is their number. Where the call is not known, the shared id alone is the
 * evidence for a graph. */
static void find_graphs(ka_hosts *h, const ka_stream *stream)
{
    uint32_t end = stream->first + stream->count;
    uint64_t before = 0;
    for (uint32_t i = stream->first; i < end; i++) {
        ka_launch *l = &h->launches[i];
        uint64_t id = launch_id(h->s, i);
        bool same = id && before == id && (l->thread == KA_NONE || l->in_graph);
        before = id;
        if (!same)
            continue;
        l->place = l[-1].place + 1;
        l->in_graph = l[-1].in_graph = true;
    }
    for (uint32_t i = end; i-- > stream->first + 1;)
        if (h->launches[i].place)
            h->launches[i - 1].run = h->launches[i].run + 1;
    for (uint32_t i = stream->first; i < end; i++)
        if (h->launches[i].place)
            h->launches[i].run = h->launches[i - 1].run;
}

/* ---- what waits ------------------------------------------------------------------------------ */

/* Fills the sorted moments of launches and starts of a stream, at the stream's own range of
 * both arrays. All work of a graph is one launch, which its first work stands for. */
static void list_launches(ka_hosts *h, uint32_t stream)
{
    const ka_stream *info = &h->s->streams[stream];
    int64_t *launched = h->launched_ns + info->first, *started = h->started_ns + info->first;
    uint32_t count = 0;
    bool sorted = true;
    for (uint32_t i = info->first; i < info->first + info->count; i++) {
        if (!h->launches[i].is_first)
            continue;
        launched[count] = h->launches[i].called_ns;
        started[count] = h->s->work[i].start_ns;
        sorted &= !count || launched[count - 1] <= launched[count];
        count++;
    }
    if (!sorted)
        qsort(launched, count, sizeof *launched, kb_compare_int64);
    h->queues[stream].count = count;
}

/* How many of `sorted` are up to `ns`. *near is the last result: moments mostly rise, so the
 * search goes forward from it in growing steps, and restarts at 0 if they fell. */
static uint32_t count_until(const int64_t *sorted, uint32_t count, int64_t ns, uint32_t *near)
{
    uint32_t low = *near, high = *near, step = 1;
    if (low && sorted[low - 1] > ns) {
        low = 0;
    } else {
        for (; high < count && sorted[high] <= ns; step *= 2) {
            low = high + 1;
            high += KB_MIN(step, count - high);
        }
    }
    KB_LOWER_BOUND(low, high, sorted[low] <= ns);
    return *near = low;
}

uint32_t ka_hosts_waiting(const ka_hosts *h, uint32_t stream, int64_t ns)
{
    KB_ASSERT(stream < h->s->stream_count);
    uint32_t first = h->s->streams[stream].first;
    ka_queue *q = &h->queues[stream];
    uint32_t launched = count_until(h->launched_ns + first, q->count, ns, &q->launched),
             started = count_until(h->started_ns + first, q->count, ns, &q->started);
    return launched > started ? launched - started : 0;
}

bool ka_hosts_fill_queue(const ka_hosts *h, uint32_t stream, int64_t ns)
{
    return h->queues[stream].count >= KA_FULL_QUEUE &&
           ka_hosts_waiting(h, stream, ns) >= KA_FULL_QUEUE;
}

bool ka_launches_find(ka_hosts *h)
{
    size_t works = (size_t)h->s->work_count + 1;
    h->launches = kb_array(works, sizeof *h->launches);
    h->launched_ns = kb_array(works, sizeof *h->launched_ns);
    h->started_ns = kb_array(works, sizeof *h->started_ns);
    h->queues = calloc((size_t)h->s->stream_count + 1, sizeof *h->queues);
    if (!h->launches || !h->launched_ns || !h->started_ns || !h->queues)
        return false;
    for (uint32_t i = 0; i < h->s->stream_count; i++) {
        find_calls(h, &h->s->streams[i]);
        find_graphs(h, &h->s->streams[i]);
        list_launches(h, i);
    }
    return true;
}
