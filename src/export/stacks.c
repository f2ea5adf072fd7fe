/* Aggregated stacks of activities (stacks.h): a tree in which a node is found by its parent and its
 * frame. Parents precede their children in the list of nodes. */
#include "export/stacks.h"

/* ---- frames and nodes ------------------------------------------------------------------------ */

/* UINT32_MAX: out of memory, or too many frames. */
static uint32_t append_stack_frame(ke_stacks *s, kineto_string text, uint32_t kind)
{
    ke_frame f = {text, kind};
    if (s->frames.count >= UINT32_MAX || !kb_vec_push(&s->frames, f))
        return UINT32_MAX;
    return (uint32_t)s->frames.count - 1;
}

uint32_t ke_stacks_frame(ke_stacks *s, const kineto_trace *trace, uint32_t name, uint32_t kind)
{
    bool created;
    uint64_t key = (uint64_t)kind << 32 | name;
    uint64_t *id = kb_map_insert(&s->frame_ids, key, s->frames.count, &created);
    if (!id)
        return UINT32_MAX;
    uint32_t frame = (uint32_t)*id;
    return created ? append_stack_frame(s, kineto_trace_string(trace, name), kind) : frame;
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
    kineto_string kept = {copy, text.size};
    return append_node(s, parent, append_stack_frame(s, kept, KINETO_KIND_COUNT), track);
}

/* Roots for process and track. *ok false: out of memory. */
static uint32_t add_track_roots(ke_stacks *s, const kineto_trace *t, uint32_t track, bool *ok)
{
    kineto_track view;
    kineto_trace_track(t, track, &view);
    ke_label process = ke_process_label(t, view.process), row = ke_track_label(t, track);
    uint32_t top = add_root_node(s, KE_NO_NODE, (kineto_string){process.text, process.size}, track);
    if (top != KE_NO_NODE)
        top = add_root_node(s, top, (kineto_string){row.text, row.size}, track);
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
static void add_node_time(ke_node *n, uint64_t ns)
{
    n->count++;
    if (__builtin_add_overflow(n->self_ns, ns, &n->self_ns))
        n->self_ns = UINT64_MAX;
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
        s->deeper_frame = append_stack_frame(s, kb_string(s->deeper_text), KINETO_KIND_COUNT);
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

/* States of threads have rows of their own, next to the functions. */
static bool is_thread_state(const kineto_trace *t, kineto_row row)
{
    return kt_block_at(t, row / KT_BLOCK_ROWS)->kind[row % KT_BLOCK_ROWS] ==
           KINETO_KIND_THREAD_STATE;
}

bool ke_row_has_frame(const kineto_trace *t, kineto_row row)
{
    return has_duration(t, row) && !kt_row_is_summary(t, row) && !is_thread_state(t, row);
}

/* Adds a row to the node of its stack. node_of[row] becomes that node; a row without a frame gets
 * the node around it. False: out of memory. */
static bool add_stack_row(ke_stacks *s, const kineto_trace *t, roots *r, kineto_row row,
                          uint32_t *node_of)
{
    const kt_block *b = kt_block_at(t, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    bool ok = true;
    kineto_row enclosing = kineto_trace_parent(t, row);
    uint32_t parent = enclosing == KINETO_NO_ROW ? r->node : node_of[enclosing];
    node_of[row] = parent;
    if (!ke_row_has_frame(t, row))
        return true;
    if (parent == KE_NO_NODE)
        parent = root_for_kind(s, r, b->kind[i], &ok);
    uint32_t node = KE_NO_NODE;
    if (ok && is_too_deep(s, parent))
        node = node_for_deeper(s, parent, r->track);
    else if (ok)
        node =
            find_or_add_child(s, parent, ke_stacks_frame(s, t, b->name[i], b->kind[i]), r->track);
    if (node == KE_NO_NODE)
        return false;
    /* Modulo 2^64 the time is right even if a length does not fit into 63 bits. */
    add_node_time(&s->nodes.data[node], (uint64_t)kineto_trace_self_ns(t, row));
    s->forms[b->form[i]]++;
    node_of[row] = node;
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

bool ke_stacks_make(ke_stacks *s, const ke_job *job, uint32_t max_depth)
{
    roots r = {.by = job->options->roots, .node = KE_NO_NODE};
    *s = (ke_stacks){.max_depth = max_depth};
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
    kb_arena_free(&s->arena);
}

/* ---- the account ----------------------------------------------------------------------------- */

void ke_stacks_account_depth(const ke_job *job, const ke_stacks *s)
{
    ke_omit(job->result, "frames", "stacks deeper than 1024 frames are added up there", s->cut);
}

/* The rows with a duration for which `is` holds. */
static uint64_t count_rows(const kineto_trace *t, bool (*is)(const kineto_trace *, kineto_row))
{
    uint64_t count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++)
        count += has_duration(t, row) && is(t, row);
    return count;
}

void ke_stacks_account(const ke_job *job, const uint64_t forms[4])
{
    kineto_export_result *r = job->result;
    const ke_census *c = &job->census;
    const char *only = "this format has names and lengths only";
    r->slices = forms[KINETO_FORM_SLICE];
    r->asyncs = forms[KINETO_FORM_ASYNC];
    r->activities = r->slices + r->asyncs;
    ke_omit(r, "activities", "instants have no length", c->forms[KINETO_FORM_INSTANT]);
    ke_omit(r, "activities", "counters have no length", c->forms[KINETO_FORM_COUNTER]);
    ke_omit(r, "activities", "spans of recorders and lists that repeat other rows",
            count_rows(job->trace, kt_row_is_summary));
    ke_omit(r, "activities", "states of threads are not functions",
            count_rows(job->trace, is_thread_state));
    ke_omit(r, "activities' arguments", only, c->with_args);
    ke_omit(r, "flows", only, c->flows + c->half_flows);
    ke_omit(r, "metadata entries", only, kineto_trace_metadata_count(job->trace));
    ke_omit(r, "ledger lines", only, kineto_trace_ledger_count(job->trace));
}
