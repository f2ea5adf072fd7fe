/* The entry points of repair (repair.h): repairing one element or one member of the header, and
 * everything between elements: commas, garbage, the end of the array, further documents. The engine
 * below works on a kt_fix, whose state can be saved and restored to try another reading. */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/json_text.h"

/* ---- the state of a call --------------------------------------------------------------------- */

/* Saves the state before a member or value is read. */
void kt_fix_save(const kt_fix *f, kt_fix_mark *mark)
{
    mark->at = f->at;
    mark->out_count = f->out->count;
    mark->change_count = f->changes.count;
    mark->depth = f->depth;
    memcpy(mark->uncounted, f->uncounted, sizeof mark->uncounted);
    mark->event = f->event;
}

/* Output, changes and brackets that came since are dropped; `members` needs no copy because
 * event.member_count bounds it. */
void kt_fix_restore(kt_fix *f, const kt_fix_mark *mark)
{
    KB_ASSERT(mark->out_count <= f->out->count);
    KB_ASSERT(mark->change_count <= f->changes.count);
    f->at = mark->at;
    f->out->count = mark->out_count;
    f->changes.count = mark->change_count;
    f->depth = mark->depth;
    memcpy(f->uncounted, mark->uncounted, sizeof f->uncounted);
    f->event = mark->event;
}

/* Changes beyond the list are only counted, without their offsets. */
void kt_fix_count(kt_fix *f, kt_repair_kind kind, size_t offset, size_t bytes)
{
    KB_ASSERT((uint32_t)kind < KT_REPAIR_KINDS);
    KB_ASSERT(offset <= f->size);
    if (f->changes.count >= KT_REPAIR_LIST_MAX)
        f->uncounted[kind] += f->uncounted[kind] < UINT32_MAX;
    else if (!kb_vec_push(&f->changes, (kt_repair){kind, offset, bytes}))
        f->no_memory = true;
}

void kt_fix_put(kt_fix *f, const char *data, size_t bytes)
{
    kt_bytes *out = f->out;
    if (f->no_memory || bytes > SIZE_MAX - out->count || !kb_vec_reserve(out, out->count + bytes)) {
        f->no_memory = true;
        return;
    }
    if (bytes)
        memcpy(out->data + out->count, data, bytes);
    out->count += bytes;
}

/* If strict reading fails closer than this to the end of the text, it may be the end that broke a
 * word or an escape: none is longer. */
#define TOKEN_BYTES 8
/* Garbage at the end of a window keeps this much for the next one: an event may begin there. */
#define EVENT_BYTES 1024u

/* ---- begin and end of a call ----------------------------------------------------------------- */

static kt_fix begin_repair(kineto_string text, size_t at, bool final, kt_bytes *out,
                           uint64_t ts_unit_ns)
{
    return (kt_fix){.text = text.data,
                    .size = text.size,
                    .final = final,
                    .ts_shift = kt_ts_shift(ts_unit_ns),
                    .at = KB_MIN(at, text.size),
                    .out = out,
                    .tries = KT_FIX_TRIES};
}

static int compare_repair_offsets(const void *a, const void *b)
{
    const kt_repair *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Hands over the changes in the order of the text. If the decision depended on bytes beyond a text
 * that is not final, everything is undone and `start` returned: the caller comes again with more
 * text. */
static kineto_status finish_repair(kt_fix *f, const kt_repaired *start, size_t out_from,
                                   kt_repairs *repairs, kt_repaired *result, kineto_error *err)
{
    if (f->ran_out && !f->final) {
        *result = *start;
        f->out->count = out_from;
        f->changes.count = 0;
        memset(f->uncounted, 0, sizeof f->uncounted);
    }
    if (f->changes.count)
        qsort(f->changes.data, f->changes.count, sizeof *f->changes.data, compare_repair_offsets);
    for (size_t i = 0; i < f->changes.count && !f->no_memory; i++) {
        const kt_repair *c = &f->changes.data[i];
        f->no_memory = !kt_repairs_add(repairs, (kt_repair_kind)c->kind, c->offset, c->bytes);
    }
    for (uint32_t i = 0; i < KT_REPAIR_KINDS; i++)
        kt_repairs_count(repairs, (kt_repair_kind)i, f->uncounted[i]);
    kb_vec_free(&f->changes);
    return f->no_memory ? kb_fail_memory(err, "repair a trace") : KINETO_OK;
}

/* ---- between elements ------------------------------------------------------------------------ */

/* True if a known key of the header stands at `at`. */
static bool is_header_key(kt_fix *f, size_t at)
{
    return kt_peek_key(f, at, KT_LEVEL_HEADER) == KT_CERTAIN;
}

/* True if an object with a header's key begins at `at`: another document. */
static bool is_new_header(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '{' && is_header_key(f, kt_peek_space_end(f, at + 1));
}

static bool is_new_array(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '[' && kt_peek_event_start(f, kt_peek_space_end(f, at + 1));
}

/* True if an object that is not an event begins at `at`. */
static bool is_other_object(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '{' && !kt_peek_event_start(f, at) &&
           kt_peek_key(f, kt_peek_space_end(f, at + 1), KT_LEVEL_HEADER) != KT_IMPOSSIBLE;
}

/* True if only sound members follow the comma at `at`, then the bracket that ends a document. */
static bool has_sound_tail(kt_fix *f, size_t at)
{
    kt_scan s = kt_scan_of((kineto_string){f->text + at, f->size - at});
    kineto_string key, value;
    bool first = false;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value)) {
    }
    f->ran_out = f->ran_out || s.end - s.at < TOKEN_BYTES;
    size_t after = kt_peek_space_end(f, (size_t)(s.at - f->text));
    return !s.problem &&
           (kt_fix_byte(f, after) < 0 || is_new_header(f, after) || is_new_array(f, after));
}

/* True if the closing bracket at `at` can be that of the array, or of the whole document. */
static bool can_end_array(kt_fix *f, size_t at)
{
    size_t next = kt_peek_space_end(f, at + 1);
    int c = kt_fix_byte(f, next);
    if (c == ',') {
        size_t key = kt_peek_space_end(f, next + 1);
        return kt_peek_key(f, key, KT_LEVEL_HEADER) == KT_CERTAIN ||
               (kt_peek_key(f, key, KT_LEVEL_HEADER) == KT_POSSIBLE &&
                kt_peek_key(f, key, KT_LEVEL_EVENT) != KT_CERTAIN) ||
               (f->text[at] == ']' && has_sound_tail(f, next));
    }
    if (f->text[at] == ']' && c == '}') {
        next = kt_peek_space_end(f, next + 1);
        c = kt_fix_byte(f, next);
        return c != ',' && (c != '{' || is_other_object(f, next));
    }
    return c < 0 || (f->text[at] == ']' && (is_new_header(f, next) || is_new_array(f, next)));
}

/* Skips to the next place where an event begins or the array ends. */
static kt_repaired skip_garbage(kt_fix *f)
{
    size_t from = f->at, to = from + 1;
    for (int c; (c = kt_fix_byte(f, to)) >= 0; to++)
        if ((c == '{' && (kt_peek_event_start(f, to) || is_new_header(f, to))) ||
            (c == ']' && kt_peek_array_end(f, to)) || (c == '"' && is_header_key(f, to)))
            break;
    if (to >= f->size && !f->final) {
        if (f->size - from < KT_REPAIR_REACH_BYTES)
            return (kt_repaired){KT_PIECE_MORE, from, false, false};
        to = f->size - EVENT_BYTES;
        f->ran_out = false;
    }
    kt_fix_count(f, KT_REPAIR_GARBAGE, from, to - from);
    return (kt_repaired){KT_PIECE_NOTHING, to, false, false};
}

/* A closing bracket stands where an element is due. */
static kt_repaired handle_closing_bracket(kt_fix *f)
{
    bool array = f->text[f->at] == ']';
    size_t at = f->at;
    if (can_end_array(f, at) || (!array && is_header_key(f, kt_peek_space_end(f, at + 1)))) {
        if (!array)
            kt_fix_count(f, KT_REPAIR_UNBALANCED, at, 0);
        return (kt_repaired){KT_PIECE_END, at, false, false};
    }
    kt_fix_count(f, KT_REPAIR_UNBALANCED, at, 1);
    return (kt_repaired){KT_PIECE_NOTHING, at + 1, true, false};
}

static kt_repaired end_array_without_bracket(kt_fix *f)
{
    kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at, 0);
    return (kt_repaired){KT_PIECE_END, f->at, false, f->at >= f->size};
}

/* Decides what stands at f->at if it is not an event: the end of the array, another document, or
 * garbage. `c`: the byte there. */
static kt_repaired handle_non_element(kt_fix *f, int c)
{
    if (c < 0 || is_new_header(f, f->at) || (c == '"' && is_header_key(f, f->at)))
        return end_array_without_bracket(f);
    if (c == ']' || c == '}')
        return handle_closing_bracket(f);
    if (is_new_array(f, f->at)) {
        kt_fix_count(f, KT_REPAIR_NEW_DOCUMENT, f->at, 1);
        return (kt_repaired){KT_PIECE_NOTHING, f->at + 1, false, false};
    }
    return skip_garbage(f);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* True if the event has the members that every reader needs. */
static bool event_has_essentials(const kt_fix *f)
{
    const kt_fix_event *e = &f->event;
    return e->phase && (e->phase == 'M' ? e->has_name : e->has_ts);
}

/* True for "{}": some writers end their list with one. */
static bool is_empty_object(const kt_fix *f, size_t from, size_t to)
{
    for (size_t i = from + 1; i + 1 < to; i++)
        if ((unsigned char)f->text[i] > ' ')
            return false;
    return true;
}

/* Repairs the object at f->at. An event without essentials is dropped, and counted as one loss
 * instead of its single changes. */
static kt_repaired repair_event(kt_fix *f)
{
    size_t from = f->at;
    kt_fix_mark mark;
    kt_fix_save(f, &mark);
    kt_fixed status = kt_fix_object(f, KT_LEVEL_EVENT);
    kt_repaired result = {KT_PIECE_EVENT, f->at, !f->cut_short, false};
    if (status == KT_FIX_FAILED || !event_has_essentials(f)) {
        size_t to = KB_MAX(f->at, from + 1);
        bool odd_time = f->event.odd_time,
             empty = status == KT_FIXED && is_empty_object(f, from, to);
        kt_fix_restore(f, &mark);
        if (!empty)
            kt_fix_count(f, odd_time ? KT_REPAIR_TIME_RANGE : KT_REPAIR_LOST_EVENT, from, to - from);
        result.piece = KT_PIECE_NOTHING;
        result.next = to;
    }
    return result;
}

kineto_status kt_repair_element(kineto_string text, size_t at, bool comma_due, bool final,
                                kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                                kineto_error *err)
{
    kt_fix f = begin_repair(text, at, final, out, repairs->ts_unit_ns);
    size_t out_from = out->count;
    bool comma;
    int c = kt_fix_next_item(&f, !comma_due, &comma);
    if (c != '{' || is_new_header(&f, f.at)) {
        *result = handle_non_element(&f, c);
    } else {
        if (comma_due && !comma)
            kt_fix_count(&f, KT_REPAIR_MISSING_COMMA, f.at, 0);
        *result = repair_event(&f);
    }
    kt_repaired start = {KT_PIECE_MORE, at, comma_due, false};
    return finish_repair(&f, &start, out_from, repairs, result, err);
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Writes the key of the events, however it is spelled, if an array follows it. */
static bool take_events_key(kt_fix *f, kt_repaired *result)
{
    static const char key[] = "\"traceEvents\"";
    size_t size = sizeof key - 1, from = f->out->count;
    kt_text_end end;
    kt_fix_mark mark;
    kt_fix_save(f, &mark);
    bool is = kt_fix_key(f, &end) == KT_FIXED && !f->no_memory && f->out->count == from + size &&
              memcmp(f->out->data + from, key, size) == 0;
    size_t colon = is ? kt_peek_space_end(f, f->at) : 0;
    size_t bracket = is ? kt_peek_space_end(f, colon + 1) : 0;
    if (!is || kt_fix_byte(f, colon) != ':' || kt_fix_byte(f, bracket) != '[') {
        kt_fix_restore(f, &mark);
        return false;
    }
    kt_fix_put_z(f, ":");
    *result = (kt_repaired){KT_PIECE_EVENT, bracket, true, false};
    return true;
}

static kt_repaired repair_header_member(kt_fix *f, size_t out_from)
{
    kt_repaired result;
    if (take_events_key(f, &result))
        return result;
    size_t from = f->at;
    (void)kt_fix_member_alone(f, KT_LEVEL_HEADER);
    if (f->at == from && f->at < f->size)
        kt_fix_count(f, KT_REPAIR_GARBAGE, f->at++, 1);
    bool written = f->out->count > out_from;
    return (kt_repaired){written ? KT_PIECE_EVENT : KT_PIECE_NOTHING, f->at, !f->cut_short, false};
}

kineto_status kt_repair_member(kineto_string text, size_t at, bool comma_due, bool final,
                               kt_bytes *out, kt_repairs *repairs, kt_repaired *result,
                               kineto_error *err)
{
    kt_fix f = begin_repair(text, at, final, out, repairs->ts_unit_ns);
    size_t out_from = out->count;
    bool comma;
    (void)kt_fix_push(&f, '{', KT_LEVEL_HEADER);
    int c = kt_fix_next_item(&f, !comma_due, &comma);
    bool event = c == '{' && kt_peek_event(&f, f.at);
    if (c < 0 || c == '}' || event) {
        if (c != '}')
            kt_fix_count(&f, KT_REPAIR_UNBALANCED, f.at, 0);
        *result = (kt_repaired){KT_PIECE_END, f.at, false, c < 0};
    } else if (c == ']') {
        kt_fix_count(&f, KT_REPAIR_UNBALANCED, f.at, 1);
        *result = (kt_repaired){KT_PIECE_NOTHING, f.at + 1, true, false};
    } else {
        if (comma_due && !comma)
            kt_fix_count(&f, KT_REPAIR_MISSING_COMMA, f.at, 0);
        *result = repair_header_member(&f, out_from);
    }
    kt_repaired start = {KT_PIECE_MORE, at, comma_due, false};
    return finish_repair(&f, &start, out_from, repairs, result, err);
}

/* Called after a complete document, so every byte before the next one is garbage. */
bool kt_repair_next_document(kineto_string text, size_t at, kt_repairs *repairs, size_t *next)
{
    kt_fix f = begin_repair(text, at, true, NULL, repairs->ts_unit_ns);
    size_t from = kt_peek_space_end(&f, f.at), to = from;
    bool has_event = false;
    for (int c; (c = kt_fix_byte(&f, to)) >= 0; to++) {
        if (is_new_header(&f, to) || is_new_array(&f, to) ||
            (to == from && is_other_object(&f, to)))
            break;
        has_event = has_event || (c == '{' && kt_peek_event_start(&f, to));
    }
    if (to > from)
        (void)kt_repairs_add(repairs, has_event ? KT_REPAIR_GARBAGE : KT_REPAIR_TRAILING, from,
                             to - from);
    KB_ASSERT(to >= from && to <= KB_MAX(f.size, from));
    *next = to;
    if (to < f.size)
        (void)kt_repairs_add(repairs, KT_REPAIR_NEW_DOCUMENT, to, 0);
    return to < f.size;
}

/* ---- the form of a text ---------------------------------------------------------------------- */

bool kt_repair_begins_event(kineto_string text, bool *cut)
{
    kt_scan s = kt_scan_of(text);
    kineto_string key, value;
    bool first = true, event = false;
    *cut = false;
    if (!kt_scan_open(&s, '{'))
        return false;
    for (bool begin_repair = true; kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key);
         begin_repair = false) {
        if (kt_known_member(KT_LEVEL_HEADER, key) >= 0)
            return false;
        event = event || kt_json_is_key(key, "ph") || (begin_repair && kt_json_is_key(key, "name"));
        if (!kt_scan_value(&s, &value))
            break;
    }
    *cut = s.problem && s.end - s.at < TOKEN_BYTES;
    return event;
}

bool kt_repair_holds_events(kineto_string text)
{
    kt_scan s = kt_scan_of(text);
    kineto_string key, value;
    bool first = true, ok = kt_scan_open(&s, '{');
    while (ok && kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key)) {
        if (kt_json_is_key(key, "traceEvents"))
            return kt_scan_peek(&s) == '[';
        ok = kt_scan_value(&s, &value);
    }
    return false;
}

kineto_status kt_fail_no_events_left(const kt_repairs *r, kineto_error *err)
{
    uint64_t times = r->kinds[KT_REPAIR_TIME_RANGE].count;
    if (times)
        return kb_fail(err, KINETO_E_FORMAT,
                       "%llu events have times too large for the unit of \"ts\", microseconds; if "
                       "they are nanoseconds, read them with --ts-unit ns",
                       (unsigned long long)times);
    return kb_fail(err, KINETO_E_FORMAT, "not a Chrome trace: it holds no event");
}
