/* Plug-ins and children of fork: a session that was inherited is the parent's to end, events of the
 * child's are its own, and a child may begin anew. */
#include "unit.h"

#include "../helpers/recording.h"

#include "base/base.h"

#include "../helpers/plugins.h"

/* A check in a child, which must not run cmocka's failures. */
#define CHILD_CHECK(condition)                                                                     \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: in the child: %s\n", __FILE__, __LINE__, #condition);          \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static kineto_session *child_begins(uint64_t kinds)
{
    kineto_session *s = NULL;
    kineto_session_options o;
    kineto_session_options_init(&o);
    o.kinds = kinds;
    o.buffer_bytes = 1 << 20;
    CHILD_CHECK(begin_session(&o, &s, NULL) == KINETO_OK);
    return s;
}

static void a_child_leaves_the_inherited_session_alone(void **state)
{
    (void)state;
    static const char *const ends[] = {"_exit", "exit", "unregister"};
    for (size_t i = 0; i < COUNT_OF(ends); i++) {
        fake *f = enter(0, "inherited");
        kineto_session *s = record();
        pid_t pid = fork();
        if (pid == 0) {
            CHILD_CHECK(kineto_session_stop(s, NULL, NULL) == KINETO_E_STATE);
            if (i == 2)
                CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0);
            CHILD_CHECK(strcmp(f->calls, "cs") == 0);
            if (i == 1)
                exit(0); /* through what would end the parent's */
            _exit(0);
        }
        assert_exit(pid, 0);
        assert_string_equal(f->calls, "cs");
        assert_int_equal(emit_named(f->live, "parent"), 0);
        kineto_trace *t = finish(s);
        assert_nothing_lost(t);
        assert_int_equal(kineto_trace_count(t), 1);
        assert_string_equal(f->calls, "cstpd");
        kineto_trace_release(t);
        leave(0);
    }
}

static void deliver_as_child(const fake *f)
{
    CHILD_CHECK(emit_named(f->live, "child") == 0);
    CHILD_CHECK(add_named(f->live, now_ns(), "child in steps") == 0);
    CHILD_CHECK(emit_named(f->live, "child") == 0); /* and with it what was under way */
}

static void what_a_child_delivers_through_the_inherited_builder_is_recorded(void **state)
{
    (void)state;
    fake *f = enter(0, "inherited");
    kineto_session *s = record();
    assert_int_equal(add_named(f->live, f->started_ns, "parent in steps"), 0); /* under way */
    for (int i = 0; i < 5; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            /* the parent's event is not the child's to change */
            CHILD_CHECK(f->live->setLastEventName(f->live->pTraceBuilderHandle, "stolen") != 0);
            deliver_as_child(f);
            _exit(0);
        }
        assert_exit(pid, 0);
    }
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "child"), 10);
    assert_int_equal(count_named(t, "child in steps"), 5);
    assert_int_equal(count_named(t, "parent in steps"), 1);
    assert_int_equal(count_named(t, "stolen"), 0);
    kineto_trace_release(t);
    leave(0);
}

static void a_child_that_begins_its_own_session_gets_the_plug_in(void **state)
{
    (void)state;
    fake *f = enter(0, "anew");
    kineto_trace_release(finish(record())); /* there is a pool */
    forget_calls();
    pid_t pid = fork();
    if (pid == 0) {
        kineto_trace *t = NULL;
        kineto_session *s = child_begins(KINETO_KINDS_ALL);
        CHILD_CHECK(strcmp(f->calls, "cs") == 0);
        deliver_as_child(f);
        usleep(100);
        CHILD_CHECK(end_session(s, &t, NULL) == KINETO_OK);
        CHILD_CHECK(strcmp(f->calls, "cstpd") == 0);
        CHILD_CHECK(count_named(t, "child") == 2 && count_named(t, "child in steps") == 1);
        exit(0);
    }
    assert_exit(pid, 0);
    assert_string_equal(f->calls, "");
    leave(0);
}

/* The child of a process that records goes on with its parent's builder. */
static void a_child_may_record_next_to_what_it_inherited(void **state)
{
    (void)state;
    fake *f = enter(0, "beside");
    kineto_session *s = record();
    pid_t pid = fork();
    if (pid == 0) {
        kineto_trace *t = NULL;
        kineto_session *mine = child_begins(KINETO_KINDS_ALL);
        CHILD_CHECK(strcmp(f->calls, "cs") == 0);
        deliver_as_child(f);
        usleep(100);
        CHILD_CHECK(end_session(mine, &t, NULL) == KINETO_OK);
        CHILD_CHECK(strcmp(f->calls, "cs") == 0);
        CHILD_CHECK(count_named(t, "child") == 2);
        exit(0);
    }
    assert_exit(pid, 0);
    assert_string_equal(f->calls, "cs");
    kineto_trace *t = finish(s);
    assert_int_equal(count_named(t, "child"), 2);
    kineto_trace_release(t);
    leave(0);
}

static void a_child_may_withdraw_and_register_anew(void **state)
{
    (void)state;
    fake *f = enter(0, "anew");
    kineto_session *s = record();
    const builder *old = f->live;
    pid_t pid = fork();
    if (pid == 0) {
        CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0);
        CHILD_CHECK(emit_named(old, "late") != 0);
        f->calls[0] = 0;
        CHILD_CHECK(register_interface(&interfaces[0]) == 0);
        CHILD_CHECK(strcmp(f->calls, "qcs") == 0); /* the parent still records: so does it */
        CHILD_CHECK(emit_named(f->live, "new") == 0);
        CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0);
        CHILD_CHECK(strcmp(f->calls, "qcstpd") == 0);
        exit(0);
    }
    assert_exit(pid, 0);
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "new"), 1);
    assert_int_equal(count_named(t, "late"), 0);
    assert_string_equal(f->calls, "cstpd");
    kineto_trace_release(t);
    leave(0);
}

/* ---- correlation ids ----------------------------------------------------------------------------------- */

static void a_child_is_not_heard_by_the_parents_plug_ins(void **state)
{
    (void)state;
    fake *f = enter_with(0, "listens", LISTENS);
    kineto_session *s = record();
    kineto_correlation_push(1);
    pid_t pid = fork();
    if (pid == 0) {
        kineto_correlation_push(2);
        kineto_correlation_pop();
        kineto_correlation_pop();
        CHILD_CHECK(strcmp(f->heard, "1 ") == 0);
        CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0);
        CHILD_CHECK(register_interface(&interfaces[0]) == 0);
        kineto_correlation_pop(); /* of the parent's push */
        kineto_correlation_push(3);
        kineto_correlation_pop();
        CHILD_CHECK(strcmp(f->heard, "1 3 . ") == 0);
        exit(0);
    }
    assert_exit(pid, 0);
    kineto_correlation_pop();
    assert_string_equal(f->heard, "1 . ");
    kineto_trace_release(finish(s));
    leave(0);
}

static pid_t forked_inside;
static void fork_inside(fake *f, uint64_t id)
{
    (void)f;
    if (id == 1)
        forked_inside = fork();
}

static void a_fork_inside_a_push_is_fine_on_both_sides(void **state)
{
    (void)state;
    fake *f = enter_with(0, "forks", LISTENS), *other = enter_with(1, "other", LISTENS);
    f->at_push = fork_inside;
    kineto_session *s = record();
    kineto_correlation_push(1);
    if (forked_inside == 0) {
        kineto_correlation_pop();
        CHILD_CHECK(emit_named(f->live, "child") == 0);
        kineto_correlation_push(2);
        CHILD_CHECK(f->pushes == 1);
        CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0);
        exit(0);
    }
    assert_exit(forked_inside, 0);
    kineto_correlation_pop();
    usleep(100);
    kineto_trace *t = finish(s);
    verify(t);
    assert_int_equal(count_named(t, "child"), 1);
    assert_int_equal(ledger(t, "forks", "a thread did not return"), 0);
    assert_string_equal(other->heard, "1 . ");
    kineto_trace_release(t);
    leave(0);
    leave(1);
}

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
static uint32_t enough;
static void *push_until_signalled(void *argument)
{
    (void)argument;
    while (!kb_load_acquire(&enough)) {
        kineto_correlation_push(1);
        kineto_correlation_pop();
    }
    return NULL;
}

static void deliver_inside(fake *f, uint64_t id)
{
    (void)id;
    (void)add_named(f->live, in_session(f), "inside");
}
static void say_nothing(fake *f) { (void)f; }

/* The child has copies of threads that are inside, and of locks that are taken: no thread there will
 * ever leave or drop them. */
static void a_fork_while_others_push_and_deliver_leaves_a_child_that_works(void **state)
{
    (void)state;
    fake *f = enter_with(0, "busy", LISTENS);
    f->at_push = deliver_inside;
    f->at_pop = say_nothing;
    kineto_session *s = session_of(KINETO_KINDS_ALL, 1 << 20, KINETO_RETAIN_NEWEST);
    enough = 0;
    pthread_t threads[2] = {start_thread(push_until_signalled, NULL),
                            start_thread(push_until_signalled, NULL)};
    for (int i = 0; i < 50; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(20);
            if (i & 1)
                CHILD_CHECK(kineto_plugin_unregister(&interfaces[0]) == 0 &&
                            register_interface(&interfaces[0]) == 0);
            kineto_correlation_push(1);
            kineto_correlation_pop();
            kineto_session *mine = child_begins(BIT(CPU_OP));
            CHILD_CHECK(end_session(mine, NULL, NULL) == KINETO_OK);
            _exit(0);
        }
        assert_exit(pid, 0);
    }
    kb_store_release(&enough, 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    kineto_trace *t = finish(s);
    verify(t);
    kineto_trace_release(t);
    leave(0);
}
#else
static void a_fork_while_others_push_and_deliver_leaves_a_child_that_works(void **state)
{
    (void)state;
    skip(); /* sanitizers cannot fork while other threads run */
}
#endif

int main(int count, char **arguments)
{
    (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL); /* refusals are what is tested here */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_leaves_the_inherited_session_alone),
        cmocka_unit_test(what_a_child_delivers_through_the_inherited_builder_is_recorded),
        cmocka_unit_test(a_child_that_begins_its_own_session_gets_the_plug_in),
        cmocka_unit_test(a_child_may_record_next_to_what_it_inherited),
        cmocka_unit_test(a_child_may_withdraw_and_register_anew),
        cmocka_unit_test(a_child_is_not_heard_by_the_parents_plug_ins),
        cmocka_unit_test(a_fork_inside_a_push_is_fine_on_both_sides),
        cmocka_unit_test(a_fork_while_others_push_and_deliver_leaves_a_child_that_works),
    };
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    return RUN_TESTS(tests);
}
