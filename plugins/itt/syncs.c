/* Waits for synchronization objects that a library reports: from "prepare" to "acquired", if it took
 * MIN_WAIT_NS at least. They are blocking calls of the thread, not annotations. */
#include "itt.h"

#include <time.h>

#define MIN_WAIT_NS  20000u
#define OBJECT_SLOTS 4096u

/* The wait that the thread is in. */
static __thread struct {
    const void *object;
    uint64_t ticks, ns;
} current_wait CN_TLS;

static bool is_recording_waits(void)
{
    return kineto_enabled(KINETO_KIND_BLOCKING_CALL) &&
           !atomic_load_explicit(&ci_paused, memory_order_relaxed);
}

static uint64_t read_monotonic_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

/* ---- names of objects ------------------------------------------------------------------------ */

/* A cache: an object that shares the slot of a later one loses its name. The name is stored before the
 * address, and the address is checked again after the names were read. */
typedef struct sync_object {
    _Atomic(const void *) address;
    _Atomic(const cn_name *) name, type;
} sync_object;
static sync_object sync_objects[OBJECT_SLOTS];

static sync_object *find_object_slot(const void *object)
{
    return &sync_objects[(uint64_t)(uintptr_t)object * UINT64_C(0x9e3779b97f4a7c15) >> 52];
}

static const cn_name *intern_optional(const char *text)
{
    return text && *text ? cn_name_intern(text, strlen(text)) : NULL;
}

static void set_object_names(const void *object, const cn_name *type, const cn_name *name)
{
    sync_object *o = find_object_slot(object);
    if (!cn_tables_lock())
        return;
    atomic_store(&o->address, NULL);
    atomic_store(&o->type, type);
    atomic_store(&o->name, name);
    atomic_store(&o->address, object);
    cn_tables_unlock();
}

void ci_sync_create(void *object, const char *type, const char *name, int attribute)
{
    (void)attribute;
    set_object_names(object, intern_optional(type), intern_optional(name));
}

void ci_sync_rename(void *object, const char *name)
{
    const sync_object *o = find_object_slot(object);
    const cn_name *type = atomic_load(&o->address) == object ? atomic_load(&o->type) : NULL;
    set_object_names(object, type, intern_optional(name));
}

void ci_sync_destroy(void *object)
{
    const void *expected = object;
    (void)atomic_compare_exchange_strong(&find_object_slot(object)->address, &expected, NULL);
}

/* ---- waits ----------------------------------------------------------------------------------- */

void ci_sync_prepare(void *object)
{
    if (!is_recording_waits())
        return;
    current_wait.object = object;
    current_wait.ns = read_monotonic_ns();
    current_wait.ticks = kineto_record_ticks();
}

void ci_sync_cancel(void *object)
{
    if (current_wait.object == object)
        current_wait.object = NULL;
}

static CN_NOINLINE void record_wait(const void *object, uint64_t ticks)
{
    KINETO_SITE_ARGS(wait_site, KINETO_KIND_BLOCKING_CALL, "wait for a synchronization object",
                     {"object", KINETO_ARG_STRING}, {"type", KINETO_ARG_STRING},
                     {"address", KINETO_ARG_UINT});
    const sync_object *o = find_object_slot(object);
    bool is_known = atomic_load(&o->address) == object;
    const cn_name *name = is_known ? atomic_load(&o->name) : NULL;
    const cn_name *type = is_known ? atomic_load(&o->type) : NULL;
    is_known = is_known && atomic_load(&o->address) == object;
    kineto_value values[] = {{.s = is_known && name ? name->text : ""},
                             {.s = is_known && type ? type->text : ""},
                             {.u = (uintptr_t)object}};
    kineto_record_past(&wait_site, ticks, values);
}

void ci_sync_acquired(void *object)
{
    if (!current_wait.object || current_wait.object != object)
        return;
    current_wait.object = NULL;
    if (is_recording_waits() && read_monotonic_ns() - current_wait.ns >= MIN_WAIT_NS)
        record_wait(object, current_wait.ticks);
}
