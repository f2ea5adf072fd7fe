/* Measures one trace for a comparison: how long each thing (step, part, kernel, operator) took
 * in each step, or in up to KA_MAX_BLOCKS blocks of consecutive steps. Steps of several ranks
 * with one number are one step; steps of warm-up are left out. Without steps all of the trace is
 * one. */
#include "analyze/diff/diff.h"

#include "analyze/dataset/each_rank.h"
#include "trace/model/steps.h"

/* ---- things --------------------------------------------------------------------------------- */

/* Values of all blocks are appended with the thing, so `values + block` is always valid. */
uint32_t ka_new_thing(ka_side *side, uint8_t kind, kineto_string name, kineto_string detail)
{
    uint32_t index = (uint32_t)side->things.count;
    size_t values = side->values.count;
    ka_thing x = {.kind = kind,
                  .name = name,
                  .detail = detail,
                  .values = (uint32_t)values,
                  .value_count = side->block_count,
                  .order = index,
                  .op = KA_NONE,
                  .other = KA_NONE,
                  .how = ""};
    if (index == KA_NONE || values > UINT32_MAX - KA_MAX_BLOCKS ||
        !kb_vec_reserve(&side->values, values + side->block_count) ||
        !kb_vec_push(&side->things, x)) {
        side->no_memory = true;
        return KA_NONE;
    }
    memset(side->values.data + values, 0, side->block_count * sizeof *side->values.data);
    side->values.count += side->block_count;
    return index;
}

uint32_t ka_find_thing(ka_side *side, kb_intern *keys, kb_map *things, kineto_string key, uint8_t kind,
                       kineto_string name, kineto_string detail)
{
    uint32_t id = kb_intern_id(keys, key);
    uint64_t *known = id == KB_INTERN_NONE ? NULL : kb_map_insert(things, id, KA_NONE, NULL);
    side->no_memory |= !known;
    if (!known || *known != KA_NONE)
        return known ? (uint32_t)*known : KA_NONE;
    char *copies[2] = {kb_arena_copy(&side->texts, name.data, name.size),
                       kb_arena_copy(&side->texts, detail.data, detail.size)};
    side->no_memory |= !copies[0] || !copies[1];
    if (side->no_memory)
        return KA_NONE;
    *known = ka_new_thing(side, kind, (kineto_string){copies[0], name.size},
                          (kineto_string){copies[1], detail.size});
    return (uint32_t)*known;
}

int32_t ka_block_at(const ka_side *side, kineto_row row, int32_t step)
{
    if (side->no_steps)
        return side->has_rank && !side->has_rank[row] ? -1 : 0;
    return step < 0 ? -1 : side->block_of[step];
}

/* Adds to the sum of a block; blocks become means at the end (divide_by_steps). */
static void add_thing_time(ka_side *side, uint32_t thing, int32_t block, int64_t ns)
{
    ka_thing *x = &side->things.data[thing];
    double us = ka_us(ns);
    KB_ASSERT(block >= 0 && (uint32_t)block < side->block_count);
    x->sum += us;
    side->values.data[x->values + (uint32_t)block] += us;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Ranks take a step together: theirs are one, by its number. */
static uint64_t step_number_of(const ka_side *side, uint32_t i)
{
    return side->rank_count > 1 ? side->m.dataset.steps[side->durations.step[i]].number : i;
}

/* Add the numbers of the warm-up of a process, or of all steps. */
static bool add_warm_up(const ka_side *side, uint32_t process, kb_map *warm)
{
    ka_durations d;
    bool ok = ka_durations_make(&d, &side->m.dataset, process);
    for (uint32_t i = 0; ok && i < d.warm_up; i++)
        ok = kb_map_insert(warm, step_number_of(side, (uint32_t)side->durations.place[d.step[i]]),
                           1, NULL);
    ka_durations_free(&d);
    return ok;
}

/* The set of processes that have steps. False: out of memory. */
static bool list_processes(const ka_side *side, kb_map *processes)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < side->durations.count; i++)
        ok = kb_map_insert(processes, side->m.dataset.steps[side->durations.step[i]].process, 1,
                           NULL);
    return ok;
}

/* The numbers of steps that are warm-up on any rank: their clocks may differ, so it is found rank by rank. */
static bool find_warm_up(ka_side *side, kb_map *warm)
{
    uint32_t processes = kineto_trace_process_count(side->m.dataset.trace);
    kb_map with_steps = {0};
    bool ok = list_processes(side, &with_steps);
    side->rank_count = (uint32_t)with_steps.count;
    if (side->rank_count < 2)
        ok = ok && add_warm_up(side, KA_NONE, warm);
    for (uint32_t i = 0; ok && side->rank_count > 1 && i < processes; i++)
        ok = !kb_map_find(&with_steps, i) || add_warm_up(side, i, warm);
    kb_map_free(&with_steps);
    return ok;
}

/* The numbers of steps that are compared, in order. */
static uint64_t *number_steps(ka_side *side, const kb_map *warm)
{
    uint32_t count = side->durations.count, kept = 0;
    uint64_t *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    for (uint32_t i = 0; numbers && i < count; i++)
        if (!kb_map_find(warm, step_number_of(side, i)))
            numbers[side->span_count++] = step_number_of(side, i);
    if (numbers)
        qsort(numbers, side->span_count, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0; numbers && i < side->span_count; i++)
        if (!kept || numbers[i] != numbers[kept - 1])
            numbers[kept++] = numbers[i];
    side->step_count = side->no_steps ? 1 : kept;
    return numbers;
}

/* As many in each block as can be. */
static void fill_blocks(ka_side *side, const uint64_t *numbers)
{
    const ka_durations *d = &side->durations;
    for (uint32_t i = 0; i < d->count; i++) {
        uint64_t number = step_number_of(side, i);
        const uint64_t *found =
            bsearch(&number, numbers, side->step_count, sizeof *numbers, compare_numbers);
        if (!found)
            continue;
        uint32_t block =
            (uint32_t)((uint64_t)(found - numbers) * side->block_count / side->step_count);
        side->block_of[d->step[i]] = (int32_t)block;
        side->block_steps[block]++;
    }
}

/* All steps are left out (-1) until fill_blocks. */
static bool make_blocks(ka_side *side, const uint64_t *numbers)
{
    const ka_dataset *s = &side->m.dataset;
    side->block_count = KB_MIN(side->step_count, KA_MAX_BLOCKS);
    side->block_of = malloc(((size_t)s->step_count + 1) * sizeof *side->block_of);
    side->block_steps = calloc(side->block_count, sizeof *side->block_steps);
    if (!side->block_of || !side->block_steps)
        return false;
    for (uint32_t i = 0; i < s->step_count; i++)
        side->block_of[i] = -1;
    if (!side->no_steps)
        fill_blocks(side, numbers);
    return true;
}

/* Steps, warm-up and blocks. False: out of memory. */
static bool find_side_steps(ka_side *side)
{
    kb_map warm = {0};
    if (!ka_durations_make(&side->durations, &side->m.dataset, KA_NONE))
        return false;
    if (side->m.dataset.end_ns <= side->m.dataset.start_ns) /* threads and samples only */
        kineto_trace_window(side->m.dataset.trace, &side->m.dataset.start_ns, &side->m.dataset.end_ns);
    side->no_steps = !side->durations.count;
    side->is_empty =
        side->no_steps && kb_length_ns(side->m.dataset.start_ns, side->m.dataset.end_ns) <= 0;
    bool ok = find_warm_up(side, &warm);
    uint64_t *numbers = ok ? number_steps(side, &warm) : NULL;
    if (numbers && !side->step_count) { /* each is the first one of some rank */
        free(numbers);
        kb_map_free(&warm);
        numbers = number_steps(side, &warm);
    }
    ok = numbers && make_blocks(side, numbers);
    side->warm_up = (uint32_t)warm.count;
    kb_map_free(&warm);
    free(numbers);
    return ok;
}

/* Used to find findings in the same steps. */
bool ka_compared_steps(const ka_side *side, uint64_t *first, uint64_t *last)
{
    *first = UINT64_MAX;
    *last = 0;
    for (uint32_t i = 0; i < side->m.dataset.step_count; i++)
        if (side->block_of[i] >= 0) {
            *first = KB_MIN(*first, side->m.dataset.steps[i].number);
            *last = KB_MAX(*last, side->m.dataset.steps[i].number);
        }
    return !side->no_steps;
}

#define FIRST_PART 3u /* column of the table of steps; things: the step, then one for each column */

/* Thing 0 is the step; the others are the columns of the table of steps. */
static bool create_step_things(ka_side *side)
{
    const ka_table *t = &side->m.facts->tables[KA_TABLE_steps];
    (void)ka_new_thing(side, KA_THING_STEP, kb_string("step"), kb_string(""));
    for (uint32_t c = FIRST_PART; c < t->column_count; c++) {
        kineto_string name = t->columns[c].name;
        bool whole = kb_string_equal(name, kb_string("dur_us"));
        name.size -= 3; /* _us */
        (void)ka_new_thing(side, whole ? KA_THING_STEP : KA_THING_PART,
                           whole ? kb_string("step with its work") : name, kb_string(""));
    }
    for (uint32_t i = 0; !side->no_memory && i < 2; i++)
        side->things.data[i].count = side->step_count;
    return !side->no_memory;
}

/* Adds the cells of a row of the table of steps. */
static void add_parts(ka_side *side, const ka_table *t, uint64_t row, int32_t block)
{
    for (uint32_t c = FIRST_PART; c < t->column_count; c++)
        add_thing_time(side, c - FIRST_PART + 1, block, ka_cell_at(t, row, c).i);
    if (!side->no_steps)
        ka_add_call(side, 1, ka_us(ka_cell_at(t, row, FIRST_PART).i));
}

static void add_step_time(ka_side *side, uint32_t thing, int32_t block, double us)
{
    if (!side->no_steps)
        side->no_memory |= !kb_vec_push(&side->times[thing], (ka_step_time){us, (uint32_t)block});
}

static int compare_step_times(const void *left, const void *right)
{
    const ka_step_time *a = left, *b = right;
    if (a->us != b->us)
        return a->us < b->us ? -1 : 1;
    return (a->block > b->block) - (a->block < b->block);
}

/* Of several ranks, values are means of ranks, which single times are not. */
static void finish_step_times(ka_side *side)
{
    for (uint32_t i = 0; i < KB_COUNT(side->times); i++)
        if (side->times[i].count != side->step_count)
            side->times[i].count = 0;
        else if (side->times[i].count)
            qsort(side->times[i].data, side->times[i].count, sizeof *side->times[i].data, compare_step_times);
}

/* Adds a step, if it is compared, and its row of the table. */
static void add_step_times(ka_side *side, uint32_t index, uint64_t row)
{
    const ka_table *t = &side->m.facts->tables[KA_TABLE_steps];
    const ka_step *step = &side->m.dataset.steps[index];
    int32_t block = side->block_of[index];
    if (block < 0)
        return;
    double us = ka_us(kb_length_ns(step->start_ns, step->end_ns));
    add_thing_time(side, 0, block, kb_length_ns(step->start_ns, step->end_ns));
    ka_add_call(side, 0, us);
    add_step_time(side, 0, block, us);
    if (row >= ka_table_rows(t))
        return;
    add_parts(side, t, row, block);
    add_step_time(side, 1, block, ka_us(ka_cell_at(t, row, FIRST_PART).i));
}

/* The table of steps has a row for each of the durations, those of a process together. */
static void add_all_steps(ka_side *side)
{
    const ka_durations *d = &side->durations;
    const ka_step *steps = side->m.dataset.steps;
    kb_map seen = {0};
    uint64_t row = 0;
    for (uint32_t i = 0; i < d->count; i++) {
        uint32_t process = steps[d->step[i]].process;
        bool is_new = false;
        side->no_memory |= !kb_map_insert(&seen, process, 1, &is_new);
        for (uint32_t k = i; is_new && k < d->count; k++)
            if (steps[d->step[k]].process == process)
                add_step_times(side, d->step[k], row++);
    }
    kb_map_free(&seen);
}

/* ---- without steps: all of the trace is one, or all of each of its ranks --------------------- */

/* All of a trace, or of a rank, as one step. Threads and samples alone have no row in the table of steps:
 * all of it is in the last part. */
static void add_whole_trace(ka_side *side, const ka_measured *m)
{
    const ka_table *t = &m->facts->tables[KA_TABLE_steps];
    int64_t ns = kb_length_ns(m->dataset.start_ns, m->dataset.end_ns);
    add_thing_time(side, 0, 0, ns);
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        add_parts(side, t, row, 0);
    if (!ka_table_rows(t)) {
        add_thing_time(side, 1, 0, ns);
        add_thing_time(side, t->column_count - FIRST_PART, 0, ns);
    }
    side->block_steps[0]++;
    side->span_count++;
}

/* A rank of a trace without steps, measured by itself. */
static kineto_status add_rank_part(void *context, const kineto_trace *part, int32_t rank,
                                   const kineto_row *rows, kineto_error *err)
{
    ka_side *side = context;
    kineto_analysis_options how = side->m.options;
    ka_measured m;
    how.rank = &rank;
    kineto_status status = ka_measure(part, &how, &m, err);
    if (!status)
        add_whole_trace(side, &m);
    ka_measured_free(&m);
    for (kineto_row i = 0; i < kineto_trace_count(part); i++)
        side->has_rank[rows[i]] = 1;
    side->rank_count++;
    return status;
}

/* KINETO_E_MEMORY, or as ka_measure. */
static kineto_status add_all_ranks(ka_side *side, kineto_error *err)
{
    const kineto_trace *trace = side->m.dataset.trace;
    uint64_t without;
    side->has_rank = kb_array_zeroed((size_t)kineto_trace_count(trace) + 1, 1);
    if (!side->has_rank)
        return kb_fail_memory(err, "compare two traces");
    kineto_status status = ka_visit_ranks(trace, add_rank_part, side, &without, err);
    if (!side->rank_count) { /* none has an activity */
        free(side->has_rank);
        side->has_rank = NULL;
    }
    return status;
}

/* By steps, by ranks, or all at once. */
static kineto_status add_side_durations(ka_side *side, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    if (!side->no_steps)
        add_all_steps(side);
    else if (ka_has_ranks(side->m.dataset.trace))
        status = add_all_ranks(side, err);
    if (side->no_steps && !side->rank_count)
        add_whole_trace(side, &side->m);
    return status;
}

/* ---- operators and calls -------------------------------------------------------------------- */

/* Operators and calls by slice, and their things by name, or by name and shapes. */
typedef struct hosts {
    ka_side *side;
    uint32_t *op_of;   /* by slice: the operator or call it is, or is in; KA_NONE */
    int64_t *own;      /* by slice */
    uint32_t *by_name; /* thing of a name; KA_NONE */
    kb_intern keys;    /* of names with shapes … */
    KB_VEC(uint32_t) by_key;
} hosts;

/* Steps of old traces are operators, with a number in their names. */
static bool is_counted(const ka_dataset *s, uint32_t i)
{
    const ka_slice *slice = &s->slices[i];
    if (slice->kind != KINETO_KIND_CPU_OP)
        return kt_kind_is_launch(slice->kind);
    return !(slice->step >= 0 && s->steps[slice->step].slice == i) && !ka_is_step(s, i);
}

/* Exclusive times: without operators and calls inside. Parents come before what they enclose. */
static void measure_own(hosts *h)
{
    const ka_dataset *s = &h->side->m.dataset;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint32_t parent = s->slices[i].parent;
        uint32_t around = parent == KA_NONE ? KA_NONE : h->op_of[parent];
        h->own[i] = ka_slice_ns(&s->slices[i]);
        h->op_of[i] = is_counted(s, i) ? i : around;
        if (h->op_of[i] == i && around != KA_NONE)
            h->own[around] = ka_add_ns(h->own[around], -h->own[i]);
    }
}

/* A thing for an operator or call, with a copy of its shapes. KA_NONE: out of memory. */
static uint32_t new_operator(hosts *h, const ka_slice *slice, kineto_string shapes)
{
    ka_side *side = h->side;
    const char *copy = shapes.size ? kb_arena_copy(&side->texts, shapes.data, shapes.size) : "";
    side->no_memory |= !copy;
    if (!copy)
        return KA_NONE;
    uint32_t thing = ka_new_thing(side, KA_THING_OPERATOR, ka_name(&side->m.dataset, slice->name),
                                  (kineto_string){copy, shapes.size});
    if (thing != KA_NONE)
        side->things.data[thing].activity = slice->kind;
    return thing;
}

/* Cut at 1000 bytes. */
static kineto_string shapes_of(const ka_dataset *s, const ka_slice *slice)
{
    kineto_string shapes = ka_input_sizes(s->trace, slice->row);
    shapes.size = KB_MIN(shapes.size, (size_t)1000);
    return shapes;
}

/* The thing of an operator by name and shapes. */
static uint32_t operator_with_shapes(hosts *h, const ka_slice *slice)
{
    char key[1016];
    kineto_string shapes = shapes_of(&h->side->m.dataset, slice);
    memcpy(key, &slice->name, sizeof slice->name);
    memcpy(key + sizeof slice->name, shapes.data, shapes.size);
    uint32_t id = kb_intern_id(&h->keys, (kineto_string){key, sizeof slice->name + shapes.size});
    while (id != KB_INTERN_NONE && h->by_key.count <= id)
        if (!kb_vec_push(&h->by_key, KA_NONE))
            id = KB_INTERN_NONE;
    if (id == KB_INTERN_NONE) {
        h->side->no_memory = true;
        return KA_NONE;
    }
    if (h->by_key.data[id] == KA_NONE)
        h->by_key.data[id] = new_operator(h, slice, shapes);
    return h->by_key.data[id];
}

/* The thing of an operator or call, created when it is first met. */
static uint32_t operator_of(hosts *h, const ka_slice *slice)
{
    if (h->side->with_shapes && slice->kind == KINETO_KIND_CPU_OP)
        return operator_with_shapes(h, slice);
    if (h->by_name[slice->name] == KA_NONE)
        h->by_name[slice->name] = new_operator(h, slice, (kineto_string){"", 0});
    return h->by_name[slice->name];
}

/* Exclusive times of operators and calls, in the steps that are compared. */
static void add_side_operators(hosts *h)
{
    const ka_dataset *s = &h->side->m.dataset;
    for (uint32_t i = 0; i < s->slice_count && !h->side->no_memory; i++) {
        int32_t block = ka_block_at(h->side, s->slices[i].row, s->slices[i].step);
        if (h->op_of[i] != i || block < 0)
            continue;
        uint32_t thing = operator_of(h, &s->slices[i]);
        if (thing == KA_NONE)
            return;
        h->side->things.data[thing].count++;
        add_thing_time(h->side, thing, block, KB_MAX(h->own[i], 0));
        ka_add_call(h->side, thing, ka_us(KB_MAX(h->own[i], 0)));
    }
}

/* ---- work of devices ------------------------------------------------------------------------ */

/* Caches of things: by name of work, type and family. */
typedef struct devices {
    uint32_t *kernel; /* thing of a name */
    uint32_t *places; /* by slice: how much work of an operator came already */
    uint32_t type[KA_TYPE_COUNT], family[KA_FAMILY_COUNT];
} devices;

/* The thing of a name of work, created when it is first met. */
static uint32_t kernel_of(ka_side *side, devices *d, const ka_work *w)
{
    const ka_dataset *s = &side->m.dataset;
    if (d->kernel[w->name] != KA_NONE)
        return d->kernel[w->name];
    uint32_t thing =
        ka_new_thing(side, KA_THING_KERNEL, ka_name(s, w->name), (kineto_string){"", 0});
    if (thing == KA_NONE)
        return thing;
    side->things.data[thing].activity = w->kind;
    side->things.data[thing].family = s->class_of[w->name].family;
    return d->kernel[w->name] = thing;
}

/* Adds to a type or family of work; `known` caches its thing. */
static void add_to(ka_side *side, uint32_t *known, uint8_t kind, const char *name, int32_t block,
                   int64_t ns)
{
    if (*known == KA_NONE)
        *known = ka_new_thing(side, kind, kb_string(name), (kineto_string){"", 0});
    if (*known == KA_NONE)
        return;
    side->things.data[*known].count++;
    add_thing_time(side, *known, block, ns);
}

/* The operator that launched work: not the call, if there is one around it. */
static uint32_t launching_operator(const hosts *h, const ka_work *w)
{
    const ka_dataset *s = &h->side->m.dataset;
    uint32_t slice = w->call == KA_NONE ? KA_NONE : h->op_of[w->call];
    while (slice != KA_NONE && s->slices[slice].kind != KINETO_KIND_CPU_OP)
        slice = s->slices[slice].parent == KA_NONE ? KA_NONE : h->op_of[s->slices[slice].parent];
    return slice;
}

/* Adds a work to its kernel, type, family and operator. */
static void add_one_work(hosts *h, devices *d, const ka_work *w)
{
    ka_side *side = h->side;
    int32_t block = ka_block_at(side, w->row, w->step);
    uint32_t op = launching_operator(h, w), place = op == KA_NONE ? 0 : d->places[op]++;
    const ka_class *class = &side->m.dataset.class_of[w->name];
    uint32_t thing = block < 0 ? KA_NONE : kernel_of(side, d, w);
    if (thing == KA_NONE)
        return;
    ka_thing *x = &side->things.data[thing];
    if (!x->count++) {
        x->op = op;
        x->place = place;
    }
    add_thing_time(side, thing, block, ka_work_ns(w));
    ka_add_call(side, thing, ka_us(ka_work_ns(w)));
    add_to(side, &d->type[class->type], KA_THING_TYPE, ka_type_name(class->type), block,
           ka_work_ns(w));
    add_to(side, &d->family[class->family], KA_THING_FAMILY, ka_family_name(class->family), block,
           ka_work_ns(w));
    if (op != KA_NONE && !side->no_memory) {
        uint32_t its = operator_of(h, &side->m.dataset.slices[op]);
        if (its != KA_NONE)
            side->things.data[its].device += ka_us(ka_work_ns(w));
    }
}

/* False: out of memory. */
static bool add_side_work(hosts *h)
{
    const ka_dataset *s = &h->side->m.dataset;
    devices d = {.kernel = malloc(((size_t)s->name_count + 1) * sizeof *d.kernel),
                 .places = calloc((size_t)s->slice_count + 1, sizeof *d.places)};
    bool ok = d.kernel && d.places;
    if (ok)
        memset(d.kernel, 0xff, ((size_t)s->name_count + 1) * sizeof *d.kernel);
    memset(d.type, 0xff, sizeof d.type);
    memset(d.family, 0xff, sizeof d.family);
    for (uint32_t i = 0; ok && i < s->work_count && !h->side->no_memory; i++)
        add_one_work(h, &d, &s->work[s->by_time[i]]);
    free(d.kernel);
    free(d.places);
    return ok;
}

/* Operators first: work refers to them. */
static bool add_side_activities(ka_side *side)
{
    const ka_dataset *s = &side->m.dataset;
    hosts h = {.side = side,
               .op_of = malloc(((size_t)s->slice_count + 1) * sizeof *h.op_of),
               .own = malloc(((size_t)s->slice_count + 1) * sizeof *h.own),
               .by_name = malloc(((size_t)s->name_count + 1) * sizeof *h.by_name)};
    bool ok = h.op_of && h.own && h.by_name;
    if (ok) {
        memset(h.by_name, 0xff, ((size_t)s->name_count + 1) * sizeof *h.by_name);
        measure_own(&h);
        add_side_operators(&h);
        ok = add_side_work(&h);
    }
    free(h.op_of);
    free(h.own);
    free(h.by_name);
    kb_intern_free(&h.keys);
    kb_vec_free(&h.by_key);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Sums of blocks become means of their steps. */
static void divide_by_steps(ka_side *side)
{
    for (size_t i = 0; i < side->things.count; i++) {
        const ka_thing *x = &side->things.data[i];
        for (uint32_t b = 0; b < side->block_count && x->kind < KA_THING_MEMORY; b++)
            side->values.data[x->values + b] /= KB_MAX(side->block_steps[b], 1u);
    }
}

/* Measures the dataset with the table of steps only, then everything else from the dataset. */
kineto_status ka_side_make(const kineto_trace *trace, const kineto_diff_options *options,
                           const kineto_analysis_options *how, bool keeps_calls, ka_side *side, kineto_error *err)
{
    kineto_analysis_options o = *how;
    *side = (ka_side){.with_shapes = options->shapes, .keeps_calls = keeps_calls};
    o.tables = "steps,blocking_calls,openmp_regions,thread_path";
    o.series = false;
    kineto_status status = ka_measure(trace, &o, &side->m, err);
    if (status)
        return status;
    bool ok = find_side_steps(side) && create_step_things(side);
    if (ok)
        status = add_side_durations(side, err);
    if (status)
        return status;
    ok = ok && add_side_activities(side);
    uint32_t other = side->m.facts->tables[KA_TABLE_steps].column_count - FIRST_PART;
    if (ok && ka_side_add_threads(side) && ka_side_add_path(side, other)) {
        divide_by_steps(side);
        ka_finish_calls(side);
        finish_step_times(side);
        ok = ka_side_take_samples(side);
    }
    if (!ok || side->no_memory)
        return kb_fail_memory(err, "compare two traces");
    return KINETO_OK;
}

void ka_side_free(ka_side *side)
{
    ka_durations_free(&side->durations);
    free(side->block_of);
    free(side->block_steps);
    free(side->has_rank);
    free(side->runs);
    kb_vec_free(&side->things);
    kb_vec_free(&side->values);
    kb_vec_free(&side->samples);
    kb_vec_free(&side->calls);
    for (uint32_t i = 0; i < KB_COUNT(side->times); i++)
        kb_vec_free(&side->times[i]);
    kb_arena_free(&side->texts);
    ka_measured_free(&side->m);
}
