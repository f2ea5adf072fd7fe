/* Typical calls, run by run: did each call of a thing become longer in the runs after, whatever other programs on the
 * machine did to some of the calls? The typical call of a run is the lower quartile of its calls: what else runs on the
 * machine makes calls longer, not shorter, so that the fast ones show the program. docs/reference/diff.md has the
 * definition, and how often it is wrong. */
#include "analyze/diff/diff.h"

#define LEVEL 0.05 /* of the rank test, one-sided: 3 runs a side can prove something */

/* ---- one run --------------------------------------------------------------------------------- */

void ka_add_call(ka_side *side, uint32_t thing, double us)
{
    if (side->keeps_calls && thing != KA_NONE)
        side->no_memory |= !kb_vec_push(&side->calls, (ka_call){thing, (float)us});
}

/* By thing, then duration. */
static int compare_typical_calls(const void *left, const void *right)
{
    const ka_call *a = left, *b = right;
    if (a->thing != b->thing)
        return a->thing < b->thing ? -1 : 1;
    return a->us < b->us ? -1 : a->us > b->us;
}

void ka_finish_calls(ka_side *side)
{
    for (size_t i = 0; i < side->things.count; i++)
        side->things.data[i].typical_us = (double)NAN;
    if (side->calls.count)
        qsort(side->calls.data, side->calls.count, sizeof *side->calls.data, compare_typical_calls);
    for (size_t first = 0, end; first < side->calls.count; first = end) {
        uint32_t thing = side->calls.data[first].thing;
        for (end = first; end < side->calls.count && side->calls.data[end].thing == thing;)
            end++;
        side->things.data[thing].typical_us = (double)side->calls.data[first + (end - first - 1) / 4].us;
    }
    kb_vec_free(&side->calls);
}

/* ---- runs ------------------------------------------------------------------------------------ */

bool ka_set_typical(ka_side *side, ka_thing *x, uint32_t run, double us)
{
    if (isnan(us))
        return true;
    if (!x->typical) {
        x->typical = kb_arena_alloc(&side->texts, side->run_count * sizeof *x->typical, sizeof *x->typical);
        for (uint32_t i = 0; x->typical && i < side->run_count; i++)
            x->typical[i] = (double)NAN;
    }
    if (x->typical)
        x->typical[run] = us;
    return x->typical != NULL;
}

/* ---- both sides ------------------------------------------------------------------------------ */

/* Has each run of the side such calls? */
static bool has_typical_calls(const ka_side *side, const ka_thing *x)
{
    for (uint32_t i = 0; x && x->typical && i < side->run_count; i++)
        if (!(x->typical[i] > 0))
            return false;
    return x && x->typical;
}

/* Pairs of runs whose order is not that of the difference. */
static uint32_t count_wrong_pairs(const ka_diff *d, const ka_thing *a, const ka_thing *b, bool falls)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < d->before.run_count; i++)
        for (uint32_t k = 0; k < d->after.run_count; k++)
            wrong += falls ? b->typical[k] >= a->typical[i] : b->typical[k] <= a->typical[i];
    return wrong;
}

double ka_gap_pct(const double *before, uint32_t n, const double *after, uint32_t m)
{
    double low[2] = {(double)INFINITY, (double)INFINITY}, high[2] = {-(double)INFINITY, -(double)INFINITY};
    for (uint32_t i = 0; i < n + m; i++) {
        double value = i < n ? before[i] : after[i - n];
        low[i >= n] = fmin(low[i >= n], value);
        high[i >= n] = fmax(high[i >= n], value);
    }
    if (!(low[0] > 0))
        return 0;
    return low[1] > high[0] ? 100 * (low[1] / high[0] - 1) : high[1] < low[0] ? 100 * (high[1] / low[0] - 1) : 0;
}

static double calls_per_step(const ka_side *side, const ka_thing *x)
{
    return x->kind == KA_THING_STEP ? 1 : (double)x->count / KB_MAX(side->span_count, 1u);
}

bool ka_compare_calls(ka_diff *d, const ka_thing *a, const ka_thing *b, ka_typical *out)
{
    uint32_t n = d->before.run_count, m = d->after.run_count;
    if (!has_typical_calls(&d->before, a) || !has_typical_calls(&d->after, b))
        return false;
    ka_estimate e = ka_compare_means(&d->chance, a->typical, n, b->typical, m);
    uint32_t wrong = count_wrong_pairs(d, a, b, e.delta < 0);
    if (!d->wrong_calls)
        d->wrong_calls = ka_wrong_pairs(n, m, LEVEL) + 1;
    *out = (ka_typical){.before_us = e.before,
                        .after_us = e.after,
                        .delta_us = e.delta,
                        .pct = e.pct,
                        .low_pct = e.low_pct,
                        .high_pct = e.high_pct,
                        .is_proven = e.sure > 0 && wrong + 1 < d->wrong_calls,
                        .before_calls = calls_per_step(&d->before, a),
                        .after_calls = calls_per_step(&d->after, b),
                        .are_apart = wrong == 0};
    out->effect_us = e.delta * out->after_calls;
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What each kind of thing is called in tables; NULL: it has no calls. */
static const char *kind_of_calls(const ka_thing *x)
{
    switch (x->kind) {
    case KA_THING_STEP:
        return "step";
    case KA_THING_KERNEL:
        return "device work";
    case KA_THING_OPERATOR:
        return "host";
    case KA_THING_THREADS:
        return ka_threads_family_name(x->family);
    default:
        return NULL;
    }
}

/* How much the step is longer: by its typical calls if they prove that, else by its mean. */
static double difference_of_step(ka_diff *d)
{
    const ka_table *steps = &d->facts->tables[KA_TABLE_diff_steps];
    const ka_thing *a = &d->before.things.data[0], *b = &d->after.things.data[0];
    ka_typical step;
    if (ka_compare_calls(d, a, b, &step) && step.is_proven)
        return step.delta_us;
    return ka_cell_at(steps, 0, ka_fact_column(steps, "delta_us")).d;
}

static void put_calls_row(ka_diff *d, const ka_thing *b, const ka_typical *c, double step_delta_us)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_calls];
    bool has_share = step_delta_us * c->effect_us > 0;
    ka_put_text(t, kb_string(kind_of_calls(b)));
    ka_put_text(t, b->name);
    ka_put_number(t, c->before_calls);
    ka_put_number(t, c->after_calls);
    ka_put_known(t, c->before_us);
    ka_put_known(t, c->after_us);
    ka_put_known(t, c->delta_us);
    ka_put_known(t, c->pct);
    ka_put_known(t, c->effect_us);
    ka_put_known(t, has_share ? 100 * c->effect_us / step_delta_us : (double)NAN);
    ka_put_int(t, d->before.run_count);
    ka_put_int(t, d->after.run_count);
    ka_put_known(t, c->are_apart ? ka_count_orders(d->before.run_count, d->after.run_count) : (double)NAN);
}

bool ka_diff_put_calls(ka_diff *d)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_calls];
    double step_delta_us = difference_of_step(d);
    for (size_t i = 0; i < d->before.things.count; i++) {
        const ka_thing *a = &d->before.things.data[i], *b = NULL;
        ka_typical c;
        if (a->other == KA_NONE || i == 1 || !kind_of_calls(a))
            continue;
        b = &d->after.things.data[a->other];
        if (ka_compare_calls(d, a, b, &c) && c.is_proven && fabs(c.effect_us) > KA_MIN_PERCENT / 100 * d->both_us)
            put_calls_row(d, b, &c, step_delta_us);
    }
    if (!d->before.keeps_calls)
        ka_note(t, "typical calls are compared with 3 runs of each side");
    else if (!ka_table_rows(t))
        ka_note(t, "no typical call differs in the runs by more than noise");
    return ka_diff_sort(t, ka_fact_column(t, "effect_us"));
}
