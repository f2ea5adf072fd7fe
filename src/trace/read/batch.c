/* Parses one batch of a Chrome trace: events become rows, flows, and sides (begins, ends,
 * metadata), which must wait for the ordered commit (commit.c).
 *
 * A batch belongs to one reading thread and touches nothing that is shared, so batches are
 * parsed in parallel. Texts and places get numbers of the thread here; commit.c maps them
 * to ids of the trace. After the commit, kt_batch_write_rows copies the rows into their blocks,
 * again in parallel. */
#include "trace/read/batch.h"

/* ---- life ------------------------------------------------------------------------------------ */

kt_batch *kt_batch_create(uint64_t seed, bool strict, uint64_t ts_unit_ns)
{
    kt_batch *p = calloc(1, sizeof *p);
    if (!p || !kt_texts_init(p, seed)) {
        kt_batch_free(p);
        return NULL;
    }
    p->strict = strict;
    p->cursor = &p->text;
    p->repaired.lenient = true;
    p->text.lenient = !strict;
    p->repairs.ts_unit_ns = p->ts_unit_ns = ts_unit_ns;
    p->text.unit_shift = p->repaired.unit_shift = (int8_t)(kt_ts_shift(ts_unit_ns) - 3);
    return p;
}

void kt_batch_free(kt_batch *p)
{
    if (!p)
        return;
    kt_texts_free(p);
    kb_vec_free(&p->rows);
    kb_vec_free(&p->used_places);
    kb_vec_free(&p->flows);
    kb_vec_free(&p->flow_texts);
    kb_vec_free(&p->unread);
    kb_vec_free(&p->sides);
    kb_vec_free(&p->host_counters);
    kb_vec_free(&p->window_ends);
    kb_vec_free(&p->loose_args);
    kt_repairs_free(&p->repairs);
    kb_arena_free(&p->repaired_text);
    kb_vec_free(&p->joined);
    free(p);
}

/* A place that was new in a batch which is parsed again counts as new again. */
static void unmark_place(kt_place *place) { place->wanted = place->process_wanted = false; }

/* Resets the lists of new texts and places that were not committed: parsing again will find
 * them again. */
static void forget_new_numbers(kt_batch *p)
{
    for (size_t i = 0; i < p->new_names.count; i++)
        p->uses.data[p->new_names.data[i]].is_name = false;
    for (size_t i = 0; i < p->new_categories.count; i++)
        p->uses.data[p->new_categories.data[i]].is_category = false;
    for (size_t i = 0; i < p->new_places.count; i++)
        unmark_place(&p->places.data[p->new_places.data[i] & ~KT_PROCESS_ONLY]);
    p->new_names.count = p->new_categories.count = p->new_places.count = 0;
}

/* Empties the batch before it is parsed (again). The numbers of texts and places stay. */
static void reset_batch(kt_batch *p)
{
    KB_ASSERT(p->cursor == &p->text); /* no repaired event is being parsed */
    forget_new_numbers(p);
    p->kinds = p->kinds_without_category = 0;
    p->rows.count = p->flows.count = p->sides.count = 0;
    p->host_counters.count = p->window_ends.count = p->loose_args.count = 0;
    p->flow_texts.count = p->unread.count = 0;
    p->empty_objects = 0;
    if (p->repairs.total) {
        kt_repairs_free(&p->repairs);
        p->repairs = (kt_repairs){.ts_unit_ns = p->ts_unit_ns};
        kb_arena_free(&p->repaired_text);
    }
    p->last_row = KT_UNKNOWN;
    p->at_end = p->failed = false;
    p->min_start_ns = INT64_MAX;
    p->max_end_ns = INT64_MIN;
    p->other_phases = p->long_args = p->negative_durations = p->repeated_members = p->events = 0;
    for (size_t i = 0; i < p->used_places.count; i++)
        p->places.data[p->used_places.data[i]].rows = 0;
    p->used_places.count = 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static bool string_is(kineto_string s,
                      const char *text) { return kb_string_equal(s, kb_string(text)); }

static const kineto_string no_text = {"\0\0\0\0\0\0\0", 0}; /* hashing reads 8 bytes */

/* Adds a number to a list of new texts or places, once: `wanted` is its mark. */
static inline void mark_as_used(kt_batch *p, bool *wanted, kt_numbers *list, uint32_t number)
{
    if (KINETO_LIKELY(*wanted))
        return;
    *wanted = true;
    if (!kb_vec_push(list, number))
        p->out_of_memory = true;
}

/* Number of the place (pid, tid, type of track) of an event; KT_UNKNOWN: out of memory. */
static uint32_t event_place(kt_batch *p, const kt_event *e, uint32_t type)
{
    static const kineto_string empty = {"\"\"\0\0\0\0\0\0", 2};
    kineto_string pid = e->has & KT_HAS_PID ? e->pid : empty;
    kineto_string tid = e->has & KT_HAS_TID ? e->tid : empty;
    if (type == KINETO_TRACK_COUNTER && !(e->has & KT_HAS_TID))
        tid = no_text; /* a counter belongs to its process */
    pid = kt_json_is_string(pid) ? kt_batch_plain_text(p, pid) : pid;
    tid = kt_json_is_string(tid) ? kt_batch_plain_text(p, tid) : tid;
    return kt_place_number(p, pid, tid, type);
}

static void mark_place_used(kt_batch *p, uint32_t place)
{
    mark_as_used(p, &p->places.data[place].wanted, &p->new_places, place);
}

/* Kind of a category; -1: not a category of Kineto. Parsed once for each spelling. */
static int category_kind(kt_batch *p, uint32_t category)
{
    kt_text_use *use = &p->uses.data[category];
    char room[KT_PLAIN_KEY_BYTES];
    if (use->kind == -2)
        use->kind =
            (int16_t)kb_kind_parse(kt_json_plain_key(p->texts.list.data[category], room));
    return use->kind;
}

/* True for a place that is not a thread: its pid or tid is a text. */
static bool is_text_place(const kt_place *place)
{
    int64_t number;
    return place->type == KINETO_TRACK_THREAD &&
           !(kt_event_number(place->pid, &number) && kt_event_number(place->tid, &number));
}

/* Kind of a row whose category is not Kineto's: the program's own range, except for
 * Kineto's "Trace" spans. */
static uint8_t kind_without_category(kt_batch *p, const kt_staged *row, kineto_string cat)
{
    if (row->form == KINETO_FORM_COUNTER)
        return KINETO_KIND_COUNTER;
    if (row->form == KINETO_FORM_INSTANT)
        return KINETO_KIND_CPU_INSTANT_EVENT;
    bool is_span = string_is(kt_batch_plain_text(p, cat),
                             "Trace") && is_text_place(&p->places.data[row->place]);
    return is_span ? KINETO_KIND_OVERHEAD : KINETO_KIND_USER_ANNOTATION;
}

/* Sets kind and category of a row, and records both as used in this batch. */
static void classify_row(kt_batch *p, const kt_event *e, kt_staged *row)
{
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    row->category = kt_text_number(p, cat);
    if (row->category == KT_UNKNOWN)
        return;
    int kind = category_kind(p, row->category);
    if (row->form == KINETO_FORM_INSTANT && string_is(e->name, "[memory]")) {
        row->kind = KINETO_KIND_MEMORY;
        if (string_is(cat, "cpu_instant_event")) /* Kineto's spelling: the kind's own category */
            row->category = KT_UNKNOWN;
    } else {
        row->kind = kind >= 0 ? (uint8_t)kind : kind_without_category(p, row, cat);
    }
    uint64_t bit = KINETO_KIND_BIT(row->kind);
    p->kinds |= bit;
    if (row->category == KT_UNKNOWN)
        p->kinds_without_category |= bit;
    else
        mark_as_used(p, &p->uses.data[row->category].is_category, &p->new_categories,
                     row->category);
}

/* Records the position of the args in the text; args of repaired events have none and go
 * into loose_args. */
static void stage_row_args(kt_batch *p, const kt_event *e, kt_staged *row)
{
    row->args = 0;
    row->args_form = KT_ARGS_NONE;
    if (!(e->has & KT_HAS_ARGS) || !e->other_args)
        return;
    if (KINETO_UNLIKELY(p->cursor == &p->repaired)) {
        kt_loose_args loose = {(uint32_t)p->rows.count, e->args};
        p->out_of_memory = p->out_of_memory || !kb_vec_push(&p->loose_args, loose);
        return;
    }
    uint64_t offset = kt_cursor_offset(p->cursor, e->args.data), bytes = e->args.size;
    if (bytes >> 24 || offset >> 40) {
        p->long_args++;
        row->flags |= KINETO_ACTIVITY_ARGS_LOST;
        return;
    }
    row->args = offset << 24 | bytes;
    row->args_form = KT_ARGS_IN_FILE;
}

/* Sets start and end, in ns and without the base time. Overflowing ends are clamped. */
static void set_row_times(kt_batch *p, const kt_event *e, kt_staged *row)
{
    int64_t duration = row->form == KINETO_FORM_SLICE && (e->has & KT_HAS_DUR) ? e->dur_ns : 0;
    row->start_ns = row->end_ns = e->ts_ns;
    if (duration < 0)
        p->negative_durations++;
    else if (__builtin_add_overflow(e->ts_ns, duration, &row->end_ns))
        row->end_ns = INT64_MAX;
    p->min_start_ns = KB_MIN(p->min_start_ns, row->start_ns);
    p->max_end_ns = KB_MAX(p->max_end_ns, row->end_ns);
}

/* Records the failure; always false, so that callers can return it. */
static bool fail_batch_memory(kt_batch *p)
{
    p->out_of_memory = true;
    return false;
}

/* Name of the row. Counters with ids are separate counters, shown as "name[id]", as viewers do. */
static kineto_string row_name(kt_batch *p, const kt_event *e, kineto_form form)
{
    static const char tail[] = "]\0\0\0\0\0\0\0"; /* hashing reads 8 bytes */
    if (KINETO_LIKELY(form != KINETO_FORM_COUNTER || !(e->has & KT_HAS_ID)))
        return e->name;
    kineto_string id = kt_json_is_string(e->id) ? kt_json_inside(e->id) : e->id;
    id = kt_json_whole_part(id);
    const kineto_string parts[] = {e->name, {"[", 1}, id, {tail, sizeof tail}};
    p->joined.count = 0;
    if (!kb_vec_reserve(&p->joined, e->name.size + id.size + 1 + sizeof tail)) {
        p->out_of_memory = true;
        return e->name;
    }
    for (size_t i = 0; i < KB_COUNT(parts); i++) {
        if (parts[i].size)
            memcpy(p->joined.data + p->joined.count, parts[i].data, parts[i].size);
        p->joined.count += parts[i].size;
    }
    return (kineto_string){p->joined.data, e->name.size + id.size + 2};
}

/* Stages the flow of "bind_id" that begins, ends or passes through the row that was added last. */
static KB_COLD bool stage_bound_flow(kt_batch *p, const kt_event *e)
{
    static const char scope[] = "bind_id";
    bool in = e->has & KT_HAS_FLOW_IN, out = e->has & KT_HAS_FLOW_OUT;
    KB_ASSERT(p->last_row < p->rows.count);
    kt_staged_flow staged = {.id = kt_event_bind_id(e),
                             .ts_ns = e->ts_ns,
                             .type = KINETO_FLOW_USER,
                             .scope = (uint16_t)kb_hash(scope, sizeof scope - 1),
                             .place = p->last_row_place,
                             .row = p->last_row,
                             .row_place = p->last_row_place,
                             .ph = in && out ? 't' : in ? 'f' : 's'};
    return !(in || out) || kb_vec_push(&p->flows, staged) || fail_batch_memory(p);
}

/* Stages a row for an event. False: a problem in the cursor, or out of memory. */
static bool stage_row(kt_batch *p, const kt_event *e, kineto_form form)
{
    static const uint8_t types[] = {KINETO_TRACK_THREAD, KINETO_TRACK_ASYNC, KINETO_TRACK_THREAD,
                                    KINETO_TRACK_COUNTER};
    if (!(e->has & KT_HAS_NAME))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"name\"");
    if (!(e->has & KT_HAS_TS))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"ts\"");
    if (!kb_vec_reserve(&p->rows, p->rows.count + 1))
        return fail_batch_memory(p);
    kt_staged *row = &p->rows.data[p->rows.count];
    row->form = (uint8_t)form;
    row->flags = (uint8_t)e->flags;
    row->correlation_id = e->correlation_id;
    row->external_id = e->external_id;
    row->place = event_place(p, e, types[form]);
    row->name = kt_text_number(p, row_name(p, e, form));
    if (row->place == KT_UNKNOWN || row->name == KT_UNKNOWN)
        return false;
    KB_ASSERT(row->place < p->places.count && row->name < p->uses.count);
    mark_as_used(p, &p->uses.data[row->name].is_name, &p->new_names, row->name);
    mark_place_used(p, row->place);
    if (form == KINETO_FORM_INSTANT && (e->has & KT_HAS_S) && string_is(e->s, "\"g\""))
        row->flags |= KINETO_ACTIVITY_GLOBAL;
    set_row_times(p, e, row);
    stage_row_args(p, e, row);
    classify_row(p, e, row);
    if (KINETO_UNLIKELY(p->places.data[row->place].rows++ == 0))
        p->out_of_memory |= !kb_vec_push(&p->used_places, row->place);
    p->last_row = (uint32_t)p->rows.count++;
    p->last_row_place = row->place;
    p->last_start_ns = row->start_ns;
    if (form == KINETO_FORM_COUNTER && row->kind == KINETO_KIND_COUNTER && e->has & KT_HAS_CAT &&
        e->cat.size && !kb_vec_push(&p->host_counters, p->last_row))
        return fail_batch_memory(p);
    if (KINETO_UNLIKELY(e->has & KT_HAS_BIND_ID) && !stage_bound_flow(p, e))
        return false;
    return !p->out_of_memory;
}

/* ---- sides: events for the ordered commit ---------------------------------------------------- */

/* Stages an event that is committed in the order of the file. `row`: its row in the batch,
 * or KT_UNKNOWN. */
static bool stage_side(kt_batch *p, const kt_event *e, uint32_t type, uint32_t row)
{
    KB_ASSERT(row == KT_UNKNOWN || row < p->rows.count);
    kt_side side = {*e, row, event_place(p, e, type)};
    if (side.place == KT_UNKNOWN)
        return false;
    kt_place *place = &p->places.data[side.place];
    if (e->ph != 'M' || kt_json_is_key(e->name, "thread_name") ||
        kt_json_is_key(e->name, "thread_sort_index"))
        mark_place_used(p, side.place);
    else if (!place->wanted)
        mark_as_used(p, &place->process_wanted, &p->new_places, side.place | KT_PROCESS_ONLY);
    return kb_vec_push(&p->sides, side) || fail_batch_memory(p);
}

/* The event of phase B, b or S: a row whose end is not known yet. */
static bool stage_begin(kt_batch *p, const kt_event *e, kineto_form form)
{
    uint32_t type = form == KINETO_FORM_ASYNC ? KINETO_TRACK_ASYNC : KINETO_TRACK_THREAD;
    return stage_row(p, e, form) && stage_side(p, e, type, p->last_row);
}

static bool stage_end(kt_batch *p, const kt_event *e, uint32_t type)
{
    if (!(e->has & KT_HAS_TS))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"ts\"");
    return stage_side(p, e, type, KT_UNKNOWN);
}

static bool stage_metadata(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_NAME))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"name\"");
    return stage_side(p, e, KINETO_TRACK_THREAD, KT_UNKNOWN);
}

/* The type of a flow by its category or name, as Kineto writes them. */
static uint32_t event_flow_type(const kt_event *e)
{
    static const char *const device[] = {"ac2g", "async_cpu_to_gpu", "async"};
    static const char *const backward[] = {"fwdbwd", "forward_backward"};
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    kineto_string name = e->has & KT_HAS_NAME ? e->name : no_text;
    for (size_t i = 0; i < KB_COUNT(device); i++)
        if (string_is(cat, device[i]) || string_is(name, device[i]))
            return KINETO_FLOW_ASYNC_CPU_GPU;
    for (size_t i = 0; i < KB_COUNT(backward); i++)
        if (string_is(cat, backward[i]) || string_is(name, backward[i]))
            return KINETO_FLOW_FWD_BWD;
    return KINETO_FLOW_USER;
}

/* Ids of a program's own flows are unique in their category and name, as viewers define it,
 * so those are hashed into a scope. Ids of Kineto's flows are unique: scope 0. */
static uint16_t event_flow_scope(const kt_event *e, uint32_t type)
{
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    kineto_string name = e->has & KT_HAS_NAME ? e->name : no_text;
    if (type != KINETO_FLOW_USER)
        return 0;
    name = kb_string_trimmed(name); /* some writers indent names by their depth */
    uint64_t key[] = {kb_hash(cat.data, cat.size), kb_hash(name.data, name.size)};
    return (uint16_t)kb_hash(key, sizeof key);
}

/* An end without "bp": "e" binds to the next row that begins, not to the enclosing one
 * (Trace Event Format). */
static bool binds_to_next_row(const kt_event *e)
{
    return e->ph == 'f' && !(e->has & KT_HAS_BP && string_is(e->bp, "\"e\""));
}

/* Stages category, name and args of a program's own flow. Flows of Kineto have fixed names. */
static bool stage_flow_text(kt_batch *p, const kt_event *e)
{
    KB_ASSERT(p->flows.count > 0);
    kt_staged_text text = {(uint32_t)p->flows.count - 1, {"", 0}, {"", 0}, {"", 0}};
    text.category = e->has & KT_HAS_CAT ? e->cat : text.category;
    text.name = e->has & KT_HAS_NAME ? e->name : text.name;
    text.args = e->has & KT_HAS_ARGS && e->args.size > 2 ? e->args : text.args;
    return kb_vec_push(&p->flow_texts, text) || fail_batch_memory(p);
}

/* Stages a flow end. Kineto writes it directly after its row: the previous row is recorded
 * as a candidate, which the commit accepts if it is on the same thread. Otherwise the row
 * is searched by time at the end. */
static bool stage_flow(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_TS))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"ts\"");
    uint32_t place = event_place(p, e, KINETO_TRACK_THREAD);
    if (place == KT_UNKNOWN)
        return false;
    bool follows_row = p->last_row != KT_UNKNOWN && p->last_start_ns == e->ts_ns;
    uint32_t type = event_flow_type(e);
    kt_staged_flow staged = {.id = kt_event_id(e),
                             .ts_ns = e->ts_ns,
                             .type = type,
                             .next = binds_to_next_row(e),
                             .scope = event_flow_scope(e, type),
                             .place = place,
                             .row = follows_row ? p->last_row : KT_UNKNOWN,
                             .row_place = p->last_row_place,
                             .first = p->last_row == KT_UNKNOWN,
                             .ph = e->ph};
    mark_place_used(p, place);
    if (!kb_vec_push(&p->flows, staged))
        return fail_batch_memory(p);
    return type != KINETO_FLOW_USER || stage_flow_text(p, e);
}

/* An instant becomes a row, except for Kineto's mark of the end of the recording. */
static bool stage_instant(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_NAME) || !kt_json_is_key(e->name, "Record Window End"))
        return stage_row(p, e, KINETO_FORM_INSTANT);
    if (!(e->has & KT_HAS_TS))
        return kt_cursor_fail(p->cursor, e->at, "an event without \"ts\"");
    return kb_vec_push(&p->window_ends, e->ts_ns) || fail_batch_memory(p);
}

/* An asynchronous instant: a row with an id and without duration. */
static bool stage_async_instant(kt_batch *p, const kt_event *e)
{
    return stage_row(p, e, KINETO_FORM_ASYNC) && stage_side(p, e, KINETO_TRACK_ASYNC, p->last_row);
}

static bool stage_other_phase(kt_batch *p, const kt_event *e)
{
    switch (e->ph) {
    case 's':
    case 't':
    case 'f':
        return stage_flow(p, e);
    case 'C':
        return stage_row(p, e, KINETO_FORM_COUNTER);
    case 'i':
    case 'I':
        return stage_instant(p, e);
    case 'B':
        return stage_begin(p, e, KINETO_FORM_SLICE);
    case 'b':
    case 'S':
        return stage_begin(p, e, KINETO_FORM_ASYNC);
    case 'E':
        return stage_end(p, e, KINETO_TRACK_THREAD);
    case 'e':
    case 'F':
        return stage_end(p, e, KINETO_TRACK_ASYNC);
    case 'n':
    case 'T':
        return stage_async_instant(p, e);
    case 'M':
        return stage_metadata(p, e);
    case '\0':
        return kt_cursor_fail(p->cursor, e->at,
                              "an event without \"ph\", or whose \"ph\" is not a single letter");
    default:
        p->other_phases++;
        return true;
    }
}

static void resolve_escapes(kt_batch *p, uint32_t has, uint32_t bit, kineto_string *text)
{
    if (has & bit)
        *text = kt_batch_plain_text(p, *text);
}

/* Stages an event by its phase. All but slices compare texts with words of the format:
 * without escapes. */
static bool stage_by_phase(kt_batch *p, const kt_event *e)
{
    if (KINETO_LIKELY(e->ph == 'X'))
        return stage_row(p, e, KINETO_FORM_SLICE);
    kt_event plain = *e;
    resolve_escapes(p, e->has, KT_HAS_NAME, &plain.name);
    resolve_escapes(p, e->has, KT_HAS_CAT, &plain.cat);
    resolve_escapes(p, e->has, KT_HAS_S, &plain.s);
    resolve_escapes(p, e->has, KT_HAS_BP, &plain.bp);
    resolve_escapes(p, e->has, KT_HAS_ID, &plain.id);
    return stage_other_phase(p, &plain);
}

/* ---- members that are not read --------------------------------------------------------------- */

/* By phase: members that have no meaning for it and are counted for the ledger. Events of
 * other phases are counted as a whole. */
#define ODD     (KT_HAS_DUR | KT_HAS_ODD_DUR)
#define IDS     (KT_HAS_ID | KT_HAS_ID2 | KT_HAS_SCOPE)
#define BINDING (KT_HAS_BIND_ID | KT_HAS_FLOW_IN | KT_HAS_FLOW_OUT)
static const uint32_t unread_members[128] = {
    ['X'] = KT_HAS_ODD_DUR | IDS | KT_HAS_S | KT_HAS_BP,
    ['B'] = ODD | IDS | KT_HAS_S | KT_HAS_BP,
    ['E'] = ODD | IDS | KT_HAS_S | KT_HAS_BP | BINDING,
    ['b'] = ODD | KT_HAS_S | KT_HAS_BP,
    ['S'] = ODD | KT_HAS_S | KT_HAS_BP,
    ['n'] = ODD | KT_HAS_S | KT_HAS_BP,
    ['T'] = ODD | KT_HAS_S | KT_HAS_BP,
    ['e'] = ODD | KT_HAS_S | KT_HAS_BP | BINDING,
    ['F'] = ODD | KT_HAS_S | KT_HAS_BP | BINDING,
    ['i'] = ODD | IDS | KT_HAS_BP,
    ['I'] = ODD | IDS | KT_HAS_BP,
    ['C'] = ODD | KT_HAS_ID2 | KT_HAS_SCOPE | KT_HAS_S | KT_HAS_BP,
    ['s'] = ODD | KT_HAS_S | KT_HAS_BP | BINDING | KT_HAS_ARGS,
    ['t'] = ODD | KT_HAS_S | KT_HAS_BP | BINDING | KT_HAS_ARGS,
    ['f'] = ODD | KT_HAS_S | BINDING | KT_HAS_ARGS, /* args: except of the program's own flows */
};
/* Names of the members, by number of their bit KT_HAS_…. */
static const char *const member_names[] = {"ph",  "name",  "cat", "pid",     "tid",     "ts",
                                           "dur", "args",  "id",  "id2",     "s",       "scope",
                                           "bp",  "bind_id", "flow_in", "flow_out", "dur"};

/* Counts a member by name and phase. Names beyond KT_UNREAD_NAMES are counted together,
 * without a name. */
static void count_unread_member(kt_batch *p, kineto_string name, char phase)
{
    for (size_t i = 0; i < p->unread.count; i++) {
        kt_unread *known = &p->unread.data[i];
        if (known->phase == phase && kb_string_equal(known->name, name)) {
            known->count++;
            return;
        }
    }
    if (p->unread.count >= KT_UNREAD_NAMES && name.size) /* one more, without a name */
        count_unread_member(p, (kineto_string){"", 0}, '\0');
    else if (!kb_vec_push(&p->unread, (kt_unread){name, phase, 1}))
        p->out_of_memory = true;
}

/* "bind_id" and "flow_in"/"flow_out" have a meaning only together: the members that are alone. */
static uint32_t lone_flow_members(uint32_t has)
{
    uint32_t flows = has & (KT_HAS_FLOW_IN | KT_HAS_FLOW_OUT);
    return has & KT_HAS_BIND_ID ? (flows ? 0 : KT_HAS_BIND_ID) : flows;
}

/* True for an instant of a whole process, which is read as an instant of its thread. */
KB_INLINE bool has_process_scope(const kt_event *e)
{
    return (e->ph | 32) == 'i' && e->has & KT_HAS_S && e->s.size == 3 && e->s.data[1] == 'p';
}

/* Counts the members of an event that are not read. */
static KB_COLD void count_unread_members(kt_batch *p, const kt_event *e, uint32_t members)
{
    if (members & KT_HAS_ARGS && (e->args.size <= 2 || event_flow_type(e) == KINETO_FLOW_USER))
        members &= ~(uint32_t)KT_HAS_ARGS;
    for (uint32_t m = 0; m < KB_COUNT(member_names); m++)
        if (members >> m & 1)
            count_unread_member(p, kb_string(member_names[m]), e->ph);
    for (uint32_t i = 0; i < p->cursor->other_count; i++)
        count_unread_member(p, p->cursor->others[i], '\0');
}

/* Stages an event that was scanned without a problem. */
static bool stage_event(kt_batch *p, const kt_event *e)
{
    if (KINETO_UNLIKELY(!e->has && !p->cursor->other_count)) {
        p->empty_objects++;
        return true;
    }
    if (!stage_by_phase(p, e))
        return false;
    p->events++;
    uint32_t unread = e->has & unread_members[e->ph & 127];
    if (KINETO_UNLIKELY(e->has & BINDING))
        unread |= lone_flow_members(e->has);
    if (KINETO_UNLIKELY(has_process_scope(e)))
        unread |= KT_HAS_S;
    if (KINETO_UNLIKELY(unread || p->cursor->other_count))
        count_unread_members(p, e, unread);
    p->repeated_members += e->repeats;
    return true;
}

/* ---- into the trace -------------------------------------------------------------------------- */

/* Writes a staged row into its place in a block. The columns of a row are written by one
 * thread only. */
static void write_row_columns(const kt_batch *p, const kt_staged *row, int64_t base_ns,
                              const uint16_t *kind_category, kt_block *b, uint32_t i)
{
    KB_ASSERT(p->uses.data[row->name].id != KT_UNKNOWN); /* the batch was committed */
    /* Not b->count: under the lock of the commits, others may extend the block meanwhile. */
    KB_ASSERT(p->places.data[row->place].track != KT_UNKNOWN && i < KT_BLOCK_ROWS);
    b->start_ns[i] = kt_shifted(row->start_ns, base_ns);
    b->end_ns[i] = kt_shifted(row->end_ns, base_ns);
    b->correlation_id[i] = row->correlation_id;
    b->external_id[i] = row->external_id;
    b->args[i] = row->args;
    b->name[i] = p->uses.data[row->name].id;
    b->track[i] = p->places.data[row->place].track;
    b->category[i] = row->category == KT_UNKNOWN ? kind_category[row->kind]
                                                 : (uint16_t)p->uses.data[row->category].category;
    b->flags[i] = (uint16_t)(row->flags | row->args_form << 8);
    b->kind[i] = row->kind;
    b->form[i] = row->form;
}

void kt_batch_write_rows(kt_batch *p, int64_t base_ns, const uint16_t *kind_category)
{
    uint32_t first_block = p->first_row / KT_BLOCK_ROWS;
    KB_ASSERT(!p->rows.count ||
              p->blocks.count == (p->first_row + p->rows.count - 1) / KT_BLOCK_ROWS -
              first_block + 1);
    for (size_t i = 0; i < p->rows.count; i++) {
        uint32_t at = p->first_row + (uint32_t)i;
        write_row_columns(p, &p->rows.data[i], base_ns, kind_category,
                          p->blocks.data[at / KT_BLOCK_ROWS - first_block], at % KT_BLOCK_ROWS);
    }
}

/* ---- elements -------------------------------------------------------------------------------- */

/* Reads the next element of the array, and returns its end. NULL: the end of the array
 * (p->at_end, *after is the position after the bracket), or a problem in the cursor. */
static const char *read_array_element(kt_batch *p, bool first, const char **after)
{
    kt_cursor *c = p->cursor;
    kt_event e;
    const char *at = kt_cursor_next(c);
    *after = at;
    if (*at == ']') {
        const char *next = kt_cursor_peek(c);
        p->at_end = p->strict || *next == '}' || *next == ',' || *next == '\0';
        *after = at + 1;
        if (!p->at_end) /* a stray bracket */
            kt_cursor_fail(c, at, "expected '}' or the end of the text after ']'");
        return NULL;
    }
    const char *missing = NULL; /* where a comma is missing, as between events on lines */
    if (!first && *at != ',') {
        missing = *at == '{' && !p->strict ? at : NULL;
        if (!missing) {
            kt_cursor_fail(c, at, *at ? "expected ',' or ']'" : "the text ends early");
            return NULL;
        }
    }
    at = first || missing ? at : kt_cursor_next(c);
    if (*at != '{') {
        kt_cursor_fail(c, at, *at ? "expected an object" : "the text ends early");
        return NULL;
    }
    const char *end = kt_event_scan(c, at, &e);
    if (end && KINETO_UNLIKELY(c->bad && c->bad < end)) {
        kt_cursor_fail(c, c->bad, KT_BAD_TEXT);
        end = NULL;
    }
    if (!end)
        return NULL;
    if (!(e.has & KT_HAS_PH))
        e.ph = '\0';
    if (!stage_event(p, &e))
        return NULL;
    if (KINETO_UNLIKELY(missing != NULL) &&
        !kt_repairs_add(&p->repairs, KT_REPAIR_MISSING_COMMA, kt_cursor_offset(c, missing), 0))
        p->out_of_memory = true;
    return end;
}

/* ---- repair ---------------------------------------------------------------------------------- */

/* Stages a repaired event: strict JSON, followed by zeros. False: it is still not an event. */
static bool stage_repaired_event(kt_batch *p, kineto_string event)
{
    kt_input text = {.base = event.data, .ready_bytes = event.size, .complete = 1};
    kt_event e;
    p->cursor = &p->repaired;
    kt_cursor_start(p->cursor, &text, 0);
    const char *end = kt_event_scan(p->cursor, kt_cursor_next(p->cursor), &e);
    if (end && !(e.has & KT_HAS_PH))
        e.ph = '\0';
    bool ok = end && stage_event(p, &e);
    p->cursor = &p->text;
    return ok;
}

/* A copy of a repaired event that lives as long as the batch, followed by zeros; data NULL:
 * no memory. */
static kineto_string copy_repaired_event(kt_batch *p, const kt_bytes *bytes)
{
    char *copy = kb_arena_alloc(&p->repaired_text, bytes->count + 64 + 8, 1);
    if (!copy)
        return (kineto_string){NULL, 0};
    memcpy(copy, bytes->data, bytes->count);
    memset(copy + bytes->count, 0, 64 + 8);
    return (kineto_string){copy, bytes->count};
}

/* Stages a repaired event, or records it as lost. */
static void accept_repaired_event(kt_batch *p, const kt_bytes *bytes, size_t at)
{
    kineto_string event = copy_repaired_event(p, bytes);
    if (!event.data)
        p->out_of_memory = true;
    else if (!stage_repaired_event(p, event) && !p->out_of_memory)
        p->out_of_memory = !kt_repairs_add(&p->repairs, KT_REPAIR_LOST_EVENT, at, 0);
}

/* Repairs the element after p->stop and continues after it. False: the array has ended, or
 * out of memory. */
static bool repair_array_element(kt_batch *p, kt_input *input, bool *first)
{
    kt_repaired result = {.piece = KT_PIECE_MORE};
    kt_bytes bytes = {0};
    size_t ready = 0;
    /* The repair sees a fixed amount of text, whatever happens to be ready: results do not vary. */
    for (size_t reach = KT_BATCH_BYTES; result.piece == KT_PIECE_MORE && !p->out_of_memory;
         reach *= 2) {
        size_t limit = p->stop + reach;
        ready = kt_input_ready(input, limit);
        bool final = ready < limit;
        ready = KB_MIN(ready, limit);
        kineto_string text = {input->base, ready};
        p->out_of_memory = kt_repair_element(text, p->stop, !*first, final, &bytes, &p->repairs,
                                             &result, NULL) != KINETO_OK;
    }
    if (result.piece != KT_PIECE_END && result.next <= p->stop) /* progress is guaranteed */
        result.next = p->stop + 1;
    if (!p->out_of_memory && result.piece == KT_PIECE_EVENT)
        accept_repaired_event(p, &bytes, p->stop);
    kb_vec_free(&bytes);
    *first = !result.comma_due;
    p->stop = result.next;
    p->at_end = result.piece == KT_PIECE_END;
    if (p->at_end && result.next < ready && input->base[result.next] == ']')
        p->stop++;
    if (p->out_of_memory || p->at_end)
        return false;
    kt_cursor_start(p->cursor, input, p->stop);
    return true;
}

void kt_batch_read(kt_batch *p, kt_input *input, size_t start, size_t limit, bool first)
{
    reset_batch(p);
    kt_cursor_start(p->cursor, input, start);
    p->start = p->stop = start;
    while (p->stop < limit) {
        const char *after, *end = read_array_element(p, first, &after);
        if (KINETO_LIKELY(end != NULL)) {
            p->stop = kt_cursor_offset(p->cursor, end);
            first = false;
        } else if (p->at_end) {
            p->stop = kt_cursor_offset(p->cursor, after);
            return;
        } else if (p->strict || p->out_of_memory ||
                   kt_input_status(input) == KINETO_E_LIMIT) {
            p->failed = true;
            return;
        } else if (!repair_array_element(p, input, &first)) {
            return;
        }
    }
    KB_ASSERT(p->stop >= limit && !p->at_end && !p->failed);
    p->comma_due = !first;
}
