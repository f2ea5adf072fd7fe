/* Rule about clocks that a device holds down: for heat, for its power limit, or as the hardware
 * says. The counters are samples; a value holds until the next one. */
#include "analyze/facts/meters.h"
#include "analyze/findings/find_time.h"

#define MIN_SLOW_SHARE 5.0 /* percent of the device's work */

enum { FIRST_REASON = KA_METER_SLOW_POWER, REASONS = KA_METER_SERIES - KA_METER_SLOW_POWER };

/* What samples say of one device. */
typedef struct slowdown {
    const ka_meter *meter;
    int64_t device;
    int64_t busy_ns, slow_ns;    /* of its work: sums of all streams */
    int64_t reason_ns[REASONS]; /* of slow_ns; a moment may have several reasons */
    double clock_sum, clock_ns;  /* during slow work, where the clock was sampled */
    double highest_clock;        /* of all samples */
    int64_t longest_ns, longest_start_ns; /* the longest slow time of a piece of work */
} slowdown;

/* The value at a moment: the last sample at or before it; `none` without one. */
static double hold_value(const ka_samples *all, int64_t ns, double none)
{
    size_t i = ka_samples_find(all, ns);
    if (i < all->count && all->data[i].ns == ns)
        return all->data[i].value;
    return i ? all->data[i - 1].value : none;
}

/* Bit per reason. */
static uint32_t reasons_at(const ka_meter *m, int64_t ns)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < REASONS; i++)
        if (hold_value(&m->series[FIRST_REASON + i], ns, 0) > 0)
            bits |= 1u << i;
    return bits;
}

/* Beginning of the next sample of any reason or of the clock after `ns`, at most `end_ns`. */
static int64_t next_change_ns(const ka_meter *m, int64_t ns, int64_t end_ns)
{
    for (uint32_t i = KA_METER_CLOCK; i < KA_METER_SERIES; i++) {
        const ka_samples *all = &m->series[i];
        size_t at = ka_samples_find(all, ns + 1);
        if (at < all->count)
            end_ns = KB_MIN(end_ns, all->data[at].ns);
    }
    return end_ns;
}

/* Adds the slow time of one piece of work; returns it. */
static int64_t add_slow_work(slowdown *d, const ka_work *w)
{
    int64_t slow_ns = 0, next;
    for (int64_t at = w->start_ns; at < w->end_ns; at = next) {
        next = next_change_ns(d->meter, at, w->end_ns);
        uint32_t reasons = reasons_at(d->meter, at);
        int64_t ns = kb_length_ns(at, next);
        if (!reasons)
            continue;
        double clock = hold_value(&d->meter->series[KA_METER_CLOCK], at, 0);
        slow_ns = ka_add_ns(slow_ns, ns);
        for (uint32_t i = 0; i < REASONS; i++)
            d->reason_ns[i] = ka_add_ns(d->reason_ns[i], reasons >> i & 1 ? ns : 0);
        d->clock_sum += clock * (double)ns;
        d->clock_ns += clock > 0 ? (double)ns : 0;
    }
    return slow_ns;
}

static bool is_throttled_work(const ka_finder *f, const slowdown *d, const ka_work *w)
{
    return f->s->streams[w->stream].device == d->device &&
           w->kind == KINETO_KIND_CONCURRENT_KERNEL && ka_is_in_steps(f, w->step);
}

static void measure_slowdown(ka_finder *f, slowdown *d)
{
    const ka_dataset *s = f->s;
    const ka_samples *clock = &d->meter->series[KA_METER_CLOCK];
    for (size_t i = 0; i < clock->count; i++)
        d->highest_clock = KB_MAX(d->highest_clock, clock->data[i].value);
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (!is_throttled_work(f, d, w) || ka_work_ns(w) <= 0)
            continue;
        int64_t slow_ns = add_slow_work(d, w);
        d->busy_ns = ka_add_ns(d->busy_ns, ka_work_ns(w));
        d->slow_ns = ka_add_ns(d->slow_ns, slow_ns);
        if (slow_ns > d->longest_ns) {
            d->longest_ns = slow_ns;
            d->longest_start_ns = w->start_ns;
        }
    }
}

/* What the highest clock seen would save: work is shorter by the ratio of clocks, at most. */
static int64_t find_clock_savings(ka_finder *f, const slowdown *d)
{
    double clock = d->clock_ns > 0 ? d->clock_sum / d->clock_ns : 0;
    int64_t saved_ns = KA_NO_SAVINGS;
    ka_factors x;
    if (clock <= 0 || clock >= d->highest_clock)
        return saved_ns;
    bool made = ka_factors_make(f, &x);
    for (uint32_t i = 0; made && i < f->s->work_count; i++) {
        slowdown unused = *d;
        const ka_work *w = &f->s->work[i];
        if (is_throttled_work(f, d, w) && ka_work_ns(w) > 0)
            x.work[i] = 1 - (double)add_slow_work(&unused, w) / (double)ka_work_ns(w) *
                                (1 - clock / d->highest_clock);
    }
    if (made)
        saved_ns = ka_saved_with(f, &x);
    ka_factors_free(&x);
    return saved_ns;
}

static double slow_share(const slowdown *d, int64_t ns)
{
    return d->busy_ns ? 100 * (double)ns / (double)d->busy_ns : 0;
}

static bool is_only_power(const slowdown *d)
{
    return slow_share(d, d->reason_ns[KA_METER_SLOW_HEAT - FIRST_REASON]) < MIN_SLOW_SHARE &&
           slow_share(d, d->reason_ns[KA_METER_SLOW_HARDWARE - FIRST_REASON]) < MIN_SLOW_SHARE;
}

/* "GPU 0 holds its clocks down in 34.0 % of the time of its kernels: for heat 30.1 %, …". */
static void describe_slowdown(ka_finder *f, ka_found *x, const slowdown *d)
{
    static const char *const words[REASONS] = {"for its power limit", "for heat",
                                               "as the hardware says"};
    char text[160] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < REASONS; i++)
        if (d->reason_ns[i])
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s %.1f %%", n ? ", " : "", words[i],
                                  slow_share(d, d->reason_ns[i]));
    if (d->clock_ns > 0)
        ka_say(f, x, "Device %lld holds its clocks down in %.1f %% of the time of its kernels: %s; "
                     "%.0f MHz then, %.0f at most", (long long)d->device, slow_share(d, d->slow_ns),
               text, d->clock_sum / d->clock_ns, d->highest_clock);
    else
        ka_say(f, x, "Device %lld holds its clocks down in %.1f %% of the time of its kernels: %s",
               (long long)d->device, slow_share(d, d->slow_ns), text);
    if (is_only_power(d))
        ka_advise(f, x, "The power limit holds the clocks down, as it does under full load: compare with "
                        "other devices, and raise the limit where it is below the default (nvidia-smi -q -d POWER).");
}

static void report_slowdown(ka_finder *f, const slowdown *d)
{
    if (slow_share(d, d->slow_ns) < MIN_SLOW_SHARE)
        return;
    char subject[32];
    snprintf(subject, sizeof subject, "device %lld", (long long)d->device);
    ka_found *x = ka_open_finding(f, find_clock_savings(f, d), is_only_power(d) ? 0.4 : 0.7,
                                  kb_string(subject));
    if (!x)
        return;
    ka_set_severity(x, is_only_power(d) ? KINETO_FINDING_LOW : KINETO_FINDING_MEDIUM);
    ka_set_extent(x, slow_share(d, d->slow_ns));
    describe_slowdown(f, x, d);
    ka_show_span(f, x, d->longest_start_ns, d->longest_start_ns + d->longest_ns, d->longest_ns,
                 "the longest slow time of one kernel");
}

static void check_meter(ka_finder *f, const ka_meter *m)
{
    kineto_process p;
    kineto_trace_process(f->s->trace, m->process, &p);
    slowdown d = {.meter = m, .device = p.pid};
    measure_slowdown(f, &d);
    report_slowdown(f, &d);
}

static bool says_slowdown(const ka_meter *m)
{
    for (uint32_t i = FIRST_REASON; i < KA_METER_SERIES; i++)
        if (m->series[i].count)
            return true;
    return false;
}

void ka_find_throttled(ka_finder *f)
{
    ka_meters all;
    uint32_t known = 0;
    f->no_memory |= !ka_meters_read(f->s, &all);
    for (size_t i = 0; i < all.count && !f->no_memory; i++)
        if (says_slowdown(&all.data[i])) {
            known++;
            check_meter(f, &all.data[i]);
        }
    ka_meters_free(&all);
    if (!known)
        ka_skip_rule(f, "the trace has no samples of clocks: record with "
                        "--plugin-config cuda.nvml_ms=100");
}
