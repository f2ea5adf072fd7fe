/* An NVTX tool that logs the calls that it receives, or misbehaves as EMIT_TOOL says. It knows the
 * interface by declarations of its own, not by those of the library under test. */
#include "log.h"

#include <dlfcn.h>
#include <stdint.h>

typedef void (*any)(void);
struct attributes {
    uint16_t version;
    uint16_t size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type;
    int32_t reserved0;
    union {
        uint64_t u;
        double d;
    } payload;
    int32_t message_type;
    union {
        const char *ascii;
        const void *other;
    } message;
};
struct callbacks {
    size_t struct_size;
    int (*get_module)(uint32_t module, any ***table, unsigned int *size);
};
struct version_info {
    size_t struct_size;
    uint32_t version;
    uint32_t reserved0;
    void (*set_version)(uint32_t version);
};
struct domain {
    const char *name;
};

static __thread int depth;
static int domain_count;

static int push_a(const char *text)
{
    log_line("pushA", text);
    return depth++;
}
static int pop(void)
{
    log_line("pop", "");
    return --depth;
}
static void mark_a(const char *text) { log_line("markA", text); }

static void log_attributes(const char *call, const struct attributes *a)
{
    char text[4096];
    if (a->version != 3 || a->size != sizeof *a || a->message_type != 1)
        log_line("malformed", call);
    else {
        (void)snprintf(text, sizeof text, "%s", a->message.ascii);
        log_line(call, text);
    }
}
static int push_ex(const struct attributes *a)
{
    log_attributes("pushEx", a);
    return depth++;
}
static void mark_ex(const struct attributes *a) { log_attributes("markEx", a); }

static void *domain_create(const char *name)
{
    struct domain *d = malloc(sizeof *d);
    domain_count++;
    if (d)
        d->name = strdup(name);
    log_line("domainCreateA", name);
    return d;
}
static int domain_push(void *in, const struct attributes *a)
{
    log_line("inDomain", in ? ((struct domain *)in)->name : "");
    log_attributes("domainPushEx", a);
    return depth++;
}
static int domain_pop(void *in)
{
    log_line("domainPop", in ? ((struct domain *)in)->name : "");
    return --depth;
}
static void domain_mark(void *in, const struct attributes *a)
{
    (void)in;
    log_attributes("domainMarkEx", a);
}

enum { CORE = 1, CORE2 = 5 };
static const struct {
    const char *word; /* of EMIT_TOOL; "" also without one */
    int module, number;
    any function;
} functions[] = {
    {"", CORE, 9, (any)push_a},
    {"", CORE, 11, (any)pop},
    {"", CORE, 2, (any)mark_a},
    {"attributes", CORE, 8, (any)push_ex},
    {"attributes", CORE, 11, (any)pop},
    {"attributes", CORE, 1, (any)mark_ex},
    {"domain", CORE2, 4, (any)domain_push},
    {"domain", CORE2, 5, (any)domain_pop},
    {"domain", CORE2, 1, (any)domain_mark},
    {"domain", CORE2, 12, (any)domain_create},
    {"domain-unnamed", CORE2, 4, (any)domain_push},
    {"domain-unnamed", CORE2, 5, (any)domain_pop},
    {"no-pop", CORE, 9, (any)push_a},
    {"fails", CORE, 9, (any)push_a}, /* which must not be called after it has failed */
    {"fails", CORE, 11, (any)pop},
    {"withdraws", CORE, 9, (any)push_a},
    {"withdraws", CORE, 11, (any)pop},
    {"calls-back", CORE, 9, (any)push_a},
    {"calls-back", CORE, 11, (any)pop},
    {"newer", CORE, 9, (any)push_a},
    {"newer", CORE, 11, (any)pop},
};

/* A tool of a later version knows functions that this program does not have. */
static void write_beyond(any **core)
{
    for (int i = 16; i < 40; i++)
        *core[i] = (any)mark_a;
}

static int take(const struct callbacks *callbacks)
{
    any **tables[8] = {NULL};
    unsigned sizes[8] = {0};
    char text[128];
    for (uint32_t m = 1; m < 7; m++)
        if (!callbacks->get_module(m, &tables[m], &sizes[m]))
            log_line("noModule", "");
    (void)snprintf(text, sizeof text, "%u %u %u %u %u %u", sizes[1], sizes[2], sizes[3], sizes[4],
                   sizes[5], sizes[6]);
    log_line("sizes", text);
    if (callbacks->get_module(0, NULL, NULL) || callbacks->get_module(7, NULL, NULL))
        log_line("malformed", "a module that is none");
    const char *word = getenv("EMIT_TOOL");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        if (strcmp(functions[i].word, word ? word : "") == 0)
            *tables[functions[i].module][functions[i].number] = functions[i].function;
    if (tool_is("newer"))
        write_beyond(tables[CORE]);
    return 1;
}

/* A tool that shows ranges of its own to itself. */
static void call_back(void)
{
    char text[16];
    int (*again)(void) = NULL;
    void *symbol = dlsym(RTLD_DEFAULT, "emit_program_again");
    memcpy(&again, &symbol, sizeof again);
    (void)snprintf(text, sizeof text, "%d", again ? again() : 1);
    log_line("again", text);
}

static any *withdrawn; /* address of push's pointer */
__attribute__((visibility("default"))) void tool_withdraw(void);
void tool_withdraw(void)
{
    if (withdrawn)
        __atomic_store_n(withdrawn, (any)NULL, __ATOMIC_RELAXED);
}

/* A tool that is asked to show ranges only after it was initialised. */
static any *later_push, *later_pop;
__attribute__((visibility("default"))) void tool_begin(void);
void tool_begin(void)
{
    __atomic_store_n(later_pop, (any)pop, __ATOMIC_RELEASE);
    __atomic_store_n(later_push, (any)push_a, __ATOMIC_RELEASE);
}

__attribute__((visibility("default"))) int
InitializeInjectionNvtx2(const void *(*get)(uint32_t table));
int InitializeInjectionNvtx2(const void *(*get)(uint32_t table))
{
    const struct callbacks *callbacks = get(1);
    const struct version_info *version = get(3);
    char text[64];
    log_open();
    if (!callbacks || callbacks->struct_size < sizeof *callbacks || get(0) || get(77))
        return 0;
    if (tool_is("slow"))
        (void)usleep(300000);
    (void)snprintf(text, sizeof text, "%u %zu %zu", version ? version->version : 0,
                   version ? version->struct_size : 0, callbacks->struct_size);
    log_line("initialize", text);
    if (version)
        version->set_version(3);
    (void)setenv("EMIT_TOOL", tool_is("slow") || !getenv("EMIT_TOOL") ? "" : getenv("EMIT_TOOL"),
                 1);
    if (tool_is("deaf"))
        return 1;
    int taken = take(callbacks);
    if (tool_is("calls-back"))
        call_back();
    any **core = NULL;
    if (tool_is("withdraws") && callbacks->get_module(CORE, &core, NULL))
        withdrawn = core[9];
    if (callbacks->get_module(CORE, &core, NULL)) {
        later_push = core[9];
        later_pop = core[11];
    }
    return tool_is("fails") ? 0 : taken;
}
