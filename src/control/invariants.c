/* What must not happen, and did: said in the log and in the ledger, and counted. */
#include "control/observers.h"

#include <ckineto/record.h>

static uint64_t count;

void ko_invariant(const char *what)
{
    (void)kb_add_relaxed(&count, UINT64_C(1));
    kb_log(KINETO_LOG_ERROR,
           "on-demand tracing: %s. This is a mistake in the library: please report it", what);
    (void)kineto_ledger_add("control", "invariant violated", 1, false, what);
}

uint64_t ko_invariants(void) { return kb_load_relaxed(&count); }
