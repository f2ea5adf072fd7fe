/* The Chrome JSON writer: the schema, hostile texts seen by an independent parser, files that
 * cannot be written, and that reading gives back what was written. */
#include "export/export.h"
#include "trace/trace.h"

#include "building.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define BASE INT64_C(1700000000123456789)

static uint32_t thread(kt_builder *b, int64_t tid)
{
    return kt_track(b, kt_process(b, false, 100, 0), KINETO_TRACK_THREAD, tid);
}

static uint32_t text(kt_builder *b, const char *s) { return kt_string(b, kb_string(s)); }

/* The file as text; the caller frees. */
static char *written_with(const kineto_trace *t, bool split_lanes, kineto_export_result *result)
{
    kineto_export_options options = {
        .size = sizeof options, .format = "chrome", .trace_name = "trace", .split_lanes = split_lanes};
    kb_sink *sink;
    char *data;
    size_t bytes;
    kineto_error err = {.message = ""};
    assert_int_equal(kb_sink_open_memory(KB_COMPRESS_NONE, &sink, NULL), KINETO_OK);
    if (ke_export_to_sink(t, sink, &options, result, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kb_sink_take(sink, &data, &bytes, NULL), KINETO_OK);
    assert_int_equal(kb_sink_close(sink, NULL), KINETO_OK);
    assert_int_equal(strlen(data), bytes);
    assert_true(kb_json_valid((kineto_string){data, bytes}));
    return data;
}

static char *written(const kineto_trace *t, kineto_export_result *result)
{
    return written_with(t, false, result);
}

#define assert_has(data, part)                                                                     \
    do {                                                                                           \
        if (!strstr((data), (part)))                                                               \
            fail_msg("not in the file: %s\n%s", (part), (data));                                   \
    } while (0)
#define assert_lacks(data, part)                                                                   \
    do {                                                                                           \
        if (strstr((data), (part)))                                                                \
            fail_msg("in the file: %s\n%s", (part), (data));                                       \
    } while (0)

static char *finish_and_write(kt_builder *b)
{
    kineto_trace *t = finish(b);
    char *data = written(t, NULL);
    kineto_trace_release(t);
    return data;
}

/* ---- schema ---------------------------------------------------------------------------------- */

static void header_and_ends_are_kinetos(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t device = kt_process(b, true, 0, 0);
    kt_process_set(
        b, device,
        &(kineto_process){.rank = -1, .properties_json = kb_string("{\"name\":\"sim\"}")});
    kt_metadata(b, kb_string("zeta"), kb_string("1"));
    kt_metadata(b, kb_string("distributedInfo"), kb_string("{\"rank\":0}"));
    kt_metadata(b, kb_string("alpha"), kb_string("{\"b\":[1]}"));
    kt_metadata(b, kb_string("traceName"), kb_string("\"mine\""));
    kt_append(b, &(kt_row){.start_ns = BASE,
                           .end_ns = BASE + 1001,
                           .track = thread(b, 7),
                           .name = text(b, "op"),
                           .external_id = 3});
    kt_window(b, BASE - 1000, BASE + 5000);
    kt_ledger_add(b, kb_string("program"), kb_string("buffer full"), 12, true, kb_string("why"));
    char *data = finish_and_write(b);
    static const char *const keys[] = {"{\n\"schemaVersion\":1",
                                       "\"deviceProperties\":[",
                                       "\"id\":0,\n\"name\":\"sim\"",
                                       "\"alpha\":{\"b\":[1]}",
                                       "\"traceName (2)\":\"mine\"",
                                       "\"zeta\":1",
                                       "\"displayTimeUnit\":\"ms\"",
                                       "\"baseTimeNanoseconds\":",
                                       "\"traceEvents\":[",
                                       "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"op\","
                                       "\"pid\":100,\"tid\":7,\"ts\":",
                                       ",\"dur\":1.001,\"args\":{\"External id\":3}},\n",
                                       "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"Record Window End\","
                                       "\"pid\":\"\",\"tid\":\"\",\"ts\":",
                                       "\"distributedInfo\":",
                                       "\"ckineto\":{\"version\":",
                                       "{\"source\":\"program\",\"reason\":\"buffer full\","
                                       "\"count\":12,\"loss\":true,\"detail\":\"why\"}",
                                       "\"traceName\":\"trace\"\n}"};
    const char *at = data;
    for (size_t i = 0; i < KB_COUNT(keys); i++) {
        at = strstr(at, keys[i]);
        if (!at)
            fail_msg("missing or in the wrong place: %s\n%s", keys[i], data);
    }
    assert_has(data, "\"baseTimeNanoseconds\":1698158479500000000,");
    assert_has(data, "\"ts\":1841520623456.789,\"dur\"");
    free(data);
}

static void base_time_is_never_later_than_anything(void **state)
{
    (void)state;
    static const int64_t times[] = {0, 1, -1, INT64_C(-1972309500000001), BASE, INT64_MIN, 5};
    for (size_t i = 0; i < KB_COUNT(times); i++) {
        kt_builder *b = builder();
        kt_append(b, &(kt_row){.start_ns = times[i], .end_ns = times[i], .track = thread(b, 1)});
        char *data = finish_and_write(b);
        assert_lacks(data, "\"ts\":-");
        free(data);
    }
}

/* Viewers read a time as a double of microseconds and make nanoseconds of it. */
static void times_survive_being_read_as_doubles(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1);
    const int64_t step = INT64_C(7889238000000000) / 4, first = step * 862;
    for (int64_t i = 0; i < 1000; i++) {
        int64_t at = first + (step - 1) / 999 * i;
        kt_append(b, &(kt_row){.start_ns = at, .end_ns = at, .track = track, .name = 0});
    }
    char *data = finish_and_write(b);
    static const char key[] = "\"tid\":1,\"ts\":";
    int64_t i = 0;
    for (const char *at = strstr(data, "\"ph\":\"X\""); at; at = strstr(at + 1, "\"ph\":\"X\"")) {
        double us = strtod(strstr(at, key) + sizeof key - 1, NULL);
        assert_true((int64_t)(us * 1000 + 0.5) == (step - 1) / 999 * i);
        i++;
    }
    assert_int_equal(i, 1000);
    free(data);
}

static void forms_are_written_and_ordered(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t track = thread(b, 1), process = kt_process(b, false, 100, 0);
    uint32_t name = text(b, "n");
    kt_row row = {.start_ns = BASE + 10, .end_ns = BASE + 20, .track = track, .name = name};
    kt_append(b, &row); /* put before what encloses it */
    row.end_ns = BASE + 30;
    row.flags = KINETO_ACTIVITY_OPEN_END | KINETO_ACTIVITY_OPEN_START;
    row.name = text(b, "outer");
    kt_append(b, &row);
    row = (kt_row){.start_ns = BASE,
                   .end_ns = BASE,
                   .track = track,
                   .name = name,
                   .form = KINETO_FORM_INSTANT,
                   .kind = KINETO_KIND_CPU_INSTANT_EVENT};
    kt_append(b, &row);
    row.flags = KINETO_ACTIVITY_GLOBAL;
    kt_append(b, &row);
    row = (kt_row){.start_ns = BASE,
                   .end_ns = BASE,
                   .track = track,
                   .name = text(b, "[memory]"),
                   .form = KINETO_FORM_INSTANT,
                   .kind = KINETO_KIND_MEMORY};
    kt_args_put_int(b, text(b, "Bytes"), -8);
    kt_append(b, &row);
    row.name = text(b, "pool grown"); /* no allocation: keeps its name */
    kt_append(b, &row);
    kt_args_put_double(b, text(b, "a"), 0.5);
    kt_args_put_uint(b, text(b, "b"), 2);
    row = (kt_row){.start_ns = BASE,
                   .end_ns = BASE,
                   .name = name,
                   .form = KINETO_FORM_COUNTER,
                   .kind = KINETO_KIND_COUNTER,
                   .track = kt_track(b, process, KINETO_TRACK_COUNTER, 0)};
    kt_append(b, &row);
    row = (kt_row){.start_ns = BASE,
                   .end_ns = BASE + 7,
                   .name = name,
                   .form = KINETO_FORM_ASYNC,
                   .async_id = 31,
                   .kind = KINETO_KIND_USER_ANNOTATION,
                   .track = kt_track(b, process, KINETO_TRACK_ASYNC, 0)};
    kt_append(b, &row);
    char *data = finish_and_write(b);
    assert_has(data, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"n\"");
    assert_has(data, "{\"ph\":\"i\",\"s\":\"g\",\"name\":\"n\"");
    assert_has(data, "\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":100,\"tid\":1,");
    assert_has(data, "\"args\":{\"Bytes\":-8}},\n");
    assert_has(data, "{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"memory\",\"name\":\"pool grown\"");
    assert_has(data, "{\"ph\":\"C\",\"name\":\"n\",\"pid\":100,\"ts\":");
    assert_has(data, "\"args\":{\"a\":0.5,\"b\":2}},\n");
    assert_has(data, "{\"ph\":\"b\",\"cat\":\"user_annotation\",\"name\":\"n\",\"id\":\"0x1f\",");
    assert_has(data, "{\"ph\":\"e\",\"cat\":\"user_annotation\",\"name\":\"n\",\"id\":\"0x1f\",");
    assert_has(data, "\"args\":{\"finished\":false,\"started\":false}},\n");
    assert_true(strstr(data, "\"outer\"") <
                strstr(data, "\"X\",\"cat\":\"cpu_op\",\"name\":\"n\""));
    free(data);
}

static void device_work_has_its_place_and_order(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t stream = kt_track(b, kt_process(b, true, 3, 0), KINETO_TRACK_STREAM, 7);
    kt_args_put_json(b, text(b, "grid"), KINETO_ARG_INTS, kb_string("[1, 1, 1]"));
    kt_args_put_int(b, text(b, "own"), 1);
    kt_args_put_int(b, text(b, "queued"), 0);
    kt_append(b, &(kt_row){.start_ns = BASE,
                           .end_ns = BASE + 5,
                           .track = stream,
                           .kind = KINETO_KIND_CONCURRENT_KERNEL,
                           .name = text(b, "k"),
                           .correlation_id = 9,
                           .external_id = 4});
    kt_args_put_int(b, text(b, "x"), 1);
    kt_args_put_int(b, text(b, "cbid"), 211);
    kt_append(b, &(kt_row){.start_ns = BASE,
                           .end_ns = BASE + 5,
                           .track = thread(b, 1),
                           .kind = KINETO_KIND_RUNTIME,
                           .name = text(b, "r"),
                           .category = text(b, "cuda_runtime"),
                           .correlation_id = 9});
    char *data = finish_and_write(b);
    assert_has(data, "\"args\":{\"External id\":4,\"queued\":0,\"device\":3,\"stream\":7,"
                     "\"correlation\":9,\"grid\":[1,1,1],\"own\":1}},\n");
    assert_has(data, "\"cat\":\"cuda_runtime\",\"name\":\"r\"");
    assert_has(data, "\"args\":{\"cbid\":211,\"correlation\":9,\"x\":1}},\n");
    assert_has(data, "\"name\":\"process_sort_index\",\"pid\":3,\"tid\":0,");
    assert_has(data, "{\"sort_index\":5000003}");
    assert_has(data, "{\"labels\":\"GPU 3\"}");
    assert_has(data, "{\"labels\":\"CPU\"}");
    assert_has(data, "{\"name\":\"stream 7\"}");
    free(data);
}

/* Four tracks with two activities each that cut each other. */
static char *write_crossing(bool split_lanes)
{
    kt_builder *b = builder();
    uint32_t first = kt_process(b, false, 0, 1), second = kt_process(b, false, 0, 2);
    uint32_t device = kt_process(b, true, 0, 0);
    uint32_t tracks[] = {
        kt_track(b, first, KINETO_TRACK_THREAD, 5), kt_track(b, second, KINETO_TRACK_THREAD, 5),
        kt_track(b, second, KINETO_TRACK_OTHER, 5), kt_track(b, device, KINETO_TRACK_STREAM, 5)};
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++)
            kt_append(b, &(kt_row){.start_ns = BASE + k,
                                   .end_ns = BASE + 10 + k,
                                   .track = tracks[i],
                                   .name = text(b, "n")});
    kineto_trace *t = finish(b);
    char *data = written_with(t, split_lanes, NULL);
    kineto_trace_release(t);
    return data;
}

static void no_two_share_a_pid_or_a_tid(void **state)
{
    (void)state;
    char *data = write_crossing(true);
    assert_has(data, "\"pid\":0,\"tid\":5,");
    assert_has(data, "\"pid\":0,\"tid\":100000005,");
    assert_has(data, "\"pid\":1000000000,\"tid\":5,");
    assert_has(data, "\"pid\":1000000000,\"tid\":200000005,"); /* lane 1 of the first took + 1 */
    assert_has(data, "\"pid\":2000000000,\"tid\":5,");
    assert_has(data, "{\"name\":\"stream 5 (lane 2)\"}");
    free(data);
}

static void what_overlaps_keeps_its_tid(void **state)
{
    (void)state;
    char *data = write_crossing(false);
    assert_has(data, "\"pid\":1000000000,\"tid\":5,");
    assert_has(data, "\"pid\":1000000000,\"tid\":100000005,"); /* a second track 5 of a process */
    assert_null(strstr(data, "200000005"));
    assert_null(strstr(data, "(lane "));
    free(data);
}

/* Perfetto and others keep 32 bits. */
static void tids_differ_in_their_lower_half(void **state)
{
    (void)state;
    kt_builder *b = builder();
    uint32_t device = kt_process(b, true, 0, 0);
    for (int64_t i = 0; i < 100; i++)
        kt_append(b, &(kt_row){.start_ns = BASE,
                               .end_ns = BASE + 10,
                               .track = kt_track(b, device, KINETO_TRACK_STREAM, i << 32 | 7),
                               .name = text(b, "n")});
    char *data = finish_and_write(b);
    static const char key[] = "\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"n\",\"pid\":0,\"tid\":";
    uint32_t tids[100], count = 0;
    for (const char *at = strstr(data, key); at; at = strstr(at + 1, key)) {
        assert_true(count < 100);
        tids[count] = (uint32_t)strtoll(at + sizeof key - 1, NULL, 10);
        for (uint32_t i = 0; i < count; i++)
            assert_int_not_equal(tids[i], tids[count]);
        count++;
    }
    assert_int_equal(count, 100);
    free(data);
}

static void flows_follow_their_rows(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_row rows[3];
    for (int i = 0; i < 3; i++)
        rows[i] = kt_append(b, &(kt_row){.start_ns = BASE + 10 * i,
                                         .end_ns = BASE + 10 * i + 5,
                                         .track = thread(b, i),
                                         .name = text(b, "n")});
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, rows[0], true);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, rows[1], false);
    kt_flow(b, KINETO_FLOW_ASYNC_CPU_GPU, 5, rows[2], false);
    kt_flow(b, KINETO_FLOW_FWD_BWD, 6, rows[0], true); /* goes nowhere */
    char *data = finish_and_write(b);
    const char *start = strstr(data, "{\"ph\":\"s\",\"id\":5,\"pid\":100,\"tid\":0,\"ts\":");
    const char *end = strstr(data, "{\"ph\":\"f\",\"id\":5,\"pid\":100,\"tid\":1,\"ts\":");
    assert_non_null(start);
    assert_non_null(end);
    assert_null(strstr(start + 1, "{\"ph\":\"s\",\"id\":5"));
    assert_has(end, "\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"},\n");
    assert_has(data, "{\"ph\":\"f\",\"id\":5,\"pid\":100,\"tid\":2,");
    assert_has(data, "{\"ph\":\"s\",\"id\":6,\"pid\":100,\"tid\":0,");
    assert_has(data, "\"cat\":\"fwdbwd\",\"name\":\"fwdbwd\"},\n");
    free(data);
}

/* Read again, the end would be that of the start before it. */
static void flows_that_go_on_end_before_they_start(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kineto_row rows[3];
    for (int i = 0; i < 3; i++)
        rows[i] = kt_append(b, &(kt_row){.start_ns = BASE + 10 * i,
                                         .end_ns = BASE + 10 * i + 5,
                                         .track = thread(b, i),
                                         .name = text(b, "n")});
    kt_flow(b, KINETO_FLOW_USER, 5, rows[0], true);
    kt_flow(b, KINETO_FLOW_USER, 5, rows[1], false);
    kt_flow(b, KINETO_FLOW_USER, 5, rows[1], true);
    kt_flow(b, KINETO_FLOW_USER, 5, rows[2], false);
    kt_flow(b, KINETO_FLOW_USER, 6, rows[1], true);
    kt_flow(b, KINETO_FLOW_USER, 6, rows[1], false);
    char *data = finish_and_write(b);
    const char *end = strstr(data, "{\"ph\":\"f\",\"id\":5,\"pid\":100,\"tid\":1,");
    const char *loop_end = strstr(data, "{\"ph\":\"f\",\"id\":6,");
    assert_non_null(end);
    assert_non_null(loop_end);
    assert_has(end, "{\"ph\":\"s\",\"id\":5,\"pid\":100,\"tid\":1,");
    assert_null(strstr(loop_end, "{\"ph\":\"s\",\"id\":6,"));
    free(data);
}

static void same_trace_gives_the_same_bytes(void **state)
{
    (void)state;
    char *data[2];
    for (int i = 0; i < 2; i++) {
        kt_builder *b = builder();
        uint64_t random = 3;
        for (int row = 0; row < 3000; row++) {
            int64_t start = BASE + (int64_t)(next_random(&random) % 100000);
            kt_args_put_uint(b, text(b, "a"), next_random(&random));
            kt_append(b, &(kt_row){.start_ns = start,
                                   .end_ns = start + 500,
                                   .track = thread(b, (int64_t)(next_random(&random) % 3)),
                                   .name = text(b, "n")});
        }
        data[i] = finish_and_write(b);
    }
    assert_string_equal(data[0], data[1]);
    free(data[0]);
    free(data[1]);
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void no_key_comes_twice(void **state)
{
    (void)state;
    kt_builder *b = builder();
    kt_row row = {.start_ns = BASE,
                  .end_ns = BASE,
                  .track = thread(b, 1),
                  .external_id = 1,
                  .correlation_id = 2,
                  .flags = KINETO_ACTIVITY_OPEN_END};
    static const char *const keys[] = {"a", "a", "External id", "correlation", "finished", "a (2)"};
    for (size_t i = 0; i < KB_COUNT(keys); i++)
        kt_args_put_int(b, text(b, keys[i]), (int64_t)i);
    kt_append(b, &row);
    kt_args_put_int(b, kt_string(b, (kineto_string){"k\xff", 2}), 1); /* the same once written */
    kt_args_put_int(b, kt_string(b, (kineto_string){"k\xfe", 2}), 2);
    kt_append(b, &(kt_row){.start_ns = BASE, .end_ns = BASE, .track = row.track});
    kt_args_verbatim(b, kb_string("{\"x\":1, \"\\u0078\" : 2, \"External id\":7,\"x\":[ 3 ]}"));
    kt_append(b, &(kt_row){.start_ns = BASE, .end_ns = BASE, .track = row.track, .external_id = 7});
    for (int i = 0; i < 200; i++)
        kt_args_put_int(b, text(b, "same"), i);
    kt_append(b, &(kt_row){.start_ns = BASE, .end_ns = BASE, .track = row.track});
    char *data = finish_and_write(b);
    assert_has(data, "{\"External id\":1,\"a\":0,\"a (2)\":1,\"External id (2)\":2,"
                     "\"correlation (2)\":3,\"finished (2)\":4,\"a (2) (2)\":5,"
                     "\"correlation\":2,\"finished\":false}");
    assert_has(data, "{\"k\xef\xbf\xbd\":1,\"k\xef\xbf\xbd (2)\":2}");
    assert_has(data, "{\"x\":1,\"x (2)\":2,\"External id\":7,\"x (3)\":[3]}");
    assert_has(data, "\"same (200)\":199}");
    free(data);
}

/* ---- hostile texts, read by another parser --------------------------------------------------- */

typedef struct hostile {
    kt_builder *b;
    FILE *expected;
    uint32_t track, key;
    int64_t at;
} hostile;

static void put_hex(FILE *f, kineto_string s)
{
    for (size_t i = 0; i < s.size; i++)
        fprintf(f, "%02x", (unsigned char)s.data[i]);
}

/* As name, as key and as value. */
static void add_hostile(hostile *h, const char *bytes, size_t size)
{
    kineto_string s = {bytes, size};
    kt_args_put_string(h->b, h->key, s);
    kt_args_put_string(h->b, kt_string(h->b, s), s);
    kt_append(h->b, &(kt_row){.start_ns = h->at,
                              .end_ns = h->at + 1,
                              .track = h->track,
                              .name = kt_string(h->b, s)});
    h->at += 2;
    put_hex(h->expected, s);
    fprintf(h->expected, "\n  6b6579 = "); /* "key" */
    put_hex(h->expected, s);
    fprintf(h->expected, "\n  ");
    put_hex(h->expected, s);
    fprintf(h->expected, " = ");
    put_hex(h->expected, s);
    fprintf(h->expected, "\n");
}

static void add_hostiles(hostile *h)
{
    static const char *const texts[] = {"",
                                        "\"",
                                        "\\",
                                        "a\"b\\c\n\r\t\b\f",
                                        "\xe2\x82",
                                        "\xc0\x80",
                                        "\xed\xa0\x80",
                                        "\xf4\x90\x80\x80",
                                        "mod\xc3\xa8le::forward",
                                        "</script>",
                                        "\xf0\x9f\x98\x80",
                                        "\xf0\x9f\x98",
                                        "\xff\xfe\xfd",
                                        "C:\\a\\b.py\nnext",
                                        "External id",
                                        "\x7f",
                                        "\xe2\x80\xa8",
                                        "%s%n{}",
                                        "\xef\xbb\xbfx"};
    char bytes[3];
    uint64_t random = 99;
    for (int c = 0; c < 256; c++) {
        bytes[0] = (char)c;
        add_hostile(h, bytes, 1);
    }
    for (size_t i = 0; i < KB_COUNT(texts); i++)
        add_hostile(h, texts[i], strlen(texts[i]));
    char *big = malloc(1 << 16);
    for (int round = 0; round < 6; round++) {
        for (size_t i = 0; i < 1 << 16; i++)
            big[i] = (char)(round == 0 ? 1 : round == 1 ? 'x' : next_random(&random));
        add_hostile(h, big, 1 << 16);
    }
    for (int round = 0; round < 2000; round++) { /* around the sizes of the caches */
        size_t size = next_random(&random) % 300;
        for (size_t i = 0; i < size; i++)
            big[i] = (char)(next_random(&random) >> (round & 1 ? 1 : 0));
        add_hostile(h, big, size);
    }
    free(big);
}

static int run(const char *command)
{
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void hostile_texts_are_what_python_reads(void **state)
{
    (void)state;
    if (run("python3 -c '' 2>/dev/null") != 0) {
        print_message("skipped: no python3\n");
        skip();
    }
    char directory[200], path[256], expected[256], command[1024];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/hostile.json.gz", directory);
    snprintf(expected, sizeof expected, "%s/expected", directory);
    hostile h = {builder(), fopen(expected, "w"), 0, 0, BASE};
    assert_non_null(h.expected);
    h.track = thread(h.b, 1);
    h.key = text(h.b, "key");
    add_hostiles(&h);
    fclose(h.expected);
    kineto_trace *t = finish(h.b);
    kineto_export_result result = {.size = sizeof result};
    assert_int_equal(kineto_trace_export_chrome(t, path, &result, NULL), KINETO_OK);
    assert_true(result.replaced_bytes > 1000);
    assert_int_equal(result.activities, kineto_trace_count(t));
    snprintf(command, sizeof command,
             "PYTHONIOENCODING=utf-8 python3 " CKINETO_SOURCE_DIR
             "/tests/unit/check_chrome.py %s %s > /dev/null",
             path, expected);
    assert_int_equal(run(command), 0);
    kineto_trace_release(t);
    /* The file says what was replaced. */
    assert_int_equal(kineto_trace_open(path, &t, NULL), KINETO_OK);
    kineto_ledger_line line;
    kineto_trace_ledger(t, kineto_trace_ledger_count(t) - 1, &line);
    assert_true(kb_string_equal(line.reason, kb_string("invalid UTF-8 replaced")));
    assert_int_equal(line.count, result.replaced_bytes);
    kineto_trace_release(t);
    unlink(path);
    unlink(expected);
    rmdir(directory);
}

/* ---- there and back -------------------------------------------------------------------------- */

static void assert_same_args(const kineto_trace *a, kineto_row x, const kineto_trace *b,
                             kineto_row y)
{
    kineto_args_iterator left;
    kineto_arg l, r;
    for (kineto_args_begin(a, x, &left); kineto_args_next(&left, &l);) {
        char key[64];
        snprintf(key, sizeof key, "%.*s", (int)l.key.size, l.key.data);
        assert_true(kineto_args_find(b, y, key, &r));
        if (l.type == KINETO_ARG_DOUBLE)
            assert_true(l.d == r.d);
        else if (l.type < KINETO_ARG_STRING)
            assert_true(l.u == r.u);
        else
            assert_true(kb_string_equal(l.text, r.text));
    }
}

/* Both have their rows in the order of the file: tracks without names of rows come last. */
static void assert_same_rows(const kineto_trace *a, const kineto_trace *b)
{
    kineto_row next = 0;
    uint32_t tracks = kineto_trace_track_count(a);
    assert_int_equal(kineto_trace_count(a), kineto_trace_count(b));
    for (uint32_t i = 0; i < 2 * tracks; i++) {
        kineto_track k, l;
        kineto_process p, q;
        kineto_trace_track(a, i % tracks, &k);
        if ((k.type == KINETO_TRACK_COUNTER || k.type == KINETO_TRACK_ASYNC) != (i >= tracks))
            continue;
        const kineto_row *rows = kineto_trace_track_rows(a, i % tracks);
        for (uint64_t n = 0; n < k.count; n++, next++) {
            kineto_activity x, y;
            kineto_trace_get(a, rows[n], &x);
            kineto_trace_get(b, next, &y);
            kineto_trace_track(b, y.track, &l);
            kineto_trace_process(a, k.process, &p);
            kineto_trace_process(b, l.process, &q);
            assert_int_equal(x.start_ns, y.start_ns);
            assert_int_equal(x.end_ns, y.end_ns);
            assert_true(kb_string_equal(x.name, y.name));
            assert_int_equal(x.kind, y.kind);
            assert_int_equal(x.form, y.form);
            assert_int_equal(x.flags, y.flags);
            assert_true(x.correlation_id == y.correlation_id && x.external_id == y.external_id);
            assert_true(x.async_id == y.async_id);
            assert_int_equal(k.id, l.id);
            assert_int_equal(k.type, l.type);
            assert_int_equal(k.count, l.count);
            assert_int_equal(p.pid, q.pid);
            assert_int_equal(p.is_device, q.is_device);
            assert_int_equal(kineto_trace_lane(a, rows[n]), kineto_trace_lane(b, next));
            assert_same_args(a, rows[n], b, next);
        }
    }
}

/* Can a flow bind to it in a file? Those lie at places: slices and instants do. */
static bool add_varied_row(kt_builder *b, const uint32_t *tracks, uint64_t *random)
{
    static const struct {
        uint32_t kind, form, track;
    } kinds[] = {{KINETO_KIND_CPU_OP, KINETO_FORM_SLICE, 0},
                 {KINETO_KIND_RUNTIME, KINETO_FORM_SLICE, 0},
                 {KINETO_KIND_CONCURRENT_KERNEL, KINETO_FORM_SLICE, 1},
                 {KINETO_KIND_GPU_MEMCPY, KINETO_FORM_SLICE, 2},
                 {KINETO_KIND_CPU_INSTANT_EVENT, KINETO_FORM_INSTANT, 0},
                 {KINETO_KIND_COUNTER, KINETO_FORM_COUNTER, 3},
                 {KINETO_KIND_USER_ANNOTATION, KINETO_FORM_ASYNC, 4},
                 {KINETO_KIND_PYTHON_FUNCTION, KINETO_FORM_SLICE, 5}};
    uint64_t pick = next_random(random) % KB_COUNT(kinds), bits = next_random(random);
    bool is_range = kinds[pick].form == KINETO_FORM_SLICE || kinds[pick].form == KINETO_FORM_ASYNC;
    bool counter = kinds[pick].form == KINETO_FORM_COUNTER;
    int64_t start = BASE + (int64_t)(next_random(random) % 20000);
    if (bits & 1 || counter)
        kt_args_put_double(b, text(b, "d"), (double)(int64_t)bits / 3.0);
    if (bits & 2 && !counter)
        kt_args_put_string(b, text(b, "s"), (kineto_string){"a\n\"\\\x01", 5});
    if (bits & 4 && !counter)
        kt_args_put_json(b, text(b, "j"), KINETO_ARG_JSON, kb_string("[1,{\"a\":\"b c\"}]"));
    if (bits & 8 && !counter)
        kt_args_put_uint(b, text(b, "u"), bits);
    kt_row row = {.start_ns = start,
                  .end_ns = is_range ? start + (int64_t)(bits >> 8 & 1023) : start,
                  .name = bits & 16 ? text(b, "one") : text(b, "t\xc3\xa9st\""),
                  .track = tracks[kinds[pick].track],
                  .kind = kinds[pick].kind,
                  .form = kinds[pick].form,
                  .correlation_id = counter || !(bits & 32) ? 0 : bits >> 6,
                  .external_id = counter || !(bits & 64) ? 0 : bits >> 7,
                  .async_id = kinds[pick].form == KINETO_FORM_ASYNC ? bits | 1 : 0,
                  .flags = is_range && bits & 128 ? KINETO_ACTIVITY_OPEN_END : 0};
    kt_append(b, &row);
    return row.form == KINETO_FORM_SLICE || row.form == KINETO_FORM_INSTANT;
}

static void reading_gives_back_what_was_written(void **state)
{
    (void)state;
    static const char *const names[] = {"t.json", "t.json.gz", "t.json.zst"};
    char directory[200], path[256];
    uint64_t random = 11;
    assert_non_null(make_directory(directory, sizeof directory));
    for (size_t round = 0; round < KB_COUNT(names); round++) {
        kt_builder *b = builder();
        uint32_t host = kt_process(b, false, 100, 0), same = kt_process(b, false, 100, 1);
        uint32_t device = kt_process(b, true, 100, 0);
        kt_process_set(
            b, host,
            &(kineto_process){
                .rank = 2, .name = kb_string("prog"), .host = kb_string("h\"1"), .ppid = 4});
        uint32_t tracks[] = {kt_track(b, host, KINETO_TRACK_THREAD, 5),
                             kt_track(b, device, KINETO_TRACK_STREAM, 5),
                             kt_track(b, device, KINETO_TRACK_STREAM, 6),
                             kt_track(b, host, KINETO_TRACK_COUNTER, 0),
                             kt_track(b, host, KINETO_TRACK_ASYNC, 9),
                             kt_track(b, same, KINETO_TRACK_THREAD, 5)};
        kineto_row places[800];
        size_t place_count = 0;
        for (kineto_row i = 0; i < 800; i++)
            if (add_varied_row(b, tracks, &random))
                places[place_count++] = i;
        for (uint64_t i = 0; i < 50; i++)
            kt_flow(b, 1 + (uint32_t)(i % 3), i / 2, places[next_random(&random) % place_count],
                    i % 2 == 0);
        kt_window(b, BASE - 5, BASE + 100000);
        kt_ledger_add(b, kb_string("s"), kb_string("r"), 5, true, kb_string("d\xc3\xa9"));
        kt_metadata(b, kb_string("k\""), kb_string("{\"a\": 1}"));
        kt_snapshot(b, &(kb_clock_snapshot){1, 2, 3, 4, 5, 6});
        kt_snapshot(b, &(kb_clock_snapshot){1000001, 1000002, 1000003, 1000004, 1000005, 6});
        kineto_trace *t = finish(b), *u;
        kineto_error err = {.message = ""};
        snprintf(path, sizeof path, "%s/%s", directory, names[round]);
        if (kineto_trace_save(t, path, &err) != KINETO_OK ||
            kineto_trace_open(path, &u, &err) != KINETO_OK)
            fail_msg("%s", err.message);
        assert_same_rows(t, u);
        assert_int_equal(kineto_trace_flow_count(u), kineto_trace_flow_count(t));
        int64_t start, end;
        kineto_trace_window(u, &start, &end);
        assert_int_equal(start, BASE - 5);
        assert_int_equal(end, BASE + 100000);
        assert_int_equal(kineto_trace_lost(u), 5);
        kineto_process p;
        kineto_trace_process(u, 0, &p);
        assert_int_equal(p.rank, 2);
        assert_int_equal(p.ppid, 4);
        assert_true(kb_string_equal(p.host, kb_string("h\"1")));
        kineto_string key, value;
        assert_int_equal(kineto_trace_metadata_count(u), 3); /* and what every header has */
        kineto_trace_metadata(u, 1, &key, &value);
        assert_true(kb_string_equal(key, kb_string("k\"")));
        assert_true(kb_string_equal(value, kb_string("{\"a\": 1}")));
        kineto_clock_snapshot s;
        assert_int_equal(kineto_trace_snapshot_count(u), 2);
        kineto_trace_snapshot(u, 1, &s);
        assert_int_equal(s.realtime_ns, 1000004);
        /* From then on nothing changes any more. */
        char *first = written(u, NULL);
        kineto_trace_release(t);
        assert_int_equal(kineto_trace_save(u, path, NULL), KINETO_OK);
        assert_int_equal(kineto_trace_open(path, &t, NULL), KINETO_OK);
        char *second = written(t, NULL);
        assert_string_equal(first, second);
        free(first);
        free(second);
        kineto_trace_release(t);
        kineto_trace_release(u);
        unlink(path);
    }
    rmdir(directory);
}

/* ---- files that cannot be written ------------------------------------------------------------ */

static kineto_trace *some_trace(int rows)
{
    kt_builder *b = builder();
    for (int i = 0; i < rows; i++)
        kt_append(
            b, &(kt_row){
                   .start_ns = i, .end_ns = i + 1, .track = thread(b, 1), .name = text(b, "name")});
    return finish(b);
}

static void unknown_extensions_are_refused_with_a_list(void **state)
{
    (void)state;
    kineto_trace *t = some_trace(1);
    kineto_error err;
    static const char *const names[] = {"/tmp/x.txt", "/tmp/x", "/tmp/x.gz", ".json",
                                        "/tmp/x.JSON"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        assert_int_equal(kineto_trace_save(t, names[i], &err), KINETO_E_UNSUPPORTED);
        assert_has(err.message, "a name may end in .json.gz");
    }
    assert_int_equal(kineto_trace_save(NULL, "x.json", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_trace_save(t, NULL, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
}

static void failures_name_the_file_and_leave_nothing(void **state)
{
    (void)state;
    char directory[200], path[300];
    struct stat info;
    kineto_error err;
    kineto_trace *t = some_trace(1000);
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/no/t.json", directory);
    assert_int_not_equal(kineto_trace_save(t, path, &err), KINETO_OK);
    assert_has(err.message, "t.json");
    snprintf(path, sizeof path, "%s/t.json", directory);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(kineto_trace_save(t, path, &err), KINETO_OK);
    assert_has(err.message, "t.json");
    assert_int_equal(stat(path, &info), 0);
    assert_true(S_ISDIR(info.st_mode));
    rmdir(path);
    if (access("/dev/full", W_OK) == 0)
        assert_int_equal(kineto_trace_export_chrome(t, "/dev/full", NULL, &err), KINETO_E_IO);
    if (geteuid() != 0) {
        chmod(directory, 0500);
        assert_int_equal(kineto_trace_save(t, path, &err), KINETO_E_PERMISSION);
        chmod(directory, 0700);
    }
    kineto_trace_release(t);
    assert_int_equal(rmdir(directory), 0); /* it is empty */
}

/* In a child, whose files may not grow beyond 100 kB. */
static void a_full_disk_keeps_the_old_file(void **state)
{
    (void)state;
    char directory[200], path[300], content[16];
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/t.json", directory);
    FILE *old = fopen(path, "w");
    fputs("old", old);
    fclose(old);
    pid_t child = fork();
    if (child == 0) {
        kineto_error err = {.message = ""};
        kineto_trace *t = some_trace(20000);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){100000, 100000});
        kineto_status status = kineto_trace_save(t, path, &err);
        bool named = strstr(err.message, "t.json") != NULL;
        kineto_trace_release(t);
        _exit(status != KINETO_OK && named ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read_whole(path, content, sizeof content), 3);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_and_ends_are_kinetos),
        cmocka_unit_test(base_time_is_never_later_than_anything),
        cmocka_unit_test(times_survive_being_read_as_doubles),
        cmocka_unit_test(forms_are_written_and_ordered),
        cmocka_unit_test(device_work_has_its_place_and_order),
        cmocka_unit_test(no_two_share_a_pid_or_a_tid),
        cmocka_unit_test(what_overlaps_keeps_its_tid),
        cmocka_unit_test(tids_differ_in_their_lower_half),
        cmocka_unit_test(flows_follow_their_rows),
        cmocka_unit_test(flows_that_go_on_end_before_they_start),
        cmocka_unit_test(same_trace_gives_the_same_bytes),
        cmocka_unit_test(no_key_comes_twice),
        cmocka_unit_test(hostile_texts_are_what_python_reads),
        cmocka_unit_test(reading_gives_back_what_was_written),
        cmocka_unit_test(unknown_extensions_are_refused_with_a_list),
        cmocka_unit_test(failures_name_the_file_and_leave_nothing),
        cmocka_unit_test(a_full_disk_keeps_the_old_file),
    };
    return RUN_TESTS(tests);
}
