/* Writes the ledger of a trace from a recording: for each source and reason of KF_REASON_…
 * (format/format.h) how many events were requested, delivered and lost, by the counters on
 * the control page and by the counts of building. The last pass that counts. Counters are
 * untrusted: impossible ones are dropped. */
#include "trace/from_recording/build.h"

/* Adds a line about the recording itself, unless the count is 0. */
static void add_recording_line(kt_build_state *s, const char *reason, uint64_t count, bool is_loss)
{
    if (count)
        kt_ledger_add(s->b, kb_string("recording"), kb_string(reason), count, is_loss,
                      kb_string(""));
}

/* Adds a line with a detail. */
static void add_detail_line(kt_build_state *s, kineto_string source, const char *reason,
                            uint64_t count, bool is_loss, const char *text)
{
    kt_ledger_add(s->b, source, kb_string(reason), count, is_loss, kb_string(text));
}

/* The limit for events per tick: an event takes at least 16 ticks of a processor, and there
 * are at most 4096 processors. */
#define MAX_EVENTS_PER_TICK 256u

/* True if a counter is higher than is possible: a program overwrote it. False if the time
 * is unknown. */
static bool is_impossible_count(const kt_build_state *s, uint64_t count)
{
    uint32_t last = s->snapshot_count ? s->snapshot_count - 1 : 0;
    uint64_t ticks = last ? s->snapshots[last].ticks - s->snapshots[0].ticks : 0;
    return ticks && ticks < UINT64_MAX / MAX_EVENTS_PER_TICK && count > ticks * MAX_EVENTS_PER_TICK;
}

/* A counter of the control page; 0 if it is impossible. */
static uint64_t read_counter(const kt_build_state *s, uint32_t source, uint32_t reason)
{
    KB_ASSERT(source < KF_MAX_SOURCES && reason < KF_REASON_COUNT);
    uint64_t count = kb_load_relaxed(&s->control->counters[source][reason]);
    bool counts_down = reason == KF_REASON_NOT_ENDED; /* see add_unended_sessions_line */
    return !counts_down && is_impossible_count(s, count) ? 0 : count;
}

/* Counts the impossible counters. */
static void add_impossible_counters_line(kt_build_state *s)
{
    uint64_t count = 0;
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++)
            count += reason != KF_REASON_NOT_ENDED &&
                     is_impossible_count(s, kb_load_relaxed(&s->control->counters[source][reason]));
    add_recording_line(s, "impossible counters ignored: a program overwrote them", count, true);
}

/* True if all evicted events ended before the requested part of a ring begins. */
static bool is_evicted_before_window(const kt_build_state *s)
{
    return s->options.from_ns && s->control->forgotten_ticks < s->options.start_ticks;
}

/* The count of a line: the recorder's counter, and the counts of building. */
static uint64_t total_of_reason(const kt_build_state *s, uint32_t source, uint32_t reason)
{
    uint64_t count = read_counter(s, source, reason);
    if (reason == KF_REASON_EVICTED && (is_evicted_before_window(s) || s->control->evicted_shift))
        count = 0; /* add_evicted_line adds it by period */
    if (reason == KF_REASON_BAD_TIME)
        count += s->bad_time[source];
    if (reason == KF_REASON_BAD_JSON && source != KF_SOURCE_API)
        count += s->bad_json[source];
    if (reason == KF_REASON_THROTTLED && source == KF_SOURCE_API)
        count += s->decoded.throttled;
    if (reason == KF_REASON_DELIVERED && source == KF_SOURCE_API)
        count = s->delivered;
    return count;
}

/* Requested events that were neither delivered nor counted as lost, as when the program was
 * killed. */
static uint64_t count_events_under_way(const kt_build_state *s, uint32_t source)
{
    uint64_t requested = read_counter(s, source, KF_REASON_REQUESTED);
    uint64_t known = read_counter(s, source, KF_REASON_DELIVERED);
    for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++)
        if (kf_reason_is_drop(reason) && reason != KF_REASON_EVICTED &&
            reason != KF_REASON_NOT_KEPT) /* those two were delivered before */
            known += read_counter(s, source, reason);
    return source != KF_SOURCE_API && requested > known ? requested - known : 0;
}

/* Adds a line for sessions of sources that did not end: a program that is killed or calls
 * _exit loses the events that its sources had not delivered. The counter goes down when a
 * session ends; it is negative if the session began in another recording. */
static void add_unended_sessions_line(kt_build_state *s, uint32_t source)
{
    uint64_t sessions = read_counter(s, source, KF_REASON_NOT_ENDED);
    if (s->options.is_over && source != KF_SOURCE_API && sessions && sessions <= INT64_MAX)
        add_detail_line(s, kt_build_source_name(s, source), kf_reason_text(KF_REASON_NOT_ENDED),
                        sessions, false,
               "programs were killed, called _exit, or still run: events that the source had not "
                        "delivered are missing");
}

/* Adds a line for events that a ring evicted in the time that it was requested to hold.
 * They are counted by period, not by source. */
static void add_evicted_line(kt_build_state *s)
{
    uint64_t all = 0, count;
    uint32_t sources = 0, only = 0;
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++) {
        uint64_t its = read_counter(s, source, KF_REASON_EVICTED);
        all += its;
        sources += its != 0;
        only = its ? source : only;
    }
    if (!all || !s->control->evicted_shift || is_evicted_before_window(s))
        return;
    uint64_t from = s->options.requested_from ? s->options.requested_from : s->options.start_ticks;
    count = kb_min_u64(kf_evicted_since(s->control, from), all);
    if (count)
        kt_ledger_add(s->b, sources == 1 ? kt_build_source_name(s, only) : kb_string("all sources"),
                      kb_string(kf_reason_text(KF_REASON_EVICTED)), count, true,
                      kb_string("of the requested time"));
}

/* Adds the lines of one source. "Delivered" appears next to "requested" also if it is 0. */
static void add_source_lines(kt_build_state *s, uint32_t source)
{
    kineto_string name = kt_build_source_name(s, source);
    bool requested = read_counter(s, source, KF_REASON_REQUESTED) != 0;
    for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++) {
        bool is_line = reason != KF_REASON_NOT_ENDED && reason != KF_REASON_IN_SPOOL;
        uint64_t count = is_line ? total_of_reason(s, source, reason) : 0;
        if (count || (requested && reason == KF_REASON_DELIVERED))
            kt_ledger_add(s->b, name, kb_string(kf_reason_text(reason)), count,
                          kf_reason_is_drop(reason), kb_string(""));
    }
    add_unended_sessions_line(s, source);
    uint64_t open = count_events_under_way(s, source);
    if (open)
        kt_ledger_add(s->b, name, kb_string("still under way at the end"), open, true,
                      kb_string("requested, and neither delivered nor known to be lost"));
    if (s->out_of_window[source])
        kt_ledger_add(s->b, name, kb_string("outside the window"), s->out_of_window[source], false,
                      kb_string(""));
    if (s->cut_time[source])
        kt_ledger_add(s->b, name, kb_string("days outside the window, cut"), s->cut_time[source],
                      false, kb_string(""));
}

/* True if segments are missing because they were dropped on purpose: their events are
 * counted elsewhere. */
static bool has_intended_gaps(const kt_build_state *s)
{
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        if (read_counter(s, source, KF_REASON_EVICTED) ||
            read_counter(s, source, KF_REASON_NOT_KEPT))
            return true;
    return false;
}

/* Adds the counts of the decoder. */
static void add_decoder_lines(kt_build_state *s, const kf_decode_result *r)
{
    add_recording_line(s, "malformed records, the rest of their segment was skipped",
                       r->bad_records, true);
    add_recording_line(s, "segments missing", r->missing_segments, !has_intended_gaps(s));
    add_recording_line(s, "malformed entries of the name table", r->bad_entries + s->bad_entries,
                       false);
    add_recording_line(s, "ends without a begin", r->unmatched_ends, false);
    add_recording_line(s, "flows and arguments without a range", r->unmatched_parts, false);
    add_recording_line(s, "ranges without an end", r->open_ranges, false);
    add_recording_line(s, "arguments were not JSON, quoted", s->bad_json[KF_SOURCE_API], false);
    add_recording_line(s, "metadata was not JSON, quoted", s->bad_json_meta, false);
    add_recording_line(s, "arguments too long", s->long_args, false);
    add_recording_line(s, "events of a device clock that was never compared", s->no_clock, true);
}

/* Adds the quality of the clocks: residuals, steps of the wall clock. */
static void add_clock_lines(kt_build_state *s)
{
    char text[200];
    kb_snprintf(text, sizeof text, "%u snapshots, %.9f ns per tick, largest distance %.0f ns",
                s->snapshot_count, s->fit.ns_per_tick, s->fit.residual_ns);
    add_detail_line(s, kb_string("clock"), "residual [ns]", (uint64_t)(s->fit.residual_ns + 0.5),
                    false, text);
    if (s->fit.rate_is_rough)
        add_detail_line(s, kb_string("clock"), "rate from one reading", 1, false,
                        "recorded in another boot, which read its clocks once: durations are "
                        "about right");
    if (s->fit.realtime_step_ns) {
        kb_snprintf(text, sizeof text,
                 "the wall clock was set by %+.6f s while recording; times stay on the line of the "
                    "first snapshot",
                    (double)s->fit.realtime_step_ns / 1e9);
        add_detail_line(s, kb_string("clock"), "wall clock steps", 1, false, text);
    }
    for (size_t i = 0; i < s->clocks.count; i++) {
        const kt_device_clock *c = &s->clocks.data[i];
        if (!c->usable)
            continue;
        kb_snprintf(text, sizeof text, "%zu samples, %.9f ns per unit", c->samples.count,
                    c->line.rate);
        add_detail_line(s, c->name.size ? c->name : kb_string("device clock"), "residual [ns]",
                        (uint64_t)(c->residual_ns + 0.5), false, text);
    }
}

/* Events of pauses are in no line, so that a line says how long they were, within the window. */
static void add_pause_line(kt_build_state *s)
{
    char text[96];
    uint64_t count = 0;
    int64_t sum_ns = 0;
    for (size_t i = 0; i < s->options.pause_count; i++) {
        const kt_build_thread_span *pause = &s->options.pauses[i];
        int64_t from_ns = KB_MAX(kb_clock_fit_ns(&s->fit, pause->from_ticks), s->start_ns);
        int64_t to_ns = pause->to_ticks ? kb_clock_fit_ns(&s->fit, pause->to_ticks) : s->end_ns;
        to_ns = KB_MIN(to_ns, s->end_ns);
        count += to_ns >= from_ns;
        sum_ns += to_ns > from_ns ? kb_length_ns(from_ns, to_ns) : 0;
    }
    if (!count)
        return;
    kb_snprintf(text, sizeof text, "%s in all, without events in the trace", kb_duration(sum_ns).s);
    add_detail_line(s, kb_string("session"), "times recording was paused", count, false, text);
}

void kt_build_ledger(kt_build_state *s)
{
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        add_source_lines(s, source);
    add_pause_line(s);
    add_evicted_line(s);
    add_impossible_counters_line(s);
    if (s->options.incomplete_reason)
        add_detail_line(s, kb_string("recorder"), "died while recording", 1, false,
                        s->options.incomplete_reason);
    add_decoder_lines(s, &s->decoded);
    add_clock_lines(s);
    kt_build_inlined_line(s, "call stacks");
}
