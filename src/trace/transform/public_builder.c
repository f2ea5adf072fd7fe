/* The builder of <ckineto/builder.h>: a thin layer over the model's builder that checks every
 * index, kind and JSON text of the caller before it reaches the model. */
#include "trace/transform/copy.h"

#include <ckineto/builder.h>

struct kineto_builder {
    kt_builder *b;
    kb_map checked; /* string id of a list → 1 if it is valid JSON */
};

static kineto_status fail_builder_memory(kineto_error *err)
{
    return kb_fail_memory(err, "build a trace");
}

kineto_status kineto_builder_create(kineto_builder **out, kineto_error *err)
{
    if (!out)
        return kb_fail_null(err, __func__, "out", out);
    *out = NULL;
    kineto_builder *made = calloc(1, sizeof *made);
    if (!made)
        return fail_builder_memory(err);
    kineto_status status = kt_builder_create(&made->b, err);
    if (status)
        free(made);
    else
        *out = made;
    return status;
}

void kineto_builder_destroy(kineto_builder *builder)
{
    if (!builder)
        return;
    kt_builder_destroy(builder->b);
    kb_map_free(&builder->checked);
    free(builder);
}

/* The trace that is being built; NULL after an error, or without a builder. */
static const kineto_trace *get_unfinished_trace(const kineto_builder *builder)
{
    return builder ? builder->b->trace : NULL;
}

uint32_t kineto_builder_string(kineto_builder *builder, kineto_string text)
{
    return builder && text.data && text.size ? kt_string(builder->b, text) : 0;
}

/* Finds the process with this number, also one with an exec count that came with an appended
 * trace. */
static uint32_t find_or_add_process(kt_builder *b, const kineto_process *process)
{
    const kineto_trace *t = b->trace;
    for (uint32_t i = 0; t && i < t->processes.count; i++) {
        const kt_process_row *p = &t->processes.data[i];
        if (p->is_device == process->is_device && p->pid == process->pid && !p->text)
            return i;
    }
    return kt_process(b, process->is_device, process->pid, 0);
}

/* A NULL process is refused like any other invalid argument: KINETO_NO_ROW. */
uint32_t kineto_builder_process(kineto_builder *builder, const kineto_process *process)
{
    if (!builder || !process)
        return KINETO_NO_ROW;
    uint32_t index = find_or_add_process(builder->b, process);
    kt_process_set(builder->b, index, process);
    return index;
}

/* Rejects processes that the builder does not have and types it does not know. */
uint32_t kineto_builder_track(kineto_builder *builder, uint32_t process, const kineto_track *track)
{
    const kineto_trace *t = get_unfinished_trace(builder);
    if (!track || !t || process >= t->processes.count || track->type > KINETO_TRACK_OTHER)
        return KINETO_NO_ROW;
    uint32_t index = kt_track(builder->b, process, (kineto_track_type)track->type, track->id);
    if (track->name.size || track->sort_index)
        kt_track_set(builder->b, index, track->name, track->sort_index);
    return index;
}

uint32_t kineto_builder_named_track(kineto_builder *builder, kineto_string process,
                                    kineto_string track)
{
    return get_unfinished_trace(builder)
               ? kt_track_text(builder->b, kt_process_text(builder->b, process), track)
               : KINETO_NO_ROW;
}

/* Sizes and types of tensors repeat often: each text is validated once and stored once. Texts that
 * are not JSON become one JSON string. */
static void add_checked_list(kineto_builder *builder, uint32_t key, const kineto_arg *value)
{
    uint32_t id = kt_string(builder->b, value->text);
    bool created = false;
    uint64_t *valid = kb_map_insert(&builder->checked, id, 0, &created);
    if (valid && created)
        *valid = kb_json_valid(value->text);
    if (valid && *valid)
        kt_args_put_shared(builder->b, key, (kineto_arg_type)value->type, id);
    else
        kt_args_put_json(builder->b, key, KINETO_ARG_JSON, value->text);
}

void kineto_builder_arg(kineto_builder *builder, uint32_t key, const kineto_arg *value)
{
    if (!builder || !value)
        return;
    kt_builder *b = builder->b;
    switch (value->type) {
    case KINETO_ARG_INT:
        kt_args_put_int(b, key, value->i);
        break;
    case KINETO_ARG_UINT:
        kt_args_put_number(b, key, value->u);
        break;
    case KINETO_ARG_DOUBLE:
        kt_args_put_double(b, key, value->d);
        break;
    case KINETO_ARG_BOOL:
        kt_args_put_bool(b, key, value->u != 0);
        break;
    case KINETO_ARG_STRING:
        kt_args_put_string(b, key, value->text);
        break;
    case KINETO_ARG_INTS:
    case KINETO_ARG_STRINGS:
    case KINETO_ARG_SHAPES:
        add_checked_list(builder, key, value);
        break;
    default: /* a JSON value */
        kt_args_put_json(b, key, KINETO_ARG_JSON, value->text);
        break;
    }
}

/* The object is checked once here; the model takes it as it is. */
bool kineto_builder_args(kineto_builder *builder, kineto_string json_object)
{
    if (!builder || !json_object.size || json_object.data[0] != '{' || !kb_json_valid(json_object))
        return false;
    kt_args_verbatim(builder->b, json_object);
    return true;
}

/* Any wrong index or value makes the call return KINETO_NO_ROW; flags of the model's own are masked
 * out. */
kineto_row kineto_builder_add(kineto_builder *builder, const kineto_activity *activity)
{
    const kineto_trace *t = get_unfinished_trace(builder);
    if (!activity || !t || activity->track >= t->tracks.count ||
        activity->kind >= KINETO_KIND_COUNT || activity->form > KINETO_FORM_COUNTER ||
        activity->name_id >= t->strings.strings.count)
        return KINETO_NO_ROW;
    kt_row row = {.start_ns = activity->start_ns,
                  .end_ns = activity->end_ns,
                  .name = activity->name_id,
                  .track = activity->track,
                  .kind = activity->kind,
                  .category = activity->category,
                  .form = activity->form,
                  .flags = activity->flags & 0xffu,
                  .correlation_id = activity->correlation_id,
                  .external_id = activity->external_id,
                  .async_id = activity->async_id};
    return kt_append(builder->b, &row);
}

/* Rows that do not exist are ignored. */
void kineto_builder_flow(kineto_builder *builder, uint32_t type, uint64_t id, kineto_row row,
                         bool is_start)
{
    if (row < kineto_trace_count(get_unfinished_trace(builder)))
        kt_flow(builder->b, type, id, row, is_start);
}

/* Memory errors stick in the builder and are reported when it is finished. */
kineto_row kineto_builder_append(kineto_builder *builder, const kineto_trace *trace)
{
    kt_copy c;
    const kineto_trace *to = get_unfinished_trace(builder);
    kineto_row first = to ? (kineto_row)to->count : KINETO_NO_ROW;
    if (!trace || !to)
        return KINETO_NO_ROW;
    if (kt_copy_begin(&c, builder->b, trace))
        kt_copy_all(&c);
    else
        builder->b->status = builder->b->status ? builder->b->status : KINETO_E_MEMORY;
    kt_copy_free(&c);
    return first;
}

void kineto_builder_project(kineto_builder *builder)
{
    if (get_unfinished_trace(builder))
        kt_project_user_annotations(builder->b);
}

void kineto_builder_metadata(kineto_builder *builder, kineto_string key, kineto_string json_value)
{
    if (builder)
        kt_metadata(builder->b, key, json_value);
}

void kineto_builder_ledger(kineto_builder *builder, const kineto_ledger_line *line)
{
    if (builder && line)
        kt_ledger_add(builder->b, line->source, line->reason, line->count, line->is_loss,
                      line->detail);
}

void kineto_builder_window(kineto_builder *builder, int64_t start_ns, int64_t end_ns)
{
    if (builder)
        kt_window(builder->b, start_ns, end_ns);
}

kineto_status kineto_builder_finish(kineto_builder *builder, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!builder || !out)
        return kb_fail_null(err, __func__, "builder, out", builder, out);
    return kt_builder_finish(builder->b, out, err);
}
