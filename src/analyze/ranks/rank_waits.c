/* Finds what a row waited for: computation, launches, its stream, results of other collectives. Used where the trace is
 * explained as it is (waiting, critical path); rank_replay.c has the same equations for changed lengths. Needs the rows
 * of the whole run: indices of rows are those of the rank. */
#include "analyze/ranks/rank_waits.h"

uint32_t ka_main_row(const ka_rank_model *m, uint32_t row)
{
    while (row > m->base[m->rank_of[row]] && (ka_model_row(m, row)->flags & KA_COMM_PART))
        row--;
    return row;
}

static uint32_t row_of_rank(const ka_rank_model *m, uint32_t row, int32_t of)
{
    return m->base[m->rank_of[row]] + (uint32_t)of;
}

/* When the computation that needed the result of a collective was done, if nothing else held it up. */
static int64_t waited_until(const ka_rank_model *m, uint32_t row)
{
    return m->end_ns[row] + ka_model_row(m, row)->wait_ns;
}

bool ka_waited_rows_create(const ka_rank_model *m, ka_waited_rows *w)
{
    w->of = malloc(((size_t)m->row_count + 1) * sizeof *w->of);
    if (!w->of)
        return false;
    for (uint32_t row = 0; row < m->row_count; row++)
        w->of[row] = KA_NONE;
    for (uint32_t row = 0; row < m->row_count; row++) {
        const ka_comm *c = ka_model_row(m, row);
        if (c->wait_row == KA_NO_COMM || !(c->flags & KA_COMM_WAITED))
            continue;
        uint32_t *of = &w->of[row_of_rank(m, row, c->wait_row)];
        if (*of == KA_NONE || waited_until(m, *of) < waited_until(m, row))
            *of = row;
    }
    return true;
}

void ka_waited_rows_free(ka_waited_rows *w)
{
    free(w->of);
    w->of = NULL;
}

/* A launch by the host time of another row, which is known for rows with a launch only. */
static int64_t host_moment(const ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    return c->flags & KA_COMM_NO_LAUNCH ? KA_NO_MOMENT : ka_align_moment(m, row, c->host_at_ns);
}

ka_ready_parts ka_find_ready_parts(const ka_rank_model *m, const ka_waited_rows *w, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    bool is_first = row == m->base[m->rank_of[row]];
    ka_ready_parts p = {KA_NO_MOMENT, KA_NO_MOMENT, KA_NO_MOMENT, KA_NO_MOMENT, w->of[row]};
    if (!is_first)
        p.chain_ns = ka_align_moment(m, row - 1, ka_model_row(m, row - 1)->ready_ns) + c->work_ns;
    if (p.waited_row != KA_NONE)
        p.waited_ns = waited_until(m, p.waited_row);
    if (c->late_ns == KA_UNKNOWN_NUMBER)
        return p;
    int64_t host = host_moment(m, is_first || c->flags & KA_COMM_LATE_OWN ? row : row - 1);
    if (host == KA_NO_MOMENT)
        return p;
    p.launch_ns = host + c->late_ns;
    p.held_ns = p.launch_ns + c->late_rest_ns;
    return p;
}

ka_begin_parts ka_find_begin_parts(const ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    ka_begin_parts p = {KA_NO_MOMENT, KA_NO_MOMENT, KA_NO_MOMENT, KA_NONE};
    if (!(c->flags & KA_COMM_FREE))
        p.ready_ns = ka_align_moment(m, row, c->ready_ns);
    if (!(c->flags & KA_COMM_NO_LAUNCH))
        p.launch_ns = host_moment(m, row) + m->facts[m->rank_of[row]]->latency_ns;
    int32_t before[] = {c->previous, c->after};
    for (size_t i = 0; i < KB_COUNT(before); i++) {
        if (before[i] == KA_NO_COMM)
            continue;
        uint32_t other = row_of_rank(m, row, before[i]);
        if (m->end_ns[other] > p.stream_ns) {
            p.stream_ns = m->end_ns[other];
            p.stream_row = other;
        }
    }
    return p;
}

int64_t ka_order_error(const ka_rank_model *m, uint32_t row, uint32_t other)
{
    uint32_t a = m->clock_of[m->rank_of[row]], b = m->clock_of[m->rank_of[other]];
    return a == b ? 0 : (int64_t)(m->clocks.data[a].bar_ns + m->clocks.data[b].bar_ns);
}
