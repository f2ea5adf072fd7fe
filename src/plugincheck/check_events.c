/* Checks of everything that a plug-in delivered, when the session is over: device clocks, times,
 * flows, ids, rows and counts. Order matters: clocks come first, since times are converted with
 * them, and flows come last, since they sort the events. */
#include "plugincheck/check_host.h"

#include <time.h>
#include <unistd.h>

#define TOLERANCE_NS 10000000  /* of event times, at both ends of a session */
#define RESIDUAL_NS  1000000.0 /* of clock samples, in addition to their own uncertainty */

/* ---- device clocks --------------------------------------------------------------------------- */

/* The device's time at the middle of the host's two readings, with half their distance as the
 * uncertainty. */
static kb_clock_point make_clock_point(const kv_session *s, const kv_clock_sample *sample)
{
    uint64_t width = sample->after - sample->before;
    return (kb_clock_point){sample->device, kb_clock_fit_ns(&s->fit, sample->before + width / 2),
                            (double)width / 2 * s->fit.ns_per_tick};
}

static int compare_clock_samples(const void *left, const void *right)
{
    const kv_clock_sample *a = left, *b = right;
    if (a->clock != b->clock)
        return a->clock < b->clock ? -1 : 1;
    return (a->before > b->before) - (a->before < b->before);
}

/* Samples are sorted by host ticks: device times must not decrease between samples that do not
 * overlap. */
static void check_sample_order(kv_session *s, const kv_clock_sample *samples, size_t count)
{
    KB_ASSERT(count > 0 && samples->clock >= 0 && samples->clock < KV_MAX_CLOCKS);
    for (size_t i = 1; i < count; i++)
        if (samples[i].before >= samples[i - 1].after && samples[i].device < samples[i - 1].device)
            kv_fault(s->k, KV_RULE_TIME_MONOTONIC_CLOCK, "\"%s\" goes back by %lld",
                     s->k->clock_names[samples->clock],
                     (long long)((uint64_t)samples[i - 1].device - (uint64_t)samples[i].device));
}

/* A sample may deviate from the line through the others by RESIDUAL_NS, in addition to the
 * uncertainty of the sample and of the line. */
static void check_clock_line(kv_session *s, const kv_clock_sample *samples, size_t count)
{
    kb_clock_points points = {0};
    kv_line *line = &s->lines[samples->clock];
    double worst = 0;
    line->usable = true;
    for (size_t i = 0; i < count && line->usable; i++)
        line->usable = kb_vec_push(&points, make_clock_point(s, &samples[i]));
    if (line->usable)
        kb_clock_line_fit(&line->line, points.data, points.count);
    for (size_t i = 0; i < count && line->usable; i++) {
        const kb_clock_point *p = &points.data[i];
        double doubt = p->doubt_ns + kb_clock_line_doubt_ns(&line->line, p->device);
        worst = KB_MAX(worst, kb_clock_line_off_ns(&line->line, p) - doubt);
    }
    kb_vec_free(&points);
    if (worst > RESIDUAL_NS)
        kv_fault(s->k, KV_RULE_TIME_MONOTONIC_CLOCK,
                 "a sample of \"%s\" is %.3f ms away from the line through the others",
                 s->k->clock_names[samples->clock], worst / 1e6);
}

/* Fit the clock of the host from the snapshots, then each device clock from its samples. */
static void check_clocks(kv_session *s)
{
    kv_seen *seen = s->k->seen;
    const kb_clock_snapshot snapshots[] = {s->before, s->after};
    (void)kb_clock_fit_make(snapshots, s->after.ticks ? 2 : 1, &s->fit, NULL);
    memset(s->lines, 0, sizeof s->lines);
    qsort(seen->samples, seen->sample_count, sizeof *seen->samples, compare_clock_samples);
    for (size_t i = 0, n; i < seen->sample_count; i += n) {
        n = 1;
        while (i + n < seen->sample_count && seen->samples[i + n].clock == seen->samples[i].clock)
            n++;
        check_sample_order(s, &seen->samples[i], n);
        check_clock_line(s, &seen->samples[i], n);
    }
}

/* CLOCK_… ids of the host are converted by the fit of the session, device clocks by their lines. */
bool kv_utc_ns(const kv_session *s, int32_t clock, int64_t time, int64_t *ns)
{
    static const int clocks[] = {[KINETO_PLUGIN_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
                                 [KINETO_PLUGIN_CLOCK_MONOTONIC_RAW] = CLOCK_MONOTONIC_RAW,
                                 [KINETO_PLUGIN_CLOCK_BOOTTIME] = CLOCK_BOOTTIME};
    if (clock < 0 || clock >= KV_MAX_CLOCKS)
        return false;
    if (clock == KINETO_PLUGIN_CLOCK_UTC)
        *ns = time;
    else if (clock == KINETO_PLUGIN_CLOCK_TICKS)
        *ns = kb_clock_fit_ns(&s->fit, (uint64_t)time);
    else if (clock < KINETO_PLUGIN_CLOCK_TICKS)
        *ns = kb_clock_fit_from_clock(&s->fit, clocks[clock], time);
    else
        *ns = kb_clock_line_ns(&s->lines[clock].line, time);
    return clock < KINETO_PLUGIN_CLOCK_DEVICE || s->lines[clock].usable;
}

/* ---- times ----------------------------------------------------------------------------------- */

typedef struct time_window {
    int64_t from, to;
} time_window;

/* With TOLERANCE_NS at both ends. */
static bool is_in_window(time_window w, int64_t ns)
{
    return ns >= w.from - TOLERANCE_NS && ns <= w.to + TOLERANCE_NS;
}

/* The usual mistakes: the unit or clock in which the time would lie in the session; "": none. */
static const char *guess_clock_mistake(const kv_session *s, time_window w, int64_t time)
{
    static const char *const names[] = {
        [KINETO_PLUGIN_CLOCK_MONOTONIC] = "CLOCK_MONOTONIC",
        [KINETO_PLUGIN_CLOCK_MONOTONIC_RAW] = "CLOCK_MONOTONIC_RAW",
        [KINETO_PLUGIN_CLOCK_BOOTTIME] = "CLOCK_BOOTTIME",
        [KINETO_PLUGIN_CLOCK_TICKS] = "ticks of the host",
    };
    int64_t ns;
    if (time < INT64_MAX / 1000 && time > 0 && is_in_window(w, time * 1000))
        return "; it would fit as us since the epoch";
    for (int32_t i = KINETO_PLUGIN_CLOCK_MONOTONIC; i <= KINETO_PLUGIN_CLOCK_TICKS; i++)
        if (kv_utc_ns(s, i, time, &ns) && is_in_window(w, ns))
            return names[i];
    return "";
}

/* Report a time outside the session, with the distance and a guess of the cause. */
static void check_event_time(kv_session *s, const kv_event *e, time_window w, int64_t time,
                             const char *edge)
{
    int64_t ns;
    char type[48];
    if (!kv_utc_ns(s, e->clock, time, &ns)) {
        kv_fault(s->k, KV_RULE_TIME_MONOTONIC_CLOCK, "an event uses clock %d, which has no samples",
                 e->clock);
        return;
    }
    if (is_in_window(w, ns))
        return;
    bool early = ns < w.from;
    const char *as = e->clock == KINETO_PLUGIN_CLOCK_UTC ? guess_clock_mistake(s, w, time) : "";
    double away = early ? (double)w.from - (double)ns : (double)ns - (double)w.to;
    kv_fault(s->k, KV_RULE_TIME_WINDOW, "an event (%s) %s %.3f s %s the session%s%s",
             kv_type_text(s->k, e->type, type, sizeof type), edge, away / 1e9,
             early ? "before" : "after", *as && *as != ';' ? "; it would fit as " : "", as);
}

/* Events that end before they begin: how many, and the first one. */
static void check_event_order(kv_session *s)
{
    const kv_seen *seen = s->k->seen;
    const kv_event *first = NULL;
    unsigned long long count = 0;
    for (size_t i = 0; i < seen->stored_count; i++) {
        const kv_event *e = &seen->events[i];
        if (e->end >= e->start)
            continue;
        first = first ? first : e;
        count++;
    }
    if (first)
        kv_fault(s->k, KV_RULE_TIME_ORDER,
                 "%llu of %llu events end before they begin; the first is event %zu, \"%s\", by %s: it begins at %lld ns "
                 "and ends at %lld ns",
                 count, (unsigned long long)seen->stored_count, (size_t)(first - seen->events) + 1, first->name,
                 kb_duration((int64_t)((uint64_t)first->start - (uint64_t)first->end)).s, (long long)first->start,
                 (long long)first->end);
}

/* The session begins with the earlier of its two clocks, and ends now. */
static void check_all_times(kv_session *s)
{
    kv_seen *seen = s->k->seen;
    check_event_order(s);
    time_window w = {s->before.realtime_ns, kb_clock_fit_ns(&s->fit, kb_ticks(kb_ticks_clock()))};
    w.from = KB_MIN(w.from, kb_clock_fit_ns(&s->fit, s->before.ticks));
    for (size_t i = 0; i < seen->stored_count; i++) {
        const kv_event *e = &seen->events[i];
        check_event_time(s, e, w, e->start, "begins");
        if (e->end > e->start)
            check_event_time(s, e, w, e->end, "ends");
        if (!e->named)
            kv_fault(s->k, KV_RULE_NAMES_TEXT, "an event has no name");
    }
}

/* ---- flows and ids --------------------------------------------------------------------------- */

/* `cut`: flows have ids of 32 bits, so only the lower half is compared. */
static bool was_id_pushed(const kv_session *s, uint64_t id, bool cut)
{
    for (size_t i = 0; i < s->pushed_count; i++)
        if ((cut ? (uint32_t)s->pushed[i] : s->pushed[i]) == id)
            return true;
    return false;
}

static int compare_flows(const void *left, const void *right)
{
    const kv_event *a = left, *b = right;
    if (a->flow_type != b->flow_type)
        return a->flow_type < b->flow_type ? -1 : 1;
    return (a->flow_id > b->flow_id) - (a->flow_id < b->flow_id);
}

/* True if losses were counted, or could not be counted, because the host is an old version. */
static bool may_flows_lack_ends(const kv_session *s)
{
    return s->k->seen->dropped || s->version == KV_HOST_REVISION_B ||
           s->version == KV_HOST_REVISION_0;
}

/* All events of one flow: exactly one start, and an end unless losses may explain its absence. */
static void check_flow_ends(kv_session *s, const kv_event *ends, size_t count)
{
    KB_ASSERT(count > 0);
    size_t starts = 0;
    bool lenient = may_flows_lack_ends(s);
    for (size_t i = 0; i < count; i++)
        starts += ends[i].flow_start;
    if (starts > 1)
        kv_fault(s->k, KV_RULE_FLOW_ENDS, "flow %u of type %d has %zu starts", ends->flow_id,
                 ends->flow_type, starts);
    else if (starts == count && !lenient)
        kv_fault(s->k, KV_RULE_FLOW_ENDS, "flow %u of type %d starts and has no end", ends->flow_id,
                 ends->flow_type);
    else if (!starts && !was_id_pushed(s, ends->flow_id, true) && !lenient)
        kv_fault(s->k, KV_RULE_FLOW_ENDS, "flow %u of type %d ends and has no start", ends->flow_id,
                 ends->flow_type);
}

/* Sorts the events: must be the last check. */
static void check_all_flows(kv_session *s)
{
    kv_seen *seen = s->k->seen;
    qsort(seen->events, seen->stored_count, sizeof *seen->events, compare_flows);
    for (size_t i = 0, n; i < seen->stored_count; i += n) {
        n = 1;
        while (i + n < seen->stored_count &&
               compare_flows(&seen->events[i], &seen->events[i + n]) == 0)
            n++;
        if (seen->events[i].flow_type)
            check_flow_ends(s, &seen->events[i], n);
    }
}

/* 0 is always allowed. */
static void check_external_ids(kv_session *s)
{
    kv_seen *seen = s->k->seen;
    for (size_t i = 0; i < seen->stored_count; i++) {
        uint64_t id = seen->events[i].external_id;
        if (id && !was_id_pushed(s, id, false))
            kv_fault(s->k, KV_RULE_IDS_PUSHED, "an event has the external id %llu",
                     (unsigned long long)id);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Activities of the host belong to a process and a thread, which need no announcement. */
static bool is_host_event(const kv_check *k, const kv_event *e)
{
    switch (kv_type_like(k, e->type)) {
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_USER_ANNOTATION:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMCPY:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_MEMSET:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_MTIA_CCP_EVENTS:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER:
    case KINETO_PLUGIN_PROFILE_EVENT_TYPE_COLLECTIVE_COMM:
        return !e->sample && (uint32_t)e->device == kb_os_pid();
    default:
        return true;
    }
}

/* A linear search: there are few devices and queues. */
static bool is_row_announced(const kv_seen *seen, bool is_device, int64_t device, int32_t resource)
{
    for (size_t i = 0; i < seen->row_count; i++) {
        const kv_row *row = &seen->rows[i];
        if (row->is_device == is_device && row->device == device &&
            (is_device || row->resource == resource))
            return true;
    }
    return false;
}

/* Events come in runs on the same row, which are checked once. */
static void check_rows(kv_session *s)
{
    kv_seen *seen = s->k->seen;
    const kv_event *before = NULL;
    for (size_t i = 0; i < seen->stored_count; i++) {
        const kv_event *e = &seen->events[i];
        bool same = before && before->device == e->device && before->resource == e->resource &&
                    before->sample == e->sample;
        if (same || is_host_event(s->k, e))
            continue;
        before = e;
        bool counter =
            kv_type_like(s->k, e->type) == KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER;
        if (!is_row_announced(seen, true, e->device, 0))
            kv_fault(s->k, KV_RULE_ROWS_ANNOUNCED, "device %d is not announced", e->device);
        else if (!counter && !is_row_announced(seen, false, e->device, e->resource))
            kv_fault(s->k, KV_RULE_ROWS_ANNOUNCED, "queue %d of device %d is not announced",
                     e->resource, e->device);
    }
}

/* ---- counts ---------------------------------------------------------------------------------- */

/* Counter samples may be among the requested events or not: both sums are accepted. */
static void check_counts(kv_session *s)
{
    const kv_seen *seen = s->k->seen;
    uint64_t known = seen->event_count + seen->refused + seen->dropped;
    if (!seen->requested || seen->requested == known ||
        seen->requested == known + seen->counter_count)
        return;
    kv_fault(s->k, KV_RULE_COUNTS_BALANCE,
             "%llu events were requested, %llu delivered, %llu counted as dropped",
             (unsigned long long)seen->requested,
             (unsigned long long)seen->event_count + seen->refused,
             (unsigned long long)seen->dropped);
}

/* Flows are checked only if all kinds were enabled: an end may be of a disabled kind. */
void kv_check_events(kv_session *s)
{
    if (s->quick)
        return;
    check_clocks(s);
    check_all_times(s);
    check_external_ids(s);
    check_rows(s);
    check_counts(s);
    if (s->kind_count == s->p->kind_count)
        check_all_flows(s);
}

/* A total order: two events compare equal only if all their members are equal. */
static int64_t compare_events(const kv_event *a, const kv_event *b)
{
    return a->start != b->start         ? (a->start < b->start ? -1 : 1)
           : a->end != b->end           ? (a->end < b->end ? -1 : 1)
           : a->event_id != b->event_id ? (a->event_id < b->event_id ? -1 : 1)
           : a->type != b->type         ? a->type - b->type
           : a->device != b->device     ? a->device - b->device
                                        : a->resource - b->resource;
}

static int compare_event_order(const void *left, const void *right)
{
    int64_t order = compare_events(left, right);
    return (order > 0) - (order < 0);
}

/* Sorts the events, and compares neighbours. */
uint64_t kv_count_duplicates(kv_check *k)
{
    kv_seen *seen = k->seen;
    uint64_t twice = 0;
    qsort(seen->events, seen->stored_count, sizeof *seen->events, compare_event_order);
    for (size_t i = 1; i < seen->stored_count; i++)
        twice += !seen->events[i].sample &&
                 compare_event_order(&seen->events[i - 1], &seen->events[i]) == 0;
    return twice;
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* The rule holds if something was checked; else it is untested, with the reason. */
static void report_rule(kv_check *k, kv_rule rule, uint64_t checked, const char *else_why)
{
    if (checked)
        kv_ok(k, rule, "%s", "");
    else
        kv_untested(k, rule, "%s", else_why);
}

/* Stored events that `matches` accepts. */
static uint64_t count_events(const kv_check *k, bool (*matches)(const kv_check *, const kv_event *))
{
    uint64_t count = 0;
    for (size_t i = 0; i < k->seen->stored_count; i++)
        count += matches(k, &k->seen->events[i]);
    return count;
}

static bool is_device_event(const kv_check *k, const kv_event *e) { return !is_host_event(k, e); }

static bool has_external_id(const kv_check *k, const kv_event *e)
{
    (void)k;
    return e->external_id != 0;
}

/* Faults that were reported before have precedence over these verdicts. */
void kv_report_event_rules(kv_check *k)
{
    static const kv_rule of_events[] = {KV_RULE_TIME_ORDER,        KV_RULE_TIME_WINDOW,
                                        KV_RULE_NAMES_TEXT,        KV_RULE_KINDS_ONLY_ENABLED,
                                        KV_RULE_BUILDER_AFTER_END, KV_RULE_BUILDER_THREAD};
    const kv_seen *seen = k->seen;
    const char *why = kv_why_no_events(k);
    bool any = seen->stored_count > 0;
    for (size_t i = 0; i < KB_COUNT(of_events); i++)
        report_rule(k, of_events[i], any, why);
    report_rule(k, KV_RULE_TIME_MONOTONIC_CLOCK, seen->sample_count,
                any ? "no device clock is used" : why);
    report_rule(k, KV_RULE_FLOW_ENDS, seen->flow_count, any ? "no event has a flow" : why);
    report_rule(k, KV_RULE_IDS_PUSHED, count_events(k, has_external_id),
                any ? "no event has an external id" : why);
    report_rule(k, KV_RULE_META_JSON, seen->metadata_count, any ? "no event has metadata" : why);
    report_rule(k, KV_RULE_META_KEYS, seen->metadata_count, any ? "no event has metadata" : why);
    report_rule(k, KV_RULE_ROWS_ANNOUNCED, count_events(k, is_device_event),
                any ? "no event is on a device" : why);
    report_rule(k, KV_RULE_COUNTS_BALANCE, seen->requested,
                any ? "it does not report how many events were requested (addCounts)" : why);
    report_rule(k, KV_RULE_COUNTERS_SAMPLES, seen->counter_count,
                any ? "no counter is sampled" : why);
    kv_ok(k, KV_RULE_SIZE_FILLED, "%s", "");
    kv_ok(k, KV_RULE_BUILDER_HANDLE, "%s", "");
}
