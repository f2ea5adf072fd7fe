/* Reads the rows of ranks out of facts files, block by block. The comparison of ranks reads a few rows of each rank in
 * turn: what a block has beyond these stays with the rank, packed, so that no block is read twice in a pass.
 *
 * A lane has one block in memory: as it is stored, decompressed, and its rows. Only the last step is left out where
 * calls are enough. It opens files by itself, so that two lanes can read ranks of the same file. */
#include "analyze/saved/facts_sections.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/* What a thread reads with. */
typedef struct reader_lane {
    const ka_facts_file *file;  /* whose descriptor is open; NULL: none */
    int fd;
    const ka_stored_rank *rank; /* whose block is in memory; NULL: none */
    uint32_t block, first, count; /* its number, and its rows */
    const uint8_t *bytes;       /* decompressed */
    size_t size;
    bool has_rows;              /* `rows` are those of the block */
    ka_comm rows[KA_BLOCK_ROWS];
    KB_VEC(uint8_t) stored, unpacked, room;
    ka_section_unpacker unpacker;
} reader_lane;

struct ka_row_reader {
    reader_lane lanes[KA_LANES];
};

ka_row_reader *ka_row_reader_create(void) { return calloc(1, sizeof(ka_row_reader)); }

/* Files are not left open, as there may be thousands. */
static void close_descriptor(reader_lane *lane)
{
    if (lane->file)
        close(lane->fd);
    lane->file = NULL;
    lane->rank = NULL;
}

void ka_row_reader_destroy(ka_row_reader *reader)
{
    for (uint32_t i = 0; reader && i < KA_LANES; i++) {
        reader_lane *lane = &reader->lanes[i];
        close_descriptor(lane);
        kb_vec_free(&lane->stored);
        kb_vec_free(&lane->unpacked);
        kb_vec_free(&lane->room);
        ka_section_unpacker_free(&lane->unpacker);
    }
    free(reader);
}

void ka_forget_rows(ka_facts_file *f)
{
    for (size_t i = 0; i < f->ranks.count; i++)
        ka_packed_rows_free(&f->ranks.data[i].ahead);
    for (uint32_t i = 0; f->reader && i < KA_LANES; i++)
        if (f->reader->lanes[i].file == f)
            close_descriptor(&f->reader->lanes[i]);
}

/* ---- blocks ---------------------------------------------------------------------------------- */

/* Rows name others of the rank, and groups that it has, or none; the last one is the end, and no other. */
static bool are_rows_sound(const ka_stored_rank *rank, uint32_t first, uint32_t count, const ka_comm *rows)
{
    for (uint32_t i = 0; i < count; i++) {
        const ka_comm *c = &rows[i];
        int64_t at = (int64_t)first + i;
        bool is_last = at == (int64_t)rank->row_count - 1, has_group = c->group < rank->group_count || c->group == KA_NONE;
        bool is_back = c->previous >= KA_NO_COMM && c->previous < at && c->after >= KA_NO_COMM && c->after < at &&
                       c->sync_row >= KA_NO_COMM && c->sync_row < at;
        bool waits = c->wait_row == KA_NO_COMM || (c->wait_row > at && c->wait_row < (int64_t)rank->row_count);
        if (!is_back || !waits || c->op >= KA_OP_COUNT || (c->flags & KA_COMM_LAST ? !is_last : !has_group))
            return false;
    }
    return true;
}

static kineto_status open_descriptor(reader_lane *lane, const ka_facts_file *f, kineto_error *err)
{
    if (lane->file == f)
        return KINETO_OK;
    close_descriptor(lane);
    lane->fd = open(f->path, O_RDONLY | O_CLOEXEC);
    if (lane->fd < 0)
        return kb_fail_os(err, errno, "cannot open %s", f->path);
    lane->file = f;
    return KINETO_OK;
}

/* The bytes of a block, decompressed. */
static kineto_status read_block(reader_lane *reader, const ka_facts_file *f, const ka_stored_rank *rank,
                                const ka_stored_block *b, kineto_error *err)
{
    const ka_packed_part part = {reader->stored.data, b->stored_bytes, b->bytes, rank->rows_at + KA_SECTION_HEAD_BYTES + b->at};
    kineto_status status = ka_read_descriptor(f, reader->fd, part.at, reader->stored.data, b->stored_bytes, err);
    if (!status && ka_crc32c(0, reader->stored.data, b->stored_bytes) != b->crc)
        status = ka_fail_damaged(f, "the checksum of rows is wrong", part.at, err);
    if (!status && b->bytes)
        status = ka_unpack_part(f, &reader->unpacker, &part, reader->unpacked.data, err);
    reader->bytes = b->bytes ? reader->unpacked.data : reader->stored.data;
    reader->size = b->bytes ? b->bytes : b->stored_bytes;
    return status;
}

/* Bytes of a block of a rank, unless they are there already. */
static kineto_status load_block(reader_lane *reader, const ka_stored_rank *rank, uint32_t block, kineto_error *err)
{
    const ka_stored_block *b = &rank->blocks.data[block];
    if (reader->rank == rank && reader->block == block)
        return KINETO_OK;
    reader->rank = NULL;
    reader->has_rows = false;
    kineto_status status = open_descriptor(reader, rank->file, err);
    if (status)
        return status;
    if (!kb_vec_reserve(&reader->stored, b->stored_bytes + 1) || !kb_vec_reserve(&reader->unpacked, b->bytes + 1))
        return kb_fail_memory(err, rank->file->path);
    status = read_block(reader, rank->file, rank, b, err);
    reader->rank = status ? NULL : rank;
    reader->block = block;
    reader->first = block * KA_BLOCK_ROWS;
    reader->count = KB_MIN(rank->row_count - reader->first, KA_BLOCK_ROWS);
    return status;
}

/* The block that has a row, with all its rows. */
static kineto_status decode_block_of(reader_lane *reader, const ka_stored_rank *rank, uint32_t row, kineto_error *err)
{
    kineto_status status = load_block(reader, rank, row / KA_BLOCK_ROWS, err);
    if (status || reader->has_rows)
        return status;
    reader->has_rows = ka_decode_rows(reader->bytes, reader->size, rank->coding, reader->first, reader->count, reader->rows) &&
                       are_rows_sound(rank, reader->first, reader->count, reader->rows);
    return reader->has_rows ? KINETO_OK : ka_fail_damaged(rank->file, "rows make no sense", rank->rows_at, err);
}

/* ---- any rows -------------------------------------------------------------------------------- */

/* As many as one block has. @param done  receives how many. */
static kineto_status copy_rows(reader_lane *reader, const ka_stored_rank *rank, uint32_t row, uint32_t most, ka_comm *out,
                               uint32_t *done, kineto_error *err)
{
    kineto_status status = decode_block_of(reader, rank, row, err);
    if (status)
        return status;
    *done = KB_MIN(most, reader->first + reader->count - row);
    memcpy(out, reader->rows + (row - reader->first), *done * sizeof *out);
    return KINETO_OK;
}

kineto_status ka_facts_file_rows(ka_facts_file *f, uint32_t rank_index, uint32_t first, uint32_t count, ka_comm *out,
                                 kineto_error *err)
{
    if (rank_index >= f->ranks.count)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: there is no rank %u", f->path, rank_index);
    kineto_status status = ka_find_blocks(f, rank_index, err);
    if (status)
        return status;
    const ka_stored_rank *rank = &f->ranks.data[rank_index];
    f->reader = f->reader ? f->reader : ka_row_reader_create();
    if (!f->reader)
        return kb_fail_memory(err, f->path);
    if (first > rank->row_count || count > rank->row_count - first)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: rank %u has %u rows", f->path, rank_index, rank->row_count);
    for (uint32_t done = 0, n = 0; done < count && !status; done += n)
        status = copy_rows(&f->reader->lanes[0], rank, first + done, count - done, out + done, &n, err);
    return status;
}

/* ---- a source of rows ------------------------------------------------------------------------ */

/* The rows of the block after those that were asked for. */
static kineto_status keep_ahead(reader_lane *reader, ka_stored_rank *rank, uint32_t row, kineto_error *err)
{
    uint32_t at = row - reader->first, left = reader->count - at;
    if (!left)
        return KINETO_OK;
    if (!kb_vec_reserve(&reader->room, ka_packed_rows_room(left)) ||
        !ka_pack_rows(&rank->ahead, reader->rows + at, row, left, reader->room.data))
        return kb_fail_memory(err, rank->file->path);
    return KINETO_OK;
}

/* ka_rank_source.read: the packed rows first, then blocks. */
static kineto_status read_rank_rows(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    ka_stored_rank *rank = context;
    reader_lane *reader = &rank->file->reader->lanes[lane];
    kineto_status status = KINETO_OK;
    uint32_t done = 0, n = 0;
    KB_ASSERT(first + count <= rank->row_count);
    if (rank->ahead.count && rank->ahead.first == first) {
        done = KB_MIN(count, rank->ahead.count);
        ka_unpack_rows(&rank->ahead, done, out);
    }
    if (done == count)
        return KINETO_OK;
    ka_packed_rows_free(&rank->ahead);
    for (; done < count && !status; done += n)
        status = copy_rows(reader, rank, first + done, count - done, out + done, &n, err);
    return status ? status : keep_ahead(reader, rank, first + count, err);
}

/* ka_rank_source.read_calls. The bytes stay: `read` of the same rows need not read the file again. */
static kineto_status read_rank_calls(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    const ka_stored_rank *rank = context;
    reader_lane *reader = &rank->file->reader->lanes[lane];
    KB_ASSERT(first + count <= rank->row_count);
    for (uint32_t done = 0, n; done < count; done += n) {
        uint32_t row = first + done;
        ka_comm calls[KA_BLOCK_ROWS];
        kineto_status status = load_block(reader, rank, row / KA_BLOCK_ROWS, err);
        if (status)
            return status;
        if (!ka_decode_calls(reader->bytes, reader->size, reader->count, calls))
            return ka_fail_damaged(rank->file, "rows make no sense", rank->rows_at, err);
        n = KB_MIN(count - done, reader->first + reader->count - row);
        memcpy(out + done, calls + (row - reader->first), n * sizeof *out);
    }
    return KINETO_OK;
}

ka_rank_source ka_rank_source_of_file(ka_stored_rank *rank, const ka_rank_facts *head)
{
    return (ka_rank_source){.head = head, .row_count = rank->row_count, .read = read_rank_rows,
                            .read_calls = read_rank_calls, .context = rank};
}
