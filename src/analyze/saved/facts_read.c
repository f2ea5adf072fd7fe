/* Reads what facts files have of each trace: whether it could be read, its tables, findings and the overview.
 *
 * A decode_… function is a ka_section_decoder: it takes what is needed of one section. */
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/analysis_section.h"
#include "analyze/saved/facts_sections.h"
#include "analyze/saved/findings_section.h"

const char *ka_facts_file_path(const ka_facts_file *f) { return f->path; }
bool ka_facts_file_is_run(const ka_facts_file *f) { return f->kind == KA_FACTS_OF_RUN; }
uint32_t ka_facts_file_trace_count(const ka_facts_file *f) { return (uint32_t)f->traces.count; }
uint32_t ka_facts_file_rank_count(const ka_facts_file *f) { return (uint32_t)f->ranks.count; }

const ka_facts_source *ka_facts_file_source(const ka_facts_file *f, uint32_t trace)
{
    return &f->traces.data[trace].source;
}

bool ka_facts_file_has_error(const ka_facts_file *f, uint32_t trace) { return f->traces.data[trace].error_at != 0; }

typedef struct stored_error {
    int64_t code;
    kineto_string text; /* of the section */
} stored_error;

static bool decode_error(ka_byte_reader *r, void *context)
{
    stored_error *e = context;
    e->code = ka_read_signed(r);
    e->text = ka_read_text(r);
    r->is_bad |= e->code >= 0 || e->code < KINETO_E_PLUGIN;
    return true;
}

kineto_status ka_facts_file_error(ka_facts_file *f, uint32_t trace, kineto_error *message)
{
    stored_error e = {.code = KINETO_OK};
    kineto_status status = ka_decode_section(f, f->traces.data[trace].error_at, decode_error, &e, message);
    if (status || e.code == KINETO_OK)
        return status;
    return kb_fail(message, (kineto_status)e.code, "%.*s", (int)KB_MIN(e.text.size, (size_t)4096), e.text.data);
}

static bool decode_health(ka_byte_reader *r, void *out) { return ka_read_health(r, out); }

kineto_status ka_facts_file_health(ka_facts_file *f, uint32_t trace, ka_trace_health *out, kineto_error *err)
{
    *out = (ka_trace_health){.activities = 0};
    return ka_decode_section(f, f->traces.data[trace].health_at, decode_health, out, err);
}

static bool decode_table_list(ka_byte_reader *r, void *out)
{
    *(ka_table_set *)out = ka_list_saved_tables(r);
    return true;
}

kineto_status ka_facts_file_tables(ka_facts_file *f, uint32_t trace, ka_table_set *out, kineto_error *err)
{
    *out = 0;
    return ka_decode_section(f, f->traces.data[trace].tables_at, decode_table_list, out, err);
}

static kineto_status check_loaded(const ka_facts_file *f, const kineto_analysis *a, ka_table_set loaded,
                                  kineto_error *err)
{
    ka_table_set absent = ka_wanted_tables(a) & ~loaded & ~ka_reduced_tables();
    for (uint32_t i = 0; i < KA_TABLE_COUNT; i++)
        if (absent >> i & 1)
            return kb_fail(err, KINETO_E_NOT_FOUND,
                           "%s: the facts have no table '%s'; 'ckineto facts --all' keeps all of them", f->path,
                           ka_table_name((ka_table_id)i));
    return KINETO_OK;
}

typedef struct loaded_tables {
    kineto_analysis *to;
    ka_table_set tables; /* those that were there */
} loaded_tables;

static bool decode_tables(ka_byte_reader *r, void *context)
{
    loaded_tables *loaded = context;
    return ka_read_analysis(r, loaded->to, &loaded->tables);
}

kineto_status ka_facts_file_load(ka_facts_file *f, uint32_t trace, kineto_analysis *to, kineto_error *err)
{
    loaded_tables loaded = {.to = to};
    kineto_status status = ka_decode_section(f, f->traces.data[trace].tables_at, decode_tables, &loaded, err);
    if (!status)
        status = check_loaded(f, to, loaded.tables, err);
    return status || !to->tables[KA_TABLE_rank_marks].wanted ? status : ka_load_ranks(f, trace, to, err);
}

kineto_status ka_facts_file_load_results(ka_facts_file *f, kineto_analysis *to, kineto_error *err)
{
    loaded_tables loaded = {.to = to};
    return ka_decode_section(f, f->results_at, decode_tables, &loaded, err);
}

bool ka_facts_file_has_results(const ka_facts_file *f) { return f->results_at != 0; }

/* ---- findings -------------------------------------------------------------------------------- */

typedef struct loaded_findings {
    kineto_findings *to;
    char *repeated_steps; /* receives kineto_overview.repeated_steps; may be NULL */
    size_t size;          /* of it */
} loaded_findings;

static bool decode_findings(ka_byte_reader *r, void *context)
{
    const loaded_findings *loaded = context;
    kineto_string text;
    bool ok = ka_read_findings(r, loaded->to, &text);
    if (ok && !r->is_bad && loaded->repeated_steps)
        snprintf(loaded->repeated_steps, loaded->size, "%.*s", (int)KB_MIN(text.size, loaded->size - 1), text.data);
    return ok;
}

static kineto_status read_findings(ka_facts_file *f, uint64_t at, loaded_findings *loaded, kineto_error *err)
{
    if (!at)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: the facts have no findings; 'ckineto facts --findings' keeps them",
                       f->path);
    for (uint32_t i = 0; i < KA_FIND_COUNT; i++)
        loaded->to->verdicts[i] = (ka_verdict){KINETO_RULE_NOT_SELECTED, {"", 0}};
    return ka_decode_section(f, at, decode_findings, loaded, err);
}

static kineto_status load_findings(ka_facts_file *f, uint32_t trace, loaded_findings loaded, kineto_error *err)
{
    kineto_status status = read_findings(f, f->traces.data[trace].findings_at, &loaded, err);
    if (!status)
        status = ka_findings_create_across(&loaded.to->across, err);
    return status ? status : ka_facts_file_load(f, trace, loaded.to->across, err);
}

kineto_status ka_facts_file_findings(ka_facts_file *f, uint32_t trace, ka_rule_set rules, kineto_findings **out,
                                     kineto_error *err)
{
    kineto_findings *found = calloc(1, sizeof *found);
    *out = NULL;
    if (!found)
        return kb_fail_memory(err, f->path);
    found->chosen = rules;
    kineto_status status = load_findings(f, trace, (loaded_findings){.to = found}, err);
    if (status)
        kineto_findings_destroy(found);
    else
        *out = found;
    return status;
}

static ka_table_set list_overview_tables(void)
{
    const ka_section_spec *spec;
    ka_table_set set = ka_findings_tables(UINT64_MAX) | KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_memory);
    for (uint32_t i = 0; (spec = ka_section_spec_of(i)) != NULL; i++)
        set |= KA_TABLE_BIT(spec->source);
    return set;
}

static kineto_status load_overview(ka_facts_file *f, uint32_t trace, ka_table_set tables, kineto_overview *o,
                                   kineto_error *err)
{
    ka_trace_health health;
    const kineto_analysis_options usual = {.size = sizeof usual};
    o->found = calloc(1, sizeof *o->found);
    if (!o->found)
        return kb_fail_memory(err, f->path);
    o->found->chosen = UINT64_MAX;
    const loaded_findings found = {o->found, o->repeated_steps, sizeof o->repeated_steps};
    kineto_status status = load_findings(f, trace, found, err);
    if (!status)
        status = ka_facts_create_for(&usual, tables | list_overview_tables(), &o->facts, err);
    if (!status)
        status = ka_facts_file_load(f, trace, o->facts, err);
    if (status)
        return status;
    status = ka_facts_file_health(f, trace, &health, err);
    if (!status && !ka_coverage_merge(&o->coverage, &health.coverage))
        status = kb_fail_memory(err, f->path);
    ka_trace_health_free(&health);
    return status;
}

kineto_status ka_facts_file_overview(ka_facts_file *f, uint32_t trace, ka_table_set tables, kineto_overview **out,
                                     kineto_error *err)
{
    kineto_overview *o = calloc(1, sizeof *o);
    *out = NULL;
    kineto_status status = o ? load_overview(f, trace, tables, o, err) : kb_fail_memory(err, f->path);
    if (status)
        kineto_overview_destroy(o);
    else
        *out = o;
    return status;
}
