/* The functions of <ckineto/facts.h>, but the comparison of two runs. */
#include "analyze/saved/facts_paths.h"

#include <ckineto/facts.h>

/* Facts and traces in one list are not facts: they cannot be compared with each other. */
bool kineto_facts_are_at(const char *path)
{
    char *paths[] = {(char *)(uintptr_t)path};
    ka_operands_kind kind;
    return path && ka_find_facts(paths, 1, &kind, NULL, NULL) == KINETO_OK && kind == KA_OPERANDS_FACTS;
}

/* Paths are checked one by one: the list comes from a caller that may not be written in C. */
kineto_status kineto_facts_open(const char *const *paths, size_t count, uint64_t memory_bytes, kineto_facts **out,
                                kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!paths || !out)
        return kb_fail_null(err, __func__, "paths, out", paths, out);
    if (!count || count > INT32_MAX)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_facts_open: %zu paths: name facts files", count);
    for (size_t i = 0; i < count; i++)
        if (!paths[i])
            return kb_fail(err, KINETO_E_ARGUMENT, "kineto_facts_open: path %zu is NULL", i + 1);
    kineto_status status = ka_facts_open_paths((char *const *)(uintptr_t)paths, (int)count, out, err);
    if (!status)
        ka_facts_set_limit_memory(*out, memory_bytes);
    return status;
}

void kineto_facts_destroy(kineto_facts *facts) { ka_facts_set_destroy(facts); }

kineto_status kineto_facts_survey(kineto_facts *facts, kineto_survey **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!facts || !out)
        return kb_fail_null(err, __func__, "facts, out", facts, out);
    return ka_facts_set_survey(facts, out, err);
}

/* Without names: the tables that all traces have, and those that are made of them. */
kineto_status kineto_facts_analyze(kineto_facts *facts, const char *tables, kineto_analysis **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!facts || !out)
        return kb_fail_null(err, __func__, "facts, out", facts, out);
    const kineto_analysis_options options = {.size = sizeof options, .tables = tables};
    ka_table_set there = 0;
    kineto_status status = tables ? KINETO_OK : ka_facts_set_tables(facts, &there, err);
    there = (there | ka_reducible_tables(there)) & ~ka_tables_with(KA_HIDDEN | KA_DIFF);
    if (!status && !tables && !there)
        return ka_facts_fail_without_tables(err);
    return status ? status : ka_facts_set_analyze(facts, &options, tables ? 0 : there, out, err);
}

kineto_status kineto_facts_find(kineto_facts *facts, const char *rules, kineto_findings **out, kineto_error *err)
{
    ka_rule_set chosen;
    if (out)
        *out = NULL;
    if (!facts || !out)
        return kb_fail_null(err, __func__, "facts, out", facts, out);
    kineto_status status = ka_parse_rules(rules, &chosen, err);
    if (!status)
        status = ka_facts_set_find(facts, chosen, out, err);
    return status || *out ? status : kb_fail(err, KINETO_E_NOT_FOUND, "no facts of a trace that could be read");
}

/* Bad files are added here: the overview of a trace does not know the other files. */
kineto_status kineto_facts_overview(kineto_facts *facts, kineto_overview **out, kineto_error *err)
{
    kineto_survey *survey = NULL;
    if (out)
        *out = NULL;
    if (!facts || !out)
        return kb_fail_null(err, __func__, "facts, out", facts, out);
    kineto_status status = ka_facts_set_overview(facts, 0, out, err);
    if (!status && !*out)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no facts of a trace that could be read");
    if (!status)
        status = ka_facts_set_survey(facts, &survey, err);
    if (!status && !ka_coverage_add_bad_files(&(*out)->coverage, survey))
        status = kb_fail_memory(err, NULL);
    kineto_survey_destroy(survey);
    if (status) {
        kineto_overview_destroy(*out);
        *out = NULL;
    }
    return status;
}
