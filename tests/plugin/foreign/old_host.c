/* A host of the proposal's time: it knows layout.h and nothing else. Whatever it hands out ends at
 * the end of a page that nothing follows, so that a plug-in which reads a member that such a host
 * does not have dies of it. One line of output per call that it gets, "refused" if the plug-in does
 * not want such a host.
 *   old_host 0|b FILE */
#define _GNU_SOURCE
#include "layout.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_TYPES = 32, NAME_MAX_LEN = 31, TYPE_COUNT = 25, EXERCISES = 20 };

static bool with_types; /* revision B */
static const kp_interface *profiler;
static int32_t enabled[MAX_TYPES];
static size_t enabled_count;
static int64_t session_start_ns;
static bool open_for_events, has_event;

static void die(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    (void)printf("FAULT ");
    (void)vprintf(fmt, args);
    (void)printf("\n");
    va_end(args);
    exit(1);
}

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* `bytes` that nothing may be read after; begins with them as a size. Never freed. */
static void *guarded(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || mprotect(p + page, page, PROT_NONE))
        die("no memory");
    void *object = p + page - bytes;
    memcpy(object, &bytes, sizeof bytes);
    return object;
}

/* ---- the builder ---------------------------------------------------------------------------------- */

static void expect(bool good, const char *what)
{
    if (!good)
        die("%s", what);
}

static int add_event(void *self, const kp_event *e)
{
    bool known = false;
    expect(self == &profiler && open_for_events, "an event after the end");
    expect(e->size >= KP_EVENT_SIZE, "size of an event");
    for (size_t i = 0; i < enabled_count; i++)
        known |= enabled[i] == e->type;
    expect(known || !with_types, "an event of a type that was not enabled");
    expect(e->start_ns >= session_start_ns - 1000000 && e->end_ns >= e->start_ns &&
               e->end_ns <= now_ns() + 1000000,
           "times outside of the session");
    has_event = true;
    (void)printf("event %d %lld\n", e->type, (long long)e->id);
    return 0;
}

static int set_name(void *self, const char *name)
{
    expect(self == &profiler && has_event && name, "a name of nothing");
    (void)printf("name %s\n", name);
    return 0;
}

static int set_flow(void *self, const kp_flow *f)
{
    expect(self == &profiler && has_event && f->size >= KP_FLOW_SIZE, "a flow of nothing");
    (void)printf("flow %d %u %d\n", f->type, f->id, f->is_start);
    return 0;
}

static int add_metadata(void *self, const char *key, const char *json)
{
    expect(self == &profiler && has_event && key && json, "metadata of nothing");
    (void)printf("metadata %s=%s\n", key, json);
    return 0;
}

static int add_device(void *self, const kp_device *d)
{
    expect(self == &profiler && d->size >= KP_DEVICE_SIZE && d->name && d->label, "a device");
    (void)printf("device %lld %s\n", (long long)d->id, d->name);
    return 0;
}

static int add_resource(void *self, const kp_resource *r)
{
    expect(self == &profiler && r->size >= KP_RESOURCE_SIZE && r->name, "a resource");
    (void)printf("resource %d %d %s\n", r->device, r->resource, r->name);
    return 0;
}

static const kp_builder *builder(void)
{
    kp_builder *b = guarded(KP_BUILDER_SIZE);
    b->self = &profiler;
    b->add_event = add_event;
    b->set_name = set_name;
    b->set_flow = set_flow;
    b->add_metadata = add_metadata;
    b->add_device = add_device;
    b->add_resource = add_resource;
    return b;
}

/* ---- a session ------------------------------------------------------------------------------------ */

static int add_profiler(void *self, const kp_interface *p)
{
    expect(self == &enabled && !profiler, "one profiler, of this registry");
    expect(p && p->size >= KP_INTERFACE_SIZE && p->create && p->destroy && p->query && p->start &&
               p->stop && p->process,
           "an interface without all functions");
    profiler = p;
    return 0;
}

static void query(void)
{
    static char name[NAME_MAX_LEN + 1];
    static int32_t types[MAX_TYPES];
    kp_query *q = guarded(KP_QUERY_SIZE);
    q->name = name;
    q->name_max = NAME_MAX_LEN;
    q->types = types;
    q->type_max = MAX_TYPES;
    expect(profiler->query(q) == 0 && name[0], "query failed");
    for (size_t i = 0; i < MAX_TYPES; i++)
        if (types[i] > 0 && types[i] < TYPE_COUNT)
            enabled[enabled_count++] = types[i];
    expect(enabled_count > 0, "no type that this host knows");
    (void)printf("query %s\n", name);
}

static kp_handle *with_handle(void *handle)
{
    kp_handle *h = guarded(KP_HANDLE_SIZE);
    h->handle = handle;
    return h;
}

static void *create(void)
{
    kp_create *c = guarded(with_types ? KP_CREATE_SIZE : KP_CREATE_SIZE_0);
    c->handle = NULL;
    if (with_types) {
        c->types = enabled;
        c->type_count = enabled_count;
    }
    expect(profiler->create(c) == 0 && c->handle, "create failed");
    return c->handle;
}

static void push_and_pop(void *handle, uint64_t id)
{
    kp_push *p = guarded(KP_PUSH_SIZE);
    p->id = id;
    p->handle = handle;
    expect(!profiler->push || profiler->push(p) == 0, "push failed");
    expect(!profiler->push_user || profiler->push_user(p) == 0, "push of the user's failed");
    expect(!profiler->pop_user || profiler->pop_user(with_handle(handle)) == 0, "pop failed");
    expect(!profiler->pop || profiler->pop(with_handle(handle)) == 0, "pop failed");
}

static void session(int (*exercise)(uint32_t))
{
    session_start_ns = now_ns();
    void *handle = create();
    expect(profiler->start(with_handle(handle)) == 0, "start failed");
    push_and_pop(handle, 41);
    expect(!exercise || exercise(EXERCISES) == 0, "its own exercise failed");
    usleep(1000);
    expect(profiler->stop(with_handle(handle)) == 0, "stop failed");
    kp_process *p = guarded(KP_PROCESS_SIZE);
    p->handle = handle;
    p->builder = builder();
    has_event = false;
    open_for_events = true;
    expect(profiler->process(p) == 0, "processEvents failed");
    open_for_events = false;
    expect(profiler->destroy(with_handle(handle)) == 0, "destroy failed");
    (void)printf("session\n");
}

int main(int argc, char **argv)
{
    expect(argc == 3, "usage: old_host 0|b FILE");
    with_types = argv[1][0] == 'b';
    void *library = dlopen(argv[2], RTLD_LAZY | RTLD_LOCAL);
    if (!library)
        die("%s", dlerror());
    kp_entry enter;
    int (*exercise)(uint32_t);
    *(void **)&enter = dlsym(library, KP_ENTRY);
    *(void **)&exercise = dlsym(library, "KinetoPlugin_exercise");
    expect(enter != NULL, "no entry");
    kp_registry *registry = guarded(KP_REGISTRY_SIZE);
    registry->self = &enabled;
    registry->add = add_profiler;
    if (enter(registry) != 0) {
        expect(!profiler && dlclose(library) == 0, "it refused and stays");
        (void)printf("refused\n");
        return 0;
    }
    expect(profiler != NULL, "it registered nothing");
    query();
    for (int i = 0; i < 2; i++)
        session(exercise);
    return 0;
}
