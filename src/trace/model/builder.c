/* Builds a trace row by row: the sink of recordings (from_recording), files (read), merges
 * and tests.
 *
 * A builder belongs to one thread. The first failure is kept in `status`, later calls do no
 * harm, and kt_builder_finish reports it. Processes, tracks and categories are interned:
 * the same identity has the same index. Rows keep the order in which they are appended. */
#include "trace/model/model.h"

kineto_status kt_builder_create(kt_builder **out, kineto_error *err)
{
    *out = NULL;
    kt_builder *b = calloc(1, sizeof *b);
    kineto_trace *t = calloc(1, sizeof *t);
    if (!b || !t || kb_intern_id(&t->strings, kb_string("")) == KB_INTERN_NONE) {
        free(b);
        free(t);
        return kb_fail_memory(err, "trace");
    }
    t->references = 1;
    pthread_mutex_init(&t->derived.mutex, NULL);
    b->trace = t;
    for (uint32_t kind = 0; kind < KINETO_KIND_COUNT; kind++)
        b->kind_names[kind] = kt_string(b, kb_string(kineto_kind_name(kind)));
    *out = b;
    return KINETO_OK;
}

void kt_builder_destroy(kt_builder *b)
{
    if (!b)
        return;
    kt_store_free(b->store, b->flow_ends.data);
    kineto_trace_release(b->trace);
    kt_store_release(b->store);
    kt_slab_release(b->slab);
    kb_map_free(&b->processes);
    kb_map_free(&b->tracks);
    kb_map_free(&b->categories);
    kb_map_free(&b->metadata);
    kb_vec_free(&b->staged);
    free(b);
}

void kt_builder_store(kt_builder *b, kt_store *store)
{
    b->store = kt_store_retain(store);
    b->trace->store = kt_store_retain(store);
}

/* Keeps the first failure; always false, so that callers can return it. */
static bool fail_builder(kt_builder *b, kineto_status status)
{
    KB_ASSERT(status != KINETO_OK);
    if (b->status == KINETO_OK)
        b->status = status;
    return false;
}

uint32_t kt_string(kt_builder *b, kineto_string s)
{
    uint32_t id = s.size ? kb_intern_id(&b->trace->strings, s) : 0;
    if (id == KB_INTERN_NONE) {
        fail_builder(b, KINETO_E_MEMORY);
        return 0;
    }
    return id;
}

/* ---- processes and tracks -------------------------------------------------------------------- */

static bool is_same_process(const kt_process_row *a, const kt_process_row *b)
{
    return a->is_device == b->is_device && a->pid == b->pid && a->exec == b->exec &&
           a->text == b->text;
}

static uint64_t hash_process(const kt_process_row *p)
{
    uint64_t key[4] = {p->is_device, (uint64_t)p->pid, p->exec, p->text};
    return kb_hash(key, sizeof key);
}

/* Open addressing: identities with the same hash take the next hash values. */
static uint32_t intern_process(kt_builder *b, const kt_process_row *wanted)
{
    kineto_trace *t = b->trace;
    for (uint64_t hash = hash_process(wanted);; hash++) {
        bool created;
        uint64_t *slot = kb_map_insert(&b->processes, hash, t->processes.count, &created);
        if (slot && !created) {
            if (is_same_process(&t->processes.data[*slot], wanted))
                return (uint32_t)*slot;
            continue;
        }
        if (!slot || !kb_vec_push(&t->processes, *wanted))
            return fail_builder(b, KINETO_E_MEMORY);
        return (uint32_t)(t->processes.count - 1);
    }
}

uint32_t kt_process(kt_builder *b, bool is_device, int64_t pid, uint64_t exec)
{
    kt_process_row p = {.is_device = is_device, .rank = -1, .pid = pid, .exec = exec};
    return intern_process(b, &p);
}

/* The number at the end of a text, as in "[TP00] 251"; -1: none. */
static int64_t parse_trailing_number(kineto_string text)
{
    int64_t number = 0, scale = 1;
    size_t at = text.size;
    for (; at > 0 && text.size - at < 18; at--) {
        char digit = text.data[at - 1];
        if (!kb_is_digit(digit))
            break;
        number += scale * (digit - '0');
        scale *= 10;
    }
    return at < text.size && at > 0 && text.data[at - 1] == ' ' ? number : -1;
}

uint32_t kt_process_text(kt_builder *b, kineto_string text)
{
    uint32_t id = kt_string(b, text);
    kt_process_row p = {.rank = -1, .text = id, .name = id, .number = parse_trailing_number(text)};
    p.pid = INT64_MIN + (int64_t)id; /* no process has this pid; it also marks the empty text */
    return intern_process(b, &p);
}

void kt_process_set(kt_builder *b, uint32_t process, const kineto_process *from)
{
    if (process >= b->trace->processes.count)
        return;
    uint32_t name = kt_string(b, from->name), label = kt_string(b, from->label);
    uint32_t host = kt_string(b, from->host), properties = kt_string(b, from->properties_json);
    kt_process_row *p = &b->trace->processes.data[process];
    p->name = name ? name : p->name;
    p->label = label ? label : p->label;
    p->host = host ? host : p->host;
    p->properties = properties ? properties : p->properties;
    p->ppid = from->ppid ? from->ppid : p->ppid;
    p->sort_index = from->sort_index ? from->sort_index : p->sort_index;
    p->rank = from->rank >= 0 ? from->rank : p->rank;
}

uint32_t kt_track_intern(kt_builder *b, const kt_track_row *wanted)
{
    kineto_trace *t = b->trace;
    uint64_t key[4] = {wanted->process, wanted->type, (uint64_t)wanted->id, wanted->text};
    for (uint64_t hash = kb_hash(key, sizeof key);; hash++) {
        bool created;
        uint64_t *slot = kb_map_insert(&b->tracks, hash, t->tracks.count, &created);
        if (slot && !created) {
            const kt_track_row *is = &t->tracks.data[*slot];
            if (is->process == wanted->process && is->type == wanted->type &&
                is->id == wanted->id && is->text == wanted->text)
                return (uint32_t)*slot;
            continue;
        }
        if (!slot || !kb_vec_push(&t->tracks, *wanted))
            return fail_builder(b, KINETO_E_MEMORY);
        return (uint32_t)(t->tracks.count - 1);
    }
}

uint32_t kt_track(kt_builder *b, uint32_t process, kineto_track_type type, int64_t id)
{
    return kt_track_intern(b, &(kt_track_row){.process = process, .type = type, .id = id});
}

uint32_t kt_track_text(kt_builder *b, uint32_t process, kineto_string text)
{
    uint32_t id = kt_string(b, text);
    return kt_track_intern(b, &(kt_track_row){.process = process,
                                              .type = KINETO_TRACK_OTHER,
                                              .id = INT64_MIN + (int64_t)id,
                                              .text = id,
                                              .name = id});
}

void kt_track_set(kt_builder *b, uint32_t track, kineto_string name, int64_t sort_index)
{
    if (track >= b->trace->tracks.count)
        return;
    uint32_t id = kt_string(b, name);
    kt_track_row *row = &b->trace->tracks.data[track];
    row->name = id ? id : row->name;
    row->sort_index = sort_index ? sort_index : row->sort_index;
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* The block that receives the next row; NULL: out of memory. */
static kt_block *open_row_block(kt_builder *b)
{
    if (b->open && b->open->count < KT_BLOCK_ROWS)
        return b->open;
    if (b->open)
        kt_block_shrink(b->open); /* a full block stays where it is, only its args heap shrinks */
    /* The only block of a small trace is in the heap, where it can shrink; others are in slabs. */
    bool first = b->trace->blocks.count == 0;
    b->open = kt_block_create(b->trace->store, first || b->trace->store ? NULL : &b->slab);
    if (b->open && !kb_vec_push(&b->trace->blocks, b->open)) {
        kt_block_release(b->open);
        b->open = NULL;
    }
    return b->open;
}

bool kt_block_append_json(kt_builder *b, kt_block *block, kineto_string json_object, uint64_t *word)
{
    uint64_t offset = block->args_bytes, bytes = json_object.size;
    KB_ASSERT(!block->args_slab);
    if (bytes >> 24 || (offset + bytes) >> 40) {
        b->long_args++;
        return false;
    }
    if (offset + bytes > block->args_capacity && !kt_block_grow_args(block, NULL, offset + bytes))
        return fail_builder(b, KINETO_E_MEMORY);
    memcpy(block->args_heap + offset, json_object.data, bytes);
    block->args_bytes += bytes;
    *word = offset << 24 | bytes;
    return true;
}

kineto_status kt_rows_reserve(kt_builder *b, size_t count, kineto_row *first)
{
    kineto_trace *t = b->trace;
    *first = (kineto_row)t->count;
    if (count >= KINETO_NO_ROW - t->count)
        return KINETO_E_LIMIT;
    while (count) {
        kt_block *block = open_row_block(b);
        if (!block)
            return KINETO_E_MEMORY;
        uint32_t more = (uint32_t)KB_MIN(count, (size_t)(KT_BLOCK_ROWS - block->count));
        KB_ASSERT(t->count % KT_BLOCK_ROWS == block->count % KT_BLOCK_ROWS);
        block->count += more;
        t->count += more;
        count -= more;
    }
    return KINETO_OK;
}

/* Adds a category to the table, whose indices have 16 bits: when it is full, except for the
 * names of the kinds, rows get the name of their kind instead. */
static uint16_t add_category(kt_builder *b, uint32_t kind, uint32_t category, uint32_t id)
{
    kineto_trace *t = b->trace;
    if (t->categories.count > UINT16_MAX - KINETO_KIND_COUNT && category) {
        b->lost_categories++;
        return kt_category_find(b, kind, 0);
    }
    if (!kb_map_insert(&b->categories, id, t->categories.count, NULL) ||
        !kb_vec_push(&t->categories, id)) {
        fail_builder(b, KINETO_E_MEMORY);
        return 0;
    }
    return (uint16_t)(t->categories.count - 1);
}

/* Rows come in runs of one kind: two recent categories are cached, by the parity of the kind. */
static uint16_t find_category_index(kt_builder *b, uint32_t kind, uint32_t category)
{
    uint32_t id = category ? category : b->kind_names[kind];
    id = category == KT_NO_CATEGORY ? 0 : id;
    kt_category_hint *hint = &b->category_hints[kind & 1];
    if (KINETO_LIKELY(hint->valid && hint->id == id))
        return hint->index;
    uint64_t *known = kb_map_find(&b->categories, id);
    if (!known)
        return add_category(b, kind, category, id);
    *hint = (kt_category_hint){id, (uint16_t)*known, true};
    return hint->index;
}

uint16_t kt_category_find(kt_builder *b, uint32_t kind, uint32_t category)
{
    uint16_t index = find_category_index(b, kind, category);
    if (!category && index < UINT16_MAX && b->status == KINETO_OK)
        b->kind_category[kind] = index + 1;
    return index;
}

/* Args that stay in the text of the file: returns their word, see kt_block.args. */
static uint64_t share_staged_args(kt_builder *b, kt_block *block, uint32_t *flags)
{
    b->staged_form = KT_ARGS_NONE;
    if (!kt_block_add_text(block, block->count, b->staged_text)) {
        fail_builder(b, KINETO_E_MEMORY);
        return 0;
    }
    *flags |= (uint32_t)KT_ARGS_IN_FILE << 8;
    return b->staged_word;
}

/* Moves the staged args into the block's heap, and returns their word, see kt_block.args. */
static uint64_t move_staged_args(kt_builder *b, kt_block *block, uint32_t *flags)
{
    uint64_t bytes = b->staged.count, offset = block->args_bytes;
    kt_args_form form = b->staged_form;
    if (form == KT_ARGS_NONE)
        return 0;
    if (form == KT_ARGS_IN_FILE)
        return share_staged_args(b, block, flags);
    b->staged.count = 0;
    b->staged_form = KT_ARGS_NONE;
    if (!bytes)
        return 0;
    if (bytes >> 24 || (offset + bytes) >> 40) {
        b->long_args++;
        *flags |= KINETO_ACTIVITY_ARGS_LOST;
        return 0;
    }
    if (offset + bytes > block->args_capacity &&
        !kt_block_grow_args(block, &b->slab, offset + bytes)) {
        fail_builder(b, KINETO_E_MEMORY);
        return 0;
    }
    if (bytes == KT_ARG_HEAD) /* only a set, the most frequent case: a copy of constant size */
        memcpy(block->args_heap + offset, b->staged.data, KT_ARG_HEAD);
    else
        memcpy(block->args_heap + offset, b->staged.data, bytes);
    block->args_bytes += bytes;
    *flags |= (uint32_t)form << 8;
    return offset << 24 | bytes;
}

/* Checks what a caller may get wrong, and records the id of an asynchronous row. */
static bool check_row(kt_builder *b, const kt_row *row)
{
    if (row->track >= b->trace->tracks.count || row->form > KINETO_FORM_COUNTER)
        return fail_builder(b, KINETO_E_ARGUMENT);
    if (b->trace->count == KINETO_NO_ROW)
        return fail_builder(b, KINETO_E_LIMIT);
    if (row->form != KINETO_FORM_ASYNC || !row->async_id)
        return true;
    kt_async_row async = {(kineto_row)b->trace->count, row->async_id};
    if (!kt_store_push(b->trace->store, &b->trace->async_ids, async))
        return fail_builder(b, KINETO_E_MEMORY);
    return true;
}

kineto_row kt_append(kt_builder *b, const kt_row *row)
{
    kt_block *block = open_row_block(b);
    if (!block)
        fail_builder(b, KINETO_E_MEMORY);
    if (!block || !check_row(b, row)) {
        b->staged.count = 0;
        return KINETO_NO_ROW;
    }
    KB_ASSERT(block->count < KT_BLOCK_ROWS);
    KB_ASSERT(b->trace->count == (b->trace->blocks.count - 1) * KT_BLOCK_ROWS + block->count);
    uint32_t i = block->count, kind = row->kind, flags = row->flags & (0xff | KT_WRITER(3));
    int64_t end = row->end_ns;
    if (kind >= KINETO_KIND_COUNT) {
        kind = KINETO_KIND_USER_ANNOTATION;
        b->unknown_kinds++;
    }
    int64_t length;
    if (end < row->start_ns) {
        end = row->start_ns;
        b->negative_durations++;
    } else if (__builtin_sub_overflow(end, row->start_ns, &length)) {
        end = row->start_ns + INT64_MAX; /* a duration must fit into 64 bits */
    }
    block->args[i] = move_staged_args(b, block, &flags);
    block->start_ns[i] = row->start_ns;
    block->end_ns[i] = end;
    block->name[i] = row->name;
    block->track[i] = row->track;
    block->kind[i] = (uint8_t)kind;
    block->form[i] = (uint8_t)row->form;
    block->category[i] = kt_category_index(b, kind, row->category);
    block->flags[i] = (uint16_t)flags;
    b->trace->has_writers |= KT_WRITER_OF(flags) != 0;
    block->correlation_id[i] = row->correlation_id;
    block->external_id[i] = row->external_id;
    block->min_start_ns = KB_MIN(block->min_start_ns, row->start_ns);
    block->max_end_ns = KB_MAX(block->max_end_ns, end);
    block->kinds |= KINETO_KIND_BIT(kind);
    block->count++;
    b->trace->tracks.data[row->track].count++;
    return (kineto_row)b->trace->count++;
}

void kt_flow(kt_builder *b, uint32_t type, uint64_t id, kineto_row row, bool start)
{
    kt_flow_end end = {.id = id, .row = row, .type = type & KT_FLOW_TYPES, .start = start};
    if (!kt_store_push(b->store, &b->flow_ends, end))
        fail_builder(b, KINETO_E_MEMORY);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void kt_ledger_add(kt_builder *b, kineto_string source, kineto_string reason, uint64_t count,
                   bool is_loss, kineto_string detail)
{
    kt_ledger_row row = {.source = kt_string(b, source),
                         .reason = kt_string(b, reason),
                         .detail = kt_string(b, detail),
                         .is_loss = is_loss,
                         .count = count};
    if (!kb_vec_push(&b->trace->ledger, row))
        fail_builder(b, KINETO_E_MEMORY);
}

/* Turns invalid JSON into valid JSON: replaces bytes that are not UTF-8, and if that does
 * not suffice, writes the text as a JSON string. Returns its string id, 0: out of memory. */
static uint32_t intern_as_valid_json(kt_builder *b, kineto_string text)
{
    uint64_t replaced = 0;
    char *buffer = malloc(6 * text.size + 2);
    if (!buffer)
        return fail_builder(b, KINETO_E_MEMORY);
    kineto_string made = {buffer, (size_t)(kb_utf8_clean(buffer, text, &replaced) - buffer)};
    if (!kb_json_valid(made))
        made.size = (size_t)(kb_json_escape(buffer, text, &replaced) - buffer);
    uint32_t id = kt_string(b, made);
    free(buffer);
    return id;
}

void kt_metadata(kt_builder *b, kineto_string key, kineto_string json_value)
{
    kineto_trace *t = b->trace;
    kt_meta_row row = {kt_string(b, key), 0};
    row.value = kb_json_valid(json_value) ? kt_string(b, json_value)
                                          : intern_as_valid_json(b, json_value);
    bool created;
    uint64_t *slot = kb_map_insert(&b->metadata, row.key, t->metadata.count, &created);
    if (slot && !created)
        t->metadata.data[*slot] = row;
    else if (!slot || !kb_vec_push(&t->metadata, row))
        fail_builder(b, KINETO_E_MEMORY);
}

void kt_snapshot(kt_builder *b, const kb_clock_snapshot *snapshot)
{
    if (!kb_vec_push(&b->trace->snapshots, *snapshot))
        fail_builder(b, KINETO_E_MEMORY);
}

int kt_own_kind_find(const kt_builder *b, kineto_string category)
{
    const kineto_trace *t = b->trace;
    for (size_t i = 0; i < t->own_kinds.count; i++)
        if (kb_string_equal(kb_intern_get(&t->strings, t->own_kinds.data[i].category), category))
            return (int)t->own_kinds.data[i].kind;
    return -1;
}

void kt_own_kind(kt_builder *b, kineto_string category, uint32_t kind)
{
    bool known = kt_own_kind_find(b, category) >= 0;
    if (known || !category.size || kind >= KINETO_KIND_COUNT ||
        b->trace->own_kinds.count >= KT_MAX_OWN_KINDS)
        return;
    kt_own_kind_row row = {kt_string(b, category), kind};
    if (!kb_vec_push(&b->trace->own_kinds, row))
        fail_builder(b, KINETO_E_MEMORY);
}

void kt_window(kt_builder *b, int64_t start_ns, int64_t end_ns)
{
    b->trace->has_window = true;
    b->trace->window_start_ns = start_ns;
    b->trace->window_end_ns = KB_MAX(start_ns, end_ns);
}

/* ---- finish ---------------------------------------------------------------------------------- */

/* Without a stated window, the window is the range of all rows. */
static void set_window_from_rows(kineto_trace *t)
{
    if (t->has_window || !t->count)
        return;
    t->window_start_ns = INT64_MAX;
    t->window_end_ns = INT64_MIN;
    for (size_t i = 0; i < t->blocks.count; i++) {
        const kt_block *block = t->blocks.data[i];
        t->window_start_ns = KB_MIN(t->window_start_ns, block->min_start_ns);
        t->window_end_ns = KB_MAX(t->window_end_ns, block->max_end_ns);
    }
}

/* Insertion sort by key, bytewise: headers have some tens of keys. */
static void sort_metadata_rows(kineto_trace *t)
{
    for (size_t i = 1; i < t->metadata.count; i++) {
        kt_meta_row row = t->metadata.data[i];
        kineto_string key = kb_intern_get(&t->strings, row.key);
        size_t at = i;
        for (; at > 0; at--) {
            kineto_string other = kb_intern_get(&t->strings, t->metadata.data[at - 1].key);
            int order = memcmp(key.data, other.data, KB_MIN(key.size, other.size));
            if (order > 0 || (order == 0 && key.size >= other.size))
                break;
            t->metadata.data[at] = t->metadata.data[at - 1];
        }
        t->metadata.data[at] = row;
    }
}

/* Adds ledger lines for what the builder itself changed or dropped. */
static void add_builder_ledger(kt_builder *b)
{
    const struct {
        uint64_t count;
        const char *reason;
    } lines[] = {{b->negative_durations, "end before start: duration set to 0"},
                 {b->unknown_kinds, "unknown kind: shown as user_annotation"},
                 {b->long_args, "arguments over 16 MiB dropped"},
                 {b->lost_categories, "more than 65 thousand categories: shown as their kind"}};
    for (size_t i = 0; i < KB_COUNT(lines); i++)
        if (lines[i].count)
            kt_ledger_add(b, kb_string("trace"), kb_string(lines[i].reason), lines[i].count, false,
                          kb_string(""));
}

kineto_status kt_builder_finish(kt_builder *b, kineto_trace **out, kineto_error *err)
{
    *out = NULL;
    kineto_trace *t = b->trace;
    if (!t)
        return kb_fail(err, KINETO_E_STATE, "the trace is already finished");
    KB_ASSERT(b->staged_form == KT_ARGS_NONE || b->status != KINETO_OK || !b->staged.count);
    add_builder_ledger(b);
    kt_stated_flows flows = {.ends = b->flow_ends.data, .count = b->flow_ends.count};
    if (b->status == KINETO_OK && !kt_join_flows(t, &flows))
        fail_builder(b, KINETO_E_MEMORY);
    if (b->status == KINETO_E_MEMORY)
        return kb_fail(err, b->status, "no memory for a trace of %llu activities",
                       (unsigned long long)t->count);
    if (b->status == KINETO_E_LIMIT)
        return kb_fail(err, b->status, "a trace cannot hold more than 2^32 - 1 activities");
    if (b->status != KINETO_OK)
        return kb_fail(err, b->status, "an activity names a track or form that does not exist");
    if (b->open)
        t->blocks.data[t->blocks.count - 1] = kt_block_shrink(b->open);
    b->open = NULL;
    kt_store_free(b->store, b->flow_ends.data);
    memset(&b->flow_ends, 0, sizeof b->flow_ends);
    set_window_from_rows(t);
    sort_metadata_rows(t);
    b->trace = NULL;
    *out = t;
    return KINETO_OK;
}
