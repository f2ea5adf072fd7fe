/* Ranges shown to an NVTX tool. The tool fills a table of functions for each module (nvtx.h) when
 * it is initialised, and may add or remove functions later; each call reads the pointer anew. */
#include "profiler/emit.h"
#include "profiler/nvtx.h"

#include <dlfcn.h>

/* Slots per module. A tool of a newer version may fill in functions that we do not know. */
#define KP_NVTX_SLOTS 64u

static kp_nvtx_function function_slots[KP_NVTX_MODULES][KP_NVTX_SLOTS];
static kp_nvtx_function *slot_addresses[KP_NVTX_MODULES][KP_NVTX_SLOTS];
static const unsigned slot_counts[KP_NVTX_MODULES] = {
#define X(name, number, count) [number] = (count),
    KP_NVTX_MODULE_MAP(X)
#undef X
};

/* Routes by which ranges reach the tool, depending on the functions that it provides. A tool may
 * fill in its functions later, when a user starts a capture: until then there is no route. */
enum { ROUTE_NONE, ROUTE_TEXT, ROUTE_ATTRIBUTES, ROUTE_DOMAIN };
static int range_route, mark_route; /* atomic */
static void *nvtx_domain;           /* atomic; NULL is the domain of those without a name */
/* The tool requested the table of a module whose functions we call. */
static bool core_requested;

static kineto_status attach_nvtx(void *library, const char *path, bool *entered, kineto_error *err);
static kp_tool nvtx = {.name = "NVTX",
                       .variable = KP_NVTX_VARIABLE,
                       .start = "start the program under an NVTX tool such as nsys",
                       .attach = attach_nvtx};

/* ---- functions that the tool calls ----------------------------------------------------------- */

/* The function slots of a module for the tool to fill in; 0: unknown module. */
static int get_module_table(int module, kp_nvtx_function ***table, unsigned *count)
{
    if (module <= 0 || module >= KP_NVTX_MODULES)
        return 0;
    if (module == KP_NVTX_MODULE_CORE || module == KP_NVTX_MODULE_CORE2)
        core_requested = true;
    if (table)
        *table = slot_addresses[module];
    if (count)
        *count = slot_counts[module];
    return 1;
}

static void set_injection_version(uint32_t version) { (void)version; }

/* The argument of the tool's initialisation: tables by number; NULL: unknown number. */
static const void *get_export_table(uint32_t table)
{
    static const kp_nvtx_callbacks callbacks = {sizeof callbacks, get_module_table};
    static const kp_nvtx_versions versions = {sizeof versions, KP_NVTX_VERSION, 0,
                                              set_injection_version};
    if (table == KP_NVTX_TABLE_CALLBACKS)
        return &callbacks;
    return table == KP_NVTX_TABLE_VERSION ? &versions : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The tool may remove a function at any time by writing NULL. */
KB_INLINE kp_nvtx_function nvtx_function(int module, int number)
{
    KB_ASSERT(number > 0 && number < (int)KP_NVTX_SLOTS);
    return kb_load_relaxed(&function_slots[module][number]);
}
#define CORE(number)   nvtx_function(KP_NVTX_MODULE_CORE, (number))
#define DOMAIN(number) nvtx_function(KP_NVTX_MODULE_CORE2, (number))

/* Empties all slots, before the tool fills them and after it failed. */
static void clear_nvtx_tables(void)
{
    for (unsigned m = 0; m < KP_NVTX_MODULES; m++)
        for (unsigned i = 0; i < KP_NVTX_SLOTS; i++) {
            function_slots[m][i] = NULL;
            slot_addresses[m][i] = &function_slots[m][i];
        }
}

/* The route for ranges: push and pop must use the same one, so both must exist. */
static int find_range_route(void)
{
    if (CORE(KP_NVTX_RANGE_POP) && CORE(KP_NVTX_RANGE_PUSH_A))
        return ROUTE_TEXT;
    if (CORE(KP_NVTX_RANGE_POP) && CORE(KP_NVTX_RANGE_PUSH_EX))
        return ROUTE_ATTRIBUTES;
    bool domains = DOMAIN(KP_NVTX_DOMAIN_RANGE_PUSH_EX) && DOMAIN(KP_NVTX_DOMAIN_RANGE_POP);
    return domains ? ROUTE_DOMAIN : ROUTE_NONE;
}

static int find_mark_route(void)
{
    if (CORE(KP_NVTX_MARK_A))
        return ROUTE_TEXT;
    if (CORE(KP_NVTX_MARK_EX))
        return ROUTE_ATTRIBUTES;
    return DOMAIN(KP_NVTX_DOMAIN_MARK_EX) ? ROUTE_DOMAIN : ROUTE_NONE;
}

/* Two threads may create the domain at once; one of the two stays, the other is never used. */
static void create_nvtx_domain(void)
{
    kp_nvtx_domain_create create = (kp_nvtx_domain_create)DOMAIN(KP_NVTX_DOMAIN_CREATE_A);
    void *none = NULL, *made = !kb_load_acquire(&nvtx_domain) && create ? create("ckineto") : NULL;
    if (made)
        (void)kb_cas_acqrel(&nvtx_domain, &none, made);
}

/* A route that was found stays, so that a range is ended by the route on which it began. Returns
 * the * route that all threads use. */
static KB_COLD int settle_route(int *route, int found)
{
    KB_ASSERT(found >= ROUTE_NONE && found <= ROUTE_DOMAIN);
    int none = ROUTE_NONE;
    if (found == ROUTE_NONE)
        return ROUTE_NONE;
    if (found == ROUTE_DOMAIN)
        create_nvtx_domain();
    return kb_cas_acqrel(route, &none, found) ? found : none;
}
KB_INLINE int get_range_route(void)
{
    int route = kb_load_acquire(&range_route);
    return KINETO_LIKELY(route) ? route : settle_route(&range_route, find_range_route());
}
KB_INLINE int get_mark_route(void)
{
    int route = kb_load_acquire(&mark_route);
    return KINETO_LIKELY(route) ? route : settle_route(&mark_route, find_mark_route());
}

static kineto_status attach_nvtx(void *library, const char *path, bool *entered, kineto_error *err)
{
    kp_nvtx_initialize initialize = NULL;
    void *symbol = dlsym(library, KP_NVTX_INITIALIZE);
    memcpy(&initialize, &symbol, sizeof initialize);
    if (!initialize)
        return kb_fail(err, KINETO_E_FORMAT,
                       "NVTX: %s does not export " KP_NVTX_INITIALIZE "; " KP_NVTX_VARIABLE
                       " must name a tool's library",
                       path);
    clear_nvtx_tables();
    core_requested = false;
    *entered = true;
    int result = initialize(get_export_table);
    if (result && core_requested) {
        if (get_range_route() == ROUTE_NONE)
            kb_log(KINETO_LOG_WARNING, "NVTX: %s provides no range callbacks yet", path);
        return KINETO_OK;
    }
    clear_nvtx_tables();
    if (!result)
        return kb_fail(err, KINETO_E_PLUGIN,
                       "NVTX: %s: initialisation failed: " KP_NVTX_INITIALIZE " returned 0", path);
    return kb_fail(err, KINETO_E_UNSUPPORTED, "NVTX: %s provides no range callbacks", path);
}

static kineto_status nvtx_open(kineto_error *err) { return kp_tool_open(&nvtx, err); }

/* ---- ranges ---------------------------------------------------------------------------------- */

static kp_nvtx_attributes make_attributes(const char *text)
{
    return (kp_nvtx_attributes){.version = KP_NVTX_VERSION,
                                .size = sizeof(kp_nvtx_attributes),
                                .message_type = KP_NVTX_MESSAGE_ASCII,
                                .message = text};
}

/* Pushes with a structure of attributes, in the domain or without. False: the tool removed its
 * function. */
static bool push_attributes(int route, const char *text)
{
    kp_nvtx_attributes range = make_attributes(text);
    kp_nvtx_function push =
        route == ROUTE_DOMAIN ? DOMAIN(KP_NVTX_DOMAIN_RANGE_PUSH_EX) : CORE(KP_NVTX_RANGE_PUSH_EX);
    if (!push)
        return false;
    if (route == ROUTE_DOMAIN)
        (void)((kp_nvtx_domain_push)push)(kb_load_acquire(&nvtx_domain), &range);
    else
        (void)((kp_nvtx_push_ex)push)(&range);
    return true;
}

static bool nvtx_push(const char *text)
{
    if (!kp_tool_is_open(&nvtx) || !text)
        return false;
    int route = get_range_route();
    if (route != ROUTE_TEXT)
        return route != ROUTE_NONE && push_attributes(route, text);
    kp_nvtx_push_a push = (kp_nvtx_push_a)CORE(KP_NVTX_RANGE_PUSH_A);
    if (push)
        (void)push(text);
    return push != NULL;
}

static void nvtx_pop(void)
{
    if (!kp_tool_is_open(&nvtx))
        return;
    int route = get_range_route();
    if (route == ROUTE_DOMAIN) {
        kp_nvtx_domain_pop pop = (kp_nvtx_domain_pop)DOMAIN(KP_NVTX_DOMAIN_RANGE_POP);
        if (pop)
            (void)pop(kb_load_acquire(&nvtx_domain));
        return;
    }
    kp_nvtx_pop pop = route == ROUTE_NONE ? NULL : (kp_nvtx_pop)CORE(KP_NVTX_RANGE_POP);
    if (pop)
        (void)pop();
}

static void mark_attributes(int route, const char *text)
{
    kp_nvtx_attributes mark = make_attributes(text);
    if (route == ROUTE_DOMAIN) {
        kp_nvtx_domain_mark in_domain = (kp_nvtx_domain_mark)DOMAIN(KP_NVTX_DOMAIN_MARK_EX);
        if (in_domain)
            in_domain(kb_load_acquire(&nvtx_domain), &mark);
        return;
    }
    kp_nvtx_mark_ex core = (kp_nvtx_mark_ex)CORE(KP_NVTX_MARK_EX);
    if (core)
        core(&mark);
}

static void nvtx_mark(const char *text)
{
    int route = kp_tool_is_open(&nvtx) && text ? get_mark_route() : ROUTE_NONE;
    if (route == ROUTE_NONE)
        return;
    if (route != ROUTE_TEXT) {
        mark_attributes(route, text);
        return;
    }
    kp_nvtx_mark_a mark = (kp_nvtx_mark_a)CORE(KP_NVTX_MARK_A);
    if (mark)
        mark(text);
}

const kp_emitter kp_nvtx_emitter = {"NVTX",    KP_NVTX_VARIABLE, nvtx_open,
                                    nvtx_push, nvtx_pop,         nvtx_mark};
