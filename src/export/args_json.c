/* What several writers put into JSON: lines of tables, and the arguments of a row as one object.
 * Values of traces that were read stay as they were written, but for white space. */
#include "export/export.h"
#include "trace/bytes/json_text.h"

/* From so many members on, keys are looked for by their hashes. */
#define MANY_KEYS 32u

typedef struct maker {
    ke_text *out;
    uint64_t *replaced;
    size_t count;
    struct {
        size_t at, size;
    } keys[MANY_KEYS];
    kb_map hashes; /* of keys once there are many; how often a key was renamed */
    bool by_hash;
} maker;

static bool append(ke_text *out, const char *data, size_t size)
{
    if (size > SIZE_MAX / 2 - out->count || !kb_vec_reserve(out, out->count + size))
        return false;
    if (size > 0)
        memcpy(out->data + out->count, data, size);
    out->count += size;
    return true;
}

static bool append_string(ke_text *out, kineto_string s, uint64_t *replaced)
{
    if (s.size > SIZE_MAX / 16 || !kb_vec_reserve(out, out->count + 6 * s.size + 2))
        return false;
    char *from = out->data + out->count;
    out->count += (size_t)(kb_json_escape(from, s, replaced) - from);
    return true;
}

/* ---- JSON text as it is ------------------------------------------------------------------------- */

/* Texts of traces may hold bytes that are no UTF-8: a trace that was repaired keeps them. */
static bool append_utf8(ke_text *out, kineto_string s, uint64_t *replaced)
{
    bool ok = true;
    for (kineto_string piece; ok && (piece = kb_utf8_next(&s, replaced)).size;)
        ok = append(out, piece.data, piece.size);
    return ok;
}

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
        ok = append_utf8(out, piece, replaced);
    return ok;
}

/* ---- tables ---------------------------------------------------------------------------------------- */

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

/* ---- keys ------------------------------------------------------------------------------------------ */

static bool is_key(const maker *m, size_t which, size_t at, size_t size)
{
    return m->keys[which].size == size &&
           memcmp(m->out->data + m->keys[which].at, m->out->data + at, size) == 0;
}

/* Was this key used before? Equal hashes count as equal keys. */
static bool seen_by_hash(maker *m, size_t at, size_t size, bool *ok)
{
    bool created = true;
    for (size_t i = 0; !m->by_hash && i < MANY_KEYS && *ok; i++)
        *ok = kb_map_insert(&m->hashes, kb_hash(m->out->data + m->keys[i].at, m->keys[i].size), 2,
                            NULL);
    m->by_hash = true;
    *ok = *ok && kb_map_insert(&m->hashes, kb_hash(m->out->data + at, size), 2, &created);
    return !created;
}

static bool seen(maker *m, size_t at, size_t size, bool *ok)
{
    if (m->count >= MANY_KEYS)
        return seen_by_hash(m, at, size, ok);
    for (size_t i = 0; i < m->count; i++)
        if (is_key(m, i, at, size))
            return true;
    m->keys[m->count].at = at;
    m->keys[m->count].size = size;
    return false;
}

/* The number of tries is remembered with the key's hash, so that many equal keys cost the same
 * each. */
static bool number_key(maker *m, size_t at, size_t size)
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
        ok = append(m->out, suffix, (size_t)n);
    } while (ok && seen(m, at, m->out->count - at, &ok));
    if ((next = kb_map_find(tried, hash)))
        *next = number;
    return ok;
}

/* `"key":`, with what stands before it. */
static bool put_key(maker *m, kineto_string key)
{
    bool ok = append(m->out, m->count ? "," : "{", 1);
    size_t at = m->out->count;
    if (!ok || !append_string(m->out, key, m->replaced))
        return false;
    if (seen(m, at, m->out->count - at, &ok) && ok)
        ok = number_key(m, at, m->out->count - at);
    m->count++;
    return ok && append(m->out, ":", 1);
}

/* ---- values --------------------------------------------------------------------------------------- */

static bool put_value(maker *m, const kineto_arg *arg)
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
        return append(m->out, arg->u ? "true" : "false", arg->u ? 4 : 5);
    case KINETO_ARG_STRING:
        return append_string(m->out, arg->text, m->replaced);
    default:
        return ke_text_compact(m->out, arg->text, m->replaced);
    }
    return append(m->out, number, (size_t)(end - number));
}

static bool put_packed(maker *m, const kineto_trace *trace, kineto_row row)
{
    kineto_args_iterator it;
    kineto_arg arg;
    bool ok = true;
    kineto_args_begin(trace, row, &it);
    while (ok && kineto_args_next(&it, &arg))
        ok = put_key(m, arg.key) && put_value(m, &arg);
    return ok;
}

/* Resolves the escapes of a key; the caller frees *room. */
static bool plain_key(kineto_string raw, char **room, kineto_string *key)
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

static bool put_verbatim(maker *m, kineto_string object, uint32_t flags)
{
    kt_scan scan = kt_scan_of(object);
    bool first = true, ok = true;
    kineto_string raw, value, key;
    if (!kt_scan_open(&scan, '{'))
        return true;
    while (ok && kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &raw) &&
           kt_scan_value(&scan, &value)) {
        char *room;
        ok = plain_key(raw, &room, &key);
        if (ok && !kt_args_member_is_column(key, value, flags))
            ok = put_key(m, key) && ke_text_compact(m->out, value, m->replaced);
        free(room);
    }
    return ok;
}

bool ke_args_json(const kineto_trace *trace, kineto_row row, ke_text *out, uint64_t *replaced)
{
    maker m = {.out = out, .replaced = replaced};
    out->count = 0;
    if (row >= kineto_trace_count(trace))
        return true;
    const kt_block *b = kt_block_at(trace, row / KT_BLOCK_ROWS);
    uint32_t i = row % KT_BLOCK_ROWS;
    if (kt_args_form_of(b, i) == KT_ARGS_NONE)
        return true;
    bool ok = kt_args_form_of(b, i) == KT_ARGS_JSON
                  ? put_verbatim(&m, kt_args_text(trace, row), b->flags[i])
                  : put_packed(&m, trace, row);
    kb_map_free(&m.hashes);
    return ok && (m.count == 0 || append(out, "}", 1));
}
