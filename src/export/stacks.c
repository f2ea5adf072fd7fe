/* Aggregated stacks of activities (stacks.h): a tree in which a node is found by its parent and its
 * frame. Parents precede their children in the list of nodes. */
#include "export/stacks.h"

/* ---- frames and nodes ------------------------------------------------------------------------ */

/* UINT32_MAX: out of memory, or too many frames. */
static uint32_t append_stack_frame(ke_stacks *s, const ke_frame *f)
{
    if (s->frames.count >= UINT32_MAX || !kb_vec_push(&s->frames, *f))
        return UINT32_MAX;
    return (uint32_t)s->frames.count - 1;
}

/* The frame with this key, which is `f` at its first use. */
static uint32_t find_or_add_frame(ke_stacks *s, uint32_t space, uint32_t name, const ke_frame *f)
{
    bool created;
    uint64_t *id =
        kb_map_insert(&s->frame_ids, (uint64_t)space << 32 | name, s->frames.count, &created);
    if (!id)
        return UINT32_MAX;
    uint32_t frame = (uint32_t)*id;
    return created ? append_stack_frame(s, f) : frame;
}

/* Spaces of keys of frames: kinds; then files of sampled functions; then files of functions in which
 * threads were blocked, from BLOCKED_SPACE on. */
#define SAMPLED_SPACE (KINETO_KIND_COUNT + 1u)
#define BLOCKED_SPACE UINT32_C(0x80000000)

/* Functions of the same name in two files are two functions. */
static uint32_t find_sampled_frame(ke_stacks *s, const kineto_trace *t, kineto_row row)
{
    uint32_t name = kt_block_at(t, row / KT_BLOCK_ROWS)->name[row % KT_BLOCK_ROWS], file = 0;
    ke_frame f = {.text = kineto_trace_string(t, name), .kind = KINETO_KIND_CPU_SAMPLE};
    kineto_arg arg;
    if (kineto_args_find(t, row, "module", &arg) && arg.type == KINETO_ARG_STRING) {
        file = kb_intern_id(&s->texts, arg.text);
        f.file = kb_intern_get(&s->texts, file);
    }
    return file < BLOCKED_SPACE - SAMPLED_SPACE ? find_or_add_frame(s, SAMPLED_SPACE + file, name, &f)
                                                : UINT32_MAX;
}

static uint32_t find_blocked_frame(ke_stacks *s, const ke_stack_frame *from)
{
    uint32_t name = kb_intern_id(&s->texts, from->function);
    uint32_t file = kb_intern_id(&s->texts, from->file);
    ke_frame f = {.text = kb_intern_get(&s->texts, name),
                  .kind = KINETO_KIND_THREAD_STATE,
                  .line = from->line,
                  .file = kb_intern_get(&s->texts, file)};
    return name < BLOCKED_SPACE && file < BLOCKED_SPACE
               ? find_or_add_frame(s, BLOCKED_SPACE + file, name, &f)
               : UINT32_MAX;
}

uint32_t ke_stacks_frame(ke_stacks *s, const kineto_trace *t, kineto_row row)
{
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    uint32_t name = b->name[row % KT_BLOCK_ROWS], kind = b->kind[row % KT_BLOCK_ROWS];
    if (kind == KINETO_KIND_CPU_SAMPLE)
        return find_sampled_frame(s, t, row);
    ke_frame f = {.text = kineto_trace_string(t, name), .kind = kind};
    return find_or_add_frame(s, kind, name, &f);
}

/* KE_NO_NODE: out of memory, or `frame` could not be made. */
static uint32_t append_node(ke_stacks *s, uint32_t parent, uint32_t frame, uint32_t track)
{
    uint32_t above = parent == KE_NO_NODE ? 0 : s->nodes.data[parent].depth;
    KB_ASSERT(parent == KE_NO_NODE || parent < s->nodes.count);
    ke_node n = {.parent = parent, .frame = frame, .depth = above + 1, .track = track};
    if (frame == UINT32_MAX || s->nodes.count >= UINT32_MAX || !kb_vec_push(&s->nodes, n))
        return KE_NO_NODE;
    return (uint32_t)s->nodes.count - 1;
}

/* The child of a node with this frame; KE_NO_NODE: out of memory. */
static uint32_t find_or_add_child(ke_stacks *s, uint32_t parent, uint32_t frame, uint32_t track)
{
    bool created;
    uint64_t key = (uint64_t)parent << 32 | frame;
    uint64_t *id =
        frame == UINT32_MAX ? NULL : kb_map_insert(&s->node_ids, key, s->nodes.count, &created);
    if (!id)
        return KE_NO_NODE;
    uint32_t node = (uint32_t)*id;
    return created ? append_node(s, parent, frame, track) : node;
}

/* ---- roots ----------------------------------------------------------------------------------- */

static uint32_t add_root_node(ke_stacks *s, uint32_t parent, kineto_string text, uint32_t track)
{
    char *copy = kb_arena_copy(&s->arena, text.data, text.size);
    if (!copy)
        return KE_NO_NODE;
    ke_frame f = {.text = {copy, text.size}, .kind = KINETO_KIND_COUNT};
    return append_node(s, parent, append_stack_frame(s, &f), track);
}

/* Roots for process and track, or thread. KE_NO_NODE: out of memory. */
static uint32_t add_label_roots(ke_stacks *s, const kineto_trace *t, uint32_t track,
                                const ke_label *row)
{
    kineto_track view;
    kineto_trace_track(t, track, &view);
    ke_label process = ke_process_label(t, view.process);
    uint32_t top = add_root_node(s, KE_NO_NODE, (kineto_string){process.text, process.size}, track);
    return top == KE_NO_NODE ? KE_NO_NODE
                             : add_root_node(s, top, (kineto_string){row->text, row->size}, track);
}

/* Samples and blocked states of one thread have the same roots. */
static uint32_t find_thread_roots(ke_stacks *s, const kineto_trace *t, uint32_t track, uint32_t tid)
{
    kineto_track view;
    bool created;
    kineto_trace_track(t, track, &view);
    uint64_t *root =
        kb_map_insert(&s->thread_roots, (uint64_t)view.process << 32 | tid, KE_NO_NODE, &created);
    if (!root)
        return KE_NO_NODE;
    if (created) {
        ke_label thread = ke_cpu_thread_label(t, track);
        *root = add_label_roots(s, t, track, &thread);
    }
    return (uint32_t)*root;
}

/* Roots for process and track. *ok false: out of memory. */
static uint32_t add_track_roots(ke_stacks *s, const kineto_trace *t, uint32_t track, bool *ok)
{
    uint32_t tid, top;
    if (ke_cpu_track(t, track, &tid) != KE_CPU_ROW_NONE) {
        top = find_thread_roots(s, t, track, tid);
    } else {
        ke_label row = ke_track_label(t, track);
        top = add_label_roots(s, t, track, &row);
    }
    *ok = top != KE_NO_NODE;
    return top;
}

typedef struct roots {
    uint32_t by;                           /* kineto_export_roots */
    uint32_t track, node;                  /* of the current track */
    uint32_t kinds[KINETO_KIND_COUNT + 1]; /* node by kind, made at first use */
} roots;

static uint32_t root_for_kind(ke_stacks *s, roots *r, uint32_t kind, bool *ok)
{
    if (r->by != KINETO_EXPORT_BY_KIND)
        return r->node;
    uint32_t *node = &r->kinds[KB_MIN(kind, (uint32_t)KINETO_KIND_COUNT)];
    if (*node == KE_NO_NODE)
        *node = add_root_node(s, KE_NO_NODE, kb_string(kineto_kind_name(kind)), UINT32_MAX);
    *ok = *node != KE_NO_NODE;
    return *node;
}

/* ---- the walk -------------------------------------------------------------------------------- */

/* Times are added up to the largest number that fits. */
static uint64_t add_times(uint64_t a, uint64_t b)
{
    return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

static void add_node_time(ke_node *n, uint64_t ns)
{
    n->count++;
    n->self_ns = add_times(n->self_ns, ns);
}

/* The same for numbers that may become negative. */
static void add_sampled(int64_t *sum, int64_t n)
{
    if (__builtin_add_overflow(*sum, n, sum))
        *sum = n < 0 ? INT64_MIN : INT64_MAX;
}

/* The node for rows deeper than the limit: all of them below the last frame count in one node. */
static uint32_t node_for_deeper(ke_stacks *s, uint32_t parent, uint32_t track)
{
    s->cut++;
    if (s->nodes.data[parent].depth > s->max_depth)
        return parent;
    /* 0: not made yet; frame 0 is a root or a frame above. */
    if (!s->deeper_frame) {
        snprintf(s->deeper_text, sizeof s->deeper_text, "(deeper than %u frames)", s->max_depth);
        ke_frame f = {.text = kb_string(s->deeper_text), .kind = KINETO_KIND_COUNT};
        s->deeper_frame = append_stack_frame(s, &f);
    }
    return find_or_add_child(s, parent, s->deeper_frame, track);
}

static bool is_too_deep(const ke_stacks *s, uint32_t parent)
{
    return s->max_depth && parent != KE_NO_NODE && s->nodes.data[parent].depth >= s->max_depth;
}

static bool has_duration(const kineto_trace *t, kineto_row row)
{
    uint32_t form = kt_block_at(t, row / KT_BLOCK_ROWS)->form[row % KT_BLOCK_ROWS];
    return form == KINETO_FORM_SLICE || form == KINETO_FORM_ASYNC;
}

bool ke_row_has_frame(const kineto_trace *t, kineto_row row)
{
    return has_duration(t, row) && !kt_row_is_summary(t, row) &&
           !ke_row_is_kind(t, row, KINETO_KIND_THREAD_STATE);
}

/* The time and samples of a range, less what is in ranges of samples within it: each of them takes
 * its own from the node around it. */
static void add_sampled_time(ke_stacks *s, const kineto_trace *t, kineto_row row, uint32_t node,
                             const uint32_t *node_of)
{
    ke_sampled own = ke_sampled_of(t, row);
    kineto_row enclosing = kineto_trace_parent(t, row);
    add_sampled(&s->nodes.data[node].cpu_ns, own.cpu_ns);
    add_sampled(&s->nodes.data[node].samples, own.samples);
    if (enclosing == KINETO_NO_ROW || !ke_row_is_kind(t, enclosing, KINETO_KIND_CPU_SAMPLE))
        return;
    add_sampled(&s->nodes.data[node_of[enclosing]].cpu_ns, -own.cpu_ns);
    add_sampled(&s->nodes.data[node_of[enclosing]].samples, -own.samples);
}

/* A step from a node to one of its children: a frame, or the aggregated rest. */
static uint32_t step_down(ke_stacks *s, uint32_t parent, uint32_t frame, uint32_t track)
{
    return is_too_deep(s, parent) ? node_for_deeper(s, parent, track)
                                  : find_or_add_child(s, parent, frame, track);
}

/* Adds the time of a blocked state below the functions of its stack. False: out of memory. */
static bool add_blocked_row(ke_stacks *s, const kineto_trace *t, roots *r, kineto_row row)
{
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    kineto_string stack = ke_state_stack(t, row);
    ke_stack_frame frame = {.function = kb_string("(stack not recorded)"), .file = {"", 0}};
    bool ok = true;
    uint32_t node = root_for_kind(s, r, b->kind[i], &ok);
    s->path.count = 0;
    while (ok && ke_stack_next(&stack, &frame))
        ok = kb_vec_push(&s->path, frame);
    ok = ok && (s->path.count || kb_vec_push(&s->path, frame));
    for (size_t at = s->path.count; ok && at-- > 0;) {
        bool is_last = is_too_deep(s, node);
        node = step_down(s, node, find_blocked_frame(s, &s->path.data[at]), r->track);
        ok = node != KE_NO_NODE;
        if (is_last)
            break;
    }
    if (!ok)
        return false;
    ke_node *n = &s->nodes.data[node];
    n->blocked++;
    n->blocked_ns =
        add_times(n->blocked_ns, (uint64_t)kb_length_ns(b->start_ns[i], b->end_ns[i]));
    s->forms[b->form[i]]++;
    return true;
}

/* A state has no frame; if it is one of those that are requested, its stack has. */
static bool add_state_row(ke_stacks *s, const kineto_trace *t, roots *r, kineto_row row)
{
    if (s->rows & KE_STACKS_BLOCKED && ke_state_of(t, row) == KE_STATE_BLOCKED)
        return add_blocked_row(s, t, r, row);
    s->states++;
    return true;
}

/* Whether a row that has a frame is in the stacks. */
static bool is_selected(const ke_stacks *s, uint32_t kind)
{
    return (s->rows & (kind == KINETO_KIND_CPU_SAMPLE ? KE_STACKS_SAMPLES : KE_STACKS_RANGES)) != 0;
}

static bool is_inlined_row(const kineto_trace *t, kineto_row row)
{
    kineto_arg arg;
    return kineto_args_find(t, row, "inlined", &arg) && arg.type == KINETO_ARG_BOOL && arg.u;
}

/* Adds a row with a frame to the node of its stack, which node_of[row] becomes. */
static bool add_framed_row(ke_stacks *s, const kineto_trace *t, roots *r, kineto_row row,
                           uint32_t *node_of)
{
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS, parent = node_of[row];
    bool ok = true;
    if (parent == KE_NO_NODE)
        parent = root_for_kind(s, r, b->kind[i], &ok);
    uint32_t node = ok ? step_down(s, parent, ke_stacks_frame(s, t, row), r->track) : KE_NO_NODE;
    if (node == KE_NO_NODE)
        return false;
    bool is_sampled = b->kind[i] == KINETO_KIND_CPU_SAMPLE;
    s->nodes.data[node].is_called |= !is_sampled || !is_inlined_row(t, row);
    if (is_sampled)
        add_sampled_time(s, t, row, node, node_of);
    else /* Modulo 2^64 the time is right even if a length does not fit into 63 bits. */
        add_node_time(&s->nodes.data[node], (uint64_t)kineto_trace_self_ns(t, row));
    s->forms[b->form[i]]++;
    node_of[row] = node;
    return true;
}

/* Adds a row to the stacks; one that is not in them gets the node around it. False: out of
 * memory. */
static bool add_stack_row(ke_stacks *s, const kineto_trace *t, roots *r, kineto_row row,
                          uint32_t *node_of)
{
    uint32_t kind = kt_block_at(t, row / KT_BLOCK_ROWS)->kind[row % KT_BLOCK_ROWS];
    kineto_row enclosing = kineto_trace_parent(t, row);
    node_of[row] = enclosing == KINETO_NO_ROW ? r->node : node_of[enclosing];
    if (!has_duration(t, row) || kt_row_is_summary(t, row))
        return true;
    if (kind == KINETO_KIND_THREAD_STATE)
        return add_state_row(s, t, r, row);
    if (is_selected(s, kind))
        return add_framed_row(s, t, r, row, node_of);
    s->unselected++;
    return true;
}

/* Adds the rows of a track; parents precede their children in its order. */
static bool add_stack_track(ke_stacks *s, const ke_job *job, roots *r, uint32_t track,
                            uint32_t *node_of)
{
    kineto_track view;
    bool ok = true;
    kineto_trace_track(job->trace, track, &view);
    const kineto_row *rows = kineto_trace_track_rows(job->trace, track);
    if (view.count == 0)
        return true;
    if (!rows)
        return false;
    r->track = r->by == KINETO_EXPORT_BY_TRACK ? track : UINT32_MAX;
    if (r->by == KINETO_EXPORT_BY_TRACK)
        r->node = add_track_roots(s, job->trace, track, &ok);
    for (uint64_t i = 0; ok && i < view.count; i++)
        ok = add_stack_row(s, job->trace, r, rows[i], node_of);
    return ok;
}

bool ke_stacks_make(ke_stacks *s, const ke_job *job, uint32_t max_depth, uint32_t rows)
{
    roots r = {.by = job->options->roots, .node = KE_NO_NODE};
    *s = (ke_stacks){.max_depth = max_depth, .rows = rows};
    memset(r.kinds, 0xff, sizeof r.kinds);
    uint32_t *node_of = malloc((job->census.activities + 1) * sizeof *node_of);
    bool ok = node_of != NULL;
    for (uint32_t i = 0; ok && i < kineto_trace_track_count(job->trace); i++) {
        ok = add_stack_track(s, job, &r, i, node_of);
        ke_progress(job, s->forms[KINETO_FORM_SLICE] + s->forms[KINETO_FORM_ASYNC]);
    }
    free(node_of);
    return ok;
}

void ke_stacks_free(ke_stacks *s)
{
    kb_vec_free(&s->frames);
    kb_vec_free(&s->nodes);
    kb_map_free(&s->frame_ids);
    kb_map_free(&s->node_ids);
    kb_map_free(&s->thread_roots);
    kb_intern_free(&s->texts);
    kb_vec_free(&s->path);
    kb_arena_free(&s->arena);
}

/* ---- weights --------------------------------------------------------------------------------- */

static bool has_samples(const kineto_trace *t)
{
    for (uint32_t b = 0; b < kt_block_count(t); b++)
        if (kt_block_at(t, b)->kinds & KINETO_KIND_BIT(KINETO_KIND_CPU_SAMPLE))
            return true;
    return false;
}

/* Ranges have the same time as the samples of their thread: without a choice, samples stand for threads. */
uint32_t ke_stacks_rows(const ke_job *job)
{
    switch (job->options->weight) {
    case KINETO_EXPORT_WEIGHT_WALL:
        return KE_STACKS_RANGES;
    case KINETO_EXPORT_WEIGHT_CPU:
    case KINETO_EXPORT_WEIGHT_SAMPLES:
        return KE_STACKS_SAMPLES;
    case KINETO_EXPORT_WEIGHT_OFF_CPU:
        return KE_STACKS_BLOCKED;
    default:
        return has_samples(job->trace) ? KE_STACKS_SAMPLES : KE_STACKS_RANGES;
    }
}

/* Own times are negative only in traces whose inner ranges have more than those around them. */
static uint64_t count_or_zero(int64_t n) { return n > 0 ? (uint64_t)n : 0; }

/* A node has one of the three times: a frame belongs to one kind. */
uint64_t ke_stacks_weight(const ke_job *job, const ke_node *n)
{
    if (job->options->weight == KINETO_EXPORT_WEIGHT_SAMPLES)
        return count_or_zero(n->samples);
    return add_times(add_times(n->self_ns, count_or_zero(n->cpu_ns)), n->blocked_ns);
}

uint64_t ke_stacks_count(const ke_node *n)
{
    return n->count + n->blocked + count_or_zero(n->samples);
}

/* ---- the account ----------------------------------------------------------------------------- */

void ke_stacks_account_depth(const ke_job *job, const ke_stacks *s)
{
    ke_omit(job->result, "frames", "stacks deeper than 1024 frames are added up there", s->cut);
}

static uint64_t count_summaries(const kineto_trace *t)
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        count += has_duration(t, row) && kt_row_is_summary(t, row);
    return count;
}

void ke_stacks_account(const ke_job *job, const ke_stacks *s)
{
    kineto_export_result *r = job->result;
    const ke_census *c = &job->census;
    const char *only = "this format has names and lengths only";
    r->slices = s->forms[KINETO_FORM_SLICE];
    r->asyncs = s->forms[KINETO_FORM_ASYNC];
    r->activities = r->slices + r->asyncs;
    ke_omit(r, "activities", "instants have no length", c->forms[KINETO_FORM_INSTANT]);
    ke_omit(r, "activities", "counters have no length", c->forms[KINETO_FORM_COUNTER]);
    ke_omit(r, "activities", "spans of recorders and lists that repeat other rows",
            count_summaries(job->trace));
    ke_omit(r, "activities", "states of threads are not functions", s->states);
    ke_omit(r, "activities", "not selected by the weight", s->unselected);
    ke_omit(r, "activities' arguments", only, c->with_args);
    ke_omit(r, "flows", only, c->flows + c->half_flows);
    ke_omit(r, "metadata entries", only, kineto_trace_metadata_count(job->trace));
    ke_omit(r, "ledger lines", only, kineto_trace_ledger_count(job->trace));
}
