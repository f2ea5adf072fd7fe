/* Repairs a whole text (kt_repair_document; `ckineto repair`): sound parts are copied byte for
 * byte, damaged ones go through repair.c piece by piece. The output always has the object form;
 * members of the header that come after the events are kept until the array is closed. */
#include "trace/repair/repair_impl.h"
#include "trace/bytes/not_a_trace.h"
#include "trace/bytes/json_text.h"

typedef struct document {
    kineto_string text;
    size_t at;
    bool comma_due;
    bool utf8;
    bool found;        /* an array of events was found */
    bool nested;       /* reading the object that a "traceEvents" holds */
    bool wrong_events; /* a "traceEvents" did not hold a list */
    bool in_array; /* the events' bracket is open in the output */
    uint64_t events_written, members_written;
    kt_bytes piece; /* the piece that is being repaired */
    /* Members that came after the first events, each with a comma before it. */
    kt_bytes late;
    /* The value of "ckineto" in `late`; size 0: there is none. */
    size_t own_at, own_size;
    /* Hash of each key of the header that was written → hash of its value. */
    kb_map keys;
    kineto_string base;      /* "baseTimeNanoseconds" of the first document */
    /* The last one found: the text is searched for it once. */
    const char *next_base;
    kb_sink *out;
    kt_repairs *repairs;
    kt_repair_events *events;
    const char *problem; /* damage of the file that held the text; NULL: none */
    kineto_error *err;
} document;

static kineto_status fail_repair_memory(const document *d)
{
    return kb_fail_memory(d->err, "repair a trace");
}

static kineto_string remaining_text(const document *d)
{
    return (kineto_string){d->text.data + d->at, d->text.size - d->at};
}

static kineto_status count_document_repair(document *d, kt_repair_kind kind, size_t offset,
                                           size_t bytes)
{
    return kt_repairs_add(d->repairs, kind, offset, bytes) ? KINETO_OK : fail_repair_memory(d);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Writes text, with U+FFFD for bytes that are not UTF-8 if requested. */
static void write_repaired_text(document *d, kineto_string s)
{
    if (d->utf8) {
        for (size_t valid; (valid = kb_utf8_valid_prefix(s.data, s.size)) < s.size;) {
            size_t bad = valid + kb_utf8_bad_length(s.data + valid, s.size - valid);
            kb_sink_write(d->out, s.data, valid);
            kb_sink_write(d->out, "\xef\xbf\xbd", 3);
            s = (kineto_string){s.data + bad, s.size - bad};
        }
    }
    kb_sink_write(d->out, s.data, s.size);
}

static void write_literal(document *d, const char *text)
{
    kb_sink_write(d->out, text, strlen(text));
}

/* Opens the array of events in the output at its first use. */
static void open_events_array(document *d)
{
    if (!d->in_array)
        write_literal(d, d->members_written ? ",\n\"traceEvents\": [" : "{\n\"traceEvents\": [");
    d->in_array = true;
}

/* Events are separated by ",\n". */
static void write_event(document *d, kineto_string event)
{
    open_events_array(d);
    write_literal(d, d->events_written++ ? ",\n" : "\n");
    write_repaired_text(d, event);
}

/* The raw value of a member; empty if there is none. */
static kineto_string member_value(kineto_string member)
{
    kineto_string key, value = {"", 0};
    if (!member.size)
        return value;
    kt_scan s = kt_scan_of(member);
    (void)(kt_scan_key(&s, &key) && kt_scan_value(&s, &value));
    return value;
}

/* Keeps a member for the end of the output.. */
static kineto_status keep_late_member(document *d, kineto_string member)
{
    if (!kb_vec_reserve(&d->late, d->late.count + member.size + 2))
        return fail_repair_memory(d);
    memcpy(d->late.data + d->late.count, ",\n", 2);
    memcpy(d->late.data + d->late.count + 2, member.data, member.size);
    d->late.count += member.size + 2;
    return KINETO_OK;
}

/* The losses are known only at the end, so the member with the ledger never precedes the events. */
static kineto_status keep_own_member(document *d, kineto_string member)
{
    kineto_string value = member_value(member);
    d->own_size = value.size;
    d->own_at = d->late.count + 2 + (value.size ? (size_t)(value.data - member.data) : 0);
    return keep_late_member(d, member);
}

/* Writes a member of the header, `"key":value`. Of several with one key the first one counts. */
static kineto_status write_header_member(document *d, kineto_string key, kineto_string member,
                                         size_t at)
{
    bool created;
    kineto_string value = member_value(member);
    uint64_t name = kb_hash(key.data, key.size), content = kb_hash(value.data, value.size);
    uint64_t *first = kb_map_insert(&d->keys, name, content, &created);
    if (!first)
        return fail_repair_memory(d);
    if (!created) /* a second document often has the same header */
        return *first == content
                   ? KINETO_OK
                   : count_document_repair(d, KT_REPAIR_DUPLICATE_HEADER, at, key.size);
    if (kb_string_equal(key, kb_string("ckineto")))
        return keep_own_member(d, member);
    if (d->in_array)
        return keep_late_member(d, member);
    write_literal(d, d->members_written++ ? ",\n" : "{\n");
    write_repaired_text(d, member);
    return KINETO_OK;
}

/* Writes the members after the events; the ledger among them gets lines about losses. */
static kineto_status write_late_members(document *d)
{
    kineto_string all = {d->late.data, d->late.count}, own = {"", 0};
    if (!kt_repairs_have_loss(d->repairs) && !d->problem) {
        write_repaired_text(d, all);
        return KINETO_OK;
    }
    kineto_string head = all, tail = {"", 0};
    if (d->own_size) {
        own = (kineto_string){all.data + d->own_at, d->own_size};
        head.size = d->own_at;
        tail = (kineto_string){own.data + own.size, all.size - d->own_at - own.size};
    }
    d->piece.count = 0;
    kineto_status status = kt_repair_state_losses(own, d->repairs, d->problem, &d->piece, d->err);
    write_repaired_text(d, head);
    write_literal(d, d->own_size ? "" : ",\n\"ckineto\": ");
    write_repaired_text(d, (kineto_string){d->piece.data, d->piece.count});
    write_repaired_text(d, tail);
    return status;
}

/* Closes the array, writes the late members and closes the object. */
static kineto_status write_document_end(document *d)
{
    open_events_array(d);
    write_literal(d, "\n]");
    kineto_status status = write_late_members(d);
    write_literal(d, "}\n");
    return status;
}

/* ---- sound events ---------------------------------------------------------------------------- */

/* True if a strict object has the members that readers need of an event, with values that they
 * accept. */
static bool is_sound_event(kineto_string object, int ts_shift)
{
    kt_scan s = kt_scan_of(object);
    bool first = true, ts = false, name = false;
    char phase = '\0';
    kineto_string key, value;
    if (!kt_scan_open(&s, '{'))
        return false;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value)) {
        char room[KT_PLAIN_KEY_BYTES];
        key = kt_json_plain_key(key, room);
        if (!kt_fix_fits(key, value, ts_shift))
            return false;
        if (kb_string_equal(key, kb_string("ph")))
            phase = kt_fix_phase(value);
        else if (kb_string_equal(key, kb_string("ts")))
            ts = true;
        else if (kb_string_equal(key, kb_string("name")))
            name = kt_json_is_string(value);
    }
    return phase && name && (ts || phase == 'M');
}

/* The deepest nesting of brackets in strict JSON. */
static uint32_t bracket_depth(kineto_string value)
{
    uint32_t depth = 0, most = 0;
    bool inside = false;
    for (size_t i = 0; i < value.size; i++) {
        char c = value.data[i];
        i += c == '\\';
        inside ^= c == '"';
        if (inside || !(c & 0x40)) /* all brackets have it */
            continue;
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        most = KB_MAX(most, depth);
    }
    return most;
}

/* A strict object at d->at, after its comma if one is due. s->at is then the position after it. */
static bool peek_sound_object(const document *d, kt_scan *s, kineto_string *value)
{
    *s = kt_scan_of(remaining_text(d));
    char c = kt_scan_peek(s);
    if (d->comma_due && c != ',')
        return false;
    s->at += d->comma_due;
    return kt_scan_peek(s) == '{' && kt_scan_value(s, value) &&
           kb_utf8_valid_prefix(value->data, value->size) == value->size;
}

/* The fast path: a sound event is copied without the repair engine. */
static bool copy_sound_event(document *d)
{
    kt_scan s;
    kineto_string value;
    if (!peek_sound_object(d, &s, &value) ||
        !is_sound_event(value, kt_ts_shift(d->repairs->ts_unit_ns)) ||
        bracket_depth(value) > KT_REPAIR_MAX_DEPTH)
        return false;
    write_event(d, value);
    d->events->whole++;
    d->at += (size_t)(s.at - s.begin);
    d->comma_due = true;
    return true;
}

/* ---- the events ------------------------------------------------------------------------------ */

/* d->at is after the opening bracket; afterwards after the closing one, if there is one. */
static kineto_status read_event_array(document *d)
{
    open_events_array(d);
    for (d->comma_due = false;;) {
        if (kb_sink_failed(d->out))
            return KINETO_OK; /* closing the sink reports the error */
        if (copy_sound_event(d))
            continue;
        kt_repaired result;
        d->piece.count = 0;
        kineto_status status = kt_repair_element(d->text, d->at, d->comma_due, true, &d->piece,
                                                 d->repairs, &result, d->err);
        if (status != KINETO_OK)
            return status;
        if (result.piece == KT_PIECE_EVENT) {
            write_event(d, (kineto_string){d->piece.data, d->piece.count});
            d->events->repaired++;
        }
        d->at = result.next;
        d->comma_due = result.comma_due;
        if (result.piece == KT_PIECE_END)
            break;
    }
    d->comma_due = d->at < d->text.size && d->text.data[d->at] == ']';
    d->at += d->comma_due;
    return KINETO_OK;
}

/* ---- the header ------------------------------------------------------------------------------ */

/* Takes a sound member of the header; of the events only the key and the text before their
 * bracket. */
static bool take_sound_header_member(document *d, kineto_string *key, kineto_string *member,
                                     bool *events)
{
    kt_scan s = kt_scan_of(remaining_text(d));
    kineto_string value;
    char c = kt_scan_peek(&s);
    if (d->comma_due && c != ',')
        return false;
    s.at += d->comma_due;
    (void)kt_scan_peek(&s);
    const char *from = s.at;
    if (!kt_scan_key(&s, key))
        return false;
    *events = kt_json_is_key(*key, "traceEvents") && kt_scan_peek(&s) == '[';
    if (!*events && !kt_scan_value(&s, &value))
        return false;
    *member = (kineto_string){from, (size_t)(s.at - from)};
    char next = kt_scan_peek(&s);
    if (!*events && next != ',' && next != '}')
        return false;
    if (kb_utf8_valid_prefix(member->data, member->size) < member->size ||
        bracket_depth(*member) > KT_REPAIR_MAX_DEPTH)
        return false;
    d->at += (size_t)(s.at - s.begin);
    d->comma_due = true;
    return true;
}

/* Splits the member in `piece`, which repair wrote. */
static bool take_repaired_header_member(const document *d, kineto_string *key,
                                        kineto_string *member, bool *events)
{
    *member = (kineto_string){d->piece.data, d->piece.count};
    kt_scan s = kt_scan_of(*member);
    *events = kt_scan_key(&s, key) && kt_scan_end(&s);
    return s.at > s.begin;
}

static kineto_status write_or_keep_member(document *d, kineto_string key, kineto_string member,
                                          size_t at)
{
    char room[KT_PLAIN_KEY_BYTES];
    key = kt_json_plain_key(key, room);
    if (kb_string_equal(key,
                        /* Its events are written already, or it is not a list. */
                        kb_string("traceEvents"))) {
        d->wrong_events = true;
        return count_document_repair(d, KT_REPAIR_WRONG_TYPE, at, member.size);
    }
    bool of_text = member.data >= d->text.data && member.data < d->text.data + d->text.size;
    if (of_text && !d->base.data && kb_string_equal(key, kb_string("baseTimeNanoseconds")))
        d->base = member;
    return write_header_member(d, key, member, at);
}

static kineto_status read_document_header(document *d);

/* True if the next member is a "traceEvents" that holds an object with the events: d->at moves to
 * its bracket. */
static bool enter_nested_events(document *d)
{
    kt_scan s = kt_scan_of(remaining_text(d));
    kineto_string key;
    char c = kt_scan_peek(&s);
    if (d->nested || (d->comma_due && c != ','))
        return false;
    s.at += d->comma_due;
    if (kt_scan_peek(&s) != '"' || !kt_scan_key(&s, &key) || !kt_json_is_key(key, "traceEvents") ||
        kt_scan_peek(&s) != '{' ||
        !kt_repair_holds_events((kineto_string){s.at, (size_t)(s.end - s.at)}))
        return false;
    d->at += (size_t)(s.at - s.begin);
    return true;
}

/* Members of the nested object count as members of the header. */
static kineto_status read_nested_header(document *d)
{
    kineto_status status = count_document_repair(d, KT_REPAIR_NESTED_EVENTS, d->at, 1);
    KB_ASSERT(!d->nested);
    d->nested = true;
    if (status == KINETO_OK)
        status = read_document_header(d);
    d->nested = false;
    d->comma_due = true;
    return status;
}

/* One member of the header. *end: the header has ended. */
static kineto_status read_header_member(document *d, bool *end)
{
    kineto_string key, member;
    bool events;
    size_t at = d->at;
    if (enter_nested_events(d))
        return read_nested_header(d);
    if (!take_sound_header_member(d, &key, &member, &events)) {
        kt_repaired result;
        d->piece.count = 0;
        kineto_status status = kt_repair_member(d->text, d->at, d->comma_due, true, &d->piece,
                                                d->repairs, &result, d->err);
        d->at = result.next;
        d->comma_due = result.comma_due;
        *end = result.piece == KT_PIECE_END;
        if (status == KINETO_OK && *end && result.truncated && !kt_repairs_cut(d->repairs, d->at))
            return fail_repair_memory(d);
        if (status != KINETO_OK || result.piece != KT_PIECE_EVENT ||
            !take_repaired_header_member(d, &key, &member, &events))
            return status;
    }
    if (!events)
        return write_or_keep_member(d, key, member, at);
    d->at++; /* the bracket */
    d->found = true;
    return read_event_array(d);
}

/* d->at is at the opening brace; afterwards after the closing one, if there is one. */
static kineto_status read_document_header(document *d)
{
    bool end = false;
    d->at++;
    d->comma_due = false;
    while (!end && !kb_sink_failed(d->out)) {
        kineto_status status = read_header_member(d, &end);
        if (status != KINETO_OK)
            return status;
    }
    d->at += d->at < d->text.size && d->text.data[d->at] == '}';
    return KINETO_OK;
}

/* ---- documents ------------------------------------------------------------------------------- */

static void skip_document_space(document *d)
{
    if (d->at == 0 && d->text.size >= 3 && memcmp(d->text.data, "\xef\xbb\xbf", 3) == 0)
        d->at = 3;
    kt_scan s = kt_scan_of(remaining_text(d));
    (void)kt_scan_peek(&s);
    d->at += (size_t)(s.at - s.begin);
}

/* True for events without an array around them: one JSON object after the other. */
static bool begins_with_event(const document *d)
{
    bool cut;
    return kt_repair_begins_event(remaining_text(d), &cut);
}

static kineto_status read_document(document *d)
{
    char c = d->at < d->text.size ? d->text.data[d->at] : '\0';
    if (c == '[') {
        d->found = true;
        d->at++;
        return read_event_array(d);
    }
    if (c == '{' && !begins_with_event(d))
        return read_document_header(d);
    kineto_status status = count_document_repair(d, KT_REPAIR_UNBALANCED, d->at, 0);
    return status == KINETO_OK ? read_event_array(d) : status;
}

/* The base time of a document, anywhere in its text. *next: its next occurrence in the text, so
 * that the text is searched once however many documents it has. */
static kineto_string find_base_time(kineto_string text, const char **next)
{
    static const char key[] = "\"baseTimeNanoseconds\"";
    const char *end = text.data + text.size, *at = *next;
    bool is_known = at && at >= text.data && (at == end || (size_t)(end - at) >= sizeof key);
    if (!is_known || (at != end && memcmp(at, key, sizeof key - 1) != 0)) {
        at = memmem(text.data, text.size, key, sizeof key - 1);
        *next = at = at ? at : end;
    }
    if (at == end)
        return (kineto_string){NULL, 0};
    const char *found = at;
    at += sizeof key - 1;
    while (at < end && *at != ',' && *at != '}')
        at++;
    return (kineto_string){found, (size_t)(at - found)};
}

bool kt_repair_same_base(kineto_string base, kineto_string text, const char **next)
{
    return kb_string_equal(base, member_value(find_base_time(text, next)));
}

/* Documents that count time from another base would get wrong times: they are counted and end the
 * text. */
static kineto_status read_documents(document *d)
{
    skip_document_space(d);
    kineto_status status = read_document(d);
    size_t next;
    while (status == KINETO_OK && !kb_sink_failed(d->out)) {
        skip_document_space(d);
        if (!begins_with_event(d)) {
            if (!kt_repair_next_document(d->text, d->at, d->repairs, &next))
                break;
            d->at = next;
            if (!kt_repair_same_base(member_value(d->base), remaining_text(d), &d->next_base))
                return count_document_repair(d, KT_REPAIR_OTHER_BASE, next, d->text.size - next);
        }
        status = read_document(d);
    }
    return status;
}

/* True if events were lost, so that an empty output is not a sound empty trace. */
static bool lost_events(const kt_repairs *r)
{
    return r->kinds[KT_REPAIR_GARBAGE].count || r->kinds[KT_REPAIR_LOST_EVENT].count ||
           r->kinds[KT_REPAIR_TIME_RANGE].count;
}

/* Explains why the text holds no trace. */
static kineto_status fail_with_nothing(const document *d)
{
    const char *foreign = kt_foreign_format_problem(d->text);
    if (foreign)
        return kb_fail(d->err, KINETO_E_FORMAT, "%s", foreign);
    if (d->wrong_events && !d->found)
        return kb_fail(d->err, KINETO_E_FORMAT,
                       "\"traceEvents\" is not a list; put the events into one");
    return kt_fail_no_events_left(d->repairs, d->err);
}

/* An empty list of events is a valid trace, unless events were lost. */
kineto_status kt_repair_document(kineto_string text, const char *problem, bool utf8, kb_sink *out,
                                 kt_repairs *repairs, kt_repair_events *events, kineto_error *err)
{
    document d = {.text = text,
                  .problem = problem,
                  .utf8 = utf8,
                  .out = out,
                  .repairs = repairs,
                  .events = events,
                  .err = err};
    *events = (kt_repair_events){0, 0};
    kineto_status status = read_documents(&d);
    if (status == KINETO_OK && !d.events_written && (!d.found || lost_events(repairs)))
        status = fail_with_nothing(&d);
    if (status == KINETO_OK)
        status = write_document_end(&d);
    kb_vec_free(&d.piece);
    kb_vec_free(&d.late);
    kb_map_free(&d.keys);
    return status;
}
