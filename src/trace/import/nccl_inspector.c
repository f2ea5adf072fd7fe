/* The log of NCCL's inspector plug-in (NCCL_INSPECTOR_ENABLE): a line of JSON for each collective or point-to-point
 * operation of a rank, as a trace whose kernels are these operations, with the arguments that Kineto gives them.
 *
 * A line has its own header (communicator, rank) and metadata (host, process, time of the dump), or since version 4.3
 * those of the marker before it. Only logs with NCCL_INSPECTOR_DUMP_VERBOSE have times of operations; without them an
 * operation is placed before the one that follows it in its communicator and before the time of its dump.
 *
 * A process has one log, with all communicators in it and with all its ranks of each. Lines are read one by one, so that one
 * that was cut, as the last one of a log that is still written may be, costs no other. The type of elements and the
 * ranks of a communicator are not in a log; what compares ranks matches operations by communicator and number. */
#include "trace/import/activities.h"

#include "trace/bytes/json_value.h"

#define MAX_COMMUNICATORS 65536u

/* A collective or a point-to-point operation. */
typedef struct operation {
    int64_t start_ns, end_ns; /* of one without times: end_ns is that of its dump */
    int64_t length_ns;
    uint64_t sequence, bytes;
    int64_t peer; /* -1: a collective */
    bool has_times, has_length;
    kineto_string name, algorithm, protocol, source; /* of the text of the file */
    kineto_string bus_bandwidth, algorithm_bandwidth;
    uint32_t channels;
} operation;

/* A communicator, as one of its ranks sees it. */
typedef struct communicator {
    kineto_string id; /* of the text of the file */
    int64_t rank, ranks, nodes;
    uint64_t dropped;
    KB_VEC(operation) operations;
} communicator;

/* The whole log, and what the last marker said. */
typedef struct inspector {
    kt_import m;
    KB_VEC(communicator) communicators;
    kb_map by_id; /* hash of id and rank → index */
    uint32_t current; /* of the last header; UINT32_MAX: none */
    int64_t dump_ns, pid;
    kineto_string host, version;
    bool no_memory;
    uint64_t bad_lines, proxies, without_header, without_time, without_length, others;
} inspector;

/* ---- values ----------------------------------------------------------------------------------- */

/* A whole number of an object, also in quotes. */
static int64_t number_of(kineto_string object, const char *key, int64_t otherwise)
{
    int64_t n;
    return kt_value_whole(kt_member_of(object, key), &n) ? n : otherwise;
}

/* The inside of a text; names of NCCL have no escapes. */
static kineto_string text_of(kineto_string object, const char *key)
{
    kineto_string raw = kt_member_of(object, key);
    return kt_json_is_string(raw) ? kt_json_inside(raw) : (kineto_string){"", 0};
}

/* Microseconds as ns; false: none, or too large. */
static bool read_us(kineto_string object, const char *key, int64_t *ns)
{
    kineto_string raw = kt_member_of(object, key);
    return raw.size && kt_json_scaled(raw, 3, ns) && *ns >= 0;
}

/* ---- headers ---------------------------------------------------------------------------------- */

/* A process can have several ranks of one communicator, so that both are the key. UINT32_MAX: too many, or out of memory. */
static uint32_t find_communicator(inspector *n, kineto_string id, int64_t rank)
{
    uint64_t key[] = {kb_hash(id.data, id.size), (uint64_t)rank};
    bool created;
    uint64_t *at = n->communicators.count < MAX_COMMUNICATORS
                       ? kb_map_insert(&n->by_id, kb_hash(key, sizeof key), n->communicators.count, &created)
                       : kb_map_find(&n->by_id, kb_hash(key, sizeof key));
    communicator fresh = {.id = id, .rank = rank};
    if (!at)
        return UINT32_MAX;
    if (*at == n->communicators.count && !kb_vec_push(&n->communicators, fresh)) {
        n->no_memory = true;
        return UINT32_MAX;
    }
    return (uint32_t)*at;
}

/* The communicator and rank of this record and of those that follow without a header. */
static void take_header(inspector *n, kineto_string header)
{
    n->current = find_communicator(n, text_of(header, "id"), number_of(header, "rank", -1));
    if (n->current == UINT32_MAX)
        return;
    communicator *c = &n->communicators.data[n->current];
    c->ranks = number_of(header, "n_ranks", c->ranks);
    c->nodes = number_of(header, "nnodes", c->nodes);
}

/* When and where the record was dumped; the time is wall clock of the host. */
static void take_metadata(inspector *n, kineto_string metadata)
{
    if (!read_us(metadata, "dump_timestamp_us", &n->dump_ns))
        n->dump_ns = 0;
    n->pid = number_of(metadata, "pid", n->pid);
    n->host = text_of(metadata, "hostname");
    n->version = text_of(metadata, "inspector_output_format_version");
}

/* How many operations were overwritten before they were dumped: the sum since the beginning. */
static void take_stats(inspector *n, kineto_string stats)
{
    if (n->current == UINT32_MAX)
        return;
    int64_t dropped = number_of(stats, "coll_dropped_total", 0), p2p = number_of(stats, "p2p_dropped_total", 0);
    uint64_t sum = (uint64_t)KB_MAX(dropped, 0) + (uint64_t)KB_MAX(p2p, 0);
    communicator *c = &n->communicators.data[n->current];
    c->dropped = KB_MAX(c->dropped, sum);
}

/* ---- operations ------------------------------------------------------------------------------- */

/* From the first start of a channel's kernel to the last stop. */
static void read_kernel_times(kineto_string trace, operation *o)
{
    kt_items items = kt_items_of(kt_member_of(trace, "kernel_events"));
    kineto_string item;
    int64_t start, stop;
    while (kt_items_next(&items, &item)) {
        o->channels++;
        if (!read_us(item, "kernel_start_ts", &start) || !read_us(item, "kernel_stop_ts", &stop) || !start || stop < start)
            continue;
        o->start_ns = o->has_times ? KB_MIN(o->start_ns, start) : start;
        o->end_ns = o->has_times ? KB_MAX(o->end_ns, stop) : stop;
        o->has_times = true;
    }
}

/* The members of both kinds of operations differ by their prefix only. */
static operation read_operation(const inspector *n, kineto_string perf, bool is_p2p)
{
    operation o = {.end_ns = n->dump_ns, .peer = -1};
    kineto_string trace = kt_member_of(perf, "event_trace_ts");
    int64_t start;
    o.name = text_of(perf, is_p2p ? "p2p" : "coll");
    o.sequence = (uint64_t)number_of(perf, is_p2p ? "p2p_sn" : "coll_sn", 0);
    o.bytes = (uint64_t)KB_MAX(number_of(perf, is_p2p ? "p2p_msg_size_bytes" : "coll_msg_size_bytes", 0), 0);
    o.has_length = read_us(perf, is_p2p ? "p2p_exec_time_us" : "coll_exec_time_us", &o.length_ns);
    o.source = text_of(perf, is_p2p ? "p2p_timing_source" : "coll_timing_source");
    o.bus_bandwidth = kt_member_of(perf, is_p2p ? "p2p_busbw_gbs" : "coll_busbw_gbs");
    o.algorithm_bandwidth = kt_member_of(perf, is_p2p ? "p2p_algobw_gbs" : "coll_algobw_gbs");
    o.algorithm = text_of(perf, "coll_algo");
    o.protocol = text_of(perf, "coll_proto");
    if (is_p2p)
        o.peer = number_of(perf, "p2p_peer", number_of(perf, "peer", -1));
    read_kernel_times(trace, &o);
    if (!o.has_times && read_us(trace, is_p2p ? "p2p_start_ts" : "coll_start_ts", &start) && start > 0 &&
        !__builtin_add_overflow(start, o.length_ns, &o.end_ns)) {
        o.start_ns = start;
        o.has_times = true;
    }
    return o;
}

/* Operations are kept until all of a communicator are known: those without times are placed from the last one on. */
static void add_operation(inspector *n, kineto_string perf, bool is_p2p)
{
    if (n->current == UINT32_MAX) {
        n->without_header++;
        return;
    }
    operation o = read_operation(n, perf, is_p2p);
    n->without_length += !o.has_length;
    n->no_memory |= !kb_vec_push(&n->communicators.data[n->current].operations, o);
}

/* A record may be an operation, or a marker with what the operations after it have in common. */
static void read_log_record(inspector *n, kineto_string record)
{
    kineto_string header = kt_member_of(record, "header"), metadata = kt_member_of(record, "metadata");
    kineto_string coll = kt_member_of(record, "coll_perf"), p2p = kt_member_of(record, "p2p_perf");
    kineto_string stats = kt_member_of(record, "dump_stats");
    if (header.size)
        take_header(n, header);
    if (metadata.size)
        take_metadata(n, metadata);
    if (stats.size)
        take_stats(n, stats);
    if (coll.size)
        add_operation(n, coll, false);
    if (p2p.size)
        add_operation(n, p2p, true);
    bool is_proxy = kt_member_of(record, "proxy_trace").size || kt_member_of(record, "record_type").size;
    n->proxies += is_proxy;
    n->others += !is_proxy && !coll.size && !p2p.size && !stats.size;
}

/* Objects one after the other; after what is none, reading goes on with the next line. */
static void read_log_records(inspector *n, kineto_string text)
{
    while (text.size && !n->no_memory) {
        kt_scan s = kt_scan_of(text);
        kineto_string record;
        if (!kt_scan_peek(&s))
            return;
        if (kt_scan_value(&s, &record)) {
            text = kb_string_skip(text, (size_t)(s.at - text.data));
            if (record.data[0] == '{')
                read_log_record(n, record);
            else
                n->bad_lines++;
            continue;
        }
        n->bad_lines++;
        const char *end = memchr(text.data + 1, '\n', text.size - 1);
        text = end ? kb_string_skip(text, (size_t)(end - text.data)) : (kineto_string){"", 0};
    }
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* Without times: an operation ends when the next one begins, or at its dump. */
static void place_operations(inspector *n, communicator *c)
{
    int64_t next_ns = INT64_MAX;
    for (size_t i = c->operations.count; i-- > 0;) {
        operation *o = &c->operations.data[i];
        if (!o->has_times) {
            o->end_ns = KB_MIN(o->end_ns, next_ns);
            if (__builtin_sub_overflow(o->end_ns, o->length_ns, &o->start_ns))
                o->start_ns = o->end_ns;
            n->without_time++;
        }
        next_ns = o->start_ns;
    }
}

/* As PyTorch calls it. */
static kineto_string name_of_collective(kineto_string name)
{
    static const char *const names[][2] = {{"AllReduce", "allreduce"}, {"AllGather", "allgather"},
                                           {"ReduceScatter", "reduce_scatter"}, {"Broadcast", "broadcast"},
                                           {"Reduce", "reduce"}, {"Send", "send"}, {"Recv", "recv"},
                                           {"AlltoAll", "alltoall"}, {"Gather", "gather"}, {"Scatter", "scatter"}};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (kb_string_is(name, names[i][0]))
            return kb_string(names[i][1]);
    return name;
}

/* Texts repeat in all operations of a communicator, and are stored once. */
static void stage_text(kt_builder *b, const char *key, kineto_string text)
{
    if (text.size)
        kt_args_put_shared(b, kt_string(b, kb_string(key)), KINETO_ARG_STRING, kt_string(b, text));
}

/* One argument of the next row. */
static void stage_number(kt_builder *b, const char *key, int64_t n)
{
    kt_args_put_int(b, kt_string(b, kb_string(key)), n);
}

/* A fraction; what is no number is left out. */
static void stage_real(kt_builder *b, const char *key, kineto_string raw)
{
    double value;
    if (raw.size && kt_value_number(raw, &value))
        kt_args_put_double(b, kt_string(b, kb_string(key)), value);
}

/* The type of the elements is not in the log: sizes are those of bytes. */
static void stage_operation(inspector *n, const communicator *c, const operation *o)
{
    kt_builder *b = n->m.b;
    int64_t bytes = (int64_t)KB_MIN(o->bytes, (uint64_t)INT64_MAX);
    stage_text(b, "Collective name", name_of_collective(o->name));
    stage_number(b, "In msg nelems", bytes);
    stage_number(b, "Out msg nelems", bytes);
    stage_text(b, "dtype", kb_string("Byte"));
    stage_text(b, "Process Group Name", c->id);
    stage_number(b, "Group size", c->ranks);
    stage_number(b, "Seq", (int64_t)KB_MIN(o->sequence, (uint64_t)INT64_MAX));
    if (o->peer >= 0) {
        bool is_send = kb_string_starts_with(o->name, "Send");
        stage_number(b, "Src Rank", is_send ? c->rank : o->peer);
        stage_number(b, "Dst Rank", is_send ? o->peer : c->rank);
    }
    stage_text(b, "Algorithm", o->algorithm);
    stage_text(b, "Protocol", o->protocol);
    stage_real(b, "Algorithm bandwidth [GB/s]", o->algorithm_bandwidth);
    stage_real(b, "Bus bandwidth [GB/s]", o->bus_bandwidth);
    stage_text(b, "Timing source", o->source);
    if (o->channels)
        stage_number(b, "Channels", o->channels);
    if (o->has_times && o->has_length && o->end_ns - o->start_ns != o->length_ns)
        stage_number(b, "Execution time [us]", o->length_ns / 1000);
    if (!o->has_times)
        stage_text(b, "Time", kb_string("not recorded: before the dump"));
}

/* The rows of one communicator. Streams count from 7 on, as those of PyTorch's collectives often do. */
static void append_operations(inspector *n, const communicator *c, uint32_t index)
{
    enum { FIRST_STREAM = 7 };
    char name[120];
    uint32_t track = kt_import_stream(&n->m, 0, FIRST_STREAM + (int64_t)index);
    kb_snprintf(name, sizeof name, "communicator %.*s", (int)KB_MIN(c->id.size, (size_t)80), c->id.data);
    kt_track_set(n->m.b, track, kb_string(name), 0);
    for (size_t i = 0; i < c->operations.count; i++) {
        const operation *o = &c->operations.data[i];
        kb_snprintf(name, sizeof name, "nccl:%.*s", (int)KB_MIN(o->name.size, (size_t)80), o->name.data);
        kt_row row = {.start_ns = o->start_ns, .end_ns = KB_MAX(o->end_ns, o->start_ns), .track = track,
                      .kind = KINETO_KIND_CONCURRENT_KERNEL, .form = KINETO_FORM_SLICE,
                      .name = kt_string(n->m.b, kb_string(name))};
        stage_operation(n, c, o);
        (void)kt_append(n->m.b, &row);
    }
}

/* The rank in the world is that in the largest communicator. */
static void put_distributed(inspector *n)
{
    const communicator *largest = NULL;
    kb_sink *sink = NULL;
    kineto_error unused;
    char *text = NULL;
    size_t size = 0;
    kb_json j;
    for (size_t i = 0; i < n->communicators.count; i++)
        if (!largest || n->communicators.data[i].ranks > largest->ranks)
            largest = &n->communicators.data[i];
    if (!largest || kb_sink_open_memory(KB_COMPRESS_NONE, &sink, &unused))
        return;
    kb_json_init(&j, sink);
    kb_json_object_begin(&j);
    kb_json_put_string(&j, "backend", kb_string("nccl"));
    kb_json_put_int(&j, "rank", largest->rank);
    kb_json_put_int(&j, "world_size", largest->ranks);
    kb_json_key_z(&j, "pg_config");
    kb_json_array_begin(&j);
    for (size_t i = 0; i < n->communicators.count; i++) {
        kb_json_object_begin(&j);
        kb_json_put_string(&j, "pg_name", n->communicators.data[i].id);
        kb_json_put_int(&j, "pg_size", n->communicators.data[i].ranks);
        kb_json_object_end(&j);
    }
    kb_json_array_end(&j);
    kb_json_object_end(&j);
    if (!kb_sink_take(sink, &text, &size, &unused))
        kt_metadata(n->m.b, kb_string("distributedInfo"), (kineto_string){text, size});
    kb_sink_abort(sink);
    free(text);
    kineto_process p = {.rank = (int32_t)KB_MIN(largest->rank, INT32_MAX), .host = n->host, .name = kb_string("NCCL")};
    kt_process_set(n->m.b, kt_process(n->m.b, true, 0, 0), &p);
}

/* One line for each thing that the trace lacks, or that had to be assumed. */
static void fill_ledger(inspector *n)
{
    kineto_string none = {"", 0};
    uint64_t dropped = 0;
    for (size_t i = 0; i < n->communicators.count; i++)
        dropped += n->communicators.data[i].dropped;
    kt_import_lost(&n->m, "operations overwritten before they were dumped", dropped, none);
    kt_import_lost(&n->m, "records of proxies not read", n->proxies, none);
    kt_import_lost(&n->m, "lines that are no record", n->bad_lines, none);
    kt_import_lost(&n->m, "operations without a header", n->without_header, none);
    kt_import_note(&n->m, "records without an operation", n->others, none);
    kt_import_note(&n->m, "operations without a time of execution: length 0", n->without_length, none);
    kt_import_note(&n->m, "operations without times: placed before their dump, in their order", n->without_time,
                   kb_string("NCCL_INSPECTOR_DUMP_VERBOSE=1 records times"));
}

/* Logs of all versions have one of these keys in their first record. */
bool kt_is_nccl_inspector(kineto_string head)
{
    return !kb_string_contains(head, "\"traceEvents\"") &&
           (kb_string_contains(head, "\"inspector_output_format_version\"") ||
            (kb_string_contains(head, "\"coll_perf\"") && kb_string_contains(head, "\"coll_sn\"")));
}

/* After the whole log was read. */
static kineto_status make_rows(inspector *n, kineto_trace **out, kineto_error *err)
{
    for (uint32_t i = 0; i < n->communicators.count; i++) {
        place_operations(n, &n->communicators.data[i]);
        append_operations(n, &n->communicators.data[i], i);
    }
    put_distributed(n);
    if (n->version.size)
        kt_import_header(&n->m, "inspector_output_format_version", n->version);
    fill_ledger(n);
    return n->no_memory ? kb_fail_memory(err, "log of NCCL's inspector") : kt_import_finish(&n->m, out, err);
}

/* Lines that are no record are skipped, so that a log that is still written can be read. */
kineto_status kt_import_nccl_inspector(const kt_import_source *source, kineto_trace **out, kineto_error *err)
{
    inspector n = {.current = UINT32_MAX};
    kineto_status status = kt_import_begin(&n.m, source, "NCCL inspector", err);
    if (!status) {
        read_log_records(&n, source->bytes);
        status = make_rows(&n, out, err);
    }
    for (size_t i = 0; i < n.communicators.count; i++)
        kb_vec_free(&n.communicators.data[i].operations);
    kb_vec_free(&n.communicators);
    kb_map_free(&n.by_id);
    kt_import_free(&n.m);
    return status;
}
