/* Calls as HolisticTraceAnalysis nests them, and the operators whose kernels form its sequences.
 *
 * HTA nests the ranges of each thread by sorting their starts and ends with a comparison that is not
 * transitive, so the tree depends on its two sorts (order.h). What a thread that computes backward
 * has outermost belongs to the range of the main thread that waits for it. */
#include "analyze/compat/compat.h"
#include "analyze/compat/order.h"

/* A start or an end. */
typedef struct moment {
    int64_t ns, length_ns;
    uint32_t range; /* index of `ranges` */
    bool is_start;
} moment;

/* The state of nesting; arrays of moments are reused by all threads. */
typedef struct nesting {
    const ka_dataset *s;
    ka_calls *c;
    uint8_t *names;             /* by name: NAME_… */
    KB_VEC(uint32_t) outermost; /* of threads that compute backward */
    KB_VEC(uint32_t) hosts;     /* ranges that such ones may belong to, by start */
    KB_VEC(uint32_t) ranges;    /* of one thread, by row */
    KB_VEC(moment) moments;     /* their starts, then their ends */
    KB_VEC(int64_t) times;      /* of moments */
    KB_VEC(uint32_t) sorted;    /* indexes of moments */
    bool hta_fails; /* at ranges that end before they begin, and others without length */
    bool no_lengths_below_zero; /* then the former have none either */
    bool no_memory;
} nesting;

enum { NAME_UNKNOWN, NAME_OTHER, NAME_AUTOGRAD, NAME_BACKWARD, NAME_STEP };

/* The class of a name, computed once per name. */
static uint8_t classify_range_name(const nesting *n, uint32_t name)
{
    if (n->names[name] == NAME_UNKNOWN) {
        kineto_string text = ka_name(n->s, name);
        n->names[name] = kb_string_starts_with(text, "autograd::engine::")         ? NAME_AUTOGRAD
                         : kb_string_equal(text, kb_string("## backward ##")) ? NAME_BACKWARD
                         : kb_string_starts_with(text, "ProfilerStep")             ? NAME_STEP
                                                                              : NAME_OTHER;
    }
    return n->names[name];
}

/* Ranges of devices are among the slices with these definitions; they do not nest. */
static bool is_host_range(uint32_t kind)
{
    return kind != KINETO_KIND_GPU_USER_ANNOTATION && kind != KINETO_KIND_CUDA_PROFILER_RANGE &&
           kind != KINETO_KIND_CUDA_SYNC;
}

/* The main thread may compute backward as well, but has steps or waits for the thread that does. */
static bool computes_backward(const nesting *n, const ka_thread *thread)
{
    bool any = false;
    for (uint32_t i = thread->first; i < thread->first + thread->count; i++) {
        uint8_t name = classify_range_name(n, n->s->slices[i].name);
        if (name == NAME_BACKWARD || name == NAME_STEP)
            return false;
        any |= name == NAME_AUTOGRAD;
    }
    return any;
}

/* The order in which HTA reads ranges: that of the file. */
static int compare_slice_rows(const void *left, const void *right, void *context)
{
    const ka_slice *slices = context;
    kineto_row a = slices[*(const uint32_t *)left].row, b = slices[*(const uint32_t *)right].row;
    return a < b ? -1 : a > b;
}

/* The thread's ranges, by row. */
static void collect_thread_ranges(nesting *n, const ka_thread *thread)
{
    const ka_dataset *s = n->s;
    n->ranges.count = 0;
    for (uint32_t i = thread->first; i < thread->first + thread->count; i++)
        if (is_host_range(s->slices[i].kind))
            n->no_memory |= !kb_vec_push(&n->ranges, i);
    if (n->ranges.count)
        qsort_r(n->ranges.data, n->ranges.count, sizeof *n->ranges.data, compare_slice_rows,
                (void *)(uintptr_t)s->slices);
}

/* Lengths may be below zero: rounding moves starts up and ends down. */
static int64_t saturating_difference(int64_t a, int64_t b)
{
    int64_t ns;
    return __builtin_sub_overflow(a, b, &ns) ? (a > b ? INT64_MAX : INT64_MIN) : ns;
}

/* The start or end of the range at that index of `ranges`. With no_lengths_below_zero a range
 * that would end before its start ends there. */
static moment moment_of(const nesting *n, uint32_t range, bool is_start)
{
    const ka_slice *slice = &n->s->slices[n->ranges.data[range]];
    int64_t ns = saturating_difference(slice->end_ns, slice->start_ns);
    if (n->no_lengths_below_zero)
        ns = KB_MAX(ns, 0);
    int64_t at = is_start ? slice->start_ns : ka_add_ns(slice->start_ns, ns);
    return (moment){.ns = at, .length_ns = ns, .range = range, .is_start = is_start};
}

/* All starts, then all ends. */
static bool note_moments(nesting *n)
{
    size_t count = n->ranges.count;
    if (count > UINT32_MAX / 2 || !kb_vec_reserve(&n->moments, 2 * count) ||
        !kb_vec_reserve(&n->times, 2 * count) || !kb_vec_reserve(&n->sorted, 2 * count))
        return false;
    for (size_t i = 0; i < 2 * count; i++) {
        moment m = moment_of(n, (uint32_t)(i < count ? i : i - count), i < count);
        n->moments.data[i] = m;
        n->times.data[i] = m.ns;
    }
    n->moments.count = n->times.count = n->sorted.count = 2 * count;
    return true;
}

/* Beside a moment of another range at the same time, one of them without length. */
static bool without_length_goes_first(nesting *n, const moment *a, const moment *b)
{
    if (a->length_ns > 0)
        return a->is_start;
    if (b->length_ns > 0)
        return !b->is_start;
    n->hta_fails |= a->length_ns < 0 || b->length_ns < 0;
    if (a->is_start != b->is_start)
        return a->is_start;
    return a->is_start ? a->range < b->range : a->range > b->range;
}

/* Not transitive at a time at which one ends, another begins and a third has no length. */
static bool goes_first(const void *context, uint32_t left, uint32_t right)
{
    nesting *n = (nesting *)(uintptr_t)context;
    const moment *a = &n->moments.data[left], *b = &n->moments.data[right];
    if (a->ns != b->ns)
        return a->ns < b->ns;
    if (a->range == b->range)
        return a->is_start;
    if (!a->length_ns || !b->length_ns)
        return without_length_goes_first(n, a, b);
    if (a->is_start != b->is_start)
        return !a->is_start;
    if (a->length_ns != b->length_ns)
        return a->is_start == (a->length_ns > b->length_ns);
    return a->is_start == (a->range < b->range);
}

/* An end closes what was opened last, whatever it is. */
static void open_and_close(nesting *n)
{
    ka_calls *c = n->c;
    uint32_t top = KA_NONE;
    for (size_t k = 0; k < n->sorted.count; k++) {
        const moment *m = &n->moments.data[n->sorted.data[k]];
        if (m->is_start) {
            uint32_t i = n->ranges.data[m->range];
            c->parent[i] = top;
            c->depth[i] = top == KA_NONE ? 0 : c->depth[top] + 1;
            c->order[c->count++] = i;
            top = i;
        } else if (top != KA_NONE) {
            top = c->parent[top];
        }
    }
}

/* What comes of goes_first depends on which moments meet, hence on both ways to sort. */
static void nest_thread(nesting *n)
{
    if (n->no_memory || !note_moments(n)) {
        n->no_memory = true;
        return;
    }
    ka_order_numpy(n->times.data, n->sorted.data, n->times.count);
    n->no_memory |= !ka_order_python(n->sorted.data, n->sorted.count, goes_first, n);
    if (!n->no_memory)
        open_and_close(n);
}

/* Places behind, from `parent`: the last ones of a range are those of its last child. */
static void set_behind(ka_calls *c, uint32_t *place)
{
    for (uint32_t at = 0; at < c->count; at++) {
        place[c->order[at]] = at;
        c->end_of[at] = at + 1;
    }
    for (uint32_t at = c->count; at-- > 0;) {
        uint32_t parent = c->parent[c->order[at]];
        KB_ASSERT(parent == KA_NONE || place[parent] < at);
        if (parent != KA_NONE)
            c->end_of[place[parent]] = KB_MAX(c->end_of[place[parent]], c->end_of[at]);
    }
}

/* Collects the ranges of this class, from that place of the order on, that work of a backward
 * thread may belong to. */
static void note_hosts(nesting *n, uint32_t first, uint8_t wanted)
{
    for (uint32_t at = first; at < n->c->count; at++) {
        uint32_t i = n->c->order[at];
        if (classify_range_name(n, n->s->slices[i].name) == wanted)
            n->no_memory |= !kb_vec_push(&n->hosts, i);
    }
}

/* Collects the outermost ranges of a backward thread, which get a parent in hang_backward. */
static void note_outermost(nesting *n, uint32_t first)
{
    for (uint32_t at = first; at < n->c->count; at++)
        if (n->c->parent[n->c->order[at]] == KA_NONE)
            n->no_memory |= !kb_vec_push(&n->outermost, n->c->order[at]);
}

/* Threads that compute backward follow the others: so what encloses comes first. */
static void nest_threads(nesting *n, bool backward)
{
    for (uint32_t t = 0; t < n->s->thread_count; t++) {
        const ka_thread *thread = &n->s->threads[t];
        uint32_t first = n->c->count;
        if (computes_backward(n, thread) != backward)
            continue;
        collect_thread_ranges(n, thread);
        nest_thread(n);
        if (backward)
            note_outermost(n, first);
        else
            note_hosts(n, first, NAME_BACKWARD);
    }
}

/* Without "## backward ##" ranges the steps are those that backward work belongs to. */
static void take_steps(nesting *n)
{
    for (uint32_t i = 0; i < n->s->step_count; i++)
        if (n->s->steps[i].slice != KA_NONE)
            n->no_memory |= !kb_vec_push(&n->hosts, n->s->steps[i].slice);
}

/* The last host range that began before the slice, if it also ends after it; KA_NONE. */
static uint32_t find_backward_host(const nesting *n, const ka_slice *slice)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, n->hosts.count,
                   n->s->slices[n->hosts.data[after]].start_ns <= slice->start_ns);
    bool is = after && n->s->slices[n->hosts.data[after - 1]].end_ns >= slice->end_ns;
    return is ? n->hosts.data[after - 1] : KA_NONE;
}

/* Gives the outermost ranges of backward threads their parents, then all depths anew. Hosts come
 * before what belongs to them in `order`. */
static void hang_backward(nesting *n)
{
    if (!n->hosts.count)
        take_steps(n);
    if (n->hosts.count)
        qsort_r(n->hosts.data, n->hosts.count, sizeof *n->hosts.data, ka_compare_slices,
                (void *)(uintptr_t)n->s->slices);
    for (size_t i = 0; i < n->outermost.count; i++) {
        uint32_t slice = n->outermost.data[i];
        n->c->parent[slice] = find_backward_host(n, &n->s->slices[slice]);
    }
    for (uint32_t at = 0; n->outermost.count && at < n->c->count; at++) {
        uint32_t slice = n->c->order[at], parent = n->c->parent[slice];
        n->c->depth[slice] = parent == KA_NONE ? 0 : n->c->depth[parent] + 1;
    }
}

/* One attempt: the threads that do not compute backward, then those that do. */
static void nest_all(nesting *n)
{
    n->c->count = 0;
    n->outermost.count = n->hosts.count = 0;
    nest_threads(n, false);
    nest_threads(n, true);
}

static void free_nesting(nesting *n)
{
    free(n->names);
    kb_vec_free(&n->outermost);
    kb_vec_free(&n->hosts);
    kb_vec_free(&n->ranges);
    kb_vec_free(&n->moments);
    kb_vec_free(&n->times);
    kb_vec_free(&n->sorted);
}

/* If HTA's comparison would fail on lengths below zero, all is nested again without them, as HTA
 * does. */
bool ka_hta_nest_calls(const ka_dataset *s, ka_calls *c)
{
    nesting n = {.s = s, .c = c};
    uint32_t *place = malloc((s->slice_count + (size_t)1) * sizeof *place);
    n.names = calloc(s->name_count + (size_t)1, 1);
    n.no_memory = !place || !n.names;
    if (!n.no_memory) {
        nest_all(&n);
        n.no_lengths_below_zero = n.hta_fails;
        if (n.hta_fails)
            nest_all(&n);
        set_behind(c, place);
        hang_backward(&n);
    }
    free_nesting(&n);
    free(place);
    return !n.no_memory;
}

/* ---- sequences -------------------------------------------------------------------------------- */

/* The depth of the least deep matching slice; UINT32_MAX: none matches. */
static uint32_t find_least_depth(const ka_dataset *s, const ka_calls *c, ka_slice_filter *matches,
                                 void *context)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t at = 0; at < c->count; at++)
        if (matches(context, &s->slices[c->order[at]]))
            least = KB_MIN(least, c->depth[c->order[at]]);
    return least;
}

/* The tree is needed for depths, so it is made even if no operator matches. */
bool ka_hta_visit_sequences(const ka_dataset *s, ka_slice_filter *matches,
                            ka_sequence_visitor *visit, void *context)
{
    ka_calls c;
    bool ok = ka_calls_create(s, &c);
    uint32_t least = ok ? find_least_depth(s, &c, matches, context) : 0;
    for (uint32_t at = 0; ok && at < c.count; at++) {
        uint32_t i = c.order[at];
        if (c.depth[i] == least && matches(context, &s->slices[i]))
            visit(context, i, c.order + at, c.end_of[at] - at);
    }
    ka_calls_free(&c);
    return ok;
}
