/* What the source counted since a test began. Include after recording.h. */
#ifndef TESTS_NVTX_WATCH_H
#define TESTS_NVTX_WATCH_H

#include "nvtx.h"

/* Count from here: the ledger counts from the start of the process. */
static uint64_t before[CN_TALLY_COUNT];

static kineto_session *watch(void)
{
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++)
        before[i] = cn_tally_count(i);
    return record();
}

static inline uint64_t counted(const char *reason)
{
    static const char *const reasons[] = {
#define CN_X(name, loss, reason, detail) [CN_TALLY_##name] = (reason),
        CN_FRONT_TALLY_MAP(CN_X) CN_NVTX_TALLY_MAP(CN_X)
#undef CN_X
    };
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++)
        if (strcmp(reasons[i], reason) == 0)
            return cn_tally_count(i) - before[i];
    fail_msg("the ledger has no reason '%s'", reason);
    return 0;
}

#endif
