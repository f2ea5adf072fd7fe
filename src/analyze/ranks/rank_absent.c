/* Finds absent members of collectives, and when they came.
 *
 * Members are known by the lists that traces give of their groups, so that ranks without a trace are told apart. What an
 * absent rank did is not known: only that it came, and which collectives it had to leave before.
 *
 * The result is, for each instance that lacks rows, its absent members and when the last of them came, in ns on the
 * clock of the model (ka_absences). "What it cannot see" in ranks.md says what follows for savings. */
#include "analyze/ranks/rank_absent.h"
#include "analyze/ranks/rank_usual.h"

#include <math.h>

#define MAX_WORLD 65536u /* a header may say anything */
#define MAX_MEMBERS 4096u /* of a group that is looked through */

typedef struct absence_search {
    const ka_rank_model *m;
    ka_absences *a;
    uint32_t world;
    uint32_t *stamp;   /* by member: the group, or the instance, that was last found to have it, and 1 */
    uint32_t *first;      /* by group: its first member; and the end */
    KB_VEC(uint32_t) all; /* members of groups */
} absence_search;

/* ---- members of groups ----------------------------------------------------------------------- */

/* Members are numbered by their index among the ranks that have a trace; after these, by their number in the world. */
static uint32_t member_of_number(const absence_search *s, uint32_t number)
{
    uint32_t rank = ka_find_rank_index(s->m, (int32_t)number);
    return rank != KA_NONE ? rank : s->m->rank_count + number;
}

static bool add_absent_candidate(absence_search *s, uint32_t group, uint32_t member)
{
    if (s->stamp[member] == group + 1)
        return true;
    s->stamp[member] = group + 1;
    return kb_vec_push(&s->all, member);
}

/* "[0, 8, 16]"; an abbreviated list, or another text, has no number where one is expected. */
static bool add_listed_members(absence_search *s, uint32_t group, kineto_string text)
{
    uint32_t number = 0, count = 0;
    bool has_digit = false, ok = true;
    for (size_t i = 0; i < text.size && ok && count < MAX_MEMBERS; i++) {
        char c = text.data[i];
        if (c >= '0' && c <= '9' && number < MAX_WORLD) {
            number = number * 10 + (uint32_t)(c - '0');
            has_digit = true;
        } else if (has_digit) {
            ok = number >= s->world || add_absent_candidate(s, group, member_of_number(s, number));
            count++;
            number = 0;
            has_digit = false;
        } else if (c == '.') {
            break;
        }
    }
    return ok;
}

/* By the list of members that one of its ranks gives. Ranks of another run do not know this one's groups. */
static bool list_group_members(absence_search *s)
{
    const ka_rank_model *m = s->m;
    uint32_t groups = (uint32_t)m->groups.count;
    uint32_t *owner = malloc(((size_t)groups + 1) * 2 * sizeof *owner); /* a rank that has the group, and its index there */
    bool ok = owner != NULL;
    for (uint32_t g = 0; ok && g < groups; g++)
        owner[2 * g] = KA_NONE;
    for (uint32_t r = 0; ok && r < m->rank_count; r++)
        for (uint32_t i = m->global_base[r]; i < m->global_base[r + 1]; i++)
            if (!m->is_stranger[r] && owner[2 * m->global[i]] == KA_NONE) {
                owner[2 * m->global[i]] = r;
                owner[2 * m->global[i] + 1] = i - m->global_base[r];
            }
    for (uint32_t g = 0; ok && g < groups; g++) {
        s->first[g] = (uint32_t)s->all.count;
        const ka_rank_facts *f = owner[2 * g] == KA_NONE ? NULL : m->facts[owner[2 * g]];
        if (f)
            ok = add_listed_members(s, g, kb_intern_get(&f->texts, f->groups.data[owner[2 * g + 1]].members));
    }
    s->first[groups] = (uint32_t)s->all.count;
    free(owner);
    return ok;
}

/* ---- absent ones ----------------------------------------------------------------------------- */

/* Are its rows those of one collective, which lacks some? */
static bool lacks_members(const ka_rank_model *m, const ka_instance *x)
{
    bool is_alone = x->count == 1 && !(x->flags & (KA_INSTANCE_APART | KA_INSTANCE_TORN));
    return x->count < x->size && (is_alone || (ka_is_joined(x) && (x->flags & KA_INSTANCE_PART))) &&
           m->domain[m->rank_of[m->members[x->first]]] != KA_NONE;
}

/* Adds the members of an instance that have no row. The number of members that are listed must be that of the group. */
static bool list_absent(absence_search *s, uint32_t instance)
{
    const ka_rank_model *m = s->m;
    const ka_instance *x = &m->instances.data[instance];
    bool ok = true;
    if (s->first[x->group + 1] - s->first[x->group] != x->size)
        return true; /* it is not known who they are */
    for (uint32_t i = 0; i < x->count; i++)
        s->stamp[m->rank_of[m->members[x->first + i]]] = instance + 1;
    for (uint32_t i = s->first[x->group]; i < s->first[x->group + 1] && ok; i++)
        if (s->stamp[s->all.data[i]] != instance + 1)
            ok = kb_vec_push(&s->a->list, s->all.data[i]);
    return ok;
}

/* All instances, in their order, so that those of one follow each other. */
static bool list_all_absent(absence_search *s)
{
    uint32_t count = (uint32_t)s->m->instances.count;
    bool ok = true;
    memset(s->stamp, 0, s->a->member_count * sizeof *s->stamp);
    for (uint32_t i = 0; i < count && ok; i++) {
        s->a->first[i] = (uint32_t)s->a->list.count;
        ok = !lacks_members(s->m, &s->m->instances.data[i]) || list_absent(s, i);
    }
    s->a->first[count] = (uint32_t)s->a->list.count;
    return ok;
}

/* ---- when they came -------------------------------------------------------------------------- */

/* An instance of one row has no arrival: what it waited for has no row. */
static int64_t arrival_of_present(const ka_rank_model *m, const ka_instance *x)
{
    return x->count == 1 ? m->start_ns[m->members[x->first]] : x->arrival_ns;
}

static bool spans_hosts(const absence_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    uint32_t clock = m->clock_of[m->rank_of[m->members[x->first]]];
    for (uint32_t i = 1; i < x->count; i++)
        if (m->clock_of[m->rank_of[m->members[x->first + i]]] != clock)
            return true;
    return false;
}

/* By kind, size and hosts; those that lack members by themselves, for where there are no whole ones. Equal for
 * instances whose transfers should take as long as each other. */
static uint64_t likeness_of(const absence_search *s, const ka_instance *x, bool is_whole, bool spans)
{
    const ka_comm *c = ka_model_row(s->m, s->m->members[x->first]);
    uint64_t key[] = {s->m->groups.data[x->group].kind, x->op, x->op == KA_OP_ALL_TO_ALL ? 0 : c->elements, x->size,
                      spans, is_whole};
    return kb_hash(key, sizeof key);
}

/* Transfers of instances, by likeness: middles, and the middles of the distances from them. */
typedef struct usual_transfers {
    kb_map likes; /* likeness → index */
    ka_valued *list;
    double *middle, *spread;
} usual_transfers;

/* Of whole instances, and of those that lack members, each by themselves. False: out of memory. */
static bool find_usual_transfers(absence_search *s, usual_transfers *u)
{
    const ka_rank_model *m = s->m;
    size_t count = m->instances.count, used = 0;
    u->list = malloc((count + 1) * sizeof *u->list);
    u->middle = calloc(count + 1, sizeof *u->middle);
    u->spread = calloc(count + 1, sizeof *u->spread);
    bool ok = u->list && u->middle && u->spread;
    for (size_t i = 0; i < count && ok; i++) {
        const ka_instance *x = &m->instances.data[i];
        bool is_part = s->a->first[i + 1] > s->a->first[i];
        if (!is_part && !(ka_is_joined(x) && (x->flags & KA_INSTANCE_WHOLE)))
            continue;
        uint64_t *like = kb_map_insert(&u->likes, likeness_of(s, x, !is_part, spans_hosts(s, x)), u->likes.count, NULL);
        ok = like != NULL;
        if (ok)
            u->list[used++] = (ka_valued){(uint32_t)*like, (double)(x->end_ns - arrival_of_present(m, x))};
    }
    if (ok) {
        ka_find_middles(u->list, used, u->middle);
        for (size_t i = 0; i < used; i++)
            u->list[i].value = fabs(u->list[i].value - u->middle[u->list[i].like]);
        ka_find_middles(u->list, used, u->spread);
    }
    return ok;
}

#define FAR_DEVIATIONS 6.0 /* a transfer beyond these, … */
#define FAR_NS         2000 /* … and by this, has waited */

/* When the last absent member came: the end minus the usual transfer, if the transfer took much longer than usual.
 * INT64_MIN: it took no longer, so that an absent member may have come before, or there is nothing to compare with. */
static int64_t find_arrival(const absence_search *s, const usual_transfers *u, const ka_instance *x)
{
    bool spans = spans_hosts(s, x);
    const uint64_t *like = x->count == 1 ? kb_map_find(&u->likes, likeness_of(s, x, true, true)) : NULL; /* where the other is? */
    like = like ? like : kb_map_find(&u->likes, likeness_of(s, x, true, spans));
    like = like ? like : kb_map_find(&u->likes, likeness_of(s, x, false, spans));
    if (!like)
        return INT64_MIN;
    double transfer = (double)(x->end_ns - arrival_of_present(s->m, x)), usual = u->middle[*like];
    bool is_far = transfer - usual > FAR_DEVIATIONS * u->spread[*like] + FAR_NS;
    return is_far ? x->end_ns - (int64_t)usual : INT64_MIN;
}

static bool find_arrivals(absence_search *s)
{
    usual_transfers u = {0};
    bool ok = find_usual_transfers(s, &u);
    for (size_t i = 0; i < s->m->instances.count && ok; i++) {
        bool is_part = s->a->first[i + 1] > s->a->first[i];
        s->a->arrival_ns[i] = is_part ? find_arrival(s, &u, &s->m->instances.data[i]) : INT64_MIN;
    }
    kb_map_free(&u.likes);
    free(u.list);
    free(u.middle);
    free(u.spread);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Most runs lack nothing: then nothing is allocated. */
static bool has_absent(const ka_rank_model *m)
{
    for (size_t i = 0; i < m->instances.count; i++)
        if (lacks_members(m, &m->instances.data[i]))
            return true;
    return false;
}

bool ka_find_absences(const ka_rank_model *m, ka_absences *a)
{
    absence_search s = {.m = m, .a = a};
    *a = (ka_absences){0};
    if (!m->is_whole || !has_absent(m))
        return true;
    for (uint32_t r = 0; r < m->rank_count; r++)
        s.world = KB_MAX(s.world, m->facts[r]->world_size > 0 ? (uint32_t)m->facts[r]->world_size : 0);
    s.world = KB_MIN(s.world, MAX_WORLD);
    a->member_count = m->rank_count + s.world;
    a->first = malloc((m->instances.count + 1) * sizeof *a->first);
    a->arrival_ns = malloc((m->instances.count + 1) * sizeof *a->arrival_ns);
    a->shift_ns = calloc((size_t)a->member_count + 1, sizeof *a->shift_ns);
    s.stamp = calloc((size_t)a->member_count + 1, sizeof *s.stamp);
    s.first = malloc((m->groups.count + 1) * sizeof *s.first);
    bool ok = a->first && a->arrival_ns && a->shift_ns && s.stamp && s.first && list_group_members(&s) && list_all_absent(&s) &&
              find_arrivals(&s);
    free(s.stamp);
    free(s.first);
    kb_vec_free(&s.all);
    return ok;
}

void ka_absences_free(ka_absences *a)
{
    free(a->first);
    free(a->arrival_ns);
    free(a->shift_ns);
    kb_vec_free(&a->list);
    *a = (ka_absences){0};
}

void ka_reset_absences(ka_absences *a)
{
    if (a->first)
        memset(a->shift_ns, 0, a->member_count * sizeof *a->shift_ns);
}

/* The absent members come together with the one that gets earlier by least: the last of them decides. */
int64_t ka_absent_arrival(const ka_absences *a, uint32_t instance)
{
    if (!a->first || a->arrival_ns[instance] == INT64_MIN)
        return INT64_MIN;
    int64_t least = INT64_MAX;
    for (uint32_t i = a->first[instance]; i < a->first[instance + 1]; i++)
        least = KB_MIN(least, a->shift_ns[a->list.data[i]]);
    return a->arrival_ns[instance] - (least == INT64_MAX ? 0 : least);
}

void ka_shift_absent(ka_absences *a, uint32_t instance, int64_t by_ns)
{
    for (uint32_t i = a->first ? a->first[instance] : 0; a->first && i < a->first[instance + 1]; i++)
        a->shift_ns[a->list.data[i]] = by_ns;
}
