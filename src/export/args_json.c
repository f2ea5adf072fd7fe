/* JSON that several writers share: the arguments of a row as one object, ledger lines and clock
 * snapshots. Values of traces that were read keep their spelling, except for white space; keys are
 * unique in an object, because a second one becomes "key (2)". */
#include "export/export.h"
#include "trace/bytes/json_text.h"

/* Up to this many keys are compared one by one; with more, by hash. */
#define MANY_KEYS 32u

typedef struct args_writer {
    ke_text *out;
    uint64_t *replaced;
    size_t count;
    struct {
        size_t at, size;
    } keys[MANY_KEYS];
    /* Of keys once there are many; and per repeated key the next number to try. */
    kb_map hashes;
    bool by_hash; /* hashes holds all keys */
} args_writer;

/* False: out of memory. */
static bool append_text(ke_text *out, const char *data, size_t size)
{
    if (size > SIZE_MAX / 2 - out->count || !kb_vec_reserve(out, out->count + size))
        return false;
    if (size > 0)
        memcpy(out->data + out->count, data, size);
    out->count += size;
    return true;
}

/* Appends a JSON string with quotes and escapes. */
static bool append_escaped_text(ke_text *out, kineto_string s, uint64_t *replaced)
{
    if (s.size > SIZE_MAX / 16 || !kb_vec_reserve(out, out->count + 6 * s.size + 2))
        return false;
    char *from = out->data + out->count;
    out->count += (size_t)(kb_json_escape(from, s, replaced) - from);
    return true;
}

/* ---- JSON text ------------------------------------------------------------------------------- */

/* Texts of repaired traces may hold bytes that are not UTF-8: they become U+FFFD. */
static bool append_valid_text(ke_text *out, kineto_string s, uint64_t *replaced)
{
    bool ok = true;
    for (kineto_string piece; ok && (piece = kb_utf8_next(&s, replaced)).size;)
        ok = append_text(out, piece.data, piece.size);
    return ok;
}

/* White space inside of strings is not between tokens, so strings are tracked across escapes. */
kineto_string ke_compact_next(kineto_string *json)
{
    const char *at = json->data, *end = json->data + json->size;
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    const char *from = at;
    for (bool inside = false; at < end; at++) {
        if (*at == '"')
            inside = !inside;
        else if (inside && *at == '\\' && at + 1 < end)
            at++;
        else if (!inside && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
            break;
    }
    *json = (kineto_string){at, (size_t)(end - at)};
    return (kineto_string){from, (size_t)(at - from)};
}

bool ke_text_compact(ke_text *out, kineto_string json, uint64_t *replaced)
{
    bool ok = true;
    for (kineto_string piece; ok && (piece = ke_compact_next(&json)).size;)
        ok = append_valid_text(out, piece, replaced);
    return ok;
}

/* ---- tables ---------------------------------------------------------------------------------- */

void ke_put_snapshot(kb_json *j, const kineto_clock_snapshot *s)
{
    kb_json_put_uint(j, "ticks", s->ticks);
    kb_json_put_int(j, "monotonic_ns", s->monotonic_ns);
    kb_json_put_int(j, "monotonic_raw_ns", s->monotonic_raw_ns);
    kb_json_put_int(j, "realtime_ns", s->realtime_ns);
    kb_json_put_int(j, "boottime_ns", s->boottime_ns);
    kb_json_put_uint(j, "width_ticks", s->width_ticks);
}

void ke_put_ledger_line(kb_json *j, const kineto_ledger_line *line)
{
    kb_json_put_string(j, "source", line->source);
    kb_json_put_string(j, "reason", line->reason);
    kb_json_put_uint(j, "count", line->count);
    kb_json_put_bool(j, "loss", line->is_loss);
}

void ke_put_ledger(kb_json *j, const kineto_trace *trace)
{
    kb_json_key_z(j, "ledger");
    kb_json_array_begin(j);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        kb_json_object_begin(j);
        ke_put_ledger_line(j, &line);
        kb_json_put_string(j, "detail", line.detail);
        kb_json_object_end(j);
    }
    kb_json_array_end(j);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* True if key number `which` equals the text at [at, at + size) of the output. */
static bool is_args_key_at(const args_writer *m, size_t which, size_t at, size_t size)
{
    KB_ASSERT(which < MANY_KEYS && at + size <= m->out->count);
    return m->keys[which].size == size &&
           memcmp(m->out->data + m->keys[which].at, m->out->data + at, size) == 0;
}

/* True if the key was used before. Equal hashes count as equal keys: at worst a key gets a
 * number. */
static bool is_repeated_by_hash(args_writer *m, size_t at, size_t size, bool *ok)
{
    bool created = true;
    for (size_t i = 0; !m->by_hash && i < MANY_KEYS && *ok; i++)
        *ok = kb_map_insert(&m->hashes, kb_hash(m->out->data + m->keys[i].at, m->keys[i].size), 2,
                            NULL);
    m->by_hash = true;
    *ok = *ok && kb_map_insert(&m->hashes, kb_hash(m->out->data + at, size), 2, &created);
    return !created;
}

/* Also remembers the key if it is new. The caller increments m->count. */
static bool is_repeated_key(args_writer *m, size_t at, size_t size, bool *ok)
{
    if (m->count >= MANY_KEYS)
        return is_repeated_by_hash(m, at, size, ok);
    for (size_t i = 0; i < m->count; i++)
        if (is_args_key_at(m, i, at, size))
            return true;
    m->keys[m->count].at = at;
    m->keys[m->count].size = size;
    return false;
}

/* Renames the last key to "key (2)", "key (3)" … until it is unique. The next number is kept by the
 * key's hash, so that each of many equal keys costs the same. */
static bool append_key_number(args_writer *m, size_t at, size_t size)
{
    bool ok = true;
    char suffix[32];
    kb_map *tried = &m->hashes;
    uint64_t hash = kb_hash_seeded(1, m->out->data + at, size);
    uint64_t *next = kb_map_insert(tried, hash, 2, NULL);
    if (!next)
        return false;
    uint64_t number = *next;
    do {
        int n = snprintf(suffix, sizeof suffix, " (%llu)\"", (unsigned long long)number++);
        m->out->count = at + size - 1;
        ok = append_text(m->out, suffix, (size_t)n);
    } while (ok && is_repeated_key(m, at, m->out->count - at, &ok));
    if ((next = kb_map_find(tried, hash)))
        *next = number;
    return ok;
}

/* Appends `"key":` with the comma or brace before it. */
static bool append_args_key(args_writer *m, kineto_string key)
{
    bool ok = append_text(m->out, m->count ? "," : "{", 1);
    size_t at = m->out->count;
    if (!ok || !append_escaped_text(m->out, key, m->replaced))
        return false;
    if (is_repeated_key(m, at, m->out->count - at, &ok) && ok)
        ok = append_key_number(m, at, m->out->count - at);
    m->count++;
    return ok && append_text(m->out, ":", 1);
}

/* ---- values ---------------------------------------------------------------------------------- */

static bool append_args_value(args_writer *m, const kineto_arg *arg)
{
    char number[40], *end;
    switch (arg->type) {
    case KINETO_ARG_INT:
        end = kb_json_format_int(number, arg->i);
        break;
    case KINETO_ARG_UINT:
        end = kb_json_format_uint(number, arg->u);
        break;
    case KINETO_ARG_DOUBLE:
        end = kb_json_format_double(number, arg->d);
        break;
    case KINETO_ARG_BOOL:
        return append_text(m->out, arg->u ? "true" : "false", arg->u ? 4 : 5);
    case KINETO_ARG_STRING:
        return append_escaped_text(m->out, arg->text, m->replaced);
    default:
        return ke_text_compact(m->out, arg->text, m->replaced);
    }
    return append_text(m->out, number, (size_t)(end - number));
}

static bool append_packed_args(args_writer *m, const kineto_trace *trace, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    bool ok = true;
    kineto_args_begin(trace, row, &it);
    while (ok && kineto_args_next(&it, &arg))
        ok = append_args_key(m, arg.key) && append_args_value(m, &arg);
    return ok;
}

/* Resolves the escapes of a key; the caller frees *room. */
static bool unescape_args_key(kineto_string raw, char **room, kineto_string *key)
{
    uint64_t replaced = 0;
    *room = NULL;
    *key = raw;
    if (!memchr(raw.data, '\\', raw.size))
        return true;
    *room = malloc(raw.size);
    if (!*room)
        return false;
    *key = (kineto_string){*room, (size_t)(kt_json_unescape(*room, raw, &replaced) - *room)};
    return true;
}

static bool append_verbatim_args(args_writer *m, kineto_string object, uint32_t flags)
{
    kt_scan scan = kt_scan_of(object);
    bool first = true, ok = true;
    kineto_string raw, value, key;
    if (!kt_scan_open(&scan, '{'))
        return true;
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &raw) &&
           kt_scan_value(&scan, &value)) {
        char *room;
        ok = unescape_args_key(raw, &room, &key);
        if (ok && !kt_args_member_is_column(key, value, flags))
            ok = append_args_key(m, key) && ke_text_compact(m->out, value, m->replaced);
        free(room);
    }
    return ok;
}

bool ke_args_json(const kineto_trace *trace, kineto_row row, ke_text *out, uint64_t *replaced)
{
    args_writer m = {.out = out, .replaced = replaced};
    out->count = 0;
    if (row >= kineto_trace_count(trace))
        return true;
    const kt_block *b = kt_block_at(trace, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    if (kt_args_form_of(b, i) == KT_ARGS_NONE)
        return true;
    bool ok = kt_args_form_of(b, i) == KT_ARGS_JSON
                  ? append_verbatim_args(&m, kt_args_text(trace, row), b->flags[i])
                  : append_packed_args(&m, trace, row);
    kb_map_free(&m.hashes);
    return ok && (m.count == 0 || append_text(out, "}", 1));
}
