/* A program with nothing but malloc, calloc, realloc and free, for allocators that know no more. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern int arena_is_there(void) __attribute__((weak));

int main(void)
{
    enum { COUNT = 1000 };
    static char *blocks[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = i % 3 ? malloc(i + 1) : calloc(i + 1, 1);
        blocks[i] = realloc(blocks[i], 3 * i + 10);
        memset(blocks[i], 'x', 3 * i + 10);
    }
    for (size_t i = 0; i < COUNT; i += 2)
        free(blocks[i]);
    printf("%s: %.10s\n", arena_is_there ? "arena" : "libc", blocks[COUNT - 1]);
    return 5;
}
