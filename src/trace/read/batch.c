/* Reading a batch of a Chrome trace: events become rows, flows, and what has to wait for its turn.
 */
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

static void forget_place(kt_place *place) { place->wanted = place->process_wanted = false; }

/* What was met for the first time will be met for the first time again. */
static void forget_new(kt_batch *p)
{
    for (size_t i = 0; i < p->new_names.count; i++)
        p->uses.data[p->new_names.data[i]].is_name = false;
    for (size_t i = 0; i < p->new_categories.count; i++)
        p->uses.data[p->new_categories.data[i]].is_category = false;
    for (size_t i = 0; i < p->new_places.count; i++)
        forget_place(&p->places.data[p->new_places.data[i] & ~KT_PROCESS_ONLY]);
    p->new_names.count = p->new_categories.count = p->new_places.count = 0;
}

static void clear(kt_batch *p)
{
    forget_new(p);
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

static bool is(kineto_string s, const char *text) { return kb_string_equal(s, kb_string(text)); }

static const kineto_string no_text = {"\0\0\0\0\0\0\0", 0}; /* 8 bytes may be read */

/* Remember who is wanted for the first time. */
static inline void want(kt_batch *p, bool *wanted, kt_numbers *list, uint32_t number)
{
    if (KINETO_LIKELY(*wanted))
        return;
    *wanted = true;
    if (!kb_vec_push(list, number))
        p->out_of_memory = true;
}

static uint32_t place_of(kt_batch *p, const kt_event *e, uint32_t type)
{
    static const kineto_string empty = {"\"\"\0\0\0\0\0\0", 2};
    kineto_string pid = e->has & KT_HAS_PID ? e->pid : empty;
    kineto_string tid = e->has & KT_HAS_TID ? e->tid : empty;
    if (type == KINETO_TRACK_COUNTER && !(e->has & KT_HAS_TID))
        tid = no_text; /* counters belong to their process */
    pid = kt_json_is_string(pid) ? kt_plain(p, pid) : pid;
    tid = kt_json_is_string(tid) ? kt_plain(p, tid) : tid;
    return kt_place_number(p, pid, tid, type);
}

static void want_place(kt_batch *p, uint32_t place)
{
    want(p, &p->places.data[place].wanted, &p->new_places, place);
}

/* Kind of a category; -1: none of Kineto's. */
static int kind_of(kt_batch *p, uint32_t category)
{
    kt_text_use *use = &p->uses.data[category];
    char room[KT_PLAIN_KEY_BYTES];
    if (use->kind == -2)
        use->kind =
            (int16_t)kb_kind_parse(kt_json_plain_key(p->texts.list.data[category], room));
    return use->kind;
}

/* Rows that are no threads have texts for ids. */
static bool is_other_place(const kt_place *place)
{
    int64_t number;
    return place->type == KINETO_TRACK_THREAD &&
           !(kt_event_number(place->pid, &number) && kt_event_number(place->tid, &number));
}

/* What has no category of Kineto's is the program's own range, but for the spans of Kineto itself. */
static uint8_t kind_without_category(kt_batch *p, const kt_staged *row, kineto_string cat)
{
    if (row->form == KINETO_FORM_COUNTER)
        return KINETO_KIND_COUNTER;
    if (row->form == KINETO_FORM_INSTANT)
        return KINETO_KIND_CPU_INSTANT_EVENT;
    bool is_span = is(kt_plain(p, cat), "Trace") && is_other_place(&p->places.data[row->place]);
    return is_span ? KINETO_KIND_OVERHEAD : KINETO_KIND_USER_ANNOTATION;
}

/* Kind and category. */
static void classify(kt_batch *p, const kt_event *e, kt_staged *row)
{
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    row->category = kt_text_number(p, cat);
    if (row->category == KT_UNKNOWN)
        return;
    int kind = kind_of(p, row->category);
    if (row->form == KINETO_FORM_INSTANT && is(e->name, "[memory]")) {
        row->kind = KINETO_KIND_MEMORY;
        if (is(cat, "cpu_instant_event")) /* as Kineto writes them: the kind's own */
            row->category = KT_UNKNOWN;
    } else {
        row->kind = kind >= 0 ? (uint8_t)kind : kind_without_category(p, row, cat);
    }
    uint64_t bit = KINETO_KIND_BIT(row->kind);
    p->kinds |= bit;
    if (row->category == KT_UNKNOWN)
        p->kinds_without_category |= bit;
    else
        want(p, &p->uses.data[row->category].is_category, &p->new_categories, row->category);
}

/* Where the args are in the text. */
static void stage_args(kt_batch *p, const kt_event *e, kt_staged *row)
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

static void settle_times(kt_batch *p, const kt_event *e, kt_staged *row)
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

static bool out_of_memory(kt_batch *p)
{
    p->out_of_memory = true;
    return false;
}

/* Samples with another id are another counter's: "name[id]", as viewers show it. */
static kineto_string name_of(kt_batch *p, const kt_event *e, kineto_form form)
{
    static const char behind[] = "]\0\0\0\0\0\0\0"; /* 8 bytes may be read */
    if (KINETO_LIKELY(form != KINETO_FORM_COUNTER || !(e->has & KT_HAS_ID)))
        return e->name;
    kineto_string id = kt_json_is_string(e->id) ? kt_json_inside(e->id) : e->id;
    id = kt_json_whole_part(id);
    const kineto_string parts[] = {e->name, {"[", 1}, id, {behind, sizeof behind}};
    p->joined.count = 0;
    if (!kb_vec_reserve(&p->joined, e->name.size + id.size + 1 + sizeof behind)) {
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

/* An arrow that begins, ends or passes through the row that was added last. */
static KB_COLD bool bind_row(kt_batch *p, const kt_event *e)
{
    static const char scope[] = "bind_id";
    bool in = e->has & KT_HAS_FLOW_IN, out = e->has & KT_HAS_FLOW_OUT;
    kt_staged_flow staged = {.id = kt_event_bind_id(e),
                             .ts_ns = e->ts_ns,
                             .type = KINETO_FLOW_USER,
                             .scope = (uint16_t)kb_hash(scope, sizeof scope - 1),
                             .place = p->last_row_place,
                             .row = p->last_row,
                             .row_place = p->last_row_place,
                             .ph = in && out ? 't' : in ? 'f' : 's'};
    return !(in || out) || kb_vec_push(&p->flows, staged) || out_of_memory(p);
}

static bool add_row(kt_batch *p, const kt_event *e, kineto_form form)
{
    static const uint8_t types[] = {KINETO_TRACK_THREAD, KINETO_TRACK_ASYNC, KINETO_TRACK_THREAD,
                                    KINETO_TRACK_COUNTER};
    if (!(e->has & KT_HAS_NAME))
        return kt_object(p->cursor, e->at, "an event without \"name\"");
    if (!(e->has & KT_HAS_TS))
        return kt_object(p->cursor, e->at, "an event without \"ts\"");
    if (!kb_vec_reserve(&p->rows, p->rows.count + 1))
        return out_of_memory(p);
    kt_staged *row = &p->rows.data[p->rows.count];
    row->form = (uint8_t)form;
    row->flags = (uint8_t)e->flags;
    row->correlation_id = e->correlation_id;
    row->external_id = e->external_id;
    row->place = place_of(p, e, types[form]);
    row->name = kt_text_number(p, name_of(p, e, form));
    if (row->place == KT_UNKNOWN || row->name == KT_UNKNOWN)
        return false;
    want(p, &p->uses.data[row->name].is_name, &p->new_names, row->name);
    want_place(p, row->place);
    if (form == KINETO_FORM_INSTANT && (e->has & KT_HAS_S) && is(e->s, "\"g\""))
        row->flags |= KINETO_ACTIVITY_GLOBAL;
    settle_times(p, e, row);
    stage_args(p, e, row);
    classify(p, e, row);
    if (KINETO_UNLIKELY(p->places.data[row->place].rows++ == 0))
        p->out_of_memory |= !kb_vec_push(&p->used_places, row->place);
    p->last_row = (uint32_t)p->rows.count++;
    p->last_row_place = row->place;
    p->last_start_ns = row->start_ns;
    if (form == KINETO_FORM_COUNTER && row->kind == KINETO_KIND_COUNTER && e->has & KT_HAS_CAT &&
        e->cat.size && !kb_vec_push(&p->host_counters, p->last_row))
        return out_of_memory(p);
    if (KINETO_UNLIKELY(e->has & KT_HAS_BIND_ID) && !bind_row(p, e))
        return false;
    return !p->out_of_memory;
}

/* ---- what waits for its turn ------------------------------------------------------------------ */

static bool add_side(kt_batch *p, const kt_event *e, uint32_t type, uint32_t row)
{
    kt_side side = {*e, row, place_of(p, e, type)};
    if (side.place == KT_UNKNOWN)
        return false;
    kt_place *place = &p->places.data[side.place];
    if (e->ph != 'M' || kt_json_is_key(e->name, "thread_name") ||
        kt_json_is_key(e->name, "thread_sort_index"))
        want_place(p, side.place);
    else if (!place->wanted)
        want(p, &place->process_wanted, &p->new_places, side.place | KT_PROCESS_ONLY);
    return kb_vec_push(&p->sides, side) || out_of_memory(p);
}

static bool begin(kt_batch *p, const kt_event *e, kineto_form form)
{
    uint32_t type = form == KINETO_FORM_ASYNC ? KINETO_TRACK_ASYNC : KINETO_TRACK_THREAD;
    return add_row(p, e, form) && add_side(p, e, type, p->last_row);
}

static bool end(kt_batch *p, const kt_event *e, uint32_t type)
{
    if (!(e->has & KT_HAS_TS))
        return kt_object(p->cursor, e->at, "an event without \"ts\"");
    return add_side(p, e, type, KT_UNKNOWN);
}

static bool metadata(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_NAME))
        return kt_object(p->cursor, e->at, "an event without \"name\"");
    return add_side(p, e, KINETO_TRACK_THREAD, KT_UNKNOWN);
}

static uint32_t flow_type(const kt_event *e)
{
    static const char *const device[] = {"ac2g", "async_cpu_to_gpu", "async"};
    static const char *const backward[] = {"fwdbwd", "forward_backward"};
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    kineto_string name = e->has & KT_HAS_NAME ? e->name : no_text;
    for (size_t i = 0; i < KB_COUNT(device); i++)
        if (is(cat, device[i]) || is(name, device[i]))
            return KINETO_FLOW_ASYNC_CPU_GPU;
    for (size_t i = 0; i < KB_COUNT(backward); i++)
        if (is(cat, backward[i]) || is(name, backward[i]))
            return KINETO_FLOW_FWD_BWD;
    return KINETO_FLOW_USER;
}

/* Ids are those of a category and name, as viewers have it. Kineto's are unique. */
static uint16_t flow_scope(const kt_event *e, uint32_t type)
{
    kineto_string cat = e->has & KT_HAS_CAT ? e->cat : no_text;
    kineto_string name = e->has & KT_HAS_NAME ? e->name : no_text;
    if (type != KINETO_FLOW_USER)
        return 0;
    name = kb_string_trimmed(name); /* some writers indent names by their depth */
    uint64_t key[] = {kb_hash(cat.data, cat.size), kb_hash(name.data, name.size)};
    return (uint16_t)kb_hash(key, sizeof key);
}

/* What the format has for ends that do not say "bp": "e". */
static bool ends_at_next(const kt_event *e)
{
    return e->ph == 'f' && !(e->has & KT_HAS_BP && is(e->bp, "\"e\""));
}

/* Kineto's arrows have the name of their kind. */
static bool keep_flow_text(kt_batch *p, const kt_event *e)
{
    kt_staged_text text = {(uint32_t)p->flows.count - 1, {"", 0}, {"", 0}, {"", 0}};
    text.category = e->has & KT_HAS_CAT ? e->cat : text.category;
    text.name = e->has & KT_HAS_NAME ? e->name : text.name;
    text.args = e->has & KT_HAS_ARGS && e->args.size > 2 ? e->args : text.args;
    return kb_vec_push(&p->flow_texts, text) || out_of_memory(p);
}

/* Kineto writes a flow right behind the row it belongs to. Whether that is of the same thread, is
 * seen when tracks are known; else the row is looked for later. */
static bool flow(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_TS))
        return kt_object(p->cursor, e->at, "an event without \"ts\"");
    uint32_t place = place_of(p, e, KINETO_TRACK_THREAD);
    if (place == KT_UNKNOWN)
        return false;
    bool behind = p->last_row != KT_UNKNOWN && p->last_start_ns == e->ts_ns;
    uint32_t type = flow_type(e);
    kt_staged_flow staged = {.id = kt_event_id(e),
                             .ts_ns = e->ts_ns,
                             .type = type,
                             .next = ends_at_next(e),
                             .scope = flow_scope(e, type),
                             .place = place,
                             .row = behind ? p->last_row : KT_UNKNOWN,
                             .row_place = p->last_row_place,
                             .first = p->last_row == KT_UNKNOWN,
                             .ph = e->ph};
    want_place(p, place);
    if (!kb_vec_push(&p->flows, staged))
        return out_of_memory(p);
    return type != KINETO_FLOW_USER || keep_flow_text(p, e);
}

static bool instant(kt_batch *p, const kt_event *e)
{
    if (!(e->has & KT_HAS_NAME) || !kt_json_is_key(e->name, "Record Window End"))
        return add_row(p, e, KINETO_FORM_INSTANT);
    if (!(e->has & KT_HAS_TS))
        return kt_object(p->cursor, e->at, "an event without \"ts\"");
    return kb_vec_push(&p->window_ends, e->ts_ns) || out_of_memory(p);
}

/* An asynchronous moment: a range with an id, and without length. */
static bool moment(kt_batch *p, const kt_event *e)
{
    return add_row(p, e, KINETO_FORM_ASYNC) && add_side(p, e, KINETO_TRACK_ASYNC, p->last_row);
}

static bool dispatch_other(kt_batch *p, const kt_event *e)
{
    switch (e->ph) {
    case 's':
    case 't':
    case 'f':
        return flow(p, e);
    case 'C':
        return add_row(p, e, KINETO_FORM_COUNTER);
    case 'i':
    case 'I':
        return instant(p, e);
    case 'B':
        return begin(p, e, KINETO_FORM_SLICE);
    case 'b':
    case 'S':
        return begin(p, e, KINETO_FORM_ASYNC);
    case 'E':
        return end(p, e, KINETO_TRACK_THREAD);
    case 'e':
    case 'F':
        return end(p, e, KINETO_TRACK_ASYNC);
    case 'n':
    case 'T':
        return moment(p, e);
    case 'M':
        return metadata(p, e);
    case '\0':
        return kt_object(p->cursor, e->at,
                         "an event without \"ph\", or with one that is no single letter");
    default:
        p->other_phases++;
        return true;
    }
}

static void make_plain(kt_batch *p, uint32_t has, uint32_t bit, kineto_string *text)
{
    if (has & bit)
        *text = kt_plain(p, *text);
}

/* Texts of all but slices are compared with those that the format has. */
static bool dispatch(kt_batch *p, const kt_event *e)
{
    if (KINETO_LIKELY(e->ph == 'X'))
        return add_row(p, e, KINETO_FORM_SLICE);
    kt_event plain = *e;
    make_plain(p, e->has, KT_HAS_NAME, &plain.name);
    make_plain(p, e->has, KT_HAS_CAT, &plain.cat);
    make_plain(p, e->has, KT_HAS_S, &plain.s);
    make_plain(p, e->has, KT_HAS_BP, &plain.bp);
    make_plain(p, e->has, KT_HAS_ID, &plain.id);
    return dispatch_other(p, &plain);
}

/* ---- what is not read -------------------------------------------------------------------------- */

/* Members that an event of this phase has no use for. Other phases are counted as a whole. */
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
    ['f'] = ODD | KT_HAS_S | BINDING | KT_HAS_ARGS, /* but for arrows of the program's own */
};
/* The names of the members by their bits. */
static const char *const member_names[] = {"ph",  "name",  "cat", "pid",     "tid",     "ts",
                                           "dur", "args",  "id",  "id2",     "s",       "scope",
                                           "bp",  "bind_id", "flow_in", "flow_out", "dur"};

static void count_unread(kt_batch *p, kineto_string name, char phase)
{
    for (size_t i = 0; i < p->unread.count; i++) {
        kt_unread *known = &p->unread.data[i];
        if (known->phase == phase && kb_string_equal(known->name, name)) {
            known->count++;
            return;
        }
    }
    if (p->unread.count >= KT_UNREAD_NAMES && name.size) /* one more, without a name */
        count_unread(p, (kineto_string){"", 0}, '\0');
    else if (!kb_vec_push(&p->unread, (kt_unread){name, phase, 1}))
        p->out_of_memory = true;
}

/* An arrow's members without each other say nothing. */
static uint32_t useless_binding(uint32_t has)
{
    uint32_t flows = has & (KT_HAS_FLOW_IN | KT_HAS_FLOW_OUT);
    return has & KT_HAS_BIND_ID ? (flows ? 0 : KT_HAS_BIND_ID) : flows;
}

/* An instant of a process becomes one of its thread. */
KB_INLINE bool has_lost_scope(const kt_event *e)
{
    return (e->ph | 32) == 'i' && e->has & KT_HAS_S && e->s.size == 3 && e->s.data[1] == 'p';
}

static KB_COLD void note_unread(kt_batch *p, const kt_event *e, uint32_t members)
{
    if (members & KT_HAS_ARGS && (e->args.size <= 2 || flow_type(e) == KINETO_FLOW_USER))
        members &= ~(uint32_t)KT_HAS_ARGS;
    for (uint32_t m = 0; m < KB_COUNT(member_names); m++)
        if (members >> m & 1)
            count_unread(p, kb_string(member_names[m]), e->ph);
    for (uint32_t i = 0; i < p->cursor->other_count; i++)
        count_unread(p, p->cursor->others[i], '\0');
}

/* Take an event that was scanned without a problem. */
static bool take_event(kt_batch *p, const kt_event *e)
{
    if (KINETO_UNLIKELY(!e->has && !p->cursor->other_count)) {
        p->empty_objects++;
        return true;
    }
    if (!dispatch(p, e))
        return false;
    p->events++;
    uint32_t unread = e->has & unread_members[e->ph & 127];
    if (KINETO_UNLIKELY(e->has & BINDING))
        unread |= useless_binding(e->has);
    if (KINETO_UNLIKELY(has_lost_scope(e)))
        unread |= KT_HAS_S;
    if (KINETO_UNLIKELY(unread || p->cursor->other_count))
        note_unread(p, e, unread);
    p->repeated_members += e->repeats;
    return true;
}

/* ---- into the trace ---------------------------------------------------------------------------- */

static void settle_row(const kt_batch *p, const kt_staged *row, int64_t base_ns,
                       const uint16_t *kind_category, kt_block *b, uint32_t i)
{
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

void kt_batch_settle(kt_batch *p, int64_t base_ns, const uint16_t *kind_category)
{
    uint32_t first_block = p->first_row / KT_BLOCK_ROWS;
    for (size_t i = 0; i < p->rows.count; i++) {
        uint32_t at = p->first_row + (uint32_t)i;
        settle_row(p, &p->rows.data[i], base_ns, kind_category,
                   p->blocks.data[at / KT_BLOCK_ROWS - first_block], at % KT_BLOCK_ROWS);
    }
}

/* ---- elements -------------------------------------------------------------------------------- */

/* The next element of the array; behind it, NULL at the array's end or with a problem. */
static const char *read_element(kt_batch *p, bool first, const char **behind)
{
    kt_cursor *c = p->cursor;
    kt_event e;
    const char *at = kt_next(c);
    *behind = at;
    if (*at == ']') {
        const char *next = kt_peek(c);
        p->at_end = p->strict || *next == '}' || *next == ',' || *next == '\0';
        *behind = at + 1;
        if (!p->at_end) /* is it the array's? */
            kt_object(c, at, "expected '}' or the end behind ']'");
        return NULL;
    }
    const char *missing = NULL; /* where a comma should be: one event a line, say */
    if (!first && *at != ',') {
        missing = *at == '{' && !p->strict ? at : NULL;
        if (!missing) {
            kt_object(c, at, *at ? "expected ',' or ']'" : "the text ends early");
            return NULL;
        }
    }
    at = first || missing ? at : kt_next(c);
    if (*at != '{') {
        kt_object(c, at, *at ? "expected an object" : "the text ends early");
        return NULL;
    }
    const char *end = kt_event_scan(c, at, &e);
    if (end && KINETO_UNLIKELY(c->bad && c->bad < end)) {
        kt_object(c, c->bad, KT_BAD_TEXT);
        end = NULL;
    }
    if (!end)
        return NULL;
    if (!(e.has & KT_HAS_PH))
        e.ph = '\0';
    if (!take_event(p, &e))
        return NULL;
    if (KINETO_UNLIKELY(missing != NULL) &&
        !kt_repairs_add(&p->repairs, KT_REPAIR_MISSING_COMMA, kt_cursor_offset(c, missing), 0))
        p->out_of_memory = true;
    return end;
}

/* ---- repair ---------------------------------------------------------------------------------- */

/* One repaired event, strict JSON; zeros follow it. False: it is no event all the same. */
static bool read_repaired(kt_batch *p, kineto_string event)
{
    kt_input text = {.base = event.data, .ready_bytes = event.size, .complete = 1};
    kt_event e;
    p->cursor = &p->repaired;
    kt_cursor_start(p->cursor, &text, 0);
    const char *end = kt_event_scan(p->cursor, kt_next(p->cursor), &e);
    if (end && !(e.has & KT_HAS_PH))
        e.ph = '\0';
    bool ok = end && take_event(p, &e);
    p->cursor = &p->text;
    return ok;
}

static kineto_string keep_repaired(kt_batch *p, const kt_bytes *bytes)
{
    char *copy = kb_arena_alloc(&p->repaired_text, bytes->count + 64 + 8, 1);
    if (!copy)
        return (kineto_string){NULL, 0};
    memcpy(copy, bytes->data, bytes->count);
    memset(copy + bytes->count, 0, 64 + 8);
    return (kineto_string){copy, bytes->count};
}

static void take_repaired(kt_batch *p, const kt_bytes *bytes, size_t at)
{
    kineto_string event = keep_repaired(p, bytes);
    if (!event.data)
        p->out_of_memory = true;
    else if (!read_repaired(p, event) && !p->out_of_memory)
        p->out_of_memory = !kt_repairs_add(&p->repairs, KT_REPAIR_LOST_EVENT, at, 0);
}

/* Repair the element behind p->stop and go on behind it. False: the array has ended, or memory. */
static bool repair_element(kt_batch *p, kt_input *input, bool *first)
{
    kt_repaired result = {.piece = KT_PIECE_MORE};
    kt_bytes bytes = {0};
    size_t ready = 0;
    /* What is looked at does not depend on how much of the text happens to be there. */
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
    if (result.piece != KT_PIECE_END && result.next <= p->stop) /* it must go on */
        result.next = p->stop + 1;
    if (!p->out_of_memory && result.piece == KT_PIECE_EVENT)
        take_repaired(p, &bytes, p->stop);
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
    clear(p);
    kt_cursor_start(p->cursor, input, start);
    p->start = p->stop = start;
    while (p->stop < limit) {
        const char *behind, *end = read_element(p, first, &behind);
        if (KINETO_LIKELY(end != NULL)) {
            p->stop = kt_cursor_offset(p->cursor, end);
            first = false;
        } else if (p->at_end) {
            p->stop = kt_cursor_offset(p->cursor, behind);
            return;
        } else if (p->strict || p->out_of_memory ||
                   kt_input_status(input) == KINETO_E_LIMIT) {
            p->failed = true;
            return;
        } else if (!repair_element(p, input, &first)) {
            return;
        }
    }
    p->comma_due = !first;
}

/* ---- guessing -------------------------------------------------------------------------------- */

static const char *skip_space(const char *at, const char *end)
{
    while (at < end && kt_is_space(*at))
        at++;
    return at;
}

/* Does an event begin here: a comma, a brace and a member that events have? */
static bool begins_event(const char *at, const char *end)
{
    static const char *const keys[] = {"\"ph\"",  "\"name\"", "\"cat\"",  "\"pid\"",
                                       "\"tid\"", "\"ts\"",   "\"args\"", "\"dur\""};
    at = skip_space(at, end);
    if (at == end || *at++ != ',')
        return false;
    at = skip_space(at, end);
    if (at == end || *at++ != '{')
        return false;
    at = skip_space(at, end);
    for (size_t i = 0; i < KB_COUNT(keys); i++) {
        size_t size = strlen(keys[i]);
        if ((size_t)(end - at) >= size && memcmp(at, keys[i], size) == 0)
            return true;
    }
    return false;
}

size_t kt_batch_guess(kt_input *input, size_t offset)
{
    size_t ready = kt_input_ready(input, offset + KT_BATCH_BYTES);
    size_t most = KB_MIN(ready, offset + KT_BATCH_BYTES);
    const char *end = input->base + most;
    if (offset == 0 || offset > most)
        return SIZE_MAX;
    for (const char *at = input->base + offset - 1;
         (at = memchr(at, '}', (size_t)(end - at))) != NULL;)
        if (begins_event(++at, end))
            return (size_t)(at - input->base);
    return SIZE_MAX;
}
