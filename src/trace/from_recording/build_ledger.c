/* What happened to the events of a recording, as lines of the trace's ledger. */
#include "trace/from_recording/build.h"

static void line(kt_build_state *s, const char *source, const char *reason, uint64_t count,
                 bool is_loss)
{
    if (count)
        kt_ledger_add(s->b, kb_string(source), kb_string(reason), count, is_loss, kb_string(""));
}

static void detail(kt_build_state *s, kineto_string source, const char *reason, uint64_t count,
                   bool is_loss, const char *text)
{
    kt_ledger_add(s->b, source, kb_string(reason), count, is_loss, kb_string(text));
}

/* An event takes 16 ticks of a processor at least, and there are 4096 processors at most. A count that is
 * higher was overwritten by a program. False also where the time is unknown. */
#define MOST_PER_TICK 256u
static bool is_impossible(const kt_build_state *s, uint64_t count)
{
    uint32_t last = s->snapshot_count ? s->snapshot_count - 1 : 0;
    uint64_t ticks = last ? s->snapshots[last].ticks - s->snapshots[0].ticks : 0;
    return ticks && ticks < UINT64_MAX / MOST_PER_TICK && count > ticks * MOST_PER_TICK;
}

static uint64_t counter(const kt_build_state *s, uint32_t source, uint32_t reason)
{
    uint64_t count = kb_load_relaxed(&s->control->counters[source][reason]);
    bool counts_down = reason == KF_REASON_NOT_ENDED; /* see not_ended */
    return !counts_down && is_impossible(s, count) ? 0 : count;
}

static void impossible_line(kt_build_state *s)
{
    uint64_t count = 0;
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++)
            count += reason != KF_REASON_NOT_ENDED &&
                     is_impossible(s, kb_load_relaxed(&s->control->counters[source][reason]));
    line(s, "recording", "counters that cannot be true, left out: a program wrote over them", count,
         true);
}

/* What had to make room was over before the part that is wanted of a ring begins. */
static bool evicted_is_older(const kt_build_state *s)
{
    return s->options.from_ns && s->control->forgotten_ticks < s->options.start_ticks;
}

/* Counted where it happened, and what came to light here. */
static uint64_t total(const kt_build_state *s, uint32_t source, uint32_t reason)
{
    uint64_t count = counter(s, source, reason);
    if (reason == KF_REASON_EVICTED && (evicted_is_older(s) || s->control->evicted_shift))
        count = 0; /* see evicted_line */
    if (reason == KF_REASON_BAD_TIME)
        count += s->bad_time[source];
    if (reason == KF_REASON_BAD_JSON && source != KF_SOURCE_API)
        count += s->bad_json[source];
    if (reason == KF_REASON_SHED && source == KF_SOURCE_API)
        count += s->shed;
    if (reason == KF_REASON_DELIVERED && source == KF_SOURCE_API)
        count = s->delivered;
    return count;
}

/* Requested events of which nothing more was heard: the program was killed, say. */
static uint64_t still_open(const kt_build_state *s, uint32_t source)
{
    uint64_t requested = counter(s, source, KF_REASON_REQUESTED);
    uint64_t known = counter(s, source, KF_REASON_DELIVERED);
    for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++)
        if (kf_reason_is_drop(reason) && reason != KF_REASON_EVICTED &&
            reason != KF_REASON_NOT_KEPT) /* these were delivered before */
            known += counter(s, source, reason);
    return source != KF_SOURCE_API && requested > known ? requested - known : 0;
}

/* A program that is killed, or calls _exit, takes with it what its sources had not handed over. The
 * count goes down when a session ends: below 0, it has begun in another recording. */
static void not_ended(kt_build_state *s, uint32_t source)
{
    uint64_t sessions = counter(s, source, KF_REASON_NOT_ENDED);
    if (s->options.is_over && source != KF_SOURCE_API && sessions && sessions <= INT64_MAX)
        detail(s, kt_build_source_name(s, source), kf_reason_text(KF_REASON_NOT_ENDED), sessions,
               false,
               "programs were killed, called _exit, or still run: what the source had not handed "
               "over by then is missing");
}

/* Of a ring only what had ended in the time that it was asked to hold: by period, not by source. */
static void evicted_line(kt_build_state *s)
{
    uint64_t all = 0, count;
    uint32_t sources = 0, only = 0;
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++) {
        uint64_t its = counter(s, source, KF_REASON_EVICTED);
        all += its;
        sources += its != 0;
        only = its ? source : only;
    }
    if (!all || !s->control->evicted_shift || evicted_is_older(s))
        return;
    uint64_t from = s->options.asked_from ? s->options.asked_from : s->options.start_ticks;
    count = KB_MIN(kf_evicted_since(s->control, from), all);
    if (count)
        kt_ledger_add(s->b, sources == 1 ? kt_build_source_name(s, only) : kb_string("all sources"),
                      kb_string(kf_reason_text(KF_REASON_EVICTED)), count, true,
                      kb_string("of the time that was asked for"));
}

/* Delivered is shown beside requested even when it is nothing. */
static void source_lines(kt_build_state *s, uint32_t source)
{
    kineto_string name = kt_build_source_name(s, source);
    bool requested = counter(s, source, KF_REASON_REQUESTED) != 0;
    for (uint32_t reason = 0; reason < KF_REASON_COUNT; reason++) {
        bool is_line = reason != KF_REASON_NOT_ENDED && reason != KF_REASON_IN_SPOOL;
        uint64_t count = is_line ? total(s, source, reason) : 0;
        if (count || (requested && reason == KF_REASON_DELIVERED))
            kt_ledger_add(s->b, name, kb_string(kf_reason_text(reason)), count,
                          kf_reason_is_drop(reason), kb_string(""));
    }
    not_ended(s, source);
    uint64_t open = still_open(s, source);
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

/* What was thrown away on purpose leaves gaps, and is counted in events elsewhere. */
static bool gaps_are_explained(const kt_build_state *s)
{
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        if (counter(s, source, KF_REASON_EVICTED) || counter(s, source, KF_REASON_NOT_KEPT))
            return true;
    return false;
}

static void decoder_lines(kt_build_state *s, const kf_decode_result *r)
{
    line(s, "recording", "malformed records, the rest of their segment was skipped", r->bad_records,
         true);
    line(s, "recording", "segments missing", r->missing_segments, !gaps_are_explained(s));
    line(s, "recording", "malformed entries of the name table", r->bad_entries + s->bad_entries,
         false);
    line(s, "recording", "ends without a begin", r->unmatched_ends, false);
    line(s, "recording", "flows and arguments without a range", r->unmatched_parts, false);
    line(s, "recording", "ranges without an end", r->open_ranges, false);
    line(s, "recording", "arguments were not JSON, quoted", s->bad_json[KF_SOURCE_API], false);
    line(s, "recording", "metadata was not JSON, quoted", s->bad_json_meta, false);
    line(s, "recording", "arguments too long", s->long_args, false);
    line(s, "recording", "events of a device clock that was never compared", s->no_clock, true);
}

static void clock_lines(kt_build_state *s)
{
    char text[200];
    kb_snprintf(text, sizeof text, "%u snapshots, %.9f ns per tick, largest distance %.0f ns",
             s->snapshot_count, s->fit.ns_per_tick, s->fit.residual_ns);
    detail(s, kb_string("clock"), "residual [ns]", (uint64_t)(s->fit.residual_ns + 0.5), false,
           text);
    if (s->fit.rate_is_rough)
        detail(s, kb_string("clock"), "rate from one reading", 1, false,
               "recorded in another boot, which read its clocks once: durations are about right");
    if (s->fit.realtime_step_ns) {
        kb_snprintf(text, sizeof text,
                 "the wall clock was set by %+.6f s while recording; times stay on the line of the "
                 "first snapshot",
                 (double)s->fit.realtime_step_ns / 1e9);
        detail(s, kb_string("clock"), "wall clock steps", 1, false, text);
    }
    for (size_t i = 0; i < s->clocks.count; i++) {
        const kt_device_clock *c = &s->clocks.data[i];
        if (!c->usable)
            continue;
        kb_snprintf(text, sizeof text, "%zu samples, %.9f ns per unit", c->samples.count,
                    c->line.rate);
        detail(s, c->name.size ? c->name : kb_string("device clock"), "residual [ns]",
               (uint64_t)(c->residual_ns + 0.5), false, text);
    }
}

void kt_build_ledger(kt_build_state *s, const kf_decode_result *result)
{
    s->shed = result->shed;
    for (uint32_t source = 0; source < KF_MAX_SOURCES; source++)
        source_lines(s, source);
    evicted_line(s);
    impossible_line(s);
    if (s->options.broken_off)
        detail(s, kb_string("recorder"), "died while recording", 1, false, s->options.broken_off);
    decoder_lines(s, result);
    clock_lines(s);
}
