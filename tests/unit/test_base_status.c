/* Errors and status names. */
#include "unit.h"

#include "base/base.h"

#include <errno.h>

static void every_status_has_a_name_and_a_sentence(void **state)
{
    (void)state;
    assert_string_equal(kineto_status_name(KINETO_OK), "OK");
    assert_string_equal(kineto_status_name(KINETO_E_LIMIT), "E_LIMIT");
    assert_string_equal(kineto_status_text(KINETO_E_FORMAT), "malformed data");
    assert_string_equal(kineto_status_name((kineto_status)77), "E_UNKNOWN");
    assert_string_equal(kineto_status_text((kineto_status)-77), "unknown status");
    assert_string_equal(kineto_version(), KINETO_VERSION);
}

static void failing_fills_the_error_and_returns_the_code(void **state)
{
    (void)state;
    kineto_error err = {.offset = 9, .os_error = 3};
    assert_int_equal(kb_fail(&err, KINETO_E_STATE, "file %s", "x"), KINETO_E_STATE);
    assert_int_equal(err.code, KINETO_E_STATE);
    assert_int_equal(err.os_error, 0);
    assert_int_equal(err.offset, 0);
    assert_string_equal(err.message, "file x");
    assert_int_equal(kb_fail(NULL, KINETO_E_IO, "no error to fill"), KINETO_E_IO);
    kb_fail(&err, KINETO_E_IO, "again: %s", err.message);
    assert_string_equal(err.message, "again: file x");
}

static void a_long_message_is_cut_between_characters(void **state)
{
    (void)state;
    kineto_error err;
    for (size_t lead = 0; lead < 4; lead++) {
        char text[700];
        memset(text, 'a', lead);
        for (size_t i = lead; i + 3 < sizeof(text); i += 3)
            memcpy(text + i, "\xe2\x82\xac", 4); /* the euro sign */
        kb_fail(&err, KINETO_E_IO, "%s", text);
        size_t n = strlen(err.message);
        assert_true(n >= sizeof(err.message) - 4);
        assert_int_equal(kb_utf8_valid_prefix(err.message, n), n);
    }
}

static void a_system_error_keeps_its_reason_after_a_long_path(void **state)
{
    (void)state;
    kineto_error err;
    char path[900];
    memset(path, 'p', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_int_equal(kb_fail_os(&err, ENOSPC, "cannot write '%s'", path), KINETO_E_IO);
    assert_non_null(strstr(err.message, ": No space left on device"));
    assert_int_equal(err.os_error, ENOSPC);
    assert_int_equal(kb_fail_os(&err, EACCES, "x"), KINETO_E_PERMISSION);
    assert_string_equal(err.message, "x: Permission denied");
    assert_int_equal(kb_fail_os(NULL, ENOENT, "x"), KINETO_E_NOT_FOUND);
    assert_int_equal(kb_fail_os(NULL, ENOMEM, "x"), KINETO_E_MEMORY);
}

static void out_of_memory_has_one_wording(void **state)
{
    (void)state;
    kineto_error err;
    assert_int_equal(kb_fail_memory(&err, "out/trace.json"), KINETO_E_MEMORY);
    assert_int_equal(err.code, KINETO_E_MEMORY);
    assert_string_equal(err.message, "out/trace.json: out of memory");
    assert_int_equal(kb_fail_memory(&err, NULL), KINETO_E_MEMORY);
    assert_string_equal(err.message, "out of memory");
    assert_int_equal(kb_fail_memory(NULL, "trace"), KINETO_E_MEMORY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_sentence),
        cmocka_unit_test(failing_fills_the_error_and_returns_the_code),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(out_of_memory_has_one_wording),
        cmocka_unit_test(a_system_error_keeps_its_reason_after_a_long_path),
    };
    return RUN_TESTS(tests);
}
