/* Computes when everything ends from the lengths of the parts (rank_facts.h has the equations), instance
 * after instance in the order of arrival: what a row waits for came before it. */
#include "analyze/ranks/rank_replay.h"

#define ARRAYS 13

bool ka_replay_create(ka_replay *r, const ka_rank_model *m)
{
    int64_t **arrays[ARRAYS] = {&r->work_ns, &r->late_ns,     &r->late_rest_ns, &r->host_ns, &r->sync_ns,
                                &r->wait_ns, &r->transfer_ns, &r->gap_ns,       &r->host,    &r->ready,
                                &r->begin,   &r->end,         &r->waited};
    *r = (ka_replay){.m = m};
    for (size_t i = 0; i < ARRAYS; i++)
        if (!(*arrays[i] = malloc(((size_t)m->row_count + 1) * sizeof(int64_t))))
            return false;
    r->next = malloc(((size_t)m->rank_count + 1) * sizeof *r->next);
    r->is_ended = malloc(((size_t)m->row_count + 1) * sizeof *r->is_ended);
    if (!r->next || !r->is_ended)
        return false;
    ka_replay_reset(r);
    return true;
}

void ka_replay_free(ka_replay *r)
{
    int64_t *arrays[ARRAYS] = {r->work_ns,     r->late_ns, r->late_rest_ns, r->host_ns, r->sync_ns,
                               r->wait_ns,     r->transfer_ns, r->gap_ns,   r->host,    r->ready,
                               r->begin,       r->end,     r->waited};
    for (size_t i = 0; i < ARRAYS; i++)
        free(arrays[i]);
    free(r->next);
    free(r->is_ended);
    *r = (ka_replay){0};
}

/* Of the trace, aligned. */
static int64_t align_time(const ka_rank_model *m, uint32_t row, int64_t ns)
{
    return m->start_ns[row] + (ns - ka_model_row(m, row)->start_ns);
}

static uint32_t global_row(const ka_rank_model *m, uint32_t row, int32_t of)
{
    return m->base[m->rank_of[row]] + (uint32_t)of;
}

/* The row that stands for the kernel of a row. */
static uint32_t main_row(const ka_rank_model *m, uint32_t row)
{
    while (ka_model_row(m, row)->flags & KA_COMM_PART)
        row--;
    return row;
}

static const ka_instance *whole_instance(const ka_rank_model *m, uint32_t row)
{
    if (m->instance_of[row] == KA_NONE)
        return NULL;
    const ka_instance *x = &m->instances.data[m->instance_of[row]];
    return x->flags & KA_INSTANCE_WHOLE ? x : NULL;
}

static int64_t launched_ns(const ka_replay *r, uint32_t row, int64_t host)
{
    return ka_model_row(r->m, row)->flags & KA_COMM_NO_LAUNCH
               ? INT64_MIN
               : host + r->m->facts[r->m->rank_of[row]]->latency_ns;
}

/* What a row waits for before it begins: computation, the one before it on its stream, its launch. */
static int64_t earliest_begin(const ka_replay *r, uint32_t row, int64_t ready, int64_t host, const int64_t *end)
{
    const ka_comm *c = ka_model_row(r->m, row);
    int64_t at = launched_ns(r, row, host);
    if (!(c->flags & KA_COMM_FREE))
        at = KB_MAX(at, ready);
    if (c->after != KA_NO_COMM)
        at = KB_MAX(at, end[global_row(r->m, row, c->after)]);
    if (c->previous != KA_NO_COMM)
        at = KB_MAX(at, end[global_row(r->m, row, c->previous)]);
    return at == INT64_MIN ? ready : at; /* nothing is known of what it waited for */
}

/* A message can be on its way, or a part of a broadcast done, before the last rank has come. */
static bool leaves_early(const ka_rank_model *m, uint32_t row)
{
    const ka_instance *x = whole_instance(m, row);
    return x && !ka_is_synchronizing(x->op) && m->end_ns[row] < x->arrival_ns;
}

static int64_t arrival_of(const ka_rank_model *m, uint32_t row)
{
    const ka_instance *x = whole_instance(m, row);
    return x && !leaves_early(m, row) ? x->arrival_ns : m->start_ns[row];
}

/* Is the row one of several messages of its kernel or call? */
static bool has_parts(const ka_rank_model *m, uint32_t row)
{
    bool is_last = row + 1 == m->base[m->rank_of[row] + 1];
    return (ka_model_row(m, row)->flags | (is_last ? 0 : ka_model_row(m, row + 1)->flags)) & KA_COMM_PART;
}

/* When all that a kernel sends and receives could begin. */
static int64_t kernel_arrival(const ka_rank_model *m, uint32_t row)
{
    uint32_t at = main_row(m, row), end = m->base[m->rank_of[row] + 1];
    int64_t arrival = arrival_of(m, at++);
    for (; at < end && (ka_model_row(m, at)->flags & KA_COMM_PART); at++)
        arrival = KB_MAX(arrival, arrival_of(m, at));
    return arrival;
}

void ka_replay_reset(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    for (uint32_t row = 0; row < m->row_count; row++) {
        const ka_comm *c = ka_model_row(m, row);
        r->work_ns[row] = c->work_ns;
        r->late_ns[row] = c->late_ns;
        r->late_rest_ns[row] = c->late_rest_ns;
        r->host_ns[row] = c->host_ns;
        r->sync_ns[row] = c->sync_ns;
        r->wait_ns[row] = c->wait_ns;
        r->transfer_ns[row] = m->end_ns[row] - kernel_arrival(m, row);
        r->gap_ns[row] = m->start_ns[row] - earliest_begin(r, row, align_time(m, row, c->ready_ns),
                                                           align_time(m, row, c->host_at_ns), m->end_ns);
    }
}

/* ---- one run --------------------------------------------------------------------------------- */

static int64_t next_host(const ka_replay *r, uint32_t row, bool is_first)
{
    const ka_comm *c = ka_model_row(r->m, row);
    if ((c->flags & KA_COMM_NO_LAUNCH) || (!is_first && (ka_model_row(r->m, row - 1)->flags & KA_COMM_NO_LAUNCH)))
        return align_time(r->m, row, c->host_at_ns);
    if (is_first) /* by how much it begins later than its like is its host's */
        return align_time(r->m, row, c->host_at_ns) - c->host_ns + r->host_ns[row];
    int64_t host = r->host[row - 1] + r->host_ns[row];
    return c->sync_row == KA_NO_COMM ? host
                                     : KB_MAX(host, r->end[global_row(r->m, row, c->sync_row)] + r->sync_ns[row]);
}

static int64_t next_ready(const ka_replay *r, uint32_t row, bool is_first)
{
    const ka_comm *c = ka_model_row(r->m, row);
    if (is_first && r->late_ns[row] == KA_UNKNOWN_NUMBER)
        return align_time(r->m, row, c->ready_ns);
    if (is_first)
        return r->host[row] + r->late_ns[row] + r->late_rest_ns[row];
    int64_t ready = KB_MAX(r->ready[row - 1] + r->work_ns[row], r->waited[row]);
    if (r->late_ns[row] != KA_UNKNOWN_NUMBER)
        ready = KB_MAX(ready, r->host[c->flags & KA_COMM_LATE_OWN ? row : row - 1] + r->late_ns[row] + r->late_rest_ns[row]);
    return ready;
}

static void end_row(ka_replay *r, uint32_t row, int64_t arrival);

/* `host` and `ready` of all rows of its rank up to this one, and the ends of those before it that waited for no
 * other rank. */
static void advance_rank(ka_replay *r, uint32_t row)
{
    uint32_t rank = r->m->rank_of[row];
    for (uint32_t *at = &r->next[rank]; *at <= row; ++*at) {
        bool is_first = *at == r->m->base[rank];
        r->host[*at] = next_host(r, *at, is_first);
        r->ready[*at] = next_ready(r, *at, is_first);
        if (!leaves_early(r->m, *at) || has_parts(r->m, *at))
            continue;
        r->begin[*at] = earliest_begin(r, *at, r->ready[*at], r->host[*at], r->end) + r->gap_ns[*at];
        end_row(r, *at, r->begin[*at]);
    }
}

static void begin_row(ka_replay *r, uint32_t row)
{
    advance_rank(r, row);
    if (ka_model_row(r->m, row)->flags & KA_COMM_PART) {
        begin_row(r, row - 1); /* the same kernel, whose other message may come later */
        r->begin[row] = r->begin[row - 1];
        return;
    }
    r->begin[row] = earliest_begin(r, row, r->ready[row], r->host[row], r->end) + r->gap_ns[row];
}

static void end_row(ka_replay *r, uint32_t row, int64_t arrival)
{
    uint32_t whole = main_row(r->m, row);
    int64_t end = arrival + r->transfer_ns[row];
    r->end[row] = end;
    row = whole;
    const ka_comm *c = ka_model_row(r->m, row);
    r->end[row] = r->is_ended[row] ? KB_MAX(r->end[row], end) : end;
    r->is_ended[row] = true;
    if (c->wait_row == KA_NO_COMM || !(c->flags & KA_COMM_WAITED))
        return;
    uint32_t to = global_row(r->m, row, c->wait_row);
    r->waited[to] = KB_MAX(r->waited[to], r->end[row] + r->wait_ns[row]);
}

static void run_instance(ka_replay *r, const ka_instance *x)
{
    int64_t arrival = INT64_MIN;
    bool is_whole = x->flags & KA_INSTANCE_WHOLE;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = r->m->members[x->first + i];
        begin_row(r, row);
        arrival = KB_MAX(arrival, r->begin[row]);
    }
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = r->m->members[x->first + i];
        if (!leaves_early(r->m, row)) /* else it has ended already, or with other messages of its call */
            end_row(r, row, is_whole ? arrival : r->begin[row]);
    }
}

int64_t ka_replay_run(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    int64_t last = 0;
    for (uint32_t row = 0; row < m->row_count; row++) {
        r->waited[row] = INT64_MIN;
        r->end[row] = m->end_ns[row]; /* of rows that are of no instance */
        r->is_ended[row] = false;
    }
    for (uint32_t i = 0; i < m->rank_count; i++)
        r->next[i] = m->base[i];
    for (size_t i = 0; i < m->instances.count; i++)
        run_instance(r, &m->instances.data[i]);
    for (uint32_t i = 0; i < m->rank_count; i++) {
        uint32_t end = m->base[i + 1] - 1;
        begin_row(r, end);
        last = KB_MAX(last, r->begin[end]);
    }
    for (size_t i = 0; i < m->instances.count; i++)
        for (uint32_t k = 0; k < m->instances.data[i].count; k++)
            last = KB_MAX(last, r->end[m->members[m->instances.data[i].first + k]]);
    return last;
}
