/* The vendor's libraries: found by name, opened when a session starts, never linked. */
#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

cp_cupti_api cp_cupti;
cp_driver_api cp_driver;
cp_runtime_api cp_runtime;

static uint32_t version;

/* A member of a function table. */
typedef struct symbol {
    const char *name;
    size_t offset;
    bool needed;
} symbol;

#define CP_X(member, symbol, result, parameters, needed)                                           \
    {#symbol, offsetof(TABLE, member), (needed) != 0},
#define TABLE cp_cupti_api
static const symbol cupti_symbols[] = {CP_CUPTI_MAP(CP_X)};
#undef TABLE
#define TABLE cp_driver_api
static const symbol driver_symbols[] = {CP_DRIVER_MAP(CP_X)};
#undef TABLE
#define TABLE cp_runtime_api
static const symbol runtime_symbols[] = {CP_RUNTIME_MAP(CP_X)};
#undef TABLE
#undef CP_X

/* Newest first; the bare name is there where the toolkit is installed for developers. What the
 * program has loaded itself comes before all. */
static const char *const cupti_names[] = {"libcupti.so.13",
                                          "libcupti.so.12",
                                          "libcupti.so.11.8",
                                          "libcupti.so",
                                          "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                          "/usr/local/cuda/lib64/libcupti.so"};
static const char *const driver_names[] = {"libcuda.so.1"};
static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12",
                                            "libcudart.so.11.0"};

/* ---- opening ----------------------------------------------------------------------------------- */

typedef struct library {
    const char *what, *variable;
    const char *const *names;
    size_t name_count;
    const symbol *symbols;
    size_t symbol_count;
    void *table;
} library;

static const library cupti_library = {
    "CUPTI",       "CKINETO_CUPTI_LIBRARY", cupti_names, CP_COUNT(cupti_names),
    cupti_symbols, CP_COUNT(cupti_symbols), &cp_cupti};
static const library driver_library = {
    "the CUDA driver", "CKINETO_CUDA_LIBRARY",   driver_names, CP_COUNT(driver_names),
    driver_symbols,    CP_COUNT(driver_symbols), &cp_driver};
static const library runtime_library = {
    "the CUDA runtime", "CKINETO_CUDART_LIBRARY",  runtime_names, CP_COUNT(runtime_names),
    runtime_symbols,    CP_COUNT(runtime_symbols), &cp_runtime};

static void *open_named(const library *l, int flags)
{
    for (size_t i = 0; i < l->name_count; i++) {
        void *handle = dlopen(l->names[i], flags);
        if (handle)
            return handle;
    }
    return NULL;
}

/* The one that the program uses, if it uses one: two of them would not know of each other. */
static void *open_library(const library *l, char why[CP_TEXT_BYTES])
{
    const char *wanted = secure_getenv(l->variable);
    void *handle = NULL;
    if (wanted && *wanted) {
        handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        const char *text = handle ? NULL : dlerror();
        if (!handle)
            snprintf(why, CP_TEXT_BYTES, "%s: %s names a library that cannot be opened: %.180s",
                     l->what, l->variable, text ? text : "no reason given");
        return handle;
    }
    handle = open_named(l, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!handle)
        handle = open_named(l, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "%s was not found (%s and others): install it, or name it in %s", l->what,
                 l->names[0], l->variable);
    return handle;
}

/* Function pointers are as wide as data pointers where there is dlsym. */
static bool fill(const library *l, void *handle, char why[CP_TEXT_BYTES])
{
    for (size_t i = 0; i < l->symbol_count; i++) {
        void *address = handle ? dlsym(handle, l->symbols[i].name) : NULL;
        if (!address && l->symbols[i].needed) {
            snprintf(why, CP_TEXT_BYTES,
                     "%s is too old: it has no %s; CUDA 11.0 or later is needed", l->what,
                     l->symbols[i].name);
            return false;
        }
        memcpy((char *)l->table + l->symbols[i].offset, &address, sizeof address);
    }
    return true;
}

static bool open_and_fill(const library *l, char why[CP_TEXT_BYTES])
{
    void *handle = open_library(l, why);
    if (handle && fill(l, handle, why))
        return true;
    if (handle)
        dlclose(handle);
    return false;
}

bool cp_libs_open(char why[CP_TEXT_BYTES])
{
    char unused[CP_TEXT_BYTES];
    if (version)
        return true;
    /* Without it no program uses a GPU, and CUPTI could but fail. */
    if (!open_and_fill(&driver_library, why) || !open_and_fill(&cupti_library, why))
        return false;
    if (!open_and_fill(&runtime_library, unused))
        memset(&cp_runtime, 0, sizeof cp_runtime);
    uint32_t found = 0;
    cp_result result = cp_cupti.get_version(&found);
    if (result != CP_SUCCESS || found == 0) {
        snprintf(why, CP_TEXT_BYTES, "CUPTI does not say its version: %s", cp_result_text(result));
        return false;
    }
    version = found;
    return true;
}

uint32_t cp_cupti_version(void) { return version; }

const char *cp_result_text(cp_result result)
{
    static _Thread_local char number[32];
    const char *text = NULL;
    if (cp_cupti.result_string && cp_cupti.result_string(result, &text) == CP_SUCCESS && text)
        return text;
    snprintf(number, sizeof number, "CUPTI error %d", result);
    return number;
}
