/* The tools `open`, the overview of a trace, and `findings`, what to change. */
#include "cli/mcp/mcp.h"
#include "analyze/findings/finding.h"
#include "cli/print.h"
#include "export/export.h"

/* ---- open ------------------------------------------------------------------------------------ */

static kineto_status run_open(kc_mcp_call *call, kineto_error *err)
{
    kc_mcp_trace *t;
    kineto_overview *overview;
    const char *path = kc_mcp_text(call, "path");
    kineto_status status = kc_mcp_open(call->server, path, 0, &t, err);
    if (!status)
        status = kc_mcp_overview(t, &overview, err);
    if (!status)
        status = kb_sink_open_memory(KB_COMPRESS_NONE, &call->answer.sink, err);
    if (!status)
        status = ke_put_brief_overview(call->answer.sink, overview, kc_command_word(path, 160), err);
    return status;
}

static const kc_mcp_argument open_arguments[] = {KC_MCP_TRACE};
const kc_mcp_tool kc_mcp_open_tool = {
    "open", "Open a trace",
    "Read a performance trace (PyTorch/Kineto or Chrome JSON, perf, uftrace) and return its overview: a headline, key "
    "numbers, the findings with the largest savings, and small tables. Call it first.",
    false, open_arguments, KB_COUNT(open_arguments), run_open};

/* ---- findings -------------------------------------------------------------------------------- */

typedef struct findings_page {
    const kineto_findings *findings;
    int64_t start_ns; /* of the trace */
    uint64_t evidence;
    const char *id; /* only this rule; NULL: all */
} findings_page;

/* Times are relative to the start of the trace, as timeline_picture and slice take them. */
static void put_evidence(kb_json *j, const findings_page *p, uint32_t finding, uint64_t limit)
{
    kineto_finding_evidence e;
    kb_json_key_z(j, "evidence");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < p->evidence && kineto_findings_evidence(p->findings, finding, i, &e); i++) {
        kb_json_object_begin(j);
        if (e.start_ns || e.end_ns) {
            kb_json_put_us(j, "at_us", e.start_ns - p->start_ns);
            kb_json_put_us(j, "dur_us", e.end_ns - e.start_ns);
        }
        if (e.name.size)
            kc_mcp_put_member(j, "name", e.name, limit);
        if (e.where.size)
            kc_mcp_put_member(j, "where", e.where, limit);
        if (e.text.size)
            kc_mcp_put_member(j, "text", e.text, limit);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* The index of the n-th finding that is wanted; UINT32_MAX: there is none. */
static uint32_t find_finding(const findings_page *p, uint64_t n, kineto_finding *f)
{
    for (uint32_t i = 0; kineto_findings_get(p->findings, i, f); i++)
        if ((!p->id || strcmp(p->id, f->id) == 0) && n-- == 0)
            return i;
    return UINT32_MAX;
}

static kineto_status put_finding(kb_json *j, void *context, uint64_t index, uint64_t limit, kineto_error *err)
{
    const findings_page *p = context;
    kineto_finding f;
    kineto_finding_rule rule;
    uint32_t i = find_finding(p, index, &f);
    (void)err;
    if (i == UINT32_MAX)
        return KINETO_E_NOT_FOUND;
    kineto_finding_rule_get(f.rule, &rule);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(f.id));
    kb_json_put_string(j, "title", kb_string(rule.title));
    kb_json_put_string(j, "severity", kb_string(kineto_finding_severity_name(f.severity)));
    if (f.has_savings) {
        kb_json_put_us(j, "savings_us", f.savings_ns);
        kb_json_key_z(j, "savings_pct");
        kc_mcp_put_number(j, f.savings_pct);
        if (ka_findings_know_overlaps(p->findings))
            kb_json_put_bool(j, "additive", !kineto_findings_overlaps(p->findings, i));
    }
    kb_json_put_double(j, "confidence", f.confidence);
    if (f.rank_count > 1)
        kb_json_put_uint(j, "ranks", f.rank_count);
    if (f.subject.size)
        kc_mcp_put_member(j, "subject", f.subject, limit);
    kc_mcp_put_member(j, "observation", f.sentence, 4 * limit);
    kc_mcp_put_member(j, "advice", f.advice, 4 * limit);
    put_evidence(j, p, i, limit);
    kb_json_object_end(j);
    return KINETO_OK;
}

static kineto_status check_rule(const char *id, kineto_error *err)
{
    kineto_finding_rule rule;
    for (uint32_t i = 0; id && kineto_finding_rule_get(i, &rule); i++)
        if (strcmp(rule.id, id) == 0)
            return KINETO_OK;
    return id ? kb_fail(err, KINETO_E_ARGUMENT, "unknown rule '%.80s'; findings without an id lists what was found", id)
              : KINETO_OK;
}

static kineto_status run_findings(kc_mcp_call *call, kineto_error *err)
{
    kc_mcp_trace *t;
    uint32_t steps;
    findings_page p = {.evidence = kc_mcp_number(call, "evidence"), .id = kc_mcp_text(call, "id")};
    kineto_status status = check_rule(p.id, err);
    if (!status)
        status = kc_mcp_open(call->server, kc_mcp_text(call, "path"), 0, &t, err);
    if (!status)
        status = kc_mcp_findings(t, &p.findings, &p.start_ns, err);
    kb_json *j = status ? NULL : kc_mcp_begin(call, "ckineto.mcp_findings/1", err);
    if (!j)
        return err->code;
    int64_t step_ns = kineto_findings_mean_step_ns(p.findings, &steps);
    kb_json_put_us(j, steps ? "step_us" : "whole_us", step_ns);
    kb_json_put_uint(j, "steps", steps);
    if (p.findings->lacking)
        kb_json_put_string(j, "note", kb_string("not all findings were kept in these facts: 'ckineto facts --findings' keeps them"));
    kc_mcp_page page =
        kc_mcp_page_of(call, "findings", p.id ? UINT64_MAX : kineto_findings_count(p.findings), put_finding, &p);
    status = kc_mcp_put_page(call, &page, err);
    kb_json_object_end(j);
    return status;
}

static const kc_mcp_argument findings_arguments[] = {
    KC_MCP_TRACE,
    {"id", KC_MCP_TEXT, false, 0, 0, 0, NULL, "only findings of this rule, such as input.data_loader"},
    {"evidence", KC_MCP_NUMBER, false, 0, 20, 1, NULL, "places in the trace for each finding"},
    KC_MCP_TEXT_LIMIT,
    KC_MCP_OFFSET,
    KC_MCP_LIMIT(10),
};
const kc_mcp_tool kc_mcp_findings_tool = {
    "findings", "Findings",
    "Bottlenecks of a trace with estimated savings, advice and places, the largest savings first. Savings are per step "
    "(step_us) or of the whole trace; those with additive false overlap with others. at_us is relative to the start of "
    "the trace.",
    false, findings_arguments, KB_COUNT(findings_arguments), run_findings};
