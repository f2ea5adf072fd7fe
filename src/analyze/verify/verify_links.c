/* Checks calls and the device work they launched. Both are sorted by correlation id and joined
 * in one walk; then calls without work and work without calls are explained (recording began
 * later, buffers were lost, launches captured into a graph), and the clocks of host and device
 * are compared by the delays. */
#include "analyze/verify/verify.h"

/* A call, or device work, with a correlation id. Copied out of the columns, so that both lists
 * can be sorted. `linked`: the other side was found. */
typedef struct item {
    uint64_t id;
    int64_t start_ns, end_ns;
    kineto_row row;
    uint32_t name;
    bool linked;
} item;

/* How often calls of one name launched work, up to the last call that has work: after it,
 * device records may have been lost. */
typedef struct name_use {
    uint64_t calls, linked;
} name_use;

/* The state of the join. Times of the first and last linked pair show whether clocks run equally
 * fast. */
typedef struct links {
    ka_verify *v;
    KB_VEC(item) calls; /* by id, later by start */
    KB_VEC(item) works;
    KB_VEC(item) orphans; /* works without a call */
    uint64_t *least_ids;  /* of a device's calls, by process */
    uint32_t process_count;

    uint64_t linked;
    int64_t earliest_ns;    /* how long before its call work started, at most */
    int64_t least_delay_ns; /* from the end of a call to its work, at least */
    int64_t work_ns;        /* sum of linked work */
    ka_captures captures;
    item first_call, last_call, first_work, last_work; /* linked ones, by the start of the call */
    int64_t last_end_ns;                               /* of linked calls */
    ka_tally before, lost, duplicate, reversed;
} links;

/* By id, start and row. */
static int by_id(const void *left, const void *right)
{
    const item *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* By start and row. */
static int by_start(const void *left, const void *right)
{
    const item *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Rows with a correlation id, both lists sorted by it. */
static void collect_calls_and_work(links *l)
{
    kineto_row row = 0;
    for (uint32_t n = 0; n < kt_block_count(l->v->t); n++) {
        const kt_block *b = kt_block_at(l->v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++, row++) {
            bool call = kt_kind_is_launch(b->kind[i]);
            if (!b->correlation_id[i] || !(call || kt_kind_is_work(b->kind[i])) ||
                b->form[i] != KINETO_FORM_SLICE)
                continue;
            item it = {b->correlation_id[i], b->start_ns[i], b->end_ns[i], row, b->name[i], false};
            if (!(call ? kb_vec_push(&l->calls, it) : kb_vec_push(&l->works, it)))
                l->v->no_memory = true;
        }
    }
    if (l->calls.count)
        qsort(l->calls.data, l->calls.count, sizeof(item), by_id);
    if (l->works.count)
        qsort(l->works.data, l->works.count, sizeof(item), by_id);
}

/* UINT32_MAX past the end of the trace. */
static uint32_t track_of(const links *l, kineto_row row)
{
    ka_row r = ka_row_at(l->v, row);
    return r.block ? r.block->track[r.index] : UINT32_MAX;
}

/* At most process_count, the entry for unknown processes. */
static uint32_t process_of_row(const links *l, kineto_row row)
{
    uint32_t track = track_of(l, row);
    uint32_t process = track < l->v->track_count ? l->v->tracks[track].process : 0;
    return KB_MIN(process, l->process_count);
}

/* ---- joining --------------------------------------------------------------------------------- */

/* Counts a call and its work as linked, and updates what the clocks are compared by. Rows with
 * implausible times are linked, but not compared. */
static void link_pair(links *l, item *call, item *work)
{
    uint64_t *least = &l->least_ids[process_of_row(l, work->row)];
    *least = KB_MIN(*least, call->id);
    call->linked = true;
    if (ka_is_implausible(l->v, call->row) || ka_is_implausible(l->v, work->row))
        return; /* joined they are; their times say nothing */
    int64_t delay = kb_length_ns(call->start_ns, work->start_ns);
    if (delay < -KA_ROUNDING_NS) {
        ka_tally_add(l->v, &l->reversed, work->row);
        l->earliest_ns = KB_MAX(l->earliest_ns, delay == INT64_MIN ? INT64_MAX : -delay);
    }
    l->least_delay_ns = KB_MIN(l->least_delay_ns, kb_length_ns(call->end_ns, work->start_ns));
    if (__builtin_add_overflow(l->work_ns, kb_length_ns(work->start_ns, work->end_ns), &l->work_ns))
        l->work_ns = INT64_MAX;
    if (!l->linked || call->start_ns < l->first_call.start_ns) {
        l->first_call = *call;
        l->first_work = *work;
    }
    KB_ASSERT(call->id == work->id);
    if (!l->linked || call->start_ns > l->last_call.start_ns) {
        l->last_call = *call;
        l->last_work = *work;
    }
    l->last_end_ns = l->linked ? KB_MAX(l->last_end_ns, call->end_ns) : call->end_ns;
    l->linked++;
}

/* Layers of one call share its id and overlap in time; separate calls do not. */
static void check_calls(links *l, const item *calls, size_t count)
{
    int64_t end = calls[0].end_ns;
    for (size_t i = 1; i < count; i++) {
        if (calls[i].start_ns >= end && calls[i].start_ns > calls[i - 1].start_ns &&
            calls[i].name == calls[0].name)
            ka_tally_add(l->v, &l->duplicate, calls[i].row);
        end = KB_MAX(end, calls[i].end_ns);
    }
}

/* Joins all calls and work of one id, both sorted by start: each work belongs to the last call
 * that began before it, or to the first. Without a call it is an orphan. */
static void join_group(links *l, item *calls, size_t call_count, item *works, size_t work_count)
{
    size_t call = 0;
    for (size_t i = 0; i < work_count; i++) {
        if (!call_count) {
            l->v->no_memory |= !kb_vec_push(&l->orphans, works[i]);
            continue;
        }
        while (call + 1 < call_count && calls[call + 1].start_ns <= works[i].start_ns)
            call++;
        link_pair(l, &calls[call], &works[i]);
    }
    if (call_count > 1)
        check_calls(l, calls, call_count);
}

/* Past the items with this id. */
static size_t group_end(const item *items, size_t at, size_t count, uint64_t id)
{
    while (at < count && items[at].id == id)
        at++;
    return at;
}

/* Merges both lists by id. */
static void join_by_correlation(links *l)
{
    size_t c = 0, w = 0;
    while (c < l->calls.count || w < l->works.count) {
        uint64_t call_id = c < l->calls.count ? l->calls.data[c].id : UINT64_MAX;
        uint64_t work_id = w < l->works.count ? l->works.data[w].id : UINT64_MAX;
        uint64_t id = KB_MIN(call_id, work_id);
        size_t c_end = group_end(l->calls.data, c, l->calls.count, id);
        size_t w_end = group_end(l->works.data, w, l->works.count, id);
        join_group(l, c_end > c ? l->calls.data + c : NULL, c_end - c,
                   w_end > w ? l->works.data + w : NULL, w_end - w);
        c = c_end;
        w = w_end;
    }
}

/* Divides work without a call. Ids grow: what is below those of all calls was launched before
 * the recording began; the rest is lost. A file with several ranks has a range of ids for
 * each, hence the least id is kept by process. */
static void sort_orphans(links *l)
{
    uint64_t least = l->calls.count ? l->calls.data[0].id : 0;
    for (size_t i = 0; i < l->orphans.count; i++) {
        const item *work = &l->orphans.data[i];
        uint64_t of_device = l->least_ids[process_of_row(l, work->row)];
        bool before = work->id < (of_device == UINT64_MAX ? least : of_device);
        ka_tally_add(l->v, before ? &l->before : &l->lost, work->row);
    }
}

/* Work without a call, and repeated ids. */
static void find_ids(links *l)
{
    ka_verify *v = l->v;
    bool no_calls = !l->calls.count;
    sort_orphans(l);
    ka_find(v, KA_RULE_CORRELATION_DANGLING,
            no_calls ? KINETO_SEVERITY_NOTE : KINETO_SEVERITY_WARNING, &l->lost,
            no_calls
                ? "no calls were recorded: device work cannot be attributed"
                : "device activities whose launch is missing, though later and earlier ones are "
                  "there");
    ka_find(
        v, KA_RULE_CORRELATION_DANGLING, KINETO_SEVERITY_NOTE, &l->before,
        "device activities were launched before recording began (their ids are below all of the "
        "calls')");
    ka_find(v, KA_RULE_CORRELATION_DUPLICATE, KINETO_SEVERITY_WARNING, &l->duplicate,
            "calls repeat the correlation id of an earlier call of the same name");
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* Do device times run 300 times as fast or slow as the host's, as with mixed units? A device
 * that spreads that much although it was idle cannot be explained by work in its queue. */
static bool scales_differ(const links *l)
{
    double host = (double)l->last_call.start_ns - (double)l->first_call.start_ns;
    double device = (double)l->last_work.start_ns - (double)l->first_work.start_ns;
    if (l->linked < 3 || host < 10.0 * KA_ROUNDING_NS)
        return false;
    if (device > 300 * host) /* nor by a host that waited for it */
        return (double)l->work_ns < device / 2 &&
               device > 300 * ((double)l->last_end_ns - (double)l->first_call.start_ns);
    return device < host / 300 && l->last_work.start_ns < l->last_call.start_ns;
}

/* *gap_ns: how far the times of host and device lie apart; 0 or less if they overlap, or one
 * of both is empty. */
static void disjoint_spans(const ka_verify *v, int64_t *gap_ns)
{
    int64_t host[2] = {INT64_MAX, INT64_MIN}, device[2] = {INT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < v->track_count; i++) {
        const ka_track *track = &v->tracks[i];
        int64_t *span = track->work ? device : track->host ? host : NULL;
        if (!span)
            continue;
        span[0] = KB_MIN(span[0], track->min_start_ns);
        span[1] = KB_MAX(span[1], track->max_end_ns);
    }
    *gap_ns = 0;
    if (host[0] <= host[1] && device[0] <= device[1])
        *gap_ns = KB_MAX(kb_length_ns(host[1], device[0]), kb_length_ns(device[1], host[0]));
}

/* Reports at most one finding: mixed units, an offset between the clocks (at least three pairs
 * and a fifth of all are reversed), or single rows out of order. */
static void find_clocks(links *l)
{
    ka_verify *v = l->v;
    int64_t gap;
    if (scales_differ(l)) {
        l->v->units_are_mixed = true;
        ka_find_text(v, KA_RULE_UNITS_MIXED, KINETO_SEVERITY_ERROR, l->linked, NULL,
                     KINETO_NO_OFFSET,
                     "between the first and the last launch the device's clock went %s, the host's "
                     "%s",
                     kb_duration(kb_length_ns(l->first_work.start_ns, l->last_work.start_ns)).s,
                     kb_duration(kb_length_ns(l->first_call.start_ns, l->last_call.start_ns)).s);
        return;
    }
    if (l->reversed.count >= 3 && l->reversed.count * 5 >= l->linked) {
        ka_find(v, KA_RULE_CLOCK_SUSPICION, KINETO_SEVERITY_WARNING, &l->reversed,
                "device activities, of %llu with a launch, start before it: the device's "
                "clock lags by %s or more",
                (unsigned long long)l->linked, kb_duration(l->earliest_ns).s);
        return;
    }
    ka_find(v, KA_RULE_LAUNCH_ORDER, KINETO_SEVERITY_ERROR, &l->reversed,
            "device activities start up to %s before their launch", kb_duration(l->earliest_ns).s);
    disjoint_spans(v, &gap);
    if (l->linked >= 3 && l->least_delay_ns > KB_SECOND_NS)
        ka_find_text(v, KA_RULE_CLOCK_SUSPICION, KINETO_SEVERITY_WARNING, l->linked, NULL,
                     KINETO_NO_OFFSET,
                     "no device activity starts earlier than %s after its launch returned",
                     kb_duration(l->least_delay_ns).s);
    else if (!l->linked && gap > KB_SECOND_NS)
        ka_find_text(v, KA_RULE_CLOCK_SUSPICION, KINETO_SEVERITY_WARNING, 1, NULL, KINETO_NO_OFFSET,
                     "host and device activities lie %s apart", kb_duration(gap).s);
}

/* ---- calls without work ---------------------------------------------------------------------- */

/* Was a call without work captured into a graph? */
static bool is_captured(const links *l, const item *call)
{
    return l->captures.of_tracks.count && !call->linked &&
           ka_is_captured(&l->captures, track_of(l, call->row), call->start_ns);
}

/* All linked launches must be reported before the first question. */
static void find_captures(links *l)
{
    ka_captures_find(l->v, &l->captures);
    for (size_t i = 0; l->captures.of_tracks.count && i < l->calls.count; i++)
        if (l->calls.data[i].linked)
            ka_captures_see_linked(&l->captures, track_of(l, l->calls.data[i].row),
                                   l->calls.data[i].start_ns);
}

/* Calls and linked calls by name, up to *last_linked; the caller frees them. NULL: out of
 * memory. */
static name_use *count_names(links *l, size_t *last_linked)
{
    name_use *uses = calloc((size_t)l->v->name_count + 1, sizeof *uses);
    l->v->no_memory |= !uses;
    *last_linked = 0;
    for (size_t i = 0; i < l->calls.count; i++)
        if (l->calls.data[i].linked)
            *last_linked = i;
    for (size_t i = 0; uses && i <= *last_linked && i < l->calls.count; i++) {
        name_use *use = &uses[KB_MIN(l->calls.data[i].name, l->v->name_count)];
        use->calls += !is_captured(l, &l->calls.data[i]);
        use->linked += l->calls.data[i].linked;
    }
    return uses;
}

/* Do calls of this name have work in at least four of five cases? */
static bool is_launch_name(const links *l, const name_use *uses, const item *call)
{
    const name_use *use = &uses[KB_MIN(call->name, l->v->name_count)];
    return use->linked && use->linked * 5 >= use->calls * 4;
}

/* Launches at the end of the recording without work: device records are missing, which is an
 * error if many are. Frees `tail` if it has rows. */
static void find_truncated(links *l, ka_tally *tail, uint64_t all)
{
    ka_verify *v = l->v;
    int64_t device_end = INT64_MIN, host_end = INT64_MIN;
    for (uint32_t i = 0; i < v->track_count; i++) {
        if (v->tracks[i].work)
            device_end = KB_MAX(device_end, v->tracks[i].max_end_ns);
        else if (v->tracks[i].host)
            host_end = KB_MAX(host_end, v->tracks[i].max_end_ns);
    }
    if (!tail->count)
        return;
    bool much = tail->count >= 10 && tail->count * 100 >= all;
    ka_find(v, much ? KA_RULE_BUFFER_TRUNCATED : KA_RULE_CORRELATION_NO_WORK,
            much ? KINETO_SEVERITY_ERROR : KINETO_SEVERITY_NOTE, tail,
            "the last %llu of %llu launches have no device work: about that many device activities "
            "are missing; device records end %s %s those of the host",
            (unsigned long long)tail->count, (unsigned long long)all,
            kb_duration(llabs(KB_MAX(kb_length_ns(device_end, host_end), -INT64_MAX))).s,
            device_end <= host_end ? "before" : "after");
}

/* Device records are complete up to the last linked call: calls after it are counted apart,
 * since they show how much is missing at the end. Sorts the calls by start. */
static void check_calls_without_work(links *l)
{
    ka_verify *v = l->v;
    ka_tally inside = {0}, tail = {0}, captured = {0};
    uint64_t all = 0;
    size_t last;
    qsort(l->calls.data, l->calls.count, sizeof(item), by_start);
    name_use *uses = count_names(l, &last);
    for (size_t i = 0; uses && i < l->calls.count; i++) {
        const item *call = &l->calls.data[i];
        if (!is_launch_name(l, uses, call))
            continue;
        if (is_captured(l, call)) {
            ka_tally_add(v, &captured, call->row);
            continue;
        }
        all++;
        if (!call->linked)
            ka_tally_add(v, i > last ? &tail : &inside, call->row);
    }
    free(uses);
    find_truncated(l, &tail, all);
    bool much = inside.count >= 10 && inside.count * 100 >= all;
    ka_find(v, KA_RULE_CORRELATION_NO_WORK, much ? KINETO_SEVERITY_WARNING : KINETO_SEVERITY_NOTE,
            &inside, "calls, of %llu that launch device work, have none", (unsigned long long)all);
    ka_find(v, KA_RULE_CORRELATION_NO_WORK, KINETO_SEVERITY_NOTE, &captured,
            "launches were captured into a graph, so they have no work of their own");
    kb_vec_free(&tail.rows);
}

/* Kernels were launched, but no device work was recorded at all. */
static void check_device(const links *l)
{
    ka_verify *v = l->v;
    bool any = v->kinds[KINETO_KIND_CONCURRENT_KERNEL] || v->kinds[KINETO_KIND_GPU_MEMCPY] ||
               v->kinds[KINETO_KIND_GPU_MEMSET] || v->kinds[KINETO_KIND_COLLECTIVE_COMM];
    bool ranges = v->kinds[KINETO_KIND_CUDA_PROFILER_RANGE] != 0;
    uint64_t captured = any ? 0 : ka_count_captured_launches(&l->captures);
    if (captured)
        ka_find_text(v, KA_RULE_CORRELATION_NO_WORK, KINETO_SEVERITY_NOTE, captured, NULL,
                     KINETO_NO_OFFSET,
                     "%llu launches were captured into a graph, so they have no work of their own",
                     (unsigned long long)captured);
    if (v->launches > captured && !any)
        ka_find_text(
            v, KA_RULE_DEVICE_MISSING, ranges ? KINETO_SEVERITY_NOTE : KINETO_SEVERITY_WARNING,
            v->launches - captured, NULL, KINETO_NO_OFFSET,
            "%llu launches, and no device activity%s", (unsigned long long)(v->launches - captured),
            ranges ? ": profiler ranges were recorded instead" : "");
}

/* Ids first, as clocks and calls without work are evaluated by the linked pairs. */
void ka_verify_links(ka_verify *v)
{
    links l = {.v = v, .least_delay_ns = INT64_MAX};
    l.process_count = kineto_trace_process_count(v->t);
    l.least_ids = malloc(((size_t)l.process_count + 1) * sizeof *l.least_ids);
    for (uint32_t i = 0; l.least_ids && i <= l.process_count; i++)
        l.least_ids[i] = UINT64_MAX;
    v->no_memory |= !l.least_ids;
    collect_calls_and_work(&l);
    if (!v->no_memory) {
        join_by_correlation(&l);
        find_ids(&l);
        find_clocks(&l);
        find_captures(&l);
        if (l.linked)
            check_calls_without_work(&l);
        check_device(&l);
    }
    ka_captures_free(&l.captures);
    kb_vec_free(&l.calls);
    kb_vec_free(&l.works);
    kb_vec_free(&l.orphans);
    free(l.least_ids);
    kb_vec_free(&l.before.rows);
    kb_vec_free(&l.lost.rows);
    kb_vec_free(&l.duplicate.rows);
    kb_vec_free(&l.reversed.rows);
}
