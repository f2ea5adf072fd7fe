/* Adds up how sound the traces of facts are. */
#include "cli/facts/facts_health.h"

static kineto_status add_trace_health(const ka_facts_set *s, uint32_t index, bool is_one_of_many, kc_health *health,
                                      kineto_error *err)
{
    ka_trace_health one;
    kineto_status status = ka_facts_set_health(s, index, &one, err);
    if (!status)
        kc_health_add_measured(health, &one, is_one_of_many ? (int32_t)ka_facts_set_source(s, index)->rank : -1);
    ka_trace_health_free(&one);
    return status;
}

kineto_status kc_add_facts_health(const ka_facts_set *s, kc_health *health, kc_file_set *set, kineto_error *err)
{
    uint32_t of = ka_facts_set_count(s), readable = 0;
    kineto_error why = {.message = ""};
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < ka_facts_set_count(s) && !status; i++)
        if (!ka_facts_set_error(s, i, &why)) {
            status = add_trace_health(s, i, of > 1, health, err);
            readable++;
        }
    if (!readable && !status)
        status = kb_fail(err, why.code ? why.code : KINETO_E_NOT_FOUND, "%s", why.code ? why.message : "no facts of a trace");
    if (!status)
        status = ka_facts_set_survey(s, &set->survey, err);
    if (!status && !ka_coverage_add_bad_files(&health->coverage, set->survey))
        status = kb_fail_memory(err, NULL);
    return status;
}
