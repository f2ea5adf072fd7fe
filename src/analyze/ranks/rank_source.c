/* A source of facts that are in memory. */
#include "analyze/ranks/rank_source.h"

static kineto_status copy_rows(void *context, uint32_t lane, uint32_t first, uint32_t count, ka_comm *out, kineto_error *err)
{
    const ka_rank_facts *facts = context;
    KB_ASSERT((size_t)first + count <= facts->rows.count);
    (void)lane, (void)err;
    if (count)
        memcpy(out, facts->rows.data + first, count * sizeof *out);
    return KINETO_OK;
}

ka_rank_source ka_rank_source_of(const ka_rank_facts *facts)
{
    union { /* only read */
        const ka_rank_facts *facts;
        void *context;
    } of = {.facts = facts};
    return (ka_rank_source){.head = facts, .row_count = (uint32_t)facts->rows.count, .read = copy_rows, .context = of.context};
}

const ka_comm *ka_rank_source_rows(const ka_rank_source *s)
{
    return s->read == copy_rows ? s->head->rows.data : NULL;
}
