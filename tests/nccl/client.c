/* client VERSION SCENARIO: the scripted host as a program. Prints the number of errors that the plug-in has returned, which
 * must be none. */
#include "host.h"

#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    static host h;
    if (argc < 3)
        return 2;
    host_load(&h, (unsigned)atoi(argv[1]));
    if (!run_scenario(&h, argv[2]))
        return 2;
    printf("plug-in %s version %u mask %d errors %d\n", h.table->name, h.version, host_mask(&h), atomic_load(&h.errors));
    return atomic_load(&h.errors) != 0;
}
