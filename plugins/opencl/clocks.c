/* Finds the clock of a device's timestamps, which OpenCL does not report. An enqueue call is
 * bracketed by readings of the host's clocks; the command's QUEUED time, which the device reads
 * during the call, must lie in the bracket of the clock that the device uses, if it uses one of
 * them. */
#include "opencl.h"

#include <time.h>

/* Narrow brackets that decide for a single remaining candidate. */
#define ENOUGH_VOTES 3u
/* Then any candidate that is left will do: they agree. */
#define MAX_VOTES 16u
/* The same for wide brackets, which do not vote. */
#define MAX_BRACKETS 64u
/* A wider bracket excludes, but does not vote. */
#define NARROW_NS INT64_C(5000000)

static const clockid_t host_clocks[CO_CLOCK_COUNT] = {
    [CO_CLOCK_RAW] = CLOCK_MONOTONIC_RAW,
    [CO_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
    [CO_CLOCK_BOOTTIME] = CLOCK_BOOTTIME,
    [CO_CLOCK_REALTIME] = CLOCK_REALTIME,
};

int64_t co_now_ns(int clock_id)
{
    struct timespec t = {0, 0};

    (void)clock_gettime(clock_id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int32_t co_clock_number(co_host_clock host)
{
    switch (host) {
    case CO_CLOCK_RAW:
        return KINETO_PLUGIN_CLOCK_MONOTONIC_RAW;
    case CO_CLOCK_MONOTONIC:
        return KINETO_PLUGIN_CLOCK_MONOTONIC;
    case CO_CLOCK_BOOTTIME:
        return KINETO_PLUGIN_CLOCK_BOOTTIME;
    default:
        return KINETO_PLUGIN_CLOCK_UTC;
    }
}

void co_bracket_open(co_bracket *bracket, const KinetoPlugin_TraceBuilder *builder)
{
    bracket->used = true;
    bracket->before_ticks = builder ? builder->hostTicks(builder->pTraceBuilderHandle) : 0;
    for (int i = 0; i < CO_CLOCK_COUNT; i++)
        bracket->before_ns[i] = co_now_ns(host_clocks[i]);
}

void co_bracket_close(co_bracket *bracket, const KinetoPlugin_TraceBuilder *builder)
{
    for (int i = CO_CLOCK_COUNT; i-- > 0;)
        bracket->after_ns[i] = co_now_ns(host_clocks[i]);
    bracket->after_ticks = builder ? builder->hostTicks(builder->pTraceBuilderHandle) : 0;
}

void co_clock_init(co_clock *clock)
{
    *clock = (co_clock){.state = CO_CLOCK_UNDECIDED,
                        .host = CO_CLOCK_RAW,
                        .candidates = (1u << CO_CLOCK_COUNT) - 1};
}

void co_clock_vote(co_clock *clock, const co_bracket *bracket, int64_t device_ns, int64_t slack_ns)
{
    if (clock->state != CO_CLOCK_UNDECIDED || !bracket->used)
        return;
    for (int i = 0; i < CO_CLOCK_COUNT; i++) {
        if (device_ns < bracket->before_ns[i] - slack_ns ||
            device_ns > bracket->after_ns[i] + slack_ns)
            clock->candidates &= ~(1u << i);
    }
    clock->brackets++;
    if (bracket->after_ns[CO_CLOCK_RAW] - bracket->before_ns[CO_CLOCK_RAW] <= NARROW_NS)
        clock->votes++;
}

/* The first candidate by preference; without any the device has a clock of its own. */
static void set_clock_state(co_clock *clock, uint32_t candidates)
{
    clock->state = candidates ? CO_CLOCK_HOST : CO_CLOCK_DEVICE;
    for (int i = CO_CLOCK_COUNT; i-- > 0;) {
        if (candidates >> i & 1)
            clock->host = (co_host_clock)i;
    }
}

bool co_clock_decide(co_clock *clock, bool force)
{
    uint32_t left = clock->candidates;

    if (clock->state != CO_CLOCK_UNDECIDED)
        return true;
    /* On a machine that was never suspended these two clocks agree. */
    if (left & (1u << CO_CLOCK_MONOTONIC))
        left &= ~(1u << CO_CLOCK_BOOTTIME);
    if (!force && left) {
        bool is_single = (left & (left - 1)) == 0;
        uint32_t need = is_single ? ENOUGH_VOTES : MAX_VOTES;
        if (clock->votes < need && clock->brackets < MAX_BRACKETS)
            return false;
    }
    set_clock_state(clock, left);
    return true;
}
