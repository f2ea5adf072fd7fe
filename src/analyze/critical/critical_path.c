/* Builds a critical path for a window and fills its tables. */
#include "analyze/critical/critical.h"

/* ---- the window ------------------------------------------------------------------------------------------ */

/* By start and row; or by row, if the definitions count in the order of the file. */
static int compare_instances(const void *left, const void *right, void *context)
{
    const ka_dataset *s = context;
    const ka_slice *slices = s->slices;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (slices[a].start_ns != slices[b].start_ns && !s->definitions->instances_in_file_order)
        return slices[a].start_ns < slices[b].start_ns ? -1 : 1;
    return slices[a].row < slices[b].row ? -1 : slices[a].row > slices[b].row;
}

typedef KB_VEC(uint32_t) instances;

/* Slices whose names hold the text, by start; each name is matched once. */
static bool find_instances(const ka_dataset *s, const char *text, instances *found)
{
    uint8_t *known = calloc((size_t)s->name_count + 1, 1);
    bool ok = known != NULL;
    for (uint32_t i = 0; ok && i < s->slice_count; i++) {
        uint32_t id = s->slices[i].name;
        if (!known[id]) {
            kineto_string name = ka_name(s, id);
            known[id] = kb_string_contains(name, text) ? 2 : 1;
        }
        if (known[id] == 2)
            ok = kb_vec_push(found, i);
    }
    if (ok && found->count)
        qsort_r(found->data, found->count, sizeof *found->data, compare_instances,
                (void *)(uintptr_t)s);
    free(known);
    return ok;
}

/* The extent of the dataset, or the selected instance of an annotation. */
static kineto_status find_window(const ka_dataset *s, const ka_path_window *window, ka_path *p,
                                 kineto_error *err)
{
    instances found = {0};
    kineto_status status = KINETO_OK;
    p->start_ns = s->start_ns;
    p->end_ns = s->end_ns;
    if (!window->annotation || !*window->annotation)
        return KINETO_OK;
    if (!find_instances(s, window->annotation, &found))
        status = kb_fail_memory(err, NULL);
    else if (!found.count)
        status = kb_fail(err, KINETO_E_NOT_FOUND, "no host range has '%.80s' in its name",
                         window->annotation);
    else if (window->instance >= found.count)
        status = kb_fail(err, KINETO_E_NOT_FOUND,
                         "'%.80s' matches %zu host ranges, numbered from 0; instance %u does not "
                         "exist",
                         window->annotation, found.count, window->instance);
    if (!status) {
        const ka_slice *slice = &s->slices[found.data[window->instance]];
        p->start_ns = slice->start_ns;
        p->end_ns = slice->end_ns;
        p->window_thread = slice->thread;
    }
    kb_vec_free(&found);
    return status;
}

/* ---- making it --------------------------------------------------------------------------------------------- */

/* The moment a step begins at: of one that was cut (dataset.c) the end of the one before. */
static uint32_t start_of_step(const ka_path *p, uint32_t index)
{
    const ka_step *step = &p->s->steps[index];
    if (step->start_ns >= p->s->slices[step->slice].start_ns)
        return p->start_of[step->slice];
    for (uint32_t i = index; i-- > 0;)
        if (p->s->steps[i].process == step->process && p->s->steps[i].slice != KA_NONE &&
            p->end_of[p->s->steps[i].slice] != KA_NONE)
            return p->end_of[p->s->steps[i].slice];
    return 0;
}

/* Steps of which both ends have nodes. */
static void find_path_steps(ka_path *p)
{
    for (uint32_t i = 0; i < p->s->step_count && !p->no_memory; i++) {
        uint32_t slice = p->s->steps[i].slice;
        if (slice == KA_NONE || p->start_of[slice] == KA_NONE || p->end_of[slice] == KA_NONE)
            continue;
        ka_path_step step = {start_of_step(p, i), p->end_of[slice]};
        p->no_memory |= !kb_vec_push(&p->steps, step);
    }
}

/* The definitions' own graph, or: host nodes and edges, steps, threads that wait, devices. */
kineto_status ka_path_create(const ka_dataset *s, const ka_path_window *window, ka_path *p,
                             kineto_error *err)
{
    *p = (ka_path){.s = s, .window_thread = KA_NONE};
    kineto_status status = find_window(s, window, p, err);
    if (status)
        return status;
    if (s->definitions->build_path)
        return s->definitions->build_path(p, err);
    if (!ka_path_find_watched(p))
        return kb_fail_memory(err, NULL);
    ka_path_add_nodes(p);
    if (!p->no_memory && p->nodes.count < 2)
        return kb_fail(err, KINETO_E_NOT_FOUND, "the trace has nothing that could be on a path");
    if (!p->no_memory)
        find_path_steps(p);
    if (!p->no_memory)
        ka_path_add_hand_over(p);
    if (!p->no_memory)
        ka_path_add_device(p);
    return ka_path_finish(p, err);
}

void ka_path_free(ka_path *p)
{
    kb_vec_free(&p->nodes);
    kb_vec_free(&p->edges);
    kb_vec_free(&p->steps);
    free(p->first_edge);
    free(p->time);
    free(p->latest);
    free(p->start_of);
    free(p->end_of);
    free(p->work_start);
    free(p->watched_of);
    *p = (ka_path){0};
}

/* ---- tables -------------------------------------------------------------------------------------------------- */

/* Time on the path by class. */
static void put_path_summary(const ka_path *p, ka_table *t)
{
    int64_t sums[KA_MAX_PATH_CLASSES], all = 0;
    bool seen[KA_MAX_PATH_CLASSES] = {0};
    ka_path_class_sums(p, sums);
    for (size_t i = 0; i < p->edges.count; i++)
        seen[p->edges.data[i].class] |= p->edges.data[i].on_path;
    for (uint32_t i = 0; i < ka_path_class_count(p); i++)
        all = ka_add_ns(all, sums[i]);
    for (uint32_t i = 0; i < ka_path_class_count(p); i++)
        if (sums[i] || (seen[i] && p->s->definitions->rows_without_time)) {
            ka_put_text(t, kb_string(ka_path_class_name(p, i)));
            ka_put_ns(t, sums[i]);
            ka_put_number(t, ka_percent((double)sums[i], (double)all));
        }
    ka_sort(t, (const int[]){-2, 1, 0});
}

/* The number of a node in tables: twice its row, plus 1 for its end; -1: the start of the window. */
static int64_t moment_of_node(const ka_path *p, uint32_t node)
{
    const ka_node *n = &p->nodes.data[node];
    if (n->of == KA_OF_NOTHING)
        return -1;
    kineto_row row = n->of == KA_OF_WORK ? p->s->work[n->index].row : p->s->slices[n->index].row;
    return (int64_t)row * 2 + n->is_end;
}

/* Edges in the order of their destinations. */
static void put_edges(const ka_path *p, ka_table *t)
{
    for (size_t i = 0; i < p->edges.count; i++) {
        const ka_edge *e = &p->edges.data[i];
        ka_put_int(t, moment_of_node(p, e->src));
        ka_put_int(t, moment_of_node(p, e->dst));
        ka_put_text(t, kb_string(ka_edge_type_name(p, e->type)));
        ka_put_ns(t, e->ns);
        ka_put_int(t, e->on_path);
    }
}

/* ---- by name ---------------------------------------------------------------------------------------------------- */

/* Time of a name in one class, on the path and in all. */
typedef struct owner_sum {
    uint32_t name;
    uint8_t class;
    uint64_t count;
    int64_t on_path_ns, total_ns, least_slack_ns;
} owner_sum;
typedef KB_VEC(owner_sum) owner_sums;

/* The sum of a name and class, created when it is first needed. NULL: out of memory. */
static owner_sum *sum_of_owner(owner_sums *sums, kb_map *places, uint32_t name, uint8_t class)
{
    bool created = false;
    uint64_t *place =
        kb_map_insert(places, ((uint64_t)name << 8 | class) + 1, sums->count, &created);
    if (!place)
        return NULL;
    if (created && !kb_vec_push(sums, (owner_sum){name, class, 0, 0, 0, INT64_MAX}))
        return NULL;
    return &sums->data[*place];
}

/* Adds an edge to the sum of its owner. */
static bool add_edge(const ka_path *p, const ka_edge *e, owner_sums *sums, kb_map *places)
{
    uint32_t name = e->of == KA_OF_WORK ? p->s->work[e->owner].name : p->s->slices[e->owner].name;
    owner_sum *sum = sum_of_owner(sums, places, name, e->class);
    if (!sum)
        return false;
    int64_t slack = kb_length_ns(ka_add_ns(p->time[e->src], e->ns), p->latest[e->dst]);
    sum->count += p->nodes.data[e->dst].is_end && p->nodes.data[e->dst].index == e->owner &&
                  p->nodes.data[e->dst].of == e->of;
    sum->total_ns = ka_add_ns(sum->total_ns, e->ns);
    if (e->on_path)
        sum->on_path_ns = ka_add_ns(sum->on_path_ns, e->ns);
    sum->least_slack_ns = KB_MIN(sum->least_slack_ns, KB_MAX(slack, 0));
    return true;
}

/* Sums by name and class, of all edges that something owns. */
static bool put_path_operators(const ka_path *p, ka_table *t)
{
    owner_sums sums = {0};
    kb_map places = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < p->edges.count; i++)
        if (p->edges.data[i].of != KA_OF_NOTHING)
            ok = add_edge(p, &p->edges.data[i], &sums, &places);
    for (size_t i = 0; ok && i < sums.count; i++) {
        const owner_sum *sum = &sums.data[i];
        ka_put_int(t, p->s->rank);
        ka_put_text(t, ka_name(p->s, sum->name));
        ka_put_text(t, kb_string(ka_path_class_name(p, sum->class)));
        ka_put_int(t, (int64_t)sum->count);
        ka_put_ns(t, sum->on_path_ns);
        ka_put_ns(t, sum->total_ns);
        ka_put_ns(t, sum->least_slack_ns);
    }
    ka_sort(t, (const int[]){-5, -6, 2, 3, 0});
    kb_vec_free(&sums);
    kb_map_free(&places);
    return ok;
}

/* The table may be NULL. */
static void note_why(ka_table *t, const char *text)
{
    if (t)
        ka_note(t, "%s", text);
}

/* Without an annotation an empty window is a note in the tables, not an error. */
kineto_status ka_analyze_critical(const ka_dataset *s, kineto_analysis *a, kineto_error *err)
{
    ka_table *summary = ka_table_of(a, KA_TABLE_critical_path_summary),
             *edges = ka_table_of(a, KA_TABLE_critical_path_edges),
             *operators = ka_table_of(a, KA_TABLE_critical_path_operators);
    ka_path path = {0};
    kineto_error why = {0};
    ka_path_window window = {s->options->annotation, s->options->instance};
    kineto_status status = ka_path_create(s, &window, &path, &why);
    if (!status && summary)
        put_path_summary(&path, summary);
    if (!status && edges)
        put_edges(&path, edges);
    bool ok = status || !operators || put_path_operators(&path, operators);
    ka_path_free(&path);
    if (!ok)
        return kb_fail_memory(err, NULL);
    if (status == KINETO_E_NOT_FOUND && !window.annotation) {
        note_why(summary, why.message);
        note_why(edges, why.message);
        note_why(operators, why.message);
        return KINETO_OK;
    }
    if (status && err)
        *err = why;
    return status;
}
