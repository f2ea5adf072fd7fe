/* Settings of libckineto that are made before it is loaded into a process which is not linked with it.
 *
 * Daemon client: usually libckineto asks a daemon for requests (KINETO_USE_DAEMON). PyTorch brings another
 * client, libkineto's: whatever attaches ckineto to PyTorch stops that client, or names it here, so that
 * each request is answered by one client.
 *
 * Quiet: the program did not choose libckineto, so that its messages must not get into the program's
 * output unless KINETO_LOG_LEVEL or KINETO_LOG_FILE ask for them. */
#include "record/record.h"

static char kr_client_name[48];
static const char *kr_other_client; /* kr_client_name, or NULL: libckineto's */
static uint32_t kr_quiet;

/* The name is written once: others may be reading it. */
KINETO_API void kineto_rt_daemon_client_set(const char *other)
{
    if (other && !kr_client_name[0])
        snprintf(kr_client_name, sizeof kr_client_name, "%s", other);
    kb_store_release(&kr_other_client, other ? kr_client_name : NULL);
}

KINETO_API const char *kineto_rt_daemon_client(void) { return kb_load_acquire(&kr_other_client); }

KINETO_API void kineto_rt_quiet_set(void) { kb_store_release(&kr_quiet, 1u); }

KINETO_API bool kineto_rt_quiet(void) { return kb_load_acquire(&kr_quiet) != 0; }
