/* Blocks: up to KT_BLOCK_ROWS rows in columns, in one piece of memory, with a heap of
 * packed args. A block is filled by one builder, or by batches that own ranges of its rows,
 * and immutable afterwards; traces share blocks by reference counts. Memory comes from the
 * slab of the builder, the store of a trace with a memory limit, or the heap. */
#include "trace/model/model.h"
#include "trace/bytes/input.h"

/* All columns, the widest first so that each is aligned. */
#define COLUMNS(X)                                                                                 \
    X(start_ns)                                                                                    \
    X(end_ns)                                                                                      \
    X(correlation_id) X(external_id) X(args) X(name) X(track) X(category) X(flags) X(kind) X(form)

static size_t column_bytes_per_row(void)
{
    const kt_block *b = NULL;
#define X(column) +sizeof *b->column
    return 0 COLUMNS(X);
#undef X
}

/* Sets the column pointers into `memory`, which has room for `rows` rows. */
static void lay_out_columns(kt_block *b, uint8_t *memory, size_t rows)
{
#define X(column)                                                                                  \
    b->column = (void *)memory;                                                                    \
    memory += rows * sizeof *b->column;
    COLUMNS(X)
#undef X
}

/* The struct with the reference count is in the heap, never in the store's shared mapping:
 * after a fork, parent and child count separately. NULL: out of memory. */
static kt_block *allocate_block(kt_store *store, kt_slab **slab, size_t rows)
{
    kt_block *b = calloc(1, sizeof *b);
    uint8_t *columns = NULL;
    if (b)
        columns = slab ? kt_slab_take(slab, rows * column_bytes_per_row())
                       : kt_store_alloc(store, rows * column_bytes_per_row());
    if (!columns) {
        free(b);
        return NULL;
    }
    b->references = 1;
    b->store = kt_store_retain(store);
    b->columns_slab = slab ? *slab : NULL;
    b->min_start_ns = INT64_MAX;
    b->max_end_ns = INT64_MIN;
    lay_out_columns(b, columns, rows);
    return b;
}

kt_block *kt_block_create(kt_store *store, kt_slab **slab)
{
    return allocate_block(store, slab, KT_BLOCK_ROWS);
}

/* Moves the args heap to `to`, memory of `slab` (NULL: malloc), and releases its old memory. */
static void move_args_heap(kt_block *b, uint8_t *to, kt_slab *slab, size_t capacity)
{
    KB_ASSERT(capacity >= b->args_bytes);
    if (b->args_heap)
        memcpy(to, b->args_heap, b->args_bytes);
    kt_slab_release(b->args_slab);
    b->args_heap = to;
    b->args_slab = slab;
    b->args_capacity = capacity;
}

/* Takes the rest of the slab. kt_block_shrink returns the unused part, where the columns of
 * the next block are allocated. */
static bool grow_args_in_slab(kt_block *b, kt_slab **slab, size_t bytes)
{
    size_t room = 0;
    uint8_t *grown = kt_slab_take_rest(slab, bytes, &room);
    if (grown)
        move_args_heap(b, grown, *slab, room);
    return grown != NULL;
}

/* Moves the heap out of the slab when another thread, which does not own the slab, needs
 * more room. */
static bool grow_args_out_of_slab(kt_block *b, size_t bytes)
{
    uint8_t *grown = malloc(2 * bytes);
    if (grown)
        move_args_heap(b, grown, NULL, 2 * bytes);
    return grown != NULL;
}

bool kt_block_grow_args(kt_block *b, kt_slab **slab, size_t bytes)
{
    KB_ASSERT(bytes > b->args_capacity);
    if (slab && b->columns_slab && (b->args_slab || !b->args_heap))
        return grow_args_in_slab(b, slab, bytes);
    if (b->args_slab)
        return grow_args_out_of_slab(b, bytes);
    return kt_store_grow(b->store, (void **)&b->args_heap, &b->args_capacity, bytes, 1);
}

static void copy_block_columns(kt_block *to, const kt_block *from)
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
    KB_ASSERT(block->references == 1 && block->count <= KT_BLOCK_ROWS); /* no trace shares it yet */
    uint8_t *heap = NULL;
    if (block->args_slab) {
        kt_slab_trim(block->args_slab, block->args_heap, block->args_bytes);
        block->args_capacity = block->args_bytes;
    } else if (block->args_heap && !block->store) { /* in a store unused pages cost no memory */
        heap = realloc(block->args_heap, block->args_bytes);
    }
    if (heap) {
        block->args_heap = heap;
        block->args_capacity = block->args_bytes;
    }
    if (block->count == KT_BLOCK_ROWS || block->columns_slab)
        return block;
    kt_block *small = allocate_block(block->store, NULL, block->count);
    if (!small)
        return block; /* keeps its spare room */
    copy_block_columns(small, block);
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

/* The last run that begins at or before the row. There are several only where small files
 * share a block. */
struct kt_input *kt_block_text(const kt_block *block, uint32_t index)
{
    uint32_t after = 0;
    KB_LOWER_BOUND(after, block->more_text_count, block->more_texts[after].first <= index);
    return after ? block->more_texts[after - 1].text : block->text;
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
    KB_ASSERT(!count || block->more_texts[count - 1].first <= index);
    size_t capacity = 0;
    while (capacity < count) /* the array doubles whenever it is full: 1, 2, 4, … */
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
