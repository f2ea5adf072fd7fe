/* Ranges shown to an NVTX tool. */
#include "profiler/emit.h"
#include "profiler/nvtx.h"

#include <dlfcn.h>

/* A tool of another version may fill in functions that we do not know: there is room for them. */
#define KP_NVTX_SLOTS 64u

static kp_nvtx_function slots[KP_NVTX_MODULES][KP_NVTX_SLOTS];
static kp_nvtx_function *tables[KP_NVTX_MODULES][KP_NVTX_SLOTS];
static const unsigned counts[KP_NVTX_MODULES] = {
#define X(name, number, count) [number] = (count),
    KP_NVTX_MODULE_MAP(X)
#undef X
};

/* How ranges go to the tool, by what it takes. A tool may fill in its functions later, when
 * somebody wants to see ranges: until then there is no way. */
enum { WAY_NONE, WAY_TEXT, WAY_ATTRIBUTES, WAY_DOMAIN };
static int range_way, mark_way; /* atomic */
static void *domain;            /* atomic; NULL is the domain of those without a name */
static bool asked;              /* for tables of functions that we call */

static kineto_status attach(void *library, const char *path, bool *entered, kineto_error *err);
static kp_tool nvtx = {.name = "NVTX",
                       .variable = KP_NVTX_VARIABLE,
                       .start = "start the program under a tool that takes NVTX, nsys say",
                       .attach = attach};

/* ---- what the tool calls --------------------------------------------------------------------- */

static int module_table(int module, kp_nvtx_function ***table, unsigned *count)
{
    if (module <= 0 || module >= KP_NVTX_MODULES)
        return 0;
    if (module == KP_NVTX_MODULE_CORE || module == KP_NVTX_MODULE_CORE2)
        asked = true;
    if (table)
        *table = tables[module];
    if (count)
        *count = counts[module];
    return 1;
}

static void set_injection_version(uint32_t version) { (void)version; }

static const void *export_table(uint32_t table)
{
    static const kp_nvtx_callbacks callbacks = {sizeof callbacks, module_table};
    static const kp_nvtx_versions versions = {sizeof versions, KP_NVTX_VERSION, 0,
                                              set_injection_version};
    if (table == KP_NVTX_TABLE_CALLBACKS)
        return &callbacks;
    return table == KP_NVTX_TABLE_VERSION ? &versions : NULL;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* The tool may take a function away again at any time: it writes NULL. */
KB_INLINE kp_nvtx_function function_of(int module, int number)
{
    return kb_load_relaxed(&slots[module][number]);
}
#define CORE(number)   function_of(KP_NVTX_MODULE_CORE, (number))
#define DOMAIN(number) function_of(KP_NVTX_MODULE_CORE2, (number))

static void clear(void)
{
    for (unsigned m = 0; m < KP_NVTX_MODULES; m++)
        for (unsigned i = 0; i < KP_NVTX_SLOTS; i++) {
            slots[m][i] = NULL;
            tables[m][i] = &slots[m][i];
        }
}

/* The innermost range is ended where it was begun, so both go the same way. */
static int find_range_way(void)
{
    if (CORE(KP_NVTX_RANGE_POP) && CORE(KP_NVTX_RANGE_PUSH_A))
        return WAY_TEXT;
    if (CORE(KP_NVTX_RANGE_POP) && CORE(KP_NVTX_RANGE_PUSH_EX))
        return WAY_ATTRIBUTES;
    bool domains = DOMAIN(KP_NVTX_DOMAIN_RANGE_PUSH_EX) && DOMAIN(KP_NVTX_DOMAIN_RANGE_POP);
    return domains ? WAY_DOMAIN : WAY_NONE;
}

static int find_mark_way(void)
{
    if (CORE(KP_NVTX_MARK_A))
        return WAY_TEXT;
    if (CORE(KP_NVTX_MARK_EX))
        return WAY_ATTRIBUTES;
    return DOMAIN(KP_NVTX_DOMAIN_MARK_EX) ? WAY_DOMAIN : WAY_NONE;
}

/* Two threads may make it; one of the two stays. */
static void make_domain(void)
{
    kp_nvtx_domain_create create = (kp_nvtx_domain_create)DOMAIN(KP_NVTX_DOMAIN_CREATE_A);
    void *none = NULL, *made = !kb_load_acquire(&domain) && create ? create("ckineto") : NULL;
    if (made)
        (void)kb_cas_acqrel(&domain, &none, made);
}

/* Once found it stays, so that what was begun one way is not ended another. */
static KB_COLD int settle(int *way, int found)
{
    int none = WAY_NONE;
    if (found == WAY_NONE)
        return WAY_NONE;
    if (found == WAY_DOMAIN)
        make_domain();
    return kb_cas_acqrel(way, &none, found) ? found : none;
}
KB_INLINE int way_of_ranges(void)
{
    int way = kb_load_acquire(&range_way);
    return KINETO_LIKELY(way) ? way : settle(&range_way, find_range_way());
}
KB_INLINE int way_of_marks(void)
{
    int way = kb_load_acquire(&mark_way);
    return KINETO_LIKELY(way) ? way : settle(&mark_way, find_mark_way());
}

static kineto_status attach(void *library, const char *path, bool *entered, kineto_error *err)
{
    kp_nvtx_initialize initialize = NULL;
    void *symbol = dlsym(library, KP_NVTX_INITIALIZE);
    memcpy(&initialize, &symbol, sizeof initialize);
    if (!initialize)
        return kb_fail(err, KINETO_E_FORMAT,
                       "NVTX: %s exports no " KP_NVTX_INITIALIZE ": " KP_NVTX_VARIABLE
                       " must name a tool's library",
                       path);
    clear();
    asked = false;
    *entered = true;
    int result = initialize(export_table);
    if (result && asked) {
        if (way_of_ranges() == WAY_NONE)
            kb_log(KINETO_LOG_WARNING, "NVTX: %s takes no ranges yet", path);
        return KINETO_OK;
    }
    clear();
    if (!result)
        return kb_fail(err, KINETO_E_PLUGIN,
                       "NVTX: %s does not want to be initialised: its " KP_NVTX_INITIALIZE
                       " returned 0",
                       path);
    return kb_fail(err, KINETO_E_UNSUPPORTED,
                   "NVTX: %s takes no ranges: it asked for no functions of theirs", path);
}

static kineto_status nvtx_open(kineto_error *err) { return kp_tool_open(&nvtx, err); }

/* ---- ranges ---------------------------------------------------------------------------------- */

static kp_nvtx_attributes attributes_of(const char *text)
{
    return (kp_nvtx_attributes){.version = KP_NVTX_VERSION,
                                .size = sizeof(kp_nvtx_attributes),
                                .message_type = KP_NVTX_MESSAGE_ASCII,
                                .message = text};
}

static bool push_attributes(int way, const char *text)
{
    kp_nvtx_attributes range = attributes_of(text);
    kp_nvtx_function push =
        way == WAY_DOMAIN ? DOMAIN(KP_NVTX_DOMAIN_RANGE_PUSH_EX) : CORE(KP_NVTX_RANGE_PUSH_EX);
    if (!push)
        return false;
    if (way == WAY_DOMAIN)
        (void)((kp_nvtx_domain_push)push)(kb_load_acquire(&domain), &range);
    else
        (void)((kp_nvtx_push_ex)push)(&range);
    return true;
}

static bool nvtx_push(const char *text)
{
    if (!kp_tool_is_open(&nvtx) || !text)
        return false;
    int way = way_of_ranges();
    if (way != WAY_TEXT)
        return way != WAY_NONE && push_attributes(way, text);
    kp_nvtx_push_a push = (kp_nvtx_push_a)CORE(KP_NVTX_RANGE_PUSH_A);
    if (push)
        (void)push(text);
    return push != NULL;
}

static void nvtx_pop(void)
{
    if (!kp_tool_is_open(&nvtx))
        return;
    int way = way_of_ranges();
    if (way == WAY_DOMAIN) {
        kp_nvtx_domain_pop pop = (kp_nvtx_domain_pop)DOMAIN(KP_NVTX_DOMAIN_RANGE_POP);
        if (pop)
            (void)pop(kb_load_acquire(&domain));
        return;
    }
    kp_nvtx_pop pop = way == WAY_NONE ? NULL : (kp_nvtx_pop)CORE(KP_NVTX_RANGE_POP);
    if (pop)
        (void)pop();
}

static void mark_attributes(int way, const char *text)
{
    kp_nvtx_attributes mark = attributes_of(text);
    if (way == WAY_DOMAIN) {
        kp_nvtx_domain_mark in_domain = (kp_nvtx_domain_mark)DOMAIN(KP_NVTX_DOMAIN_MARK_EX);
        if (in_domain)
            in_domain(kb_load_acquire(&domain), &mark);
        return;
    }
    kp_nvtx_mark_ex core = (kp_nvtx_mark_ex)CORE(KP_NVTX_MARK_EX);
    if (core)
        core(&mark);
}

static void nvtx_mark(const char *text)
{
    int way = kp_tool_is_open(&nvtx) && text ? way_of_marks() : WAY_NONE;
    if (way == WAY_NONE)
        return;
    if (way != WAY_TEXT) {
        mark_attributes(way, text);
        return;
    }
    kp_nvtx_mark_a mark = (kp_nvtx_mark_a)CORE(KP_NVTX_MARK_A);
    if (mark)
        mark(text);
}

const kp_emitter kp_nvtx_emitter = {"NVTX",    KP_NVTX_VARIABLE, nvtx_open,
                                    nvtx_push, nvtx_pop,         nvtx_mark};
