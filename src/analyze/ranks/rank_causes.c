/* Compares the parts of each rank with those of its like, and replays the run without what is beyond. */
#include "analyze/ranks/rank_causes.h"
#include "analyze/ranks/rank_host_excess.h"
#include "analyze/ranks/rank_links.h"
#include "analyze/ranks/rank_usual.h"

#include <math.h>

#define MIN_PART_SHARE 0.005 /* of the run: less is left out */
#define MAX_CANDIDATES 12u   /* of each kind in a window */
#define SPARSE_CANDIDATES 1u  /* in a sparse one */
#define EXACT_SHARE    0.001 /* the replay must have the length of the run up to this */

/* A window of the run. */
typedef struct searching {
    const ka_rank_model *m;
    ka_cause_search *all;
    ka_replay replay;
    ka_usual usual;
    double *slow;          /* by instance: how much its transfer is beyond its like */
    double *device_excess, *host_excess; /* by rank */
    double *link_excess;   /* by group */
    int64_t length_ns, replayed_ns;
    KB_VEC(ka_rank_cause) list; /* what is tried in this window */
} searching;

/* ---- what is beyond -------------------------------------------------------------------------- */

static double beyond_usual(double usual, int64_t now) { return now == KA_UNKNOWN_NUMBER ? 0 : (double)now - usual; }

static double device_beyond(const searching *s, uint32_t row)
{
    return beyond_usual(ka_usual_work(&s->usual, row), s->replay.rows[row].work_ns);
}

static double host_beyond(const searching *s, uint32_t row)
{
    const ka_replay_row *x = &s->replay.rows[row];
    uint32_t place = s->usual.place[row];
    double by = x->sync_row == KA_NONE ? beyond_usual(s->usual.host[place], x->host_ns)
                                       : beyond_usual(s->usual.sync[place], x->sync_ns);
    return fmax(by, 0);
}

/* Steps of a rank come one after the other; a step may lie in several windows. */
static bool add_step(ka_cause_search *all, int kind, uint32_t rank, uint32_t step, double by)
{
    ka_step_excess *e = &(kind == KA_LEADS_DEVICE ? all->device_steps : all->host_steps)[rank];
    bool ok = true;
    if (e->step != step) {
        ok = e->step == UINT32_MAX || ka_leads_offer(&all->leads, kind, e->step, e->now, rank);
        ka_close_step(e);
        e->step = step;
    }
    e->now += by;
    return ok;
}

void ka_close_step(ka_step_excess *e)
{
    e->sum += fmax(e->now, 0);
    if (e->step != UINT32_MAX && e->now > e->most) {
        e->most = e->now;
        e->most_step = e->step;
    }
    e->now = 0;
}

static bool add_row_excess(searching *s, uint32_t rank, uint32_t row)
{
    double device = device_beyond(s, row), host = host_beyond(s, row);
    uint32_t step = ka_model_row(s->m, row)->step;
    s->device_excess[rank] += device;
    s->host_excess[rank] += host;
    if (step == UINT32_MAX)
        return true;
    s->all->first_step = KB_MIN(s->all->first_step, step);
    s->all->last_step = KB_MAX(s->all->last_step, step);
    return add_step(s->all, KA_LEADS_DEVICE, rank, step, device) && add_step(s->all, KA_LEADS_HOST, rank, step, host);
}

static bool add_link_excess(searching *s)
{
    const ka_rank_model *m = s->m;
    bool ok = true;
    for (size_t i = 0; i < m->instances.count && ok; i++) {
        const ka_instance *x = &m->instances.data[i];
        s->link_excess[x->group] += s->slow[i];
        s->all->link_excess[x->group] += s->slow[i];
        if (s->slow[i] > 0 && x->step != UINT32_MAX)
            ok = ka_leads_add_transfer(&s->all->leads, x->step, s->slow[i], x->group);
    }
    return ok;
}

static bool add_excess(searching *s)
{
    const ka_rank_model *m = s->m;
    bool ok = true;
    for (uint32_t rank = 0; rank < m->rank_count; rank++) {
        for (uint32_t row = m->base[rank]; row < m->base[rank + 1] && ok; row++)
            if (s->usual.place[row] != KA_NONE)
                ok = add_row_excess(s, rank, row);
        s->all->device_excess[rank] += s->device_excess[rank];
        s->all->host_excess[rank] += s->host_excess[rank];
    }
    return ok && add_link_excess(s);
}

/* ---- without it ------------------------------------------------------------------------------ */

static void shorten_device(searching *s, uint32_t rank)
{
    ka_replay_row *rows = s->replay.rows;
    uint32_t first = s->m->base[rank], end = s->m->base[rank + 1];
    for (uint32_t row = first; row < end; row++) {
        if (s->usual.place[row] == KA_NONE)
            continue;
        double usual = ka_usual_work(&s->usual, row), now = (double)rows[row].work_ns;
        if (!(usual < now))
            continue;
        double by = now > 0 ? usual / now : 1;
        rows[row].work_ns = (int64_t)usual;
        rows[row].late_rest_ns = (int64_t)((double)rows[row].late_rest_ns * by);
    }
    for (uint32_t row = first; row < end; row++) {
        if (rows[row].wait_row == KA_NONE)
            continue;
        uint32_t to = rows[row].wait_row;
        double now = (double)ka_model_row(s->m, to)->work_ns, by = now > 0 ? (double)rows[to].work_ns / now : 1;
        rows[row].wait_ns = (int64_t)((double)rows[row].wait_ns * fmin(by, 1));
    }
}

static void shorten_host(searching *s, uint32_t rank)
{
    const ka_usual *u = &s->usual;
    for (uint32_t row = s->m->base[rank]; row < s->m->base[rank + 1]; row++) {
        ka_replay_row *x = &s->replay.rows[row];
        uint32_t place = u->place[row];
        if (place == KA_NONE)
            continue;
        x->host_ns = KB_MIN(x->host_ns, (int64_t)u->host[place]);
        x->sync_ns = KB_MIN(x->sync_ns, (int64_t)u->sync[place]);
        if (x->late_ns != KA_UNKNOWN_NUMBER)
            x->late_ns = KB_MIN(x->late_ns, (int64_t)u->late[place]);
    }
}

/* `sign`: -1 makes the slow transfers of a group shorter, 1 undoes it. */
static void change_link(searching *s, uint32_t group, int64_t sign)
{
    for (size_t i = 0; i < s->m->instances.count; i++) {
        const ka_instance *x = &s->m->instances.data[i];
        for (uint32_t k = 0; x->group == group && s->slow[i] > 0 && k < x->count; k++)
            s->replay.rows[s->m->members[x->first + k]].transfer_ns += sign * (int64_t)s->slow[i];
    }
}

static void replay_without(searching *s, ka_rank_cause *c, ka_tracked_cause *tracked)
{
    s->replay.shift = tracked ? tracked->shifts : NULL;
    if (c->kind == KA_CAUSE_DEVICE)
        shorten_device(s, c->rank);
    else if (c->kind == KA_CAUSE_HOST)
        shorten_host(s, c->rank);
    else
        change_link(s, c->group, -1);
    c->saved_ns = s->replayed_ns - ka_replay_run(&s->replay);
    if (tracked) { /* what was saved in this window */
        ka_replay_take_shifts(&s->replay, tracked->shifts);
        int64_t before = tracked->saved_ns;
        tracked->saved_ns = c->saved_ns;
        c->saved_ns -= before;
    }
    if (c->kind == KA_CAUSE_LINK)
        change_link(s, c->group, 1);
    else
        ka_replay_reset_rank(&s->replay, c->rank);
}

/* ---- candidates of a window ------------------------------------------------------------------ */

/* Those with the largest excess. */
static bool list_candidates(searching *s, ka_cause_kind kind, const double *excess, uint32_t count)
{
    uint32_t best[MAX_CANDIDATES], n = 0, most = s->all->is_sparse ? SPARSE_CANDIDATES : MAX_CANDIDATES;
    double least = s->all->is_sparse ? MIN_PART_SHARE * (double)s->length_ns : 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = n;
        while (at > 0 && excess[best[at - 1]] < excess[i])
            at--;
        if (at == most || !(excess[i] > least))
            continue;
        n = KB_MIN(n + 1, most);
        memmove(&best[at + 1], &best[at], (n - 1 - at) * sizeof *best);
        best[at] = i;
    }
    for (uint32_t i = 0; i < n; i++) {
        bool of_group = kind == KA_CAUSE_LINK;
        ka_rank_cause c = {.kind = kind,
                           .rank = of_group ? KA_NONE : best[i],
                           .group = of_group ? best[i] : KA_NONE,
                           .step = UINT32_MAX};
        if (!kb_vec_push(&s->list, c))
            return false;
    }
    return true;
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

/* What candidates save that are none: the lower quartile of those of ranks. Ranks on hosts are candidates only if that is
 * beyond noise. */
static int64_t find_noise(const searching *s)
{
    double saved[2 * MAX_CANDIDATES];
    size_t n = 0;
    for (size_t i = 0; i < s->list.count && n < KB_COUNT(saved); i++)
        if (s->list.data[i].rank != KA_NONE && !s->m->facts[s->list.data[i].rank]->on_host)
            saved[n++] = (double)KB_MAX(s->list.data[i].saved_ns, 0);
    if (n < 2)
        return 0;
    qsort(saved, n, sizeof *saved, kb_compare_doubles);
    return (int64_t)saved[n / 4];
}

static uint64_t cause_key(const ka_rank_cause *c) { return (uint64_t)c->kind << 32 | (c->rank == KA_NONE ? c->group : c->rank); }

static bool add_saved(ka_cause_search *all, const ka_rank_cause *c)
{
    uint64_t key = cause_key(c);
    bool created;
    uint64_t *at = kb_map_insert(&all->at, key, all->list.count, &created);
    if (!at || (created && !kb_vec_push(&all->list, *c)))
        return false;
    if (!created)
        all->list.data[*at].saved_ns += c->saved_ns;
    return true;
}

/* ---- candidates that are followed ------------------------------------------------------------ */

/* What one window saves may only show at the end of another one: large candidates are replayed from window to window. */

static ka_tracked_cause *find_tracked(ka_cause_search *all, uint64_t key)
{
    for (uint32_t i = 0; i < all->tracked_count; i++)
        if (all->tracked[i].key == key)
            return &all->tracked[i];
    return NULL;
}

static double excess_of(const double *device, const double *host, const double *link, uint64_t key)
{
    const double *of = key >> 32 == KA_CAUSE_DEVICE ? device : key >> 32 == KA_CAUSE_HOST ? host : link;
    return of[(uint32_t)key];
}

static bool start_tracking(searching *s, uint64_t key)
{
    ka_cause_search *all = s->all;
    if (all->tracked_count == KA_MAX_TRACKED || find_tracked(all, key) ||
        excess_of(s->device_excess, s->host_excess, s->link_excess, key) < MIN_PART_SHARE * (double)s->length_ns)
        return true;
    ka_tracked_cause *t = &all->tracked[all->tracked_count];
    *t = (ka_tracked_cause){.key = key, .shifts = calloc((size_t)s->m->rank_count * KA_CONTEXT_ROWS + 1, sizeof *t->shifts)};
    all->tracked_count += t->shifts != NULL;
    return t->shifts != NULL;
}

/* Adds those that are followed and not in the list, and begins to follow those of the list that are large. */
static bool list_tracked(searching *s)
{
    for (size_t i = 0; s->m->window && i < s->list.count; i++)
        if (!start_tracking(s, cause_key(&s->list.data[i])))
            return false;
    for (uint32_t i = 0; i < s->all->tracked_count; i++) {
        uint64_t key = s->all->tracked[i].key;
        bool is_listed = false;
        for (size_t k = 0; k < s->list.count; k++)
            is_listed |= cause_key(&s->list.data[k]) == key;
        bool of_group = key >> 32 == KA_CAUSE_LINK;
        ka_rank_cause c = {.kind = (ka_cause_kind)(key >> 32),
                           .rank = of_group ? KA_NONE : (uint32_t)key,
                           .group = of_group ? (uint32_t)key : KA_NONE,
                           .step = UINT32_MAX};
        if (!is_listed && !kb_vec_push(&s->list, c))
            return false;
    }
    return true;
}

/* Those that can no longer be of weight make room. */
static void drop_tracked(ka_cause_search *all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->tracked_count; i++) {
        ka_tracked_cause *t = &all->tracked[i];
        if (excess_of(all->device_excess, all->host_excess, all->link_excess, t->key) <
            MIN_PART_SHARE / 2 * (double)all->length_ns)
            free(t->shifts);
        else
            all->tracked[kept++] = *t;
    }
    all->tracked_count = kept;
}

static bool try_candidates(searching *s)
{
    bool ok = list_candidates(s, KA_CAUSE_DEVICE, s->device_excess, s->m->rank_count) &&
              list_candidates(s, KA_CAUSE_HOST, s->host_excess, s->m->rank_count) &&
              list_candidates(s, KA_CAUSE_LINK, s->link_excess, (uint32_t)s->m->groups.count);
    ok = ok && list_tracked(s);
    for (size_t i = 0; ok && i < s->list.count; i++) {
        replay_without(s, &s->list.data[i], find_tracked(s->all, cause_key(&s->list.data[i])));
        ok = add_saved(s->all, &s->list.data[i]);
    }
    drop_tracked(s->all);
    if (!ok || s->all->is_sparse)
        return ok;
    if (s->list.count)
        qsort(s->list.data, s->list.count, sizeof *s->list.data, compare_saved);
    s->all->noise_ns += find_noise(s);
    s->all->noise_length_ns += s->length_ns;
    return true;
}

/* ---- one window ------------------------------------------------------------------------------ */

static bool search_window(searching *s)
{
    const ka_rank_model *m = s->m;
    size_t ranks = (size_t)m->rank_count + 1;
    s->slow = calloc(m->instances.count + 1, sizeof *s->slow);
    s->device_excess = calloc(ranks, sizeof *s->device_excess);
    s->host_excess = calloc(ranks, sizeof *s->host_excess);
    s->link_excess = calloc(m->groups.count + 1, sizeof *s->link_excess);
    if (!s->slow || !s->device_excess || !s->host_excess || !s->link_excess || !ka_replay_create(&s->replay, m))
        return false;
    s->replayed_ns = ka_replay_run(&s->replay);
    if (!ka_find_usual(&s->replay, &s->usual) || !ka_find_host_excess(&s->replay, &s->usual) ||
        !ka_find_slow_transfers(&s->replay, s->slow, s->all->link_use))
        return false;
    if (!add_excess(s))
        return false;
    int64_t recorded = ka_recorded_length(m);
    s->length_ns = recorded - (s->all->is_begun ? s->all->until_ns : ka_run_begin(m));
    s->all->length_ns += s->length_ns;
    s->all->until_ns = recorded;
    s->all->is_begun = true;
    int64_t apart = llabs(s->replayed_ns - recorded);
    s->all->apart_ns += apart;
    return apart > (int64_t)(EXACT_SHARE * (double)s->length_ns) || try_candidates(s);
}

bool ka_cause_search_add(ka_cause_search *all, const ka_rank_model *m)
{
    searching s = {.m = m, .all = all, .replay = all->replay};
    bool ok = search_window(&s);
    all->replay = s.replay;
    ka_usual_free(&s.usual);
    free(s.slow);
    free(s.device_excess);
    free(s.host_excess);
    free(s.link_excess);
    kb_vec_free(&s.list);
    return ok;
}

/* ---- all windows ----------------------------------------------------------------------------- */

bool ka_cause_search_create(ka_cause_search *s, const ka_rank_model *m)
{
    size_t ranks = (size_t)m->rank_count + 1;
    *s = (ka_cause_search){.first_step = UINT32_MAX, .m = m};
    s->device_steps = calloc(ranks, sizeof *s->device_steps);
    s->host_steps = calloc(ranks, sizeof *s->host_steps);
    s->device_excess = calloc(ranks, sizeof *s->device_excess);
    s->host_excess = calloc(ranks, sizeof *s->host_excess);
    s->link_excess = calloc(m->groups.count + 1, sizeof *s->link_excess);
    s->link_use = calloc(m->groups.count + 1, sizeof *s->link_use);
    for (size_t i = 0; s->device_steps && s->host_steps && i < ranks; i++)
        s->device_steps[i].step = s->host_steps[i].step = UINT32_MAX;
    return s->device_steps && s->host_steps && s->device_excess && s->host_excess && s->link_excess && s->link_use;
}

void ka_cause_search_free(ka_cause_search *s)
{
    ka_replay_free(&s->replay);
    free(s->device_steps);
    free(s->host_steps);
    free(s->device_excess);
    free(s->host_excess);
    free(s->link_excess);
    free(s->link_use);
    ka_leads_free(&s->leads);
    kb_map_free(&s->at);
    kb_vec_free(&s->list);
    for (uint32_t i = 0; i < s->tracked_count; i++)
        free(s->tracked[i].shifts);
    *s = (ka_cause_search){0};
}

/* A rank that is slow in one step only is slow in that step, not by itself. */
#define STEP_SHARE 0.75
#define MIN_STEPS    3u
static void find_step(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->rank == KA_NONE || s->first_step == UINT32_MAX || s->last_step - s->first_step + 1 < MIN_STEPS)
        return;
    ka_step_excess e = c->kind == KA_CAUSE_DEVICE ? s->device_steps[c->rank] : s->host_steps[c->rank];
    if (e.most > STEP_SHARE * e.sum) {
        c->kind = KA_CAUSE_STEP;
        c->step = e.most_step;
    }
}

static void count_leads(const ka_cause_search *s, ka_rank_cause *c)
{
    c->leads = c->kind == KA_CAUSE_LINK ? ka_leads_of(&s->leads, KA_LEADS_LINK, c->group)
                                        : ka_leads_of(&s->leads, c->kind == KA_CAUSE_DEVICE ? KA_LEADS_DEVICE : KA_LEADS_HOST, c->rank);
}

/* What a host computes is not of a device. */
static void name_kind(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->kind == KA_CAUSE_DEVICE && s->m->facts[c->rank]->on_host)
        c->kind = KA_CAUSE_HOST;
}

static void select_causes(ka_cause_search *s, ka_rank_causes *out)
{
    if (s->list.count)
        qsort(s->list.data, s->list.count, sizeof *s->list.data, compare_saved);
    if (s->noise_length_ns == out->length_ns)
        out->noise_ns = s->noise_ns;
    else if (s->noise_length_ns > 0)
        out->noise_ns = (int64_t)((double)s->noise_ns * (double)out->length_ns / (double)s->noise_length_ns);
    double least = fmax(MIN_PART_SHARE * (double)out->length_ns, 3 * (double)out->noise_ns);
    size_t kept = 0;
    out->steps = ka_leads_step_count(&s->leads);
    for (; kept < s->list.count && (double)s->list.data[kept].saved_ns >= least; kept++) {
        s->list.data[kept].excess_ns =
            (int64_t)excess_of(s->device_excess, s->host_excess, s->link_excess, cause_key(&s->list.data[kept]));
        count_leads(s, &s->list.data[kept]);
        find_step(s, &s->list.data[kept]);
        name_kind(s, &s->list.data[kept]);
    }
    out->list.data = s->list.data;
    out->list.count = kept;
    out->list.capacity = s->list.capacity;
    s->list.data = NULL;
    s->list.count = s->list.capacity = 0;
}

/* The last step of each rank has ended. */
static bool close_steps(ka_cause_search *s)
{
    bool ok = true;
    for (uint32_t rank = 0; rank < s->m->rank_count && ok; rank++)
        ok = add_step(s, KA_LEADS_DEVICE, rank, UINT32_MAX, 0) && add_step(s, KA_LEADS_HOST, rank, UINT32_MAX, 0);
    return ok;
}

/* The group with most transfers that nothing could be compared with: of no group of its kind. */
#define MIN_LONE_SHARE 0.01 /* of the run */
static uint32_t find_lone_group(const ka_cause_search *s)
{
    const ka_rank_model *m = s->m;
    uint32_t found = KA_NONE;
    double most = MIN_LONE_SHARE * (double)s->length_ns;
    for (uint32_t g = 0; g < m->groups.count; g++) {
        bool is_compared = false;
        for (uint32_t k = 0; s->link_use[g].lone_ns > most && k < m->groups.count; k++)
            is_compared |= m->groups.data[k].kind == m->groups.data[g].kind && s->link_use[k].is_compared;
        if (s->link_use[g].lone_ns <= most || is_compared)
            continue;
        most = s->link_use[g].lone_ns;
        found = g;
    }
    return found;
}

#define MIN_LONGEST_SHARE 0.01 /* of the run */
#define MIN_LONGEST_RATIO 3    /* to the next one */

/* Durations of a trace need no other clock, so that a rank which computes longer is known where clocks are refused. Whether others
 * wait for it, is not. A clock that was set makes one step longer: it must be so in three quarters of the steps. */
static void find_longest(const ka_cause_search *s, ka_rank_causes *out)
{
    double most = 0, next = 0;
    ka_rank_cause longest = {.kind = KA_CAUSE_DEVICE, .group = KA_NONE};
    for (uint32_t r = 0; r < s->m->rank_count; r++) {
        double excess = s->device_excess[r];
        next = fmax(next, fmin(excess, most));
        if (excess > most) {
            most = excess;
            longest.rank = r;
        }
    }
    count_leads(s, &longest);
    out->longest_rank = longest.rank;
    double length_ns = (double)s->length_ns / KB_MAX(s->m->domain_count, 1u);
    if (most >= MIN_LONGEST_SHARE * length_ns && most >= MIN_LONGEST_RATIO * next &&
        4 * longest.leads >= 3 * KB_MAX(ka_leads_step_count(&s->leads), 2u))
        out->longest_excess_ns = (int64_t)most;
}

bool ka_cause_search_finish(ka_cause_search *s, ka_rank_causes *out)
{
    *out = (ka_rank_causes){.length_ns = s->length_ns, .apart_ns = s->apart_ns, .lone_group = find_lone_group(s)};
    if (!close_steps(s))
        return false;
    if (s->m->refused[0])
        find_longest(s, out);
    if (s->apart_ns > (int64_t)(EXACT_SHARE * (double)s->length_ns))
        (void)snprintf(out->refused, sizeof out->refused, "the model does not explain this run: of %s it computes %s differently",
                       kb_duration(s->length_ns).s, kb_duration(s->apart_ns).s);
    else
        select_causes(s, out);
    return true;
}

void ka_rank_causes_free(ka_rank_causes *c) { kb_vec_free(&c->list); }
