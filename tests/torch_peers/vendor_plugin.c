/* A vendor's plug-in that knows nothing but the published layout of the interface, last revision.
 * Its "device" is vendor_launch(): a call of the program that does one piece of work, both logged
 * until the session is processed. Names and values have what breaks careless writers: quotes,
 * backslashes, control bytes, bytes from 0x80 on. */
#define _GNU_SOURCE
#include "../plugin/foreign/layout.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define EXPORT   __attribute__((visibility("default")))
#define DEVICE   3
#define MAX_WORK 256
enum { RUNTIME = KP_CUDA_RUNTIME };

static struct session {
    bool running;
    int count;
    struct work {
        char name[64];
        int64_t call_ns, start_ns, end_ns;
        int32_t thread;
    } work[MAX_WORK];
} session;

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* For the program: one thread at a time. Returns how many were logged. */
EXPORT int vendor_launch(const char *name)
{
    if (!session.running || session.count == MAX_WORK)
        return session.count;
    struct work *w = &session.work[session.count++];
    snprintf(w->name, sizeof w->name, "%s", name);
    w->thread = (int32_t)syscall(SYS_gettid);
    w->call_ns = now_ns();
    w->start_ns = w->call_ns + 500;
    w->end_ns = w->start_ns + 2000;
    while (now_ns() < w->end_ns)
        ;
    return session.count;
}

static int query(kp_query *p)
{
    snprintf(p->name, p->name_max + 1, "vendor");
    if (p->type_max < 2)
        return 1;
    p->types[0] = KP_KERNEL;
    p->types[1] = RUNTIME;
    return 0;
}

static int create(kp_create *p)
{
    p->handle = &session;
    return 0;
}

static int start(kp_handle *p)
{
    session.count = 0;
    session.running = p->handle == &session;
    return 0;
}

static int stop(kp_handle *p)
{
    session.running = false;
    return p->handle != &session;
}

static int destroy(kp_handle *p) { return p->handle != &session; }
static int push(kp_push *p) { return p->handle != &session; }
static int pop(kp_handle *p) { return p->handle != &session; }

static int deliver(const kp_builder *b, const struct work *w, bool call, int32_t id)
{
    int32_t process = (int32_t)getpid();
    kp_event e = {KP_EVENT_SIZE, call ? RUNTIME : KP_KERNEL, call ? w->call_ns : w->start_ns,
                  w->end_ns,     9000 + id,                  call ? process : DEVICE,
                  call ? w->thread : 1};
    kp_flow flow = {KP_FLOW_SIZE, KP_FLOW_ASYNC, (uint32_t)(9000 + id), call};
    return b->add_event(b->self, &e) || b->set_name(b->self, call ? "vendorLaunch" : w->name) ||
           b->set_flow(b->self, &flow) ||
           b->add_metadata(b->self, "note", "\"say \\\"hi\\\" to C:\\\\dir \\u00e9\"");
}

static int process(kp_process *p)
{
    const kp_builder *b = p->builder;
    kp_device device = {KP_DEVICE_SIZE, DEVICE, 30, "Vendor \"X\" \\ 1", "V\"0"};
    kp_resource row = {KP_RESOURCE_SIZE, DEVICE, 1, 5, "queue \"one\""};
    int failed = b->add_device(b->self, &device) || b->add_resource(b->self, &row);
    for (int i = 0; i < session.count && !failed; i++)
        failed = deliver(b, &session.work[i], true, i) || deliver(b, &session.work[i], false, i);
    return failed;
}

static const kp_interface profiler = {KP_INTERFACE_SIZE, create, destroy, query, start, stop, push, pop,
                                      push,              pop,    process};

EXPORT int KinetoPlugin_register(const kp_registry *registry)
{
    return registry->size < KP_REGISTRY_SIZE ? 1 : registry->add(registry->self, &profiler);
}
