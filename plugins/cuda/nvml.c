/* The session of power and such: a thread reads all sets of all GPUs at the chosen rate. Samples
 * are gathered and go to the host a batch at a time, at the latest after a second. */
#include "nvml.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BATCH         32u
#define LONGEST_NS    INT64_C(1000000000) /* that a sample waits */
#define NS_PER_MS     INT64_C(1000000)
#define LOST_IN_A_ROW 3u /* readings after which a GPU counts as gone */

/* A set as one GPU has it. */
typedef struct row {
    uint32_t series; /* bit per series that this GPU measures; 0: not registered */
    int32_t number;  /* of registerCounters */
    uint32_t count;  /* samples that wait */
    int64_t times[BATCH];
    cp_nvml_value values[BATCH * CP_NVML_MAX_SERIES];
} row;

typedef struct board {
    cp_nvml_gpu gpu;
    uint32_t lost; /* readings in a row that found it gone */
    row rows[CP_NVML_SETS];
} board;

static struct {
    cp_ticker ticker;
    const KinetoPlugin_TraceBuilder *builder;
    bool ready;
    board *boards;
    uint32_t board_count;
    int64_t flushed_ns;
    uint64_t failed; /* readings of series that had worked before */
    cp_nvml_result problem;
} session;

static uint64_t host_ticks(void)
{
    return session.builder->hostTicks(session.builder->pTraceBuilderHandle);
}

/* ---- what there is to measure --------------------------------------------------------------------- */

static bool announce(board *b, uint32_t index)
{
    const cp_nvml_set *set = &cp_nvml_sets[index];
    row *r = &b->rows[index];
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
    return session.builder->registerCounters(session.builder->pTraceBuilderHandle, &counters,
                                             &r->number) == 0;
}

/* The series that are missing of one GPU: "energy, memory clock". */
static void list_missing(const board *b, char *text, size_t size)
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

/* A first reading tells what a GPU has; it is no sample. */
static void probe(board *b)
{
    cp_nvml_value values[CP_NVML_MAX_SERIES];
    cp_nvml_result problem = CP_NVML_SUCCESS;
    char missing[CP_TEXT_BYTES];
    for (uint32_t s = 0; s < CP_NVML_SETS; s++)
        b->rows[s].series = cp_nvml_sets[s].read(b->gpu.handle, values, &problem);
    list_missing(b, missing, sizeof missing);
    if (missing[0])
        cp_note(session.builder, "not measured by the GPU", 1, false,
                "GPU %d does not tell: %s; the last reason given is: %s", b->gpu.id, missing,
                cp_nvml_problem(problem));
}

/* The sets that matter most first, of all GPUs, as room may end. */
static void announce_all(void)
{
    uint64_t refused = 0;
    for (uint32_t s = 0; s < CP_NVML_SETS; s++) {
        for (uint32_t i = 0; i < session.board_count; i++) {
            board *b = &session.boards[i];
            if (!b->rows[s].series || announce(b, s))
                continue;
            b->rows[s].series = 0;
            refused++;
        }
    }
    if (refused)
        cp_note(
            session.builder, "no room for rows of counters", refused, false,
            "%llu rows of power and such of GPUs are left out: the recorder has no room for more",
            (unsigned long long)refused);
}

static void explain_numbers(void)
{
    uint64_t instances = 0, own = 0;
    for (uint32_t i = 0; i < session.board_count; i++) {
        instances += session.boards[i].gpu.of_instance;
        own += session.boards[i].gpu.is_nvml_number;
    }
    if (instances)
        cp_note(session.builder, "counters of whole GPUs", instances, false,
                "The program uses instances (MIG); power and such are those of the whole GPU, and "
                "stand with its first instance");
    if (own)
        cp_note(
            session.builder, "GPUs numbered by NVML", own, false,
            "CUDA does not tell its devices: power and such are of all GPUs of the machine, with "
            "the numbers that nvidia-smi shows");
}

/* False: not yet, or no memory. */
static bool prepare(void)
{
    cp_nvml_gpu gpus[CP_MAX_DEVICES];
    uint32_t count = 0;
    if (!cp_nvml_find(gpus, &count))
        return false;
    free(session.boards);
    session.boards = calloc(count ? count : 1, sizeof *session.boards);
    if (!session.boards)
        return false;
    session.board_count = count;
    for (uint32_t i = 0; i < count; i++) {
        session.boards[i].gpu = gpus[i];
        probe(&session.boards[i]);
    }
    announce_all();
    explain_numbers();
    session.ready = true;
    return true;
}

/* ---- sampling ------------------------------------------------------------------------------------- */

static uint32_t series_count(const row *r) { return (uint32_t)__builtin_popcount(r->series); }

static void flush_row(row *r)
{
    const KinetoPlugin_TraceBuilder *b = session.builder;
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

static void flush_all(void)
{
    for (uint32_t i = 0; i < session.board_count; i++) {
        for (uint32_t s = 0; s < CP_NVML_SETS; s++)
            flush_row(&session.boards[i].rows[s]);
    }
    session.flushed_ns = cp_monotonic_ns();
}

/* Values of the series that the row has, one after the other. */
static void keep(row *r, int64_t time, const cp_nvml_value *values)
{
    cp_nvml_value *to = r->values + (size_t)r->count * series_count(r);
    for (uint32_t i = 0; i < CP_NVML_MAX_SERIES; i++) {
        if (r->series >> i & 1)
            *to++ = values[i];
    }
    r->times[r->count++] = time;
    if (r->count == BATCH)
        flush_row(r);
}

/* False: the GPU is gone. */
static bool sample(board *b, uint32_t index)
{
    cp_nvml_value values[CP_NVML_MAX_SERIES] = {{0}};
    cp_nvml_result problem = CP_NVML_SUCCESS;
    row *r = &b->rows[index];
    uint64_t before = host_ticks();
    uint32_t done = cp_nvml_sets[index].read(b->gpu.handle, values, &problem);
    uint64_t after = host_ticks();
    if ((done & r->series) == r->series) {
        keep(r, cp_middle(before, after), values);
        return true;
    }
    session.failed++;
    session.problem = problem;
    return problem != CP_NVML_GPU_IS_LOST;
}

static void sample_board(board *b)
{
    bool there = true;
    for (uint32_t s = 0; s < CP_NVML_SETS && there && b->lost < LOST_IN_A_ROW; s++) {
        if (b->rows[s].series)
            there = sample(b, s);
    }
    b->lost = there && b->lost < LOST_IN_A_ROW ? 0 : b->lost + !there;
}

static void tick(void)
{
    if (!session.ready && !prepare())
        return;
    for (uint32_t i = 0; i < session.board_count; i++)
        sample_board(&session.boards[i]);
    if (cp_monotonic_ns() - session.flushed_ns >= LONGEST_NS)
        flush_all();
}

/* ---- start and stop ------------------------------------------------------------------------------- */

/* In a fork's child all this is the parent's. */
static void forget(void)
{
    free(session.boards);
    memset(&session, 0, sizeof session);
}

bool cp_nvml_start(const cp_options *options, const KinetoPlugin_TraceBuilder *builder,
                   char why[CP_TEXT_BYTES])
{
    bool wanted = options->types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER & 1;
    if (!options->nvml_interval_ms || !wanted)
        return true;
    if (cp_ticker_runs(&session.ticker)) {
        snprintf(why, CP_TEXT_BYTES, "power and such are being sampled already");
        return false;
    }
    forget();
    if (!cp_counters_possible(builder, why) || !cp_nvml_open(why))
        return false;
    session.builder = builder;
    session.flushed_ns = cp_monotonic_ns();
    if (cp_ticker_start(&session.ticker, "ckineto-nvml", options->nvml_interval_ms * NS_PER_MS,
                        tick, why))
        return true;
    cp_nvml_close();
    return false;
}

static void tell_ledger(void)
{
    if (!session.ready)
        cp_note(session.builder, "no counters of GPUs", 1, false,
                "The program did not start CUDA: power and such were not read");
    else if (!session.board_count)
        cp_note(session.builder, "no counters of GPUs", 1, false,
                "NVML shows none of the GPUs that the program uses");
    if (session.failed)
        cp_note(session.builder, "readings that failed", session.failed, true,
                "%llu readings of power and such failed; the last because: %s",
                (unsigned long long)session.failed, cp_nvml_problem(session.problem));
    if (session.ticker.skipped)
        cp_note(
            session.builder, "readings left out", session.ticker.skipped, false,
            "%llu readings of power and such were left out, as one took longer than the interval: "
            "choose a longer one",
            (unsigned long long)session.ticker.skipped);
}

void cp_nvml_stop(void)
{
    if (cp_ticker_stop(&session.ticker)) {
        tick(); /* the energy at the end */
        flush_all();
        tell_ledger();
        cp_nvml_close();
    }
    forget();
}
