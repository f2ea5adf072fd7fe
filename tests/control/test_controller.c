/* The controller: from a text to calls of the driver and to notes for watchers. */
#include "controller_fixture.h"

#include <inttypes.h>

/* ---- by time ------------------------------------------------------------------------------------- */

static void a_window_by_time_is_as_long_as_asked(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char stages[32];
    uint64_t ticket = ask(f, "ACTIVITIES_DURATION_MSECS=20\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                             "REQUEST_TRACE_ID=abc\n");
    heard written = wait_note(f, ticket, KO_STAGE_WRITTEN), collect, process;
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 20 * MS);
    assert_string_equal(stages_of(f, ticket, stages), "AWCPw");
    assert_true(find_note(f, ticket, KO_STAGE_COLLECT, &collect));
    assert_true(find_note(f, ticket, KO_STAGE_PROCESS, &process));
    assert_int_equal(collect.time_ns, f->driver.start_ns);
    assert_int_equal(process.time_ns, f->driver.end_ns);
    assert_string_equal(written.trace_id, "abc");
    assert_int_equal(written.bytes, 1234);
    assert_non_null(strstr(written.path, "libkineto_activities_4321.json"));
    assert_int_equal(count_calls(&f->driver, DROP), 0);
    fixture_end(f);
}

static void a_start_time_is_met_to_the_nanosecond_and_armed_before(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char text[160];
    int64_t start_ms = now_ns() / MS + 160;
    snprintf(text, sizeof text,
             "PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=30\n"
             "ACTIVITIES_WARMUP_PERIOD_SECS=0\n",
             start_ms);
    fixture_turn(f);
    uint64_t ticket = ask(f, text);
    assert_int_equal(status_of(f).state, KS_ONDEMAND_PENDING);
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.start_ns, start_ms * MS);
    assert_int_equal(f->driver.end_ns, start_ms * MS + 30 * MS);
    assert_int_equal(f->driver.calls[1], ARM);
    assert_true(f->driver.at_ns[1] >= f->driver.start_ns - KS_ONDEMAND_ARM_NS);
    assert_true(f->driver.at_ns[1] < f->driver.start_ns);
    fixture_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_by_time_is_as_long_as_asked),
        cmocka_unit_test(a_start_time_is_met_to_the_nanosecond_and_armed_before),
    };
    return cmocka_run_group_tests_name("controller", tests, NULL, NULL);
}
