/* Finds a library that the program has loaded, in whatever folder and version. */
#include "support.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

typedef struct loaded_library {
    const char *stem;
    char path[PATH_MAX]; /* "": not loaded */
} loaded_library;

/* Callback of dl_iterate_phdr: "libx.so" or "libx.so.1" of any folder. */
static int match_library_stem(struct dl_phdr_info *info, size_t size, void *data)
{
    loaded_library *l = data;
    const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    size_t length = strlen(l->stem);
    (void)size;
    if (!slash || strncmp(slash + 1, l->stem, length) != 0 ||
        strncmp(slash + 1 + length, ".so", 3) != 0)
        return 0;
    snprintf(l->path, sizeof l->path, "%s", info->dlpi_name);
    return 1;
}

void *cp_open_loaded(const char *stem)
{
    loaded_library l = {.stem = stem};
    (void)dl_iterate_phdr(match_library_stem, &l);
    return l.path[0] ? dlopen(l.path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) : NULL;
}
