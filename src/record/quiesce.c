/* Quiescence: waiting until no other thread is inside foreign code that is about to go away.
 *
 * "Inside" means inside a plug-in, a plug-in's call of the builder, or a callback of operators;
 * kr_plugin_enter and kr_plugin_exit (host.h) mark it in the thread's cursor. Entry is a plain
 * store; teardown issues the memory barrier (membarrier, kb_os_barrier) and waits until every other
 * thread was seen outside once. Where the kernel has no such barrier, entry makes a fence instead:
 * kr_plugin_fences. */
#include "record/host.h"

#include <sched.h>

uint32_t kr_plugin_fences = 1;

void kr_quiesce_init(void)
{
    if (kb_load_relaxed(&kr_plugin_fences) && kb_os_barrier_init())
        kb_store_relaxed(&kr_plugin_fences, 0u);
}

/* Yields SPINS times, then sleeps a millisecond per turn. False: limit_ms have passed. */
static bool wait_one_turn(uint32_t *turns, uint32_t limit_ms)
{
    enum { SPINS = 200 };
    const struct timespec pause = {0, KB_MILLISECOND_NS};
    if (*turns >= SPINS + limit_ms)
        return false;
    if ((*turns)++ < SPINS)
        sched_yield();
    else
        (void)nanosleep(&pause, NULL);
    return true;
}

bool kr_wait_quiescent(uint32_t limit_ms)
{
    kb_fence_seqcst();
    if (!kb_load_relaxed(&kr_plugin_fences))
        kb_os_barrier();
    return kr_cursors_wait_outside(wait_one_turn, limit_ms);
}
