/* Scenarios: loading, asking, an ordinary session, and calls in unusual orders. */
#include "plugincheck/check.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

#define PIECES 64u /* of work in an ordinary session */

/* ---- load and query ----------------------------------------------------------------------------- */

void kv_scene_load(kv_check *k)
{
    kv_at(k, KV_RULE_LOAD_OPENS);
    if (kv_load(k, KV_SIZE_TODAY, true))
        kv_ok(k, KV_RULE_LOAD_REGISTER, "%s", "");
}

static void tell_profiler(kv_check *k, const kv_checked *p)
{
    char kinds[160] = "", one[48];
    size_t used = 0;
    for (size_t i = 0; i < p->kind_count && used < sizeof kinds; i++)
        used += (size_t)snprintf(kinds + used, sizeof kinds - used, "%s%s", i ? ", " : "",
                                 kv_type_text(k, p->kinds[i], one, sizeof one));
    kv_tell(k, KV_WORD_PROFILER, "%.31s\t%.31s\t%s", p->name, p->vendor, kinds);
}

static void check_name(kv_check *k, const kv_checked *p)
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

static void check_kinds(kv_check *k, const kv_checked *p)
{
    char text[48];
    if (!p->kind_count)
        kv_fault(k, KV_RULE_QUERY_KINDS, "it supports no kind");
    for (size_t i = 0; i < p->kind_count; i++) {
        int32_t type = p->kinds[i], like = kv_type_like(k, type);
        if (like <= 0 || like >= KINETO_PLUGIN_PROFILE_EVENT_TYPE_COUNT)
            kv_fault(k, KV_RULE_QUERY_KINDS, "%d is the number of no kind", type);
        for (size_t j = 0; j < i; j++)
            if (p->kinds[j] == type)
                kv_fault(k, KV_RULE_QUERY_KINDS, "kind %s is named twice",
                         kv_type_text(k, type, text, sizeof text));
    }
    kv_ok(k, KV_RULE_QUERY_KINDS, "%s", "");
}

/* Room for `name_bytes` and `count` kinds, and not one byte more. */
static void query_small(kv_check *k, const kv_checked *p, size_t name_bytes, size_t count)
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
    kv_calling(k, "profilerQuery");
    int result = p->functions->profilerQuery(&q);
    kv_calling(k, "");
    bool terminated = memchr(name + pad, 0, name_bytes + 1) != NULL;
    if (result == 0 && !terminated)
        kv_fault(k, KV_RULE_QUERY_SMALL_BUFFERS,
                 "the name is not terminated where profilerNameMaxLen is %zu", name_bytes);
}

static void check_small_buffers(kv_check *k, const kv_checked *p)
{
    static const size_t names[] = {0, 1, 2, 7}, kinds[] = {0, 1, 2};
    for (size_t i = 0; i < KB_COUNT(names); i++)
        query_small(k, p, names[i], KV_MAX_KINDS);
    for (size_t i = 0; i < KB_COUNT(kinds); i++)
        query_small(k, p, sizeof p->name - 1, kinds[i]);
    kv_ok(k, KV_RULE_QUERY_SMALL_BUFFERS, "%s", "");
}

static bool query_first(kv_check *k, kv_checked *p)
{
    kv_at(k, KV_RULE_QUERY_NULL_HANDLE);
    int result = kv_query(k, p);
    if (result)
        kv_fault(k, KV_RULE_QUERY_NULL_HANDLE, "profilerQuery returned %d", result);
    else
        kv_ok(k, KV_RULE_QUERY_NULL_HANDLE, "%s", "");
    return result == 0;
}

void kv_scene_query(kv_check *k)
{
    kv_at(k, KV_RULE_LOAD_REGISTER);
    if (!kv_load(k, KV_SIZE_TODAY, false))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kv_checked *p = &k->profilers[i];
        if (!query_first(k, p))
            continue;
        tell_profiler(k, p);
        check_name(k, p);
        check_kinds(k, p);
        kv_at(k, KV_RULE_QUERY_SMALL_BUFFERS);
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

static void belongings_compare(kv_check *k, const belongings *before, const belongings *now)
{
    for (int i = 1; i < NSIG; i++) {
        if (before->handlers[i] != now->handlers[i])
            kv_fault(k, KV_RULE_QUIET_PROCESS, "the handler of signal %d (%s) is another", i,
                     strsignal(i));
        if (i < 32 && sigismember(&before->blocked, i) != sigismember(&now->blocked, i))
            kv_fault(k, KV_RULE_QUIET_PROCESS, "signal %d (%s) is blocked or no longer", i,
                     strsignal(i));
    }
    if (before->mask != now->mask)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the umask is another");
    if (strcmp(before->directory, now->directory) != 0)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the working directory is %s", now->directory);
    if (before->environment != now->environment)
        kv_fault(k, KV_RULE_QUIET_PROCESS, "the environment is another");
    kv_ok(k, KV_RULE_QUIET_PROCESS, "%s", "");
}

/* ---- an ordinary session -------------------------------------------------------------------------- */

static void check_again(kv_check *k, const kv_checked *p)
{
    kv_checked again = {.functions = p->functions};
    int result = kv_query(k, &again);
    if (result)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "profilerQuery returned %d", result);
    else if (again.kind_count != p->kind_count ||
             memcmp(again.kinds, p->kinds, p->kind_count * sizeof *p->kinds) != 0)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "other kinds than before");
    else if (strncmp(again.name, p->name, sizeof p->name) != 0)
        kv_fault(k, KV_RULE_QUERY_REPEATABLE, "another name than before");
    else
        kv_ok(k, KV_RULE_QUERY_REPEATABLE, "%s", "");
}

static bool returned(kv_session *s, const char *call, int result)
{
    char text[200];
    if (result)
        kv_fault(s->k, KV_RULE_LIFE_ORDER, "%s", kv_failure(s, call, result, text, sizeof text));
    return result == 0;
}

static bool push(kv_session *s, bool user, uint64_t id)
{
    if (s->pushed_count < KV_MAX_PUSHED)
        s->pushed[s->pushed_count++] = id;
    return returned(s, user ? "profilerPushUserCorrelationId" : "profilerPushCorrelationId",
                    kv_push(s, user, id));
}

static bool pop(kv_session *s, bool user)
{
    return returned(s, user ? "profilerPopUserCorrelationId" : "profilerPopCorrelationId",
                    kv_pop(s, user));
}

static bool work_inside(kv_session *s)
{
    const uint64_t operator_id = 0x51000001, annotation_id = 0x52000001;
    if (!push(s, true, annotation_id) || !push(s, false, operator_id))
        return false;
    bool worked = kv_exercise(s->k, PIECES / 2);
    if (!push(s, false, operator_id + 1))
        return false;
    if (worked)
        (void)kv_exercise(s->k, PIECES / 2);
    return pop(s, false) && pop(s, false) && pop(s, true);
}

/* The builder is gone: work of the device may not reach it. */
static void work_afterwards(kv_check *k)
{
    kv_at(k, KV_RULE_BUILDER_AFTER_END);
    (void)kv_exercise(k, 4);
    usleep(30000);
    kv_at(k, KV_RULE_LIFE_ORDER);
}

static bool ordinary_session(kv_session *s)
{
    if (!returned(s, "profilerCreate", kv_create(s)))
        return false;
    bool fine = returned(s, "profilerStart", kv_start(s));
    if (fine && !s->handle) {
        kv_fault(s->k, KV_RULE_LIFE_ORDER, "profilerCreate left no handle");
        fine = false;
    }
    if (fine) {
        fine = work_inside(s);
        fine &= returned(s, "profilerStop", kv_stop(s));
        fine &= returned(s, "profilerProcessEvents", kv_process(s));
    }
    fine &= returned(s, "profilerDestroy", kv_destroy(s));
    work_afterwards(s->k);
    return fine;
}

static void tell_session(kv_check *k)
{
    const kv_seen *seen = k->seen;
    if (k->exercise_result)
        kv_ok(k, KV_RULE_LIFE_ORDER, "%s returned %d", KINETO_PLUGIN_EXERCISE_SYMBOL,
              k->exercise_result);
    else
        kv_ok(k, KV_RULE_LIFE_ORDER, "%llu events%s, %llu samples",
              (unsigned long long)seen->event_count, seen->live_count ? " as they happened" : "",
              (unsigned long long)seen->counter_count);
    kv_ok(k, KV_RULE_SIZE_TODAY, "%s", "");
}

void kv_scene_session(kv_check *k)
{
    belongings before, now;
    belongings_take(&before);
    if (!kv_load_and_query(k, KV_SIZE_TODAY, KV_RULE_LIFE_ORDER))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        kv_session s;
        kv_session_init(&s, k, &k->profilers[i], KV_SIZE_TODAY);
        if (!ordinary_session(&s))
            continue;
        kv_look(&s);
        kv_look_verdicts(k, &s);
        tell_session(k);
        check_again(k, &k->profilers[i]);
    }
    belongings_take(&now);
    belongings_compare(k, &before, &now);
}

/* ---- unusual orders ------------------------------------------------------------------------------- */

void kv_afterwards(kv_check *k, kv_checked *p, kv_rule rule)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    if (kv_whole_session(&s, rule, 8, NULL))
        kv_ok(k, rule, "%s", "");
}

bool kv_begin(kv_check *k, kv_session *s, kv_checked *p, kv_rule rule)
{
    char text[200];
    kv_session_init(s, k, p, KV_SIZE_TODAY);
    int result = kv_create(s);
    if (result)
        kv_fault(k, rule, "%s", kv_failure(s, "profilerCreate", result, text, sizeof text));
    return result == 0;
}

void kv_expect(kv_session *s, kv_rule rule, const char *call, int result)
{
    char text[200];
    if (result)
        kv_fault(s->k, rule, "%s", kv_failure(s, call, result, text, sizeof text));
}

void kv_for_each(kv_check *k, kv_rule rule, void (*run)(kv_check *k, kv_checked *p))
{
    if (!kv_load_and_query(k, KV_SIZE_TODAY, rule))
        return;
    for (size_t i = 0; i < k->profiler_count; i++) {
        snprintf(k->where->profiler, sizeof k->where->profiler, "%.31s", k->profilers[i].name);
        run(k, &k->profilers[i]);
    }
}

static void create_with(kv_check *k, kv_checked *p, const int32_t *kinds, size_t count)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    memcpy(s.kinds, kinds, count * sizeof *kinds);
    s.kind_count = count;
    if (kv_create(&s) == 0)
        kv_expect(&s, KV_RULE_LIFE_CREATE_KINDS, "profilerDestroy", kv_destroy(&s));
}

static void create_kinds(kv_check *k, kv_checked *p)
{
    const int32_t none[] = {0}, unknown[] = {-1, 999, INT32_MAX, INT32_MIN};
    const int32_t padded[] = {p->kinds[0], 0, 0, 0, 0};
    create_with(k, p, none, 0);
    create_with(k, p, none, 1);
    create_with(k, p, unknown, KB_COUNT(unknown));
    create_with(k, p, padded, KB_COUNT(padded));
    kv_afterwards(k, p, KV_RULE_LIFE_CREATE_KINDS);
}

static void start_twice(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_LIFE_START_TWICE;
    kv_session s;
    if (!kv_begin(k, &s, p, rule))
        return;
    kv_expect(&s, rule, "profilerStart", kv_start(&s));
    int again = kv_start(&s);
    (void)kv_exercise(k, 8);
    kv_expect(&s, rule, "after a second start, profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "after a second start, profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "after a second start, profilerDestroy", kv_destroy(&s));
    kv_afterwards(k, p, rule);
    kv_ok(k, rule, "%s", again ? "refused" : "ignored");
}

static void stop_unstarted(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_LIFE_STOP_UNSTARTED;
    kv_session s;
    if (!kv_begin(k, &s, p, rule))
        return;
    int result = kv_stop(&s);
    kv_expect(&s, rule, "after a stop without start, profilerDestroy", kv_destroy(&s));
    kv_afterwards(k, p, rule);
    kv_ok(k, rule, "%s", result ? "refused" : "ignored");
}

static void process_before_stop(kv_check *k, kv_checked *p)
{
    const kv_rule rule = KV_RULE_LIFE_PROCESS_BEFORE_STOP;
    kv_session s;
    if (!kv_begin(k, &s, p, rule))
        return;
    kv_expect(&s, rule, "profilerStart", kv_start(&s));
    bool worked = kv_exercise(k, 16);
    int early = kv_process(&s);
    worked = worked && kv_exercise(k, 16);
    if (early && k->seen->live_count)
        kv_fault(k, rule, "it delivers as things happen, but processEvents returned %d", early);
    kv_expect(&s, rule, "after an early processEvents, profilerStop", kv_stop(&s));
    kv_expect(&s, rule, "after an early processEvents, profilerProcessEvents", kv_process(&s));
    kv_expect(&s, rule, "after an early processEvents, profilerDestroy", kv_destroy(&s));
    kv_look(&s);
    uint64_t events = k->seen->event_count, twice = kv_look_twice(k);
    if (twice && twice * 4 >= events)
        kv_fault(k, rule, "%llu of %llu events were delivered twice", (unsigned long long)twice,
                 (unsigned long long)events);
    kv_ok(k, rule, "%s%s", early ? "refused" : "", worked ? "" : "nothing to deliver");
}

static void destroy_only(kv_check *k, kv_checked *p)
{
    for (int i = 0; i < 2; i++) {
        kv_session s;
        if (!kv_begin(k, &s, p, KV_RULE_LIFE_DESTROY_ONLY))
            return;
        kv_expect(&s, KV_RULE_LIFE_DESTROY_ONLY, "profilerDestroy", kv_destroy(&s));
    }
    kv_afterwards(k, p, KV_RULE_LIFE_DESTROY_ONLY);
}

static void restart(kv_check *k, kv_checked *p)
{
    uint64_t first = 0, events = 0;
    for (int i = 0; i < 4; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_SIZE_TODAY);
        if (!kv_whole_session(&s, KV_RULE_LIFE_RESTART, 16, &events))
            return;
        first = i ? first : events;
        if (first && !events)
            kv_fault(k, KV_RULE_LIFE_RESTART,
                     "session %d delivers nothing, the first had %llu events", i + 1,
                     (unsigned long long)first);
    }
    kv_ok(k, KV_RULE_LIFE_RESTART, "%s", first ? "" : "no events in any session");
}

void kv_scene_create_kinds(kv_check *k) { kv_for_each(k, KV_RULE_LIFE_CREATE_KINDS, create_kinds); }
void kv_scene_start_twice(kv_check *k) { kv_for_each(k, KV_RULE_LIFE_START_TWICE, start_twice); }
void kv_scene_stop_unstarted(kv_check *k)
{
    kv_for_each(k, KV_RULE_LIFE_STOP_UNSTARTED, stop_unstarted);
}
void kv_scene_process_before_stop(kv_check *k)
{
    kv_for_each(k, KV_RULE_LIFE_PROCESS_BEFORE_STOP, process_before_stop);
}
void kv_scene_destroy_only(kv_check *k) { kv_for_each(k, KV_RULE_LIFE_DESTROY_ONLY, destroy_only); }
void kv_scene_restart(kv_check *k) { kv_for_each(k, KV_RULE_LIFE_RESTART, restart); }
