/* Corrects what keeps collectives from being joined, before clocks are aligned: ranks of another run take no part, and
 * numbers of a rank that are shifted against those of the other members are shifted back. */
#include "analyze/ranks/rank_model.h"

/* ---- ranks of another run -------------------------------------------------------------------- */

/* Their rows are of no group of this run. `changed`: rows are to be joined again. False: out of memory. */
static bool leave_out_strangers(ka_rank_model *m, bool *changed)
{
    ka_shared *of = calloc((size_t)m->rank_count + 1, sizeof *of);
    if (of)
        ka_count_shared(m, of);
    if (of && ka_find_strangers(of, m->rank_count, m->is_stranger))
        for (uint32_t r = 0; r < m->rank_count; r++) {
            m->domain[r] = m->is_stranger[r] ? KA_NONE : m->domain[r];
            for (uint32_t row = m->base[r]; m->is_stranger[r] && row < m->base[r + 1]; row++)
                m->group_of[row] = KA_NONE;
            *changed |= m->is_stranger[r];
        }
    free(of);
    return of != NULL;
}

/* ---- numbers that are shifted ---------------------------------------------------------------- */

/* What a rank has of a group. */
typedef struct numbering {
    uint32_t rank, group;
    uint32_t first, last, count; /* count: of different numbers */
    uint32_t jumps, from, by; /* how often numbers were left out, and where and how many at first */
    bool is_unordered;
} numbering;

/* A number that comes twice is another damage. `count` is without it; `from` and `by` are those of the first jump
 * only. */
static void add_number(numbering *n, uint32_t sequence)
{
    if (n->count && sequence == n->last)
        return;
    if (!n->count++) {
        n->first = n->last = sequence;
        return;
    }
    n->is_unordered |= sequence < n->last;
    if (sequence > n->last + 1 && !n->jumps++) {
        n->from = n->last + 1;
        n->by = sequence - n->from;
    }
    n->last = KB_MAX(n->last, sequence);
}

/* @param list  by rank and its groups, as ka_rank_model.global; zeros. */
static void list_numberings(const ka_rank_model *m, numbering *list)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        for (uint32_t row = m->base[r]; row < m->base[r + 1]; row++) {
            const ka_comm *c = ka_model_row(m, row);
            if (m->group_of[row] == KA_NONE || !ka_is_numbered(c))
                continue;
            numbering *n = &list[m->global_base[r] + c->group];
            n->rank = r;
            n->group = m->group_of[row];
            add_number(n, c->sequence);
        }
}

/* What members without jumps have: the least and the largest number, and the most calls. */
typedef struct group_numbers {
    uint32_t first, last, count;
} group_numbers;

/* A member that left numbers out once, and has as many calls as the others, which have these numbers, has shifted ones. */
static bool is_shifted(const numbering *n, const group_numbers *g)
{
    return n->jumps == 1 && !n->is_unordered && g->count && n->first == g->first && n->count == g->count &&
           n->last == g->last + n->by;
}

/* Members that left out numbers say nothing about what is right. */
static void describe_groups(const numbering *list, uint32_t slots, group_numbers *groups)
{
    for (uint32_t i = 0; i < slots; i++) {
        group_numbers *g = &groups[list[i].group];
        if (!list[i].count || list[i].jumps)
            continue;
        g->first = g->count ? KB_MIN(g->first, list[i].first) : list[i].first;
        g->last = KB_MAX(g->last, list[i].last);
        g->count = KB_MAX(g->count, list[i].count);
    }
}

/* Lists shifts, in the order of ranks, and notes which ranks end before their groups do. */
static bool correct_members(ka_rank_model *m, const numbering *list, uint32_t slots, const group_numbers *groups)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < slots; i++) {
        const numbering *n = &list[i];
        const group_numbers *g = &groups[n->group];
        if (n->count && is_shifted(n, g))
            ok = kb_vec_push(&m->shifts, ((ka_number_shift){n->rank, n->group, n->from, n->by, n->last}));
        else if (n->count)
            m->ends_early[n->rank] |= n->last < g->last;
    }
    return ok;
}

bool ka_correct_numbers(ka_rank_model *m, bool *changed)
{
    uint32_t slots = m->global_base[m->rank_count];
    *changed = false;
    if (!leave_out_strangers(m, changed))
        return false;
    if (!m->is_whole)
        return true;
    numbering *list = calloc((size_t)slots + 1, sizeof *list);
    group_numbers *groups = calloc(m->groups.count + 1, sizeof *groups);
    bool ok = list && groups;
    if (ok) {
        list_numberings(m, list);
        describe_groups(list, slots, groups);
        ok = correct_members(m, list, slots, groups);
    }
    *changed |= m->shifts.count > 0;
    free(list);
    free(groups);
    return ok;
}

uint32_t ka_shift_number(const ka_rank_model *m, uint32_t row)
{
    const ka_comm *c = ka_model_row(m, row);
    uint32_t rank = m->rank_of[row];
    size_t at = 0, end = m->shifts.count; /* by rank */
    KB_LOWER_BOUND(at, end, m->shifts.data[at].rank < rank);
    for (; at < m->shifts.count && m->shifts.data[at].rank == rank && ka_is_numbered(c); at++) {
        const ka_number_shift *s = &m->shifts.data[at];
        if (s->group == m->group_of[row] && c->sequence >= s->from)
            return c->sequence - s->by;
    }
    return c->sequence;
}

/* ---- rows whose place is not known ----------------------------------------------------------- */

/* Of a group, while the rows of one rank are read. */
typedef struct last_number {
    uint32_t rank, row, number; /* rank: and 1 */
} last_number;

static uint32_t end_of_step(const ka_rank_model *m, uint32_t rank, uint32_t row)
{
    uint32_t step = ka_model_row(m, row)->step;
    while (row < m->base[rank + 1] && ka_model_row(m, row)->step == step)
        row++;
    return row;
}

/* A number that is left out or comes again displaces the rows after it, up to the end of the step. */
static bool list_odd_rows_of(ka_rank_model *m, uint32_t rank, last_number *of)
{
    bool ok = true;
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1] && ok; row++) {
        if (m->group_of[row] == KA_NONE || !ka_is_numbered(ka_model_row(m, row)))
            continue;
        last_number *l = &of[m->group_of[row]];
        uint32_t number = ka_number_of(m, row);
        if (l->rank == rank + 1 && number != l->number + 1)
            ok = kb_vec_push(&m->odd, ((ka_odd_rows){l->row + 1, end_of_step(m, rank, row)}));
        *l = (last_number){rank + 1, row, number};
    }
    return ok;
}

/* By group: the least number of any rank. */
static void find_first_numbers(const ka_rank_model *m, uint32_t *first)
{
    for (size_t g = 0; g < m->groups.count; g++)
        first[g] = UINT32_MAX;
    for (uint32_t row = 0; row < m->row_count; row++)
        if (m->group_of[row] != KA_NONE && ka_is_numbered(ka_model_row(m, row)))
            first[m->group_of[row]] = KB_MIN(first[m->group_of[row]], ka_number_of(m, row));
}

/* The first step of a rank whose trace begins late lacks rows. */
static bool list_first_rows_of(ka_rank_model *m, uint32_t rank, const uint32_t *first, uint32_t *stamp)
{
    bool is_late = false;
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++) {
        uint32_t group = m->group_of[row];
        if (group == KA_NONE || !ka_is_numbered(ka_model_row(m, row)) || stamp[group] == rank + 1)
            continue;
        stamp[group] = rank + 1;
        is_late |= ka_number_of(m, row) > first[group];
    }
    uint32_t begin = m->base[rank], row = begin;
    while (row + 1 < m->base[rank + 1] && ka_model_row(m, row)->step == UINT32_MAX)
        row++; /* the begin of its step is absent, too */
    if (is_late && ka_model_row(m, row)->step != UINT32_MAX)
        m->late_step[rank] = ka_model_row(m, row)->step - (row > begin ? 1 : 0);
    return !is_late || kb_vec_push(&m->odd, ((ka_odd_rows){begin, end_of_step(m, rank, begin)}));
}

bool ka_list_odd_rows(ka_rank_model *m)
{
    last_number *of = calloc(m->groups.count + 1, sizeof *of);
    uint32_t *first = malloc((m->groups.count + 1) * sizeof *first), *stamp = calloc(m->groups.count + 1, sizeof *stamp);
    bool ok = of && first && stamp;
    if (ok)
        find_first_numbers(m, first);
    m->odd.count = 0;
    for (uint32_t rank = 0; rank < m->rank_count && ok; rank++)
        ok = list_first_rows_of(m, rank, first, stamp) && list_odd_rows_of(m, rank, of);
    free(of);
    free(first);
    free(stamp);
    return ok;
}
