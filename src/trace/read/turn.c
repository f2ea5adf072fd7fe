/* What batches do one after the other, in the order of the file: numbers in the trace, and what
 * belongs together over their borders. */
#include "trace/read/read.h"

kineto_status kt_read_no_memory(kt_reader *r)
{
    return kb_fail(r->err, KINETO_E_MEMORY, "no memory to read a trace");
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* What is replaced in a text counts when the trace gets it: how often it is looked at depends on
 * which thread reads which batch. */
uint32_t kt_read_text(kt_reader *r, kineto_string inside)
{
    const kb_intern *known = &r->b->trace->strings;
    size_t before = known->strings.count;
    uint64_t lone = 0;
    if (!inside.size || !memchr(inside.data, '\\', inside.size))
        return kt_string(r->b, inside);
    char *bytes = malloc(inside.size);
    if (!bytes) {
        r->b->status = KINETO_E_MEMORY;
        return 0;
    }
    char *end = kt_json_unescape(bytes, inside, &lone);
    uint32_t id = kt_string(r->b, (kineto_string){bytes, (size_t)(end - bytes)});
    r->lone_surrogates += known->strings.count > before ? lone : 0;
    free(bytes);
    return id;
}

uint32_t kt_read_string(kt_reader *r, kineto_string raw)
{
    return kt_read_text(r, kt_json_inside(raw));
}

static kineto_string bytes_of(kt_reader *r, kineto_string inside)
{
    return kb_intern_get(&r->b->trace->strings, kt_read_text(r, inside));
}

static uint32_t name_id(kt_reader *r, kt_batch *p, uint32_t number)
{
    kt_text_use *use = &p->uses.data[number];
    if (use->id == KT_UNKNOWN)
        use->id = kt_read_text(r, p->texts.list.data[number]);
    return use->id;
}

static void number_texts(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->new_names.count; i++)
        name_id(r, p, p->new_names.data[i]);
    for (size_t i = 0; i < p->new_categories.count; i++) {
        uint32_t number = p->new_categories.data[i];
        uint32_t id = name_id(r, p, number);
        p->uses.data[number].category = kt_category_index(r->b, 0, id ? id : KT_NO_CATEGORY);
    }
    uint64_t missing = p->kinds_without_category & ~r->kind_category_known;
    for (uint32_t kind = 0; missing >> kind; kind++)
        if (missing >> kind & 1)
            r->kind_category[kind] = kt_category_index(r->b, kind, 0);
    r->kind_category_known |= missing;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_text(kineto_string raw) { return kt_json_is_string(raw); }

/* Raw text of something that is no usable number: what it is known by. */
static kineto_string label_of(kt_reader *r, kineto_string raw)
{
    return is_text(raw) ? bytes_of(r, kt_json_inside(raw)) : raw;
}

static uint32_t process_of(kt_reader *r, kt_place *place, bool *named)
{
    int64_t number;
    *named = !kt_event_number(place->pid, &number);
    if (place->process == KT_UNKNOWN)
        place->process = *named ? kt_process_text(r->b, label_of(r, place->pid))
                                : kt_process(r->b, false, number, 0);
    return place->process;
}

/* As kt_track_text, but counters and asynchronous ranges stay what they are. */
static uint32_t text_track(kt_reader *r, uint32_t process, uint32_t type, kineto_string label)
{
    uint32_t text = kt_string(r->b, label);
    return kt_track_intern(
        r->b, &(kt_track_row){.process = process,
                              .type = type == KINETO_TRACK_THREAD ? KINETO_TRACK_OTHER : type,
                              .id = INT64_MIN + (int64_t)text,
                              .name = text,
                              .text = text});
}

static uint32_t track_of(kt_reader *r, kt_place *place)
{
    bool named;
    int64_t number;
    uint32_t process = process_of(r, place, &named), type = place->type;
    if (place->track != KT_UNKNOWN)
        return place->track;
    if (named && type == KINETO_TRACK_THREAD)
        type = KINETO_TRACK_OTHER;
    if (type == KINETO_TRACK_COUNTER && !place->tid.size)
        place->track = kt_track(r->b, process, type, 0);
    else if (kt_event_number(place->tid, &number) && number != INT64_MIN)
        place->track = kt_track(r->b, process, type, number);
    else
        place->track = text_track(r, process, type, label_of(r, place->tid));
    return place->track;
}

static void number_places(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->new_places.count; i++) {
        uint32_t number = p->new_places.data[i];
        bool named;
        if (number & KT_PROCESS_ONLY)
            process_of(r, &p->places.data[number & ~KT_PROCESS_ONLY], &named);
        else
            track_of(r, &p->places.data[number]);
    }
    p->new_names.count = p->new_categories.count = p->new_places.count = 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void take_loose_args(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->loose_args.count; i++) {
        const kt_loose_args *loose = &p->loose_args.data[i];
        kt_staged *row = &p->rows.data[loose->row];
        kt_block *block = r->b->trace->blocks.data[(p->first_row + loose->row) / KT_BLOCK_ROWS];
        if (kt_heap_put(r->b, block, loose->json, &row->args))
            row->args_form = KT_ARGS_JSON;
        else
            row->flags |= KINETO_ACTIVITY_ARGS_LOST;
    }
}

static kineto_status take_rows(kt_reader *r, kt_batch *p)
{
    kineto_status status = kt_rows_reserve(r->b, p->rows.count, &p->first_row);
    if (status != KINETO_OK)
        return status == KINETO_E_LIMIT
                   ? kb_fail(r->err, status, "a trace cannot hold more than 2^32 - 1 activities")
                   : kt_read_no_memory(r);
    p->blocks.count = 0;
    if (!p->rows.count)
        return KINETO_OK;
    kineto_trace *t = r->b->trace;
    uint32_t first = p->first_row / KT_BLOCK_ROWS;
    uint32_t last = (uint32_t)(p->first_row + (p->rows.count - 1)) / KT_BLOCK_ROWS;
    for (uint32_t i = first; i <= last; i++) {
        kt_block *block = t->blocks.data[i];
        block->kinds |= p->kinds;
        block->min_start_ns =
            KB_MIN(block->min_start_ns, kt_shifted(p->min_start_ns, r->used_base_ns));
        block->max_end_ns = KB_MAX(block->max_end_ns, kt_shifted(p->max_end_ns, r->used_base_ns));
        block->text = block->text ? block->text : kt_input_retain(r->input);
        if (!kb_vec_push(&p->blocks, block))
            return kt_read_no_memory(r);
    }
    take_loose_args(r, p);
    for (size_t i = 0; i < p->places.count; i++)
        if (p->places.data[i].rows)
            t->tracks.data[p->places.data[i].track].count += p->places.data[i].rows;
    for (size_t i = 0; i < p->host_counters.count; i++)
        if (!kb_vec_push(&r->host_counters, p->first_row + p->host_counters.data[i]))
            return kt_read_no_memory(r);
    return KINETO_OK;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* Of the same thread, be it a range of the thread or an asynchronous one? */
static bool is_same_thread(const kineto_trace *t, uint32_t track, uint32_t other)
{
    const kt_track_row *a = &t->tracks.data[track], *b = &t->tracks.data[other];
    bool counter = a->type == KINETO_TRACK_COUNTER || b->type == KINETO_TRACK_COUNTER;
    return track == other ||
           (!counter && a->process == b->process && a->id == b->id && a->text == b->text);
}

/* The row that the flow stands behind, in this batch or at the end of the last. */
static kineto_row row_before(const kt_reader *r, const kt_batch *p, const kt_staged_flow *f)
{
    kineto_row row = KINETO_NO_ROW;
    uint32_t track = KT_UNKNOWN;
    if (f->row != KT_UNKNOWN) {
        row = p->first_row + f->row;
        track = p->places.data[f->row_place].track;
    } else if (f->first && r->last_row != KINETO_NO_ROW && r->last_start_ns == f->ts_ns) {
        row = r->last_row;
        track = r->last_track;
    }
    bool same =
        row != KINETO_NO_ROW && is_same_thread(r->b->trace, track, p->places.data[f->place].track);
    return same ? row : KINETO_NO_ROW;
}

static kineto_status take_flow(kt_reader *r, kt_batch *p, const kt_staged_flow *f)
{
    uint32_t track = p->places.data[f->place].track;
    kineto_row row = row_before(r, p, f);
    kt_flow_end stated = {.id = f->id,
                          .row = row,
                          .type = f->type & KT_FLOW_TYPES,
                          .scope = f->scope & KT_FLOW_SCOPES,
                          .start = f->ph != 'f'};
    for (int ends = f->ph == 't' ? 2 : 1; ends > 0; ends--) { /* a step ends and starts */
        stated.start = f->ph == 't' ? ends == 1 : stated.start;
        kt_late_flow late = {track, f->next, f->ts_ns, r->ends.count};
        if (!kt_store_push(r->store, &r->ends, stated) ||
            (row == KINETO_NO_ROW && !kt_store_push(r->store, &r->late, late)))
            return kt_read_no_memory(r);
    }
    return KINETO_OK;
}

/* ---- begins and ends ------------------------------------------------------------------------- */

/* What a begin and its end have in common; `anywhere`: but for the process of asynchronous ones. */
static uint64_t match_key(kt_reader *r, kt_batch *p, const kt_side *side, bool anywhere)
{
    kt_place *place = &p->places.data[side->place];
    uint64_t key[5] = {0};
    if (place->type != KINETO_TRACK_ASYNC) {
        key[0] = UINT64_C(1) << 32 | track_of(r, place);
        return kb_hash(key, sizeof key);
    }
    const kt_event *e = &side->event;
    bool named;
    key[0] = anywhere ? UINT64_MAX : process_of(r, place, &named);
    key[1] = kt_event_id(e);
    key[2] = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0;
    key[3] = e->has & KT_HAS_NAME ? kt_read_text(r, e->name) : 0;
    key[4] = 1;
    return kb_hash(key, sizeof key);
}

static bool counts_anywhere(const kt_batch *p, const kt_side *side)
{
    return p->places.data[side->place].type == KINETO_TRACK_ASYNC &&
           !kt_event_id_is_local(&side->event);
}

static kineto_status begin(kt_reader *r, kt_batch *p, const kt_side *side)
{
    uint64_t *top = kb_map_insert(&r->open, match_key(r, p, side, false), 0, NULL);
    kt_pending pending = {.row = p->first_row + side->row,
                          .open_end = side->event.flags & KINETO_ACTIVITY_OPEN_END,
                          .has_key = counts_anywhere(p, side),
                          .below = top ? *top : 0};
    if (pending.has_key)
        pending.key = match_key(r, p, side, true);
    if (!top || !kb_vec_push(&r->pending, pending))
        return kt_read_no_memory(r);
    *top = r->pending.count;
    return KINETO_OK;
}

static kineto_status end(kt_reader *r, kt_batch *p, const kt_side *side)
{
    uint64_t *top = kb_map_find(&r->open, match_key(r, p, side, false));
    bool has_args = (side->event.has & KT_HAS_ARGS) && side->event.other_args;
    if (!top || !*top) {
        kt_loose_end loose = {
            .end_ns = side->event.ts_ns, .before = r->pending.count, .has_args = has_args};
        r->unmatched_ends++;
        if (!counts_anywhere(p, side))
            return KINETO_OK;
        loose.key = match_key(r, p, side, true);
        return kb_vec_push(&r->loose_ends, loose) ? KINETO_OK : kt_read_no_memory(r);
    }
    kt_pending *pending = &r->pending.data[*top - 1];
    r->end_args += has_args;
    pending->end_ns = side->event.ts_ns;
    pending->closed = true;
    *top = pending->below;
    return KINETO_OK;
}

static void join_loose(kt_reader *r, kb_map *open, const kt_loose_end *end)
{
    uint64_t *top = kb_map_find(open, end->key);
    if (!top || !*top)
        return;
    kt_pending *pending = &r->pending.data[*top - 1];
    if (kt_shifted(end->end_ns, r->used_base_ns) < kt_start(r->b->trace, pending->row))
        return;
    *top = pending->below;
    pending->end_ns = end->end_ns;
    pending->closed = true;
    r->unmatched_ends--;
    r->end_args += end->has_args;
}

kineto_status kt_read_join_processes(kt_reader *r)
{
    kb_map open = {0};
    size_t next = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < r->loose_ends.count; i++) {
        const kt_loose_end *end = &r->loose_ends.data[i];
        for (; ok && next < end->before; next++) {
            kt_pending *p = &r->pending.data[next];
            if (p->closed || !p->has_key)
                continue;
            uint64_t *top = kb_map_insert(&open, p->key, 0, NULL);
            ok = top != NULL;
            p->below = ok ? *top : 0;
            if (ok)
                *top = next + 1;
        }
        join_loose(r, &open, end);
    }
    kb_map_free(&open);
    return ok ? KINETO_OK : kt_read_no_memory(r);
}

static kineto_status take_async(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kt_async_row async = {p->first_row + side->row, kt_event_id(&side->event)};
    if (async.id && !kt_store_push(r->b->trace->store, &r->b->trace->async_ids, async))
        return kt_read_no_memory(r);
    return KINETO_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool is(kineto_string s, const char *text) { return kb_string_equal(s, kb_string(text)); }

static kineto_string member_text(kt_reader *r, const kt_event *e, const char *key)
{
    kineto_string raw = e->has & KT_HAS_ARGS ? kt_read_member(e->args, key) : (kineto_string){0};
    return is_text(raw) ? bytes_of(r, kt_json_inside(raw)) : (kineto_string){"", 0};
}

static void metadata(kt_reader *r, kt_batch *p, const kt_side *side)
{
    const kt_event *e = &side->event;
    kt_place *place = &p->places.data[side->place];
    kineto_process process = {.rank = -1};
    bool of_thread = is(e->name, "thread_name") || is(e->name, "thread_sort_index"), named;
    int64_t sort = 0;
    if (e->has & KT_HAS_ARGS)
        kt_json_int(kt_read_member(e->args, "sort_index"), &sort);
    uint32_t index = process_of(r, place, &named);
    if (is(e->name, "process_name"))
        process.name = member_text(r, e, "name");
    else if (is(e->name, "process_labels"))
        process.label = member_text(r, e, "labels");
    else if (is(e->name, "process_sort_index"))
        process.sort_index = sort;
    else if (of_thread)
        kt_track_set(r->b, track_of(r, place), member_text(r, e, "name"), sort);
    else
        r->other_metadata++;
    kt_process_set(r->b, index, &process);
}

static kineto_status take_side(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kineto_status status = KINETO_OK;
    switch (side->event.ph) {
    case 'B':
        return begin(r, p, side);
    case 'b':
    case 'S':
        status = begin(r, p, side);
        return status == KINETO_OK ? take_async(r, p, side) : status;
    case 'n':
    case 'T':
        return take_async(r, p, side);
    case 'M':
        metadata(r, p, side);
        return KINETO_OK;
    default:
        return end(r, p, side);
    }
}

/* ---- a turn ---------------------------------------------------------------------------------- */

static void take_counts(kt_reader *r, const kt_batch *p)
{
    r->events += p->events;
    r->other_phases += p->other_phases;
    r->long_args += p->long_args;
    r->negative_durations += p->negative_durations;
    r->repeated_members += p->repeated_members;
    for (size_t i = 0; i < p->window_ends.count; i++) {
        r->window_end_ns = p->window_ends.data[i];
        r->has_window_end = true;
    }
    if (p->last_row == KT_UNKNOWN)
        return;
    r->last_row = p->first_row + p->last_row;
    r->last_track = p->places.data[p->last_row_place].track;
    r->last_start_ns = p->last_start_ns;
}

kineto_status kt_read_turn(kt_reader *r, kt_batch *p)
{
    if (p->out_of_memory)
        return kt_read_no_memory(r);
    number_texts(r, p);
    number_places(r, p);
    kineto_status status = take_rows(r, p);
    for (size_t i = 0; status == KINETO_OK && i < p->flows.count; i++)
        status = take_flow(r, p, &p->flows.data[i]);
    for (size_t i = 0; status == KINETO_OK && i < p->sides.count; i++)
        status = take_side(r, p, &p->sides.data[i]);
    take_counts(r, p);
    if (p->repairs.total && !kt_repairs_append(&r->b->trace->repairs, &p->repairs))
        return kt_read_no_memory(r);
    return r->b->status == KINETO_OK ? status : kt_read_no_memory(r);
}
