/* The demangler of C++ names that a program has, or could have. No source links a C++ runtime. */
#ifndef PLUGINS_DEMANGLE_H
#define PLUGINS_DEMANGLE_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

/* __cxa_demangle: @return the text, to be freed; NULL with *status != 0 if it cannot. */
typedef char *(*plugin_demangler)(const char *mangled, char *buffer, size_t *size, int *status);

/* That of the program's C++ runtime; a program without one gets it loaded at the first mangled
 * name. */
static inline plugin_demangler plugin_search_demangler(void)
{
    void *symbol = dlsym(RTLD_DEFAULT, "__cxa_demangle");
    if (!symbol) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        symbol = library ? dlsym(library, "__cxa_demangle") : NULL;
    }
    plugin_demangler found;
    memcpy(&found, &symbol, sizeof found);
    return found;
}

/** The demangler, searched once; NULL: none. */
static inline plugin_demangler plugin_get_demangler(void)
{
    static _Atomic(plugin_demangler) known;
    static atomic_bool is_searched;
    if (!atomic_load_explicit(&is_searched, memory_order_acquire)) {
        atomic_store(&known, plugin_search_demangler());
        atomic_store_explicit(&is_searched, true, memory_order_release);
    }
    return atomic_load(&known);
}

#endif
