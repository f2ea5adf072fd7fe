/* The two sides of a comparison: opens the traces of all runs, compares them, and evaluates the gates. */
#include "cli/diff/diff.h"
#include "cli/open_many.h"

#include "trace/trace.h"

/* Columns of many ranks would fill the memory: what exceeds this goes to a temporary file, as with --mem. */
static void limit_memory(char *const *paths, int count)
{
    enum { MANY_FILES = 16 };
    kineto_files *files;
    if (kc_reading.memory_bytes || kineto_files_find((const char *const *)paths, (size_t)count, &files, NULL) != KINETO_OK)
        return;
    if (kineto_files_count(files) > MANY_FILES)
        kc_reading.memory_bytes = UINT64_C(128) << 20;
    kineto_files_destroy(files);
}

/* Opens all runs of a side with the same rank, and adds up their numbers for the outputs. */
static kineto_status open_side(kc_diff_output *d, uint32_t side, int32_t rank, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < d->run_count[side] && !status; i++) {
        kineto_trace **t = &d->traces[side][i];
        status = kc_open_covered_traces(d->paths[side] + i, 1, rank, &d->coverage[side], t, err);
        if (status)
            continue;
        d->activities[side] += kineto_trace_count(*t);
        d->lost[side] += kineto_trace_lost(*t);
        d->is_cut[side] |= kt_ledger_is_cut(*t);
    }
    return status;
}

/* A single run a side is compared by its steps. */
kineto_status kc_diff_compare(kc_diff_output *d, int32_t rank, const kineto_diff_options *options,
                              kineto_error *err)
{
    const kineto_trace *sides[2][KC_MAX_RUNS];
    kineto_status status = KINETO_OK;
    for (uint32_t side = 0; side < 2 && !status; side++) {
        for (uint32_t i = 0; i < d->run_count[side]; i++)
            limit_memory(d->paths[side] + i, 1);
        status = open_side(d, side, rank, err);
        for (uint32_t i = 0; i < d->run_count[side]; i++)
            sides[side][i] = d->traces[side][i];
    }
    if (status)
        return status;
    return kineto_diff_runs(sides[0], d->run_count[0], sides[1], d->run_count[1], options, &d->facts, err);
}

kineto_status kc_diff_evaluate_gates(kc_diff_output *d, const kc_texts *gates, bool without_noise,
                                     kineto_error *err)
{
    kineto_status status = KINETO_OK;
    for (size_t i = 0; i < gates->count && i < KB_COUNT(d->gates) && !status; i++) {
        kc_gate *g = &d->gates[d->gate_count++];
        *g = (kc_gate){.text = gates->data[i], .verdict = {.size = sizeof g->verdict}};
        status = kineto_diff_gate(d->facts, g->text, without_noise, &g->verdict, err);
        d->failed |= g->verdict.outcome == KINETO_DIFF_FAILED;
        d->not_judged |= g->verdict.outcome == KINETO_DIFF_SKIPPED || g->verdict.outcome == KINETO_DIFF_INCONCLUSIVE;
    }
    return status;
}

void kc_diff_free(kc_diff_output *d)
{
    kineto_analysis_destroy(d->facts);
    for (uint32_t side = 0; side < 2; side++)
        for (uint32_t i = 0; i < d->run_count[side]; i++)
            kineto_trace_release(d->traces[side][i]);
    for (uint32_t side = 0; side < 2; side++)
        ka_coverage_free(&d->coverage[side]);
}

int kc_diff_exit_status(const kc_diff_output *d)
{
    return d->failed ? KC_EXIT_FAILURE : d->not_judged ? KC_EXIT_USAGE : 0;
}
