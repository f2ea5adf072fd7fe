/* The table energy: joules of steps, from counters of devices. A counter "energy [J]" grows,
 * its difference is the energy; else the area below "power [W]" is. Between two samples both
 * are interpolated linearly. */
#include "analyze/facts/analyses.h"
#include "analyze/facts/meters.h"

static double highest_power(const ka_samples *all, int64_t start_ns, int64_t end_ns)
{
    double most = kb_max_double(ka_samples_at(all, start_ns), ka_samples_at(all, end_ns));
    for (size_t i = ka_samples_find(all, start_ns); i < all->count && all->data[i].ns < end_ns;
         i++)
        most = KB_MAX(most, all->data[i].value);
    return most;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* A row for one step (or all) of one meter; none if neither counter covers its middle. The
 * counter of energy is preferred, as it misses no peak between samples. */
static void put_energy(const ka_dataset *s, ka_table *t, const ka_meter *m, kineto_string step,
                       int64_t start_ns, int64_t end_ns)
{
    const ka_samples *power = &m->series[KA_METER_POWER];
    kineto_process device;
    double seconds = (double)kb_length_ns(start_ns, end_ns) / 1e9;
    double joules;
    if (seconds <= 0 || !ka_meter_joules(m, start_ns, end_ns, &joules))
        return;
    kineto_trace_process(s->trace, m->process, &device);
    ka_put_int(t, s->rank);
    ka_put_text(t, device.name);
    ka_put_text(t, step);
    ka_put_ns(t, kb_length_ns(start_ns, end_ns));
    ka_put_number(t, joules);
    ka_put_number(t, joules / seconds);
    if (ka_samples_are_around(power, start_ns, end_ns))
        ka_put_number(t, highest_power(power, start_ns, end_ns));
    else
        ka_put_none(t);
}

/* A row for everything; of a program without ranges, what is between the first sample and the last one. */
static void put_all_energy(const ka_dataset *s, ka_table *t, const ka_meter *m)
{
    int64_t start_ns = s->start_ns, end_ns = s->end_ns;
    const ka_samples *samples = &m->series[m->series[KA_METER_ENERGY].count ? KA_METER_ENERGY : KA_METER_POWER];
    if (start_ns >= end_ns && samples->count) {
        start_ns = samples->data[0].ns;
        end_ns = samples->data[samples->count - 1].ns;
    }
    put_energy(s, t, m, kb_string("all"), start_ns, end_ns);
}

/* Table energy: each step with each meter that has samples before its middle and after it. */
kineto_status ka_analyze_energy(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_energy);
    ka_meters all;
    bool ok = ka_meters_read(s, &all);
    for (size_t i = 0; ok && i < all.count; i++) {
        for (uint32_t j = 0; j < s->step_count; j++)
            if (s->steps[j].slice != KA_NONE)
                put_energy(s, t, &all.data[i], ka_name(s, s->slices[s->steps[j].slice].name),
                    s->steps[j].start_ns, s->steps[j].end_ns);
        put_all_energy(s, t, &all.data[i]);
        if (all.data[i].restarted)
            ka_note(t, "a counter of energy restarted: what was used between the samples before "
                       "and behind that is not in the sums");
    }
    if (!ka_table_rows(t))
        ka_note(t, "no samples of power or energy: record with --plugin-config cuda.nvml_ms=100, "
                   "for processors with --energy");
    ka_meters_free(&all);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
