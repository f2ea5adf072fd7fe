/* The list of callback calls in progress, guarded by one lock that all tables of callbacks share.
 * The lock is taken around forks, so that the list is consistent in the child, which then drops it.
 */
#include "ondemand/support/callback_calls.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t over = PTHREAD_COND_INITIALIZER;
static ko_call *running;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_calls_before_fork(void) { pthread_mutex_lock(&lock); }
static void unlock_calls_in_parent(void) { pthread_mutex_unlock(&lock); }

/* The other threads that were calling do not exist in the child. If the forking thread itself was
 * in a call, its ko_calls_end finds nothing to remove. */
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

void ko_calls_begin(ko_call *call, const void *slot)
{
    KB_ASSERT(slot);
    *call = (ko_call){slot, pthread_self(), running};
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

static bool is_being_called(const void *slot, bool by_others)
{
    for (const ko_call *call = running; call; call = call->next)
        if (call->slot == slot && !(by_others && pthread_equal(call->thread, pthread_self())))
            return true;
    return false;
}

bool ko_calls_any(const void *slot) { return is_being_called(slot, false); }

void ko_calls_wait(const void *slot)
{
    while (is_being_called(slot, true))
        pthread_cond_wait(&over, &lock);
}
