/* Parts of analyses as HolisticTraceAnalysis 0.6.1 computes them: launches and their operators, queue
 * lengths, idle time, bandwidth, and the annotations that work belongs to. Each is one function of
 * ka_definitions; the analyses in analyze/facts fill the tables from its answer. */
#include "analyze/compat/compat.h"
#include "analyze/compat/order.h"

/* ---- launches: the aten operator of any thread that began last of those around the call ---------- */

/* Indexes of slices. */
typedef struct slice_list {
    KB_VEC(uint32_t) list;
} slice_list;

/* Calls that HTA's op_launch takes for launches. */
static bool is_hta_launch(kineto_string name)
{
    if (kb_string_starts_with(name, "cuLaunchKernel") || kb_string_starts_with(name, "runFunction"))
        return true;
    return kb_string_starts_with(name, "cuda") && kb_string_contains(name, "LaunchKernel");
}

/* By start and row. */
static void sort_by_start(const ka_dataset *s, slice_list *x)
{
    if (x->list.count)
        qsort_r(x->list.data, x->list.count, sizeof *x->list.data, ka_compare_starts,
                (void *)(uintptr_t)s->slices);
}

/* Collects aten operators and launches of all threads, each by start. */
static bool collect_aten_and_calls(const ka_dataset *s, slice_list *ops, slice_list *calls)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->slice_count; i++) {
        const ka_slice *c = &s->slices[i];
        if (kb_string_starts_with(ka_name(s, c->name), "aten::"))
            ok = kb_vec_push(&ops->list, i);
        if (c->work_count && is_hta_launch(ka_name(s, c->name)))
            ok &= kb_vec_push(&calls->list, i);
    }
    sort_by_start(s, ops);
    sort_by_start(s, calls);
    return ok;
}

/* Open operators examined for one call, at most. */
#define MAX_OPEN 4096u

/* The last one of `open` around the call. Those that have ended leave from the top; below it they
 * are passed over. */
static uint32_t last_around(const ka_dataset *s, slice_list *open, const ka_slice *call)
{
    uint32_t found = KA_NONE;
    while (open->list.count &&
           s->slices[open->list.data[open->list.count - 1]].end_ns < call->start_ns)
        open->list.count--;
    for (size_t i = open->list.count, visited = 0; i-- > 0 && visited < MAX_OPEN; visited++) {
        const ka_slice *op = &s->slices[open->list.data[i]];
        if (found != KA_NONE && op->start_ns < s->slices[found].start_ns)
            break;
        if (op->end_ns >= call->end_ns) /* the first of those that began together */
            found = open->list.data[i];
    }
    return found;
}

/* Operators that have begun are kept on a stack, whatever their thread. */
bool ka_hta_find_op_launches(const ka_dataset *s, ka_op_launches *out)
{
    slice_list ops = {0}, calls = {0}, open = {0};
    bool ok = collect_aten_and_calls(s, &ops, &calls);
    for (size_t i = 0, next = 0; ok && i < calls.list.count; i++) {
        const ka_slice *call = &s->slices[calls.list.data[i]];
        for (; ok && next < ops.list.count &&
               s->slices[ops.list.data[next]].start_ns <= call->start_ns;
             next++)
            ok = kb_vec_push(&open.list, ops.list.data[next]);
        uint32_t op = ok ? last_around(s, &open, call) : KA_NONE;
        if (op != KA_NONE)
            ok = kb_vec_push(out, ((ka_op_launch){op, calls.list.data[i]}));
    }
    kb_vec_free(&ops.list);
    kb_vec_free(&calls.list);
    kb_vec_free(&open.list);
    return ok;
}

/* ---- queues -------------------------------------------------------------------------------------- */

/* A launch and the start of its last work, for each counted call, in the order in which HTA sums
 * them up. */
static bool collect_launches(const ka_dataset *s, ka_hta_queue_changes *list)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *c = &s->slices[i];
        if (!c->work_count || !ka_hta_counts_launch(ka_name(s, c->name)))
            continue;
        const ka_work *last = &s->work[s->launched[c->first_work]];
        for (uint32_t k = 1; k < c->work_count; k++)
            if (s->work[s->launched[c->first_work + k]].row > last->row)
                last = &s->work[s->launched[c->first_work + k]];
        if (!kb_vec_push(list, ((ka_hta_queue_change){c->row, c->start_ns, i, last->stream, 1})) ||
            !kb_vec_push(list,
                         ((ka_hta_queue_change){last->row, last->start_ns, i, last->stream, -1})))
            return false;
    }
    return ka_hta_order_queue(list);
}

/* HTA sums all streams in one order; each stream gets its part of it. */
bool ka_hta_collect_queues(const ka_dataset *s, ka_queue_changes *by_stream)
{
    ka_hta_queue_changes all = {0};
    bool ok = collect_launches(s, &all);
    for (size_t i = 0; ok && i < all.count; i++) {
        const ka_hta_queue_change *change = &all.data[i];
        ok = kb_vec_push(&by_stream[change->stream], ((ka_queue_change){change->ns, change->by}));
    }
    kb_vec_free(&all);
    return ok;
}

/* ---- bandwidth ----------------------------------------------------------------------------------- */

/* Begins before ends, each in the order of the file. */
static int compare_copies(const void *left, const void *right)
{
    const ka_copy_change *a = left, *b = right;
    if (a->begins != b->begins)
        return a->begins ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* As in the file, begins first; then by time, as numpy leaves equal moments. */
bool ka_hta_sort_copies(ka_copy_change *changes, size_t count)
{
    int64_t *ns = malloc((count + 1) * sizeof *ns);
    uint32_t *order = malloc((count + 1) * sizeof *order);
    ka_copy_change *sorted = malloc((count + 1) * sizeof *sorted);
    bool ok = ns && order && sorted;
    if (ok && count) {
        qsort(changes, count, sizeof *changes, compare_copies);
        for (size_t i = 0; i < count; i++)
            ns[i] = changes[i].ns;
        ka_order_numpy(ns, order, count);
        for (size_t i = 0; i < count; i++)
            sorted[i] = changes[order[i]];
        memcpy(changes, sorted, count * sizeof *sorted);
    }
    free(ns);
    free(order);
    free(sorted);
    return ok;
}

/* ---- idle time ----------------------------------------------------------------------------------- */

/* HTA's idle time counts kernels, copies and memsets only, by category. */
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

/* The slice of row 0; NULL: that row is not a slice. */
static const ka_slice *first_of_file(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].row == 0)
            return &s->slices[i];
    return NULL;
}

typedef KB_VEC(const ka_work *) works;

/* By start, then row. */
static int compare_work_starts(const void *left, const void *right)
{
    const ka_work *a = *(const ka_work *const *)left, *b = *(const ka_work *const *)right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* From the end of the one before, even when an earlier one still ran: gaps may be negative. The first
 * work of a stream has a gap of no time. */
static bool sum_stream(const ka_dataset *s, const ka_stream *stream, const ka_slice *first,
                       ka_stream_idle *sum)
{
    works list = {0};
    bool ok = true;
    for (uint32_t i = stream->first; ok && i < stream->first + stream->count; i++)
        if (is_hta_kind(s, &s->work[i]))
            ok = kb_vec_push(&list, &s->work[i]);
    if (list.count) {
        qsort(list.data, list.count, sizeof *list.data, compare_work_starts);
        ka_stream_idle_add(sum, KA_STREAM_IDLE_OTHER, 0);
    }
    for (size_t i = 1; i < list.count; i++) {
        int64_t end_ns = list.data[i - 1]->end_ns;
        ka_stream_idle_add_before(sum, call_hta(s, list.data[i], first), end_ns,
                                  kb_length_ns(end_ns, list.data[i]->start_ns));
    }
    kb_vec_free(&list);
    return ok;
}

bool ka_hta_sum_idle(const ka_dataset *s, ka_stream_idle *by_stream)
{
    const ka_slice *first = first_of_file(s);
    for (uint32_t i = 0; i < s->stream_count; i++)
        if (!sum_stream(s, &s->streams[i], first, &by_stream[i]))
            return false;
    return true;
}

/* ---- annotations: by the device's own ranges ----------------------------------------------------- */

/* The work of one track, and which of it is still free. */
typedef struct claiming {
    const ka_dataset *s;
    uint32_t *range_of;
    uint32_t *works; /* of one track, in the order of starts */
    int64_t *ended;  /* the last end up to here */
    uint32_t *next;  /* the next one that may still be free */
    size_t count;
} claiming;

/* The first work from `at` on that no range has claimed; a union-find with path halving. */
static uint32_t next_free(claiming *c, uint32_t at)
{
    while (c->next[at] != at) {
        c->next[at] = c->next[c->next[at]];
        at = c->next[at];
    }
    return at;
}

/* The first work that had not ended at this moment, or that begins then or later. */
static uint32_t find_first_from(const claiming *c, int64_t ns, bool by_end)
{
    size_t first = 0;
    KB_LOWER_BOUND(first, c->count,
                   by_end ? c->ended[first] <= ns : c->s->work[c->works[first]].start_ns < ns);
    return (uint32_t)first;
}

/* A range may visit this much work that does not overlap it; after that only work that begins in it. */
#define MAX_MISSES 4096u

/* What overlaps the range and is free becomes its own: the shortest range comes first. */
static void claim_range(claiming *c, uint32_t range)
{
    const ka_slice *r = &c->s->slices[range];
    uint32_t misses = 0, begins = find_first_from(c, r->start_ns, false);
    uint32_t i = next_free(c, find_first_from(c, r->start_ns, true));
    while (i < c->count && misses < 2 * MAX_MISSES) {
        const ka_work *w = &c->s->work[c->works[i]];
        if (w->start_ns >= r->end_ns)
            break;
        if (w->end_ns > r->start_ns) {
            c->range_of[c->works[i]] = range;
            c->next[i] = i + 1;
        } else {
            misses++;
        }
        i = next_free(c, misses == MAX_MISSES ? KB_MAX(i + 1, begins) : i + 1);
    }
}

/* The shortest first; of equally long ranges the later row first. */
static int compare_lengths(const void *left, const void *right, void *context)
{
    const ka_slice *slices = context, *a = &slices[*(const uint32_t *)left],
                   *b = &slices[*(const uint32_t *)right];
    int64_t a_ns = ka_slice_ns(a), b_ns = ka_slice_ns(b);
    if (a_ns != b_ns)
        return a_ns < b_ns ? -1 : 1;
    return a->row > b->row ? -1 : a->row < b->row;
}

/* Fills works, ended and next for one track. */
static void load_track_work(claiming *c, uint32_t track)
{
    c->count = 0;
    for (uint32_t i = 0; i < c->s->work_count; i++) {
        const ka_work *w = &c->s->work[c->s->by_time[i]];
        const kt_block *b = kt_block_at(c->s->trace, w->row / KT_BLOCK_ROWS);
        if (b->track[w->row % KT_BLOCK_ROWS] != track)
            continue;
        c->works[c->count] = c->s->by_time[i];
        c->ended[c->count] = c->count ? KB_MAX(c->ended[c->count - 1], w->end_ns) : w->end_ns;
        c->next[c->count] = (uint32_t)c->count;
        c->count++;
    }
    c->next[c->count] = (uint32_t)c->count;
}

/* Lets the ranges of a track claim work, shortest first. */
static bool claim_track(claiming *c, const ka_thread *thread)
{
    slice_list list = {0};
    bool ok = true;
    for (uint32_t i = thread->first; ok && i < thread->first + thread->count; i++)
        if (c->s->slices[i].kind == KINETO_KIND_GPU_USER_ANNOTATION)
            ok = kb_vec_push(&list.list, i);
    if (list.list.count) {
        qsort_r(list.list.data, list.list.count, sizeof *list.list.data, compare_lengths,
                (void *)(uintptr_t)c->s->slices);
        load_track_work(c, thread->track);
    }
    for (size_t i = 0; ok && i < list.list.count; i++)
        claim_range(c, list.list.data[i]);
    kb_vec_free(&list.list);
    return ok;
}

/* A device range claims work of its own track only. */
bool ka_hta_attribute_annotations(const ka_dataset *s, uint32_t *range_of)
{
    size_t n = (size_t)s->work_count + 2;
    claiming c = {.s = s,
                  .range_of = range_of,
                  .works = malloc(n * sizeof *c.works),
                  .ended = malloc(n * sizeof *c.ended),
                  .next = malloc(n * sizeof *c.next)};
    bool ok = c.works && c.ended && c.next;
    for (uint32_t i = 0; ok && i < s->thread_count; i++)
        ok = claim_track(&c, &s->threads[i]);
    free(c.works);
    free(c.ended);
    free(c.next);
    return ok;
}
