/* The tables annotations and kernels_annotated: user annotations on the host and on devices
 * (record_function, NVTX, gpu_user_annotation), and the innermost annotation around the launch
 * of each piece of work.
 *
 * A range of the host is one of three things: a slice of its thread; several slices, if a range of
 * another NVTX or ITT domain ended within it (those after the first one have the argument
 * "continued"); or an asynchronous range, which has begin and end of its own and crosses others. */
#include "analyze/facts/analyses.h"

/* ---- annotations: how often, how long -------------------------------------------------------- */

typedef struct of_name {
    uint32_t name;
    ka_tally_ns tally;
} of_name;

/* One range: the index of its name in the list, and how long it took. */
typedef struct length {
    uint32_t index;
    double us;
} length;

typedef struct tallies {
    KB_VEC(of_name) list;
    KB_VEC(length) lengths; /* sorted by index once all are added */
    uint32_t *place;        /* by string id: 0 not met, else where it is + 1 */
} tallies;

static bool add_annotation(tallies *t, uint32_t name, int64_t ns)
{
    if (!t->place[name]) {
        if (!kb_vec_push(&t->list, ((of_name){.name = name})))
            return false;
        t->place[name] = (uint32_t)t->list.count;
    }
    KB_ASSERT(t->place[name] <= t->list.count);
    ka_tally_ns_add(&t->list.data[t->place[name] - 1].tally, ns);
    return kb_vec_push(&t->lengths, ((length){t->place[name] - 1, ka_us(ns)}));
}

static int compare_lengths(const void *left, const void *right)
{
    const length *a = left, *b = right;
    if (a->index != b->index)
        return KB_COMPARE(a->index, b->index);
    return (a->us > b->us) - (a->us < b->us);
}

/* Median and 99th percentile of sorted lengths: at most one in a hundred is longer. */
static void put_quantiles(const length *lengths, uint64_t count, ka_table *t)
{
    ka_put_number(t, count % 2 ? lengths[count / 2].us
                               : (lengths[count / 2 - 1].us + lengths[count / 2].us) / 2);
    ka_put_number(t, lengths[count - 1 - count / 100].us);
}

static bool add_slices(const ka_dataset *s, uint8_t kind, tallies *t)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->slice_count; i++)
        if (s->slices[i].kind == kind)
            ok = add_annotation(t, s->slices[i].name, ka_slice_ns(&s->slices[i]));
    return ok;
}

/* ---- ranges in pieces ---- */

#define MAX_PIECES_BEFORE 256u /* slices that can lie between two pieces: those nested in the first */

/* The slice that slice `i` continues: the last one of its name that ended before it on its thread.
 * `i`: it continues none. */
static uint32_t find_piece_before(const ka_dataset *s, uint32_t i)
{
    const ka_slice *piece = &s->slices[i];
    uint32_t first = s->threads[piece->thread].first, best = i;
    for (uint32_t j = i; j > first && i - j < MAX_PIECES_BEFORE; j--) {
        const ka_slice *before = &s->slices[j - 1];
        if (before->kind == piece->kind && before->name == piece->name &&
            before->end_ns <= piece->start_ns &&
            (best == i || before->end_ns > s->slices[best].end_ns))
            best = j - 1;
    }
    return best;
}

/* Lengths of slices, by index. Those of later pieces are added to that of the first one, and are -1.
 * NULL: out of memory. */
static int64_t *measure_slices(const ka_dataset *s, uint8_t kind)
{
    int64_t *ns = malloc((s->slice_count + 1) * sizeof *ns);
    uint32_t *root = malloc((s->slice_count + 1) * sizeof *root);
    kineto_arg arg;
    for (uint32_t i = 0; ns && root && i < s->slice_count; i++) {
        ns[i] = ka_slice_ns(&s->slices[i]);
        root[i] = i;
        if (s->slices[i].kind != kind ||
            !kineto_args_find(s->trace, s->slices[i].row, "continued", &arg))
            continue;
        root[i] = root[find_piece_before(s, i)];
        if (root[i] == i)
            continue;
        ns[root[i]] = ka_add_ns(ns[root[i]], ns[i]);
        ns[i] = -1;
    }
    if (!root) {
        free(ns);
        ns = NULL;
    }
    free(root);
    return ns;
}

static bool add_pieced_slices(const ka_dataset *s, uint8_t kind, tallies *t)
{
    int64_t *ns = measure_slices(s, kind);
    bool ok = ns;
    for (uint32_t i = 0; ok && i < s->slice_count; i++)
        if (s->slices[i].kind == kind && ns[i] >= 0)
            ok = add_annotation(t, s->slices[i].name, ns[i]);
    free(ns);
    return ok;
}

/* ---- asynchronous ranges ---- */

/* Does a range that begins then belong to the selected steps, by the rules for slices? */
static bool is_start_selected(const ka_dataset *s, uint32_t process, int64_t start_ns)
{
    bool in_step = false, after_dropped = false;
    for (uint32_t i = 0; i < s->step_count; i++) {
        const ka_step *step = &s->steps[i];
        if (step->process != process || step->start_ns > start_ns)
            continue;
        in_step |= step->slice != KA_NONE && start_ns < step->end_ns;
        after_dropped |= step->slice == KA_NONE;
    }
    return s->options->steps == KINETO_STEPS_RANGE       ? in_step
           : s->options->steps == KINETO_STEPS_DROP_LAST ? !after_dropped
                                                         : true;
}

static bool add_async_ranges(const ka_dataset *s, tallies *t)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < kineto_trace_track_count(s->trace); i++) {
        kineto_track track;
        kineto_trace_track(s->trace, i, &track);
        const kineto_row *rows = track.type == KINETO_TRACK_ASYNC && track.count
                                     ? kineto_trace_track_rows(s->trace, i)
                                     : NULL;
        for (uint64_t k = 0; ok && rows && k < track.count; k++) {
            const kt_block *b = kt_block_at(s->trace, rows[k] / KT_BLOCK_ROWS);
            uint32_t at = rows[k] % KT_BLOCK_ROWS;
            if (b->kind[at] == KINETO_KIND_USER_ANNOTATION && b->form[at] == KINETO_FORM_ASYNC &&
                is_start_selected(s, track.process, b->start_ns[at]))
                ok = add_annotation(t, b->name[at], kb_length_ns(b->start_ns[at], b->end_ns[at]));
        }
    }
    return ok;
}

/* HTA counts slices only. */
static bool add_host(const ka_dataset *s, tallies *t)
{
    const uint8_t kind = KINETO_KIND_USER_ANNOTATION;
    if (s->options->definitions == KINETO_DEFINITIONS_HTA)
        return add_slices(s, kind, t);
    return add_pieced_slices(s, kind, t) && add_async_ranges(s, t);
}

/* ---- ranges of devices ---- */

/* Does work of the dataset begin in it? */
static bool has_work(const ka_dataset *s, const ka_stream *stream, int64_t start_ns, int64_t end_ns)
{
    uint32_t first = stream->first, end = stream->first + stream->count;
    KB_LOWER_BOUND(first, end, s->work[first].start_ns < start_ns);
    return first < end && s->work[first].start_ns <= end_ns;
}

/* Annotations on the track of a stream. They are no work of the dataset, so the rows of the
 * trace are read. Those without work in them are left out. */
static bool add_of_stream(const ka_dataset *s, const ka_stream *stream, tallies *t)
{
    kineto_track track;
    kineto_trace_track(s->trace, stream->track, &track);
    const kineto_row *rows = kineto_trace_track_rows(s->trace, stream->track);
    bool ok = rows;
    for (uint64_t i = 0; ok && i < track.count; i++) {
        const kt_block *b = kt_block_at(s->trace, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS;
        if (b->kind[at] == KINETO_KIND_GPU_USER_ANNOTATION && b->form[at] == KINETO_FORM_SLICE &&
            has_work(s, stream, b->start_ns[at], b->end_ns[at]))
            ok = add_annotation(t, b->name[at], kb_length_ns(b->start_ns[at], b->end_ns[at]));
    }
    return ok;
}

static bool add_device(const ka_dataset *s, tallies *t)
{
    bool ok = true;
    if (s->definitions->device_ranges_are_slices)
        return add_slices(s, KINETO_KIND_GPU_USER_ANNOTATION, t);
    for (uint32_t i = 0; ok && i < s->stream_count; i++)
        ok = add_of_stream(s, &s->streams[i], t);
    return ok;
}

static void put_tally(const ka_dataset *s, ka_table *t, const char *where, const of_name *n,
                      const length *lengths)
{
    ka_put_int(t, s->rank);
    ka_put_text(t, kb_string(where));
    ka_put_text(t, ka_name(s, n->name));
    ka_put_tally(t, &n->tally);
    put_quantiles(lengths, n->tally.count, t);
}

static bool put_annotations_of(const ka_dataset *s, ka_table *t, bool device)
{
    tallies sums = {.place = calloc((size_t)s->name_count + 1, sizeof *sums.place)};
    bool ok = sums.place && (device ? add_device(s, &sums) : add_host(s, &sums));
    size_t first = 0;
    if (ok && sums.lengths.count)
        qsort(sums.lengths.data, sums.lengths.count, sizeof *sums.lengths.data, compare_lengths);
    for (size_t i = 0; ok && i < sums.list.count; i++) {
        put_tally(s, t, device ? "device" : "host", &sums.list.data[i], sums.lengths.data + first);
        first += sums.list.data[i].tally.count;
    }
    kb_vec_free(&sums.list);
    kb_vec_free(&sums.lengths);
    free(sums.place);
    return ok;
}

static bool put_annotations(const ka_dataset *s, ka_table *t)
{
    bool ok = put_annotations_of(s, t, false) && put_annotations_of(s, t, true);
    if (s->definitions->rows_by_name)
        KA_SORT(t, KA_DOWN(annotations, where), KA_UP(annotations, name));
    else
        KA_SORT(t, KA_DOWN(annotations, where), KA_DOWN(annotations, sum_us),
                KA_UP(annotations, name));
    if (!ka_table_rows(t))
        ka_note(t, "the program marked no ranges (%sNVTX ...)",
                ka_is_torch(s->trace) ? "torch.profiler.record_function, " : "KINETO_SCOPED, ");
    return ok;
}

/* ---- kernels_annotated: exact ---------------------------------------------------------------- */

typedef KB_VEC(uint32_t) indexes;

/* Annotations of a thread, and what launched work. */
static bool gather_annotations(const ka_dataset *s, const ka_thread *thread, indexes *list)
{
    bool ok = true;
    list->count = 0;
    for (uint32_t i = thread->first; ok && i < thread->first + thread->count; i++)
        if (s->slices[i].kind == KINETO_KIND_USER_ANNOTATION || s->slices[i].work_count)
            ok = kb_vec_push(list, i);
    return ok;
}

/* Walk in the order of starts: on top of the stack is what began last and goes on. */
static bool mark_free(const ka_dataset *s, const indexes *list, indexes *open, uint32_t *range_of)
{
    bool ok = true;
    open->count = 0;
    for (size_t i = 0; ok && i < list->count; i++) {
        const ka_slice *c = &s->slices[list->data[i]];
        while (open->count && s->slices[open->data[open->count - 1]].end_ns <= c->start_ns)
            open->count--;
        for (uint32_t k = 0; open->count && k < c->work_count; k++)
            range_of[s->launched[c->first_work + k]] = open->data[open->count - 1];
        if (c->kind == KINETO_KIND_USER_ANNOTATION)
            ok = kb_vec_push(open, list->data[i]);
    }
    return ok;
}

/* By work: the slice of its annotation. */
static bool mark_exact(const ka_dataset *s, uint32_t *range_of)
{
    indexes list = {0}, open = {0};
    bool ok = true;
    for (uint32_t i = 0; ok && i < s->thread_count; i++)
        ok = gather_annotations(s, &s->threads[i], &list) && mark_free(s, &list, &open, range_of);
    kb_vec_free(&list);
    kb_vec_free(&open);
    return ok;
}

/* ---- kernels_annotated: table ---------------------------------------------------------------- */

static bool any_range(const ka_dataset *s)
{
    uint32_t kind = s->definitions->device_ranges_are_slices ? KINETO_KIND_GPU_USER_ANNOTATION
                                                             : KINETO_KIND_USER_ANNOTATION;
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].kind == kind)
            return true;
    return false;
}

static void put_kernel(const ka_dataset *s, ka_table *t, const ka_work *w, uint32_t range)
{
    ka_put_int(t, s->rank);
    ka_put_text(t, ka_name(s, w->name));
    if (range == KA_NONE)
        ka_put_none(t);
    else
        ka_put_text(t, ka_name(s, s->slices[range].name));
    ka_put_ns(t, kb_length_ns(s->series_origin_ns, w->start_ns));
    ka_put_ns(t, ka_work_ns(w));
}

static bool put_kernels(const ka_dataset *s, ka_table *t)
{
    uint32_t *range_of = malloc(((size_t)s->work_count + 1) * sizeof *range_of);
    if (!range_of)
        return false;
    memset(range_of, 0xff, ((size_t)s->work_count + 1) * sizeof *range_of);
    bool (*attribute)(const ka_dataset *, uint32_t *) = s->definitions->attribute_annotations;
    bool ok = attribute ? attribute(s, range_of) : mark_exact(s, range_of);
    for (uint32_t i = 0; ok && i < s->work_count; i++)
        put_kernel(s, t, &s->work[s->by_time[i]], range_of[s->by_time[i]]);
    free(range_of);
    return ok;
}

/* Tables annotations (the host first, then devices, each by the most time) and
 * kernels_annotated. */
kineto_status ka_analyze_annotations(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *ranges = ka_table_of(a, KA_TABLE_annotations),
             *kernels = ka_table_of(a, KA_TABLE_kernels_annotated);
    bool ok = !ranges || put_annotations(s, ranges);
    if (kernels && !s->work_count)
        ka_note_no_device(kernels);
    else if (kernels && !any_range(s))
        ka_note(kernels, "the trace has no user annotations that work could belong to");
    else if (kernels)
        ok &= put_kernels(s, kernels);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
