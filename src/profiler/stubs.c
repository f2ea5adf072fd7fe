/* Functions of devices that programs register (<ckineto/stubs.h>), and substitutes for missing ones
 * that fail with PyTorch's message. Stubs and the observer have holders: they cannot be
 * unregistered while a profiler uses them. */
#include "profiler/stubs.h"

typedef struct slot_state {
    bool registered;
    /* Profilers that use the stubs: they stay registered while there are any. */
    uint32_t holders;
    kineto_stubs stubs; /* without NULL functions */
} slot_state;

static slot_state slots[KINETO_STUBS_SLOT_COUNT];
static struct {
    bool registered;
    uint32_t holders;
    kineto_privateuse1_observer is;
} observer;

/* Guards the tables. Never held while a registered function runs. A signal handler that interrupts
 * * its own thread under the lock gets an error instead of a deadlock. */
static kb_lock stubs_lock;
static bool lock_stubs(void) { return kb_lock_take(&stubs_lock, kb_os_self()); }
static void unlock_stubs(void) { kb_lock_drop(&stubs_lock); }
static kineto_status fail_in_signal_handler(kineto_error *err)
{
    return kb_fail(err, KINETO_E_STATE,
                   "called by a signal handler that interrupted the same function");
}

/* ---- substitutes ----------------------------------------------------------------------------- */

/* By slot. The context of unregistered stubs points into this table, so that substitutes know which
 * * slot they stand for. */
static const char slot_names[KINETO_STUBS_SLOT_COUNT][16] = {
#define KINETO_X(name, value, text) [value] = text,
    KINETO_STUBS_MAP(KINETO_X)
#undef KINETO_X
};

/* True if a context is that of a slot without registered stubs. */
static bool is_unregistered(const void *context)
{
    for (size_t i = 0; i < KB_COUNT(slot_names); i++)
        if (context == slot_names[i])
            return true;
    return false;
}

/* The error of a substitute: nothing is registered, or the registered stubs lack this function. */
static kineto_status fail_missing_function(const void *context, const char *function,
                                           kineto_error *err)
{
    if (is_unregistered(context))
        return kb_fail(err, KINETO_E_UNSUPPORTED, "%s used in profiler but not enabled.",
                       (const char *)context);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "the registered stubs have no function %s", function);
}

static kineto_status missing_record(void *context, int32_t *device, void **event, int64_t *cpu_ns,
                                    kineto_error *err)
{
    (void)device, (void)event, (void)cpu_ns;
    return fail_missing_function(context, "record", err);
}
static kineto_status missing_elapsed_ns(void *context, void *start, void *end, int64_t *elapsed_ns,
                                        kineto_error *err)
{
    (void)start, (void)end, (void)elapsed_ns;
    return fail_missing_function(context, "elapsed_ns", err);
}
static void missing_release_event(void *context, void *event) { (void)context, (void)event; }
static kineto_status missing_mark(void *context, const char *name, kineto_error *err)
{
    (void)name;
    return fail_missing_function(context, "mark", err);
}
static kineto_status missing_range_push(void *context, const char *name, kineto_error *err)
{
    (void)name;
    return fail_missing_function(context, "range_push", err);
}
static kineto_status missing_range_pop(void *context, kineto_error *err)
{
    return fail_missing_function(context, "range_pop", err);
}
static bool missing_enabled(void *context) { return !is_unregistered(context); }
static kineto_status missing_on_each_device(void *context, void (*visit)(int32_t, void *),
                                            void *argument, kineto_error *err)
{
    (void)visit, (void)argument;
    return fail_missing_function(context, "on_each_device", err);
}
static kineto_status missing_synchronize(void *context, kineto_error *err)
{
    return fail_missing_function(context, "synchronize", err);
}

/* Replaces NULL members by substitutes, so that callers need not check. */
static void fill_missing_functions(kineto_stubs *s)
{
#define FILL(member)                                                                               \
    if (!s->member)                                                                                \
        s->member = missing_##member;
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

static bool is_stubs_slot(kineto_stubs_slot slot)
{
    return (unsigned)slot < KINETO_STUBS_SLOT_COUNT;
}

const char *kineto_stubs_name(kineto_stubs_slot slot)
{
    return is_stubs_slot(slot) ? slot_names[slot] : "unknown";
}

static kineto_status check_slot(kineto_stubs_slot slot, kineto_error *err)
{
    return is_stubs_slot(slot)
               ? KINETO_OK
               : kb_fail(err, KINETO_E_ARGUMENT, "unknown stubs slot %d", (int)slot);
}

/* Has the caller set the size, at least as far as the context? */
static bool is_stubs_size(size_t size) { return size >= offsetof(kineto_stubs, record); }

kineto_status kineto_stubs_register(kineto_stubs_slot slot, const kineto_stubs *stubs,
                                    kineto_error *err)
{
    kineto_stubs mine;
    kineto_stubs_init(&mine);
    if (!stubs)
        return kb_fail_null(err, __func__, "stubs", stubs);
    kineto_status status = check_slot(slot, err);
    if (status != KINETO_OK)
        return status;
    if (!is_stubs_size(stubs->size))
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "%s: the size of the stubs is not set; begin with kineto_stubs_init",
                       slot_names[slot]);
    status = kb_size_check(stubs, slot_names[slot], err);
    if (status != KINETO_OK)
        return status;
    /* Members that only a newer version knows are ignored. */
    memcpy(&mine, stubs, KB_MIN(stubs->size, sizeof mine));
    mine.size = sizeof mine;
    if (!mine.record != !mine.elapsed_ns)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "%s: record and elapsed_ns must be both set or both NULL", slot_names[slot]);
    fill_missing_functions(&mine);
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool taken = slots[slot].registered;
    if (!taken) {
        slots[slot].stubs = mine;
        slots[slot].registered = true;
    }
    unlock_stubs();
    return taken ? kb_fail(err, KINETO_E_BUSY,
                           "%s: stubs are registered already; unregister them first",
                           slot_names[slot])
                 : KINETO_OK;
}

kineto_status kineto_stubs_unregister(kineto_stubs_slot slot, kineto_error *err)
{
    kineto_status status = check_slot(slot, err);
    if (status != KINETO_OK)
        return status;
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool there = slots[slot].registered, held = slots[slot].holders > 0;
    if (there && !held)
        slots[slot].registered = false;
    unlock_stubs();
    if (!there)
        return kb_fail(err, KINETO_E_NOT_FOUND, "%s: no stubs are registered", slot_names[slot]);
    return held ? kb_fail(err, KINETO_E_BUSY, "%s: a profiler uses the stubs; disable it first",
                          slot_names[slot])
                : KINETO_OK;
}

/* Copies the stubs of a slot, or substitutes for all of them. `hold` counts one more holder if they
 * are registered. Keeps the caller's out->size. */
static kineto_status copy_stubs(kineto_stubs_slot slot, kineto_stubs *out, bool hold,
                                kineto_error *err)
{
    /* The context is only read by the substitutes. */
    kineto_stubs found = {.size = sizeof found, .context = (void *)(uintptr_t)slot_names[slot]};
    size_t size = out->size;
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    if (slots[slot].registered) {
        found = slots[slot].stubs;
        slots[slot].holders += hold;
    }
    unlock_stubs();
    fill_missing_functions(&found);
    memcpy(out, &found, KB_MIN(size, sizeof found));
    out->size = size;
    return KINETO_OK;
}

bool kineto_stubs_slot_get(kineto_stubs_slot slot, kineto_stubs *out)
{
    return is_stubs_slot(slot) && out && is_stubs_size(out->size) &&
           copy_stubs(slot, out, false, NULL) == KINETO_OK;
}

/* ---- using ----------------------------------------------------------------------------------- */

void kp_stubs_release(kineto_stubs_slot slot)
{
    bool taken = lock_stubs();
    KB_ASSERT(slots[slot].holders > 0);
    if (slots[slot].holders > 0)
        slots[slot].holders--;
    if (taken)
        unlock_stubs();
}

kineto_status kp_stubs_acquire(kineto_stubs_slot slot, kineto_stubs *out, kineto_error *err)
{
    kineto_stubs found;
    kineto_stubs_init(&found);
    kineto_status status = check_slot(slot, err);
    if (status == KINETO_OK)
        status = copy_stubs(slot, &found, true, err);
    if (status != KINETO_OK)
        return status;
    if (!found.enabled(found.context)) {
        if (!is_unregistered(found.context))
            kp_stubs_release(slot);
        return kb_fail(err, KINETO_E_STATE, "%s used in profiler but not enabled.",
                       slot_names[slot]);
    }
    *out = found;
    return KINETO_OK;
}

/* ---- the PrivateUse1 observer ---------------------------------------------------------------- */

kineto_status kineto_privateuse1_observer_register(const kineto_privateuse1_observer *o,
                                                   kineto_error *err)
{
    kineto_privateuse1_observer mine;
    kineto_privateuse1_observer_init(&mine);
    if (!o)
        return kb_fail_null(err, __func__, "observer", o);
    kineto_status status = kb_size_check(o, "PrivateUse1: observer", err);
    if (status)
        return status;
    memcpy(&mine, o, KB_MIN(o->size, sizeof mine));
    if (!mine.enable)
        return kb_fail(err, KINETO_E_ARGUMENT,
                       "PrivateUse1: an observer must have its size and the function enable");
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool taken = observer.registered;
    if (!taken) {
        observer.is = mine;
        observer.registered = true;
    }
    unlock_stubs();
    return taken ? kb_fail(err, KINETO_E_BUSY,
                           "PrivateUse1: an observer is registered already; "
                           "unregister it first")
                 : KINETO_OK;
}

kineto_status kineto_privateuse1_observer_unregister(kineto_error *err)
{
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool there = observer.registered, held = observer.holders > 0;
    if (there && !held)
        observer.registered = false;
    unlock_stubs();
    if (!there)
        return kb_fail(err, KINETO_E_NOT_FOUND, "PrivateUse1: no observer is registered");
    return held ? kb_fail(err, KINETO_E_BUSY,
                          "PrivateUse1: a profiler uses the observer; "
                          "disable it first")
                : KINETO_OK;
}

bool kineto_privateuse1_observer_is_registered(void)
{
    bool taken = lock_stubs(), there = observer.registered;
    if (taken)
        unlock_stubs();
    return there;
}

/* One holder less, after the observer was disabled or failed to enable. */
static void drop_observer(void)
{
    bool taken = lock_stubs();
    if (observer.holders > 0)
        observer.holders--;
    if (taken)
        unlock_stubs();
}

kineto_status kp_observer_enable(const struct kineto_profiler_config *config, uint32_t scopes,
                                 kineto_error *err)
{
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool there = observer.registered;
    kineto_privateuse1_observer o = observer.is;
    observer.holders += there;
    unlock_stubs();
    if (!there)
        return kb_fail(err, KINETO_E_STATE,
                       "PrivateUse1: no observer is registered; a backend must call "
                       "kineto_privateuse1_observer_register first");
    kineto_status status = o.enable(o.context, config, scopes, err);
    if (status != KINETO_OK)
        drop_observer();
    return status;
}

kineto_status kp_observer_disable(kineto_error *err)
{
    if (!lock_stubs())
        return fail_in_signal_handler(err);
    bool held = observer.holders > 0;
    kineto_privateuse1_observer o = observer.is;
    unlock_stubs();
    if (!held)
        return kb_fail(err, KINETO_E_STATE, "PrivateUse1: no profiler of this state is enabled");
    kineto_status status = o.disable ? o.disable(o.context, err) : KINETO_OK;
    drop_observer();
    return status;
}
