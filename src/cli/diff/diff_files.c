/* A diff for other programs: all facts as JSON; gates as JUnit XML and SARIF 2.1.0. The keys of the
 * JSON object are an interface ("ckineto.diff/1"). Gates that could not be evaluated are errors in
 * JUnit, and open results in SARIF. */
#include "cli/diff/diff.h"

#include "export/export.h"

#include <math.h>

/* ---- files ----------------------------------------------------------------------------------- */

/* The text is collected in memory, so that the sink can write a complete file. */
kineto_status kc_save_text(const kc_diff_output *d, void (*put)(const kc_diff_output *d, FILE *out),
                           const char *path, kineto_error *err)
{
    char *text = NULL;
    size_t size = 0;
    kb_sink *sink;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return kb_fail(err, KINETO_E_MEMORY, "write %s: out of memory", path);
    put(d, out);
    bool ok = fclose(out) == 0;
    kineto_status status = ok ? kb_sink_open_file(path, kb_compression_of(path), &sink, err)
                              : kb_fail(err, KINETO_E_MEMORY, "write %s: out of memory", path);
    if (!status) {
        kb_sink_write(sink, text, size);
        status = kb_sink_close(sink, err);
    }
    free(text);
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* JSON has no NaN: unknown numbers are omitted. */
static void put_finite_number(kb_json *j, const char *key, double value)
{
    if (isfinite(value))
        kb_json_put_double(j, key, value);
}

/* `side` is 0 before, 1 after. */
static void put_trace_side(kb_json *j, const kc_diff_output *d, uint32_t side)
{
    kb_json_key_z(j, side ? "after" : "before");
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(d->paths[side][0]));
    if (d->run_count[side] > 1) {
        kb_json_key_z(j, "runs");
        kb_json_array_begin(j);
        for (uint32_t i = 0; i < d->run_count[side]; i++)
            kb_json_string(j, kb_string(d->paths[side][i]));
        kb_json_array_end(j);
    }
    kb_json_put_uint(j, "activities", d->activities[side]);
    kb_json_put_uint(j, "lost", d->lost[side]);
    ke_put_coverage(j, &d->coverage[side]);
    kb_json_object_end(j);
}

/* Each gate with its verdict and the numbers that decided it. */
static void put_gates_json(kb_json *j, const kc_diff_output *d)
{
    kb_json_key_z(j, "gates");
    kb_json_array_begin(j);
    for (size_t i = 0; i < d->gate_count; i++) {
        const kineto_diff_verdict *v = &d->gates[i].verdict;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "gate", kb_string(d->gates[i].text));
        /* The value of 0.1: programs read it. */
        const char *word = v->outcome == KINETO_DIFF_SKIPPED ? "not judged" : kineto_diff_outcome_name(v->outcome);
        kb_json_put_string(j, "judgement", kb_string(word));
        kb_json_put_string(j, "decided_by", kb_string(kineto_diff_decider_name(v->decided_by)));
        if (v->subject.size)
            kb_json_put_string(j, "subject", v->subject);
        put_finite_number(j, "value", v->value);
        put_finite_number(j, "limit", v->limit);
        put_finite_number(j, "before", v->before);
        put_finite_number(j, "after", v->after);
        put_finite_number(j, "low_pct", v->low_pct);
        put_finite_number(j, "high_pct", v->high_pct);
        put_finite_number(j, "shift", v->shift);
        kb_json_put_string(j, "sentence", kb_string(v->sentence));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* Schema "ckineto.diff/1": members may be added, never renamed or removed. */
static void put_diff_document(kb_json *j, const void *what)
{
    const kc_diff_output *d = what;
    kb_json_document_begin(j, "ckineto.diff/1");
    put_trace_side(j, d, 0);
    put_trace_side(j, d, 1);
    put_gates_json(j, d);
    kb_json_key_z(j, "facts");
    ke_put_analysis(j, d->facts, 0, NULL);
    kb_json_object_end(j);
}

kineto_status kc_diff_save_json(const kc_diff_output *d, const char *path, kineto_error *err)
{
    return kc_save_json(path, put_diff_document, d, err);
}

/* ---- JUnit ----------------------------------------------------------------------------------- */

/* A writer for kb_xml_put; errors are seen by fclose of the memory stream. */
static void write_xml_bytes(void *out, const char *bytes, size_t size)
{
    (void)fwrite(bytes, 1, size, out);
}

static void put_xml_text(FILE *out, const char *text)
{
    kb_xml_put(kb_string(text), write_xml_bytes, out);
}

/* A gate that failed is a failure; one that could not be evaluated is an error. */
static void put_junit_case(const kc_gate *g, FILE *out)
{
    uint32_t outcome = g->verdict.outcome;
    const char *element = outcome == KINETO_DIFF_FAILED ? "failure" : "error";
    fputs("  <testcase classname=\"ckineto.diff\" name=\"", out);
    put_xml_text(out, g->text);
    if (outcome == KINETO_DIFF_PASSED) {
        fputs("\"><system-out>", out);
        put_xml_text(out, g->verdict.sentence);
        fputs("</system-out></testcase>\n", out);
        return;
    }
    fprintf(out, "\"><%s message=\"", element);
    put_xml_text(out, g->verdict.sentence);
    fprintf(out, "\"/></testcase>\n");
}

/* The names of all runs of a side. */
static void put_xml_side(const kc_diff_output *d, uint32_t side, FILE *out)
{
    for (uint32_t i = 0; i < d->run_count[side]; i++) {
        fputs(i ? ", " : "", out);
        put_xml_text(out, d->paths[side][i]);
    }
}

/* One test case for each gate. */
static void put_junit_suite(const kc_diff_output *d, FILE *out)
{
    unsigned failures = 0, errors = 0;
    for (size_t i = 0; i < d->gate_count; i++) {
        failures += d->gates[i].verdict.outcome == KINETO_DIFF_FAILED;
        errors += d->gates[i].verdict.outcome == KINETO_DIFF_SKIPPED ||
                  d->gates[i].verdict.outcome == KINETO_DIFF_INCONCLUSIVE;
    }
    fprintf(out,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
            "<testsuite name=\"ckineto diff\" tests=\"%zu\" failures=\"%u\" errors=\"%u\">\n"
            "  <properties><property name=\"before\" value=\"",
            d->gate_count, failures, errors);
    put_xml_side(d, 0, out);
    fputs("\"/><property name=\"after\" value=\"", out);
    put_xml_side(d, 1, out);
    fputs("\"/></properties>\n", out);
    for (size_t i = 0; i < d->gate_count; i++)
        put_junit_case(&d->gates[i], out);
    fputs("</testsuite>\n</testsuites>\n", out);
}

kineto_status kc_diff_save_junit(const kc_diff_output *d, const char *path, kineto_error *err)
{
    return kc_save_text(d, put_junit_suite, path, err);
}

/* ---- SARIF 2.1.0 ----------------------------------------------------------------------------- */

/* A SARIF message object: {"text": …}. */
static void put_sarif_text(kb_json *j, const char *key, kineto_string text)
{
    kb_json_key_z(j, key);
    kb_json_object_begin(j);
    kb_json_put_string(j, "text", text);
    kb_json_object_end(j);
}

/* A path as a URI reference: other bytes are percent-encoded. */
static void put_sarif_uri(kb_json *j, const char *path)
{
    static const char safe[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                               "-._~/";
    char uri[3 * 1000 + 1];
    size_t n = 0;
    for (const char *c = path; *c && n + 4 < sizeof uri; c++)
        if (strchr(safe, *c))
            uri[n++] = *c;
        else
            n += (size_t)snprintf(uri + n, 4, "%%%02X", (unsigned)(unsigned char)*c);
    kb_json_put_string(j, "uri", (kineto_string){uri, n});
}

/* The location of a result: the trace after. */
static void put_sarif_location(kb_json *j, const kc_diff_output *d)
{
    kb_json_key_z(j, "locations");
    kb_json_array_begin(j);
    kb_json_object_begin(j);
    kb_json_key_z(j, "physicalLocation");
    kb_json_object_begin(j);
    kb_json_key_z(j, "artifactLocation");
    kb_json_object_begin(j);
    put_sarif_uri(j, d->paths[1][0]);
    kb_json_object_end(j);
    kb_json_object_end(j);
    kb_json_object_end(j);
    kb_json_array_end(j);
}

/* "kind" and "level" as SARIF 2.1.0 defines them. */
static void put_sarif_result(kb_json *j, const kc_diff_output *d, kineto_string rule,
                             const char *kind, const char *level, kineto_string message)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "ruleId", rule);
    kb_json_put_string(j, "kind", kb_string(kind));
    kb_json_put_string(j, "level", kb_string(level));
    put_sarif_text(j, "message", message);
    put_sarif_location(j, d);
    kb_json_object_end(j);
}

/* Gates, then findings that exist only in the trace after. */
static void put_sarif_results(kb_json *j, const kc_diff_output *d)
{
    static const struct {
        const char *kind, *level;
    } words[] = {{"pass", "none"}, {"fail", "error"}, {"open", "none"}, {"open", "none"}};
    uint32_t t = kineto_analysis_find_table(d->facts, "diff_findings");
    kb_json_key_z(j, "results");
    kb_json_array_begin(j);
    for (size_t i = 0; i < d->gate_count; i++) {
        const kineto_diff_verdict *v = &d->gates[i].verdict;
        char message[800];
        int size = snprintf(message, sizeof message, "%.150s: %s", d->gates[i].text, v->sentence);
        put_sarif_result(j, d, kb_string("diff.gate"), words[v->outcome % 4].kind,
                         words[v->outcome % 4].level,
                         (kineto_string){message, KB_MIN((size_t)size, sizeof message - 1)});
    }
    for (uint64_t row = 0; row < kc_fact_rows(d->facts, t); row++)
        if (kb_string_equal(kc_fact_text(d->facts, t, row, "change"), kb_string("added")) &&
            !kc_is_circumstance(d->facts, t, row) && !kc_is_finding_in_noise(d->facts, t, row))
            put_sarif_result(j, d, kc_fact_text(d->facts, t, row, "id"), "fail", "note",
                             kc_fact_text(d->facts, t, row, "sentence"));
    kb_json_array_end(j);
}

/* A reportingDescriptor of SARIF. */
static void put_sarif_rule(kb_json *j, const char *id, const char *about)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(id));
    put_sarif_text(j, "shortDescription", kb_string(about));
    kb_json_object_end(j);
}

/* The tool and all rules that results may name. */
static void put_sarif_tool(kb_json *j)
{
    kineto_finding_rule rule;
    kb_json_key_z(j, "tool");
    kb_json_object_begin(j);
    kb_json_key_z(j, "driver");
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string("ckineto"));
    kb_json_put_string(j, "version", kb_string(kineto_version()));
    kb_json_key_z(j, "rules");
    kb_json_array_begin(j);
    put_sarif_rule(j, "diff.gate",
                   "A difference between two traces exceeds its limit, and is not noise");
    for (uint32_t i = 0; kineto_finding_rule_get(i, &rule); i++)
        put_sarif_rule(j, rule.id, rule.title);
    kb_json_array_end(j);
    kb_json_object_end(j);
    kb_json_object_end(j);
}

/* One run of one tool, as SARIF 2.1.0 requires at least. */
static void put_sarif_log(kb_json *j, const void *what)
{
    kb_json_object_begin(j);
    kb_json_put_string(j, "$schema", kb_string("https://json.schemastore.org/sarif-2.1.0.json"));
    kb_json_put_string(j, "version", kb_string("2.1.0"));
    kb_json_key_z(j, "runs");
    kb_json_array_begin(j);
    kb_json_object_begin(j);
    put_sarif_tool(j);
    put_sarif_results(j, what);
    kb_json_object_end(j);
    kb_json_array_end(j);
    kb_json_object_end(j);
}

kineto_status kc_diff_save_sarif(const kc_diff_output *d, const char *path, kineto_error *err)
{
    return kc_save_json(path, put_sarif_log, d, err);
}
