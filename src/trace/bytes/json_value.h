/* Tolerant access to JSON values, however a writer spells them: items of lists and members
 * of objects with any white space, numbers with or without quotes, strings and keys with
 * escapes; and one spelling of lists of sizes. Analyses and writers read the inside of
 * arguments and of the header through these. */
#ifndef KT_JSON_VALUE_H
#define KT_JSON_VALUE_H

#include "trace/bytes/json_text.h"

typedef struct kt_items {
    kt_scan scan;
    bool first, is_list;
} kt_items;

/** A walk over the items of a list; of anything else there are none. */
kt_items kt_items_of(kineto_string list);
/** The next item as it is spelled. False at the end, and where the text is broken. */
bool kt_items_next(kt_items *items, kineto_string *item);
/** True if it is a list, and the walk has reached its end. */
static inline bool kt_items_are_over(const kt_items *items)
{
    return items->is_list && !items->scan.problem;
}
/** One item; empty if the list is shorter. */
kineto_string kt_item_at(kineto_string list, uint32_t index);
static inline bool kt_value_is_list(kineto_string raw) { return raw.size && raw.data[0] == '['; }

/** The value of a member; of several the last one; empty if there is none. */
kineto_string kt_member_of(kineto_string object, const char *key);
/** False only if an object surely has no member of this name: cheaper than a walk. */
bool kt_may_have_member(kineto_string object, const char *key);

/** Numbers, also in quotes, and "nan" and "inf", for which JSON has no numbers. */
bool kt_value_number(kineto_string raw, double *value);
/** Whole numbers, also in quotes. */
bool kt_value_whole(kineto_string raw, int64_t *value);
/** A text without quotes and escapes: a part of `raw`, or put into `room` of raw.size
 *  bytes, which may be NULL (then escapes stay). Other values as they are spelled. */
kineto_string kt_value_text(kineto_string raw, char *room);

/** Product of the sizes of a tensor, [2, 3]: 1 for [], INT64_MAX on overflow. False: not a list of
 *  non-negative numbers. */
bool kt_sizes_product(kineto_string list, int64_t *product);
/** Lists of sizes as PyTorch writes them, [[2, 3], []]: without quotes and other white
 *  space. Returns the bytes in `out`, at most 2 * raw.size. */
size_t kt_sizes_text(kineto_string raw, char *out);
#endif
