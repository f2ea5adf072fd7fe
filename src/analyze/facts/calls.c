/* The table call_graph, and the tree of calls that other analyses use (ka_calls_create): which
 * range encloses which on its thread, its depth and height, and the device work under each. */
#include "analyze/facts/analyses.h"

void ka_calls_free(ka_calls *c)
{
    free(c->order);
    free(c->end_of);
    free(c->parent);
    free(c->depth);
    free(c->height);
    free(c->kernels);
    free(c->kernel_ns);
    *c = (ka_calls){0};
}

static bool alloc_calls(ka_calls *c, size_t slices)
{
    c->order = malloc((slices + 1) * sizeof *c->order);
    c->end_of = malloc((slices + 1) * sizeof *c->end_of);
    c->parent = malloc((slices + 1) * sizeof *c->parent);
    c->depth = calloc(slices + 1, sizeof *c->depth);
    c->height = calloc(slices + 1, sizeof *c->height);
    c->kernels = calloc(slices + 1, sizeof *c->kernels);
    c->kernel_ns = calloc(slices + 1, sizeof *c->kernel_ns);
    return c->order && c->end_of && c->parent && c->depth && c->height && c->kernels &&
           c->kernel_ns;
}

static void fill_exact(const ka_dataset *s, ka_calls *c)
{
    for (uint32_t i = 0; i < s->slice_count; i++) {
        c->order[i] = i;
        c->end_of[i] = s->slices[i].next;
        c->parent[i] = s->slices[i].parent;
        c->depth[i] = s->slices[i].depth;
    }
    c->count = s->slice_count;
}

/* ---- sums from the innermost ones out -------------------------------------------------------- */

static void add_own(const ka_dataset *s, ka_calls *c)
{
    for (uint32_t i = 0; i < s->work_count; i++) {
        const ka_work *w = &s->work[i];
        if (!ka_calls_have(s, w))
            continue;
        c->kernels[w->call]++;
        c->kernel_ns[w->call] = ka_add_ns(c->kernel_ns[w->call], ka_work_ns(w));
    }
}

static void sum_calls(ka_calls *c)
{
    for (uint32_t at = c->count; at-- > 0;) {
        uint32_t i = c->order[at], parent = c->parent[i];
        c->height[i]++;
        if (parent == KA_NONE)
            continue;
        c->height[parent] = KB_MAX(c->height[parent], c->height[i]);
        c->kernels[parent] += c->kernels[i];
        c->kernel_ns[parent] = ka_add_ns(c->kernel_ns[parent], c->kernel_ns[i]);
    }
}

bool ka_calls_create(const ka_dataset *s, ka_calls *c)
{
    *c = (ka_calls){0};
    if (!alloc_calls(c, s->slice_count))
        return false;
    if (!s->definitions->nest_calls)
        fill_exact(s, c);
    else if (!s->definitions->nest_calls(s, c))
        return false;
    add_own(s, c);
    sum_calls(c);
    return true;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void put_call(ka_table *t, const ka_dataset *s, const ka_calls *c, uint32_t i)
{
    const ka_slice *slice = &s->slices[i];
    ka_put_int(t, s->rank);
    ka_put_int(t, s->threads[slice->thread].id);
    ka_put_int(t, slice->row);
    ka_put_int(t, c->parent[i] == KA_NONE ? -1 : (int64_t)s->slices[c->parent[i]].row);
    ka_put_int(t, c->depth[i]);
    ka_put_int(t, c->height[i]);
    ka_put_int(t, c->kernels[i]);
    ka_put_ns(t, c->kernel_ns[i]);
}

static void put_call_work(ka_table *t, const ka_dataset *s, const ka_calls *c, const ka_work *w)
{
    ka_put_int(t, s->rank);
    ka_put_int(t, s->streams[w->stream].id);
    ka_put_int(t, w->row);
    ka_put_int(t, s->slices[w->call].row);
    ka_put_int(t, (int64_t)c->depth[w->call] + 1);
    ka_put_int(t, 0);
    ka_put_int(t, 1);
    ka_put_ns(t, ka_work_ns(w));
}

static void put_calls(ka_table *t, const ka_dataset *s, const ka_calls *c)
{
    uint32_t shown = 0;
    t->no_memory |=
        !kb_vec_reserve(&t->cells, (c->count + (size_t)s->work_count) * t->column_count);
    for (uint32_t at = 0; at < c->count && !t->no_memory; at++) {
        const ka_slice *slice = &s->slices[c->order[at]];
        put_call(t, s, c, c->order[at]);
        for (uint32_t k = 0; k < slice->work_count; k++) {
            const ka_work *w = &s->work[s->launched[slice->first_work + k]];
            if (!ka_calls_have(s, w))
                continue;
            put_call_work(t, s, c, w);
            shown++;
        }
    }
    if (!c->count)
        ka_note(t, "no ranges of host threads in the trace");
    else if (shown < s->work_count)
        ka_note(t, "%u kernels and copies are left out: the call that launched them is not known",
                s->work_count - shown);
}

/* Table call_graph: a row for each range, in the order of ka_calls, followed by rows of the work
 * that it launched. */
kineto_status ka_analyze_calls(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *t = ka_table_of(a, KA_TABLE_call_graph);
    ka_calls c;
    bool ok = ka_calls_create(s, &c);
    if (ok)
        put_calls(t, s, &c);
    ka_calls_free(&c);
    return ok ? KINETO_OK : kb_fail_memory(err, NULL);
}
