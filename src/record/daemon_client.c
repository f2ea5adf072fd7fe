/* Which client of this process asks a daemon for requests (KINETO_USE_DAEMON). Usually it is libckineto's.
 * PyTorch brings another one, libkineto's: who attaches ckineto to PyTorch stops that client, or names
 * it here, so that each request is answered by one client. */
#include "record/record.h"

static char kr_client_name[48];
static const char *kr_other_client; /* kr_client_name, or NULL: libckineto's */

/* The name is written once: others may be reading it. */
KINETO_API void kineto_rt_daemon_client_set(const char *other)
{
    if (other && !kr_client_name[0])
        snprintf(kr_client_name, sizeof kr_client_name, "%s", other);
    kb_store_release(&kr_other_client, other ? kr_client_name : NULL);
}

KINETO_API const char *kineto_rt_daemon_client(void) { return kb_load_acquire(&kr_other_client); }
