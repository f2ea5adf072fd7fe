/* Values that are sampled rather than timed: memory at its peak in each step, and means of
 * counters. Read from all rows of memory and counters of the trace, since these are not in the
 * dataset. */
#include "analyze/diff/diff.h"

/* The state of the walk over rows of memory and counters. */
typedef struct sampling {
    ka_side *side;
    kb_map things; /* of a device, or a counter and its series, to things */
    kb_map peaks;  /* of memory in a step, in bytes */
    kb_intern keys;
} sampling;

/* ---- steps by time -------------------------------------------------------------------------- */

/* The last step that began before and has not ended; -1. */
static int32_t step_of_side_at(const ka_side *side, int64_t ns)
{
    const ka_step *steps = side->m.dataset.steps;
    uint32_t after = 0;
    if (side->no_steps)
        return 0;
    KB_LOWER_BOUND(after, side->m.dataset.step_count, steps[after].start_ns <= ns);
    for (uint32_t i = after; i-- > 0 && after - i < 64;)
        if (ns < steps[i].end_ns)
            return (int32_t)i;
    return -1;
}

/* ---- things --------------------------------------------------------------------------------- */

/* The thing of a key, created when it is first met. KA_NONE: out of memory. */
static uint32_t thing_of(sampling *m, uint8_t kind, kineto_string name, kineto_string detail,
                         kineto_string key)
{
    return ka_find_thing(m->side, &m->keys, &m->things, key, kind, name, detail);
}

/* How many samples a value has; values and their counts grow together. */
static uint32_t *samples_of(ka_side *side, size_t value)
{
    size_t count = side->samples.count;
    if (value >= count && kb_vec_reserve(&side->samples, side->values.count)) {
        memset(side->samples.data + count, 0,
               (side->values.count - count) * sizeof *side->samples.data);
        side->samples.count = side->values.count;
    }
    side->no_memory |= value >= side->samples.count;
    return value < side->samples.count ? &side->samples.data[value] : NULL;
}

/* How much the peak of a step rises, of all ranks together; *first: it had none. */
static double raise_peak(sampling *m, uint32_t thing, int32_t step, double value, bool *first)
{
    const ka_side *side = m->side;
    uint64_t key[] = {thing, side->rank_count > 1 && !side->no_steps
                                 ? side->m.dataset.steps[step].number
                                 : (uint64_t)step};
    uint64_t *peak = kb_map_insert(&m->peaks, kb_hash(key, sizeof key), 0, first);
    double before = peak ? (double)*peak : 0;
    m->side->no_memory |= !peak;
    if (!peak || value <= before)
        return 0;
    *peak = (uint64_t)value;
    return value - before;
}

/* Adds a sample to the block of its step; samples outside of compared steps are dropped. */
static void add_sample_to_thing(sampling *m, uint32_t thing, kineto_row row, int32_t step,
                                double value)
{
    ka_side *side = m->side;
    int32_t block = ka_block_at(side, row, step);
    if (thing == KA_NONE || block < 0)
        return;
    ka_thing *x = &side->things.data[thing];
    size_t at = x->values + (uint32_t)block;
    uint32_t *count = samples_of(side, at);
    bool counts = true;
    if (!count)
        return;
    side->values.data[at] +=
        x->kind == KA_THING_COUNTER ? value : raise_peak(m, thing, step, value, &counts);
    x->most = x->count ? KB_MAX(x->most, value) : value;
    *count += counts && *count < UINT32_MAX;
    x->count++;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Memory events that report the allocated total of a device. */
static void add_memory_sample(sampling *m, kineto_row row, int64_t ns)
{
    const kineto_trace *t = m->side->m.dataset.trace;
    int64_t total, type = 0, index = -1;
    if (!ka_arg_int(t, row, "Total Allocated", &total) || total < 0)
        return;
    (void)ka_arg_int(t, row, "Device Type", &type);
    (void)ka_arg_int(t, row, "Device Id", &index);
    kb_text device = ka_memory_device(type, index), key;
    (void)snprintf(key.s, sizeof key.s, "m%.40s", device.s);
    add_sample_to_thing(
        m,
        thing_of(m, KA_THING_MEMORY, kb_string(device.s), (kineto_string){"", 0}, kb_string(key.s)),
        row, step_of_side_at(m->side, ns), (double)total);
}

/* ---- counters ------------------------------------------------------------------------------- */

/* "device N" or "process": counters of the same name differ by it. */
static kb_text describe_counter_owner(const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_track track;
    kineto_process p;
    kb_text text = {"process"};
    kineto_trace_get(t, row, &a);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &p);
    if (p.is_device)
        (void)snprintf(text.s, sizeof text.s, "device %lld", (long long)p.pid);
    return text;
}

/* One series of a counter, named "counter: series" unless both are the same. */
static void add_series_sample(sampling *m, kb_text place, kineto_string counter,
                              const kineto_arg *arg, kineto_row row, int32_t step)
{
    double value;
    char name[400], key[500];
    if (arg->type == KINETO_ARG_BOOL || !kt_arg_number(arg, &value) || !isfinite(value))
        return;
    bool same = kb_string_equal(counter, arg->key);
    int size = snprintf(name, sizeof name, "%.*s%s%.*s", (int)KB_MIN(counter.size, (size_t)190),
                        counter.data, same ? "" : ": ",
                        same ? 0 : (int)KB_MIN(arg->key.size, (size_t)190), arg->key.data);
    int key_size = snprintf(key, sizeof key, "c%.40s|%.*s", place.s, size, name);
    add_sample_to_thing(m,
                        thing_of(m, KA_THING_COUNTER, (kineto_string){name, (size_t)size},
                                 kb_string(place.s), (kineto_string){key, (size_t)key_size}),
                        row, step, value);
}

/* All series of a counter row. */
static void add_counter_samples(sampling *m, kineto_row row, int64_t ns)
{
    const kineto_trace *t = m->side->m.dataset.trace;
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_activity a;
    kb_text place = describe_counter_owner(t, row);
    int32_t step = step_of_side_at(m->side, ns);
    kineto_trace_get(t, row, &a);
    kineto_args_begin(t, row, &it);
    while (ka_block_at(m->side, row, step) >= 0 && kineto_args_next(&it, &arg) &&
           !m->side->no_memory)
        add_series_sample(m, place, a.name, &arg, row, step);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* Blocks without such kinds are skipped. */
static void add_block_samples(sampling *m, uint32_t b)
{
    const kt_block *block = kt_block_at(m->side->m.dataset.trace, b);
    const uint64_t wanted = KINETO_KIND_BIT(KINETO_KIND_COUNTER) |
                            KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER) |
                            KINETO_KIND_BIT(KINETO_KIND_MEMORY);
    for (uint32_t i = 0; block->kinds & wanted && i < block->count && !m->side->no_memory; i++) {
        kineto_row row = (kineto_row)b * KT_BLOCK_ROWS + i;
        if (block->kind[i] == KINETO_KIND_MEMORY)
            add_memory_sample(m, row, block->start_ns[i]);
        else if (block->form[i] == KINETO_FORM_COUNTER)
            add_counter_samples(m, row, block->start_ns[i]);
    }
}

/* Means of counters, and of the peaks of steps; blocks without a sample are left out. */
static void average_samples(ka_side *side)
{
    for (size_t i = 0; i < side->things.count; i++) {
        ka_thing *x = &side->things.data[i];
        uint32_t kept = 0;
        if (x->kind < KA_THING_MEMORY)
            continue;
        for (uint32_t b = 0; b < side->block_count; b++) {
            uint32_t count =
                x->values + b < side->samples.count ? side->samples.data[x->values + b] : 0;
            if (count)
                side->values.data[x->values + kept++] = side->values.data[x->values + b] / count;
        }
        x->value_count = kept;
    }
}

bool ka_side_take_samples(ka_side *side)
{
    sampling m = {.side = side};
    for (uint32_t b = 0; b < kt_block_count(side->m.dataset.trace) && !side->no_memory; b++)
        add_block_samples(&m, b);
    if (!side->no_memory)
        average_samples(side);
    kb_map_free(&m.things);
    kb_map_free(&m.peaks);
    kb_intern_free(&m.keys);
    return !side->no_memory;
}
