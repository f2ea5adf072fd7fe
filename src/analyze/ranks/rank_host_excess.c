/* Processes that share processors take turns: each computes longer in some steps, because another one ran. Such
 * noise is large, and even. So a rank has more to do only if
 *   - its steps exceed those of others of its role by more than the error of their median, and by several times as much
 *     as those differ: what counts is by how much each place of its typical step exceeds theirs. Where operators are
 *     recorded, it is first looked for in what the work typically takes (host_pieces.c), which has less noise; or
 *   - one of its steps exceeds them by several times as much as any other step of any rank.
 * Runs without steps are cut in equal parts; a rank must exceed others by several times as much as it falls short. */
#include "analyze/ranks/rank_host_excess.h"

#include <math.h>

#define MAX_BLOCKS     4096u
#define UNTIMED_BLOCKS 32u  /* parts of a run without steps */
#define MIN_BLOCKS     3u
#define SURE_ERRORS    4.0  /* a rank's typical excess is certain beyond so many errors of the median … */
#define FAR_RANK       3.0  /* … and so many times what is typical of the others of its role */
#define MORE_THAN_LESS 5.0  /* of a run without steps: a rank has so many times more than it has less */
#define TYPICAL_SHARE  0.1  /* … and, of what its work typically takes, so much */
#define FAR_STEP       3.0  /* a step is unusual beyond so many times the next one */
#define FAR_MEDIANS    6.0  /* … and the rank's typical deviation, and the length of a step */

typedef struct host_excess {
    const ka_rank_model *m;
    const ka_replay *replay;
    ka_usual *usual;
    uint32_t block_count, first_step;
    bool has_steps;
    uint32_t *ranks, role_count; /* those of hosts, by role; how many the role at hand has */
    bool of_typical;  /* `work` and what follows from it is of what the work typically takes */
    double *work;     /* by rank and block; NAN: it has no such block */
    double *beyond;   /* by rank and block: more than others of its role; NAN */
    double *most;     /* by block: the most that any rank is beyond */
    double *typical;  /* by rank: of all its blocks; NAN: it has too few */
    double *room, *others; /* for medians; what is typical of the role at hand, without signs, sorted */
    size_t other_count;
    bool *is_certain; /* by rank */
    bool *is_typical; /* by rank: it is so of what its work typically takes */
    double length_ns; /* of a block, on the average */
} host_excess;

/* Of all but one of sorted values. Linear between neighbours; `count` includes the one, and is 2 at least. */
static double quantile_without(const double *sorted, size_t count, double value, double q)
{
    size_t own = 0, end = count, below;
    KB_LOWER_BOUND(own, end, sorted[own] < value);
    double at = q * (double)(count - 2);
    below = (size_t)at;
    double low = sorted[below + (below >= own)];
    if (below + 2 >= count)
        return low;
    return low + (sorted[below + 1 + (below + 1 >= own)] - low) * (at - (double)below);
}

static size_t sort_values(double *values, size_t count)
{
    if (count)
        qsort(values, count, sizeof *values, kb_compare_doubles);
    return count;
}

static bool is_counted(const host_excess *x, uint32_t row) { return x->usual->place[row] != KA_NONE; }

/* The work before a row, ns: as replayed, or what it typically takes while that is looked at. */
static int64_t work_of(const host_excess *x, uint32_t row)
{
    return x->of_typical ? ka_model_row(x->m, row)->host_ns : x->replay->rows[row].work_ns;
}

/* ---- blocks: steps, or equal parts of the rows ----------------------------------------------- */

/* Blocks are steps if their numbers span at most MAX_BLOCKS; else UNTIMED_BLOCKS equal parts of each rank's rows. */
static void find_blocks(host_excess *x)
{
    const ka_rank_model *m = x->m;
    uint32_t first = UINT32_MAX, last = 0;
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (uint32_t row = 0; row < m->row_count; row++) {
        uint32_t step = ka_model_row(m, row)->step;
        if (!is_counted(x, row))
            continue;
        first = step == UINT32_MAX ? first : KB_MIN(first, step);
        last = step == UINT32_MAX ? last : KB_MAX(last, step);
        begin_ns = KB_MIN(begin_ns, m->start_ns[row]);
        end_ns = KB_MAX(end_ns, m->end_ns[row]);
    }
    x->first_step = first;
    x->has_steps = first != UINT32_MAX && last - first < MAX_BLOCKS;
    x->block_count = x->has_steps ? last - first + 1 : UNTIMED_BLOCKS;
    x->length_ns = begin_ns < end_ns ? (double)(end_ns - begin_ns) / x->block_count : 0;
}

/* Rows of a rank from here on are compared; those before it are of another window. */
static uint32_t first_row(const host_excess *x, uint32_t rank)
{
    return x->m->base[rank] + (x->m->window ? x->m->window[rank].context : 0);
}

/* The block that the computation before a row belongs to; KA_NONE: none. */
static uint32_t block_of(const host_excess *x, uint32_t row)
{
    uint32_t rank = x->m->rank_of[row], first = first_row(x, rank), end = x->m->base[rank + 1];
    uint32_t step = ka_model_row(x->m, row)->step;
    if (!x->has_steps)
        return (uint32_t)((uint64_t)(row - first) * x->block_count / (end - first));
    if (step == UINT32_MAX && row > first) /* the end of the rank: of its last step */
        step = ka_model_row(x->m, row - 1)->step;
    return step == UINT32_MAX ? KA_NONE : step - x->first_step;
}

static double *cell_of(const host_excess *x, double *of, uint32_t rank, uint32_t block)
{
    return &of[(size_t)rank * x->block_count + block];
}

/* The work of each rank in each block, ns. A block without a row of the rank has NAN, which no comparison takes for
 * 0. */
static void sum_blocks(host_excess *x)
{
    for (size_t i = 0; i < (size_t)x->m->rank_count * x->block_count; i++)
        x->work[i] = x->beyond[i] = (double)NAN;
    for (uint32_t row = 0; row < x->m->row_count; row++) {
        uint32_t rank = x->m->rank_of[row];
        if (!is_counted(x, row) || !x->m->facts[rank]->on_host || block_of(x, row) == KA_NONE)
            continue;
        double *sum = cell_of(x, x->work, rank, block_of(x, row));
        *sum = (isnan(*sum) ? 0 : *sum) + (double)work_of(x, row);
    }
}

/* ---- ranks of a role ------------------------------------------------------------------------- */

static int compare_roles(const void *left, const void *right, void *context)
{
    const uint32_t *role = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (role[a] != role[b])
        return role[a] < role[b] ? -1 : 1;
    return (a > b) - (a < b);
}

/* Calls `judge` for the ranks of each role, which x->ranks then begins with. False: out of memory. */
static bool visit_roles(host_excess *x, bool (*judge)(host_excess *x))
{
    uint32_t *all = x->ranks, count = 0;
    bool ok = true;
    for (uint32_t r = 0; r < x->m->rank_count; r++)
        if (x->m->facts[r]->on_host)
            all[count++] = r;
    qsort_r(all, count, sizeof *all, compare_roles, x->m->role);
    for (uint32_t i = 0; i < count && ok; i += x->role_count) {
        x->ranks = all + i;
        for (x->role_count = 1; i + x->role_count < count && x->m->role[all[i + x->role_count]] == x->m->role[all[i]];)
            x->role_count++;
        ok = judge(x);
    }
    x->ranks = all;
    return ok;
}

/* ---- what is beyond others ------------------------------------------------------------------- */

/* A rank without others in a block is compared with its own other blocks. */
static void compare_with_itself(host_excess *x, uint32_t rank, uint32_t block)
{
    size_t count = 0;
    double own = *cell_of(x, x->work, rank, block);
    for (uint32_t b = 0; b < x->block_count; b++)
        if (!isnan(*cell_of(x, x->work, rank, b)))
            x->room[count++] = *cell_of(x, x->work, rank, b);
    if (sort_values(x->room, count) > 1)
        *cell_of(x, x->beyond, rank, block) = own - quantile_without(x->room, count, own, 0.5);
}

/* Sets by how much each rank of the role at hand is beyond the median of the others, block by block, ns: negative if it
 * has less to do. Where it has no others, its own other blocks are taken for them. */
static bool measure_beyond(host_excess *x)
{
    for (uint32_t b = 0; b < x->block_count; b++) {
        size_t count = 0;
        for (uint32_t i = 0; i < x->role_count; i++)
            if (!isnan(*cell_of(x, x->work, x->ranks[i], b)))
                x->room[count++] = *cell_of(x, x->work, x->ranks[i], b);
        sort_values(x->room, count);
        for (uint32_t i = 0; i < x->role_count; i++) {
            double own = *cell_of(x, x->work, x->ranks[i], b);
            if (!isnan(own) && count > 1)
                *cell_of(x, x->beyond, x->ranks[i], b) = own - quantile_without(x->room, count, own, 0.5);
            else if (!isnan(own))
                compare_with_itself(x, x->ranks[i], b);
        }
    }
    return true;
}

/* Median of a rank's blocks, and their spread: 1.4826 times the median distance from it, σ of a normal distribution.
 * False: too few. */
static bool describe_rank(const host_excess *x, uint32_t rank, double *median, double *spread, size_t *count)
{
    *count = 0;
    for (uint32_t b = 0; b < x->block_count; b++)
        if (!isnan(*cell_of(x, x->beyond, rank, b)))
            x->room[(*count)++] = *cell_of(x, x->beyond, rank, b);
    if (*count < MIN_BLOCKS)
        return false;
    *median = ka_median(x->room, *count);
    *spread = 1.4826 * ka_mad(x->room, *count, *median);
    return true;
}

/* Sums of what a rank has more than others in blocks, and of what it has less. */
static void sum_beyond(const host_excess *x, uint32_t rank, double *more, double *less)
{
    *more = *less = 0;
    for (uint32_t b = 0; b < x->block_count; b++) {
        double beyond = *cell_of(x, x->beyond, rank, b);
        *more += isnan(beyond) ? 0 : fmax(beyond, 0);
        *less += isnan(beyond) ? 0 : fmax(-beyond, 0);
    }
}

/* What is typical of a rank: the median of its steps; of a run without steps, the sum. */
static double find_typical(const host_excess *x, uint32_t rank)
{
    double median, spread, more, less;
    size_t count;
    if (x->has_steps)
        return describe_rank(x, rank, &median, &spread, &count) ? median : (double)NAN;
    sum_beyond(x, rank, &more, &less);
    return more - less;
}

static void describe_role(host_excess *x)
{
    x->other_count = 0;
    for (uint32_t i = 0; i < x->role_count; i++) {
        double typical = x->typical[x->ranks[i]] = find_typical(x, x->ranks[i]);
        if (!isnan(typical))
            x->others[x->other_count++] = fabs(typical);
    }
    sort_values(x->others, x->other_count);
}

/* How far another rank of the role typically is from the others; 0: there are not enough. */
static double find_role_noise(const host_excess *x, uint32_t rank)
{
    enum { MIN_OTHERS = 2 };
    static const double quantile = 0.75; /* of few ranks, two may be slow */
    return x->other_count > MIN_OTHERS ? quantile_without(x->others, x->other_count, fabs(x->typical[rank]), quantile) : 0;
}

/* Has the rank more to do than the others of its role? With steps, its median is also beyond SURE_ERRORS standard
 * errors; that of a median is 1.2533 σ/√n, sqrt(π/2) times that of a mean. */
static bool is_certain(const host_excess *x, uint32_t rank)
{
    double median, spread, more, less;
    size_t count;
    if (!(x->typical[rank] > FAR_RANK * find_role_noise(x, rank)))
        return false;
    if (x->has_steps)
        return describe_rank(x, rank, &median, &spread, &count) &&
               median > SURE_ERRORS * 1.2533 * spread / sqrt((double)count);
    sum_beyond(x, rank, &more, &less);
    return more > MORE_THAN_LESS * less;
}

/* By block, of all ranks: a step stands out only if no other step of any rank is nearly as far beyond. */
static void find_most(host_excess *x)
{
    for (uint32_t b = 0; b < x->block_count; b++) {
        x->most[b] = 0;
        for (uint32_t r = 0; r < x->m->rank_count; r++)
            x->most[b] = fmax(x->most[b], *cell_of(x, x->beyond, r, b));
    }
}

/* The block that is far beyond all others of all ranks; KA_NONE. */
static uint32_t find_far_block(const host_excess *x, uint32_t rank)
{
    double most = 0, next = 0, median, spread;
    size_t count;
    uint32_t found = KA_NONE;
    for (uint32_t b = 0; b < x->block_count; b++)
        if (*cell_of(x, x->beyond, rank, b) > most) {
            most = *cell_of(x, x->beyond, rank, b);
            found = b;
        }
    for (uint32_t b = 0; b < x->block_count; b++)
        next = b == found ? next : fmax(next, x->most[b]);
    bool is_far = describe_rank(x, rank, &median, &spread, &count) && most > x->length_ns &&
                  most > FAR_STEP * next && most - median > FAR_MEDIANS * spread;
    return is_far ? found : KA_NONE;
}

/* ---- places of the typical step -------------------------------------------------------------- */

typedef struct placed {
    uint64_t place; /* role and place in the step */
    uint32_t rank;
    double value;
} placed;

static int compare_placed(const void *left, const void *right)
{
    const placed *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    return kb_compare_doubles(&a->value, &b->value);
}

/* Equal for rows of a role that have the same number in their step, and the same operation. */
static uint64_t place_of(const host_excess *x, uint32_t row, uint32_t nth)
{
    uint64_t key[] = {x->m->role[x->m->rank_of[row]], nth, ka_role_op(ka_model_row(x->m, row))};
    return kb_hash(key, sizeof key);
}

/* Calls `see` for each row of a rank that is in a step, with its place. */
typedef void row_visitor(host_excess *x, uint32_t row, uint64_t place, void *context);
static void visit_places(host_excess *x, uint32_t rank, row_visitor *see, void *context)
{
    ka_numbering before = ka_first_number(x->m, rank);
    uint32_t nth = before.nth, block = x->m->window ? before.step - x->first_step : KA_NONE;
    for (uint32_t row = first_row(x, rank); row < x->m->base[rank + 1]; row++) {
        uint32_t of = block_of(x, row);
        nth = of == block ? nth + 1 : 0;
        block = of;
        if (block != KA_NONE && is_counted(x, row))
            see(x, row, place_of(x, row, nth), context);
    }
}

typedef struct place_list {
    placed *list;
    size_t count;
    kb_map more; /* place and rank → by how much the rank is beyond others there, ns */
} place_list;

static void put_place(host_excess *x, uint32_t row, uint64_t place, void *context)
{
    place_list *p = context;
    p->list[p->count++] = (placed){place, x->m->rank_of[row], (double)work_of(x, row)};
}

static uint64_t key_of_more(uint64_t place, uint32_t rank)
{
    uint64_t key[] = {place, rank};
    return kb_hash(key, sizeof key);
}

/* The medians of ranks at a place, each where its first row was. @return how many. */
static size_t find_rank_medians(placed *list, size_t count)
{
    size_t ranks = 0;
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next].rank == list[i].rank; next++)
            ;
        double middle = (list[i + (next - i - 1) / 2].value + list[i + (next - i) / 2].value) / 2;
        list[ranks++] = (placed){list[i].place, list[i].rank, middle};
    }
    return ranks;
}

/* The median of each rank at a place is compared with the median of those of others. */
static bool compare_place(host_excess *x, place_list *p, size_t first, size_t end)
{
    size_t ranks = find_rank_medians(p->list + first, end - first);
    bool ok = true;
    for (size_t i = 0; i < ranks; i++)
        x->room[i] = p->list[first + i].value;
    sort_values(x->room, ranks);
    for (size_t i = first; i < first + ranks && ranks > 1 && ok; i++) {
        double more = p->list[i].value - quantile_without(x->room, ranks, p->list[i].value, 0.5);
        if (x->is_certain[p->list[i].rank] && more > 0)
            ok = kb_map_insert(&p->more, key_of_more(p->list[i].place, p->list[i].rank), (uint64_t)more, NULL);
    }
    return ok;
}

/* A visitor: what is usual for a row is its own work without what the rank typically has more at this place. */
static void take_more(host_excess *x, uint32_t row, uint64_t place, void *context)
{
    const uint64_t *more = kb_map_find(&((place_list *)context)->more, key_of_more(place, x->m->rank_of[row]));
    x->usual->row_work[row] = fmax((double)x->replay->rows[row].work_ns - (more ? (double)*more : 0), 0);
}

static size_t count_role_rows(const host_excess *x)
{
    size_t rows = 0;
    for (uint32_t i = 0; i < x->role_count; i++)
        rows += x->m->base[x->ranks[i] + 1] - x->m->base[x->ranks[i]];
    return rows;
}

/* Of the ranks of the role that are certain. */
static bool take_typical_excess(host_excess *x)
{
    place_list p = {.list = malloc((count_role_rows(x) + 1) * sizeof *p.list)};
    bool ok = p.list != NULL;
    for (uint32_t i = 0; i < x->role_count && ok; i++)
        visit_places(x, x->ranks[i], put_place, &p);
    if (ok && p.count)
        qsort(p.list, p.count, sizeof *p.list, compare_placed);
    for (size_t i = 0, next; ok && i < p.count; i = next) {
        for (next = i + 1; next < p.count && p.list[next].place == p.list[i].place; next++)
            ;
        ok = compare_place(x, &p, i, next);
    }
    for (uint32_t i = 0; i < x->role_count && ok; i++)
        if (x->is_certain[x->ranks[i]])
            visit_places(x, x->ranks[i], take_more, &p);
    kb_map_free(&p.more);
    free(p.list);
    return ok;
}

/* ---- one role -------------------------------------------------------------------------------- */

/* What is left of a step that is far beyond others: its work, by as much less everywhere. */
static void take_far_block(host_excess *x, uint32_t rank, uint32_t block)
{
    double work = *cell_of(x, x->work, rank, block), beyond = *cell_of(x, x->beyond, rank, block);
    double share = work > 0 ? fmax(1 - beyond / work, 0) : 1;
    for (uint32_t row = first_row(x, rank); row < x->m->base[rank + 1]; row++)
        if (block_of(x, row) == block)
            x->usual->row_work[row] = (double)work_of(x, row) * share;
}

/* The rank is not certain to have more: what it has is set as usual, so that nothing is beyond. */
static void take_nothing(host_excess *x, uint32_t rank)
{
    for (uint32_t row = first_row(x, rank); row < x->m->base[rank + 1]; row++)
        x->usual->row_work[row] = (double)work_of(x, row);
}

/* Is a rank of the role certain by what its work typically takes? Then that of no other one is looked at as it was. */
static bool has_typical(const host_excess *x)
{
    bool has = false;
    for (uint32_t i = 0; i < x->role_count; i++)
        has |= x->is_typical[x->ranks[i]];
    return has;
}

static double mean_work(const host_excess *x, uint32_t rank)
{
    double sum = 0, count = 0;
    for (uint32_t b = 0; b < x->block_count; b++) {
        double work = *cell_of(x, x->work, rank, b);
        sum += isnan(work) ? 0 : work;
        count += isnan(work) ? 0 : 1;
    }
    return count > 0 ? sum / count : 0;
}

static bool judge_typical(host_excess *x)
{
    describe_role(x);
    for (uint32_t i = 0; i < x->role_count; i++) {
        uint32_t rank = x->ranks[i];
        x->is_typical[rank] = is_certain(x, rank) && x->typical[rank] > TYPICAL_SHARE * mean_work(x, rank);
    }
    return true;
}

/* A step far beyond all others comes first: it explains the rank's excess in this window, so that it is not also looked
 * at in its typical step. False: out of memory. */
static bool judge_role(host_excess *x)
{
    bool some = false, of_typical = has_typical(x);
    describe_role(x);
    for (uint32_t i = 0; i < x->role_count; i++) {
        uint32_t rank = x->ranks[i], far = find_far_block(x, rank);
        bool is_sure = far == KA_NONE && (of_typical ? x->is_typical[rank] : is_certain(x, rank));
        if (!is_sure || x->has_steps) /* without steps `usual` is that of its place in the run */
            take_nothing(x, rank);
        if (far != KA_NONE)
            take_far_block(x, rank, far);
        some |= x->is_certain[rank] = is_sure && x->has_steps;
    }
    x->of_typical = of_typical;
    bool ok = !some || take_typical_excess(x);
    x->of_typical = false;
    return ok;
}

/* Do all rows of hosts that are compared come from traces with operators and steps? */
static bool is_typical_known(const host_excess *x)
{
    bool some = false;
    for (uint32_t r = 0; r < x->m->rank_count; r++) {
        bool is_known = !x->m->facts[r]->on_host;
        for (uint32_t row = first_row(x, r); row < x->m->base[r + 1] && !is_known; row++)
            is_known = some = ka_model_row(x->m, row)->host_ns != 0;
        if (!is_known)
            return false;
    }
    return some;
}

static bool find_typical_excess(host_excess *x)
{
    if (!x->has_steps || !is_typical_known(x))
        return true;
    x->of_typical = true;
    sum_blocks(x);
    bool ok = visit_roles(x, measure_beyond) && visit_roles(x, judge_typical);
    x->of_typical = false;
    return ok;
}

static bool has_hosts(const ka_rank_model *m)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->facts[r]->on_host)
            return true;
    return false;
}

static bool allocate_excess(host_excess *x)
{
    size_t ranks = (size_t)x->m->rank_count + 1, blocks = x->block_count, cells = ranks * blocks;
    x->ranks = malloc(ranks * sizeof *x->ranks);
    x->is_certain = calloc(2 * ranks, sizeof *x->is_certain);
    x->work = malloc((2 * cells + 3 * ranks + 2 * blocks) * sizeof *x->work);
    if (!x->ranks || !x->is_certain || !x->work)
        return false;
    x->is_typical = x->is_certain + ranks;
    x->beyond = x->work + cells;
    x->typical = x->beyond + cells;
    x->others = x->typical + ranks;
    x->most = x->others + ranks;
    x->room = x->most + blocks; /* for as many ranks, or blocks */
    return true;
}

bool ka_find_host_excess(const ka_replay *r, ka_usual *u)
{
    host_excess x = {.m = r->m, .replay = r, .usual = u};
    if (!has_hosts(r->m))
        return true;
    if (!ka_allocate_row_work(u))
        return false;
    find_blocks(&x);
    bool ok = allocate_excess(&x) && find_typical_excess(&x);
    if (ok) {
        sum_blocks(&x);
        ok = visit_roles(&x, measure_beyond);
        find_most(&x);
        ok = ok && visit_roles(&x, judge_role);
    }
    free(x.ranks);
    free(x.is_certain);
    free(x.work);
    return ok;
}
