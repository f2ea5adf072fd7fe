/* Stable radix sort (least significant digit first) of 64-bit keys with 32-bit values. Its
 * users sort ids and times: many, mostly small or close to each other, and nearly in order,
 * so few digits vary. */
#include "trace/model/model.h"

/* Lists of up to FEW items are sorted by insertion. */
enum { DIGIT_BITS = 8, VALUES = 1 << DIGIT_BITS, FEW = 48 };

/* The bits in which the keys differ. */
static uint64_t varying_bits(const kt_keyed *items, size_t count)
{
    uint64_t varying = 0;
    for (size_t i = 1; i < count; i++)
        varying |= items[i].key ^ items[0].key;
    return varying;
}

/* One pass: a stable counting sort by the digit at `shift`. */
static void sort_by_digit(const kt_keyed *from, kt_keyed *to, size_t count, unsigned shift)
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

static void insertion_sort_keyed(kt_keyed *items, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        kt_keyed item = items[i];
        size_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static bool is_sorted_by_key(const kt_keyed *items, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (items[i - 1].key > items[i].key)
            return false;
    return true;
}

bool kt_sort_keyed(kt_store *store, kt_keyed *items, size_t count)
{
    if (count <= FEW)
        insertion_sort_keyed(items, count);
    if (count <= FEW || is_sorted_by_key(items, count))
        return true;
    kt_keyed *scratch = kt_store_alloc(store, count * sizeof *scratch);
    kt_keyed *from = items, *to = scratch;
    if (!scratch)
        return false;
    uint64_t varying = varying_bits(items, count);
    for (unsigned shift = 0; shift < 64 && varying >> shift; shift += DIGIT_BITS) {
        if (!(varying >> shift & (VALUES - 1)))
            continue; /* all keys have the same digit */
        sort_by_digit(from, to, count, shift);
        kt_keyed *swap = from;
        from = to;
        to = swap;
    }
    if (from != items)
        memcpy(items, from, count * sizeof *items);
    kt_store_free(store, scratch);
    KB_ASSERT(items[0].key <= items[count - 1].key);
    return true;
}
