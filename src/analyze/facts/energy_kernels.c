/* The table energy_kernels: what a device used while kernels of each name ran. Power is that of the
 * whole device, so work that runs at once shares it equally. */
#include "analyze/facts/analyses.h"
#include "analyze/facts/meters.h"

/* Where a piece of work begins or ends. */
typedef struct boundary {
    int64_t ns;
    uint32_t work; /* index of the device's */
    bool is_end;
} boundary;
typedef KB_VEC(boundary) boundaries;

/* A name's sums. */
typedef struct name_energy {
    double joules;
    int64_t ns;
    uint64_t count;
} name_energy;

/* One device while its work is swept. */
typedef struct device_energy {
    const ka_dataset *s;
    const ka_meter *meter;
    int64_t device;
    boundaries at;
    double *before;      /* by work: `each_joules` when it began */
    name_energy *names;  /* by string id */
    double each_joules;  /* what one piece of work used that ran from the beginning until now */
    double idle_joules;
    int64_t idle_ns;
} device_energy;

static int compare_boundaries(const void *left, const void *right)
{
    const boundary *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    if (a->is_end != b->is_end)
        return a->is_end ? -1 : 1;
    return (a->work > b->work) - (a->work < b->work);
}

/* Work without length uses nothing, and is only counted. False: out of memory. */
static bool list_boundaries(device_energy *d)
{
    const ka_dataset *s = d->s;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (s->streams[w->stream].device != d->device)
            continue;
        d->names[w->name].count++;
        if (w->end_ns > w->start_ns && (!kb_vec_push(&d->at, (boundary){w->start_ns, i, false}) ||
                                        !kb_vec_push(&d->at, (boundary){w->end_ns, i, true})))
            return false;
    }
    if (d->at.count)
        qsort(d->at.data, d->at.count, sizeof *d->at.data, compare_boundaries);
    return true;
}

/* Shares what was used from one boundary to the next; nothing where it is not known. */
static void share_joules(device_energy *d, int64_t start_ns, int64_t end_ns, uint32_t running)
{
    double joules;
    if (end_ns <= start_ns || !ka_meter_joules(d->meter, start_ns, end_ns, &joules))
        return;
    if (running) {
        d->each_joules += joules / running;
        return;
    }
    d->idle_joules += joules;
    d->idle_ns = ka_add_ns(d->idle_ns, kb_length_ns(start_ns, end_ns));
}

/* From the first work to the last. */
static void sweep_work(device_energy *d)
{
    uint32_t running = 0;
    for (size_t i = 0; i < d->at.count; i++) {
        const boundary *b = &d->at.data[i];
        const ka_work *w = &d->s->work[b->work];
        if (i)
            share_joules(d, d->at.data[i - 1].ns, b->ns, running);
        if (!b->is_end) {
            d->before[b->work] = d->each_joules;
            running++;
            continue;
        }
        name_energy *n = &d->names[w->name];
        n->joules += d->each_joules - d->before[b->work];
        n->ns = ka_add_ns(n->ns, ka_work_ns(w));
        running--;
    }
}

static void put_name(const device_energy *d, ka_table *t, kineto_string device, kineto_string name,
                     const name_energy *n, double all_joules)
{
    ka_put_int(t, d->s->rank);
    ka_put_text(t, device);
    ka_put_text(t, name);
    ka_put_int(t, (int64_t)n->count);
    ka_put_ns(t, n->ns);
    ka_put_number(t, n->joules);
    ka_put_number(t, ka_percent(n->joules, all_joules));
    ka_put_number(t, n->ns ? n->joules / ((double)n->ns / 1e9) : 0);
}

static void put_device_energy(const device_energy *d, ka_table *t)
{
    kineto_process device;
    name_energy idle = {.joules = d->idle_joules, .ns = d->idle_ns};
    double all_joules = d->idle_joules;
    for (uint32_t i = 0; i < d->s->name_count; i++)
        all_joules += d->names[i].joules;
    if (all_joules <= 0)
        return;
    kineto_trace_process(d->s->trace, d->meter->process, &device);
    for (uint32_t i = 0; i < d->s->name_count; i++)
        if (d->names[i].count)
            put_name(d, t, device.name, ka_name(d->s, i), &d->names[i], all_joules);
    if (idle.ns)
        put_name(d, t, device.name, kb_string("(idle)"), &idle, all_joules);
}

/* False: out of memory. */
static bool analyze_device(const ka_dataset *s, const ka_meter *m, ka_table *t)
{
    kineto_process p;
    kineto_trace_process(s->trace, m->process, &p);
    device_energy d = {.s = s,
                       .meter = m,
                       .device = p.pid,
                       .before = calloc((size_t)s->work_count + 1, sizeof *d.before),
                       .names = calloc((size_t)s->name_count + 1, sizeof *d.names)};
    bool ok = d.before && d.names && list_boundaries(&d);
    if (ok) {
        sweep_work(&d);
        put_device_energy(&d, t);
    }
    kb_vec_free(&d.at);
    free(d.before);
    free(d.names);
    return ok;
}

kineto_status ka_analyze_energy_kernels(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_energy_kernels);
    ka_meters all;
    bool ok = ka_meters_read(s, &all);
    for (size_t i = 0; ok && i < all.count; i++)
        ok = analyze_device(s, &all.data[i], t);
    KA_SORT(t, KA_UP(energy_kernels, device), KA_DOWN(energy_kernels, joules));
    if (!ka_table_rows(t))
        ka_note(t, "no samples of power or energy while work ran: record with --plugin-config "
                   "cuda.nvml_ms=100");
    ka_meters_free(&all);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
