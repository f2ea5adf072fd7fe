/* Writes Kineto's Chrome JSON (schemaVersion 1): one event per line, track by track, each track in
 * the order of (start, longer first), so that an enclosing range precedes the ranges in it. Its
 * speed comes from escaping each text once: the beginning of an event up to its name, its pid and
 * tid, and the keys of its args are copied from caches of fixed size, so memory does not grow with
 * the file. */
#include "export/chrome.h"

/* ---- the beginning of an event --------------------------------------------------------------- */

/* The shapes of events in the file; part of the key of ke_name_slot. */
typedef enum event_shape {
    SHAPE_SLICE,
    SHAPE_ASYNC,
    SHAPE_ASYNC_END,
    SHAPE_INSTANT,
    SHAPE_GLOBAL,
    SHAPE_COUNTER, /* without category, as Kineto writes them */
    SHAPE_COUNTER_WITH_CATEGORY,
    SHAPE_MEMORY
} event_shape;

/* Counters have a category only if it is not the one that a reader assumes anyway. */
static event_shape shape_of_counter(const ke_chrome *c, const kt_block *b, uint32_t i)
{
    kineto_string category = kt_category_string(c->trace, b->category[i]);
    return kb_string_equal(category, c->tracks[b->track[i]].counter_category)
               ? SHAPE_COUNTER
               : SHAPE_COUNTER_WITH_CATEGORY;
}

/* Other instants of the kind are written like any instant; their category names the kind. */
static bool is_allocation(const ke_chrome *c, const kt_block *b, uint32_t i)
{
    return kb_string_equal(kineto_trace_string(c->trace, b->name[i]), kb_string("[memory]"));
}

/* The shape by the row's form; memory events of PyTorch are instants of their own. */
static event_shape shape_of_row(const ke_chrome *c, const kt_block *b, uint32_t i)
{
    switch (b->form[i]) {
    case KINETO_FORM_SLICE:
        break;
    case KINETO_FORM_ASYNC:
        return SHAPE_ASYNC;
    case KINETO_FORM_COUNTER:
        return shape_of_counter(c, b, i);
    default:
        if (b->kind[i] == KINETO_KIND_MEMORY && is_allocation(c, b, i))
            return SHAPE_MEMORY;
        return b->flags[i] & KINETO_ACTIVITY_GLOBAL ? SHAPE_GLOBAL : SHAPE_INSTANT;
    }
    return SHAPE_SLICE;
}

static const char *const event_openings[] = {
    [SHAPE_SLICE] = "{\"ph\":\"X\"",
    [SHAPE_ASYNC] = "{\"ph\":\"b\"",
    [SHAPE_ASYNC_END] = "{\"ph\":\"e\"",
    [SHAPE_INSTANT] = "{\"ph\":\"i\",\"s\":\"t\"",
    [SHAPE_GLOBAL] = "{\"ph\":\"i\",\"s\":\"g\"",
    [SHAPE_COUNTER] = "{\"ph\":\"C\"",
    [SHAPE_COUNTER_WITH_CATEGORY] = "{\"ph\":\"C\"",
    [SHAPE_MEMORY] = "{\"ph\":\"i\",\"s\":\"t\"",
};

/* data is NULL if the event has no category. Kineto writes none for events that concern all tracks;
 * a file that was read may have one. */
static kineto_string category_as_written(const ke_chrome *c, const kt_block *b, uint32_t i,
                                         event_shape form)
{
    if (form == SHAPE_COUNTER || (form == SHAPE_GLOBAL && !c->was_read))
        return (kineto_string){NULL, 0};
    kineto_string own = kt_category_string(c->trace, b->category[i]);
    if (form == SHAPE_MEMORY && kb_string_equal(own, kb_string("memory")))
        return kb_string("cpu_instant_event");
    return own.size ? own : (kineto_string){NULL, 0};
}

/* The opening of an event whose texts are too long for a slot, straight into the sink. */
static KB_COLD char *write_long_opening(ke_chrome *c, char *out, const kt_block *b, uint32_t i,
                                        event_shape form)
{
    ke_commit(c, out);
    kineto_string category = category_as_written(c, b, i, form);
    kb_sink_write_z(c->sink, event_openings[form]);
    if (category.data) {
        kb_sink_write(c->sink, ",\"cat\":", 7);
        ke_write_string(c, category);
    }
    kb_sink_write(c->sink, ",\"name\":", 8);
    ke_write_string(c, kineto_trace_string(c->trace, b->name[i]));
    return kb_sink_reserve(c->sink, c->room);
}

/* Escapes the opening into a slot. False: it does not fit. */
static KB_COLD bool fill_name_slot(ke_chrome *c, ke_name_slot *slot, const kt_block *b, uint32_t i,
                                   event_shape form)
{
    kineto_string category = category_as_written(c, b, i, form);
    kineto_string name = kineto_trace_string(c->trace, b->name[i]);
    if (category.size + name.size > sizeof slot->text)
        return false;
    char text[6 * sizeof slot->text + 64], *at = text;
    uint64_t replaced = 0;
    at += snprintf(text, 32, "%s", event_openings[form]);
    if (category.data) {
        KE_PUT(at, ",\"cat\":");
        at = kb_json_escape(at, category, &replaced);
    }
    KE_PUT(at, ",\"name\":");
    at = kb_json_escape(at, name, &replaced);
    if ((size_t)(at - text) > sizeof slot->text)
        return false;
    slot->size = (uint32_t)(at - text);
    slot->replaced = (uint32_t)replaced;
    memcpy(slot->text, text, slot->size);
    return true;
}

/* The opening of an event up to its name, from the cache of (name, category, shape). */
static inline char *put_event_opening(ke_chrome *c, char *out, const kt_block *b, uint32_t i,
                                      event_shape form)
{
    uint64_t key = b->name[i] | (uint64_t)b->category[i] << 32 | (uint64_t)(form + 1) << 48;
    uint64_t hash = key * UINT64_C(0x9e3779b97f4a7c15);
    ke_name_slot *slot = &c->names[hash >> 40 & (KE_NAME_SLOTS - 1)];
    if (KINETO_UNLIKELY(slot->key != key)) {
        slot->key = 0;
        if (!fill_name_slot(c, slot, b, i, form))
            return write_long_opening(c, out, b, i, form);
        slot->key = key;
    }
    c->replaced += slot->replaced;
    return ke_copy(out, slot->text, slot->size);
}

/* ---- events ---------------------------------------------------------------------------------- */

static char *put_hex_id(char *out, uint64_t id)
{
    return out + snprintf(out, 32, ",\"id\":\"0x%llx\"", (unsigned long long)id);
}

/* The "e" event of an asynchronous range, right after its "b". */
static KB_COLD char *put_async_end(ke_chrome *c, char *out, const kt_block *b, uint32_t i,
                                   uint64_t id, const ke_place *place)
{
    KE_PUT(out, "},\n");
    out = put_event_opening(c, out, b, i, SHAPE_ASYNC_END);
    out = put_hex_id(out, id);
    out = ke_copy(out, place->text, place->size);
    return kb_json_format_us(out, (int64_t)((uint64_t)b->end_ns[i] - (uint64_t)c->base_ns));
}

/* Writes one row. `out` has c->room bytes left in the sink's buffer. */
static char *put_event(ke_chrome *c, char *out, const kt_block *b, uint32_t i, kineto_row row,
                       const ke_place *place)
{
    event_shape form = shape_of_row(c, b, i);
    uint64_t async_id = 0;
    out = put_event_opening(c, out, b, i, form);
    if (form == SHAPE_ASYNC) {
        async_id = kt_async_id(c->trace, row);
        out = put_hex_id(out, async_id);
    }
    out = ke_copy(out, place->text, place->size);
    out = kb_json_format_us(out, (int64_t)((uint64_t)b->start_ns[i] - (uint64_t)c->base_ns));
    if (form == SHAPE_SLICE) {
        KE_PUT(out, ",\"dur\":");
        out = kb_json_format_us(out, (int64_t)((uint64_t)b->end_ns[i] - (uint64_t)b->start_ns[i]));
    }
    char *args = out;
    out = ke_put_args(c, out, b, i);
    if (form == SHAPE_SLICE && out == args)
        KE_PUT(out, ",\"args\":{}"); /* as Kineto does: readers expect it in every slice */
    if (form == SHAPE_ASYNC)
        out = put_async_end(c, out, b, i, async_id, place);
    KE_PUT(out, "},\n");
    return out;
}

/* Rows of a track in its order. Consecutive rows are mostly of one block, so the block is kept. */
static void write_track_events(ke_chrome *c, uint32_t index)
{
    const ke_track *track = &c->tracks[index];
    const kineto_row *rows = kineto_trace_track_rows(c->trace, index);
    bool lanes = track->view.lane_count > 1;
    const kt_block *b = NULL;
    uint32_t block = UINT32_MAX;
    for (uint64_t n = 0; n < track->view.count; n++) {
        kineto_row row = rows[n];
        uint32_t i = (uint32_t)(row % KT_BLOCK_ROWS);
        if (row / KT_BLOCK_ROWS != block) {
            block = (uint32_t)(row / KT_BLOCK_ROWS);
            b = kt_block_at(c->trace, block);
        }
        c->row = row;
        const ke_place *place = &track->places[lanes ? kineto_trace_lane(c->trace, row) : 0];
        KB_ASSERT(row < kineto_trace_count(c->trace));
        char *out = kb_sink_reserve(c->sink, c->room);
        out = put_event(c, out, b, i, row, place);
        if (KINETO_UNLIKELY(c->flow_rows != NULL))
            out = ke_put_flows(c, out, row, place, b->start_ns[i]);
        ke_commit(c, out);
        if (KINETO_UNLIKELY(n % KT_BLOCK_ROWS == KT_BLOCK_ROWS - 1))
            ke_progress(c->job, c->written + n);
    }
    c->written += track->view.count;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* The format holds everything, so nothing is omitted. */
static void account_chrome(const ke_chrome *c)
{
    kineto_export_result *r = c->job->result;
    ke_result_count_all(c->job);
    r->activities = c->written;
    r->replaced_bytes = c->replaced;
}

static void free_chrome(ke_chrome *c)
{
    free(c->names);
    free(c->keys);
    free(c->pids);
    free(c->pid_numbers);
    free(c->tracks);
    free(c->process_order);
    free(c->device_order);
    free(c->device_place);
    free(c->track_order);
    free(c->flows);
    free(c->flow_rows);
    kb_vec_free(&c->members);
    kb_vec_free(&c->keys_text);
    kb_map_free(&c->header_keys);
    kb_arena_free(&c->arena);
}

/* Plans first, because the header has pids, then writes in one pass. */
kineto_status ke_chrome_write_job(ke_job *job, kineto_error *err)
{
    const kineto_trace *trace = job->trace;
    ke_chrome c = {.job = job, .trace = trace, .sink = job->sink};
    kb_json_init(&c.json, job->sink);
    c.names = calloc(KE_NAME_SLOTS, sizeof *c.names);
    c.keys = calloc(KE_KEY_SLOTS, sizeof *c.keys);
    bool ok = c.names && c.keys && ke_plan(&c) && ke_plan_flows(&c);
    if (ok) {
        ke_write_head(&c);
        ke_write_rows_meta(&c);
        for (uint32_t i = 0; i < kineto_trace_track_count(trace); i++)
            write_track_events(&c, c.track_order[i]);
        ke_write_tail(&c, job->trace_name);
    }
    ok = ok && !c.out_of_memory;
    account_chrome(&c);
    free_chrome(&c);
    /* Errors of the sink are reported when it is closed. */
    return ok ? KINETO_OK : ke_fail_memory(job, err);
}

kineto_status ke_chrome_write(const kineto_trace *trace, kb_sink *sink, const char *trace_name,
                              kineto_export_result *result, kineto_error *err)
{
    kineto_export_options options = {
        .size = sizeof options, .format = "chrome", .trace_name = trace_name};
    return ke_export_to_sink(trace, sink, &options, result, err);
}
