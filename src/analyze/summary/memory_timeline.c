/* kineto_memory_timeline_save: allocations and releases of a trace on one device, matched by
 * address, in the formats of PyTorch's memory timeline: all changes (.raw.json), sizes by category
 * (.json), or a page (.html, memory_page.c). */
#include "analyze/summary/summary.h"

/* ---- records --------------------------------------------------------------------------------- */

/* One memory row. */
typedef struct timeline_record {
    kineto_row row;
    int64_t time_ns, bytes, type, index;
    uint64_t address;
    uint32_t track;
    /* The innermost function around it on its thread: name key, 0: none; event. */
    uint32_t owner, function;
} timeline_record;

typedef KB_VEC(timeline_record) timeline_record_list;

static bool is_host_record(const timeline_record *r) { return ka_is_host_memory(r->type); }

/* Reads all memory rows that change a size. False: out of memory. */
static bool read_timeline_records(const kineto_trace *t, timeline_record_list *out)
{
    uint64_t rows = kineto_trace_count(t), sampling = ka_memory_sampling(t);
    for (kineto_row row = 0; row < rows; row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        if (a.kind != KINETO_KIND_MEMORY)
            continue;
        ka_memory_args args;
        ka_memory_args_read(t, row, &args);
        timeline_record r = {.row = row,
                             .time_ns = a.start_ns,
                             .track = a.track,
                             .address = args.address,
                             .bytes = args.bytes,
                             .type = args.device_type,
                             .index = args.device_index};
        if (is_host_record(&r))
            r.bytes = ka_memory_scaled(sampling, r.bytes);
        if (r.bytes && r.bytes != INT64_MIN && !kb_vec_push(out, r))
            return false;
    }
    return true;
}

/* By time; rows of the same time keep their order. */
static int compare_record_times(const void *left, const void *right)
{
    const timeline_record *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* ---- the device ------------------------------------------------------------------------------ */

/* Numbers of PyTorch's device types are below this. */
#define MAX_DEVICE_TYPES 32u

/* A decimal number that is all of `text`; false: it is something else. */
static bool parse_decimal(const char *text, int64_t *number)
{
    char *end;
    *number = strtol(text, &end, 10);
    return end != text && !*end;
}

/* "cpu", "cuda", or the number of a device type, "20". */
static bool parse_device_type(const char *name, int64_t *type)
{
    if (strcmp(name, "cpu") == 0) {
        *type = KINETO_DEVICE_CPU;
        return true;
    }
    for (uint32_t i = 1; i < MAX_DEVICE_TYPES; i++) {
        const char *known = ka_device_type_name(i);
        if (known && strcmp(known, name) == 0) {
            *type = i;
            return true;
        }
    }
    return kb_is_digit(name[0]) && parse_decimal(name, type);
}

/* "TYPE" or "TYPE:INDEX"; *index is -1, any, without an index. */
static kineto_status parse_device(const char *text, int64_t *type, int64_t *index,
                                  kineto_error *err)
{
    char name[16];
    const char *colon = strchr(text, ':');
    size_t size = colon ? (size_t)(colon - text) : strlen(text);
    *index = -1;
    if (size && size < sizeof name) {
        memcpy(name, text, size);
        name[size] = '\0';
        if (parse_device_type(name, type) && (!colon || parse_decimal(colon + 1, index)))
            return KINETO_OK;
    }
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "unknown device '%.40s'; use cpu, cuda:0, or the number of a type as in 20:0",
                   text);
}

/* The requested device, else that of the first device record, else the host. */
static kineto_status choose_timeline_device(const timeline_record_list *records,
                                            const char *requested, int64_t *type, int64_t *index,
                                            kineto_error *err)
{
    if (requested)
        return parse_device(requested, type, index, err);
    *type = 0;
    *index = -1;
    for (size_t i = 0; i < records->count && *type == 0; i++) {
        const timeline_record *r = &records->data[i];
        if (is_host_record(r))
            continue;
        *type = r->type;
        *index = r->index;
    }
    return KINETO_OK;
}

/* True if a record is on the device; index -1 stands for any. */
static bool is_on_device(const timeline_record *r, int64_t type, int64_t index)
{
    if (type == 0)
        return is_host_record(r);
    return r->type == type && (index < 0 || r->index == index);
}

/* Writes the device's name into the result, as parse_device reads it. */
static void name_timeline_device(kineto_memory_timeline_result *result, int64_t type, int64_t index)
{
    const char *name =
        type >= 0 && type < (int64_t)MAX_DEVICE_TYPES ? ka_device_type_name((uint32_t)type) : NULL;
    char number_text[16];
    snprintf(number_text, sizeof number_text, "%d", (int)type);
    if (type == 0)
        snprintf(result->device, sizeof result->device, "cpu");
    else if (index < 0)
        snprintf(result->device, sizeof result->device, "%s", name ? name : number_text);
    else
        snprintf(result->device, sizeof result->device, "%s:%d", name ? name : number_text,
                 (int)index);
}

/* ---- owners ---------------------------------------------------------------------------------- */

/* Finds the innermost function around each record on its thread. Records and events are both in the
 * order of time; the open functions of a track are the parents of the latest one. */
static bool find_record_owners(const kineto_function_events *e, timeline_record_list *records)
{
    size_t tracks = KB_MAX(kineto_trace_track_count(e->trace), 1u);
    uint32_t *latest = malloc(tracks * sizeof *latest), next = 0;
    if (!latest)
        return false;
    memset(latest, 0xff, tracks * sizeof *latest);
    for (size_t i = 0; i < records->count; i++) {
        timeline_record *r = &records->data[i];
        for (; next < e->count && e->start_ns[next] <= r->time_ns; next++)
            if (!(e->flags[next] &
                  (KINETO_FUNCTION_DEVICE | KINETO_FUNCTION_ASYNC | KINETO_FUNCTION_MEMORY)))
                latest[e->track[next]] = next;
        uint32_t at = latest[r->track];
        while (at != KINETO_NO_EVENT && e->end_ns[at] < r->time_ns)
            at = e->parent[at];
        r->owner = at == KINETO_NO_EVENT ? 0 : e->names.key[e->name[at]];
        r->function = at;
    }
    free(latest);
    return true;
}

/* ---- matching allocations and releases ------------------------------------------------------- */

/* The state while records become changes. */
typedef struct change_joiner {
    ka_memory_timeline *t;
    const ka_memory_classifier *places;
    kb_map live;   /* by address: index of the allocating change plus 1; 0: released */
    int64_t bytes; /* allocated now */
} change_joiner;

/* Appends a change and follows the current size and its peak. False: out of memory. */
static bool push_timeline_change(change_joiner *j, ka_memory_change change)
{
    KB_ASSERT(change.category < KINETO_MEMORY_CATEGORY_COUNT);
    kineto_memory_timeline_result *result = &j->t->result;
    bool goes = change.action == KA_MEMORY_DESTROY;
    if (!kb_vec_push(&j->t->changes, change))
        return false;
    j->bytes = ka_add_saturated(j->bytes, goes ? -change.bytes : change.bytes);
    if (j->bytes > result->peak_bytes) {
        result->peak_bytes = j->bytes;
        result->peak_ns = change.time_ns;
    }
    return true;
}

/* A change without an owner, of unknown category. */
static ka_memory_change make_unowned_change(int64_t time_ns, int64_t bytes, ka_memory_action action)
{
    return (ka_memory_change){.time_ns = time_ns,
                              .bytes = bytes,
                              .function = KINETO_NO_EVENT,
                              .action = (uint8_t)action,
                              .category = KINETO_MEMORY_UNKNOWN};
}

/* Adds memory that was allocated before the trace began. */
static bool add_preexisting(change_joiner *j, int64_t bytes)
{
    return kb_vec_push(&j->t->before, make_unowned_change(-1, bytes, KA_MEMORY_PREEXISTING));
}

/* Ends the block at an address: it was released, or another block is allocated there, so that its
 * release was not recorded. The release has the size of the allocation. The category of both is
 * final only now that the releasing function is known. */
static bool end_block(change_joiner *j, const timeline_record *r, uint64_t *live)
{
    KB_ASSERT(*live && *live <= j->t->changes.count);
    ka_memory_change *came = &j->t->changes.data[*live - 1];
    came->category = ka_memory_classify(j->places, came->function, r->function);
    ka_memory_change goes = *came;
    *live = 0;
    goes.time_ns = r->time_ns;
    goes.action = KA_MEMORY_DESTROY;
    return push_timeline_change(j, goes);
}

/* A release: ends its block, or shows that the block existed before. Without an address nothing can
 * be matched. */
static bool join_release(change_joiner *j, const timeline_record *r)
{
    kineto_memory_timeline_result *result = &j->t->result;
    result->releases++;
    if (!r->address)
        return push_timeline_change(j,
                                    make_unowned_change(r->time_ns, -r->bytes, KA_MEMORY_DESTROY));
    uint64_t *live = kb_map_find(&j->live, r->address);
    if (live && *live)
        return end_block(j, r, live);
    result->unknown_releases++;
    return add_preexisting(j, -r->bytes) &&
           push_timeline_change(j, make_unowned_change(r->time_ns, -r->bytes, KA_MEMORY_DESTROY));
}

/* An allocation: begins a block, whose category is provisional until its release. */
static bool join_allocation(change_joiner *j, const timeline_record *r)
{
    ka_memory_change comes = make_unowned_change(r->time_ns, r->bytes, KA_MEMORY_CREATE);
    j->t->result.allocations++;
    if (!r->address)
        return push_timeline_change(j, comes);
    uint64_t *live = kb_map_insert(&j->live, r->address, 0, NULL);
    if (!live || (*live && !end_block(j, r, live)))
        return false;
    *live = j->t->changes.count + 1;
    comes.owner = r->owner;
    comes.function = r->function;
    comes.category = ka_memory_classify(j->places, r->function, KINETO_NO_EVENT);
    return push_timeline_change(j, comes);
}

/* Memory that existed before the trace shows only when it is released, so that a first pass
 * measures it: `known`, released blocks that were never allocated. Old traces have no addresses;
 * for them it is the amount that keeps the running `sum` from falling below 0, -`least`. */
typedef struct preexisting {
    int64_t known, sum, least;
} preexisting;

/* The first pass. `live` holds 1 for addresses in use. False: out of memory. */
static bool measure_preexisting(const timeline_record_list *records, kb_map *live, preexisting *out)
{
    for (size_t i = 0; i < records->count; i++) {
        const timeline_record *r = &records->data[i];
        if (!r->address) {
            out->sum = ka_add_saturated(out->sum, r->bytes);
            out->least = KB_MIN(out->least, out->sum);
            continue;
        }
        uint64_t *there = kb_map_insert(live, r->address, 0, NULL);
        if (!there)
            return false;
        if (r->bytes < 0 && !*there)
            out->known = ka_add_saturated(out->known, -r->bytes);
        *there = r->bytes > 0;
    }
    return true;
}

/* Turns the records into changes. There is at least one record. False: out of memory. */
static bool join_records(ka_memory_timeline *t, const timeline_record_list *records,
                         const ka_memory_classifier *places)
{
    KB_ASSERT(records->count);
    change_joiner j = {.t = t, .places = places};
    kb_map live = {0};
    preexisting before = {0};
    bool ok = measure_preexisting(records, &live, &before);
    int64_t without_address = before.least > -INT64_MAX ? -before.least : INT64_MAX;
    kb_map_free(&live);
    j.bytes = ka_add_saturated(before.known, without_address);
    t->result.peak_bytes = j.bytes;
    t->result.peak_ns = records->data[0].time_ns;
    ok = ok && (!without_address || add_preexisting(&j, without_address));
    for (size_t i = 0; ok && i < records->count; i++)
        ok = records->data[i].bytes < 0 ? join_release(&j, &records->data[i])
                                        : join_allocation(&j, &records->data[i]);
    t->result.end_bytes = j.bytes;
    kb_map_free(&j.live);
    return ok;
}

/* Classifies the functions around all records first: that decides the categories. */
static bool classify_and_join(ka_memory_timeline *t, const timeline_record_list *records,
                              const kineto_memory_timeline_options *options)
{
    ka_memory_classifier places;
    if (!ka_memory_classifier_create(&places, t->e, options))
        return false;
    for (size_t i = 0; i < records->count; i++)
        ka_memory_classifier_add(&places, records->data[i].function);
    ka_memory_classifier_run(&places);
    bool ok = join_records(t, records, &places);
    ka_memory_classifier_free(&places);
    return ok;
}

/* Reads the records of the device and matches them. */
static kineto_status make_timeline(const kineto_function_events *e,
                                   const kineto_memory_timeline_options *options,
                                   ka_memory_timeline *t, kineto_error *err)
{
    timeline_record_list records = {0};
    int64_t type = 0, index = -1;
    kineto_status status = KINETO_OK;
    bool ok = read_timeline_records(e->trace, &records);
    if (ok)
        status = choose_timeline_device(&records, options->device, &type, &index, err);
    if (ok && status == KINETO_OK) {
        size_t kept = 0;
        for (size_t i = 0; i < records.count; i++)
            if (is_on_device(&records.data[i], type, index))
                records.data[kept++] = records.data[i];
        records.count = kept;
        name_timeline_device(&t->result, type, index);
        if (kept) {
            qsort(records.data, kept, sizeof *records.data, compare_record_times);
            ok = find_record_owners(e, &records) && classify_and_join(t, &records, options);
        } else {
            status =
                kb_fail(err, KINETO_E_NOT_FOUND,
                        "no memory events for %s; docs/reference/memory.md says how to record them",
                        t->result.device);
        }
    }
    kb_vec_free(&records);
    return ok ? status : kb_fail_memory(err, "memory over time");
}

/* ---- writing --------------------------------------------------------------------------------- */

/* [time, action, size, category] as in PyTorch's .raw.json. */
static void write_raw_change(kb_json *j, const ka_memory_change *c)
{
    kb_json_newline(j);
    kb_json_array_begin(j);
    kb_json_int(j, c->time_ns);
    kb_json_uint(j, c->action);
    kb_json_int(j, c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes);
    kb_json_uint(j, c->category);
    kb_json_array_end(j);
}

static void write_raw(const ka_memory_timeline *t, kb_json *j)
{
    kb_json_array_begin(j);
    for (size_t i = 0; i < t->before.count; i++)
        write_raw_change(j, &t->before.data[i]);
    for (size_t i = 0; i < t->changes.count; i++)
        write_raw_change(j, &t->changes.data[i]);
    kb_json_array_end(j);
}

/* The sizes of one moment: a 0 and one size for each category, as PyTorch writes them. */
static void write_category_sizes(kb_json *j, const int64_t bytes[KINETO_MEMORY_CATEGORY_COUNT])
{
    kb_json_newline(j);
    kb_json_array_begin(j);
    kb_json_int(j, 0);
    for (int i = 0; i < KINETO_MEMORY_CATEGORY_COUNT; i++)
        kb_json_int(j, bytes[i]);
    kb_json_array_end(j);
}

static void add_to_category(int64_t bytes[KINETO_MEMORY_CATEGORY_COUNT], const ka_memory_change *c)
{
    int64_t more = c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes;
    bytes[c->category] = ka_add_saturated(bytes[c->category], more);
}

/* True for the last change of a microsecond: the coalesced form has one entry for each. */
static bool ends_microsecond(const ka_memory_timeline *t, size_t i)
{
    return i + 1 == t->changes.count ||
           t->changes.data[i + 1].time_ns / 1000 != t->changes.data[i].time_ns / 1000;
}

/* [[times in us], [sizes at these times]]. */
static void write_coalesced(const ka_memory_timeline *t, kb_json *j)
{
    int64_t bytes[KINETO_MEMORY_CATEGORY_COUNT] = {0};
    kb_json_array_begin(j);
    kb_json_array_begin(j);
    if (t->before.count)
        kb_json_int(j, t->changes.data[0].time_ns / 1000);
    for (size_t i = 0; i < t->changes.count; i++)
        if (ends_microsecond(t, i))
            kb_json_int(j, t->changes.data[i].time_ns / 1000);
    kb_json_array_end(j);
    kb_json_newline(j);
    kb_json_array_begin(j);
    for (size_t i = 0; i < t->before.count; i++)
        add_to_category(bytes, &t->before.data[i]);
    if (t->before.count)
        write_category_sizes(j, bytes);
    for (size_t i = 0; i < t->changes.count; i++) {
        add_to_category(bytes, &t->changes.data[i]);
        if (ends_microsecond(t, i))
            write_category_sizes(j, bytes);
    }
    kb_json_array_end(j);
    kb_json_array_end(j);
}

typedef enum memory_form { FORM_PAGE, FORM_RAW, FORM_COALESCED, FORM_UNKNOWN } memory_form;

static bool path_ends_with(const char *path, size_t size, const char *ending)
{
    size_t length = strlen(ending);
    return size >= length && memcmp(path + size - length, ending, length) == 0;
}

/* The format that the path's ending stands for, before .gz or .zst. */
static memory_form find_memory_form(const char *path)
{
    size_t size = strlen(path);
    if (path_ends_with(path, size, ".gz"))
        size -= 3;
    else if (path_ends_with(path, size, ".zst"))
        size -= 4;
    return path_ends_with(path, size, ".html")       ? FORM_PAGE
           : path_ends_with(path, size, ".raw.json") ? FORM_RAW
           : path_ends_with(path, size, ".json")     ? FORM_COALESCED
                                                     : FORM_UNKNOWN;
}

static kineto_status write_timeline_file(const ka_memory_timeline *t, memory_form form,
                                         const char *title, const char *path, kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    if (form == FORM_PAGE && !ka_memory_write_page(t, title, sink))
        kb_sink_fail(sink, KINETO_E_MEMORY, "out of memory: drawing memory over time");
    else if (form == FORM_RAW)
        write_raw(t, &j);
    else if (form == FORM_COALESCED)
        write_coalesced(t, &j);
    kb_sink_write(sink, "\n", 1);
    return kb_sink_close(sink, err);
}

kineto_status kineto_memory_timeline_save(const kineto_function_events *events,
                                          const kineto_memory_timeline_options *options,
                                          const char *path, kineto_memory_timeline_result *result,
                                          kineto_error *err)
{
    kineto_memory_timeline_options all = {.size = sizeof all};
    if (!events || !path)
        return kb_fail_null(err, __func__, "events, path", events, path);
    kineto_status status =
        kb_options_read(&all, sizeof all, options, "kineto_memory_timeline_options", err);
    if (!status)
        status = kb_size_check(result, "kineto_memory_timeline_result", err);
    if (status)
        return status;
    memory_form form = find_memory_form(path);
    if (form == FORM_UNKNOWN)
        return kb_fail(err, KINETO_E_UNSUPPORTED,
                       "%s: unknown format; use .html, .json or .raw.json, also with .gz", path);
    for (size_t i = 0; i < all.rule_count; i++)
        if (!all.rules || !all.rules[i].name ||
            all.rules[i].category >= KINETO_MEMORY_CATEGORY_COUNT)
            return kb_fail(
                err, KINETO_E_ARGUMENT,
                "kineto_memory_timeline_options: rule %zu has no name or an unknown category", i);
    ka_memory_timeline t = {.e = events, .by_category = all.by_category};
    status = make_timeline(events, &all, &t, err);
    if (status == KINETO_OK)
        status = write_timeline_file(&t, form, all.title ? all.title : "Memory", path, err);
    if (status == KINETO_OK && result) {
        size_t size = result->size;
        t.result.size = size;
        memcpy(result, &t.result, KB_MIN(size, sizeof t.result));
    }
    kb_vec_free(&t.before);
    kb_vec_free(&t.changes);
    return status;
}
