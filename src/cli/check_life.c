/* Scenarios: loading, asking, an ordinary session, and calls in unusual orders. */
#include "cli/check.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define PIECES 64u /* of work in an ordinary session */

/* ---- load and query ----------------------------------------------------------------------------- */

void kc_scene_load(kc_check *k)
{
    kc_at(k, KC_RULE_LOAD_OPENS);
    if (kc_load(k, KC_SIZE_TODAY, true))
        kc_ok(k, KC_RULE_LOAD_REGISTER, "%s", "");
}

static void tell_profiler(kc_check *k, const kc_checked *p)
{
    char kinds[160] = "", one[48];
    size_t used = 0;
    for (size_t i = 0; i < p->kind_count && used < sizeof kinds; i++)
        used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s", i ? ", " : "",
                                 kc_type_text(k, p->kinds[i], one, sizeof one));
    kc_tell(k, KC_WORD_PROFILER, "%.31s\t%.31s\t%s", p->name, p->vendor, kinds);
}

static void check_name(kc_check *k, const kc_checked *p)
{
    char text[160];
    size_t n = strnlen(p->name, sizeof p->name);
    bool printable = n > 0 && n < sizeof p->name && kb_utf8_valid_prefix(p->name, n) == n;
    for (size_t i = 0; i < n && printable; i++)
        printable = (unsigned char)p->name[i] >= 0x20 && p->name[i] != 0x7f;
    if (!n)
        kc_fault(k, KC_RULE_QUERY_NAME, "the name is empty");
    else if (n == sizeof p->name)
        kc_fault(k, KC_RULE_QUERY_NAME, "the name is not terminated");
    else if (!printable)
        kc_fault(k, KC_RULE_QUERY_NAME, "the name is not printable: \"%s\"",
                 kc_quote(p->name, text, sizeof text));
    if (strnlen(p->vendor, sizeof p->vendor) == sizeof p->vendor)
        kc_fault(k, KC_RULE_QUERY_NAME, "the vendor's name is not terminated");
    kc_ok(k, KC_RULE_QUERY_NAME, "%s", "");
}

static void check_kinds(kc_check *k, const kc_checked *p)
{
    char text[48];
    if (!p->kind_count)
        kc_fault(k, KC_RULE_QUERY_KINDS, "it supports no kind");
    for (size_t i = 0; i < p->kind_count; i++) {
        int32_t type = p->kinds[i], like = kc_type_like(k, type);
        if (like <= 0 || like >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT)
            kc_fault(k, KC_RULE_QUERY_KINDS, "%d is the number of no kind", type);
        for (size_t j = 0; j < i; j++)
            if (p->kinds[j] == type)
                kc_fault(k, KC_RULE_QUERY_KINDS, "kind %s is named twice",
                         kc_type_text(k, type, text, sizeof text));
    }
    kc_ok(k, KC_RULE_QUERY_KINDS, "%s", "");
}

/* Room for `name_bytes` and `count` kinds, and not one byte more. */
static void query_small(kc_check *k, const kc_checked *p, size_t name_bytes, size_t count)
{
    KinetoPlugin_ProfilerQuery_Params q = {
        .unpaddedStructSize =
            KINETO_PLUGIN_SIZE(KinetoPlugin_ProfilerQuery_Params, vendorNameMaxLen)};
    char *name = kc_guard_new(name_bytes + 1, "the buffer for the name", false);
    char *vendor = kc_guard_new(name_bytes + 1, "the buffer for the vendor's name", false);
    size_t bytes = count * sizeof(int32_t);
    char *kinds = kc_guard_new(bytes, "the buffer for kinds", false);
    size_t pad = kb_align(name_bytes + 1, 8) - name_bytes - 1;
    memset(name, 'x', pad + name_bytes + 1);
    memset(vendor, 'x', pad + name_bytes + 1);
    q.pProfilerName = name + pad;
    q.profilerNameMaxLen = name_bytes;
    q.pVendorName = vendor + pad;
    q.vendorNameMaxLen = name_bytes;
    q.pSupportedActivityTypes = (int32_t *)(void *)(kinds + kb_align(bytes, 8) - bytes);
    q.supportedActivityTypesMaxLen = count;
    kc_calling(k, "profilerQuery");
    int result = p->functions->profilerQuery(&q);
    kc_calling(k, "");
    bool terminated = memchr(name + pad, 0, name_bytes + 1) != NULL;
    if (result == 0 && !terminated)
        kc_fault(k, KC_RULE_QUERY_SMALL_BUFFERS,
                 "the name is not terminated where profilerNameMaxLen is %zu", name_bytes);
}

static void check_small_buffers(kc_check *k, const kc_checked *p)
{
    static const size_t names[] = {0, 1, 2, 7}, kinds[] = {0, 1, 2};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        query_small(k, p, names[i], KC_MAX_KINDS);
    for (size_t i = 0; i < KB_COUNT(kinds); i++)
        query_small(k, p, sizeof p->name - 1, kinds[i]);
    kc_ok(k, KC_RULE_QUERY_SMALL_BUFFERS, "%s", "");
}

static bool query_first(kc_check *k, kc_checked *p)
{
    kc_at(k, KC_RULE_QUERY_NULL_HANDLE);
    int result = kc_query(k, p);
    if (result)
        kc_fault(k, KC_RULE_QUERY_NULL_HANDLE, "profilerQuery returned %d", result);
    else
        kc_ok(k, KC_RULE_QUERY_NULL_HANDLE, "%s", "");
    return result == 0;
}

void kc_scene_query(kc_check *k)
{
    kc_at(k, KC_RULE_LOAD_REGISTER);
    if (!kc_load(k, KC_SIZE_TODAY, false))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kc_checked *p = &k->profilers[i];
        if (!query_first(k, p))
            continue;
        tell_profiler(k, p);
        check_name(k, p);
        check_kinds(k, p);
        kc_at(k, KC_RULE_QUERY_SMALL_BUFFERS);
        check_small_buffers(k, p);
    }
}

/* ---- what belongs to the program ------------------------------------------------------------------ */

typedef struct belongings {
    void (*handlers[NSIG])(int);
    sigset_t blocked;
    mode_t mask;
    char directory[512];
    uint64_t environment;
} belongings;

static uint64_t environment_hash(void)
{
    uint64_t hash = 0;
    for (char **at = environ; at && *at; at++)
        hash = kb_hash_seeded(hash, *at, strlen(*at) + 1);
    return hash;
}

static void belongings_take(belongings *b)
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
    b->environment = environment_hash();
}

static void belongings_compare(kc_check *k, const belongings *before, const belongings *now)
{
    for (int i = 1; i < NSIG; i++) {
        if (before->handlers[i] != now->handlers[i])
            kc_fault(k, KC_RULE_QUIET_PROCESS, "the handler of signal %d (%s) is another", i,
                     strsignal(i));
        if (i < 32 && sigismember(&before->blocked, i) != sigismember(&now->blocked, i))
            kc_fault(k, KC_RULE_QUIET_PROCESS, "signal %d (%s) is blocked or no longer", i,
                     strsignal(i));
    }
    if (before->mask != now->mask)
        kc_fault(k, KC_RULE_QUIET_PROCESS, "the umask is another");
    if (strcmp(before->directory, now->directory) != 0)
        kc_fault(k, KC_RULE_QUIET_PROCESS, "the working directory is %s", now->directory);
    if (before->environment != now->environment)
        kc_fault(k, KC_RULE_QUIET_PROCESS, "the environment is another");
    kc_ok(k, KC_RULE_QUIET_PROCESS, "%s", "");
}

/* ---- an ordinary session -------------------------------------------------------------------------- */

static void check_again(kc_check *k, const kc_checked *p)
{
    kc_checked again = {.functions = p->functions};
    int result = kc_query(k, &again);
    if (result)
        kc_fault(k, KC_RULE_QUERY_REPEATABLE, "profilerQuery returned %d", result);
    else if (again.kind_count != p->kind_count ||
             memcmp(again.kinds, p->kinds, p->kind_count * sizeof *p->kinds) != 0)
        kc_fault(k, KC_RULE_QUERY_REPEATABLE, "other kinds than before");
    else if (strncmp(again.name, p->name, sizeof p->name) != 0)
        kc_fault(k, KC_RULE_QUERY_REPEATABLE, "another name than before");
    else
        kc_ok(k, KC_RULE_QUERY_REPEATABLE, "%s", "");
}

static bool returned(kc_session *s, const char *call, int result)
{
    char text[200];
    if (result)
        kc_fault(s->k, KC_RULE_LIFE_ORDER, "%s", kc_failure(s, call, result, text, sizeof text));
    return result == 0;
}

static bool push(kc_session *s, bool user, uint64_t id)
{
    if (s->pushed_count < KC_MAX_PUSHED)
        s->pushed[s->pushed_count++] = id;
    return returned(s, user ? "profilerPushUserCorrelationId" : "profilerPushCorrelationId",
                    kc_push(s, user, id));
}

static bool pop(kc_session *s, bool user)
{
    return returned(s, user ? "profilerPopUserCorrelationId" : "profilerPopCorrelationId",
                    kc_pop(s, user));
}

static bool work_inside(kc_session *s)
{
    const uint64_t operator_id = 0x51000001, annotation_id = 0x52000001;
    if (!push(s, true, annotation_id) || !push(s, false, operator_id))
        return false;
    bool worked = kc_exercise(s->k, PIECES / 2);
    if (!push(s, false, operator_id + 1))
        return false;
    if (worked)
        (void)kc_exercise(s->k, PIECES / 2);
    return pop(s, false) && pop(s, false) && pop(s, true);
}

/* The builder is gone: work of the device may not reach it. */
static void work_afterwards(kc_check *k)
{
    kc_at(k, KC_RULE_BUILDER_AFTER_END);
    (void)kc_exercise(k, 4);
    usleep(30000);
    kc_at(k, KC_RULE_LIFE_ORDER);
}

static bool ordinary_session(kc_session *s)
{
    if (!returned(s, "profilerCreate", kc_create(s)))
        return false;
    bool fine = returned(s, "profilerStart", kc_start(s));
    if (fine && !s->handle) {
        kc_fault(s->k, KC_RULE_LIFE_ORDER, "profilerCreate left no handle");
        fine = false;
    }
    if (fine) {
        fine = work_inside(s);
        fine &= returned(s, "profilerStop", kc_stop(s));
        fine &= returned(s, "profilerProcessEvents", kc_process(s));
    }
    fine &= returned(s, "profilerDestroy", kc_destroy(s));
    work_afterwards(s->k);
    return fine;
}

static void tell_session(kc_check *k)
{
    const kc_seen *seen = k->seen;
    if (k->exercise_result)
        kc_ok(k, KC_RULE_LIFE_ORDER, "%s returned %d", KINETO_PLUGIN_EXERCISE_SYMBOL,
              k->exercise_result);
    else
        kc_ok(k, KC_RULE_LIFE_ORDER, "%llu events%s, %llu samples",
              (unsigned long long)seen->event_count, seen->live_count ? " as they happened" : "",
              (unsigned long long)seen->counter_count);
    kc_ok(k, KC_RULE_SIZE_TODAY, "%s", "");
}

void kc_scene_session(kc_check *k)
{
    belongings before, now;
    belongings_take(&before);
    if (!kc_load_and_query(k, KC_SIZE_TODAY, KC_RULE_LIFE_ORDER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kc_session s;
        kc_session_init(&s, k, &k->profilers[i], KC_SIZE_TODAY);
        if (!ordinary_session(&s))
            continue;
        kc_look(&s);
        kc_look_verdicts(k, &s);
        tell_session(k);
        check_again(k, &k->profilers[i]);
    }
    belongings_take(&now);
    belongings_compare(k, &before, &now);
}

/* ---- unusual orders ------------------------------------------------------------------------------- */

void kc_afterwards(kc_check *k, kc_checked *p, kc_rule rule)
{
    kc_session s;
    kc_session_init(&s, k, p, KC_SIZE_TODAY);
    if (kc_whole_session(&s, rule, 8, NULL))
        kc_ok(k, rule, "%s", "");
}

bool kc_begin(kc_check *k, kc_session *s, kc_checked *p, kc_rule rule)
{
    char text[200];
    kc_session_init(s, k, p, KC_SIZE_TODAY);
    int result = kc_create(s);
    if (result)
        kc_fault(k, rule, "%s", kc_failure(s, "profilerCreate", result, text, sizeof text));
    return result == 0;
}

void kc_expect(kc_session *s, kc_rule rule, const char *call, int result)
{
    char text[200];
    if (result)
        kc_fault(s->k, rule, "%s", kc_failure(s, call, result, text, sizeof text));
}

void kc_for_each(kc_check *k, kc_rule rule, void (*run)(kc_check *k, kc_checked *p))
{
    if (!kc_load_and_query(k, KC_SIZE_TODAY, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        snprintf(k->where->profiler, sizeof k->where->profiler, "%.31s", k->profilers[i].name);
        run(k, &k->profilers[i]);
    }
}

static void create_with(kc_check *k, kc_checked *p, const int32_t *kinds, size_t count)
{
    kc_session s;
    kc_session_init(&s, k, p, KC_SIZE_TODAY);
    memcpy(s.kinds, kinds, count * sizeof *kinds);
    s.kind_count = count;
    if (kc_create(&s) == 0)
        kc_expect(&s, KC_RULE_LIFE_CREATE_KINDS, "profilerDestroy", kc_destroy(&s));
}

static void create_kinds(kc_check *k, kc_checked *p)
{
    const int32_t none[] = {0}, unknown[] = {-1, 999, INT32_MAX, INT32_MIN};
    const int32_t padded[] = {p->kinds[0], 0, 0, 0, 0};
    create_with(k, p, none, 0);
    create_with(k, p, none, 1);
    create_with(k, p, unknown, KB_COUNT(unknown));
    create_with(k, p, padded, KB_COUNT(padded));
    kc_afterwards(k, p, KC_RULE_LIFE_CREATE_KINDS);
}

static void start_twice(kc_check *k, kc_checked *p)
{
    const kc_rule rule = KC_RULE_LIFE_START_TWICE;
    kc_session s;
    if (!kc_begin(k, &s, p, rule))
        return;
    kc_expect(&s, rule, "profilerStart", kc_start(&s));
    int again = kc_start(&s);
    (void)kc_exercise(k, 8);
    kc_expect(&s, rule, "after a second start, profilerStop", kc_stop(&s));
    kc_expect(&s, rule, "after a second start, profilerProcessEvents", kc_process(&s));
    kc_expect(&s, rule, "after a second start, profilerDestroy", kc_destroy(&s));
    kc_afterwards(k, p, rule);
    kc_ok(k, rule, "%s", again ? "refused" : "ignored");
}

static void stop_unstarted(kc_check *k, kc_checked *p)
{
    const kc_rule rule = KC_RULE_LIFE_STOP_UNSTARTED;
    kc_session s;
    if (!kc_begin(k, &s, p, rule))
        return;
    int result = kc_stop(&s);
    kc_expect(&s, rule, "after a stop without start, profilerDestroy", kc_destroy(&s));
    kc_afterwards(k, p, rule);
    kc_ok(k, rule, "%s", result ? "refused" : "ignored");
}

static void process_before_stop(kc_check *k, kc_checked *p)
{
    const kc_rule rule = KC_RULE_LIFE_PROCESS_BEFORE_STOP;
    kc_session s;
    if (!kc_begin(k, &s, p, rule))
        return;
    kc_expect(&s, rule, "profilerStart", kc_start(&s));
    bool worked = kc_exercise(k, 16);
    int early = kc_process(&s);
    worked = worked && kc_exercise(k, 16);
    if (early && k->seen->live_count)
        kc_fault(k, rule, "it delivers as things happen, but processEvents returned %d", early);
    kc_expect(&s, rule, "after an early processEvents, profilerStop", kc_stop(&s));
    kc_expect(&s, rule, "after an early processEvents, profilerProcessEvents", kc_process(&s));
    kc_expect(&s, rule, "after an early processEvents, profilerDestroy", kc_destroy(&s));
    kc_look(&s);
    uint64_t events = k->seen->event_count, twice = kc_look_twice(k);
    if (twice && twice * 4 >= events)
        kc_fault(k, rule, "%llu of %llu events were delivered twice", (unsigned long long)twice,
                 (unsigned long long)events);
    kc_ok(k, rule, "%s%s", early ? "refused" : "", worked ? "" : "nothing to deliver");
}

static void destroy_only(kc_check *k, kc_checked *p)
{
    for (int i = 0; i < 2; i++) {
        kc_session s;
        if (!kc_begin(k, &s, p, KC_RULE_LIFE_DESTROY_ONLY))
            return;
        kc_expect(&s, KC_RULE_LIFE_DESTROY_ONLY, "profilerDestroy", kc_destroy(&s));
    }
    kc_afterwards(k, p, KC_RULE_LIFE_DESTROY_ONLY);
}

static void restart(kc_check *k, kc_checked *p)
{
    uint64_t first = 0, events = 0;
    for (int i = 0; i < 4; i++) {
        kc_session s;
        kc_session_init(&s, k, p, KC_SIZE_TODAY);
        if (!kc_whole_session(&s, KC_RULE_LIFE_RESTART, 16, &events))
            return;
        first = i ? first : events;
        if (first && !events)
            kc_fault(k, KC_RULE_LIFE_RESTART,
                     "session %d delivers nothing, the first had %llu events", i + 1,
                     (unsigned long long)first);
    }
    kc_ok(k, KC_RULE_LIFE_RESTART, "%s", first ? "" : "no events in any session");
}

void kc_scene_create_kinds(kc_check *k) { kc_for_each(k, KC_RULE_LIFE_CREATE_KINDS, create_kinds); }
void kc_scene_start_twice(kc_check *k) { kc_for_each(k, KC_RULE_LIFE_START_TWICE, start_twice); }
void kc_scene_stop_unstarted(kc_check *k)
{
    kc_for_each(k, KC_RULE_LIFE_STOP_UNSTARTED, stop_unstarted);
}
void kc_scene_process_before_stop(kc_check *k)
{
    kc_for_each(k, KC_RULE_LIFE_PROCESS_BEFORE_STOP, process_before_stop);
}
void kc_scene_destroy_only(kc_check *k) { kc_for_each(k, KC_RULE_LIFE_DESTROY_ONLY, destroy_only); }
void kc_scene_restart(kc_check *k) { kc_for_each(k, KC_RULE_LIFE_RESTART, restart); }
