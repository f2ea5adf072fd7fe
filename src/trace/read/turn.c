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
    for (size_t i = 0; i < p->used_places.count; i++) {
        const kt_place *place = &p->places.data[p->used_places.data[i]];
        t->tracks.data[place->track].count += place->rows;
    }
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

static kineto_status take_flow_text(kt_reader *r, const kt_staged_text *s, size_t end)
{
    kt_flow_text text = {.end = end,
                         .category = kt_read_text(r, s->category),
                         .name = kt_read_text(r, s->name),
                         .args = kt_string(r->b, s->args)};
    bool any = text.category || text.name || text.args;
    return !any || kb_vec_push(&r->flow_texts, text) ? KINETO_OK : kt_read_no_memory(r);
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

/* What a begin and its end have in common, besides their names; `anywhere`: but for the process of
 * asynchronous ones, and with the name. */
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
    key[3] = anywhere && e->has & KT_HAS_NAME ? kt_read_text(r, e->name) : 0;
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
    const kt_event *e = &side->event;
    uint64_t *top = kb_map_insert(&r->open, match_key(r, p, side, false), 0, NULL);
    kt_pending pending = {.row = p->first_row + side->row,
                          .open_end = e->flags & KINETO_ACTIVITY_OPEN_END,
                          .has_key = counts_anywhere(p, side),
                          .name = name_id(r, p, p->rows.data[side->row].name),
                          .category = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0,
                          .below = top ? *top : 0};
    if (pending.has_key)
        pending.key = match_key(r, p, side, true);
    if (e->has & KT_HAS_ARGS && e->args.size > 2) {
        pending.args = malloc(e->args.size);
        pending.args_bytes = e->args.size;
        if (!pending.args)
            return kt_read_no_memory(r);
        memcpy(pending.args, e->args.data, e->args.size);
    }
    if (!top || !kb_vec_push(&r->pending, pending)) {
        free(pending.args);
        return kt_read_no_memory(r);
    }
    *top = r->pending.count;
    return KINETO_OK;
}

/* Is this the begin that an end with such a name and category belongs to? What one of them leaves
 * out does not tell them apart. */
static bool agrees(const kt_pending *begin, uint32_t name, uint32_t category)
{
    return (!name || !begin->name || name == begin->name) &&
           (!category || !begin->category || category == begin->category);
}

/* How deep below the innermost open begin one is looked for. */
#define MOST_BELOW 256u

/* The begins above one of their thread that ends now lie in it: without an end of their own they last no
 * longer. */
static void bound_above(kt_reader *r, uint64_t top, const kt_pending *ended, int64_t end_ns)
{
    for (uint64_t at = top; at && &r->pending.data[at - 1] != ended; at = r->pending.data[at - 1].below) {
        kt_pending *p = &r->pending.data[at - 1];
        if (!p->bounded) {
            p->bounded = true;
            p->end_ns = end_ns;
        }
    }
}

/* The innermost open begin that agrees, which is no longer open then; NULL: none does. An end that
 * names no begin, or one that others lie above of, makes the ends without a name behind it doubtful.
 * `nests`: they are of a thread. */
static kt_pending *take_begin(kt_reader *r, uint64_t *top, const kt_event *e, bool nests)
{
    uint32_t name = e->has & KT_HAS_NAME ? kt_read_text(r, e->name) : 0;
    uint32_t category = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0;
    uint64_t *link = top;
    for (uint32_t below = 0; link && *link && below < MOST_BELOW; below++) {
        kt_pending *begin = &r->pending.data[*link - 1];
        if (agrees(begin, name, category)) {
            if (nests)
                bound_above(r, *top, begin, e->ts_ns);
            *link = begin->below;
            kt_pending *next = *top ? &r->pending.data[*top - 1] : NULL;
            if (next)
                next->doubtful = next->doubtful || begin->doubtful || below > 0;
            begin->doubtful = begin->doubtful && !name;
            return begin;
        }
        link = &begin->below;
    }
    if (top && *top)
        r->pending.data[*top - 1].doubtful = true;
    return NULL;
}

/* ---- arguments of ends ----------------------------------------------------------------------- */

static kt_end_args args_of_end(const kt_event *e)
{
    kt_end_args args = {.text = {"", 0},
                        .correlation_id = e->correlation_id,
                        .external_id = e->external_id,
                        .flags = e->flags};
    if (e->has & KT_HAS_ARGS && e->args.size > 2)
        args.text = e->args;
    return args;
}

/* Hashes of the keys of an object. */
static bool note_keys(kb_map *keys, kineto_string object)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true, ok = kt_scan_open(&scan, '{');
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        ok = kb_map_insert(keys, kb_hash(key.data, key.size), 1, NULL) != NULL;
    return ok;
}

/* Members of an object whose keys are not among these, each with a comma behind it; the end. */
static char *put_others(kt_reader *r, char *out, kineto_string object, const kb_map *keys)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true, ok = kt_scan_open(&scan, '{');
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        if (kb_map_find(keys, kb_hash(key.data, key.size))) {
            r->end_args_twice++;
            continue;
        }
        size_t size = (size_t)(value.data + value.size - (key.data - 1));
        memcpy(out, key.data - 1, size);
        out[size] = ',';
        out += size + 1;
    }
    return out;
}

/* The members of both, in the reader's memory; where both have one, that of the end. */
static kineto_string join_objects(kt_reader *r, kineto_string begin, kineto_string end)
{
    kb_map keys = {0};
    char *text = kb_arena_alloc(&r->repaired, begin.size + end.size + 1, 1), *at = text;
    bool ok = text && note_keys(&keys, end);
    if (ok) {
        *at++ = '{';
        at = put_others(r, at, begin, &keys);
        if (keys.count) {
            memcpy(at, end.data + 1, end.size - 1);
            at += end.size - 1;
        } else {
            at -= at[-1] == ',';
            *at++ = '}';
        }
    }
    kb_map_free(&keys);
    return ok ? (kineto_string){text, (size_t)(at - text)} : (kineto_string){NULL, 0};
}

/* Where the args stand in the file, as in a block; 0: not there, or too far or long for that. */
static uint64_t place_in_file(const kt_reader *r, kineto_string args)
{
    size_t ready = kb_load_acquire(&r->input->ready_bytes);
    if (args.data < r->input->base || args.data >= r->input->base + ready)
        return 0;
    uint64_t offset = (uint64_t)(args.data - r->input->base);
    return args.size >> 24 || offset >> 40 ? 0 : offset << 24 | args.size;
}

/* A range has its end, and what that says. */
static kineto_status close_pending(kt_reader *r, kt_pending *begin, int64_t end_ns, kt_end_args args)
{
    kineto_string before = {begin->args, begin->args_bytes};
    kt_joined_args joined = {.row = begin->row, .args = args};
    bool ok = true;
    begin->end_ns = end_ns;
    begin->closed = true;
    begin->open_end |= (args.flags & KINETO_ACTIVITY_OPEN_END) || begin->doubtful;
    r->doubtful_ends += begin->doubtful;
    if (args.text.size && before.size)
        joined.args.text = join_objects(r, before, args.text);
    else if (args.text.size && !(joined.word = place_in_file(r, args.text)))
        joined.args.text.data = kb_arena_copy(&r->repaired, args.text.data, args.text.size);
    if (args.text.size)
        ok = joined.args.text.data && kb_vec_push(&r->joined_args, joined);
    free(begin->args);
    begin->args = NULL;
    begin->args_bytes = 0;
    return ok ? KINETO_OK : kt_read_no_memory(r);
}

static void give_args(kt_reader *r, const kt_joined_args *joined)
{
    kt_block *block = r->b->trace->blocks.data[joined->row / KT_BLOCK_ROWS];
    uint32_t i = (uint32_t)(joined->row % KT_BLOCK_ROWS);
    uint64_t word = joined->word;
    kt_args_form form = word ? KT_ARGS_IN_FILE : KT_ARGS_JSON;
    const kt_end_args *args = &joined->args;
    if (!word && !kt_heap_put(r->b, block, args->text, &word)) {
        block->flags[i] |= KINETO_ACTIVITY_ARGS_LOST;
        return;
    }
    block->args[i] = word;
    block->flags[i] = (uint16_t)((block->flags[i] & ~(3u << 8)) | (uint32_t)form << 8 | args->flags);
    block->correlation_id[i] = args->correlation_id ? args->correlation_id : block->correlation_id[i];
    block->external_id[i] = args->external_id ? args->external_id : block->external_id[i];
}

void kt_read_give_end_args(kt_reader *r)
{
    for (size_t i = 0; i < r->joined_args.count; i++)
        give_args(r, &r->joined_args.data[i]);
}

/* ---- ends ------------------------------------------------------------------------------------- */

/* The range may have begun in another process. */
static kineto_status keep_loose_end(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kt_loose_end loose = {.key = match_key(r, p, side, true),
                          .end_ns = side->event.ts_ns,
                          .before = r->pending.count,
                          .args = args_of_end(&side->event)};
    kineto_string *text = &loose.args.text; /* the file's is gone by then */
    if (text->size)
        text->data = kb_arena_copy(&r->repaired, text->data, text->size);
    return text->data && kb_vec_push(&r->loose_ends, loose) ? KINETO_OK : kt_read_no_memory(r);
}

static kineto_status end(kt_reader *r, kt_batch *p, const kt_side *side)
{
    uint64_t *top = kb_map_find(&r->open, match_key(r, p, side, false));
    bool nests = p->places.data[side->place].type != KINETO_TRACK_ASYNC;
    kt_pending *begin = take_begin(r, top, &side->event, nests);
    if (begin)
        return close_pending(r, begin, side->event.ts_ns, args_of_end(&side->event));
    r->unmatched_ends++;
    return counts_anywhere(p, side) ? keep_loose_end(r, p, side) : KINETO_OK;
}

static bool join_loose(kt_reader *r, kb_map *open, const kt_loose_end *end)
{
    uint64_t *top = kb_map_find(open, end->key);
    if (!top || !*top)
        return true;
    kt_pending *pending = &r->pending.data[*top - 1];
    if (kt_shifted(end->end_ns, r->used_base_ns) < kt_start(r->b->trace, pending->row))
        return true;
    *top = pending->below;
    r->unmatched_ends--;
    return close_pending(r, pending, end->end_ns, end->args) == KINETO_OK;
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
        ok = ok && join_loose(r, &open, end);
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

static bool is(kineto_string s, const char *text) { return kt_json_is_key(s, text); }

static kineto_string member_text(kt_reader *r, const kt_event *e, const char *key)
{
    kineto_string raw = e->has & KT_HAS_ARGS ? kt_member_of(e->args, key) : (kineto_string){0};
    return is_text(raw) ? bytes_of(r, kt_json_inside(raw)) : (kineto_string){"", 0};
}

static void metadata(kt_reader *r, kt_batch *p, const kt_side *side)
{
    const kt_event *e = &side->event;
    kt_place *place = &p->places.data[side->place];
    kineto_process process = {.rank = -1};
    bool of_thread = is(e->name, "thread_name") || is(e->name, "thread_sort_index"), named;
    int64_t sort = 0;
    kineto_string place_in_view = {"", 0};
    if (e->has & KT_HAS_ARGS)
        place_in_view = kt_member_of(e->args, "sort_index");
    if (place_in_view.size && !kt_event_number(place_in_view, &sort))
        r->other_metadata++;
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

static kineto_status take_unread(kt_reader *r, const kt_unread *unread)
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

/* The flows of a batch, with what those of the program's own are called. */
static kineto_status take_flows(kt_reader *r, kt_batch *p)
{
    kineto_status status = KINETO_OK;
    size_t text = 0;
    for (size_t i = 0; status == KINETO_OK && i < p->flows.count; i++) {
        size_t end = r->ends.count;
        status = take_flow(r, p, &p->flows.data[i]);
        if (status == KINETO_OK && text < p->flow_texts.count &&
            p->flow_texts.data[text].flow == i)
            status = take_flow_text(r, &p->flow_texts.data[text++], end);
    }
    return status;
}

static void take_counts(kt_reader *r, const kt_batch *p)
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

kineto_status kt_read_turn(kt_reader *r, kt_batch *p)
{
    if (p->out_of_memory)
        return kt_read_no_memory(r);
    number_texts(r, p);
    number_places(r, p);
    kineto_status status = take_rows(r, p);
    if (status == KINETO_OK)
        status = take_flows(r, p);
    for (size_t i = 0; status == KINETO_OK && i < p->unread.count; i++)
        status = take_unread(r, &p->unread.data[i]);
    for (size_t i = 0; status == KINETO_OK && i < p->sides.count; i++)
        status = take_side(r, p, &p->sides.data[i]);
    take_counts(r, p);
    if (p->repairs.total && !kt_repairs_append(&r->b->trace->repairs, &p->repairs))
        return kt_read_no_memory(r);
    return r->b->status == KINETO_OK ? status : kt_read_no_memory(r);
}
