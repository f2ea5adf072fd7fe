/* Scenarios: what stays behind, closing the library, and what it costs. */
#include "cli/check.h"

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

static void check_growth(kc_check *k, kc_rule rule, const uint64_t *level, const char *what)
{
    bool always = true;
    for (unsigned i = 0; i < SESSIONS; i++)
        always = always && level[i + 1] > level[i];
    if (always)
        kc_fault(k, rule, "%llu %s more after each session",
                 (unsigned long long)(level[SESSIONS] - level[0]) / SESSIONS, what);
    kc_ok(k, rule, "%s", "");
}

static void leaks(kc_check *k, kc_checked *p)
{
    levels l;
    for (unsigned i = 0; i < WARM_SESSIONS + SESSIONS; i++) {
        kc_session s;
        if (i == WARM_SESSIONS)
            levels_take(&l, 0);
        kc_session_init(&s, k, p, KC_SIZE_TODAY);
        if (!kc_whole_session(&s, KC_RULE_LEAK_MEMORY, 16, NULL))
            return;
        if (i >= WARM_SESSIONS)
            levels_take(&l, i - WARM_SESSIONS + 1);
    }
    if (l.heap[0])
        check_growth(k, KC_RULE_LEAK_MEMORY, l.heap, "bytes");
    else
        kc_untested(k, KC_RULE_LEAK_MEMORY, "the C library does not tell how much is allocated");
    check_growth(k, KC_RULE_LEAK_FDS, l.fds, "open files");
    check_growth(k, KC_RULE_LEAK_THREADS, l.threads, "threads");
}

void kc_scene_leaks(kc_check *k) { kc_for_each(k, KC_RULE_LEAK_MEMORY, leaks); }

/* ---- closing -------------------------------------------------------------------------------------- */

static void one_session(kc_check *k, kc_checked *p)
{
    kc_session s;
    kc_session_init(&s, k, p, KC_SIZE_TODAY);
    (void)kc_whole_session(&s, KC_RULE_UNLOAD_CLEAN, 16, NULL);
}

#if defined(__SANITIZE_ADDRESS__)
#define CAN_EXIT 0 /* the leak checker would speak of what we leave to the kernel */
#else
#define CAN_EXIT 1
#endif

void kc_scene_unload(kc_check *k)
{
    kc_for_each(k, KC_RULE_UNLOAD_CLEAN, one_session);
    if (!k->library)
        return;
    k->where->profiler[0] = 0;
    kc_calling(k, "dlclose");
    if (dlclose(k->library))
        kc_fault(k, KC_RULE_UNLOAD_CLEAN, "%.200s", dlerror());
    kc_calling(k, "a thread of the library that was closed");
    usleep(30000);
    bool stays = dlopen(k->path, RTLD_LAZY | RTLD_NOLOAD) != NULL;
    kc_ok(k, KC_RULE_UNLOAD_CLEAN, "%s", stays ? "it stays loaded" : "");
    kc_calling(k, "an exit handler");
    if (CAN_EXIT) {
        kc_tell(k, KC_WORD_DONE, "%s", "");
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

static double time_pairs(kc_session *s)
{
    uint64_t from = kb_clock_ns(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < PAIRS; i++) {
        (void)kc_push(s, false, i + 1);
        (void)kc_pop(s, false);
    }
    return (double)(kb_clock_ns(CLOCK_MONOTONIC) - from) / PAIRS;
}

static bool measure(kc_session *s, costs *c)
{
    size_t i = c->count;
    if (kc_create(s))
        return false;
    bool fine = kc_start(s) == 0;
    c->start[i] = (double)s->spent_ns;
    if (fine) {
        c->pair[i] = time_pairs(s);
        (void)kc_exercise(s->k, COST_PIECES);
        uint64_t before;
        fine = kc_stop(s) == 0;
        c->stop[i] = (double)s->spent_ns;
        before = s->k->seen->event_count;
        fine = fine && kc_process(s) == 0;
        uint64_t events = s->k->seen->event_count - before;
        if (fine && events)
            c->process[c->processed++] = (double)s->spent_ns / (double)events;
        c->count += fine;
    }
    return kc_destroy(s) == 0 && fine;
}

static void tell_costs(kc_check *k, const kc_checked *p, costs *c)
{
    kc_measured(k, KC_RULE_COST_START, median(c->start, c->count), "for start");
    kc_measured(k, KC_RULE_COST_STOP, median(c->stop, c->count), "for stop");
    if (p->functions->profilerPushCorrelationId && p->functions->profilerPopCorrelationId)
        kc_measured(k, KC_RULE_COST_PUSH_POP, median(c->pair, c->count), "for push and pop");
    else
        kc_untested(k, KC_RULE_COST_PUSH_POP, "it has no push and pop");
    if (c->processed)
        kc_measured(k, KC_RULE_COST_PROCESS, median(c->process, c->processed),
                    "of processEvents for an event");
    else
        kc_untested(k, KC_RULE_COST_PROCESS, "%s",
                    k->exercise ? "events are not delivered there" : kc_why_no_events(k));
}

static void measure_costs(kc_check *k, kc_checked *p)
{
    costs c = {.count = 0};
    for (size_t i = 0; i < TIMES; i++) {
        kc_session s;
        kc_session_init(&s, k, p, KC_SIZE_TODAY);
        s.quick = true;
        if (!measure(&s, &c))
            break;
    }
    if (c.count)
        tell_costs(k, p, &c);
}

void kc_scene_costs(kc_check *k) { kc_for_each(k, KC_RULE_COST_START, measure_costs); }
