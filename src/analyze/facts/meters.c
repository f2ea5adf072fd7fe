/* Counters of devices are read by their series' names; other counters are left out. */
#include "analyze/facts/meters.h"

#include <math.h>

static const char *const series_names[KA_METER_SERIES] = {
    [KA_METER_ENERGY] = "energy [J]",           [KA_METER_POWER] = "power [W]",
    [KA_METER_CLOCK] = "SM clock [MHz]",        [KA_METER_SLOW_POWER] = "slow for power",
    [KA_METER_SLOW_HEAT] = "slow for heat",     [KA_METER_SLOW_HARDWARE] = "slow for hardware"};

void ka_meters_free(ka_meters *all)
{
    for (size_t i = 0; i < all->count; i++)
        for (uint32_t j = 0; j < KA_METER_SERIES; j++)
            kb_vec_free(&all->data[i].series[j]);
    kb_vec_free(all);
}

static ka_meter *find_or_add_meter(ka_meters *all, uint32_t process)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->data[i].process == process)
            return &all->data[i];
    return kb_vec_push(all, (ka_meter){.process = process}) ? &all->data[all->count - 1] : NULL;
}

/* KA_METER_SERIES: another counter. */
static uint32_t find_series(kineto_string key)
{
    uint32_t i = 0;
    while (i < KA_METER_SERIES && !kb_string_is(key, series_names[i]))
        i++;
    return i;
}

static bool add_counter_row(const ka_dataset *s, ka_meters *all, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    kineto_activity a;
    kineto_track track;
    double value;
    kineto_args_begin(s->trace, row, &it);
    while (kineto_args_next(&it, &arg)) {
        uint32_t series = find_series(arg.key);
        if (series == KA_METER_SERIES || !kt_arg_number(&arg, &value) || !isfinite(value))
            continue;
        kineto_trace_get(s->trace, row, &a);
        kineto_trace_track(s->trace, a.track, &track);
        ka_meter *m = find_or_add_meter(all, track.process);
        if (!m || !kb_vec_push(&m->series[series], (ka_sample){a.start_ns, value}))
            return false;
    }
    return true;
}

/* Counters are rare: only blocks that hold some are read. */
static bool add_all_counters(const ka_dataset *s, ka_meters *all)
{
    const uint64_t counters =
        KINETO_KIND_BIT(KINETO_KIND_COUNTER) | KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER);
    for (uint32_t b = 0; b < kt_block_count(s->trace); b++) {
        const kt_block *block = kt_block_at(s->trace, b);
        if (!(block->kinds & counters))
            continue;
        for (uint32_t i = 0; i < block->count; i++)
            if (block->form[i] == KINETO_FORM_COUNTER &&
                !add_counter_row(s, all, b * KT_BLOCK_ROWS + i))
                return false;
    }
    return true;
}

static int compare_samples(const void *left, const void *right)
{
    const ka_sample *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

/* What was used between the two samples around a restart is not known. */
static void join_energy(ka_meter *m)
{
    ka_samples *all = &m->series[KA_METER_ENERGY];
    double lost = 0, before = -INFINITY;
    for (size_t i = 0; i < all->count; i++) {
        double value = all->data[i].value;
        m->restarted |= value < before;
        lost += value < before ? before - value : 0;
        before = value;
        all->data[i].value += lost;
    }
}

bool ka_meters_read(const ka_dataset *s, ka_meters *out)
{
    *out = (ka_meters){0};
    if (!add_all_counters(s, out))
        return false;
    for (size_t i = 0; i < out->count; i++) {
        for (uint32_t j = 0; j < KA_METER_SERIES; j++) {
            ka_samples *series = &out->data[i].series[j];
            if (series->count)
                qsort(series->data, series->count, sizeof *series->data, compare_samples);
        }
        join_energy(&out->data[i]);
    }
    return true;
}

size_t ka_samples_find(const ka_samples *all, int64_t ns)
{
    size_t first = 0;
    KB_LOWER_BOUND(first, all->count, all->data[first].ns < ns);
    return first;
}

/* ---- between samples ------------------------------------------------------------------------- */

double ka_samples_at(const ka_samples *all, int64_t ns)
{
    size_t i = ka_samples_find(all, ns);
    if (i == 0 || i == all->count)
        return all->data[i ? i - 1 : 0].value;
    const ka_sample *a = &all->data[i - 1], *b = &all->data[i];
    double part = (double)kb_length_ns(a->ns, ns) / (double)kb_length_ns(a->ns, b->ns);
    return a->value + (b->value - a->value) * part;
}

/* Below the line through the samples. */
static double area_below_power(const ka_samples *all, int64_t start_ns, int64_t end_ns)
{
    KB_ASSERT(start_ns <= end_ns && all->count > 0);
    double sum = 0, before = ka_samples_at(all, start_ns);
    int64_t at = start_ns;
    for (size_t i = ka_samples_find(all, start_ns); i < all->count && all->data[i].ns < end_ns;
         i++) {
        sum += (before + all->data[i].value) / 2 * (double)kb_length_ns(at, all->data[i].ns) / 1e9;
        before = all->data[i].value;
        at = all->data[i].ns;
    }
    return sum + (before + ka_samples_at(all, end_ns)) / 2 * (double)kb_length_ns(at, end_ns) / 1e9;
}

bool ka_samples_are_around(const ka_samples *all, int64_t start_ns, int64_t end_ns)
{
    int64_t middle = start_ns + kb_length_ns(start_ns, end_ns) / 2;
    return all->count > 1 && all->data[0].ns <= middle && all->data[all->count - 1].ns >= middle;
}

bool ka_meter_joules(const ka_meter *m, int64_t start_ns, int64_t end_ns, double *joules)
{
    const ka_samples *energy = &m->series[KA_METER_ENERGY], *power = &m->series[KA_METER_POWER];
    bool counted = ka_samples_are_around(energy, start_ns, end_ns);
    if (counted)
        *joules = ka_samples_at(energy, end_ns) - ka_samples_at(energy, start_ns);
    else if (ka_samples_are_around(power, start_ns, end_ns))
        *joules = area_below_power(power, start_ns, end_ns);
    else
        return false;
    return true;
}
