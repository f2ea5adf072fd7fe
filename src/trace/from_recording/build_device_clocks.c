/* Conversion of device clocks. A source records samples: a device time, and the ticks
 * before and after it was read. A line through these brackets (base/device_clock_line.h) converts
 * device times to Unix ns. Relies on s->fit, the fit of the recording's own clock. */
#include "trace/from_recording/build.h"

#include <time.h>

void kt_build_add_clock(kt_build_state *s, uint32_t process, uint32_t clock, kineto_string name)
{
    kt_device_clock c = {.process = process, .clock = clock, .name = name};
    s->out_of_memory |= !kb_vec_push(&s->clocks, c);
}

static kt_device_clock *find_device_clock(const kt_build_state *s, uint32_t process, uint32_t clock)
{
    for (size_t i = 0; i < s->clocks.count; i++)
        if (s->clocks.data[i].process == process && s->clocks.data[i].clock == clock)
            return &s->clocks.data[i];
    return NULL;
}

/* Callback of the decoder: one sample of a device clock. */
static kineto_status add_clock_sample(void *state, const kf_clock_sample *sample)
{
    kt_build_state *s = state;
    kt_device_clock *c = find_device_clock(s, sample->process, sample->clock);
    if (!c || sample->ticks_after < sample->ticks_before)
        return KINETO_OK;
    return kb_vec_push(&c->samples, *sample) ? KINETO_OK : KINETO_E_MEMORY;
}

static uint64_t sample_width_ticks(const kf_clock_sample *s)
{
    return s->ticks_after - s->ticks_before;
}

/* The Unix time in the middle of a sample's bracket. */
static int64_t sample_host_ns(const kt_build_state *s, const kf_clock_sample *sample)
{
    return kb_clock_fit_ns(&s->fit, sample->ticks_before + sample_width_ticks(sample) / 2);
}

/* Converts the samples of a clock to points of the line; false: out of memory. */
static bool collect_clock_points(const kt_build_state *s, const kt_device_clock *c,
                                 kb_clock_points *points)
{
    for (size_t i = 0; i < c->samples.count; i++) {
        const kf_clock_sample *sample = &c->samples.data[i];
        double doubt_ns = (double)sample_width_ticks(sample) / 2 * s->fit.ns_per_tick;
        kb_clock_point point = {sample->device_time, sample_host_ns(s, sample), doubt_ns};
        if (!kb_vec_push(points, point))
            return false;
    }
    return true;
}

/* Fits the line, and computes its largest distance from a bracket. False: out of memory. */
static bool fit_device_clock(const kt_build_state *s, kt_device_clock *c)
{
    kb_clock_points points = {0};
    KB_ASSERT(!c->usable); /* each clock is fitted once */
    bool made = collect_clock_points(s, c, &points);
    c->usable = made && points.count;
    if (c->usable)
        kb_clock_line_fit(&c->line, points.data, points.count);
    for (size_t i = 0; i < points.count && c->usable; i++) {
        double off = kb_clock_line_off_ns(&c->line, &points.data[i]);
        c->residual_ns = KB_MAX(c->residual_ns, off - points.data[i].doubt_ns);
    }
    kb_vec_free(&points);
    return made;
}

kineto_status kt_build_device_clocks(kt_build_state *s, kineto_error *err)
{
    kf_visitor visitor = {.context = s, .clock_sample = add_clock_sample};
    kineto_status status = kf_decode(&s->input_kept, &visitor, NULL, err);
    for (size_t i = 0; i < s->clocks.count && !status; i++)
        if (!fit_device_clock(s, &s->clocks.data[i]))
            status = KINETO_E_MEMORY;
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
        c = find_device_clock(s, process, clock);
        if (!c || !c->usable)
            return false;
        *ns = kb_clock_line_ns(&c->line, (int64_t)time);
        return true;
    }
}
