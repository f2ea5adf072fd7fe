/* Activity of host threads, cut into pieces: the reasons why devices are idle while no work is
 * launched.
 *
 * A name is classified once (WAITS, LOADS_DATA, ...); the innermost range that has a reason
 * gives it to its piece. Pieces of a thread cover all of time, the first begins at INT64_MIN.
 * Sums of every KA_HOST_BLOCK-th piece make ka_host_add fast for long gaps. */
#include "analyze/facts/idle.h"

/* The class of a name, in h->classes by string id; UNSEEN is 0. It depends on the name and the
 * kind of its first range only, not on the ranges around it. */
enum { UNSEEN, NOTHING, WAITS, LOADS_DATA, READS_SCALAR, LAUNCHES, QUEUE_IS_FULL, LOADS_CODE };

/* Calls of CUDA and HIP. Copies and memsets without "Async" wait until they are done; other
 * calls neither launch nor wait. */
static uint8_t classify_call_name(kineto_string name)
{
    if (kb_string_contains(name, "Synchronize") || kb_string_starts_with(name, "cuCtxSync") ||
        kb_string_starts_with(name, "cuStreamSync") || kb_string_starts_with(name, "cuEventSync"))
        return WAITS;
    if (kb_string_contains(name, "Launch") || kb_string_contains(name, "runFunction"))
        return LAUNCHES;
    bool copies = kb_string_contains(name, "Memcpy") || kb_string_contains(name, "Memset");
    return copies && kb_string_contains(name, "Async") ? LAUNCHES : copies ? WAITS : NOTHING;
}

/* Operators and annotations. The scalars are the operators of PyTorch that copy one value to
 * the host, and so wait for the device. */
static uint8_t classify_range_name(kineto_string name)
{
    static const char *const scalars[] = {"aten::item", "aten::_local_scalar_dense",
                                          "aten::is_nonzero"};
    if (ka_is_dataloader(name))
        return LOADS_DATA;
    return kb_string_is_one_of(name, scalars, KB_COUNT(scalars)) ? READS_SCALAR : NOTHING;
}

/* Names of CUPTI's overhead records (CUpti_ActivityOverheadKind), as libkineto writes them.
 * Those that are not the profiler's own work have a class. */
static uint8_t classify_overhead_name(kineto_string name)
{
    return kb_string_contains(name, "Command Buffer Full") ? QUEUE_IS_FULL
           : kb_string_contains(name, "Loading") || kb_string_contains(name, "Compiler") ||
                   kb_string_contains(name, "UVM")
               ? LOADS_CODE
               : NOTHING;
}

/* Classifies the name at its first use, then answers from h->classes. */
static uint8_t classify_name(ka_hosts *h, const ka_slice *s)
{
    uint8_t *known = &h->classes[s->name];
    if (*known == UNSEEN) {
        kineto_string name = ka_name(h->s, s->name);
        *known = kt_kind_is_launch(s->kind)        ? classify_call_name(name)
                 : s->kind == KINETO_KIND_OVERHEAD ? classify_overhead_name(name)
                                                   : classify_range_name(name);
    }
    return *known;
}

/* ---- the reason a range gives ---------------------------------------------------------------- */

/* FULL_QUEUE if the stream had as many waiting launches as it takes when the call began, since
 * the call then waits for room. */
static uint8_t reason_of_launch(const ka_hosts *h, const ka_slice *call)
{
    if (!call->work_count)
        return KA_IDLE_LAUNCHING;
    uint32_t stream = h->s->work[h->s->launched[call->first_work]].stream;
    return ka_hosts_fill_queue(h, stream, call->start_ns) ? KA_IDLE_FULL_QUEUE : KA_IDLE_LAUNCHING;
}

static uint8_t reason_of_call(ka_hosts *h, uint32_t slice)
{
    const ka_slice *call = &h->s->slices[slice];
    uint8_t what = classify_name(h, call);
    if (what == WAITS || ka_call_blocks(h->s, slice))
        return KA_IDLE_SYNCHRONIZING;
    return what == LAUNCHES || call->work_count ? reason_of_launch(h, call) : KA_IDLE_IN_RUNTIME;
}

/* `what` is the class of classify_overhead_name. */
static uint8_t reason_of_overhead(uint8_t what)
{
    return what == QUEUE_IS_FULL ? KA_IDLE_FULL_QUEUE
           : what == LOADS_CODE  ? KA_IDLE_IN_RUNTIME
                                 : KA_IDLE_PROFILER_OVERHEAD;
}

/* `around` is the reason of what encloses the range. Overhead has a reason of its own; waiting
 * and loading data keep their reason for everything inside; else the innermost range that has
 * a reason decides. */
static uint8_t reason_of_slice(ka_hosts *h, uint32_t slice, uint8_t around)
{
    const ka_slice *s = &h->s->slices[slice];
    if (s->kind == KINETO_KIND_OVERHEAD)
        return reason_of_overhead(classify_name(h, s));
    if (around == KA_IDLE_DATA_LOADER || around == KA_IDLE_SYNCHRONIZING)
        return around;
    if (kt_kind_is_launch(s->kind))
        return reason_of_call(h, slice);
    switch (classify_name(h, s)) {
    case LOADS_DATA:
        return KA_IDLE_DATA_LOADER;
    case READS_SCALAR:
        return KA_IDLE_SYNCHRONIZING;
    default:
        return s->kind == KINETO_KIND_CPU_OP ? KA_IDLE_IN_OPERATOR : around;
    }
}

/* ---- pieces ---------------------------------------------------------------------------------- */

/* The pieces of one thread under construction. A piece stays in `open` until its end is known,
 * then it is passed on: holes are filled with pieces of the main thread, or time of the
 * profiler is cut out (the main thread, which has no fallback). */
typedef struct cutting {
    ka_hosts *h;
    ka_host *host;
    const ka_host *with; /* what it did while the thread was outside of everything; or NULL */
    size_t at;           /* piece of `with`, else span of the profiler's */
    ka_piece open;       /* of the thread's own: the last one */
    uint8_t *reasons;    /* of the thread's slices */
    int64_t sums[KA_IDLE_COUNT];
    bool no_memory;
} cutting;

/* Appends a piece to the host, whose last one ends where it begins, and stores the sums before
 * every KA_HOST_BLOCK-th piece. */
static void push_piece(cutting *c, ka_piece p)
{
    ka_host *host = c->host;
    size_t count = host->pieces.count;
    if (count > 1) {
        const ka_piece *last = &host->pieces.data[count - 1];
        KB_ASSERT(last->reason < KA_IDLE_COUNT && last->start_ns <= p.start_ns);
        c->sums[last->reason] =
            ka_add_ns(c->sums[last->reason], kb_length_ns(last->start_ns, p.start_ns));
    }
    if (count % KA_HOST_BLOCK == 0) {
        c->no_memory |= !kb_vec_reserve(&host->before, host->before.count + 1);
        if (c->no_memory)
            return;
        memcpy(host->before.data[host->before.count++].ns, c->sums, sizeof c->sums);
    }
    c->no_memory |= !kb_vec_push(&host->pieces, p);
}

/* Up to end_ns the thread was outside of every range: copies the pieces of c->with instead.
 * Each copy takes one from the budget. */
static void fill_hole(cutting *c, int64_t end_ns)
{
    const ka_piece *pieces = c->with->pieces.data;
    size_t count = c->with->pieces.count;
    while (c->at + 1 < count && pieces[c->at + 1].start_ns <= c->open.start_ns)
        c->at++;
    for (size_t i = c->at;
         i < count && pieces[i].start_ns < end_ns && c->h->budget && !c->no_memory;
         i++, c->h->budget--) {
        ka_piece p = pieces[i];
        p.start_ns = KB_MAX(p.start_ns, c->open.start_ns);
        push_piece(c, p);
    }
}

/* From `ns` on the reason is the profiler's, or again that of what it interrupted. Replaces
 * the reason of a piece that begins at `ns`. */
static void put_over(cutting *c, int64_t ns, uint8_t reason)
{
    ka_piece *last = c->no_memory ? NULL : &c->host->pieces.data[c->host->pieces.count - 1];
    if (last && ns <= last->start_ns)
        last->reason = reason;
    else if (last && last->reason != reason)
        push_piece(c, (ka_piece){ns, c->open.slice, reason});
}

/* Waiting and loading data go on while the profiler works on another thread; all else is taken
 * to be delayed by it. */
static bool gives_way(const ka_piece *p)
{
    return p->reason != KA_IDLE_SYNCHRONIZING && p->reason != KA_IDLE_DATA_LOADER;
}

/* Passes on c->open up to end_ns, with time cut out in which the profiler was at work on any
 * thread. */
static void lay_over(cutting *c, int64_t end_ns)
{
    const ka_spans *overhead = &c->h->overhead;
    push_piece(c, c->open);
    while (c->at < overhead->count && overhead->data[c->at].end_ns <= c->open.start_ns)
        c->at++;
    for (size_t i = c->at; !c->no_memory && gives_way(&c->open) && i < overhead->count &&
                           overhead->data[i].start_ns < end_ns;
         i++) {
        put_over(c, overhead->data[i].start_ns, KA_IDLE_PROFILER_OVERHEAD);
        if (overhead->data[i].end_ns < end_ns)
            put_over(c, overhead->data[i].end_ns, c->open.reason);
    }
}

/* c->open ends at end_ns. The profiler is laid only over threads without a fallback; pieces
 * that others copy from these have it already. */
static void pass_on_pieces(cutting *c, int64_t end_ns)
{
    if (c->with && c->open.slice == KA_NONE && c->h->budget)
        fill_hole(c, end_ns);
    else if (!c->with && c->h->overhead.count)
        lay_over(c, end_ns);
    else
        push_piece(c, c->open);
}

/* Reason of a slice of the thread, whose reason is set; outside of all ranges the host is
 * between operators. */
static uint8_t reason_at(const cutting *c, const ka_thread *thread, uint32_t slice)
{
    return slice == KA_NONE ? KA_IDLE_BETWEEN_OPERATORS : c->reasons[slice - thread->first];
}

/* From `ns` on it is this one; never earlier than the piece before, as times may contradict. */
static inline void put_piece(cutting *c, const ka_thread *thread, int64_t ns, uint32_t slice)
{
    uint8_t reason = reason_at(c, thread, slice);
    if (ns > c->open.start_ns) {
        if (c->open.slice == slice && c->open.reason == reason)
            return;
        pass_on_pieces(c, ns);
        c->open.start_ns = ns;
    }
    c->open.slice = slice;
    c->open.reason = reason;
}

/* Walks over the ranges of a thread in the order of starts. A range that is not enclosed by
 * the open one ends it: the walk goes back to the parents, up to the one that encloses both. */
static void cut_piece(cutting *c, const ka_thread *thread)
{
    const ka_slice *slices = c->h->s->slices;
    uint32_t open = KA_NONE, end = thread->first + thread->count;
    c->open = (ka_piece){INT64_MIN, KA_NONE, KA_IDLE_BETWEEN_OPERATORS};
    for (uint32_t i = thread->first; i < end && !c->no_memory; i++) {
        const ka_slice *s = &slices[i];
        for (; open != KA_NONE && open != s->parent; open = slices[open].parent)
            put_piece(c, thread, KB_MIN(slices[open].end_ns, s->start_ns), slices[open].parent);
        c->reasons[i - thread->first] = reason_of_slice(c->h, i, reason_at(c, thread, s->parent));
        put_piece(c, thread, s->start_ns, i);
        open = i;
    }
    for (; open != KA_NONE && !c->no_memory; open = slices[open].parent)
        put_piece(c, thread, slices[open].end_ns, slices[open].parent);
    if (!c->no_memory)
        pass_on_pieces(c, INT64_MAX);
}

/* ---- hosts ----------------------------------------------------------------------------------- */

/* Fills the pieces of a thread. Recursion (ka_hosts_of) is one deep: a main thread has no
 * fallback. False: out of memory. */
static bool make_host(ka_hosts *h, uint32_t thread, ka_host *host)
{
    const ka_thread *info = &h->s->threads[thread];
    uint32_t asked = h->fallback[thread];
    cutting c = {.h = h, .host = host, .reasons = malloc((size_t)info->count + 1)};
    c.with = asked == KA_NONE ? NULL : ka_hosts_of(h, asked);
    /* Enough, unless the profiler cuts them further. */
    size_t most = 2 * (size_t)info->count + 2 + (c.with ? c.with->pieces.count : 0);
    c.no_memory = !c.reasons || (asked != KA_NONE && !c.with) ||
                  !kb_vec_reserve(&host->pieces, most) ||
                  !kb_vec_reserve(&host->before, most / KA_HOST_BLOCK + 1);
    if (!c.no_memory)
        cut_piece(&c, info);
    free(c.reasons);
    return !c.no_memory;
}

ka_host *ka_hosts_of(ka_hosts *h, uint32_t thread)
{
    ka_host *host = &h->of[thread];
    if (!host->made)
        host->made = make_host(h, thread, host);
    return host->made ? host : NULL;
}

size_t ka_host_at(ka_host *host, int64_t ns)
{
    const ka_piece *pieces = host->pieces.data;
    size_t low = host->near, high = low + 1, count = host->pieces.count;
    KB_ASSERT(low < count && pieces[0].start_ns == INT64_MIN);
    if (pieces[low].start_ns > ns) {
        high = low;
        low = 0;
    } else {
        for (size_t step = 1; high < count && pieces[high].start_ns <= ns; step *= 2) {
            low = high;
            high += KB_MIN(step, count - high);
        }
    }
    size_t after = low + 1;
    KB_LOWER_BOUND(after, high, pieces[after].start_ns <= ns);
    return host->near = after - 1;
}

/* Adds the parts of pieces [from, to) within [start_ns, end_ns) to `sums`, by reason. */
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

void ka_host_add(ka_host *host, int64_t start_ns, int64_t end_ns, int64_t *sums)
{
    if (end_ns <= start_ns)
        return;
    size_t from = ka_host_at(host, start_ns), to = ka_host_at(host, end_ns) + 1;
    size_t first = from / KA_HOST_BLOCK + 1, last = (to - 1) / KA_HOST_BLOCK;
    KB_ASSERT(from < to && to <= host->pieces.count);
    if (first >= last) {
        add_pieces(host, from, to, start_ns, end_ns, sums);
        return;
    }
    add_pieces(host, from, first * KA_HOST_BLOCK, start_ns, end_ns, sums);
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++)
        sums[r] =
            ka_add_ns(sums[r], host->before.data[last].ns[r] - host->before.data[first].ns[r]);
    add_pieces(host, last * KA_HOST_BLOCK, to, start_ns, end_ns, sums);
}

/* Collects the spans of the profiler's own work: overhead whose name has no class. */
static bool find_overhead(ka_hosts *h)
{
    for (uint32_t i = 0; i < h->s->slice_count; i++) {
        const ka_slice *s = &h->s->slices[i];
        if (s->kind != KINETO_KIND_OVERHEAD || classify_name(h, s) != NOTHING)
            continue;
        if (!kb_vec_push(&h->overhead, (ka_span){s->start_ns, s->end_ns}))
            return false;
    }
    ka_spans_unite(&h->overhead);
    return true;
}

/* By process: the thread with the steps, else the one with the most ranges. */
static uint32_t *find_main_threads(const ka_dataset *s)
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

/* A thread asks the main thread of its process, which asks no other. */
static bool find_fallbacks(ka_hosts *h)
{
    const ka_dataset *s = h->s;
    uint32_t *main_of = find_main_threads(s);
    for (uint32_t t = 0; main_of && t < s->thread_count; t++) {
        uint32_t of_process = main_of[s->threads[t].process];
        h->fallback[t] = t == of_process ? KA_NONE : of_process;
    }
    free(main_of);
    return main_of != NULL;
}

bool ka_hosts_make(ka_hosts *h, const ka_dataset *s)
{
    size_t threads = (size_t)s->thread_count + 1;
    *h = (ka_hosts){.s = s, .budget = 4 * (size_t)s->slice_count + (1u << 20)};
    h->of = calloc(threads, sizeof *h->of);
    h->fallback = calloc(threads, sizeof *h->fallback);
    h->classes = calloc((size_t)s->name_count + 1, 1);
    return h->of && h->fallback && h->classes && ka_launches_find(h) && find_fallbacks(h) &&
           find_overhead(h);
}

void ka_hosts_free(ka_hosts *h)
{
    for (uint32_t t = 0; h->of && t < h->s->thread_count; t++) {
        kb_vec_free(&h->of[t].pieces);
        kb_vec_free(&h->of[t].before);
    }
    free(h->of);
    free(h->fallback);
    free(h->classes);
    free(h->launches);
    free(h->launched_ns);
    free(h->started_ns);
    free(h->queues);
    kb_vec_free(&h->overhead);
}
