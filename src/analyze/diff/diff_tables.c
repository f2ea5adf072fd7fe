/* Tables of two traces: a row for each thing of either. */
#include "analyze/diff/diff.h"

/* ---- cells ---------------------------------------------------------------------------------- */

void ka_put_known(ka_table *t, double value)
{
    if (isfinite(value))
        ka_put_number(t, value);
    else
        ka_put_none(t);
}

const char *ka_word_of_proof(const ka_estimate *e)
{
    static const char *const words[] = {"unknown", "no", "yes"};
    if (e->sure > 0 || e->shift.delta == 0)
        return words[e->sure + 1];
    return e->shift.by_calls ? "calls" : "ranks";
}

/* Ends each row; also appends the shift of the row, for gates. */
void ka_put_estimate(ka_table *t, const ka_estimate *e, double step_us)
{
    ka_put_known(t, e->before);
    ka_put_known(t, e->after);
    ka_put_known(t, e->delta);
    ka_put_known(t, e->pct);
    ka_put_known(t, e->low_pct);
    ka_put_known(t, e->high_pct);
    ka_put_known(t, step_us > 0 ? 100 * e->delta / step_us : (double)NAN);
    ka_put_text(t, kb_string(ka_word_of_proof(e)));
    t->no_memory |= !kb_vec_push(&t->shifts, e->shift);
}

/* "changed" needs proof, unless proof is impossible (too few steps). */
static void put_change(ka_table *t, const ka_thing *a, const ka_thing *b, const ka_estimate *e)
{
    bool differs = ka_is_proven(e->sure, e->shift) || (e->sure < 0 && e->delta != 0);
    ka_put_text(t, kb_string(!a ? "added" : !b ? "removed" : differs ? "changed" : "same"));
}

/* ---- pairs ---------------------------------------------------------------------------------- */

/** A row: `a` or `b` may be NULL, not both. */
typedef void put_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                      const ka_estimate *e);

static const double nothing[KA_MAX_BLOCKS];

/* An estimate without a difference, because one side is not known. */
static ka_estimate unknown_estimate(const ka_estimate *e, bool before_known, bool after_known)
{
    return (ka_estimate){.before = before_known ? e->before : (double)NAN,
                         .after = after_known ? e->after : (double)NAN,
                         .delta = (double)NAN,
                         .pct = (double)NAN,
                         .low_pct = (double)NAN,
                         .high_pct = (double)NAN,
                         .sure = -1};
}

/* The values of a thing on one side, one for each block. A thing that a side does not have took no time
 * in any of its blocks. */
typedef struct thing_values {
    const double *values;
    uint32_t count;
} thing_values;

static thing_values thing_values_of(const ka_side *side, const ka_thing *x)
{
    if (!x)
        return (thing_values){nothing, side->block_count};
    return (thing_values){side->values.data + x->values, x->value_count};
}

/* Is the value of a thing on this side known? Times always are, unless the side is empty: a thing that is
 * absent took none. Memory and counters are known only if they were sampled. */
static bool is_thing_known(const ka_side *side, const ka_thing *x, bool is_time)
{
    if (side->is_empty)
        return false;
    return is_time || (x && x->value_count > 0);
}

/* Of what was not recorded on a side it is not known that it took no time. */
static bool is_family_known(const ka_side *side, const ka_thing *x)
{
    return x->kind != KA_THING_THREADS || side->known_families >> x->family & 1;
}

/* The variance of a thing of a run without steps: of what is absent, that of no sample, or of no call. */
static double variance_on_side(const ka_side *side, const ka_thing *x, const ka_thing *other)
{
    if (x)
        return x->variance;
    return other->family == KA_THREADS_FUNCTION ? side->sample_us * side->sample_us : 0;
}

/* How often threads wait for each other varies: what other numbers of waits explain, if they differ by no more
 * than numbers of random events do. Samples have this in their variance, and a program makes its own calls. */
static double chance_of_counts(const ka_thing *a, const ka_thing *b)
{
    const ka_thing *x = a ? a : b;
    double before = a ? (double)a->count : 0, after = b ? (double)b->count : 0,
           off = fabs(after - before), sum = (a ? a->sum : 0) + (b ? b->sum : 0);
    bool is_random = x->is_effect || x->family == KA_THREADS_LOCK || x->family == KA_THREADS_STATE;
    return is_random && off <= 2 * sqrt(before + after) ? off * sum / (before + after) : 0;
}

/* Several runs of a side: values are those of runs. */
static bool has_runs(const ka_diff *d) { return d->before.run_count > 1 || d->after.run_count > 1; }

/* Things of threads of a single run without steps have one sum a side, with a known variance. */
static ka_estimate compare_thing_values(ka_diff *d, const ka_thing *a, const ka_thing *b)
{
    thing_values before = thing_values_of(&d->before, a), after = thing_values_of(&d->after, b);
    if ((a ? a : b)->kind == KA_THING_THREADS && d->before.no_steps && d->after.no_steps &&
        !has_runs(d))
        return ka_compare_sums(before.values[0], variance_on_side(&d->before, a, b),
                               after.values[0], variance_on_side(&d->after, b, a),
                               chance_of_counts(a, b));
    ka_estimate e = ka_compare(&d->chance, before.values, before.count, after.values, after.count);
    uint32_t index = a && b && a->kind == KA_THING_STEP ? (uint32_t)(a - d->before.things.data) : KA_NONE;
    if (index < KB_COUNT(d->before.times) && d->chance.medians && !has_runs(d))
        ka_compare_step_medians(&d->chance, &d->before.times[index], before.count, &d->after.times[index], after.count,
                                &e);
    return e;
}

/* Compares a thing on both sides; `a` or `b` may be NULL, not both. */
static ka_estimate compare_things(ka_diff *d, const ka_thing *a, const ka_thing *b)
{
    KB_ASSERT(a || b);
    bool is_time = (a ? a : b)->kind < KA_THING_MEMORY;
    bool before_known = is_thing_known(&d->before, a, is_time) && (a || is_family_known(&d->before, b)),
         after_known = is_thing_known(&d->after, b, is_time) && (b || is_family_known(&d->after, a));
    ka_estimate e = compare_thing_values(d, a, b);
    ka_typical calls;
    if (has_runs(d) && is_time && before_known && after_known && d->before.keeps_calls) {
        thing_values before = thing_values_of(&d->before, a), after = thing_values_of(&d->after, b);
        e.shift.gap_pct = ka_gap_pct(before.values, before.count, after.values, after.count);
    }
    if (before_known && after_known && ka_compare_calls(d, a, b, &calls)) {
        if (calls.is_proven)
            e.shift = (ka_shift){.delta = calls.effect_us, .pct = calls.pct, .by_calls = true};
        e.shift.gap_pct = ka_gap_pct(a->typical, d->before.run_count, b->typical, d->after.run_count);
        e.shift.has_calls = true;
        e.shift.calls_pct = calls.pct;
        e.shift.calls_low_pct = calls.low_pct;
        e.shift.calls_high_pct = calls.high_pct;
    }
    if (before_known && after_known)
        return e;
    return unknown_estimate(&e, before_known, after_known);
}

/* A row of a thing on both sides, or on one. */
static void put_thing_pair(ka_diff *d, ka_table_id id, const ka_thing *a, const ka_thing *b,
                           put_pair *put)
{
    ka_estimate e = compare_things(d, a, b);
    put(d, &d->facts->tables[id], a, b, &e);
}

/* Things of before with their partners, then those that only `after` has. */
static void put_things(ka_diff *d, ka_thing_kind kind, ka_table_id id, put_pair *put)
{
    for (uint32_t i = 0; i < d->before.things.count; i++) {
        const ka_thing *a = &d->before.things.data[i];
        if (a->kind == kind)
            put_thing_pair(d, id, a, a->other == KA_NONE ? NULL : &d->after.things.data[a->other],
                           put);
    }
    for (uint32_t i = 0; i < d->after.things.count; i++) {
        const ka_thing *b = &d->after.things.data[i];
        if (b->kind == kind && b->other == KA_NONE)
            put_thing_pair(d, id, NULL, b, put);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

static const ka_thing *either(const ka_thing *a, const ka_thing *b) { return b ? b : a; }

/* Two cells: how many steps each side has. */
static void put_step_counts(const ka_diff *d, ka_table *t)
{
    ka_put_int(t, d->before.is_empty ? 0 : d->before.step_count);
    ka_put_int(t, d->after.is_empty ? 0 : d->after.step_count);
}

static void put_step_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                          const ka_estimate *e)
{
    ka_put_text(t, either(a, b)->name);
    put_step_counts(d, t);
    ka_put_estimate(t, e, d->step_us);
}

static void put_category_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                              const ka_estimate *e)
{
    uint8_t kind = either(a, b)->kind;
    ka_put_text(t, kb_string(kind == KA_THING_PART   ? "part"
                             : kind == KA_THING_TYPE ? "type"
                                                     : "family"));
    ka_put_text(t, either(a, b)->name);
    put_change(t, a, b, e);
    ka_put_estimate(t, e, d->step_us);
}

/* Mean of a count or time per step of all ranks. */
static double per_step(const ka_side *side, double sum)
{
    return sum / KB_MAX(side->span_count, 1u);
}

/* Two cells: occurrences per step; 0 on the side without the thing. */
static void put_counts(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b)
{
    ka_put_number(t, a ? per_step(&d->before, (double)a->count) : 0);
    ka_put_number(t, b ? per_step(&d->after, (double)b->count) : 0);
}

/* The earlier name is shown only if it differs. */
static void put_kernel_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                            const ka_estimate *e)
{
    bool renamed = a && b && !kb_string_equal(a->name, b->name);
    ka_put_text(t, kb_string(ka_family_name(either(a, b)->family)));
    ka_put_text(t, either(a, b)->name);
    ka_put_text(t, renamed ? a->name : (kineto_string){"", 0});
    ka_put_text(t, kb_string(a && b ? a->how : ""));
    put_change(t, a, b, e);
    put_counts(d, t, a, b);
    ka_put_estimate(t, e, d->step_us);
}

static void put_operator_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                              const ka_estimate *e)
{
    bool op = either(a, b)->activity == KINETO_KIND_CPU_OP;
    ka_put_text(t, kb_string(op ? "operator" : "call"));
    ka_put_text(t, either(a, b)->name);
    ka_put_text(t, either(a, b)->detail);
    put_change(t, a, b, e);
    put_counts(d, t, a, b);
    ka_put_number(t, a ? per_step(&d->before, a->device) : 0);
    ka_put_number(t, b ? per_step(&d->after, b->device) : 0);
    ka_put_estimate(t, e, d->step_us);
}

static void put_threads_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                             const ka_estimate *e)
{
    const ka_thing *x = either(a, b);
    bool renamed = a && b && !kb_string_equal(a->name, b->name);
    ka_put_text(t, kb_string(ka_threads_family_name(x->family)));
    ka_put_text(t, x->name);
    ka_put_text(t, renamed ? a->name : (kineto_string){"", 0});
    ka_put_text(t, x->detail);
    ka_put_int(t, x->is_effect);
    put_change(t, a, b, e);
    put_counts(d, t, a, b);
    ka_put_estimate(t, e, d->step_us);
}

/* Columns with the maximum of each side follow the change. */
static void put_memory_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                            const ka_estimate *e)
{
    (void)d;
    ka_put_text(t, either(a, b)->name);
    put_change(t, a, b, e);
    ka_put_known(t, a ? a->most : (double)NAN);
    ka_put_known(t, b ? b->most : (double)NAN);
    ka_put_estimate(t, e, 0);
}

static void put_counter_pair(ka_diff *d, ka_table *t, const ka_thing *a, const ka_thing *b,
                             const ka_estimate *e)
{
    (void)d;
    ka_put_text(t, either(a, b)->detail);
    ka_put_text(t, either(a, b)->name);
    put_change(t, a, b, e);
    ka_put_estimate(t, e, 0);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* The means or medians of the steps of each run. */
static void copy_middles(const ka_side *side, bool medians, double *out)
{
    for (uint32_t i = 0; i < side->run_count; i++)
        out[i] = medians ? side->runs[i].median_us : side->runs[i].mean_us;
}

/* The step by the other one of means and medians: of runs those of each run. */
static ka_estimate compare_other_middles(ka_diff *d, ka_chance *other)
{
    const ka_thing *a = &d->before.things.data[0], *b = &d->after.things.data[0];
    double before[KA_MAX_BLOCKS], after[KA_MAX_BLOCKS];
    if (has_runs(d)) {
        copy_middles(&d->before, other->medians, before);
        copy_middles(&d->after, other->medians, after);
        return ka_compare(other, before, d->before.run_count, after, d->after.run_count);
    }
    ka_estimate e = ka_compare(other, d->before.values.data + a->values, a->value_count,
                               d->after.values.data + b->values, b->value_count);
    if (other->medians)
        ka_compare_step_medians(other, &d->before.times[0], a->value_count, &d->after.times[0], b->value_count, &e);
    return e;
}

/* A row with the median if means are compared, and the reverse: typical time next to total time. */
static bool put_median_or_mean(ka_diff *d)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_steps];
    ka_chance other;
    bool ok = ka_chance_make(&other, d->chance.seed, d->chance.draws, !d->chance.medians);
    if (ok) {
        ka_estimate e = compare_other_middles(d, &other);
        ka_put_text(t, kb_string(other.medians ? "median step" : "mean step"));
        put_step_counts(d, t);
        if (d->before.is_empty || d->after.is_empty)
            e = unknown_estimate(&e, !d->before.is_empty, !d->after.is_empty);
        ka_put_estimate(t, &e, d->step_us);
        ok = !other.no_memory;
    }
    ka_chance_free(&other);
    return ok;
}

/* Steps that no option and no profiler names. */
static void note_step_names(ka_table *t, const ka_side *a, const ka_side *b)
{
    kineto_string before = ka_repeated_step_name(&a->m.dataset), after = ka_repeated_step_name(&b->m.dataset);
    kineto_string name = before.size ? before : after;
    if (name.size)
        ka_note_also(t, "steps are the ranges named '%.*s'", (int)KB_MIN(name.size, (size_t)60), name.data);
}

/* Which steps are compared. */
static void note_steps(ka_diff *d)
{
    const ka_side *a = &d->before, *b = &d->after;
    ka_table *t = &d->facts->tables[KA_TABLE_diff_steps];
    if (a->is_empty || b->is_empty)
        ka_note(t, "nothing in %s takes time: there is nothing to compare",
                !b->is_empty   ? "the trace before"
                : !a->is_empty ? "the trace after"
                               : "either trace");
    else if ((a->no_steps || b->no_steps) && !has_runs(d))
        ka_note(t, "a trace has no steps: all of it counts as one step of each rank, so %s",
                ka_table_rows(&d->facts->tables[KA_TABLE_diff_threads])
                    ? "only samples, calls and states of threads show how much is noise"
                    : "differences cannot be distinguished from noise");
    else if (a->warm_up || b->warm_up)
        ka_note(t,
                "without the first steps that took much longer than the others: %u of %u before, "
                "%u of %u after",
                a->warm_up, a->warm_up + a->step_count, b->warm_up, b->warm_up + b->step_count);
    note_step_names(t, a, b);
    const char *middle = d->chance.medians ? "median" : "mean";
    if (has_runs(d) && a->no_steps && b->no_steps)
        ka_note_also(t, "%ss of runs: %u before, %u after", middle, a->run_count, b->run_count);
    else if (has_runs(d))
        ka_note_also(t, "%ss of runs, each the %s of its steps: %u runs before, %u after", middle, middle,
                     a->run_count, b->run_count);
    if (a->rank_count > 1 || b->rank_count > 1)
        ka_note_also(t, "means of ranks: %u before, %u after", KB_MAX(a->rank_count, 1u),
                     KB_MAX(b->rank_count, 1u));
}

/* A row and the size of its difference. */
typedef struct row_order {
    double magnitude;
    uint64_t row;
} row_order;

/* The largest first; rows of equal size keep their order. */
static int compare_row_magnitudes(const void *left, const void *right)
{
    const row_order *a = left, *b = right;
    if (a->magnitude != b->magnitude)
        return a->magnitude > b->magnitude ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Moves rows of `row_bytes` into the order. False: out of memory. */
static bool reorder_rows(void *data, size_t row_bytes, const row_order *order, uint64_t rows)
{
    char *sorted = malloc((size_t)rows * row_bytes + 1);
    if (!sorted)
        return false;
    for (uint64_t i = 0; i < rows; i++)
        memcpy(sorted + i * row_bytes, (char *)data + order[i].row * row_bytes, row_bytes);
    memcpy(data, sorted, (size_t)rows * row_bytes);
    free(sorted);
    return true;
}

/* The largest difference first, whatever its sign. */
bool ka_diff_sort(ka_table *t, uint32_t column)
{
    uint64_t rows = ka_table_rows(t);
    row_order *order = malloc((size_t)rows * sizeof *order + 1);
    bool ok = order;
    for (uint64_t i = 0; ok && i < rows; i++) {
        double magnitude = fabs(ka_cell_at(t, i, column).d);
        order[i] = (row_order){isnan(magnitude) ? -1 : magnitude, i};
    }
    if (ok && rows) {
        qsort(order, (size_t)rows, sizeof *order, compare_row_magnitudes);
        ok = reorder_rows(t->cells.data, t->column_count * sizeof(ka_cell), order, rows) &&
             (t->shifts.count != rows ||
              reorder_rows(t->shifts.data, sizeof(ka_shift), order, rows));
    }
    free(order);
    return ok;
}

/* All tables with estimates; those of many rows are sorted by difference. */
bool ka_diff_put_tables(ka_diff *d)
{
    put_things(d, KA_THING_STEP, KA_TABLE_diff_steps, put_step_pair);
    put_things(d, KA_THING_PART, KA_TABLE_diff_categories, put_category_pair);
    put_things(d, KA_THING_TYPE, KA_TABLE_diff_categories, put_category_pair);
    put_things(d, KA_THING_FAMILY, KA_TABLE_diff_categories, put_category_pair);
    put_things(d, KA_THING_KERNEL, KA_TABLE_diff_kernels, put_kernel_pair);
    put_things(d, KA_THING_OPERATOR, KA_TABLE_diff_operators, put_operator_pair);
    put_things(d, KA_THING_THREADS, KA_TABLE_diff_threads, put_threads_pair);
    put_things(d, KA_THING_MEMORY, KA_TABLE_diff_memory, put_memory_pair);
    put_things(d, KA_THING_COUNTER, KA_TABLE_diff_counters, put_counter_pair);
    ka_diff_put_runs(d);
    note_steps(d);
    ka_note(&d->facts->tables[KA_TABLE_diff_memory],
            "peaks per step, from memory events that report the allocated total");
    const ka_table_id sorted[] = {KA_TABLE_diff_kernels, KA_TABLE_diff_operators,
                                  KA_TABLE_diff_threads, KA_TABLE_diff_counters};
    bool ok = put_median_or_mean(d);
    for (size_t i = 0; i < KB_COUNT(sorted); i++) {
        ka_table *t = &d->facts->tables[sorted[i]];
        ok &= ka_diff_sort(t, t->column_count - 6); /* delta */
    }
    return ok && !d->chance.no_memory;
}
