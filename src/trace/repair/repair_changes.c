/* The record of repairs: a bounded list, exact counts, and the ledger lines about losses. A
 * repaired trace is sound JSON, so the ledger in the header's member "ckineto", which readers keep,
 * is what shows that it is not complete. */
#include "trace/bytes/json_text.h"
#include "trace/repair/repair_impl.h"

/* ---- the list -------------------------------------------------------------------------------- */

static const struct {
    const char *name, *text;
    kt_repair_loss loses;
} repair_kinds[] = {
#define KT_X(id, name, loss, text) {#name, text, KT_LOSES_##loss},
    KT_REPAIR_MAP(KT_X)
#undef KT_X
};

const char *kt_repair_name(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? repair_kinds[kind].name : "unknown";
}

const char *kt_repair_text(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? repair_kinds[kind].text : "";
}

kt_repair_loss kt_repair_loss_of(kt_repair_kind kind)
{
    return (uint32_t)kind < KT_REPAIR_KINDS ? repair_kinds[kind].loses : KT_LOSES_NOTHING;
}

void kt_repairs_free(kt_repairs *r) { kb_vec_free(&r->list); }

/* `times` repairs of a kind, the first of them at `offset`. */
static void count_repairs(kt_repairs *r, uint32_t kind, uint64_t times, uint64_t offset,
                          uint64_t bytes)
{
    KB_ASSERT(kind < KT_REPAIR_KINDS);
    if (!r->kinds[kind].count)
        r->kinds[kind].first_offset = offset;
    r->kinds[kind].count += times;
    r->kinds[kind].bytes += bytes;
    r->total += times;
}

bool kt_repairs_add(kt_repairs *r, kt_repair_kind kind, uint64_t offset, uint64_t bytes)
{
    count_repairs(r, kind, 1, r->base + offset, bytes);
    return r->list.count >= KT_REPAIR_LIST_MAX ||
           kb_vec_push(&r->list, (kt_repair){kind, r->base + offset, bytes});
}

void kt_repairs_count(kt_repairs *r, kt_repair_kind kind, uint64_t times)
{
    if (times)
        count_repairs(r, kind, times, 0, 0);
}

bool kt_repairs_cut(kt_repairs *r, uint64_t offset)
{
    return r->kinds[KT_REPAIR_TRUNCATED].count || kt_repairs_add(r, KT_REPAIR_TRUNCATED, offset, 0);
}

bool kt_repairs_append(kt_repairs *r, const kt_repairs *later)
{
    for (uint32_t i = 0; i < KT_REPAIR_KINDS; i++)
        if (later->kinds[i].count)
            count_repairs(r, i, later->kinds[i].count, later->kinds[i].first_offset,
                          later->kinds[i].bytes);
    for (size_t i = 0; i < later->list.count && r->list.count < KT_REPAIR_LIST_MAX; i++)
        if (!kb_vec_push(&r->list, later->list.data[i]))
            return false;
    return true;
}

bool kt_repairs_have_loss(const kt_repairs *r)
{
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++)
        if (r->kinds[k].count && kt_repair_loss_of((kt_repair_kind)k))
            return true;
    return false;
}

/* ---- ledger lines ---------------------------------------------------------------------------- */

/* One line of the ledger, as readers of the member "ckineto" expect it. */
static void write_repair_line(kb_json *j, const char *reason, uint64_t count_repairs, bool loss,
                              const char *detail)
{
    kb_json_newline(j);
    kb_json_object_begin(j);
    kb_json_put_string(j, "source", kb_string("repair"));
    kb_json_put_string(j, "reason", kb_string(reason));
    kb_json_put_uint(j, "count", count_repairs);
    kb_json_put_bool(j, "loss", loss);
    kb_json_put_string(j, "detail", kb_string(detail));
    kb_json_object_end(j);
}

/* Details have offsets of the broken text, which are not offsets of the repaired file. */
static void write_repair_lines(kb_json *j, const kt_repairs *r, const char *problem)
{
    char reason[160], detail[80];
    kb_json_array_begin(j);
    for (uint32_t k = 0; k < KT_REPAIR_KINDS; k++) {
        if (!r->kinds[k].count)
            continue;
        kb_snprintf(reason, sizeof reason, KT_REPAIR_REASON, kt_repair_text((kt_repair_kind)k));
        kb_snprintf(detail, sizeof detail, "first at offset %llu of the text that was repaired",
                    (unsigned long long)r->kinds[k].first_offset);
        write_repair_line(j, reason, r->kinds[k].count,
                          kt_repair_loss_of((kt_repair_kind)k) == KT_LOSES_EVENTS, detail);
    }
    if (problem)
        write_repair_line(j, KT_REPAIR_DAMAGED, 1, true, problem);
    kb_json_array_end(j);
}

/* Formats the lines as a JSON array. The caller frees *data. */
static kineto_status format_repair_lines(const kt_repairs *r, const char *problem, char **data,
                                         size_t *size, kineto_error *err)
{
    kb_sink *sink;
    kb_json json;
    kineto_status status = kb_sink_open_memory(KB_COMPRESS_NONE, &sink, err);
    if (status != KINETO_OK)
        return status;
    kb_json_init(&json, sink);
    write_repair_lines(&json, r, problem);
    status = kb_sink_take(sink, data, size, err);
    kb_sink_abort(sink);
    return status;
}

/* ---- inserting the lines --------------------------------------------------------------------- */

/* `before`, the lines and `after` replace bytes [from, to) of the member's value. */
typedef struct insertion {
    size_t from, to;
    const char *before, *after;
} insertion;

/* The value of "ledger" in the member; of several the last, as readers do. */
static kineto_string find_own_ledger(kineto_string own)
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

/* True for a strict object or array without items. */
static bool is_empty_json(kineto_string value)
{
    kt_scan scan = kt_scan_of((kineto_string){value.data + 1, value.size - 1});
    char c = kt_scan_peek(&scan);
    return c == '}' || c == ']';
}

/* Where the lines go: into the ledger that the member has, or into a new one. */
static insertion find_insertion(kineto_string own)
{
    /* Not of this library: replaced, since no reader uses it. */
    if (own.data[0] != '{')
        return (insertion){0, own.size, "{\"ledger\": [", "\n]}"};
    kineto_string ledger = find_own_ledger(own);
    size_t end = own.size - 1;
    if (!ledger.size)
        return (insertion){end, end, is_empty_json(own) ? "\"ledger\": [" : ",\n\"ledger\": [",
                           "\n]"};
    size_t from = (size_t)(ledger.data - own.data);
    if (ledger.data[0] != '[')
        return (insertion){from, from + ledger.size, "[", "\n]"};
    for (end = from + ledger.size - 1; (unsigned char)own.data[end - 1] <= ' ';)
        end--;
    return (insertion){end, end, is_empty_json(ledger) ? "" : ",", ""};
}

/* False: out of memory. */
static bool append_bytes(kt_bytes *out, const char *data, size_t size)
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
    kineto_status status = format_repair_lines(r, problem, &lines, &size, err);
    if (status != KINETO_OK)
        return status;
    own = own.size ? own : kb_string("{}");
    KB_ASSERT(size >= 2 && lines[0] == '[' && lines[size - 1] == ']');
    insertion at = find_insertion(own);
    bool ok =
        append_bytes(out, own.data, at.from) && append_bytes(out, at.before, strlen(at.before)) &&
        append_bytes(out, lines + 1, size - 2) && append_bytes(out, at.after, strlen(at.after)) &&
        append_bytes(out, own.data + at.to, own.size - at.to);
    free(lines);
    return ok ? KINETO_OK : kb_fail_memory(err, "repair a trace");
}
