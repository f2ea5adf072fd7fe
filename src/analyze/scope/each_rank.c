/* A trace of several ranks, one rank after the other. */
#include "analyze/scope/each_rank.h"

#include "trace/change/select.h"

typedef KB_VEC(int32_t) rank_list;

static int compare_ranks(const void *left, const void *right)
{
    const int32_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

/* The ranks of processes, in order, each once. */
static bool list_ranks(const kineto_trace *t, rank_list *ranks)
{
    size_t kept = 0;
    for (uint32_t i = 0; i < kineto_trace_process_count(t); i++) {
        kineto_process p;
        kineto_trace_process(t, i, &p);
        if (p.rank >= 0 && !kb_vec_push(ranks, p.rank))
            return false;
    }
    if (ranks->count)
        qsort(ranks->data, ranks->count, sizeof *ranks->data, compare_ranks);
    for (size_t i = 0; i < ranks->count; i++)
        if (!kept || ranks->data[kept - 1] != ranks->data[i])
            ranks->data[kept++] = ranks->data[i];
    ranks->count = kept;
    return true;
}

bool ka_has_ranks(const kineto_trace *t)
{
    rank_list ranks = {0};
    bool has = list_ranks(t, &ranks) && ranks.count > 1;
    kb_vec_free(&ranks);
    return has;
}

typedef struct visiting {
    const kineto_trace *t;
    ka_rank_visitor *visit;
    void *context;
    uint8_t *seen; /* by row */
} visiting;

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

kineto_status ka_visit_ranks(const kineto_trace *t, ka_rank_visitor *visit, void *context,
                             uint64_t *without, kineto_error *err)
{
    rank_list ranks = {0};
    uint64_t count = kineto_trace_count(t);
    visiting v = {t, visit, context, kb_array_zeroed((size_t)count + 1, 1)};
    kineto_status status = KINETO_OK;
    if (!v.seen || !list_ranks(t, &ranks))
        status = kb_fail(err, KINETO_E_MEMORY, "out of memory");
    for (size_t i = 0; !status && i < ranks.count; i++)
        status = visit_rank(&v, ranks.data[i], err);
    *without = 0;
    for (uint64_t row = 0; !status && row < count; row++)
        *without += !v.seen[row];
    kb_vec_free(&ranks);
    free(v.seen);
    return status;
}
