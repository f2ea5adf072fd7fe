/* Notes in the ledger. A line is written for the first event of a kind, and again whenever the
 * count has doubled: few lines, and few events are missing from them if the program is killed. */
#include "annotations.h"

static const cn_tally_kind front_tallies[CN_TALLY_FRONT_COUNT] = {
#define CN_X(name, loss, reason, detail) [CN_TALLY_##name] = {(loss) != 0, (reason), (detail)},
    CN_FRONT_TALLY_MAP(CN_X)
#undef CN_X
};

static atomic_uint_fast64_t counts[CN_MAX_TALLIES], reported[CN_MAX_TALLIES];

static const cn_tally_kind *get_tally_kind(uint32_t what)
{
    return what < CN_TALLY_FRONT_COUNT ? &front_tallies[what]
                                       : &cn_this_source.tallies[what - CN_TALLY_FRONT_COUNT];
}
static uint32_t get_tally_count(void) { return CN_TALLY_FRONT_COUNT + cn_this_source.tally_count; }

/* The thread that raises `reported` writes the difference, so that each event is reported once. */
static void report_tally(uint32_t what, uint64_t count)
{
    const cn_tally_kind *kind = get_tally_kind(what);
    uint_fast64_t before = atomic_load(&reported[what]);
    while (before < count)
        if (atomic_compare_exchange_weak(&reported[what], &before, count)) {
            (void)kineto_ledger_add(cn_this_source.name, kind->reason, count - before,
                                    kind->is_loss, kind->detail);
            return;
        }
}

void cn_count(uint32_t what)
{
    uint64_t count = atomic_fetch_add(&counts[what], 1) + 1;
    if ((count & (count - 1)) == 0)
        report_tally(what, count);
}

__attribute__((destructor)) static void report_remaining_tallies(void)
{
    for (uint32_t i = 0; i < get_tally_count(); i++)
        report_tally(i, atomic_load(&counts[i]));
}

/* The child counts its own events; the parent reports those before the fork itself. */
void cn_tally_forked(void)
{
    for (uint32_t i = 0; i < CN_MAX_TALLIES; i++) {
        atomic_store(&counts[i], 0);
        atomic_store(&reported[i], 0);
    }
}

uint64_t cn_tally_count(uint32_t what) { return atomic_load(&counts[what]); }
