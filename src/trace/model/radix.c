/* Sorting numbers by their digits: for ids, which are many, small and nearly in order. */
#include "trace/model/model.h"

enum { DIGIT_BITS = 8, VALUES = 1 << DIGIT_BITS, FEW = 48 };

/* Bits in which not all keys are alike. */
static uint64_t varying_bits(const kt_keyed *items, size_t count)
{
    uint64_t varying = 0;
    for (size_t i = 1; i < count; i++)
        varying |= items[i].key ^ items[0].key;
    return varying;
}

/* Stable, by one digit. */
static void spread(const kt_keyed *from, kt_keyed *to, size_t count, unsigned shift)
{
    size_t next[VALUES] = {0}, sum = 0;
    for (size_t i = 0; i < count; i++)
        next[from[i].key >> shift & (VALUES - 1)]++;
    for (unsigned v = 0; v < VALUES; v++) {
        size_t own = next[v];
        next[v] = sum;
        sum += own;
    }
    for (size_t i = 0; i < count; i++)
        to[next[from[i].key >> shift & (VALUES - 1)]++] = from[i];
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
    if (count <= FEW)
        sort_few(items, count);
    if (count <= FEW || is_sorted(items, count))
        return true;
    kt_keyed *scratch = kt_store_alloc(store, count * sizeof *scratch), *from = items,
             *to = scratch;
    if (!scratch)
        return false;
    uint64_t varying = varying_bits(items, count);
    for (unsigned shift = 0; shift < 64 && varying >> shift; shift += DIGIT_BITS) {
        if (!(varying >> shift & (VALUES - 1)))
            continue; /* all have the same */
        spread(from, to, count, shift);
        kt_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    kt_store_free(store, scratch);
    return true;
}
