/* Watching the recorded program from outside (source "cpu", docs/reference/cpu.md). */
#include "cli/launch/watch.h"
#include "cli/launch/remedies.h"
#include "cli/options.h"
#include "cpu/source.h"

kineto_status kc_watch_parse(kc_watch *w)
{
    char *end;
    const char *name = "--cpu";
    if (!w->option) {
        w->option = getenv("CKINETO_CPU");
        name = "CKINETO_CPU";
    }
    w->is_on = !w->option || strcmp(w->option, "off") != 0;
    w->hz = KU_DEFAULT_HZ;
    if (!w->option || !*w->option || !w->is_on)
        return KINETO_OK;
    unsigned long hz = strtoul(w->option, &end, 10);
    if (!kb_is_digit(w->option[0]) || *end || hz > KU_MAX_HZ)
        return kc_usage_error("record",
                              "%s '%s': must be 'off', 0 (thread states only) or samples for "
                              "each second of CPU time, at most %u",
                              name, w->option, KU_MAX_HZ);
    w->hz = (uint32_t)hz;
    return KINETO_OK;
}

#define FAULT_KINDS KINETO_KIND_BIT(KINETO_KIND_CPU_INSTANT_EVENT)

/* @param at_exec  the process waits before it executes the program. */
static kineto_status start_source(kc_watch *w, uint32_t pid, bool at_exec, kineto_error *err)
{
    ku_source_options options = {.pid = pid,
                                 .at_exec = at_exec,
                                 .off_cpu = w->off_cpu,
                                 .page_faults = w->page_faults && w->kinds & FAULT_KINDS,
                                 .hz = w->hz,
                                 .max_cost_ppm = w->max_cost_ppm,
                                 .progress_ns = w->progress_ns,
                                 .kinds = w->kinds};
    kineto_status status =
        ku_source_create(&options, ks_collector_pool(w->collector), &w->source, err);
    if (status == KINETO_OK && ku_source_refusal(w->source))
        ks_collector_note(w->collector, "cpu", "states from counters [ms], no samples",
                          KU_POLLING_MS, false, ku_source_refusal(w->source));
    else if (status == KINETO_OK && w->off_cpu && ku_source_sees_off_cpu(w->source) &&
             !ku_source_sees_wakeups(w->source))
        ks_collector_note(w->collector, "cpu", "not known who wakes threads", 1, false,
                          "tracefs cannot be read: mount -t tracefs tracefs /sys/kernel/tracing");
    else if (status == KINETO_OK && w->off_cpu && !ku_source_sees_off_cpu(w->source))
        ks_collector_note(w->collector, "cpu", "no stacks of blocked threads", 1, false,
                          "--off-cpu needs CAP_PERFMON, root, or perf_event_paranoid up to 1");
    return status;
}

/* Called in the parent, before the child executes the program. */
static void watch_child(void *context, pid_t pid)
{
    kc_watch *w = context;
    kineto_error err;
    if (start_source(w, (uint32_t)pid, true, &err) != KINETO_OK)
        ks_collector_note(w->collector, "cpu", "not available here", 1, false, err.message);
}

/* False: nothing that this source delivers is wanted. */
static bool choose_kinds(kc_watch *w, ks_collector *c, uint64_t kinds)
{
    w->collector = c;
    w->kinds = kinds & (KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE) | (w->page_faults ? FAULT_KINDS : 0) |
                        (w->hz ? KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE) : 0));
    return w->is_on && w->kinds;
}

void kc_watch_prepare(kc_watch *w, ks_collector *c, uint64_t kinds, kc_child *child)
{
    if (!choose_kinds(w, c, kinds))
        return;
    child->forked = watch_child;
    child->forked_context = w;
}

kineto_status kc_watch_attach(kc_watch *w, ks_collector *c, uint64_t kinds, uint32_t pid,
                              kineto_error *err)
{
    return choose_kinds(w, c, kinds)
               ? start_source(w, pid, false, err)
               : kb_fail(err, KINETO_E_ARGUMENT,
                         "nothing is to be recorded: a running program is watched from outside, "
                         "which --cpu off or --activities exclude");
}

static bool has_source_file(const void *context, const char *beginning)
{
    return ku_source_has_file(context, beginning);
}

void kc_watch_finish(kc_watch *w)
{
    char detail[96];
    ku_source_finish(w->source);
    if (w->source)
        w->remedies = kc_remedies_find(has_source_file, w->source);
    uint32_t hz = w->source ? ku_source_hz(w->source) : w->hz;
    if (hz < w->hz) {
        snprintf(detail, sizeof detail, "from %u, so that samples take no more than %.2f %%", w->hz,
                 w->max_cost_ppm / 1e4);
        ks_collector_note(w->collector, "cpu", "samples a second, lowered for --budget", hz, false,
                          detail);
    }
    ku_source_destroy(w->source);
    w->source = NULL;
}
