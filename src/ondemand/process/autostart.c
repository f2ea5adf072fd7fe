/* The constructor of the shared library: starts listening by the environment, before main. It is a
 * file of its own because nothing refers to it: a static linker leaves it out, so that statically
 * linked programs, like the command, do not start by themselves. */
#include "ondemand/process/process.h"
#include "record/record.h"

#include <errno.h>

/* Programs that did not choose this library (PyTorch) get no log unless they configure it. */
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
