/* The element `stacks` of the report: the boxes of the flame graph, as JSON. docs/reference/report.md has its
 * members; report/call_stacks.js reads them. */
#include "export/flame_boxes.h"
#include "export/report.h"

#define MIN_WIDTH   (KE_FLAME_WIDTH / 1000) /* narrower boxes are folded */
#define MAX_BOXES   600u                    /* of more the widest are written */
#define ROOT_DEPTHS 2u                      /* process and track */

typedef struct stacks_writer {
    ke_flame flame;
    uint8_t *is_shown;    /* by node */
    uint32_t *name_of;    /* index of the names by frame, plus 1; 0: not used */
    KB_VEC(uint32_t) order; /* nodes that are shown: a box, then those in it */
    KB_VEC(uint32_t) names; /* frames */
    uint64_t folded;
    kb_json json;
} stacks_writer;

static bool allocate_stacks_writer(stacks_writer *w)
{
    const ke_stacks *stacks = &w->flame.stacks;
    w->is_shown = calloc(stacks->nodes.count + 1, 1);
    w->name_of = calloc(stacks->frames.count + 1, sizeof *w->name_of);
    return w->is_shown && w->name_of;
}

static void free_stacks_writer(stacks_writer *w)
{
    free(w->is_shown);
    free(w->name_of);
    kb_vec_free(&w->order);
    kb_vec_free(&w->names);
    ke_flame_free(&w->flame);
}

/* The widest boxes: a caller is at least as wide as its callees and comes first of equals, so that all callers
 * of a shown box are shown. False: out of memory. */
static bool select_boxes(stacks_writer *w)
{
    size_t count = w->flame.stacks.nodes.count, wide = 0;
    uint32_t *nodes = malloc((count + 1) * sizeof *nodes);
    if (!nodes)
        return false;
    for (size_t i = 0; i < count; i++)
        if (w->flame.boxes[i].width >= MIN_WIDTH && w->flame.boxes[i].depth < KE_FLAME_DEPTH)
            nodes[wide++] = (uint32_t)i;
    ke_flame_sort(&w->flame, nodes, wide);
    for (size_t i = 0; i < wide && i < MAX_BOXES; i++)
        w->is_shown[nodes[i]] = 1;
    w->folded = count - KB_MIN(wide, (size_t)MAX_BOXES);
    free(nodes);
    return true;
}

/* Pushes what is shown of `nodes` so that the first is popped first. */
static void push_boxes(const stacks_writer *w, const uint32_t *nodes, uint32_t count,
                       uint32_t *open, size_t *open_count)
{
    for (uint32_t i = count; i-- > 0;)
        if (w->is_shown[nodes[i]])
            open[(*open_count)++] = nodes[i];
}

/* Callers before their callees, so that a depth per box is enough. A box is pushed once, so `open` has room for
 * all. False: out of memory. */
static bool order_boxes(stacks_writer *w)
{
    const ke_flame *f = &w->flame;
    uint32_t open[MAX_BOXES];
    size_t open_count = 0;
    push_boxes(w, f->roots, f->root_count, open, &open_count);
    while (open_count) {
        uint32_t node = open[--open_count], frame = f->stacks.nodes.data[node].frame;
        if (!kb_vec_push(&w->order, node))
            return false;
        if (!w->name_of[frame]) {
            if (!kb_vec_push(&w->names, frame))
                return false;
            w->name_of[frame] = (uint32_t)w->names.count;
        }
        push_boxes(w, f->children + f->boxes[node].first, f->boxes[node].count, open, &open_count);
    }
    return true;
}

/* Without a call inside of another there is no stack. */
static bool has_nested_boxes(const stacks_writer *w)
{
    for (size_t i = 0; i < w->order.count; i++)
        if (w->flame.boxes[w->order.data[i]].depth > ROOT_DEPTHS)
            return true;
    return false;
}

/* Names, and their colours as hue * 100 + lightness. */
static void put_box_names(stacks_writer *w)
{
    kb_json *j = &w->json;
    kb_json_key_z(j, "names");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->names.count; i++)
        kb_json_string(j, ke_flame_name(&w->flame.stacks.frames.data[w->names.data[i]]));
    kb_json_array_end(j);
    kb_json_key_z(j, "colours");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->names.count; i++) {
        ke_flame_colour c = ke_flame_colour_of(&w->flame.stacks.frames.data[w->names.data[i]]);
        kb_json_uint(j, (uint64_t)c.hue * 100 + c.lightness);
    }
    kb_json_array_end(j);
}

/* The ranks of the boxes at the top, for the choice of a rank. */
static void put_root_ranks(stacks_writer *w)
{
    const kineto_trace *t = w->flame.job->trace;
    kb_json_key_z(&w->json, "ranks");
    kb_json_array_begin(&w->json);
    for (size_t i = 0; i < w->order.count; i++) {
        uint32_t node = w->order.data[i];
        kineto_track track;
        kineto_process process;
        if (w->flame.boxes[node].depth)
            continue;
        kineto_trace_track(t, w->flame.stacks.nodes.data[node].track, &track);
        kineto_trace_process(t, track.process, &process);
        kb_json_int(&w->json, process.rank);
    }
    kb_json_array_end(&w->json);
}

static uint64_t clamp_time(double ns)
{
    return ns < 0x1p63 ? (uint64_t)ns : INT64_MAX;
}

/* Depth, name, ns and count of each box. */
static void put_boxes(stacks_writer *w)
{
    kb_json *j = &w->json;
    kb_json_key_z(j, "boxes");
    kb_json_array_begin(j);
    for (size_t i = 0; i < w->order.count; i++) {
        uint32_t node = w->order.data[i];
        const ke_flame_box *box = &w->flame.boxes[node];
        const char *noun;
        kb_json_uint(j, box->depth);
        kb_json_uint(j, w->name_of[w->flame.stacks.nodes.data[node].frame] - 1);
        kb_json_uint(j, clamp_time(box->total_ns));
        kb_json_uint(j, ke_flame_count(&w->flame, node, &noun));
    }
    kb_json_array_end(j);
}

/* An object without boxes if the trace has no stacks. */
static void put_stacks(stacks_writer *w, kb_sink *sink)
{
    kb_json_init(&w->json, sink);
    kb_json_object_begin(&w->json);
    if (has_nested_boxes(w)) {
        kb_json_put_bool(&w->json, "sampled", w->flame.stacks.rows == KE_STACKS_SAMPLES);
        kb_json_put_uint(&w->json, "folded", w->folded);
        kb_json_put_uint(&w->json, "whole", clamp_time(w->flame.whole_ns));
        put_box_names(w);
        put_root_ranks(w);
        put_boxes(w);
    }
    kb_json_object_end(&w->json);
}

kineto_status ke_put_report_stacks(const kineto_trace *trace, kb_sink *sink, kineto_error *err)
{
    kineto_export_options options = {.size = sizeof options};
    kineto_export_result result = {.size = sizeof result};
    ke_job job = {.trace = trace, .options = &options, .result = &result};
    stacks_writer w = {0};
    ke_census_count(trace, &job.census);
    bool ok = ke_flame_make(&w.flame, &job) && allocate_stacks_writer(&w) && select_boxes(&w) &&
              order_boxes(&w);
    if (ok)
        put_stacks(&w, sink);
    free_stacks_writer(&w);
    return ok ? KINETO_OK : ke_fail_memory(&job, err);
}
