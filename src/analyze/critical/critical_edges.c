/* Edges to device work and to the ends of calls that wait. The causes of each moment are
 * proposed as candidates with the least time they need; the one that was ready last explains the
 * moment and gets all of the time in between. Recorded waits (critical_sync.c) go first; without
 * them waits are inferred from names of calls and from times. */
#include "analyze/critical/critical.h"

/* Clocks of host and device agree about as well; what returns from a wait takes about as long. */
#define CLOCK_NS       5000
#define MIN_CALL_NS    2000
#define WAIT_NS        20000 /* from the end of what a stream waited for to its next work */
#define UNEXPLAINED_NS 3000
#define LATE_RETURN_NS 50000 /* of calls that may wait, or may take long for another reason */
#define MIN_QUEUE      32u
#define SAMPLES        4096u
#define MAX_STREAMS    256u

/* The effect of a call, by its name. */
typedef enum call_role {
    ROLE_UNKNOWN,
    ROLE_NONE,
    ROLE_DEVICE, /* returns when all work is done */
    ROLE_SYNC,   /* when that of some stream is */
    ROLE_EVENT,  /* the same, for work before an event */
    ROLE_COPY,   /* may return when its own work is done */
    ROLE_MAY,    /* frees or allocates: may wait for everything */
    ROLE_STREAM, /* makes a stream wait */
} call_role;

/* The state of adding edges; times that are usual in this trace. */
typedef struct linking {
    ka_path *p;
    const ka_dataset *s;
    ka_syncs syncs;
    KB_VEC(uint32_t) by_end;      /* work of the window */
    KB_VEC(int64_t) stream_waits; /* when calls made streams wait */
    uint8_t *role;                /* by name */
    int64_t least_launch, usual_gap;
    bool no_memory;
} linking;

/* ---- names of calls --------------------------------------------------------------------------------------- */

/* Case and vendor prefixes do not matter; the first word that the name holds decides. */
static call_role role_of_name(kineto_string name)
{
    static const struct {
        const char *word;
        call_role role;
    } words[] = {{"streamwaitevent", ROLE_STREAM},
                 {"eventsynchronize", ROLE_EVENT},
                 {"devicesynchronize", ROLE_DEVICE},
                 {"ctxsynchronize", ROLE_DEVICE},
                 {"synchronize", ROLE_SYNC},
                 {"waitforevents", ROLE_EVENT},
                 {"clfinish", ROLE_SYNC},
                 {"queuefinish", ROLE_SYNC},
                 {"eventwait", ROLE_EVENT},
                 {"memcpy", ROLE_COPY},
                 {"memset", ROLE_COPY},
                 {"enqueueread", ROLE_COPY},
                 {"enqueuewrite", ROLE_COPY},
                 {"cudafree", ROLE_MAY},
                 {"hipfree", ROLE_MAY},
                 {"memfree", ROLE_MAY},
                 {"malloc", ROLE_MAY},
                 {"hostalloc", ROLE_MAY},
                 {"hostregister", ROLE_MAY}};
    for (size_t i = 0; i < KB_COUNT(words); i++)
        if (kb_string_contains_ignoring_case(name, words[i].word))
            return words[i].role;
    return ROLE_NONE;
}

/* The role of a call, computed once per name. */
static call_role role_of_call(linking *l, const ka_slice *slice)
{
    if (slice->kind != KINETO_KIND_RUNTIME && slice->kind != KINETO_KIND_DRIVER)
        return ROLE_NONE;
    uint8_t *role = &l->role[slice->name];
    if (*role == ROLE_UNKNOWN)
        *role = (uint8_t)role_of_name(ka_name(l->s, slice->name));
    return (call_role)*role;
}

/* Collects the times at which calls made streams wait, in order. */
static void find_stream_waits(linking *l)
{
    for (uint32_t i = 0; i < l->s->slice_count && !l->no_memory; i++)
        if (role_of_call(l, &l->s->slices[i]) == ROLE_STREAM)
            l->no_memory |= !kb_vec_push(&l->stream_waits, l->s->slices[i].start_ns);
    if (l->stream_waits.count)
        qsort(l->stream_waits.data, l->stream_waits.count, sizeof(int64_t), kb_compare_int64);
}

/* Was some stream made to wait in between? */
static bool has_stream_wait_between(const linking *l, int64_t from_ns, int64_t to_ns)
{
    size_t next = 0;
    KB_LOWER_BOUND(next, l->stream_waits.count, l->stream_waits.data[next] <= from_ns);
    return next < l->stream_waits.count && l->stream_waits.data[next] < to_ns;
}

/* ---- work by its end ---------------------------------------------------------------------------------------- */

/* By end, then index. */
static int compare_work_ends(const void *left, const void *right, void *context)
{
    const ka_work *work = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (work[a].end_ns != work[b].end_ns)
        return work[a].end_ns < work[b].end_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Collects the work that has nodes, by its end. */
static void order_by_end(linking *l)
{
    for (uint32_t i = 0; i < l->s->work_count && !l->no_memory; i++) {
        uint32_t work = l->s->by_time[i];
        if (l->p->work_start[work] != KA_NONE)
            l->no_memory |= !kb_vec_push(&l->by_end, work);
    }
    if (l->by_end.count)
        qsort_r(l->by_end.data, l->by_end.count, sizeof(uint32_t), compare_work_ends,
                (void *)(uintptr_t)l->s->work);
}

/* How many of by_end ended no later. */
static size_t count_ended_until(const linking *l, int64_t ns)
{
    size_t count = 0;
    KB_LOWER_BOUND(count, l->by_end.count, l->s->work[l->by_end.data[count]].end_ns <= ns);
    return count;
}

/* ---- what is usual -------------------------------------------------------------------------------------------- */

/* The least time from a launch to its work, and the usual one between work that was in the queue.
 */
static void measure_delays(linking *l)
{
    int64_t gaps[SAMPLES];
    uint32_t count = 0, step = l->s->work_count / SAMPLES + 1;
    l->least_launch = INT64_MAX;
    for (uint32_t i = 0; i < l->s->work_count; i++) {
        const ka_work *w = &l->s->work[i];
        int64_t delay = w->call == KA_NONE ? -1 : kb_length_ns(ka_launch_ns(l->s, i), w->start_ns);
        if (delay >= 0)
            l->least_launch = KB_MIN(l->least_launch, delay);
    }
    if (l->least_launch == INT64_MAX)
        l->least_launch = 0;
    for (uint32_t i = 1; i < l->s->work_count && count < SAMPLES; i += step) {
        const ka_work *before = &l->s->work[i - 1], *w = &l->s->work[i];
        if (before->stream == w->stream && before->end_ns <= w->start_ns &&
            ka_add_ns(ka_launch_ns(l->s, i), l->least_launch) < before->end_ns)
            gaps[count++] = kb_length_ns(before->end_ns, w->start_ns);
    }
    qsort(gaps, count, sizeof *gaps, kb_compare_int64);
    l->usual_gap = count ? gaps[count / 2] : 0;
}

/* ---- edges to work ---------------------------------------------------------------------------------------------- */

/* The class of time that a device spends in work. */
static uint8_t class_of_work(const ka_work *w)
{
    if (w->kind == KINETO_KIND_GPU_MEMCPY || w->kind == KINETO_KIND_GPU_MEMSET)
        return KA_PATH_COPY;
    static const uint8_t classes[] = {[KA_TYPE_OTHER] = KA_PATH_DEVICE,
                                      [KA_TYPE_COMPUTATION] = KA_PATH_COMPUTE,
                                      [KA_TYPE_COMMUNICATION] = KA_PATH_COMMUNICATION,
                                      [KA_TYPE_MEMORY] = KA_PATH_COPY};
    return w->type < KB_COUNT(classes) ? classes[w->type] : KA_PATH_DEVICE;
}

/* What a moment may have waited for. The one that was ready last is what it did wait for: its edge
 * has all of the time, the others have what they take at least. */
#define MAX_CANDIDATES 8u
typedef struct candidates {
    ka_edge edges[MAX_CANDIDATES]; /* ns: at least */
    uint32_t count;
} candidates;

/* Adds a candidate, its time limited to what lies between the two nodes. More than
 * MAX_CANDIDATES, and causes that are later than their effect, are dropped. */
static void propose_edge(const linking *l, candidates *c, ka_edge edge)
{
    int64_t ns = kb_length_ns(l->p->nodes.data[edge.src].ns, l->p->nodes.data[edge.dst].ns);
    if (c->count == MAX_CANDIDATES || ns < 0)
        return;
    edge.ns = KB_MIN(KB_MAX(edge.ns, 0), ns);
    c->edges[c->count++] = edge;
}

/* When this cause alone would have let the node happen. */
static int64_t ready_ns(const linking *l, const ka_edge *edge)
{
    return ka_add_ns(l->p->nodes.data[edge->src].ns, edge->ns);
}

/* When all candidates would have let the node happen. */
static int64_t all_ready_ns(const linking *l, const candidates *c)
{
    int64_t ns = l->p->start_ns;
    for (uint32_t i = 0; i < c->count; i++)
        ns = KB_MAX(ns, ready_ns(l, &c->edges[i]));
    return ns;
}

/* Turns candidates into edges; the one that was ready last gets all of the time. */
static void put_candidates(linking *l, candidates *c)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < c->count; i++)
        if (ready_ns(l, &c->edges[i]) > ready_ns(l, &c->edges[best]))
            best = i;
    for (uint32_t i = 0; i < c->count; i++) {
        ka_edge *e = &c->edges[i];
        if (i == best)
            e->ns = kb_length_ns(l->p->nodes.data[e->src].ns, l->p->nodes.data[e->dst].ns);
        ka_path_edge(l->p, *e);
    }
}

/* `before` ran until shortly after: as clocks are, until then. */
static void propose_stream(const linking *l, candidates *c, uint32_t before, uint32_t node)
{
    const ka_work *w = &l->s->work[before];
    uint32_t src = l->p->work_start[before];
    int64_t ns = l->p->nodes.data[node].ns;
    ka_edge edge = {.src = src + 1,
                    .dst = node,
                    .ns = l->usual_gap,
                    .owner = before,
                    .of = KA_OF_NOTHING,
                    .type = KA_EDGE_STREAM,
                    .class = KA_PATH_GAP};
    if (w->end_ns > ns) {
        edge.src = src;
        edge.ns = 0;
        if (kb_length_ns(ns, w->end_ns) <= CLOCK_NS) {
            edge.ns = kb_length_ns(w->start_ns, ns);
            edge.of = KA_OF_WORK;
            edge.class = class_of_work(w);
        }
    }
    propose_edge(l, c, edge);
}

/* Work cannot begin before its launch. */
static void propose_launch(const linking *l, candidates *c, uint32_t work, uint32_t node)
{
    uint32_t call = l->s->work[work].call;
    if (call != KA_NONE && l->p->start_of[call] != KA_NONE)
        propose_edge(l, c,
                     (ka_edge){.src = l->p->start_of[call],
                               .dst = node,
                               .ns = l->least_launch,
                               .owner = work,
                               .type = KA_EDGE_LAUNCH,
                               .class = KA_PATH_LAUNCH});
}

/* `work` waits for the end of `source`, which another stream runs. */
static void propose_wait(const linking *l, candidates *c, uint32_t source, uint32_t work,
                         uint8_t type)
{
    if (l->p->work_start[source] != KA_NONE)
        propose_edge(l, c,
                     (ka_edge){.src = l->p->work_start[source] + 1,
                               .dst = l->p->work_start[work],
                               .owner = source,
                               .type = type,
                               .class = KA_PATH_STREAM_WAIT});
}

/* The first work of a stream in the window waits for what was there before. */
static void propose_earlier(const linking *l, candidates *c, uint32_t work, uint32_t node)
{
    if (work == l->s->streams[l->s->work[work].stream].first)
        return;
    int64_t end = l->s->work[work - 1].end_ns;
    if (end > l->p->start_ns && end <= l->s->work[work].start_ns)
        propose_edge(l, c,
                     (ka_edge){.dst = node,
                               .ns = ka_add_ns(kb_length_ns(l->p->start_ns, end), l->usual_gap),
                               .owner = KA_NONE,
                               .type = KA_EDGE_START,
                               .class = KA_PATH_EARLIER});
}

/* All recorded waits of the work. `cursor` rises with work. */
static void propose_recorded(const linking *l, candidates *c, uint32_t work, size_t *cursor)
{
    const ka_sync_wait *waits = l->syncs.waits.data;
    while (*cursor < l->syncs.waits.count && waits[*cursor].work < work)
        ++*cursor;
    for (size_t i = *cursor; i < l->syncs.waits.count && waits[i].work == work; i++)
        propose_wait(l, c, waits[i].source, work, KA_EDGE_WAIT);
}

/* Work that began right after another stream's had ended, with a call between their launches that
 * made a stream wait, and for no other reason that is known. */
static void propose_inferred(const linking *l, candidates *c, uint32_t work)
{
    const ka_work *w = &l->s->work[work];
    int64_t launch = ka_launch_ns(l->s, work);
    if (kb_length_ns(all_ready_ns(l, c), w->start_ns) <= UNEXPLAINED_NS)
        return;
    size_t i = count_ended_until(l, w->start_ns);
    for (uint32_t tries = 0; i-- > 0 && tries < 32; tries++) {
        uint32_t source = l->by_end.data[i];
        const ka_work *from = &l->s->work[source];
        if (kb_length_ns(from->end_ns, w->start_ns) > WAIT_NS)
            return;
        if (from->stream == w->stream ||
            l->s->streams[from->stream].device != l->s->streams[w->stream].device ||
            !has_stream_wait_between(l, ka_launch_ns(l->s, source), launch))
            continue;
        propose_wait(l, c, source, work, KA_EDGE_WAIT_INFERRED);
        return;
    }
}

/* The edge of the work itself, then its causes. `before` is the work of the stream that ended
 * last before it; KA_NONE. */
static void add_work_edges(linking *l, uint32_t work, uint32_t before, size_t *cursor)
{
    uint32_t node = l->p->work_start[work];
    const ka_work *w = &l->s->work[work];
    candidates c = {.count = 0};
    ka_path_edge(l->p, (ka_edge){.src = node,
                                 .dst = node + 1,
                                 .ns = KB_MAX(ka_work_ns(w), 0),
                                 .owner = work,
                                 .of = KA_OF_WORK,
                                 .type = KA_EDGE_WORK,
                                 .class = class_of_work(w)});
    propose_launch(l, &c, work, node);
    if (before != KA_NONE)
        propose_stream(l, &c, before, node);
    else
        propose_earlier(l, &c, work, node);
    propose_recorded(l, &c, work, cursor);
    if (l->stream_waits.count && !l->syncs.waits.count)
        propose_inferred(l, &c, work);
    put_candidates(l, &c);
}

/* Edges of all work, stream by stream, so that `cursor` of recorded waits only rises. */
static void link_streams(linking *l)
{
    size_t cursor = 0;
    for (uint32_t i = 0; i < l->s->stream_count; i++) {
        const ka_stream *stream = &l->s->streams[i];
        uint32_t before = KA_NONE;
        for (uint32_t j = stream->first; j < stream->first + stream->count; j++) {
            if (l->p->work_start[j] == KA_NONE)
                continue;
            add_work_edges(l, j, before, &cursor);
            if (before == KA_NONE || l->s->work[j].end_ns >= l->s->work[before].end_ns)
                before = j;
        }
    }
}

/* ---- edges to the ends of calls --------------------------------------------------------------------------------- */

/* The last moment of the call, or of what it encloses, before its end. Ranges that begin or end while
 * the thread is in the call, and cross it, do not keep it from returning. */
static uint32_t find_wait_begin(const linking *l, uint32_t call)
{
    uint32_t node = l->p->edges.data[l->p->end_of[call] - 1].src, begin = l->p->start_of[call];
    while (node > begin && (l->p->nodes.data[node].index < call ||
                            l->p->nodes.data[node].index >= l->s->slices[call].next))
        node--;
    return node;
}

/* When the thread began to wait in the call. */
static int64_t wait_began(const linking *l, uint32_t call)
{
    return l->p->nodes.data[find_wait_begin(l, call)].ns;
}

/* Work that had ended anyway: had it taken longer, the call would have waited. */
static void would_wait_for(linking *l, uint32_t call, uint32_t work, uint8_t type)
{
    uint32_t src = l->p->work_start[work] + 1, node = l->p->end_of[call];
    if (l->p->nodes.data[src].ns <= l->p->nodes.data[node].ns)
        ka_path_edge(
            l->p,
            (ka_edge){
                .src = src, .dst = node, .owner = call, .type = type, .class = KA_PATH_RETURN});
}

/* The end of a call comes when the work has ended, and the call itself takes next to nothing. */
static void waits_for(linking *l, uint32_t call, uint32_t work, uint8_t type)
{
    uint32_t node = l->p->end_of[call], src = l->p->work_start[work];
    const ka_work *w = &l->s->work[work];
    int64_t ns = l->p->nodes.data[node].ns;
    ka_edge edge = {.src = src + 1,
                    .dst = node,
                    .owner = call,
                    .of = KA_OF_NOTHING,
                    .type = type,
                    .class = KA_PATH_RETURN};
    if (w->end_ns > ns) {
        edge.src = src;
        edge.owner = work;
        edge.of = KA_OF_WORK;
        edge.class = class_of_work(w);
    }
    edge.ns = kb_length_ns(l->p->nodes.data[edge.src].ns, ns);
    if (edge.ns < 0)
        return;
    ka_path_edge(l->p, edge);
    ka_edge *own = &l->p->edges.data[node - 1];
    KB_ASSERT(own->dst == node); /* the host's own edge, see critical_graph.c */
    own->src = find_wait_begin(l, call);
    own->ns = KB_MIN(own->ns, MIN_CALL_NS);
}

/* The end of the call waits for work that ended in time, if it has a node. */
static void wait_for_work(linking *l, uint32_t call, uint32_t work, uint8_t type)
{
    if (work == KA_NONE || l->p->work_start[work] == KA_NONE ||
        l->s->work[work].end_ns > ka_add_ns(l->s->slices[call].end_ns, CLOCK_NS))
        return;
    if (l->s->work[work].end_ns > wait_began(l, call))
        waits_for(l, call, work, type);
    else
        would_wait_for(l, call, work, type);
}

/* For all that was launched before: at most the work that ended last made it wait. */
static void wait_for_all(linking *l, uint32_t call, uint8_t type)
{
    uint32_t last = KA_NONE, streams = KB_MIN(l->s->stream_count, MAX_STREAMS);
    for (uint32_t i = 0; i < streams; i++) {
        uint32_t work = ka_launched_before(l->s, i, l->s->slices[call].start_ns);
        if (work == KA_NONE || l->p->work_start[work] == KA_NONE ||
            l->s->work[work].end_ns > ka_add_ns(l->s->slices[call].end_ns, CLOCK_NS))
            continue;
        if (last == KA_NONE || l->s->work[work].end_ns > l->s->work[last].end_ns)
            last = work;
        would_wait_for(l, call, work, type);
    }
    if (last != KA_NONE && l->s->work[last].end_ns > wait_began(l, call))
        waits_for(l, call, last, type);
}

/* Is no later work of the stream launched before that time? */
static bool is_last_before(const linking *l, uint32_t work, int64_t ns)
{
    const ka_stream *stream = &l->s->streams[l->s->work[work].stream];
    return work + 1 == stream->first + stream->count || ka_launch_ns(l->s, work + 1) >= ns;
}

/* The work that ended last before the call did, of what was in streams when it began. */
static uint32_t work_waited_for(const linking *l, uint32_t call, call_role role)
{
    const ka_slice *slice = &l->s->slices[call];
    size_t i = count_ended_until(l, ka_add_ns(slice->end_ns, CLOCK_NS));
    int64_t began = wait_began(l, call);
    for (uint32_t tries = 0; i-- > 0 && tries < 64; tries++) {
        uint32_t work = l->by_end.data[i];
        const ka_work *w = &l->s->work[work];
        if (w->end_ns <= began ||
            (role == ROLE_MAY && kb_length_ns(w->end_ns, slice->end_ns) > LATE_RETURN_NS))
            return KA_NONE;
        if (ka_launch_ns(l->s, work) < slice->start_ns &&
            (role == ROLE_EVENT || is_last_before(l, work, slice->start_ns)))
            return work;
    }
    return KA_NONE;
}

/* What the call launched and ended last, of what it launched last. */
static uint32_t own_work(const linking *l, uint32_t call)
{
    const ka_slice *slice = &l->s->slices[call];
    uint32_t last = KA_NONE;
    for (uint32_t i = slice->work_count; i-- > 0 && slice->work_count - i <= 16;) {
        uint32_t work = l->s->launched[slice->first_work + i];
        if (last == KA_NONE || l->s->work[work].end_ns > l->s->work[last].end_ns)
            last = work;
    }
    return last;
}

/* What the trace says of this call; false: nothing. */
static bool link_recorded(linking *l, uint32_t call, size_t *cursor)
{
    const ka_sync_call *calls = l->syncs.calls.data;
    bool any = false;
    while (*cursor < l->syncs.calls.count && calls[*cursor].call < call)
        ++*cursor;
    for (size_t i = *cursor; i < l->syncs.calls.count && calls[i].call == call; i++) {
        uint32_t work = calls[i].source;
        if (work == KA_NONE && calls[i].stream != KA_NONE)
            work = ka_launched_before(l->s, calls[i].stream, l->s->slices[call].start_ns);
        if (work == KA_NONE)
            wait_for_all(l, call, KA_EDGE_SYNC);
        else
            wait_for_work(l, call, work, KA_EDGE_SYNC);
        any = true;
    }
    return any;
}

/* A launch that took long and returned when work far ahead in its stream was done. */
static void link_full_queue(linking *l, uint32_t call)
{
    const ka_slice *slice = &l->s->slices[call];
    if (!slice->work_count || ka_slice_ns(slice) < WAIT_NS)
        return;
    uint32_t own = l->s->launched[slice->first_work];
    size_t i = count_ended_until(l, slice->end_ns);
    for (uint32_t tries = 0; i-- > 0 && tries < 16; tries++) {
        uint32_t work = l->by_end.data[i];
        if (kb_length_ns(l->s->work[work].end_ns, slice->end_ns) > WAIT_NS ||
            l->s->work[work].end_ns <= wait_began(l, call))
            return;
        if (l->s->work[work].stream == l->s->work[own].stream && own > work &&
            own - work >= MIN_QUEUE) {
            waits_for(l, call, work, KA_EDGE_FULL_QUEUE);
            return;
        }
    }
}

/* A wait of which the stream is not known: for the work that ended right before, else for what the
 * thread launched last. */
static void link_unknown(linking *l, uint32_t call, call_role role, uint32_t launcher)
{
    uint32_t work = work_waited_for(l, call, role);
    if (work != KA_NONE)
        wait_for_work(l, call, work, KA_EDGE_SYNC_INFERRED);
    else if (role == ROLE_SYNC && launcher != KA_NONE)
        wait_for_work(l, call, own_work(l, launcher), KA_EDGE_SYNC_INFERRED);
}

/* `launcher` is the last call before it in the thread that launched work. */
static void link_call(linking *l, uint32_t call, uint32_t launcher, size_t *cursor)
{
    call_role role = role_of_call(l, &l->s->slices[call]);
    if (link_recorded(l, call, cursor))
        return;
    if (role == ROLE_COPY && !ka_cannot_block(l->s, call))
        wait_for_work(l, call, own_work(l, call), KA_EDGE_SYNC_INFERRED);
    else if (role == ROLE_DEVICE)
        wait_for_all(l, call, KA_EDGE_SYNC_INFERRED);
    else if (role == ROLE_SYNC || role == ROLE_EVENT || role == ROLE_MAY)
        link_unknown(l, call, role, launcher);
    else
        link_full_queue(l, call);
}

/* Edges to the ends of all calls, thread by thread. */
static void link_calls(linking *l)
{
    size_t cursor = 0;
    uint32_t launcher = KA_NONE, thread = KA_NONE;
    for (uint32_t i = 0; i < l->s->slice_count && !l->p->no_memory; i++) {
        const ka_slice *slice = &l->s->slices[i];
        if (slice->thread != thread)
            launcher = KA_NONE;
        thread = slice->thread;
        if (kt_kind_is_launch(slice->kind) && l->p->end_of[i] != KA_NONE)
            link_call(l, i, launcher, &cursor);
        if (slice->work_count)
            launcher = i;
    }
}

/* Measures what is usual first, because candidates are weighed by it. */
void ka_path_add_device(ka_path *p)
{
    linking l = {.p = p, .s = p->s, .role = calloc((size_t)p->s->name_count + 1, 1)};
    l.no_memory = !l.role || !ka_syncs_find(p->s, &l.syncs);
    if (!l.no_memory) {
        measure_delays(&l);
        order_by_end(&l);
        find_stream_waits(&l);
    }
    if (!l.no_memory) {
        link_streams(&l);
        link_calls(&l);
    }
    p->no_memory |= l.no_memory;
    ka_syncs_free(&l.syncs);
    kb_vec_free(&l.by_end);
    kb_vec_free(&l.stream_waits);
    free(l.role);
}
