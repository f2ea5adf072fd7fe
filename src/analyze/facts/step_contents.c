/* Collects what took the time of steps. Slices count with their own time, less that of slices in them; what
 * is in no range of a step has the name of the first step, since each step's own name has its number in it. */
#include "analyze/facts/step_contents.h"

#include "analyze/dataset/thread_time.h"

static const struct {
    const char *kind;
    const char *whole; /* what a sum over all names is called; NULL: names count each */
} kinds[] = {
    [KA_CONTENT_KERNELS] = {"kernel", "all kernels"},
    [KA_CONTENT_KERNEL] = {"kernel", NULL},
    [KA_CONTENT_MEMCPY] = {"memcpy", "all copies"},
    [KA_CONTENT_MEMSET] = {"memset", "all memsets"},
    [KA_CONTENT_COMMUNICATION] = {"communication", "all communication"},
    [KA_CONTENT_SYNCHRONIZATION] = {"synchronization", "all waiting calls"},
    [KA_CONTENT_DATA_LOADER] = {"data_loader", "data loader"},
    [KA_CONTENT_OPERATOR] = {"operator", NULL},
    [KA_CONTENT_RANGE] = {"annotation", NULL},
    [KA_CONTENT_PYTHON] = {"python", NULL},
    [KA_CONTENT_STATE] = {"thread", NULL},
    [KA_CONTENT_SAMPLED] = {"cpu_sample", NULL},
};

static uint64_t key_of(uint32_t kind, uint32_t name) { return (uint64_t)kind << 32 | name; }

static void push_portion(ka_step_contents *c, uint32_t kind, uint32_t name, int32_t step, int64_t ns)
{
    c->no_memory |= !kb_vec_push(&c->portions, ((ka_portion){key_of(kind, name), step, ns}));
}

/* ---- ranges of the host ---------------------------------------------------------------------- */

/* Slices are added up by name for one step at a time: `now` and `kind` are sparse arrays by name, and
 * `named` lists the names that flush_step_slices must move to the portions. */
typedef struct slice_sums {
    ka_step_contents *c;
    int64_t *now;           /* by name: sum of the step under way … */
    uint8_t *kind;          /* … and kind + 1; */
    KB_VEC(uint32_t) named; /* those that have one */
    uint8_t *waits;         /* by name: 0 not checked yet, 1 no, 2 yes */
} slice_sums;

/* Ends a step: its sums become portions, and are 0 again for the next one. */
static void flush_step_slices(slice_sums *sums, int32_t step)
{
    for (size_t i = 0; i < sums->named.count; i++) {
        uint32_t name = sums->named.data[i];
        push_portion(sums->c, sums->kind[name] - 1u, name, step, sums->now[name]);
        sums->now[name] = 0;
        sums->kind[name] = 0;
    }
    sums->named.count = 0;
}

/* A name keeps the kind of its first range in the step. */
static void add_slice(slice_sums *sums, uint32_t kind, uint32_t name, int64_t ns)
{
    if (!sums->kind[name]) {
        sums->kind[name] = (uint8_t)(kind + 1);
        sums->c->no_memory |= !kb_vec_push(&sums->named, name);
    }
    sums->now[name] = ka_add_ns(sums->now[name], ns);
}

/* Does a call wait for the device, or a range for the data loader? Decided once for each name. */
static bool is_waiting_slice(slice_sums *sums, const ka_slice *s)
{
    uint8_t *known = &sums->waits[s->name];
    if (!*known) {
        kineto_string name = ka_name(sums->c->s, s->name);
        bool yes = kt_kind_is_launch(s->kind) ? kb_string_contains(name, "Synchronize")
                                              : ka_is_dataloader(name);
        *known = yes ? 2 : 1;
    }
    return *known == 2;
}

/* Kind of a slice; -1: it is left out, and its time stays in what encloses it. Calls that do
 * not wait are part of their operators. */
static int content_kind(slice_sums *sums, const ka_slice *s)
{
    switch (s->kind) {
    case KINETO_KIND_RUNTIME:
    case KINETO_KIND_DRIVER:
        return is_waiting_slice(sums, s) ? KA_CONTENT_SYNCHRONIZATION : -1;
    case KINETO_KIND_CPU_OP:
        return is_waiting_slice(sums, s) ? KA_CONTENT_DATA_LOADER : KA_CONTENT_OPERATOR;
    case KINETO_KIND_USER_ANNOTATION:
        return is_waiting_slice(sums, s) ? KA_CONTENT_DATA_LOADER : KA_CONTENT_RANGE;
    case KINETO_KIND_PYTHON_FUNCTION:
        return KA_CONTENT_PYTHON;
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
static void add_slices(slice_sums *sums, int64_t *own)
{
    const ka_dataset *s = sums->c->s;
    int32_t step = -1;
    uint32_t first = first_step(s);
    for (uint32_t i = 0; i < s->slice_count; i++)
        own[i] = ka_slice_ns(&s->slices[i]);
    for (uint32_t i = 0; i < s->slice_count; i++) {
        uint32_t parent = s->slices[i].parent;
        if (parent != KA_NONE && content_kind(sums, &s->slices[i]) >= 0)
            own[parent] = ka_add_ns(own[parent], -ka_slice_ns(&s->slices[i]));
    }
    for (uint32_t i = 0; i < s->slice_count; i++) {
        const ka_slice *slice = &s->slices[i];
        int kind = slice->step < 0 ? -1 : content_kind(sums, slice);
        if (kind < 0)
            continue;
        if (slice->step != step)
            flush_step_slices(sums, step);
        step = slice->step;
        add_slice(sums, (uint32_t)kind, content_name(s, i, first),
                  kind == KA_CONTENT_DATA_LOADER ? ka_slice_ns(slice) : KB_MAX(own[i], 0));
    }
    flush_step_slices(sums, step);
}

static bool add_step_slices(ka_step_contents *c)
{
    size_t names = (size_t)c->s->name_count + 1;
    slice_sums sums = {.c = c};
    sums.now = calloc(names, sizeof *sums.now);
    sums.kind = calloc(names, 1);
    sums.waits = calloc(names, 1);
    int64_t *own = malloc(((size_t)c->s->slice_count + 1) * sizeof *own);
    bool ok = sums.now && sums.kind && sums.waits && own;
    if (ok)
        add_slices(&sums, own);
    free(own);
    free(sums.now);
    free(sums.kind);
    free(sums.waits);
    kb_vec_free(&sums.named);
    return ok;
}

/* ---- work of devices ------------------------------------------------------------------------- */

static uint32_t kind_of_work(const ka_work *w)
{
    return w->kind == KINETO_KIND_GPU_MEMCPY   ? KA_CONTENT_MEMCPY
           : w->kind == KINETO_KIND_GPU_MEMSET ? KA_CONTENT_MEMSET
           : w->type == KA_TYPE_COMMUNICATION  ? KA_CONTENT_COMMUNICATION
                                               : KA_CONTENT_KERNELS;
}

/* Work by kind, and kernels also by name. */
static void add_step_work(ka_step_contents *c)
{
    for (uint32_t i = 0; i < c->s->work_count && !c->no_memory; i++) {
        const ka_work *w = &c->s->work[i];
        if (w->step < 0)
            continue;
        uint32_t kind = kind_of_work(w);
        push_portion(c, kind, 0, w->step, ka_work_ns(w));
        if (kind == KA_CONTENT_KERNELS)
            push_portion(c, KA_CONTENT_KERNEL, w->name, w->step, ka_work_ns(w));
    }
}

/* ---- what the step's thread did -------------------------------------------------------------- */

typedef struct state_use {
    ka_step_contents *c;
    int32_t step;
} state_use;

static void add_state_part(void *context, kineto_string words, int64_t ns)
{
    state_use *use = context;
    uint32_t id;
    if (kb_string_is(words, KA_STATE_UNKNOWN))
        return;
    id = kb_intern_id(&use->c->words, words);
    use->c->no_memory |= id == KB_INTERN_NONE;
    if (!use->c->no_memory)
        push_portion(use->c, KA_CONTENT_STATE, id, use->step, ns);
}

static bool add_step_states(ka_step_contents *c, const ka_watched *w)
{
    ka_blocking_calls calls;
    bool ok = ka_blocking_calls_make(c->s->trace, &calls);
    for (uint32_t i = 0; ok && !c->no_memory && i < c->s->step_count; i++) {
        const ka_step *step = &c->s->steps[i];
        if (step->slice == KA_NONE)
            continue;
        const ka_thread *thread = &c->s->threads[c->s->slices[step->slice].thread];
        state_use use = {c, (int32_t)i};
        ka_thread_time(w, &calls, thread->process, thread->id, step->start_ns, step->end_ns,
                       add_state_part, &use);
    }
    ka_blocking_calls_free(&calls);
    return ok;
}

/* The selected step of a thread that a moment is in; -1: none. */
static int32_t find_step_of(const ka_dataset *s, uint32_t process, int64_t thread_id, int64_t ns)
{
    uint32_t next = 0;
    KB_LOWER_BOUND(next, s->step_count, s->steps[next].start_ns <= ns);
    const ka_step *step = next ? &s->steps[next - 1] : NULL;
    if (!step || step->slice == KA_NONE || step->process != process || ns >= step->end_ns ||
        s->threads[s->slices[step->slice].thread].id != thread_id)
        return -1;
    return (int32_t)next - 1;
}

/* The part of a range's CPU time that is before the end of the step: a sampled function may run on after it. */
static int64_t clip_cpu_ns(const kineto_activity *a, int64_t cpu_ns, int64_t end_ns)
{
    int64_t length_ns = kb_length_ns(a->start_ns, a->end_ns);
    if (a->end_ns <= end_ns || length_ns <= 0)
        return cpu_ns;
    return (int64_t)((double)cpu_ns * (double)kb_length_ns(a->start_ns, end_ns) / (double)length_ns);
}

/* A sampled range adds its CPU time to its function, and takes it from its caller, in the step in which it
 * begins. A sample that stands for more time than is left of the step says nothing about its function there. */
static void add_sampled_row(ka_step_contents *c, kineto_row row, uint32_t process, int64_t thread_id)
{
    kineto_activity a, around;
    kineto_arg cpu;
    kineto_trace_get(c->s->trace, row, &a);
    int32_t step = a.kind == KINETO_KIND_CPU_SAMPLE && a.form == KINETO_FORM_SLICE
                       ? find_step_of(c->s, process, thread_id, a.start_ns)
                       : -1;
    if (step < 0 || !kineto_args_find(c->s->trace, row, "cpu_ns", &cpu))
        return;
    int64_t ns = cpu.type == KINETO_ARG_UINT  ? (int64_t)KB_MIN(cpu.u, (uint64_t)INT64_MAX)
                 : cpu.type == KINETO_ARG_INT ? KB_MAX(cpu.i, 0)
                                              : 0;
    int64_t end_ns = c->s->steps[step].end_ns, left_ns = kb_length_ns(a.start_ns, end_ns);
    ns = clip_cpu_ns(&a, ns, end_ns);
    if (ns <= left_ns)
        push_portion(c, KA_CONTENT_SAMPLED, a.name_id, step, ns);
    ns = KB_MIN(ns, left_ns);
    kineto_row parent = kineto_trace_parent(c->s->trace, row);
    if (parent == KINETO_NO_ROW)
        return;
    kineto_trace_get(c->s->trace, parent, &around);
    if (around.kind == KINETO_KIND_CPU_SAMPLE)
        push_portion(c, KA_CONTENT_SAMPLED, around.name_id, step, -ns);
}

static bool add_step_samples(ka_step_contents *c)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(c->s->trace) && !c->no_memory; i++) {
        kineto_track track;
        kineto_trace_track(c->s->trace, i, &track);
        const kineto_row *rows = track.count ? kineto_trace_track_rows(c->s->trace, i) : NULL;
        int64_t thread_id = ka_watched_track_id(c->s->trace, i);
        if (track.count && !rows)
            return false;
        for (uint64_t k = 0; thread_id >= 0 && k < track.count && !c->no_memory; k++)
            add_sampled_row(c, rows[k], track.process, thread_id);
    }
    return true;
}

static bool add_step_threads(ka_step_contents *c)
{
    const ka_watched *w = ka_dataset_watched(c->s);
    return w && add_step_states(c, w) && (!w->samples || add_step_samples(c));
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_portions(const void *left, const void *right)
{
    const ka_portion *a = left, *b = right;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    return (a->step > b->step) - (a->step < b->step);
}

/* Clears the names of kinds that are summed over all names, sorts, and merges portions of one
 * key and step. */
static void join_contents(ka_step_contents *c)
{
    size_t kept = 0;
    for (size_t i = 0; i < c->portions.count; i++)
        if (kinds[c->portions.data[i].key >> 32].whole)
            c->portions.data[i].key &= ~(uint64_t)UINT32_MAX;
    if (c->portions.count)
        qsort(c->portions.data, c->portions.count, sizeof *c->portions.data, compare_portions);
    for (size_t i = 0; i < c->portions.count; i++) {
        ka_portion *last = kept ? &c->portions.data[kept - 1] : NULL, p = c->portions.data[i];
        if (last && last->key == p.key && last->step == p.step)
            last->ns = ka_add_ns(last->ns, p.ns);
        else
            c->portions.data[kept++] = p;
    }
    c->portions.count = kept;
}

bool ka_step_contents_make(ka_step_contents *c, const ka_dataset *s)
{
    *c = (ka_step_contents){.s = s};
    add_step_work(c);
    bool ok = add_step_slices(c) && add_step_threads(c) && !c->no_memory;
    if (ok)
        join_contents(c);
    return ok;
}

void ka_step_contents_free(ka_step_contents *c)
{
    kb_vec_free(&c->portions);
    kb_intern_free(&c->words);
}

/* ---- names ----------------------------------------------------------------------------------- */

/* Time in the step itself that is in no range of it. */
static bool is_step_itself(const ka_step_contents *c, uint64_t key)
{
    return key >> 32 == KA_CONTENT_RANGE && c->s->slices[first_step(c->s)].name == (uint32_t)key;
}

kineto_string ka_content_text(const ka_step_contents *c, uint64_t key)
{
    uint32_t kind = (uint32_t)(key >> 32), name = (uint32_t)key;
    return kinds[kind].whole          ? kb_string(kinds[kind].whole)
           : is_step_itself(c, key)   ? kb_string("outside of what was recorded")
           : kind == KA_CONTENT_STATE ? kb_intern_get(&c->words, name)
                                      : ka_name(c->s, name);
}

const char *ka_content_kind_text(const ka_step_contents *c, uint64_t key)
{
    return is_step_itself(c, key) ? "host" : kinds[key >> 32].kind;
}

/* A range, function or sample says more than that the thread was running. */
static bool is_named_work(const ka_step_contents *c, uint64_t key)
{
    uint32_t kind = (uint32_t)(key >> 32);
    return kind == KA_CONTENT_OPERATOR || kind == KA_CONTENT_PYTHON || kind == KA_CONTENT_SAMPLED ||
           (kind == KA_CONTENT_RANGE && !is_step_itself(c, key));
}

bool ka_content_is_part(const ka_step_contents *c, uint64_t part, uint64_t whole)
{
    uint32_t kind = (uint32_t)(part >> 32), of = (uint32_t)(whole >> 32);
    if (of == KA_CONTENT_KERNELS)
        return kind == KA_CONTENT_KERNEL;
    if (of == KA_CONTENT_STATE)
        return kb_string_is(ka_content_text(c, whole), ka_state_name(KA_STATE_RUNNING)) &&
               is_named_work(c, part);
    return is_step_itself(c, whole) && (kind == KA_CONTENT_STATE || kind == KA_CONTENT_SAMPLED);
}
