/* Calls into the program that go on now. */
#include "ondemand/support/callback_calls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static ko_call *running;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_calls_before_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_calls_in_parent(void) { pthread_mutex_unlock(&lock); }

/* Threads that were calling are not here. One that forked in a call is: its end finds nothing. */
static void reset_calls_in_child(void)
{
    running = NULL;
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&over, NULL);
}

static void register_fork_handlers(void)
{
    (void)pthread_atfork(lock_calls_before_fork, unlock_calls_in_parent, reset_calls_in_child);
}

void ko_calls_lock(void)
{
    pthread_once(&once, register_fork_handlers);
    pthread_mutex_lock(&lock);
}

void ko_calls_unlock(void) { pthread_mutex_unlock(&lock); }

void ko_calls_begin(ko_call *call, const void *whom)
{
    *call = (ko_call){whom, pthread_self(), running};
    running = call;
}

void ko_calls_end(ko_call *call)
{
    ko_calls_lock();
    ko_call **at = &running;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    pthread_cond_broadcast(&over);
    ko_calls_unlock();
}

static bool is_being_called(const void *whom, bool by_others)
{
    for (const ko_call *call = running; call; call = call->next)
        if (call->whom == whom && !(by_others && pthread_equal(call->thread, pthread_self())))
            return true;
    return false;
}

bool ko_calls_any(const void *whom) { return is_being_called(whom, false); }

void ko_calls_wait(const void *whom)
{
    while (is_being_called(whom, true))
        pthread_cond_wait(&over, &lock);
}
