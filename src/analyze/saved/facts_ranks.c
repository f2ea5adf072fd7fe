/* Reads the heads of ranks: all but their rows, and where the blocks of these are.
 *
 * Ranks are given to an analysis with all their rows in memory, or as sources that read rows when they are needed. */
#include "analyze/ranks/rank_set.h"
#include "analyze/saved/facts_sections.h"

static bool read_groups(ka_byte_reader *r, ka_rank_facts *out)
{
    enum { MIN_GROUP_BYTES = 12 };
    uint64_t texts = ka_read_count(r, 1);
    for (uint64_t i = 0; i < texts && !r->is_bad; i++)
        if (kb_intern_id(&out->texts, ka_read_text(r)) == KB_INTERN_NONE)
            return false;
    r->is_bad |= out->texts.strings.count != texts;
    uint64_t groups = ka_read_count(r, MIN_GROUP_BYTES);
    for (uint64_t i = 0; i < groups && !r->is_bad; i++) {
        ka_comm_group g = {.id = ka_read_fixed(r, 8)};
        g.name = (uint32_t)ka_read_varint(r);
        g.description = (uint32_t)ka_read_varint(r);
        g.members = (uint32_t)ka_read_varint(r);
        g.size = (uint32_t)ka_read_varint(r);
        r->is_bad |= g.name >= texts || g.description >= texts || g.members >= texts;
        if (!kb_vec_push(&out->groups, g))
            return false;
    }
    return true;
}

static bool read_rank_head(ka_byte_reader *r, ka_rank_facts *out)
{
    int64_t rank = ka_read_signed(r), world = ka_read_signed(r);
    out->rank = (int32_t)rank;
    out->world_size = (int32_t)world;
    out->host = (uint32_t)ka_read_varint(r);
    out->start_ns = ka_read_signed(r);
    out->end_ns = ka_read_signed(r);
    out->begin_ns = ka_read_signed(r);
    out->latency_ns = ka_read_signed(r);
    out->step_count = (uint32_t)ka_read_varint(r);
    r->is_bad |= rank < -1 || rank > INT32_MAX || world < 0 || world > INT32_MAX || out->latency_ns < 0;
    if (!read_groups(r, out))
        return false;
    r->is_bad |= out->host >= KB_MAX(out->texts.strings.count, (size_t)1);
    return true;
}

/* Where the blocks are, in the section of the rows. */
static bool read_blocks(ka_byte_reader *r, ka_stored_rank *rank)
{
    enum { MIN_BLOCK_BYTES = 6 };
    uint64_t rows = ka_read_varint(r), block_rows = ka_read_varint(r), at = 0;
    uint64_t blocks = (rows + KA_BLOCK_ROWS - 1) / KA_BLOCK_ROWS;
    r->is_bad |= block_rows != KA_BLOCK_ROWS || !rows || rows > INT32_MAX ||
                 blocks > (size_t)(r->end - r->at) / MIN_BLOCK_BYTES;
    rank->row_count = (uint32_t)rows;
    rank->blocks.count = 0;
    for (uint64_t i = 0; i < blocks && !r->is_bad; i++) {
        ka_stored_block b = {.at = at, .stored_bytes = (uint32_t)ka_read_varint(r)};
        b.bytes = (uint32_t)ka_read_varint(r);
        b.crc = (uint32_t)ka_read_fixed(r, 4);
        at += b.stored_bytes;
        r->is_bad |= b.bytes > KA_MAX_BLOCK_BYTES || b.stored_bytes > KA_MAX_BLOCK_BYTES ||
                     b.stored_bytes < KA_MIN_BLOCK_BYTES;
        if (!kb_vec_push(&rank->blocks, b))
            return false;
    }
    return true;
}

/* Files before this was known end here, or before the device. */
static void read_rank_kind(ka_byte_reader *r, ka_rank_facts *out)
{
    out->device = -1;
    if (r->is_bad || r->at == r->end)
        return;
    uint64_t kind = ka_read_varint(r), unmatched = ka_read_varint(r);
    out->on_host = kind & KA_RANK_ON_HOST;
    out->is_dump = kind & KA_RANK_IS_DUMP;
    out->unmatched = (uint8_t)unmatched;
    r->is_bad |= unmatched > UINT8_MAX;
    if (!r->is_bad && r->at < r->end)
        out->device = (int64_t)ka_read_varint(r) - 1;
    r->is_bad |= out->device < -1;
}

/* Do the blocks fill the section of the rows? */
static kineto_status check_rows_section(ka_facts_file *f, const ka_stored_rank *rank, kineto_error *err)
{
    ka_section_head head;
    const ka_stored_block *last = &rank->blocks.data[rank->blocks.count - 1];
    if (!rank->rows_at)
        return ka_fail_damaged(f, "a rank without rows", rank->head_at, err);
    kineto_status status = ka_read_head_at(f, rank->rows_at, &head, err);
    if (!status)
        status = ka_check_section_version(f, &head, err);
    if (!status && (head.is_compressed || last->at + last->stored_bytes != head.stored_bytes))
        status = ka_fail_damaged(f, "rows outside of their section", rank->head_at, err);
    return status;
}

typedef struct decoded_rank {
    ka_rank_facts *facts;
    ka_stored_rank *stored;
} decoded_rank;

static bool decode_rank(ka_byte_reader *r, void *context)
{
    const decoded_rank *rank = context;
    bool ok = read_rank_head(r, rank->facts) && read_blocks(r, rank->stored);
    read_rank_kind(r, rank->facts);
    return ok;
}

kineto_status ka_facts_file_rank(ka_facts_file *f, uint32_t rank_index, uint32_t *row_count, ka_rank_facts **out,
                                 kineto_error *err)
{
    ka_stored_rank *rank = &f->ranks.data[rank_index];
    ka_rank_facts *facts = calloc(1, sizeof *facts);
    decoded_rank decoded = {facts, rank};
    *out = NULL;
    if (!facts)
        return kb_fail_memory(err, f->path);
    atomic_init(&facts->references, 1);
    kineto_status status = ka_decode_section(f, rank->head_at, decode_rank, &decoded, err);
    if (!status)
        status = check_rows_section(f, rank, err);
    if (status) {
        ka_rank_facts_release(facts);
        return status;
    }
    rank->file = f;
    rank->is_read = true;
    rank->coding = (ka_row_coding){facts->latency_ns, facts->on_host};
    rank->group_count = (uint32_t)facts->groups.count;
    *row_count = rank->row_count;
    *out = facts;
    return KINETO_OK;
}

kineto_status ka_find_blocks(ka_facts_file *f, uint32_t rank_index, kineto_error *err)
{
    ka_rank_facts *facts = NULL;
    uint32_t rows;
    kineto_status status =
        f->ranks.data[rank_index].is_read ? KINETO_OK : ka_facts_file_rank(f, rank_index, &rows, &facts, err);
    ka_rank_facts_release(facts);
    return status;
}

kineto_status ka_facts_file_row_count(ka_facts_file *f, uint32_t trace, uint64_t *rows, kineto_error *err)
{
    const ka_stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    *rows = 0;
    for (uint32_t i = 0; i < t->rank_count && !status; i++) {
        status = ka_find_blocks(f, t->first_rank + i, err);
        *rows += status ? 0 : f->ranks.data[t->first_rank + i].row_count;
    }
    return status;
}

/* ---- ranks of a trace, with or without rows --------------------------------------------------- */

void ka_facts_file_keep_rows(ka_facts_file *f, ka_row_reader *reader)
{
    ka_facts_file_rest(f);
    f->reader = reader;
    f->keeps_rows = true;
}

static kineto_status load_rows(ka_facts_file *f, uint32_t rank_index, uint32_t rows, ka_rank_facts *facts, kineto_error *err)
{
    if (!kb_vec_reserve(&facts->rows, rows))
        return kb_fail_memory(err, f->path);
    kineto_status status = ka_facts_file_rows(f, rank_index, 0, rows, facts->rows.data, err);
    facts->rows.count = status ? 0 : rows;
    return status;
}

static kineto_status load_rank(ka_facts_file *f, uint32_t rank_index, kineto_analysis *to, kineto_error *err)
{
    ka_rank_facts *facts;
    uint32_t rows;
    kineto_status status = ka_facts_file_rank(f, rank_index, &rows, &facts, err);
    if (!status && !f->keeps_rows)
        status = load_rows(f, rank_index, rows, facts, err);
    if (status) {
        ka_rank_facts_release(facts);
        return status;
    }
    ka_rank_source source = f->keeps_rows ? ka_rank_source_of_file(&f->ranks.data[rank_index], facts) : ka_rank_source_of(facts);
    return ka_rank_set_put_source(&to->ranks, facts, &source) ? KINETO_OK : kb_fail_memory(err, f->path);
}

kineto_status ka_load_ranks(ka_facts_file *f, uint32_t trace, kineto_analysis *to, kineto_error *err)
{
    const ka_stored_trace *t = &f->traces.data[trace];
    kineto_status status = KINETO_OK;
    for (uint32_t i = 0; i < t->rank_count && !status; i++)
        status = load_rank(f, t->first_rank + i, to, err);
    return status;
}
