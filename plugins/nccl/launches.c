/* Kernel launches. NCCL reports a launch first and the operations in it after that, on the same communicator, so that a
 * launch is delivered when all of them are known. Its range on the thread encloses the call of the driver: by that, device
 * kernels are joined with their collective. */
#include "nccl.h"

#define MAX_SPINS 200

/* False: another thread keeps it, which happens only where a program uses a communicator on two threads at once. */
static bool lock_launch(nc_comm *c)
{
    for (int i = 0; i < MAX_SPINS; i++)
        if (!atomic_flag_test_and_set_explicit(&c->is_busy, memory_order_acquire))
            return true;
    return false;
}

static void unlock_launch(nc_comm *c) { atomic_flag_clear_explicit(&c->is_busy, memory_order_release); }

static atomic_uint_fast64_t emitted;

/* With the lock. */
static void deliver_open_launch(nc_comm *c)
{
    if (c->launch.is_open && nc_deliver_launch(&c->launch))
        atomic_fetch_add(&emitted, 1);
    c->launch.is_open = false;
}

/* A launch that is captured into a graph has its operations at each replay: it is delivered as it is. */
void nc_launch_end(const nc_facts *launch, uint64_t end)
{
    nc_comm *c = launch->comm;
    if (!lock_launch(c))
        return;
    deliver_open_launch(c);
    c->launch = (nc_launch){.is_open = true, .launch = *launch, .end = end};
    if (launch->is_captured)
        deliver_open_launch(c);
    unlock_launch(c);
}

/* An operation without a launch, before version 5 or of a graph, is counted nowhere. */
void nc_launch_add(const nc_facts *operation)
{
    nc_comm *c = operation->comm;
    if (!lock_launch(c))
        return;
    if (c->launch.is_open && c->launch.operations++ == 0)
        c->launch.first = *operation;
    unlock_launch(c);
}

void nc_launch_flush(nc_comm *c)
{
    if (!lock_launch(c))
        return;
    deliver_open_launch(c);
    unlock_launch(c);
}

uint64_t nc_launches_take_emitted(void) { return atomic_exchange(&emitted, 0); }
