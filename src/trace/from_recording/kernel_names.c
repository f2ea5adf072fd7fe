/* Reads /proc/kallsyms: a line "ADDRESS TYPE NAME", for modules followed by "[MODULE]", for each symbol. Its
 * addresses are those of this boot only. */
#include "trace/from_recording/kernel_names.h"

#include <pthread.h>
#include <stdio.h>

#define MAX_LINE 1024

typedef struct kernel_symbol {
    uint64_t address;
    uint32_t name, size; /* in text */
} kernel_symbol;

struct kt_kernel_names {
    KB_VEC(kernel_symbol) symbols; /* by address */
    KB_VEC(char) text;
};

static bool is_function_type(char type) { return type == 't' || type == 'T' || type == 'W' || type == 'w'; }

/* False: out of memory. Without the right to see them all addresses are 0. */
static bool add_line(kt_kernel_names *n, const char *line)
{
    char *at;
    uint64_t address = strtoull(line, &at, 16);
    if (!address || at[0] != ' ' || !is_function_type(at[1]) || at[2] != ' ')
        return true;
    size_t size = strcspn(at + 3, "\t\n");
    kernel_symbol s = {address, (uint32_t)n->text.count, (uint32_t)size};
    if (!kb_vec_reserve(&n->text, n->text.count + size) || !kb_vec_push(&n->symbols, s))
        return false;
    memcpy(n->text.data + n->text.count, at + 3, size);
    n->text.count += size;
    return true;
}

/* Of several names for an address the first one in the file counts. */
static int compare_symbols(const void *left, const void *right)
{
    const kernel_symbol *a = left, *b = right;
    return a->address != b->address ? KB_COMPARE(a->address, b->address) : KB_COMPARE(a->name, b->name);
}

static kt_kernel_names names_of_kernel; /* empty: they cannot be read */

static void read_kernel_names(void)
{
    char line[MAX_LINE];
    kt_kernel_names *n = &names_of_kernel;
    FILE *file = fopen("/proc/kallsyms", "re");
    bool ok = file != NULL;
    while (ok && fgets(line, sizeof line, file))
        ok = add_line(n, line);
    if (file)
        fclose(file);
    if (!ok)
        n->symbols.count = 0;
    if (n->symbols.count)
        qsort(n->symbols.data, n->symbols.count, sizeof *n->symbols.data, compare_symbols);
}

const kt_kernel_names *kt_kernel_names_get(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, read_kernel_names);
    return names_of_kernel.symbols.count ? &names_of_kernel : NULL;
}

kineto_string kt_kernel_name(const kt_kernel_names *n, uint64_t address)
{
    size_t at = 0;
    KB_LOWER_BOUND(at, n->symbols.count, n->symbols.data[at].address <= address);
    if (at == 0)
        return (kineto_string){"", 0};
    const kernel_symbol *s = &n->symbols.data[at - 1];
    while (s > n->symbols.data && s[-1].address == s->address)
        s--;
    return (kineto_string){n->text.data + s->name, s->size};
}
