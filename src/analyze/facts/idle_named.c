/* The tables idle_named, idle_gaps and idle_operators: idle time of devices by reason, the
 * longest gaps with their evidence, and the operators that the launching threads were in. */
#include "analyze/facts/idle.h"


#define MAX_GAPS 20u

/* Idle time of one stream or device. A gap counts once for each of its reasons. */
typedef struct tally {
    uint64_t count[KA_IDLE_COUNT];
    int64_t ns[KA_IDLE_COUNT], longest_ns[KA_IDLE_COUNT], all_ns;
} tally;

/* The longest gaps so far, in no order; `shortest` is the index of the one that the next
 * longer gap replaces. */
typedef struct worst {
    ka_gap gaps[MAX_GAPS];
    uint32_t count, shortest;
} worst;

/* A name inside of other names, as a node of a tree: thus calls of the same operator from the
 * same place share one path. */
typedef struct path {
    uint32_t around, name; /* index of paths; string id */
    uint32_t entry;        /* the last one of it, and one; 0: none */
} path;

/* A row of idle_operators: the idle time of one path for one reason. Entries of a path are a
 * list from the last one back; indexes in it are one more than those of `entries`, since 0
 * ends it. */
typedef struct entry {
    uint32_t path;
    uint32_t before; /* another one of its path, and one; 0: none */
    uint32_t slice;  /* one of them */
    ka_idle reason;
    uint64_t count;
    int64_t ns;
} entry;

/* State of the analysis. tallies has stream_count + device count elements. path_of holds a
 * path + 1, since 0 stands for slices that were not visited yet. paths.data[0] is the path
 * outside of all ranges. */
typedef struct naming {
    ka_idleness idle;
    tally *tallies; /* by stream, then by device */
    bool want_gaps, want_operators;
    ka_idle_states *states; /* NULL: not wanted */
    worst of_streams, of_devices;
    uint32_t *path_of; /* by slice; 0: not asked yet */
    KB_VEC(path) paths;
    uint32_t *path_table; /* index of paths by hash of (around, name); 0: free */
    size_t path_mask;
    uint64_t path_seed;
    KB_VEC(entry) entries;
    bool no_memory;
} naming;

static int64_t gap_ns(const ka_gap *gap) { return kb_length_ns(gap->start_ns, gap->end_ns); }

/* ---- adding up ------------------------------------------------------------------------------- */

static void tally_add(tally *t, const ka_gap *gap)
{
    t->all_ns = ka_add_ns(t->all_ns, gap_ns(gap));
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++) {
        if (!gap->ns[r])
            continue;
        t->count[r] += gap->ns[r] > 0;
        t->ns[r] = ka_add_ns(t->ns[r], gap->ns[r]);
        t->longest_ns[r] = KB_MAX(t->longest_ns[r], gap->ns[r]);
    }
}

/* Replaces the shortest gap of a full list, then finds the new shortest: the list is short, so
 * a heap would not pay. */
static void keep_worst(worst *w, const ka_gap *gap)
{
    KB_ASSERT(w->count <= MAX_GAPS && (!w->count || w->shortest < w->count));
    if (w->count < MAX_GAPS)
        w->gaps[w->count++] = *gap;
    else if (gap_ns(gap) > gap_ns(&w->gaps[w->shortest]))
        w->gaps[w->shortest] = *gap;
    else
        return;
    w->shortest = 0;
    for (uint32_t i = 1; i < w->count; i++)
        if (gap_ns(&w->gaps[i]) < gap_ns(&w->gaps[w->shortest]))
            w->shortest = i;
}

/* ---- operators ------------------------------------------------------------------------------- */

/* Names of steps have their number in them: with them each step would make paths of its own. */
static bool is_step_name(const ka_dataset *s, uint32_t slice)
{
    return s->slices[slice].kind == KINETO_KIND_USER_ANNOTATION && ka_is_step(s, slice);
}

/* Slot of (around, name), or the free one where it belongs; the table is never full. The hash
 * is seeded per process because names come from files: no file can choose which of them
 * collide. */
static uint32_t *path_slot(const naming *n, uint32_t around, uint32_t name)
{
    const uint32_t key[] = {around, name};
    size_t at = (size_t)kb_hash_seeded(n->path_seed, key, sizeof key) & n->path_mask;
    for (; n->path_table[at]; at = (at + 1) & n->path_mask) {
        const path *p = &n->paths.data[n->path_table[at]];
        if (p->around == around && p->name == name)
            break;
    }
    return &n->path_table[at];
}

/* Doubles the table and enters all paths again. False: out of memory; n->path_table is NULL
 * then. */
static bool grow_paths(naming *n)
{
    size_t size = n->path_table ? 2 * (n->path_mask + 1) : 1024;
    free(n->path_table);
    n->path_table = kb_array_zeroed(size, sizeof *n->path_table);
    n->path_mask = size - 1;
    for (uint32_t i = 1; n->path_table && i < n->paths.count; i++)
        *path_slot(n, n->paths.data[i].around, n->paths.data[i].name) = i;
    return n->path_table != NULL;
}

/* Index of the path of `name` inside path `around`, which is made if it is new. 0 (the path
 * outside of all) if memory ran out; n->no_memory is set then. */
static uint32_t path_inside(naming *n, uint32_t around, uint32_t name)
{
    if (!n->no_memory && 2 * n->paths.count > n->path_mask)
        n->no_memory = !grow_paths(n);
    if (n->no_memory)
        return 0;
    uint32_t *slot = path_slot(n, around, name);
    if (*slot)
        return *slot;
    n->no_memory = !kb_vec_push(&n->paths, (path){around, name, 0});
    return n->no_memory ? 0 : (*slot = (uint32_t)n->paths.count - 1);
}

#define MAX_DEPTH 64u
/* Path of an innermost range. Ranges around it are resolved first, with a stack of MAX_DEPTH
 * instead of recursion, as ranges of a file may nest arbitrarily deep; the outermost ones of a
 * deeper nest are left out. */
static uint32_t path_of(naming *n, uint32_t slice)
{
    const ka_slice *slices = n->idle.s->slices;
    uint32_t chain[MAX_DEPTH], depth = 0, at = slice, around = 0;
    while (at != KA_NONE && depth < MAX_DEPTH && !n->path_of[at]) {
        chain[depth++] = at;
        at = slices[at].parent;
    }
    if (at != KA_NONE && n->path_of[at])
        around = n->path_of[at] - 1;
    while (depth-- > 0) {
        at = chain[depth];
        if (!is_step_name(n->idle.s, at))
            around = path_inside(n, around, slices[at].name);
        n->path_of[at] = around + 1;
    }
    return around;
}

/* Slice of the operator that a call is in; without one, of the innermost other range that is
 * not a call of the runtime. KA_NONE: there is neither. */
static uint32_t operator_of(const ka_dataset *s, uint32_t slice)
{
    uint32_t at = slice, other = KA_NONE;
    for (uint32_t depth = 0; at != KA_NONE && depth < MAX_DEPTH;
         at = s->slices[at].parent, depth++) {
        uint32_t kind = s->slices[at].kind;
        if (kind == KINETO_KIND_CPU_OP)
            return at;
        if (other == KA_NONE && kind != KINETO_KIND_RUNTIME && kind != KINETO_KIND_DRIVER)
            other = at;
    }
    return other;
}

/* Entry of path `at` for a reason, made if it is new: a path has at most one for each reason,
 * hence the list is short. `slice` stands for all of them in the table. NULL: out of memory. */
static entry *entry_of(naming *n, uint32_t at, ka_idle reason, uint32_t slice)
{
    uint32_t last = n->paths.data[at].entry;
    for (uint32_t i = last; i; i = n->entries.data[i - 1].before)
        if (n->entries.data[i - 1].reason == reason)
            return &n->entries.data[i - 1];
    entry fresh = {.path = at, .before = last, .slice = slice, .reason = reason};
    if (!kb_vec_push(&n->entries, fresh))
        return NULL;
    n->paths.data[at].entry = (uint32_t)n->entries.count;
    return &n->entries.data[n->entries.count - 1];
}

/* Part callback of ka_idleness_walk; `slice` is KA_NONE outside of every range. */
static void add_part(void *context, uint32_t slice, ka_idle reason, int64_t ns)
{
    naming *n = context;
    uint32_t operator_slice = slice == KA_NONE ? KA_NONE : operator_of(n->idle.s, slice);
    uint32_t at = operator_slice == KA_NONE ? 0 : path_of(n, operator_slice);
    entry *e = n->no_memory ? NULL : entry_of(n, at, reason, operator_slice);
    if (!e) {
        n->no_memory = true;
        return;
    }
    e->count++;
    e->ns = ka_add_ns(e->ns, ns);
}

/* Gap callback of ka_idleness_walk. False, which stops the walk, only if memory ran out. */
static bool add_named_gap(void *context, const ka_gap *gap)
{
    naming *n = context;
    const ka_dataset *s = n->idle.s;
    tally_add(&n->tallies[gap->whole ? s->stream_count + gap->device : s->work[gap->after].stream],
              gap);
    if (n->want_gaps)
        keep_worst(gap->whole ? &n->of_devices : &n->of_streams, gap);
    if (n->states && gap->whole && ka_has_host_states(&n->idle))
        n->no_memory |= !ka_idle_states_add(n->states, &n->idle, gap);
    return !n->no_memory;
}

/* ---- tables ---------------------------------------------------------------------------------- */

/* A row for each reason with time; `stream` is -1 for the whole device. The share is of all
 * idle time of the stream or device. */
static void put_tally(ka_table *t, const ka_dataset *s, int64_t device, int64_t stream,
                      const tally *sums)
{
    for (uint32_t r = 0; r < KA_IDLE_COUNT; r++) {
        if (!sums->ns[r])
            continue;
        ka_put_int(t, s->rank);
        ka_put_int(t, device);
        ka_put_int(t, stream);
        ka_put_text(t, kb_string(ka_idle_name((ka_idle)r)));
        ka_put_int(t, (int64_t)sums->count[r]);
        ka_put_ns(t, sums->ns[r]);
        ka_put_number(t, ka_percent((double)sums->ns[r], (double)sums->all_ns));
        ka_put_ns(t, sums->longest_ns[r]);
    }
}

static void put_totals(const naming *n, ka_table *t)
{
    const ka_dataset *s = n->idle.s;
    for (uint32_t d = 0; d < n->idle.devices.count; d++)
        put_tally(t, s, n->idle.devices.data[d].id, -1, &n->tallies[s->stream_count + d]);
    for (uint32_t i = 0; i < s->stream_count; i++)
        put_tally(t, s, s->streams[i].device, s->streams[i].id, &n->tallies[i]);
    KA_SORT(t, KA_UP(idle_named, rank), KA_UP(idle_named, device), KA_UP(idle_named, stream),
            KA_DOWN(idle_named, idle_us), KA_UP(idle_named, reason));
    if (!n->idle.hosts.launches_known)
        ka_note(
            t, "the trace does not record which calls launched its device work, so the activity of "
               "the host cannot be attributed: record the runtime too");
    else if (!ka_table_rows(t))
        ka_note(t, "devices were never idle between the first work and the last");
}

static void put_gap(naming *n, ka_table *t, const ka_gap *gap)
{
    const ka_dataset *s = n->idle.s;
    char text[800];
    ka_idle reason = ka_gap_reason(gap);
    size_t size = ka_gap_evidence(&n->idle, gap, text, sizeof text);
    ka_put_int(t, s->rank);
    ka_put_int(t, n->idle.devices.data[gap->device].id);
    ka_put_int(t, gap->whole ? -1 : s->streams[s->work[gap->after].stream].id);
    ka_put_ns(t, gap->start_ns);
    ka_put_ns(t, gap_ns(gap));
    ka_put_text(t, kb_string(ka_idle_name(reason)));
    ka_put_number(t, ka_percent((double)gap->ns[reason], (double)gap_ns(gap)));
    ka_put_text(t, ka_name(s, s->work[gap->before].name));
    ka_put_text(t, ka_name(s, s->work[gap->after].name));
    ka_put_text(t, (kineto_string){text, size});
}

static int compare_gaps(const void *left, const void *right)
{
    const ka_gap *a = left, *b = right;
    if (gap_ns(a) != gap_ns(b))
        return gap_ns(a) > gap_ns(b) ? -1 : 1;
    return a->after < b->after ? -1 : a->after > b->after;
}

/* Appends the gaps of `w`, the longest first; sorts them in place. */
static void put_worst(naming *n, ka_table *t, worst *w)
{
    if (w->count)
        qsort(w->gaps, w->count, sizeof *w->gaps, compare_gaps);
    for (uint32_t i = 0; i < w->count; i++)
        put_gap(n, t, &w->gaps[i]);
}

/* "outer;inner" of what is around a path, the innermost kept if it is long. */
static kineto_string stack_text(const naming *n, uint32_t at, char *buf, size_t room)
{
    size_t left = room;
    for (at = n->paths.data[at].around; at; at = n->paths.data[at].around) {
        kineto_string name = ka_name(n->idle.s, n->paths.data[at].name);
        if (name.size + 1 > left)
            break;
        if (left < room)
            buf[--left] = ';';
        left -= name.size;
        if (name.size)
            memcpy(buf + left, name.data, name.size);
    }
    return (kineto_string){buf + left, room - left};
}

/* Most rows have none; a search in the text is faster than a walk over all arguments. */
static bool may_have_stack(const kineto_trace *t, kineto_row row)
{
    if (kt_args_form_of(kt_block_at(t, row / KT_BLOCK_ROWS), row % KT_BLOCK_ROWS) != KT_ARGS_JSON)
        return true;
    return kt_may_have_member(kt_args_text(t, row), "Call stack");
}

static bool find_stack(const kineto_trace *t, kineto_row row, kineto_arg *arg)
{
    return may_have_stack(t, row) && kineto_args_find(t, row, "Call stack", arg) && arg->text.size;
}

static void put_entry(naming *n, ka_table *t, const entry *e)
{
    const ka_dataset *s = n->idle.s;
    char buf[2000];
    kineto_arg arg;
    kineto_string stack = {"", 0};
    ka_put_int(t, s->rank);
    ka_put_text(t, e->path ? ka_name(s, n->paths.data[e->path].name)
                           : kb_string("(outside of every range)"));
    if (e->slice != KA_NONE && find_stack(s->trace, s->slices[e->slice].row, &arg))
        stack = arg.text;
    else
        stack = stack_text(n, e->path, buf, sizeof buf);
    ka_put_text(t, stack);
    ka_put_text(t, kb_string(ka_idle_name(e->reason)));
    ka_put_int(t, (int64_t)e->count);
    ka_put_ns(t, e->ns);
}

static void put_idle_operators(naming *n, ka_table *t)
{
    for (size_t i = 0; i < n->entries.count; i++)
        put_entry(n, t, &n->entries.data[i]);
    KA_SORT(t, KA_DOWN(idle_operators, idle_us), KA_UP(idle_operators, operator),
            KA_UP(idle_operators, stack), KA_UP(idle_operators, reason));
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* Allocates what the wanted tables need and walks over all gaps. naming_free is needed in any
 * case. */
static kineto_status name_all(naming *n, const ka_dataset *s, kineto_error *err)
{
    kineto_status status = ka_idleness_make(&n->idle, s, err);
    if (status)
        return status;
    n->tallies = calloc((size_t)s->stream_count + n->idle.devices.count + 1, sizeof *n->tallies);
    n->path_of =
        n->want_operators ? kb_array_zeroed((size_t)s->slice_count + 1, sizeof *n->path_of) : NULL;
    bool ok = n->tallies && (n->path_of || !n->want_operators) &&
              kb_vec_push(&n->paths, (path){0, 0, 0}) &&
              ka_idleness_walk(&n->idle, add_named_gap, n->want_operators ? add_part : NULL, n);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}

static void naming_free(naming *n)
{
    ka_idleness_free(&n->idle);
    free(n->tallies);
    free(n->path_of);
    kb_vec_free(&n->paths);
    kb_vec_free(&n->entries);
    free(n->path_table);
    ka_idle_states_destroy(n->states);
}

/* Tables idle_named, idle_gaps, idle_operators and idle_states, from one walk over all gaps of streams and
 * devices. */
kineto_status ka_analyze_idle_named(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *totals = ka_table_of(a, KA_TABLE_idle_named),
             *gaps = ka_table_of(a, KA_TABLE_idle_gaps),
             *operators = ka_table_of(a, KA_TABLE_idle_operators),
             *states = ka_table_of(a, KA_TABLE_idle_states);
    naming *n = s->work_count ? calloc(1, sizeof *n) : NULL;
    if (!s->work_count) {
        ka_note_no_device(totals);
        ka_note_no_device(gaps);
        ka_note_no_device(operators);
        ka_note_no_device(states);
        return KINETO_OK;
    }
    if (!n)
        return kb_fail_memory(err, NULL);
    n->path_seed = kb_os_exec_id();
    n->want_gaps = gaps != NULL;
    n->want_operators = operators != NULL;
    n->states = states ? ka_idle_states_create() : NULL;
    kineto_status status =
        states && !n->states ? kb_fail_memory(err, NULL) : name_all(n, s, err);
    if (!status && totals)
        put_totals(n, totals);
    if (!status && gaps) {
        put_worst(n, gaps, &n->of_devices);
        put_worst(n, gaps, &n->of_streams);
    }
    if (!status && operators)
        put_idle_operators(n, operators);
    if (!status && states)
        ka_idle_states_put(n->states, &n->idle, states);
    naming_free(n);
    free(n);
    return status;
}
