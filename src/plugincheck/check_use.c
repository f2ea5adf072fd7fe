/* Scenarios of use: each kind alone, pauses, ids and calls on several threads, sessions without
 * work, and long sessions. Events come only from plug-ins that export KinetoPlugin_exercise;
 * without it the rules about events are untested. */
#include "plugincheck/check_scenarios.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* ---- kinds ----------------------------------------------------------------------------------- */

/* Kinds without events are named, and are not a fault. */
static void record_each_kind(kv_check *k, kv_profiler *p)
{
    char silent[120] = "", text[48];
    for (size_t i = 0; i < p->kind_count; i++) {
        kv_session s;
        uint64_t events;
        kv_session_init(&s, k, p, KV_HOST_TODAY);
        s.kinds[0] = p->kinds[i];
        s.kind_count = 1;
        if (!kv_run_session(&s, KV_RULE_KINDS_EACH, 16, &events))
            return;
        size_t used = strlen(silent);
        if (!events && used < sizeof silent - 1)
            snprintf(silent + used, sizeof silent - used, "%s%s", used ? ", " : "",
                     kv_type_text(k, p->kinds[i], text, sizeof text));
    }
    if (k->exercise && silent[0])
        kv_ok(k, KV_RULE_KINDS_EACH, "no events of %s", silent);
    else if (k->exercise)
        kv_ok(k, KV_RULE_KINDS_EACH, "%s", "");
    else
        kv_untested(k, KV_RULE_KINDS_EACH, "%s", kv_why_no_events(k));
}

void kv_scene_each_kind(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_KINDS_EACH, record_each_kind);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

#define PAUSE_MARGIN_NS 2000000 /* at both ends of the pause, for the duration of the calls */

/* Events are compared in UTC, as kv_utc_ns converts them. */
static uint64_t read_realtime_ns(void) { return kb_clock_ns(CLOCK_REALTIME); }

/* Events that begin between two times, without the margins. Events in clocks without samples are
 * not counted. */
static uint64_t count_events_between(const kv_session *s, uint64_t from, uint64_t to)
{
    const kv_seen *seen = s->k->seen;
    uint64_t count = 0;
    for (size_t i = 0; i < seen->stored_count; i++) {
        int64_t ns;
        if (kv_utc_ns(s, seen->events[i].clock, seen->events[i].start, &ns))
            count += (uint64_t)ns > from + PAUSE_MARGIN_NS && (uint64_t)ns < to - PAUSE_MARGIN_NS;
    }
    return count;
}

/* No event may begin in the pause. @param before events of the session; 0: the device did not work.
 */
static void check_paused_events(kv_session *s, uint64_t from, uint64_t to, uint64_t before)
{
    uint64_t during = count_events_between(s, from, to);
    uint64_t after = count_events_between(s, to - 2 * PAUSE_MARGIN_NS, UINT64_MAX / 2);
    if (during)
        kv_fault(s->k, KV_RULE_TOGGLE_QUIET, "%llu events and samples in the pause",
                 (unsigned long long)during);
    if (before && !after)
        kv_fault(s->k, KV_RULE_TOGGLE_QUIET, "nothing is recorded after the pause");
}

/* Work before, in and after the pause. */
static void pause_collection(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_TOGGLE_QUIET;
    kv_session s;
    if (!KINETO_PLUGIN_HAS(p->functions, KinetoPlugin_ProfilerInterface,
                           profilerToggleCollection) ||
        !p->functions->profilerToggleCollection) {
        kv_untested(k, rule, "it has no profilerToggleCollection");
        return;
    }
    if (!kv_create_session(k, &s, p, rule))
        return;
    kv_expect_success(&s, rule, "profilerStart", kv_start(&s));
    bool worked = kv_exercise(k, 16);
    kv_expect_success(&s, rule, "profilerToggleCollection(0)", kv_toggle(&s, false));
    uint64_t from = read_realtime_ns();
    usleep(5000);
    worked = worked && kv_exercise(k, 16);
    usleep(5000);
    uint64_t to = read_realtime_ns();
    kv_expect_success(&s, rule, "profilerToggleCollection(1)", kv_toggle(&s, true));
    worked = worked && kv_exercise(k, 16);
    kv_expect_success(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect_success(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_check_events(&s);
    if (k->fault_counts[KV_RULE_TIME_WINDOW] || k->fault_counts[KV_RULE_TIME_MONOTONIC_CLOCK]) {
        kv_untested(k, rule, "its times are wrong: see time");
        return;
    }
    check_paused_events(&s, from, to, worked ? k->seen->stored_count : 0);
    if (k->seen->stored_count)
        kv_ok(k, rule, "%s", "");
    else
        kv_untested(k, rule, "%s", kv_why_no_events(k));
}

void kv_scene_toggle(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_TOGGLE_QUIET, pause_collection);
}

/* ---- threads --------------------------------------------------------------------------------- */

#define PUSH_THREADS 4u
#define PUSH_ROUNDS  500u

/* A thread with its own range of ids, from `first` on; `result` is the OR of all results. */
typedef struct pusher {
    kv_session *s;
    uint64_t first;
    int result;
    pthread_t thread;
} pusher;

/* A thread: nested pushes and pops, PUSH_ROUNDS times. */
static void *push_and_pop_ids(void *argument)
{
    pusher *p = argument;
    for (uint64_t i = 0; i < PUSH_ROUNDS; i++) {
        p->result |= kv_push(p->s, true, p->first + 2 * i);
        p->result |= kv_push(p->s, false, p->first + 2 * i + 1);
        p->result |= kv_push(p->s, false, p->first + 2 * i + 1);
        p->result |= kv_pop(p->s, false);
        p->result |= kv_pop(p->s, false);
        p->result |= kv_pop(p->s, true);
    }
    return NULL;
}

/* Push and pop on PUSH_THREADS threads and on this one, each with ids of its own. */
static void push_on_threads(kv_session *s)
{
    pusher pushers[PUSH_THREADS];
    unsigned started = 0;
    KB_ASSERT(s->handle);
    kv_set_call(s->k, "push and pop on several threads");
    for (; started < PUSH_THREADS; started++) {
        pushers[started] = (pusher){.s = s, .first = (started + 1) * UINT64_C(1000000)};
        if (pthread_create(&pushers[started].thread, NULL, push_and_pop_ids, &pushers[started]))
            break;
    }
    push_and_pop_ids(&(pusher){.s = s, .first = 1});
    for (unsigned i = 0; i < started; i++) {
        pthread_join(pushers[i].thread, NULL);
        if (pushers[i].result)
            kv_fault(s->k, KV_RULE_THREADS_PUSH_POP, "a push or pop on a thread returned %d",
                     pushers[i].result);
    }
    kv_set_call(s->k, "");
}

/* Threads push and pop at the same time; afterwards events must have no external id. */
static void check_push_and_pop(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_THREADS_PUSH_POP;
    const KinetoPlugin_ProfilerInterface *f = p->functions;
    kv_session s;
    if (!f->profilerPushCorrelationId && !f->profilerPushUserCorrelationId) {
        kv_untested(k, rule, "it has no push and pop");
        return;
    }
    if (!kv_create_session(k, &s, p, rule))
        return;
    kv_expect_success(&s, rule, "profilerStart", kv_start(&s));
    push_on_threads(&s);
    (void)kv_exercise(k, 8); /* all ids were popped: external ids must be 0 */
    kv_expect_success(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect_success(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_check_events(&s);
    kv_ok(k, rule, "%s", "");
}

void kv_scene_push_pop(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_THREADS_PUSH_POP, check_push_and_pop);
}

typedef struct thread_call {
    kv_session *s;
    int (*call)(kv_session *s);
    int result;
} thread_call;

static void *run_thread_call(void *argument)
{
    thread_call *e = argument;
    e->result = e->call(e->s);
    return NULL;
}

/* One call of a session on a thread of its own. */
static void call_on_thread(kv_session *s, int (*call)(kv_session *s), const char *name)
{
    thread_call e = {s, call, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_thread_call, &e) == 0)
        pthread_join(thread, NULL);
    else
        e.result = call(s);
    kv_expect_success(s, KV_RULE_THREADS_LIFE_ELSEWHERE, name, e.result);
}

static int exercise_device(kv_session *s)
{
    (void)kv_exercise(s->k, 16);
    return 0;
}

/* Each call on another thread. */
static void run_session_on_threads(kv_check *k, kv_profiler *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    call_on_thread(&s, kv_create, "profilerCreate");
    if (!s.handle)
        return;
    call_on_thread(&s, kv_start, "profilerStart");
    call_on_thread(&s, exercise_device, KINETO_PLUGIN_EXERCISE_SYMBOL);
    call_on_thread(&s, kv_stop, "profilerStop");
    call_on_thread(&s, kv_process, "profilerProcessEvents");
    call_on_thread(&s, kv_destroy, "profilerDestroy");
    kv_check_events(&s);
    kv_ok(k, KV_RULE_THREADS_LIFE_ELSEWHERE, "%s", "");
}

void kv_scene_elsewhere(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_THREADS_LIFE_ELSEWHERE, run_session_on_threads);
}

/* ---- empty and long -------------------------------------------------------------------------- */

/* Twice, without any work. */
static void run_empty_sessions(kv_check *k, kv_profiler *p)
{
    for (int i = 0; i < 2; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_HOST_TODAY);
        if (!kv_run_session(&s, KV_RULE_SESSION_EMPTY, 0, NULL))
            return;
    }
    kv_ok(k, KV_RULE_SESSION_EMPTY, "%s", "");
}

void kv_scene_empty(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_SESSION_EMPTY, run_empty_sessions);
}

#define LONG_ROUNDS 24u
#define LONG_PIECES 100u

/* Events, and those counted as dropped, of a session of one round: the expectation for a long one.
 */
static uint64_t count_events_of_round(kv_check *k, kv_profiler *p)
{
    kv_session s;
    uint64_t events = 0;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    (void)kv_run_session(&s, KV_RULE_SESSION_LONG, LONG_PIECES, &events);
    return k->seen->event_count + k->seen->dropped;
}

/* Profilers that deliver during the session must also accept processEvents in it. */
static void run_long_rounds(kv_session *s)
{
    for (unsigned i = 0; i < LONG_ROUNDS && kv_exercise(s->k, LONG_PIECES); i++)
        if (i % 6 == 5 && s->k->seen->live_count)
            kv_expect_success(s, KV_RULE_SESSION_LONG, "profilerProcessEvents during the session",
                              kv_process(s));
}

/* Events that were delivered or counted as dropped must be at least half of what one round
 * predicts. */
static void run_long_session(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_SESSION_LONG;
    uint64_t expected = count_events_of_round(k, p) * LONG_ROUNDS;
    kv_session s;
    if (!kv_create_session(k, &s, p, rule))
        return;
    kv_expect_success(&s, rule, "profilerStart", kv_start(&s));
    run_long_rounds(&s);
    kv_expect_success(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect_success(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_check_events(&s);
    unsigned long long events = k->seen->event_count, dropped = k->seen->dropped;
    if (!k->exercise || k->exercise_result || !expected)
        kv_untested(k, rule, "%s", kv_why_no_events(k));
    else if ((events + dropped) * 2 < expected)
        kv_fault(k, rule, "%llu events, %llu counted as dropped; about %llu were expected", events,
                 dropped, (unsigned long long)expected);
    else
        kv_ok(k, rule, "%llu events, %llu dropped", events, dropped);
}

void kv_scene_long(kv_check *k) { kv_for_each_profiler(k, KV_RULE_SESSION_LONG, run_long_session); }
