/* The overview as JSON (kineto_overview_save_json, the report); docs/overview.schema.json describes
 * the format. */
#include "analyze/overview/overview.h"
#include "export/export.h"

#include <ckineto/overview.h>

/* Names in the brief form are cut here, and each table has this many rows: the whole stays below
 * 4 KB. */
#define BRIEF_TEXT_BYTES 80u
#define BRIEF_ROWS       3u
#define BRIEF_FINDINGS   3u
#define ALL_FINDINGS     10u

static void put_text(kb_json *j, kineto_string text, bool brief)
{
    kb_json_string(j, brief ? kb_utf8_cut(text, BRIEF_TEXT_BYTES) : text);
}

static void put_tiles(kb_json *j, kineto_overview *o)
{
    kineto_overview_tile tile;
    kb_json_key_z(j, "tiles");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_overview_tile_get(o, i, &tile); i++) {
        kb_json_object_begin(j);
        kb_json_put_string(j, "label", kb_string(tile.label));
        kb_json_put_string(j, "value", kb_string(tile.value));
        kb_json_put_string(j, "detail", kb_string(tile.detail));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* The first findings, without their evidence. */
static void put_findings(kb_json *j, const kineto_findings *findings, bool brief)
{
    kineto_finding f;
    uint32_t limit = brief ? BRIEF_FINDINGS : ALL_FINDINGS, count = kineto_findings_count(findings);
    kb_json_key_z(j, "findings");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < limit && kineto_findings_get(findings, i, &f); i++) {
        kineto_finding_rule rule;
        kineto_finding_rule_get(f.rule, &rule);
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "id", kb_string(f.id));
        kb_json_put_string(j, "title", kb_string(rule.title));
        kb_json_put_string(j, "severity", kb_string(kineto_finding_severity_name(f.severity)));
        if (f.has_savings) {
            kb_json_put_us(j, "savings_us", f.savings_ns);
            kb_json_put_double(j, "savings_pct", f.savings_pct);
        }
        kb_json_put_string(j, "advice", brief ? kb_utf8_cut(f.advice, 3 * BRIEF_TEXT_BYTES) : f.advice);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    if (count > limit)
        kb_json_put_uint(j, "more_findings", count - limit);
}

static void put_cell(kb_json *j, const kineto_fact *f, bool brief)
{
    if (f->type == KINETO_CELL_TEXT && !f->is_none)
        put_text(j, f->text, brief);
    else
        ke_put_fact(j, f);
}

static void put_rows(kb_json *j, kineto_overview *o, uint32_t table, uint64_t rows, bool brief)
{
    kineto_fact fact;
    kb_json_key_z(j, "rows");
    kb_json_array_begin(j);
    for (uint64_t r = 0; r < rows; r++) {
        kb_json_newline(j);
        kb_json_array_begin(j);
        for (uint32_t c = 0; kineto_overview_fact(o, table, r, c, &fact); c++)
            put_cell(j, &fact, brief);
        kb_json_array_end(j);
    }
    kb_json_array_end(j);
}

static void put_tables(kb_json *j, kineto_overview *o, bool brief)
{
    kineto_fact_table info;
    kineto_fact_column column;
    kb_json_key_z(j, "tables");
    kb_json_array_begin(j);
    for (uint32_t i = 0; kineto_overview_table(o, i, &info); i++) {
        uint64_t rows = brief ? KB_MIN(info.row_count, (uint64_t)BRIEF_ROWS) : info.row_count;
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kb_string(info.name));
        kb_json_put_string(j, "title", kb_string(info.title));
        kb_json_key_z(j, "columns");
        kb_json_array_begin(j);
        for (uint32_t c = 0; kineto_overview_column(o, i, c, &column); c++)
            kb_json_string(j, column.name);
        kb_json_array_end(j);
        put_rows(j, o, i, rows, brief);
        kb_json_put_uint(j, "more", info.row_count - rows + kineto_overview_rows_left_out(o, i));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* When each rank was recorded, and how many there should be: what is missing follows. -1: the trace has
 * several ranks. */
static void put_ranks(kb_json *j, const kineto_overview *o)
{
    const ka_coverage *c = ka_overview_coverage(o);
    kb_json_put_uint(j, "world_size", c->world_size);
    kb_json_key_z(j, "ranks");
    kb_json_array_begin(j);
    for (size_t i = 0; i < c->traces.count; i++) {
        const ka_covered_trace *t = &c->traces.data[i];
        kb_json_object_begin(j);
        kb_json_put_int(j, "rank", t->rank);
        kb_json_put_us(j, "start_us", t->start_ns);
        kb_json_put_us(j, "dur_us", kb_length_ns(t->start_ns, t->end_ns));
        kb_json_put_bool(j, "is_cut", t->is_cut);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* "step_us" if the trace has steps, otherwise "whole_us": what savings are a part of. */
void ke_put_overview(kb_json *j, kineto_overview *o, bool brief)
{
    const kineto_findings *findings = kineto_overview_findings(o);
    uint32_t steps;
    int64_t step_ns = kineto_findings_mean_step_ns(findings, &steps);
    kb_json_document_begin(j, "ckineto.overview/1");
    kb_json_put_string(j, "headline", kb_string(kineto_overview_headline(o)));
    kb_json_put_us(j, steps ? "step_us" : "whole_us", step_ns);
    kb_json_put_uint(j, "steps", steps);
    if (!brief)
        put_ranks(j, o);
    put_tiles(j, o);
    put_findings(j, findings, brief);
    put_tables(j, o, brief);
    kb_json_object_end(j);
}

kineto_status kineto_overview_save_json(kineto_overview *overview, bool brief, const char *path,
                                        kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    if (!overview || !path)
        return kb_fail_null(err, __func__, "overview, path", overview, path);
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    ke_put_overview(&j, overview, brief);
    kb_sink_write(sink, "\n", 1);
    return kb_sink_close(sink, err);
}
