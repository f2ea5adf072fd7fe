/* The controller: from a text to calls of the driver and to notes for watchers. */
#include "controller_fixture.h"

#include <inttypes.h>

/* ---- by time ------------------------------------------------------------------------------------- */

static void a_window_by_time_is_as_long_as_asked(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char stages[32];
    uint64_t ticket = ask(f, "ACTIVITIES_DURATION_MSECS=20\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                             "REQUEST_TRACE_ID=abc\n");
    heard written = wait_note(f, ticket, KO_STAGE_WRITTEN), collect, process;
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 20 * MS);
    assert_string_equal(stages_of(f, ticket, stages), "AWCPw");
    assert_true(find_note(f, ticket, KO_STAGE_COLLECT, &collect));
    assert_true(find_note(f, ticket, KO_STAGE_PROCESS, &process));
    assert_int_equal(collect.time_ns, f->driver.start_ns);
    assert_int_equal(process.time_ns, f->driver.end_ns);
    assert_string_equal(written.trace_id, "abc");
    assert_int_equal(written.bytes, 1234);
    assert_non_null(strstr(written.path, "libkineto_activities_4321.json"));
    assert_int_equal(count_calls(&f->driver, DROP), 0);
    fixture_end(f);
}

/* The warm-up is cut short, so that all is ready long before. */
static uint64_t ask_ahead(fixture *f, int64_t start_ms)
{
    char text[160];
    snprintf(text, sizeof text,
             "PROFILE_START_TIME=%" PRId64 "\nACTIVITIES_DURATION_MSECS=30\n"
             "ACTIVITIES_WARMUP_PERIOD_SECS=50\n",
             start_ms);
    return ask(f, text);
}

static void a_start_time_is_met_to_the_nanosecond_and_armed_before(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    int64_t start_ms = now_ns() / MS + 200;
    heard accepted;
    fixture_turn(f);
    uint64_t ticket = ask_ahead(f, start_ms);
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.start_ns, start_ms * MS);
    assert_int_equal(f->driver.end_ns, start_ms * MS + 30 * MS);
    assert_int_equal(f->driver.calls[0], PREPARE);
    assert_int_equal(f->driver.calls[1], ARM);
    assert_true(f->driver.at_ns[1] >= f->driver.start_ns - KO_ONDEMAND_ARM_NS);
    if (f->driver.at_ns[1] >= f->driver.start_ns - 90 * MS)
        print_message("armed late\n");
    assert_true(find_note(f, ticket, KO_STAGE_ACCEPTED, &accepted));
    assert_non_null(strstr(accepted.text, "late: warms up"));
    fixture_end(f);
}

static void what_is_not_ready_says_so(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    heard collect;
    f->driver.block_ns[PREPARE] = 20 * MS;
    uint64_t ticket = ask(f, "ACTIVITIES_DURATION_MSECS=40\nACTIVITIES_WARMUP_PERIOD_SECS=0\n");
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_true(find_note(f, ticket, KO_STAGE_COLLECT, &collect));
    assert_non_null(strstr(collect.text, "into the window"));
    fixture_end(f);
}

/* ---- by iteration -------------------------------------------------------------------------------- */

/* Step n of a program whose steps last 1000 ns. */
static void step(fixture *f, int64_t base_ns, int64_t n)
{
    ko_controller_step(f->controller, base_ns + 1000 * n);
}

static void a_window_by_iteration_begins_and_ends_with_steps(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    int64_t base_ns = now_ns();
    char stages[32];
    for (int64_t i = 0; i < 200; i++)
        step(f, base_ns, i);
    assert_int_equal(status_of(f).iteration, 199);
    uint64_t ticket = ask(f, "ACTIVITIES_ITERATIONS=3\nPROFILE_START_ITERATION_ROUNDUP=10\n"
                             "ACTIVITIES_WARMUP_ITERATIONS=2\n");
    for (int64_t i = 200; i < 203; i++)
        step(f, base_ns, i);
    assert_true(status_of(f).by_iteration);
    assert_int_equal(status_of(f).iteration, 202);
    for (int64_t i = 203; i < 220; i++)
        step(f, base_ns, i);
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.start_ns, base_ns + 200 * 1000);
    assert_int_equal(f->driver.end_ns, base_ns + 203 * 1000);
    assert_string_equal(stages_of(f, ticket, stages), "AWCPw");
    assert_int_equal(status_of(f).iteration, 219);
    fixture_end(f);
}

static void getting_ready_is_an_iteration_before(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    int64_t base_ns = now_ns();
    step(f, base_ns, 0);
    uint64_t ticket = ask(f, "ACTIVITIES_ITERATIONS=1\nPROFILE_START_ITERATION=5\n");
    for (int64_t i = 1; i <= 3; i++)
        step(f, base_ns, i);
    assert_int_equal(f->driver.call_count, 0);
    step(f, base_ns, 4);
    assert_int_equal(f->driver.call_count, 1);
    step(f, base_ns, 5);
    assert_int_equal(count_calls(&f->driver, ARM), 1);
    assert_int_equal(status_of(f).start_ns, base_ns + 5000);
    step(f, base_ns, 6);
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.end_ns, base_ns + 6000);
    fixture_end(f);
}

typedef struct stepper {
    fixture *f;
    int64_t times_ns[512];
    int64_t longest_ns;
    uint32_t count;
    bool stop;
} stepper;

static void *step_on(void *argument)
{
    stepper *s = argument;
    while (!kb_load_acquire(&s->stop) && s->count < KB_COUNT(s->times_ns)) {
        int64_t before_ns = now_ns();
        s->times_ns[s->count] = before_ns;
        ko_controller_step(s->f->controller, before_ns);
        s->longest_ns = KB_MAX(s->longest_ns, now_ns() - before_ns);
        kb_add_relaxed(&s->count, 1);
        pause_ns(2 * MS);
    }
    return NULL;
}

/* The request is prepared by the requesting thread; the program goes on meanwhile. */
static void steps_pass_while_the_driver_blocks(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    stepper s = {.f = f};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, step_on, &s), 0);
    while (kb_load_acquire(&s.count) < 3)
        pause_ns(MS);
    f->driver.progress = &s.count; /* a step that waited for the driver would wait for ever */
    uint64_t ticket = ask(f, "ACTIVITIES_ITERATIONS=4\nPROFILE_START_ITERATION_ROUNDUP=60\n"
                             "ACTIVITIES_WARMUP_ITERATIONS=70\n");
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    int64_t iteration = status_of(f).iteration;
    kb_store_release(&s.stop, true);
    pthread_join(thread, NULL);
    assert_true(iteration >= 64 && iteration < s.count);
    assert_int_equal(f->driver.start_ns, s.times_ns[60]);
    assert_int_equal(f->driver.end_ns, s.times_ns[64]);
    if (s.longest_ns > 5 * MS)
        print_message("a step took %.3f ms\n", (double)s.longest_ns / 1e6);
    fixture_end(f);
}

/* No certain iteration was requested: the first one that can be recorded whole. */
static void iterations_that_began_too_early_are_not_counted(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    stepper s = {.f = f};
    pthread_t thread;
    int64_t begin_ns = 0;
    assert_int_equal(pthread_create(&thread, NULL, step_on, &s), 0);
    while (kb_load_acquire(&s.count) < 3)
        pause_ns(MS);
    f->driver.block_ns[PREPARE] = 30 * MS;
    uint64_t ticket = ask(f, "ACTIVITIES_ITERATIONS=2\n");
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    kb_store_release(&s.stop, true);
    pthread_join(thread, NULL);
    assert_true(f->driver.start_ns >= f->driver.at_ns[0] + 30 * MS);
    for (uint32_t i = 0; i + 2 < s.count && begin_ns == 0; i++)
        if (s.times_ns[i] == f->driver.start_ns) {
            begin_ns = s.times_ns[i];
            assert_int_equal(f->driver.end_ns, s.times_ns[i + 2]);
        }
    assert_true(begin_ns > 0);
    fixture_end(f);
}

static ko_ondemand machine_with(const char *text)
{
    ko_ondemand m;
    ko_request r;
    ko_request_init(&r);
    assert_int_equal(ko_request_parse(&r, kb_string(text), KO_FROM_REQUEST, NULL, NULL, NULL), 0);
    assert_int_equal(ko_request_complete(&r, 1000, NULL), KINETO_OK);
    ko_ondemand_init(&m);
    m.iteration = 8;
    (void)ko_ondemand_step(&m, KO_EVENT_REQUEST, 1000, &r);
    return m;
}

static void what_was_asked_for_is_not_put_off(void **state)
{
    (void)state;
    ko_ondemand m = machine_with("ACTIVITIES_ITERATIONS=2\n");
    assert_true(ko_ondemand_postpone(&m));
    assert_int_equal(m.start_iteration, 10);
    assert_int_equal(m.end_iteration, 12);
    m = machine_with("ACTIVITIES_ITERATIONS=2\nACTIVITIES_WARMUP_ITERATIONS=1\n");
    assert_false(ko_ondemand_postpone(&m)); /* there is time */
    m = machine_with("ACTIVITIES_ITERATIONS=2\nPROFILE_START_ITERATION=9\n");
    assert_false(ko_ondemand_postpone(&m));
    m = machine_with("ACTIVITIES_ITERATIONS=2\nPROFILE_START_ITERATION_ROUNDUP=9\n");
    assert_false(ko_ondemand_postpone(&m));
    assert_int_equal(m.start_iteration, 9);
    m = machine_with("ACTIVITIES_ITERATIONS=2\nPROFILE_START_ITERATION=3\n"); /* is past */
    assert_true(ko_ondemand_postpone(&m));
}

static void steps_that_another_library_counts_are_read(void **state)
{
    (void)state;
    fixture *f = calloc(1, sizeof *f);
    ko_driver d = fake_driver(&f->driver);
    d.steps = fake_steps;
    fixture_make(f, &d);
    fixture_turn(f);
    int64_t times_ns[200] = {0};
    uint64_t ticket = 0;
    for (uint64_t i = 0; i < 200 && !find_note(f, ticket, KO_STAGE_WRITTEN, NULL); i++) {
        if (i == 20)
            ticket = ask(f, "ACTIVITIES_ITERATIONS=5\nPROFILE_START_ITERATION=30\n");
        pthread_mutex_lock(&f->driver.lock);
        f->driver.step_ns[i % 64] = times_ns[i] = now_ns();
        f->driver.steps = i + 1;
        pthread_mutex_unlock(&f->driver.lock);
        pause_ns(5 * MS);
    }
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.start_ns, times_ns[30]);
    assert_int_equal(f->driver.end_ns, times_ns[35]);
    fixture_end(f);
}

/* ---- busy ------------------------------------------------------------------------------------------ */

#define SHORT "ACTIVITIES_DURATION_MSECS=10\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
#define LONG  "ACTIVITIES_DURATION_MSECS=100000\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
#define LATER "ACTIVITIES_DURATION_MSECS=100000\nACTIVITIES_WARMUP_PERIOD_SECS=100\n"

static void one_at_a_time_and_the_reason_is_said(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    kineto_error err;
    const char *why = NULL;
    kb_store_release(&f->driver.hold, true);
    uint64_t ticket = ask(f, LONG);
    assert_int_equal(ticket, 1);
    assert_int_equal(ask_in_vain(f, SHORT, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, "being recorded"));
    ko_controller_cancel(f->controller, "a test");
    wait_note(f, ticket, KO_STAGE_PROCESS);
    assert_int_equal(ask_in_vain(f, SHORT, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, "being written"));
    assert_false(ko_controller_can_accept(f->controller, &why));
    assert_non_null(strstr(why, "being written"));
    assert_int_equal(status_of(f).ticket, ticket);
    kb_store_release(&f->driver.hold, false);
    wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_true(ko_controller_can_accept(f->controller, &why));
    assert_int_equal(status_of(f).traces, 1);
    assert_int_equal(status_of(f).ticket, 0);
    assert_int_equal(ask(f, SHORT), 4);
    fixture_end(f);
}

static void pending_requests_keep_others_out(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    kineto_error err;
    char text[128];
    snprintf(text, sizeof text, "PROFILE_START_TIME=%" PRId64 "\n", now_ns() / MS + 100000);
    uint64_t ticket = ask(f, text);
    assert_int_equal(ask_in_vain(f, SHORT, &err), KINETO_E_BUSY);
    assert_non_null(strstr(err.message, "pending"));
    ko_controller_cancel(f->controller, "a test");
    assert_string_equal(wait_note(f, ticket, KO_STAGE_CANCELLED).text, "a test");
    assert_int_equal(f->driver.call_count, 0);
    fixture_end(f);
}

static void cancelling_writes_what_was_collected(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char stages[32];
    uint64_t warm = ask(f, LATER);
    ko_controller_cancel(f->controller, "a test");
    assert_string_equal(stages_of(f, warm, stages), "AWc");
    assert_int_equal(count_calls(&f->driver, DROP), 1);
    uint64_t long_one = ask(f, LONG);
    pause_ns(2 * MS);
    ko_controller_cancel(f->controller, "a test");
    wait_note(f, long_one, KO_STAGE_WRITTEN);
    assert_string_equal(stages_of(f, long_one, stages), "AWCPw");
    assert_true(f->driver.end_ns - f->driver.start_ns >= 2 * MS);
    ko_controller_cancel(f->controller, "a test"); /* nothing is under way */
    assert_int_equal(f->note_count, 8);
    fixture_end(f);
}

static void the_programs_own_profile_comes_first(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    kineto_error err;
    char stages[32];
    uint64_t ticket = ask(f, LONG);
    ko_controller_preempt(f->controller, true);
    ko_controller_preempt(f->controller, true);
    assert_string_equal(stages_of(f, ticket, stages), "AWCc");
    assert_int_equal(count_calls(&f->driver, DROP), 1);
    assert_int_equal(count_calls(&f->driver, WRITE), 0);
    ko_controller_preempt(f->controller, false);
    assert_int_equal(ask_in_vain(f, SHORT, &err), KINETO_E_BUSY);
    assert_true(status_of(f).preempted);
    ko_controller_preempt(f->controller, false);
    ko_controller_preempt(f->controller, false); /* once too often */
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    fixture_end(f);
}

/* ---- what fails ------------------------------------------------------------------------------------ */

static void after_any_failure_the_next_request_works(void **state)
{
    (void)state;
    static const struct {
        call what;
        const char *stages, *text;
    } rows[] = {{PREPARE, "Af", SHORT},
                {ARM, "AWf", SHORT},
                {STOP, "AWCf", SHORT},
                {WRITE, "AWCPf", SHORT},
                {SNAP_START, "Af", "PROFILE_MEMORY=1\nPROFILE_MEMORY_DURATION_MSECS=5\n"},
                {SNAP_STOP, "ACPf", "PROFILE_MEMORY=1\nPROFILE_MEMORY_DURATION_MSECS=5\n"}};
    fixture *f = fixture_new();
    char stages[32], why[32];
    for (size_t i = 0; i < KB_COUNT(rows); i++) {
        f->driver.fails = (int)rows[i].what;
        uint32_t drops = count_calls(&f->driver, DROP);
        uint64_t ticket = ask(f, rows[i].text);
        heard failed = wait_note(f, ticket, KO_STAGE_FAILED);
        snprintf(why, sizeof why, "call %d fails", (int)rows[i].what);
        assert_string_equal(failed.text, why);
        assert_string_equal(stages_of(f, ticket, stages), rows[i].stages);
        assert_int_equal(count_calls(&f->driver, DROP), drops + 1);
        f->driver.fails = -1;
        f->driver.call_count = 0;
        wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    }
    fixture_end(f);
}

/* Where arm fails on its own, ahead of the window. */
static void arming_ahead_may_fail(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char stages[32];
    f->driver.fails = ARM;
    uint64_t ticket = ask_ahead(f, now_ns() / MS + 150);
    wait_note(f, ticket, KO_STAGE_FAILED);
    assert_string_equal(stages_of(f, ticket, stages), "AWf");
    assert_int_equal(status_of(f).state, KO_ONDEMAND_WAIT);
    fixture_end(f);
}

static void bad_texts_change_nothing(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "ACTIVITIES_DURATION_MSECS=soon",
        "PROFILE_START_ITERATION=3",
        "ACTIVITIES_ENABLED=no",
        "ACTIVITIES_LOG_FILE=/etc/trace.json",
        "ACTIVITIES_LOG_FILE=relative.json",
        "ACTIVITIES_LOG_FILE=exec:touch /tmp/never",
        "ACTIVITIES_LOG_FILE=fd:2",
        "ACTIVITIES_LOG_FILE=nobody-registered-this:x",
        "PROFILE_START_TIME=1000",
        "no line",
    };
    fixture *f = fixture_new();
    kineto_error err;
    for (size_t i = 0; i < KB_COUNT(texts); i++) {
        kineto_status status = ask_in_vain(f, texts[i], &err);
        assert_true(status == KINETO_E_ARGUMENT || status == KINETO_E_PERMISSION);
        assert_true(err.message[0] != '\0');
    }
    assert_int_equal(f->note_count, KB_COUNT(texts));
    assert_int_equal(f->driver.call_count, 0);
    assert_int_equal(status_of(f).state, KO_ONDEMAND_WAIT);
    wait_note(f, ask(f, SHORT), KO_STAGE_WRITTEN);
    fixture_end(f);
}

static void a_host_without_memory_snapshots_refuses_them(void **state)
{
    (void)state;
    fixture *f = calloc(1, sizeof *f);
    ko_driver d = fake_driver(&f->driver);
    kineto_error err;
    d.snapshot_start = NULL;
    d.snapshot_stop = NULL;
    d.dump = NULL;
    fixture_make(f, &d);
    assert_int_equal(ask_in_vain(f, "PROFILE_MEMORY=1", &err), KINETO_E_ARGUMENT);
    assert_int_equal(ko_controller_dump(f->controller, kb_string(""), KO_FROM_REQUEST, NULL, &err),
                     KINETO_E_STATE);
    assert_non_null(strstr(err.message, "CKINETO_RING"));
    fixture_end(f);
}

/* ---- snapshots and dumps ------------------------------------------------------------------------- */

static void a_memory_snapshot_is_taken(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char stages[32];
    uint64_t ticket = ask(f, "PROFILE_MEMORY=1\nPROFILE_MEMORY_DURATION_MSECS=5\n");
    heard written = wait_note(f, ticket, KO_STAGE_WRITTEN);
    assert_string_equal(stages_of(f, ticket, stages), "ACPw");
    assert_int_equal(written.bytes, 99);
    assert_non_null(strstr(written.path, "memory_snapshot_4321.pickle"));
    fixture_end(f);
}

static void the_ring_is_written_while_others_are_recorded(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    kineto_error err;
    uint64_t first, second;
    char stages[32], text[128];
    uint64_t trace = ask(f, LONG);
    kb_store_release(&f->driver.hold, true);
    assert_int_equal(
        ko_controller_dump(f->controller, kb_string(""), KO_FROM_REQUEST, &first, &err), KINETO_OK);
    assert_int_equal(ko_controller_dump(f->controller, kb_string(""), KO_FROM_REQUEST, NULL, &err),
                     KINETO_E_BUSY);
    assert_int_equal(ko_controller_dump_because(f->controller, &err, "%d were late", 2),
                     KINETO_E_BUSY);
    kb_store_release(&f->driver.hold, false);
    heard written = wait_note(f, first, KO_STAGE_WRITTEN);
    assert_non_null(strstr(written.path, "/ckineto_ring_4321_1.json"));
    assert_int_equal(written.bytes, 77);
    assert_string_equal(stages_of(f, first, stages), "Aw");
    assert_string_equal(f->driver.reason, "");
    assert_int_equal(ko_controller_dump_because(f->controller, &err, "%d were late", 3), KINETO_OK);
    wait_note(f, first + 2,
              KO_STAGE_WRITTEN); /* an unrequested and busy one has no number */
    assert_string_equal(f->driver.reason, "3 were late");
    snprintf(text, sizeof text, "ACTIVITIES_LOG_FILE=%s/mine.json\n", f->directory);
    f->driver.fails = DUMP;
    assert_int_equal(
        ko_controller_dump(f->controller, kb_string(text), KO_FROM_REQUEST, &second, &err),
        KINETO_OK);
    wait_note(f, second, KO_STAGE_FAILED);
    assert_int_equal(status_of(f).ticket, trace);
    assert_int_equal(status_of(f).state, KO_ONDEMAND_COLLECT);
    assert_int_equal(ko_controller_dump(f->controller, kb_string("ACTIVITIES_LOG_FILE=/etc/x.json"),
                                        KO_FROM_REQUEST, NULL, &err),
                     KINETO_E_PERMISSION);
    fixture_end(f);
}

/* ---- the configuration file ---------------------------------------------------------------------- */

static void put_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void the_file_says_what_requests_do_not(void **state)
{
    (void)state;
    char path[] = "/tmp/ckineto-conf-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    put_file(path, "ACTIVITIES_DURATION_MSECS=15\nACTIVITIES_WARMUP_PERIOD_SECS=0\n");
    setenv("KINETO_CONFIG", path, 1);
    fixture *f = fixture_new();
    wait_note(f, ask(f, ""), KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 15 * MS);
    put_file(path, "ACTIVITIES_DURATION_MSECS=25\nACTIVITIES_WARMUP_PERIOD_SECS=0\n"
                   "ACTIVITIES_LOG_FILE=/tmp/of-the-file.json\n");
    wait_note(f, ask(f, "ACTIVITIES_DURATION_MSECS=5"), KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 5 * MS);
    assert_string_equal(f->driver.path, "/tmp/of-the-file_4321.json");
    assert_int_equal(f->driver.source, KO_FROM_FILE);
    put_file(path, "broken");
    wait_note(f, ask(f, "UNHEARD_OF=1"), KO_STAGE_WRITTEN);
    assert_int_equal(f->driver.end_ns - f->driver.start_ns, 25 * MS);
    heard accepted;
    assert_true(find_note(f, 3, KO_STAGE_ACCEPTED, &accepted));
    assert_non_null(strstr(accepted.text, "UNHEARD_OF"));
    fixture_end(f);
    setenv("KINETO_CONFIG", "/nonexistent/kineto.conf", 1);
    unlink(path);
}

/* ---- the end --------------------------------------------------------------------------------------- */

static void ending_waits_for_what_is_written(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    uint64_t ticket = ask(f, SHORT);
    f->driver.block_ns[WRITE] = 30 * MS;
    wait_note(f, ticket, KO_STAGE_PROCESS);
    fixture_end(f);
}

static void on_stage(void *context, const ko_stage_note *note)
{
    *(uint32_t *)context |= 1u << note->stage;
}

static void ending_within_a_window_writes_it(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    uint32_t stages = 0;
    assert_true(ko_controller_watch(f->controller, on_stage, &stages));
    ask(f, LONG);
    ko_controller_destroy(f->controller);
    assert_int_equal(count_calls(&f->driver, WRITE), 1);
    assert_true(stages >> KO_STAGE_WRITTEN & 1);
    rmdir(f->directory);
    free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_by_time_is_as_long_as_asked),
        cmocka_unit_test(a_start_time_is_met_to_the_nanosecond_and_armed_before),
        cmocka_unit_test(what_is_not_ready_says_so),
        cmocka_unit_test(a_window_by_iteration_begins_and_ends_with_steps),
        cmocka_unit_test(getting_ready_is_an_iteration_before),
        cmocka_unit_test(steps_pass_while_the_driver_blocks),
        cmocka_unit_test(iterations_that_began_too_early_are_not_counted),
        cmocka_unit_test(what_was_asked_for_is_not_put_off),
        cmocka_unit_test(steps_that_another_library_counts_are_read),
        cmocka_unit_test(one_at_a_time_and_the_reason_is_said),
        cmocka_unit_test(pending_requests_keep_others_out),
        cmocka_unit_test(cancelling_writes_what_was_collected),
        cmocka_unit_test(the_programs_own_profile_comes_first),
        cmocka_unit_test(after_any_failure_the_next_request_works),
        cmocka_unit_test(arming_ahead_may_fail),
        cmocka_unit_test(bad_texts_change_nothing),
        cmocka_unit_test(a_host_without_memory_snapshots_refuses_them),
        cmocka_unit_test(a_memory_snapshot_is_taken),
        cmocka_unit_test(the_ring_is_written_while_others_are_recorded),
        cmocka_unit_test(the_file_says_what_requests_do_not),
        cmocka_unit_test(ending_waits_for_what_is_written),
        cmocka_unit_test(ending_within_a_window_writes_it),
    };
    return cmocka_run_group_tests_name("controller", tests, NULL, NULL);
}
