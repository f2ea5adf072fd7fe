/* The comparison of facts of two runs: kineto_facts_diff of <ckineto/facts.h>. */
#include "analyze/diff/diff.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/facts_file.h"

#include <ckineto/facts.h>

/* The facts of all ranks, also of a run whose tables over all ranks were kept. */
static kineto_status load_ranks(const ka_facts_set *s, kineto_analysis **out, kineto_error *err)
{
    const kineto_analysis_options usual = {.size = sizeof usual};
    return ka_facts_set_analyze_ranks(s, &usual, KA_TABLE_BIT(KA_TABLE_rank_marks), out, err);
}

kineto_status kineto_facts_diff(kineto_facts *before, kineto_facts *after, kineto_analysis **out, kineto_error *err)
{
    kineto_analysis *ranks[2] = {NULL, NULL}, *facts = NULL;
    if (out)
        *out = NULL;
    if (!before || !after || !out)
        return kb_fail_null(err, __func__, "before, after, out", before, after, out);
    kineto_status status = load_ranks(before, &ranks[0], err);
    if (!status)
        status = load_ranks(after, &ranks[1], err);
    if (!status)
        status = ka_diff_create(KA_TABLE_BIT(KA_TABLE_diff_ranks), &facts, err);
    if (!status)
        status = ka_diff_put_ranks(facts, ranks[0]->ranks, ranks[1]->ranks, err);
    if (!status && facts->tables[KA_TABLE_diff_ranks].no_memory)
        status = kb_fail_memory(err, "compare ranks");
    for (uint32_t side = 0; side < 2; side++)
        kineto_analysis_destroy(ranks[side]);
    if (status)
        kineto_analysis_destroy(facts);
    else
        *out = facts;
    return status;
}
