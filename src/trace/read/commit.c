/* Commits batches to the trace, one after the other in the order of the file: texts and
 * places get their ids, rows their numbers, and flows, begins and ends are joined across
 * batches.
 *
 * The only part of reading that is not parallel, so it does as little as possible: for each
 * batch, work for its new texts and places and for its flows and sides, none for each row.
 * Runs under the mutex of load.c. */
#include "trace/read/read.h"

kineto_status kt_read_no_memory(kt_reader *r)
{
    return kb_fail_memory(r->err, "read a trace");
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* A replaced surrogate is counted when the text is new in the trace: how often a text is
 * converted depends on which thread read which batch. */
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

/* The bytes that the text between quotes stands for, interned. */
static kineto_string intern_text_bytes(kt_reader *r, kineto_string inside)
{
    return kb_intern_get(&r->b->trace->strings, kt_read_text(r, inside));
}

uint32_t kt_read_name_id(kt_reader *r, kt_batch *p, uint32_t number)
{
    kt_text_use *use = &p->uses.data[number];
    if (use->id == KT_UNKNOWN)
        use->id = kt_read_text(r, p->texts.list.data[number]);
    return use->id;
}

/* Maps the new names and categories of a batch to ids of the trace. */
static void commit_texts(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->new_names.count; i++)
        kt_read_name_id(r, p, p->new_names.data[i]);
    for (size_t i = 0; i < p->new_categories.count; i++) {
        uint32_t number = p->new_categories.data[i];
        uint32_t id = kt_read_name_id(r, p, number);
        p->uses.data[number].category = kt_category_index(r->b, 0, id ? id : KT_NO_CATEGORY);
    }
    uint64_t missing = p->kinds_without_category & ~r->kind_category_known;
    for (uint32_t kind = 0; missing >> kind; kind++)
        if (missing >> kind & 1)
            r->kind_category[kind] = kt_category_index(r->b, kind, 0);
    r->kind_category_known |= missing;
}

/* ---- places ---------------------------------------------------------------------------------- */

static bool is_quoted_text(kineto_string raw) { return kt_json_is_string(raw); }

/* The label of a pid or tid that is not a usable number. */
static kineto_string place_label(kt_reader *r, kineto_string raw)
{
    return is_quoted_text(raw) ? intern_text_bytes(r, kt_json_inside(raw)) : raw;
}

uint32_t kt_read_process(kt_reader *r, kt_place *place, bool *named)
{
    int64_t number;
    *named = !kt_event_number(place->pid, &number);
    if (place->process == KT_UNKNOWN)
        place->process = *named ? kt_process_text(r->b, place_label(r, place->pid))
                                : kt_process(r->b, false, number, 0);
    return place->process;
}

/* As kt_track_text, but tracks of counters and asynchronous ranges keep their type. */
static uint32_t intern_text_track(kt_reader *r, uint32_t process, uint32_t type,
                                  kineto_string label)
{
    uint32_t text = kt_string(r->b, label);
    return kt_track_intern(
        r->b, &(kt_track_row){.process = process,
                              .type = type == KINETO_TRACK_THREAD ? KINETO_TRACK_OTHER : type,
                              .id = INT64_MIN + (int64_t)text,
                              .name = text,
                              .text = text});
}

uint32_t kt_read_track(kt_reader *r, kt_place *place)
{
    bool named;
    int64_t number;
    uint32_t process = kt_read_process(r, place, &named), type = place->type;
    if (place->track != KT_UNKNOWN)
        return place->track;
    if (named && type == KINETO_TRACK_THREAD)
        type = KINETO_TRACK_OTHER;
    if (type == KINETO_TRACK_COUNTER && !place->tid.size)
        place->track = kt_track(r->b, process, type, 0);
    else if (kt_event_number(place->tid, &number) && number != INT64_MIN)
        place->track = kt_track(r->b, process, type, number);
    else
        place->track = intern_text_track(r, process, type, place_label(r, place->tid));
    return place->track;
}

/* Maps the new places of a batch to processes and tracks of the trace. */
static void commit_places(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->new_places.count; i++) {
        uint32_t number = p->new_places.data[i];
        bool named;
        if (number & KT_PROCESS_ONLY)
            kt_read_process(r, &p->places.data[number & ~KT_PROCESS_ONLY], &named);
        else
            kt_read_track(r, &p->places.data[number]);
    }
    p->new_names.count = p->new_categories.count = p->new_places.count = 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Copies the args of repaired events, which are not in the file, into the heaps of blocks. */
static void commit_loose_args(kt_reader *r, kt_batch *p)
{
    for (size_t i = 0; i < p->loose_args.count; i++) {
        const kt_loose_args *loose = &p->loose_args.data[i];
        KB_ASSERT(loose->row < p->rows.count);
        kt_staged *row = &p->rows.data[loose->row];
        kt_block *block = r->b->trace->blocks.data[(p->first_row + loose->row) / KT_BLOCK_ROWS];
        if (kt_block_append_json(r->b, block, loose->json, &row->args))
            row->args_form = KT_ARGS_JSON;
        else
            row->flags |= KINETO_ACTIVITY_ARGS_LOST;
    }
}

/* Reserves the rows of a batch at the end of the trace, and updates what blocks and tracks
 * know of their rows. The columns are filled later, by kt_batch_write_rows. */
static kineto_status commit_rows(kt_reader *r, kt_batch *p)
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
    KB_ASSERT(last < t->blocks.count && t->count == p->first_row + p->rows.count);
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
    commit_loose_args(r, p);
    for (size_t i = 0; i < p->used_places.count; i++) {
        const kt_place *place = &p->places.data[p->used_places.data[i]];
        KB_ASSERT(place->track < t->tracks.count);
        t->tracks.data[place->track].count += place->rows;
    }
    for (size_t i = 0; i < p->host_counters.count; i++)
        if (!kb_vec_push(&r->host_counters, p->first_row + p->host_counters.data[i]))
            return kt_read_no_memory(r);
    return KINETO_OK;
}

/* ---- flows ----------------------------------------------------------------------------------- */

/* True if two tracks belong to the same thread: its ranges, or its asynchronous ones. */
static bool tracks_share_thread(const kineto_trace *t, uint32_t track, uint32_t other)
{
    const kt_track_row *a = &t->tracks.data[track], *b = &t->tracks.data[other];
    bool counter = a->type == KINETO_TRACK_COUNTER || b->type == KINETO_TRACK_COUNTER;
    return track == other ||
           (!counter && a->process == b->process && a->id == b->id && a->text == b->text);
}

/* The row that the flow directly follows, in this batch or at the end of the previous one,
 * if it is on the same thread; else KINETO_NO_ROW. */
static kineto_row find_row_before_flow(const kt_reader *r, const kt_batch *p,
                                       const kt_staged_flow *f)
{
    kineto_row row = KINETO_NO_ROW;
    uint32_t track = KT_UNKNOWN;
    KB_ASSERT(f->row == KT_UNKNOWN || f->row < p->rows.count);
    if (f->row != KT_UNKNOWN) {
        row = p->first_row + f->row;
        track = p->places.data[f->row_place].track;
    } else if (f->first && r->last_row != KINETO_NO_ROW && r->last_start_ns == f->ts_ns) {
        row = r->last_row;
        track = r->last_track;
    }
    bool same =
        row != KINETO_NO_ROW && tracks_share_thread(r->b->trace, track,
                                                    p->places.data[f->place].track);
    return same ? row : KINETO_NO_ROW;
}

/* Stores category, name and args of the flow whose ends begin at index `end`. */
static kineto_status commit_flow_text(kt_reader *r, const kt_staged_text *s, size_t end)
{
    KB_ASSERT(end < r->ends.count);
    kt_flow_text text = {.end = end,
                         .category = kt_read_text(r, s->category),
                         .name = kt_read_text(r, s->name),
                         .args = kt_string(r->b, s->args)};
    bool any = text.category || text.name || text.args;
    return !any || kb_vec_push(&r->flow_texts, text) ? KINETO_OK : kt_read_no_memory(r);
}

/* Stores the ends of a flow: one, or two for a step. Ends without a row are searched later,
 * by time. */
static kineto_status commit_flow(kt_reader *r, kt_batch *p, const kt_staged_flow *f)
{
    uint32_t track = p->places.data[f->place].track;
    kineto_row row = find_row_before_flow(r, p, f);
    kt_flow_end stated = {.id = f->id,
                          .row = row,
                          .type = f->type & KT_FLOW_TYPES,
                          .scope = f->scope & KT_FLOW_SCOPES,
                          .start = f->ph != 'f'};
    for (int ends = f->ph == 't' ? 2 : 1; ends > 0; ends--) { /* a step is an end and a start */
        stated.start = f->ph == 't' ? ends == 1 : stated.start;
        kt_late_flow late = {track, f->next, f->ts_ns, r->ends.count};
        if (!kt_store_push(r->store, &r->ends, stated) ||
            (row == KINETO_NO_ROW && !kt_store_push(r->store, &r->late, late)))
            return kt_read_no_memory(r);
    }
    return KINETO_OK;
}

/* ---- asynchronous rows ---------------------------------------------------------------------- */

/* Stores the id of an asynchronous row; rows come in ascending order. */
static kineto_status commit_async_id(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kt_async_row async = {p->first_row + side->row, kt_event_id(&side->event)};
    if (async.id && !kt_store_push(r->b->trace->store, &r->b->trace->async_ids, async))
        return kt_read_no_memory(r);
    return KINETO_OK;
}

/* ---- metadata -------------------------------------------------------------------------------- */

static bool metadata_is(kineto_string s, const char *text) { return kt_json_is_key(s, text); }

/* A text member of the args of a metadata event, interned; empty: it has none. */
static kineto_string read_text_member(kt_reader *r, const kt_event *e, const char *key)
{
    kineto_string raw = e->has & KT_HAS_ARGS ? kt_member_of(e->args, key) : (kineto_string){0};
    return is_quoted_text(raw) ? intern_text_bytes(r, kt_json_inside(raw)) : (kineto_string){"", 0};
}

/* Commits a metadata event (ph "M"): names, labels and sort indices of processes and threads. */
static void commit_metadata(kt_reader *r, kt_batch *p, const kt_side *side)
{
    const kt_event *e = &side->event;
    kt_place *place = &p->places.data[side->place];
    kineto_process process = {.rank = -1};
    bool of_thread =
        metadata_is(e->name, "thread_name") || metadata_is(e->name, "thread_sort_index");
    bool named;
    int64_t sort = 0;
    kineto_string place_in_view = {"", 0};
    if (e->has & KT_HAS_ARGS)
        place_in_view = kt_member_of(e->args, "sort_index");
    if (place_in_view.size && !kt_event_number(place_in_view, &sort))
        r->other_metadata++;
    uint32_t index = kt_read_process(r, place, &named);
    if (metadata_is(e->name, "process_name"))
        process.name = read_text_member(r, e, "name");
    else if (metadata_is(e->name, "process_labels"))
        process.label = read_text_member(r, e, "labels");
    else if (metadata_is(e->name, "process_sort_index"))
        process.sort_index = sort;
    else if (of_thread)
        kt_track_set(r->b, kt_read_track(r, place), read_text_member(r, e, "name"), sort);
    else
        r->other_metadata++;
    kt_process_set(r->b, index, &process);
}

/* Commits a begin, an end, or metadata. */
static kineto_status commit_side(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kineto_status status = KINETO_OK;
    switch (side->event.ph) {
    case 'B':
        return kt_read_begin(r, p, side);
    case 'b':
    case 'S':
        status = kt_read_begin(r, p, side);
        return status == KINETO_OK ? commit_async_id(r, p, side) : status;
    case 'n':
    case 'T':
        return commit_async_id(r, p, side);
    case 'M':
        commit_metadata(r, p, side);
        return KINETO_OK;
    default:
        return kt_read_end(r, p, side);
    }
}

/* ---- the commit of a batch ------------------------------------------------------------------- */

/* Adds a count of unread members to those of the trace. Names beyond KT_UNREAD_NAMES are
 * counted together. */
static kineto_status commit_unread(kt_reader *r, const kt_unread *unread)
{
    for (size_t i = 0; i < r->unread.count; i++) {
        kt_unread *known = &r->unread.data[i];
        bool same = known->phase == unread->phase && kb_string_equal(known->name, unread->name);
        if (!same && i < KT_UNREAD_NAMES)
            continue;
        known->count += unread->count;
        return KINETO_OK;
    }
    kt_unread copy = *unread;
    if (r->unread.count == KT_UNREAD_NAMES)
        copy = (kt_unread){{"", 0}, '\0', unread->count};
    copy.name.data = kb_arena_copy(&r->repaired, copy.name.data, copy.name.size);
    return copy.name.data && kb_vec_push(&r->unread, copy) ? KINETO_OK : kt_read_no_memory(r);
}

/* Commits the flows of a batch, with the names of those that have some. */
static kineto_status commit_flows(kt_reader *r, kt_batch *p)
{
    kineto_status status = KINETO_OK;
    size_t text = 0;
    for (size_t i = 0; status == KINETO_OK && i < p->flows.count; i++) {
        size_t end = r->ends.count;
        status = commit_flow(r, p, &p->flows.data[i]);
        if (status == KINETO_OK && text < p->flow_texts.count &&
            p->flow_texts.data[text].flow == i)
            status = commit_flow_text(r, &p->flow_texts.data[text++], end);
    }
    return status;
}

/* Adds the counts of a batch, and remembers its last row for flows of the next one. */
static void commit_counts(kt_reader *r, const kt_batch *p)
{
    r->events += p->events;
    r->other_phases += p->other_phases;
    r->long_args += p->long_args;
    r->negative_durations += p->negative_durations;
    r->repeated_members += p->repeated_members;
    r->empty_objects += p->empty_objects;
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

kineto_status kt_batch_commit(kt_reader *r, kt_batch *p)
{
    if (p->out_of_memory)
        return kt_read_no_memory(r);
    KB_ASSERT(!p->failed && p->start <= p->stop);
    commit_texts(r, p);
    commit_places(r, p);
    kineto_status status = commit_rows(r, p);
    if (status == KINETO_OK)
        status = commit_flows(r, p);
    for (size_t i = 0; status == KINETO_OK && i < p->unread.count; i++)
        status = commit_unread(r, &p->unread.data[i]);
    for (size_t i = 0; status == KINETO_OK && i < p->sides.count; i++)
        status = commit_side(r, p, &p->sides.data[i]);
    commit_counts(r, p);
    if (p->repairs.total && !kt_repairs_append(&r->b->trace->repairs, &p->repairs))
        return kt_read_no_memory(r);
    return r->b->status == KINETO_OK ? status : kt_read_no_memory(r);
}
