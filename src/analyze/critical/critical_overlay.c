/* Copies a trace and adds the critical path as one more track: a row for each activity on the
 * path, under the name of what took the time, with class, type of edge and row as arguments. */
#include "analyze/critical/critical.h"

#include "trace/transform/copy.h"

/* The builder of the copy, and the ids of the strings it adds. */
typedef struct overlay {
    const ka_path *p;
    const kineto_trace *t;
    kt_builder *b;
    kt_copy copy;
    uint32_t track, class_key, type_key, row_key, count_key, category;
} overlay;

/* The track and the strings that its rows share. */
static void declare_overlay_track(overlay *o)
{
    uint32_t process = kt_process_text(o->b, kb_string("Critical path"));
    o->track = kt_track_text(o->b, process, kb_string("critical path"));
    o->class_key = kt_string(o->b, kb_string("class"));
    o->type_key = kt_string(o->b, kb_string("edge"));
    o->row_key = kt_string(o->b, kb_string("row"));
    o->count_key = kt_string(o->b, kb_string("edges"));
    o->category = kt_string(o->b, kb_string("critical_path"));
}

/* Edges that follow each other and are the same thing's are one row. */
static void append_path_row(overlay *o, const ka_edge *e, int64_t start_ns, int64_t end_ns,
                            uint64_t edges)
{
    const ka_dataset *s = o->p->s;
    uint32_t name = 0;
    kineto_row row = KINETO_NO_ROW;
    if (e->of == KA_OF_WORK) {
        name = kt_copy_string(&o->copy, s->work[e->owner].name);
        row = s->work[e->owner].row;
    } else if (e->of == KA_OF_SLICE) {
        name = kt_copy_string(&o->copy, s->slices[e->owner].name);
        row = s->slices[e->owner].row;
    } else {
        name = kt_string(o->b, kb_string(ka_path_class_name(o->p, e->class)));
    }
    kt_args_put_string(o->b, o->class_key, kb_string(ka_path_class_name(o->p, e->class)));
    kt_args_put_string(o->b, o->type_key, kb_string(ka_edge_type_name(o->p, e->type)));
    if (row != KINETO_NO_ROW)
        kt_args_put_uint(o->b, o->row_key, row);
    kt_args_put_uint(o->b, o->count_key, edges);
    kt_append(o->b, &(kt_row){.start_ns = start_ns,
                              .end_ns = KB_MAX(start_ns, end_ns),
                              .name = name,
                              .track = o->track,
                              .kind = KINETO_KIND_CPU_OP,
                              .category = o->category});
}

/* Consecutive edges of one activity become one row. */
static bool is_same_owner(const ka_edge *a, const ka_edge *b)
{
    return a->of == b->of && a->owner == b->owner && a->class == b->class && a->type == b->type &&
           a->of != KA_OF_NOTHING;
}

/* Walks the path forward and merges edges of the same owner. */
static void put_path(overlay *o)
{
    const ka_path *p = o->p;
    const ka_edge *first = NULL;
    int64_t start_ns = 0, end_ns = 0;
    uint64_t edges = 0;
    for (size_t i = 0; i < p->edges.count; i++) {
        const ka_edge *e = &p->edges.data[i];
        int64_t from = p->nodes.data[e->src].ns, to = p->nodes.data[e->dst].ns;
        if (!e->on_path || from >= to)
            continue;
        if (!first || !is_same_owner(first, e) || end_ns != from) {
            if (first)
                append_path_row(o, first, start_ns, end_ns, edges);
            first = e;
            start_ns = from;
            edges = 0;
        }
        end_ns = to;
        edges++;
    }
    if (first)
        append_path_row(o, first, start_ns, end_ns, edges);
}

kineto_status ka_path_overlay(const ka_path *p, kineto_trace **out, kineto_error *err)
{
    overlay o = {.p = p, .t = p->s->trace};
    *out = NULL;
    kineto_status status = kt_builder_create(&o.b, err);
    if (status)
        return status;
    bool ok = kt_copy_begin(&o.copy, o.b, o.t);
    if (ok) {
        kt_copy_all(&o.copy);
        declare_overlay_track(&o);
        put_path(&o);
        ok = !o.copy.failed;
    }
    status = ok ? kt_builder_finish(o.b, out, err) : kb_fail_memory(err, NULL);
    kt_copy_free(&o.copy);
    kt_builder_destroy(o.b);
    return status;
}
