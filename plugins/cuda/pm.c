/* The session of PM sampling: the GPU counts at a fixed interval into a hardware buffer; a thread
 * decodes the buffer, evaluates the metrics and delivers one sample per interval. CUPTI's host and
 * target calls are made by that thread while it runs. */
#include "pm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Limits of the thread: its interval, and the images that it decodes per tick and after the stop,
 * which may take MAX_END_NS in all. */
#define NS_PER_US           INT64_C(1000)
#define MIN_TICK_NS         INT64_C(5000000)
#define MAX_TICK_NS         INT64_C(100000000)
#define MAX_ROUNDS_PER_TICK 64u
#define MAX_ROUNDS_AT_END   4096u
#define MAX_END_NS          INT64_C(2000000000)

/* The one session. It belongs to the ticker's thread while that runs, and to start and stop
 * otherwise, so it needs no lock. */
static struct {
    cp_ticker ticker;
    const KinetoPlugin_TraceBuilder *builder;
    cp_options options;
    /* Until the program has initialised CUDA. */
    bool waiting;
    bool sampling;
    cp_pm_setup setup;
    cp_pm_clock clock;
    int32_t set;
    bool began;       /* the first sample has been skipped */
    uint64_t overrun; /* decodings that found the hardware buffer overrun */
    uint64_t bad;     /* samples that CUPTI could not evaluate, or without a time */
    cp_result broken; /* decoding failed: no more samples come */
    int64_t *times;
    double *values; /* [samples * metrics] */
} pm_session;

/* Samples have been decoded in this process. */
static bool decoded_before;

/* ---- decoding -------------------------------------------------------------------------------- */

/* Reads sample `index` of the image into slot `to`. False: it has no valid time or values. */
static bool read_pm_sample(size_t index, size_t to, int64_t *end)
{
    const cp_pm_setup *p = &pm_session.setup;
    cp_pm_sample sample = CP_PM_PARAMS(cp_pm_sample, end, .sampler = p->sampler, .image = p->image,
                                       .image_size = p->image_size, .index = index);
    cp_pm_evaluate evaluate =
        CP_PM_PARAMS(cp_pm_evaluate, values, .host = p->host, .image = p->image,
                     .image_size = p->image_size, .sample = index, .names = pm_session.setup.names,
                     .count = p->count, .values = pm_session.values + to * p->count);
    if (cp_pm.sample(&sample) != CP_SUCCESS || cp_pm.evaluate(&evaluate) != CP_SUCCESS ||
        sample.start == 0 || sample.end < sample.start || sample.end > INT64_MAX)
        return false;
    pm_session.times[to] = (int64_t)sample.start; /* the values hold from here on */
    *end = (int64_t)sample.end;
    return true;
}

/* Delivers the first `count` slots; `end` is the end of the last sample. */
static void deliver_pm_samples(size_t count, int64_t end)
{
    const KinetoPlugin_TraceBuilder *b = pm_session.builder;
    KinetoPlugin_Counts counts = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), .requested = count};
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .set = pm_session.set,
        .clock = cp_pm_clock_of(&pm_session.clock, b, pm_session.times[0], end),
        .count = count,
        .pTimes = pm_session.times,
        .pValues = pm_session.values};
    if (b->addCounts)
        (void)b->addCounts(b->pTraceBuilderHandle, &counts);
    if (samples.clock >= 0)
        (void)b->addCounterSamples(b->pTraceBuilderHandle, &samples);
    else
        pm_session.bad += count;
}

/* Reads the decoded samples and delivers them. The very first is skipped: it began before its
 * counters did. */
static void process_pm_samples(size_t completed)
{
    size_t count = completed < CP_PM_SAMPLES ? completed : CP_PM_SAMPLES, kept = 0;
    int64_t end = 0;
    for (size_t i = 0; i < count; i++) {
        bool good = read_pm_sample(i, kept, &end);
        if (good && pm_session.began)
            kept++;
        pm_session.bad += !good;
        pm_session.began = true;
    }
    if (kept)
        deliver_pm_samples(kept, end);
    if (!decoded_before)
        cp_source_install_exit_handler(); /* before objects that the first decoding made */
    decoded_before = true;
}

/* Decodes one image full of samples from the hardware buffer. True: there are more. */
static bool decode_pm_buffer(void)
{
    const cp_pm_setup *p = &pm_session.setup;
    cp_pm_decode decoded = CP_PM_PARAMS(cp_pm_decode, overflow, .sampler = p->sampler,
                                        .image = p->image, .image_size = p->image_size);
    cp_pm_image_info info =
        CP_PM_PARAMS(cp_pm_image_info, completed, .image = p->image, .image_size = p->image_size);
    if (pm_session.broken)
        return false;
    cp_result result = cp_pm.decode(&decoded);
    bool overrun = decoded.overflow || result == CP_ERROR_OUT_OF_MEMORY;
    pm_session.overrun += overrun;
    if (result == CP_SUCCESS || overrun)
        result = cp_pm.image_info(&info);
    if (result == CP_SUCCESS) {
        process_pm_samples(info.completed);
        result = cp_pm_clear(p);
    }
    pm_session.broken = result;
    return result == CP_SUCCESS && decoded.stopped == CP_PM_STOPPED_FULL;
}

/* Decodes what is left at the end. False: the limit was reached, and samples remain. */
static bool decode_remaining(void)
{
    int64_t limit = cp_monotonic_ns() + MAX_END_NS;
    for (uint32_t i = 0; i < MAX_ROUNDS_AT_END && cp_monotonic_ns() < limit; i++) {
        if (!decode_pm_buffer())
            return true;
    }
    return false;
}

/* ---- start ----------------------------------------------------------------------------------- */

/* One set of counters with a series per metric. */
static bool register_pm_counters(char why[CP_TEXT_BYTES])
{
    const KinetoPlugin_TraceBuilder *b = pm_session.builder;
    const cp_pm_setup *p = &pm_session.setup;
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
    if (b->registerCounters(b->pTraceBuilderHandle, &set, &pm_session.set) == 0)
        return true;
    snprintf(why, CP_TEXT_BYTES, "PM sampling: the recorder has no space for its counters");
    return false;
}

/* Memory for the samples of one image. */
static bool allocate_samples(char why[CP_TEXT_BYTES])
{
    pm_session.times = calloc(CP_PM_SAMPLES, sizeof *pm_session.times);
    pm_session.values =
        calloc((size_t)CP_PM_SAMPLES * pm_session.setup.count, sizeof *pm_session.values);
    if (pm_session.times && pm_session.values)
        return true;
    snprintf(why, CP_TEXT_BYTES, "out of memory: PM sampling");
    return false;
}

/* Starts the hardware; the clock's readings must come right before. */
static bool start_pm_sampling(char why[CP_TEXT_BYTES])
{
    cp_pm_clock_begin(&pm_session.clock, pm_session.builder);
    cp_result result =
        cp_pm.start(&CP_PM_PARAMS(cp_pm_plain, sampler, .sampler = pm_session.setup.sampler));
    if (result != CP_SUCCESS)
        cp_pm_explain("start", result, pm_session.setup.device, why);
    return result == CP_SUCCESS;
}

static cp_result stop_pm_sampling(void)
{
    return cp_pm.stop(&CP_PM_PARAMS(cp_pm_plain, sampler, .sampler = pm_session.setup.sampler));
}

static void free_samples(void)
{
    free(pm_session.times);
    free(pm_session.values);
    pm_session.times = NULL;
    pm_session.values = NULL;
}

/* All steps until sampling runs; if one fails, the earlier ones are undone. */
static bool begin_pm_session(char why[CP_TEXT_BYTES])
{
    if (!cp_pm_prepare(&pm_session.setup, &pm_session.options, why))
        return false;
    pm_session.sampling =
        allocate_samples(why) && register_pm_counters(why) && start_pm_sampling(why);
    if (!pm_session.sampling) {
        cp_pm_release(&pm_session.setup);
        free_samples();
    }
    return pm_session.sampling;
}

/* ---- the thread ------------------------------------------------------------------------------ */

#define MAX_HANDLERS   10000u
#define HANDLER_GAP_NS 1000000

/* Thread: installs an exit handler every millisecond until it is told to end. The setup of PM
 * sampling takes CUPTI a quarter of a second, during which it loads a library and makes objects. A
 * program that exits meanwhile destroys first what was made last, and a thread that uses a destroyed
 * object ends the program; a handler that is newer than the objects ends the thread before. */
static void *keep_handler_newest(void *argument)
{
    atomic_bool *is_done = argument;
    const struct timespec gap = {.tv_nsec = HANDLER_GAP_NS};
    for (unsigned i = 0; i < MAX_HANDLERS && !atomic_load(is_done); i++) {
        cp_source_install_exit_handler();
        (void)nanosleep(&gap, NULL);
    }
    return NULL;
}

/* Begins a session whose program had not initialised CUDA at the start, while the program runs. */
static void begin_pm_session_late(void)
{
    char why[CP_TEXT_BYTES];
    pthread_t keeper;
    atomic_bool is_done = false;
    if (cp_is_cuda_uninitialized())
        return;
    pm_session.waiting = false;
    bool is_kept = cp_thread_start(&keeper, "ckineto-exit", keep_handler_newest, &is_done) == 0;
    bool begun = begin_pm_session(why);
    atomic_store(&is_done, true);
    if (is_kept)
        (void)pthread_join(keeper, NULL);
    cp_source_install_exit_handler();
    if (!begun)
        cp_note(pm_session.builder, "no PM sampling", 1, false, "%s", why);
}

/* One tick of the thread: decodes images until the hardware buffer is empty or the limit is
 * reached. */
static void tick_pm(void)
{
    if (pm_session.waiting)
        begin_pm_session_late();
    for (uint32_t i = 0; pm_session.sampling && i < MAX_ROUNDS_PER_TICK && decode_pm_buffer(); i++)
        ;
}

/* The interval of decoding: short enough that the image, which is smaller than the hardware buffer,
 * does not fill up. */
static int64_t compute_tick_ns(void)
{
    int64_t ns = (int64_t)pm_session.options.pm_interval_us * NS_PER_US * (CP_PM_SAMPLES / 4);
    return ns < MIN_TICK_NS ? MIN_TICK_NS : ns > MAX_TICK_NS ? MAX_TICK_NS : ns;
}

/* Frees our memory only: in a forked child CUPTI's objects belong to the parent. */
static void reset_pm_session(void)
{
    free_samples();
    free(pm_session.setup.availability);
    free(pm_session.setup.config);
    free(pm_session.setup.image);
    memset(&pm_session, 0, sizeof pm_session);
}

/* Does nothing if no metrics are named or the host does not want counters. If CUDA is not
 * initialised yet, the thread begins the session later. */
bool cp_pm_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                 char why[CP_TEXT_BYTES])
{
    bool wanted = options->types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER & 1;
    if (!options->pm_metrics[0] || !wanted)
        return true;
    if (cp_ticker_runs(&pm_session.ticker)) {
        snprintf(why, CP_TEXT_BYTES, "PM sampling runs already");
        return false;
    }
    reset_pm_session();
    pm_session.builder = builder;
    pm_session.options = *options;
    pm_session.waiting = cp_is_cuda_uninitialized();
    if (!cp_check_counters(builder, why) || (!pm_session.waiting && !begin_pm_session(why)))
        return false;
    if (cp_ticker_start(&pm_session.ticker, "ckineto-pm", compute_tick_ns(), tick_pm, why))
        return true;
    if (pm_session.sampling)
        (void)stop_pm_sampling();
    cp_pm_release(&pm_session.setup);
    reset_pm_session();
    return false;
}

/* ---- stop ------------------------------------------------------------------------------------ */

/* Reports samples that are missing or uncertain. `complete`: all samples were decoded. */
static void write_pm_ledger(bool complete)
{
    const KinetoPlugin_TraceBuilder *b = pm_session.builder;
    int32_t device = pm_session.setup.device;
    char why[CP_TEXT_BYTES];
    if (pm_session.overrun)
        cp_note(
            b, "PM samples overwritten", pm_session.overrun, true,
            "The buffer of PM samples of GPU %d overran %llu times; choose a longer interval or "
            "fewer metrics",
            device, (unsigned long long)pm_session.overrun);
    if (pm_session.bad)
        cp_note(b, "PM samples without values", pm_session.bad, true,
                "%llu PM samples of GPU %d had no time or no values",
                (unsigned long long)pm_session.bad, device);
    if (pm_session.broken) {
        cp_pm_explain("decode", pm_session.broken, device, why);
        cp_note(b, "PM sampling ended early", 1, true, "%s", why);
    }
    if (!complete)
        cp_note(b, "PM samples not decoded", 1, true,
                "PM samples of GPU %d were left in the buffer: there was no time to decode them",
                device);
    if (pm_session.setup.by_cycles)
        cp_note(b, "PM sampling by cycles", 1, false,
                "GPU %d counts intervals in cycles of its system clock: %u are taken for 1 us",
                device, 1000u);
}

/* Ends the thread, decodes the samples that are left, and reports what is missing. */
void cp_pm_stop(void)
{
    if (cp_ticker_stop(&pm_session.ticker)) {
        if (pm_session.waiting)
            cp_note(pm_session.builder, "no PM sampling", 1, false, "PM sampling: %s",
                    cp_is_cuda_uninitialized()
                        ? "the program did not initialise CUDA"
                        : "the program ended before it began, within a tenth of a second of CUDA's start");
        if (pm_session.sampling) {
            (void)stop_pm_sampling();
            write_pm_ledger(decode_remaining());
        }
        cp_pm_release(&pm_session.setup);
    }
    reset_pm_session();
}
