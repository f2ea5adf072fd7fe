/* The "args" of an event, on two paths. The fast path copies packed args in their order. The
 * general path handles everything else: an order that depends on the kind, verbatim JSON, repeated
 * keys, and args of any size. No object ever gets the same key twice: a second one becomes "key
 * (2)". */
#include "export/chrome.h"

#include "trace/bytes/json_text.h"

#define KIND_MASK(bit) (KINETO_KIND_BIT(KINETO_KIND_##bit))
/* Activities whose arguments have a fixed order, with "correlation" in the middle. */
#define DEVICE_KINDS (KIND_MASK(CONCURRENT_KERNEL) | KIND_MASK(GPU_MEMCPY) | KIND_MASK(GPU_MEMSET))
#define PLACED_KINDS (DEVICE_KINDS | KIND_MASK(CUDA_SYNC) | KIND_MASK(CUDA_EVENT))
#define CALL_KINDS                                                                                 \
    (KIND_MASK(RUNTIME) | KIND_MASK(DRIVER) | KIND_MASK(CUDA_SYNC) | KIND_MASK(CUDA_EVENT))

static const char *const device_order[] = {"External id",
                                           "queued",
                                           "device",
                                           "fromDevice",
                                           "inDevice",
                                           "toDevice",
                                           "fromContext",
                                           "inContext",
                                           "toContext",
                                           "context",
                                           "stream",
                                           "correlation",
                                           "bytes",
                                           "memory bandwidth (GB/s)",
                                           "registers per thread",
                                           "shared memory",
                                           "blocks per SM",
                                           "warps per SM",
                                           "grid",
                                           "block",
                                           "est. achieved occupancy %",
                                           "occupancy",
                                           "graph id",
                                           "graph node id",
                                           "priority",
                                           "channel",
                                           "channel_type"};
static const char *const call_order[] = {"External id",
                                         "cbid",
                                         "cuda_sync_kind",
                                         "event_id",
                                         "wait_on_stream",
                                         "wait_on_cuda_event_record_corr_id",
                                         "wait_on_cuda_event_id",
                                         "stream",
                                         "correlation",
                                         "device",
                                         "context"};
static const char *const plain_order[] = {"External id"};
#define MAX_RANKS 32

/* The members that columns and flags of a row add to its args: KE_COLUMN_… */
static uint32_t args_columns(const ke_chrome *c, const kt_block *b, uint32_t i)
{
    uint32_t columns = 0, flags = b->flags[i];
    if (b->form[i] == KINETO_FORM_COUNTER && !c->was_read)
        return 0; /* args of a counter are its series; those of a file are kept */
    if (b->external_id[i])
        columns |= KE_COLUMN_EXTERNAL;
    if (b->correlation_id[i])
        columns |= KE_COLUMN_CORRELATION;
    if (flags & KINETO_ACTIVITY_OPEN_END)
        columns |= KE_COLUMN_FINISHED;
    if (flags & KINETO_ACTIVITY_OPEN_START)
        columns |= KE_COLUMN_STARTED;
    if (flags & KINETO_ACTIVITY_ARGS_LOST)
        columns |= KE_COLUMN_LOST;
    if (KINETO_KIND_BIT(b->kind[i]) & PLACED_KINDS && !c->was_read)
        columns |= KE_COLUMN_PLACE;
    return columns;
}

/* The column that a member of this name repeats; 0: none. */
static uint16_t column_named(kineto_string key)
{
    static const struct {
        const char *key;
        uint16_t column;
    } known[] = {{"External id", KE_COLUMN_EXTERNAL},    {"external id", KE_COLUMN_EXTERNAL},
                 {"correlation", KE_COLUMN_CORRELATION}, {"finished", KE_COLUMN_FINISHED},
                 {"started", KE_COLUMN_STARTED},         {"arguments lost", KE_COLUMN_LOST}};
    for (size_t i = 0; i < KB_COUNT(known); i++)
        if (kb_string_equal(key, kb_string(known[i].key)))
            return known[i].column;
    return 0;
}

/* ---- the fast path --------------------------------------------------------------------------- */

/* The slot of a key, stamped with this event; NULL: the general path has to be taken. */
static inline ke_key_slot *use_key_slot(ke_chrome *c, uint32_t key, uint32_t columns);

/* Escapes a key into a slot. False: it is too long, holds invalid bytes, or the slot is used by
 * this event. */
static KB_COLD bool fill_key_slot(ke_chrome *c, ke_key_slot *slot, uint32_t key)
{
    kineto_string name = kineto_trace_string(c->trace, key);
    char text[6 * sizeof slot->text + 8], *at = text;
    uint64_t replaced = 0;
    if (slot->stamp == c->stamp || name.size + 4 > sizeof slot->text)
        return false;
    *at++ = ',';
    at = kb_json_escape(at, name, &replaced);
    *at++ = ':';
    if (replaced || (size_t)(at - text) > sizeof slot->text)
        return false;
    slot->key = key + 1;
    slot->size = (uint16_t)(at - text);
    slot->columns = column_named(name);
    memcpy(slot->text, text, slot->size);
    return true;
}

static inline ke_key_slot *use_key_slot(ke_chrome *c, uint32_t key, uint32_t columns)
{
    ke_key_slot *slot = &c->keys[key & (KE_KEY_SLOTS - 1)];
    if (KINETO_UNLIKELY(slot->key != key + 1) && !fill_key_slot(c, slot, key))
        return NULL;
    if (KINETO_UNLIKELY(slot->stamp == c->stamp || (slot->columns & columns)))
        return NULL;
    slot->stamp = c->stamp;
    return slot;
}

/* `out` has room for the value: KE_FAST_ARGS bounds texts on the fast path. */
static inline char *put_arg_value(char *out, const kt_arg *arg, uint64_t *replaced)
{
    switch (arg->type) {
    case KINETO_ARG_INT:
        if ((uint64_t)arg->i < 10) { /* most are flags, ranks, small counts */
            *out = (char)('0' + arg->i);
            return out + 1;
        }
        return kb_json_format_int(out, arg->i);
    case KINETO_ARG_UINT:
        return kb_json_format_uint(out, arg->u);
    case KINETO_ARG_DOUBLE:
        return kb_json_format_double(out, arg->d);
    case KINETO_ARG_BOOL:
        return arg->u ? (KE_PUT(out, "true"), out) : (KE_PUT(out, "false"), out);
    case KINETO_ARG_STRING:
        return kb_json_escape(out, arg->text, replaced);
    default:
        memcpy(out, arg->text.data, arg->text.size);
        return out + arg->text.size;
    }
}

/* `,"name":false` for the flags of a row. */
static char *put_flag_members(char *out, uint32_t columns)
{
    if (columns & KE_COLUMN_FINISHED)
        KE_PUT(out, ",\"finished\":false");
    if (columns & KE_COLUMN_STARTED)
        KE_PUT(out, ",\"started\":false");
    if (columns & KE_COLUMN_LOST)
        KE_PUT(out, ",\"arguments lost\":true");
    return out;
}

/* NULL: nothing was written; take the general path. Every member begins with a comma; the first
 * comma is overwritten by the opening brace. */
static char *put_args_fast(ke_chrome *c, char *out, const kt_block *b, uint32_t i, uint32_t columns)
{
    uint64_t replaced = 0;
    KE_PUT(out, ",\"args\":");
    char *first = out;
    if (columns & KE_COLUMN_EXTERNAL) {
        KE_PUT(out, ",\"External id\":");
        out = kb_json_format_uint(out, b->external_id[i]);
    }
    c->stamp++;
    kt_args args = kt_args_of(c->trace, b, i);
    kt_arg arg = {0};
    /* Including those of its set. */
    if (KINETO_UNLIKELY(kt_args_bytes(&args) > KE_FAST_ARGS))
        return NULL;
    /* For texts that are stored elsewhere. */
    size_t room = KE_FAST_ARGS - kt_args_bytes(&args);
    while (kt_args_step(&args, &arg)) {
        const ke_key_slot *slot = use_key_slot(c, arg.key, columns);
        if (KINETO_UNLIKELY(!slot || (arg.shared && arg.text.size > room)))
            return NULL;
        room -= arg.shared ? arg.text.size : 0;
        memcpy(out, slot->text, 32);
        if (KINETO_UNLIKELY(slot->size > 32))
            memcpy(out + 32, slot->text + 32, sizeof slot->text - 32);
        out = put_arg_value(out + slot->size, &arg, &replaced);
    }
    if (columns & KE_COLUMN_CORRELATION) {
        KE_PUT(out, ",\"correlation\":");
        out = kb_json_format_uint(out, b->correlation_id[i]);
    }
    if (KINETO_UNLIKELY(columns & (KE_COLUMN_FINISHED | KE_COLUMN_STARTED | KE_COLUMN_LOST)))
        out = put_flag_members(out, columns);
    c->replaced += replaced;
    if (out == first)
        return out - (sizeof ",\"args\":" - 1);
    *first = '{';
    *out++ = '}';
    return out;
}

/* ---- the general path: collecting ------------------------------------------------------------ */

/* Sets the error that the writer reports at the end. Always false. */
static bool fail_args_memory(ke_chrome *c)
{
    c->out_of_memory = true;
    return false;
}

/* Adds a member and escapes its key. */
static bool add_member(ke_chrome *c, kineto_string key, const kt_arg *arg)
{
    ke_member m = {.key_at = c->keys_text.count, .arg = *arg};
    if (key.size > SIZE_MAX / 8 ||
        !kb_vec_reserve(&c->keys_text, c->keys_text.count + 6 * key.size + 2))
        return fail_args_memory(c);
    char *from = c->keys_text.data + m.key_at;
    m.key_size = (size_t)(kb_json_escape(from, key, &c->replaced) - from);
    c->keys_text.count += m.key_size;
    return kb_vec_push(&c->members, m) || fail_args_memory(c);
}

static bool add_uint_member(ke_chrome *c, const char *key, uint64_t value)
{
    return add_member(c, kb_string(key), &(kt_arg){.type = KINETO_ARG_UINT, .u = value});
}

static bool add_bool_member(ke_chrome *c, const char *key, bool value)
{
    return add_member(c, kb_string(key), &(kt_arg){.type = KINETO_ARG_BOOL, .u = value});
}

/* Adds packed args with the keys of the trace. False: out of memory. */
static bool add_packed_members(ke_chrome *c, const kt_block *b, uint32_t i)
{
    kt_args args = kt_args_of(c->trace, b, i);
    kt_arg arg = {0};
    while (kt_args_step(&args, &arg))
        if (!add_member(c, kineto_trace_string(c->trace, arg.key), &arg))
            return false;
    return true;
}

/* A member that a reader moved into a column gets the column's present value. It keeps its text if
 * the column is empty, or was written before. Clears the column from *columns. */
static void replace_by_column(const kt_block *b, uint32_t i, uint32_t column, uint32_t *columns,
                              kt_arg *arg)
{
    bool is_id = column & (KE_COLUMN_EXTERNAL | KE_COLUMN_CORRELATION);
    if (is_id && (*columns & column))
        *arg =
            (kt_arg){.type = KINETO_ARG_UINT,
                     .u = column == KE_COLUMN_EXTERNAL ? b->external_id[i] : b->correlation_id[i]};
    *columns &= ~column;
}

/* Adds one member of verbatim JSON. The key is unescaped only if it needs it. */
static bool add_verbatim_pair(ke_chrome *c, const kt_block *b, uint32_t i, kineto_string raw_key,
                              kineto_string value, uint32_t *columns)
{
    kt_arg arg = {.type = KINETO_ARG_JSON, .text = value};
    kineto_string key = raw_key;
    uint64_t replaced = 0;
    char *room = NULL;
    if (memchr(raw_key.data, '\\', raw_key.size)) {
        room = malloc(raw_key.size);
        if (!room)
            return fail_args_memory(c);
        key = (kineto_string){room, (size_t)(kt_json_unescape(room, raw_key, &replaced) - room)};
    }
    if (kt_args_member_is_column(key, value, b->flags[i]))
        replace_by_column(b, i, column_named(key), columns, &arg);
    bool ok = add_member(c, key, &arg);
    free(room);
    return ok;
}

/* Verbatim members keep spelling and order; columns appear under the key that they had. Columns
 * that are not among them stay in *columns. */
static bool add_verbatim_members(ke_chrome *c, const kt_block *b, uint32_t i, uint32_t *columns)
{
    kt_scan scan = kt_scan_of(kt_args_text(c->trace, c->row));
    bool first = true, ok = kt_scan_open(&scan, '{');
    kineto_string key, value;
    while (ok && kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            break;
        ok = add_verbatim_pair(c, b, i, key, value, columns);
    }
    return ok;
}

/* Compares escaped keys, which is exact for keys without escapes. */
static bool has_member_key(const ke_chrome *c, const char *key)
{
    size_t size = strlen(key);
    for (size_t i = 0; i < c->members.count; i++) {
        const ke_member *m = &c->members.data[i];
        const char *text = c->keys_text.data + m->key_at;
        if (m->key_size == size + 2 && memcmp(text + 1, key, size) == 0)
            return true;
    }
    return false;
}

/* Tools read the device and stream of device work from its args. */
static bool add_device_and_stream(ke_chrome *c, const kt_block *b, uint32_t i)
{
    const kineto_track *track = &c->tracks[b->track[i]].view;
    kineto_process process;
    kineto_trace_process(c->trace, track->process, &process);
    if (!process.is_device || track->type != KINETO_TRACK_STREAM)
        return true;
    kt_arg device = {.type = KINETO_ARG_INT, .i = process.pid};
    kt_arg stream = {.type = KINETO_ARG_INT, .i = track->id};
    return (has_member_key(c, "device") || add_member(c, kb_string("device"), &device)) &&
           (has_member_key(c, "stream") || add_member(c, kb_string("stream"), &stream));
}

/* Collects members; columns come first, so that in a conflict the argument is renamed. Columns that
 * are not among the members stay in *columns. */
static bool collect_members(ke_chrome *c, const kt_block *b, uint32_t i, uint32_t *columns)
{
    c->members.count = 0;
    c->keys_text.count = 0;
    if (kt_args_form_of(b, i) == KT_ARGS_JSON)
        return add_verbatim_members(c, b, i, columns) && !c->out_of_memory;
    if (*columns & KE_COLUMN_EXTERNAL && !add_uint_member(c, "External id", b->external_id[i]))
        return false;
    if (!add_packed_members(c, b, i) ||
        (*columns & KE_COLUMN_PLACE && !add_device_and_stream(c, b, i)))
        return false;
    *columns &= ~(uint32_t)KE_COLUMN_EXTERNAL;
    return !c->out_of_memory;
}

/* Adds the columns that are still in `columns` after the members were collected. */
static bool collect_columns(ke_chrome *c, const kt_block *b, uint32_t i, uint32_t columns)
{
    if (columns & KE_COLUMN_EXTERNAL && !add_uint_member(c, "External id", b->external_id[i]))
        return false;
    if (columns & KE_COLUMN_CORRELATION && !add_uint_member(c, "correlation", b->correlation_id[i]))
        return false;
    if (columns & KE_COLUMN_FINISHED && !add_bool_member(c, "finished", false))
        return false;
    if (columns & KE_COLUMN_STARTED && !add_bool_member(c, "started", false))
        return false;
    return !(columns & KE_COLUMN_LOST) || add_bool_member(c, "arguments lost", true);
}

/* ---- the general path: unique keys ----------------------------------------------------------- */

static kineto_string member_key(const ke_chrome *c, const ke_member *m)
{
    return (kineto_string){c->keys_text.data + m->key_at, m->key_size};
}

/* Puts a number after a key, before its closing quote. */
static bool rename_member_key(ke_chrome *c, ke_member *m, size_t original_size, uint64_t number)
{
    char suffix[32];
    int size = snprintf(suffix, sizeof suffix, " (%llu)\"", (unsigned long long)number);
    if (!kb_vec_reserve(&c->keys_text, c->keys_text.count + original_size + (size_t)size))
        return fail_args_memory(c);
    char *to = c->keys_text.data + c->keys_text.count;
    memcpy(to, c->keys_text.data + m->key_at, original_size - 1);
    memcpy(to + original_size - 1, suffix, (size_t)size);
    m->key_at = c->keys_text.count;
    m->key_size = original_size - 1 + (size_t)size;
    c->keys_text.count += m->key_size;
    return true;
}

/* `seen` maps the hash of a key to the next number to try. Equal hashes count as equal keys. */
static bool make_key_unique(ke_chrome *c, kb_map *seen, ke_member *m)
{
    size_t original = m->key_size;
    kineto_string key = member_key(c, m);
    uint64_t hash = kb_hash(key.data, key.size), number;
    bool created;
    uint64_t *next = kb_map_insert(seen, hash, 2, &created);
    if (!next)
        return fail_args_memory(c);
    for (number = *next; !created; number++) {
        if (!rename_member_key(c, m, original, number))
            return false;
        key = member_key(c, m);
        if (!kb_map_insert(seen, kb_hash(key.data, key.size), 2, &created))
            return fail_args_memory(c);
    }
    *kb_map_find(seen, hash) = number; /* the table may have moved */
    return true;
}

static bool have_same_key(const ke_chrome *c, size_t a, size_t b)
{
    return kb_string_equal(member_key(c, &c->members.data[a]), member_key(c, &c->members.data[b]));
}

/* Compares few members with each other, which is the usual case; many go through the map. */
static bool has_unique_keys(const ke_chrome *c)
{
    if (c->members.count > 48)
        return false;
    for (size_t i = 1; i < c->members.count; i++)
        for (size_t k = 0; k < i; k++)
            if (have_same_key(c, i, k))
                return false;
    return true;
}

/* Columns take their keys first, wherever they stand. */
static bool make_keys_unique(ke_chrome *c, size_t first_column, size_t count)
{
    kb_map seen = {0};
    bool ok = true;
    if (has_unique_keys(c))
        return true;
    for (size_t i = first_column; ok && i < count; i++)
        ok = make_key_unique(c, &seen, &c->members.data[i]);
    for (size_t i = 0; ok && i < first_column; i++)
        ok = make_key_unique(c, &seen, &c->members.data[i]);
    kb_map_free(&seen);
    return ok;
}

/* ---- the general path: writing --------------------------------------------------------------- */

void ke_write_string(ke_chrome *c, kineto_string s)
{
    kb_json json;
    kb_json_init(&json, c->sink);
    kb_json_string(&json, s);
    c->replaced += json.replaced_bytes;
}

void ke_write_valid(ke_chrome *c, kineto_string json)
{
    for (kineto_string piece; (piece = kb_utf8_next(&json, &c->replaced)).size;)
        kb_sink_write(c->sink, piece.data, piece.size);
}

/* White space between tokens is dropped, so that events stay on their lines. */
void ke_write_compact(ke_chrome *c, kineto_string json)
{
    bool valid = kb_utf8_valid_prefix(json.data, json.size) == json.size;
    for (kineto_string piece; (piece = ke_compact_next(&json)).size;) {
        if (KINETO_LIKELY(valid))
            kb_sink_write(c->sink, piece.data, piece.size);
        else
            ke_write_valid(c, piece);
    }
}

/* Writes one member with the character `before` before it. */
static void write_args_member(ke_chrome *c, const ke_member *m, char before)
{
    kineto_string key = member_key(c, m);
    kb_sink_write(c->sink, &before, 1);
    kb_sink_write(c->sink, key.data, key.size);
    kb_sink_write(c->sink, ":", 1);
    if (m->arg.type == KINETO_ARG_STRING) {
        ke_write_string(c, m->arg.text);
    } else if (m->arg.type > KINETO_ARG_STRING) {
        ke_write_compact(c, m->arg.text);
    } else {
        char *out = kb_sink_reserve(c->sink, 64);
        ke_commit(c, put_arg_value(out, &m->arg, NULL));
    }
}

/* The position of a key in the order; `count`: it is not part of it. */
static size_t order_of_key(kineto_string escaped, const char *const *order, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t size = strlen(order[i]);
        if (escaped.size == size + 2 && memcmp(escaped.data + 1, order[i], size) == 0)
            return i;
    }
    return count;
}

/* Members of the order first, then all others as they came. */
static void write_ordered_members(ke_chrome *c, const char *const *order, size_t ranks)
{
    const ke_member *ranked[MAX_RANKS] = {NULL};
    KB_ASSERT(ranks <= MAX_RANKS);
    char before = '{';
    for (size_t i = 0; i < c->members.count; i++) {
        size_t rank = order_of_key(member_key(c, &c->members.data[i]), order, ranks);
        if (rank < ranks)
            ranked[rank] = &c->members.data[i];
    }
    for (size_t i = 0; i < ranks; i++) {
        if (!ranked[i])
            continue;
        write_args_member(c, ranked[i], before);
        before = ',';
    }
    for (size_t i = 0; i < c->members.count; i++) {
        const ke_member *m = &c->members.data[i];
        size_t rank = order_of_key(member_key(c, m), order, ranks);
        if (rank < ranks)
            continue;
        write_args_member(c, m, before);
        before = ',';
    }
}

/* Returns the new end; if memory runs out, the event has no args. */
static KB_COLD char *put_args_general(ke_chrome *c, char *out, const kt_block *b, uint32_t i,
                                      uint32_t columns)
{
    bool as_it_was = kt_args_form_of(b, i) == KT_ARGS_JSON;
    if (!collect_members(c, b, i, &columns))
        return out;
    size_t first_column = c->members.count;
    if (!collect_columns(c, b, i, columns) || !make_keys_unique(c, first_column, c->members.count))
        return out;
    if (!c->members.count)
        return out;
    uint64_t kind = KINETO_KIND_BIT(b->kind[i]);
    KE_PUT(out, ",\"args\":");
    ke_commit(c, out);
    if (as_it_was)
        write_ordered_members(c, NULL, 0);
    else if (kind & DEVICE_KINDS)
        write_ordered_members(c, device_order, KB_COUNT(device_order));
    else if (kind & CALL_KINDS)
        write_ordered_members(c, call_order, KB_COUNT(call_order));
    else
        write_ordered_members(c, plain_order, KB_COUNT(plain_order));
    kb_sink_write(c->sink, "}", 1);
    return kb_sink_reserve(c->sink, c->room);
}

/* The common case, packed args without a fixed order and of moderate size, takes the fast path. */
char *ke_put_args(ke_chrome *c, char *out, const kt_block *b, uint32_t i)
{
    uint32_t columns = args_columns(c, b, i);
    uint64_t bytes = b->args[i] & 0xffffff;
    if (!columns && !bytes)
        return out;
    bool ordered = KINETO_KIND_BIT(b->kind[i]) & (DEVICE_KINDS | CALL_KINDS);
    if (KINETO_LIKELY(!ordered && bytes <= KE_FAST_ARGS && kt_args_form_of(b, i) != KT_ARGS_JSON)) {
        char *end = put_args_fast(c, out, b, i, columns);
        if (KINETO_LIKELY(end != NULL))
            return end;
    }
    return put_args_general(c, out, b, i, columns);
}
