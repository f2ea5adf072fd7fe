/* Who launched what: host calls and device activities by correlation id, and flows by their id. */
#include "trace/model.h"

int kt_compare_correlated(const void *left, const void *right)
{
    const kt_correlated *a = left, *b = right;
    if (a->id != b->id)
        return a->id < b->id ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
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

static int compare_links(const void *left, const void *right)
{
    const kt_link *a = left, *b = right;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Launches first; then, from the other end, device activities. Neither touches rows without id. */
static size_t collect(const kineto_trace *t, kt_correlated *out, size_t *devices)
{
    size_t launches = 0;
    *devices = t->count;
    for (kineto_row row = 0; row < t->count; row++) {
        uint64_t id = kt_correlation(t, row);
        uint32_t kind = kt_kind(t, row);
        if (!id || !(kt_kind_is_launch(kind) || kt_kind_is_device(kind)))
            continue;
        size_t at = kt_kind_is_launch(kind) ? launches++ : --*devices;
        out[at] = (kt_correlated){id, kt_start(t, row), row};
    }
    return launches;
}

/* A launch → its first device activity: `pairs` come by (launch id, device start, device row). */
static size_t reverse_links(const kt_link *pairs, size_t count, kt_link *out)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        out[i] = (kt_link){pairs[i].to, pairs[i].from};
    for (size_t i = 0; i < count; i++)
        if (!kept || out[kept - 1].from != out[i].from)
            out[kept++] = out[i];
    qsort(out, kept, sizeof *out, compare_links);
    return kept;
}

static bool join(kt_derived *d, const kt_correlated *launches, size_t launch_count,
                 const kt_correlated *devices, size_t device_count)
{
    kt_link *pairs = malloc((device_count + 1) * sizeof *pairs);
    kt_link *reverse = malloc((device_count + 1) * sizeof *reverse);
    if (!pairs || !reverse) {
        free(pairs);
        free(reverse);
        return false;
    }
    size_t count = 0;
    for (size_t i = 0; i < device_count; i++) {
        const kt_correlated *launch =
            kt_find_launch(launches, launch_count, devices[i].id, devices[i].start_ns);
        if (launch)
            pairs[count++] = (kt_link){devices[i].row, launch->row};
    }
    d->launched_count = reverse_links(pairs, count, reverse);
    d->launched = reverse;
    qsort(pairs, count, sizeof *pairs, compare_links);
    d->launch = pairs;
    d->launch_count = count;
    return true;
}

bool kt_build_links(kineto_trace *t)
{
    kt_correlated *all = malloc((t->count + 1) * sizeof *all);
    if (!all)
        return false;
    size_t first_device;
    size_t launches = collect(t, all, &first_device), devices = t->count - first_device;
    qsort(all, launches, sizeof *all, kt_compare_correlated);
    qsort(all + first_device, devices, sizeof *all, kt_compare_correlated);
    bool ok = join(&t->derived, all, launches, all + first_device, devices);
    free(all);
    return ok;
}

/* ---- flows ----------------------------------------------------------------------------------- */

typedef struct end_item {
    kt_flow_end end;
    int64_t time_ns;
    size_t sequence;
} end_item;

/* By identity, then time, then as stated. */
static int compare_ends(const void *left, const void *right)
{
    const end_item *a = left, *b = right;
    if (a->end.type != b->end.type)
        return a->end.type < b->end.type ? -1 : 1;
    if (a->end.id != b->end.id)
        return a->end.id < b->end.id ? -1 : 1;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    if (a->end.start != b->end.start)
        return a->end.start ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static bool add_flow(kineto_trace *t, const kt_flow_end *end, kineto_row from, kineto_row to)
{
    return kb_vec_push(&t->flows, (kineto_flow){end->type, end->id, from, to});
}

/* Join the ends of one (type, id). Each finish goes to the last start before it; one that precedes
 * every start, to the first: clocks of devices are never exact. */
static bool join_group(kineto_trace *t, const end_item *ends, size_t count)
{
    const kt_flow_end *start = NULL;
    bool used = true;
    for (size_t i = 0; i < count && !start; i++)
        start = ends[i].end.start ? &ends[i].end : NULL;
    for (size_t i = 0; i < count; i++) {
        const kt_flow_end *end = &ends[i].end;
        if (!end->start) {
            if (!add_flow(t, end, start ? start->row : KINETO_NO_ROW, end->row))
                return false;
            used = true;
            continue;
        }
        if (!used && !add_flow(t, start, start->row, KINETO_NO_ROW))
            return false;
        used = end == start && i > 0; /* the first start may have been taken already */
        start = end;
    }
    return used || add_flow(t, start, start->row, KINETO_NO_ROW);
}

static bool same_flow(const kt_flow_end *a, const kt_flow_end *b)
{
    return a->type == b->type && a->id == b->id;
}

bool kt_join_flows(kineto_trace *t, const kt_flow_end *ends, size_t count)
{
    end_item *items = malloc((count + 1) * sizeof *items);
    if (!items)
        return false;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (ends[i].row < t->count)
            items[kept++] = (end_item){ends[i], kt_start(t, ends[i].row), i};
    qsort(items, kept, sizeof *items, compare_ends);
    bool ok = true;
    for (size_t i = 0, next; ok && i < kept; i = next) {
        next = i + 1;
        while (next < kept && same_flow(&items[i].end, &items[next].end))
            next++;
        ok = join_group(t, items + i, next - i);
    }
    free(items);
    return ok;
}
