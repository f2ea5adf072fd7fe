/* The session of ROCm SMI sampling: a thread reads all sets of all GPUs at the chosen rate and hands the
 * samples over. Only the ticker's thread uses the boards while it runs. */
#include "smi.h"

#include <stdio.h>
#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)
/* Failed readings in a row after which a set of a GPU is not read any more. */
#define MAX_FAILURES 3u

typedef struct sensor_row {
    uint32_t series; /* bit per series that this GPU measures; 0: not registered, or given up */
    int32_t number;  /* from registerCounters */
    uint32_t failures;
} sensor_row;
typedef struct sensor_board {
    uint32_t gpu; /* the library's number */
    int32_t id;   /* HIP's */
    sensor_row rows[RP_SMI_SETS];
} sensor_board;

static struct {
    cp_ticker ticker;
    const KinetoPlugin_TraceBuilder *builder;
    sensor_board boards[RP_MAX_DEVICES];
    uint32_t board_count;
    uint64_t failed;
    rp_smi_status problem;
} smi;

/* ---- available series ------------------------------------------------------------------------ */

/* Registers the series that a GPU has; false: the host has no space for more rows. */
static bool register_sensor_row(sensor_board *b, uint32_t index)
{
    const rp_smi_set *set = &rp_smi_sets[index];
    const char *names[RP_SMI_MAX_SERIES], *units[RP_SMI_MAX_SERIES];
    uint32_t count = 0;
    for (uint32_t i = 0; i < set->series_count; i++)
        if (b->rows[index].series >> i & 1) {
            names[count] = set->series[i];
            units[count++] = set->units[i];
        }
    KinetoPlugin_CounterSet counters = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSet, pUnits),
        .pName = set->name,
        .eventType = KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER,
        .deviceId = b->id,
        .valueType = set->value_type,
        .seriesCount = count,
        .pSeriesNames = names,
        .pUnits = units};
    return smi.builder->registerCounters(smi.builder->pTraceBuilderHandle, &counters,
                                         &b->rows[index].number) == 0;
}

/* A first reading, which is not recorded, finds the series that a GPU has. */
static void probe_sensors(sensor_board *b)
{
    rp_smi_value values[RP_SMI_MAX_SERIES];
    rp_smi_status problem = RP_SMI_SUCCESS;
    char missing[CP_TEXT_BYTES] = "";
    size_t n = 0;
    for (uint32_t s = 0; s < RP_SMI_SETS; s++) {
        b->rows[s].series = rp_smi_sets[s].read(b->gpu, values, &problem);
        for (uint32_t i = 0; i < rp_smi_sets[s].series_count && n < sizeof missing; i++)
            if (!(b->rows[s].series >> i & 1))
                n += (size_t)snprintf(missing + n, sizeof missing - n, "%s%s", n ? ", " : "",
                                      rp_smi_sets[s].series[i]);
        if (b->rows[s].series && !register_sensor_row(b, s))
            b->rows[s].series = 0;
    }
    if (n)
        cp_note(smi.builder, "not measured by the GPU", 1, false,
                "GPU %d does not measure: %s; the last reason was: %s", b->id, missing,
                rp_smi_problem(problem));
}

/* The GPUs of the program that ROCm SMI knows, too. */
static void find_boards(void)
{
    const rp_device *device;
    for (uint32_t i = 0; (device = rp_device_at(i)) != NULL; i++) {
        int64_t gpu = rp_smi_find(device);
        if (gpu < 0)
            continue;
        sensor_board *b = &smi.boards[smi.board_count++];
        *b = (sensor_board){.gpu = (uint32_t)gpu, .id = device->id};
        probe_sensors(b);
    }
}

/* ---- sampling -------------------------------------------------------------------------------- */

static uint64_t read_smi_ticks(void)
{
    return smi.builder->hostTicks(smi.builder->pTraceBuilderHandle);
}

/* Hands over one sample: the values of the series that the row has, one after the other. */
static void deliver_sample(const sensor_row *r, int64_t time, const rp_smi_value *values)
{
    const KinetoPlugin_TraceBuilder *b = smi.builder;
    rp_smi_value packed[RP_SMI_MAX_SERIES], *to = packed;
    for (uint32_t i = 0; i < RP_SMI_MAX_SERIES; i++)
        if (r->series >> i & 1)
            *to++ = values[i];
    KinetoPlugin_CounterSamples samples = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_CounterSamples, pValues),
        .set = r->number,
        .clock = KINETO_PLUGIN_CLOCK_TICKS,
        .count = 1,
        .pTimes = &time,
        .pValues = packed};
    KinetoPlugin_Counts counts = {
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_Counts, dropped), .requested = 1};
    if (b->addCounts)
        (void)b->addCounts(b->pTraceBuilderHandle, &counts);
    (void)b->addCounterSamples(b->pTraceBuilderHandle, &samples);
}

/* Reads one set. The time is the midpoint of readings before and after. */
static void sample_sensor_row(const sensor_board *b, sensor_row *r, uint32_t index)
{
    rp_smi_value values[RP_SMI_MAX_SERIES] = {{0}};
    rp_smi_status problem = RP_SMI_SUCCESS;
    uint64_t before = read_smi_ticks();
    uint32_t done = rp_smi_sets[index].read(b->gpu, values, &problem);
    uint64_t after = read_smi_ticks();
    if ((done & r->series) == r->series) {
        r->failures = 0;
        deliver_sample(r, cp_midpoint(before, after), values);
        return;
    }
    smi.failed++;
    smi.problem = problem;
    if (++r->failures >= MAX_FAILURES)
        r->series = 0;
}

/* One tick of the thread. */
static void tick_smi(void)
{
    for (uint32_t i = 0; i < smi.board_count; i++)
        for (uint32_t s = 0; s < RP_SMI_SETS; s++)
            if (smi.boards[i].rows[s].series)
                sample_sensor_row(&smi.boards[i], &smi.boards[i].rows[s], s);
}

/* ---- start and stop -------------------------------------------------------------------------- */

bool rp_smi_start(const rp_options *options, const KinetoPlugin_TraceBuilder *builder,
                  char why[CP_TEXT_BYTES])
{
    if (!(options->types >> KINETO_PLUGIN_PROFILE_EVENT_TYPE_GPU_PM_COUNTER & 1))
        return true;
    if (!cp_check_counters(builder, why) || !rp_smi_open(why))
        return false;
    memset(&smi, 0, sizeof smi);
    smi.builder = builder;
    find_boards();
    if (cp_ticker_start(&smi.ticker, "ckineto-smi", options->smi_interval_ms * NS_PER_MS, tick_smi, why))
        return true;
    rp_smi_close();
    return false;
}

static void write_smi_ledger(void)
{
    if (!smi.board_count)
        cp_note(smi.builder, "no counters of GPUs", 1, false,
                "ROCm SMI shows none of the GPUs that the program uses");
    if (smi.failed)
        cp_note(smi.builder, "readings that failed", smi.failed, true,
                "%llu readings of sensors failed; the last because: %s", (unsigned long long)smi.failed,
                rp_smi_problem(smi.problem));
    if (smi.ticker.skipped)
        cp_note(smi.builder, "readings left out", smi.ticker.skipped, false,
                "%llu readings of sensors were skipped because one took longer than the interval; "
                "choose a longer one",
                (unsigned long long)smi.ticker.skipped);
}

void rp_smi_stop(void)
{
    if (!cp_ticker_stop(&smi.ticker))
        return;
    tick_smi(); /* a last reading, for the energy at the end */
    write_smi_ledger();
    rp_smi_close();
}
