/* Transfers that take longer than those of groups that are alike. */
#include "analyze/ranks/rank_links.h"
#include "analyze/ranks/rank_usual.h"

#include <math.h>

#define FAR_DEVIATIONS 6.0   /* a transfer beyond these, … */
#define FAR_NS         2000  /* … and by this, is slow */

typedef struct slow_search {
    const ka_rank_model *m;
    const ka_replay *replay;
    const ka_link_places *places;
    double *slow;
    double *transfer_ns; /* by instance: of its fastest rank, as if it were as large as its like */
    bool *spans_hosts;   /* by instance */
} slow_search;

/* Does a group lie within one host? Transfers within and between hosts are not alike. */
static bool spans_hosts(const ka_rank_model *m, const ka_instance *x)
{
    for (uint32_t i = 1; i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != m->clock_of[m->rank_of[m->members[x->first]]])
            return true;
    return false;
}

static double least_transfer(const slow_search *s, const ka_instance *x)
{
    int64_t least = INT64_MAX;
    for (uint32_t i = 0; i < x->count; i++)
        least = KB_MIN(least, s->replay->rows[s->m->members[x->first + i]].transfer_ns);
    return (double)least;
}

/* A ka_lane_work by instances: their rows lie far apart in memory, and are read once here. */
static void measure_transfers(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    slow_search *s = context;
    (void)lane;
    for (uint32_t i = first; i < end; i++) {
        s->transfer_ns[i] = least_transfer(s, &s->m->instances.data[i]);
        s->spans_hosts[i] = spans_hosts(s->m, &s->m->instances.data[i]);
    }
}

/* Transfers of one group of an instance's kind and size. */
typedef struct transfers {
    uint32_t like; /* groups with equal ones are compared */
    uint32_t group;
    double middle, spread;
} transfers;
typedef struct transfer_search {
    KB_VEC(transfers) groups;
    uint32_t *of;           /* by instance: index of groups; KA_NONE */
    double *usual, *spread; /* by index of `like` */
    uint32_t like_count;
} transfer_search;

static bool place_transfers(const slow_search *s, transfer_search *t)
{
    const ka_rank_model *m = s->m;
    kb_map likes = {0}, groups = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        t->of[i] = KA_NONE;
        bool is_link = s->spans_hosts[i] || !m->facts[m->rank_of[m->members[x->first]]]->on_host;
        if (!ka_is_joined(x) || !(x->flags & KA_INSTANCE_WHOLE) || !is_link) /* processes of one host have no link between them */
            continue;
        const ka_comm *c = ka_model_row(m, m->members[x->first]);
        uint64_t key[] = {m->groups.data[x->group].kind, x->op, x->op == KA_OP_ALL_TO_ALL ? 0 : c->elements,
                          x->size, s->spans_hosts[i], 0};
        uint64_t *like = kb_map_insert(&likes, kb_hash(key, sizeof key), likes.count, NULL);
        key[5] = 1 + (uint64_t)x->group;
        bool created;
        uint64_t *at = like ? kb_map_insert(&groups, kb_hash(key, sizeof key), t->groups.count, &created) : NULL;
        ok = at && (!created || kb_vec_push(&t->groups, (transfers){.like = (uint32_t)*like, .group = x->group}));
        t->of[i] = at ? (uint32_t)*at : KA_NONE;
    }
    t->like_count = (uint32_t)likes.count;
    kb_map_free(&likes);
    kb_map_free(&groups);
    return ok;
}

/* ---- sizes that differ by design ------------------------------------------------------------- */

/* An all-to-all takes as long as the rank with most to send or to receive. */
static double size_of(const ka_rank_model *m, const ka_instance *x)
{
    double most = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        const ka_comm *c = ka_model_row(m, m->members[x->first + i]);
        most = fmax(most, fmax((double)c->elements, (double)c->received));
    }
    return most;
}

static int compare_sized(const void *left, const void *right)
{
    const ka_sized *a = left, *b = right;
    if (a->pool != b->pool)
        return a->pool < b->pool ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* By the line of transfer over size of all that are alike: what each takes beyond one of mean size. */
static bool find_size_parts(slow_search *s, const transfer_search *t)
{
    const ka_rank_model *m = s->m;
    ka_sized *list = malloc((m->instances.count + 1) * sizeof *list);
    size_t count = 0;
    for (size_t i = 0; list && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (t->of[i] != KA_NONE && x->op == KA_OP_ALL_TO_ALL)
            list[count++] = (ka_sized){t->groups.data[t->of[i]].like, (uint32_t)i, size_of(m, x), least_transfer(s, x)};
    }
    if (count)
        qsort(list, count, sizeof *list, compare_sized);
    for (size_t i = 0, next; i < count; i = next) {
        double slope, rest;
        for (next = i + 1; next < count && list[next].pool == list[i].pool; next++)
            ;
        if (!ka_fit_sizes(list + i, next - i, &slope, &rest))
            continue;
        double mean = 0;
        for (size_t k = i; k < next; k++)
            mean += list[k].size / (double)(next - i);
        for (size_t k = i; k < next; k++)
            s->transfer_ns[list[k].index] -= slope * (list[k].size - mean);
    }
    free(list);
    return list != NULL;
}

/* ---- what is usual ---------------------------------------------------------------------------- */

/* Groups of one like, by their middles, ns. */
typedef struct alike {
    uint32_t like, group;
    double middle;
} alike;

static int compare_alike(const void *left, const void *right)
{
    const alike *a = left, *b = right;
    if (a->like != b->like)
        return a->like < b->like ? -1 : 1;
    if (a->middle != b->middle)
        return a->middle < b->middle ? -1 : 1;
    return (a->group > b->group) - (a->group < b->group);
}

/* Is there a host that all slow groups have, and no fast one? */
static bool has_common_host(const slow_search *s, const alike *list, size_t fast, size_t count)
{
    const ka_link_places *p = s->places;
    for (uint32_t i = p->host_first[list[fast].group]; i < p->host_first[list[fast].group + 1]; i++) {
        size_t fits = 0;
        for (size_t k = 0; k < count; k++)
            fits += ka_group_has_host(p, list[k].group, p->hosts[i]) == (k >= fast);
        if (fits == count)
            return true;
    }
    return false;
}

/* The middle of groups that are alike; of an even number the lower one, since no link is faster than it is built. If most
 * groups have a host in common, and all of these are slower than all others, the others are as fast as is usual. */
static double usual_of(const slow_search *s, const alike *list, size_t count, double far)
{
    enum { MIN_FAST = 2 };
    for (size_t fast = MIN_FAST; 2 * fast < count; fast++)
        if (list[fast].middle - list[fast - 1].middle > far && has_common_host(s, list, fast, count))
            return list[(fast - 1) / 2].middle;
    return list[(count - 1) / 2].middle;
}

/* Sets what is usual of each like, from the middles of its groups. False: out of memory. */
static bool find_usual_transfers(const slow_search *s, transfer_search *t)
{
    size_t n = t->groups.count;
    alike *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = (alike){t->groups.data[i].like, t->groups.data[i].group, t->groups.data[i].middle};
    if (list && n)
        qsort(list, n, sizeof *list, compare_alike);
    for (size_t i = 0, next; list && i < n; i = next) {
        for (next = i + 1; next < n && list[next].like == list[i].like; next++)
            ;
        t->usual[list[i].like] = usual_of(s, list + i, next - i, FAR_DEVIATIONS * t->spread[list[i].like] + FAR_NS);
    }
    free(list);
    return list != NULL;
}

/* Middle and spread of each group, and of these the usual ones of groups that are alike. */
static bool describe_transfers(const slow_search *s, transfer_search *t)
{
    size_t count = 0, n = s->m->instances.count;
    ka_valued *list = malloc((KB_MAX(n, t->groups.count) + 1) * sizeof *list);
    double *middle = calloc(t->groups.count + 1, sizeof *middle), *spread = calloc(t->groups.count + 1, sizeof *spread);
    bool ok = list && middle && spread;
    for (size_t i = 0; ok && i < n; i++)
        if (t->of[i] != KA_NONE)
            list[count++] = (ka_valued){t->of[i], s->transfer_ns[i]};
    if (ok && count) {
        ka_find_middles(list, count, middle);
        for (size_t i = 0; i < count; i++)
            list[i].value = fabs(list[i].value - middle[list[i].like]);
        ka_find_middles(list, count, spread);
        for (size_t i = 0; i < t->groups.count; i++) {
            t->groups.data[i].middle = middle[i];
            list[i] = (ka_valued){t->groups.data[i].like, t->groups.data[i].spread = spread[i]};
        }
        ka_find_middles(list, t->groups.count, t->spread);
        ok = find_usual_transfers(s, t);
    }
    free(list);
    free(middle);
    free(spread);
    return ok;
}

static void mark_slow_transfers(slow_search *s, const transfer_search *t)
{
    for (size_t i = 0; i < s->m->instances.count; i++) {
        if (t->of[i] == KA_NONE)
            continue;
        const transfers *g = &t->groups.data[t->of[i]];
        double usual = t->usual[g->like], far = FAR_DEVIATIONS * t->spread[g->like] + FAR_NS;
        double more = s->transfer_ns[i] - usual;
        s->slow[i] = more > 0 && (more > far || g->middle - usual > far) ? more : 0;
    }
}

static bool add_link_use(const slow_search *s, const transfer_search *t, ka_link_use *use)
{
    const ka_rank_model *m = s->m;
    uint32_t *groups = calloc((size_t)t->like_count + 1, sizeof *groups); /* by like */
    for (size_t i = 0; groups && i < t->groups.count; i++)
        groups[t->groups.data[i].like]++;
    for (size_t i = 0; groups && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        bool is_link = s->spans_hosts[i] || !m->facts[m->rank_of[m->members[x->first]]]->on_host;
        use[x->group].slow_ns += s->slow[i];
        if (t->of[i] != KA_NONE && groups[t->groups.data[t->of[i]].like] > 1) {
            use[x->group].is_compared = true;
            use[x->group].usual_ns += t->usual[t->groups.data[t->of[i]].like];
        } else if (is_link && ka_is_joined(x) && x->count > 1 && ka_is_synchronizing(x->op))
            use[x->group].lone_ns += fmax(least_transfer(s, x), 0);
    }
    free(groups);
    return groups != NULL;
}

bool ka_find_slow_transfers(const ka_replay *r, const ka_link_places *places, double *slow, ka_link_use *use)
{
    size_t n = r->m->instances.count;
    slow_search s = {.m = r->m, .replay = r, .places = places, .slow = slow,
                     .transfer_ns = malloc((n + 1) * sizeof *s.transfer_ns),
                     .spans_hosts = malloc((n + 1) * sizeof *s.spans_hosts)};
    transfer_search t = {.of = malloc((n + 1) * sizeof *t.of),
                         .usual = calloc(n + 1, sizeof *t.usual),
                         .spread = calloc(n + 1, sizeof *t.spread)};
    bool ok = t.of && t.usual && t.spread && s.transfer_ns && s.spans_hosts;
    if (ok)
        ka_run_lanes(measure_transfers, &s, (uint32_t)n, r->m->row_count);
    ok = ok && place_transfers(&s, &t) && find_size_parts(&s, &t) && describe_transfers(&s, &t);
    if (ok)
        mark_slow_transfers(&s, &t);
    ok = ok && add_link_use(&s, &t, use);
    kb_vec_free(&t.groups);
    free(s.transfer_ns);
    free(s.spans_hosts);
    free(t.of);
    free(t.usual);
    free(t.spread);
    return ok;
}
