/* Databases of rocprofv3 and rocprof-sys (rocpd). Each process has its own set of tables, whose names end with a
 * number of the process ("rocpd_string_0190…"); views join them. Versions 3 keep process, thread, agent and stream
 * in the rows, version 4 in rocpd_track: each reader takes the columns that are there. */
#include "trace/bytes/json_value.h"
#include "trace/import/database.h"
#include "trace/import/rocm.h"

#define PREFIX "rocpd_string"

typedef struct rocpd_place {
    int64_t pid, tid, agent, queue, stream; /* ids of the file's tables; -1: none */
} rocpd_place;

/* One set of tables. */
typedef struct rocpd {
    kt_database *d;
    kt_rocm r;
    const char *suffix;
    uint64_t scope;
    kt_texts strings, kernels, raw_kernels, categories;
    sqlite3_stmt *event; /* NULL: there is no table of events */
    kb_map pids, tids;   /* id → number + 1 */
    kb_map gpus;         /* id of an agent → number of the GPU + 1; 0: a CPU */
    kb_map tracks;       /* id → index + 1 in `places` */
    KB_VEC(rocpd_place) places;
    bool has_streams;    /* of HIP; else kernels are shown by queue */
    uint64_t unknown_releases;
} rocpd;

typedef struct rocpd_event {
    int64_t stack, category;
    kineto_string extra; /* JSON, until the next event */
} rocpd_event;

bool kt_is_rocpd(const kt_database *d)
{
    for (size_t i = 0; i < d->tables.count; i++)
        if (kb_string_starts_with(kb_string(d->tables.data[i].name), PREFIX))
            return true;
    return false;
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static const char *table_name(const rocpd *p, char *out, const char *name)
{
    kb_snprintf(out, 200, "%s%s", name, p->suffix);
    return out;
}

static bool open_rows(rocpd *p, kt_rows *rows, const char *name, const char *const *columns)
{
    char table[200];
    kt_database_table *found = kt_database_find(p->d, table_name(p, table, name));
    *rows = (kt_rows){.database = p->d};
    return found && kt_rows_open(rows, p->d, found->name, columns);
}

static int64_t look_up(const kb_map *map, int64_t id, int64_t otherwise)
{
    const uint64_t *number = kb_map_find(map, (uint64_t)id);
    return number && *number ? (int64_t)*number - 1 : otherwise;
}

/* Numbers are kept plus 1, so that 0 is none. */
static void keep_number(kb_map *map, int64_t id, int64_t number)
{
    if (number >= 0)
        (void)kb_map_insert(map, (uint64_t)id, (uint64_t)number + 1, NULL);
}

/* The last part of the program's path. */
static kineto_string program_of(kineto_string command)
{
    const char *space = memchr(command.data, ' ', command.size);
    if (space)
        command.size = (size_t)(space - command.data);
    const char *slash = memrchr(command.data, '/', command.size);
    return slash ? kb_string_skip(command, (size_t)(slash + 1 - command.data)) : command;
}

static void read_processes(rocpd *p)
{
    static const char *const processes[] = {"!id", "!pid", "command", NULL};
    static const char *const threads[] = {"!id", "!tid", "pid", "name", NULL};
    kt_rows rows;
    int64_t id, number;
    if (open_rows(p, &rows, "rocpd_info_process", processes))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &id) && kt_rows_int(&rows, 1, &number)) {
                keep_number(&p->pids, id, number);
                kt_import_name_process(&p->r.m, number, program_of(kt_rows_text(&rows, 2)));
            }
    kt_rows_close(&rows);
    if (open_rows(p, &rows, "rocpd_info_thread", threads))
        while (kt_rows_next(&rows))
            if (kt_rows_int(&rows, 0, &id) && kt_rows_int(&rows, 1, &number)) {
                int64_t pid = kt_rows_int_or(&rows, 2, 0);
                keep_number(&p->tids, id, number);
                kt_import_name_thread(&p->r.m, look_up(&p->pids, pid, pid), number, kt_rows_text(&rows, 3));
            }
    kt_rows_close(&rows);
}

/* Only GPUs are devices. Their number is the one among the GPUs. */
static void read_agents(rocpd *p)
{
    static const char *const columns[] = {"!id", "!type", "type_index", "logical_index", "product_name", "name", "extdata", NULL};
    kt_rows rows;
    int64_t id, units;
    if (open_rows(p, &rows, "rocpd_info_agent", columns))
        while (kt_rows_next(&rows)) {
            if (!kt_rows_int(&rows, 0, &id) || !kb_string_is(kt_rows_text(&rows, 1), "GPU"))
                continue;
            int64_t number = kt_rows_int_or(&rows, 2, kt_rows_int_or(&rows, 3, id));
            kineto_string product = kt_rows_text(&rows, 4), name = kt_rows_text(&rows, 5);
            if (!kt_json_int(kt_member_of(kt_rows_text(&rows, 6), "cu_count"), &units))
                units = 0;
            keep_number(&p->gpus, id, number);
            kt_rocm_describe(&p->r, number, product.size ? product : name, units);
        }
    kt_rows_close(&rows);
}

static void read_tracks(rocpd *p)
{
    static const char *const columns[] = {"!id", "pid", "tid", "agent_id", "queue_id", "stream_id", NULL};
    kt_rows rows;
    int64_t id;
    if (open_rows(p, &rows, "rocpd_track", columns))
        while (kt_rows_next(&rows)) {
            rocpd_place place = {kt_rows_int_or(&rows, 1, -1), kt_rows_int_or(&rows, 2, -1), kt_rows_int_or(&rows, 3, -1),
                                 kt_rows_int_or(&rows, 4, -1), kt_rows_int_or(&rows, 5, -1)};
            if (!kt_rows_int(&rows, 0, &id))
                continue;
            keep_number(&p->tracks, id, (int64_t)p->places.count);
            if (!kb_vec_push(&p->places, place))
                p->r.m.b->status = KINETO_E_MEMORY;
        }
    kt_rows_close(&rows);
}

/* ---- events ----------------------------------------------------------------------------------- */

static void open_events(rocpd *p)
{
    static const char *const columns[] = {"!id", "!stack_id", "category_id", "extdata", NULL};
    char table[200];
    kt_rows rows;
    bool is_here = open_rows(p, &rows, "rocpd_event", columns);
    kt_rows_close(&rows);
    if (!is_here)
        return;
    char *text = sqlite3_mprintf("SELECT stack_id,category_id,extdata FROM \"%w\" WHERE id=?1",
                                 table_name(p, table, "rocpd_event"));
    if (text && sqlite3_prepare_v2(p->d->db, text, -1, &p->event, NULL) != SQLITE_OK)
        p->event = NULL;
    sqlite3_free(text);
}

/* What the row of an event says; zeros if there is none. */
static rocpd_event find_event(rocpd *p, const kt_rows *rows, int column)
{
    rocpd_event e = {.extra = {"", 0}};
    int64_t id;
    if (!p->event || !kt_rows_int(rows, column, &id))
        return e;
    kt_rows found = {.statement = p->event};
    sqlite3_reset(p->event);
    sqlite3_bind_int64(p->event, 1, id);
    if (sqlite3_step(p->event) != SQLITE_ROW)
        return e;
    e.stack = kt_rows_int_or(&found, 0, 0);
    e.category = kt_rows_int_or(&found, 1, 0);
    e.extra = kt_rows_text(&found, 2);
    return e;
}

static kineto_string find_category(rocpd *p, int64_t id)
{
    uint32_t name = kt_texts_find(&p->categories, id);
    return kineto_trace_string(p->r.m.b->trace, name ? name : kt_texts_find(&p->strings, id));
}

/* The columns that every list begins with; version 4 has only the track. */
#define PLACED "!start", "!end", "event_id", "track_id", "pid", "tid"
enum { START, END, EVENT, TRACK, PID, TID, REST };

/* By the track, or by the columns of the row. */
static rocpd_place read_place(const rocpd *p, const kt_rows *rows)
{
    int64_t track = look_up(&p->tracks, kt_rows_int_or(rows, TRACK, -1), -1);
    if (track >= 0 && (size_t)track < p->places.count)
        return p->places.data[track];
    return (rocpd_place){kt_rows_int_or(rows, PID, -1), kt_rows_int_or(rows, TID, -1), -1, -1, -1};
}

static bool read_times(rocpd *p, const kt_rows *rows, kt_row *row)
{
    bool is_good = kt_rows_int(rows, START, &row->start_ns) && kt_rows_int(rows, END, &row->end_ns);
    p->r.bad += !is_good;
    return is_good;
}

static int64_t process_of(const rocpd *p, const rocpd_place *place)
{
    return look_up(&p->pids, place->pid, KB_MAX(place->pid, 0));
}

static uint32_t thread_of(rocpd *p, const rocpd_place *place)
{
    return kt_import_thread(&p->r.m, process_of(p, place), look_up(&p->tids, place->tid, KB_MAX(place->tid, 0)));
}

/* ---- calls and ranges ------------------------------------------------------------------------- */

/* The text of a marker; else the name of the function. */
static uint32_t name_of_region(rocpd *p, const rocpd_event *e, int64_t name, bool is_marker)
{
    kineto_string message = is_marker ? kt_member_of(e->extra, "message") : (kineto_string){"", 0};
    if (message.size <= 2)
        return kt_texts_find(&p->strings, name);
    char *room = malloc(message.size + 1);
    uint32_t id = kt_string(p->r.m.b, kt_value_text(message, room));
    free(room);
    return id;
}

static void read_regions(rocpd *p)
{
    static const char *const columns[] = {PLACED, "!name_id", NULL};
    kt_rows rows;
    if (open_rows(p, &rows, "rocpd_region", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {0};
            if (!read_times(p, &rows, &row))
                continue;
            rocpd_place place = read_place(p, &rows);
            rocpd_event e = find_event(p, &rows, EVENT);
            kineto_string category = find_category(p, e.category);
            kt_rocm_classify(&p->r, category, &row);
            row.track = thread_of(p, &place);
            row.name = name_of_region(p, &e, kt_rows_int_or(&rows, REST, -1), kt_rocm_is_marker(category));
            row.correlation_id = kt_kind_is_launch(row.kind) ? kt_import_id(&p->r.m, p->scope, (uint64_t)e.stack) : 0;
            kt_append(p->r.m.b, &row);
        }
    kt_rows_close(&rows);
}

static void read_samples(rocpd *p)
{
    static const char *const columns[] = {"!timestamp", "name_id", "event_id", "!track_id", NULL};
    kt_rows rows;
    if (open_rows(p, &rows, "rocpd_sample", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_CPU_INSTANT_EVENT, .form = KINETO_FORM_INSTANT};
            int64_t track = look_up(&p->tracks, kt_rows_int_or(&rows, 3, -1), -1);
            if (!kt_rows_int(&rows, 0, &row.start_ns) || track < 0 || (size_t)track >= p->places.count) {
                p->r.bad++;
                continue;
            }
            rocpd_event e = find_event(p, &rows, 2);
            row.end_ns = row.start_ns;
            row.track = thread_of(p, &p->places.data[track]);
            row.name = name_of_region(p, &e, kt_rows_int_or(&rows, 1, -1), true);
            if (!row.name)
                row.name = kt_string(p->r.m.b, find_category(p, e.category));
            kt_append(p->r.m.b, &row);
        }
    kt_rows_close(&rows);
}

/* ---- work of devices -------------------------------------------------------------------------- */

/* Streams of HIP are known if any work has a number but that of the default stream. */
static void find_streams(rocpd *p)
{
    static const char *const columns[] = {"stream_id", "track_id", NULL};
    kt_rows rows;
    if (open_rows(p, &rows, "rocpd_kernel_dispatch", columns))
        while (!p->has_streams && kt_rows_next(&rows))
            p->has_streams = kt_rows_int_or(&rows, 0, 0) > 0;
    kt_rows_close(&rows);
    for (size_t i = 0; i < p->places.count; i++)
        p->has_streams |= p->places.data[i].agent >= 0 && p->places.data[i].stream > 0;
}

/* Without streams of HIP, kernels of one queue are in order. */
static uint32_t stream_of(rocpd *p, const rocpd_place *place, int64_t agent)
{
    int64_t stream = p->has_streams || place->queue < 0 ? place->stream : place->queue;
    return kt_import_stream_of(&p->r.m, process_of(p, place), look_up(&p->gpus, agent, KB_MAX(agent, 0)),
                               KB_MAX(stream, 0));
}

static void set_place(const kt_rows *rows, rocpd_place *place, int agent, int queue, int stream)
{
    place->agent = kt_rows_int_or(rows, agent, place->agent);
    place->queue = kt_rows_int_or(rows, queue, place->queue);
    place->stream = kt_rows_int_or(rows, stream, place->stream);
}

static uint32_t kernel_name(rocpd *p, int64_t kernel)
{
    uint32_t name = kt_texts_find(&p->kernels, kernel);
    if (!name)
        name = kt_texts_find(&p->raw_kernels, kernel);
    return name ? name : kt_string(p->r.m.b, kb_string("kernel without a name"));
}

static void read_kernels(rocpd *p)
{
    static const char *const columns[] = {PLACED, "agent_id", "queue_id", "stream_id", "!kernel_id", "group_segment_size",
                                          "workgroup_size_x", "workgroup_size_y", "workgroup_size_z", "grid_size_x",
                                          "grid_size_y", "grid_size_z", NULL};
    enum { AGENT = REST, QUEUE, STREAM, KERNEL, SHARED, BLOCK, GRID = BLOCK + 3 };
    kt_rows rows;
    if (open_rows(p, &rows, "rocpd_kernel_dispatch", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_CONCURRENT_KERNEL};
            kt_rocm_launch launch = {.shared = kt_rows_int_or(&rows, SHARED, -1)};
            if (!read_times(p, &rows, &row))
                continue;
            rocpd_place place = read_place(p, &rows);
            set_place(&rows, &place, AGENT, QUEUE, STREAM);
            for (int i = 0; i < 3; i++) {
                launch.grid[i] = kt_rows_int_or(&rows, GRID + i, 0);
                launch.block[i] = kt_rows_int_or(&rows, BLOCK + i, 0);
            }
            row.name = kernel_name(p, kt_rows_int_or(&rows, KERNEL, -1));
            row.track = stream_of(p, &place, place.agent);
            row.correlation_id = kt_import_id(&p->r.m, p->scope, (uint64_t)find_event(p, &rows, EVENT).stack);
            kt_rocm_put_launch(&p->r, &launch);
            if (p->has_streams && place.queue >= 0)
                kt_args_put_int(p->r.m.b, p->r.queue, place.queue);
            kt_append(p->r.m.b, &row);
        }
    kt_rows_close(&rows);
}

/* On the device that receives, or else sends. */
static void read_copies(rocpd *p)
{
    static const char *const columns[] = {PLACED, "dst_agent_id", "src_agent_id", "queue_id", "stream_id", "!name_id", "size", NULL};
    enum { TO = REST, FROM, QUEUE, STREAM, NAME, SIZE };
    kt_rows rows;
    if (open_rows(p, &rows, "rocpd_memory_copy", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {.kind = KINETO_KIND_GPU_MEMCPY};
            int64_t to = kt_rows_int_or(&rows, TO, -1);
            if (!read_times(p, &rows, &row))
                continue;
            rocpd_place place = read_place(p, &rows);
            set_place(&rows, &place, TO, QUEUE, STREAM);
            uint32_t name = kt_texts_find(&p->strings, kt_rows_int_or(&rows, NAME, -1));
            row.name = kt_rocm_copy_name(&p->r, kineto_trace_string(p->r.m.b->trace, name));
            row.track = stream_of(p, &place, look_up(&p->gpus, to, -1) >= 0 ? to : kt_rows_int_or(&rows, FROM, to));
            row.correlation_id = kt_import_id(&p->r.m, p->scope, (uint64_t)find_event(p, &rows, EVENT).stack);
            kt_rocm_put_copy(&p->r, kt_rows_int_or(&rows, SIZE, -1), &row);
            kt_append(p->r.m.b, &row);
        }
    kt_rows_close(&rows);
}

/* Memory of the host, of virtual addresses and of scratch is not counted. */
static void read_memory(rocpd *p)
{
    static const char *const columns[] = {PLACED, "agent_id", "type", "level", "address", "size", NULL};
    enum { AGENT = REST, TYPE, LEVEL, ADDRESS, SIZE };
    kt_rows rows;
    uint64_t others = 0;
    if (open_rows(p, &rows, "rocpd_memory_allocate", columns))
        while (kt_rows_next(&rows)) {
            kt_row row = {0};
            rocpd_place place = read_place(p, &rows);
            int64_t device = look_up(&p->gpus, kt_rows_int_or(&rows, AGENT, place.agent), -1);
            bool is_release = kb_string_is(kt_rows_text(&rows, TYPE), "FREE");
            if (!read_times(p, &rows, &row))
                continue;
            row.track = thread_of(p, &place);
            if (!kb_string_is(kt_rows_text(&rows, LEVEL), "REAL") || (device < 0 && !is_release) ||
                (!is_release && !kb_string_is(kt_rows_text(&rows, TYPE), "ALLOC")))
                others++;
            else if (!kt_rocm_append_memory(&p->r, &row, KB_MAX(device, 0), kt_rows_int_or(&rows, ADDRESS, 0),
                                            is_release ? 0 : kt_rows_int_or(&rows, SIZE, 0), is_release))
                p->unknown_releases++;
        }
    kt_rows_close(&rows);
    kt_import_note(&p->r.m, "allocations that are not memory of a device: not read", others, kb_string(""));
}

/* ---- a set of tables -------------------------------------------------------------------------- */

static void open_texts(rocpd *p)
{
    char table[200];
    kt_builder *b = p->r.m.b;
    kt_texts_open(&p->strings, p->d, b, table_name(p, table, "rocpd_string"), "id", "string");
    kt_texts_open(&p->kernels, p->d, b, table_name(p, table, "rocpd_info_kernel_symbol"), "id", "display_name");
    kt_texts_open(&p->raw_kernels, p->d, b, table_name(p, table, "rocpd_info_kernel_symbol"), "id", "kernel_name");
    kt_texts_open(&p->categories, p->d, b, table_name(p, table, "rocpd_info_category"), "id", "name");
}

static void close_set(rocpd *p)
{
    kt_texts_close(&p->strings);
    kt_texts_close(&p->kernels);
    kt_texts_close(&p->raw_kernels);
    kt_texts_close(&p->categories);
    sqlite3_finalize(p->event);
    p->event = NULL;
    kb_map_free(&p->pids);
    kb_map_free(&p->tids);
    kb_map_free(&p->gpus);
    kb_map_free(&p->tracks);
    kb_map_free(&p->r.allocations);
    kb_vec_free(&p->places);
    p->has_streams = false;
}

static void read_set(rocpd *p)
{
    open_texts(p);
    open_events(p);
    read_processes(p);
    read_agents(p);
    read_tracks(p);
    find_streams(p);
    read_kernels(p);
    read_copies(p);
    read_regions(p);
    read_samples(p);
    read_memory(p);
    close_set(p);
}

/* Tables that only describe: what the trace needs of them has been read. */
static void skip_descriptions(kt_database *d)
{
    for (size_t i = 0; i < d->tables.count; i++) {
        kineto_string name = kb_string(d->tables.data[i].name);
        d->tables.data[i].is_read |= kb_string_starts_with(name, "rocpd_info_") || kb_string_starts_with(name, "rocpd_metadata");
    }
}

static void read_sets(rocpd *p)
{
    kt_rocm_put_header(&p->r, "rocprofv3 (rocpd)");
    for (size_t i = 0; i < p->d->tables.count && !p->d->status; i++) {
        const char *name = p->d->tables.data[i].name;
        if (!kb_string_starts_with(kb_string(name), PREFIX))
            continue;
        p->suffix = name + strlen(PREFIX);
        p->scope = kb_hash(p->suffix, strlen(p->suffix));
        read_set(p);
    }
    skip_descriptions(p->d);
    kt_import_unread_tables(&p->r.m, p->d);
    kt_import_note(&p->r.m, "releases of memory whose allocation is not in the file: not read", p->unknown_releases,
                   kb_string(""));
    kt_import_lost(&p->r.m, "rows with a value that is missing or of a wrong type: left out", p->r.bad, kb_string(""));
}

kineto_status kt_import_rocpd(kt_database *d, const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    rocpd p = {.d = d};
    kineto_status status = kt_rocm_begin(&p.r, source, "rocpd", err);
    if (!status) {
        read_sets(&p);
        status = kt_database_finish(d, &p.r.m, out, err);
    }
    kt_rocm_free(&p.r);
    return status;
}
