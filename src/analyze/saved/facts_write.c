/* Writes facts files of one trace. */
#include "analyze/saved/facts_file.h"
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/analysis_section.h"
#include "analyze/saved/findings_section.h"
#include "analyze/saved/row_blocks.h"

/* ---- ranks ----------------------------------------------------------------------------------- */

static void write_groups(ka_byte_writer *w, const ka_rank_facts *f)
{
    ka_write_varint(w, f->texts.strings.count);
    for (size_t i = 0; i < f->texts.strings.count; i++)
        ka_write_text(w, f->texts.strings.data[i]);
    ka_write_varint(w, f->groups.count);
    for (size_t i = 0; i < f->groups.count; i++) {
        const ka_comm_group *g = &f->groups.data[i];
        ka_write_fixed(w, g->id, 8);
        ka_write_varint(w, g->name);
        ka_write_varint(w, g->description);
        ka_write_varint(w, g->members);
        ka_write_varint(w, g->size);
    }
}

static void write_rank_head(ka_byte_writer *w, const ka_rank_facts *f)
{
    ka_write_signed(w, f->rank);
    ka_write_signed(w, f->world_size);
    ka_write_varint(w, f->host);
    ka_write_signed(w, f->start_ns);
    ka_write_signed(w, f->end_ns);
    ka_write_signed(w, f->begin_ns);
    ka_write_signed(w, f->latency_ns);
    ka_write_varint(w, f->step_count);
    write_groups(w, f);
    ka_write_varint(w, f->rows.count);
    ka_write_varint(w, KA_BLOCK_ROWS);
}

/* Blocks to `rows`, and to `head` of each: its stored size, its size if it is compressed else 0, its checksum. */
static void write_blocks(ka_section_packer *packer, const ka_rank_facts *f, ka_byte_writer *head, ka_byte_writer *rows)
{
    ka_byte_writer block = {.no_memory = false};
    for (uint32_t first = 0; first < f->rows.count; first += KA_BLOCK_ROWS) {
        size_t stored;
        bool is_compressed;
        block.bytes.count = 0;
        ka_encode_rows(f, first, KB_MIN((uint32_t)f->rows.count - first, KA_BLOCK_ROWS), &block);
        const void *data =
            ka_pack_section(packer, block.bytes.data, block.bytes.count, &stored, &is_compressed);
        ka_write_varint(head, stored);
        ka_write_varint(head, is_compressed ? block.bytes.count : 0);
        ka_write_fixed(head, ka_crc32c(0, data, stored), 4);
        ka_write_bytes(rows, data, stored);
    }
    head->no_memory |= block.no_memory;
    ka_byte_writer_free(&block);
}

static void put_rank(ka_section_writer *w, const ka_rank_facts *f)
{
    ka_byte_writer head = {.no_memory = false}, rows = {.no_memory = false};
    write_rank_head(&head, f);
    write_blocks(&w->packer, f, &head, &rows);
    ka_write_varint(&head, (f->on_host ? KA_RANK_ON_HOST : 0) | (f->is_dump ? KA_RANK_IS_DUMP : 0));
    ka_write_varint(&head, f->unmatched);
    ka_write_varint(&head, (uint64_t)(f->device + 1));
    ka_put_section(w, KA_SECTION_RANK, &head);
    ka_put_stored_section(w, KA_SECTION_ROWS, &rows);
    ka_byte_writer_free(&head);
    ka_byte_writer_free(&rows);
}

/* ---- all sections ---------------------------------------------------------------------------- */

static void put_source(ka_section_writer *w, const ka_facts_source *s)
{
    ka_byte_writer content = {.no_memory = false};
    ka_write_source(&content, s);
    ka_put_section(w, KA_SECTION_SOURCE, &content);
    ka_byte_writer_free(&content);
}

static void put_error(ka_section_writer *w, const ka_trace_facts *facts)
{
    ka_byte_writer content = {.no_memory = false};
    ka_write_signed(&content, facts->status);
    ka_write_text(&content, kb_string(facts->message));
    ka_put_section(w, KA_SECTION_ERROR, &content);
    ka_byte_writer_free(&content);
}

static void put_health(ka_section_writer *w, const ka_trace_health *h)
{
    ka_byte_writer content = {.no_memory = false};
    ka_write_health(&content, h);
    ka_put_section(w, KA_SECTION_HEALTH, &content);
    ka_byte_writer_free(&content);
}

/* All wanted tables that one trace has; the others are made of them once all ranks are there. */
static void put_tables(ka_section_writer *w, const kineto_analysis *a, ka_table_set only)
{
    ka_byte_writer content = {.no_memory = false};
    ka_write_analysis(&content, a, ka_wanted_tables(a) & ~ka_reduced_tables() & (only ? only : ~(ka_table_set)0));
    ka_put_section(w, KA_SECTION_TABLES, &content);
    ka_byte_writer_free(&content);
}

static void put_findings(ka_section_writer *w, const kineto_findings *found, const char *repeated_steps)
{
    ka_byte_writer content = {.no_memory = false};
    ka_write_findings(&content, found, repeated_steps);
    ka_put_section(w, KA_SECTION_FINDINGS, &content);
    ka_byte_writer_free(&content);
}

void ka_put_trace_facts(ka_section_writer *w, const ka_trace_facts *facts)
{
    put_source(w, &facts->source);
    if (facts->status) {
        put_error(w, facts);
        return;
    }
    const kineto_analysis *analysis = facts->overview ? facts->overview->facts : facts->analysis;
    const ka_rank_set *ranks = analysis ? analysis->ranks : NULL;
    put_health(w, &facts->health);
    for (size_t i = 0; ranks && i < ranks->ranks.count; i++)
        put_rank(w, ranks->ranks.data[i].facts);
    if (analysis)
        put_tables(w, analysis, facts->tables);
    if (facts->overview)
        put_findings(w, facts->overview->found, facts->overview->repeated_steps);
    else if (facts->found)
        put_findings(w, facts->found, "");
}

ka_facts_damage *ka_facts_damage_create(const char *path)
{
    ka_facts_damage *damage = calloc(1, sizeof *damage);
    if (!damage || ka_describe_source_file(path, &damage->arena, &damage->source)) {
        if (damage)
            damage->source.options = kb_string("default");
        return damage;
    }
    ka_facts_damage_destroy(damage);
    return NULL;
}

void ka_facts_damage_destroy(ka_facts_damage *damage)
{
    if (damage)
        kb_arena_free(&damage->arena);
    free(damage);
}

void ka_put_facts_damage(ka_section_writer *w, const ka_facts_damage *damage)
{
    const ka_trace_facts facts = {.source = damage->source, .status = damage->why.code, .message = damage->why.message};
    ka_put_trace_facts(w, &facts);
}

void ka_facts_file_write(kb_sink *sink, const ka_trace_facts *facts, ka_section_packer *packer)
{
    ka_section_packer own = {.zstd = NULL};
    ka_section_writer w = {.sink = sink, .packer = packer ? *packer : own};
    ka_begin_sections(&w, KA_FACTS_OF_TRACE);
    ka_put_trace_facts(&w, facts);
    ka_end_sections(&w);
    if (packer)
        *packer = w.packer;
    else
        ka_section_writer_free(&w);
}

kineto_status ka_facts_file_save(const char *path, const ka_trace_facts *facts, ka_section_packer *packer, kineto_error *err)
{
    kb_sink *sink;
    kineto_status status = kb_sink_open_remakeable_file(path, &sink, err);
    if (status)
        return status;
    ka_facts_file_write(sink, facts, packer);
    return kb_sink_close(sink, err);
}
