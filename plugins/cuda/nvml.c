/* The session of NVML sampling: a thread reads all sets of all GPUs at the chosen rate. Samples are
 * collected and delivered in batches, after a second at the latest. Only the ticker's thread uses
 * the boards while it runs. */
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH_SAMPLES 32u
/* Longest time that a sample waits for its batch. */
#define MAX_HOLD_NS INT64_C(1000000000)
#define NS_PER_MS   INT64_C(1000000)
/* Failed readings in a row after which a GPU is not read any more. */
#define MAX_LOST_READINGS 3u

/* A set of series of one GPU. */
typedef struct counter_row {
    /* Bit per series that this GPU measures; 0: not registered. */
    uint32_t series;
    int32_t number; /* from registerCounters */
    uint32_t count; /* samples in the batch */
    int64_t times[BATCH_SAMPLES];
    cp_nvml_value values[BATCH_SAMPLES * CP_NVML_MAX_SERIES];
} counter_row;

typedef struct gpu_board {
    cp_nvml_gpu gpu;
    /* Readings in a row that found the GPU lost. */
    uint32_t lost;
    counter_row rows[CP_NVML_SETS];
} gpu_board;

static struct {
    cp_ticker ticker;
    const KinetoPlugin_TraceBuilder *builder;
    bool ready;
    gpu_board *boards;
    uint32_t board_count;
    int64_t flushed_ns;
    /* Failed readings of series that had worked before. */
    uint64_t failed;
    cp_nvml_result problem;
} nvml_session;

static uint64_t get_ticks(void)
{
    return nvml_session.builder->hostTicks(nvml_session.builder->pTraceBuilderHandle);
}

/* ---- available series ------------------------------------------------------------------------ */

/* Registers a set of one GPU, with the series that it has. False: the host refused it. */
static bool register_row(gpu_board *b, uint32_t index)
{
    const cp_nvml_set *set = &cp_nvml_sets[index];
    counter_row *r = &b->rows[index];
    const char *names[CP_NVML_MAX_SERIES], *units[CP_NVML_MAX_SERIES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->series_count; i++) {
        if (!(r->series >> i & 1))
            continue;
        names[count] = set->series[i];
        units[count++] = set->units[i];
    }
    KinetoPlugin_CounterSet counters = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits),
        .pName = set->name,
        .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
        .deviceId = b->gpu.id,
        .valueType = set->value_type,
        .seriesCount = count,
        .pSeriesNames = names,
        .pUnits = units};
    return nvml_session.builder->registerCounters(nvml_session.builder->pTraceBuilderHandle,
                                                  &counters, &r->number) == 0;
}

/* Lists the series that a GPU does not have: "energy, memory clock". */
static void list_missing(const gpu_board *b, char *text, size_t size)
{
    size_t n = 0;
    text[0] = '\0';
    for (uint32_t s = 0; s < CP_NVML_SETS; s++) {
        for (uint32_t i = 0; i < cp_nvml_sets[s].series_count && n < size; i++) {
            if (!(b->rows[s].series >> i & 1))
                n += (size_t)snprintf(text + n, size - n, "%s%s", n ? ", " : "",
                                      cp_nvml_sets[s].series[i]);
        }
    }
}

/* A first reading finds the series that a GPU has; it is not recorded. */
static void probe_board(gpu_board *b)
{
    cp_nvml_value values[CP_NVML_MAX_SERIES];
    cp_nvml_result problem = CP_NVML_SUCCESS;
    char missing[CP_TEXT_BYTES];
    for (uint32_t s = 0; s < CP_NVML_SETS; s++)
        b->rows[s].series = cp_nvml_sets[s].read(b->gpu.handle, values, &problem);
    list_missing(b, missing, sizeof missing);
    if (missing[0])
        cp_note(nvml_session.builder, "not measured by the GPU", 1, false,
                "GPU %d does not measure: %s; the last reason was: %s", b->gpu.id, missing,
                cp_nvml_problem(problem));
}

/* Registers the most important set of all GPUs first, because the host limits their number. */
static void register_rows(void)
{
    uint64_t refused = 0;
    for (uint32_t s = 0; s < CP_NVML_SETS; s++) {
        for (uint32_t i = 0; i < nvml_session.board_count; i++) {
            gpu_board *b = &nvml_session.boards[i];
            if (!b->rows[s].series || register_row(b, s))
                continue;
            b->rows[s].series = 0;
            refused++;
        }
    }
    if (refused)
        cp_note(nvml_session.builder, "no room for rows of counters", refused, false,
                "%llu rows of GPU sensors are not recorded: the recorder has no space for more",
                (unsigned long long)refused);
}

/* Notes in the ledger how GPUs are numbered if that may surprise the user. */
static void explain_gpu_numbers(void)
{
    uint64_t instances = 0, own = 0;
    for (uint32_t i = 0; i < nvml_session.board_count; i++) {
        instances += nvml_session.boards[i].gpu.of_instance;
        own += nvml_session.boards[i].gpu.is_nvml_number;
    }
    if (instances)
        cp_note(nvml_session.builder, "counters of whole GPUs", instances, false,
                "The program uses instances (MIG); sensors measure the whole GPU and are shown "
                "with its first instance");
    if (own)
        cp_note(nvml_session.builder, "GPUs numbered by NVML", own, false,
                "CUDA's devices are unknown: sensors of all GPUs of the machine are recorded, with "
                "the numbers of nvidia-smi");
}

/* Finds the GPUs and registers their rows. False: CUDA is not initialised yet, or out of memory. */
static bool prepare_boards(void)
{
    cp_nvml_gpu gpus[CP_MAX_DEVICES];
    uint32_t count = 0;
    if (!cp_nvml_find(gpus, &count))
        return false;
    free(nvml_session.boards);
    nvml_session.boards = calloc(count ? count : 1, sizeof *nvml_session.boards);
    if (!nvml_session.boards)
        return false;
    nvml_session.board_count = count;
    for (uint32_t i = 0; i < count; i++) {
        nvml_session.boards[i].gpu = gpus[i];
        probe_board(&nvml_session.boards[i]);
    }
    register_rows();
    explain_gpu_numbers();
    nvml_session.ready = true;
    return true;
}

/* ---- sampling -------------------------------------------------------------------------------- */

static uint32_t count_series(const counter_row *r)
{
    return (uint32_t)__builtin_popcount(r->series);
}

/* Delivers the batch of one row. The host wants to know beforehand how many samples come. */
static void flush_counter_row(counter_row *r)
{
    const KinetoPlugin_TraceBuilder *b = nvml_session.builder;
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .set = r->number,
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .count = r->count,
        .pTimes = r->times,
        .pValues = r->values};
    KinetoPlugin_Counts counts = {.unpaddedStructSize =
                                      KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped),
                                  .requested = r->count};
    if (!r->count)
        return;
    if (b->addCounts)
        (void)b->addCounts(b->pTraceBuilderHandle, &counts);
    (void)b->addCounterSamples(b->pTraceBuilderHandle, &samples);
    r->count = 0;
}

static void flush_boards(void)
{
    for (uint32_t i = 0; i < nvml_session.board_count; i++) {
        for (uint32_t s = 0; s < CP_NVML_SETS; s++)
            flush_counter_row(&nvml_session.boards[i].rows[s]);
    }
    nvml_session.flushed_ns = cp_monotonic_ns();
}

/* Adds one sample: the values of the series that the row has, one after the other. */
static void add_row_sample(counter_row *r, int64_t time, const cp_nvml_value *values)
{
    cp_nvml_value *to = r->values + (size_t)r->count * count_series(r);
    for (uint32_t i = 0; i < CP_NVML_MAX_SERIES; i++) {
        if (r->series >> i & 1)
            *to++ = values[i];
    }
    r->times[r->count++] = time;
    if (r->count == BATCH_SAMPLES)
        flush_counter_row(r);
}

/* Reads one set. False: the GPU is lost. The time is the midpoint of readings before and after. */
static bool sample_row(gpu_board *b, uint32_t index)
{
    cp_nvml_value values[CP_NVML_MAX_SERIES] = {{0}};
    cp_nvml_result problem = CP_NVML_SUCCESS;
    counter_row *r = &b->rows[index];
    uint64_t before = get_ticks();
    uint32_t done = cp_nvml_sets[index].read(b->gpu.handle, values, &problem);
    uint64_t after = get_ticks();
    if ((done & r->series) == r->series) {
        add_row_sample(r, cp_midpoint(before, after), values);
        return true;
    }
    nvml_session.failed++;
    nvml_session.problem = problem;
    return problem != CP_NVML_GPU_IS_LOST;
}

/* Reads all sets of one GPU, which is given up after MAX_LOST_READINGS failures. */
static void sample_board(gpu_board *b)
{
    bool there = true;
    for (uint32_t s = 0; s < CP_NVML_SETS && there && b->lost < MAX_LOST_READINGS; s++) {
        if (b->rows[s].series)
            there = sample_row(b, s);
    }
    b->lost = there && b->lost < MAX_LOST_READINGS ? 0 : b->lost + !there;
}

/* One tick of the thread; prepares the boards as soon as CUDA is initialised. */
static void tick_nvml(void)
{
    if (!nvml_session.ready && !prepare_boards())
        return;
    for (uint32_t i = 0; i < nvml_session.board_count; i++)
        sample_board(&nvml_session.boards[i]);
    if (cp_monotonic_ns() - nvml_session.flushed_ns >= MAX_HOLD_NS)
        flush_boards();
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* Frees the session. In a forked child the thread does not exist; its memory is a copy. */
static void reset_nvml_session(void)
{
    free(nvml_session.boards);
    memset(&nvml_session, 0, sizeof nvml_session);
}

bool cp_nvml_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                   char why[CP_TEXT_BYTES])
{
    bool wanted = options->types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER & 1;
    if (!options->nvml_interval_ms || !wanted)
        return true;
    if (cp_ticker_runs(&nvml_session.ticker)) {
        snprintf(why, CP_TEXT_BYTES, "GPU sensors are being sampled already");
        return false;
    }
    reset_nvml_session();
    if (!cp_check_counters(builder, why) || !cp_nvml_open(why))
        return false;
    nvml_session.builder = builder;
    nvml_session.flushed_ns = cp_monotonic_ns();
    if (cp_ticker_start(&nvml_session.ticker, "ckineto-nvml", options->nvml_interval_ms * NS_PER_MS,
                        tick_nvml, why))
        return true;
    cp_nvml_close();
    return false;
}

static void write_nvml_ledger(void)
{
    if (!nvml_session.ready)
        cp_note(nvml_session.builder, "no counters of GPUs", 1, false,
                "The program did not initialise CUDA: sensors were not read");
    else if (!nvml_session.board_count)
        cp_note(nvml_session.builder, "no counters of GPUs", 1, false,
                "NVML shows none of the GPUs that the program uses");
    if (nvml_session.failed)
        cp_note(nvml_session.builder, "readings that failed", nvml_session.failed, true,
                "%llu readings of sensors failed; the last because: %s",
                (unsigned long long)nvml_session.failed, cp_nvml_problem(nvml_session.problem));
    if (nvml_session.ticker.skipped)
        cp_note(nvml_session.builder, "readings left out", nvml_session.ticker.skipped, false,
                "%llu readings of sensors were skipped because one took longer than the interval; "
                "choose a longer one",
                (unsigned long long)nvml_session.ticker.skipped);
}

void cp_nvml_stop(void)
{
    if (cp_ticker_stop(&nvml_session.ticker)) {
        tick_nvml(); /* a last reading, for the energy at the end */
        flush_boards();
        write_nvml_ledger();
        cp_nvml_close();
    }
    reset_nvml_session();
}
