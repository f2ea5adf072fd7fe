/* Settings of libckineto that can be made before libckineto is loaded into the process.
 *
 * Daemon client: usually libckineto polls the daemon for requests (KINETO_USE_DAEMON). PyTorch
 * brings another client, libkineto's. The code that attaches ckineto to PyTorch stops that client,
 * or names it here, so that one client serves each request.
 *
 * Quiet: for programs that did not choose libckineto. Its messages must not appear in their output
 * unless KINETO_LOG_LEVEL or KINETO_LOG_FILE request them. */
#include "record/record.h"

static char kr_client_name[48];
static const char *kr_other_client; /* kr_client_name; NULL: the client is libckineto's */
static uint32_t kr_quiet;

/* The name is written once, because other threads may be reading it. */
KINETO_API void kineto_rt_daemon_client_set(const char *other)
{
    if (other && !kr_client_name[0])
        snprintf(kr_client_name, sizeof kr_client_name, "%s", other);
    kb_store_release(&kr_other_client, other ? kr_client_name : NULL);
}

KINETO_API const char *kineto_rt_daemon_client(void) { return kb_load_acquire(&kr_other_client); }

KINETO_API void kineto_rt_quiet_set(void) { kb_store_release(&kr_quiet, 1u); }

KINETO_API bool kineto_rt_quiet(void) { return kb_load_acquire(&kr_quiet) != 0; }
