/* Notes in the ledger. A line is written for the first event of a kind and when its count has doubled:
 * few lines, and few events are missing from them if the process is killed. */
#include "mpi.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>

static const struct {
    bool is_loss;
    const char *reason, *detail;
} kinds[CX_TALLY_COUNT] = {
#define CX_X(name, is_loss, reason, detail) [CX_TALLY_##name] = {is_loss, reason, detail},
    CX_TALLY_MAP(CX_X)
#undef CX_X
};
static atomic_uint_fast64_t counts[CX_TALLY_COUNT], reported[CX_TALLY_COUNT];

/* The thread that raises `reported` writes the difference: each event is reported once. */
static void report_mpi_tally(cx_tally what, uint64_t count)
{
    uint_fast64_t before = atomic_load(&reported[what]);
    while (before < count)
        if (atomic_compare_exchange_weak(&reported[what], &before, count)) {
            (void)kineto_ledger_add("MPI", kinds[what].reason, count - before, kinds[what].is_loss,
                                    kinds[what].detail);
            return;
        }
}

CX_COLD void cx_count(cx_tally what)
{
    int saved = errno;
    uint64_t count = atomic_fetch_add(&counts[what], 1) + 1;
    if ((count & (count - 1)) == 0)
        report_mpi_tally(what, count);
    errno = saved;
}

__attribute__((destructor)) static void report_remaining_mpi_tallies(void)
{
    for (unsigned i = 0; i < CX_TALLY_COUNT; i++)
        report_mpi_tally((cx_tally)i, atomic_load(&counts[i]));
}

/* In the child of a fork: the parent reports what it has counted. */
static void reset_tallies_in_child(void)
{
    for (unsigned i = 0; i < CX_TALLY_COUNT; i++) {
        atomic_store(&counts[i], 0);
        atomic_store(&reported[i], 0);
    }
}

/* Does the program reach our function by this name? Not if it is linked with MPI statically. */
__attribute__((constructor)) static void start_mpi_source(void)
{
    Dl_info ours, theirs;
    void *function = dlsym(RTLD_DEFAULT, "MPI_Init");
    (void)pthread_atfork(NULL, NULL, reset_tallies_in_child);
    if (function && dladdr(function, &theirs) && dladdr((void *)cx_specs, &ours) &&
        theirs.dli_fbase != ours.dli_fbase && kineto_enabled(KINETO_KIND_MPI))
        cx_count(CX_TALLY_OWN);
}
