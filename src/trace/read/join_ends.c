/* Joins begins and ends of ranges (phases B and E, b and e, S and F) into rows, across
 * batches.
 *
 * A begin has a row at once; its end, and the args of its end, are written into the row
 * when all batches are settled. Ranges of a thread nest, and are matched by its stack of
 * open begins; asynchronous ranges are matched by process, id and category, and at the end
 * of the file across processes. Called by commit.c, so always in the order of the file and
 * by one thread at a time. */
#include "trace/read/read.h"

/* ---- begins and ends ------------------------------------------------------------------------- */

/* The key that a begin and its end share: the track, or for asynchronous ranges process, id
 * and category. `anywhere`: for asynchronous ranges across processes: without the process,
 * but with the name. */
static uint64_t hash_match_key(kt_reader *r, kt_batch *p, const kt_side *side, bool anywhere)
{
    kt_place *place = &p->places.data[side->place];
    uint64_t key[5] = {0};
    if (place->type != KINETO_TRACK_ASYNC) {
        key[0] = UINT64_C(1) << 32 | kt_read_track(r, place);
        return kb_hash(key, sizeof key);
    }
    const kt_event *e = &side->event;
    bool named;
    key[0] = anywhere ? UINT64_MAX : kt_read_process(r, place, &named);
    key[1] = kt_event_id(e);
    key[2] = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0;
    key[3] = anywhere && e->has & KT_HAS_NAME ? kt_read_text(r, e->name) : 0;
    key[4] = 1;
    return kb_hash(key, sizeof key);
}

/* True for an asynchronous range whose id is valid in all processes. */
static bool matches_in_all_processes(const kt_batch *p, const kt_side *side)
{
    return p->places.data[side->place].type == KINETO_TRACK_ASYNC &&
           !kt_event_id_is_local(&side->event);
}

kineto_status kt_read_begin(kt_reader *r, kt_batch *p, const kt_side *side)
{
    const kt_event *e = &side->event;
    KB_ASSERT(side->row < p->rows.count && p->rows.data[side->row].place == side->place);
    uint64_t *top = kb_map_insert(&r->open, hash_match_key(r, p, side, false), 0, NULL);
    kt_pending pending = {.row = p->first_row + side->row,
                          .open_end = e->flags & KINETO_ACTIVITY_OPEN_END,
                          .has_key = matches_in_all_processes(p, side),
                          .name = kt_read_name_id(r, p, p->rows.data[side->row].name),
                          .category = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0,
                          .below = top ? *top : 0};
    if (pending.has_key)
        pending.key = hash_match_key(r, p, side, true);
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

/* True if an end with this name and category may belong to the begin. 0, an omitted name or
 * category, matches any. */
static bool begin_matches_end(const kt_pending *begin, uint32_t name, uint32_t category)
{
    return (!name || !begin->name || name == begin->name) &&
           (!category || !begin->category || category == begin->category);
}

/* Number of open begins that are compared with an end, from the innermost one on. */
#define MAX_COMPARED_BEGINS 256u

/* A range of a thread ends: the begins above it on the stack lie inside it, and without an
 * end of their own they end with it. */
static void bound_inner_begins(kt_reader *r, uint64_t top, const kt_pending *ended, int64_t end_ns)
{
    for (uint64_t at = top; at &&
         &r->pending.data[at - 1] != ended; at = r->pending.data[at - 1].below) {
        kt_pending *p = &r->pending.data[at - 1];
        KB_ASSERT(!p->closed && p->below < at); /* the stack holds open begins, newest first */
        if (!p->bounded) {
            p->bounded = true;
            p->end_ns = end_ns;
        }
    }
}

/* Removes the innermost open begin that matches an end from its stack and returns it; NULL:
 * none. An end that matches no begin, or one below others, makes the next ends without a
 * name doubtful. `nests`: the stack is that of a thread, whose ranges nest. */
static kt_pending *pop_matching_begin(kt_reader *r, uint64_t *top, const kt_event *e, bool nests)
{
    uint32_t name = e->has & KT_HAS_NAME ? kt_read_text(r, e->name) : 0;
    uint32_t category = e->has & KT_HAS_CAT ? kt_read_text(r, e->cat) : 0;
    uint64_t *link = top;
    for (uint32_t below = 0; link && *link && below < MAX_COMPARED_BEGINS; below++) {
        KB_ASSERT(*link <= r->pending.count);
        kt_pending *begin = &r->pending.data[*link - 1];
        if (begin_matches_end(begin, name, category)) {
            if (nests)
                bound_inner_begins(r, *top, begin, e->ts_ns);
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

/* The args and columns of an end event; the text is still that of the file. */
static kt_end_args get_end_args(const kt_event *e)
{
    kt_end_args args = {.text = {"", 0},
                        .correlation_id = e->correlation_id,
                        .external_id = e->external_id,
                        .flags = e->flags};
    if (e->has & KT_HAS_ARGS && e->args.size > 2)
        args.text = e->args;
    return args;
}

/* Inserts the hashes of the keys of an object into a map. False: out of memory. */
static bool hash_object_keys(kb_map *keys, kineto_string object)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value;
    bool first = true, ok = kt_scan_open(&scan, '{');
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        ok = kb_map_insert(keys, kb_hash(key.data, key.size), 1, NULL) != NULL;
    return ok;
}

/* Writes the members of an object whose keys are not in the map, each followed by a comma.
 * Returns the end. */
static char *append_other_members(kt_reader *r, char *out, kineto_string object, const kb_map *keys)
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

/* An object with the members of both, in memory of the reader; of a repeated key, the value
 * of the end. data NULL: out of memory. */
static kineto_string join_arg_objects(kt_reader *r, kineto_string begin, kineto_string end)
{
    kb_map keys = {0};
    char *text = kb_arena_alloc(&r->repaired, begin.size + end.size + 1, 1), *at = text;
    bool ok = text && hash_object_keys(&keys, end);
    if (ok) {
        *at++ = '{';
        at = append_other_members(r, at, begin, &keys);
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

/* The position of args in the file, as in kt_block.args; 0: not in the file, or too far or
 * too long. */
static uint64_t position_in_file(const kt_reader *r, kineto_string args)
{
    size_t ready = kb_load_acquire(&r->input->ready_bytes);
    if (args.data < r->input->base || args.data >= r->input->base + ready)
        return 0;
    uint64_t offset = (uint64_t)(args.data - r->input->base);
    return args.size >> 24 || offset >> 40 ? 0 : offset << 24 | args.size;
}

/* Closes a begin, which is open: sets its end, and joins its args with those of the end. */
static kineto_status close_begin_with_end(kt_reader *r, kt_pending *begin, int64_t end_ns,
                                          kt_end_args args)
{
    kineto_string before = {begin->args, begin->args_bytes};
    kt_joined_args joined = {.row = begin->row, .args = args};
    bool ok = true;
    KB_ASSERT(!begin->closed);
    begin->end_ns = end_ns;
    begin->closed = true;
    begin->open_end |= (args.flags & KINETO_ACTIVITY_OPEN_END) || begin->doubtful;
    r->doubtful_ends += begin->doubtful;
    if (args.text.size && before.size)
        joined.args.text = join_arg_objects(r, before, args.text);
    else if (args.text.size && !(joined.word = position_in_file(r, args.text)))
        joined.args.text.data = kb_arena_copy(&r->repaired, args.text.data, args.text.size);
    if (args.text.size)
        ok = joined.args.text.data && kb_vec_push(&r->joined_args, joined);
    free(begin->args);
    begin->args = NULL;
    begin->args_bytes = 0;
    return ok ? KINETO_OK : kt_read_no_memory(r);
}

/* Writes joined args into their row. */
static void write_end_args(kt_reader *r, const kt_joined_args *joined)
{
    KB_ASSERT(joined->row < r->b->trace->count);
    kt_block *block = r->b->trace->blocks.data[joined->row / KT_BLOCK_ROWS];
    uint32_t i = (uint32_t)(joined->row % KT_BLOCK_ROWS);
    uint64_t word = joined->word;
    kt_args_form form = word ? KT_ARGS_IN_FILE : KT_ARGS_JSON;
    const kt_end_args *args = &joined->args;
    if (!word && !kt_block_append_json(r->b, block, args->text, &word)) {
        block->flags[i] |= KINETO_ACTIVITY_ARGS_LOST;
        return;
    }
    block->args[i] = word;
    uint32_t flags = block->flags[i] & ~(3u << 8);
    block->flags[i] = (uint16_t)(flags | (uint32_t)form << 8 | args->flags);
    if (args->correlation_id)
        block->correlation_id[i] = args->correlation_id;
    if (args->external_id)
        block->external_id[i] = args->external_id;
}

void kt_read_write_end_args(kt_reader *r)
{
    for (size_t i = 0; i < r->joined_args.count; i++)
        write_end_args(r, &r->joined_args.data[i]);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* Stores an end whose range may have begun in another process. */
static kineto_status store_loose_end(kt_reader *r, kt_batch *p, const kt_side *side)
{
    kt_loose_end loose = {.key = hash_match_key(r, p, side, true),
                          .end_ns = side->event.ts_ns,
                          .before = r->pending.count,
                          .args = get_end_args(&side->event)};
    kineto_string *text = &loose.args.text; /* copied: the text of the file is released by then */
    if (text->size)
        text->data = kb_arena_copy(&r->repaired, text->data, text->size);
    return text->data && kb_vec_push(&r->loose_ends, loose) ? KINETO_OK : kt_read_no_memory(r);
}

kineto_status kt_read_end(kt_reader *r, kt_batch *p, const kt_side *side)
{
    uint64_t *top = kb_map_find(&r->open, hash_match_key(r, p, side, false));
    bool nests = p->places.data[side->place].type != KINETO_TRACK_ASYNC;
    kt_pending *begin = pop_matching_begin(r, top, &side->event, nests);
    if (begin)
        return close_begin_with_end(r, begin, side->event.ts_ns, get_end_args(&side->event));
    r->unmatched_ends++;
    return matches_in_all_processes(p, side) ? store_loose_end(r, p, side) : KINETO_OK;
}

/* Joins an end with the innermost open begin of its key, unless that starts after it. */
static bool join_loose_end(kt_reader *r, kb_map *open, const kt_loose_end *end)
{
    uint64_t *top = kb_map_find(open, end->key);
    if (!top || !*top)
        return true;
    kt_pending *pending = &r->pending.data[*top - 1];
    if (kt_shifted(end->end_ns, r->used_base_ns) < kt_start(r->b->trace, pending->row))
        return true;
    *top = pending->below;
    r->unmatched_ends--;
    return close_begin_with_end(r, pending, end->end_ns, end->args) == KINETO_OK;
}

kineto_status kt_read_join_processes(kt_reader *r)
{
    kb_map open = {0};
    size_t next = 0;
    bool ok = true;
    for (size_t i = 0; ok && i < r->loose_ends.count; i++) {
        const kt_loose_end *end = &r->loose_ends.data[i];
        KB_ASSERT(!i || end->before >= r->loose_ends.data[i - 1].before);
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
        ok = ok && join_loose_end(r, &open, end);
    }
    kb_map_free(&open);
    return ok ? KINETO_OK : kt_read_no_memory(r);
}
