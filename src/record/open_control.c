/* Opens libckineto in programs that are linked with libckineto-rt alone. Linkers drop a library of
 * which no function is called (--as-needed), so a program that only records has no libckineto,
 * which serves requests for traces. If the environment makes the process traceable on demand,
 * libckineto is opened from the folder of this library.
 *
 * Not in processes that did not choose this library, where it was preloaded or opened by a plug-in
 * or by Python: they have their own rules for which library serves requests. */
#include "record/host.h"

#include <ckineto/base.h>
#include <dlfcn.h>
#include <link.h>

#define TEXT_OF(x) #x
#define TEXT(x)    TEXT_OF(x)
#define FULL_NAME  "libckineto.so." TEXT(KINETO_VERSION_MAJOR)
#define RT_STEM    "libckineto-rt.so"

static bool is_control_requested(void)
{
    static const char *const names[] = {"CKINETO_CONTROL", "CKINETO_RING"};
    for (size_t i = 0; i < KB_COUNT(names); i++) {
        const char *value = kb_os_getenv(names[i]);
        if (value && *value && strcmp(value, "0") != 0)
            return true;
    }
    return kb_os_getenv("KINETO_USE_DAEMON") != NULL; /* any value, as for libkineto */
}

static const ElfW(Dyn) *dynamic_of(const struct dl_phdr_info *info)
{
    for (size_t i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
            return (const ElfW(Dyn) *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
    return NULL;
}

/* Does the object name this library among those that it needs (DT_NEEDED)? */
static bool needs_recorder(const struct dl_phdr_info *info)
{
    const ElfW(Dyn) *first = dynamic_of(info);
    ElfW(Addr) strings = 0;
    for (const ElfW(Dyn) *d = first; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_STRTAB)
            strings = d->d_un.d_ptr;
    if (strings < info->dlpi_addr) /* not relocated by this libc */
        strings += info->dlpi_addr;
    for (const ElfW(Dyn) *d = first; d && d->d_tag != DT_NULL; d++)
        if (d->d_tag == DT_NEEDED &&
            strncmp((const char *)(strings + d->d_un.d_val), RT_STEM, strlen(RT_STEM)) == 0)
            return true;
    return false;
}

/* Result of a walk over the loaded objects. */
typedef struct search {
    bool chosen;   /* an object other than ckineto's own was linked with this library */
    bool is_there; /* libckineto is loaded, too */
} search;

static int inspect_loaded_object(struct dl_phdr_info *info, size_t size, void *context)
{
    search *s = context;
    (void)size;
    const char *slash = strrchr(info->dlpi_name, '/'), *name = slash ? slash + 1 : info->dlpi_name;
    s->is_there |= strncmp(name, "libckineto.so", strlen("libckineto.so")) == 0;
    if (strncmp(name, "libckineto", strlen("libckineto")) != 0 &&
        strncmp(name, "ckineto-", strlen("ckineto-")) != 0)
        s->chosen |= needs_recorder(info);
    return 0;
}

/* From the folder of this library, wherever that is. */
static void open_full_library(void)
{
    Dl_info info;
    char path[1024] = FULL_NAME;
    const char *slash =
        dladdr(&kr_pool, &info) && info.dli_fname ? strrchr(info.dli_fname, '/') : NULL;
    if (slash)
        snprintf(path, sizeof path, "%.*s/" FULL_NAME, (int)(slash - info.dli_fname),
                 info.dli_fname);
    if (!dlopen(path, RTLD_NOW | RTLD_LOCAL))
        kb_log(KINETO_LOG_WARNING,
               "the environment makes this process traceable on demand, but %s; install libckineto "
               "next to " RT_STEM,
               dlerror());
}

void kr_control_open(void)
{
    search s = {false, false};
    if (!is_control_requested())
        return;
    (void)dl_iterate_phdr(inspect_loaded_object, &s);
    if (s.chosen && !s.is_there)
        open_full_library();
}
