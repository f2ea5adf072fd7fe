/* Averages: function events grouped by what they have in common, and the sums of each group, as
 * key_averages() of PyTorch computes them. Groups appear in the order of their first events; sums
 * saturate instead of overflowing, since times and sizes come from files. */
#include "analyze/summary/summary.h"

/* ---- groups ---------------------------------------------------------------------------------- */

#define GROUPED_FLAGS (KINETO_FUNCTION_DEVICE | KINETO_FUNCTION_ANNOTATION | KINETO_FUNCTION_LEGACY)

/* The key of a group. Hashed as bytes, so it must have no padding. */
typedef struct group_key {
    uint32_t key, overload, shapes, stack, flags;
} group_key;
_Static_assert(sizeof(group_key) == 5 * sizeof(uint32_t), "hashed as bytes");

/* The state while events are grouped: a chained hash table over the groups of `a`. */
typedef struct group_builder {
    kineto_averages *a;
    kb_map by_key;          /* hash of a key: the newest group with it */
    KB_VEC(uint32_t) older; /* by group: an earlier one with the same hash, or UINT32_MAX */
} group_builder;

/* The number in `tops` of the innermost group_by_stack frames of a stack, with the innermost frame
 * as * the root; UINT32_MAX: out of memory. */
static uint32_t push_top_frames(kineto_averages *a, uint32_t frame)
{
    uint32_t top = 0;
    for (uint32_t n = 0; frame && top != UINT32_MAX && n < a->options.group_by_stack; n++) {
        const ka_stack_frame *f = &a->arguments.stacks.frames.data[frame];
        top = ka_stacks_push(&a->tops, top, f->text);
        frame = f->parent;
    }
    return top;
}

static group_key make_group_key(kineto_averages *a, uint32_t i)
{
    const kineto_function_events *e = a->events;
    group_key key = {.key = e->names.key[e->name[i]], .flags = e->flags[i] & GROUPED_FLAGS};
    if (a->options.group_by_overload)
        key.overload = e->names.overload[e->name[i]];
    if (a->options.group_by_shape)
        key.shapes = a->arguments.shapes[i];
    if (a->options.group_by_stack)
        key.stack = push_top_frames(a, a->arguments.stack[i]);
    return key;
}

/* Compares a group with a key; the hash alone does not decide. */
static bool is_same_group(const ka_average_group *g, const group_key *key)
{
    return g->key == key->key && g->overload == key->overload && g->shapes == key->shapes &&
           g->stack == key->stack && (g->flags & GROUPED_FLAGS) == key->flags;
}

/* Appends an empty group for an event; `older` is the next in its chain. False: out of memory. */
static bool append_group(group_builder *g, const group_key *key, uint32_t event, uint32_t older)
{
    return kb_vec_push(&g->older, older) &&
           kb_vec_push(&g->a->groups, (ka_average_group){.key = key->key,
                                                         .overload = key->overload,
                                                         .shapes = key->shapes,
                                                         .stack = key->stack,
                                                         .flags = g->a->events->flags[event],
                                                         .first = event});
}

/* The group of an event, appended if there is none; NULL: out of memory. Valid until the next
 * call. */
static ka_average_group *find_or_add_group(group_builder *g, uint32_t event)
{
    kineto_averages *a = g->a;
    group_key key = make_group_key(a, event);
    if (key.stack == UINT32_MAX)
        return NULL;
    if (a->options.each_event)
        return append_group(g, &key, event, UINT32_MAX) ? &a->groups.data[a->groups.count - 1]
                                                        : NULL;
    uint64_t *latest = kb_map_insert(&g->by_key, kb_hash(&key, sizeof key), UINT32_MAX, NULL);
    if (!latest)
        return NULL;
    uint32_t at = (uint32_t)*latest;
    while (at != UINT32_MAX && !is_same_group(&a->groups.data[at], &key))
        at = g->older.data[at];
    if (at == UINT32_MAX) {
        if (!append_group(g, &key, event, (uint32_t)*latest))
            return NULL;
        at = (uint32_t)(a->groups.count - 1);
        *latest = at;
    }
    KB_ASSERT(at < a->groups.count && a->groups.count == g->older.count);
    return &a->groups.data[at];
}

static void add_event_sums(ka_event_sums *to, const ka_event_sums *from)
{
    to->cpu_ns = ka_add_saturated(to->cpu_ns, from->cpu_ns);
    to->self_cpu_ns = ka_add_saturated(to->self_cpu_ns, from->self_cpu_ns);
    to->device_ns = ka_add_saturated(to->device_ns, from->device_ns);
    to->self_device_ns = ka_add_saturated(to->self_device_ns, from->self_device_ns);
    to->cpu_bytes = ka_add_saturated(to->cpu_bytes, from->cpu_bytes);
    to->self_cpu_bytes = ka_add_saturated(to->self_cpu_bytes, from->self_cpu_bytes);
    to->device_bytes = ka_add_saturated(to->device_bytes, from->device_bytes);
    to->self_device_bytes = ka_add_saturated(to->self_device_bytes, from->self_device_bytes);
}

/* Adds each event to its group. Functions of Python are left out unless requested, as in PyTorch.
 * False: out of memory. */
static bool group_events(group_builder *g)
{
    kineto_averages *a = g->a;
    for (uint32_t i = 0; i < a->events->count; i++) {
        if (a->events->flags[i] & KINETO_FUNCTION_PYTHON && !a->options.python_functions)
            continue;
        ka_average_group *group = find_or_add_group(g, i);
        if (!group)
            return false;
        ka_event_sums sums;
        ka_event_sums_get(a->events, i, &sums);
        add_event_sums(&group->sums, &sums);
        group->count++;
        if (a->arguments.flops)
            group->flops = ka_add_saturated_u64(group->flops, a->arguments.flops[i]);
    }
    return true;
}

/* ---- life ------------------------------------------------------------------------------------ */

/* True if the profiler that recorded the trace set an option, which its header lists. */
static bool is_set_in_header(const kineto_trace *t, const char *key)
{
    uint32_t count = kineto_trace_metadata_count(t);
    for (uint32_t i = 0; i < count; i++) {
        kineto_string name, value;
        kineto_trace_metadata(t, i, &name, &value);
        if (kb_string_equal(name, kb_string(key)))
            return kb_string_equal(value, kb_string("1")) ||
                   kb_string_equal(value, kb_string("true"));
    }
    return false;
}

/* Decides which columns there are, reads the arguments that they need and groups the events. */
static kineto_status compute_averages(kineto_averages *a, kineto_error *err)
{
    const kineto_trace *t = a->events->trace;
    a->has_memory = a->events->cpu_bytes || is_set_in_header(t, "profile_memory");
    a->has_flops = a->options.flops == KINETO_YES ||
                   (a->options.flops == KINETO_AUTO && is_set_in_header(t, "with_flops"));
    uint32_t want = (a->options.group_by_shape ? KA_WANT_SHAPES : 0) |
                    (a->options.group_by_stack ? KA_WANT_STACKS : 0) |
                    (a->has_flops ? KA_WANT_FLOPS : 0);
    kineto_status status = ka_event_arguments_read(a->events, want, &a->arguments, err);
    if (status)
        return status;
    group_builder g = {.a = a};
    bool ok = ka_stacks_create(&a->tops) && group_events(&g);
    kb_map_free(&g.by_key);
    kb_vec_free(&g.older);
    return ok ? KINETO_OK : kb_fail_memory(err, "grouping functions");
}

kineto_status kineto_averages_create(kineto_function_events *events,
                                     const kineto_averages_options *options, kineto_averages **out,
                                     kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!events || !out)
        return kb_fail_null(err, __func__, "events, out", events, out);
    kineto_averages_options all = {.size = sizeof all};
    kineto_status status =
        kb_options_read(&all, sizeof all, options, "kineto_averages_options", err);
    if (status)
        return status;
    if (all.flops > KINETO_NO)
        return kb_fail(err, KINETO_E_ARGUMENT, "kineto_averages_options: unknown value %u of flops",
                       all.flops);
    kineto_averages *a = calloc(1, sizeof *a);
    if (!a)
        return kb_fail_memory(err, "grouping functions");
    a->options = all;
    a->options.python_functions |= a->options.each_event;
    a->events = events;
    ka_events_retain(events);
    status = compute_averages(a, err);
    if (status) {
        kineto_averages_destroy(a);
        return status;
    }
    *out = a;
    return KINETO_OK;
}

void kineto_averages_destroy(kineto_averages *averages)
{
    if (!averages)
        return;
    kineto_function_events_destroy(averages->events);
    ka_event_arguments_free(&averages->arguments);
    ka_stacks_free(&averages->tops);
    kb_vec_free(&averages->groups);
    free(averages);
}

/* ---- views ----------------------------------------------------------------------------------- */

uint32_t kineto_averages_count(const kineto_averages *averages)
{
    return averages ? (uint32_t)averages->groups.count : 0;
}

static void copy_sums(const ka_event_sums *sums, kineto_average *out)
{
    out->cpu_time_total_ns = sums->cpu_ns;
    out->self_cpu_time_total_ns = sums->self_cpu_ns;
    out->device_time_total_ns = sums->device_ns;
    out->self_device_time_total_ns = sums->self_device_ns;
    out->cpu_memory_usage = sums->cpu_bytes;
    out->self_cpu_memory_usage = sums->self_cpu_bytes;
    out->device_memory_usage = sums->device_bytes;
    out->self_device_memory_usage = sums->self_device_bytes;
}

bool kineto_averages_get(const kineto_averages *averages, uint32_t index, kineto_average *out)
{
    if (!out)
        return false;
    memset(out, 0, sizeof *out);
    if (index >= kineto_averages_count(averages))
        return false;
    const kineto_averages_options *by = &averages->options;
    const ka_average_group *g = &averages->groups.data[index];
    const kineto_function_events *e = averages->events;
    out->name = kb_intern_get(&e->names.texts, g->key);
    if (by->group_by_overload)
        out->overload = kb_intern_get(&e->names.texts, g->overload);
    if (by->group_by_shape)
        out->input_shapes = kb_intern_get(&averages->arguments.shape_texts, g->shapes);
    if (by->group_by_stack)
        out->stack_depth = averages->tops.frames.data[g->stack].depth;
    out->flags = g->flags;
    out->device_type = g->flags & KINETO_FUNCTION_DEVICE ? e->device_type : 0;
    out->first_event = g->first;
    out->count = g->count;
    out->flops = g->flops;
    copy_sums(&g->sums, out);
    return true;
}

kineto_string kineto_averages_frame(const kineto_averages *averages, uint32_t index, uint32_t frame)
{
    if (index >= kineto_averages_count(averages) || !averages->options.group_by_stack)
        return (kineto_string){"", 0};
    const ka_stacks *tops = &averages->tops;
    uint32_t at = averages->groups.data[index].stack;
    while (at && tops->frames.data[at].depth > (uint64_t)frame + 1)
        at = tops->frames.data[at].parent;
    bool there = at && tops->frames.data[at].depth == (uint64_t)frame + 1;
    return there ? kb_intern_get(&averages->arguments.stacks.texts, tops->frames.data[at].text)
                 : (kineto_string){"", 0};
}

void kineto_averages_total(const kineto_averages *averages, kineto_average *out)
{
    ka_event_sums sums = {0};
    if (!out)
        return;
    memset(out, 0, sizeof *out);
    out->name = kb_string("Total");
    for (uint32_t i = 0; i < kineto_averages_count(averages); i++) {
        const ka_average_group *g = &averages->groups.data[i];
        add_event_sums(&sums, &g->sums);
        out->count += g->count;
        out->flops = ka_add_saturated_u64(out->flops, g->flops);
    }
    copy_sums(&sums, out);
}
