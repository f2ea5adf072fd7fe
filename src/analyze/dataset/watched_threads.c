/* Collects the states and sampled functions of watched threads, in one pass over their tracks.
 *
 * The rows of one thread are on two tracks, whose names begin with the same words: "thread 42 (name)"
 * and then ": state" or ": samples". A row of these kinds on another track is of that track's thread. */
#include "analyze/dataset/watched_threads.h"

#include "trace/bytes/json_value.h"

const char *ka_state_name(ka_state_kind state)
{
    static const char *const names[] = {
#define X(name, text) text,
        KA_STATES(X)
#undef X
    };
    return state < KA_STATE_COUNT ? names[state] : "";
}

typedef struct collecting {
    ka_watched *w;
    const kineto_trace *t;
    kb_map threads, functions, all_functions, blocked, all_blocked, cpus;
    uint32_t track;  /* under way … */
    uint32_t thread; /* … and its thread; UINT32_MAX: not looked for yet */
    kineto_kind kind; /* of rows under way */
    bool no_memory;
} collecting;

#define WATCHED_KINDS                                                                              \
    (KINETO_KIND_BIT(KINETO_KIND_THREAD_STATE) | KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE))

/* ---- threads --------------------------------------------------------------------------------- */

/* The name of a track without what the track shows of its thread. */
static kineto_string strip_row_name(kineto_string name)
{
    static const char *const endings[] = {": state", ": samples"};
    for (size_t i = 0; i < KB_COUNT(endings); i++) {
        size_t size = strlen(endings[i]);
        if (name.size > size && memcmp(name.data + name.size - size, endings[i], size) == 0)
            return (kineto_string){name.data, name.size - size};
    }
    return name;
}

/* The number in "thread 42 …", or "state 42" of a track without a name of its own. */
int64_t ka_watched_id(kineto_string name)
{
    static const char *const beginnings[] = {"thread ", "state ", "samples "};
    for (size_t i = 0; i < KB_COUNT(beginnings); i++) {
        size_t at = strlen(beginnings[i]);
        int64_t id = 0;
        if (!kb_string_starts_with(name, beginnings[i]) || at == name.size)
            continue;
        for (; at < name.size && kb_is_digit(name.data[at]) && id < INT64_MAX / 100; at++)
            id = 10 * id + (name.data[at] - '0');
        return at == name.size || name.data[at] == ' ' || name.data[at] == ':' ? id : -1;
    }
    return -1;
}

int64_t ka_watched_track_id(const kineto_trace *trace, uint32_t track)
{
    kineto_track t;
    kineto_trace_track(trace, track, &t);
    int64_t id = ka_watched_id(t.name);
    if (id < 0)
        id = ka_watched_id(kt_track_text_of(trace, track));
    return id < 0 && t.type == KINETO_TRACK_THREAD ? t.id : id;
}

/* The place of a thread in a map: threads without an id are those of their tracks. */
static uint64_t thread_key(uint32_t process, int64_t id, uint32_t track)
{
    return id < 0 ? (uint64_t)track << 1 | 1
                  : ((uint64_t)process << 40 ^ (uint64_t)id) << 1;
}

/* The thread of the track under way, new if it is the first track of it. */
static ka_watched_thread *thread_of_track(collecting *c)
{
    kineto_track track;
    bool created;
    if (c->thread != UINT32_MAX)
        return &c->w->threads.data[c->thread];
    kineto_trace_track(c->t, c->track, &track);
    kineto_string text = kt_track_text_of(c->t, c->track);
    int64_t id = ka_watched_track_id(c->t, c->track);
    uint64_t *at = kb_map_insert(&c->threads, thread_key(track.process, id, c->track) + 1,
                                 c->w->threads.count, &created);
    /* States of one id on two tracks: threads that were recorded by themselves. */
    if (at && !created && c->kind == KINETO_KIND_THREAD_STATE && c->w->threads.data[*at].count)
        at = kb_map_insert(&c->threads, thread_key(0, -1, c->track) + 1, c->w->threads.count,
                           &created);
    ka_watched_thread fresh = {.process = track.process,
                               .track = c->track,
                               .id = id,
                               .name = strip_row_name(track.name.size ? track.name : text)};
    if (!at || (created && !kb_vec_push(&c->w->threads, fresh))) {
        c->no_memory = true;
        return NULL;
    }
    c->thread = (uint32_t)*at;
    return &c->w->threads.data[c->thread];
}

/* ---- states ---------------------------------------------------------------------------------- */

static uint32_t intern_arg(collecting *c, kineto_row row, const char *key)
{
    kineto_arg arg;
    if (!kineto_args_find(c->t, row, key, &arg) || arg.type != KINETO_ARG_STRING)
        return 0;
    uint32_t id = kb_intern_id(&c->w->texts, arg.text);
    c->no_memory |= id == KB_INTERN_NONE;
    return c->no_memory ? 0 : id;
}

static int64_t number_of_arg(const collecting *c, kineto_row row, const char *key, int64_t without)
{
    kineto_arg arg;
    if (!kineto_args_find(c->t, row, key, &arg))
        return without;
    return arg.type == KINETO_ARG_UINT ? (int64_t)KB_MIN(arg.u, (uint64_t)INT64_MAX)
           : arg.type == KINETO_ARG_INT ? arg.i
                                        : without;
}

/* Saturating: times come from files. */
static int64_t sum_ns(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static void extend_window(ka_watched *w, const kineto_activity *a)
{
    bool is_first = !w->states.count && !w->samples;
    w->start_ns = is_first ? a->start_ns : KB_MIN(w->start_ns, a->start_ns);
    w->end_ns = is_first ? a->end_ns : KB_MAX(w->end_ns, a->end_ns);
}

static ka_state_kind parse_state(kineto_string name)
{
    uint32_t state = 0;
    while (state < KA_STATE_COUNT &&
           !kb_string_equal(name, kb_string(ka_state_name((ka_state_kind)state))))
        state++;
    return (ka_state_kind)state;
}

static void count_cpu(collecting *c, int32_t cpu)
{
    bool created;
    if (cpu < 0)
        return;
    c->no_memory |= !kb_map_insert(&c->cpus, (uint64_t)cpu + 1, 0, &created);
    c->w->cpus += !c->no_memory && created;
}

static void add_state(collecting *c, kineto_row row, const kineto_activity *a)
{
    ka_state_kind state = parse_state(kineto_trace_string(c->t, a->name_id));
    ka_watched_thread *t = state < KA_STATE_COUNT ? thread_of_track(c) : NULL;
    if (!t)
        return;
    int64_t cpu = state == KA_STATE_RUNNING ? number_of_arg(c, row, "cpu", -1) : -1;
    ka_state s = {.start_ns = a->start_ns,
                  .end_ns = KB_MAX(a->end_ns, a->start_ns),
                  .row = row,
                  .in = state == KA_STATE_BLOCKED ? intern_arg(c, row, "in") : 0,
                  .cpu = cpu >= 0 && cpu <= INT32_MAX ? (int32_t)cpu : -1,
                  .state = (uint8_t)state};
    extend_window(c->w, a);
    count_cpu(c, s.cpu);
    if (!t->count++) {
        t->first = (uint32_t)c->w->states.count;
        t->track = c->track;
    }
    int64_t ns = kb_length_ns(s.start_ns, s.end_ns);
    t->ns[state] = sum_ns(t->ns[state], ns);
    t->longest_ns[state] = KB_MAX(t->longest_ns[state], ns);
    t->times[state]++;
    c->no_memory |= !kb_vec_push(&c->w->states, s);
}

/* ---- where threads were blocked -------------------------------------------------------------- */

/* Adds to the sum of a function: that of one thread, or with UINT32_MAX of all. */
static void add_blocked_to(collecting *c, const ka_state *s, uint32_t thread)
{
    bool of_all = thread == UINT32_MAX, created;
    uint64_t key = ((uint64_t)(of_all ? 0 : thread) << 32 | s->in) + 1;
    size_t count = of_all ? c->w->blocked_of_all.count : c->w->blocked.count;
    uint64_t *at = kb_map_insert(of_all ? &c->all_blocked : &c->blocked, key, count, &created);
    ka_blocked fresh = {.function = s->in, .thread = thread};
    c->no_memory |= !at || (created && !(of_all ? kb_vec_push(&c->w->blocked_of_all, fresh)
                                                : kb_vec_push(&c->w->blocked, fresh)));
    if (c->no_memory)
        return;
    ka_blocked *b = of_all ? &c->w->blocked_of_all.data[*at] : &c->w->blocked.data[*at];
    int64_t ns = kb_length_ns(s->start_ns, s->end_ns);
    b->count++;
    b->ns = sum_ns(b->ns, ns);
    b->longest_ns = KB_MAX(b->longest_ns, ns);
}

static void add_all_blocked(collecting *c)
{
    for (uint32_t i = 0; i < c->w->threads.count; i++)
        for (uint32_t k = 0; k < c->w->threads.data[i].count && !c->no_memory; k++) {
            const ka_state *s = &c->w->states.data[c->w->threads.data[i].first + k];
            if (!s->in)
                continue;
            add_blocked_to(c, s, i);
            add_blocked_to(c, s, UINT32_MAX);
        }
}

/* ---- sampled functions ----------------------------------------------------------------------- */

/* A function of one thread, or with UINT32_MAX of all. NULL: out of memory. */
static ka_sampled *find_sampled(collecting *c, uint32_t name, uint32_t module, uint32_t thread)
{
    bool of_all = thread == UINT32_MAX, created;
    uint64_t id = (uint64_t)name << 32 | module;
    uint64_t key = kb_hash_seeded(of_all ? 0 : thread + UINT64_C(1), &id, sizeof id) | 1;
    size_t count = of_all ? c->w->of_all.count : c->w->functions.count;
    ka_sampled fresh = {.name = name, .module = module, .thread = thread, .row = KINETO_NO_ROW};
    for (;; key += 2) { /* the next key if another function has the same hash */
        uint64_t *at =
            kb_map_insert(of_all ? &c->all_functions : &c->functions, key, count, &created);
        c->no_memory |= !at || (created && !(of_all ? kb_vec_push(&c->w->of_all, fresh)
                                                    : kb_vec_push(&c->w->functions, fresh)));
        if (c->no_memory)
            return NULL;
        ka_sampled *f = of_all ? &c->w->of_all.data[*at] : &c->w->functions.data[*at];
        if (f->name == name && f->module == module && f->thread == thread)
            return f;
    }
}

/* Is a function with this name around the row? Then its time is counted there already. */
static bool is_recursive(const kineto_trace *trace, kineto_row row, uint32_t name)
{
    kineto_activity a;
    for (row = kineto_trace_parent(trace, row); row != KINETO_NO_ROW;
         row = kineto_trace_parent(trace, row)) {
        kineto_trace_get(trace, row, &a);
        if (a.name_id == name)
            return true;
    }
    return false;
}

/* What a sampled range adds to its function and takes from its caller's own time. */
static void add_sampled_to(collecting *c, const ka_sampled *add, const ka_sampled *caller,
                           uint32_t thread)
{
    ka_sampled *f = find_sampled(c, add->name, add->module, thread);
    if (!f)
        return;
    f->samples += add->samples;
    f->own_samples += (int64_t)add->samples;
    if (f->row == KINETO_NO_ROW || add->self_ns > f->longest_ns) {
        f->longest_ns = add->self_ns;
        f->row = add->row;
    }
    f->self_ns = sum_ns(f->self_ns, add->self_ns);
    f->total_ns = sum_ns(f->total_ns, add->total_ns);
    f = caller ? find_sampled(c, caller->name, caller->module, thread) : NULL;
    if (!f)
        return;
    f->self_ns -= add->self_ns;
    f->own_samples -= (int64_t)add->samples;
}

static void add_sample(collecting *c, kineto_row row, const kineto_activity *a)
{
    ka_watched_thread *t = thread_of_track(c);
    kineto_row parent = kineto_trace_parent(c->t, row);
    kineto_activity around = {.kind = KINETO_KIND_COUNT};
    if (!t)
        return;
    if (parent != KINETO_NO_ROW)
        kineto_trace_get(c->t, parent, &around);
    bool has_caller = around.kind == KINETO_KIND_CPU_SAMPLE;
    int64_t samples = kb_max_i64(number_of_arg(c, row, "samples", 0), 0),
            cpu_ns = kb_max_i64(number_of_arg(c, row, "cpu_ns", 0), 0);
    ka_sampled add = {.name = a->name_id,
                      .module = intern_arg(c, row, "module"),
                      .samples = (uint64_t)samples,
                      .row = row,
                      .self_ns = cpu_ns,
                      .total_ns = is_recursive(c->t, row, a->name_id) ? 0 : cpu_ns};
    ka_sampled caller = {.name = around.name_id,
                         .module = has_caller ? intern_arg(c, parent, "module") : 0};
    extend_window(c->w, a);
    add_sampled_to(c, &add, has_caller ? &caller : NULL, c->thread);
    add_sampled_to(c, &add, has_caller ? &caller : NULL, UINT32_MAX);
    if (has_caller)
        return;
    t->samples += add.samples;
    c->w->samples += add.samples;
    c->w->sampled_ns = sum_ns(c->w->sampled_ns, cpu_ns);
}

/* ---- no more than threads ran ---------------------------------------------------------------- */

static int64_t scale_ns(int64_t ns, double factor) { return (int64_t)((double)ns * factor); }

/* Scales a function of one thread, and takes the difference from the function of all threads. */
static void scale_function(collecting *c, size_t index, double factor)
{
    ka_sampled *f = &c->w->functions.data[index];
    ka_sampled *all = find_sampled(c, f->name, f->module, UINT32_MAX);
    int64_t self_ns = scale_ns(f->self_ns, factor), total_ns = scale_ns(f->total_ns, factor);
    if (!all)
        return;
    all->self_ns -= f->self_ns - self_ns;
    all->total_ns -= f->total_ns - total_ns;
    c->w->sampled_ns -= f->self_ns - self_ns;
    f->self_ns = self_ns;
    f->total_ns = total_ns;
    f->longest_ns = scale_ns(f->longest_ns, factor);
}

static void cap_sampled_time(collecting *c)
{
    ka_watched *w = c->w;
    double *sampled = calloc(w->threads.count + 1, sizeof *sampled);
    c->no_memory |= !sampled;
    for (size_t i = 0; sampled && i < w->functions.count; i++)
        sampled[w->functions.data[i].thread] += (double)w->functions.data[i].self_ns;
    for (size_t i = 0; sampled && i < w->functions.count && !c->no_memory; i++) {
        const ka_watched_thread *t = &w->threads.data[w->functions.data[i].thread];
        double ran = (double)t->ns[KA_STATE_RUNNING], stands_for = sampled[w->functions.data[i].thread];
        if (ran > 0 && stands_for > ran)
            scale_function(c, i, ran / stands_for);
    }
    free(sampled);
}

bool ka_is_in_kernel(const ka_watched *w, const ka_sampled *s)
{
    return kb_string_is(ka_watched_text(w, s->module), "[kernel]") ||
           kb_string_is(kineto_trace_string(w->trace, s->name), "[kernel]");
}

/* ---- all of it ------------------------------------------------------------------------------- */

static int compare_sampled(const void *left, const void *right)
{
    const ka_sampled *a = left, *b = right;
    if (a->self_ns != b->self_ns)
        return a->self_ns > b->self_ns ? -1 : 1;
    if (a->total_ns != b->total_ns)
        return a->total_ns > b->total_ns ? -1 : 1;
    if (a->name != b->name)
        return KB_COMPARE(a->name, b->name);
    return a->module != b->module ? KB_COMPARE(a->module, b->module)
                                  : KB_COMPARE(a->thread, b->thread);
}

static int compare_blocked(const void *left, const void *right)
{
    const ka_blocked *a = left, *b = right;
    if (a->ns != b->ns)
        return a->ns > b->ns ? -1 : 1;
    return a->function != b->function ? KB_COMPARE(a->function, b->function)
                                      : KB_COMPARE(a->thread, b->thread);
}

static void sort_lists(ka_watched *w)
{
    if (w->functions.count)
        qsort(w->functions.data, w->functions.count, sizeof *w->functions.data, compare_sampled);
    if (w->of_all.count)
        qsort(w->of_all.data, w->of_all.count, sizeof *w->of_all.data, compare_sampled);
    if (w->blocked.count)
        qsort(w->blocked.data, w->blocked.count, sizeof *w->blocked.data, compare_blocked);
    if (w->blocked_of_all.count)
        qsort(w->blocked_of_all.data, w->blocked_of_all.count, sizeof *w->blocked_of_all.data,
              compare_blocked);
}

/* Blocks know the kinds of their rows: most traces have none of these. */
static bool has_watched_rows(const kineto_trace *t)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++)
        if (kt_block_at(t, b)->kinds & WATCHED_KINDS)
            return true;
    return false;
}

/* Rows of a track of two kinds: states first, so that those of a thread follow one another. */
static void add_track(collecting *c, uint32_t track, const kineto_row *rows, uint64_t count,
                      kineto_kind kind)
{
    c->track = track;
    c->thread = UINT32_MAX;
    c->kind = kind;
    for (uint64_t i = 0; i < count && !c->no_memory; i++) {
        const kt_block *block = kt_block_at(c->t, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS;
        kineto_activity a;
        if (block->kind[at] != kind || block->form[at] != KINETO_FORM_SLICE)
            continue;
        kineto_trace_get(c->t, rows[i], &a);
        if (kind == KINETO_KIND_THREAD_STATE)
            add_state(c, rows[i], &a);
        else
            add_sample(c, rows[i], &a);
    }
}

static void add_all_tracks(collecting *c)
{
    for (uint32_t i = 0; i < kineto_trace_track_count(c->t) && !c->no_memory; i++) {
        kineto_track track;
        kineto_trace_track(c->t, i, &track);
        const kineto_row *rows = track.count ? kineto_trace_track_rows(c->t, i) : NULL;
        c->no_memory |= track.count && !rows;
        if (!rows)
            continue;
        add_track(c, i, rows, track.count, KINETO_KIND_THREAD_STATE);
        add_track(c, i, rows, track.count, KINETO_KIND_CPU_SAMPLE);
    }
}

bool ka_watched_make(const kineto_trace *trace, ka_watched *out)
{
    *out = (ka_watched){.trace = trace};
    collecting c = {.w = out, .t = trace};
    if (!has_watched_rows(trace))
        return true;
    add_all_tracks(&c);
    if (!c.no_memory)
        add_all_blocked(&c);
    if (!c.no_memory)
        cap_sampled_time(&c);
    sort_lists(out);
    kb_map_free(&c.threads);
    kb_map_free(&c.functions);
    kb_map_free(&c.all_functions);
    kb_map_free(&c.blocked);
    kb_map_free(&c.all_blocked);
    kb_map_free(&c.cpus);
    return !c.no_memory;
}

void ka_watched_free(ka_watched *w)
{
    kb_vec_free(&w->threads);
    kb_vec_free(&w->states);
    kb_vec_free(&w->functions);
    kb_vec_free(&w->of_all);
    kb_vec_free(&w->blocked);
    kb_vec_free(&w->blocked_of_all);
    kb_intern_free(&w->texts);
    *w = (ka_watched){0};
}

/* ---- queries --------------------------------------------------------------------------------- */

uint32_t ka_watched_find(const ka_watched *w, uint32_t process, int64_t id)
{
    for (uint32_t i = 0; i < w->threads.count; i++)
        if (w->threads.data[i].process == process && w->threads.data[i].id == id)
            return i;
    return UINT32_MAX;
}

uint32_t ka_watched_state_after(const ka_watched *w, uint32_t thread, int64_t ns)
{
    const ka_watched_thread *t = &w->threads.data[thread];
    uint32_t at = t->first;
    KB_LOWER_BOUND(at, t->first + t->count, w->states.data[at].end_ns <= ns);
    return at;
}
