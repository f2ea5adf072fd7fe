/* Changes to rows and tracks of a builder after they were appended: a reader of files
 * learns the end of a range, or the identity of a track, after the row. Only before
 * kt_builder_finish, by the builder's thread. */
#include "trace/model/model.h"

void kt_row_close(kt_builder *b, kineto_row row, int64_t end_ns, bool open_end)
{
    if (row >= b->trace->count)
        return;
    kt_block *block = b->trace->blocks.data[row / KT_BLOCK_ROWS];
    uint32_t i = (uint32_t)(row % KT_BLOCK_ROWS);
    if (end_ns < block->start_ns[i]) {
        end_ns = block->start_ns[i];
        b->negative_durations++;
    }
    int64_t length;
    if (__builtin_sub_overflow(end_ns, block->start_ns[i], &length))
        end_ns = block->start_ns[i] + INT64_MAX;
    block->end_ns[i] = end_ns;
    block->flags[i] &= (uint16_t)~KINETO_ACTIVITY_OPEN_END;
    block->flags[i] |= open_end ? KINETO_ACTIVITY_OPEN_END : 0;
    block->max_end_ns = KB_MAX(block->max_end_ns, end_ns);
}

void kt_row_set_kind(kt_builder *b, kineto_row row, uint32_t kind)
{
    if (row >= b->trace->count || kind >= KINETO_KIND_COUNT)
        return;
    kt_block *block = b->trace->blocks.data[row / KT_BLOCK_ROWS];
    uint32_t i = (uint32_t)(row % KT_BLOCK_ROWS);
    block->kind[i] = (uint8_t)kind;
    block->category[i] = kt_category_index(b, kind, 0);
    block->kinds |= KINETO_KIND_BIT(kind);
}

/* Replaces the track of every row by new_index[track]. */
static void renumber_row_tracks(kineto_trace *t, const uint32_t *new_index)
{
    for (size_t i = 0; i < t->blocks.count; i++) {
        kt_block *block = t->blocks.data[i];
        for (uint32_t row = 0; row < block->count; row++)
            block->track[row] = new_index[block->track[row]];
    }
}

void kt_replace_tracks(kt_builder *b, const kt_track_row *wanted, uint32_t *new_index)
{
    kineto_trace *t = b->trace;
    size_t count = t->tracks.count;
    uint32_t *map = malloc((count + 1) * sizeof *map);
    uint64_t *rows = malloc((count + 1) * sizeof *rows);
    if (!map || !rows) {
        b->status = b->status == KINETO_OK ? KINETO_E_MEMORY : b->status;
        goto done;
    }
    for (size_t i = 0; i < count; i++)
        rows[i] = t->tracks.data[i].count;
    kb_map_free(&b->tracks);
    t->tracks.count = 0; /* `wanted` may be t->tracks.data itself: reads stay ahead of writes */
    for (size_t i = 0; i < count; i++) {
        kt_track_row want = wanted[i];
        want.count = 0;
        map[i] = kt_track_intern(b, &want);
        KB_ASSERT(map[i] <= i); /* never more new tracks than old ones */
        t->tracks.data[map[i]].count += rows[i];
    }
    renumber_row_tracks(t, map);
    if (new_index)
        memcpy(new_index, map, count * sizeof *map);
done:
    free(map);
    free(rows);
}

/* ---- sets of args ---------------------------------------------------------------------------- */

/* A set with the arguments of both sets; `first` if that is not possible. Uses the staged args. */
static uint32_t join_arg_sets(kt_builder *b, uint32_t first, uint32_t second)
{
    KB_ASSERT(!b->staged.count);
    const uint32_t sets[] = {first, second};
    for (size_t i = 0; i < KB_COUNT(sets); i++) {
        kt_args args = kt_args_of_set(b->trace, sets[i]);
        size_t bytes = kt_args_bytes(&args);
        if (!kb_vec_reserve(&b->staged, b->staged.count + bytes)) {
            b->status = KINETO_E_MEMORY;
            return first;
        }
        if (bytes)
            memcpy(b->staged.data + b->staged.count, args.at, bytes);
        b->staged.count += bytes;
    }
    uint32_t joined = kt_args_make_set(b);
    return joined ? joined : first;
}

/* Writes the pseudo-argument that names a set, see KT_ARG_SET. */
static void write_set_arg(uint8_t *at, uint32_t set)
{
    memcpy(at, &set, sizeof set);
    at[KT_ARG_HEAD - 1] = KT_ARG_SET;
}

/* Writes the set and a copy of the row's args at the end of the heap. The old args remain
 * as unused bytes. */
static void move_args_after_set(kt_builder *b, kt_block *block, uint32_t i, uint32_t set)
{
    uint64_t bytes = block->args[i] & 0xffffff, from = block->args[i] >> 24;
    uint64_t to = block->args_bytes, need = KT_ARG_HEAD + bytes;
    if (need >> 24 || (to + need) >> 40)
        return;
    if (to + need > block->args_capacity && !kt_block_grow_args(block, NULL, to + need)) {
        b->status = KINETO_E_MEMORY;
        return;
    }
    write_set_arg(block->args_heap + to, set);
    if (bytes)
        memcpy(block->args_heap + to + KT_ARG_HEAD, block->args_heap + from, bytes);
    block->args_bytes += need;
    block->args[i] = to << 24 | need;
    block->flags[i] = (uint16_t)((block->flags[i] & (0xff | KT_WRITER(3))) | KT_ARGS_PACKED << 8);
}

void kt_row_add_set(kt_builder *b, kineto_row row, uint32_t set)
{
    KB_ASSERT(row < b->trace->count);
    kt_block *block = b->trace->blocks.data[row / KT_BLOCK_ROWS];
    uint32_t i = row % KT_BLOCK_ROWS;
    kt_args_form form = kt_args_form_of(block, i);
    if (!set || form == KT_ARGS_JSON)
        return;
    uint32_t before = kt_args_of(b->trace, block, i).set;
    if (before)
        write_set_arg(block->args_heap + (block->args[i] >> 24), join_arg_sets(b, before, set));
    else
        move_args_after_set(b, block, i, set);
}
