/* The profile object: orders of calls, ids, headers, ledgers, kept cycles, files, failures. */
#include <ckineto/profile_run.h>
#include <ckineto/stubs.h>

#include "unit/unit.h"
#include "../helpers/sessions.h"

#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>

KINETO_OPERATOR(op_site, "aten::mm");

static void run_operator(void)
{
    kineto_function f;
    kineto_function_begin(&f, &op_site, NULL, 0);
    kineto_function_end(&f);
}

static kineto_profiler_config small(void)
{
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, KINETO_STATE_KINETO);
    c.buffer_bytes = 1 << 20;
    return c;
}

static kineto_profile_run *create(kineto_profile_run_options *o)
{
    static kineto_profiler_config config;
    kineto_profile_run *p;
    kineto_error err = {.message = ""};
    config = small();
    if (!o->config)
        o->config = &config;
    if (!o->activities)
        o->activities = KINETO_ACTIVITY_SET(CPU);
    if (kineto_profile_run_create(o, &p, &err) != KINETO_OK)
        fail_msg("%s", err.message);
    return p;
}

static kineto_profile_run_options options(void)
{
    kineto_profile_run_options o;
    kineto_profile_run_options_init(&o);
    return o;
}

static kineto_schedule one_step_cycles(void)
{
    kineto_schedule s;
    kineto_schedule_init(&s);
    return s;
}

static uint64_t count_named(const kineto_profiler_result *r, const char *name)
{
    const kineto_trace *t = kineto_profiler_result_trace(r);
    uint64_t found = 0;
    for (uint64_t row = 0; row < kineto_trace_count(t); row++) {
        kineto_activity a;
        kineto_trace_get(t, (kineto_row)row, &a);
        found += a.name.size == strlen(name) && memcmp(a.name.data, name, a.name.size) == 0;
    }
    return found;
}

/* The JSON of a key; "" if the header does not have it. */
static const char *header_of(const kineto_profiler_result *r, const char *key)
{
    static char buf[256];
    const kineto_trace *t = kineto_profiler_result_trace(r);
    buf[0] = '\0';
    for (uint32_t i = 0; i < kineto_trace_metadata_count(t); i++) {
        kineto_string k, v;
        kineto_trace_metadata(t, i, &k, &v);
        if (k.size == strlen(key) && memcmp(k.data, key, k.size) == 0)
            snprintf(buf, sizeof buf, "%.*s", (int)v.size, v.data);
    }
    return buf;
}

static uint64_t ledger_of(const kineto_profiler_result *r, const char *reason)
{
    const kineto_trace *t = kineto_profiler_result_trace(r);
    for (uint32_t i = 0; i < kineto_trace_ledger_count(t); i++) {
        kineto_ledger_line line;
        kineto_trace_ledger(t, i, &line);
        if (line.source.size == 7 && memcmp(line.source.data, "profile", 7) == 0 &&
            line.reason.size == strlen(reason) &&
            memcmp(line.reason.data, reason, line.reason.size) == 0)
            return line.count;
    }
    return 0;
}

/* ---- options and orders -------------------------------------------------------------------------- */

static kineto_action never(uint64_t step, void *user)
{
    (void)step;
    (void)user;
    return KINETO_ACTION_NONE;
}

static void impossible_options_are_refused(void **state)
{
    (void)state;
    kineto_error err;
    kineto_profile_run *p = (kineto_profile_run *)&err;
    kineto_schedule s;
    kineto_schedule_init(&s);
    kineto_profile_run_options o = options();
    assert_int_equal(kineto_profile_run_create(&o, NULL, &err), KINETO_E_ARGUMENT);
    o.size = 3;
    assert_int_equal(kineto_profile_run_create(&o, &p, &err), KINETO_E_ARGUMENT);
    assert_null(p);
    o = options();
    s.active = 0;
    o.schedule = &s;
    assert_int_equal(kineto_profile_run_create(&o, &p, &err), KINETO_E_ARGUMENT);
    s.active = 1;
    o.action = never;
    assert_int_equal(kineto_profile_run_create(&o, &p, &err), KINETO_E_ARGUMENT);
    kineto_profiler_config c;
    kineto_profiler_config_init(&c, KINETO_STATE_DISABLED);
    o = options();
    o.config = &c;
    assert_int_equal(kineto_profile_run_create(&o, &p, &err), KINETO_E_ARGUMENT);
    assert_null(p);
}

static void calls_out_of_order_are_statuses(void **state)
{
    (void)state;
    kineto_error err;
    kineto_profile_run_options o = options();
    kineto_function_events *events = (kineto_function_events *)&err;
    kineto_averages *averages = (kineto_averages *)&err;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_E_STATE);
    assert_non_null(strstr(err.message, "start it first"));
    assert_int_equal(kineto_profile_run_export_chrome_trace(p, "x.json", &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_events(p, &events, &err), KINETO_E_STATE);
    assert_null(events);
    assert_int_equal(kineto_profile_run_key_averages(p, NULL, &averages, &err), KINETO_E_STATE);
    assert_null(averages);
    assert_int_equal(kineto_profile_run_export_execution_trace(p, "x.json", &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_export_stacks(p, "x", NULL, &err), KINETO_E_STATE);
    assert_string_equal(err.message, "export_stacks() requires with_stack=True");
    assert_int_equal(kineto_profile_run_export_memory_timeline(p, "x.html", NULL, &err),
                     KINETO_E_STATE);
    assert_string_equal(err.message, "profile_memory=True required for memory profiling.");
    assert_null(kineto_profile_run_result(p));
    assert_null(kineto_profile_run_cycle(p, 0));
    assert_string_equal(kineto_profile_run_trace_id(p), "");
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_E_STATE);
    kineto_profile_run_destroy(p);
}

static void null_is_an_argument_error(void **state)
{
    (void)state;
    kineto_error err;
    kineto_function_events *events;
    assert_int_equal(kineto_profile_run_start(NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_step(NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_stop(NULL, NULL), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_events(NULL, &events, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_events(NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_export_chrome_trace(NULL, "x", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_export_stacks(NULL, "x", NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_save_tensorboard(NULL, NULL, NULL, 0, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_tensorboard_handler(NULL, NULL, &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_add_metadata(NULL, "a", "b", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_step_number(NULL), 0);
    assert_int_equal(kineto_profile_run_current_action(NULL), KINETO_ACTION_NONE);
    assert_int_equal(kineto_profile_run_discarded(NULL), 0);
    assert_null(kineto_profile_run_result(NULL));
    kineto_profile_run_destroy(NULL);
}

static void without_a_schedule_all_is_one_cycle_without_annotations(void **state)
{
    (void)state;
    kineto_profile_run_options o = options();
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    for (int i = 0; i < 5; i++) {
        run_operator();
        assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
        assert_int_equal(kineto_profile_run_current_action(p), KINETO_ACTION_RECORD);
        assert_null(kineto_profile_run_result(p));
    }
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_step_number(p), 5);
    assert_int_equal(kineto_profile_run_current_action(p), KINETO_ACTION_NONE);
    assert_int_equal(count_named(kineto_profile_run_result(p), "aten::mm"), 5);
    assert_int_equal(count_named(kineto_profile_run_result(p), "ProfilerStep#0"), 0);
    /* and again: steps go on */
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_step_number(p), 5);
    assert_int_equal(count_named(kineto_profile_run_result(p), "aten::mm"), 1);
    kineto_profile_run_destroy(p);
}

static void a_pause_is_not_in_its_cycle(void **state)
{
    (void)state;
    kineto_profile_run *p;
    kineto_error err;
    assert_int_equal(kineto_profile_run_create(NULL, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_pause(p, true, &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_pause(p, true, NULL), KINETO_OK);
    run_operator();
    run_operator();
    assert_int_equal(kineto_profile_run_pause(p, false, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_pause(p, false, NULL), KINETO_E_STATE);
    const kineto_trace *t = kineto_profiler_result_trace(kineto_profile_run_result(p));
    assert_int_equal(kineto_trace_count(t), 2);
    kineto_profile_run_destroy(p);
}

static void the_default_is_every_activity(void **state)
{
    (void)state;
    kineto_profile_run *p;
    assert_int_equal(kineto_profile_run_create(NULL, &p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(count_named(kineto_profile_run_result(p), "aten::mm"), 1);
    kineto_profile_run_destroy(p);
}

static void destroying_in_the_middle_hands_nothing_over(void **state)
{
    (void)state;
    kineto_schedule s = one_step_cycles();
    kineto_profile_run_options o = options();
    s.active = 2;
    o.schedule = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    kineto_profile_run_destroy(p);
    assert_false(kineto_enabled_any());
}

/* ---- steps ---------------------------------------------------------------------------------------- */

static void steps_count_for_who_waits_for_them(void **state)
{
    (void)state;
    kineto_schedule s = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &s;
    s.skip_first = 1000;
    kineto_profile_run *a = create(&o), *b = create(&o);
    uint64_t before = kineto_profiler_step_count();
    assert_int_equal(kineto_profile_run_start(a, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(b, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(kineto_profile_run_step(a, NULL), KINETO_OK);
        assert_int_equal(kineto_profile_run_step(b, NULL), KINETO_OK);
    }
    assert_int_equal(kineto_profiler_step_count(), before + 3); /* not 6 */
    kineto_profile_run_destroy(a);
    kineto_profile_run_destroy(b);
}

static uint64_t count_marks(kineto_session *session)
{
    kineto_trace *t = NULL;
    uint64_t marks = 0;
    assert_int_equal(end_session(session, &t, NULL), KINETO_OK);
    for (kineto_row r = 0; r < kineto_trace_count(t); r++) {
        kineto_activity a;
        kineto_trace_get(t, r, &a);
        marks += a.name.size > 13 && memcmp(a.name.data, "ProfilerStep#", 13) == 0;
    }
    kineto_trace_release(t);
    return marks;
}

/* A profile's own marks, and those of kineto_step_mark where there is none. */
static void iterations_are_marked_once(void **state)
{
    (void)state;
    kineto_schedule s = one_step_cycles();
    kineto_profile_run_options o = options();
    kineto_session *session = NULL;
    o.schedule = &s;
    s.skip_first = 1000;
    kineto_profile_run *p = create(&o);
    assert_int_equal(begin_session(NULL, &session, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(count_marks(session), 4);
    assert_int_equal(begin_session(NULL, &session, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++)
        kineto_profiler_step();
    assert_int_equal(count_marks(session), 3);
    kineto_profile_run_destroy(p);
}

static void *step_and_stop(void *profile)
{
    assert_int_equal(kineto_profile_run_step(profile, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(profile, NULL), KINETO_OK);
    return NULL;
}

static void another_thread_may_step_and_stop(void **state)
{
    (void)state;
    pthread_t thread;
    kineto_schedule s = one_step_cycles();
    kineto_profile_run_options o = options();
    s.active = 3;
    o.schedule = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(pthread_create(&thread, NULL, step_and_stop, p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    run_operator();
    const kineto_profiler_result *r = kineto_profile_run_result(p);
    assert_int_equal(count_named(r, "aten::mm"), 1);
    assert_int_equal(count_named(r, "ProfilerStep#0"), 1);
    kineto_profile_run_destroy(p);
}

static void profiles_do_not_disturb_each_other(void **state)
{
    (void)state;
    kineto_schedule s = one_step_cycles(), t = one_step_cycles();
    kineto_profile_run_options o = options(), q = options();
    s.active = 2;
    t.wait = 1;
    o.schedule = &s;
    q.schedule = &t;
    kineto_profile_run *a = create(&o), *b = create(&q);
    assert_int_equal(kineto_profile_run_start(a, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(b, NULL), KINETO_OK);
    for (int i = 0; i < 4; i++) {
        run_operator();
        assert_int_equal(kineto_profile_run_step(b, NULL), KINETO_OK);
        assert_int_equal(kineto_profile_run_step(a, NULL), KINETO_OK);
    }
    assert_int_equal(kineto_profile_run_stop(a, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(b, NULL), KINETO_OK);
    assert_int_equal(count_named(kineto_profile_run_result(b), "aten::mm"), 1);
    kineto_profile_run_destroy(a);
    kineto_profile_run_destroy(b);
}

/* ---- handing over --------------------------------------------------------------------------------- */

typedef struct seen {
    uint32_t calls;
    char ids[8][KINETO_TRACE_ID_BYTES];
    uint32_t made;
    kineto_status answer;
} seen;

static kineto_status note(kineto_profile_run *p, void *user, kineto_error *err)
{
    seen *s = user;
    kineto_profiler_result *r = kineto_profile_run_result(p);
    assert_non_null(r);
    assert_false(kineto_enabled(KINETO_KIND_CPU_OP));
    snprintf(s->ids[s->calls % 8], sizeof s->ids[0], "%s", kineto_profile_run_trace_id(p));
    s->calls++;
    if (s->answer && err) {
        err->code = s->answer;
        snprintf(err->message, sizeof err->message, "told so");
    }
    return s->answer;
}

static void id_of_mine(char *out, size_t bytes, void *user)
{
    seen *s = user;
    snprintf(out, bytes, "my \"id\" %u", ++s->made);
}

static void each_cycle_has_an_id_of_its_own(void **state)
{
    (void)state;
    seen s = {0};
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &every;
    o.on_trace_ready = note;
    o.user = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
    assert_int_equal(s.calls, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(strlen(s.ids[i]), 32);
        assert_int_equal(strspn(s.ids[i], "0123456789ABCDEF"), 32);
        assert_string_not_equal(s.ids[i], s.ids[(i + 1) % 3]);
    }
    char quoted[200];
    snprintf(quoted, sizeof quoted, "\"%s\"", s.ids[2]);
    assert_string_equal(header_of(kineto_profile_run_result(p), "trace_id"), quoted);
    kineto_profile_run_destroy(p);
}

static void ids_may_be_made_by_the_program(void **state)
{
    (void)state;
    seen s = {0};
    kineto_profile_run_options o = options();
    o.make_trace_id = id_of_mine;
    o.on_trace_ready = note;
    o.user = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    assert_string_equal(kineto_profile_run_trace_id(p), "my \"id\" 1");
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_string_equal(header_of(kineto_profile_run_result(p), "trace_id"), "\"my \\\"id\\\" 1\"");
    kineto_profile_run_destroy(p);
}

static void what_a_handler_returns_is_returned(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    seen s = {.answer = KINETO_E_IO};
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &every;
    o.on_trace_ready = note;
    o.user = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_E_IO);
    assert_string_equal(err.message, "told so");
    /* and the next cycle is recorded all the same */
    run_operator();
    s.answer = KINETO_OK;
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    assert_int_equal(count_named(kineto_profile_run_result(p), "aten::mm"), 1);
    assert_int_equal(count_named(kineto_profile_run_result(p), "ProfilerStep#1"), 1);
    assert_int_equal(s.calls, 2);
    kineto_profile_run_destroy(p);
}

static kineto_status call_all(kineto_profile_run *p, void *user, kineto_error *err)
{
    uint32_t *refused = user;
    *refused += kineto_profile_run_stop(p, err) == KINETO_E_STATE;
    *refused += kineto_profile_run_start(p, err) == KINETO_E_STATE;
    *refused += kineto_profile_run_step(p, err) == KINETO_E_STATE;
    return KINETO_OK;
}

static kineto_action stop_it(uint64_t step, void *user)
{
    kineto_profile_run **p = user;
    if (*p)
        assert_int_equal(kineto_profile_run_stop(*p, NULL), KINETO_E_STATE);
    return step % 2 ? KINETO_ACTION_NONE : KINETO_ACTION_RECORD_AND_SAVE;
}

/* Otherwise it would record on, and could not be stopped. */
static void a_profile_is_not_driven_from_within_its_own_steps(void **state)
{
    (void)state;
    uint32_t refused = 0;
    kineto_error err = {.message = ""};
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &every;
    o.on_trace_ready = call_all;
    o.user = &refused;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_non_null(strstr(err.message, "within a step"));
    assert_int_equal(refused, 3);
    assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_int_equal(refused, 9);
    assert_false(kineto_enabled_any());
    kineto_profile_run_destroy(p);
    o = options();
    p = NULL;
    o.action = stop_it;
    o.user = &p;
    p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
    assert_false(kineto_enabled_any());
    kineto_profile_run_destroy(p);
}

static kineto_status destroy_it(kineto_profile_run *p, void *user, kineto_error *err)
{
    (void)err;
    kineto_profile_run_destroy(p);
    assert_non_null(kineto_profile_run_result(p)); /* until the step returns */
    ++*(uint32_t *)user;
    return KINETO_OK;
}

static void a_handler_may_destroy_its_profile(void **state)
{
    (void)state;
    for (int stop = 0; stop < 2; stop++) {
        uint32_t calls = 0;
        kineto_schedule every = one_step_cycles();
        kineto_profile_run_options o = options();
        o.schedule = &every;
        o.on_trace_ready = destroy_it;
        o.user = &calls;
        kineto_profile_run *p = create(&o);
        assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
        assert_int_equal(stop ? kineto_profile_run_stop(p, NULL) : kineto_profile_run_step(p, NULL),
                         KINETO_OK);
        assert_int_equal(calls, 1);
        assert_false(kineto_enabled_any());
    }
}

static void cycles_are_kept_if_asked_for(void **state)
{
    (void)state;
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &every;
    for (int keep = 0; keep < 2; keep++) {
        kineto_averages *averages;
        kineto_average row;
        o.acc_events = keep;
        kineto_profile_run *p = create(&o);
        assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
        for (int i = 1; i <= 4; i++) {
            for (int k = 0; k < i; k++)
                run_operator();
            if (i < 4)
                assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
        }
        assert_int_equal(kineto_profile_run_stop(p, NULL), KINETO_OK);
        assert_int_equal(kineto_profile_run_cycle_count(p), keep ? 4 : 1);
        assert_ptr_equal(kineto_profile_run_cycle(p, keep ? 3 : 0), kineto_profile_run_result(p));
        assert_int_equal(count_named(kineto_profile_run_result(p), "aten::mm"), 4);
        assert_int_equal(kineto_profile_run_key_averages(p, NULL, &averages, NULL), KINETO_OK);
        uint64_t operators = 0, steps = 0;
        for (uint32_t i = 0; i < kineto_averages_count(averages); i++) {
            kineto_averages_get(averages, i, &row);
            if (row.name.size == 8 && memcmp(row.name.data, "aten::mm", 8) == 0)
                operators += row.count;
            if (row.name.size == 13 && memcmp(row.name.data, "ProfilerStep*", 13) == 0)
                steps += row.count;
        }
        assert_int_equal(operators, keep ? 1 + 2 + 3 + 4 : 4);
        assert_int_equal(steps, keep ? 4 : 1);
        kineto_averages_destroy(averages);
        kineto_profile_run_destroy(p);
    }
}

/* ---- header and ledger ----------------------------------------------------------------------------- */

static void metadata_is_of_one_cycle_or_of_all(void **state)
{
    (void)state;
    kineto_error err;
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    o.schedule = &every;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_preset_metadata_json(p, "rank", "7", &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_preset_metadata_json(p, "bad", "{", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_add_metadata_json(p, "bad", "", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_add_metadata_json(p, NULL, "1", &err), KINETO_E_ARGUMENT);
    assert_int_equal(kineto_profile_run_add_metadata(p, "early", "a\\b \"c\"\n", &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_add_metadata_json(p, "late", "[1]", &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_add_metadata_json(p, "late", "[2]", &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_string_equal(header_of(kineto_profile_run_result(p), "rank"), "7");
    assert_string_equal(header_of(kineto_profile_run_result(p), "early"), "\"a\\\\b \\\"c\\\"\\n\"");
    assert_string_equal(header_of(kineto_profile_run_result(p), "late"), "[2]");
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_string_equal(header_of(kineto_profile_run_result(p), "rank"), "7");
    assert_string_equal(header_of(kineto_profile_run_result(p), "early"), "");
    assert_string_equal(header_of(kineto_profile_run_result(p), "late"), "");
    kineto_profile_run_destroy(p);
}

static kineto_action digits_of(uint64_t step, void *user)
{
    const char *digits = user;
    return step < strlen(digits) ? (kineto_action)(digits[step] - '0') : KINETO_ACTION_NONE;
}

static void what_was_discarded_is_in_the_next_ledger_once(void **state)
{
    (void)state;
    char digits[] = "220332";
    kineto_profile_run_options o = options();
    o.action = digits_of;
    o.user = digits;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    for (int i = 0; i < 5; i++) {
        run_operator();
        assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
        if (i == 1)
            assert_int_equal(kineto_profile_run_discarded(p), 4);
        if (i == 3) {
            const kineto_profiler_result *r = kineto_profile_run_result(p);
            assert_int_equal(ledger_of(r, "events of incomplete cycles, discarded"), 4);
            assert_int_equal(ledger_of(r, "Incorrect schedule: RECORD followed by NONE"), 1);
        }
    }
    const kineto_profiler_result *r = kineto_profile_run_result(p);
    assert_int_equal(ledger_of(r, "events of incomplete cycles, discarded"), 0);
    assert_int_equal(ledger_of(r, "Incorrect schedule: RECORD followed by NONE"), 0);
    assert_int_equal(kineto_profile_run_discarded(p), 4);
    kineto_profile_run_destroy(p);
}

static void discards_are_counted_also_if_only_the_trace_is_wanted(void **state)
{
    (void)state;
    char digits[] = "20";
    kineto_profiler_config c = small();
    kineto_profile_run_options o = options();
    c.experimental.trace_only = true;
    o.config = &c;
    o.action = digits_of;
    o.user = digits;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, NULL), KINETO_OK);
    run_operator();
    assert_int_equal(kineto_profile_run_step(p, NULL), KINETO_OK);
    assert_int_equal(kineto_profile_run_discarded(p), 2);
    kineto_profile_run_destroy(p);
}

/* ---- failures ---------------------------------------------------------------------------------------- */

static void what_cannot_start_says_so_and_stays_stopped(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_profiler_config c = small();
    kineto_profile_run_options o = options();
    c.state = KINETO_STATE_PRIVATEUSE1; /* whose observer is not registered */
    o.config = &c;
    kineto_profile_run *p = create(&o);
    assert_int_not_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    assert_true(err.message[0] != '\0');
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_E_STATE);
    kineto_profile_run_destroy(p);
}

static void a_cycle_that_cannot_start_does_not_end_the_run(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_profiler_config c = small();
    kineto_schedule s = one_step_cycles();
    kineto_profile_run_options o = options();
    c.state = KINETO_STATE_PRIVATEUSE1;
    s.wait = 1;
    o.config = &c;
    o.schedule = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK); /* waits */
    assert_int_not_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK); /* waits again */
    assert_int_equal(kineto_profile_run_step_number(p), 2);
    assert_null(kineto_profile_run_result(p));
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    kineto_profile_run_destroy(p);
}

/* ---- states that record otherwise --------------------------------------------------------------------- */

static uint32_t events_out;

static kineto_status put_event(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                               kineto_error *err)
{
    (void)context;
    (void)err;
    if (device)
        *device = 0;
    if (cpu_ns)
        *cpu_ns = 0;
    events_out++;
    *event = &events_out;
    return KINETO_OK;
}

static kineto_status between(void *context, void *start, void *end, int64_t *ns, kineto_error *err)
{
    (void)context;
    (void)start;
    (void)end;
    (void)err;
    *ns = 5000;
    return KINETO_OK;
}

static void take_event(void *context, void *event)
{
    (void)context;
    (void)event;
    events_out--;
}

static void times_by_events_are_in_the_averages(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_stubs stubs;
    kineto_stubs_init(&stubs);
    stubs.record = put_event;
    stubs.elapsed_ns = between;
    stubs.release_event = take_event;
    assert_int_equal(kineto_stubs_register(KINETO_STUBS_CUDA, &stubs, NULL), KINETO_OK);
    kineto_profiler_config c = small();
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    c.state = KINETO_STATE_KINETO_GPU_FALLBACK;
    o.config = &c;
    o.schedule = &every;
    o.acc_events = true;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    for (int i = 0; i < 2; i++) {
        kineto_averages *averages;
        kineto_average row;
        bool found = false;
        run_operator();
        run_operator();
        assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
        if (i == 1) { /* their operators have other numbers in a trace of all */
            assert_int_equal(kineto_profile_run_key_averages(p, NULL, &averages, &err),
                             KINETO_E_UNSUPPORTED);
            continue;
        }
        assert_int_equal(kineto_profile_run_key_averages(p, NULL, &averages, &err), KINETO_OK);
        for (uint32_t k = 0; k < kineto_averages_count(averages); k++) {
            kineto_averages_get(averages, k, &row);
            if (row.name.size == 8 && memcmp(row.name.data, "aten::mm", 8) == 0) {
                found = true;
                assert_int_equal(row.device_time_total_ns, 2 * 5000);
            }
        }
        assert_true(found);
        kineto_averages_destroy(averages);
    }
    kineto_profile_run_destroy(p);
    assert_int_equal(events_out, 0);
    assert_int_equal(kineto_stubs_unregister(KINETO_STUBS_CUDA, NULL), KINETO_OK);
}

static kineto_status observe(void *context, const struct kineto_profiler_config *config,
                             uint32_t scopes, kineto_error *err)
{
    (void)config;
    (void)scopes;
    (void)err;
    ++*(int *)context;
    return KINETO_OK;
}

static void an_observer_is_notified_of_each_cycle(void **state)
{
    (void)state;
    int begun = 0;
    kineto_error err = {.message = ""};
    kineto_averages *averages;
    kineto_privateuse1_observer observer;
    kineto_privateuse1_observer_init(&observer);
    observer.context = &begun;
    observer.enable = observe;
    assert_int_equal(kineto_privateuse1_observer_register(&observer, NULL), KINETO_OK);
    seen s = {0};
    kineto_profiler_config c = small();
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    c.state = KINETO_STATE_PRIVATEUSE1;
    o.config = &c;
    o.schedule = &every;
    o.acc_events = true;
    o.on_trace_ready = note;
    o.user = &s;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    assert_int_equal(begun, 4);
    assert_int_equal(s.calls, 4);
    assert_null(kineto_profiler_result_trace(kineto_profile_run_result(p)));
    assert_int_equal(kineto_profile_run_key_averages(p, NULL, &averages, &err), KINETO_E_STATE);
    assert_int_equal(kineto_profile_run_export_chrome_trace(p, "x.json", &err), KINETO_E_STATE);
    kineto_profile_run_destroy(p);
    assert_int_equal(kineto_privateuse1_observer_unregister(NULL), KINETO_OK);
}

/* ---- files ------------------------------------------------------------------------------------------- */

static uint32_t list_and_empty(const char *directory, char *last, size_t bytes)
{
    uint32_t found = 0;
    DIR *d = opendir(directory);
    assert_non_null(d);
    for (struct dirent *e = readdir(d); e; e = readdir(d)) {
        char path[512];
        if (e->d_name[0] == '.')
            continue;
        found++;
        snprintf(last, bytes, "%s", e->d_name);
        snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        assert_int_equal(unlink(path), 0);
    }
    closedir(d);
    return found;
}

static void tensorboard_finds_a_file_for_each_cycle(void **state)
{
    (void)state;
    char root[256], deep[300], name[256], worker[300];
    assert_non_null(make_directory(root, sizeof root));
    snprintf(deep, sizeof deep, "%s/a/b", root);
    kineto_tensorboard where = {.size = sizeof where, .directory = deep, .gzip = true};
    kineto_schedule every = one_step_cycles();
    kineto_profile_run_options o = options();
    kineto_error err = {.message = ""};
    o.schedule = &every;
    o.on_trace_ready = kineto_tensorboard_handler;
    o.user = &where;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_int_equal(kineto_profile_run_step(p, &err), KINETO_OK);
    assert_int_equal(list_and_empty(deep, name, sizeof name), 2);
    gethostname(worker, 200);
    snprintf(worker + strlen(worker), 64, "_%d.", (int)getpid());
    assert_memory_equal(name, worker, strlen(worker));
    const char *rest = name + strlen(worker);
    assert_int_equal(strspn(rest, "0123456789"), 19); /* nanoseconds, in this age */
    assert_string_equal(rest + 19, ".pt.trace.json.gz");
    where.worker = "w0";
    where.gzip = false;
    char path[512];
    assert_int_equal(kineto_profile_run_save_tensorboard(p, &where, path, sizeof path, &err),
                     KINETO_OK);
    kineto_trace *t;
    assert_int_equal(kineto_trace_open(path, &t, &err), KINETO_OK);
    kineto_trace_release(t);
    assert_int_equal(list_and_empty(deep, name, sizeof name), 1);
    assert_memory_equal(name, "w0.", 3);
    assert_int_equal(kineto_profile_run_save_tensorboard(p, &where, path, 10, &err), KINETO_E_ARGUMENT);
    where.worker = "../w";
    assert_int_equal(kineto_profile_run_save_tensorboard(p, &where, NULL, 0, &err), KINETO_E_ARGUMENT);
    where.worker = "";
    assert_int_equal(kineto_profile_run_save_tensorboard(p, &where, NULL, 0, &err), KINETO_E_ARGUMENT);
    kineto_profile_run_destroy(p);
    rmdir(deep);
    snprintf(deep, sizeof deep, "%s/a", root);
    rmdir(deep);
    assert_int_equal(rmdir(root), 0);
}

static void directories_that_cannot_be_made_are_reported(void **state)
{
    (void)state;
    kineto_error err = {.message = ""};
    kineto_tensorboard where = {.size = sizeof where, .directory = "/dev/null/log"};
    kineto_profile_run_options o = options();
    o.on_trace_ready = kineto_tensorboard_handler;
    o.user = &where;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    assert_int_not_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    assert_memory_equal(err.message, "Can't create directory: ", 24);
    assert_non_null(kineto_profile_run_result(p)); /* the trace is there, and may be saved elsewhere */
    where.directory = "/dev/null";
    assert_int_not_equal(kineto_tensorboard_handler(p, &where, &err), KINETO_OK);
    assert_memory_equal(err.message, "Can't create directory: ", 24);
    where.directory = "";
    assert_int_equal(kineto_tensorboard_handler(p, &where, &err), KINETO_E_ARGUMENT);
    char *longer = malloc(10000);
    memset(longer, 'x', 9999);
    longer[9999] = '\0';
    where.directory = longer;
    assert_int_equal(kineto_tensorboard_handler(p, &where, &err), KINETO_E_ARGUMENT);
    free(longer);
    kineto_profile_run_destroy(p);
}

static void everything_can_be_exported(void **state)
{
    (void)state;
    char root[256], path[512];
    kineto_error err = {.message = ""};
    assert_non_null(make_directory(root, sizeof root));
    kineto_profiler_config c = small();
    c.with_stack = c.profile_memory = c.report_input_shapes = true;
    kineto_profile_run_options o = options();
    o.config = &c;
    kineto_profile_run *p = create(&o);
    assert_int_equal(kineto_profile_run_start(p, &err), KINETO_OK);
    kineto_memory_event m = {sizeof m, 0x1000, 64, 64, 0, 0, -1};
    kineto_function f;
    kineto_function_begin(&f, &op_site, NULL, 0);
    kineto_memory_report(&m);
    kineto_function_end(&f);
    assert_int_equal(kineto_profile_run_stop(p, &err), KINETO_OK);
    snprintf(path, sizeof path, "%s/t.json", root);
    for (int i = 0; i < 2; i++) /* as often as one likes */
        assert_int_equal(kineto_profile_run_export_chrome_trace(p, path, &err), KINETO_OK);
    snprintf(path, sizeof path, "%s/t.folded", root);
    assert_int_equal(kineto_profile_run_export_stacks(p, path, NULL, &err), KINETO_OK);
    snprintf(path, sizeof path, "%s/m.raw.json", root);
    assert_int_equal(kineto_profile_run_export_memory_timeline(p, path, NULL, &err), KINETO_OK);
    snprintf(path, sizeof path, "%s/e.json", root);
    assert_int_equal(kineto_profile_run_export_execution_trace(p, path, &err), KINETO_OK);
    assert_int_equal(list_and_empty(root, path, sizeof path), 4);
    kineto_profile_run_destroy(p);
    assert_int_equal(rmdir(root), 0);
}

int main(void)
{
    setenv("KINETO_LOG_LEVEL", "4", 1);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(impossible_options_are_refused),
        cmocka_unit_test(calls_out_of_order_are_statuses),
        cmocka_unit_test(null_is_an_argument_error),
        cmocka_unit_test(without_a_schedule_all_is_one_cycle_without_annotations),
        cmocka_unit_test(a_pause_is_not_in_its_cycle),
        cmocka_unit_test(the_default_is_every_activity),
        cmocka_unit_test(destroying_in_the_middle_hands_nothing_over),
        cmocka_unit_test(steps_count_for_who_waits_for_them),
        cmocka_unit_test(iterations_are_marked_once),
        cmocka_unit_test(another_thread_may_step_and_stop),
        cmocka_unit_test(profiles_do_not_disturb_each_other),
        cmocka_unit_test(each_cycle_has_an_id_of_its_own),
        cmocka_unit_test(ids_may_be_made_by_the_program),
        cmocka_unit_test(what_a_handler_returns_is_returned),
        cmocka_unit_test(a_profile_is_not_driven_from_within_its_own_steps),
        cmocka_unit_test(a_handler_may_destroy_its_profile),
        cmocka_unit_test(cycles_are_kept_if_asked_for),
        cmocka_unit_test(metadata_is_of_one_cycle_or_of_all),
        cmocka_unit_test(what_was_discarded_is_in_the_next_ledger_once),
        cmocka_unit_test(discards_are_counted_also_if_only_the_trace_is_wanted),
        cmocka_unit_test(what_cannot_start_says_so_and_stays_stopped),
        cmocka_unit_test(a_cycle_that_cannot_start_does_not_end_the_run),
        cmocka_unit_test(times_by_events_are_in_the_averages),
        cmocka_unit_test(an_observer_is_notified_of_each_cycle),
        cmocka_unit_test(tensorboard_finds_a_file_for_each_cycle),
        cmocka_unit_test(directories_that_cannot_be_made_are_reported),
        cmocka_unit_test(everything_can_be_exported),
    };
    return RUN_TESTS(tests);
}
