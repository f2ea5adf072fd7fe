/* The overview as JSON (kineto_overview_save_json, the report); docs/overview.schema.json describes
 * the format. */
#include "analyze/overview/overview.h"
#include "export/export.h"

#include <ckineto/overview.h>

#include <math.h>

/* The brief form is one object of at most BRIEF_BYTES: names are cut, numbers have three decimals, and rows, tables
 * and findings that have no room are left out as a whole and counted. */
#define BRIEF_BYTES      4095u /* without the line break */
#define BRIEF_TEXT_BYTES 80u

/* How much of an overview is written. */
typedef struct extent {
    uint32_t findings, tables, rows;
    bool brief;
    const char *trace; /* in the commands of "next" */
} extent;

/* What the brief form tries in turn, until it fits. */
static const extent brief_extents[] = {{3, KA_SLOTS, 3, true, NULL}, {3, KA_SLOTS, 2, true, NULL},
                                       {3, KA_SLOTS, 1, true, NULL}, {3, 2, 1, true, NULL},
                                       {2, 2, 1, true, NULL},        {2, 1, 1, true, NULL},
                                       {1, 1, 1, true, NULL},        {1, 0, 0, true, NULL},
                                       {0, 0, 0, true, NULL}};

static void put_text(kb_json *j, kineto_string text, bool brief)
{
    kb_json_string(j, brief ? kb_utf8_cut(text, BRIEF_TEXT_BYTES) : text);
}

static void put_number(kb_json *j, double value, bool brief)
{
    kb_json_double(j, brief ? round(value * 1000) / 1000 : value);
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

/* One finding without its evidence. */
static void put_finding(kb_json *j, const kineto_finding *f, bool brief)
{
    kineto_finding_rule rule;
    kineto_finding_rule_get(f->rule, &rule);
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "id", kb_string(f->id));
    kb_json_put_string(j, "title", kb_string(rule.title));
    kb_json_put_string(j, "severity", kb_string(kineto_finding_severity_name(f->severity)));
    kb_json_key_z(j, "confidence");
    put_number(j, f->confidence, brief);
    if (f->has_savings) {
        kb_json_put_us(j, "savings_us", f->savings_ns);
        kb_json_key_z(j, "savings_pct");
        put_number(j, f->savings_pct, brief);
    }
    kb_json_put_string(j, "sentence", f->sentence);
    kb_json_put_string(j, "advice", f->advice);
    kb_json_object_end(j);
}

static void put_findings(kb_json *j, const kineto_findings *findings, const extent *x)
{
    kineto_finding f;
    uint32_t count = kineto_findings_count(findings);
    kb_json_key_z(j, "findings");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < x->findings && kineto_findings_get(findings, i, &f); i++)
        put_finding(j, &f, x->brief);
    kb_json_array_end(j);
    if (count > x->findings)
        kb_json_put_uint(j, "more_findings", count - x->findings);
}

static void put_cell(kb_json *j, const kineto_fact *f, bool brief)
{
    if (f->type == KINETO_CELL_TEXT && !f->is_none)
        put_text(j, f->text, brief);
    else if (f->type == KINETO_CELL_NUMBER && !f->is_none)
        put_number(j, f->d, brief);
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

static void put_tables(kb_json *j, kineto_overview *o, const extent *x)
{
    kineto_fact_table info;
    kineto_fact_column column;
    uint32_t i = 0, count;
    kb_json_key_z(j, "tables");
    kb_json_array_begin(j);
    for (; i < x->tables && kineto_overview_table(o, i, &info); i++) {
        uint64_t rows = KB_MIN(info.row_count, (uint64_t)x->rows);
        kb_json_newline(j);
        kb_json_object_begin(j);
        kb_json_put_string(j, "name", kb_string(info.name));
        kb_json_put_string(j, "title", kb_string(info.title));
        kb_json_key_z(j, "columns");
        kb_json_array_begin(j);
        for (uint32_t c = 0; kineto_overview_column(o, i, c, &column); c++)
            kb_json_string(j, column.name);
        kb_json_array_end(j);
        put_rows(j, o, i, rows, x->brief);
        kb_json_put_uint(j, "more", info.row_count - rows + kineto_overview_rows_left_out(o, i));
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
    for (count = i; kineto_overview_table(o, count, &info); count++)
        ;
    if (count > i)
        kb_json_put_uint(j, "more_tables", count - i);
}

/* Commands that continue from here: about the first finding, the first table, and everything. */
static void put_next(kb_json *j, kineto_overview *o, const char *trace)
{
    kineto_finding f;
    kineto_fact_table info;
    char command[512];
    kb_json_key_z(j, "next");
    kb_json_array_begin(j);
    if (kineto_findings_get(kineto_overview_findings(o), 0, &f)) {
        snprintf(command, sizeof command, "ckineto analyze --findings --json --only %s %s", f.id, trace);
        kb_json_string_z(j, command);
    }
    if (kineto_overview_table(o, 0, &info)) {
        snprintf(command, sizeof command, "ckineto analyze --json --only %s %s", info.name, trace);
        kb_json_string_z(j, command);
    }
    snprintf(command, sizeof command, "ckineto analyze --findings --json %s", trace);
    kb_json_string_z(j, command);
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

/* The begin of the first trace, which its times "at_us" are relative to. */
static void put_start(kb_json *j, const kineto_overview *o)
{
    const ka_coverage *c = ka_overview_coverage(o);
    if (c->traces.count == 1)
        kb_json_put_us(j, "start_us", c->traces.data[0].start_ns);
}

/* "step_us" if the trace has steps, otherwise "whole_us": what savings are a part of. */
static void put_overview(kb_json *j, kineto_overview *o, const extent *x)
{
    const kineto_findings *findings = kineto_overview_findings(o);
    uint32_t steps;
    int64_t step_ns = kineto_findings_mean_step_ns(findings, &steps);
    kb_json_document_begin(j, "ckineto.overview/1");
    kb_json_put_string(j, "headline", kb_string(kineto_overview_headline(o)));
    kb_json_put_us(j, steps ? "step_us" : "whole_us", step_ns);
    kb_json_put_uint(j, "steps", steps);
    put_start(j, o);
    if (!x->brief)
        put_ranks(j, o);
    ke_put_coverage(j, ka_overview_coverage(o));
    put_tiles(j, o);
    put_findings(j, findings, x);
    put_tables(j, o, x);
    if (x->brief)
        put_next(j, o, x->trace);
    kb_json_object_end(j);
}

void ke_put_overview(kb_json *j, kineto_overview *o)
{
    const extent whole = {.findings = 10, .tables = KA_SLOTS, .rows = UINT32_MAX};
    put_overview(j, o, &whole);
}

kineto_status ke_put_brief_overview(kb_sink *sink, kineto_overview *o, const char *trace, kineto_error *err)
{
    kineto_status status = KINETO_OK;
    char *text = NULL;
    size_t size = SIZE_MAX;
    for (size_t i = 0; i < KB_COUNT(brief_extents) && size > BRIEF_BYTES && !status; i++) {
        extent x = brief_extents[i];
        kb_sink *memory;
        kb_json j;
        free(text);
        text = NULL;
        x.trace = trace;
        status = kb_sink_open_memory(KB_COMPRESS_NONE, &memory, err);
        if (status)
            break;
        kb_json_init(&j, memory);
        put_overview(&j, o, &x);
        status = kb_sink_take(memory, &text, &size, err);
        kb_sink_abort(memory);
    }
    if (!status)
        kb_sink_write(sink, text, size);
    free(text);
    return status;
}

kineto_status ke_save_overview(kineto_overview *overview, bool brief, const char *trace, const char *path,
                               kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    if (brief)
        status = ke_put_brief_overview(sink, overview, trace, err);
    else
        ke_put_overview(&j, overview);
    if (status) {
        kb_sink_abort(sink);
        return status;
    }
    kb_sink_write(sink, "\n", 1);
    return kb_sink_close(sink, err);
}

kineto_status kineto_overview_save_json(kineto_overview *overview, bool brief, const char *path,
                                        kineto_error *err)
{
    if (!overview || !path)
        return kb_fail_null(err, __func__, "overview, path", overview, path);
    return ke_save_overview(overview, brief, "TRACE", path, err);
}
