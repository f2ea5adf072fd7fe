/* What changed, in one table: parts of the step, then what is in them; and findings that only one
 * trace has, or that have other estimated savings in the other. */
#include "analyze/diff/diff.h"

/* ---- from tables ---------------------------------------------------------------------------- */

#define MAX_ROWS    40u
#define EFFECT_WEIGHT 0.1 /* many threads may wait for the one that takes longer: that one comes first */

/* A row of some table that is candidate for the summary. */
typedef struct change {
    kineto_string kind, name, change;
    ka_estimate e;
    double weight; /* in the order of rows */
} change;
typedef KB_VEC(change) change_list;

/* Reads the eight cells of an estimate back. */
static ka_estimate estimate_at(const ka_table *t, uint64_t row)
{
    uint32_t c = t->column_count - 8;
    kineto_string sure = ka_text_at(t, row, c + 7);
    return (ka_estimate){.before = ka_cell_at(t, row, c).d,
                         .after = ka_cell_at(t, row, c + 1).d,
                         .delta = ka_cell_at(t, row, c + 2).d,
                         .pct = ka_cell_at(t, row, c + 3).d,
                         .low_pct = ka_cell_at(t, row, c + 4).d,
                         .high_pct = ka_cell_at(t, row, c + 5).d,
                         .sure = kb_string_equal(sure, kb_string("yes"))       ? 1
                                 : kb_string_equal(sure, kb_string("unknown")) ? -1
                                                                               : 0,
                         .shift = t->shifts.data[row]};
}

/* Noise is left out; without an interval all differences stay. */
static bool is_reportable_change(const ka_diff *d, const ka_estimate *e)
{
    return (e->sure < 0 || ka_is_proven(e->sure, e->shift)) && isfinite(e->delta) &&
           fabs(e->delta) > KA_MIN_PERCENT / 100 * d->both_us;
}

/* Where threads are compared, their waits for each other, ranges around the cause, and the parts of the step,
 * which do not distinguish threads, are consequences. */
static bool is_consequence(const ka_diff *d, ka_table_id id, uint64_t row)
{
    const ka_table *threads = &d->facts->tables[KA_TABLE_diff_threads];
    if (id == KA_TABLE_diff_categories)
        return ka_table_rows(threads) > 0 && !d->before.m.dataset.work_count &&
               !d->after.m.dataset.work_count;
    return id == KA_TABLE_diff_threads &&
           ka_cell_at(threads, row, KA_COL_diff_threads_is_effect).i;
}

/* All the time of threads without operators and calls is in this part: it explains nothing. */
static bool is_rest_of_threads(const ka_diff *d, ka_table_id id, kineto_string name)
{
    return id == KA_TABLE_diff_categories && is_consequence(d, id, 0) &&
           kb_string_equal(name, kb_string("other"));
}

/* Reportable rows of a table, at most MAX_ROWS, which is sorted already; `group` selects by the
 * first column. `kind` NULL: the first column has it. False: out of memory. */
static bool collect_table_changes(ka_diff *d, ka_table_id id, const char *kind, const char *group,
                                  const char *name, change_list *out)
{
    const ka_table *t = &d->facts->tables[id];
    uint32_t column = ka_fact_column(t, name), changed = ka_fact_column(t, "change"), taken = 0;
    for (uint64_t row = 0; row < ka_table_rows(t) && taken < MAX_ROWS; row++) {
        ka_estimate e = estimate_at(t, row);
        if ((group && !kb_string_equal(ka_text_at(t, row, 0), kb_string(group))) ||
            !is_reportable_change(d, &e) || is_rest_of_threads(d, id, ka_text_at(t, row, column)))
            continue;
        change c = {kind ? kb_string(kind) : ka_text_at(t, row, 0), ka_text_at(t, row, column),
                    ka_text_at(t, row, changed), e,
                    fabs(e.delta) * (is_consequence(d, id, row) ? EFFECT_WEIGHT : 1)};
        if (!kb_vec_push(out, c))
            return false;
        taken++;
    }
    return true;
}

static int compare_texts(kineto_string a, kineto_string b)
{
    int order = memcmp(a.data, b.data, KB_MIN(a.size, b.size));
    return order ? order : (a.size > b.size) - (a.size < b.size);
}

/* By size, kind and name. Differences that are no more than noise are not among them. */
static int compare_diff_changes(const void *left, const void *right)
{
    const change *a = left, *b = right;
    if (a->weight != b->weight)
        return a->weight > b->weight ? -1 : 1;
    int kinds = compare_texts(a->kind, b->kind);
    return kinds ? kinds : compare_texts(a->name, b->name);
}

/* The largest changes of all tables. */
static void put_summary_changes(ka_diff *d, change_list *changes)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_summary];
    if (changes->count)
        qsort(changes->data, changes->count, sizeof *changes->data, compare_diff_changes);
    for (size_t i = 0; i < changes->count && i < MAX_ROWS; i++) {
        const change *c = &changes->data[i];
        ka_put_text(t, c->kind);
        ka_put_text(t, c->name);
        ka_put_text(t, c->change);
        ka_put_estimate(t, &c->e, d->step_us);
    }
    if (d->before.is_empty || d->after.is_empty)
        ka_note(t, "no comparison: one of the traces is empty");
    else if (!changes->count)
        ka_note(t, "no difference above %.1f %% of a step and above noise", KA_MIN_PERCENT);
    changes->count = 0;
}

/* ---- the step, part by part ------------------------------------------------------------------- */

/* A row of the waterfall. */
static void put_part(ka_table *t, kineto_string name, double before, double after, double step_us,
                     const char *proven)
{
    ka_put_text(t, name);
    ka_put_known(t, before);
    ka_put_known(t, after);
    ka_put_known(t, after - before);
    ka_put_known(t, step_us > 0 ? 100 * (after - before) / step_us : (double)NAN);
    ka_put_text(t, kb_string(proven));
}

/* Parts whose difference is more than noise, largest first; all else of the step is unexplained. So rows add up
 * to the difference of the step with its work, and with medians, which do not add up, too. */
static bool put_waterfall(ka_diff *d)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_waterfall];
    const ka_table *steps = &d->facts->tables[KA_TABLE_diff_steps];
    change_list parts = {0};
    bool ok = collect_table_changes(d, KA_TABLE_diff_categories, "", "part", "name", &parts);
    if (ok && ka_table_rows(steps) > 1 && !d->before.is_empty && !d->after.is_empty) {
        ka_estimate whole = estimate_at(steps, 1);
        double before = whole.before, after = whole.after;
        if (parts.count)
            qsort(parts.data, parts.count, sizeof *parts.data, compare_diff_changes);
        for (size_t i = 0; i < parts.count; i++) {
            const ka_estimate *e = &parts.data[i].e;
            put_part(t, parts.data[i].name, e->before, e->after, d->step_us,
                     ka_word_of_proof(e));
            before -= e->before;
            after -= e->after;
        }
        put_part(t, kb_string("unexplained"), before, after, d->step_us, "no");
        put_part(t, kb_string("step with its work"), whole.before, whole.after, d->step_us,
                 ka_word_of_proof(&whole));
    }
    kb_vec_free(&parts);
    return ok;
}

/* Parts first: they add up to the step and show which of the other rows matter. */
bool ka_diff_put_summary(ka_diff *d)
{
    change_list changes = {0};
    bool ok = collect_table_changes(d, KA_TABLE_diff_categories, "part of the step", "part", "name",
                                    &changes);
    ok = ok &&
         collect_table_changes(d, KA_TABLE_diff_kernels, "device work", NULL, "name", &changes) &&
         collect_table_changes(d, KA_TABLE_diff_operators, "host", NULL, "name", &changes) &&
         collect_table_changes(d, KA_TABLE_diff_threads, NULL, NULL, "name", &changes);
    if (ok)
        put_summary_changes(d, &changes);
    ok = ok && put_waterfall(d);
    kb_vec_free(&changes);
    return ok;
}

/* ---- findings ------------------------------------------------------------------------------- */

/* The same rule about the same subject. */
static bool same_finding(const kineto_finding *a, const kineto_finding *b)
{
    return a->rule == b->rule && kb_string_equal(a->subject, b->subject);
}

/* False: there is none; `out` is then undefined. */
static bool find_same(const kineto_findings *in, const kineto_finding *x, kineto_finding *out)
{
    for (uint32_t i = 0; kineto_findings_get(in, i, out); i++)
        if (same_finding(out, x))
            return true;
    return false;
}

/* 0 without a finding; NAN: the finding has no estimate. */
static double estimated_savings_us(const kineto_finding *f)
{
    return !f ? 0 : f->has_savings ? ka_us(f->savings_ns) : (double)NAN;
}

/* How much shorter steps are: what a finding that went away foretold. */
static void put_measured(const ka_diff *d, ka_table *t)
{
    const ka_table *steps = &d->facts->tables[KA_TABLE_diff_steps];
    uint32_t delta = ka_fact_column(steps, "delta_us");
    uint64_t last = ka_table_rows(steps) - 1;
    double first = -ka_cell_at(steps, 0, delta).d, other = -ka_cell_at(steps, last, delta).d;
    ka_put_known(t, d->chance.medians ? other : first);
    ka_put_known(t, d->chance.medians ? first : other);
}

/* A row for a finding; `a` or `b` may be NULL, not both. */
static void put_diff_finding(ka_diff *d, const kineto_finding *a, const kineto_finding *b)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_findings];
    const kineto_finding *shown = b ? b : a; /* what holds now, if it does */
    double before = estimated_savings_us(a), after = estimated_savings_us(b);
    ka_put_text(t, kb_string(shown->id));
    ka_put_text(t, shown->subject);
    ka_put_text(t, kb_string(!a ? "added" : !b ? "removed" : "changed"));
    ka_put_int(t, ka_is_circumstance(shown));
    ka_put_known(t, before);
    ka_put_known(t, after);
    ka_put_known(t, before - after);
    put_measured(d, t);
    ka_put_text(t, shown->sentence);
    ka_put_text(t, a && b ? a->sentence : (kineto_string){"", 0});
}

/* Estimates differ a little from run to run. */
static bool finding_differs(const ka_diff *d, const kineto_finding *a, const kineto_finding *b)
{
    double off = fabs(estimated_savings_us(a) - estimated_savings_us(b));
    return a->has_savings != b->has_savings || off > 0.01 * d->step_us;
}

/* Findings that only one trace has, or whose estimate changed; equal ones are left out. */
bool ka_diff_put_findings(ka_diff *d, const kineto_findings *before, const kineto_findings *after)
{
    kineto_finding a, b;
    for (uint32_t i = 0; kineto_findings_get(before, i, &a); i++)
        if (!find_same(after, &a, &b))
            put_diff_finding(d, &a, NULL);
        else if (finding_differs(d, &a, &b))
            put_diff_finding(d, &a, &b);
    for (uint32_t i = 0; kineto_findings_get(after, i, &b); i++)
        if (!find_same(before, &b, &a))
            put_diff_finding(d, NULL, &b);
    ka_table *t = &d->facts->tables[KA_TABLE_diff_findings];
    ka_note(t, "predicted: how much shorter a step should be, at most where a finding was added or "
               "removed, as what it is about may be there below its threshold on the other side; "
               "measured: how much it is, whatever the reason");
    if (d->before.run_count > 1 || d->after.run_count > 1)
        ka_note_also(t, "findings are those of the run with the median step: run %u before, %u after",
                     ka_middle_run(&d->before) + 1, ka_middle_run(&d->after) + 1);
    return ka_diff_sort(t, ka_fact_column(t, "predicted_us"));
}
