/* Watching the recorded program from outside (source "cpu", docs/reference/cpu.md). */
#include "cli/launch/watch.h"
#include "cli/launch/remedies.h"
#include "cli/options.h"
#include "cpu/source.h"

/* "on" and "always"; "off" as without the option. */
static kineto_status parse_timers(kc_watch *w)
{
    const char *name = "--cpu-timers", *text = w->timers_option.text;
    if (!w->timers_option.given) {
        name = "CKINETO_CPU_TIMERS";
        text = getenv(name);
        w->timers_option = (kc_optional_text){text && *text && strcmp(text, "off") != 0, text};
    }
    if (!text || !*text || strcmp(text, "on") == 0 || strcmp(text, "off") == 0 ||
        strcmp(text, "always") == 0)
        return KINETO_OK;
    return kc_usage_error("record", "%s is on or always, not '%s'", name, text);
}

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
    if (parse_timers(w))
        return KINETO_E_ARGUMENT;
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

static void note_no_samples(const kc_watch *w, bool at_exec)
{
    char detail[400];
    snprintf(detail, sizeof detail, "%s%s", ku_source_refusal(w->source),
             !w->hz    ? ""
             : at_exec ? "; --cpu-timers samples nevertheless"
                       : "; a program that is started with record --cpu-timers is sampled nevertheless");
    ks_collector_note(w->collector, "cpu", KC_COUNTERS_NO_SAMPLES, KU_POLLING_MS, false,
                      detail);
}

/* Options that nothing stands in for, where the kernel refuses its events. */
static void note_dropped_options(const kc_watch *w)
{
    static const char needs[] = "they need the kernel's events, which are refused: see the line above";
    if (w->off_cpu)
        ks_collector_note(w->collector, "cpu", "--off-cpu dropped: no stacks of blocked threads", 1, false, needs);
    if (w->page_faults)
        ks_collector_note(w->collector, "cpu", "--page-faults dropped: no page faults", 1, false, needs);
}

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
                                 .kinds = w->kinds,
                                 .timers = w->timers};
    kineto_status status =
        ku_source_create(&options, ks_collector_pool(w->collector), &w->source, err);
    if (status == KINETO_OK && w->timers)
        ks_collector_note(w->collector, "cpu",
                          KT_REASON_COUNTERS " [ms], samples by timers of the program's threads",
                          KU_POLLING_MS, false, w->refusal);
    else if (status == KINETO_OK && ku_source_refusal(w->source))
        note_no_samples(w, at_exec);
    else if (status == KINETO_OK && w->off_cpu && ku_source_sees_off_cpu(w->source) &&
             !ku_source_sees_wakeups(w->source))
        ks_collector_note(w->collector, "cpu", "not known who wakes threads", 1, false,
                          "tracefs cannot be read: mount -t tracefs tracefs /sys/kernel/tracing");
    else if (status == KINETO_OK && w->off_cpu && !ku_source_sees_off_cpu(w->source))
        ks_collector_note(w->collector, "cpu", "no stacks of blocked threads", 1, false,
                          "--off-cpu needs CAP_PERFMON, root, or perf_event_paranoid up to 1");
    if (status == KINETO_OK && (w->timers || ku_source_refusal(w->source)))
        note_dropped_options(w);
    if (status == KINETO_OK && w->hz && !ku_source_refusal(w->source) &&
        !ku_source_sees_callers(w->source))
        ks_collector_note(w->collector, "cpu", "samples have no callers", 1, false,
                          "stacks are unwound on x86-64 and arm64");
    return status;
}

/* ---- timers ---------------------------------------------------------------------------------- */

kineto_status kc_watch_prepare_timers(kc_watch *w, uint64_t kinds, const char **path, kineto_error *err)
{
    const char *text = w->timers_option.text;
    bool sees_kernel, always = text && strcmp(text, "always") == 0;
    kineto_error why = {.message = "--cpu-timers=always"};
    *path = NULL;
    if (!w->timers_option.given || !w->is_on || !w->hz || !(kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE)) ||
        (!always && ku_source_probe(&sees_kernel, &why) == KINETO_OK))
        return KINETO_OK;
    snprintf(w->refusal, sizeof w->refusal, "%.255s", why.message);
    w->timers = ku_timers_create(w->hz, err);
    if (!w->timers)
        return err->code;
    *path = ku_timers_path(w->timers);
    return KINETO_OK;
}

/* What kept threads from being sampled. */
static void note_timers(const kc_watch *w)
{
    static const struct {
        kf_timers_counter counter;
        const char *reason, *detail;
    } lines[] = {
        {KF_TIMERS_REFUSED, "threads without a timer", "the kernel refuses timer_create: ulimit -i"},
        {KF_TIMERS_BLOCKED, "threads that block the signal of samples", "they are not sampled"},
        {KF_TIMERS_ASIDE, "programs that use the signal of samples themselves",
         "they are not sampled from then on"},
        {KF_TIMERS_NO_SIGNAL, "programs that use all real-time signals", "they are not sampled"}};
    for (size_t i = 0; i < KB_COUNT(lines); i++) {
        uint64_t count = ku_timers_count(w->timers, lines[i].counter);
        if (count)
            ks_collector_note(w->collector, "cpu", lines[i].reason, count, false, lines[i].detail);
    }
    uint64_t without = w->source ? ku_source_without_timers(w->source) : 0;
    if (without)
        ks_collector_note(w->collector, "cpu", "processes without samples", without, false,
                          "libckineto-timers.so is not in them: statically linked, of another user or "
                          "pid namespace, or they ended at once");
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
    char number[24];
    (void)snprintf(number, sizeof number, "%u", pid);
    ks_collector_metadata(c, "ckineto_attached_pid", number); /* advice in findings depends on it */
    return choose_kinds(w, c, kinds)
               ? start_source(w, pid, false, err)
               : kb_fail(err, KINETO_E_ARGUMENT,
                         "nothing is to be recorded: a running program is watched from outside, "
                         "which --cpu off or --kinds exclude");
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
    if (w->timers)
        note_timers(w);
    ku_source_destroy(w->source);
    ku_timers_destroy(w->timers);
    w->source = NULL;
    w->timers = NULL;
}
