/* Watching the recorded program from outside (source "cpu", docs/reference/cpu.md). */
#include "cli/launch/watch.h"
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

/* Called in the parent, before the child executes the program. */
static void watch_child(void *context, pid_t pid)
{
    kc_watch *w = context;
    kineto_error err;
    ku_source_options options = {
        .pid = (uint32_t)pid, .at_exec = true, .off_cpu = w->off_cpu, .hz = w->hz,
        .kinds = w->kinds};
    if (ku_source_create(&options, ks_collector_pool(w->collector), &w->source, &err) != KINETO_OK)
        ks_collector_note(w->collector, "cpu", "not available here", 1, false, err.message);
    else if (w->off_cpu && !ku_source_sees_off_cpu(w->source))
        ks_collector_note(w->collector, "cpu", "no stacks of blocked threads", 1, false,
                          "--off-cpu needs CAP_PERFMON, root, or perf_event_paranoid up to 1");
}

void kc_watch_prepare(kc_watch *w, ks_collector *c, uint64_t kinds, kc_child *child)
{
    w->kinds = kinds & (KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE) |
                             (w->hz ? KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE) : 0));
    if (!w->is_on || !w->kinds)
        return;
    w->collector = c;
    child->forked = watch_child;
    child->forked_context = w;
}

void kc_watch_finish(kc_watch *w)
{
    ku_source_destroy(w->source);
    w->source = NULL;
}
