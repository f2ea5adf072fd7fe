/* Checks the clocks after the fit. No rank leaves a collective before the last one has entered it: this bounds
 * each clock from both sides, also by way of other clocks. Hosts that nothing connects with most others are left
 * out; what contradicts itself is refused. */
#include "analyze/ranks/clock_checks.h"
#include "analyze/ranks/rank_names.h"

#include <math.h>

/* Limits of "One clock" in ranks.md: σ of the ends of collectives, ns; what a clock gains in a second, s. Clocks of
 * hosts gain some 50 us a second (USUAL_DRIFT); what needs four times as much to fit is no steady clock. */
#define MAX_DEVIATION  20000.0
#define MAX_DRIFT      200e-6
#define SLACK_NS       2000.0 /* ends of one collective differ by themselves */

typedef struct checking {
    ka_rank_model *m;
    const ka_far_ends *far;
    double *good_share;  /* by clock: the least share of far ends of its ranks */
    bool *is_at_fault;   /* by rank */
    double *later, *earlier; /* by clock: by how much it may be moved, at most, against the first one */
    uint32_t *root;      /* by clock: one of those that it is connected with */
    uint32_t bad_clock;  /* whose bounds never settle; KA_NONE */
} checking;

/* Keeps the first reason only, which headlines and the notes of tables show. */
static void refuse_clocks(ka_rank_model *m, const char *fmt, ...) KINETO_PRINTF(2, 3);
static void refuse_clocks(ka_rank_model *m, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    if (!m->refused[0])
        (void)vsnprintf(m->refused, sizeof m->refused, fmt, args);
    va_end(args);
}

uint32_t ka_first_clock(const ka_rank_model *m)
{
    for (uint32_t i = 0; i < m->clocks.count; i++)
        if (m->clocks.data[i].row_count)
            return i;
    return 0;
}

static uint32_t clock_of_row(const ka_rank_model *m, uint32_t row) { return m->clock_of[m->rank_of[row]]; }

/* ---- which ranks are at fault ---------------------------------------------------------------- */

/* The share of a rank's ends that are far from those of the other ranks; 0 for a rank without ends. */
static double far_share(const ka_far_ends *f, uint32_t rank) { return (double)f->far[rank] / fmax(f->count[rank], 1); }

/* By clock: the smallest share of its ranks. If one rank of a host agrees with the others, the host's clock is
 * right. */
static void find_good_shares(checking *k)
{
    for (size_t i = 0; i < k->m->clocks.count; i++)
        k->good_share[i] = INFINITY;
    for (uint32_t r = 0; r < k->m->rank_count; r++)
        if (k->far->count[r])
            k->good_share[k->m->clock_of[r]] = fmin(k->good_share[k->m->clock_of[r]], far_share(k->far, r));
}

/* A rank that differs while another one with the same clock does not has something else than its clock wrong. */
static void find_faults(checking *k)
{
    find_good_shares(k);
    for (uint32_t r = 0; r < k->m->rank_count; r++)
        k->is_at_fault[r] = k->far->far[r] > 2 && k->good_share[k->m->clock_of[r]] < far_share(k->far, r) / 2;
}

/* ---- what is connected ----------------------------------------------------------------------- */

/* The representative of the set of connected clocks that a clock is in (union-find, with path halving). */
static uint32_t find_root(uint32_t *root, uint32_t clock)
{
    while (root[clock] != clock)
        clock = root[clock] = root[root[clock]];
    return clock;
}

/* Joins the sets of all clocks that share an instance, directly or by way of other clocks. */
static void connect_clocks(checking *k)
{
    const ka_rank_model *m = k->m;
    for (uint32_t i = 0; i < m->clocks.count; i++)
        k->root[i] = i;
    for (size_t n = 0; n < m->instances.count; n++) {
        const ka_instance *x = &m->instances.data[n];
        if (!ka_is_shared(m, x))
            continue;
        uint32_t to = find_root(k->root, clock_of_row(m, m->members[x->first]));
        for (uint32_t i = 1; i < x->count; i++)
            k->root[find_root(k->root, clock_of_row(m, m->members[x->first + i]))] = to;
    }
}

/* Hosts that are not connected with most ranks are left out, if most ranks are connected at all. */
static bool leave_out_clocks(checking *k)
{
    ka_rank_model *m = k->m;
    uint32_t *ranks = calloc(m->clocks.count + 1, sizeof *ranks), best = 0, all = 0;
    for (uint32_t i = 0; ranks && i < m->clocks.count; i++) {
        uint32_t root = find_root(k->root, i);
        ranks[root] += m->clocks.data[i].rank_count;
        all += m->clocks.data[i].rank_count;
        best = ranks[root] > ranks[best] ? root : best;
    }
    for (uint32_t i = 0; ranks && 2 * ranks[best] > all && i < m->clocks.count; i++)
        m->clocks.data[i].is_left_out = find_root(k->root, i) != best;
    free(ranks);
    return ranks != NULL;
}

/* ---- bounds by causality --------------------------------------------------------------------- */

/* Relaxes `to` by an instance. No row ends before another one begins: end_a + shift_a >= start_b + shift_b for all rows
 * a, b, so that shift_b may be at most shift_a + end_a - start_b, and SLACK_NS. `sign` -1 turns time round, which gives
 * how much earlier a clock may be. Ranks at fault neither bound others nor are bounded. */
static bool relax_bounds(const checking *k, const ka_instance *x, double *to, int sign, uint32_t *moved)
{
    const ka_rank_model *m = k->m;
    const int64_t *end = sign > 0 ? m->end_ns : m->start_ns, *start = sign > 0 ? m->start_ns : m->end_ns;
    double least = INFINITY;
    bool changed = false;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i];
        if (!k->is_at_fault[m->rank_of[row]])
            least = fmin(least, to[clock_of_row(m, row)] + sign * (double)end[row]);
    }
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i], clock = clock_of_row(m, row);
        double by = least - sign * (double)start[row] + SLACK_NS;
        if (by < to[clock] && !k->is_at_fault[m->rank_of[row]]) {
            to[clock] = by;
            *moved = clock;
            changed = true;
        }
    }
    return changed;
}

/* Shortest ways from the first clock (Bellman-Ford), by relaxing all instances forth and back until nothing
 * changes. Bounds without a contradiction settle within as many rounds as there are clocks; a cycle of
 * negative length, as if the first clock were before itself, means that no shifts satisfy all instances. The
 * clock that moved last is named. */
static void bound_clocks(checking *k, double *to, int sign)
{
    const ka_rank_model *m = k->m;
    size_t count = m->instances.count, rounds = m->clocks.count + 1;
    uint32_t moved = KA_NONE, first = ka_first_clock(m);
    bool changed = true;
    for (size_t i = 0; i < m->clocks.count; i++)
        to[i] = INFINITY;
    to[first] = 0;
    for (size_t round = 0; changed && round <= rounds && to[first] == 0; round++) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            const ka_instance *x = &m->instances.data[round % 2 ? count - 1 - i : i];
            if (ka_is_shared(m, x) && relax_bounds(k, x, to, sign, &moved))
                changed = true;
        }
    }
    if (changed && k->bad_clock == KA_NONE)
        k->bad_clock = moved;
}

/* What is left to correct after the fit, ns: 0 must lie between least_ns and most_ns, up to the error of the clock. */
static void set_bounds(checking *k)
{
    bound_clocks(k, k->later, 1);
    bound_clocks(k, k->earlier, -1);
    for (uint32_t i = 0; i < k->m->clocks.count; i++) {
        k->m->clocks.data[i].most_ns = k->later[i];
        k->m->clocks.data[i].least_ns = -k->earlier[i];
    }
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* The checks of one host that is not left out. is_no_defect is set only where hosts have too little in common: then no
 * trace is at fault, and `verify` does not warn. */
static void refuse_host(ka_rank_model *m, const ka_rank_clock *c, uint32_t index, uint32_t bad_clock)
{
    if (c->is_left_out)
        return;
    ka_link_text host = ka_name_clock(m, index);
    m->is_no_defect |= !m->refused[0] && !c->row_count;
    if (!c->row_count)
        refuse_clocks(m, "%s has no collective in common with other hosts", host.s);
    else if (fabs(c->drift) > MAX_DRIFT)
        refuse_clocks(m, "the clock of %s gains %.0f us a second", host.s, c->drift * 1e6);
    else if (c->most_ns == INFINITY || c->least_ns == -INFINITY)
        refuse_clocks(m, "no collectives connect %s with the first host", host.s);
    else if (index == bad_clock || c->least_ns > c->bar_ns || c->most_ns < -c->bar_ns || c->least_ns > c->most_ns)
        refuse_clocks(m, "collectives of %s contradict each other: on no clock does each end after its begin on all ranks",
                      host.s);
}

/* Checks of all hosts together first, then of each host; after the first refusal the others change nothing. */
static void refuse_fit(checking *k)
{
    ka_rank_model *m = k->m;
    m->is_no_defect = !m->refused[0] && m->shared_count < KA_MIN_SHARED;
    if (m->shared_count < KA_MIN_SHARED)
        refuse_clocks(m, "hosts have %u collectives in common, of which at least %u are needed", m->shared_count,
                      KA_MIN_SHARED);
    if (m->residual_ns > MAX_DEVIATION && m->odd_clock != KA_NONE)
        refuse_clocks(m, "the clock of %s was set during the run, or is uneven: ends of collectives differ by %s",
                      ka_name_clock(m, m->odd_clock).s, kb_duration((int64_t)m->residual_ns).s);
    m->is_no_defect |= !m->refused[0] && m->residual_ns > MAX_DEVIATION;
    if (m->residual_ns > MAX_DEVIATION)
        refuse_clocks(m, "ends of collectives differ by %s on different ranks", kb_duration((int64_t)m->residual_ns).s);
    for (uint32_t i = 0; i < m->clocks.count; i++)
        refuse_host(m, &m->clocks.data[i], i, k->bad_clock);
}

/* Ranks with a common clock: all that are not left out, or, if the fit is refused, those of each host. */
static void set_domains(ka_rank_model *m)
{
    m->domain_count = m->refused[0] ? (uint32_t)m->clocks.count : 1;
    for (uint32_t r = 0; r < m->rank_count; r++) {
        if (m->domain[r] == KA_NONE)
            continue;
        if (m->refused[0])
            m->domain[r] = m->clock_of[r];
        else if (m->clocks.data[m->clock_of[r]].is_left_out)
            m->domain[r] = KA_NONE;
    }
}

bool ka_judge_clocks(ka_rank_model *m, const ka_far_ends *far)
{
    size_t n = m->clocks.count + 1;
    checking k = {.m = m, .far = far, .bad_clock = KA_NONE};
    k.good_share = malloc(3 * n * sizeof *k.good_share);
    k.root = malloc(n * sizeof *k.root);
    k.is_at_fault = malloc(((size_t)m->rank_count + 1) * sizeof *k.is_at_fault);
    bool ok = k.good_share && k.root && k.is_at_fault;
    if (ok) {
        k.later = k.good_share + n;
        k.earlier = k.later + n;
        find_faults(&k);
        connect_clocks(&k);
        ok = leave_out_clocks(&k);
    }
    if (ok) {
        set_bounds(&k);
        refuse_fit(&k);
        set_domains(m);
    }
    free(k.good_share);
    free(k.root);
    free(k.is_at_fault);
    return ok;
}

/* ---- numbers out of order -------------------------------------------------------------------- */

/* From here on numbers say nothing about which calls belong together, so that clocks cannot be fitted to them. The same
 * limits make it `seq_shuffle` in rank_damage.c. */
#define MIN_DESCENTS  2u
#define DESCENT_SHARE 0.25

/* Of a group, while the rows of one rank are read. */
typedef struct number_order {
    uint32_t rank, last, count, descents; /* descents: how often a number was below the one before */
} number_order;

static void add_number(number_order *o, uint32_t rank, uint32_t sequence)
{
    if (o->rank != rank + 1)
        *o = (number_order){.rank = rank + 1, .last = sequence};
    o->descents += sequence < o->last;
    o->last = sequence;
    o->count++;
}

/* Leaves a rank out of comparisons, and refuses the fit, if more than a fourth of its numbers in a
 * group are below the one before. */
static void check_rank_numbers(ka_rank_model *m, uint32_t rank, const number_order *of)
{
    for (uint32_t i = m->global_base[rank]; i < m->global_base[rank + 1]; i++) {
        const number_order *o = &of[m->global[i]];
        kineto_string name = m->groups.data[m->global[i]].name;
        if (o->rank != rank + 1 || o->descents < MIN_DESCENTS || o->descents <= DESCENT_SHARE * o->count)
            continue;
        refuse_clocks(m, "on rank %d, numbers of %s%.*s are out of order", m->facts[rank]->rank,
                      name.size ? "group " : "a group without a name", (int)KB_MIN(name.size, (size_t)60), name.data);
        m->domain[rank] = KA_NONE;
    }
}

bool ka_check_numbers(ka_rank_model *m)
{
    number_order *of = calloc(m->groups.count + 1, sizeof *of);
    for (uint32_t rank = 0; of && rank < m->rank_count; rank++) {
        for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++)
            if (m->group_of[row] != KA_NONE && ka_is_numbered(ka_model_row(m, row)) && m->domain[rank] != KA_NONE)
                add_number(&of[m->group_of[row]], rank, ka_number_of(m, row));
        check_rank_numbers(m, rank, of);
    }
    free(of);
    return of != NULL;
}
