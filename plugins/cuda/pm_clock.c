/* Finds the clock of PM samples. CUPTI's documentation says that their times are the CPU's without
 * naming the clock, and a program that gives CUPTI a clock may change it. So the times are
 * compared: samples were taken between two readings of the right clock. */
#include "pm.h"

#include <time.h>

/* Allowed error: CUPTI converts GPU time to CPU time with a fit that it renews only at times. */
#define SLACK_NS INT64_C(20000000)

/* In the order of preference if several fit. */
static const struct {
    int32_t number;
    clockid_t id; /* unused for ticks */
} host_clocks[CP_PM_CLOCKS] = {
    {KINETO_PLUGIN_CLOCK_UTC, CLOCK_REALTIME},
    {KINETO_PLUGIN_CLOCK_TICKS, 0},
    {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
    {KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
    {KINETO_PLUGIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
};

static int64_t read_host_clock(const KinetoPlugin_TraceBuilder *b, int i)
{
    struct timespec t = {0, 0};
    if (host_clocks[i].number == KINETO_PLUGIN_CLOCK_TICKS)
        return (int64_t)b->hostTicks(b->pTraceBuilderHandle);
    (void)clock_gettime(host_clocks[i].id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void cp_pm_clock_begin(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b)
{
    *c = (cp_pm_clock){.number = -1};
    for (int i = 0; i < CP_PM_CLOCKS; i++)
        c->began[i] = read_host_clock(b, i);
    c->decoded_ticks = b->hostTicks(b->pTraceBuilderHandle);
}

/* The first clock whose readings enclose the samples; -1: none. */
static int32_t find_fitting_clock(const cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b,
                                  int64_t first, int64_t last)
{
    for (int i = 0; i < CP_PM_CLOCKS; i++) {
        if (first >= c->began[i] - SLACK_NS && last <= read_host_clock(b, i) + SLACK_NS)
            return host_clocks[i].number;
    }
    return -1;
}

/* Registers an unknown clock, which the host fits to its own by pairs of times. */
static void register_own_clock(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b)
{
    int32_t number = -1;
    if (!b->registerClock || !b->addClockSample ||
        b->registerClock(b->pTraceBuilderHandle, "PM sampling", &number) != 0)
        return;
    c->number = number;
    c->is_own = true;
    cp_note(b, "clock of PM samples", 1, false,
            "The clock of PM samples is unknown: their times are fitted, and may be "
            "wrong by the time between two decodings");
}

int32_t cp_pm_clock_of(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b, int64_t first,
                       int64_t last)
{
    if (c->number < 0)
        c->number = find_fitting_clock(c, b, first, last);
    if (c->number < 0)
        register_own_clock(c, b);
    uint64_t now = b->hostTicks(b->pTraceBuilderHandle);
    /* The buffer was empty at decoded_ticks, so that the last sample is later than that. */
    if (c->is_own)
        (void)b->addClockSample(b->pTraceBuilderHandle, c->number, last, c->decoded_ticks, now);
    c->decoded_ticks = now;
    return c->number;
}
