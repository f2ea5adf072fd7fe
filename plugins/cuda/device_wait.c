/* Waits for running GPU work with a limit: a kernel may never end, and the program must exit as it
 * would without us. The waiting is done by a thread that is abandoned after the limit. */
#include "cuda.h"

#include <stdlib.h>

#define MAX_WAIT_NS INT64_C(5000000000)

/* Shared by the waiting thread and its caller; the last owner frees it. */
typedef struct device_wait {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    cp_context context;
    bool done;
    int owners;
} device_wait;

static device_wait *create_wait(cp_context context)
{
    device_wait *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->context = context;
    w->owners = 2;
    pthread_mutex_init(&w->mutex, NULL);
    cp_condition_init(&w->changed);
    return w;
}

/* Drops one owner and frees after the last. The mutex is held, and released. */
static void release_wait(device_wait *w)
{
    bool last = --w->owners == 0;
    pthread_mutex_unlock(&w->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

/* The waiting thread. It uses the context of the caller, which stays current there, too. */
static void *run_synchronize(void *argument)
{
    device_wait *w = argument;
    if (cp_driver.context_set(w->context) == 0)
        (void)cp_driver.context_synchronize();
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    pthread_cond_signal(&w->changed);
    release_wait(w);
    return NULL;
}

/* Waits for the thread up to the limit. False: the device was still busy. */
static bool wait_with_limit(device_wait *w)
{
    int64_t until_ns = cp_monotonic_ns() + MAX_WAIT_NS;
    pthread_mutex_lock(&w->mutex);
    while (!w->done && cp_monotonic_ns() < until_ns)
        (void)cp_condition_wait(&w->changed, &w->mutex, until_ns);
    bool done = w->done;
    release_wait(w);
    return done;
}

bool cp_wait_for_device(void)
{
    cp_context context = NULL;
    pthread_t thread;
    if (!cp_driver.context_current || !cp_driver.context_set || !cp_driver.context_synchronize ||
        cp_driver.context_current(&context) != 0 || !context)
        return true;
    device_wait *w = create_wait(context);
    if (!w)
        return true;
    if (cp_thread_start(&thread, "ckineto-wait", run_synchronize, w) != 0) {
        pthread_mutex_lock(&w->mutex);
        w->owners = 1;
        release_wait(w);
        return true;
    }
    (void)pthread_detach(thread);
    return wait_with_limit(w);
}
