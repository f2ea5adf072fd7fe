/* What threads of the host did, cut into pieces: the reasons why devices get nothing to do. */
#include "analyze/idle.h"

/* What a name says of its range, whatever it is inside of. */
enum { UNSEEN, NOTHING, WAITS, LOADS_DATA, READS_SCALAR, LAUNCHES, QUEUE_IS_FULL, LOADS_CODE };

static bool has(kineto_string name, const char *part)
{
    return memmem(name.data, name.size, part, strlen(part)) != NULL;
}

static bool ends(kineto_string name, const char *with)
{
    size_t size = strlen(with);
    return name.size >= size && memcmp(name.data + name.size - size, with, size) == 0;
}

bool ka_is_graph_launch(kineto_string name) { return has(name, "GraphLaunch"); }

static uint8_t said_by_call(kineto_string name)
{
    if (has(name, "Synchronize") || kb_string_begins(name, "cuCtxSync") ||
        kb_string_begins(name, "cuStreamSync") || kb_string_begins(name, "cuEventSync"))
        return WAITS;
    if (has(name, "Launch") || has(name, "runFunction"))
        return LAUNCHES;
    bool copies = has(name, "Memcpy") || has(name, "Memset");
    return copies && has(name, "Async") ? LAUNCHES : copies ? WAITS : NOTHING;
}

static uint8_t said_by_range(kineto_string name)
{
    static const char *const scalars[] = {"aten::item", "aten::_local_scalar_dense",
                                          "aten::is_nonzero"};
    if ((kb_string_begins(name, "enumerate(DataLoader)#") && ends(name, ".__next__")) ||
        kb_string_begins(name, "enumerate(DataPipe)#"))
        return LOADS_DATA;
    for (size_t i = 0; i < KB_COUNT(scalars); i++)
        if (kb_string_equal(name, kb_string(scalars[i])))
            return READS_SCALAR;
    return NOTHING;
}

static uint8_t said_by_overhead(kineto_string name)
{
    return has(name, "Command Buffer Full")                                    ? QUEUE_IS_FULL
           : has(name, "Loading") || has(name, "Compiler") || has(name, "UVM") ? LOADS_CODE
                                                                               : NOTHING;
}

static bool is_call(uint32_t kind)
{
    return kind == KINETO_KIND_RUNTIME || kind == KINETO_KIND_DRIVER;
}

static uint8_t said(ka_hosts *h, const ka_slice *s)
{
    uint8_t *known = &h->said[s->name];
    if (*known == UNSEEN) {
        kineto_string name = ka_name(h->s, s->name);
        *known = is_call(s->kind)                  ? said_by_call(name)
                 : s->kind == KINETO_KIND_OVERHEAD ? said_by_overhead(name)
                                                   : said_by_range(name);
    }
    return *known;
}

/* ---- launches that wait --------------------------------------------------------------------- */

static int compare_ns(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return a < b ? -1 : a > b;
}

/* What a graph consists of is one launch: its first work stands for it. */
static bool is_first_of_launch(const ka_scope *s, uint32_t work)
{
    uint32_t call = s->work[work].call;
    return call != KA_NONE && s->launched[s->slices[call].first_work] == work;
}

static void list_launches(ka_hosts *h, uint32_t stream)
{
    const ka_stream *info = &h->s->streams[stream];
    int64_t *launched = h->launched_ns + info->first, *started = h->started_ns + info->first;
    uint32_t count = 0;
    bool sorted = true;
    for (uint32_t i = info->first; i < info->first + info->count; i++) {
        if (!is_first_of_launch(h->s, i))
            continue;
        launched[count] = h->s->slices[h->s->work[i].call].start_ns;
        started[count] = h->s->work[i].start_ns;
        sorted &= !count || launched[count - 1] <= launched[count];
        count++;
    }
    if (!sorted)
        qsort(launched, count, sizeof *launched, compare_ns);
    h->launches[stream] = count;
}

static uint32_t count_until(const int64_t *sorted, uint32_t count, int64_t ns)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (sorted[middle] <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint32_t ka_hosts_waiting(const ka_hosts *h, uint32_t stream, int64_t ns)
{
    uint32_t first = h->s->streams[stream].first, count = h->launches[stream];
    uint32_t launched = count_until(h->launched_ns + first, count, ns),
             started = count_until(h->started_ns + first, count, ns);
    return launched > started ? launched - started : 0;
}

/* ---- the reason a range gives --------------------------------------------------------------- */

bool ka_call_blocks(const ka_scope *s, uint32_t slice)
{
    const ka_slice *call = &s->slices[slice];
    if (call->work_count != 1)
        return false;
    const ka_work *w = &s->work[s->launched[call->first_work]];
    return w->kind == KINETO_KIND_GPU_MEMCPY && w->end_ns <= call->end_ns &&
           w->start_ns >= call->start_ns;
}

static uint8_t reason_of_launch(const ka_hosts *h, const ka_slice *call)
{
    if (!call->work_count)
        return KA_IDLE_LAUNCHING;
    uint32_t stream = h->s->work[h->s->launched[call->first_work]].stream;
    return ka_hosts_waiting(h, stream, call->start_ns) >= KA_FULL_QUEUE ? KA_IDLE_FULL_QUEUE
                                                                        : KA_IDLE_LAUNCHING;
}

static uint8_t reason_of_call(ka_hosts *h, uint32_t slice)
{
    const ka_slice *call = &h->s->slices[slice];
    uint8_t what = said(h, call);
    if (what == WAITS || ka_call_blocks(h->s, slice))
        return KA_IDLE_SYNCHRONIZING;
    return what == LAUNCHES || call->work_count ? reason_of_launch(h, call) : KA_IDLE_IN_RUNTIME;
}

static uint8_t reason_of_overhead(uint8_t what)
{
    return what == QUEUE_IS_FULL ? KA_IDLE_FULL_QUEUE
           : what == LOADS_CODE  ? KA_IDLE_IN_RUNTIME
                                 : KA_IDLE_PROFILER_OVERHEAD;
}

/* `around` is the reason of what encloses it. */
static uint8_t reason_of(ka_hosts *h, uint32_t slice, uint8_t around)
{
    const ka_slice *s = &h->s->slices[slice];
    if (s->kind == KINETO_KIND_OVERHEAD)
        return reason_of_overhead(said(h, s));
    if (around == KA_IDLE_DATA_LOADER || around == KA_IDLE_SYNCHRONIZING)
        return around;
    if (is_call(s->kind))
        return reason_of_call(h, slice);
    switch (said(h, s)) {
    case LOADS_DATA:
        return KA_IDLE_DATA_LOADER;
    case READS_SCALAR:
        return KA_IDLE_SYNCHRONIZING;
    default:
        return s->kind == KINETO_KIND_CPU_OP ? KA_IDLE_IN_OPERATOR : around;
    }
}

/* ---- pieces --------------------------------------------------------------------------------- */

/* From `ns` on it is this one; never earlier than the piece before, as times may contradict. */
static bool put(ka_pieces *pieces, int64_t ns, uint32_t slice, uint8_t reason)
{
    ka_piece *last = pieces->count ? &pieces->data[pieces->count - 1] : NULL;
    if (last && ns <= last->start_ns) {
        last->slice = slice;
        last->reason = reason;
        return true;
    }
    if (last && last->slice == slice && last->reason == reason)
        return true;
    return kb_vec_push(pieces, (ka_piece){ns, slice, reason});
}

/* Cut a thread into pieces; `reasons` are those of its slices. */
static bool cut(ka_hosts *h, const ka_thread *thread, uint8_t *reasons, ka_pieces *out)
{
    const ka_slice *slices = h->s->slices;
    uint32_t open = KA_NONE, first = thread->first;
    bool ok = put(out, INT64_MIN, KA_NONE, KA_IDLE_BETWEEN_OPERATORS);
#define REASON(i) ((i) == KA_NONE ? KA_IDLE_BETWEEN_OPERATORS : reasons[(i)-first])
    for (uint32_t i = first; ok && i < first + thread->count; i++) {
        const ka_slice *s = &slices[i];
        for (; ok && open != KA_NONE && open != s->parent; open = slices[open].parent)
            ok = put(out, KB_MIN(slices[open].end_ns, s->start_ns), slices[open].parent,
                     REASON(slices[open].parent));
        reasons[i - first] = reason_of(h, i, REASON(s->parent));
        ok = ok && put(out, s->start_ns, i, reasons[i - first]);
        open = i;
    }
    for (; ok && open != KA_NONE; open = slices[open].parent)
        ok = put(out, slices[open].end_ns, slices[open].parent, REASON(slices[open].parent));
#undef REASON
    return ok;
}

/* Where a thread was outside of everything, what another one did. */
static bool fill_holes(ka_hosts *h, const ka_host *with, ka_pieces *pieces)
{
    ka_pieces filled = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < pieces->count; i++) {
        ka_piece p = pieces->data[i];
        int64_t end = i + 1 < pieces->count ? pieces->data[i + 1].start_ns : INT64_MAX;
        if (p.slice != KA_NONE || h->budget == 0) {
            ok = kb_vec_push(&filled, p);
            continue;
        }
        for (size_t j = ka_host_at(with, p.start_ns);
             ok && j < with->pieces.count && with->pieces.data[j].start_ns < end && h->budget;
             j++, h->budget--) {
            ka_piece q = with->pieces.data[j];
            q.start_ns = KB_MAX(q.start_ns, p.start_ns);
            ok = kb_vec_push(&filled, q);
        }
    }
    kb_vec_free(pieces);
    *pieces = filled;
    return ok;
}

static bool gives_way(const ka_piece *p)
{
    return p->reason != KA_IDLE_SYNCHRONIZING && p->reason != KA_IDLE_DATA_LOADER;
}

/* The profiler at work, on any thread. */
static bool lay_over(const ka_spans *overhead, ka_pieces *pieces)
{
    ka_pieces out = {0};
    size_t at = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < pieces->count; i++) {
        ka_piece p = pieces->data[i];
        int64_t end = i + 1 < pieces->count ? pieces->data[i + 1].start_ns : INT64_MAX;
        ok = kb_vec_push(&out, p);
        while (at < overhead->count && overhead->data[at].end_ns <= p.start_ns)
            at++;
        for (size_t j = at;
             ok && gives_way(&p) && j < overhead->count && overhead->data[j].start_ns < end; j++) {
            ok = put(&out, overhead->data[j].start_ns, p.slice, KA_IDLE_PROFILER_OVERHEAD);
            if (overhead->data[j].end_ns < end)
                ok = ok && put(&out, overhead->data[j].end_ns, p.slice, p.reason);
        }
    }
    kb_vec_free(pieces);
    *pieces = out;
    return ok;
}

static bool add_up(ka_host *host)
{
    int64_t sums[KA_IDLE_COUNT] = {0};
    size_t blocks = host->pieces.count / KA_HOST_BLOCK + 1;
    host->before = malloc(blocks * sizeof *host->before);
    for (size_t i = 0; host->before && i < host->pieces.count; i++) {
        const ka_piece *p = &host->pieces.data[i];
        if (i % KA_HOST_BLOCK == 0)
            memcpy(host->before[i / KA_HOST_BLOCK], sums, sizeof sums);
        if (i && i + 1 < host->pieces.count)
            sums[p->reason] =
                ka_add_ns(sums[p->reason], kb_length_ns(p->start_ns, ka_piece_end(host, i)));
    }
    return host->before != NULL;
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static bool make_host(ka_hosts *h, uint32_t thread, ka_host *host)
{
    const ka_thread *info = &h->s->threads[thread];
    uint32_t asked = h->fallback[thread];
    const ka_host *with = asked == KA_NONE ? NULL : ka_hosts_of(h, asked);
    uint8_t *reasons = malloc(info->count + 1);
    bool ok = reasons && (asked == KA_NONE || with) && cut(h, info, reasons, &host->pieces);
    free(reasons);
    if (ok && with)
        ok = fill_holes(h, with, &host->pieces);
    if (ok && !with && h->overhead.count)
        ok = lay_over(&h->overhead, &host->pieces);
    return ok && add_up(host);
}

const ka_host *ka_hosts_of(ka_hosts *h, uint32_t thread)
{
    ka_host *host = &h->of[thread];
    if (!host->made)
        host->made = make_host(h, thread, host);
    return host->made ? host : NULL;
}

size_t ka_host_at(const ka_host *host, int64_t ns)
{
    size_t low = 0, high = host->pieces.count;
    while (low + 1 < high) {
        size_t middle = low + (high - low) / 2;
        if (host->pieces.data[middle].start_ns <= ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static void add_pieces(const ka_host *host, size_t from, size_t to, int64_t start_ns,
                       int64_t end_ns, int64_t *sums)
{
    for (size_t i = from; i < to; i++) {
        const ka_piece *p = &host->pieces.data[i];
        int64_t from_ns = KB_MAX(p->start_ns, start_ns),
                to_ns = KB_MIN(ka_piece_end(host, i), end_ns);
        if (to_ns > from_ns)
            sums[p->reason] = ka_add_ns(sums[p->reason], kb_length_ns(from_ns, to_ns));
    }
}

void ka_host_add(const ka_host *host, int64_t start_ns, int64_t end_ns, int64_t *sums)
{
    if (end_ns <= start_ns)
        return;
    size_t from = ka_host_at(host, start_ns), to = ka_host_at(host, end_ns) + 1;
    size_t first = from / KA_HOST_BLOCK + 1, last = (to - 1) / KA_HOST_BLOCK;
    if (first >= last) {
        add_pieces(host, from, to, start_ns, end_ns, sums);
        return;
    }
    add_pieces(host, from, first * KA_HOST_BLOCK, start_ns, end_ns, sums);
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++)
        sums[r] = ka_add_ns(sums[r], host->before[last][r] - host->before[first][r]);
    add_pieces(host, last * KA_HOST_BLOCK, to, start_ns, end_ns, sums);
}

static bool find_overhead(ka_hosts *h)
{
    for (uint32_t i = 0; i < h->s->slice_count; i++) {
        const ka_slice *s = &h->s->slices[i];
        if (s->kind != KINETO_KIND_OVERHEAD || said(h, s) != NOTHING)
            continue;
        if (!kb_vec_push(&h->overhead, (ka_span){s->start_ns, s->end_ns}))
            return false;
    }
    ka_spans_unite(&h->overhead);
    return true;
}

/* By process: the thread with the steps, else the one with the most ranges. */
static uint32_t *main_threads(const ka_scope *s)
{
    size_t processes = (size_t)kineto_trace_process_count(s->trace) + 1;
    uint32_t *main_of = malloc(processes * sizeof *main_of);
    if (!main_of)
        return NULL;
    memset(main_of, 0xff, processes * sizeof *main_of);
    for (uint32_t t = 0; t < s->thread_count; t++) {
        uint32_t *best = &main_of[s->threads[t].process];
        if (*best == KA_NONE || s->threads[t].count > s->threads[*best].count)
            *best = t;
    }
    for (uint32_t i = s->step_count; i-- > 0;)
        if (s->steps[i].slice != KA_NONE)
            main_of[s->steps[i].process] = s->slices[s->steps[i].slice].thread;
    return main_of;
}

/* A lane asks the first lane of its thread, that the main thread, which asks nobody. */
static bool find_fallbacks(ka_hosts *h)
{
    const ka_scope *s = h->s;
    uint32_t *main_of = main_threads(s), first = 0;
    for (uint32_t t = 0; main_of && t < s->thread_count; t++) {
        const ka_thread *thread = &s->threads[t];
        uint32_t of_process = main_of[thread->process];
        if (thread->track != s->threads[first].track)
            first = t;
        h->fallback[t] = t == of_process ? KA_NONE : t == first ? of_process : first;
    }
    free(main_of);
    return main_of != NULL;
}

bool ka_hosts_make(ka_hosts *h, const ka_scope *s)
{
    size_t works = (size_t)s->work_count + 1, threads = (size_t)s->thread_count + 1;
    *h = (ka_hosts){.s = s, .budget = 4 * (size_t)s->slice_count + (1u << 20)};
    h->of = calloc(threads, sizeof *h->of);
    h->fallback = calloc(threads, sizeof *h->fallback);
    h->said = calloc((size_t)s->name_count + 1, 1);
    h->launched_ns = malloc(works * sizeof *h->launched_ns);
    h->started_ns = malloc(works * sizeof *h->started_ns);
    h->launches = calloc((size_t)s->stream_count + 1, sizeof *h->launches);
    if (!h->of || !h->fallback || !h->said || !h->launched_ns || !h->started_ns || !h->launches)
        return false;
    for (uint32_t i = 0; i < s->stream_count; i++)
        list_launches(h, i);
    return find_fallbacks(h) && find_overhead(h);
}

void ka_hosts_free(ka_hosts *h)
{
    for (uint32_t t = 0; h->of && t < h->s->thread_count; t++) {
        kb_vec_free(&h->of[t].pieces);
        free(h->of[t].before);
    }
    free(h->of);
    free(h->fallback);
    free(h->said);
    free(h->launched_ns);
    free(h->started_ns);
    free(h->launches);
    kb_vec_free(&h->overhead);
}
