/* What the scripted host does. */
#include "host.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static host h; /* the one that runs */

/* ---- kernels: the software accelerator, if it is there ------------------------------------------- */

static int (*sim_launch)(uint32_t, const char *, uint32_t, void (*)(void *, uint32_t), void *);
static void (*sim_synchronize)(uint32_t);

static void load_device(void)
{
    const char *path = getenv("SIM");
    void *sim = path ? dlopen(path, RTLD_NOW | RTLD_GLOBAL) : NULL;
    void *symbol = sim ? dlsym(sim, "sim_launch") : NULL;
    memcpy(&sim_launch, &symbol, sizeof symbol);
    symbol = sim ? dlsym(sim, "sim_synchronize") : NULL;
    memcpy(&sim_synchronize, &symbol, sizeof symbol);
}

/* Kernels of two processes that meet, as those of NCCL do: BARRIER is a file of counters. */
static uint32_t *meetings;
static void load_barrier(void)
{
    const char *path = getenv("BARRIER");
    int fd = path ? open(path, O_RDWR | O_CREAT, 0600) : -1;
    if (fd < 0 || ftruncate(fd, 4096))
        return;
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    meetings = map == MAP_FAILED ? NULL : map;
}

static void spin(void *args, uint32_t item)
{
    static uint32_t next;
    struct timespec t = {0, 200000};
    uint32_t *meeting = meetings ? &meetings[next++ % 1024] : NULL;
    (void)args, (void)item;
    if (meeting)
        __atomic_fetch_add(meeting, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; meeting && i < 200000 && __atomic_load_n(meeting, __ATOMIC_SEQ_CST) < 2; i++)
        usleep(20);
    nanosleep(&t, NULL);
}

static void launch_kernel(void)
{
    if (sim_launch)
        sim_launch(0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1, spin, NULL);
}
static void launch_broadcast(void)
{
    if (sim_launch)
        sim_launch(0, "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 1, spin, NULL);
}
static void launch_messages(void)
{
    if (sim_launch)
        sim_launch(0, "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", 1, spin, NULL);
}

/* ---- scenarios ------------------------------------------------------------------------------------- */

typedef struct job {
    comm *c;
    void *parent;
} job;

/* NCCL's proxy thread: channels, and operations with steps. */
static void *run_proxy(void *argument)
{
    job *j = argument;
    run_channels(j->c, j->parent, 2, 100000);
    void *op = start(j->c, &(task){.type = NC_PROXY_OP, .parent = j->parent, .peer = 1, .channel = 1, .is_send = true});
    record_state(&h, op, NC_STATE_OP_IN_PROGRESS, 0);
    for (int i = 0; i < 2; i++) {
        void *step = start(j->c, &(task){.type = NC_PROXY_STEP, .parent = op, .step = i});
        record_state(&h, step, 8, 0);
        record_state(&h, step, 9, 4096);
        void *net = start(j->c, &(task){.type = NC_NET_PLUGIN, .parent = step});
        record_state(&h, net, NC_STATE_NET_UPDATE, 0);
        stop(&h, net);
        stop(&h, step);
    }
    stop(&h, op);
    void *control = start(j->c, &(task){.type = NC_PROXY_CTRL});
    record_state(&h, control, NC_STATE_CTRL_SLEEP, 0);
    stop(&h, control);
    return NULL;
}

static void run_and_wait(comm *c, void *parent)
{
    pthread_t thread;
    job j = {c, parent};
    pthread_create(&thread, NULL, run_proxy, &j);
    pthread_join(thread, NULL);
}

static void send_message(comm *c, const char *func, int peer, void *group)
{
    void *p2p = start(c, &(task){.type = NC_P2P, .group = group, .func = func, .count = 256, .dtype = "ncclFloat32", .peer = peer, .channels = 1});
    stop(&h, p2p);
    run_channels(c, p2p, 1, 10000);
}

/* Sends and receives of one group, in one kernel. */
static void exchange(comm *c, int peer)
{
    void *api = start(c, &(task){.type = NC_GROUP_API});
    stop(&h, start(c, &(task){.type = NC_P2P_API, .parent = api, .func = "Send", .count = 256, .dtype = "ncclFloat32"}));
    stop(&h, start(c, &(task){.type = NC_P2P_API, .parent = api, .func = "Recv", .count = 256, .dtype = "ncclFloat32"}));
    void *launch = start(c, &(task){.type = NC_KERNEL_LAUNCH, .parent = api});
    launch_messages();
    stop(&h, launch);
    void *group = start(c, &(task){.type = NC_GROUP});
    send_message(c, "Send", peer, group);
    send_message(c, "Recv", peer, group);
    stop(&h, group);
    stop(&h, api);
}

static void use_copy_engines(comm *c)
{
    void *coll = start(c, &(task){.type = NC_CE_COLL, .func = "AllGather", .count = 64, .dtype = "ncclInt8"});
    stop(&h, start(c, &(task){.type = NC_CE_SYNC, .parent = coll}));
    stop(&h, start(c, &(task){.type = NC_CE_BATCH, .parent = coll}));
    stop(&h, coll);
}

static int rank_of_job(void) { return getenv("RANK") ? atoi(getenv("RANK")) : 0; }

static void train(void)
{
    int rank = rank_of_job();
    comm world = comm_begin(&h, 0xabcd0123u, "dp", 2, rank), pair = comm_begin(&h, 0x77u, NULL, 2, 1 - rank);
    for (int i = 0; i < 5; i++) {
        struct timespec late = {0, rank ? 8000000 : 0}; /* rank 1 computes longer */
        nanosleep(&late, NULL);
        run_and_wait(&world, collective(&world, "AllReduce", 1024, 2, launch_kernel));
        void *last = collective(&pair, "Broadcast", 64, 1, launch_broadcast);
        run_channels(&pair, last, 1, 1000);
        collective(&world, "Broadcast", 32, 0, launch_broadcast);
    }
    exchange(&world, 1 - rank);
    use_copy_engines(&world);
    comm_end(&pair);
    comm_end(&world);
    if (sim_synchronize)
        sim_synchronize(0);
}

/* Whatever a host may do wrong. */
static void misbehave(void)
{
    comm c = comm_begin(&h, 1, "wrong", 2, 0);
    void *handle = NULL, *coll = collective(&c, "AllReduce", 8, 0, NULL);
    h.table->start(c.context, &handle, NULL);
    h.table->start(c.context, NULL, NULL);
    h.table->start(NULL, &handle, NULL);
    h.table->stop(NULL);
    for (int i = 0; i < 3; i++)
        h.table->stop(coll);
    h.table->stop((void *)0x123456789abc);
    h.table->record((void *)0x10, 9, NULL);
    h.table->record(coll, 99, NULL);
    h.table->record(NULL, 9, NULL);
    start(&c, &(task){.type = NC_KERNEL_CH, .parent = (void *)0xdead});
    start(&c, &(task){.type = NC_PROXY_STEP, .parent = (void *)-1});
    /* a channel before its collective, one more than it has, and one that stops without a time */
    void *group = start(&c, &(task){.type = NC_GROUP});
    coll = start(&c, &(task){.type = NC_COLL, .group = group, .func = "AllReduce", .dtype = "ncclFloat32", .channels = 1});
    run_channels(&c, coll, 2, 0);
    stop(&h, start(&c, &(task){.type = NC_KERNEL_CH, .parent = coll, .timer = 5}));
    stop(&h, coll);
    stop(&h, coll);
    stop(&h, group);
    /* a function and a type that nobody has heard of, and none at all */
    stop(&h, start(&c, &(task){.type = NC_COLL, .func = "\x01Strange\xff name of a function that is much longer than any", .dtype = "x", .group = group}));
    if (h.version > 1)
        stop(&h, start(&c, &(task){.type = NC_COLL, .func = NULL, .dtype = NULL, .group = group}));
    void *open = start(&c, &(task){.type = NC_GROUP_API});
    comm_end(&c); /* early: events are open */
    stop(&h, open);
    start(&c, &(task){.type = NC_GROUP_API});
    comm_end(&c);
    h.table->finalize(NULL);
    h.table->finalize((void *)0x40);
}

static void leave_open(void)
{
    comm c = comm_begin(&h, 2, "open", 2, 0);
    start(&c, &(task){.type = NC_GROUP_API});
    collective(&c, "AllReduce", 8, 3, NULL); /* its channels never run */
    start(&c, &(task){.type = NC_PROXY_OP, .peer = 1});
    usleep(1000);
}

static void run_foreign(void)
{
    comm c = comm_begin(&h, 3, "pxn", 2, 0);
    void *coll = collective(&c, "AllReduce", 8, 0, NULL);
    stop(&h, start(&c, &(task){.type = NC_PROXY_OP, .parent = (void *)0x5000, .peer = 1, .pid = getpid() + 1}));
    stop(&h, start(&c, &(task){.type = NC_PROXY_OP, .parent = coll, .peer = 1, .pid = getpid() + 1})); /* equal by chance */
    stop(&h, start(&c, &(task){.type = NC_PROXY_OP, .parent = coll, .peer = 1}));
    comm_end(&c);
}

static void flood(void)
{
    comm c = comm_begin(&h, 4, "flood", 2, 0);
    for (int i = 0; i < 20000; i++)
        start(&c, &(task){.type = NC_GROUP});
    comm_end(&c);
}

#define THREADS 8
static void *hammer(void *argument)
{
    comm *c = argument;
    for (int i = 0; i < 300; i++) {
        void *coll = collective(c, i % 2 ? "AllReduce" : "Broadcast", 16, 2, NULL);
        run_channels(c, coll, 2, 0);
        stop(&h, coll);
    }
    return NULL;
}

/* One communicator on several threads at once, which NCCL does not allow, and one for each of the others. */
static void use_threads(void)
{
    pthread_t threads[THREADS];
    comm shared = comm_begin(&h, 5, "shared", 2, 0), own[THREADS], copies[THREADS];
    for (int i = 0; i < THREADS; i++) {
        own[i] = comm_begin(&h, 100 + (unsigned)i, NULL, 2, 0);
        copies[i] = shared; /* NCCL's own counters are not meant */
        pthread_create(&threads[i], NULL, hammer, i % 2 ? &copies[i] : &own[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        comm_end(&own[i]);
    comm_end(&shared);
}

static void fork_within(void)
{
    comm c = comm_begin(&h, 6, "fork", 2, 0);
    void *coll = collective(&c, "AllReduce", 8, 1, NULL);
    pid_t child = fork();
    if (child == 0) {
        run_channels(&c, coll, 1, 0);
        collective(&c, "AllReduce", 8, 0, NULL);
        comm_end(&c);
        _exit(atomic_load(&h.errors) ? 1 : 0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    run_channels(&c, coll, 1, 0);
    comm_end(&c);
    printf("child %d\n", status);
}

static void use_many(void)
{
    comm c[300];
    for (int i = 0; i < 300; i++)
        c[i] = comm_begin(&h, 1000 + (unsigned)i, NULL, 2, 0);
    for (int i = 0; i < 300; i++)
        collective(&c[i], "AllReduce", 8, 0, NULL);
    for (int i = 0; i < 300; i++)
        comm_end(&c[i]);
}

bool run_scenario(host *by, const char *name)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenarios[] = {{"train", train}, {"wrong", misbehave},    {"open", leave_open}, {"foreign", run_foreign},
                     {"flood", flood}, {"threads", use_threads}, {"fork", fork_within}, {"many", use_many}};
    h.version = by->version;
    h.table = by->table;
    load_device();
    load_barrier();
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(name, scenarios[i].name) == 0) {
            scenarios[i].run();
            by->mask = host_mask(&h);
            atomic_store(&by->errors, atomic_load(&h.errors));
            return true;
        }
    return false;
}
