/* What was repaired: a bounded list, and counts of all. */
#include "trace/repair/repair.h"

static const struct {
    const char *name, *text;
    kt_repair_loss loses;
} rows[] = {
#define KT_X(id, name, loss, text) {#name, text, KT_LOSES_##loss},
    KT_REPAIR_MAP(KT_X)
#undef KT_X
};

const char *kt_repair_name(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? rows[kind].name : "unknown";
}

const char *kt_repair_text(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? rows[kind].text : "";
}

kt_repair_loss kt_repair_loses(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? rows[kind].loses : KT_LOSES_NOTHING;
}

void kt_repairs_free(kt_repairs *r) { kb_vec_free(&r->list); }

static void count(kt_repairs *r, uint32_t kind, uint64_t times, uint64_t offset, uint64_t bytes)
{
    if (!r->kinds[kind].count)
        r->kinds[kind].first_offset = offset;
    r->kinds[kind].count += times;
    r->kinds[kind].bytes += bytes;
    r->total += times;
}

bool kt_repairs_add(kt_repairs *r, kt_repair_kind kind, uint64_t offset, uint64_t bytes)
{
    count(r, kind, 1, r->base + offset, bytes);
    return r->list.count >= KT_REPAIR_LIST_MAX ||
           kb_vec_push(&r->list, (kt_repair){kind, r->base + offset, bytes});
}

void kt_repairs_more(kt_repairs *r, kt_repair_kind kind, uint64_t times)
{
    if (times)
        count(r, kind, times, 0, 0);
}

bool kt_repairs_cut(kt_repairs *r, uint64_t offset)
{
    return r->kinds[KT_REPAIR_TRUNCATED].count || kt_repairs_add(r, KT_REPAIR_TRUNCATED, offset, 0);
}

bool kt_repairs_append(kt_repairs *r, const kt_repairs *later)
{
    for (uint32_t i = 0; i < KT_REPAIR_KINDS; i++)
        if (later->kinds[i].count)
            count(r, i, later->kinds[i].count, later->kinds[i].first_offset, later->kinds[i].bytes);
    for (size_t i = 0; i < later->list.count && r->list.count < KT_REPAIR_LIST_MAX; i++)
        if (!kb_vec_push(&r->list, later->list.data[i]))
            return false;
    return true;
}
