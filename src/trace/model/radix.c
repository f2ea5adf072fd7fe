/* Sorting numbers by their digits: for ids, which are many, small and nearly in order. */
#include "trace/model/model.h"

enum { DIGITS = 8, VALUES = 256, FEW = 48 };

/* How often each value of each digit comes. */
static void count_digits(const kt_keyed *items, size_t count, size_t (*counts)[VALUES])
{
    memset(counts, 0, DIGITS * sizeof *counts);
    for (size_t i = 0; i < count; i++)
        for (unsigned d = 0; d < DIGITS; d++)
            counts[d][items[i].key >> 8 * d & 0xff]++;
}

static void spread(const kt_keyed *from, kt_keyed *to, size_t count, unsigned digit,
                   const size_t *counts)
{
    size_t next[VALUES], sum = 0;
    for (unsigned v = 0; v < VALUES; v++) {
        next[v] = sum;
        sum += counts[v];
    }
    for (size_t i = 0; i < count; i++)
        to[next[from[i].key >> 8 * digit & 0xff]++] = from[i];
}

static void sort_few(kt_keyed *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        kt_keyed item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static bool is_sorted(const kt_keyed *items, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (items[i - 1].key > items[i].key)
            return false;
    return true;
}

bool kt_sort_keyed(kt_store *store, kt_keyed *items, size_t count)
{
    size_t counts[DIGITS][VALUES];
    if (count <= FEW)
        sort_few(items, count);
    if (count <= FEW || is_sorted(items, count))
        return true;
    kt_keyed *scratch = kt_store_alloc(store, count * sizeof *scratch), *from = items,
             *to = scratch;
    if (!scratch)
        return false;
    count_digits(items, count, counts);
    for (unsigned d = 0; d < DIGITS; d++) {
        if (counts[d][from[0].key >> 8 * d & 0xff] == count)
            continue; /* all have the same */
        spread(from, to, count, d, counts[d]);
        kt_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    kt_store_free(store, scratch);
    return true;
}
