/* Ranges that repeat like steps: at least MIN_REPETITIONS of one name, on one thread of each process that has them, one
 * after the other, that cover MIN_COVERED of the time from the first to the last. A range of another name may be
 * around all of them, as that of the whole program is, but not around some. Of several such names the one with most
 * time is the outermost. Only ranges of the program's own annotations count. */
#include "trace/model/repeated_ranges.h"

#include "trace/model/model.h"

#define MIN_REPETITIONS 5u
#define MIN_COVERED     0.8
#define MAX_TRIED       8u /* names that cover that much: nested in each other */

/* The ranges of one name on one track. */
typedef struct series {
    uint32_t track, name, count;
    int64_t first_ns, last_ns;
    double sum_ns;
} series;

typedef struct span {
    int64_t start_ns, end_ns;
} span;

typedef struct repeats {
    const kineto_trace *t;
    kb_map by_key; /* track and name: index of all */
    KB_VEC(series) all;
    KB_VEC(span) spans; /* of the series that is checked, by start */
} repeats;

/** False: stop. */
typedef bool visit_range(repeats *r, const kt_block *b, uint32_t i);

/* Calls `visit` for each annotation of the host. False: it returned false. */
static bool visit_annotations(repeats *r, visit_range *visit)
{
    for (size_t n = 0; n < r->t->blocks.count; n++) {
        const kt_block *b = r->t->blocks.data[n];
        if (!(b->kinds & KINETO_KIND_BIT(KINETO_KIND_USER_ANNOTATION)))
            continue;
        for (uint32_t i = 0; i < b->count; i++)
            if (b->kind[i] == KINETO_KIND_USER_ANNOTATION && b->form[i] == KINETO_FORM_SLICE &&
                !visit(r, b, i))
                return false;
    }
    return true;
}

static bool count_range(repeats *r, const kt_block *b, uint32_t i)
{
    uint64_t *at = kb_map_insert(&r->by_key, (uint64_t)b->track[i] << 32 | b->name[i], r->all.count, NULL);
    if (!at || (*at == r->all.count &&
                !kb_vec_push(&r->all, (series){b->track[i], b->name[i], 0, b->start_ns[i], b->end_ns[i], 0})))
        return false;
    series *s = &r->all.data[*at];
    s->count++;
    s->first_ns = KB_MIN(s->first_ns, b->start_ns[i]);
    s->last_ns = KB_MAX(s->last_ns, b->end_ns[i]);
    s->sum_ns += (double)b->end_ns[i] - (double)b->start_ns[i];
    return true;
}

static bool covers_its_time(const series *s)
{
    double time_ns = (double)s->last_ns - (double)s->first_ns;
    return s->count >= MIN_REPETITIONS && time_ns > 0 && s->sum_ns >= MIN_COVERED * time_ns &&
           s->sum_ns <= time_ns;
}

/* Those that cover their time first, then by time. */
static int compare_series(const void *left, const void *right)
{
    const series *a = left, *b = right;
    bool covers = covers_its_time(a);
    if (covers != covers_its_time(b))
        return covers ? -1 : 1;
    if (a->sum_ns != b->sum_ns)
        return a->sum_ns > b->sum_ns ? -1 : 1;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    return a->name < b->name ? -1 : a->name > b->name;
}

static int compare_spans(const void *left, const void *right)
{
    const span *a = left, *b = right;
    return a->start_ns < b->start_ns ? -1 : a->start_ns > b->start_ns;
}

/* ---- one series ------------------------------------------------------------------------------ */

/* The spans of a series, whose track and name `r->all.data[0]` has. */
static bool collect_span(repeats *r, const kt_block *b, uint32_t i)
{
    const series *s = &r->all.data[0];
    return b->track[i] != s->track || b->name[i] != s->name ||
           kb_vec_push(&r->spans, (span){b->start_ns[i], b->end_ns[i]});
}

static bool follow_each_other(const repeats *r)
{
    for (size_t i = 1; i < r->spans.count; i++)
        if (r->spans.data[i].start_ns < r->spans.data[i - 1].end_ns)
            return false;
    return true;
}

/* False: this range is around some of the spans, not around all. */
static bool is_not_around_some(repeats *r, const kt_block *b, uint32_t i)
{
    const series *s = &r->all.data[0];
    size_t first = 0, count = r->spans.count;
    if (b->track[i] != s->track || b->name[i] == s->name ||
        (b->start_ns[i] <= s->first_ns && b->end_ns[i] >= s->last_ns))
        return true;
    KB_LOWER_BOUND(first, count, r->spans.data[first].start_ns < b->start_ns[i]);
    return first == r->spans.count || r->spans.data[first].end_ns > b->end_ns[i] ||
           (r->spans.data[first].start_ns == b->start_ns[i] && r->spans.data[first].end_ns == b->end_ns[i]);
}

/* The series to check is the first one. False: out of memory. */
static bool check_series(repeats *r, bool *found)
{
    r->spans.count = 0;
    if (!visit_annotations(r, collect_span))
        return false;
    qsort(r->spans.data, r->spans.count, sizeof *r->spans.data, compare_spans);
    *found = follow_each_other(r) && visit_annotations(r, is_not_around_some);
    return true;
}

/* ---- one name -------------------------------------------------------------------------------- */

/* Has each process this name on one track only, where it covers its time? Then ranks have steps alike. */
static bool is_on_one_track_each(const repeats *r, uint32_t name)
{
    for (size_t i = 0; i < r->all.count; i++) {
        const series *a = &r->all.data[i];
        if (a->name != name)
            continue;
        if (!covers_its_time(a))
            return false;
        for (size_t k = 0; k < i; k++)
            if (r->all.data[k].name == name &&
                r->t->tracks.data[r->all.data[k].track].process == r->t->tracks.data[a->track].process)
                return false;
    }
    return true;
}

/* Checks all series of a name, each in the first place. False: out of memory. */
static bool check_name(repeats *r, uint32_t name, bool *found)
{
    bool ok = true;
    *found = is_on_one_track_each(r, name);
    for (size_t i = 0; ok && *found && i < r->all.count; i++) {
        series first = r->all.data[0], s = r->all.data[i];
        if (s.name != name)
            continue;
        r->all.data[0] = s;
        ok = check_series(r, found);
        r->all.data[0] = first;
    }
    return ok;
}

bool kt_find_repeated_ranges(const kineto_trace *t, uint32_t *name)
{
    repeats r = {.t = t};
    bool ok = visit_annotations(&r, count_range), found = false;
    *name = KB_INTERN_NONE;
    if (ok && r.all.count)
        qsort(r.all.data, r.all.count, sizeof *r.all.data, compare_series);
    for (size_t i = 0; ok && !found && i < r.all.count && i < MAX_TRIED && covers_its_time(&r.all.data[i]); i++) {
        uint32_t tried = r.all.data[i].name;
        ok = check_name(&r, tried, &found);
        if (found)
            *name = tried;
    }
    kb_map_free(&r.by_key);
    kb_vec_free(&r.all);
    kb_vec_free(&r.spans);
    return ok;
}
