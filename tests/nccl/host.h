/* A scripted host: drives a profiler plug-in as NCCL does, without NCCL or a GPU. */
#ifndef TESTS_NCCL_HOST_H
#define TESTS_NCCL_HOST_H

#include "abi.h"

#include <stdatomic.h>

typedef struct host {
    unsigned version;
    const nc_table *table;
    int mask; /* NCCL's one mask; accessed as NCCL does */
    atomic_int errors; /* results that are not 0 */
} host;

/** Loads the plug-in that NCCL_PROFILER_PLUGIN names and takes its newest table, of at most `newest`. Exits if there is none. */
void host_load(host *h, unsigned newest);
int host_mask(host *h);

typedef struct comm {
    host *h;
    void *context;
    uint64_t id, sequence[2]; /* of all reduces and broadcasts */
    const char *name;
    int rank, ranks;
} comm;
comm comm_begin(host *h, uint64_t id, const char *name, int ranks, int rank);
void comm_end(comm *c);

/** What a task is. Members that a version does not have are left out. */
typedef struct task {
    int type; /* NC_… */
    void *parent, *group;
    const char *func, *dtype;
    uint64_t sequence, count;
    int root, peer, channel, channels, pid, step;
    uint64_t timer;
    void *stream;
    bool is_captured, is_send;
} task;
/** NULL where the version does not have the type, or the plug-in did not ask for it. */
void *start(comm *c, const task *t);
void stop(host *h, void *handle);
void record_state(host *h, void *handle, int state, uint64_t value);

/** One collective as NCCL reports it: calls, launch, tasks; channels later on another thread. */
void *collective(comm *c, const char *func, uint64_t count, int channels, void (*launch)(void));
/** The channels of a task; GPU times. */
void run_channels(comm *c, void *task, int channels, uint64_t duration_ns);
uint64_t gpu_now(void);

/** One of scenarios.c, by name. False: there is none of that name. */
bool run_scenario(host *h, const char *name);
#endif
