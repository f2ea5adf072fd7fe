/* Several runs of one side become one side whose values are those of runs in place of those of steps: so noise
 * between runs counts, which the steps of a single run do not have. Things of runs are matched like those of two
 * traces. A thing that a run does not have took no time in it; of memory and counters it is not known. */
#include "analyze/diff/diff.h"

/* ---- one run ---------------------------------------------------------------------------------- */

double ka_middle_of_thing(const ka_side *side, uint32_t index, bool medians)
{
    const ka_thing *x = &side->things.data[index];
    if (medians && index < KB_COUNT(side->times) && side->times[index].count)
        return ka_median_of_times(&side->times[index]);
    return ka_middle_of(side->values.data + x->values, x->value_count, medians);
}

/* What is kept of a run besides the values of its things. */
static ka_run describe_run(const ka_side *side, bool medians)
{
    ka_run run = {.steps = side->step_count, .warm_up = side->warm_up};
    run.has_steps = ka_compared_steps(side, &run.first_step, &run.last_step);
    run.mean_us = ka_middle_of_thing(side, 0, false);
    run.median_us = ka_middle_of_thing(side, 0, true);
    run.step_us = medians ? run.median_us : run.mean_us;
    return run;
}

/* Memory and counters have no value where they were not sampled. */
static bool is_sampled(const ka_thing *x) { return x->kind >= KA_THING_MEMORY; }

/* ---- the side of all runs --------------------------------------------------------------------- */

/* The values of the first run: one in place of those of its steps, with room for `runs`. False: out of memory. */
static bool reduce_first_run(ka_side *side, uint32_t runs, bool medians)
{
    size_t count = side->things.count;
    double *values = calloc(count * runs + 1, sizeof *values);
    if (!values)
        return false;
    for (size_t i = 0; i < count; i++) {
        ka_thing *x = &side->things.data[i];
        bool is_known = !is_sampled(x) || x->value_count;
        values[i * runs] = ka_middle_of_thing(side, (uint32_t)i, medians);
        x->values = (uint32_t)(i * runs);
        side->no_memory |= !ka_set_typical(side, x, 0, x->typical_us);
        x->value_count = is_sampled(x) ? is_known : runs;
    }
    kb_vec_free(&side->values);
    side->values.data = values;
    side->values.count = count * runs;
    side->values.capacity = count * runs + 1;
    side->block_count = runs;
    return !side->no_memory;
}

/* A thing that only a later run has. Its names are copied: the run is freed before the side. Its operator is a
 * slice of another dataset, so it is matched by its name alone. KA_NONE: out of memory. */
static uint32_t append_thing_of_run(ka_side *side, const ka_thing *x)
{
    const char *name = kb_arena_copy(&side->texts, x->name.data, x->name.size),
               *detail = kb_arena_copy(&side->texts, x->detail.data, x->detail.size);
    uint32_t index = name && detail ? ka_new_thing(side, x->kind, (kineto_string){name, x->name.size},
                                                   (kineto_string){detail, x->detail.size})
                                    : KA_NONE;
    if (index == KA_NONE)
        return KA_NONE;
    ka_thing *to = &side->things.data[index];
    to->activity = x->activity;
    to->family = x->family;
    to->is_effect = x->is_effect;
    if (is_sampled(to))
        to->value_count = 0;
    return index;
}

/* Adds the value of a thing in the run with number `run`, and its totals. */
static void add_value_of_run(ka_side *side, uint32_t index, const ka_side *from, uint32_t own, uint32_t run,
                             bool medians)
{
    const ka_thing *x = &from->things.data[own];
    ka_thing *to = &side->things.data[index];
    side->no_memory |= !ka_set_typical(side, to, run, x->typical_us);
    double value = ka_middle_of_thing(from, own, medians);
    if (!is_sampled(to))
        side->values.data[to->values + run] = value;
    else if (x->value_count)
        side->values.data[to->values + to->value_count++] = value;
    to->most = to->count ? KB_MAX(to->most, x->most) : x->most;
    to->count += x->count;
    to->sum += x->sum;
    to->device += x->device;
}

/* Pairs were of this run only. */
static void forget_pairs(ka_side *side)
{
    for (size_t i = 0; i < side->things.count; i++)
        side->things.data[i].other = KA_NONE;
}

/* False: out of memory. */
static bool add_run(ka_side *side, ka_side *from, uint32_t run, bool medians)
{
    if (!ka_match_sides(side, from))
        return false;
    for (size_t i = 0; i < from->things.count; i++) {
        const ka_thing *x = &from->things.data[i];
        uint32_t index = x->other == KA_NONE ? append_thing_of_run(side, x) : x->other;
        if (index == KA_NONE)
            return false;
        add_value_of_run(side, index, from, (uint32_t)i, run, medians);
    }
    forget_pairs(side);
    if (side->no_memory)
        return false;
    side->step_count += from->step_count;
    side->span_count += from->span_count;
    side->warm_up += from->warm_up;
    side->rank_count = KB_MAX(side->rank_count, from->rank_count);
    side->known_families &= from->known_families;
    side->is_empty |= from->is_empty;
    return true;
}

/* Times of steps and of whole runs cannot be compared. */
static kineto_status check_steps_of_run(const ka_side *side, const ka_side *from, uint32_t run, kineto_error *err)
{
    if (side->no_steps == from->no_steps)
        return KINETO_OK;
    return kb_fail(err, KINETO_E_ARGUMENT, "run %u of a side has %s steps, and run 1 has %s: all need the same",
                   run + 1, from->no_steps ? "no" : "", side->no_steps ? "none" : "some");
}

/* Measures a later run, adds it to the side and frees it. */
static kineto_status add_measured_run(ka_side *side, const kineto_trace *trace, uint32_t run,
                                      const kineto_diff_options *options, const kineto_analysis_options *how,
                                      kineto_error *err)
{
    ka_side from;
    kineto_status status = ka_side_make(trace, options, how, side->keeps_calls, &from, err);
    if (!status)
        status = check_steps_of_run(side, &from, run, err);
    if (!status) {
        side->runs[run] = describe_run(&from, options->medians);
        if (!add_run(side, &from, run, options->medians))
            status = kb_fail_memory(err, "compare runs");
    }
    ka_side_free(&from);
    return status;
}

kineto_status ka_side_make_of_runs(const kineto_trace *const *runs, uint32_t count, bool reduce, bool keeps_calls,
                                   const kineto_diff_options *options, const kineto_analysis_options *how,
                                   ka_side *side, kineto_error *err)
{
    kineto_status status = ka_side_make(runs[0], options, how, keeps_calls, side, err);
    if (status)
        return status;
    side->run_count = count;
    side->runs = calloc(count, sizeof *side->runs);
    if (!side->runs)
        return kb_fail_memory(err, "compare runs");
    side->runs[0] = describe_run(side, options->medians);
    if (reduce && !reduce_first_run(side, count, options->medians))
        return kb_fail_memory(err, "compare runs");
    for (uint32_t i = 1; i < count && !status; i++)
        status = add_measured_run(side, runs[i], i, options, how, err);
    return status;
}

/* ---- of all runs ------------------------------------------------------------------------------ */

/* Of an even number the one below the middle. */
uint32_t ka_middle_run(const ka_side *side)
{
    for (uint32_t i = 0; i < side->run_count; i++) {
        uint32_t before = 0;
        for (uint32_t k = 0; k < side->run_count; k++) {
            double a = side->runs[k].step_us, b = side->runs[i].step_us;
            before += a < b || (!(a > b) && k < i);
        }
        if (before == (side->run_count - 1) / 2)
            return i;
    }
    return 0;
}

/* A row for each run. */
static void put_runs_of_side(ka_table *t, const ka_side *side, const char *name)
{
    for (uint32_t i = 0; i < side->run_count; i++) {
        const ka_run *run = &side->runs[i];
        ka_put_text(t, kb_string(name));
        ka_put_int(t, i + 1);
        ka_put_int(t, run->has_steps ? run->steps : 0);
        ka_put_number(t, run->step_us);
    }
}

void ka_diff_put_runs(ka_diff *d)
{
    ka_table *t = &d->facts->tables[KA_TABLE_diff_runs];
    put_runs_of_side(t, &d->before, "before");
    put_runs_of_side(t, &d->after, "after");
}
