/* Packing arguments and texts into records: the part that is not inline in encode.h, that is texts
 * and lists. The layout is in format.h ("Packed args"). */
#include "record/encode.h"

/* A text whose bytes follow its word. @return the end; NULL: it does not fit. */
static uint64_t *write_inline_text(uint64_t *at, const uint64_t *limit, const char *data,
                                   size_t bytes)
{
    size_t words = (bytes + 7) / 8;
    if (!kr_fits(at, limit, 1 + words))
        return NULL;
    *at++ = bytes;
    if (words) {
        at[words - 1] = 0; /* padding is zero: the same event gives the same bytes */
        memcpy(at, data, bytes);
    }
    return at + words;
}

uint64_t *kr_text_write(uint64_t *at, const uint64_t *limit, const char *data, size_t bytes,
                        size_t inline_limit)
{
    if (KINETO_LIKELY(bytes <= inline_limit))
        return write_inline_text(at, limit, data, bytes);
    if (!kr_fits(at, limit, 1))
        return NULL;
    uint32_t id = kr_intern_quiet(data, bytes);
    if (!id) {
        kr_count(KF_SOURCE_API, KF_REASON_TRUNCATED_TEXT, 1);
        return write_inline_text(at, limit, data, inline_limit);
    }
    *at++ = bytes | (uint64_t)id << 32;
    return at;
}

uint64_t *kr_string_write(uint64_t *at, const uint64_t *limit, const char *s)
{
    return kr_text_write(at, limit, s ? s : "", s ? strlen(s) : 0, KF_MAX_STRING);
}

uint64_t *kr_ints_write(uint64_t *at, const uint64_t *limit, const int64_t *data, size_t count)
{
    if (count >= KF_MAX_RECORD_WORDS || !kr_fits(at, limit, 1 + count))
        return NULL;
    *at++ = count;
    for (size_t i = 0; i < count; i++)
        *at++ = (uint64_t)data[i];
    return at;
}

uint64_t *kr_strings_write(uint64_t *at, const uint64_t *limit, const char *const *data,
                           size_t count)
{
    if (!kr_fits(at, limit, 1))
        return NULL;
    *at++ = count;
    for (size_t i = 0; i < count && at; i++)
        at = kr_string_write(at, limit, data[i]);
    return at;
}

uint64_t *kr_list_write(uint64_t *at, const uint64_t *limit, uint32_t type, const kineto_value *v)
{
    switch (type) {
    case KINETO_ARG_INTS:
        return kr_ints_write(at, limit, v->ints ? v->ints->data : NULL,
                             v->ints ? v->ints->count : 0);
    case KINETO_ARG_STRINGS:
        return kr_strings_write(at, limit, v->strings ? v->strings->data : NULL,
                                v->strings ? v->strings->count : 0);
    default:
        return kr_string_write(at, limit, v->s);
    }
}
