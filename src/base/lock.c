/* A lock for slow paths of code that lives in other people's processes. Part of rt. */
#include "base/base.h"

#include <sched.h>

bool kb_lock_take(kb_lock *lock, uint64_t self)
{
    for (;;) {
        uint64_t holder = 0;
        if (kb_cas_acqrel(&lock->owner, &holder, self))
            return true;
        if (holder == self)
            return false;
        /* Taken in the parent when it forked us: nobody here will drop it. */
        if (holder >> 32 != self >> 32 && kb_cas_acqrel(&lock->owner, &holder, self))
            return true;
        sched_yield();
    }
}

void kb_lock_drop(kb_lock *lock) { kb_store_release(&lock->owner, 0); }
