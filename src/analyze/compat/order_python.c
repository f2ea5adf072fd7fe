/* The order in which Python's list.sort (CPython 3.11) leaves things that do not compare
 * consistently.
 *
 * HTA sorts with a comparison that goes round in circles: what comes first depends on which two are
 * compared and when. Hence the same steps here: runs, prolonged by binary insertion, are merged in
 * the order of powersort; a merge searches further and further ahead where one side wins again and
 * again. */
#include "analyze/compat/order.h"

#define MAX_RUN 64 /* lists from here on are cut into runs of half of it or more */
#define OFTEN   7  /* after this many wins in a row a merge searches ahead ("gallops") */
#define MAX_WAITING                                                                                \
    64 /* runs: their powers rise, and are at most two more than the bits of a count */

/* A sorted run that waits to be merged. */
typedef struct run {
    size_t first, count;
    int power; /* of the border with the next run */
} run;

/* The state of a sort. */
typedef struct sorting {
    uint32_t *items, *spare;
    size_t count;
    ka_less *less;
    const void *context;
    size_t often; /* learnt by all merges */
    run waiting[MAX_WAITING];
    size_t waiting_count;
} sorting;

/* A merge of neighbours. The shorter one was set aside; forward, places count from the first one,
 * else from the last. */
typedef struct merge {
    sorting *s;
    uint32_t *a, *b, *to; /* forward: the next element; backward: one past it */
    size_t a_count, b_count;
    size_t a_wins, b_wins; /* in a row */
} merge;

/* The caller's comparison, in which `a` and `b` are items, not places. */
static bool is_item_less(const sorting *s, uint32_t a, uint32_t b)
{
    return s->less(s->context, a, b);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* CPython's minrun: 32 to 64, so that count / minrun is close to a power of two. */
static size_t least_run(size_t count)
{
    size_t odd = 0;
    for (; count >= MAX_RUN; count /= 2)
        odd |= count & 1;
    return count + odd;
}

/* Reverses a run that was found descending. */
static void turn_round(uint32_t *items, size_t count)
{
    for (size_t i = 0, j = count; i + 1 < j; i++) {
        uint32_t item = items[--j];
        items[j] = items[i];
        items[i] = item;
    }
}

/* How many in front are in order; if each is less than the one before, they are turned round.
 */
static size_t find_run(const sorting *s, uint32_t *items, size_t count)
{
    if (count < 2)
        return count;
    bool falls = is_item_less(s, items[1], items[0]);
    size_t n = 2;
    while (n < count && is_item_less(s, items[n], items[n - 1]) == falls)
        n++;
    if (falls)
        turn_round(items, n);
    return n;
}

/* Binary insertion: items from `sorted` on are inserted into the sorted beginning. */
static void insert_rest(const sorting *s, uint32_t *items, size_t sorted, size_t count)
{
    for (size_t i = sorted; i < count; i++) {
        uint32_t item = items[i];
        size_t at = 0;
        KB_LOWER_BOUND(at, i, !is_item_less(s, item, items[at]));
        memmove(items + at + 1, items + at, (i - at) * sizeof *items);
        items[at] = item;
    }
}

/* ---- looking ahead: places at distances 1, 3, 7 … from one end, then by halves --------------------------- */

/* Does `item` belong before `other`? Among equals: after them, or before all of them. */
static bool goes_before(const sorting *s, uint32_t item, uint32_t other, bool after_equals)
{
    return after_equals ? is_item_less(s, item, other) : !is_item_less(s, other, item);
}

/* Binary search in a sorted range. */
static size_t bisect_items(const sorting *s, uint32_t item, const uint32_t *items, size_t low,
                        size_t high, bool after_equals)
{
    KB_LOWER_BOUND(low, high, !goes_before(s, item, items[low], after_equals));
    return low;
}

/* Gallops from the beginning, then searches by halves. */
static size_t place_from_first(const sorting *s, uint32_t item, const uint32_t *items, size_t count,
                               bool after_equals)
{
    size_t low = 0, far = 1;
    if (goes_before(s, item, items[0], after_equals))
        return 0;
    while (far < count && !goes_before(s, item, items[far], after_equals)) {
        low = far;
        far = 2 * far + 1;
    }
    return bisect_items(s, item, items, low + 1, KB_MIN(far, count), after_equals);
}

/* Gallops from the end, then searches by halves. */
static size_t place_from_last(const sorting *s, uint32_t item, const uint32_t *items, size_t count,
                              bool after_equals)
{
    size_t near = 0, far = 1;
    if (!goes_before(s, item, items[count - 1], after_equals))
        return count;
    while (far < count && goes_before(s, item, items[count - 1 - far], after_equals)) {
        near = far;
        far = 2 * far + 1;
    }
    return bisect_items(s, item, items, count - KB_MIN(far, count), count - 1 - near, after_equals);
}

/* ---- merges ------------------------------------------------------------------------------------------------ */

/* Moves n items from the beginning of a run. */
static void move_first(uint32_t **to, uint32_t **from, size_t *left, size_t n)
{
    memmove(*to, *from, n * sizeof **to);
    *to += n;
    *from += n;
    *left -= n;
}

static void move_last(uint32_t **to, uint32_t **from, size_t *left, size_t n)
{
    *to -= n;
    *from -= n;
    *left -= n;
    memmove(*to, *from, n * sizeof **to);
}

/* The last one of those set aside is the last of all. */
static bool forward_ends(const merge *m) { return m->b_count == 0 || m->a_count <= 1; }
static bool backward_ends(const merge *m) { return m->a_count == 0 || m->b_count <= 1; }

/* Counts consecutive wins of one side. */
static void count_win(merge *m, bool a)
{
    m->a_wins = a ? m->a_wins + 1 : 0;
    m->b_wins = a ? 0 : m->b_wins + 1;
}

/* One by one, until one side wins often. @return whether the merge ends. */
static bool step_forward(merge *m)
{
    m->a_wins = m->b_wins = 0;
    while (m->a_wins < m->s->often && m->b_wins < m->s->often) {
        bool a = !is_item_less(m->s, *m->b, *m->a);
        count_win(m, a);
        move_first(&m->to, a ? &m->a : &m->b, a ? &m->a_count : &m->b_count, 1);
        if (forward_ends(m))
            return true;
    }
    return false;
}

static bool step_backward(merge *m)
{
    m->a_wins = m->b_wins = 0;
    while (m->a_wins < m->s->often && m->b_wins < m->s->often) {
        bool a = is_item_less(m->s, m->b[-1], m->a[-1]);
        count_win(m, a);
        move_last(&m->to, a ? &m->a : &m->b, a ? &m->a_count : &m->b_count, 1);
        if (backward_ends(m))
            return true;
    }
    return false;
}

/* All of `a` that goes before the next of `b`, that one, and the other way round. */
static bool leap_forward(merge *m)
{
    m->a_wins = place_from_first(m->s, *m->b, m->a, m->a_count, true);
    move_first(&m->to, &m->a, &m->a_count, m->a_wins);
    if (forward_ends(m))
        return true;
    move_first(&m->to, &m->b, &m->b_count, 1);
    if (forward_ends(m))
        return true;
    m->b_wins = place_from_first(m->s, *m->a, m->b, m->b_count, false);
    move_first(&m->to, &m->b, &m->b_count, m->b_wins);
    if (forward_ends(m))
        return true;
    move_first(&m->to, &m->a, &m->a_count, 1);
    return forward_ends(m);
}

static bool leap_backward(merge *m)
{
    uint32_t *first = m->a - m->a_count;
    m->a_wins = m->a_count - place_from_last(m->s, m->b[-1], first, m->a_count, true);
    move_last(&m->to, &m->a, &m->a_count, m->a_wins);
    if (backward_ends(m))
        return true;
    move_last(&m->to, &m->b, &m->b_count, 1);
    if (backward_ends(m))
        return true;
    first = m->b - m->b_count;
    m->b_wins = m->b_count - place_from_last(m->s, m->a[-1], first, m->b_count, false);
    move_last(&m->to, &m->b, &m->b_count, m->b_wins);
    if (backward_ends(m))
        return true;
    move_last(&m->to, &m->a, &m->a_count, 1);
    return backward_ends(m);
}

/* Leaps make further ones likelier, steps after them less so. */
static void alternate_merge(merge *m, bool (*step)(merge *), bool (*leap)(merge *))
{
    while (!step(m)) {
        m->s->often++;
        do {
            m->s->often -= m->s->often > 1;
            if (leap(m))
                return;
        } while (m->a_wins >= OFTEN || m->b_wins >= OFTEN);
        m->s->often++;
    }
}

/* Merges from the beginning: the left run is moved to the room. */
static void merge_forward(sorting *s, uint32_t *a, size_t a_count, uint32_t *b, size_t b_count)
{
    memcpy(s->spare, a, a_count * sizeof *a);
    merge m = {.s = s, .a = s->spare, .b = b, .to = a, .a_count = a_count, .b_count = b_count};
    move_first(&m.to, &m.b, &m.b_count, 1);
    if (!forward_ends(&m))
        alternate_merge(&m, step_forward, leap_forward);
    move_first(&m.to, &m.b, &m.b_count, m.b_count);
    move_first(&m.to, &m.a, &m.a_count, m.a_count);
}

/* Merges from the end: the right run is moved to the room. */
static void merge_backward(sorting *s, uint32_t *a, size_t a_count, uint32_t *b, size_t b_count)
{
    memcpy(s->spare, b, b_count * sizeof *b);
    merge m = {.s = s,
               .a = a + a_count,
               .b = s->spare + b_count,
               .to = b + b_count,
               .a_count = a_count,
               .b_count = b_count};
    move_last(&m.to, &m.a, &m.a_count, 1);
    if (!backward_ends(&m))
        alternate_merge(&m, step_backward, leap_backward);
    move_last(&m.to, &m.a, &m.a_count, m.a_count);
    move_last(&m.to, &m.b, &m.b_count, m.b_count);
}

/* Of waiting runs i and i + 1; what is in its place at either end stays there. */
static void merge_runs(sorting *s, size_t i)
{
    uint32_t *a = s->items + s->waiting[i].first, *b = s->items + s->waiting[i + 1].first;
    size_t a_count = s->waiting[i].count, b_count = s->waiting[i + 1].count;
    s->waiting[i].count += b_count;
    if (i + 3 == s->waiting_count)
        s->waiting[i + 1] = s->waiting[i + 2];
    s->waiting_count--;
    size_t stay = place_from_first(s, *b, a, a_count, true);
    a += stay;
    a_count -= stay;
    if (!a_count)
        return;
    b_count = place_from_last(s, a[a_count - 1], b, b_count, false);
    if (!b_count)
        return;
    if (a_count <= b_count)
        merge_forward(s, a, a_count, b, b_count);
    else
        merge_backward(s, a, a_count, b, b_count);
}

/* ---- which runs -------------------------------------------------------------------------------------------- */

/* How often the list must be halved until a cut is between the middles of two neighbours. */
static int power_of(const run *left, size_t right_count, size_t count)
{
    uint64_t a = 2 * (uint64_t)left->first + left->count, b = a + left->count + right_count;
    for (int power = 1;; power++) {
        if (a >= count) {
            a -= count;
            b -= count;
        } else if (b >= count) {
            return power;
        }
        a *= 2;
        b *= 2;
    }
}

/* Pushes a run and merges earlier ones by powersort's rule. */
static void add_run(sorting *s, size_t first, size_t count)
{
    if (s->waiting_count) {
        int power = power_of(&s->waiting[s->waiting_count - 1], count, s->count);
        while (s->waiting_count > 1 && s->waiting[s->waiting_count - 2].power > power)
            merge_runs(s, s->waiting_count - 2);
        s->waiting[s->waiting_count - 1].power = power;
    }
    s->waiting[s->waiting_count++] = (run){first, count, 0};
}

/* Merges all waiting runs. */
static void merge_all(sorting *s)
{
    while (s->waiting_count > 1) {
        size_t i = s->waiting_count - 2;
        if (i > 0 && s->waiting[i - 1].count < s->waiting[i + 1].count)
            i--;
        merge_runs(s, i);
    }
}

/* CPython's list_sort_impl without its special cases for types, which compare the same. */
bool ka_order_python(uint32_t *items, size_t count, ka_less *is_less, const void *context)
{
    sorting s = {
        .items = items, .count = count, .less = is_less, .context = context, .often = OFTEN};
    s.spare = malloc((count / 2 + 1) * sizeof *s.spare);
    if (!s.spare)
        return false;
    size_t least = least_run(count);
    for (size_t first = 0, n; first < count; first += n) {
        size_t wanted = KB_MIN(least, count - first);
        n = find_run(&s, items + first, count - first);
        if (n < wanted) {
            insert_rest(&s, items + first, n, wanted);
            n = wanted;
        }
        add_run(&s, first, n);
    }
    merge_all(&s);
    free(s.spare);
    return true;
}
