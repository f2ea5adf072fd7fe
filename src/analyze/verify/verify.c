/* kineto_verify_run: selects the rules and runs the passes over a trace. Passes share ka_verify: the
 * first one (verify_rows.c) fills what later ones need of tracks, names and kinds, and
 * verify_args.c decides whether units are mixed before overlaps are checked. Findings are
 * collected in the report and sorted by severity. */
#include "analyze/verify/verify.h"

/* Rules with this id, or with ids that begin with it and a dot. */
static uint64_t rules_of(const char *id, size_t size)
{
    uint64_t mask = 0;
    for (uint32_t i = 0; i < KA_RULE_COUNT; i++) {
        kineto_verify_rule rule;
        kineto_verify_rule_get(i, &rule);
        if (strncmp(rule.id, id, size) == 0 && (rule.id[size] == 0 || rule.id[size] == '.'))
            mask |= UINT64_C(1) << i;
    }
    return mask;
}

/* Sets the bits of all rules in a list with commas; NULL: all rules. KINETO_E_ARGUMENT: an entry
 * matches no rule. */
static kineto_status parse_rule_list(const char *list, uint64_t *mask, kineto_error *err)
{
    *mask = list ? 0 : UINT64_MAX;
    while (list && *list) {
        size_t size = strcspn(list, ",");
        uint64_t some = size ? rules_of(list, size) : 0;
        if (!some && size)
            return kb_fail(err, KINETO_E_ARGUMENT, "unknown verify rule '%.*s'",
                           (int)KB_MIN(size, (size_t)80), list);
        *mask |= some;
        list += size + (list[size] == ',');
    }
    if (!*mask)
        return kb_fail(err, KINETO_E_ARGUMENT, "no verify rule given");
    return KINETO_OK;
}

/* Options with defaults. */
static kineto_status read_verify_options(ka_verify *v, const kineto_verify_options *options,
                                         kineto_error *err)
{
    kineto_verify_options all = {.size = sizeof all};
    kineto_status status = kb_options_read(&all, sizeof all, options, "kineto_verify_options", err);
    if (status)
        return status;
    v->places = all.places ? KB_MIN(all.places, 1000u) : 3;
    return parse_rule_list(all.rules, &v->wanted, err);
}

/* Stops once memory has run out. */
static void run_passes(ka_verify *v)
{
    static void (*const passes[])(ka_verify *) = {
        ka_verify_rows,  ka_verify_tables, ka_verify_args, ka_verify_links,
        ka_verify_flows, ka_verify_tracks, ka_verify_steps};
    for (size_t i = 0; i < KB_COUNT(passes) && !v->no_memory; i++)
        passes[i](v);
}

/* Passes only need the trace; the report is handed over to the caller. */
kineto_status kineto_verify_run(const kineto_trace *trace, const kineto_verify_options *options,
                            kineto_verify_report **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    ka_verify v = {.t = trace};
    kineto_status status = read_verify_options(&v, options, err);
    if (status != KINETO_OK)
        return status;
    if (ka_report_create(&v.report))
        run_passes(&v);
    else
        v.no_memory = true;
    free(v.tracks);
    free(v.names);
    free(v.implausible);
    if (v.no_memory) {
        kineto_verify_report_destroy(v.report);
        return kb_fail_memory(err, "verify a trace");
    }
    ka_report_sort(v.report);
    *out = v.report;
    return KINETO_OK;
}
