/* Fills a dataset by the exact definitions, track by track: work of streams, slices of threads, steps,
 * the calls that launched work, and then the choice of steps. Tracks list their rows in the order of
 * (start, longer first, row), so all that encloses a slice is there before it. */
#include "analyze/dataset/attribution.h"
#include "analyze/dataset/dataset.h"

#include "trace/transform/select.h"

#include <ckineto/files.h>

typedef struct filling {
    ka_dataset *s;
    ka_dataset_memory *m;
    const kineto_trace *t;
    const kineto_analysis_options *options;
    uint32_t *index_of_row; /* of work or slices; KA_NONE */
    uint32_t *own_steps;    /* indexes of steps by (process, start) … */
    uint32_t *first_own;    /* … and by process: where its own begin */
    bool no_memory;
} filling;

/* Of the rows that have a text for a name, not the spans of a profiler. */
static bool is_host_kind(uint32_t kind, uint32_t type)
{
    uint64_t host =
        KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION) |
        KINETO_KIND_BIT(KINETO_KIND_RUNTIME) | KINETO_KIND_BIT(KINETO_KIND_DRIVER) |
        KINETO_KIND_BIT(KINETO_KIND_PYTHON_FUNCTION) | KINETO_KIND_BIT(KINETO_KIND_OVERHEAD) |
        KINETO_KIND_BIT(KINETO_KIND_MTIA_INSIGHT) | KINETO_KIND_BIT(KINETO_KIND_MPI);
    if (type == KINETO_TRACK_THREAD)
        host |= KINETO_KIND_BIT(KINETO_KIND_COLLECTIVE_COMM);
    if (type == KINETO_TRACK_OTHER)
        host &= ~KINETO_KIND_BIT(KINETO_KIND_OVERHEAD);
    return kind < 64 && (host >> kind & 1);
}

typedef struct columns {
    const kt_block *block;
    uint32_t i;
} columns;

/* The block of a row and its index in it. */
static columns block_of_row(const filling *f, kineto_row row)
{
    return (columns){kt_block_at(f->t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS};
}

/* ---- work ---------------------------------------------------------------------------------------------- */

/* Appends work of the stream under way; `call` and `step` are set later. */
static void append_track_work(filling *f, uint32_t stream, kineto_row row, columns c)
{
    ka_work w = {.start_ns = c.block->start_ns[c.i],
                 .end_ns = c.block->end_ns[c.i],
                 .row = row,
                 .stream = stream,
                 .call = KA_NONE,
                 .step = -1};
    f->index_of_row[row] = (uint32_t)f->m->work.count;
    f->no_memory |= !ka_dataset_put_work(f->m, f->t, w);
}

/* A stream without work yet. */
static ka_stream stream_of(const filling *f, uint32_t track, const kineto_track *info)
{
    int64_t device = -1;
    (void)kt_track_device(f->t, track, &device);
    return (ka_stream){.track = track,
                       .process = kt_device_process(f->t, info->process),
                       .device = device,
                       .id = info->id,
                       .first = (uint32_t)f->m->work.count};
}

/* Appends the work of a track; a stream without any is not kept. */
static void add_track_work(filling *f, uint32_t track, const kineto_track *info,
                           const kineto_row *rows)
{
    ka_stream stream = stream_of(f, track, info);
    if (!ka_stream_wanted(f->options, info->id))
        return;
    for (uint64_t i = 0; i < info->count; i++) {
        columns c = block_of_row(f, rows[i]);
        if (kt_kind_is_work(c.block->kind[c.i]) && c.block->form[c.i] == KINETO_FORM_SLICE)
            append_track_work(f, (uint32_t)f->m->streams.count, rows[i], c);
    }
    stream.count = (uint32_t)f->m->work.count - stream.first;
    if (stream.count)
        f->no_memory |= !kb_vec_push(&f->m->streams, stream);
}

/* ---- slices --------------------------------------------------------------------------------------------- */

/* The innermost enclosing range that is a slice of the same thread; KA_NONE: there is none. */
static uint32_t find_parent_slice(const filling *f, kineto_row row, uint32_t thread)
{
    for (kineto_row p = kineto_trace_parent(f->t, row); p != KINETO_NO_ROW;
         p = kineto_trace_parent(f->t, p)) {
        uint32_t index = f->index_of_row[p];
        if (index != KA_NONE && index < f->m->slices.count && f->m->slices.data[index].row == p &&
            f->m->slices.data[index].thread == thread)
            return index;
    }
    return KA_NONE;
}

/* Appends a slice of the thread under way. Its parent is there already. */
static void append_track_slice(filling *f, uint32_t thread, kineto_row row, columns c)
{
    ka_slice s = {.start_ns = c.block->start_ns[c.i],
                  .end_ns = c.block->end_ns[c.i],
                  .row = row,
                  .thread = thread,
                  .parent = find_parent_slice(f, row, thread),
                  .step = -1};
    f->index_of_row[row] = (uint32_t)f->m->slices.count;
    f->no_memory |= !ka_dataset_put_slice(f->m, f->t, s);
}

/* Appends the slices of a track; a thread without any is not kept. */
static void add_track_slices(filling *f, uint32_t track, const kineto_track *info,
                             const kineto_row *rows)
{
    ka_thread thread = {.track = track,
                        .process = info->process,
                        .id = info->id,
                        .first = (uint32_t)f->m->slices.count};
    for (uint64_t i = 0; i < info->count; i++) {
        columns c = block_of_row(f, rows[i]);
        if (is_host_kind(c.block->kind[c.i], info->type) && c.block->form[c.i] == KINETO_FORM_SLICE)
            append_track_slice(f, (uint32_t)f->m->threads.count, rows[i], c);
    }
    thread.count = (uint32_t)f->m->slices.count - thread.first;
    if (thread.count)
        f->no_memory |= !kb_vec_push(&f->m->threads, thread);
}

/* Rows that others name by texts are threads to us. */
static bool holds_ranges(const kineto_track *info)
{
    return info->type == KINETO_TRACK_THREAD || info->type == KINETO_TRACK_OTHER;
}

/* Room for all at once: what grows is moved, into memory that was never touched. */
static void reserve_rows(filling *f)
{
    size_t slices = 0, works = 0;
    for (uint32_t i = 0; i < kineto_trace_track_count(f->t); i++) {
        kineto_track info;
        kineto_trace_track(f->t, i, &info);
        slices += holds_ranges(&info) ? info.count : 0;
        works += info.type == KINETO_TRACK_STREAM ? info.count : 0;
    }
    f->no_memory |= !kb_vec_reserve(&f->m->slices, slices) || !kb_vec_reserve(&f->m->work, works);
}

/* Each track may have both, work and slices, whatever its type says. */
static void add_tracks(filling *f)
{
    reserve_rows(f);
    for (uint32_t i = 0; i < kineto_trace_track_count(f->t) && !f->no_memory; i++) {
        kineto_track info;
        kineto_trace_track(f->t, i, &info);
        const kineto_row *rows = kineto_trace_track_rows(f->t, i);
        if (!info.count || !(holds_ranges(&info) || info.type == KINETO_TRACK_STREAM))
            continue;
        f->no_memory |= !rows;
        if (!rows)
            return;
        add_track_work(f, i, &info, rows);
        add_track_slices(f, i, &info, rows);
    }
}

/* ---- steps ----------------------------------------------------------------------------------------------- */

/* A profiler may write a step as an operator and as an annotation, one right inside the other:
 * index of the step that a range only repeats; -1: none. */
#define MAX_REPEATED 8
static int32_t step_repeated(const filling *f, const ka_slice *s, uint64_t number)
{
    const ka_slice *slices = f->m->slices.data;
    uint32_t around = s->parent;
    for (int n = 0; n < MAX_REPEATED && around != KA_NONE; n++, around = slices[around].parent) {
        if (slices[around].start_ns != s->start_ns || slices[around].end_ns != s->end_ns)
            break;
        if (slices[around].step >= 0 && f->m->steps.data[slices[around].step].number == number)
            return slices[around].step;
    }
    return -1;
}

/* Of two rows of one step the annotation counts. Until steps are given to what is in them, `step`
 * of a slice says which step it is itself. */
static void note_step(filling *f, uint32_t slice, uint64_t number)
{
    ka_slice *s = &f->m->slices.data[slice];
    ka_step step = {s->start_ns, s->end_ns, number, slice, f->m->threads.data[s->thread].process};
    int32_t known = step_repeated(f, s, number);
    s->step = known >= 0 ? known : (int32_t)f->m->steps.count;
    if (known < 0)
        f->no_memory |= !kb_vec_push(&f->m->steps, step);
    else if (s->kind == KINETO_KIND_USER_ANNOTATION)
        f->m->steps.data[known].slice = slice;
}

/* Where functions of Python are recorded, PyTorch (2.5, say) cuts the beginning of a step off: what
 * is left of it lies in the call of the profiler's step() that ended it. */
static bool is_cut(const filling *f, const ka_step *step)
{
    uint32_t around = f->m->slices.data[step->slice].parent;
    if (around == KA_NONE || f->m->slices.data[around].kind != KINETO_KIND_PYTHON_FUNCTION)
        return false;
    kineto_string name = kineto_trace_string(f->t, f->m->slices.data[around].name);
    return name.size > 6 && memcmp(name.data + name.size - 6, ": step", 6) == 0;
}

/* Steps of one thread that were all cut begin where the one before ended, the first one with its
 * thread.
 */
static void restore_cut_steps(filling *f)
{
    ka_step *steps = f->m->steps.data;
    for (size_t first = 0, end; first < f->m->steps.count; first = end) {
        uint32_t thread = f->m->slices.data[steps[first].slice].thread;
        bool all = true;
        for (end = first;
             end < f->m->steps.count && f->m->slices.data[steps[end].slice].thread == thread; end++)
            all = all && is_cut(f, &steps[end]);
        for (size_t i = end - 1; all && i > first; i--)
            steps[i].start_ns = KB_MIN(steps[i].start_ns, steps[i - 1].end_ns);
        int64_t begins = f->m->slices.data[f->m->threads.data[thread].first].start_ns;
        if (all)
            steps[first].start_ns = KB_MIN(steps[first].start_ns, begins);
    }
}

/* Collects the steps among the slices, in the order of starts. */
static void find_step_slices(filling *f)
{
    for (uint32_t i = 0; i < f->m->slices.count && !f->no_memory; i++) {
        const ka_slice *s = &f->m->slices.data[i];
        const kt_step_row *step = kt_step_list_find(&f->m->step_rows, s->row, s->name);
        if (step)
            note_step(f, i, step->number);
    }
    if (!f->no_memory)
        restore_cut_steps(f);
    if (f->m->steps.count)
        qsort(f->m->steps.data, f->m->steps.count, sizeof *f->m->steps.data, ka_compare_steps);
}

/* Each process has steps of its own, also where several were merged into one trace. */
static bool group_steps_by_process(filling *f)
{
    const ka_step *steps = f->m->steps.data;
    size_t count = f->m->steps.count, processes = (size_t)kineto_trace_process_count(f->t) + 1;
    f->own_steps = malloc((count + 1) * sizeof *f->own_steps);
    f->first_own = calloc(processes + 1, sizeof *f->first_own);
    if (!f->own_steps || !f->first_own)
        return false;
    for (size_t i = 0; i < count; i++)
        f->first_own[steps[i].process + 1]++;
    for (size_t p = 1; p <= processes; p++)
        f->first_own[p] += f->first_own[p - 1];
    /* Filling moves each beginning to the end, which is the next one's beginning. */
    for (size_t i = 0; i < count; i++)
        f->own_steps[f->first_own[steps[i].process]++] = (uint32_t)i;
    memmove(f->first_own + 1, f->first_own, processes * sizeof *f->first_own);
    f->first_own[0] = 0;
    return true;
}

/* The step at a place of own_steps. */
static const ka_step *own_step(const filling *f, uint32_t place)
{
    return &f->m->steps.data[f->own_steps[place]];
}

/* The last step of its process that began before and has not ended; *hint: where the answer before
 * stood. */
#define MAX_OPEN_STEPS 64u
static int32_t step_of_process_at(const filling *f, uint32_t process, int64_t ns, uint32_t *hint)
{
    uint32_t first = f->first_own[process], end = f->first_own[process + 1], after = first;
    if (*hint >= first && *hint < end && own_step(f, *hint)->start_ns <= ns &&
        ns < own_step(f, *hint)->end_ns &&
        (*hint + 1 == end || own_step(f, *hint + 1)->start_ns > ns))
        return (int32_t)f->own_steps[*hint];
    KB_LOWER_BOUND(after, end, own_step(f, after)->start_ns <= ns);
    for (uint32_t i = after; i-- > first && after - i < MAX_OPEN_STEPS;)
        if (ns < own_step(f, i)->end_ns)
            return (int32_t)f->own_steps[*hint = i];
    return -1;
}

/* Sets `step` of all slices. Consecutive slices mostly share a step, hence the hint. */
static void give_steps(filling *f)
{
    uint32_t hint = 0;
    if (!f->m->steps.count)
        return;
    f->no_memory |= !group_steps_by_process(f);
    for (uint32_t i = 0; !f->no_memory && i < f->m->slices.count; i++) {
        ka_slice *s = &f->m->slices.data[i];
        s->step = step_of_process_at(f, f->m->threads.data[s->thread].process, s->start_ns, &hint);
    }
}

/* ---- what launched what ------------------------------------------------------------------------------------ */

/* Sets `call` of work by the launch that the trace knows, and its step by the call. */
static void link_work_to_calls(filling *f)
{
    for (uint32_t i = 0; i < f->m->work.count; i++) {
        ka_work *w = &f->m->work.data[i];
        kineto_row launch = kineto_trace_launch(f->t, w->row);
        if (launch == KINETO_NO_ROW || f->index_of_row[launch] == KA_NONE)
            continue;
        w->call = f->index_of_row[launch];
        w->step = f->m->slices.data[w->call].step;
    }
}

/* ---- the chosen ones ------------------------------------------------------------------------------------------ */

typedef struct choice {
    uint32_t how;
    int64_t before_ns; /* DROP_LAST: of processes that have no steps */
    uint64_t first, last;
} choice;

/* Where the last step of a process begins, if it has several. */
static int64_t last_begins(const filling *f, uint32_t process, int64_t otherwise)
{
    uint32_t first = f->first_own[process], end = f->first_own[process + 1];
    if (first == end)
        return otherwise;
    const ka_step *last = own_step(f, end - 1);
    return own_step(f, first)->number != last->number ? last->start_ns : INT64_MAX;
}

/* Is something of this process, start and step among the selected steps? */
static bool is_in_choice(const filling *f, const choice *c, uint32_t process, int64_t start_ns,
                         int32_t step)
{
    if (c->how == KINETO_STEPS_DROP_LAST)
        return start_ns < last_begins(f, process, c->before_ns);
    return step >= 0 && f->m->steps.data[step].number >= c->first &&
           f->m->steps.data[step].number <= c->last;
}

/* The latest that one begins, of those that are dropped; INT64_MAX: none is. */
static int64_t last_of_all(const filling *f)
{
    int64_t latest = INT64_MIN;
    for (uint32_t p = 0; f->m->steps.count && p < kineto_trace_process_count(f->t); p++) {
        int64_t begins = last_begins(f, p, INT64_MAX);
        latest = begins == INT64_MAX ? latest : KB_MAX(latest, begins);
    }
    return latest == INT64_MIN ? INT64_MAX : latest;
}

/* Checks the options against the steps that there are. KINETO_E_NOT_FOUND: a range without
 * steps. */
static kineto_status choice_of(const filling *f, choice *c, kineto_error *err)
{
    const ka_step *steps = f->m->steps.data;
    size_t count = f->m->steps.count, found = 0;
    *c = (choice){
        .how = f->options->steps, .first = f->options->first_step, .last = f->options->last_step};
    if (c->how == KINETO_STEPS_DROP_LAST)
        c->before_ns = last_of_all(f);
    for (size_t i = 0; i < count && c->how == KINETO_STEPS_RANGE; i++)
        found += steps[i].number >= c->first && steps[i].number <= c->last;
    if (c->how == KINETO_STEPS_RANGE && !count)
        return kt_fail_no_steps(f->options->step_pattern, err);
    if (c->how == KINETO_STEPS_RANGE && !found)
        return kb_fail(err, KINETO_E_NOT_FOUND, "no %s is in the trace, which has steps %llu..%llu",
                       kt_format_step_range(c->first, c->last).s, (unsigned long long)steps[0].number,
                       (unsigned long long)steps[count - 1].number);
    return KINETO_OK;
}

/* Compacts the selected slices; `moved` receives the new index of each, KA_NONE of dropped ones. */
static void keep_slices(filling *f, const choice *c, uint32_t *moved)
{
    uint32_t kept = 0;
    for (uint32_t t = 0; t < f->m->threads.count; t++) {
        ka_thread *thread = &f->m->threads.data[t];
        uint32_t first = kept;
        for (uint32_t i = thread->first; i < thread->first + thread->count; i++) {
            ka_slice s = f->m->slices.data[i];
            moved[i] = KA_NONE;
            if (!is_in_choice(f, c, thread->process, s.start_ns, s.step))
                continue;
            while (s.parent != KA_NONE && moved[s.parent] == KA_NONE)
                s.parent = f->m->slices.data[s.parent].parent;
            s.parent = s.parent == KA_NONE ? KA_NONE : moved[s.parent];
            s.depth = s.parent == KA_NONE
                          ? 0
                          : (uint16_t)KB_MIN(f->m->slices.data[s.parent].depth + 1, UINT16_MAX);
            moved[i] = kept;
            f->m->slices.data[kept++] = s;
        }
        thread->first = first;
        thread->count = kept - first;
    }
    f->m->slices.count = kept;
}

/* Work stays with its call; work without a call by its own start and step. */
static void keep_work(filling *f, const choice *c, const uint32_t *moved)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < f->m->streams.count; i++) {
        ka_stream *stream = &f->m->streams.data[i];
        uint32_t first = kept;
        for (uint32_t j = stream->first; j < stream->first + stream->count; j++) {
            ka_work w = f->m->work.data[j];
            bool keep = w.call != KA_NONE ? moved[w.call] != KA_NONE
                                          : is_in_choice(f, c, stream->process, w.start_ns, w.step);
            if (!keep)
                continue;
            w.call = w.call == KA_NONE ? KA_NONE : moved[w.call];
            f->m->work.data[kept++] = w;
        }
        stream->first = first;
        stream->count = kept - first;
    }
    f->m->work.count = kept;
}

/* Drops slices and work that are not selected, and redirects all indexes of slices. */
static kineto_status drop_unselected(filling *f, kineto_error *err)
{
    choice c;
    kineto_status status = choice_of(f, &c, err);
    if (status || c.how == KINETO_STEPS_ALL || c.how == KINETO_STEPS_USUAL ||
        (c.how == KINETO_STEPS_DROP_LAST && c.before_ns == INT64_MAX))
        return status;
    uint32_t *moved = malloc((f->m->slices.count + 1) * sizeof *moved);
    if (!moved)
        return kb_fail_memory(err, NULL);
    keep_slices(f, &c, moved);
    keep_work(f, &c, moved);
    for (size_t i = 0; i < f->m->steps.count; i++)
        f->m->steps.data[i].slice = moved[f->m->steps.data[i].slice];
    free(moved);
    return KINETO_OK;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/* Fills everything in the order in which each part needs the previous ones. */
static kineto_status fill_from_tracks(filling *f, kineto_error *err)
{
    size_t rows = (size_t)kineto_trace_count(f->t);
    f->index_of_row = kb_array(rows + 1, sizeof *f->index_of_row);
    f->no_memory = !f->index_of_row || !kt_prepare(f->t, true, true);
    kineto_status status = KINETO_OK;
    if (!f->no_memory) {
        memset(f->index_of_row, 0xff, rows * sizeof *f->index_of_row);
        add_tracks(f);
        find_step_slices(f);
        give_steps(f);
        link_work_to_calls(f);
    }
    if (!f->no_memory)
        status = drop_unselected(f, err);
    free(f->index_of_row);
    free(f->own_steps);
    free(f->first_own);
    if (!status && f->no_memory)
        status = kb_fail_memory(err, NULL);
    return status;
}

kineto_status ka_dataset_fill(ka_dataset *s, kineto_error *err)
{
    filling f = {.s = s, .m = s->memory, .t = s->trace, .options = s->options};
    return fill_from_tracks(&f, err);
}

/* All of the trace, in nanoseconds, by this library's own formulas. */
const ka_definitions ka_exact_definitions = {
    .usual_steps = KINETO_STEPS_ALL,
    .fill_dataset = ka_dataset_fill,
    .fill_attribution = ka_attribution_fill,
    .is_eligible = ka_is_eligible,
    .no_operator_name = "",
    .shortest_copy_ns = 1,
    .diff_table = KA_TABLE_COUNT,
};
