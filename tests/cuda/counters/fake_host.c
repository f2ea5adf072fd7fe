/* See fake_host.h. The sampler's thread calls while the test looks: one lock for all. */
#include "fake_host.h"

#include "fake_nvml.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static fake_host host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the host ------------------------------------------------------------------------------------ */

static uint64_t ticks(KinetoPlugin_TraceBuilderHandle *h)
{
    struct timespec t;
    (void)h;
    clock_gettime(CLOCK_MONOTONIC, &t);
    /* no clock of the system runs like this one */
    return 3 * ((uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec) + 12345;
}

static int register_counters(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_CounterSet *set,
                             int32_t *number)
{
    (void)h;
    pthread_mutex_lock(&lock);
    uint32_t n = host.set_count;
    bool taken = n < host.set_room;
    if (taken) {
        host_set *s = &host.sets[host.set_count++];
        snprintf(s->name, sizeof s->name, "%s", set->pName);
        s->type = set->eventType;
        s->device = set->deviceId;
        s->value_type = set->valueType;
        s->series_count = set->seriesCount;
        for (uint32_t i = 0; i < set->seriesCount; i++) {
            snprintf(s->series[i], sizeof s->series[i], "%s", set->pSeriesNames[i]);
            snprintf(s->units[i], sizeof s->units[i], "%s", set->pUnits[i] ? set->pUnits[i] : "");
        }
        *number = (int32_t)n + 7;
    }
    pthread_mutex_unlock(&lock);
    return !taken;
}

static double value_of(const host_set *s, const void *values, size_t i)
{
    if (s->value_type == KINETO_PLUGIN_VALUE_DOUBLE)
        return ((const double *)values)[i];
    return (double)((const uint64_t *)values)[i];
}

static void add_one(host_set *s, const KinetoPlugin_CounterSamples *samples, size_t i)
{
    int64_t time = samples->pTimes[i];
    for (uint32_t k = 0; k < s->series_count; k++) {
        s->last[k] = value_of(s, samples->pValues, i * s->series_count + k);
        if (!s->samples)
            s->first[k] = s->last[k];
    }
    if (!s->samples++)
        s->first_time = time;
    else
        s->backwards += time < s->last_time;
    s->last_time = time;
}

static int add_samples(KinetoPlugin_TraceBuilderHandle *h,
                       const KinetoPlugin_CounterSamples *samples)
{
    (void)h;
    pthread_mutex_lock(&lock);
    host_set *s = &host.sets[samples->set - 7];
    s->clock = samples->clock;
    for (size_t i = 0; i < samples->count; i++)
        add_one(s, samples, i);
    host.batches++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int add_counts(KinetoPlugin_TraceBuilderHandle *h, const KinetoPlugin_Counts *counts)
{
    (void)h;
    pthread_mutex_lock(&lock);
    host.requested += counts->requested;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int add_line(KinetoPlugin_TraceBuilderHandle *h, const char *reason, uint64_t count,
                    int32_t is_loss, const char *detail)
{
    (void)h;
    pthread_mutex_lock(&lock);
    if (host.line_count < HOST_LINES) {
        host_line *l = &host.lines[host.line_count++];
        snprintf(l->reason, sizeof l->reason, "%s", reason);
        snprintf(l->detail, sizeof l->detail, "%s", detail);
        l->count = count;
        l->is_loss = is_loss != 0;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int register_clock(KinetoPlugin_TraceBuilderHandle *h, const char *name, int32_t *number)
{
    (void)h;
    (void)name;
    *number = KINETO_PLUGIN_CLOCK_DEVICE;
    return 0;
}

static int clock_sample(KinetoPlugin_TraceBuilderHandle *h, int32_t clock, int64_t time,
                        uint64_t before, uint64_t after)
{
    (void)h;
    (void)clock;
    (void)time;
    pthread_mutex_lock(&lock);
    host.clock_samples++;
    host.narrow += after <= before;
    host.moved += before > host.bracket_start;
    host.bracket_start = before;
    pthread_mutex_unlock(&lock);
    return 0;
}

fake_host *host_new(void)
{
    pthread_mutex_lock(&lock);
    memset(&host, 0, sizeof host);
    host.set_room = HOST_SETS;
    host.builder = (KinetoPlugin_TraceBuilder){
        .unpaddedStructSize = KINETO_PLUGIN_SIZE(KinetoPlugin_TraceBuilder, addLedgerLine),
        .hostTicks = ticks,
        .registerClock = register_clock,
        .addClockSample = clock_sample,
        .addCounts = add_counts,
        .registerCounters = register_counters,
        .addCounterSamples = add_samples,
        .addLedgerLine = add_line};
    pthread_mutex_unlock(&lock);
    return &host;
}

const host_set *host_find(const char *name, int32_t device)
{
    for (uint32_t i = 0; i < host.set_count; i++) {
        if (strcmp(host.sets[i].name, name) == 0 && host.sets[i].device == device)
            return &host.sets[i];
    }
    return NULL;
}

const host_line *host_line_of(const char *reason)
{
    for (uint32_t i = 0; i < host.line_count; i++) {
        if (strcmp(host.lines[i].reason, reason) == 0)
            return &host.lines[i];
    }
    return NULL;
}

uint32_t host_lines(void) { return host.line_count - (host_line_of("readings left out") != NULL); }

uint64_t host_samples(const char *name, int32_t device)
{
    pthread_mutex_lock(&lock);
    const host_set *set = host_find(name, device);
    uint64_t samples = set ? set->samples : 0;
    pthread_mutex_unlock(&lock);
    return samples;
}

void host_wait(const char *name, int32_t device, uint64_t samples)
{
    for (int i = 0; i < 20000 && host_samples(name, device) < samples; i++)
        usleep(1000);
}

int host_series(const host_set *set, const char *series)
{
    for (uint32_t i = 0; i < set->series_count; i++) {
        if (strcmp(set->series[i], series) == 0)
            return (int)i;
    }
    return -1;
}

/* ---- the rest of the source ----------------------------------------------------------------------- */

fake_cuda cuda;
cp_cupti_api cp_cupti;
cp_driver_api cp_driver;

static cp_cuda_result device_count(int *count)
{
    *count = cuda.devices;
    return cuda.result;
}

void cuda_new(int devices)
{
    cp_driver.device_count = device_count;
    cuda.devices = devices;
    cuda.result = 0;
    for (int i = 0; i < 4; i++) {
        cuda.device[i] = (cp_device){.id = i, .major = 9, .minor = 0};
        snprintf(cuda.device[i].uuid, sizeof cuda.device[i].uuid, FAKE_UUID_FORMAT, (unsigned)i);
    }
}

void cp_source_install_exit_handler(void) {}

const cp_device *cp_device_of(uint32_t id)
{
    return id < (uint32_t)cuda.devices ? &cuda.device[id] : NULL;
}

uint32_t cp_cupti_version(void) { return 130202; }

const char *cp_result_text(cp_result result) { return result ? "some error" : "none"; }
