/* How long the path would have taken if kernels, copies, operators or launches took another
 * time: the same graph with other weights. Factors of several scales multiply; fixed edges
 * (waits, gaps) keep their time. */
#include "analyze/critical/critical.h"

#include <math.h>

#define MAX_FACTOR 1e6

/* Factors of everything that time belongs to. */
typedef struct factors {
    const ka_path *p;
    double *slices, *work; /* by index */
    double classes[KA_PATH_CLASS_COUNT];
    uint8_t *known;  /* by name: 0: not known yet, 1: no match, 2: match */
    uint8_t *inside; /* by slice: it, or what encloses it, is meant */
} factors;

/* Are the pieces between the stars in the name, in their order? */
static bool matches_pattern(kineto_string name, const char *pattern)
{
    const char *at = name.data, *end = name.data + name.size;
    while (*pattern) {
        size_t size = strcspn(pattern, "*");
        const char *found = size ? memmem(at, (size_t)(end - at), pattern, size) : at;
        if (!found)
            return false;
        at = found + size;
        pattern += size + (pattern[size] == '*');
    }
    return true;
}

/* Does the pattern match the name? Computed once per name and scale. */
static bool is_meant(factors *f, uint32_t name, const char *pattern)
{
    if (!f->known[name])
        f->known[name] = matches_pattern(ka_name(f->p->s, name), pattern) ? 2 : 1;
    return f->known[name] == 2;
}

static bool is_copy(const ka_work *w)
{
    return w->kind == KINETO_KIND_GPU_MEMCPY || w->kind == KINETO_KIND_GPU_MEMSET;
}

/* Kernels and all other work that is not copied; or copies and memsets. */
static void scale_work(factors *f, const kineto_what_if_scale *scale)
{
    const ka_dataset *s = f->p->s;
    bool copies = scale->kind == KINETO_WHAT_IF_COPY;
    for (uint32_t i = 0; i < s->work_count; i++)
        if (is_copy(&s->work[i]) == copies && is_meant(f, s->work[i].name, scale->pattern))
            f->work[i] *= scale->factor;
}

/* Did the call launch work with a matching name? */
static bool launches_meant(factors *f, const ka_slice *slice, const char *pattern)
{
    const ka_dataset *s = f->p->s;
    for (uint32_t i = 0; i < slice->work_count; i++)
        if (is_meant(f, s->work[s->launched[slice->first_work + i]].name, pattern))
            return true;
    return false;
}

/* Scales matching operators, or calls that launched matching work, with all they enclose.
 * Operators take their device work with them. */
static void scale_slices(factors *f, const kineto_what_if_scale *scale)
{
    const ka_dataset *s = f->p->s;
    bool operators = scale->kind == KINETO_WHAT_IF_OPERATOR;
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        f->inside[i] = slice->parent != KA_NONE && f->inside[slice->parent];
        if (!f->inside[i])
            f->inside[i] = operators ? is_meant(f, slice->name, scale->pattern)
                                     : launches_meant(f, slice, scale->pattern);
        if (f->inside[i])
            f->slices[i] *= scale->factor;
    }
    for (uint32_t i = 0; operators && i < s->work_count; i++)
        if (s->work[i].call != KA_NONE && f->inside[s->work[i].call])
            f->work[i] *= scale->factor;
}

/* KINETO_E_ARGUMENT: there is no such class. */
static kineto_status scale_class(factors *f, const kineto_what_if_scale *scale, kineto_error *err)
{
    for (uint32_t i = 0; i < KA_PATH_CLASS_COUNT; i++)
        if (strcmp(ka_path_class_name(f->p, i), scale->pattern) == 0) {
            f->classes[i] *= scale->factor;
            return KINETO_OK;
        }
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "unknown class '%.80s'; see the table critical_path_summary", scale->pattern);
}

/* Checks one scale and multiplies it into the factors. */
static kineto_status scale_one(factors *f, const kineto_what_if_scale *scale, kineto_error *err)
{
    kineto_what_if_scale s = *scale;
    s.pattern = s.pattern ? s.pattern : "";
    if (!(s.factor >= 0 && s.factor <= MAX_FACTOR))
        return kb_fail(err, KINETO_E_ARGUMENT, "a factor is a number from 0 to 1000000, not %g",
                       s.factor);
    memset(f->known, 0, (size_t)f->p->s->name_count + 1);
    switch (s.kind) {
    case KINETO_WHAT_IF_KERNEL:
    case KINETO_WHAT_IF_COPY:
        scale_work(f, &s);
        return KINETO_OK;
    case KINETO_WHAT_IF_OPERATOR:
    case KINETO_WHAT_IF_LAUNCH:
        scale_slices(f, &s);
        return KINETO_OK;
    case KINETO_WHAT_IF_CLASS:
        return scale_class(f, &s, err);
    default:
        return kb_fail(err, KINETO_E_ARGUMENT, "unknown scale kind %u", s.kind);
    }
}

/* All factors are 1. False: out of memory; to be freed in any case. */
static bool factors_create(factors *f, const ka_path *p)
{
    *f = (factors){.p = p};
    f->slices = malloc(((size_t)p->s->slice_count + 1) * sizeof *f->slices);
    f->work = malloc(((size_t)p->s->work_count + 1) * sizeof *f->work);
    f->known = malloc((size_t)p->s->name_count + 1);
    f->inside = calloc((size_t)p->s->slice_count + 1, 1);
    if (!f->slices || !f->work || !f->known || !f->inside)
        return false;
    for (uint32_t i = 0; i < p->s->slice_count; i++)
        f->slices[i] = 1;
    for (uint32_t i = 0; i < p->s->work_count; i++)
        f->work[i] = 1;
    for (uint32_t i = 0; i < KA_PATH_CLASS_COUNT; i++)
        f->classes[i] = 1;
    return true;
}

static void factors_free(factors *f)
{
    free(f->slices);
    free(f->work);
    free(f->known);
    free(f->inside);
}

/* Saturates. */
static int64_t scale_ns(int64_t ns, double factor)
{
    double value = (double)ns * factor;
    return value >= 9.2e18 ? INT64_MAX : (int64_t)llround(value);
}

/* The time of an edge with its time without a CPU, and blocked, scaled by themselves. */
static int64_t scale_states(const factors *f, const ka_edge *e)
{
    int64_t ns[KA_STATE_COUNT];
    double waiting = f->classes[KA_PATH_NO_CPU], blocked = f->classes[KA_PATH_BLOCKED];
    if ((waiting == 1 && blocked == 1) || !ka_path_split(f->p, e, ns))
        return e->ns;
    return ka_add_ns(ns[KA_STATE_RUNNING], ka_add_ns(scale_ns(ns[KA_STATE_WAITING], waiting),
                                                     scale_ns(ns[KA_STATE_BLOCKED], blocked)));
}

/* Weights of all edges; returns how many changed. */
static uint64_t weigh_edges(const factors *f, int64_t *weights)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < f->p->edges.count; i++) {
        const ka_edge *e = &f->p->edges.data[i];
        double factor = f->classes[e->class];
        if (e->of == KA_OF_SLICE)
            factor *= f->slices[e->owner];
        else if (e->of == KA_OF_WORK)
            factor *= f->work[e->owner];
        int64_t ns = scale_states(f, e);
        weights[i] = factor == 1 ? ns : scale_ns(ns, factor);
        changed += weights[i] != e->ns;
    }
    return changed;
}

/* The median length of the steps of the window with these times. */
static int64_t median_step(const ka_path *p, const int64_t *times, int64_t *room)
{
    size_t count = p->steps.count;
    if (!count)
        return 0;
    for (size_t i = 0; i < count; i++)
        room[i] = kb_length_ns(times[p->steps.data[i].start], times[p->steps.data[i].end]);
    qsort(room, count, sizeof *room, kb_compare_int64);
    return count % 2 ? room[count / 2] : room[count / 2 - 1] / 2 + room[count / 2] / 2;
}

/* Times with the new weights, and the median step before and after. False: out of memory. */
static bool evaluate_factors(const factors *f, kineto_what_if_result *r)
{
    const ka_path *p = f->p;
    int64_t *weights = malloc((p->edges.count + 1) * sizeof *weights),
            *times = malloc((p->nodes.count + 1) * sizeof *times),
            *room = malloc((p->steps.count + 1) * sizeof *room);
    bool ok = weights && times && room;
    if (ok) {
        r->scaled = weigh_edges(f, weights);
        ka_path_times(p, weights, times);
        r->before_ns = p->length_ns;
        r->after_ns = ka_path_length(p, times);
        r->step_count = (uint32_t)p->steps.count;
        r->step_before_ns = median_step(p, p->time, room);
        r->step_after_ns = median_step(p, times, room);
    }
    free(weights);
    free(times);
    free(room);
    return ok;
}

kineto_status ka_what_if(const ka_path *p, const kineto_what_if_scale *scales, size_t count,
                         kineto_what_if_result *result, kineto_error *err)
{
    factors f = {0};
    if (p->s->definitions->build_path)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "what-if is not supported with these definitions; use the exact ones");
    kineto_what_if_result r = {.size = result->size};
    bool ok = factors_create(&f, p);
    kineto_status status = ok ? KINETO_OK : kb_fail_memory(err, NULL);
    for (size_t i = 0; i < count && !status; i++)
        status = scale_one(&f, &scales[i], err);
    if (!status && !evaluate_factors(&f, &r))
        status = kb_fail_memory(err, NULL);
    if (!status)
        memcpy(result, &r, KB_MIN(result->size, sizeof r));
    factors_free(&f);
    return status;
}
