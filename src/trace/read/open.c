/* kineto_trace_open: walks the outline of a Chrome trace (Trace Event Format), from its
 * first byte to its end.
 *
 * A document is an object with "traceEvents", or only the array of events; several may
 * follow each other. Lists of events are read by load.c, the other members of the object
 * are the header. Unless `strict` is set, damaged parts are repaired (trace/repair) and
 * counted. finish.c builds the trace at the end. */
#include "trace/read/read.h"

#include "trace/bytes/not_a_trace.h"
#include "trace/import/import.h"

/* Text that one item may hold in memory, however small the memory limit is. */
#define MIN_ITEM_BYTES ((size_t)32 << 20)

kineto_status kt_read_fail(kt_reader *r, const char *at, const char *problem)
{
    size_t offset = (size_t)(at - r->input->base);
    kineto_status status =
        kb_fail(r->err, KINETO_E_FORMAT, "%s (byte %zu)", problem ? problem : "bad JSON", offset);
    if (r->err)
        r->err->offset = offset;
    return status;
}

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

/* State of walking the outline. */
typedef struct outline {
    kt_cursor *cursor;
    kineto_string devices, own; /* values of "deviceProperties" and "ckineto", copied */
    bool has_events;            /* a list of events was read */
    bool nested;                /* inside an object that is the value of "traceEvents" */
} outline;

/* Fails because `at` is not this bracket, with the message of the strict parser. */
static kineto_status fail_without_bracket(kt_reader *r, const char *at, char bracket)
{
    kt_scan scan = {r->input->base, at, r->input->base + kt_input_wait(r->input, SIZE_MAX), NULL};
    (void)kt_scan_open(&scan, bracket);
    return kt_read_fail(r, scan.at, scan.problem);
}

/* Refuses a file by its first bytes, with its format if that is known. */
static kineto_status refuse_file(kt_reader *r, const char *at)
{
    size_t before = (size_t)(at - r->input->base);
    r->refused_at_once = kt_input_ready(r->input, before + 1) > before;
    size_t ready = kt_input_ready(r->input, KT_IMPORT_HEAD_BYTES);
    kineto_string head = {r->input->base, KB_MIN(ready, KT_IMPORT_HEAD_BYTES)};
    const char *problem = kt_foreign_format_problem(head);
    const char *by_name = problem ? NULL : kt_foreign_name_problem(kb_string(r->input->path));
    char text[400];
    snprintf(text, sizeof text, "expected an object: a Chrome trace begins with { or [%s%s",
             by_name ? ", and this is " : "", by_name ? by_name : "");
    return kt_read_fail(r, at, problem ? problem : text);
}

/* Size of the byte order mark of UTF-8 at the beginning, 0: none. */
static size_t byte_order_mark_size(kt_reader *r)
{
    static const char mark[] = "\xef\xbb\xbf";
    return kt_input_ready(r->input, 3) >= 3 && memcmp(r->input->base, mark, 3) == 0 ? 3 : 0;
}

/* Reads the array of events at `p`; the cursor continues after it. */
static kineto_status read_events_array(kt_reader *r, outline *o, const char *p)
{
    size_t stop;
    if (*p != '[')
        return fail_without_bracket(r, p, '[');
    if (o->has_events && r->strict) /* ambiguous: readers differ in which one they take */
        return kt_read_fail(r, p, "a second \"traceEvents\"");
    r->second_events += o->has_events;
    o->has_events = true;
    kineto_status status = kt_read_events(r, kt_cursor_offset(o->cursor, p) + 1, &stop);
    if (status == KINETO_OK)
        kt_cursor_start(o->cursor, r->input, stop);
    return status;
}

/* Copies a value of the header: the text may be released before it is used. */
static kineto_status copy_header_value(kt_reader *r, kineto_string value, kineto_string *kept)
{
    char *copy = kb_arena_copy(&r->repaired, value.data, value.size);
    *kept = (kineto_string){copy, copy ? value.size : 0};
    return copy ? KINETO_OK : kt_read_no_memory(r);
}

/* Counts a repair. */
static kineto_status count_repair(kt_reader *r, kt_repair_kind kind, size_t offset, size_t bytes)
{
    return kt_repairs_add(&r->b->trace->repairs, kind, offset, bytes) ? KINETO_OK
                                                                     : kt_read_no_memory(r);
}

/* Skips a "traceEvents" that is not a list. */
static kineto_status skip_wrong_events(kt_reader *r, kineto_string value)
{
    bool in_text =
        value.data >= r->input->base && value.data < r->input->base + r->input->ready_bytes;
    r->wrong_events++;
    return count_repair(r, KT_REPAIR_WRONG_TYPE,
                        in_text ? (size_t)(value.data - r->input->base) : 0, value.size);
}

/* Of several members with one key the first counts, as in a repaired file. *is_first: this
 * is the first. */
static kineto_status is_first_header_value(kt_reader *r, kineto_string key, kineto_string value,
                                           bool *is_first)
{
    uint64_t content = kb_hash(value.data, value.size);
    const uint64_t *first =
        kb_map_insert(&r->header_keys, kb_hash(key.data, key.size), content, is_first);
    if (!first)
        return kt_read_no_memory(r);
    r->repeated_header += !*is_first && *first != content;
    return KINETO_OK;
}

/* Takes a member of the header; `raw` is its key between the quotes. */
static kineto_status take_header_member(kt_reader *r, outline *o, kineto_string raw,
                                        kineto_string value)
{
    char room[KT_PLAIN_KEY_BYTES];
    bool is_first = false;
    kineto_string key = kt_json_plain_key(raw, room);
    if (kb_string_equal(key, kb_string("traceEvents")))
        return skip_wrong_events(r, value);
    kineto_status status = is_first_header_value(r, key, value, &is_first);
    if (status != KINETO_OK || !is_first)
        return status;
    bool old = kb_string_equal(key, kb_string("computeProperties")) && !o->devices.size;
    if (old || kb_string_equal(key, kb_string("deviceProperties")))
        return copy_header_value(r, value, &o->devices);
    if (kb_string_equal(key, kb_string("ckineto")))
        return copy_header_value(r, value, &o->own);
    if (kb_string_equal(key, kb_string("baseTimeNanoseconds")) &&
        copy_header_value(r, value, &r->base_text) != KINETO_OK)
        return kt_read_no_memory(r);
    return kt_read_header(r, key, value);
}

static kineto_status read_document_object(kt_reader *r, outline *o, const char *open);

/* Reads the object at `p`, the value of "traceEvents" that has a list of events itself: its
 * members count as members of the header. */
static kineto_status read_nested_events(kt_reader *r, outline *o, const char *p, const char **end)
{
    kineto_status status = count_repair(r, KT_REPAIR_NESTED_EVENTS, kt_cursor_offset(o->cursor, p),
                                        1);
    o->nested = true;
    if (status == KINETO_OK)
        status = read_document_object(r, o, p);
    o->nested = false;
    *end = r->input->base + o->cursor->next; /* read_object starts the cursor after its end */
    return status;
}

/* True if the object at `p` has a list of events. */
static bool object_holds_events(kt_reader *r, const char *p)
{
    size_t ready = kt_input_wait(r->input, SIZE_MAX);
    return kt_repair_holds_events((kineto_string){p, (size_t)(r->input->base + ready - p)});
}

/* Reads a member, whose key is at `p`. KINETO_E_FORMAT with a problem in the cursor: it is
 * not JSON. */
static kineto_status read_object_member(kt_reader *r, outline *o, const char *p, const char **end)
{
    kt_cursor *c = o->cursor;
    kineto_string key;
    if (!kt_take_key(c, p, &key))
        return KINETO_E_FORMAT;
    p = kt_cursor_next(c);
    bool events = kt_json_is_key(key, "traceEvents");
    if (events && *p == '[') {
        kineto_status status = read_events_array(r, o, p);
        *end = r->input->base + c->next;
        return status;
    }
    if (events && r->strict)
        return kt_read_fail(r, p, "\"traceEvents\" must be a list of events");
    if (events && *p == '{' && !o->nested && object_holds_events(r, p))
        return read_nested_events(r, o, p, end);
    *end = kt_skip_value(c, p);
    const char *next = *end ? kt_cursor_peek(c) : NULL;
    if (*end && c->bad && c->bad < *end)
        kt_cursor_fail(c, c->bad, KT_BAD_TEXT);
    else if (next && *next != ',' && *next != '}') /* a stray quote may have ended a text early */
        kt_cursor_fail(c, next, *next ? "expected ',' or '}'" : "the text ends early");
    if (!*end || c->problem)
        return KINETO_E_FORMAT;
    return take_header_member(r, o, key, (kineto_string){p, (size_t)(*end - p)});
}

/* Fails for a member that could not be read, with the message of the strict parser if it
 * has one. */
static kineto_status fail_object_member(kt_reader *r, outline *o, const char *before, bool first)
{
    kt_cursor *c = o->cursor;
    kineto_status status = kt_read_explain(r, kt_cursor_offset(c, before), first, '{');
    if (status != KINETO_OK)
        return status;
    return kt_read_fail(r, c->problem_at ? c->problem_at : before, c->problem);
}

/* Takes a repaired member; its text is copied, because values of the header are used at the end. */
static kineto_status take_repaired_member(kt_reader *r, outline *o, const kt_bytes *bytes)
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
    r->err = &unused; /* a repaired member that is still invalid is skipped */
    kineto_status status = take_header_member(r, o, key, value);
    r->err = err;
    return status == KINETO_E_FORMAT ? KINETO_OK : status;
}

/* Records that the text ends inside the header. */
static kineto_status record_cut_header(kt_reader *r, const kt_repaired *result)
{
    bool cut = result->piece == KT_PIECE_END && result->truncated;
    return !cut || kt_repairs_cut(&r->b->trace->repairs, result->next) ? KINETO_OK
                                                                       : kt_read_no_memory(r);
}

/* Repairs the member after *before and continues after it. */
static kineto_status repair_object_member(kt_reader *r, outline *o, const char **before,
                                          bool *first, bool *ended)
{
    kt_bytes bytes = {0};
    kt_repaired result;
    kineto_string text = {r->input->base, kt_input_wait(r->input, SIZE_MAX)};
    kineto_status status = kt_repair_member(text, (size_t)(*before - text.data), !*first, true,
                                            &bytes, &r->b->trace->repairs, &result, r->err);
    bool stuck = result.piece != KT_PIECE_END && result.next <= (size_t)(*before - text.data);
    if (status == KINETO_OK)
        status = record_cut_header(r, &result);
    bool events = status == KINETO_OK && result.piece == KT_PIECE_EVENT && bytes.count &&
                  bytes.data[bytes.count - 1] == ':';
    if (status == KINETO_OK && stuck)
        status = kt_read_fail(r, text.data + result.next, "the header cannot be repaired");
    kt_cursor_start(o->cursor, r->input, result.next);
    *before = text.data + result.next;
    if (status == KINETO_OK && events)
        status = read_events_array(r, o, kt_cursor_next(o->cursor));
    else if (status == KINETO_OK && result.piece == KT_PIECE_EVENT)
        status = take_repaired_member(r, o, &bytes);
    if (events)
        *before = text.data + o->cursor->next;
    *first = !(events || result.comma_due);
    *ended = result.piece == KT_PIECE_END;
    kb_vec_free(&bytes);
    return status;
}

/* Reads the next member; *before is the end of the previous one. *ended: there is none. */
static kineto_status read_next_member(kt_reader *r, outline *o, const char **before, bool *first,
                                      bool *ended)
{
    const char *end = *before;
    const char *p = kt_cursor_next(o->cursor);
    *ended = *p == '}';
    if (*ended)
        return KINETO_OK;
    kineto_status status = KINETO_E_FORMAT;
    if (*first || *p == ',')
        status = read_object_member(r, o, *first ? p : kt_cursor_next(o->cursor), &end);
    else
        kt_cursor_fail(o->cursor, p, "expected ',' or '}'");
    if (status == KINETO_E_FORMAT && kt_input_status(r->input) == KINETO_E_LIMIT)
        return KINETO_E_LIMIT;
    if (status == KINETO_E_FORMAT && o->cursor->problem)
        return r->strict ? fail_object_member(r, o, *before, *first)
                         : repair_object_member(r, o, before, first, ended);
    *before = end;
    *first = false;
    if (status == KINETO_OK)
        kt_input_mark_passed(r->input, (size_t)(end - r->input->base));
    return status;
}

/* Fails because the text has no list of events. */
static kineto_status fail_without_events(kt_reader *r, const char *at)
{
    if (r->wrong_events)
        return kt_read_fail(r, at, "\"traceEvents\" is not a list; put the events into a list");
    return kt_read_fail(r, at, "no \"traceEvents\"; not a Chrome trace");
}

/* The offset after the bracket that the cursor returned last. */
static size_t nested_object_end(const outline *o)
{
    const kt_cursor *c = o->cursor;
    return c->at > c->positions ? kt_cursor_offset(c, c->window + c->at[-1]) + 1 : c->next;
}

/* Reads the members of an object; `open` is its bracket, which the cursor returned last. */
static kineto_status read_document_object(kt_reader *r, outline *o, const char *open)
{
    const char *before = open + 1;
    bool first = true, ended = false;
    bool closed = false; /* the closing bracket was stepped over */
    while (!ended) {
        closed = *kt_cursor_peek(o->cursor) == '}';
        kineto_status status = read_next_member(r, o, &before, &first, &ended);
        if (status != KINETO_OK)
            return status;
    }
    if (!o->has_events && r->strict)
        return fail_without_events(r, kt_cursor_peek(o->cursor));
    if (!closed && *kt_cursor_peek(o->cursor) == '}') /* the end was repaired */
        kt_cursor_next(o->cursor);
    if (o->nested)
        kt_cursor_start(o->cursor, r->input, nested_object_end(o));
    return KINETO_OK;
}

/* Events need the base time, which follows them in the file. In a mapped file, its last 64
 * KiB are searched for it now; otherwise, or if it is elsewhere, times are shifted at the
 * end (move_times in finish.c). */
static void find_base_time(kt_reader *r)
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

/* True if an event begins at `p`, without a list around it, as in files with one event per line. */
static bool text_begins_with_event(kt_reader *r, const char *p)
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

/* Reads events without a list around them, from `p` on. */
static kineto_status read_event_lines(kt_reader *r, outline *o, const char *p)
{
    size_t stop, offset = kt_cursor_offset(o->cursor, p);
    o->has_events = true;
    kineto_status status = count_repair(r, KT_REPAIR_UNBALANCED, offset, 0);
    if (status == KINETO_OK)
        status = kt_read_events(r, offset, &stop);
    if (status == KINETO_OK)
        kt_cursor_start(o->cursor, r->input, stop);
    return status;
}

/* Reads the document that begins at `offset`; *stop receives its end. */
static kineto_status read_document(kt_reader *r, outline *o, size_t offset, size_t *stop)
{
    kineto_status status;
    kt_cursor_start(o->cursor, r->input, offset);
    const char *p = kt_cursor_next(o->cursor);
    if (*p == '[')
        status = read_events_array(r, o, p);
    else if (*p == '{' && !r->strict && text_begins_with_event(r, p))
        status = read_event_lines(r, o, p);
    else if (*p == '{')
        status = read_document_object(r, o, p);
    else if (!offset)
        return refuse_file(r, p);
    else
        return fail_without_bracket(r, p, '{');
    if (status == KINETO_OK)
        *stop = kt_cursor_offset(o->cursor, kt_cursor_peek(o->cursor));
    return status;
}

/* Waits for as much text as is needed to find the next document, and returns its end:
 * little if the document begins at once, else all. */
static size_t ready_for_document(kt_reader *r, size_t stop)
{
    size_t ready = kt_input_ready(r->input, stop + KT_BATCH_BYTES), at = stop;
    while (at < ready && kt_is_space(r->input->base[at]))
        at++;
    bool begins = ready - at > KT_BATCH_BYTES / 2 &&
                  (r->input->base[at] == '{' || r->input->base[at] == '[');
    return begins ? ready : kt_input_wait(r->input, SIZE_MAX);
}

/* Reads all documents of the text. */
static kineto_status read_documents(kt_reader *r, outline *o)
{
    size_t stop = 0;
    const char *next_base = NULL;
    if (kt_input_ready(r->input, 1) == 0)
        return kt_input_status(r->input) != KINETO_OK ? kt_input_status(r->input)
                                             : kt_read_fail(r, r->input->base, "the file is empty");
    kineto_string head = {r->input->base, kt_input_ready(r->input, 4)};
    if (kt_is_utf16_or_utf32(head))
        return refuse_file(r, head.data);
    find_base_time(r);
    kineto_status status = read_document(r, o, byte_order_mark_size(r), &stop);
    while (status == KINETO_OK && kt_input_ready(r->input, stop + 1) > stop) {
        kineto_string text = {r->input->base, ready_for_document(r, stop)};
        if (r->strict)
            return kt_read_fail(r, text.data + stop, "text after the end");
        if (!text_begins_with_event(r, text.data + stop)) {
            if (!kt_repair_next_document(text, stop, &r->b->trace->repairs, &stop))
                break;
            kineto_string rest = {text.data + stop, text.size - stop};
            if (!kt_repair_same_base(r->base_text, rest, &next_base)) {
                status = count_repair(r, KT_REPAIR_OTHER_BASE, stop, rest.size);
                break;
            }
        }
        status = read_document(r, o, stop, &stop);
    }
    if (status != KINETO_OK || o->has_events)
        return status;
    return fail_without_events(r, r->input->base + stop);
}

/* ---- kineto_trace_open ---------------------------------------------------------------------- */

/* Frees what the reader owns. */
static void free_reader(kt_reader *r)
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

/* Puts the name of the file before the message. */
static kineto_status prefix_error_with_path(kineto_status status, const char *path,
                                            kineto_error *err)
{
    if (status == KINETO_OK || !err)
        return status;
    kineto_error inner = *err;
    kb_fail(err, status, "%s: %s", path, inner.message);
    err->offset = inner.offset;
    return status;
}

/* A directory that is a recording of another tool. */
static kineto_status import_directory(const char *path, const kt_directory_importer *importer,
                                      kineto_trace **out, kineto_error *err)
{
    return prefix_error_with_path(importer->read(path, out, err), path, err);
}

/* The importer for a file of another tool; NULL: none. */
static const kt_importer *find_importer(kt_reader *r)
{
    size_t ready = kt_input_ready(r->input, KT_IMPORT_HEAD_BYTES);
    return kt_importer_find((kineto_string){r->input->base, KB_MIN(ready, KT_IMPORT_HEAD_BYTES)});
}

static kineto_status import_trace(kt_reader *r, const kt_importer *importer, kineto_trace **out)
{
    kt_import_source source = {.path = r->input->path, .input = r->input, .store = r->store};
    if (!importer->streams)
        source.bytes = (kineto_string){r->input->base, kt_input_wait(r->input, SIZE_MAX)};
    return importer->read(&source, out, r->err);
}

static kineto_status read_trace(kt_reader *r, kineto_trace **out)
{
    const kt_importer *importer = find_importer(r);
    if (importer)
        return import_trace(r, importer, out);
    outline o = {.cursor = calloc(1, sizeof(kt_cursor))};
    kineto_status status = o.cursor ? kt_builder_create(&r->b, r->err) : kt_read_no_memory(r);
    if (status == KINETO_OK) {
        kt_builder_store(r->b, r->store);
        status = read_documents(r, &o);
    }
    /* A text that is not a trace may have been repaired to nothing. */
    if (status == KINETO_OK && !r->events && r->b->trace->repairs.total)
        status = kt_fail_no_events_left(&r->b->trace->repairs, r->err);
    if (status == KINETO_OK)
        status = kt_read_finish(r, o.devices, o.own, out);
    free(o.cursor);
    return status;
}

/* True if reading fails because the input is damaged or exceeds the limit. If the text is
 * invalid, the rest of the input is read first: damage of a compressed file explains it
 * better. Without `strict`, a trace that could be read up to the damage is accepted. */
static bool is_input_damaged(const kt_reader *r, kineto_status status)
{
    if (r->refused_at_once)
        return false;
    if (status == KINETO_E_FORMAT)
        (void)kt_input_wait(r->input, SIZE_MAX);
    return kb_load_acquire(&r->input->complete) && kt_input_status(r->input) != KINETO_OK &&
           (status != KINETO_OK || r->strict || kt_input_status(r->input) == KINETO_E_LIMIT);
}

/* Finishes the input, and chooses the error to report: its own, or that of the text. */
static kineto_status settle_trace_input(kt_reader *r, const char *path, kineto_status status,
                                        kineto_trace **out)
{
    bool damaged = is_input_damaged(r, status);
    if (kt_input_check(r->input, &r->input->error)) {
        r->input->status = KINETO_E_IO;
        damaged = true;
    }
    kt_input_finish(r->input);
    if (!damaged && status == KINETO_OK)
        status = kt_input_seal(r->input, r->err);
    if (!damaged && status == KINETO_OK) {
        kt_store_watch(r->store, r->input);
        return status;
    }
    kineto_trace_release(*out);
    *out = NULL;
    if (!damaged)
        return prefix_error_with_path(status, path, r->err);
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
        return kb_fail_null(err, __func__, "path, out", path, out);
    kineto_status known = kb_options_read(&o, sizeof o, options, "kineto_open_options", err);
    if (known)
        return known;
    if (kt_ts_shift(o.ts_unit_ns) < 0)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "ts_unit_ns must be 1, 1000, 1000000 or 1000000000 nanoseconds, not %llu",
                       (unsigned long long)o.ts_unit_ns);
    const kt_directory_importer *directory = kt_directory_importer_find(path);
    if (directory)
        return import_directory(path, directory, out, err);
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
        kt_input_set_item_limit(r.input, KB_MAX((size_t)o.memory_bytes / 2, MIN_ITEM_BYTES));
    if (o.memory_bytes)
        status = kt_store_create(o.memory_bytes, &r.store, err);
    if (status == KINETO_OK)
        status = read_trace(&r, out);
    status = settle_trace_input(&r, path, status, out);
    free_reader(&r);
    kt_input_release(r.input);
    kt_store_release(r.store);
    return status;
}

kineto_status kineto_trace_open(const char *path, kineto_trace **out, kineto_error *err)
{
    if (out)
        *out = NULL;
    if (!path || !out)
        return kb_fail_null(err, __func__, "path, out", path, out);
    return kineto_trace_open_with(path, NULL, out, err);
}
