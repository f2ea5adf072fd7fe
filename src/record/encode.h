/* Packing arguments and texts into records, in one pass. The layout is in format.h ("Packed args").
 * Writers return the end of what they wrote, or NULL when it would pass `limit`: the caller then
 * discards the record (kr_undo). What operators carry on every call (numbers, shapes) is inline;
 * texts and lists are calls. */
#ifndef KR_ENCODE_H
#define KR_ENCODE_H

#include "record/cursor.h"

/** A text: inline up to inline_limit bytes; a longer one in the dictionary; when that is full, cut
 *  to inline_limit bytes and counted. */
uint64_t *kr_text_write(uint64_t *at, const uint64_t *limit, const char *data, size_t bytes,
                        size_t inline_limit);
uint64_t *kr_string_write(uint64_t *at, const uint64_t *limit, const char *s);
uint64_t *kr_ints_write(uint64_t *at, const uint64_t *limit, const int64_t *data, size_t count);
uint64_t *kr_strings_write(uint64_t *at, const uint64_t *limit, const char *const *data,
                           size_t count);

KB_INLINE bool kr_fits(const uint64_t *at, const uint64_t *limit, size_t words)
{
    KB_ASSERT(at <= limit);
    return (size_t)(limit - at) >= words;
}

/** SHAPES: the count, then the ranks, four to a word, then all dims. */
KB_INLINE uint64_t *kr_shapes_write(uint64_t *at, const uint64_t *limit, const kineto_shapes *list)
{
    size_t n = list ? list->count : 0, head = 1 + (n + 3) / 4;
    if (n >= KF_MAX_RECORD_WORDS || !kr_fits(at, limit, head))
        return NULL;
    uint64_t *dims = at + head, ranks = 0;
    *at++ = n;
    for (size_t i = 0; i < n; i++) {
        const kineto_shape *shape = &list->data[i];
        uint32_t rank = shape->rank;
        if (rank >= KF_MAX_RECORD_WORDS || !kr_fits(dims, limit, rank))
            return NULL;
        ranks |= (uint64_t)rank << (16 * (i & 3));
        if ((i & 3) == 3 || i + 1 == n) {
            *at++ = ranks;
            ranks = 0;
        }
        const int64_t *from = shape->dims;
        for (uint32_t k = 0; k < rank; k++)
            dims[k] = (uint64_t)from[k];
        dims += rank;
    }
    return dims;
}

/** A value that is not a single word and not SHAPES. */
uint64_t *kr_list_write(uint64_t *at, const uint64_t *limit, uint32_t type, const kineto_value *v);

/** All args of a site, by its types. */
KB_INLINE uint64_t *kr_args_write(uint64_t *at, const uint64_t *limit, const kineto_site *site,
                                  const kineto_value *values)
{
    for (uint32_t i = 0; i < site->arg_count && at; i++) {
        uint32_t type = site->args[i].type;
        if (type == KINETO_ARG_SHAPES) {
            at = kr_shapes_write(at, limit, values[i].shapes);
        } else if (type > KINETO_ARG_BOOL) {
            at = kr_list_write(at, limit, type, &values[i]);
        } else {
            if (!kr_fits(at, limit, 1))
                return NULL;
            *at++ = values[i].u;
        }
    }
    return at;
}
#endif
