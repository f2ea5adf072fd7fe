/* Ranges shown to a collector with the ITT interface (itt.h): tasks of the domain "ckineto". Names
 * of tasks are handles that live as long as the collector, so their number is limited and each is
 * looked up in a table without locks. */
#include "profiler/emit.h"
#include "profiler/itt.h"

#include <dlfcn.h>

/* Different names of tasks; slots of the table, a power of two above it. */
#define KP_ITT_NAMES      12288u
#define KP_ITT_SLOTS      16384u
#define KP_ITT_NAME_BYTES 1024u
#define KP_ITT_OTHER      "(other names)"

enum { DOMAIN_CREATE, STRING_CREATE, TASK_BEGIN, TASK_END, MARKER, FUNCTIONS };

static kp_itt_function itt_functions[FUNCTIONS];
static kp_itt_domain *itt_domain;
static kp_itt_string *other_name;

/* A name and its handle at the collector. Never freed, as the collector keeps the handle. */
typedef struct kp_itt_name {
    uint64_t hash;
    kp_itt_string *string;
    char text[];
} kp_itt_name;

/* Open addressing by hash with linear probing; entries are atomic and never change once set. */
static kp_itt_name *name_table[KP_ITT_SLOTS];
static uint32_t name_count; /* atomic */

static kineto_status attach_itt(void *library, const char *path, bool *entered, kineto_error *err);
static kp_tool itt = {.name = "ITT",
                      .variable = KP_ITT_VARIABLE,
                      .start = "start the program under an ITT collector such as VTune",
                      .attach = attach_itt};

/* ---- substitutes for functions of the collector ---------------------------------------------- */

static kp_itt_domain *create_own_domain(const char *name);
static kp_itt_string *create_own_string(const char *text);
static void ignore_task_begin(const kp_itt_domain *in, kp_itt_id task, kp_itt_id parent,
                              kp_itt_string *name)
{
    (void)in, (void)task, (void)parent, (void)name;
}
static void ignore_task_end(const kp_itt_domain *in) { (void)in; }
static void ignore_marker(const kp_itt_domain *in, kp_itt_id id, kp_itt_string *name, int scope)
{
    (void)in, (void)id, (void)name, (void)scope;
}

/* X(NAME, name, our function before initialisation, our function if the collector has none) */
#define KP_ITT_FUNCTION_MAP(X)                                                                     \
    X(DOMAIN_CREATE, "__itt_domain_create", create_own_domain, create_own_domain)                  \
    X(STRING_CREATE, "__itt_string_handle_create", create_own_string, create_own_string)           \
    X(TASK_BEGIN, "__itt_task_begin", ignore_task_begin, NULL)                                     \
    X(TASK_END, "__itt_task_end", ignore_task_end, NULL)                                           \
    X(MARKER, "__itt_marker", ignore_marker, NULL)

static kp_itt_api api_list[] = {
#define X(index, name, initial, absent)                                                            \
    {name, &itt_functions[index], (kp_itt_function)(initial), (kp_itt_function)(absent),           \
     KP_ITT_GROUP_STRUCTURE},
    KP_ITT_FUNCTION_MAP(X)
#undef X
        {NULL, NULL, NULL, NULL, 0}};

/* The structure that collectors read. Its lists are only appended to, and each element is complete
 * before it is linked: a collector may walk them with or without the mutex. */
static kp_itt_global global = {.magic = KP_ITT_MAGIC,
                               .version_major = KP_ITT_MAJOR,
                               .version_minor = KP_ITT_MINOR,
                               .version_build = KP_ITT_BUILD,
                               .mutex = PTHREAD_MUTEX_INITIALIZER,
                               .api_list = api_list};

/* Finds a domain in our list or appends it. NULL: out of memory or no name. */
static kp_itt_domain *create_own_domain(const char *name)
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

/* Appends a string to our list. Callers search for it before; two threads that race may append it
 * twice, which does no harm. */
static kp_itt_string *create_own_string(const char *text)
{
    static kp_itt_string *last; /* the end of the list or close to it; atomic */
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

/* The function to call; NULL: none. A collector may remove a function at any time. Our own
 * functions that do nothing count as none. */
KB_INLINE kp_itt_function itt_function(int index)
{
    KB_ASSERT(index >= 0 && index < FUNCTIONS);
    kp_itt_function f = kb_load_relaxed(&itt_functions[index]);
    return f == api_list[index].initial ? api_list[index].absent : f;
}

static void reset_itt_functions(void)
{
    for (int i = 0; i < FUNCTIONS; i++)
        itt_functions[i] = api_list[i].initial;
}

/* The mutex that collectors lock. Recursive, because some lock it twice. */
static kineto_status create_itt_mutex(kineto_error *err)
{
    pthread_mutexattr_t kind;
    if (global.mutex_initialized)
        return KINETO_OK;
    int os_error = pthread_mutexattr_init(&kind);
    if (os_error)
        return kb_fail_os(err, os_error, "ITT: cannot create the mutex");
    (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
    os_error = pthread_mutex_init(&global.mutex, &kind);
    (void)pthread_mutexattr_destroy(&kind);
    if (os_error)
        return kb_fail_os(err, os_error, "ITT: cannot create the mutex");
    global.mutex_initialized = 1;
    return KINETO_OK;
}

static kp_itt_function find_exported(void *library, const char *name)
{
    kp_itt_function f = NULL;
    void *symbol = dlsym(library, name);
    memcpy(&f, &symbol, sizeof f);
    return f;
}

/* For older collectors, which have no initialisation and export the functions themselves. */
static void use_exported_functions(void *library)
{
    for (int i = 0; i < FUNCTIONS; i++) {
        kp_itt_function f = find_exported(library, api_list[i].name);
        itt_functions[i] = f ? f : api_list[i].absent;
    }
}

/* The domain of all our tasks, and the name that stands for all beyond the limit. */
static kineto_status create_itt_domain(const char *path, kineto_error *err)
{
    kp_itt_domain_create create_domain = (kp_itt_domain_create)itt_function(DOMAIN_CREATE);
    kp_itt_string_create create_string = (kp_itt_string_create)itt_function(STRING_CREATE);
    if (!create_domain)
        create_domain = create_own_domain;
    if (!create_string)
        create_string = create_own_string;
    itt_domain = create_domain("ckineto");
    other_name = create_string(KP_ITT_OTHER);
    if (!itt_domain || !other_name)
        return kb_fail(err, KINETO_E_PLUGIN, "ITT: %s returned no %s", path,
                       itt_domain ? "handle for a name" : "domain");
    return KINETO_OK;
}

static kineto_status attach_itt(void *library, const char *path, bool *entered, kineto_error *err)
{
    kp_itt_initialize initialize = (kp_itt_initialize)find_exported(library, KP_ITT_INITIALIZE);
    reset_itt_functions();
    if (!initialize && !find_exported(library, api_list[TASK_BEGIN].name))
        return kb_fail(err, KINETO_E_FORMAT,
                       "ITT: %s exports neither " KP_ITT_INITIALIZE " nor %s; " KP_ITT_VARIABLE
                       " must name a collector's library",
                       path, api_list[TASK_BEGIN].name);
    kineto_status status = create_itt_mutex(err);
    if (status != KINETO_OK)
        return status;
    global.library = library;
    *entered = true;
    if (initialize)
        initialize(&global, KP_ITT_GROUP_ALL);
    else
        use_exported_functions(library);
    global.api_initialized = 1;
    if (!itt_function(TASK_BEGIN) || !itt_function(TASK_END))
        status =
            kb_fail(err, KINETO_E_UNSUPPORTED, "ITT: %s provides no functions for tasks", path);
    else
        status = create_itt_domain(path, err);
    if (status != KINETO_OK) {
        reset_itt_functions();
        global.api_initialized = 0;
    }
    return status;
}

static kineto_status itt_open(kineto_error *err) { return kp_tool_open(&itt, err); }

/* ---- names ----------------------------------------------------------------------------------- */

/* Length of the name in bytes, cut to KP_ITT_NAME_BYTES between UTF-8 sequences. */
static size_t cut_name(const char *text)
{
    size_t n = strnlen(text, KP_ITT_NAME_BYTES);
    if (n == KP_ITT_NAME_BYTES)
        while (n > 0 && ((unsigned char)text[n] & 0xc0) == 0x80)
            n--;
    return n;
}

/* The slot of a name, or the free one where it belongs; NULL: the table is full. */
static kp_itt_name **find_name_slot(uint64_t hash, const char *text, size_t size)
{
    for (uint32_t i = 0; i < KP_ITT_SLOTS; i++) {
        kp_itt_name **place = &name_table[(hash + i) % KP_ITT_SLOTS];
        const kp_itt_name *n = kb_load_acquire(place);
        if (!n || (n->hash == hash && strncmp(n->text, text, size) == 0 && !n->text[size]))
            return place;
    }
    return NULL;
}

/* An entry with a new handle, not yet in the table; NULL: out of memory or the collector
 * refused. */
static kp_itt_name *create_name(uint64_t hash, const char *text, size_t size)
{
    kp_itt_string_create create = (kp_itt_string_create)itt_function(STRING_CREATE);
    kp_itt_name *n = malloc(sizeof *n + size + 1);
    if (!n)
        return NULL;
    KB_ASSERT(size <= KP_ITT_NAME_BYTES);
    n->hash = hash;
    memcpy(n->text, text, size);
    n->text[size] = '\0';
    n->string = create ? create(n->text) : create_own_string(n->text);
    if (n->string)
        return n;
    free(n);
    return NULL;
}

/* Counts one more name. False: the limit is reached, which is logged once. */
static bool reserve_name(void)
{
    uint32_t before = kb_add_relaxed(&name_count, 1);
    if (before < KP_ITT_NAMES)
        return true;
    kb_store_relaxed(&name_count, KP_ITT_NAMES + 1);
    if (before == KP_ITT_NAMES)
        kb_log(KINETO_LOG_WARNING, "ITT: more than %u names; the rest is shown as \"%s\"",
               KP_ITT_NAMES, KP_ITT_OTHER);
    return false;
}

/* The first use of a name. Two threads may race: each gets a handle for the same text, and one of
 * the two stays in the table. */
static KB_COLD kp_itt_string *add_itt_name(uint64_t hash, const char *text, size_t size)
{
    if (kb_load_relaxed(&name_count) > KP_ITT_NAMES || !reserve_name())
        return other_name;
    kp_itt_name *mine = create_name(hash, text, size), *there = NULL;
    kp_itt_string *string = mine ? mine->string : other_name;
    kp_itt_name **place;
    while (mine && (place = find_name_slot(hash, text, size))) {
        there = NULL;
        if (kb_cas_acqrel(place, &there, mine))
            return string;
        if (there->hash == hash && strcmp(there->text, mine->text) == 0)
            break;
    }
    free(mine);
    return string;
}

/* The handle of a name, created at its first use. Never NULL once the tool is open. */
static kp_itt_string *get_name_handle(const char *text)
{
    size_t size = cut_name(text);
    uint64_t hash = kb_hash(text, size);
    kp_itt_name **place = find_name_slot(hash, text, size);
    const kp_itt_name *n = place ? kb_load_acquire(place) : NULL;
    return n ? n->string : add_itt_name(hash, text, size);
}

/* ---- ranges ---------------------------------------------------------------------------------- */

static const kp_itt_id no_id;

static bool itt_push(const char *text)
{
    if (!kp_tool_is_open(&itt) || !text || !itt_domain->flags)
        return false;
    kp_itt_task_begin begin = (kp_itt_task_begin)itt_function(TASK_BEGIN);
    if (begin)
        begin(itt_domain, no_id, no_id, get_name_handle(text));
    return begin != NULL;
}

static void itt_pop(void)
{
    if (!kp_tool_is_open(&itt) || !itt_domain->flags)
        return;
    kp_itt_task_end end = (kp_itt_task_end)itt_function(TASK_END);
    if (end)
        end(itt_domain);
}

/* Collectors without markers get a task of no length, which is what PyTorch shows to all. */
static void itt_mark(const char *text)
{
    if (!kp_tool_is_open(&itt) || !text || !itt_domain->flags)
        return;
    kp_itt_marker marker = (kp_itt_marker)itt_function(MARKER);
    if (marker)
        marker(itt_domain, no_id, get_name_handle(text), KP_ITT_SCOPE_TRACK);
    else if (itt_push(text))
        itt_pop();
}

const kp_emitter kp_itt_emitter = {"ITT", KP_ITT_VARIABLE, itt_open, itt_push, itt_pop, itt_mark};
