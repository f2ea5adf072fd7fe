/* What the threads of one trace did, for a comparison: CPU time of sampled functions, calls in which
 * threads wait (for locks, files, peers, time and each other, also in MPI and OpenMP), their other states,
 * imbalance of OpenMP regions, and ranges and functions of Python of programs without operators.
 *
 * Time of a thread counts once among functions, calls and states: of nested calls the outermost counts,
 * samples and states inside of a call belong to the call, and running threads that are sampled count by
 * their functions. Regions, ranges and Python functions are other views of the same time. */
#include "analyze/diff/diff.h"

#include "analyze/dataset/blocking_calls.h"

#define MAX_NAME     400u
#define MAX_NESTED   64 /* steps that may be open at once; more are not looked at */

typedef struct collector {
    ka_side *side;
    const ka_watched *w;
    ka_blocking_calls calls; /* outermost ones */
    uint8_t *has_steps;      /* by process */
    uint8_t *is_in_call;     /* by row: of samples */
    kb_map things;           /* by key: things */
    kb_intern keys;
    kb_map lock_names; /* by process and address: ids in lock_texts */
    kb_intern lock_texts;
} collector;

/* A part of the time of a thread. */
typedef struct piece {
    kineto_row row;
    uint32_t process;
    int64_t start_ns, end_ns;
    double us;
    int64_t count;
} piece;

const char *ka_threads_family_name(uint8_t family)
{
    static const char *const names[] = {
        [KA_THREADS_FUNCTION] = "function",     [KA_THREADS_CALL] = "call",
        [KA_THREADS_LOCK] = "lock",             [KA_THREADS_STATE] = "state",
        [KA_THREADS_IMBALANCE] = "imbalance",   [KA_THREADS_REGION] = "parallel region",
        [KA_THREADS_RANGE] = "range",           [KA_THREADS_PYTHON] = "Python function"};
    return family < KB_COUNT(names) ? names[family] : "";
}

/* ---- things ---------------------------------------------------------------------------------- */

/* The thing of a family and name, created when it is first met; KA_NONE: out of memory. */
static uint32_t find_thread_thing(collector *c, uint8_t family, kineto_string name,
                                  kineto_string detail)
{
    char key[MAX_NAME + 1];
    ka_side *side = c->side;
    name.size = KB_MIN(name.size, MAX_NAME);
    key[0] = (char)family;
    memcpy(key + 1, name.data, name.size);
    uint32_t thing = ka_find_thing(side, &c->keys, &c->things, (kineto_string){key, name.size + 1},
                                   KA_THING_THREADS, name, detail);
    if (thing != KA_NONE)
        side->things.data[thing].family = family;
    return thing;
}

/* Adds the share of a piece that is within a step; false: the step is not compared. */
static bool add_to_step(collector *c, ka_thing *x, const piece *p, const ka_step *step, uint32_t index)
{
    int32_t block = c->side->block_of[index];
    int64_t start_ns = KB_MAX(p->start_ns, step->start_ns), end_ns = KB_MIN(p->end_ns, step->end_ns);
    bool is_instant = p->end_ns <= p->start_ns;
    if (block < 0 || (is_instant ? step->end_ns <= p->start_ns : end_ns <= start_ns))
        return false;
    double share = is_instant ? 1
                              : (double)kb_length_ns(start_ns, end_ns) /
                                    (double)kb_length_ns(p->start_ns, p->end_ns);
    c->side->values.data[x->values + (uint32_t)block] += p->us * share;
    return true;
}

/* Spreads a piece over the steps of its process; a process without any has the steps of the program. */
static bool add_to_steps(collector *c, ka_thing *x, const piece *p)
{
    const ka_step *steps = c->side->m.dataset.steps;
    uint32_t count = c->side->m.dataset.step_count, first = 0;
    bool own = c->has_steps[p->process], any = false;
    if (!own && c->side->rank_count > 1)
        return false;
    KB_LOWER_BOUND(first, count, steps[first].start_ns <= p->start_ns);
    for (uint32_t i = first > MAX_NESTED ? first - MAX_NESTED : 0;
         i < count && (steps[i].start_ns < p->end_ns || i < first); i++)
        if (!own || steps[i].process == p->process)
            any |= add_to_step(c, x, p, &steps[i], i);
    return any;
}

/* False: the steps that it is in are not compared. */
static bool add_piece(collector *c, uint32_t thing, const piece *p)
{
    if (thing == KA_NONE)
        return false;
    ka_thing *x = &c->side->things.data[thing];
    if (c->side->no_steps) {
        if (ka_block_at(c->side, p->row, -1) < 0)
            return false;
        c->side->values.data[x->values] += p->us;
    } else if (!add_to_steps(c, x, p)) {
        return false;
    }
    x->sum += p->us;
    x->squares += p->us * p->us;
    x->count += (uint64_t)p->count;
    return true;
}

/* ---- sampled functions ----------------------------------------------------------------------- */

/* How much of a span of a thread is in its calls. */
static int64_t in_calls_ns(const collector *c, uint32_t process, int64_t id, int64_t start_ns,
                           int64_t end_ns)
{
    int64_t ns = 0;
    for (size_t i = ka_blocking_call_after(&c->calls, process, id, start_ns);
         ka_blocking_call_is_of(&c->calls, i, process, id) &&
         c->calls.list.data[i].start_ns < end_ns;
         i++)
        ns = ka_add_ns(ns, kb_length_ns(KB_MAX(c->calls.list.data[i].start_ns, start_ns),
                                        KB_MIN(c->calls.list.data[i].end_ns, end_ns)));
    return ns;
}

static kineto_string find_text_arg(const kineto_trace *t, kineto_row row, const char *key)
{
    kineto_arg arg;
    bool has = kineto_args_find(t, row, key, &arg) && arg.type == KINETO_ARG_STRING;
    return has ? arg.text : (kineto_string){"", 0};
}

/* An address, "0x5581", or one in a module, "libm.so+0x12". */
static bool is_address(kineto_string name)
{
    return !name.size || kb_string_starts_with(name, "0x") || kb_string_contains(name, "+0x");
}

/* Addresses without a name differ from build to build: they are one for each module. */
static uint32_t find_function(collector *c, kineto_row row, const kineto_activity *a)
{
    char text[MAX_NAME];
    kineto_string module = find_text_arg(c->w->trace, row, "module"), name = a->name;
    for (size_t i = module.size; i-- > 0;)
        if (module.data[i] == '/') {
            module = (kineto_string){module.data + i + 1, module.size - i - 1};
            break;
        }
    if (is_address(name)) {
        (void)kb_snprintf(text, sizeof text, "without a name%s%.*s", module.size ? " in " : "",
                          (int)KB_MIN(module.size, (size_t)200), module.data);
        name = kb_string(text);
    }
    return find_thread_thing(c, KA_THREADS_FUNCTION, name, module);
}

/* A range of samples is in a call if so much of it is: it may begin at the last sample before. That of a caller
 * contains several calls, and what is in between. */
#define IN_CALL 0.9

/* Adds the CPU time of a sampled range to its function, and takes it from that of its caller. */
static void add_sampled_range(collector *c, uint32_t process, int64_t id, kineto_row row)
{
    const kineto_trace *t = c->w->trace;
    kineto_activity a, around = {.kind = KINETO_KIND_COUNT};
    int64_t samples = 0, cpu_ns = 0;
    kineto_trace_get(t, row, &a);
    kineto_row parent = kineto_trace_parent(t, row);
    if (parent != KINETO_NO_ROW)
        kineto_trace_get(t, parent, &around);
    bool has_caller = around.kind == KINETO_KIND_CPU_SAMPLE;
    (void)ka_arg_int(t, row, "samples", &samples);
    (void)ka_arg_int(t, row, "cpu_ns", &cpu_ns);
    piece p = {row, process, a.start_ns, a.end_ns, ka_us(KB_MAX(cpu_ns, 0)), KB_MAX(samples, 0)};
    bool is_within = has_caller && c->is_in_call[parent];
    double in_calls = (double)in_calls_ns(c, process, id, a.start_ns, a.end_ns);
    c->is_in_call[row] =
        is_within || in_calls > IN_CALL * (double)kb_length_ns(a.start_ns, a.end_ns);
    if (!c->is_in_call[row])
        (void)add_piece(c, find_function(c, row, &a), &p);
    if (!has_caller || is_within)
        return;
    p.us = -p.us;
    p.count = -p.count;
    (void)add_piece(c, find_function(c, parent, &around), &p);
}

static void add_track_samples(collector *c, uint32_t index)
{
    kineto_track track;
    kineto_trace_track(c->w->trace, index, &track);
    const kineto_row *rows = track.count ? kineto_trace_track_rows(c->w->trace, index) : NULL;
    int64_t id = ka_watched_track_id(c->w->trace, index);
    c->side->no_memory |= track.count && !rows;
    for (uint64_t i = 0; rows && i < track.count && !c->side->no_memory; i++) {
        const kt_block *block = kt_block_at(c->w->trace, rows[i] / KT_BLOCK_ROWS);
        uint32_t at = rows[i] % KT_BLOCK_ROWS;
        if (block->kind[at] == KINETO_KIND_CPU_SAMPLE && block->form[at] == KINETO_FORM_SLICE)
            add_sampled_range(c, track.process, id, rows[i]);
    }
}

static void add_sampled_functions(collector *c)
{
    if (!c->w->samples)
        return;
    c->side->known_families |= 1u << KA_THREADS_FUNCTION;
    c->side->sample_us = ka_us(c->w->sampled_ns) / (double)c->w->samples;
    c->is_in_call = calloc((size_t)kineto_trace_count(c->w->trace) + 1, 1);
    c->side->no_memory |= !c->is_in_call;
    for (uint32_t i = 0; i < kineto_trace_track_count(c->w->trace) && !c->side->no_memory; i++)
        add_track_samples(c, i);
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Only the outermost of nested calls stay. */
static void keep_outermost_calls(ka_blocking_calls *calls)
{
    size_t kept = 0;
    for (size_t i = 0; i < calls->list.count; i++) {
        const ka_blocking_call *call = &calls->list.data[i],
                               *last = kept ? &calls->list.data[kept - 1] : NULL;
        if (!last || last->process != call->process || last->thread_id != call->thread_id ||
            call->end_ns > last->end_ns)
            calls->list.data[kept++] = *call;
    }
    calls->list.count = kept;
}

static bool is_any_of(kineto_string text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (kb_string_contains(text, words[i]))
            return true;
    return false;
}

/* Does a thread wait there for another one, which may be the cause? */
static bool waits_for_others(const kineto_activity *a, kineto_string file)
{
    static const char *const names[] = {"join",   "cond_",  "cnd_",   "barrier", "sem_",  "futex",
                                        "wait",   "poll",   "select", "accept",  "recv",  "MPI_"},
                             *const peers[] = {"pipe:", "tcp ", "unix ", "udp "};
    bool is_start_of_peer = false;
    for (size_t i = 0; i < KB_COUNT(peers); i++)
        is_start_of_peer |= kb_string_starts_with(file, peers[i]);
    return is_start_of_peer || a->kind != KINETO_KIND_BLOCKING_CALL ||
           is_any_of(a->name, names, KB_COUNT(names));
}

/* ka_lock_name, looked up once for each address, and copied. */
static kineto_string name_lock(collector *c, uint32_t process, uint64_t address)
{
    uint64_t about[2] = {process, address};
    bool created;
    uint64_t *id = kb_map_insert(&c->lock_names, kb_hash(about, sizeof about), 0, &created);
    if (id && created)
        *id = kb_intern_id(&c->lock_texts, ka_lock_name(c->w->trace, process, address));
    c->side->no_memory |= !id || *id == KB_INTERN_NONE;
    return c->side->no_memory ? (kineto_string){"", 0} : kb_intern_get(&c->lock_texts, (uint32_t)*id);
}

/* The thing of a call: a lock, or a function with its file, peer or lock. */
static uint32_t find_call(collector *c, const ka_blocking_call *call, const kineto_activity *a)
{
    char text[MAX_NAME];
    int64_t address = 0, holder;
    kineto_string object = find_text_arg(c->w->trace, call->row, "file");
    bool has_address = ka_arg_int(c->w->trace, call->row, "address", &address),
         is_lock = has_address && ka_arg_int(c->w->trace, call->row, "holder", &holder);
    if (has_address) {
        object = name_lock(c, call->process, (uint64_t)address);
        if (is_lock && !object.size)
            object = kb_string("without a name");
    }
    kineto_string function = is_lock ? kb_string("lock") : a->name;
    (void)kb_snprintf(text, sizeof text, "%.*s%s%.*s", (int)KB_MIN(function.size, (size_t)100),
                      function.data, object.size ? " " : "",
                      (int)KB_MIN(object.size, (size_t)250), object.data);
    uint32_t thing = find_thread_thing(c, is_lock ? KA_THREADS_LOCK : KA_THREADS_CALL,
                                       kb_string(text), is_lock ? a->name : (kineto_string){"", 0});
    if (thing != KA_NONE)
        c->side->things.data[thing].is_effect = !is_lock && waits_for_others(a, object);
    return thing;
}

static void add_calls(collector *c)
{
    kineto_string name, value;
    for (uint32_t i = 0; kineto_trace_metadata(c->w->trace, i, &name, &value); i++)
        if (kb_string_equal(name, kb_string("ckineto_waits_threshold_us")))
            c->side->known_families |= 1u << KA_THREADS_CALL | 1u << KA_THREADS_LOCK;
    if (c->calls.list.count)
        c->side->known_families |= 1u << KA_THREADS_CALL | 1u << KA_THREADS_LOCK;
    for (size_t i = 0; i < c->calls.list.count && !c->side->no_memory; i++) {
        const ka_blocking_call *call = &c->calls.list.data[i];
        kineto_activity a;
        kineto_trace_get(c->w->trace, call->row, &a);
        piece p = {call->row, call->process, call->start_ns, call->end_ns,
                   ka_us(kb_length_ns(call->start_ns, call->end_ns)), 1};
        uint32_t thing = find_call(c, call, &a);
        if (add_piece(c, thing, &p))
            ka_add_call(c->side, thing, p.us);
    }
}

/* Calls that were only counted. Their sums are of the whole run, not of steps. */
static void add_short_calls(collector *c)
{
    const ka_table *t = &c->side->m.facts->tables[KA_TABLE_blocking_calls];
    const kineto_string below = kb_string("(below the threshold)");
    for (uint64_t row = 0; c->side->no_steps && row < ka_table_rows(t); row++) {
        char text[MAX_NAME];
        kineto_string name = ka_text_at(t, row, KA_COL_blocking_calls_function);
        if (!kb_string_equal(ka_text_at(t, row, KA_COL_blocking_calls_object), below))
            continue;
        (void)kb_snprintf(text, sizeof text, "%.*s %s", (int)KB_MIN(name.size, (size_t)200),
                          name.data, below.data);
        uint32_t thing =
            find_thread_thing(c, KA_THREADS_CALL, kb_string(text), (kineto_string){"", 0});
        piece p = {.row = (kineto_row)ka_cell_at(t, row, KA_COL_blocking_calls_row).i,
                   .us = ka_us(ka_cell_at(t, row, KA_COL_blocking_calls_sum_us).i),
                   .count = ka_cell_at(t, row, KA_COL_blocking_calls_count).i};
        if (thing != KA_NONE)
            c->side->things.data[thing].squares = (double)NAN; /* one sum of many */
        (void)add_piece(c, thing, &p);
    }
}

/* ---- states ---------------------------------------------------------------------------------- */

/* The name of a thread without its number, which differs from run to run; that of the main thread is the
 * program's, which may be another file. */
static kb_text name_of_thread(const collector *c, const ka_watched_thread *t)
{
    kb_text text = {"threads without a name"};
    kineto_process p;
    kineto_string name = t->name;
    kineto_trace_process(c->w->trace, t->process, &p);
    size_t from = 0;
    while (from < name.size && name.data[from] != '(')
        from++;
    if (t->id >= 0 && t->id == p.pid)
        return (kb_text){"main thread"};
    if (from + 2 < name.size)
        (void)kb_snprintf(text.s, sizeof text.s, "%.*s", (int)KB_MIN(name.size - from - 2, (size_t)60),
                          name.data + from + 1);
    return text;
}

/* What of a state is not in a call. Running threads that are sampled count by their functions. */
static void add_watched_state(collector *c, const ka_watched_thread *t, const ka_state *s,
                              const char *thread)
{
    char text[MAX_NAME];
    kineto_string in = ka_watched_text(c->w, s->in);
    int64_t ns = kb_length_ns(s->start_ns, s->end_ns) -
                 in_calls_ns(c, t->process, t->id, s->start_ns, s->end_ns);
    if (ns <= 0 || (s->state == KA_STATE_RUNNING && c->w->samples))
        return;
    (void)kb_snprintf(text, sizeof text, "%s%s%.*s, %s", ka_state_name((ka_state_kind)s->state),
                      in.size ? " in " : "", (int)KB_MIN(in.size, (size_t)200), in.data, thread);
    uint32_t thing =
        find_thread_thing(c, KA_THREADS_STATE, kb_string(text), (kineto_string){"", 0});
    piece p = {s->row, t->process, s->start_ns, s->end_ns, ka_us(ns), 1};
    if (thing != KA_NONE)
        c->side->things.data[thing].is_effect = !in.size; /* of other threads and programs */
    (void)add_piece(c, thing, &p);
}

static void add_states(collector *c)
{
    if (c->w->states.count)
        c->side->known_families |= 1u << KA_THREADS_STATE;
    for (uint32_t i = 0; i < c->w->threads.count && !c->side->no_memory; i++) {
        const ka_watched_thread *t = &c->w->threads.data[i];
        kb_text name = name_of_thread(c, t);
        for (uint32_t k = t->first; k < t->first + t->count && !c->side->no_memory; k++)
            add_watched_state(c, t, &c->w->states.data[k], name.s);
    }
}

/* ---- other views ------------------------------------------------------------------------------ */

/* A number of the table of regions, as a thing of the whole run. */
static void add_region_column(collector *c, uint8_t family, uint64_t row, uint32_t column)
{
    const ka_table *t = &c->side->m.facts->tables[KA_TABLE_openmp_regions];
    uint32_t thing = find_thread_thing(c, family, ka_text_at(t, row, KA_COL_openmp_regions_region),
                                       (kineto_string){"", 0});
    piece p = {.us = ka_us(ka_cell_at(t, row, column).i),
               .count = ka_cell_at(t, row, KA_COL_openmp_regions_count).i};
    if (thing == KA_NONE)
        return;
    c->side->things.data[thing].is_effect = family == KA_THREADS_REGION;
    c->side->known_families |= 1u << family;
    (void)add_piece(c, thing, &p);
}

/* How long regions ran, and what they would be shorter if all threads came to their barriers at once. */
static void add_regions(collector *c)
{
    const ka_table *t = &c->side->m.facts->tables[KA_TABLE_openmp_regions];
    for (uint64_t row = 0; c->side->no_steps && !c->side->has_rank && row < ka_table_rows(t); row++) {
        add_region_column(c, KA_THREADS_REGION, row, KA_COL_openmp_regions_sum_us);
        add_region_column(c, KA_THREADS_IMBALANCE, row, KA_COL_openmp_regions_savings_us);
    }
}

/* PyTorch's traces have operators and work; their ranges are those of the tables of operators. */
static bool has_operators(const ka_dataset *s)
{
    for (uint32_t i = 0; i < s->slice_count; i++)
        if (s->slices[i].kind == KINETO_KIND_CPU_OP)
            return true;
    return s->work_count > 0;
}

static bool is_range(const ka_dataset *s, uint32_t i)
{
    return s->slices[i].kind == KINETO_KIND_PYTHON_FUNCTION ||
           (s->slices[i].kind == KINETO_KIND_USER_ANNOTATION && !ka_is_step(s, i));
}

/* A range or function around another one, or itself: its thing. KA_NONE: out of memory. */
static uint32_t find_range(collector *c, const ka_slice *slice)
{
    uint8_t family = slice->kind == KINETO_KIND_PYTHON_FUNCTION ? KA_THREADS_PYTHON : KA_THREADS_RANGE;
    uint32_t thing = find_thread_thing(c, family, ka_name(&c->side->m.dataset, slice->name), (kineto_string){"", 0});
    if (thing != KA_NONE)
        c->side->things.data[thing].is_effect = family == KA_THREADS_RANGE;
    c->side->known_families |= 1u << family;
    return thing;
}

/* The own time of each range is one of its calls. */
static void add_calls_of_ranges(collector *c, const int64_t *own_ns)
{
    const ka_dataset *s = &c->side->m.dataset;
    for (uint32_t i = 0; i < s->slice_count && !c->side->no_memory; i++)
        if (is_range(s, i) && ka_block_at(c->side, s->slices[i].row, s->slices[i].step) >= 0)
            ka_add_call(c->side, find_range(c, &s->slices[i]), ka_us(KB_MAX(own_ns[i], 0)));
}

/* Own times: without ranges and functions inside, which come after what they are in. */
static void add_ranges(collector *c)
{
    const ka_dataset *s = &c->side->m.dataset;
    int64_t *own_ns = calloc((size_t)s->slice_count + 1, sizeof *own_ns);
    c->side->no_memory |= !own_ns;
    for (uint32_t i = 0; i < s->slice_count && !c->side->no_memory; i++) {
        const ka_slice *slice = &s->slices[i];
        uint32_t parent = slice->parent;
        if (!is_range(s, i))
            continue;
        while (parent != KA_NONE && !is_range(s, parent))
            parent = s->slices[parent].parent;
        for (int own = 1; own >= 0; own--) {
            const ka_slice *of = own ? slice : parent == KA_NONE ? NULL : &s->slices[parent];
            piece p = {slice->row, s->threads[slice->thread].process, slice->start_ns, slice->end_ns,
                       (own ? 1 : -1) * ka_us(ka_slice_ns(slice)), own};
            if (!of)
                continue;
            own_ns[of - s->slices] += (own ? 1 : -1) * ka_slice_ns(slice);
            (void)add_piece(c, find_range(c, of), &p);
        }
    }
    if (!c->side->no_memory && c->side->keeps_calls)
        add_calls_of_ranges(c, own_ns);
    free(own_ns);
}

/* ---- the critical path ------------------------------------------------------------------------- */

/* Without what differs from run to run: addresses of locks, numbers of threads. */
static kineto_string strip_path_words(kineto_string words)
{
    static const char *const ends[] = {" 0x", " held by"};
    for (size_t i = 0; i < KB_COUNT(ends); i++) {
        const char *end = memmem(words.data, words.size, ends[i], strlen(ends[i]));
        words.size = end ? (size_t)(end - words.data) : words.size;
    }
    return words;
}

/* The part of the step with this name, made when it is first met. */
static uint32_t find_path_part(ka_side *side, size_t first, kineto_string name)
{
    for (size_t i = first; i < side->things.count; i++)
        if (kb_string_equal(side->things.data[i].name, name))
            return (uint32_t)i;
    char *copy = kb_arena_copy(&side->texts, name.data, name.size);
    side->no_memory |= !copy;
    return copy ? ka_new_thing(side, KA_THING_PART, (kineto_string){copy, name.size},
                               (kineto_string){"", 0})
                : KA_NONE;
}

/* All the time of threads without operators is in the part "other": the critical path through threads divides
 * it, and has the same sum. Not if the window is shorter than the path, as that of a few ranges is. */
bool ka_side_add_path(ka_side *side, uint32_t other)
{
    const ka_table *t = &side->m.facts->tables[KA_TABLE_thread_path];
    size_t first = side->things.count;
    double *rest = &side->values.data[side->things.data[other].values], sum = 0;
    for (uint64_t row = 0; row < ka_table_rows(t); row++)
        sum += ka_us(ka_cell_at(t, row, KA_COL_thread_path_us).i);
    if (!side->no_steps || side->has_rank || sum > *rest)
        return true;
    *rest -= sum;
    for (uint64_t row = 0; row < ka_table_rows(t) && !side->no_memory; row++) {
        kineto_string words = strip_path_words(ka_text_at(t, row, KA_COL_thread_path_thread_was));
        uint32_t part = find_path_part(side, first, words);
        if (part != KA_NONE)
            side->values.data[side->things.data[part].values] +=
                ka_us(ka_cell_at(t, row, KA_COL_thread_path_us).i);
    }
    return !side->no_memory;
}

/* ---- all of it -------------------------------------------------------------------------------- */

#define MIN_PIECES 5u /* fewer calls do not show how much their lengths vary */

/* Of a run without steps, from the parts that a sum is made of: samples come by chance, so the variance of
 * their number is that number; of calls and states the lengths vary. */
static double variance_of(const ka_side *side, const ka_thing *x)
{
    double count = (double)x->count, mean = count > 0 ? x->sum / count : 0;
    if (x->family == KA_THREADS_FUNCTION)
        return side->sample_us * side->sample_us * (count + 1);
    if (count < MIN_PIECES || isnan(x->squares) || x->family > KA_THREADS_STATE)
        return (double)NAN;
    return KB_MAX(x->squares - count * mean * mean, 0) * count / (count - 1);
}

/* Numbers of samples of self time, and self times, are differences: files may have any. */
static void finish_things(ka_side *side, size_t first)
{
    double ranks = side->no_steps ? KB_MAX(side->block_steps[0], 1u) : 1;
    for (size_t i = first; i < side->things.count; i++) {
        ka_thing *x = &side->things.data[i];
        if (x->count > INT64_MAX)
            x->count = 0;
        for (uint32_t b = 0; b < side->block_count; b++)
            side->values.data[x->values + b] = KB_MAX(side->values.data[x->values + b], 0);
        x->variance = variance_of(side, x) / (ranks * ranks);
    }
}

static bool find_processes_with_steps(collector *c)
{
    const ka_dataset *s = &c->side->m.dataset;
    c->has_steps = calloc((size_t)kineto_trace_process_count(s->trace) + 1, 1);
    for (uint32_t i = 0; c->has_steps && i < s->step_count; i++)
        c->has_steps[s->steps[i].process] = 1;
    return c->has_steps != NULL;
}

bool ka_side_add_threads(ka_side *side)
{
    collector c = {.side = side, .w = ka_dataset_watched(&side->m.dataset)};
    size_t first = side->things.count;
    bool ok = c.w && find_processes_with_steps(&c) &&
              ka_blocking_calls_make(side->m.dataset.trace, &c.calls);
    if (ok) {
        keep_outermost_calls(&c.calls);
        add_sampled_functions(&c);
        add_calls(&c);
        add_short_calls(&c);
        add_states(&c);
        add_regions(&c);
        if (!has_operators(&side->m.dataset))
            add_ranges(&c);
        finish_things(side, first);
    }
    ka_blocking_calls_free(&c.calls);
    free(c.has_steps);
    free(c.is_in_call);
    kb_map_free(&c.things);
    kb_intern_free(&c.keys);
    kb_map_free(&c.lock_names);
    kb_intern_free(&c.lock_texts);
    return ok && !side->no_memory;
}
