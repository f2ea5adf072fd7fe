/* Projection of user annotations onto device tracks: for every annotation and device track
 * one row that spans the device work launched inside the annotation, as Kineto's GPU user
 * annotations.
 *
 * Launches are matched to device rows by correlation id; each belongs to the innermost
 * annotation around it, and spans propagate from inner annotations to outer ones. Runs on a
 * builder with all rows (see the passes in build.c), appends at its end. */
#include "trace/model/model.h"

/* The device work of one annotation on one track. */
typedef struct span {
    uint32_t annotation; /* number of the annotation, see nest_host_rows */
    uint32_t track;
    int64_t start_ns, end_ns;
} span;

typedef KB_VEC(span) span_list;
typedef KB_VEC(kt_correlated) correlated_list;

/* An annotation or launch of a host thread. */
typedef struct host_row {
    kt_sort_item key;
    uint32_t track;
    bool is_annotation;
    uint32_t index;  /* of an annotation: its number */
    uint32_t inside; /* number of the innermost enclosing annotation, or NONE */
} host_row;
typedef KB_VEC(host_row) host_list;

#define NONE UINT32_MAX

static bool is_host_track(const kineto_trace *t, uint32_t track)
{
    return t->tracks.data[track].type == KINETO_TRACK_THREAD;
}

/* Collects annotations and launches of host threads. False: out of memory. */
static bool collect_host_rows(const kineto_trace *t, host_list *hosts, correlated_list *launches)
{
    for (kineto_row row = 0; row < t->count; row++) {
        uint32_t kind = kt_kind(t, row), track = kt_row_track(t, row);
        bool note = kind == KINETO_KIND_USER_ANNOTATION;
        bool launch = kt_kind_is_launch(kind) && kt_correlation(t, row);
        if (!(note || launch) || kt_form(t, row) != KINETO_FORM_SLICE || !is_host_track(t, track))
            continue;
        host_row host = {kt_sort_key(t, row), track, note, NONE, NONE};
        kt_correlated c = {kt_correlation(t, row), kt_start(t, row), row};
        if (!kb_vec_push(hosts, host) || (launch && !kb_vec_push(launches, c)))
            return false;
    }
    return true;
}

static bool has_user_annotations(const kineto_trace *t)
{
    uint64_t kinds = 0;
    for (size_t i = 0; i < t->blocks.count; i++)
        kinds |= t->blocks.data[i]->kinds;
    return (kinds & KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION)) != 0;
}

/* Order by track, then by the total order; of equal ranges annotations enclose launches. */
static int compare_hosts_by_track(const void *left, const void *right)
{
    const host_row *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->key.start_ns == b->key.start_ns && a->key.end_ns == b->key.end_ns &&
        a->is_annotation != b->is_annotation)
        return a->is_annotation ? -1 : 1;
    return kt_before(&a->key, &b->key) ? -1 : kt_before(&b->key, &a->key);
}

/* Sets the enclosing annotation of each host row: the innermost that encloses its start.
 * Annotations get numbers in this order, so that an enclosing one has a lower number.
 * Returns how many there are. */
static uint32_t nest_host_rows(host_list *hosts, host_row **annotations)
{
    uint32_t count = 0, open = NONE;
    for (size_t i = 0; i < hosts->count; i++) {
        host_row *host = &hosts->data[i];
        while (open != NONE && (annotations[open]->track != host->track ||
                                annotations[open]->key.end_ns <= host->key.start_ns))
            open = annotations[open]->inside;
        host->inside = open;
        KB_ASSERT(open == NONE || open < count);
        if (host->is_annotation) {
            host->index = open = count;
            annotations[count++] = host;
        }
    }
    return count;
}

static int compare_host_rows(const void *left, const void *right)
{
    const host_row *a = left, *b = right;
    return a->key.row < b->key.row ? -1 : a->key.row > b->key.row;
}

static const host_row *find_host_row(const host_list *by_row, kineto_row row)
{
    host_row key = {.key = {.row = row}};
    return bsearch(&key, by_row->data, by_row->count, sizeof key, compare_host_rows);
}

/* Makes one span for each device activity, for the innermost annotation around its launch.
 * `by_row`: the host rows, sorted by row. False: out of memory. */
static bool collect_device_spans(const kineto_trace *t, const host_list *by_row,
                                 const correlated_list *launches, span_list *spans)
{
    for (kineto_row row = 0; row < t->count; row++) {
        uint32_t kind = kt_kind(t, row), track = kt_row_track(t, row);
        uint64_t id = kt_correlation(t, row);
        if (!id || !kt_kind_is_device(kind) || t->tracks.data[track].type != KINETO_TRACK_STREAM)
            continue;
        const kt_correlated *launch =
            kt_find_launch(launches->data, launches->count, id, kt_start(t, row));
        const host_row *host = launch ? find_host_row(by_row, launch->row) : NULL;
        if (!host || host->inside == NONE)
            continue;
        span s = {host->inside, track, kt_start(t, row), kt_end(t, row)};
        if (!kb_vec_push(spans, s))
            return false;
    }
    return true;
}

/* Order of spans: the last annotation first; within an annotation by track and time. */
static int compare_device_spans(const void *left, const void *right)
{
    const span *a = left, *b = right;
    if (a->annotation != b->annotation)
        return a->annotation > b->annotation ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->end_ns < b->end_ns ? -1 : a->end_ns > b->end_ns;
}

/* Merges spans of one track, in place, in a list sorted by track. Returns how many are left. */
static size_t merge_track_spans(span *spans, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        span *last = kept ? &spans[kept - 1] : NULL;
        if (last && last->track == spans[i].track) {
            last->start_ns = KB_MIN(last->start_ns, spans[i].start_ns);
            last->end_ns = KB_MAX(last->end_ns, spans[i].end_ns);
        } else {
            spans[kept++] = spans[i];
        }
    }
    return kept;
}

/* Spans from inner annotations: a linked list for each annotation, index 0 ends a list. */
typedef struct moved {
    span span;
    uint32_t next;
} moved;
typedef KB_VEC(moved) moved_list;

/* Collects all spans of an annotation in `own`: those of its own launches, from spans[*at]
 * on, and those from inner annotations. False: out of memory. */
static bool gather_annotation_spans(const span_list *spans, size_t *at, const moved_list *moved_up,
                                    uint32_t head, uint32_t annotation, span_list *own)
{
    own->count = 0;
    for (; *at < spans->count && spans->data[*at].annotation == annotation; ++*at)
        if (!kb_vec_push(own, spans->data[*at]))
            return false;
    for (uint32_t i = head; i; i = moved_up->data[i].next)
        if (!kb_vec_push(own, moved_up->data[i].span))
            return false;
    for (size_t i = 0; i < own->count; i++)
        own->data[i].annotation = annotation;
    return true;
}

/* Propagates spans from inner to outer annotations, in descending order of numbers, and
 * collects one span for each annotation and track in `all`. `heads` has a zero for each
 * annotation. False: out of memory. */
static bool propagate_spans(const span_list *spans, const uint32_t *parent, uint32_t *heads,
                            uint32_t count, span_list *all)
{
    span_list own = {0};
    moved_list up = {0};
    size_t at = 0;
    bool ok = kb_vec_push(&up, (moved){0}); /* index 0 ends lists */
    for (uint32_t i = count; ok && i-- > 0;) {
        KB_ASSERT(parent[i] == NONE || parent[i] < i); /* the parent is still to come */
        ok = gather_annotation_spans(spans, &at, &up, heads[i], i, &own);
        if (ok && own.count) {
            qsort(own.data, own.count, sizeof *own.data, compare_device_spans);
            own.count = merge_track_spans(own.data, own.count);
        }
        for (size_t k = 0; ok && k < own.count; k++) {
            ok = kb_vec_push(all, own.data[k]);
            if (!ok || parent[i] == NONE)
                continue;
            ok = kb_vec_push(&up, (moved){own.data[k], heads[parent[i]]});
            heads[parent[i]] = (uint32_t)(up.count - 1);
        }
    }
    kb_vec_free(&own);
    kb_vec_free(&up);
    return ok;
}

/* Appends a row for each span, outer annotations first. */
static void append_projected_rows(kt_builder *b, const span_list *all, const kineto_row *rows)
{
    for (size_t i = all->count; i-- > 0;) {
        const span *s = &all->data[i];
        kineto_activity note;
        kineto_trace_get(b->trace, rows[s->annotation], &note);
        kt_append(b, &(kt_row){.start_ns = s->start_ns,
                               .end_ns = s->end_ns,
                               .name = note.name_id,
                               .track = s->track,
                               .kind = KINETO_KIND_GPU_USER_ANNOTATION,
                               .external_id = note.external_id});
    }
}

/* Numbers the annotations, finds the work that they launched, and appends rows. False: out
 * of memory. */
static bool project_host_rows(kt_builder *b, host_list *hosts, correlated_list *launches)
{
    bool ok = false;
    span_list spans = {0}, all = {0};
    host_row **annotations = malloc((hosts->count + 1) * sizeof *annotations);
    uint32_t *parent = malloc((hosts->count + 1) * sizeof *parent);
    uint32_t *heads = calloc(hosts->count + 1, sizeof *heads);
    kineto_row *rows = malloc((hosts->count + 1) * sizeof *rows);
    if (!annotations || !parent || !heads || !rows)
        goto done;
    qsort(hosts->data, hosts->count, sizeof *hosts->data, compare_hosts_by_track);
    uint32_t count = nest_host_rows(hosts, annotations);
    for (uint32_t i = 0; i < count; i++) {
        parent[i] = annotations[i]->inside;
        rows[i] = annotations[i]->key.row;
    }
    qsort(hosts->data, hosts->count, sizeof *hosts->data, compare_host_rows);
    kt_sort_correlated(launches->data, launches->count);
    ok = collect_device_spans(b->trace, hosts, launches, &spans);
    if (ok && spans.count) {
        qsort(spans.data, spans.count, sizeof *spans.data, compare_device_spans);
        ok = propagate_spans(&spans, parent, heads, count, &all);
    }
    if (ok)
        append_projected_rows(b, &all, rows);
done:
    free(annotations);
    free(parent);
    free(heads);
    free(rows);
    kb_vec_free(&spans);
    kb_vec_free(&all);
    return ok;
}

void kt_project_user_annotations(kt_builder *b)
{
    host_list hosts = {0};
    correlated_list launches = {0};
    if (!has_user_annotations(b->trace))
        return;
    bool ok = collect_host_rows(b->trace, &hosts, &launches);
    if (ok && launches.count)
        ok = project_host_rows(b, &hosts, &launches);
    if (!ok && b->status == KINETO_OK)
        b->status = KINETO_E_MEMORY;
    kb_vec_free(&hosts);
    kb_vec_free(&launches);
}
