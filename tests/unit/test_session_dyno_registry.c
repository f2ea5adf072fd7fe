/* What the daemon knows of processes: who matches, who gets a text, how often, how much it keeps.
 */
#include "unit.h"

#include "ondemand/dynolog/dyno.h"

#define SECOND UINT64_C(1000000000)

static ko_dyno_message request(int64_t job, uint32_t count, ...)
{
    ko_dyno_message m = {
        .type = KO_DYNO_REQUEST, .job = job, .wants = KO_DYNO_WANTS_ACTIVITIES, .pid_count = count};
    va_list pids;
    va_start(pids, count);
    for (uint32_t i = 0; i < count; i++)
        m.pids[i] = va_arg(pids, int);
    va_end(pids);
    return m;
}

static char *ask(ko_dyno_registry *r, ko_dyno_message m, uint64_t now_ns)
{
    return ko_dyno_registry_poll(r, &m, 1000, now_ns);
}

static ko_dyno_matches trigger(ko_dyno_registry *r, int64_t job, int32_t pid, int32_t limit,
                               uint64_t now_ns)
{
    ko_dyno_matches out;
    ko_dyno_trigger t = {
        .job = job, .pids = &pid, .pid_count = 1, .limit = limit, .config = kb_string("A=1")};
    assert_int_equal(ko_dyno_registry_trigger(r, &t, now_ns, &out, NULL), KINETO_OK);
    return out;
}

static void expect(ko_dyno_matches m, size_t matched, size_t triggered, uint32_t busy)
{
    assert_int_equal(m.matched.count, matched);
    assert_int_equal(m.triggered.count, triggered);
    assert_int_equal(m.busy, busy);
    ko_dyno_matches_free(&m);
}

static void a_text_is_given_once_with_an_id_as_dynolog_adds_it(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    ko_dyno_message m = request(0, 2, 20, 10);
    unsigned long long id = 0;
    char again[128];
    assert_null(ask(r, m, 1));
    expect(trigger(r, 0, 0, -1, 1), 1, 1, 0);
    expect(trigger(r, 0, 0, -1, 1), 1, 0, 1); /* busy: not fetched */
    m.wants = KO_DYNO_WANTS_NOTHING;
    assert_null(ask(r, m, 2));
    m.wants = KO_DYNO_WANTS_EVENTS;
    assert_null(ask(r, m, 2));
    m.wants = KO_DYNO_WANTS_EVENTS | KO_DYNO_WANTS_ACTIVITIES;
    char *text = ask(r, m, 2);
    assert_non_null(text);
    assert_int_equal(sscanf(text, "\n    A=1\n    REQUEST_TRACE_ID=%llu", &id), 1);
    snprintf(again, sizeof again, "\n    A=1\n    REQUEST_TRACE_ID=%llu\n", id);
    assert_string_equal(text, again);
    free(text);
    assert_null(ask(r, m, 2));
    expect(trigger(r, 0, 0, -1, 3), 1, 1, 0);
    char *next = ask(r, m, 3);
    assert_string_not_equal(next, again); /* another id */
    free(next);
    ko_dyno_registry_destroy(r);
}

static void a_text_that_could_not_be_sent_waits_again(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    ko_dyno_message m = request(7, 1, 20);
    assert_null(ask(r, m, 1));
    expect(trigger(r, 7, 20, -1, 1), 1, 1, 0);
    char *text = ask(r, m, 2), *copy = strdup(text);
    ko_dyno_registry_give_back(r, &m, 1000, text);
    expect(trigger(r, 7, 20, -1, 2), 1, 0, 1);
    text = ask(r, m, 3);
    assert_string_equal(text, copy);
    ko_dyno_registry_give_back(r, &m, 999, text); /* unknown process */
    assert_null(ask(r, m, 3));
    free(copy);
    ko_dyno_registry_destroy(r);
}

static uint32_t offers;

static char *offer(void *context, const ko_dyno_process *process, int32_t wants)
{
    assert_ptr_equal(context, &offers);
    assert_int_equal(process->pid, 20);
    assert_int_equal(process->pid_count, 2);
    assert_false(process->waits);
    offers += wants != KO_DYNO_WANTS_NOTHING;
    return strdup("B=2");
}

/* At once, the first time, too; a busy process gets nothing, but its requester is informed. */
static void a_text_may_be_offered_on_request(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    ko_dyno_message m = request(7, 2, 20, 10), busy = m;
    busy.wants = KO_DYNO_WANTS_NOTHING;
    ko_dyno_registry_offer(r, offer, &offers);
    assert_null(ask(r, busy, 1));
    assert_int_equal(offers, 0);
    char *text = ask(r, m, 2);
    assert_string_equal(text, "B=2");
    assert_int_equal(offers, 1);
    ko_dyno_registry_give_back(r, &m, 1000, text);
    text = ask(r, m, 3); /* what waits comes first */
    assert_string_equal(text, "B=2");
    assert_int_equal(offers, 1);
    free(text);
    ko_dyno_registry_offer(r, NULL, NULL);
    assert_null(ask(r, m, 4));
    ko_dyno_registry_destroy(r);
}

static void pids_of_ancestors_and_jobs_choose_processes(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    free(ask(r, request(1, 2, 21, 10), 1));
    free(ask(r, request(1, 2, 22, 10), 1));
    free(ask(r, request(1, 1, 23), 1));
    free(ask(r, request(2, 2, 24, 10), 1));
    expect(trigger(r, 1, 10, -1, 1), 2, 2, 0);
    expect(trigger(r, 1, 23, -1, 1), 1, 1, 0);
    expect(trigger(r, 1, 0, -1, 1), 3, 0, 3);
    expect(trigger(r, 1, 99, -1, 1), 0, 0, 0);
    expect(trigger(r, 3, 0, -1, 1), 0, 0, 0);
    expect(trigger(r, 2, 10, -1, 1), 1, 1, 0);
    ko_dyno_trigger none = {.job = 2, .limit = -1, .config = {NULL, 0}};
    ko_dyno_matches out;
    assert_int_equal(ko_dyno_registry_trigger(r, &none, 1, &out, NULL), KINETO_OK);
    expect(out, 1, 0, 1);
    ko_dyno_registry_destroy(r);
}

static void a_limit_counts_from_the_lowest_pid(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    free(ask(r, request(0, 2, 50, 40), 1));
    free(ask(r, request(0, 2, 60, 30), 1));
    free(ask(r, request(0, 2, 20, 70), 1));
    ko_dyno_matches m = trigger(r, 0, 0, 2, 1);
    assert_int_equal(m.triggered.count, 2);
    assert_int_equal(m.triggered.data[0], 20);
    assert_int_equal(m.triggered.data[1], 60);
    assert_int_equal(m.matched.count, 3);
    assert_int_equal(m.matched.data[2], 50);
    assert_int_equal(m.busy, 0);
    ko_dyno_matches_free(&m);
    expect(trigger(r, 0, 0, 0, 1), 3, 0, 0); /* over the limit: not busy either */
    expect(trigger(r, 0, 0, 1, 1), 3, 1, 2);
    ko_dyno_registry_destroy(r);
}

static void processes_with_the_same_set_share_an_entry_but_not_with_other_users(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    ko_dyno_message m = request(0, 3, 5, 6, 5), same = request(0, 2, 6, 5);
    assert_null(ko_dyno_registry_poll(r, &m, 1000, 1));
    assert_null(ko_dyno_registry_poll(r, &same, 1000, 1));
    expect(trigger(r, 0, 0, -1, 1), 1, 1, 0);
    assert_null(ko_dyno_registry_poll(r, &same, 1001, 1)); /* another user's */
    char *text = ko_dyno_registry_poll(r, &same, 1000, 1);
    assert_non_null(text);
    free(text);
    assert_null(ko_dyno_registry_poll(r, &m, 1000, 1));
    ko_dyno_registry_destroy(r);
}

static void who_is_silent_for_a_minute_is_forgotten(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    free(ask(r, request(0, 1, 5), SECOND));
    free(ask(r, request(0, 1, 6), SECOND));
    expect(trigger(r, 0, 0, -1, SECOND), 2, 2, 0);
    ko_dyno_message idle = request(0, 1, 6);
    idle.wants = KO_DYNO_WANTS_NOTHING;
    free(ask(r, idle, 40 * SECOND)); /* keeps it known */
    expect(trigger(r, 0, 0, -1, 61 * SECOND), 2, 0, 2);
    expect(trigger(r, 0, 0, -1, 61 * SECOND + 1), 1, 0, 1);
    ko_dyno_registry_age(r, 200 * SECOND);
    expect(trigger(r, 0, 0, -1, 200 * SECOND), 0, 0, 0);
    ko_dyno_registry_destroy(r);
}

static void count(void *context, const ko_dyno_process *process)
{
    uint32_t *counts = context;
    counts[0]++;
    counts[1] += process->waits;
    for (uint32_t i = 1; i < process->pid_count; i++)
        assert_true(process->pids[i - 1] < process->pids[i]);
}

static void a_flood_of_processes_is_bounded_and_takes_no_waiting_text(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    uint32_t counts[2] = {0};
    free(ask(r, request(0, 1, 5), 1));
    expect(trigger(r, 0, 5, -1, 1), 1, 1, 0);
    for (uint32_t user = 1000; user < 1006; user++) {
        for (int i = 0; i < FEWER(3000, 2100); i++) {
            ko_dyno_message m = request(0, 2, 1000000 + i, 100);
            assert_null(ko_dyno_registry_poll(r, &m, user, 2));
        }
    }
    ko_dyno_registry_each(r, count, counts);
    assert_int_equal(counts[0], 8192);
    assert_int_equal(counts[1], 1);
    free(ask(r, request(0, 1, 5), 3)); /* under valgrind or asan: not lost, not leaked */
    ko_dyno_message fresh = request(9, 1, 77);
    assert_null(ko_dyno_registry_poll(r, &fresh, 2000, 3)); /* a new user finds room */
    expect(trigger(r, 9, 77, -1, 3), 1, 1, 0);
    ko_dyno_registry_destroy(r);
}

static void texts_are_bounded_and_a_refused_trigger_changes_nothing(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    kineto_error err;
    ko_dyno_matches out;
    char *large = malloc(200001);
    memset(large, 'x', 200001);
    for (int i = 0; i < 400; i++)
        free(ask(r, request(0, 1, 100 + i), 1));
    ko_dyno_trigger t = {.limit = -1, .config = {large, 200001}};
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_E_LIMIT);
    t.config.size = 200000;
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_E_LIMIT);
    assert_non_null(strstr(err.message, "processes of user 1000, 400 of them"));
    assert_int_equal(out.matched.count, 0);
    t.config = (kineto_string){"A\0B", 3};
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_E_ARGUMENT);
    expect(trigger(r, 0, 0, -1, 1), 400, 400, 0);
    free(large);
    ko_dyno_registry_destroy(r);
}

static void ask_as(ko_dyno_registry *r, uint32_t user, int64_t job, int count)
{
    for (int i = 0; i < count; i++) {
        ko_dyno_message m = request(job, 1, 100 + i);
        assert_null(ko_dyno_registry_poll(r, &m, user, 1));
    }
}

/* 41 texts of 200 kB are 8 MiB. */
static void messages_for_one_user_do_not_block_other_users(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    kineto_error err;
    ko_dyno_matches out;
    char *large = malloc(200000);
    memset(large, 'x', 200000);
    ko_dyno_trigger t = {.limit = 41, .config = {large, 200000}, .one_user = true, .user = 1000};
    ask_as(r, 1000, 0, 60);
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_OK);
    expect(out, 60, 41, 0);
    t.limit = 1;
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_E_LIMIT);
    assert_non_null(strstr(err.message, "8 MiB"));
    ask_as(r, 1001, 0, 2); /* another user, as many as there is room for: not refused */
    t.user = 1001;
    t.limit = -1;
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_OK);
    expect(out, 2, 2, 0);
    ask_as(r, 1002, 0, 3);
    t.one_user = false; /* who may reach all: those with room get it, the others are busy */
    assert_int_equal(ko_dyno_registry_trigger(r, &t, 1, &out, &err), KINETO_OK);
    expect(out, 65, 3, 62);
    expect(trigger(r, 0, 0, -1, 1), 65, 19, 46); /* a short one still fits */
    for (uint32_t user = 2000; user < 2003; user++) {
        ask_as(r, user, (int64_t)user, 41);
        t = (ko_dyno_trigger){.job = (int64_t)user, .limit = -1, .config = {large, 200000}};
        kineto_status status = ko_dyno_registry_trigger(r, &t, 1, &out, &err);
        assert_int_equal(status, user == 2002 ? KINETO_E_LIMIT : KINETO_OK); /* 32 MiB of all */
        ko_dyno_matches_free(&out);
    }
    free(large);
    ko_dyno_registry_destroy(r);
}

static void processes_on_a_gpu_are_counted(void **state)
{
    (void)state;
    ko_dyno_registry *r = ko_dyno_registry_create();
    ko_dyno_message m = {.type = KO_DYNO_CONTEXT, .gpu = 0, .pid = 111};
    assert_int_equal(ko_dyno_registry_context(r, &m, 1), 1);
    m.pid = 112;
    assert_int_equal(ko_dyno_registry_context(r, &m, 1), 2);
    assert_int_equal(ko_dyno_registry_context(r, &m, 1), 2);
    m.gpu = 1;
    assert_int_equal(ko_dyno_registry_context(r, &m, 1), 1);
    expect(trigger(r, 0, 0, -1, 1), 0, 0, 0); /* they are no targets by that */
    for (int i = 0; i < 9000; i++) {
        m.pid = i;
        (void)ko_dyno_registry_context(r, &m, 1);
    }
    m.pid = 10000;
    assert_int_equal(ko_dyno_registry_context(r, &m, 1), -1);
    ko_dyno_registry_age(r, 100 * SECOND);
    assert_int_equal(ko_dyno_registry_context(r, &m, 100 * SECOND), 1);
    ko_dyno_registry_destroy(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_given_once_with_an_id_as_dynolog_adds_it),
        cmocka_unit_test(a_text_that_could_not_be_sent_waits_again),
        cmocka_unit_test(a_text_may_be_offered_on_request),
        cmocka_unit_test(pids_of_ancestors_and_jobs_choose_processes),
        cmocka_unit_test(a_limit_counts_from_the_lowest_pid),
        cmocka_unit_test(processes_with_the_same_set_share_an_entry_but_not_with_other_users),
        cmocka_unit_test(who_is_silent_for_a_minute_is_forgotten),
        cmocka_unit_test(a_flood_of_processes_is_bounded_and_takes_no_waiting_text),
        cmocka_unit_test(texts_are_bounded_and_a_refused_trigger_changes_nothing),
        cmocka_unit_test(messages_for_one_user_do_not_block_other_users),
        cmocka_unit_test(processes_on_a_gpu_are_counted),
    };
    return RUN_TESTS(tests);
}
