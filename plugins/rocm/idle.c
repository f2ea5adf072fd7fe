/* Waits for running GPU work when a session ends, so that its records are complete. HIP is asked, not
 * made to wait: a kernel may never end, and the program must exit as it would without us. */
#include "libs.h"

#include <dlfcn.h>
#include <time.h>

#define MAX_WAIT_NS       INT64_C(5000000000)
#define HIP_NOT_READY     600
#define FIRST_WAIT_NS     20000
#define LONGEST_WAIT_NS   2000000

/* hipStreamQuery of the HIP library that the program has loaded; NULL: it uses none. */
static int (*find_stream_query(void))(void *)
{
    void *library = cp_open_loaded("libamdhip64");
    void *address = library ? dlsym(library, "hipStreamQuery") : NULL;
    int (*query)(void *);
    memcpy(&query, &address, sizeof query);
    return query;
}

bool rp_wait_for_device(void)
{
    int (*query)(void *) = find_stream_query();
    int64_t until_ns = cp_monotonic_ns() + MAX_WAIT_NS;
    struct timespec pause = {.tv_nsec = FIRST_WAIT_NS};
    while (query && query(NULL) == HIP_NOT_READY) {
        if (cp_monotonic_ns() >= until_ns)
            return false;
        (void)nanosleep(&pause, NULL);
        if (pause.tv_nsec < LONGEST_WAIT_NS)
            pause.tv_nsec *= 2;
    }
    return true;
}
