/* A spinning lock for slow paths of a library that runs in other programs' processes [rt]: it needs
 * no initialisation, detects that the caller holds it already, and can be taken over in a fork's
 * child from a thread that exists only in the parent. */
#include "base/base.h"

#include <sched.h>
#include <time.h>

/* One try. 1: taken; 0: another thread holds it; -1: this thread holds it. */
static int try_lock_once(kb_lock *lock, uint64_t self)
{
    uint64_t holder = 0;
    if (kb_cas_acqrel(&lock->owner, &holder, self))
        return 1;
    if (holder == self)
        return -1;
    /* Held by a thread of the parent at the time of the fork: no thread here would drop it. */
    return holder >> 32 != self >> 32 && kb_cas_acqrel(&lock->owner, &holder, self);
}

bool kb_lock_take(kb_lock *lock, uint64_t self)
{
    int taken;
    while ((taken = try_lock_once(lock, self)) == 0)
        sched_yield();
    return taken > 0;
}

bool kb_lock_take_within(kb_lock *lock, uint64_t self, uint32_t limit_ms)
{
    uint64_t begin_ns = kb_monotonic_ns();
    int taken;
    while ((taken = try_lock_once(lock, self)) == 0) {
        if (kb_monotonic_ns() - begin_ns > (uint64_t)limit_ms * KB_MILLISECOND_NS)
            return false;
        sched_yield();
    }
    return taken > 0;
}

void kb_lock_drop(kb_lock *lock)
{
    KB_ASSERT(kb_load_relaxed(&lock->owner) != 0);
    kb_store_release(&lock->owner, 0);
}
