/* Records through the copy of the recorder that is linked into it, and through a library that uses
 * the shared one: preloaded, or opened from the path in its argument. */
#include <ckineto/record.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

KINETO_SITE_ARGS(site_own, KINETO_KIND_CPU_OP, "own", {"n", KINETO_ARG_INT});

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 0;
    void *found = dlsym(RTLD_DEFAULT, "lib_record");
    void *lib = found || argc < 2 ? NULL : dlopen(argv[1], RTLD_NOW);
    void (*lib_record)(int64_t);
    if (!found)
        found = lib ? dlsym(lib, "lib_record") : NULL;
    if (!found) {
        fprintf(stderr, "%s: no library to record through: %s\n", argv[0], dlerror());
        return 3;
    }
    *(void **)&lib_record = found;
    for (int i = 0; i < count; i++) {
        kineto_value v = {.i = i};
        kineto_range r = kineto_range_begin_args(&site_own, &v);
        lib_record(i);
        kineto_range_end(r);
    }
    _exit(0);
}
