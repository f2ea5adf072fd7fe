/* Scenarios of resources: growth of memory, files and threads over many sessions, unloading the
 * library, and costs of calls. Warm-up sessions come first, so that caches of libraries are not
 * mistaken for leaks. */
#include "plugincheck/check_scenarios.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

/* ---- growth ---------------------------------------------------------------------------------- */

#define WARM_UP_SESSIONS  6u
#define MEASURED_SESSIONS 10u

/* Defined by sanitizers that replace malloc; absent in other programs. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

/* 0: unknown. */
static uint64_t read_heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes)
        return __sanitizer_get_current_allocated_bytes();
#if defined(__GLIBC__) && defined(__GLIBC_PREREQ)
#if __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
#endif
#endif
    return 0;
}

/* Including "." and "..", which does not matter for growth. */
static uint64_t count_directory_entries(const char *directory)
{
    uint64_t count = 0;
    DIR *dir = opendir(directory);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Threads that were joined may be listed for a moment: wait up to 100 ms for `wanted`. */
static uint64_t count_settled_threads(uint64_t wanted)
{
    uint64_t count = count_directory_entries("/proc/self/task");
    for (int i = 0; i < 50 && count > wanted; i++) {
        usleep(2000);
        count = count_directory_entries("/proc/self/task");
    }
    return count;
}

typedef struct resource_levels {
    uint64_t heap[MEASURED_SESSIONS + 1], fds[MEASURED_SESSIONS + 1],
        threads[MEASURED_SESSIONS + 1];
} resource_levels;

static void read_resource_levels(resource_levels *l, unsigned i)
{
    l->threads[i] = count_settled_threads(i ? l->threads[i - 1] : 0);
    l->fds[i] = count_directory_entries("/proc/self/fd");
    l->heap[i] = read_heap_bytes();
}

/* A leak is growth after every single session; caches that grow now and then are not. */
static void check_steady_growth(kv_check *k, kv_rule rule, const uint64_t *level, const char *what)
{
    bool always = true;
    for (unsigned i = 0; i < MEASURED_SESSIONS; i++)
        always = always && level[i + 1] > level[i];
    if (always)
        kv_fault(k, rule, "%llu %s more after each session",
                 (unsigned long long)(level[MEASURED_SESSIONS] - level[0]) / MEASURED_SESSIONS,
                 what);
    kv_ok(k, rule, "%s", "");
}

/* After warm-up sessions, which fill caches. */
static void measure_growth(kv_check *k, kv_profiler *p)
{
    resource_levels l;
    for (unsigned i = 0; i < WARM_UP_SESSIONS + MEASURED_SESSIONS; i++) {
        kv_session s;
        if (i == WARM_UP_SESSIONS)
            read_resource_levels(&l, 0);
        kv_session_init(&s, k, p, KV_HOST_TODAY);
        if (!kv_run_session(&s, KV_RULE_LEAK_MEMORY, 16, NULL))
            return;
        if (i >= WARM_UP_SESSIONS)
            read_resource_levels(&l, i - WARM_UP_SESSIONS + 1);
    }
    if (l.heap[0])
        check_steady_growth(k, KV_RULE_LEAK_MEMORY, l.heap, "bytes");
    else
        kv_untested(k, KV_RULE_LEAK_MEMORY, "the C library does not report allocated bytes");
    check_steady_growth(k, KV_RULE_LEAK_FDS, l.fds, "open files");
    check_steady_growth(k, KV_RULE_LEAK_THREADS, l.threads, "threads");
}

void kv_scene_leaks(kv_check *k) { kv_for_each_profiler(k, KV_RULE_LEAK_MEMORY, measure_growth); }

/* ---- closing --------------------------------------------------------------------------------- */

static void run_session_before_unload(kv_check *k, kv_profiler *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_HOST_TODAY);
    (void)kv_run_session(&s, KV_RULE_UNLOAD_CLEAN, 16, NULL);
}

#if defined(__SANITIZE_ADDRESS__)
#define CAN_EXIT 0 /* the leak checker would report memory that we leave to the kernel */
#else
#define CAN_EXIT 1
#endif

/* Close the library, wait for threads that it should have ended, then exit the process, so that
 * exit handlers of the library run. A note announces the exit. */
void kv_scene_unload(kv_check *k)
{
    kv_for_each_profiler(k, KV_RULE_UNLOAD_CLEAN, run_session_before_unload);
    if (!k->library)
        return;
    k->site->profiler[0] = 0;
    kv_set_call(k, "dlclose");
    if (dlclose(k->library))
        kv_fault(k, KV_RULE_UNLOAD_CLEAN, "%.200s", dlerror());
    kv_set_call(k, "a thread of the library that was closed");
    usleep(30000);
    bool stays = dlopen(k->path, RTLD_LAZY | RTLD_NOLOAD) != NULL;
    kv_ok(k, KV_RULE_UNLOAD_CLEAN, "%s", stays ? "it stays loaded" : "");
    kv_set_call(k, "an exit handler");
    if (CAN_EXIT) {
        kv_send_note(k, KV_NOTE_DONE, "%s", "");
        exit(0);
    }
}

/* ---- costs ----------------------------------------------------------------------------------- */

#define COST_SESSIONS  9u
#define COST_PIECES    500u
#define PUSH_POP_PAIRS 20000u

static double median_of(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, kb_compare_doubles);
    return count ? numbers[count / 2] : 0;
}

typedef struct costs {
    double start[COST_SESSIONS], stop[COST_SESSIONS], pair[COST_SESSIONS], process[COST_SESSIONS];
    size_t count, processed;
} costs;

/* Nanoseconds for one push and its pop. */
static double time_push_and_pop(kv_session *s)
{
    uint64_t from = kb_monotonic_ns();
    for (uint64_t i = 0; i < PUSH_POP_PAIRS; i++) {
        (void)kv_push(s, false, i + 1);
        (void)kv_pop(s, false);
    }
    return (double)(kb_monotonic_ns() - from) / PUSH_POP_PAIRS;
}

/* Costs of one session. False: a call failed. */
static bool measure_session(kv_session *s, costs *c)
{
    size_t i = c->count;
    KB_ASSERT(i < COST_SESSIONS);
    if (kv_create(s))
        return false;
    bool fine = kv_start(s) == 0;
    c->start[i] = (double)s->spent_ns;
    if (fine) {
        c->pair[i] = time_push_and_pop(s);
        (void)kv_exercise(s->k, COST_PIECES);
        uint64_t before;
        fine = kv_stop(s) == 0;
        c->stop[i] = (double)s->spent_ns;
        before = s->k->seen->event_count;
        fine = fine && kv_process(s) == 0;
        uint64_t events = s->k->seen->event_count - before;
        if (fine && events)
            c->process[c->processed++] = (double)s->spent_ns / (double)events;
        c->count += fine;
    }
    return kv_destroy(s) == 0 && fine;
}

/* Medians of the measured sessions. */
static void report_costs(kv_check *k, const kv_profiler *p, costs *c)
{
    kv_measured(k, KV_RULE_COST_START, median_of(c->start, c->count), "for start");
    kv_measured(k, KV_RULE_COST_STOP, median_of(c->stop, c->count), "for stop");
    if (p->functions->profilerPushCorrelationId && p->functions->profilerPopCorrelationId)
        kv_measured(k, KV_RULE_COST_PUSH_POP, median_of(c->pair, c->count), "for push and pop");
    else
        kv_untested(k, KV_RULE_COST_PUSH_POP, "it has no push and pop");
    if (c->processed)
        kv_measured(k, KV_RULE_COST_PROCESS, median_of(c->process, c->processed),
                    "of processEvents for an event");
    else
        kv_untested(k, KV_RULE_COST_PROCESS, "%s",
                    k->exercise ? "events are not delivered in processEvents"
                                : kv_why_no_events(k));
}

/* Events are only counted in these sessions, so that the checks do not distort the times. */
static void measure_costs(kv_check *k, kv_profiler *p)
{
    costs c = {.count = 0};
    for (size_t i = 0; i < COST_SESSIONS; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_HOST_TODAY);
        s.quick = true;
        if (!measure_session(&s, &c))
            break;
    }
    if (c.count)
        report_costs(k, p, &c);
}

void kv_scene_costs(kv_check *k) { kv_for_each_profiler(k, KV_RULE_COST_START, measure_costs); }
