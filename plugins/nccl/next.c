/* The profiler plug-in that NCCL would have loaded without ours: NCCL loads one. It is the one that CKINETO_NCCL_NEXT
 * names (`ckineto record` puts there what the user had set), else NCCL's default. Every call is passed on to it, with its
 * own handles, in the newest version that both it and this NCCL speak; what it did not ask for it does not get. */
#include "nccl.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void *library;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- finding it ------------------------------------------------------------------------------- */

/* The name as it is, then as the middle of a file's name, as NCCL tries them. */
static void *open_named(const char *prefix, const char *name, int flags)
{
    char path[512];
    size_t size = strlen(name);
    bool is_file = strncmp(name, "lib", 3) == 0 && size > 3 && strcmp(name + size - 3, ".so") == 0;
    if (strcasecmp(name, "STATIC_PLUGIN") == 0)
        return dlopen(NULL, RTLD_NOW | RTLD_LOCAL);
    void *opened = dlopen(name, flags);
    if (opened || strchr(name, '/') || is_file)
        return opened;
    snprintf(path, sizeof path, "%s-%s.so", prefix, name);
    return dlopen(path, flags);
}

/* Without a name: the default's library, then that of the network plug-in, if NCCL has loaded one. */
static void *open_default(void)
{
    const char *net = secure_getenv("NCCL_NET_PLUGIN");
    void *opened = dlopen("libnccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
    if (opened)
        return opened;
    int flags = RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD;
    if (net && strcasecmp(net, "STATIC_PLUGIN") == 0)
        return NULL;
    return net && *net ? open_named("libnccl-net", net, flags) : dlopen("libnccl-net.so", flags);
}

/* Also newer versions than ours: they are no reason to look for another library. Our own is never its own successor. */
static bool has_table(void *opened)
{
    char symbol[32];
    for (unsigned v = 1; v <= NC_VERSIONS + 4; v++) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%u", v);
        const nc_table *table = dlsym(opened, symbol);
        if (table && strcmp(table->name ? table->name : "", "ckineto") != 0)
            return true;
    }
    return false;
}

/* Once in a process: NCCL, too, tries to load a plug-in once. */
static NC_COLD void find_next(void)
{
    const char *name = secure_getenv("CKINETO_NCCL_NEXT");
    bool is_named = name && *name;
    if (is_named && strcasecmp(name, "none") == 0)
        return;
    library = is_named ? open_named("libnccl-profiler", name, RTLD_NOW | RTLD_LOCAL) : open_default();
    if (library && has_table(library))
        return;
    library = NULL; /* it stays open: nothing of ours points into it */
    if (is_named)
        nc_count(NC_TALLY_NEXT_MISSING);
}

/* From `version` downwards: the newest that both speak. */
const nc_table *nc_next_table(unsigned version, unsigned *out)
{
    char symbol[32];
    (void)pthread_once(&once, find_next);
    for (unsigned v = version; library && v >= 1; v--) {
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%u", v);
        const nc_table *table = dlsym(library, symbol);
        if (table && table->init_1 && (!table->name || strcmp(table->name, "ckineto") != 0)) {
            *out = v;
            return table;
        }
    }
    if (library)
        nc_count(NC_TALLY_NEXT_VERSION);
    return NULL;
}

/* ---- passing on ------------------------------------------------------------------------------- */

/* In the version of the other plug-in; the mask is NCCL's own, which it may keep. */
static int call_init(nc_comm *c, const nc_table *next, unsigned version, const char *name, nc_logger log)
{
    int *mask = atomic_load(&c->mask->at);
    if (version <= 3)
        return next->init_1(&c->next_context, mask);
    if (version == 4)
        return next->init_4(&c->next_context, mask, name, nc_get(&c->id), c->nodes, c->ranks, c->rank, log);
    return next->init_5(&c->next_context, nc_get(&c->id), mask, name, c->nodes, c->ranks, c->rank, log);
}

/* As in NCCL, an error of it ends its part, and nothing else. */
NC_COLD void nc_next_init(nc_comm *c, const char *name, nc_logger log)
{
    unsigned version = 0;
    const nc_table *next = nc_next_table(c->version, &version);
    if (!next || call_init(c, next, version, name, log) != 0)
        return;
    c->next_version = version;
    c->next = next;
}

#define PARTS (NC_PROXY_OP | NC_PROXY_STEP | NC_KERNEL_CH | NC_NET_PLUGIN)
#define COPIES (NC_CE_COLL | NC_CE_SYNC | NC_CE_BATCH)

/* NCCL also starts what events that were asked for need as parents. */
static uint32_t bits_that_start(uint32_t type)
{
    switch (type) {
    case NC_GROUP:
        return NC_GROUP | NC_COLL | NC_P2P | PARTS;
    case NC_COLL:
        return NC_COLL | PARTS;
    case NC_P2P:
        return NC_P2P | PARTS;
    case NC_PROXY_OP:
        return NC_PROXY_OP | NC_PROXY_STEP | NC_NET_PLUGIN;
    case NC_PROXY_STEP:
        return NC_PROXY_STEP | NC_NET_PLUGIN;
    case NC_GROUP_API:
        return ~(uint32_t)NC_PROXY_CTRL;
    case NC_COLL_API:
        return NC_COLL_API | NC_COLL | PARTS | COPIES;
    case NC_P2P_API:
        return NC_P2P_API | NC_P2P | PARTS;
    default:
        return type;
    }
}

bool nc_next_wants(const nc_comm *c, uint32_t type)
{
    return c->next &&
           ((uint32_t)atomic_load_explicit(&c->mask->of_next, memory_order_relaxed) & bits_that_start(type));
}

void *nc_next_handle(void *ours)
{
    nc_facts f;
    return ours && nc_slot_read(ours, &f) ? f.next : NULL;
}

/* The parent of an operation of another process is that process's, and is passed on as it is. */
void *nc_next_start(nc_comm *c, const nc_event *e)
{
    nc_event theirs = *e;
    nc_descriptor d;
    void *handle = NULL;
    if (!(e->type == NC_PROXY_OP && e->pid != (int64_t)nc_process_id()))
        theirs.parent = nc_next_handle(e->parent);
    theirs.parent_group = nc_next_handle(e->parent_group);
    if (!theirs.comm_name)
        theirs.comm_name = c->name;
    if (!theirs.comm_id)
        theirs.comm_id = nc_get(&c->id);
    if (!c->next->start || !nc_write_descriptor(&theirs, c->version, c->next_version, &d))
        return NULL;
    return c->next->start(c->next_context, &handle, &d) == 0 ? handle : NULL;
}

/* A communicator that has ended has no successor any more. */
void nc_next_stop(nc_comm *c, void *handle)
{
    if (handle && c->next && c->next->stop)
        (void)c->next->stop(handle);
}

void nc_next_record(nc_comm *c, void *handle, const nc_state *s)
{
    nc_state_values values;
    if (handle && c->next && c->next->record && nc_write_state(s, c->version, c->next_version, &values))
        (void)c->next->record(handle, s->number, s->raw ? &values : NULL);
}

void nc_next_finalize(nc_comm *c)
{
    if (c->next && c->next->finalize)
        (void)c->next->finalize(c->next_context);
    c->next = NULL;
}
