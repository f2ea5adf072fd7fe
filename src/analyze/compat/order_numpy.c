/* The order in which numpy's argsort leaves equal moments.
 *
 * HTA sorts by time alone, with a sort that is not stable; running sums depend on how ties came
 * out. Hence the same steps here: quicksort by the median of three, insertion sort below 17 places,
 * heapsort where partitions are too uneven. */
#include "analyze/compat/order.h"

/* The keys and the order under way. */
typedef struct sorting {
    const int64_t *ns;
    uint32_t *order;
} sorting;

/* Compares two places of the order by their time. */
static bool is_earlier(const sorting *s, size_t a, size_t b)
{
    return s->ns[s->order[a]] < s->ns[s->order[b]];
}

static void swap_order(const sorting *s, size_t a, size_t b)
{
    uint32_t index = s->order[a];
    s->order[a] = s->order[b];
    s->order[b] = index;
}

/* Let `index` sink from place i (from 1) of the n places at `order`. */
static void sift_down(const int64_t *ns, uint32_t *order, size_t i, size_t n, uint32_t index)
{
    for (size_t child = 2 * i; child <= n; child = 2 * i) {
        if (child < n && ns[order[child - 1]] < ns[order[child]])
            child++;
        if (ns[index] >= ns[order[child - 1]])
            break;
        order[i - 1] = order[child - 1];
        i = child;
    }
    order[i - 1] = index;
}

/* numpy's heapsort, for partitions that stay too uneven. */
static void heap_sort(const int64_t *ns, uint32_t *order, size_t n)
{
    for (size_t i = n / 2; i > 0; i--)
        sift_down(ns, order, i, n, order[i - 1]);
    while (n > 1) {
        uint32_t index = order[n - 1];
        order[n - 1] = order[0];
        n--;
        sift_down(ns, order, 1, n, index);
    }
}

/* For ranges of up to 16 places, [low, high]. */
static void insertion_sort(const sorting *s, size_t low, size_t high)
{
    for (size_t i = low + 1; i <= high; i++) {
        uint32_t index = s->order[i];
        size_t at = i;
        for (; at > low && s->ns[index] < s->ns[s->order[at - 1]]; at--)
            s->order[at] = s->order[at - 1];
        s->order[at] = index;
    }
}

/* @return the place of the pivot. */
static size_t partition_order(const sorting *s, size_t low, size_t high)
{
    size_t middle = low + (high - low) / 2, i = low, j = high - 1;
    if (is_earlier(s, middle, low))
        swap_order(s, middle, low);
    if (is_earlier(s, high, middle))
        swap_order(s, high, middle);
    if (is_earlier(s, middle, low))
        swap_order(s, middle, low);
    int64_t pivot = s->ns[s->order[middle]];
    swap_order(s, middle, j);
    for (;;) {
        while (s->ns[s->order[++i]] < pivot)
            ;
        while (pivot < s->ns[s->order[--j]])
            ;
        if (i >= j)
            break;
        swap_order(s, i, j);
    }
    swap_order(s, i, high - 1);
    return i;
}

/* A range of places that is still to be sorted, and how much deeper it may be divided. */
typedef struct part {
    size_t low, high;
    int depth;
} part;
#define MAX_PARTS 128 /* parts on the stack: each is less than half of the one before it */

/* The larger part goes on the stack and the smaller one is sorted at once, as numpy does. */
void ka_order_numpy(const int64_t *ns, uint32_t *order, size_t count)
{
    part parts[MAX_PARTS];
    size_t waiting = 0;
    int depth = 0;
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t n = count; n > 1; n /= 2)
        depth += 2;
    if (count > 1)
        parts[waiting++] = (part){0, count - 1, depth};
    sorting s = {ns, order};
    while (waiting) {
        part p = parts[--waiting];
        KB_ASSERT(p.low <= p.high && p.high < count);
        if (p.depth < 0) {
            heap_sort(ns, order + p.low, p.high - p.low + 1);
            continue;
        }
        while (p.high - p.low + 1 > 16) {
            size_t pivot = partition_order(&s, p.low, p.high);
            bool left_first = pivot - p.low < p.high - pivot;
            p.depth--;
            KB_ASSERT(waiting < MAX_PARTS);
            parts[waiting++] =
                left_first ? (part){pivot + 1, p.high, p.depth} : (part){p.low, pivot - 1, p.depth};
            if (left_first)
                p.high = pivot - 1;
            else
                p.low = pivot + 1;
        }
        insertion_sort(&s, p.low, p.high);
    }
}

/* Launches first, then work, each in the order of the file. */
static int compare_queue_changes(const void *left, const void *right)
{
    const ka_hta_queue_change *a = left, *b = right;
    if (a->by != b->by)
        return a->by > b->by ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* HTA appends work to launches and sorts by time alone. */
bool ka_hta_order_queue(ka_hta_queue_changes *changes)
{
    size_t count = changes->count;
    int64_t *ns = calloc(count + 1, sizeof *ns);
    uint32_t *order = calloc(count + 1, sizeof *order);
    ka_hta_queue_changes sorted = {0};
    bool ok = ns && order && kb_vec_reserve(&sorted, count + 1);
    if (ok && count)
        qsort(changes->data, count, sizeof *changes->data, compare_queue_changes);
    for (size_t i = 0; ok && i < count; i++)
        ns[i] = changes->data[i].ns;
    if (ok)
        ka_order_numpy(ns, order, count);
    for (size_t i = 0; ok && i < count; i++)
        sorted.data[sorted.count++] = changes->data[order[i]];
    if (ok) {
        ka_hta_queue_changes before = *changes;
        *changes = sorted;
        sorted = before;
    }
    kb_vec_free(&sorted);
    free(ns);
    free(order);
    return ok;
}
