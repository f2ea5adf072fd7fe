/* Finds and opens NVIDIA's libraries when a session starts; they are never linked. The library that
 * the program itself has loaded comes first, since two copies of CUPTI would not know of each
 * other. */
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

static uint32_t cupti_version;

/* A member of a function table. */
typedef struct api_symbol {
    const char *name;
    size_t offset;
    bool needed;
} api_symbol;

#define CP_X(member, api_symbol, result, parameters, needed)                                       \
    {#api_symbol, offsetof(TABLE, member), (needed) != 0},
#define TABLE cp_cupti_api
static const api_symbol cupti_symbols[] = {CP_CUPTI_MAP(CP_X)};
#undef TABLE
#define TABLE cp_driver_api
static const api_symbol driver_symbols[] = {CP_DRIVER_MAP(CP_X)};
#undef TABLE
#define TABLE cp_runtime_api
static const api_symbol runtime_symbols[] = {CP_RUNTIME_MAP(CP_X)};
#undef TABLE
#undef CP_X

/* Newest first. The name without a version exists where the toolkit is installed for development.
 * Before CUDA 12 each release had a name of its own. */
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
/* Only the version is read, so a runtime that the program does not use is not opened. */
static const char *const runtime_names[] = {"libcudart.so.13", "libcudart.so.12",
                                            "libcudart.so.11.0"};

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct vendor_library {
    const char *what, *variable;
    const char *stem; /* the file name without a version */
    bool only_loaded; /* open it only if the program has loaded it */
    const char *const *names;
    size_t name_count;
    const api_symbol *symbols;
    size_t symbol_count;
    void *table;
    size_t table_bytes;
} vendor_library;

#define NAMES(list) .names = (list), .name_count = CP_COUNT(list)
#define SYMBOLS(list, to)                                                                          \
    .symbols = (list), .symbol_count = CP_COUNT(list), .table = &(to), .table_bytes = sizeof(to)
static const vendor_library cupti_library = {.what = "CUPTI",
                                             .variable = "CKINETO_CUPTI_LIBRARY",
                                             .stem = "libcupti",
                                             NAMES(cupti_names),
                                             SYMBOLS(cupti_symbols, cp_cupti)};
static const vendor_library driver_library = {.what = "the CUDA driver",
                                              .variable = "CKINETO_CUDA_LIBRARY",
                                              .stem = "libcuda",
                                              NAMES(driver_names),
                                              SYMBOLS(driver_symbols, cp_driver)};
static const vendor_library runtime_library = {.what = "the CUDA runtime",
                                               .variable = "CKINETO_CUDART_LIBRARY",
                                               .stem = "libcudart",
                                               .only_loaded = true,
                                               NAMES(runtime_names),
                                               SYMBOLS(runtime_symbols, cp_runtime)};

typedef struct loaded_search {
    const char *stem;
    char path[PATH_MAX]; /* "": not loaded */
} loaded_search;

/* True for "libcupti.so.12", and for "libcupti-1a2b3c4d.so.12" as Python wheels name their
 * copies. */
static bool is_library_name(const char *path, const char *stem)
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

/* Callback of dl_iterate_phdr: stores the path of the first match. */
static int match_loaded_library(struct dl_phdr_info *info, size_t size, void *data)
{
    loaded_search *s = data;
    (void)size;
    if (!info->dlpi_name || !is_library_name(info->dlpi_name, s->stem))
        return 0;
    snprintf(s->path, sizeof s->path, "%s", info->dlpi_name);
    return 1;
}

/* The library that the program has loaded, of any version; NULL: none. */
static void *open_loaded_library(const vendor_library *l)
{
    loaded_search s = {.stem = l->stem};
    (void)dl_iterate_phdr(match_loaded_library, &s);
    return s.path[0] ? dlopen(s.path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
}

/* CUPTI works with drivers of its own major release and later ones. Names without a version may
 * fit. */
static bool fits_driver(const char *name)
{
    int driver = 0, major = 0;
    return sscanf(name, "libcupti.so.%d", &major) != 1 || !cp_driver.driver_version ||
           cp_driver.driver_version(&driver) != 0 || driver == 0 || major <= driver / 1000;
}

/* The newest installed library that fits the driver; NULL: none. */
static void *open_installed_library(const vendor_library *l)
{
    for (size_t i = 0; i < l->name_count; i++) {
        void *handle = fits_driver(l->names[i]) ? dlopen(l->names[i], RTLD_NOW | RTLD_LOCAL) : NULL;
        if (handle)
            return handle;
    }
    return NULL;
}

/* CUPTI as a Python package; NULL: there is none, or another library is asked for. */
static void *open_wheel_library(const vendor_library *l)
{
    char path[PATH_MAX];
    int driver = 0;
    if (l != &cupti_library || cp_driver.driver_version(&driver) != 0 ||
        !cp_find_wheel_cupti(driver / 1000, path))
        return NULL;
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/* The library that the user names, else the one that the program has loaded, else an installed
 * one. */
static void *find_and_open_library(const vendor_library *l, char why[CP_TEXT_BYTES])
{
    const char *wanted = secure_getenv(l->variable);
    void *handle = NULL;
    if (wanted && *wanted) {
        handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
        const char *text = handle ? NULL : dlerror();
        if (!handle)
            snprintf(why, CP_TEXT_BYTES, "%s: cannot open the library that %s names: %.180s",
                     l->what, l->variable, text ? text : "no reason given");
        return handle;
    }
    handle = open_loaded_library(l);
    if (!handle && !l->only_loaded)
        handle = open_installed_library(l);
    if (!handle)
        handle = open_wheel_library(l);
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "%s was not found (%s and others); install it, or name it in %s", l->what,
                 l->names[0], l->variable);
    return handle;
}

/* Fills a table of functions. POSIX requires function and data pointers to have the same size. */
static bool fill_api_table(const vendor_library *l, void *handle, char why[CP_TEXT_BYTES])
{
    for (size_t i = 0; i < l->symbol_count; i++) {
        void *address = handle ? dlsym(handle, l->symbols[i].name) : NULL;
        if (!address && l->symbols[i].needed) {
            snprintf(why, CP_TEXT_BYTES,
                     "%s is too old: %s is missing; CUDA 11.0 or later is needed", l->what,
                     l->symbols[i].name);
            return false;
        }
        memcpy((char *)l->table + l->symbols[i].offset, &address, sizeof address);
    }
    return true;
}

static bool open_vendor_library(const vendor_library *l, char why[CP_TEXT_BYTES])
{
    void *handle = find_and_open_library(l, why);
    if (handle && fill_api_table(l, handle, why))
        return true;
    memset(l->table, 0, l->table_bytes); /* no function of a failed library may be called */
    if (handle)
        dlclose(handle);
    return false;
}

/* True if the driver works; the toolkit's stub library reports no version. */
static bool check_driver(char why[CP_TEXT_BYTES])
{
    int found = 0;
    cp_cuda_result result = cp_driver.driver_version(&found);
    if (result == 0 && found)
        return true;
    snprintf(
        why, CP_TEXT_BYTES,
        "the CUDA driver does not work (cuDriverGetVersion returned %d); run 'nvidia-smi' to check "
        "it; the libcuda.so.1 in the toolkit's folder 'stubs' is not a driver",
        (int)result);
    return false;
}

bool cp_libs_open(char why[CP_TEXT_BYTES])
{
    if (cupti_version)
        return true;
    /* Without a working driver no program uses a GPU, and CUPTI may crash: that of CUDA 13.2 does
     * in cuptiGetVersion. */
    if (!open_vendor_library(&driver_library, why) || !check_driver(why) ||
        !open_vendor_library(&cupti_library, why))
        return false;
    uint32_t found = 0;
    cp_result result = cp_cupti.get_version(&found);
    if (result != CP_SUCCESS || found == 0) {
        snprintf(why, CP_TEXT_BYTES, "CUPTI has no version: %s", cp_result_text(result));
        return false;
    }
    cupti_version = found;
    return true;
}

uint32_t cp_cupti_version(void) { return cupti_version; }

int cp_runtime_version(void)
{
    char unused[CP_TEXT_BYTES];
    int found = 0;
    if (!cp_runtime.runtime_version)
        (void)open_vendor_library(&runtime_library, unused);
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
