/* Scenarios of a profiler's life: loading, querying, an ordinary session, and calls in unusual
 * orders; and the building blocks of all scenarios. Unusual calls may be refused or ignored by a
 * plug-in, but must not break the sessions that follow. */
#include "plugincheck/check_scenarios.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define SESSION_PIECES      64u /* pieces of work in an ordinary session */
#define FIRST_OPERATOR_ID   UINT64_C(0x51000001)
#define FIRST_ANNOTATION_ID UINT64_C(0x52000001)

/* ---- load and query -------------------------------------------------------------------------- */

void kv_scene_load(kv_check *k)
{
    kv_set_crash_rule(k, KV_RULE_LOAD_OPENS);
    if (kv_load(k, KV_HOST_TODAY, true))
        kv_ok(k, KV_RULE_LOAD_REGISTER, "%s", "");
}

/* "name\tvendor\tkinds", for the head of the report. */
static void send_profiler(kv_check *k, const kv_profiler *p)
{
    char kinds[160] = "", one[48];
    size_t used = 0;
    for (size_t i = 0; i < p->kind_count && used < sizeof kinds; i++)
        used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s", i ? ", " : "",
                                 kv_type_text(k, p->kinds[i], one, sizeof one));
    kv_send_note(k, KV_NOTE_PROFILER, "%.31s\t%.31s\t%s", p->name, p->vendor, kinds);
}

/* 1 to 31 printable bytes, terminated. */
static void check_profiler_name(kv_check *k, const kv_profiler *p)
{
    char text[160];
    size_t n = strnlen(p->name, sizeof p->name);
    bool printable = n > 0 && n < sizeof p->name && kb_utf8_valid_prefix(p->name, n) == n;
    for (size_t i = 0; i < n && printable; i++)
        printable = (unsigned char)p->name[i] >= 0x20 && p->name[i] != 0x7f;
    if (!n)
        kv_fault(k, KV_RULE_QUERY_NAME, "the name is empty");
    else if (n == sizeof p->name)
        kv_fault(k, KV_RULE_QUERY_NAME, "the name is not terminated");
    else if (!printable)
        kv_fault(k, KV_RULE_QUERY_NAME, "the name is not printable: \"%s\"",
                 kv_quote(p->name, text, sizeof text));
    if (strnlen(p->vendor, sizeof p->vendor) == sizeof p->vendor)
        kv_fault(k, KV_RULE_QUERY_NAME, "the vendor's name is not terminated");
    kv_ok(k, KV_RULE_QUERY_NAME, "%s", "");
}

/* Known numbers, each of them once. */
static void check_profiler_kinds(kv_check *k, const kv_profiler *p)
{
    char text[48];
    if (!p->kind_count)
        kv_fault(k, KV_RULE_QUERY_KINDS, "it supports no kind");
    for (size_t i = 0; i < p->kind_count; i++) {
        int32_t type = p->kinds[i], like = kv_type_like(k, type);
        if (like <= 0 || like >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT)
            kv_fault(k, KV_RULE_QUERY_KINDS, "unknown kind %d", type);
        for (size_t j = 0; j < i; j++)
            if (p->kinds[j] == type)
                kv_fault(k, KV_RULE_QUERY_KINDS, "kind %s is named twice",
                         kv_type_text(k, type, text, sizeof text));
    }
    kv_ok(k, KV_RULE_QUERY_KINDS, "%s", "");
}

/* Queries with room for `name_bytes` characters and `count` kinds. Both buffers end where
 * accessible memory ends, so that writing past them is a crash with a verdict. */
static void query_with_small_buffers(kv_check *k, const kv_profiler *p, size_t name_bytes,
                                     size_t count)
{
    KinetoPlugin_ProfilerQuery_Params q = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen)};
    char *name = kv_guard_new(name_bytes + 1, "the buffer for the name", false);
    char *vendor = kv_guard_new(name_bytes + 1, "the buffer for the vendor's name", false);
    size_t bytes = count * sizeof(int32_t);
    char *kinds = kv_guard_new(bytes, "the buffer for kinds", false);
    size_t pad = kb_align(name_bytes + 1, 8) - name_bytes - 1;
    memset(name, 'x', pad + name_bytes + 1);
    memset(vendor, 'x', pad + name_bytes + 1);
    q.pProfilerName = name + pad;
    q.profilerNameMaxLen = name_bytes;
    q.pVendorName = vendor + pad;
    q.vendorNameMaxLen = name_bytes;
    q.pSupportedActivityTypes = (int32_t *)(void *)(kinds + kb_align(bytes, 8) - bytes);
    q.supportedActivityTypesMaxLen = count;
    kv_set_call(k, "profilerQuery");
    int result = p->functions->profilerQuery(&q);
    kv_set_call(k, "");
    bool terminated = memchr(name + pad, 0, name_bytes + 1) != NULL;
    if (result == 0 && !terminated)
        kv_fault(k, KV_RULE_QUERY_SMALL_BUFFERS,
                 "the name is not terminated where profilerNameMaxLen is %zu", name_bytes);
}

/* Small names with all kinds, then small lists of kinds. */
static void check_query_buffers(kv_check *k, const kv_profiler *p)
{
    static const size_t names[] = {0, 1, 2, 7}, kinds[] = {0, 1, 2};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        query_with_small_buffers(k, p, names[i], KV_MAX_KINDS);
    for (size_t i = 0; i < KB_COUNT(kinds); i++)
        query_with_small_buffers(k, p, sizeof p->name - 1, kinds[i]);
    kv_ok(k, KV_RULE_QUERY_SMALL_BUFFERS, "%s", "");
}

/* False: the query failed, which is reported. */
static bool query_profiler(kv_check *k, kv_profiler *p)
{
    kv_set_crash_rule(k, KV_RULE_QUERY_NULL_HANDLE);
    int result = kv_query(k, p);
    if (result)
        kv_fault(k, KV_RULE_QUERY_NULL_HANDLE, "profilerQuery returned %d", result);
    else
        kv_ok(k, KV_RULE_QUERY_NULL_HANDLE, "%s", "");
    return result == 0;
}

/* A host queries with a NULL handle, before any profiler was created. */
void kv_scene_query(kv_check *k)
{
    kv_set_crash_rule(k, KV_RULE_LOAD_REGISTER);
    if (!kv_load(k, KV_HOST_TODAY, false))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kv_profiler *p = &k->profilers[i];
        if (!query_profiler(k, p))
            continue;
        send_profiler(k, p);
        check_profiler_name(k, p);
        check_profiler_kinds(k, p);
        kv_set_crash_rule(k, KV_RULE_QUERY_SMALL_BUFFERS);
        check_query_buffers(k, p);
    }
}

/* ---- state of the process -------------------------------------------------------------------- */

/* State that belongs to the program; a plug-in must not change it. */
typedef struct process_state {
    void (*handlers[NSIG])(int);
    sigset_t blocked;
    mode_t mask;
    char directory[512];
    uint64_t environment;
} process_state;

/* Order matters: a variable that moved counts as a change. */
static uint64_t hash_environment(void)
{
    uint64_t hash = 0;
    for (char **at = environ; at && *at; at++)
        hash = kb_hash_seeded(hash, *at, strlen(*at) + 1);
    return hash;
}

/* Reading the umask changes it for a moment: the scenario has one thread here. */
static void read_process_state(process_state *b)
{
    memset(b, 0, sizeof *b);
    for (int i = 1; i < NSIG; i++) {
        struct sigaction action = {0};
        if (sigaction(i, NULL, &action) == 0)
            b->handlers[i] = action.sa_handler;
    }
    sigprocmask(SIG_BLOCK, NULL, &b->blocked);
    b->mask = umask(0);
    umask(b->mask);
    if (!getcwd(b->directory, sizeof b->directory))
        b->directory[0] = 0;
    b->environment = hash_environment();
}

/* Everything that differs is a fault of quiet.process. */
static void compare_process_state(kv_check *k, const process_state *before,
                                  const process_state *now)
{
    for (int i = 1; i < NSIG; i++) {
        if (before->handlers[i] != now->handlers[i])
            kv_fault(k, KV_RULE_QUIET_PROCESS, "the handler of signal %d (%s) has changed", i,
                     strsignal(i));
        if (i < 32 && sigismember(&before->blocked, i) != sigismember(&now->blocked, i))
            kv_fault(k, KV_RULE_QUIET_PROCESS, "the blocking of signal %d (%s) has changed", i,
                     strsignal(i));
    }
    if (before->mask != now->mask)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the umask has changed");
    if (strcmp(before->directory, now->directory) != 0)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the working directory has changed to %s",
                 now->directory);
    if (before->environment != now->environment)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the environment has changed");
    kv_ok(k, KV_RULE_QUIET_PROCESS, "%s", "");
}

/* ---- an ordinary session --------------------------------------------------------------------- */

/* The answer must be the same as before the session. */
static void check_repeated_query(kv_check *k, const kv_profiler *p)
{
    kv_profiler again = {.functions = p->functions};
    int result = kv_query(k, &again);
    if (result)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "profilerQuery returned %d", result);
    else if (again.kind_count != p->kind_count ||
             memcmp(again.kinds, p->kinds, p->kind_count * sizeof *p->kinds) != 0)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "the kinds are not the same as before");
    else if (strncmp(again.name, p->name, sizeof p->name) != 0)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "the name is not the same as before");
    else
        kv_ok(k, KV_RULE_QUERY_REPEATABLE, "%s", "");
}

/* A result other than 0 is a fault of life.order. */
static bool check_life_call(kv_session *s, const char *call, int result)
{
    char text[200];
    if (result)
        kv_fault(s->k, KV_RULE_LIFE_ORDER, "%s", kv_failure(s, call, result, text, sizeof text));
    return result == 0;
}

/* Push an id and remember it: ids of events are checked against pushed ones. */
static bool push_id(kv_session *s, bool user, uint64_t id)
{
    if (s->pushed_count < KV_MAX_PUSHED)
        s->pushed[s->pushed_count++] = id;
    return check_life_call(s, user ? "profilerPushUserCorrelationId" : "profilerPushCorrelationId",
                           kv_push(s, user, id));
}

/* Ids are popped in the reverse order; a failure is reported for life.order. */
static bool pop_id(kv_session *s, bool user)
{
    return check_life_call(s, user ? "profilerPopUserCorrelationId" : "profilerPopCorrelationId",
                           kv_pop(s, user));
}

/* Work under one annotation and one operator id, then under a second operator id. */
static bool work_in_session(kv_session *s)
{
    if (!push_id(s, true, FIRST_ANNOTATION_ID) || !push_id(s, false, FIRST_OPERATOR_ID))
        return false;
    bool worked = kv_exercise(s->k, SESSION_PIECES / 2);
    if (!push_id(s, false, FIRST_OPERATOR_ID + 1))
        return false;
    if (worked)
        (void)kv_exercise(s->k, SESSION_PIECES / 2);
    return pop_id(s, false) && pop_id(s, false) && pop_id(s, true);
}

/* The builder has ended: work of the device must not reach it. */
static void work_after_session(kv_check *k)
{
    kv_set_crash_rule(k, KV_RULE_BUILDER_AFTER_END);
    (void)kv_exercise(k, 4);
    usleep(30000);
    kv_set_crash_rule(k, KV_RULE_LIFE_ORDER);
}

/* create, start, work, stop, processEvents, destroy. False: a call failed, which is reported. */
static bool run_ordinary_session(kv_session *s)
{
    if (!check_life_call(s, "profilerCreate", kv_create(s)))
        return false;
    bool fine = check_life_call(s, "profilerStart", kv_start(s));
    if (fine && !s->handle) {
        kv_fault(s->k, KV_RULE_LIFE_ORDER, "profilerCreate left no handle");
        fine = false;
    }
    if (fine) {
        fine = work_in_session(s);
        fine &= check_life_call(s, "profilerStop", kv_stop(s));
        fine &= check_life_call(s, "profilerProcessEvents", kv_process(s));
    }
    fine &= check_life_call(s, "profilerDestroy", kv_destroy(s));
    work_after_session(s->k);
    return fine;
}

/* Numbers of events for the report. */
static void report_session(kv_check *k)
{
    const kv_seen *seen = k->seen;
    if (k->exercise_result)
        kv_ok(k, KV_RULE_LIFE_ORDER, "%s returned %d", KINETO_PLUGIN_EXERCISE_SYMBOL,
              k->exercise_result);
    else
        kv_ok(k, KV_RULE_LIFE_ORDER, "%llu events%s, %llu samples",
              (unsigned long long)seen->event_count, seen->live_count ? " during the session" : "",
              (unsigned long long)seen->counter_count);
    kv_ok(k, KV_RULE_SIZE_TODAY, "%s", "");
}

/* All profilers, then the state of the process. */
void kv_scene_session(kv_check *k)
{
    process_state before, now;
    read_process_state(&before);
    if (!kv_load_and_query(k, KV_HOST_TODAY, KV_RULE_LIFE_ORDER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kv_session s;
        kv_session_init(&s, k, &k->profilers[i], KV_HOST_TODAY);
        if (!run_ordinary_session(&s))
            continue;
        kv_check_events(&s);
        kv_report_event_rules(k);
        report_session(k);
        check_repeated_query(k, &k->profilers[i]);
    }
    read_process_state(&now);
    compare_process_state(k, &before, &now);
}

/* ---- unusual orders -------------------------------------------------------------------------- */

void kv_expect_working_session(kv_check *k, kv_profiler *p, kv_rule rule)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    if (kv_run_session(&s, rule, 8, NULL))
        kv_ok(k, rule, "%s", "");
}

bool kv_create_session(kv_check *k, kv_session *s, kv_profiler *p, kv_rule rule)
{
    char text[200];
    kv_session_init(s, k, p, KV_HOST_TODAY);
    int result = kv_create(s);
    if (result)
        kv_fault(k, rule, "%s", kv_failure(s, "profilerCreate", result, text, sizeof text));
    return result == 0;
}

void kv_expect_success(kv_session *s, kv_rule rule, const char *call, int result)
{
    char text[200];
    if (result)
        kv_fault(s->k, rule, "%s", kv_failure(s, call, result, text, sizeof text));
}

/* The name of the profiler is in the crash site while it runs. */
void kv_for_each_profiler(kv_check *k, kv_rule rule, void (*run)(kv_check *k, kv_profiler *p))
{
    if (!kv_load_and_query(k, KV_HOST_TODAY, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        snprintf(k->site->profiler, sizeof k->site->profiler, "%.31s", k->profilers[i].name);
        run(k, &k->profilers[i]);
    }
}

/* A profiler that accepts the list must be destroyable. */
static void create_with_kinds(kv_check *k, kv_profiler *p, const int32_t *kinds, size_t count)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    memcpy(s.kinds, kinds, count * sizeof *kinds);
    s.kind_count = count;
    if (kv_create(&s) == 0)
        kv_expect_success(&s, KV_RULE_LIFE_CREATE_KINDS, "profilerDestroy", kv_destroy(&s));
}

/* Lists that are empty, padded, or contain unknown kinds may be refused, but must not crash. */
static void try_kind_lists(kv_check *k, kv_profiler *p)
{
    const int32_t none[] = {0}, unknown[] = {-1, 999, INT32_MAX, INT32_MIN};
    const int32_t padded[] = {p->kinds[0], 0, 0, 0, 0};
    create_with_kinds(k, p, none, 0);
    create_with_kinds(k, p, none, 1);
    create_with_kinds(k, p, unknown, KB_COUNT(unknown));
    create_with_kinds(k, p, padded, KB_COUNT(padded));
    kv_expect_working_session(k, p, KV_RULE_LIFE_CREATE_KINDS);
}

/* A second start may be refused or ignored. */
static void try_second_start(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_LIFE_START_TWICE;
    kv_session s;
    if (!kv_create_session(k, &s, p, rule))
        return;
    kv_expect_success(&s, rule, "profilerStart", kv_start(&s));
    int again = kv_start(&s);
    (void)kv_exercise(k, 8);
    kv_expect_success(&s, rule, "after a second start, profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "after a second start, profilerProcessEvents", kv_process(&s));
    kv_expect_success(&s, rule, "after a second start, profilerDestroy", kv_destroy(&s));
    kv_expect_working_session(k, p, rule);
    kv_ok(k, rule, "%s", again ? "refused" : "ignored");
}

/* May be refused or ignored. */
static void try_stop_without_start(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_LIFE_STOP_UNSTARTED;
    kv_session s;
    if (!kv_create_session(k, &s, p, rule))
        return;
    int result = kv_stop(&s);
    kv_expect_success(&s, rule, "after a stop without start, profilerDestroy", kv_destroy(&s));
    kv_expect_working_session(k, p, rule);
    kv_ok(k, rule, "%s", result ? "refused" : "ignored");
}

/* processEvents before stop may be refused or deliver. A profiler that delivers during the
 * session must accept it, and no event may be delivered twice: a quarter of equal events is
 * taken as proof, a few may be different events that look the same. */
static void try_early_process(kv_check *k, kv_profiler *p)
{
    const kv_rule rule = KV_RULE_LIFE_PROCESS_BEFORE_STOP;
    kv_session s;
    if (!kv_create_session(k, &s, p, rule))
        return;
    kv_expect_success(&s, rule, "profilerStart", kv_start(&s));
    bool worked = kv_exercise(k, 16);
    int early = kv_process(&s);
    worked = worked && kv_exercise(k, 16);
    if (early && k->seen->live_count)
        kv_fault(k, rule, "it delivers during the session, but processEvents returned %d", early);
    kv_expect_success(&s, rule, "after an early processEvents, profilerStop", kv_stop(&s));
    kv_expect_success(&s, rule, "after an early processEvents, profilerProcessEvents",
                      kv_process(&s));
    kv_expect_success(&s, rule, "after an early processEvents, profilerDestroy", kv_destroy(&s));
    kv_check_events(&s);
    uint64_t events = k->seen->event_count, twice = kv_count_duplicates(k);
    if (twice && twice * 4 >= events) /* a few equal events may be different ones */
        kv_fault(k, rule, "%llu of %llu events were delivered twice", (unsigned long long)twice,
                 (unsigned long long)events);
    kv_ok(k, rule, "%s%s", early ? "refused" : "", worked ? "" : "nothing to deliver");
}

/* Twice, so that something that was left over from the first time is noticed. */
static void try_create_and_destroy(kv_check *k, kv_profiler *p)
{
    for (int i = 0; i < 2; i++) {
        kv_session s;
        if (!kv_create_session(k, &s, p, KV_RULE_LIFE_DESTROY_ONLY))
            return;
        kv_expect_success(&s, KV_RULE_LIFE_DESTROY_ONLY, "profilerDestroy", kv_destroy(&s));
    }
    kv_expect_working_session(k, p, KV_RULE_LIFE_DESTROY_ONLY);
}

/* Each session must deliver events if the first one did. */
static void run_four_sessions(kv_check *k, kv_profiler *p)
{
    uint64_t first = 0, events = 0;
    for (int i = 0; i < 4; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_HOST_TODAY);
        if (!kv_run_session(&s, KV_RULE_LIFE_RESTART, 16, &events))
            return;
        first = i ? first : events;
        if (first && !events)
            kv_fault(k, KV_RULE_LIFE_RESTART,
                     "session %d delivers nothing, the first had %llu events", i + 1,
                     (unsigned long long)first);
    }
    kv_ok(k, KV_RULE_LIFE_RESTART, "%s", first ? "" : "no events in any session");
}

void kv_scene_create_kinds(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_CREATE_KINDS, try_kind_lists);
}
void kv_scene_start_twice(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_START_TWICE, try_second_start);
}
void kv_scene_stop_unstarted(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_STOP_UNSTARTED, try_stop_without_start);
}
void kv_scene_process_before_stop(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_PROCESS_BEFORE_STOP, try_early_process);
}
void kv_scene_destroy_only(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_DESTROY_ONLY, try_create_and_destroy);
}
void kv_scene_restart(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_LIFE_RESTART, run_four_sessions);
}
