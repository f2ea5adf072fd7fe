/* Recordings of other tools, written here byte by byte: perf.data files, directories of uftrace, and the
 * texts of perf script and uftrace dump. Files that perf itself writes: tests/import. */
#include "trace/trace.h"

#include "unit.h"

#include <linux/perf_event.h>

static char directory[200], file[256];

static int setup(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/perf.data", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(directory);
}

static kineto_status open_bytes(const void *data, size_t size, kineto_trace **t, kineto_error *err)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    return kineto_trace_open(file, t, err);
}

/* ---- writing perf.data ----------------------------------------------------------------------- */

typedef struct bytes {
    uint8_t data[8192];
    size_t size;
} bytes;

static void put(bytes *b, const void *data, size_t size)
{
    assert_true(b->size + size <= sizeof b->data);
    memcpy(b->data + b->size, data, size);
    b->size += size;
}
static void put_u64(bytes *b, uint64_t v) { put(b, &v, sizeof v); }
static void put_u32(bytes *b, uint32_t v) { put(b, &v, sizeof v); }
static void put_pair(bytes *b, uint32_t v, uint32_t w)
{
    put_u32(b, v);
    put_u32(b, w);
}
static void put_text(bytes *b, const char *text)
{
    char padded[32] = "";
    snprintf(padded, sizeof padded, "%s", text);
    put(b, padded, strlen(text) / 8 * 8 + 8);
}

#define SAMPLE_TYPE                                                                                \
    (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_PERIOD |     \
     PERF_SAMPLE_IDENTIFIER)
/* What samples of page faults have besides. */
static uint64_t extra_of_faults;

enum { ID_CLOCK = 7, ID_FAULTS = 9, ATTR_BYTES = 136, HEADER_BYTES = 104 };

static size_t begin_record(bytes *b, uint32_t type, uint16_t misc)
{
    struct perf_event_header header = {type, misc, 0};
    size_t at = b->size;
    put(b, &header, sizeof header);
    return at;
}

static void end_record(bytes *b, size_t at)
{
    uint16_t size = (uint16_t)(b->size - at);
    memcpy(b->data + at + 6, &size, sizeof size);
}

/* The end of all records but samples. */
static void put_id(bytes *b, uint32_t pid, uint32_t tid, uint64_t time, uint32_t cpu)
{
    put_pair(b, pid, tid);
    put_u64(b, time);
    put_u64(b, cpu);
    put_u64(b, ID_CLOCK);
}

static void put_comm(bytes *b, uint32_t pid, uint32_t tid, const char *name, uint64_t time, bool exec)
{
    size_t at = begin_record(b, PERF_RECORD_COMM, exec ? PERF_RECORD_MISC_COMM_EXEC : 0);
    put_pair(b, pid, tid);
    put_text(b, name);
    put_id(b, pid, tid, time, 0);
    end_record(b, at);
}

static void put_fork(bytes *b, uint32_t type, uint32_t pid, uint32_t tid, uint64_t time)
{
    size_t at = begin_record(b, type, 0);
    put_pair(b, pid, pid);
    put_pair(b, tid, pid);
    put_u64(b, time);
    put_id(b, pid, tid, time, 0);
    end_record(b, at);
}

static void put_switch(bytes *b, uint32_t pid, uint32_t tid, uint64_t time, uint16_t misc)
{
    size_t at = begin_record(b, PERF_RECORD_SWITCH, misc);
    put_id(b, pid, tid, time, 1);
    end_record(b, at);
}

static void put_sample(bytes *b, uint64_t id, uint32_t pid, uint32_t tid, uint64_t time, uint64_t ip,
                       const uint64_t *chain, uint64_t count)
{
    size_t at = begin_record(b, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    put_u64(b, id);
    put_u64(b, ip);
    put_pair(b, pid, tid);
    put_u64(b, time);
    put_u64(b, 1);
    put_u64(b, 1000);
    if (id == ID_CLOCK) {
        put_u64(b, count);
        put(b, chain, 8 * count);
    } else if (extra_of_faults & PERF_SAMPLE_BRANCH_STACK) {
        put_u64(b, 1);
        put(b, (uint64_t[3]){0x1003, 0x2003, 0}, 24);
    }
    end_record(b, at);
}

static void put_lost(bytes *b, uint64_t count, uint64_t time)
{
    size_t at = begin_record(b, PERF_RECORD_LOST, 0);
    put_u64(b, ID_CLOCK);
    put_u64(b, count);
    put_id(b, 0, 0, time, 0);
    end_record(b, at);
}

static void put_attr(bytes *b, uint64_t config, uint64_t sample_type, uint64_t ids_at, uint64_t ids_bytes)
{
    struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                   .size = ATTR_BYTES - 16,
                                   .config = config,
                                   .sample_type = sample_type,
                                   .sample_id_all = 1,
                                   .context_switch = 1};
    put(b, &attr, ATTR_BYTES - 16);
    put_pair(b, (uint32_t)ids_at, 0);
    put_u64(b, ids_bytes);
}

/* The header, two events with one id each, and the records. */
static bytes make_file(const bytes *records)
{
    bytes b = {.size = 0};
    uint64_t ids_at = HEADER_BYTES + 2 * ATTR_BYTES, data_at = ids_at + 16;
    put(&b, "PERFILE2", 8);
    put_u64(&b, HEADER_BYTES);
    put_u64(&b, ATTR_BYTES);
    put_u64(&b, HEADER_BYTES);
    put_u64(&b, 2 * ATTR_BYTES);
    put_u64(&b, data_at);
    put_u64(&b, records->size);
    for (int i = 0; i < 6; i++)
        put_u64(&b, 0);
    put_attr(&b, PERF_COUNT_SW_TASK_CLOCK, SAMPLE_TYPE | PERF_SAMPLE_CALLCHAIN, ids_at, 8);
    put_attr(&b, PERF_COUNT_SW_PAGE_FAULTS, SAMPLE_TYPE | extra_of_faults, ids_at + 8, 8);
    put_u64(&b, ID_CLOCK);
    put_u64(&b, ID_FAULTS);
    assert_int_equal(b.size, data_at);
    put(&b, records->data, records->size);
    return b;
}

static const uint64_t marker = (uint64_t)PERF_CONTEXT_USER;

/* A program with two threads: 5000 to 9000 on a CPU, blocked, 12000 to 20000 on a CPU; the second one is
 * preempted from 14000 to 16000. */
static void put_program(bytes *r)
{
    uint64_t deep[] = {marker, 0x1003, 0x2003, 0x3003}, flat[] = {marker, 0x1003};
    put_comm(r, 10, 10, "perf-exec", 0, false);
    put_comm(r, 10, 10, "program", 5000, true);
    put_sample(r, ID_CLOCK, 10, 10, 7000, 0x1003, deep, 4);
    put_sample(r, ID_FAULTS, 10, 10, 7500, 0x1003, NULL, 0);
    put_sample(r, ID_CLOCK, 10, 10, 8000, 0x1003, deep, 4);
    put_switch(r, 10, 10, 9000, PERF_RECORD_MISC_SWITCH_OUT);
    put_switch(r, 10, 10, 12000, 0);
    put_sample(r, ID_CLOCK, 10, 10, 13000, 0x1003, flat, 2);
    put_fork(r, PERF_RECORD_EXIT, 10, 10, 20000);
    /* what another CPU recorded comes later in the file */
    put_fork(r, PERF_RECORD_FORK, 10, 11, 11000);
    put_comm(r, 10, 11, "worker", 11500, false);
    put_switch(r, 10, 11, 12500, 0);
    put_switch(r, 10, 11, 14000,
               PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
    put_switch(r, 10, 11, 16000, 0);
    put_fork(r, PERF_RECORD_EXIT, 10, 11, 18000);
    put_lost(r, 3, 18000);
}

/* ---- looking at traces ----------------------------------------------------------------------- */

static kineto_activity get(const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(t, row, &a);
    return a;
}

/* The sum of ns of rows with this kind and name; of those that are on a row with `track` in its name. */
static int64_t sum_ns(const kineto_trace *t, kineto_kind kind, const char *name, uint32_t *count)
{
    int64_t sum = 0;
    *count = 0;
    for (kineto_row row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a = get(t, row);
        kineto_string text = a.name;
        if (a.kind != kind || !kb_string_is(text, name))
            continue;
        sum += a.end_ns - a.start_ns;
        ++*count;
    }
    return sum;
}

static void check_rows(const kineto_trace *t, kineto_kind kind, const char *name, uint32_t wanted,
                       int64_t wanted_ns)
{
    uint32_t count;
    int64_t ns = sum_ns(t, kind, name, &count);
    if (count != wanted || ns != wanted_ns)
        fail_msg("%s: %u rows of %lld ns, not %u of %lld", name, count, (long long)ns, wanted,
                 (long long)wanted_ns);
}

static bool has_ledger_line(const kineto_trace *t, const char *reason, uint64_t count)
{
    kineto_ledger_line e;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_trace_ledger(t, i, &e);
        if (kb_string_contains(e.reason, reason) && e.count == count)
            return true;
    }
    return false;
}

static void check_program(const kineto_trace *t)
{
    check_rows(t, KINETO_KIND_THREAD_STATE, "running", 4, 4000 + 8000 + 1500 + 2000);
    check_rows(t, KINETO_KIND_THREAD_STATE, "blocked", 1, 3000);
    check_rows(t, KINETO_KIND_THREAD_STATE, "waiting for a CPU", 2, 1500 + 2000);
    check_rows(t, KINETO_KIND_CPU_SAMPLE, "[unknown]", 2, 3000 + 1000); /* of no module */
    assert_true(has_ledger_line(t, "lost by the kernel", 3));
    assert_true(has_ledger_line(t, "delivered", 3));
    assert_true(has_ledger_line(t, "does not measure CPU time", 1));
}

/* ---- perf.data ------------------------------------------------------------------------------- */

static void test_program(void **state)
{
    bytes records = {.size = 0};
    kineto_trace *t;
    kineto_error err = {.message = ""};
    (void)state;
    put_program(&records);
    bytes b = make_file(&records);
    if (open_bytes(b.data, b.size, &t, &err))
        fail_msg("%s", err.message);
    check_program(t);
    kineto_trace_release(t);
}

/* What is not read is counted, with the command that prints it. */
static void test_branches_and_hardware_traces(void **state)
{
    bytes records = {.size = 0};
    kineto_trace *t;
    (void)state;
    extra_of_faults = PERF_SAMPLE_BRANCH_STACK;
    put_program(&records);
    size_t at = begin_record(&records, 71, 0); /* AUXTRACE: its data follow it */
    put_u64(&records, 64);
    end_record(&records, at);
    put(&records, (uint8_t[64]){0}, 64);
    bytes b = make_file(&records);
    extra_of_faults = 0;
    assert_int_equal(open_bytes(b.data, b.size, &t, NULL), KINETO_OK);
    check_program(t);
    assert_true(has_ledger_line(t, "perf script -F +brstack", 1));
    assert_true(has_ledger_line(t, "perf script --itrace", 64));
    kineto_trace_release(t);
}

/* The form of a pipe has the events as records. */
static void test_pipe_form(void **state)
{
    bytes b = {.size = 0};
    kineto_trace *t;
    static const uint64_t configs[] = {PERF_COUNT_SW_TASK_CLOCK, PERF_COUNT_SW_PAGE_FAULTS};
    static const uint64_t types[] = {SAMPLE_TYPE | PERF_SAMPLE_CALLCHAIN, SAMPLE_TYPE};
    static const uint64_t ids[] = {ID_CLOCK, ID_FAULTS};
    (void)state;
    put(&b, "PERFILE2", 8);
    put_u64(&b, 16);
    for (int i = 0; i < 2; i++) {
        size_t at = begin_record(&b, 64, 0);
        put_attr(&b, configs[i], types[i], 0, 0);
        b.size -= 16;
        put_u64(&b, ids[i]);
        end_record(&b, at);
    }
    put_program(&b);
    assert_int_equal(open_bytes(b.data, b.size, &t, NULL), KINETO_OK);
    check_program(t);
    kineto_trace_release(t);
}

/* The form of `perf record --threads`: whichever records are in which file of the directory. */
static void test_directory_form(void **state)
{
    static const char *const names[] = {"data", "data.0", "data.1", "data.10"};
    char paths[4][300];
    bytes all = {.size = 0};
    (void)state;
    put_program(&all);
    for (int i = 0; i < 4; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%s", directory, names[i]);
    for (unsigned kind = 0; kind < 16; kind++) {
        bytes parts[4] = {{.size = 0}};
        kineto_trace *t;
        kineto_error err = {.message = ""};
        unsigned number = 0;
        for (size_t at = 0; at < all.size; number++) { /* records go to parts in turn, in another order each time */
            uint16_t size;
            memcpy(&size, all.data + at + 6, sizeof size);
            put(&parts[(number * kind + number / 3) % 4], all.data + at, size);
            at += size;
        }
        bytes first = make_file(&parts[0]);
        for (int i = 0; i < 4; i++) {
            FILE *f = fopen(paths[i], "wb");
            assert_non_null(f);
            (void)fwrite(i ? parts[i].data : first.data, 1, i ? parts[i].size : first.size, f);
            fclose(f);
        }
        if (kineto_trace_open(directory, &t, &err) != KINETO_OK)
            fail_msg("%s", err.message);
        check_program(t);
        kineto_trace_release(t);
    }
    for (int i = 0; i < 4; i++)
        unlink(paths[i]);
}

/* Any end of the file is read as far as possible, or refused with its name. */
static void test_truncated(void **state)
{
    bytes records = {.size = 0};
    (void)state;
    put_program(&records);
    bytes b = make_file(&records);
    for (size_t size = 8; size < b.size; size++) {
        kineto_trace *t = NULL;
        kineto_error err = {.message = ""};
        kineto_status status = open_bytes(b.data, size, &t, &err);
        assert_true((status == KINETO_OK) == (t != NULL));
        assert_true(status == KINETO_OK || strstr(err.message, "perf.data: ") != NULL);
        if (size > HEADER_BYTES + 2 * ATTR_BYTES + 16 && size < b.size)
            assert_int_equal(status, KINETO_OK);
        kineto_trace_release(t);
    }
}

static void expect_refusal(bytes b, size_t at, uint64_t value, const char *words)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    memcpy(b.data + at, &value, sizeof value);
    assert_int_equal(open_bytes(b.data, b.size, &t, &err), KINETO_E_FORMAT);
    if (!strstr(err.message, words))
        fail_msg("'%s' is not in: %s", words, err.message);
    assert_non_null(strstr(err.message, "(byte "));
}

static void test_damaged(void **state)
{
    bytes records = {.size = 0};
    (void)state;
    put_program(&records);
    bytes b = make_file(&records);
    size_t data_at = HEADER_BYTES + 2 * ATTR_BYTES + 16;
    expect_refusal(b, 24, UINT64_MAX - 8, "list of events is outside");
    expect_refusal(b, 32, UINT64_MAX, "list of events is outside");
    expect_refusal(b, 16, 12, "wrong size");
    expect_refusal(b, 40, UINT64_MAX - 1, "records are outside");
    expect_refusal(b, HEADER_BYTES + ATTR_BYTES - 16, UINT64_MAX - 4, "ids of an event");
    expect_refusal(b, data_at, 3, "without a size");
}

static void test_other_byte_order(void **state)
{
    kineto_trace *t = NULL;
    kineto_error err = {.message = ""};
    (void)state;
    assert_int_equal(open_bytes("2ELIFREP\0\0", 10, &t, &err), KINETO_E_FORMAT);
    assert_non_null(strstr(err.message, "perf script"));
}

/* A chain, or registers, that are longer than their record. */
static void test_malformed_samples(void **state)
{
    bytes records = {.size = 0};
    uint64_t chain[] = {marker, 0x1003};
    kineto_trace *t;
    (void)state;
    put_comm(&records, 10, 10, "program", 5000, true);
    put_sample(&records, ID_CLOCK, 10, 10, 6000, 0x1003, chain, 2);
    size_t count_at = records.size + 8 + 6 * 8;
    put_sample(&records, ID_CLOCK, 10, 10, 7000, 0x1003, chain, 2);
    uint64_t huge = UINT64_MAX / 8 + 2;
    memcpy(records.data + count_at, &huge, sizeof huge);
    bytes b = make_file(&records);
    assert_int_equal(open_bytes(b.data, b.size, &t, NULL), KINETO_OK);
    assert_true(has_ledger_line(t, "malformed records", 1));
    assert_true(has_ledger_line(t, "delivered", 1));
    kineto_trace_release(t);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static kineto_trace *open_text(const char *text)
{
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (open_bytes(text, strlen(text), &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

static void test_perf_script(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "# captured by perf\n"
        "Web Content 10/11 [001] 1.000001000:    1000000 cpu-clock:ppp: \n"
        "\t    118e operator()(int, char (*)())+0x35 (/opt/a (b)/lib x.so)\n"
        "\t    1299 main+0x32 (/tmp/prog)\n"
        "\n"
        "Web Content 10/11 [001] 1.001001000:    1000000 cpu-clock:ppp: \n"
        "\t    118e operator()(int, char (*)())+0x36 (/opt/a (b)/lib x.so)\n"
        "\t    1299 main+0x32 (/tmp/prog)\n"
        "\n"
        "one 12 1.002001:    1000000 cpu-clock:ppp:   56401d9291ef inner_hot+0x3f (/usr/bin/hot)\n"
        "one 12 1.003001:    1 page-faults:   56401d9291ef inner_hot+0x3f (/usr/bin/hot)\n"
        "one 12 1.003001:    1000000 cpu-clock:ppp:   56 [unknown] (/usr/bin/hot)\n");
    uint32_t count;
    (void)sum_ns(t, KINETO_KIND_CPU_SAMPLE, "operator()(int, char (*)())", &count);
    assert_int_equal(count, 1);
    (void)sum_ns(t, KINETO_KIND_CPU_SAMPLE, "inner_hot", &count);
    assert_int_equal(count, 1);
    (void)sum_ns(t, KINETO_KIND_CPU_SAMPLE, "hot+0x56", &count);
    assert_int_equal(count, 1);
    assert_true(has_ledger_line(t, "delivered", 4));
    assert_true(has_ledger_line(t, "does not measure CPU time", 1));
    kineto_trace_release(t);
}

static void test_perf_script_states(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "a 10 [000] 1.000000: sched:sched_switch: prev_comm=b c prev_pid=11 prev_prio=120 prev_state=S ==> "
        "next_comm=a next_pid=10 next_prio=120\n"
        "a 10 [000] 1.000010: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=R+ ==> "
        "next_comm=b c next_pid=11 next_prio=120\n"
        "b c 11 [000] 1.000030: sched:sched_switch: prev_comm=b c prev_pid=11 prev_prio=120 prev_state=S ==> "
        "next_comm=a next_pid=10 next_prio=120\n"
        "a 10 [000] 1.000070: sched:sched_switch: prev_comm=a prev_pid=10 prev_prio=120 prev_state=D ==> "
        "next_comm=swapper/0 next_pid=0 next_prio=120\n");
    check_rows(t, KINETO_KIND_THREAD_STATE, "running", 3, 10000 + 20000 + 40000);
    check_rows(t, KINETO_KIND_THREAD_STATE, "waiting for a CPU", 1, 20000);
    kineto_trace_release(t);
}

static void test_uftrace_dump(void **state)
{
    (void)state;
    kineto_trace *t = open_text("uftrace file header: magic         = 4674726163652100\n"
                                "\n"
                                "reading 10.dat\n"
                                "1.000000100  10: [entry] main(56004e24e373) depth: 0\n"
                                "1.000000200  10: [entry] ns::f(int)(56004e24e050) depth: 1\n"
                                "1.000000900  10: [exit ] ns::f(int)(56004e24e050) depth: 1\n"
                                "1.000001000  10: [entry] never_returns(56004e24e050) depth: 1\n"
                                "reading 12.dat\n"
                                "1.000000500  12: [exit ] lost(56004e24e050) depth: 0\n"
                                "1.000000600  12: [entry] worker(56004e24e050) depth: 0\n"
                                "1.000000800  12: [exit ] worker(56004e24e050) depth: 0\n"
                                "reading perf-cpu0.dat\n"
                                "1.000000300  10: [event] linux:sched-out(200002)\n"
                                "1.000000400  10: [event] linux:sched-in(200001)\n"
                                "1.000002000  10: [event] linux:sched-out (pre-empted)(200007)\n");
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "ns::f(int)", 1, 700);
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "worker", 1, 200);
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "never_returns", 1, 1000);
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "lost", 1, 0); /* entered before the first record */
    check_rows(t, KINETO_KIND_THREAD_STATE, "running", 1, 1600);
    kineto_trace_release(t);
}

/* ---- directories of uftrace ------------------------------------------------------------------- */

enum { ENTRY, EXIT, LOST, EVENT, WITH_DATA = 4, MAGIC = 5 };

static void put_call(bytes *b, uint64_t time_ns, unsigned type, unsigned depth, uint64_t address)
{
    put_u64(b, time_ns);
    put_u64(b, type | MAGIC << 3 | (uint64_t)depth << 6 | address << 16);
}

static void put_cpu_switch(bytes *b, uint16_t misc, uint32_t tid, uint64_t time_ns)
{
    size_t at = begin_record(b, PERF_RECORD_SWITCH, misc);
    put_pair(b, 10, tid);
    put_u64(b, time_ns);
    end_record(b, at);
}

static const char *const uftrace_files[] = {"info",   "task.txt", "sid-a1.map",    "x.sym", "events.txt",
                                            "10.dat", "12.dat",   "perf-cpu0.dat", "kernel-cpu0.dat"};

static void write_uftrace_file(const char *name, const void *data, size_t size)
{
    char path[300];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void write_uftrace_text(const char *name, const char *text)
{
    write_uftrace_file(name, text, strlen(text));
}

static void remove_uftrace_files(void)
{
    char path[300];
    for (size_t i = 0; i < sizeof uftrace_files / sizeof *uftrace_files; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, uftrace_files[i]);
        unlink(path);
    }
}

static void put_uftrace_info(bytes *b, uint32_t version, uint8_t endian)
{
    static const char facts[] = "exename:/x/prog\nosinfo:hostname=there\nuftrace_version:v0.13\n";
    put(b, "Ftrace!\0", 8);
    put_u32(b, version);
    put(b, "\x28\0", 2);
    put(b, &endian, 1);
    put(b, "\2", 1);
    put(b, (uint8_t[24]){0}, 24);
    put(b, facts, sizeof facts - 1);
}

/* main calls f with arguments whose bytes look like records, and g, which loses records. */
static void put_main_thread(bytes *b)
{
    put_call(b, 1000, ENTRY, 0, 0x400100);
    put_call(b, 1100, ENTRY | WITH_DATA, 1, 0x400200);
    put_call(b, 1150, LOST, 0, 0);          /* arguments: no record follows an entry so */
    put_call(b, 1150, ENTRY, 2, 0x7fff1234); /* nor is this an address of code */
    put_call(b, 1200, EXIT, 1, 0x400200);
    put_call(b, 1250, EVENT | WITH_DATA, 0, 1000000);
    put_u64(b, 3 | UINT64_C(0x616263) << 16); /* 3 bytes, padded */
    put_call(b, 1300, ENTRY, 1, 0x400310);
    put_call(b, 1400, LOST, 0, 77);
    put_call(b, 1500, EXIT, 1, 0x400200); /* its entry is lost, and the exit of g */
    put_call(b, 1600, ENTRY, 1, 0x400900); /* after the last function */
    put_call(b, 1700, EXIT, 1, 0x400900);
    put_call(b, 2000, EXIT, 0, 0x400100);
}

static void write_uftrace_directory(void)
{
    bytes info = {.size = 0}, first = {.size = 0}, child = {.size = 0}, cpu = {.size = 0};
    put_uftrace_info(&info, 4, 1);
    write_uftrace_file("info", info.data, info.size);
    write_uftrace_text("task.txt", "SESS timestamp=0.000000900 pid=10 sid=a1 exename=\"/x/prog\"\n"
                                   "TASK timestamp=0.000000950 tid=10 pid=10\n"
                                   "SESS timestamp=1.0 pid=99 sid=../a1 exename=\"/x\"\n"
                                   "FORK timestamp=0.000001000 pid=12 ppid=10\n");
    write_uftrace_text("sid-a1.map", "400000-401000 r-xp 00000000 00:00 0   /x/prog build-id:aa\n"
                                     "7f0000000000-7f0000001000 r-xp 00000000 00:00 0 [stack]\n");
    write_uftrace_text("x.sym", "# path name: /x/prog\n# build-id: aa\n0000000000000300 T g\n"
                                "00000000000000f0 T main\n00000000000001f0 t _ZN2ns1fEi\n0000000000000400 ? __end\n");
    write_uftrace_text("events.txt", "EVENT: 1000000 my:event\n");
    write_uftrace_text("kernel-cpu0.dat", "");
    put_main_thread(&first);
    write_uftrace_file("10.dat", first.data, first.size);
    put_call(&child, 3000, EXIT, 1, 0x400310); /* it was forked inside of g, which main called */
    put_call(&child, 3100, ENTRY, 1, 0x400200);
    write_uftrace_file("12.dat", child.data, child.size);
    put_cpu_switch(&cpu, 0, 10, 950);
    put_cpu_switch(&cpu, PERF_RECORD_MISC_SWITCH_OUT, 10, 1310);
    put_cpu_switch(&cpu, 0, 10, 1390);
    put_cpu_switch(&cpu, PERF_RECORD_MISC_SWITCH_OUT | PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, 12, 3500);
    write_uftrace_file("perf-cpu0.dat", cpu.data, cpu.size);
}

static void test_uftrace_directory(void **state)
{
    (void)state;
    kineto_trace *t = NULL;
    kineto_error err;
    write_uftrace_directory();
    if (kineto_trace_open(directory, &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "main", 1, 1000);
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "ns::f(int)", 2, 100 + 400); /* the child's until it ends */
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "g", 2, 200); /* 0 of the child */
    check_rows(t, KINETO_KIND_USER_ANNOTATION, "prog+0x900", 1, 100);
    check_rows(t, KINETO_KIND_CPU_INSTANT_EVENT, "my:event", 1, 0);
    check_rows(t, KINETO_KIND_CPU_INSTANT_EVENT, "lost records", 1, 0);
    check_rows(t, KINETO_KIND_THREAD_STATE, "blocked", 1, 80);
    assert_true(has_ledger_line(t, "records lost by uftrace", 77));
    assert_true(has_ledger_line(t, "end without a begin", 1));
    kineto_trace_release(t);
    remove_uftrace_files();
}

/* Each file cut at every place, and each byte of the records changed: an error that names the directory,
 * or a trace. */
static void test_damaged_uftrace_directory(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof uftrace_files / sizeof *uftrace_files; i++) {
        for (size_t size = 0; size < 300; size += 7) {
            kineto_trace *t = NULL;
            kineto_error err = {.message = ""};
            char path[300];
            write_uftrace_directory();
            snprintf(path, sizeof path, "%s/%s", directory, uftrace_files[i]);
            FILE *f = fopen(path, "r+b");
            assert_non_null(f);
            if (size % 2)
                assert_int_equal(ftruncate(fileno(f), (off_t)size), 0);
            else
                assert_int_equal(pwrite(fileno(f), "\xff\xff", 2, (off_t)size), 2);
            fclose(f);
            if (kineto_trace_open(directory, &t, &err) != KINETO_OK)
                assert_non_null(strstr(err.message, directory));
            kineto_trace_release(t);
        }
    }
    remove_uftrace_files();
}

/* What a directory is refused for. */
static void test_refused_uftrace_directory(void **state)
{
    static const struct {
        uint32_t version;
        uint8_t endian;
        const char *missing, *word;
    } cases[] = {{3, 1, NULL, "version 3"},          {4, 2, NULL, "byte order"},
                 {4, 1, "task.txt", "task.txt"},     {4, 1, "sid-a1.map", "sid-a1.map"},
                 {4, 1, "10.dat", "without records"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kineto_trace *t = NULL;
        kineto_error err = {.message = ""};
        bytes info = {.size = 0};
        char path[300];
        write_uftrace_directory();
        put_uftrace_info(&info, cases[i].version, cases[i].endian);
        write_uftrace_file("info", info.data, info.size);
        snprintf(path, sizeof path, "%s/12.dat", directory);
        unlink(path);
        snprintf(path, sizeof path, "%s/%s", directory, cases[i].missing ? cases[i].missing : "-");
        unlink(path);
        assert_true(kineto_trace_open(directory, &t, &err) != KINETO_OK);
        if (!strstr(err.message, cases[i].word) || !strstr(err.message, directory))
            fail_msg("%s", err.message);
    }
    remove_uftrace_files();
}

/* Lines that are almost of a format, and ends of every length. */
static void test_cut_texts(void **state)
{
    static const char text[] =
        "uftrace file header: magic\n1.000000100  10: [entry] f(1) depth: 0\n99999999999.1 1: [\n: [] (\n"
        "1.000000100  99999999999: [entry] f(1)\n1.1111111111  10: [exit ] f(";
    static const char script[] =
        "a b 1/2 [001] 1.000001: 5 cycles:u: \n\t 1f f+0x1 (x)\n\t (\n\t)\n\tf (\n\t 1 ()\n\n:\n1 1.0:\n"
        " 1.000000:\n[1] 1.000000: 1 cycles:\n";
    (void)state;
    for (size_t size = 27; size < sizeof text; size++) {
        kineto_trace *t = NULL;
        assert_int_equal(open_bytes(text, size, &t, NULL), KINETO_OK);
        kineto_trace_release(t);
    }
    for (size_t size = 1; size < sizeof script; size++) {
        kineto_trace *t = NULL;
        (void)open_bytes(script, size, &t, NULL);
        kineto_trace_release(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_program),           cmocka_unit_test(test_pipe_form),
        cmocka_unit_test(test_directory_form),    cmocka_unit_test(test_branches_and_hardware_traces),
        cmocka_unit_test(test_truncated),         cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_other_byte_order),  cmocka_unit_test(test_malformed_samples),
        cmocka_unit_test(test_perf_script),       cmocka_unit_test(test_perf_script_states),
        cmocka_unit_test(test_uftrace_dump),      cmocka_unit_test(test_cut_texts),
        cmocka_unit_test(test_uftrace_directory), cmocka_unit_test(test_damaged_uftrace_directory),
        cmocka_unit_test(test_refused_uftrace_directory),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
