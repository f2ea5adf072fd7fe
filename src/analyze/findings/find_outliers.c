/* Rules about what usually is short and sometimes takes long: steps, and ranges of the user. */
#include "analyze/findings/find_work.h"
#include "trace/bytes/json_text.h"

/* ---- slow steps ------------------------------------------------------------------------------ */

#define OUTLIER_PERCENT 0.5
#define MIN_STEPS       4u
#define FEW_STEPS       10u  /* of so few the deviation is not known well: … */
#define FEW_PERCENT     20.0 /* … a step must be longer than the median by this to count */

/* Sums over outlier steps. Durations are what steps take beyond the median. */
typedef struct outliers {
    uint64_t count;
    int64_t over_ns, worst_ns;
    uint64_t worst; /* row of the table */
    double explained_ns; /* of the worst: what the first thing in it took longer */
} outliers;

/* Rows of one step follow one another. */
static bool is_same_step(const ka_table *t, uint64_t a, uint64_t b)
{
    return kb_string_equal(ka_text_at(t, a, KA_COL_step_outliers_step),
                           ka_text_at(t, b, KA_COL_step_outliers_step));
}

/* 0 if the median is not a plausible number of nanoseconds. */
static int64_t ns_over_median(const ka_table *t, uint64_t row)
{
    double median = 1000 * ka_fact_number(t, row, KA_COL_step_outliers_median_us);
    int64_t ns = ka_fact_int(t, row, KA_COL_step_outliers_dur_us);
    return median > 0 && median < 9e18 ? ns - (int64_t)median : 0;
}

/* With fewer than FEW_STEPS steps the deviation is not known well: then a step must be longer
 * than the median by FEW_PERCENT. */
static bool is_clear_outlier(const ka_finder *f, const ka_table *t, uint64_t row)
{
    double median = 1000 * ka_fact_number(t, row, KA_COL_step_outliers_median_us);
    return f->step_count >= FEW_STEPS ||
           ka_percent((double)ns_over_median(t, row), median) >= FEW_PERCENT;
}

/* A step has a row for each thing that took longer in it, one after the other. */
static outliers sum_outliers(const ka_finder *f, const ka_table *t)
{
    outliers o = {0};
    for (uint64_t row = 0; row < ka_table_rows(t); row++) {
        int64_t over = ns_over_median(t, row);
        if ((row && is_same_step(t, row, row - 1)) || !is_clear_outlier(f, t, row))
            continue;
        o.count++;
        o.over_ns = ka_add_ns(o.over_ns, over);
        if (over > o.worst_ns) {
            o.worst_ns = over;
            o.worst = row;
            o.explained_ns = 1000 * ka_fact_number(t, row, KA_COL_step_outliers_delta_us);
        }
    }
    return o;
}

/* Slice of the step with this number; KA_NONE: no such step was selected. */
static uint32_t slice_of_step(const ka_dataset *s, kineto_string text)
{
    uint64_t number;
    if (!kt_json_uint(text, &number))
        return KA_NONE;
    for (uint32_t i = 0; i < s->step_count; i++)
        if (s->steps[i].slice != KA_NONE && s->steps[i].number == number)
            return s->steps[i].slice;
    return KA_NONE;
}

/* What took longer, of a row: "the thread was blocked in usleep for 40.100 ms", "aten::mm took longer by
 * 1.200 ms", or that nothing that was recorded did. */
static kb_text describe_cause(const ka_table *t, uint64_t row)
{
    kb_text text;
    kb_text what = ka_short_name(ka_text_at(t, row, KA_COL_step_outliers_what));
    kineto_string kind = ka_text_at(t, row, KA_COL_step_outliers_kind);
    double more = ka_fact_number(t, row, KA_COL_step_outliers_delta_us),
           took = ka_fact_number(t, row, KA_COL_step_outliers_took_us);
    if (!(more > 0 && more < 9e12))
        kb_snprintf(text.s, sizeof text.s, "%s took longer", what.s);
    else if (kb_string_is(kind, "thread"))
        kb_snprintf(text.s, sizeof text.s, "the thread was %s for %s", what.s,
                    kb_duration((int64_t)(1000 * KB_MIN(took, 9e12))).s);
    else
        kb_snprintf(text.s, sizeof text.s, "%s took longer by %s", what.s,
                    kb_duration((int64_t)(1000 * more)).s);
    return text;
}

static void show_outliers(ka_finder *f, ka_found *x, const ka_table *t)
{
    for (uint64_t row = 0, shown = 0; row < ka_table_rows(t) && shown < 1000; row++) {
        if ((row && is_same_step(t, row, row - 1)) || !is_clear_outlier(f, t, row))
            continue;
        uint32_t slice = slice_of_step(f->s, ka_text_at(t, row, KA_COL_step_outliers_step));
        if (slice == KA_NONE)
            continue;
        shown++;
        ka_show_row(f, x, f->s->slices[slice].row, ns_over_median(t, row), "%s over the median; %s",
                    kb_duration(ns_over_median(t, row)).s, describe_cause(t, row).s);
    }
}

#define EXPLAINED 0.5 /* of what the worst step takes longer: then it is named as the reason */

/* Does one named activity explain at least half of what the worst step takes longer? */
static bool is_explained(const outliers *o, kineto_string what)
{
    return o->explained_ns >= EXPLAINED * (double)o->worst_ns &&
           !kb_string_starts_with(what, "outside of") && !kb_string_starts_with(what, "nothing");
}

/* What the program is written in decides how more can be recorded. */
static void advise_unexplained(ka_finder *f, ka_found *x, const char *step)
{
    if (f->has & (KA_NEEDS_OPERATORS | KA_NEEDS_PYTHON))
        ka_advise(f, x,
                  "No operator explains step %s: record it with_stack=True; garbage collection "
                  "(gc.disable(), then gc.collect() between epochs), logging, checkpoints and "
                  "other programs on the machine are the usual reasons",
                  step);
    else
        ka_advise(f, x,
                  "Nothing that was recorded explains step %s: record with 'ckineto record --waits' (or "
                  "--off-cpu), which shows whether its thread is blocked and in which call",
                  step);
}

static void advise_state(ka_finder *f, ka_found *x, kineto_string what, const char *step)
{
    if (kb_string_is(what, "blocked"))
        ka_advise(f, x,
                  "Record with 'ckineto record --waits' (or --off-cpu): it names the call in which the thread "
                  "of step %s is blocked", step);
    else if (kb_string_is(what, "waiting for a CPU"))
        ka_advise(f, x,
                  "Other threads or programs had the CPUs during step %s: start no more threads than CPUs, and "
                  "see what else runs on the machine", step);
    else if (kb_string_is(what, "running"))
        ka_advise(f, x,
                  "The thread of step %s computes more than in other steps: CPU samples ('ckineto record') "
                  "and ranges show in which function", step);
    else
        ka_advise(f, x,
                  "Look at what the thread of step %s waits for (%s): move the wait out of the step, or into "
                  "another thread", step, ka_short_name(what).s);
}

static void advise_outliers(ka_finder *f, ka_found *x, const outliers *o, kineto_string what,
                            kineto_string kind, const char *step)
{
    if (!is_explained(o, what))
        advise_unexplained(f, x, step);
    else if (kb_string_is(kind, "thread"))
        advise_state(f, x, what, step);
    else
        ka_advise(f, x,
                  "Look at %s in step %s ('ckineto analyze --only step_outliers' lists what "
                  "differs): evaluation, logging and checkpoints belong outside of timed steps, or "
                  "into another thread",
                  ka_short_name(what).s, step);
}

static void report_outliers(ka_finder *f, const ka_table *t, const outliers *o)
{
    kineto_string what = ka_text_at(t, o->worst, KA_COL_step_outliers_what);
    kineto_string kind = ka_text_at(t, o->worst, KA_COL_step_outliers_kind);
    const ka_table *all = ka_fact_table(f, KA_TABLE_step_statistics);
    int64_t warm_up =
        ka_table_rows(all) ? ka_fact_int(all, 0, KA_COL_step_statistics_warm_up) : 0;
    kb_text step = ka_short_name(ka_text_at(t, o->worst, KA_COL_step_outliers_step));
    double median = ka_fact_number(t, o->worst, KA_COL_step_outliers_median_us);
    ka_found *x = ka_open_finding(f, o->over_ns, 0.4, kb_string(""));
    if (!x)
        return;
    x->count = o->count;
    ka_say(f, x,
           "%llu of %lld steps%s %s longer than the median of %s and the usual deviations from it, "
           "by at "
           "most %s in all; step %s most, by %s: %s",
           (unsigned long long)o->count, (long long)(f->step_count - warm_up),
           warm_up ? " after the warm-up" : "", o->count == 1 ? "is" : "are",
           kb_duration((int64_t)(1000 * median)).s, kb_duration(o->over_ns).s, step.s,
           kb_duration(o->worst_ns).s,
           is_explained(o, what) ? describe_cause(t, o->worst).s : "no recorded activity explains most of it");
    advise_outliers(f, x, o, what, kind, step.s);
    show_outliers(f, x, t);
}

/* Outliers of step_outliers, with what took longer in the worst. */
void ka_find_slow_steps(ka_finder *f)
{
    const ka_table *t = ka_fact_table(f, KA_TABLE_step_outliers);
    outliers o = sum_outliers(f, t);
    if (f->step_count < MIN_STEPS) {
        ka_skip_rule(f, "%u steps are too few to find outliers: record %u or more",
                        f->step_count, MIN_STEPS);
        return;
    }
    if (!o.count || !ka_is_significant(f, o.over_ns, OUTLIER_PERCENT))
        return;
    report_outliers(f, t, &o);
}
