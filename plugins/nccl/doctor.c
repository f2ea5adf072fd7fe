/* What `ckineto doctor` reports: is there a library of NCCL or RCCL, can it be read, and does it load profiler plug-ins? A
 * program may bring its own, as PyTorch does, which is not seen here. */
#include "nccl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

NC_EXPORT /* Returns one of the verdicts. Called in a process of its own, since the library is loaded. */
int ckineto_nccl_look(char *text, size_t size);

/* Verdicts, in the order of `ckineto doctor`: found, not found, broken, with a reservation. */
enum { FOUND, NOT_FOUND, BROKEN, NOTE };

static const char *const names[] = {"libnccl.so.2", "librccl.so.1"};

#define FIRST_VERSION 22300 /* NCCL 2.23 */

/* ncclGetVersion touches no GPU. Numbers since 2.9 are 10000 a + 100 b + c. */
static int describe_version(void *library, const char *name, char *text, size_t size)
{
    int (*get_version)(int *);
    void *address = dlsym(library, "ncclGetVersion");
    int version = 0;
    memcpy(&get_version, &address, sizeof get_version);
    if (!address || get_version(&version) != 0) {
        snprintf(text, size, "%s: found, and its version cannot be read: ncclGetVersion fails", name);
        return BROKEN;
    }
    bool is_new = version >= FIRST_VERSION;
    snprintf(text, size, "found: %s %d.%d.%d%s; this source is untested on hardware", name, version / 10000,
             version / 100 % 100, version % 100, is_new ? "" : ", which loads no profiler plug-ins (2.23 does)");
    return NOTE;
}

/* "libnccl.so.2: cannot open shared object file: Permission denied" */
static bool is_permission(const char *error) { return strstr(error, "ermission denied") != NULL; }

int ckineto_nccl_look(char *text, size_t size)
{
    char refused[200] = "";
    for (size_t i = 0; i < NC_COUNT(names); i++) {
        void *library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
        if (library)
            return describe_version(library, names[i], text, size);
        const char *error = dlerror();
        if (error && is_permission(error))
            snprintf(refused, sizeof refused, "%s", error);
    }
    if (refused[0]) {
        snprintf(text, size, "permission: %s; make the file readable", refused);
        return BROKEN;
    }
    snprintf(text, size, "not found: %s, %s (a program that brings its own, as PyTorch does, is recorded from NCCL 2.23 on)", names[0], names[1]);
    return NOT_FOUND;
}
