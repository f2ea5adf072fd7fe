/* Results of profilers: a trace, its events in the order of time, and the tree of calls over them.
 * Results are immutable; the tree and the map of flows are built on first use, under the result's
 * lock. event.c has the accessors of single events. */
#include "profiler/fallback.h"
#include "profiler/profiler.h"

kineto_profiler_result *kp_result_create(kineto_trace *trace)
{
    kineto_profiler_result *r = calloc(1, sizeof *r);
    if (!r) {
        kineto_trace_release(trace);
        return NULL;
    }
    r->references = 1;
    r->trace = trace;
    return r;
}

kineto_profiler_result *kineto_profiler_result_retain(kineto_profiler_result *result)
{
    if (result)
        kb_add_relaxed(&result->references, 1u);
    return result;
}

static void free_tree(kp_tree *tree)
{
    if (!tree)
        return;
    free(tree->parent);
    free(tree->first_child);
    free(tree->next_sibling);
    free(tree->roots);
    free(tree);
}

void kineto_profiler_result_release(kineto_profiler_result *r)
{
    if (!r || kb_add_acqrel(&r->references, (uint32_t)-1) != 1)
        return;
    free_tree(r->tree);
    kb_map_free(&r->flow_of_row);
    kp_fallback_close(r->fallback);
    kineto_trace_release(r->trace);
    free(r);
}

const kineto_trace *kineto_profiler_result_trace(const kineto_profiler_result *r)
{
    return r ? r->trace : NULL;
}

int64_t kineto_profiler_result_start_ns(const kineto_profiler_result *r)
{
    int64_t start = 0, end = 0;
    if (r && r->trace)
        kineto_trace_window(r->trace, &start, &end);
    return start;
}

kineto_status kineto_profiler_result_save(const kineto_profiler_result *r, const char *path,
                                 kineto_error *err)
{
    if (!r || !path)
        return kb_fail_null(err, __func__, "result, path", r, path);
    if (!r->trace)
        return kb_fail(err, KINETO_E_STATE,
                       "Missing trace: the profiler recorded nothing itself; there is "
                       "nothing to save to %s",
                       path);
    return kineto_trace_save(r->trace, path, err);
}

/* ---- events ---------------------------------------------------------------------------------- */

uint64_t kineto_profiler_result_event_count(const kineto_profiler_result *r)
{
    return r && r->trace && !r->trace_only ? kineto_trace_count(r->trace) : 0;
}

bool kineto_event_of(const kineto_trace *trace, kineto_row row, kineto_event *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    out->row = KINETO_NO_ROW;
    if (!trace || row >= kineto_trace_count(trace))
        return false;
    out->trace = trace;
    out->row = row;
    kineto_trace_get(trace, row, &out->activity);
    return true;
}

bool kineto_profiler_result_event(const kineto_profiler_result *r, uint64_t index, kineto_event *out)
{
    const kineto_row *order =
        index < kineto_profiler_result_event_count(r) ? kineto_trace_time_order(r->trace) : NULL;
    if (!kineto_event_of(order ? r->trace : NULL, order ? order[index] : 0, out))
        return false;
    out->result = r;
    return true;
}

/* ---- the tree -------------------------------------------------------------------------------- */

/* Host work is inside of the range that encloses it; device work belongs to the call that launched
 * it. */
static kineto_row find_launching_parent(const kineto_trace *t, kineto_row row)
{
    kineto_row launch = kineto_trace_launch(t, row);
    return launch != KINETO_NO_ROW ? launch : kineto_trace_parent(t, row);
}

/* Operators by id, for device work without a recorded launch. */
typedef struct operator_index {
    kb_map by_id;
} operator_index;

/* False: out of memory. */
static bool index_operators(const kineto_trace *t, operator_index *o)
{
    kineto_activity a;
    for (uint64_t row = 0; row < kineto_trace_count(t); row++) {
        kineto_trace_get(t, (kineto_row)row, &a);
        if (a.external_id && a.form != KINETO_FORM_INSTANT &&
            (a.kind == KINETO_KIND_CPU_OP || a.kind == KINETO_KIND_USER_ANNOTATION) &&
            !kb_map_insert(&o->by_id, a.external_id, row, NULL))
            return false;
    }
    return true;
}

/* The operator that a row on a stream names as its external id; KINETO_NO_ROW: none. */
static kineto_row find_parent_by_id(const kineto_trace *t, const operator_index *o, kineto_row row)
{
    kineto_activity a;
    kineto_track track;
    kineto_trace_get(t, row, &a);
    kineto_trace_track(t, a.track, &track);
    if (track.type != KINETO_TRACK_STREAM || !a.external_id)
        return KINETO_NO_ROW;
    const uint64_t *found = kb_map_find(&o->by_id, a.external_id);
    return found && *found != row ? (kineto_row)*found : KINETO_NO_ROW;
}

/* Fills the lists of children and counts the roots. From the last row in time to the first, so that
 * each list comes out in the order of time. */
static void link_children(kp_tree *tree, const kineto_row *order, uint64_t count)
{
    for (uint64_t i = count; i-- > 0;) {
        kineto_row row = order[i], parent = tree->parent[row];
        KB_ASSERT(row < count && parent != row);
        if (parent == KINETO_NO_ROW) {
            tree->root_count++;
            continue;
        }
        tree->next_sibling[row] = tree->first_child[parent];
        tree->first_child[parent] = row;
    }
}

/* Fills all columns of the tree. False: out of memory. */
static bool fill_tree(kp_tree *tree, const kineto_trace *t, uint64_t count)
{
    const kineto_row *order = kineto_trace_time_order(t);
    operator_index o = {{0}};
    bool is_complete = order && kt_prepare(t, true, true) && index_operators(t, &o);
    for (uint64_t row = 0; row < count && is_complete; row++) {
        kineto_row parent = find_launching_parent(t, (kineto_row)row);
        tree->parent[row] =
            parent != KINETO_NO_ROW ? parent : find_parent_by_id(t, &o, (kineto_row)row);
        tree->first_child[row] = tree->next_sibling[row] = KINETO_NO_ROW;
    }
    kb_map_free(&o.by_id);
    if (!is_complete)
        return false;
    link_children(tree, order, count);
    tree->roots = malloc(KB_MAX(tree->root_count, (uint64_t)1) * sizeof *tree->roots);
    for (uint64_t i = 0, k = 0; i < count && tree->roots; i++)
        if (tree->parent[order[i]] == KINETO_NO_ROW)
            tree->roots[k++] = order[i];
    return tree->roots != NULL;
}

/* NULL: out of memory. */
static kp_tree *build_tree(const kineto_trace *t)
{
    uint64_t count = kineto_trace_count(t), bytes = KB_MAX(count, (uint64_t)1) * sizeof(kineto_row);
    kp_tree *tree = calloc(1, sizeof *tree);
    if (!tree)
        return NULL;
    tree->parent = malloc(bytes);
    tree->first_child = malloc(bytes);
    tree->next_sibling = malloc(bytes);
    if (tree->parent && tree->first_child && tree->next_sibling && fill_tree(tree, t, count))
        return tree;
    free_tree(tree);
    return NULL;
}

/* The tree of a result; NULL: out of memory, or the result has none. Built once: release and
 * acquire on r->tree publish it to other threads. */
static const kp_tree *get_tree(const kineto_profiler_result *result)
{
    kineto_profiler_result *r = (kineto_profiler_result *)result;
    if (!r || !r->trace || r->trace_only)
        return NULL;
    kp_tree *tree = kb_load_acquire(&r->tree);
    if (tree)
        return tree;
    (void)kb_lock_take(&r->lock, kb_os_self());
    tree = r->tree;
    if (!tree) {
        tree = build_tree(r->trace);
        kb_store_release(&r->tree, tree);
    }
    kb_lock_drop(&r->lock);
    return tree;
}

uint64_t kineto_profiler_result_tree_root_count(const kineto_profiler_result *r)
{
    const kp_tree *tree = get_tree(r);
    return tree ? tree->root_count : 0;
}

kineto_row kineto_profiler_result_tree_root(const kineto_profiler_result *r, uint64_t index)
{
    const kp_tree *tree = get_tree(r);
    return tree && index < tree->root_count ? tree->roots[index] : KINETO_NO_ROW;
}

/* An entry of a column of the tree; KINETO_NO_ROW without a tree or beyond its rows. */
static kineto_row row_in_column(const kineto_profiler_result *r, const kineto_row *column,
                                kineto_row row)
{
    return column && row < kineto_trace_count(r->trace) ? column[row] : KINETO_NO_ROW;
}

kineto_row kineto_profiler_result_tree_parent(const kineto_profiler_result *r, kineto_row row)
{
    const kp_tree *tree = get_tree(r);
    return row_in_column(r, tree ? tree->parent : NULL, row);
}

kineto_row kineto_profiler_result_tree_first_child(const kineto_profiler_result *r, kineto_row row)
{
    const kp_tree *tree = get_tree(r);
    return row_in_column(r, tree ? tree->first_child : NULL, row);
}

kineto_row kineto_profiler_result_tree_next_sibling(const kineto_profiler_result *r, kineto_row row)
{
    const kp_tree *tree = get_tree(r);
    return row_in_column(r, tree ? tree->next_sibling : NULL, row);
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Maps each row to its first flow. False: out of memory; what was inserted stays and is not
 * used. */
static bool index_flows(kineto_profiler_result *r)
{
    for (uint64_t i = 0; i < kineto_trace_flow_count(r->trace); i++) {
        kineto_flow f;
        kineto_trace_flow(r->trace, i, &f);
        if ((f.from != KINETO_NO_ROW && !kb_map_insert(&r->flow_of_row, f.from, i, NULL)) ||
            (f.to != KINETO_NO_ROW && !kb_map_insert(&r->flow_of_row, f.to, i, NULL)))
            return false;
    }
    return true;
}

bool kp_result_flow(const kineto_profiler_result *result, kineto_row row, kineto_flow *out)
{
    kineto_profiler_result *r = (kineto_profiler_result *)result;
    if (!kb_load_acquire(&r->has_flows)) {
        (void)kb_lock_take(&r->lock, kb_os_self());
        if (!r->has_flows && index_flows(r))
            kb_store_release(&r->has_flows, 1u);
        kb_lock_drop(&r->lock);
    }
    const uint64_t *index =
        kb_load_acquire(&r->has_flows) ? kb_map_find(&r->flow_of_row, row) : NULL;
    if (index)
        kineto_trace_flow(r->trace, *index, out);
    return index != NULL;
}
