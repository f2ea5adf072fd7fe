/* Compares the parts of each rank with those of its like, and replays the run without what is beyond. */
#include "analyze/ranks/rank_causes.h"
#include "analyze/ranks/rank_host_excess.h"

#include <math.h>

#define MIN_PART_SHARE 0.005 /* of the run: less is left out */
#define MAX_CANDIDATES 12u   /* of each kind */
#define FAR_DEVIATIONS 6.0   /* a transfer beyond these, … */
#define FAR_NS         2000  /* … and by this, is slow */
#define EXACT_SHARE    0.001 /* the replay must have the length of the run up to this */

typedef struct searching {
    const ka_rank_model *m;
    ka_replay replay;
    uint32_t *place;                   /* by row: index of `like` */
    double *work, *late, *host, *sync; /* by row: what is usual */
    double *slow;                      /* by instance: how much its transfer is beyond its like */
    double *device_excess, *host_excess; /* by rank */
    double *link_excess;               /* by group */
    uint32_t first_step, step_count;
    ka_rank_causes *out;
} searching;

/* ---- which rows are alike -------------------------------------------------------------------- */

/* Rows of one role at the same place of the same step. */
static bool place_alike(searching *s)
{
    const ka_rank_model *m = s->m;
    kb_map likes = {0};
    bool ok = true;
    for (uint32_t r = 0; r < m->rank_count && ok; r++) {
        uint32_t nth = 0, step = 0;
        for (uint32_t row = m->base[r]; row < m->base[r + 1] && ok; row++) {
            const ka_comm *c = ka_model_row(m, row);
            nth = row > m->base[r] && c->step == step ? nth + 1 : 0;
            step = c->step;
            uint64_t key[] = {m->role[r], step, nth, (uint64_t)ka_role_op(c) << 32 | c->flags >> 3};
            uint64_t *at = kb_map_insert(&likes, kb_hash(key, sizeof key), likes.count, NULL);
            ok = at != NULL;
            s->place[row] = at ? (uint32_t)*at : KA_NONE;
        }
    }
    kb_map_free(&likes);
    return ok;
}

typedef struct valued {
    uint32_t like;
    double value;
} valued;

static int compare_valued(const void *left, const void *right)
{
    const valued *a = left, *b = right;
    if (a->like != b->like)
        return a->like < b->like ? -1 : 1;
    return kb_compare_doubles(&a->value, &b->value);
}

/* The median of each group of like values; of two, the smaller. `out` by index of `like`. */
static void find_usual(valued *list, size_t count, double *out)
{
    qsort(list, count, sizeof *list, compare_valued);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next].like == list[i].like; next++)
            ;
        size_t n = next - i;
        out[list[i].like] =
            n % 2 || n == 2 ? list[i + (n - 1) / 2].value : (list[i + n / 2 - 1].value + list[i + n / 2].value) / 2;
    }
}

static bool find_usual_rows(const searching *s, const int64_t *of, double *out)
{
    const ka_rank_model *m = s->m;
    valued *list = malloc(((size_t)m->row_count + 1) * sizeof *list);
    double *usual = malloc(((size_t)m->row_count + 1) * sizeof *usual);
    bool ok = list && usual;
    for (uint32_t row = 0; ok && row < m->row_count; row++)
        list[row] = (valued){s->place[row], of[row] == KA_UNKNOWN_NUMBER ? 0 : (double)of[row]};
    if (ok && m->row_count)
        find_usual(list, m->row_count, usual);
    for (uint32_t row = 0; ok && row < m->row_count; row++)
        out[row] = usual[s->place[row]];
    free(list);
    free(usual);
    return ok;
}

/* ---- work by what was received --------------------------------------------------------------- */

/* Computation after an all-to-all, as of experts: as long as there is much to compute. */
typedef struct load {
    uint64_t pool; /* rows that have the same to do, in all steps */
    uint32_t row;
    double received, work_ns;
} load;

static int compare_loads(const void *left, const void *right)
{
    const load *a = left, *b = right;
    if (a->pool != b->pool)
        return a->pool < b->pool ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Rows after an all-to-all of their rank, up to the next collective of another kind or two. */
static size_t list_loads(const searching *s, load *list)
{
    const ka_rank_model *m = s->m;
    size_t count = 0;
    for (uint32_t r = 0; r < m->rank_count; r++) {
        uint32_t nth = 0, step = 0;
        for (uint32_t row = m->base[r]; row + 1 < m->base[r + 1]; row++) {
            const ka_comm *c = ka_model_row(m, row), *next = ka_model_row(m, row + 1);
            nth = c->step == step ? nth + 1 : 0;
            step = c->step;
            uint64_t key[] = {m->role[r], nth, next->op};
            if (c->op == KA_OP_ALL_TO_ALL && c->received)
                list[count++] = (load){kb_hash(key, sizeof key), row + 1, (double)c->received,
                                       (double)s->replay.work_ns[row + 1]};
        }
    }
    return count;
}

#define MAX_LOADS 128u
/* work = a + b * received, by the median of the slopes of all pairs. */
static void fit_loads(const load *list, size_t count, double *out)
{
    static const double least_change = 1.02;
    double slopes[MAX_LOADS * MAX_LOADS / 2], rests[MAX_LOADS];
    size_t every = count / MAX_LOADS + 1, n = 0, used = 0;
    for (size_t i = 0; i < count; i += every)
        for (size_t k = i + every; k < count; k += every)
            if (fmax(list[i].received, list[k].received) > least_change * fmin(list[i].received, list[k].received))
                slopes[n++] = (list[k].work_ns - list[i].work_ns) / (list[k].received - list[i].received);
    if (n < 3)
        return;
    double slope = fmax(ka_median(slopes, n), 0);
    for (size_t i = 0; i < count && used < MAX_LOADS; i += every)
        rests[used++] = list[i].work_ns - slope * list[i].received;
    double rest = ka_median(rests, used);
    for (size_t i = 0; i < count; i++)
        out[list[i].row] = fmax(rest + slope * list[i].received, 0);
}

static bool find_usual_loads(const searching *s)
{
    load *list = malloc(((size_t)s->m->row_count + 1) * sizeof *list);
    if (!list)
        return false;
    size_t count = list_loads(s, list);
    if (count)
        qsort(list, count, sizeof *list, compare_loads);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next].pool == list[i].pool; next++)
            ;
        fit_loads(list + i, next - i, s->work);
    }
    free(list);
    return true;
}

/* ---- what is beyond -------------------------------------------------------------------------- */

static double measure_excess(const double *usual, uint32_t row, const int64_t *of)
{
    return of[row] == KA_UNKNOWN_NUMBER ? 0 : (double)of[row] - usual[row];
}

static double host_beyond(const searching *s, uint32_t row)
{
    double by = ka_model_row(s->m, row)->sync_row == KA_NO_COMM ? measure_excess(s->host, row, s->replay.host_ns)
                                                                 : measure_excess(s->sync, row, s->replay.sync_ns);
    return fmax(by, 0);
}

static void add_rank_excess(searching *s)
{
    const ka_rank_model *m = s->m;
    for (uint32_t row = 0; row < m->row_count; row++) {
        s->device_excess[m->rank_of[row]] += measure_excess(s->work, row, s->replay.work_ns);
        s->host_excess[m->rank_of[row]] += host_beyond(s, row);
    }
}

static void find_step_range(searching *s)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t row = 0; row < s->m->row_count; row++) {
        uint32_t step = ka_model_row(s->m, row)->step;
        if (step == UINT32_MAX)
            continue;
        first = KB_MIN(first, step);
        last = KB_MAX(last, step);
    }
    s->first_step = first;
    s->step_count = first == UINT32_MAX ? 0 : KB_MIN(last - first + 1, s->m->row_count);
}

/* Does a group lie within one host? Transfers within and between hosts are not alike. */
static bool spans_hosts(const ka_rank_model *m, const ka_instance *x)
{
    for (uint32_t i = 1; i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != m->clock_of[m->rank_of[m->members[x->first]]])
            return true;
    return false;
}

static double transfer_of(const searching *s, const ka_instance *x)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < x->count; i++)
        least = KB_MIN(least, s->replay.transfer_ns[s->m->members[x->first + i]]);
    return (double)least;
}

/* Transfers of one group of an instance's kind and size. */
typedef struct transfers {
    uint32_t like; /* groups with equal ones are compared */
    double middle, spread;
} transfers;
typedef struct transfer_search {
    KB_VEC(transfers) groups;
    uint32_t *of;           /* by instance: index of groups; KA_NONE */
    double *usual, *spread; /* by index of `like` */
    uint32_t like_count;
} transfer_search;

static bool place_transfers(const searching *s, transfer_search *t)
{
    const ka_rank_model *m = s->m;
    kb_map likes = {0}, groups = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        t->of[i] = KA_NONE;
        bool is_link = spans_hosts(m, x) || !m->facts[m->rank_of[m->members[x->first]]]->on_host;
        if (!(x->flags & KA_INSTANCE_WHOLE) || !is_link) /* processes of one host have no link between them */
            continue;
        const ka_comm *c = ka_model_row(m, m->members[x->first]);
        uint64_t key[] = {m->groups.data[x->group].kind, x->op, x->op == KA_OP_ALL_TO_ALL ? 0 : c->elements,
                          x->size, spans_hosts(m, x), 0};
        uint64_t *like = kb_map_insert(&likes, kb_hash(key, sizeof key), likes.count, NULL);
        key[5] = 1 + (uint64_t)x->group;
        bool created;
        uint64_t *at = like ? kb_map_insert(&groups, kb_hash(key, sizeof key), t->groups.count, &created) : NULL;
        ok = at && (!created || kb_vec_push(&t->groups, (transfers){.like = (uint32_t)*like}));
        t->of[i] = at ? (uint32_t)*at : KA_NONE;
    }
    t->like_count = (uint32_t)likes.count;
    kb_map_free(&likes);
    kb_map_free(&groups);
    return ok;
}

/* Middle and spread of each group, and of these the usual ones of groups that are alike. */
static bool describe_transfers(const searching *s, transfer_search *t)
{
    size_t count = 0, n = s->m->instances.count;
    valued *list = malloc((KB_MAX(n, t->groups.count) + 1) * sizeof *list);
    double *middle = calloc(t->groups.count + 1, sizeof *middle), *spread = calloc(t->groups.count + 1, sizeof *spread);
    bool ok = list && middle && spread;
    for (size_t i = 0; ok && i < n; i++)
        if (t->of[i] != KA_NONE)
            list[count++] = (valued){t->of[i], transfer_of(s, &s->m->instances.data[i])};
    if (ok && count) {
        find_usual(list, count, middle);
        for (size_t i = 0; i < count; i++)
            list[i].value = fabs(list[i].value - middle[list[i].like]);
        find_usual(list, count, spread);
        for (size_t i = 0; i < t->groups.count; i++)
            list[i] = (valued){t->groups.data[i].like, t->groups.data[i].middle = middle[i]};
        find_usual(list, t->groups.count, t->usual);
        for (size_t i = 0; i < t->groups.count; i++)
            list[i] = (valued){t->groups.data[i].like, t->groups.data[i].spread = spread[i]};
        find_usual(list, t->groups.count, t->spread);
    }
    free(list);
    free(middle);
    free(spread);
    return ok;
}

static void mark_slow_transfers(searching *s, const transfer_search *t)
{
    for (size_t i = 0; i < s->m->instances.count; i++) {
        if (t->of[i] == KA_NONE)
            continue;
        const ka_instance *x = &s->m->instances.data[i];
        const transfers *g = &t->groups.data[t->of[i]];
        double usual = t->usual[g->like], far = FAR_DEVIATIONS * t->spread[g->like] + FAR_NS;
        double more = transfer_of(s, x) - usual;
        s->slow[i] = more > 0 && (more > far || g->middle - usual > far) ? more : 0;
        s->link_excess[x->group] += s->slow[i];
    }
}

static bool find_slow_transfers(searching *s)
{
    size_t n = s->m->instances.count;
    transfer_search t = {.of = malloc((n + 1) * sizeof *t.of),
                         .usual = calloc(n + 1, sizeof *t.usual),
                         .spread = calloc(n + 1, sizeof *t.spread)};
    bool ok = t.of && t.usual && t.spread && place_transfers(s, &t) && describe_transfers(s, &t);
    if (ok)
        mark_slow_transfers(s, &t);
    kb_vec_free(&t.groups);
    free(t.of);
    free(t.usual);
    free(t.spread);
    return ok;
}

/* ---- without it ------------------------------------------------------------------------------ */

static void shorten_device(searching *s, uint32_t rank)
{
    ka_replay *r = &s->replay;
    for (uint32_t row = s->m->base[rank]; row < s->m->base[rank + 1]; row++) {
        double usual = s->work[row], now = (double)r->work_ns[row];
        if (!(usual < now))
            continue;
        double by = now > 0 ? usual / now : 1;
        r->work_ns[row] = (int64_t)usual;
        r->late_rest_ns[row] = (int64_t)((double)r->late_rest_ns[row] * by);
    }
    for (uint32_t row = s->m->base[rank]; row < s->m->base[rank + 1]; row++) {
        const ka_comm *c = ka_model_row(s->m, row);
        if (c->wait_row == KA_NO_COMM)
            continue;
        uint32_t to = s->m->base[rank] + (uint32_t)c->wait_row;
        double now = (double)ka_model_row(s->m, to)->work_ns, by = now > 0 ? (double)r->work_ns[to] / now : 1;
        r->wait_ns[row] = (int64_t)((double)r->wait_ns[row] * fmin(by, 1));
    }
}

static void shorten_host(searching *s, uint32_t rank)
{
    ka_replay *r = &s->replay;
    for (uint32_t row = s->m->base[rank]; row < s->m->base[rank + 1]; row++) {
        r->host_ns[row] = KB_MIN(r->host_ns[row], (int64_t)s->host[row]);
        r->sync_ns[row] = KB_MIN(r->sync_ns[row], (int64_t)s->sync[row]);
        if (r->late_ns[row] != KA_UNKNOWN_NUMBER)
            r->late_ns[row] = KB_MIN(r->late_ns[row], (int64_t)s->late[row]);
    }
}

static void shorten_link(searching *s, uint32_t group)
{
    for (size_t i = 0; i < s->m->instances.count; i++) {
        const ka_instance *x = &s->m->instances.data[i];
        for (uint32_t k = 0; x->group == group && s->slow[i] > 0 && k < x->count; k++)
            s->replay.transfer_ns[s->m->members[x->first + k]] -= (int64_t)s->slow[i];
    }
}

static int64_t save_without(searching *s, ka_rank_cause *c)
{
    ka_replay_reset(&s->replay);
    if (c->kind == KA_CAUSE_DEVICE)
        shorten_device(s, c->rank);
    else if (c->kind == KA_CAUSE_HOST)
        shorten_host(s, c->rank);
    else
        shorten_link(s, c->group);
    return c->saved_ns = s->out->replayed_ns - ka_replay_run(&s->replay);
}

/* ---- candidates ------------------------------------------------------------------------------ */

/* The `MAX_CANDIDATES` with the largest excess. */
static bool list_candidates(searching *s, ka_cause_kind kind, const double *excess, uint32_t count)
{
    uint32_t best[MAX_CANDIDATES], n = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = n;
        while (at > 0 && excess[best[at - 1]] < excess[i])
            at--;
        if (at == MAX_CANDIDATES || !(excess[i] > 0))
            continue;
        n = KB_MIN(n + 1, MAX_CANDIDATES);
        memmove(&best[at + 1], &best[at], (n - 1 - at) * sizeof *best);
        best[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool of_group = kind == KA_CAUSE_LINK;
        ka_rank_cause c = {.kind = kind,
                           .rank = of_group ? KA_NONE : best[i],
                           .group = of_group ? best[i] : KA_NONE,
                           .step = UINT32_MAX,
                           .excess_ns = (int64_t)excess[best[i]]};
        if (!kb_vec_push(&s->out->list, c))
            return false;
    }
    return true;
}

/* By step: the excess of a rank, of one kind. */
static void sum_steps(const searching *s, const ka_rank_cause *c, double *by_step, uint32_t count)
{
    for (uint32_t row = s->m->base[c->rank]; row < s->m->base[c->rank + 1]; row++) {
        const ka_comm *k = ka_model_row(s->m, row);
        uint32_t step = k->step - s->first_step;
        if (k->step != UINT32_MAX && step < count)
            by_step[step] += c->kind == KA_CAUSE_DEVICE ? measure_excess(s->work, row, s->replay.work_ns) : host_beyond(s, row);
    }
}

/* A rank that is slow in one step only is slow in that step, not by itself. */
#define STEP_SHARE 0.75
#define MIN_STEPS    3u
static void find_step(searching *s, ka_rank_cause *c)
{
    double *by_step = calloc((size_t)s->step_count + 1, sizeof *by_step), all = 0;
    uint32_t most = 0;
    if (!by_step || s->step_count < MIN_STEPS || c->rank == KA_NONE) {
        free(by_step);
        return;
    }
    sum_steps(s, c, by_step, s->step_count);
    for (uint32_t i = 0; i < s->step_count; i++) {
        all += fmax(by_step[i], 0);
        most = by_step[i] > by_step[most] ? i : most;
    }
    if (by_step[most] > STEP_SHARE * all) {
        c->kind = KA_CAUSE_STEP;
        c->step = s->first_step + most;
    }
    free(by_step);
}

static int compare_saved(const void *left, const void *right)
{
    const ka_rank_cause *a = left, *b = right;
    if (a->saved_ns != b->saved_ns)
        return a->saved_ns > b->saved_ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : (a->group > b->group) - (a->group < b->group);
}

/* What candidates save that are none: the lower quartile of those of ranks. Ranks on hosts are candidates only if
 * that is beyond noise. */
static int64_t find_noise(const searching *s)
{
    const ka_rank_causes *c = s->out;
    double saved[2 * MAX_CANDIDATES];
    size_t n = 0;
    for (size_t i = 0; i < c->list.count && n < KB_COUNT(saved); i++)
        if (c->list.data[i].rank != KA_NONE && !s->m->facts[c->list.data[i].rank]->on_host)
            saved[n++] = (double)KB_MAX(c->list.data[i].saved_ns, 0);
    if (n < 2)
        return 0;
    qsort(saved, n, sizeof *saved, kb_compare_doubles);
    return (int64_t)saved[n / 4];
}

static void judge_candidates(searching *s)
{
    ka_rank_causes *c = s->out;
    for (size_t i = 0; i < c->list.count; i++)
        save_without(s, &c->list.data[i]);
    if (c->list.count)
        qsort(c->list.data, c->list.count, sizeof *c->list.data, compare_saved);
    c->noise_ns = find_noise(s);
    double least = fmax(MIN_PART_SHARE * (double)c->length_ns, 3 * (double)c->noise_ns);
    size_t kept = 0;
    while (kept < c->list.count && (double)c->list.data[kept].saved_ns >= least)
        kept++;
    c->list.count = kept;
    ka_replay_reset(&s->replay);
    for (size_t i = 0; i < kept; i++) {
        ka_rank_cause *k = &c->list.data[i];
        find_step(s, k);
        if (k->kind == KA_CAUSE_DEVICE && s->m->facts[k->rank]->on_host)
            k->kind = KA_CAUSE_HOST;
    }
}

static bool allocate_search(searching *s)
{
    size_t rows = (size_t)s->m->row_count + 1, ranks = (size_t)s->m->rank_count + 1;
    s->place = malloc(rows * sizeof *s->place);
    s->work = calloc(rows, sizeof *s->work);
    s->late = calloc(rows, sizeof *s->late);
    s->host = calloc(rows, sizeof *s->host);
    s->sync = calloc(rows, sizeof *s->sync);
    s->slow = calloc(s->m->instances.count + 1, sizeof *s->slow);
    s->device_excess = calloc(ranks, sizeof *s->device_excess);
    s->host_excess = calloc(ranks, sizeof *s->host_excess);
    s->link_excess = calloc(s->m->groups.count + 1, sizeof *s->link_excess);
    return s->place && s->work && s->late && s->host && s->sync && s->slow && s->device_excess && s->host_excess &&
           s->link_excess;
}

static int64_t recorded_length(const ka_rank_model *m)
{
    int64_t last = 0;
    for (uint32_t row = 0; row < m->row_count; row++)
        last = KB_MAX(last, m->end_ns[row]);
    return last;
}

static bool search_causes(searching *s)
{
    ka_rank_causes *c = s->out;
    if (!ka_replay_create(&s->replay, s->m) || !allocate_search(s) || !place_alike(s))
        return false;
    c->length_ns = recorded_length(s->m);
    c->replayed_ns = ka_replay_run(&s->replay);
    if (llabs(c->replayed_ns - c->length_ns) > (int64_t)(EXACT_SHARE * (double)c->length_ns))
        (void)snprintf(c->refused, sizeof c->refused, "the model does not explain this run: it would take %s, not %s",
                       kb_duration(c->replayed_ns).s, kb_duration(c->length_ns).s);
    if (!find_usual_rows(s, s->replay.work_ns, s->work) || !find_usual_rows(s, s->replay.late_ns, s->late) ||
        !find_usual_rows(s, s->replay.host_ns, s->host) || !find_usual_rows(s, s->replay.sync_ns, s->sync) ||
        !find_usual_loads(s) || !ka_find_host_excess(s->m, s->replay.work_ns, s->work) || !find_slow_transfers(s))
        return false;
    add_rank_excess(s);
    find_step_range(s);
    if (c->refused[0])
        return true;
    bool ok = list_candidates(s, KA_CAUSE_DEVICE, s->device_excess, s->m->rank_count) &&
              list_candidates(s, KA_CAUSE_HOST, s->host_excess, s->m->rank_count) &&
              list_candidates(s, KA_CAUSE_LINK, s->link_excess, (uint32_t)s->m->groups.count);
    if (ok)
        judge_candidates(s);
    return ok;
}

bool ka_find_rank_causes(const ka_rank_model *m, ka_rank_causes *c)
{
    searching s = {.m = m, .out = c};
    *c = (ka_rank_causes){0};
    bool ok = search_causes(&s);
    ka_replay_free(&s.replay);
    free(s.place);
    free(s.work);
    free(s.late);
    free(s.host);
    free(s.sync);
    free(s.slow);
    free(s.device_excess);
    free(s.host_excess);
    free(s.link_excess);
    return ok;
}

void ka_rank_causes_free(ka_rank_causes *c) { kb_vec_free(&c->list); }
