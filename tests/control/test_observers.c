/* Who hears of traces: the program's observers, the log, and the program as a recorder of its own.
 */
#include "output_fixture.h"

#include "ondemand/capture/observers.h"
#include "../helpers/sessions.h"

#include <ckineto/session.h>

#include <sys/wait.h>

#define THREADS 4

typedef struct hearer {
    kineto_stage_event last;
    char text[100], path[100], trace_id[100];
    uint64_t calls; /* atomic */
    bool leaves, waits;
    bool inside, go_on; /* atomic */
    bool gone;          /* atomic: it must not be called any more */
} hearer;

static void hear(const kineto_stage_event *event, void *user)
{
    hearer *h = user;
    assert_false(kb_load_acquire(&h->gone));
    kb_store_release(&h->inside, true);
    while (h->waits && !kb_load_acquire(&h->go_on))
        usleep(100);
    h->last = *event;
    snprintf(h->text, sizeof h->text, "%s", event->text);
    snprintf(h->path, sizeof h->path, "%s", event->path);
    snprintf(h->trace_id, sizeof h->trace_id, "%s", event->trace_id);
    if (h->leaves)
        kineto_control_remove_observer(hear, h);
    (void)kb_add_relaxed(&h->calls, UINT64_C(1));
    kb_store_release(&h->inside, false);
}

static const ko_stage_note note = {.ticket = 3,
                                   .stage = KO_STAGE_WRITTEN,
                                   .time_ns = 17,
                                   .trace_id = "abc",
                                   .group_id = "all",
                                   .text = "less warm",
                                   .path = "/tmp/x.json",
                                   .bytes = 99};

static void tell(void) { ko_observers_watch(NULL, &note); }

static void add(hearer *h)
{
    if (kineto_control_add_observer(hear, h, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

/* ---- observers --------------------------------------------------------------------------------------- */

static void an_observer_hears_what_the_header_says(void **state)
{
    (void)state;
    hearer h = {.calls = 0};
    ko_stage_note failed = {.ticket = 4, .stage = KO_STAGE_FAILED, .path = "/tmp/x", .bytes = 3};
    add(&h);
    tell();
    assert_int_equal(h.last.size, sizeof h.last);
    assert_int_equal(h.last.ticket, 3);
    assert_int_equal(h.last.stage, KINETO_STAGE_WRITTEN);
    assert_int_equal(h.last.time_ns, 17);
    assert_int_equal(h.last.bytes, 99);
    assert_string_equal(h.text, "less warm");
    assert_string_equal(h.path, "/tmp/x.json");
    assert_string_equal(h.trace_id, "abc");
    ko_observers_watch(NULL, &failed); /* texts that are not there are empty */
    assert_string_equal(h.text, "");
    assert_string_equal(h.path, "");
    assert_string_equal(h.trace_id, "");
    assert_int_equal(h.last.bytes, 0);
    kineto_control_remove_observer(hear, &h);
    tell();
    assert_int_equal(h.calls, 2);
}

static void stages_have_names(void **state)
{
    (void)state;
    assert_string_equal(kineto_stage_name(KINETO_STAGE_ACCEPTED), "accepted");
    assert_string_equal(kineto_stage_name(KINETO_STAGE_WARMUP), "warm-up");
    assert_string_equal(kineto_stage_name(KINETO_STAGE_CANCELLED), "cancelled");
    assert_string_equal(kineto_stage_name(KINETO_NUM_STAGES), "unknown");
}

static void there_may_be_eight(void **state)
{
    (void)state;
    hearer all[9];
    memset(all, 0, sizeof all);
    err = (kineto_error){0};
    assert_fails(kineto_control_add_observer(NULL, NULL, &err), KINETO_E_ARGUMENT, "NULL");
    for (int i = 0; i < 8; i++)
        add(&all[i]);
    assert_fails(kineto_control_add_observer(hear, &all[8], &err), KINETO_E_LIMIT, "8");
    kineto_control_remove_observer(hear, &all[5]);
    kineto_control_remove_observer(hear, &all[5]); /* nothing */
    kineto_control_remove_observer(NULL, NULL);
    add(&all[8]);
    tell();
    for (int i = 0; i < 9; i++)
        assert_int_equal(all[i].calls, i != 5);
    for (int i = 0; i < 9; i++)
        kineto_control_remove_observer(hear, &all[i]);
}

static void one_may_leave_while_it_hears(void **state)
{
    (void)state;
    hearer first = {.leaves = true}, second = {.calls = 0};
    add(&first);
    add(&second);
    tell();
    tell();
    assert_int_equal(first.calls, 1);
    assert_int_equal(second.calls, 2);
    kineto_control_remove_observer(hear, &second);
}

static void *tell_once(void *argument)
{
    (void)argument;
    tell();
    return NULL;
}

static void *let_go_on(void *argument)
{
    hearer *h = argument;
    usleep(20000);
    kb_store_release(&h->go_on, true);
    return NULL;
}

static void to_remove_one_waits_for_its_calls(void **state)
{
    (void)state;
    hearer h = {.waits = true};
    pthread_t teller, other;
    add(&h);
    assert_int_equal(kb_thread_start(&teller, tell_once, NULL), 0);
    while (!kb_load_acquire(&h.inside))
        usleep(100);
    assert_int_equal(kb_thread_start(&other, let_go_on, &h), 0);
    kineto_control_remove_observer(hear, &h);
    assert_false(kb_load_acquire(&h.inside));
    assert_int_equal(h.calls, 1);
    pthread_join(teller, NULL);
    pthread_join(other, NULL);
}

static bool over;

static void count(const kineto_stage_event *event, void *user)
{
    hearer *h = user;
    assert_int_equal(event->ticket, 3);
    assert_false(kb_load_acquire(&h->gone));
    (void)kb_add_relaxed(&h->calls, UINT64_C(1));
}

static void *tell_on(void *argument)
{
    (void)argument;
    while (!kb_load_relaxed(&over))
        tell();
    return NULL;
}

static void *come_and_go(void *argument)
{
    hearer *h = argument;
    while (!kb_load_relaxed(&over)) {
        kb_store_release(&h->gone, false);
        if (kineto_control_add_observer(count, h, NULL) != KINETO_OK)
            continue;
        usleep(50);
        kineto_control_remove_observer(count, h);
        kb_store_release(&h->gone, true);
    }
    return NULL;
}

/* After it is removed it is not called, whatever goes on. */
static void many_threads_tell_come_and_go(void **state)
{
    (void)state;
    hearer all[THREADS];
    pthread_t threads[THREADS], tellers[2];
    uint64_t calls = 0;
    memset(all, 0, sizeof all);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(kb_thread_start(&threads[i], come_and_go, &all[i]), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kb_thread_start(&tellers[i], tell_on, NULL), 0);
    usleep(100000);
    kb_store_relaxed(&over, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(tellers[i], NULL);
    for (int i = 0; i < THREADS; i++)
        calls += all[i].calls;
    assert_true(calls > 0);
}

/* A thread that was telling is not there in a child. */
static void a_child_of_fork_does_not_wait(void **state)
{
    (void)state;
    hearer h = {.waits = true};
    pthread_t teller;
    int status;
    add(&h);
    assert_int_equal(kb_thread_start(&teller, tell_once, NULL), 0);
    while (!kb_load_acquire(&h.inside))
        usleep(100);
    pid_t pid = fork();
    if (pid == 0) {
        h.waits = false;
        tell();
        kineto_control_remove_observer(hear, &h);
        _exit(h.calls == 1 ? 0 : 1);
    }
    kb_store_release(&h.go_on, true);
    pthread_join(teller, NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    kineto_control_remove_observer(hear, &h);
}

/* ---- the log -------------------------------------------------------------------------------------------- */

static void the_log_has_a_line_for_each_stage(void **state)
{
    (void)state;
    char text[4096];
    path p = at("%s/log", root);
    ko_stage_note accepted = {.ticket = 5, .stage = KO_STAGE_ACCEPTED, .path = "/tmp/y.json"};
    ko_stage_note collect = {.ticket = 5, .stage = KO_STAGE_COLLECT, .trace_id = "7"};
    ko_stage_note refused = {
        .ticket = 6, .stage = KO_STAGE_REFUSED, .group_id = "g\n", .text = "busy"};
    assert_int_equal(kb_log_configure(-1, p.s, &err), KINETO_OK);
    ko_log_watch(NULL, &accepted);
    ko_log_watch(NULL, &collect);
    ko_log_watch(NULL, &refused);
    ko_log_watch(NULL, &note);
    assert_int_equal(kb_log_configure(KINETO_LOG_ERROR, NULL, &err), KINETO_OK);
    ko_log_watch(NULL, &note); /* not this one */
    assert_int_equal(kb_log_configure(KINETO_LOG_WARNING, NULL, &err), KINETO_OK);
    assert_true(read_whole(p.s, text, sizeof text) > 0);
    static const char *const lines[] = {
        "STAGE: on-demand tracing: request 5: accepted /tmp/y.json\n",
        "STAGE: on-demand tracing: request 5 (trace id 7): collect\n",
        "STAGE: on-demand tracing: request 6 (group g ): refused: busy\n",
        "STAGE: on-demand tracing: request 3 (trace id abc, group all): written /tmp/x.json, 99 "
        "bytes: less warm\n"};
    char *from = text;
    for (size_t i = 0; i < KB_COUNT(lines); i++) {
        char *found = strstr(from, lines[i]);
        if (!found)
            fail_msg("'%s' is not in '%s'", lines[i], from);
        from = found + strlen(lines[i]);
    }
    assert_int_equal(*from, '\0');
}

/* ---- the program as a recorder -------------------------------------------------------------------------- */

static char heard[64];
static kineto_status export_status;

static void say(char c)
{
    size_t n = strlen(heard);
    if (n + 1 < sizeof heard)
        heard[n] = c;
}

static void client_prepare(bool shapes, bool memory, bool stack, bool flops, bool modules,
                           void *user)
{
    assert_string_equal(user, "me");
    assert_true(shapes && !memory && stack && !flops && modules);
    say('p');
}
static void client_start(void *user) { say(user ? 's' : '?'); }
static void client_stop(void *user) { say(user ? 'e' : '?'); }
static void client_memory_start(void *user) { say(user ? 'm' : '?'); }
static void client_memory_stop(void *user) { say(user ? 'n' : '?'); }
static kineto_status client_export(const char *file, void *user, kineto_error *error)
{
    FILE *f = fopen(file, "wb");
    say(user ? 'x' : '?');
    if (!f)
        return kb_fail_os(error, errno, "cannot write '%s'", file);
    fputs("snapshot", f);
    fclose(f);
    return export_status ? kb_fail(error, export_status, "no memory of it") : KINETO_OK;
}

static const kineto_control_client whole = {sizeof whole,       (void *)"me", client_prepare,
                                            client_start,       client_stop,  client_memory_start,
                                            client_memory_stop, client_export};

static void set(const kineto_control_client *client)
{
    memset(heard, 0, sizeof heard);
    if (kineto_control_set_client(client, &err) != KINETO_OK)
        fail_msg("%s", err.message);
}

static ko_request wishes(void)
{
    ko_request r;
    ko_request_init(&r);
    r.record_shapes = r.with_stack = r.with_modules = true;
    return r;
}

static void a_client_is_called_in_order(void **state)
{
    (void)state;
    ko_request r = wishes();
    set(&whole);
    ko_client_prepare(&r);
    err = (kineto_error){0};
    assert_fails(kineto_control_set_client(NULL, &err), KINETO_E_STATE, "under way");
    ko_client_start();
    ko_client_stop();
    ko_client_drop(); /* after it nothing */
    assert_string_equal(heard, "pse");
    ko_client_prepare(&r);
    ko_client_drop(); /* it has not started */
    ko_client_prepare(&r);
    ko_client_start();
    ko_client_drop();
    assert_string_equal(heard, "psep"
                               "pse");
    set(NULL);
    ko_client_prepare(&r);
    ko_client_start();
    ko_client_stop();
    assert_string_equal(heard, "");
    assert_int_equal(ko_violation_count(), 0);
}

static void a_client_of_a_program_that_is_older_has_fewer_calls(void **state)
{
    (void)state;
    ko_request r = wishes();
    kineto_control_client old = whole;
    old.size = offsetof(kineto_control_client, memory_start);
    set(&old);
    assert_false(ko_client_takes_snapshots());
    ko_client_prepare(&r);
    ko_client_start();
    ko_client_stop();
    assert_string_equal(heard, "pse");
    old.size = 4;
    err = (kineto_error){0};
    assert_fails(kineto_control_set_client(&old, &err), KINETO_E_ARGUMENT, "size");
    set(NULL);
}

static void a_client_takes_memory_snapshots(void **state)
{
    (void)state;
    char text[32];
    uint64_t bytes = 0;
    path p = at("%s/m.pickle", allowed);
    set(&whole);
    assert_true(ko_client_takes_snapshots());
    ko_client_snapshot_start();
    err = (kineto_error){0};
    assert_fails(kineto_control_set_client(NULL, &err), KINETO_E_STATE, "under way");
    assert_works(ko_client_snapshot_stop(KO_FROM_REQUEST, p.s, &bytes, &err));
    assert_string_equal(heard, "mxn");
    assert_int_equal(bytes, 8);
    assert_int_equal(read_whole(p.s, text, sizeof text), 8);
    unlink(p.s);
    ko_client_snapshot_start();
    export_status = KINETO_E_BUSY;
    assert_fails(ko_client_snapshot_stop(KO_FROM_REQUEST, p.s, &bytes, &err), KINETO_E_BUSY,
                 "no memory of it");
    export_status = KINETO_OK;
    ko_client_snapshot_start();
    assert_fails(ko_client_snapshot_stop(KO_FROM_REQUEST, "/etc/m.pickle", &bytes, &err),
                 KINETO_E_PERMISSION, "only beneath");
    ko_client_snapshot_start();
    ko_client_snapshot_drop();
    ko_client_snapshot_drop();
    assert_string_equal(heard, "mxnmxnmxnmn");
    set(NULL);
    assert_int_equal(entries(allowed), 0);
    assert_int_equal(entries(root), 3); /* and the log of another test */
}

/* ---- invariants -------------------------------------------------------------------------------------------- */

static void what_must_not_happen_is_counted_and_said(void **state)
{
    (void)state;
    char text[8192];
    path p = at("%s/invariants", root);
    ko_request r = wishes();
    set(&whole);
    assert_int_equal(kb_log_configure(-1, p.s, &err), KINETO_OK);
    uint64_t before = ko_violation_count();
    ko_client_start(); /* not prepared */
    ko_client_stop();  /* not started */
    assert_string_equal(heard, "");
    ko_client_prepare(&r);
    ko_client_start();
    ko_client_start();
    ko_client_prepare(&r); /* it is stopped first */
    ko_client_drop();
    assert_string_equal(heard, "psep");
    err = (kineto_error){0};
    assert_fails(ko_client_snapshot_stop(KO_FROM_REQUEST, "/x", NULL, &err), KINETO_E_STATE,
                 "no memory snapshot");
    assert_int_equal(ko_violation_count() - before, 5);
    set(NULL);
    assert_true(read_whole(p.s, text, sizeof text) > 0);
    assert_non_null(strstr(text, "the client is stopped without being started"));
}

static void the_trace_says_what_must_not_have_happened(void **state)
{
    (void)state;
    kineto_session *session;
    kineto_trace *trace;
    bool said = false;
    assert_works(begin_session(NULL, &session, &err));
    ko_report_violation("two and two are five");
    assert_works(end_session(session, &trace, &err));
    for (uint32_t i = 0; i < kineto_trace_ledger_count(trace); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(trace, i, &line);
        said |= kb_string_equal(line.reason, kb_string("invariant violated")) &&
                kb_string_equal(line.detail, kb_string("two and two are five")) && !line.is_loss;
    }
    assert_true(said);
    kineto_trace_release(trace);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_observer_hears_what_the_header_says),
        cmocka_unit_test(stages_have_names),
        cmocka_unit_test(there_may_be_eight),
        cmocka_unit_test(one_may_leave_while_it_hears),
        cmocka_unit_test(to_remove_one_waits_for_its_calls),
        cmocka_unit_test(many_threads_tell_come_and_go),
        cmocka_unit_test(a_child_of_fork_does_not_wait),
        cmocka_unit_test(the_log_has_a_line_for_each_stage),
        cmocka_unit_test(a_client_is_called_in_order),
        cmocka_unit_test(a_client_of_a_program_that_is_older_has_fewer_calls),
        cmocka_unit_test(a_client_takes_memory_snapshots),
        cmocka_unit_test(what_must_not_happen_is_counted_and_said),
        cmocka_unit_test(the_trace_says_what_must_not_have_happened),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
