/* The life of several plug-ins side by side: who gets which kinds, in which order the calls come
 * whatever fails, and who takes part when plug-ins and sessions come and go. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"
#include "format/format.h"

#include "../helpers/plugins.h"

static kineto_session *record_kinds(uint64_t kinds)
{
    return session_of(kinds, 1 << 20, KINETO_RETAIN_OLDEST);
}

static void assert_enabled(const fake *f, const int32_t *types, size_t count)
{
    assert_int_equal(f->enabled_count, count);
    for (size_t i = 0; i < count; i++)
        assert_int_equal(f->enabled[i], types[i]);
}
#define assert_enabled_types(f, ...)                                                               \
    assert_enabled(f, (const int32_t[]){__VA_ARGS__},                                              \
                   sizeof((const int32_t[]){__VA_ARGS__}) / sizeof(int32_t))

/* ---- kinds ----------------------------------------------------------------------------------------- */

static void each_plug_in_gets_what_is_enabled_and_supported_in_its_own_numbers(void **state)
{
    (void)state;
    fake *a = make_fake(0, "vendor a", 0), *b = make_fake(1, "vendor b", 0),
         *c = make_fake(2, "vendor c", 0);
    const int32_t of_a[] = {13, 6, 14, 23, 22, 4}, of_b[] = {14, 16, 12}, of_c[] = {1, 2, 11};
    memset(a->types, 0, sizeof a->types);
    memset(b->types, 0, sizeof b->types);
    memset(c->types, 0, sizeof c->types);
    memcpy(a->types, of_a, sizeof of_a);
    memcpy(b->types, of_b, sizeof of_b);
    memcpy(c->types, of_c, sizeof of_c);
    for (int n = 0; n < 3; n++)
        assert_int_equal(register_interface(&interfaces[n]), 0);
    kineto_session *s = record_kinds(BIT(CONCURRENT_KERNEL) | BIT(RUNTIME) | BIT(OVERHEAD));
    assert_enabled_types(a, 13, 6, 14, 23);
    assert_enabled_types(b, 14, 12);
    assert_string_equal(c->calls, "q"); /* none of its kinds: it is left alone */
    kineto_trace_release(finish(s));
    s = record_kinds(BIT(PYTHON_FUNCTION));
    assert_enabled_types(c, 11);
    assert_string_equal(a->calls, "qcstpd");
    kineto_trace_release(finish(s));
    for (int n = 0; n < 3; n++)
        leave(n);
}

static void runtime_enables_every_runtime_number_that_is_supported(void **state)
{
    (void)state;
    const int32_t runtimes[] = {8, 13, 17, 19, 20, 23}, drivers[] = {9, 24};
    fake *f = make_fake(0, "runtimes", 0);
    for (int32_t i = 0; i < 24; i++)
        f->types[i] = 24 - i; /* all, from the last */
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = record_kinds(BIT(RUNTIME));
    assert_int_equal(f->enabled_count, COUNT_OF(runtimes));
    for (size_t i = 0; i < COUNT_OF(runtimes); i++)
        assert_int_equal(f->enabled[COUNT_OF(runtimes) - 1 - i], runtimes[i]);
    kineto_trace_release(finish(s));
    s = record_kinds(BIT(DRIVER));
    assert_int_equal(f->enabled_count, COUNT_OF(drivers));
    kineto_trace_release(finish(s));
    leave(0);
}

static void supported_kinds_that_are_none_or_repeat_are_left_out(void **state)
{
    (void)state;
    const int32_t types[] = {6, 0, -1, 26, 31, 32, 1023, 1063, 1088, INT32_MAX, INT32_MIN, 6, 4, 6};
    fake *f = make_fake(0, "odd kinds", 0);
    memcpy(f->types, types, sizeof types);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = record();
    assert_enabled_types(f, 6, 4);
    kineto_trace_release(finish(s));
    leave(0);
    f = make_fake(0, "no kinds", 0);
    memset(f->types, 0, sizeof f->types);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    s = record();
    assert_string_equal(f->calls, "q");
    kineto_trace_release(finish(s));
    leave(0);
}

static void deliver_all_numbers(fake *f, char letter, const builder *b)
{
    for (int32_t type = -1; letter == 'p' && type <= 27; type++) {
        KinetoPlugin_ProfileEvent e = event_of(type, f->started_ns, f->started_ns);
        int result = b->addEvent(b->pTraceBuilderHandle, &e);
        assert_int_equal(result == 0, type == 6 || type == 14);
    }
}

static void events_of_other_kinds_are_dropped_and_counted_by_source(void **state)
{
    (void)state;
    fake *a = make_fake(0, "first", 0), *b = enter(1, "second");
    a->types[2] = 14; /* with the kernels */
    assert_int_equal(register_interface(&interfaces[0]), 0);
    a->at = deliver_all_numbers;
    kineto_session *s = record_kinds(BIT(CONCURRENT_KERNEL));
    assert_int_equal(emit_named(b->live, "k"), 0);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(kineto_trace_count(t), 3);
    assert_int_equal(ledger(t, "first", "delivered"), 2);
    assert_int_equal(ledger(t, "first", "kind not enabled"), 23);
    assert_int_equal(ledger(t, "first", "invalid event from a plug-in"), 4); /* -1, 0, 26, 27 */
    assert_int_equal(ledger(t, "second", "delivered"), 1);
    assert_int_equal(kineto_trace_lost(t), 27);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

/* ---- order and failures ------------------------------------------------------------------------------ */

static void add_one(fake *f, char letter, const builder *b)
{
    if (letter == 'p')
        (void)add_named(b, f->started_ns, f->name);
}

static void a_failing_plug_in_keeps_the_order_and_harms_no_other(void **state)
{
    (void)state;
    static const struct {
        char fails;
        const char *calls, *reason;
        uint64_t delivered;
    } cases[] = {{'c', "c", "create failed", 0},
                 {'s', "csd", "start failed", 0},
                 {'t', "cstpd", "stop failed", 1},
                 {'p', "cstpd", "processEvents failed", 1},
                 {'d', "cstpd", "destroy failed", 1}};
    static const char *const names[] = {"left", "broken", "right"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char detail[400] = "";
        for (int n = 0; n < 3; n++)
            enter_with(n, names[n], n == 1 ? SPEAKS : 0)->at = add_one;
        fakes[1].fails = cases[i].fails;
        fakes[1].why = "the cable \"is\"\nout \xff";
        kineto_session *s = record();
        assert_int_equal(emit_named(fakes[0].live, "left"), 0);
        assert_int_equal(emit_named(fakes[2].live, "right"), 0);
        kineto_trace *t = finish(s);
        verify(t);
        assert_nothing_lost(t);
        assert_string_equal(fakes[0].calls, "cstpd");
        assert_string_equal(fakes[1].calls, cases[i].calls);
        assert_string_equal(fakes[2].calls, "cstpd");
        assert_int_equal(count_named(t, "left"), 2);
        assert_int_equal(count_named(t, "right"), 2);
        assert_int_equal(count_named(t, "broken"), cases[i].delivered);
        assert_int_equal(ledger(t, "broken", "plug-in call failed"), 1);
        assert_int_equal(ledger(t, "left", "plug-in call failed"), 0);
        assert_int_equal(ledger_line(t, "broken", cases[i].reason, detail, sizeof detail), 1);
        assert_string_equal(detail, "returned -7: the cable \"is\"\nout \xff");
        kineto_trace_release(t);
        for (int n = 0; n < 3; n++)
            leave(n);
    }
}

static void a_failure_without_words_or_with_too_many_is_a_line_too(void **state)
{
    (void)state;
    static char words[1000];
    char detail[400];
    memset(words, 'w', sizeof words - 1);
    for (int speaks = 0; speaks < 2; speaks++) {
        fake *f = enter_with(0, "broken", speaks ? SPEAKS : 0);
        f->fails = 's';
        f->why = speaks ? words : NULL;
        kineto_trace *t = finish(record());
        assert_int_equal(ledger_line(t, "broken", "start failed", detail, sizeof detail), 1);
        assert_int_equal(strlen(detail),
                         speaks ? strlen("returned -7: ") + 255 : strlen("returned -7"));
        kineto_trace_release(t);
        leave(0);
    }
}

static void a_failure_is_reported_to_the_session_it_happened_in(void **state)
{
    (void)state;
    fake *f = enter(0, "broken");
    f->fails = 's';
    kineto_trace_release(finish(record()));
    f->fails = 0;
    kineto_trace *t = finish(record());
    assert_int_equal(ledger_line(t, "broken", "start failed", NULL, 0), -1);
    assert_int_equal(ledger(t, "broken", "plug-in call failed"), 0);
    kineto_trace_release(t);
    leave(0);
}

/* The ledger of a long run is not to be full of one plug-in. */
static void failures_without_end_are_counted_but_not_all_reported(void **state)
{
    (void)state;
    fake *f = enter(0, "broken");
    f->fails = 's';
    kineto_session *all = record();
    for (int i = 0; i < 100; i++)
        kineto_trace_release(finish(record()));
    kineto_trace *t = finish(all);
    assert_true(ledger(t, "broken", "plug-in call failed") >= 100);
    assert_in_range(ledger(t, "broken", "start failed"), 1, 20);
    kineto_trace_release(t);
    leave(0);
}

static void a_plug_in_that_fails_its_query_is_refused(void **state)
{
    (void)state;
    fake *f = make_fake(0, "refused", SPEAKS);
    f->fails = 'q';
    assert_int_equal(register_interface(&interfaces[0]), -7);
    assert_int_equal(kineto_plugin_unregister(&interfaces[0]), 1);
    kineto_trace_release(finish(record()));
    assert_string_equal(f->calls, "q");
}

static void the_calls_of_a_plug_in_come_one_after_the_other_in_order(void **state)
{
    (void)state;
    for (int n = 0; n < FAKES; n++)
        enter(n, "ordered");
    forget_calls();
    kineto_session *s = record();
    assert_string_equal(all_calls, "0c0s1c1s2c2s3c3s");
    kineto_trace_release(finish(s));
    for (int n = 0; n < FAKES; n++)
        assert_string_equal(fakes[n].calls, "cstpd");
    for (int n = 0; n < FAKES; n++)
        leave(n);
}

static void call_the_host(fake *f, char letter, const builder *b)
{
    kineto_plugin_info info = {.size = sizeof info};
    kineto_session *s = NULL;
    kineto_trace *t = NULL;
    (void)f;
    (void)b;
    assert_int_not_equal(kineto_plugin_unregister(&interfaces[0]), 0);
    assert_int_not_equal(register_interface(&interfaces[1]), 0);
    (void)kineto_plugin_count();
    (void)kineto_plugin_info_get(0, &info);
    if (letter == 'p') /* another session, of which the plug-in hears nothing now */
        return;
    assert_int_equal(begin_session(NULL, &s, NULL), KINETO_OK);
    assert_int_equal(kineto_session_snapshot(s, &t, NULL), KINETO_OK);
    kineto_trace_release(t);
    assert_int_equal(end_session(s, NULL, NULL), KINETO_OK);
}

static void a_plug_in_that_calls_the_host_from_its_calls_is_refused_not_stuck(void **state)
{
    (void)state;
    (void)make_fake(1, "never", 0);
    fake *f = enter(0, "calls back");
    f->at = call_the_host;
    kineto_session *s = record();
    kineto_trace_release(snapshot(s));
    kineto_trace_release(finish(s));
    assert_string_equal(f->calls, "cstpdcstpd");
    f->at = NULL;
    leave(0);
}

/* ---- coming and going -------------------------------------------------------------------------------- */

static void sessions_that_overlap_share_plug_ins_and_get_their_own_kinds(void **state)
{
    (void)state;
    fake *f = enter(0, "shared");
    kineto_session *kernels = record_kinds(BIT(CONCURRENT_KERNEL));
    assert_enabled_types(f, 6);
    assert_int_equal(emit_named(f->live, "early"), 0);
    kineto_session *copies = record_kinds(BIT(GPU_MEMCPY));
    assert_string_equal(f->calls, "cstpdcs"); /* the enabled kinds are passed at create only */
    assert_enabled_types(f, 6, 4);
    KinetoPlugin_Activity a = activity_of(TYPE(GPU_MEMCPY), "copy");
    assert_int_equal(f->live->emit(f->live->pTraceBuilderHandle, &a), 0);
    assert_int_equal(emit_named(f->live, "kernel"), 0);
    usleep(100);
    kineto_trace *t = finish(kernels);
    assert_int_equal(kineto_trace_count(t), 2);
    assert_int_equal(count_named(t, "early"), 1);
    assert_int_equal(count_named(t, "kernel"), 1);
    kineto_trace_release(t);
    assert_string_equal(f->calls, "cstpdcstpdcs");
    assert_enabled_types(f, 4);
    assert_int_not_equal(emit_named(f->live, "nobody asks"), 0);
    t = finish(copies);
    verify(t);
    assert_int_equal(kineto_trace_count(t), 1);
    assert_int_equal(count_named(t, "copy"), 1);
    assert_int_equal(ledger(t, "shared", "kind not enabled"), 1);
    kineto_trace_release(t);
    leave(0);
}

static void a_snapshot_has_what_plug_ins_of_both_sorts_have_so_far(void **state)
{
    (void)state;
    fake *live = enter(0, "live"), *old = enter(1, "old style");
    old->at = add_one;
    kineto_session *s = record();
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(emit_named(live->live, "live"), 0);
        usleep(100);
        kineto_trace *t = snapshot(s);
        verify(t);
        assert_int_equal(count_named(t, "live"), i);
        assert_int_equal(count_named(t, "old style"), i);
        kineto_trace_release(t);
    }
    assert_string_equal(live->calls, "csppp"); /* was not interrupted */
    assert_string_equal(old->calls, "cstpdcstpdcstpdcs");
    kineto_trace *t = finish(s);
    assert_nothing_lost(t);
    assert_int_equal(kineto_trace_count(t), 3 + 4);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

static void a_session_restarts_with_the_same_plug_ins(void **state)
{
    (void)state;
    fake *a = enter(0, "first"), *b = enter(1, "second");
    kineto_session *s;
    kineto_trace *t;
    a->at = b->at = add_one;
    assert_int_equal(kineto_session_create(NULL, &s, NULL), KINETO_OK);
    for (int i = 0; i < 5; i++) {
        forget_calls();
        assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
        assert_int_equal(kineto_session_stop(s, &t, NULL), KINETO_OK);
        assert_string_equal(a->calls, "cstpd");
        assert_string_equal(b->calls, "cstpd");
        assert_int_equal(kineto_trace_count(t), 2);
        assert_nothing_lost(t);
        kineto_trace_release(t);
    }
    kineto_session_destroy(s);
    leave(0);
    leave(1);
}

static void unregister_works_in_every_state(void **state)
{
    (void)state;
    kineto_session *s;
    enter(0, "goes"); /* no session records */
    leave(0);
    assert_string_equal(fakes[0].calls, "");
    enter(0, "goes"); /* between sessions */
    kineto_trace_release(finish(record()));
    leave(0);
    assert_string_equal(fakes[0].calls, "cstpd");
    s = record();
    enter(0, "goes")->at = add_one; /* the letters of create and start are forgotten */
    leave(0);
    assert_string_equal(fakes[0].calls, "tpd");
    make_fake(0, "goes", 0)->fails = 's';
    assert_int_equal(register_interface(&interfaces[0]), 0); /* it is there, only not recording */
    assert_string_equal(fakes[0].calls, "qcsd");
    leave(0);
    make_fake(0, "goes", 0)->fails = 'c';
    assert_int_equal(register_interface(&interfaces[0]), 0);
    assert_string_equal(fakes[0].calls, "qc");
    leave(0);
    assert_int_equal(kineto_plugin_unregister(&interfaces[0]), 1);
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "goes"), 1);
    assert_int_equal(ledger(t, "goes", "plug-in call failed"), 2);
    kineto_trace_release(t);
}

static void registering_again_gives_one_profiler(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++) { /* more often than there are slots */
        fake *f = enter(0, "again");
        assert_int_not_equal(register_interface(&interfaces[0]), 0);
        kineto_session *s = record_kinds(BIT(CONCURRENT_KERNEL));
        assert_int_equal(emit_named(f->live, "event"), 0);
        kineto_trace *t = finish(s);
        assert_int_equal(kineto_trace_count(t), 1);
        kineto_trace_release(t);
        assert_string_equal(f->calls, "cstpd");
        leave(0);
    }
}

static void late_calls_of_one_that_is_gone_hit_no_other(void **state)
{
    (void)state;
    const builder *gone = NULL;
    for (int i = 0; i < 3; i++) {
        fake *f = enter(i, i ? "stays" : "gone");
        kineto_session *s = record();
        if (i == 0)
            gone = f->live;
        int64_t now = now_ns();
        KinetoPlugin_ProfileEvent e = event_of(TYPE(CONCURRENT_KERNEL), now, now);
        handle *h = gone->pTraceBuilderHandle;
        if (i) {
            assert_int_not_equal(gone->addEvent(h, &e), 0);
            assert_int_not_equal(emit_named(gone, "late"), 0);
            assert_int_not_equal(gone->setLastEventName(h, "late"), 0);
        }
        assert_int_equal(emit_named(f->live, "right"), 0);
        kineto_trace *t = finish(s);
        assert_int_equal(kineto_trace_count(t), 1);
        assert_int_equal(count_named(t, "right"), 1);
        assert_int_equal(ledger(t, "stays", "delivered when the session was over"), 0);
        kineto_trace_release(t);
        leave(i);
    }
}

static void more_profilers_than_there_is_room_for_are_refused(void **state)
{
    (void)state;
    enum { MANY = 40 };
    static KinetoPlugin_ProfilerInterface many[MANY];
    int taken = 0;
    (void)make_fake(0, "many", 0); /* all of them are the same fake under different addresses */
    for (int i = 0; i < MANY; i++) {
        many[i] = interfaces[0];
        taken += register_interface(&many[i]) == 0;
    }
    assert_in_range(taken, 16, MANY - 1);
    kineto_session *s = record();
    memset(fakes[0].calls, 0, sizeof fakes[0].calls);
    kineto_trace_release(finish(s));
    int gone = 0;
    for (int i = 0; i < MANY; i++)
        gone += kineto_plugin_unregister(&many[i]) == 0;
    assert_int_equal(gone, taken);
    enter(0, "many");
    leave(0);
}

/* ---- parameters of create; pausing --------------------------------------------------------------------- */

static kineto_session *record_config(const char *config)
{
    kineto_session *s = NULL;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.custom_config = config;
    assert_int_equal(begin_session(&o, &s, NULL), KINETO_OK);
    return s;
}

static void the_users_text_reaches_create(void **state)
{
    (void)state;
    char longest[1025];
    memset(longest, 'c', sizeof longest);
    longest[1023] = 0;
    fake *f = enter(0, "configured");
    const char *const texts[] = {"depth=3\n\"x\"", longest, NULL, ""};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        kineto_session *s = record_config(texts[i]);
        assert_string_equal(f->config, texts[i] ? texts[i] : "");
        kineto_trace_release(finish(s));
    }
    longest[1023] = 'c';
    longest[1024] = 0;
    kineto_session *s;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.custom_config = longest;
    assert_int_equal(begin_session(&o, &s, NULL), KINETO_E_ARGUMENT);
    leave(0);
}

static void pausing_toggles_plug_ins_that_can_and_ends_others(void **state)
{
    (void)state;
    fake *can = enter_with(0, "can toggle", TOGGLES), *cannot = enter(1, "cannot toggle");
    kineto_session *s = record();
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK); /* it is on */
    assert_string_equal(can->calls, "cs");
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    assert_string_equal(can->calls, "cs-");
    assert_string_equal(cannot->calls, "cstpd");
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    assert_string_equal(can->calls, "cs-+");
    assert_string_equal(cannot->calls, "cstpdcs");
    assert_int_equal(emit_named(can->live, "a"), 0);
    assert_int_equal(emit_named(cannot->live, "b"), 0);
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    kineto_trace *t = finish(s); /* ends while it pauses */
    assert_string_equal(can->calls, "cs-+-tpd");
    assert_string_equal(cannot->calls, "cstpdcstpd");
    assert_int_equal(kineto_trace_count(t), 2);
    assert_int_equal(kineto_session_pause(NULL, false, NULL), KINETO_E_ARGUMENT);
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

static void a_pause_of_one_session_is_none_of_the_other(void **state)
{
    (void)state;
    fake *can = enter_with(0, "can toggle", TOGGLES), *cannot = enter(1, "cannot toggle");
    kineto_session *one = record(), *other = record();
    forget_calls();
    assert_int_equal(kineto_session_pause(one, true, NULL), KINETO_OK);
    assert_string_equal(can->calls, "");
    assert_string_equal(cannot->calls, "");
    assert_int_equal(kineto_session_pause(other, true, NULL), KINETO_OK);
    assert_string_equal(can->calls, "-");
    assert_string_equal(cannot->calls, "tpd");
    kineto_session *third = record(); /* starts while the others pause */
    assert_string_equal(can->calls, "-+");
    assert_string_equal(cannot->calls, "tpdcs");
    kineto_trace_release(finish(third));
    kineto_trace_release(finish(one));
    kineto_trace_release(finish(other));
    assert_string_equal(cannot->calls, "tpdcstpd");
    assert_int_equal(can->calls[strlen(can->calls) - 1], 'd');
    leave(0);
    leave(1);
}

/* As in libkineto: its profiles have device work that begins after their start. */
static void device_work_that_begins_in_a_warm_up_is_left_out(void **state)
{
    (void)state;
    fake *f = enter(0, "device");
    kineto_session *s;
    assert_int_equal(kineto_session_create(NULL, &s, NULL), KINETO_OK);
    for (int round = 0; round < 2; round++) {
        forget_calls();
        assert_int_equal(kineto_session_warm_up(s, NULL), KINETO_OK);
        assert_string_equal(f->calls, "cs");
        int64_t early_ns = now_ns();
        assert_int_equal(add_named(f->live, early_ns, "early"), 0);
        assert_int_equal(kineto_session_start(s, NULL), KINETO_OK);
        assert_string_equal(f->calls, "cs"); /* nothing is switched on again */
        int64_t late_ns = now_ns();
        KinetoPlugin_ProfileEvent across = event_of(TYPE(CONCURRENT_KERNEL), early_ns, late_ns);
        assert_int_equal(f->live->addEvent(f->live->pTraceBuilderHandle, &across), 0);
        assert_int_equal(add_named(f->live, early_ns, "delivered late"), 0);
        assert_int_equal(add_named(f->live, late_ns, "work"), 0);
        kineto_trace *t;
        assert_int_equal(kineto_session_stop(s, &t, NULL), KINETO_OK);
        assert_string_equal(f->calls, "cstpd");
        verify(t);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), 1);
        assert_int_equal(count_named(t, "work"), 1);
        kineto_trace_release(t);
    }
    kineto_session_destroy(s);
    leave(0);
}

static void a_toggle_that_fails_is_a_line_and_nothing_more(void **state)
{
    (void)state;
    fake *f = enter_with(0, "can toggle", TOGGLES);
    f->fails = '-';
    kineto_session *s = record();
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    kineto_trace *t = finish(s);
    assert_string_equal(f->calls, "cs-+tpd");
    assert_int_equal(ledger_line(t, "can toggle", "toggleCollection failed", NULL, 0), 1);
    kineto_trace_release(t);
    leave(0);
}

/* ---- many ------------------------------------------------------------------------------------------ */

/* In a process of its own: sources have their numbers for as long as a recording lasts. */
static int sources_without_a_line(void)
{
    int missing = 0;
    for (uint32_t i = 1; i < KF_MAX_SOURCES; i++) {
        char name[32];
        snprintf(name, sizeof name, "source %u", i);
        const fake *f = enter(0, name);
        kineto_session *s = record();
        missing += emit_named(f->live, "kernel") != 0;
        kineto_trace *t = finish(s);
        missing += ledger(t, name, "delivered") != 1;
        kineto_trace_release(t);
        leave(0);
    }
    return missing;
}

static void each_of_as_many_sources_as_there_may_be_has_its_own_lines(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        _exit(sources_without_a_line());
    assert_exit(child, 0);
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(
            each_of_as_many_sources_as_there_may_be_has_its_own_lines), /* first: no pool yet */
        cmocka_unit_test(each_plug_in_gets_what_is_enabled_and_supported_in_its_own_numbers),
        cmocka_unit_test(runtime_enables_every_runtime_number_that_is_supported),
        cmocka_unit_test(supported_kinds_that_are_none_or_repeat_are_left_out),
        cmocka_unit_test(events_of_other_kinds_are_dropped_and_counted_by_source),
        cmocka_unit_test(a_failing_plug_in_keeps_the_order_and_harms_no_other),
        cmocka_unit_test(a_failure_without_words_or_with_too_many_is_a_line_too),
        cmocka_unit_test(a_failure_is_reported_to_the_session_it_happened_in),
        cmocka_unit_test(failures_without_end_are_counted_but_not_all_reported),
        cmocka_unit_test(a_plug_in_that_fails_its_query_is_refused),
        cmocka_unit_test(the_calls_of_a_plug_in_come_one_after_the_other_in_order),
        cmocka_unit_test(a_plug_in_that_calls_the_host_from_its_calls_is_refused_not_stuck),
        cmocka_unit_test(sessions_that_overlap_share_plug_ins_and_get_their_own_kinds),
        cmocka_unit_test(a_snapshot_has_what_plug_ins_of_both_sorts_have_so_far),
        cmocka_unit_test(a_session_restarts_with_the_same_plug_ins),
        cmocka_unit_test(unregister_works_in_every_state),
        cmocka_unit_test(registering_again_gives_one_profiler),
        cmocka_unit_test(late_calls_of_one_that_is_gone_hit_no_other),
        cmocka_unit_test(more_profilers_than_there_is_room_for_are_refused),
        cmocka_unit_test(the_users_text_reaches_create),
        cmocka_unit_test(device_work_that_begins_in_a_warm_up_is_left_out),
        cmocka_unit_test(pausing_toggles_plug_ins_that_can_and_ends_others),
        cmocka_unit_test(a_pause_of_one_session_is_none_of_the_other),
        cmocka_unit_test(a_toggle_that_fails_is_a_line_and_nothing_more),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}
