/* Plug-ins' numbers of kinds and kinds of their own: the table in the pool, the numbers of a
 * process, and what both become in a recording. */
#include "unit.h"

#include "record/host.h"

#include <pthread.h>

/* ---- the table of the pool --------------------------------------------------------------------- */

static uint32_t add(kf_own_kind *table, const char *name, uint32_t like)
{
    return kf_own_kind_add(table, kb_string(name), like, false);
}

static void the_same_name_has_one_kind(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT] = {{0}};
    uint32_t wave = add(table, "sim_wave", KINETO_KIND_CONCURRENT_KERNEL);
    assert_int_equal(wave, KINETO_KIND_OWN_FIRST);
    assert_int_equal(add(table, "sim_fence", KINETO_KIND_CUDA_SYNC), wave + 1);
    assert_int_equal(add(table, "sim_wave", KINETO_KIND_CPU_OP), wave);
    const kf_own_kind *k = kf_own_kind_at(table, wave);
    assert_non_null(k);
    assert_string_equal(k->name, "sim_wave");
    assert_int_equal(k->like, KINETO_KIND_CONCURRENT_KERNEL); /* who comes first decides */
    assert_int_equal(kf_own_kind_find(table, kb_string("SIM_Fence")), wave + 1);
    assert_int_equal(kf_own_kind_find(table, kb_string("sim_fenc")), 0);
    assert_int_equal(kf_own_kind_find(table, kb_string("")), 0);
}

static void names_are_words_of_up_to_39_bytes(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT] = {{0}};
    static const char *const bad[] = {
        "", "Wave", "a b", "a-b", "caf\xc3\xa9", "a234567890123456789012345678901234567890"};
    for (size_t i = 0; i < KB_COUNT(bad); i++)
        assert_int_equal(add(table, bad[i], 0), 0);
    assert_int_equal(add(table, "x", KINETO_KIND_COUNT), 0);
    assert_int_equal(kf_own_kind_add(table, (kineto_string){"a\0b", 3}, 0, false), 0);
    const char *longest = "a23456789012345678901234567890123456789";
    assert_int_equal(add(table, longest, 0), KINETO_KIND_OWN_FIRST);
    assert_int_equal(kf_own_kind_find(table, kb_string(longest)), KINETO_KIND_OWN_FIRST);
}

static void a_full_table_refuses_new_names_only(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT] = {{0}};
    char name[16];
    for (int i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        snprintf(name, sizeof name, "k%d", i);
        assert_int_equal(add(table, name, 0), KINETO_KIND_OWN_FIRST + i);
    }
    assert_int_equal(add(table, "one_more", 0), 0);
    assert_int_equal(add(table, "k31", 0), 63);
    assert_int_equal(kf_own_kind_find(table, kb_string("K31")), 63);
}

/* Who died while writing leaves a hole, and stops no other. */
static void unfinished_entries_are_passed_over(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT] = {{.state = 1, .name = "half"}};
    assert_null(kf_own_kind_at(table, 32));
    assert_int_equal(add(table, "half", 0), 33);
    assert_int_equal(kf_own_kind_find(table, kb_string("half")), 33);
}

static void a_hostile_table_gives_nothing(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT];
    memset(table, 0xff, sizeof table);
    for (uint32_t kind = 0; kind < 80; kind++)
        assert_null(kf_own_kind_at(table, kind));
    assert_int_equal(add(table, "x", 0), 0);
    for (uint32_t i = 0; i < KINETO_KIND_OWN_COUNT; i++) {
        table[i].state = 2;
        table[i].like = 3;
        memset(table[i].name, 'a', sizeof table[i].name); /* does not end */
    }
    assert_null(kf_own_kind_at(table, 40));
    table[8].name[5] = 0;
    assert_non_null(kf_own_kind_at(table, 40));
    table[8].name[2] = '"';
    assert_null(kf_own_kind_at(table, 40));
    assert_null(kf_own_kind_at(NULL, 40));
}

static void own_kinds_are_wanted_by_bit_or_by_default(void **state)
{
    (void)state;
    kf_own_kind table[KINETO_KIND_OWN_COUNT] = {{0}};
    uint32_t quiet = kf_own_kind_add(table, kb_string("quiet"), 0, false);
    uint32_t loud = kf_own_kind_add(table, kb_string("loud"), 0, true);
    assert_true(kf_kind_wanted(table, KINETO_KINDS_DEFAULT, loud));
    assert_false(kf_kind_wanted(table, KINETO_KINDS_DEFAULT, quiet));
    assert_true(kf_kind_wanted(table, KINETO_KINDS_ALL, quiet));
    assert_true(kf_kind_wanted(table, KINETO_KIND_BIT(quiet), quiet));
    assert_false(kf_kind_wanted(table, KINETO_KIND_BIT(quiet), loud));
    assert_false(kf_kind_wanted(table, KINETO_KINDS_NEUTRAL, loud));
    assert_false(kf_kind_wanted(table, KINETO_KINDS_DEFAULT, 50));
    assert_false(kf_kind_wanted(NULL, KINETO_KINDS_DEFAULT, loud));
    assert_true(kf_kind_wanted(NULL, KINETO_KINDS_DEFAULT, KINETO_KIND_CPU_OP));
    assert_false(kf_kind_wanted(table, KINETO_KINDS_DEFAULT, KINETO_KIND_GPU_PM_COUNTER));
    assert_false(kf_kind_wanted(table, UINT64_MAX, KINETO_KIND_COUNT));
    assert_false(kf_kind_wanted(table, UINT64_MAX, KINETO_KIND_OWN_DEFAULT));
    assert_false(kf_kind_wanted(table, UINT64_MAX, 64));
    assert_false(kf_kind_wanted(table, UINT64_MAX, UINT32_MAX));
}

#define RACERS 4
static kf_own_kind raced[KINETO_KIND_OWN_COUNT];

/* Each announces the same names, beginning with another one. */
static void *race(void *start)
{
    uint32_t *kinds = start;
    for (uint32_t i = 0; i < 16; i++) {
        char name[8];
        uint32_t n = (i + kinds[0]) % 16;
        snprintf(name, sizeof name, "r%u", n);
        kinds[1 + n] = add(raced, name, KINETO_KIND_OVERHEAD);
    }
    return NULL;
}

static void threads_that_announce_the_same_agree(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        pthread_t threads[RACERS];
        uint32_t kinds[RACERS][17];
        memset(raced, 0, sizeof raced);
        for (uint32_t t = 0; t < RACERS; t++) {
            kinds[t][0] = t * 4 % 8; /* two begin together */
            assert_int_equal(pthread_create(&threads[t], NULL, race, kinds[t]), 0);
        }
        for (int t = 0; t < RACERS; t++)
            assert_int_equal(pthread_join(threads[t], NULL), 0);
        for (uint32_t n = 0; n < 16; n++)
            for (int t = 1; t < RACERS; t++)
                assert_int_equal(kinds[t][1 + n], kinds[0][1 + n]);
        assert_null(kf_own_kind_at(raced, KINETO_KIND_OWN_FIRST + 16)); /* none is there twice */
    }
}

/* ---- published numbers -------------------------------------------------------------------------- */

static uint8_t kind_of(kr_revision revision, int32_t type)
{
    uint32_t index = kr_type_index(revision, type);
    return index == UINT32_MAX ? 0xff : kr_type_kind(index);
}

static void the_last_revisions_numbers_have_their_kinds(void **state)
{
    (void)state;
    for (int32_t n = 1; n < KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT; n++) {
        assert_int_equal(kr_type_index(KR_REVISION_B, n), n);
        assert_int_equal(kr_type_index(KR_REVISION_A, n), n);
        assert_int_equal(kind_of(KR_REVISION_B, n), kb_kind_from_plugin(n));
    }
    static const int32_t none[] = {0, -1, 26, 31, 32, 1023, INT32_MIN, INT32_MAX};
    for (size_t i = 0; i < KB_COUNT(none); i++)
        assert_int_equal(kr_type_index(KR_REVISION_B, none[i]), UINT32_MAX);
    assert_int_equal(kind_of(KR_REVISION_B, 25), KINETO_KIND_CUDA_EVENT); /* appended by us */
    static const int32_t runtimes[] = {8, 13, 17, 19, 20, 23};
    for (size_t i = 0; i < KB_COUNT(runtimes); i++)
        assert_int_equal(kind_of(KR_REVISION_B, runtimes[i]), KINETO_KIND_RUNTIME);
}

static void the_early_revision_has_other_numbers_from_13_on(void **state)
{
    (void)state;
    for (int32_t n = 0; n <= 12; n++)
        assert_int_equal(kr_type_index(KR_REVISION_EARLY, n), kr_type_index(KR_REVISION_B, n));
    assert_int_equal(kind_of(KR_REVISION_EARLY, 13), KINETO_KIND_CUDA_SYNC);
    assert_int_equal(kind_of(KR_REVISION_EARLY, 14), KINETO_KIND_GPU_PM_COUNTER);
    for (int32_t n = 15; n < 32; n++)
        assert_int_equal(kr_type_index(KR_REVISION_EARLY, n), UINT32_MAX);
}

static const char *spelling(uint32_t index, const char *vendor)
{
    uint8_t s = kr_type_spelling(index, vendor);
    return s == 0 ? "" : s <= kb_kind_alias_count ? kb_kind_aliases[s - 1].name : "none";
}

static void calls_are_spelled_as_their_vendor_does(void **state)
{
    (void)state;
    assert_string_equal(spelling(8, ""), "cuda_runtime"); /* a plug-in of the proposal's time */
    assert_string_equal(spelling(9, ""), "cuda_driver");
    assert_string_equal(spelling(8, "xpu"), "xpu_runtime");
    assert_string_equal(spelling(9, "xpu"), "xpu_driver");
    assert_string_equal(spelling(8, "privateuse1"), "privateuse1_runtime");
    assert_string_equal(spelling(8, "spyre"), ""); /* plain "runtime" */
    assert_string_equal(spelling(9, "mtia"), "");  /* there is no mtia_driver */
    assert_string_equal(
        spelling(8, "a vendor with a name that is longer than any buffer is for it"), "");
    assert_string_equal(spelling(20, ""), "xpu_runtime"); /* numbers that name their vendor */
    assert_string_equal(spelling(20, "spyre"), "xpu_runtime");
    assert_string_equal(spelling(13, ""), "mtia_runtime");
    assert_string_equal(spelling(14, ""), "mtia_ccp_events");
    assert_string_equal(spelling(19, ""), "hpu_op");
    assert_string_equal(spelling(24, ""), "privateuse1_driver");
    assert_string_equal(spelling(16, "xpu"), "xpu_sync");
    assert_string_equal(spelling(16, "spyre"), ""); /* plain "cuda_sync" */
    static const uint32_t neutral[] = {1, 4, 6, 10, 15, 18, 21, 22};
    for (size_t i = 0; i < KB_COUNT(neutral); i++)
        assert_string_equal(spelling(neutral[i], "xpu"), "");
    assert_string_equal(spelling(0, ""), "");
    assert_string_equal(spelling(25, ""), ""); /* cuda_event is its own name */
    assert_string_equal(spelling(26, ""), "");
    assert_string_equal(spelling(63, ""), "");
    assert_string_equal(spelling(8, NULL), "cuda_runtime");
}

static void numbers_have_names(void **state)
{
    (void)state;
    assert_string_equal(kineto_plugin_type_name(6), "kernel");
    assert_string_equal(kineto_plugin_type_name(8), "runtime");
    assert_string_equal(kineto_plugin_type_name(9), "driver");
    assert_string_equal(kineto_plugin_type_name(14), "mtia_ccp_events");
    assert_string_equal(kineto_plugin_type_name(23), "privateuse1_runtime");
    for (int32_t n = 1; n < KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT; n++)
        assert_non_null(kineto_plugin_type_name(n));
    assert_null(kineto_plugin_type_name(0));
    assert_string_equal(kineto_plugin_type_name(25), "cuda_event");
    assert_null(kineto_plugin_type_name(26));
    assert_null(kineto_plugin_type_name(2000));
}

/* ---- own numbers: one process, so one table for all that follows --------------------------------- */

static int announce(const KinetoPlugin_ActivityTypeInfo *types, size_t count, int32_t *first)
{
    KinetoPlugin_RegisterActivityTypes_Params params = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_RegisterActivityTypes_Params, firstEventType),
        .pTypes = types,
        .count = count};
    int result = kr_types_register(&params);
    *first = params.firstEventType;
    return result;
}

static void announced_kinds_have_numbers_names_and_bits(void **state)
{
    (void)state;
    const KinetoPlugin_ActivityTypeInfo types[] = {
        {"sim_wave", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CONCURRENT_KERNEL, 1},
        {"sim_fence", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CUDA_SYNC, 0}};
    int32_t first = 0, again = 0;
    uint64_t mask = 0;
    assert_int_equal(kineto_kinds_parse("sim_wave", &mask, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(announce(types, 2, &first), 0);
    assert_true(first >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST);
    assert_int_equal(announce(types, 2, &again), 0);
    assert_int_equal(again, first);
    assert_int_equal(announce(types + 1, 1, &again), 0);
    assert_int_equal(again, first + 1);
    assert_string_equal(kineto_plugin_type_name(first + 1), "sim_fence");
    assert_null(kineto_plugin_type_name(first + 2));
    uint8_t wave = kind_of(KR_REVISION_B, first), fence = kind_of(KR_REVISION_EARLY, first + 1);
    assert_in_range(wave, 32, 63);
    assert_in_range(fence, 32, 63);
    assert_int_not_equal(wave, fence);
    assert_int_equal(kineto_kinds_parse("kernel, SIM_Wave", &mask, NULL), KINETO_OK);
    assert_int_equal(mask, KINETO_KIND_BIT(wave) | KINETO_KIND_BIT(KINETO_KIND_CONCURRENT_KERNEL));
    assert_true(kf_kind_wanted(kineto_rt_own_kinds(), KINETO_KINDS_DEFAULT, wave));
    assert_false(kf_kind_wanted(kineto_rt_own_kinds(), KINETO_KINDS_DEFAULT, fence));
    const kf_own_kind *k = kf_own_kind_at(kineto_rt_own_kinds(), fence);
    assert_int_equal(k->like, KINETO_KIND_CUDA_SYNC);
    assert_string_equal(spelling(kr_type_index(KR_REVISION_B, first), "xpu"), "");
}

static void a_known_name_is_its_neutral_kind_with_that_spelling(void **state)
{
    (void)state;
    const KinetoPlugin_ActivityTypeInfo types[] = {
        {"xpu_driver", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CPU_OP, 1},
        {"cuda_event", KINETO_PLUGIN_PROFILE_EVENT_TYPE_CPU_OP, 1}};
    int32_t first;
    assert_int_equal(announce(types, 2, &first), 0);
    uint32_t index = kr_type_index(KR_REVISION_B, first);
    assert_int_equal(kr_type_kind(index), KINETO_KIND_DRIVER);
    assert_string_equal(spelling(index, ""), "xpu_driver");
    assert_int_equal(kr_type_kind(index + 1), KINETO_KIND_CUDA_EVENT);
    assert_string_equal(spelling(index + 1, ""), "");
    assert_int_equal(kf_own_kind_find(kineto_rt_own_kinds(), kb_string("xpu_driver")), 0);
    assert_int_equal(kineto_rt_own_kind("kernel", 0, true), 0);
    assert_int_equal(kineto_rt_own_kind("all", 0, true), 0);
    assert_int_equal(kineto_rt_own_kind(NULL, 0, true), 0);
}

static void what_is_not_an_announcement_is_refused_whole(void **state)
{
    (void)state;
    static const KinetoPlugin_ActivityTypeInfo bad[] = {
        {NULL, 6, 1},   {"", 6, 1},      {"Wave", 6, 1},  {"default", 6, 1}, {"all", 6, 1},
        {"wave", 0, 1}, {"wave", 26, 1}, {"wave", -1, 1}, {"a\"b", 6, 1}};
    int32_t first;
    for (size_t i = 0; i < KB_COUNT(bad); i++) {
        const KinetoPlugin_ActivityTypeInfo two[] = {{"never_there", 6, 1}, bad[i]};
        assert_int_not_equal(announce(two, 2, &first), 0);
    }
    assert_int_equal(kf_own_kind_find(kineto_rt_own_kinds(), kb_string("never_there")), 0);
    assert_int_not_equal(announce(bad, 0, &first), 0);
    assert_int_not_equal(announce(NULL, 1, &first), 0);
    assert_int_not_equal(kr_types_register(NULL), 0);
    KinetoPlugin_RegisterActivityTypes_Params small = {.unpaddedStructSize = 24, .pTypes = bad};
    assert_int_not_equal(kr_types_register(&small), 0);
}

/* What had a kind before there was a pool keeps it in this process' own pool. */
static void a_new_pool_learns_what_was_announced_before(void **state)
{
    (void)state;
    uint64_t before = 0, after = 0;
    assert_null(kineto_rt_pool());
    assert_int_equal(kineto_kinds_parse("sim_wave,sim_fence", &before, NULL), KINETO_OK);
    size_t bytes = kf_pool_size(1 << 20, 1 << 16);
    void *map = kb_os_map_shared(bytes, NULL);
    assert_non_null(map);
    kf_pool_format(map, 1 << 20, 1 << 16);
    assert_int_equal(kineto_rt_adopt(map, bytes, NULL), KINETO_OK);
    assert_ptr_equal(kineto_rt_own_kinds(), kineto_rt_pool()->control->own_kinds);
    assert_int_equal(kineto_kinds_parse("sim_wave,sim_fence", &after, NULL), KINETO_OK);
    assert_int_equal(before, after);
    uint32_t late = kineto_rt_own_kind("sim_late", KINETO_KIND_CPU_OP, true);
    assert_int_equal(kf_own_kind_find(kineto_rt_own_kinds(), kb_string("sim_late")), late);
}

static void numbers_run_out_and_say_so(void **state)
{
    (void)state;
    KinetoPlugin_ActivityTypeInfo types[33];
    char names[33][8];
    int32_t first, again;
    for (int i = 0; i < 33; i++) {
        snprintf(names[i], sizeof names[i], "n%d", i);
        types[i] = (KinetoPlugin_ActivityTypeInfo){names[i], 6, 0};
    }
    assert_int_not_equal(announce(types, 33, &first), 0);
    int given = 0;
    while (given < 33 && announce(&types[given], 1, &first) == 0)
        given++;
    assert_in_range(given, 20, 31);
    assert_int_equal(announce(&types[given - 1], 1, &again), 0); /* the old ones are still there */
    assert_int_equal(again, KINETO_PLUGIN_PROFILE_EVENT_TYPE_OWN_FIRST + 31);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_name_has_one_kind),
        cmocka_unit_test(names_are_words_of_up_to_39_bytes),
        cmocka_unit_test(a_full_table_refuses_new_names_only),
        cmocka_unit_test(unfinished_entries_are_passed_over),
        cmocka_unit_test(a_hostile_table_gives_nothing),
        cmocka_unit_test(own_kinds_are_wanted_by_bit_or_by_default),
        cmocka_unit_test(threads_that_announce_the_same_agree),
        cmocka_unit_test(the_last_revisions_numbers_have_their_kinds),
        cmocka_unit_test(the_early_revision_has_other_numbers_from_13_on),
        cmocka_unit_test(calls_are_spelled_as_their_vendor_does),
        cmocka_unit_test(numbers_have_names),
        cmocka_unit_test(announced_kinds_have_numbers_names_and_bits),
        cmocka_unit_test(a_known_name_is_its_neutral_kind_with_that_spelling),
        cmocka_unit_test(what_is_not_an_announcement_is_refused_whole),
        cmocka_unit_test(a_new_pool_learns_what_was_announced_before),
        cmocka_unit_test(numbers_run_out_and_say_so),
    };
    return RUN_TESTS(tests);
}
