/* The table of kinds with every spelling of them, and lists of kinds. */
#include "unit.h"

#include "base/base.h"

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
    for (int32_t n = 1; n < 26; n++)
        assert_int_not_equal(kb_kind_from_plugin(n), -1);
    assert_int_equal(kb_kind_from_plugin(26), -1);
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

/* What the public list of old names says, the table says. */
static void every_alias_is_a_row_of_its_neutral_kind(void **state)
{
    (void)state;
    size_t aliases = 0;
#define KINETO_X(name, neutral)                                                                    \
    assert_int_equal(kind_of(#name), KINETO_KIND_##neutral);                                       \
    assert_int_equal(KINETO_KIND_##name, KINETO_KIND_##neutral);                                   \
    assert_true(kb_kind_row(kb_string(#name)) >= KINETO_KIND_COUNT);                               \
    aliases++;
    KINETO_KIND_ALIAS_MAP(KINETO_X)
#undef KINETO_X
    assert_int_equal(aliases, 14);
}

static void a_spelling_has_one_row_in_lower_case(void **state)
{
    (void)state;
    assert_true(kb_kind_alias_count <= UINT8_MAX - 1); /* recordings store 1 + row in a byte */
    for (size_t i = 0; i < kb_kind_alias_count; i++)
        assert_int_equal(kb_kind_row(kb_string(kb_kind_aliases[i].name)), i);
}

/* Recordings store row numbers: these have been given away. */
static void rows_stay_where_they_were(void **state)
{
    (void)state;
    static const char *const names[] = {"concurrent_kernel",
                                        "cuda_runtime",
                                        "cuda_driver",
                                        "mtia_runtime",
                                        "mtia_ccp_events",
                                        "mtia_counters",
                                        "glow_runtime",
                                        "hpu_op",
                                        "xpu_runtime",
                                        "xpu_driver",
                                        "privateuse1_runtime",
                                        "privateuse1_driver",
                                        "xpu_scope_profiler",
                                        "xpu_sync",
                                        "hardware_counters",
                                        "operator",
                                        "memcpy",
                                        "memset"};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        assert_string_equal(kb_kind_aliases[KINETO_KIND_COUNT + i].name, names[i]);
}

#define BIT(name) KINETO_KIND_BIT(KINETO_KIND_##name)

static void lists_of_kinds_become_masks(void **state)
{
    (void)state;
    uint64_t mask = 0;
    assert_int_equal(kb_kinds_parse(" CPU_OP , kernel,, ", &mask, NULL, NULL), KINETO_OK);
    assert_int_equal(mask, BIT(CPU_OP) | BIT(CONCURRENT_KERNEL));
    assert_int_equal(kb_kinds_parse("default", &mask, NULL, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KINDS_DEFAULT);
    assert_false(mask & BIT(GPU_PM_COUNTER));
    assert_int_equal(kb_kinds_parse("All", &mask, NULL, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KINDS_ALL);
    assert_int_equal(kb_kinds_parse("default,xpu_scope_profiler", &mask, NULL, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KINDS_DEFAULT | BIT(GPU_PM_COUNTER));
}

static kineto_string asked[4];
static size_t asked_count;

static uint64_t only_wave(kineto_string name)
{
    asked[asked_count++ % KB_COUNT(asked)] = name;
    return kb_string_equal(name, kb_string("Wave")) ? UINT64_C(1) << 40 : 0;
}

static void names_that_are_in_no_row_are_asked_for(void **state)
{
    (void)state;
    uint64_t mask = 0;
    asked_count = 0;
    assert_int_equal(kb_kinds_parse("kernel, Wave ,all", &mask, only_wave, NULL), KINETO_OK);
    assert_int_equal(asked_count, 1); /* neither kernel nor all */
    assert_int_equal(kb_kinds_parse("Wave", &mask, only_wave, NULL), KINETO_OK);
    assert_int_equal(mask, UINT64_C(1) << 40);
    assert_int_equal(kb_kinds_parse("wavy", &mask, only_wave, NULL), KINETO_E_ARGUMENT);
}

static void a_bad_list_names_the_item_and_changes_nothing(void **state)
{
    (void)state;
    uint64_t mask = 42;
    kineto_error err;
    assert_int_equal(kb_kinds_parse("kernel,wavefront", &mask, NULL, &err), KINETO_E_ARGUMENT);
    assert_non_null(strstr(err.message, "'wavefront'"));
    assert_non_null(strstr(err.message, "`ckineto plugin list`"));
    assert_int_equal(kb_kinds_parse("", &mask, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kb_kinds_parse(" , ", &mask, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kb_kinds_parse(NULL, &mask, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kb_kinds_parse("kernel", NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(mask, 42);
    char longest[300];
    memset(longest, 'k', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_int_equal(kb_kinds_parse(longest, &mask, NULL, &err), KINETO_E_ARGUMENT);
    assert_true(strlen(err.message) < 250);
}

static void what_may_have_been_meant_is_named(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"kernl", "'kernel'"},
                                           {"KERNELS", "'kernel'"},
                                           {"cuda-runtime", "'cuda_runtime'"},
                                           {"gpu_memcopy", "'gpu_memcpy'"},
                                           {"pyhton_function", "'python_function'"},
                                           {"cpuop", "'cpu_op'"},
                                           {"hpu_ops", "'hpu_op'"}};
    for (size_t i = 0; i < KB_COUNT(pairs); i++) {
        uint64_t mask;
        kineto_error err;
        assert_int_equal(kb_kinds_parse(pairs[i][0], &mask, NULL, &err), KINETO_E_ARGUMENT);
        if (!strstr(err.message, pairs[i][1]) || !strstr(err.message, "did you mean"))
            fail_msg("%s: %s", pairs[i][0], err.message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(neutral_names_come_first_and_in_order),
        cmocka_unit_test(vendor_names_mean_neutral_kinds),
        cmocka_unit_test(every_plugin_number_but_invalid_has_a_kind),
        cmocka_unit_test(every_upstream_number_is_in_the_table_once_per_spelling),
        cmocka_unit_test(every_alias_is_a_row_of_its_neutral_kind),
        cmocka_unit_test(a_spelling_has_one_row_in_lower_case),
        cmocka_unit_test(rows_stay_where_they_were),
        cmocka_unit_test(lists_of_kinds_become_masks),
        cmocka_unit_test(names_that_are_in_no_row_are_asked_for),
        cmocka_unit_test(a_bad_list_names_the_item_and_changes_nothing),
        cmocka_unit_test(what_may_have_been_meant_is_named),
    };
    return RUN_TESTS(tests);
}
