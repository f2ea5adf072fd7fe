/* The tables step_statistics and step_outliers: warm-up, median and median absolute deviation
 * of steps, and the things that took longer in outliers than their median over all steps.
 *
 * The MAD is robust: one slow step does not widen the limit for the others. The contents of a
 * step are merged by name and compared with their medians. */
#include "analyze/facts/analyses.h"

/* The first steps are warm-up while they exceed the median by 3 MAD; an outlier exceeds it by
 * 3.5 standard deviations (Iglewicz and Hoaglin's limit for modified z-scores). MAD_TO_SIGMA
 * makes the MAD of a normal distribution its standard deviation. */
#define WARM_UP_DEVIATIONS 3.0
#define OUTLIER_DEVIATIONS 3.5
#define MAD_TO_SIGMA       1.4826
#define MIN_SHARE        0.05 /* of the median that a step must be longer by */
#define MAX_DIFFERENCES   3u

/* ---- durations ------------------------------------------------------------------------------- */

static double step_us(const ka_step *s) { return ka_us(kb_length_ns(s->start_ns, s->end_ns)); }

/* Median and MAD of the steps from `first` on. ka_median reorders its values, hence `room`, a
 * copy of them. */
static void describe_steps(ka_durations *d, double *room, uint32_t first)
{
    memcpy(room, d->us + first, (d->count - first) * sizeof *room);
    d->median = ka_median(room, d->count - first);
    d->mad = ka_mad(room, d->count - first, d->median);
}

/* Longer than the median by more than `allowed` us. MIN_SHARE keeps tiny differences of very
 * even steps out. */
static bool is_long(const ka_durations *d, uint32_t step, double allowed)
{
    double over = d->us[step] - d->median;
    return over > allowed && over > MIN_SHARE * d->median;
}

static bool is_outlier(const ka_durations *d, uint32_t step)
{
    return step >= d->warm_up && is_long(d, step, OUTLIER_DEVIATIONS * MAD_TO_SIGMA * d->mad);
}

bool ka_durations_make(ka_durations *d, const ka_dataset *s, uint32_t process)
{
    double *room = malloc((size_t)s->step_count * sizeof *room + 1);
    *d = (ka_durations){.us = malloc((size_t)s->step_count * sizeof *d->us + 1),
                        .step = malloc((size_t)s->step_count * sizeof *d->step + 1),
                        .place = malloc((size_t)s->step_count * sizeof *d->place + 1)};
    bool ok = room && d->us && d->step && d->place;
    for (uint32_t i = 0; ok && i < s->step_count; i++) {
        bool counts =
            s->steps[i].slice != KA_NONE && (process == KA_NONE || process == s->steps[i].process);
        d->place[i] = counts ? (int32_t)d->count : -1;
        if (!counts)
            continue;
        KB_ASSERT(d->count <= i);
        d->step[d->count] = i;
        d->us[d->count++] = step_us(&s->steps[i]);
    }
    if (ok && d->count) {
        describe_steps(d, room, 0);
        while (d->warm_up + 1 < d->count && is_long(d, d->warm_up, WARM_UP_DEVIATIONS * d->mad))
            d->warm_up++;
        describe_steps(d, room, d->warm_up);
    }
    free(room);
    return ok;
}

void ka_durations_free(ka_durations *d)
{
    free(d->us);
    free(d->step);
    free(d->place);
}

/* The row of a rank; the extremes and outliers are of steps after the warm-up. */
static void put_statistics(const ka_dataset *s, const ka_durations *d, ka_table *t)
{
    int64_t least = INT64_MAX, most = 0, outliers = 0;
    for (uint32_t i = d->warm_up; i < d->count; i++) {
        const ka_step *step = &s->steps[d->step[i]];
        int64_t ns = kb_length_ns(step->start_ns, step->end_ns);
        least = KB_MIN(least, ns);
        most = KB_MAX(most, ns);
        outliers += is_outlier(d, i);
    }
    ka_put_int(t, s->rank);
    ka_put_int(t, d->count);
    ka_put_int(t, d->warm_up);
    ka_put_number(t, d->median);
    ka_put_number(t, d->mad);
    ka_put_ns(t, least);
    ka_put_ns(t, most);
    ka_put_int(t, outliers);
}

/* ---- what is in a step ----------------------------------------------------------------------- */

enum {
    KERNEL,
    MEMCPY,
    MEMSET,
    COMMUNICATION,
    SYNCHRONIZATION,
    DATA_LOADER,
    OPERATOR,
    RANGE,
    PYTHON
};
static const struct {
    const char *kind;
    const char *whole; /* what a sum over all names is called; NULL: names count each */
} kinds[] = {
    [KERNEL] = {"kernel", "all kernels"},
    [MEMCPY] = {"memcpy", "all copies"},
    [MEMSET] = {"memset", "all memsets"},
    [COMMUNICATION] = {"communication", "all communication"},
    [SYNCHRONIZATION] = {"synchronization", "all waiting calls"},
    [DATA_LOADER] = {"data_loader", "data loader"},
    [OPERATOR] = {"operator", NULL},
    [RANGE] = {"annotation", NULL},
    [PYTHON] = {"python", NULL},
};

/* How long one thing took in one step. */
typedef struct portion {
    uint64_t key; /* kind << 32 | name */
    int32_t step;
    int64_t ns;
} portion;

/* Portions of all steps. Slices are added up by name for one step at a time: `now` and `kind`
 * are sparse arrays by name, and `named` lists the names that flush_step_contents must move to
 * `portions`. */
typedef struct contents {
    const ka_dataset *s;
    KB_VEC(portion) portions;
    int64_t *now;           /* by name: sum of the step under way … */
    uint8_t *kind;          /* … and kind + 1; */
    KB_VEC(uint32_t) named; /* those that have one */
    uint8_t *waits;         /* by name: 0 not checked yet, 1 no, 2 yes */
    bool no_memory;
} contents;

static uint64_t key_of(uint32_t kind, uint32_t name) { return (uint64_t)kind << 32 | name; }

/* Ends a step: its sums become portions, and are 0 again for the next one. */
static void flush_step_contents(contents *c, int32_t step)
{
    for (size_t i = 0; i < c->named.count; i++) {
        uint32_t name = c->named.data[i];
        portion p = {key_of(c->kind[name] - 1u, name), step, c->now[name]};
        c->no_memory |= !kb_vec_push(&c->portions, p);
        c->now[name] = 0;
        c->kind[name] = 0;
    }
    c->named.count = 0;
}

/* A name keeps the kind of its first range in the step. */
static void add_content(contents *c, uint32_t kind, uint32_t name, int64_t ns)
{
    if (!c->kind[name]) {
        c->kind[name] = (uint8_t)(kind + 1);
        c->no_memory |= !kb_vec_push(&c->named, name);
    }
    c->now[name] = ka_add_ns(c->now[name], ns);
}

/* Does a call wait for the device, or a range for the data loader? Decided once for each name. */
static bool is_waiting_slice(contents *c, const ka_slice *s)
{
    uint8_t *known = &c->waits[s->name];
    if (!*known) {
        kineto_string name = ka_name(c->s, s->name);
        bool yes = kt_kind_is_launch(s->kind) ? kb_string_contains(name, "Synchronize")
                                              : ka_is_dataloader(name);
        *known = yes ? 2 : 1;
    }
    return *known == 2;
}

/* Kind of a slice; -1: it is left out, and its time stays in what encloses it. Calls that do
 * not wait are part of their operators. */
static int content_kind(contents *c, const ka_slice *s)
{
    switch (s->kind) {
    case KINETO_KIND_RUNTIME:
    case KINETO_KIND_DRIVER:
        return is_waiting_slice(c, s) ? SYNCHRONIZATION : -1;
    case KINETO_KIND_CPU_OP:
        return is_waiting_slice(c, s) ? DATA_LOADER : OPERATOR;
    case KINETO_KIND_USER_ANNOTATION:
        return is_waiting_slice(c, s) ? DATA_LOADER : RANGE;
    case KINETO_KIND_PYTHON_FUNCTION:
        return PYTHON;
    default:
        return -1;
    }
}

/* Slice of the first selected step. */
static uint32_t first_step(const ka_dataset *s)
{
    uint32_t i = 0;
    while (i + 1 < s->step_count && s->steps[i].slice == KA_NONE)
        i++;
    return s->steps[i].slice;
}

/* A step's own name has its number in it: what is in no range of it gets one name for all. */
static uint32_t content_name(const ka_dataset *s, uint32_t slice, uint32_t first)
{
    int32_t step = s->slices[slice].step;
    return step >= 0 && s->steps[step].slice == slice ? s->slices[first].name
                                                      : s->slices[slice].name;
}

/* Adds all slices with their own time: less that of the slices in them that have a kind
 * themselves. Data loaders count whole. `own` has room for all slices. */
static void take_slices(contents *c, int64_t *own)
{
    const ka_dataset *s = c->s;
    int32_t step = -1;
    uint32_t first = first_step(s);
    for (uint32_t i = 0; i < s->slice_count; i++)
        own[i] = ka_slice_ns(&s->slices[i]);
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint32_t parent = s->slices[i].parent;
        if (parent != KA_NONE && content_kind(c, &s->slices[i]) >= 0)
            own[parent] = ka_add_ns(own[parent], -ka_slice_ns(&s->slices[i]));
    }
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        int kind = slice->step < 0 ? -1 : content_kind(c, slice);
        if (kind < 0)
            continue;
        if (slice->step != step)
            flush_step_contents(c, step);
        step = slice->step;
        add_content(c, (uint32_t)kind, content_name(s, i, first),
            kind == DATA_LOADER ? ka_slice_ns(slice) : KB_MAX(own[i], 0));
    }
    flush_step_contents(c, step);
}

static uint32_t kind_of_work(const ka_work *w)
{
    return w->kind == KINETO_KIND_GPU_MEMCPY   ? MEMCPY
           : w->kind == KINETO_KIND_GPU_MEMSET ? MEMSET
           : w->type == KA_TYPE_COMMUNICATION  ? COMMUNICATION
                                               : KERNEL;
}

/* Adds work of devices by kind, with one portion per step and kind. False: out of memory. */
static bool add_step_work(contents *c)
{
    const ka_dataset *s = c->s;
    int64_t(*sums)[OPERATOR] = calloc((size_t)s->step_count + 1, sizeof *sums);
    if (!sums)
        return false;
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (w->step >= 0) {
            int64_t *sum = &sums[w->step][kind_of_work(w)];
            *sum = ka_add_ns(*sum, ka_work_ns(w));
        }
    }
    for (uint32_t i = 0; i < s->step_count; i++)
        for (uint32_t kind = KERNEL; kind <= COMMUNICATION; kind++)
            if (sums[i][kind])
                c->no_memory |= !kb_vec_push(&c->portions,
                                             (portion){key_of(kind, 0), (int32_t)i, sums[i][kind]});
    free(sums);
    return true;
}

static int compare_portions(const void *left, const void *right)
{
    const portion *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Clears the names of kinds that are summed over all names, sorts, and merges portions of one
 * key and step. */
static void join_contents(contents *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->portions.count; i++)
        if (kinds[c->portions.data[i].key >> 32].whole)
            c->portions.data[i].key &= ~(uint64_t)UINT32_MAX;
    if (c->portions.count)
        qsort(c->portions.data, c->portions.count, sizeof *c->portions.data, compare_portions);
    for (size_t i = 0; i < c->portions.count; i++) {
        portion *last = kept ? &c->portions.data[kept - 1] : NULL, p = c->portions.data[i];
        if (last && last->key == p.key && last->step == p.step)
            last->ns = ka_add_ns(last->ns, p.ns);
        else
            c->portions.data[kept++] = p;
    }
    c->portions.count = kept;
}

static bool contents_make(contents *c, const ka_dataset *s)
{
    size_t names = (size_t)s->name_count + 1;
    *c = (contents){.s = s};
    c->now = calloc(names, sizeof *c->now);
    c->kind = calloc(names, 1);
    c->waits = calloc(names, 1);
    int64_t *own = malloc(((size_t)s->slice_count + 1) * sizeof *own);
    bool ok = c->now && c->kind && c->waits && own && add_step_work(c);
    if (ok) {
        take_slices(c, own);
        join_contents(c);
    }
    free(own);
    return ok && !c->no_memory;
}

static void contents_free(contents *c)
{
    kb_vec_free(&c->portions);
    kb_vec_free(&c->named);
    free(c->now);
    free(c->kind);
    free(c->waits);
}

/* ---- what differs ---------------------------------------------------------------------------- */

typedef struct difference {
    uint64_t key;
    double us;
} difference;

typedef struct differences {
    difference most[MAX_DIFFERENCES];
    uint32_t count;
} differences;

/* Keeps the MAX_DIFFERENCES largest in falling order, by insertion; what did not take longer
 * is left out. */
static void keep_largest_difference(differences *d, uint64_t key, double us)
{
    if (us <= 0 || (d->count == MAX_DIFFERENCES && us <= d->most[d->count - 1].us))
        return;
    uint32_t at = d->count < MAX_DIFFERENCES ? d->count++ : MAX_DIFFERENCES - 1;
    for (; at > 0 && d->most[at - 1].us < us; at--)
        d->most[at] = d->most[at - 1];
    d->most[at] = (difference){key, us};
}

/* Compares one thing over all steps: portions [from, to) have its key. A step without it
 * counts as 0, so the median is 0 if fewer than half have it. `of` is by place in d; `room`
 * holds d->count values. */
static void compare_steps(const contents *c, const ka_durations *d, size_t from, size_t to,
                          double *room, differences *of)
{
    uint32_t count = 0, steps = d->count - d->warm_up;
    for (size_t i = from; i < to; i++)
        if (d->place[c->portions.data[i].step] >= (int32_t)d->warm_up)
            room[count++] = ka_us(c->portions.data[i].ns);
    memset(room + count, 0, (steps - count) * sizeof *room);
    double median = 2 * count < steps ? 0 : ka_median(room, steps);
    for (size_t i = from; i < to; i++) {
        const portion *p = &c->portions.data[i];
        int32_t place = d->place[p->step];
        if (place >= 0 && is_outlier(d, (uint32_t)place))
            keep_largest_difference(&of[place], p->key, ka_us(p->ns) - median);
    }
}

/* The name all steps have here, since their own are all different. */
static bool is_step_itself(const ka_dataset *s, uint32_t kind, uint32_t name)
{
    return !kinds[kind].whole && s->slices[first_step(s)].name == name;
}

/* The last three columns of an outlier's row. Time in the step itself that is in no range of
 * it has the name of the first step (content_name), and is shown as outside of what was
 * recorded. */
static void put_difference(const ka_dataset *s, const difference *what, ka_table *t)
{
    uint32_t kind = (uint32_t)(what->key >> 32), name = (uint32_t)what->key;
    bool between = is_step_itself(s, kind, name);
    ka_put_text(t, kinds[kind].whole ? kb_string(kinds[kind].whole)
                   : between         ? kb_string("outside of what was recorded")
                                     : ka_name(s, name));
    ka_put_text(t, kb_string(between ? "host" : kinds[kind].kind));
    ka_put_number(t, what->us);
}

/* `what` NULL: everything that was recorded took as long as in other steps. */
static void put_outlier(const ka_dataset *s, const ka_durations *d, uint32_t place,
                        const difference *what, ka_table *t)
{
    const ka_step *step = &s->steps[d->step[place]];
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)step->number);
    ka_put_int(t, s->rank);
    ka_put_text(t, kb_string(text));
    ka_put_ns(t, kb_length_ns(step->start_ns, step->end_ns));
    ka_put_number(t, d->median);
    if (d->mad > 0)
        ka_put_number(t, (d->us[place] - d->median) / (MAD_TO_SIGMA * d->mad));
    else
        ka_put_none(t);
    if (what) {
        put_difference(s, what, t);
        return;
    }
    ka_put_text(t, kb_string("nothing that was recorded"));
    ka_put_text(t, kb_string(""));
    ka_put_none(t);
}

/* Groups portions by key, compares each group, then writes a row for each difference of each
 * outlier. False: out of memory. */
static bool put_outliers(const ka_dataset *s, const ka_durations *d, ka_table *t)
{
    contents c;
    differences *of = calloc((size_t)d->count + 1, sizeof *of);
    double *room = malloc((size_t)d->count * sizeof *room + 1);
    bool ok = contents_make(&c, s) && of && room;
    for (size_t from = 0, to; ok && from < c.portions.count; from = to) {
        for (to = from + 1; to < c.portions.count;)
            if (c.portions.data[to].key != c.portions.data[from].key)
                break;
            else
                to++;
        compare_steps(&c, d, from, to, room, of);
    }
    for (uint32_t i = d->warm_up; ok && i < d->count; i++)
        for (uint32_t k = 0; is_outlier(d, i) && k < KB_MAX(of[i].count, 1u); k++)
            put_outlier(s, d, i, of[i].count ? &of[i].most[k] : NULL, t);
    contents_free(&c);
    free(of);
    free(room);
    return ok;
}

/* ---- all of it ------------------------------------------------------------------------------- */

static bool has_outlier(const ka_durations *d)
{
    for (uint32_t i = d->warm_up; i < d->count; i++)
        if (is_outlier(d, i))
            return true;
    return false;
}

/* Tables step_statistics and step_outliers. The first steps count as warm-up while they are
 * outliers. */
kineto_status ka_analyze_step_statistics(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *statistics = ka_table_of(a, KA_TABLE_step_statistics),
             *outliers = ka_table_of(a, KA_TABLE_step_outliers);
    const char *none = "the trace has no steps: mark them with ranges named ProfilerStep#N";
    ka_durations d = {0};
    bool ok = ka_durations_make(&d, s, KA_NONE);
    if (ok && !d.count) {
        ka_durations_free(&d);
        ka_note(statistics, "%s", none);
        ka_note(outliers, "%s", none);
        return KINETO_OK;
    }
    if (ok && statistics)
        put_statistics(s, &d, statistics);
    if (ok && outliers && has_outlier(&d))
        ok = put_outliers(s, &d, outliers);
    else if (ok && d.count < 4)
        ka_note(outliers, "%u step%s too few to find outliers", d.count,
                d.count == 1 ? " is" : "s are");
    else if (ok)
        ka_note(outliers, "no step took much longer than the others");
    ka_durations_free(&d);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
