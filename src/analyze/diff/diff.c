/* Two traces side by side. */
#include "analyze/diff/diff.h"

/* ---- tables --------------------------------------------------------------------------------- */

/* Does some set of definitions fill this table alone? */
static bool has_own_definitions(ka_table_id table)
{
    for (uint32_t i = 0; i < ka_definitions_count; i++)
        if (ka_definitions_of(i)->diff_table == table)
            return true;
    return false;
}

/* Definitions with a comparison of their own fill one table, all others the rest. */
static bool is_table_compared(uint32_t definitions, ka_table_id table, bool findings)
{
    const ka_definitions *d = ka_definitions_of(definitions);
    if (d->compare_traces)
        return table == d->diff_table;
    return ka_table_flags(table) & KA_DIFF && !has_own_definitions(table) &&
           (findings || table != KA_TABLE_diff_findings);
}

kineto_status ka_diff_create(ka_table_set tables, kineto_analysis **out, kineto_error *err)
{
    kineto_status status = ka_facts_create(out, err);
    for (uint32_t i = 0; !status && i < KA_TABLE_COUNT; i++) {
        if (!(tables >> i & 1))
            continue;
        (*out)->tables[i].wanted = (*out)->tables[i].shown = true;
        (*out)->shown[(*out)->shown_count++] = (uint8_t)i;
    }
    return status;
}

/* An analysis in which only tables of comparisons are wanted. */
static kineto_status create_facts(uint32_t definitions, bool findings, kineto_analysis **out,
                                  kineto_error *err)
{
    ka_table_set tables = 0;
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        tables |= (ka_table_set)is_table_compared(definitions, (ka_table_id)i, findings) << i;
    kineto_status status = ka_diff_create(tables, out, err);
    if (!status)
        (*out)->definitions = definitions;
    return status;
}

/* No table ran out of memory. */
static bool has_memory(const kineto_analysis *a)
{
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (a->tables[i].no_memory)
            return false;
    return true;
}

/* The traces of one side. */
typedef struct diff_runs {
    const kineto_trace *const *traces;
    size_t count;
} diff_runs;

/* ---- both sides ----------------------------------------------------------------------------- */

/* Findings of the steps that are compared: those of warm-up would be part of what a step should save. */
static kineto_status find_in(const kineto_trace *trace, const ka_run *run, bool without_warm_up,
                             const kineto_analysis_options *how, kineto_findings **out,
                             kineto_error *err)
{
    kineto_analysis_options its = *how;
    kineto_findings_options o = {.size = sizeof o, .evidence = 1, .analyze = &its};
    if (without_warm_up && run->has_steps) {
        its.steps = KINETO_STEPS_RANGE;
        its.first_step = run->first_step;
        its.last_step = run->last_step;
        kineto_status status = kineto_findings_find(trace, &o, out, err);
        if (status != KINETO_E_NOT_FOUND) /* else a rank has none of them */
            return status;
        its = *how;
    }
    return kineto_findings_find(trace, &o, out, err);
}

/* Findings of the middle run of each side, compared by rule and subject. */
static kineto_status find_both(ka_diff *d, const diff_runs runs[2], const kineto_analysis_options *how,
                               kineto_error *err)
{
    const ka_side *sides[] = {&d->before, &d->after};
    bool warm = d->before.warm_up || d->after.warm_up;
    kineto_findings *found[2] = {NULL, NULL};
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < 2 && !status; i++) {
        uint32_t middle = ka_middle_run(sides[i]);
        status = find_in(runs[i].traces[middle], &sides[i]->runs[middle], warm, how, &found[i], err);
    }
    if (!status && !ka_diff_put_findings(d, found[0], found[1]))
        status = kb_fail_memory(err, "compare findings");
    kineto_findings_destroy(found[0]);
    kineto_findings_destroy(found[1]);
    return status;
}

/* Fewer for traces that no program makes, with more names than one has. */
static uint32_t draws_for(const ka_diff *d, uint32_t asked)
{
    size_t things = d->before.things.count + d->after.things.count;
    return asked || things < 20000 ? asked : (uint32_t)KB_MAX(40000000 / things, (size_t)200);
}

/* Measures both sides, matches their things and fills all tables but findings. */
static kineto_status compare_sides(ka_diff *d, const diff_runs runs[2], const kineto_diff_options *o,
                                   const kineto_analysis_options *how, kineto_error *err)
{
    bool reduce = runs[0].count > 1 || runs[1].count > 1;
    bool calls = runs[0].count >= KA_MIN_RUNS && runs[1].count >= KA_MIN_RUNS;
    kineto_status status =
        ka_side_make_of_runs(runs[0].traces, (uint32_t)runs[0].count, reduce, calls, o, how, &d->before, err);
    if (!status)
        status = ka_side_make_of_runs(runs[1].traces, (uint32_t)runs[1].count, reduce, calls, o, how, &d->after, err);
    if (status)
        return status;
    const ka_thing *step = &d->before.things.data[1]; /* with its work: parts add up to it */
    const ka_thing *other = &d->after.things.data[1];
    bool ok = ka_chance_make(&d->chance, o->seed, draws_for(d, o->draws), o->medians) &&
              ka_match_sides(&d->before, &d->after);
    if (ok) {
        ka_estimate steps =
            ka_compare(&d->chance, d->before.values.data + step->values, step->value_count,
                       d->after.values.data + other->values, other->value_count);
        d->step_us = steps.before;
        d->both_us = (steps.before + steps.after) / 2;
        ok = ka_diff_put_tables(d) && ka_diff_put_calls(d) && ka_diff_put_summary(d);
        ka_diff_put_conditions(d);
    }
    return ok ? KINETO_OK : kb_fail_memory(err, "compare two traces");
}

/* The comparison by the exact definitions. */
static kineto_status compare_exact(const diff_runs runs[2], const kineto_diff_options *o,
                                   kineto_analysis *facts, kineto_error *err)
{
    ka_diff d = {.facts = facts};
    kineto_analysis_options how = {.size = sizeof how};
    if (o->analyze)
        how = *o->analyze;
    char *pattern;
    bool ok = ka_agree_on_steps((const kineto_trace *const *[]){runs[0].traces, runs[1].traces},
                                (size_t[]){runs[0].count, runs[1].count}, &how, &pattern);
    kineto_status status = ok ? compare_sides(&d, runs, o, &how, err) : kb_fail_memory(err, "compare two traces");
    if (!status && runs[0].count == 1 && runs[1].count == 1)
        status = ka_diff_ranks_of_traces(facts, runs[0].traces[0], runs[1].traces[0], &how, err);
    if (!status && o->findings)
        status = find_both(&d, runs, &how, err);
    ka_chance_free(&d.chance);
    ka_side_free(&d.before);
    ka_side_free(&d.after);
    free(pattern);
    return status;
}

/* Both, with those of the analysis in a place of our own. */
static kineto_status read_diff_options(const kineto_diff_options *options, kineto_diff_options *o,
                                       kineto_analysis_options *how, kineto_error *err)
{
    kineto_status status = kb_options_read(o, sizeof *o, options, "kineto_diff_options", err);
    if (!status)
        status = ka_options_read(o->analyze, how, err);
    if (!status && o->devices > KINETO_DIFF_DEVICE)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_diff_options: unknown devices %u",
                       o->devices);
    o->analyze = o->analyze ? how : NULL;
    return status;
}

/* Definitions with a comparison of their own have no runs: their results have no intervals. */
static kineto_status check_runs(const diff_runs runs[2], const ka_definitions *d, kineto_error *err)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (!runs[i].count || runs[i].count > KA_MAX_BLOCKS)
            return kb_fail(err, KINETO_E_ARGUMENT, "compare %zu runs: a side has 1 to %u", runs[i].count,
                           KA_MAX_BLOCKS);
        if (runs[i].count > 1 && d->compare_traces)
            return kb_fail(err, KINETO_E_ARGUMENT, "several runs of a side need the exact definitions");
        for (size_t k = 0; k < runs[i].count; k++)
            if (!runs[i].traces[k])
                return kb_fail(err, KINETO_E_ARGUMENT, "kineto_diff_runs: run %zu of a side is NULL", k + 1);
    }
    return KINETO_OK;
}

/* The definitions may compare in a way of their own, which fills one table. */
static kineto_status compare_runs(const diff_runs runs[2], const kineto_diff_options *options,
                                  kineto_analysis **out, kineto_error *err)
{
    kineto_diff_options o = {.size = sizeof o};
    kineto_analysis_options how;
    kineto_analysis *facts = NULL;
    kineto_status status = read_diff_options(options, &o, &how, err);
    if (status)
        return status;
    const ka_definitions *d = ka_definitions_of(how.definitions);
    status = check_runs(runs, d, err);
    if (!status)
        status = create_facts(how.definitions, o.findings, &facts, err);
    if (!status)
        status = d->compare_traces ? d->compare_traces(runs[0].traces[0], runs[1].traces[0], &o, facts, err)
                                   : compare_exact(runs, &o, facts, err);
    if (!status && !has_memory(facts))
        status = kb_fail_memory(err, "facts of two traces");
    if (status) {
        kineto_analysis_destroy(facts);
        return status;
    }
    *out = facts;
    return KINETO_OK;
}

kineto_status kineto_diff_run(const kineto_trace *before, const kineto_trace *after,
                              const kineto_diff_options *options, kineto_analysis **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!before || !after || !out)
        return kb_fail_null(err, __func__, "before, after, out", before, after, out);
    return compare_runs((diff_runs[]){{&before, 1}, {&after, 1}}, options, out, err);
}

kineto_status kineto_diff_runs(const kineto_trace *const *before, size_t before_count,
                               const kineto_trace *const *after, size_t after_count,
                               const kineto_diff_options *options, kineto_analysis **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!before || !after || !out)
        return kb_fail_null(err, __func__, "before, after, out", before, after, out);
    return compare_runs((diff_runs[]){{before, before_count}, {after, after_count}}, options, out, err);
}
