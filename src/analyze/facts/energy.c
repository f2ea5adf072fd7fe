/* The table energy: joules of steps, from counters of devices. A counter "energy [J]" grows,
 * its difference is the energy; else the area below "power [W]" is. Between two samples both
 * are interpolated linearly. */
#include "analyze/facts/analyses.h"

#include <math.h>

typedef struct sample {
    int64_t ns;
    double value;
} sample;
typedef KB_VEC(sample) samples;

/* One device: a process row that has counters. */
typedef struct meter {
    uint32_t process;
    samples energy, power; /* J; W */
    bool restarted;
} meter;
typedef KB_VEC(meter) meters;

static void meters_free(meters *all)
{
    for (size_t i = 0; i < all->count; i++) {
        kb_vec_free(&all->data[i].energy);
        kb_vec_free(&all->data[i].power);
    }
    kb_vec_free(all);
}

static meter *meter_of(meters *all, uint32_t process)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->data[i].process == process)
            return &all->data[i];
    return kb_vec_push(all, (meter){.process = process}) ? &all->data[all->count - 1] : NULL;
}

static bool add_energy_row(const ka_dataset *s, meters *all, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_activity a;
    kineto_track track;
    double value;
    kineto_args_begin(s->trace, row, &it);
    while (kineto_args_next(&it, &arg)) {
        bool energy = kb_string_equal(arg.key, kb_string("energy [J]")),
             power = kb_string_equal(arg.key, kb_string("power [W]"));
        if ((!energy && !power) || !kt_arg_number(&arg, &value) || !isfinite(value))
            continue;
        kineto_trace_get(s->trace, row, &a);
        kineto_trace_track(s->trace, a.track, &track);
        meter *m = meter_of(all, track.process);
        if (!m || !kb_vec_push(energy ? &m->energy : &m->power, (sample){a.start_ns, value}))
            return false;
    }
    return true;
}

static int compare_samples(const void *left, const void *right)
{
    const sample *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

static void sort_samples(samples *all)
{
    if (all->count)
        qsort(all->data, all->count, sizeof *all->data, compare_samples);
}

/* A counter that falls began anew: it goes on from where it was. What was used between these two
 * samples, is not known. */
static void join_samples(meter *m)
{
    double lost = 0, before = -INFINITY;
    for (size_t i = 0; i < m->energy.count; i++) {
        double value = m->energy.data[i].value;
        m->restarted |= value < before;
        lost += value < before ? before - value : 0;
        before = value;
        m->energy.data[i].value += lost;
    }
}

/* Counters are rare: only blocks that hold some are read. */
static bool collect_samples(const ka_dataset *s, meters *all)
{
    const uint64_t counters =
        KINETO_KIND_BIT(KINETO_KIND_COUNTER) | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER);
    for (uint32_t b = 0; b < kt_block_count(s->trace); b++) {
        const kt_block *block = kt_block_at(s->trace, b);
        if (!(block->kinds & counters))
            continue;
        for (uint32_t i = 0; i < block->count; i++)
            if (block->form[i] == KINETO_FORM_COUNTER &&
                !add_energy_row(s, all, b * KT_BLOCK_ROWS + i))
                return false;
    }
    for (size_t i = 0; i < all->count; i++) {
        sort_samples(&all->data[i].energy);
        sort_samples(&all->data[i].power);
        join_samples(&all->data[i]);
    }
    return true;
}

/* ---- between samples ------------------------------------------------------------------------- */

/* First sample at or after `ns`. */
static size_t find_first_sample(const samples *all, int64_t ns)
{
    size_t first = 0;
    KB_LOWER_BOUND(first, all->count, all->data[first].ns < ns);
    return first;
}

/* On the line between two samples; a moment outside of them has the value of the nearest. */
static double value_at(const samples *all, int64_t ns)
{
    size_t i = find_first_sample(all, ns);
    if (i == 0 || i == all->count)
        return all->data[i ? i - 1 : 0].value;
    const sample *a = &all->data[i - 1], *b = &all->data[i];
    double part = (double)kb_length_ns(a->ns, ns) / (double)kb_length_ns(a->ns, b->ns);
    return a->value + (b->value - a->value) * part;
}

/* Below the line through the samples. */
static double area_below_power(const samples *all, int64_t start_ns, int64_t end_ns)
{
    KB_ASSERT(start_ns <= end_ns && all->count > 0);
    double sum = 0, before = value_at(all, start_ns);
    int64_t at = start_ns;
    for (size_t i = find_first_sample(all, start_ns); i < all->count && all->data[i].ns < end_ns;
         i++) {
        sum += (before + all->data[i].value) / 2 * (double)kb_length_ns(at, all->data[i].ns) / 1e9;
        before = all->data[i].value;
        at = all->data[i].ns;
    }
    return sum + (before + value_at(all, end_ns)) / 2 * (double)kb_length_ns(at, end_ns) / 1e9;
}

static double highest_power(const samples *all, int64_t start_ns, int64_t end_ns)
{
    double most = kb_max_double(value_at(all, start_ns), value_at(all, end_ns));
    for (size_t i = find_first_sample(all, start_ns); i < all->count && all->data[i].ns < end_ns;
         i++)
        most = KB_MAX(most, all->data[i].value);
    return most;
}

/* Are there samples from before its middle to after it? Else nothing is known of it. */
static bool has_samples_around(const samples *all, int64_t start_ns, int64_t end_ns)
{
    int64_t middle = start_ns + kb_length_ns(start_ns, end_ns) / 2;
    return all->count > 1 && all->data[0].ns <= middle && all->data[all->count - 1].ns >= middle;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A row for one step (or all) of one meter; none if neither counter covers its middle. The
 * counter of energy is preferred, as it misses no peak between samples. */
static void put_energy(const ka_dataset *s, ka_table *t, const meter *m, kineto_string step,
                       int64_t start_ns, int64_t end_ns)
{
    kineto_process device;
    double seconds = (double)kb_length_ns(start_ns, end_ns) / 1e9;
    bool counted = has_samples_around(&m->energy, start_ns, end_ns),
         known = has_samples_around(&m->power, start_ns, end_ns);
    if ((!counted && !known) || seconds <= 0)
        return;
    double joules = counted ? value_at(&m->energy, end_ns) - value_at(&m->energy, start_ns)
                            : area_below_power(&m->power, start_ns, end_ns);
    kineto_trace_process(s->trace, m->process, &device);
    ka_put_int(t, s->rank);
    ka_put_text(t, device.name);
    ka_put_text(t, step);
    ka_put_ns(t, kb_length_ns(start_ns, end_ns));
    ka_put_number(t, joules);
    ka_put_number(t, joules / seconds);
    if (known)
        ka_put_number(t, highest_power(&m->power, start_ns, end_ns));
    else
        ka_put_none(t);
}

/* Table energy: each step with each meter that has samples before its middle and after it. */
kineto_status ka_analyze_energy(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_energy);
    meters all = {0};
    bool ok = collect_samples(s, &all);
    for (size_t i = 0; ok && i < all.count; i++) {
        for (uint32_t j = 0; j < s->step_count; j++)
            if (s->steps[j].slice != KA_NONE)
                put_energy(s, t, &all.data[i], ka_name(s, s->slices[s->steps[j].slice].name),
                    s->steps[j].start_ns, s->steps[j].end_ns);
        put_energy(s, t, &all.data[i], kb_string("all"), s->start_ns, s->end_ns);
        if (all.data[i].restarted)
            ka_note(t, "a counter of energy restarted: what was used between the samples before "
                       "and behind that is not in the sums");
    }
    if (!ka_table_rows(t))
        ka_note(t, "no samples of power or energy: record with --plugin-config cuda.nvml_ms=100");
    meters_free(&all);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
