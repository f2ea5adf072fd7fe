/* The shared library listens by itself where the environment says so. Nothing refers to this file:
 * in a program that is linked statically, as the command is, it is not there. */
#include "ondemand/process/process.h"
#include "record/record.h"

#include <errno.h>

/* In a program that did not choose this library, as PyTorch's. */
static void silence_log(void)
{
    if (kineto_rt_quiet() && !kb_setting("KINETO_LOG_LEVEL") && !kb_setting("KINETO_LOG_FILE"))
        (void)kb_log_configure(KINETO_LOG_OFF, NULL, NULL);
}

__attribute__((constructor)) static void listen_from_environment(void)
{
    int saved = errno;
    silence_log();
    ko_life_start_from_environment();
    errno = saved;
}
