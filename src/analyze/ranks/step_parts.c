/* A delay that comes at the same place of several steps is of the rank; one that is there once is of its step. So of the
 * excess at a place of the step, what the step with most has more than the one after it is of this step. Noise is spread
 * evenly over steps: steps are set apart if they have several times as much of it as all others. */
#include "analyze/ranks/step_parts.h"

#include <math.h>

#define MIN_STEPS 3u
#define MAX_STEPS 4096u
#define FAR_STEPS 3.0 /* a step that is set apart has so many times what the next one has */

/* A row of the rank at a place of its step. */
typedef struct placed_row {
    uint64_t place;
    double excess;
    uint32_t row, step;
} placed_row;

static int compare_placed_rows(const void *left, const void *right)
{
    const placed_row *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->excess != b->excess)
        return a->excess > b->excess ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

/* Rows of steps, by their place in the step, those with most excess first. @return how many. */
static size_t list_placed_rows(const ka_rank_model *m, uint32_t rank, const double *excess, placed_row *list)
{
    ka_numbering n = ka_first_number(m, rank);
    size_t count = 0;
    for (uint32_t row = m->base[rank]; row < m->base[rank + 1]; row++) {
        const ka_comm *c = ka_model_row(m, row);
        uint32_t nth = ka_next_number(&n, c), i = row - m->base[rank];
        if (c->step != UINT32_MAX)
            list[count++] = (placed_row){(uint64_t)nth << 8 | ka_role_op(c), excess[i], i, c->step};
    }
    if (count)
        qsort(list, count, sizeof *list, compare_placed_rows);
    return count;
}

/* What comes once at each place. Places that fewer than MIN_STEPS steps have say nothing. */
static void find_parts(const placed_row *list, size_t count, double *part)
{
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next].place == list[i].place; next++)
            ;
        if (next - i >= MIN_STEPS)
            part[list[i].row] = fmax(list[i].excess - fmax(list[i + 1].excess, 0), 0);
    }
}

/* The least sum of a step that is set apart; 0: there is none. `sums`: of all steps; sorted. At most half of the
 * steps can be far from the others. */
static double find_far_sum(double *sums, size_t count, double least)
{
    double found = 0;
    qsort(sums, count, sizeof *sums, kb_compare_doubles);
    for (size_t apart = 1; apart <= count / 2; apart++) {
        double sum = sums[count - apart], next = sums[count - apart - 1];
        if (sum >= least && sum >= FAR_STEPS * next)
            found = sum;
    }
    return found;
}

/* Keeps the parts of steps that are set apart only. */
static bool select_steps(const ka_rank_model *m, uint32_t rank, const placed_row *list, size_t count, double least_ns, double *part,
                         ka_step_list *steps)
{
    uint32_t first = UINT32_MAX, last = 0;
    for (size_t i = 0; i < count; i++) {
        first = KB_MIN(first, list[i].step);
        last = KB_MAX(last, list[i].step);
    }
    size_t n = count ? (size_t)last - first + 1 : 0;
    bool is_usable = n >= MIN_STEPS && n <= MAX_STEPS, ok = true;
    double *sums = calloc(is_usable ? 2 * n : 1, sizeof *sums), least = 0;
    for (size_t i = 0; sums && is_usable && i < count; i++)
        sums[list[i].step - first] += part[list[i].row];
    if (sums && is_usable) {
        memcpy(sums + n, sums, n * sizeof *sums);
        least = find_far_sum(sums + n, n, least_ns);
    }
    for (uint32_t i = 0; sums && least > 0 && i < n && ok; i++)
        ok = sums[i] < least || kb_vec_push(steps, first + i);
    for (uint32_t i = 0; i < m->base[rank + 1] - m->base[rank]; i++) {
        uint32_t step = ka_model_row(m, m->base[rank] + i)->step;
        if (!sums || !(least > 0) || step == UINT32_MAX || sums[step - first] < least)
            part[i] = 0;
    }
    ok &= sums != NULL;
    free(sums);
    return ok;
}

bool ka_find_step_parts(const ka_rank_model *m, uint32_t rank, const double *excess, double least_ns, double *part,
                        ka_step_list *steps)
{
    uint32_t rows = m->base[rank + 1] - m->base[rank];
    placed_row *list = malloc(((size_t)rows + 1) * sizeof *list);
    steps->count = 0;
    memset(part, 0, rows * sizeof *part);
    if (!list)
        return false;
    size_t count = list_placed_rows(m, rank, excess, list);
    find_parts(list, count, part);
    bool ok = select_steps(m, rank, list, count, least_ns, part, steps);
    free(list);
    return ok;
}
