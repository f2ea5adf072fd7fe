/* What is usual: medians over the ranks of a role, and for work after an all-to-all a line by what was received.
 *
 * Lengths are in ns. What is usual at a place of a role is the median of its ranks, of two the smaller one, so
 * that one slow rank does not make itself usual ("Roles" in ranks.md). Values belong to places, but for
 * row_work, which has one for each row. */
#include "analyze/ranks/rank_usual.h"

/* ---- which rows are alike -------------------------------------------------------------------- */

/* Rows of one role at the same place of the same step. Rows without a certain place in their step (ka_rank_model.odd)
 * are not compared. False: out of memory. */
static bool place_alike(ka_usual *u)
{
    const ka_rank_model *m = u->m;
    kb_map likes = {0};
    bool ok = true;
    for (uint32_t r = 0; r < m->rank_count && ok; r++) {
        ka_numbering n = ka_first_number(m, r);
        for (uint32_t row = m->base[r]; row < m->base[r + 1] && ok; row++) {
            u->place[row] = KA_NONE;
            if (!ka_is_compared(m, r, row))
                continue;
            const ka_comm *c = ka_model_row(m, row);
            uint64_t key[] = {m->role[r], c->step, ka_next_number(&n, c), (uint64_t)ka_role_op(c) << 32 | c->flags >> 3};
            uint64_t *at = kb_map_insert(&likes, kb_hash(key, sizeof key), likes.count, NULL);
            ok = at != NULL;
            u->place[row] = at ? (uint32_t)*at : KA_NONE;
        }
    }
    for (size_t i = 0; i < m->odd.count; i++)
        for (uint32_t row = m->odd.data[i].first; row < m->odd.data[i].end; row++)
            u->place[row] = KA_NONE;
    u->place_count = (uint32_t)likes.count;
    kb_map_free(&likes);
    return ok;
}

static int compare_valued(const void *left, const void *right)
{
    const ka_valued *a = left, *b = right;
    if (a->like != b->like)
        return a->like < b->like ? -1 : 1;
    return kb_compare_doubles(&a->value, &b->value);
}

static double middle_of(const double *lower, const double *upper, size_t n)
{
    return n % 2 || n == 2 ? *lower : (*lower + *upper) / 2;
}

void ka_find_middles(ka_valued *list, size_t count, double *out)
{
    if (count)
        qsort(list, count, sizeof *list, compare_valued);
    for (size_t i = 0, next; i < count; i = next) {
        for (next = i + 1; next < count && list[next].like == list[i].like; next++)
            ;
        size_t n = next - i;
        out[list[i].like] = middle_of(&list[i + (n - 1) / 2].value, &list[i + n / 2].value, n);
    }
}

/* ---- medians --------------------------------------------------------------------------------- */

/* The value that would be the `nth` if they were sorted; reorders. Those after it are not smaller. */
static double select_value(double *v, size_t count, size_t nth)
{
    size_t low = 0, high = count - 1;
    while (low < high) {
        double pivot = v[low + (high - low) / 2];
        size_t i = low, k = high;
        for (;;) {
            while (v[i] < pivot)
                i++;
            while (v[k] > pivot)
                k--;
            if (i >= k)
                break;
            double swap = v[i];
            v[i++] = v[k];
            v[k--] = swap;
        }
        if (nth <= k)
            high = k;
        else
            low = k + 1;
    }
    return v[nth];
}

static double select_middle(double *v, size_t n)
{
    double lower = select_value(v, n, (n - 1) / 2);
    if (n % 2 || n == 2)
        return lower;
    double upper = v[n / 2];
    for (size_t i = n / 2 + 1; i < n; i++)
        upper = fmin(upper, v[i]);
    return (lower + upper) / 2;
}

/* Rows in the order of their places. */
#define LENGTHS 4u
typedef struct bucketing {
    uint32_t most;          /* rows of a bucket */
    uint32_t *rows, *first; /* first: by place, and the end */
    double *room[KA_LANES]; /* for the largest bucket, of each length */
} bucketing;

static bool sort_buckets(const ka_usual *u, bucketing *b)
{
    uint32_t rows = u->m->row_count, most = 0, before = 0;
    b->rows = malloc(((size_t)rows + 1) * sizeof *b->rows);
    b->first = calloc((size_t)u->place_count + 2, sizeof *b->first);
    if (!b->rows || !b->first)
        return false;
    for (uint32_t row = 0; row < rows; row++)
        if (u->place[row] != KA_NONE)
            b->first[u->place[row]]++;
    for (uint32_t i = 0; i <= u->place_count; i++) { /* each from its end on */
        most = KB_MAX(most, b->first[i]);
        before = b->first[i] += before;
    }
    for (uint32_t row = rows; row-- > 0;)
        if (u->place[row] != KA_NONE)
            b->rows[--b->first[u->place[row]]] = row;
    b->most = most;
    for (uint32_t i = 0; i < KA_LANES; i++)
        if (!(b->room[i] = malloc(LENGTHS * ((size_t)most + 1) * sizeof **b->room)))
            return false;
    return true;
}

static double known_length(int64_t ns) { return ns == KA_UNKNOWN_NUMBER ? 0 : (double)ns; }

/* All lengths of the rows of a place, which lie far apart in memory, in one pass. */
static void find_place_middles(const ka_replay *r, const bucketing *b, uint32_t lane, uint32_t place, double middles[LENGTHS])
{
    size_t n = b->first[place + 1] - b->first[place];
    const uint32_t *rows = &b->rows[b->first[place]];
    double *of[LENGTHS];
    for (size_t k = 0; k < LENGTHS; k++)
        of[k] = b->room[lane] + k * b->most;
    for (size_t i = 0; i < n; i++) {
        const ka_replay_row *x = &r->rows[rows[i]];
        if (i + 8 < n)
            KB_PREFETCH(&r->rows[rows[i + 8]]);
        of[0][i] = known_length(x->work_ns);
        of[1][i] = known_length(x->late_ns);
        of[2][i] = known_length(x->host_ns);
        of[3][i] = known_length(x->sync_ns);
    }
    for (size_t k = 0; k < LENGTHS; k++)
        middles[k] = select_middle(of[k], n);
}

/* Places by lane: each has memory of its own for the values of a bucket. */
typedef struct middle_search {
    ka_usual *u;
    const ka_replay *r;
    const bucketing *b;
} middle_search;

static void find_all_middles(void *context, uint32_t lane, uint32_t first, uint32_t end)
{
    const middle_search *s = context;
    ka_usual *u = s->u;
    for (uint32_t i = first; i < end; i++) {
        double middles[LENGTHS] = {0};
        if (s->b->first[i + 1] > s->b->first[i]) /* none of its rows may be compared */
            find_place_middles(s->r, s->b, lane, i, middles);
        u->work[i] = middles[0];
        u->late[i] = middles[1];
        u->host[i] = middles[2];
        u->sync[i] = middles[3];
    }
}

/* ---- work by what was received --------------------------------------------------------------- */

/* Computation after an all-to-all, as of experts: as long as there is much to compute. Pools have the same to do, in all steps. */
static int compare_loads(const void *left, const void *right)
{
    const ka_sized *a = left, *b = right;
    if (a->pool != b->pool)
        return a->pool < b->pool ? -1 : 1;
    return (a->index > b->index) - (a->index < b->index);
}

/* The computation between an all-to-all of a rank and its next row, with what the rank received. A pool has the same
 * role, place in the step and next operation, in all steps. @return how many. */
static size_t list_loads(const ka_usual *u, const ka_replay *r, ka_sized *list)
{
    const ka_rank_model *m = u->m;
    size_t count = 0;
    for (uint32_t rank = 0; rank < m->rank_count; rank++) {
        ka_numbering n = ka_first_number(m, rank);
        for (uint32_t row = m->base[rank]; row + 1 < m->base[rank + 1]; row++) {
            if (u->place[row] == KA_NONE)
                continue;
            const ka_comm *c = ka_model_row(m, row), *next = ka_model_row(m, row + 1);
            uint64_t key[] = {m->role[rank], ka_next_number(&n, c), next->op};
            if (c->op == KA_OP_ALL_TO_ALL && c->received)
                list[count++] = (ka_sized){kb_hash(key, sizeof key), row + 1, (double)c->received,
                                       (double)r->rows[row + 1].work_ns};
        }
    }
    return count;
}

#define MAX_SIZES 128u
/* The estimate of Theil and Sen: of at most MAX_SIZES values, evenly taken, the median slope of all pairs whose sizes
 * differ by more than 2 %; smaller differences would divide noise by nearly nothing. A slope is never negative. */
bool ka_fit_sizes(const ka_sized *list, size_t count, double *slope, double *rest)
{
    static const double least_change = 1.02;
    double slopes[MAX_SIZES * MAX_SIZES / 2], rests[MAX_SIZES];
    size_t every = count / MAX_SIZES + 1, n = 0, used = 0;
    for (size_t i = 0; i < count; i += every)
        for (size_t k = i + every; k < count; k += every)
            if (fmax(list[i].size, list[k].size) > least_change * fmin(list[i].size, list[k].size))
                slopes[n++] = (list[k].value - list[i].value) / (list[k].size - list[i].size);
    if (n < 3)
        return false;
    *slope = fmax(ka_median(slopes, n), 0);
    for (size_t i = 0; i < count && used < MAX_SIZES; i += every)
        rests[used++] = list[i].value - *slope * list[i].size;
    *rest = ka_median(rests, used);
    return true;
}

static void fit_loads(const ka_sized *list, size_t count, double *out)
{
    double slope, rest;
    if (!ka_fit_sizes(list, count, &slope, &rest))
        return;
    for (size_t i = 0; i < count; i++)
        out[list[i].index] = fmax(rest + slope * list[i].size, 0);
}

bool ka_allocate_row_work(ka_usual *u)
{
    if (u->row_work)
        return true;
    u->row_work = malloc(((size_t)u->m->row_count + 1) * sizeof *u->row_work);
    for (uint32_t row = 0; u->row_work && row < u->m->row_count; row++)
        u->row_work[row] = (double)NAN;
    return u->row_work != NULL;
}

static bool find_usual_loads(ka_usual *u, const ka_replay *r)
{
    ka_sized *list = malloc(((size_t)u->m->row_count + 1) * sizeof *list);
    if (!list)
        return false;
    size_t count = list_loads(u, r, list);
    if (count) {
        qsort(list, count, sizeof *list, compare_loads);
        (void)ka_allocate_row_work(u);
    }
    for (size_t i = 0, next; u->row_work && i < count; i = next) {
        for (next = i + 1; next < count && list[next].pool == list[i].pool; next++)
            ;
        fit_loads(list + i, next - i, u->row_work);
    }
    free(list);
    return !count || u->row_work;
}

/* ---- all of it ------------------------------------------------------------------------------- */

bool ka_find_usual(const ka_replay *r, ka_usual *u)
{
    *u = (ka_usual){.m = r->m};
    bucketing b = {0};
    size_t rows = (size_t)r->m->row_count + 1;
    u->place = malloc(rows * sizeof *u->place);
    bool ok = u->place && place_alike(u);
    u->work = ok ? calloc(4 * (size_t)u->place_count + 1, sizeof *u->work) : NULL;
    if (u->work) {
        u->late = u->work + u->place_count;
        u->host = u->late + u->place_count;
        u->sync = u->host + u->place_count;
        ok = sort_buckets(u, &b);
    }
    if (u->work && ok)
        ka_run_lanes(find_all_middles, &(middle_search){u, r, &b}, u->place_count, r->m->row_count);
    free(b.rows);
    free(b.first);
    for (uint32_t i = 0; i < KA_LANES; i++)
        free(b.room[i]);
    return u->work && ok && find_usual_loads(u, r);
}

void ka_usual_free(ka_usual *u)
{
    free(u->place);
    free(u->work);
    free(u->row_work);
    *u = (ka_usual){0};
}
