/* Gaps of streams and of whole devices, and their parts by reason.
 *
 * A gap is cut at the launch of the work after it. Before the launch, the pieces of the
 * launching thread give the reasons (idle_host.c); after it, the work waited for another
 * stream, another rank, or the device itself. All parts add up to the gap. */
#include "analyze/facts/idle.h"

/* ---- devices --------------------------------------------------------------------------------- */

/* Index in idle->devices of the stream's device, which is appended if it is new. A device id
 * alone is not unique where several processes were merged. KA_NONE: out of memory. */
static uint32_t device_index(ka_idleness *idle, kb_map *known, const ka_stream *stream)
{
    int64_t key[] = {stream->process, stream->device};
    bool created;
    uint64_t *index = kb_map_insert(known, kb_hash(key, sizeof key), idle->devices.count, &created);
    ka_device device = {.process = stream->process, .id = stream->device};
    return index && (!created || kb_vec_push(&idle->devices, device)) ? (uint32_t)*index : KA_NONE;
}

static int compare_work_ends(const void *left, const void *right)
{
    const ka_end *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a->work < b->work ? -1 : a->work > b->work;
}

/* Ends are appended in the order of starts; work of a single stream is in the order of ends
 * already, which the first loop finds out without sorting. */
static void sort_ends(ka_device *d)
{
    for (size_t i = 1; i < d->ends.count; i++)
        if (d->ends.data[i - 1].ns > d->ends.data[i].ns) {
            qsort(d->ends.data, d->ends.count, sizeof *d->ends.data, compare_work_ends);
            return;
        }
}

static bool find_devices(ka_idleness *idle)
{
    const ka_dataset *s = idle->s;
    kb_map known = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->stream_count; i++) {
        idle->device_of[i] = device_index(idle, &known, &s->streams[i]);
        ok = idle->device_of[i] != KA_NONE;
    }
    kb_map_free(&known);
    return ok;
}

/* Fills busy, communicating and ends of all devices in one pass over the work. spans[2 * d]
 * are those of all work of device d, spans[2 * d + 1] those of its communication. ka_sums_make
 * takes the spans over. */
static bool fill_devices(ka_idleness *idle)
{
    const ka_dataset *s = idle->s;
    ka_spans *spans = calloc(2 * idle->devices.count + 1, sizeof *spans);
    bool ok = spans != NULL;
    for (uint32_t i = 0; ok && i < s->work_count; i++) {
        const ka_work *w = &s->work[s->by_time[i]];
        uint32_t d = idle->device_of[w->stream];
        ka_span span = {w->start_ns, w->end_ns};
        ok = kb_vec_push(&spans[2 * d], span) &&
             kb_vec_push(&idle->devices.data[d].ends, (ka_end){w->end_ns, s->by_time[i]}) &&
             (w->type != KA_TYPE_COMMUNICATION || kb_vec_push(&spans[2 * d + 1], span));
    }
    for (size_t d = 0; ok && d < idle->devices.count; d++) {
        ka_device *device = &idle->devices.data[d];
        sort_ends(device);
        ok = ka_sums_make(&device->busy, &spans[2 * d]) &&
             ka_sums_make(&device->communicating, &spans[2 * d + 1]);
    }
    for (size_t d = 0; spans && d < 2 * idle->devices.count; d++)
        kb_vec_free(&spans[d]);
    free(spans);
    return ok;
}

size_t ka_ends_until(const ka_device *d, int64_t ns)
{
    size_t count = 0;
    KB_LOWER_BOUND(count, d->ends.count, d->ends.data[count].ns <= ns);
    return count;
}

/* How many neighbours in order of time are searched: enough for the streams that run at once,
 * and a bound for traces with thousands of ends at one moment. */
#define MAX_NEIGHBOURS 16u
uint32_t ka_released_by(const ka_idleness *idle, const ka_gap *gap, int64_t from_ns, int64_t ns)
{
    const ka_device *d = &idle->devices.data[gap->device];
    uint32_t stream = idle->s->work[gap->after].stream;
    size_t end = ka_ends_until(d, ns);
    for (size_t i = end; i-- > 0 && end - i <= MAX_NEIGHBOURS && d->ends.data[i].ns >= from_ns;)
        if (idle->s->work[d->ends.data[i].work].stream != stream)
            return d->ends.data[i].work;
    return KA_NONE;
}

/* Did work of another stream occupy the device for nearly all of the gap, and end with it? It
 * must have begun within the first tenth of the gap, and have ended within KA_LATENCY_NS of
 * its end. Such a gap waited for the other stream, also inside of a graph. */
static bool is_crowded_out(const ka_idleness *idle, const ka_gap *gap)
{
    const ka_device *d = &idle->devices.data[gap->device];
    uint32_t stream = idle->s->work[gap->after].stream;
    int64_t latest_start = ka_add_ns(gap->start_ns, kb_length_ns(gap->start_ns, gap->end_ns) / 10);
    int64_t earliest_end = ka_add_ns(gap->end_ns, -KA_LATENCY_NS);
    size_t end = ka_ends_until(d, ka_add_ns(gap->end_ns, KA_LATENCY_NS));
    for (size_t i = end;
         i-- > 0 && end - i <= MAX_NEIGHBOURS && d->ends.data[i].ns >= earliest_end;) {
        const ka_work *w = &idle->s->work[d->ends.data[i].work];
        if (w->stream != stream && w->start_ns <= latest_start)
            return true;
    }
    return false;
}

/* ---- what a gap consists of ------------------------------------------------------------------ */

static void add_idle_ns(int64_t *sums, ka_idle reason, int64_t ns)
{
    sums[reason] = ka_add_ns(sums[reason], ns);
}

/* Both neighbours are of one launch, all of which is in this stream: nothing else can have been
 * waited for. Branches of a graph, in several streams, wait for each other. */
static bool is_inside_graph(const ka_idleness *idle, const ka_gap *gap)
{
    const ka_launch *l = &idle->hosts.launches[gap->after];
    uint32_t call = idle->s->work[gap->after].call;
    return l->in_graph && l->place > 0 && !gap->whole &&
           (call == KA_NONE || idle->s->slices[call].work_count == l->run);
}

/* A gap before or after work of a graph: only there can work have run that was not recorded. */
static bool is_next_to_graph(const ka_idleness *idle, const ka_gap *gap)
{
    return idle->hosts.launches[gap->after].in_graph || idle->hosts.launches[gap->before].in_graph;
}

const ka_recurrence *ka_recurrence_of(const ka_idleness *idle, uint32_t after)
{
    const uint64_t *index = kb_map_find(&idle->recurring_at, (uint64_t)after + 1);
    return index ? &idle->recurrences.data[*index] : NULL;
}

/* Work takes the same time whenever it runs; waiting for other hosts and ranks does not.
 * Steady: at least three gaps at this place of the graph, which differ by no more than a
 * quarter of the longest. */
static bool is_steady(const ka_idleness *idle, const ka_gap *gap)
{
    const ka_recurrence *r = ka_recurrence_of(idle, gap->after);
    return r && r->count >= 3 && r->most_ns - r->least_ns <= r->most_ns / 4;
}

/* Classifies `rest` ns of [from_ns, to_ns) in which nothing that was recorded ran, though the
 * stream had work. Tried in this order: steady gaps of a graph are unrecorded work of its own,
 * then unrecorded work of other streams; of what remains, up to KA_LATENCY_NS is latency, and
 * more is waiting for another rank (before communication) or not known. */
static void add_rest(const ka_idleness *idle, const ka_gap *gap, int64_t from_ns, int64_t to_ns,
                     int64_t rest, int64_t *sums)
{
    const ka_device *d = &idle->devices.data[gap->device];
    if (rest > KA_LATENCY_NS && !gap->whole && is_next_to_graph(idle, gap) &&
        is_steady(idle, gap)) {
        add_idle_ns(sums, KA_IDLE_UNRECORDED_WORK, rest);
        return;
    }
    int64_t elsewhere =
        gap->whole ? 0 : kb_min_i64(rest, ka_sums_within(&d->unrecorded, from_ns, to_ns));
    add_idle_ns(sums, KA_IDLE_OTHER_STREAM, elsewhere);
    rest -= elsewhere;
    ka_idle reason = rest <= KA_LATENCY_NS ? KA_IDLE_DEVICE_LATENCY
                     : idle->s->work[gap->after].type == KA_TYPE_COMMUNICATION ? KA_IDLE_OTHER_RANK
                                                                               : KA_IDLE_UNKNOWN;
    add_idle_ns(sums, reason, rest);
}

/* Classifies [from_ns, to_ns), in which the stream had work that did not begin. Time that
 * other streams were busy counts for them; it counts for another rank as far as they
 * communicated, unless the work that ended last before to_ns, and released this work, was no
 * communication. */
static void add_queued(const ka_idleness *idle, const ka_gap *gap, int64_t from_ns, int64_t to_ns,
                       int64_t *sums)
{
    const ka_device *d = &idle->devices.data[gap->device];
    int64_t whole = kb_length_ns(from_ns, to_ns);
    if (to_ns <= from_ns)
        return;
    if (whole > KA_LATENCY_NS && is_inside_graph(idle, gap) && !is_crowded_out(idle, gap)) {
        add_idle_ns(sums, KA_IDLE_UNRECORDED_WORK, whole);
        return;
    }
    /* None of the device's work runs while all of it is idle. */
    int64_t busy = gap->whole ? 0 : ka_sums_within(&d->busy, from_ns, to_ns),
            communicating = busy ? ka_sums_within(&d->communicating, from_ns, to_ns) : 0;
    uint32_t release = communicating
                           ? ka_released_by(idle, gap, ka_add_ns(to_ns, -KA_LATENCY_NS), to_ns)
                           : KA_NONE;
    if (release != KA_NONE && idle->s->work[release].type != KA_TYPE_COMMUNICATION)
        communicating = 0;
    add_idle_ns(sums, KA_IDLE_OTHER_RANK, communicating);
    add_idle_ns(sums, KA_IDLE_OTHER_STREAM, busy - communicating);
    if (whole > busy)
        add_rest(idle, gap, from_ns, to_ns, whole - busy, sums);
}

/* A stretch of a gap in three parts: up to launch_ns the host had not called the launch, up to
 * queued_ns the launch was under way, after that the work was queued. start_ns <= launch_ns <=
 * queued_ns <= end_ns. */
typedef struct phases {
    int64_t start_ns, launch_ns, queued_ns, end_ns;
    const ka_launch *launch;
} phases;

static int64_t clamp_to_gap(int64_t ns, int64_t low, int64_t high)
{
    return ns < low ? low : ns > high ? high : ns;
}

/* Moments of the launch outside of the stretch are clamped to it. Work whose call is not known
 * has no host part: its launch begins with the stretch. */
static phases phases_of(const ka_idleness *idle, const ka_gap *gap, int64_t start_ns, int64_t end_ns
                        )
{
    const ka_launch *l = &idle->hosts.launches[gap->after];
    phases p = {.start_ns = start_ns, .end_ns = end_ns, .launch = l};
    p.queued_ns = clamp_to_gap(l->queued_ns, start_ns, end_ns);
    p.launch_ns =
        l->thread == KA_NONE ? start_ns : clamp_to_gap(l->called_ns, start_ns, p.queued_ns);
    return p;
}

/* Reason of the time between the call of a launch and its end. Of a launch that is not known
 * the activity of the main thread proves nothing. */
static ka_idle launch_reason(const ka_idleness *idle, const ka_gap *gap, ka_host *host,
                             const phases *p)
{
    if (p->launch->thread == KA_NONE)
        return KA_IDLE_UNKNOWN;
    const ka_piece *at = &host->pieces.data[ka_host_at(host, p->launch->called_ns)];
    return at->slice == idle->s->work[gap->after].call && at->reason == KA_IDLE_FULL_QUEUE
               ? KA_IDLE_FULL_QUEUE
               : KA_IDLE_LAUNCHING;
}

/* *host is the launching thread, or NULL if the work was queued before the stretch began or
 * its thread is not known. False: out of memory. */
static bool find_host_of_gap(ka_idleness *idle, const phases *p, ka_host **host)
{
    *host = NULL;
    if (p->queued_ns <= p->start_ns || p->launch->thread == KA_NONE)
        return true;
    *host = ka_hosts_of(&idle->hosts, p->launch->thread);
    return *host != NULL;
}

/* Adds the second and the third part of the stretch. `host` may be NULL only if launch_reason
 * does not need it: the thread of the launch is not known. */
static void add_launch_and_queue(const ka_idleness *idle, const ka_gap *gap, ka_host *host,
                                 const phases *p, int64_t *sums)
{
    if (p->queued_ns > p->launch_ns)
        add_idle_ns(sums, launch_reason(idle, gap, host, p),
                    kb_length_ns(p->launch_ns, p->queued_ns));
    add_queued(idle, gap, p->queued_ns, p->end_ns, sums);
}

/* Adds ns by reason of [start_ns, end_ns) of a gap to `sums`; together they are its length.
 * False: out of memory. */
static bool classify_stretch(ka_idleness *idle, const ka_gap *gap, int64_t start_ns, int64_t end_ns,
                             int64_t *sums)
{
    phases p = phases_of(idle, gap, start_ns, end_ns);
    ka_host *host;
    if (!find_host_of_gap(idle, &p, &host))
        return false;
    if (host)
        ka_host_add(host, start_ns, p.launch_ns, sums);
    add_launch_and_queue(idle, gap, host, &p, sums);
    return true;
}

/* ---- gaps of streams ------------------------------------------------------------------------- */

/* Receives a gap of a stream with all of gap->ns 0, which it may fill. False stops the walk. */
typedef bool stream_gap(ka_idleness *idle, ka_gap *gap, void *context);

/* Work of a stream is in the order of starts, and may overlap: a gap begins at the latest end
 * so far, of the work `last`. */
static bool each_stream_gap(ka_idleness *idle, uint32_t stream, stream_gap *use, void *context)
{
    const ka_stream *info = &idle->s->streams[stream];
    const ka_work *work = idle->s->work;
    uint32_t last = info->first;
    for (uint32_t i = info->first + 1; i < info->first + info->count; i++) {
        if (work[i].start_ns > work[last].end_ns) {
            ka_gap gap = {
                work[last].end_ns, work[i].start_ns, last, i, idle->device_of[stream], false, {0}};
            if (!use(idle, &gap, context))
                return false;
        }
        if (work[i].end_ns >= work[last].end_ns)
            last = i;
    }
    return true;
}

/* Identifies a gap at one place of a graph over all of its launches: stream, names of both
 * neighbours, the place in the launch, and the lengths of both launches. */
static uint64_t place_key(const ka_idleness *idle, uint32_t before, uint32_t after)
{
    const ka_work *work = idle->s->work;
    const ka_launch *l = idle->hosts.launches;
    uint64_t key[] = {work[after].stream, work[after].name, work[before].name,
                      l[after].place,     l[before].run,    l[after].run};
    return kb_hash(key, sizeof key);
}

/* First pass over gaps at graphs: counts how often there was a gap at this place of the graph,
 * and the shortest and longest time that its work was queued. Gaps that are explained by
 * latency are left out. */
static bool note_recurrence(ka_idleness *idle, ka_gap *gap, void *context)
{
    bool created;
    (void)context;
    if (!is_next_to_graph(idle, gap))
        return true;
    int64_t queued_ns = idle->hosts.launches[gap->after].queued_ns;
    int64_t ns = kb_length_ns(clamp_to_gap(queued_ns, gap->start_ns, gap->end_ns), gap->end_ns);
    if (ns <= KA_LATENCY_NS)
        return true;
    uint64_t *index = kb_map_insert(&idle->recurring, place_key(idle, gap->before, gap->after),
                                    idle->recurrences.count, &created);
    if (!index || !kb_map_insert(&idle->recurring_at, (uint64_t)gap->after + 1, *index, NULL) ||
        (created && !kb_vec_push(&idle->recurrences, (ka_recurrence){0, ns, ns})))
        return false;
    ka_recurrence *r = &idle->recurrences.data[*index];
    r->count++;
    r->least_ns = KB_MIN(r->least_ns, ns);
    r->most_ns = KB_MAX(r->most_ns, ns);
    return true;
}

/* Second pass, which needs all recurrences: collects the spans in which a graph ran work that
 * was not recorded. `context` is an array of ka_spans by device. */
static bool collect_unrecorded(ka_idleness *idle, ka_gap *gap, void *context)
{
    ka_spans *spans = (ka_spans *)context + gap->device;
    if (!is_next_to_graph(idle, gap))
        return true;
    int64_t from =
        clamp_to_gap(idle->hosts.launches[gap->after].queued_ns, gap->start_ns, gap->end_ns);
    add_queued(idle, gap, from, gap->end_ns, gap->ns);
    return !gap->ns[KA_IDLE_UNRECORDED_WORK] ||
           (kb_vec_push(spans, (ka_span){from, gap->end_ns}) &&
            kb_vec_push(&idle->devices.data[gap->device].graphs,
                        (ka_unrecorded){from, gap->end_ns, gap->after}));
}

static int compare_unrecorded(const void *left, const void *right)
{
    const ka_unrecorded *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->after < b->after ? -1 : a->after > b->after;
}

/* Few streams run graphs at once: the one looked for is near. */
uint32_t ka_gap_graph(const ka_idleness *idle, const ka_gap *gap)
{
    const ka_device *d = &idle->devices.data[gap->device];
    size_t after = 0;
    KB_LOWER_BOUND(after, d->graphs.count, d->graphs.data[after].start_ns < gap->end_ns);
    uint32_t best = KA_NONE;
    int64_t most = 0;
    for (size_t i = after; i-- > 0 && after - i < MAX_NEIGHBOURS;) {
        const ka_unrecorded *u = &d->graphs.data[i];
        int64_t ns =
            kb_length_ns(KB_MAX(u->start_ns, gap->start_ns), KB_MIN(u->end_ns, gap->end_ns));
        if (ns > most) {
            most = ns;
            best = u->after;
        }
    }
    return best;
}

/* Fills `unrecorded` and `graphs` of all devices. Time in which recorded work of another
 * stream ran is taken out: the device was not idle then. */
static bool find_unrecorded(ka_idleness *idle)
{
    size_t count = idle->devices.count;
    ka_spans *spans = calloc(count + 1, sizeof *spans), free_of_work = {0};
    bool ok = spans != NULL;
    for (uint32_t i = 0; ok && i < idle->s->stream_count; i++)
        ok = each_stream_gap(idle, i, note_recurrence, NULL) &&
             each_stream_gap(idle, i, collect_unrecorded, spans);
    for (size_t d = 0; ok && d < count; d++) {
        ka_device *device = &idle->devices.data[d];
        if (device->graphs.count)
            qsort(device->graphs.data, device->graphs.count, sizeof *device->graphs.data,
                  compare_unrecorded);
        ka_spans_unite(&spans[d]);
        ok = ka_spans_without(&spans[d], &idle->devices.data[d].busy.spans, &free_of_work) &&
             ka_sums_make(&idle->devices.data[d].unrecorded, &free_of_work);
    }
    for (size_t d = 0; spans && d < count; d++)
        kb_vec_free(&spans[d]);
    kb_vec_free(&free_of_work);
    free(spans);
    return ok;
}

/* The callbacks of ka_idleness_walk, for use_stream_gap and the gaps of devices. */
typedef struct walk {
    ka_gap_use *use;
    ka_part_use *part; /* NULL: not needed */
    void *context;
} walk;

static bool use_stream_gap(ka_idleness *idle, ka_gap *gap, void *context)
{
    const walk *w = context;
    return classify_stretch(idle, gap, gap->start_ns, gap->end_ns, gap->ns) &&
           w->use(w->context, gap);
}

/* ---- gaps of devices ------------------------------------------------------------------------- */

/* Calls `part` for what of a gap is not taken by unrecorded work. */
typedef bool part_of_gap(ka_idleness *idle, const ka_gap *gap, int64_t start_ns, int64_t end_ns,
                         void *context);

static bool each_open_part(ka_idleness *idle, const ka_gap *gap, part_of_gap *part, void *context)
{
    const ka_spans *taken = &idle->devices.data[gap->device].unrecorded.spans;
    int64_t from = gap->start_ns;
    size_t i = 0;
    KB_LOWER_BOUND(i, taken->count, taken->data[i].end_ns <= from);
    for (; i < taken->count && taken->data[i].start_ns < gap->end_ns; i++) {
        if (taken->data[i].start_ns > from &&
            !part(idle, gap, from, taken->data[i].start_ns, context))
            return false;
        from = KB_MAX(from, taken->data[i].end_ns);
    }
    return from >= gap->end_ns || part(idle, gap, from, gap->end_ns, context);
}

static bool classify_part(ka_idleness *idle, const ka_gap *gap, int64_t start_ns, int64_t end_ns,
                          void *context)
{
    return classify_stretch(idle, gap, start_ns, end_ns, context);
}

/* ---- parts ----------------------------------------------------------------------------------- */

/* The state of a walk over the parts of one gap: `use` is called for each, and `sums` adds
 * them up. */
typedef struct part_visit {
    ka_part_use *use;
    void *context;
    int64_t sums[KA_IDLE_COUNT]; /* of all parts */
} part_visit;

/* Calls `use` for each piece of the launching thread within [start_ns, launch_ns). */
static void visit_host_part(ka_host *host, const phases *p, part_visit *l)
{
    for (size_t i = ka_host_at(host, p->start_ns);
         i < host->pieces.count && host->pieces.data[i].start_ns < p->launch_ns; i++) {
        const ka_piece *piece = &host->pieces.data[i];
        int64_t from = KB_MAX(piece->start_ns, p->start_ns),
                to = KB_MIN(ka_piece_end(host, i), p->launch_ns);
        if (to <= from)
            continue;
        add_idle_ns(l->sums, (ka_idle)piece->reason, kb_length_ns(from, to));
        l->use(l->context, piece->slice, (ka_idle)piece->reason, kb_length_ns(from, to));
    }
}

/* As classify_stretch, but with a callback for each part. Parts that are not of a piece of the
 * host (launch, queue) are given with the call that launched the work after the gap. */
static bool visit_gap_part(ka_idleness *idle, const ka_gap *gap, int64_t start_ns, int64_t end_ns,
                           void *context)
{
    part_visit *l = context;
    phases p = phases_of(idle, gap, start_ns, end_ns);
    int64_t sums[KA_IDLE_COUNT] = {0};
    ka_host *host;
    if (!find_host_of_gap(idle, &p, &host))
        return false;
    if (host)
        visit_host_part(host, &p, l);
    add_launch_and_queue(idle, gap, host, &p, sums);
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++) {
        if (!sums[r])
            continue;
        add_idle_ns(l->sums, (ka_idle)r, sums[r]);
        l->use(l->context, idle->s->work[gap->after].call, (ka_idle)r, sums[r]);
    }
    return true;
}

/* Unrecorded work has no row of its own: it counts for the call that launched the graph. */
static void visit_unrecorded(const ka_idleness *idle, const ka_gap *gap, int64_t ns, part_visit *l)
{
    uint32_t graph = ns ? ka_gap_graph(idle, gap) : KA_NONE;
    if (graph != KA_NONE)
        l->use(l->context, idle->s->work[graph].call, KA_IDLE_UNRECORDED_WORK, ns);
}

bool ka_gap_parts(ka_idleness *idle, const ka_gap *gap, ka_part_use *use, void *context)
{
    part_visit l = {.use = use, .context = context};
    if (!gap->whole)
        return visit_gap_part(idle, gap, gap->start_ns, gap->end_ns, &l);
    visit_unrecorded(idle, gap, gap->ns[KA_IDLE_UNRECORDED_WORK], &l);
    return each_open_part(idle, gap, visit_gap_part, &l);
}

/* ---- walks ----------------------------------------------------------------------------------- */

/* gap->ns becomes the sum over its parts, so that the callbacks and the gap cannot differ. */
static bool use_parts(ka_idleness *idle, ka_gap *gap, int64_t unrecorded_ns, const walk *w)
{
    part_visit l = {.use = w->part, .context = w->context};
    visit_unrecorded(idle, gap, unrecorded_ns, &l);
    bool ok = each_open_part(idle, gap, visit_gap_part, &l);
    memcpy(gap->ns, l.sums, sizeof l.sums);
    return ok;
}

/* Unrecorded time is known for the whole device; only the rest of the gap is classified by the
 * launch of the work after it. */
static bool use_device_gap(ka_idleness *idle, ka_gap *gap, const walk *w)
{
    int64_t unrecorded_ns =
        ka_sums_within(&idle->devices.data[gap->device].unrecorded, gap->start_ns, gap->end_ns);
    KB_ASSERT(gap->whole && gap->start_ns < gap->end_ns);
    KB_ASSERT(unrecorded_ns >= 0 && unrecorded_ns <= kb_length_ns(gap->start_ns, gap->end_ns));
    bool ok = w->part ? use_parts(idle, gap, unrecorded_ns, w)
                      : each_open_part(idle, gap, classify_part, gap->ns);
    add_idle_ns(gap->ns, KA_IDLE_UNRECORDED_WORK, unrecorded_ns);
    return ok && w->use(w->context, gap);
}

/* Gaps of all devices in one pass over the work in order of starts; last[d] is the work of
 * device d that ended last so far. */
static bool each_device_gap(ka_idleness *idle, const walk *w)
{
    const ka_dataset *s = idle->s;
    uint32_t *last = malloc((idle->devices.count + 1) * sizeof *last);
    if (!last)
        return false;
    memset(last, 0xff, (idle->devices.count + 1) * sizeof *last);
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->work_count; i++) {
        uint32_t at = s->by_time[i], d = idle->device_of[s->work[at].stream], before = last[d];
        if (before != KA_NONE && s->work[at].start_ns > s->work[before].end_ns) {
            KB_ASSERT(d < idle->devices.count);
            ka_gap gap = {s->work[before].end_ns, s->work[at].start_ns, before, at, d, true, {0}};
            ok = use_device_gap(idle, &gap, w);
        }
        if (before == KA_NONE || s->work[at].end_ns >= s->work[before].end_ns)
            last[d] = at;
    }
    free(last);
    return ok;
}

bool ka_idleness_walk(ka_idleness *idle, ka_gap_use *use, ka_part_use *part, void *context)
{
    walk w = {use, part, context};
    for (uint32_t i = 0; i < idle->s->stream_count; i++)
        if (!each_stream_gap(idle, i, use_stream_gap, &w))
            return false;
    return each_device_gap(idle, &w);
}

/* ---- all of it ------------------------------------------------------------------------------- */

kineto_status ka_idleness_make(ka_idleness *idle, const ka_dataset *s, kineto_error *err)
{
    *idle = (ka_idleness){.s = s};
    bool ok = ka_hosts_make(&idle->hosts, s);
    idle->device_of = malloc(((size_t)s->stream_count + 1) * sizeof *idle->device_of);
    idle->watched = ka_dataset_watched(s);
    ok = ok && idle->watched && ka_blocking_calls_make(s->trace, &idle->blocking);
    ok = ok && idle->device_of && find_devices(idle) && fill_devices(idle) && find_unrecorded(idle);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

void ka_idleness_free(ka_idleness *idle)
{
    for (size_t d = 0; d < idle->devices.count; d++) {
        ka_sums_free(&idle->devices.data[d].busy);
        ka_sums_free(&idle->devices.data[d].communicating);
        ka_sums_free(&idle->devices.data[d].unrecorded);
        kb_vec_free(&idle->devices.data[d].ends);
        kb_vec_free(&idle->devices.data[d].graphs);
    }
    kb_vec_free(&idle->devices);
    kb_vec_free(&idle->recurrences);
    ka_blocking_calls_free(&idle->blocking);
    kb_map_free(&idle->recurring);
    kb_map_free(&idle->recurring_at);
    free(idle->device_of);
    ka_hosts_free(&idle->hosts);
}
