/* One clock for all hosts. A synchronising collective ends on all its ranks at about the same time, so
 * offset and drift of each host are those that bring these ends together (least squares, outliers
 * weigh less); and no rank can leave a collective before the last one has entered it, which bounds them.
 *
 * Unknown are the offset and the drift of each clock. An instance with ends e_i on clocks c_i adds the squares of e_i +
 * offset(c_i) + drift(c_i) * t_i minus their mean. "One clock" in ranks.md has the limits, and the definition of the
 * error (bar_ns). Times are in ns from the origin of the model; drift is a ratio. */
#include "analyze/ranks/clock_checks.h"
#include "analyze/ranks/rank_usual.h"

#include <math.h>

#define MAX_SHARED   200000u /* instances for the fit: enough for any precision */
#define FIT_ROUNDS   4
#define SOLVE_ROUNDS 400
#define USUAL_DRIFT  50e-6 /* of clocks of hosts; a short run cannot show it otherwise */
#define OUTLIER      4.0 /* deviations from which on an end weighs less */

/* An end of an instance that several clocks share. */
typedef struct shared_end {
    uint32_t rank, clock;
    uint32_t instance;        /* index of the instances of the fit */
    double end_ns, at;        /* at: from -1 to 1 over the window */
    double weight, residual;
} shared_end;

typedef struct fitting {
    ka_rank_model *m;
    KB_VEC(shared_end) ends;
    uint32_t instance_count;
    double *sums, *weights;   /* by instance */
    double *x, *r, *p, *q;    /* by clock: offset, and drift times half the window */
    double half_ns;
    double drift_weight; /* by which drifts are drawn to 0 */
} fitting;

/* ---- which clocks there are ------------------------------------------------------------------ */

/* Ranks of one host have one clock; a rank whose trace does not name its host has one of its own. False: out of
 * memory. */
static bool add_clock(ka_rank_model *m, uint32_t rank, kb_map *hosts)
{
    const ka_rank_facts *f = m->facts[rank];
    kineto_string host = kb_intern_get(&f->texts, f->host);
    uint64_t key = host.size ? kb_hash(host.data, host.size) : kb_hash(&rank, sizeof rank);
    bool created;
    uint64_t *at = kb_map_insert(hosts, key, m->clocks.count, &created);
    if (!at || (created && !kb_vec_push(&m->clocks, (ka_rank_clock){.host = host})))
        return false;
    m->clock_of[rank] = (uint32_t)*at;
    m->clocks.data[*at].rank_count++;
    return true;
}

static bool list_clocks(ka_rank_model *m)
{
    kb_map hosts = {0};
    bool ok = true;
    for (uint32_t r = 0; r < m->rank_count && ok; r++)
        ok = add_clock(m, r, &hosts);
    kb_map_free(&hosts);
    return ok;
}

/* ---- the ends that they share ---------------------------------------------------------------- */

bool ka_is_shared(const ka_rank_model *m, const ka_instance *x)
{
    if (!(x->flags & (KA_INSTANCE_WHOLE | KA_INSTANCE_PART)) || !(ka_is_synchronizing(x->op) || (m->by_messages && ka_is_message(x->op))))
        return false;
    uint32_t first = m->clock_of[m->rank_of[m->members[x->first]]];
    for (uint32_t i = 1; i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != first)
            return true;
    return false;
}

static bool take_ends(fitting *f, const ka_instance *x)
{
    ka_rank_model *m = f->m;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i], clock = m->clock_of[m->rank_of[row]];
        shared_end e = {.rank = m->rank_of[row],
                        .clock = clock,
                        .instance = f->instance_count,
                        .end_ns = (double)m->end_ns[row],
                        .at = (double)(m->end_ns[row] - m->middle_ns) / f->half_ns,
                        .weight = 1};
        m->clocks.data[clock].row_count++;
        if (!kb_vec_push(&f->ends, e))
            return false;
    }
    f->instance_count++;
    return true;
}

/* Both sides of a message end at about the same time, too, but that is less certain: messages only count where there
 * are too few collectives. Sets shared_count, and by_messages if they count. */
static void count_shared(ka_rank_model *m)
{
    for (int round = 0; round < 2 && m->shared_count < KA_MIN_SHARED; round++) {
        m->by_messages = round > 0;
        m->shared_count = 0;
        for (size_t i = 0; i < m->instances.count; i++)
            m->shared_count += ka_is_shared(m, &m->instances.data[i]);
    }
}

/* Of more instances than MAX_SHARED, each n-th in the order of the list. False: out of memory. */
static bool list_ends(fitting *f)
{
    ka_rank_model *m = f->m;
    count_shared(m);
    uint32_t every = m->shared_count / MAX_SHARED + 1, nth = 0;
    for (size_t i = 0; i < m->instances.count; i++)
        if (ka_is_shared(m, &m->instances.data[i]) && nth++ % every == 0 && !take_ends(f, &m->instances.data[i]))
            return false;
    return true;
}

/* ---- least squares --------------------------------------------------------------------------- */

static double multiply_vectors(const double *a, const double *b, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* Residuals of all ends from the weighted mean of their instance, with clocks moved by `x` (NULL: not moved). Without
 * `with_ends` the ends are 0, which makes it the linear part: what the method needs for its directions. */
static void average_instances(fitting *f, const double *x, bool with_ends)
{
    uint32_t clocks = (uint32_t)f->m->clocks.count;
    memset(f->sums, 0, f->instance_count * sizeof *f->sums);
    memset(f->weights, 0, f->instance_count * sizeof *f->weights);
    for (size_t i = 0; i < f->ends.count; i++) {
        shared_end *e = &f->ends.data[i];
        double shift = x ? x[e->clock] + x[clocks + e->clock] * e->at : 0;
        e->residual = (with_ends ? e->end_ns : 0) + shift;
        f->sums[e->instance] += e->weight * e->residual;
        f->weights[e->instance] += e->weight;
    }
    for (size_t i = 0; i < f->ends.count; i++) {
        shared_end *e = &f->ends.data[i];
        e->residual -= f->sums[e->instance] / f->weights[e->instance];
    }
}

/* All clocks moved alike are no movement: rounding must not add up to one. */
static void remove_common(double *v, uint32_t n)
{
    double mean = 0;
    for (uint32_t i = 0; i < n; i++)
        mean += v[i] / n;
    for (uint32_t i = 0; i < n; i++)
        v[i] -= mean;
}

/* Gradient of half the squares by the clocks, from the residuals at `x`. Weighting drifts as if a drift of 0 had been
 * measured, too, keeps those of short runs from becoming arbitrary. */
static void add_up_clocks(const fitting *f, const double *x, double *out)
{
    uint32_t clocks = (uint32_t)f->m->clocks.count;
    memset(out, 0, 2 * (size_t)clocks * sizeof *out);
    for (size_t i = 0; i < f->ends.count; i++) {
        const shared_end *e = &f->ends.data[i];
        out[e->clock] += e->weight * e->residual;
        out[clocks + e->clock] += e->weight * e->residual * e->at;
    }
    for (uint32_t i = clocks; i < 2 * clocks; i++)
        out[i] += f->drift_weight * x[i];
    remove_common(out, clocks);
    remove_common(out + clocks, clocks);
}

/* Conjugate gradients: the matrix is the sum over instances, never stored. */
static void solve_squares(fitting *f)
{
    uint32_t n = 2 * (uint32_t)f->m->clocks.count;
    average_instances(f, f->x, true);
    add_up_clocks(f, f->x, f->r);
    for (uint32_t i = 0; i < n; i++)
        f->p[i] = f->r[i] = -f->r[i];
    double now = multiply_vectors(f->r, f->r, n), enough = now * 1e-20; /* rounding of doubles, squared, is 1e-32 */
    for (uint32_t round = 0; round < SOLVE_ROUNDS && now > enough && now > 1e-9; round++) {
        average_instances(f, f->p, false);
        add_up_clocks(f, f->p, f->q);
        double curve = multiply_vectors(f->p, f->q, n);
        if (!(curve > 0))
            break;
        for (uint32_t i = 0; i < n; i++) {
            f->x[i] += now / curve * f->p[i];
            f->r[i] -= now / curve * f->q[i];
        }
        double next = multiply_vectors(f->r, f->r, n);
        for (uint32_t i = 0; i < n; i++)
            f->p[i] = f->r[i] + next / now * f->p[i];
        now = next;
    }
}

/* σ of the residuals, ns: 1.4826 * the median of their sizes is σ of a normal distribution. 1 ns more keeps it from
 * 0. */
static double measure_deviation(fitting *f)
{
    double *all = malloc((f->ends.count + 1) * sizeof *all);
    average_instances(f, f->x, true);
    for (size_t i = 0; all && i < f->ends.count; i++)
        all[i] = fabs(f->ends.data[i].residual);
    double found = all && f->ends.count ? 1.4826 * ka_median(all, f->ends.count) + 1 : 1;
    free(all);
    return found;
}

/* Least squares, and again with less weight for ends that are far from the others. The deviation of the round before
 * scales the pull of drifts to 0: 1 us in the first one. */
static void fit_clocks(fitting *f)
{
    double deviation_ns = 1000;
    for (uint32_t round = 0; round < FIT_ROUNDS; round++) {
        double usual = USUAL_DRIFT * f->half_ns / deviation_ns;
        f->drift_weight = usual > 0 ? 1 / (usual * usual) : 0;
        solve_squares(f);
        deviation_ns = f->m->residual_ns = measure_deviation(f);
        for (size_t i = 0; i < f->ends.count; i++) {
            double far = fabs(f->ends.data[i].residual) / (OUTLIER * f->m->residual_ns);
            f->ends.data[i].weight = far > 1 ? 1 / far : 1;
        }
    }
}

/* ---- how sure it is -------------------------------------------------------------------------- */

typedef struct rank_bias {
    double *of_rank;   /* median of the residuals of each rank's ends; NaN: none */
    double middle, most;
} rank_bias;

/* Residuals of ends in the order of ranks: what a rank's own clock differs from its host's. `middle` and `most`: the
 * median and the largest of their sizes. False: out of memory. */
static bool find_biases(fitting *f, rank_bias *b)
{
    const ka_rank_model *m = f->m;
    uint32_t *count = calloc((size_t)m->rank_count + 2, sizeof *count);
    double *sorted = malloc((f->ends.count + 1) * sizeof *sorted);
    double *sizes = malloc(((size_t)m->rank_count + 1) * sizeof *sizes);
    uint32_t some = 0;
    bool ok = count && sorted && sizes && b->of_rank;
    for (size_t i = 0; ok && i < f->ends.count; i++)
        count[f->ends.data[i].rank + 1]++;
    for (uint32_t r = 0; ok && r < m->rank_count; r++)
        count[r + 1] += count[r];
    for (size_t i = f->ends.count; ok && i-- > 0;)
        sorted[--count[f->ends.data[i].rank + 1]] = f->ends.data[i].residual;
    for (uint32_t r = 0; ok && r < m->rank_count; r++) {
        size_t first = count[r + 1], end = r + 1 < m->rank_count ? count[r + 2] : f->ends.count;
        b->of_rank[r] = end > first ? ka_median(sorted + first, end - first) : NAN;
        if (end > first)
            sizes[some++] = fabs(b->of_rank[r]);
    }
    b->middle = ok && some ? ka_median(sizes, some) : 0;
    b->most = ok && some ? sizes[some - 1] : 0;
    free(count);
    free(sorted);
    free(sizes);
    return ok;
}

/* The error of a clock, as ranks.md defines it: of the fit, and of ranks that differ from their host. */
static void set_bars(fitting *f, const rank_bias *b)
{
    for (size_t i = 0; i < f->m->clocks.count; i++) {
        ka_rank_clock *c = &f->m->clocks.data[i];
        c->bar_ns = 3 * f->m->residual_ns / sqrt(c->row_count ? c->row_count : 1) + 2 * b->middle +
                    2 * b->most / sqrt(c->rank_count);
    }
}

#define ODD_TIMES 1.8 /* least squares put 1 / n of the error of one of n hosts on each of the others */

/* Of three hosts or more, the one whose ends are far more apart from the means than those of each other host: medians of
 * the residuals. */
static bool find_odd_clock(fitting *f)
{
    ka_rank_model *m = f->m;
    size_t clocks = m->clocks.count, n = 0;
    double *middle = calloc(clocks + 1, sizeof *middle);
    ka_valued *list = malloc((f->ends.count + 1) * sizeof *list);
    bool ok = middle && list;
    for (size_t i = 0; ok && i < f->ends.count; i++)
        list[n++] = (ka_valued){f->ends.data[i].clock, fabs(f->ends.data[i].residual)};
    if (ok)
        ka_find_middles(list, n, middle);
    uint32_t odd = 0;
    for (uint32_t i = 1; ok && i < clocks; i++)
        odd = middle[i] > middle[odd] ? i : odd;
    double others = 0;
    for (uint32_t i = 0; ok && i < clocks; i++)
        others = i == odd ? others : fmax(others, middle[i]);
    m->odd_clock = ok && clocks > 2 && middle[odd] > ODD_TIMES * others ? odd : KA_NONE;
    free(middle);
    free(list);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Offsets against the first host that has something in common with others. */
static void set_clocks(fitting *f)
{
    uint32_t n = (uint32_t)f->m->clocks.count, first = ka_first_clock(f->m);
    for (uint32_t i = 0; i < n; i++) {
        ka_rank_clock *c = &f->m->clocks.data[i];
        c->offset_ns = f->x[i] - f->x[first];
        c->drift = (f->x[n + i] - f->x[n + first]) / f->half_ns;
    }
}

/* The clock's correction of a moment, which is from the origin like the result. */
static int64_t correct_time(const ka_rank_model *m, const ka_rank_clock *c, int64_t ns)
{
    return ns + llround(c->offset_ns + c->drift * (double)(ns - m->middle_ns));
}

int64_t ka_align_time(const ka_rank_model *m, uint32_t rank, int64_t ns)
{
    int64_t at = ka_add_ns(ns, -m->origin_ns);
    return m->clocks.count < 2 ? at : correct_time(m, &m->clocks.data[m->clock_of[rank]], at);
}

static void move_rows(void *model, uint32_t lane, uint32_t first, uint32_t end)
{
    ka_rank_model *m = model;
    (void)lane;
    for (uint32_t row = first; row < end; row++) {
        const ka_rank_clock *c = &m->clocks.data[m->clock_of[m->rank_of[row]]];
        m->start_ns[row] = correct_time(m, c, m->start_ns[row]);
        m->end_ns[row] = correct_time(m, c, m->end_ns[row]);
    }
}

void ka_move_rows(ka_rank_model *m)
{
    if (m->clocks.count > 1)
        ka_run_lanes(move_rows, m, m->row_count, m->row_count);
}

static bool allocate_fit(fitting *f)
{
    size_t n = 2 * f->m->clocks.count;
    f->sums = malloc(((size_t)f->instance_count + 1) * sizeof *f->sums);
    f->weights = malloc(((size_t)f->instance_count + 1) * sizeof *f->weights);
    f->x = calloc(4 * n + 1, sizeof *f->x);
    f->r = f->x ? f->x + n : NULL;
    f->p = f->x ? f->x + 2 * n : NULL;
    f->q = f->x ? f->x + 3 * n : NULL;
    return f->sums && f->weights && f->x;
}

/* Which ranks have ends far from those of the others: by MIN_FAR_NS, and by ten deviations, since no end stands out
 * where all of them scatter. */
#define MIN_FAR_NS 20000.0
static void measure_far_ends(const fitting *f, ka_far_ends *far)
{
    for (size_t i = 0; i < f->ends.count; i++) {
        const shared_end *e = &f->ends.data[i];
        bool is_far = fabs(e->residual) > fmax(MIN_FAR_NS, 10 * f->m->residual_ns);
        far->count[e->rank]++;
        far->far[e->rank] += is_far;
    }
}

/* Fits, measures errors, moves all rows to the common clock, and checks the result. False: out of memory. */
static bool fit_and_judge(fitting *f)
{
    ka_rank_model *m = f->m;
    rank_bias biases = {.of_rank = malloc(((size_t)m->rank_count + 1) * sizeof(double))};
    ka_far_ends far = {.count = calloc(2 * ((size_t)m->rank_count + 1), sizeof *far.count)};
    far.far = far.count ? far.count + m->rank_count + 1 : NULL;
    fit_clocks(f);
    set_clocks(f);
    bool ok = biases.of_rank && far.count && find_biases(f, &biases) && find_odd_clock(f);
    if (ok) {
        set_bars(f, &biases);
        measure_far_ends(f, &far);
        ka_move_rows(m);
        ok = ka_judge_clocks(m, &far);
    }
    free(biases.of_rank);
    free(far.count);
    return ok;
}

bool ka_align_clocks(ka_rank_model *m)
{
    int64_t last = 0;
    for (uint32_t row = 0; row < m->row_count; row++)
        if (m->domain[m->rank_of[row]] != KA_NONE)
            last = KB_MAX(last, m->end_ns[row]);
    m->middle_ns = last / 2;
    fitting f = {.m = m, .half_ns = (double)KB_MAX(last / 2, 1)};
    if (!list_clocks(m) || !ka_check_numbers(m))
        return false;
    if (m->clocks.count < 2)
        return true;
    bool ok = list_ends(&f) && allocate_fit(&f) && fit_and_judge(&f);
    free(f.sums);
    free(f.weights);
    free(f.x);
    kb_vec_free(&f.ends);
    return ok;
}
