/* The first pass, once over all columns: times, durations, window, order, names. It also fills
 * what later passes need: tracks, name hints, counts of kinds, and the rows with implausible
 * times, which all other rules leave out. */
#include "analyze/verify/verify.h"
#include "trace/model/steps.h"

/* The state of the first pass: a tally for each finding, and the worst values for their
 * sentences. */
typedef struct pass {
    ka_verify *v;
    ka_tally early, late, zero, absurd, outside, partly_outside, unsorted, unnamed, open, args_lost;
    uint64_t slices, timed;
    int64_t worst_ns, furthest_ns;
    bool has_window; /* that the rows do not fill by themselves */
    ka_tally without_id;
    uint64_t work_with_id;
} pass;

/* ---- what tracks and names are --------------------------------------------------------------- */

/* KA_NAME_ hints; names longer than 256 bytes are not of calls. */
static uint8_t classify_name(kineto_string s)
{
    uint64_t step;
    if (kt_step_number(s, &step))
        return KA_NAME_STEP;
    if (s.size > 256)
        return 0;
    if (kb_string_contains(s, "LaunchKernel") || kb_string_contains(s, "GraphLaunch") ||
        kb_string_contains(s, "ModuleLaunch") || kb_string_contains(s, "LaunchCooperative"))
        return KA_NAME_LAUNCH;
    if (kb_string_contains(s, "StreamBeginCapture"))
        return KA_NAME_CAPTURE;
    if (kb_string_contains(s, "StreamEndCapture"))
        return KA_NAME_CAPTURED;
    if (kb_string_contains(s, "__enter__") || kb_string_contains(s, "__exit__"))
        return KA_NAME_SCOPE;
    return kb_string_contains(s, "StreamWaitEvent") || kb_string_contains(s, "waitOnEvent")
               ? KA_NAME_WAIT
               : 0;
}

/* False: out of memory. */
static bool classify_tracks_and_names(ka_verify *v)
{
    v->track_count = kineto_trace_track_count(v->t);
    v->name_count = kineto_trace_string_count(v->t);
    v->tracks = calloc((size_t)v->track_count + 1, sizeof *v->tracks);
    v->names = calloc((size_t)v->name_count + 1, 1);
    if (!v->tracks || !v->names)
        return false;
    for (uint32_t i = 0; i < v->track_count; i++) {
        kineto_track track;
        kineto_trace_track(v->t, i, &track);
        v->tracks[i] = (ka_track){.process = track.process,
                                  .type = (uint8_t)track.type,
                                  .min_start_ns = INT64_MAX,
                                  .max_end_ns = INT64_MIN,
                                  .last_start_ns = INT64_MIN};
    }
    for (uint32_t i = 0; i < v->name_count; i++)
        v->names[i] = classify_name(kineto_trace_string(v->t, i));
    kineto_trace_window(v->t, &v->window_start_ns, &v->window_end_ns);
    return true;
}

/* ---- times that cannot be -------------------------------------------------------------------- */

/* Before the year 2000. */
static bool is_early(int64_t start) { return start < KA_EARLIEST_NS; }
/* After the year 2069. */
static bool is_late(int64_t end) { return end > KA_LATEST_NS; }

/* Are the times of this row checked? Not those of the recorder's own spans and of global
 * instants. */
static bool has_time(const ka_verify *v, const kt_block *b, uint32_t i)
{
    bool global = b->form[i] == KINETO_FORM_INSTANT && (b->flags[i] & KINETO_ACTIVITY_GLOBAL);
    return b->track[i] < v->track_count && b->kind[i] != KINETO_KIND_OVERHEAD && !global;
}

/* Rows whose times cannot be, unless all are early: then they count from something else. */
static void find_implausible(ka_verify *v)
{
    uint64_t rows = kineto_trace_count(v->t), early = 0, late = 0, timed = 0;
    bool any = false;
    for (uint32_t n = 0; n < kt_block_count(v->t) && !any; n++) {
        const kt_block *b = kt_block_at(v->t, n);
        any = is_early(b->min_start_ns) || is_late(b->max_end_ns);
    }
    uint64_t *bits = any ? calloc(rows / 64 + 1, sizeof *bits) : NULL;
    v->no_memory |= any && !bits;
    kineto_row row = 0;
    for (uint32_t n = 0; bits && n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; i < b->count; i++, row++) {
            if (!has_time(v, b, i))
                continue;
            bool first = is_early(b->start_ns[i]), last = is_late(b->end_ns[i]);
            timed++;
            early += first;
            late += !first && last;
            bits[row / 64] |= (uint64_t)(first || last) << row % 64;
        }
    }
    if (early + late && early < timed && late < timed)
        v->implausible = bits;
    else
        free(bits);
}

/* ---- one row --------------------------------------------------------------------------------- */

/* Counts early and late rows. */
static void check_time(pass *p, kineto_row row, int64_t start, int64_t end)
{
    p->timed++;
    if (is_early(start))
        ka_tally_add(p->v, &p->early, row);
    else if (is_late(end))
        ka_tally_add(p->v, &p->late, row);
}

/* Compare with the window; a rounded microsecond does not count. */
static void check_window(pass *p, kineto_row row, int64_t start, int64_t end)
{
    ka_verify *v = p->v;
    int64_t before = kb_length_ns(start, v->window_start_ns),
            after = kb_length_ns(v->window_end_ns, end);
    int64_t furthest = KB_MAX(before, after);
    if (furthest <= KA_ROUNDING_NS)
        return;
    bool touches = start <= v->window_end_ns && end >= v->window_start_ns;
    ka_tally_add(v, touches ? &p->partly_outside : &p->outside, row);
    p->furthest_ns = KB_MAX(p->furthest_ns, furthest);
}

/* Longer than the window, or than any activity can last. */
static void check_duration(pass *p, kineto_row row, const kt_block *b, uint32_t i, bool work)
{
    ka_verify *v = p->v;
    int64_t ns = kb_length_ns(b->start_ns[i], b->end_ns[i]);
    int64_t limit = work ? KA_DEVICE_LIMIT_NS : KA_HOST_LIMIT_NS;
    p->slices++;
    if (ns == 0)
        ka_tally_add(v, &p->zero, row);
    int64_t window = kb_length_ns(v->window_start_ns, v->window_end_ns);
    bool longer = ns > window && ns - window > KA_ROUNDING_NS;
    if (ns <= limit && !longer)
        return;
    ka_tally_add(v, &p->absurd, row);
    p->worst_ns = KB_MAX(p->worst_ns, ns);
}

/* Extent, order and contents of a track. */
static void update_track(pass *p, kineto_row row, ka_track *track, const kt_block *b, uint32_t i)
{
    uint32_t kind = b->kind[i];
    track->min_start_ns = KB_MIN(track->min_start_ns, b->start_ns[i]);
    track->max_end_ns = KB_MAX(track->max_end_ns, b->end_ns[i]);
    if (b->start_ns[i] < track->last_start_ns)
        ka_tally_add(p->v, &p->unsorted, row);
    track->last_start_ns = b->start_ns[i];
    if (b->form[i] != KINETO_FORM_SLICE)
        return;
    track->work += kt_kind_is_work(kind);
    track->host += ka_is_host(kind);
}

/* Counts launches and waits by name. */
static void count_call(pass *p, const kt_block *b, uint32_t i)
{
    uint8_t hint = p->v->names[KB_MIN(b->name[i], p->v->name_count)];
    p->v->launches += (hint & KA_NAME_LAUNCH) != 0;
    p->v->waits += (hint & KA_NAME_WAIT) != 0;
}

/* All checks of one row; rows with implausible times are left out of most. */
static void check_row(pass *p, kineto_row row, const kt_block *b, uint32_t i)
{
    ka_verify *v = p->v;
    uint32_t kind = b->kind[i], track = b->track[i], flags = b->flags[i];
    bool work = kt_kind_is_work(kind);
    v->kinds[KB_MIN(kind, KINETO_KIND_COUNT - 1u)]++;
    if (flags & KINETO_ACTIVITY_ARGS_LOST)
        ka_tally_add(v, &p->args_lost, row);
    if (flags & (KINETO_ACTIVITY_OPEN_START | KINETO_ACTIVITY_OPEN_END))
        ka_tally_add(v, &p->open, row);
    if (track >= v->track_count || kind == KINETO_KIND_OVERHEAD)
        return; /* spans of the recorder itself */
    bool implausible = ka_is_implausible(v, row);
    if (!implausible)
        update_track(p, row, &v->tracks[track], b, i);
    if (!has_time(v, b, i))
        return;
    check_time(p, row, b->start_ns[i], b->end_ns[i]);
    if (!b->name[i] && b->form[i] != KINETO_FORM_COUNTER)
        ka_tally_add(v, &p->unnamed, row);
    if (implausible)
        return;
    if (p->has_window && b->form[i] <= KINETO_FORM_ASYNC)
        check_window(p, row, b->start_ns[i], b->end_ns[i]);
    if (b->form[i] != KINETO_FORM_SLICE)
        return;
    check_duration(p, row, b, i, work);
    if (kt_kind_is_launch(kind))
        count_call(p, b, i);
    if (work && !b->correlation_id[i])
        ka_tally_add(v, &p->without_id, row);
    p->work_with_id += work && b->correlation_id[i];
}

/* ---- findings -------------------------------------------------------------------------------- */

/* A trace in which all times are early has another epoch, which is not a defect. */
static void report_times(pass *p)
{
    ka_verify *v = p->v;
    bool relative = p->early.count && p->early.count == p->timed;
    ka_find(v, relative ? KA_RULE_TIMES_RELATIVE : KA_RULE_TIMES_IMPLAUSIBLE,
            relative ? KINETO_SEVERITY_NOTE : KINETO_SEVERITY_ERROR, &p->early,
            relative
                ? "all times are before the year 2000: they count from something else than 1970"
                : "%llu of %llu activities are before the year 2000",
            (unsigned long long)p->early.count, (unsigned long long)p->timed);
    ka_find(v, KA_RULE_TIMES_IMPLAUSIBLE, KINETO_SEVERITY_ERROR, &p->late,
            "%llu of %llu activities are after the year 2069%s", (unsigned long long)p->late.count,
            (unsigned long long)p->timed,
            p->late.count == p->timed ? ": was the base time added to full times?" : "");
}

/* Most slices must be without duration before that is a finding. */
static void report_durations(pass *p)
{
    ka_verify *v = p->v;
    if (p->zero.count * 2 > p->slices && p->slices >= 10)
        ka_find(v, KA_RULE_DURATION_ZERO, KINETO_SEVERITY_NOTE, &p->zero,
                "%llu of %llu slices have a duration of 0", (unsigned long long)p->zero.count,
                (unsigned long long)p->slices);
    ka_find(v, KA_RULE_DURATION_ABSURD, KINETO_SEVERITY_WARNING, &p->absurd,
            "slices as long as %s in a window of %s", kb_duration(p->worst_ns).s,
            kb_duration(kb_length_ns(v->window_start_ns, v->window_end_ns)).s);
    ka_find(v, KA_RULE_WINDOW_OUTSIDE, KINETO_SEVERITY_WARNING, &p->outside,
            "activities wholly outside the window, by up to %s", kb_duration(p->furthest_ns).s);
    ka_find(v, KA_RULE_WINDOW_OUTSIDE, KINETO_SEVERITY_NOTE, &p->partly_outside,
            "activities lie partly outside the window, by up to %s", kb_duration(p->furthest_ns).s);
}

/* Rules that need no more than a count. */
static void report_other_rules(pass *p)
{
    ka_verify *v = p->v;
    ka_find(v, KA_RULE_ORDER_UNSORTED, KINETO_SEVERITY_NOTE, &p->unsorted,
            "activities are out of start order on their track");
    ka_find(v, KA_RULE_NAMES_EMPTY, KINETO_SEVERITY_WARNING, &p->unnamed,
            "activities have no name");
    ka_find(v, KA_RULE_ROWS_OPEN, KINETO_SEVERITY_NOTE, &p->open,
            "activities without their begin or end: under way when recording began or ended, or it "
            "was lost");
    ka_find(v, KA_RULE_ARGS_LOST, KINETO_SEVERITY_WARNING, &p->args_lost,
            "activities lost arguments");
    ka_find(v, KA_RULE_CORRELATION_ABSENT, KINETO_SEVERITY_NOTE, &p->without_id,
            "device activities have no correlation id; %llu others have one",
            (unsigned long long)p->work_with_id);
}

/* ka_find frees the tallies it is given; this frees those of rules that were skipped. */
static void free_row_tallies(pass *p)
{
    ka_tally *const all[] = {&p->early,   &p->late,           &p->zero,      &p->absurd,
                             &p->outside, &p->partly_outside, &p->unsorted,  &p->unnamed,
                             &p->open,    &p->args_lost,      &p->without_id};
    for (size_t i = 0; i < KB_COUNT(all); i++)
        kb_vec_free(&all[i]->rows);
}

/* The window is used only if the rows do not define it themselves. */
void ka_verify_rows(ka_verify *v)
{
    pass p = {.v = v};
    if (!classify_tracks_and_names(v)) {
        v->no_memory = true;
        return;
    }
    p.has_window = v->window_end_ns > v->window_start_ns;
    find_implausible(v);
    kineto_row row = 0;
    for (uint32_t n = 0; n < kt_block_count(v->t); n++) {
        const kt_block *b = kt_block_at(v->t, n);
        for (uint32_t i = 0; b && i < b->count; i++)
            check_row(&p, row++, b, i);
    }
    if (!row)
        ka_find_text(v, KA_RULE_ROWS_NONE, KINETO_SEVERITY_WARNING, 1, NULL, KINETO_NO_OFFSET,
                     "the trace is empty");
    report_times(&p);
    report_durations(&p);
    report_other_rules(&p);
    free_row_tallies(&p);
}
