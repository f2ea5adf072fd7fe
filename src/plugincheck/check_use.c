/* Scenarios: one kind alone, pauses, threads, sessions that are empty or long. */
#include "plugincheck/check.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

/* ---- kinds ---------------------------------------------------------------------------------------- */

static void each_kind(kv_check *k, kv_checked *p)
{
    char silent[120] = "", text[48];
    for (size_t i = 0; i < p->kind_count; i++) {
        kv_session s;
        uint64_t events;
        kv_session_init(&s, k, p, KV_SIZE_TODAY);
        s.kinds[0] = p->kinds[i];
        s.kind_count = 1;
        if (!kv_whole_session(&s, KV_RULE_KINDS_EACH, 16, &events))
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

void kv_scene_each_kind(kv_check *k) { kv_for_each(k, KV_RULE_KINDS_EACH, each_kind); }

/* ---- pauses --------------------------------------------------------------------------------------- */

#define MARGIN_NS 2000000 /* the pause is longer, at both ends */

static uint64_t realtime_ns(void) { return kb_clock_ns(CLOCK_REALTIME); }

static uint64_t count_between(const kv_session *s, uint64_t from, uint64_t to)
{
    const kv_seen *seen = s->k->seen;
    uint64_t count = 0;
    for (size_t i = 0; i < seen->stored_count; i++) {
        int64_t ns;
        if (kv_utc_ns(s, seen->events[i].clock, seen->events[i].start, &ns))
            count += (uint64_t)ns > from + MARGIN_NS && (uint64_t)ns < to - MARGIN_NS;
    }
    return count;
}

static void check_pause(kv_session *s, uint64_t from, uint64_t to, uint64_t before)
{
    uint64_t during = count_between(s, from, to);
    uint64_t after = count_between(s, to - 2 * MARGIN_NS, UINT64_MAX / 2);
    if (during)
        kv_fault(s->k, KV_RULE_TOGGLE_QUIET, "%llu events and samples of the pause",
                 (unsigned long long)during);
    if (before && !after)
        kv_fault(s->k, KV_RULE_TOGGLE_QUIET, "nothing is recorded when it goes on");
}

static void toggle(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_TOGGLE_QUIET;
    kv_session s;
    if (!KINETO_PLUGIN_HAS(p->functions, KinetoPlugin_ProfilerInterface,
                           profilerToggleCollection) ||
        !p->functions->profilerToggleCollection) {
        kv_untested(k, rule, "it has no profilerToggleCollection");
        return;
    }
    if (!kv_begin(k, &s, p, rule))
        return;
    kv_expect(&s, rule, "profilerStart", kv_start(&s));
    bool worked = kv_exercise(k, 16);
    kv_expect(&s, rule, "profilerToggleCollection(0)", kv_toggle(&s, false));
    uint64_t from = realtime_ns();
    usleep(5000);
    worked = worked && kv_exercise(k, 16);
    usleep(5000);
    uint64_t to = realtime_ns();
    kv_expect(&s, rule, "profilerToggleCollection(1)", kv_toggle(&s, true));
    worked = worked && kv_exercise(k, 16);
    kv_expect(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_look(&s);
    if (k->told_faults[KV_RULE_TIME_WINDOW] || k->told_faults[KV_RULE_TIME_MONOTONIC_CLOCK]) {
        kv_untested(k, rule, "its times are wrong: see time");
        return;
    }
    check_pause(&s, from, to, worked ? k->seen->stored_count : 0);
    if (k->seen->stored_count)
        kv_ok(k, rule, "%s", "");
    else
        kv_untested(k, rule, "%s", kv_why_no_events(k));
}

void kv_scene_toggle(kv_check *k) { kv_for_each(k, KV_RULE_TOGGLE_QUIET, toggle); }

/* ---- threads -------------------------------------------------------------------------------------- */

#define THREADS 4u
#define ROUNDS  500u

typedef struct pusher {
    kv_session *s;
    uint64_t first;
    int result;
    pthread_t thread;
} pusher;

static void *push_and_pop(void *argument)
{
    pusher *p = argument;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        p->result |= kv_push(p->s, true, p->first + 2 * i);
        p->result |= kv_push(p->s, false, p->first + 2 * i + 1);
        p->result |= kv_push(p->s, false, p->first + 2 * i + 1);
        p->result |= kv_pop(p->s, false);
        p->result |= kv_pop(p->s, false);
        p->result |= kv_pop(p->s, true);
    }
    return NULL;
}

static void push_on_threads(kv_session *s)
{
    pusher pushers[THREADS];
    unsigned started = 0;
    kv_calling(s->k, "push and pop on several threads");
    for (; started < THREADS; started++) {
        pushers[started] = (pusher){.s = s, .first = (started + 1) * UINT64_C(1000000)};
        if (pthread_create(&pushers[started].thread, NULL, push_and_pop, &pushers[started]))
            break;
    }
    push_and_pop(&(pusher){.s = s, .first = 1});
    for (unsigned i = 0; i < started; i++) {
        pthread_join(pushers[i].thread, NULL);
        if (pushers[i].result)
            kv_fault(s->k, KV_RULE_THREADS_PUSH_POP, "a push or pop on a thread returned %d",
                     pushers[i].result);
    }
    kv_calling(s->k, "");
}

static void push_pop(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_THREADS_PUSH_POP;
    const KinetoPlugin_ProfilerInterface *f = p->functions;
    kv_session s;
    if (!f->profilerPushCorrelationId && !f->profilerPushUserCorrelationId) {
        kv_untested(k, rule, "it has no push and pop");
        return;
    }
    if (!kv_begin(k, &s, p, rule))
        return;
    kv_expect(&s, rule, "profilerStart", kv_start(&s));
    push_on_threads(&s);
    (void)kv_exercise(k, 8); /* no id is pushed any more: external ids must be 0 */
    kv_expect(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_look(&s);
    kv_ok(k, rule, "%s", "");
}

void kv_scene_push_pop(kv_check *k) { kv_for_each(k, KV_RULE_THREADS_PUSH_POP, push_pop); }

typedef struct errand {
    kv_session *s;
    int (*call)(kv_session *s);
    int result;
} errand;

static void *run_errand(void *argument)
{
    errand *e = argument;
    e->result = e->call(e->s);
    return NULL;
}

static void elsewhere_call(kv_session *s, int (*call)(kv_session *s), const char *name)
{
    errand e = {s, call, 0};
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_errand, &e) == 0)
        pthread_join(thread, NULL);
    else
        e.result = call(s);
    kv_expect(s, KV_RULE_THREADS_LIFE_ELSEWHERE, name, e.result);
}

static int exercise_some(kv_session *s)
{
    (void)kv_exercise(s->k, 16);
    return 0;
}

static void elsewhere(kv_check *k, kv_checked *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    elsewhere_call(&s, kv_create, "profilerCreate");
    if (!s.handle)
        return;
    elsewhere_call(&s, kv_start, "profilerStart");
    elsewhere_call(&s, exercise_some, KINETO_PLUGIN_EXERCISE_SYMBOL);
    elsewhere_call(&s, kv_stop, "profilerStop");
    elsewhere_call(&s, kv_process, "profilerProcessEvents");
    elsewhere_call(&s, kv_destroy, "profilerDestroy");
    kv_look(&s);
    kv_ok(k, KV_RULE_THREADS_LIFE_ELSEWHERE, "%s", "");
}

void kv_scene_elsewhere(kv_check *k) { kv_for_each(k, KV_RULE_THREADS_LIFE_ELSEWHERE, elsewhere); }

/* ---- empty and long ------------------------------------------------------------------------------- */

static void empty(kv_check *k, kv_checked *p)
{
    for (int i = 0; i < 2; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_SIZE_TODAY);
        if (!kv_whole_session(&s, KV_RULE_SESSION_EMPTY, 0, NULL))
            return;
    }
    kv_ok(k, KV_RULE_SESSION_EMPTY, "%s", "");
}

void kv_scene_empty(kv_check *k) { kv_for_each(k, KV_RULE_SESSION_EMPTY, empty); }

#define LONG_ROUNDS 24u
#define LONG_PIECES 100u

/* Events of a session of one round: what to expect of many. */
static uint64_t events_of_one_round(kv_check *k, kv_checked *p)
{
    kv_session s;
    uint64_t events = 0;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    (void)kv_whole_session(&s, KV_RULE_SESSION_LONG, LONG_PIECES, &events);
    return k->seen->event_count + k->seen->dropped;
}

static void long_rounds(kv_session *s)
{
    for (unsigned i = 0; i < LONG_ROUNDS && kv_exercise(s->k, LONG_PIECES); i++)
        if (i % 6 == 5 && s->k->seen->live_count)
            kv_expect(s, KV_RULE_SESSION_LONG, "profilerProcessEvents during the session",
                      kv_process(s));
}

static void long_session(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_SESSION_LONG;
    uint64_t expected = events_of_one_round(k, p) * LONG_ROUNDS;
    kv_session s;
    if (!kv_begin(k, &s, p, rule))
        return;
    kv_expect(&s, rule, "profilerStart", kv_start(&s));
    long_rounds(&s);
    kv_expect(&s, rule, "profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "profilerDestroy", kv_destroy(&s));
    kv_look(&s);
    unsigned long long events = k->seen->event_count, dropped = k->seen->dropped;
    if (!k->exercise || k->exercise_result || !expected)
        kv_untested(k, rule, "%s", kv_why_no_events(k));
    else if ((events + dropped) * 2 < expected)
        kv_fault(k, rule, "%llu events, %llu counted as dropped, where about %llu were to come",
                 events, dropped, (unsigned long long)expected);
    else
        kv_ok(k, rule, "%llu events, %llu dropped", events, dropped);
}

void kv_scene_long(kv_check *k) { kv_for_each(k, KV_RULE_SESSION_LONG, long_session); }
