/* A lock for slow paths of code that lives in other people's processes. Part of rt. */
#include "base/base.h"

#include <sched.h>
#include <time.h>

/* One try. 1: taken, 0: somebody else has it, -1: this thread has. */
static int try_once(kb_lock *lock, uint64_t self)
{
    uint64_t holder = 0;
    if (kb_cas_acqrel(&lock->owner, &holder, self))
        return 1;
    if (holder == self)
        return -1;
    /* Taken in the parent when it forked us: nobody here will drop it. */
    return holder >> 32 != self >> 32 && kb_cas_acqrel(&lock->owner, &holder, self);
}

bool kb_lock_take(kb_lock *lock, uint64_t self)
{
    int taken;
    while ((taken = try_once(lock, self)) == 0)
        sched_yield();
    return taken > 0;
}

bool kb_lock_take_within(kb_lock *lock, uint64_t self, uint32_t limit_ms)
{
    uint64_t begin_ns = kb_clock_ns(CLOCK_MONOTONIC);
    int taken;
    while ((taken = try_once(lock, self)) == 0) {
        if (kb_clock_ns(CLOCK_MONOTONIC) - begin_ns > (uint64_t)limit_ms * 1000000u)
            return false;
        sched_yield();
    }
    return taken > 0;
}

void kb_lock_drop(kb_lock *lock) { kb_store_release(&lock->owner, 0); }
