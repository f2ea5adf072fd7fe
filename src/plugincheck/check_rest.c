/* Scenarios: what stays behind, closing the library, and what it costs. */
#include "plugincheck/check.h"

#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <time.h>
#include <unistd.h>

/* ---- what stays behind ---------------------------------------------------------------------------- */

#define WARM_SESSIONS 6u
#define SESSIONS      10u

/* A sanitizer that took over malloc knows; in other programs there is no such function. */
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

static uint64_t heap_bytes(void)
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

static uint64_t count_entries(const char *directory)
{
    uint64_t count = 0;
    DIR *dir = opendir(directory);
    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* Threads that were joined may still be there for a moment. */
static uint64_t count_threads(uint64_t wanted)
{
    uint64_t count = count_entries("/proc/self/task");
    for (int i = 0; i < 50 && count > wanted; i++) {
        usleep(2000);
        count = count_entries("/proc/self/task");
    }
    return count;
}

typedef struct levels {
    uint64_t heap[SESSIONS + 1], fds[SESSIONS + 1], threads[SESSIONS + 1];
} levels;

static void levels_take(levels *l, unsigned i)
{
    l->threads[i] = count_threads(i ? l->threads[i - 1] : 0);
    l->fds[i] = count_entries("/proc/self/fd");
    l->heap[i] = heap_bytes();
}

static void check_growth(kv_check *k, kv_rule rule, const uint64_t *level, const char *what)
{
    bool always = true;
    for (unsigned i = 0; i < SESSIONS; i++)
        always = always && level[i + 1] > level[i];
    if (always)
        kv_fault(k, rule, "%llu %s more after each session",
                 (unsigned long long)(level[SESSIONS] - level[0]) / SESSIONS, what);
    kv_ok(k, rule, "%s", "");
}

static void leaks(kv_check *k, kv_checked *p)
{
    levels l;
    for (unsigned i = 0; i < WARM_SESSIONS + SESSIONS; i++) {
        kv_session s;
        if (i == WARM_SESSIONS)
            levels_take(&l, 0);
        kv_session_init(&s, k, p, KV_SIZE_TODAY);
        if (!kv_whole_session(&s, KV_RULE_LEAK_MEMORY, 16, NULL))
            return;
        if (i >= WARM_SESSIONS)
            levels_take(&l, i - WARM_SESSIONS + 1);
    }
    if (l.heap[0])
        check_growth(k, KV_RULE_LEAK_MEMORY, l.heap, "bytes");
    else
        kv_untested(k, KV_RULE_LEAK_MEMORY, "the C library does not tell how much is allocated");
    check_growth(k, KV_RULE_LEAK_FDS, l.fds, "open files");
    check_growth(k, KV_RULE_LEAK_THREADS, l.threads, "threads");
}

void kv_scene_leaks(kv_check *k) { kv_for_each(k, KV_RULE_LEAK_MEMORY, leaks); }

/* ---- closing -------------------------------------------------------------------------------------- */

static void one_session(kv_check *k, kv_checked *p)
{
    kv_session s;
    kv_session_init(&s, k, p, KV_SIZE_TODAY);
    (void)kv_whole_session(&s, KV_RULE_UNLOAD_CLEAN, 16, NULL);
}

#if defined(__SANITIZE_ADDRESS__)
#define CAN_EXIT 0 /* the leak checker would speak of what we leave to the kernel */
#else
#define CAN_EXIT 1
#endif

void kv_scene_unload(kv_check *k)
{
    kv_for_each(k, KV_RULE_UNLOAD_CLEAN, one_session);
    if (!k->library)
        return;
    k->where->profiler[0] = 0;
    kv_calling(k, "dlclose");
    if (dlclose(k->library))
        kv_fault(k, KV_RULE_UNLOAD_CLEAN, "%.200s", dlerror());
    kv_calling(k, "a thread of the library that was closed");
    usleep(30000);
    bool stays = dlopen(k->path, RTLD_LAZY | RTLD_NOLOAD) != NULL;
    kv_ok(k, KV_RULE_UNLOAD_CLEAN, "%s", stays ? "it stays loaded" : "");
    kv_calling(k, "an exit handler");
    if (CAN_EXIT) {
        kv_tell(k, KV_WORD_DONE, "%s", "");
        exit(0);
    }
}

/* ---- costs ---------------------------------------------------------------------------------------- */

#define TIMES       9u
#define COST_PIECES 500u
#define PAIRS       20000u

static double median(double *numbers, size_t count)
{
    qsort(numbers, count, sizeof *numbers, kb_compare_doubles);
    return count ? numbers[count / 2] : 0;
}

typedef struct costs {
    double start[TIMES], stop[TIMES], pair[TIMES], process[TIMES];
    size_t count, processed;
} costs;

static double time_pairs(kv_session *s)
{
    uint64_t from = kb_clock_ns(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < PAIRS; i++) {
        (void)kv_push(s, false, i + 1);
        (void)kv_pop(s, false);
    }
    return (double)(kb_clock_ns(CLOCK_MONOTONIC) - from) / PAIRS;
}

static bool measure(kv_session *s, costs *c)
{
    size_t i = c->count;
    if (kv_create(s))
        return false;
    bool fine = kv_start(s) == 0;
    c->start[i] = (double)s->spent_ns;
    if (fine) {
        c->pair[i] = time_pairs(s);
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

static void tell_costs(kv_check *k, const kv_checked *p, costs *c)
{
    kv_measured(k, KV_RULE_COST_START, median(c->start, c->count), "for start");
    kv_measured(k, KV_RULE_COST_STOP, median(c->stop, c->count), "for stop");
    if (p->functions->profilerPushCorrelationId && p->functions->profilerPopCorrelationId)
        kv_measured(k, KV_RULE_COST_PUSH_POP, median(c->pair, c->count), "for push and pop");
    else
        kv_untested(k, KV_RULE_COST_PUSH_POP, "it has no push and pop");
    if (c->processed)
        kv_measured(k, KV_RULE_COST_PROCESS, median(c->process, c->processed),
                    "of processEvents for an event");
    else
        kv_untested(k, KV_RULE_COST_PROCESS, "%s",
                    k->exercise ? "events are not delivered there" : kv_why_no_events(k));
}

static void measure_costs(kv_check *k, kv_checked *p)
{
    costs c = {.count = 0};
    for (size_t i = 0; i < TIMES; i++) {
        kv_session s;
        kv_session_init(&s, k, p, KV_SIZE_TODAY);
        s.quick = true;
        if (!measure(&s, &c))
            break;
    }
    if (c.count)
        tell_costs(k, p, &c);
}

void kv_scene_costs(kv_check *k) { kv_for_each(k, KV_RULE_COST_START, measure_costs); }
