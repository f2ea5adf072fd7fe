/* The device half: queues, each a thread that does one piece of work after the other; memory,
 * sensors and a clock of its own. It tells a hook what happens, and knows no more of profilers. */
#include "sim.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define RING 64u

static struct queue {
    bool on;
    uint64_t queued, done; /* counts; what is between them lies in the ring */
    sim_work ring[RING];
} queues[SIM_QUEUES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void (*_Atomic hooked)(sim_phase, sim_work *);
static atomic_ullong last_id, memory_used, busy;
static atomic_llong clock_offset = 7000000000000000;

void sim_hook(void (*hook)(sim_phase, sim_work *)) { atomic_store(&hooked, hook); }
void sim_time_jump(int64_t ns) { atomic_fetch_add(&clock_offset, ns); }

static int64_t host_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

int64_t sim_time(void)
{
    int64_t ns = host_ns();
    return ns + ns / 25000 + atomic_load(&clock_offset);
}

uint64_t sim_sensor(int sensor)
{
    return sensor == SIM_WATTS ? 15 + 60 * atomic_load(&busy) : atomic_load(&memory_used);
}

static void tell(sim_phase phase, sim_work *work)
{
    void (*hook)(sim_phase, sim_work *) = atomic_load(&hooked);
    if (hook)
        hook(phase, work);
}

static void execute(sim_work *w)
{
    atomic_fetch_add(&busy, 1);
    w->start = sim_time();
    for (uint32_t i = 0; i < w->rows; i++) {
        if (w->operation == SIM_KERNEL)
            w->kernel(w->to, i);
        else
            memcpy((char *)w->to + i * w->row_bytes, (const char *)w->from + i * w->pitch,
                   w->row_bytes);
    }
    w->end = sim_time();
    tell(SIM_FINISH, w);
    atomic_fetch_sub(&busy, 1);
}

static void *serve(void *queue)
{
    struct queue *q = queue;
    pthread_mutex_lock(&lock);
    while (q->on) {
        if (q->done == q->queued) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        sim_work work = q->ring[q->done % RING];
        pthread_mutex_unlock(&lock);
        execute(&work);
        pthread_mutex_lock(&lock);
        q->done++;
        pthread_cond_broadcast(&changed);
    }
    return NULL;
}

/* A queue gets its thread with its first work. */
static bool switch_on(struct queue *q)
{
    pthread_t thread;
    if (!q->on && pthread_create(&thread, NULL, serve, q) == 0)
        q->on = pthread_detach(thread) == 0; /* it stays until the process ends */
    return q->on;
}

/* Every call about work: it goes into the ring, or (WAIT) the ring shall be empty. */
static void submit(uint32_t queue, const char *name, sim_work w)
{
    struct queue *q = &queues[queue % SIM_QUEUES];
    w.id = atomic_fetch_add(&last_id, 1) + 1;
    w.queue = queue % SIM_QUEUES;
    strncpy(w.name, name, sizeof w.name - 1);
    w.call_start = host_ns();
    tell(SIM_LAUNCH, &w);
    pthread_mutex_lock(&lock);
    while (q->queued - q->done >= (w.operation == SIM_WAIT ? 1 : RING))
        pthread_cond_wait(&changed, &lock);
    bool accepted = w.operation == SIM_WAIT || switch_on(q);
    if (accepted && w.operation != SIM_WAIT)
        q->ring[q->queued++ % RING] = w;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (!accepted)
        execute(&w); /* no thread to be had: late, but done */
    w.call_end = host_ns();
    tell(SIM_RETURN, &w);
}

void sim_launch(uint32_t queue, const char *name, uint32_t grid, sim_kernel kernel, void *arguments)
{
    submit(queue, name, (sim_work){.rows = grid, .kernel = kernel, .to = arguments});
}

void sim_copy(uint32_t queue, void *to, const void *from, size_t bytes)
{
    sim_work w = {.operation = SIM_COPY, .to = to, .from = from, .rows = 1, .row_bytes = bytes};
    submit(queue, "Memcpy", w);
}

void sim_dma(uint32_t queue, void *to, const void *from, size_t pitch, size_t row_bytes,
             uint32_t rows)
{
    sim_work w = {.operation = SIM_DMA, .to = to, .from = from, .rows = rows};
    w.pitch = pitch;
    w.row_bytes = row_bytes;
    submit(queue, "Gather", w);
}

void sim_synchronize(uint32_t queue) { submit(queue, "", (sim_work){.operation = SIM_WAIT}); }

void *sim_alloc(size_t bytes)
{
    void *memory = calloc(1, bytes);
    if (memory)
        atomic_fetch_add(&memory_used, bytes);
    return memory;
}

void sim_free(void *memory, size_t bytes)
{
    if (memory)
        atomic_fetch_sub(&memory_used, bytes);
    free(memory);
}
