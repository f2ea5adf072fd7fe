/* Functions of devices that programs register, and what stands in where there are none. */
#include "profiler/stubs.h"

typedef struct slot_state {
    bool registered;
    uint32_t holders;
    kineto_stubs stubs; /* complete */
} slot_state;

static slot_state slots[KINETO_STUBS_SLOT_COUNT];
static struct {
    bool registered;
    uint32_t holders;
    kineto_privateuse1_observer is;
} observer;

/* Held for the tables only, never while a function of somebody else's is called. A signal handler
 * that interrupts its own thread in here is refused. */
static kb_lock lock_word;
static bool lock(void) { return kb_lock_take(&lock_word, kb_os_self()); }
static void unlock(void) { kb_lock_drop(&lock_word); }
static kineto_status no_lock(kineto_error *err)
{
    return kb_fail(err, KINETO_E_STATE, "called in a signal handler that interrupted the same");
}

/* ---- what stands in -------------------------------------------------------------------------- */

/* The context of stubs that are not registered is their place here. */
static const char names[KINETO_STUBS_SLOT_COUNT][16] = {
#define KINETO_X(name, value, text) [value] = text,
    KINETO_STUBS_MAP(KINETO_X)
#undef KINETO_X
};

static bool is_absent(const void *context)
{
    for (size_t i = 0; i < KB_COUNT(names); i++)
        if (context == names[i])
            return true;
    return false;
}

static kineto_status absent(const void *context, const char *function, kineto_error *err)
{
    if (is_absent(context))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%s used in profiler but not enabled.",
                       (const char *)context);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "the registered stubs have no function %s", function);
}

static kineto_status no_record(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                               kineto_error *err)
{
    (void)device, (void)event, (void)cpu_ns;
    return absent(context, "record", err);
}
static kineto_status no_elapsed_ns(void *context, void *start, void *end, int64_t *elapsed_ns,
                                   kineto_error *err)
{
    (void)start, (void)end, (void)elapsed_ns;
    return absent(context, "elapsed_ns", err);
}
static void no_release_event(void *context, void *event) { (void)context, (void)event; }
static kineto_status no_mark(void *context, const char *name, kineto_error *err)
{
    (void)name;
    return absent(context, "mark", err);
}
static kineto_status no_range_push(void *context, const char *name, kineto_error *err)
{
    (void)name;
    return absent(context, "range_push", err);
}
static kineto_status no_range_pop(void *context, kineto_error *err)
{
    return absent(context, "range_pop", err);
}
static bool no_enabled(void *context) { return !is_absent(context); }
static kineto_status no_on_each_device(void *context, void (*visit)(int32_t, void *),
                                       void *argument, kineto_error *err)
{
    (void)visit, (void)argument;
    return absent(context, "on_each_device", err);
}
static kineto_status no_synchronize(void *context, kineto_error *err)
{
    return absent(context, "synchronize", err);
}

static void complete(kineto_stubs *s)
{
#define FILL(member)                                                                               \
    if (!s->member)                                                                                \
        s->member = no_##member;
    FILL(record)
    FILL(elapsed_ns)
    FILL(release_event)
    FILL(mark)
    FILL(range_push)
    FILL(range_pop)
    FILL(enabled)
    FILL(on_each_device)
    FILL(synchronize)
#undef FILL
}

/* ---- registering ----------------------------------------------------------------------------- */

static bool is_slot(kineto_stubs_slot slot) { return (unsigned)slot < KINETO_STUBS_SLOT_COUNT; }

const char *kineto_stubs_name(kineto_stubs_slot slot)
{
    return is_slot(slot) ? names[slot] : "unknown";
}

static kineto_status check_slot(kineto_stubs_slot slot, const kineto_stubs *stubs,
                                kineto_error *err)
{
    if (!is_slot(slot))
        return kb_fail(err, KINETO_E_ARGUMENT, "there is no slot %d for stubs", (int)slot);
    if (!stubs || stubs->size < offsetof(kineto_stubs, record))
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: stubs need their size, see KINETO_STUBS_INIT",
                       names[slot]);
    return KINETO_OK;
}

kineto_status kineto_stubs_register(kineto_stubs_slot slot, const kineto_stubs *stubs,
                                    kineto_error *err)
{
    kineto_stubs mine = KINETO_STUBS_INIT;
    kineto_status status = check_slot(slot, stubs, err);
    if (status != KINETO_OK)
        return status;
    status = kb_size_check(stubs, names[slot], err);
    if (status != KINETO_OK)
        return status;
    /* What a newer one offers besides nobody asks for. */
    memcpy(&mine, stubs, KB_MIN(stubs->size, sizeof mine));
    mine.size = sizeof mine;
    if (!mine.record != !mine.elapsed_ns)
        return kb_fail(err, KINETO_E_ARGUMENT, "%s: record and elapsed_ns go together",
                       names[slot]);
    complete(&mine);
    if (!lock())
        return no_lock(err);
    bool taken = slots[slot].registered;
    if (!taken) {
        slots[slot].stubs = mine;
        slots[slot].registered = true;
    }
    unlock();
    return taken ? kb_fail(err, KINETO_E_BUSY,
                           "%s: stubs are registered already: unregister them "
                           "first",
                           names[slot])
                 : KINETO_OK;
}

kineto_status kineto_stubs_unregister(kineto_stubs_slot slot, kineto_error *err)
{
    if (!is_slot(slot))
        return kb_fail(err, KINETO_E_ARGUMENT, "there is no slot %d for stubs", (int)slot);
    if (!lock())
        return no_lock(err);
    bool there = slots[slot].registered, held = slots[slot].holders > 0;
    if (there && !held)
        slots[slot].registered = false;
    unlock();
    if (!there)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: no stubs are registered", names[slot]);
    return held ? kb_fail(err, KINETO_E_BUSY, "%s: a profiler uses the stubs: disable it first",
                          names[slot])
                : KINETO_OK;
}

/* hold: only if they are registered. */
static kineto_status get(kineto_stubs_slot slot, kineto_stubs *out, bool hold, kineto_error *err)
{
    /* The functions in place of missing ones only read it. */
    kineto_stubs found = {.size = sizeof found, .context = (void *)(uintptr_t)names[slot]};
    size_t size = out->size;
    if (!lock())
        return no_lock(err);
    if (slots[slot].registered) {
        found = slots[slot].stubs;
        slots[slot].holders += hold;
    }
    unlock();
    complete(&found);
    memcpy(out, &found, KB_MIN(size, sizeof found));
    out->size = size;
    return KINETO_OK;
}

kineto_status kineto_stubs_get(kineto_stubs_slot slot, kineto_stubs *out, kineto_error *err)
{
    kineto_status status = check_slot(slot, out, err);
    return status == KINETO_OK ? get(slot, out, false, err) : status;
}

/* ---- using ----------------------------------------------------------------------------------- */

void kp_stubs_drop(kineto_stubs_slot slot)
{
    bool taken = lock();
    if (slots[slot].holders > 0)
        slots[slot].holders--;
    if (taken)
        unlock();
}

kineto_status kp_stubs_hold(kineto_stubs_slot slot, kineto_stubs *out, kineto_error *err)
{
    kineto_stubs found = KINETO_STUBS_INIT;
    kineto_status status = check_slot(slot, &found, err);
    if (status == KINETO_OK)
        status = get(slot, &found, true, err);
    if (status != KINETO_OK)
        return status;
    if (!found.enabled(found.context)) {
        if (!is_absent(found.context))
            kp_stubs_drop(slot);
        return kb_fail(err, KINETO_E_STATE, "%s used in profiler but not enabled.", names[slot]);
    }
    *out = found;
    return KINETO_OK;
}

/* ---- the PrivateUse1 observer ---------------------------------------------------------------- */

kineto_status kineto_privateuse1_observer_register(const kineto_privateuse1_observer *o,
                                                   kineto_error *err)
{
    kineto_privateuse1_observer mine = KINETO_PRIVATEUSE1_OBSERVER_INIT;
    kineto_status status = kb_size_check(o, "PrivateUse1: observer", err);
    if (status)
        return status;
    if (o)
        memcpy(&mine, o, KB_MIN(o->size, sizeof mine));
    if (!mine.enable)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "PrivateUse1: an observer needs its size and a function enable");
    if (!lock())
        return no_lock(err);
    bool taken = observer.registered;
    if (!taken) {
        observer.is = mine;
        observer.registered = true;
    }
    unlock();
    return taken ? kb_fail(err, KINETO_E_BUSY,
                           "PrivateUse1: an observer is registered already: "
                           "unregister it first")
                 : KINETO_OK;
}

kineto_status kineto_privateuse1_observer_unregister(kineto_error *err)
{
    if (!lock())
        return no_lock(err);
    bool there = observer.registered, held = observer.holders > 0;
    if (there && !held)
        observer.registered = false;
    unlock();
    if (!there)
        return kb_fail(err, KINETO_E_NOT_FOUND, "PrivateUse1: no observer is registered");
    return held ? kb_fail(err, KINETO_E_BUSY,
                          "PrivateUse1: the observer has not been told of a "
                          "profiler's end: disable it first")
                : KINETO_OK;
}

bool kineto_privateuse1_observer_is_registered(void)
{
    bool taken = lock(), there = observer.registered;
    if (taken)
        unlock();
    return there;
}

static void observer_drop(void)
{
    bool taken = lock();
    if (observer.holders > 0)
        observer.holders--;
    if (taken)
        unlock();
}

kineto_status kp_observer_enable(const struct kineto_profiler_config *config, uint32_t scopes,
                                 kineto_error *err)
{
    if (!lock())
        return no_lock(err);
    bool there = observer.registered;
    kineto_privateuse1_observer o = observer.is;
    observer.holders += there;
    unlock();
    if (!there)
        return kb_fail(err, KINETO_E_STATE,
                       "PrivateUse1: nobody observes: a backend must call "
                       "kineto_privateuse1_observer_register first");
    kineto_status status = o.enable(o.context, config, scopes, err);
    if (status != KINETO_OK)
        observer_drop();
    return status;
}

kineto_status kp_observer_disable(kineto_error *err)
{
    if (!lock())
        return no_lock(err);
    bool held = observer.holders > 0;
    kineto_privateuse1_observer o = observer.is;
    unlock();
    if (!held)
        return kb_fail(err, KINETO_E_STATE, "PrivateUse1: no profiler of this state is enabled");
    kineto_status status = o.disable ? o.disable(o.context, err) : KINETO_OK;
    observer_drop();
    return status;
}
