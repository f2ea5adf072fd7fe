/* kineto_trace_open: a Chrome trace, from its first byte to the finished model. */
#include "trace/read/read.h"

#include "trace/bytes/foreign.h"

#define KT_LEAST_ITEM_BYTES ((size_t)32 << 20) /* of text for one item, however small the limit of memory */

kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem)
{
    size_t offset = (size_t)(at - r->input->base);
    kineto_status status =
        kb_fail(r->err, KINETO_E_FORMAT, "%s (byte %zu)", problem ? problem : "bad JSON", offset);
    if (r->err)
        r->err->offset = offset;
    return status;
}

/* Slowly, from where the fast way gave up. */
kineto_status kt_read_explain(kt_reader *r, size_t offset, bool first, char bracket)
{
    size_t ready = kt_input_wait(r->input, SIZE_MAX);
    kt_scan scan = kt_scan_of((kineto_string){r->input->base, ready});
    kineto_string raw;
    scan.at += offset;
    if (kt_scan_more(&scan, &first, bracket) && (bracket == '[' || kt_scan_key(&scan, &raw)))
        (void)kt_scan_value(&scan, &raw);
    return scan.problem ? kt_read_fail(r, scan.at, scan.problem) : KINETO_OK;
}

/* ---- the file's outline ---------------------------------------------------------------------- */

typedef struct outline {
    kt_cursor *cursor;
    kineto_string devices, own;
    bool has_events;
    bool nested; /* in the object that a "traceEvents" holds */
} outline;

/* It is no bracket of this kind: say so as the slow way does. */
static kineto_status no_bracket(kt_reader *r, const char *at, char bracket)
{
    kt_scan scan = {r->input->base, at, r->input->base + kt_input_wait(r->input, SIZE_MAX), NULL};
    (void)kt_scan_open(&scan, bracket);
    return kt_read_fail(r, scan.at, scan.problem);
}

/* By what stands at its beginning, whatever comes behind it. */
static kineto_status refuse(kt_reader *r, const char *at)
{
    size_t before = (size_t)(at - r->input->base);
    r->refused_at_once = kt_input_ready(r->input, before + 1) > before;
    kineto_string head = {r->input->base, kt_input_ready(r->input, 16)};
    const char *problem = kt_text_foreign(head);
    return kt_read_fail(
        r, at, problem ? problem : "expected an object: a Chrome trace begins with { or [");
}

/* What the text may begin with. */
static size_t skip_mark(kt_reader *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    return kt_input_ready(r->input, 3) >= 3 && memcmp(r->input->base, mark, 3) == 0 ? 3 : 0;
}

/* The array that begins at `p`; the cursor goes on behind it. */
static kineto_status read_array(kt_reader *r, outline *o, const char *p)
{
    size_t stop;
    if (*p != '[')
        return no_bracket(r, p, '[');
    if (o->has_events && r->strict) /* readers differ in which one they take: none is the truth */
        return kt_read_fail(r, p, "a second \"traceEvents\"");
    r->second_events += o->has_events;
    o->has_events = true;
    kineto_status status = kt_read_events(r, kt_cursor_offset(o->cursor, p) + 1, &stop);
    if (status == KINETO_OK)
        kt_cursor_start(o->cursor, r->input, stop);
    return status;
}

/* The text may be gone when it is looked at. */
static kineto_status keep_member(kt_reader *r, kineto_string value, kineto_string *kept)
{
    char *copy = kb_arena_copy(&r->repaired, value.data, value.size);
    *kept = (kineto_string){copy, copy ? value.size : 0};
    return copy ? KINETO_OK : kt_read_no_memory(r);
}

static kineto_status count_change(kt_reader *r, kt_repair_kind kind, size_t offset, size_t bytes)
{
    return kt_repairs_add(&r->b->trace->repairs, kind, offset, bytes) ? KINETO_OK
                                                                     : kt_read_no_memory(r);
}

/* A "traceEvents" that holds no list. */
static kineto_status leave_out_events(kt_reader *r, kineto_string value)
{
    bool in_text =
        value.data >= r->input->base && value.data < r->input->base + r->input->ready_bytes;
    r->wrong_events++;
    return count_change(r, KT_REPAIR_WRONG_TYPE,
                        in_text ? (size_t)(value.data - r->input->base) : 0, value.size);
}

/* Of several members with one key the first counts, as in a repaired file. */
static kineto_status take_first(kt_reader *r, kineto_string key, kineto_string value, bool *is_first)
{
    uint64_t content = kb_hash(value.data, value.size);
    const uint64_t *first =
        kb_map_insert(&r->header_keys, kb_hash(key.data, key.size), content, is_first);
    if (!first)
        return kt_read_no_memory(r);
    r->repeated_header += !*is_first && *first != content;
    return KINETO_OK;
}

static kineto_status take_member(kt_reader *r, outline *o, kineto_string raw, kineto_string value)
{
    char room[KT_PLAIN_KEY_BYTES];
    bool is_first = false;
    kineto_string key = kt_json_plain_key(raw, room);
    if (kb_string_equal(key, kb_string("traceEvents")))
        return leave_out_events(r, value);
    kineto_status status = take_first(r, key, value, &is_first);
    if (status != KINETO_OK || !is_first)
        return status;
    bool old = kb_string_equal(key, kb_string("computeProperties")) && !o->devices.size;
    if (old || kb_string_equal(key, kb_string("deviceProperties")))
        return keep_member(r, value, &o->devices);
    if (kb_string_equal(key, kb_string("ckineto")))
        return keep_member(r, value, &o->own);
    if (kb_string_equal(key, kb_string("baseTimeNanoseconds")) &&
        keep_member(r, value, &r->base_text) != KINETO_OK)
        return kt_read_no_memory(r);
    return kt_read_header(r, key, value);
}

static kineto_status read_object(kt_reader *r, outline *o, const char *open);

/* The object at `p` holds the events, one level down: its members are the header's. */
static kineto_status read_nested(kt_reader *r, outline *o, const char *p, const char **end)
{
    kineto_status status = count_change(r, KT_REPAIR_NESTED_EVENTS, kt_cursor_offset(o->cursor, p), 1);
    o->nested = true;
    if (status == KINETO_OK)
        status = read_object(r, o, p);
    o->nested = false;
    *end = r->input->base + o->cursor->next; /* read_object starts the cursor behind its end */
    return status;
}

/* Does the object at `p` have a list of events? */
static bool holds_events(kt_reader *r, const char *p)
{
    size_t ready = kt_input_wait(r->input, SIZE_MAX);
    return kt_repair_holds_events((kineto_string){p, (size_t)(r->input->base + ready - p)});
}

/* One member, whose key is at `p`. KINETO_E_FORMAT with a problem in the cursor: it is no JSON. */
static kineto_status read_member(kt_reader *r, outline *o, const char *p, const char **end)
{
    kt_cursor *c = o->cursor;
    kineto_string key;
    if (!kt_take_key(c, p, &key))
        return KINETO_E_FORMAT;
    p = kt_next(c);
    bool events = kt_json_is_key(key, "traceEvents");
    if (events && *p == '[') {
        kineto_status status = read_array(r, o, p);
        *end = r->input->base + c->next;
        return status;
    }
    if (events && r->strict)
        return kt_read_fail(r, p, "\"traceEvents\" must be a list of events");
    if (events && *p == '{' && !o->nested && holds_events(r, p))
        return read_nested(r, o, p, end);
    *end = kt_skip_value(c, p);
    const char *next = *end ? kt_peek(c) : NULL;
    if (*end && c->bad && c->bad < *end)
        kt_object(c, c->bad, KT_BAD_TEXT);
    else if (next && *next != ',' && *next != '}') /* a quote in a text may seem to be its end */
        kt_object(c, next, *next ? "expected ',' or '}'" : "the text ends early");
    if (!*end || c->problem)
        return KINETO_E_FORMAT;
    return take_member(r, o, key, (kineto_string){p, (size_t)(*end - p)});
}

/* A member that could not be read, or what stands where one should. */
static kineto_status member_failed(kt_reader *r, outline *o, const char *before, bool first)
{
    kt_cursor *c = o->cursor;
    kineto_status status = kt_read_explain(r, kt_cursor_offset(c, before), first, '{');
    if (status != KINETO_OK)
        return status;
    return kt_read_fail(r, c->problem_at ? c->problem_at : before, c->problem);
}

/* The text of a repaired member, kept: the header's values are looked at in the end. */
static kineto_status take_repaired(kt_reader *r, outline *o, const kt_bytes *bytes)
{
    kineto_string key, value;
    char *copy = kb_arena_copy(&r->repaired, bytes->data, bytes->count);
    if (!copy)
        return kt_read_no_memory(r);
    kt_scan scan = kt_scan_of((kineto_string){copy, bytes->count});
    if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
        return KINETO_OK;
    kineto_error unused;
    kineto_error *err = r->err;
    r->err = &unused; /* a member of the header that makes no sense is no reason to give up */
    kineto_status status = take_member(r, o, key, value);
    r->err = err;
    return status == KINETO_E_FORMAT ? KINETO_OK : status;
}

/* The text ends before the header does. */
static kineto_status state_cut(kt_reader *r, const kt_repaired *result)
{
    bool cut = result->piece == KT_PIECE_END && result->truncated;
    return !cut || kt_repairs_cut(&r->b->trace->repairs, result->next) ? KINETO_OK
                                                                       : kt_read_no_memory(r);
}

/* Repair the member behind *before and go on behind it. */
static kineto_status repair_member(kt_reader *r, outline *o, const char **before, bool *first,
                                   bool *ended)
{
    kt_bytes bytes = {0};
    kt_repaired result;
    kineto_string text = {r->input->base, kt_input_wait(r->input, SIZE_MAX)};
    kineto_status status = kt_repair_member(text, (size_t)(*before - text.data), !*first, true,
                                            &bytes, &r->b->trace->repairs, &result, r->err);
    bool stuck = result.piece != KT_PIECE_END && result.next <= (size_t)(*before - text.data);
    if (status == KINETO_OK)
        status = state_cut(r, &result);
    bool events = status == KINETO_OK && result.piece == KT_PIECE_EVENT && bytes.count &&
                  bytes.data[bytes.count - 1] == ':';
    if (status == KINETO_OK && stuck)
        status = kt_read_fail(r, text.data + result.next, "the header cannot be repaired");
    kt_cursor_start(o->cursor, r->input, result.next);
    *before = text.data + result.next;
    if (status == KINETO_OK && events)
        status = read_array(r, o, kt_next(o->cursor));
    else if (status == KINETO_OK && result.piece == KT_PIECE_EVENT)
        status = take_repaired(r, o, &bytes);
    if (events)
        *before = text.data + o->cursor->next;
    *first = !(events || result.comma_due);
    *ended = result.piece == KT_PIECE_END;
    kb_vec_free(&bytes);
    return status;
}

/* The next member; *ended: there is none. */
static kineto_status next_member(kt_reader *r, outline *o, const char **before, bool *first,
                                 bool *ended)
{
    const char *end = *before;
    const char *p = kt_next(o->cursor);
    *ended = *p == '}';
    if (*ended)
        return KINETO_OK;
    kineto_status status = KINETO_E_FORMAT;
    if (*first || *p == ',')
        status = read_member(r, o, *first ? p : kt_next(o->cursor), &end);
    else
        kt_object(o->cursor, p, "expected ',' or '}'");
    if (status == KINETO_E_FORMAT && kt_input_status(r->input) == KINETO_E_LIMIT)
        return KINETO_E_LIMIT;
    if (status == KINETO_E_FORMAT && o->cursor->problem)
        return r->strict ? member_failed(r, o, *before, *first)
                         : repair_member(r, o, before, first, ended);
    *before = end;
    *first = false;
    if (status == KINETO_OK)
        kt_input_passed(r->input, (size_t)(end - r->input->base));
    return status;
}

static kineto_status no_events(kt_reader *r, const char *at)
{
    return kt_read_fail(r, at,
                        r->wrong_events
                            ? "\"traceEvents\" holds no list of events: put them into one"
                            : "no \"traceEvents\": this is no Chrome trace");
}

/* Behind the bracket that the cursor stepped over last. */
static size_t end_of_nested(const outline *o)
{
    const kt_cursor *c = o->cursor;
    return c->at > c->positions ? kt_cursor_offset(c, c->window + c->at[-1]) + 1 : c->next;
}

static kineto_status read_object(kt_reader *r, outline *o, const char *open)
{
    const char *before = open + 1;
    bool first = true, ended = false;
    bool closed = false; /* by the bracket that is stepped over */
    while (!ended) {
        closed = *kt_peek(o->cursor) == '}';
        kineto_status status = next_member(r, o, &before, &first, &ended);
        if (status != KINETO_OK)
            return status;
    }
    if (!o->has_events && r->strict)
        return no_events(r, kt_peek(o->cursor));
    if (!closed && *kt_peek(o->cursor) == '}') /* a repaired end */
        kt_next(o->cursor);
    if (o->nested)
        kt_cursor_start(o->cursor, r->input, end_of_nested(o));
    return KINETO_OK;
}

/* The base time stands behind the events, but they need it: look ahead if the end is there. */
static void look_for_base(kt_reader *r)
{
    static const char key[] = "\"baseTimeNanoseconds\"";
    if (!r->input->mapped)
        return;
    size_t size = r->input->ready_bytes, from = size > 65536 ? size - 65536 : 0;
    const char *text = r->input->base + from;
    const char *found = memmem(text, size - from, key, sizeof key - 1);
    int64_t base;
    if (!found)
        return;
    found += sizeof key - 1;
    while (kt_is_space(*found) || *found == ':')
        found++;
    size_t digits = strspn(found, "-0123456789");
    if (kt_read_base((kineto_string){found, digits}, &base))
        r->used_base_ns = base;
}

/* Does an event stand there, without a list around it, as where there is one on each line? */
static bool begins_with_event(kt_reader *r, const char *p)
{
    bool cut = true, event = false;
    size_t offset = (size_t)(p - r->input->base), ready = 0, reach = 65536;
    for (; cut; reach *= 2) {
        size_t before = ready;
        ready = kt_input_ready(r->input, offset + reach);
        if (ready == before)
            break;
        size_t size = KB_MIN(ready - offset, reach);
        event = kt_repair_begins_event((kineto_string){p, size}, &cut);
        if (ready < offset + reach)
            break;
    }
    return event;
}

/* Events without a list around them, from `p` on. */
static kineto_status read_lines(kt_reader *r, outline *o, const char *p)
{
    size_t stop, offset = kt_cursor_offset(o->cursor, p);
    o->has_events = true;
    kineto_status status = count_change(r, KT_REPAIR_UNBALANCED, offset, 0);
    if (status == KINETO_OK)
        status = kt_read_events(r, offset, &stop);
    if (status == KINETO_OK)
        kt_cursor_start(o->cursor, r->input, stop);
    return status;
}

/* One document that begins at `offset`; *stop: behind it. */
static kineto_status read_document(kt_reader *r, outline *o, size_t offset, size_t *stop)
{
    kineto_status status;
    kt_cursor_start(o->cursor, r->input, offset);
    const char *p = kt_next(o->cursor);
    if (*p == '[')
        status = read_array(r, o, p);
    else if (*p == '{' && !r->strict && begins_with_event(r, p))
        status = read_lines(r, o, p);
    else if (*p == '{')
        status = read_object(r, o, p);
    else if (!offset)
        return refuse(r, p);
    else
        return no_bracket(r, p, '{');
    if (status == KINETO_OK)
        *stop = kt_cursor_offset(o->cursor, kt_peek(o->cursor));
    return status;
}

/* How much of the text is needed to see where the next document begins: little if it begins at once. */
static size_t ready_for_document(kt_reader *r, size_t stop)
{
    size_t ready = kt_input_ready(r->input, stop + KT_BATCH_BYTES), at = stop;
    while (at < ready && kt_is_space(r->input->base[at]))
        at++;
    bool begins = ready - at > KT_BATCH_BYTES / 2 &&
                  (r->input->base[at] == '{' || r->input->base[at] == '[');
    return begins ? ready : kt_input_wait(r->input, SIZE_MAX);
}

static kineto_status read_text(kt_reader *r, outline *o)
{
    size_t stop = 0;
    const char *next_base = NULL;
    if (kt_input_ready(r->input, 1) == 0)
        return kt_input_status(r->input) != KINETO_OK ? kt_input_status(r->input)
                                             : kt_read_fail(r, r->input->base, "the file is empty");
    kineto_string head = {r->input->base, kt_input_ready(r->input, 4)};
    if (kt_text_is_wide(head))
        return refuse(r, head.data);
    look_for_base(r);
    kineto_status status = read_document(r, o, skip_mark(r), &stop);
    while (status == KINETO_OK && kt_input_ready(r->input, stop + 1) > stop) {
        kineto_string text = {r->input->base, ready_for_document(r, stop)};
        if (r->strict)
            return kt_read_fail(r, text.data + stop, "text after the end");
        if (!begins_with_event(r, text.data + stop)) {
            if (!kt_repair_next_document(text, stop, &r->b->trace->repairs, &stop))
                break;
            kineto_string rest = {text.data + stop, text.size - stop};
            if (!kt_repair_same_base(r->base_text, rest, &next_base)) {
                status = count_change(r, KT_REPAIR_OTHER_BASE, stop, rest.size);
                break;
            }
        }
        status = read_document(r, o, stop, &stop);
    }
    return status == KINETO_OK && !o->has_events ? no_events(r, r->input->base + stop) : status;
}

/* ---- the end --------------------------------------------------------------------------------- */

/* All times count from the header's base, which may have come last. */
static void move_times(kt_reader *r)
{
    kineto_trace *t = r->b->trace;
    int64_t by;
    if (__builtin_sub_overflow(r->base_ns, r->used_base_ns, &by))
        by = 0;
    for (size_t i = 0; by && i < t->blocks.count; i++) {
        kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++) {
            b->start_ns[row] = kt_shifted(b->start_ns[row], by);
            b->end_ns[row] = kt_shifted(b->end_ns[row], by);
        }
        b->min_start_ns = kt_shifted(b->min_start_ns, by);
        b->max_end_ns = kt_shifted(b->max_end_ns, by);
    }
    for (size_t i = 0; i < r->late.count; i++)
        r->late.data[i].ts_ns = kt_shifted(r->late.data[i].ts_ns, r->base_ns);
    for (size_t i = 0; i < r->pending.count; i++)
        if (r->pending.data[i].closed || r->pending.data[i].bounded)
            r->pending.data[i].end_ns = kt_shifted(r->pending.data[i].end_ns, r->base_ns);
    r->window_end_ns = kt_shifted(r->window_end_ns, r->base_ns);
}

static void span_of(const kineto_trace *t, int64_t *start, int64_t *end)
{
    *start = INT64_MAX;
    *end = INT64_MIN;
    for (size_t i = 0; i < t->blocks.count; i++) {
        *start = KB_MIN(*start, t->blocks.data[i]->min_start_ns);
        *end = KB_MAX(*end, t->blocks.data[i]->max_end_ns);
    }
}

static void close_ranges(kt_reader *r)
{
    for (size_t i = 0; i < r->pending.count; i++) {
        const kt_pending *p = &r->pending.data[i];
        if (p->closed)
            kt_row_close(r->b, p->row, p->end_ns, p->open_end);
    }
}

/* Begins without an end last to the end of a range around them, else to the last known moment. */
static void close_begin(kt_reader *r, const kt_pending *p, int64_t last_ns)
{
    int64_t end_ns = p->bounded ? p->end_ns : last_ns;
    kt_row_close(r->b, p->row, KB_MAX(end_ns, kt_start(r->b->trace, p->row)), true);
    r->lost_ends += p->bounded;
    r->unclosed += !p->bounded;
}

static void state_window(kt_reader *r)
{
    const kineto_trace *t = r->b->trace;
    int64_t start, end;
    span_of(t, &start, &end);
    if (r->has_window_end && t->count && r->window_end_ns < start) {
        r->has_window_end = false;
        kt_read_distrust_window(r);
    }
    end = r->has_window_end ? r->window_end_ns : end;
    for (size_t i = 0; i < r->pending.count; i++)
        if (!r->pending.data[i].closed)
            close_begin(r, &r->pending.data[i], end);
    if (r->has_window)
        kt_window(r->b, r->window_start_ns, r->window_end_ns);
    else if (r->has_window_end)
        kt_window(r->b, KB_MIN(start, end), end);
}

/* Categories of plug-ins' own may be stated behind the events. */
static void apply_own_kinds(kt_reader *r)
{
    kineto_trace *t = r->b->trace;
    int kinds[KT_MAX_OWN_KINDS], none = 1;
    uint16_t categories[KT_MAX_OWN_KINDS];
    size_t count = 0;
    uint32_t memory = kt_string(r->b, kb_string("[memory]"));
    for (size_t i = 0; i < t->own_kinds.count; i++)
        for (size_t c = 0; c < t->categories.count; c++)
            if (t->categories.data[c] == t->own_kinds.data[i].category &&
                kb_kind_parse(kb_intern_get(&t->strings, t->categories.data[c])) < 0) {
                categories[count] = (uint16_t)c;
                kinds[count++] = (int)t->own_kinds.data[i].kind;
                none = 0;
            }
    for (size_t i = 0; !none && i < t->blocks.count; i++) {
        kt_block *b = t->blocks.data[i];
        for (uint32_t row = 0; row < b->count; row++)
            for (size_t k = 0; k < count; k++)
                if (b->category[row] == categories[k] &&
                    !(b->form[row] == KINETO_FORM_INSTANT && b->name[row] == memory)) {
                    b->kind[row] = (uint8_t)kinds[k];
                    b->kinds |= KINETO_KIND_BIT(kinds[k]);
                }
    }
}

static void state_repairs(kt_reader *r)
{
    const kt_repairs *repairs = &r->b->trace->repairs;
    char reason[160], detail[80];
    for (uint32_t kind = 0; kind < KT_REPAIR_KINDS; kind++) {
        if (!repairs->kinds[kind].count)
            continue;
        snprintf(reason, sizeof reason, KT_REPAIR_REASON, kt_repair_text((kt_repair_kind)kind));
        bool is_end = kind == KT_REPAIR_TRUNCATED;
        snprintf(detail, sizeof detail, is_end ? "it ends at byte %llu" : "first at byte %llu of the text",
                 (unsigned long long)(is_end ? r->b->trace->text_bytes
                                             : repairs->kinds[kind].first_offset));
        kt_ledger_add(r->b, kb_string("reader"), kb_string(reason), repairs->kinds[kind].count,
                      kt_repair_loses((kt_repair_kind)kind) == KT_LOSES_EVENTS, kb_string(detail));
    }
    if (kt_input_status(r->input) != KINETO_OK)
        kt_ledger_add(r->b, kb_string("reader"), kb_string(KT_REPAIR_DAMAGED), 1, true,
                      kb_string(r->input->error.message));
}

/* Members of events that are in no trace. */
static void state_unread(kt_reader *r)
{
    for (size_t i = 0; i < r->unread.count; i++) {
        const kt_unread *u = &r->unread.data[i];
        char reason[200], phase[40] = "";
        if (u->phase)
            snprintf(phase, sizeof phase, " with \"ph\": \"%c\"", u->phase);
        kineto_string name = kb_utf8_cut(u->name, 100);
        snprintf(reason, sizeof reason, u->name.size ? "member of an event that is not read: \"%.*s\"%s"
                                                     : "member of an event that is not read",
                 (int)name.size, name.data, phase);
        kt_ledger_add(r->b, kb_string("reader"), kb_string(reason), u->count, false, kb_string(""));
    }
}

static void state_ledger(kt_reader *r)
{
    const struct {
        uint64_t count;
        const char *reason;
        bool is_loss;
    } lines[] = {{r->other_phases, "event of an unsupported phase", true},
                 {r->unmatched_ends, "end without a begin", true},
                 {r->end_args_twice, "argument of a begin and its end: that of the end counts", false},
                 {r->doubtful_ends,
                  "range whose end may be another's, as ends around it fit no begin: flagged", false},
                 {r->unclosed, "begin without an end: lasts to the last known moment", false},
                 {r->lost_ends, "begin whose end is missing: lasts as long as the range around it", true},
                 {r->other_metadata, "unknown metadata event", false},
                 {r->empty_objects, "empty object among the events", false},
                 {r->repeated_header,
                  "member repeated in the header, with another value: the first one counts", false},
                 {r->nameless_devices, "device properties without an id: left out", false},
                 {r->repeated_members, "member repeated in its event: the last one counts", false},
                 {r->second_events, "more lists of events: all were read", false},
                 {r->lone_surrogates, "half a surrogate pair replaced by U+FFFD", false}};
    for (size_t i = 0; i < KB_COUNT(lines); i++)
        if (lines[i].count)
            kt_ledger_add(r->b, kb_string("reader"), kb_string(lines[i].reason), lines[i].count,
                          lines[i].is_loss, kb_string(""));
    state_unread(r);
    state_repairs(r);
    r->b->negative_durations += r->negative_durations;
    r->b->long_args += r->long_args;
}

/* How many of a track's rows begin up to a moment. */
static size_t rows_until(const kineto_trace *t, uint32_t track, int64_t ns)
{
    const kineto_row *rows = kineto_trace_track_rows(t, track);
    size_t low = 0, high = rows ? t->tracks.data[track].count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (kt_start(t, rows[middle]) <= ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The innermost row of the track around a moment: of the last one that has begun, or of what encloses
 * that, the first that has not ended (nesting.c). */
static kineto_row row_at(const kineto_trace *t, uint32_t track, int64_t ns)
{
    size_t count = rows_until(t, track, ns);
    kineto_row row = count ? kineto_trace_track_rows(t, track)[count - 1] : KINETO_NO_ROW;
    while (row != KINETO_NO_ROW && kt_end(t, row) < ns)
        row = kineto_trace_parent(t, row);
    return row;
}

/* The one that begins then or next; if none does, the one around it. */
static kineto_row row_from(const kineto_trace *t, uint32_t track, int64_t ns)
{
    size_t count = rows_until(t, track, ns);
    kineto_row around = row_at(t, track, ns);
    bool begins = around != KINETO_NO_ROW && kt_start(t, around) == ns;
    if (begins || count >= t->tracks.data[track].count)
        return around;
    return kineto_trace_track_rows(t, track)[count];
}

static bool join_flows(kt_reader *r, kineto_trace *t)
{
    uint64_t nowhere = 0;
    if (r->late.count && !kt_need(t, KT_STAGE_NESTING))
        return false;
    for (size_t i = 0; i < r->late.count; i++) {
        const kt_late_flow *late = &r->late.data[i];
        kineto_row row = late->next ? row_from(t, late->track, late->ts_ns)
                                    : row_at(t, late->track, late->ts_ns);
        r->ends.data[late->end].row = row;
        if (row != KINETO_NO_ROW)
            continue;
        r->late.data[nowhere++] = *late; /* what is left of the list are those without a row */
    }
    r->late.count = nowhere;
    if (nowhere && !kt_need(t, KT_STAGE_NESTING))
        return false; /* nobody could tell */
    if (nowhere) {
        kt_ledger_row line = {.source = kb_intern_id(&t->strings, kb_string("reader")),
                              .reason = kb_intern_id(&t->strings, kb_string("flow without a row")),
                              .is_loss = true,
                              .count = nowhere};
        if (line.source == KB_INTERN_NONE || line.reason == KB_INTERN_NONE ||
            !kb_vec_push(&t->ledger, line))
            return false;
    }
    return kt_join_flows(t, &(kt_stated_flows){.ends = r->ends.data,
                                               .count = r->ends.count,
                                               .nowhere = r->late.data,
                                               .nowhere_count = r->late.count,
                                               .texts = r->flow_texts.data,
                                               .text_count = r->flow_texts.count});
}

static kineto_status finish(kt_reader *r, const outline *o, kineto_trace **out)
{
    r->b->trace->was_read = true;
    r->b->trace->file_base_ns = r->base_ns;
    kt_input_passed(r->input, SIZE_MAX);
    r->b->trace->text_bytes = kt_input_wait(r->input, SIZE_MAX);
    kineto_status status = kt_read_join_processes(r);
    if (status != KINETO_OK)
        return status;
    kt_read_own_kinds(r, o->own);
    move_times(r);
    close_ranges(r);
    kt_read_give_end_args(r);
    apply_own_kinds(r);
    kt_read_apply(r, o->devices, o->own);
    state_window(r);
    state_ledger(r);
    status = kt_builder_finish(r->b, out, r->err);
    if (status != KINETO_OK || join_flows(r, *out))
        return status;
    kineto_trace_release(*out);
    *out = NULL;
    return kt_read_no_memory(r);
}

static void release(kt_reader *r)
{
    kt_builder_destroy(r->b);
    kb_map_free(&r->open);
    kb_map_free(&r->header_keys);
    for (size_t i = 0; i < r->pending.count; i++)
        free(r->pending.data[i].args);
    kb_vec_free(&r->pending);
    kb_vec_free(&r->flow_texts);
    kb_vec_free(&r->joined_args);
    kb_vec_free(&r->unread);
    kb_vec_free(&r->loose_ends);
    kt_store_free(r->store, r->ends.data);
    kt_store_free(r->store, r->late.data);
    kb_vec_free(&r->host_counters);
    kb_arena_free(&r->repaired);
    kb_map_free(&r->properties);
}

/* The message gets the file's name in front. */
static kineto_status name_file(kineto_status status, const char *path, kineto_error *err)
{
    if (status == KINETO_OK || !err)
        return status;
    kineto_error inner = *err;
    kb_fail(err, status, "%s: %s", path, inner.message);
    err->offset = inner.offset;
    return status;
}

static kineto_status read_input(kt_reader *r, kineto_trace **out)
{
    outline o = {.cursor = calloc(1, sizeof(kt_cursor))};
    kineto_status status = o.cursor ? kt_builder_create(&r->b, r->err) : kt_read_no_memory(r);
    if (status == KINETO_OK) {
        kt_builder_store(r->b, r->store);
        status = read_text(r, &o);
    }
    /* Repair leaves nothing of what never was one. */
    if (status == KINETO_OK && !r->events && r->b->trace->repairs.total)
        status = kt_repair_nothing_left(&r->b->trace->repairs, r->err);
    if (status == KINETO_OK)
        status = finish(r, &o, out);
    free(o.cursor);
    return status;
}

/* What is wrong with a compressed file is why its text is: so it is looked for when the text makes
 * no sense. Unless what is there is enough. */
static bool is_damaged(const kt_reader *r, kineto_status status)
{
    if (r->refused_at_once)
        return false;
    if (status == KINETO_E_FORMAT)
        (void)kt_input_wait(r->input, SIZE_MAX);
    return kb_load_acquire(&r->input->complete) && kt_input_status(r->input) != KINETO_OK &&
           (status != KINETO_OK || r->strict || kt_input_status(r->input) == KINETO_E_LIMIT);
}

static kineto_status settle_input(kt_reader *r, const char *path, kineto_status status,
                                  kineto_trace **out)
{
    bool damaged = is_damaged(r, status);
    if (kt_input_check(r->input, &r->input->error)) {
        r->input->status = KINETO_E_IO;
        damaged = true;
    }
    kt_input_finish(r->input);
    if (!damaged && status == KINETO_OK)
        status = kt_input_settle(r->input, r->err);
    if (!damaged && status == KINETO_OK) {
        kt_store_watch(r->store, r->input);
        return status;
    }
    kineto_trace_release(*out);
    *out = NULL;
    if (!damaged)
        return name_file(status, path, r->err);
    if (r->err)
        *r->err = r->input->error;
    return kt_input_status(r->input);
}

kineto_status kineto_trace_open_with(const char *path, const kineto_open_options *options,
                                     kineto_trace **out, kineto_error *err)
{
    kineto_open_options o = {.size = sizeof o};
    if (out)
        *out = NULL;
    if (!path || !out)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "a path, and a place for the trace, are needed to open it");
    kineto_status known = kb_options_read(&o, sizeof o, options, "kineto_open_options", err);
    if (known)
        return known;
    if (kt_ts_shift(o.ts_unit_ns) < 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ts_unit_ns must be 1, 1000, 1000000 or 1000000000 nanoseconds, not %llu",
                       (unsigned long long)o.ts_unit_ns);
    kt_reader r = {.err = err,
                   .last_row = KINETO_NO_ROW,
                   .strict = o.strict,
                   .ts_unit_ns = o.ts_unit_ns};
    r.threads = o.threads ? o.threads : kb_os_cpus();
    r.seed = kb_hash_secret();
    kineto_status status = kt_input_open(path, &r.input, err);
    if (status != KINETO_OK)
        return status;
    if (o.memory_bytes)
        kt_input_limit(r.input, KB_MAX((size_t)o.memory_bytes / 2, KT_LEAST_ITEM_BYTES));
    if (o.memory_bytes)
        status = kt_store_create(o.memory_bytes, &r.store, err);
    if (status == KINETO_OK)
        status = read_input(&r, out);
    status = settle_input(&r, path, status, out);
    release(&r);
    kt_input_release(r.input);
    kt_store_release(r.store);
    return status;
}

kineto_status kineto_trace_open(const char *path, kineto_trace **out, kineto_error *err)
{
    return kineto_trace_open_with(path, NULL, out, err);
}
