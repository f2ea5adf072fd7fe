/* What plug-ins share among events, and what they say of them in words: sets of metadata, and lines
 * of the ledger. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"
#include "record/host.h"
#include "record/record.h"

#include "../helpers/plugins.h"

/* ---- sets ---------------------------------------------------------------------------------------- */

static KinetoPlugin_Metadata int_value(const char *key, int64_t value)
{
    return (KinetoPlugin_Metadata){key, KINETO_PLUGIN_VALUE_INT, 0, {.i = value}};
}

static KinetoPlugin_Metadata text_value(const char *key, const char *value)
{
    return (KinetoPlugin_Metadata){
        key, KINETO_PLUGIN_VALUE_STRING, (uint32_t)strlen(value), {.pointer = value}};
}

static uint32_t set_of(const fake *f, const KinetoPlugin_Metadata *list, size_t count)
{
    uint32_t set = 0;
    assert_int_equal(f->live->registerMetadataSet(f->live->pTraceBuilderHandle, list, count, &set),
                     0);
    assert_true(set > 0);
    return set;
}

static int emit_with(const fake *f, const char *name, uint32_t set,
                     const KinetoPlugin_Metadata *own, uint32_t count)
{
    KinetoPlugin_Activity a = activity_of(TYPE(CONCURRENT_KERNEL), name);
    a.unpaddedStructSize = SIZE_TO(Activity, metadataSet);
    a.metadataSet = set;
    a.pMetadata = own;
    a.metadataCount = count;
    return f->live->emit(f->live->pTraceBuilderHandle, &a);
}

/* "key=value" of all args in their order. */
static const char *args_of(const kineto_trace *t, const char *name)
{
    static char text[2000];
    kineto_args_iterator it;
    kineto_arg arg;
    size_t n = 0;
    text[0] = 0;
    kineto_args_begin(t, find_nth(t, name, 0).row, &it);
    while (kineto_args_next(&it, &arg)) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=", n ? " " : "", (int)arg.key.size,
                              arg.key.data);
        n += arg.type < KINETO_ARG_STRING
                 ? (size_t)snprintf(text + n, sizeof text - n, "%lld", (long long)arg.i)
                 : (size_t)snprintf(text + n, sizeof text - n, "%.*s", (int)arg.text.size,
                                    arg.text.data);
    }
    return text;
}

static void values_of_a_set_come_before_the_events_own(void **state)
{
    (void)state;
    fake *f = enter(0, "sets");
    kineto_session *s = record();
    const int64_t grid[] = {1, 2, 3};
    const KinetoPlugin_Metadata values[] = {
        int_value("registers", 32),
        text_value("limit", "WARPS"),
        {"grid", KINETO_PLUGIN_VALUE_INTS, 3, {.pointer = grid}},
    };
    const KinetoPlugin_Metadata own[] = {int_value("own", 5), int_value("registers", 7)};
    uint32_t set = set_of(f, values, 3);
    assert_int_equal(emit_with(f, "only shared", set, NULL, 0), 0);
    assert_int_equal(emit_with(f, "both", set, own, 2), 0);
    assert_int_equal(emit_with(f, "only own", 0, own, 1), 0);
    kineto_trace *t = finish(s);
    assert_string_equal(args_of(t, "only shared"), "registers=32 limit=WARPS grid=[1,2,3]");
    /* a key stands once, and the set's comes first */
    assert_string_equal(args_of(t, "both"), "registers=32 limit=WARPS grid=[1,2,3] own=5");
    assert_string_equal(args_of(t, "only own"), "own=5");
    assert_int_equal(kineto_trace_lost(t), 0);
    kineto_trace_release(t);
    leave(0);
}

static void the_same_values_have_one_number_and_others_another(void **state)
{
    (void)state;
    fake *f = enter(0, "same");
    kineto_session *s = record();
    const KinetoPlugin_Metadata a[] = {int_value("a", 1), int_value("b", 2)};
    const KinetoPlugin_Metadata b[] = {int_value("a", 1), int_value("b", 3)};
    const KinetoPlugin_Metadata c[] = {int_value("b", 2), int_value("a", 1)};
    uint32_t first = set_of(f, a, 2);
    assert_int_equal(set_of(f, a, 2), first);
    assert_int_not_equal(set_of(f, b, 2), first);
    assert_int_not_equal(set_of(f, c, 2), first);
    assert_int_not_equal(set_of(f, a, 1), first);
    assert_int_equal(set_of(f, a, 2), first);
    kineto_trace_release(finish(s));
    s = record(); /* and they take no room in every session */
    uint32_t before = kr_pool_get()->control->dictionary_used;
    (void)set_of(f, a, 2);
    (void)set_of(f, b, 2);
    assert_int_equal(kr_pool_get()->control->dictionary_used, before);
    kineto_trace_release(finish(s));
    leave(0);
}

static void an_unassigned_number_is_refused_and_counted(void **state)
{
    (void)state;
    fake *f = enter(0, "wrong");
    kineto_session *s = record();
    const uint32_t wrong[] = {1, 2, 8192, 8193, 100000, UINT32_MAX};
    assert_int_not_equal(emit_with(f, "no set yet", 1, NULL, 0), 0);
    const KinetoPlugin_Metadata value = int_value("a", 1);
    uint32_t set = set_of(f, &value, 1), refused = 1;
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        if (wrong[i] != set) {
            assert_int_not_equal(emit_with(f, "wrong", wrong[i], NULL, 0), 0);
            refused++;
        }
    assert_int_equal(emit_with(f, "right", set, NULL, 0), 0);
    /* who does not know of sets has none */
    KinetoPlugin_Activity old = activity_of(TYPE(CONCURRENT_KERNEL), "old");
    old.metadataSet = 77;
    assert_int_equal(f->live->emit(f->live->pTraceBuilderHandle, &old), 0);
    kineto_trace *t = finish(s);
    assert_int_equal(kineto_trace_count(t), 2);
    assert_string_equal(args_of(t, "right"), "a=1");
    assert_string_equal(args_of(t, "old"), "");
    assert_int_equal(ledger(t, "wrong", "invalid event from a plug-in"), refused);
    kineto_trace_release(t);
    leave(0);
}

static void sets_of_two_plug_ins_are_their_own(void **state)
{
    (void)state;
    fake *a = enter(0, "first"), *b = enter(1, "second");
    kineto_session *s = record();
    const KinetoPlugin_Metadata one = int_value("one", 1), two = int_value("two", 2);
    uint32_t first = set_of(a, &one, 1), second = set_of(b, &two, 1);
    assert_int_equal(emit_with(a, "a", first, NULL, 0), 0);
    assert_int_equal(emit_with(b, "b", second, NULL, 0), 0);
    if (first != second)
        assert_int_not_equal(emit_with(b, "stolen", first, NULL, 0), 0);
    kineto_trace *t = finish(s);
    assert_string_equal(args_of(t, "a"), "one=1");
    assert_string_equal(args_of(t, "b"), "two=2");
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

static void values_that_are_none_make_no_set(void **state)
{
    (void)state;
    static char longest[9000];
    fake *f = enter(0, "none");
    kineto_session *s = record();
    const builder *b = f->live;
    uint32_t set = 0;
    memset(longest, 'x', sizeof longest - 1);
    const int64_t *numbers = (const int64_t *)(const void *)longest;
    const KinetoPlugin_Metadata no_key = int_value(NULL, 1),
                                too_long = {"long",
                                            KINETO_PLUGIN_VALUE_INTS,
                                            1100,
                                            {.pointer = numbers}},
                                good = int_value("good", 1);
    const KinetoPlugin_Metadata half[] = {good, no_key};
    assert_int_not_equal(b->registerMetadataSet(b->pTraceBuilderHandle, &good, 0, &set), 0);
    assert_int_not_equal(b->registerMetadataSet(b->pTraceBuilderHandle, &good, 1, NULL), 0);
    assert_int_not_equal(b->registerMetadataSet(b->pTraceBuilderHandle, half, 2, &set), 0);
    assert_int_not_equal(b->registerMetadataSet(b->pTraceBuilderHandle, &too_long, 1, &set), 0);
    assert_int_equal(set, 0);
    kineto_trace_release(finish(s));
    leave(0);
}

static void when_there_is_no_room_for_more_sets_the_old_ones_go_on(void **state)
{
    (void)state;
    fake *f = enter(0, "many");
    kineto_session *s = record();
    const builder *b = f->live;
    uint32_t set = 0, first = 0, made = 0;
    for (int64_t i = 0; i < 20000; i++) {
        KinetoPlugin_Metadata value = int_value("n", i);
        if (b->registerMetadataSet(b->pTraceBuilderHandle, &value, 1, &set) == 0)
            made++;
        first = i == 0 ? set : first;
    }
    assert_in_range(made, 1000, 8191);
    KinetoPlugin_Metadata value = int_value("n", 0);
    assert_int_equal(set_of(f, &value, 1), first);
    assert_int_equal(emit_with(f, "first", first, NULL, 0), 0);
    assert_int_equal(emit_with(f, "last", set, NULL, 0), 0);
    kineto_trace *t = finish(s);
    assert_string_equal(args_of(t, "first"), "n=0");
    assert_true(ledger(t, "many", "name table full") > 0);
    kineto_trace_release(t);
    leave(0);
}

enum { THREADS = 4, ROUNDS = 300 };

static void *emit_on_a_thread(void *argument)
{
    const fake *f = argument;
    for (int64_t i = 0; i < ROUNDS; i++) {
        const KinetoPlugin_Metadata value = int_value("n", i % 50);
        if (emit_with(f, "threads", set_of(f, &value, 1), NULL, 0))
            return argument;
    }
    return NULL;
}

static void threads_register_the_same_sets_at_the_same_time(void **state)
{
    (void)state;
    fake *f = enter(0, "threads");
    kineto_session *s = record();
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, emit_on_a_thread, f), 0);
    for (int i = 0; i < THREADS; i++) {
        void *failed;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    kineto_trace *t = finish(s);
    uint64_t sum = 0;
    kineto_arg arg;
    assert_int_equal(kineto_trace_count(t), THREADS * ROUNDS);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        assert_true(kineto_args_find(t, r, "n", &arg));
        sum += (uint64_t)arg.i;
    }
    assert_int_equal(sum, THREADS * ROUNDS / 50 * (49 * 50 / 2));
    kineto_trace_release(t);
    leave(0);
}

/* ---- lines of the ledger ------------------------------------------------------------------------- */

static int say(const fake *f, const char *reason, uint64_t count, bool loss, const char *detail)
{
    return f->live->addLedgerLine(f->live->pTraceBuilderHandle, reason, count, loss, detail);
}

static uint32_t lines_of(const kineto_trace *t, const char *source)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        n += text_is(line.source, source);
    }
    return n;
}

static void lines_with_equal_reasons_are_summed_under_the_plug_ins_name(void **state)
{
    (void)state;
    fake *f = enter(0, "speaker");
    kineto_session *s = record();
    uint32_t before = kr_pool_get()->control->dictionary_used;
    for (int i = 0; i < 100000; i++)
        assert_int_equal(say(f, "buffers were late", 3, false, "look at the size"), 0);
    assert_int_equal(say(f, "lost in the driver", 7, true, NULL), 0);
    assert_int_equal(say(f, "nothing", 0, true, NULL), 0);
    assert_true(kr_pool_get()->control->dictionary_used - before < 1000);
    kineto_trace *t = finish(s);
    assert_int_equal(ledger(t, "speaker", "buffers were late"), 300000);
    assert_int_equal(ledger(t, "speaker", "lost in the driver"), 7);
    assert_int_equal(lines_of(t, "speaker"), 2);
    assert_int_equal(kineto_trace_lost(t), 7);
    kineto_trace_release(t);
    t = finish(record()); /* and nothing of it in the next session */
    assert_int_equal(lines_of(t, "speaker"), 0);
    kineto_trace_release(t);
    leave(0);
}

static void a_snapshot_has_at_least_half_of_what_was_said(void **state)
{
    (void)state;
    fake *f = enter(0, "half");
    kineto_session *s = record();
    for (int i = 0; i < 1000; i++)
        assert_int_equal(say(f, "often", 1, false, NULL), 0);
    kineto_trace *t = snapshot(s);
    assert_in_range(ledger(t, "half", "often"), 500, 1000);
    kineto_trace_release(t);
    t = finish(s);
    assert_int_equal(ledger(t, "half", "often"), 1000);
    kineto_trace_release(t);
    leave(0);
}

static void more_distinct_lines_than_a_session_takes_are_refused(void **state)
{
    (void)state;
    fake *f = enter(0, "flood");
    kineto_session *s = record();
    uint32_t taken = 0;
    char reason[32];
    for (int i = 0; i < 1000; i++) {
        snprintf(reason, sizeof reason, "reason %d", i);
        taken += say(f, reason, 1, false, NULL) == 0;
    }
    assert_in_range(taken, 10, 100);
    assert_int_equal(say(f, "reason 0", 1, false, NULL), 0);
    kineto_trace *t = finish(s);
    assert_int_equal(ledger(t, "flood", "reason 0"), 2);
    assert_int_equal(ledger(t, "flood", "plug-in call failed"), 1000 - taken);
    kineto_trace_release(t);
    leave(0);
}

static void long_texts_of_a_line_are_cut_between_characters(void **state)
{
    (void)state;
    static char text[4000];
    fake *f = enter(0, "long");
    kineto_session *s = record();
    for (size_t i = 0; i + 2 < sizeof text; i += 2)
        memcpy(text + i, "\xc3\xa4", 2);
    assert_int_equal(say(f, text, 1, false, text), 0);
    assert_int_equal(say(f, text, 1, false, text), 0);
    kineto_trace *t = finish(s);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (!text_is(line.source, "long"))
            continue;
        assert_int_equal(line.count, 2);
        assert_in_range(line.reason.size, 100, 1000);
        assert_int_equal(line.reason.size % 2, 0);
        assert_int_equal(line.detail.size % 2, 0);
    }
    kineto_trace_release(t);
    leave(0);
}

/* ---- keys ------------------------------------------------------------------------------------------ */

static void a_key_is_the_whole_text_or_it_is_another(void **state)
{
    (void)state;
    static const char longer[] = {'a', 'b', 0, 'c', 0}; /* as a text: "ab" */
    kineto_session *s = record();
    uint32_t with_nul = kr_intern("ab\0c", 4), plain = kr_intern("ab", 2);
    assert_true(kr_string_is(plain, longer));
    assert_false(kr_string_is(with_nul, longer));
    assert_false(kr_string_is(plain, "a"));
    assert_false(kr_string_is(plain, "abc"));
    assert_false(kr_string_is(0, ""));
    kineto_trace_release(finish(s));
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_is_the_whole_text_or_it_is_another),
        cmocka_unit_test(values_of_a_set_come_before_the_events_own),
        cmocka_unit_test(the_same_values_have_one_number_and_others_another),
        cmocka_unit_test(an_unassigned_number_is_refused_and_counted),
        cmocka_unit_test(sets_of_two_plug_ins_are_their_own),
        cmocka_unit_test(values_that_are_none_make_no_set),
        cmocka_unit_test(threads_register_the_same_sets_at_the_same_time),
        cmocka_unit_test(lines_with_equal_reasons_are_summed_under_the_plug_ins_name),
        cmocka_unit_test(a_snapshot_has_at_least_half_of_what_was_said),
        cmocka_unit_test(more_distinct_lines_than_a_session_takes_are_refused),
        cmocka_unit_test(long_texts_of_a_line_are_cut_between_characters),
        cmocka_unit_test(when_there_is_no_room_for_more_sets_the_old_ones_go_on), /* fills tables */
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}
