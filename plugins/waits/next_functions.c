/* Finds the functions that the program would call without this library, in the order of the dynamic
 * linker. Each member of cw_next begins as a function that finds all of them and then calls the
 * right one, so that hooks need not check. */
#include "waits.h"

#include <dlfcn.h>
#include <string.h>

/* glibc has it, musl does not. */
extern void *dlvsym(void *, const char *, const char *) __attribute__((weak));

/* ---- functions that libc does not have ------------------------------------------------------- */

#define FUNCTION(type, name, missing, parameters, arguments)                                       \
    static type missing_##name parameters                                                          \
    {                                                                                              \
        (void)((void)arguments, 0);                                                                \
        errno = ENOSYS;                                                                            \
        return (type)(missing);                                                                    \
    }
#define TRIER FUNCTION
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-value"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#include "functions.def"
#pragma GCC diagnostic pop

/* ---- before they are found ------------------------------------------------------------------- */

#define FUNCTION(type, name, missing, parameters, arguments)                                       \
    static CW_COLD type find_##name parameters                                                     \
    {                                                                                              \
        cw_find_functions();                                                                       \
        return cw_next.name arguments;                                                             \
    }
#define TRIER FUNCTION
#define VARIADIC(type, name, parameters, arguments, declared)                                      \
    static CW_COLD type find_##name parameters                                                     \
    {                                                                                              \
        cw_find_functions();                                                                       \
        return cw_next.name arguments;                                                             \
    }
#include "functions.def"

/* The stand-ins for variadic functions have plain parameters; they are passed in the same registers
 * on all machines that we run on. */
cw_functions cw_next = {
#define FUNCTION(type, name, missing, parameters, arguments) .name = find_##name,
#define TRIER                                                FUNCTION
#define VARIADIC(type, name, parameters, arguments, declared)                                      \
    .name = (type(*) declared)(void *)find_##name,
#include "functions.def"
};

/* ---- resolution ------------------------------------------------------------------------------ */

/* glibc keeps conditions of Linuxthreads under the old version of these names. */
static void *find_next_symbol(const char *name)
{
    void *found = NULL;
    if (dlvsym && strncmp(name, "pthread_cond_", 13) == 0)
        found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

/* Through memcpy, because ISO C does not convert object pointers to function pointers. */
static void set_function(void *function, const char *name, void *missing)
{
    void *found = find_next_symbol(name);
    if (!found)
        found = missing;
    __atomic_store((void **)function, &found, __ATOMIC_RELEASE);
}

void cw_find_functions(void)
{
    int saved = errno;
#define FUNCTION(type, name, missing, parameters, arguments)                                       \
    set_function(&cw_next.name, #name, (void *)missing_##name);
#define TRIER FUNCTION
#define VARIADIC(type, name, parameters, arguments, declared)                                      \
    set_function(&cw_next.name, #name, NULL);
#include "functions.def"
    errno = saved;
}
