/* A dynamic linker's interface that allocates when it is asked for a symbol, as some do: what is
 * allocated while the hook looks for its allocator must work, and be given back as if nothing were.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name);

static char *kept;

/* Comes after the hook, so that what is next for it is next for the hook. */
void *dlsym(void *handle, const char *name)
{
    static void *(*real)(void *, const char *);
    if (!real) { /* by version: by name it is this function */
        void *found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.34");
        if (!found)
            found = dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
        memcpy(&real, &found, sizeof found);
    }
    char *block = calloc(3, 11);
    block = realloc(block, 100);
    if (!kept && block) {
        kept = block;
        strcpy(kept, "allocated early");
    } else {
        free(block);
    }
    return real(handle, name);
}

__attribute__((destructor)) static void show(void)
{
    if (!kept)
        return;
    kept = realloc(kept, 5000);
    fprintf(stderr, "%s\n", kept);
    free(kept);
}
