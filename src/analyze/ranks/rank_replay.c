/* Computes when everything ends from the lengths of the parts (rank_facts.h has the equations), instance
 * after instance in the order of arrival: what a row waits for came before it.
 *
 * Each run starts with the lengths in ka_replay_row, and computes host, ready, begin and end of all rows, in ns from
 * the origin. What the equations do not explain of a row, from all that it waited for to its begin, is kept as its
 * gap_ns, so that unchanged lengths give the recorded times. */
#include "analyze/ranks/rank_replay.h"

/* KA_NONE, too, of rows that are not in the window. */
static uint32_t global_row(const ka_rank_model *m, uint32_t rank, int32_t of)
{
    uint32_t first = m->window ? m->window[rank].first : 0, count = m->base[rank + 1] - m->base[rank];
    bool is_here = of != KA_NO_COMM && (uint32_t)of >= first && (uint32_t)of - first < count;
    return is_here ? m->base[rank] + (uint32_t)of - first : KA_NONE;
}

/* The row that stands for the kernel of a row. */
static uint32_t main_row(const ka_rank_model *m, uint32_t row)
{
    while (row > m->base[m->rank_of[row]] && (ka_model_row(m, row)->flags & KA_COMM_PART))
        row--;
    return row;
}

static const ka_instance *whole_instance(const ka_rank_model *m, uint32_t row)
{
    if (m->instance_of[row] == KA_NONE)
        return NULL;
    const ka_instance *x = &m->instances.data[m->instance_of[row]];
    return ka_is_replayed(x) ? x : NULL;
}

/* What a row waits for before it begins: computation, the ones before it on streams, its launch. `after` and
 * `previous`: their ends; INT64_MIN: none. */
static int64_t earliest_begin(const ka_replay_row *x, int64_t ready, int64_t launched, int64_t after, int64_t previous)
{
    int64_t at = x->flags & KA_COMM_NO_LAUNCH ? INT64_MIN : launched;
    if (!(x->flags & KA_COMM_FREE))
        at = KB_MAX(at, ready);
    at = KB_MAX(at, KB_MAX(after, previous));
    return at == INT64_MIN ? ready : at; /* nothing is known of what it waited for */
}

/* When the last rank of the row's instance began; a row that waits for no other rank has its own begin. */
static int64_t arrival_of(const ka_rank_model *m, uint32_t row)
{
    const ka_instance *x = whole_instance(m, row);
    return x && !ka_leaves_early(m, row) ? x->arrival_ns : m->start_ns[row];
}

/* Is the row one of several messages of its kernel or call? */
static bool has_parts(const ka_rank_model *m, uint32_t rank, uint32_t row)
{
    bool is_last = row + 1 == m->base[rank + 1];
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

/* The lengths of the trace. Of hosts host_ns is no length of the replay, but what work typically takes. */
static void take_lengths(ka_replay *r, uint32_t row)
{
    ka_replay_row *x = &r->rows[row];
    const ka_comm *c = ka_model_row(r->m, row);
    x->work_ns = c->work_ns;
    x->late_ns = c->late_ns;
    x->late_rest_ns = c->late_rest_ns;
    x->host_ns = r->m->facts[r->m->rank_of[row]]->on_host ? 0 : c->host_ns;
    x->sync_ns = c->sync_ns;
    x->wait_ns = c->wait_ns;
    if (c->sync_row != KA_NO_COMM && x->sync_row == KA_NONE && row > r->m->base[r->m->rank_of[row]])
        x->host_ns = c->host_at_ns - c[-1].host_at_ns; /* it waited for what is not in the window */
}

void ka_replay_reset_rank(ka_replay *r, uint32_t rank)
{
    for (uint32_t row = r->m->base[rank]; row < r->m->base[rank + 1]; row++)
        take_lengths(r, row);
}

static int64_t recorded_end(const ka_rank_model *m, uint32_t row)
{
    return row == KA_NONE ? INT64_MIN : m->end_ns[row];
}

/* Sets all that a replay needs of a row: its lengths, the rows that it waits for, its transfer and its gap. */
static void take_row(ka_replay *r, uint32_t rank, uint32_t row)
{
    const ka_rank_model *m = r->m;
    const ka_comm *c = ka_model_row(m, row);
    ka_replay_row *x = &r->rows[row];
    *x = (ka_replay_row){.rank = rank,
                         .previous = global_row(m, rank, c->previous),
                         .after = global_row(m, rank, c->after),
                         .wait_row = c->flags & KA_COMM_WAITED ? global_row(m, rank, c->wait_row) : KA_NONE,
                         .sync_row = global_row(m, rank, c->sync_row),
                         .flags = (uint8_t)(row == m->base[rank] ? c->flags & ~KA_COMM_PART : c->flags),
                         .leaves_early = ka_leaves_early(m, row),
                         .has_parts = has_parts(m, rank, row)};
    take_lengths(r, row);
    x->host = ka_align_moment(m, row, c->host_at_ns);
    x->transfer_ns = m->end_ns[row] - kernel_arrival(m, row);
    x->gap_ns = m->start_ns[row] - earliest_begin(x, ka_align_moment(m, row, c->ready_ns),
                                                  ka_align_moment(m, row, c->host_at_ns) + m->facts[rank]->latency_ns,
                                                  recorded_end(m, x->after), recorded_end(m, x->previous));
}

static int compare_starts(const void *left, const void *right, void *context)
{
    const int64_t *start_ns = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (start_ns[a] != start_ns[b])
        return start_ns[a] < start_ns[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Rows of instances that are not whole. */
static bool list_alone(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    for (size_t i = 0; i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        for (uint32_t k = 0; !ka_is_replayed(x) && k < x->count; k++)
            if (!kb_vec_push(&r->alone, m->members[x->first + k]))
                return false;
    }
    if (r->alone.count)
        qsort_r(r->alone.data, r->alone.count, sizeof *r->alone.data, compare_starts, m->start_ns);
    return true;
}

/* Rows grow with the largest window; all else depends on the ranks of the run, which stay. */
static bool allocate_replay(ka_replay *r, const ka_rank_model *m)
{
    size_t rows = (size_t)m->row_count + 1, ranks = (size_t)m->rank_count + 1;
    r->m = m;
    r->shift = NULL;
    r->alone.count = 0;
    if (r->capacity < rows) {
        free(r->rows);
        r->rows = ka_allocate_large(rows * sizeof *r->rows);
        r->capacity = r->rows ? rows : 0;
    }
    r->next = r->next ? r->next : malloc(ranks * sizeof *r->next);
    r->last = r->last ? r->last : malloc(((size_t)m->domain_count + 1) * sizeof *r->last);
    r->latency_ns = r->latency_ns ? r->latency_ns : malloc(ranks * sizeof *r->latency_ns);
    return r->rows && r->next && r->last && r->latency_ns;
}

/* A ka_lane_work: rows of some ranks with their recorded lengths. */
static void take_ranks(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_replay *r = context;
    (void)lane;
    for (uint32_t rank = first; rank < end; rank++) {
        r->latency_ns[rank] = r->m->facts[rank]->latency_ns;
        for (uint32_t row = r->m->base[rank]; row < r->m->base[rank + 1]; row++)
            take_row(r, rank, row);
    }
}

/* What was waited for absent members is no transfer. */
static void shorten_transfers(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    for (uint32_t i = 0; r->absent.first && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        int64_t came = r->absent.arrival_ns[i];
        for (uint32_t k = 0; came != INT64_MIN && k < x->count; k++)
            if (r->rows[m->members[x->first + k]].has_parts || r->rows[m->members[x->first + k]].leaves_early)
                came = r->absent.arrival_ns[i] = INT64_MIN;
        for (uint32_t k = 0; came != INT64_MIN && k < x->count; k++) {
            uint32_t row = m->members[x->first + k];
            r->rows[row].transfer_ns -= came - kernel_arrival(m, row);
        }
    }
}

bool ka_replay_create(ka_replay *r, const ka_rank_model *m)
{
    if (!allocate_replay(r, m) || !list_alone(r))
        return false;
    ka_run_lanes(take_ranks, r, m->rank_count, m->row_count);
    ka_absences_free(&r->absent);
    if (!ka_find_absences(m, &r->absent))
        return false;
    shorten_transfers(r);
    return true;
}

void ka_replay_free(ka_replay *r)
{
    free(r->rows);
    free(r->next);
    free(r->last);
    free(r->latency_ns);
    kb_vec_free(&r->alone);
    ka_absences_free(&r->absent);
    *r = (ka_replay){0};
}

/* ---- one run --------------------------------------------------------------------------------- */

static int64_t recorded_host(const ka_replay *r, uint32_t row)
{
    return ka_align_moment(r->m, row, ka_model_row(r->m, row)->host_at_ns);
}

static int64_t recorded_ready(const ka_replay *r, uint32_t row)
{
    return ka_align_moment(r->m, row, ka_model_row(r->m, row)->ready_ns);
}

/* When the host has launched a row. A rank that begins late begins as much earlier as its collectives before end. */
static int64_t next_host(const ka_replay *r, uint32_t row, bool is_first)
{
    const ka_replay_row *x = &r->rows[row];
    if ((x->flags & KA_COMM_NO_LAUNCH) || (!is_first && (x[-1].flags & KA_COMM_NO_LAUNCH)))
        return x->host; /* as recorded */
    if (is_first) /* by how much it begins later than its like is its host's */
        return recorded_host(r, row) - ka_model_row(r->m, row)->host_ns + x->host_ns - ka_member_shift(&r->absent, x->rank);
    int64_t host = x[-1].host + x->host_ns;
    return x->sync_row == KA_NONE ? host : KB_MAX(host, r->rows[x->sync_row].end + x->sync_ns);
}

/* When the computation before a row is done: after the row before, what it waited for, and its launch
 * (rank_facts.h). */
static int64_t next_ready(const ka_replay *r, uint32_t row, bool is_first)
{
    const ka_replay_row *x = &r->rows[row];
    if (is_first && x->late_ns == KA_UNKNOWN_NUMBER)
        return recorded_ready(r, row) - ka_member_shift(&r->absent, x->rank);
    if (is_first)
        return x->host + x->late_ns + x->late_rest_ns;
    int64_t ready = KB_MAX(x[-1].ready + x->work_ns, x->waited);
    if (x->late_ns != KA_UNKNOWN_NUMBER)
        ready = KB_MAX(ready, x[x->flags & KA_COMM_LATE_OWN ? 0 : -1].host + x->late_ns + x->late_rest_ns);
    return ready;
}

static int64_t end_of(const ka_replay *r, uint32_t row) { return row == KA_NONE ? INT64_MIN : r->rows[row].end; }

static int64_t begin_of(const ka_replay *r, const ka_replay_row *x)
{
    return earliest_begin(x, x->ready, x->host + r->latency_ns[x->rank], end_of(r, x->after), end_of(r, x->previous)) + x->gap_ns;
}

/* Passes the end of a row to what waits for it. */
static void pass_end(ka_replay *r, const ka_replay_row *x)
{
    if (x->wait_row == KA_NONE)
        return;
    ka_replay_row *to = &r->rows[x->wait_row];
    to->waited = KB_MAX(to->waited, x->end + x->wait_ns);
}

static void note_last(ka_replay *r, uint32_t rank, int64_t ns)
{
    uint32_t domain = r->m->domain[rank];
    if (domain != KA_NONE)
        r->last[domain] = KB_MAX(r->last[domain], ns);
}

/* Ends a message or a collective; the kernel of several messages ends with the last of them. Passes the end on. */
static void end_row(ka_replay *r, uint32_t row, int64_t arrival)
{
    ka_replay_row *x = &r->rows[row];
    int64_t end = arrival + x->transfer_ns;
    if (x->flags & KA_COMM_PART)
        x->end = end;
    while (x->flags & KA_COMM_PART)
        x--;
    x->end = x->is_ended ? KB_MAX(x->end, end) : end;
    x->is_ended = true;
    note_last(r, x->rank, x->end);
    pass_end(r, x);
}

/* `host` and `ready` of all rows of its rank up to this one, and the ends of those before it that waited for no other
 * rank. */
static void advance_rank(ka_replay *r, uint32_t rank, uint32_t row)
{
    for (uint32_t *at = &r->next[rank]; *at <= row; ++*at) {
        bool is_first = *at == r->m->base[rank];
        r->rows[*at].host = next_host(r, *at, is_first);
        r->rows[*at].ready = next_ready(r, *at, is_first);
        if (r->rows[*at].leaves_early && !r->rows[*at].has_parts) {
            r->rows[*at].begin = begin_of(r, &r->rows[*at]);
            end_row(r, *at, r->rows[*at].begin);
        }
    }
}

/* The begin of a row, after `host` and `ready` of all rows of its rank up to it. */
static void begin_row(ka_replay *r, uint32_t row)
{
    ka_replay_row *x = &r->rows[row];
    advance_rank(r, x->rank, row);
    if (x->flags & KA_COMM_PART) {
        begin_row(r, row - 1); /* the same kernel, whose other message may come later */
        x->begin = x[-1].begin;
        return;
    }
    x->begin = begin_of(r, x);
}

/* By how much the rows of an instance end earlier. */
static void pass_shifts(ka_replay *r, const ka_instance *x)
{
    const uint32_t *members = &r->m->members[x->first];
    for (uint32_t i = 0; r->absent.first && i < x->count; i++)
        ka_shift_member(&r->absent, r->rows[members[i]].rank, r->m->end_ns[members[i]] - r->rows[members[i]].end);
    if (r->absent.first)
        ka_shift_absent(&r->absent, (uint32_t)(x - r->m->instances.data), r->m->end_ns[members[0]] - r->rows[members[0]].end);
}

static void run_instance(ka_replay *r, const ka_instance *x)
{
    int64_t arrival = ka_absent_arrival(&r->absent, (uint32_t)(x - r->m->instances.data));
    const uint32_t *members = &r->m->members[x->first];
    for (uint32_t i = 0; i < x->count; i++) {
        if (i + 64 < x->count)
            KB_PREFETCH(&r->rows[members[i + 64]]);
        begin_row(r, members[i]);
        arrival = KB_MAX(arrival, r->rows[members[i]].begin);
    }
    for (uint32_t i = 0; i < x->count; i++)
        if (!r->rows[members[i]].leaves_early) /* else it has ended already, or with other messages of its call */
            end_row(r, members[i], arrival);
    pass_shifts(r, x);
}

/* A row without the others of its instance. If these have no common clock, or it is of another collective, what it
 * waited for is not known: it ends when it did. */
static void run_alone(ka_replay *r, uint32_t row)
{
    const ka_instance *x = &r->m->instances.data[r->m->instance_of[row]];
    begin_row(r, row);
    bool is_fixed = x->flags & (KA_INSTANCE_APART | KA_INSTANCE_TORN);
    int64_t came = x->count == 1 ? ka_absent_arrival(&r->absent, r->m->instance_of[row]) : INT64_MIN;
    end_row(r, row, is_fixed ? r->m->end_ns[row] - r->rows[row].transfer_ns : KB_MAX(r->rows[row].begin, came));
    if (x->count == 1 && !is_fixed)
        pass_shifts(r, x);
}

/* Rows of an instance lie far apart in memory. */
#define AHEAD 6u
static void prefetch_instance(const ka_replay *r, size_t index)
{
    const ka_rank_model *m = r->m;
    if (index >= m->instances.count)
        return;
    const ka_instance *x = &m->instances.data[index];
    for (uint32_t i = 0; i < KB_MIN(x->count, 64u); i++) {
        const char *row = (const char *)&r->rows[m->members[x->first + i]];
        KB_PREFETCH(row);
        KB_PREFETCH(row + 64);
        KB_PREFETCH(row + 192); /* of the row after it, which most often waits for its end */
    }
}

/* Instances and single rows in the order of time. */
static void run_all(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    size_t alone = 0;
    for (size_t i = 0; i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        prefetch_instance(r, i + AHEAD);
        for (; alone < r->alone.count && m->start_ns[r->alone.data[alone]] <= x->arrival_ns; alone++)
            run_alone(r, r->alone.data[alone]);
        if (ka_is_replayed(x))
            run_instance(r, x);
    }
    for (; alone < r->alone.count; alone++)
        run_alone(r, r->alone.data[alone]);
}

/* The rows of the window before have the times that they had then. */
static void place_context(ka_replay *r, uint32_t rank)
{
    uint32_t context = r->m->window ? r->m->window[rank].context : 0, base = r->m->base[rank];
    for (uint32_t i = 0; i < context; i++) {
        ka_replay_row *x = &r->rows[base + i];
        ka_replay_shift by = r->shift ? r->shift[(size_t)rank * KA_CONTEXT_ROWS + i] : (ka_replay_shift){0};
        x->host = recorded_host(r, base + i) - by.host_ns;
        x->ready = recorded_ready(r, base + i) - by.ready_ns;
        x->end -= by.end_ns;
    }
    r->next[rank] = base + context;
}

void ka_replay_take_shifts(const ka_replay *r, ka_replay_shift *out)
{
    const ka_rank_model *m = r->m;
    for (uint32_t rank = 0; rank < m->rank_count; rank++) {
        uint32_t kept = KB_MIN(m->base[rank + 1] - m->base[rank], KA_CONTEXT_ROWS), first = m->base[rank + 1] - kept;
        for (uint32_t i = 0; i < kept; i++) {
            const ka_replay_row *x = &r->rows[first + i];
            out[(size_t)rank * KA_CONTEXT_ROWS + i] = (ka_replay_shift){.host_ns = recorded_host(r, first + i) - x->host,
                                                                        .ready_ns = recorded_ready(r, first + i) - x->ready,
                                                                        .end_ns = m->end_ns[first + i] - x->end};
        }
    }
}

/* Rows wait for others of their rank only. */
static void start_rank(ka_replay *r, uint32_t rank)
{
    const ka_rank_model *m = r->m;
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++) {
        r->rows[row].waited = INT64_MIN;
        r->rows[row].end = m->end_ns[row]; /* of rows that are of no instance */
        r->rows[row].is_ended = false;
    }
    place_context(r, rank);
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++)
        if (m->instance_of[row] == KA_NONE)
            pass_end(r, &r->rows[row]);
}

/* A ka_lane_work. */
static void start_ranks(void *replay, uint32_t lane, uint32_t first, uint32_t end)
{
    (void)lane;
    for (uint32_t rank = first; rank < end; rank++)
        start_rank(replay, rank);
}

static void start_again(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    for (uint32_t i = 0; i < m->domain_count; i++)
        r->last[i] = 0;
    ka_reset_absences(&r->absent);
    ka_run_lanes(start_ranks, r, m->rank_count, m->row_count);
}

int64_t ka_replay_run(ka_replay *r)
{
    const ka_rank_model *m = r->m;
    int64_t sum = 0;
    start_again(r);
    run_all(r);
    for (uint32_t i = 0; i < m->rank_count; i++)
        if (m->base[i + 1] > m->base[i]) {
            uint32_t end = m->base[i + 1] - 1;
            begin_row(r, end);
            if (!m->ends_early[i]) /* it may have waited for what its trace lacks */
                note_last(r, i, r->rows[end].begin);
        }
    for (uint32_t i = 0; i < m->domain_count; i++)
        sum += r->last[i];
    return sum;
}
