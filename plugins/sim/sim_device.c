/* The device: queues, each a thread that does one piece of work after the other, a power sensor,
 * and a clock of its own. It calls a hook for each piece of work and knows nothing of profilers. */
#include "sim.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING 64u
static struct queue {
    bool on;
    uint64_t queued, done; /* counts; the work between them is in the ring */
    sim_work ring[RING];
} queues[SIM_QUEUES];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static _Atomic int64_t last_id, busy, clock_offset = 7000000000000000;
static void ignore_work(sim_work *work, bool finished) { (void)work, (void)finished; }
static void (*_Atomic work_hook)(sim_work *, bool) = ignore_work;
void sim_hook(void (*hook)(sim_work *, bool)) { work_hook = hook; }
static int64_t get_host_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}
int64_t sim_time(void) { return (int64_t)((double)get_host_ns() * 1.00004) + clock_offset; }
void sim_time_jump(int64_t ns) { clock_offset += ns; }
uint64_t sim_watts(void) { return (uint64_t)(15 + 60 * busy); }

static void *run_queue(void *queue)
{
    struct queue *q = queue;
    for (pthread_mutex_lock(&lock); q->on; q->done++, pthread_cond_broadcast(&changed)) {
        while (q->done == q->queued)
            pthread_cond_wait(&changed, &lock);
        sim_work *w = &q->ring[q->done % RING];
        pthread_mutex_unlock(&lock);
        busy++;
        w->work.start = sim_time();
        for (uint32_t i = 0; w->kernel && i < w->size; i++)
            w->kernel(w->to, i);
        if (w->from)
            memcpy(w->to, w->from, w->size);
        w->work.end = sim_time();
        atomic_load (&work_hook)(w, true);
        busy--;
        pthread_mutex_lock(&lock);
    }
    return NULL;
}

/* The thread of a queue starts with the first work and never ends. */
static int submit_work(uint32_t queue, const char *call, const char *name, sim_work w)
{
    struct queue *q = &queues[queue % SIM_QUEUES];
    pthread_t thread;
    w.id = ++last_id;
    w.work = (sim_span){name, 0, 0, 0, (int32_t)(queue % SIM_QUEUES)};
    w.call = (sim_span){call, get_host_ns(), 0, getpid(), (int)syscall(SYS_gettid)};
    atomic_load (&work_hook)(&w, false);
    pthread_mutex_lock(&lock);
    while (q->queued - q->done == RING)
        pthread_cond_wait(&changed, &lock);
    if (!q->on && pthread_create(&thread, NULL, run_queue, q) == 0)
        q->on = pthread_detach(thread) == 0;
    w.call.end = get_host_ns();
    q->ring[q->queued % RING] = w;
    q->queued += q->on;
    int result = q->on ? 0 : -1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return result;
}
int sim_launch(uint32_t queue, const char *name, uint32_t grid, sim_kernel kernel, void *arguments)
{
    return submit_work(queue, "simLaunch", name,
                  (sim_work){SIM_KERNEL, grid, kernel, arguments, .id = 0});
}
int sim_copy(uint32_t queue, void *to, const void *from, uint32_t bytes)
{
    sim_work w = {queue % SIM_QUEUES == SIM_DMA_ENGINE ? SIM_DMA : SIM_COPY, bytes, NULL, to,
                  .from = from};
    return submit_work(queue, "simCopy", "Memcpy", w);
}
void sim_synchronize(uint32_t queue)
{
    struct queue *q = &queues[queue % SIM_QUEUES];
    pthread_mutex_lock(&lock);
    while (q->done != q->queued)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
