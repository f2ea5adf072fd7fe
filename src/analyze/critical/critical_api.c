/* The public API of the critical path: a handle that owns the dataset, the path and a reference to the
 * trace. All functions but create and release are read-only, so any thread may call them. */
#include "analyze/critical/critical.h"

struct kineto_critical_path {
    kineto_trace *trace;
    kineto_analysis_options options;
    ka_dataset dataset;
    ka_path path;
};

kineto_status kineto_critical_path_create(const kineto_trace *trace,
                                          const kineto_analysis_options *options,
                                          kineto_critical_path **out, kineto_error *err)
{
    ka_rules *rules = NULL;
    kineto_analysis_options how;
    if (out)
        *out = NULL;
    if (!trace || !out)
        return kb_fail_null(err, __func__, "trace, out", trace, out);
    kineto_status status = ka_options_complete(options, &how, err);
    if (status)
        return status;
    kineto_critical_path *cp = calloc(1, sizeof *cp);
    if (!cp)
        return kb_fail_memory(err, NULL);
    cp->trace = kineto_trace_retain(trace);
    cp->options = how;
    ka_path_window window = {cp->options.annotation, cp->options.instance};
    status = ka_rules_create(cp->options.rules, &rules, err);
    if (!status)
        status = ka_dataset_create(trace, &cp->options, rules, &cp->dataset, err);
    if (!status)
        status = ka_path_create(&cp->dataset, &window, &cp->path, err);
    ka_rules_free(rules);
    /* The texts are the caller's. */
    cp->options = (kineto_analysis_options){.definitions = cp->options.definitions};
    if (status)
        kineto_critical_path_destroy(cp);
    else
        *out = cp;
    return status;
}

void kineto_critical_path_destroy(kineto_critical_path *cp)
{
    if (!cp)
        return;
    ka_path_free(&cp->path);
    ka_dataset_free(&cp->dataset);
    kineto_trace_release(cp->trace);
    free(cp);
}

int64_t kineto_critical_path_length_ns(const kineto_critical_path *cp)
{
    return cp ? cp->path.length_ns : 0;
}

/* Sums all edges on the path for each call: classes are few, and asked for once. */
bool kineto_critical_path_class(const kineto_critical_path *cp, uint32_t index, const char **name,
                                int64_t *ns)
{
    if (!name || !ns)
        return false;
    *name = "";
    *ns = 0;
    if (!cp || index >= ka_path_class_count(&cp->path))
        return false;
    *name = ka_path_class_name(&cp->path, index);
    int64_t sums[KA_MAX_PATH_CLASSES];
    ka_path_class_sums(&cp->path, sums);
    *ns = sums[index];
    return true;
}

/* The row of a slice or work; KINETO_NO_ROW of nothing. */
static kineto_row row_of_owner(const ka_path *p, uint8_t of, uint32_t index)
{
    if (of == KA_OF_NOTHING)
        return KINETO_NO_ROW;
    return of == KA_OF_WORK ? p->s->work[index].row : p->s->slices[index].row;
}

uint32_t kineto_critical_path_node_count(const kineto_critical_path *cp)
{
    return cp ? (uint32_t)cp->path.nodes.count : 0;
}

/* The first node of the path has no edge on it. */
static bool is_on_path(const ka_path *p, uint32_t node)
{
    if (node == p->start)
        return true;
    for (uint32_t e = p->first_edge[node]; e < p->first_edge[node + 1]; e++)
        if (p->edges.data[e].on_path)
            return true;
    return false;
}

bool kineto_critical_path_node(const kineto_critical_path *cp, uint32_t index,
                               kineto_critical_node *out)
{
    if (!out)
        return false;
    *out = (kineto_critical_node){.row = 0};
    if (index >= kineto_critical_path_node_count(cp))
        return false;
    const ka_path *p = &cp->path;
    const ka_node *node = &p->nodes.data[index];
    *out = (kineto_critical_node){.row = row_of_owner(p, node->of, node->index),
                                  .is_end = node->is_end,
                                  .on_path = is_on_path(p, index),
                                  .at_ns = p->time[index],
                                  .slack_ns =
                                      KB_MAX(kb_length_ns(p->time[index], p->latest[index]), 0)};
    return true;
}

uint32_t kineto_critical_path_edge_count(const kineto_critical_path *cp)
{
    return cp ? (uint32_t)cp->path.edges.count : 0;
}

bool kineto_critical_path_edge(const kineto_critical_path *cp, uint32_t index,
                               kineto_critical_edge *out)
{
    if (!out)
        return false;
    *out = (kineto_critical_edge){.row = 0};
    if (index >= kineto_critical_path_edge_count(cp))
        return false;
    const ka_edge *e = &cp->path.edges.data[index];
    *out = (kineto_critical_edge){.from = e->src,
                                  .to = e->dst,
                                  .type = ka_edge_type_name(&cp->path, e->type),
                                  .class_name = ka_path_class_name(&cp->path, e->class),
                                  .ns = e->ns,
                                  .row = row_of_owner(&cp->path, e->of, e->owner),
                                  .on_path = e->on_path};
    return true;
}

kineto_status kineto_critical_path_what_if(const kineto_critical_path *cp, const kineto_what_if_scale *scales,
                             size_t count, kineto_what_if_result *result, kineto_error *err)
{
    if (!cp || !result || (count && !scales))
        return kb_fail_null(err, __func__, "path, result, scales", cp, result, scales);
    kineto_status status = kb_size_check(result, "kineto_what_if_result", err);
    if (status)
        return status;
    return ka_what_if(&cp->path, scales, count, result, err);
}

kineto_status kineto_critical_path_overlay(const kineto_critical_path *cp, kineto_trace **out,
                                           kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!cp || !out)
        return kb_fail_null(err, __func__, "path, out", cp, out);
    return ka_path_overlay(&cp->path, out, err);
}
