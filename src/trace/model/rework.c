/* What a reader of files learns late: where a range ended, what a track really is. */
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

static void rename_tracks(kineto_trace *t, const uint32_t *new_index)
{
    for (size_t i = 0; i < t->blocks.count; i++) {
        kt_block *block = t->blocks.data[i];
        for (uint32_t row = 0; row < block->count; row++)
            block->track[row] = new_index[block->track[row]];
    }
}

void kt_retrack(kt_builder *b, const kt_track_row *wanted, uint32_t *new_index)
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
    t->tracks.count = 0; /* never more new tracks than old ones: reads stay ahead of writes */
    for (size_t i = 0; i < count; i++) {
        kt_track_row want = wanted[i];
        want.count = 0;
        map[i] = kt_track_intern(b, &want);
        t->tracks.data[map[i]].count += rows[i];
    }
    rename_tracks(t, map);
    if (new_index)
        memcpy(new_index, map, count * sizeof *map);
done:
    free(map);
    free(rows);
}
