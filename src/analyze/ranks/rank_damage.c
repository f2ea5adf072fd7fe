/* Looks for damage: at equal numbers of a group all members call the same, each once, and on one clock no
 * member ends before another one has begun. */
#include "analyze/ranks/rank_damage.h"

/* What one rank has of one group. */
typedef struct membership {
    uint32_t rank, group;
    uint32_t first, last;  /* sequence numbers */
    uint32_t count, holes, first_hole;
    uint32_t contradictions, first_contradiction;
} membership;

typedef struct damage_search {
    const ka_rank_model *m;
    KB_VEC(membership) members; /* by group, then rank */
    kb_map at;                  /* group and rank → index of members */
    kb_map reported;            /* kind, rank and group → index of *out */
    uint32_t *stamp;            /* by rank: 1 + the instance that was last found to have it */
    uint32_t *least, *most;     /* by group: sequence numbers of all members */
    uint32_t looks;             /* how often other groups were asked; at most MAX_LOOKS */
    ka_rank_damages *out;
    bool no_memory;
} damage_search;
#define MAX_LOOKS 1000u

const char *ka_damage_name(ka_damage_kind kind)
{
    static const char *const names[] = {
        [KA_DAMAGE_MISSING] = "missing",       [KA_DAMAGE_OTHER_RUN] = "other_run",
        [KA_DAMAGE_TRUNCATED] = "truncated",   [KA_DAMAGE_RING_CUT] = "ring_cut",
        [KA_DAMAGE_WRONG_OP] = "wrong_op",     [KA_DAMAGE_WRONG_SIZE] = "wrong_size", [KA_DAMAGE_HOLE] = "hole",
        [KA_DAMAGE_DUPLICATE] = "duplicate",   [KA_DAMAGE_SHIFT] = "seq_shift"};
    return names[kind];
}

/* The same again is only counted. */
static void report_damage(damage_search *s, ka_rank_damage d)
{
    uint64_t key[] = {d.kind, (uint64_t)d.rank, d.group};
    bool created;
    uint64_t *at = kb_map_insert(&s->reported, kb_hash(key, sizeof key), s->out->count, &created);
    s->no_memory |= !at || (created && !kb_vec_push(s->out, d));
    if (at && !created)
        s->out->data[*at].count += d.count;
}

static uint64_t member_key(uint32_t group, uint32_t rank) { return (uint64_t)group << 32 | rank; }

static membership *find_member(const damage_search *s, uint32_t group, uint32_t rank)
{
    const uint64_t *at = kb_map_find(&s->at, member_key(group, rank));
    return at ? &s->members.data[*at] : NULL;
}

/* ---- who is there ---------------------------------------------------------------------------- */

static bool is_numbered(const ka_comm *c)
{
    return !(c->flags & KA_COMM_BY_ORDER) && !ka_is_message(c->op);
}

static void add_member(damage_search *s, uint32_t row)
{
    const ka_comm *c = ka_model_row(s->m, row);
    uint32_t group = s->m->group_of[row], rank = s->m->rank_of[row];
    bool created;
    uint64_t *at = kb_map_insert(&s->at, member_key(group, rank), s->members.count, &created);
    membership fresh = {.rank = rank, .group = group, .first = c->sequence, .last = c->sequence};
    if (!at || (created && !kb_vec_push(&s->members, fresh))) {
        s->no_memory = true;
        return;
    }
    membership *x = &s->members.data[*at];
    x->first = KB_MIN(x->first, c->sequence);
    x->last = KB_MAX(x->last, c->sequence);
    x->count++;
}

static void list_memberships(damage_search *s)
{
    for (uint32_t row = 0; row < s->m->row_count && !s->no_memory; row++)
        if (s->m->group_of[row] != KA_NONE && is_numbered(ka_model_row(s->m, row)))
            add_member(s, row);
}

#define MAX_WORLD 65536 /* a header may say anything */
static void find_missing_ranks(damage_search *s)
{
    const ka_rank_model *m = s->m;
    int64_t world = 0;
    uint32_t at = 0; /* ranks are sorted */
    for (uint32_t r = 0; r < m->rank_count; r++)
        world = KB_MAX(world, m->facts[r]->world_size);
    for (int64_t rank = 0; rank < KB_MIN(world, MAX_WORLD); rank++) {
        while (at < m->rank_count && m->facts[at]->rank < rank)
            at++;
        if (at == m->rank_count || m->facts[at]->rank != rank)
            report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_MISSING, .rank = rank, .group = KA_NONE,
                                              .sequence = KA_NO_SEQUENCE, .count = 1});
    }
}

/* ---- calls that differ ----------------------------------------------------------------------- */

/* How many rows of the instance are like this one. */
static uint32_t count_alike(const ka_rank_model *m, const ka_instance *x, const ka_comm *c, bool by_size)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        const ka_comm *other = ka_model_row(m, m->members[x->first + i]);
        count += other->op == c->op && (!by_size || other->elements == c->elements);
    }
    return count;
}

/* What most groups of this kind call at this number; KA_OP_COUNT: there is no other. */
static uint8_t usual_op(const ka_rank_model *m, const ka_instance *x)
{
    uint32_t counts[KA_OP_COUNT] = {0}, best = KA_OP_COUNT;
    for (size_t i = 0; i < m->instances.count; i++) {
        const ka_instance *other = &m->instances.data[i];
        if (other->sequence == x->sequence && other->group != x->group && other->flags & KA_INSTANCE_WHOLE &&
            m->groups.data[other->group].kind == m->groups.data[x->group].kind)
            counts[other->op]++;
    }
    for (uint32_t op = 0; op < KA_OP_COUNT; op++)
        if (counts[op] && (best == KA_OP_COUNT || counts[op] > counts[best]))
            best = op;
    return (uint8_t)best;
}

/* Of two members that differ: the one that other groups do not agree with. */
static bool is_alone(damage_search *s, const ka_instance *x, const ka_comm *c)
{
    uint8_t usual = s->looks++ < MAX_LOOKS ? usual_op(s->m, x) : KA_OP_COUNT;
    return usual == KA_OP_COUNT || c->op != usual;
}

/* The members that differ from most others. */
static void find_mismatch(damage_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    uint32_t most_op = 0, most_size = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        const ka_comm *c = ka_model_row(m, m->members[x->first + i]);
        most_op = KB_MAX(most_op, count_alike(m, x, c, false));
        most_size = KB_MAX(most_size, count_alike(m, x, c, true));
    }
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i];
        const ka_comm *c = ka_model_row(m, row);
        bool op = count_alike(m, x, c, false) < most_op || (most_op < x->count && most_op * 2 <= x->count && is_alone(s, x, c));
        bool size = !op && most_op == x->count && (count_alike(m, x, c, true) < most_size || most_size * 2 <= x->count);
        if (op || size)
            report_damage(s, (ka_rank_damage){.kind = op ? KA_DAMAGE_WRONG_OP : KA_DAMAGE_WRONG_SIZE,
                                              .rank = m->facts[m->rank_of[row]]->rank, .group = x->group,
                                              .sequence = x->sequence, .count = 1});
    }
}

static void find_duplicate(damage_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    for (uint32_t i = 1; i < x->count; i++) {
        uint32_t rank = m->rank_of[m->members[x->first + i]];
        if (rank == m->rank_of[m->members[x->first + i - 1]])
            report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_DUPLICATE, .rank = m->facts[rank]->rank, .group = x->group,
                                              .sequence = x->sequence, .count = 1});
    }
}

/* ---- records that are absent ----------------------------------------------------------------- */

/* Members of the group that have numbers before and after, but not this one. */
static void find_hole(damage_search *s, const ka_instance *x, uint32_t stamp, size_t first, size_t end)
{
    for (uint32_t i = 0; i < x->count; i++)
        s->stamp[s->m->rank_of[s->m->members[x->first + i]]] = stamp;
    for (size_t i = first; i < end; i++) {
        membership *k = &s->members.data[i];
        if (x->sequence <= k->first || x->sequence >= k->last || s->stamp[k->rank] == stamp)
            continue;
        k->first_hole = k->holes ? KB_MIN(k->first_hole, x->sequence) : x->sequence;
        k->holes++;
    }
}

static void report_holes(damage_search *s)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const membership *k = &s->members.data[i];
        if (k->holes)
            report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_HOLE, .rank = s->m->facts[k->rank]->rank, .group = k->group,
                                              .sequence = k->first_hole, .count = k->holes});
    }
}

/* Does a rank lack the first, or the last, numbers that others of its groups have? */
static bool lacks_numbers(const damage_search *s, uint32_t rank, bool first)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const membership *own = &s->members.data[i];
        if (own->rank == rank && (first ? s->least[own->group] < own->first : s->most[own->group] > own->last))
            return true;
    }
    return false;
}

static void find_ranges(damage_search *s)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const membership *k = &s->members.data[i];
        bool is_first = !i || s->members.data[i - 1].group != k->group;
        s->least[k->group] = is_first ? k->first : KB_MIN(s->least[k->group], k->first);
        s->most[k->group] = is_first ? k->last : KB_MAX(s->most[k->group], k->last);
    }
}

/* Ranks whose collectives no other rank has, while others have some in common. */
static void find_other_runs(damage_search *s)
{
    const ka_rank_model *m = s->m;
    uint32_t *shared = calloc((size_t)m->rank_count + 1, sizeof *shared), most = 0;
    s->no_memory |= !shared;
    for (size_t i = 0; shared && i < m->instances.count; i++) {
        const ka_instance *x = &m->instances.data[i];
        for (uint32_t k = 0; x->count > 1 && k < x->count; k++)
            most = KB_MAX(most, ++shared[m->rank_of[m->members[x->first + k]]]);
    }
    for (uint32_t r = 0; shared && r < m->rank_count; r++)
        if (!shared[r] && most && m->base[r + 1] - m->base[r] > 1)
            report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_OTHER_RUN, .rank = m->facts[r]->rank, .group = KA_NONE,
                                              .sequence = KA_NO_SEQUENCE, .count = m->base[r + 1] - m->base[r] - 1});
    free(shared);
}

static bool is_of_other_run(const damage_search *s, int64_t rank)
{
    for (size_t i = 0; i < s->out->count; i++)
        if (s->out->data[i].kind == KA_DAMAGE_OTHER_RUN && s->out->data[i].rank == rank)
            return true;
    return false;
}

/* Ranks that begin later, or end earlier, than most. */
#define CUT_SHARE 0.1
static void find_cut_ranks(damage_search *s)
{
    const ka_rank_model *m = s->m;
    double *first = malloc(((size_t)m->rank_count + 1) * sizeof *first), *last = malloc(((size_t)m->rank_count + 1) * sizeof *last);
    double *copy = malloc(((size_t)m->rank_count + 1) * sizeof *copy);
    s->no_memory |= !first || !last || !copy;
    for (uint32_t r = 0; !s->no_memory && r < m->rank_count; r++) {
        int64_t shift = m->base[r + 1] > m->base[r] ? m->start_ns[m->base[r]] - m->facts[r]->rows.data[0].start_ns : 0;
        first[r] = (double)(m->facts[r]->start_ns + shift);
        last[r] = (double)(m->facts[r]->end_ns + shift);
    }
    if (!s->no_memory && m->rank_count > 2) {
        memcpy(copy, first, m->rank_count * sizeof *copy);
        double begin = ka_median(copy, m->rank_count);
        memcpy(copy, last, m->rank_count * sizeof *copy);
        double end = ka_median(copy, m->rank_count), slack = CUT_SHARE * (end - begin);
        for (uint32_t r = 0; r < m->rank_count; r++) {
            ka_rank_damage d = {.rank = m->facts[r]->rank, .group = KA_NONE, .sequence = KA_NO_SEQUENCE, .count = 1};
            if (is_of_other_run(s, d.rank))
                continue;
            d.kind = KA_DAMAGE_TRUNCATED;
            if (last[r] < end - slack && lacks_numbers(s, r, false))
                report_damage(s, d);
            d.kind = KA_DAMAGE_RING_CUT;
            if (first[r] > begin + slack && lacks_numbers(s, r, true))
                report_damage(s, d);
        }
    }
    free(first);
    free(last);
    free(copy);
}

/* ---- numbers that are shifted ---------------------------------------------------------------- */

#define LATE_NS 20000 /* beyond what clocks and ends differ by */
/* A member that ends before another one begins is in another collective. */
static void find_contradictions(damage_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    if (!(x->flags & (KA_INSTANCE_WHOLE | KA_INSTANCE_PART)) || !(x->flags & KA_INSTANCE_TORN) || (x->flags & KA_INSTANCE_APART))
        return;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i], against = 0;
        for (uint32_t k = 0; k < x->count; k++) {
            uint32_t other = m->members[x->first + k];
            against += m->end_ns[row] + LATE_NS < m->start_ns[other] || m->end_ns[other] + LATE_NS < m->start_ns[row];
        }
        membership *member = find_member(s, x->group, m->rank_of[row]);
        if (!member || 2 * against < x->count)
            continue;
        if (!member->contradictions++ || x->sequence < member->first_contradiction)
            member->first_contradiction = x->sequence;
    }
}

#define MIN_CONTRADICTIONS 3u
static void report_shifts(damage_search *s)
{
    for (size_t i = 0; i < s->members.count; i++) {
        const membership *k = &s->members.data[i];
        if (k->contradictions >= MIN_CONTRADICTIONS)
            report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_SHIFT, .rank = s->m->facts[k->rank]->rank, .group = k->group,
                                              .sequence = k->first_contradiction, .count = k->contradictions});
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_members(const void *left, const void *right)
{
    const membership *a = left, *b = right;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}

static void sort_members(damage_search *s)
{
    if (s->members.count)
        qsort(s->members.data, s->members.count, sizeof *s->members.data, compare_members);
    for (size_t i = 0; i < s->members.count; i++) {
        uint64_t *at = kb_map_insert(&s->at, member_key(s->members.data[i].group, s->members.data[i].rank), 0, NULL);
        if (at)
            *at = i;
    }
}

static void check_instances(damage_search *s)
{
    const ka_rank_model *m = s->m;
    for (size_t i = 0; i < m->instances.count && !s->no_memory; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (!is_numbered(ka_model_row(m, m->members[x->first])))
            continue;
        size_t first = 0, count = s->members.count;
        KB_LOWER_BOUND(first, count, s->members.data[first].group < x->group);
        size_t end = first;
        while (end < s->members.count && s->members.data[end].group == x->group)
            end++;
        if (x->flags & KA_INSTANCE_DUPLICATE)
            find_duplicate(s, x);
        else if (x->flags & KA_INSTANCE_MISMATCH)
            find_mismatch(s, x);
        if (x->count < end - first)
            find_hole(s, x, (uint32_t)i + 1, first, end);
        find_contradictions(s, x);
    }
}

static int compare_damages(const void *left, const void *right)
{
    const ka_rank_damage *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return (a->group > b->group) - (a->group < b->group);
}

bool ka_find_rank_damage(const ka_rank_model *m, ka_rank_damages *out)
{
    damage_search s = {.m = m, .out = out};
    s.stamp = calloc((size_t)m->rank_count + 1, sizeof *s.stamp);
    s.least = calloc(2 * m->groups.count + 1, sizeof *s.least);
    if (!s.stamp || !s.least) {
        free(s.stamp);
        free(s.least);
        return false;
    }
    s.most = s.least + m->groups.count;
    list_memberships(&s);
    sort_members(&s);
    find_ranges(&s);
    find_missing_ranks(&s);
    find_other_runs(&s);
    find_cut_ranks(&s);
    check_instances(&s);
    report_holes(&s);
    report_shifts(&s);
    if (out->count)
        qsort(out->data, out->count, sizeof *out->data, compare_damages);
    kb_vec_free(&s.members);
    kb_map_free(&s.at);
    kb_map_free(&s.reported);
    free(s.stamp);
    free(s.least);
    return !s.no_memory;
}
