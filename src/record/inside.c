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

/* Yields first, then sleeps; false after about a second. */
static bool wait_a_little(uint32_t *turns)
{
    enum { SPINS = 200, SLEEPS = 1000 };
    const struct timespec pause = {0, 1000000};
    if (*turns >= SPINS + SLEEPS)
        return false;
    if ((*turns)++ < SPINS)
        sched_yield();
    else
        (void)nanosleep(&pause, NULL);
    return true;
}

bool kr_inside_wait_with(bool (*wait)(uint32_t *turns))
{
    kb_fence_seqcst();
    if (!kb_load_relaxed(&kr_inside_fences))
        kb_os_barrier();
    return kr_cursors_outside(wait);
}

bool kr_inside_wait(void) { return kr_inside_wait_with(wait_a_little); }
