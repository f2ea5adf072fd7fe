// A vendor's plug-in from the time of the proposal, in C++ with its library and exceptions,
// compiled once for each published revision (FOREIGN_REVISION: '0', 'A', 'B', or 'E' for the first
// review's numbers). It knows layout.h and nothing else of its host, checks whatever the host
// passes, and answers what is wrong with an error. What it saw is a text: foreign_journal().
#include "layout.h"

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace
{
constexpr char revision = FOREIGN_REVISION;
constexpr int32_t device = 5;
// Whatever the host enables out of these.
const std::vector<int32_t> supported =
    revision == 'E' ? std::vector<int32_t>{KP_KERNEL, KP_CUDA_RUNTIME, KP_EARLY_CUDA_SYNC,
                                           KP_EARLY_GPU_PM_COUNTER}
                    : std::vector<int32_t>{1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12,
                                           13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24};

std::string journal;
int64_t base_ns;

struct Session {
    std::vector<int32_t> types;
    bool started = false, stopped = false;
};

void check(bool good, const char *what)
{
    if (!good)
        throw std::runtime_error(what);
}

// Nothing is thrown into the host.
template <class Body> int guarded(const char *what, Body body)
{
    try {
        body();
        journal += std::string(what) + ";";
        return 0;
    } catch (const std::exception &e) {
        journal += std::string("FAULT in ") + what + ": " + e.what() + ";";
        return 42;
    }
}

std::string listed(const int32_t *types, size_t count)
{
    std::string text;
    for (size_t i = 0; i < count; i++)
        text += (i ? "," : "") + std::to_string(types[i]);
    return text;
}

Session &session_of(const kp_handle *p)
{
    check(p && p->size >= KP_HANDLE_SIZE, "size of the params");
    check(p->handle != nullptr, "no handle");
    return *static_cast<Session *>(p->handle);
}

int query(kp_query *p)
{
    return guarded("query", [&] {
        check(p && p->size >= KP_QUERY_SIZE, "size of the params");
        check(p->handle == nullptr, "a handle before create");
        check(p->name && p->name_max >= 31, "room for the name");
        check(p->types && p->type_max >= supported.size(), "room for the types");
        for (size_t i = 0; i < p->type_max; i++)
            check(p->types[i] == 0, "types are not INVALID at first");
        std::snprintf(p->name, p->name_max + 1, "foreign %c", revision);
        std::copy(supported.begin(), supported.end(), p->types);
    });
}

int create(kp_create *p)
{
    return guarded("create", [&] {
        constexpr bool with_types = revision == 'B';
        check(p && p->size >= (with_types ? KP_CREATE_SIZE : KP_CREATE_SIZE_0),
              "size of the params");
        auto session = std::make_unique<Session>();
        if (with_types) {
            check(p->types && p->type_count > 0, "no types");
            session->types.assign(p->types, p->types + p->type_count);
            journal += "types " + listed(p->types, p->type_count) + ";";
        }
        p->handle = session.release();
    });
}

// In revision A the kinds came here.
Session &start_a(kp_handle *params)
{
    auto *p = reinterpret_cast<kp_start_a *>(params);
    check(p && p->size >= KP_START_A_SIZE, "size of the params");
    check(p->handle != nullptr, "no handle");
    auto &session = *static_cast<Session *>(p->handle);
    if (p->type_count)
        session.types.assign(p->types, p->types + p->type_count);
    journal += "types " + listed(p->types, p->type_count) + ";";
    return session;
}

int start(kp_handle *p)
{
    return guarded("start", [&] {
        Session &session = revision == 'A' ? start_a(p) : session_of(p);
        check(!session.started, "started already");
        session.started = true;
        timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        base_ns = int64_t(now.tv_sec) * 1000000000 + now.tv_nsec;
    });
}

int stop(kp_handle *p)
{
    return guarded("stop", [&] {
        Session &session = session_of(p);
        check(session.started && !session.stopped, "not running");
        session.stopped = true;
    });
}

int destroy(kp_handle *p)
{
    return guarded("destroy", [&] { delete &session_of(p); });
}

template <class Params> int pushed(const char *what, Params *p)
{
    return guarded(what, [&] {
        check(p && p->size >= KP_PUSH_SIZE, "size of the params");
        check(p->handle != nullptr, "no handle");
        journal += std::to_string(p->id) + " ";
    });
}

int push(kp_push *p) { return pushed("push", p); }
int push_user(kp_push *p) { return pushed("push user", p); }
int pop(kp_handle *p)
{
    return guarded("pop", [&] { (void)session_of(p); });
}
int pop_user(kp_handle *p)
{
    return guarded("pop user", [&] { (void)session_of(p); });
}

// ---- delivery -------------------------------------------------------------------------------------

// What happens in the program stands in the rows of its threads.
bool is_host(int32_t type)
{
    static const std::vector<int32_t> host = {1, 2, 7, 8, 9, 10, 11, 13, 17, 19, 20, 23, 24};
    if (revision == 'E')
        return type == KP_CUDA_RUNTIME;
    return std::find(host.begin(), host.end(), type) != host.end();
}

int32_t place_of(int32_t type) { return is_host(type) ? int32_t(getpid()) : device; }

bool is_counter(int32_t type)
{
    return type == (revision == 'E' ? KP_EARLY_GPU_PM_COUNTER : KP_GPU_PM_COUNTER);
}

void add_metadata(const kp_builder *b, int32_t type)
{
    auto add = [&](const char *key, const char *json) {
        // The host may keep neither.
        std::string k(key), j(json);
        check(b->add_metadata(b->self, k.c_str(), j.c_str()) == 0, "metadata refused");
    };
    if (is_counter(type)) {
        add("busy", "50");
        add("clock", "1.5");
        return;
    }
    add("number", "42");
    add("real", "2.50");
    add("text", "\"quoted \\u00e9\"");
    add("list", "[1, 2]");
    add("broken", "{oops");
    add("bare", "no json at all");
}

void add_event(const kp_builder *b, int32_t type)
{
    kp_event event = {};
    event.size = KP_EVENT_SIZE;
    event.type = type;
    event.start_ns = base_ns + type * 1000;
    event.end_ns = event.start_ns + (is_counter(type) || type == KP_CPU_INSTANT ? 0 : 500);
    event.id = 7000 + type;
    event.device = place_of(type);
    event.resource = 100 + type;
    check(b->add_event(b->self, &event) == 0, "event refused");
    check(b->set_name(b->self, ("type " + std::to_string(type) + " \"\xc3\xa9\xff").c_str()) == 0,
          "name refused");
    add_metadata(b, type);
    if (type != KP_KERNEL && type != KP_CUDA_RUNTIME)
        return;
    kp_flow flow = {};
    flow.size = KP_FLOW_SIZE;
    flow.type = KP_FLOW_ASYNC;
    flow.id = 77;
    flow.is_start = type == KP_CUDA_RUNTIME;
    check(b->set_flow(b->self, &flow) == 0, "flow refused");
}

void add_rows(const kp_builder *b, const std::vector<int32_t> &types)
{
    kp_device d = {KP_DEVICE_SIZE, device, 55, "Foreign device", "FOREIGN 5"};
    check(b->add_device(b->self, &d) == 0, "device refused");
    for (int32_t type : types) {
        std::string name = "row " + std::to_string(type);
        kp_resource r = {KP_RESOURCE_SIZE, place_of(type), 100 + type, 200 + type, name.c_str()};
        check(b->add_resource(b->self, &r) == 0, "resource refused");
    }
}

int process(kp_process *p)
{
    return guarded("process", [&] {
        check(p && p->size >= KP_PROCESS_SIZE, "size of the params");
        kp_handle h = {KP_HANDLE_SIZE, p->handle};
        Session &session = session_of(&h);
        check(session.stopped, "before stop");
        const kp_builder *b = p->builder;
        check(b && b->size >= KP_BUILDER_SIZE, "size of the builder");
        check(b->add_event && b->set_name && b->set_flow && b->add_metadata && b->add_device &&
                  b->add_resource,
              "the builder lacks functions");
        // A profiler without kinds delivers a kernel and its launch.
        std::vector<int32_t> types = session.types;
        if (types.empty())
            types = {KP_KERNEL, KP_CUDA_RUNTIME};
        if (revision == 'E')
            types = supported;
        for (int32_t type : types)
            add_event(b, type);
        add_rows(b, types);
    });
}

const kp_interface profiler = {KP_INTERFACE_SIZE, create,   destroy, query, start, stop, push, pop,
                               push_user,         pop_user, process};
} // namespace

EXPORT int KinetoPlugin_register(const kp_registry *registry)
{
    if (!registry || registry->size < KP_REGISTRY_SIZE || !registry->add)
        return 41;
    return registry->add(registry->self, &profiler);
}

EXPORT const char *foreign_journal() { return journal.c_str(); }
EXPORT void foreign_forget() { journal.clear(); }
EXPORT int64_t foreign_base_ns() { return base_ns; }
