/* Links between rows: launches (a host call and the device activities with its correlation
 * id), and flows (starts and finishes with the same type and id).
 *
 * Launches are a derived stage, built under the mutex of derived.c. Flows are joined once,
 * by kt_builder_finish and the reader, when all rows exist. */
#include "trace/model/model.h"

/* Orders launches by id, start and row. */
static int compare_correlated(const void *left, const void *right)
{
    const kt_correlated *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Usually they are in order already: one pass checks that before sorting. */
void kt_sort_correlated(kt_correlated *items, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (compare_correlated(&items[i - 1], &items[i]) > 0) {
            qsort(items, count, sizeof *items, compare_correlated);
            return;
        }
}

const kt_correlated *kt_find_launch(const kt_correlated *launches, size_t count, uint64_t id,
                                    int64_t start_ns)
{
    size_t after = 0; /* → first launch after (id, start_ns) */
    KB_LOWER_BOUND(after, count,
                   launches[after].id < id ||
                       (launches[after].id == id && launches[after].start_ns <= start_ns));
    if (after > 0 && launches[after - 1].id == id)
        return &launches[after - 1];
    return after < count && launches[after].id == id ? &launches[after] : NULL;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Fills `out`, which has room for all rows, from both ends: launches from the front, device
 * activities from the back, from *devices on. Rows without a correlation id are in neither.
 * Returns the number of launches. */
static size_t collect_correlated(const kineto_trace *t, kt_keyed *out, size_t *devices)
{
    size_t launches = 0;
    kineto_row row = 0;
    *devices = t->count;
    for (size_t b = 0; b < t->blocks.count; b++) {
        const kt_block *block = t->blocks.data[b];
        for (uint32_t i = 0; i < block->count; i++, row++) {
            uint64_t id = block->correlation_id[i];
            if (!id)
                continue;
            if (kt_kind_is_launch(block->kind[i]))
                out[launches++] = (kt_keyed){id, row};
            else if (kt_kind_is_device(block->kind[i]))
                out[--*devices] = (kt_keyed){id, row};
        }
    }
    KB_ASSERT(launches <= *devices);
    return launches;
}

/* Orders rows of one correlation id by their start. Such groups are small. */
static int compare_row_starts(const void *left, const void *right, void *trace)
{
    const kt_keyed *a = left, *b = right;
    int64_t a_start = kt_start(trace, a->value), b_start = kt_start(trace, b->value);
    if (a_start != b_start)
        return a_start < b_start ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

/* Index after the last item with the same key as items[from]. */
static size_t find_group_end(const kt_keyed *items, size_t count, size_t from)
{
    size_t end = from + 1;
    while (end < count && items[end].key == items[from].key)
        end++;
    return end;
}

/* Sorts by id, then start, then row. False: out of memory. */
static bool sort_correlated_rows(kineto_trace *t, kt_keyed *items, size_t count)
{
    if (!kt_sort_keyed(t->store, items, count))
        return false;
    for (size_t i = 0, end; i < count; i = end) {
        end = find_group_end(items, count, i);
        if (end - i > 1)
            qsort_r(items + i, end - i, sizeof *items, compare_row_starts, t);
    }
    return true;
}

/* Of the launches of one id the last that starts at or before the time, else the first. */
static kineto_row find_launch_at(const kineto_trace *t, const kt_keyed *launches, size_t count,
                                 int64_t start_ns)
{
    size_t after = 0;
    KB_LOWER_BOUND(after, count, kt_start(t, launches[after].value) <= start_ns);
    return launches[after ? after - 1 : 0].value;
}

/* Merges the two sorted lists into pairs (device row, launch row), and returns their number. */
static size_t join_launches(const kineto_trace *t, const kt_keyed *launches, size_t launch_count,
                            const kt_keyed *devices, size_t device_count, kt_keyed *pairs)
{
    size_t count = 0, l = 0, group = 0;
    for (size_t i = 0; i < device_count; i++) {
        while (l < launch_count && launches[l].key < devices[i].key)
            l++;
        if (l == launch_count)
            break;
        if (launches[l].key != devices[i].key)
            continue;
        if (!i || devices[i].key != devices[i - 1].key || !group)
            group = find_group_end(launches, launch_count, l) - l;
        int64_t start = kt_start(t, devices[i].value);
        kineto_row launch = find_launch_at(t, launches + l, group, start);
        pairs[count++] = (kt_keyed){devices[i].value, launch};
    }
    return count;
}

/* Sorts the pairs by key into links, and keeps the first pair of each key: the sort is
 * stable, and pairs come in the order (correlation id, start, row). False: out of memory. */
static bool sort_pairs_to_links(kt_store *store, kt_keyed *pairs, size_t count, kt_link **out,
                                size_t *kept)
{
    *out = kt_store_alloc(store, (count + 1) * sizeof **out);
    *kept = 0;
    if (!*out || !kt_sort_keyed(store, pairs, count))
        return false;
    for (size_t i = 0; i < count; i++)
        if (!i || pairs[i].key != pairs[i - 1].key)
            (*out)[(*kept)++] = (kt_link){(kineto_row)pairs[i].key, pairs[i].value};
    return true;
}

/* Stores the links in both directions. False: out of memory, and none is stored. */
static bool store_launch_links(kt_store *store, kt_derived *d, kt_keyed *pairs, size_t count)
{
    kt_keyed *reverse = kt_store_alloc(store, (count + 1) * sizeof *reverse);
    bool ok = reverse != NULL;
    for (size_t i = 0; ok && i < count; i++)
        reverse[i] = (kt_keyed){pairs[i].value, (kineto_row)pairs[i].key};
    ok = ok && sort_pairs_to_links(store, reverse, count, &d->launched, &d->launched_count) &&
         sort_pairs_to_links(store, pairs, count, &d->launch, &d->launch_count);
    kt_store_free(store, reverse);
    if (!ok) {
        kt_store_free(store, d->launch);
        kt_store_free(store, d->launched);
        d->launch = d->launched = NULL;
    }
    return ok;
}

bool kt_build_links(kineto_trace *t)
{
    KB_ASSERT(!t->derived.launch && !t->derived.launched);
    kt_keyed *all = kt_store_alloc(t->store, (t->count + 1) * sizeof *all);
    if (!all)
        return false;
    size_t first;
    size_t launches = collect_correlated(t, all, &first), devices = t->count - first;
    kt_keyed *pairs = kt_store_alloc(t->store, (devices + 1) * sizeof *pairs);
    bool ok = pairs && sort_correlated_rows(t, all, launches) &&
              sort_correlated_rows(t, all + first, devices) &&
              store_launch_links(t->store, &t->derived, pairs,
                                 join_launches(t, all, launches, all + first, devices, pairs));
    kt_store_free(t->store, pairs);
    kt_store_free(t->store, all);
    return ok;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Order of flow ends at one time: starts, then ends that start again in the same row, then ends. */
typedef enum phase { STARTS, STEPS, ENDS } phase;

/* A flow end with what the order needs. `sequence` is its index in the stated ends. */
typedef struct flow_item {
    kt_flow_end end;
    phase phase;
    int64_t time_ns;
    size_t sequence;
} flow_item;

static int compare_flow_groups(const kt_flow_end *a, const kt_flow_end *b)
{
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return a->scope < b->scope ? -1 : a->scope > b->scope;
}

/* Order of ends with one id: group, time, phase, sequence. */
static int compare_flow_ends(const void *left, const void *right)
{
    const flow_item *a = left, *b = right;
    int groups = compare_flow_groups(&a->end, &b->end);
    if (groups)
        return groups;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Order of ends with one id in which ends of one row are adjacent: group, row, sequence. */
static int compare_flow_rows(const void *left, const void *right)
{
    const flow_item *a = left, *b = right;
    int groups = compare_flow_groups(&a->end, &b->end);
    if (groups)
        return groups;
    if (a->end.row != b->end.row)
        return a->end.row < b->end.row ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* Marks a finish that is followed by a start in the same row as a step: the arrow passes
 * through it. */
static void mark_flow_steps(flow_item *items, size_t count)
{
    qsort(items, count, sizeof *items, compare_flow_rows);
    for (size_t i = 1; i < count; i++) {
        flow_item *end = &items[i - 1], *start = &items[i];
        if (end->phase == ENDS && start->phase == STARTS && end->end.row == start->end.row &&
            end->end.row != KINETO_NO_ROW && !compare_flow_groups(&end->end, &start->end))
            end->phase = start->phase = STEPS;
    }
}

bool kt_flow_add(kineto_trace *t, kineto_flow flow)
{
    return kt_store_push(t->store, &t->flows, flow);
}

bool kt_flow_add_about(kineto_trace *t, const kt_flow_about *about)
{
    bool any = about->category || about->name || about->from_args || about->to_args;
    return !any || !t->flows.count ||
           kb_vec_push(&t->flow_texts, (kt_flow_row_text){t->flows.count - 1, *about});
}

/* State of joining the stated ends of one trace. */
typedef struct flow_joining {
    kineto_trace *t;
    const kt_stated_flows *stated;
    KB_VEC(flow_item) items; /* of one id */
} flow_joining;

/* Name, category and args of a stated end; NULL: it has none. */
static const kt_flow_text *find_flow_text(const kt_stated_flows *s, size_t end)
{
    size_t i = 0;
    KB_LOWER_BOUND(i, s->text_count, s->texts[i].end < end);
    return i < s->text_count && s->texts[i].end == end ? &s->texts[i] : NULL;
}

/* Adds a flow between two ends. Either may be NULL or have no row, but a flow without any
 * row is dropped. */
static bool add_joined_flow(flow_joining *j, const kt_flow_end *end, const flow_item *from,
                            const flow_item *to)
{
    const kt_stated_flows *s = j->stated;
    kineto_row from_row = from ? from->end.row : KINETO_NO_ROW;
    kineto_row to_row = to ? to->end.row : KINETO_NO_ROW;
    if (from_row == KINETO_NO_ROW && to_row == KINETO_NO_ROW)
        return true;
    if (!kt_flow_add(j->t, (kineto_flow){end->type, end->id, from_row, to_row}))
        return false;
    const kt_flow_text *start = s->text_count && from ? find_flow_text(s, from->sequence) : NULL;
    const kt_flow_text *finish = s->text_count && to ? find_flow_text(s, to->sequence) : NULL;
    const kt_flow_text *names = start ? start : finish;
    if (!names)
        return true;
    kt_flow_about about = {.category = names->category,
                           .name = names->name,
                           .from_args = start ? start->args : 0,
                           .to_args = finish ? finish->args : 0};
    return kt_flow_add_about(j->t, &about);
}

/* The first start on a known row other than `but`; NULL: none. */
static const flow_item *find_first_start(const flow_item *ends, size_t count, kineto_row but)
{
    for (size_t i = 0; i < count; i++)
        if (ends[i].phase == STARTS && ends[i].end.row != but && ends[i].end.row != KINETO_NO_ROW)
            return &ends[i];
    return NULL;
}

/* Joins the ends of one (type, id), which are in order of time. Each finish is joined with
 * the last start before it, even if the row of that start is not known. A finish before
 * every start is joined with the first start of another row that is not a step, because
 * clocks of devices are not exact; without such a start it began before the trace. A start
 * without a finish becomes a flow of its own. */
static bool join_flow_group(flow_joining *j, const flow_item *ends, size_t count)
{
    const flow_item *first = find_first_start(ends, count, KINETO_NO_ROW);
    const flow_item *second = first ? find_first_start(ends, count, first->end.row) : NULL;
    const flow_item *start = NULL, *early = NULL; /* early: a start that an earlier finish has */
    bool used = true;                             /* start has a finish */
    for (size_t i = 0; i < count; i++) {
        const flow_item *end = &ends[i];
        if (end->end.start) {
            if (!used && !add_joined_flow(j, &start->end, start, NULL))
                return false;
            used = end == early;
            start = end;
            continue;
        }
        const flow_item *from = start;
        if (!from)
            from = early = first && first->end.row == end->end.row ? second : first;
        if (!add_joined_flow(j, &end->end, from, end))
            return false;
        used = true;
    }
    return used || add_joined_flow(j, &start->end, start, NULL);
}

/* The usual case: one start and one finish. */
static bool join_flow_pair(flow_joining *j, const kt_flow_end *a, const kt_flow_end *b)
{
    flow_item one = {.end = *a, .sequence = (size_t)(a - j->stated->ends)};
    flow_item other = {.end = *b, .sequence = (size_t)(b - j->stated->ends)};
    const flow_item *start = a->start ? &one : &other, *finish = a->start ? &other : &one;
    return add_joined_flow(j, &start->end, start, finish);
}

/* Number of leading items of one type, or of one group (type and scope). */
static size_t count_flow_run(const flow_item *items, size_t count, bool whole_type)
{
    size_t end = 1;
    while (end < count && items[end].end.type == items->end.type &&
           (whole_type || !compare_flow_groups(&items[end].end, &items->end)))
        end++;
    return end;
}

/* Makes ids unique in the trace: of several scopes with one id, the scope that was stated
 * first keeps it, the others get a hash of id and scope. */
static void separate_flow_scopes(flow_item *items, size_t count)
{
    const flow_item *first = items;
    for (size_t i = 1; i < count; i++)
        first = items[i].sequence < first->sequence ? &items[i] : first;
    uint64_t keeps = first->end.scope;
    for (size_t i = 0; i < count; i++) {
        uint64_t key[] = {items[i].end.id, items[i].end.scope};
        if (key[1] != keeps)
            items[i].end.id = kb_hash(key, sizeof key);
    }
}

/* The time of an end: the start of its row, else the time that was stated with it. */
static int64_t time_of_flow_end(const flow_joining *j, const kt_flow_end *end, size_t sequence)
{
    const kt_stated_flows *s = j->stated;
    if (end->row < j->t->count)
        return kt_start(j->t, end->row);
    size_t i = 0;
    KB_LOWER_BOUND(i, s->nowhere_count, s->nowhere[i].end < sequence);
    return i < s->nowhere_count ? s->nowhere[i].ts_ns : INT64_MIN;
}

/* Joins all ends with one id, of any type and scope. */
static bool join_flow_id(flow_joining *j, const kt_keyed *order, size_t count)
{
    j->items.count = 0;
    for (size_t i = 0; i < count; i++) {
        const kt_flow_end *end = &j->stated->ends[order[i].value];
        flow_item item = {.end = *end,
                          .phase = end->start ? STARTS : ENDS,
                          .time_ns = time_of_flow_end(j, end, order[i].value),
                          .sequence = order[i].value};
        if (!kb_vec_push(&j->items, item))
            return false;
    }
    flow_item *items = j->items.data;
    mark_flow_steps(items, count);
    qsort(items, count, sizeof *items, compare_flow_ends);
    for (size_t i = 0, size; i < count; i += size) {
        size = count_flow_run(items + i, count - i, true);
        separate_flow_scopes(items + i, size);
    }
    for (size_t i = 0, size; i < count; i += size) {
        size = count_flow_run(items + i, count - i, false);
        if (!join_flow_group(j, items + i, size))
            return false;
    }
    return true;
}

/* As join_flow_id, with a shortcut for one start and one finish. */
static bool join_flow_id_fast(flow_joining *j, const kt_keyed *order, size_t count)
{
    const kt_flow_end *a = &j->stated->ends[order[0].value];
    const kt_flow_end *b = &j->stated->ends[order[count - 1].value];
    if (count == 2 && !compare_flow_groups(a, b) && a->start != b->start && a->row != b->row)
        return join_flow_pair(j, a, b);
    return join_flow_id(j, order, count);
}

bool kt_join_flows(kineto_trace *t, const kt_stated_flows *stated)
{
    size_t count = stated->count, kept = 0, nowhere = 0;
    kt_keyed *order =
        count < UINT32_MAX ? kt_store_alloc(t->store, (count + 1) * sizeof *order) : NULL;
    if (!order)
        return false;
    for (size_t i = 0; i < count; i++) {
        while (nowhere < stated->nowhere_count && stated->nowhere[nowhere].end < i)
            nowhere++;
        bool has_time = nowhere < stated->nowhere_count && stated->nowhere[nowhere].end == i;
        if (stated->ends[i].row < t->count || (has_time && stated->ends[i].start))
            order[kept++] = (kt_keyed){stated->ends[i].id, (uint32_t)i};
    }
    flow_joining j = {.t = t, .stated = stated};
    bool ok = kt_sort_keyed(t->store, order, kept);
    for (size_t i = 0, end; ok && i < kept; i = end) {
        end = find_group_end(order, kept, i);
        ok = join_flow_id_fast(&j, order + i, end - i);
    }
    kb_vec_free(&j.items);
    kt_store_free(t->store, order);
    return ok;
}
