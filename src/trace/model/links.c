/* Who launched what: host calls and device activities by correlation id, and flows by their id. */
#include "trace/model/model.h"

static int compare_correlated(const void *left, const void *right)
{
    const kt_correlated *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* They mostly come in that order. */
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
    size_t low = 0, high = count; /* → first launch after (id, start_ns) */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const kt_correlated *l = &launches[middle];
        if (l->id < id || (l->id == id && l->start_ns <= start_ns))
            low = middle + 1;
        else
            high = middle;
    }
    if (low > 0 && launches[low - 1].id == id)
        return &launches[low - 1];
    return low < count && launches[low].id == id ? &launches[low] : NULL;
}

/* ---- launches -------------------------------------------------------------------------------- */

/* Launches first; then, from the other end, device activities. Neither touches rows without id. */
static size_t collect(const kineto_trace *t, kt_keyed *out, size_t *devices)
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
    return launches;
}

/* Of rows with one id, those that start first come first. Groups are small, unless a file is odd.
 */
static int compare_starts(const void *left, const void *right, void *trace)
{
    const kt_keyed *a = left, *b = right;
    int64_t a_start = kt_start(trace, a->value), b_start = kt_start(trace, b->value);
    if (a_start != b_start)
        return a_start < b_start ? -1 : 1;
    return a->value < b->value ? -1 : a->value > b->value;
}

static size_t group_end(const kt_keyed *items, size_t count, size_t from)
{
    size_t end = from + 1;
    while (end < count && items[end].key == items[from].key)
        end++;
    return end;
}

/* By id, then start, then row. */
static bool sort_correlated(kineto_trace *t, kt_keyed *items, size_t count)
{
    if (!kt_sort_keyed(t->store, items, count))
        return false;
    for (size_t i = 0, end; i < count; i = end) {
        end = group_end(items, count, i);
        if (end - i > 1)
            qsort_r(items + i, end - i, sizeof *items, compare_starts, t);
    }
    return true;
}

/* Of the launches of one id: the last before the moment, else the first. */
static kineto_row launch_at(const kineto_trace *t, const kt_keyed *launches, size_t count,
                            int64_t start_ns)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kt_start(t, launches[middle].value) <= start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return launches[low ? low - 1 : 0].value;
}

/* Both lists are in order: walk them side by side. Each pair's key is the device row. */
static size_t join(const kineto_trace *t, const kt_keyed *launches, size_t launch_count,
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
            group = group_end(launches, launch_count, l) - l;
        int64_t start = kt_start(t, devices[i].value);
        pairs[count++] = (kt_keyed){devices[i].value, launch_at(t, launches + l, group, start)};
    }
    return count;
}

/* In the order of their keys, the first of each key: pairs came by (launch id, start, row). */
static bool settle_pairs(kt_store *store, kt_keyed *pairs, size_t count, kt_link **out,
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

static bool keep_pairs(kt_store *store, kt_derived *d, kt_keyed *pairs, size_t count)
{
    kt_keyed *reverse = kt_store_alloc(store, (count + 1) * sizeof *reverse);
    bool ok = reverse != NULL;
    for (size_t i = 0; ok && i < count; i++)
        reverse[i] = (kt_keyed){pairs[i].value, (kineto_row)pairs[i].key};
    ok = ok && settle_pairs(store, reverse, count, &d->launched, &d->launched_count) &&
         settle_pairs(store, pairs, count, &d->launch, &d->launch_count);
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
    kt_keyed *all = kt_store_alloc(t->store, (t->count + 1) * sizeof *all);
    if (!all)
        return false;
    size_t first;
    size_t launches = collect(t, all, &first), devices = t->count - first;
    kt_keyed *pairs = kt_store_alloc(t->store, (devices + 1) * sizeof *pairs);
    bool ok = pairs && sort_correlated(t, all, launches) &&
              sort_correlated(t, all + first, devices) &&
              keep_pairs(t->store, &t->derived, pairs,
                         join(t, all, launches, all + first, devices, pairs));
    kt_store_free(t->store, pairs);
    kt_store_free(t->store, all);
    return ok;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* What happens at one moment: things start, go on (end and start again, in one row), end. */
typedef enum phase { STARTS, STEPS, ENDS } phase;

typedef struct end_item {
    kt_flow_end end;
    phase phase;
    int64_t time_ns;
    size_t sequence;
} end_item;

static int compare_groups(const kt_flow_end *a, const kt_flow_end *b)
{
    if (a->type != b->type)
        return a->type < b->type ? -1 : 1;
    return a->scope < b->scope ? -1 : a->scope > b->scope;
}

/* Of one id: by group, then time, then as stated. */
static int compare_ends(const void *left, const void *right)
{
    const end_item *a = left, *b = right;
    int groups = compare_groups(&a->end, &b->end);
    if (groups)
        return groups;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static int compare_rows(const void *left, const void *right)
{
    const end_item *a = left, *b = right;
    int groups = compare_groups(&a->end, &b->end);
    if (groups)
        return groups;
    if (a->end.row != b->end.row)
        return a->end.row < b->end.row ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* An end and then a start in one row is an arrow that passes through it. */
static void find_steps(end_item *items, size_t count)
{
    qsort(items, count, sizeof *items, compare_rows);
    for (size_t i = 1; i < count; i++) {
        end_item *end = &items[i - 1], *start = &items[i];
        if (end->phase == ENDS && start->phase == STARTS && end->end.row == start->end.row &&
            end->end.row != KINETO_NO_ROW &&
            !compare_groups(&end->end, &start->end))
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

/* Joining what is stated, in a trace. */
typedef struct joining {
    kineto_trace *t;
    const kt_stated_flows *stated;
    KB_VEC(end_item) items; /* of one id */
} joining;

/* What is known of an end; NULL: nothing. */
static const kt_flow_text *text_of(const kt_stated_flows *s, size_t end)
{
    size_t low = 0, high = s->text_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->texts[middle].end < end)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->text_count && s->texts[low].end == end ? &s->texts[low] : NULL;
}

/* An arrow between two ends, of which one may be NULL or without a row. */
static bool add_flow(joining *j, const kt_flow_end *end, const end_item *from, const end_item *to)
{
    const kt_stated_flows *s = j->stated;
    kineto_row from_row = from ? from->end.row : KINETO_NO_ROW;
    kineto_row to_row = to ? to->end.row : KINETO_NO_ROW;
    if (from_row == KINETO_NO_ROW && to_row == KINETO_NO_ROW)
        return true;
    if (!kt_flow_add(j->t, (kineto_flow){end->type, end->id, from_row, to_row}))
        return false;
    const kt_flow_text *start = s->text_count && from ? text_of(s, from->sequence) : NULL;
    const kt_flow_text *finish = s->text_count && to ? text_of(s, to->sequence) : NULL;
    const kt_flow_text *names = start ? start : finish;
    if (!names)
        return true;
    kt_flow_about about = {.category = names->category,
                           .name = names->name,
                           .from_args = start ? start->args : 0,
                           .to_args = finish ? finish->args : 0};
    return kt_flow_add_about(j->t, &about);
}

static const end_item *first_start(const end_item *ends, size_t count, kineto_row but)
{
    for (size_t i = 0; i < count; i++)
        if (ends[i].phase == STARTS && ends[i].end.row != but && ends[i].end.row != KINETO_NO_ROW)
            return &ends[i];
    return NULL;
}

/* Join the ends of one (type, id). Each finish goes to the last start before it, also to one whose row
 * is not known; one that precedes every start, to the first of another row that is no step: clocks of
 * devices are never exact. If there is none, it started before the trace. */
static bool join_group(joining *j, const end_item *ends, size_t count)
{
    const end_item *first = first_start(ends, count, KINETO_NO_ROW);
    const end_item *second = first ? first_start(ends, count, first->end.row) : NULL;
    const end_item *start = NULL, *early = NULL; /* taken before its time */
    bool used = true;
    for (size_t i = 0; i < count; i++) {
        const end_item *end = &ends[i];
        if (end->end.start) {
            if (!used && !add_flow(j, &start->end, start, NULL))
                return false;
            used = end == early;
            start = end;
            continue;
        }
        const end_item *from = start;
        if (!from)
            from = early = first && first->end.row == end->end.row ? second : first;
        if (!add_flow(j, &end->end, from, end))
            return false;
        used = true;
    }
    return used || add_flow(j, &start->end, start, NULL);
}

/* The usual arrow: one start, one finish. */
static bool join_pair(joining *j, const kt_flow_end *a, const kt_flow_end *b)
{
    end_item one = {.end = *a, .sequence = (size_t)(a - j->stated->ends)};
    end_item other = {.end = *b, .sequence = (size_t)(b - j->stated->ends)};
    const end_item *start = a->start ? &one : &other, *finish = a->start ? &other : &one;
    return add_flow(j, &start->end, start, finish);
}

static size_t run_of(const end_item *items, size_t count, bool whole_type)
{
    size_t end = 1;
    while (end < count && (whole_type ? items[end].end.type == items->end.type
                                      : !compare_groups(&items[end].end, &items->end)))
        end++;
    return end;
}

/* Ids are unique in a trace: of several scopes the one that was stated first keeps it. */
static void part_scopes(end_item *items, size_t count)
{
    const end_item *first = items;
    for (size_t i = 1; i < count; i++)
        first = items[i].sequence < first->sequence ? &items[i] : first;
    uint64_t keeps = first->end.scope;
    for (size_t i = 0; i < count; i++) {
        uint64_t key[] = {items[i].end.id, items[i].end.scope};
        if (key[1] != keeps)
            items[i].end.id = kb_hash(key, sizeof key);
    }
}

/* When an end is: that of its row, else what was stated. */
static int64_t time_of(const joining *j, const kt_flow_end *end, size_t sequence)
{
    const kt_stated_flows *s = j->stated;
    if (end->row < j->t->count)
        return kt_start(j->t, end->row);
    size_t low = 0, high = s->nowhere_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->nowhere[middle].end < sequence)
            low = middle + 1;
        else
            high = middle;
    }
    return low < s->nowhere_count ? s->nowhere[low].ts_ns : INT64_MIN;
}

/* All ends with one id, of any type. */
static bool join_types(joining *j, const kt_keyed *order, size_t count)
{
    j->items.count = 0;
    for (size_t i = 0; i < count; i++) {
        const kt_flow_end *end = &j->stated->ends[order[i].value];
        end_item item = {*end, end->start ? STARTS : ENDS, time_of(j, end, order[i].value),
                         order[i].value};
        if (!kb_vec_push(&j->items, item))
            return false;
    }
    end_item *items = j->items.data;
    find_steps(items, count);
    qsort(items, count, sizeof *items, compare_ends);
    for (size_t i = 0, size; i < count; i += size) {
        size = run_of(items + i, count - i, true);
        part_scopes(items + i, size);
    }
    for (size_t i = 0, size; i < count; i += size) {
        size = run_of(items + i, count - i, false);
        if (!join_group(j, items + i, size))
            return false;
    }
    return true;
}

static bool join_id(joining *j, const kt_keyed *order, size_t count)
{
    const kt_flow_end *a = &j->stated->ends[order[0].value];
    const kt_flow_end *b = &j->stated->ends[order[count - 1].value];
    if (count == 2 && !compare_groups(a, b) && a->start != b->start && a->row != b->row)
        return join_pair(j, a, b);
    return join_types(j, order, count);
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
    joining j = {.t = t, .stated = stated};
    bool ok = kt_sort_keyed(t->store, order, kept);
    for (size_t i = 0, end; ok && i < kept; i = end) {
        end = group_end(order, kept, i);
        ok = join_id(&j, order + i, end - i);
    }
    kb_vec_free(&j.items);
    kt_store_free(t->store, order);
    return ok;
}
