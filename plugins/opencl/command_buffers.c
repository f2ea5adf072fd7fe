/* Command buffers (cl_khr_command_buffer): the queue that each is made for, which an enqueue may
 * leave out, and how many kernels it launches. A table with a lock: command buffers are made rarely,
 * and looked up once for each enqueue. One that finds no room has an activity only if the enqueue
 * names a queue. */
#include "opencl.h"

#define SLOTS      4096u
#define MAX_PROBES 64u

typedef struct command_buffer {
    void *handle;           /* NULL: never used */
    uint32_t references;    /* 0: the slot may be used again */
    uint32_t kernels;
    cl_command_queue queue; /* the first one */
} command_buffer;

static command_buffer buffers[SLOTS];
static pthread_mutex_t buffers_lock = PTHREAD_MUTEX_INITIALIZER;

static command_buffer *probe_slot(const void *handle, uint32_t probe)
{
    uint64_t hash = (uint64_t)(uintptr_t)handle * UINT64_C(0x9e3779b97f4a7c15) >> 32;

    return &buffers[(hash + probe) % SLOTS];
}

/* With the lock. NULL: unknown. */
static command_buffer *find_command_buffer(const void *handle)
{
    for (uint32_t probe = 0; handle && probe < MAX_PROBES; probe++) {
        command_buffer *b = probe_slot(handle, probe);
        if (b->handle == handle && b->references)
            return b;
        if (!b->handle)
            return NULL;
    }
    return NULL;
}

void co_command_buffer_add(void *handle, cl_command_queue queue)
{
    pthread_mutex_lock(&buffers_lock);
    command_buffer *b = find_command_buffer(handle); /* released by a copy that was not followed */
    for (uint32_t probe = 0; handle && !b && probe < MAX_PROBES; probe++)
        if (probe_slot(handle, probe)->references == 0)
            b = probe_slot(handle, probe);
    if (b)
        *b = (command_buffer){handle, 1, 0, queue};
    pthread_mutex_unlock(&buffers_lock);
}

void co_command_buffer_refer(void *handle, int change)
{
    pthread_mutex_lock(&buffers_lock);
    command_buffer *b = find_command_buffer(handle);
    if (b)
        b->references += (uint32_t)change;
    pthread_mutex_unlock(&buffers_lock);
}

void co_command_buffer_count_kernel(void *handle)
{
    pthread_mutex_lock(&buffers_lock);
    command_buffer *b = find_command_buffer(handle);
    if (b)
        b->kernels++;
    pthread_mutex_unlock(&buffers_lock);
}

cl_command_queue co_command_buffer_queue(void *handle)
{
    pthread_mutex_lock(&buffers_lock);
    const command_buffer *b = find_command_buffer(handle);
    cl_command_queue queue = b ? b->queue : NULL;
    pthread_mutex_unlock(&buffers_lock);
    return queue;
}

uint32_t co_command_buffer_kernels(void *handle)
{
    pthread_mutex_lock(&buffers_lock);
    const command_buffer *b = find_command_buffer(handle);
    uint32_t kernels = b ? b->kernels : 0;
    pthread_mutex_unlock(&buffers_lock);
    return kernels;
}

void co_command_buffers_after_fork(void) { pthread_mutex_init(&buffers_lock, NULL); }
