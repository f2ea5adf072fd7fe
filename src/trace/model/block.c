/* Blocks: 64 Ki rows in columns, counted references. */
#include "trace/model/model.h"
#include "trace/bytes/input.h"

/* All columns, the widest first so that each is aligned. */
#define COLUMNS(X)                                                                                 \
    X(start_ns)                                                                                    \
    X(end_ns)                                                                                      \
    X(correlation_id) X(external_id) X(args) X(name) X(track) X(category) X(flags) X(kind) X(form)

static size_t row_bytes(void)
{
    const kt_block *b = NULL;
#define X(column) +sizeof *b->column
    return 0 COLUMNS(X);
#undef X
}

static void lay_out(kt_block *b, uint8_t *memory, size_t rows)
{
#define X(column)                                                                                  \
    b->column = (void *)memory;                                                                    \
    memory += rows * sizeof *b->column;
    COLUMNS(X)
#undef X
}

/* Counts of owners are in the heap: after a fork, those of parent and child go different ways. */
static kt_block *allocate(kt_store *store, kt_slab **slab, size_t rows)
{
    kt_block *b = calloc(1, sizeof *b);
    uint8_t *columns = NULL;
    if (b)
        columns = slab ? kt_slab_take(slab, rows * row_bytes())
                       : kt_store_alloc(store, rows * row_bytes());
    if (!columns) {
        free(b);
        return NULL;
    }
    b->references = 1;
    b->store = kt_store_retain(store);
    b->columns_slab = slab ? *slab : NULL;
    b->min_start_ns = INT64_MAX;
    b->max_end_ns = INT64_MIN;
    lay_out(b, columns, rows);
    return b;
}

kt_block *kt_block_create(kt_store *store, kt_slab **slab)
{
    return allocate(store, slab, KT_BLOCK_ROWS);
}

/* What there was, it moves; the old place is free again. */
static void move_args(kt_block *b, uint8_t *to, kt_slab *slab, size_t capacity)
{
    if (b->args_heap)
        memcpy(to, b->args_heap, b->args_bytes);
    kt_slab_release(b->args_slab);
    b->args_heap = to;
    b->args_slab = slab;
    b->args_capacity = capacity;
}

/* All that the slab has left; the next block's columns come behind what was needed of it. */
static bool grow_in_slab(kt_block *b, kt_slab **slab, size_t bytes)
{
    size_t room = 0;
    uint8_t *grown = kt_slab_take_rest(slab, bytes, &room);
    if (grown)
        move_args(b, grown, *slab, room);
    return grown != NULL;
}

static bool grow_out_of_slab(kt_block *b, size_t bytes)
{
    uint8_t *grown = malloc(2 * bytes);
    if (grown)
        move_args(b, grown, NULL, 2 * bytes);
    return grown != NULL;
}

bool kt_block_grow_args(kt_block *b, kt_slab **slab, size_t bytes)
{
    if (slab && b->columns_slab && (b->args_slab || !b->args_heap))
        return grow_in_slab(b, slab, bytes);
    if (b->args_slab)
        return grow_out_of_slab(b, bytes);
    return kt_store_grow(b->store, (void **)&b->args_heap, &b->args_capacity, bytes, 1);
}

static void copy_columns(kt_block *to, const kt_block *from)
{
#define X(column) memcpy(to->column, from->column, from->count * sizeof *to->column);
    COLUMNS(X)
#undef X
}

static void free_block(kt_block *block)
{
    if (block->columns_slab)
        kt_slab_release(block->columns_slab);
    else
        kt_store_free(block->store, block->start_ns); /* where all columns begin */
    kt_store_release(block->store);
    free(block);
}

kt_block *kt_block_shrink(kt_block *block)
{
    uint8_t *heap = NULL;
    if (block->args_slab) {
        kt_slab_trim(block->args_slab, block->args_heap, block->args_bytes);
        block->args_capacity = block->args_bytes;
    } else if (block->args_heap && !block->store) /* else what is not used costs no memory */
        heap = realloc(block->args_heap, block->args_bytes);
    if (heap) {
        block->args_heap = heap;
        block->args_capacity = block->args_bytes;
    }
    if (block->count == KT_BLOCK_ROWS || block->columns_slab)
        return block;
    kt_block *small = allocate(block->store, NULL, block->count);
    if (!small)
        return block; /* keeps its spare room */
    copy_columns(small, block);
    small->count = block->count;
    small->args_heap = block->args_heap;
    small->args_bytes = block->args_bytes;
    small->args_capacity = block->args_capacity;
    small->text = block->text;
    small->more_texts = block->more_texts;
    small->more_text_count = block->more_text_count;
    small->min_start_ns = block->min_start_ns;
    small->max_end_ns = block->max_end_ns;
    small->kinds = block->kinds;
    free_block(block);
    return small;
}

/* Runs are few unless files are tiny; the last one that begins at or before the row counts. */
struct kt_input *kt_block_text(const kt_block *block, uint32_t index)
{
    uint32_t low = 0, high = block->more_text_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (block->more_texts[middle].first <= index)
            low = middle + 1;
        else
            high = middle;
    }
    return low ? block->more_texts[low - 1].text : block->text;
}

bool kt_block_add_text(kt_block *block, uint32_t index, struct kt_input *text)
{
    uint32_t count = block->more_text_count;
    if (!block->text) {
        block->text = kt_input_retain(text);
        kt_store_watch(block->store, text);
        return true;
    }
    if ((count ? block->more_texts[count - 1].text : block->text) == text)
        return true;
    size_t capacity = 0;
    while (capacity < count) /* grown by doubling, whenever it is full */
        capacity = capacity ? capacity * 2 : 1;
    if (count == capacity) {
        size_t room = count ? 2 * (size_t)count : 1;
        kt_text_run *runs = realloc(block->more_texts, room * sizeof *runs);
        if (!runs)
            return false;
        block->more_texts = runs;
    }
    block->more_texts[block->more_text_count++] = (kt_text_run){index, kt_input_retain(text)};
    kt_store_watch(block->store, text);
    return true;
}

void kt_block_release(kt_block *block)
{
    if (!block || kb_add_acqrel(&block->references, UINT32_MAX) != 1)
        return;
    if (block->args_slab)
        kt_slab_release(block->args_slab);
    else
        kt_store_free(block->store, block->args_heap);
    kt_input_release(block->text);
    for (uint32_t i = 0; i < block->more_text_count; i++)
        kt_input_release(block->more_texts[i].text);
    free(block->more_texts);
    free_block(block);
}
