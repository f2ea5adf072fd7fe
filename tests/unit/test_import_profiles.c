/* Profiles of XLA (xplane.pb) and logs of NCCL's inspector, written here; and damaged ones. */
#include "trace/trace.h"

#include "../helpers/wire_write.h"
#include "unit.h"

static char directory[200], file[256];
static ww w;

/* One file, written again by each test. */
static int setup(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/profile", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(directory);
}

/* The reader takes a file, so that the bytes become one. */
static kineto_status open_bytes(const void *data, size_t size, kineto_trace **t, kineto_error *err)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    return kineto_trace_open(file, t, err);
}

/* The file has to be readable. */
static kineto_trace *open_well(const void *data, size_t size)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    if (open_bytes(data, size, &t, &err))
        fail_msg("%s", err.message);
    return t;
}

/* The first activity of this name, which has to be there. */
static kineto_row find_named(const kineto_trace *t, const char *name, kineto_activity *a)
{
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_trace_get(t, row, a);
        if (kb_string_is(a->name, name))
            return row;
    }
    fail_msg("no activity %s", name);
    return KINETO_NO_ROW;
}

/* The sum of the lines whose reason has this part. */
static uint64_t count_in_ledger(const kineto_trace *t, const char *part)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        count += kb_string_contains(line.reason, part) ? line.count : 0;
    }
    return count;
}

/* ---- XLA -------------------------------------------------------------------------------------- */

#define START INT64_C(1700000000000000000)

/* An entry of a map of types or of stats, with its name. */
static void put_entry(uint32_t field, uint64_t id, const char *name)
{
    size_t entry = ww_open(&w, field), value;
    ww_uint(&w, 1, id);
    value = ww_open(&w, 2);
    ww_uint(&w, 1, id);
    ww_text(&w, 2, name);
    ww_close(&w, value);
    ww_close(&w, entry);
}

/* A whole number; only its type has a name. */
static void put_stat(uint32_t field, uint64_t id, uint64_t value)
{
    size_t stat = ww_open(&w, field);
    ww_uint(&w, 1, id);
    ww_uint(&w, 4, value);
    ww_close(&w, stat);
}

/* An event, which the caller may extend by stats. */
static size_t open_xevent(uint64_t type, uint64_t offset_ps, uint64_t duration_ps)
{
    size_t event = ww_open(&w, 4);
    ww_uint(&w, 1, type);
    ww_uint(&w, 2, offset_ps);
    ww_uint(&w, 3, duration_ps);
    return event;
}

/* A line of a plane; its events follow. */
static size_t open_line(uint64_t id, const char *name, uint64_t time_ns)
{
    size_t line = ww_open(&w, 3);
    ww_uint(&w, 1, id);
    ww_text(&w, 2, name);
    ww_uint(&w, 3, time_ns);
    return line;
}

/* A launch that also produces, a consumer of it, an aggregated event, and a function of Python. */
static void write_host_plane(void)
{
    size_t plane = ww_open(&w, 1), line, event;
    ww_text(&w, 2, "/host:CPU");
    line = open_line(42, "main", 500);
    event = open_xevent(1, 1999, 3001); /* 1.999 ns to 5.000 ns */
    put_stat(4, 1, 8);                  /* correlation_id */
    put_stat(4, 2, 3);                  /* _pt */
    put_stat(4, 3, 99);                 /* _p */
    ww_close(&w, event);
    event = open_xevent(2, 9000, 0);
    put_stat(4, 4, 3);
    put_stat(4, 5, 99);
    ww_close(&w, event);
    event = ww_open(&w, 4); /* aggregated */
    ww_uint(&w, 1, 2);
    ww_uint(&w, 5, 10);
    ww_close(&w, event);
    event = open_xevent(3, 10000, 5000);
    ww_close(&w, event);
    ww_close(&w, line);
    put_entry(4, 1, "cuLaunchKernel");
    put_entry(4, 2, "consumer");
    put_entry(4, 3, "$train.py:12 step");
    put_entry(5, 1, "correlation_id");
    put_entry(5, 2, "_pt");
    put_entry(5, 3, "_p");
    put_entry(5, 4, "_ct");
    put_entry(5, 5, "_c");
    put_entry(5, 6, "process_id");
    put_stat(6, 6, 77);
    ww_close(&w, plane);
}

/* A stream with two pieces of work, and a list that repeats them. */
static void write_device_plane(void)
{
    size_t plane = ww_open(&w, 1), line, event;
    ww_text(&w, 2, "/device:GPU:1");
    line = open_line(13, "Stream #13(Compute)", 500);
    event = open_xevent(1, 20000, 7000);
    put_stat(4, 1, 8);
    ww_close(&w, event);
    event = open_xevent(2, 30000, 1000);
    ww_close(&w, event);
    ww_close(&w, line);
    line = open_line(2, "XLA Modules", 500);
    event = open_xevent(3, 20000, 9000);
    ww_close(&w, event);
    ww_close(&w, line);
    put_entry(4, 1, "fusion.7");
    put_entry(4, 2, "MemcpyD2H");
    put_entry(4, 3, "jit_step");
    put_entry(5, 1, "correlation_id");
    ww_close(&w, plane);
}

/* The time of day is in a plane of its own, at the end. */
static void write_space(void)
{
    w.size = 0;
    write_host_plane();
    write_device_plane();
    size_t plane = ww_open(&w, 1);
    ww_text(&w, 2, "Task Environment");
    put_entry(5, 1, "profile_start_time");
    put_stat(6, 1, (uint64_t)START);
    ww_close(&w, plane);
    ww_text(&w, 4, "host7");
}

/* Times are rounded down; kinds, links and identities follow from names and stats. */
static void test_xla(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_track track;
    kineto_process process;
    write_space();
    kineto_trace *t = open_well(w.data, w.size);
    assert_int_equal(kineto_trace_count(t), 6);
    kineto_row launch = find_named(t, "cuLaunchKernel", &a);
    assert_int_equal(a.start_ns, START + 501); /* rounded down */
    assert_int_equal(a.end_ns, START + 505);
    assert_int_equal(a.kind, KINETO_KIND_DRIVER);
    find_named(t, "consumer", &a);
    assert_int_equal(a.form, KINETO_FORM_INSTANT);
    find_named(t, "$train.py:12 step", &a);
    assert_int_equal(a.kind, KINETO_KIND_PYTHON_FUNCTION);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &process);
    assert_true(process.pid == 77 && kb_string_is(process.host, "host7") && track.id == 42);
    kineto_row kernel = find_named(t, "fusion.7", &a);
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(kineto_trace_launch(t, kernel), launch);
    kineto_trace_track(t, a.track, &track);
    kineto_trace_process(t, track.process, &process);
    assert_true(process.is_device && process.pid == 1 && track.type == KINETO_TRACK_STREAM);
    find_named(t, "MemcpyD2H", &a);
    assert_int_equal(a.kind, KINETO_KIND_GPU_MEMCPY);
    find_named(t, "jit_step", &a);
    assert_int_equal(a.kind, KINETO_KIND_GPU_USER_ANNOTATION);
    assert_int_equal(kineto_trace_flow_count(t), 2); /* the launch, and the producer with its consumer */
    assert_int_equal(count_in_ledger(t, "aggregated events"), 1);
    kineto_trace_release(t);
}

/* ---- NCCL's inspector ------------------------------------------------------------------------- */

#define HEADER "\"header\":{\"id\":\"0xab\",\"rank\":1,\"n_ranks\":4,\"nnodes\":1},"
#define METADATA                                                                                        \
    "\"metadata\":{\"inspector_output_format_version\":\"v4.0\",\"dump_timestamp_us\":1700000000000500," \
    "\"hostname\":\"h\",\"pid\":7}"
#define TIMES                                                                                                     \
    ",\"event_trace_ts\":{\"coll_start_ts\":1700000000000900,\"coll_stop_ts\":1700000000000901,\"kernel_events\":[" \
    "{\"channel_id\":0,\"kernel_start_ts\":1700000000001000,\"kernel_stop_ts\":1700000000001100},"                \
    "{\"channel_id\":1,\"kernel_start_ts\":1700000000001010,\"kernel_stop_ts\":1700000000001120}]}"

static const char log_of_rank[] =
    "{" HEADER METADATA ",\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":5,\"coll_msg_size_bytes\":4096,"
    "\"coll_exec_time_us\":100,\"coll_busbw_gbs\":12.5}}\n"
    "{" HEADER METADATA ",\"coll_perf\":{\"coll\":\"AllGather\",\"coll_sn\":6,\"coll_msg_size_bytes\":8192,"
    "\"coll_exec_time_us\":50}}\n"
    "not a record\n"
    "{" HEADER METADATA ",\"dump_stats\":{\"coll_records\":1,\"coll_dropped_total\":9,\"p2p_dropped_total\":1}}\n"
    "{\"coll_perf\":{\"coll\":\"ReduceScatter\",\"coll_sn\":7,\"coll_msg_size_bytes\":64,"
    "\"coll_exec_time_us\":118" TIMES "}}\n"
    "{\"record_type\":\"proxy_op\",\"record_sn\":42}\n";

/* Operations with and without times, a line that is none, and what the inspector lost. */
static void test_inspector(void **state)
{
    (void)state;
    kineto_activity a;
    kineto_arg arg;
    kineto_trace *t = open_well(log_of_rank, sizeof log_of_rank - 1);
    assert_int_equal(kineto_trace_count(t), 3);
    find_named(t, "nccl:AllGather", &a); /* before its dump, and the one before it before that */
    assert_int_equal(a.end_ns, INT64_C(1700000000000500000));
    assert_int_equal(a.end_ns - a.start_ns, 50000);
    int64_t next = a.start_ns;
    kineto_row row = find_named(t, "nccl:AllReduce", &a);
    assert_int_equal(a.end_ns, next);
    assert_int_equal(a.end_ns - a.start_ns, 100000);
    assert_true(kineto_args_find(t, row, "Collective name", &arg) && kb_string_is(arg.text, "allreduce"));
    assert_true(kineto_args_find(t, row, "Seq", &arg) && arg.i == 5);
    assert_true(kineto_args_find(t, row, "Bus bandwidth [GB/s]", &arg) && arg.d > 12.4 && arg.d < 12.6);
    find_named(t, "nccl:ReduceScatter", &a); /* from the first start of a channel to the last stop */
    assert_int_equal(a.start_ns, INT64_C(1700000000001000000));
    assert_int_equal(a.end_ns, INT64_C(1700000000001120000));
    assert_int_equal(count_in_ledger(t, "overwritten"), 10);
    assert_int_equal(count_in_ledger(t, "proxies"), 1);
    assert_int_equal(count_in_ledger(t, "lines that are no record"), 1);
    assert_int_equal(count_in_ledger(t, "operations without times"), 2);
    kineto_trace_release(t);
}

/* ---- damage ----------------------------------------------------------------------------------- */

/* Every prefix, then files with changed bytes: each is read or refused with a word. */
static void damage(const uint8_t *data, size_t size)
{
    uint64_t seed = 3;
    static uint8_t changed[sizeof w.data];
    for (size_t i = 0; i < (size_t)FEWER(2500, 500); i++) {
        kineto_trace *t = NULL;
        kineto_error err = {.message = ""};
        size_t cut = i < size ? i : size;
        memcpy(changed, data, size);
        for (size_t k = 0; i >= size && k < 1 + i % 4; k++)
            changed[next_random(&seed) % size] = (uint8_t)next_random(&seed);
        kineto_status status = open_bytes(changed, cut, &t, &err);
        assert_true((status == KINETO_OK) == (t != NULL));
        assert_true(t || err.message[0]);
        kineto_trace_release(t);
    }
}

/* Lengths that reach beyond the file, numbers that are too long. */
static void test_damaged_profile(void **state)
{
    (void)state;
    write_space();
    damage(w.data, w.size);
}

/* Lines that end in the middle of a value. */
static void test_damaged_log(void **state)
{
    (void)state;
    damage((const uint8_t *)log_of_rank, sizeof log_of_rank - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_xla),
        cmocka_unit_test(test_inspector),
        cmocka_unit_test(test_damaged_profile),
        cmocka_unit_test(test_damaged_log),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
