/* Reading Chrome traces: what every tool writes, exact times, and refusing what is broken. */
#include "trace/bytes/json_text.h"
#include "trace/trace.h"

#include "unit.h"

#include <dirent.h>
#include <sys/stat.h>
#include <zlib.h>

static char directory[200], file[256];

static int setup(void **state)
{
    (void)state;
    if (!make_directory(directory, sizeof directory))
        return -1;
    snprintf(file, sizeof file, "%s/t.json", directory);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(file);
    return rmdir(directory);
}

static kineto_status open_bytes(const char *data, size_t size, kineto_trace **t, kineto_error *err)
{
    FILE *f = fopen(file, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
    static const kineto_open_options strict = {.size = sizeof strict, .strict = true};
    return kineto_trace_open_with(file, &strict, t, err);
}

/* The same, but what is broken is repaired. */
static kineto_status repair_bytes(const char *data, size_t size, kineto_trace **t)
{
    kineto_trace *strict = NULL;
    if (open_bytes(data, size, &strict, NULL) == KINETO_OK)
        kineto_trace_release(strict);
    return kineto_trace_open(file, t, NULL);
}

static kineto_trace *open_text(const char *text)
{
    kineto_trace *t;
    kineto_error err = {.message = ""};
    if (open_bytes(text, strlen(text), &t, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return t;
}

static kineto_activity get(const kineto_trace *t, kineto_row row)
{
    kineto_activity a;
    kineto_trace_get(t, row, &a);
    return a;
}

static kineto_track track_of(const kineto_trace *t, kineto_row row)
{
    kineto_track k;
    kineto_trace_track(t, get(t, row).track, &k);
    return k;
}

static bool is(kineto_string s, const char *text) { return kb_string_equal(s, kb_string(text)); }

/* ---- numbers --------------------------------------------------------------------------------- */

static void times_are_exact_integers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool ok;
        int64_t value;
    } cases[] = {{"0", true, 0},
                 {"1", true, 1000},
                 {"1732000000123456.789", true, INT64_C(1732000000123456789)},
                 {"9223372036854775.807", true, INT64_MAX},
                 {"9223372036854775.808", false, 0},
                 {"-0.001", true, -1},
                 {"-5.0015", true, -5002},
                 {"0.0004", true, 0},
                 {"0.0005", true, 1},
                 {"0.00049999999999999999999999999", true, 0},
                 {"1.5e3", true, 1500000},
                 {"1.5E-3", true, 2},
                 {"12345678901234567890123e-20", true, 123457},
                 {"1e400", false, 0},
                 {"0e400", true, 0},
                 {"1e-400", true, 0},
                 {"99999999999999999999", false, 0},
                 {"0.1234567890123456789012345678901234567890", true, 123},
                 {"\"1\"", false, 0},
                 {"null", false, 0}};
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        int64_t value = 0;
        if (kt_json_scaled(kb_string(cases[i].text), 3, &value) != cases[i].ok ||
            (cases[i].ok && value != cases[i].value))
            fail_msg("%s → %lld", cases[i].text, (long long)value);
    }
}

/* ---- what tools write ------------------------------------------------------------------------ */

static void rows_of_every_era_are_understood(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "{\"schemaVersion\":1,\"deviceProperties\":[{\"id\":0,\"name\":\"V100\"}],\"own\":{\"a\":1}"
        ","
        "\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"Operator\",\"name\":\"a\\u00e9\",\"pid\":9,\"tid\":\"9\","
        "\"ts\":1.5,\"dur\":2,\"args\":{\"external id\":3}},"
        "{\"ph\":\"X\",\"cat\":\"Kernel\",\"name\":\"k\",\"pid\":0,\"tid\":\"stream 7\",\"ts\":3,"
        "\"dur\":1,\"args\":{\"correlation\":5,\"grid\":[1,2]}},"
        "{\"ph\":\"f\",\"id\":5,\"pid\":0,\"tid\":\"stream 7\",\"ts\":3,\"cat\":\"async\","
        "\"name\":\"launch\",\"bp\":\"e\"},"
        "{\"ph\":\"X\",\"cat\":\"xpu_runtime\",\"name\":\"r\",\"pid\":9,\"tid\":9,\"ts\":2,"
        "\"dur\":0.5,\"args\":{\"correlation\":5,\"External id\":3,\"external id\":4}},"
        "{\"ph\":\"s\",\"id\":5,\"pid\":9,\"tid\":9,\"ts\":2.25,\"cat\":\"async\",\"name\":\"x\"},"
        "{\"ph\":\"i\",\"s\":\"t\",\"name\":\"[memory]\",\"pid\":9,\"tid\":9,\"ts\":2,"
        "\"args\":{\"Bytes\":4}},"
        "{\"ph\":\"X\",\"cat\":\"Trace\",\"name\":\"PyTorch Profiler (0)\",\"pid\":\"Spans\","
        "\"tid\":\"PyTorch Profiler\",\"ts\":1,\"dur\":9},"
        "{\"ph\":\"C\",\"name\":\"c\",\"pid\":\"GPU 0 Counters\",\"tid\":\"\",\"ts\":4,"
        "\"args\":{\"\":1}},"
        "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":0,\"tid\":7,\"ts\":0,"
        "\"args\":{\"name\":\"stream 7\"}},"
        "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\",\"pid\":\"\",\"tid\":\"\","
        "\"ts\":100}],\"baseTimeNanoseconds\":1000000}");
    assert_int_equal(kineto_trace_count(t), 6);
    kineto_activity a = get(t, 0);
    assert_true(is(a.name, "a\xc3\xa9"));
    assert_int_equal(a.start_ns, 1001500);
    assert_int_equal(a.end_ns, 1003500);
    assert_int_equal(a.kind, KINETO_KIND_CPU_OP);
    assert_int_equal(a.external_id, 3);
    assert_int_equal(track_of(t, 0).id, 9);
    a = get(t, 1);
    assert_int_equal(a.kind, KINETO_KIND_CONCURRENT_KERNEL);
    kineto_track k = track_of(t, 1);
    assert_int_equal(k.type, KINETO_TRACK_STREAM);
    assert_int_equal(k.id, 7);
    assert_true(is(k.name, "stream 7"));
    kineto_process p;
    kineto_trace_process(t, k.process, &p);
    assert_true(p.is_device);
    assert_true(is(p.properties_json, "{\"id\":0,\"name\":\"V100\"}"));
    a = get(t, 2);
    assert_int_equal(a.kind, KINETO_KIND_RUNTIME);
    assert_true(is(kineto_trace_string(t, a.category), "xpu_runtime"));
    assert_int_equal(a.external_id, 3);
    assert_int_equal(a.track, get(t, 0).track);
    assert_int_equal(get(t, 3).kind, KINETO_KIND_MEMORY);
    assert_int_equal(track_of(t, 4).type, KINETO_TRACK_OTHER);
    assert_int_equal(get(t, 5).kind, KINETO_KIND_GPU_PM_COUNTER);
    assert_int_equal(track_of(t, 5).type, KINETO_TRACK_COUNTER);
    kineto_flow f;
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &f);
    assert_int_equal(f.from, 2);
    assert_int_equal(f.to, 1);
    assert_int_equal(kineto_trace_launch(t, 1), 2);
    int64_t start, end;
    kineto_trace_window(t, &start, &end);
    assert_int_equal(start, 1001000);
    assert_int_equal(end, 1100000);
    assert_int_equal(kineto_trace_metadata_count(t), 2); /* "own" and "schemaVersion" */
    assert_int_equal(kineto_trace_ledger_count(t), 0);
    kineto_trace_release(t);
}

static void begins_and_ends_are_joined(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "[{\"ph\":\"B\",\"name\":\"a\",\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"B\",\"name\":\"b\",\"pid\":1,\"tid\":1,\"ts\":2},"
        "{\"ph\":\"B\",\"name\":\"c\",\"pid\":1,\"tid\":2,\"ts\":3},"
        "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":4,\"args\":{\"x\":1}},"
        "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":5},"
        "{\"ph\":\"E\",\"pid\":1,\"tid\":1,\"ts\":6},"
        "{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"z\",\"id\":\"0xff\",\"pid\":1,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"b\",\"cat\":\"q\",\"name\":\"z\",\"id2\":{\"local\":\"7\"},\"pid\":1,\"ts\":1},"
        "{\"ph\":\"e\",\"cat\":\"q\",\"name\":\"z\",\"id\":255,\"pid\":1,\"tid\":1,\"ts\":9},"
        "{\"ph\":\"P\",\"name\":\"sample\",\"pid\":1,\"tid\":1,\"ts\":1}]");
    static const struct {
        int64_t end;
        uint32_t flags;
    } wanted[] = {{5000, 0},
                  {4000, 0},
                  {9000, KINETO_ACTIVITY_OPEN_END},
                  {9000, 0},
                  {9000, KINETO_ACTIVITY_OPEN_END}};
    assert_int_equal(kineto_trace_count(t), 5);
    for (kineto_row row = 0; row < 5; row++) {
        assert_int_equal(get(t, row).end_ns, wanted[row].end);
        assert_int_equal(get(t, row).flags, wanted[row].flags);
    }
    assert_int_equal(get(t, 3).async_id, 255);
    assert_int_equal(get(t, 3).form, KINETO_FORM_ASYNC);
    assert_int_equal(kineto_trace_parent(t, 1), 0);
    assert_int_equal(kineto_trace_lost(t), 2); /* an end too many, a sample */
    assert_int_equal(kineto_trace_ledger_count(t), 3);
    kineto_arg arg;
    assert_true(kineto_args_find(t, 1, "x", &arg) && arg.type == KINETO_ARG_INT && arg.i == 1);
    kineto_trace_release(t);
}

static void flows_find_their_rows_later(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "[{\"ph\":\"s\",\"cat\":\"fwdbwd\",\"name\":\"f\",\"id\":1,\"pid\":1,\"tid\":1,\"ts\":5},"
        "{\"ph\":\"f\",\"cat\":\"fwdbwd\",\"name\":\"f\",\"id\":1,\"pid\":1,\"tid\":2,\"ts\":7},"
        "{\"ph\":\"f\",\"cat\":\"fwdbwd\",\"name\":\"f\",\"id\":1,\"pid\":1,\"tid\":9,\"ts\":7},"
        "{\"ph\":\"X\",\"name\":\"out\",\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":10},"
        "{\"ph\":\"X\",\"name\":\"in\",\"pid\":1,\"tid\":1,\"ts\":4,\"dur\":2},"
        "{\"ph\":\"X\",\"name\":\"gone\",\"pid\":1,\"tid\":2,\"ts\":6,\"dur\":0.5},"
        "{\"ph\":\"X\",\"name\":\"to\",\"pid\":1,\"tid\":2,\"ts\":0,\"dur\":8}]");
    kineto_flow f;
    assert_int_equal(kineto_trace_flow_count(t), 1);
    kineto_trace_flow(t, 0, &f);
    assert_int_equal(f.from, 1);
    assert_int_equal(f.to, 3);
    assert_int_equal(kineto_trace_lost(t), 1);
    kineto_trace_release(t);
}

static void rows_that_others_name_by_texts_are_ranges(void **state)
{
    (void)state;
    kineto_trace *t = open_text(
        "[{\"ph\":\"X\",\"name\":\"task\",\"cat\":\"ray\",\"pid\":\"Node 10.0.0.1\","
        "\"tid\":\"worker:a\",\"ts\":1,\"dur\":9},"
        "{\"ph\":\"X\",\"name\":\"task\",\"pid\":1,\"tid\":\"main\",\"ts\":1,\"dur\":9}]");
    for (kineto_row row = 0; row < 2; row++)
        assert_int_equal(get(t, row).kind, KINETO_KIND_USER_ANNOTATION);
    kineto_trace_release(t);
}

static void counters_with_ids_are_counters_of_their_own(void **state)
{
    (void)state;
    kineto_trace *t = open_text("[{\"ph\":\"C\",\"name\":\"c\",\"id\":1,\"ts\":1},"
                                "{\"ph\":\"C\",\"name\":\"c\",\"id\":\"a\\n\",\"ts\":2},"
                                "{\"ph\":\"C\",\"name\":\"c\",\"ts\":3}]");
    static const char *const names[] = {"c[1]", "c[a\n]", "c"};
    for (kineto_row row = 0; row < 3; row++)
        assert_true(kb_string_equal(get(t, row).name, kb_string(names[row])));
    kineto_trace_release(t);
}

static void ids_are_whole_numbers_or_none(void **state)
{
    (void)state;
    kineto_trace *t =
        open_text("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"args\":{\"correlation\":1e5}},"
                  "{\"ph\":\"X\",\"name\":\"a\",\"ts\":2,\"args\":{\"External id\":12.5}},"
                  "{\"ph\":\"X\",\"name\":\"a\",\"ts\":3,"
                  "\"args\":{\"correlation\":7,\"correlation\":\"x\"}}]");
    kineto_arg arg;
    for (kineto_row row = 0; row < 3; row++) {
        assert_int_equal(get(t, row).correlation_id, 0);
        assert_int_equal(get(t, row).external_id, 0);
    }
    assert_true(kineto_args_find(t, 0, "correlation", &arg));
    assert_true(arg.type == KINETO_ARG_DOUBLE && arg.d > 99999 && arg.d < 100001);
    kineto_trace_release(t);
}

#define EVENT(ph, rest) "{\"ph\":\"" ph "\",\"pid\":1," rest "},"
#define SLICE(tid, ts)  EVENT("X", "\"name\":\"r\",\"tid\":" tid ",\"dur\":5,\"ts\":" ts)
#define FLOW(ph, of, id, tid, ts)                                                                  \
    EVENT(ph, "\"cat\":\"" of "\",\"name\":\"" of "\",\"id\":" id ",\"tid\":" tid ",\"ts\":" ts)

static void expect_flow(const kineto_trace *t, uint64_t index, kineto_row from, kineto_row to)
{
    kineto_flow f;
    kineto_trace_flow(t, index, &f);
    assert_int_equal(f.from, from);
    assert_int_equal(f.to, to);
}

static void flows_have_steps(void **state)
{
    (void)state;
    kineto_trace *t = open_text("[" SLICE("1", "10") FLOW("s", "x", "7", "1", "10") SLICE("2", "20")
                                    FLOW("t", "x", "7", "2", "20") SLICE("3", "30")
                                        FLOW("f", "x", "7", "3", "30") "{\"ph\":\"R\"}]");
    assert_int_equal(kineto_trace_flow_count(t), 2);
    expect_flow(t, 0, 0, 1);
    expect_flow(t, 1, 1, 2);
    kineto_trace_release(t);
}

static void a_step_whose_start_is_not_there_has_none(void **state)
{
    (void)state;
    kineto_trace *t = open_text("[" SLICE("1", "10") FLOW("t", "x", "7", "1", "10") SLICE("2", "20")
                                    FLOW("t", "x", "7", "2", "20") SLICE("3", "30")
                                        FLOW("f", "x", "7", "3", "30") "{\"ph\":\"R\"}]");
    assert_int_equal(kineto_trace_flow_count(t), 3);
    expect_flow(t, 0, KINETO_NO_ROW, 0);
    expect_flow(t, 1, 0, 1);
    expect_flow(t, 2, 1, 2);
    kineto_trace_release(t);
}

#define ASYNC(ph, of, pid, ts)                                                                     \
    "{\"ph\":\"" ph "\",\"name\":\"a\",\"cat\":\"c\"," of ",\"pid\":" pid ",\"ts\":" ts "},"

static void asynchronous_ids_count_where_the_format_says(void **state)
{
    (void)state;
#define LOCAL  "\"id2\":{\"local\":\"0x5\"}"
#define GLOBAL "\"id2\":{\"global\":\"0x6\"}"
#define IN(s)  "\"id\":3,\"scope\":\"" s "\""
    static const char text[] = "[" ASYNC("b", "\"id\":1", "1", "10") /* of another process */
        ASYNC("e", "\"id\":1", "2", "15")                            /* */
        ASYNC("b", GLOBAL, "1", "20")                                /* of their own */
        ASYNC("b", GLOBAL, "2", "21")                                /* */
        ASYNC("e", GLOBAL, "1", "22")                                /* */
        ASYNC("e", GLOBAL, "2", "23")                                /* */
        ASYNC("b", LOCAL, "1", "30")                                 /* without owner */
        ASYNC("e", LOCAL, "2", "31")                                 /* */
        ASYNC("b", IN("x"), "1", "40")                               /* of one scope */
        ASYNC("b", IN("y"), "1", "41")                               /* */
        ASYNC("e", IN("x"), "1", "42")                               /* */
        ASYNC("e", IN("y"), "1", "43")                               /* */
        ASYNC("e", "\"id\":8", "2", "44")                            /* too early */
        ASYNC("b", "\"id\":8", "1", "45")                            /* */
        ASYNC("b", "\"id\":9", "1", "47")                            /* */
        ASYNC("e", "\"id\":9", "2", "46")                            /* */
        "{\"ph\":\"R\"}]";
    static const int64_t us[][2] = {{10, 15}, {20, 22}, {21, 23}, {30, 47},
                                    {40, 42}, {41, 43}, {45, 47}, {47, 47}};
    kineto_trace *t = open_text(text);
    for (kineto_row row = 0; row < KB_COUNT(us); row++) {
        bool open = get(t, row).flags & KINETO_ACTIVITY_OPEN_END;
        assert_int_equal(get(t, row).start_ns, us[row][0] * 1000);
        assert_int_equal(get(t, row).end_ns, us[row][1] * 1000);
        assert_int_equal(open, row == 3 || row >= 6);
    }
    assert_true(get(t, 4).async_id != get(t, 5).async_id); /* they stay apart when written */
    assert_int_equal(kineto_trace_lost(t), 4);             /* three ends, a phase */
    kineto_trace_release(t);
}

static void flows_find_their_rows_in_other_lanes(void **state)
{
    (void)state;
    kineto_trace *t =
        open_text("[{\"ph\":\"X\",\"name\":\"from\",\"tid\":2,\"ts\":0,\"dur\":10},"
                  "{\"ph\":\"s\",\"id\":1,\"tid\":2,\"ts\":0},"
                  "{\"ph\":\"X\",\"name\":\"before\",\"tid\":1,\"ts\":0,\"dur\":100},"
                  "{\"ph\":\"X\",\"name\":\"around\",\"tid\":1,\"ts\":50,\"dur\":100},"
                  "{\"ph\":\"X\",\"name\":\"in before\",\"tid\":1,\"ts\":60,\"dur\":10},"
                  "{\"ph\":\"f\",\"bp\":\"e\",\"id\":1,\"tid\":1,\"ts\":145}]");
    assert_int_equal(kineto_trace_flow_count(t), 1);
    expect_flow(t, 0, 0, 2);
    kineto_trace_release(t);
}

/* Without "bp": "e", as the format has it. */
static void flows_end_where_the_next_event_begins(void **state)
{
    (void)state;
    kineto_trace *t =
        open_text("[" SLICE("1", "10") FLOW("s", "x", "1", "1", "10") /* */
                  FLOW("s", "x", "2", "1", "10")                      /* */
                  FLOW("f", "x", "1", "2", "21")                      /* next */
                  FLOW("f", "x", "2", "2", "31")                      /* none is */
                  SLICE("2", "20") SLICE("2", "22") SLICE("2", "30") "{\"ph\":\"R\"}]");
    assert_int_equal(kineto_trace_flow_count(t), 2);
    expect_flow(t, 0, 0, 2);
    expect_flow(t, 1, 0, 3);
    kineto_trace_release(t);
}

/* As viewers have it: an id is one of its category and name. */
static void flow_ids_are_those_of_their_names(void **state)
{
    (void)state;
    kineto_trace *t =
        open_text("[" SLICE("1", "40") FLOW("s", "a", "1", "1", "40") SLICE("1", "50")
                      FLOW("s", "b", "1", "1", "50") SLICE("2", "60") FLOW("f", "a", "1", "2", "60")
                          SLICE("2", "70") FLOW("f", "b", "1", "2", "70") "{\"ph\":\"R\"}]");
    kineto_flow a = {0}, b = {0};
    assert_int_equal(kineto_trace_flow_count(t), 2);
    for (uint64_t i = 0; i < 2; i++) {
        kineto_flow f;
        kineto_trace_flow(t, i, &f);
        *(f.from == 0 ? &a : &b) = f;
    }
    assert_true(a.id == 1 && a.from == 0 && a.to == 2);
    assert_true(b.id != 1 && b.from == 1 && b.to == 3); /* unique: they stay apart when written */
    kineto_trace_release(t);
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void broken_files_are_refused_with_the_place(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
        uint64_t offset;
    } cases[] = {
        {"", "is empty", 0},
        {"42", "expected an object", 0},
        {"{\"traceEvents\":[],\"traceEvents\":[]}", "a second \"traceEvents\"", 32},
        {"{}", "no \"traceEvents\"", 2},
        {"{\"traceEvents\":[]} x", "text after the end", 19},
        {"{\"traceEvents\":[}", "expected a value", 16},
        {"{\"traceEvents\":[", "ends inside a list", 16},
        {"{\"traceEvents\":{}}", "\"traceEvents\" must be a list", 15},
        {"[1]", "expected an object", 1},
        {"[{\"ph\":\"P\"},]", "expected a value", 12},
        {"[{\"ph\":\"X\",}]", "expected a string", 11},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":01}]", "malformed number", 29},
        {"[{\"ph\":\"X\",\"name\":\"a\\q\"}]", "unknown escape", 21},
        {"[{\"ph\":\"X\",\"name\":\"a\n\"}]", "control character", 20},
        {"[{\"ph\":\"X\",\"name\":\"\\u12g4\"}]", "hexadecimal", 20},
        {"[{\"ph\":\"X\",\"name\":\"a\xff\"}]", "invalid UTF-8", 20},
        {"[{\"ph\":\"X\",\"name\":\"a\"}]", "without \"ts\"", 1},
        {"[{\"ph\":\"X\",\"ts\":1}]", "without \"name\"", 1},
        {"[{\"ts\":1}]", "without \"ph\"", 1},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":\"1\"}]", "not a number", 27},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1e30}]", "out of range", 27},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"args\":[]}]", "must be an object", 36},
        {"[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,\"pid\":1.5}]", "integers or short texts", 35},
        {"{\"baseTimeNanoseconds\":\"x\",\"traceEvents\":[]}", "must be an integer", 23},
    };
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        kineto_trace *t;
        kineto_error err = {.message = ""};
        assert_int_equal(open_bytes(cases[i].text, strlen(cases[i].text), &t, &err),
                         KINETO_E_FORMAT);
        assert_null(t);
        if (!strstr(err.message, cases[i].message) || !strstr(err.message, "t.json") ||
            err.offset != cases[i].offset)
            fail_msg("%s → %s (%llu)", cases[i].text, err.message, (unsigned long long)err.offset);
    }
}

/* What it says of times contradicts them, or cannot be: the activities are the truth. */
static void headers_that_cannot_be_right_are_left_out(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t start, end;
        uint32_t lines;
    } cases[] = {
        {"\"baseTimeNanoseconds\":1000", 2000, 3000, 0},
        {"\"baseTimeNanoseconds\":\"1000\"", 2000, 3000, 0},
        {"\"baseTimeNanoseconds\":\"12x\"", 1000, 2000, 1},
        {"\"baseTimeNanoseconds\":[1]", 1000, 2000, 1},
        {"\"baseTimeNanoseconds\":9223372036854775807", 1000, 2000, 1},
        {"\"baseTimeNanoseconds\":99999999999999999999", 1000, 2000, 1},
        {"\"ckineto\":{\"window\":[900,2500]}", 900, 2500, 0},
        {"\"ckineto\":{\"window\":[2500,900]}", 1000, 2000, 1},
        {"\"ckineto\":{\"window\":[1700000000000000000,1700000000000000009]}", 1000, 2000, 1},
        {"\"ckineto\":{\"window\":[-9223372036854775808,9223372036854775807]}", 1000, 2000, 1},
        {"\"ckineto\":{\"window\":[900]}", 1000, 2000, 0},
    };
    for (size_t i = 0; i < KB_COUNT(cases); i++) {
        char text[300];
        int64_t start, end;
        kineto_trace *t;
        int size = snprintf(text, sizeof text,
                            "{%s,\"traceEvents\":[{\"ph\":\"X\",\"name\":\"a\",\"ts\":1,"
                            "\"dur\":1,\"pid\":1,\"tid\":1}]}",
                            cases[i].header);
        assert_int_equal(repair_bytes(text, (size_t)size, &t), KINETO_OK);
        kineto_trace_window(t, &start, &end);
        if (start != cases[i].start || end != cases[i].end ||
            kineto_trace_ledger_count(t) != cases[i].lines)
            fail_msg("%s → %lld … %lld, %u lines", cases[i].header, (long long)start,
                     (long long)end, kineto_trace_ledger_count(t));
        kineto_trace_release(t);
    }
    kineto_trace *t = open_text("[{\"ph\":\"X\",\"name\":\"a\",\"ts\":5,\"dur\":1},"
                                "{\"ph\":\"i\",\"name\":\"Record Window End\",\"ts\":4,\"s\":\"g\","
                                "\"pid\":\"\",\"tid\":\"\"}]");
    int64_t start, end;
    kineto_trace_window(t, &start, &end);
    assert_int_equal(start, 5000);
    assert_int_equal(end, 6000);
    assert_int_equal(kineto_trace_ledger_count(t), 1);
    kineto_trace_release(t);
}

static void deep_nesting_is_refused(void **state)
{
    (void)state;
    char text[5000];
    kineto_trace *t;
    kineto_error err;
    memset(text, '[', sizeof text);
    assert_int_equal(open_bytes(text, sizeof text, &t, &err), KINETO_E_FORMAT);
    assert_non_null(strstr(err.message, "too deep"));
}

static size_t pack(const char *text, char *data, size_t room)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)text,
                  .avail_in = (uInt)strlen(text),
                  .next_out = (Bytef *)data,
                  .avail_out = (uInt)room};
    deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, 0);
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t size = z.total_out;
    deflateEnd(&z);
    return size;
}

static void missing_and_cut_files_say_so(void **state)
{
    (void)state;
    kineto_trace *t;
    kineto_error err;
    assert_int_equal(kineto_trace_open("/nonexistent/t.json", &t, &err), KINETO_E_NOT_FOUND);
    assert_int_not_equal(kineto_trace_open(directory, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_open(NULL, &t, &err), KINETO_E_ARGUMENT);
    /* gzip in two members, then cut anywhere */
    char data[400];
    size_t size = pack("[{\"ph\":\"X\",\"name\":\"a\",", data, sizeof data);
    size += pack("\"ts\":1}]", data + size, sizeof data - size);
    assert_int_equal(open_bytes(data, size, &t, &err), KINETO_OK);
    assert_int_equal(kineto_trace_count(t), 1);
    kineto_trace_release(t);
    for (size_t cut = 0; cut < size; cut++)
        assert_int_equal(open_bytes(data, cut, &t, &err), KINETO_E_FORMAT);
}

/* However far the thread that unpacks has come by then. */
static void what_is_not_a_trace_and_damaged_is_refused_for_one_reason(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } files[] = {{"no trace", "expected an object"},
                 {"{\"other\":1}", "bad gzip data"},
                 {"  ", "bad gzip data"}};
    for (size_t i = 0; i < KB_COUNT(files); i++)
        for (int times = 0; times < FEWER(100, 20); times++) {
            kineto_trace *t;
            kineto_error err;
            char data[100];
            size_t size = pack(files[i].text, data, sizeof data);
            data[size - 6] ^= 1; /* the sum over the text */
            assert_int_equal(open_bytes(data, size, &t, &err), KINETO_E_FORMAT);
            assert_non_null(strstr(err.message, files[i].reason));
        }
}

/* Any change of any byte gives an error or a trace, nothing worse. */
static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    HAS_ONE_THREAD();
    static const char text[] =
        "{\"deviceProperties\":[{\"id\":0}],\"traceEvents\":["
        "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":3.25,\"dur\":1,"
        "\"args\":{\"correlation\":5,\"a\":\"\\u00e9\\n\"}},"
        "{\"ph\":\"f\",\"id\":5,\"pid\":0,\"tid\":7,\"ts\":3.25,\"cat\":\"ac2g\",\"name\":\"x\"},"
        "{\"ph\":\"b\",\"name\":\"q\",\"id\":\"0x1f\",\"pid\":4,\"tid\":1,\"ts\":1},"
        "{\"ph\":\"e\",\"name\":\"q\",\"id\":\"0x1f\",\"pid\":4,\"tid\":1,\"ts\":2},"
        "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":4,\"tid\":0,\"args\":{\"name\":\"p\"}}],"
        "\"ckineto\":{\"window\":[1,9000],\"processes\":[{\"pid\":4,\"id\":3,\"device\":true}],"
        "\"tracks\":[{\"pid\":0,\"tid\":7,\"id\":2,\"type\":\"stream\",\"name\":\"n\"}],"
        "\"ledger\":[{\"source\":\"s\",\"reason\":\"r\",\"count\":1,\"loss\":true}],"
        "\"clock\":{\"snapshots\":[{\"ticks\":1}]}}}";
    char changed[sizeof text];
    uint64_t random = 5;
    kineto_trace *t;
    for (size_t at = 0; at < sizeof text - 1; at += FEWER(1, 3)) {
        memcpy(changed, text, sizeof text);
        static const char likely[] = "\"{}[],:\\09-e.tX\xff";
        changed[at] = likely[next_random(&random) % (sizeof likely - 1)];
        if (repair_bytes(changed, sizeof text - 1, &t) == KINETO_OK)
            kineto_trace_release(t);
        if (repair_bytes(text, at, &t) == KINETO_OK)
            kineto_trace_release(t);
    }
}

/* ---- real traces ----------------------------------------------------------------------------- */

static void real_traces_open(void **state)
{
    (void)state;
    const char *folder = CKINETO_SHARED "/traces";
    DIR *d = opendir(folder);
    if (!d) {
        print_message("skipped: no folder of real traces\n");
        skip();
    }
    int opened = 0;
    for (struct dirent *entry; (entry = readdir(d));) {
        char path[600];
        kineto_trace *t;
        kineto_error err = {.message = ""};
        struct stat st;
        size_t size = strlen(entry->d_name);
        if (size < 8 || strcmp(entry->d_name + size - 8, ".json.gz") != 0 ||
            strstr(entry->d_name, ".et.json"))
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &st) != 0 || (SANITIZED && st.st_size > 500000))
            continue;
        if (kineto_trace_open(path, &t, &err) != KINETO_OK)
            fail_msg("%s", err.message);
        assert_true(kineto_trace_count(t) > 8);
        assert_int_equal(kineto_trace_lost(t), 0);
        kineto_trace_release(t);
        opened++;
    }
    closedir(d);
    assert_true(opened > 0);
}

/* A list of devices alone, with nothing that ran on them. */
static double seconds_to_read_devices(uint32_t count)
{
    static const char head[] = "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0}",
                      tail[] = "], \"traceEvents\": []}";
    size_t room = sizeof head + sizeof tail + 24 * (size_t)count, n = sizeof head - 1;
    struct timespec from, until;
    char *text = malloc(room);
    assert_non_null(text);
    memcpy(text, head, n);
    for (uint32_t i = 1; i < count; i++)
        n += (size_t)snprintf(text + n, room - n, ",{\"id\":%u}", i);
    memcpy(text + n, tail, sizeof tail);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &from);
    kineto_trace *t = open_text(text);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &until);
    assert_int_equal(kineto_trace_process_count(t), count);
    kineto_trace_release(t);
    free(text);
    return (double)(until.tv_sec - from.tv_sec) + (double)(until.tv_nsec - from.tv_nsec) * 1e-9;
}

/* Each was looked for among all before it: 64 times as long for 8 times as many. */
static void many_devices_take_no_longer_to_read_than_they_are_many(void **state)
{
    (void)state;
    double few = seconds_to_read_devices(10000), many = seconds_to_read_devices(80000);
    print_message("10000 devices: %.3f s, 80000: %.3f s\n", few, many);
    assert_true(many < 40 * few);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_exact_integers),
        cmocka_unit_test(rows_of_every_era_are_understood),
        cmocka_unit_test(begins_and_ends_are_joined),
        cmocka_unit_test(flows_find_their_rows_later),
        cmocka_unit_test(rows_that_others_name_by_texts_are_ranges),
        cmocka_unit_test(counters_with_ids_are_counters_of_their_own),
        cmocka_unit_test(ids_are_whole_numbers_or_none),
        cmocka_unit_test(flows_have_steps),
        cmocka_unit_test(a_step_whose_start_is_not_there_has_none),
        cmocka_unit_test(flows_end_where_the_next_event_begins),
        cmocka_unit_test(flows_find_their_rows_in_other_lanes),
        cmocka_unit_test(flow_ids_are_those_of_their_names),
        cmocka_unit_test(asynchronous_ids_count_where_the_format_says),
        cmocka_unit_test(broken_files_are_refused_with_the_place),
        cmocka_unit_test(headers_that_cannot_be_right_are_left_out),
        cmocka_unit_test(deep_nesting_is_refused),
        cmocka_unit_test(missing_and_cut_files_say_so),
        cmocka_unit_test(what_is_not_a_trace_and_damaged_is_refused_for_one_reason),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(real_traces_open),
        cmocka_unit_test(many_devices_take_no_longer_to_read_than_they_are_many),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
