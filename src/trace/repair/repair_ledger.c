/* What a repair lost, said in the header of what it writes: the repaired trace is sound, and must
 * not be taken for a whole one. The ledger is that of the header's member "ckineto", which readers
 * keep. */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/json_text.h"

bool kt_repairs_lose(const kt_repairs *r)
{
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++)
        if (r->kinds[k].count && kt_repair_loses((kt_repair_kind)k))
            return true;
    return false;
}

/* ---- the lines ------------------------------------------------------------------------------- */

static void put_line(kb_json *j, const char *reason, uint64_t count, bool loss, const char *detail)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "source", kb_string("repair"));
    kb_json_put_string(j, "reason", kb_string(reason));
    kb_json_put_uint(j, "count", count);
    kb_json_put_bool(j, "loss", loss);
    kb_json_put_string(j, "detail", kb_string(detail));
    kb_json_object_end(j);
}

/* Offsets are those of the text before: no place in the file that has the lines. */
static void put_lines(kb_json *j, const kt_repairs *r, const char *problem)
{
    char reason[160], detail[80];
    kb_json_array_begin(j);
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++) {
        if (!r->kinds[k].count)
            continue;
        kb_snprintf(reason, sizeof reason, KT_REPAIR_REASON, kt_repair_text((kt_repair_kind)k));
        kb_snprintf(detail, sizeof detail, "first at offset %llu of the text that was repaired",
                    (unsigned long long)r->kinds[k].first_offset);
        put_line(j, reason, r->kinds[k].count, kt_repair_loses((kt_repair_kind)k) == KT_LOSES_EVENTS,
                 detail);
    }
    if (problem)
        put_line(j, KT_REPAIR_DAMAGED, 1, true, problem);
    kb_json_array_end(j);
}

/* An array of them. The caller frees *data. */
static kineto_status make_lines(const kt_repairs *r, const char *problem, char **data, size_t *size,
                                kineto_error *err)
{
    kb_sink *sink;
    kb_json json;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status != KINETO_OK)
        return status;
    kb_json_init(&json, sink);
    put_lines(&json, r, problem);
    status = kb_sink_take(sink, data, size, err);
    kb_sink_abort(sink);
    return status;
}

/* ---- their place ----------------------------------------------------------------------------- */

/* Lines go between `before` and `behind`, which stand for bytes [from, to) of the member's value.
 */
typedef struct place {
    size_t from, to;
    const char *before, *behind;
} place;

/* What readers take for the ledger: of several the last. */
static kineto_string ledger_of(kineto_string own)
{
    kt_scan scan = kt_scan_of(own);
    bool first = true;
    kineto_string key, value, found = {"", 0};
    if (!kt_scan_open(&scan, '{'))
        return found;
    while (kt_scan_more(&scan, &first, '{') && kt_scan_key(&scan, &key) &&
           kt_scan_value(&scan, &value))
        if (kb_string_equal(key, kb_string("ledger")))
            found = value;
    return found;
}

/* Has a strict object or array nothing in it? */
static bool is_empty(kineto_string value)
{
    kt_scan scan = kt_scan_of((kineto_string){value.data + 1, value.size - 1});
    char c = kt_scan_peek(&scan);
    return c == '}' || c == ']';
}

static place place_in(kineto_string own)
{
    if (own.data[0] != '{') /* nobody reads it */
        return (place){0, own.size, "{\"ledger\": [", "\n]}"};
    kineto_string ledger = ledger_of(own);
    size_t end = own.size - 1;
    if (!ledger.size)
        return (place){end, end, is_empty(own) ? "\"ledger\": [" : ",\n\"ledger\": [", "\n]"};
    size_t from = (size_t)(ledger.data - own.data);
    if (ledger.data[0] != '[')
        return (place){from, from + ledger.size, "[", "\n]"};
    for (end = from + ledger.size - 1; (unsigned char)own.data[end - 1] <= ' ';)
        end--;
    return (place){end, end, is_empty(ledger) ? "" : ",", ""};
}

static bool put(kt_bytes *out, const char *data, size_t size)
{
    if (!kb_vec_reserve(out, out->count + size))
        return false;
    if (size)
        memcpy(out->data + out->count, data, size);
    out->count += size;
    return true;
}

kineto_status kt_repair_state_losses(kineto_string own, const kt_repairs *r, const char *problem,
                                     kt_bytes *out, kineto_error *err)
{
    char *lines;
    size_t size;
    kineto_status status = make_lines(r, problem, &lines, &size, err);
    if (status != KINETO_OK)
        return status;
    own = own.size ? own : kb_string("{}");
    place at = place_in(own);
    bool ok = put(out, own.data, at.from) && put(out, at.before, strlen(at.before)) &&
              put(out, lines + 1, size - 2) && put(out, at.behind, strlen(at.behind)) &&
              put(out, own.data + at.to, own.size - at.to);
    free(lines);
    return ok ? KINETO_OK : kb_fail(err, KINETO_E_MEMORY, "no memory to repair a trace");
}
