/* Finds and opens PTI, which is never linked. The library that the program has loaded is used, since
 * another copy would see nothing; else an installed one, which a program that needs PTI then shares. */
#include "xpu.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define VARIABLE "CKINETO_PTI_LIBRARY"

xp_pti_api xp_pti;
static uint32_t pti_version;

/* ---- PTI ------------------------------------------------------------------------------------- */

static const char *const pti_names[] = {"libpti_view.so.1", "libpti_view.so.0", "libpti_view.so"};

/* The library that the user names, and no other. */
static void *open_named_pti(const char *wanted, char why[CP_TEXT_BYTES])
{
    void *handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    const char *text = handle ? NULL : dlerror();
    if (!handle)
        snprintf(why, CP_TEXT_BYTES, "PTI: cannot open the library that " VARIABLE " names: %.180s",
                 text ? text : "no reason given");
    return handle;
}

/* The newest one of a folder; "": the linker's folders. */
static void *open_pti_in(const char *folder)
{
    char path[PATH_MAX];
    for (size_t i = 0; i < CP_COUNT(pti_names); i++) {
        snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", pti_names[i]);
        void *handle = !*folder || access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
        if (handle)
            return handle;
    }
    return NULL;
}

/* The folder "lib" next to that of the program, where pip installs PTI for Python. */
static bool find_program_libraries(char folder[PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0)
        return false;
    path[size] = '\0';
    for (int levels = 0; levels < 2; levels++) {
        char *slash = strrchr(path, '/');
        if (!slash)
            return false;
        *slash = '\0';
    }
    return snprintf(folder, PATH_MAX, "%.*s/lib", PATH_MAX - 8, path) > 0;
}

/* The linker's folders, those of pip and conda, and oneAPI's. */
static void *open_installed_pti(void)
{
    static const struct {
        const char *variable, *folder;
    } places[] = {{"VIRTUAL_ENV", "lib"}, {"CONDA_PREFIX", "lib"}, {"ONEAPI_ROOT", "pti/latest/lib"}};
    char folder[PATH_MAX];
    void *handle = open_pti_in("");
    for (size_t i = 0; i < CP_COUNT(places) && !handle; i++) {
        const char *root = secure_getenv(places[i].variable);
        if (!root || !*root)
            continue;
        snprintf(folder, sizeof folder, "%s/%s", root, places[i].folder);
        handle = open_pti_in(folder);
    }
    if (!handle && find_program_libraries(folder))
        handle = open_pti_in(folder);
    return handle ? handle : open_pti_in("/opt/intel/oneapi/pti/latest/lib");
}

static void *find_pti(char why[CP_TEXT_BYTES])
{
    const char *wanted = secure_getenv(VARIABLE);
    if (wanted && *wanted)
        return open_named_pti(wanted, why);
    void *handle = cp_open_loaded("libpti_view");
    handle = handle ? handle : open_installed_pti();
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "PTI was not found (%s and others); install it ('pip install intel-pti', or with oneAPI), "
                 "or name the library in " VARIABLE,
                 pti_names[0]);
    return handle;
}

/* POSIX requires function and data pointers to have the same size. */
static const char *fill_pti_table(void *handle, xp_pti_api *api)
{
    static const struct {
        const char *name;
        size_t offset;
        bool needed;
    } symbols[] = {
#define XP_X(member, symbol, result, parameters, needed) {#symbol, offsetof(xp_pti_api, member), needed},
        XP_PTI_MAP(XP_X)
#undef XP_X
    };
    for (size_t i = 0; i < CP_COUNT(symbols); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && symbols[i].needed)
            return symbols[i].name;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* The table is filled as a whole or not at all: no function of a library that is too old is called. */
bool xp_libs_open(char why[CP_TEXT_BYTES])
{
    xp_pti_api api;
    if (pti_version)
        return true;
    void *handle = find_pti(why);
    if (!handle)
        return false;
    const char *missing = fill_pti_table(handle, &api);
    if (missing) {
        snprintf(why, CP_TEXT_BYTES, "PTI is too old: %s is missing; 0.10 or later is needed", missing);
        return false;
    }
    xp_version v = api.version();
    if (v.major > 999 || XP_VERSION(v.major, v.minor) < XP_OLDEST_VERSION) {
        snprintf(why, CP_TEXT_BYTES, "PTI %u.%u.%u is not supported; 0.10 or later is needed", v.major,
                 v.minor, v.patch);
        return false;
    }
    xp_pti = api;
    pti_version = XP_VERSION(v.major, v.minor);
    return true;
}

uint32_t xp_pti_version(void) { return pti_version; }

/* ---- what it refuses ------------------------------------------------------------------------- */

/* What the user can do, for statuses that have a known reason. */
static const char *get_status_advice(xp_status status)
{
    switch (status) {
    case XP_NOT_IMPLEMENTED:
        return "; it finds no GPU with Level Zero: see 'ckineto doctor', line xpu";
    case XP_ERROR_DRIVER:
        return "; update the GPU driver";
    case XP_TRACING_NOT_INITIALIZED:
        return "; set ZE_ENABLE_TRACING_LAYER=1 for the program, or update the GPU driver";
    default:
        return "";
    }
}

void xp_explain(xp_status status, const char *doing, char why[CP_TEXT_BYTES])
{
    const char *text = xp_pti.result_text ? xp_pti.result_text(status) : NULL;
    snprintf(why, CP_TEXT_BYTES, "%s: PTI says %.100s (%d)%s", doing, text ? text : "error", status,
             get_status_advice(status));
}
