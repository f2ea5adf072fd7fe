/* The state of a repair: saved, returned to, written out. */
#include "trace/repair/repair_impl.h"

void kt_fix_save(const kt_fix *f, kt_fix_mark *mark)
{
    mark->at = f->at;
    mark->out_count = f->out->count;
    mark->change_count = f->changes.count;
    mark->depth = f->depth;
    memcpy(mark->uncounted, f->uncounted, sizeof mark->uncounted);
    mark->event = f->event;
}

void kt_fix_restore(kt_fix *f, const kt_fix_mark *mark)
{
    f->at = mark->at;
    f->out->count = mark->out_count;
    f->changes.count = mark->change_count;
    f->depth = mark->depth;
    memcpy(f->uncounted, mark->uncounted, sizeof f->uncounted);
    f->event = mark->event;
}

void kt_fix_count(kt_fix *f, kt_repair_kind kind, size_t offset, size_t bytes)
{
    if (f->changes.count >= KT_REPAIR_LIST_MAX)
        f->uncounted[kind] += f->uncounted[kind] < UINT32_MAX;
    else if (!kb_vec_push(&f->changes, (kt_repair){kind, offset, bytes}))
        f->no_memory = true;
}

void kt_fix_put(kt_fix *f, const char *data, size_t bytes)
{
    kt_bytes *out = f->out;
    if (f->no_memory || bytes > SIZE_MAX - out->count || !kb_vec_reserve(out, out->count + bytes)) {
        f->no_memory = true;
        return;
    }
    if (bytes)
        memcpy(out->data + out->count, data, bytes);
    out->count += bytes;
}
