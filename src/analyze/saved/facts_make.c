/* Makes the facts of traces: for `ckineto facts`, and for comparisons of traces by their ranks. */
#include "analyze/saved/facts_make.h"

/* The tables that the tables over all ranks are made of, and steps. */
static ka_table_set choose_facts_tables(void)
{
    return KA_TABLE_BIT(KA_TABLE_rank_marks) | KA_TABLE_BIT(KA_TABLE_steps) | KA_TABLE_BIT(KA_TABLE_mpi_messages) |
           KA_TABLE_BIT(KA_TABLE_distributed_overlap);
}

const char *ka_facts_level_name(ka_facts_level level)
{
    static const char *const names[] = {"default", "findings", "all"};
    return names[level];
}

/* Findings, and the tables that are made for them: of all rules, or of those that compare ranks. The latter cost little:
 * their input is what every facts file has, and they run when the facts of all ranks are there. */
static kineto_status find_for_facts(const kineto_trace *trace, const kineto_analysis_options *how, bool all_rules,
                                    ka_trace_facts *facts, kineto_error *why)
{
    char of_ranks[200];
    kineto_analysis_options its = *how;
    ka_list_rules_of_ranks(of_ranks, sizeof of_ranks);
    its.tables = "steps,distributed_overlap"; /* besides those that the rules read */
    const kineto_findings_options o = {
        .size = sizeof o, .rules = all_rules ? NULL : of_ranks, .analyze = &its, .facts = &facts->analysis};
    facts->tables = choose_facts_tables();
    return kineto_findings_find(trace, &o, &facts->found, why);
}

/* The rank that the trace or its path names, else `index`. */
static int32_t find_rank(const kineto_trace *trace, const char *path, uint32_t index)
{
    kineto_identity identity = {.size = sizeof identity};
    kineto_trace_identity(trace, path, &identity);
    return identity.rank >= 0 ? identity.rank : (int32_t)index;
}

kineto_status ka_trace_facts_make(const char *path, uint32_t index, ka_facts_level level, const kineto_open_options *reading,
                                  kb_arena *arena, ka_trace_facts *facts, kineto_error *why)
{
    kineto_trace *trace = NULL;
    kineto_status status = kineto_trace_open_with(path, reading, &trace, why);
    int32_t rank = status ? -1 : find_rank(trace, path, index);
    kineto_analysis_options how = {.size = sizeof how, .rank = &rank, .threads = 1}; /* the work is split by traces */
    facts->source.options = kb_string(ka_facts_level_name(level));
    if (!status && (!ka_describe_source_trace(trace, rank, arena, &facts->source) ||
                    !ka_measure_health(trace, &rank, &facts->health)))
        status = kb_fail_memory(why, path);
    if (!status)
        status = level == KA_FACTS_WITH_ALL ? kineto_overview_create(trace, &how, &facts->overview, why)
                                            : find_for_facts(trace, &how, level == KA_FACTS_WITH_FINDINGS, facts, why);
    kineto_trace_release(trace);
    facts->status = status;
    facts->message = why->message;
    return status == KINETO_E_MEMORY ? status : KINETO_OK;
}

void ka_trace_facts_free(ka_trace_facts *facts)
{
    kineto_analysis_destroy(facts->analysis);
    kineto_overview_destroy(facts->overview);
    kineto_findings_destroy(facts->found);
    ka_trace_health_free(&facts->health);
}

/* ---- a run ----------------------------------------------------------------------------------- */

static kineto_status put_trace(ka_section_writer *w, const char *path, uint32_t index, const kineto_open_options *reading,
                               kineto_error *err)
{
    kb_arena arena = {.head = NULL};
    kineto_error why = {.message = ""};
    ka_trace_facts facts = {.message = ""};
    kineto_status status = ka_describe_source_file(path, &arena, &facts.source)
                               ? ka_trace_facts_make(path, index, KA_FACTS_OF_RANKS, reading, &arena, &facts, &why)
                               : KINETO_E_MEMORY;
    if (status)
        status = kb_fail_memory(err, path);
    else
        ka_put_trace_facts(w, &facts);
    ka_trace_facts_free(&facts);
    kb_arena_free(&arena);
    return status;
}

kineto_status ka_facts_save_traces(const kineto_files *files, const kineto_open_options *reading,
                                   void (*progress)(uint32_t index, uint32_t count, const char *path, void *user),
                                   const char *path, kineto_error *err)
{
    uint32_t count = kineto_files_count(files);
    ka_section_writer w = {.count = 0};
    kineto_status status = kb_sink_open_file(path, KB_COMPRESS_NONE, &w.sink, err);
    if (status)
        return status;
    ka_begin_sections(&w, KA_FACTS_OF_RUN);
    for (uint32_t i = 0; i < count && !status; i++) {
        if (progress)
            progress(i, count, kineto_files_path(files, i), NULL);
        status = put_trace(&w, kineto_files_path(files, i), i, reading, err);
    }
    if (!status)
        ka_end_sections(&w);
    ka_section_writer_free(&w);
    if (!status)
        return kb_sink_close(w.sink, err);
    kb_sink_abort(w.sink);
    return status;
}
