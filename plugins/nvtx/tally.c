/* Notes in the ledger. A line is written for the first event of a kind, and again whenever the
 * count has doubled: few lines, and few events are missing from them if the program is killed. */
#include "nvtx.h"

static const struct {
    bool is_loss;
    const char *reason, *detail;
} kinds[CN_TALLY_COUNT] = {
#define CN_X(name, loss, reason, detail) [CN_TALLY_##name] = {(loss) != 0, (reason), (detail)},
    CN_TALLY_MAP(CN_X)
#undef CN_X
};

static atomic_uint_fast64_t counts[CN_TALLY_COUNT], reported[CN_TALLY_COUNT];

/* The thread that raises `reported` writes the difference, so that each event is reported once. */
static void report_tally(cn_tally what, uint64_t count)
{
    uint_fast64_t before = atomic_load(&reported[what]);
    while (before < count)
        if (atomic_compare_exchange_weak(&reported[what], &before, count)) {
            (void)kineto_ledger_add("nvtx", kinds[what].reason, count - before, kinds[what].is_loss,
                                    kinds[what].detail);
            return;
        }
}

void cn_count(cn_tally what)
{
    uint64_t count = atomic_fetch_add(&counts[what], 1) + 1;
    if ((count & (count - 1)) == 0)
        report_tally(what, count);
}

__attribute__((destructor)) static void report_remaining_tallies(void)
{
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++)
        report_tally((cn_tally)i, atomic_load(&counts[i]));
}

/* The child counts its own events; the parent reports those before the fork itself. */
void cn_tally_forked(void)
{
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++) {
        atomic_store(&counts[i], 0);
        atomic_store(&reported[i], 0);
    }
}

uint64_t cn_tally_count(cn_tally what) { return atomic_load(&counts[what]); }
