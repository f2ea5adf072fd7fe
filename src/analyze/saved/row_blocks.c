/* Encodes and decodes blocks of rows. Both directions run the same predictions, row after row: a column holds
 * value - prediction. Sums wrap, so that any bytes decode to some rows. */
#include "analyze/saved/row_blocks.h"

/* In the order of the file. Those after COLUMN_WAIT need the others for their predictions. */
typedef enum row_column {
    COLUMN_FLAGS,
    COLUMN_OP,
    COLUMN_GROUP,
    COLUMN_STEP,
    COLUMN_SEQUENCE,
    COLUMN_ELEMENTS,
    COLUMN_RECEIVED,
    COLUMN_PREVIOUS,
    COLUMN_AFTER,
    COLUMN_WAIT_ROW,
    COLUMN_SYNC_ROW,
    COLUMN_WORK,
    COLUMN_LATE,
    COLUMN_LATE_REST,
    COLUMN_HOST,
    COLUMN_SYNC,
    COLUMN_WAIT,
    COLUMN_HOST_AT,
    COLUMN_READY,
    COLUMN_START,
    COLUMN_LENGTH,
    COLUMN_COUNT
} row_column;

/* One block under way. */
typedef struct row_block {
    uint32_t first, count;
    ka_row_coding of;
    int64_t base_ns; /* of the first row */
    ka_comm *rows;
    uint64_t cells[COLUMN_COUNT][KA_BLOCK_ROWS]; /* value - prediction, small where that is */
    int64_t waited_ns[KA_BLOCK_ROWS];             /* latest end + wait_ns of rows that this one waits for */
    uint32_t last_of[64];                         /* by group: its last row + 1; 0: none */
} row_block;

static int64_t add_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static int64_t subtract_wrapping(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }

/* ---- predictions ----------------------------------------------------------------------------- */

/* The row of the same group before row i of the block; NULL: there is none. */
static const ka_comm *find_last_of_group(const row_block *b, uint32_t i)
{
    uint32_t last = b->last_of[b->rows[i].group % KB_COUNT(b->last_of)];
    const ka_comm *row = last ? &b->rows[last - 1] : NULL;
    return row && row->group == b->rows[i].group ? row : NULL;
}

static void note_group(row_block *b, uint32_t i)
{
    b->last_of[b->rows[i].group % KB_COUNT(b->last_of)] = i + 1;
}

static int64_t predict_sequence(const ka_comm *row, const ka_comm *last)
{
    if (!last || (ka_is_counted(row) && last->step != row->step))
        return 0;
    return (int64_t)last->sequence + 1;
}

static int64_t predict_elements(const ka_comm *last) { return last ? (int64_t)last->elements : 0; }

static int32_t predict_previous(const row_block *b, uint32_t i, const ka_comm *last)
{
    return last ? (int32_t)(b->first + (uint32_t)(last - b->rows)) : (int32_t)(b->first + i) - 1;
}

/* The row with this number, if it is in the block before row i; else NULL. */
static const ka_comm *find_row(const row_block *b, int32_t number, uint32_t before)
{
    int64_t at = (int64_t)number - b->first;
    return at >= 0 && at < before ? &b->rows[at] : NULL;
}

static int64_t predict_wait(const row_block *b, uint32_t i)
{
    int64_t at = (int64_t)b->rows[i].wait_row - b->first;
    return at >= 0 && at < b->count ? b->rows[at].work_ns : 0;
}

/* The computation before row i is done, and what it waited for. */
static int64_t predict_chain(const row_block *b, uint32_t i)
{
    int64_t at = i ? add_wrapping(b->rows[i - 1].ready_ns, b->rows[i].work_ns) : b->base_ns;
    return KB_MAX(at, b->waited_ns[i]);
}

static int64_t predict_host(const row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i], *before = i ? row - 1 : NULL, *sync = find_row(b, row->sync_row, i);
    if (before && row->flags & KA_COMM_PART)
        return before->host_at_ns;
    if (b->of.on_host) /* it calls when it is ready */
        return predict_chain(b, i);
    int64_t at = before ? add_wrapping(before->host_at_ns, row->host_ns) : b->base_ns;
    return sync ? KB_MAX(at, add_wrapping(sync->end_ns, row->sync_ns)) : at;
}

static int64_t predict_ready(const row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i], *before = i ? row - 1 : NULL;
    if (before && row->flags & KA_COMM_PART)
        return before->ready_ns;
    int64_t at = predict_chain(b, i);
    const ka_comm *launch = row->flags & KA_COMM_LATE_OWN ? row : before;
    if (row->late_ns != KA_UNKNOWN_NUMBER && launch) {
        int64_t late = add_wrapping(add_wrapping(launch->host_at_ns, row->late_ns), row->late_rest_ns);
        at = KB_MAX(at, late);
    }
    return at;
}

static int64_t predict_start(const row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i];
    if (i && row->flags & KA_COMM_PART)
        return row[-1].start_ns;
    int64_t at = row->flags & KA_COMM_NO_LAUNCH ? row->host_at_ns : add_wrapping(row->host_at_ns, b->of.latency_ns);
    const ka_comm *previous = find_row(b, row->previous, i), *after = find_row(b, row->after, i);
    if (!(row->flags & KA_COMM_FREE))
        at = KB_MAX(at, row->ready_ns);
    if (previous)
        at = KB_MAX(at, previous->end_ns);
    return after ? KB_MAX(at, after->end_ns) : at;
}

static int64_t predict_length(const row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i];
    return i && row->flags & KA_COMM_PART ? subtract_wrapping(row[-1].end_ns, row[-1].start_ns) : 0;
}

/* Row i is complete: rows that wait for it begin after it. */
static void note_wait(row_block *b, uint32_t i)
{
    int64_t at = (int64_t)b->rows[i].wait_row - b->first;
    if (at < 0 || at >= b->count)
        return;
    int64_t ends = add_wrapping(b->rows[i].end_ns, b->rows[i].wait_ns);
    b->waited_ns[at] = KB_MAX(b->waited_ns[at], ends);
}

/* ---- cells ----------------------------------------------------------------------------------- */

static uint64_t code_difference(int64_t value, int64_t prediction)
{
    return ka_zigzag(subtract_wrapping(value, prediction));
}
static int64_t undo_difference(uint64_t cell, int64_t prediction)
{
    return add_wrapping(ka_unzigzag(cell), prediction);
}
/* A row by its distance; 0: none. */
static uint64_t code_row(int32_t row, uint32_t from)
{
    return row == KA_NO_COMM ? 0 : ka_zigzag((int64_t)row - from) + 1;
}
static int32_t undo_row(uint64_t cell, uint32_t from)
{
    return cell ? (int32_t)(uint32_t)((uint64_t)ka_unzigzag(cell - 1) + from) : KA_NO_COMM;
}

static void encode_names(row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i], *last = find_last_of_group(b, i), *before = i ? row - 1 : NULL;
    uint32_t at = b->first + i;
    b->cells[COLUMN_FLAGS][i] = row->flags;
    b->cells[COLUMN_OP][i] = row->op;
    b->cells[COLUMN_GROUP][i] = (uint32_t)(row->group + 1); /* KA_NONE: 0 */
    b->cells[COLUMN_STEP][i] = code_difference((uint32_t)(row->step + 1), before ? (uint32_t)(before->step + 1) : 0);
    b->cells[COLUMN_SEQUENCE][i] = code_difference(row->sequence, predict_sequence(row, last));
    b->cells[COLUMN_ELEMENTS][i] = code_difference((int64_t)row->elements, predict_elements(last));
    b->cells[COLUMN_RECEIVED][i] = code_difference((int64_t)row->received, (int64_t)row->elements);
    b->cells[COLUMN_PREVIOUS][i] = code_difference(row->previous, predict_previous(b, i, last));
    b->cells[COLUMN_AFTER][i] = code_row(row->after, at);
    b->cells[COLUMN_WAIT_ROW][i] = code_row(row->wait_row, at);
    b->cells[COLUMN_SYNC_ROW][i] = code_row(row->sync_row, at);
    note_group(b, i);
}

/* @return the last row of its group before it. */
static const ka_comm *decode_call(row_block *b, uint32_t i)
{
    ka_comm *row = &b->rows[i];
    const ka_comm *before = i ? row - 1 : NULL;
    row->flags = (uint8_t)b->cells[COLUMN_FLAGS][i];
    row->op = (uint8_t)b->cells[COLUMN_OP][i];
    row->group = (uint32_t)b->cells[COLUMN_GROUP][i] - 1;
    row->step = (uint32_t)undo_difference(b->cells[COLUMN_STEP][i], before ? (uint32_t)(before->step + 1) : 0) - 1;
    const ka_comm *last = find_last_of_group(b, i);
    row->sequence = (uint32_t)undo_difference(b->cells[COLUMN_SEQUENCE][i], predict_sequence(row, last));
    row->elements = (uint64_t)undo_difference(b->cells[COLUMN_ELEMENTS][i], predict_elements(last));
    note_group(b, i);
    return last;
}

static void decode_names(row_block *b, uint32_t i)
{
    ka_comm *row = &b->rows[i];
    uint32_t at = b->first + i;
    const ka_comm *last = decode_call(b, i);
    row->received = (uint64_t)undo_difference(b->cells[COLUMN_RECEIVED][i], (int64_t)row->elements);
    row->previous = (int32_t)undo_difference(b->cells[COLUMN_PREVIOUS][i], predict_previous(b, i, last));
    row->after = undo_row(b->cells[COLUMN_AFTER][i], at);
    row->wait_row = undo_row(b->cells[COLUMN_WAIT_ROW][i], at);
    row->sync_row = undo_row(b->cells[COLUMN_SYNC_ROW][i], at);
}

/* An unknown late_ns is 0; as it is the smallest number, no other is lost. */
static uint64_t code_late(int64_t late_ns) { return late_ns == KA_UNKNOWN_NUMBER ? 0 : ka_zigzag(late_ns) + 1; }
static int64_t undo_late(uint64_t cell) { return cell ? ka_unzigzag(cell - 1) : KA_UNKNOWN_NUMBER; }
static int64_t predict_late_rest(const ka_comm *row) { return row->late_ns == KA_UNKNOWN_NUMBER ? 0 : row->work_ns; }

static void encode_parts(row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i];
    b->cells[COLUMN_WORK][i] = ka_zigzag(row->work_ns);
    b->cells[COLUMN_LATE][i] = code_late(row->late_ns);
    b->cells[COLUMN_LATE_REST][i] = code_difference(row->late_rest_ns, predict_late_rest(row));
    b->cells[COLUMN_HOST][i] = ka_zigzag(row->host_ns);
    b->cells[COLUMN_SYNC][i] = ka_zigzag(row->sync_ns);
    b->cells[COLUMN_WAIT][i] = code_difference(row->wait_ns, predict_wait(b, i));
}

static void decode_parts(row_block *b, uint32_t i)
{
    ka_comm *row = &b->rows[i];
    row->work_ns = ka_unzigzag(b->cells[COLUMN_WORK][i]);
    row->late_ns = undo_late(b->cells[COLUMN_LATE][i]);
    row->late_rest_ns = undo_difference(b->cells[COLUMN_LATE_REST][i], predict_late_rest(row));
    row->host_ns = ka_unzigzag(b->cells[COLUMN_HOST][i]);
    row->sync_ns = ka_unzigzag(b->cells[COLUMN_SYNC][i]);
}

static void encode_times(row_block *b, uint32_t i)
{
    const ka_comm *row = &b->rows[i];
    b->cells[COLUMN_HOST_AT][i] = code_difference(row->host_at_ns, predict_host(b, i));
    b->cells[COLUMN_READY][i] = code_difference(row->ready_ns, predict_ready(b, i));
    b->cells[COLUMN_START][i] = code_difference(row->start_ns, predict_start(b, i));
    b->cells[COLUMN_LENGTH][i] =
        code_difference(subtract_wrapping(row->end_ns, row->start_ns), predict_length(b, i));
    note_wait(b, i);
}

static void decode_times(row_block *b, uint32_t i)
{
    ka_comm *row = &b->rows[i];
    row->wait_ns = undo_difference(b->cells[COLUMN_WAIT][i], predict_wait(b, i));
    row->host_at_ns = undo_difference(b->cells[COLUMN_HOST_AT][i], predict_host(b, i));
    row->ready_ns = undo_difference(b->cells[COLUMN_READY][i], predict_ready(b, i));
    row->start_ns = undo_difference(b->cells[COLUMN_START][i], predict_start(b, i));
    row->end_ns = add_wrapping(row->start_ns, undo_difference(b->cells[COLUMN_LENGTH][i], predict_length(b, i)));
    note_wait(b, i);
}

/* ---- columns --------------------------------------------------------------------------------- */

/* How a column is written. */
enum { COLUMN_PLAIN, COLUMN_RUNS /* after each 0: how many more of them follow */ };

static bool has_long_runs(const uint64_t *cells, uint32_t count)
{
    uint32_t zeros = 0, runs = 0;
    for (uint32_t i = 0; i < count; i++) {
        zeros += !cells[i];
        runs += !cells[i] && (!i || cells[i - 1]);
    }
    return zeros > 2 * runs;
}

static void write_column(const uint64_t *cells, uint32_t count, ka_byte_writer *w)
{
    bool runs = has_long_runs(cells, count);
    ka_write_fixed(w, runs ? COLUMN_RUNS : COLUMN_PLAIN, 1);
    for (uint32_t i = 0; i < count; i++) {
        ka_write_varint(w, cells[i]);
        if (cells[i] || !runs)
            continue;
        uint32_t more = 0;
        while (i + 1 < count && !cells[i + 1]) {
            more++;
            i++;
        }
        ka_write_varint(w, more);
    }
}

enum { VARINT_BYTES = 10 };

#if KA_READS_WORDS
/* As many cells as can be read by words, two of a word where it has them. @return cells. */
static uint32_t read_plain_cells(ka_byte_reader *r, uint64_t *cells, uint32_t count)
{
    const uint8_t *at = r->at; /* in a register: the next cell waits for it */
    uint32_t i = 0;
    while (i + 1 < count && r->end - at >= VARINT_BYTES) {
        uint64_t ends, word = ka_load_varints(at, &ends), others = ends & (ends - 1);
        if (!others) {
            r->at = at;
            cells[i++] = ka_read_varint_word(r);
            at = r->at;
            continue;
        }
        size_t first = ka_varint_bytes(ends);
        cells[i] = ka_join_varint(word, ends & (0 - ends));
        cells[i + 1] = ka_join_varint(word >> 8 * first, (others & (0 - others)) >> 8 * first);
        at += ka_varint_bytes(others);
        i += 2;
    }
    r->at = at;
    return i;
}
#else
static uint32_t read_plain_cells(ka_byte_reader *r, uint64_t *cells, uint32_t count)
{
    (void)r, (void)cells, (void)count;
    return 0;
}
#endif

/* The same of a column with runs; all cells are 0 before. */
static uint32_t read_run_cells(ka_byte_reader *r, uint64_t *cells, uint32_t count)
{
    ka_byte_reader local = *r;
    uint32_t i = 0;
    while (KA_READS_WORDS && i < count && local.end - local.at >= 2 * VARINT_BYTES) {
        cells[i++] = ka_read_varint_word(&local);
        if (cells[i - 1])
            continue;
        uint64_t more = ka_read_varint_word(&local);
        local.is_bad |= more > count - i;
        i += (uint32_t)KB_MIN(more, count - i);
    }
    *r = local;
    return i;
}

static void read_column(ka_byte_reader *r, uint64_t *cells, uint32_t count)
{
    uint64_t kind = ka_read_fixed(r, 1);
    r->is_bad |= kind > COLUMN_RUNS;
    if (kind == COLUMN_RUNS)
        memset(cells, 0, count * sizeof *cells);
    uint32_t i = kind == COLUMN_RUNS ? read_run_cells(r, cells, count) : read_plain_cells(r, cells, count);
    for (; i < count && !r->is_bad; i++) {
        cells[i] = ka_read_varint(r);
        if (cells[i] || kind != COLUMN_RUNS)
            continue;
        uint64_t more = ka_read_varint(r);
        r->is_bad |= more >= count - i;
        i += r->is_bad ? 0 : (uint32_t)more;
    }
}

/* ---- blocks ---------------------------------------------------------------------------------- */

static void begin_block(row_block *b)
{
    memset(b->last_of, 0, sizeof b->last_of);
    for (uint32_t i = 0; i < b->count; i++)
        b->waited_ns[i] = INT64_MIN;
}

void ka_encode_rows(const ka_rank_facts *f, uint32_t first, uint32_t count, ka_byte_writer *w)
{
    row_block b = {.first = first,
                   .count = count,
                   .of = {f->latency_ns, f->on_host},
                   .base_ns = f->rows.data[first].start_ns,
                   .rows = f->rows.data + first};
    KB_ASSERT(count && count <= KA_BLOCK_ROWS && first + count <= f->rows.count);
    begin_block(&b);
    for (uint32_t i = 0; i < count; i++) {
        encode_names(&b, i);
        encode_parts(&b, i);
        encode_times(&b, i);
    }
    ka_write_fixed(w, (uint64_t)b.base_ns, 8);
    for (uint32_t c = 0; c < COLUMN_COUNT; c++)
        write_column(b.cells[c], count, w);
}

bool ka_decode_rows(const void *bytes, size_t size, ka_row_coding of, uint32_t first, uint32_t count, ka_comm *rows)
{
    ka_byte_reader r = ka_read_from(bytes, size);
    row_block b;
    KB_ASSERT(count && count <= KA_BLOCK_ROWS);
    b.first = first;
    b.count = count;
    b.of = of;
    b.base_ns = (int64_t)ka_read_fixed(&r, 8);
    b.rows = rows;
    begin_block(&b);
    for (uint32_t c = 0; c < COLUMN_COUNT; c++)
        read_column(&r, b.cells[c], count);
    if (r.is_bad || r.at != r.end)
        return false;
    memset(rows, 0, count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++) {
        decode_names(&b, i);
        decode_parts(&b, i);
    }
    for (uint32_t i = 0; i < count; i++)
        decode_times(&b, i);
    return true;
}

bool ka_decode_calls(const void *bytes, size_t size, uint32_t count, ka_comm *rows)
{
    ka_byte_reader r = ka_read_from(bytes, size);
    row_block b;
    KB_ASSERT(count && count <= KA_BLOCK_ROWS);
    b.first = 0;
    b.count = count;
    b.rows = rows;
    (void)ka_read_fixed(&r, 8);
    memset(b.last_of, 0, sizeof b.last_of);
    for (uint32_t c = 0; c <= COLUMN_ELEMENTS; c++)
        read_column(&r, b.cells[c], count);
    if (r.is_bad)
        return false;
    memset(rows, 0, count * sizeof *rows);
    for (uint32_t i = 0; i < count; i++)
        (void)decode_call(&b, i);
    return true;
}
