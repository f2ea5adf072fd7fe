/* Which threads are inside a plug-in, or a plug-in's call of the host. Entering costs a store; who
 * ends a session waits for those who are inside, and pays for the barrier that entering lacks. */
#include "record/host.h"

#include <sched.h>
#include <time.h>

uint32_t kr_inside_fences = 1;

void kr_inside_init(void)
{
    if (kb_load_relaxed(&kr_inside_fences) && kb_os_barrier_init())
        kb_store_relaxed(&kr_inside_fences, 0u);
}

/* Yields first, then sleeps a millisecond at a time; false when patience is at its end. */
static bool wait_a_little(uint32_t *turns, uint32_t patience_ms)
{
    enum { SPINS = 200 };
    const struct timespec pause = {0, 1000000};
    if (*turns >= SPINS + patience_ms)
        return false;
    if ((*turns)++ < SPINS)
        sched_yield();
    else
        (void)nanosleep(&pause, NULL);
    return true;
}

bool kr_inside_wait(uint32_t patience_ms)
{
    kb_fence_seqcst();
    if (!kb_load_relaxed(&kr_inside_fences))
        kb_os_barrier();
    return kr_cursors_outside(wait_a_little, patience_ms);
}
