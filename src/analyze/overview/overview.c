/* The overview of traces: findings and facts of each are added up; sections, tiles and headline
 * are made of the sums when they are first asked for. */
#include "analyze/overview/overview.h"
#include "analyze/dataset/each_rank.h"
#include "trace/model/steps.h"
#include "trace/trace.h"

#include <ckineto/files.h>

enum { MAX_NAMES = 1000 };

/* The tables that are to be computed: those that were asked for, and those that are read here. */
static void name_tables(const char *asked, char names[static MAX_NAMES])
{
    const ka_section_spec *spec;
    size_t length = (size_t)snprintf(names, MAX_NAMES, "%s,memory", asked);
    for (uint32_t i = 0; (spec = ka_section_spec_of(i)) != NULL && length < MAX_NAMES; i++)
        length += (size_t)snprintf(names + length, MAX_NAMES - length, ",%s", ka_table_name(spec->source));
    KB_ASSERT(length < MAX_NAMES);
}

/* Names the steps that no option and no profiler names. False: out of memory. */
static bool name_repeated_steps(kineto_overview *o, const kineto_trace *trace, const kineto_analysis_options *how)
{
    kt_step_list list;
    if (how->step_pattern || how->definitions != KINETO_DEFINITIONS_EXACT)
        return true;
    bool ok = kt_step_list_make(trace, NULL, true, &list);
    if (ok && list.repeated_name != KB_INTERN_NONE) {
        kineto_string name = kineto_trace_string(trace, list.repeated_name);
        name.size = kb_utf8_valid_prefix(name.data, KB_MIN(name.size, sizeof o->repeated_steps - 1));
        (void)snprintf(o->repeated_steps, sizeof o->repeated_steps, "%.*s", (int)name.size, name.data);
    }
    kt_step_list_free(&list);
    return ok;
}

kineto_status kineto_overview_create(const kineto_trace *trace, const kineto_analysis_options *analyze,
                                     kineto_overview **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    kineto_overview *o = calloc(1, sizeof *o);
    if (!o)
        return kb_fail_memory(err, NULL);
    char names[MAX_NAMES];
    kineto_analysis_options how;
    kineto_findings_options options = {.size = sizeof options, .analyze = &how, .facts = &o->facts};
    kineto_status status = ka_options_read(analyze, &how, err);
    if (!status && how.tables) {
        name_tables(how.tables, names);
        how.tables = names;
    }
    if (!status)
        status = kineto_findings_find(trace, &options, &o->found, err);
    if (!status && (!ka_coverage_add(&o->coverage, trace, analyze ? analyze->rank : NULL) ||
                    !name_repeated_steps(o, trace, &how)))
        status = kb_fail_memory(err, NULL);
    if (!status) {
        *out = o;
        return KINETO_OK;
    }
    kineto_overview_destroy(o);
    return status;
}

static void free_sections(kineto_overview *o)
{
    for (uint32_t i = 0; i < o->section_count; i++)
        ka_overview_section_free(&o->sections[i]);
    o->section_count = o->tile_count = 0;
    o->is_made = false;
}

void kineto_overview_destroy(kineto_overview *o)
{
    if (!o)
        return;
    free_sections(o);
    kineto_findings_destroy(o->found);
    kineto_analysis_destroy(o->facts);
    ka_coverage_free(&o->coverage);
    free(o);
}

kineto_status kineto_overview_add(kineto_overview *to, const kineto_overview *from, kineto_error *err)
{
    if (!to || !from)
        return kb_fail_null(err, __func__, "to, from", to, from);
    if (to == from)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: an overview cannot be added to itself", __func__);
    free_sections(to);
    if (to->coverage.traces.count == 1) { /* what compares ranks is made once, when all are there */
        ka_facts_defer(to->facts);
        ka_findings_defer(to->found);
    }
    kineto_status status = kineto_findings_add(to->found, from->found, err);
    if (!status)
        status = kineto_analysis_add(to->facts, from->facts, err);
    if (!status && !ka_coverage_merge(&to->coverage, &from->coverage))
        status = kb_fail_memory(err, NULL);
    return status;
}

const ka_coverage *ka_overview_coverage(const kineto_overview *o) { return &o->coverage; }

int64_t ka_overview_origin(const kineto_overview *o, int64_t rank)
{
    for (size_t i = 0; i < o->coverage.traces.count; i++)
        if (o->coverage.traces.data[i].rank == rank || o->coverage.traces.data[i].rank < 0)
            return o->coverage.traces.data[i].start_ns;
    return o->coverage.traces.count == 1 ? o->coverage.traces.data[0].start_ns : 0;
}

/* Out of memory leaves sections out; the rest is still right. */
static void make_overview(kineto_overview *o)
{
    if (o->is_made)
        return;
    if (o->coverage.traces.count > 1) {
        (void)ka_facts_complete(o->facts, NULL);
        (void)ka_findings_complete(o->found, NULL);
    }
    for (uint32_t slot = 0; slot < KA_SLOTS; slot++)
        o->section_count += ka_overview_fill(o, slot, &o->sections[o->section_count]);
    ka_overview_describe(o);
    o->is_made = true;
}

/* ---- getters --------------------------------------------------------------------------------- */

const char *kineto_overview_headline(kineto_overview *o)
{
    if (!o)
        return "";
    make_overview(o);
    return o->headline;
}

bool kineto_overview_tile_get(kineto_overview *o, uint32_t index, kineto_overview_tile *out)
{
    if (!out)
        return false;
    *out = (kineto_overview_tile){"", "", ""};
    if (!o)
        return false;
    make_overview(o);
    if (index >= o->tile_count)
        return false;
    const ka_overview_tile *tile = &o->tiles[index];
    *out = (kineto_overview_tile){tile->label, tile->value, tile->detail};
    return true;
}

/* NULL: there are not as many. */
static const ka_overview_section *find_section(kineto_overview *o, uint32_t index)
{
    if (!o)
        return NULL;
    make_overview(o);
    return index < o->section_count ? &o->sections[index] : NULL;
}

const ka_table *ka_overview_table(kineto_overview *o, uint32_t index)
{
    const ka_overview_section *s = find_section(o, index);
    return s ? &s->table : NULL;
}

bool kineto_overview_table(kineto_overview *o, uint32_t table, kineto_fact_table *out)
{
    if (!out)
        return false;
    *out = (kineto_fact_table){0};
    const ka_overview_section *s = find_section(o, table);
    if (!s)
        return false;
    *out = (kineto_fact_table){.name = ka_table_name(s->spec->source),
                               .title = s->spec->title,
                               .column_count = s->table.column_count,
                               .row_count = ka_table_rows(&s->table),
                               .note = kb_string("")};
    return true;
}

bool kineto_overview_column(kineto_overview *o, uint32_t table, uint32_t column, kineto_fact_column *out)
{
    if (!out)
        return false;
    *out = (kineto_fact_column){0};
    const ka_overview_section *s = find_section(o, table);
    if (!s || column >= s->table.column_count)
        return false;
    *out = (kineto_fact_column){s->columns[column].name, s->columns[column].type};
    return true;
}

bool kineto_overview_fact(kineto_overview *o, uint32_t table, uint64_t row, uint32_t column,
                          kineto_fact *out)
{
    if (!out)
        return false;
    const ka_overview_section *s = find_section(o, table);
    if (s)
        return ka_fact_get(&s->table, row, column, out);
    *out = (kineto_fact){0};
    return false;
}

uint64_t kineto_overview_rows_left_out(kineto_overview *o, uint32_t table)
{
    const ka_overview_section *s = find_section(o, table);
    return s ? s->left_out : 0;
}

const kineto_findings *kineto_overview_findings(kineto_overview *o)
{
    if (!o)
        return NULL;
    make_overview(o);
    return o->found;
}

const kineto_analysis *kineto_overview_facts(kineto_overview *o)
{
    if (!o)
        return NULL;
    make_overview(o);
    return o->facts;
}
