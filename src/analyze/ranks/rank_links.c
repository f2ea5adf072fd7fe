/* Transfers that take longer than those of groups that are alike.
 *
 * A transfer is the time of a whole instance from its last arrival to its end, on its fastest rank, in
 * ns. It is compared with the median of each group of its like: same kind of group, operation, size,
 * members, and within a host or not. */
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
    uint64_t *layout;    /* by group: equal for groups whose members have the same distances; 0: not known yet */
} slow_search;

/* Are its members on several hosts? Transfers within and between hosts are not alike. */
static bool spans_hosts(const ka_rank_model *m, const ka_instance *x)
{
    for (uint32_t i = 1; i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != m->clock_of[m->rank_of[m->members[x->first]]])
            return true;
    return false;
}

/* The transfer of the rank that has the shortest one, ns: what the link takes at least. */
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
    uint32_t *group_count;  /* by index of `like` */
    bool *is_compared;      /* by index of `like`: there are several groups, and no host that all of them have */
    uint32_t like_count;
} transfer_search;

/* Processes of one host have no link between them. */
static bool is_link(const slow_search *s, size_t index)
{
    const ka_instance *x = &s->m->instances.data[index];
    return s->spans_hosts[index] || !s->m->facts[s->m->rank_of[s->m->members[x->first]]]->on_host;
}

/* What groups without a description have in common if they are of one layout: the distances of their members. */
static uint64_t layout_of(slow_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    int32_t first = m->facts[m->rank_of[m->members[x->first]]]->rank;
    uint64_t sum = s->layout[x->group];
    for (uint32_t i = 0; !s->layout[x->group] && i < x->count; i++) {
        int32_t distance = m->facts[m->rank_of[m->members[x->first + i]]]->rank - first;
        sum = kb_hash_seeded(sum, (const char *)&distance, sizeof distance);
    }
    return s->layout[x->group] = sum | 1;
}

/* Is the size of its rows known? A barrier needs none. Calls of a group whose sizes are not known are compared
 * with the same call of other steps. */
static bool has_size(const ka_rank_model *m, const ka_instance *x)
{
    for (uint32_t i = 0; i < x->count; i++)
        if (ka_model_row(m, m->members[x->first + i])->elements)
            return true;
    return x->op == KA_OP_BARRIER;
}

/* Equal for transfers that should take as long as each other. Groups without a description must have the same layout;
 * calls without a size, or of groups without a name, are compared within their group only. False: there is nothing
 * that they are known to be like. */
static bool hash_likeness(slow_search *s, size_t index, uint64_t *out)
{
    const ka_rank_model *m = s->m;
    const ka_instance *x = &m->instances.data[index];
    const ka_rank_group *g = &m->groups.data[x->group];
    const ka_comm *c = ka_model_row(m, m->members[x->first]);
    bool is_sized = has_size(m, x), is_named = g->name.size || g->description.size || ka_is_message(x->op);
    if (!is_sized && !ka_is_counted(c))
        return false;
    uint64_t key[] = {g->kind,
                      x->op,
                      x->op == KA_OP_ALL_TO_ALL ? 0 : c->elements,
                      x->size,
                      s->spans_hosts[index],
                      ka_is_described(g) || ka_is_message(x->op) ? 0 : layout_of(s, x),
                      is_sized && is_named ? 0 : 1 + (uint64_t)x->group,
                      is_sized ? 0 : 1 + (uint64_t)x->sequence};
    *out = kb_hash(key, sizeof key);
    return true;
}

/* Sets for each whole instance the group of its like (transfers) that it is in; KA_NONE: it is not
 * compared. False: out of memory. */
static bool place_transfers(slow_search *s, transfer_search *t)
{
    const ka_rank_model *m = s->m;
    kb_map likes = {0}, groups = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        t->of[i] = KA_NONE;
        uint64_t likeness[] = {0, 0};
        if (!ka_is_joined(x) || !(x->flags & KA_INSTANCE_WHOLE) || !is_link(s, i) || !hash_likeness(s, i, likeness))
            continue;
        uint64_t *like = kb_map_insert(&likes, kb_hash(likeness, sizeof likeness), likes.count, NULL);
        likeness[1] = 1 + (uint64_t)x->group;
        bool created;
        uint64_t *at = like ? kb_map_insert(&groups, kb_hash(likeness, sizeof likeness), t->groups.count, &created) : NULL;
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

/* By the line of transfer over size of all that are alike: what each takes beyond one of mean size. Pools whose sizes
 * differ too little for a line are compared as they are. */
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

/* A host that all groups have makes all of them slow: what is usual on its links, the run does not show. Links within a host
 * differ from group to group.
 * @param seen  by clock: zeros, also afterwards */
static bool differ_in_hosts(const slow_search *s, const alike *list, size_t count, uint32_t *seen)
{
    const ka_link_places *p = s->places;
    uint32_t most = 0;
    bool is_within_host = true;
    for (size_t k = 0; k < count; k++) {
        uint32_t group = list[k].group;
        is_within_host &= p->host_first[group + 1] - p->host_first[group] < 2;
        for (uint32_t i = p->host_first[group]; i < p->host_first[group + 1]; i++)
            most = KB_MAX(most, ++seen[p->hosts[i]]);
    }
    for (size_t k = 0; k < count; k++)
        for (uint32_t i = p->host_first[list[k].group]; i < p->host_first[list[k].group + 1]; i++)
            seen[p->hosts[i]] = 0;
    return is_within_host || most < count;
}

/* Sets what is usual of each like, from the middles of its groups. False: out of memory. */
static bool find_usual_transfers(const slow_search *s, transfer_search *t)
{
    size_t n = t->groups.count;
    uint32_t *seen = calloc(s->m->clocks.count + 1, sizeof *seen);
    alike *list = malloc((n + 1) * sizeof *list);
    for (size_t i = 0; list && i < n; i++)
        list[i] = (alike){t->groups.data[i].like, t->groups.data[i].group, t->groups.data[i].middle};
    if (list && n)
        qsort(list, n, sizeof *list, compare_alike);
    for (size_t i = 0, next; list && i < n; i = next) {
        for (next = i + 1; next < n && list[next].like == list[i].like; next++)
            ;
        t->usual[list[i].like] = usual_of(s, list + i, next - i, FAR_DEVIATIONS * t->spread[list[i].like] + FAR_NS);
        t->group_count[list[i].like] = (uint32_t)(next - i);
        t->is_compared[list[i].like] = seen && next - i > 1 && differ_in_hosts(s, list + i, next - i, seen);
    }
    free(seen);
    free(list);
    return list && seen;
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

/* Sets `slow`, ns: what a transfer takes beyond what is usual, if it is far beyond, or if the median of its group is.
 * In a slow group all that is longer than usual counts. */
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

/* Adds up transfers by group: usual and slow ones of groups that have a like, and those that could not be compared. */
static void add_link_use(const slow_search *s, const transfer_search *t, ka_link_use *use)
{
    for (size_t i = 0; i < s->m->instances.count; i++) {
        const ka_instance *x = &s->m->instances.data[i];
        ka_link_use *u = &use[x->group];
        uint32_t like = t->of[i] == KA_NONE ? KA_NONE : t->groups.data[t->of[i]].like;
        u->slow_ns += s->slow[i];
        if (like != KA_NONE && t->group_count[like] > 1)
            u->usual_ns += t->usual[like];
        if (like != KA_NONE && t->is_compared[like])
            u->compared_ns += fmax(s->transfer_ns[i], 0);
        else if (is_link(s, i) && ka_is_joined(x) && x->count > 1 && (like != KA_NONE || ka_is_synchronizing(x->op)))
            u->lone_ns += fmax(least_transfer(s, x), 0);
    }
}

bool ka_find_slow_transfers(const ka_replay *r, const ka_link_places *places, double *slow, ka_link_use *use)
{
    size_t n = r->m->instances.count;
    slow_search s = {.m = r->m, .replay = r, .places = places, .slow = slow,
                     .transfer_ns = malloc((n + 1) * sizeof *s.transfer_ns),
                     .spans_hosts = malloc((n + 1) * sizeof *s.spans_hosts),
                     .layout = calloc(r->m->groups.count + 1, sizeof *s.layout)};
    transfer_search t = {.of = malloc((n + 1) * sizeof *t.of),
                         .usual = calloc(n + 1, sizeof *t.usual),
                         .spread = calloc(n + 1, sizeof *t.spread),
                         .group_count = calloc(n + 1, sizeof *t.group_count),
                         .is_compared = calloc(n + 1, sizeof *t.is_compared)};
    bool ok = t.of && t.usual && t.spread && t.group_count && t.is_compared && s.transfer_ns && s.spans_hosts && s.layout;
    if (ok)
        ka_run_lanes(measure_transfers, &s, (uint32_t)n, r->m->row_count);
    ok = ok && place_transfers(&s, &t) && find_size_parts(&s, &t) && describe_transfers(&s, &t);
    if (ok)
        mark_slow_transfers(&s, &t);
    if (ok)
        add_link_use(&s, &t, use);
    kb_vec_free(&t.groups);
    free(s.transfer_ns);
    free(s.spans_hosts);
    free(s.layout);
    free(t.group_count);
    free(t.is_compared);
    free(t.of);
    free(t.usual);
    free(t.spread);
    return ok;
}
