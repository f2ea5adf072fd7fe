/* Prefix sums over united spans: how much of any interval they cover, by binary search. */
#ifndef KA_SUMS_H
#define KA_SUMS_H

#include "analyze/dataset/dataset.h"

typedef struct ka_sums {
    ka_spans spans;  /* united */
    int64_t *before; /* by span: ns of all spans before it */
} ka_sums;

/** Unites `spans` and takes them over. False: out of memory. */
static inline bool ka_sums_make(ka_sums *s, ka_spans *spans)
{
    int64_t sum = 0;
    ka_spans_unite(spans);
    s->spans = *spans;
    *spans = (ka_spans){0};
    s->before = malloc((s->spans.count + 1) * sizeof *s->before);
    for (size_t i = 0; s->before && i < s->spans.count; i++) {
        s->before[i] = sum;
        sum = ka_add_ns(sum, kb_length_ns(s->spans.data[i].start_ns, s->spans.data[i].end_ns));
    }
    return s->before != NULL;
}

static inline void ka_sums_free(ka_sums *s)
{
    kb_vec_free(&s->spans);
    free(s->before);
    *s = (ka_sums){0};
}

/** Nanoseconds of the spans that lie before a time. */
static inline int64_t ka_sums_until(const ka_sums *s, int64_t ns)
{
    size_t count = 0;
    KB_LOWER_BOUND(count, s->spans.count, s->spans.data[count].start_ns < ns);
    if (!count)
        return 0;
    const ka_span *last = &s->spans.data[count - 1];
    return ka_add_ns(s->before[count - 1], kb_length_ns(last->start_ns, KB_MIN(last->end_ns, ns)));
}

static inline int64_t ka_sums_within(const ka_sums *s, int64_t start_ns, int64_t end_ns)
{
    return end_ns > start_ns ? ka_sums_until(s, end_ns) - ka_sums_until(s, start_ns) : 0;
}
#endif
