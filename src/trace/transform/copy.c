/* Copying rows of a trace into a builder, with everything that they refer to. */
#include "trace/transform/copy.h"

#include "trace/bytes/json_text.h"

static uint32_t *table(uint32_t count)
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
        kt_builder_store(b, from->store); /* what came out of a limit of memory stays in it */
    c->string_count = kineto_trace_string_count(from);
    c->process_count = kineto_trace_process_count(from);
    c->track_count = kineto_trace_track_count(from);
    c->category_count = (uint32_t)from->categories.count;
    c->strings = table(c->string_count);
    c->processes = table(c->process_count);
    c->tracks = table(c->track_count);
    c->categories = table(c->category_count);
    c->sets = table((uint32_t)from->sets.strings.count);
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

static void fail(kt_copy *c)
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

static uint32_t mapped(kt_copy *c, kt_text_role role, uint32_t id)
{
    if (!id)
        return 0;
    return c->text ? c->text(c->context, role, kineto_trace_string(c->from, id))
                   : kt_copy_string(c, id);
}

static uint32_t category_of(kt_copy *c, uint16_t category)
{
    if (category >= c->category_count)
        return 0;
    if (!c->from->categories.data[category])
        return KT_NO_CATEGORY; /* 0 would be the kind's name */
    if (c->categories[category] == KT_COPY_NONE)
        c->categories[category] = mapped(c, KT_TEXT_CATEGORY, c->from->categories.data[category]);
    return c->categories[category];
}

/* ---- processes ------------------------------------------------------------------------------- */

/* Mark a process of the builder as one of this source; false if it is already. */
static bool take(kt_copy *c, uint32_t process)
{
    if (process < c->first_process && c->b->status == KINETO_OK)
        return false; /* another source's */
    if (process >= c->taken_room) {
        uint32_t room = (process / 64 + 1) * 128;
        uint64_t *bits = realloc(c->taken, room / 8);
        if (!bits) {
            fail(c);
            return true; /* an end to looking for another */
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

/* A row of its own for each process of the source, also for those that a reader could not tell
 * apart by their numbers. */
static uint32_t process_by_number(kt_copy *c, const kt_process_row *p)
{
    uint64_t exec = p->exec;
    for (;; exec++) {
        uint32_t index = kt_process(c->b, p->is_device, p->pid, exec);
        if (c->b->status != KINETO_OK || take(c, index))
            return index;
    }
}

/* A text that no source before had. "GPU 0 Counters" goes on being what its words say. */
static uint32_t process_apart(kt_copy *c, kineto_string text)
{
    static const char counters[] = " Counters";
    size_t tail = sizeof counters - 1;
    bool counts = text.size > tail && memcmp(text.data + text.size - tail, counters, tail) == 0;
    size_t room = text.size + c->apart.size + 64;
    char *name = malloc(room);
    uint32_t index = 0, number = 1;
    if (!name) {
        fail(c);
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

static uint32_t process_by_text(kt_copy *c, const kt_process_row *p)
{
    uint32_t id = mapped(c, KT_TEXT_PROCESS, p->text);
    kineto_string text = kb_intern_get(&c->b->trace->strings, id);
    uint32_t index = kt_process_text(c->b, text);
    if (index < c->first_process && text.size < INT32_MAX && c->apart.size < INT32_MAX)
        index = process_apart(c, text);
    if (take(c, index) && index < c->b->trace->processes.count) {
        c->b->trace->processes.data[index].is_device = p->is_device;
        c->b->trace->processes.data[index].number = p->number;
    }
    return index;
}

uint32_t kt_copy_process(kt_copy *c, uint32_t process)
{
    if (process >= c->process_count)
        return 0;
    if (c->processes[process] != KT_COPY_NONE)
        return c->processes[process];
    const kt_process_row *p = &c->from->processes.data[process];
    bool is_text = kt_process_text_of(c->from, process).data != NULL;
    uint32_t index = is_text ? process_by_text(c, p) : process_by_number(c, p);
    uint32_t name = mapped(c, KT_TEXT_PROCESS, p->name);
    uint32_t label = mapped(c, KT_TEXT_PROCESS, p->label);
    uint32_t host = mapped(c, KT_TEXT_HOST, p->host);
    uint32_t properties = mapped(c, KT_TEXT_DEVICE, p->properties);
    c->processes[process] = index;
    if (index >= c->b->trace->processes.count)
        return index; /* out of memory; it sticks in the builder */
    kt_process_row *to = &c->b->trace->processes.data[index];
    to->rank = p->rank >= 0 ? p->rank : to->rank;
    to->ppid = p->ppid ? p->ppid : to->ppid;
    to->sort_index = p->sort_index ? p->sort_index : to->sort_index;
    to->name = name ? name : to->name;
    to->label = label ? label : to->label;
    to->host = host ? host : to->host;
    to->properties = properties ? properties : to->properties;
    to->place = c->first_process ? to->place : p->place; /* of one file, the order is known */
    return index;
}

/* ---- tracks ---------------------------------------------------------------------------------- */

uint32_t kt_copy_track(kt_copy *c, uint32_t track)
{
    if (track >= c->track_count)
        return 0;
    if (c->tracks[track] != KT_COPY_NONE)
        return c->tracks[track];
    const kt_track_row *k = &c->from->tracks.data[track];
    kt_track_row wanted = {.process = kt_copy_process(c, k->process),
                           .type = k->type,
                           .id = k->id,
                           .has_other_tid = k->has_other_tid};
    wanted.name = mapped(c, KT_TEXT_TRACK, k->name);
    if (kt_track_text_of(c->from, track).data) {
        wanted.text = mapped(c, KT_TEXT_TRACK, k->text);
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

/* 0 is none, and stays so. Large ids that go round do not become small ones, which others have. */
static uint64_t moved(const kt_copy *c, uint64_t id)
{
    if (!id || !c->first_id)
        return id;
    if (id < KT_LARGE_ID)
        return id + c->first_id;
    return KT_LARGE_ID + (id - KT_LARGE_ID + c->first_id) % (0 - KT_LARGE_ID);
}

/* Of flows 0 is one like others; what it is moved to, no other is. */
static uint64_t moved_flow(const kt_copy *c, uint64_t id)
{
    return id || !c->first_id ? moved(c, id) : KT_LARGE_ID + c->first_id;
}

void kt_copy_columns(kt_copy *c, kineto_row row, kt_row *out)
{
    const kt_block *block = kt_block_of(c->from, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    *out = (kt_row){.start_ns = block->start_ns[i],
                    .end_ns = block->end_ns[i],
                    .name = mapped(c, KT_TEXT_NAME, block->name[i]),
                    .track = kt_copy_track(c, block->track[i]),
                    .kind = block->kind[i],
                    .category = category_of(c, block->category[i]),
                    .form = block->form[i],
                    .flags = block->flags[i] & (0xffu | KT_WRITER(3)),
                    .correlation_id = moved(c, block->correlation_id[i]),
                    .external_id = moved(c, block->external_id[i])};
    if (out->form == KINETO_FORM_ASYNC)
        out->async_id = moved(c, kt_async_id(c->from, row));
}

/* The argument of a wait that is the correlation id of another row. */
static const char other_row[] = "wait_on_cuda_event_record_corr_id";

static bool may_name_other_row(const kt_copy *c, uint32_t kind)
{
    return c->first_id && (kind == KINETO_KIND_CUDA_SYNC || kind == KINETO_KIND_CUDA_EVENT);
}

/* The object with that id moved; false: it has none. */
static bool put_moved(kt_copy *c, kineto_string object)
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
        found = kb_string_equal(key, kb_string(other_row)) && kt_json_uint(value, &id) && id;
    }
    char *text = found ? malloc(object.size + 24) : NULL;
    if (!text)
        return found ? (fail(c), false) : false;
    size_t before = (size_t)(value.data - object.data), after = before + value.size;
    memcpy(text, object.data, before);
    char *end = kb_json_format_uint(text + before, moved(c, id));
    memcpy(end, object.data + after, object.size - after);
    kt_args_verbatim(c->b, (kineto_string){text, (size_t)(end - text) + (object.size - after)});
    free(text);
    return true;
}

static void copy_arg(kt_copy *c, uint32_t kind, const kt_arg *arg)
{
    uint32_t key = kt_copy_string(c, arg->key);
    bool moves = may_name_other_row(c, kind) && arg->type <= KINETO_ARG_UINT && arg->i > 0 &&
                 kb_string_equal(kineto_trace_string(c->from, arg->key), kb_string(other_row));
    if (moves) {
        kt_args_put_uint(c->b, key, moved(c, arg->u));
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

static void copy_verbatim(kt_copy *c, const kt_block *block, kineto_row row)
{
    uint32_t i = row % KT_BLOCK_ROWS;
    bool in_file = kt_kept_form(block, i) == KT_ARGS_IN_FILE;
    bool may_move = may_name_other_row(c, block->kind[i]);
    kineto_string text = in_file && !may_move ? (kineto_string){"", 0} : kt_args_text(c->from, row);
    if (may_move && text.size && put_moved(c, text))
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

/* A set is copied once, and its rows refer to the copy. */
static void copy_set(kt_copy *c, uint32_t set, uint32_t *copy)
{
    kt_args args = kt_args_of_set(c->from, set);
    kt_arg arg = {0};
    while (*copy == KT_COPY_NONE && kt_args_step(&args, &arg))
        copy_arg(c, KINETO_KIND_COUNT, &arg);
    if (*copy == KT_COPY_NONE)
        *copy = kt_args_make_set(c->b);
    kt_args_put_set(c->b, *copy);
}

static void copy_packed(kt_copy *c, const kt_block *block, uint32_t i)
{
    kt_args args = kt_args_of(c->from, block, i);
    kt_arg arg = {0};
    uint32_t *set = may_name_other_row(c, block->kind[i]) ? NULL : kt_copy_set(c, &args);
    if (set) {
        copy_set(c, args.set, set);
        if (!kt_args_skip_set(&args))
            return;
    }
    while (kt_args_step(&args, &arg))
        copy_arg(c, block->kind[i], &arg);
}

void kt_copy_args(kt_copy *c, kineto_row row)
{
    const kt_block *block = kt_block_of(c->from, row);
    uint32_t i = row % KT_BLOCK_ROWS;
    kt_args_form form = kt_args_form_of(block, i);
    if (!(block->args[i] & 0xffffff))
        return;
    if (form == KT_ARGS_JSON) {
        copy_verbatim(c, block, row);
    } else if (form == KT_ARGS_PACKED) {
        copy_packed(c, block, i);
    }
}

kineto_row kt_copy_row(kt_copy *c, kineto_row row)
{
    kt_row columns;
    kt_copy_columns(c, row, &columns);
    kt_copy_args(c, row);
    return kt_append(c->b, &columns);
}

/* Pseudonyms are for names and arguments of rows: where texts are mapped, flows go without theirs. */
static bool copy_about(kt_copy *c, uint64_t index)
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
    kineto_flow copy = {flow->type, moved_flow(c, flow->id), from, to};
    if (!kt_flow_add(c->b->trace, copy) || !copy_about(c, index))
        fail(c);
}

/* ---- tables ---------------------------------------------------------------------------------- */

void kt_copy_own_kinds(kt_copy *c)
{
    for (uint32_t i = 0; i < kt_own_kind_count(c->from); i++) {
        uint32_t category = mapped(c, KT_TEXT_CATEGORY, c->from->own_kinds.data[i].category);
        kt_own_kind(c->b, kb_intern_get(&c->b->trace->strings, category),
                    c->from->own_kinds.data[i].kind);
    }
}

void kt_copy_snapshots(kt_copy *c)
{
    for (uint32_t i = 0; i < kineto_trace_snapshot_count(c->from); i++)
        kt_snapshot(c->b, &c->from->snapshots.data[i]);
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
        kt_window(c->b, c->from->window_start_ns, c->from->window_end_ns);
}

static kineto_row shifted(kineto_row row, kineto_row first)
{
    return row == KINETO_NO_ROW ? row : row + first;
}

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
        kt_copy_flow(c, i, f, shifted(f->from, first), shifted(f->to, first));
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
