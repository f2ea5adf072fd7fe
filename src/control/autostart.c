/* The shared library listens by itself where the environment says so. Nothing refers to this file:
 * in a program that is linked statically, as the command is, it is not there. */
#include "control/control.h"

#include <errno.h>

__attribute__((constructor)) static void listen_from_environment(void)
{
    int saved = errno;
    ko_life_environment();
    errno = saved;
}
