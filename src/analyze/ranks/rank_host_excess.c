/* Processes that share processors take turns: each computes longer in some steps, because another one ran. Such
 * noise is large, and even. So a rank has more to do only if
 *   - its steps exceed those of others of its role by more than the error of their median, and by several times as much
 *     as those differ: what counts is by how much each place of its typical step exceeds theirs; or
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
#define FAR_STEP       3.0  /* a step is unusual beyond so many times the next one */
#define FAR_MEDIANS    6.0  /* … and the rank's typical deviation, and the length of a step */

typedef struct host_excess {
    const ka_rank_model *m;
    const int64_t *work_ns;
    double *usual;
    uint32_t block_count, first_step;
    bool has_steps;
    double *work;     /* by rank and block; NAN: it has no such block */
    double *beyond;   /* by rank and block: more than others of its role; NAN */
    double *room;     /* for medians */
    double length_ns; /* of a block, on the average */
} host_excess;

/* ---- blocks: steps, or equal parts of the rows ----------------------------------------------- */

static void find_blocks(host_excess *x)
{
    const ka_rank_model *m = x->m;
    uint32_t first = UINT32_MAX, last = 0;
    for (uint32_t row = 0; row < m->row_count; row++) {
        uint32_t step = ka_model_row(m, row)->step;
        first = step == UINT32_MAX ? first : KB_MIN(first, step);
        last = step == UINT32_MAX ? last : KB_MAX(last, step);
    }
    x->first_step = first;
    x->has_steps = first != UINT32_MAX && last - first < MAX_BLOCKS;
    x->block_count = x->has_steps ? last - first + 1 : UNTIMED_BLOCKS;
    for (uint32_t row = 0; row < m->row_count; row++)
        x->length_ns = fmax(x->length_ns, (double)m->end_ns[row] / x->block_count);
}

/* The block that the computation before a row belongs to; KA_NONE: none. */
static uint32_t block_of(const host_excess *x, uint32_t row)
{
    uint32_t rank = x->m->rank_of[row], first = x->m->base[rank], end = x->m->base[rank + 1];
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

static void sum_blocks(host_excess *x)
{
    for (size_t i = 0; i < (size_t)x->m->rank_count * x->block_count; i++)
        x->work[i] = x->beyond[i] = NAN;
    for (uint32_t row = 0; row < x->m->row_count; row++) {
        uint32_t rank = x->m->rank_of[row], block = block_of(x, row);
        if (block == KA_NONE || !x->m->facts[rank]->on_host)
            continue;
        double *sum = cell_of(x, x->work, rank, block);
        *sum = (isnan(*sum) ? 0 : *sum) + (double)x->work_ns[row];
    }
}

/* ---- what is beyond others ------------------------------------------------------------------- */

/* Of a rank alone in its role: what is beyond its own other blocks. */
static double find_reference(const host_excess *x, uint32_t rank, uint32_t block)
{
    size_t count = 0;
    for (uint32_t r = 0; r < x->m->rank_count; r++)
        if (r != rank && x->m->role[r] == x->m->role[rank] && !isnan(*cell_of(x, x->work, r, block)))
            x->room[count++] = *cell_of(x, x->work, r, block);
    for (uint32_t b = 0; b < x->block_count && !count && b < MAX_BLOCKS; b++)
        if (b != block && !isnan(*cell_of(x, x->work, rank, b)))
            x->room[count++] = *cell_of(x, x->work, rank, b);
    return count ? ka_median(x->room, count) : NAN;
}

static void measure_beyond(host_excess *x)
{
    for (uint32_t rank = 0; rank < x->m->rank_count; rank++)
        for (uint32_t b = 0; b < x->block_count; b++)
            if (!isnan(*cell_of(x, x->work, rank, b)))
                *cell_of(x, x->beyond, rank, b) = *cell_of(x, x->work, rank, b) - find_reference(x, rank, b);
}

/* Median of a rank's blocks, and the median of the distances from it. False: too few. */
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
static bool find_typical(const host_excess *x, uint32_t rank, double *typical)
{
    double spread, less;
    size_t count;
    if (x->has_steps)
        return describe_rank(x, rank, typical, &spread, &count);
    sum_beyond(x, rank, typical, &less);
    *typical -= less;
    return true;
}

/* How far another rank of the role typically is from the others; 0: there are not enough. */
static double find_role_noise(const host_excess *x, uint32_t rank)
{
    double *typical = x->room + x->m->rank_count + x->block_count; /* of as many ranks */
    size_t others = 0;
    for (uint32_t r = 0; r < x->m->rank_count; r++)
        if (r != rank && x->m->role[r] == x->m->role[rank] && find_typical(x, r, &typical[others])) {
            typical[others] = fabs(typical[others]);
            others++;
        }
    if (others < 2)
        return 0;
    qsort(typical, others, sizeof *typical, kb_compare_doubles);
    return ka_quantile(typical, others, 0.75); /* of few ranks, two may be slow */
}

static bool is_certain(const host_excess *x, uint32_t rank)
{
    double typical, median, spread, more, less, noise = find_role_noise(x, rank);
    size_t count;
    if (!find_typical(x, rank, &typical) || typical <= FAR_RANK * noise)
        return false;
    if (x->has_steps)
        return describe_rank(x, rank, &median, &spread, &count) &&
               median > SURE_ERRORS * 1.2533 * spread / sqrt((double)count);
    sum_beyond(x, rank, &more, &less);
    return more > MORE_THAN_LESS * less;
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
    for (uint32_t r = 0; r < x->m->rank_count; r++)
        for (uint32_t b = 0; b < x->block_count; b++)
            if (b != found)
                next = fmax(next, *cell_of(x, x->beyond, r, b));
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

static uint64_t place_of(const host_excess *x, uint32_t row, uint32_t nth)
{
    uint64_t key[] = {x->m->role[x->m->rank_of[row]], nth, ka_role_op(ka_model_row(x->m, row))};
    return kb_hash(key, sizeof key);
}

/* Calls `see` for each row of a rank with its place. */
typedef void row_visitor(host_excess *x, uint32_t row, uint64_t place, void *context);
static void visit_places(host_excess *x, uint32_t rank, row_visitor *see, void *context)
{
    uint32_t nth = 0, block = KA_NONE;
    for (uint32_t row = x->m->base[rank]; row < x->m->base[rank + 1]; row++) {
        nth = block_of(x, row) == block ? nth + 1 : 0;
        block = block_of(x, row);
        see(x, row, place_of(x, row, nth), context);
    }
}

typedef struct place_list {
    placed *list;
    size_t count;
    kb_map more; /* place → by how much the rank is beyond others there, ns */
} place_list;

static void put_place(host_excess *x, uint32_t row, uint64_t place, void *context)
{
    place_list *p = context;
    p->list[p->count++] = (placed){place, x->m->rank_of[row], (double)x->work_ns[row]};
}

/* Medians of each rank at a place are compared with the median of those of others. */
static bool compare_place(host_excess *x, uint32_t rank, place_list *p, size_t first, size_t end)
{
    double own = NAN;
    size_t others = 0;
    for (size_t i = first, next; i < end; i = next) {
        for (next = i + 1; next < end && p->list[next].rank == p->list[i].rank; next++)
            ;
        double middle = (p->list[i + (next - i - 1) / 2].value + p->list[i + (next - i) / 2].value) / 2;
        if (p->list[i].rank == rank)
            own = middle;
        else
            x->room[others++] = middle;
    }
    double more = isnan(own) || !others ? 0 : own - ka_median(x->room, others);
    return more <= 0 || kb_map_insert(&p->more, p->list[first].place, (uint64_t)more, NULL);
}

static void take_more(host_excess *x, uint32_t row, uint64_t place, void *context)
{
    const uint64_t *more = kb_map_find(&((place_list *)context)->more, place);
    x->usual[row] = fmax((double)x->work_ns[row] - (more ? (double)*more : 0), 0);
}

static bool take_typical_excess(host_excess *x, uint32_t rank)
{
    place_list p = {.list = malloc(((size_t)x->m->row_count + 1) * sizeof *p.list)};
    bool ok = p.list != NULL;
    for (uint32_t r = 0; r < x->m->rank_count && ok; r++)
        if (x->m->role[r] == x->m->role[rank])
            visit_places(x, r, put_place, &p);
    if (ok && p.count)
        qsort(p.list, p.count, sizeof *p.list, compare_placed);
    for (size_t i = 0, next; ok && i < p.count; i = next) {
        for (next = i + 1; next < p.count && p.list[next].place == p.list[i].place; next++)
            ;
        ok = compare_place(x, rank, &p, i, next);
    }
    if (ok)
        visit_places(x, rank, take_more, &p);
    kb_map_free(&p.more);
    free(p.list);
    return ok;
}

/* ---- one rank -------------------------------------------------------------------------------- */

/* What is left of a step that is far beyond others: its work, by as much less everywhere. */
static void take_far_block(host_excess *x, uint32_t rank, uint32_t block)
{
    double work = *cell_of(x, x->work, rank, block), beyond = *cell_of(x, x->beyond, rank, block);
    double share = work > 0 ? fmax(1 - beyond / work, 0) : 1;
    for (uint32_t row = x->m->base[rank]; row < x->m->base[rank + 1]; row++)
        x->usual[row] = (double)x->work_ns[row] * (block_of(x, row) == block ? share : 1);
}

static void take_nothing(host_excess *x, uint32_t rank)
{
    for (uint32_t row = x->m->base[rank]; row < x->m->base[rank + 1]; row++)
        x->usual[row] = (double)x->work_ns[row];
}

static bool check_rank(host_excess *x, uint32_t rank)
{
    uint32_t far = find_far_block(x, rank);
    if (far != KA_NONE)
        take_far_block(x, rank, far);
    else if (!is_certain(x, rank))
        take_nothing(x, rank);
    else if (x->has_steps)
        return take_typical_excess(x, rank);
    return true; /* without steps `usual` is that of its place in the run */
}

static bool has_hosts(const ka_rank_model *m)
{
    for (uint32_t r = 0; r < m->rank_count; r++)
        if (m->facts[r]->on_host)
            return true;
    return false;
}

bool ka_find_host_excess(const ka_rank_model *m, const int64_t *work_ns, double *usual)
{
    host_excess x = {.m = m, .work_ns = work_ns, .usual = usual};
    if (!has_hosts(m))
        return true;
    find_blocks(&x);
    size_t cells = (size_t)m->rank_count * x.block_count + 1;
    x.work = malloc(cells * sizeof *x.work);
    x.beyond = malloc(cells * sizeof *x.beyond);
    x.room = malloc((2 * (size_t)m->rank_count + x.block_count + 1) * sizeof *x.room);
    bool ok = x.work && x.beyond && x.room;
    if (ok) {
        sum_blocks(&x);
        measure_beyond(&x);
    }
    for (uint32_t r = 0; r < m->rank_count && ok; r++)
        if (m->facts[r]->on_host)
            ok = check_rank(&x, r);
    free(x.work);
    free(x.beyond);
    free(x.room);
    return ok;
}
