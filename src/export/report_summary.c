/* The element `summary` of the report as JSON: all of the page but the timeline. docs/reference/report.md
 * has its members; src/export/report/main.js reads them. */
#include "export/report.h"
#include "analyze/tables/table.h"

/* Devices with their labels; the page shows them in its head. */
static void put_device_list(const kineto_trace *t, kb_json *j)
{
    uint8_t *is_device = kt_find_devices(t);
    kb_json_key_z(j, "devices");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        ke_label label = ke_process_label(t, i);
        kineto_trace_process(t, i, &p);
        if (!is_device || !is_device[i])
            continue;
        kb_json_object_begin(j);
        kb_json_put_int(j, "id", p.pid);
        kb_json_put_string(j, "name", (kineto_string){label.text, label.size});
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    free(is_device);
}

/* Counts and window of the trace. A list, because merged reports may have several traces. */
static void put_trace_summary(const kineto_trace *t, const char *title, kb_json *j)
{
    ke_census census;
    ke_census_count(t, &census);
    kb_json_key_z(j, "traces");
    kb_json_array_begin(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "name", kb_string(title));
    kb_json_put_uint(j, "activities", census.activities);
    kb_json_put_uint(j, "lost", kineto_trace_lost(t));
    kb_json_put_uint(j, "repaired", kineto_trace_repair_total(t));
    kb_json_put_us(j, "start_us", census.start_ns);
    kb_json_put_us(j, "dur_us", kb_length_ns(census.start_ns, census.end_ns));
    put_device_list(t, j);
    kb_json_object_end(j);
    kb_json_array_end(j);
}

/* Runs kineto_verify_run and writes its findings. */
static kineto_status put_verify_findings(const kineto_trace *t, kb_json *j, kineto_error *err)
{
    kineto_verify_report *report;
    kineto_verify_finding f;
    kineto_status status = kineto_verify_run(t, NULL, &report, err);
    if (status)
        return status;
    kb_json_key_z(j, "health");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_verify_report_finding(report, i, &f); i++) {
        kineto_verify_rule rule;
        kineto_verify_rule_get(f.rule, &rule);
        kb_json_object_begin(j);
        kb_json_put_string(j, "severity", kb_string(kineto_severity_name(f.severity)));
        kb_json_put_string(j, "id", kb_string(rule.id));
        kb_json_put_uint(j, "count", f.count);
        kb_json_put_string(j, "sentence", f.sentence);
        kb_json_put_string(j, "remedy", kb_string(rule.remedy));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    kineto_verify_report_destroy(report);
    return KINETO_OK;
}

/* Tables of an analysis or comparison; null if the caller did not request it. */
static void put_tables_or_null(kb_json *j, const char *key, const kineto_analysis *facts,
                               uint64_t limit)
{
    kb_json_key_z(j, key);
    if (facts)
        ke_put_analysis(j, facts, limit, NULL);
    else
        kb_json_null(j);
}

/* Table ids of a section, in the order in which it shows them. */
static void put_section(kb_json *j, ka_section section)
{
    kb_json_key_z(j, ka_section_name(section));
    kb_json_array_begin(j);
    for (uint32_t place = 1; place <= KA_TABLE_COUNT; place++)
        for (uint32_t i = 0; i < KA_TABLE_COUNT; i++) {
            const ka_table_spec *spec = ka_table_spec_of((ka_table_id)i);
            if (spec->section == section && spec->place == place)
                kb_json_string(j, kb_string(spec->name));
        }
    kb_json_array_end(j);
}

static void put_sections(kb_json *j)
{
    kb_json_key_z(j, "sections");
    kb_json_object_begin(j);
    for (uint32_t i = KA_SECTION_NONE + 1; i < KA_SECTION_COUNT; i++)
        put_section(j, (ka_section)i);
    kb_json_object_end(j);
}

kineto_status ke_put_summary(const kineto_trace *trace, const kineto_report_options *options,
                             uint64_t timeline_rows, kb_sink *sink, kineto_error *err)
{
    kb_json j;
    kb_json_init(&j, sink);
    kb_json_document_begin(&j, "ckineto.report/1");
    kb_json_put_string(&j, "title", kb_string(options->title));
    put_trace_summary(trace, options->title, &j);
    ke_put_ledger(&j, trace);
    kineto_status status = put_verify_findings(trace, &j, err);
    kb_json_key_z(&j, "findings");
    if (options->findings)
        ke_put_findings(&j, options->findings, NULL);
    else
        kb_json_null(&j);
    kb_json_key_z(&j, "overview");
    if (options->overview)
        ke_put_overview(&j, options->overview);
    else
        kb_json_null(&j);
    put_sections(&j);
    put_tables_or_null(&j, "facts", options->facts, options->row_limit);
    put_tables_or_null(&j, "diff", options->diff, options->row_limit);
    ke_put_rank_map(&j, options->facts);
    kb_json_put_uint(&j, "timeline", timeline_rows);
    kb_json_object_end(&j);
    return status;
}
