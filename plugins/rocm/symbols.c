/* Kernels by the numbers that the SDK gives them when their code is loaded, on any thread of the
 * program; a number is never used again. Names are demangled at the first use, by the thread that reads
 * records: libraries load tens of thousands of kernels and use few. A page of the table, and a symbol in
 * it, is published with one store and stays. */
#include "rocm.h"

#include "../common/demangle.h"

#include <stdlib.h>

#define PAGE_SYMBOLS UINT64_C(4096)
#define PAGES        1024u

typedef struct stored_symbol {
    rp_symbol symbol; /* name.data is NULL until it is demangled */
    char mangled[];
} stored_symbol;
typedef struct symbol_page {
    _Atomic(stored_symbol *) symbols[PAGE_SYMBOLS];
} symbol_page;
static _Atomic(symbol_page *) pages[PAGES];

/* The page of a kernel, created if `create`; NULL: there is none. */
static symbol_page *get_symbol_page(uint64_t kernel, bool create)
{
    uint64_t i = kernel / PAGE_SYMBOLS;
    if (i >= PAGES)
        return NULL;
    symbol_page *page = atomic_load_explicit(&pages[i], memory_order_acquire), *none = NULL;
    if (page || !create)
        return page;
    page = calloc(1, sizeof *page);
    if (page && !atomic_compare_exchange_strong(&pages[i], &none, page)) {
        free(page);
        page = none;
    }
    return page;
}

/* The name without the suffix of a kernel's descriptor. */
static size_t measure_kernel_name(const char *name)
{
    size_t size = strlen(name);
    return size > 3 && strcmp(name + size - 3, ".kd") == 0 ? size - 3 : size;
}

void rp_symbols_add(const rp_kernel_symbol *symbol)
{
    symbol_page *page = get_symbol_page(symbol->kernel, true);
    const char *name = symbol->name ? symbol->name : "";
    size_t size = measure_kernel_name(name);
    stored_symbol *s = page ? malloc(sizeof *s + size + 1) : NULL, *none = NULL;
    if (!s)
        return;
    s->symbol = (rp_symbol){.vector_registers = symbol->vector_registers,
                            .scalar_registers = symbol->scalar_registers};
    memcpy(s->mangled, name, size);
    s->mangled[size] = '\0';
    if (!atomic_compare_exchange_strong(&page->symbols[symbol->kernel % PAGE_SYMBOLS], &none, s))
        free(s);
}

/* Longer names are not demangled, as in Kineto. */
#define MAX_MANGLED_BYTES 8192u

/* The demangled name, which stays allocated; the given one if it is not a C++ name. */
static const char *demangle_name(const char *mangled)
{
    plugin_demangler demangle = strncmp(mangled, "_Z", 2) == 0 && strlen(mangled) < MAX_MANGLED_BYTES
                                    ? plugin_get_demangler()
                                    : NULL;
    int status = -1;
    const char *text = demangle ? demangle(mangled, NULL, NULL, &status) : NULL;
    return text && status == 0 ? text : mangled;
}

const rp_symbol *rp_symbols_get(uint64_t kernel)
{
    symbol_page *page = get_symbol_page(kernel, false);
    stored_symbol *s =
        page ? atomic_load_explicit(&page->symbols[kernel % PAGE_SYMBOLS], memory_order_acquire)
             : NULL;
    if (!s)
        return NULL;
    if (!s->symbol.name.data) {
        const char *text = demangle_name(s->mangled);
        s->symbol.name = (rp_text){text, (uint32_t)strlen(text)};
    }
    return &s->symbol;
}
