/* Device clocks. A source states now and then that a device time fell between two readings of the
 * recording clock; a line through the tightest of these brackets places the device's events. */
#include "trace/build/build.h"

#include <time.h>

void kt_build_add_clock(kt_build_state *s, uint32_t process, uint32_t clock, kineto_string name)
{
    kt_device_clock c = {.process = process, .clock = clock, .name = name};
    s->out_of_memory |= !kb_vec_push(&s->clocks, c);
}

static kt_device_clock *clock_find(const kt_build_state *s, uint32_t process, uint32_t clock)
{
    for (size_t i = 0; i < s->clocks.count; i++)
        if (s->clocks.data[i].process == process && s->clocks.data[i].clock == clock)
            return &s->clocks.data[i];
    return NULL;
}

static kineto_status on_sample(void *state, const kf_clock_sample *sample)
{
    kt_build_state *s = state;
    kt_device_clock *c = clock_find(s, sample->process, sample->clock);
    if (!c || sample->ticks_after < sample->ticks_before)
        return KINETO_OK;
    return kb_vec_push(&c->samples, *sample) ? KINETO_OK : KINETO_E_MEMORY;
}

static uint64_t width_of(const kf_clock_sample *s) { return s->ticks_after - s->ticks_before; }

static int64_t host_ns(const kt_build_state *s, const kf_clock_sample *sample)
{
    return kb_clock_fit_ns(&s->fit, sample->ticks_before + width_of(sample) / 2);
}

static int by_device_time(const void *left, const void *right)
{
    const kf_clock_sample *a = left, *b = right;
    if (a->device_time != b->device_time)
        return a->device_time < b->device_time ? -1 : 1;
    if (a->ticks_before != b->ticks_before)
        return a->ticks_before < b->ticks_before ? -1 : 1;
    return a->ticks_after < b->ticks_after ? -1 : a->ticks_after > b->ticks_after;
}

static const kf_clock_sample *tightest(const kf_clock_sample *samples, size_t count)
{
    const kf_clock_sample *best = samples;
    for (size_t i = 1; i < count; i++)
        if (width_of(&samples[i]) < width_of(best))
            best = &samples[i];
    return best;
}

static int64_t device_ns(const kt_device_clock *c, int64_t time)
{
    double distance = (double)(int64_t)((uint64_t)time - (uint64_t)c->device0) * c->rate;
    if (!(distance < 4e18 && distance > -4e18))
        return distance < 0 ? INT64_MIN / 2 : INT64_MAX / 2;
    int64_t rounded = (int64_t)(distance + (distance < 0 ? -0.5 : 0.5));
    return (int64_t)((uint64_t)c->ns0 + (uint64_t)rounded);
}

/* A rate far from anything a clock can have means that the samples are wrong: then the clock is
 * taken to count nanoseconds. */
static void fit_clock(const kt_build_state *s, kt_device_clock *c)
{
    size_t count = c->samples.count, quarter = (count + 3) / 4;
    if (count == 0)
        return;
    qsort(c->samples.data, count, sizeof *c->samples.data, by_device_time);
    const kf_clock_sample *first = tightest(c->samples.data, quarter);
    const kf_clock_sample *last = tightest(c->samples.data + count - quarter, quarter);
    c->device0 = first->device_time;
    c->ns0 = host_ns(s, first);
    double device = (double)last->device_time - (double)first->device_time;
    double host = (double)host_ns(s, last) - (double)c->ns0;
    c->rate = device > 0 ? host / device : 1.0;
    if (!(c->rate > 1e-6 && c->rate < 1e9) || host < 1e6)
        c->rate = 1.0;
    c->usable = true;
    for (size_t i = 0; i < count; i++) {
        const kf_clock_sample *sample = &c->samples.data[i];
        double off = (double)device_ns(c, sample->device_time) - (double)host_ns(s, sample);
        double doubt = (double)width_of(sample) / 2 * s->fit.ns_per_tick;
        c->residual_ns = KB_MAX(c->residual_ns, (off < 0 ? -off : off) - doubt);
    }
}

kineto_status kt_build_device_clocks(kt_build_state *s, kineto_error *err)
{
    kf_visitor visitor = {.context = s, .clock_sample = on_sample};
    kineto_status status = kf_decode(&s->input_kept, &visitor, NULL, err);
    for (size_t i = 0; i < s->clocks.count && !status; i++)
        fit_clock(s, &s->clocks.data[i]);
    return status;
}

bool kt_build_ns(const kt_build_state *s, uint32_t process, uint32_t clock, uint64_t time,
                 int64_t *ns)
{
    const kt_device_clock *c;
    switch (clock) {
    case KINETO_PLUGIN_CLOCK_UTC:
        *ns = (int64_t)time;
        return true;
    case KINETO_PLUGIN_CLOCK_MONOTONIC:
        *ns = kb_clock_fit_from_clock(&s->fit, CLOCK_MONOTONIC, (int64_t)time);
        return true;
    case KINETO_PLUGIN_CLOCK_MONOTONIC_RAW:
        *ns = kb_clock_fit_from_clock(&s->fit, CLOCK_MONOTONIC_RAW, (int64_t)time);
        return true;
    case KINETO_PLUGIN_CLOCK_BOOTTIME:
        *ns = kb_clock_fit_from_clock(&s->fit, CLOCK_BOOTTIME, (int64_t)time);
        return true;
    case KINETO_PLUGIN_CLOCK_TICKS:
        *ns = kb_clock_fit_ns(&s->fit, time);
        return true;
    default:
        c = clock_find(s, process, clock);
        if (!c || !c->usable)
            return false;
        *ns = device_ns(c, (int64_t)time);
        return true;
    }
}
