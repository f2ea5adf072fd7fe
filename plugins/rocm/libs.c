/* Finds and opens rocprofiler-sdk, which is never linked. A program may have two copies of it, that of
 * ROCm and that of a Python package: the one that called us as a tool is used, since another would have
 * no records. */
#include "libs.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#define VARIABLE "CKINETO_ROCPROFILER_LIBRARY"

rp_sdk_api rp_sdk;
static uint32_t sdk_version;

/* The library that holds this address; NULL: none, or the program itself. */
static void *open_library_of(const void *address)
{
    Dl_info info;
    if (!address || !dladdr(address, &info) || !info.dli_fname)
        return NULL;
    return dlopen(info.dli_fname, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
}

/* ---- the SDK --------------------------------------------------------------------------------- */

static const char *const sdk_names[] = {"librocprofiler-sdk.so.1", "librocprofiler-sdk.so.0",
                                        "librocprofiler-sdk.so",
                                        "/opt/rocm/lib/librocprofiler-sdk.so.1",
                                        "/opt/rocm/lib/librocprofiler-sdk.so.0",
                                        "/opt/rocm/lib/librocprofiler-sdk.so"};

/* The library that the user names, and no other. */
static void *open_named_sdk(const char *wanted, char why[CP_TEXT_BYTES])
{
    void *handle = dlopen(wanted, RTLD_NOW | RTLD_LOCAL);
    const char *text = handle ? NULL : dlerror();
    if (!handle)
        snprintf(why, CP_TEXT_BYTES,
                 "rocprofiler-sdk: cannot open the library that " VARIABLE " names: %.180s",
                 text ? text : "no reason given");
    return handle;
}

/* The newest one in the linker's folders, else in the usual folder of ROCm. */
static void *open_installed_sdk(char why[CP_TEXT_BYTES])
{
    for (size_t i = 0; i < CP_COUNT(sdk_names); i++) {
        void *handle = dlopen(sdk_names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle)
            return handle;
    }
    snprintf(why, CP_TEXT_BYTES,
             "rocprofiler-sdk was not found (%s and others); install the package rocprofiler-sdk of "
             "ROCm 6.2 or later, or name the library in " VARIABLE,
             sdk_names[0]);
    return NULL;
}

/* That of the caller, else the one that the user names, the loaded one, or an installed one. */
static void *find_sdk(const void *caller, char why[CP_TEXT_BYTES])
{
    const char *wanted = secure_getenv(VARIABLE);
    void *handle = open_library_of(caller);
    if (handle && dlsym(handle, "rocprofiler_get_version"))
        return handle;
    if (wanted && *wanted)
        return open_named_sdk(wanted, why);
    handle = cp_open_loaded("librocprofiler-sdk");
    return handle ? handle : open_installed_sdk(why);
}

/* POSIX requires function and data pointers to have the same size. */
static const char *fill_sdk_table(void *handle, rp_sdk_api *api)
{
    static const struct {
        const char *name;
        size_t offset;
        bool needed;
    } symbols[] = {
#define RP_X(member, function, parameters, needed)                                                 \
    {"rocprofiler_" #function, offsetof(rp_sdk_api, member), needed},
        RP_SDK_MAP(RP_X)
#undef RP_X
            {"rocprofiler_get_status_string", offsetof(rp_sdk_api, status_text), false}};
    for (size_t i = 0; i < CP_COUNT(symbols); i++) {
        void *address = dlsym(handle, symbols[i].name);
        if (!address && symbols[i].needed)
            return symbols[i].name;
        memcpy((char *)api + symbols[i].offset, &address, sizeof address);
    }
    return NULL;
}

/* The version as the SDK writes it: 10000 major + 100 minor + patch; 0: it has none. */
static uint32_t read_sdk_version(const rp_sdk_api *api)
{
    uint32_t major = 0, minor = 0, patch = 0;
    if (api->get_version(&major, &minor, &patch) != RP_SUCCESS)
        return 0;
    return 10000 * major + 100 * minor + patch;
}

/* The table is filled as a whole or not at all: no function of a library that is too old is called. */
bool rp_libs_open(const void *caller, char why[CP_TEXT_BYTES])
{
    rp_sdk_api api;
    if (sdk_version)
        return true;
    void *handle = find_sdk(caller, why);
    if (!handle)
        return false;
    const char *missing = fill_sdk_table(handle, &api);
    uint32_t version = missing ? 0 : read_sdk_version(&api);
    if (missing)
        snprintf(why, CP_TEXT_BYTES,
                 "rocprofiler-sdk is too old: %s is missing; ROCm 6.2 or later is needed", missing);
    else if (version < RP_OLDEST_VERSION)
        snprintf(why, CP_TEXT_BYTES,
                 "rocprofiler-sdk %u.%u.%u is too old; 0.5 (ROCm 6.2) or later is needed",
                 version / 10000, version / 100 % 100, version % 100);
    if (version < RP_OLDEST_VERSION)
        return false;
    rp_sdk = api;
    sdk_version = version;
    return true;
}

uint32_t rp_sdk_version(void) { return sdk_version; }

/* ---- what it refuses ------------------------------------------------------------------------- */

/* What the user can do, for statuses that have a known reason. */
static const char *get_status_advice(rp_status status)
{
    switch (status) {
    case RP_ERROR_CONTEXT_CONFLICT:
    case RP_ERROR_ALREADY_CONFIGURED:
        return "; another tool uses it in this program: record without that tool";
    case RP_ERROR_CONFIGURATION_LOCKED:
        return "; it was set up before this source came: start the program with 'ckineto record', or "
               "load the source before the program uses HIP";
    case RP_ERROR_INCOMPATIBLE_KERNEL:
        return "; update the amdgpu kernel driver";
    default:
        return "";
    }
}

void rp_explain(rp_status status, const char *doing, char why[CP_TEXT_BYTES])
{
    const char *text = rp_sdk.status_text ? rp_sdk.status_text(status) : NULL;
    snprintf(why, CP_TEXT_BYTES, "%s: rocprofiler-sdk says %.100s (%d)%s", doing,
             text ? text : "error", status, get_status_advice(status));
}

/* ---- other tools ----------------------------------------------------------------------------- */

#define MAX_LIBRARIES 1024u
typedef struct library_list {
    const char *names[MAX_LIBRARIES]; /* of the dynamic linker, valid while they are loaded */
    size_t count;
} library_list;

/* Callback of dl_iterate_phdr. Libraries are opened afterwards: the linker holds its lock here. */
static int list_library(struct dl_phdr_info *info, size_t size, void *data)
{
    library_list *l = data;
    (void)size;
    if (info->dlpi_name && info->dlpi_name[0] == '/' && l->count < MAX_LIBRARIES)
        l->names[l->count++] = info->dlpi_name;
    return 0;
}

/* True if the library itself, not one that it needs, exports a tool's entry that is not ours. */
static bool is_other_tool(const char *path)
{
    Dl_info found, own;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    void *entry = handle ? dlsym(handle, "rocprofiler_configure") : NULL;
    if (handle)
        dlclose(handle);
    return entry && dladdr(entry, &found) && dladdr(&rp_sdk, &own) && found.dli_fname &&
           found.dli_fbase != own.dli_fbase && strcmp(found.dli_fname, path) == 0;
}

/* The first one counts: that there is one is what the user needs to know. */
void rp_find_other_tool(char name[128])
{
    static library_list list; /* too large for the stack of a thread; used under the session lock */
    list.count = 0;
    name[0] = '\0';
    (void)dl_iterate_phdr(list_library, &list);
    for (size_t i = 0; i < list.count; i++) {
        if (!is_other_tool(list.names[i]))
            continue;
        snprintf(name, 128, "%s", strrchr(list.names[i], '/') + 1);
        return;
    }
}
