/* Recordings of other tools, written here byte by byte: perf.data files, and the texts of perf script and
 * uftrace dump. Files that perf itself writes: tests/import. */
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
    put_attr(&b, PERF_COUNT_SW_PAGE_FAULTS, SAMPLE_TYPE, ids_at + 8, 8);
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
    check_rows(t, KINETO_KIND_CPU_SAMPLE, "0x1003", 2, 3000 + 1000);
    check_rows(t, KINETO_KIND_CPU_SAMPLE, "0x3002", 1, 3000);
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
        "one 12 1.002001:    1000000 cpu-clock:ppp:   56401d9291ef inner_hot+0x3f (/tmp/w/pr/hot)\n"
        "one 12 1.003001:    1 page-faults:   56401d9291ef inner_hot+0x3f (/tmp/w/pr/hot)\n"
        "one 12 1.003001:    1000000 cpu-clock:ppp:   56 [unknown] (/tmp/w/pr/hot)\n");
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
    check_rows(t, KINETO_KIND_THREAD_STATE, "running", 1, 1600);
    assert_true(has_ledger_line(t, "end without a begin", 1));
    kineto_trace_release(t);
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
        cmocka_unit_test(test_truncated),         cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_other_byte_order),  cmocka_unit_test(test_malformed_samples),
        cmocka_unit_test(test_perf_script),       cmocka_unit_test(test_perf_script_states),
        cmocka_unit_test(test_uftrace_dump),      cmocka_unit_test(test_cut_texts),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
