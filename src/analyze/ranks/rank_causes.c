/* Tries which ranks, steps and links make the run longer: of each window, those with most excess.
 *
 * What a candidate saves is measured by a replay of the window without it (cause_trials.h), in ns; excess only selects
 * what is tried. The rules, and what is reported, are those of "What makes the run longer" in ranks.md. */
#include "analyze/ranks/rank_causes.h"

#include <math.h>

#define MIN_PART_SHARE 0.005 /* of the run: less is left out */
#define MAX_CANDIDATES 12u   /* of each kind in a window */
#define SPARSE_CANDIDATES 1u  /* in a sparse one */
#define EXACT_SHARE    0.001 /* the replay must have the length of the run up to this */

/* What a rank was beyond its like in a step. */
typedef struct ended_step {
    double excess;
    int kind; /* KA_LEADS_DEVICE, KA_LEADS_HOST */
    uint32_t rank, step;
} ended_step;

/* Of the ranks of a lane. */
typedef struct ended_steps {
    KB_VEC(ended_step) list;
    uint32_t first, last; /* numbers of all that rows are of */
    bool no_memory;
} ended_steps;

/* A window of the run. */
typedef struct searching {
    const ka_rank_model *m;
    ka_cause_search *all;
    ka_trials trials;
    double *excess[2];     /* of device and host, by rank */
    ended_steps ended[KA_LANES];
    int64_t length_ns;
    ka_step_list steps;
    KB_VEC(ka_rank_cause) list; /* what is tried in this window */
} searching;

/* ---- what is beyond -------------------------------------------------------------------------- */

/* Steps of a rank come one after the other; a step may lie in several windows. What a rank has in a step, over all
 * windows, is offered to the leads when its next step begins. */
static void add_step(ka_cause_search *all, ended_steps *ended, int kind, uint32_t rank, uint32_t step, double by)
{
    ka_step_excess *e = &(kind == KA_LEADS_DEVICE ? all->device_steps : all->host_steps)[rank];
    if (e->step != step) {
        if (e->step != UINT32_MAX)
            ended->no_memory |= !kb_vec_push(&ended->list, ((ended_step){e->now, kind, rank, e->step}));
        ka_close_step(e);
        e->step = step;
    }
    e->now += by;
}

/* In the order of ranks. False: out of memory. */
static bool offer_steps(ka_cause_search *all, ended_steps *ended)
{
    bool ok = !ended->no_memory;
    for (size_t i = 0; i < ended->list.count && ok; i++) {
        const ended_step *e = &ended->list.data[i];
        ok = ka_leads_offer(&all->leads, e->kind, e->step, e->excess, e->rank);
    }
    all->first_step = KB_MIN(all->first_step, ended->first);
    all->last_step = KB_MAX(all->last_step, ended->last);
    kb_vec_free(&ended->list);
    return ok;
}

void ka_close_step(ka_step_excess *e)
{
    e->sum += fmax(e->now, 0);
    e->count += e->step != UINT32_MAX;
    if (e->step != UINT32_MAX && e->now > e->most) {
        e->most = e->now;
        e->most_step = e->step;
    }
    e->now = 0;
}

/* The end of a rank is of its last step. */
static uint32_t step_of_row(const ka_rank_model *m, uint32_t rank, uint32_t row)
{
    bool is_end = (ka_model_row(m, row)->flags & KA_COMM_LAST) && row > m->base[rank];
    return ka_model_row(m, is_end ? row - 1 : row)->step;
}

/* Adds what a row is beyond its like, ns, to the sums of its rank and of its step. */
static void add_row_excess(searching *s, ended_steps *ended, uint32_t rank, uint32_t row)
{
    double device = ka_row_excess(&s->trials, row, false), host = ka_row_excess(&s->trials, row, true);
    uint32_t step = step_of_row(s->m, rank, row);
    s->excess[0][rank] += device;
    s->excess[1][rank] += host;
    if (step == UINT32_MAX)
        return;
    ended->first = KB_MIN(ended->first, step);
    ended->last = KB_MAX(ended->last, step);
    add_step(s->all, ended, KA_LEADS_DEVICE, rank, step, device);
    add_step(s->all, ended, KA_LEADS_HOST, rank, step, host);
}

/* A ka_lane_work by ranks. */
static void add_rank_excess(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    searching *s = context;
    for (uint32_t rank = first; rank < end; rank++) {
        for (uint32_t row = s->m->base[rank]; row < s->m->base[rank + 1]; row++)
            if (s->trials.usual.place[row] != KA_NONE)
                add_row_excess(s, &s->ended[lane], rank, row);
        s->all->device_excess[rank] += s->excess[0][rank];
        s->all->host_excess[rank] += s->excess[1][rank];
    }
}

/* Adds what the window has to the sums of the run, by which places are found. */
static bool add_link_excess(searching *s)
{
    const ka_rank_model *m = s->m;
    bool ok = true;
    for (size_t i = 0; i < m->instances.count && ok; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (s->trials.slow[i] > 0 && x->step != UINT32_MAX)
            ok = ka_leads_add_transfer(&s->all->leads, x->step, s->trials.slow[i], x->group);
    }
    for (size_t g = 0; g < m->groups.count; g++) {
        ka_link_use *to = &s->all->link_use[g];
        const ka_link_use *by = &s->trials.use[g];
        to->lone_ns += by->lone_ns;
        to->compared_ns += by->compared_ns;
        to->usual_ns += by->usual_ns;
        to->slow_ns += by->slow_ns;
    }
    return ok;
}

/* What it saves is set when it is tried. */
static bool push_candidate(searching *s, ka_trial_of of)
{
    bool of_link = of.kind == KA_CAUSE_LINK;
    ka_rank_cause c = {.kind = of.kind,
                       .rank = of_link ? KA_NONE : of.index,
                       .group = KA_NONE,
                       .clock = KA_NONE,
                       .other = KA_NONE,
                       .step = of.kind == KA_CAUSE_STEP ? of.step : UINT32_MAX,
                       .of = of};
    return kb_vec_push(&s->list, c);
}

/* What a rank has in single steps is tried by itself. Processes that share processors have such steps anyway. */
static bool set_steps_apart(searching *s, uint32_t rank, bool of_host)
{
    bool ok = ka_set_steps_apart(&s->trials, rank, of_host, MIN_PART_SHARE * (double)s->length_ns, &s->steps);
    for (size_t i = 0; i < s->steps.count && ok; i++) {
        ka_trial_of of = {.kind = KA_CAUSE_STEP, .of_host = of_host, .index = rank, .step = s->steps.data[i]};
        ok = push_candidate(s, of);
        s->list.data[s->list.count - 1].excess_ns = (int64_t)ka_step_excess_of(&s->trials, &of);
    }
    return ok;
}

static bool add_excess(searching *s)
{
    const ka_rank_model *m = s->m;
    bool ok = true;
    for (uint32_t rank = 0; rank < m->rank_count && ok; rank++)
        if (s->all->is_whole && !m->facts[rank]->on_host)
            ok = set_steps_apart(s, rank, false) && set_steps_apart(s, rank, true);
    for (uint32_t i = 0; i < KA_LANES; i++)
        s->ended[i].first = UINT32_MAX;
    ka_run_lanes(add_rank_excess, s, m->rank_count, m->row_count);
    for (uint32_t i = 0; i < KA_LANES; i++)
        ok &= offer_steps(s->all, &s->ended[i]);
    return ok && add_link_excess(s);
}

/* ---- candidates of a window ------------------------------------------------------------------ */

/* A sparse window tries one candidate of each kind, and only if its excess is the share of the window that a cause must
 * have at least: smaller ones are tried in full windows only. */
static uint32_t candidate_limit(const searching *s) { return s->all->is_sparse ? SPARSE_CANDIDATES : MAX_CANDIDATES; }

static double candidate_least(const searching *s) { return s->all->is_sparse ? MIN_PART_SHARE * (double)s->length_ns : 0; }

/* Ranks with the largest excess. */
static bool list_ranks(searching *s, ka_cause_kind kind, const double *excess)
{
    uint32_t best[MAX_CANDIDATES], n = 0, most = candidate_limit(s);
    for (uint32_t i = 0; i < s->m->rank_count; i++) {
        uint32_t at = n;
        while (at > 0 && excess[best[at - 1]] < excess[i])
            at--;
        if (at == most || !(excess[i] > candidate_least(s)))
            continue;
        n = KB_MIN(n + 1, most);
        memmove(&best[at + 1], &best[at], (n - 1 - at) * sizeof *best);
        best[at] = i;
    }
    bool ok = true;
    for (uint32_t i = 0; i < n && ok; i++)
        ok = push_candidate(s, (ka_trial_of){.kind = kind, .index = best[i], .step = UINT32_MAX});
    return ok;
}

/* Places that explain the slow transfers of all windows so far, if they have some in this one. */
static bool list_links(searching *s)
{
    uint32_t best[MAX_CANDIDATES], n = ka_explain_slow_links(&s->all->places, s->all->link_use, (uint32_t)s->m->groups.count, best,
                                                             candidate_limit(s));
    bool ok = n != UINT32_MAX;
    for (uint32_t i = 0; ok && i < n; i++)
        if (ka_place_excess(&s->all->places, best[i], s->trials.use) > candidate_least(s))
            ok = push_candidate(s, (ka_trial_of){.kind = KA_CAUSE_LINK, .index = best[i], .step = UINT32_MAX});
    return ok;
}

static int compare_saved(const void *left, const void *right)
{
    const ka_rank_cause *a = left, *b = right;
    if (a->saved_ns != b->saved_ns)
        return a->saved_ns > b->saved_ns ? -1 : 1;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->of.index != b->of.index)
        return a->of.index < b->of.index ? -1 : 1;
    return a->step != b->step ? (a->step > b->step) - (a->step < b->step) : (a->of.of_host > b->of.of_host) - (a->of.of_host < b->of.of_host);
}

/* What candidates save that are none: the lower quartile of those of ranks. Ranks on hosts are candidates only if that
 * is beyond noise. In a healthy run all candidates save about as much; where some are causes, the quartile is still one
 * that is none. 0 for fewer than two. */
static int64_t find_noise(const searching *s)
{
    double saved[2 * MAX_CANDIDATES];
    size_t n = 0;
    for (size_t i = 0; i < s->list.count && n < KB_COUNT(saved); i++) {
        const ka_rank_cause *c = &s->list.data[i];
        if (c->rank != KA_NONE && c->kind != KA_CAUSE_STEP && !s->m->facts[c->rank]->on_host)
            saved[n++] = (double)KB_MAX(c->saved_ns, 0);
    }
    if (n < 2)
        return 0;
    qsort(saved, n, sizeof *saved, kb_compare_doubles);
    return (int64_t)saved[n / 4];
}

static uint64_t trial_key(const ka_trial_of *of)
{
    uint64_t key[] = {of->kind, of->of_host, of->index, of->step};
    return kb_hash(key, sizeof key);
}

static bool is_same_trial(const ka_trial_of *a, const ka_trial_of *b)
{
    return a->kind == b->kind && a->of_host == b->of_host && a->index == b->index && a->step == b->step;
}

static bool add_saved(ka_cause_search *all, const ka_rank_cause *c)
{
    bool created;
    uint64_t *at = kb_map_insert(&all->at, trial_key(&c->of), all->list.count, &created);
    if (!at || (created && !kb_vec_push(&all->list, *c)))
        return false;
    if (!created)
        all->list.data[*at].saved_ns += c->saved_ns;
    return true;
}

/* ---- candidates that are followed ------------------------------------------------------------ */

/* What one window saves may only show at the end of another one: large candidates are replayed from window to window. */

static ka_tracked_cause *find_tracked(ka_cause_search *all, const ka_trial_of *of)
{
    for (uint32_t i = 0; i < all->tracked_count; i++)
        if (is_same_trial(&all->tracked[i].of, of))
            return &all->tracked[i];
    return NULL;
}

/* In this window. Steps are set apart only where there is one. */
static double excess_here(const searching *s, const ka_trial_of *of)
{
    if (of->kind == KA_CAUSE_LINK)
        return ka_place_excess(&s->all->places, of->index, s->trials.use);
    return s->excess[of->kind == KA_CAUSE_HOST][of->index];
}

/* In all windows so far. */
static double excess_in_all(const ka_cause_search *s, const ka_trial_of *of)
{
    if (of->kind == KA_CAUSE_LINK)
        return ka_place_excess(&s->places, of->index, s->link_use);
    return (of->kind == KA_CAUSE_HOST ? s->host_excess : s->device_excess)[of->index];
}

static bool start_tracking(searching *s, const ka_trial_of *of)
{
    ka_cause_search *all = s->all;
    if (all->tracked_count == KA_MAX_TRACKED || find_tracked(all, of) ||
        excess_here(s, of) < MIN_PART_SHARE * (double)s->length_ns)
        return true;
    ka_tracked_cause *t = &all->tracked[all->tracked_count];
    *t = (ka_tracked_cause){.of = *of, .shifts = calloc((size_t)s->m->rank_count * KA_CONTEXT_ROWS + 1, sizeof *t->shifts)};
    all->tracked_count += t->shifts != NULL;
    return t->shifts != NULL;
}

/* Adds those that are followed and not in the list, and begins to follow those of the list that are large. */
static bool list_tracked(searching *s)
{
    for (size_t i = 0; !s->all->is_whole && i < s->list.count; i++)
        if (!start_tracking(s, &s->list.data[i].of))
            return false;
    for (uint32_t i = 0; i < s->all->tracked_count; i++) {
        const ka_trial_of *of = &s->all->tracked[i].of;
        bool is_listed = false;
        for (size_t k = 0; k < s->list.count; k++)
            is_listed |= is_same_trial(&s->list.data[k].of, of);
        if (!is_listed && !push_candidate(s, *of))
            return false;
    }
    return true;
}

/* Those whose excess so far is less than half of what a cause must have make room for others: at
 * most KA_MAX_TRACKED are followed. */
static void drop_tracked(ka_cause_search *all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->tracked_count; i++) {
        ka_tracked_cause *t = &all->tracked[i];
        if (excess_in_all(all, &t->of) < MIN_PART_SHARE / 2 * (double)all->length_ns)
            free(t->shifts);
        else
            all->tracked[kept++] = *t;
    }
    all->tracked_count = kept;
}

/* Sets what a candidate saves in this window. One that is followed is replayed with the times of its own replays of the
 * windows before, so that ka_try_without returns what it saved up to here. */
static void try_candidate(searching *s, ka_rank_cause *c)
{
    ka_tracked_cause *tracked = find_tracked(s->all, &c->of);
    c->saved_ns = ka_try_without(&s->trials, &c->of, tracked ? tracked->shifts : NULL);
    if (tracked) { /* what was saved in this window */
        int64_t before = tracked->saved_ns;
        tracked->saved_ns = c->saved_ns;
        c->saved_ns -= before;
    }
}

/* Full windows also give the noise, with the length that it is of: select_causes scales it to
 * the run. False: out of memory. */
static bool try_candidates(searching *s)
{
    bool ok = list_ranks(s, KA_CAUSE_DEVICE, s->excess[0]) && list_ranks(s, KA_CAUSE_HOST, s->excess[1]) && list_links(s) &&
              list_tracked(s);
    for (size_t i = 0; ok && i < s->list.count; i++) {
        try_candidate(s, &s->list.data[i]);
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

/* The length of a window is from the end of the one before it, of the first one from the begin of the run. If the
 * replay of the unchanged window differs from the recording by more than EXACT_SHARE of it, nothing is tried: what the
 * model does not explain it cannot predict. False: out of memory. */
static bool search_window(searching *s)
{
    const ka_rank_model *m = s->m;
    size_t ranks = (size_t)m->rank_count + 1;
    for (int i = 0; i < 2; i++)
        s->excess[i] = calloc(ranks, sizeof *s->excess[i]);
    if (!s->excess[0] || !s->excess[1] || (!s->all->places.is_made && !ka_list_link_places(m, &s->all->places)) ||
        !ka_open_trials(m, &s->all->places, &s->trials))
        return false;
    int64_t recorded = ka_recorded_length(m);
    s->length_ns = recorded - (s->all->is_begun ? s->all->until_ns : ka_run_begin(m));
    s->all->length_ns += s->length_ns;
    s->all->until_ns = recorded;
    s->all->is_begun = true;
    if (!add_excess(s))
        return false;
    int64_t apart = llabs(s->trials.replayed_ns - recorded);
    s->all->apart_ns += apart;
    return apart > (int64_t)(EXACT_SHARE * (double)s->length_ns) || try_candidates(s);
}

bool ka_cause_search_add(ka_cause_search *all, const ka_rank_model *m)
{
    searching s = {.m = m, .all = all, .trials.replay = all->replay};
    bool ok = search_window(&s);
    all->replay = s.trials.replay;
    s.trials.replay = (ka_replay){0};
    ka_close_trials(&s.trials);
    free(s.excess[0]);
    free(s.excess[1]);
    kb_vec_free(&s.steps);
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
    s->link_use = calloc(m->groups.count + 1, sizeof *s->link_use);
    for (size_t i = 0; s->device_steps && s->host_steps && i < ranks; i++)
        s->device_steps[i].step = s->host_steps[i].step = UINT32_MAX;
    return s->device_steps && s->host_steps && s->device_excess && s->host_excess && s->link_use;
}

void ka_cause_search_free(ka_cause_search *s)
{
    ka_replay_free(&s->replay);
    free(s->device_steps);
    free(s->host_steps);
    free(s->device_excess);
    free(s->host_excess);
    ka_link_places_free(&s->places);
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
    if (c->kind == KA_CAUSE_LINK || c->kind == KA_CAUSE_STEP || s->first_step == UINT32_MAX || s->last_step - s->first_step + 1 < MIN_STEPS)
        return;
    ka_step_excess e = c->kind == KA_CAUSE_DEVICE ? s->device_steps[c->rank] : s->host_steps[c->rank];
    if (e.count >= MIN_STEPS && e.most > STEP_SHARE * e.sum) {
        c->kind = KA_CAUSE_STEP;
        c->step = e.most_step;
    }
}

static void count_leads(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->kind != KA_CAUSE_LINK) {
        bool of_host = c->kind == KA_CAUSE_HOST || (c->kind == KA_CAUSE_STEP && c->of.of_host);
        c->leads = ka_leads_of(&s->leads, of_host ? KA_LEADS_HOST : KA_LEADS_DEVICE, c->of.index);
        return;
    }
    for (uint32_t i = 0; i < s->places.list.data[c->of.index].count; i++)
        c->leads += ka_leads_of(&s->leads, KA_LEADS_LINK, ka_place_groups(&s->places, c->of.index)[i]);
}

/* What is slow, for those that do not know places. */
static void name_place(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->kind != KA_CAUSE_LINK)
        return;
    const ka_link_place *p = &s->places.list.data[c->of.index];
    c->place = p->kind;
    c->group = ka_place_groups(&s->places, c->of.index)[0];
    if (p->kind == KA_PLACE_HOST_PAIR || p->kind == KA_PLACE_HOST)
        c->clock = p->a;
    if (p->kind == KA_PLACE_HOST_PAIR)
        c->other = p->b;
}

/* What a host computes is not of a device. */
static void name_kind(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->kind == KA_CAUSE_DEVICE && s->m->facts[c->rank]->on_host)
        c->kind = KA_CAUSE_HOST;
}

/* The rest of what is reported of a cause that saves enough. */
static void describe_cause(const ka_cause_search *s, ka_rank_cause *c)
{
    if (c->kind != KA_CAUSE_STEP)
        c->excess_ns = (int64_t)excess_in_all(s, &c->of);
    count_leads(s, c);
    find_step(s, c);
    name_kind(s, c);
    name_place(s, c);
}

/* Windows try places by the transfers read so far. Kept are those that explain the slow transfers of all windows
 * together. False: out of memory. */
static bool drop_unexplained_links(ka_cause_search *s)
{
    uint32_t best[MAX_CANDIDATES], n = ka_explain_slow_links(&s->places, s->link_use, (uint32_t)s->m->groups.count, best, MAX_CANDIDATES);
    size_t kept = 0;
    for (size_t i = 0; n != UINT32_MAX && i < s->list.count; i++) {
        const ka_rank_cause *c = &s->list.data[i];
        bool is_kept = c->kind != KA_CAUSE_LINK;
        for (uint32_t k = 0; k < n; k++)
            is_kept |= c->of.index == best[k];
        if (is_kept)
            s->list.data[kept++] = *c;
    }
    s->list.count = kept;
    return n != UINT32_MAX;
}

/* Keeps what saves MIN_PART_SHARE of the run or more and three times the noise, most first. `out` takes over
 * the list. False: out of memory. */
static bool select_causes(ka_cause_search *s, ka_rank_causes *out)
{
    if (s->list.count && !drop_unexplained_links(s))
        return false;
    if (s->list.count)
        qsort(s->list.data, s->list.count, sizeof *s->list.data, compare_saved);
    if (s->noise_length_ns == out->length_ns)
        out->noise_ns = s->noise_ns;
    else if (s->noise_length_ns > 0)
        out->noise_ns = (int64_t)((double)s->noise_ns * (double)out->length_ns / (double)s->noise_length_ns);
    double least = fmax(MIN_PART_SHARE * (double)out->length_ns, 3 * (double)out->noise_ns);
    size_t kept = 0;
    out->steps = ka_leads_step_count(&s->leads);
    for (; kept < s->list.count && (double)s->list.data[kept].saved_ns >= least; kept++)
        describe_cause(s, &s->list.data[kept]);
    out->list.data = s->list.data;
    out->list.count = kept;
    out->list.capacity = s->list.capacity;
    s->list.data = NULL;
    s->list.count = s->list.capacity = 0;
    return true;
}

/* The last step of each rank has ended. */
static bool close_steps(ka_cause_search *s)
{
    ended_steps ended = {.first = UINT32_MAX};
    for (uint32_t rank = 0; rank < s->m->rank_count; rank++) {
        add_step(s, &ended, KA_LEADS_DEVICE, rank, UINT32_MAX, 0);
        add_step(s, &ended, KA_LEADS_HOST, rank, UINT32_MAX, 0);
    }
    return offer_steps(s, &ended);
}

static int compare_lone(const void *left, const void *right)
{
    const ka_lone_links *a = left, *b = right;
    return a->transfer_ns != b->transfer_ns ? KB_COMPARE(b->transfer_ns, a->transfer_ns) : KB_COMPARE(a->group, b->group);
}

/* Groups of a kind within a host have other links than those of several hosts. */
static size_t kind_of_links(const ka_cause_search *s, uint32_t group)
{
    const ka_link_places *p = &s->places;
    bool spans_hosts = p->is_made && p->host_first[group + 1] - p->host_first[group] > 1;
    return 2 * (size_t)s->m->groups.data[group].kind + spans_hosts;
}

/* Lists kinds of groups most of whose transfers nothing could be compared with: of each the group with most of them.
 * False: out of memory. */
#define MIN_LONE_SHARE 0.01 /* of the run */
static bool list_lone_links(const ka_cause_search *s, ka_rank_causes *out)
{
    const ka_rank_model *m = s->m;
    size_t kinds = 2 * m->groups.count;
    ka_lone_links *most = calloc(kinds + 1, sizeof *most);                /* by kind_of_links */
    double *uncompared_ns = calloc(kinds + 1, sizeof *uncompared_ns); /* beyond those that are compared */
    bool ok = most && uncompared_ns;
    for (uint32_t g = 0; ok && g < m->groups.count; g++) {
        const ka_link_use *use = &s->link_use[g];
        size_t kind = kind_of_links(s, g);
        uncompared_ns[kind] += use->lone_ns - use->compared_ns;
        if (use->lone_ns > (double)most[kind].transfer_ns)
            most[kind] = (ka_lone_links){g, (int64_t)use->lone_ns};
    }
    for (size_t kind = 0; ok && kind < kinds; kind++)
        if (uncompared_ns[kind] > 0 && (double)most[kind].transfer_ns > MIN_LONE_SHARE * (double)s->length_ns)
            ok = kb_vec_push(&out->lone, most[kind]);
    if (out->lone.count)
        qsort(out->lone.data, out->lone.count, sizeof *out->lone.data, compare_lone);
    free(most);
    free(uncompared_ns);
    return ok;
}

/* The rank that the note names by durations alone ("One clock" in ranks.md). */
#define MIN_LONGEST_SHARE 0.01 /* of the run */
#define MIN_LONGEST_RATIO 3    /* to the next one */

/* Durations of a trace need no other clock, so that a rank which computes longer is known where clocks are refused.
 * Whether others wait for it, is not. A clock that was set makes one step longer: it must be so in three quarters of
 * the steps. The length of the search adds up all domains (hosts), so that their mean is that of the run. */
static void find_longest(const ka_cause_search *s, ka_rank_causes *out)
{
    double most = 0, next = 0;
    ka_rank_cause longest = {.kind = KA_CAUSE_DEVICE, .group = KA_NONE};
    for (uint32_t r = 0; r < s->m->rank_count; r++) {
        double excess = s->device_excess[r];
        next = fmax(next, fmin(excess, most));
        if (excess > most) {
            most = excess;
            longest.rank = longest.of.index = r;
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
    *out = (ka_rank_causes){.length_ns = s->length_ns, .apart_ns = s->apart_ns};
    if (!close_steps(s) || !list_lone_links(s, out))
        return false;
    if (s->m->refused[0])
        find_longest(s, out);
    if (s->apart_ns > (int64_t)(EXACT_SHARE * (double)s->length_ns))
        (void)snprintf(out->refused, sizeof out->refused, "the model does not explain this run: of %s it computes %s differently",
                       kb_duration(s->length_ns).s, kb_duration(s->apart_ns).s);
    else
        return select_causes(s, out);
    return true;
}

void ka_rank_causes_free(ka_rank_causes *c)
{
    kb_vec_free(&c->list);
    kb_vec_free(&c->lone);
}
