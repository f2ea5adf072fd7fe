/* What is in the steps of one trace: how long things took in each of them, or in blocks of steps
 * that follow one another. */
#include "analyze/diff/diff.h"

#include "trace/change/steps.h"

/* ---- things --------------------------------------------------------------------------------- */

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
    if (index == KA_NONE || values > UINT32_MAX - KA_MOST_BLOCKS ||
        !kb_vec_reserve(&side->values, values + side->block_count) ||
        !kb_vec_push(&side->things, x)) {
        side->no_memory = true;
        return KA_NONE;
    }
    memset(side->values.data + values, 0, side->block_count * sizeof *side->values.data);
    side->values.count += side->block_count;
    return index;
}

int32_t ka_block_at(const ka_side *side, int32_t step)
{
    return side->no_steps ? 0 : step < 0 ? -1 : side->block_of[step];
}

static void add(ka_side *side, uint32_t thing, int32_t block, int64_t ns)
{
    ka_thing *x = &side->things.data[thing];
    double us = ka_us(ns);
    x->sum += us;
    side->values.data[x->values + (uint32_t)block] += us;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static int compare_numbers(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static bool is_of_ranks(const ka_scope *s, const ka_durations *d)
{
    for (uint32_t i = 1; i < d->count; i++)
        if (s->steps[d->step[i]].process != s->steps[d->step[0]].process)
            return true;
    return false;
}

/* Ranks take a step together: theirs are one, by its number. Receives the numbers there are. */
static uint64_t *number_steps(ka_side *side)
{
    const ka_durations *d = &side->durations;
    uint32_t count = d->count - d->warm_up, kept = 0;
    bool ranks = is_of_ranks(&side->m.scope, d);
    uint64_t *numbers = malloc(((size_t)count + 1) * sizeof *numbers);
    for (uint32_t i = 0; numbers && i < count; i++)
        numbers[i] = ranks ? side->m.scope.steps[d->step[d->warm_up + i]].number : i;
    if (numbers)
        qsort(numbers, count, sizeof *numbers, compare_numbers);
    for (uint32_t i = 0; numbers && i < count; i++)
        if (!kept || numbers[i] != numbers[kept - 1])
            numbers[kept++] = numbers[i];
    side->of_ranks = ranks;
    side->step_count = kept;
    return numbers;
}

/* As many in each block as can be. */
static void fill_blocks(ka_side *side, const uint64_t *numbers)
{
    const ka_durations *d = &side->durations;
    for (uint32_t i = d->warm_up; i < d->count; i++) {
        uint64_t place = i - d->warm_up, number = side->m.scope.steps[d->step[i]].number;
        if (side->of_ranks)
            place = (uint64_t)((const uint64_t *)bsearch(&number, numbers, side->step_count,
                                                         sizeof *numbers, compare_numbers) -
                               numbers);
        uint32_t block = (uint32_t)(place * side->block_count / side->step_count);
        side->block_of[d->step[i]] = (int32_t)block;
        side->block_steps[block]++;
    }
}

static bool make_blocks(ka_side *side, const uint64_t *numbers)
{
    const ka_scope *s = &side->m.scope;
    side->block_count = KB_MIN(side->step_count, KA_MOST_BLOCKS);
    side->block_of = malloc(((size_t)s->step_count + 1) * sizeof *side->block_of);
    side->block_steps = calloc(side->block_count, sizeof *side->block_steps);
    if (!side->block_of || !side->block_steps)
        return false;
    for (uint32_t i = 0; i < s->step_count; i++)
        side->block_of[i] = -1;
    if (side->no_steps)
        side->block_steps[0] = 1;
    else
        fill_blocks(side, numbers);
    return true;
}

static bool find_steps(ka_side *side)
{
    if (!ka_durations_make(&side->durations, &side->m.scope))
        return false;
    side->no_steps = !side->durations.count;
    side->is_empty =
        side->no_steps && kb_length_ns(side->m.scope.start_ns, side->m.scope.end_ns) <= 0;
    side->warm_up = side->durations.warm_up;
    side->span_count = side->no_steps ? 1 : side->durations.count - side->warm_up;
    uint64_t *numbers = number_steps(side);
    side->step_count = KB_MAX(side->step_count, 1u);
    bool ok = numbers && make_blocks(side, numbers);
    free(numbers);
    return ok;
}

static void take_steps(ka_side *side)
{
    const ka_scope *s = &side->m.scope;
    uint32_t step = ka_new_thing(side, KA_THING_STEP, kb_string("step"), kb_string(""));
    if (step == KA_NONE)
        return;
    if (side->no_steps)
        add(side, step, 0, kb_length_ns(s->start_ns, s->end_ns));
    for (uint32_t i = 0; i < s->step_count; i++)
        if (side->block_of[i] >= 0)
            add(side, step, side->block_of[i],
                kb_length_ns(s->steps[i].start_ns, s->steps[i].end_ns));
    side->things.data[step].count = side->step_count;
}

/* The table of steps has a row for each of the durations, or one for all. */
static void take_parts(ka_side *side)
{
    const ka_table *t = &side->m.facts->tables[KA_TABLE_steps];
    uint64_t rows = ka_table_rows(t);
    for (uint32_t c = 3; c < t->column_count; c++) {
        kineto_string name = t->columns[c].name;
        bool whole = kb_string_equal(name, kb_string("dur_us"));
        name.size -= 3; /* _us */
        uint32_t part = ka_new_thing(side, whole ? KA_THING_STEP : KA_THING_PART,
                                     whole ? kb_string("step with its work") : name, kb_string(""));
        for (uint64_t r = 0; r < rows && part != KA_NONE; r++) {
            int32_t block = side->no_steps              ? 0
                            : r < side->durations.count ? side->block_of[side->durations.step[r]]
                                                        : -1;
            if (block >= 0)
                add(side, part, block, ka_cell_at(t, r, c).i);
        }
    }
}

/* ---- operators and calls -------------------------------------------------------------------- */

typedef struct hosts {
    ka_side *side;
    uint32_t *op_of;   /* by slice: the operator or call it is, or is in; KA_NONE */
    int64_t *own;      /* by slice */
    uint32_t *by_name; /* thing of a name; KA_NONE */
    kb_intern keys;    /* of names with shapes … */
    KB_VEC(uint32_t) by_key;
} hosts;

/* Steps of old traces are operators, with a number in their names. */
static bool is_counted(const ka_scope *s, uint32_t i)
{
    const ka_slice *slice = &s->slices[i];
    if (slice->kind != KINETO_KIND_CPU_OP)
        return kt_kind_is_launch(slice->kind);
    return !(slice->step >= 0 && s->steps[slice->step].slice == i) &&
           !ka_is_step(s, i);
}

static void measure_own(hosts *h)
{
    const ka_scope *s = &h->side->m.scope;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint32_t parent = s->slices[i].parent;
        uint32_t around = parent == KA_NONE ? KA_NONE : h->op_of[parent];
        h->own[i] = ka_slice_ns(&s->slices[i]);
        h->op_of[i] = is_counted(s, i) ? i : around;
        if (h->op_of[i] == i && around != KA_NONE)
            h->own[around] = ka_add_ns(h->own[around], -h->own[i]);
    }
}

static uint32_t new_operator(hosts *h, const ka_slice *slice, kineto_string shapes)
{
    ka_side *side = h->side;
    const char *copy = shapes.size ? kb_arena_copy(&side->texts, shapes.data, shapes.size) : "";
    side->no_memory |= !copy;
    if (!copy)
        return KA_NONE;
    uint32_t thing = ka_new_thing(side, KA_THING_OPERATOR, ka_name(&side->m.scope, slice->name),
                                  (kineto_string){copy, shapes.size});
    if (thing != KA_NONE)
        side->things.data[thing].activity = slice->kind;
    return thing;
}

static kineto_string shapes_of(const ka_scope *s, const ka_slice *slice)
{
    kineto_string shapes = ka_input_sizes(s->trace, slice->row);
    shapes.size = KB_MIN(shapes.size, (size_t)1000);
    return shapes;
}

static uint32_t operator_with_shapes(hosts *h, const ka_slice *slice)
{
    char key[1016];
    kineto_string shapes = shapes_of(&h->side->m.scope, slice);
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

static uint32_t operator_of(hosts *h, const ka_slice *slice)
{
    if (h->side->with_shapes && slice->kind == KINETO_KIND_CPU_OP)
        return operator_with_shapes(h, slice);
    if (h->by_name[slice->name] == KA_NONE)
        h->by_name[slice->name] = new_operator(h, slice, (kineto_string){"", 0});
    return h->by_name[slice->name];
}

static void take_operators(hosts *h)
{
    const ka_scope *s = &h->side->m.scope;
    for (uint32_t i = 0; i < s->slice_count && !h->side->no_memory; i++) {
        int32_t block = ka_block_at(h->side, s->slices[i].step);
        if (h->op_of[i] != i || block < 0)
            continue;
        uint32_t thing = operator_of(h, &s->slices[i]);
        if (thing == KA_NONE)
            return;
        h->side->things.data[thing].count++;
        add(h->side, thing, block, KB_MAX(h->own[i], 0));
    }
}

/* ---- work of devices ------------------------------------------------------------------------ */

typedef struct devices {
    uint32_t *kernel; /* thing of a name */
    uint32_t *places; /* by slice: how much work of an operator came already */
    uint32_t type[KA_TYPE_COUNT], family[KA_FAMILY_COUNT];
} devices;

static uint32_t kernel_of(ka_side *side, devices *d, const ka_work *w)
{
    const ka_scope *s = &side->m.scope;
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

static void add_to(ka_side *side, uint32_t *known, uint8_t kind, const char *name, int32_t block,
                   int64_t ns)
{
    if (*known == KA_NONE)
        *known = ka_new_thing(side, kind, kb_string(name), (kineto_string){"", 0});
    if (*known == KA_NONE)
        return;
    side->things.data[*known].count++;
    add(side, *known, block, ns);
}

/* The operator that launched work: not the call, if there is one around it. */
static uint32_t launcher(const hosts *h, const ka_work *w)
{
    const ka_scope *s = &h->side->m.scope;
    uint32_t slice = w->call == KA_NONE ? KA_NONE : h->op_of[w->call];
    while (slice != KA_NONE && s->slices[slice].kind != KINETO_KIND_CPU_OP)
        slice = s->slices[slice].parent == KA_NONE ? KA_NONE : h->op_of[s->slices[slice].parent];
    return slice;
}

static void take_one(hosts *h, devices *d, const ka_work *w)
{
    ka_side *side = h->side;
    int32_t block = ka_block_at(side, w->step);
    uint32_t op = launcher(h, w), place = op == KA_NONE ? 0 : d->places[op]++;
    const ka_class *class = &side->m.scope.class_of[w->name];
    uint32_t thing = block < 0 ? KA_NONE : kernel_of(side, d, w);
    if (thing == KA_NONE)
        return;
    ka_thing *x = &side->things.data[thing];
    if (!x->count++) {
        x->op = op;
        x->place = place;
    }
    add(side, thing, block, ka_work_ns(w));
    add_to(side, &d->type[class->type], KA_THING_TYPE, ka_type_name(class->type), block,
           ka_work_ns(w));
    add_to(side, &d->family[class->family], KA_THING_FAMILY, ka_family_name(class->family), block,
           ka_work_ns(w));
    if (op != KA_NONE && !side->no_memory) {
        uint32_t its = operator_of(h, &side->m.scope.slices[op]);
        if (its != KA_NONE)
            side->things.data[its].device += ka_us(ka_work_ns(w));
    }
}

static bool take_work(hosts *h)
{
    const ka_scope *s = &h->side->m.scope;
    devices d = {.kernel = malloc(((size_t)s->name_count + 1) * sizeof *d.kernel),
                 .places = calloc((size_t)s->slice_count + 1, sizeof *d.places)};
    bool ok = d.kernel && d.places;
    if (ok)
        memset(d.kernel, 0xff, ((size_t)s->name_count + 1) * sizeof *d.kernel);
    memset(d.type, 0xff, sizeof d.type);
    memset(d.family, 0xff, sizeof d.family);
    for (uint32_t i = 0; ok && i < s->work_count && !h->side->no_memory; i++)
        take_one(h, &d, &s->work[s->by_time[i]]);
    free(d.kernel);
    free(d.places);
    return ok;
}

static bool take_activities(ka_side *side)
{
    const ka_scope *s = &side->m.scope;
    hosts h = {.side = side,
               .op_of = malloc(((size_t)s->slice_count + 1) * sizeof *h.op_of),
               .own = malloc(((size_t)s->slice_count + 1) * sizeof *h.own),
               .by_name = malloc(((size_t)s->name_count + 1) * sizeof *h.by_name)};
    bool ok = h.op_of && h.own && h.by_name;
    if (ok) {
        memset(h.by_name, 0xff, ((size_t)s->name_count + 1) * sizeof *h.by_name);
        measure_own(&h);
        take_operators(&h);
        ok = take_work(&h);
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
static void make_means(ka_side *side)
{
    for (size_t i = 0; i < side->things.count; i++) {
        const ka_thing *x = &side->things.data[i];
        for (uint32_t b = 0; b < side->block_count && x->kind < KA_THING_MEMORY; b++)
            side->values.data[x->values + b] /= KB_MAX(side->block_steps[b], 1u);
    }
}

kineto_status ka_side_make(const kineto_trace *trace, const kineto_diff_options *options,
                           const kineto_analyze_options *how, ka_side *side, kineto_error *err)
{
    kineto_analyze_options o = *how;
    *side = (ka_side){.with_shapes = options->shapes};
    o.tables = "steps";
    o.series = false;
    kineto_status status = ka_measure(trace, &o, &side->m, err);
    if (status)
        return status;
    bool ok = find_steps(side);
    if (ok) {
        take_steps(side);
        take_parts(side);
        ok = take_activities(side);
    }
    if (ok) {
        make_means(side);
        ok = ka_side_take_samples(side);
    }
    if (!ok || side->no_memory)
        return kb_fail(err, KINETO_E_MEMORY, "no memory to compare two traces");
    return KINETO_OK;
}

void ka_side_free(ka_side *side)
{
    ka_durations_free(&side->durations);
    free(side->block_of);
    free(side->block_steps);
    kb_vec_free(&side->things);
    kb_vec_free(&side->values);
    kb_vec_free(&side->samples);
    kb_arena_free(&side->texts);
    ka_measured_free(&side->m);
}
