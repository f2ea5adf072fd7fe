/* Waiting for the work that is under way, with a limit: a kernel may never end, and the program is to
 * end as it would without us. */
#include "cuda.h"

#include <stdlib.h>

#define PATIENCE_NS INT64_C(5000000000)

/* The thread that waits has it, and who waits for the thread: the last of them frees it. */
typedef struct waiting {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    cp_context context;
    bool done;
    int owners;
} waiting;

static waiting *make(cp_context context)
{
    waiting *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->context = context;
    w->owners = 2;
    pthread_mutex_init(&w->mutex, NULL);
    cp_condition_init(&w->changed);
    return w;
}

/* The mutex is held. */
static void leave(waiting *w)
{
    bool last = --w->owners == 0;
    pthread_mutex_unlock(&w->mutex);
    if (!last)
        return;
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    free(w);
}

static void *synchronize(void *argument)
{
    waiting *w = argument;
    if (cp_driver.context_set(w->context) == 0)
        (void)cp_driver.context_synchronize();
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    pthread_cond_signal(&w->changed);
    leave(w);
    return NULL;
}

/* False: it was still busy. */
static bool wait_for(waiting *w)
{
    int64_t until_ns = cp_monotonic_ns() + PATIENCE_NS;
    pthread_mutex_lock(&w->mutex);
    while (!w->done && cp_monotonic_ns() < until_ns)
        (void)cp_condition_wait(&w->changed, &w->mutex, until_ns);
    bool done = w->done;
    leave(w);
    return done;
}

bool cp_wait_for_device(void)
{
    cp_context context = NULL;
    pthread_t thread;
    if (!cp_driver.context_current || !cp_driver.context_set || !cp_driver.context_synchronize ||
        cp_driver.context_current(&context) != 0 || !context)
        return true;
    waiting *w = make(context);
    if (!w)
        return true;
    if (cp_thread_start(&thread, "ckineto-wait", synchronize, w) != 0) {
        pthread_mutex_lock(&w->mutex);
        w->owners = 1;
        leave(w);
        return true;
    }
    (void)pthread_detach(thread);
    return wait_for(w);
}
