/* Copies rows of a trace into a builder. Every map of ids is filled at first use, so only what
 * selected rows refer to is copied. Memory errors stick in the builder's status, which
 * kt_builder_finish reports. */
#include "trace/transform/copy.h"

#include "trace/bytes/json_text.h"

#include <math.h>

/* A map of `count` ids, all KT_COPY_NONE; NULL: out of memory. */
static uint32_t *new_id_map(uint32_t count)
{
    uint32_t *ids = malloc(((size_t)count + 1) * sizeof *ids);
    for (uint32_t i = 0; ids && i < count; i++)
        ids[i] = KT_COPY_NONE;
    return ids;
}

bool kt_copy_begin(kt_copy *c, kt_builder *b, const kineto_trace *from)
{
    *c = (kt_copy){.b = b, .from = from};
    b->trace->was_read |= from->was_read;
    if (!b->store && !b->trace->count)
        kt_builder_store(b, from->store); /* rows of a store with a memory limit stay in it */
    c->string_count = kineto_trace_string_count(from);
    c->process_count = kineto_trace_process_count(from);
    c->track_count = kineto_trace_track_count(from);
    c->category_count = (uint32_t)from->categories.count;
    c->strings = new_id_map(c->string_count);
    c->processes = new_id_map(c->process_count);
    c->tracks = new_id_map(c->track_count);
    c->categories = new_id_map(c->category_count);
    c->sets = new_id_map((uint32_t)from->sets.strings.count);
    return c->strings && c->processes && c->tracks && c->categories && c->sets;
}

void kt_copy_free(kt_copy *c)
{
    free(c->strings);
    free(c->processes);
    free(c->tracks);
    free(c->categories);
    free(c->sets);
    free(c->taken);
    *c = (kt_copy){0};
}

static void fail_copy(kt_copy *c)
{
    c->failed = true;
    if (c->b->status == KINETO_OK)
        c->b->status = KINETO_E_MEMORY;
}

/* ---- texts ----------------------------------------------------------------------------------- */

uint32_t kt_copy_string(kt_copy *c, uint32_t id)
{
    if (id >= c->string_count)
        return 0;
    if (c->strings[id] == KT_COPY_NONE)
        c->strings[id] = kt_string(c->b, kineto_trace_string(c->from, id));
    return c->strings[id];
}

/* 0 means no text, and stays 0. */
static uint32_t map_text(kt_copy *c, kt_text_role role, uint32_t id)
{
    if (!id)
        return 0;
    return c->text ? c->text(c->context, role, kineto_trace_string(c->from, id))
                   : kt_copy_string(c, id);
}

/* Category 0 of a row stands for the name of its kind, so an empty category has an id of its
 * own. */
static uint32_t map_category(kt_copy *c, uint16_t category)
{
    if (category >= c->category_count)
        return 0;
    if (!c->from->categories.data[category])
        return KT_NO_CATEGORY; /* 0 stands for the name of the kind */
    if (c->categories[category] == KT_COPY_NONE)
        c->categories[category] = map_text(c, KT_TEXT_CATEGORY, c->from->categories.data[category]);
    return c->categories[category];
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Marks a process of the builder as used by this source. False: it belongs to another source, or
 * another process of this source uses it already. */
static bool claim_process(kt_copy *c, uint32_t process)
{
    if (process < c->first_process && c->b->status == KINETO_OK)
        return false;
    if (process >= c->taken_room) {
        uint32_t room = (process / 64 + 1) * 128;
        uint64_t *bits = realloc(c->taken, room / 8);
        if (!bits) {
            fail_copy(c);
            return true; /* ends the caller's search */
        }
        memset(bits + c->taken_room / 64, 0, (room - c->taken_room) / 8);
        c->taken = bits;
        c->taken_room = room;
    }
    uint64_t bit = UINT64_C(1) << process % 64;
    bool is_new = !(c->taken[process / 64] & bit);
    c->taken[process / 64] |= bit;
    return is_new;
}

/* A number of a process or of a thread. */
static int64_t map_number(const kt_copy *c, int64_t number)
{
    return c->number ? c->number(c->context, number) : number;
}

/* Finds or makes a process of its own for each process of the source, also for those that a reader
 * could not distinguish by their numbers: `exec` is raised until the row is free. */
static uint32_t process_by_number(kt_copy *c, const kt_process_row *p)
{
    uint64_t exec = p->exec;
    for (;; exec++) {
        uint32_t index = kt_process(c->b, p->is_device, p->is_device ? p->pid : map_number(c, p->pid), exec);
        if (c->b->status != KINETO_OK || claim_process(c, index))
            return index;
    }
}

/* Makes a process row whose text no earlier source has, by the suffix `apart` and a number. "GPU 0
 * Counters" keeps its ending, which viewers interpret. */
static uint32_t process_apart(kt_copy *c, kineto_string text)
{
    static const char counters[] = " Counters";
    size_t tail = sizeof counters - 1;
    KB_ASSERT(c->first_process);
    bool counts = text.size > tail && memcmp(text.data + text.size - tail, counters, tail) == 0;
    size_t room = text.size + c->apart.size + 64;
    char *name = malloc(room);
    uint32_t index = 0, number = 1;
    if (!name) {
        fail_copy(c);
        return 0;
    }
    do {
        char suffix[24] = "";
        if (number > 1)
            snprintf(suffix, sizeof suffix, " (%u)", number);
        int size = snprintf(name, room, "%.*s%s%.*s%s%s", (int)(text.size - (counts ? tail : 0)),
                            text.data, text.size ? " " : "", (int)c->apart.size, c->apart.data,
                            suffix, counts ? counters : "");
        index = kt_process_text(c->b, (kineto_string){name, (size_t)size});
        number++;
    } while (index < c->first_process && c->b->status == KINETO_OK);
    free(name);
    return index;
}

/* Text rows of one source are merged by their text, those of different sources are not. */
static uint32_t process_by_text(kt_copy *c, const kt_process_row *p)
{
    uint32_t id = map_text(c, KT_TEXT_PROCESS, p->text);
    kineto_string text = kb_intern_get(&c->b->trace->strings, id);
    uint32_t index = kt_process_text(c->b, text);
    if (index < c->first_process && text.size < INT32_MAX && c->apart.size < INT32_MAX)
        index = process_apart(c, text);
    if (claim_process(c, index) && index < c->b->trace->processes.count) {
        c->b->trace->processes.data[index].is_device = p->is_device;
        c->b->trace->processes.data[index].number = p->number;
    }
    return index;
}

/* Properties that the copy has already stay, unless the source has its own. */
uint32_t kt_copy_process(kt_copy *c, uint32_t process)
{
    if (process >= c->process_count)
        return 0;
    if (c->processes[process] != KT_COPY_NONE)
        return c->processes[process];
    const kt_process_row *p = &c->from->processes.data[process];
    bool is_text = kt_process_text_of(c->from, process).data != NULL;
    uint32_t index = is_text ? process_by_text(c, p) : process_by_number(c, p);
    uint32_t name = map_text(c, KT_TEXT_PROCESS, p->name);
    uint32_t label = map_text(c, KT_TEXT_PROCESS, p->label);
    uint32_t host = map_text(c, KT_TEXT_HOST, p->host);
    uint32_t properties = map_text(c, KT_TEXT_DEVICE, p->properties);
    c->processes[process] = index;
    if (index >= c->b->trace->processes.count)
        return index; /* out of memory; reported by the builder */
    kt_process_row *to = &c->b->trace->processes.data[index];
    to->rank = p->rank >= 0 ? p->rank : to->rank;
    to->ppid = p->ppid ? map_number(c, p->ppid) : to->ppid;
    to->sort_index = p->sort_index ? p->sort_index : to->sort_index;
    to->name = name ? name : to->name;
    to->label = label ? label : to->label;
    to->host = host ? host : to->host;
    to->properties = properties ? properties : to->properties;
    to->place =
        c->first_process ? to->place : p->place; /* only within one file is the order known */
    return index;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

/* A track that is known by a text gets an id below all numbers, so that it collides with none. */
uint32_t kt_copy_track(kt_copy *c, uint32_t track)
{
    if (track >= c->track_count)
        return 0;
    if (c->tracks[track] != KT_COPY_NONE)
        return c->tracks[track];
    const kt_track_row *k = &c->from->tracks.data[track];
    kt_track_row wanted = {.process = kt_copy_process(c, k->process),
                           .type = k->type,
                           .id = k->type == KINETO_TRACK_STREAM ? k->id : map_number(c, k->id),
                           .has_other_tid = k->has_other_tid};
    wanted.name = map_text(c, KT_TEXT_TRACK, k->name);
    KB_ASSERT(wanted.process != KT_COPY_NONE);
    if (kt_track_text_of(c->from, track).data) {
        wanted.text = map_text(c, KT_TEXT_TRACK, k->text);
        wanted.id = INT64_MIN + (int64_t)wanted.text;
    }
    c->tracks[track] = kt_track_intern(c->b, &wanted);
    if (c->tracks[track] < c->b->trace->tracks.count) {
        kt_track_row *to = &c->b->trace->tracks.data[c->tracks[track]];
        to->name = wanted.name ? wanted.name : to->name;
        to->sort_index = k->sort_index ? k->sort_index : to->sort_index;
    }
    return c->tracks[track];
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* 0 means no id, and stays so. Large ids wrap around within their range, so that they do not
 * collide with small ones. */
static uint64_t shift_id(const kt_copy *c, uint64_t id)
{
    if (!id || !c->first_id)
        return id;
    if (id < KT_LARGE_ID)
        return id + c->first_id;
    return KT_LARGE_ID + (id - KT_LARGE_ID + c->first_id) % (0 - KT_LARGE_ID);
}

/* A flow may have the id 0; its shifted id is one that no other flow gets. */
static uint64_t shift_flow_id(const kt_copy *c, uint64_t id)
{
    return id || !c->first_id ? shift_id(c, id) : KT_LARGE_ID + c->first_id;
}

int64_t kt_correct_time(const kt_clock *clock, int64_t ns)
{
    static const double most = 0x1p62;
    if (!clock)
        return ns;
    double more = clock->offset_ns + clock->drift * ((double)ns - (double)clock->middle_ns);
    int64_t sum, add = more > most ? INT64_MAX / 2 : more < -most ? INT64_MIN / 2 : llround(more);
    return __builtin_add_overflow(ns, add, &sum) ? (add > 0 ? INT64_MAX : INT64_MIN) : sum;
}

/* Flags keep the caller's bits and the writer, which some traces nest by. */
void kt_copy_columns(kt_copy *c, kineto_row row, kt_row *out)
{
    const kt_block *block = kt_block_of(c->from, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    *out = (kt_row){.start_ns = kt_correct_time(c->clock, block->start_ns[i] - c->shift_ns),
                    .end_ns = kt_correct_time(c->clock, block->end_ns[i] - c->shift_ns),
                    .name = map_text(c, KT_TEXT_NAME, block->name[i]),
                    .track = kt_copy_track(c, block->track[i]),
                    .kind = block->kind[i],
                    .category = map_category(c, block->category[i]),
                    .form = block->form[i],
                    .flags = block->flags[i] & (0xffu | KT_WRITER(3)),
                    .correlation_id = shift_id(c, block->correlation_id[i]),
                    .external_id = shift_id(c, block->external_id[i])};
    if (out->form == KINETO_FORM_ASYNC)
        out->async_id = shift_id(c, kt_async_id(c->from, row));
}

/* The argument of waits that holds the correlation id of another row. */
static const char other_row_key[] = "wait_on_cuda_event_record_corr_id";

/* Only waits and events of CUDA refer to another row in their args. */
static bool can_name_other_row(const kt_copy *c, uint32_t kind)
{
    return c->first_id && (kind == KINETO_KIND_CUDA_SYNC || kind == KINETO_KIND_CUDA_EVENT);
}

/* Stages a JSON object of args with that id shifted. False: the object does not have it. */
static bool put_shifted_object(kt_copy *c, kineto_string object)
{
    kt_scan scan = kt_scan_of(object);
    kineto_string key, value = {NULL, 0};
    bool first = true, found = false;
    uint64_t id = 0;
    if (!kt_scan_open(&scan, '{'))
        return false;
    while (!found && kt_scan_more(&scan, &first, '{')) {
        if (!kt_scan_key(&scan, &key) || !kt_scan_value(&scan, &value))
            return false;
        found = kb_string_equal(key, kb_string(other_row_key)) && kt_json_uint(value, &id) && id;
    }
    char *text = found ? malloc(object.size + 24) : NULL;
    if (!text)
        return found ? (fail_copy(c), false) : false;
    size_t before = (size_t)(value.data - object.data), after = before + value.size;
    memcpy(text, object.data, before);
    char *end = kb_json_format_uint(text + before, shift_id(c, id));
    memcpy(end, object.data + after, object.size - after);
    kt_args_verbatim(c->b, (kineto_string){text, (size_t)(end - text) + (object.size - after)});
    free(text);
    return true;
}

/* Copies one arg, with a shared text shared again and an id of another row shifted. */
static void copy_one_arg(kt_copy *c, uint32_t kind, const kt_arg *arg)
{
    uint32_t key = kt_copy_string(c, arg->key);
    bool moves = can_name_other_row(c, kind) && arg->type <= KINETO_ARG_UINT && arg->i > 0 &&
                 kb_string_equal(kineto_trace_string(c->from, arg->key), kb_string(other_row_key));
    if (moves) {
        kt_args_put_uint(c->b, key, shift_id(c, arg->u));
        return;
    }
    if (arg->shared) {
        kt_args_put_shared(c->b, key, (kineto_arg_type)arg->type, kt_copy_string(c, arg->text_id));
        return;
    }
    switch (arg->type) {
    case KINETO_ARG_INT:
        kt_args_put_int(c->b, key, arg->i);
        return;
    case KINETO_ARG_UINT:
        kt_args_put_number(c->b, key, arg->u);
        return;
    case KINETO_ARG_DOUBLE:
        kt_args_put_double(c->b, key, arg->d);
        return;
    case KINETO_ARG_BOOL:
        kt_args_put_bool(c->b, key, arg->u != 0);
        return;
    case KINETO_ARG_STRING:
        kt_args_put_string(c->b, key, arg->text);
        return;
    default:
        kt_args_put_json(c->b, key, (kineto_arg_type)arg->type, arg->text);
    }
}

/* Args in the text of a file are referred to, unless an id in them has to change. */
static void copy_json_args(kt_copy *c, const kt_block *block, kineto_row row)
{
    uint32_t i = row % KT_BLOCK_ROWS;
    bool in_file = kt_kept_form(block, i) == KT_ARGS_IN_FILE;
    bool may_move = can_name_other_row(c, block->kind[i]);
    kineto_string text = in_file && !may_move ? (kineto_string){"", 0} : kt_args_text(c->from, row);
    if (may_move && text.size && put_shifted_object(c, text))
        return;
    if (in_file)
        kt_args_in_text(c->b, kt_block_text(block, i), block->args[i]);
    else if (text.size)
        kt_args_verbatim(c->b, text);
}

uint32_t *kt_copy_set(kt_copy *c, const kt_args *args)
{
    return args->set && args->set < c->from->sets.strings.count ? &c->sets[args->set] : NULL;
}

/* Copies a set once; further rows refer to the copy. */
static void copy_arg_set(kt_copy *c, uint32_t set, uint32_t *copy)
{
    kt_args args = kt_args_of_set(c->from, set);
    kt_arg arg = {0};
    while (*copy == KT_COPY_NONE && kt_args_step(&args, &arg))
        copy_one_arg(c, KINETO_KIND_COUNT, &arg);
    if (*copy == KT_COPY_NONE)
        *copy = kt_args_make_set(c->b);
    kt_args_put_set(c->b, *copy);
}

/* Args after the set of a row are its own. */
static void copy_packed_args(kt_copy *c, const kt_block *block, uint32_t i)
{
    kt_args args = kt_args_of(c->from, block, i);
    kt_arg arg = {0};
    uint32_t *set = can_name_other_row(c, block->kind[i]) ? NULL : kt_copy_set(c, &args);
    if (set) {
        copy_arg_set(c, args.set, set);
        if (!kt_args_skip_set(&args))
            return;
    }
    while (kt_args_step(&args, &arg))
        copy_one_arg(c, block->kind[i], &arg);
}

void kt_copy_args(kt_copy *c, kineto_row row)
{
    const kt_block *block = kt_block_of(c->from, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    kt_args_form form = kt_args_form_of(block, i);
    if (!(block->args[i] & 0xffffff))
        return;
    if (form == KT_ARGS_JSON) {
        copy_json_args(c, block, row);
    } else if (form == KT_ARGS_PACKED) {
        copy_packed_args(c, block, i);
    }
}

kineto_row kt_copy_row(kt_copy *c, kineto_row row)
{
    kt_row columns;
    kt_copy_columns(c, row, &columns);
    kt_copy_args(c, row);
    return kt_append(c->b, &columns);
}

/* Names and args of flows. Where texts are mapped, flows go without them: pseudonyms exist for
 * names and args of rows only. */
static bool copy_flow_details(kt_copy *c, uint64_t index)
{
    kt_flow_about about = kt_flow_about_of(c->from, index);
    if (c->text)
        return true;
    about = (kt_flow_about){.category = kt_copy_string(c, about.category),
                            .name = kt_copy_string(c, about.name),
                            .from_args = kt_copy_string(c, about.from_args),
                            .to_args = kt_copy_string(c, about.to_args)};
    return kt_flow_add_about(c->b->trace, &about);
}

void kt_copy_flow(kt_copy *c, uint64_t index, const kineto_flow *flow, kineto_row from,
                  kineto_row to)
{
    kineto_flow copy = {flow->type, shift_flow_id(c, flow->id), from, to};
    if (!kt_flow_add(c->b->trace, copy) || !copy_flow_details(c, index))
        fail_copy(c);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void kt_copy_own_kinds(kt_copy *c)
{
    for (uint32_t i = 0; i < kt_own_kind_count(c->from); i++) {
        uint32_t category = map_text(c, KT_TEXT_CATEGORY, c->from->own_kinds.data[i].category);
        kt_own_kind(c->b, kb_intern_get(&c->b->trace->strings, category),
                    c->from->own_kinds.data[i].kind);
    }
}

void kt_copy_snapshots(kt_copy *c)
{
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(c->from); i++) {
        kb_clock_snapshot snapshot = c->from->snapshots.data[i];
        snapshot.realtime_ns -= c->shift_ns;
        kt_snapshot(c->b, &snapshot);
    }
}

void kt_copy_metadata(kt_copy *c)
{
    for (uint32_t i = 0; i < kineto_trace_metadata_count(c->from); i++) {
        kineto_string key, value;
        kineto_trace_metadata(c->from, i, &key, &value);
        kt_metadata(c->b, key, value);
    }
}

void kt_copy_ledger(kt_copy *c)
{
    for (uint32_t i = 0; i < kineto_trace_ledger_count(c->from); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(c->from, i, &line);
        kt_ledger_add(c->b, line.source, line.reason, line.count, line.is_loss, line.detail);
    }
}

void kt_copy_window(kt_copy *c)
{
    if (c->from->has_window)
        kt_window(c->b, c->from->window_start_ns - c->shift_ns, c->from->window_end_ns - c->shift_ns);
}

/* Rows of the source follow those that the builder had. */
static kineto_row shift_row(kineto_row row, kineto_row first)
{
    return row == KINETO_NO_ROW ? row : row + first;
}

/* Processes and tracks come first, so that their order is that of the source. */
void kt_copy_rows(kt_copy *c)
{
    const kineto_trace *t = c->from;
    kineto_row first = (kineto_row)c->b->trace->count;
    for (uint32_t i = 0; i < t->processes.count; i++)
        kt_copy_process(c, i);
    for (uint32_t i = 0; i < t->tracks.count; i++)
        kt_copy_track(c, i);
    for (kineto_row row = 0; row < t->count && c->b->status == KINETO_OK; row++)
        kt_copy_row(c, row);
    for (size_t i = 0; i < t->flows.count && c->b->status == KINETO_OK; i++) {
        const kineto_flow *f = &t->flows.data[i];
        kt_copy_flow(c, i, f, shift_row(f->from, first), shift_row(f->to, first));
    }
}

void kt_copy_all(kt_copy *c)
{
    kt_copy_own_kinds(c);
    kt_copy_rows(c);
    kt_copy_metadata(c);
    kt_copy_snapshots(c);
    kt_copy_ledger(c);
    kt_copy_window(c);
}
