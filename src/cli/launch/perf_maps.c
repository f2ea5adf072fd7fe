/* See perf_maps.h. */
#include "cli/launch/perf_maps.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "PYTHONPERFSUPPORT"

static time_t requested_at; /* 0: not requested here */

kineto_status kc_perf_maps_request(kineto_error *err)
{
    const char *value = getenv(VARIABLE);
    if (value && *value)
        return KINETO_OK;
    requested_at = time(NULL);
    return setenv(VARIABLE, "1", 1) ? kb_fail_memory(err, NULL) : KINETO_OK;
}

/* A regular file of this user, written since the request: /tmp belongs to everybody, and numbers of
 * processes are used again. */
static bool is_requested_file(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           st.st_mtime >= requested_at;
}

void kc_perf_maps_remove(const kineto_trace *trace)
{
    kineto_process p;
    char path[64];
    for (uint32_t i = 0; requested_at && kineto_trace_process(trace, i, &p); i++) {
        if (p.is_device)
            continue;
        snprintf(path, sizeof path, "/tmp/perf-%lld.map", (long long)p.pid);
        if (is_requested_file(path))
            (void)unlink(path);
    }
}
