/* kineto_memory_timeline_save: allocations and releases of a trace, joined by address, as PyTorch's
 * lists.
 */
#include "analyze/summary/summary.h"

/* ---- which memory ---------------------------------------------------------------------------- */

/* One record, as arguments say it. */
typedef struct memory_record {
    kineto_row row;
    int64_t time_ns, bytes, type, index;
    uint64_t address;
    uint32_t track, owner, function; /* the innermost one around it */
} memory_record;

typedef KB_VEC(memory_record) record_list;

static bool is_host(const memory_record *r) { return ka_is_host_memory(r->type); }

static bool read_records(const kineto_trace *t, record_list *out)
{
    uint64_t rows = kineto_trace_count(t), sampling = ka_memory_sampling(t);
    for (kineto_row row = 0; row < rows; row++) {
        kineto_activity a;
        kineto_trace_get(t, row, &a);
        if (a.kind != KINETO_KIND_MEMORY)
            continue;
        ka_memory_args args;
        ka_memory_args_read(t, row, &args);
        memory_record r = {.row = row,
                           .time_ns = a.start_ns,
                           .track = a.track,
                           .address = args.address,
                           .bytes = args.bytes,
                           .type = args.device_type,
                           .index = args.device_index};
        if (is_host(&r))
            r.bytes = ka_memory_scaled(sampling, r.bytes);
        if (r.bytes && r.bytes != INT64_MIN && !kb_vec_push(out, r))
            return false;
    }
    return true;
}

static int compare_times(const void *left, const void *right)
{
    const memory_record *a = left, *b = right;
    if (a->time_ns != b->time_ns)
        return a->time_ns < b->time_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* ---- which device ---------------------------------------------------------------------------- */

/* "cuda:0" to numbers; index -1: any. */
static kineto_status parse_device(const char *text, int64_t *type, int64_t *index,
                                  kineto_error *err)
{
    char name[16];
    size_t size = strcspn(text, ":");
    *index = -1;
    if (size < sizeof name && size) {
        char *end = NULL;
        memcpy(name, text, size);
        name[size] = '\0';
        *type = strcmp(name, "cpu") == 0 ? 0 : -1;
        for (uint32_t i = 1; i < 32 && *type < 0; i++)
            if (ka_device_type_name(i) && strcmp(ka_device_type_name(i), name) == 0)
                *type = i;
        if (*type < 0 && name[0] >= '0' && name[0] <= '9')
            *type = strtol(name, &end, 10);
        bool good = *type >= 0 && (!end || !*end);
        if (good && text[size])
            *index = strtol(text + size + 1, &end, 10);
        if (good && (!text[size] || (text[size + 1] && !*end)))
            return KINETO_OK;
    }
    return kb_fail(err, KINETO_E_ARGUMENT,
                   "'%.40s' is no device: cpu, cuda:0, or a number for the type, 20:0", text);
}

static kineto_status choose_device(const record_list *records, const char *asked, int64_t *type,
                                   int64_t *index, kineto_error *err)
{
    if (asked)
        return parse_device(asked, type, index, err);
    *type = 0;
    *index = -1;
    for (size_t i = 0; i < records->count && *type == 0; i++) {
        const memory_record *r = &records->data[i];
        if (is_host(r))
            continue;
        *type = r->type;
        *index = r->index;
    }
    return KINETO_OK;
}

static bool is_on(const memory_record *r, int64_t type, int64_t index)
{
    if (type == 0)
        return is_host(r);
    return r->type == type && (index < 0 || r->index == index);
}

static void say_device(kineto_memory_timeline_result *result, int64_t type, int64_t index)
{
    const char *name = type >= 0 && type < 32 ? ka_device_type_name((uint32_t)type) : NULL;
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

/* ---- whose ----------------------------------------------------------------------------------- */

/* The name of the innermost function around each record, on its thread. */
static bool find_owners(const kineto_function_events *e, record_list *records)
{
    size_t tracks = KB_MAX(kineto_trace_track_count(e->trace), 1u);
    uint32_t *latest = malloc(tracks * sizeof *latest), next = 0;
    if (!latest)
        return false;
    memset(latest, 0xff, tracks * sizeof *latest);
    for (size_t i = 0; i < records->count; i++) {
        memory_record *r = &records->data[i];
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

/* ---- joining --------------------------------------------------------------------------------- */

typedef struct joining {
    ka_memory_timeline *t;
    const ka_memory_classifier *places;
    kb_map live; /* by address: the change that brought it, and one more */
    int64_t bytes;
} joining;

static bool push_change(joining *j, ka_memory_change change)
{
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

/* Nobody's, of no known purpose. */
static ka_memory_change nobodys(int64_t time_ns, int64_t bytes, ka_memory_action action)
{
    return (ka_memory_change){.time_ns = time_ns,
                              .bytes = bytes,
                              .function = KINETO_NO_EVENT,
                              .action = (uint8_t)action,
                              .category = KINETO_MEMORY_UNKNOWN};
}

static bool add_before(joining *j, int64_t bytes)
{
    return kb_vec_push(&j->t->before, nobodys(-1, bytes, KA_MEMORY_PREEXISTING));
}

/* What was at the address is gone, whether or not it was said: its size is what it came with. What
 * it was for shows only now. */
static bool leave(joining *j, const memory_record *r, uint64_t *live)
{
    ka_memory_change *came = &j->t->changes.data[*live - 1];
    came->category = ka_memory_classify(j->places, came->function, r->function);
    ka_memory_change goes = *came;
    *live = 0;
    goes.time_ns = r->time_ns;
    goes.action = KA_MEMORY_DESTROY;
    return push_change(j, goes);
}

static bool join_release(joining *j, const memory_record *r)
{
    kineto_memory_timeline_result *result = &j->t->result;
    result->releases++;
    if (!r->address)
        return push_change(j, nobodys(r->time_ns, -r->bytes, KA_MEMORY_DESTROY));
    uint64_t *live = kb_map_find(&j->live, r->address);
    if (live && *live)
        return leave(j, r, live);
    result->unknown_releases++;
    return add_before(j, -r->bytes) &&
           push_change(j, nobodys(r->time_ns, -r->bytes, KA_MEMORY_DESTROY));
}

static bool join_allocation(joining *j, const memory_record *r)
{
    ka_memory_change comes = nobodys(r->time_ns, r->bytes, KA_MEMORY_CREATE);
    j->t->result.allocations++;
    if (!r->address)
        return push_change(j, comes);
    uint64_t *live = kb_map_insert(&j->live, r->address, 0, NULL);
    if (!live || (*live && !leave(j, r, live)))
        return false;
    *live = j->t->changes.count + 1;
    comes.owner = r->owner;
    comes.function = r->function;
    comes.category = ka_memory_classify(j->places, r->function, KINETO_NO_EVENT);
    return push_change(j, comes);
}

/* What was there before shows only when it goes, so a first walk finds how much it was. Old traces
 * have no addresses: there it is as much as keeps the sum from falling below 0. */
typedef struct earlier {
    int64_t known, sum, least;
} earlier;

static bool look_ahead(const record_list *records, kb_map *live, earlier *out)
{
    for (size_t i = 0; i < records->count; i++) {
        const memory_record *r = &records->data[i];
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

static bool join(ka_memory_timeline *t, const record_list *records,
                 const ka_memory_classifier *places)
{
    joining j = {.t = t, .places = places};
    kb_map live = {0};
    earlier before = {0};
    bool ok = look_ahead(records, &live, &before);
    int64_t unsaid = before.least > -INT64_MAX ? -before.least : INT64_MAX;
    kb_map_free(&live);
    j.bytes = ka_add_saturated(before.known, unsaid);
    t->result.peak_bytes = j.bytes;
    t->result.peak_ns = records->data[0].time_ns;
    ok = ok && (!unsaid || add_before(&j, unsaid));
    for (size_t i = 0; ok && i < records->count; i++)
        ok = records->data[i].bytes < 0 ? join_release(&j, &records->data[i])
                                        : join_allocation(&j, &records->data[i]);
    t->result.end_bytes = j.bytes;
    kb_map_free(&j.live);
    return ok;
}

static bool join_with_places(ka_memory_timeline *t, const record_list *records,
                             const kineto_memory_timeline_options *options)
{
    ka_memory_classifier places;
    if (!ka_memory_classifier_create(&places, t->e, options))
        return false;
    for (size_t i = 0; i < records->count; i++)
        ka_memory_classifier_add(&places, records->data[i].function);
    ka_memory_classifier_run(&places);
    bool ok = join(t, records, &places);
    ka_memory_classifier_free(&places);
    return ok;
}

static kineto_status make_timeline(const kineto_function_events *e,
                                   const kineto_memory_timeline_options *options,
                                   ka_memory_timeline *t, kineto_error *err)
{
    record_list records = {0};
    int64_t type = 0, index = -1;
    kineto_status status = KINETO_OK;
    bool ok = read_records(e->trace, &records);
    if (ok)
        status = choose_device(&records, options->device, &type, &index, err);
    if (ok && status == KINETO_OK) {
        size_t kept = 0;
        for (size_t i = 0; i < records.count; i++)
            if (is_on(&records.data[i], type, index))
                records.data[kept++] = records.data[i];
        records.count = kept;
        say_device(&t->result, type, index);
        if (kept) {
            qsort(records.data, kept, sizeof *records.data, compare_times);
            ok = find_owners(e, &records) && join_with_places(t, &records, options);
        } else {
            status = kb_fail(err, KINETO_E_NOT_FOUND,
                             "there is no memory of %s in it: was it recorded with memory?",
                             t->result.device);
        }
    }
    kb_vec_free(&records);
    return ok ? status : kb_fail(err, KINETO_E_MEMORY, "no memory for memory over time");
}

/* ---- writing --------------------------------------------------------------------------------- */

static void put_raw(kb_json *j, const ka_memory_change *c)
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
        put_raw(j, &t->before.data[i]);
    for (size_t i = 0; i < t->changes.count; i++)
        put_raw(j, &t->changes.data[i]);
    kb_json_array_end(j);
}

static void put_sizes(kb_json *j, const int64_t bytes[KINETO_MEMORY_CATEGORY_COUNT])
{
    kb_json_newline(j);
    kb_json_array_begin(j);
    kb_json_int(j, 0);
    for (int i = 0; i < KINETO_MEMORY_CATEGORY_COUNT; i++)
        kb_json_int(j, bytes[i]);
    kb_json_array_end(j);
}

static void add_change(int64_t bytes[KINETO_MEMORY_CATEGORY_COUNT], const ka_memory_change *c)
{
    int64_t more = c->action == KA_MEMORY_DESTROY ? -c->bytes : c->bytes;
    bytes[c->category] = ka_add_saturated(bytes[c->category], more);
}

/* One time for each microsecond in which something changed. */
static bool ends_microsecond(const ka_memory_timeline *t, size_t i)
{
    return i + 1 == t->changes.count ||
           t->changes.data[i + 1].time_ns / 1000 != t->changes.data[i].time_ns / 1000;
}

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
        add_change(bytes, &t->before.data[i]);
    if (t->before.count)
        put_sizes(j, bytes);
    for (size_t i = 0; i < t->changes.count; i++) {
        add_change(bytes, &t->changes.data[i]);
        if (ends_microsecond(t, i))
            put_sizes(j, bytes);
    }
    kb_json_array_end(j);
    kb_json_array_end(j);
}

typedef enum memory_form { PAGE, RAW, COALESCED, NO_FORM } memory_form;

static bool ends_with(const char *path, size_t size, const char *ending)
{
    size_t length = strlen(ending);
    return size >= length && memcmp(path + size - length, ending, length) == 0;
}

static memory_form form_of(const char *path)
{
    size_t size = strlen(path);
    if (ends_with(path, size, ".gz"))
        size -= 3;
    else if (ends_with(path, size, ".zst"))
        size -= 4;
    return ends_with(path, size, ".html")       ? PAGE
           : ends_with(path, size, ".raw.json") ? RAW
           : ends_with(path, size, ".json")     ? COALESCED
                                                : NO_FORM;
}

static kineto_status write_to(const ka_memory_timeline *t, memory_form form, const char *title,
                              const char *path, kineto_error *err)
{
    kb_sink *sink;
    kb_json j;
    kineto_status status = kb_sink_open_file(path, kb_compression_of(path), &sink, err);
    if (status)
        return status;
    kb_json_init(&j, sink);
    if (form == PAGE && !ka_memory_write_page(t, title, sink))
        kb_sink_fail(sink, KINETO_E_MEMORY, "no memory to draw memory over time");
    else if (form == RAW)
        write_raw(t, &j);
    else if (form == COALESCED)
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
        return kb_fail(err, KINETO_E_ARGUMENT, "function events and a path are needed");
    kineto_status status =
        kb_options_read(&all, sizeof all, options, "kineto_memory_timeline_options", err);
    if (!status)
        status = kb_size_check(result, "kineto_memory_timeline_result", err);
    if (status)
        return status;
    memory_form form = form_of(path);
    if (form == NO_FORM)
        return kb_fail(
            err, KINETO_E_UNSUPPORTED,
            "%s: memory over time is written as .html, .json or .raw.json, .gz may follow", path);
    for (size_t i = 0; i < all.rule_count; i++)
        if (!all.rules || !all.rules[i].name ||
            all.rules[i].category >= KINETO_MEMORY_CATEGORY_COUNT)
            return kb_fail(err, KINETO_E_ARGUMENT, "rule %zu of memory's categories is none", i);
    ka_memory_timeline t = {.e = events, .by_category = all.by_category};
    status = make_timeline(events, &all, &t, err);
    if (status == KINETO_OK)
        status = write_to(&t, form, all.title ? all.title : "Memory", path, err);
    if (status == KINETO_OK && result) {
        size_t size = result->size;
        t.result.size = size;
        memcpy(result, &t.result, KB_MIN(size, sizeof t.result));
    }
    kb_vec_free(&t.before);
    kb_vec_free(&t.changes);
    return status;
}
