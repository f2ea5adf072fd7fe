/* Splits the time of each collective on each rank into waiting and transfer, and finds what made it begin late.
 *
 * "Waiting and transfer" in ranks.md has the definitions. All times are in ns; if clocks are refused, those of each
 * host. */
#include "analyze/ranks/rank_skew.h"
#include "analyze/ranks/rank_waits.h"

/* ---- one instance ---------------------------------------------------------------------------- */

/* Without one clock for all hosts only durations within a host are valid. */
static bool is_comparable(const ka_rank_model *m, const ka_instance *x)
{
    uint32_t first = m->clock_of[m->rank_of[m->members[x->first]]];
    if (!ka_is_joined(x))
        return false;
    for (uint32_t i = 1; m->refused[0] && i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != first)
            return false;
    return true;
}

/* What was fitted to no avail is not applied. */
static int64_t start_of(const ka_rank_model *m, uint32_t row)
{
    return m->refused[0] ? ka_add_ns(ka_model_row(m, row)->start_ns, -m->origin_ns) : m->start_ns[row];
}

static int64_t end_of(const ka_rank_model *m, uint32_t row)
{
    return m->refused[0] ? ka_add_ns(ka_model_row(m, row)->end_ns, -m->origin_ns) : m->end_ns[row];
}

/* The last two to arrive. */
typedef struct arrivals {
    uint32_t last, second;
} arrivals;

static arrivals find_arrivals(const ka_rank_model *m, const ka_instance *x)
{
    arrivals a = {m->members[x->first], KA_NONE};
    for (uint32_t i = 1; i < x->count; i++) {
        uint32_t row = m->members[x->first + i];
        if (start_of(m, row) > start_of(m, a.last)) {
            a.second = a.last;
            a.last = row;
        } else if (a.second == KA_NONE || start_of(m, row) > start_of(m, a.second)) {
            a.second = row;
        }
    }
    return a;
}

/* Of the three that a row waits for (computation, launch, stream) the last one, and by how much it is later than
 * both others. A kernel with several messages begins once. */
static void find_lateness(const ka_rank_model *m, const ka_waited_rows *w, uint32_t row, ka_skew *s)
{
    uint32_t kernel = ka_main_row(m, row);
    ka_begin_parts b = ka_find_begin_parts(m, kernel);
    ka_ready_parts r = ka_find_ready_parts(m, w, kernel);
    int64_t device = KB_MAX(r.chain_ns, r.waited_ns), host = KB_MAX(b.launch_ns, r.held_ns);
    if (b.ready_ns == KA_NO_MOMENT) { /* it did not wait for the computation */
        device = KA_NO_MOMENT;
        host = b.launch_ns;
    } else if (device == KA_NO_MOMENT || b.ready_ns > KB_MAX(device, r.held_ns)) {
        device = b.ready_ns;
    }
    int64_t before_host = KB_MAX(device, b.stream_ns), before_stream = KB_MAX(device, host);
    if (before_host != KA_NO_MOMENT && host > before_host)
        s->late_ns = ka_add_ns(host, -before_host);
    if (before_stream != KA_NO_MOMENT && b.stream_ns > before_stream)
        s->queued_ns = ka_add_ns(b.stream_ns, -before_stream);
}

/* wait_ns and transfer_ns add up to the time of the row exactly: an arrival outside of it, by errors of the clocks, is
 * moved to its begin or its end. */
static ka_row_skew measure_row(const ka_rank_model *m, const ka_waited_rows *w, arrivals a, uint32_t row)
{
    ka_row_skew s = {.row = row, .instance = m->instance_of[row], .start_ns = start_of(m, row), .end_ns = end_of(m, row)};
    s.arrival_ns = KB_MAX(KB_MIN(start_of(m, a.last), s.end_ns), s.start_ns);
    if (ka_leaves_early(m, row))
        s.arrival_ns = s.start_ns;
    s.times.wait_ns = s.arrival_ns - s.start_ns;
    s.times.transfer_ns = s.end_ns - s.arrival_ns;
    s.is_last = row == a.last;
    s.error_ns = m->refused[0] ? 0 : ka_order_error(m, row, a.last);
    int64_t apart = a.second == KA_NONE ? INT64_MAX : start_of(m, a.last) - start_of(m, a.second);
    s.is_ambiguous = a.second != KA_NONE && !m->refused[0] && apart < ka_order_error(m, a.last, a.second);
    find_lateness(m, w, row, &s.times);
    return s;
}

bool ka_visit_row_skews(const ka_rank_model *m, bool (*visit)(void *context, const ka_row_skew *s), void *context)
{
    ka_waited_rows w;
    bool ok = ka_waited_rows_create(m, &w);
    for (size_t i = 0; ok && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (!is_comparable(m, x))
            continue;
        arrivals a = find_arrivals(m, x);
        for (uint32_t k = 0; ok && k < x->count; k++) {
            ka_row_skew s = measure_row(m, &w, a, m->members[x->first + k]);
            ok = visit(context, &s);
        }
    }
    ka_waited_rows_free(&w);
    return ok;
}

/* ---- sums ------------------------------------------------------------------------------------ */

typedef struct summing {
    const ka_rank_model *m;
    ka_rank_skews *out;
    uint32_t *group_at;  /* by group: index of out->groups, or KA_NONE */
    uint32_t *last_step; /* by group, plus one */
    kb_map ranks;        /* group and rank → index of out->ranks */
} summing;

static void add_times(ka_skew_sum *sum, const ka_row_skew *s)
{
    sum->rows++;
    sum->last += s->is_last;
    sum->error_ns = ka_add_ns(sum->error_ns, s->error_ns);
    sum->times.wait_ns = ka_add_ns(sum->times.wait_ns, s->times.wait_ns);
    sum->times.transfer_ns = ka_add_ns(sum->times.transfer_ns, s->times.transfer_ns);
    sum->times.late_ns = ka_add_ns(sum->times.late_ns, s->times.late_ns);
    sum->times.queued_ns = ka_add_ns(sum->times.queued_ns, s->times.queued_ns);
}

static ka_skew_sum *sum_of_rank(summing *u, uint32_t group, uint32_t rank)
{
    uint64_t key[] = {group, rank};
    bool created;
    uint64_t *at = kb_map_insert(&u->ranks, kb_hash(key, sizeof key), u->out->ranks.count, &created);
    if (!at || (created && !kb_vec_push(&u->out->ranks, (ka_skew_sum){.group = group, .rank = rank})))
        return NULL;
    return &u->out->ranks.data[*at];
}

static ka_skew_sum *sum_of_group(summing *u, uint32_t group)
{
    uint32_t *at = &u->group_at[group];
    if (*at == KA_NONE) {
        *at = (uint32_t)u->out->groups.count;
        if (!kb_vec_push(&u->out->groups, (ka_skew_sum){.group = group, .rank = KA_NONE, .last_rank = KA_NONE}))
            return NULL;
    }
    return &u->out->groups.data[*at];
}

/* A visitor of rows: adds to the sums of the rank and of the group. An instance counts with the row that came last. */
static bool add_row(void *context, const ka_row_skew *s)
{
    summing *u = context;
    const ka_instance *x = &u->m->instances.data[s->instance];
    ka_skew_sum *group = sum_of_group(u, x->group), *rank = sum_of_rank(u, x->group, u->m->rank_of[s->row]);
    if (!group || !rank)
        return false;
    add_times(group, s);
    add_times(rank, s);
    rank->instances++;
    rank->ambiguous += s->is_ambiguous;
    if (!s->is_last)
        return true;
    group->instances++;
    group->ambiguous += s->is_ambiguous;
    if (u->last_step[x->group] != x->step + 1) { /* steps of a group follow one another */
        u->last_step[x->group] = x->step + 1;
        group->steps++;
    }
    return true;
}

static int compare_sums(const void *left, const void *right)
{
    const ka_skew_sum *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

/* Sums over ranks become their means. */
static void average_times(ka_skew_sum *g)
{
    int64_t ranks = KB_MAX(g->ranks, 1u);
    int64_t *all[] = {&g->times.wait_ns, &g->times.transfer_ns, &g->times.late_ns, &g->times.queued_ns, &g->error_ns};
    for (size_t i = 0; i < KB_COUNT(all); i++)
        *all[i] /= ranks;
}

static void add_group(ka_skew_sum *kind, const ka_skew_sum *g)
{
    kind->groups++;
    kind->ranks += g->ranks;
    kind->instances += g->instances;
    kind->ambiguous += g->ambiguous;
    kind->rows += g->rows;
    kind->steps = KB_MAX(kind->steps, g->steps);
    kind->error_ns = ka_add_ns(kind->error_ns, g->error_ns);
    kind->times.wait_ns = ka_add_ns(kind->times.wait_ns, g->times.wait_ns);
    kind->times.transfer_ns = ka_add_ns(kind->times.transfer_ns, g->times.transfer_ns);
    kind->times.late_ns = ka_add_ns(kind->times.late_ns, g->times.late_ns);
    kind->times.queued_ns = ka_add_ns(kind->times.queued_ns, g->times.queued_ns);
    if (g->last_count > kind->last_count) {
        kind->last_rank = g->last_rank;
        kind->last_count = g->last_count;
    }
}

/* The groups of each kind together, before their times become means. */
static bool add_up_kinds(const ka_rank_model *m, ka_rank_skews *s)
{
    kb_map kinds = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < s->groups.count; i++) {
        const ka_skew_sum *g = &s->groups.data[i];
        bool created;
        uint64_t *at = kb_map_insert(&kinds, m->groups.data[g->group].kind, s->kinds.count, &created);
        ka_skew_sum fresh = {.group = g->group, .rank = KA_NONE, .last_rank = KA_NONE};
        ok = at && (!created || kb_vec_push(&s->kinds, fresh));
        if (ok)
            add_group(&s->kinds.data[*at], g);
    }
    for (size_t i = 0; ok && i < s->kinds.count; i++)
        average_times(&s->kinds.data[i]);
    kb_map_free(&kinds);
    return ok;
}

/* How many ranks each group has, and which came last most often. Both lists are sorted by group. */
static void count_ranks(ka_rank_skews *s)
{
    for (size_t i = 0, k = 0; i < s->groups.count; i++) {
        ka_skew_sum *g = &s->groups.data[i];
        for (; k < s->ranks.count && s->ranks.data[k].group == g->group; k++, g->ranks++)
            if (s->ranks.data[k].last > g->last_count) {
                g->last_rank = s->ranks.data[k].rank;
                g->last_count = s->ranks.data[k].last;
            }
    }
}

static bool finish_sums(summing *u)
{
    ka_rank_skews *s = u->out;
    if (s->groups.count)
        qsort(s->groups.data, s->groups.count, sizeof *s->groups.data, compare_sums);
    if (s->ranks.count)
        qsort(s->ranks.data, s->ranks.count, sizeof *s->ranks.data, compare_sums);
    count_ranks(s);
    if (!add_up_kinds(u->m, s))
        return false;
    for (size_t i = 0; i < s->groups.count; i++)
        average_times(&s->groups.data[i]);
    return true;
}

bool ka_find_rank_skews(const ka_rank_model *m, ka_rank_skews *s)
{
    *s = (ka_rank_skews){0};
    size_t groups = m->groups.count + 1;
    summing u = {.m = m, .out = s, .group_at = malloc(groups * sizeof *u.group_at),
                 .last_step = calloc(groups, sizeof *u.last_step)};
    bool ok = u.group_at && u.last_step;
    for (size_t i = 0; ok && i < groups; i++)
        u.group_at[i] = KA_NONE;
    ok = ok && ka_visit_row_skews(m, add_row, &u) && finish_sums(&u);
    kb_map_free(&u.ranks);
    free(u.group_at);
    free(u.last_step);
    return ok;
}

void ka_rank_skews_free(ka_rank_skews *s)
{
    kb_vec_free(&s->kinds);
    kb_vec_free(&s->groups);
    kb_vec_free(&s->ranks);
}

/* ---- in words -------------------------------------------------------------------------------- */

#define DOMINANT_SHARE (2.0 / 3) /* of the time of collectives; as ranks.md defines it */

/* 1: arrival skew, -1: transfer, 0: both. */
static int classify_wait(double wait_ns, double transfer_ns)
{
    double all = wait_ns + transfer_ns;
    return wait_ns >= DOMINANT_SHARE * all ? 1 : transfer_ns >= DOMINANT_SHARE * all ? -1 : 0;
}

/* Inconclusive if the errors of the clocks, moved from one part to the other, change the answer. */
const char *ka_name_skew(const ka_skew_sum *group)
{
    double wait = (double)group->times.wait_ns, transfer = (double)group->times.transfer_ns;
    double less = KB_MIN((double)group->error_ns, wait), more = KB_MIN((double)group->error_ns, transfer);
    int most = classify_wait(wait + more, transfer - more);
    if (!(wait + transfer > 0) || most != classify_wait(wait - less, transfer + less))
        return "inconclusive";
    return most > 0 ? "arrival skew" : most < 0 ? "transfer" : "mixed";
}
