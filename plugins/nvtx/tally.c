/* What the ledger says. A line is written for the first of a kind, and again when the count has
 * doubled: few lines, and little is missing from them if the program is killed. */
#include "nvtx.h"

static const struct {
    bool is_loss;
    const char *reason, *detail;
} kinds[CN_TALLY_COUNT] = {
#define CN_X(name, loss, reason, detail) [CN_TALLY_##name] = {(loss) != 0, (reason), (detail)},
    CN_TALLY_MAP(CN_X)
#undef CN_X
};

static atomic_uint_fast64_t counts[CN_TALLY_COUNT], told[CN_TALLY_COUNT];

/* Whoever raises what has been told tells the difference: it is told once. */
static void tell(cn_tally what, uint64_t count)
{
    uint_fast64_t before = atomic_load(&told[what]);
    while (before < count)
        if (atomic_compare_exchange_weak(&told[what], &before, count)) {
            (void)kineto_ledger_add("nvtx", kinds[what].reason, count - before, kinds[what].is_loss,
                                    kinds[what].detail);
            return;
        }
}

void cn_count(cn_tally what)
{
    uint64_t count = atomic_fetch_add(&counts[what], 1) + 1;
    if ((count & (count - 1)) == 0)
        tell(what, count);
}

__attribute__((destructor)) static void tell_rest(void)
{
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++)
        tell((cn_tally)i, atomic_load(&counts[i]));
}

/* The child counts its own; what the parent has not told yet it tells itself. */
void cn_tally_forked(void)
{
    for (unsigned i = 0; i < CN_TALLY_COUNT; i++) {
        atomic_store(&counts[i], 0);
        atomic_store(&told[i], 0);
    }
}

uint64_t cn_counted(cn_tally what) { return atomic_load(&counts[what]); }
