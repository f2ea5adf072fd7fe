/* Findings as JSON (kineto_findings_save_json, the report); docs/findings.schema.json describes the
 * format. Its keys are stable, whatever the names in C are. */
#include "analyze/findings/finding.h"
#include "export/export.h"

/* The evidence of a finding; members without a value are left out. */
static void put_json_evidence(kb_json *j, const kineto_findings *findings, uint32_t finding)
{
    kineto_finding_evidence e;
    kb_json_key_z(j, "evidence");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_findings_evidence(findings, finding, i, &e); i++) {
        kb_json_object_begin(j);
        kb_json_put_int(j, "rank", e.rank);
        if (e.row != KINETO_NO_ROW)
            kb_json_put_uint(j, "row", e.row);
        if (e.start_ns || e.end_ns) {
            kb_json_put_us(j, "at_us", e.start_ns - ka_finding_origin(findings, finding));
            kb_json_put_us(j, "start_us", e.start_ns);
            kb_json_put_us(j, "dur_us", kb_length_ns(e.start_ns, e.end_ns));
        }
        if (e.name.size)
            kb_json_put_string(j, "name", e.name);
        if (e.where.size)
            kb_json_put_string(j, "where", e.where);
        if (e.text.size)
            kb_json_put_string(j, "text", e.text);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Savings are written only if the rule estimates them. */
static void put_json_finding(kb_json *j, const kineto_findings *findings, uint32_t index,
                             const kineto_finding *f)
{
    KB_ASSERT(f->confidence >= 0 && f->confidence <= 1);
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(f->id));
    kb_json_put_string(j, "severity", kb_string(kineto_finding_severity_name(f->severity)));
    if (f->has_savings) {
        kb_json_put_us(j, "worth_us", f->savings_ns);
        kb_json_put_us(j, "of_us", f->baseline_ns);
        kb_json_put_double(j, "worth_pct", f->savings_pct);
        if (ka_findings_know_overlaps(findings))
            kb_json_put_bool(j, "additive", !kineto_findings_overlaps(findings, index));
    }
    kb_json_put_double(j, "confidence", f->confidence);
    kb_json_put_int(j, "rank", f->rank);
    kb_json_put_uint(j, "ranks", f->rank_count);
    kb_json_put_uint(j, "count", f->count);
    if (f->subject.size)
        kb_json_put_string(j, "subject", f->subject);
    kb_json_put_string(j, "sentence", f->sentence);
    kb_json_put_string(j, "advice", f->advice);
    put_json_evidence(j, findings, index);
    kb_json_object_end(j);
}

/* Every rule that was requested, with its result and the reason if it was skipped. */
static void put_rule_results(kb_json *j, const kineto_findings *findings)
{
    kineto_finding_rule rule;
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++) {
        static const char *const words[] = {"quiet", "found", "not judged"};
        kineto_string because;
        kineto_rule_outcome judgement = kineto_findings_outcome(findings, i, &because);
        if (judgement == KINETO_RULE_NOT_SELECTED)
            continue;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "id", kb_string(rule.id));
        kb_json_put_string(j, "title", kb_string(rule.title));
        kb_json_put_string(j, "judgement", kb_string(words[judgement]));
        if (because.size)
            kb_json_put_string(j, "because", because);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* "step_us" if the trace has steps, otherwise "whole_us": the base of the percentages. */
void ke_put_findings(kb_json *j, const kineto_findings *findings, const ka_coverage *coverage)
{
    uint32_t steps;
    int64_t step_ns = kineto_findings_mean_step_ns(findings, &steps);
    kineto_finding f;
    kb_json_document_begin(j, "ckineto.findings/1");
    ke_put_coverage(j, coverage);
    kb_json_put_us(j, steps ? "step_us" : "whole_us", step_ns);
    kb_json_put_uint(j, "steps", steps);
    kb_json_key_z(j, "findings");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_findings_get(findings, i, &f); i++)
        put_json_finding(j, findings, i, &f);
    kb_json_array_end(j);
    put_rule_results(j, findings);
    kb_json_object_end(j);
}

kineto_status kineto_findings_save_json(const kineto_findings *findings, const char *path,
                                        kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    if (!findings || !path)
        return kb_fail_null(err, __func__, "findings, path", findings, path);
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    ke_put_findings(&j, findings, NULL);
    kb_sink_write(sink, "\n", 1);
    return kb_sink_close(sink, err);
}

/* ---- rules ---------------------------------------------------------------------------------------- */

kineto_status ke_save_rule_list(const char *path, kineto_error *err)
{
    kineto_finding_rule rule;
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    kb_json_document_begin(&j, "ckineto.rules/1");
    kb_json_key_z(&j, "rules");
    kb_json_array_begin(&j);
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++) {
        kb_json_newline(&j);
        kb_json_object_begin(&j);
        kb_json_put_string(&j, "id", kb_string(rule.id));
        kb_json_put_string(&j, "title", kb_string(rule.title));
        kb_json_put_string(&j, "why", kb_string(rule.why));
        kb_json_put_string(&j, "remedy", kb_string(rule.remedy));
        kb_json_put_string(&j, "needs", kb_string(rule.needs));
        kb_json_put_bool(&j, "only_synthetic", rule.only_synthetic);
        kb_json_object_end(&j);
    }
    kb_json_array_end(&j);
    kb_json_object_end(&j);
    kb_json_newline(&j);
    return kb_sink_close(sink, err);
}
