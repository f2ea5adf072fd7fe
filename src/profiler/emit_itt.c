/* Ranges shown to a collector that speaks ITT: tasks of the domain "ckineto". */
#include "profiler/emit.h"
#include "profiler/itt.h"

#include <dlfcn.h>

/* Names of tasks that are kept apart; places in the table, a power of two above it. */
#define KP_ITT_NAMES      12288u
#define KP_ITT_PLACES     16384u
#define KP_ITT_NAME_BYTES 1024u
#define KP_ITT_OTHER      "(other names)"

enum { DOMAIN_CREATE, STRING_CREATE, TASK_BEGIN, TASK_END, MARKER, FUNCTIONS };

static kp_itt_function functions[FUNCTIONS];
static kp_itt_domain *domain;
static kp_itt_string *other;

/* What a name became at the collector. Never freed: the collector keeps its side as well. */
typedef struct kp_itt_name {
    uint64_t hash;
    kp_itt_string *string;
    char text[];
} kp_itt_name;

static kp_itt_name *names[KP_ITT_PLACES]; /* by hash, then the next free place; atomic */
static uint32_t name_count;               /* atomic */

static kineto_status attach(void *library, const char *path, bool *entered, kineto_error *err);
static kp_tool itt = {.name = "ITT",
                      .variable = KP_ITT_VARIABLE,
                      .start = "start the program under a tool that takes ITT, VTune say",
                      .attach = attach};

/* ---- what there is when the collector does not have it --------------------------------------- */

static kp_itt_domain *own_domain(const char *name);
static kp_itt_string *own_string(const char *text);
static void no_task_begin(const kp_itt_domain *in, kp_itt_id task, kp_itt_id parent,
                          kp_itt_string *name)
{
    (void)in, (void)task, (void)parent, (void)name;
}
static void no_task_end(const kp_itt_domain *in) { (void)in; }
static void no_marker(const kp_itt_domain *in, kp_itt_id id, kp_itt_string *name, int scope)
{
    (void)in, (void)id, (void)name, (void)scope;
}

/* X(NAME, name, ours before the collector, ours if it has none) */
#define KP_ITT_FUNCTION_MAP(X)                                                                     \
    X(DOMAIN_CREATE, "__itt_domain_create", own_domain, own_domain)                                \
    X(STRING_CREATE, "__itt_string_handle_create", own_string, own_string)                         \
    X(TASK_BEGIN, "__itt_task_begin", no_task_begin, NULL)                                         \
    X(TASK_END, "__itt_task_end", no_task_end, NULL)                                               \
    X(MARKER, "__itt_marker", no_marker, NULL)

static kp_itt_api api_list[] = {
#define X(index, name, initial, absent)                                                            \
    {name, &functions[index], (kp_itt_function)(initial), (kp_itt_function)(absent),               \
     KP_ITT_GROUP_STRUCTURE},
    KP_ITT_FUNCTION_MAP(X)
#undef X
        {NULL, NULL, NULL, NULL, 0}};

/* Our lists are only ever appended to, at the end, and what is in them is whole: a collector may
 * walk them under the mutex or without. */
static kp_itt_global global = {.magic = KP_ITT_MAGIC,
                               .version_major = KP_ITT_MAJOR,
                               .version_minor = KP_ITT_MINOR,
                               .version_build = KP_ITT_BUILD,
                               .mutex = PTHREAD_MUTEX_INITIALIZER,
                               .api_list = api_list};

static kp_itt_domain *own_domain(const char *name)
{
    kp_itt_domain **at = &global.domain_list, *d = NULL, *next;
    for (; (d = kb_load_acquire(at)); at = &d->next)
        if (name && strcmp(d->name, name) == 0)
            return d;
    char *copy = name ? strdup(name) : NULL;
    if (copy && (d = calloc(1, sizeof *d))) {
        d->flags = 1;
        d->name = copy;
        for (next = NULL; !kb_cas_acqrel(at, &next, d); next = NULL)
            at = &next->next;
        return d;
    }
    free(copy);
    return NULL;
}

/* Names are looked up before this: one is here twice only if two threads met over it. */
static kp_itt_string *own_string(const char *text)
{
    static kp_itt_string *last; /* or not far from it; atomic */
    kp_itt_string *s = calloc(1, sizeof *s), *next = NULL, *hint = kb_load_acquire(&last);
    char *copy = text ? strdup(text) : NULL;
    if (!s || !copy) {
        free(s);
        free(copy);
        return NULL;
    }
    s->text = copy;
    kp_itt_string **at = hint ? &hint->next : &global.string_list;
    for (; !kb_cas_acqrel(at, &next, s); next = NULL)
        at = &next->next;
    kb_store_release(&last, s);
    return s;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* A collector may take a function away again; those of ours that do nothing are as good as none. */
KB_INLINE kp_itt_function function_of(int index)
{
    kp_itt_function f = kb_load_relaxed(&functions[index]);
    return f == api_list[index].initial ? api_list[index].absent : f;
}

static void reset(void)
{
    for (int i = 0; i < FUNCTIONS; i++)
        functions[i] = api_list[i].initial;
}

/* A collector that some code of its own locks twice must not wait for itself. */
static kineto_status mutex_make(kineto_error *err)
{
    pthread_mutexattr_t kind;
    if (global.mutex_initialized)
        return KINETO_OK;
    int os_error = pthread_mutexattr_init(&kind);
    if (os_error)
        return kb_fail_os(err, os_error, "ITT: no mutex");
    (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    os_error = pthread_mutex_init(&global.mutex, &kind);
    (void)pthread_mutexattr_destroy(&kind);
    if (os_error)
        return kb_fail_os(err, os_error, "ITT: no mutex");
    global.mutex_initialized = 1;
    return KINETO_OK;
}

static kp_itt_function exported(void *library, const char *name)
{
    kp_itt_function f = NULL;
    void *symbol = dlsym(library, name);
    memcpy(&f, &symbol, sizeof f);
    return f;
}

/* Collectors without a function to initialise them. */
static void take_exported(void *library)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        kp_itt_function f = exported(library, api_list[i].name);
        functions[i] = f ? f : api_list[i].absent;
    }
}

static kineto_status make_domain(const char *path, kineto_error *err)
{
    kp_itt_domain_create create_domain = (kp_itt_domain_create)function_of(DOMAIN_CREATE);
    kp_itt_string_create create_string = (kp_itt_string_create)function_of(STRING_CREATE);
    if (!create_domain)
        create_domain = own_domain;
    if (!create_string)
        create_string = own_string;
    domain = create_domain("ckineto");
    other = create_string(KP_ITT_OTHER);
    if (!domain || !other)
        return kb_fail(err, KINETO_E_PLUGIN, "ITT: %s gives no %s", path,
                       domain ? "handle for a name" : "domain");
    return KINETO_OK;
}

static kineto_status attach(void *library, const char *path, bool *entered, kineto_error *err)
{
    kp_itt_initialize initialize = (kp_itt_initialize)exported(library, KP_ITT_INITIALIZE);
    reset();
    if (!initialize && !exported(library, api_list[TASK_BEGIN].name))
        return kb_fail(err, KINETO_E_FORMAT,
                       "ITT: %s exports neither " KP_ITT_INITIALIZE " nor %s: " KP_ITT_VARIABLE
                       " must name a collector's library",
                       path, api_list[TASK_BEGIN].name);
    kineto_status status = mutex_make(err);
    if (status != KINETO_OK)
        return status;
    global.library = library;
    *entered = true;
    if (initialize)
        initialize(&global, KP_ITT_GROUP_ALL);
    else
        take_exported(library);
    global.api_initialized = 1;
    if (!function_of(TASK_BEGIN) || !function_of(TASK_END))
        status =
            kb_fail(err, KINETO_E_UNSUPPORTED,
                    "ITT: %s takes no tasks: it has no functions for their begin and end", path);
    else
        status = make_domain(path, err);
    if (status != KINETO_OK) {
        reset();
        global.api_initialized = 0;
    }
    return status;
}

static kineto_status itt_open(kineto_error *err) { return kp_tool_open(&itt, err); }

/* ---- names ----------------------------------------------------------------------------------- */

static size_t name_size(const char *text)
{
    size_t n = strnlen(text, KP_ITT_NAME_BYTES);
    if (n == KP_ITT_NAME_BYTES) /* not through a sequence */
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    return n;
}

/* Its place, or the free one where it belongs; NULL: neither. */
static kp_itt_name **name_place(uint64_t hash, const char *text, size_t size)
{
    for (uint32_t i = 0; i < KP_ITT_PLACES; i++) {
        kp_itt_name **place = &names[(hash + i) % KP_ITT_PLACES];
        const kp_itt_name *n = kb_load_acquire(place);
        if (!n || (n->hash == hash && strncmp(n->text, text, size) == 0 && !n->text[size]))
            return place;
    }
    return NULL;
}

static kp_itt_name *name_make(uint64_t hash, const char *text, size_t size)
{
    kp_itt_string_create create = (kp_itt_string_create)function_of(STRING_CREATE);
    kp_itt_name *n = malloc(sizeof *n + size + 1);
    if (!n)
        return NULL;
    n->hash = hash;
    memcpy(n->text, text, size);
    n->text[size] = '\0';
    n->string = create ? create(n->text) : own_string(n->text);
    if (n->string)
        return n;
    free(n);
    return NULL;
}

static bool name_room(void)
{
    uint32_t before = kb_add_relaxed(&name_count, 1);
    if (before < KP_ITT_NAMES)
        return true;
    kb_store_relaxed(&name_count, KP_ITT_NAMES + 1);
    if (before == KP_ITT_NAMES)
        kb_log(KINETO_LOG_WARNING, "ITT: more than %u names: the rest is shown as \"%s\"",
               KP_ITT_NAMES, KP_ITT_OTHER);
    return false;
}

/* The first use of a name. Two threads may come at once: the collector gives both the same string,
 * or at least one that will do. */
static KB_COLD kp_itt_string *name_add(uint64_t hash, const char *text, size_t size)
{
    if (kb_load_relaxed(&name_count) > KP_ITT_NAMES || !name_room())
        return other;
    kp_itt_name *mine = name_make(hash, text, size), *there = NULL;
    kp_itt_string *string = mine ? mine->string : other;
    kp_itt_name **place;
    while (mine && (place = name_place(hash, text, size))) {
        there = NULL;
        if (kb_cas_acqrel(place, &there, mine))
            return string;
        if (there->hash == hash && strcmp(there->text, mine->text) == 0)
            break;
    }
    free(mine);
    return string;
}

static kp_itt_string *name_of(const char *text)
{
    size_t size = name_size(text);
    uint64_t hash = kb_hash(text, size);
    kp_itt_name **place = name_place(hash, text, size);
    const kp_itt_name *n = place ? kb_load_acquire(place) : NULL;
    return n ? n->string : name_add(hash, text, size);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static const kp_itt_id no_id;

static bool itt_push(const char *text)
{
    if (!kp_tool_is_open(&itt) || !text || !domain->flags)
        return false;
    kp_itt_task_begin begin = (kp_itt_task_begin)function_of(TASK_BEGIN);
    if (begin)
        begin(domain, no_id, no_id, name_of(text));
    return begin != NULL;
}

static void itt_pop(void)
{
    if (!kp_tool_is_open(&itt) || !domain->flags)
        return;
    kp_itt_task_end end = (kp_itt_task_end)function_of(TASK_END);
    if (end)
        end(domain);
}

/* Collectors that know no markers see a task without a length, as PyTorch shows it to all. */
static void itt_mark(const char *text)
{
    if (!kp_tool_is_open(&itt) || !text || !domain->flags)
        return;
    kp_itt_marker marker = (kp_itt_marker)function_of(MARKER);
    if (marker)
        marker(domain, no_id, name_of(text), KP_ITT_SCOPE_TRACK);
    else if (itt_push(text))
        itt_pop();
}

const kp_emitter kp_itt_emitter = {"ITT", KP_ITT_VARIABLE, itt_open, itt_push, itt_pop, itt_mark};
