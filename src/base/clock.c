/* Reading clocks: the choice of the counter that the recorder uses, and snapshots of all clocks at
 * one moment. ticks_to_ns.c converts ticks to times from these snapshots. [rt] */
#include "base/base.h"

#include <errno.h>
#include <time.h>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/prctl.h>

/* The counter runs at one rate in all power states, and may be read by programs. */
static bool tsc_is_invariant(void)
{
    unsigned a, b, c, d;
    int mode = 0;
    if (!__get_cpuid(0x80000007u, &a, &b, &c, &d) || !(d & (1u << 8)))
        return false;
    return prctl(PR_GET_TSC, &mode, 0, 0, 0) != 0 || mode == PR_TSC_ENABLE;
}

/* A kernel that gave up on the TSC (unsynchronised sockets, unstable) uses another source. */
static bool tsc_is_trusted_by_kernel(void)
{
    char name[32];
    size_t n = kb_os_read_file("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                               name, sizeof(name));
    return n == 0 || strcmp(name, "tsc\n") == 0 || strcmp(name, "tsc") == 0;
}

static uint32_t choose_ticks_clock(void)
{
    return tsc_is_invariant() && tsc_is_trusted_by_kernel() ? KB_TICKS_TSC : KB_TICKS_MONOTONIC_RAW;
}
#elif defined(__aarch64__)
static uint32_t choose_ticks_clock(void) { return KB_TICKS_CNTVCT; }
#else
static uint32_t choose_ticks_clock(void) { return KB_TICKS_MONOTONIC_RAW; }
#endif

uint32_t kb_ticks_clock(void)
{
    static uint32_t cached; /* threads that race compute the same value */
    uint32_t clock = kb_load_relaxed(&cached);
    if (KINETO_UNLIKELY(clock == 0)) {
        int saved = errno;
        clock = choose_ticks_clock();
        errno = saved;
        kb_store_relaxed(&cached, clock);
    }
    return clock;
}

uint64_t kb_clock_ns(int clock_id)
{
    struct timespec t;
    if (clock_gettime(clock_id, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * KB_SECOND_NS + (uint64_t)t.tv_nsec;
}

uint64_t kb_ticks(uint32_t ticks_clock)
{
    if (KINETO_LIKELY(ticks_clock != KB_TICKS_MONOTONIC_RAW))
        return kb_ticks_hw();
    return kb_clock_ns(CLOCK_MONOTONIC_RAW);
}

/* Not moved by the processor across the clock reads that it brackets. */
static uint64_t ticks_fenced(uint32_t ticks_clock)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
    uint64_t t = kb_ticks(ticks_clock);
    __builtin_ia32_lfence();
    return t;
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
    uint64_t t = kb_ticks(ticks_clock);
    __asm__ volatile("isb" ::: "memory");
    return t;
#else
    return kb_ticks(ticks_clock);
#endif
}

enum { READ_MONOTONIC, READ_RAW, READ_REALTIME, READ_BOOTTIME, READ_COUNT };
static const clockid_t read_order[READ_COUNT] = {CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW,
                                                 CLOCK_REALTIME, CLOCK_BOOTTIME};

/* One try: each clock read lies between two tick reads of its own. */
typedef struct reading {
    uint64_t edge[READ_COUNT + 1];
    int64_t ns[READ_COUNT];
} reading;

static void read_once(uint32_t ticks_clock, reading *r)
{
    r->edge[0] = ticks_fenced(ticks_clock);
    for (int i = 0; i < READ_COUNT; i++) {
        r->ns[i] = (int64_t)kb_clock_ns(read_order[i]);
        r->edge[i + 1] = ticks_fenced(ticks_clock);
    }
}

static uint64_t reading_width(const reading *r) { return r->edge[READ_COUNT] - r->edge[0]; }
static uint64_t reading_middle(const reading *r, int clock)
{
    return r->edge[clock] + (r->edge[clock + 1] - r->edge[clock]) / 2;
}

/* Good to a percent or so, which is enough to shift a reading by some ten nanoseconds. */
static double rough_ns_per_tick(const reading *first, const reading *last)
{
    uint64_t ticks = reading_middle(last, READ_RAW) - reading_middle(first, READ_RAW);
    int64_t ns = last->ns[READ_RAW] - first->ns[READ_RAW];
    return ticks > 0 && ns > 0 ? (double)ns / (double)ticks : 0.0;
}

/* All four clocks must be those of one tick value. That value is the middle of MONOTONIC_RAW's own
 * bracket, so the clock that the rate comes from is not corrected at all; each other clock is taken
 * to have been read in the middle of its bracket and is moved by the distance between the middles.
 */
void kb_clock_snapshot_take(uint32_t ticks_clock, kb_clock_snapshot *out)
{
    enum { TRIES = 9 };
    reading tries[TRIES];
    int best = 0;
    read_once(ticks_clock, &tries[0]); /* warms the code and data it touches */
    for (int i = 0; i < TRIES; i++) {
        read_once(ticks_clock, &tries[i]);
        if (reading_width(&tries[i]) < reading_width(&tries[best]))
            best = i;
    }
    const reading *r = &tries[best];
    double rate = rough_ns_per_tick(&tries[0], &tries[TRIES - 1]);
    int64_t at_middle[READ_COUNT];
    uint64_t middle = reading_middle(r, READ_RAW);
    for (int i = 0; i < READ_COUNT; i++) {
        double shift = (double)(int64_t)(middle - reading_middle(r, i)) * rate;
        at_middle[i] = r->ns[i] + (int64_t)(shift < 0 ? shift - 0.5 : shift + 0.5);
    }
    *out = (kb_clock_snapshot){.ticks = middle,
                               .monotonic_ns = at_middle[READ_MONOTONIC],
                               .monotonic_raw_ns = at_middle[READ_RAW],
                               .realtime_ns = at_middle[READ_REALTIME],
                               .boottime_ns = at_middle[READ_BOOTTIME],
                               .width_ticks = reading_width(r)};
}
