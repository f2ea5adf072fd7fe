/* A collector that speaks ITT and logs the calls that it receives, or misbehaves as EMIT_TOOL says.
 * It knows the interface by declarations of its own. Built a second time without the function that
 * initialises it, as collectors of an earlier time were. */
#include "log.h"

#include <dlfcn.h>
#include <pthread.h>

struct domain {
    volatile int flags;
    const char *name_a;
    void *name_w;
    int extra1;
    void *extra2;
    struct domain *next;
};
struct string {
    const char *a;
    void *w;
    int extra1;
    void *extra2;
    struct string *next;
};
struct id {
    unsigned long long d1, d2, d3;
};
struct api_info {
    const char *name;
    void **func_ptr;
    void *init_func;
    void *null_func;
    int group;
};
struct global {
    unsigned char magic[8];
    unsigned long version_major, version_minor, version_build;
    volatile long api_initialized, mutex_initialized, atomic_counter;
    pthread_mutex_t mutex;
    void *lib;
    void *error_handler;
    const char **dll_path_ptr;
    struct api_info *api_list_ptr;
    struct global *next;
    void *thread_list;
    struct domain *domain_list;
    struct string *string_list;
};

#define EXPORT __attribute__((visibility("default")))
EXPORT void __itt_task_begin(const struct domain *, struct id, struct id, struct string *);
EXPORT void __itt_task_end(const struct domain *);
EXPORT void __itt_marker(const struct domain *, struct id, struct string *, int scope);
EXPORT void __itt_api_init(struct global *global, int groups);

void __itt_task_begin(const struct domain *d, struct id task, struct id parent, struct string *name)
{
    char text[4096];
    if (task.d1 | task.d2 | task.d3 | parent.d1 | parent.d2 | parent.d3)
        log_line("malformed", "id");
    (void)snprintf(text, sizeof text, "%s %s", d->name_a, name ? name->a : "(none)");
    log_line("taskBegin", text);
}
void __itt_task_end(const struct domain *d) { log_line("taskEnd", d->name_a); }
void __itt_marker(const struct domain *d, struct id id, struct string *name, int scope)
{
    char text[4096];
    (void)id;
    (void)snprintf(text, sizeof text, "%s %s %d", d->name_a, name->a, scope);
    log_line("marker", text);
}

#ifndef ITT_TOOL_OLD
static struct domain own_domain = {.flags = 1, .name_a = "of-the-collector"};
static struct domain *domain_create(const char *name)
{
    log_line("domainCreate", name);
    return tool_is("no-domain") ? NULL : &own_domain;
}
/* Every string is kept, as real collectors do. */
static struct string *string_create(const char *text)
{
    static struct string *all;
    log_line("stringCreate", text);
    struct string *s = tool_is("no-string") ? NULL : calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->a = strdup(text);
    s->next = __atomic_load_n(&all, __ATOMIC_ACQUIRE);
    while (!__atomic_compare_exchange_n(&all, &s->next, s, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        ;
    return s;
}

static int wants(const char *name)
{
    if (tool_is("nothing"))
        return 0;
    if (strcmp(name, "__itt_task_end") == 0)
        return !tool_is("no-end");
    if (strcmp(name, "__itt_marker") == 0)
        return !tool_is("no-marker");
    return 1;
}

static void *function_for(struct global *g, const struct api_info *f)
{
    int makes_objects = tool_is("own") || tool_is("no-domain") || tool_is("no-string");
    if (makes_objects && strcmp(f->name, "__itt_domain_create") == 0)
        return (void *)(size_t)domain_create;
    if (makes_objects && strcmp(f->name, "__itt_string_handle_create") == 0)
        return (void *)(size_t)string_create;
    return wants(f->name) ? dlsym(g->lib, f->name) : NULL;
}

/* The way of the reference collector: what it exports under a name, and where it exports nothing
 * what the program has in its place. */
void __itt_api_init(struct global *g, int groups)
{
    static const unsigned char magic[8] = {0xED, 0xAB, 0xAB, 0xEC, 0x0D, 0xEE, 0xDA, 0x30};
    char text[128];
    log_open();
    if (memcmp(g->magic, magic, 8) != 0)
        log_line("malformed", "magic");
    (void)pthread_mutex_lock(&g->mutex);
    (void)pthread_mutex_unlock(&g->mutex);
    for (struct api_info *f = g->api_list_ptr; f->name; f++) {
        void *mine = function_for(g, f);
        if (mine || !tool_is("leaves-slots"))
            *f->func_ptr = mine ? mine : f->null_func;
    }
    (void)snprintf(text, sizeof text, "%lu.%lu %lu %d", g->version_major, g->version_minor,
                   g->version_build, groups);
    log_line("initialize", text);
}
#else
__attribute__((constructor)) static void begin(void) { log_open(); }
#endif
