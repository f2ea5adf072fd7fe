/* Dumps of PyTorch's flight recorder (TORCH_NCCL_TRACE_BUFFER_SIZE, torch._C._distributed_c10d._dump_nccl_trace): the last
 * collectives of a rank with group, sequence number, sizes and state. A dump becomes the text of a trace whose kernels are
 * these collectives, with the arguments that Kineto gives them, and is read as such: all that compares ranks works on it.
 *
 * The rank is in the name of the file only. Times are those at which a collective was enqueued, started and completed as
 * far as the recorder knows. */
#include "trace/import/import.h"
#include "trace/import/pickle.h"

#include "trace/bytes/json_text.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAX_GROUPS 4096u
#define RECORDER   "PyTorch flight recorder"

/* Members of an object, by the order of a list of keys; empty where it has none. */
static bool read_members(kineto_string object, const char *const *keys, kineto_string *values, size_t count)
{
    kt_scan s = kt_scan_of(object);
    kineto_string key, value;
    bool first = true;
    memset(values, 0, count * sizeof *values);
    if (!kt_scan_open(&s, '{'))
        return false;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value))
        for (size_t i = 0; i < count; i++)
            if (kt_json_is_key(key, keys[i]))
                values[i] = value;
    return !s.problem;
}

/* The n-th item of a list; empty: there is none. */
static kineto_string read_item(kineto_string list, size_t n)
{
    kt_scan s = kt_scan_of(list);
    kineto_string value;
    bool first = true;
    if (kt_scan_peek(&s) == '[' && kt_scan_open(&s, '['))
        while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &value))
            if (n-- == 0)
                return value;
    return (kineto_string){"", 0};
}

static kineto_string inside_of(kineto_string raw)
{
    return kt_json_is_string(raw) ? kt_json_inside(raw) : (kineto_string){"", 0};
}

static int64_t read_dump_number(kineto_string raw, int64_t otherwise)
{
    int64_t n;
    return kt_json_int(raw, &n) ? n : otherwise;
}

/* ---- groups ----------------------------------------------------------------------------------- */

typedef struct process_group {
    kineto_string name, description, ranks; /* ranks: "[0, 1]" */
    uint32_t size;
} process_group;

typedef struct dump {
    KB_VEC(process_group) groups;
    uint32_t world_size;
    uint64_t coalesced, with_frames; /* entries that are left out, and those that have a stack */
    kb_sink *sink;
    kb_json j;
    bool no_memory;
} dump;

/* Members of "[0, 1, 2]", as a list or a text: one more than there are commas, and none in "[]". */
static uint32_t count_commas(kineto_string list)
{
    uint32_t items = 0;
    for (size_t i = 0; i < list.size; i++)
        items += list.data[i] == ',';
    return items + (list.size > 2);
}

/* Keys of pg_config are names of groups. */
static bool read_groups(dump *d, kineto_string config)
{
    static const char *const keys[] = {"name", "desc", "ranks"};
    kt_scan s = kt_scan_of(config);
    kineto_string key, value, member[KB_COUNT(keys)];
    bool first = true;
    if (!config.size)
        return true;
    if (!kt_scan_open(&s, '{'))
        return false;
    while (kt_scan_more(&s, &first, '{') && kt_scan_key(&s, &key) && kt_scan_value(&s, &value)) {
        if (d->groups.count == MAX_GROUPS || !read_members(value, keys, member, KB_COUNT(keys)))
            return false;
        process_group g = {.name = key, .description = inside_of(member[1])};
        g.ranks = kt_json_is_string(member[2]) ? inside_of(member[2]) : member[2];
        g.size = count_commas(g.ranks);
        d->world_size = KB_MAX(d->world_size, g.size);
        d->no_memory |= !kb_vec_push(&d->groups, g);
    }
    return !s.problem;
}

/* The group of pg_config with this name; NULL: entries may be of groups that the dump does not list. */
static const process_group *find_group(const dump *d, kineto_string name)
{
    for (size_t i = 0; i < d->groups.count; i++)
        if (kb_string_equal(d->groups.data[i].name, name))
            return &d->groups.data[i];
    return NULL;
}

/* A rank of the group (0 … size - 1) in the world: entries of messages count ranks within their group. */
static int64_t read_world_rank(const process_group *g, int64_t rank)
{
    kineto_string found = g && rank >= 0 ? read_item(g->ranks, (size_t)rank) : (kineto_string){"", 0};
    return found.size ? read_dump_number(found, rank) : rank;
}

/* ---- entries ---------------------------------------------------------------------------------- */

enum { NAME, GROUP, SEQUENCE, P2P_SEQUENCE, IN_SIZES, OUT_SIZES, IN_TYPES, STATE, CREATED, STARTED, COMPLETED, IS_P2P, RECORD, FRAMES, KEYS };
static const char *const entry_keys[KEYS] = {
    "profiling_name", "process_group", "collective_seq_id", "p2p_seq_id", "input_sizes", "output_sizes", "input_dtypes", "state",
    "time_created_ns", "time_discovered_started_ns", "time_discovered_completed_ns", "is_p2p", "record_id", "frames"};

/* Elements of a tensor of the shape "[64, 1000]"; 1 of "[]", INT64_MAX if that is more than a number holds. */
static int64_t multiply_dims(kineto_string shape)
{
    kt_scan s = kt_scan_of(shape);
    kineto_string dim;
    int64_t elements = 1;
    bool first = true;
    if (kt_scan_peek(&s) != '[' || !kt_scan_open(&s, '['))
        return elements;
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &dim))
        if (__builtin_mul_overflow(elements, KB_MAX(read_dump_number(dim, 1), 0), &elements))
            return INT64_MAX;
    return elements;
}

/* Elements of all tensors of a list of sizes, as "[[1024, 8], [8]]"; INT64_MAX: more than that. */
static int64_t count_dump_elements(kineto_string sizes)
{
    kt_scan s = kt_scan_of(sizes);
    kineto_string shape;
    int64_t all = 0;
    bool first = true;
    if (kt_scan_peek(&s) != '[' || !kt_scan_open(&s, '['))
        return 0;
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &shape))
        if (__builtin_add_overflow(all, multiply_dims(shape), &all))
            return INT64_MAX;
    return all;
}

/* "nccl:send 0->1", "nccl:recv 1<-0": the peers, as ranks of the world. */
static void put_peers(dump *d, kineto_string name, const process_group *g)
{
    int from, to;
    char text[80];
    kb_snprintf(text, sizeof text, "%.*s", (int)KB_MIN(name.size, sizeof text - 1), name.data);
    const char *numbers = strchr(text, ' ');
    if (!numbers || (sscanf(numbers, " %d->%d", &from, &to) != 2 && sscanf(numbers, " %d<-%d", &to, &from) != 2))
        return;
    kb_json_put_int(&d->j, "Src Rank", read_world_rank(g, from));
    kb_json_put_int(&d->j, "Dst Rank", read_world_rank(g, to));
}

/* The arguments that Kineto gives a kernel of NCCL (record_param_comms), from the fields of the entry: "process_group"
 * is [name, description]; messages count in "p2p_seq_id", collectives in "collective_seq_id". "State" and "Record" are
 * the recorder's: "scheduled", "started" or "completed", and the number of the entry. */
static void put_arguments(dump *d, const kineto_string *e, kineto_string name, const process_group *g)
{
    bool is_p2p = e[IS_P2P].size && e[IS_P2P].data[0] == 't';
    kineto_string op = name;
    const char *space = memchr(op.data, ' ', op.size);
    op.size = space ? (size_t)(space - op.data) : op.size;
    kb_json_put_string(&d->j, "Collective name", op);
    kb_json_put_int(&d->j, "In msg nelems", count_dump_elements(e[IN_SIZES]));
    kb_json_put_int(&d->j, "Out msg nelems", count_dump_elements(e[OUT_SIZES]));
    kb_json_put_string(&d->j, "dtype", inside_of(read_item(e[IN_TYPES], 0)));
    kb_json_put_string(&d->j, "Process Group Name", inside_of(read_item(e[GROUP], 0)));
    kb_json_put_string(&d->j, "Process Group Description", inside_of(read_item(e[GROUP], 1)));
    if (g) {
        kb_json_put_uint(&d->j, "Group size", g->size);
        kb_json_put_string(&d->j, "Process Group Ranks", g->ranks);
    }
    kb_json_put_int(&d->j, "Seq", read_dump_number(e[is_p2p ? P2P_SEQUENCE : SEQUENCE], 0));
    if (is_p2p)
        put_peers(d, name, g);
    kb_json_put_string(&d->j, "State", inside_of(e[STATE]));
    kb_json_put_int(&d->j, "Record", read_dump_number(e[RECORD], 0));
}

/* One entry as a complete event ("X") of a kernel. Times are those of the entry; of one that did not start, the time at
 * which it was enqueued, without a length. Each group has a stream of its own (7 and its index); entries of groups that
 * the dump does not list share stream 7. */
static void put_entry(dump *d, const kineto_string *e)
{
    kineto_string whole = inside_of(e[NAME]), name = whole;
    const char *colon = memrchr(whole.data, ':', whole.size);
    if (colon)
        name = (kineto_string){colon + 1, whole.size - (size_t)(colon + 1 - whole.data)};
    const process_group *g = find_group(d, inside_of(read_item(e[GROUP], 0)));
    int64_t created_ns = read_dump_number(e[CREATED], 0), start_ns = read_dump_number(e[STARTED], created_ns);
    int64_t end_ns = KB_MAX(read_dump_number(e[COMPLETED], start_ns), start_ns);
    char kernel[120];
    kb_snprintf(kernel, sizeof kernel, "nccl:%.*s", (int)KB_MIN(name.size, (size_t)80), name.data);
    kb_json_newline(&d->j);
    kb_json_object_begin(&d->j);
    kb_json_put_string(&d->j, "ph", kb_string("X"));
    kb_json_put_string(&d->j, "cat", kb_string("kernel"));
    kb_json_put_string(&d->j, "name", kb_string(kernel));
    kb_json_put_int(&d->j, "pid", 0);
    kb_json_put_int(&d->j, "tid", g ? 7 + (g - d->groups.data) : 7);
    kb_json_put_us(&d->j, "ts", start_ns);
    kb_json_put_us(&d->j, "dur", end_ns - start_ns);
    kb_json_key_z(&d->j, "args");
    kb_json_object_begin(&d->j);
    put_arguments(d, e, name, g);
    kb_json_put_int(&d->j, "device", 0);
    kb_json_put_int(&d->j, "stream", g ? 7 + (g - d->groups.data) : 7);
    kb_json_object_end(&d->j);
    kb_json_object_end(&d->j);
}

/* "coalesced" ends a batch, whose members have entries of their own. */
static bool put_entries(dump *d, kineto_string entries)
{
    kt_scan s = kt_scan_of(entries);
    kineto_string value, e[KEYS];
    bool first = true;
    if (!kt_scan_open(&s, '['))
        return false;
    while (kt_scan_more(&s, &first, '[') && kt_scan_value(&s, &value)) {
        if (!read_members(value, entry_keys, e, KEYS))
            return false;
        bool is_batch = kb_string_contains(inside_of(e[NAME]), ":coalesced");
        d->coalesced += is_batch;
        d->with_frames += e[FRAMES].size > 2;
        if (!is_batch)
            put_entry(d, e);
    }
    return !s.problem;
}

static void put_ledger_line(dump *d, const char *reason, uint64_t count)
{
    if (!count)
        return;
    kb_json_object_begin(&d->j);
    kb_json_put_string(&d->j, "source", kb_string("flight recorder"));
    kb_json_put_string(&d->j, "reason", kb_string(reason));
    kb_json_put_uint(&d->j, "count", count);
    kb_json_object_end(&d->j);
}

/* What the trace does not have. */
static void put_ledger(dump *d)
{
    kb_json_key_z(&d->j, "ckineto");
    kb_json_object_begin(&d->j);
    kb_json_key_z(&d->j, "ledger");
    kb_json_array_begin(&d->j);
    put_ledger_line(d, "entries of batches, whose members have entries of their own: left out", d->coalesced);
    put_ledger_line(d, "stacks of entries (frames): not kept", d->with_frames);
    kb_json_array_end(&d->j);
    kb_json_object_end(&d->j);
}

/* What the header of a trace of Kineto says of the job, as far as a dump knows it: groups, and at least as many
 * ranks. */
static void put_header(dump *d)
{
    kb_json_put_string(&d->j, "recorder", kb_string(RECORDER));
    kb_json_key_z(&d->j, "distributedInfo");
    kb_json_object_begin(&d->j);
    kb_json_put_string(&d->j, "backend", kb_string("nccl"));
    kb_json_put_uint(&d->j, "world_size", d->world_size);
    kb_json_key_z(&d->j, "pg_config");
    kb_json_array_begin(&d->j);
    for (size_t i = 0; i < d->groups.count; i++) {
        const process_group *g = &d->groups.data[i];
        kb_json_object_begin(&d->j);
        kb_json_put_string(&d->j, "pg_name", g->name);
        kb_json_put_string(&d->j, "pg_desc", g->description);
        kb_json_put_uint(&d->j, "pg_size", g->size);
        kb_json_object_end(&d->j);
    }
    kb_json_array_end(&d->j);
    kb_json_object_end(&d->j);
}

/* ---- the file --------------------------------------------------------------------------------- */

/* The text as a file in memory, which the trace keeps mapped. */
static kineto_status open_text(const char *text, size_t size, kineto_trace **out, kineto_error *err)
{
    char path[40];
    int file = memfd_create("ckineto-flight-recorder", MFD_CLOEXEC);
    size_t written = 0;
    while (file >= 0 && written < size) {
        ssize_t more = write(file, text + written, size - written);
        if (more <= 0 && errno != EINTR)
            break;
        written += more > 0 ? (size_t)more : 0;
    }
    if (file < 0 || written < size) {
        int why = errno;
        if (file >= 0)
            close(file);
        return kb_fail_os(err, why, "cannot keep the text of a flight recorder dump");
    }
    kb_snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    kineto_status status = kineto_trace_open(path, out, err);
    close(file);
    return status;
}

static kineto_status convert_dump(dump *d, kineto_string text, kineto_trace **out, kineto_error *err)
{
    static const char *const keys[] = {"entries", "pg_config"};
    kineto_string member[KB_COUNT(keys)];
    char *made = NULL;
    size_t size;
    kb_json_object_begin(&d->j);
    bool ok = read_members(text, keys, member, KB_COUNT(keys)) && read_groups(d, member[1]);
    put_header(d);
    kb_json_key_z(&d->j, "traceEvents");
    kb_json_array_begin(&d->j);
    ok = ok && put_entries(d, member[0]);
    kb_json_array_end(&d->j);
    put_ledger(d);
    kb_json_object_end(&d->j);
    if (d->no_memory)
        return kb_fail_memory(err, "read a flight recorder dump");
    if (!ok)
        return kb_fail(err, KINETO_E_FORMAT, "not a dump of the flight recorder: entries or pg_config are not as PyTorch writes them");
    kineto_status status = kb_sink_take(d->sink, &made, &size, err);
    if (!status)
        status = open_text(made, size, out, err);
    free(made);
    return status;
}

bool kt_is_of_flight_recorder(const kineto_trace *trace)
{
    kineto_string key, value;
    for (uint32_t i = 0; i < kineto_trace_metadata_count(trace); i++) {
        kineto_trace_metadata(trace, i, &key, &value);
        if (kb_string_equal(key, kb_string("recorder")))
            return kb_string_equal(inside_of(value), kb_string(RECORDER));
    }
    return false;
}

bool kt_is_flight_recorder_pickle(kineto_string head) { return kt_is_pickle(head); }

/* By the keys near the begin of the file: those of a dump, without those of a trace. */
bool kt_is_flight_recorder_json(kineto_string head)
{
    return !kb_string_contains(head, "\"traceEvents\"") && kb_string_contains(head, "\"entries\"") &&
           (kb_string_contains(head, "\"collective_seq_id\"") || kb_string_contains(head, "\"pg_config\""));
}

kineto_status kt_import_flight_recorder(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    kineto_string bytes = source->bytes;
    dump d = {0};
    char *json = NULL;
    size_t size = 0;
    kineto_status status = KINETO_OK;
    if (kt_is_pickle(bytes)) {
        status = kt_pickle_to_json(bytes, &json, &size, err);
        bytes = (kineto_string){json, size};
    }
    if (!status)
        status = kb_sink_open_memory(KB_COMPRESS_NONE, &d.sink, err);
    if (!status) {
        kb_json_init(&d.j, d.sink);
        status = convert_dump(&d, bytes, out, err);
        kb_sink_abort(d.sink);
    }
    kb_vec_free(&d.groups);
    free(json);
    return status;
}
