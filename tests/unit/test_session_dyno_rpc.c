/* The RPC of dyno, byte for byte, and anything else as a request. */
#include "unit.h"

#include "ondemand/dynolog/dyno.h"

#include <time.h>

static ko_dyno_caller caller; /* may everything unless a test says otherwise */

static ko_dyno_registry *registry_of(int first, int last)
{
    ko_dyno_registry *r = ko_dyno_registry_create();
    for (int pid = first; pid <= last; pid++) {
        ko_dyno_message m = {.type = KO_DYNO_REQUEST, .pid_count = 2, .pids = {pid, 10}};
        assert_null(ko_dyno_registry_poll(r, &m, 0, 1));
    }
    return r;
}

static char *ask(ko_dyno_registry *r, const char *request)
{
    char *answer = NULL;
    size_t bytes = 0;
    /* At its exact size, so that a sanitizer sees reads past it. */
    size_t n = strlen(request);
    char *copy = malloc(n ? n : 1);
    memcpy(copy, request, n);
    kineto_status status = ko_dyno_rpc(r, &caller, (kineto_string){copy, n}, 1, &answer,
                                       &bytes, NULL);
    free(copy);
    assert_true((status == KINETO_OK || status == KINETO_E_PERMISSION) == (answer != NULL));
    if (answer)
        assert_int_equal(strlen(answer), bytes);
    return answer;
}

static void expect(ko_dyno_registry *r, const char *request, const char *answer)
{
    char *got = ask(r, request);
    if (!answer)
        assert_null(got);
    else if (!got)
        fail_msg("no answer to %s", request);
    else
        assert_string_equal(got, answer);
    free(got);
}

#define FN "\"fn\":\"setKinetOnDemandRequest\""

static void status_and_version_are_reported(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(1, 0);
    expect(r, "{\"fn\":\"getStatus\"}", "{\"status\":1}");
    expect(r, "\n{\n    \"fn\": \"getStatus\"\n}\n", "{\"status\":1}");
    expect(r, "{\"fn\":\"getVersion\"}", "{\"version\":\"ckineto " KINETO_VERSION "\"}");
    ko_dyno_registry_destroy(r);
}

/* Of ours only; of Dynolog's functions none tells it. */
static void the_time_is_reported(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(1, 0);
    unsigned long long before = kb_clock_ns(CLOCK_REALTIME), answered = 0;
    char *answer = ask(r, "{\"fn\":\"getTime\"}");
    assert_non_null(answer);
    assert_int_equal(sscanf(answer, "{\"time_ns\":%llu}", &answered), 1);
    assert_true(answered >= before && answered <= kb_clock_ns(CLOCK_REALTIME));
    free(answer);
    ko_dyno_registry_destroy(r);
}

/* As `dyno gputrace` writes it. */
static void a_trigger_of_dyno_is_answered_as_dynolog_does(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 24);
    const char request[] = "\n{\n    \"fn\": \"setKinetOnDemandRequest\",\n"
                           "    \"config\": \"ACTIVITIES_LOG_FILE=/tmp/a.json\\n"
                           "PROFILE_START_TIME=0\\nACTIVITIES_DURATION_MSECS=500\",\n"
                           "    \"job_id\": 0,\n    \"pids\": [0],\n    \"process_limit\": 3\n}";
    expect(r, request,
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[20,21,22],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],"
           "\"processesMatched\":[20,21,22,23,24]}");
    ko_dyno_message m = {.type = KO_DYNO_REQUEST, .wants = 2, .pid_count = 2, .pids = {21, 10}};
    char *text = ko_dyno_registry_poll(r, &m, 0, 1);
    assert_int_equal(strncmp(text,
                             "\n    ACTIVITIES_LOG_FILE=/tmp/a.json\nPROFILE_START_TIME=0\n"
                             "ACTIVITIES_DURATION_MSECS=500\n    REQUEST_TRACE_ID=",
                             100),
                     0);
    free(text);
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[20,21]}",
           "{\"activityProfilersBusy\":1,\"activityProfilersTriggered\":[21],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],"
           "\"processesMatched\":[20,21]}");
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[],\"job_id\":4294967296}",
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],\"processesMatched\":[]}");
    ko_dyno_registry_destroy(r);
}

static void what_is_missing_or_of_a_wrong_type_fails_in_words(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 20);
    expect(r, "{" FN ",\"pids\":[]}", "{\"status\":\"failed\"}");
    expect(r, "{" FN ",\"config\":\"\"}", "{\"status\":\"failed\"}");
#define WRONG(wanted, is)                                                                          \
    "{\"status\":\"failed with exception = [json.exception.type_error.302] type must be " wanted   \
    ", but is " is "\"}"
    expect(r, "{" FN ",\"config\":1,\"pids\":[]}", WRONG("string", "number"));
    expect(r, "{" FN ",\"config\":null,\"pids\":[]}", WRONG("string", "null"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":\"1\"}", WRONG("array", "string"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":{}}", WRONG("array", "object"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[[]]}", WRONG("number", "array"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[],\"job_id\":\"1\"}", WRONG("number", "string"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[],\"process_limit\":null}",
           WRONG("number", "null"));
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[-1]}",
           "{\"status\":\"failed with exception = invalid pid -1\"}");
    expect(r, "{" FN ",\"config\":\"a\\u0000b\",\"pids\":[]}",
           "{\"status\":\"failed with exception = a configuration is text: no NUL in it\"}");
    expect(r, "{" FN ",\"config\":\"\\ud800\",\"pids\":[]}",
           "{\"status\":\"failed with exception = configuration with half a surrogate pair\"}");
    /* None of them was a trigger. */
    expect(r, "{" FN ",\"config\":\"\",\"pids\":[],\"process_limit\":-5}",
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[20],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],\"processesMatched\":[20]}");
    ko_dyno_registry_destroy(r);
}

static void what_is_not_a_request_gets_no_answer(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 20);
    static const char *const bad[] = {
        "",
        "{",
        "{}",
        "[]",
        "1",
        "null",
        "\"getStatus\"",
        "{\"fn\":1}",
        "{\"fn\":\"\"}",
        "{\"fn\":\"getstatus\"}",
        "{\"fn\":\"getStatus\",}",
        "{\"fn\":\"getStatus\"} x",
        "{\"fn\":\"getStatus\"",
        "{\"fn\":\"getStatus\",\"x\":\"\xff\"}",
        "{\"fn\":{\"fn\":\"getStatus\"}}",
    };
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        expect(r, bad[i], NULL);
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    deep[100000] = '\0';
    expect(r, deep, NULL);
    free(deep);
    ko_dyno_registry_destroy(r);
}

static void numbers_that_fit_nothing_do_no_harm(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 20);
    static const char *const odd[] = {"1e999",
                                      "-1e999",
                                      "1e-999",
                                      "true",
                                      "9223372036854775808",
                                      "123456789012345678901234567890",
                                      "-0",
                                      "0.5"};
    for (size_t i = 0; i < KB_COUNT(odd); i++) {
        char request[512];
        snprintf(request, sizeof request,
                 "{" FN ",\"config\":\"\",\"pids\":[30,%s],\"job_id\":%s,\"process_limit\":%s}",
                 odd[i], odd[i], odd[i]);
        char *answer = ask(r, request);
        assert_non_null(answer);
        free(answer);
    }
    ko_dyno_registry_destroy(r);
}

static void any_bytes_are_answered_or_not_and_never_more(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 29);
    static const char good[] =
        "{" FN ",\"config\":\"A=\\u00e4\\n\",\"pids\":[20,21,0],\"job_id\":0,\"process_limit\":3}";
    uint64_t seed = 5;
    for (int i = 0; i < FEWER(100000, 20000); i++) {
        char text[sizeof good];
        memcpy(text, good, sizeof good);
        size_t size = next_random(&seed) % sizeof good;
        for (uint64_t k = next_random(&seed) % 4; k > 0; k--)
            text[next_random(&seed) % (sizeof good - 1)] = (char)next_random(&seed);
        if (next_random(&seed) % 2)
            size = sizeof good - 1;
        char *answer = NULL, *copy = malloc(size ? size : 1);
        size_t bytes = 0;
        memcpy(copy, text, size);
        (void)ko_dyno_rpc(r, &caller, (kineto_string){copy, size}, 1, &answer, &bytes, NULL);
        if (answer)
            assert_true(kb_json_valid((kineto_string){answer, bytes}));
        free(answer);
        free(copy);
    }
    ko_dyno_registry_destroy(r);
}

/* ---- next to dyno's own ------------------------------------------------------------------------- */

static void processes_are_listed_with_when_they_asked(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 21);
    ko_dyno_message other = {.type = KO_DYNO_REQUEST, .job = -7, .pid_count = 1, .pids = {5}};
    assert_null(ko_dyno_registry_poll(r, &other, 1000, 1));
    expect(r, "{" FN ",\"config\":\"A\",\"pids\":[21]}",
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[21],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],\"processesMatched\":[21]}");
    expect(r, "{\"fn\":\"listProcesses\"}",
           "{\"processes\":[{\"job_id\":-7,\"pid\":5,\"pids\":[5],\"seen_ms_ago\":0,\"user\":1000,"
           "\"waits\":false},{\"job_id\":0,\"pid\":20,\"pids\":[10,20],\"seen_ms_ago\":0,"
           "\"user\":0,\"waits\":false},{\"job_id\":0,\"pid\":21,\"pids\":[10,21],"
           "\"seen_ms_ago\":0,\"user\":0,\"waits\":true}]}");
    ko_dyno_registry_destroy(r);
}

static void pausing_is_answered_as_without_dcgm(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(1, 0);
    expect(r, "{\"fn\":\"dcgmProfPause\",\"duration_s\":300}", "{\"status\":false}");
    expect(r, "{\"fn\":\"dcgmProfPause\"}", "{\"status\":\"failed\"}");
    expect(r, "{\"fn\":\"dcgmProfPause\",\"duration_s\":\"x\"}",
           "{\"status\":\"failed with exception = [json.exception.type_error.302] type must be "
           "number, but is string\"}");
    expect(r, "{\"fn\":\"dcgmProfResume\"}", "{\"status\":false}");
    ko_dyno_registry_destroy(r);
}

#define ASKS_FOR "{\"status\":\"failed: permission denied: this daemon requires its token\"}"
#define ANOTHER  "{\"status\":\"failed: permission denied: this daemon has another token\"}"

static void without_the_token_nothing_is_done(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 21);
    caller = (ko_dyno_caller){.token = "0123456789abcdef"};
    static const char *const functions[] = {
        FN ",\"config\":\"A\",\"pids\":[]", "\"fn\":\"listProcesses\"",
        "\"fn\":\"getStatus\"", "\"fn\":\"getVersion\"", "\"fn\":\"unknown\""};
    static const char *const wrong[] = {"\"0123456789abcdeg\"", "\"0123456789abcde\"",
                                        "\"0123456789abcdef0\"", "\"\""};
    char request[256];
    for (size_t i = 0; i < KB_COUNT(functions); i++) {
        snprintf(request, sizeof request, "{%s}", functions[i]);
        expect(r, request, ASKS_FOR);
        snprintf(request, sizeof request, "{%s,\"token\":[\"0123456789abcdef\"]}", functions[i]);
        expect(r, request, ASKS_FOR);
        for (size_t k = 0; k < KB_COUNT(wrong); k++) {
            snprintf(request, sizeof request, "{%s,\"token\":%s}", functions[i], wrong[k]);
            expect(r, request, ANOTHER);
        }
    }
    expect(r, "{\"token\":\"01234567\\u00389abcdef\",\"fn\":\"getStatus\"}", "{\"status\":1}");
    expect(r, "{\"token\":\"0123456789abcdef\",\"fn\":\"unknown\"}", NULL);
    caller = (ko_dyno_caller){0};
    expect(r, "{" FN ",\"config\":\"A\",\"pids\":[],\"process_limit\":0}",
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],"
           "\"processesMatched\":[20,21]}"); /* nothing waited: else they were busy */
    ko_dyno_registry_destroy(r);
}

static void a_user_reaches_processes_of_its_own(void **state)
{
    (void)state;
    ko_dyno_registry *r = registry_of(20, 20);
    ko_dyno_message own = {.type = KO_DYNO_REQUEST, .pid_count = 2, .pids = {20, 10}};
    assert_null(ko_dyno_registry_poll(r, &own, 1000, 1));
    caller = (ko_dyno_caller){.one_user = true, .user = 1000};
    expect(r, "{\"fn\":\"listProcesses\"}",
           "{\"processes\":[{\"job_id\":0,\"pid\":20,\"pids\":[10,20],\"seen_ms_ago\":0,"
           "\"user\":1000,\"waits\":false}]}");
    expect(r, "{" FN ",\"config\":\"A\",\"pids\":[10]}",
           "{\"activityProfilersBusy\":0,\"activityProfilersTriggered\":[20],"
           "\"eventProfilersBusy\":0,\"eventProfilersTriggered\":[],\"processesMatched\":[20]}");
    assert_null(ko_dyno_registry_poll(
        r, &(ko_dyno_message){.wants = 2, .type = KO_DYNO_REQUEST, .pid_count = 2, .pids = {20, 10}},
        0, 1));
    caller.denied = "because";
    expect(r, "{\"fn\":\"getStatus\"}", "{\"status\":\"failed: permission denied: because\"}");
    caller = (ko_dyno_caller){0};
    ko_dyno_registry_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(status_and_version_are_reported),
        cmocka_unit_test(the_time_is_reported),
        cmocka_unit_test(a_trigger_of_dyno_is_answered_as_dynolog_does),
        cmocka_unit_test(what_is_missing_or_of_a_wrong_type_fails_in_words),
        cmocka_unit_test(what_is_not_a_request_gets_no_answer),
        cmocka_unit_test(numbers_that_fit_nothing_do_no_harm),
        cmocka_unit_test(any_bytes_are_answered_or_not_and_never_more),
        cmocka_unit_test(processes_are_listed_with_when_they_asked),
        cmocka_unit_test(pausing_is_answered_as_without_dcgm),
        cmocka_unit_test(without_the_token_nothing_is_done),
        cmocka_unit_test(a_user_reaches_processes_of_its_own),
    };
    return RUN_TESTS(tests);
}
