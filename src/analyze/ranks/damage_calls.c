/* Calls that differ: at equal numbers of a group all members call the same, each once, and on one clock no member
 * ends before another one has begun. */
#include "analyze/ranks/rank_damage.h"

/* ---- what is usual at a place ---------------------------------------------------------------- */

/* How often ranks of a role call something at a place of their steps. Made when first needed. */
typedef struct usual_calls {
    kb_map counts; /* place and call → count; place → the most of its calls */
    uint32_t *nth; /* by row: its number in its step */
    bool is_made;
} usual_calls;

/* A place: the n-th row of a step, for the ranks of a role. With `by_size`, counts are of operation and size
 * together. */
static uint64_t place_key(const ka_rank_model *m, const usual_calls *u, uint32_t row, bool by_size)
{
    uint64_t key[] = {m->role[m->rank_of[row]], u->nth[row], by_size};
    return kb_hash(key, sizeof key);
}

static uint64_t call_key(uint64_t place, const ka_comm *c, bool by_size)
{
    uint64_t key[] = {place, c->op, by_size ? c->elements : 0};
    return kb_hash(key, sizeof key);
}

/* Counts a call at its place; the key of the place alone has the count of its most frequent call. False: out of
 * memory. */
static bool count_call(const ka_rank_model *m, usual_calls *u, uint32_t row, bool by_size)
{
    uint64_t place = place_key(m, u, row, by_size);
    uint64_t *count = kb_map_insert(&u->counts, call_key(place, ka_model_row(m, row), by_size), 0, NULL);
    uint64_t now = count ? ++*count : 0;
    uint64_t *most = count ? kb_map_insert(&u->counts, place, 0, NULL) : NULL;
    if (most)
        *most = KB_MAX(*most, now);
    return most != NULL;
}

/* Counts all rows of a group twice, by operation, and by operation and size. */
static void count_calls(ka_damage_search *s, usual_calls *u)
{
    const ka_rank_model *m = s->m;
    u->is_made = true;
    u->nth = malloc(((size_t)m->row_count + 1) * sizeof *u->nth);
    s->no_memory |= !u->nth;
    for (uint32_t r = 0; r < m->rank_count && !s->no_memory; r++) {
        ka_numbering n = ka_first_number(m, r);
        for (uint32_t row = m->base[r]; row < m->base[r + 1] && !s->no_memory; row++) {
            if (m->group_of[row] == KA_NONE)
                continue;
            u->nth[row] = ka_next_number(&n, ka_model_row(m, row));
            s->no_memory |= !count_call(m, u, row, false) || !count_call(m, u, row, true);
        }
    }
}

/* Does its role call something else more often at this place? */
static bool is_unusual(ka_damage_search *s, usual_calls *u, uint32_t row, bool by_size)
{
    if (!u->is_made)
        count_calls(s, u);
    if (s->no_memory)
        return true;
    uint64_t place = place_key(s->m, u, row, by_size);
    const uint64_t *count = kb_map_find(&u->counts, call_key(place, ka_model_row(s->m, row), by_size));
    const uint64_t *most = kb_map_find(&u->counts, place);
    return !count || !most || *count < *most;
}

/* ---- members that differ --------------------------------------------------------------------- */

#define MAX_CALLS 64u /* different ones in an instance; further ones are wrong in any case */
typedef struct call {
    uint64_t elements;
    uint32_t count;
    uint8_t op;
} call;
typedef struct calls {
    call list[MAX_CALLS];
    uint32_t count, of_op[KA_OP_COUNT];
} calls;

static const call *find_call(const calls *k, const ka_comm *c)
{
    for (uint32_t i = 0; i < k->count; i++)
        if (k->list[i].op == c->op && k->list[i].elements == c->elements)
            return &k->list[i];
    return NULL;
}

/* Counts the different calls of an instance: by operation and size, and by operation. */
static void list_calls(const ka_rank_model *m, const ka_instance *x, calls *k)
{
    *k = (calls){0};
    for (uint32_t i = 0; i < x->count; i++) {
        const ka_comm *c = ka_model_row(m, m->members[x->first + i]);
        const call *found = find_call(k, c);
        uint32_t at = found ? (uint32_t)(found - k->list) : k->count;
        if (!found && k->count < MAX_CALLS)
            k->list[k->count++] = (call){.elements = c->elements, .op = c->op};
        if (at < k->count)
            k->list[at].count++;
        k->of_op[c->op]++;
    }
}

/* Of a collective without a number: how many its rank called in this group before. */
static uint32_t count_before(const ka_rank_model *m, uint32_t row)
{
    uint32_t count = 0;
    for (uint32_t i = m->base[m->rank_of[row]]; i < row; i++)
        count += m->group_of[i] == m->group_of[row];
    return count;
}

static void report_call(ka_damage_search *s, ka_damage_kind kind, const ka_instance *x, uint32_t row)
{
    uint32_t number = ka_is_numbered(ka_model_row(s->m, row)) ? x->sequence : count_before(s->m, row);
    ka_report_damage(s, (ka_rank_damage){.kind = kind, .rank = s->m->facts[s->m->rank_of[row]]->rank, .group = x->group,
                                         .sequence = number, .count = 1});
}

/* Whether some, but not all of the members with the operation `op` (KA_OP_COUNT: of all) are unusual. */
static bool tells_apart(ka_damage_search *s, usual_calls *u, const ka_instance *x, uint8_t op)
{
    bool by_size = op != KA_OP_COUNT;
    uint32_t unusual = 0, members = 0;
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = s->m->members[x->first + i];
        if (by_size && ka_model_row(s->m, row)->op != op)
            continue;
        members++;
        unusual += is_unusual(s, u, row, by_size);
    }
    return unusual && unusual < members;
}

/* Of the members with the operation `op`, or of all (KA_OP_COUNT), those that differ. Most of them are right; if there is no
 * majority, those that call what their role usually calls there. */
static void report_odd_calls(ka_damage_search *s, usual_calls *u, const ka_instance *x, const calls *k, uint8_t op)
{
    const ka_rank_model *m = s->m;
    bool by_size = op != KA_OP_COUNT;
    uint32_t most = 0, members = by_size ? k->of_op[op] : x->count;
    for (uint32_t i = 0; i < k->count && by_size; i++)
        most = k->list[i].op == op ? KB_MAX(most, k->list[i].count) : most;
    for (uint32_t i = 0; i < KA_OP_COUNT && !by_size; i++)
        most = KB_MAX(most, k->of_op[i]);
    bool is_tie = 2 * most <= members, is_told = is_tie && tells_apart(s, u, x, op);
    for (uint32_t i = 0; i < x->count; i++) {
        uint32_t row = m->members[x->first + i];
        const ka_comm *c = ka_model_row(m, row);
        const call *own = find_call(k, c);
        uint32_t alike = by_size ? own ? own->count : 0 : k->of_op[c->op];
        if (by_size && c->op != op)
            continue;
        if (is_told ? is_unusual(s, u, row, by_size) : is_tie || alike < most)
            report_call(s, by_size ? KA_DAMAGE_WRONG_SIZE : KA_DAMAGE_WRONG_OP, x, row);
    }
}

/* Operations first; sizes of those that call the operation that most call. */
static void find_mismatch(ka_damage_search *s, usual_calls *u, const ka_instance *x)
{
    calls k;
    list_calls(s->m, x, &k);
    uint8_t usual_op = 0;
    bool is_one_size = true;
    for (uint8_t op = 1; op < KA_OP_COUNT; op++)
        usual_op = k.of_op[op] > k.of_op[usual_op] ? op : usual_op;
    for (uint32_t i = 0; i < k.count; i++)
        is_one_size &= k.list[i].op != usual_op || k.list[i].count == k.of_op[usual_op];
    if (k.of_op[usual_op] < x->count)
        report_odd_calls(s, u, x, &k, KA_OP_COUNT);
    if (!is_one_size && usual_op != KA_OP_ALL_TO_ALL && 2 * k.of_op[usual_op] > x->count)
        report_odd_calls(s, u, x, &k, usual_op);
}

/* Rows of an instance are in the order of ranks, so that two rows of one rank are neighbours. */
static void find_duplicate(ka_damage_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    for (uint32_t i = 1; i < x->count; i++)
        if (m->rank_of[m->members[x->first + i]] == m->rank_of[m->members[x->first + i - 1]])
            report_call(s, KA_DAMAGE_DUPLICATE, x, m->members[x->first + i]);
}

/* ---- numbers that are shifted ---------------------------------------------------------------- */

#define LATE_NS 20000 /* beyond what clocks and ends differ by */

/* How many values are less than `ns`. */
static size_t count_below(const int64_t *sorted, size_t count, int64_t ns)
{
    size_t at = 0, end = count;
    KB_LOWER_BOUND(at, end, sorted[at] < ns);
    return at;
}

/* A member that ends before most others begin, or begins after they end, is in another collective: its numbers are
 * probably shifted. Counts such instances by member and group, with the first number; report_members
 * (rank_damage.c) reports from MIN_CONTRADICTIONS on. On clocks that are not common nothing is known, so that these
 * instances are not passed here. */
static void find_contradictions(ka_damage_search *s, const ka_instance *x)
{
    const ka_rank_model *m = s->m;
    uint32_t n = x->count;
    int64_t *starts = malloc(2 * (size_t)n * sizeof *starts), *ends = starts + n;
    s->no_memory |= !starts;
    for (uint32_t i = 0; starts && i < n; i++) {
        starts[i] = m->start_ns[m->members[x->first + i]];
        ends[i] = m->end_ns[m->members[x->first + i]];
    }
    if (starts) {
        qsort(starts, n, sizeof *starts, kb_compare_int64);
        qsort(ends, n, sizeof *ends, kb_compare_int64);
    }
    for (uint32_t i = 0; starts && i < n; i++) {
        uint32_t row = m->members[x->first + i];
        size_t against = n - count_below(starts, n, m->end_ns[row] + LATE_NS + 1) +
                         count_below(ends, n, m->start_ns[row] - LATE_NS);
        ka_membership *member = ka_find_member(s, x->group, m->rank_of[row]);
        if (!member || 2 * against < n)
            continue;
        if (!member->contradictions++ || x->sequence < member->first_contradiction)
            member->first_contradiction = x->sequence;
    }
    free(starts);
}

/* ---- collectives without numbers ------------------------------------------------------------- */

static uint64_t step_key(const ka_instance *x)
{
    uint64_t key[] = {x->group, x->step};
    return kb_hash(key, sizeof key);
}

/* Steps in which members of a group call it differently often: which calls belong together is not known there. */
static void list_uneven_steps(ka_damage_search *s, kb_map *uneven)
{
    const ka_rank_model *m = s->m;
    for (size_t i = 0; i < m->instances.count && !s->no_memory; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (x->count != x->size && (ka_model_row(m, m->members[x->first])->flags & KA_COMM_BY_ORDER))
            s->no_memory |= !kb_map_insert(uneven, step_key(x), 0, NULL);
    }
}

/* Is it one collective, although it is matched by order? Groups without a name are guessed, and threads of hosts may change the
 * order. */
static bool is_matched_by_order(const ka_rank_model *m, const ka_instance *x, const kb_map *uneven)
{
    uint32_t row = m->members[x->first];
    const ka_comm *c = ka_model_row(m, row);
    bool is_candidate = m->is_whole && (c->flags & KA_COMM_BY_ORDER) && !ka_is_message(c->op) && !m->facts[m->rank_of[row]]->on_host;
    return is_candidate && m->groups.data[x->group].name.size && !kb_map_find(uneven, step_key(x));
}

/* One kind of damage of an instance: numbers that come twice and calls that differ explain times that contradict, so
 * that these are looked at only where the calls agree. */
static void find_wrong_call(ka_damage_search *s, usual_calls *u, const ka_instance *x)
{
    if (x->flags & KA_INSTANCE_DUPLICATE)
        find_duplicate(s, x);
    if (x->flags & KA_INSTANCE_MISMATCH)
        find_mismatch(s, u, x);
    else if (!(x->flags & KA_INSTANCE_DUPLICATE) && (x->flags & KA_INSTANCE_TORN) && !(x->flags & KA_INSTANCE_APART))
        find_contradictions(s, x);
}

void ka_find_wrong_calls(ka_damage_search *s)
{
    const ka_rank_model *m = s->m;
    usual_calls u = {0};
    kb_map uneven = {0};
    list_uneven_steps(s, &uneven);
    for (size_t i = 0; i < m->instances.count && !s->no_memory; i++) {
        const ka_instance *x = &m->instances.data[i];
        if (ka_is_numbered(ka_model_row(m, m->members[x->first])))
            find_wrong_call(s, &u, x);
        else if ((x->flags & KA_INSTANCE_MISMATCH) && is_matched_by_order(m, x, &uneven))
            find_mismatch(s, &u, x);
    }
    kb_map_free(&uneven);
    kb_map_free(&u.counts);
    free(u.nth);
}
