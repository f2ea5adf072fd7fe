/* The session of PM sampling: the GPU counts at a fixed interval into a buffer of the hardware; a
 * thread decodes what is there, evaluates the metrics and hands over one sample per interval. */
#include "pm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_US        INT64_C(1000)
#define SHORTEST_TICK_NS INT64_C(5000000)
#define LONGEST_TICK_NS  INT64_C(100000000)
#define ROUNDS_PER_TICK  64u
#define ROUNDS_AT_END    4096u
#define LONGEST_END_NS   INT64_C(2000000000)

static struct {
    cp_ticker ticker;
    const KinetoPlugin_TraceBuilder *builder;
    cp_options options;
    bool waiting; /* for the program to start CUDA */
    bool sampling;
    cp_pm_setup setup;
    cp_pm_clock clock;
    int32_t set;
    bool began;       /* the first sample has gone by */
    uint64_t overrun; /* decodings that found the hardware buffer overrun */
    uint64_t bad;     /* samples that CUPTI could not evaluate, or without a time */
    cp_result broken; /* decoding failed: nothing more comes */
    int64_t *times;
    double *values; /* [samples * metrics] */
} session;

/* ---- decoding ------------------------------------------------------------------------------------- */

static bool read_sample(size_t index, size_t to, int64_t *end)
{
    const cp_pm_setup *p = &session.setup;
    cp_pm_sample sample = CP_PM_PARAMS(cp_pm_sample, end, .sampler = p->sampler, .image = p->image,
                                       .image_size = p->image_size, .index = index);
    cp_pm_evaluate evaluate =
        CP_PM_PARAMS(cp_pm_evaluate, values, .host = p->host, .image = p->image,
                     .image_size = p->image_size, .sample = index, .names = session.setup.names,
                     .count = p->count, .values = session.values + to * p->count);
    if (cp_pm.sample(&sample) != CP_SUCCESS || cp_pm.evaluate(&evaluate) != CP_SUCCESS ||
        sample.start == 0 || sample.end < sample.start || sample.end > INT64_MAX)
        return false;
    session.times[to] = (int64_t)sample.start; /* the value holds from here on */
    *end = (int64_t)sample.end;
    return true;
}

static void deliver(size_t count, int64_t end)
{
    const KinetoPlugin_TraceBuilder *b = session.builder;
    KinetoPlugin_Counts counts = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), .requested = count};
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .set = session.set,
        .clock = cp_pm_clock_of(&session.clock, b, session.times[0], end),
        .count = count,
        .pTimes = session.times,
        .pValues = session.values};
    if (b->addCounts)
        (void)b->addCounts(b->pTraceBuilderHandle, &counts);
    if (samples.clock >= 0)
        (void)b->addCounterSamples(b->pTraceBuilderHandle, &samples);
    else
        session.bad += count;
}

/* The first sample of all began before its counters did. */
static void take(size_t completed)
{
    size_t count = completed < CP_PM_SAMPLES ? completed : CP_PM_SAMPLES, kept = 0;
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        bool good = read_sample(i, kept, &end);
        if (good && session.began)
            kept++;
        session.bad += !good;
        session.began = true;
    }
    if (kept)
        deliver(kept, end);
}

/* What is in the hardware buffer, as far as the image has room. True: there is more. */
static bool decode(void)
{
    const cp_pm_setup *p = &session.setup;
    cp_pm_decode decoded = CP_PM_PARAMS(cp_pm_decode, overflow, .sampler = p->sampler,
                                        .image = p->image, .image_size = p->image_size);
    cp_pm_image_info info =
        CP_PM_PARAMS(cp_pm_image_info, completed, .image = p->image, .image_size = p->image_size);
    if (session.broken)
        return false;
    cp_result result = cp_pm.decode(&decoded);
    bool overrun = decoded.overflow || result == CP_ERROR_OUT_OF_MEMORY;
    session.overrun += overrun;
    if (result == CP_SUCCESS || overrun)
        result = cp_pm.image_info(&info);
    if (result == CP_SUCCESS) {
        take(info.completed);
        result = cp_pm_clear(p);
    }
    session.broken = result;
    return result == CP_SUCCESS && decoded.stopped == CP_PM_STOPPED_FULL;
}

/* False: time or rounds are up, and samples are left. */
static bool decode_rest(void)
{
    int64_t limit = cp_monotonic_ns() + LONGEST_END_NS;
    for (uint32_t i = 0; i < ROUNDS_AT_END && cp_monotonic_ns() < limit; i++) {
        if (!decode())
            return true;
    }
    return false;
}

/* ---- start ---------------------------------------------------------------------------------------- */

static bool announce(char why[CP_TEXT_BYTES])
{
    const KinetoPlugin_TraceBuilder *b = session.builder;
    const cp_pm_setup *p = &session.setup;
    const char *units[KINETO_PLUGIN_MAX_SERIES];
    for (uint32_t i = 0; i < p->count; i++)
        units[i] = cp_pm_unit(p->names[i]);
    KinetoPlugin_CounterSet set = {.unpaddedStructSize =
                                       KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits),
                                   .pName = "PM sampling",
                                   .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
                                   .deviceId = p->device,
                                   .valueType = KINETO_PLUGIN_VALUE_DOUBLE,
                                   .seriesCount = p->count,
                                   .pSeriesNames = p->names,
                                   .pUnits = units};
    if (b->registerCounters(b->pTraceBuilderHandle, &set, &session.set) == 0)
        return true;
    snprintf(why, CP_TEXT_BYTES, "PM sampling: the recorder has no room for its counters");
    return false;
}

static bool make_room(char why[CP_TEXT_BYTES])
{
    session.times = calloc(CP_PM_SAMPLES, sizeof *session.times);
    session.values = calloc((size_t)CP_PM_SAMPLES * session.setup.count, sizeof *session.values);
    if (session.times && session.values)
        return true;
    snprintf(why, CP_TEXT_BYTES, "PM sampling: no memory");
    return false;
}

static bool start_sampling(char why[CP_TEXT_BYTES])
{
    cp_pm_clock_begin(&session.clock, session.builder);
    cp_result result =
        cp_pm.start(&CP_PM_PARAMS(cp_pm_plain, sampler, .sampler = session.setup.sampler));
    if (result != CP_SUCCESS)
        cp_pm_explain("start", result, session.setup.device, why);
    return result == CP_SUCCESS;
}

static cp_result stop_sampling(void)
{
    return cp_pm.stop(&CP_PM_PARAMS(cp_pm_plain, sampler, .sampler = session.setup.sampler));
}

static void free_room(void)
{
    free(session.times);
    free(session.values);
    session.times = NULL;
    session.values = NULL;
}

/* All of it; what has been begun is ended again if a step is refused. */
static bool begin(char why[CP_TEXT_BYTES])
{
    if (!cp_pm_prepare(&session.setup, &session.options, why))
        return false;
    session.sampling = make_room(why) && announce(why) && start_sampling(why);
    if (!session.sampling) {
        cp_pm_release(&session.setup);
        free_room();
    }
    return session.sampling;
}

/* ---- the thread ----------------------------------------------------------------------------------- */

static void begin_late(void)
{
    char why[CP_TEXT_BYTES];
    if (cp_cuda_comes_later())
        return;
    session.waiting = false;
    if (!begin(why))
        cp_note(session.builder, "no PM sampling", 1, false, "%s", why);
}

static void tick(void)
{
    if (session.waiting)
        begin_late();
    for (uint32_t i = 0; session.sampling && i < ROUNDS_PER_TICK && decode(); i++)
        ;
}

/* Often enough that the image, which is the smaller of the two, is not full. */
static int64_t tick_ns(void)
{
    int64_t ns = (int64_t)session.options.pm_interval_us * NS_PER_US * (CP_PM_SAMPLES / 4);
    return ns < SHORTEST_TICK_NS ? SHORTEST_TICK_NS : ns > LONGEST_TICK_NS ? LONGEST_TICK_NS : ns;
}

/* In a fork's child CUPTI's objects are the parent's: they are left alone. */
static void forget(void)
{
    free_room();
    free(session.setup.availability);
    free(session.setup.config);
    free(session.setup.image);
    memset(&session, 0, sizeof session);
}

bool cp_pm_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                 char why[CP_TEXT_BYTES])
{
    bool wanted = options->types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER & 1;
    if (!options->pm_metrics[0] || !wanted)
        return true;
    if (cp_ticker_runs(&session.ticker)) {
        snprintf(why, CP_TEXT_BYTES, "PM sampling runs already");
        return false;
    }
    forget();
    session.builder = builder;
    session.options = *options;
    session.waiting = cp_cuda_comes_later();
    if (!cp_counters_possible(builder, why) || (!session.waiting && !begin(why)))
        return false;
    if (cp_ticker_start(&session.ticker, "ckineto-pm", tick_ns(), tick, why))
        return true;
    if (session.sampling)
        (void)stop_sampling();
    cp_pm_release(&session.setup);
    forget();
    return false;
}

/* ---- stop ----------------------------------------------------------------------------------------- */

static void tell_ledger(bool complete)
{
    const KinetoPlugin_TraceBuilder *b = session.builder;
    int32_t device = session.setup.device;
    char why[CP_TEXT_BYTES];
    if (session.overrun)
        cp_note(
            b, "PM samples overwritten", session.overrun, true,
            "The buffer of PM samples of GPU %d overran %llu times: choose a longer interval or "
            "fewer metrics",
            device, (unsigned long long)session.overrun);
    if (session.bad)
        cp_note(b, "PM samples without values", session.bad, true,
                "%llu PM samples of GPU %d had no time or no values",
                (unsigned long long)session.bad, device);
    if (session.broken) {
        cp_pm_explain("decode", session.broken, device, why);
        cp_note(b, "PM sampling ended early", 1, true, "%s", why);
    }
    if (!complete)
        cp_note(b, "PM samples not decoded", 1, true,
                "PM samples of GPU %d were left in the buffer: there was no time to decode them",
                device);
    if (session.setup.by_cycles)
        cp_note(b, "PM sampling by cycles", 1, false,
                "GPU %d counts intervals in cycles of its system clock: %u are taken for 1 us",
                device, 1000u);
}

void cp_pm_stop(void)
{
    if (cp_ticker_stop(&session.ticker)) {
        if (session.waiting)
            cp_note(session.builder, "no PM sampling", 1, false,
                    "PM sampling: the program did not start CUDA");
        if (session.sampling) {
            (void)stop_sampling();
            tell_ledger(decode_rest());
        }
        cp_pm_release(&session.setup);
    }
    forget();
}
