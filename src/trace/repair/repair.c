/* Repair between elements: commas, garbage, the end of the array; and what becomes of an element.
 */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/json_text.h"

/* ---- beginning and ending a call ------------------------------------------------------------- */

static kt_fix begin(kineto_string text, size_t at, bool final, kt_bytes *out, uint64_t ts_unit_ns)
{
    return (kt_fix){.text = text.data,
                    .size = text.size,
                    .final = final,
                    .ts_shift = kt_ts_shift(ts_unit_ns),
                    .at = KB_MIN(at, text.size),
                    .out = out,
                    .tries = KT_FIX_TRIES};
}

static int by_offset(const void *a, const void *b)
{
    const kt_repair *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->kind > y->kind) - (x->kind < y->kind);
}

/* Hand over the changes, unless more text could change them. */
static kineto_status finish(kt_fix *f, const kt_repaired *start, size_t out_from,
                            kt_repairs *repairs, kt_repaired *result, kineto_error *err)
{
    if (f->ran_out && !f->final) {
        *result = *start;
        f->out->count = out_from;
        f->changes.count = 0;
        memset(f->uncounted, 0, sizeof f->uncounted);
    }
    if (f->changes.count)
        qsort(f->changes.data, f->changes.count, sizeof *f->changes.data, by_offset);
    for (size_t i = 0; i < f->changes.count && !f->no_memory; i++) {
        const kt_repair *c = &f->changes.data[i];
        f->no_memory = !kt_repairs_add(repairs, (kt_repair_kind)c->kind, c->offset, c->bytes);
    }
    for (uint32_t i = 0; i < KT_REPAIR_KINDS; i++)
        kt_repairs_more(repairs, (kt_repair_kind)i, f->uncounted[i]);
    kb_vec_free(&f->changes);
    return f->no_memory ? kb_fail(err, KINETO_E_MEMORY, "no memory to repair a trace") : KINETO_OK;
}

/* ---- between elements ------------------------------------------------------------------------ */

/* Is there a key of the header at `at`? */
static bool header_key(kt_fix *f, size_t at)
{
    return kt_look_key(f, at, KT_LEVEL_HEADER) == KT_SURE;
}

/* An object of a header: another document begins. */
static bool new_header(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '{' && header_key(f, kt_look_space(f, at + 1));
}

static bool new_array(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '[' && kt_look_start(f, kt_look_space(f, at + 1));
}

/* An object that is not an event. */
static bool any_object(kt_fix *f, size_t at)
{
    return kt_fix_byte(f, at) == '{' && !kt_look_start(f, at) &&
           kt_look_key(f, kt_look_space(f, at + 1), KT_LEVEL_HEADER) != KT_NO;
}

/* Nothing but sound members from the comma at `at` on, and the bracket that ends a document? */
static bool sound_tail(kt_fix *f, size_t at)
{
    kt_scan s = kt_scan_of((kineto_string){f->text + at, f->size - at});
    kineto_string key, value;
    bool first = false;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value)) {
    }
    f->ran_out = f->ran_out || s.end - s.at < 8; /* no word, no escape is longer */
    size_t behind = kt_look_space(f, (size_t)(s.at - f->text));
    return !s.problem &&
           (kt_fix_byte(f, behind) < 0 || new_header(f, behind) || new_array(f, behind));
}

/* Can the closing bracket at `at` be the array's, or the one of the whole? */
static bool ends_array(kt_fix *f, size_t at)
{
    size_t next = kt_look_space(f, at + 1);
    int c = kt_fix_byte(f, next);
    if (c == ',') {
        size_t key = kt_look_space(f, next + 1);
        return kt_look_key(f, key, KT_LEVEL_HEADER) == KT_SURE ||
               (kt_look_key(f, key, KT_LEVEL_HEADER) == KT_MAYBE &&
                kt_look_key(f, key, KT_LEVEL_EVENT) != KT_SURE) ||
               (f->text[at] == ']' && sound_tail(f, next));
    }
    if (f->text[at] == ']' && c == '}') {
        next = kt_look_space(f, next + 1);
        c = kt_fix_byte(f, next);
        return c != ',' && (c != '{' || any_object(f, next));
    }
    return c < 0 || (f->text[at] == ']' && (new_header(f, next) || new_array(f, next)));
}

/* Skip to where an event begins or the array ends. */
static kt_repaired skip_garbage(kt_fix *f)
{
    size_t from = f->at, to = from + 1;
    for (int c; (c = kt_fix_byte(f, to)) >= 0; to++)
        if ((c == '{' && (kt_look_start(f, to) || new_header(f, to))) ||
            (c == ']' && kt_look_array_end(f, to)) || (c == '"' && header_key(f, to)))
            break;
    if (to >= f->size && !f->final) {
        if (f->size - from < KT_REPAIR_REACH_BYTES)
            return (kt_repaired){KT_PIECE_MORE, from, false, false};
        to = f->size - 1024; /* an event may begin in the rest */
        f->ran_out = false;
    }
    kt_fix_count(f, KT_REPAIR_GARBAGE, from, to - from);
    return (kt_repaired){KT_PIECE_NOTHING, to, false, false};
}

/* A closing bracket where an element should be. */
static kt_repaired at_closer(kt_fix *f)
{
    bool array = f->text[f->at] == ']';
    size_t at = f->at;
    if (ends_array(f, at) || (!array && header_key(f, kt_look_space(f, at + 1)))) {
        if (!array)
            kt_fix_count(f, KT_REPAIR_UNBALANCED, at, 0);
        return (kt_repaired){KT_PIECE_END, at, false, false};
    }
    kt_fix_count(f, KT_REPAIR_UNBALANCED, at, 1);
    return (kt_repaired){KT_PIECE_NOTHING, at + 1, true, false};
}

static kt_repaired end_without_bracket(kt_fix *f)
{
    kt_fix_count(f, KT_REPAIR_UNBALANCED, f->at, 0);
    return (kt_repaired){KT_PIECE_END, f->at, false, f->at >= f->size};
}

/* What stands where an element should, if it is none. */
static kt_repaired no_element(kt_fix *f, int c)
{
    if (c < 0 || new_header(f, f->at) || (c == '"' && header_key(f, f->at)))
        return end_without_bracket(f);
    if (c == ']' || c == '}')
        return at_closer(f);
    if (new_array(f, f->at)) {
        kt_fix_count(f, KT_REPAIR_NEW_DOCUMENT, f->at, 1);
        return (kt_repaired){KT_PIECE_NOTHING, f->at + 1, false, false};
    }
    return skip_garbage(f);
}

/* ---- elements -------------------------------------------------------------------------------- */

/* What every reader needs of an event. */
static bool has_essentials(const kt_fix *f)
{
    const kt_fix_event *e = &f->event;
    return e->phase && (e->phase == 'M' ? e->has_name : e->has_ts);
}

/* An object without a member: some writers end their list with one. */
static bool is_empty(const kt_fix *f, size_t from, size_t to)
{
    for (size_t i = from + 1; i + 1 < to; i++)
        if ((unsigned char)f->text[i] > ' ')
            return false;
    return true;
}

static kt_repaired element(kt_fix *f)
{
    size_t from = f->at;
    kt_fix_mark mark;
    kt_fix_save(f, &mark);
    kt_fixed status = kt_fix_object(f, KT_LEVEL_EVENT);
    kt_repaired result = {KT_PIECE_EVENT, f->at, !f->cut_short, false};
    if (status == KT_FIX_FAILED || !has_essentials(f)) {
        size_t to = KB_MAX(f->at, from + 1);
        bool odd_time = f->event.odd_time, empty = status == KT_FIXED && is_empty(f, from, to);
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
    kt_fix f = begin(text, at, final, out, repairs->ts_unit_ns);
    size_t out_from = out->count;
    bool comma;
    int c = kt_fix_next_item(&f, !comma_due, &comma);
    if (c != '{' || new_header(&f, f.at)) {
        *result = no_element(&f, c);
    } else {
        if (comma_due && !comma)
            kt_fix_count(&f, KT_REPAIR_MISSING_COMMA, f.at, 0);
        *result = element(&f);
    }
    kt_repaired start = {KT_PIECE_MORE, at, comma_due, false};
    return finish(&f, &start, out_from, repairs, result, err);
}

/* ---- the header ------------------------------------------------------------------------------ */

/* The key of the events, however it is written, and their bracket behind it. */
static bool at_events(kt_fix *f, kt_repaired *result)
{
    static const char key[] = "\"traceEvents\"";
    size_t size = sizeof key - 1, from = f->out->count;
    kt_text_end end;
    kt_fix_mark mark;
    kt_fix_save(f, &mark);
    bool is = kt_fix_key(f, &end) == KT_FIXED && !f->no_memory && f->out->count == from + size &&
              memcmp(f->out->data + from, key, size) == 0;
    size_t colon = is ? kt_look_space(f, f->at) : 0;
    size_t bracket = is ? kt_look_space(f, colon + 1) : 0;
    if (!is || kt_fix_byte(f, colon) != ':' || kt_fix_byte(f, bracket) != '[') {
        kt_fix_restore(f, &mark);
        return false;
    }
    kt_fix_put_z(f, ":");
    *result = (kt_repaired){KT_PIECE_EVENT, bracket, true, false};
    return true;
}

static kt_repaired header_member(kt_fix *f, size_t out_from)
{
    kt_repaired result;
    if (at_events(f, &result))
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
    kt_fix f = begin(text, at, final, out, repairs->ts_unit_ns);
    size_t out_from = out->count;
    bool comma;
    (void)kt_fix_push(&f, '{', KT_LEVEL_HEADER);
    int c = kt_fix_next_item(&f, !comma_due, &comma);
    bool event = c == '{' && kt_look_event(&f, f.at);
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
        *result = header_member(&f, out_from);
    }
    kt_repaired start = {KT_PIECE_MORE, at, comma_due, false};
    return finish(&f, &start, out_from, repairs, result, err);
}

bool kt_repair_next_document(kineto_string text, size_t at, kt_repairs *repairs, size_t *next)
{
    kt_fix f = begin(text, at, true, NULL, repairs->ts_unit_ns);
    size_t from = kt_look_space(&f, f.at), to = from;
    bool has_event = false;
    for (int c; (c = kt_fix_byte(&f, to)) >= 0; to++) {
        if (new_header(&f, to) || new_array(&f, to) || (to == from && any_object(&f, to)))
            break;
        has_event = has_event || (c == '{' && kt_look_start(&f, to));
    }
    if (to > from)
        (void)kt_repairs_add(repairs, has_event ? KT_REPAIR_GARBAGE : KT_REPAIR_TRAILING, from,
                             to - from);
    *next = to;
    if (to < f.size)
        (void)kt_repairs_add(repairs, KT_REPAIR_NEW_DOCUMENT, to, 0);
    return to < f.size;
}

/* ---- what a text is ---------------------------------------------------------------------------- */

bool kt_repair_begins_event(kineto_string text, bool *cut)
{
    kt_scan s = kt_scan_of(text);
    kineto_string key, value;
    bool first = true, event = false;
    *cut = false;
    if (!kt_scan_open(&s, '{'))
        return false;
    for (bool begin = true; kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key); begin = false) {
        if (kt_known(KT_LEVEL_HEADER, key) >= 0)
            return false;
        event = event || kt_json_is_key(key, "ph") || (begin && kt_json_is_key(key, "name"));
        if (!kt_scan_value(&s, &value))
            break;
    }
    *cut = s.problem && s.end - s.at < 8; /* no word, no escape is longer */
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

kineto_status kt_repair_nothing_left(const kt_repairs *r, kineto_error *err)
{
    uint64_t times = r->kinds[KT_REPAIR_TIME_RANGE].count;
    if (times)
        return kb_fail(err, KINETO_E_FORMAT,
                       "%llu events have times too large for the unit of \"ts\", microseconds; if "
                       "they are nanoseconds, read them with --ts-unit ns",
                       (unsigned long long)times);
    return kb_fail(err, KINETO_E_FORMAT, "nothing in it is an event: this is no Chrome trace");
}
