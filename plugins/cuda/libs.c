/* The vendor's libraries: found by name, opened when a session starts, never linked. */
#include "cuda.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
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
 * program has loaded itself comes before all. Before CUDA 12 each release had a name of its own. */
static const char *const cupti_names[] = {"libcupti.so.13",
                                          "libcupti.so.12",
                                          "libcupti.so.11.8",
                                          "libcupti.so.11.7",
                                          "libcupti.so.11.6",
                                          "libcupti.so.11.5",
                                          "libcupti.so.11.4",
                                          "libcupti.so.11.3",
                                          "libcupti.so.11.2",
                                          "libcupti.so.11.1",
                                          "libcupti.so.11.0",
                                          "libcupti.so",
                                          "/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                          "/usr/local/cuda/lib64/libcupti.so"};
static const char *const driver_names[] = {"libcuda.so.1"};
/* Asked for its version: one that the program does not use has nothing to say. */
static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12",
                                            "libcudart.so.11.0"};

/* ---- opening ----------------------------------------------------------------------------------- */

typedef struct library {
    const char *what, *variable;
    const char *stem; /* what the program has loaded is called, up to a version */
    bool only_loaded; /* by the program */
    const char *const *names;
    size_t name_count;
    const symbol *symbols;
    size_t symbol_count;
    void *table;
    size_t table_bytes;
} library;

#define NAMES(list) .names = (list), .name_count = CP_COUNT(list)
#define SYMBOLS(list, to)                                                                          \
    .symbols = (list), .symbol_count = CP_COUNT(list), .table = &(to), .table_bytes = sizeof(to)
static const library cupti_library = {.what = "CUPTI",
                                      .variable = "CKINETO_CUPTI_LIBRARY",
                                      .stem = "libcupti",
                                      NAMES(cupti_names),
                                      SYMBOLS(cupti_symbols, cp_cupti)};
static const library driver_library = {.what = "the CUDA driver",
                                       .variable = "CKINETO_CUDA_LIBRARY",
                                       .stem = "libcuda",
                                       NAMES(driver_names),
                                       SYMBOLS(driver_symbols, cp_driver)};
static const library runtime_library = {.what = "the CUDA runtime",
                                        .variable = "CKINETO_CUDART_LIBRARY",
                                        .stem = "libcudart",
                                        .only_loaded = true,
                                        NAMES(runtime_names),
                                        SYMBOLS(runtime_symbols, cp_runtime)};

typedef struct search {
    const char *stem;
    char path[PATH_MAX]; /* "": not loaded */
} search;

/* "libcupti.so.12", or "libcupti-1a2b3c4d.so.12" of a wheel that brings it along. */
static bool is_called(const char *path, const char *stem)
{
    const char *slash = strrchr(path, '/'), *at = slash ? slash + 1 : path;
    size_t size = strlen(stem);
    if (strncmp(at, stem, size) != 0)
        return false;
    at += size;
    if (*at == '-' && strspn(at + 1, "0123456789abcdef") == 8)
        at += 9;
    return strncmp(at, ".so", 3) == 0;
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    search *s = data;
    (void)size;
    if (!info->dlpi_name || !is_called(info->dlpi_name, s->stem))
        return 0;
    snprintf(s->path, sizeof s->path, "%s", info->dlpi_name);
    return 1;
}

/* What the program has loaded, whatever its version. */
static void *open_loaded(const library *l)
{
    search s = {.stem = l->stem};
    (void)dl_iterate_phdr(look_at, &s);
    return s.path[0] ? dlopen(s.path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
}

/* CUPTI works with drivers of its own major release and later ones. */
static bool fits_driver(const char *name)
{
    int driver = 0, major = 0;
    return sscanf(name, "libcupti.so.%d", &major) != 1 || !cp_driver.driver_version ||
           cp_driver.driver_version(&driver) != 0 || driver == 0 || major <= driver / 1000;
}

static void *open_installed(const library *l)
{
    for (size_t i = 0; i < l->name_count; i++) {
        void *handle = fits_driver(l->names[i]) ? dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
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
    handle = open_loaded(l);
    if (!handle && !l->only_loaded)
        handle = open_installed(l);
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
    memset(l->table, 0, l->table_bytes); /* nothing of it is called */
    if (handle)
        dlclose(handle);
    return false;
}

static bool ask_driver(char why[CP_TEXT_BYTES])
{
    int found = 0;
    cp_cuda_result result = cp_driver.driver_version(&found);
    if (result == 0 && found)
        return true;
    snprintf(why, CP_TEXT_BYTES,
             "the CUDA driver does not work (cuDriverGetVersion returned %d): 'nvidia-smi' shows "
             "whether it is installed; a libcuda.so.1 of the toolkit's folder 'stubs' is none",
             (int)result);
    return false;
}

bool cp_libs_open(char why[CP_TEXT_BYTES])
{
    if (version)
        return true;
    /* Without a driver that works no program uses a GPU, and CUPTI may crash: that of CUDA 13.2 does when it
     * is asked for its version then. */
    if (!open_and_fill(&driver_library, why) || !ask_driver(why) ||
        !open_and_fill(&cupti_library, why))
        return false;
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

int cp_runtime_version(void)
{
    char unused[CP_TEXT_BYTES];
    int found = 0;
    if (!cp_runtime.runtime_version)
        (void)open_and_fill(&runtime_library, unused);
    return cp_runtime.runtime_version && cp_runtime.runtime_version(&found) == 0 ? found : 0;
}

const char *cp_result_text(cp_result result)
{
    static _Thread_local char number[32];
    const char *text = NULL;
    if (cp_cupti.result_string && cp_cupti.result_string(result, &text) == CP_SUCCESS && text)
        return text;
    snprintf(number, sizeof number, "CUPTI error %d", result);
    return number;
}
