/* PrivateUse1: the one backend slot that PyTorch reserves for out-of-tree devices. Its profiler may
 * be registered before recording is initialised, for example by a static constructor; it is
 * forwarded to the host of plug-ins afterwards. A profiler that is registered while a session runs
 * with the previous one replaces it when that session has ended. */
#include "record/host.h"

typedef const KinetoPlugin_ProfilerInterface *interface;

static interface registered; /* the one to use; NULL: none */
static interface forwarded; /* the one that the host has: the previous one until its session ends */
static uint32_t ready;       /* recording is initialised */

/* Guards the three above against other writers, also while the host is called. Lock order: this
 * lock before the host's. */
static kb_lock move_lock;
static bool lock_forwarding(void)
{
    if (kr_lock_take(&move_lock))
        return true;
    kb_log(KINETO_LOG_WARNING, "PrivateUse1: called from within a profiler's own functions");
    return false;
}

/* ---- forwarding --------------------------------------------------------------------------------- */

static bool forward_to_host(interface profiler)
{
    const KinetoPlugin_Registry *host = kineto_plugin_registry();
    if (host->registerProfiler(host->pRegistryHandle, profiler))
        return false;
    kb_store_release(&forwarded, profiler);
    return true;
}

/* The new one first: if it is refused, the old one stays. */
static bool replace_in_host(interface old, interface profiler)
{
    if (!forward_to_host(profiler))
        return false;
    (void)kineto_plugin_unregister(old);
    return true;
}

/* Bring the host up to date, unless a session goes on with the old one. */
static kineto_status settle_forwarding(void)
{
    if (!ready || registered == forwarded || !registered)
        return KINETO_OK;
    interface old = forwarded;
    if (!old)
        return forward_to_host(registered) ? KINETO_OK : KINETO_E_PLUGIN;
    if (kr_host_in_session(old) || replace_in_host(old, registered))
        return KINETO_OK;
    kb_log(KINETO_LOG_WARNING, "PrivateUse1: the new profiler was refused, the old one stays");
    kb_store_release(&registered, old);
    return KINETO_E_PLUGIN;
}

void kr_privateuse1_settle(void)
{
    interface old = kb_load_acquire(&forwarded);
    if (KINETO_LIKELY(!old || old == kb_load_acquire(&registered)) || !kr_lock_take(&move_lock))
        return;
    (void)settle_forwarding();
    kb_lock_drop(&move_lock);
}

/* ---- public ------------------------------------------------------------------------------------- */

kineto_status kineto_privateuse1_register(const KinetoPlugin_ProfilerInterface *profiler)
{
    if (!kr_interface_is_whole(profiler))
        return KINETO_E_ARGUMENT;
    if (!lock_forwarding())
        return KINETO_E_STATE;
    if (registered)
        kb_log(KINETO_LOG_WARNING,
               "PrivateUse1: a profiler is registered already, the new one replaces it");
    kb_store_release(&registered, profiler);
    kineto_status status = settle_forwarding();
    kb_lock_drop(&move_lock);
    return status;
}

kineto_status kineto_privateuse1_unregister(void)
{
    if (!lock_forwarding())
        return KINETO_E_STATE;
    kineto_status status = registered ? KINETO_OK : KINETO_E_NOT_FOUND;
    interface old = forwarded;
    kb_store_release(&registered, NULL);
    kb_store_release(&forwarded, NULL);
    if (old)
        (void)kineto_plugin_unregister(old);
    kb_lock_drop(&move_lock);
    return status;
}

kineto_status kineto_privateuse1_init(void)
{
    if (!lock_forwarding())
        return KINETO_E_STATE;
    ready = 1;
    kineto_status status = settle_forwarding();
    kb_lock_drop(&move_lock);
    return status;
}

bool kineto_privateuse1_has_profiler(void) { return kb_load_acquire(&registered) != NULL; }

bool kineto_privateuse1_is_registered(void) { return kb_load_acquire(&forwarded) != NULL; }
