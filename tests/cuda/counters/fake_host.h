/* What is around the samplers in a test: a host that stores what it receives, and as much of the
 * rest of the source as they call. */
#ifndef TESTS_CUDA_FAKE_HOST_H
#define TESTS_CUDA_FAKE_HOST_H

#include "counters.h"

enum { HOST_SETS = 64, HOST_SAMPLES = 20000, HOST_LINES = 32 };

typedef struct host_set {
    char name[32];
    int32_t type, device, value_type;
    uint32_t series_count;
    char series[KINETO_PLUGIN_MAX_SERIES][64], units[KINETO_PLUGIN_MAX_SERIES][16];
    uint64_t samples;
    int64_t first_time, last_time;
    uint64_t backwards; /* samples that are earlier than the one before */
    int32_t clock;
    double first[KINETO_PLUGIN_MAX_SERIES], last[KINETO_PLUGIN_MAX_SERIES];
} host_set;

typedef struct host_line {
    char reason[64], detail[640];
    uint64_t count;
    bool is_loss;
} host_line;

typedef struct fake_host {
    KinetoPlugin_TraceBuilder builder;
    host_set sets[HOST_SETS];
    uint32_t set_count, set_room; /* room: how many it takes */
    host_line lines[HOST_LINES];
    uint32_t line_count;
    uint64_t requested, batches;
    uint64_t clock_samples, narrow; /* of a device clock; those whose bracket is empty */
    uint64_t bracket_start, moved;  /* of the last one; how often it was later than before */
} fake_host;

/* The one host; fresh after each call. */
fake_host *host_new(void);
/* NULL: not there. */
const host_set *host_find(const char *name, int32_t device);
const host_line *host_line_of(const char *reason);
/* Lines that do not only say that this machine was too busy for the rate. */
uint32_t host_lines(void);
uint64_t host_samples(const char *name, int32_t device);
/* Wait up to 20 s for N samples of a set. */
void host_wait(const char *name, int32_t device, uint64_t samples);
int host_series(const host_set *set, const char *series);

/* The CUDA driver: how many devices, what count says (0: fine), their UUIDs and age. */
typedef struct fake_cuda {
    _Atomic int devices, result;
    cp_device device[4];
} fake_cuda;
extern fake_cuda cuda;
void cuda_new(int devices);

#endif
