/* Requests as texts, configuration files, and what they come to. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>

#include "ondemand/request/request.h"

#define SECOND INT64_C(1000000000)
#define NOW    (INT64_C(1700000000) * SECOND)

static kineto_status parse_from(ko_request *r, const char *text, ko_request_source source,
                                kineto_error *err)
{
    return ko_request_parse(r, kb_string(text), source, NULL, NULL, err);
}

static ko_request parsed(const char *text)
{
    ko_request r;
    kineto_error err = {0};
    ko_request_init(&r);
    if (parse_from(&r, text, KO_FROM_ARGUMENT, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return r;
}

/* It is refused, `says` is in the message, and nothing has changed. */
static void refused(const char *text, const char *says)
{
    ko_request r, before;
    kineto_error err = {0};
    ko_request_init(&r);
    snprintf(r.log_file, sizeof r.log_file, "before");
    before = r;
    kineto_status status = parse_from(&r, text, KO_FROM_ARGUMENT, &err);
    assert_int_not_equal(status, KINETO_OK);
    assert_int_equal(status, err.code);
    if (!strstr(err.message, says))
        fail_msg("'%s' is not in '%s'", says, err.message);
    assert_memory_equal(&r, &before, sizeof r);
}

static void what_dyno_sends_is_read(void **state)
{
    (void)state;
    ko_request r = parsed("\n    ACTIVITIES_LOG_FILE=/tmp/x.json\nPROFILE_START_TIME=0\n"
                          "ACTIVITIES_DURATION_MSECS=500\nPROFILE_REPORT_INPUT_SHAPES=true\n"
                          "PROFILE_PROFILE_MEMORY=false\nPROFILE_WITH_STACK=true\n"
                          "PROFILE_WITH_FLOPS=false\nPROFILE_WITH_MODULES=true\n"
                          "    REQUEST_TRACE_ID=18446744073709551615\n");
    assert_string_equal(r.log_file, "/tmp/x.json");
    assert_string_equal(r.trace_id, "18446744073709551615");
    assert_int_equal(r.duration_ns, SECOND / 2);
    assert_int_equal(r.start_time_ns, 0);
    assert_true(r.enabled && r.record_shapes && r.with_stack && r.with_modules);
    assert_false(r.profile_memory || r.with_flops || r.memory_snapshot);
    assert_int_equal(r.iterations, -1);
    assert_int_equal(ko_request_complete(&r, NOW, NULL), KINETO_OK);
    assert_int_equal(r.warmup_ns, 5 * SECOND);
    assert_true(r.kinds == KINETO_KINDS_DEFAULT);
}

static void every_key_is_read_by_both_names_and_marked_as_given(void **state)
{
    (void)state;
    size_t count;
    const ko_request_key *keys = ko_request_keys(&count);
    for (size_t i = 0; i < 2 * count; i++) {
        const ko_request_key *key = &keys[i / 2];
        const char *name = i & 1 ? key->alias : key->name;
        char text[200];
        ko_request r;
        uint32_t unknown;
        if (!*name)
            continue;
        snprintf(text, sizeof text, "%s=%s", name, i / 2 == 1 ? "kernel" : "1");
        ko_request_init(&r);
        assert_int_equal(ko_request_parse(&r, kb_string(text), KO_FROM_FILE, NULL, &unknown, NULL),
                         KINETO_OK);
        assert_int_equal(unknown, 0);
        assert_true(r.given == UINT64_C(1) << i / 2);
        assert_int_equal(
            ko_request_parse(&r, kb_string(text), KO_FROM_REQUEST, NULL, &unknown, NULL),
            KINETO_OK);
        assert_int_equal(unknown, key->file_only);
        assert_true(*key->values && *key->initial && *key->text);
    }
}

static void numbers_have_the_range_of_libkineto(void **state)
{
    (void)state;
    assert_int_equal(parsed("ACTIVITIES_ITERATIONS=2147483647").iterations, 2147483647);
    assert_int_equal(parsed("ACTIVITIES_ITERATIONS=+7").iterations, 7);
    assert_int_equal(parsed("ACTIVITIES_ITERATIONS=-0").iterations, 0);
    assert_int_equal(parsed("ACTIVITIES_ITERATIONS=0000000000000000000000007").iterations, 7);
    assert_int_equal(parsed("ACTIVITIES_DURATION_SECS=2147483647").duration_ns,
                     2147483647 * SECOND);
    assert_int_equal(parsed("PROFILE_START_TIME=9223372036854").start_time_ns,
                     INT64_C(9223372036854000000));
    assert_int_equal(parsed("ACTIVITIES_MAX_GPU_BUFFER_SIZE_MB=2147483647").max_buffer_bytes,
                     INT64_C(2147483647) << 20);
    assert_int_equal(parsed("PROFILE_START_ITERATION_ROUNDUP=0").start_iteration_roundup, -1);
    static const char *const wrong[] = {"",
                                        "-1",
                                        "2147483648",
                                        "18446744073709551616",
                                        "99999999999999999999999999",
                                        "1.5",
                                        "x",
                                        "0x1",
                                        "1 2",
                                        "1e3",
                                        "--1",
                                        "+"};
    for (size_t i = 0; i < KB_COUNT(wrong); i++) {
        char text[100];
        snprintf(text, sizeof text, "ACTIVITIES_ITERATIONS=%s", wrong[i]);
        refused(text, "line 1: ACTIVITIES_ITERATIONS wants 0 to 2147483647, not '");
    }
    refused("PROFILE_START_TIME=9223372036855", "PROFILE_START_TIME wants 0 to 9223372036854 ms");
    refused("ON_DEMAND_CONFIG_UPDATE_INTERVAL_SECS=0", "wants 1 to");
    assert_string_equal(parsed("XPUPTI_PROFILER_MAX_SCOPES=9223372036854775807").custom,
                        "XPUPTI_PROFILER_MAX_SCOPES=9223372036854775807\n");
    refused("XPUPTI_PROFILER_MAX_SCOPES=9223372036854775808", "wants 0 to 9223372036854775807");
}

static void truth_has_ten_spellings(void **state)
{
    (void)state;
    static const char *const yes[] = {"y", "Y", "yes", "YES", "t", "T", "true", "True", "1"};
    static const char *const no[] = {"n", "N", "no", "nO", "f", "F", "false", "FALSE", "0"};
    static const char *const neither[] = {"", "on", "off", "2", "ye", "yess", "truee", "00", "-1"};
    char text[100];
    for (size_t i = 0; i < KB_COUNT(yes); i++) {
        snprintf(text, sizeof text, "PROFILE_WITH_STACK=%s", yes[i]);
        assert_true(parsed(text).with_stack);
        snprintf(text, sizeof text, "PROFILE_WITH_STACK=1\nPROFILE_WITH_STACK=%s", no[i]);
        assert_false(parsed(text).with_stack);
        snprintf(text, sizeof text, "PROFILE_WITH_STACK=%s", neither[i]);
        refused(text, "line 1: PROFILE_WITH_STACK wants true or false, not '");
    }
    assert_int_equal(parsed("").use_daemon, -1);
    assert_int_equal(parsed("ENABLE_IPC_FABRIC=no").use_daemon, 0);
    assert_int_equal(parsed("ENABLE_IPC_FABRIC=yes").use_daemon, 1);
}

static void blanks_carriage_returns_and_comments_do_not_count(void **state)
{
    (void)state;
    ko_request r = parsed("# first\r\n\r\n \t \n  PROFILE_WITH_STACK \t=\t true  # why\r\n"
                          "#PROFILE_WITH_FLOPS=1\nACTIVITIES_LOG_FILE= /tmp/a b.json\t\r\n"
                          "  # = here\r\nACTIVITIES_ITERATIONS=3\r");
    assert_true(r.with_stack);
    assert_false(r.with_flops);
    assert_string_equal(r.log_file, "/tmp/a b.json");
    assert_int_equal(r.iterations, 3);
}

static void values_may_hold_equal_signs_and_in_quotes_all_else(void **state)
{
    (void)state;
    assert_string_equal(parsed("ACTIVITIES_LOG_FILE=/tmp/lr=0.1/x.json#y").log_file,
                        "/tmp/lr=0.1/x.json");
    assert_string_equal(
        parsed("ACTIVITIES_LOG_FILE = \" /tmp/a=b #1 \\\"c\\\\d \" # comment\r\n").log_file,
        " /tmp/a=b #1 \"c\\d ");
    assert_string_equal(parsed("ACTIVITIES_LOG_FILE=/tmp/\"x\"").log_file, "/tmp/\"x\"");
    assert_string_equal(parsed("ACTIVITIES_LOG_FILE=\"\"").log_file, "");
    assert_int_equal(parsed("ACTIVITIES_ITERATIONS=\"3\"").iterations, 3);
    refused("\nACTIVITIES_LOG_FILE=\"/tmp/x", "line 2: ACTIVITIES_LOG_FILE: the closing quote");
    refused("ACTIVITIES_LOG_FILE=\"", "closing quote");
    refused("ACTIVITIES_LOG_FILE=\"\\\"", "closing quote");
    refused("ACTIVITIES_LOG_FILE=\"a\" b", "after the closing quote");
    refused("ACTIVITIES_LOG_FILE=\"a\\n\"", "backslash");
}

static void the_first_bad_line_is_named_and_nothing_is_taken(void **state)
{
    (void)state;
    refused("ACTIVITIES_LOG_FILE=/tmp/a\nPROFILE_WITH_STACK=1\nthis is no line\n",
            "line 3: 'this is no line' is not KEY=VALUE");
    refused("PROFILE_WITH_STACK=1\n=3\n", "line 2: no key");
    refused("\n\nACTIVITY_TYPES=cpu_op,kernle\n", "line 3: ACTIVITY_TYPES: unknown activity kind 'kernle'");
    refused("PROFILE_WITH_STACK=\x1b[2J\xff\x01", "not '?[2J?"
                                                  "?'");
    kineto_error err;
    ko_request r;
    ko_request_init(&r);
    assert_int_equal(parse_from(&r, "# a\nx\n", KO_FROM_FILE, &err), KINETO_E_ARGUMENT);
    assert_int_equal(err.offset, 4);
    assert_int_equal(parse_from(&r, "x", KO_FROM_FILE, NULL), KINETO_E_ARGUMENT);
}

static void unknown_keys_are_counted_and_the_first_is_said(void **state)
{
    (void)state;
    ko_request r;
    kb_text unknown;
    uint32_t count = 7;
    ko_request_init(&r);
    kineto_string text =
        kb_string("FUTURE=\"x\nactivities_iterations=3\nPROFILE_WITH_STACK=1\nENABLE_IPC_FABRIC=1");
    assert_int_equal(ko_request_parse(&r, text, KO_FROM_REQUEST, &unknown, &count, NULL), 0);
    assert_int_equal(count, 3);
    assert_string_equal(unknown.s, "FUTURE");
    assert_true(r.with_stack);
    assert_int_equal(r.iterations, -1);
    assert_int_equal(r.use_daemon, -1);
    text = kb_string("\xff\x1b"
                     "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    assert_int_equal(ko_request_parse(&r, text, KO_FROM_REQUEST, &unknown, &count, NULL), 0);
    assert_true(kb_string_starts_with(kb_string(unknown.s), "??AAAA"));
    assert_non_null(strstr(unknown.s, "…"));
}

static void bytes_that_are_no_text_are_refused_or_kept(void **state)
{
    (void)state;
    ko_request r;
    kineto_error err;
    ko_request_init(&r);
    static const char nul[] = "PROFILE_WITH_STACK=1\nACTIVITIES_LOG_FILE=/tmp/a\0b\n";
    kineto_string text = {nul, sizeof nul - 1};
    assert_int_equal(ko_request_parse(&r, text, KO_FROM_REQUEST, NULL, NULL, &err),
                     KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "line 2: NUL byte"));
    assert_false(r.with_stack);
    assert_string_equal(parsed("# \xff\xfe\nACTIVITIES_LOG_FILE=/tmp/\xe9.json").log_file,
                        "/tmp/\xe9.json");
    assert_int_equal(
        ko_request_parse(&r, (kineto_string){NULL, 0}, KO_FROM_REQUEST, NULL, NULL, &err), 0);
}

static void texts_that_are_too_long_are_refused(void **state)
{
    (void)state;
    size_t size = KO_REQUEST_TEXT_BYTES;
    char *text = malloc(size + 1);
    ko_request r;
    kineto_error err;
    ko_request_init(&r);
    memset(text, '#', size + 1);
    assert_int_equal(
        ko_request_parse(&r, (kineto_string){text, size}, KO_FROM_REQUEST, NULL, NULL, &err), 0);
    assert_int_equal(
        ko_request_parse(&r, (kineto_string){text, size + 1}, KO_FROM_REQUEST, NULL, NULL, &err),
        KINETO_E_LIMIT);
    for (size_t limit = 0; limit < 4; limit++) {
        static const char *const keys[] = {"ACTIVITIES_LOG_FILE", "REQUEST_TRACE_ID",
                                           "CUSTOM_CONFIG", "REQUEST_GROUP_TRACE_ID"};
        static const size_t most[] = {1023, 127, 1023 - 15, 127};
        size_t key = (size_t)snprintf(text, size, "%s=", keys[limit]);
        memset(text + key, 'a', most[limit] + 1);
        text[key + most[limit] + 1] = '\0';
        refused(text, keys[limit]);
        text[key + most[limit]] = '\0';
        (void)parsed(text);
    }
    size_t key = (size_t)snprintf(text, size, "ACTIVITIES_LOG_FILE=\"");
    memset(text + key, 'a', 5000);
    text[key + 5000] = '\0';
    refused(text, "longer than");
    key = (size_t)snprintf(text, size, "ACTIVITY_TYPES=");
    memset(text + key, ',', 5000);
    refused(text, "ACTIVITY_TYPES is longer than");
    free(text);
}

static void kinds_are_read_in_any_spelling(void **state)
{
    (void)state;
    assert_true(parsed("ACTIVITY_TYPES=cpu_op, CUDA_RUNTIME,,kernel").kinds ==
                (KINETO_KIND_BIT(KINETO_KIND_CPU_OP) | KINETO_KIND_BIT(KINETO_KIND_RUNTIME) |
                 KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL)));
    assert_true(parsed("ACTIVITY_TYPES=all\nACTIVITY_TYPES=").kinds == 0);
    assert_true(parsed("ACTIVITY_TYPES=all\nACTIVITY_TYPES=memory").kinds ==
                KINETO_KIND_BIT(KINETO_KIND_MEMORY));
}

static void the_last_of_two_durations_counts(void **state)
{
    (void)state;
    assert_int_equal(parsed("ACTIVITIES_DURATION_SECS=2\nACTIVITIES_DURATION_MSECS=3").duration_ns,
                     3000000);
    assert_int_equal(parsed("ACTIVITIES_DURATION_MSECS=3\nACTIVITIES_DURATION_SECS=2").duration_ns,
                     2 * SECOND);
}

static void keys_for_plugins_are_lines_and_replaced(void **state)
{
    (void)state;
    ko_request r = parsed("CUSTOM_CONFIG=a=1;b=2\nROCTRACER_MAX_EVENTS=7\n"
                          "CUPTI_PER_THREAD_BUFFER_ENABLED=Y\nCUSTOM_CONFIG=c\n");
    assert_string_equal(r.custom, "ROCTRACER_MAX_EVENTS=7\nCUPTI_PER_THREAD_BUFFER_ENABLED=true\n"
                                  "CUSTOM_CONFIG=c\n");
    ko_request under = parsed("ROCTRACER_MAX_EVENTS=9\nXPUPTI_PROFILER_METRICS=m1,m2\n");
    ko_request_layer(&r, &under);
    assert_non_null(strstr(r.custom, "ROCTRACER_MAX_EVENTS=7\n"));
    assert_non_null(strstr(r.custom, "XPUPTI_PROFILER_METRICS=m1,m2\n"));
    assert_null(strstr(r.custom, "=9"));
}

static void a_trace_request_turns_tracing_on(void **state)
{
    (void)state;
    ko_request off = parsed("ACTIVITIES_ENABLED=0"), plain = parsed("PROFILE_WITH_STACK=1");
    ko_request asking = parsed("ACTIVITIES_DURATION_MSECS=3\nACTIVITIES_ENABLED=0");
    kineto_error err;
    assert_false(off.enabled);
    assert_true(asking.enabled);
    ko_request_layer(&plain, &off);
    assert_false(plain.enabled);
    assert_int_equal(ko_request_complete(&plain, NOW, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "ACTIVITIES_ENABLED"));
    ko_request_layer(&asking, &off);
    assert_true(asking.enabled);
    ko_request on = parsed("ACTIVITIES_ENABLED=1");
    ko_request_layer(&on, &off);
    assert_true(on.enabled);
}

static void a_request_counts_before_a_file(void **state)
{
    (void)state;
    ko_request file = parsed("ACTIVITIES_DURATION_SECS=9\nPROFILE_WITH_STACK=1\n"
                             "PROFILE_WITH_FLOPS=1\nACTIVITIES_WARMUP_PERIOD_SECS=1\n"
                             "ACTIVITIES_LOG_FILE=/tmp/file.json\nENABLE_IPC_FABRIC=1\n");
    ko_request r = parsed("ACTIVITIES_DURATION_MSECS=3\nPROFILE_WITH_STACK=0\n");
    ko_request_layer(&r, &file);
    assert_int_equal(r.duration_ns, 3000000); /* another key, the same thing */
    assert_false(r.with_stack);
    assert_true(r.with_flops);
    assert_int_equal(r.warmup_ns, SECOND);
    assert_string_equal(r.log_file, "/tmp/file.json");
    assert_int_equal(r.use_daemon, 1);
    assert_int_equal(ko_request_complete(&r, NOW, NULL), KINETO_OK);
}

static void a_request_by_time_or_iteration_overrules_the_other_in_a_file(void **state)
{
    (void)state;
    ko_request iterations = parsed("ACTIVITIES_ITERATIONS=3\nPROFILE_START_ITERATION=5");
    ko_request seconds = parsed("ACTIVITIES_DURATION_SECS=9\nPROFILE_START_TIME=1700000001000");
    ko_request by_time = seconds, by_iteration = iterations;
    ko_request_layer(&by_time, &iterations);
    assert_int_equal(by_time.iterations, -1);
    assert_int_equal(by_time.start_iteration, -1);
    ko_request_layer(&by_iteration, &seconds);
    assert_int_equal(by_iteration.duration_ns, -1);
    assert_int_equal(by_iteration.start_time_ns, -1);
    assert_int_equal(ko_request_complete(&by_time, NOW, NULL), KINETO_OK);
    assert_int_equal(ko_request_complete(&by_iteration, NOW, NULL), KINETO_OK);
}

static void incomplete(const char *text, const char *says)
{
    ko_request r = parsed(text), before = r;
    kineto_error err = {0};
    assert_int_equal(ko_request_complete(&r, NOW, &err), KINETO_E_ARGUMENT);
    if (!strstr(err.message, says))
        fail_msg("'%s' is not in '%s'", says, err.message);
    assert_memory_equal(&r, &before, sizeof r);
}

static void what_contradicts_itself_is_refused(void **state)
{
    (void)state;
    incomplete("ACTIVITIES_DURATION_MSECS=0", "duration is 0");
    incomplete("PROFILE_START_ITERATION=3", "needs ACTIVITIES_ITERATIONS");
    incomplete("PROFILE_START_ITERATION=3\nACTIVITIES_ITERATIONS=0", "needs ACTIVITIES_ITERATIONS");
    incomplete("ACTIVITIES_ITERATIONS=3\nPROFILE_START_TIME=1700000000000", "START_ITERATION");
    incomplete("PROFILE_START_TIME=1699999989999", "was 10.001 s ago");
    incomplete("PROFILE_START_TIME=1", "ago");
    incomplete("PROFILE_START_TIME=9223372036854", "ms since 1970");
    incomplete("PROFILE_MEMORY=1\nPROFILE_MEMORY_DURATION_MSECS=0", "MEMORY_DURATION");
    ko_request late = parsed("PROFILE_START_TIME=1699999990000");
    assert_int_equal(ko_request_complete(&late, NOW, NULL), KINETO_OK);
    assert_int_equal(ko_request_complete(&late, INT64_MIN, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(ko_request_complete(&late, INT64_MAX, NULL), KINETO_E_ARGUMENT);
}

static void unset_options_have_the_defaults_of_libkineto(void **state)
{
    (void)state;
    ko_request r = parsed("");
    assert_int_equal(ko_request_complete(&r, NOW, NULL), KINETO_OK);
    assert_int_equal(r.duration_ns, SECOND / 2);
    assert_int_equal(r.max_buffer_bytes, 128 << 20);
    assert_int_equal(r.memory_snapshot_ns, SECOND);
    assert_int_equal(r.poll_interval_ns, 5 * SECOND);
    assert_int_equal(r.iterations, 0);
    assert_int_equal(r.start_iteration, -1);
    assert_int_equal(r.start_iteration_roundup, -1);
    assert_int_equal(r.use_daemon, -1);
    assert_int_equal(r.log_level, -1);
    r = parsed("ACTIVITIES_ITERATIONS=3\nPROFILE_START_ITERATION_ROUNDUP=10");
    assert_int_equal(ko_request_complete(&r, NOW, NULL), KINETO_OK);
    assert_int_equal(r.start_iteration, 0);
    assert_int_equal(r.start_iteration_roundup, 10);
    assert_int_equal(r.duration_ns, -1); /* as many as it takes */
    r = parsed("PROFILE_START_ITERATION=0\nACTIVITIES_ITERATIONS=3\nPROFILE_START_TIME=5");
    assert_int_equal(ko_request_complete(&r, NOW, NULL), KINETO_OK);
    assert_int_equal(r.start_time_ns, 0);
}

/* ---- texts of chance ------------------------------------------------------------------------- */

static size_t random_text(uint64_t *random, char *text, size_t size)
{
    static const char *const pieces[] = {"=",       "\"",   "\\",       "#",         "\n",
                                         "\r",      " ",    "1",        "-1",        "true",
                                         "kernel,", "\xff", "\xc3\xa9", "9999999999"};
    size_t count, used = 0, wanted = next_random(random) % size;
    const ko_request_key *keys = ko_request_keys(&count);
    while (used < wanted) {
        uint64_t pick = next_random(random) % 24;
        char byte[2] = {(char)next_random(random), 0};
        const char *piece = pick < KB_COUNT(pieces) ? pieces[pick]
                            : pick < 20             ? keys[next_random(random) % count].name
                            : pick < 22             ? "\nPROFILE_WITH_STACK="
                                                    : byte;
        size_t n = strlen(piece) + (pick >= 22 && byte[0] == 0);
        if (used + n > size)
            break;
        memcpy(text + used, piece, n);
        used += n;
    }
    return used;
}

static void any_text_is_read_or_refused_whole(void **state)
{
    (void)state;
    uint64_t random = 9;
    for (int i = 0, taken = 0; i < 60000; i++) {
        char room[700], *text;
        size_t size = random_text(&random, room, i & 1 ? sizeof room : 60);
        ko_request r, before;
        kineto_error err = {0};
        text = malloc(size ? size : 1); /* of its exact size, for the sanitizer */
        memcpy(text, room, size);
        ko_request_init(&r);
        before = r;
        if (ko_request_parse(&r, (kineto_string){text, size}, i % 3, NULL, NULL, &err) != 0) {
            assert_memory_equal(&r, &before, sizeof r);
            assert_int_equal(kb_utf8_valid_prefix(err.message, strlen(err.message)),
                             strlen(err.message));
        } else {
            taken++;
            ko_request_layer(&r, &before);
            (void)ko_request_complete(&r, NOW, NULL);
        }
        free(text);
        if (i == 59999)
            assert_true(taken > 1000);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static char directory[200], path[300];

static void write_file(const char *text, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

static void write_text(const char *text) { write_file(text, strlen(text)); }

/* As if it had been written long ago, and N seconds later. */
static void set_age(int64_t later)
{
    struct timespec times[2] = {{1000000 + later, 0}, {1000000 + later, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static int begin_files(void **state)
{
    (void)state;
    assert_non_null(make_directory(directory, sizeof directory));
    snprintf(path, sizeof path, "%s/kineto.conf", directory);
    return setenv("KINETO_CONFIG", path, 1);
}

static int end_files(void **state)
{
    (void)state;
    remove(path);
    return rmdir(directory);
}

static void a_file_is_read_when_it_changed(void **state)
{
    (void)state;
    ko_config_file f;
    ko_request r;
    bool changed;
    ko_config_file_init(&f);
    ko_request_init(&r);
    assert_string_equal(f.path, path);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_false(changed);
    write_text("PROFILE_WITH_STACK=1\n");
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_true(changed && r.with_stack);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_false(changed);
    write_text("PROFILE_WITH_FLOPS=1\n"); /* as long, maybe in the same tick of the clock */
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_true(changed && r.with_flops && !r.with_stack);
    set_age(0);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_false(changed); /* another time, the same text */
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_false(changed);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_true(changed && !r.with_flops && r.given == 0);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    assert_false(changed);
}

static void a_bad_file_is_said_once_and_what_held_goes_on(void **state)
{
    (void)state;
    ko_config_file f;
    ko_request r;
    kineto_error err;
    bool changed;
    ko_config_file_init(&f);
    ko_request_init(&r);
    write_text("PROFILE_WITH_STACK=1\n");
    assert_int_equal(ko_config_file_load(&f, &r, &changed, NULL), KINETO_OK);
    write_text("PROFILE_WITH_STACK=0\nPROFILE_WITH_FLOPS=maybe\n");
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, path));
    assert_non_null(strstr(err.message, "line 2: PROFILE_WITH_FLOPS"));
    assert_true(!changed && r.with_stack);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_OK);
    assert_true(!changed && r.with_stack);
    write_text("PROFILE_WITH_STACK=1\n");
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_OK);
    assert_true(changed && r.with_stack);
    char *large = malloc(KO_REQUEST_TEXT_BYTES + 1);
    memset(large, '\n', KO_REQUEST_TEXT_BYTES + 1);
    write_file(large, KO_REQUEST_TEXT_BYTES + 1);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_E_LIMIT);
    write_file(large, KO_REQUEST_TEXT_BYTES);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_OK);
    assert_true(changed && !r.with_stack);
    free(large);
}

static void what_is_not_a_file_blocks_no_other(void **state)
{
    (void)state;
    ko_config_file f;
    ko_request r;
    kineto_error err;
    bool changed;
    remove(path);
    ko_config_file_init(&f);
    ko_request_init(&r);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_E_ARGUMENT);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_E_ARGUMENT);
    assert_int_equal(rmdir(path), 0);
    char *longest = malloc(KO_REQUEST_PATH_BYTES + 1);
    memset(longest, 'a', KO_REQUEST_PATH_BYTES);
    longest[KO_REQUEST_PATH_BYTES] = '\0';
    setenv("KINETO_CONFIG", longest, 1);
    ko_config_file_init(&f);
    assert_int_equal(ko_config_file_load(&f, &r, &changed, &err), KINETO_E_ARGUMENT);
    free(longest);
    unsetenv("KINETO_CONFIG");
    ko_config_file_init(&f);
    assert_string_equal(f.path, "/etc/libkineto.conf");
    setenv("KINETO_CONFIG", path, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_dyno_sends_is_read),
        cmocka_unit_test(every_key_is_read_by_both_names_and_marked_as_given),
        cmocka_unit_test(numbers_have_the_range_of_libkineto),
        cmocka_unit_test(truth_has_ten_spellings),
        cmocka_unit_test(blanks_carriage_returns_and_comments_do_not_count),
        cmocka_unit_test(values_may_hold_equal_signs_and_in_quotes_all_else),
        cmocka_unit_test(the_first_bad_line_is_named_and_nothing_is_taken),
        cmocka_unit_test(unknown_keys_are_counted_and_the_first_is_said),
        cmocka_unit_test(bytes_that_are_no_text_are_refused_or_kept),
        cmocka_unit_test(texts_that_are_too_long_are_refused),
        cmocka_unit_test(kinds_are_read_in_any_spelling),
        cmocka_unit_test(the_last_of_two_durations_counts),
        cmocka_unit_test(keys_for_plugins_are_lines_and_replaced),
        cmocka_unit_test(a_trace_request_turns_tracing_on),
        cmocka_unit_test(a_request_counts_before_a_file),
        cmocka_unit_test(a_request_by_time_or_iteration_overrules_the_other_in_a_file),
        cmocka_unit_test(what_contradicts_itself_is_refused),
        cmocka_unit_test(unset_options_have_the_defaults_of_libkineto),
        cmocka_unit_test(any_text_is_read_or_refused_whole),
        cmocka_unit_test(a_file_is_read_when_it_changed),
        cmocka_unit_test(a_bad_file_is_said_once_and_what_held_goes_on),
        cmocka_unit_test(what_is_not_a_file_blocks_no_other),
    };
    return cmocka_run_group_tests(tests, begin_files, end_files);
}
