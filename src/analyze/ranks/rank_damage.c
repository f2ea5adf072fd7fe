/* Looks for damage in the collectives of a run, window by window: ranks that are absent, cut or of another run, numbers
 * that are absent, shifted or out of order; calls that differ are found in damage_calls.c. Kinds are those of
 * ka_damage_kind; "Instances" in ranks.md has the definitions. */
#include "analyze/ranks/rank_damage.h"

const char *ka_damage_name(ka_damage_kind kind)
{
    static const char *const names[] = {
        [KA_DAMAGE_MISSING] = "missing",       [KA_DAMAGE_OTHER_RUN] = "other_run",
        [KA_DAMAGE_TRUNCATED] = "truncated",   [KA_DAMAGE_RING_CUT] = "ring_cut",
        [KA_DAMAGE_WRONG_OP] = "wrong_op",     [KA_DAMAGE_WRONG_SIZE] = "wrong_size", [KA_DAMAGE_HOLE] = "hole",
        [KA_DAMAGE_DUPLICATE] = "duplicate",   [KA_DAMAGE_SHIFT] = "seq_shift",
        [KA_DAMAGE_SHUFFLE] = "seq_shuffle"};
    return names[kind];
}

void ka_report_damage(ka_damage_search *s, ka_rank_damage d)
{
    uint64_t key[] = {d.kind, (uint64_t)d.rank, d.group};
    bool created;
    uint64_t *at = kb_map_insert(&s->reported, kb_hash(key, sizeof key), s->list.count, &created);
    s->no_memory |= !at || (created && !kb_vec_push(&s->list, d));
    if (at && !created)
        s->list.data[*at].count += d.count;
}

static uint64_t member_key(uint32_t group, uint32_t rank) { return (uint64_t)group << 32 | rank; }

ka_membership *ka_find_member(const ka_damage_search *s, uint32_t group, uint32_t rank)
{
    const uint64_t *at = kb_map_find(&s->at, member_key(group, rank));
    return at ? &s->members.data[*at] : NULL;
}

static void report_of_rank(ka_damage_search *s, ka_damage_kind kind, uint32_t rank, uint32_t count)
{
    ka_report_damage(s, (ka_rank_damage){.kind = kind, .rank = s->m->facts[rank]->rank, .group = KA_NONE,
                                         .sequence = KA_NO_SEQUENCE, .count = count});
}

static void report_of_member(ka_damage_search *s, ka_damage_kind kind, const ka_membership *k, uint32_t sequence, uint32_t count)
{
    ka_report_damage(s, (ka_rank_damage){.kind = kind, .rank = s->m->facts[k->rank]->rank, .group = k->group,
                                         .sequence = sequence, .count = count});
}

/* ---- who is there ---------------------------------------------------------------------------- */

/* Adds a number of a member's row: ranges of the run and of the window, and descents, which should not occur. */
static void note_number(ka_membership *x, uint32_t sequence)
{
    x->first = KB_MIN(x->first, sequence);
    x->last = KB_MAX(x->last, sequence);
    x->first_here = KB_MIN(x->first_here, sequence);
    x->last_here = x->last_here == KA_NO_SEQUENCE ? sequence : KB_MAX(x->last_here, sequence);
    if (sequence < x->previous && !x->descents++)
        x->first_descent = sequence;
    x->previous = sequence;
    x->count++;
}

/* Notes the number of a row by its rank and group, which become a membership when first met. */
static void add_member(ka_damage_search *s, uint32_t row)
{
    const ka_comm *c = ka_model_row(s->m, row);
    uint32_t group = s->m->group_of[row], rank = s->m->rank_of[row], number = ka_number_of(s->m, row);
    uint32_t *slot = &s->of_slot[s->m->global_base[rank] + c->group];
    if (*slot != KA_NONE) {
        note_number(&s->members.data[*slot], number);
        return;
    }
    bool created;
    uint64_t *at = kb_map_insert(&s->at, member_key(group, rank), s->members.count, &created);
    ka_membership fresh = {.rank = rank, .group = group, .first = number, .last = number,
                           .first_here = number, .last_here = number};
    if (!at || (created && !kb_vec_push(&s->members, fresh)))
        s->no_memory = true;
    else
        note_number(&s->members.data[*slot = (uint32_t)*at], number);
}

/* Of the rows that are loaded. Ranks of another run have no groups here; how many collectives they have is
 * counted all the same, for the report. */
static void list_memberships(ka_damage_search *s)
{
    for (size_t i = 0; i < s->members.count; i++)
        s->members.data[i].first_here = s->members.data[i].last_here = KA_NO_SEQUENCE;
    for (uint32_t row = 0; row < s->m->row_count && !s->no_memory; row++) {
        uint32_t rank = s->m->rank_of[row];
        bool is_numbered = ka_is_numbered(ka_model_row(s->m, row));
        if (s->m->group_of[row] != KA_NONE && is_numbered)
            add_member(s, row);
        else if (s->m->is_stranger[rank] && is_numbered && !(ka_model_row(s->m, row)->flags & KA_COMM_LAST))
            s->shared[rank].count++;
    }
}

/* Members in the order of groups: a counting sort, after which group_first[g] is where those of
 * g begin. False: out of memory. */
static bool sort_members(ka_damage_search *s)
{
    size_t groups = s->m->groups.count;
    free(s->by_group);
    s->by_group = malloc((s->members.count + 1) * sizeof *s->by_group);
    if (!s->by_group)
        return false;
    memset(s->group_first, 0, (groups + 2) * sizeof *s->group_first);
    for (size_t i = 0; i < s->members.count; i++)
        s->group_first[s->members.data[i].group + 2]++;
    for (size_t i = 2; i < groups + 2; i++)
        s->group_first[i] += s->group_first[i - 1];
    for (size_t i = 0; i < s->members.count; i++)
        s->by_group[s->group_first[s->members.data[i].group + 1]++] = (uint32_t)i;
    return true;
}

#define MAX_WORLD 65536 /* a header may say anything */
static void find_missing_ranks(ka_damage_search *s)
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
            ka_report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_MISSING, .rank = rank, .group = KA_NONE,
                                              .sequence = KA_NO_SEQUENCE, .count = 1});
    }
}

/* ---- records that are absent ----------------------------------------------------------------- */

/* Where the trace of a rank begins, some records of a step are still absent. */
static bool is_before_trace(const ka_rank_model *m, uint32_t rank, uint32_t step)
{
    return m->late_step[rank] != UINT32_MAX && step != UINT32_MAX && step <= m->late_step[rank];
}

/* Members of the group that have numbers before and after, but not this one. Only numbers between the
 * first and the last one of the member in this window count: what it lacks at the ends may be in another
 * window, or is where its trace is cut. */
static void find_hole(ka_damage_search *s, const ka_instance *x)
{
    uint32_t first = s->group_first[x->group], end = s->group_first[x->group + 1];
    if (x->count >= end - first && !(x->flags & KA_INSTANCE_DUPLICATE))
        return;
    s->stamps++;
    for (uint32_t i = 0; i < x->count; i++)
        s->stamp[s->m->rank_of[s->m->members[x->first + i]]] = s->stamps;
    for (uint32_t i = first; i < end; i++) {
        ka_membership *k = &s->members.data[s->by_group[i]];
        if (k->last_here == KA_NO_SEQUENCE || x->sequence <= k->first_here || x->sequence >= k->last_here ||
            s->stamp[k->rank] == s->stamps || is_before_trace(s->m, k->rank, x->step))
            continue;
        k->first_hole = k->holes ? KB_MIN(k->first_hole, x->sequence) : x->sequence;
        k->holes++;
    }
}

static void find_holes(ka_damage_search *s)
{
    const ka_rank_model *m = s->m;
    for (size_t i = 0; i < m->instances.count; i++)
        if (ka_is_numbered(ka_model_row(m, m->members[m->instances.data[i].first])))
            find_hole(s, &m->instances.data[i]);
}

/* Ranks whose collectives no other rank has, while others have some in common. */
static void find_other_runs(ka_damage_search *s, bool *is_stranger)
{
    (void)ka_find_strangers(s->shared, s->m->rank_count, is_stranger);
    for (uint32_t r = 0; r < s->m->rank_count; r++)
        if (is_stranger[r] |= s->m->is_stranger[r])
            report_of_rank(s, KA_DAMAGE_OTHER_RUN, r, s->shared[r].count);
}

/* Of a rank. */
typedef struct cut_rank {
    double first, last;            /* aligned */
    uint32_t lacks_first, lacks_last; /* numbers that others of its groups have, before its first and after its last */
} cut_rank;

static uint32_t add_saturated(uint32_t a, uint32_t b) { return a > UINT32_MAX - b ? UINT32_MAX : a + b; }

/* How many of the first, and of the last, numbers of its groups each rank lacks, added up.
 * Strangers do not say what a group has. */
static void find_lacking_ranks(const ka_damage_search *s, const bool *is_stranger, cut_rank *cuts)
{
    for (size_t g = 0; g < s->m->groups.count; g++) {
        uint32_t least = UINT32_MAX, most = 0;
        for (uint32_t i = s->group_first[g]; i < s->group_first[g + 1]; i++) {
            const ka_membership *k = &s->members.data[s->by_group[i]];
            least = is_stranger[k->rank] ? least : KB_MIN(least, k->first);
            most = is_stranger[k->rank] ? most : KB_MAX(most, k->last);
        }
        for (uint32_t i = s->group_first[g]; i < s->group_first[g + 1]; i++) {
            const ka_membership *k = &s->members.data[s->by_group[i]];
            cut_rank *c = &cuts[k->rank];
            c->lacks_first = add_saturated(c->lacks_first, k->first > least ? k->first - least : 0);
            c->lacks_last = add_saturated(c->lacks_last, k->last < most ? most - k->last : 0);
        }
    }
}

/* Collectives without numbers, by rank and group of it; and the most that any rank of the group has. */
static void find_fewer(const ka_damage_search *s, uint32_t *count, uint32_t *most)
{
    const ka_rank_model *m = s->m;
    for (uint32_t row = 0; row < m->row_count; row++) {
        const ka_comm *c = ka_model_row(m, row);
        if (m->group_of[row] != KA_NONE && ka_is_counted(c) && !ka_is_message(c->op) && !m->facts[m->rank_of[row]]->on_host)
            count[m->global_base[m->rank_of[row]] + c->group]++;
    }
    for (uint32_t slot = 0; slot < m->global_base[m->rank_count]; slot++)
        most[m->global[slot]] = KB_MAX(most[m->global[slot]], count[slot]);
}

/* A rank that has fewer of them than another one of its group lacks them where it is cut. */
static void find_lacking_by_order(ka_damage_search *s, cut_rank *cuts)
{
    const ka_rank_model *m = s->m;
    uint32_t *count = calloc((size_t)m->global_base[m->rank_count] + 1, sizeof *count);
    uint32_t *most = calloc(m->groups.count + 1, sizeof *most);
    s->no_memory |= !count || !most;
    if (!s->no_memory)
        find_fewer(s, count, most);
    for (uint32_t r = 0; r < m->rank_count && !s->no_memory; r++)
        for (uint32_t slot = m->global_base[r]; slot < m->global_base[r + 1]; slot++) {
            uint32_t lacks = count[slot] ? most[m->global[slot]] - count[slot] : 0;
            cuts[r].lacks_first = add_saturated(cuts[r].lacks_first, lacks);
            cuts[r].lacks_last = add_saturated(cuts[r].lacks_last, lacks);
        }
    free(count);
    free(most);
}

/* Ranks without any collective, while three quarters of the ranks have some. */
static void find_silent_ranks(ka_damage_search *s)
{
    const ka_rank_model *m = s->m;
    uint32_t silent = 0, most = 0;
    for (uint32_t r = 0; r < m->rank_count; r++) {
        uint32_t rows = m->base[r + 1] - m->base[r];
        silent += rows <= 1;
        most = KB_MAX(most, rows - (rows > 0));
    }
    for (uint32_t r = 0; r < m->rank_count && most && 4 * silent <= m->rank_count; r++)
        if (m->base[r + 1] - m->base[r] <= 1)
            report_of_rank(s, KA_DAMAGE_TRUNCATED, r, most);
}

static double median_of(const cut_rank *cuts, uint32_t count, bool of_last, double *room)
{
    for (uint32_t r = 0; r < count; r++)
        room[r] = of_last ? cuts[r].last : cuts[r].first;
    return ka_median(room, count);
}

/* Ranks that begin later, or end earlier, than the median of the ranks by a tenth of the run, and lack numbers there: a
 * rank with nothing to do at an end lacks none. Two ranks have no majority. */
#define CUT_SHARE 0.1
static void find_cut_ranks(ka_damage_search *s, const bool *is_stranger)
{
    const ka_rank_model *m = s->m;
    cut_rank *cuts = calloc((size_t)m->rank_count + 1, sizeof *cuts);
    double *room = malloc(((size_t)m->rank_count + 1) * sizeof *room);
    s->no_memory |= !cuts || !room;
    for (uint32_t r = 0; !s->no_memory && r < m->rank_count; r++) {
        cuts[r].first = (double)ka_align_time(m, r, m->facts[r]->start_ns);
        cuts[r].last = (double)ka_align_time(m, r, m->facts[r]->end_ns);
    }
    if (!s->no_memory && m->rank_count > 2) {
        find_lacking_ranks(s, is_stranger, cuts);
        if (m->is_whole)
            find_lacking_by_order(s, cuts);
        double begin = median_of(cuts, m->rank_count, false, room), end = median_of(cuts, m->rank_count, true, room);
        double slack = CUT_SHARE * (end - begin);
        for (uint32_t r = 0; r < m->rank_count; r++) {
            if (!is_stranger[r] && cuts[r].last < end - slack && cuts[r].lacks_last)
                report_of_rank(s, KA_DAMAGE_TRUNCATED, r, cuts[r].lacks_last);
            if (!is_stranger[r] && cuts[r].first > begin + slack && cuts[r].lacks_first)
                report_of_rank(s, KA_DAMAGE_RING_CUT, r, cuts[r].lacks_first);
        }
    }
    free(cuts);
    free(room);
}

/* ---- numbers that are shifted ---------------------------------------------------------------- */

/* Less than this is no shift and no shuffle: one record may be displaced, or one time be wrong. */
#define MIN_DESCENTS       2u
#define DESCENT_SHARE      0.25
#define MIN_CONTRADICTIONS 3u

static bool is_shuffled(const ka_membership *k)
{
    return k->descents >= MIN_DESCENTS && k->descents > DESCENT_SHARE * k->count;
}

/* A rank that lacks as many numbers as its last one is beyond those of all others has shifted numbers. */
static bool is_shifted(const ka_damage_search *s, const ka_membership *k)
{
    uint32_t others = 0;
    for (uint32_t i = s->group_first[k->group]; k->holes && i < s->group_first[k->group + 1]; i++) {
        const ka_membership *other = &s->members.data[s->by_group[i]];
        if (other != k)
            others = KB_MAX(others, other->last);
    }
    return k->holes && k->last == others + k->holes;
}

/* What follows from shifted numbers is no damage of its own. */
static void forget_group(ka_damage_search *s, uint32_t group, uint32_t from)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->list.count; i++) {
        const ka_rank_damage *d = &s->list.data[i];
        bool is_call = d->kind == KA_DAMAGE_WRONG_OP || d->kind == KA_DAMAGE_WRONG_SIZE;
        if (!is_call || d->group != group || d->sequence < from)
            s->list.data[kept++] = *d;
    }
    s->list.count = kept;
    for (uint32_t i = s->group_first[group]; i < s->group_first[group + 1]; i++) {
        ka_membership *k = &s->members.data[s->by_group[i]];
        if (k->first_contradiction >= from)
            k->contradictions = 0;
    }
}

/* At most one member of each group is reported so: of several, the others are right or nothing is known. */
static void report_shifts(ka_damage_search *s)
{
    for (uint32_t g = 0; g < s->m->groups.count; g++)
        for (uint32_t i = s->group_first[g]; i < s->group_first[g + 1]; i++) {
            ka_membership *k = &s->members.data[s->by_group[i]];
            bool is_unordered = is_shuffled(k);
            if (!is_unordered && !is_shifted(s, k))
                continue;
            uint32_t from = is_unordered ? k->first : k->first_hole, count = is_unordered ? k->descents : k->last - from;
            report_of_member(s, is_unordered ? KA_DAMAGE_SHUFFLE : KA_DAMAGE_SHIFT, k, from, count);
            forget_group(s, g, is_unordered ? from : from + 1); /* where the shifted rank has none, the others are right */
            k->holes = k->contradictions = 0;
            break;
        }
}

/* Those that were shifted back when rows were joined. */
static void report_corrected(ka_damage_search *s)
{
    for (size_t i = 0; i < s->m->shifts.count; i++) {
        const ka_number_shift *x = &s->m->shifts.data[i];
        ka_report_damage(s, (ka_rank_damage){.kind = KA_DAMAGE_SHIFT, .rank = s->m->facts[x->rank]->rank, .group = x->group,
                                             .sequence = x->from, .count = x->last - x->from});
    }
}

/* What is left of each member after shifts are explained: holes, and instances whose times contradict their numbers. */
static void report_members(ka_damage_search *s)
{
    report_corrected(s);
    report_shifts(s);
    for (size_t i = 0; i < s->members.count; i++) {
        const ka_membership *k = &s->members.data[i];
        if (k->holes)
            report_of_member(s, KA_DAMAGE_HOLE, k, k->first_hole, k->holes);
        if (k->contradictions >= MIN_CONTRADICTIONS)
            report_of_member(s, KA_DAMAGE_SHIFT, k, k->first_contradiction, k->contradictions);
    }
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool ka_damage_search_create(ka_damage_search *s, const ka_rank_model *m)
{
    *s = (ka_damage_search){.m = m};
    s->stamp = calloc((size_t)m->rank_count + 1, sizeof *s->stamp);
    s->shared = calloc((size_t)m->rank_count + 1, sizeof *s->shared);
    s->group_first = calloc(m->groups.count + 3, sizeof *s->group_first);
    size_t slots = m->global_base[m->rank_count];
    s->of_slot = malloc((slots + 1) * sizeof *s->of_slot);
    for (size_t i = 0; s->of_slot && i < slots; i++)
        s->of_slot[i] = KA_NONE;
    return s->stamp && s->shared && s->group_first && s->of_slot;
}

void ka_damage_search_free(ka_damage_search *s)
{
    kb_vec_free(&s->members);
    kb_vec_free(&s->list);
    kb_map_free(&s->at);
    kb_map_free(&s->reported);
    free(s->stamp);
    free(s->of_slot);
    free(s->shared);
    free(s->group_first);
    free(s->by_group);
    *s = (ka_damage_search){0};
}

bool ka_damage_search_add(ka_damage_search *s)
{
    ka_count_shared(s->m, s->shared);
    list_memberships(s);
    if (s->no_memory || !sort_members(s))
        return false;
    ka_find_wrong_calls(s);
    find_holes(s);
    return !s->no_memory;
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

bool ka_damage_search_finish(ka_damage_search *s, ka_rank_damages *out)
{
    bool *is_stranger = calloc((size_t)s->m->rank_count + 1, sizeof *is_stranger);
    if (!is_stranger || !sort_members(s)) {
        free(is_stranger);
        return false;
    }
    find_missing_ranks(s);
    find_other_runs(s, is_stranger);
    find_cut_ranks(s, is_stranger);
    if (s->m->is_whole)
        find_silent_ranks(s);
    report_members(s);
    if (s->list.count)
        qsort(s->list.data, s->list.count, sizeof *s->list.data, compare_damages);
    memcpy(out, &s->list, sizeof *out);
    memset(&s->list, 0, sizeof s->list);
    free(is_stranger);
    return !s->no_memory;
}
