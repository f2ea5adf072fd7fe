/* Notes in the ledger. A line is written for the first event and again whenever the count has doubled:
 * few lines, and few events are missing from them if the program is killed. */
#include "openmp.h"

static const struct {
    bool is_loss;
    const char *reason, *detail;
} notes[CT_TALLY_COUNT] = {
#define CT_X(name, loss, reason, detail) [CT_TALLY_##name] = {(loss) != 0, (reason), (detail)},
    CT_TALLY_MAP(CT_X)
#undef CT_X
};

static atomic_uint_fast64_t seen[CT_TALLY_COUNT], written[CT_TALLY_COUNT];

/* The thread that raises `written` writes the difference, so each event is in one line. */
static void write_note(ct_tally what, uint64_t count)
{
    uint_fast64_t before = atomic_load(&written[what]);
    while (before < count)
        if (atomic_compare_exchange_weak(&written[what], &before, count)) {
            (void)kineto_ledger_add("openmp", notes[what].reason, count - before,
                                    notes[what].is_loss, notes[what].detail);
            return;
        }
}

CT_COLD void ct_count(ct_tally what)
{
    uint64_t count = atomic_fetch_add(&seen[what], 1) + 1;
    if ((count & (count - 1)) == 0)
        write_note(what, count);
}

__attribute__((destructor)) static void write_remaining_notes(void)
{
    for (unsigned i = 0; i < CT_TALLY_COUNT; i++)
        write_note((ct_tally)i, atomic_load(&seen[i]));
}

/* The child counts its own events. */
void ct_tally_forked(void)
{
    for (unsigned i = 0; i < CT_TALLY_COUNT; i++) {
        atomic_store(&seen[i], 0);
        atomic_store(&written[i], 0);
    }
}
