/* Blocks: 64 Ki rows in columns, one allocation, counted references. */
#include "trace/input.h"
#include "trace/model.h"

#define COLUMN_BYTES (2 * 8 + 2 * 4 + 2 * 1 + 2 * 2 + 3 * 8)

/* Point the columns into `memory`, widest first so that each is aligned. Returns its end. */
static uint8_t *lay_out(kt_block *b, uint8_t *memory, size_t rows)
{
    uint8_t *at = memory;
#define COLUMN(member)                                                                             \
    b->member = (void *)at;                                                                        \
    at += rows * sizeof *b->member
    COLUMN(start_ns);
    COLUMN(end_ns);
    COLUMN(correlation_id);
    COLUMN(external_id);
    COLUMN(args);
    COLUMN(name);
    COLUMN(track);
    COLUMN(category);
    COLUMN(flags);
    COLUMN(kind);
    COLUMN(form);
#undef COLUMN
    return at;
}

static kt_block *allocate(size_t rows)
{
    size_t head = kb_align(sizeof(kt_block), 16);
    kt_block *b = malloc(head + rows * COLUMN_BYTES);
    if (!b)
        return NULL;
    memset(b, 0, sizeof *b);
    b->references = 1;
    b->min_start_ns = INT64_MAX;
    b->max_end_ns = INT64_MIN;
    lay_out(b, (uint8_t *)b + head, rows);
    return b;
}

kt_block *kt_block_create(void) { return allocate(KT_BLOCK_ROWS); }

static void copy_columns(kt_block *to, const kt_block *from)
{
    size_t n = from->count;
#define COLUMN(member) memcpy(to->member, from->member, n * sizeof *to->member)
    COLUMN(start_ns);
    COLUMN(end_ns);
    COLUMN(correlation_id);
    COLUMN(external_id);
    COLUMN(args);
    COLUMN(name);
    COLUMN(track);
    COLUMN(category);
    COLUMN(flags);
    COLUMN(kind);
    COLUMN(form);
#undef COLUMN
}

kt_block *kt_block_shrink(kt_block *block)
{
    uint8_t *heap = block->args_heap ? realloc(block->args_heap, block->args_bytes) : NULL;
    if (heap)
        block->args_heap = heap;
    if (block->count == KT_BLOCK_ROWS)
        return block;
    kt_block *small = allocate(block->count);
    if (!small)
        return block; /* keeps its spare room */
    copy_columns(small, block);
    small->count = block->count;
    small->args_heap = block->args_heap;
    small->args_bytes = block->args_bytes;
    small->text = block->text;
    small->min_start_ns = block->min_start_ns;
    small->max_end_ns = block->max_end_ns;
    small->kinds = block->kinds;
    free(block);
    return small;
}

void kt_block_release(kt_block *block)
{
    if (!block || kb_add_acqrel(&block->references, UINT32_MAX) != 1)
        return;
    free(block->args_heap);
    kt_input_release(block->text);
    free(block);
}
