/* A trace of several ranks, one rank after the other. */
#include "analyze/dataset/each_rank.h"

#include "trace/files/identity.h"
#include "trace/transform/select.h"

bool ka_has_ranks(const kineto_trace *t)
{
    kt_ranks ranks = {0};
    bool has = kt_add_trace_ranks(&ranks, t) && ranks.count > 1;
    kb_vec_free(&ranks);
    return has;
}

typedef struct visiting {
    const kineto_trace *t;
    ka_rank_visitor *visit;
    void *context;
    uint8_t *seen; /* by row */
} visiting;

/* Selects the rank's part of the trace, marks its rows as seen and visits it, unless it is
 * empty. */
static kineto_status visit_rank(const visiting *v, int32_t rank, kineto_error *err)
{
    kineto_trace *part;
    kineto_row *rows;
    kineto_status status = kt_select_rank(v->t, rank, &part, &rows, err);
    for (kineto_row i = 0; !status && i < kineto_trace_count(part); i++)
        v->seen[rows[i]] = 1;
    if (!status && kineto_trace_count(part))
        status = v->visit(v->context, part, rank, rows, err);
    kineto_trace_release(part);
    free(rows);
    return status;
}

/* Ranks in their order; rows of no rank are counted at the end. */
kineto_status ka_visit_ranks(const kineto_trace *t, ka_rank_visitor *visit, void *context,
                             uint64_t *without, kineto_error *err)
{
    kt_ranks ranks = {0};
    uint64_t count = kineto_trace_count(t);
    visiting v = {t, visit, context, kb_array_zeroed((size_t)count + 1, 1)};
    kineto_status status = KINETO_OK;
    if (!v.seen || !kt_add_trace_ranks(&ranks, t))
        status = kb_fail_memory(err, NULL);
    for (size_t i = 0; !status && i < ranks.count; i++)
        status = visit_rank(&v, ranks.data[i], err);
    *without = 0;
    for (uint64_t row = 0; !status && row < count; row++)
        *without += !v.seen[row];
    kb_vec_free(&ranks);
    free(v.seen);
    return status;
}
