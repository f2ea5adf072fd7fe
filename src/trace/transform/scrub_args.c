/* Scrubs args and JSON of the header: keys, and values by the class of their keys. JSON is
 * rewritten value by value; numbers stay unless their key is private or holds sizes. */
#include "trace/bytes/json_text.h"
#include "trace/transform/scrub.h"

static void append_json(kt_scrub *s, kineto_string text)
{
    kt_chars_add(s, &s->json, text.data, text.size);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Finds or adds the row of a key; NULL: out of memory. Ids of keys are dense, so the rows are
 * filled up to the id. */
static kt_scrub_key *scrub_key_row(kt_scrub *s, kineto_string key)
{
    uint32_t id = kb_intern_id(&s->keys, key);
    if (id == KB_INTERN_NONE) {
        s->failed = true;
        return NULL;
    }
    while (s->key_rows.count <= id) {
        kineto_string text = kb_intern_get(&s->keys, (uint32_t)s->key_rows.count);
        kt_scrub_key row = {kt_known_key(text), {KT_COPY_NONE, KT_COPY_NONE}};
        if (!kb_vec_push(&s->key_rows, row)) {
            s->failed = true;
            return NULL;
        }
    }
    return &s->key_rows.data[id];
}

/* Public keys stay, others are replaced if the user wants args or the header scrubbed. */
static uint32_t new_key_id(kt_scrub *s, kineto_string key, uint32_t what, kt_key_class class)
{
    if (class != KT_KEY_UNKNOWN)
        return kt_string(s->b, key);
    if (!kt_scrubs(s, what))
        return kt_string(s->b, kt_scrub_inside(s, key));
    if (!key.size || kt_scrub_kept(s, key))
        return kt_string(s->b, key);
    s->done.keys++;
    return kt_string(s->b, kt_scrub_hash(s, "a_", key));
}

uint32_t kt_scrub_key_id(kt_scrub *s, kineto_string key, uint32_t what, kt_key_class *class)
{
    kt_scrub_key *row = scrub_key_row(s, key);
    *class = row ? row->class : KT_KEY_UNKNOWN;
    if (!row)
        return 0;
    uint32_t *id = &row->id[what == KINETO_SCRUB_HEADER];
    if (*id == KT_COPY_NONE)
        *id = new_key_id(s, key, what, row->class);
    return *id;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* Scrubs a text value by the class of its key. */
static kineto_string scrub_text_value(kt_scrub *s, kineto_string text, kt_key_class class,
                                      uint32_t what)
{
    switch (class) {
    case KT_KEY_STACK:
        return kt_scrub_stack(s, text);
    case KT_KEY_HOST:
        return kt_scrub_host(s, text);
    case KT_KEY_KERNEL:
        return kt_scrub_name(s, KINETO_KIND_CONCURRENT_KERNEL, text);
    case KT_KEY_SHAPE:
        if (!kt_scrubs(s, KINETO_SCRUB_SHAPES) || !text.size)
            return kt_scrub_value(s, text, true, what);
        s->done.shapes++;
        return kt_scrub_hash(s, "s_", text);
    case KT_KEY_PLACE:
        return kt_scrub_numbers_in(s, kt_scrub_place(s, true, text));
    default:
        return kt_scrub_value(s, text, class == KT_KEY_PLAIN, what);
    }
}

/* Equal sizes stay equal; 0 and 1 stay, because they do not identify a model. */
static uint64_t scrub_size(kt_scrub *s, uint64_t size)
{
    if (size < 2)
        return size;
    s->done.shapes++;
    uint8_t bytes[8];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(size >> 8 * i);
    return 2 + kb_siphash(s->key, bytes, sizeof bytes) % 65521;
}

/* True if the values under such a key are sizes that have to be replaced. */
static bool scrubs_sizes(const kt_scrub *s, kt_key_class class)
{
    return class == KT_KEY_SHAPE && kt_scrubs(s, KINETO_SCRUB_SHAPES);
}

/* "pid", and keys that are not of the format, may hold the number of a process or thread. */
static bool may_hold_place(kt_key_class class) { return class == KT_KEY_UNKNOWN || class == KT_KEY_PLACE; }

/* Appends the new number of a thread or process; false: it is none. */
static bool append_json_place(kt_scrub *s, kineto_string raw)
{
    char text[24];
    int64_t number;
    if (!s->numbers.count || !kt_json_int(raw, &number) || kt_scrub_number(s, number) == number)
        return false;
    char *end = kb_json_format_int(text, kt_scrub_number(s, number));
    append_json(s, (kineto_string){text, (size_t)(end - text)});
    return true;
}

/* Numbers under a private key are hashed, sizes are replaced; others stay as they are written. */
static void append_json_number(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    char text[24];
    uint64_t size;
    if (class == KT_KEY_PRIVATE && kt_scrubs(s, what)) {
        uint64_t hash = kb_siphash(s->key, raw.data, raw.size) >> 16;
        s->done.texts++;
        append_json(s, (kineto_string){text, (size_t)(kb_json_format_uint(text, hash) - text)});
        return;
    }
    if (!scrubs_sizes(s, class)) {
        if (!may_hold_place(class) || !append_json_place(s, raw))
            append_json(s, raw);
        return;
    }
    size = kt_json_uint(raw, &size) ? size : kb_siphash(s->key, raw.data, raw.size);
    char *end = kb_json_format_uint(text, scrub_size(s, size));
    append_json(s, (kineto_string){text, (size_t)(end - text)});
}

/* Unescapes a raw JSON text into s->plain; valid until the next call. */
static kineto_string unescape_source(kt_scrub *s, kineto_string raw)
{
    uint64_t replaced = 0;
    s->plain.count = 0;
    if (!kb_vec_reserve(&s->plain, raw.size + 1)) {
        s->failed = true;
        return (kineto_string){"", 0};
    }
    char *end = kt_json_unescape(s->plain.data, raw, &replaced);
    return (kineto_string){s->plain.data, (size_t)(end - s->plain.data)};
}

/* Escapes into the JSON that is being written; 6 bytes per byte is the longest escape. */
static void append_escaped_json(kt_scrub *s, kineto_string text)
{
    uint64_t replaced = 0;
    if (text.size > SIZE_MAX / 8 || !kb_vec_reserve(&s->json, s->json.count + 6 * text.size + 2)) {
        s->failed = true;
        return;
    }
    char *from = s->json.data + s->json.count;
    s->json.count += (size_t)(kb_json_escape(from, text, &replaced) - from);
}

/* Scrubs the unescaped text, and escapes the result. */
static void append_json_string(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    append_escaped_json(s,
                        scrub_text_value(s, unescape_source(s, kt_json_inside(raw)), class, what));
}

static void append_json_value(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what);

/* Keys without a class of their own inherit that of the key around them. */
static kt_key_class inherit_class(kt_key_class own, kt_key_class above)
{
    bool applies = above == KT_KEY_PRIVATE || above == KT_KEY_STACK || above == KT_KEY_SHAPE ||
                   above == KT_KEY_HOST;
    return (own == KT_KEY_UNKNOWN || own == KT_KEY_PLAIN || own == KT_KEY_PLACE) && applies ? above : own;
}

/* Keys are scrubbed as well; the order of members stays. */
static void append_json_object(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    kt_scan scan = kt_scan_of(raw);
    bool first = true, needs_comma = false;
    kineto_string key, value;
    append_json(s, kb_string("{"));
    kt_scan_open(&scan, '{');
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value)) {
        kt_key_class own;
        uint32_t id = kt_scrub_key_id(s, unescape_source(s, key), what, &own);
        if (needs_comma)
            append_json(s, kb_string(","));
        append_escaped_json(s, kb_intern_get(&s->b->trace->strings, id));
        append_json(s, kb_string(":"));
        append_json_value(s, value, inherit_class(own, class), what);
        needs_comma = true;
    }
    append_json(s, kb_string("}"));
}

static void append_json_array(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    kt_scan scan = kt_scan_of(raw);
    bool first = true, needs_comma = false;
    kineto_string value;
    append_json(s, kb_string("["));
    kt_scan_open(&scan, '[');
    while (kt_scan_more(&scan, &first, '[') && kt_scan_value(&scan, &value)) {
        if (needs_comma)
            append_json(s, kb_string(","));
        append_json_value(s, value, class, what);
        needs_comma = true;
    }
    append_json(s, kb_string("]"));
}

/* Scrubs a strict JSON value into s->json; recursion is bounded by the reader's limit of depth. */
static void append_json_value(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    switch (raw.size ? raw.data[0] : 'n') {
    case '"':
        append_json_string(s, raw, class, what);
        return;
    case '{':
        append_json_object(s, raw, class, what);
        return;
    case '[':
        append_json_array(s, raw, class, what);
        return;
    case 't':
    case 'f':
        append_json(s, raw);
        return;
    case 'n':
        append_json(s, kb_string("null"));
        return;
    default:
        append_json_number(s, raw, class, what);
    }
}

kineto_string kt_scrub_json(kt_scrub *s, kineto_string raw, kt_key_class class, uint32_t what)
{
    kt_scan scan = kt_scan_of(raw);
    kineto_string value = {"", 0};
    s->json.count = 0;
    if (!raw.size || !kt_scan_value(&scan, &value))
        return (kineto_string){"null", 4};
    append_json_value(s, value, class, what);
    return (kineto_string){s->json.data ? s->json.data : "", s->json.count};
}

/* ---- args ------------------------------------------------------------------------------------ */

/* Stages a text arg as the source has it: shared by all rows, or for this row only. */
static void put_text_arg(kt_scrub *s, uint32_t key, const kt_arg *arg, kineto_string text)
{
    if (arg->shared)
        kt_args_put_shared(s->b, key, (kineto_arg_type)arg->type, kt_string(s->b, text));
    else if (arg->type == KINETO_ARG_STRING)
        kt_args_put_string(s->b, key, text);
    else
        kt_args_put_json(s->b, key, (kineto_arg_type)arg->type, text);
}

/* Scrubs one packed arg. Numbers stay numbers, so that the types of args do not change. */
static void scrub_packed_arg(kt_scrub *s, const kt_arg *arg)
{
    kt_key_class class;
    uint32_t key =
        kt_scrub_key_id(s, kineto_trace_string(s->from, arg->key), KINETO_SCRUB_ARGS, &class);
    bool hide = scrubs_sizes(s, class);
    if (class == KT_KEY_PRIVATE && kt_scrubs(s, KINETO_SCRUB_ARGS) &&
        arg->type < KINETO_ARG_STRING && arg->type != KINETO_ARG_BOOL) {
        s->done.texts++;
        kt_args_put_uint(s->b, key, kb_siphash(s->key, &arg->u, sizeof arg->u) >> 16);
        return;
    }
    switch (arg->type) {
    case KINETO_ARG_INT:
        kt_args_put_int(s->b, key,
                        hide && arg->i >= 0     ? (int64_t)scrub_size(s, (uint64_t)arg->i)
                        : may_hold_place(class) ? kt_scrub_number(s, arg->i)
                                                : arg->i);
        return;
    case KINETO_ARG_UINT:
        kt_args_put_number(s->b, key, hide                    ? scrub_size(s, arg->u)
                                     : may_hold_place(class) ? (uint64_t)kt_scrub_number(s, (int64_t)arg->u)
                                                             : arg->u);
        return;
    case KINETO_ARG_DOUBLE:
        kt_args_put_double(s->b, key, arg->d);
        return;
    case KINETO_ARG_BOOL:
        kt_args_put_bool(s->b, key, arg->u != 0);
        return;
    case KINETO_ARG_STRING:
        put_text_arg(s, key, arg, scrub_text_value(s, arg->text, class, KINETO_SCRUB_ARGS));
        return;
    default:
        put_text_arg(s, key, arg, kt_scrub_json(s, arg->text, class, KINETO_SCRUB_ARGS));
    }
}

static void scrub_packed_args(kt_scrub *s, kt_args args)
{
    kt_arg arg = {0};
    while (kt_args_step(&args, &arg))
        scrub_packed_arg(s, &arg);
}

/* A set of args is scrubbed once; its rows refer to the result. */
static void scrub_packed_row(kt_scrub *s, const kt_block *block, uint32_t i)
{
    kt_args args = kt_args_of(s->from, block, i);
    uint32_t *set = kt_copy_set(&s->copy, &args);
    if (!set) {
        scrub_packed_args(s, args);
        return;
    }
    if (*set == KT_COPY_NONE) {
        scrub_packed_args(s, kt_args_of_set(s->from, args.set));
        *set = kt_args_make_set(s->b);
    }
    kt_args_put_set(s->b, *set);
    if (kt_args_skip_set(&args))
        scrub_packed_args(s, args);
}

/* Args in verbatim JSON are rewritten as JSON, packed ones stay packed. */
void kt_scrub_args(kt_scrub *s, kineto_row row)
{
    const kt_block *block = kt_block_of(s->from, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    kt_args_form form = kt_args_form_of(block, i);
    if (form == KT_ARGS_JSON) {
        kineto_string text = kt_args_text(s->from, row);
        if (text.size)
            kt_args_verbatim(s->b, kt_scrub_json(s, text, KT_KEY_UNKNOWN, KINETO_SCRUB_ARGS));
    } else if (form == KT_ARGS_PACKED) {
        scrub_packed_row(s, block, i);
    }
}
