/* Errors, status names and the table of kinds. */
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
    assert_int_equal(kb_fail(NULL, KINETO_E_IO, "nobody listens"), KINETO_E_IO);
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

static void a_system_error_keeps_its_reason_behind_a_long_path(void **state)
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

static void neutral_names_come_first_and_in_order(void **state)
{
    (void)state;
#define KINETO_X(name, value, text, on)                                                            \
    assert_string_equal(kineto_kind_name(value), text);                                            \
    assert_int_equal(kb_kind_aliases[value].kind, value);
    KINETO_KIND_MAP(KINETO_X)
#undef KINETO_X
    assert_string_equal(kineto_kind_name(KINETO_KIND_COUNT), "unknown");
    assert_string_equal(kineto_kind_name(UINT32_MAX), "unknown");
}

static int kind_of(const char *name) { return kb_kind_parse(kb_string(name)); }

static void vendor_names_mean_neutral_kinds(void **state)
{
    (void)state;
    assert_int_equal(kind_of("cuda_runtime"), KINETO_KIND_RUNTIME);
    assert_int_equal(kind_of("HPU_OP"), KINETO_KIND_RUNTIME);
    assert_int_equal(kind_of("xpu_driver"), KINETO_KIND_DRIVER);
    assert_int_equal(kind_of("Mtia_Ccp_Events"), KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(kind_of("hardware_counters"), KINETO_KIND_GPU_PM_COUNTER);
    assert_int_equal(kind_of("xpu_sync"), KINETO_KIND_CUDA_SYNC);
    assert_int_equal(kind_of("Operator"), KINETO_KIND_CPU_OP);
    assert_int_equal(kind_of("Kernel"), KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(kind_of("kernels"), -1);
    assert_int_equal(kind_of("kerne"), -1);
    assert_int_equal(kind_of(""), -1);
}

static void every_plugin_number_but_invalid_has_a_kind(void **state)
{
    (void)state;
    assert_int_equal(kb_kind_from_plugin(0), -1);
    for (int32_t n = 1; n < 25; n++)
        assert_int_not_equal(kb_kind_from_plugin(n), -1);
    assert_int_equal(kb_kind_from_plugin(25), -1);
    assert_int_equal(kb_kind_from_plugin(-1), -1);
    assert_int_equal(kb_kind_from_plugin(6), KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(kb_kind_from_plugin(24), KINETO_KIND_DRIVER);
}

static void every_upstream_number_is_in_the_table_once_per_spelling(void **state)
{
    (void)state;
    for (int n = 0; n <= 28; n++) {
        int found = 0;
        for (size_t i = 0; i < kb_kind_alias_count; i++)
            found += kb_kind_aliases[i].upstream_number == n;
        assert_true(found > 0);
    }
}

static void lists_of_kinds_become_masks(void **state)
{
    (void)state;
    uint64_t mask = 0;
    assert_int_equal(kineto_kinds_parse(" CPU_OP , kernel,, ", &mask, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KIND_BIT(KINETO_KIND_CPU_OP) |
                               KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL));
    assert_int_equal(kineto_kinds_parse("default", &mask, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KINDS_DEFAULT);
    assert_false(mask & KINETO_KIND_BIT(KINETO_KIND_GPU_PM_COUNTER));
    assert_int_equal(kineto_kinds_parse("All", &mask, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KINDS_ALL);
}

static void a_bad_list_names_the_item_and_changes_nothing(void **state)
{
    (void)state;
    uint64_t mask = 42;
    kineto_error err;
    assert_int_equal(kineto_kinds_parse("kernel,colonel", &mask, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "'colonel'"));
    assert_int_equal(kineto_kinds_parse("", &mask, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_kinds_parse(" , ", &mask, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_kinds_parse(NULL, &mask, &err), KINETO_E_ARGUMENT);
    assert_int_equal(mask, 42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name_and_a_sentence),
        cmocka_unit_test(failing_fills_the_error_and_returns_the_code),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(a_system_error_keeps_its_reason_behind_a_long_path),
        cmocka_unit_test(neutral_names_come_first_and_in_order),
        cmocka_unit_test(vendor_names_mean_neutral_kinds),
        cmocka_unit_test(every_plugin_number_but_invalid_has_a_kind),
        cmocka_unit_test(every_upstream_number_is_in_the_table_once_per_spelling),
        cmocka_unit_test(lists_of_kinds_become_masks),
        cmocka_unit_test(a_bad_list_names_the_item_and_changes_nothing),
    };
    return RUN_TESTS(tests);
}
