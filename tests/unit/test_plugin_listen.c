/* Correlation ids: who hears which push and pop, whatever comes and goes between them, and what a
 * plug-in may do inside. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"

#include "../helpers/plugins.h"

#define assert_heard(f, text) assert_string_equal((f)->heard, (text))

static void end(kineto_session *s) { kineto_trace_release(finish(s)); }

/* ---- who hears what ----------------------------------------------------------------------------------- */

static void all_listeners_hear_both_stacks_apart(void **state)
{
    (void)state;
    fake *both = enter_with(0, "both", LISTENS | LISTENS_USER),
         *one = enter_with(1, "one", LISTENS), *user = enter_with(2, "user", LISTENS_USER),
         *deaf = enter(3, "deaf");
    kineto_session *s = record();
    kineto_correlation_push(1);
    kineto_user_correlation_push(UINT64_MAX);
    kineto_correlation_push(2);
    kineto_user_correlation_pop();
    kineto_correlation_pop();
    kineto_user_correlation_push(0);
    kineto_correlation_pop();
    kineto_user_correlation_pop();
    end(s);
    assert_heard(both, "1 u18446744073709551615 2 u. . u0 . u. ");
    assert_heard(one, "1 2 . . ");
    assert_heard(user, "u18446744073709551615 u. u0 u. ");
    assert_heard(deaf, "");
    for (int n = 0; n < FAKES; n++)
        leave(n);
}

static void a_plug_in_may_have_some_of_the_functions_only(void **state)
{
    (void)state;
    fake *push = make_fake(0, "push", LISTENS), *pop = make_fake(1, "pop", LISTENS | LISTENS_USER);
    interfaces[0].profilerPopCorrelationId = NULL;
    interfaces[1].profilerPushCorrelationId = NULL;
    interfaces[1].profilerPushUserCorrelationId = NULL;
    assert_int_equal(register_interface(&interfaces[0]), 0);
    assert_int_equal(register_interface(&interfaces[1]), 0);
    kineto_session *s = record();
    kineto_correlation_push(1);
    kineto_user_correlation_push(2);
    kineto_user_correlation_pop();
    kineto_correlation_pop();
    kineto_correlation_pop();
    end(s);
    assert_heard(push, "1 ");
    assert_heard(pop, "u. . ");
    leave(0);
    leave(1);
}

static void who_has_no_session_hears_nothing(void **state)
{
    (void)state;
    fake *f = enter_with(0, "copies", LISTENS);
    kineto_correlation_push(1); /* no session records */
    kineto_session *s = session_of(BIT(CPU_OP), 1 << 20, KINETO_RETAIN_OLDEST);
    kineto_correlation_push(2);
    kineto_correlation_pop();
    kineto_correlation_pop();
    end(s);
    f->fails = 's';
    s = record();
    kineto_correlation_push(3);
    kineto_correlation_pop();
    end(s);
    assert_heard(f, "");
    leave(0);
}

/* ---- pops without their push --------------------------------------------------------------------------- */

static void a_pop_is_heard_only_for_a_push_of_the_session(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listens", LISTENS | LISTENS_USER);
    kineto_session *s = record();
    kineto_correlation_pop(); /* of nothing */
    kineto_user_correlation_pop();
    kineto_correlation_push(1);
    kineto_user_correlation_pop(); /* of the other stack */
    kineto_correlation_pop();
    kineto_correlation_pop();
    kineto_correlation_push(2);
    end(s);
    kineto_correlation_pop(); /* after its session */
    assert_heard(f, "1 . 2 ");
    kineto_correlation_push(3); /* before the next */
    s = record();
    kineto_correlation_pop();
    assert_heard(f, "1 . 2 ");
    kineto_correlation_push(4);
    end(s);
    s = record(); /* a restart in between */
    kineto_correlation_pop();
    kineto_correlation_push(5);
    kineto_correlation_pop();
    kineto_correlation_pop();
    end(s);
    assert_heard(f, "1 . 2 4 5 . ");
    leave(0);
}

static void who_comes_between_push_and_pop_hears_neither(void **state)
{
    (void)state;
    kineto_session *s = record();
    fake *old = enter_with(0, "old", LISTENS);
    kineto_correlation_push(1);
    fake *new = enter_with(1, "new", LISTENS);
    kineto_correlation_push(2);
    fake *last = enter_with(2, "last", LISTENS);
    kineto_correlation_pop();
    kineto_correlation_pop();
    assert_heard(old, "1 2 . . ");
    assert_heard(new, "2 . ");
    assert_heard(last, "");
    kineto_correlation_push(3);
    leave(1);
    kineto_correlation_pop();
    assert_heard(old, "1 2 . . 3 . ");
    assert_heard(new, "2 . 3 ");
    assert_heard(last, "3 . ");
    /* back again, it begins anew */
    kineto_correlation_push(4);
    new = enter_with(1, "new", LISTENS);
    kineto_correlation_pop();
    kineto_correlation_push(5);
    kineto_correlation_pop();
    assert_heard(new, "5 . ");
    end(s);
    for (int n = 0; n < 3; n++)
        leave(n);
}

/* Another kind is wanted: the plug-in gets another session, the others keep theirs. */
static void who_is_restarted_between_push_and_pop_hears_no_pop(void **state)
{
    (void)state;
    fake *stays = make_fake(0, "stays", LISTENS), *restarts = enter_with(1, "restarts", LISTENS);
    memset(stays->types, 0, sizeof stays->types);
    stays->types[0] = TYPE(CONCURRENT_KERNEL);
    assert_int_equal(register_interface(&interfaces[0]), 0);
    kineto_session *s = session_of(BIT(CONCURRENT_KERNEL), 1 << 20, KINETO_RETAIN_OLDEST);
    kineto_correlation_push(1);
    kineto_session *more = session_of(BIT(GPU_MEMCPY), 1 << 20, KINETO_RETAIN_OLDEST);
    kineto_correlation_push(2);
    kineto_correlation_pop();
    kineto_correlation_pop();
    assert_string_equal(restarts->calls, "cstpdcs");
    assert_heard(stays, "1 2 . . ");
    assert_heard(restarts, "1 2 . ");
    end(more);
    end(s);
    leave(0);
    leave(1);
}

/* One pauses, the other is asked by another session: what is heard stays in balance. */
static void pushes_and_pops_stay_in_balance_over_a_pause(void **state)
{
    (void)state;
    fake *f = enter_with(0, "toggles", LISTENS | TOGGLES);
    kineto_session *s = record();
    kineto_correlation_push(1);
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    kineto_correlation_pop();
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    kineto_correlation_push(2);
    kineto_correlation_pop();
    assert_int_equal(f->pops, f->pushes); /* else all that follows would belong to 1 */
    assert_int_equal(kineto_session_pause(s, true, NULL), KINETO_OK);
    kineto_correlation_push(3);
    assert_int_equal(kineto_session_pause(s, false, NULL), KINETO_OK);
    kineto_correlation_push(4);
    kineto_correlation_pop();
    kineto_correlation_pop();
    assert_int_equal(f->pops, f->pushes);
    end(s);
    leave(0);
}

/* ---- depth, threads ------------------------------------------------------------------------------------- */

static void what_nests_too_deep_is_left_out_on_both_sides(void **state)
{
    (void)state;
    fake *f = enter_with(0, "deep", LISTENS);
    kineto_session *s = record();
    for (uint64_t depth = 64; depth <= 100000; depth = depth == 64 ? 65 : depth * 10) {
        f->pushes = f->pops = 0;
        for (uint64_t i = 0; i < depth; i++)
            kineto_correlation_push(i);
        assert_int_equal(f->pushes, 64);
        for (uint64_t i = 64; i < depth; i++)
            kineto_correlation_pop();
        if (depth < UINT16_MAX)
            assert_int_equal(f->pops, 0); /* those were not heard either */
        for (uint64_t i = 0; i < 64; i++)
            kineto_correlation_pop();
        assert_int_equal(f->pops, 64);
        kineto_correlation_pop();
        assert_int_equal(f->pops, 64);
    }
    end(s);
    leave(0);
}

/* Each thread's ids are reported on it, in its order, and in its own stack. */
static __thread uint64_t stack_of_thread[64], depth_of_thread, wrong_of_thread;

static void remember(fake *f, uint64_t id)
{
    (void)f;
    stack_of_thread[depth_of_thread++ % 64] = id;
}

static void forget(fake *f)
{
    (void)f;
    wrong_of_thread += depth_of_thread == 0;
    depth_of_thread--;
}

static void *push_and_pop(void *argument)
{
    uint64_t number = (uint64_t)(uintptr_t)argument, wrong = 0;
    for (uint64_t i = 0; i < 2000; i++) {
        uint64_t deep = 1 + i % 5;
        for (uint64_t d = 0; d < deep; d++)
            kineto_correlation_push(number << 32 | d);
        wrong += depth_of_thread != deep;
        for (uint64_t d = 0; d < deep; d++)
            wrong += stack_of_thread[d] != (number << 32 | d);
        for (uint64_t d = 0; d < deep; d++)
            kineto_correlation_pop();
        wrong += depth_of_thread != 0;
    }
    return (void *)(uintptr_t)(wrong + wrong_of_thread);
}

static void threads_have_stacks_of_their_own(void **state)
{
    (void)state;
    enum { THREADS = 6 };
    pthread_t threads[THREADS];
    fake *f = enter_with(0, "threads", LISTENS);
    f->at_push = remember;
    f->at_pop = forget;
    kineto_session *s = record();
    for (uintptr_t i = 0; i < THREADS; i++)
        threads[i] = start_thread(push_and_pop, (void *)i);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_ptr_equal(wrong, NULL);
    }
    end(s);
    assert_int_equal(f->pushes, THREADS * 2000 * 3);
    assert_int_equal(f->pops, f->pushes);
    leave(0);
}

/* ---- inside ----------------------------------------------------------------------------------------------- */

static void push_again(fake *f, uint64_t id)
{
    char text[32];
    snprintf(text, sizeof text, "%llu ", (unsigned long long)id);
    append_text(f->heard, sizeof f->heard, text);
    if (id < 3)
        kineto_correlation_push(id + 1);
}

static void a_push_inside_a_push_is_heard_once(void **state)
{
    (void)state;
    fake *f = enter_with(0, "nests", LISTENS), *other = enter_with(1, "other", LISTENS);
    f->at_push = push_again;
    kineto_session *s = record();
    kineto_correlation_push(1);
    assert_heard(f, "1 2 3 ");
    assert_int_equal(other->pushes, 3);
    for (int i = 0; i < 4; i++)
        kineto_correlation_pop();
    assert_int_equal(f->pops, 3);
    assert_int_equal(other->pops, 3);
    leave(1); /* no thread is inside any more */
    end(s);
    leave(0);
}

static void deliver_inside(fake *f, uint64_t id)
{
    KINETO_SITE(inside, KINETO_KIND_CPU_OP, "inside");
    kineto_range r = kineto_range_begin(&inside);
    assert_int_equal(emit_named(f->live, "emitted"), 0);
    assert_int_equal(add_named(f->live, now_ns(), "added"), 0);
    assert_int_equal(f->live->setLastEventIds(f->live->pTraceBuilderHandle, id, id), 0);
    kineto_range_end(r);
}

static void a_plug_in_may_deliver_and_record_inside_a_push(void **state)
{
    (void)state;
    fake *f = enter_with(0, "delivers", LISTENS);
    f->at_push = deliver_inside;
    kineto_session *s = record();
    for (uint64_t i = 1; i <= 10; i++) {
        kineto_correlation_push(i);
        kineto_correlation_pop();
    }
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_nothing_lost(t);
    assert_int_equal(count_named(t, "emitted"), 10);
    assert_int_equal(count_named(t, "added"), 10);
    assert_int_equal(count_named(t, "inside"), 10);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(find_nth(t, "added", i).external_id, i + 1);
    kineto_trace_release(t);
    leave(0);
}

static void a_push_or_pop_that_fails_is_counted_and_the_other_hears_on(void **state)
{
    (void)state;
    for (int pops = 0; pops < 2; pops++) {
        fake *bad = enter_with(0, "bad", LISTENS), *good = enter_with(1, "good", LISTENS);
        bad->fails = pops ? 'y' : 'x';
        kineto_session *s = record();
        kineto_correlation_push(1);
        kineto_correlation_push(2);
        kineto_correlation_pop();
        kineto_correlation_pop();
        kineto_trace *t = finish(s);
        assert_int_equal(ledger(t, "bad", "plug-in call failed"), 2);
        assert_int_equal(ledger(t, "good", "plug-in call failed"), 0);
        assert_heard(good, "1 2 . . ");
        kineto_trace_release(t);
        leave(0);
        leave(1);
    }
}

static void *push_once(void *argument)
{
    (void)argument;
    kineto_correlation_push(1);
    return NULL;
}

#if !defined(__SANITIZE_ADDRESS__)
static void wait_inside(fake *f, uint64_t id)
{
    (void)id;
    kb_store_release(&f->config[0], 1);
    for (;;)
        usleep(1000); /* cancellation points */
}

static void a_thread_that_is_cancelled_inside_blocks_no_other(void **state)
{
    (void)state;
    fake *f = enter_with(0, "cancelled", LISTENS);
    f->at_push = wait_inside;
    kineto_session *s = record();
    kb_store_release(&f->config[0], 0);
    pthread_t thread = start_thread(push_once, NULL);
    while (!kb_load_acquire(&f->config[0]))
        usleep(100);
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    kineto_trace *t = finish(s);
    assert_int_equal(ledger(t, "cancelled", "a thread did not return"), 0);
    assert_int_equal(ledger(t, "cancelled", "plug-in call failed"), 0);
    assert_string_equal(f->calls, "cstpd");
    kineto_trace_release(t);
    leave(0);
}

#else
static void a_thread_that_is_cancelled_inside_blocks_no_other(void **state)
{
    (void)state;
    skip(); /* the sanitizer does not know that a cancelled thread's stack is gone */
}
#endif

static uint32_t may_go;
static void wait_for_leave(fake *f, uint64_t id)
{
    (void)id;
    kb_store_release(&f->config[0], 1);
    while (!kb_load_acquire(&may_go))
        usleep(1000);
}

static void a_thread_that_stays_inside_is_reported_and_does_not_stop_the_session(void **state)
{
    (void)state;
    fake *f = enter_with(0, "stuck", LISTENS), *other = enter_with(1, "other", LISTENS);
    f->at_push = wait_for_leave;
    may_go = 0;
    kineto_session *s = record();
    kb_store_release(&f->config[0], 0);
    pthread_t thread = start_thread(push_once, NULL);
    while (!kb_load_acquire(&f->config[0]))
        usleep(100);
    kineto_trace *t = finish(s);
    assert_true(ledger(t, "stuck", "a thread did not return") > 0);
    assert_string_equal(f->calls, "cstpd");
    assert_string_equal(other->calls, "cstpd");
    kineto_trace_release(t);
    kb_store_release(&may_go, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(other->pushes, 1);
    leave(0);
    leave(1);
}

/* ---- without handles --------------------------------------------------------------------------------------- */

/* Two profilers that need no handle, and bear the same name. */
static uint32_t heard_without_handle[2];

static int plain_query(KinetoPlugin_ProfilerQuery_Params *p)
{
    memcpy(p->pProfilerName, "twin", 5);
    p->pSupportedActivityTypes[0] = TYPE(CONCURRENT_KERNEL);
    return 0;
}
static int plain_create(KinetoPlugin_ProfilerCreate_Params *p)
{
    return p->pProfilerHandle != NULL;
}
static int plain_destroy(KinetoPlugin_ProfilerDestroy_Params *p)
{
    return p->pProfilerHandle != NULL;
}
static int plain_start(KinetoPlugin_ProfilerStart_Params *p) { return p->pProfilerHandle != NULL; }
static int plain_stop(KinetoPlugin_ProfilerStop_Params *p) { return p->pProfilerHandle != NULL; }
static int plain_process(KinetoPlugin_ProfilerProcessEvents_Params *p)
{
    return p->pProfilerHandle != NULL;
}
static int plain_push_0(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    heard_without_handle[0]++;
    return p->pProfilerHandle != NULL;
}
static int plain_push_1(KinetoPlugin_ProfilerPushCorrelationId_Params *p)
{
    heard_without_handle[1]++;
    return p->pProfilerHandle != NULL;
}

static void profilers_that_look_the_same_are_kept_apart(void **state)
{
    (void)state;
    KinetoPlugin_ProfilerInterface twins[2] = {
        {.unpaddedStructSize = SIZE_TO(ProfilerInterface, profilerProcessEvents),
         .profilerCreate = plain_create,
         .profilerDestroy = plain_destroy,
         .profilerQuery = plain_query,
         .profilerStart = plain_start,
         .profilerStop = plain_stop,
         .profilerPushCorrelationId = plain_push_0,
         .profilerProcessEvents = plain_process}};
    twins[1] = twins[0];
    twins[1].profilerPushCorrelationId = plain_push_1;
    assert_int_equal(register_interface(&twins[0]), 0);
    assert_int_equal(register_interface(&twins[1]), 0);
    kineto_session *s = record();
    kineto_correlation_push(1);
    assert_int_equal(kineto_plugin_unregister(&twins[0]), 0);
    kineto_correlation_push(2);
    kineto_correlation_pop();
    kineto_correlation_pop();
    kineto_trace *t = finish(s);
    assert_int_equal(heard_without_handle[0], 1);
    assert_int_equal(heard_without_handle[1], 2);
    assert_int_equal(ledger(t, "twin", "plug-in call failed"), 0);
    kineto_trace_release(t);
    assert_int_equal(kineto_plugin_unregister(&twins[1]), 0);
}

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_listeners_hear_both_stacks_apart),
        cmocka_unit_test(a_plug_in_may_have_some_of_the_functions_only),
        cmocka_unit_test(who_has_no_session_hears_nothing),
        cmocka_unit_test(a_pop_is_heard_only_for_a_push_of_the_session),
        cmocka_unit_test(who_comes_between_push_and_pop_hears_neither),
        cmocka_unit_test(who_is_restarted_between_push_and_pop_hears_no_pop),
        cmocka_unit_test(pushes_and_pops_stay_in_balance_over_a_pause),
        cmocka_unit_test(what_nests_too_deep_is_left_out_on_both_sides),
        cmocka_unit_test(threads_have_stacks_of_their_own),
        cmocka_unit_test(a_push_inside_a_push_is_heard_once),
        cmocka_unit_test(a_plug_in_may_deliver_and_record_inside_a_push),
        cmocka_unit_test(a_push_or_pop_that_fails_is_counted_and_the_other_hears_on),
        cmocka_unit_test(a_thread_that_is_cancelled_inside_blocks_no_other),
        cmocka_unit_test(a_thread_that_stays_inside_is_reported_and_does_not_stop_the_session),
        cmocka_unit_test(profilers_that_look_the_same_are_kept_apart),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}
