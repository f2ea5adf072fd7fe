/* The tables step_statistics and step_outliers: warm-up, median and median absolute deviation
 * of steps, and the things that took longer in outliers than their median over all steps.
 *
 * The MAD is robust: one slow step does not widen the limit for the others. The contents of a
 * step are merged by name and compared with their medians. */
#include "analyze/facts/step_contents.h"

/* The first steps are warm-up while they exceed the median by 3 MAD; an outlier exceeds it by
 * 3.5 standard deviations (Iglewicz and Hoaglin's limit for modified z-scores). MAD_TO_SIGMA
 * makes the MAD of a normal distribution its standard deviation. */
#define WARM_UP_DEVIATIONS 3.0
#define OUTLIER_DEVIATIONS 3.5
#define MAD_TO_SIGMA       1.4826
#define MIN_SHARE        0.05 /* of the median that a step must be longer by */
#define MAX_DIFFERENCES   3u

/* ---- durations ------------------------------------------------------------------------------- */

static double step_us(const ka_step *s) { return ka_us(kb_length_ns(s->start_ns, s->end_ns)); }

/* Median and MAD of the steps from `first` on. ka_median reorders its values, hence `room`, a
 * copy of them. */
static void describe_steps(ka_durations *d, double *room, uint32_t first)
{
    memcpy(room, d->us + first, (d->count - first) * sizeof *room);
    d->median = ka_median(room, d->count - first);
    d->mad = ka_mad(room, d->count - first, d->median);
}

/* Longer than the median by more than `allowed` us. MIN_SHARE keeps tiny differences of very
 * even steps out. */
static bool is_long(const ka_durations *d, uint32_t step, double allowed)
{
    double over = d->us[step] - d->median;
    return over > allowed && over > MIN_SHARE * d->median;
}

static bool is_outlier(const ka_durations *d, uint32_t step)
{
    return step >= d->warm_up && is_long(d, step, OUTLIER_DEVIATIONS * MAD_TO_SIGMA * d->mad);
}

bool ka_durations_make(ka_durations *d, const ka_dataset *s, uint32_t process)
{
    double *room = malloc((size_t)s->step_count * sizeof *room + 1);
    *d = (ka_durations){.us = malloc((size_t)s->step_count * sizeof *d->us + 1),
                        .step = malloc((size_t)s->step_count * sizeof *d->step + 1),
                        .place = malloc((size_t)s->step_count * sizeof *d->place + 1)};
    bool ok = room && d->us && d->step && d->place;
    for (uint32_t i = 0; ok && i < s->step_count; i++) {
        bool counts =
            s->steps[i].slice != KA_NONE && (process == KA_NONE || process == s->steps[i].process);
        d->place[i] = counts ? (int32_t)d->count : -1;
        if (!counts)
            continue;
        KB_ASSERT(d->count <= i);
        d->step[d->count] = i;
        d->us[d->count++] = step_us(&s->steps[i]);
    }
    if (ok && d->count) {
        describe_steps(d, room, 0);
        while (d->warm_up + 1 < d->count && is_long(d, d->warm_up, WARM_UP_DEVIATIONS * d->mad))
            d->warm_up++;
        describe_steps(d, room, d->warm_up);
    }
    free(room);
    return ok;
}

void ka_durations_free(ka_durations *d)
{
    free(d->us);
    free(d->step);
    free(d->place);
}

/* The row of a rank; the extremes and outliers are of steps after the warm-up. */
static void put_statistics(const ka_dataset *s, const ka_durations *d, ka_table *t)
{
    int64_t least = INT64_MAX, most = 0, outliers = 0;
    for (uint32_t i = d->warm_up; i < d->count; i++) {
        const ka_step *step = &s->steps[d->step[i]];
        int64_t ns = kb_length_ns(step->start_ns, step->end_ns);
        least = KB_MIN(least, ns);
        most = KB_MAX(most, ns);
        outliers += is_outlier(d, i);
    }
    ka_put_int(t, s->rank);
    ka_put_int(t, d->count);
    ka_put_int(t, d->warm_up);
    ka_put_number(t, d->median);
    ka_put_number(t, d->mad);
    ka_put_ns(t, least);
    ka_put_ns(t, most);
    ka_put_int(t, outliers);
}

/* ---- what differs ---------------------------------------------------------------------------- */

#define MAX_CANDIDATES 8u /* of which the most exact MAX_DIFFERENCES are shown */
#define MIN_PART       0.8 /* of a difference, that a part of it must explain to be shown in its place */

typedef struct difference {
    uint64_t key;
    double us, took_us; /* more than the median; in all */
} difference;

typedef struct differences {
    difference most[MAX_CANDIDATES];
    uint32_t count;
} differences;

/* Keeps the MAX_CANDIDATES largest in falling order, by insertion; what did not take longer
 * is left out. */
static void keep_largest_difference(differences *d, difference one)
{
    if (one.us <= 0 || (d->count == MAX_CANDIDATES && one.us <= d->most[d->count - 1].us))
        return;
    uint32_t at = d->count < MAX_CANDIDATES ? d->count++ : MAX_CANDIDATES - 1;
    for (; at > 0 && d->most[at - 1].us < one.us; at--)
        d->most[at] = d->most[at - 1];
    d->most[at] = one;
}

/* Is another difference a part of this one, and nearly all of it? */
static bool is_explained_by_part(const ka_step_contents *c, const differences *d, uint32_t index)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (i != index && ka_content_is_part(c, d->most[i].key, d->most[index].key) &&
            d->most[i].us >= MIN_PART * d->most[index].us)
            return true;
    return false;
}

/* Drops differences that others name more exactly, and those after the first MAX_DIFFERENCES. */
static void keep_exact_differences(const ka_step_contents *c, differences *d)
{
    differences kept = {.count = 0};
    for (uint32_t i = 0; i < d->count && kept.count < MAX_DIFFERENCES; i++)
        if (!is_explained_by_part(c, d, i))
            kept.most[kept.count++] = d->most[i];
    *d = kept;
}

/* Compares one thing over all steps: portions [from, to) have its key. A step without it
 * counts as 0, so the median is 0 if fewer than half have it. `of` is by place in d; `room`
 * holds d->count values. */
static void compare_steps(const ka_step_contents *c, const ka_durations *d, size_t from, size_t to,
                          double *room, differences *of)
{
    uint32_t count = 0, steps = d->count - d->warm_up;
    for (size_t i = from; i < to; i++)
        if (d->place[c->portions.data[i].step] >= (int32_t)d->warm_up)
            room[count++] = ka_us(KB_MAX(c->portions.data[i].ns, 0));
    memset(room + count, 0, (steps - count) * sizeof *room);
    double median = 2 * count < steps ? 0 : ka_median(room, steps);
    for (size_t i = from; i < to; i++) {
        const ka_portion *p = &c->portions.data[i];
        int32_t place = d->place[p->step];
        if (place >= 0 && is_outlier(d, (uint32_t)place))
            keep_largest_difference(&of[place],
                                    (difference){p->key, ka_us(p->ns) - median, ka_us(p->ns)});
    }
}

/* `what` NULL: everything that was recorded took as long as in other steps. */
static void put_outlier(const ka_step_contents *c, const ka_durations *d, uint32_t place,
                        const difference *what, ka_table *t)
{
    const ka_step *step = &c->s->steps[d->step[place]];
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)step->number);
    ka_put_int(t, c->s->rank);
    ka_put_text(t, kb_string(text));
    ka_put_ns(t, kb_length_ns(step->start_ns, step->end_ns));
    ka_put_number(t, d->median);
    if (d->mad > 0)
        ka_put_number(t, (d->us[place] - d->median) / (MAD_TO_SIGMA * d->mad));
    else
        ka_put_none(t);
    ka_put_text(t, what ? ka_content_text(c, what->key) : kb_string("nothing that was recorded"));
    ka_put_text(t, kb_string(what ? ka_content_kind_text(c, what->key) : ""));
    if (!what) {
        ka_put_none(t);
        ka_put_none(t);
        return;
    }
    ka_put_number(t, what->us);
    ka_put_number(t, what->took_us);
}

/* Groups portions by key, compares each group, then writes a row for each difference of each
 * outlier. False: out of memory. */
static bool put_outliers(const ka_dataset *s, const ka_durations *d, ka_table *t)
{
    ka_step_contents c;
    differences *of = calloc((size_t)d->count + 1, sizeof *of);
    double *room = malloc((size_t)d->count * sizeof *room + 1);
    bool ok = ka_step_contents_make(&c, s) && of && room;
    for (size_t from = 0, to; ok && from < c.portions.count; from = to) {
        for (to = from + 1; to < c.portions.count;)
            if (c.portions.data[to].key != c.portions.data[from].key)
                break;
            else
                to++;
        compare_steps(&c, d, from, to, room, of);
    }
    for (uint32_t i = d->warm_up; ok && i < d->count; i++) {
        keep_exact_differences(&c, &of[i]);
        for (uint32_t k = 0; is_outlier(d, i) && k < KB_MAX(of[i].count, 1u); k++)
            put_outlier(&c, d, i, of[i].count ? &of[i].most[k] : NULL, t);
    }
    ka_step_contents_free(&c);
    free(of);
    free(room);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool has_outlier(const ka_durations *d)
{
    for (uint32_t i = d->warm_up; i < d->count; i++)
        if (is_outlier(d, i))
            return true;
    return false;
}

/* Tables step_statistics and step_outliers. The first steps count as warm-up while they are
 * outliers. */
kineto_status ka_analyze_step_statistics(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *statistics = ka_table_of(a, KA_TABLE_step_statistics),
             *outliers = ka_table_of(a, KA_TABLE_step_outliers);
    const char *none = "the trace has no steps: mark them with ranges named ProfilerStep#N";
    ka_durations d = {0};
    bool ok = ka_durations_make(&d, s, KA_NONE);
    if (ok && !d.count) {
        ka_durations_free(&d);
        ka_note(statistics, "%s", none);
        ka_note(outliers, "%s", none);
        return KINETO_OK;
    }
    if (ok && statistics)
        put_statistics(s, &d, statistics);
    if (ok && outliers && has_outlier(&d))
        ok = put_outliers(s, &d, outliers);
    else if (ok && d.count < 4)
        ka_note(outliers, "%u step%s too few to find outliers", d.count,
                d.count == 1 ? " is" : "s are");
    else if (ok)
        ka_note(outliers, "no step took much longer than the others");
    ka_durations_free(&d);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
