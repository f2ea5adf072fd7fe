/* In which clock are PM samples? CUPTI's documentation says that of the CPU, and not which; a
 * program that gives CUPTI a clock of its own may change it. So we look: samples were taken between
 * two readings of the right one. */
#include "pm.h"

#include <time.h>

#define SLACK_NS INT64_C(20000000) /* GPU time is fitted to the CPU's by CUPTI, now and then */

/* In order of preference where several fit. */
static const struct {
    int32_t number;
    clockid_t id; /* of a clock in ns; ticks have none */
} clocks[CP_PM_CLOCKS] = {
    {KINETO_PLUGIN_CLOCK_UTC, CLOCK_REALTIME},
    {KINETO_PLUGIN_CLOCK_TICKS, 0},
    {KINETO_PLUGIN_CLOCK_MONOTONIC_RAW, CLOCK_MONOTONIC_RAW},
    {KINETO_PLUGIN_CLOCK_MONOTONIC, CLOCK_MONOTONIC},
    {KINETO_PLUGIN_CLOCK_BOOTTIME, CLOCK_BOOTTIME},
};

static int64_t read_clock(const KinetoPlugin_TraceBuilder *b, int i)
{
    struct timespec t = {0, 0};
    if (clocks[i].number == KINETO_PLUGIN_CLOCK_TICKS)
        return (int64_t)b->hostTicks(b->pTraceBuilderHandle);
    (void)clock_gettime(clocks[i].id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void cp_pm_clock_begin(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b)
{
    *c = (cp_pm_clock){.number = -1};
    for (int i = 0; i < CP_PM_CLOCKS; i++)
        c->began[i] = read_clock(b, i);
    c->decoded_ticks = b->hostTicks(b->pTraceBuilderHandle);
}

static int32_t fitting(const cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b, int64_t first,
                       int64_t last)
{
    for (int i = 0; i < CP_PM_CLOCKS; i++) {
        if (first >= c->began[i] - SLACK_NS && last <= read_clock(b, i) + SLACK_NS)
            return clocks[i].number;
    }
    return -1;
}

static void take_own(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b)
{
    int32_t number = -1;
    if (!b->registerClock || !b->addClockSample ||
        b->registerClock(b->pTraceBuilderHandle, "PM sampling", &number) != 0)
        return;
    c->number = number;
    c->is_own = true;
    cp_note(
        b, "clock of PM samples", 1, false,
        "The times of PM samples are of no clock that is known here: they are fitted, and may be "
        "off by the time between two decodings");
}

int32_t cp_pm_clock_of(cp_pm_clock *c, const KinetoPlugin_TraceBuilder *b, int64_t first,
                       int64_t last)
{
    if (c->number < 0)
        c->number = fitting(c, b, first, last);
    if (c->number < 0)
        take_own(c, b);
    uint64_t now = b->hostTicks(b->pTraceBuilderHandle);
    /* The buffer was empty then: the last sample is younger. */
    if (c->is_own)
        (void)b->addClockSample(b->pTraceBuilderHandle, c->number, last, c->decoded_ticks, now);
    c->decoded_ticks = now;
    return c->number;
}
